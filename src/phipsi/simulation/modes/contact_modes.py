"""Modes of contacts in a run: which slots are closed, which of them slide, and their forces.

A closed slot keeps its gap: the normal component of du/dt is zero. Each of its groups (sliding and
spinning, rolling) either sticks, so that du/dt is zero in its rows too, or slips with the force
−μ f_n e in its direction of slip e. With du/dt = W f + a₀ that is a small linear system,

    stick, normals:  W f = −a₀,      slip:  f_t = −μ f_n e

where forces are not unique, the least ones. Rigid stops and ropes are slots without friction; dry
friction in a joint is a group with a known bound, F in place of μ f_n. A compliant slot has a
known force, f_n = k δ + d δ̇, in place of its equation. Which modes follow after an event is the
problem of contact forces on the level of accelerations: Signorini's and Coulomb's laws for du/dt.

**Source:** theory/contact 6.

Reasons: docs/decisions/0044.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.contact import ContactProblem, ContactProblemLayout, Contacts, solve, solve_rebound
from phipsi.core.model import Model, all_finite
from phipsi.simulation.impacts.contact_motion import ContactMotion, Rows, RowState
from phipsi.simulation.impacts.contact_tracking import NO_CONTACT
from phipsi.simulation.modes.contact_phase import (
    ContactPhase,
    Decision,
    Impact,
    Margins,
    Modes,
    RowIndices,
)
from phipsi.simulation.modes.indeterminate_forces import (
    RANK,
    TOLERANCE,
    farthest_inside,
    least,
    solved_forces,
)
from phipsi.simulation.simulate.run_constraints import RunConstraints
from phipsi.simulation.simulate.stepper import Diverged

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
_BEGUN = 1e-3
"""Rate (m/s) of a slip from rest, above which it has exactly its own direction."""
_REGULAR = 1e7
"""Condition below which rows are independent, without a doubt along a phase."""
_STILL = 4e-13
"""Accelerations, relative to those of single forces, that are rounding."""
INSTANT = 1e-9
"""Time (s) in which forces that are not finite become impulses."""
_SHALLOW = 1e-9
"""Depth (m) of a dip of an open slot that is no contact."""
_SUNK = 1e-12
"""Depth (m) at which a compliant slot carries nothing yet."""
_FELT = 1e-9
"""Depth (m) of a compliant slot that begins to carry, by which it is known what friction does."""
_LOST, _LEAPS = 1e-6, 1e-5
"""Gap (m) and its rate (m/s) at which a closed slot is elsewhere: its point is gone, or another."""
_BENDS = 1e-9
"""Rate (m/s) of a closed slot between samples, above which its normal began to turn in the step."""
_SWAPPED = 1e-4
"""Rates of closed slots, relative to the fastest row, that no integration leaves."""


@final
class ContactModes:
    """The contacts of a run.

    **Arguments:** `contacts`, None without any; `tolerance` (m), the gap below which bodies touch;
    `loops`, the constraints of the system if it has any: contacts know them; `model`, needed
    without contacts; `joints`, the rows of rigid stops, ropes and dry friction.
    **Attributes:** `modes`; `forces` (n,) of all rows at the last state, N; `power`, W, of these;
    `worst_residual`, m/s or m/s², of the problems solved so far.
    """

    def __init__(
        self,
        contacts: Contacts | None,
        tolerance: float,
        loops: RunConstraints | None = None,
        *,
        model: Model | None = None,
        joints: Rows | None = None,
    ) -> None:
        self.contacts, self.tolerance, self._loops = contacts, tolerance, loops
        metric = None if loops is None else loops.metric
        self.motion = ContactMotion(contacts, metric, model=model, joints=joints)
        self.at = RowIndices(self.motion.plan)
        self.normals, self.restitution = self.at.normals, self.at.restitution
        self.names = self.motion.plan.names
        self._none = self.at.no_modes()
        self.modes = self._none
        self._stress: tuple[Array, Array]
        n = self.motion.layout.n_rows
        self.forces, self.power, self.worst_residual = np.zeros(n), 0.0, 0.0

    @property
    def modes(self) -> Modes:
        """Of all slots and groups."""
        return self._modes

    @modes.setter
    def modes(self, modes: Modes) -> None:
        self._modes = modes
        self.phase = ContactPhase(self.at, modes)

    # ---- projection, in the manner of RunConstraints -------------------------------------------

    projects = True
    is_close = False

    def project(self, t: float, q: Array, v: Array) -> tuple[Array, Array]:
        """The state with closed gaps and without velocities that the modes exclude.

        Both are least in the mass metric: no kinetic energy is added.
        """
        if self._loops is not None:
            q, v = self._loops.project(t, q, v)
        closed = self.modes.closed & ~self.at.soft
        if not closed.any():
            return q, self.stopped(q, v)
        gone = self._gone(q, v, closed & self.at.between_faces)
        q = self._closed(q, closed & ~gone)
        return q, self.stopped(q, v, gone=gone)

    def _gone(self, q: Array, v: Array, closed: Array) -> Array:
        """The closed slots (k,) between faces that are not at their points: an event is due."""
        if not closed.any():
            return closed
        state = self.state(q, v, np.zeros(len(v)))
        rate = state.rate
        moves = np.abs(rate[self.normals]) > _SWAPPED * np.abs(rate).max() + 10 * _LEAPS
        return closed & (moves | (state.gap > _LOST))

    def inside(self, state: RowState) -> Array:
        """The slots (k,) between faces that do not give, and whose points are inside."""
        return self.at.between_faces & ~self.at.soft & (state.gap < -_LOST)

    def check_depths(self, state: RowState) -> None:
        """End the run where a point between two faces is inside at once: it was another before."""
        if (inside := np.flatnonzero(self.inside(state))).size:
            names = ", ".join(sorted({repr(self.names[i]) for i in inside}))
            raise Diverged(
                f"event detection failed for {names}: contact points switched between features "
                "(edges and faces) within one step, and events follow single points. Use "
                "integrator='time_stepping'"
            )

    def _closed(self, q: Array, slots: Array) -> Array:
        """The nearest configuration at which gaps of some slots are zero."""
        if not slots.any():
            return q
        rows = self.normals[slots]
        zero = np.zeros(self.motion.model.nv)
        for _ in range(3):
            state = self.state(q, zero, zero)
            gap = state.gap[slots]
            if np.abs(gap).max() <= 1e-3 * TOLERANCE or np.abs(gap).max() > _LOST:
                break
            C = self.motion.spread(state, rows)
            z = least(self.motion.delassus(state, C), -gap)
            q = self.motion.model.integrate(q, self.motion.pushed(q, state, C, z))
        return q

    def stopped(
        self, q: Array, v: Array, more: Array | None = None, gone: Array | None = None
    ) -> Array:
        """Rates with zero in the rows that the modes hold, without those of slots that are `gone`.

        And in `more` rows.
        """
        rows = self.phase.still
        if gone is not None and gone.any():
            rows = np.setdiff1d(rows, self.motion.rows_of(gone))
        if more is not None:
            rows = np.union1d(rows, more)
        if not rows.size:
            return v
        state = self.state(q, v, np.zeros(len(v)))
        C = self.motion.spread(state, rows)
        p = least(self.motion.delassus(state, C), -state.rate[rows])
        return v + self.motion.pushed(q, state, C, p)

    def state(self, q: Array, v: Array, vdot: Array) -> RowState:
        """The rows at a state; ends the run where they are not finite."""
        state = self.motion.at(q, v, vdot)
        if state is None:
            raise Diverged("the positions of contacts are not finite")
        return state

    # ---- forces -------------------------------------------------------------------------------

    def accelerations(self, q: Array, v: Array, free: Array) -> Array:
        """vdot (nv,) with the forces of the modes, from those without; NaN where there are none."""
        if not self.phase.rows.size:
            self.forces, self.power = np.zeros(len(self.forces)), 0.0
            return free
        state = self.motion.at(q, v, free) if all_finite(free) else None
        if state is None:
            return np.full(len(free), np.nan)
        rows, C = self.phase.rows, self.motion.spread(state, self.phase.rows)
        found, W = self._solved(state, C)
        self.forces = np.zeros(len(self.forces))
        self.forces[rows] = found
        self.power = float(found @ state.rate[rows])
        vdot = free + self.motion.pushed(q, state, C, found)
        own = W.diagonal() * found
        if np.abs(vdot).max() <= _STILL * max(np.abs(free).max(), np.abs(own).max()):
            return np.zeros(len(free))  # all forces balance: what is left is rounding
        return vdot

    def _solved(self, state: RowState, C: Array) -> tuple[Array, Array]:
        """Forces of the rows of the phase, and their W."""
        at = self.phase
        W = self.motion.delassus(state, C)
        free = (state.straight + state.turning)[at.held]
        T, size, known = at.unit, 1.0, np.zeros(len(at.rows))
        if at.slips.size:
            lean = self._lean(state)
            known[at.rubbing] = lean[at.rubs] * state.bounds[at.joints]
            free = free + (W @ known)[at.keep]
            if at.leaning.size:
                T = at.with_friction(lean)
                size = np.sqrt(np.sum(T * T, axis=0))
        WT = (W @ T)[at.keep]
        if at.gives.size:  # a known force in place of an equation
            own, here = W[at.keep, at.keep][at.gives], at.given_by
            push = self.at.push(state.gap, state.rate[self.normals], state.weight)[here]
            lost = state.gap[here] > NO_CONTACT  # it pulls a little, which ends its phase
            own, push = np.where(lost, 1.0, own), np.where(lost, -1.0, push)
            WT[at.gives], free[at.gives] = 0.0, -own * push
            WT[at.gives, at.gives] = own
        A = WT / size
        gone = np.count_nonzero(state.gap[at.heads] > NO_CONTACT)  # the step will be cut before
        if at.is_regular is None:
            at.is_regular = bool(np.linalg.cond(A) < _REGULAR)
        if at.is_regular and not gone:
            return T @ (np.linalg.solve(A, -free) / size) + known, W
        self._stress = A, T / size
        return T @ (least(A, -free) / size) + known, W

    def contained(self, state: RowState, forces: Array) -> Array:
        """Forces (n,) of the phase inside their cones, where the motion leaves them free.

        The minimum-norm forces, and where these are outside, others with the same motion.
        """
        at, stuck = self.at, self.at.active(self.modes.closed) & ~self.modes.slips
        normal, rows = forces[self.normals], self.phase.rows
        if self.phase.is_regular or not stuck.any():
            return forces
        if (at.ratio(forces) <= at.bounds(normal, state.bounds))[stuck].all():
            return forces
        A, T = self._stress
        _, sizes, V = np.linalg.svd(A)
        Z = np.zeros((len(forces), int(np.sum(sizes <= RANK * sizes[0]))))
        if not Z.shape[1]:
            return forces
        Z[rows] = T @ V[len(sizes) - Z.shape[1] :].T
        closed = np.flatnonzero(self.modes.closed & ~at.soft)  # these only push
        bound = np.append(at.bounds(normal, state.bounds)[stuck], normal[closed])
        by_bound = np.zeros((len(at.heads), Z.shape[1]))
        by_bound[at.has_head] = Z[self.normals[at.heads[at.has_head]]]
        by_bound = np.append(by_bound[stuck], Z[self.normals[closed]], axis=0)
        most = int(at.members.sum(axis=1).max())
        force, by_force = np.zeros((len(bound), most)), np.zeros((len(bound), most, Z.shape[1]))
        for i, g in enumerate(np.flatnonzero(stuck)):
            mine = np.flatnonzero(at.group == g)
            c, d = at.coefficients[mine], np.arange(len(mine))
            force[i, d], by_force[i, d] = forces[mine] / c, Z[mine] / c[:, None]
        return forces + Z @ farthest_inside(bound, force, by_bound, by_force)

    def _phase_forces(self, state: RowState) -> tuple[Array, Array]:
        """Forces (n,) of the phase at a state, inside their cones where they can be, and its W."""
        force, rows = np.zeros(len(self.forces)), self.phase.rows
        force[rows], W = self._solved(state, self.motion.spread(state, rows))
        return self.contained(state, force), W

    def _regular(self, state: RowState, W: Array) -> Array:
        """W_nn − μ W_nt e of the slots (k,) beside W_nn."""
        at, regular = self.phase, np.ones(self.at.k)
        if at.leaning.size:
            T = at.with_friction(self._lean(state))
            rows, normals = at.keep[at.normal], at.normal
            own, whole = np.sum(W[rows] * T[:, normals].T, axis=1), W[rows, rows]
            if at.gives.size:  # its own force is known
                own = np.where(np.isin(normals, at.gives), whole, own)
            regular[at.heads] = own / np.maximum(whole, 1e-300)
        return regular

    def _lean(self, state: RowState) -> Array:
        """−μ e of the rows that slip: their forces per normal force, or bound."""
        at, direction = self.phase, self.modes.direction
        basis = self._basis(state, at.moving)
        c = self.at.coefficients[at.moving]
        z = at.members @ (basis * (c * state.rate[at.moving])[:, None])
        along = np.einsum("ij,ij->i", z, direction)
        # beyond a stop, where the rate points backward, friction goes on as before it: smoothly
        e = np.where(along < 0, -1.0, 1.0)[:, None] * z + at.soft[:, None] * direction
        length = np.sqrt(np.einsum("ij,ij->i", e, e))
        e = e / np.where(length > 0, length, 1.0)[:, None]
        return -c * np.einsum("ij,ij->i", basis, e[at.groups])

    def _by_rows(self, basis: Array, directions: Array, which: Array) -> Array:
        """−μ e (n,) of groups with these directions (g, 4)."""
        mine = self.at.group >= 0
        out = np.zeros(len(mine))
        g = self.at.group[mine]
        e = np.sum(basis[mine] * directions[g], axis=1)
        out[mine] = np.where(which[g], -self.at.coefficients[mine] * e, 0.0)
        return out

    def _basis(self, state: RowState, rows: Any = slice(None)) -> Array:
        """Axes (n, 4) of rows that do not depend on contact axes: [spin or joint; world axes]."""
        spin, axes = self.at.plain[rows], state.axes[rows]
        basis = np.empty((len(axes), 4))
        basis[:, 0] = spin
        basis[:, 1:] = axes * ~spin[:, None]
        return basis

    def _group_rates(self, state: RowState, basis: Array) -> Array:
        """Rates μ u of groups (g, 4)."""
        return self.at.members @ (basis * (self.at.coefficients * state.rate)[:, None])

    # ---- margins ------------------------------------------------------------------------------

    def margins(self, q: Array, v: Array, free: Array) -> tuple[RowState, Margins]:
        """The rows at a state, and numbers that are positive while the modes hold."""
        state, modes, at = self.state(q, v, free), self.modes, self.at
        k, g = at.k, len(at.heads)
        push, stick, slip, begin, there = (np.ones(i) for i in (k, g, g, g, k))
        if not self.phase.rows.size:
            return state, Margins(push, stick, slip, begin, np.ones(k), there)
        closed = modes.closed
        force, W = self._phase_forces(state)
        regular, normal = self._regular(state, W), force[self.normals]
        push[closed] = normal[closed]
        mine = at.active(closed)
        stuck, slides = mine & ~modes.slips, mine & modes.slips
        stick[stuck] = (at.bounds(normal, state.bounds) - at.ratio(force))[stuck]
        if slides.any():
            z = self._group_rates(state, self._basis(state))
            speed, size = np.sqrt(np.sum(z * z, axis=1)), at.size
            along = np.sum(z * modes.direction, axis=1) - 0.5 * speed
            # a slip that nearly stops is a stop: it turns there at once, if it goes on
            slack = np.where(modes.begins, 1e-2, -1e-2) * SLIDES
            slip[slides] = (along + slack * size)[slides]
            begin[modes.begins] = (_BEGUN * size - speed)[modes.begins]
        firm = closed & ~at.soft
        there[firm] = 1.0 - state.gap[firm] / _LOST
        faces = firm & (at.between_faces | at.bends)
        if faces.any():
            most = np.where(at.bends[faces], _BENDS, _LEAPS)
            leaps = np.abs(state.rate[self.normals[faces]]) / most
            there[faces] = np.minimum(there[faces], 1.0 - leaps)
        if state.places is not None:
            there[closed & state.places.leaps] = -1.0
        return state, Margins(push, stick, slip, begin, regular - 1e-6, there)

    # ---- events -------------------------------------------------------------------------------

    def reach(self, state: RowState) -> Array:
        """Gaps (k,), below zero where bodies touch; of what gives, where it carries something."""
        return self.at.reach(state.gap, state.rate[self.normals])

    def touching(self, state: RowState) -> Array:
        """The slots, stops and ropes (k,) that do not give, and whose gap is closed."""
        near = (state.gap <= self.tolerance) | (self.modes.closed & (state.gap < _LOST))
        return near & ~self.at.soft

    def pressed(self, state: RowState) -> Array:
        """The compliant slots (k,) that carry something or begin to."""
        if not self.at.soft.any():
            return self.at.soft
        u, a = (x[self.normals] for x in (state.rate, state.straight + state.turning))
        push = self.at.push(state.gap, u, state.weight)
        least = self.at.stiffness(state.weight) * _SUNK
        begins = (np.abs(push) <= least) & ((u < -AT_REST) | ((np.abs(u) <= AT_REST) & (a < 0)))
        return self.at.soft & (state.gap <= _SUNK) & ((push > least) | begins)

    def _light(self, state: RowState, push: Array) -> Array:
        """The compliant slots (k,) that carry nothing yet."""
        return self.at.soft & (push <= self.at.stiffness(state.weight) * _FELT)

    def _first_push(self, state: RowState) -> Array:
        """Forces (k,) of compliant slots; of those that begin to carry, the first little.

        A corner that lands turns its body, and slips or sticks by the ratio of forces that are both
        zero yet.
        """
        u = state.rate[self.normals]
        down = np.maximum(-u, 0.0) / max(float(-u.min(initial=0.0)), AT_REST)
        first = np.where(u < -AT_REST, down, 1.0) * _FELT
        push = self.at.push(state.gap, u, state.weight)
        return np.maximum(push, self.at.stiffness(state.weight) * first)

    def grazes(self, state: RowState) -> Array:
        """The open slots (k,) that go down, and will turn before they are in a body.

        A point on the rim of a wheel that rolls is at the floor once in a turn: its gap has a
        double zero there. What is left of it is rounding, and stopping it would stop the wheel.
        """
        u, deep = state.rate[self.normals], self.shallow(state)
        near = ~self.modes.closed & ~self.at.soft & (u < 0) & (np.abs(state.gap) < deep)
        if near.any():
            a = self._changes(state)[self.normals]
            near &= a > 0
            near[near] = (state.gap - 0.5 * u * u / np.where(near, a, 1.0))[near] > -deep
        return near

    def shallow(self, state: RowState) -> float:
        """Depth (m) of a dip that is no contact, beside gaps of closed slots in dense output."""
        firm = self.modes.closed & ~self.at.soft
        return _SHALLOW + 2 * float(np.abs(state.gap[firm]).max(initial=0.0))

    def _changes(self, state: RowState) -> Array:
        """du/dt (n,) of all rows with the forces of the modes."""
        change, rows = state.straight + state.turning, self.phase.rows
        if not rows.size:
            return change
        C = self.motion.spread(state, rows)
        found, _ = self._solved(state, C)
        every = self.motion.spread(state, np.arange(len(change)))
        return change + every @ (state.admittance @ (found @ C))

    def _problem(
        self, heads: Array, W: Array, b: Array, s: Array, coefficients: Array, limits: bool = False
    ) -> ContactProblem:
        plan, cut = self.motion.layout, self.at.slots
        kinds = tuple(plan.contacts[i] for i in np.flatnonzero(heads[:cut]))
        layout = ContactProblemLayout(kinds, int(heads[cut:].sum()), plan.limits if limits else 0)
        return ContactProblem(layout, W, b, s, coefficients)

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
        problem = self._problem(slots, W, b, e * approach, self.at.coefficients[rows])
        if e.any():
            found = solve_rebound(problem, np.zeros(len(e)), tolerance=TOLERANCE).solution
        else:
            found = solve(problem, tolerance=TOLERANCE)
        self._check(found, slots, "impulses")
        p = np.zeros(len(self.forces))
        p[rows] = found.p
        gain = float(found.p @ (state.rate[rows] + 0.5 * (W @ found.p)))
        after = v + self.motion.pushed(q, state, C, found.p)
        return Impact(after, p, gain)

    def _check(self, found: Any, slots: Array, what: str) -> None:
        self.worst_residual = max(self.worst_residual, float(found.residual))
        if not found.is_solved:
            names = sorted({self.names[i] for i in np.flatnonzero(slots)})
            raise Diverged(
                f"the contact solver did not converge: {what} of {', '.join(map(repr, names))} "
                f"have the residual {float(found.residual):.2g}. A stiffness in their materials, "
                "or integrator='time_stepping' with a small dt, may help"
            )

    def decide(self, q: Array, v: Array, free: Array) -> Decision | None:
        """The modes that follow from a state; None where no finite forces exist (Painlevé)."""
        state, at = self.state(q, v, free), self.at
        a, n = state.straight + state.turning, len(self.forces)
        firm = self.touching(state) & (np.abs(state.rate[self.normals]) <= AT_REST)
        pressed = self.pressed(state)
        heads = firm | pressed
        self.forces, last = np.zeros(n), self.forces
        rows = self.motion.rows_of(heads, limits=True)
        if not rows.size:
            return Decision(self._none, a, np.zeros(0, int))
        C = self.motion.spread(state, rows)
        W, basis = self.motion.delassus(state, C), self._basis(state)
        speed, e = at.units(self._group_rates(state, basis))
        slides = (speed > SLIDES) & at.active(heads)
        lean = self._by_rows(basis, e, slides)[rows]
        is_joint, mine = at.is_limit[rows], np.arange(len(rows))
        bound = np.zeros(n)
        bound[at.is_limit] = state.bounds
        known = np.where(is_joint, lean * bound[rows], 0.0)
        normals = np.append(self.normals, np.zeros(self.motion.layout.limits, int))
        own_head = np.where(is_joint, rows, normals[at.row_heads[rows]])
        T = np.eye(len(rows))
        T[mine, np.searchsorted(rows, own_head)] += np.where(is_joint, 0.0, lean)
        WT, b = W @ T, a[rows] + W @ known
        soft = np.searchsorted(rows, self.normals[pressed])
        if soft.size:  # a known force in place of the law of rigid contact
            push = self._first_push(state)[pressed]
            own = W[soft, soft]
            WT[soft], b[soft] = 0.0, -own * push
            WT[soft, soft] = own
        sliding = (at.group[rows] >= 0) & np.append(slides, False)[at.group[rows]]
        given = np.where(is_joint, bound[rows], at.coefficients[rows])
        given = np.where(sliding, 0.0, given)
        problem = self._problem(heads, WT, b, np.zeros(int(heads.sum())), given, limits=True)
        found = solved_forces(problem, np.where(sliding, 0.0, last[rows]))
        if not found.is_solved and sliding.any():
            return None
        self._check(found, heads, "forces")
        force, own = np.zeros((2, n))
        force[rows], own[rows] = T @ found.p + known, np.einsum("ii->i", W)
        size = max(np.abs(state.straight[rows]).max(), np.abs(state.turning[rows]).max())
        normal = force[self.normals]
        closed = pressed | (firm & (normal * own[self.normals] > _LIGHT * size))
        ratio, active = at.ratio(force), at.active(closed)
        full = (ratio > 0) & (ratio >= (1.0 - _MARGIN) * at.bounds(normal, state.bounds))
        self.forces = force
        total = free + self.motion.pushed(q, state, C, force[rows])
        after = self.state(q, v, total)
        change = after.straight + after.turning
        # against the force; where what gives carries nothing yet, along the acceleration
        toward = at.members @ (basis * -at.scaled(force)[:, None])
        along = at.members @ (basis * (at.coefficients * change)[:, None])
        speeds_up = np.sqrt(np.sum(along * along, axis=1)) / np.maximum(at.size * size, 1e-300)
        if at.soft.any():
            light = at.has_head & self._light(state, normal)[at.head]
            toward[light] = along[light]
            full[light] = (speeds_up > _LIGHT)[light]
        begins, slips = active & full & ~slides, active & (slides | full)
        unit = at.units(toward)[1]
        direction = np.where(slides[:, None], e, np.where(begins[:, None], unit, 0.0))
        slow = at.group >= 0
        slow[slow] = (active & ~slides)[at.group[slow]]
        still = begins & (speeds_up <= 10 * _LIGHT)
        modes = self._settled(state, Modes(closed, slips, direction, begins), still)
        return Decision(self._pushing(state, modes), change, np.flatnonzero(slow))

    def _settled(self, state: RowState, modes: Modes, still: Array) -> Modes:
        """The same modes, with groups (g,) that stick if some forces inside their cones hold them.

        Forces at the bounds of cones that move nothing are one choice of many: no slip begins.
        """
        if not still.any():
            return modes
        kept, rest = self.modes, ~still
        self.modes = left = _only(modes, modes.closed, rest)
        force, _ = self._phase_forces(state)
        bound = (1.0 - _MARGIN) * self.at.bounds(force[self.normals], state.bounds)
        self.modes = kept
        sticks = self.at.active(modes.closed) & ~left.slips
        return left if (self.at.ratio(force) < bound)[sticks].all() else modes

    def _pushing(self, state: RowState, modes: Modes) -> Modes:
        """The same modes without slots that would pull with the minimum-norm forces of a phase.

        Of more points than hold a body, some carry nothing: they stay closed without a force.
        """
        kept, left = self.modes, modes
        for _ in range(int(modes.closed.sum())):
            self.modes = left
            if not self.phase.rows.size:
                break
            normal = self._phase_forces(state)[0][self.normals]
            normal[~left.closed | self.at.soft] = np.inf
            if normal.min(initial=np.inf) > 0:
                break
            closed = left.closed.copy()
            closed[normal.argmin()] = False
            left = _only(left, closed, self.at.active(closed))
        if left is not modes:
            self.modes = left
            a = self._changes(state)[self.normals]
            if (a[modes.closed & ~left.closed] < -_LIGHT * np.abs(a).max()).any():
                left = modes
        self.modes = kept
        return left


def _only(modes: Modes, closed: Array, groups: Array) -> Modes:
    """Modes with these slots, in which only some groups slip."""
    some = groups[:, None]
    return Modes(closed, modes.slips & groups, modes.direction * some, modes.begins & groups)
