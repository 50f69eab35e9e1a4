"""The terms of a constrained step, and which code a system is solved by.

Small systems are solved by code without loops that knows the numbers of the model
(unrolled_programs.py). Quaternions are taken as they are: those of a run are of unit length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from phipsi.algorithms import BIAS_FORCES, ROW_DRIFT, System
from phipsi.core.arrays import Number, ScalarGraph, Undecided, fused, scalar_nodes
from phipsi.core.backends import OBJECTS
from phipsi.core.compiler import compile
from phipsi.core.operators import A, J, mass_matrix, pose, tau
from phipsi.simulation.kinematic_loops.unrolled_elimination import Elimination, elimination_of
from phipsi.simulation.kinematic_loops.unrolled_programs import (
    MOST_BODIES,
    MOST_TERMS,
    unrolled_results,
)

ELIMINATION = ((BIAS_FORCES - tau, ROW_DRIFT, mass_matrix, A @ J), (pose, mass_matrix, A @ J))
MODES = (("apply", "apply", "dense", "dense"), ("apply", "dense", "dense"))


@final
@dataclass(frozen=True, eq=False)
class Unrolled:
    """The terms of a step as entries that know the numbers of the model.

    **Attributes:** `elimination`; `shapes` of the inputs; `load`, `drift`, `mass`, `motion`: −c, e,
    ℳ and G; `residual` g; `rates` of the rows.
    """

    elimination: Elimination
    shapes: dict[str, tuple[int, ...]]
    load: np.ndarray
    drift: np.ndarray
    mass: np.ndarray
    motion: np.ndarray
    residual: np.ndarray
    rates: np.ndarray

    @cached_property
    def key(self) -> str:
        """A digest of what the code depends on."""
        whole = [*self.entries, *self.rates, *self.elimination.floors]
        text = f"{self.elimination.key} {self.shapes} {scalar_nodes.listing(whole)}"
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def entries(self) -> list[Number]:
        """All of them."""
        parts = (self.load, self.drift, self.mass, self.motion, self.residual)
        return [x for part in parts for x in part.ravel()]


ClosureSolver = Elimination | Unrolled | None
"""How a system is solved: by code without loops, by that and programs of its terms, by sweeps."""


def choose_closure_solver(system: System, given: Sequence[str] = ()) -> ClosureSolver:
    """The shortest code that there is."""
    elimination = elimination_of(system, given)
    if elimination is None or system.n_bodies > MOST_BODIES:
        return elimination
    key = Unrolled, tuple(given)
    return system.cached(key, lambda: _unrolled(system, given, elimination)) or elimination


def _unrolled(system: System, given: Sequence[str], elimination: Elimination) -> Unrolled | None:
    options: Any = {"inputs": tuple(given), "backend": "reference"}
    program = compile(ELIMINATION[0], system, mode=MODES[0], **options)
    graph = ScalarGraph()
    try:
        load, drift, mass, motion = unrolled_results(graph, program.source)
        (poses,) = unrolled_results(
            graph, compile((pose,), system.model, backend="reference").source
        )
        residual = _residual_entries(system, graph.inputs("q", (system.nq,)), poses)
    except Undecided:  # a joint of a user, whose formula chooses by the value of q
        return None
    shapes = {x: tuple(program.input_shapes[x]) for x in ("q", "v", "tau", *given)}
    rates = system.rows.rates
    found = Unrolled(elimination, shapes, load, drift, mass, motion, residual, rates)
    return found if len(fused(found.entries)) <= MOST_TERMS else None


def _residual_entries(system: System, q: np.ndarray, poses: np.ndarray) -> np.ndarray:
    """g (rows,) at q, where the bodies have these poses (n, 4, 4)."""
    t, found = system.rows.residual_table(), []
    g = t.start.astype(object)
    whole = [(X[:3, :3], X[:3, 3]) for X in (*poses, np.eye(4))]  # last the world, which −1 finds
    for hosts, rotations, offsets in zip(t.host, t.rotation, t.offset, strict=True):
        at = [whole[host] for host in hosts]
        R_a, R_b = (R @ turn for (R, _), turn in zip(at, rotations, strict=True))
        x_a, x_b = (R @ arm + x for (R, x), arm in zip(at, offsets, strict=True))
        arm = R_a.T @ (x_b - x_a)
        found.append([*(R_a.T @ R_b).ravel(), *arm, OBJECTS.sqrt(arm @ arm)])
    for row, k, factors in zip(t.row, t.closure, t.coefficients, strict=True):
        for x, y in zip(found[k], factors, strict=True):
            g[row] = g[row] + x * y if y else g[row]
    for row, entry, factor in zip(t.coupled, t.entry, t.factor, strict=True):
        g[row] = g[row] + q[entry] * factor
    for x in t.laws:
        g[x.row] = g[x.row] + x.law.value(list(q[x.places]), OBJECTS)
    return g
