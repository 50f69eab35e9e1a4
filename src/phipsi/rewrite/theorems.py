"""All theorems, the printed forms that are wrong, and where both come from.

The rows are in `theorems_*.py`, grouped as in the papers' appendices.
"""

from __future__ import annotations

from phipsi.rewrite.identity import Erratum, Identity
from phipsi.rewrite.theorems_algebra import ALGEBRA
from phipsi.rewrite.theorems_appendix import APPENDIX
from phipsi.rewrite.theorems_bias import BIAS
from phipsi.rewrite.theorems_dynamics import DYNAMICS
from phipsi.rewrite.theorems_elements import ELEMENTS
from phipsi.rewrite.theorems_physics import PHYSICS
from phipsi.rewrite.theorems_recursions import RECURSIONS

THEOREMS: tuple[Identity, ...] = (
    *ELEMENTS,
    *ALGEBRA,
    *APPENDIX,
    *DYNAMICS,
    *RECURSIONS,
    *BIAS,
    *PHYSICS,
)
