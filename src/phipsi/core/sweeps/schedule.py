"""Scheduling: put the equations into as few sweeps as their dependencies allow.

In a tip_to_base step a body may use anything of itself that is computed before in the same step,
and, through `up`, everything of its children; in a base_to_tip step, through `down`, everything of
its parent. Values of other bodies in the other direction, of points or of the whole must have been
computed by an earlier step. A step takes all equations that can run in it, so
sweeps of equal direction fuse whenever the second needs the first only at bodies already visited
(theory/open-chains 14.2).

The last pass plans buffers: which fields live at one body only, and when the others can be
forgotten. Most are needed at the body being visited only and never reach memory that grows with the
number of bodies.
"""

from __future__ import annotations

from collections.abc import Iterable

from phipsi.core.sweeps.ir import (
    Domain,
    Field,
    Loop,
    LoopStep,
    Reads,
    StepKind,
    dependencies,
    reached,
)
from phipsi.errors import LoweringError

# steps that run as soon as something can run in them
_AT_ONCE = (
    (Domain.WORLD, StepKind.SMALL),
    (Domain.POINT, StepKind.MEMORYLESS),
    (Domain.LINK, StepKind.MEMORYLESS),
    (Domain.ROW, StepKind.MEMORYLESS),
    (Domain.PATH, StepKind.PATH),
    (Domain.PAIR, StepKind.PAIRS),
)
_OTHER = {
    StepKind.BASE_TO_TIP: StepKind.TIP_TO_BASE,
    StepKind.TIP_TO_BASE: StepKind.BASE_TO_TIP,
}

MOST_WORK = 200_000
"""Steps times blocks that are still to be put into one; 60 mass matrices in a row need 45,000."""


def schedule(outputs: Iterable[Field]) -> list[LoopStep]:
    """The steps that compute the outputs; the fewest sweeps of the two starting directions."""
    left = _Left(reachable(outputs))
    steps = _greedy(left.copy(), StepKind.BASE_TO_TIP)
    assert steps is not None
    first = next((s.kind for s in steps if s.kind in _OTHER), None)
    if first is StepKind.BASE_TO_TIP:  # or else nothing can run that way first
        steps = _greedy(left, StepKind.TIP_TO_BASE, _cost(steps)) or steps
    for step in steps:
        step.fields = _in_order(step)
    return _sink_leaves(steps)


def reachable(outputs: Iterable[Field]) -> list[Field]:
    """All fields the outputs need, as they were numbered."""
    return sorted(reached(list(outputs)), key=lambda f: f.number)


def runs_in(x: Field) -> Domain:
    """The loop a field is computed in: over bodies, over points, or once."""
    runs = x.operation.runs
    if runs is Loop.OWN:
        return Domain.PATH if x.type.cols == "p" else x.type.domain
    if runs is Loop.ONCE:
        return Domain.WORLD
    if runs is Loop.PAIRS:
        return Domain.PAIR
    if x.type.cols == "p":
        return Domain.PATH
    return x.args[0].type.domain


def _cost(steps: list[LoopStep]) -> tuple[int, int]:
    return sum(s.kind in _OTHER for s in steps), len(steps)


class _Left:
    """The fields that are not in a step yet, by the loop they are computed in."""

    def __init__(self, fields: list[Field]) -> None:
        self.done: set[Field] = set()
        self.places: dict[Domain, list[Field]] = {}
        self.users: dict[Field, list[Field]] = {x: [] for x in fields}
        self.missing: dict[Field, int] = {}  # how many of its dependencies are not done
        for x in fields:
            self.places.setdefault(runs_in(x), []).append(x)
            needed = dependencies(x)
            self.missing[x] = len(needed)
            for y in needed:
                self.users[y].append(x)

    def copy(self) -> _Left:
        """The same fields, to be taken apart from these."""
        other = _Left([])
        other.users = self.users  # stays as it is
        other.done, other.places, other.missing = (
            set(self.done),
            dict(self.places),
            dict(self.missing),
        )
        return other

    def __len__(self) -> int:
        return sum(map(len, self.places.values()))

    def take(self, step: LoopStep) -> None:
        """Mark the fields of a step as done."""
        self.done.update(step.fields)
        for y in step.fields:
            for x in self.users[y]:
                self.missing[x] -= 1
        rest = [x for x in self.places[step.domain] if x not in self.done]
        self.places[step.domain] = rest

    def closure(self, domain: Domain, direction: StepKind | None) -> list[Field]:
        """The largest set of fields that one step can compute (cycles through it count)."""
        here, done, missing = self.places.get(domain), self.done, self.missing
        if not here:
            return []
        candidates = {x for x in here if x.operation.step is None or x.operation.step is direction}
        bad = {
            x
            for x in candidates
            if missing[x]
            for y in dependencies(x)
            if y not in done and (y not in candidates or _waits(x, y))
        }
        while bad:
            candidates -= bad
            bad = {x for y in bad for x in self.users[y] if x in candidates}
        return [x for x in here if x in candidates]


