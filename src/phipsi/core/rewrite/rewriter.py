"""The rewriter: applies the rules until none makes the expression cheaper.

Every step is recorded with the rule's name, so that `explain` can show the chain. The rules remove
inverses, transition operators or factors, each group has fewer of them afterwards; the final forms
(collecting, matrices) run once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from phipsi.core.expressions import (
    EFFORTS,
    RATES,
    Expr,
    Number,
    Op,
    as_matrix,
    block_diagonal,
    identity,
    is_memoryless,
    is_strict,
    logdet,
    product,
    shown,
    total_of,
    zero,
)
from phipsi.core.operators import CATALOGUE, DEFAULT_FAMILY, Jr, Riccati, definition, family_of
from phipsi.core.rewrite.collect import collect, count_products, count_recursions, split_sign
from phipsi.core.rewrite.determinants import determinant
from phipsi.core.rewrite.expansion import products_of
from phipsi.core.rewrite.identities import (
    ACCELERATIONS,
    COMPOSITE,
    DIAGONALS,
    FACTORIZATION,
    INVERSES,
    LOG_DET,
    NO_ARMATURE,
    PRODUCTS,
    SMOOTHING,
    SUMS,
)
from phipsi.core.rewrite.identity import Identity
from phipsi.core.rewrite.inverses import has_inverse, innovations_form, riccati_of, split_product
from phipsi.core.rewrite.matrix_splitting import (
    between_seeds,
    matrix_form,
    matrix_product,
    on_paths,
    strip_marks,
)
from phipsi.core.rewrite.patterns import (
    Instance,
    distribute,
    families_of,
    find_across_sums,
    find_in_product,
    instances,
    rebuild_inside,
    replace_in_sum,
)
from phipsi.core.rewrite.user_rules import apply_rules, rule_instances
from phipsi.errors import LoweringError

ROTORS = frozenset({"Jr", *(name for name, row in CATALOGUE.items() if row.riccati)})
"""Quantities that, when given, may contain rotors although the model has none."""
_MOST_STEPS = 2000  # rules applied; no expression of the library needs 200
_MOST_WORK = 50_000  # factors inspected
_POWER = 4  # equal parts of a product from which on one half is rewritten for both
_MOST_PRODUCTS = 1024  # in a sum that is multiplied out to collect common factors


@dataclass(frozen=True)
class RewriteStep:
    """One rewrite: the rule's name and source, and the part it changed."""

    name: str
    before: Expr
    after: Expr
    source: str

    def __repr__(self) -> str:
        source = f" [{self.source}]" if self.source else ""
        return f"<RewriteStep {self.name}: {self.before} = {self.after}{source}>"

    def __str__(self) -> str:
        return f"{self.before}  =  {self.after}"


@dataclass(frozen=True)
class Rewriting:
    """The expressions to lower, and how they were reached."""

    expressions: tuple[Expr, ...]
    steps: tuple[RewriteStep, ...] = ()


@dataclass(frozen=True)
class FinalForm:
    """The choices that no rule makes, because their cost depends on the model.

    `collect`: common factors are taken out if that saves recursions; `by_paths`: matrices are split
    into parts whose blocks lie on paths, where that is possible.
    """

    collect: bool = True
    by_paths: bool = True


USUAL = FinalForm()


def rewrite(
    expressions: Sequence[Expr],
    modes: Sequence[str],
    given: Iterable[str],
    *,
    armature: bool,
    rules: tuple[Identity, ...] = (),
    form: FinalForm = USUAL,
) -> Rewriting:
    """Rewrite expressions that are applied or written out as matrices, each by its mode."""
    known, found = frozenset(given), list[Rewriting]()
    for x, mode in zip(expressions, modes, strict=True):
        apply = mode == "apply"
        mine = FinalForm(form.collect) if apply or x.is_vector else form  # paths: of matrices only
        found.append(rewrite_one(x, known, armature=armature, apply=apply, rules=rules, form=mine))
    return _together(found)


