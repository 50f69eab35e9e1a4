"""P, D, G of trees, body by body: only bodies inboard of a change are executed again.

In body axes, P(k), D(k) and G(k) depend on body k and on what hangs on it:

    P(k) = M(k) + Σ_c φ(k,c) [P(c) − G(c) H(c) P(c)] φ*(k,c)    D = Jr + H P H*    G = P H* D⁻¹

so a change of body k (inertia, joint, armature, coordinates) is felt on its path to the base only.
Every body keeps its last values with what they were computed from. Bodies are compared by name, so
a joint that is locked (its body becomes part of the one inboard of it) and let go again finds the
values of its body. The path is a model of its own: what bodies beside the path hand on is added to
the inertias of the path, and P, D, G are compiled with these given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.compiler import compile
from phipsi.model.model import Model
from phipsi.operators import D, E_phi, E_psi, G, P

Array = NDArray[Any]
_Stale = dict[int, tuple[tuple[Any, ...], int]]

ARTICULATED = (P, D, G)
HANDED_ON = E_psi @ P @ E_phi.T
"""Blocks of what the children of each body add to its inertia; with armature too."""


@dataclass(frozen=True)
class _Kept:
    """The blocks of one body, what they were computed from, and a number for this execution."""

    inputs: tuple[Any, ...]
    number: int
    P: Array
    D: Array
    G: Array


@final
class KeptBodies:
    """The last P, D, G of every body.

    >>> import numpy as np, phipsi as pp
    >>> from phipsi.algorithms.constrained.kept_bodies import KeptBodies
    >>> arm, kept = pp.examples.planar_arm(4), KeptBodies()
    >>> _, executed = kept.articulated(arm, np.zeros(4))
    >>> _, executed = kept.articulated(arm, np.array([0, 0.5, 0, 0]))
    >>> executed
    ('link1', 'link2')
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._executions = 0

    def articulated(
        self, model: Model, q: Array
    ) -> tuple[tuple[Array, Array, Array], tuple[str, ...]]:
        """P, D, G of a model at q in storage layout, and the bodies executed for it.

        **Cost:** O(executed bodies and their children), and O(N) comparisons.
        """
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
                # numbers tell executions apart, and with them all that is outboard of a child
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
            inertias = path.inertia_matrices + self._handed_on(model, q, stale)
            program = compile(ARTICULATED, path, mode="blocks", given=("M",))
            found = program(_entries(model, path, q), inertias)
        articulated, hinge, gain = found
        for k, (inputs, number) in stale.items():
            name = model.body_names[k]
            i = path.body_index(name)
            at, width = path.v_slices[i], path.joints[i].nv
            blocks = articulated[i], hinge[i, :width, :width], gain[:, at]
            self._kept[name] = _Kept(inputs, number, *(x.copy() for x in blocks))

    def _handed_on(self, model: Model, q: Array, stale: _Stale) -> Array:
        """What bodies beside the path add to the inertias on it (bodies of the path, 6, 6)."""
        beside = {c for k in stale for c in model.tree.children[k]} - set(stale)
        if not beside:
            return np.zeros((len(stale), 6, 6))
        wide = _paths(model, tuple(sorted(beside | set(stale))))
        known, gain = np.zeros((wide.n_bodies, 6, 6)), np.zeros((6, wide.nv))
        for c in beside:
            kept = self._kept[model.body_names[c]]
            i = wide.body_index(model.body_names[c])
            known[i], gain[:, wide.v_slices[i]] = kept.P, kept.G
        program = compile(HANDED_ON, wide, mode="blocks", given=("P", "G"))
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
    """The model of bodies that include their parents; kept with the model they are of."""
    names = [model.body_names[k] for k in bodies]
    return model.cached((KeptBodies, bodies), lambda: model.with_paths(names))


def _entries(model: Model, part: Model, q: Array) -> Array:
    """The coordinates of the joints of a part."""
    return np.concatenate([np.zeros(0), *(q[model.q_slice(n)] for n in part.joint_names)])
