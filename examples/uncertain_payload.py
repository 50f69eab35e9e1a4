"""A thousand arms at once: holding torques when the payload is not known exactly."""

import numpy as np

import phipsi as pp
from phipsi.operators import H, M, gravity, phi

arm = pp.examples.seven_joint_arm()
q = np.array([0.0, 0.8, 0.0, 0.9, 0.0, 0.4, 0.0])
rng = np.random.default_rng(0)

# Inertias become an input of the program; each element of the batch has its own.
hold = pp.compile(H @ phi @ M @ phi.T @ gravity, arm, inputs=("M",))
inertias = np.repeat(arm.inertia_matrices[None], 1000, axis=0)
inertias[:, -1] *= rng.uniform(1.0, 3.0, 1000)[:, None, None]
torques = hold(q, inertias)

for name, mean, spread in zip(arm.joint_names, torques.mean(0), torques.std(0), strict=True):
    print(f"{name:<16} {mean:8.3f} ± {spread:.3f} N·m")
assert np.allclose(hold(q, arm.inertia_matrices), pp.gravity_forces(arm, q))
