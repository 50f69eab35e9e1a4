"""Steps A–F at one state, of which only those that a change affects are executed again.

Every body and every tree of the forest keeps its results, with the inputs they depend on:

    articulated   P, D, G (and with them K, ψ)   per body: it, its q, and all that hangs on it
    free          steps A and B: v̇_free, α̃        per tree: the tree, its q, v, tau
    rates         ℳ⁻¹ p of a momentum p          per tree: the same with p
    upsilon       Υ                              per tree: the tree and its q
    carry         ψ B of one closure frame       the same, and the frame
    admittance    Λ between two closure frames   the same
    solve         step D                         everything: executed at every call
    correct       step E, per tree with rows     everything: executed at every call

The quantities are passed as values to programs compiled with `inputs=`, so the cost of a change is
that of the table of theory/closed-chains 11 and no more: a constraint that is switched on, a new
closure frame, another secondary system; and of the articulated quantities only the path to the
base if a body's inertia or coordinates change, only those inboard of a joint that is locked or
released. `counts` says how often each step was executed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS, ROW_DRIFT, WHITEN
from phipsi.core.backends import (
    CONTRADICTION,
    ROW_GAP,
    ROW_GAP_LEAST,
    Failure,
    error_of,
    natural_square,
    solve_semidefinite,
    state_arrays,
)
from phipsi.core.compiler import compile, program_of
from phipsi.core.expressions import Expr
from phipsi.core.model import Model, PointSet, entries_of, is_array, with_armature
from phipsi.core.operators import A, B, D, E_phi, E_psi, G, H, J, P, Upsilon, mass_matrix, phi, psi
from phipsi.errors import InputError

Array = NDArray[Any]

GIVEN = ("P", "D", "G")
_CORRECT = WHITEN.T @ D.inv @ H @ psi @ B


@cache
def _free_terms() -> tuple[Expr, Expr]:
    return FORWARD_DYNAMICS, phi.T @ H.T @ FORWARD_DYNAMICS


_Stale = dict[int, tuple[tuple[Any, ...], int]]

ARTICULATED = (P, D, G)
CHILD_CONTRIBUTIONS = E_psi @ P @ E_phi.T
"""Contributions of the children of each body to its inertia, as blocks; with armature too."""


@dataclass(frozen=True)
class _CachedBlocks:
    """The blocks of one body, the inputs of their computation, and a number for this execution."""

    inputs: tuple[Any, ...]
    number: int
    P: Array
    D: Array
    G: Array


@final
class ArticulatedCache:
    """The last P, D, G of every body: only bodies inboard of a change are executed again.

    In body axes, P(k), D(k) and G(k) depend on body k and on what hangs on it:

        P(k) = M(k) + Σ_c φ(k,c) [P(c) − G(c) H(c) P(c)] φ*(k,c)    D = Jr + H P H*    G = P H* D⁻¹

    so a change of body k (inertia, joint, armature, coordinates) affects its path to the base only.
    Every body keeps its last values with the inputs they were computed from. Bodies are compared by
    name, so a joint that is locked (its body becomes part of the one inboard of it) and released
    again finds the values of its body. The path is a model of its own: the contributions of bodies
    beside the path are added to the inertias of the path, and P, D, G are compiled with these
    given.

    >>> import numpy as np, phipsi as pp
    >>> from phipsi.algorithms.constrained.stages import ArticulatedCache
    >>> arm, kept = pp.examples.planar_arm(4), ArticulatedCache()
    >>> _, executed = kept.articulated(arm, np.zeros(4))
    >>> _, executed = kept.articulated(arm, np.array([0, 0.5, 0, 0]))
    >>> executed
    ('link1', 'link2')
    """

    def __init__(self) -> None:
        self._kept: dict[str, _CachedBlocks] = {}
        self._executions = 0

    def articulated(
        self, model: Model, q: Array
    ) -> tuple[tuple[Array, Array, Array], tuple[str, ...]]:
        """P, D, G of a model at q in storage layout, and the bodies executed for it.

        **Cost:** O(executed bodies and their children), and O(N) comparisons.
        """
        if model.has_more_rows:
            raise InputError(
                "incremental dynamics (system.stages) does not support flexible bodies or rotors "
                "on skew axes. Use pp.forward_dynamics and pp.constraint_impulse."
            )
        stale = self._stale(model, q)
        if stale:
            self._execute(model, q, stale)
        return self._stored(model), tuple(model.body_names[k] for k in sorted(stale))

    def _stale(self, model: Model, q: Array) -> _Stale:
        """Bodies whose inputs are not those of their kept values, with these and a new number."""
        stale: _Stale = {}
        numbers: dict[int, int] = {}
        for k in model.tree.tip_to_base():
            children = model.tree.children[k]
            inputs = (
                model.inertia_matrices[k].tobytes(),
                model.joints[k],
                q[model.q_slices[k]].tobytes(),
                model.armature[model.v_slices[k]].tobytes(),
                # numbers distinguish executions, and with them all that is outboard of a child
                tuple((model.placements[c], numbers[c]) for c in children),
            )
            kept = self._kept.get(model.body_names[k])
            if kept is None or kept.inputs != inputs:
                self._executions += 1
                stale[k], numbers[k] = (inputs, self._executions), self._executions
            else:
                numbers[k] = kept.number
        return stale

    def _execute(self, model: Model, q: Array, stale: _Stale) -> None:
        if len(stale) == model.n_bodies:
            path, found = model, compile(ARTICULATED, model, mode="blocks")(q)
        else:
            path = _paths(model, tuple(sorted(stale)))
            own = model.inertia_matrices[sorted(stale)]  # with rotors of joints beside the path
            inertias = own + self._handed_on(model, q, stale)
            program = compile(ARTICULATED, path, mode="blocks", inputs=("M",))
            found = program(_entries(model, path, q), inertias)
        articulated, hinge, gain = found
        for k, (inputs, number) in stale.items():
            name = model.body_names[k]
            i = path.body_index(name)
            at, width = path.v_slices[i], path.joints[i].nv
            blocks = articulated[i], hinge[i, :width, :width], gain[:, at]
            self._kept[name] = _CachedBlocks(inputs, number, *(x.copy() for x in blocks))

    def _handed_on(self, model: Model, q: Array, stale: _Stale) -> Array:
        """Inertias (bodies of the path, 6, 6) that bodies beside the path add to those on it."""
        beside = {c for k in stale for c in model.tree.children[k]} - set(stale)
        if not beside:
            return np.zeros((len(stale), 6, 6))
        wide = _paths(model, tuple(sorted(beside | set(stale))))
        known, gain = np.zeros((wide.n_bodies, 6, 6)), np.zeros((6, wide.nv))
        for c in beside:
            kept = self._kept[model.body_names[c]]
            i = wide.body_index(model.body_names[c])
            known[i], gain[:, wide.v_slices[i]] = kept.P, kept.G
        program = compile(CHILD_CONTRIBUTIONS, wide, mode="blocks", inputs=("P", "G"))
        found = program(_entries(model, wide, q), known, gain)
        return found[[wide.body_index(model.body_names[k]) for k in sorted(stale)]]

    def _stored(self, model: Model) -> tuple[Array, Array, Array]:
        kept = [self._kept[name] for name in model.body_names]
        widest = max((joint.nv for joint in model.joints), default=0)
        hinge = np.zeros((model.n_bodies, widest, widest))
        for k, body in enumerate(kept):
            hinge[k, : len(body.D), : len(body.D)] = body.D
        articulated = np.array([body.P for body in kept]).reshape(-1, 6, 6)
        return articulated, hinge, np.concatenate([np.zeros((6, 0)), *(x.G for x in kept)], axis=1)


def _paths(model: Model, bodies: tuple[int, ...]) -> Model:
    """The model of bodies that include their parents; kept with the model they are of.

    Its armature is that of the model, with rotors of joints beside the path; its inertias are not.
    """
    names = [model.body_names[k] for k in bodies]

    def path() -> Model:
        if not model.description.attachments:
            return model.with_paths(names)
        armature = [model.armature[at] for at in model.v_slices]
        return Model(with_armature(model.description, armature)).with_paths(names)

    return model.cached((ArticulatedCache, bodies), path)


def _entries(model: Model, part: Model, q: Array) -> Array:
    """The coordinates of the joints of a part."""
    return np.concatenate([np.zeros(0), *(q[model.q_slice(n)] for n in part.joint_names)])


@final
class Stages:
    """Accelerations and impulses of systems that change, with what stayed the same reused.

    **Attributes:** `counts`, a Counter of how often each step was executed: ("articulated", body)
    of every body, (step, first body of the tree) of the others, and ("solve", "") of step D.

    >>> import numpy as np, phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> def pinned(kind):
    ...     return pp.System(arm, [kind(name="pin", a="tip", b=("world", (1.5, 0, 0)))])
    >>> stages, rest = Stages(), np.zeros(3)
    >>> q = pinned(pp.constraints.Spherical).assemble([1.0, -1.0, -1.5])
    >>> before = stages.dynamics(pinned(pp.constraints.Spherical), q, rest, rest)
    >>> after = stages.dynamics(pinned(pp.constraints.PointOnLine), q, rest, rest)
    >>> stages.counts["articulated", "link1"], stages.counts["solve", ""]
    (1, 2)
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._bodies = ArticulatedCache()
        self._kept: dict[str, tuple[Model, dict[Any, Any]]] = {}

    def __repr__(self) -> str:
        return f"<Stages: {self.counts.total()} steps executed>"

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
            free, along = self._once(tree, "free", state, partial(tree.free, self, *state))
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
            v[tree.at_v] = self._once(tree, "rates", state, partial(tree.rates, self, *state))
        return v

    # ---- steps --------------------------------------------------------------------------------

    def _rows(self, system: Model, q: Array, motions: Array) -> Array:
        if not system.closures.n_rows:
            return np.zeros(0)
        return program_of(A, system)(q, motions)

    def _solve(self, system: Model, trees: list[_ForestTree], q: Array, right: Array) -> Array:
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
        """Reject rows that ask for something else than those they depend on, as programs do."""
        limit = ROW_GAP * float(np.abs(right).max(initial=0.0)) + ROW_GAP_LEAST
        for i in np.flatnonzero(np.abs(gap) > limit):
            name = system.closures.row_names[i]
            value = np.full((1, 1), abs(gap[i]))
            failure = Failure(CONTRADICTION, int(i), name, np.ones((), dtype=bool), value)
            raise error_of(failure, system.model, system.closures)

    def _admittance(self, system: Model, trees: list[_ForestTree], q: Array) -> Array:
        """Λ (6 points, 6 points): Λ(i, j) = X_i* Υ(c) X_j, c where the paths of i and j meet."""
        size = len(system.closures.points)
        out = np.zeros((size, 6, size, 6))
        for tree in trees:
            where = tree.points(system)
            if not len(where):
                continue
            at = q[tree.at_q]
            up = self._once(tree, "upsilon", at, partial(tree.upsilon, self, at))
            frames = [tree.frame(system, p) for p in where]
            carried = [
                self._once(tree, "carry", (at, f), partial(tree.carry, self, at, f)) for f in frames
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
                        partial(tree.block, up, frames[i], carried[i], frames[j], carried[j]),
                    )
        return out.reshape(6 * size, 6 * size)

    def _correction(self, system: Model, trees: list[_ForestTree], q: Array, f: Array) -> Array:
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

    # ---- kept results -----------------------------------------------------------------------

    def articulated(self, tree: _ForestTree, q: Array) -> tuple[Array, ...]:
        """P, D, G of a tree."""
        kept, key = self._of(tree), _key(q)
        if kept.get("articulated", (None,))[0] != key:
            values, executed = self._bodies.articulated(tree.model, q)
            self.counts.update(("articulated", body) for body in executed)
            kept["articulated"] = (key, values)
        return kept["articulated"][1]

    def _once(self, tree: _ForestTree, step: str, state: Any, run: Callable[[], Any]) -> Any:
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

    def _of(self, tree: _ForestTree) -> dict[Any, Any]:
        """The kept results of a tree; those of another tree on the same first body are dropped."""
        if tree.name not in self._kept or self._kept[tree.name][0] != tree.model:
            self._kept[tree.name] = (tree.model, {})
        return self._kept[tree.name][1]

    def _split(self, model: Model) -> list[_ForestTree]:
        roots = [i for i, parent in enumerate(model.parent) if parent < 0]
        trees = model.cached(Stages, lambda: [_ForestTree(model, i) for i in roots])
        for tree in trees:  # the same tree of another forest has its programs
            known = self._kept.get(tree.name)
            if known is not None and known[0] == tree.model:
                tree.model = known[0]
        return trees


