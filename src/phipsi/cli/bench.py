"""`phipsi bench`: how long the named algorithms take on the user's robot and machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phipsi.cli.common import SOURCE, Base, ModelSource, aligned, command, print_line

if TYPE_CHECKING:
    from phipsi.core.model import Model

# What is timed, with its arguments: q, v, x (accelerations or efforts), and a point p.
ALGORITHMS = {
    "forward_dynamics": "qvx",
    "inverse_dynamics": "qvx",
    "mass_matrix": "q",
    "mass_matrix_inverse": "q",
    "bias_forces": "qv",
    "poses": "q",
    "jacobian": "qp",
}
_ROUNDS, _TARGET = 12, 0.004
_ROLLOUT_STEPS = 100
Function = Callable[[], Any]


@command
def bench(
    file: Path, /, *, batch: int = 1024, peer: bool = True, source: ModelSource = SOURCE
) -> int:
    """Measure the speed of the dynamics of a robot: single calls, batches and rollouts.

    For example

        phipsi bench humanoid

        phipsi bench panda.urdf --base free --batch 4096

    Times are the best of many repetitions on one thread, including the call from Python. If
    Pinocchio is installed and reads the file, it is measured too, after its results have been
    compared.

    Parameters
    ----------
    file
        A robot file (URDF, SDF or MJCF), or the name of a robot that ships with phipsi.
    batch
        Configurations in one batched call, and trajectories in the rollout.
    peer
        Also measure Pinocchio, if it is installed.
    """
    import platform

    from phipsi.errors import InputError
    from phipsi.pages import sizes_of

    if batch < 1:
        raise InputError(f"--batch {batch}: a batch has at least one configuration")
    robot = source.robot(file).model  # the tree, as peers have it
    if robot.nv == 0:
        raise InputError(f"{file}: nothing in it can move, so there is nothing to time.")
    rows = measure(robot, batch)
    other, remark = _pinocchio(robot, file, source.base) if peer else ({}, "")
    print_line(f"{robot.name or file.stem}: {sizes_of(robot)}")
    where = f"{platform.machine()}, Python {platform.python_version()}"
    print_line(f"one thread, best of {_ROUNDS} runs, {where}")
    print_line()
    for line in table(rows, batch, other):
        print_line(line)
    if remark:
        print_line(f"\n{remark}")
    return 0


@dataclass
class Timing:
    """Seconds of one algorithm: a single call, and per configuration in a batch."""

    name: str
    single: float | None = None
    batched: float | None = None
    reason: str = ""


def measure(model: Model, batch: int) -> list[Timing]:
    """Time every algorithm, and a rollout as its last row (seconds per step and trajectory)."""
    import numpy as np

    from phipsi.errors import PhipsiError

    rng = np.random.default_rng(0)
    q = model.random_configuration(rng, (batch,))
    v, x = rng.standard_normal((2, batch, model.nv))
    rows = []
    for name in (*ALGORITHMS, "rollout"):
        row = Timing(name)
        rows.append(row)
        try:
            if name == "rollout":
                row.batched = _rollout(model, q) / batch
                continue
            row.single = best(_call(model, name, q[0], v[0], x[0]))
            row.batched = best(_call(model, name, q, v, x)) / batch
        except PhipsiError as error:  # say so instead of a number
            row.reason = str(error).splitlines()[0]
    return rows


def _call(model: Model, name: str, q: Any, v: Any, x: Any) -> Function:
    from phipsi.algorithms import equation_terms, equations_of_motion, motions

    rooms = equations_of_motion, equation_terms, motions
    function = next(getattr(room, name) for room in rooms if hasattr(room, name))
    given = {"q": q, "v": v, "x": x, "p": [model.body_names[-1]]}
    arguments = [given[key] for key in ALGORITHMS[name]]
    return lambda: function(model, *arguments)


def _rollout(model: Model, q: Any) -> float:
    """Seconds of a step of all trajectories."""
    import numpy as np

    from phipsi.simulation import rollout

    zero, steps = np.zeros(model.nv), _ROLLOUT_STEPS
    options: dict[str, Any] = {"record_every": steps, "integrator": "semi_implicit"}
    run = partial(rollout, model, q, zero, zero, 1e-5, steps, **options)
    return best(run, rounds=5, target=0.0) / steps


def best(function: Function, rounds: int = _ROUNDS, target: float = _TARGET) -> float:
    """Seconds per call, best of `rounds` runs of about `target` seconds.

    Processor time of this thread, the only one that works here, does not count what others do
    meanwhile. Where its clock is too coarse for a run (it stands still, or jumps by more than went
    by; some systems count ticks of 16 ms), the run counts with the time that went by.
    """
    function()
    start = time.perf_counter()
    function()
    count = max(1, int(target / max(time.perf_counter() - start, 1e-7)))
    seconds = float("inf")
    for _ in range(rounds):
        start, own = time.perf_counter(), time.thread_time()
        for _ in range(count):
            function()
        own, wall = time.thread_time() - own, time.perf_counter() - start
        seconds = min(seconds, (own if 0 < own < wall else wall) / count)
    return seconds


def table(rows: list[Timing], batch: int, other: dict[str, float]) -> list[str]:
    """The rows as text; times in µs."""
    head = ["µs", "one call", f"each of {batch}"]
    if other:
        head += ["Pinocchio, one call", "× one call", "× batch"]
    cells = [head]
    for row in rows[:-1]:
        line = [row.name, _micro(row.single), _micro(row.batched)]
        if other:
            peer = other.get(row.name)
            line += [_micro(peer), _ratio(peer, row.single), _ratio(peer, row.batched)]
        cells.append(line)
    lines = aligned(cells, numbers=True)
    lines.insert(1, "-" * len(lines[0]))
    last = rows[-1]
    if last.batched is not None:
        lines.append("")
        lines.append(
            f"rollout of {batch} trajectories: {1 / last.batched:,.0f} steps per second, "
            f"{last.batched * 1e6:.3g} µs each (semi_implicit)"
        )
    reasons = {row.name: row.reason for row in rows if row.reason}
    lines += [f"{name}: not measured. {reason}" for name, reason in reasons.items()]
    return lines


def _micro(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:.2f}"


def _ratio(theirs: float | None, mine: float | None) -> str:
    if not theirs or not mine:
        return "-"
    ratio = theirs / mine
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


# ---- Pinocchio, if it is there --------------------------------------------------------------


def _pinocchio(model: Model, file: Path, base: Base | None) -> tuple[dict[str, float], str]:
    """Seconds per call in Pinocchio by our names, and a remark on what was compared."""
    try:
        import pinocchio as pin  # type: ignore[import-not-found]
    except ImportError:
        return {}, ""
    if not file.exists() or file.suffix.lower() != ".urdf":
        return {}, "Pinocchio is installed; it is timed on URDF files only."
    import numpy as np

    from phipsi.algorithms import forward_dynamics
    from phipsi.files import to_pinocchio

    root = [pin.JointModelFreeFlyer()] if base == "free" else []
    try:
        theirs = pin.buildModelFromUrdf(str(file), *root)
    except Exception as error:  # their C++ exceptions have many types
        return {}, f"Pinocchio does not read this file: {str(error).splitlines()[0]}"
    if theirs.nv != model.nv:
        return {}, f"Pinocchio has nv = {theirs.nv} for this file, so it is not compared."
    rng = np.random.default_rng(1)
    q, (v, x) = model.random_configuration(rng), rng.standard_normal((2, model.nv))
    data = theirs.createData()
    try:
        vdot = forward_dynamics(model, q, v, x)
        state = to_pinocchio(model, q, v, vdot, x, names=list(theirs.names)[1:])
    except Exception as error:
        return {}, f"not compared with Pinocchio: {str(error).splitlines()[0]}"
    pq, pv, px = (np.array(a) for a in (state.q, state.v, state.tau))
    answer = pin.aba(theirs, data, pq, pv, px)
    gap = float(np.abs(answer - state.vdot).max() / max(1.0, float(np.abs(answer).max())))
    if not gap < 1e-6:
        return {}, f"Pinocchio's accelerations differ by {gap:.1e}, so it is not compared."
    theirs_by_name: dict[str, tuple[Any, ...]] = {
        "forward_dynamics": (pin.aba, pq, pv, px),
        "inverse_dynamics": (pin.rnea, pq, pv, px),
        "mass_matrix": (pin.crba, pq),
        "mass_matrix_inverse": (pin.computeMinverse, pq),
        "bias_forces": (pin.nonLinearEffects, pq, pv),
        "poses": (pin.forwardKinematics, pq),
        "jacobian": (pin.computeJointJacobian, pq, theirs.njoints - 1),
    }
    calls = {name: partial(f, theirs, data, *x) for name, (f, *x) in theirs_by_name.items()}
    remark = (
        f"Pinocchio {pin.__version__} agrees on forward dynamics to {gap:.1e}. Both ratios are to\n"
        f"its single calls from Python; its own batch calls are not timed here."
    )
    return {name: best(call) for name, call in calls.items()}, remark
