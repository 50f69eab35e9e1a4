"""All theorems in the order of the papers, and the printed forms that fail."""

from __future__ import annotations

from phipsi.rewrite.identity import Identity
from phipsi.theorems.bias_terms import BIAS_TERMS
from phipsi.theorems.contact_equations import CONTACTS
from phipsi.theorems.dynamics_recursions import DYNAMICS
from phipsi.theorems.factorizations import FACTORIZATIONS
from phipsi.theorems.independent_physics import PHYSICS
from phipsi.theorems.mass_matrix_sensitivities import SENSITIVITIES
from phipsi.theorems.misprints import ERRATA
from phipsi.theorems.transformations import BLOCKS, TRANSFORMATIONS

THEOREMS: tuple[Identity, ...] = (
    *TRANSFORMATIONS,
    *BIAS_TERMS,
    *FACTORIZATIONS,
    *BLOCKS,
    *DYNAMICS,
    *PHYSICS,
    *SENSITIVITIES,
    *CONTACTS,
)

__all__ = ["ERRATA", "THEOREMS"]
