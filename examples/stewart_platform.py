"""A Stewart platform: six legs between the ground and a plate, closed by six ball joints.

Each leg is a universal joint, a slide and a ball. The tree has the legs and a free plate; the balls
are constraints. The plate is pushed, swings on springs in the legs, and keeps its energy.
"""

import numpy as np

import phipsi as pp

HEIGHT, FEET, BALLS = 0.9, 1.0, 0.6


def around(degrees: float, radius: float) -> np.ndarray:
    angle = np.deg2rad(degrees)
    return radius * np.array([np.cos(angle), np.sin(angle), 0.0])


builder = pp.ModelBuilder()
builder.add_body(
    "plate", joint=pp.joints.Free(), inertia=pp.SpatialInertia(5.0, (0, 0, 0), (0.2, 0.2, 0.4))
)
balls = []
for i in range(6):
    corner, side = 120 * (i // 2), 1 if i % 2 else -1
    foot, ball = around(corner + 10 * side, FEET), around(corner + 50 * side, BALLS)
    along = ball + [0, 0, HEIGHT] - foot
    z = along / np.linalg.norm(along)
    x = np.cross((0, 0, 1), z)
    x /= np.linalg.norm(x)
    builder.add_body(
        f"cylinder{i}",
        joint=pp.joints.Universal(),
        placement=pp.Pose(np.column_stack([x, np.cross(z, x), z]), foot),
        inertia=pp.SpatialInertia(1.0, (0, 0, 0.25), (0.02, 0.02, 0.002)),
    )
    builder.add_body(
        f"piston{i}",
        parent=f"cylinder{i}",
        joint=pp.joints.Prismatic((0, 0, 1)),
        joint_name=f"leg{i}",
        inertia=pp.SpatialInertia(0.5, (0, 0, -0.25), (0.01, 0.01, 0.001)),
    )
    balls.append(pp.constraints.Spherical(name=f"ball{i}", a=f"piston{i}", b=("plate", ball)))
platform = pp.System(builder.build(), balls)
model = platform.model

# A rough start: the plate above the ground, all legs 1 m long. The plate stays where it is.
rough = model.neutral()
rough[model.q_slice("plate")] = [1, 0, 0, 0, 0, 0, HEIGHT]
for i in range(6):
    rough[model.q_slice(f"leg{i}")] = 1.0
q = platform.assemble(rough, fixed=["plate"])
legs = [q[model.q_slice(f"leg{i}")][0] for i in range(6)]
print("legs:", np.round(legs, 6))
print(platform.mobility(q))

push = np.zeros(model.nv)
push[model.v_slice("plate")] = [0.3, -0.2, 0.5, 0.1, 0.2, -0.1]
q, v = platform.project(q, push)
springs = [pp.forces.JointSpring(f"leg{i}", 2000.0, legs[i] + 0.005) for i in range(6)]
run = pp.simulate(platform, q, v, 1.0, forces=springs, rtol=1e-8)
print(run)
print("largest residual:", np.abs(run.constraint_residuals).max() < 1e-10)
print("energy kept:     ", np.ptp(run.energy) < 1e-6)
assert np.abs(run.constraint_residuals).max() < 1e-10 and np.ptp(run.energy) < 1e-6
