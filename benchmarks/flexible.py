"""Flexible bodies: against rigid ones in the same run, long chains, Exudyn, large matrices.

    python benchmarks/flexible.py [--matrices]      writes FLEXIBLE.md

Answers are compared before anything is timed. Exudyn (PyPI) runs its planar cable elements; where it
is not installed, that section is the one of the last report and says so.
"""

from __future__ import annotations

import os
import pathlib
import sys
import time
from importlib.metadata import version
from typing import Any

import numpy as np
from machine import machine
from report import micro, table
from timing import race

import phipsi as pp
from phipsi.core.model import Fixed, Revolute

HERE = pathlib.Path(__file__).parent
AXES = [(0, 0, 1), (0, 1, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0)]
BATCH = 1024
LENGTHS = (100, 1000, 10_000)


def arm(flexible: bool) -> pp.Model:
    """Seven links; each with six modes, or rigid with the same mass."""
    link = pp.FlexibleInertia.beam(0.4, 3.0, (400.0, 500.0), modes=1, rotary_inertia=0.01)
    assert link.modes == 6
    builder = pp.ModelBuilder()
    end = pp.Pose(translation=(0.4, 0, 0))
    for k, axis in enumerate(AXES):
        on: dict[str, Any] = {"inertia": link if flexible else link.rigid}
        if k:
            on |= {"parent": f"b{k - 1}"}
            on |= {"port": "tip"} if flexible else {"placement": end}
        builder.add_body(f"b{k}", joint=Revolute(axis), **on)
    return builder.build()


def chain(bodies: int, flexible: bool) -> pp.Model:
    """A cable of welded segments with one mode each, or rigid links on hinges."""
    piece = pp.FlexibleInertia.beam(
        0.1, 1.0, (10.0, np.inf), modes=0, rotary_inertia=1e-3, max_frequency=2000.0
    )
    builder = pp.ModelBuilder()
    end = pp.Pose(translation=(0.1, 0, 0))
    for k in range(bodies):
        on: dict[str, Any] = {"joint": Fixed(), "inertia": piece}
        if not flexible:
            on = {"joint": Revolute(), "inertia": piece.rigid}
        if k:
            on |= {"parent": f"b{k - 1}"}
            on |= {"port": "tip"} if flexible else {"placement": end}
        builder.add_body(f"b{k}", **on)
    return builder.build()


