"""Learn to swing a pole up: proximal policy optimisation in NumPy on 256 compiled cart-poles.

It takes half a minute. Needs Gymnasium (``pip install 'phipsi[gym]'``).
"""

import argparse
import time

import numpy as np

import phipsi as pp
import phipsi.gym

SCALES = np.array([0.5, 0.3, 1.0, 1.0, 0.15])  # observations times these are of about unit size
DISCOUNT, TRACE, CLIP, EPOCHS, PARTS = 0.98, 0.95, 0.2, 6, 8


class Network:
    """Two hidden layers of 64 with tanh, in float32, with Adam."""

    def __init__(self, sizes, rng, last):
        scales = [np.sqrt(1 / n) for n in sizes[:-2]] + [last]
        self.weights = [
            (rng.normal(size=(a, b)) * s).astype(np.float32)
            for a, b, s in zip(sizes[:-1], sizes[1:], scales, strict=True)
        ]
        self.biases = [np.zeros(b, np.float32) for b in sizes[1:]]
        self.extra = np.zeros(sizes[-1], np.float32)  # log of the standard deviation of a policy
        self.numbers = [*self.weights, *self.biases, self.extra]
        self.moments = [(np.zeros_like(x), np.zeros_like(x)) for x in self.numbers]
        self.updates = 0

    def __call__(self, x):
        self.inputs = [x]
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            self.inputs.append(np.tanh(self.inputs[-1] @ W + b))
        return self.inputs[-1] @ self.weights[-1] + self.biases[-1]

    def update(self, out_bar, extra_bar, rate, limit=0.5):
        """One step of Adam, from the gradient with respect to the last outputs."""
        weights, biases, bar = [], [], out_bar
        for i in reversed(range(len(self.weights))):
            weights.insert(0, self.inputs[i].T @ bar)
            biases.insert(0, bar.sum(axis=0))
            bar = (bar @ self.weights[i].T) * (1 - self.inputs[i] ** 2)
        bars = [*weights, *biases, extra_bar]
        size = np.sqrt(sum(float((x * x).sum()) for x in bars))
        self.updates += 1
        for x, g, (m, s) in zip(self.numbers, bars, self.moments, strict=True):
            g = g * np.float32(min(1.0, limit / (size + 1e-8)))
            m += 0.1 * (g - m)
            s += 0.001 * (g * g - s)
            ahead = m / (1 - 0.9**self.updates), s / (1 - 0.999**self.updates)
            x -= np.float32(rate) * ahead[0] / (np.sqrt(ahead[1]) + 1e-8)


def scaled(seen):
    """Observations for the networks."""
    return (seen * SCALES).astype(np.float32)


def collect(env, policy, value, seen, length, rng):
    """Play, and estimate advantages backwards in time."""
    n, spread = env.num_envs, np.exp(policy.extra)
    names = ("seen", "action", "reward", "value", "after", "chain")
    out = {name: [] for name in names}
    for _ in range(length):
        mean, now = policy(seen), value(seen)[:, 0]
        action = (mean + spread * rng.normal(size=mean.shape)).astype(np.float32)
        later, reward, terminated, truncated, infos = env.step(action)
        over, last = terminated | truncated, later.copy()
        if over.any():  # the value of the state in which the episode was cut
            last[over] = np.stack(infos["final_obs"][over])
        after = value(scaled(last))[:, 0] * ~terminated
        for name, x in zip(names, (seen, action, reward, now, after, ~over), strict=True):
            out[name].append(x)
        seen = scaled(later)
    found = {name: np.array(x) for name, x in out.items()}
    errors = found["reward"] + DISCOUNT * found["after"] - found["value"]
    advantage, ahead = np.zeros((length, n), np.float32), np.zeros(n)
    for k in reversed(range(length)):
        advantage[k] = ahead = errors[k] + DISCOUNT * TRACE * found["chain"][k] * ahead
    found["advantage"], found["target"] = advantage, advantage + found["value"]
    return {name: x.reshape(length * n, *x.shape[2:]) for name, x in found.items()}, seen