def _waits(x: Field, y: Field) -> bool:
    """Whether x needs y as it is when the step that computes y has ended."""
    return y.operation.runs is not Loop.OWN or x.operation.reads is Reads.MATE


def _greedy(
    left: _Left, first: StepKind, most: tuple[int, int] | None = None
) -> list[LoopStep] | None:
    """The steps that begin in a direction, if that is possible.

    With `most`, the cost of the steps that begin in the other direction: None as soon as these are
    not cheaper, or begin in the other direction too.
    """
    steps: list[LoopStep] = []
    direction, work = first, 0
    while len(left):
        work += len(left)
        if work > MOST_WORK:
            raise LoweringError(
                f"the program is too large: it has more than {len(steps)} sweeps one after the "
                f"other, with {len(left.users):,} blocks. Compile a part of the expression "
                "separately, and make its value an input of the rest"
            )
        step = _next_step(left, direction)
        if step is None:
            rest = [x for some in left.places.values() for x in some]
            raise LoweringError(
                "these equations depend on each other in both directions along the tree, so no "
                "sequence of sweeps computes them: " + "; ".join(map(repr, rest[:4]))
            )
        steps.append(step)
        if most is not None:
            sweeps, count = _cost(steps)
            if (sweeps, count) >= most or (sweeps == 1 and step.kind is _OTHER[first]):
                return None
        left.take(step)
        direction = _OTHER.get(step.kind, direction)
    return steps


def _next_step(left: _Left, direction: StepKind) -> LoopStep | None:
    for domain, kind in _AT_ONCE:
        ready = left.closure(domain, StepKind.TIP_TO_BASE if domain is Domain.PATH else None)
        if ready:
            return LoopStep(kind, domain, ready)
    for way in (direction, _OTHER[direction]):
        ready = left.closure(Domain.BODY, way)
        if any(x.operation.step is way for x in ready):
            return LoopStep(way, Domain.BODY, ready)
    ready = left.closure(Domain.BODY, None)
    return LoopStep(StepKind.MEMORYLESS, Domain.BODY, ready) if ready else None


def _in_order(step: LoopStep) -> list[Field]:
    """Topological order at one body; `up` and `down` read other bodies and wait for nobody."""
    inside = set(step.fields)
    state: dict[Field, int] = {}
    out: list[Field] = []
    for root in step.fields:
        stack: list[tuple[Field, bool]] = [(root, False)]
        while stack:
            x, finished = stack.pop()
            if finished:
                state[x] = 2
                out.append(x)
                continue
            if state.get(x) == 2:
                continue
            if state.get(x) == 1:
                raise LoweringError(f"an equation depends on itself at one body: {x!r}")
            state[x] = 1
            stack.append((x, True))
            if x.operation.step is not None:
                continue
            stack.extend((y, False) for y in dependencies(x) if y in inside and state.get(y) != 2)
    return out


def _sink_leaves(steps: list[LoopStep]) -> list[LoopStep]:
    """Read inputs and model constants where they are used first instead of keeping them."""
    used: dict[Field, int] = {}
    for i, step in enumerate(steps):
        for x in step.fields:
            for y in dependencies(x):
                used.setdefault(y, i)
    moved: dict[int, list[Field]] = {}
    for i, step in enumerate(steps):
        for x in list(step.fields):
            if not x.args and x.equation is None and used.get(x, i) > i:
                target = steps[used[x]]
                if target.domain is step.domain:
                    step.fields.remove(x)
                    moved.setdefault(used[x], []).append(x)
    for i, xs in moved.items():
        steps[i].fields = xs + steps[i].fields
    return [s for s in steps if s.fields]


def plan_buffers(steps: list[LoopStep], outputs: Iterable[Field]) -> list[LoopStep]:
    """The steps with their local fields and the fields that are last used in them."""
    kept = set(outputs)
    made: dict[Field, int] = {}
    used: dict[Field, int] = {}
    shared: set[Field] = set(kept)
    for i, step in enumerate(steps):
        for x in step.fields:
            made[x] = i
        for x in step.fields:
            for y in dependencies(x):
                used[y] = i
                if made.get(y, i) != i or x.operation.elsewhere:
                    shared.add(y)
    out: list[LoopStep] = []
    for i, step in enumerate(steps):
        simple = step.kind is not StepKind.PATH and step.domain is not Domain.WORLD
        local = frozenset(
            x
            for x in step.fields
            if simple
            and x not in shared
            and x.type.domain is step.domain
            and x.operation.runs is Loop.OWN
        )
        last = tuple(x for x, j in used.items() if j == i and x not in kept)
        out.append(LoopStep(step.kind, step.domain, step.fields, local, last))
    return out
