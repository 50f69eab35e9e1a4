"""Single calls of everyday functions on a UR5, as multiples of one call of `forward_dynamics`.

    python benchmarks/calls.py          writes benchmarks/CALLS.md

All functions take turns in one run, in processor time on one core; every figure is the median of
the rounds. Inverse kinematics is that of a Panda arm, from starts 0.3 rad off; it is compared with
`ik_LM` of roboticstoolbox-python where that package is installed.
"""

from __future__ import annotations

import importlib.util
import pathlib
import statistics
import time
from collections.abc import Callable

import numpy as np
import robots
import timing

import phipsi as pp

HERE = pathlib.Path(__file__).parent
ROUNDS, TARGET = 21, 0.004
STARTS = 200
OFF = 0.3  # rad, the distance of a start from the solution
TOLERANCE = 1e-6
IK_GOAL = 30
FLANGE = "panda_link8"
GOALS = {
    "forward_dynamics": 1,
    "poses": 2,
    "inverse_dynamics, f_ext": 2,
    "forward_dynamics, f_ext": 2,
    "inverse_dynamics, points and f0": 2,
    "forward_dynamics, points and f0": 2,
    "joint_reactions": 2,
    "model.integrate": 2,
    "centroidal.momentum_matrix": 2,
    "ComputedTorque": 3,
    "OperationalSpace": 15,
}


def calls() -> dict[str, Callable[[], object]]:
    """One call of every function, on the same state."""
    model, rng = robots.load_robot("UR5"), np.random.default_rng(0)
    q = np.array([0.3, -1.2, 1.4, 0.4, 1.1, -0.6])
    v, vdot, tau = rng.standard_normal((3, model.nv))
    f_ext = rng.standard_normal((model.n_bodies, 6))
    points, f0 = [("ee_link", (0.0, 0.0, 0.1))], rng.standard_normal((1, 6))
    torque = pp.control.ComputedTorque(model, q + 0.1, kp=100, kd=20)
    goal = pp.poses(model, q + 0.1, ["ee_link"])[0]
    space = pp.control.OperationalSpace(model, "ee_link", goal, kp=100, kd=20)
    functions = (
        lambda: pp.forward_dynamics(model, q, v, tau),
        lambda: pp.poses(model, q, model.frames),
        lambda: pp.inverse_dynamics(model, q, v, vdot, f_ext=f_ext),
        lambda: pp.forward_dynamics(model, q, v, tau, f_ext=f_ext),
        lambda: pp.inverse_dynamics(model, q, v, vdot, points=points, f0=f0),
        lambda: pp.forward_dynamics(model, q, v, tau, points=points, f0=f0),
        lambda: pp.joint_reactions(model, q, v, tau),
        lambda: model.integrate(q, v),
        lambda: pp.centroidal.momentum_matrix(model, q),
        lambda: torque(0.0, q, v),
        lambda: space(0.0, q, v),
    )
    return dict(zip(GOALS, functions, strict=True))


