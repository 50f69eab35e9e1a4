"""Rollouts of closed chains: steps in machine code against the same steps in NumPy.

python benchmarks/closed_rollouts.py      prints the table of CLOSED_CHAINS.md
"""

from __future__ import annotations

import time
from collections.abc import Callable
from unittest import mock

import numpy as np
from closed_systems import four_bars, platform
from report import micro, table
from timing import race

import phipsi as pp

BATCH, STEPS, SHORT, DT = 1024, 100, 10, 1e-3
INTEGRATORS = ("rk4", "semi_implicit")
SYSTEMS: dict[str, Callable[[], tuple[pp.System, np.ndarray]]] = {
    "four-bar": lambda: four_bars(1, False),
    "four-bars, 3 on one free body": lambda: four_bars(3, True),
    "platform on 6 legs": lambda: platform(6),
}
AGREE = 1e-9


def compare(name: str, integrator: str) -> dict[str, float]:
    """Seconds per step and trajectory of both ways, whose answers agree."""
    system, q = SYSTEMS[name]()
    v = 0.3 * np.random.default_rng(0).standard_normal((BATCH, system.nv))
    q0, v0 = system.project(np.broadcast_to(q, (BATCH, system.nq)), v)

    def run(steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
        return pp.rollout(system, q0, v0, np.zeros(system.nv), DT, steps, integrator=integrator)

    times = {"machine code": race({"it": run}, rounds=5)["it"] / STEPS}
    found = run(SHORT)
    with mock.patch("phipsi.simulation.runs.rollout._plan", side_effect=pp.errors.InputError):
        run(1)
        start = time.process_time()
        wanted = run(SHORT)
        times["NumPy"] = (time.process_time() - start) / SHORT
    gap = max(float(np.abs(x - y).max()) for x, y in zip(found, wanted, strict=True))
    assert gap < AGREE, f"{name}: the two ways differ by {gap:.2g}"
    return {way: t / BATCH for way, t in times.items()}


def section() -> str:
    """The part of the page."""
    rows = []
    for name in SYSTEMS:
        for integrator in INTEGRATORS:
            t = compare(name, integrator)
            mine, other = t["machine code"], t["NumPy"]
            times = [micro(other), micro(mine), f"{other / mine:.0f}×"]
            rows.append([name, integrator, *times])
    return (
        f"## Rollouts\n\n`pp.rollout(system, …)`, {BATCH} trajectories on one core, µs per step and "
        "trajectory, with the projection onto the constraints after every step: in machine code, and "
        f"the same steps in NumPy. The states agree to {AGREE:g}.\n\n"
        + table(["system", "integrator", "in NumPy", "in machine code", "ratio"], rows)
    )


if __name__ == "__main__":
    print(section())
