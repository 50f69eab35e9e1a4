"""Steps A–F at one state, where only what a change touches is executed again.

Every body and every tree of the forest keeps what it computed, with what that depends on:

    articulated   P, D, G (and with them K, ψ)   per body: it, its q, and all that hangs on it
    free          steps A and B: v̇_free, α̃        per tree: the tree, its q, v, tau
    rates         ℳ⁻¹ p of a momentum p          per tree: the same with p
    upsilon       Υ                              per tree: the tree and its q
    carry         ψ B of one closure frame       the same, and the frame
    admittance    Λ between two closure frames   the same
    solve         step D                         everything: executed at every call
    correct       step E, per tree with rows     everything: executed at every call

The quantities are handed on as values to programs compiled with `given=`, so what a change costs is
what the table of theory/closed-chains 11 says and no more: a constraint that is switched on, a new
closure frame, another secondary system; and of the articulated quantities only the path to the
base if a body's inertia or coordinates change, only what is inboard of a joint that is locked or
let go. `counts` says how often each step was executed.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.kept_bodies import KeptBodies
from phipsi.algorithms.forms import FORWARD_DYNAMICS, ROW_DRIFT, WHITEN
from phipsi.backends.arguments import state_arrays
from phipsi.backends.array_algebra import natural_square, solve_semidefinite
from phipsi.backends.failures import (
    CONTRADICTION,
    ROW_GAP,
    ROW_GAP_LEAST,
    Failure,
    error_of,
)
from phipsi.compiler import compile, program_of
from phipsi.errors import InputError
from phipsi.expressions.node import Expr
from phipsi.model.model import Model
from phipsi.model.points import PointSet
from phipsi.operators import (
    A,
    B,
    D,
    H,
    J,
    Upsilon,
    mass_matrix,
    phi,
    psi,
)

Array = NDArray[Any]

GIVEN = ("P", "D", "G")
_CORRECT = WHITEN.T @ D.inv @ H @ psi @ B


@cache
def _free_terms() -> tuple[Expr, Expr]:
    return FORWARD_DYNAMICS, phi.T @ H.T @ FORWARD_DYNAMICS


@final
class Stages:
    """Accelerations and impulses of systems that change, with what stayed the same reused.

    **Attributes:** `counts`, a Counter of how often each step was executed: ("articulated", body)
    of every body, (step, first body of the tree) of the others, and ("solve", "") of step D.

    >>> import numpy as np, phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> def pinned(kind):
    ...     return pp.System(arm, [kind(name="pin", a="tip", b=("world", (1.5, 0, 0)))])
    >>> stages, rest = pp.Stages(), np.zeros(3)
    >>> q = pinned(pp.constraints.Spherical).assemble([1.0, -1.0, -1.5])
    >>> before = stages.dynamics(pinned(pp.constraints.Spherical), q, rest, rest)
    >>> after = stages.dynamics(pinned(pp.constraints.PointOnLine), q, rest, rest)
    >>> stages.counts["articulated", "link1"], stages.counts["solve", ""]
    (1, 2)
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._bodies = KeptBodies()
        self._kept: dict[str, tuple[Model, dict[Any, Any]]] = {}

    def dynamics(
        self, system: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike
    ) -> tuple[Array, Array]:
        """vdot (nv,) and multipliers f (rows,) at one state; steps A–F."""
        q, v, tau = _one_state(system.model, q=q, v=v, tau=tau)
        drift = program_of(ROW_DRIFT, system)(q, v) if system.closures.n_rows else np.zeros(0)
        trees = self._split(system.model)
        vdot = np.zeros(system.model.nv)
        motions = np.zeros((len(system.closures.points), 6))
        for tree in trees:
            state = (q[tree.at_q], v[tree.at_v], tau[tree.at_v])
            free, along = self._once(tree, "free", state, lambda t=tree, s=state: t.free(self, *s))
            vdot[tree.at_v] = free
            where = tree.points(system)
            if len(where):
                motions[where] = tree.pick_off(system, state[0], along)
        f = self._solve(system, trees, q, self._rows(system, q, motions) + drift)
        return vdot - self._correction(system, trees, q, f), f

    def impulse(
        self, system: Model, q: ArrayLike, v: ArrayLike, rates: ArrayLike = 0.0
    ) -> tuple[Array, Array]:
        """v⁺ (nv,) and impulses p (rows,) when all rows act at once; see `constraint_impulse`."""
        q, v = _one_state(system.model, q=q, v=v)
        trees = self._split(system.model)
        if not system.closures.n_rows:
            return v.copy(), np.zeros(0)
        p = self._solve(system, trees, q, program_of(A @ J, system)(q, v) - rates)
        return v - self._correction(system, trees, q, p), p

    def rates(self, model: Model, q: ArrayLike, momentum: ArrayLike) -> Array:
        """The rates v = ℳ⁻¹ p (nv,) at which the tree has a momentum p (nv,)."""
        q, momentum = _one_state(model, q=q, momentum=momentum)
        v = np.zeros(model.nv)
        for tree in self._split(model):
            state = (q[tree.at_q], momentum[tree.at_v])
            v[tree.at_v] = self._once(
                tree, "rates", state, lambda t=tree, s=state: t.rates(self, *s)
            )
        return v

    # ---- steps --------------------------------------------------------------------------------

    def _rows(self, system: Model, q: Array, motions: Array) -> Array:
        if not system.closures.n_rows:
            return np.zeros(0)
        return program_of(A, system)(q, motions)

    def _solve(self, system: Model, trees: list[_Tree], q: Array, right: Array) -> Array:
        """Step D: A Λ A* f = right."""
        self.counts["solve", ""] += 1
        if not system.closures.n_rows:
            return np.zeros(0)
        admittance = self._admittance(system, trees, q)
        rows = program_of(A, system, "dense")(q)
        matrix = rows @ admittance @ rows.T
        sizes = _natural_squares(rows, admittance)
        f, gap = solve_semidefinite((matrix + matrix.T) / 2, right[:, None], sizes)
        self._check_rows(system, gap[:, 0], right)
        return f[:, 0]

    @staticmethod
    def _check_rows(system: Model, gap: Array, right: Array) -> None:
        """Refuse rows that ask for something else than those they depend on, as programs do."""
        limit = ROW_GAP * float(np.abs(right).max(initial=0.0)) + ROW_GAP_LEAST
        for i in np.flatnonzero(np.abs(gap) > limit):
            name = system.closures.row_names[i]
            value = np.full((1, 1), abs(gap[i]))
            failure = Failure(CONTRADICTION, int(i), name, np.ones((), dtype=bool), value)
            raise error_of(failure, system.model, system.closures)

    def _admittance(self, system: Model, trees: list[_Tree], q: Array) -> Array:
        """Λ (6 points, 6 points): Λ(i, j) = X_i* Υ(c) X_j, c where the paths of i and j meet."""
        size = len(system.closures.points)
        out = np.zeros((size, 6, size, 6))
        for tree in trees:
            where = tree.points(system)
            if not len(where):
                continue
            at = q[tree.at_q]
            up = self._once(tree, "upsilon", at, lambda t=tree, s=at: t.upsilon(self, s))
            frames = [tree.frame(system, p) for p in where]
            carried = [
                self._once(tree, "carry", (at, f), lambda t=tree, s=at, x=f: t.carry(self, s, x))
                for f in frames
            ]
            for i, p in enumerate(where):
                for j, r in enumerate(where):
                    if j < i:
                        out[p, :, r] = out[r, :, p].T
                        continue
                    pair = (at, frames[i], frames[j])
                    out[p, :, r] = self._once(
                        tree,
                        "admittance",
                        pair,
                        lambda t=tree, x=i, y=j, u=up, c=carried, f=frames: t.block(
                            u, f[x], c[x], f[y], c[y]
                        ),
                    )
        return out.reshape(6 * size, 6 * size)

    def _correction(self, system: Model, trees: list[_Tree], q: Array, f: Array) -> Array:
        """Step E: ℳ⁻¹ J* A* f, tree by tree."""
        out = np.zeros(system.model.nv)
        if not system.closures.n_rows:
            return out
        forces = program_of(A.T, system)(q, f)
        for tree in trees:
            where = tree.points(system)
            if not len(where):
                continue
            self.counts["correct", tree.name] += 1
            out[tree.at_v] = tree.correct(self, system, q[tree.at_q], forces[where])
        return out

    # ---- what is kept -------------------------------------------------------------------------

    def articulated(self, tree: _Tree, q: Array) -> tuple[Array, ...]:
        """P, D, G of a tree."""
        kept, key = self._of(tree), _key(q)
        if kept.get("articulated", (None,))[0] != key:
            values, executed = self._bodies.articulated(tree.model, q)
            self.counts.update(("articulated", body) for body in executed)
            kept["articulated"] = (key, values)
        return kept["articulated"][1]

    def _once(self, tree: _Tree, step: str, state: Any, run: Any) -> Any:
        """The value of a step at a state, executed if it was not the last one."""
        kept = self._of(tree)
        key = _key(state)
        # a step on frames keeps one value per frame, all others the last one
        place = (step, key[1:]) if step in ("carry", "admittance") else step
        found = kept.get(place)
        if found is not None and found[0] == key:
            return found[1]
        self.counts[step, tree.name] += 1
        value = run()
        kept[place] = (key, value)
        return value

    def _of(self, tree: _Tree) -> dict[Any, Any]:
        """What is kept of a tree; of another tree on the same first body nothing is."""
        if tree.name not in self._kept or self._kept[tree.name][0] != tree.model:
            self._kept[tree.name] = (tree.model, {})
        return self._kept[tree.name][1]

    def _split(self, model: Model) -> list[_Tree]:
        roots = [i for i, parent in enumerate(model.parent) if parent < 0]
        trees = model.cached(Stages, lambda: [_Tree(model, i) for i in roots])
        for tree in trees:  # the same tree of another forest has its programs
            known = self._kept.get(tree.name)
            if known is not None and known[0] == tree.model:
                tree.model = known[0]
        return trees


