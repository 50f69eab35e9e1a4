"""Rules that a user gives for one computation, applied wherever they match, from left to right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from phipsi.core.expressions import Expr, Op, adjoint, product, rebuild, shown, total_of, zero
from phipsi.core.rewrite.identity import Identity
from phipsi.core.rewrite.patterns import REWRITTEN, Instance, find_in_product, replace_in_sum
from phipsi.errors import LoweringError

_MOST_STEPS = 200


def rule_instances(
    rules: Sequence[Identity], form: Callable[[Expr], Expr] = lambda x: x
) -> list[Instance]:
    """Every rule and its adjoint, with the sides in the form that the expressions have.

    They are stated for the default Riccati family, and hold for no other until that is proved.
    """
    out: list[Instance] = []
    for rule in rules:
        before, after = (form(side) for side in rule.sides)
        if before.op is Op.SUM and len(before.terms) == 1:  # 2 X = Y says X = Y / 2
            ((factor, before),) = before.terms
            after = total_of([(1 / Fraction(factor), after)])
        for one, other in {before: after, adjoint(before): adjoint(after)}.items():
            if one is not other:
                out.append(Instance(rule, one, other))
    return out


def is_self_matching(rule: Identity) -> bool:
    """Whether a rule matches its own result, so that it could be used for ever."""
    lhs, rhs = rule.sides
    return _applied_once(rhs, [Instance(rule, lhs, zero(lhs.takes, lhs.gives))]) is not None


def apply_rules(
    x: Expr,
    instances: Sequence[Instance],
    record: Callable[[Instance], None],
    rules: Sequence[Identity],
) -> Expr:
    """x with the rules applied until none matches; an error if they lead in a circle."""
    seen, used = {x: 0}, list[str]()
    while True:
        found = _applied_once(x, instances)
        if found is None:
            return x
        i, y = found
        used.append(i.rule.name)
        record(i)
        if y in seen:
            names = " and ".join(dict.fromkeys(repr(name) for name in used[seen[y] :]))
            raise LoweringError(
                f"the rules form a cycle: {names} turn\n    {shown(y)}\ninto itself. Remove one "
                f"of them from rules=, or swap its sides."
            )
        if len(used) > _MOST_STEPS:
            names = ", ".join(repr(rule.name) for rule in rules)
            raise LoweringError(
                f"the rules {names} still match after {_MOST_STEPS} steps. Together they make the "
                f"expression longer and longer. Remove one of them from rules=, or swap its sides."
            )
        seen[y] = len(used)
        x = y


def _applied_once(x: Expr, instances: Sequence[Instance]) -> tuple[Instance, Expr] | None:
    """The first rule that matches x or a part of it, and what becomes of x."""
    for i in instances:
        y = _matched(x, i.before, i.after)
        if y is not None and y is not x:
            return i, y
    if x.op not in REWRITTEN:
        return None
    for k, part in enumerate(x.args):
        found = _applied_once(part, instances)
        if found is not None:
            i, new = found
            return i, rebuild(x, [*x.args[:k], new, *x.args[k + 1 :]])
    return None


def _matched(x: Expr, before: Expr, after: Expr) -> Expr | None:
    if x is before:
        return after
    if x.op is Op.PRODUCT and before.op is Op.PRODUCT:
        at = find_in_product(x.factors, before.factors)
        if at >= 0:
            rest = x.factors[at + len(before.factors) :]
            return product((*x.factors[:at], after, *rest))
    if x.op is Op.SUM and before.op is Op.SUM:
        return replace_in_sum(x, before, after) or _across_terms(x, before, after)
    return None


def _across_terms(x: Expr, before: Expr, after: Expr) -> Expr | None:
    """L X R − L Y R with X − Y replaced, where the sum is multiplied out."""
    longest = max((t for _, t in before.terms), key=lambda t: len(t.factors)).factors
    for _, term in x.terms:
        at = find_in_product(term.factors, longest)
        if at < 0 or len(term.factors) == len(longest):
            continue
        left, right = term.factors[:at], term.factors[at + len(longest) :]
        wider, new = (product((*left, y, *right)) for y in (before, after))
        spread = total_of((c, product((*left, t, *right))) for c, t in before.terms)
        if wider.gives is x.gives and spread.op is Op.SUM:
            y = replace_in_sum(x, spread, new)
            if y is not None:
                return y
    return None
