"""Chains of clusters on turning bonds: time per cluster of log det ℳ and of its gradient.

    python benchmarks/molecules.py      writes MOLECULES.md

The gradient is compared with differences of log det ℳ before anything is timed.
"""

from __future__ import annotations

import pathlib
import time

import numpy as np
from machine import machine
from report import table
from timing import race

import phipsi as pp

HERE = pathlib.Path(__file__).parent
LENGTHS = (10, 30, 100, 300, 1000, 3000)


def chain(clusters: int) -> pp.Model:
    """Clusters of four atoms in a zigzag, each on a bond that turns; the first floats."""
    mass, bond = 0.014, 0.15  # kg/mol and nm, as molecules count
    at = np.array([[0, 0, 0], [0.05, 0.09, 0], [0.05, -0.09, 0.02], [0.1, 0, 0.03]])
    moment = mass / 4 * sum(np.dot(p, p) * np.eye(3) - np.outer(p, p) for p in at - at.mean(0))
    inertia = pp.SpatialInertia(mass, at.mean(axis=0), moment)
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    builder.add_body("c0", joint=pp.joints.Free(), inertia=inertia)
    tilt = np.deg2rad(70.5)
    turn = np.array([[np.cos(tilt), 0, np.sin(tilt)], [0, 1, 0], [-np.sin(tilt), 0, np.cos(tilt)]])
    for k in range(1, clusters):
        builder.add_body(
            f"c{k}", parent=f"c{k - 1}", joint=pp.joints.Revolute((0, 0, 1)),
            placement=pp.Pose(turn, (bond, 0, 0)), inertia=inertia,
        )  # fmt: skip
    return builder.build()


def _check(model: pp.Model, q: np.ndarray) -> None:
    """The gradient along a random direction, by differences."""
    along, h = np.random.default_rng(1).standard_normal(model.nv), 1e-5
    slope = pp.sensitivities.log_det_mass_matrix_gradient(model, q) @ along
    ends = [
        pp.diagonal_dynamics.log_det_mass_matrix(model, model.integrate(q, x * along))
        for x in (h, -h)
    ]
    assert abs(slope - (ends[0] - ends[1]) / (2 * h)) < 1e-4 * max(1.0, abs(slope)), "gradient"


def main() -> None:
    """Measure and write."""
    rows: list[list[str]] = []
    per: list[float] = []
    for n in LENGTHS:
        model = chain(n)
        q = model.random_configuration(0)
        if n <= 300:
            _check(model, q)
        found = race(
            {
                "value": lambda m=model, q=q: pp.diagonal_dynamics.log_det_mass_matrix(m, q),
                "gradient": lambda m=model, q=q: pp.sensitivities.log_det_mass_matrix_gradient(
                    m, q
                ),
            },
            rounds=25,
            clock=time.process_time,
        )
        value, gradient = (1e6 * found[x] / n for x in ("value", "gradient"))
        per.append(gradient)
        rows.append([f"{n:,}", f"{value:.3f}", f"{gradient:.3f}", f"{gradient / value:.2f}"])
        print(rows[-1], flush=True)
    grown = np.polyfit(np.log(LENGTHS[2:]), np.log(np.array(per[2:]) * LENGTHS[2:]), 1)[0]
    where = machine()
    head = ["clusters", "log det ℳ, µs per cluster", "gradient, µs per cluster", "ratio"]
    text = (
        "# Molecules: time per cluster\n\n"
        "One core, processor time, best of the rounds. Written by `benchmarks/molecules.py`. "
        f"{where['cpu']}; {where['date'][:10]}.\n\n"
        "Chains of clusters on turning bonds, one configuration per call: log det ℳ and its gradient by\n"
        "all coordinates, which is Fixman's force.\n\n"
        f"{table(head, rows)}\n\n"
        f"From {LENGTHS[2]} clusters on, the time of the gradient grows with the power {grown:.2f} of their "
        "number.\n"
    )
    (HERE / "MOLECULES.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
