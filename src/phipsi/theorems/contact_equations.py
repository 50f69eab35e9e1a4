# ruff: noqa: E501  (tables: one row, one line)
"""Contacts that leave an object free to turn: the equations of 88-11 Part II, Appendix B, as checks.

Arms with the points O_i touch an object with the motion α(C). A contact lets it turn about axes h:
H(0) = [h* 0] has no forces, H(0) f(0) = 0, and the accelerations on its two sides differ by
H(0)* Ẇ(0) and the bias of it. H(0) maps to spaces that the library does not have, so that these are
equations between matrices. One arm is the mechanism, with its first point. The other arm, the object,
its bias and the axes are random.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.operators import parse
from phipsi.proofs.proof_state import State
from phipsi.rewrite.identity import Claim
from phipsi.theorems.paper_symbols import checked
from phipsi.theorems.values import lever, stacked

Array = Any  # of exact numbers

_J, _MASS, _BIAS = parse("J"), parse("mass_matrix"), parse("H phi (M phi* (a + gravity) + b)")
_BY_DEFINITION = (parse("B* phi* H*"), parse("H phi M phi* H* + Jr"))
_POINT_BIAS = parse("Bdot* V + B* phi* a")
_OTHER = 6  # joints of the second arm
_CONTACTS = 2  # Ω and the rows of H(0) below it have at most 18 rows, which bounds the degree


class _Grasp:
    """Arms, contacts and object in one state, with the solution that eq. b.9 states."""

    def __init__(self, case: State) -> None:
        draw, rows = case.random, 6 * _CONTACTS
        some = min(len(case.points), 1)
        at = case.dense(_J)[:6] if some else case.zeros(6, case.model.nv)
        moving = case.dense(_POINT_BIAS)[:6] if some else case.zeros(6)
        other, half = draw(_OTHER, _OTHER), draw(6, 6)
        self.J = _block_diagonal([at, draw(6, _OTHER)], case)
        self.mass = _block_diagonal([case.dense(_MASS), other + other.T], case)
        self.c = np.concatenate([case.dense(_BIAS), draw(_OTHER)])
        self.tau = np.concatenate([case.any_efforts, draw(_OTHER)])
        self.A = np.concatenate([lever(draw(3)).T for _ in range(_CONTACTS)])
        self.M_C, self.b_C, self.a_C = half + half.T, draw(6), draw(rows)
        self.H, self.N = self._axes(case)
        self.bias = np.concatenate([moving, draw(6)]) + draw(rows)  # J̇ θ̇ + Ḣ*(0) W(0)
        inverse, inv = np.linalg.inv(self.mass), np.linalg.inv
        self.free = self.J @ inverse
        self.object = self.A @ inv(self.M_C)
        self.omega = self.free @ self.J.T + self.object @ self.A.T
        self.inverse = inv(self.omega)
        self.gain = inv(self.H @ self.inverse @ self.H.T)
        self.Pi = self.inverse - self.inverse @ self.H.T @ self.gain @ self.H @ self.inverse
        self.g1 = self.object @ self.b_C + self.bias - self.a_C - self.free @ self.c
        drive = self.free @ self.tau + self.g1
        self.Wdot = -(self.gain @ self.H @ self.inverse @ drive)
        self.f = self.Pi @ drive
        self.vdot = inverse @ (self.tau - self.c - self.J.T @ self.f)
        self.alpha = inv(self.M_C) @ (self.A.T @ self.f - self.b_C)

    def _axes(self, case: State) -> tuple[Array, Array]:
        """H(0) and the forces that a contact transmits, N: contacts with one, two, three axes."""
        free, kept = [], []
        for i in range(_CONTACTS):
            n = 1 + (i + case.model.n_bodies) % 3
            h, N = case.zeros(6, n), case.zeros(6, 6 - n)
            h[:n] = case.eye(n)
            slopes = case.random(3 - n, n)
            h[n:3], N[:n, : 3 - n] = slopes, -slopes.T
            N[n:] = case.eye(6 - n)
            free.append(h)
            kept.append(N)
        return _block_diagonal(free, case).T, _block_diagonal(kept, case)


def _block_diagonal(blocks: list[Array], case: State) -> Array:
    out = case.zeros(sum(len(x) for x in blocks), sum(x.shape[1] for x in blocks))
    row = column = 0
    for x in blocks:
        out[row : row + len(x), column : column + x.shape[1]] = x
        row, column = row + len(x), column + x.shape[1]
    return out


def _solution(case: State) -> Claim:
    """The solution satisfies the equations of arms, contacts and object."""
    g, nv = _Grasp(case), case.model.nv
    if len(case.points):  # the mechanism once more, by its definition
        g.J[:6, :nv] = case.dense(_BY_DEFINITION[0])[:6]
        g.mass[:nv, :nv] = case.dense(_BY_DEFINITION[1])
    across = g.J @ g.vdot + g.bias + g.H.T @ g.Wdot
    return stacked(
        (g.mass @ g.vdot + g.c + g.J.T @ g.f, g.tau),
        (across, g.A @ g.alpha + g.a_C),
        (g.H @ g.f, 0 * g.Wdot),
        (g.M_C @ g.alpha + g.b_C, g.A.T @ g.f),
    )


def _one_unknown(case: State) -> Claim:
    """Contact forces with Ẇ(0), and without."""
    g = _Grasp(case)
    drive = g.free @ g.tau + g.g1
    return stacked(
        (g.f, g.inverse @ (drive + g.H.T @ g.Wdot)),
        (g.H @ g.inverse @ g.H.T @ g.Wdot, -(g.H @ g.inverse @ drive)),
    )


def _projection(case: State) -> Claim:
    """Π lets pass what contacts transmit."""
    g = _Grasp(case)
    kept = g.N @ np.linalg.inv(g.N.T @ g.omega @ g.N) @ g.N.T
    return stacked((g.Pi, kept), (g.H @ g.Pi, 0 * (g.H @ g.Pi)), (g.Pi @ g.omega @ g.Pi, g.Pi))


def coupled(case: State, sign: int = -1) -> Claim:
    """The equations of (Ẇ(0), θ̈) together; the print has `sign` + before H Ω⁻¹ J ℳ⁻¹ C."""
    g = _Grasp(case)
    low, across = g.H @ g.inverse, g.object @ g.A.T @ g.Pi
    g2 = low @ (across @ g.g1 - g.g1 + sign * (g.free @ g.c))
    g3 = -(g.J.T @ g.inverse @ g.g1) - g.c
    passed = g.tau - g.J.T @ g.inverse @ g.free @ g.tau
    return stacked(
        (low @ (g.H.T @ g.Wdot + g.J @ g.vdot), low @ across @ g.free @ g.tau + g2),
        (g.J.T @ g.inverse @ g.H.T @ g.Wdot + g.mass @ g.vdot, passed + g3),
    )


CONTACTS = [
    checked(
        "contacts: solution",
        "theta'' = M^-1 (T - C - J* f), f = Pi (J M^-1 T + Gamma1), W' = -(H Omega^-1 H*)^-1 H Omega^-1 (J M^-1 T + Gamma1)",
        "88-11 Part II eq. b.1-b.5, b.9",
        _solution,
    ),
    checked(
        "contacts: forces",
        "f = Omega^-1 (J M^-1 T + Gamma1 + H* W'), H Omega^-1 H* W' = -H Omega^-1 (J M^-1 T + Gamma1)",
        "88-11 Part II eq. b.6-b.8",
        _one_unknown,
    ),
    checked(
        "contacts: Pi",
        "Omega^-1 - Omega^-1 H* (H Omega^-1 H*)^-1 H Omega^-1 = N (N* Omega N)^-1 N*, H N = 0; H Pi = 0, Pi Omega Pi = Pi",
        "88-11 Part II eq. b.9",
        _projection,
    ),
    checked(
        "contacts: both together",
        "[H Omega^-1 H*, H Omega^-1 J; J* Omega^-1 H*, M] [W'; theta''] = [H Omega^-1 A M(C)^-1 A* Pi J M^-1; I - J* Omega^-1 J M^-1] T + [Gamma2; Gamma3]",
        "88-11 Part II eq. b.10-b.14 corrected",
        coupled,
    ),
]
