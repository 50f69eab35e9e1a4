"""Motors: joints whose motion is prescribed, at a constant rate or as a function of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.arrays import TRACED
from phipsi.core.constraints import Array, Constraint, check_name, one_coordinate, rate_row
from phipsi.core.model import Closure, Model, fill
from phipsi.core.spatial import ARRAYS
from phipsi.errors import ModelError, number_of
from phipsi.transmissions.cams import CLOCK, law_closure
from phipsi.transmissions.discontinuities import TIMES, jump_of
from phipsi.user_operators import RateLaw, TracedLaw, traced_law


@final
@dataclass(frozen=True, eq=False)
class Motor(Constraint):
    """Prescribed joint motion (rheonomic constraint), 1 row.

    The joint turns or slides as prescribed, whatever torque that takes: minus its multiplier. Minus
    the multiplier of the clock's row is the power that all constraints with functions of time bring
    into the mechanism.

    Give either `rate` or `angle`. Functions are written as laws are, and need a clock in the model,
    ``builder.add_clock()``: time is the coordinate of the joint `clock`, which a system drives at
    velocity 1. An angle is a position, so a simulation does not drift off it; a rate has none. A
    rate that jumps is an error, and so is an angle with a corner: they would require impulses.

    Parameters
    ----------
    name : str
        Name of the constraint, unique in its system.
    joint : str
        A joint with one coordinate.
    rate : float or callable, optional
        rad/s or m/s: a number (0 is a brake) or a function of time.
    angle : callable, optional
        A function of time in rad (or m).
    clock : str, optional
        The clock. Default: the one of the model.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> driven = pp.System(arm, [pp.constraints.Motor(name="crank", joint="joint1", rate=3.0)])
    >>> motion = pp.forward_dynamics(driven, [0, 0.5], [3, 1], [0, 0], return_multipliers=True)
    >>> float(abs(motion.vdot[0]).round(9)), -motion.f.round(3)
    (0.0, array([2.373]))
    """

    name: str = field(kw_only=True)
    joint: str = field(kw_only=True)
    rate: float | Callable[[Any], Any] | None = field(default=None, kw_only=True)
    angle: Callable[[Any], Any] | None = field(default=None, kw_only=True)
    clock: str | None = field(default=None, kw_only=True)
    traced: Any = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        check_name(self.name, "Motor")
        who = self._who()
        if not isinstance(cast(object, self.joint), str):
            raise ModelError(f"{who}: joint={self.joint!r} must be the name of a joint.")
        if (self.rate is None) is (self.angle is None):
            raise ModelError(
                f"{who}: give either its rate or its angle:\n"
                f"    rate=5.0      rate=lambda t: 5 * np.tanh(t)      angle=lambda t: 0.1 * t**2"
            )
        if self.angle is None and not callable(self.rate):
            if not np.isfinite(number_of(self.rate)):
                raise ModelError(
                    f"{who}: rate={self.rate!r} must be one finite number, in rad/s or m/s, or a "
                    f"function of time."
                )
            if self.clock is not None:
                raise ModelError(f"{who}: a constant rate needs no clock; remove clock=.")
            fill(self, rate=number_of(self.rate))
            return
        fill(self, clock=self.clock or CLOCK)
        if self.joint == self.clock:
            raise ModelError(f"{who}: joint {self.joint!r} is its own clock; name another joint.")
        if self.angle is not None:
            angle = self.angle
            function = traced_law(angle, 1, f"{who}: angle")  # errors about the function itself
            _check_time(function, who, "angle")
            law: Any = traced_law(lambda q, t: q - angle(t), 2, f"{who}: angle")
        else:
            function = traced_law(self.rate, 1, f"{who}: rate")  # type: ignore[arg-type]
            _check_time(function, who, "rate")
            law = RateLaw(function)
        fill(self, traced=law)

    @property
    def row(self) -> str:
        """The name of its row."""
        return "rate" if self.angle is None else "angle"

    def closure(self, model: Model) -> Closure:
        """One row, "rate" or "angle"."""
        if self.clock is not None:
            names = self.joint, self.clock
            return law_closure(model, self.name, self.row, names, self.traced, self._who())
        points, motion = rate_row(model, one_coordinate(model, self.joint, self._who()))
        matrix = motion.reshape(1, 12)
        return Closure(name=self.name, rows=("rate",), points=tuple(points), matrix=matrix)

    def prescribed(self, rows: int) -> Array:
        """The rate, if it is constant."""
        return np.full(rows, 0.0 if self.clock is not None else self.rate)

    def steady_joint(self) -> str | None:
        """Its joint, if its rate is constant."""
        return self.joint if self.clock is None else None

    def fitted(self, model: Model, q: Array) -> Motor | None:
        """Itself, if it has no position or is there."""
        if self.angle is None:
            return self
        x = [float(q[i]) for i in self.closure(model).places]
        return self if abs(self.traced.value(x, ARRAYS)) < 1e-9 else None

    def with_locked(
        self, model: Model, locked: Mapping[str, ArrayLike], before: Model
    ) -> Constraint | None:
        """Nothing, if the joint is locked."""
        if self.clock is not None and self.clock in locked:
            raise ModelError(
                f"{self._who()}: joint {self.clock!r} is its clock; time cannot be locked."
            )
        return None if self.joint in locked else self

    def __reduce__(self) -> tuple[Any, ...]:
        """As its steps: functions written in place cannot be pickled."""
        return _motor_again, (self.name, self.joint, self.clock, self.row, self.traced, self.rate
                              if self.clock is None else None)  # fmt: skip


def clock_motor(joint: str) -> Motor:
    """The motor of a clock: the coordinate of its joint is the time."""
    return Motor(name=joint, joint=joint, rate=1.0)


def _check_time(function: TracedLaw, who: str, what: str) -> None:
    """A function of time does not jump; nor does the rate of an angle."""
    if not function.program.branches:
        return
    jump = jump_of(lambda t: function.value([t], ARRAYS), TIMES)
    if jump is None and what == "angle":
        what = "rate of change of its angle"
        jump = jump_of(lambda t: function.slope(0, [t], (), ARRAYS), TIMES)
    if jump is not None:
        raise ModelError(
            f"{who}: the {what} jumps from {jump.before:.4g} to {jump.after:.4g} at t = "
            f"{jump.at:.6g} s. That would require an impulse, and a simulation would step over it. "
            "Use a ramp, for example of 20 ms:\n"
            f"    s = np.clip((t - {jump.at:.6g}) / 0.02, 0, 1)      # then s² (3 − 2 s) goes "
            "smoothly from 0 to 1"
        )


def _motor_again(
    name: str, joint: str, clock: str | None, row: str, traced: Any, rate: float | None
) -> Motor:
    if clock is None:
        return Motor(name=name, joint=joint, rate=rate)
    found = object.__new__(Motor)
    function: Any = _Recorded(traced)
    given = {"rate": None, "angle": None, row: function}
    fill(found, name=name, joint=joint, clock=clock, traced=traced, **given)
    return found


@final
class _Recorded:
    """A function of time that was recorded: the part of a law that is not the joint's."""

    def __init__(self, law: Any) -> None:
        self._law = law

    def __call__(self, t: Any) -> Any:
        """Its value on numbers, or on what is traced again."""
        is_number = isinstance(t, (int, float, np.number, np.ndarray))
        ops = ARRAYS if is_number else TRACED
        if isinstance(self._law, RateLaw):
            return -self._law.slope(1, [0.0, t], (), ops)
        return -self._law.value([0.0, t], ops)
