"""Functions that laws may be, and values for them."""

import numpy as np

from phipsi.laws import law_operations as ops
from phipsi.laws.trace import Traced, as_node

X = ops.given("x", (4,))
Y = ops.given("y", (4,))
A = ops.given("a", (3, 4))
S = ops.given("s", ())

# each is smooth at the points that are drawn, and runs on complex numbers too
FUNCTIONS = {
    "spring": lambda x, y, a, s: s * (x - y) - 0.3 * y,
    "products": lambda x, y, a, s: a @ (x * y) + a @ x,
    "quadratic": lambda x, y, a, s: x @ (a.T @ (a @ y)),
    "powers": lambda x, y, a, s: x**3 + (2 + x) ** -2 + (3 + x) ** 0.5 + (4 + x) ** y,
    "trigonometric": lambda x, y, a, s: np.sin(x) * np.cos(y) + np.tan(0.3 * x) + np.arctan(y),
    "arcs": lambda x, y, a, s: np.arcsin(0.3 * x) + np.arccos(0.2 * y),
    "hyperbolic": lambda x, y, a, s: np.tanh(x) + np.sinh(y) * np.cosh(s),
    "exponential": lambda x, y, a, s: np.exp(x / 2) * np.log(5 + y) + np.sqrt(5 + s * x),
    "pieces": lambda x, y, a, s: np.concatenate([x[1:], y[:1] * s]),
    "stacks": lambda x, y, a, s: np.stack([x, y, x * y]) * s,
    "sums": lambda x, y, a, s: np.sum(a * x, axis=1) + np.sum(a) * s,
    "columns": lambda x, y, a, s: a[:, 2] * x[0] + a[1, 0] + a.sum(axis=0)[3],
    "matrices": lambda x, y, a, s: a @ a.T + np.outer(x[:3], y[1:]),
    "cross": lambda x, y, a, s: np.cross(x[:3], y[1:]) / (2 + np.sqrt(x[:3] @ x[:3] + 1)),
    "choice": lambda x, y, a, s: np.where(is_positive(x), x * s, -2 * x),
    "list": lambda x, y, a, s: np.stack([x[0] * s, y[1], 2.0 * x[2]]),
}


def is_positive(x):
    """A condition that also holds for complex numbers near real ones."""
    return (x > 0) if isinstance(x, Traced) else np.real(x) > 0


REAL_ONLY = {
    "arctan2": lambda x, y, a, s: np.arctan2(x, 2 + y),
    "norm": lambda x, y, a, s: np.linalg.norm(x) + np.hypot(s, 2.0),
    "limits": lambda x, y, a, s: np.clip(x, -0.5, 0.5) + np.minimum(x, y) - np.maximum(x, 2 * y),
    "steps": lambda x, y, a, s: np.sign(x) * np.abs(y) + np.floor(3 * x) + (x < y) + (x >= s),
    "logic": lambda x, y, a, s: np.where((x > 0) & (y > 0) | ~(s > 0), x, y) + (x != y),
    "extremes": lambda x, y, a, s: np.max(x) - np.min(a),
}
ALL = FUNCTIONS | REAL_ONLY


def values(batch=()):
    rng = np.random.default_rng(3)
    return {
        "x": rng.uniform(-1, 1, (*batch, 4)),
        "y": rng.uniform(-1, 1, (*batch, 4)),
        "a": rng.uniform(-1, 1, (*batch, 3, 4)),
        "s": rng.uniform(0.5, 1, batch),
    }


def traced(function):
    return as_node(function(*map(Traced, (X, Y, A, S))))
