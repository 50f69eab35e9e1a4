"""Type the equation, get the recursion: the mass matrix of a two-link arm and its inverse."""

import numpy as np

import phipsi as pp
from phipsi.operators import H, Jr, M, phi

rod = pp.SpatialInertia(mass=1.0, com_B=(0.5, 0, 0), moment_about_com_B=(0, 1 / 12, 1 / 12))
builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
builder.add_body("upper", inertia=rod)  # a revolute joint about z, if nothing else is said
builder.add_body("lower", parent="upper", placement=pp.Pose(translation=(1, 0, 0)), inertia=rod)
arm = builder.build()

mass_matrix = H @ phi @ M @ phi.T @ H.T + Jr
solve = pp.compile(mass_matrix.inv, arm)
print(solve.explain())

q, tau = np.array([0.2, 0.7]), np.array([1.0, -0.5])
vdot = solve(q, tau)
print("\naccelerations", vdot)
assert np.allclose(pp.mass_matrix(arm, q) @ vdot, tau)
