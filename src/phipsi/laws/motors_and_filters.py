"""Ready laws: PID with anti-windup, motors, filters, and neural networks as policies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from phipsi.core.arrays import Array, short, table
from phipsi.core.model import as_floats
from phipsi.errors import InputError, LawError, one_of
from phipsi.laws import signals
from phipsi.laws.block_diagram import Range
from phipsi.laws.law import Law, law

__all__ = ["low_pass", "motor", "pid", "policy"]

Joints = str | Iterable[str]


def _names(law: str, joints: Joints) -> tuple[str, ...]:
    if not isinstance(cast(object, joints), Iterable):
        raise LawError(
            f"{law}: joints={joints!r} is not a name or names of joints. If each has one "
            "coordinate, all of them are\n    model.joint_names"
        )
    return (joints,) if isinstance(joints, str) else tuple(joints)


def pid(
    joints: Joints,
    target: Any,
    kp: Any,
    ki: Any = 0.0,
    kd: Any = 0.0,
    *,
    limit: Any = None,
    rate: float | None = None,
    delay: int = 0,
    name: str = "pid",
) -> Law:
    """PID controller of joints with q̇ = v, with limits and anti-windup.

    u = kp e + i − kd v with e = target − q, tau = u within ±limit, and the integral
    i̇ = ki e + w (tau − u): the clipped part drives the integral back, at the rate w = ki / kp
    (1 / s where kp is 0). Sampled, the integral is a sum, taken once per sample; the interval is
    that of the rate which the law has in the simulation, also after `Law.sampled`.

    Parameters
    ----------
    joints : str or sequence of str
        Name or names of joints.
    target : array_like
        Target, rad or m; or a signal.
    kp, ki, kd : array_like
        Gains, N·m/rad or N/m; per s more; and N·m·s/rad or N·s/m: one number, or one per joint.
    limit : array_like, optional
        Largest torque or force, N·m or N.
    rate : float, optional
        Samples per second. Default: continuous.
    delay : int, optional
        Delay of tau and of the record "pid.error", in samples.
    name : str, optional
        Name of the law.

    Returns
    -------
    Law
        With the parameters "pid.kp", … and the state "pid.integral"; it records "pid.error".

    Notes
    -----
    **Source:** Åström and Hägglund 2006, Advanced PID Control, section 3.5.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.laws.pid("elbow", 0.5, kp=40.0, ki=10.0, kd=4.0, limit=20.0).joints
    ('elbow',)
    """
    joints = _names(name, joints)
    size = len(joints)
    gains = {"target": target, "kp": kp, "ki": ki, "kd": kd}
    most = np.full(size, 1e300) if limit is None else limit
    _check_positive(name, limit=limit)

    def control(q: Any, v: Any, target: Any, kp: Any, ki: Any, kd: Any, limit: Any,
                integral: Any, interval: Any) -> Any:  # fmt: skip
        error = target - q
        wanted = kp * error + integral - kd * v
        tau = np.clip(wanted, -limit, limit)
        back = np.where(kp > 0, ki / np.where(kp > 0, kp, 1.0), 1.0)
        change = ki * error + back * (tau - wanted)
        moved = change if rate is None else integral + interval * change
        return {"tau": tau, "integral": moved, "error": error}

    first = {"integral": np.zeros(size)}
    states: dict[str, Any] = (
        {"states": first} if rate is None else {"discrete": first, "rate": rate}
    )
    made = _ranged(law(control, name=name, joints=joints, delay=delay, **states), limit=_ABOVE_0)
    return made.bind(limit=most, interval=signals.interval(), **gains)


def motor(
    joints: Joints,
    command: Any,
    *,
    gear: Any = 1.0,
    efficiency: Any = 1.0,
    time_constant: Any = None,
    speeds: Sequence[float] | None = None,
    torques: Sequence[float] | None = None,
    name: str = "motor",
) -> Law:
    """Geared motors: first-order lag, torque–speed curve, efficiency.

    The motor's torque m follows the command, ṁ = (command / gear − m) / T, and stays within what
    the curve allows at the motor's speed gear · v. The joint gets tau = gear · m · η while the
    motor drives (m v > 0) and gear · m / η while it is driven: it jumps where the joint reverses,
    as friction in the gear does.

    Parameters
    ----------
    joints : str or sequence of str
        Name or names of joints.
    command : array_like or Signal
        Torques or forces commanded at the joints, N·m or N: numbers, or a signal such as
        ``pp.signals.output("pid", "tau")`` of a law that does not act itself (`Law.silent`).
    gear : array_like, optional
        Gear ratio: speed of the motor, rad/s, per speed of the joint, rad/s or m/s.
    efficiency : array_like, optional
        Efficiency η, between 0 and 1.
    time_constant : array_like, optional
        Time constant T of the lag, s. Default: no lag.
    speeds, torques : sequence of float, optional
        The curve, with linear interpolation: speeds (rad/s, from 0, increasing) and torques (N·m)
        at the motor.
    name : str, optional
        Name of the law.

    Returns
    -------
    Law
        With the state "motor.torque"; it records "motor.speed", rad/s.

    Examples
    --------
    >>> import phipsi as pp
    >>> drive = pp.laws.motor("elbow", 5.0, gear=100.0, efficiency=0.8, time_constant=0.01)
    >>> sorted(drive.bound)
    ['command', 'efficiency', 'gear', 'time_constant']
    """
    joints = _names(name, joints)
    size = len(joints)
    if (speeds is None) != (torques is None):
        raise LawError(f"{name}: a torque-speed curve needs both speeds and torques")
    _check_positive(name, gear=gear, efficiency=efficiency, time_constant=time_constant)

    def limited(torque: Any, speed: Any) -> Any:
        if speeds is None or torques is None:
            return torque
        most = table(np.abs(speed), speeds, torques)
        return np.clip(torque, -most, most)

    def at_joint(torque: Any, v: Any, gear: Any, efficiency: Any) -> Any:
        acting = limited(torque, gear * v)
        drives = np.where(acting * v > 0, efficiency, 1.0 / efficiency)
        return {"tau": gear * acting * drives, "speed": gear * v}

    def follow(v: Any, command: Any, gear: Any, efficiency: Any, time_constant: Any,
               torque: Any) -> Any:  # fmt: skip
        found = at_joint(torque, v, gear, efficiency)
        return found | {"torque": (command / gear - torque) / time_constant}

    def at_once(v: Any, command: Any, gear: Any, efficiency: Any) -> Any:
        return at_joint(command / gear + 0 * v, v, gear, efficiency)

    bound = {"command": command, "gear": gear, "efficiency": efficiency}
    allowed = {"gear": _ABOVE_0, "efficiency": Range(0.0, 1.0, above=True)}
    if time_constant is None:
        return _ranged(law(at_once, name=name, joints=joints), **allowed).bind(**bound)
    made = law(follow, name=name, joints=joints, states={"torque": np.zeros(size)})
    made = _ranged(made, **allowed, time_constant=_ABOVE_0)
    return made.bind(**bound, time_constant=time_constant)


_ABOVE_0 = Range(above=True)


def _ranged(made: Law, **ranges: Range) -> Law:
    """The same law, whose numbers stay within ranges also where trajectories have their own."""
    return replace(made, ranges=ranges)


def _check_positive(name: str, **values: Any) -> None:
    """Reject numbers of a law that are not above 0, None if there is none, and η above 1."""
    for what, value in values.items():
        if value is not None and not (_real(name, what, value) > 0).all():
            raise LawError(f"{name}: {what}={value!r} must be positive")
        if what == "efficiency" and (_real(name, what, value) > 1).any():
            raise LawError(f"{name}: efficiency={value!r} is above 1")


def low_pass(signal: Any, time_constant: Any, *, initial: Any = 0.0, name: str = "low_pass") -> Law:
    """First-order low-pass filter: ẏ = (x − y) / T, read as ``pp.signals.output("low_pass", "y")``.

    Parameters
    ----------
    signal : Signal or Expr
        Signal x, one of `pp.signals` or an expression.
    time_constant : array_like
        Time constant T, s.
    initial : array_like, optional
        Initial value of y, in the shape of the signal.
    name : str, optional
        Name of the law.

    Returns
    -------
    Law
        The filter.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.laws.low_pass(pp.signals.position("tip"), 0.05, initial=[0, 0, 0]).name
    'low_pass'
    """
    if time_constant is None:
        raise LawError(f"{name}: a filter needs a time constant in s, such as time_constant=0.05")
    _check_positive(name, time_constant=time_constant)

    def follow(x: Any, state: Any, time_constant: Any) -> Any:
        return {"y": state, "state": (x - state) / time_constant}

    made = _ranged(law(follow, name=name, states={"state": initial}), time_constant=_ABOVE_0)
    return made.bind(x=signal, time_constant=time_constant)


# ---- networks ------------------------------------------------------------------------------------


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0.0)) - 1.0),
    "silu": lambda x: x / (1.0 + np.exp(-x)),
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "identity": lambda x: x,
}


class _Layer(NamedTuple):
    """A dense layer, a layer norm, or an activation; `names` are those of its parameters."""

    kind: str
    names: tuple[str, ...] = ()
    eps: float = 1e-5


def policy(
    network: Any,
    observe: Callable[..., Any] | None = None,
    act: Callable[[Any], Any] | None = None,
    *,
    activation: str = "tanh",
    last: str = "identity",
    name: str = "policy",
    **law_options: Any,
) -> Law:
    """Neural network as a controller: dense layers, tanh, ReLU, ELU, SiLU, sigmoid, layer norm.

    y = network(observe(…)), tau = act(y). Weights are parameters of the law, shared by all
    trajectories or per trajectory: "policy.weight_0" (out, in) and "policy.bias_0" (out,) for
    the layer 0 of the network, as in the state dictionary.

    Parameters
    ----------
    network : torch.nn.Sequential or mapping of str to array_like
        A PyTorch ``nn.Sequential``, or its state dictionary with arrays or tensors ("0.weight",
        "0.bias", "2.weight", …): matrices are dense layers, vectors layer norms.
    observe : callable, optional
        A function of named quantities as of a law, which returns a vector. Default: [q; v].
    act : callable, optional
        A function of the network's output, which returns what a law returns. Default: tau itself.
    activation : str, optional
        For the numbers that the dictionary leaves out.
    last : str, optional
        Activation after the last layer.
    name : str, optional
        Name of the law.
    **law_options
        Further options as for `law`.

    Returns
    -------
    Law
        The controller.

    Notes
    -----
    **Cost:** one multiplication and addition per weight.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> state = {"0.weight": np.ones((3, 4)), "0.bias": np.zeros(3), "2.weight": np.ones((2, 3))}
    >>> pp.laws.policy(state, act=lambda y: 5.0 * y).arguments
    ('q', 'v', 'weight_0', 'bias_0', 'weight_2')
    """
    layers, weights = _read(network, activation, last)
    _check_sizes(layers, weights)
    seen = _both if observe is None else observe
    if not callable(seen) or (act is not None and not callable(act)):
        raise LawError("policy: observe= and act= must be functions or None")
    made = law(seen, name=name, **law_options)
    taken = set(made.arguments) & set(weights)
    if taken:
        raise LawError(f"policy: {', '.join(sorted(taken))} names a weight; rename the argument")
    names = tuple(inspect.signature(seen).parameters)

    def run(**given: Any) -> Any:
        x = seen(**{n: given[n] for n in names})
        for layer in layers:
            x = _applied(layer, x, [given[n] for n in layer.names])
        return x if act is None else act(x)

    run.__name__ = name
    bound = {**made.bound, **weights}
    return replace(made, function=run, arguments=(*made.arguments, *weights), bound=bound)


def _both(q: Any, v: Any) -> Any:
    """The state as a vector."""
    return np.concatenate([q, v])


def _applied(layer: _Layer, x: Any, weights: list[Any]) -> Any:
    if layer.kind == "dense":
        y = weights[0] @ x
        return y if len(weights) == 1 else y + weights[1]
    if layer.kind == "norm":
        centred = x - x.mean()
        y = centred / np.sqrt((centred * centred).mean() + layer.eps)
        for i, w in enumerate(weights):
            y = y * w if i == 0 else y + w
        return y
    return ACTIVATIONS[layer.kind](x)


# ---- reading networks ----------------------------------------------------------------------------


def _read(network: Any, activation: str, last: str) -> tuple[list[_Layer], dict[str, Array]]:
    """Layers and their weights by name."""
    for kind in (activation, last):
        one_of("policy: activation", kind, ACTIVATIONS, error=LawError)
    modules: dict[int, Any] = {}
    state = network
    if hasattr(network, "state_dict") and hasattr(network, "named_children"):
        modules = {int(n): m for n, m in network.named_children() if n.isdigit()}
        state = network.state_dict()
    if not isinstance(state, Mapping) or not state:
        raise LawError(
            f"policy: {short(network)} is neither an nn.Sequential nor its state dictionary, such "
            'as {"0.weight": W0, "0.bias": b0, "2.weight": W2, "2.bias": b2}'
        )
    found: dict[int, dict[str, Array]] = {}
    for key, value in state.items():
        number, _, what = str(key).rpartition(".")
        if not number.isdigit() or what not in ("weight", "bias"):
            raise LawError(f"policy: {key!r} is not a name such as '0.weight' or '2.bias'")
        found.setdefault(int(number), {})[what] = _array(key, value)
    if modules:
        layers = [_of_module(m, i, found) for i, m in sorted(modules.items())]
    else:
        layers = list(_of_numbers(found, activation))
    layers = [*layers, _Layer(last)] if last != "identity" else layers
    weights = {
        n: found[int(n.rpartition("_")[2])][n.partition("_")[0]] for x in layers for n in x.names
    }
    return layers, weights


def _array(key: str, value: Any) -> Array:
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    try:
        out = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise LawError(f"policy: {key} is not an array of numbers") from None
    if not np.isfinite(out).all() or out.ndim not in (1, 2):
        raise LawError(f"policy: {key} must be finite, a matrix or a vector")
    return out


def _of_numbers(found: dict[int, dict[str, Array]], activation: str) -> Iterator[_Layer]:
    """Layers of a state dictionary; numbers that are left out are activations."""
    for i in range(max(found) + 1):
        yield _with_weights(i, found[i]) if i in found else _Layer(activation)


def _with_weights(i: int, parts: dict[str, Array], eps: float = 1e-5) -> _Layer:
    if "weight" not in parts:
        raise LawError(f"policy: layer {i} has a bias and no weight")
    names = tuple(f"{n}_{i}" for n in ("weight", "bias") if n in parts)
    return _Layer("dense" if parts["weight"].ndim == 2 else "norm", names, eps)


def _of_module(module: Any, i: int, found: dict[int, dict[str, Array]]) -> _Layer:
    kind = type(module).__name__
    if kind in ("Linear", "LayerNorm"):
        return _with_weights(i, found.get(i, {}), float(getattr(module, "eps", 1e-5)))
    if kind.lower() in ACTIVATIONS:
        if getattr(module, "alpha", 1.0) != 1.0:
            raise LawError(f"policy: layer {i} is {module}; only alpha=1 is supported")
        return _Layer(kind.lower())
    if kind in ("Dropout", "Flatten"):
        return _Layer("identity")
    raise LawError(
        f"policy: layer {i} is {kind}, which is not supported. Supported are Linear, LayerNorm, "
        "Tanh, ReLU, ELU, SiLU, Sigmoid, Identity; write others as a law of your own"
    )


def _check_sizes(layers: list[_Layer], weights: Mapping[str, Array]) -> None:
    """Every layer takes as many numbers as the one before gives."""
    size: int | None = None
    for layer in layers:
        shapes = [weights[n].shape for n in layer.names]
        if not shapes:
            continue
        takes, gives = shapes[0][-1], shapes[0][0]
        if size not in (None, takes) or any(x != (gives,) for x in shapes[1:]):
            raise LawError(
                "policy: "
                f"{', '.join((f'{n} {s}' for n, s in zip(layer.names, shapes, strict=True)))} "
                f"does not fit the {size} outputs of the layer before"
            )
        size = gives


def _real(name: str, what: str, value: Any) -> Array:
    """Numbers of a user, which may be infinite."""
    try:
        return as_floats(what, value)
    except InputError as error:
        raise LawError(f"{name}: {error}") from None
