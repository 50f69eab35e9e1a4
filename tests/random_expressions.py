"""Random well-typed operator expressions, for comparing what is compiled with what is dense."""

from __future__ import annotations

import numpy as np
from phipsi import operators as ops
from phipsi.expressions.node import Expr, identity
from phipsi.expressions.spaces import EFFORTS, FORCES, MOTIONS, RATES, Space

LEAVES = [
    ops.H, ops.phi, ops.phi_tilde, ops.E_phi, ops.M, ops.Jr, ops.R, ops.P, ops.D, ops.G, ops.K,
    ops.proj, ops.proj_bar, ops.psi, ops.psi_tilde, ops.E_psi, ops.shift, ops.Omega, ops.Upsilon,
    ops.mass_matrix, ops.Riccati(Jr=0).psi, ops.Riccati(Jr=0).P,
]  # fmt: skip
MEMORYLESS = [ops.H, ops.M, ops.Jr, ops.R, ops.P, ops.D, ops.G, ops.proj, ops.proj_bar, ops.Upsilon]
ONE_WAY = [ops.phi, ops.psi, ops.phi_tilde, ops.psi_tilde, ops.E_phi, ops.E_psi]
VECTORS = [ops.v, ops.vdot, ops.tau, ops.a, ops.b, ops.gravity, ops.V, ops.f_ext]
BODY_SPACES = (RATES, EFFORTS, MOTIONS, FORCES)
Rng = np.random.Generator


def _pick(rng: Rng, items: list):
    return items[rng.integers(len(items))]


def _both(leaves: list[Expr]) -> list[Expr]:
    return list(dict.fromkeys([*leaves, *(x.T for x in leaves)]))


ALL = _both(LEAVES)


def factor(rng: Rng, gives: Space, depth: int) -> Expr:
    """A factor that gives `gives`: mostly a leaf, sometimes something built."""
    choices = [x for x in ALL if x.gives is gives]
    kind = rng.random()
    if depth > 0 and kind < 0.12:
        return inverse(rng, gives)
    if depth > 0 and kind < 0.2:
        return diagonal(rng, gives)
    if depth > 0 and kind < 0.3:
        x = _pick(rng, choices)
        if x.takes is gives:
            return x + number(rng) * identity(gives)
        others = [y for y in choices if y.takes is x.takes and y is not x]
        return x + number(rng) * _pick(rng, others) if others else x
    return _pick(rng, choices)


def number(rng: Rng) -> float:
    """A scalar multiple, sometimes a whole number."""
    return float(_pick(rng, [1, -1, 2, -0.5, 0.75, 3]))


def chain(rng: Rng, gives: Space, length: int, depth: int = 1) -> Expr:
    """A product of `length` factors that gives `gives`."""
    out = factor(rng, gives, depth)
    for _ in range(length - 1):
        assert out.takes is not None
        out = out @ factor(rng, out.takes, depth)
    return out


def memoryless(rng: Rng, takes: Space, gives: Space) -> Expr:
    """A memoryless product between two spaces."""
    blocks = _both(MEMORYLESS)
    for _ in range(200):
        out = _pick(rng, [x for x in blocks if x.gives is gives])
        for _ in range(4):
            if out.takes is takes and rng.random() < 0.6:
                return out
            assert out.takes is not None
            out = out @ _pick(rng, [x for x in blocks if x.gives is out.takes])
        if out.takes is takes:
            return out
    raise AssertionError(f"no memoryless operator {takes} → {gives}")


def spd_core(rng: Rng) -> Expr:
    """A positive memoryless operator body motions → body forces."""
    return _pick(rng, [ops.M, ops.R, ops.P, ops.M + ops.P, 2 * ops.M, 0.5 * ops.R + ops.M])


def inverse(rng: Rng, gives: Space) -> Expr:
    """An inverse of one of the classes that have an O(N) form, giving `gives`."""
    riccati = (
        _pick(rng, [ops.Jr, ops.D, 0.3 * ops.D + ops.Jr, 2 * ops.Jr, None])
    )
    transition = _pick(rng, [ops.phi, ops.psi, ops.Riccati(Jr=0).psi])
    hinge = ops.H @ transition @ spd_core(rng) @ transition.T @ ops.H.T
    mass = hinge if riccati is None else hinge + riccati
    strict_joint = ops.H @ _pick(rng, [ops.phi, ops.psi]) @ ops.K
    strict_body = _pick(rng, [ops.phi_tilde, ops.psi_tilde, ops.E_phi, ops.E_psi])
    c = _pick(rng, [0.5, -0.5, 1, 2])
    by_space = {
        RATES: [
            ops.D.inv,
            mass.inv,
            (ops.D + ops.Jr).inv,
            (identity(RATES) + c * strict_joint.T).inv,
            (ops.D @ (identity(RATES) + c * strict_joint.T)).inv,
        ],
        EFFORTS: [
            (identity(EFFORTS) + c * strict_joint).inv,
            (identity(EFFORTS) + c * ops.H @ ops.psi @ ops.G).inv
            if c > 0
            else (2 * identity(EFFORTS) - strict_joint).inv,
            (mass @ ops.D.inv).inv,
        ],
        FORCES: [
            ops.phi.inv,
            ops.psi.inv,
            (identity(FORCES) + c * strict_body).inv,
            (ops.phi @ (identity(FORCES) - strict_body)).inv,
        ],
        MOTIONS: [
            ops.M.inv,
            ops.R.inv,
            (ops.phi @ ops.M @ ops.phi.T).inv,
            (identity(MOTIONS) + c * strict_body.T).inv,
            ops.psi.T.inv,
        ],
    }
    return _pick(rng, by_space[gives])


def diagonal(rng: Rng, gives: Space) -> Expr:
    """bd(L X R) with at most one transition operator on each side."""
    core = memoryless(rng, MOTIONS, FORCES)
    inward = rng.random() < 0.5
    if not inward:
        core = memoryless(rng, FORCES, MOTIONS)
    left, right = _pick(rng, ONE_WAY), _pick(rng, ONE_WAY)
    if inward:
        middle = left @ core @ right.T
    else:
        middle = left.T @ core @ right
    if rng.random() < 0.2:
        middle = left @ core if inward else left.T @ core
    if rng.random() < 0.3:
        middle = middle + number(rng) * core
    assert middle.gives is not None
    out = ops.bd(middle)
    return out if out.gives is gives else memoryless(rng, out.gives, gives) @ out


def expression(rng: Rng, most: int = 10) -> Expr:
    """A sum of one or two products, an operator or a vector."""
    gives = _pick(rng, list(BODY_SPACES))
    length = int(rng.integers(1, most + 1))
    x = chain(rng, gives, length)
    kind = rng.random()
    if kind < 0.35:
        vectors = [u for u in VECTORS if u.gives is x.takes]
        x = x @ _pick(rng, vectors)
        if rng.random() < 0.5:
            y = chain(rng, gives, int(rng.integers(1, 5)))
            x = x + number(rng) * (y @ _pick(rng, [u for u in VECTORS if u.gives is y.takes]))
        if rng.random() < 0.2:
            duals = [u.T for u in VECTORS if u.T.takes is gives]
            x = _pick(rng, duals) @ x
    elif kind < 0.6:
        for _ in range(20):
            y = chain(rng, gives, int(rng.integers(1, 6)))
            if y.takes is x.takes:
                x = x + number(rng) * y
                break
    return x if rng.random() < 0.8 else number(rng) * x
