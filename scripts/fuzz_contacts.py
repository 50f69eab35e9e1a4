"""Count the steps that the contact solver does not solve, in a million random ones.

    python scripts/fuzz_contacts.py                a million steps, about two minutes
    python scripts/fuzz_contacts.py --share 0.1    a tenth of them

Heaps, stacks and tumbling boxes of tests/support/contact_heaps.py, and robots of the benchmarks
that land on their feet. A step is solved if its residual is at most 1e-10 m/s, or where that is
more 16 ε max(|W| |p| + |b|). One with a residual above 1e-4 m/s ends its trajectory, and counts as
well. Prints the table of docs/contact-validation.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "benchmarks")]

STEPS = 200
# how many thousand steps
THOUSANDS = {
    "a tumbling box": 250,
    "a box thrown into a bin": 150,
    "4 balls in a bin": 100,
    "3 balls, masses 1 : 10⁶": 100,
    "12 balls in a bin": 20,
    "2 boxes, 10³ on 1": 100,
    "3 boxes, 10⁶ on 10³ on 1": 40,
    "a stack of 10 boxes": 20,
    "ANYmal lands": 120,
    "G1 lands": 100,
}


def scene(name: str, batch: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """A simulator and a state, at the beginning."""
    from contact_heaps import DT, SCENES

    import phipsi as pp

    if name in SCENES:
        system, q, v = SCENES[name](batch, rng)
        sim = pp.Simulator(system, dt=DT, integrator="time_stepping")
        return sim, sim.initial_state(q, v, resolve_penetration=True)
    import contacts

    contacts.BATCH = batch
    robot = contacts.Standing(contacts.robot(name.split()[0]), settle=0)
    v = robot.v + 0.3 * rng.standard_normal(robot.v.shape)
    return robot.sim, robot.sim.initial_state(robot.q, v)


def main() -> None:
    """Run all scenes, and print the table."""
    parser = argparse.ArgumentParser(description="Steps that are not solved")
    parser.add_argument("--share", type=float, default=1.0, help="of a million steps")
    parser.add_argument("--only", default="", help="scenes whose names have this text")
    given = parser.parse_args()
    print(
        "| scene | steps | not solved | largest residual, m/s | most factorisations | µs per step |"
    )
    print("|---|---|---|---|---|---|")
    total, failed, rng = 0, 0, np.random.default_rng(1)
    for name, thousands in THOUSANDS.items():
        if given.only not in name:
            continue
        batch = max(1, round(1000 * thousands * given.share / STEPS))
        sim, state = scene(name, batch, rng)
        sim.rollout(state, steps=1, record_every=1, progress=False, on_error="nan")
        began = time.process_time()
        run = sim.rollout(state, steps=STEPS, record_every=STEPS, progress=False, on_error="nan")
        spent = time.process_time() - began
        proof, lost = run.certificate, np.asarray(run.status) != 0
        steps, unsolved = batch * STEPS, int(proof.unsolved.sum() + lost.sum())
        total, failed = total + steps, failed + unsolved
        print(
            f"| {name} | {steps:,} | {unsolved} ({100 * unsolved / steps:.4f} %) | "
            f"{proof.residual.max():.0e} | {proof.iterations.max()} | {1e6 * spent / steps:.1f} |",
            flush=True,
        )
    print(f"| all | {total:,} | {failed} ({100 * failed / max(1, total):.4f} %) | | | |")


if __name__ == "__main__":
    main()