def medians(functions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds per call of every function, the median of rounds in which they take turns."""
    counts = {name: timing.repeats_for(f, TARGET) for name, f in functions.items()}
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            start = time.process_time()
            for _ in range(counts[name]):
                function()
            found[name].append((time.process_time() - start) / counts[name])
    return {name: statistics.median(times) for name, times in found.items()}


def batches() -> dict[str, float]:
    """Seconds for 4096 quadrupeds."""
    model = robots.load_robot("ANYmal")
    at = robots.States(model)
    return medians(
        {
            "forward_dynamics": lambda: pp.forward_dynamics(model, at.q, at.v, at.tau),
            "model.integrate": lambda: model.integrate(at.q, at.v),
        }
    )


def searches() -> tuple[pp.Model, np.ndarray, np.ndarray]:
    """A Panda without its fingers, poses of its flange, and starts 0.3 rad off."""
    arm, rng = robots.load_robot("Panda"), np.random.default_rng(0)
    fingers = [name for name in arm.joint_names if "finger" in name]
    arm = arm.with_locked(fingers, arm.neutral())
    q = arm.random_configuration(rng, STARTS)
    off = rng.standard_normal(q.shape)
    starts = q + OFF * off / np.linalg.norm(off, axis=1, keepdims=True)
    return arm, pp.poses(arm, q, [FLANGE])[:, 0], starts


def own_searches() -> tuple[float, float]:
    """Median seconds of a search, and the part of them that succeed."""
    arm, poses, starts = searches()
    times, good = [], 0
    for pose, q0 in zip(poses, starts, strict=True):
        one: list[float] = []
        for _ in range(5):
            start = time.process_time()
            found = pp.inverse_kinematics(
                arm, {FLANGE: pose}, q0=q0, limits=False, position_tolerance=TOLERANCE,
                rotation_tolerance=TOLERANCE, on_error="best",
            )  # fmt: skip
            one.append(time.process_time() - start)
        good += bool(found.converged)
        times.append(min(one))
    return statistics.median(times), good / STARTS


def toolbox_searches() -> tuple[float, float] | None:
    """The same by `ik_LM` on its Panda, to the same tolerance: its error is ½ |e|²."""
    if importlib.util.find_spec("roboticstoolbox") is None:
        return None
    import roboticstoolbox as rtb

    robot, rng = rtb.models.Panda(), np.random.default_rng(0)
    chain = robot.ets()
    low, high = chain.qlim
    times, good = [], 0
    for _ in range(STARTS):
        q = rng.uniform(low, high)
        off = rng.standard_normal(7)
        q0 = q + OFF * off / np.linalg.norm(off)
        pose, one = chain.eval(q), []
        for _ in range(5):
            start = time.process_time()
            found = chain.ik_LM(pose, q0=q0, tol=TOLERANCE**2 / 2, joint_limits=False, slimit=1)
            one.append(time.process_time() - start)
        good += bool(found.success if hasattr(found, "success") else found[1])
        times.append(min(one))
    return statistics.median(times), good / STARTS


def main() -> None:
    """Measure, and write the table."""
    found = medians(calls())
    unit = found["forward_dynamics"]
    lines = [
        "# Everyday calls",
        "",
        "One call from Python on a UR5, processor time on one core, and its ratio to `forward_dynamics`",
        f"in the same run (median of {ROUNDS} rounds). Written by `benchmarks/calls.py`.",
        "",
        "| call | µs | ratio | goal |",
        "|---|---|---|---|",
    ]
    for name, seconds in found.items():
        lines.append(f"| {name} | {1e6 * seconds:.2f} | {seconds / unit:.2f} | ≤ {GOALS[name]} |")
    many = batches()
    part = many["model.integrate"] / many["forward_dynamics"]
    lines += [
        "",
        f"`model.integrate` of {robots.BATCH} ANYmal quadrupeds takes {part:.2f} times as long as their",
        "`forward_dynamics`.",
    ]
    own, rate = own_searches()
    lines += [
        "",
        f"Inverse kinematics of a Panda, {STARTS} poses from starts {OFF} rad off, tolerance "
        f"{TOLERANCE:g} (m and rad),",
        "one attempt, no limits: median, its ratio to `forward_dynamics` of the UR5, and successes.",
        "",
        "| search | µs | ratio | goal | successes |",
        "|---|---|---|---|---|",
        f"| inverse_kinematics | {1e6 * own:.1f} | {own / unit:.1f} | ≤ {IK_GOAL} | {rate:.1%} |",
    ]
    peer = toolbox_searches()
    if peer is not None:
        seconds, rate = peer
        lines.append(
            f"| ik_LM of roboticstoolbox-python | {1e6 * seconds:.1f} | {seconds / unit:.1f} | | "
            f"{rate:.1%} |"
        )
    print("\n".join(lines))
    (HERE / "CALLS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
