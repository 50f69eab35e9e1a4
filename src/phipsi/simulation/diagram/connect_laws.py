"""block_diagram: laws traced with the quantities of a mechanism, and joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np

from phipsi.core.arrays import (
    Node,
    Shape,
    Tracer,
    as_node,
    called_with_numbers,
    constant,
    expand,
    fail,
    not_negative_names,
    parameters_by_name,
    short,
    traced_call,
    traced_twice,
)
from phipsi.core.expressions import Expr
from phipsi.core.model import Model, as_floats, flattened
from phipsi.errors import InputError, LawError, PhipsiError, did_you_mean
from phipsi.laws import OUTPUTS, RESERVED, BlockDiagram, Law, Range, Signal, seeded
from phipsi.simulation.diagram.check_laws import check_acting, check_commands
from phipsi.simulation.diagram.diagram_builder import DiagramBuilder


def block_diagram(
    mechanism: Model, laws: Any, dt: float, given: Sequence[str] = (), *, quiet: bool = False
) -> BlockDiagram:
    """All laws of a run, traced once and joined.

    **Arguments:** `mechanism`, a model or a system; `laws`, a diagram, a law or several: `Law`,
    force elements, controllers ``(t, q, v) -> tau`` in traceable arithmetic; `dt`, the step of the
    run, s, which sampled laws must fit; `given`, as for `Simulator`: signals, expressions and
    elements then read what the trajectory has, and programs that laws call are those of its model;
    `quiet`, without warnings about laws that hardly do what was meant.
    **Returns:** a `BlockDiagram`. **Raises:** `LawError`, with the line of the law.

    >>> import phipsi as pp
    >>> from phipsi.simulation.diagram.connect_laws import block_diagram
    >>> @pp.law
    ... def damp(v, c):
    ...     return -c * v
    >>> made = block_diagram(pp.examples.planar_arm(2), [damp.bind(c=0.5)], 1e-3)
    >>> list(made.of_kind("parameter")), made.efforts.shape
    (['damp.c'], (2,))
    """
    if isinstance(laws, BlockDiagram):
        return laws
    wiring = DiagramBuilder(mechanism, dt, given)
    several = flattened(laws) if isinstance(laws, Iterable) else (laws,)
    functions: list[Law] = []
    together: dict[Callable[..., None], list[Any]] = {}
    for one in several:
        if isinstance(one, Law):
            functions.append(one)
        elif hasattr(type(one), "wire_all") and not isinstance(one, type):
            together.setdefault(type(one).wire_all, []).append(one)
        elif callable(one) and not isinstance(one, type):
            functions.append(_of_controller(one))
        else:
            hint = "make one from the class" if isinstance(one, type) else "decorate a function"
            raise LawError(
                f"laws has {short(one)}, which is not a law, a force element or a controller; "
                f"{hint}:\n    @pp.law\n    def hold(q, v): …"
            )
    for wire_all, elements in together.items():
        with wiring.records_programs():
            wire_all(elements, wiring)
    several_laws = _Laws(wiring, functions)
    several_laws.wire()
    if not quiet:
        several_laws.warn()
    return wiring.circuit()


def _of_controller(function: Callable[..., Any]) -> Law:
    """A controller (t, q, v) → tau as a law; its numbers are parameters."""
    name = getattr(function, "__name__", None) or type(function).__name__
    numbers, run = parameters_by_name(function), called_with_numbers(function)

    def controller(t: Any, q: Any, v: Any, **given: Any) -> Any:
        return run(t, q, v, **given)

    controller.__wrapped__ = function  # type: ignore[attr-defined]
    name = name if name.isidentifier() else "controller"
    ranges = dict.fromkeys(not_negative_names(function), Range())
    return Law(controller, name, ("t", "q", "v", *numbers), ranges=ranges).bind(**numbers)


_OTHER_NAMES = {
    "v": ("qd", "dq", "qdot", "q_dot", "qvel", "vel", "velocity", "velocities", "omega", "dqdt"),
    "t": ("time", "time_s"),
    "q": ("qpos", "pos", "position", "positions", "theta", "angle", "angles"),
    "q and v, two arguments": ("x", "state"),
}
"""What users of other libraries call the arguments of a law."""


@final
class _Laws:
    """Laws by name, each traced after those that it reads."""

    def __init__(self, wiring: DiagramBuilder, laws: list[Law]) -> None:
        self.wiring, self.laws = wiring, _by_name(laws)
        self._given = dict(zip(self.laws, laws, strict=True))
        self._done: dict[str, dict[str, Any]] = {}
        self._open: list[str] = []
        self._previous: list[tuple[str, str, str]] = []
        self._reads: dict[str, list[str]] = {}

    def wire(self) -> None:
        """Trace all laws."""
        for name in self.laws:
            self.outputs(name)
        for state, name, output in self._previous:
            node = as_node(self._output(name, output))
            known = self.wiring.state_shape(state)
            if node.shape != known:
                fail(
                    f"previous({name!r}, {output!r}) begins with shape {known}, but the output has "
                    f"shape {node.shape}",
                    "pass initial= in that shape",
                    self.laws[name].place,
                )
            self.wiring.remember(_period(self.laws[name], self.wiring.dt), state, node)
        for total, members in self.wiring.cycles().items():
            self._reject_cycle(total, members[0])

    def warn(self) -> None:
        """Warn of laws that were accepted, but hardly do what was meant."""
        read = {x for several in self._reads.values() for x in several}
        check_acting(self.laws, self._done, read | {x[1] for x in self._previous})
        check_commands(self.laws, self._name, lambda x: _places(self.wiring.model, x, "v"))

    def _reject_cycle(self, total: str, law: str) -> None:
        """A law changes a total that it reads, itself or through the laws that it reads."""
        paths = [[law]]
        while not _binds(self.laws[paths[-1][-1]], total):
            path = paths.pop()
            paths += [[*path, x] for x in self._reads.get(path[-1], ())]
        last = self.laws[paths[-1][-1]]
        argument, signal = next((n, x) for n, x in last.bound.items() if _is_of(x, total))
        members = " → ".join([total, *reversed(paths[-1]), total])
        raise LawError(
            f"{last.place}{last.name} reads {total}, which depends on {law}: {members}. This is "
            f"an algebraic loop. Read the value of the previous step, or sample {law} at a rate:\n"
            f"    {last.name}.bind({argument}=pp.signals.previous(pp.signals.{signal!r}, "
            "initial=0.0))"
        )

    def outputs(self, name: str, asked: str = "tau") -> dict[str, Any]:
        """What a law returns, by name; traced when it is first asked for, for one output."""
        if name not in self.laws:
            raise LawError(
                f"a law reads the output of {name!r}, which is not among the laws of the "
                f"simulation. {did_you_mean(name, self.laws)}"
            )
        if name in self._open:
            members = " → ".join([*self._open[self._open.index(name) :], name])
            raise LawError(
                f"the laws {members} read each other's outputs: this is an algebraic loop. Break "
                "it with the value of the previous step, initial= in the shape of the output:\n"
                f"    {self._broken_loop(name, asked)}"
            )
        if name not in self._done:
            self._open.append(name)
            self._done[name] = self._wired(self.laws[name])
            self._open.pop()
        return self._done[name]

    def _broken_loop(self, name: str, asked: str) -> str:
        """The line for the law that reads the output of one that waits for it."""
        signal = f"pp.signals.previous({name!r}, {asked!r}, initial=0.0)"
        reader = self.laws[self._open[-1]]
        argument = next((n for n, x in reader.bound.items() if self._is_output(x, name)), None)
        return signal if argument is None else f"{reader.name}.bind({argument}={signal})"

    def _is_output(self, value: Any, name: str) -> bool:
        """Whether a bound value is an output of a law."""
        of_law = isinstance(value, Signal) and value.kind == "output"
        return of_law and self._name(value.of[0]) == name

    def _name(self, law: Any) -> str:
        """The name in this simulation of a law that is read, itself or by its name."""
        if isinstance(law, Law):
            return read_law(law, self._given)
        name = str(getattr(law, "name", law))
        same = [n for n, x in self._given.items() if x.name == name]
        if len(same) > 1:
            raise LawError(_ambiguous(name, same))
        return name

    def output(self, law: Any, output: str) -> Any:
        """One output of a law."""
        name = self._name(law)
        if self._open:
            self._reads.setdefault(self._open[-1], []).append(name)
        return self._output(name, output)

    def _output(self, name: str, output: str) -> Any:
        found = self.outputs(name, output)
        if output not in found:
            fail(f"the law has no output {output!r}. {did_you_mean(output, found)[:-1]}",
                 place=self.laws[name].place)  # fmt: skip
        return found[output]

    def previous(self, law: Any, *rest: Any) -> Any:
        """An output or a signal of the step before, as a state."""
        if isinstance(law, Signal):
            return self._previous_signal(law, *rest)
        name, (output, initial) = self._name(law), rest
        if name not in self.laws:
            self.outputs(name)  # says what is wrong
        state = f"{name}.{output}.previous"
        if all(x[0] != state for x in self._previous):
            self._previous.append((state, name, output))
        return self._remembered(state, initial)

    def _previous_signal(self, signal: Signal, initial: Any) -> Any:
        node = as_node(getattr(self.wiring, signal.kind)(*signal.of))
        array = as_floats("initial", initial)
        if array.shape not in ((), node.shape):
            raise LawError(
                f"initial={short(initial)} has shape {array.shape}, but {signal!r} has shape "
                f"{node.shape}"
            )
        state = f"{signal!r}.previous"
        self.wiring.remember(1, state, node)
        return self._remembered(state, np.broadcast_to(array, node.shape))

    def _remembered(self, state: str, initial: Any) -> Any:
        """A state that remembers, the same for all laws that read it."""
        out = self.wiring.state(state, initial)
        first = self.wiring.first_value(state)
        if not np.array_equal(first, initial):
            raise LawError(
                f"initial={short(initial)}, but another law reads the same previous value with "
                f"initial={short(first)}. Before the first step there is one value: pass the "
                "same to both laws"
            )
        return out

    # ---- one law

    def _wired(self, law: Law) -> dict[str, Any]:
        arguments = {name: self._argument(law, name) for name in law.arguments}
        try:
            found = traced_twice(
                lambda: _traced(law, arguments, self.wiring), _are_alike, law.function, law.place
            )
        except LawError as error:
            if not _is_ready(law):
                raise
            shapes = ", ".join(f"{n} {np.shape(x)}" for n, x in arguments.items())
            raise LawError(
                f"{law.name}, whose arguments have the shapes {shapes}:\n{error}"
            ) from None
        for name in (*law.states, *law.discrete):
            if name not in found:
                what = "rate" if name in law.states else "next value"
                fail(f"the law does not return the {what} of its state {name!r}",
                     f"return {{'tau': …, {name!r}: …}}", law.place)  # fmt: skip
        period = _period(law, self.wiring.dt)
        nodes = {name: self._shaped(law, name, x) for name, x in found.items()}
        if law.discrete:
            updates = {f"{law.name}.{n}": nodes[n] for n in law.discrete}
            self.wiring.update(period, updates)
        for name in law.states:
            self.wiring.change(f"{law.name}.{name}", nodes[name])
        out = {n: x for n, x in nodes.items() if n not in (*law.states, *law.discrete)}
        if law.rate is not None:
            out = {
                name: self.wiring.hold(period, f"{law.name}.{name}", node, law.delay).node
                for name, node in out.items()
            }
        for name, node in out.items():
            self._acts(law, name, Tracer(node))
        return {name: Tracer(node) for name, node in out.items()}

    def _argument(self, law: Law, name: str) -> Any:
        wiring = self.wiring
        if name in ("q", "v", "tau_given"):
            whole = {"q": wiring.q, "v": wiring.v, "tau_given": wiring.tau}[name]
            if law.joints is None:
                return whole
            places = _places(wiring.model, law, "q" if name == "q" else "v")
            return Tracer(whole[places].node, owned=False)
        if name == "t":
            return wiring.t
        for first in (law.states, law.discrete):
            if name in first:
                return wiring.state(f"{law.name}.{name}", first[name])
        if name not in law.bound:
            meant = next((x for x, names in _OTHER_NAMES.items() if name in names), None)
            hint = "" if meant is None else f"the argument {name} is called {meant} here; or "
            fail(
                f"argument {name!r} is not bound",
                (
                    f"{hint}"
                    f"write  {law.name}.bind({name}=…)  with a number, an array, an expression, or "
                    f"one of pp.signals; {', '.join(RESERVED)} are supplied by the simulation"
                ),
                law.place,
            )
        value = law.bound[name]
        try:
            if isinstance(value, Expr):
                return wiring.expression(value)
            if isinstance(value, Signal) and value.kind == "interval":
                return Tracer(constant(wiring.dt if law.rate is None else 1.0 / law.rate))
            if isinstance(value, Signal):
                owner = self if value.kind in ("output", "previous") else wiring
                value = seeded(value, law.name, name)
                return Tracer(as_node(getattr(owner, value.kind)(*value.of)), owned=False)
        except PhipsiError as error:
            if isinstance(error, LawError) and self._open[-1:] != [law.name]:
                raise
            raise LawError(f"{law.place}{name}={short(value)}: {error}") from error
        return wiring.parameter(f"{law.name}.{name}", value, range=law.ranges.get(name))

    def _shaped(self, law: Law, name: str, value: Any) -> Node:
        """An output in the shape that it must have."""
        node, shape = as_node(value), self._shape(law, name)
        if shape is None or node.shape == shape:
            return node
        if name == "tau" and node.shape == ():
            return expand(node, shape)
        what = {"tau": "efforts"}.get(name, repr(name))
        fail(f"the law returns {what} of shape {node.shape} instead of {shape}",
             _advice(law, name, self.wiring.model, node.shape), law.place)  # fmt: skip

    def _shape(self, law: Law, name: str) -> Shape | None:
        model = self.wiring.model
        rows = () if law.single_point else (len(law.points),)
        known: dict[str, Shape] = {
            "tau": (len(_places(model, law, "v")),), "body_forces": (model.n_bodies, 6),
            "energy": (), "force": (*rows, 3), "wrench": (*rows, 6),
            **{n: x.shape for n, x in {**law.states, **law.discrete}.items()},
        }  # fmt: skip
        return known.get(name)

    def _acts(self, law: Law, name: str, value: Tracer) -> None:
        wiring = self.wiring
        wiring.record(f"{law.name}.{name}", value.node)
        if not law.acts:
            return
        if name == "tau":
            whole = value
            if law.joints is not None:
                whole = np.zeros_like(wiring.v)
                whole[_places(wiring.model, law, "v")] = value
            wiring.add("efforts", whole, law.name)
        elif name == "body_forces":
            wiring.add("loads", value, law.name)
        elif name == "energy":
            wiring.add("energy", value, law.name)
        elif name in ("force", "wrench"):
            rows = [value] if law.single_point else list(value)
            for point, row in zip(law.points, rows, strict=True):
                whole = row if name == "wrench" else np.concatenate([np.zeros(3), row])
                try:
                    wiring.load_at(point, whole, law.name)
                except PhipsiError as error:
                    raise LawError(f"{law.place}{error}") from error


def _is_of(value: Any, total: str) -> bool:
    """Whether a bound value is a total."""
    return isinstance(value, Signal) and value.kind == total


def _binds(law: Law, total: str) -> bool:
    return any(_is_of(x, total) for x in law.bound.values())


def _traced(law: Law, arguments: Mapping[str, Any], wiring: DiagramBuilder) -> dict[str, Any]:
    """What the function returns, by name."""
    with wiring.records_programs():
        found = traced_call(law.function, **arguments)
    if found is None:
        fail("the law returns nothing", "return tau, or {'tau': …}", law.place)
    out = dict(found) if isinstance(found, Mapping) else {"tau": found}
    if not out:
        fail("the law returns an empty dictionary", "return {'tau': …}", law.place)
    for name, value in out.items():
        if not isinstance(name, str) or not name.isidentifier():
            fail(f"the output {short(name)} is not a name", "return {'tau': …}", law.place)
        if name in ("force", "wrench") and not law.points:
            bound = ".bind(…)" if law.bound else ""
            line = f"{law.name}{bound}.at({wiring.model.body_names[-1]!r})"
            fail(f"the point where {name!r} acts is missing", f"pass  {line}", law.place)
        if name in RESERVED:
            why = f"the output {name!r} has the name of an input"
            fail(why, f"return it under another name:  {{'{name}_wanted': …}}", law.place)
        try:
            as_node(value)
        except LawError as error:
            text = str(error).partition(":\n")[2].partition("\n")[2] or str(error)
            raise LawError(f"{law.place}output {name!r}: {text}") from None
    return out


def check_controller_acts(law: Law, made: BlockDiagram) -> None:
    """Reject a law without torques or forces as a controller: it would have no effect."""
    known = [x.removeprefix(f"{law.name}.") for x in made.records if x.startswith(f"{law.name}.")]
    if not law.acts:
        raise InputError(
            f"controller: {law.name} is silent: its torques are computed but not applied. Pass "
            "the law itself, without .silent()"
        )
    if not {"tau", "force", "wrench", "body_forces"}.intersection(known):
        raise InputError(
            f"controller: the law {law.name!r} returns {', '.join(map(repr, known))} but no "
            "'tau', so it has no effect. Return the torques and forces of the joints, one entry "
            "per velocity, under that name:\n"
            "    return {'tau': …}"
        )


def _is_ready(law: Law) -> bool:
    """Whether the function of a law is one of this library, whose lines are not the user's."""
    return law.place == f"{law.name}: "


