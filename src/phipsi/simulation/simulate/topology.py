"""Changes of the mechanism during a run: constraints on and off, joints locked, trees that come.

A change is the action of an `Event`; several in a list happen together:

>>> import phipsi as pp
>>> latch = pp.topology.Lock("boom")
>>> out = pp.Event(lambda t, q, v: q[7] - 1.0, direction=1, action=latch, name="boom is out")

A run with changes keeps the coordinates of the model it was started with: entries of untouched
joints carry over by name, those of locked joints stand still, those of absent trees
keep their last value. Where rows are switched on or joints locked, velocities jump so that momentum
is kept (theory/closed-chains 11); where they are switched off, nothing jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi import constraints as joints
from phipsi.algorithms import Stages, System, motions
from phipsi.core.constraints import Constraint, Distance
from phipsi.core.model import Model, Pose, supports
from phipsi.errors import InputError, ModelError, did_you_mean, true_or_false
from phipsi.grasping import Contact, Grasp as HeldObject
from phipsi.package_state import only_public
from phipsi.simulation.forces.force import BoundForces, Force
from phipsi.simulation.runs.checks import checked_time
from phipsi.simulation.simulate.events import Change, Event

__all__ = [
    "Attach",
    "Change",
    "ContactMargin",
    "Detach",
    "Grasp",
    "Lock",
    "Release",
    "Replace",
    "Topology",
    "Unlock",
    "at",
    "contact_events",
]
__dir__ = only_public(__name__)

Array = NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class Topology:
    """Topology of a mechanism at one time: constraints, locked joints and absent bodies.

    Parameters
    ----------
    model : Model
        All bodies that ever take part.
    constraints : tuple of Constraint, optional
        Constraints that act.
    locked : mapping of str to ndarray, optional
        Joint → coordinates at which it is locked.
    absent : frozenset of str, optional
        Bodies of trees that are removed.
    object : tuple of str, optional
        Names of bodies if the system is a grasp.
    """

    model: Model
    constraints: tuple[Constraint, ...] = ()
    locked: Mapping[str, Array] = field(default_factory=dict[str, Array])
    absent: frozenset[str] = frozenset()
    object: tuple[str, ...] = ()

    @classmethod
    def of(cls, system: Model | System) -> Topology:
        """That of a model or system."""
        held = system.object if isinstance(system, HeldObject) else ()
        return cls(system.model, system.constraints, object=held)

    def reduced(self) -> Model:
        """The model without locked joints and absent trees."""
        model = self.model
        if self.absent:
            model = model.with_trees([n for n in model.body_names if n not in self.absent])
        locked = {name: q for name, q in self.locked.items() if name in model.joint_names}
        return model.with_locked(list(locked), locked) if locked else model

    def system(self, model: Model | None = None, stages: Stages | None = None) -> System:
        """The constraints on the reduced model (or another one with the same names)."""
        model = self.reduced() if model is None else model
        left = [c.with_locked(model, self.locked, self.model) for c in self.constraints]
        acting = [c for c in left if c is not None]
        touching = [c for c in acting if isinstance(c, Contact)]
        others = [c for c in acting if not isinstance(c, Contact)]
        held = [n for n in self.object or _objects(touching, model) if n in model.body_names]
        if touching and held:
            try:
                return HeldObject(
                    model, object=held, contacts=touching, constraints=others, stages=stages
                )
            except ModelError:  # an object that is locked to something else is not one
                pass
        return System(model, acting, stages=stages)

    def index(self, name: str) -> int:
        """Place of a constraint; rejects names that do not act."""
        names = [c.name for c in self.constraints]
        if name not in names:
            raise InputError(f"no constraint {name!r} is active. {did_you_mean(name, names)}")
        return names.index(name)


@dataclass(frozen=True, init=False)
class _NamedChange(Change):
    """A change of what is named, without keywords: ``Lock("elbow", "wrist")``."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        if not all(isinstance(cast(object, name), str) for name in names):
            who = type(self).__name__
            raise InputError(f"{who} takes names, such as {who}('elbow'), not {names!r}")
        object.__setattr__(self, "names", names)