class _Tree:
    """One tree of a forest as a model of its own."""

    def __init__(self, forest: Model, root: int) -> None:
        self.name = forest.body_names[root]
        self.model = forest.with_trees(self.name)
        self.bodies = {name: i for i, name in enumerate(self.model.body_names)}
        index = [forest.body_index(name) for name in self.model.body_names]
        self.hosts = {j: i for i, j in enumerate(index)}
        self.at_q = _joined([forest.q_slices[j] for j in index])
        self.at_v = _joined([forest.v_slices[j] for j in index])
        self._above = [self._path(i) for i in range(self.model.n_bodies)]

    def _path(self, body: int) -> list[int]:
        way = []
        while body >= 0:
            way.append(body)
            body = self.model.parent[body]
        return way

    def points(self, system: Model) -> Array:
        """Which closure frames are on this tree."""
        hosts = system.closures.points.body
        return np.array([p for p, k in enumerate(hosts) if k in self.hosts], dtype=int)

    def frame(self, system: Model, p: int) -> tuple[Any, ...]:
        """A closure frame as a value: body, axes and offset there."""
        where = system.closures.points
        body = self.hosts[where.body[p]]
        return body, where.rotation[p].tobytes(), where.offset[p].tobytes()

    def point_set(self, frames: list[tuple[Any, ...]]) -> PointSet:
        """Frames as points of this tree."""
        return PointSet(
            names=tuple(f"p{i}" for i in range(len(frames))),
            body=tuple(f[0] for f in frames),
            rotation=np.array([np.frombuffer(f[1]).reshape(3, 3) for f in frames]),
            offset=np.array([np.frombuffer(f[2]) for f in frames]),
            axes="body",
        )

    def _set_of(self, system: Model) -> PointSet:
        return self.point_set([self.frame(system, p) for p in self.points(system)])

    def free(self, stages: Stages, q: Array, v: Array, tau: Array) -> Any:
        """v̇_free and α̃ = φ* H* v̇_free."""
        known = stages.articulated(self, q)
        return compile(_free_terms(), self.model, given=GIVEN)(q, v, tau, *known)

    def rates(self, stages: Stages, q: Array, momentum: Array) -> Any:
        """ℳ⁻¹ p."""
        known = stages.articulated(self, q)
        return compile(mass_matrix.inv, self.model, given=GIVEN)(q, *known, momentum)

    def upsilon(self, stages: Stages, q: Array) -> Any:
        """Υ (bodies, 6, 6)."""
        known = stages.articulated(self, q)
        return compile(Upsilon, self.model, mode="blocks", given=GIVEN)(q, *known)

    def carry(self, stages: Stages, q: Array, frame: tuple[Any, ...]) -> Any:
        """ψ B of one frame: its unit forces at all bodies (bodies, 6, 6)."""
        known, where = stages.articulated(self, q), self.point_set([frame])
        program = compile(psi @ B, self.model, mode="dense", points=where, given=GIVEN)
        return program(q, *known).reshape(self.model.n_bodies, 6, 6)

    def block(
        self, up: Array, f1: tuple[Any, ...], X1: Array, f2: tuple[Any, ...], X2: Array
    ) -> Array:
        """Λ between two frames of this tree."""
        above = set(self._above[f1[0]])
        c = next(k for k in self._above[f2[0]] if k in above)
        return X1[c].T @ up[c] @ X2[c]

    def pick_off(self, system: Model, q: Array, along: Array) -> Array:
        """B* α̃ (frames, 6): products only."""
        return compile(B.T, self.model, points=self._set_of(system))(q, along)

    def correct(self, stages: Stages, system: Model, q: Array, forces: Array) -> Array:
        """(I − H ψ K)* D⁻¹ H ψ B x."""
        known, where = stages.articulated(self, q), self._set_of(system)
        return compile(_CORRECT, self.model, points=where, given=GIVEN)(q, *known, forces)


def _natural_squares(rows: Array, admittance: Array) -> Array:
    """How large the diagonal of A Λ A* (rows,) would be if nothing in it cancelled."""
    z = rows.reshape(len(rows), -1, 6)
    frames = z.shape[1]
    own = np.einsum("pipj->pij", admittance.reshape(frames, 6, frames, 6))
    return natural_square(z, own).sum(axis=-1)


def _joined(slices: list[slice]) -> Array:
    places = [np.arange(s.start, s.stop) for s in slices]
    return np.concatenate([np.zeros(0, dtype=int), *places]).astype(int)


def _key(state: Any) -> tuple[Any, ...]:
    parts = state if isinstance(state, tuple) else (state,)
    return tuple(x.tobytes() if isinstance(x, np.ndarray) else x for x in parts)


def _one_state(model: Model, **named: Any) -> tuple[Array, ...]:
    arrays = state_arrays(model, **named)
    for name, x in zip(named, arrays, strict=True):
        if x.ndim != 1:
            raise InputError(f"{name} has shape {x.shape}, but stages take one state at a time")
    return arrays
