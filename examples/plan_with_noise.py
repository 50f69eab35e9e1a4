"""Plan paths of a seven-joint arm among spheres: noise of the mechanism beside isotropic noise.

A planner in the manner of STOMP and of the cross-entropy method adds smooth random deviations to a
path, goes on with the best of them, and repeats. The deviations are drawn in the metric of the
mechanism, with accelerations of covariance ∝ ℳ⁻¹(q) along the path, or alike for all joints. Both
kinds have the same size: they displace the links by the same distance, in the mean square.

    python examples/plan_with_noise.py
"""

from typing import NamedTuple

import numpy as np

import phipsi as pp

arm = pp.examples.seven_joint_arm(armature=0.02)  # with the rotors of its drives
LIMITS = np.array([2.96, 2.09, 2.96, 2.09, 2.96, 2.09, 3.05])  # of its joints, rad
# The links as balls: body, height in it, radius (m).
BALLS = [
    ("upper_arm_roll", 0.0, 0.08), ("upper_arm_roll", 0.1, 0.08), ("elbow_pitch", 0.0, 0.07),
    ("elbow_pitch", 0.1, 0.07), ("forearm_roll", 0.0, 0.07), ("forearm_roll", 0.1, 0.06),
    ("wrist_pitch", 0.0, 0.06), ("wrist_roll", 0.0, 0.05), ("wrist_roll", 0.06, 0.05),
]  # fmt: skip
POINTS = [(body, (0.0, 0.0, height)) for body, height, _ in BALLS]
RADII = np.array([radius for *_, radius in BALLS])
SPHERES, MARGIN = 16, 0.02  # obstacles of a problem, and distance to keep from them (m)
STEPS, SAMPLES, BEST, ITERATIONS = 24, 24, 4, 30


class Problems(NamedTuple):
    """First and last configurations (n, 7), and spheres (n, SPHERES, 4) with their radii."""

    q0: np.ndarray
    q1: np.ndarray
    spheres: np.ndarray

    def straight(self):
        """Paths of constant velocity, (n, STEPS + 1, 7)."""
        s = np.linspace(0, 1, STEPS + 1)[:, None]
        return self.q0[:, None] + s * (self.q1 - self.q0)[:, None]

    def __getitem__(self, chosen):
        return Problems(self.q0[chosen], self.q1[chosen], self.spheres[chosen])


def centres(q):
    """Centres of the balls, (..., balls, 3)."""
    return pp.poses(arm, q, POINTS)[..., :3, 3]


def distances(x, spheres):
    """From balls at x (..., n, points, balls, 3) to the spheres, with an axis for these."""
    away = x[..., None, :] - spheres[:, None, None, :, :3]
    return np.linalg.norm(away, axis=-1) - spheres[:, None, None, :, 3] - RADII[:, None]


def random_problems(n, seed=0):
    """Problems with free ends whose straight path hits a sphere by 3 cm or more."""
    rng, found = np.random.default_rng(seed), []
    while sum(map(len, (p.q0 for p in found))) < n:
        where = rng.standard_normal((500, SPHERES, 3))
        where *= (
            rng.uniform(0.45, 1.1, (500, SPHERES, 1)) / np.linalg.norm(where, axis=-1)[..., None]
        )
        where[..., 2] = np.abs(where[..., 2]) + 0.2
        spheres = np.concatenate([where, rng.uniform(0.06, 0.16, (500, SPHERES, 1))], axis=-1)
        q0, q1 = 0.8 * rng.uniform(-LIMITS, LIMITS, (2, 500, 7))
        drawn = Problems(q0, q1, spheres)
        x = centres(drawn.straight())
        depth = distances(x, spheres).min(axis=(-1, -2))
        found.append(drawn[(depth[:, [0, -1]].min(1) > MARGIN) & (depth.min(1) < -0.03)])
    return Problems(*(np.concatenate(parts)[:n] for parts in zip(*found, strict=True)))


