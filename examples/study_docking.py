"""Does a floating robot reach the port when nobody knows its fuel?

A robot that floats in space moves its left hand to a docking port, with joint drives that follow a
plan. Nothing holds its base, so the base recoils, and where the hand ends depends on the inertia
of the base: the plan was made for half-full tanks. Fuel, its place, and a little spin at the start
are uncertain. The port takes the hand within 25 mm.

    python examples/study_docking.py [groups]   prints the answer
    phipsi study run examples/study_docking.py --workers 2
"""

import sys

import numpy as np
from scipy.stats import norm, uniform

import phipsi as pp

ROBOT = pp.examples.free_flyer()
PLAN = {"left_shoulder_pitch": 0.9, "left_elbow_pitch": 0.9, "left_wrist_pitch": 0.4}
SECONDS, REACH = 4.0, 0.025
BASE = ROBOT.body_index("base")
NOMINAL = np.asarray(pp.identification.inertial_parameters(ROBOT)).reshape(ROBOT.n_bodies, 10)
GOAL = np.zeros(ROBOT.nv)
for _joint, _angle in PLAN.items():
    GOAL[ROBOT.v_slice(_joint)] = _angle
JOINTS = np.arange(6, ROBOT.nv)


@pp.law
def drives(t, q, v):
    """Joint drives that follow a smooth plan; the base is free."""
    s = np.clip(t / SECONDS, 0.0, 1.0)
    share = s**3 * (10 - 15 * s + 6 * s**2)
    tau = 400.0 * (share * GOAL[JOINTS] - q[JOINTS + 1]) - 80.0 * v[JOINTS]
    return {"tau": np.concatenate([np.zeros(6), tau])}


def make():
    """The simulator of a worker."""
    return pp.Simulator(
        ROBOT, drives, dt=4e-3, integrator="implicit_damping", per_trajectory=("inertia",)
    )


def initial_state(samples):
    """Fuel is a ball of 0.3 m in the base, `mass` kg at `place`; 40 kg were planned."""
    fuel, place = samples["mass"] - 40.0, samples["place"]
    inertia = np.repeat(NOMINAL[None], len(fuel), axis=0)
    # parameters of a body: m, m c, Jxx, Jyy, Jzz, Jxy, Jxz, Jyz about its origin
    m, x, y, z = fuel, place[:, 0], place[:, 1], place[:, 2]
    ball = 0.4 * 0.3**2
    change = [
        m, m * x, m * y, m * z,
        m * (y * y + z * z + ball), m * (x * x + z * z + ball), m * (x * x + y * y + ball),
        -m * x * y, -m * x * z, -m * y * z,
    ]  # fmt: skip
    inertia[:, BASE] += np.stack(change, axis=1)
    v = np.zeros((len(fuel), ROBOT.nv))
    v[:, :3] = samples["spin"]
    return {"v": v, "parameters": {"inertia": inertia}}


def metrics(run, samples):
    """How far the left hand ends from the port, which is where the plan would put it."""
    hand = pp.poses(ROBOT, run.q[:, -1], points=["left_tool"])[..., 0, :3, 3]
    error = np.linalg.norm(hand - port(), axis=-1)
    return {"error": error, "docked": error < REACH}


_PORT = []


def port():
    """The hand at the end of the plan with 40 kg of fuel and no spin."""
    if not _PORT:
        sim = make()
        run = sim.rollout(sim.initial_state(), steps=STEPS, record_every=STEPS)
        _PORT.append(pp.poses(ROBOT, run.q[-1], points=["left_tool"])[0, :3, 3])
    return _PORT[0]


STEPS = round(1.25 * SECONDS / 4e-3)


def study_of(groups=256):
    """The study, with nine runs in a group for the seven sampled numbers."""
    return pp.Study(
        make,
        {"mass": uniform(5, 70), "place": norm([0, 0, 0], 0.1), "spin": norm([0, 0, 0], 2e-3)},
        initial_state=initial_state,
        metrics=metrics,
        steps=STEPS,
        record_every=STEPS,
        runs=9 * groups,
        sampling="saltelli",
    )


study = study_of()

if __name__ == "__main__":
    results = study_of(*map(int, sys.argv[1:])).run()
    docked = results.estimate("docked")
    print(f"docks in {100 * docked.value:.0f} % of the runs "
          f"({100 * docked.low:.0f} to {100 * docked.high:.0f} %)")  # fmt: skip
    shares = sorted(results.sobol_indices("error").items(), key=lambda x: -x[1].total)
    print("the error's variance:", ", ".join(f"{n} {100 * x.total:.0f} %" for n, x in shares[:4]))
    worst = int(results.worst("error", 1)[0])
    print(f"worst run {worst}: {1e3 * results['error'][worst]:.0f} mm, "
          f"{results['sample.mass'][worst]:.0f} kg of fuel")  # fmt: skip
    assert results.complete and not results.failed.size
