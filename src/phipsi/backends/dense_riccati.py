"""The articulated-body recursion, body by body; a hinge with nothing to move is an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.failures import singular_hinge_text
from phipsi.errors import InputError, SingularHingeError
from phipsi.model import Model

Array = NDArray[Any]

# A hinge counts as singular when D is this small compared with the inertia H R H* + Jr that it
# moves with all hinges outboard of it locked; rounding alone leaves a few times 1e-16 of that.
SINGULAR_BELOW = 1e-13


@dataclass(frozen=True)
class Articulated:
    """P, D and G of one family, as full matrices."""

    P: Array
    D: Array
    G: Array


def articulated(model: Model, H: Array, E: Array, M: Array, Jr: Array) -> Articulated:
    """Solve ``P = M + E (P − P H* D⁻¹ H P) E*``, ``D = H P H* + Jr`` from the tips to the base.

    P(k) = M(k) + Σ over children c of E(k, c) [P(c) − P(c) H*(c) D⁻¹(c) H(c) P(c)] E*(k, c).
    """
    _check_step(model, E)
    n = model.n_bodies
    P, D, G = np.zeros_like(M), np.zeros_like(Jr), np.zeros_like(H.T)
    R = np.zeros_like(M)  # composite inertia, only to judge whether D is singular
    for k in range(n):
        body = _body(k)
        P[body, body] = R[body, body] = M[body, body]
    for k in reversed(range(n)):
        body, s, p = _body(k), model.v_slices[k], model.parent[k]
        h, inertia = H[s, body], P[body, body]
        d = h @ inertia @ h.T + Jr[s, s]
        check_hinge(model, k, d, h @ R[body, body] @ h.T + Jr[s, s])
        gain = np.linalg.solve(d, h @ inertia).T
        D[s, s], G[body, s] = d, gain
        if p >= 0:
            out = _body(p)
            step = E[out, body]
            passed = inertia - gain @ h @ inertia
            P[out, out] += step @ (0.5 * (passed + passed.T)) @ step.T
            R[out, out] += step @ R[body, body] @ step.T
    return Articulated(P, D, G)


def gain(model: Model, H: Array, P: Array, D: Array) -> Array:
    """G = P H* D⁻¹, hinge by hinge, for P and D from elsewhere."""
    G = np.zeros_like(H.T)
    for k, s in enumerate(model.v_slices):
        body = _body(k)
        check_hinge(model, k, D[s, s], D[s, s])
        G[body, s] = np.linalg.solve(D[s, s], H[s, body] @ P[body, body]).T
    return G


def cholesky(model: Model, D: Array) -> Array:
    """The lower triangular D½ with D = D½ D½*, without conjugation."""
    out = np.zeros_like(D)
    for s in model.v_slices:
        d, low = D[s, s], out[s, s]
        for j in range(len(d)):
            low[j, j] = np.sqrt(d[j, j] - low[j, :j] @ low[j, :j])
            for i in range(j + 1, len(d)):
                low[i, j] = (d[i, j] - low[i, :j] @ low[j, :j]) / low[j, j]
    return out


def check_hinge(model: Model, k: int, d: Array, reference: Array) -> None:
    """Raise `SingularHingeError` if the hinge inertia d of joint k cannot be inverted.

    Exact numbers need no such judgement: there a singular D has no inverse, and nothing else.
    """
    if hasattr(d, "is_exact"):
        return
    d, reference = np.real(d), np.real(reference)
    if not len(d):
        return
    size = np.sqrt(np.maximum(np.diag(reference), 0))
    if (size > 0).all():
        scaled = d / np.outer(size, size)
        if np.linalg.eigvalsh(scaled + scaled.T)[0] / 2 > SINGULAR_BELOW:
            return
    raise SingularHingeError(singular_hinge_text(model, k, d))


def _body(k: int) -> slice:
    return slice(6 * k, 6 * k + 6)


def _check_step(model: Model, E: Array) -> None:
    """E may have blocks (parent(k), k) only: then E X E* is memoryless and P exists."""
    rest = np.array(E)
    for k, p in enumerate(model.parent):
        if p >= 0:
            rest[_body(p), _body(k)] = 0
    if rest.any():
        raise InputError(
            "the operator E of a Riccati family must carry every body to its parent and nowhere "
            "else, as E_φ and E_ψ do; this one has other blocks"
        )