class _ForestTree:
    """One tree of a forest as a model of its own."""

    def __init__(self, forest: Model, root: int) -> None:
        self.name = forest.body_names[root]
        self.model = forest.with_trees(self.name)
        self.bodies = {name: i for i, name in enumerate(self.model.body_names)}
        index = [forest.body_index(name) for name in self.model.body_names]
        self.hosts = {j: i for i, j in enumerate(index)}
        self.at_q = entries_of(forest.q_slices[j] for j in index)
        self.at_v = entries_of(forest.v_slices[j] for j in index)

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
        return compile(_free_terms(), self.model, inputs=GIVEN)(q, v, tau, *known)

    def rates(self, stages: Stages, q: Array, momentum: Array) -> Any:
        """ℳ⁻¹ p."""
        known = stages.articulated(self, q)
        return compile(mass_matrix.inv, self.model, inputs=GIVEN)(q, *known, momentum)

    def upsilon(self, stages: Stages, q: Array) -> Any:
        """Υ (bodies, 6, 6)."""
        known = stages.articulated(self, q)
        return compile(Upsilon, self.model, mode="blocks", inputs=GIVEN)(q, *known)

    def carry(self, stages: Stages, q: Array, frame: tuple[Any, ...]) -> Any:
        """ψ B of one frame: its unit forces at all bodies (bodies, 6, 6)."""
        known, where = stages.articulated(self, q), self.point_set([frame])
        program = compile(psi @ B, self.model, mode="dense", points=where, inputs=GIVEN)
        return program(q, *known).reshape(self.model.n_bodies, 6, 6)

    def block(
        self, up: Array, f1: tuple[Any, ...], X1: Array, f2: tuple[Any, ...], X2: Array
    ) -> Array:
        """Λ between two frames of this tree."""
        c = self.model.tree.nearest_common_ancestor(f1[0], f2[0])
        return X1[c].T @ up[c] @ X2[c]

    def pick_off(self, system: Model, q: Array, along: Array) -> Array:
        """B* α̃ (frames, 6): products only."""
        return compile(B.T, self.model, points=self._set_of(system))(q, along)

    def correct(self, stages: Stages, system: Model, q: Array, forces: Array) -> Array:
        """(I − H ψ K)* D⁻¹ H ψ B x."""
        known, where = stages.articulated(self, q), self._set_of(system)
        return compile(_CORRECT, self.model, points=where, inputs=GIVEN)(q, *known, forces)


def _natural_squares(rows: Array, admittance: Array) -> Array:
    """How large the diagonal of A Λ A* (rows,) would be if nothing in it cancelled."""
    z = rows.reshape(len(rows), -1, 6)
    frames = z.shape[1]
    own = np.einsum("pipj->pij", admittance.reshape(frames, 6, frames, 6))
    return natural_square(z, own).sum(axis=-1)


def _key(state: Array | tuple[Any, ...]) -> tuple[Any, ...]:
    parts = state if isinstance(state, tuple) else (state,)
    return tuple(x.tobytes() if is_array(x) else x for x in parts)


def _one_state(model: Model, **named: Any) -> tuple[Array, ...]:
    arrays = state_arrays(model, **named)
    for name, x in zip(named, arrays, strict=True):
        if x.ndim != 1:
            raise InputError(f"{name} has shape {x.shape}, but stages take one state at a time")
    return arrays
