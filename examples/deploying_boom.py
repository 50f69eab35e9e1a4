"""A spinning spacecraft unfolds two booms, which latch when they are straight.

The spin slows down as the booms swing out; latching them costs energy and conserves momentum.
Locked joints leave the equations: the last phase is one rigid body.
"""

import numpy as np

import phipsi as pp
from phipsi import topology

Z = (0, 0, 1)
b = pp.ModelBuilder(gravity=(0, 0, 0))
b.add_body("hub", joint=pp.joints.Free(), inertia=pp.SpatialInertia(200, (0, 0, 0), (40, 45, 50)))
rod = pp.SpatialInertia(5, (1.5, 0, 0), (0.02, 3.75, 3.75))
for side, x in (("left", -0.6), ("right", 0.6)):
    out = pp.Pose(np.diag([np.sign(x), np.sign(x), 1.0]), (x, 0, 0))
    b.add_body(side, parent="hub", joint=pp.joints.Revolute(Z), placement=out, inertia=rod)
model = b.build()

folded = {"left": 1.6, "right": 1.6}
q, v = model.neutral(), np.zeros(model.nv)
for side, angle in folded.items():
    q[model.q_slice(side)] = angle
v[2] = 1.0  # rad/s about z

springs = [pp.forces.JointSpring(side, 2.0) for side in folded]
dampers = [pp.forces.JointDamper(side, 1.5) for side in folded]


def latch(side: str) -> pp.Event:
    (place,) = range(*model.q_slice(side).indices(model.nq))
    return pp.Event(lambda t, q, v: q[place], action=topology.Lock(side), name=f"{side} latches")


latches = [latch(side) for side in folded]
run = pp.simulate(
    model, q, v, 20.0, forces=[*springs, *dampers], events=latches, rtol=1e-12, atol=1e-14
)
print(f"spin {v[2]:.3f} rad/s before, {run.v[-1, 2]:.3f} rad/s after")
for event in run.events:
    print(f"{event.name} at {event.t:.2f} s")
jump = run.events[-1].change  # both latch at the same time: one jump
print(f"{jump.energy - jump.energy_after:.2f} J lost when they stop")
print(f"momentum kept to {np.abs(run.momentum - run.momentum[0]).max():.0e}")

# one rigid body: its spin follows from the momentum
whole = 50 + 2 * (3.75 + 5 * (0.6 + 1.5) ** 2)
assert np.isclose(run.v[-1, 2], run.momentum[0, 2] / whole, rtol=1e-8)
