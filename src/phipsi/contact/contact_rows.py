"""Rows of contacts: from slots of touching shapes to the problem of their impulses.

A slot has the axes [t1 t2 n] and rows of the motion of a's witness point against b's,
[roll1 roll2 spin; t1 t2 n], as many as its material needs. With r from the origin of a body's frame
to the witness point, a row is [r × t; t] for sliding along t, and [t; 0] for turning about it. All
rows together are C = C_a − C_b, six numbers each at two hosts; W = C Λ C*, Λ the admittance at the
hosts. **Hosts** are the frames of bodies that touch, and then the rates of joints with rigid stops
or dry friction, six to a host: a row of a joint is ±1 at its rate.

Formulas are for one configuration, in plain arithmetic: they run on arrays, and traced in graphs.

**Source:** theory/contact 1 (K1g), 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.attached import farthest_point, is_surface
from phipsi.contact.certificate import first_numbers
from phipsi.contact.contact_pairs import Contacts
from phipsi.contact.geometry.placed_shapes import across
from phipsi.contact.solver.contact_problem import INACTIVE, ROWS, ContactProblemLayout
from phipsi.core.backends import BLOCK
from phipsi.core.model import Model, entry_units, read_only
from phipsi.errors import InputError
from phipsi.laws import JointRows

Array = NDArray[Any]

GAPS = "contact.gaps"
"""Gaps of all slots (k,), m."""
IMPULSES = "contact.impulses"
"""Impulses of the last step at all slots (k, 6): [moment; force] on side a in world axes, N·s."""
MATERIALS = "contact.materials"
"""Materials of all slots (k, 7), columns as below."""

STOPS = "stop.impulses"
"""Impulses of rigid stops at all rates (nv,), N·m·s or N·s: positive ones push towards larger q."""
JOINT_FRICTION = "friction.impulses"
"""Impulses of dry friction in joints at all rates (nv,), N·m·s or N·s."""

ROPES = "rope.impulses"
"""Impulses of ropes that are taut (ropes,), N·s, pulling."""
LOOPS = "loop.impulses"
"""Impulses of the constraint rows of loops in the last step (rows,), N·m·s or N·s, on side a."""
UNSOLVED_CONTACTS = BLOCK + (4 << 32)
"""Status of a step of a run whose impulses are far from the laws of contact."""
WEDGED = BLOCK + (5 << 32)
"""Status of a step of a run in which no joint can move bodies apart that overlap."""
GAINS_ENERGY = BLOCK + (6 << 32)
"""Status of a step of a run in which contacts add kinetic energy, beyond rounding."""
FRICTION, TORSION, ROLLING, RESTITUTION, STIFFNESS, DISSIPATION, HUNT_CROSSLEY = range(7)
COLUMNS = (
    "friction", "torsional_friction", "rolling_friction", "restitution", "stiffness", "damping",
    "hunt_crossley",
)  # fmt: skip
"""Columns of the materials of slots."""
_LETTERS = "abs12n"
AXIS = dict(zip(_LETTERS, (0, 1, 2, 0, 1, 2), strict=True))
SLIDES = "12n"
_FIRM = 1e30
"""Stiffness (N/m) from which a contact is rigid."""
RIGID = np.array([0.0, 0.0, 0.0, 0.0, 2 * _FIRM, 0.0, 0.0])
"""The material of stops, without restitution."""
STOP_MARGIN = 0.1
"""How far (rad or m) from a stop a joint may be for the stop to be listed."""


def row_states(
    contacts: Contacts | None, joints: JointRows, nv: int, loops: int
) -> dict[str, Array]:
    """States of a run with rows by name, with their first values; none without such rows.

    `loops` are the rows of constraints, which alone need none.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    if contacts is not None:
        shapes[IMPULSES] = (contacts.n_slots, 6)
    shapes |= {
        name: (nv,) for name, x in ((STOPS, joints.stops), (JOINT_FRICTION, joints.rubs)) if x
    }
    shapes |= {ROPES: (len(joints.ropes),)} if joints.ropes else {}
    if shapes:
        shapes |= {LOOPS: (loops,)} if loops else {}
    first = {name: np.zeros(shape) for name, shape in shapes.items()}
    return first | first_numbers() if first else first


def slot_materials(contacts: Contacts) -> Array:
    """Materials of the slots (k, 7); rigid ones have a stiffness beyond all that counts."""
    return contacts.model.cached((slot_materials, contacts), lambda: _materials(contacts))