def rewrite_by_rules(expressions: Sequence[Expr], rules: tuple[Identity, ...]) -> Rewriting:
    """The expressions as they are written, changed by the user's rules only."""
    found: list[Rewriting] = []
    for x in expressions:
        rewriter = Rewriter(True, frozenset(), True, rules)
        found.append(Rewriting((rewriter.use_rules(x, lambda y: y),), tuple(rewriter.steps)))
    return _together(found)


def _together(found: Sequence[Rewriting]) -> Rewriting:
    steps = dict.fromkeys(step for one in found for step in one.steps)
    return Rewriting(tuple(x for one in found for x in one.expressions), tuple(steps))


@lru_cache(maxsize=512)
def rewrite_one(
    x: Expr,
    given: frozenset[str],
    *,
    armature: bool,
    apply: bool,
    rules: tuple[Identity, ...] = (),
    form: FinalForm = USUAL,
) -> Rewriting:
    """One expression rewritten: the same for all models, so that the next one need not wait."""
    ruled = use_all_rules(x, given, armature, apply, rules)
    rewriter = Rewriter(armature, given, apply, rules, form, list(ruled.steps))
    return Rewriting((rewriter.finish(*ruled.expressions),), tuple(rewriter.steps))


@lru_cache(maxsize=512)
def use_all_rules(
    x: Expr, given: frozenset[str], armature: bool, apply: bool, rules: tuple[Identity, ...]
) -> Rewriting:
    """What all final forms of an expression have in common."""
    rewriter = Rewriter(armature, given, apply, rules)
    return Rewriting((rewriter.simplify_parts(x),), tuple(rewriter.steps))


