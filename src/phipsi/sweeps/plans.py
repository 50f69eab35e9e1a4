"""Plans: the forms in which a request can be computed, and the cheapest of them on a model.

Rules always remove work, whatever the model is. A few choices do not: whether common factors are
collected, whether a matrix comes from the blocks on paths or from columns, whether two paths are
multiplied where they meet or summed along their common part, and whether the rules are worth it for
expressions that share parts. Each choice is a row of `CHOICES`; all are lowered, costed
(`costs.py`), and the cheapest is taken. A choice that changes nothing is not lowered, and one of
which the first results alone cost more than a whole plan is given up. The choice depends on the
model and the mode, never on the size of a batch, so that a configuration keeps its bits in whatever
batch it runs.

Reasons: docs/decisions/0040.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from threading import Lock
from typing import NamedTuple

from phipsi.errors import LoweringError
from phipsi.expressions.node import Expr
from phipsi.model.model import Model
from phipsi.rewrite.identity import Identity
from phipsi.rewrite.rewriter import USUAL, FinalForm, Rewriting
from phipsi.sweeps.costs import PROCESSORS, LeastWork, PlanCost, Work, work_of
from phipsi.sweeps.ir import Field, Step
from phipsi.sweeps.legality import check_steps
from phipsi.sweeps.request import (
    Lowered,
    Request,
    fields_of,
    lower_request,
    rewrite_request,
    traits_of,
)
from phipsi.sweeps.schedule import plan_buffers, schedule

_WORTH = 0.97  # of the usual plan's time, from which on another one is taken


class Choice(NamedTuple):
    """One way to compute: its name, the final form, "full" or "as_written", and Gram products."""

    name: str
    form: FinalForm = USUAL
    rewrite: str = "full"
    grams: bool = False


CHOICES = (
    Choice("rewritten"),
    Choice("rewritten, summed along common paths", grams=True),
    Choice("rewritten, factors not collected", FinalForm(collect=False)),
    Choice("rewritten, matrices by columns", FinalForm(by_paths=False)),
    Choice("as written", rewrite="as_written"),
    Choice("as written, summed along common paths", rewrite="as_written", grams=True),
)


class _TooExpensive(Exception):
    """A part of a plan costs more than another plan."""


@dataclass(frozen=True)
class Plan:
    """One way to compute a request on a model, and its cost.

    **Attributes:** the `choice`; the `rewriting`, the `lowered` fields and the `steps`; the `work`
    of one evaluation; `nanoseconds`, the estimated time of one configuration in a large batch.
    """

    choice: Choice
    rewriting: Rewriting
    lowered: Lowered
    steps: list[Step]
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
) -> list[Plan]:
    """The plans that differ, the one to take first, the others by their cost."""
    found: list[Plan] = []
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


def _has_gram(found: list[Plan], choice: Choice) -> bool:
    """Whether the same plan without Gram products has a matrix that could be one."""
    same = (p for p in found if p.choice[1:] == (choice.form, choice.rewrite, False))
    return any(p.lowered.has_gram for p in same)


def _plan(
    choice: Choice,
    request: Request,
    model: Model,
    pairs: str,
    processor: str,
    rules: tuple[Identity, ...],
    seen: set[tuple[object, ...]],
    most: float,
) -> Plan | None:
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
    return Plan(choice, rewriting, lowered, steps, work, times.nanoseconds(work))


_KNOWN: OrderedDict[tuple[object, ...], tuple[Lowered, list[Step]]] = OrderedDict()
_MOST_KNOWN = 256
_LOOKING = Lock()


def _steps_of(
    request: Request,
    expressions: tuple[Expr, ...],
    model: Model,
    pairs: str,
    grams: bool,
    watch: Callable[[list[Field]], None],
) -> tuple[Lowered, list[Step]]:
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
