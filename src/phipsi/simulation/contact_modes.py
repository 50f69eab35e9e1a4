"""Modes of contacts in a run: which slots are closed, which of them slide, and their forces.

A closed slot keeps its gap: the normal component of du/dt is zero. Each of its groups (sliding and
spinning, rolling) either sticks, so that du/dt is zero in its rows too, or slips with the force
−μ f_n e in its direction of slip e. With du/dt = W f + a₀ that is a small linear system,

    stick, normals:  W f = −a₀,      slip:  f_t = −μ f_n e

where forces are not unique, the least ones. Which modes follow after an event is the problem of
contact forces on the level of accelerations: Signorini's and Coulomb's laws for du/dt.

**Source:** theory/contact 6.

Reasons: docs/decisions/0044.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.contact.cone_problem import ConeLayout, ConeProblem
from phipsi.contact.cone_solver import solve, solve_rebound
from phipsi.contact.contact_rows import (
    RESTITUTION,
    check_overlap,
    is_rigid,
    row_coefficients,
    slot_materials,
)
from phipsi.errors import InputError
from phipsi.model.contact_pairs import Contacts
from phipsi.motion.contact_motion import ContactMotion, RowState
from phipsi.simulation.run_constraints import RunConstraints
from phipsi.simulation.stepper import Diverged

Array = NDArray[Any]
Free = Callable[[float, Array, Array], Array]

AT_REST = 1e-9
"""Rates (m/s, or rad/s) of rows below which a contact neither closes nor separates."""
SLIDES = 1e-8
"""Scaled rates of a group above which it slides."""
_MARGIN = 1e-9
"""How close to the bound, relative to it, a group begins to slip."""
_LIGHT = 1e-10
"""A normal force whose acceleration is below this, relative to all others, is none."""
_RANK = 1e-11
"""Singular values of W, relative to the largest, below which rows depend on others."""
_SOFT, _BEGUN = 1e-5, 1e-3
"""Rates (m/s) of a slip from rest: below the first it has the direction of its first acceleration
(friction turns a slip the faster the slower it is), above the second exactly its own."""
_REGULAR = 1e7
"""Condition below which rows are independent, without a doubt along a phase."""
_STILL = 4e-13
"""Accelerations, relative to those of single forces, that are rounding."""
_TOLERANCE = 1e-13
INSTANT = 1e-9
"""Time (s) in which forces that are not finite become impulses."""
_SHALLOW = 1e-9
"""Depth (m) of a dip of an open slot that is no contact."""
_LOST = 1e-6
"""Gap (m) at which a closed slot has no contact any more: its feature is gone."""


class Impact(NamedTuple):
    """Velocities after an impact, impulses (n,) of all rows, the kinetic energy it adds, ≤ 0."""

    v: Array
    impulses: Array
    gain: float


@dataclass(frozen=True)
class Modes:
    """What every slot does: `closed` (k,).

    Of every group (g,): `slips`; `direction` (g, 4); `begins`, whether it slips from rest.
    """

    closed: Array
    slips: Array
    direction: Array
    begins: Array


class Decision(NamedTuple):
    """Modes that follow from a state; du/dt (n,) with their forces; rows that stick or begin."""

    modes: Modes
    change: Array
    slow: Array


class Margins(NamedTuple):
    """Numbers that are positive while the modes hold: one row for each kind of change."""

    push: Array
    stick: Array
    slip: Array
    begin: Array
    regular: Array
    there: Array


@final
class ContactModes:
    """The contacts of a run.

    **Arguments:** `contacts`; `tolerance` (m), the gap below which bodies touch; `loops`, the
    constraints of the system if it has any: contacts know them.
    **Attributes:** `modes`; `forces` (n,) of all rows at the last state, N; `power`, W, of these;
    `worst_residual`, m/s or m/s², of the problems solved so far.
    """

    def __init__(
        self, contacts: Contacts, tolerance: float, loops: RunConstraints | None = None
    ) -> None:
        self.contacts, self.tolerance, self._loops = contacts, tolerance, loops
        self.motion = ContactMotion(contacts, None if loops is None else loops.metric)
        layout, table = self.motion.layout, self.motion.table
        materials = slot_materials(contacts)
        soft = np.flatnonzero(~is_rigid(materials))
        if soft.size:
            raise InputError(
                f"the contact {contacts.slot_names[soft[0]]!r} gives (it has a stiffness), and "
                "events are for rigid contacts. Leave out stiffness=, or take fixed steps:\n"
                "    pp.simulate(system, q, v, duration, integrator='time_stepping', dt=1e-3)"
            )
        self.restitution = materials[:, RESTITUTION]
        self.coefficients = row_coefficients(layout, table, materials)
        self.normals = layout.normals
        self._is_normal = np.zeros(layout.n_rows, bool)
        self._is_normal[self.normals] = True
        self._is_spin = np.array([x == "s" for x in layout.letters])
        live = self.coefficients > 0
        groups = [(i, [r for r in rows if live[r]]) for i, rows in layout.groups]
        groups = [(i, rows) for i, rows in groups if rows]
        self.heads = np.array([i for i, _ in groups], int)
        self.group = np.full(layout.n_rows, -1)
        for g, (_, rows) in enumerate(groups):
            self.group[rows] = g
        self._members = np.zeros((len(groups), layout.n_rows))
        self._members[self.group[self.group >= 0], np.flatnonzero(self.group >= 0)] = 1.0
        k = contacts.n_slots
        none = np.zeros(len(groups), bool)
        self._no_modes = Modes(np.zeros(k, bool), none, np.zeros((len(groups), 4)), none)
        self.modes = self._no_modes
        self.forces, self.power, self.worst_residual = np.zeros(layout.n_rows), 0.0, 0.0

    @property
    def modes(self) -> Modes:
        """Of all slots and groups."""
        return self._modes

    @modes.setter
    def modes(self, modes: Modes) -> None:
        self._modes = modes
        self.phase = _Phase(self)

    # ---- projection, in the manner of RunConstraints -------------------------------------------

    projects = True
    is_close = False

    def project(self, t: float, q: Array, v: Array) -> tuple[Array, Array]:
        """The state with closed gaps and without velocities that the modes exclude.

        Both are least in the mass metric: no kinetic energy is added.
        """
        if self._loops is not None:
            q, v = self._loops.project(t, q, v)
        closed = self.modes.closed
        if not closed.any():
            return q, v
        q = self._closed(q, closed)
        return q, self.stopped(q, v)

    def _closed(self, q: Array, slots: Array) -> Array:
        """The nearest configuration at which gaps of some slots are zero."""
        rows = self.normals[slots]
        zero = np.zeros(self.motion.model.nv)
        for _ in range(3):
            state = self.state(q, zero, zero)
            gap = state.gap[slots]
            if np.abs(gap).max() <= 1e-3 * _TOLERANCE or np.abs(gap).max() > _LOST:
                break
            C = self.motion.spread(state, rows)
            z = _least(self.motion.delassus(state, C), -gap)
            q = self.motion.model.integrate(q, self.motion.pushed(q, state, C, z))
        return q

    def stopped(self, q: Array, v: Array, more: Array | None = None) -> Array:
        """Rates with zero in the rows that the modes hold, and in `more` rows."""
        rows = self.phase.held
        if more is not None:
            rows = np.union1d(rows, more)
        if not rows.size:
            return v
        state = self.state(q, v, np.zeros(len(v)))
        C = self.motion.spread(state, rows)
        p = _least(self.motion.delassus(state, C), -state.rate[rows])
        return v + self.motion.pushed(q, state, C, p)

    def state(self, q: Array, v: Array, vdot: Array) -> RowState:
        """The rows at a state; ends the run where they are not finite."""
        state = self.motion.at(q, v, vdot)
        if state is None:
            raise Diverged("the places of contacts are not finite")
        return state

    # ---- forces -------------------------------------------------------------------------------

    def accelerations(self, q: Array, v: Array, free: Array) -> Array:
        """vdot (nv,) with the forces of the modes, from those without; NaN where there are none."""
        if not self.modes.closed.any():
            self.forces, self.power = np.zeros(len(self.forces)), 0.0
            return free
        state = self.motion.at(q, v, free) if np.isfinite(free).all() else None
        if state is None:
            return np.full(len(free), np.nan)
        rows, C = self.phase.rows, self.motion.spread(state, self.phase.rows)
        found, _ = self._solved(state, C)
        self.forces = np.zeros(len(self.forces))
        self.forces[rows] = found
        self.power = float(found @ state.rate[rows])
        vdot = free + self.motion.pushed(q, state, C, found)
        own = np.einsum("ij,jk,ik->i", C, state.admittance, C) * found
        if np.abs(vdot).max() <= _STILL * max(np.abs(free).max(), np.abs(own).max()):
            return np.zeros(len(free))  # all forces balance: what is left is rounding
        return vdot

    def _solved(self, state: RowState, C: Array) -> tuple[Array, Array]:
        """Forces of the rows of the phase, and W_nn − μ W_nt e of the slots (k,) beside W_nn."""
        at = self.phase
        W = self.motion.delassus(state, C)
        free = (state.straight + state.turning)[at.held]
        if at.T is not None:
            T, size = at.T, 1.0
        else:
            T = at.unit.copy()
            T[at.slips, at.columns] = self._lean(state)
            size = np.sqrt(np.sum(T * T, axis=0))
        WT = (W @ T)[at.keep]
        A = WT / size
        if at.is_regular is None:
            at.is_regular = bool(np.linalg.cond(A) < _REGULAR)
        x = np.linalg.solve(A, -free) if at.is_regular else _least(A, -free)
        regular = np.ones(len(self.modes.closed))
        if at.T is None:
            own, whole = WT[at.heads, at.heads], W[at.keep, at.keep][at.heads]
            regular[at.slots] = own / np.maximum(whole, 1e-300)
        return T @ (x / size), regular

    def _lean(self, state: RowState) -> Array:
        """−μ e of the rows that slip: their forces per normal force."""
        at, direction = self.phase, self.modes.direction
        basis = self._basis(state, at.moving)
        c = self.coefficients[at.moving]
        z = at.members @ (basis * (c * state.rate[at.moving])[:, None])
        along = np.einsum("ij,ij->i", z, direction)
        # beyond a stop, where the rate points backward, friction goes on as before it: smoothly
        e = np.where(along < 0, -1.0, 1.0)[:, None] * z + at.soft[:, None] * direction
        length = np.sqrt(np.einsum("ij,ij->i", e, e))
        e = e / np.where(length > 0, length, 1.0)[:, None]
        return -c * np.einsum("ij,ij->i", basis, e[at.groups])

    def _by_rows(self, basis: Array, directions: Array, which: Array) -> Array:
        """−μ e (n,) of groups with these directions (g, 4)."""
        mine = self.group >= 0
        out = np.zeros(len(self.group))
        g = self.group[mine]
        e = np.sum(basis[mine] * directions[g], axis=1)
        out[mine] = np.where(which[g], -self.coefficients[mine] * e, 0.0)
        return out

    def _basis(self, state: RowState, rows: Any = slice(None)) -> Array:
        """Axes (n, 4) of rows that do not depend on contact axes: [spin; world axes]."""
        spin, axes = self._is_spin[rows], state.axes[rows]
        basis = np.empty((len(axes), 4))
        basis[:, 0] = spin
        basis[:, 1:] = axes * ~spin[:, None]
        return basis

    def _group_rates(self, state: RowState, basis: Array) -> Array:
        """Rates μ u of groups (g, 4)."""
        return self._members @ (basis * (self.coefficients * state.rate)[:, None])

    # ---- margins ------------------------------------------------------------------------------

    def margins(self, q: Array, v: Array, free: Array) -> tuple[RowState, Margins]:
        """The rows at a state, and numbers that are positive while the modes hold."""
        state, modes = self.state(q, v, free), self.modes
        k, g = len(modes.closed), len(modes.slips)
        push, stick, slip, begin, there = (np.ones(i) for i in (k, g, g, g, k))
        if not modes.closed.any():
            return state, Margins(push, stick, slip, begin, np.ones(k), there)
        rows = self.phase.rows
        found, regular = self._solved(state, self.motion.spread(state, rows))
        force = np.zeros(len(self.forces))
        force[rows] = found
        normal = force[self.normals]
        push[modes.closed] = normal[modes.closed]
        mine = modes.closed[self.heads]
        stuck, slides = mine & ~modes.slips, mine & modes.slips
        stick[stuck] = (normal[self.heads] - self._ratio(force))[stuck]
        if slides.any():
            z = self._group_rates(state, self._basis(state))
            speed, size = np.sqrt(np.sum(z * z, axis=1)), self._size()
            along = np.sum(z * modes.direction, axis=1) - 0.5 * speed
            # a slip that nearly stops is a stop: it turns there at once, if it goes on
            slack = np.where(modes.begins, 1e-2, -1e-2) * SLIDES
            slip[slides] = (along + slack * size)[slides]
            begin[modes.begins] = (_BEGUN * size - speed)[modes.begins]
        there[modes.closed] = _LOST - state.gap[modes.closed]
        return state, Margins(push, stick, slip, begin, regular - 1e-6, there)

    def _ratio(self, force: Array) -> Array:
        """|f_g / μ_g| (g,)."""
        scaled = np.where(self.group >= 0, force / np.where(self.coefficients > 0,
                          self.coefficients, 1.0), 0.0)  # fmt: skip
        return np.sqrt(self._members @ (scaled * scaled))

    def _size(self) -> Array:
        """The largest coefficient of every group (g,)."""
        return (self._members * self.coefficients).max(axis=1, initial=0.0)

    # ---- events -------------------------------------------------------------------------------

    def touching(self, state: RowState) -> Array:
        """The slots (k,) whose gap is closed."""
        return (state.gap <= self.tolerance) | (self.modes.closed & (state.gap < _LOST))

    def grazes(self, state: RowState) -> Array:
        """The open slots (k,) that go down, and will turn before they are in a body.

        A point on the rim of a wheel that rolls is at the floor once in a turn: its gap has a
        double zero there. What is left of it is rounding, and stopping it would stop the wheel.
        """
        u, deep = state.rate[self.normals], self.shallow(state)
        near = ~self.modes.closed & (u < 0) & (np.abs(state.gap) < deep)
        if near.any():
            a = self._changes(state)[self.normals]
            near &= a > 0
            near[near] = (state.gap - 0.5 * u * u / np.where(near, a, 1.0))[near] > -deep
        return near

    def shallow(self, state: RowState) -> float:
        """Depth (m) of a dip that is no contact, beside gaps of closed slots in dense output."""
        return _SHALLOW + 2 * float(np.abs(state.gap[self.modes.closed]).max(initial=0.0))

    def _changes(self, state: RowState) -> Array:
        """du/dt (n,) of all rows with the forces of the modes."""
        change, rows = state.straight + state.turning, self.phase.rows
        if not rows.size:
            return change
        C = self.motion.spread(state, rows)
        found, _ = self._solved(state, C)
        every = self.motion.spread(state, np.arange(len(change)))
        return change + every @ (state.admittance @ (found @ C))

    def separated(self, q: Array) -> Array:
        """The nearest configuration without overlap: a move without velocity."""
        zero = np.zeros(self.motion.model.nv)
        state = self.state(q, zero, zero)
        fix = "q0 = pp.contact_step(system, q0, v0, dt=1e-9).q"
        check_overlap(self.contacts, state.gap, fix)
        for _ in range(4):
            near = state.gap < self.contacts.margin
            if not (state.gap < -1e-14).any():
                break
            rows = self.normals[near]
            layout = ConeLayout(("normal",) * len(rows))
            C = self.motion.spread(state, rows)
            W, ones = self.motion.delassus(state, C), np.ones(len(rows))
            problem = ConeProblem(layout, W, state.gap[near], np.zeros(len(rows)), ones)
            z = solve(problem, tolerance=_TOLERANCE).p
            q = self.motion.model.integrate(q, self.motion.pushed(q, state, C, z))
            state = self.state(q, zero, zero)
        return q

    def _problem(self, slots: Array, W: Array, b: Array, s: Array, rows: Array) -> ConeProblem:
        kinds = self.motion.layout.contacts
        layout = ConeLayout(tuple(kinds[i] for i in np.flatnonzero(slots)))
        return ConeProblem(layout, W, b, s, self.coefficients[rows])

    def impact(
        self, q: Array, v: Array, state: RowState, slots: Array, *, lasting: float = 0.0
    ) -> Impact:
        """Velocities after an impact of all slots (k,) that touch: the problem with b = C J v.

        Slots that close rebound with Newton's law, as far as no energy is gained (K11). With
        `lasting` (s), forces of so short a time act as well.
        """
        rows = self.motion.rows_of(slots)
        C = self.motion.spread(state, rows)
        W, b = self.motion.delassus(state, C), state.rate[rows]
        if lasting:
            b = b + lasting * (state.straight + state.turning)[rows]
        approach = state.rate[self.normals][slots]
        e = np.where(approach < -AT_REST, self.restitution[slots], 0.0)
        problem = self._problem(slots, W, b, e * approach, rows)
        if e.any():
            found = solve_rebound(problem, np.zeros(len(e)), tolerance=_TOLERANCE).solution
        else:
            found = solve(problem, tolerance=_TOLERANCE)
        self._check(found, slots, "impulses")
        p = np.zeros(len(self.forces))
        p[rows] = found.p
        gain = float(found.p @ (state.rate[rows] + 0.5 * (W @ found.p)))
        after = v + self.motion.pushed(q, state, C, found.p)
        return Impact(after, p, gain)

    def _check(self, found: Any, slots: Array, what: str) -> None:
        self.worst_residual = max(self.worst_residual, float(found.residual))
        if not found.is_solved:
            names = sorted({self.contacts.slot_names[i] for i in np.flatnonzero(slots)})
            raise Diverged(
                f"the {what} of {', '.join(map(repr, names))} were not found (residual "
                f"{float(found.residual):.2g})"
            )

    def decide(self, q: Array, v: Array, free: Array) -> Decision | None:
        """The modes that follow from a state; None where no finite forces exist (Painlevé)."""
        state = self.state(q, v, free)
        a = state.straight + state.turning
        slots = self.touching(state) & (np.abs(state.rate[self.normals]) <= AT_REST)
        self.forces, last = np.zeros(len(a)), self.forces
        if not slots.any():
            return Decision(self._no_modes, a, np.zeros(0, int))
        rows = self.motion.rows_of(slots)
        C = self.motion.spread(state, rows)
        W, basis = self.motion.delassus(state, C), self._basis(state)
        z = self._group_rates(state, basis)
        speed = np.sqrt(np.sum(z * z, axis=1))
        slides = (speed > SLIDES) & slots[self.heads]
        e = z / np.where(speed > 0, speed, 1.0)[:, None]
        lean = self._by_rows(basis, e, slides)
        heads = np.searchsorted(rows, self.normals[self.motion.table.slot[rows]])
        T = np.eye(len(rows))
        T[np.arange(len(rows)), heads] += lean[rows]
        problem = self._problem(slots, W @ T, a[rows], np.zeros(int(slots.sum())), rows)
        sliding = (self.group[rows] >= 0) & slides[self.group[rows]] if slides.size else lean[rows]
        known = np.where(sliding, 0.0, problem.coefficients)
        found = solve(replace(problem, coefficients=known), last[rows], tolerance=_TOLERANCE)
        if not found.is_solved and sliding.any():
            return None
        self._check(found, slots, "forces")
        force = np.zeros(len(a))
        force[rows] = T @ found.p
        size = max(np.abs(state.straight[rows]).max(), np.abs(state.turning[rows]).max())
        own = np.zeros(len(a))
        own[rows] = np.einsum("ii->i", W)
        normal = force[self.normals]
        closed = slots & (normal * own[self.normals] > _LIGHT * size)
        full = self._ratio(force) >= (1.0 - _MARGIN) * normal[self.heads]
        begins = closed[self.heads] & full & ~slides
        slips = closed[self.heads] & (slides | full)
        direction = np.where(slides[:, None], e, 0.0)
        if begins.any():  # in the direction of its acceleration, against the force
            against = self._members @ (basis * np.where(
                self.group >= 0, -force / np.where(self.coefficients > 0, self.coefficients, 1.0),
                0.0)[:, None])  # fmt: skip
            length = np.sqrt(np.sum(against * against, axis=1))
            unit = against / np.where(length > 0, length, 1.0)[:, None]
            direction[begins] = unit[begins]
        self.forces = force
        total = free + self.motion.pushed(q, state, C, force[rows])
        state = self.state(q, v, total)
        slow = self.group >= 0
        slow[slow] = (closed[self.heads] & ~slides)[self.group[slow]]
        return Decision(
            Modes(closed, slips, direction, begins),
            state.straight + state.turning,
            np.flatnonzero(slow),
        )


class _Phase:
    """Numbers of rows while the modes stay the same.

    **Attributes:** `rows` of closed slots; `held`, those of them whose velocity is zero: normals,
    and rows of groups that stick; `keep` and `slips`, the places of held and of other rows among
    `rows`; `unit` (rows, held), the forces of rows by those of held ones, without friction of
    groups that slip, whose entries are (slips, columns); `moving`, the rows that slip, `groups`,
    theirs, and `members`, which of them each group has; `soft`, the rate below which a group has
    the direction that it began with; `T`, the same if nothing slips; `heads`,
    the places of normals among held rows, and `slots`, theirs; `is_regular`, whether these rows are
    independent, once it is known.
    """

    def __init__(self, contacts: ContactModes) -> None:
        modes, slot = contacts.modes, contacts.motion.table.slot
        closed = modes.closed[slot]
        stuck = (contacts.group >= 0) & closed
        stuck[stuck] = ~modes.slips[contacts.group[stuck]]
        normal = contacts._is_normal
        is_held = closed & (normal | stuck)
        moves = closed & ~is_held & (contacts.group >= 0)
        self.rows = np.flatnonzero(is_held | moves)
        self.held = np.flatnonzero(is_held)
        self.keep = np.flatnonzero(is_held[self.rows])
        self.slips = np.flatnonzero(~is_held[self.rows])
        self.unit = np.zeros((len(self.rows), len(self.held)))
        self.unit[self.keep, np.arange(len(self.held))] = 1.0
        head = contacts.normals[slot[self.rows[self.slips]]]
        self.columns = np.searchsorted(self.held, head)
        self.T = None if self.slips.size else self.unit
        self.moving = self.rows[self.slips]
        self.groups = contacts.group[self.moving]
        self.soft = np.where(modes.begins, _SOFT * contacts._size(), 1e-12)
        self.members = contacts._members[:, self.moving]
        self.heads = np.flatnonzero(normal[self.held])
        self.slots = slot[self.held[self.heads]]
        self.is_regular: bool | None = None


def _least(A: Array, b: Array) -> Array:
    """The least solution of A x = b."""
    return np.linalg.lstsq(A, b, rcond=_RANK)[0]
