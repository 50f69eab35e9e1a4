"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.identification.least_squares import identify
from phipsi.identification.minimal_parameters import base_parameters
from phipsi.identification.regressors import (
    REGRESSOR as REGRESSOR,
    inertial_parameters,
    kinetic_energy_regressor,
    parameter_names,
    potential_energy_regressor,
    regressor,
    regressor_form as regressor_form,
)

__all__ = [
    "base_parameters",
    "identify",
    "inertial_parameters",
    "kinetic_energy_regressor",
    "parameter_names",
    "potential_energy_regressor",
    "regressor",
]
