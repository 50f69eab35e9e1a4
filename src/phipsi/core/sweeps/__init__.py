"""From expressions to loops: equations over the bodies, scheduled into sweeps."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "arithmetic": "Arithmetic Block",
        "cheapest_plan": ". STANDARD CostedForm PlanCost plans_of",
        "entries": (
            ". Entry Rows add cross cross_matrix dot full gyration_rows identity inertia_parts "
            "inertia_rows is_fused is_zero lower_half matmul matvec minus mul mul_add mul_sub neg "
            "plus sub transpose_rows turning_rows with_each"
        ),
        "equation_builder": "no_modes",
        "explanation": "Explanation explain_steps",
        "ir": (
            "EACH Body Cost Domain Field Form Keep Kind Loop LoopStep Naming Operation Reads "
            "StepKind Variant dependencies parts_of reached space_of terms_of"
        ),
        "lower": "Lowering",
        "operations": "flops operation",
        "operator_levels": "OperatorLevels factors_of levels_of",
        "request": (
            "MODES NEEDS_POINTS LoweredRequest Request Result check_modes check_request fields_of "
            "for_bodies_of lower_request rewrite_request"
        ),
        "row_elimination": "KeptRows RowElimination Terms",
        "schedule": "schedule",
        "verify": ". Rule",
    },
)
