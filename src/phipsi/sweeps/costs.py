"""What scheduled steps cost on a model: operations, numbers moved, bodies visited, and time.

Times are those of one configuration in a large batch, by constants for each width of vectors. They
were set by hand so that the choices agree with `benchmarks/plans.py`, which runs all plans: for 8
lanes they began as a fit to measured times, for 4 and 2 lanes they are scaled from those. They rank
the forms of one expression; they do not predict a stopwatch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from operator import add
from typing import NamedTuple

from phipsi.model.model import Model
from phipsi.sweeps.ir import Domain, Field, Reads, Step, StepKind, dependencies
from phipsi.sweeps.operations import entries, flops
from phipsi.sweeps.schedule import runs_in


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


@dataclass(frozen=True)
class Processor:
    """Picoseconds of one configuration for each kind of work, in lanes side by side."""

    sweeps: float
    columns: float
    paths: float
    meetings: float
    words: float
    visits: float

    def nanoseconds(self, work: Work) -> float:
        """The time of one configuration in a large batch."""
        rates = astuple(self)
        return 1e-3 * sum(rate * amount for rate, amount in zip(rates, work, strict=True))


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


class _Sizes:
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


def work_of(steps: Sequence[Step], model: Model) -> Work:
    """The work of all steps on a model."""
    sizes = _Sizes(model)
    amounts = zip(*(_step_work(step, sizes) for step in steps), strict=True)
    return Work(*map(sum, amounts)) if steps else Work()


class LeastWork:
    """Work that every schedule of some fields takes: each once, and one loop of each kind.

    Fields are added as they are lowered; each is looked at once, however often it is needed.
    """

    def __init__(self, model: Model) -> None:
        self._sizes = _Sizes(model)
        self._seen: set[Field] = set()
        self._domains: set[Domain] = set()
        self._total = Work()

    def add(self, fields: Sequence[Field]) -> Work:
        """The least work of these fields, all that were added before, and all that they need."""
        found: dict[Domain, list[Field]] = {}
        stack = list(fields)
        while stack:
            x = stack.pop()
            if x not in self._seen:
                self._seen.add(x)
                found.setdefault(runs_in(x), []).append(x)
                stack.extend(dependencies(x))
        for domain, new in found.items():
            kind = _LOOPS.get(domain, StepKind.MEMORYLESS)
            work = _step_work(Step(kind, domain, new, frozenset(new)), self._sizes)
            if domain in self._domains:  # the loop itself is counted, and nothing of it is kept
                work = work._replace(words=0, visits=0)
            self._domains.add(domain)
            self._total = Work(*map(add, self._total, work))
        return self._total


_LOOPS = {Domain.PATH: StepKind.PATH, Domain.PAIR: StepKind.PAIRS}


def _step_work(step: Step, sizes: _Sizes) -> Work:
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
    cost = {x: sum(n * flops(x, r, sizes.rates) for r, n in widths.items()) for x in step.fields}
    wide = sum(amount for x, amount in cost.items() if x.type.cols.startswith("all:"))
    return Work(
        sweeps=sum(cost.values()) - wide,
        columns=wide,
        words=sum(n * entries(x, r, sizes.rates) for x in kept for r, n in widths.items()),
        visits=sum(widths.values()),
    )


def _pair_flops(x: Field, sizes: _Sizes) -> int:
    """Products of all pairs of paths, of which a symmetric matrix needs half."""
    if x.operation.reads is Reads.PATHS:  # a sum over the bodies that two paths share
        inner = 2 * sizes.shared
    else:  # one product where the paths meet, and the block there times every path below
        inner = 11 * sizes.between_roots + 66 * sizes.below.total()
    return inner // 2
