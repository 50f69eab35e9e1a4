"""A series-elastic arm: motors behind springs, pushed by a hand, beside one with rigid gears."""

import sys

import numpy as np

import phipsi as pp

RATIO, ROTOR, STIFFNESS = 100, 8e-5, 250.0  # gear, kg·m², N·m/rad
link = pp.SpatialInertia(2.0, (0.2, 0, 0), (0.001, 0.03, 0.03))

builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
parent, springs = "world", []
for name in ("shoulder", "elbow"):
    at = pp.Pose(translation=(0.4 if parent != "world" else 0, 0, 0))
    motor = pp.SpatialInertia(0.1, (0, 0, 0), (ROTOR / 2, ROTOR / 2, ROTOR))
    builder.add_body(f"{name}_motor", parent=parent, placement=at, inertia=motor)
    builder.add_body(name, parent=parent, placement=at, inertia=link)
    # the spring between the gear's output, q_motor / 100, and the joint
    springs.append(
        pp.forces.ElasticCoupling((f"{name}_motor", name), (1 / RATIO, -1), STIFFNESS, damping=0.5)
    )
    parent = name
arm = builder.build()
motors = [arm.v_slice(f"{name}_motor").start for name in ("shoulder", "elbow")]
joints = [arm.v_slice(name).start for name in ("shoulder", "elbow")]

# Held against gravity: each spring carries the load of its joint, and its motor twists it
hold = np.array([0.3, 0.6])
q = np.zeros(arm.nq)
q[joints] = hold
load = pp.gravity_forces(arm, q)[joints]
q[motors] = RATIO * (hold + load / STIFFNESS)
effort = np.zeros(arm.nv)
effort[motors] = pp.gravity_forces(arm, q)[motors] + load / RATIO

sim = pp.Simulator(arm, springs, dt=2e-4)
rest = sim.rollout(sim.initial_state(q), steps=500, tau=effort)
print(f"held by its motors: joints move {np.abs(rest.q[-1] - q)[joints].max():.1e} rad in 0.1 s")

# A push of 20 N·m at the elbow for 20 ms
push = np.tile(effort, (1000, 1))
push[:100, joints[1]] += 20.0
run = sim.rollout(sim.initial_state(q), steps=1000, tau=push)
moved = np.abs(run.q - q).max(axis=0)
print(
    f"pushed: elbow gives {moved[joints[1]]:.4f} rad, its motor {moved[motors[1]] / RATIO:.4f} rad"
)

# The same push against rigid gears: all of the rotors' inertia × ratio² is felt at once
stiff = [
    pp.constraints.Gear(name=f"{n} gear", driver=f"{n}_motor", driven=n, ratio=RATIO,
                        offset=float(q[m] - RATIO * q[j]))
    for n, m, j in zip(("shoulder", "elbow"), motors, joints, strict=True)
]  # fmt: skip
rigid = pp.Simulator(pp.System(arm, stiff), dt=2e-4)
same = rigid.rollout(rigid.initial_state(q), steps=1000, tau=push)
print(f"with rigid gears the elbow moves {np.abs(same.q - q).max(axis=0)[joints[1]]:.4f} rad")
peak = STIFFNESS * np.abs(run.q[:, motors[1]] / RATIO - run.q[:, joints[1]]).max()
print(f"largest torque in the elbow's spring: {peak:.1f} N·m")

if len(sys.argv) > 1:
    print("page:", pp.report(run.trajectory(), sys.argv[1], title="A series-elastic arm"))
