"""Cams: any smooth relation f(q, t) = 0 of joints with one coordinate each, written as a function.

Time is the coordinate of a clock, a joint that turns with rate 1 (`ModelBuilder.add_clock`): so f
is a function of coordinates only, and what holds for constraints holds for functions of time too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.constraints import Array, Constraint, check_name, one_coordinate, rate_row
from phipsi.core.model import MOST_COORDINATES, Closure, Model, Pose, fill
from phipsi.core.spatial import ARRAYS
from phipsi.errors import ModelError, number_of
from phipsi.support import fields_in_line
from phipsi.transmissions.discontinuities import COORDINATES, jump_of
from phipsi.user_operators import RateLaw, TracedLaw, traced_law

CLOCK = "clock"


@final
@dataclass(frozen=True, eq=False)
class Cam(Constraint):
    """Any smooth relation between the coordinates of joints, and time: law(q…) = offset, 1 row.

    The multiplier f of the row acts on each joint as the torque −f · ∂law/∂q, and not on its
    bearings: the point of contact of the surfaces is unknown, so `joint_reactions` has no side
    force.

    Parameters
    ----------
    law : callable
        A function of the coordinates of `joints`, in their order, and with a `clock` of the time
        last. It is written in plain arithmetic and NumPy's functions, as laws are (np.where instead
        of if), and is traced once: rows and their rates are its derivatives, so it must have two
        that are continuous.
    name : str
        Name of the constraint, unique in its system.
    joints : sequence of str
        Revolute, prismatic or helical joints, at most six.
    offset : float, optional
        Right-hand side. Default: 0.
    clock : str, optional
        A joint made by `ModelBuilder.add_clock`; a system drives it at velocity 1. Default: no
        time.

    Examples
    --------
    >>> import numpy as np
    >>> import phipsi as pp
    >>> b = pp.ModelBuilder()
    >>> _ = b.add_body("shaft", inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.01))
    >>> slide = pp.joints.Prismatic((0, 0, 1))
    >>> _ = b.add_body("valve", joint=slide, inertia=pp.SpatialInertia(0.1, (0, 0, 0), 0.0))
    >>> def lobe(angle, lift):
    ...     return lift - 0.01 * (1 - np.cos(angle))
    >>> cam = pp.constraints.Cam(lobe, name="cam", joints=("shaft", "valve"))
    >>> engine = pp.System(b.build(), [cam])
    >>> q, v = engine.project([1.0, 0.0], [10.0, 0.0])
    >>> abs(float(v[1] - 0.01 * np.sin(q[0]) * v[0])) < 1e-15
    True
    """

    law: Callable[..., Any]
    name: str = field(kw_only=True)
    joints: Sequence[str] = field(kw_only=True)
    offset: float = field(default=0.0, kw_only=True)
    clock: str | None = field(default=None, kw_only=True)
    traced: Any = field(init=False, repr=False, default=None)
    before_locking: tuple[Cam, Model] | None = field(init=False, repr=False, default=None)

    def __repr__(self) -> str:
        return fields_in_line(self)

    def __post_init__(self) -> None:
        check_name(self.name, "Cam")
        names = (self.joints,) if isinstance(self.joints, str) else tuple(self.joints)
        who, offset = self._who(), number_of(self.offset)
        every = names if self.clock is None else (*names, self.clock)
        if not names or len(set(every)) < len(every) or len(every) > MOST_COORDINATES:
            raise ModelError(
                f"{who}: joints {list(names)}{self._with_clock()}: it relates one to "
                f"{MOST_COORDINATES} different joints, the clock among them."
            )
        if not np.isfinite(offset):
            raise ModelError(f"{who}: offset={self.offset!r} must be one finite number.")
        traced = _recorded(self.law, every, offset, f"{who}: law")
        fill(self, joints=names, offset=offset, traced=traced)

    def _with_clock(self) -> str:
        return "" if self.clock is None else f" and clock {self.clock!r}"

    def closure(self, model: Model) -> Closure:
        """One row, "law"."""
        every = self.joints if self.clock is None else (*self.joints, self.clock)
        return law_closure(model, self.name, "law", tuple(every), self.traced, self._who())

    def fitted(self, model: Model, q: Array) -> Cam:
        """The same cam, with the offset that it has where the joints are now."""
        at = self.closure(model)
        gap = self.traced.value([float(q[i]) for i in at.places], ARRAYS)
        return self._as_before(replace(self, offset=self.offset + float(gap)))

    def with_locked(
        self, model: Model, locked: Mapping[str, ArrayLike], before: Model
    ) -> Constraint | None:
        """The cam of the joints that are left, the others in its law as numbers."""
        every = self.joints if self.clock is None else (*self.joints, self.clock)
        gone = {n: float(np.squeeze(locked[n])) for n in every if n in locked}
        if not gone:
            return self
        left = tuple(n for n in self.joints if n not in gone)
        if not left:
            return None
        clock = None if self.clock in gone else self.clock
        law = _PartialFunction(self.law, tuple(every), gone)
        out = replace(self, law=law, joints=left, clock=clock)
        fill(out, before_locking=(self, before))
        return self._as_before(out)

    def _as_before(self, changed: Cam) -> Cam:
        """The changed cam, with the cam and model in which none of its joints was locked."""
        if self.before_locking is not None:
            fill(changed, before_locking=self.before_locking)
        return changed

    def __reduce__(self) -> tuple[Any, ...]:
        """As its steps: functions written in place cannot be pickled."""
        whole = replace(self, offset=0.0).traced
        names = self.name, self.joints, self.offset, self.clock
        return _cam_again, (whole, *names, self.before_locking)


def _cam_again(
    law: TracedLaw, name: str, joints: Any, offset: float, clock: str | None, before: Any
) -> Cam:
    out = Cam(law, name=name, joints=joints, offset=offset, clock=clock)
    fill(out, before_locking=before)
    return out


class _PartialFunction:
    """A function with some of its arguments held at numbers."""

    def __init__(self, law: Any, names: tuple[str, ...], numbers: Mapping[str, float]) -> None:
        self._law, self._names, self._numbers = law, names, dict(numbers)

    def __call__(self, *free: Any) -> Any:
        rest = iter(free)
        return self._law(*(self._numbers[n] if n in self._numbers else next(rest)
                           for n in self._names))  # fmt: skip


def _recorded(law: Any, names: tuple[str, ...], offset: float, who: str) -> TracedLaw:
    """The steps of law − offset, checked: it depends on every joint, and does not jump."""
    found = traced_law(law, len(names), who)
    if offset:
        found = traced_law(lambda *x: law(*x) - offset, len(names), who)
    for j, name in enumerate(names):
        if not found.depends_on(j):
            raise ModelError(
                f"{who} does not depend on the coordinate of joint {name!r}, argument {j + 1}. "
                "Remove the joint from joints=, or use the argument."
            )
    if found.jumps:
        raise ModelError(
            f"{who} uses {' and '.join(found.jumps)}, whose value jumps; no motion follows a jump. "
            f"Write it with smooth functions."
        )
    _check_branches(found, names, who)
    return found


def _check_branches(found: TracedLaw, names: tuple[str, ...], who: str) -> None:
    """Choices, np.where, do not jump along any coordinate, from a few places."""
    if not found.program.branches:
        return
    for others in np.random.default_rng(0).uniform(0.0, 1.0, (3, len(names))).tolist():
        for j, name in enumerate(names):

            def along(x: Array, j: int = j, at: list[float] = others) -> Any:
                return found.value([x if i == j else at[i] for i in range(len(at))], ARRAYS)

            jump = jump_of(along, COORDINATES)
            if jump is not None:
                raise ModelError(
                    f"{who} jumps from {jump.before:.4g} to {jump.after:.4g} where joint {name!r} "
                    f"is at {jump.at:.6g}; no motion follows a jump. Let the branches of np.where "
                    f"meet."
                )


def law_closure(
    model: Model, name: str, row: str, joints: tuple[str, ...], law: Any, who: str
) -> Closure:
    """The row of a function of the coordinates of joints."""
    points: list[tuple[int, Pose]] = []
    numbers: list[Array] = []
    places: list[int] = []
    for joint in joints:
        view = _joint(model, joint, who)
        ends, motion = rate_row(model, view)
        points += ends
        numbers += list(motion)
        places.append(model.q_slice(joint).start)
    matrix = np.concatenate(numbers)[None, :]
    return Closure(
        name=name,
        rows=(row,),
        points=tuple(points),
        matrix=matrix,
        laws=(law,),
        places=tuple(places),
    )


def _joint(model: Model, name: str, who: str) -> Any:
    if name == CLOCK and name not in model.joint_names:
        raise ModelError(
            f"{who} is a function of time, and the model has no clock. Add one to its builder, a "
            "joint whose coordinate is the time:\n"
            "    builder.add_clock()\n"
            "or, to an existing model:\n"
            "    builder = pp.ModelBuilder(); builder.add_clock()\n"
            "    model = model.attach(builder.build())"
        )
    return one_coordinate(model, name, who)


__all__ = ["CLOCK", "Cam", "RateLaw", "law_closure"]
