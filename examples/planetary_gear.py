"""A planetary gear with three planets: who carries the load, and what a loose ring does."""

import sys

import numpy as np

import phipsi as pp

z = (0, 0, 1)
SUN, RING = 20, 60  # teeth; the planets have (60 − 20) / 2 = 20
MODULE = 2e-3  # m
carrier_radius = MODULE * (SUN + RING) / 4


def disc(mass: float, radius: float) -> pp.SpatialInertia:
    J = mass * radius**2 / 2
    return pp.SpatialInertia(mass, (0, 0, 0), (J / 2, J / 2, J))


builder = pp.ModelBuilder(gravity=(0, 0, 0))
for name, mass, radius in (("sun", 0.3, 0.02), ("ring", 1.2, 0.065), ("carrier", 0.8, 0.04)):
    builder.add_body(name, joint=pp.joints.Revolute(z), inertia=disc(mass, radius))
for i in range(3):
    at = carrier_radius * np.array([np.cos(2 * np.pi * i / 3), np.sin(2 * np.pi * i / 3), 0])
    builder.add_body(
        f"planet{i}", parent="carrier", joint=pp.joints.Revolute(z), inertia=disc(0.2, 0.02),
        placement=pp.Pose(translation=at),
    )  # fmt: skip
model = builder.build()

# One row couples the three shafts; each planet adds the row that turns it with the sun.
stage = pp.constraints.Planetary(
    name="stage", sun="sun", ring="ring", carrier="carrier", teeth=(SUN, RING),
    planet=("planet0", "planet1", "planet2"),
)  # fmt: skip
gearbox = pp.System(model, [stage])
print(gearbox.summary(model.neutral()))

# The ring held: the carrier turns once for four turns of the sun, and has four times the torque.
brake = pp.constraints.Motor(name="brake", joint="ring", rate=0.0)
held = pp.System(model, [stage, brake])
q, v = held.project(model.neutral(), [40.0, 0, 0, 0, 0, 0])
print(f"sun {v[0]:.3f} rad/s, carrier {v[2]:.3f} rad/s, planets on it {v[3]:.3f} rad/s")

drive = np.array([1.0, 0, -4.0, 0, 0, 0])  # N·m on the sun and against it on the carrier
motion = pp.forward_dynamics(held, q, v, drive, return_multipliers=True)
torque = -motion.f[held.row_names.index("brake.rate")]
print(
    f"in balance: sun accelerates by {motion.vdot[0]:.1e} rad/s², the brake holds {torque:.3f} N·m"
)

# The ring let go: the same drive, and the ring takes it all.
run = pp.simulate(gearbox, q, v, 0.05, controller=lambda t, q, v: drive, rtol=1e-8)
print(f"after 50 ms without the brake the ring turns at {run.v[-1, 1]:.2f} rad/s")
print(f"gears kept to {np.abs(gearbox.residual(run.q)).max():.1e} rad")

if len(sys.argv) > 1:  # slowly, with the ring held
    q, v = held.project(model.neutral(), [4.0, 0, 0, 0, 0, 0])
    run = pp.simulate(held, q, v, 3.0, rtol=1e-8)
    print("page:", pp.report(run, sys.argv[1], title="A planetary gear"))