@dataclass(frozen=True, init=False)
class _OfJoints(_NamedChange):
    """A change of joints, which a model must have."""

    def check(self, model: Model) -> None:
        """The joints."""
        for name in self.names:
            model.joint(name)


@final
@dataclass(frozen=True, init=False)
class Attach(Change):
    """Switch constraints on during a simulation: a latch, a docking, a loop that closes.

    Parameters
    ----------
    *constraints : Constraint
        The constraints.
    as_is : bool, optional
        True: their `b` ends (of contacts the fingers) are moved so that they hold just as the
        bodies are then. By default they must be closed at that instant.

    Examples
    --------
    >>> import phipsi as pp
    >>> latch = pp.constraints.Weld(a="tip", b="world", name="latch")
    >>> pp.topology.at(1.0, pp.topology.Attach(latch, as_is=True)).name
    'Attach at 1 s'
    """

    constraints: tuple[Constraint, ...]
    as_is: bool

    def __init__(self, *constraints: Constraint, as_is: bool = False) -> None:
        object.__setattr__(self, "constraints", _checked(constraints, Constraint, type(self)))
        object.__setattr__(self, "as_is", true_or_false("as_is", as_is))

    def apply(self, now: Topology, q: Array, v: Array) -> tuple[Topology, Array, Array]:
        """Add the constraints."""
        new = [_fitted(c, now.model, q) if self.as_is else c for c in self.constraints]
        taken = {c.name for c in now.constraints}
        for c in new:
            if c.name in taken:
                raise InputError(f"constraint {c.name!r} is active already. Detach it first.")
        return replace(now, constraints=(*now.constraints, *new)), q, v

    def check(self, model: Model) -> None:
        """Their ends."""
        _check_ends(self.constraints, model)


@final
@dataclass(frozen=True, init=False)
class Detach(_NamedChange):
    """Switch constraints off by name during a simulation; velocities do not jump.

    Parameters
    ----------
    *names : str
        Names of constraints.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.topology.Detach("latch").names
    ('latch',)
    """

    def apply(self, now: Topology, q: Array, v: Array) -> tuple[Topology, Array, Array]:
        """Remove them."""
        gone = {now.index(name) for name in self.names}
        kept = tuple(c for i, c in enumerate(now.constraints) if i not in gone)
        return replace(now, constraints=kept), q, v


@final
@dataclass(frozen=True, init=False)
class Grasp(Change):
    """Close contacts of a grasp during a simulation.

    Parameters
    ----------
    *contacts : Contact
        The contacts, of `phipsi.grasping`.
    as_is : bool, optional
        True: the fingers hold the object where they touch it then.
    """

    contacts: tuple[Contact, ...]
    as_is: bool

    def __init__(self, *contacts: Contact, as_is: bool = False) -> None:
        object.__setattr__(self, "contacts", _checked(contacts, Contact, type(self)))
        object.__setattr__(self, "as_is", true_or_false("as_is", as_is))

    def apply(self, now: Topology, q: Array, v: Array) -> tuple[Topology, Array, Array]:
        """Add the contacts."""
        return Attach(*self.contacts, as_is=self.as_is).apply(now, q, v)

    def check(self, model: Model) -> None:
        """Their ends."""
        _check_ends(self.contacts, model)


@final
@dataclass(frozen=True, init=False)
class Release(_NamedChange):
    """Open contacts of a grasp by name during a simulation.

    Parameters
    ----------
    *names : str
        Names of contacts. Default: all that act.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.topology.Release("left").names
    ('left',)
    """

    def apply(self, now: Topology, q: Array, v: Array) -> tuple[Topology, Array, Array]:
        """Remove them."""
        names = self.names or tuple(c.name for c in now.constraints if isinstance(c, Contact))
        return Detach(*names).apply(now, q, v)


