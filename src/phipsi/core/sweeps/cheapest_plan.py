"""Plans: the forms in which a request can be computed, their costs, and the cheapest on a model.

Rules always remove work, whatever the model is. A few choices do not: whether common factors are
collected, whether a matrix comes from the blocks on paths or from columns, whether two paths are
multiplied where they meet or summed along their common part, and whether the rules are worth it for
expressions that share parts. Each choice is a row of `CHOICES`; all are lowered, their work is
counted, and the cheapest is taken. A choice that changes nothing is not lowered, and one of which
the first results alone cost more than a whole plan is given up. The choice depends on the model and
the mode, never on the size of a batch, so that a configuration keeps its bits in whatever batch it
runs.

Times are those of one configuration in a large batch, by constants for each width of vectors. They
were set by hand so that the choices agree with `benchmarks/plans.py`, which runs all plans: for 8
lanes they began as a fit to measured times, for 4 and 2 lanes they are scaled from those. They rank
the forms of one expression; they do not predict a stopwatch.

Reasons: docs/decisions/0040.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from operator import add
from threading import Lock
from typing import NamedTuple

from phipsi.core.expressions import Expr
from phipsi.core.model import Model
from phipsi.core.rewrite import USUAL, FinalForm, Identity, Rewriting
from phipsi.core.sweeps.ir import Domain, Field, LoopStep, Reads, StepKind, reached
from phipsi.core.sweeps.operations import block_sizes, entries, flops, flops_of_size
from phipsi.core.sweeps.request import (
    LoweredRequest,
    Request,
    fields_of,
    lower_request,
    rewrite_request,
    traits_of,
)
from phipsi.core.sweeps.schedule import plan_buffers, runs_in, schedule
from phipsi.core.sweeps.verify import check_steps
from phipsi.errors import LoweringError

# ---- what plans cost -----------------------------------------------------------------------------


class Work(NamedTuple):
    """What one evaluation takes.

    `sweeps`, `columns`, `paths` and `meetings` are operations: in loops over the bodies, in loops
    that carry whole matrices from body to body, along paths, and where two paths meet or share
    bodies. `words` are numbers that one loop keeps for another, `visits` bodies that loops pass.
    """

    sweeps: int = 0
    columns: int = 0
    paths: int = 0
    meetings: int = 0
    words: int = 0
    visits: int = 0

    @property
    def flops(self) -> int:
        """All operations."""
        return self.sweeps + self.columns + self.paths + self.meetings


class Processor(NamedTuple):
    """Picoseconds of one configuration for each kind of work, in lanes side by side."""

    sweeps: float
    columns: float
    paths: float
    meetings: float
    words: float
    visits: float

    def nanoseconds(self, work: Work) -> float:
        """The time of one configuration in a large batch."""
        return 1e-3 * sum(rate * amount for rate, amount in zip(self, work, strict=True))


# set by hand, judged by benchmarks/plans.py
PROCESSORS = {
    #                    sweeps columns paths meetings words visits
    "8 lanes": Processor(5.2, 30.0, 10.1, 23.9, 3.1, 3770.0),
    "4 lanes": Processor(9.0, 40.0, 17.0, 40.0, 5.0, 5000.0),
    "2 lanes": Processor(17.0, 40.0, 32.0, 75.0, 9.0, 8000.0),
}
STANDARD = "4 lanes"
"""The one whose choices every machine makes if results must be the same everywhere."""


class PlanCost(NamedTuple):
    """A plan by its name, its work, and the estimated time of one configuration in a batch."""

    name: str
    work: Work
    nanoseconds: float

    def __str__(self) -> str:
        flops, words = self.work.flops, self.work.words
        return f"{self.name}: {self.nanoseconds:,.0f} ns ({flops:,} flops, {words:,} numbers kept)"


class _TreeSizes:
    """Sizes of a model that sums over bodies, paths and pairs of paths need."""

    def __init__(self, model: Model) -> None:
        tree = model.tree
        widths = [joint.nv for joint in model.joints]
        self.widths = Counter(widths)  # rates of a body → bodies
        self.rates = max(model.nv, 1)
        below = list(widths)  # rates of the body and of all bodies outboard of it
        for k in tree.tip_to_base():
            if tree.parent[k] >= 0:
                below[tree.parent[k]] += below[k]
        self.below: Counter[int] = Counter()  # rates of a body → columns that pass such bodies
        self.shared = 0  # products of rates that two paths share
        for width, columns in zip(widths, below, strict=True):
            self.below[width] += columns
            self.shared += width * columns**2
        self.path_bodies = sum(depth + 1 for depth in tree.depth)
        self.between_roots = sum(below[k] ** 2 for k in tree.roots)


def _sizes_of(model: Model) -> _TreeSizes:
    return model.cached(_TreeSizes, lambda: _TreeSizes(model))


def work_of(steps: Sequence[LoopStep], model: Model) -> Work:
    """The work of all steps on a model."""
    sizes = _sizes_of(model)
    amounts = zip(*(_step_work(step, sizes) for step in steps), strict=True)
    return Work(*map(sum, amounts)) if steps else Work()


class LeastWork:
    """Work that every schedule of some fields takes: each once, and one loop of each kind.

    Fields are added as they are lowered; each is looked at once, however often it is needed.
    """

    def __init__(self, model: Model) -> None:
        self._sizes = _sizes_of(model)
        self._seen: set[Field] = set()
        self._domains: set[Domain] = set()
        self._total = Work()

    def add(self, fields: Sequence[Field]) -> Work:
        """The least work of these fields, all that were added before, and all that they need."""
        found: dict[Domain, list[Field]] = {}
        for x in reached(fields, seen=self._seen):
            found.setdefault(runs_in(x), []).append(x)
        for domain, new in found.items():
            kind = _LOOPS.get(domain, StepKind.MEMORYLESS)
            work = _step_work(LoopStep(kind, domain, new, frozenset(new)), self._sizes)
            if domain in self._domains:  # the loop itself is counted, and nothing of it is kept
                work = work._replace(words=0, visits=0)
            self._domains.add(domain)
            self._total = Work(*map(add, self._total, work))
        return self._total


_LOOPS = {Domain.PATH: StepKind.PATH, Domain.PAIR: StepKind.PAIRS}


def _step_work(step: LoopStep, sizes: _TreeSizes) -> Work:
    if step.kind is StepKind.PAIRS:
        products = sum(_pair_flops(x, sizes) for x in step.fields)
        return Work(meetings=products, words=sizes.between_roots)
    kept = [x for x in step.fields if x not in step.local]
    if step.kind is StepKind.PATH:  # the rates of the bodies where paths start are the columns
        columns = sizes.below.items()
        return Work(
            paths=sum(n * flops(x, r, 1) for x in step.fields for r, n in columns),
            words=sum(n * entries(x, r, 1) for x in kept for r, n in columns),
            visits=sizes.path_bodies,
        )
    widths = sizes.widths if step.domain is Domain.BODY else {1: 1}
    bodies = [(n, block_sizes(r, sizes.rates)) for r, n in widths.items()]
    narrow = wide = 0
    for x in step.fields:
        amount = sum([n * flops_of_size(x, size) for n, size in bodies])
        if x.type.cols.startswith("all:"):
            wide += amount
        else:
            narrow += amount
    return Work(
        sweeps=narrow,
        columns=wide,
        words=sum(n * entries(x, r, sizes.rates) for x in kept for r, n in widths.items()),
        visits=sum(widths.values()),
    )


def _pair_flops(x: Field, sizes: _TreeSizes) -> int:
    """Products of all pairs of paths, of which a symmetric matrix needs half."""
    if x.operation.reads is Reads.PATHS:  # a sum over the bodies that two paths share
        inner = 2 * sizes.shared
    else:  # one product where the paths meet, and the block there times every path below
        inner = 11 * sizes.between_roots + 66 * sizes.below.total()
    return inner // 2


# ---- plans ---------------------------------------------------------------------------------------


_WORTH = 0.97  # of the usual plan's time, from which on another one is taken


class CandidateForm(NamedTuple):
    """One way to compute: its name, the final form, "full" or "as_written", and Gram products."""

    name: str
    form: FinalForm = USUAL
    rewrite: str = "full"
    grams: bool = False


CHOICES = (
    CandidateForm("rewritten"),
    CandidateForm("rewritten, summed along common paths", grams=True),
    CandidateForm("rewritten, factors not collected", FinalForm(collect=False)),
    CandidateForm("rewritten, matrices by columns", FinalForm(by_paths=False)),
    CandidateForm("as written", rewrite="as_written"),
    CandidateForm("as written, summed along common paths", rewrite="as_written", grams=True),
)


class _TooExpensive(Exception):
    """A part of a plan costs more than another plan."""


@dataclass(frozen=True)
class CostedForm:
    """One way to compute a request on a model, and its cost.

    **Attributes:** the `choice`; the `rewriting`, the `lowered` fields and the `steps`; the `work`
    of one evaluation; `nanoseconds`, the estimated time of one configuration in a large batch.
    """

    choice: CandidateForm
    rewriting: Rewriting
    lowered: LoweredRequest
    steps: list[LoopStep]
    work: Work
    nanoseconds: float

    @property
    def name(self) -> str:
        """That of the choice."""
        return self.choice.name

    @property
    def cost(self) -> PlanCost:
        """What is remembered of it."""
        return PlanCost(self.name, self.work, self.nanoseconds)


def plans_of(
    request: Request,
    model: Model,
    *,
    pairs: str,
    processor: str,
    rules: tuple[Identity, ...] = (),
) -> list[CostedForm]:
    """The plans that differ, the one to take first, the others by their cost."""
    found: list[CostedForm] = []
    seen: set[tuple[object, ...]] = set()
    for choice in CHOICES:
        asked = request
        if choice.rewrite != request.rewrite:
            if request.rewrite == "as_written" or rules:
                continue
            asked = replace(request, rewrite=choice.rewrite)
        if choice.grams and not (pairs == "symmetric" and _has_gram(found, choice)):
            continue
        most = min((plan.nanoseconds for plan in found), default=inf)
        try:
            plan = _plan(choice, asked, model, pairs, processor, rules, seen, most)
        except _TooExpensive:
            continue
        except LoweringError:
            if not found:
                raise
            continue
        if plan is not None:
            found.append(plan)
    usual = found[0]
    best = min(found, key=lambda plan: plan.nanoseconds)
    if best.nanoseconds > _WORTH * usual.nanoseconds:
        best = usual
    others = sorted((p for p in found if p is not best), key=lambda plan: plan.nanoseconds)
    return [best, *others]


def _has_gram(found: list[CostedForm], choice: CandidateForm) -> bool:
    """Whether the same plan without Gram products has a matrix that could be one."""
    same = (p for p in found if p.choice[1:] == (choice.form, choice.rewrite, False))
    return any(p.lowered.has_gram for p in same)


def _plan(
    choice: CandidateForm,
    request: Request,
    model: Model,
    pairs: str,
    processor: str,
    rules: tuple[Identity, ...],
    seen: set[tuple[object, ...]],
    most: float,
) -> CostedForm | None:
    """The plan of a choice; None if it is one of those that were seen."""
    rewriting = rewrite_request(request, armature=model.has_armature, rules=rules, form=choice.form)
    key = (rewriting.expressions, request.rewrite, choice.grams)
    if key in seen:
        return None
    seen.add(key)
    times, least = PROCESSORS[processor], LeastWork(model)

    def watch(fields: list[Field]) -> None:
        if most < inf and times.nanoseconds(least.add(fields)) > most:
            raise _TooExpensive

    lowered, steps = _steps_of(request, rewriting.expressions, model, pairs, choice.grams, watch)
    work = work_of(steps, model)
    if work in seen:
        return None
    seen.add(work)
    return CostedForm(choice, rewriting, lowered, steps, work, times.nanoseconds(work))


_KNOWN: OrderedDict[tuple[object, ...], tuple[LoweredRequest, list[LoopStep]]] = OrderedDict()
_MOST_KNOWN = 256
_LOOKING = Lock()


def _steps_of(
    request: Request,
    expressions: tuple[Expr, ...],
    model: Model,
    pairs: str,
    grams: bool,
    watch: Callable[[list[Field]], None],
) -> tuple[LoweredRequest, list[LoopStep]]:
    """The fields and the steps, which models have in common: the next one need not wait."""
    key = (*traits_of(request, expressions, model), expressions, pairs, grams)
    with _LOOKING:
        known = _KNOWN.get(key)
        if known is not None:
            _KNOWN.move_to_end(key)
    if known is not None:
        results = known[0].results
        for count in range(1, len(results)):
            watch(fields_of(results[:count]))
        return known
    lowered = lower_request(request, expressions, model, pairs=pairs, grams=grams, watch=watch)
    steps = schedule(lowered.fields)
    check_steps("schedule", steps, lowered.fields)
    steps = plan_buffers(steps, lowered.fields)
    check_steps("plan buffers", steps, lowered.fields)
    if not lowered.has_names:
        with _LOOKING:
            _KNOWN[key] = lowered, steps
            while len(_KNOWN) > _MOST_KNOWN:
                _KNOWN.popitem(last=False)
    return lowered, steps
