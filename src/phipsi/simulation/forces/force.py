"""Force: the methods of a force element, and the state that it sees."""

from __future__ import annotations

import re
from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cache
from inspect import signature
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.arrays import (
    as_node,
    fail,
    not_negative_names,
    parameters_by_name,
    place_of,
    traced_call,
    traced_twice,
    with_numbers,
)
from phipsi.core.compiler import compile
from phipsi.core.model import Model, flattened, floats_of
from phipsi.core.operators import V, pose
from phipsi.errors import InputError
from phipsi.laws import JointRows, Law, Range
from phipsi.simulation.diagram.diagram_builder import DiagramBuilder
from phipsi.support import one_line, value_in_line

Array = NDArray[Any]

KINEMATICS = (pose, V)


class State:
    """State of the mechanism for force elements; poses and velocities are computed on first use.

    Parameters
    ----------
    model : Model
        The tree.
    t : array_like, shape (...)
        Time, s.
    q : ndarray, shape (..., nq)
        Configuration.
    v : ndarray, shape (..., nv)
        Generalized velocities.
    program : callable, optional
        Kinematics: poses and velocities of bodies as a function of q and v.
    own_masses : tuple of array_like, optional
        Of trajectories with their own masses: masses (n,), kg, and first moments m c (n, 3) of all
        bodies in body axes, kg·m.
    """

    __slots__ = ("model", "t", "q", "v", "own_masses", "_program", "_found")

    def __init__(
        self,
        model: Model,
        t: Any,
        q: Array,
        v: Array,
        program: Callable[..., Any] | None = None,
        own_masses: tuple[Any, Any] | None = None,
    ) -> None:
        self.model, self.t, self.q, self.v = model, t, q, v
        self.own_masses = own_masses
        self._program = program  # of KINEMATICS; who makes many states looks it up once
        self._found: tuple[Array, Array] | None = None

    def __repr__(self) -> str:
        return f"<State at t = {value_in_line(self.t)} s: q {self.q.shape}, v {self.v.shape}>"

    def _kinematics(self) -> tuple[Array, Array]:
        if self._found is None:
            program = self._program or compile(KINEMATICS, self.model)
            self._found = program(self.q, self.v)
        return self._found  # type: ignore[return-value]

    @property
    def poses(self) -> Array:
        """X_WB (..., n, 4, 4) of every body, as `poses`."""
        return self._kinematics()[0]

    @property
    def velocities(self) -> Array:
        """V (..., n, 6) of every body in body axes, as `velocities`."""
        return self._kinematics()[1]


