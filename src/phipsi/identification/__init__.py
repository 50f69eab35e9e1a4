"""Inertial parameters: regressors, their identification, and which of them motion shows."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "least_squares": "identify",
        "minimal_parameters": "base_parameters",
        "regressors": (
            "inertial_parameters kinetic_energy_regressor parameter_names "
            "potential_energy_regressor regressor"
        ),
    },
    within={
        "regressors": "REGRESSOR regressor_form",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
