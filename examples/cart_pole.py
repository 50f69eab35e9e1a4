"""A pole on a cart: eigenvalues of the linearised system, and the controller that balances it."""

import numpy as np

import phipsi as pp

builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
builder.add_body(
    "cart", joint=pp.joints.Prismatic((1, 0, 0)), joint_name="slide",
    inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.01),
)  # fmt: skip
builder.add_body(
    "pole", parent="cart", joint=pp.joints.Revolute((0, 1, 0)), joint_name="hinge",
    inertia=pp.SpatialInertia(0.1, (0, 0, 0.5), (0.1 / 12, 0.1 / 12, 1e-5)),
)  # fmt: skip
model = builder.build()

up = pp.linearize(model, [0.0, 0.0], inputs=["slide"], outputs=["q[slide]", "q[hinge]"])
down = pp.linearize(model, [0.0, np.pi], inputs=["slide"])
print(up)
print("poles upright:", up.poles().round(4))
print("poles hanging:", down.poles().round(4))

# by hand: ω² = g m l (M + m) / ((M + m)(J + m l²) − m² l²), with l to the mass centre
M, m, l, J, g = 1.0, 0.1, 0.5, 0.1 / 12, 9.81
omega = np.sqrt(g * m * l * (M + m) / ((M + m) * (J + m * l * l) - (m * l) ** 2))
print("by hand:      ±", omega.round(4))
assert np.isclose(up.poles().real.max(), omega) and np.isclose(down.poles().imag.max(), omega)

K = up.lqr(Q=[1.0, 10.0, 0.1, 0.1], R=0.1)
print("gain:", K.round(3), "closed loop:", np.linalg.eigvals(up.A - up.B @ K).round(2))


def balance(t, q, v):
    """u = −K x on the cart."""
    return np.array([-(K @ np.concatenate([q, v])).item(), 0.0])


run = pp.simulate(model, [0.0, 0.3], [0.0, 0.0], 6.0, controller=balance)
print(
    "after 6 s:", run.q[-1].round(4), "largest way of the cart:", np.abs(run.q[:, 0]).max().round(3)
)
assert np.abs(run.q[-1]).max() < 1e-2

# A humanoid on bent knees with both feet on the ground: loops, so a System. How fast does it fall?
robot = pp.examples.humanoid()
q = robot.neutral()
for side in ("left", "right"):
    for joint, angle in (("hip_pitch", -0.3), ("knee", 0.6), ("ankle_pitch", -0.3)):
        q[robot.q_slice(f"{side}_{joint}")] = angle
soles = pp.poses(robot, q, ["left_sole", "right_sole"])
feet = [
    pp.constraints.Weld(name=f"{s} foot", a=f"{s}_sole", b=("world", pp.Pose(X[:3, :3], X[:3, 3])))
    for s, X in zip(("left", "right"), soles, strict=True)
]
standing = pp.System(robot, feet)
motors = [name for name in robot.joint_names if name != "pelvis"]
small = pp.linearize(standing, q, inputs=motors)
poles = small.poles().real
height = pp.center_of_mass(robot, q)[2] - soles[0, 2, 3]
print(small, "controllable:", small.is_controllable())
print("slowest falls:", poles[poles > 1e-6][:2].round(2), "1/s; a point on a stick of this height:",
      np.sqrt(9.81 / height).round(2))  # fmt: skip
