"""A spacecraft with two flexible panels turns by a right angle; does it rest when it stops?

Thrusters about z turn it in 20 s, once with a torque that switches between two values and once with
a smooth one. The switched torque excites the panels, which swing on when the turn is over; the
smooth one leaves them almost at rest. Eight spacecraft with other panels show how much of that
is luck.
"""

import sys

import numpy as np

import phipsi as pp

LENGTH, MASS_PER_LENGTH, STIFFNESS = 6.0, 2.0, 260.0  # m, kg/m, N m²
END, STEP, ANGLE = 20.0, 0.01, np.pi / 2  # s, s, rad


def spacecraft(stiffness: float = STIFFNESS) -> pp.Model:
    """A hub with two panels that bend in the plane of the turn and, four times as stiff, across."""
    panel = pp.FlexibleInertia.beam(
        LENGTH, MASS_PER_LENGTH, (stiffness, 4 * stiffness), modes=1, damping_ratio=0.002,
        max_frequency=150.0, rotary_inertia=0.02,
    )  # fmt: skip
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    box = pp.SpatialInertia.box((1.5, 1.5, 2), mass=300.0)
    builder.add_body("hub", joint=pp.joints.Free(), inertia=box)
    for side, x in (("left", -0.75), ("right", 0.75)):
        out = pp.Pose(np.diag([np.sign(x), np.sign(x), 1.0]), (x, 0, 0))
        builder.add_body(side, parent="hub", joint=pp.joints.Fixed(), placement=out, inertia=panel)
    return builder.build()


def turn(model: pp.Model, profile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Run with a torque profile, scaled so that a rigid craft turns by ANGLE; then 20 s at rest."""
    rigid = model.with_rigid_bodies()
    inertia = pp.mass_matrix(rigid, rigid.neutral())[2, 2]
    steps = 2 * round(END / STEP)
    tau = np.zeros((steps, model.nv))
    reached = np.cumsum(np.cumsum(profile) - profile / 2)[-1] * STEP**2
    tau[: len(profile), 2] = profile * inertia * ANGLE / reached
    zero = np.zeros(model.nv)
    return pp.rollout(model, model.neutral(), zero, tau, STEP, steps)


def swing(model: pp.Model, q: np.ndarray) -> np.ndarray:
    """Deflection of the tip of the right panel in its plane, m."""
    panel, place = model.flexible[-1], model.q_slices[-1]
    return q[:, place] @ panel.port("tip").translation_modes[1]


t = (np.arange(round(END / STEP)) + 0.5) * STEP
switched = np.where(t < END / 2, 1.0, -1.0)
smoothed = np.sin(2 * np.pi * t / END)

model = spacecraft()
print("lowest frequencies:", pp.natural_frequencies(model)[6:9].round(3), "rad/s")
left_over = {}
for name, profile in (("switched", switched), ("smoothed", smoothed)):
    q, v = turn(model, profile)
    angle = 2 * np.arctan2(q[-1, 3], q[-1, 0])
    bent = swing(model, q)
    left_over[name] = np.ptp(bent[len(t) :]) / 2
    print(
        f"{name}: {np.degrees(angle):.2f}°, largest deflection {1000 * np.abs(bent).max():.0f} mm, "
        f"left over {1000 * left_over[name]:.2f} mm"
    )
assert left_over["smoothed"] < 0.1 * left_over["switched"]

# other panels: now and then the switched torque ends at a lucky moment, but not for all of them
rest = {"switched": [], "smoothed": []}
for stiffness in np.linspace(150, 500, 8):
    other = spacecraft(stiffness)
    for name, profile in (("switched", switched), ("smoothed", smoothed)):
        rest[name].append(np.ptp(swing(other, turn(other, profile)[0])[len(t) :]) / 2)
worst = {name: max(values) for name, values in rest.items()}
print("worst of eight:", ", ".join(f"{name} {1000 * x:.0f} mm" for name, x in worst.items()))
assert worst["smoothed"] < 0.2 * worst["switched"]

if len(sys.argv) > 1:
    q, v = turn(model, switched)
    run = pp.Trajectory(model, STEP * np.arange(len(q)), q, v, np.zeros(q.shape[:1] + (model.nv,)))
    print("page:", pp.report(run, sys.argv[1], title="A spacecraft with panels that bend"))
