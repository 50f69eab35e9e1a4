"""Contact problems from rigid bodies and at random, and the laws themselves as checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phipsi.contact.solver.contact_problem import (
    ContactProblem,
    ContactProblemLayout,
    Groups,
    nearest_on_cones,
)

MIXED = ContactProblemLayout(("rolling", "point", "torsion", "normal"), stops=1, limits=2)


def random_problems(
    rng: np.random.Generator, contacts: int, count: int, decades: float = 0.0
) -> ContactProblem:
    """Random spatial contacts, a third of them open; rows scaled over so many decades."""
    n = 3 * contacts
    G = rng.standard_normal((count, n, n + 6))
    size = 10 ** rng.uniform(-decades / 2, decades / 2, (count, contacts, 1))
    G *= size.repeat(3, axis=1).reshape(count, n, 1)
    layout = ContactProblemLayout(("point",) * contacts)
    s = rng.uniform(0, 0.5, (count, contacts)) * (rng.random((count, contacts)) < 0.3)
    mu = rng.uniform(0.1, 1.0, (count, contacts))
    b = (G @ rng.standard_normal((count, n + 6, 1)))[..., 0]
    W = G @ G.swapaxes(1, 2) / (n + 6)
    return ContactProblem(layout, W, b, s, layout.coefficients(mu))


def mixed_problems(rng: np.random.Generator, count: int) -> ContactProblem:
    """All kinds of contacts, stops and limits."""
    n, k = MIXED.n_rows, MIXED.n_heads
    G = rng.standard_normal((count, n, n + 4))
    coefficients = MIXED.coefficients(
        rng.uniform(0.1, 1, (count, 4)), rng.uniform(0.01, 0.5, (count, 4)),
        rng.uniform(0.01, 0.3, (count, 4)), rng.uniform(0.05, 0.5, (count, 2)),
    )  # fmt: skip
    s = rng.uniform(0, 0.5, (count, k)) * (rng.random((count, k)) < 0.3)
    b = rng.standard_normal((count, n))
    return ContactProblem(MIXED, G @ G.swapaxes(1, 2), b, s, coefficients)


def axes_of(normal: np.ndarray) -> np.ndarray:
    """[t1 t2 n] as columns."""
    n = normal / np.linalg.norm(normal)
    t1 = np.cross(np.eye(3)[np.argmin(np.abs(n))], n)
    t1 /= np.linalg.norm(t1)
    return np.stack([t1, np.cross(n, t1), n], axis=1)


def row_block(kind: str, x: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """The rows of a contact of a body with its mass centre at 0: [angular; linear] → u."""
    R = axes_of(normal).T
    cross = np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])
    turning = np.concatenate([R, np.zeros((3, 3))], axis=1)
    points = np.concatenate([-R @ cross, R], axis=1)
    rows = {"normal": [5], "point": [3, 4, 5], "torsion": [2, 3, 4, 5], "rolling": range(6)}
    return np.concatenate([turning, points])[list(rows[kind])]


def rigid_problem(
    bodies: Sequence[tuple[float, Sequence[float], Sequence[float]]],
    contacts: Sequence[tuple[str, int, int, Sequence[float], Sequence[float]]],
    velocities: np.ndarray,
    coefficients: dict[str, float],
) -> ContactProblem:
    """Free bodies (mass, moments, place) with contacts (kind, a, b or −1, point, normal b to a)."""
    layout = ContactProblemLayout(tuple(x[0] for x in contacts))
    G = np.zeros((layout.n_rows, 6 * len(bodies)))
    for first, (kind, a, b, x, normal) in zip(layout.firsts, contacts, strict=True):
        for body, sign in ((a, 1.0), (b, -1.0)):
            if body >= 0:
                arm = np.subtract(x, bodies[body][2])
                block = sign * row_block(kind, arm, np.array(normal, float))
                G[first : first + len(block), 6 * body : 6 * body + 6] = block
    inverse = np.concatenate([[*(1 / np.array(J)), *[1 / m] * 3] for m, J, _ in bodies])
    W, b = G * inverse @ G.T, G @ np.ravel(velocities)
    s = np.zeros(layout.n_heads)
    return ContactProblem(layout, W, b, s, layout.coefficients(**coefficients))


def jammed_problems(rng: np.random.Generator, contacts: int, count: int) -> ContactProblem:
    """One body, cones at random places and directions: twelve or more rows of rank six."""
    moments, places = (0.5, 0.3, 0.25), (0.0, 0.0, 0.0)
    found = []
    for _ in range(count):
        x, n = rng.standard_normal((2, contacts, 3))
        touching = [("point", 0, -1, a, b) for a, b in zip(x, n, strict=True)]
        problem = rigid_problem(
            [(1.0, moments, places)], touching, rng.standard_normal(6), {"friction": 0.5}
        )
        found.append(problem)
    layout = found[0].layout
    mu = rng.uniform(0.1, 1.0, (count, contacts))
    W, b, s = (np.stack([getattr(p, name) for p in found]) for name in ("W", "b", "s"))
    return ContactProblem(layout, W, b, s, layout.coefficients(mu))


def wedged_problems(rng: np.random.Generator, count: int, uneven: float) -> ContactProblem:
    """A box that falls on four corners whose gaps are almost those of a plane.

    `uneven` (m/s): gaps / h are random within it, so that only three corners can close.
    """
    edges, m = np.array([0.2, 0.3, 0.1]), 2.0
    moments = m / 12 * (edges @ edges - edges**2)
    corners = 0.5 * edges * [[-1, -1, -1], [1, -1, -1], [-1, 1, -1], [1, 1, -1]]
    touching = [("point", 0, -1, x, (0, 0, 1)) for x in corners]
    bodies = [(m, moments, (0.0, 0.0, 0.0))]
    fall = rng.normal(size=(count, 6)) * [2, 2, 2, 0.4, 0.4, 0.2] - [0, 0, 0, 0, 0, 0.5]
    found = [rigid_problem(bodies, touching, v, {"friction": 0.6}) for v in fall]
    s = 1e-3 * (1 + 0.1 * rng.normal(size=(count, 1))) + uneven * rng.random((count, 4))
    W, b, c = (np.stack([getattr(p, x) for p in found]) for x in ("W", "b", "coefficients"))
    return ContactProblem(found[0].layout, W, b, s, c)


def stack(
    masses: Sequence[float], fall: float, friction: float = 0.5, push: float = 0.0
) -> ContactProblem:
    """Cubes of 0.2 m on each other and the floor, four points each, falling with `fall` m/s."""
    bodies, contacts = [], []
    for i, m in enumerate(masses):
        bodies.append((m, [m * 0.04 / 6] * 3, (0.0, 0.0, 0.1 + 0.2 * i)))
        for x in (-0.1, 0.1):
            for y in (-0.1, 0.1):
                contacts.append(("point", i, i - 1, (x, y, 0.2 * i), (0, 0, 1)))
    velocities = np.tile([0, 0, 0, push, 0, -fall], len(masses))
    return rigid_problem(bodies, contacts, velocities, {"friction": friction})


def violations(problem: ContactProblem, p: np.ndarray) -> np.ndarray:
    """The largest violation (B,) of the laws themselves, in m/s, impulses by their largest W_ii.

    Signorini: p_n ≥ 0, u_n + s ≥ 0, and one of them is zero. Coulomb: |p_g / μ_g| ≤ bound, and if
    the group moves, its impulse has the size of the bound and dissipates most:
    p_g |μ_g u_g| = −bound μ_g² u_g. No projection, no cone, no scaled variables.
    """
    flat = problem.flat()
    layout, p = problem.layout, p.reshape(len(flat.b), -1)
    u = (flat.W @ p[..., None])[..., 0] + flat.b
    own = np.maximum(np.einsum("bii->bi", flat.W), 1e-300)
    worst = [np.zeros(len(p))]
    for head, row in enumerate(layout.normals):
        speed, impulse = u[:, row] + flat.s[:, head], p[:, row] * own[:, row]
        worst += [np.maximum(-speed, 0), np.maximum(-impulse, 0)]
        worst += [np.minimum(np.abs(speed), np.abs(impulse))]
    for head, rows in layout.groups:
        of = list(rows)
        mu = flat.coefficients[:, of]
        free = np.where(mu > 0, mu, 1.0)
        moved, pushed = mu * u[:, of], np.where(mu > 0, p[:, of] / free, 0.0)
        top = p[:, layout.normals[head]] if head >= 0 else np.ones(len(p))
        scale = own[:, layout.normals[head]] if head >= 0 else own[:, rows[0]] * mu[:, 0] ** 2
        worst.append(np.abs(np.where(mu > 0, 0.0, p[:, of])).max(axis=1) * scale)
        excess = np.linalg.norm(pushed, axis=1) - top
        worst.append(np.maximum(excess, 0) * scale)
        speed = np.linalg.norm(moved, axis=1)
        # |u| p_g/bound + u, or the lack of impulse, as for the normal
        direction = moved / np.where(speed > 0, speed, 1.0)[:, None]
        lack = np.linalg.norm(pushed + top[:, None] * direction, axis=1)
        part = np.where(top > 0, speed * lack / np.where(top > 0, top, 1.0), np.inf)
        worst.append(np.minimum(part, lack * scale))
    return np.max(worst, axis=0).reshape(problem.batch)


def without_sliding_term(problem: ContactProblem) -> np.ndarray:
    """The impulses of the convex relaxation, which has no μ |u_t|: by projected gradients."""
    flat = problem.flat()
    groups, layout = Groups(problem.layout), problem.layout
    p, step = np.zeros_like(flat.b), 1.0 / np.linalg.norm(flat.W, 2, axis=(1, 2))[:, None]
    mu = groups.of(flat.coefficients).max(axis=-1)
    for _ in range(3000):
        u = (flat.W @ p[..., None])[..., 0] + flat.b
        u[:, layout.normals] += flat.s
        x = p - step * u
        n, g = nearest_on_cones(groups, mu, x[:, layout.normals], groups.of(x))
        p = p.copy()
        p[:, layout.normals] = n
        groups.put(g, p)
    return p