def costs(q, spheres):
    """How deep the balls are in the spheres along paths, and a little for the length of the way."""
    x = centres(q)
    depth = np.maximum(MARGIN - distances(x, spheres), 0).sum(axis=(-1, -2, -3))
    way = np.linalg.norm(np.diff(x, axis=-3), axis=-1).mean(-1).sum(-1)
    return depth + 0.02 * way


def are_free(path, spheres):
    """Whether paths touch no sphere, between their configurations too."""
    between = [path[:, :-1] + s * np.diff(path, axis=1) for s in (0.0, 0.25, 0.5, 0.75)]
    return distances(centres(np.concatenate(between, axis=1)), spheres).min((-1, -2, -3)) > 0


# Seven carts of 1 kg side by side have ℳ = I: their noise is isotropic in the joints.
builder = pp.ModelBuilder()
for name in arm.joint_names:
    builder.add_body(name, joint=pp.joints.Prismatic((1, 0, 0)), inertia=pp.SpatialInertia(1.0))
NOISE = {"mechanism": arm, "isotropic": builder.build()}


def sizes(kind, path):
    """Of noise with kT = 1: mean square displacement of balls (m²) and of joints (rad²)."""
    kT = 1e-8  # small, so that displacements are proportional to deviations
    eta = pp.exploration.path_noise(NOISE[kind], path, kT, size=SAMPLES, seed=0)
    moved = centres(path + eta) - centres(path)
    return (moved**2).sum(-1).mean() / kT, (eta**2).mean() / kT


def plan(kind, problems, size, seed=0):
    """Paths (n, STEPS + 1, 7), which of them are free, and the iterations of each.

    `size` is the root mean square displacement of the links by the noise, in m.
    """
    rng, path = np.random.default_rng(seed), problems.straight()
    kT = size**2 / sizes(kind, path)[0]
    lowest = costs(path, problems.spheres)
    free, iterations = np.zeros(len(path), bool), np.full(len(path), ITERATIONS)
    for i in range(1, ITERATIONS + 1):
        left = np.flatnonzero(~free)
        if not left.size:
            break
        now, spheres = path[left], problems.spheres[left]
        eta = pp.exploration.path_noise(NOISE[kind], now, kT, size=SAMPLES, seed=rng)
        tried = np.clip(now + eta, -LIMITS, LIMITS)
        order = np.argsort(costs(tried, spheres), axis=0)[:BEST]
        elite = np.take_along_axis(tried, order[..., None, None], axis=0)
        candidates = np.stack([elite[0], elite.mean(axis=0)])
        cost = costs(candidates, spheres)
        pick, at = cost.argmin(axis=0), np.arange(len(left))
        better = cost[pick, at] < lowest[left]
        path[left[better]] = candidates[pick, at][better]
        lowest[left[better]] = cost[pick, at][better]
        done = left[are_free(path[left], spheres)]
        free[done], iterations[done] = True, i
    return path, free, iterations


def lengths(path):
    """Of paths: that of the hand (m), in the joints (rad), and in the metric of the mechanism."""
    hand = np.linalg.norm(np.diff(centres(path)[..., -1, :], axis=1), axis=-1).sum(-1)
    dq = np.diff(path, axis=1)
    metric = np.sqrt(2 * pp.kinetic_energy(arm, path[:, :-1] + dq / 2, dq)).sum(-1)
    return hand, np.linalg.norm(dq, axis=-1).sum(-1), metric


if __name__ == "__main__":
    problems = random_problems(100)
    line = lengths(problems.straight())
    print("100 problems; noise displaces the links by 8 cm; lengths relative to the straight path")
    for kind in NOISE:
        path, free, iterations = plan(kind, problems, 0.08)
        hand, joints, metric = (
            np.median((a / b)[free]) for a, b in zip(lengths(path), line, strict=True)
        )
        print(
            f"{kind:10} {free.sum()} solved, {iterations.mean():.1f} iterations; length of the "
            f"hand's path {hand:.2f}, in joints {joints:.2f}, in the mass metric {metric:.2f}"
        )