@final
@dataclass(frozen=True, init=False)
class Lock(_OfJoints):
    """Lock joints where they are: their velocities leave the equations, their bodies stay.

    Flexible bodies go on deforming.

    Parameters
    ----------
    *names : str
        Names of joints.

    Examples
    --------
    >>> import phipsi as pp
    >>> brake = pp.topology.at(0.5, pp.topology.Lock("joint2"))
    >>> arm = pp.examples.planar_arm(2)
    >>> fall = pp.simulate(arm, [0.0, 0.0], [0.0, 0.0], 1.0, events=[brake])
    >>> bool(abs(fall.v[-1, 1]) == 0.0)
    True
    """

    def apply(self, now: Topology, q: Array, v: Array) -> tuple[Topology, Array, Array]:
        """Hold them at their present coordinates."""
        locked = dict(now.locked)
        for name in self.names:
            if name in locked:
                raise InputError(f"joint {name!r} is locked already.")
            locked[name] = q[now.model.joint_coordinates(name)].copy()
        return replace(now, locked=locked), q, v


@final
@dataclass(frozen=True, init=False)
class Unlock(_OfJoints):
    """Unlock joints: they move again, from rest where they stand.

    Parameters
    ----------
    *names : str
        Names of joints.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.topology.at(1.0, pp.topology.Unlock("elbow")).name
    'Unlock at 1 s'
    """

    def apply(self, now: Topology, q: Array, v: Array) -> tuple[Topology, Array, Array]:
        """Release them."""
        locked = dict(now.locked)
        for name in self.names:
            if name not in locked:
                raise InputError(f"joint {name!r} is not locked. {did_you_mean(name, locked)}")
            del locked[name]
        return replace(now, locked=locked), q, v


@final
@dataclass(frozen=True, eq=False)
class Replace(Change):
    """Remove and add subtrees during a simulation (tool change, payload drop).

    Parameters
    ----------
    out : tuple of str, optional
        Bodies whose trees are removed, with all constraints on them.
    into : tuple of str, optional
        Bodies whose trees are added.
    q, v : mapping of str to array_like, optional
        Joint → coordinates and velocities of the added trees. Default: as they stand, at rest.
    constraints : tuple of Constraint, optional
        Constraints that act on them from then on.
    as_is : bool, optional
        As for `Attach`.
    """

    out: tuple[str, ...] = ()
    into: tuple[str, ...] = ()
    q: Mapping[str, ArrayLike] = field(default_factory=dict[str, ArrayLike])
    v: Mapping[str, ArrayLike] = field(default_factory=dict[str, ArrayLike])
    constraints: tuple[Constraint, ...] = ()
    as_is: bool = False

    def __post_init__(self) -> None:
        true_or_false("as_is", self.as_is)
        for side in ("out", "into"):
            names = getattr(self, side)
            if not isinstance(names, Iterable):
                raise InputError(f"Replace: {side}={names!r} must be names of bodies")
            object.__setattr__(self, side, (names,) if isinstance(names, str) else tuple(names))

    def apply(self, now: Topology, q: Array, v: Array) -> tuple[Topology, Array, Array]:
        """Exchange them."""
        model = now.model
        leaving, coming = (_trees(model, names) for names in (self.out, self.into))
        here = coming - now.absent
        if here:
            raise InputError(f"cannot add {sorted(here)}: already present in the mechanism.")
        q, v = q.copy(), v.copy()
        for values, array, place in ((self.q, q, model.q_slice), (self.v, v, model.v_slice)):
            for name, value in values.items():
                array[place(name)] = value
        kept = tuple(c for c in now.constraints if not _bodies(c, model) & leaving)
        new = replace(now, constraints=kept, absent=(now.absent | leaving) - coming)
        return Attach(*self.constraints, as_is=self.as_is).apply(new, q, v)

    def check(self, model: Model) -> None:
        """Bodies, joints, and what the joints come with."""
        for name in (*self.out, *self.into):
            model.body_index(name)
        for key, values, place in (("q", self.q, model.q_slice), ("v", self.v, model.v_slice)):
            for name, value in values.items():
                where = place(name)
                given = np.asarray(value)
                size = where.stop - where.start
                numbers = given.dtype.kind in "iuf" and np.isfinite(given).all()
                if given.shape not in (() if size == 1 else (size,), (size,)) or not numbers:
                    raise InputError(
                        f"Replace: {key} of joint {name!r} is {value!r}; it must be {size} finite "
                        f"number{'s' * (size != 1)}"
                    )
        _check_ends(self.constraints, model)


