"""How fast continuous states of laws decay: a warning where steps are too long for them.

The states of a law follow ẋ = f(x, …). Explicit steps of length h are stable only if h λ is within
their region of stability for all eigenvalues λ of ∂f/∂x: on the negative real axis to −2 for Euler
steps, and to −2.785 for "rk4". Beyond it the state of a stiff law, as the current of a motor with a
small inductance, grows in every step whatever the mechanism does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.core.arrays import GraphEvaluator, Node, adjoints, law_operations as ops
from phipsi.errors import warn
from phipsi.simulation.integrators.tableaux import METHODS

_LIMITS = {True: 2.785, False: 2.0}
"""Largest −h λ of explicit steps: of Runge–Kutta, and of Euler."""
_IMPLICIT = ", or\n    pp.Simulator(model, laws, dt, integrator='implicit_midpoint')"
_TRAJECTORIES, _STATES = 4, 100  # that are looked at, so that a start stays cheap


class _LawJacobian:
    """∂f/∂x of all continuous states of laws, from the inputs of a step's graph."""

    def __init__(self, compiled: Any) -> None:
        graph, rates = compiled.graph, compiled.circuit.rates
        known = graph.start.states
        results = [rates[name] for name in rates]
        self.shapes = [x.shape for x in results]
        weights = [ops.input(f"weights {i}", x.shape) for i, x in enumerate(results)]
        bars = adjoints(results, weights, [known[name] for name in rates])
        nodes: list[Node] = [x for x in bars if x is not None]
        self._there = [x is not None for x in bars]
        self._run = GraphEvaluator(graph.values(graph.start, nodes)) if nodes else None
        self.names = [
            name if not x.shape else f"{name}[{', '.join(map(str, place))}]"
            for name, x in zip(rates, results, strict=True)
            for place in np.ndindex(*x.shape)
        ]

    def __call__(self, values: dict[str, Any]) -> Any:
        size = len(self.names)
        if self._run is None:
            return np.zeros((size, size))
        ends = np.cumsum([int(np.prod(x, dtype=int)) for x in self.shapes])
        parts = np.split(np.eye(size), ends[:-1], axis=1)
        known = {
            f"weights {i}": x.reshape(size, *shape)
            for i, (x, shape) in enumerate(zip(parts, self.shapes, strict=True))
        }
        found = iter(self._run({"trajectory": np.zeros(()), **values, **known}))
        columns = [
            np.broadcast_to(next(found).reshape(-1, x.shape[1]), x.shape) if there else 0 * x
            for there, x in zip(self._there, parts, strict=True)
        ]
        return np.concatenate(columns, axis=1)


def check_law_decay(state: Any) -> None:
    """Warn where explicit steps are too long for continuous states of laws, at an initial state."""
    compiled = state.simulator.compiled
    method = METHODS[compiled.integrator]
    if not compiled.circuit.rates or method.is_midpoint:
        return
    if "law jacobian" not in vars(compiled):
        vars(compiled)["law jacobian"] = _LawJacobian(compiled)
    jacobian = vars(compiled)["law jacobian"]
    if len(jacobian.names) > _STATES:
        return
    limit = _LIMITS[method.tableau is not None]
    for i in range(min(state.count, _TRAJECTORIES)):
        found = jacobian(state.graph_values(i))
        if not np.isfinite(found).all() or not np.abs(found).any():
            continue
        values, vectors = np.linalg.eig(found)
        k = int(np.argmin(np.real(values)))
        fastest = -float(np.real(values[k]))
        if fastest * compiled.dt > limit:
            name = jacobian.names[int(np.argmax(np.abs(vectors[:, k])))]
            warn(
                f"{name!r} decays with a time constant of {1 / fastest:.3g} s, for which steps of "
                f"dt={compiled.dt:g} s are too long: with integrator={compiled.integrator!r} they "
                f"are stable up to dt={limit / fastest:.3g}, and the state diverges. Use shorter "
                "steps" + ("" if method.handles_contact else _IMPLICIT)
            )
            return
