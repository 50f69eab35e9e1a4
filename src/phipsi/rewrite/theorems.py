"""All theorems, the printed forms that are wrong, and where both come from.

The rows are in `theorems_*.py`, grouped as in the papers' appendices.
"""

from __future__ import annotations

from phipsi.rewrite.identity import Identity
from phipsi.rewrite.theorems_algebra import ALGEBRA
from phipsi.rewrite.theorems_appendix import APPENDIX
from phipsi.rewrite.theorems_bias import BIAS
from phipsi.rewrite.theorems_components import COMPONENTS
from phipsi.rewrite.theorems_dynamics import DYNAMICS
from phipsi.rewrite.theorems_elements import ELEMENTS
from phipsi.rewrite.theorems_errata import ERRATA
from phipsi.rewrite.theorems_physics import PHYSICS
from phipsi.rewrite.theorems_recursions import RECURSIONS
from phipsi.rewrite.theorems_sensitivity import SENSITIVITY

THEOREMS: tuple[Identity, ...] = (
    *ELEMENTS,
    *ALGEBRA,
    *APPENDIX,
    *DYNAMICS,
    *RECURSIONS,
    *BIAS,
    *PHYSICS,
    *SENSITIVITY,
    *COMPONENTS,
)

SOURCES: dict[str, str] = {
    "SOA": "G. Rodriguez, A. Jain, K. Kreutz: Spatial operator algebra for multibody system "
    "dynamics.",
    "MM": "G. Rodriguez, K. Kreutz-Delgado: Spatial operator factorization and inversion of "
    "the manipulator mass matrix.",
    "MC": "G. Rodriguez, A. Jain, K. Kreutz-Delgado: Spatial operator algebra for manipulator "
    "modeling and control.",
    "88-11": "JPL Publication 88-11, Part I.",
    "MS": "A. Jain, G. Rodriguez: Multibody mass matrix sensitivity analysis using spatial "
    "operators.",
    "theory": "A numbered section of docs/theory.",
    "dictionary": "Translation between the papers' conventions for capital phi and psi.",
    "derived": "Follows from the identities before it; derived here.",
    "independent": "Physics computed without the operators: poses, Newton, Lagrange.",
    "energy balance": "The rate of kinetic energy is the power of the efforts.",
}
"""What the sources of the identities are; the short names of the papers come first."""

__all__ = ["ERRATA", "SOURCES", "THEOREMS"]
