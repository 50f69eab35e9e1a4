"""Any expression as a dense matrix, by plain linear algebra."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "expression_matrices": "evaluate_dense",
    },
    within={
        "configuration": "Configuration along_modes",
        "evaluation": "DenseEvaluator",
        "expression_matrices": "arranged",
        "modal_formulas": "ways_to_divide",
        "override_values": "check_expression collect",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