@final
@dataclass(frozen=True)
class Instant:
    """The function of an event at a time: t − time."""

    time: float

    def __call__(self, t: float, q: Any, v: Any) -> float:
        """Negative before, positive after."""
        return t - self.time


def at(time: float, *changes: Change, name: str = "") -> Event:
    """An event at a given time with changes of topology.

    Parameters
    ----------
    time : float
        Time of the event, s.
    *changes : Change
        Changes of `phipsi.topology`.
    name : str, optional
        Name of the event. Default: from the changes and the time.

    Returns
    -------
    Event
        For ``simulate(…, events=…)``.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.topology.at(2.0, pp.topology.Lock("elbow")).name
    'Lock at 2 s'
    """
    when = checked_time(time, "time", zero=True)
    if not changes:
        raise InputError("an event of topology.at needs changes: topology.at(2.0, Lock('elbow'))")
    changes = _checked(changes, Change, at)
    kinds = ", ".join(type(c).__name__ for c in changes)
    return Event(Instant(when), 1, list(changes), name or f"{kinds} at {when:g} s")


# ---- helpers -------------------------------------------------------------------------------------


def _checked(given: tuple[Any, ...], kind: type, change: Callable[..., Any]) -> tuple[Any, ...]:
    homes = {Contact: "contacts", Change: "topology"}
    for c in given:
        if not isinstance(c, kind):
            raise InputError(
                f"{change.__name__} takes {kind.__name__.lower()}s, not {c!r}; see phipsi."
                f"{homes.get(kind, 'constraints')}."
            )
    return given


def _check_ends(constraints: Iterable[Constraint], model: Model) -> None:
    for c in constraints:
        c.closure(model)


def _trees(model: Model, names: tuple[str, ...]) -> frozenset[str]:
    """All bodies of the trees of these bodies."""
    return frozenset(model.with_trees(names).body_names) if names else frozenset()


def _bodies(constraint: Constraint, model: Model) -> frozenset[str]:
    hosts = {body for body, _ in constraint.closure(model).points if body >= 0}
    return frozenset(model.body_names[i] for i in hosts)


def _objects(contacts: list[Contact], model: Model) -> list[str]:
    hosts = [c.closure(model).a for c in contacts]
    return [model.body_names[i] for i in dict.fromkeys(hosts) if i >= 0]


def _fitted(constraint: Constraint, model: Model, q: Array) -> Constraint:
    """The constraint with its second end moved so that it holds at q."""
    engaged = constraint.fitted(model, q)
    if engaged is not None:
        return engaged
    poses = [*motions.poses(model, q), np.eye(4)]
    first, second = ("object", "finger") if isinstance(constraint, Contact) else ("a", "b")
    closure = constraint.closure(model)
    # the joint frame of the first end, without the rotation that puts z along an axis
    given = getattr(constraint, first)
    plain = joints.Weld(name="x", a=given, b=getattr(constraint, second)).closure(model)
    X_a = poses[plain.a] @ plain.a_frame.matrix
    if isinstance(constraint, Distance):
        X_b = poses[closure.b] @ closure.b_frame.matrix
        return replace(constraint, length=float(np.linalg.norm(X_b[:3, 3] - X_a[:3, 3])))
    seen = np.linalg.inv(poses[closure.b]) @ X_a
    name = "world" if closure.b < 0 else model.body_names[closure.b]
    new: dict[str, Any] = {second: (name, Pose(seen[:3, :3], seen[:3, 3]))}
    for other in ("axis_b", "normal_b"):
        if getattr(constraint, other, None) is not None:
            new[other] = None
    return replace(constraint, **new)  # type: ignore[type-var]


