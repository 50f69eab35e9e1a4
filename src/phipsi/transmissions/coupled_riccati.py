"""The Riccati family of hinges whose rates are coupled with their bodies, by rotors on any axis.

With Γ from rates to body forces,

    ℳ = H φ M φ* H* + Jr + H φ̃ Γ + Γ* φ̃* H*,      G = (P H* + Γ) D⁻¹,   P = M + E (P − G D G*) E*

and ψ as before: ℳ = (I + H φ K) D (I + H φ K)*. Jr is here with H Γ + Γ* H*.
"""

from __future__ import annotations

from dataclasses import dataclass

from phipsi.core.expressions import FORCES, RATES, Expr, leaf, zero
from phipsi.core.operators import CATALOGUE, FAMILIES, Riccati


@dataclass(frozen=True)
class CoupledRiccati(Riccati):
    """A family with Γ; G = (P H* + Γ) D⁻¹.

    Programs have it in the place of families on bodies with a row for each rate of rotors
    (`eliminate_rotor_rows.py`). No rule knows it, because P − G D G* is not π̄ P here.

    **Source:** theory/flexible-bodies 8 (G3).
    """

    Gamma: Expr = zero(RATES, FORCES)

    def leaf(self, name: str) -> Expr:
        """The member of the family with this catalogue name."""
        return leaf(CATALOGUE[name], (self.H, self.E, self.M, self.armature, self.Gamma))


FAMILIES[5] = CoupledRiccati