def _materials(contacts: Contacts) -> Array:
    whole = [[getattr(pair.material, x) for x in COLUMNS] for pair in contacts.pairs]
    slots = [pair.slots for pair in contacts.pairs]
    rows = np.array(whole, dtype=float).reshape(-1, len(COLUMNS)).repeat(slots, axis=0)
    rows[:, STIFFNESS] = np.minimum(rows[:, STIFFNESS], 2 * _FIRM)
    return read_only(rows)


_BY_WEIGHT = np.isin(np.arange(len(COLUMNS)), (STIFFNESS, DISSIPATION))


def weighted(materials: Any, weight: Any) -> Array:
    """Materials (k, 7) of slots that give, times their weights (k,); None for weights of 1."""
    if weight is None:
        return materials
    gives = (~is_rigid(materials))[:, None] & _BY_WEIGHT
    return np.where(gives, materials * weight[:, None], materials)


def is_rigid(materials: Array) -> Array:
    """Which slots (k,) do not give."""
    return materials[:, STIFFNESS] >= _FIRM


def layout_of(contacts: Contacts) -> ContactProblemLayout:
    """The rows that the materials of the slots need."""
    return contacts.model.cached((layout_of, contacts), lambda: _layout(contacts))


def _layout(contacts: Contacts) -> ContactProblemLayout:
    kinds = []
    for friction, torsion, rolling, *_ in slot_materials(contacts):
        if rolling > 0:
            kinds.append("rolling")
        elif torsion > 0:
            kinds.append("torsion")
        else:
            kinds.append("point" if friction > 0 else "normal")
    return ContactProblemLayout(tuple(kinds))


_NEEDED = {"friction": "12", "torsional_friction": "s", "rolling_friction": "a"}


def check_materials(contacts: Contacts, given: Array) -> None:
    """Reject materials (..., k, 7) that the rows of the system cannot have."""
    values = given.reshape(-1, contacts.n_slots, len(COLUMNS))
    low, high = values.min(axis=0, initial=0.0), values.max(axis=0, initial=0.0)
    for slot, column in np.argwhere(low < 0)[:1]:
        raise InputError(
            f"{MATERIALS}: {COLUMNS[column]} of {contacts.slot_names[slot]!r} is negative, "
            f"{low[slot, column]:g}; it is at least 0"
        )
    for slot in np.flatnonzero(high[:, RESTITUTION] > 1)[:1]:
        raise InputError(
            f"{MATERIALS}: restitution {high[slot, RESTITUTION]:g} of "
            f"{contacts.slot_names[slot]!r} would create energy; it is at most 1"
        )
    for slot, column in np.argwhere((high > 0) & ~_has_rows(contacts))[:1]:
        what, name, largest = COLUMNS[column], contacts.slot_names[slot], high[slot, column]
        raise InputError(
            f"{MATERIALS}: {what} {largest:g} for {name!r}, whose material has none: the "
            "simulation has no rows for it. Set it when the contacts are made:\n"
            f"    pp.Contacts(model, material=pp.Material({what}={largest:g}))"
        )


def _has_rows(contacts: Contacts) -> Array:
    """Which properties (k, 7) the rows of a system can have."""
    out = np.ones((contacts.n_slots, len(COLUMNS)), dtype=bool)
    for column, what in enumerate(COLUMNS):
        if what in _NEEDED:
            needed = set(_NEEDED[what])
            fits = {kind: needed <= set(ROWS[kind]) for kind in ROWS}
            out[:, column] = [fits[kind] for kind in layout_of(contacts).contacts]
    out[:, RESTITUTION] = slot_materials(contacts)[:, RESTITUTION].any()
    return out


DEEP = 0.1
"""Penetration at the start that is an error, beside the margin of the contacts."""


def check_overlap(contacts: Contacts, gaps: Array, fix: str) -> None:
    """Reject starts whose bodies overlap deeply: gaps (..., k), m. `fix` is a line of code."""
    if not gaps.size or gaps.min() >= -DEEP * contacts.margin:
        return
    where, place = _deepest(gaps)[0], np.unravel_index(int(np.argmin(gaps)), gaps.shape)
    found = overlaps(contacts, gaps[place[:-1]], DEEP * contacts.margin)
    raise InputError(
        f"in the initial state{where} {found}. Separate the bodies, or have them separated without "
        "changing velocities:\n"
        f"    {fix}"
    )


_SHOWN = 6