@dataclass
class Rewriter:
    """One rewriting of one expression.

    `armature` says whether joints of the model have rotor inertia. A `given` quantity is an input
    that is independent of the model: a given Jr need not be zero, and the family without rotors
    differs from the default one as soon as a member of the latter is given. `rules` are the user's.
    """

    armature: bool
    given: frozenset[str]
    apply: bool
    rules: tuple[Identity, ...] = ()
    form: FinalForm = USUAL
    steps: list[RewriteStep] = field(default_factory=list[RewriteStep])
    _done: dict[Expr, Expr] = field(default_factory=dict[Expr, Expr])
    _meant: dict[Expr, Expr] = field(default_factory=dict[Expr, Expr])
    _whole: Expr | None = None
    _work: int = 0

    def __post_init__(self) -> None:
        self.armature = self.armature or not self.given.isdisjoint(ROTORS)

    def run(self, x: Expr) -> Expr:
        """x in the form that the rules lead to, pass by pass."""
        return self.finish(self.simplify_parts(x))

    def simplify_parts(self, x: Expr) -> Expr:
        """x with all rules applied; two matrices that are multiplied are simplified separately."""
        self._whole = self._whole or x
        if not self.apply and (parts := matrix_product(x)) is not None:
            c, left, right = parts
            return c * product(as_matrix(self.simplify_parts(y)) for y in (left, right))
        return self.simplify(strip_marks(x))

    def finish(self, x: Expr) -> Expr:
        """x in its final form, after the rules."""
        if not self.apply and (parts := matrix_product(x)) is not None:
            c, left, right = parts
            return c * product(as_matrix(self.finish(y)) for y in (left, right))
        matrix = None if self.apply or x.is_vector else self._split_for_matrix(x)
        return self._collect(x) if matrix is None else matrix

    def simplify(self, x: Expr) -> Expr:
        """x with definitions written out and all rules applied; also for parts of leaves."""
        if self.rules:
            return self._simplify_with_rules(x)
        return self._settle(self._meaning(x))

    def _meaning(self, x: Expr) -> Expr:
        return self._drop_armature(self._expand(x))

    def _simplify_with_rules(self, x: Expr) -> Expr:
        """The user's rules first, as typed and then written out; after them those of the library.

        What the library makes of an expression may match again. The first form that comes back is
        the result: a rule and its opposite in the library do not go on for ever.
        """
        x = self._meaning(self.use_rules(x, lambda y: y))
        seen: set[Expr] = set()
        while x not in seen:
            seen.add(x)
            x = self._settle(self.use_rules(x, self._quiet_meaning))
            self._spend(1)
        return x

    def use_rules(self, x: Expr, form: Callable[[Expr], Expr]) -> Expr:
        """x with the user's rules applied; `form` brings their sides into the form of x."""

        def record(i: Instance) -> None:
            self._record(i.rule.name, i.before, i.after, i.rule.source)

        return apply_rules(x, rule_instances(self.rules, form), record, self.rules)

    def _quiet_meaning(self, x: Expr) -> Expr:
        """The meaning of a side of a rule, which is not a step of the rewriting."""
        count = len(self.steps)
        y = self._meaning(x)
        del self.steps[count:]
        return y

    def _drop_armature(self, x: Expr) -> Expr:
        return x if self.armature else _without_armature(x)

    def _collect(self, x: Expr) -> Expr:
        """Common factors taken out, if that saves recursions."""
        if not self.form.collect or count_products(x) > _MOST_PRODUCTS:
            return x
        y = collect(x)
        if count_recursions(y) >= count_recursions(x):
            return x
        return self._record("collect common factors", x, y, "")

    def _split_for_matrix(self, x: Expr) -> Expr | None:
        """Lemma A.1 for a matrix, if every block then lies on a path."""
        found = matrix_form(x, self.given) if self.form.by_paths else None
        if found is None or not (on_paths(found[0]) or between_seeds(x)):
            return None
        y, splits = found
        for s in splits:
            rule = COMPOSITE
            name = rule.name if s.before is rule.lhs else s.name
            self._record(name, s.before, s.after, rule.source)
        return y

    def _record(self, name: str, before: Expr, after: Expr, source: str) -> Expr:
        self.steps.append(RewriteStep(name, before, after, source))
        return after

    def _spend(self, work: int) -> None:
        """Count the work, and end a rewriting that takes far more than any known one."""
        self._work += work
        if self._work <= _MOST_WORK and len(self.steps) <= _MOST_STEPS:
            return
        used = Counter(s.name for s in self.steps).most_common(3)
        where = ", ".join(f"{count} × {name}" for name, count in used) or "none"
        raise LoweringError(
            f"the rewriting of\n    {shown(self._whole)}\nis too long: {len(self.steps)} rules "
            f"were applied (most often: {where}), and {self._work:,} factors inspected.\n"
            "Compile a part of it separately, and make its value an input of the rest; or do "
            "without rules:\n    pp.compile(expr, model, rewrite='as_written')"
        )

    # -- definitions -------------------------------------------------------------------------------

    def _expand(self, x: Expr) -> Expr:
        if x not in self._meant:
            self._meant[x] = (
                self._expand_leaf(x) if x.op is Op.LEAF else rebuild_inside(x, self._expand)
            )
        return self._meant[x]

    def _expand_leaf(self, x: Expr) -> Expr:
        meaning = definition(x)
        if not x.row.compound or x.name in self.given or meaning is None:
            return x
        self._record(f"definition of {x}", x, meaning, x.row.source)
        return self._expand(meaning)

    # -- rules -------------------------------------------------------------------------------------

    def _settle(self, x: Expr) -> Expr:
        """Rewrite the parts, then the whole, until nothing changes."""
        if x in self._done:
            return self._done[x]
        y = self._settle_powers(x)
        while True:
            before = y
            self._spend(1 + len(y.args))
            while y.op is Op.PRODUCT:  # before the rules take the inverse apart
                shorter = self._cancel(y)
                if shorter is None:
                    break
                y = shorter
            y = rebuild_inside(y, self._settle)
            if before.op is Op.INVERSE and _lost_inverse(before, y):
                y = before
            y = self._step(y)
            if y is before:
                break
        self._done[x] = self._done[y] = y
        return y

    def _settle_powers(self, x: Expr) -> Expr:
        """X X … X with one half of it rewritten, which is the other half too."""
        if x.op is not Op.PRODUCT or len(x.args) < _POWER:
            return x
        n, period = len(x.args), _period(x.args)
        if n // period < _POWER:
            return x
        middle = n // period // 2 * period
        half = self._settle(product(x.args[:middle]))
        return product((half, half, *x.args[2 * middle :]))

    def _step(self, x: Expr) -> Expr:
        if x.op is Op.INVERSE:
            return self._step_inverse(x)
        if x.op is Op.PRODUCT:
            return self._step_product(x)
        if x.op is Op.SUM:
            return self._step_sum(x)
        if x.op is Op.BD:
            return self._step_diagonal(x)
        if x.op is Op.LOGDET:
            f = riccati_of(x.args[0])
            if f is not None:
                rule = LOG_DET
                return self._record(rule.name, x, self._drop_armature(logdet(f.D)), rule.source)
            known = determinant(x)
            if known is not None:
                return self._record(known[0], x, known[1], "")
        return x

    def _step_inverse(self, x: Expr) -> Expr:
        inner = x.args[0]
        for rule in INVERSES:
            for family in families_of(x):
                for i in instances(rule, family):
                    if i.before is x:
                        return self._record(rule.name, x, i.after, rule.source)
        if is_memoryless(inner.structure):
            return x
        factored = innovations_form(inner)
        if factored is not None:
            rule = FACTORIZATION
            return self._record(rule.name, x, self._drop_armature(factored), rule.source)
        pieces = split_product(inner) if inner.op is Op.PRODUCT else None
        if pieces is not None:
            after = product(p.inv for p in reversed(pieces))
            return self._record("invert factor by factor", x, after, "(X Y)⁻¹ = Y⁻¹ X⁻¹")
        return x

    def _step_product(self, x: Expr) -> Expr:
        factors = _unit_factors(x)
        if factors is not None:
            return factors
        every = _rules_of_products(families_of(x), self.armature, self.apply)
        there = set(x.args)
        for i, pattern, _ in every:
            if pattern[0] not in there:
                continue
            at = find_in_product(x.args, pattern)
            if at >= 0:
                self._record(i.rule.name, i.before, i.after, i.rule.source)
                return product((*x.args[:at], i.after, *x.args[at + len(pattern) :]))
        if all(y.op is not Op.SUM for y in x.args):
            return x
        mirror = _mirror(x.args)
        mirrored_there = set(mirror)
        for _, pattern, mirrored in every:
            if pattern[0] in there:
                across = find_across_sums(x.args, pattern)
                if across is not None:
                    return distribute(x.args, *across)
            if mirrored[0] in mirrored_there:
                across = find_across_sums(mirror, mirrored)
                if across is not None:
                    return distribute(mirror, *across).T
        return x

    def _step_diagonal(self, x: Expr) -> Expr:
        """bd(X) where a product of X has blocks with a name."""
        inner = x.args[0]
        for rule in DIAGONALS:
            for family in families_of(x):
                for i in instances(rule, family):
                    named = _named_diagonal(inner, i)
                    if named is not None:
                        self._record(rule.name, i.before, i.after, rule.source)
                        return named
        return x

    def _cancel(self, x: Expr) -> Expr | None:
        """X X⁻¹ = I, where X may be several factors."""
        for i, y in enumerate(x.args):
            if y.op is not Op.INVERSE:
                continue
            inner = y.args[0].factors
            for start in (i - len(inner), i + 1):
                if start >= 0 and x.args[start : start + len(inner)] == inner:
                    first, last = min(start, i), max(start + len(inner), i + 1)
                    both = product(x.args[first:last])
                    unit = identity(both.takes)
                    self._record("cancel an inverse", both, unit, "")
                    return product((*x.args[:first], unit, *x.args[last:]))
        return None

    def _step_sum(self, x: Expr) -> Expr:
        for family in families_of(x):
            for rule in (*SUMS, *SMOOTHING):
                for i in instances(rule, family):
                    y = replace_in_sum(x, i.before, i.after)
                    if y is not None:
                        return self._record(rule.name, x, self._drop_armature(y), rule.source)
        y = _multiply_out(x)
        if y is not None:
            return self._record("cancel terms", x, y, "")
        return x


