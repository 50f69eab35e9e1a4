"""A hand that grasps a box with two fingers, lifts it and holds it by friction.

The same hand tries boxes of several weights at once. A box stays in the hand as long as twice the
friction of a finger carries it, 2 μ N > m g; heavier ones slip out.

    python examples/grasp_and_lift.py [page.html]
"""

import sys

import numpy as np

import phipsi as pp

FRICTION, GRIP, DT = 0.5, 20.0, 2e-3  # N
EDGE, OPEN, UP = 0.08, 0.03, 0.25  # m

builder = pp.ModelBuilder()
builder.add_body(
    "palm", joint=pp.joints.Prismatic((0, 0, 1)), placement=pp.Pose(None, (0, 0, 0.25)),
    inertia=pp.SpatialInertia.box((0.26, 0.1, 0.06), mass=1.5),
)  # fmt: skip
for name, side in (("left", -1), ("right", 1)):
    reach = side * (EDGE / 2 + OPEN + 0.0125)
    builder.add_body(
        name, parent="palm", joint=pp.joints.Prismatic((-side, 0, 0)),
        placement=pp.Pose(None, (reach, 0, -0.13)), armature=0.05,
        inertia=pp.SpatialInertia.box((0.025, 0.06, 0.2), mass=0.2),
    )  # fmt: skip
    builder.add_shape(name, name, pp.shapes.Box((0.025, 0.06, 0.2)))
builder.add_shape("palm", "palm", pp.shapes.Box((0.26, 0.1, 0.06)))
crate = pp.SpatialInertia.box((EDGE, EDGE, EDGE), mass=1.0)
builder.add_body("crate", joint=pp.joints.Free(), inertia=crate)
builder.add_shape("crate", "crate", pp.shapes.Box((EDGE, EDGE, EDGE)))
model = builder.build()
touch = [("left", "crate"), ("right", "crate"), ("crate", "ground")]
contacts = pp.Contacts(model, ground=True, pairs=touch, material=pp.Material(FRICTION))
hand = pp.System(model, contacts=contacts)


@pp.law
def drives(t, q, v):
    """Close the fingers with a force, then raise the palm along a smooth path."""
    s = np.clip((t - 0.6) / 1.0, 0.0, 1.0)
    height = UP * (3 * s * s - 2 * s * s * s)
    lift = 4000.0 * (height - q[0]) - 200.0 * v[0] + 40.0
    grip = np.minimum(t / 0.2, 1.0) * GRIP
    return np.stack([lift, grip - 2.0 * v[1], grip - 2.0 * v[2]])


laws = drives.on(["palm", "left", "right"])
sim = pp.Simulator(hand, laws, DT, integrator="time_stepping", per_trajectory=("inertia",))
masses = np.array([0.5, 1.0, 1.9, 2.2])
own = np.tile(pp.identification.inertial_parameters(model).reshape(-1, 10), (len(masses), 1, 1))
own[:, model.body_index("crate")] *= masses[:, None]
q = model.neutral().copy()
q[model.q_slice("crate")][4:] = 0, 0, EDGE / 2
start = sim.initial_state(np.tile(q, (len(masses), 1)), parameters={"inertia": own})
names = ("q", "v", "tau", "contact.impulses")
run = sim.rollout(start, steps=1500, record_every=2, record=names, progress=False)

height = run.q[:, :, model.q_slice("crate")][..., 6] - EDGE / 2
in_hand = height - run.q[:, :, 0]  # how it moves against the palm
held = np.searchsorted(run.t[0], 1.8)
for i, mass in enumerate(masses):
    slip = in_hand[i, held] - in_hand[i, -1]
    margin = 2 * FRICTION * GRIP / (mass * 9.81)
    print(f"{mass:.1f} kg: lifted {height[i, -1]:.4f} m, then slips by {slip:.1e} m; "
          f"2 μ N / m g = {margin:.2f}")  # fmt: skip
print(f"every step is solved: {run.certificate.is_clean}")
assert height[1, -1] > 0.99 * UP > height[3, -1], "the light crates stay in the hand"
if len(sys.argv) > 1:
    print("page:", pp.report(run.trajectory(1), sys.argv[1], title="A hand lifts a crate"))
