"""An arm pushes a box over the floor: the hand touches the box, and the box the floor.

Pushed in its middle the box goes straight; pushed beside it, it turns away. Friction decides.

    python examples/pushed_box.py [page.html]
"""

import sys

import numpy as np

import phipsi as pp

FRICTION, MASS, EDGE, DT = 0.4, 2.0, 0.2, 2e-3
LINK, BEGIN, SPEED = 0.5, 0.35, 0.15  # m, m, m/s

builder = pp.ModelBuilder()
rod = pp.SpatialInertia(2.0, (LINK / 2, 0, 0), (0.002, 0.04, 0.04))
builder.add_body("upper", joint=pp.joints.Revolute((0, 0, 1)), inertia=rod, armature=0.05,
                 placement=pp.Pose(None, (0, 0, 0.1)))  # fmt: skip
builder.add_body("lower", parent="upper", joint=pp.joints.Revolute((0, 0, 1)), inertia=rod,
                 armature=0.05, placement=pp.Pose(None, (LINK, 0, 0)))  # fmt: skip
turned = pp.Pose.from_axis_angle((0, 1, 0), np.pi / 2).rotation
for name in ("upper", "lower"):
    builder.add_shape(name, name, pp.shapes.Capsule(0.03, LINK), pp.Pose(turned, (LINK / 2, 0, 0)))
builder.add_shape("hand", "lower", pp.shapes.Sphere(0.04), pp.Pose(None, (LINK, 0, 0)))
builder.add_body(
    "box", joint=pp.joints.Free(), inertia=pp.SpatialInertia.box((EDGE,) * 3, mass=MASS)
)
builder.add_shape("box", "box", pp.shapes.Box((EDGE,) * 3))
model = builder.build()
touch = [("hand", "box"), ("box", "ground")]
contacts = pp.Contacts(model, ground=True, pairs=touch, material=pp.Material(FRICTION))
system = pp.System(model, contacts=contacts)


def angles(x, y):
    """Of the two links, with the hand at (x, y)."""
    c = (x * x + y * y - 2 * LINK**2) / (2 * LINK**2)
    elbow = -np.arctan2(np.sqrt(1 - c * c), c)
    return np.arctan2(y, x) - elbow / 2, elbow  # links of the same length


@pp.law
def push(t, q, v, y):
    """PD control along a straight line at a distance y from that of the box."""
    shoulder, elbow = angles(BEGIN + SPEED * np.minimum(t, 2.6), y)
    return 2000.0 * (np.stack([shoulder, elbow]) - q) - 60.0 * v


laws = push.on(["upper", "lower"]).bind(y=0.0)
sim = pp.Simulator(system, laws, DT, integrator="time_stepping")
beside = np.array([0.0, 0.02, 0.05])  # where the hand pushes, from the middle of the face
q = np.tile(model.neutral(), (3, 1))
q[:, :2] = np.stack(angles(BEGIN, beside), axis=1)
q[:, model.q_slice("box")][:, 4:] = BEGIN + 0.04 + EDGE / 2 + 0.005, 0, EDGE / 2
start = sim.initial_state(q, parameters={"push.y": beside})
run = sim.rollout(
    start, steps=1500, record_every=2, record=("q", "v", "tau", "contact.impulses"), progress=False
)

box = run.q[:, :, model.q_slice("box")]
heading = np.degrees(2 * np.arctan2(box[..., 3], box[..., 0]))
for i, y in enumerate(beside):
    moved = box[i, -1, 4:6] - box[i, 0, 4:6]
    print(f"pushed {100 * y:.0f} cm beside the middle: the box moves {moved[0]:.3f} m along,"
          f" {moved[1]:+.3f} m to the side, and turns by {heading[i, -1]:+.1f}°")  # fmt: skip
name = next(x for x in contacts.slot_names if "hand" in x)

early = (run.t[0] > 0.1) & (run.t[0] < 0.3)
on_box = -run.contacts[name].force[0, early]  # the hand is side a of the pair
load = run.contacts["box|ground"].force[0, early, 2].mean()
print(f"the hand pushes with {on_box[:, 0].mean():.2f} N, as friction at the floor asks for,"
      f" μ · {load:.2f} N = {FRICTION * load:.2f} N")  # fmt: skip
print(f"and carries {on_box[:, 2].mean():.2f} N of the weight, {MASS * 9.81:.2f} N")
print(f"the box stays on the floor to {np.abs(box[:, :, 6] - EDGE / 2).max():.1e} m,"
      f" every step is solved: {run.certificate.is_clean}")  # fmt: skip
assert abs(heading[0, -1]) < 10 < abs(heading[2, -1]), "only the box that is pushed aside turns"
if len(sys.argv) > 1:
    print("page:", pp.report(run.trajectory(1), sys.argv[1], title="An arm pushes a box"))
