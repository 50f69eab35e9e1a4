"""Events of contacts in a run: impacts, lift-off, sticking and slipping, located and acted upon.

Between two samples of a step, numbers that are positive while the modes hold change their sign: the
normal force of a closed slot, the distance to the cone of a group that sticks, the rate of a group
that slips along its direction (which begins a new phase too when it has turned by 60°). The gap of
an open slot is watched on stretches without a turning point of its own: no dip or hop between two
samples is missed that the rates at both show.

A bounce that is lower than the tolerance is not made. The bounces that would follow last
Δt/(1 − e) together, Δt the time of the next one: after that the contact is at rest.

**Source:** theory/contact 6.

Reasons: docs/decisions/0044.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from phipsi.contact import OPEN, SLIPS, STICKS, EventCertificate, turns_at_joints
from phipsi.simulation.impacts.contact_motion import RowState
from phipsi.simulation.modes.contact_modes import AT_REST, INSTANT, ContactModes, Free
from phipsi.simulation.modes.contact_phase import Decision, Margins, Modes
from phipsi.simulation.simulate.stepper import Diverged, TimeStep
from phipsi.support import import_optional

Array = NDArray[Any]

_LEFT = 1e-11
"""Gap (m) that a slot must have had before its next contact is an impact."""
_UNSEEN, _WAY = 2e-4, 2e-3
"""Ways (m) of bodies between samples, within which a graze half as deep may be missed; the second
where another event is found there."""
_MANY, _NO_TIME = 40, 1e-12
"""So many events within this share of the run are a cycle of modes."""
_TOO_MANY, _HARDLY = 500, 5e-4
"""So many events within this time (s) as well: such a run would not end in a reasonable time."""
_PAINLEVE = 3
_BEFORE = 20
"""Closings before the one that was found first that are looked for, one before the other."""
_TURNED = 1e-4
"""Change of rates (m/s, rad/s) by closing gaps, above which a normal is another one behind it."""
_CALM, _SOON, _CHATTER = 1e-4, 1e-4, 20
"""Rates (m/s, rad/s) and times (s) between so many events that are a chatter of bodies at rest."""


class EventOutcome(NamedTuple):
    """The state after an event; its names; energy that impacts added, ≤ 0; rests (time, name)."""

    q: Array
    v: Array
    names: list[str]
    gain: float
    rests: list[tuple[float, str]]


class LocatedEvent(NamedTuple):
    """When an event happens, and whether friction is not smooth behind it: a slip that stops."""

    t: float
    stops: bool


class _MarginSample(NamedTuple):
    t: float
    state: RowState
    margins: Margins


@final
class ContactEvents:
    """Locates events of contacts, and changes the modes.

    **Attributes:** `modes`, as `ContactModes` has them; `count`, how many events there were;
    `deepest`, m, `angle`, rad, and `outside`, N, how far a sample was out of a gap, beyond a stop
    of a joint that turns, or out of a cone; `gained`, J, the most kinetic energy that an impact
    added.
    """

    def __init__(self, contacts: ContactModes, free: Free, end: float) -> None:
        self.contacts, self._free, self._end = contacts, free, end
        self._armed = np.zeros(contacts.at.k, bool)
        self._last: _MarginSample | None = None
        self._recent: list[float] = []
        self._calm, self._before = 0, -math.inf
        self.count, self.deepest, self.outside, self.gained = 0, 0.0, 0.0, 0.0
        self.angle, self._angles = 0.0, contacts.motion.plan.turning

    # ---- locating -----------------------------------------------------------------------------

    def first(self, step: TimeStep) -> LocatedEvent | None:
        """The first event in a step; None if there is none."""
        before = self._last
        if before is None or before.t != step.t0:
            before = self._sample(step, step.t0)
        times = list(reversed(step.samples))
        while times:
            after = self._sample(step, times[-1])
            armed = self._armed.copy()
            found = [*self._changes(step, before, after), *self._closings(step, before, after)]
            if self._may_hide(before, after, _WAY if found else _UNSEEN):
                self._armed = armed
                times.append(0.5 * (before.t + after.t))
                continue
            times.pop()
            if found:
                self._last = None
                return self._earliest(step, before, min(found))
            self._note(after)
            self.contacts.motion.follow(after.state)
            before = after
        self._last = before
        if (before.margins.begin < 0).any():  # a slip has begun: other steps go on from here
            self._last = None
            return LocatedEvent(step.t1, False)
        return None

    def _earliest(self, step: TimeStep, before: _MarginSample, found: LocatedEvent) -> LocatedEvent:
        """The event, or the first closing of a slot that is inside then and has none behind it.

        Deeper in a body there may be no such contact, so that both ends of a long step are open.
        """
        for _ in range(_BEFORE):
            at = self._sample(step, found.t)
            if not self.contacts.inside(at.state).any():
                break
            sooner = [x for x in self._closings(step, before, at) if x.t < found.t]
            if not sooner:
                break
            found = min(sooner)
        return found

    def _sample(self, step: TimeStep, t: float) -> _MarginSample:
        q, v = step.at(t)
        return _MarginSample(t, *self.contacts.margins(q, v, self._free(t, q, v)))

    def _may_hide(self, before: _MarginSample, after: _MarginSample, way: float) -> bool:
        """Whether bodies that are apart at two samples, and move farther, may touch in between.

        The corner of a box that grazes another one shows at no slot before and after. With the
        distances d of a pair at both, and L the rate at which these can change, no distance in
        between is below (d₀ + d₁ − L Δt)/2: along the normal, a body approaches as its nearest
        point does, and as it turns. Two convex bodies that touch do so in one plane, and slots have
        all corners of the polygon between their faces there: these turn in sight. A height field
        has peaks beside a contact too, past which L is the whole speed: d is that of open slots.
        """
        pairs, closed = self.contacts.motion.pairs_between, self.contacts.modes.closed
        if pairs is None:
            return False
        apart, normals = np.zeros(len(pairs.slots)), self.contacts.normals
        closing, rows = np.zeros((2, len(apart))), np.arange(len(apart))
        held = (pairs.slots >= 0) & closed[pairs.slots]
        seen = (pairs.slots >= 0) & ~held
        for x, rate in zip((before.state, after.state), closing, strict=True):
            assert x.places is not None
            gap = np.where(seen, x.gap[pairs.slots], np.inf)
            near = gap.argmin(axis=1)
            apart += gap[rows, near]
            turn, speed = pairs.speeds(x.places)
            own = np.abs(x.rate[normals[pairs.slots[rows, near]]]) + turn
            rate[:] = np.where(pairs.solid, own, speed)
        moved = (after.t - before.t) * closing.max(axis=0)
        free = ~(pairs.solid & held.any(axis=1))
        return bool((free & (moved > way) & (apart < moved)).any())

    def _note(self, sample: _MarginSample) -> None:
        closed, soft = self.contacts.modes.closed, self.contacts.at.soft
        gaps = np.where(closed, np.abs(sample.state.gap), -sample.state.gap)
        angles = self._angles
        self.deepest = max(self.deepest, float(gaps[~soft & ~angles].max(initial=0.0)))
        self.angle = max(self.angle, float(gaps[angles].max(initial=0.0)))
        m = sample.margins
        worst = min(float(m.push.min(initial=0.0)), float(m.stick.min(initial=0.0)))
        self.outside = max(self.outside, -worst)

    def _changes(
        self, step: TimeStep, before: _MarginSample, after: _MarginSample
    ) -> list[LocatedEvent]:
        """When modes of closed slots end."""
        found: list[LocatedEvent] = []
        for kind, name in enumerate(Margins._fields):
            if name == "begin":
                continue
            x, y = before.margins[kind], after.margins[kind]
            for i in np.flatnonzero(y < 0):
                if x[i] <= 0:
                    found.append(LocatedEvent(before.t, False))
                    continue

                def value(t: float, kind: int = kind, i: int = int(i)) -> float:
                    return float(self._sample(step, t).margins[kind][i])

                at = _root(value, before.t, after.t)
                # behind a leap; a normal that begins to turn would have a rate there
                if name == "there" and not self.contacts.at.bends[i]:
                    at = _behind(value, at, after.t)
                found.append(LocatedEvent(at, name == "slip"))
        return found

    def _closings(
        self, step: TimeStep, before: _MarginSample, after: _MarginSample
    ) -> list[LocatedEvent]:
        """When open slots close."""
        normals = self.contacts.normals
        g0, g1 = (self.contacts.reach(x.state) for x in (before, after))
        u0, u1 = before.state.rate[normals], after.state.rate[normals]
        length = after.t - before.t
        fast = np.maximum(np.abs(u0), np.abs(u1)) * length > _LEFT
        dips = (u0 < 0) & (u1 > 0) & fast & (np.minimum(g0, g1) < length * np.maximum(-u0, u1))
        hops = (u0 > 0) & (u1 < 0) & fast & ~self._armed & (g0 <= _LEFT)
        open_ = ~self.contacts.modes.closed
        low = np.where(self._armed, 0.0, -_LEFT)
        below = open_ & (g1 < low)
        if below.any():
            below &= dips | hops | ~self.contacts.grazes(after.state)
        found = [
            LocatedEvent(t, False)
            for i in np.flatnonzero(below | (open_ & (dips | hops)))
            for t in self._closing(step, int(i), before, after, bool(dips[i] or hops[i]))
        ]
        self._armed |= g1 > _LEFT
        return found

    def _closing(
        self, step: TimeStep, i: int, before: _MarginSample, after: _MarginSample, turns: bool
    ) -> list[float]:
        """When slot i closes between two samples; with a turning point of its gap, in two parts."""
        row = self.contacts.normals[i]
        zero = np.zeros(self.contacts.motion.model.nv)

        def at(t: float) -> RowState:
            return self.contacts.state(*step.at(t), zero)

        times = [before.t, after.t]
        if turns:
            times.insert(1, _root(lambda t: float(at(t).rate[row]), before.t, after.t))
        there = [at(t) for t in times]
        gaps = [float(self.contacts.reach(x)[i]) for x in there]
        if turns and before.state.rate[row] < 0 and gaps[1] > -self.contacts.shallow(there[1]):
            return []
        armed = self._armed[i] or gaps[0] > _LEFT
        for (t0, t1), (g0, g1) in zip(
            zip(times, times[1:], strict=False), zip(gaps, gaps[1:], strict=False), strict=True
        ):
            level = 0.0 if armed else -_LEFT
            if g1 < level:
                if g0 <= level:
                    return [t0]

                def over(t: float, level: float = level) -> float:
                    return float(self.contacts.reach(at(t))[i]) - level

                return [_root(over, t0, t1)]
            armed = armed or g1 > _LEFT
        return []

    # ---- recording ----------------------------------------------------------------------------

    def sample(self, t: float, q: Array, v: Array) -> tuple[Array, Array, Array]:
        """Forces (k, 6) and modes (k,) of slots at a state, and forces of the rows of joints."""
        contacts = self.contacts
        free = self._free(t, q, v)
        kept = contacts.forces, contacts.power
        contacts.accelerations(q, v, free)
        state = contacts.motion.at(q, v, free)
        forces, (contacts.forces, contacts.power) = contacts.forces, kept
        k, rest = contacts.at.slots, forces[len(contacts.motion.table.slot) :]
        modes = self.kinds(contacts.modes)[:k]
        if state is None:
            return np.full((k, 6), np.nan), modes, np.full(rest.shape, np.nan)
        if state.places is not None:
            modes[state.places.order[:k]] = modes.copy()
        forces = contacts.contained(state, forces)
        rest = forces[len(contacts.motion.table.slot) :]
        return contacts.motion.world(state, forces), modes, rest

    def joint_forces(self, rows: Array) -> dict[str, Array]:
        """Forces of the rows of joints (times, rows) at the rates of joints, and of ropes."""
        plan, out = self.contacts.motion.plan, {}
        first = len(plan.table.slot)
        for name, places, rates, signs in plan.joint_parts():
            at_rates = np.zeros((len(rates), plan.model.nv))
            at_rates[np.arange(len(rates)), rates] = signs
            out[name.split(".")[0]] = rows[:, places - first] @ at_rates
        if len(plan.rope_rows):
            out["rope"] = rows[:, plan.rope_rows - first]
        return out

    def stored(self, q: Array) -> float:
        """Energy (J) of surfaces that are pressed in."""
        zero = np.zeros(self.contacts.motion.model.nv)
        state = self.contacts.state(q, zero, zero)
        return self.contacts.at.stored(state.gap, state.weight)

    def certificate(self, balance: float, dissipated: float) -> EventCertificate:
        """The worst so far, with the energies of the run."""
        found, plan = self.contacts, self.contacts.motion.plan
        worst = self.deepest, self.angle, found.worst_residual, self.outside, self.gained
        turns = turns_at_joints(plan.model, plan.joints)
        return EventCertificate(*worst, self.count, balance, dissipated, turns)

    # ---- acting -------------------------------------------------------------------------------

    def begin(self, t: float, q: Array, v: Array, *, again: bool = True) -> EventOutcome:
        """Modes after an event, or at the start, with impacts where bodies approach each other."""
        self._guard(t)
        self._last = None
        contacts, before = self.contacts, self.contacts.modes
        free = self._free(t, q, v)
        contacts.motion.follow(contacts.state(q, v, free))
        state = contacts.state(q, v, free)
        contacts.check_depths(state)
        normals, names = contacts.normals, list[str]()
        touching = contacts.touching(state) & ~contacts.grazes(state)
        gain, hit = 0.0, np.zeros(len(touching), bool)
        if (touching & (state.rate[normals] < -AT_REST)).any():
            impact = contacts.impact(q, v, state, touching)
            hit = impact.impulses[normals] > 0
            closing = hit & (state.rate[normals] < -AT_REST)
            v, gain = impact.v, impact.gain
            names += self._named(closing, "hits")
        for _ in range(_PAINLEVE):
            free = self._free(t, q, v)
            decided = contacts.decide(q, v, free)
            if decided is not None:
                break
            state = contacts.state(q, v, free)
            impact = contacts.impact(q, v, state, contacts.touching(state), lasting=INSTANT)
            names += self._named(impact.impulses[normals] > 0, "jams")
            v, gain = impact.v, gain + impact.gain
            hit |= impact.impulses[normals] > 0
        else:
            names_of = ", ".join(sorted({repr(x) for x in contacts.names}))
            raise Diverged(
                f"no forces and no impulses of {names_of} are consistent with the motion"
            )
        rests: list[tuple[float, str]] = []
        if hit.any():
            low, rests = self._low(t, q, v, decided, touching)
            if low.any():
                contacts.modes = decided.modes
                gain += self._kinetic_change(q, v, normals[low])
                v = contacts.stopped(q, v, normals[low])
                decided = contacts.decide(q, v, self._free(t, q, v)) or decided
        if again and self._chatters(t, q, v, touching):  # counted once an event
            contacts.modes, rows = decided.modes, contacts.motion.rows_of(touching)
            stopped = contacts.stopped(q, v, rows)
            gain += self._kinetic_change(q, v, rows)
            v, decided = stopped, contacts.decide(q, stopped, self._free(t, q, stopped)) or decided
        contacts.modes = modes = decided.modes
        q, stopped = contacts.project(t, q, v := contacts.stopped(q, v, decided.slow))
        if again and np.abs(stopped - v).max(initial=0.0) > _TURNED:
            # a corner at the edge of a face of a height field is over the next one now
            contacts.modes = before
            more = self.begin(t, q, v, again=False)
            self.gained = max(self.gained, gain := gain + more.gain)
            self.count += bool(names) and not more.names
            names, rests = [*names, *more.names], [*rests, *more.rests]
            return more._replace(names=list(dict.fromkeys(names)), gain=gain, rests=rests)
        v = stopped
        self.gained = max(self.gained, gain)
        names += self._changed(before, modes, hit)
        self._armed = contacts.reach(contacts.state(q, v, np.zeros(len(v)))) > _LEFT
        self.count += bool(names)
        return EventOutcome(q, v, names, gain, rests)

    def _chatters(self, t: float, q: Array, v: Array, touching: Array) -> bool:
        """Whether a body that touches with several points only chatters on them.

        A block that friction tips and that falls back may go on so for ever, with amplitudes below
        all tolerances; it is at rest then.
        """
        contacts, soon = self.contacts, t - self._before < _SOON
        self._before = t
        rows = contacts.motion.rows_of(touching)
        slow = rows.size and touching.sum() > 1
        if slow:
            rate = contacts.state(q, v, np.zeros(len(v))).rate
            slow = np.abs(rate[rows]).max() < _CALM
        self._calm = self._calm + 1 if slow and soon else 0
        if self._calm < _CHATTER:
            return False
        self._calm = 0
        return True

    def _kinetic_change(self, q: Array, v: Array, more: Array) -> float:
        """The kinetic energy (J) that stopping more rows takes away, as a negative number."""
        contacts = self.contacts
        rows = np.union1d(contacts.phase.still, more)
        state = contacts.state(q, v, np.zeros(len(v)))
        C = contacts.motion.spread(state, rows)
        W, u = contacts.motion.delassus(state, C), state.rate[rows]
        p = np.linalg.lstsq(W, -u, rcond=1e-11)[0]
        return float(p @ (u + 0.5 * (W @ p)))

    def _low(
        self, t: float, q: Array, v: Array, decided: Decision, touching: Array
    ) -> tuple[Array, list[tuple[float, str]]]:
        """Slots whose bounce would be lower than the tolerance, and when they come to rest."""
        contacts = self.contacts
        normals = contacts.normals
        state = contacts.state(q, v, self._free(t, q, v))
        u, down = state.rate[normals], -decided.change[normals]
        # what goes up faster and faster, as a block that friction tips, begins so from rest too
        pull = np.where(down > 0, down, -(state.straight + state.turning)[normals])
        leaves = touching & ~decided.modes.closed & (u > AT_REST) & (pull > 0)
        height = np.where(leaves, u * u / (2 * np.where(leaves, pull, 1.0)), np.inf)
        low = height < contacts.tolerance
        rests = []
        falls = low & (down > 0)
        for name in dict.fromkeys(self._pairs(falls)):
            mine = falls & (np.array(contacts.names[: len(falls)]) == name)
            e = np.where(contacts.restitution[mine] < 1, contacts.restitution[mine], 0.0)
            flight = 2 * u[mine] / down[mine]
            rests.append((t + float((np.where(e > 0, flight / (1 - e), 0.0)).max()), name))
        return low, rests

    def _pairs(self, heads: Array) -> list[str]:
        names = self.contacts.names
        return list(dict.fromkeys(names[i] for i in np.flatnonzero(heads)))

    def _named(self, heads: Array, what: str) -> list[str]:
        ropes = len(self.contacts.motion.plan.joints.ropes)
        tied = set(self.contacts.names[self.contacts.at.k - ropes : self.contacts.at.k])
        words = {"hits": "goes taut", "lifts off": "goes slack"}
        return [f"{x} {words.get(what, what) if x in tied else what}" for x in self._pairs(heads)]

    def _changed(self, before: Modes, after: Modes, hit: Array) -> list[str]:
        """Names of what has changed."""
        old, new = self.kinds(before), self.kinds(after)
        at = self.contacts.at
        hit = np.append(hit, np.zeros(len(new) - len(hit), bool))
        rubs = np.ones(len(new), bool)  # stops and ropes do neither slip nor stick
        rubs[at.slots : at.k] = False
        names = self._named((old != OPEN) & (new == OPEN) & ~hit, "lifts off")
        names += self._named(rubs & (new == SLIPS) & (old != SLIPS), "slips")
        names += self._named(rubs & (new == STICKS) & (old != STICKS), "sticks")
        return names

    def kinds(self, modes: Modes) -> Array:
        """OPEN, SLIPS (slots without friction too) or STICKS (k,), then those of dry friction."""
        at = self.contacts.at
        sticks, slips = np.zeros(at.k, bool), np.zeros(at.k, bool)
        sticks[at.heads[at.has_head]] = True
        slips[at.heads[at.has_head & modes.slips]] = True
        kinds = np.where(modes.closed, np.where(sticks & ~slips, STICKS, SLIPS), OPEN)
        return np.append(kinds, np.where(modes.slips[~at.has_head], SLIPS, STICKS))

    def _guard(self, t: float) -> None:
        self._recent = [*self._recent[-_TOO_MANY:], t]
        for many, within in ((_MANY, _NO_TIME * self._end), (_TOO_MANY, _HARDLY)):
            if len(self._recent) > many and t - self._recent[-1 - many] <= within:
                raise Diverged(
                    f"contacts change their modes indefinitely (chattering) at t = {t:.9g} s "
                    f"({many} times within {t - self._recent[-1 - many]:.2g} s)"
                )


def _root(value: Any, t0: float, t1: float) -> float:
    """Where a number changes its sign, behind the change."""
    brentq = import_optional("scipy.optimize", "locating an event", "scipy").brentq
    a, b = value(t0), value(t1)
    if a == 0 or a * b > 0:
        return t0
    return float(brentq(value, t0, t1, xtol=4 * math.ulp(max(t1, 1e-3)), rtol=1e-15))


def _behind(value: Any, t: float, t1: float) -> float:
    """The first time from t on at which a number is negative, within a few roundings."""
    step = math.ulp(max(t, 1e-3))
    while t < t1 and value(t) >= 0:
        t, step = min(t + step, t1), 2 * step
    return t
