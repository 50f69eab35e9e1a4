"""Parts of the checks: blocks of operators, steps between bodies, derivatives in a state.

A check builds its arrays by `case.zeros`, `case.eye` and `case.random`, by `np.stack` or
`zeros_like`, and never by `np.array`: the numbers are exact, and their arrays are of a class of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from phipsi.core.expressions import Expr
from phipsi.core.operators import parse, pose
from phipsi.core.rewrite import Claim
from phipsi.core.spatial import phi as rigid
from phipsi.papers.proofs.proof_state import ProofState

Array = Any  # of exact numbers


def gathered(case: ProofState, blocks: Sequence[Any], *shape: int) -> Array:
    """Blocks of one shape as one array; there may be no blocks."""
    return np.stack(blocks) if len(blocks) else case.zeros(0, *shape)


def stacked(*claims: tuple[Any, Any]) -> Claim:
    """Several equations as one claim."""
    if not claims:
        return Claim(np.zeros(0), np.zeros(0))
    left = [np.reshape(x + 0 * y, -1) for x, y in claims]
    right = [np.reshape(y + 0 * x, -1) for x, y in claims]
    return Claim(np.concatenate(left), np.concatenate(right))


def vanishing(x: Array) -> Claim:
    """x = 0."""
    return Claim(x, 0 * x)


# ---- blocks ------------------------------------------------------------------------------------


def blocks(matrix: Array, n: int) -> Array:
    """A 6n × 6n matrix as (n, n, 6, 6)."""
    return matrix.reshape(n, 6, n, 6).transpose(0, 2, 1, 3)


def from_blocks(values: Array) -> Array:
    """Inverse of `blocks`."""
    n = len(values)
    return values.transpose(0, 2, 1, 3).reshape(6 * n, 6 * n)


def diagonal(matrix: Array, n: int) -> Array:
    """The diagonal blocks of a 6n × 6n matrix, (n, 6, 6)."""
    return np.einsum("kkij->kij", blocks(matrix, n))


def from_diagonal(values: Array) -> Array:
    """The block-diagonal matrix of blocks (n, 6, 6)."""
    n = len(values)
    out = np.zeros_like(values, shape=(n, n, 6, 6))
    out[np.arange(n), np.arange(n)] = values
    return from_blocks(out)


def inertial(case: ProofState, expr: Expr, **options: Any) -> Array:
    """The value of an expression in world axes."""
    return case.dense(expr, axes="inertial", **options)


def world(case: ProofState, expr: Expr) -> Array:
    """A vector on bodies in world axes, (n, 6)."""
    return inertial(case, expr).reshape(-1, 6)


def turns(case: ProofState) -> Array:
    """U(k) = diag(R_k, R_k), body to world axes, (n, 6, 6)."""
    return gathered(case, [rigid(x[:3, :3], np.zeros(3)) for x in case.dense(pose)], 6, 6)


# ---- steps from body to body -------------------------------------------------------------------


def lever(offset: Array) -> Array:
    """φ(x, y) for the vector l(x, y), in one set of axes."""
    return rigid(np.eye(3), offset)


def positions(case: ProofState) -> Array:
    """Where the bodies are, (n, 3)."""
    return case.dense(pose)[:, :3, 3]


def joined(case: ProofState) -> list[tuple[int, int]]:
    """Bodies and their parents, where there is one."""
    return [(k, p) for k, p in enumerate(case.model.parent) if p >= 0]


def steps(case: ProofState, expr: Expr) -> Array:
    """The blocks (parent(k), k) of an operator in world axes, (n, 6, 6); zero at the roots."""
    n = case.model.n_bodies
    out, full = case.zeros(n, 6, 6), blocks(inertial(case, expr), n)
    for k, p in joined(case):
        out[k] = full[p, k]
    return out


def levers(case: ProofState) -> Array:
    """φ(parent(k), k) in world axes, from the positions of the bodies alone."""
    at, out = positions(case), case.zeros(case.model.n_bodies, 6, 6)
    for k, p in joined(case):
        out[k] = lever(at[k] - at[p])
    return out


def to_parents(case: ProofState, values: Array) -> Array:
    """The matrix with `values[k]` at (parent(k), k)."""
    n = case.model.n_bodies
    out = case.zeros(n, n, 6, 6)
    for k, p in joined(case):
        out[p, k] = values[k]
    return from_blocks(out)


def propagation(case: ProofState, values: Array) -> Array:
    """(I − E)⁻¹ for the steps `values`: their products along the paths, blocks (n, n, 6, 6)."""
    n = case.model.n_bodies
    return blocks(np.linalg.inv(case.eye(6 * n) - to_parents(case, values)), n)


# ---- derivatives -------------------------------------------------------------------------------


def rate(case: ProofState, expr: Expr, vdot: Array | None = None, **options: Any) -> Array:
    """d/dt of an expression along q̇ = N(q) v, v̇ = vdot (zero if not given)."""
    way = case.model.qdot(case.q, case.v), 0 * case.v if vdot is None else vdot
    value = partial(_in_state, case, expr, options)
    return case.derivative(value, (case.q, case.v), way)


def _in_state(case: ProofState, expr: Expr, options: dict[str, Any], q: Array, v: Array) -> Array:
    return case.dense(expr, q=q, v=v, **options)


def along(case: ProofState, value: Callable[[Array], Array], rates: Array) -> Array:
    """The derivative of a function of q along N(q) rates."""
    return case.derivative(value, (case.q,), (case.model.qdot(case.q, rates),))


def gradient(case: ProofState, value: Callable[[Array], Array], q: Array | None = None) -> Array:
    """∂/∂(rate i) of a function of q, along N(q) e_i; last axis i."""
    at = case.q if q is None else q
    ways = [case.model.qdot(at, unit) for unit in case.eye(case.model.nv)]
    columns = [case.derivative(value, (at,), (way,)) for way in ways]
    if not columns:
        return case.zeros(*case.derivative(value, (at,), (0 * at,)).shape, 0)
    return np.stack(columns, axis=-1)


def centres(case: ProofState, q: Array) -> Array:
    """World positions of the mass centres, (n, 3)."""
    poses = case.dense(pose, q=q)
    offsets = gathered(case, [i.com_B for i in case.model.inertias], 3)
    return poses[:, :3, 3] + np.einsum("kij,kj->ki", poses[:, :3, :3], offsets)


def masses(case: ProofState) -> Array:
    """The masses of the bodies, (n,)."""
    return gathered(case, [inertia.mass for inertia in case.model.inertias])


BIAS, GRAVITY_EFFORTS = parse("H phi (M phi* a + b)"), parse("H phi M phi* gravity")
