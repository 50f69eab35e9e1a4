"""law: a function of named quantities that acts during a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, Unpack, final, overload

import numpy as np

from phipsi.core.arrays import Array, called_with_numbers, fail, parameters_by_name, place_of, short
from phipsi.core.expressions import Expr
from phipsi.core.model import is_masked
from phipsi.errors import LawError, answered, did_you_mean, is_real, is_whole
from phipsi.laws.block_diagram import Range
from phipsi.laws.signals import Signal

RESERVED = ("t", "q", "v", "tau_given")
"""Arguments that every law may have: time (s), configuration, rates, efforts given from outside."""

OUTPUTS = ("tau", "force", "wrench", "body_forces", "energy")
"""Outputs that act, or are counted; any other name is recorded."""


_PERIODS: tuple[str, ...] = ("sample_time", "dt", "period", "Ts", "ts", "sampling_time", "h")
_FREQUENCIES: tuple[str, ...] = ("frequency", "freq", "fs", "hz")


def _by_rate(call: str) -> dict[str, Callable[[Any], str]]:
    """What is said of a sample time or a frequency, which are `rate` here."""

    def period(x: Any) -> str:
        rate = f"{1 / x:g}" if is_real(x) and x > 0 else "1 / sample_time"
        return f"Sampling is given by the samples per second:\n    {call.format(f'rate={rate}')}"

    def frequency(x: Any) -> str:
        return f"It is called rate, samples per second:\n    {call.format(f'rate={short(x)}')}"

    return dict.fromkeys(_PERIODS, period) | dict.fromkeys(_FREQUENCIES, frequency)


@final
@dataclass(frozen=True, eq=False)
class Law:
    """A traced function (controller, force model or component) with its bound arguments.

    `pp.law` makes it of a function; a `Simulator` compiles it into its step.

    Parameters
    ----------
    function : callable
        The function.
    name : str
        Its name, which begins the names of its parameters, states and records.
    arguments : tuple of str
        Names of the arguments, in order.
    bound : dict, optional
        Values of arguments by name.
    rate : float, optional
        Samples per second of a sampled law.
    delay : int, optional
        Delay of all its outputs, records among them, in samples.
    states, discrete : dict of str to ndarray, optional
        First values of continuous and discrete states by name.
    joints : tuple of str, optional
        Joints to which q, v and tau are restricted.
    points : tuple, optional
        Points where forces act.
    single_point : bool, optional
        Whether that is one point and not a list.
    acts : bool, optional
        Whether tau and forces act, or are only read and recorded.
    ranges : dict of str to Range, optional
        The numbers that arguments may have, by name.
    """

    function: Callable[..., Any]
    name: str
    arguments: tuple[str, ...]
    bound: dict[str, Any] = field(default_factory=dict)
    rate: float | None = None
    delay: int = 0
    states: dict[str, Array] = field(default_factory=dict)
    discrete: dict[str, Array] = field(default_factory=dict)
    joints: tuple[str, ...] | None = None
    points: tuple[Any, ...] = ()
    single_point: bool = True
    acts: bool = True
    ranges: Mapping[str, Range] = field(default_factory=dict)

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """The function itself."""
        return self.function(*args, **named)

    def __repr__(self) -> str:
        given = "".join(f", {n}={short(x)}" for n, x in self.bound.items())
        return f"<law {self.name}({', '.join(self.arguments)}){given}>"

    @property
    def place(self) -> str:
        """File and line of the function."""
        return place_of(self.function, self.name)

    def bind(self, /, **values: Any) -> Law:
        """The same law with values for some of its arguments.

        Parameters
        ----------
        **values : float, array_like, Expr or Signal
            By name of an argument: a number or an array (a parameter, which may differ between
            trajectories), an operator expression, or one of `phipsi.laws.signals`.

        Returns
        -------
        Law
            The law with these values.
        """
        free = [n for n in self.arguments if n not in (*RESERVED, *self.states, *self.discrete)]
        for name, value in values.items():
            if name not in free:
                what = (
                    "is supplied by the simulation"
                    if name in self.arguments
                    else "is not an argument"
                )
                fail(f"{name} {what}. {did_you_mean(name, free)[:-1]}", place=self.place)
            if not isinstance(value, (Expr, Signal)):
                values[name] = array = _numbers(value, name, self.place)
                allowed = self.ranges.get(name)
                if allowed is not None and not allowed.holds(array).all():
                    fail(f"{name}={short(value)} must be {allowed}", place=self.place)
        return replace(self, bound={**self.bound, **values})

    def on(self, joints: str | Iterable[str], *more: str) -> Law:
        """The same law for some joints: q, v, tau_given and tau are theirs, in this order.

        Parameters
        ----------
        joints : str or iterable of str
            Names of joints.
        *more : str
            More names: ``law.on("hip", "knee")`` is ``law.on(["hip", "knee"])``.

        Returns
        -------
        Law
            The law for these joints.
        """
        first = (joints,) if isinstance(joints, str) else joints
        return replace(self, joints=_names((*first, *more) if more else joints, self.place))

    def at(self, points: Any) -> Law:
        """The same law with forces at a point, or at each of a list of points.

        Output "force" is then (3,), N, or "wrench" (6,), [moment (N·m); force (N)], in world axes;
        for a list of points with one row for each.

        Parameters
        ----------
        points : str, tuple or list
            A point (a body, a frame, or (name, offset in m)), or a list of points.

        Returns
        -------
        Law
            The law with these points.
        """
        many = isinstance(points, list)
        return replace(self, points=tuple(points) if many else (points,), single_point=not many)

    def named(self, name: str) -> Law:
        """The same law under another name, which its parameters and records begin with."""
        return replace(self, name=_name(name, self.place))

    def silent(self) -> Law:
        """The same law whose outputs do not act: others read them, as a motor reads a command."""
        return replace(self, acts=False)

    @answered("sampled", _by_rate("law.sampled({})"), LawError)
    def sampled(self, rate: float, delay: int = 0) -> Law:
        """The same law, computed `rate` times a second and held in between; `delay` in samples."""
        if "integral" in self.states and "interval" in self.bound:  # of pp.laws.pid
            fail(f"the integral of {self.name} is continuous, so it cannot be sampled afterwards",
                 f"pass the rate where it is made:  pp.laws.pid(…, rate={short(rate)})",
                 self.place)  # fmt: skip
        _check_states(self.states, self.place)
        return replace(self, rate=_rate(rate, self.place), delay=_delay(delay, self.place))


class _LawOptions(TypedDict, total=False):
    """The options of `law`."""

    name: str | None
    rate: float | None
    delay: int
    states: Mapping[str, Any] | None
    discrete: Mapping[str, Any] | None
    joints: str | Iterable[str] | None
    at: Any


@overload
def law(function: Callable[..., Any], **options: Unpack[_LawOptions]) -> Law: ...
@overload
def law(**options: Unpack[_LawOptions]) -> Callable[[Callable[..., Any]], Law]: ...
@answered("law", _by_rate("@pp.law({})"), LawError)
def law(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    rate: float | None = None,
    delay: int = 0,
    states: Mapping[str, Any] | None = None,
    discrete: Mapping[str, Any] | None = None,
    joints: str | Iterable[str] | None = None,
    at: Any = None,
) -> Law | Callable[[Callable[..., Any]], Law]:
    """Decorator: trace a NumPy controller or force model into the compiled simulation step.

    The function is written in plain arithmetic of NumPy for one state, and receives its arguments
    by name: `t` (s), `q` (nq,), `v` (nv,), `tau_given` (nv,) the torques and forces from outside,
    its states, and any others, whose values `Law.bind` sets. It returns tau (nv,), or a dictionary:
    "tau"; "force" or "wrench" at the points of `at`; "body_forces" (n, 6) at body origins in body
    axes; "energy" stored, J; by the name of a state its rate, or its next value if it is discrete;
    any other name is recorded.

    Numeric attributes of a callable object that its class names are bound at once: those of
    `PDGravity` are "kp" and "kd".

    The function is called once with traced (symbolic) values. What cannot be traced (`if` on such a
    value, functions besides NumPy's) is a `LawError` that names the line.

    Parameters
    ----------
    function : callable, optional
        The function; without it a decorator is returned.
    name : str, optional
        Name. Default: that of the function.
    rate : float, optional
        Samples per second; outputs are held in between (zero-order hold). Default: continuous.
    delay : int, optional
        Delay of all outputs, records among them, in samples.
    states, discrete : mapping of str to array_like, optional
        Names and first values of continuous and discrete states.
    joints : str or iterable of str, optional
        Joints to which q, v and tau are restricted.
    at : str, tuple or list, optional
        A point or a list of points where forces act.

    Returns
    -------
    Law
        The law, or a decorator that makes one.

    Examples
    --------
    >>> import phipsi as pp
    >>> @pp.law
    ... def hold(q, v, kp, kd, target):
    ...     return kp * (target - q) - kd * v
    >>> hold.bind(kp=100.0, kd=20.0, target=[0.5, 0.0])
    <law hold(q, v, kp, kd, target), kp=array(100.), kd=array(20.), target=array([0.5, 0. ])>
    """
    if function is None:
        options: _LawOptions = {
            "name": name, "rate": rate, "delay": delay, "states": states, "discrete": discrete,
            "joints": joints, "at": at,
        }  # fmt: skip
        return lambda f: law(f, **options)
    if isinstance(function, Law):
        raise LawError(f"{function!r} is already a law. Change it with bind, on, at or sampled")
    if not callable(function):
        raise LawError(
            f"law takes a function, not {short(function)}:\n    @pp.law\n    def hold(q, v): …"
        )
    place = place_of(function, name)
    arguments, defaults = _arguments(function, place)
    numbers = parameters_by_name(function)
    if name is None:
        name = getattr(function, "__name__", type(function).__name__ if numbers else "law")
    first = [
        {n: _numbers(x, n, place) for n, x in _mapping(given, what, place).items()}
        for given, what in ((states, "states"), (discrete, "discrete"))
    ]
    for one in (*first[0], *first[1]):
        if one not in arguments:
            fail((f"state {one!r} is not an argument of the function. "
                f"{did_you_mean(one, arguments)[:-1]}"),
                 place=place)  # fmt: skip
        if one in RESERVED or (one in first[0] and one in first[1]):
            fail(f"{one!r} cannot be the name of a state: it is reserved", place=place)
    made = Law(
        called_with_numbers(function),
        _name(name, place),
        (*arguments, *numbers),
        rate=None if rate is None else _rate(rate, place),
        delay=_delay(delay, place),
        states=first[0],
        discrete=first[1],
        joints=None if joints is None else _names(joints, place),
    )
    if delay and rate is None:
        fail("delay= counts samples, but the law is not sampled. Pass rate= too", place=place)
    if rate is not None:
        _check_states(first[0], place)
    made = made if at is None else made.at(at)
    free = {n: x for n, x in defaults.items() if n not in (*RESERVED, *first[0], *first[1])}
    return made.bind(**free, **numbers) if free or numbers else made


def _arguments(function: Callable[..., Any], place: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        fail("a law returns its values; it cannot wait or yield", place=place)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        fail(
            "the signature of this function cannot be inspected",
            "write it as a Python function",
            place,
        )
    for p in parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            fail(f"argument {p} cannot be passed by name", "name every argument", place)
    defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
    return tuple(parameters), defaults


def _numbers(value: Any, name: str, place: str) -> Array:
    hint = ""
    if isinstance(value, str):
        hint = f"a point is bound as  {name}=pp.signals.position({value!r})"
    elif isinstance(value, Law):
        hint = f"an output of a law is bound as  {name}=pp.signals.output({value.name!r}, 'tau')"
    elif callable(value):
        hint = (
            "call a function of time in the law itself; or bind the output of another law:\n"
            "    @pp.law\n"
            "    def path(t):\n"
            "        return {'y': np.sin(t)}\n"
            f"    {name}=pp.signals.output(path, 'y')    # and pass path to the simulation too"
        )
    try:
        found = np.array(value)
        if np.iscomplexobj(found):
            raise TypeError("complex numbers")
        out = found.astype(np.float64)
    except (TypeError, ValueError):
        out = np.array(np.nan)
        if not hint:
            hint = "pass an array of numbers, an expression, or one of pp.signals"
        fail(f"{name}={short(value)} is not a number or an array of numbers", hint, place)
    if np.asarray(value).dtype.kind not in "biuf" or is_masked(value):
        fail(f"{name}={short(value)} is not a number or an array of numbers", hint, place)
    if np.isnan(out).any():
        fail(f"{name}={short(value)} is not finite", place=place)
    out.setflags(write=False)
    return out


def _mapping(given: Any, what: str, place: str) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(x, str) for x in given):
        fail(f"{what}={short(given)} must be names with first values: {what}={{'x': 0.0}}",
             place=place)  # fmt: skip
    return given


def _names(joints: Any, place: str) -> tuple[str, ...]:
    names = (joints,) if isinstance(joints, str) else joints
    if not isinstance(names, Iterable):
        fail(f"joints={short(joints)} must be names of joints", place=place)
    names = tuple(names)
    if not names or not all(isinstance(x, str) for x in names) or len(set(names)) < len(names):
        fail(f"joints={short(joints)} must be different names of joints", place=place)
    return names


def _name(name: Any, place: str) -> str:
    plain = "law" if name == "<lambda>" else name
    if not isinstance(plain, str) or not plain.isidentifier():
        fail(f"name={short(name)} must be a name such as 'hold'", place=place)
    return plain


def _check_states(states: Mapping[str, Any], place: str) -> None:
    if states:
        fail(
            f"a sampled law cannot have continuous states ({', '.join(states)})",
            "use discrete={…} and return the next value",
            place=place,
        )


def _rate(rate: Any, place: str) -> float:
    if not is_real(rate) or not 0 < rate < np.inf:
        fail(f"rate={short(rate)} must be a positive number of samples per second", place=place)
    return float(rate)


def _delay(delay: Any, place: str) -> int:
    if not is_whole(delay) or delay < 0:
        fail(f"delay={short(delay)} must be an integer number of samples, at least 0", place=place)
    return int(delay)
