"""A robot that floats in space catches a drifting crate with both arms, moves it and releases it.

No force from outside acts, so the total momentum is the same throughout: while the arms move the
base, through the jolt of the catch, and after the crate is released.
"""

import numpy as np

import phipsi as pp
from phipsi import topology

robot = pp.examples.free_flyer()
b = pp.ModelBuilder(gravity=(0, 0, 0))
crate = pp.SpatialInertia(20.0, (0, 0, 0), (1.0, 1.2, 0.9))
b.add_body("crate", joint=pp.joints.Free(), inertia=crate)
model = robot.attach(b.build())

q, v = model.neutral(), np.zeros(model.nv)
for side in ("left", "right"):
    for joint, angle in (("shoulder_pitch", 0.9), ("elbow_pitch", 0.9), ("wrist_pitch", 0.4)):
        q[model.q_slice(f"{side}_{joint}")] = angle
q[model.q_slice("crate")] = [1, 0, 0, 0, 0.86, 0, 0]
v[model.v_slice("crate")] = [0.02, -0.05, 0.03, -0.1, 0.02, 0.01]

strength = np.zeros(model.nv)
for side in ("left", "right"):
    strength[[model.v_slice(f"{side}_{joint}").start for joint in
              ("shoulder_yaw", "shoulder_pitch", "elbow_pitch")]] = (3.0, 3.0, 1.5)  # fmt: skip


def controller(t, q, v):
    return strength * np.sin(4 * t + np.arange(model.nv))


hands = [
    pp.grasping.Rigid(name=side, finger=f"{side}_tool", object=("crate", (0, y, 0)))
    for side, y in (("left", 0.2), ("right", -0.2))
]
run = pp.simulate(
    model, q, v, 0.8, controller=controller, rtol=1e-11, atol=1e-13,
    events=[
        topology.at(0.3, topology.Grasp(*hands, as_is=True), name="caught"),
        topology.at(0.6, topology.Release(), name="let go"),
    ],
)  # fmt: skip
for event in run.events:
    jolt = event.change.energy - event.change.energy_after
    print(f"{event.name} at {event.t:.1f} s: {jolt:.3f} J lost in the jolt")
print(f"momentum kept to {np.abs(run.momentum - run.momentum[0]).max():.0e}")
held = (run.t > 0.3) & (run.t < 0.6)
print(f"hands stay on the crate to {np.abs(run.constraint_residuals[held]).max():.0e} m")
assert np.abs(run.momentum - run.momentum[0]).max() < 1e-9