class Force(ABC):  # noqa: B024 - an element provides the methods it needs
    """A force element: joint efforts, body forces, or both, and the energy it stores.

    Make your own by deriving from this class and giving it one or more of the methods. They must
    take batches: leading axes of `state.q` are times of a trajectory when its energy is computed.

    >>> import numpy as np, phipsi as pp
    >>> class Wind(pp.forces.Force):
    ...     '''Drag on every body, against its velocity, at its origin.'''
    ...     def body_forces(self, state):
    ...         out = np.zeros_like(state.velocities)
    ...         out[..., 3:] = -0.5 * state.velocities[..., 3:]
    ...         return out
    >>> arm = pp.examples.planar_arm(2)
    >>> still = pp.simulate(arm, [0, 0], [0, 0], 0.1)
    >>> windy = pp.simulate(arm, [0, 0], [0, 0], 0.1, forces=[Wind()])
    >>> bool(windy.energy[-1] < still.energy[-1] - 1e-3)
    True
    """

    __slots__ = ()
    parameters: ClassVar[Mapping[str, str]] = {}
    """Numbers that every trajectory of a run may have its own of: name → attribute once bound."""
    not_negative: ClassVar[tuple[str, ...]] = ()
    """Those of them that must not be negative."""
    name: ClassVar[str] = ""
    """What the names of its parameters begin with; by default the class, as in "joint_spring"."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def unchangeable(self) -> Mapping[str, tuple[Array, str]]:
        """Where numbers of parameters (by name) cannot be changed by a run, and why."""
        return {}

    def bind(self, model: Model) -> Force:
        """Return the element with its names looked up in a model; called once per run."""
        return self

    @classmethod
    def merge(cls, elements: Sequence[Any]) -> Sequence[Force]:
        """Return fewer elements that do the same, so that many of a kind cost one array call."""
        return elements

    def efforts(self, state: State) -> Any:
        """Joint efforts (..., nv) on the mechanism in the directions of v, N·m or N."""
        return None

    def body_forces(self, state: State) -> Any:
        """Forces (..., n, 6) on the bodies, at their origins in body axes, [moment; force]."""
        return None

    def potential_energy(self, state: State) -> Any:
        """Energy (...) stored in the element, J; 0 if it stores none."""
        return 0.0

    @property
    def has_rows(self) -> bool:
        """Whether a bound element has rows, which steps and events of contacts know."""
        return False

    def joint_rows(self, state: State) -> JointRows:
        """Rigid stops and dry friction of joints, as rows that hold exactly."""
        return JointRows()

    @staticmethod
    def wire_all(elements: Sequence[Any], wiring: DiagramBuilder) -> None:
        """Trace the formulas of elements, as they are, into the circuit of a run."""
        for element in bind_forces(elements, wiring.model):
            _wire(element, wiring)


class PrintedForce(Force):
    """An element whose attributes have the names of its arguments, and is printed by them."""

    __slots__ = ()
    unnamed: ClassVar[int] = 2
    """How many of its arguments are printed without their names."""

    def __repr__(self) -> str:
        given = [(name, getattr(self, name)) for name in arguments_of(type(self))]
        n = self.unnamed
        return one_line(self, *(x for _, x in given[:n]), **dict(given[n:]))


@cache
def arguments_of(kind: type) -> tuple[str, ...]:
    """The names of the arguments of a class."""
    return tuple(signature(kind).parameters)


def _laws_among_forces(given: list[Any]) -> str:
    """Where the laws in a list of force elements belong."""
    laws = [x.name for x in given if isinstance(x, Law)]
    several = len(laws) > 1
    shown = [x.name if isinstance(x, Law) else f"pp.forces.{x!r}" for x in given]
    plain = [x for x in given if isinstance(x, Law) and not (x.rate or x.states or x.discrete)]
    fits = len(laws) == len(plain) == 1  # simulate has no fixed steps for the others
    lines = [f"pp.simulate(model, q, v, duration, controller={laws[0]})"] if fits else []
    lines.append(f"pp.Simulator(model, [{', '.join(shown)}], dt=1e-3)")
    return (
        f"forces has {'the laws' if several else 'the law'} {', '.join(map(repr, laws))}, which "
        f"{'are not force elements' if several else 'is not a force element'}; laws are passed "
        f"{'as controllers, or ' if fits else ''}to a Simulator, for example:\n    "
        + "\n    ".join(lines)
    )


def bind_forces(forces: Iterable[Any], model: Model) -> tuple[Force, ...]:
    """Elements bound to a model, with those of a kind merged; rejects anything else."""
    if isinstance(forces, Force):
        forces = (forces,)
    forces = [*flattened(forces)]
    kinds: dict[type[Force], list[Force]] = {}
    for element in forces:
        if not isinstance(element, Force):
            hint = "make one from the class" if isinstance(element, type) else "derive a class"
            example = "forces=[pp.forces.JointDamper('elbow', 0.5)]"
            if isinstance(element, Law):
                raise InputError(_laws_among_forces(forces))
            raise InputError(
                f"forces has {element!r}, which is not a force element; {hint}, for example:\n"
                f"    {example}"
            )
        kinds.setdefault(type(element), []).append(element.bind(model))
    return tuple(x for kind, elements in kinds.items() for x in kind.merge(elements))


def rows_of_joints(
    model: Model, elements: Sequence[Force]
) -> Callable[[Any, Any, Any], JointRows] | None:
    """The rows of rigid stops, ropes and dry friction, from q, v and the kinematics; None without.

    The kinematics are the poses and velocities of bodies as a function of q and v.
    """
    own = [x for x in bind_forces(elements, model) if x.has_rows]

    def rows(q: Any, v: Any, kinematics: Any) -> JointRows:
        return JointRows.joined([x.joint_rows(State(model, 0.0, q, v, kinematics)) for x in own])

    return rows if own else None


_SUMS = {"efforts": "efforts", "body_forces": "loads", "potential_energy": "energy"}


def _name_of(element: Force) -> str:
    """What the names of its parameters begin with, before a number is added."""
    words = re.findall("[A-Z][a-z0-9]*", type(element).__name__)
    return element.name or "_".join(words).lower() or "force"


def _wire(element: Force, wiring: DiagramBuilder) -> None:
    """The methods of one bound element on traced values, its numbers being parameters."""
    model, name = wiring.model, wiring.unique(_name_of(element))
    fixed, positive = element.unchangeable(), not_negative_names(element)
    given = {
        n: wiring.parameter(f"{name}.{n}", x, fixed.get(n), Range() if n in positive else None)
        for n, x in parameters_by_name(element).items()
    }
    traced = with_numbers(element, given)
    known = wiring.t, wiring.q, wiring.v, wiring.kinematics
    state = State(model, *known, own_masses=wiring.mass_moments())
    shapes = {"efforts": (model.nv,), "body_forces": (model.n_bodies, 6), "potential_energy": ()}
    for method, shape in shapes.items():
        if not provides(element, method):
            continue
        function = getattr(traced, method)
        found = _traced(function, state, element)
        if found is None:
            continue
        if np.shape(found) != shape:
            fail(f"{method} returns shape {np.shape(found)} instead of {shape}",
                 place=place_of(function))  # fmt: skip
        wiring.add(_SUMS[method], found)
    if element.has_rows:
        wiring.add_rows(traced.joint_rows(state))


def _traced(function: Any, state: State, element: Force) -> Any:
    """What a method returns; that of a user's class must depend on the state only."""
    if type(element).__module__.startswith("phipsi."):
        return traced_call(function, state)

    def are_alike(x: Any, y: Any) -> bool:
        return x is y is None if x is None or y is None else as_node(x) is as_node(y)

    return traced_twice(
        lambda: traced_call(function, state), are_alike, function, place_of(function)
    )


