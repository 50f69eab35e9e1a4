"""Arms of seven joints that hold one ball: time of forward dynamics against the number of arms.

    python benchmarks/grasps.py          writes benchmarks/GRASPS.md

Two ways that must agree first: the rows of the whole system eliminated in machine code, and the
form that solves for the ball with the arms reflected into it (small NumPy solves per arm).
"""

from __future__ import annotations

import pathlib
import time

import numpy as np

import phipsi as pp

HERE = pathlib.Path(__file__).parent
ARMS = (2, 4, 8, 16, 32)


def grasp(arms: int) -> tuple[pp.grasping.Grasp, np.ndarray]:
    """Arms in a circle, each welded to the ball where its tool happens to be."""
    b = pp.ModelBuilder()
    ball = pp.SpatialInertia(5, (0, 0, 0), 0.1)
    b.add_body("ball", joint=pp.joints.Free(), inertia=ball)
    model, arm = b.build(), pp.examples.seven_joint_arm()
    for i in range(arms):
        turn = 2 * np.pi * i / arms
        foot = pp.Pose(None, (2 * np.cos(turn), 2 * np.sin(turn), 0))
        model = model.attach(arm, placement=foot, prefix=f"a{i}_")
    q = model.random_configuration(0)
    back = np.linalg.inv(pp.poses(model, q)[model.body_index("ball")])
    held = []
    for i in range(arms):
        X = back @ pp.poses(model, q, [f"a{i}_tool"])[0]
        place = ("ball", pp.Pose(X[:3, :3], X[:3, 3]))
        held.append(pp.grasping.Rigid(name=f"c{i}", finger=f"a{i}_tool", object=place))
    return pp.grasping.Grasp(model, object="ball", contacts=held), q


def best(call, repeats: int) -> float:
    """Shortest mean time of a call in µs, of seven rounds."""
    rounds = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        rounds.append((time.perf_counter() - start) / repeats)
    return 1e6 * min(rounds)


def main() -> None:
    """Measure, and write the table."""
    lines = [
        "# Arms that hold one object",
        "",
        "Forward dynamics of l arms of seven joints that hold a ball rigidly, one call, µs: rows of the",
        'whole system in machine code, and `algorithm="secondary"`. Written by `benchmarks/grasps.py`.',
        "",
        "| arms | rates | rows | default | secondary | difference |",
        "|---|---|---|---|---|---|",
    ]
    for arms in ARMS:
        system, q = grasp(arms)
        rest = np.zeros(system.model.nv)
        exact = pp.forward_dynamics(system, q, rest, rest)
        other = pp.forward_dynamics(system, q, rest, rest, algorithm="secondary")
        off = float(np.abs(exact - other).max() / np.abs(exact).max())
        assert off < 1e-9
        first = best(
            lambda s=system, x=q, z=rest: pp.forward_dynamics(s, x, z, z, return_multipliers=True),
            400 // arms,
        )
        second = best(
            lambda s=system, x=q, z=rest: pp.forward_dynamics(s, x, z, z, algorithm="secondary", return_multipliers=True),
            max(3, 60 // arms),
        )  # fmt: skip
        row = f"| {arms} | {system.model.nv} | {system.n_rows} | {first:.1f} | {second:.0f} | {off:.0e} |"
        print(row)
        lines.append(row)
    (HERE / "GRASPS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
