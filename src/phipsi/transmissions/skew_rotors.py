"""SkewRotors: rotors at a joint whose effect is not that of constant inertias.

Rotors with the moments I, the axes u and the ratios N turn with the rates v of the joint of body k.
Beyond armature, those on the parent p and those on the body itself add to the kinetic energy

    v* g_p* ω_p + v* g_k* ω_k + ½ v* A v           g = Σ I u N,  A = Σ I N* N without its diagonal

A body with a row for each of these rates, V(k) = [ω; v; rates], has all of this in its own block:
ω_p = R (ω_k − W v), where R turns the axes of k into those of p, and W v is how the joint turns, so

    M(k) = [[J, s~, C], [−s~, m, 0], [C*, 0, A − W* C_p − C_p* W]],   C = C_p + g_k,  C_p = R* g_p

and H(k) = [H_J, 1]: the rows move as the rates do. M(k) changes with q of its own joint alone; all
rates that turn the body have a row, and the rates are those of coordinates. For a joint with one
turning rate, the part of g_p along its axis is constant inertias instead (`rotor_inertias.py`), so
that W* C_p = 0.

Reasons: docs/decisions/0060, 0071.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

from phipsi.core.model import RateRows
from phipsi.transmissions import rotor_blocks

if TYPE_CHECKING:
    from phipsi.transmissions.eliminate_rotor_rows import RotorElimination

Vectors = tuple[tuple[float, float, float], ...]


@final
@dataclass(frozen=True, slots=True)
class SkewRotors(RateRows):
    """The rates of a joint that have rows, in its own numbering, and the numbers of its rotors.

    `above`, a vector g_p for each row, in the axes of the joint on the parent; `own`, g_k in body
    axes; `pairs`, the lower half of A below its diagonal, row by row. All in kg·m² times ratio.
    `across`: there is one rate, and `above` is at right angles to its axis.
    """

    attachment: ClassVar[str] = "rotors"
    rates: tuple[int, ...]
    above: Vectors
    own: Vectors
    pairs: tuple[float, ...] = ()
    across: bool = False

    @property
    def numbers(self) -> list[float]:
        """All that is not known to be zero: `above`, `own`, `pairs`."""
        both = [g for vectors in (self.above, self.own) for g in vectors if any(g)]
        return [*(x for g in both for x in g), *(x for x in self.pairs if x)]

    @property
    def kinds(self) -> tuple[str, ...]:
        """What `numbers` are: vectors, then plain numbers."""
        vectors = sum(any(g) for g in (*self.above, *self.own))
        return (*("axis",) * vectors, *("number",) * sum(x != 0 for x in self.pairs))

    @property
    def formulas(self) -> str:
        """What formulas depend on: the rows, and which numbers are there."""
        there = (*(any(g) for g in (*self.above, *self.own)), *(x != 0 for x in self.pairs))
        across = " across" if self.across else ""
        return f"skew rotors of {self.rates}{across}, {''.join('01'[x] for x in there)}"

    @property
    def aligned(self) -> tuple[float, ...] | None:
        """g_p of one rate: Γ is two products then, and Γ = 0 costs little more than no Γ."""
        return self.above[0] if self.across else None

    # ---- programs --------------------------------------------------------------------------------

    def inertia(self, a: Any) -> Any:
        """M(q)."""
        return rotor_blocks.inertia(a)

    def inertia_along(self, a: Any, directions: Sequence[Sequence[Any]]) -> list[Any]:
        """The lower half of Ṁ{…}; the six rigid rows and columns do not change."""
        return rotor_blocks.inertia_along(a, directions)

    def second(self, a: Any, given: Sequence[Sequence[Any]], y: Any, z: Any) -> list[Any]:
        """The lower half of z* Ṁ{s; t; …} y by s and t."""
        return rotor_blocks.second(a, given, y, z)

    def gyroscopic(self, a: Any, rows: Any, V: Sequence[Any]) -> Any:
        """b, of M(q) and the motion."""
        return rotor_blocks.gyroscopic(a, rows, V)

    @classmethod
    def elimination(cls, rows: Sequence[SkewRotors]) -> RotorElimination:
        """Γ in the place of the rows."""
        from phipsi.transmissions.eliminate_rotor_rows import RotorElimination

        corner = any(not x.across for x in rows)
        return RotorElimination(corner, corner or any(map(any, (g for x in rows for g in x.own))))

    # ---- elsewhere -------------------------------------------------------------------------------

    def dense_inertia(self, c: Any, k: int, along: Sequence[Any] = ()) -> Any:
        """M(k), or its change along rates of the rows."""
        from phipsi.transmissions.dense_rotors import inertia

        return inertia(c, k, along)

    def refusal(self, function: str, model: Any, joint: str) -> str:
        """Which rotor it is, and what to use instead."""
        rotors = [r for r in model.rotors if joint in r.joints]
        rotor = next((r for r in rotors if r.of_rates), rotors[0])
        why = "their axes are not parallel"
        if rotor.of_rates:
            why = "it turns with several rates of that joint, each by its own ratio"
        return (
            f"{function} is for bodies with constant inertias, and what rotor {rotor.name!r} "
            f"does depends on joint {joint!r}: {why}. Make the rotor a body of its own, with a "
            f"pp.constraints.Coupling to its joint."
        )
