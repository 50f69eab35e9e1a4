"""A valve train: a cam lifts a valve against a spring, and a motor drives the camshaft by gears.

python examples/cam_follower.py [page.html]
"""

import sys

import numpy as np

import phipsi as pp

TEETH, MODULE = (20, 40), 2e-3  # crankshaft and camshaft; m of pitch diameter per tooth
LIFT, SHARP = 9e-3, 3.3  # m; how narrow the lobe is
BASE = 16e-3  # m, the base circle
SPEED = (
    2 * np.pi * 3000 / 60 / 2
)  # rad/s of the camshaft at 3000 turns per minute of the crankshaft


def lift(angle):
    """A smooth lobe about angle 0: e^(k (cos − 1)), 1 at its tip and nearly 0 around it."""
    return LIFT * np.exp(SHARP * (np.cos(angle) - 1))


def profile(angle, height):
    return height - lift(angle)


builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
y = pp.joints.Revolute((0, 1, 0))
shaft = pp.SpatialInertia(1.2, (0, 0, 0), np.diag([4e-4, 2e-4, 4e-4]))
away = MODULE * sum(TEETH) / 2
builder.add_body("crankshaft", joint=y, placement=pp.Pose(None, (0, 0, -away)), inertia=shaft)
builder.add_body("camshaft", joint=y, inertia=shaft)
builder.add_body(
    "valve", joint=pp.joints.Prismatic((0, 0, 1)), placement=pp.Pose(None, (0, -0.03, BASE)),
    inertia=pp.SpatialInertia(0.12, (0, 0, 0.02), 1e-5),
)  # fmt: skip
builder.add_clock()
model = builder.build()

gear = pp.constraints.Gear(
    name="timing", driver="crankshaft", driven="camshaft", teeth=TEETH, module=MODULE,
    pressure_angle=np.deg2rad(20),
)  # fmt: skip
cam = pp.constraints.Cam(profile, name="cam", joints=("camshaft", "valve"))
ratio = -TEETH[1] / TEETH[0]


def start_up(t):
    """The crankshaft speeds up smoothly within 10 ms, and begins where the valve is closed."""
    return ratio * (SPEED * (t - 2e-3 * np.tanh(t / 2e-3)) + np.pi)


motor = pp.constraints.Motor(name="starter", joint="crankshaft", angle=start_up)
train = pp.System(model, [gear, cam, motor])
spring = pp.forces.JointSpring("valve", 30e3, rest=-5e-3)

q, v = train.project([ratio * np.pi, np.pi, lift(np.pi), 0.0], [0, 0, 0, 1.0])
run = pp.simulate(
    train, q, v, 0.06, forces=[spring], rtol=1e-8, output_times=np.linspace(0, 0.06, 601)
)
angle, rate = run.q[:, 1], run.v[:, 1]
print(f"on the cam to {np.abs(run.q[:, 2] - lift(angle)).max():.1e} m")

# Exact kinematics: the acceleration of the follower is lift'' θ̇² + lift' θ̈.
first = -SHARP * np.sin(angle) * lift(angle)
second = ((SHARP * np.sin(angle)) ** 2 - SHARP * np.cos(angle)) * lift(angle)
efforts = np.zeros_like(run.v)
efforts[:, 2] = -30e3 * (run.q[:, 2] + 5e-3)  # the spring
motion = pp.forward_dynamics(train, run.q, run.v, efforts, return_multipliers=True)
vdot, f = motion.vdot, motion.f
off = np.abs(vdot[:, 2] - second * rate**2 - first * vdot[:, 1]).max()
most = np.abs(vdot[:, 2]).max()
print(f"acceleration of the valve: {off:.1e} m/s² off the formula, {most:.0f} m/s² at most")

# Virtual work: what the motor does goes into kinetic energy, the spring and the weight.
push = -f[:, train.row_names.index("cam.law")]
torque = -f[:, train.row_names.index("starter.angle")]
power = torque * run.v[:, 0]
stored = pp.kinetic_energy(model, run.q, run.v) + pp.potential_energy(model, run.q)
stored = stored + 0.5 * 30e3 * (run.q[:, 2] + 5e-3) ** 2
work = np.concatenate([[0], np.cumsum((power[1:] + power[:-1]) / 2 * np.diff(run.t))])
gap = np.abs(work - stored + stored[0]).max()
print(f"work of the motor against what is stored: {gap:.3f} J of {np.ptp(stored):.2f} J")
fate = "" if push.min() > 0 else ": at this speed it would lift off; use a stiffer spring"
print(f"the cam pushes the valve with {push.min():.0f} to {push.max():.0f} N{fate}")

# Bearings: teeth push their shafts apart. (What the cam pushes on its shaft, `push`, comes on top.)
shafts = pp.joint_reactions(train, run.q, run.v, efforts).joints
plain = pp.constraints.Gear(name="timing", driver="crankshaft", driven="camshaft", teeth=TEETH)
bare = pp.joint_reactions(pp.System(model, [plain, cam, motor]), run.q, run.v, efforts).joints
for name, found in (("with the forces of the teeth", shafts), ("efforts alone", bare)):
    bearing = np.linalg.norm(found[:, 1, 3:], axis=1)
    print(f"bearing of the camshaft, {name}: up to {bearing.max():.0f} N")

if len(sys.argv) > 1:
    hand = pp.constraints.Motor(
        name="hand", joint="crankshaft", angle=lambda t: ratio * (1.5 * t + np.pi)
    )
    slow = pp.System(model, [gear, cam, hand])
    q, v = slow.project([ratio * np.pi, np.pi, lift(np.pi), 0.0], [0, 0, 0, 1.0])
    pp.report(pp.simulate(slow, q, v, 4.0, forces=[spring], rtol=1e-6), sys.argv[1])
