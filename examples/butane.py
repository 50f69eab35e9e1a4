"""Butane: what rigid bonds do to a torsion, and how Fixman's potential undoes it."""

import sys

import numpy as np

import phipsi as pp

bend, bond = np.radians(68), 0.153  # bond angles of 112°
out = bond * np.array([np.cos(bend), np.sin(bend), 0])
x = np.array([(0, 0, 0), (bond, 0, 0), (bond, 0, 0) + out, (2 * bond, 0, 0) + out])
butane = pp.molecules.Molecule([15.035, 14.027, 14.027, 15.035], x, [(0, 1), (1, 2), (2, 3)])
print(butane)

# The density of the rigid model in the torsion: √det ℳ, relative to uniform
angles = np.radians(np.arange(-180, 181, 2))
q = np.tile(butane.home, (len(angles), 1))
q[:, -1] = angles - np.pi  # built in trans, where the dihedral is 180°
density = np.exp(0.5 * pp.diagonal_dynamics.log_det_mass_matrix(butane.model, q))
density /= density[:-1].mean()
print(f"rigid bonds: {density[120]:.6f} of uniform at 60°, {density[0]:.6f} in trans (180°)")

# Samples with and without the potential; no other energy acts, so stiff bonds would be uniform
samples, warm_up = (40, 4) if len(sys.argv) > 1 else (2, 1)
start = np.tile(butane.home, (1024, 1))
start[:, -1] = np.random.default_rng(0).uniform(-np.pi, np.pi, 1024)
shares = {}
for fixman in (False, True):
    found = pp.molecules.sample(
        butane, samples, replicas=1024, dt=0.04, steps=10, fixman=fixman, seed=1, warm_up=warm_up,
        q=start,
    )  # fmt: skip
    counts, edges = np.histogram(found.dihedral((0, 1, 2, 3)), bins=24, range=(-np.pi, np.pi))
    shares[fixman] = counts / counts.mean()
    print(f"fixman={fixman}: {found}, trans {shares[fixman][[0, -1]].mean():.2f} of uniform")

if len(sys.argv) > 1:
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
    for fixman, color in ((False, "tab:red"), (True, "tab:blue")):
        name = "with Fixman's potential" if fixman else "rigid bonds"
        ax.stairs(shares[fixman], np.degrees(edges), color=color, label=name)
    ax.plot(np.degrees(angles), density, "k--", lw=1, label="√det ℳ")
    ax.set(xlabel="torsion of butane (°)", ylabel="density / uniform", xticks=range(-180, 181, 60))
    ax.legend(loc="lower center")
    fig.savefig(sys.argv[1])
    print("picture:", sys.argv[1])
