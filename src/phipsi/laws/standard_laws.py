"""Ready laws with states: PID with anti-windup, motors, filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from phipsi.errors import LawError
from phipsi.laws.law import Law, law
from phipsi.laws.numpy_functions import table

__all__ = ["low_pass", "motor", "pid"]

Joints = str | Iterable[str]


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
    """PID control of joints with q̇ = v, with limits and anti-windup.

    u = kp e + i − kd v with e = target − q, tau = u within ±limit, and the integral
    i̇ = ki e + w (tau − u): what is cut off lets the integral run back, at the rate w = ki / kp
    (1 / s where kp is 0). Sampled, the integral is a sum, taken once per sample.

    **Arguments:** `joints`, a name or names; `target`, rad or m; `kp` (N·m/rad or N/m), `ki` (per
    s more) and `kd` (N·m·s/rad or N·s/m): one number, or one per joint; `limit`, N·m or N, the
    largest effort; `rate`, samples per second (continuous without it); `delay`, in samples; `name`.
    **Returns:** a `Law` with the parameters "pid.kp", … and the state "pid.integral"; records
    "pid.error". **Source:** Åström and Hägglund 2006, Advanced PID Control, section 3.5.

    >>> import phipsi as pp
    >>> pp.laws.pid("elbow", 0.5, kp=40.0, ki=10.0, kd=4.0, limit=20.0).joints
    ('elbow',)
    """
    size = 1 if isinstance(joints, str) else len(tuple(joints))
    gains = {"target": target, "kp": kp, "ki": ki, "kd": kd}
    most = np.full(size, 1e300) if limit is None else limit
    if np.any(np.asarray(most) <= 0):
        raise LawError(f"{name}: limit={limit!r} must be positive")

    def control(q: Any, v: Any, target: Any, kp: Any, ki: Any, kd: Any, limit: Any,
                integral: Any, interval: Any = 0.0) -> Any:  # fmt: skip
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
    made = law(control, name=name, joints=joints, delay=delay, **states)
    more = {} if rate is None else {"interval": 1.0 / rate}
    return made.bind(limit=most, **gains, **more)


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
    """Motors behind gears: first-order lag, torque–speed curve, efficiency.

    The motor's torque m follows the command, ṁ = (command / gear − m) / T, and stays within what
    the curve gives at the motor's speed gear · v. The joint gets tau = gear · m · η while the motor
    drives (m v > 0) and gear · m / η while it is driven: it jumps where the joint turns round, as
    friction in the gear does.

    **Arguments:** `joints`, a name or names; `command`, the efforts asked for at the joints, N·m or
    N: numbers, or a signal such as ``pp.signals.output("pid", "tau")`` of a law that does not act
    itself (`Law.silent`); `gear`, turns of the motor per radian of the joint; `efficiency` η,
    between 0 and 1; `time_constant` T, s (None: no lag); `speeds` (rad/s, from 0, increasing) and
    `torques` (N·m at the motor): the curve, with linear interpolation. **Returns:** a `Law` with
    the state "motor.torque", and the record "motor.speed", rad/s.

    >>> import phipsi as pp
    >>> drive = pp.laws.motor("elbow", 5.0, gear=100.0, efficiency=0.8, time_constant=0.01)
    >>> sorted(drive.bound)
    ['command', 'efficiency', 'gear', 'time_constant']
    """
    size = 1 if isinstance(joints, str) else len(tuple(joints))
    if (speeds is None) != (torques is None):
        raise LawError(f"{name}: a torque-speed curve needs both speeds and torques")
    for value, what in (
        (gear, "gear"),
        (efficiency, "efficiency"),
        (time_constant, "time_constant"),
    ):
        if value is not None and not (np.asarray(value, dtype=float) > 0).all():
            raise LawError(f"{name}: {what}={value!r} must be positive")
    if (np.asarray(efficiency) > 1).any():
        raise LawError(f"{name}: efficiency={efficiency!r} is above 1")

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
    if time_constant is None:
        return law(at_once, name=name, joints=joints).bind(**bound)
    made = law(follow, name=name, joints=joints, states={"torque": np.zeros(size)})
    return made.bind(**bound, time_constant=time_constant)


def low_pass(signal: Any, time_constant: Any, *, first: Any = 0.0, name: str = "low_pass") -> Law:
    """A filter of first order: ẏ = (x − y) / T, read as ``pp.signals.output("low_pass", "y")``.

    **Arguments:** `signal` x, one of `pp.signals` or an expression; `time_constant` T, s; `first`,
    the first value of y, in the shape of the signal; `name`.

    >>> import phipsi as pp
    >>> pp.laws.low_pass(pp.signals.position("tip"), 0.05, first=[0, 0, 0]).name
    'low_pass'
    """
    if not (np.asarray(time_constant, dtype=float) > 0).all():
        raise LawError(f"{name}: time_constant={time_constant!r} must be positive")

    def follow(x: Any, state: Any, time_constant: Any) -> Any:
        return {"y": state, "state": (x - state) / time_constant}

    return law(follow, name=name, states={"state": first}).bind(
        x=signal, time_constant=time_constant
    )
