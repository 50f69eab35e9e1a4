"""Signals that arguments of laws are bound to: points, distances, loads, outputs of laws, noise."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from phipsi.core.arrays import Array
from phipsi.core.expressions import Expr
from phipsi.core.model import checked_axes
from phipsi.errors import LawError, is_whole, one_of
from phipsi.package_state import only_public

__all__ = [
    "Signal",
    "constraint_efforts",
    "constraint_loads",
    "contact_force",
    "expression",
    "interval",
    "joint_efforts",
    "length",
    "length_rate",
    "noise",
    "output",
    "pose",
    "position",
    "previous",
    "twist",
    "velocity",
]
__dir__ = only_public(__name__)


@dataclass(frozen=True, eq=False)
class Signal:
    """A quantity that is computed for a law: its kind, and what it is of.

    Parameters
    ----------
    kind : str
        Name of the function of `pp.signals` that made it.
    of : tuple
        Its arguments.
    """

    kind: str
    of: tuple[Any, ...]

    def __repr__(self) -> str:
        law, rest = self.of[:1], self.of[1:]
        if self.kind in ("output", "previous"):
            law = tuple(x if isinstance(x, Signal) else getattr(x, "name", x) for x in law)
        return f"{self.kind}({', '.join(map(repr, (*law, *rest)))})"

    if not TYPE_CHECKING:

        def __getitem__(self, index: object) -> None:
            raise LawError(
                f"signals.{self!r} has values only inside a law. Bind the whole signal to an "
                f"argument, and take its entry there:\n    @pp.law\n    def height(x):\n"
                f"        return x[{index!r}]\n    height.bind(x=pp.signals.{self!r})"
            )

        __iter__ = None  # not a sequence, although it answers an index


def position(point: Any) -> Signal:
    """Position (3,) of a point in the world, m.

    Parameters
    ----------
    point : str or tuple
        A body, a frame, or (name, offset in m in its axes).

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.position("tip")
    position('tip')
    """
    return Signal("position", (point,))


def velocity(point: Any) -> Signal:
    """Velocity (3,) of a point, world axes, m/s.

    Parameters
    ----------
    point : str or tuple
        A body, a frame, or (name, offset in m in its axes).

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.velocity(("tip", (0, 0, 0.1)))
    velocity(('tip', (0, 0, 0.1)))
    """
    return Signal("velocity", (point,))


def pose(point: Any) -> Signal:
    """Pose X_WF (4, 4) of a body or frame in the world.

    Parameters
    ----------
    point : str or tuple
        A body, a frame, or (name, offset in m in its axes).

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.pose("tip")
    pose('tip')
    """
    return Signal("pose", (point,))


def twist(point: Any) -> Signal:
    """Twist (6,) of a frame at its origin, world axes: [angular (rad/s); linear (m/s)].

    Parameters
    ----------
    point : str or tuple
        A body, a frame, or (name, offset in m in its axes).

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.twist("tip")
    twist('tip')
    """
    return Signal("twist", (point,))


def length(a: Any, b: Any) -> Signal:
    """Distance () of two points, m.

    Parameters
    ----------
    a, b : str or tuple
        Points: a body, a frame, "world", or (name, offset in m in its axes).

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.length("tip", "world")
    length('tip', 'world')
    """
    return Signal("length", (a, b))


def length_rate(a: Any, b: Any) -> Signal:
    """Rate of change of the distance () of two points, m/s; 0 where they meet.

    Parameters
    ----------
    a, b : str or tuple
        Points: a body, a frame, "world", or (name, offset in m in its axes).

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.length_rate("tip", "world")
    length_rate('tip', 'world')
    """
    return Signal("length_rate", (a, b))


def expression(
    form: Expr | str, points: Sequence[Any] | None = None, axes: str = "world"
) -> Signal:
    """Value of an operator expression: a vector, or an operator as a matrix.

    An expression without points may be bound without this function.

    Parameters
    ----------
    form : Expr or str
        An expression, as an object or a string.
    points : sequence, optional
        As for `compile`.
    axes : str, optional
        As for `compile`.

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.expression("J", points=["tip"])
    expression('J', ['tip'], 'world')
    """
    return Signal("expression", (form, points, checked_axes(axes)))


def joint_efforts(*joints: str) -> Signal:
    """Total joint torques and forces (nv,): from outside plus those of all laws, N·m or N.

    Forces on bodies are not included. A law whose own tau changes what it reads is an algebraic
    loop, and rejected; `previous(joint_efforts())` breaks the loop. A sampled law reads the tau
    that acts just before its sample, and needs no `previous`.

    Parameters
    ----------
    *joints : str
        Names of joints, in the order of the result. Default: all.

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.joint_efforts("elbow")
    joint_efforts('elbow')
    """
    return Signal("joint_efforts", joints)


def constraint_loads(*constraints: str) -> Signal:
    """Multipliers f (rows,) of the constraints of a `System`, as `constraint_forces` computes them.

    ℳ vdot = tau − bias − (A J)* f under all torques and forces of the simulation: the mechanism
    exerts f on the closure, N along linear and N·m about angular rows. Algebraic loops are as for
    `joint_efforts`. Statically indeterminate loads, of redundant rows, are rejected at the start of
    a simulation.

    Parameters
    ----------
    *constraints : str
        Names of constraints, in the order of the result. Default: all rows, in the order of
        `system.row_names`.

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Notes
    -----
    **Cost:** that of `forward_dynamics` of the system.
    **Source:** SOA eq. 0.23; theory/closed-chains 6.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.constraint_loads("pin")
    constraint_loads('pin')
    """
    return Signal("constraint_loads", constraints)


def constraint_efforts() -> Signal:
    """Joint torques and forces −(A J)* f (nv,) with which the constraints of a `System` act.

    ℳ vdot = tau − bias + constraint_efforts, N·m or N. They are unique also where redundant rows
    leave the multipliers f undetermined. Algebraic loops are as for `joint_efforts`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.constraint_efforts()
    constraint_efforts()
    """
    return Signal("constraint_efforts", ())


def contact_force(pair: str) -> Signal:
    """Contact force (3,) between two shapes, on side a in world axes, N.

    The sum over the points of the pair; its mean over the last step, as a sensor would measure it.

    Parameters
    ----------
    pair : str
        Name of a pair "a|b" of `Contacts`.

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.contact_force("foot|ground")
    contact_force('foot|ground')
    """
    return Signal("contact_force", (pair,))


def output(law: Any, name: str = "tau") -> Signal:
    """Output of another law of the simulation, at the same time.

    Parameters
    ----------
    law : Law or str
        The law or its name. Several laws of one name are told apart only by the law itself.
    name : str, optional
        Name of the output.

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.output("filter", "y")
    output('filter', 'y')
    """
    return Signal("output", (_law(law, "output"), name))


def previous(law: Any, name: str = "tau", initial: Any = 0.0) -> Signal:
    """Value of a law's output, or of a signal, in the previous step or sample (unit delay).

    It breaks algebraic loops: a law may read its own previous output, or the load that its tau
    changes. In a step it is the value at the beginning of the step before, after the samples that
    were taken there; `initial` in the first step. Of a sampled law it is the output that was held
    before the present one, until the next sample: `initial` until the second.

    Parameters
    ----------
    law : Law, str or Signal
        The law, its name, or a signal such as `constraint_loads()`.
    name : str, optional
        Name of the output of a law.
    initial : array_like, optional
        Value before the first step, in the shape of the output; a number will do for a signal. Laws
        that read the same previous value must pass the same `initial`.

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.previous("hold", "tau", initial=[0.0, 0.0])
    previous('hold', 'tau', [0.0, 0.0])
    >>> pp.signals.previous(pp.signals.joint_efforts("elbow"))
    previous(joint_efforts('elbow'), 0.0)
    """
    if isinstance(law, Signal) and law.kind == "output":
        law, name = law.of
    if isinstance(law, Signal):
        return Signal("previous", (law, initial))
    return Signal("previous", (_law(law, "previous"), name, initial))


def _law(law: Any, signal: str) -> Any:
    """A law, or the name of one."""
    if not isinstance(getattr(law, "name", law), str):
        raise LawError(f"{signal}: {law!r} is neither a law nor the name of one")
    return law


def interval() -> Signal:
    """Sample time () of the law that reads it, s; the step if it has no rate.

    A law that sums up over its samples, as an integral does, needs it: it follows `Law.sampled`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.interval()
    interval()
    """
    return Signal("interval", ())


def noise(
    shape: int | Sequence[int] = (), *, kind: str = "normal", seed: int | None = None
) -> Signal:
    """Random numbers that are held during a step: the same for the same step of a trajectory.

    They are computed from the numbers of the step, the trajectory and the entry, not drawn from a
    sequence, so they do not depend on the batch, the threads, or a restart.

    Parameters
    ----------
    shape : int or sequence of int, optional
        Shape.
    kind : {"normal", "uniform"}, optional
        "normal" (mean 0, variance 1) or "uniform" (from 0 to 1).
    seed : int, optional
        Another seed gives other numbers, and signals of the same seed have the same numbers.
        Default: the names of the law and of its argument are the seed, so that every argument has
        numbers of its own.

    Returns
    -------
    Signal
        An argument for `Law.bind`.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.signals.noise(3, seed=1)
    noise((3,), 'normal', 1)
    """
    size = (shape,) if isinstance(shape, int) else tuple(shape)
    one_of("noise: kind", kind, ("normal", "uniform"), error=LawError)
    if seed is not None and (not is_whole(seed) or not 0 <= seed < _HALF):
        raise LawError(f"noise: seed={seed!r} is not an integer from 0 to 2^26 - 1, or None")
    if any(not is_whole(n) or n < 0 for n in size):
        raise LawError(f"noise: shape={shape!r} must be integers")
    return Signal("noise", (size, kind, None if seed is None else int(seed)))


def seeded(signal: Signal, law: str, argument: str) -> Signal:
    """The same signal; noise without a seed gets one from the names of a law and its argument."""
    if signal.kind == "previous" and isinstance(signal.of[0], Signal):
        return Signal("previous", (seeded(signal.of[0], law, argument), *signal.of[1:]))
    if signal.kind != "noise" or signal.of[2] is not None:
        return signal
    digest = hashlib.sha256(f"{law}.{argument}".encode()).digest()
    own = int(_HALF) + int.from_bytes(digest[:7], "big")  # beyond the seeds that can be given
    return Signal("noise", (*signal.of[:2], own))


# ---- random numbers by counter -------------------------------------------------------------------

_HALF = 2.0**26  # the two halves of a block; products of two such numbers are exact
_FACTORS = (60616577, 52204621, 46368751, 39088169, 64079999, 57885161)
_ROUNDS = 10


def uniform_numbers(step: Any, trajectory: Any, size: int, seed: int) -> Any:
    """Numbers between 0 and 1 (size,), never 0, by whole arithmetic in float64.

    A network of Feistel's kind on two halves of 26 bits, (step, trajectory), with the entry and the
    seed in the keys of its rounds: middle bits of squares, after Widynski 2020 (arXiv:2004.06278).
    Every operation is exact, so every machine gives the same numbers.
    """
    entry = np.arange(size)
    left, right = (_modulo(x + np.zeros(size), _HALF) for x in (step, trajectory))
    for i in range(_ROUNDS):
        key = np.array([_key(seed, i, int(k)) for k in entry])
        mixed = _modulo(right * float(_FACTORS[i % len(_FACTORS)]) + key, _HALF)
        middle = np.floor(mixed * mixed * 2.0**-13)
        left, right = right, _modulo(left + middle, _HALF)
    return (left * _HALF + right + 0.5) * 2.0**-52


def _key(seed: int, i: int, entry: int) -> float:
    """Bits of a number that differs in all places where seed, round or entry differ in one."""
    x = seed * 0x9E3779B97F4A7C15 + i * 0xBF58476D1CE4E5B9 + entry * 0x94D049BB133111EB
    for shift in (30, 27, 31):
        x = (x ^ x >> shift) * 0xD6E8FEB86659FD93 % 2**64
    return float(x >> 38)


def _modulo(x: Any, m: float) -> Any:
    """The remainder for whole x ≥ 0 below 2^53 and m a power of two, exact."""
    return x - np.floor(x * (1 / m)) * m


def normal_numbers(step: Any, trajectory: Any, size: int, seed: int) -> Any:
    """Numbers (size,) of the normal distribution, by the method of Box and Muller."""
    pairs = (size + 1) // 2
    u = uniform_numbers(step, trajectory, 2 * pairs, seed)
    radius, angle = np.sqrt(-2 * np.log(u[:pairs])), 2 * np.pi * u[pairs:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]


def noise_numbers(step: Any, trajectory: Any, shape: Sequence[int], kind: str, seed: int) -> Array:
    """The numbers of a noise, on traced values or on numbers."""
    size = int(np.prod(shape, dtype=int))
    draw = normal_numbers if kind == "normal" else uniform_numbers
    return draw(step, trajectory, size, seed).reshape(tuple(shape))
