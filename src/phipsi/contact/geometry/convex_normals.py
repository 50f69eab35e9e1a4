"""How the separating direction of two convex shapes changes: Newton's step, and its derivative.

At the best direction n, the difference D = a − b of the points that are farthest towards each other
is f n. With the curvatures H (how these points move with n), the change of n that makes it so is
(H_a + H_b + f) dn = D − n (n·D). Along faces and edges the points are not unique; there n stays
across them: F dn = −F n with the projectors F onto flat directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.contact.geometry.convex_search import Kinds, Relative, step_of, supports
from phipsi.contact.geometry.convex_shapes import FLAT, across, curvature, flatness
from phipsi.contact.geometry.graph_calls import Repeated, repeat
from phipsi.laws import law_operations as ops
from phipsi.laws.trace import Traced, as_node

_CROSSED = 1e-6  # sin² of the angle between edges that determine the normal
_CORNER = 1e-10  # of the size: the least separation that is divided by
_WITHIN = (0.03, 3e-3, 3e-4, 3e-5, 3e-6, 3e-7)  # rad: how near faces and edges are tried
_STEPS = 16
_SMALL = 1e-12  # rad: the last step
_ROUNDING = 1e-12  # of the size: how much less separation a step may have


def newton_step(kinds: Kinds, pair: Relative, n: Any, scale: Any, within: Any = FLAT) -> Any:
    """The change of a direction towards the best one (3,), at right angles to it."""
    a, b = supports(kinds, pair, n)
    d = n @ pair.Q
    H = curvature(kinds[0], pair.p_a, -n) + pair.Q @ curvature(kinds[1], pair.p_b, d) @ pair.Q.T
    F_a, F_b = flat_sides(kinds, pair, n, within)
    D, F, one = a - b, F_a + F_b, np.eye(3)
    u, v = across(n)
    sides = (u @ F @ u) * (v @ F @ v) - (u @ F @ v) ** 2
    free = np.where(sides > _CROSSED, 0.0, 1.0)  # 0: faces and edges alone determine n
    S = (one - F_a) @ (one - F_b)
    K = scale * F + free * (S @ H)
    f = n @ D
    f = f + np.where(f < 0.0, -_CORNER, _CORNER) * scale  # corners that touch leave n free
    return solved_across(n, K, free * f, free * (S @ (S @ D)) - scale * (F @ n))


def flat_sides(kinds: Kinds, pair: Relative, n: Any, within: Any = FLAT) -> tuple[Any, Any]:
    """The projectors onto the flat directions of a and b."""
    F_b = flatness(kinds[1], pair.p_b, n @ pair.Q, within)
    return flatness(kinds[0], pair.p_a, -n, within), pair.Q @ F_b @ pair.Q.T


def solved_across(n: Any, K: Any, more: Any, right: Any) -> Any:
    """The vector x at right angles to n with P (K + more) x = P right."""
    u, v = across(n)
    Ku, Kv = K @ u, K @ v
    k_uu, k_uv, k_vu, k_vv = u @ Ku + more, u @ Kv, v @ Ku, v @ Kv + more
    det = k_uu * k_vv - k_uv * k_vu
    good = np.abs(det) > 1e-14 * (np.abs(k_uu * k_vv) + np.abs(k_uv * k_vu))
    inverse = 1.0 / np.where(good, det, 1.0)
    r_u, r_v = u @ right, v @ right
    x, y = (k_vv * r_u - k_uv * r_v) * inverse, (k_uu * r_v - k_vu * r_u) * inverse
    return np.where(good, x * u + y * v, 0.0 * n)


def improved(kinds: Kinds, pair: Relative, given: Any, n: Any) -> Any:
    """The direction after some steps, each of which is taken if it separates more.

    Every other step tries faces and edges that are nearly at right angles to n.
    """
    a, b = supports(kinds, pair, n)
    zero = 0.0 * n[0]
    state = np.concatenate([n, np.stack([n @ (a - b), zero, zero])])
    return repeat(step_of(_improvement, kinds, pair), state, given)[:3]


def _improvement(kinds: Kinds, pair: Relative, scale: Any) -> Repeated:
    state: Any = Traced(ops.given("state", (6,)))
    n, f, count = state[:3], state[3], state[4]
    within: Any = FLAT
    for k, angle in enumerate(_WITHIN):
        within = np.where(count == float(2 * k + 1), angle, within)
    change = newton_step(kinds, pair, n, scale, within)
    done = (change @ change < _SMALL**2) & (within <= FLAT)
    new = n + change
    new = new / np.sqrt(new @ new)
    a, b = supports(kinds, pair, new)
    separation = new @ (a - b)
    better = separation >= f - np.where(within <= FLAT, _ROUNDING * scale, 0.0)
    n, f = np.where(better, new, n), np.where(better, separation, f)
    return Repeated(as_node(np.concatenate([n, np.stack([f, count + 1.0, 1.0 * done])])), _STEPS)


def witness(kinds: Kinds, pair: Relative, n: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """The separation along n, and the point of a where the shapes are nearest.

    `a` and `b` are points of the shapes near there, which count along faces and edges only.
    """
    top_a, top_b = supports(kinds, pair, n)
    f = n @ (top_a - top_b)
    F_a, F_b = flat_sides(kinds, pair, n)
    x, y = top_a + F_a @ (a - top_a), top_b + F_b @ (b - top_b)
    off = solved_across(n, F_a + F_b, _LOOSE, x - y)
    return f, x - F_a @ off


_LOOSE = 1e-12