def _are_alike(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether a law returns the same graphs under the same names."""
    return list(first) == list(second) and all(
        as_node(x) is as_node(second[n]) for n, x in first.items()
    )


def _advice(law: Law, name: str, model: Model, shape: Shape) -> str:
    if name == "tau" and law.joints:
        return f"return one entry per velocity of {', '.join(map(repr, law.joints))}"
    if name == "tau":
        listed = ", ".join(map(repr, model.joint_names[:6]))
        listed += ", …" if len(model.joint_names) > 6 else ""
        text = f"return one entry per velocity of all joints (nv = {model.nv}: {listed})"
        if len(shape) == 1 and 0 < shape[0] < model.nv <= 8:
            padded = [f"tau[{i}]" if i < shape[0] else "0.0" for i in range(model.nv)]
            text += f", such as  np.array([{', '.join(padded)}])  with 0 where no actuator is"
        rates = {n: range(model.nv)[model.joint_rates(n)] for n in model.joint_names}
        fit = [n for n, x in rates.items() if shape == (len(x),) and len(x) < model.nv]
        if fit:
            text += f".\n{law.name}.on({fit[0]!r}) acts on one joint, and reads its q and v only"
        return text
    if _is_ready(law) and name in law.states:
        size = shape[0] if len(shape) == 1 else shape
        return f"pass  initial=np.zeros({size})  to {law.name}, in the shape of what it reads"
    if name in OUTPUTS:
        return f"{name} has one shape for all laws of this mechanism"
    return f"the first value of {name!r} determines its shape"


def _places(model: Model, law: Law, which: str) -> list[int]:
    """Places in q or v of the joints of a law, without modes; all without names."""
    size, part = model.nv, model.joint_rates
    if which == "q":
        size, part = model.nq, model.joint_coordinates
    if law.joints is None:
        return list(range(size))
    for name in law.joints:
        if name not in model.joint_names:
            hint = did_you_mean(name, model.joint_names)[:-1]
            fail(f"there is no joint {name!r}. {hint}", place=law.place)
    return [i for name in law.joints for i in range(size)[part(name)]]


def _period(law: Law, dt: float) -> int:
    """Steps between samples."""
    if law.rate is None:
        return 1
    steps = 1 / (law.rate * dt)
    whole = max(round(steps), 1)
    if abs(steps - whole) > 1e-9 * steps:
        fits = sorted({1 / (n * dt) for n in (max(int(steps), 1), int(steps) + 1)})
        fail(
            (
                f"rate={law.rate:g} /s is a sample every {steps:.6g} steps of dt={dt:g} s, "
                "which is not an integer"
            ),
            "these rates fit: " + ", ".join(f"{x:.9g}" for x in fits),
            law.place,
        )
    return whole


def read_law(law: Law, laws: Mapping[str, Law]) -> str:
    """The name, among the laws of a simulation, of a law that another one reads.

    It is the same object, or what `bind`, `on`, `silent` and the like made of it. A law of the same
    name that has another function is another law.
    """

    def derived(x: Law) -> bool:
        return x.function is law.function and x.bound is law.bound and x.joints == law.joints

    tests: tuple[Callable[[Law], bool], ...] = (
        lambda x: x is law,
        lambda x: derived(x) and x.name == law.name,
        derived,
        lambda x: x.function is law.function and x.name == law.name,
        lambda x: x.function is law.function,
    )
    for fits in tests:
        found = [name for name, x in laws.items() if fits(x)]
        if len(found) == 1:
            return found[0]
        if found:
            raise LawError(_ambiguous(law.name, found))
    if law.name not in laws:
        return law.name  # its reader says what is wrong
    raise LawError(
        f"the law {law.name!r} that is read is not among the laws of the simulation; the one there "
        "of this name is another law. Pass the law that is read to the simulation too, or read the "
        f"other one by its name:\n    pp.signals.output({law.name!r})"
    )


def _ambiguous(name: str, found: Sequence[str]) -> str:
    listed = ", ".join(map(repr, found))
    return (
        f"{len(found)} laws are named {name!r}, and which of them is read is ambiguous (in this "
        f"simulation they are {listed}). Name them yourself, and read the law that you mean:\n"
        f"    second = {name}.named('second')\n"
        "    pp.signals.output(second)"
    )


def _by_name(laws: list[Law]) -> dict[str, Law]:
    """Laws by their names; the second of one name gets a number."""
    out: dict[str, Law] = {}
    for one in laws:
        name, count = one.name, 1
        while name in out:
            count += 1
            name = f"{one.name}_{count}"
        out[name] = one if name == one.name else one.named(name)
    return out