def overlaps(contacts: Contacts, gaps: Array, least: float = 0.0) -> str:
    """The pairs that overlap by more than `least` (m), the deepest first; "" if there are none.

    `gaps` (k,) of one configuration, m.
    """
    depths: dict[str, float] = {}
    for name, gap in zip(contacts.slot_names, gaps.tolist(), strict=True):
        depths[name] = max(depths.get(name, 0.0), -gap)
    deep = sorted((x for x in depths.items() if x[1] > least), key=lambda x: -x[1])
    if not deep:
        return ""
    (first, depth), *others = deep
    more = [f"{name!r} by {x:.3g} m" for name, x in others[: _SHOWN - 1]]
    rest = [f"{len(deep) - _SHOWN} more pairs"] if len(deep) > _SHOWN else []
    return ", ".join([f"{first!r} overlap by {depth:.3g} m", *more, *rest])


_BEYOND = 1e-6
"""How far (rad or m) beyond a rigid stop or the length of a rope a start may be."""


def check_joint_rows(
    model: Model, joints: JointRows, stops: Array, slacks: Array, fix: str
) -> None:
    """Reject starts beyond rigid stops, `stops` (..., k), and with ropes too long, `slacks`."""
    plan = RowPlan(model, None, joints)
    names = plan.names
    if stops.size and stops.min() < -_BEYOND:
        where, i, beyond = _deepest(stops)
        joint, side = names[i].removeprefix("stop of "), ("upper", "lower")[joints.stops[i][1] > 0]
        unit = "rad" if plan.turning[i] else "m"
        raise InputError(
            f"in the initial state{where} joint {joint!r} is {beyond:.3g} {unit} beyond its rigid "
            f"{side} limit. Start within its limits, or have it moved there without changing "
            "velocities:\n"
            f"    {fix}"
        )
    if slacks.size and slacks.min() < -_BEYOND:
        where, i, beyond = _deepest(slacks)
        raise InputError(
            f"in the initial state{where} the ends of the {names[len(joints.stops) + i]!r} are "
            f"{beyond:.3g} m farther apart than its length. Move them closer, or have them moved "
            "without changing velocities:\n"
            f"    {fix}"
        )


def _deepest(gaps: Array) -> tuple[str, int, float]:
    """In which trajectory the least gap is, its place on the last axis, and its size."""
    place: Any = np.unravel_index(int(np.argmin(gaps)), gaps.shape)
    where = f" of trajectory {list(map(int, place[:-1]))}" if len(place) > 1 else ""
    return where, int(place[-1]), -float(gaps[place])


class RowTable(NamedTuple):
    """For every row of a slot: its slot, its axis, whether it slides or turns."""

    slot: Array
    axis: Array
    slides: Array