def improve(policy, value, data, rate, rng):
    """Several passes over what was played."""
    noise, count = data["action"] - policy(data["seen"]), len(data["seen"])
    spread = np.exp(policy.extra)
    old = -0.5 * (noise / spread) ** 2 - policy.extra
    gain = data["advantage"]
    gain = (gain - gain.mean()) / (gain.std() + 1e-8)
    for _ in range(EPOCHS):
        for part in np.array_split(rng.permutation(count), PARTS):
            spread = np.exp(policy.extra)
            noise = (data["action"][part] - policy(data["seen"][part])) / spread
            ratio = np.exp((-0.5 * noise**2 - policy.extra - old[part]).sum(axis=1))
            use = gain[part]
            moves = np.where(use > 0, ratio < 1 + CLIP, ratio > 1 - CLIP)
            by_log = -(use * ratio * moves / len(part))[:, None].astype(np.float32)
            entropy = 1e-3
            by_spread = (by_log * (noise**2 - 1)).sum(axis=0) - np.float32(entropy)
            policy.update(by_log * noise / spread, by_spread, rate)
            error = value(data["seen"][part])[:, 0] - data["target"][part]
            value.update((error / len(part))[:, None].astype(np.float32), value.extra * 0, 3 * rate)


def score(policy, seed, count=100):
    """How many of so many new starts end with 5 s within 10 degrees of upright."""
    env = phipsi.gym.cart_pole_swing_up(count, limit=20.0)
    seen, _ = env.reset(seed=seed)
    fine = np.ones(count, dtype=bool)
    for k in range(250):  # 10 s
        seen, _, terminated, _, _ = env.step(policy(scaled(seen)))
        fine &= ~terminated
        if k >= 125:
            fine &= seen[:, 2] > np.cos(np.deg2rad(10))
    return int(fine.sum())


def compiled(policy, start, steps=1000):
    """The same runs without Python: the policy is a law with 25 samples a second."""

    def observe(q, v):
        return SCALES * np.stack([q[0], v[0], np.cos(q[1]), np.sin(q[1]), v[1]])

    def act(y):
        return np.stack([10.0 * np.clip(y[0], -1.0, 1.0), 0.0])

    layers = zip(policy.weights, policy.biases, strict=True)
    state = {}
    for i, (W, b) in enumerate(layers):
        state |= {f"{2 * i}.weight": W.T, f"{2 * i}.bias": b}
    actor = pp.laws.policy(state, observe, act, rate=25.0)
    model = phipsi.gym.cart_pole_swing_up(1).simulator.model
    sim = pp.Simulator(model, actor, dt=0.01)
    return sim.rollout(sim.initial_state(*start), steps=steps, threads=2)


def train(iterations, copies=256, length=64, seed=0, threads=2, show=print):
    """Train, and return the policy."""
    rng = np.random.default_rng(seed)
    env = phipsi.gym.cart_pole_swing_up(copies, threads=threads)
    policy, value = Network((5, 64, 64, 1), rng, 0.01), Network((5, 64, 64, 1), rng, 0.1)
    seen, began = scaled(env.reset(seed=seed)[0]), time.perf_counter()
    for k in range(iterations):
        data, seen = collect(env, policy, value, seen, length, rng)
        improve(policy, value, data, 1e-3 * (1 - 0.9 * k / iterations), rng)
        if k % 10 == 9 or k == iterations - 1:
            reward, taken = data["reward"].mean(), time.perf_counter() - began
            show(f"{k + 1:4d} iterations, {taken:5.0f} s: reward {reward:.3f} per action")
    return policy


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--iterations", type=int, default=40)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    policy = train(given.iterations, seed=given.seed)
    print(f"{score(policy, seed=10_000 + given.seed)} of 100 new starts end upright")

    env = phipsi.gym.cart_pole_swing_up(1000)
    env.reset(seed=20_000 + given.seed)
    run = compiled(policy, (env.state.q, env.state.v))
    inside = np.abs(run.q[..., 0]).max(axis=1) < 2.4
    upright = np.cos(run.q[:, 500:, 1]).min(axis=1) > np.cos(np.deg2rad(10))
    print(f"{(inside & upright).sum()} of 1000 others in one compiled run, at every step")
