"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.algorithms.identification.least_squares import identify
from phipsi.algorithms.identification.minimal_parameters import base_parameters
from phipsi.algorithms.identification.regressors import (
    inertial_parameters,
    kinetic_energy_regressor,
    parameter_names,
    potential_energy_regressor,
    regressor,
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