@final
class RowPlan:
    """Which rows a step has: of slots, rigid stops, ropes, and dry friction, in this order.

    **Attributes:** `contacts`; `joints`; `layout` of all rows; `table`, the rows of slots;
    `bodies`, numbers of those whose frames are hosts; `rates`, those of joints with rows;
    `n_hosts`, of both; `sides` (heads and limits, 2), the hosts of each, −1 for the world; `a`, `b`
    (n,), the same for every row.
    """

    def __init__(
        self, model: Model, contacts: Contacts | None, joints: JointRows, loops: bool = False
    ) -> None:
        self.model, self.contacts, self.joints, self._loops = model, contacts, joints, loops
        kinds = () if contacts is None else layout_of(contacts).contacts
        ends = len(joints.stops) + len(joints.ropes)
        self.layout = layout = ContactProblemLayout(kinds, ends, len(joints.rubs))
        self.bodies = () if contacts is None else contacts.bodies
        tied = {x for pair in joints.ropes for x in pair if x >= 0}
        self.bodies = (*self.bodies, *sorted(tied - set(self.bodies)))
        self.n_slots = len(kinds)
        own = [rate for rate, _ in joints.stops] + list(joints.rubs)
        self.rates = tuple(sorted(set(own)))
        m = len(self.bodies)
        self.n_hosts = m - (-len(self.rates) // 6)
        place = {rate: i for i, rate in enumerate(self.rates)}
        self._entries = np.array([place[x] for x in own], dtype=int)
        self._signs = np.array([x for _, x in joints.stops] + [1] * len(joints.rubs), dtype=float)
        touching = [] if contacts is None else contacts.slot_bodies.tolist()
        of_joints = [(m + i // 6, -1) for i in self._entries]
        host = {body: i for i, body in enumerate(self.bodies)} | {-1: -1}
        tied_to = [(host[a], host[b]) for a, b in joints.ropes]
        ns = len(joints.stops)
        sides = [*touching, *of_joints[:ns], *tied_to, *of_joints[ns:]]
        self.sides = np.array(sides, dtype=int).reshape(-1, 2)
        of_slots = np.array([i for i, x in enumerate(kinds) for _ in ROWS[x]], dtype=int)
        heads = [*of_slots, *range(len(kinds), len(self.sides))]
        self.a, self.b = self.sides[np.array(heads, dtype=int)].T
        letters = layout.letters[: len(of_slots)]
        axis = np.array([AXIS[x] for x in letters], dtype=int)
        self.table = RowTable(of_slots, axis, np.array([x in SLIDES for x in letters], bool))

    @property
    def related(self) -> Array:
        """Which hosts impulses at each host move (m, m): all with loops, or those of its trees."""
        if self._loops:
            return np.ones((self.n_hosts, self.n_hosts), dtype=bool)
        parent, places = self.model.parent, self.model.v_slices
        owner = {i: k for k, at in enumerate(places) for i in range(at.start, at.stop)}
        roots: list[set[int]] = [{_root(parent, body)} for body in self.bodies]
        for i in range(0, len(self.rates), 6):
            roots.append({_root(parent, owner[x]) for x in self.rates[i : i + 6]})
        return np.array([[bool(x & y) for y in roots] for x in roots], dtype=bool)

    @property
    def reached(self) -> Array:
        """Which hosts the impulses of each head or limit move: those that its hosts do."""
        related = self.related
        rows = [[related[x] for x in pair if x >= 0] for pair in self.sides]
        none = np.zeros(self.n_hosts, dtype=bool)
        return np.array([np.any([none, *x], axis=0) for x in rows]).reshape(-1, self.n_hosts)

    @property
    def names(self) -> tuple[str, ...]:
        """Of pairs of slots, and of joints with stops and friction."""
        places = zip(self.model.joint_names, self.model.v_slices, strict=True)
        owner = {i: name for name, at in places for i in range(at.start, at.stop)}
        pairs = () if self.contacts is None else self.contacts.slot_names
        stops = (f"stop of {owner[rate]}" for rate, _ in self.joints.stops)
        names = (*self.model.body_names, "world")
        ropes = (f"rope {names[a]}|{names[b]}" for a, b in self.joints.ropes)
        rubs = (f"friction in {owner[rate]}" for rate in self.joints.rubs)
        return (*pairs, *stops, *ropes, *rubs)

    @property
    def turning(self) -> Array:
        """Which gaps (heads,) are angles: those of stops of joints that turn."""
        units = entry_units(self.model)[1]
        own = [units[rate] == "rad/s" for rate, _ in self.joints.stops]
        ropes = [False] * len(self.joints.ropes)
        return np.array([*[False] * self.n_slots, *own, *ropes], dtype=bool)

    @property
    def radii(self) -> Array:
        """How far (m) shapes reach from the origins of the frames of hosts (bodies,), at most."""
        out = np.zeros(len(self.bodies))
        places = {self.model.body_names[k]: i for i, k in enumerate(self.bodies)}
        for placed in () if self.contacts is None else self.contacts.shapes:
            if placed.body in places and not is_surface(placed.shape):
                i = places[placed.body]
                out[i] = max(out[i], farthest_point(placed))
        return out

    @property
    def margins(self) -> Array:
        """Gaps of slots and stops below which they are listed."""
        margin = 0.0 if self.contacts is None else self.contacts.margin
        return np.array([margin] * self.n_slots + [STOP_MARGIN] * self.layout.stops)

    @property
    def stop_materials(self) -> Array:
        """Of rigid stops and ropes (stops, 7)."""
        out = np.tile(RIGID, (self.layout.stops, 1))
        out[:, RESTITUTION] = (*self.joints.rebounds, *self.joints.jerks)
        return out

    @property
    def joint_blocks(self) -> Array:
        """C (rows of joints, 6) at their hosts."""
        out = np.zeros((len(self._entries), 6))
        out[np.arange(len(out)), self._entries % 6] = self._signs
        return out

    def joint_parts(self) -> list[tuple[str, Array, Array, Array]]:
        """Of stops and of friction: the state of their impulses, rows, rates and signs."""
        first, ns = len(self.table.slot), len(self.joints.stops)
        rates = np.array(self.rates, dtype=int)[self._entries]
        rows = first + np.arange(len(rates))
        rows[ns:] += len(self.joints.ropes)
        cuts = (STOPS, slice(0, ns)), (JOINT_FRICTION, slice(ns, None))
        parts = [(name, rows[x], rates[x], self._signs[x]) for name, x in cuts]
        return [x for x in parts if len(x[1])]

    @property
    def rope_rows(self) -> Array:
        """Which rows are those of ropes."""
        return len(self.table.slot) + len(self.joints.stops) + np.arange(len(self.joints.ropes))


def turns_at_joints(model: Model, joints: JointRows) -> bool:
    """Whether joints that turn have stops or dry friction."""
    units = entry_units(model)[1]
    rates = {*(rate for rate, _ in joints.stops), *joints.rubs}
    return any(units[rate] == "rad/s" for rate in rates)


def _root(parent: Sequence[int], body: int) -> int:
    while parent[body] >= 0:
        body = parent[body]
    return int(body)


def contact_axes(normal: Array) -> Array:
    """[t1, t2, n] (k, 3, 3), axis by axis; continuous in n but where n passes −z."""
    t1, t2 = across(normal.T)
    return np.stack([t1.T, t2.T, normal], axis=1)


_ROUNDED = 1e-14
"""Gap (m) that stays open: closing it within h would take an acceleration of g/h², which is not
rounding, and of the points of one body another self-stress."""


class ProblemParts(NamedTuple):
    """b (n,), s (k,), s without rebound, compliance (k,), coefficients (n,), near slots (k,).

    b are the velocities without impulses, of contacts that rebound at the time of the impact;
    `bounces` (k,), which contacts rebound in this step, and `late` (k,), the share of the step
    during which these move with the velocity before the impact. None if nothing rebounds.
    """

    b: Any
    s: Any
    inelastic: Any
    compliance: Any
    coefficients: Any
    near: Any
    bounces: Any = None
    late: Any = None


def problem_parts(
    plan: RowPlan,
    gap: Array,
    free: Array,
    before: Any | None,
    materials: Array,
    bounds: Any,
    h: Array,
) -> ProblemParts:
    """What the impulses of a step have to obey.

    `gap` and `materials` of slots and stops; `free` and `before` (n,), velocities of rows without
    impulses and before the step, None if nothing rebounds; `bounds` of dry friction, N·m or N.
    Compliance adds R = 1/(h (h k + d)) to the normal's diagonal, d that of the depth at the start,
    with s = g k/(h k + d) in an overlap, and g/h before it: k times the depth at the end, and d
    times what the depth has grown by, per h. The force is implicit in the rates, and takes energy
    away. Rigid contacts have R = 0 and s = g/h, 0 if g is rounding or an overlap, and those that
    close within the step rebound, see `rebound`. A slot that is further away than the margin is
    inactive.
    """
    layout, table = plan.layout, plan.table
    normals = layout.normals
    if not layout.n_heads:
        none = np.zeros(0)
        return ProblemParts(free, none, none, none, h * bounds, none)
    k, rigid = materials[:, STIFFNESS], is_rigid(materials)
    d = materials[:, DISSIPATION] + k * materials[:, HUNT_CROSSLEY] * np.maximum(-gap, 0.0)
    firm = np.where(rigid, 1.0, h * k + d)
    apart = np.where(gap > np.where(rigid, _ROUNDED, 0.0), gap, 0.0)
    soft = apart / h + np.where(rigid, 0.0, np.minimum(gap, 0.0) * (k / firm))
    compliance = np.where(rigid, 0.0, 1.0 / (h * firm))
    near = gap + h * np.minimum(free[normals], 0.0) < plan.margins
    inelastic = s = every = np.where(near, soft, 2 * INACTIVE)
    b, bounces, late = free, None, None
    if before is not None:
        hits = rebound(gap, before[normals], free[normals], materials[:, RESTITUTION], h)
        bounces = rigid & near & hits.there
        s = np.where(bounces, hits.s, inelastic)
        every = np.where(bounces, 0.0, inelastic)
        late = np.where(bounces, hits.back / h, 0.0)
        later = np.where(bounces, hits.later, 0.0)[np.minimum(layout.heads, layout.n_heads - 1)]
        b = free - np.where(np.isin(np.arange(layout.n_rows), normals), later, 0.0)
    parts = [row_coefficients(layout, table, materials)] if plan.n_slots else []
    parts += [np.ones(layout.stops)] if layout.stops else []
    parts += [h * bounds] if layout.limits else []
    coefficients = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return ProblemParts(b, s, every, compliance, coefficients, near, bounces, late)


class Hits(NamedTuple):
    """Contacts (k,) that rebound in a step; see `rebound`."""

    there: Any
    s: Any
    later: Any
    back: Any


_REST = 1e-9
"""Gap (m) below which a contact without speed rests."""
_ELASTIC = 1e-9
"""What a restitution lacks to one that is elastic."""
_TINY = 1e-60
"""Instead of zero in denominators, whose squares derivatives divide by."""


def rebound(gap: Array, before: Array, free: Array, e: Array, h: Array) -> Hits:
    """The rebound of contacts that close within a step, as exact as constant accelerations are.

    Rates of steps are those at the middle of the step before: with V = u + a h/2 at the start, a
    the acceleration without impulses, a contact closes after t with g + V t + a t²/2 = 0 and the
    speed c = V + a t. It leaves with w = −e c, and has w + a (h/2 − t) at the middle of the step.
    Where it comes back in the same step, it does so at intervals 2 w eⁿ/|a|, of which the last one
    counts; where all of them end in the step, it rests.

    `later` is a (h/2 − t), t of the last impact: the problem of the impulses is that of this
    impact, with the velocity that the contact would have there without impulses, and w after it, so
    that energy is compared at that time. A contact that rests has the problem of the end of the
    step, without a rebound. The gap at the end would be g + h u⁺: `back` is the time by which the
    change of velocity has to move bodies back, so that it is right.
    """
    g, a = np.maximum(gap, 0.0), (free - before) / h
    pull = np.maximum(-a, 0.0)
    hit = (gap + h * free < 0.0) & (free < 0.0) & (e > 0.0)
    there = hit & ((g > _REST) | (before < -0.5 * h * pull))
    V = before + 0.5 * h * a
    root = np.sqrt(np.where(there, np.maximum(V * V - 2.0 * a * g, 0.0), 1.0))
    t = np.minimum(2.0 * g / np.where(there, np.maximum(root - V, _TINY), 1.0), h)
    w = e * np.maximum(-(V + a * t), 0.0)
    left = h - t
    flight = 2.0 * np.where(there, w, 1.0) / np.maximum(pull, _TINY)
    flight = np.where(flight > 0.0, flight, _TINY)
    elastic = e > 1.0 - _ELASTIC
    less = np.where(elastic | ~there, 0.5, 1.0 - e)
    part = np.where(elastic, 0.0, less * left / flight)
    rests = ~elastic & (part >= 1.0)
    falls = np.log(np.where(rests, 0.5, 1.0 - part)) / np.log(1.0 - less)
    n = np.where(elastic, np.floor(left / flight), np.floor(np.where(rests, 0.0, falls)))
    again = np.where(elastic, n, (1.0 - np.exp(n * np.log(1.0 - less))) / less)
    w = np.where(elastic, w, w * np.exp(n * np.log(1.0 - less)))
    left = left - again * flight
    speed = np.where(rests, 0.0, w + a * (left - 0.5 * h))
    end = np.where(rests, 0.0, w * left + 0.5 * a * left * left)
    change = np.where(there, np.maximum(speed - free, _TINY), 1.0)
    back = np.minimum(np.maximum((g + h * speed - end) / change, 0.0), h)
    later = np.where(rests, 0.0, a * (left - 0.5 * h))
    return Hits(there, later - speed, later, back)


def row_coefficients(layout: ContactProblemLayout, table: RowTable, materials: Array) -> Array:
    """The coefficients of the rows of slots from their materials (k, 7)."""
    columns = {"s": TORSION, "a": ROLLING, "b": ROLLING}
    letters = layout.letters[: len(table.slot)]
    chosen = np.array([columns.get(x, FRICTION) for x in letters], dtype=int)
    is_normal = np.array([x == "n" for x in letters])
    return np.where(is_normal, 1.0, materials[table.slot, chosen])


def row_impulses(plan: RowPlan, normal: Array, world: Array) -> Array:
    """Impulses (..., rows) of the rows of slots from [moment; force] (..., k, 6), world axes.

    `normal` (..., k, 3); the axes before the slots are a batch.
    """
    table = plan.table
    flat = contact_axes(normal.reshape(-1, 3)).reshape(*normal.shape[:-1], 3, 3)
    axes = flat[..., table.slot, table.axis, :]
    first = np.where(table.slides, 3, 0)
    places = first[:, None] + np.arange(3)
    return np.sum(axes * world[..., table.slot[:, None], places], axis=-1)
