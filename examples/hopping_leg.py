"""A leg that hops: a body on a springy leg that pushes off, and the height that it settles at.

Hops from different heights end in the same motion, a limit cycle: while the leg extends on the
ground it pushes harder, which brings in the energy that impacts and the damper take out.

    python examples/hopping_leg.py [page.html]
"""

import sys

import numpy as np

import phipsi as pp

STIFFNESS, DAMPING, THRUST = 3000.0, 60.0, 200.0

builder = pp.ModelBuilder()
builder.add_body(
    "body", joint=pp.joints.Prismatic((0, 0, 1)),
    inertia=pp.SpatialInertia.box((0.3, 0.3, 0.15), mass=5.0),
)  # fmt: skip
builder.add_body(
    "leg", parent="body", joint=pp.joints.Prismatic((0, 0, 1)),
    placement=pp.Pose(None, (0, 0, -0.45)), inertia=pp.SpatialInertia(0.4, (0, 0, 0.1), 2e-3),
)  # fmt: skip
builder.add_shape("trunk", "body", pp.shapes.Box((0.3, 0.3, 0.15)))
builder.add_shape("foot", "leg", pp.shapes.Sphere(0.05))
builder.add_shape("shin", "leg", pp.shapes.Capsule(0.02, 0.3), pp.Pose(None, (0, 0, 0.17)))
model = builder.build()
contacts = pp.Contacts(model, pairs=[("foot", "ground")], ground=True)
hopper = pp.System(model, contacts=contacts)


@pp.law
def leg(q, v):
    """A spring with a damper, and a thrust while the leg extends under load."""
    length, speed = q[1], v[1]
    thrust = np.where((length > 0.002) & (speed < 0), -THRUST, 0.0)
    force = -STIFFNESS * length - DAMPING * speed + thrust
    return {"tau": np.stack([0.0, force]), "height": q[0] - 0.5}


DT = 2.5e-4
sim = pp.Simulator(hopper, leg, DT, integrator="time_stepping")
heights = np.array([0.02, 0.1, 0.2, 0.35])  # of the foot above the ground
starts = sim.initial_state(np.stack([0.5 + heights, 0 * heights], axis=1))
run = sim.rollout(starts, steps=48_000, record=("q", "v", "contact.impulses"), progress=False)

foot, ends = run.contacts.gaps[..., 0], []
for z, begin in zip(run.q[..., 0], heights, strict=True):
    tops = np.flatnonzero((z[1:-1] > z[:-2]) & (z[1:-1] >= z[2:])) + 1
    apex = z[tops][z[tops] > 0.5]
    print(f"dropped from {begin:4.2f} m: apex {apex[0]:.4f} m at first, {apex[-1]:.4f} m at last,"
          f" {len(apex)} hops")  # fmt: skip
    ends.append(apex[-1])
print(f"the foot is at most {-foot.min():.1e} m in the ground")
print(f"every step is solved: {run.certificate.is_clean}")
assert np.ptp(ends) < 1e-3, "the hops have not settled at one height"
if len(sys.argv) > 1:
    last = sim.rollout(sim.initial_state([0.7, 0.0]), steps=16_000, record_every=8,
                       record=("q", "v", "tau", "contact.impulses"), progress=False)  # fmt: skip
    print("page:", pp.report(last.trajectory(), sys.argv[1], title="A hopping leg"))