def reject_rows(elements: Iterable[Force]) -> None:
    """Reject rigid stops and dry friction where no step solves for their impulses."""
    for element in elements:
        if element.has_rows:
            raise InputError(
                f"{element!r} is rigid, or dry friction, and has no force law. Use "
                "integrator='time_stepping', which solves for its impulses, or 'dopri' and "
                "'radau', which locate its events:\n"
                "    pp.Simulator(model, laws, integrator='time_stepping')\n"
                "    pp.simulate(model, q, v, duration, forces=laws)\n"
                "With other integrators the stiffness must be finite, and the velocity_scale "
                "positive."
            )


def provides(element: Force, method: str) -> bool:
    """Whether an element has its own version of a method of `Force`."""
    return getattr(type(element), method) is not getattr(Force, method)


@final
class BoundForces:
    """The force elements of a run, bound to a model: what they do together.

    With `rows`, elements that hold exactly are among them: they store no energy.
    **Attributes:** `model`; `bound`, those of a kind merged; `act_on_bodies`, whether some give
    forces on bodies.
    """

    def __init__(self, forces: Iterable[Any], model: Model, *, rows: bool = False) -> None:
        self.model = model
        self._take(bind_forces(forces, model))
        if not rows:
            reject_rows(self.bound)
        self._program = compile(KINEMATICS, model) if self.bound else None

    def _take(self, bound: tuple[Force, ...]) -> None:
        self.bound = bound
        self._on_joints = [x for x in self.bound if provides(x, "efforts")]
        self._on_bodies = [x for x in self.bound if provides(x, "body_forces")]
        self.act_on_bodies = bool(self._on_bodies)

    def with_parameters(self, values: Mapping[str, Any]) -> BoundForces:
        """The same elements with other numbers, by the names of parameters in runs."""
        count: Counter[str] = Counter()
        bound: list[Force] = []
        for element in self.bound:
            name = _name_of(element)
            count[name] += 1
            start = f"{name}." if count[name] == 1 else f"{name}_{count[name]}."
            given = {
                n: values[start + n] for n in parameters_by_name(element) if start + n in values
            }
            bound.append(with_numbers(element, given))
        out = copy(self)
        out._take(tuple(bound))
        return out

    def __bool__(self) -> bool:
        return bool(self.bound)

    def state(self, t: Any, q: Array, v: Array) -> State:
        """A state that shares the program of the others."""
        return State(self.model, t, q, v, self._program)

    def efforts(self, state: State, effort: Any) -> Any:
        """`effort` with those of the elements added."""
        for element in self._on_joints:
            own = element.efforts(state)
            effort = effort if own is None else effort + own  # rows have none
        return effort

    def loads(self, state: State) -> tuple[Array, ...]:
        """The forces on bodies, if there are any."""
        if not self._on_bodies:
            return ()
        load = self._on_bodies[0].body_forces(state)
        for element in self._on_bodies[1:]:
            load = load + element.body_forces(state)
        return (load,)

    def acting(self, state: State, effort: Any) -> tuple[Any, tuple[Array, ...]]:
        """Both."""
        return self.efforts(state, effort), self.loads(state)

    def power(self, state: State, effort: Any, loads: tuple[Array, ...]) -> Any:
        """The power (...) of efforts and forces on bodies, W."""
        out = np.sum(effort * state.v, axis=-1)
        return out + np.sum(loads[0] * state.velocities, axis=(-1, -2)) if loads else out

    def potential_energy(self, state: State) -> Any:
        """Energy (...) stored in all elements, J."""
        found = (element.potential_energy(state) for element in self.bound)
        return sum((x for x in found if x is not None), np.zeros(()))

    def stored(self, t: Array, q: Array, v: Array) -> Array:
        """The same at times (...), for the shape of t also where nothing stores any."""
        nothing = np.zeros(np.shape(t))
        return nothing + self.potential_energy(self.state(t, q, v)) if self else nothing


class Allowed(NamedTuple):
    """Which numbers an element takes: where they are allowed, and what an error says of them."""

    holds: Callable[[Array], Array]
    wanted: str


FINITE = Allowed(np.isfinite, "finite")
NOT_NEGATIVE = Allowed(lambda x: (x >= 0) & np.isfinite(x), "finite and not negative")


def per_rate(values: Any, size: int, what: str, who: str, allowed: Allowed = FINITE) -> Array:
    """One number, or one per rate, as an array (size,), all of them `allowed`."""
    found = floats_of(values, (0, 0))
    if found.shape not in ((), (1,), (size,)):
        raise InputError(
            f"{who}: {what} must be one number or {size}, one per velocity, not {values!r}."
        )
    if not allowed.holds(found).all():
        raise InputError(f"{who}: {what} is {values!r}; it must be {allowed.wanted}.")
    return np.array(np.broadcast_to(found, (size,)))