@lru_cache(maxsize=256)
def _rules_of_products(
    families: tuple[Riccati, ...], armature: bool, apply: bool
) -> list[tuple[Instance, tuple[Expr, ...], tuple[Expr, ...]]]:
    """The rules for products of these families, each with its factors and those of its adjoint."""
    rules = [*PRODUCTS, *NO_ARMATURE, *(ACCELERATIONS if apply else ())]
    found = [
        i
        for rule in rules
        for f in families
        if _holds(rule, f, armature)
        for i in instances(rule, f)
    ]
    return [(i, i.before.factors, _mirror(i.before.factors)) for i in found]


def _holds(rule: Identity, f: Riccati, armature: bool) -> bool:
    if rule.condition != "Jr = 0":
        return True
    if isinstance(f.Jr, Expr) and f.Jr.op is Op.ZERO:
        return True
    return not armature and f == DEFAULT_FAMILY


def _period(factors: tuple[Expr, ...]) -> int:
    """The length of the shortest part that the factors repeat."""
    n = len(factors)
    return next(p for p in range(1, n + 1) if n % p == 0 and factors[p:] == factors[:-p])


def _lost_inverse(before: Expr, after: Expr) -> bool:
    """True if the rules took apart a form that has an O(N) inverse."""
    core = after.args[0] if after.op is Op.SUM and len(after.args) == 1 else after
    return (
        core.op is Op.INVERSE
        and after is not before
        and has_inverse(before.args[0])
        and not has_inverse(core.args[0])
    )


