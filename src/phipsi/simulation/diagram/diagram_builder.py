"""DiagramBuilder: what laws are traced with, and where what they say is collected."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, final

import numpy as np

from phipsi import contact
from phipsi.algorithms import forward_with_rows
from phipsi.core.arrays import (
    Array,
    Node,
    Shape,
    Tracer,
    as_node,
    fail,
    in_order,
    law_operations as ops,
    recording,
    substituted,
)
from phipsi.core.compiler import compile
from phipsi.core.expressions import Expr
from phipsi.core.model import Model, PointSet, as_floats, point_set
from phipsi.core.operators import A, J, V, as_expression, inputs_of, pose
from phipsi.core.sweeps import Request
from phipsi.errors import LawError, did_you_mean
from phipsi.laws import (
    INERTIA,
    AlgebraBlock,
    BlockDiagram,
    JointRows,
    Quantity,
    Range,
    Sampling,
    noise_numbers,
)


@final
class DiagramBuilder:
    """Quantities, evaluations and sums of a circuit while it grows.

    **Attributes:** `mechanism`; `model`, its tree; `dt`, s; `t`, `q`, `v`, `tau`, traced inputs;
    `of_trajectories`, names of per-trajectory quantities of the algebra.
    """

    def __init__(self, mechanism: Model, dt: float, given: Sequence[str] = ()) -> None:
        self.mechanism, self.dt, self.of_trajectories = mechanism, dt, tuple(given)
        self.model = model = mechanism.model
        self._quantities: dict[str, Quantity] = {}
        self._results: dict[Any, tuple[str, ...]] = {}
        self._evaluations: list[AlgebraBlock] = []
        self._terms: dict[str, list[tuple[str, Node]]] = {}
        self._totals: dict[str, Node] = {}
        self._rows: dict[int, None] = {}
        self._joint_rows: list[JointRows] = []
        self._rates: dict[str, Node] = {}
        self._updates: dict[int, dict[str, Node]] = {}
        self._delays: dict[int, dict[str, Node]] = {}
        self._records: dict[str, Node] = {}
        self._held: dict[Node, Node] = {}
        self._names: dict[str, int] = {}
        self.t: Any = self.given("t", "time", ())
        self.q: Any = self.given("q", "q", (model.nq,))
        self.v: Any = self.given("v", "v", (model.nv,))
        self.tau: Any = self.given("tau", "effort", (model.nv,))

    # ---- quantities

    def given(
        self,
        name: str,
        kind: str,
        shape: Shape,
        value: Array | None = None,
        fixed: tuple[Array, str] | None = None,
        range: Range | None = None,
    ) -> Tracer:
        """An input of the circuit; the same one if it already exists."""
        known = self._quantities.get(name)
        if known is None:
            known = self._quantities[name] = Quantity(name, kind, tuple(shape), value, fixed, range)
        elif (known.kind, known.shape) != (kind, tuple(shape)):
            raise LawError(
                f"{name!r} is a {known.kind} of shape {known.shape} and a {kind} of shape "
                f"{shape}; rename one of the laws:  law.named('other')"
            )
        return Tracer(known.node)

    def unique(self, name: str) -> str:
        """A name that nothing else begins with; with a number if it is taken."""
        count = self._names[name] = self._names.get(name, 0) + 1
        return name if count == 1 else f"{name}_{count}"

    def parameter(
        self,
        name: str,
        value: Any,
        fixed: tuple[Array, str] | None = None,
        range: Range | None = None,
    ) -> Tracer:
        """A number or an array that every trajectory may have its own of, where it is not fixed."""
        array = np.array(value, dtype=np.float64)
        return self.given(name, "parameter", array.shape, array, fixed, range)

    def state(self, name: str, first: Any) -> Tracer:
        """A state of a law."""
        array = np.array(as_floats(f"the first value of {name}", first))
        return self.given(name, "state", array.shape, array)

    def state_shape(self, name: str) -> Shape:
        """The shape of a state."""
        return self._quantities[name].shape

    def first_value(self, state: str) -> Array:
        """The value with which a state begins."""
        return np.asarray(self._quantities[state].value)

    @property
    def step(self) -> Any:
        """The number of the step."""
        return self.given("step", "noise", ())

    def noise(self, shape: Shape, kind: str, seed: int) -> Tracer:
        """Random numbers by counter."""
        trajectory = self.given("trajectory", "noise", ())
        numbers: Any = noise_numbers(self.step, trajectory, shape, kind, seed)
        return numbers

    # ---- programs of the algebra

    def expression(self, form: Expr | str, points: Any = None, axes: str = "world") -> Tracer:
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
                    f"the expression {form} needs {name}, which is not available to laws. Laws "
                    "may read what depends on q, v and tau"
                )
        return self.evaluate((form,), (mode,), where, operands)[0]

    def evaluate(
        self,
        forms: tuple[Expr, ...],
        modes: tuple[str, ...],
        points: PointSet | None,
        operands: Mapping[str, Node],
        *,
        nominal: bool = False,
    ) -> list[Tracer]:
        """The results of a program; `nominal` as for `AlgebraBlock`."""
        nominal = nominal and bool(self.of_trajectories)
        key = (forms, modes, points, tuple(operands.items()), nominal)
        if key not in self._results:
            program = compile(forms, self.model, mode=modes, points=points)
            inputs = {n: np.zeros(shape) for n, shape in program.input_shapes.items()}
            inputs["q"] = self.model.neutral()
            found, _ = program(*(inputs[n] for n in program.inputs), on_error="best")
            names = tuple(f"evaluation.{len(self._evaluations)}.{i}" for i in range(len(forms)))
            for name, array in zip(names, found, strict=True):
                self.given(name, "result", np.shape(array))
            one = AlgebraBlock(forms, names, modes, points, dict(operands), nominal=nominal)
            self._evaluations.append(one)
            self._results[key] = names
        return [Tracer(self._quantities[n].node) for n in self._results[key]]

    def kinematics(self, *_: Any) -> tuple[Tracer, Tracer]:
        """Poses (n, 4, 4) and velocities (n, 6) of all bodies."""
        poses, velocities = self.evaluate((pose, V), ("apply", "apply"), None, {})
        return poses, velocities

    def mass_moments(self) -> tuple[Any, Any] | None:
        """Masses (n,) and first moments m c (n, 3) that trajectories give; None if they do not."""
        n = self.model.n_bodies
        if INERTIA in self.of_trajectories:
            ten: Any = Tracer(ops.input(INERTIA, (n, 10)))
            return ten[:, 0], ten[:, 1:4]
        if "M" in self.of_trajectories:  # [[J, m c~], [−m c~, m I]]
            M: Any = Tracer(ops.input("M", (n, 6, 6)))
            return M[:, 5, 5], np.stack([M[:, 2, 4], M[:, 0, 5], M[:, 1, 3]], axis=-1)
        return None

    @contextmanager
    def records_programs(self) -> Generator[None]:
        """Inside, programs that are called with traced values become evaluations."""
        with recording(self._recorded):
            yield

    def _recorded(
        self, model: Model, request: Request, operands: Mapping[str, Node]
    ) -> Sequence[Tracer]:
        if model is not self.model:
            fail(
                "it calls a program of another mechanism",
                "call a program of the simulated mechanism",
            )
        points = request.points if len(request.points) else None
        what = request.expressions, request.modes, points, operands
        return self.evaluate(*what, nominal=True)  # a program is that of its model

    # ---- what follows from all laws together

    def joint_efforts(self, *joints: str) -> Any:
        """All efforts at the joints."""
        total: Any = Tracer(self._total("joint_efforts", (self.model.nv,)))
        if not joints:
            return total
        for name in joints:
            if name not in self.model.joint_names:
                hint = did_you_mean(str(name), self.model.joint_names)
                raise LawError(f"there is no joint {name!r}. {hint}")
        places = [range(self.model.nv)[self.model.joint_rates(name)] for name in joints]
        return total[[i for part in places for i in part]]

    def constraint_loads(self, *constraints: str) -> Any:
        """Multipliers of constraint rows."""
        closures = self.mechanism.closures
        names = [x.name for x in closures.closures]
        for name in constraints:
            if name not in names:
                raise LawError(f"there is no constraint {name!r}. {did_you_mean(str(name), names)}")
        rows = list(range(closures.n_rows))
        if constraints:
            owners = [names[i] for i in closures.row_closure]
            rows = [i for name in constraints for i in rows if owners[i] == name]
        total: Any = Tracer(self._constrained_total("constraint_loads", closures.n_rows))
        self._rows |= dict.fromkeys(rows)
        return total[rows]

    def constraint_efforts(self) -> Any:
        """Efforts of the constraints at the joints."""
        return Tracer(self._constrained_total("constraint_efforts", self.model.nv))

    def contact_force(self, pair: str) -> Any:
        """The force of a pair of shapes in the last step."""
        contacts = self.mechanism.contact_pairs
        if contacts is None:
            raise LawError(
                f"contact_force needs contacts, and {self.mechanism!r} has none here. Simulate "
                "with fixed steps:\n"
                "    pp.Simulator(pp.System(model, contacts=…), laws, "
                "integrator='time_stepping')"
            )
        names = contacts.slot_names
        rows = [i for i, name in enumerate(names) if name == pair]
        if not rows:
            hint = did_you_mean(str(pair), list(dict.fromkeys(names)))
            raise LawError(f"there is no pair of shapes {pair!r}. {hint}")
        name = contact.contact_rows.IMPULSES
        impulses: Any = self.state(name, np.zeros((contacts.n_slots, 6)))
        return np.sum(impulses[rows][:, 3:], axis=0) / Tracer(ops.input("h", ()))

    def _total(self, name: str, shape: Shape) -> Node:
        """What is known when all laws are: until then an input that stands for it."""
        return self._totals.setdefault(name, ops.input(name, shape))

    def _constrained_total(self, name: str, size: int) -> Node:
        if not self.mechanism.n_rows:
            raise LawError(
                f"{name} needs constraints, and {self.mechanism!r} has none. Simulate a system "
                "with constraints:\n"
                "    pp.Simulator(pp.System(model, constraints), laws)"
            )
        return self._total(name, (size,))

    def cycles(self) -> dict[str, list[str]]:
        """By total, the laws whose efforts or forces read it although it follows from them."""
        out: dict[str, list[str]] = {}
        for name in self._totals:
            parts = ("efforts",) if name == "joint_efforts" else ("efforts", "loads")
            terms = [x for part in parts for x in self._terms.get(part, ())]
            found = [law for law, node in terms if name in self._reads([node])]
            if found:
                out[name] = list(dict.fromkeys(found))
        return out

    def _reads(self, nodes: Sequence[Node]) -> set[str]:
        """The names of inputs that nodes read, also by way of evaluations."""
        owners = {name: one for one in self._evaluations for name in one.results}
        names: set[str] = set()
        ahead = list(nodes)
        while ahead:
            new = {x.data[0] for x in in_order(ahead) if x.operation.name == "input"} - names
            names |= new
            ahead = [y for x in new if x in owners for y in owners[x].operands.values()]
        return names

    def _with_totals(self, made: BlockDiagram) -> BlockDiagram:
        """The circuit with totals in the places of the inputs that stood for them."""
        tau = self.tau.node
        total = tau if made.efforts is None else ops.apply("add", tau, made.efforts)
        known, evaluations = {}, list(made.evaluations)
        forms = []
        for name, node in self._totals.items():
            if name == "joint_efforts":
                known[node] = total
                continue
            self.given(name, "result", node.shape)
            f = forward_with_rows(None, made.loads is not None, False)[1]
            forms.append((name, f if name == "constraint_loads" else -(J.T @ (A.T @ f))))
        if forms:
            operands = {"tau": total} if made.loads is None else {"tau": total, "f_ext": made.loads}
            names, several = zip(*forms, strict=True)
            modes = ("apply",) * len(forms)
            evaluations.append(
                AlgebraBlock(several, names, modes, None, operands, constrained=True)
            )
        return _ordered(replaced(replace(made, evaluations=tuple(evaluations)), known))

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

    def load_at(self, point: Any, wrench: Any, law: str = "") -> None:
        """A force on the body of a point: [moment; force] there, world axes."""
        body, local = self.model.resolve_point(point)
        if body < 0:
            raise LawError(
                f"the point {point!r} is fixed in the world, where a force has no effect"
            )
        R = self.kinematics()[0][body, :3, :3]
        force = R.T @ wrench[3:]
        moment = R.T @ wrench[:3] + np.cross(np.asarray(local.translation), force)
        out = Tracer(ops.constant(np.zeros((self.model.n_bodies, 6))))
        out[body] = np.concatenate([moment, force])
        self.add("loads", out, law)

    # ---- what comes out

    def add(self, where: str, value: Any, law: str = "") -> None:
        """Add what a law says to the efforts, the loads or the energy of all laws."""
        self._terms.setdefault(where, []).append((law, as_node(value)))

    def _sum(self, where: str) -> Node | None:
        total: Node | None = None
        for _, node in self._terms.get(where, ()):
            total = node if total is None else ops.apply("add", total, node)
        return total

    def add_rows(self, rows: JointRows) -> None:
        """Rigid stops, ropes and dry friction, with traced gaps and bounds."""
        self._joint_rows.append(rows)

    def _all_rows(self) -> JointRows:
        return _changed(JointRows.joined(self._joint_rows), as_node)

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

    def remember(self, period: int, state: str, node: Node) -> None:
        """A state is what a node was in the step before, or in the sample before `period` steps."""
        self._delays.setdefault(period, {})[state] = node

    def hold(self, period: int, name: str, value: Node, delay: int) -> Tracer:
        """A value that is sampled every `period` steps, held, and late by some samples."""
        names = [f"{name}.delay{i}" if i else name for i in range(delay, -1, -1)]
        kept = [self.state(n, np.zeros(value.shape)) for n in names]
        self.update(period, dict(zip(names, [value, *(x.node for x in kept)], strict=False)))
        last = kept[-1]
        now = Tracer(self._updates[period][name])
        due = self.step - np.floor(self.step / period) * period == 0 if period > 1 else None
        self._held[last.node] = as_node(now if due is None else np.where(due, now, last))
        return last

    def circuit(self) -> BlockDiagram:
        """Everything that was collected."""
        made = BlockDiagram(
            self._quantities,
            tuple(self._evaluations),
            self._sum("efforts"),
            self._sum("loads"),
            self._rates,
            tuple(Sampling(n, self._updates[n]) for n in sorted(self._updates)),
            self._records,
            self._sum("energy"),
            tuple(self._rows),
            self._all_rows(),
            given=self.of_trajectories,
            delays=tuple(Sampling(n, self._delays[n]) for n in sorted(self._delays)),
        )
        return self._with_totals(made) if self._totals else made


def replaced(made: BlockDiagram, known: Mapping[Node, Node]) -> BlockDiagram:
    """A circuit with other nodes in the places of some."""

    def one(node: Node | None) -> Node | None:
        return None if node is None else substituted([node], known)[0]

    def each(nodes: Mapping[str, Node]) -> dict[str, Node]:
        return dict(zip(nodes, substituted(list(nodes.values()), known), strict=True))

    return replace(
        made,
        evaluations=tuple(replace(x, operands=each(x.operands)) for x in made.evaluations),
        efforts=one(made.efforts),
        loads=one(made.loads),
        rates=each(made.rates),
        samplings=tuple(replace(x, updates=each(x.updates)) for x in made.samplings),
        records=each(made.records),
        energy=one(made.energy),
        joint_rows=_changed(made.joint_rows, lambda x: substituted([x], known)[0]),
        delays=tuple(replace(x, updates=each(x.updates)) for x in made.delays),
    )


def _changed(rows: JointRows, change: Callable[[Any], Node]) -> JointRows:
    """Rows with other values in the places of theirs."""
    known = {name: getattr(rows, name) for name in ("gaps", "bounds", "slacks", "pulls")}
    return replace(rows, **{name: change(x) for name, x in known.items() if x is not None})


def _ordered(made: BlockDiagram) -> BlockDiagram:
    """The circuit with its evaluations in an order in which each has what it reads."""
    owners = {name: one for one in made.evaluations for name in one.results}
    done: dict[AlgebraBlock, None] = {}

    def take(one: AlgebraBlock) -> None:
        for x in in_order(one.operands.values()):
            if x.operation.name == "input" and x.data[0] in owners:
                take(owners[x.data[0]])
        done[one] = None

    for one in made.evaluations:
        take(one)
    return replace(made, evaluations=tuple(done))


def run_evaluation(mechanism: Model) -> Callable[[AlgebraBlock, dict[str, Array]], Sequence[Array]]:
    """What `BlockDiagram.values` needs to run the evaluations of a circuit of a mechanism."""

    def run(one: AlgebraBlock, inputs: dict[str, Array]) -> Sequence[Array]:
        of = mechanism if one.constrained else mechanism.model
        program = compile(one.forms, of, mode=one.modes, points=one.points)
        return program(*(inputs[name] for name in program.inputs))

    return run
