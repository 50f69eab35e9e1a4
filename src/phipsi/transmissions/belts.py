"""Belts and chains around pulleys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.constraints import (
    Relations,
    ShaftForces,
    Shares,
    axis_of,
    frame_of,
    names_of,
    numbers_of,
    rows_of_shares,
)
from phipsi.core.model import Model, fill
from phipsi.errors import InputError, ModelError, number_of
from phipsi.support import fields_in_line

Array = NDArray[Any]


@final
@dataclass(frozen=True)
class Belt(Relations):
    """A belt or chain without slip around pulleys on parallel shafts of one body: n − 1 rows.

    How hard a belt pulls its shafts depends on its tension. With `tension` or `slack_tension`,
    `joint_reactions` returns the pull on all shafts, and `transmitted` that of each span at both
    its ends. Without, shafts get torques only.

    Parameters
    ----------
    name : str
        Name of the constraint, unique in its system.
    offset : array_like, optional
        As for `Coupling`. Default: 0.
    pulleys : sequence of str
        The joints of the pulleys.
    radii : array_like
        Radii of the pulleys in m, in the same order. A pulley with a negative radius touches the
        belt's back and turns against the first one; a crossed belt is a negative radius too.
    tension : float, optional
        N, at which the belt was put on: the mean of the spans' tensions over their lengths, which
        elastic belts on fixed shafts keep.
    slack_tension : float, optional
        N, the smallest tension of the spans, as a tensioner or the loose side of a chain (0) holds
        it.

    Examples
    --------
    >>> import phipsi as pp
    >>> belt = pp.constraints.Belt(name="belt", pulleys=("motor", "drum"), radii=(0.02, 0.1))
    """

    pulleys: Sequence[str] = field(kw_only=True)
    radii: ArrayLike = field(kw_only=True)
    tension: float | None = field(default=None, kw_only=True)
    slack_tension: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = names_of(self.pulleys, f"{self._who()}: pulleys")
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
                "slack_tension=, the smallest, which a tensioner holds."
            )
        for what in ("tension", "slack_tension"):
            if getattr(self, what) is not None:
                number = number_of(getattr(self, what))
                if not 0 <= number < np.inf:
                    raise ModelError(
                        f"{self._who()}: {what}={getattr(self, what)!r} must be a finite number of "
                        f"newtons, 0 or more."
                    )
                fill(self, **{what: number})
        fill(self, pulleys=names, radii=tuple(radii.tolist()))

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
        return "Pass the tension of the belt, for example in N:\n    tension=200.0"


# ---- spans ---------------------------------------------------------------------------------------
# The straight parts of a belt around pulleys in a plane, and how hard they pull.
#
# Along a span from pulley i to pulley j in the direction d, with n to its left, the belt touches
# pulley i at c_i − r_i n if the belt runs counterclockwise around pulleys of positive radius; so
# (c_j − c_i) · n = r_j − r_i. Span i pulls both its pulleys with the tension T_i: this turns pulley
# i by r_i (T_i − T_{i−1}). The rows r_i q_i = r_{i+1} q_{i+1} turn it by −r_i (λ_i − λ_{i−1}), so
# that T_i = T − λ_i, with λ = 0 in the span that closes the belt. T is how tight the belt is.


class Spans(NamedTuple):
    """Spans of a belt in the plane, from each pulley to the next and from the last to the first.

    `normals` (n, 2), unit vectors to the left of the spans; `starts`, `ends` (n, 2), where they
    touch; `turn`, +1 if the pulleys are listed counterclockwise, −1 if clockwise.
    """

    normals: Array
    starts: Array
    ends: Array
    turn: float

    def __repr__(self) -> str:
        return fields_in_line(self)


def belt_spans(centres: Array, radii: Array) -> Spans | None:
    """The spans around pulleys (n, 2) with signed radii, negative where the back runs over one.

    None if a pulley is inside another, so that no line touches both.
    """
    x, y = (np.asarray(centres, float) - np.mean(centres, axis=0)).T
    order = np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))
    in_line = 1e-9 * np.sum(x**2 + y**2)  # then counterclockwise, whatever rounding says
    turn = -1.0 if len(x) > 2 and order < -in_line else 1.0
    r = turn * np.asarray(radii, float)
    to = np.roll(centres, -1, axis=0)
    rise = np.roll(r, -1) - r
    across = to - centres
    distance = np.linalg.norm(across, axis=1)
    if (distance <= np.abs(rise)).any():
        return None
    cosine = rise / distance
    sine = np.sqrt(1.0 - cosine**2)
    e = across / distance[:, None]
    left = np.stack([-e[:, 1], e[:, 0]], axis=-1)
    n = cosine[:, None] * e + sine[:, None] * left
    return Spans(n, centres - r[:, None] * n, to - np.roll(r, -1)[:, None] * n, turn)


_ROUNDING = 1e-11  # of a tension
_FULL, _MOST = 2 * np.pi, 1.5 * np.pi  # rad: once around, and the most of three or more pulleys


def wraps(spans: Spans, radii: Array) -> Array:
    """The angles (n,) in rad by which the belt lies on the pulleys, from 0 to 2 π.

    A belt that would have to bend away from a pulley by β lies on it by 2 π − β.
    """
    x, y = spans.normals.T
    before, after = np.roll(np.arctan2(y, x), 1), np.arctan2(y, x)
    found = (spans.turn * np.sign(radii) * (after - before)) % _FULL
    return np.where(_FULL - found < 1e-9, 0.0, found)  # pulleys that it touches at a point


def untouched(spans: Spans, radii: Array) -> int | None:
    """The pulley that the belt does not press on, if there is one.

    A belt in a plane turns once altogether, or not at all if it is crossed.
    """
    angles = wraps(spans, radii)
    turned = round(float(np.sum(np.sign(radii) * angles) / _FULL))
    fine = len(angles) == 2 or (turned in (0, 1) and angles.max() <= _MOST)
    return None if fine else int(np.argmax(angles))


@final
@dataclass(frozen=True, eq=False)
class BeltForce(ShaftForces):
    """The pull of every span at both its ends, in the carrier's axes.

    `places` (2 n, 3) and `along` (2 n, 3), unit vectors: span i at pulley i, then at pulley i + 1.
    Tensions are T − `turn` λ; T is such that their mean over the spans' `lengths` is `tension`, or
    if `slack` that the least of them is.
    """

    row: int
    rows: int
    bodies: tuple[int, ...]
    carrier: int
    places: Array
    along: Array
    lengths: Array
    turn: float
    tension: float
    slack: bool
    shares: Array
    who: str

    def tensions(self, f: Array) -> Array:
        """Tensions (n, spans) in N; an error where a span would have to push."""
        loads = np.concatenate([-self.turn * f, np.zeros((len(f), 1))], axis=1)
        if self.slack:
            return loads + (self.tension - loads.min(axis=1, keepdims=True))
        mean = loads @ self.lengths / self.lengths.sum()
        found = loads + (self.tension - mean)[:, None]
        least = float(np.min(found, initial=np.inf))
        if least < -_ROUNDING * float(np.max(np.abs(found), initial=0.0)):
            needed = float(np.max(mean - loads.min(axis=1)))
            raise InputError(
                f"{self.who}: with a tension of {self.tension:.6g} N a span of the belt would be "
                f"slack: {least:.6g} N. A belt cannot push. These loads need at least\n"
                f"    tension={_rounded_up(needed):.6g}\n"
                f"or a tensioner, or a chain, whose least tension is given: slack_tension=0.0"
            )
        return found

    def pushes(self, f: Array, poses: Array) -> tuple[tuple[int, ...], Array, Array]:
        """The pull of every span on its first pulley, then on its second."""
        R, at = frame_of(poses, self.carrier)
        places = at[:, None] + np.einsum("nij,kj->nki", R, self.places)
        pulls = np.repeat(self.tensions(f), 2, axis=1)[..., None] * self.along
        hosts = tuple(
            k for pair in zip(self.bodies, np.roll(self.bodies, -1), strict=True) for k in pair
        )
        return hosts, places, np.einsum("nij,nkj->nki", R, pulls)


def of_pulleys(
    model: Model,
    bodies: tuple[int, ...],
    radii: Array,
    shares: Array,
    tension: float,
    who: str,
    *,
    slack: bool,
) -> BeltForce:
    """Of a belt in the plane of the first pulley's origin; `shares` (rows, pulleys)."""
    z, first = axis_of(model, bodies[0])
    x = np.cross([0.0, 1.0, 0.0] if abs(z[1]) < 0.9 else [1.0, 0.0, 0.0], z)
    x = x / np.linalg.norm(x)
    plane = np.stack([x, np.cross(z, x)])
    centres = np.array([plane @ (axis_of(model, k)[1] - first) for k in bodies])
    found = belt_spans(centres, radii)
    if found is None:
        names = [model.body_names[k] for k in bodies]
        raise ModelError(
            f"{who}: no belt runs around pulleys {names} with radii {radii.tolist()} m: one is "
            "inside another. Move the joints by their placements, or remove tension=, which needs "
            "to know where the belt is."
        )
    loose = untouched(found, radii)
    if loose is not None:
        names = [model.joint_names[k] for k in bodies]
        raise ModelError(
            f"{who}: a belt around {names} with radii {radii.tolist()} m does not press on "
            f"pulley {names[loose]!r}: it would have to bend away from it. List the pulleys in the "
            f"order in which the belt meets them; where its back runs over one, and only there, "
            f"the radius is negative, here perhaps\n"
            f"    radii={_turned(radii, loose)}"
        )
    ways = found.ends - found.starts
    lengths = np.linalg.norm(ways, axis=1)
    d = ways / lengths[:, None]
    both = np.stack([found.starts, found.ends], axis=1).reshape(-1, 2)
    along = np.stack([d, -d], axis=1).reshape(-1, 2)
    return BeltForce(
        row=0, rows=len(shares), bodies=bodies, carrier=model.parent[bodies[0]],
        places=first + both @ plane, along=along @ plane, lengths=lengths, turn=found.turn,
        tension=tension, slack=slack, shares=rows_of_shares(model, bodies, shares), who=who,
    )  # fmt: skip


def _rounded_up(x: float) -> float:
    """To four digits, and no less: an error's number must do when it is pasted."""
    digit = 10.0 ** (np.floor(np.log10(x)) - 3)
    return float(np.ceil(x / digit * (1 - 0.1 * _ROUNDING)) * digit)


def _turned(radii: Array, which: int) -> tuple[float, ...]:
    """The radii with another sign of one, or of all if none is positive."""
    if (radii < 0).all():
        return tuple((-radii).tolist())
    return tuple(float(-r if i == which else r) for i, r in enumerate(radii))