def _named_diagonal(x: Expr, i: Instance) -> Expr | None:
    """bd(x) with bd(A X C) = A bd(X) C, where bd(X) has a name and A and C are memoryless."""
    wanted = i.before.args[0].factors
    for c, term in x.terms:
        at = find_in_product(term.factors, wanted)
        ends = term.factors[:at], term.factors[at + len(wanted) :]
        if at >= 0 and all(is_memoryless(y.structure) for end in ends for y in end):
            named = c * product((*ends[0], i.after, *ends[1]))
            return total_of((d, block_diagonal(t)) for d, t in _rest(x, term)) + named
    return None


def _rest(x: Expr, term: Expr) -> list[tuple[Number, Expr]]:
    """The terms of a sum without one of them and without those that have no diagonal blocks."""
    others = ((d, t) for d, t in x.terms if t is not term and not is_strict(t.structure))
    return [*others, (1, term - term)]


def _unit_factors(x: Expr) -> Expr | None:
    """Pull signs and common factors out of the sums in a product: (2 X − 2 I) Y = −2 (I − X) Y."""
    coefficient: Number = 1
    factors: list[Expr] = []
    for y in x.args:
        if y.op is Op.SUM:
            sign, y = split_sign(y)
            coefficient *= sign
            sizes = {abs(c) for c in y.data}
            if len(sizes) == 1 and sizes != {1}:
                size = sizes.pop()
                coefficient *= size
                y = total_of((1 if d > 0 else -1, t) for d, t in y.terms)
        factors.append(y)
    return None if coefficient == 1 else coefficient * product(factors)


@lru_cache(1024)
def _mirror(factors: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The factors of the adjoint product."""
    return tuple(y.T for y in reversed(factors))


@lru_cache(maxsize=2**14)
def _without_armature(x: Expr) -> Expr:
    """x for a model whose joints have no rotor inertia."""
    if x is Jr:
        return zero(RATES, EFFORTS)
    if x.op is Op.LEAF and x.args and x.row.riccati:
        f = family_of(x)
        parts = [_without_armature(y) for y in (f.H, f.E, f.M)]
        armature = _without_armature(f.armature)
        default = DEFAULT_FAMILY
        if [default.H, default.E, default.M] == parts and armature.op is Op.ZERO:
            return default.leaf(x.name)
        return Riccati(parts[0], parts[1], parts[2], armature).leaf(x.name)
    return rebuild_inside(x, _without_armature)


def _multiply_out(x: Expr) -> Expr | None:
    """The sum with its products multiplied out, if terms cancel that way."""
    if not any(y.op is Op.SUM for _, t in x.terms for y in t.factors):
        return None
    terms = products_of(x, lambda y: [(d, (z,)) for d, z in y.terms], 16)
    if terms is None:
        return None
    y = total_of((c, product(fs)) for c, fs in terms)
    return y if _size(y) < _size(x) else None


def _size(x: Expr) -> int:
    return sum(
        len(t.factors) + sum(_size(y) for y in t.factors if y.op is Op.SUM) for _, t in x.terms
    )