def states(model: pp.Model, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    q = (
        np.zeros((count, model.nq))
        + model.neutral()
        + 1e-3 * rng.standard_normal((count, model.nq))
    )
    return q, 0.1 * rng.standard_normal((count, model.nv)), rng.standard_normal((count, model.nv))


TRIED = """\
Sums, products and x y + z in the wide kernel for one link on a port (a rigid link has 533 and one division), and the times above after each step: ranges
over four rounds (chains: three) in which all versions took turns, on a machine with two cores and a load of 7 to 9. Measured 2026-11-17.

| step | arithmetic | divisions | batch, µs | single, µs | 100 segments, µs each | 10,000 segments, µs each |
|---|---|---|---|---|---|---|
| before | 3,653 | 44 | 1.45 to 1.54 | 6.2 to 6.4 | 0.141 to 0.142 | 0.190 to 0.228 |
| E_φ as R, l and Q; D factored, not inverted; known rows of G | 2,725 | 21 | 1.01 to 1.15 | 4.7 to 4.8 | 0.113 to 0.114 | 0.141 to 0.158 |
| equal bodies share a row of the table | 2,725 | 21 | 0.97 to 1.06 | 4.6 to 4.7 | 0.112 to 0.115 | 0.118 to 0.132 |
| no placement for joints on the port itself | 2,539 | 21 | 0.96 to 1.07 | 4.4 to 4.5 | 0.083 to 0.085 | 0.090 to 0.112 |
| slopes of J once, one division for a port | 2,481 | 10 | 0.91 to 1.07 | 4.3 to 4.4 | 0.086 | 0.097 to 0.107 |
| axes along the frame known, first child adds to nothing, M(η) in the first sweep | 2,132 | 10 | 0.74 to 0.77 | 4.0 to 4.1 | as before | as before |
| rigid links, chains on hinges | 533 | 1 | 0.152 to 0.166 | 1.2 | 0.088 to 0.090 | 0.099 to 0.118 |

The last step was measured later, against the one before in turns (0.92 to 1.03 µs and 4.4 to 4.5 then). An axis of the frame of a flexible body is a row of P that
is at hand: D = H P H* costs nothing, a row of G is known, and of P − G H P fifteen numbers are left. By run, the batch takes 4.9 to 5.4 times as long as the rigid one (with a load of 7, once 5.7 and twice 6.6),
at 4.0 times
the arithmetic. The rest is registers: P alone has 78 numbers. Before the last step, of 3,500 instructions of the sweep to the base 420 wrote and 890 read numbers that
did not fit; now 270 and 550 of 2,330, and in the first sweep 160 and 200 of 1,430. Code for another axis is another piece of code: for the wide kernel of this arm, 1.2 s of
compilation instead of 0.8. Without gain: other orders of the fields of that sweep, LLVM's other schedulers before
register allocation, four configurations side by side instead of eight (1.12 µs where eight take 0.93). Chains of 10,000 live in the last level of caches, which
others used too: with few rounds, runs of this file gave 0.102 to 0.161 µs for segments and 0.104 to 0.155 for hinges."""


def evaluations() -> str:
    """Forward dynamics of an arm with six modes per link against the rigid arm."""
    rows = []
    runs: dict[str, Any] = {}
    for flexible in (True, False):
        model = arm(flexible)
        q, v, tau = states(model, BATCH)
        vdot = pp.forward_dynamics(model, q[0], v[0], tau[0])
        back = pp.inverse_dynamics(model, q[0], v[0], vdot)
        size = np.abs(pp.mass_matrix(model, q[0]) @ vdot).max()  # elastic forces are large
        assert np.abs(back - tau[0]).max() < 1e-9 * size, (np.abs(back - tau[0]).max(), size)
        kind = "six modes per link" if flexible else "rigid"
        runs[f"{kind}, single"] = lambda m=model, x=(q[0], v[0], tau[0]): pp.forward_dynamics(m, *x)
        runs[f"{kind}, batch"] = lambda m=model, x=(q, v, tau): pp.forward_dynamics(m, *x)
    best = race(runs, rounds=40, target=0.01)
    for call, size in (("single", 1), ("batch", BATCH)):
        a, b = best[f"six modes per link, {call}"] / size, best[f"rigid, {call}"] / size
        rows.append([call, micro(a), micro(b), f"{a / b:.1f}×"])
    return table(["forward dynamics of seven links", "49 dof, µs", "rigid, µs", "ratio"], rows)


def long_chains() -> str:
    """Time per body against the number of bodies; all chains take turns."""
    runs: dict[str, Any] = {}
    for bodies in LENGTHS:
        for flexible in (True, False):
            model = chain(bodies, flexible)
            x = tuple(y[0] for y in states(model, 1))
            runs[f"{bodies} {flexible}"] = lambda m=model, x=x: pp.forward_dynamics(m, *x)
    best = race(runs, rounds=60, target=0.01)
    each = {kind: [best[f"{n} {kind}"] / n for n in LENGTHS] for kind in (True, False)}
    rows = [
        [f"{n:,}", micro(a), micro(b)]
        for n, a, b in zip(LENGTHS, each[True], each[False], strict=True)
    ]
    rows.append(["longest / shortest", *(f"{x[-1] / x[0]:.2f}×" for x in each.values())])
    return table(["bodies", "one mode each, µs per body", "rigid on hinges, µs per body"], rows)


# ---- Exudyn -----------------------------------------------------------------------------------

PENDULUM = {"L": 1.0, "rhoA": 1.0, "EI": 2.0, "EA": 2e3, "end": 1.0, "h": 1e-3}


def exudyn_pendulum(elements: int = 8) -> tuple[Any, Any]:
    """A pinned cable that falls: a function that runs it, and one that gives its tip."""
    import warnings

    import exudyn as exu
    from exudyn.beams import GenerateStraightLineANCFCable2D
    from exudyn.itemInterface import ObjectANCFCable2D

    p = PENDULUM
    mbs = exu.SystemContainer().AddSystem()
    cable = ObjectANCFCable2D(
        physicsMassPerLength=p["rhoA"], physicsBendingStiffness=p["EI"],
        physicsAxialStiffness=p["EA"], useReducedOrderIntegration=0,
    )  # fmt: skip
    nodes = GenerateStraightLineANCFCable2D(
        mbs, [0, 0, 0], [p["L"], 0, 0], elements, cable, massProportionalLoad=[0, -9.81, 0],
        fixedConstraintsNode0=[1, 1, 0, 0],
    )[0]  # fmt: skip
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps = round(p["end"] / p["h"])
    settings.timeIntegration.endTime = p["end"]
    settings.solution.file.write = False
    settings.timeIntegration.verboseMode = 0
    settings.timeIntegration.newton.useModifiedNewton = True
    settings.parallel.numberOfThreads = 1

    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mbs.SolveDynamic(settings, updateInitialValues=False)

    tip = lambda: np.array(mbs.GetNodeOutput(nodes[-1], exu.OutputVariableType.Position))  # noqa: E731
    return run, tip


def our_pendulum() -> pp.Model:
    p = PENDULUM
    piece = pp.FlexibleInertia.beam(p["L"] / 4, p["rhoA"], (p["EI"], np.inf), p["EA"], modes=0)
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    for k in range(4):
        place = (
            {"parent": f"b{k - 1}", "port": "tip", "joint": Fixed()} if k else {"joint": Revolute()}
        )
        builder.add_body(f"b{k}", inertia=piece, **place)
    builder.add_frame("tip", "b3", port="tip")
    return builder.build(inertia="keep")


def earlier(heading: str) -> str:
    """A section of the last report, for what cannot be measured here."""
    said = "From an earlier run: Exudyn is not installed where the rest was measured."
    text = (HERE / "FLEXIBLE.md").read_text(encoding="utf-8")
    found = text.partition(f"{heading}\n")[2].partition("\n## ")[0].strip()
    return found if found.startswith(said) else f"{said} {found}"


def against_exudyn() -> str:
    try:
        run, tip = exudyn_pendulum()
    except ImportError:
        return earlier("## Exudyn")
    model, p = our_pendulum(), PENDULUM
    steps = round(p["end"] / p["h"])
    q0, zero = model.neutral(), np.zeros(model.nv)

    def ours(count: int) -> Any:
        starts = np.tile(q0, (count, 1)) if count > 1 else q0
        return pp.rollout(model, starts, zero, zero, p["h"], steps, record_every=steps)

    run()
    mine = pp.poses(model, ours(1)[0][-1], ["tip"])[0][:2, 3]
    gap = float(np.abs(tip()[:2] - mine).max())
    assert gap < 0.01, (tip(), mine)
    best = race(
        {"exudyn": run, "one": lambda: ours(1), "many": lambda: ours(BATCH)}, rounds=3, target=0.01
    )
    many = best["many"] / BATCH
    rows = [
        [f"Exudyn {version('exudyn')}, 8 cable elements", f"{1000 * best['exudyn']:.2f}", ""],
        [
            "phipsi, 4 segments, one run",
            f"{1000 * best['one']:.2f}",
            f"{best['exudyn'] / best['one']:.1f}×",
        ],
        [f"phipsi, batch of {BATCH}", f"{1000 * many:.3f}", f"{best['exudyn'] / many:.0f}×"],
    ]
    said = f"Tips after {p['end']:g} s differ by {1000 * gap:.1f} mm of {p['L']:g} m.\n\n"
    return said + table(["a beam on a hinge falls for 1 s, steps of 1 ms", "ms", "ratio"], rows)


def large_matrices() -> str:
    """A cube of 100,000 degrees of freedom, ten modes and a port."""
    import skfem

    from phipsi.flexible import mesh_matrices

    cube = skfem.MeshTet.init_tensor(*(np.linspace(0, 0.1 * n, n + 1) for n in (32, 31, 31)))
    parts = mesh_matrices(
        cube, 1e9, 0.3, 1000.0, root=lambda x: x[:, 0] < 1e-9,
        ports={"tip": lambda x: x[:, 0] > 3.2 - 1e-9}, order=1, origin=(0, 0, 0), scale=1.0,
    )  # fmt: skip
    start = time.process_time()
    body = pp.FlexibleInertia.from_matrices(**parts, modes=10)
    spent = time.process_time() - start
    size = parts["mass"].shape[0]
    return f"`from_matrices` with {size:,} degrees of freedom: {spent:.0f} s of processor time; {body.modes} modes."


def main() -> None:
    os.environ.setdefault("PHIPSI_BACKEND", "native")
    where = machine()
    parts = [
        "# Flexible bodies: time per call",
        f"One core, processor time, best of the rounds. Written by `benchmarks/flexible.py`. {where.get('cpu', '')}; {time.strftime('%Y-%m-%d')}.",
        "## Against rigid links",
        evaluations(),
        "## Long chains",
        long_chains(),
        "## What was tried",
        TRIED,
        "## Exudyn",
        against_exudyn(),
    ]
    if "--matrices" in sys.argv:
        parts += ["## Large matrices", large_matrices()]
    text = "\n\n".join(parts) + "\n"
    (HERE / "FLEXIBLE.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
