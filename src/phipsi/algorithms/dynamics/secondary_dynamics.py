"""Forward dynamics solved for a small secondary system, the primary one reflected into it.

With primary P and secondary S in separate trees, rows 1 that involve P, rows 2 inside S, and
L = (A_P Λ A_P*)⁻¹ on rows 1 (theory/closed-chains 4),

    [ ℳ_S + G₁* L G₁   G₂* ] [v̇_S]   [ T_S − G₁* L r₁ ]
    [ G₂                0  ] [ f₂ ] = [ U₂            ],    r₁ = A_P J v̇_free − U₁,   G = A_S J

    f₁ = L (r₁ + G₁ v̇_S),    v̇_P = v̇_free − ℳ⁻¹ J* A_P* f₁

S moves with its own inertia and that of the primary system, as felt through the rows. L falls into
blocks, one per tree of P that rows connect: one per arm.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.constraint_rows import rows_of
from phipsi.algorithms.constrained.row_rank import DEPENDENT
from phipsi.algorithms.dynamics.dynamics_expressions import (
    ROW_DRIFT,
    body_forces,
    free_load,
)
from phipsi.core.backends import (
    natural_square,
)
from phipsi.core.compiler import compile
from phipsi.core.expressions import Expr
from phipsi.core.model import Model, entries_of
from phipsi.core.operators import A, J, Lambda, Udot, mass_matrix
from phipsi.errors import InputError, SingularMatrixError

Array = NDArray[Any]

SINGULAR = DEPENDENT**2
"""Eigenvalues of A_P Λ A_P*, in natural size, below which the form is rejected."""


_REFLECTED = A["P"] @ Lambda @ A["P"].T


_BACK = mass_matrix.inv @ J.T @ A["P"].T


@cache
def _secondary_terms(external: bool, prescribed: bool) -> tuple[Expr, Expr, Expr]:
    """v̇ of the free trees, T, and r = A_P J v̇_free − U."""
    load = free_load(body_forces(external))
    free = mass_matrix.inv @ load
    gap = A["P"] @ J @ free + ROW_DRIFT
    return free, load, gap - Udot if prescribed else gap


def secondary_dynamics(
    system: Model, prescribed: bool, external: bool, q: Array, v: Array, tau: Array, *loads: Array
) -> tuple[Array, Array]:
    """Accelerations (..., nv) and multipliers (..., rows), solving for the secondary system.

    `loads`, U̇ if it is prescribed, then external forces, if there are any. It raises
    `SingularMatrixError` where A_P Λ A_P* is singular: the primary system then cannot give way
    along some rows, whose multipliers only the whole system determines.
    **Cost:** O(N) sweeps, O(rows) small blocks for separate arms, O(nv_S³).
    **Source:** SOA, below eq. 0.35; theory/closed-chains 4.
    """
    mine = split(system)
    program = compile(_secondary_terms(external, prescribed), system)
    free, load, gap = program(q, v, tau, *reversed(loads))  # type: ignore[misc]
    batch = free.shape[:-1]
    q = np.broadcast_to(np.asarray(q, dtype=np.float64), (*batch, system.model.nq))
    rates, one, two = mine.rates, mine.outer, mine.inner
    G = compile(A["S"] @ J, system, mode="dense")(q)[..., rates]
    solve = _BlockwiseInverse(system, mine, q)
    n = len(rates)
    columns = np.zeros((system.model.nv, n))
    columns[rates, np.arange(n)] = 1.0
    own = compile(mass_matrix, system.model, columns=True)(q, columns)[..., rates, :]
    G1 = G[..., one, :]
    reflected = solve(gap[..., one, None])
    back = np.swapaxes(G1, -1, -2)
    right = load[..., rates] - (back @ reflected)[..., 0], -gap[..., two]
    moved, held = _blockwise(system, mine, q, own + back @ solve(G1), right)
    f = np.zeros((*batch, system.closures.n_rows))
    f[..., one] = (reflected + solve(G1 @ moved[..., None]))[..., 0]
    f[..., two] = held
    vdot = free - compile(_BACK, system)(q, f)
    vdot[..., rates] = moved
    return vdot, f


class _SystemSplit:
    """Rates of S, rows that involve P and rows inside S, and the blocks of the former."""

    def __init__(self, system: Model, P: frozenset[int], S: frozenset[int]) -> None:
        model, closures = system.model, system.closures
        self.rates = entries_of(s for i, s in enumerate(model.v_slices) if i in S)
        root = _roots(model)
        trees: list[set[int]] = [set() for _ in range(closures.n_rows)]
        for point, row in zip(closures.link_point, closures.link_row, strict=True):
            body = closures.points.body[int(point)]
            if body in P:
                trees[int(row)].add(root[body])
        self.outer = np.array([i for i, x in enumerate(trees) if x], dtype=int)
        self.inner = np.array([i for i, x in enumerate(trees) if not x], dtype=int)
        # rows that share a tree of P are in one block; `blocks` are places among `outer`
        label = list(range(len(self.outer)))
        seen: dict[int, int] = {}
        for k, row in enumerate(self.outer):
            for tree in trees[int(row)]:
                first = seen.setdefault(tree, k)
                old, new = label[k], label[first]
                label = [new if x == old else x for x in label]
        groups = sorted(set(label), key=label.index)
        self.blocks = [np.flatnonzero(np.array(label) == g) for g in groups]


class _BlockwiseInverse:
    """L = (A_P Λ A_P*)⁻¹ on the rows that involve P, block by block."""

    def __init__(self, system: Model, mine: _SystemSplit, q: Array) -> None:
        matrix = compile(_REFLECTED, system, mode="dense")(q)
        size = np.sqrt(_natural_squares(system, q))
        self._parts: list[tuple[Array, Array]] = []
        for block in mine.blocks:
            rows = mine.outer[block]
            part, own = matrix[..., rows[:, None], rows], size[..., rows]
            low = np.linalg.eigvalsh(part / (own[..., :, None] * own[..., None, :]))[..., 0]
            if (low < SINGULAR).any():
                names = ", ".join(repr(system.closures.row_names[int(i)]) for i in rows[:8])
                raise SingularMatrixError(
                    "algorithm='secondary' needs A_P Λ A_P* to be invertible, but the primary "
                    f"system cannot give way along all of the rows {names} (smallest eigenvalue "
                    f"{float(low.min()):.2g} of their scale). An arm is in a singular position or "
                    "has fewer degrees of freedom than the contact has rows. Use algorithm=None, "
                    "which solves for the rows of the whole system."
                )
            self._parts.append((block, part))

    def __call__(self, right: Array) -> Array:
        """L x for columns (..., rows 1, k)."""
        out = np.zeros_like(right)
        for block, part in self._parts:
            out[..., block, :] = np.linalg.solve(part, right[..., block, :])
        return out


def split(system: Model) -> _SystemSplit:
    """The split of a system into primary and secondary; rejects one whose trees mix them."""
    chosen = system.closures.selections
    if "P" not in chosen or not chosen["S"]:
        raise InputError(
            "algorithm='secondary' solves for the secondary system. Pass its bodies:\n"
            "    pp.System(model, constraints, secondary=['box'])      or pp.grasping.Grasp(…)"
        )
    model, P, S = system.model, chosen["P"], chosen["S"]
    for i, parent in enumerate(model.parent):
        if parent >= 0 and (i in S) != (parent in S):
            raise InputError(
                f"algorithm='secondary': joint {model.joint_names[i]!r} joins body "
                f"{model.body_names[i]!r} of the {'secondary' if i in S else 'primary'} system to "
                f"{model.body_names[parent]!r} of the other, so their inertias are not separate. "
                f"Primary and secondary must be separate trees, joined by constraints."
            )
    return system.cached(_SystemSplit, lambda: _SystemSplit(system, P, S))


def _roots(model: Model) -> list[int]:
    out: list[int] = []
    for i, parent in enumerate(model.parent):
        out.append(i if parent < 0 else out[parent])
    return out


def _natural_squares(system: Model, q: Array) -> Array:
    """How large the diagonal of A_P Λ A_P* (..., rows) would be if nothing in it cancelled."""
    points = range(len(system.closures.points))
    own = compile(Lambda, system, mode="blocks", blocks=[(p, p) for p in points])(q)
    rows = compile(A["P"], system, mode="dense")(q)
    z = rows.reshape(*rows.shape[:-1], len(points), 6)
    squares = natural_square(z, np.stack(list(own), axis=-3)[..., None, :, :, :]).sum(axis=-1)
    return np.where(squares > 0, squares, 1.0)


def _blockwise(
    system: Model,
    mine: _SystemSplit,
    q: Array,
    inertia: Array,
    right: tuple[Array, Array],
) -> tuple[Array, Array]:
    """x and f of inertia x + G* f = load, G x = wanted, with the least f and the rows inside S."""
    load, wanted = right
    if not len(mine.inner):
        return np.linalg.solve(inertia, load[..., None])[..., 0], wanted
    rows, inner = rows_of(system), mine.inner
    used = np.isin(np.arange(rows.n_rows), inner)
    at = ConstraintMetric(rows, q, rows_used=used, rates_used=mine.rates, inertia=inertia)
    asked = np.zeros((len(q), rows.n_rows))
    asked[:, inner] = wanted
    x, f, _ = at.accelerations(at.unconstrained(load), asked)
    return x, f[:, inner]
