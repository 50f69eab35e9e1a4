"""Wiring: what laws are traced with, and where what they say is collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from phipsi.compiler import compile
from phipsi.errors import LawError
from phipsi.expressions.node import Expr
from phipsi.laws import law_operations as ops
from phipsi.laws.circuit import Circuit, Evaluation, Quantity, Sampling
from phipsi.laws.graph import Array, Node, Shape
from phipsi.laws.law_errors import fail
from phipsi.laws.program_calls import recording
from phipsi.laws.signals import noise_numbers
from phipsi.laws.substitution import substituted
from phipsi.laws.trace import Traced, as_node
from phipsi.model.model import Model
from phipsi.model.points import PointSet, point_set
from phipsi.operators import V, as_expression, pose
from phipsi.operators.inputs import inputs_of
from phipsi.sweeps.request import Request


@final
class Wiring:
    """Quantities, evaluations and sums of a circuit while it grows.

    **Attributes:** `model`; `dt`, s; `t`, `q`, `v`, `tau`, traced inputs.
    """

    def __init__(self, model: Model, dt: float) -> None:
        self.model, self.dt = model, dt
        self._quantities: dict[str, Quantity] = {}
        self._results: dict[Any, tuple[str, ...]] = {}
        self._evaluations: list[Evaluation] = []
        self._sums: dict[str, Node] = {}
        self._rates: dict[str, Node] = {}
        self._updates: dict[int, dict[str, Node]] = {}
        self._records: dict[str, Node] = {}
        self._held: dict[Node, Node] = {}
        self._names: dict[str, int] = {}
        self.t: Any = self.given("t", "time", ())
        self.q: Any = self.given("q", "q", (model.nq,))
        self.v: Any = self.given("v", "v", (model.nv,))
        self.tau: Any = self.given("tau", "effort", (model.nv,))

    # ---- quantities

    def given(self, name: str, kind: str, shape: Shape, value: Array | None = None) -> Traced:
        """An input of the circuit; the same one if it is there already."""
        known = self._quantities.get(name)
        if known is None:
            known = self._quantities[name] = Quantity(name, kind, tuple(shape), value)
        elif (known.kind, known.shape) != (kind, tuple(shape)):
            raise LawError(
                f"{name!r} is a {known.kind} of shape {known.shape} and a {kind} of shape {shape}; "
                f"give one of the laws another name:  law.named('other')"
            )
        return Traced(known.node)

    def unique(self, name: str) -> str:
        """A name that nothing else begins with; with a number if it is taken."""
        count = self._names[name] = self._names.get(name, 0) + 1
        return name if count == 1 else f"{name}_{count}"

    def parameter(self, name: str, value: Any) -> Traced:
        """A number or an array that every trajectory may have its own of."""
        array = np.array(value, dtype=np.float64)
        return self.given(name, "parameter", array.shape, array)

    def state(self, name: str, first: Any) -> Traced:
        """A state of a law."""
        array = np.array(first, dtype=np.float64)
        return self.given(name, "state", array.shape, array)

    def state_shape(self, name: str) -> Shape:
        """The shape of a state."""
        return self._quantities[name].shape

    @property
    def step(self) -> Any:
        """The number of the step."""
        return self.given("step", "noise", ())

    def noise(self, shape: Shape, kind: str, seed: int) -> Traced:
        """Random numbers by counter."""
        trajectory = self.given("trajectory", "noise", ())
        numbers: Any = noise_numbers(self.step, trajectory, shape, kind, seed)
        return numbers

    # ---- programs of the algebra

    def expression(self, form: Expr | str, points: Any = None, axes: str = "world") -> Traced:
        """The value of an expression."""
        form = as_expression(form)
        where = None if points is None else point_set(self.model, points, axes)
        mode = "apply" if form.is_vector else "dense"
        operands: dict[str, Node] = {}
        for name in inputs_of([form]):
            if name == "tau":
                operands[name] = self.tau.node
            elif name not in ("q", "v"):
                raise LawError(
                    f"the expression {form} needs {name}, which is not known when laws act. "
                    f"Laws may read what depends on q, v and tau"
                )
        return self.evaluate((form,), (mode,), where, operands)[0]

    def evaluate(
        self,
        forms: tuple[Expr, ...],
        modes: tuple[str, ...],
        points: PointSet | None,
        operands: Mapping[str, Node],
    ) -> list[Traced]:
        """The results of a program."""
        key = (forms, modes, points, tuple(operands.items()))
        if key not in self._results:
            program = compile(forms, self.model, mode=modes, points=points)
            inputs = {n: np.zeros(shape) for n, shape in program.input_shapes.items()}
            inputs["q"] = self.model.neutral()
            found, _ = program(*(inputs[n] for n in program.inputs), on_error="return")
            names = tuple(f"evaluation.{len(self._evaluations)}.{i}" for i in range(len(forms)))
            for name, array in zip(names, found, strict=True):
                self.given(name, "result", np.shape(array))
            self._evaluations.append(Evaluation(forms, names, modes, points, dict(operands)))
            self._results[key] = names
        return [Traced(self._quantities[n].node) for n in self._results[key]]

    def kinematics(self, *_: Any) -> tuple[Traced, Traced]:
        """Poses (n, 4, 4) and velocities (n, 6) of all bodies."""
        poses, velocities = self.evaluate((pose, V), ("apply", "apply"), None, {})
        return poses, velocities

    @contextmanager
    def records_programs(self) -> Iterator[None]:
        """Inside, programs that are called with traced values become evaluations."""
        with recording(self._recorded):
            yield

    def _recorded(
        self, model: Model, request: Request, operands: Mapping[str, Node]
    ) -> Sequence[Traced]:
        if model is not self.model:
            fail("a program of another mechanism is called", "call it with that of the run")
        points = request.points if len(request.points) else None
        return self.evaluate(request.expressions, request.modes, points, operands)

    # ---- points

    def place(self, point: Any) -> tuple[Any, Any, Any, Array]:
        """Pose of the body of a point, its velocity, the offset there, and the frame's rotation."""
        body, local = self.model.resolve_point(point)
        offset = np.asarray(local.translation)
        if body < 0:
            return np.eye(4), np.zeros(6), offset, local.rotation
        poses, velocities = self.kinematics()
        return poses[body], velocities[body], offset, local.rotation

    def position(self, point: Any) -> Any:
        """Position of a point, world axes."""
        X, _, offset, _ = self.place(point)
        return X[:3, 3] + X[:3, :3] @ offset

    def twist(self, point: Any) -> Any:
        """Motion of a point's frame, world axes."""
        X, motion, offset, _ = self.place(point)
        R = X[:3, :3]
        return np.concatenate([R @ motion[:3], R @ (motion[3:] + np.cross(motion[:3], offset))])

    def velocity(self, point: Any) -> Any:
        """Velocity of a point, world axes."""
        return self.twist(point)[3:]

    def pose(self, point: Any) -> Any:
        """Pose of a frame in the world."""
        X, _, offset, rotation = self.place(point)
        local = np.eye(4)
        local[:3, :3], local[:3, 3] = rotation, offset
        return X @ local

    def length(self, a: Any, b: Any) -> Any:
        """Distance of two points."""
        gap = self.position(b) - self.position(a)
        return np.sqrt(gap @ gap)

    def length_rate(self, a: Any, b: Any) -> Any:
        """Rate of the distance of two points."""
        gap = self.position(b) - self.position(a)
        length = np.sqrt(gap @ gap)
        speed = gap @ (self.velocity(b) - self.velocity(a))
        return np.where(length > 0, speed / np.where(length > 0, length, 1.0), 0.0)

    def load_at(self, point: Any, wrench: Any) -> None:
        """A force on the body of a point: [moment; force] there, world axes."""
        body, local = self.model.resolve_point(point)
        if body < 0:
            raise LawError(f"the point {point!r} is fixed in the world, which a force cannot move")
        R = self.kinematics()[0][body, :3, :3]
        force = R.T @ wrench[3:]
        moment = R.T @ wrench[:3] + np.cross(np.asarray(local.translation), force)
        out = Traced(ops.constant(np.zeros((self.model.n_bodies, 6))))
        out[body] = np.concatenate([moment, force])
        self.add("loads", out)

    # ---- what comes out

    def add(self, where: str, value: Any) -> None:
        """Add to the efforts, the loads or the energy of all laws."""
        node = as_node(value)
        known = self._sums.get(where)
        self._sums[where] = node if known is None else ops.apply("add", known, node)

    def change(self, state: str, rate: Node) -> None:
        """The rate of a continuous state."""
        self._rates[state] = rate

    def record(self, name: str, node: Node) -> None:
        """Make a quantity recordable."""
        self._records[name] = node

    def update(self, period: int, updates: Mapping[str, Node]) -> None:
        """Next values of states at every `period` steps; what is held is taken as it is then."""
        new = substituted(list(updates.values()), self._held)
        self._updates.setdefault(period, {}).update(zip(updates, new, strict=True))

    def hold(self, period: int, name: str, value: Node, delay: int) -> Traced:
        """A value that is sampled every `period` steps, held, and late by some samples."""
        names = [f"{name}.delay{i}" if i else name for i in range(delay, -1, -1)]
        kept = [self.state(n, np.zeros(value.shape)) for n in names]
        self.update(period, dict(zip(names, [value, *(x.node for x in kept)], strict=False)))
        last = kept[-1]
        now = Traced(self._updates[period][name])
        due = self.step - np.floor(self.step / period) * period == 0 if period > 1 else None
        self._held[last.node] = as_node(now if due is None else np.where(due, now, last))
        return last

    def circuit(self) -> Circuit:
        """Everything that was collected."""
        return Circuit(
            self._quantities,
            tuple(self._evaluations),
            self._sums.get("efforts"),
            self._sums.get("loads"),
            self._rates,
            tuple(Sampling(n, self._updates[n]) for n in sorted(self._updates)),
            self._records,
            self._sums.get("energy"),
        )


def run_evaluation(model: Model) -> Callable[[Evaluation, dict[str, Array]], Sequence[Array]]:
    """What `Circuit.values` needs to run the evaluations of a circuit of a model."""

    def run(one: Evaluation, inputs: dict[str, Array]) -> Sequence[Array]:
        program = compile(one.forms, model, mode=one.modes, points=one.points)
        return program(*(inputs[name] for name in program.inputs))

    return run
