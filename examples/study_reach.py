"""How heavy may a payload be that an arm still puts where it should?

An arm moves its tool to a place on a plan, with drives that know the weight of the arm and of a
payload of 1 kg. The payload is uncertain, friction in the joints as well, and the angles that the
drives are told are noisy. 0.2 s after the end of the plan the tool must be within 20 mm of its
place, and slower than 50 mm/s.

    python examples/study_reach.py [runs]      prints the answer
    phipsi study run examples/study_reach.py --workers 2
"""

import sys

import numpy as np
from scipy.stats import lognorm, uniform

import phipsi as pp

ARM = pp.examples.seven_joint_arm()
PLANNED, REACH, AT_REST = 1.0, 0.020, 0.05  # kg, m, m/s
SECONDS, DT = 1.5, 1e-3
GOAL = np.array([0.6, 0.7, 0.2, 1.1, 0.0, 0.5, 0.3])
HAND = ARM.n_bodies - 1
TOOL = np.array([0.0, 0.0, 0.06])  # in the hand
NOMINAL = np.asarray(pp.identification.inertial_parameters(ARM)).reshape(ARM.n_bodies, 10)


def payload(mass):
    """What a small mass at the tool adds to the parameters (n, 10) of the hand."""
    x, y, z = TOOL
    per_kg = [1, x, y, z, y * y + z * z, x * x + z * z, x * x + y * y, -x * y, -x * z, -y * z]
    return np.multiply.outer(mass, per_kg)


PLANNED_ARM = NOMINAL.copy()
PLANNED_ARM[HAND] += payload(PLANNED)
HOLD = pp.inverse_dynamics(
    ARM.with_inertial_parameters(PLANNED_ARM), GOAL, np.zeros(7), np.zeros(7)
)  # efforts that hold the planned payload at the goal
STIFFNESS = np.array([900.0, 900, 500, 500, 120, 120, 60])
DAMPING = 0.22 * STIFFNESS**0.5 * np.array([5.0, 5, 3, 3, 1, 1, 0.5])


@pp.law
def drives(t, q, v, noise, deviation=1e-3):
    """Drives on a smooth plan; the angles they are told have a standard deviation, rad."""
    s = np.clip(t / SECONDS, 0.0, 1.0)
    share = s**3 * (10 - 15 * s + 6 * s**2)
    told = q + deviation * noise
    return {"tau": STIFFNESS * (share * GOAL - told) - DAMPING * v + share * HOLD}


def make():
    """The simulator of a worker."""
    friction = pp.forces.JointFriction(None, friction=0.5, velocity_scale=0.01)
    laws = [drives.bind(noise=pp.signals.noise(7, seed=1)), friction]
    return pp.Simulator(
        ARM, laws, dt=DT, integrator="implicit_damping", per_trajectory=("inertia",)
    )


def initial_state(samples):
    """Payload, kg; friction as a multiple of what is usual in each joint; deviation, rad."""
    inertia = np.repeat(NOMINAL[None], len(samples["payload"]), axis=0)
    inertia[:, HAND] += payload(samples["payload"])
    usual = np.array([6.0, 6.0, 4.0, 4.0, 0.8, 0.8, 0.2])  # N·m
    return {
        "parameters": {
            "inertia": inertia,
            "joint_friction.friction": samples["friction"][:, None] * usual,
            "drives.deviation": samples["deviation"],
        }
    }


def metrics(run, samples):
    """How far the tool ends from its place, and how fast it still is."""
    place = pp.poses(ARM, GOAL, points=["tool"])[0, :3, 3]
    tools = pp.poses(ARM, run.q[:, -1], points=["tool"])[:, 0, :3, 3]
    earlier = pp.poses(ARM, run.q[:, -2], points=["tool"])[:, 0, :3, 3]
    error = np.linalg.norm(tools - place, axis=1)
    speed = np.linalg.norm(tools - earlier, axis=1) / (EVERY * DT)
    return {"error": error, "speed": speed, "reached": (error < REACH) & (speed < AT_REST)}


STEPS, EVERY = 1700, 20


def study_of(runs=2048):
    """The study with so many runs."""
    return pp.Study(
        make,
        {"payload": uniform(0, 5), "friction": lognorm(0.6), "deviation": uniform(0, 0.03)},
        initial_state=initial_state,
        metrics=metrics,
        steps=STEPS,
        record_every=EVERY,
        runs=runs,
        sampling="sobol",
    )


study = study_of()


def heaviest(results, share=0.9):
    """The largest whole kilogram up to which at least so many of the runs reach the place."""
    masses = results["sample.payload"]
    for top in range(5, 0, -1):
        lighter = masses < top
        if results["reached"][lighter].mean() >= share:
            return top
    return 0


if __name__ == "__main__":
    results = study_of(*map(int, sys.argv[1:])).run()
    reached = results.estimate("reached")
    print(f"reaches its place in {100 * reached.value:.0f} % of the runs "
          f"({100 * reached.low:.0f} to {100 * reached.high:.0f} %)")  # fmt: skip
    for low in range(5):
        some = (results["sample.payload"] >= low) & (results["sample.payload"] < low + 1)
        print(f"  {low} to {low + 1} kg: {100 * results['reached'][some].mean():.0f} %, "
              f"median error {1e3 * np.median(results['error'][some]):.0f} mm")  # fmt: skip
    print(f"nine of ten reach it with payloads of up to {heaviest(results)} kg")
    for name in ("error", "speed"):
        shown = (f"{k} {x:+.2f}" for k, x in results.correlations(name).items())
        print(f"what moves the {name}:", ", ".join(shown))
    worst = int(results.worst("error", 1)[0])
    print(f"worst run {worst}: {1e3 * results['error'][worst]:.0f} mm, "
          f"{results['sample.payload'][worst]:.1f} kg")  # fmt: skip
    assert results.complete and not results.failed.size
