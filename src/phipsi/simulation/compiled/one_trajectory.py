"""One trajectory of a compiled run on its own: its mechanism, its elements, its stored energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.arrays import GraphEvaluator, Node, in_order
from phipsi.core.compiler import compile
from phipsi.core.model import Model, Pose
from phipsi.core.operators import Jr
from phipsi.core.spatial import skew
from phipsi.errors import InputError, ModelError, warn
from phipsi.laws import INERTIA
from phipsi.simulation.forces.force import BoundForces, Force

Array = NDArray[Any]

_ROUNDING = 1e-12  # of the largest entry: a matrix is the inertia of a rigid body up to this
_EXPRESSED = (INERTIA, "M", "Jr", "gravity", "placement")


def own_mechanism(mechanism: Model, given: Mapping[str, Array]) -> Model:
    """The mechanism with the inertias, rotors, gravity and placements of one trajectory.

    Parameters
    ----------
    mechanism : Model
        The mechanism of the `Simulator`.
    given : mapping of str to ndarray
        Values by name of the quantities of `per_trajectory`.

    Raises
    ------
    InputError
        For quantities that no mechanism of this kind has.
    """
    for name in given:
        if name not in _EXPRESSED:
            raise InputError(
                f"the per-trajectory quantity {name!r} cannot be stored in a model, so a "
                "Trajectory has no energy and momentum. Use the records  run.q, run.v, "
                f"run[name].  A Trajectory can be made with {', '.join(map(repr, _EXPRESSED))}"
            )
    out = mechanism
    if "M" in given:
        ten = np.array([_parameters(mechanism, k, x) for k, x in enumerate(given["M"])])
        out = out.with_inertial_parameters(ten, moments="warn")
    if INERTIA in given:
        out = out.with_inertial_parameters(given[INERTIA], moments="warn")
    for k, X in enumerate(given.get("placement", ())):
        there = Pose(X[:3, :3], X[:3, 3])
        if there != mechanism.placements[k]:
            out = out.with_body(mechanism.body_names[k], placement=there)
    if "Jr" in given:
        out = _with_rotors(out, given["Jr"])
    return out.with_gravity(given["gravity"]) if "gravity" in given else out


def _parameters(model: Model, k: int, M: Array) -> Array:
    """The ten inertial parameters of an inertia (6, 6), which must be that of a rigid body."""
    mass, first, moments = M[5, 5], np.array([M[2, 4], M[0, 5], M[1, 3]]), M[:3, :3]
    cross = skew(first)
    rigid = np.block([[moments, cross], [cross.T, mass * np.eye(3)]])
    if np.abs(M - rigid).max(initial=0.0) > _ROUNDING * np.abs(M).max(initial=0.0):
        raise InputError(
            f"M of body {model.body_names[k]!r} is not the inertia of a rigid body, [[J, m c~], "
            "[−m c~, m 1]], so it cannot be stored in a model, and a Trajectory has no energy "
            "and momentum. Use the records  run.q, run.v, run[name]"
        )
    places = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    return np.array([mass, *first, *(moments[at] for at in places)])


def _with_rotors(mechanism: Model, blocks: Array) -> Model:
    """The mechanism whose joints have other inertias of rotors (n, r, r)."""
    tree, out = mechanism.model, mechanism
    more = blocks - compile(Jr, tree, mode="blocks")().reshape(blocks.shape)
    for k, body in enumerate(tree.description.bodies):
        change = more[k] if more[k].any() else None
        if change is None:
            continue
        size = len(body.armature)
        own = np.diag(change)[:size]
        rest = change - np.diag(np.concatenate([own, np.zeros(len(change) - size)]))
        try:
            if rest.any():
                raise ModelError(
                    "it has off-diagonal entries, or entries outside the joint's velocities"
                )
            out = out.with_body(body.name, armature=np.array(body.armature) + own)
        except ModelError as error:
            text = str(error).partition("\n")[0]
            raise InputError(
                f"Jr of joint {body.joint_name!r} is not the armature of a joint ({text}), so it "
                "cannot be stored in a model, and a Trajectory has no energy. Use the records  "
                "run.q, run.v, run[name]"
            ) from None
    return out


@final
class OwnForces:
    """What laws and force elements do in one trajectory, from its parameters.

    Attributes
    ----------
    elements : BoundForces
        The force elements with their parameters in this trajectory.
    stored, acting : callable or None
        As `Trajectory` takes them.
    """

    def __init__(self, simulator: Any, model: Model, parameters: Mapping[str, Array]) -> None:
        laws = simulator.laws if isinstance(simulator.laws, tuple) else (simulator.laws,)
        elements = [x for x in laws if isinstance(x, Force)]
        self.elements = BoundForces(elements, model, rows=True).with_parameters(parameters)
        self._parameters, self._nv = parameters, model.nv
        made, graph = simulator.compiled.circuit, simulator.compiled.graph
        self.stored = self._function(graph, made.energy)
        if self.stored is None and made.energy is not None:
            # Laws of the run have states, which were not recorded.
            self.stored = self.elements.stored
            warn(
                "the energy that laws return depends on their states or on noise, which are not "
                "recorded: trajectory.energy contains the energy of force elements only"
            )
        loads = self._function(graph, made.loads)
        self.acting = None
        if loads is not None:
            self.acting = lambda t, q, v: (np.zeros((len(t), self._nv)), loads(t, q, v))

    def _function(self, graph: Any, node: Node | None) -> Any:
        """A node of the circuit as a function of t, q, v; None if it reads more than that."""
        if node is None:
            return None
        nodes = graph.values(graph.start, [node])
        known = {"t", "q", "v", *self._parameters}
        if not _inputs_of(nodes) <= known:
            return None
        run, shape = GraphEvaluator(nodes), nodes[0].shape

        def values(t: Array, q: Array, v: Array) -> Array:
            (found,) = run({**self._parameters, "t": t, "q": q, "v": v})
            return np.broadcast_to(found, (len(t), *shape))

        return values


def _inputs_of(nodes: Sequence[Node]) -> set[str]:
    return {x.data[0] for x in in_order(nodes) if x.operation.name == "input"}
