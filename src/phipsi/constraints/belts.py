"""Belts and chains around pulleys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.constraints.belt_spans import BeltForce, of_pulleys
from phipsi.constraints.constraint import number_of, numbers_of
from phipsi.constraints.couplings import Relations, Shares
from phipsi.errors import ModelError
from phipsi.model.model import Model


@final
@dataclass(frozen=True)
class Belt(Relations):
    """A belt or chain without slip around pulleys on parallel shafts of one body: n − 1 rows.

    `radii` (m) of the `pulleys`, in the same order; a negative radius: the pulley touches the
    belt's back and turns against the first one. A crossed belt is a negative radius too.

    How hard a belt pulls its shafts depends on how tight it is. With the `tension` (N) at which it
    was put on, the mean of the spans' tensions over their lengths, which elastic belts on fixed
    shafts keep; or with the `slack_tension` (N), the least of them, as a tensioner or the loose
    side of a chain (0) holds it: `joint_reactions` has the pull on all shafts, and `transmitted`
    that of each span at both its ends. Without, shafts get efforts only.

    >>> import phipsi as pp
    >>> belt = pp.constraints.Belt(name="belt", pulleys=("motor", "drum"), radii=(0.02, 0.1))
    """

    pulleys: Sequence[str] = field(kw_only=True)
    radii: ArrayLike = field(kw_only=True)
    tension: float | None = field(default=None, kw_only=True)
    slack_tension: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = (self.pulleys,) if isinstance(self.pulleys, str) else tuple(self.pulleys)
        radii = numbers_of(self.radii, f"{self._who()}: radii")
        if len(names) < 2 or len(set(names)) < len(names) or radii.shape != (len(names),):
            raise ModelError(
                f"{self._who()}: pulleys {list(names)} and radii of shape {radii.shape}; a belt "
                f"runs over two or more different pulleys, each with its radius:\n"
                f"    pulleys=('motor', 'drum'), radii=(0.02, 0.1)"
            )
        if not np.isfinite(radii).all() or not radii.all():
            raise ModelError(
                f"{self._who()}: radii {radii.tolist()} must be finite, in m, and none 0."
            )
        if self.tension is not None and self.slack_tension is not None:
            raise ModelError(
                f"{self._who()}: give either tension=, the mean of its spans on fixed shafts, or "
                f"slack_tension=, the least that a tensioner holds."
            )
        for what in ("tension", "slack_tension"):
            if getattr(self, what) is not None:
                number = number_of(getattr(self, what))
                if not 0 <= number < np.inf:
                    raise ModelError(
                        f"{self._who()}: {what}={getattr(self, what)!r} must be a finite number of "
                        f"newtons, 0 or more."
                    )
                object.__setattr__(self, what, number)
        object.__setattr__(self, "pulleys", names)
        object.__setattr__(self, "radii", tuple(radii.tolist()))

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """One row per neighbouring pair, named "motor–drum"."""
        roles = {f"pulley {i}": name for i, name in enumerate(self.pulleys)}
        signs, radii = self._coaxial(model, roles), np.asarray(self.radii)
        speeds = list(zip(self.pulleys, radii * signs, strict=True))
        return {f"{p}–{q}": {p: x, q: -y} for (p, x), (q, y) in pairwise(speeds)}

    def shaft_forces(self, model: Model) -> tuple[BeltForce, ...]:
        """The pull of the spans, if one of the tensions is given."""
        slack = self.slack_tension is not None
        tension = self.slack_tension if slack else self.tension
        if tension is None:
            return ()
        bodies = tuple(model.joint(name).index for name in self.pulleys)
        shares = [[of.get(n, 0.0) for n in self.pulleys] for of in self.relations(model).values()]
        return (
            of_pulleys(
                model, bodies, np.asarray(self.radii), np.array(shares), tension, self._who(),
                slack=slack,
            ),
        )  # fmt: skip

    def _geometry(self, model: Model) -> str:
        """How tight it is."""
        return "Say how tight the belt is, for example in N:\n    tension=200.0"
