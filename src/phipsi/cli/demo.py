"""The library's main job in one page: ``phipsi demo`` or ``python -m phipsi.cli.demo``.

Loads a seven-joint arm from a robot file, shows what becomes of its forward dynamics, compares the
compiled recursion with dense linear algebra, lets the arm swing for ten seconds, checks what must
be conserved, and writes a report with plots and an animation.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import phipsi as pp
from phipsi.algorithms import FORWARD_DYNAMICS
from phipsi.core.operators import mass_matrix

START = {"shoulder_yaw": 0.2, "shoulder_pitch": 2.3, "upper_arm_roll": 0.3, "elbow_pitch": 0.9}
TURN = {"shoulder_yaw": 1.5}  # rad/s
DURATION = 10.0

Result = tuple[str, bool, str]


def main() -> int:
    """Run the demo into the folder named on the command line."""
    return run(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("phipsi-demo"))


def run(folder: Path, *, open_report: bool = False) -> int:
    """Write arm.urdf, swing.npz and report.html; the exit code is 0 if all numbers are right."""
    folder.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []

    _title("1. A robot file")
    pp.save_urdf(pp.examples.seven_joint_arm(), folder / "arm.urdf")
    arm = pp.load(folder / "arm.urdf")
    print(f"{folder / 'arm.urdf'}: {', '.join(arm.joint_names)}")

    _title("2. Its forward dynamics as an operator expression, and the recursion it becomes")
    print(pp.explain(FORWARD_DYNAMICS, arm))

    _title("3. The compiled recursion against dense linear algebra")
    rng = np.random.default_rng(0)
    q, v, effort = arm.random_configuration(rng), *rng.standard_normal((2, arm.nv))
    compiled = pp.compile(mass_matrix.inv, arm)(q, effort)
    dense = np.linalg.solve(pp.evaluate_dense(mass_matrix, arm, q), effort)
    _agree(results, "ℳ⁻¹ τ: O(N) sweeps and dense O(N³) solve", compiled, dense)
    many = arm.random_configuration(rng, (1000,))
    vdot = pp.compile(FORWARD_DYNAMICS, arm)(many, v, effort)
    back = pp.inverse_dynamics(arm, many, v, vdot)
    _agree(results, "τ again from the accelerations, 1000 states", back, effort)

    _title(f"4. {DURATION:g} seconds of free swinging")
    swing = _swing(arm, results)
    swing.save(folder / "swing.npz")

    _title("5. A report")
    page = pp.report(
        swing,
        folder / "report.html",
        title="Seven-joint arm, swinging freely",
        expression=FORWARD_DYNAMICS,
        checks=results,
    )
    print(f"{page} ({page.stat().st_size / 1000:.0f} kB): open it in a browser, no network needed")
    if open_report:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    good = all(passed for _, passed, _ in results)
    print("\nall numbers are right" if good else "\nSOME NUMBERS ARE WRONG")
    return 0 if good else 1


def _swing(arm: pp.Model, results: list[Result]) -> pp.Trajectory:
    q, v = arm.neutral(), np.zeros(arm.nv)
    for joint, angle in START.items():
        q[arm.q_slice(joint)] = angle
    for joint, rate in TURN.items():
        v[arm.v_slice(joint)] = rate
    started = time.perf_counter()
    swing = pp.simulate(arm, q, v, DURATION, forces=[], rtol=1e-12, atol=1e-14)
    seconds = time.perf_counter() - started
    print(f"{swing}, computed in {seconds:.2g} s")
    kinetic = float(pp.kinetic_energy(arm, swing.q, swing.v).max())
    energy = float(abs(swing.energy - swing.energy[0]).max()) / kinetic
    _add(results, "energy: drift over the largest kinetic energy", energy, 1e-10)
    # gravity has no moment about the vertical axis of the shoulder, so this is constant too
    turning = swing.momentum[:, 2]
    change = float(abs(turning - turning[0]).max() / abs(swing.momentum[:, :3]).max())
    _add(results, "angular momentum about the vertical: drift over the largest", change, 1e-10)
    steps = 10_000
    other, _ = pp.rollout(
        arm, q, v, np.zeros(arm.nv), 1 / steps, steps, record_every=steps, integrator="rk4"
    )
    gap = float(abs(swing.at(1.0)[0] - other[-1]).max())
    _add(results, "angles after 1 s: difference to fourth-order fixed steps, rad", gap, 1e-8)
    return swing


def _title(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}")


def _agree(results: list[Result], what: str, mine: np.ndarray, other: np.ndarray) -> None:
    _add(results, what, float(np.abs(mine - other).max() / np.abs(other).max()), 1e-9)


def _add(results: list[Result], what: str, number: float, most: float) -> None:
    """Print and keep a number that must be small."""
    passed = bool(number <= most)
    print(f"{'pass' if passed else 'FAIL'}  {what:<62} {number:.1e}  (at most {most:.0e})")
    results.append((what, passed, f"{number:.1e}, at most {most:.0e}"))


if __name__ == "__main__":
    sys.exit(main())
