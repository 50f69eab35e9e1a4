"""Swing-up of a double pendulum by iLQR: only the second joint is driven (an acrobot).

Every iteration linearises the motion at all steps in one call (`step_derivatives`), solves the
linear-quadratic problem backwards, and tries all step lengths at once as a batch of rollouts.
"""

import numpy as np

import phipsi as pp

arm = pp.examples.planar_arm(2)
dt, steps, driven = 0.04, 100, np.array([[0.0], [1.0]])  # tau = driven @ u
limit, fast = 20.0, 60.0  # N·m, rad/s
start, goal = np.array([-np.pi / 2, 0.0]), np.array([np.pi / 2, 0.0])
n, m = 2 * arm.nv, 1
R, Q_end = np.array([[0.02]]), np.diag([400.0, 400.0, 40.0, 40.0])


def cost(q, v, u):
    """½ Σ u* R u dt, and the distance from upright at the end."""
    x = np.concatenate([arm.difference(goal, q[..., -1, :]), v[..., -1, :]], axis=-1)
    running = 0.5 * dt * np.einsum("...ki,ij,...kj->...", u, R, u)
    ran_away = np.abs(v).max(axis=(-2, -1)) >= fast
    return np.where(ran_away, np.inf, running + 0.5 * np.einsum("...i,ij,...j->...", x, Q_end, x))


def roll(q, v, u, feedback, gain, sizes):
    """Follow (q, v) with u + size · feedback + gain · deviation, for all sizes side by side."""
    Q = [np.broadcast_to(start, (len(sizes), 2))]
    V = [np.zeros((len(sizes), 2))]
    U = []
    for k in range(steps):
        off = np.concatenate([arm.difference(q[k], Q[-1]), V[-1] - v[k]], axis=-1)
        wanted = u[k] + sizes[:, None] * feedback[k] + off @ gain[k].T
        U.append(np.clip(wanted, -limit, limit))
        step = pp.rollout(arm, Q[-1], V[-1], U[-1] @ driven.T, dt, 1, integrator="rk4")
        Q.append(step[0][:, 1])
        V.append(np.clip(step[1][:, 1], -fast, fast))  # steps far too long may run away
    return np.stack(Q, 1), np.stack(V, 1), np.stack(U, 1)


def backward(A, B, x_end, u, regularisation):
    """Riccati recursion: feedforward and gain of every step."""
    Vx, Vxx = Q_end @ x_end, Q_end
    feedback, gain = np.zeros((steps, m)), np.zeros((steps, m, n))
    for k in reversed(range(steps)):
        Qx, Qu = A[k].T @ Vx, dt * R @ u[k] + B[k].T @ Vx
        Qxx, Qux = A[k].T @ Vxx @ A[k], B[k].T @ Vxx @ A[k]
        Quu = dt * R + B[k].T @ Vxx @ B[k]
        inverse = np.linalg.inv(Quu + regularisation * np.eye(m))
        feedback[k], gain[k] = -inverse @ Qu, -inverse @ Qux
        Vx = Qx + gain[k].T @ (Quu @ feedback[k] + Qu) + Qux.T @ feedback[k]
        Vxx = Qxx + gain[k].T @ (Quu @ gain[k] + Qux) + Qux.T @ gain[k]
        Vxx = (Vxx + Vxx.T) / 2
    return feedback, gain


u = 5.0 * np.sin(3.5 * dt * np.arange(steps))[:, None]  # something to start from
q, v = pp.rollout(arm, start, np.zeros(2), u @ driven.T, dt, steps, integrator="rk4")
best, regularisation = float(cost(q, v, u)), 1e-3
sizes = 0.6 ** np.arange(16)
print(f"start   cost {best:10.3f}")
for iteration in range(200):
    A, B = pp.step_derivatives(arm, q[:-1], v[:-1], u @ driven.T, dt, integrator="rk4")
    x_end = np.concatenate([arm.difference(goal, q[-1]), v[-1]])
    feedback, gain = backward(A, B @ driven, x_end, u, regularisation)
    tried = roll(q, v, u, feedback, gain, sizes)
    costs = cost(*tried)
    i = int(costs.argmin())
    if costs[i] > best - 1e-9 * best:
        regularisation *= 10
        if regularisation > 1e6:
            break
        continue
    gone, best = best - costs[i], float(costs[i])
    q, v, u = (x[i] for x in tried)
    regularisation = max(1e-8, regularisation / 3)
    if iteration % 20 == 0:
        print(f"{iteration:5d}   cost {best:10.3f}   step {sizes[i]:.3f}")
    if gone < 1e-7 * best or np.abs(x_end).max() < 0.03:
        break
print(f"{iteration:5d}   cost {best:10.3f}")
print("end:", q[-1].round(3), "upright is", goal.round(3), "rates", v[-1].round(3))
print("largest effort:", np.abs(u).max().round(1), "N·m")
assert np.abs(arm.difference(goal, q[-1])).max() < 0.05
