"""Functions that laws may be, and values for them."""

import numpy as np

from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.numpy_functions import table
from phipsi.core.arrays.trace import Tracer, as_node

X = ops.input("x", (4,))
Y = ops.input("y", (4,))
A = ops.input("a", (3, 4))
S = ops.input("s", ())

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
    "axes": lambda x, y, a, s: np.sum(a[None] * x[:, None, None], axis=(0, 2)) + a.mean(axis=1),
    "stacked products": lambda x, y, a, s: (
        (np.stack([a, s * a]) @ x)[1] + (a.T[:, None] @ a)[2, 0, 1]
    ),
    "einsum": lambda x, y, a, s: np.einsum("ij,kj,j->ki", a, a[:2], x) * s,
    "assigned": lambda x, y, a, s: assigned(x, y, a, s),
    "in place": lambda x, y, a, s: in_place(x, y, a, s),
    "sums at": lambda x, y, a, s: sums_at(x, y, a, s),
    "stretches": lambda x, y, a, s: np.add.reduceat(a * x, np.array([0, 2]), axis=1)[1] * s,
    "moved": lambda x, y, a, s: (
        np.roll(np.tile(x, 2), 3) * np.repeat(y, 2) + np.moveaxis(a, 0, 1)[0, 1]
    ),
    "vectors": lambda x, y, a, s: np.cross(a[:, :3], x[:3]) + np.zeros_like(a, shape=(3, 3)),
    "list": lambda x, y, a, s: np.stack([x[0] * s, y[1], 2.0 * x[2]]),
    "array": lambda x, y, a, s: np.array([x[0] * s, y[1], 2.0]) + np.sin(np.array([s, *x[:2]])),
    "rows of an array": lambda x, y, a, s: a * np.array([x, y, x * y]) + np.asarray(a),
    "entries": lambda x, y, a, s: (
        np.cumsum(x) + np.prod(2 + y) + np.append(np.diff(x), s) + np.kron(x[:2], y[:2])
    ),
    "blocks": lambda x, y, a, s: (
        np.diag(x) @ np.block([[a, np.ones((3, 1)) * s]])[:, :4].T + np.trace(np.outer(x, y))
    ),
    "halves": lambda x, y, a, s: np.take(np.tril(a) - np.triu(a[::-1]), [0, 2], axis=0) * s,
}


def assigned(x, y, a, s):
    """Entries of arrays of the function's own."""
    out = np.zeros_like(a * x[0], shape=(2, 4))
    out[0, [1, 3]] = x[:2] * s
    out[..., 0] = y[2]
    out[1, 1:] = a[1, :3]
    return out


def in_place(x, y, a, s):
    """Changes of arrays of the function's own, and of parts of them."""
    out = x.copy()
    out += y
    out[1:3] *= s
    out[0] -= a[0, 0]
    out /= 3.0 + x
    return out


def sums_at(x, y, a, s):
    """Sums of entries at places that repeat."""
    out = np.zeros_like(x * s)
    np.add.at(out, np.array([0, 2, 0]), y[1:] * x[0])
    return out


def is_positive(x):
    """A condition that also holds for complex numbers near real ones."""
    return (x > 0) if isinstance(x, Tracer) else np.real(x) > 0


REAL_ONLY = {
    "arctan2": lambda x, y, a, s: np.arctan2(x, 2 + y),
    "norm": lambda x, y, a, s: np.linalg.norm(x) + np.hypot(s, 2.0),
    "limits": lambda x, y, a, s: np.clip(x, -0.5, 0.5) + np.minimum(x, y) - np.maximum(x, 2 * y),
    "steps": lambda x, y, a, s: np.sign(x) * np.abs(y) + np.floor(3 * x) + (x < y) + (x >= s),
    "logic": lambda x, y, a, s: np.where((x > 0) & (y > 0) | ~(s > 0), x, y) + (x != y),
    "rows": lambda x, y, a, s: np.max(a, axis=0) + np.linalg.norm(a, axis=0) * s,
    "whole": lambda x, y, a, s: np.ceil(3 * x) + (5 * y) % 0.7 + (5 * x) // 0.3,
    "table": lambda x, y, a, s: np.interp(x, [-1.5, -0.2, 0.1, 0.4], [1.0, 0.3, -2.0, 1.5]) * y,
    "cubic": lambda x, y, a, s: table(x, [-1.5, -0.2, 0.1, 0.4], [1.0, 0.3, -2.0, 1.5], "cubic"),
    "truths": lambda x, y, a, s: ((x > 0) + (y > 0)) * s + np.sum(x > 0) + ((x > 0) + 1.0),
    "nonzero": lambda x, y, a, s: np.floor(2 * x).astype(bool) * y + np.vdot(a, a),
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
    return as_node(function(*map(Tracer, (X, Y, A, S))))