# ---- contacts that open or slip ------------------------------------------------------------------


@final
class ContactMargin:
    """The smallest margin of a contact's inequalities as a function of (t, q, v).

    It is the function of an `Event`: zero where the contact begins to open or to slip.

    Parameters
    ----------
    grasp : Grasp
        The grasp.
    contact : str
        Name of the contact.
    controller : callable, optional
        ``controller(t, q, v)``, under whose tau the contact forces are computed. Default: none.
    forces : sequence of Force, optional
        Force elements that act.
    """

    def __init__(
        self,
        grasp: HeldObject,
        contact: str,
        controller: Callable[..., Any] | None = None,
        forces: Sequence[Force] = (),
    ) -> None:
        if contact not in grasp.contact_names:
            raise InputError(
                f"there is no contact {contact!r}; the grasp has {list(grasp.contact_names)}."
            )
        self.grasp, self.contact, self.controller = grasp, contact, controller
        self._elements = BoundForces(forces, grasp.model)
        start = f"{contact}: "
        self._zero = np.zeros(grasp.model.nv)
        names = [f"{c.name}: {cone.name}" for c in grasp.contacts for cone in c.cones()]
        self._mine = [i for i, name in enumerate(names) if name.startswith(start)]

    def __call__(self, t: float, q: Array, v: Array) -> float:
        """The margin in N."""
        tau = self._zero if self.controller is None else self.controller(t, q, v)
        state = self._elements.state(t, q, v)
        tau, loads = self._elements.acting(state, tau)
        margins = self.grasp.check(q, v, tau, *loads).margins[..., self._mine]
        return float(margins.min(initial=np.inf)) if margins.size else 1.0

    def within(
        self, system: System, controller: Callable[..., Any] | None, forces: Sequence[Force] = ()
    ) -> Any:
        """The same in another phase of a run; 1 where the contact does not act."""
        if not isinstance(system, HeldObject) or self.contact not in system.contact_names:
            return lambda t, q, v: 1.0
        return ContactMargin(system, self.contact, controller, forces)


@supports(loops=True, flexible=True, rotors=True)
def contact_events(
    grasp: HeldObject,
    controller: Callable[..., Any] | None = None,
    *,
    forces: Sequence[Force] = (),
    action: Any = None,
) -> list[Event]:
    """One event per unilateral contact that triggers when it begins to open or to slip.

    Parameters
    ----------
    grasp : Grasp
        The grasp.
    controller : callable, optional
        Controller of the simulation.
    forces : sequence of Force, optional
        Force elements of the simulation.
    action : optional
        As for `Event`: None records, "stop" ends the simulation; "release" removes the contact, as
        happens to a finger that lifts off.

    Returns
    -------
    list of Event
        Events named "contact 'left' breaks".

    Notes
    -----
    **Source:** theory/closed-chains 9.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> grasp = pp.examples.two_finger_grasp()
    >>> [event.name for event in pp.topology.contact_events(grasp)]
    ["contact 'left' breaks", "contact 'right' breaks"]
    """
    if not isinstance(cast(object, grasp), HeldObject):
        raise InputError(
            "contact_events needs a pp.grasping.Grasp, which has contacts, "
            f"not {type(grasp).__name__}"
        )
    out = []
    for c in grasp.contacts:
        if c.cones():
            act = Release(c.name) if action == "release" else action
            name = f"contact {c.name!r} breaks"
            margin = ContactMargin(grasp, c.name, controller, forces)
            out.append(Event(margin, -1, act, name))
    return out
