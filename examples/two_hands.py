"""Operational space of a floating robot with two arms: how its two hands are coupled."""

import numpy as np

import phipsi as pp
from phipsi.operators import I, J, Lambda, mass_matrix

robot = pp.examples.free_flyer()
hands = ["left_tool", "right_tool"]
q = robot.random_configuration(0)

inertia = pp.operational_space_inertia(robot, q, hands)
coupling = np.linalg.norm(inertia[:6, 6:]) / np.linalg.norm(inertia[:6, :6])
print(f"inertia at the hands {inertia.shape}, coupling between them {coupling:.3f}")

# Efforts that leave both hands at rest: an expression the library has no function for.
nullspace = I - J.T @ Lambda.inv @ J @ mass_matrix.inv
program = pp.compile(nullspace, robot, points=hands)
tau = program(q, np.ones(robot.nv))
vdot = pp.compile(mass_matrix.inv, robot)(q, tau)
print("largest acceleration at the hands ", np.abs(pp.jacobian(robot, q, hands) @ vdot).max())
print("largest acceleration of the joints", np.abs(vdot).max())
assert np.allclose(pp.jacobian(robot, q, hands) @ vdot, 0, atol=1e-8)
