"""Rotors on skew axes against armature, on the same arm and in the same run.

    python benchmarks/gears.py      writes GEARS.md

The arm has seven joints with armature. Instead, one or six of its joints have rotors on axes that are
not theirs: bevel and worm gears. Answers are compared with rotors that are bodies before anything is
timed.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from machine import machine
from report import micro, table
from timing import race

import phipsi as pp

HERE = pathlib.Path(__file__).parent
BATCH = 512
RATIO, MOMENT = 20.0, 1e-4
COUNTS = (0, 1, 6)


def geared_arm(rotors: int) -> tuple[pp.Model, pp.Model, np.ndarray]:
    """The arm, the same with every rotor as a body, and the rates of that from those of the arm."""
    rng = np.random.default_rng(0)
    model = full = pp.examples.seven_joint_arm(armature=0.05)
    driven = model.joint_names[len(model.joint_names) - rotors :]
    for joint in driven:
        axis = rng.standard_normal(3)
        axis /= np.linalg.norm(axis)
        mass = pp.SpatialInertia(0.2, (0, 0, 0), MOMENT * np.eye(3))
        gear: dict[str, Any] = {"joint": joint, "ratio": RATIO, "moment": MOMENT}
        model = model.with_rotor(f"rotor of {joint}", **gear, axis=tuple(axis), inertia=mass)
        part = pp.ModelBuilder()
        part.add_body(f"rotor of {joint}", joint=pp.joints.Revolute(axis), inertia=mass)
        full = full.attach(part.build(), at=model.body(model.joint(joint).body).parent)
    rates = np.zeros((full.nv, model.nv))
    for joint in model.joint_names:
        rates[full.v_slice(joint), model.v_slice(joint)] = 1.0
    for joint in driven:
        rates[full.v_slice(full.body(f"rotor of {joint}").joint_name), model.v_slice(joint)] = RATIO
    return model, full, rates


def check(model: pp.Model, full: pp.Model, rates: np.ndarray) -> float:
    """The largest difference to rotors as bodies, of the largest effort."""
    rng = np.random.default_rng(1)
    q, v, vdot = model.random_configuration(rng), *rng.standard_normal((2, model.nv))
    expected = rates.T @ pp.inverse_dynamics(full, rates @ q, rates @ v, rates @ vdot)
    found = pp.inverse_dynamics(model, q, v, vdot)
    back = pp.mass_matrix(model, q) @ (pp.forward_dynamics(model, q, v, found) - vdot)
    return float(max(np.abs(found - expected).max(), np.abs(back).max()) / np.abs(expected).max())


def calls(model: pp.Model) -> dict[str, Callable[[], Any]]:
    """What is timed."""
    rng = np.random.default_rng(2)
    q = np.array([model.random_configuration(rng) for _ in range(BATCH)])
    v, tau = rng.standard_normal((2, BATCH, model.nv))
    return {
        "forward dynamics": lambda: pp.forward_dynamics(model, q, v, tau),
        "inverse dynamics": lambda: pp.inverse_dynamics(model, q, v, tau),
        "mass matrix": lambda: pp.mass_matrix(model, q),
        "derivatives of inverse dynamics": lambda: pp.inverse_dynamics_derivatives(
            model, q, v, tau
        ),
        "derivatives of forward dynamics": lambda: pp.forward_dynamics_derivatives(
            model, q, v, tau
        ),
        "forward dynamics, one call": lambda: pp.forward_dynamics(model, q[0], v[0], tau[0]),
    }


def rows() -> tuple[list[list[str]], float]:
    """Times and ratios, function by function; all arms take turns."""
    arms = [geared_arm(n) for n in COUNTS]
    worst = max(check(*arm) for arm in arms)
    assert worst < 1e-11, worst
    timed = [calls(model) for model, _, _ in arms]
    out: list[list[str]] = []
    for name in timed[0]:
        runs = {str(n): f[name] for n, f in zip(COUNTS, timed, strict=True)}
        best = race(runs, rounds=60, target=0.004)
        size = 1 if "one call" in name else BATCH
        plain = best["0"]
        ratios = (f"{best[str(n)] / plain:.2f}×" for n in COUNTS[1:])
        out.append([name, micro(plain / size), *ratios])
    return out, worst


def main() -> None:
    """Measure, and write the report."""
    where: Any = machine()
    found, worst = rows()
    heads = ["seven-joint arm", "armature, µs", "one skew rotor", "six skew rotors"]
    text = f"""# Rotors on skew axes

`python benchmarks/gears.py`: batches of {BATCH} configurations, the best of 60 rounds in which all arms take turns.
One core, processor time. {where.get("cpu", "")}, {where["lanes"]} configurations side by side; {where["date"][:10]}.

{table(heads, found)}

Efforts and accelerations differ from those of rotors that are bodies by {worst:.0e} of the largest. How: [decision 0060](../docs/decisions/0060-drives-are-rows.md).
"""
    (HERE / "GEARS.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
