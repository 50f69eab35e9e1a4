"""A simulator of two joints that a controller holds: its gains are parameters, it has a cost."""

import numpy as np

import phipsi as pp

KP = np.array([30.0, 20.0])


@pp.law
def hold(q, v, kp, kd, target):
    tau = kp * np.sin(target - q) - kd * v
    return {"tau": tau, "cost": (tau * tau).sum() + (q * q).sum()}


def simulator(integrator="rk4"):
    law = hold.bind(kp=KP, kd=2.0, target=np.array([0.3, -0.2]))
    return pp.Simulator(pp.examples.planar_arm(2), [law], 1e-2, integrator=integrator)
