"""Forward dynamics with embedded loops against that with multipliers, in one run.

    python benchmarks/embedding.py        writes benchmarks/EMBEDDING.md

Cassie is the file of example-robot-data as it is; Talos is that of example-robot-data on a floating
base, with each ankle driven by two cranks on the shin and two rods (mass 0.1 kg each). Calls are of one
configuration, batches of 512, on one thread; the best of rounds in which all take turns.
"""

from __future__ import annotations

import sysconfig
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine

import phipsi as pp

HERE = Path(__file__).parent
ROBOTS = Path(sysconfig.get_paths()["purelib"]) / "cmeel.prefix/share/example-robot-data/robots"
BATCH, ROUNDS = 512, 15


def cassie() -> tuple[pp.System, np.ndarray]:
    """Cassie, and a configuration at which its loops are closed as far as the file closes them."""
    system: Any = pp.load(ROBOTS / "cassie_description/robots/cassie_v2.sdf")
    return system, system.assemble(system.model.neutral(), tolerance=1e-8)


def talos() -> tuple[pp.System, np.ndarray]:
    """Talos with parallel ankles: on each shin two cranks, whose rods hold the heel."""
    path = ROBOTS / "talos_data/robots/talos_reduced.urdf"
    model = pp.load(path, base="free")
    b = pp.ModelBuilder(gravity=tuple(model.gravity))
    for x in model.description.bodies:
        b.add_body(
            x.name, parent=x.parent, joint=x.joint, placement=x.placement, inertia=x.inertia,
            joint_name=x.joint_name, armature=x.armature, damping=x.damping, limits=x.limits,
        )  # fmt: skip
    part = pp.SpatialInertia(0.1, (0, 0, 0.02), 1e-4)
    constraints: list[Any] = []
    for side in ("left", "right"):
        shin, foot = (f"leg_{side}_{i}_link" for i in (4, 6))
        in_shin, in_foot = (
            np.linalg.inv(x) for x in pp.poses(model, model.neutral(), [shin, foot])
        )
        for k, y in enumerate((-0.04, 0.04)):
            heel = np.linalg.inv(in_foot) @ (-0.06, y, 0.0, 1.0)
            tip = heel + (0, 0, 0.25, 0)  # of the crank, which points back to its root
            root = in_shin @ (tip + (0.06, 0, 0, 0))
            b.add_body(
                f"crank {side} {k}", parent=shin, joint=pp.joints.Revolute((0, 1, 0)),
                placement=pp.Pose(in_shin[:3, :3], root[:3]), inertia=part,
            )  # fmt: skip
            b.add_body(
                f"rod {side} {k}", parent=f"crank {side} {k}", inertia=part,
                joint=pp.joints.Universal((1, 0, 0), (0, 1, 0)),
                placement=pp.Pose(None, (-0.06, 0, 0)),
            )  # fmt: skip
            ends = (f"rod {side} {k}", (0, 0, -0.25)), (foot, (-0.06, y, 0.0))
            constraints.append(
                pp.constraints.Spherical(name=f"heel {side} {k}", a=ends[0], b=ends[1])
            )
    system = pp.System(b.build(), constraints)
    return system, system.assemble(system.model.neutral())


def measured(system: pp.System, q: np.ndarray) -> dict[str, Any]:
    """Microseconds of both, and how far accelerations differ."""
    embedded = pp.embed_constraints(system, q)
    model, rng = embedded.model, np.random.default_rng(0)
    start = np.tile(embedded.coordinates(q), (BATCH, 1))
    at = model.integrate(start, 0.05 * rng.standard_normal((BATCH, model.nv)))
    v = rng.standard_normal((BATCH, model.nv))
    tau = rng.standard_normal((BATCH, system.nv))
    all_q, all_v = embedded.system_coordinates(at), embedded.system_velocities(at, v)
    own = embedded.efforts(at, tau)
    calls = {
        ("call", "multipliers"): lambda: pp.forward_dynamics(system, all_q[0], all_v[0], tau[0]),
        ("call", "embedded"): lambda: pp.forward_dynamics(model, at[0], v[0], own[0]),
        ("batch", "multipliers"): lambda: pp.forward_dynamics(system, all_q, all_v, tau, threads=1),
        ("batch", "embedded"): lambda: pp.forward_dynamics(model, at, v, own, threads=1),
    }
    wanted = embedded.velocities(at, calls["batch", "multipliers"]())
    found = calls["batch", "embedded"]()
    best = dict.fromkeys(calls, np.inf)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            count = 50 if name[0] == "call" else 3
            begin = time.process_time()
            for _ in range(count):
                call()
            spent = (time.process_time() - begin) / count / (BATCH if name[0] == "batch" else 1)
            best[name] = min(best[name], 1e6 * spent)
    return {
        "nv": f"{system.nv} → {model.nv}", "rows": system.n_rows, "best": best,
        "error": np.abs(found - wanted).max() / np.abs(wanted).max(),
        "rank": system.mobility(q).rank,
    }  # fmt: skip


def main() -> None:
    """Measure, and write the page."""
    where = machine()
    lines = [
        "# Embedded loops against multipliers", "",
        f"`python benchmarks/embedding.py`: forward dynamics in µs a state, one thread, processor "
        f"time; the best of {ROUNDS} rounds in turns. {where['cpu']}, {where['lanes']} lanes; {where['date']}, load {where['load before']}.",
        "",
        "| robot | velocities | rows (rank) | | multipliers | embedded | ratio |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    errors: list[str] = []
    for name, make in (("Cassie", cassie), ("Talos, parallel ankles", talos)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = measured(*make())
        for kind, words in (("call", "one call"), ("batch", f"batch of {BATCH}")):
            both = [found["best"][kind, x] for x in ("multipliers", "embedded")]
            ratio = both[0] / both[1]
            lines.append(
                f"| {name} | {found['nv']} | {found['rows']} ({found['rank']}) | {words} | {both[0]:.3g} | "
                f"{both[1]:.3g} | {ratio:.3g}× |"
            )
        errors.append(f"{name} {found['error']:.1g}")
    lines += [
        "", f"Largest difference of accelerations, of the largest: {', '.join(errors)}.", "",
        "Rows of Cassie are redundant (planar loops in space): the rank of the constrained system is "
        "decided by singular values there, which the tree does not need.",
    ]  # fmt: skip
    (HERE / "EMBEDDING.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
