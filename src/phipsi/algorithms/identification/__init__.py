"""Inertial parameters: regressors, their identification, and which of them motion shows."""

from phipsi.algorithms.identification.least_squares import identify
from phipsi.algorithms.identification.minimal_parameters import base_parameters
from phipsi.algorithms.identification.regressors import (
    inertial_parameters,
    kinetic_energy_regressor,
    parameter_names,
    potential_energy_regressor,
    regressor,
)
from phipsi.loaded import only_public

__all__ = [
    "base_parameters",
    "identify",
    "inertial_parameters",
    "kinetic_energy_regressor",
    "parameter_names",
    "potential_energy_regressor",
    "regressor",
]
__dir__ = only_public(__name__)
