"""A seven-joint arm reaches a place in half a second: direct shooting with trajectory gradients.

The efforts of all steps are the unknowns. `rollout_gradient` gives the cost and its gradient, from
the adjoint of the integrator; L-BFGS does the rest.
"""

import time

import numpy as np
from scipy.optimize import minimize

import phipsi as pp

arm = pp.examples.seven_joint_arm(armature=0.05)
start = np.array([0.0, 0.5, 0.0, 1.0, 0.0, 0.6, 0.0])
place = np.array([0.3, 0.4, 0.5])
dt, steps = 0.005, 100
hold = pp.gravity_forces(arm, start)
size = np.array([40.0, 40.0, 25.0, 25.0, 10.0, 5.0, 3.0])  # of the efforts, N·m


def running(k, q, v, tau):
    """Efforts beyond those that hold the arm at the start."""
    off = (tau - hold) / size
    return 1e-3 * dt * (off**2).sum(-1), None, None, 2e-3 * dt * off / size


def final(q, v):
    """The tool at the place, at rest."""
    miss = pp.poses(arm, q, ["tool"])[..., 0, :3, 3] - place
    J = pp.jacobian(arm, q, ["tool"])[..., 3:, :]
    by_q = 2 * np.einsum("...i,...ij->...j", miss, J)
    return (miss**2).sum(-1) + 1e-3 * (v**2).sum(-1), by_q, 2e-3 * v


def cost_and_gradient(x):
    tau = hold + size * x.reshape(steps, 7)
    found = pp.rollout_gradient(
        arm, start, np.zeros(7), tau, dt, steps, running=running, final=final, integrator="rk4"
    )
    return float(found.cost), (size * found.tau).ravel()


iterations = 0


def told(intermediate_result):
    """A line every 20 iterations."""
    global iterations
    iterations += 1
    if iterations % 20 == 0:
        print(f"{iterations} iterations: cost {intermediate_result.fun:.2e}", flush=True)


x = np.zeros(7 * steps)
print("making machine code for a step and its adjoint …", flush=True)
cost_and_gradient(x)
begin = time.perf_counter()
found = minimize(
    cost_and_gradient, x, jac=True, method="L-BFGS-B", options={"maxiter": 100}, callback=told
)
seconds = time.perf_counter() - begin

tau = hold + size * found.x.reshape(steps, 7)
q, v = pp.rollout(arm, start, np.zeros(7), tau, dt, steps, integrator="rk4")
tool = pp.poses(arm, q[[0, -1]], ["tool"])[:, 0, :3, 3]
print(f"{found.nfev} gradients by {found.x.size} efforts in {seconds:.1f} s; cost {found.fun:.2e}")
print("tool from", tool[0].round(3), "to", tool[1].round(4), "wanted", place)
print("largest rate at the end:", np.abs(v[-1]).max().round(4), "rad/s")
print("largest efforts:", np.abs(tau).max(0).round(1), "N·m")
assert np.linalg.norm(tool[1] - place) < 1e-2

# the gradient once more, by differences along a random direction
rng = np.random.default_rng(0)
d, h = rng.standard_normal(x.size), 1e-4
slope = (cost_and_gradient(x + h * d)[0] - cost_and_gradient(x - h * d)[0]) / (2 * h)
print("slope of the cost, adjoint and differences:", cost_and_gradient(x)[1] @ d, slope)
