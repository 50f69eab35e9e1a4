"""Identify a seven-joint arm from noisy data: excitation, least squares, held-out check, a plot."""

import sys

import numpy as np

import phipsi as pp

rng = np.random.default_rng(1)
drawing = pp.examples.seven_joint_arm(armature=0.1)  # values from the drawings

# The machine itself: other masses, another payload, rotors and friction. Nobody knows these.
bodies = pp.identification.inertial_parameters(drawing).reshape(7, 10) * rng.uniform(
    0.8, 1.2, (7, 1)
)
rotors = rng.uniform(0.05, 0.2, 7)
machine = drawing.with_inertial_parameters(bodies, armature=rotors)
viscous, coulomb = rng.uniform(0.2, 1.0, 7), rng.uniform(0.3, 1.5, 7)
noise = np.array([0.8, 0.8, 0.5, 0.5, 0.2, 0.1, 0.05])  # N·m


def random_path(frequencies=5, period=10.0):
    """A random Fourier series within 60 % of the joint limits and 1.5 rad/s."""
    a, b = rng.standard_normal((2, 7, frequencies))
    path = pp.control.FourierPath(drawing, np.zeros(7), a, b, period)
    state = path(np.linspace(0, period, 400))
    scale = np.minimum(0.6 * drawing.upper / np.abs(state.q).max(0), 1.5 / np.abs(state.v).max(0))
    return pp.control.FourierPath(
        drawing, np.zeros(7), scale[:, None] * a, scale[:, None] * b, period
    )


def measure(path, t):
    """Encoders and effort sensors while the machine follows the path."""
    q, v, vdot = path(t)
    tau = pp.inverse_dynamics(machine, q, v, vdot) + viscous * v + coulomb * np.sign(v)
    return q + 2e-5 * rng.standard_normal(q.shape), tau + noise * rng.standard_normal(q.shape)


# 1. Identifiable parameters, and an exciting motion: the best of random ones.
base = pp.identification.base_parameters(drawing, armature=True, viscous=True, coulomb=True)
t = np.arange(0, 10, 0.01)


def condition(path):
    Y = base.regressor(*path(t[::10])) / noise[:, None]
    W = Y.reshape(-1, len(base))
    return np.linalg.cond(W / np.linalg.norm(W, axis=0))


candidates = [random_path() for _ in range(20)]
path = min(candidates, key=condition)
print(f"{base}; condition {condition(path):.0f}, of a random motion {condition(candidates[0]):.0f}")

# 2. Measure, filter the encoders by a fit, and estimate.
q_measured, tau_measured = measure(path, t)
filtered = pp.control.FourierPath.fit(drawing, t, q_measured, 10.0, harmonics=5)
found = pp.identification.identify(base, *filtered(t), tau_measured)
print("noise of the efforts, estimated:", found.noise.round(2), "true:", noise)
truth = base.combinations @ np.concatenate([bodies.ravel(), rotors, viscous, coulomb])
pulls = (found.values - truth) / found.deviations
print(
    f"errors in standard deviations: rms {np.sqrt(np.mean(pulls**2)):.2f},"
    f" worst {np.abs(pulls).max():.1f}"
)
print("\n".join(found.table().splitlines()[:6]), "\n…")

# 3. Another motion, not used for the fit: efforts predicted by the drawing and by the estimate.
other = random_path()
q, v, vdot = other(t)
_, tau_new = measure(other, t)
guessed = pp.inverse_dynamics(drawing, q, v, vdot)
predicted = found.efforts(q, v, vdot)
for name, error in (("drawing", guessed), ("identified", predicted)):
    print(
        f"{name:<11} rms error / noise:",
        (np.sqrt(np.mean((tau_new - error) ** 2, 0)) / noise).round(2),
    )
assert (np.sqrt(np.mean((tau_new - predicted) ** 2, 0)) < 1.1 * noise).all()

# 4. A model to simulate and control with, close to the drawing where the data say nothing.
model = found.model(drawing)
print("masses of the model:", np.array([x.mass for x in model.inertias]).round(2))

# 5. A figure, if a name for it is given:  python examples/identify_arm.py efforts.png
if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 11), layout="constrained")
    axes = figure.subplots(7, 1, sharex=True)
    for i, axis in enumerate(axes):
        axis.plot(t, tau_new[:, i], color="0.75", lw=0.8, label="measured")
        axis.plot(t, guessed[:, i], color="C1", lw=1, label="drawing")
        axis.plot(t, predicted[:, i], color="C0", lw=1, label="identified")
        axis.set_ylabel(f"{drawing.joint_names[i]}\n(N·m)", fontsize=7)
    axes[0].legend(ncols=3, fontsize=8)
    axes[-1].set_xlabel("t (s), a motion that was not used for the fit")
    figure.savefig(sys.argv[1], dpi=120)
