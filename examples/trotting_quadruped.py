"""A quadruped that trots: PD control at the joints follows legs that swing in diagonal pairs.

Nothing feeds back the posture; the gait is stable on its own. Feet are balls on a plane with
Coulomb friction.

    python examples/trotting_quadruped.py [page.html]
"""

import sys

import numpy as np

import phipsi as pp

PERIOD, BEND, SWING, LIFT = 0.4, 0.55, 0.15, 0.5  # s, rad
KP, KD, RADIUS, DT, FRICTION = 500.0, 10.0, 0.025, 2e-3, 0.8
LEGS = ("front_left", "front_right", "rear_left", "rear_right")

model = pp.examples.quadruped()
for leg in LEGS:
    foot = pp.Pose(None, (0, 0, -0.3))
    model = model.with_shape(f"{leg}_foot", f"{leg}_knee", pp.shapes.Sphere(RADIUS), foot)
pairs = [(f"{leg}_foot", "ground") for leg in LEGS]
material = pp.Material(FRICTION)
contacts = pp.Contacts(model, ground=True, pairs=pairs, material=material)
robot = pp.System(model, contacts=contacts)
JOINTS = [f"{leg}_{part}" for leg in LEGS for part in ("hip_roll", "hip_pitch", "knee")]


@pp.law
def trot(t, q, v):
    """Torques at the joints: legs swing to and fro, and bend while they swing forward."""
    starts = np.minimum(t / PERIOD, 1.0)  # the first swing is small
    wanted = []
    for pair in (0.0, np.pi, np.pi, 0.0):
        phase = 2 * np.pi / PERIOD * t + pair
        hip = BEND - starts * SWING * np.cos(phase)
        knee = -2 * BEND - starts * LIFT * np.maximum(-np.sin(phase), 0.0)
        wanted += [0.0 * t, hip + 0.5 * (-2 * BEND - knee), knee]
    return KP * (np.stack(wanted) - q) - KD * v


sim = pp.Simulator(robot, trot.on(JOINTS), DT, integrator="time_stepping")
q = model.neutral().copy()
for leg in LEGS:
    q[model.q_slice(f"{leg}_hip_pitch")], q[model.q_slice(f"{leg}_knee")] = BEND, -2 * BEND
q[6] -= pp.contact_points(contacts, q).gap.min()  # it stands on the ground
names = ("q", "v", "tau", "contact.impulses")
run = sim.rollout(sim.initial_state(q), steps=3000, record=names, progress=False)

t, place = run.t, run.q[:, 4:7]
late = t > 2.0
speed = (place[-1, 0] - place[late][0, 0]) / (t[-1] - t[late][0])
touching = run.contacts
load = np.stack([touching[f"{leg}_foot|ground"].force for leg in LEGS])  # (4, kept, 3)
weight = 9.81 * sum(x.mass for x in model.inertias)
slides = np.linalg.norm(load[..., :2], axis=-1) > 0.999 * FRICTION * load[..., 2]
on_ground = load[..., 2] > 0
print(f"{place[-1, 0]:.2f} m in {t[-1]:.0f} s, {speed:.2f} m/s, {place[-1, 1]:+.2f} m to the side")
print(f"trunk between {place[late, 2].min():.3f} and {place[late, 2].max():.3f} m high")
print(f"mean load of the feet {load[:, late, 2].sum(0).mean() / weight:.3f} of the weight")
sliding = (slides & on_ground)[:, late].sum() / on_ground[:, late].sum()
print(f"feet slide in {100 * sliding:.1f} % of their time on the ground")
proof = run.certificate
print(f"a foot is at most {proof.overlap:.1e} m deep, every step is solved: {proof.is_clean}")
assert place[late, 2].min() > 0.5 and speed > 0.5, "it has fallen or does not get on"
if len(sys.argv) > 1:
    print("page:", pp.report(run.trajectory(), sys.argv[1], title="A trotting quadruped"))
