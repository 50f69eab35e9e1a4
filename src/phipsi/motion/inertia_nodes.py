"""Inertias of bodies in graphs: M from inertial parameters, and weights of one from the other."""

from __future__ import annotations

import numpy as np

from phipsi.laws import law_operations as ops
from phipsi.laws.graph import Node

# M = [J, m ĉ; −m ĉ, m 1] in the order of `inertial_parameters`: which of the ten stands at every
# entry, 10 for none, and its sign
_NONE = 10
_WHICH = np.array([
    [4, 7, 8, _NONE, 3, 2], [7, 5, 9, 3, _NONE, 1], [8, 9, 6, 2, 1, _NONE],
    [_NONE, 3, 2, 0, _NONE, _NONE], [3, _NONE, 1, _NONE, 0, _NONE], [2, 1, _NONE, _NONE, _NONE, 0],
])  # fmt: skip
_SIGN = np.ones((6, 6))
_SIGN[0, 4] = _SIGN[1, 5] = _SIGN[2, 3] = _SIGN[3, 2] = _SIGN[4, 0] = _SIGN[5, 1] = -1.0
_SIGN[_WHICH == _NONE] = 0.0
_TIMES = np.bincount(_WHICH.ravel(), minlength=11)[:10]  # how often each of the ten occurs


def inertias(parameters: Node, n: int) -> Node:
    """M (n, 6, 6) of the inertial parameters (n, 10)."""
    places = 10 * np.arange(n)[:, None, None] + np.where(_WHICH == _NONE, 0, _WHICH)
    signs = np.broadcast_to(_SIGN, (n, 6, 6))
    return ops.apply("mul", ops.pick(parameters, places), ops.constant(signs))


def weights_of_inertias(weights: Node, n: int) -> Node:
    """Weights (n, 6, 6) of M whose sums are those (n, 10) of the inertial parameters."""
    shares = np.append(1.0 / _TIMES, 0.0)[_WHICH] * _SIGN
    places = 10 * np.arange(n)[:, None, None] + np.where(_WHICH == _NONE, 0, _WHICH)
    flat = ops.pick(weights, np.arange(10 * n).reshape(n, 10))
    return ops.apply(
        "mul", ops.pick(flat, places), ops.constant(np.broadcast_to(shares, (n, 6, 6)))
    )
