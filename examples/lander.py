"""A lander touches down on a slope of the Moon: four legs with shock absorbers, feet with friction.

A hundred landings with different speeds, of which the worst is shown.

    python examples/lander.py [page.html]
"""

import sys

import numpy as np

import phipsi as pp

SLOPE, FRICTION, DT = np.radians(6.0), 0.6, 2e-3
STIFFNESS, DAMPING, STROKE = 6000.0, 1500.0, 0.3  # of a leg

builder = pp.ModelBuilder(gravity=(0, 0, -1.62))
builder.add_body(
    "hull", joint=pp.joints.Free(), inertia=pp.SpatialInertia.box((1.2, 1.2, 0.8), mass=400.0)
)
builder.add_shape("hull", "hull", pp.shapes.Box((1.2, 1.2, 0.8)))
LEGS = [f"leg{i}" for i in range(4)]
for i, leg in enumerate(LEGS):
    outward = np.array([np.cos(i * np.pi / 2), np.sin(i * np.pi / 2), 0])
    axis = (outward + [0, 0, -1.2]) / np.linalg.norm([1, 1.2])  # it points out and down
    builder.add_body(
        leg, parent="hull", joint=pp.joints.Prismatic(-axis),
        placement=pp.Pose(None, 0.6 * outward - [0, 0, 0.2]),
        inertia=pp.SpatialInertia(5.0, axis, 0.5),
    )  # fmt: skip
    builder.add_shape(f"{leg}_foot", leg, pp.shapes.Sphere(0.12), pp.Pose(None, 1.1 * axis))
    z = axis
    x = np.cross([0, 0, 1.0], z) / np.linalg.norm(np.cross([0, 0, 1.0], z))
    along = pp.Pose(np.column_stack([x, np.cross(z, x), z]), 0.55 * axis)
    builder.add_shape(f"{leg}_strut", leg, pp.shapes.Capsule(0.05, 1.0), along)
model = builder.build()
ground = pp.Pose.from_axis_angle((0, 1, 0), SLOPE)
pairs = [(f"{leg}_foot", "ground") for leg in LEGS] + [("hull", "ground")]
contacts = pp.Contacts(model, ground=ground, pairs=pairs, material=pp.Material(FRICTION))
lander = pp.System(model, contacts=contacts)


@pp.law
def absorber(q, v):
    """Springs and dampers along the legs, stiffer at the end of their stroke."""
    stop = 60_000.0 * np.maximum(q - STROKE, 0.0)
    return -STIFFNESS * q - DAMPING * v - stop


sim = pp.Simulator(lander, absorber.on(LEGS), DT, integrator="time_stepping")
rng = np.random.default_rng(2)
n = 100
q, v = np.tile(model.neutral(), (n, 1)), np.zeros((n, model.nv))
q[:, 6] = 2.2
v[:, 3:6] = rng.uniform((-0.6, -0.6, -2.5), (0.6, 0.6, -1.0), (n, 3))
v[:, 0:3] = rng.uniform(-0.08, 0.08, (n, 3))
names = ("q", "v", "contact.impulses")
run = sim.rollout(sim.initial_state(q, v), steps=4000, record_every=5, record=names, progress=False)

w, x, y, z = np.moveaxis(run.q[:, :, :4], -1, 0)
upright = 1 - 2 * (x * x + y * y)  # cosine of the tilt
stroke = run.q[:, :, 7:].max(axis=(1, 2))
force = run.contacts.forces[..., 3:].sum(axis=2)
stands = np.abs(run.v[:, -1]).max(axis=-1) < 1e-3
worst = int(np.argmax(stroke))
print(f"{int(stands.sum())} of {n} landings stand still after {run.t[0, -1]:.0f} s,"
      f" tilted by at most {np.degrees(np.arccos(upright[:, -1].min())):.1f}°")  # fmt: skip
print(f"legs are pushed in by at most {stroke.max():.3f} m of {STROKE} m")
print(
    f"at rest the ground carries {force[:, -1, 2].mean():.2f} N; the weight is {1.62 * 420:.2f} N"
)
proof = run.certificate
print(
    f"deepest overlap {proof.overlap.max():.1e} m, largest residual {proof.residual.max():.0e} m/s"
)
assert stands.all() and stroke.max() < STROKE, "a landing failed"
if len(sys.argv) > 1:
    print(
        "page:", pp.report(run.trajectory(worst), sys.argv[1], title="The hardest of 100 landings")
    )
