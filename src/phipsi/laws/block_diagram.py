"""A block diagram: all laws of a run together, as one graph between quantities.

The door between laws and whatever runs them: the kernel of a run, or arrays (`values`). A circuit
says what must be given, which programs of the algebra it reads, and what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phipsi.core.arrays import Array, Node, Shape, evaluate, input
from phipsi.core.expressions import Expr
from phipsi.core.model import PointSet

INERTIA = "inertia"
"""The name of the inertial parameters (n, 10) of `inertial_parameters`, given by trajectories."""
KINDS = ("time", "q", "v", "effort", "parameter", "state", "result", "noise")


@dataclass(frozen=True)
class Range:
    """Which numbers a parameter may have: from `least` to `most`, or `above` it only."""

    least: float = 0.0
    most: float = np.inf
    above: bool = False

    def holds(self, values: Any) -> Any:
        """Where values are within."""
        low = values > self.least if self.above else values >= self.least
        return low & (values <= self.most)

    def __str__(self) -> str:
        low = "above" if self.above else "at least"
        high = "" if self.most == np.inf else f" and at most {self.most:g}"
        return f"{low} {self.least:g}{high}"


@dataclass(frozen=True, eq=False)
class Quantity:
    """An input of the graph.

    Attributes
    ----------
    name : str
        Its name.
    kind : str
        "time" ("t", s), "q", "v", "effort" ("tau", torques and forces from outside during the
        step), "parameter", "state", "result" (of an evaluation), or "noise" ("step" and
        "trajectory", integers that number the step of the rollout and the trajectory).
    shape : tuple of int
        Its shape.
    value : ndarray or None
        Default of a parameter, first value of a state.
    fixed : tuple or None
        Entries of a parameter that a simulation cannot change, and why.
    range : Range or None
        The numbers that a parameter may have.
    """

    name: str
    kind: str
    shape: Shape
    value: Array | None = None
    fixed: tuple[Array, str] | None = None
    range: Range | None = None

    def __post_init__(self) -> None:
        assert self.kind in KINDS, f"{self.kind!r} is not one of {KINDS}"

    @property
    def node(self) -> Node:
        """The node that stands for it in the graph."""
        return input(self.name, self.shape)


@dataclass(frozen=True, eq=False)
class AlgebraBlock:
    """A program of the algebra whose results laws read.

    Attributes
    ----------
    forms : tuple of Expr
        Expressions.
    results : tuple of str
        Names of the quantities of kind "result", one for every form.
    modes, points
        As `compile` takes them.
    operands : dict of str to Node
        Nodes of inputs besides q and v by name ("vdot", "x", …), which may read results of earlier
        evaluations.
    constrained : bool
        Whether it is of the system with its constraints instead of the tree.
    nominal : bool
        Whether it is of the nominal model, also where trajectories have their own masses or
        gravity: a program that a law calls, such as that of a controller with a model of the
        mechanism.
    """

    forms: tuple[Expr, ...]
    results: tuple[str, ...]
    modes: tuple[str, ...]
    points: PointSet | None = None
    operands: dict[str, Node] = field(default_factory=dict)
    constrained: bool = False
    nominal: bool = False


@dataclass(frozen=True, eq=False)
class Sampling:
    """Changes at steps whose number is a multiple of `period`, before the step.

    `updates` are the next values of states by name, all from the old values.
    """

    period: int
    updates: dict[str, Node]


@dataclass(frozen=True, eq=False)
class JointRows:
    """Rigid joint limits, ropes and dry friction: rows beside those of contacts, which steps solve.

    Attributes
    ----------
    stops : tuple
        (rate, sign) of each: its gap changes with sign · v.
    gaps : Node, shape (stops,)
        rad or m.
    rubs : tuple of int
        The rates with dry friction.
    bounds : Node, shape (rubs,)
        The largest friction, N·m or N.
    ropes : tuple
        The two bodies of each, −1 for the world.
    slacks : Node, shape (ropes,)
        How much longer they are than the distance of their ends, m.
    pulls : Node, shape (ropes, 2, 6)
        How slacks change with the motions of the two bodies' frames, in world axes.
    rebounds, jerks : tuple of float
        Coefficients of restitution of stops and of ropes.
    """

    stops: tuple[tuple[int, int], ...] = ()
    gaps: Any = None
    rubs: tuple[int, ...] = ()
    bounds: Any = None
    ropes: tuple[tuple[int, int], ...] = ()
    slacks: Any = None
    pulls: Any = None
    rebounds: tuple[float, ...] = ()
    jerks: tuple[float, ...] = ()

    @staticmethod
    def joined(parts: Sequence[JointRows]) -> JointRows:
        """All rows of several elements."""
        known: dict[str, Any] = {
            name: tuple(y for x in parts for y in getattr(x, name))
            for name in ("stops", "rubs", "ropes", "rebounds", "jerks")
        }
        for name in ("gaps", "bounds", "slacks", "pulls"):
            found = [y for x in parts if (y := getattr(x, name)) is not None]
            known[name] = np.concatenate(found) if found else None
        return JointRows(**known)

    def __bool__(self) -> bool:
        return bool(self.stops or self.rubs or self.ropes)


@dataclass(frozen=True, eq=False)
class BlockDiagram:
    """All laws of a simulation as one graph.

    Attributes
    ----------
    quantities : dict of str to Quantity
        Inputs by name.
    evaluations : tuple of AlgebraBlock
        Programs, in an order in which they can be evaluated.
    efforts : Node or None, shape (nv,)
        Sum of the tau of all laws, to be added to that from outside; None if no law has any.
    loads : Node or None, shape (n, 6)
        Forces on bodies at their origins in body axes, [moment; force]; None likewise.
    rates : dict of str to Node
        Rates of continuous states by name.
    samplings : tuple of PeriodicUpdate
        Changes of the other states.
    records : dict of str to Node
        Named quantities to record.
    energy : Node or None, shape ()
        Energy stored in elements, J; None likewise.
    rows : tuple of int
        Numbers of the constraint rows whose multipliers laws read.
    joint_rows : JointRows
        Rigid joint limits and dry friction, whose gaps and bounds are nodes.
    given : tuple of str
        Per-trajectory quantities of the algebra.
    delays : tuple of PeriodicUpdate
        States that remember: from a step on whose number is a multiple of `period` they are what
        `updates` were in the step before.
    """

    quantities: dict[str, Quantity]
    evaluations: tuple[AlgebraBlock, ...] = ()
    efforts: Node | None = None
    loads: Node | None = None
    rates: dict[str, Node] = field(default_factory=dict)
    samplings: tuple[Sampling, ...] = ()
    records: dict[str, Node] = field(default_factory=dict)
    energy: Node | None = None
    rows: tuple[int, ...] = ()
    joint_rows: JointRows = JointRows()
    given: tuple[str, ...] = ()
    delays: tuple[Sampling, ...] = ()

    def of_kind(self, kind: str) -> dict[str, Quantity]:
        """The quantities of a kind, by name."""
        return {name: x for name, x in self.quantities.items() if x.kind == kind}

    @property
    def results(self) -> list[Node]:
        """All nodes that are computed while the motion goes on: no samplings, delays or records."""
        found = [self.efforts, self.loads, *self.rates.values()]
        return [x for x in found if x is not None]

    def values(
        self,
        values: Mapping[str, Any],
        run: Callable[[AlgebraBlock, dict[str, Array]], Sequence[Array]],
    ) -> dict[str, Any]:
        """Everything on arrays: the reference implementation for machine code.

        Parameters
        ----------
        values : mapping of str to array_like, shape (..., *shape)
            All quantities but results by name; those of parameters and states may be missing.
        run : callable
            The results of an evaluation from those of its inputs.

        Returns
        -------
        dict
            "efforts", "loads", "energy" as arrays or None, "rates", "records" as dictionaries,
            "samplings" and "delays" as lists of dictionaries.
        """
        known = {n: x.value for n, x in self.quantities.items() if x.value is not None}
        known |= values
        for one in self.evaluations:
            nodes = list(one.operands.values())
            operands = dict(zip(one.operands, evaluate(nodes, known), strict=True))
            found = run(one, {"q": known["q"], "v": known["v"], **operands})
            known |= dict(zip(one.results, found, strict=True))

        def of(node: Node | None) -> Array | None:
            return None if node is None else evaluate([node], known)[0]

        def each(nodes: Mapping[str, Node]) -> dict[str, Array | None]:
            return {name: of(x) for name, x in nodes.items()}

        return {
            "efforts": of(self.efforts),
            "loads": of(self.loads),
            "energy": of(self.energy),
            "rates": each(self.rates),
            "records": each(self.records),
            "samplings": [each(x.updates) for x in self.samplings],
            "delays": [each(x.updates) for x in self.delays],
        }
