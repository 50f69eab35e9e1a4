"""Algebra by hand: `expand`, `rewrite`, `collect`, `subs` and `simplify` of expressions.

Each returns an expression that is equal to the old one (`subs` excepted); ``show=True`` prints the
step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import cast

from phipsi.core.calculus import substitute, with_parts
from phipsi.core.compiler import explain
from phipsi.core.expressions import (
    UNKNOWN,
    Expr,
    Number,
    Op,
    advice,
    identity as identity_on,
    product,
    shown,
    signature,
    total_of,
    zero,
)
from phipsi.core.model import UNAFFECTED, Model, supports
from phipsi.core.operators import (
    as_expression,
    definition,
    family_of,
    hinge_inertia,
    is_about_modes,
    is_of_rigid_bodies,
    leaves_of,
    mass_matrix,
    nodes_of,
    transition_step,
)
from phipsi.core.rewrite import (
    Identity,
    collect as collect_prefixes,
    families_of,
    find_in_product,
    instances,
    is_about_rows,
    replace_in_sum,
    rewrite_one,
)
from phipsi.errors import InputError, LoweringError, PhipsiError, SpaceError, one_of, true_or_false
from phipsi.papers.derivations.normal_form import Word, WordSum, quotient, words_of
from phipsi.papers.theorems.book_index import equations_named
from phipsi.papers.theorems.paper_symbols import NO_ROTORS
from phipsi.papers.theorems.tried_mechanisms import Tried

Place = Expr | str | Sequence[int] | None


@dataclass(frozen=True)
class ManipulationStep:
    """One step by hand: an expression, the equal one it became, and the reason."""

    before: Expr
    after: Expr
    name: str
    source: str = ""

    def __str__(self) -> str:
        source = f" [{self.source}]" if self.source else ""
        return f"{self.before}\n    = {self.after}   {self.name}{source}"


def _done(change: ManipulationStep, show: bool) -> Expr:
    if true_or_false("show", show):
        print(change)
    return change.after


# ---- definitions ---------------------------------------------------------------------------------


def _by_equation(x: Expr) -> Expr | None:
    """What a leaf that the catalogue does not define is, by the equation that defines it."""
    if x.op is Op.LEAF and x.row.transition:
        step = transition_step(x)
        return (identity_on(x.takes) - step).inv
    if x.op is not Op.LEAF or not x.row.riccati:
        return None
    f = family_of(x)
    return {
        "P": f.M + f.E_psi @ f.P @ f.E.T,
        "D": hinge_inertia(f),
        "G": f.P @ f.H.T @ f.D.inv,
    }.get(x.name)


def meaning(x: Expr) -> Expr | None:
    """The definition of a leaf, or the right side of the equation that defines it."""
    found = definition(x)
    return _by_equation(x) if found is None else found


def expand(x: Expr, *names: str, at: Place = None, show: bool = False) -> Expr:
    """See `Expr.expand`."""
    if not names:
        after = _inside(x, at, _all_definitions)
        return _done(ManipulationStep(x, after, "definitions"), show)
    for name in names:
        leaves = [y for y in leaves_of(x) if name in (y.name, y.row.symbol)]
        defined = [y for y in leaves if meaning(y) is not None]
        if not defined:
            raise InputError(_not_defined(x, name, bool(leaves)))
        before = x
        new = {y: cast(Expr, meaning(y)) for y in defined}
        x = _inside(x, at, lambda part, new=new: substitute(part, new))
        if x is before:
            raise InputError(f"{shown(name)} does not occur at {shown(at)} in\n    {shown(before)}")
        source = "; ".join(dict.fromkeys(y.row.source for y in defined))
        x = _done(ManipulationStep(before, x, f"definition of {defined[0]}", source), show)
    return x


def _not_defined(x: Expr, name: str, occurs: bool) -> str:
    if occurs:
        return f"{name!r} is primitive: it has no definition in terms of other operators"
    known = sorted({y.name for y in leaves_of(x) if meaning(y) is not None})
    there = f"{', '.join(known)} can be expanded" if known else "nothing in it has a definition"
    return f"{name!r} does not occur in\n    {shown(x)}\n{there}"


def _all_definitions(x: Expr) -> Expr:
    while True:
        new = {y: z for y in leaves_of(x) if (z := definition(y)) is not None}
        if not new:
            return x
        x = substitute(x, new)


# ---- replacing -----------------------------------------------------------------------------------


def replace(x: Expr, old: Expr, new: Expr) -> Expr:
    """x with `old` replaced wherever it stands: as a part, among factors, or among terms."""
    done: dict[Expr, Expr] = {old: new}

    def go(y: Expr) -> Expr:
        if y not in done:
            done[y] = _replace_here(with_parts(y, [go(z) for z in y.args]), old, new)
        return done[y]

    return go(x)


def _replace_here(y: Expr, old: Expr, new: Expr) -> Expr:
    if y is old:
        return new
    if y.op is Op.PRODUCT and old.op is Op.PRODUCT:
        head: tuple[Expr, ...] = ()
        rest, n = y.args, len(old.args)
        while (i := find_in_product(rest, old.args)) >= 0:
            head, rest = (*head, *rest[:i], new), rest[i + n :]
        return product((*head, *rest)) if head else y
    if y.op is Op.SUM and old.op is Op.SUM and len(old.args) > 1:
        found = replace_in_sum(y, old, new)
        return y if found is None else found
    return y


def _inside(x: Expr, at: Place, change: Callable[[Expr], Expr]) -> Expr:
    """x with one place changed: everywhere, a subexpression, or the part at a path."""
    if at is None:
        return change(x)
    if isinstance(at, (str, Expr)):
        part = as_expression(at, custom=_own_in(x))
        _check_occurs(x, part)
        return replace(x, part, change(part))
    if isinstance(cast(object, at), int):
        raise InputError(
            f"at={at} must be a sequence: the path of indices to a subexpression. Write  at=({at},)"
        )
    if not isinstance(cast(object, at), Sequence) or not all(
        isinstance(cast(object, i), int) for i in at
    ):
        raise InputError(
            f"at={at!r} must be a subexpression, its text, such as at='P', or a path of indices, "
            "such as at=(0, 1)"
        )
    path = list(at)
    if not path:
        return change(x)
    if not 0 <= path[0] < len(x.args):
        raise InputError(
            f"at=: there is no part {path[0]} in\n    {shown(x)}\nIts parts are "
            f"{', '.join(f'{i}: {shown(y)}' for i, y in enumerate(x.args)) or 'none'}"
        )
    args = list(x.args)
    args[path[0]] = _inside(args[path[0]], path[1:], change)
    return with_parts(x, args)


def _own_in(x: Expr) -> list[Expr]:
    """The operators of the user in x, which text about it may name."""
    return [y for y in leaves_of(x) if y.row.is_own]


def occurs(x: Expr, part: Expr) -> bool:
    """True if `part` stands in x: as a part, among factors, or among terms."""
    return any(y is part or _replace_here(y, part, 2 * part) is not y for y in nodes_of(x))


def _check_occurs(x: Expr, part: Expr) -> None:
    if not occurs(x, part):
        raise InputError(f"{shown(part)} does not occur in\n    {shown(x)}\n{_nearest(x, [part])}")


def subs(x: Expr, new: Mapping[Expr | str, Expr | str]) -> Expr:
    """See `Expr.subs`."""
    if not isinstance(cast(object, new), Mapping):
        raise InputError(
            f"subs needs a dictionary of old to new expressions, not {new!r}. Write  "
            "x.subs({'vdot': 'v'})"
        )
    chosen: dict[Expr, Expr] = {}
    for old, other in new.items():
        before, after = (_expression(y, "subs", custom=_own_in(x)) for y in (old, other))
        if after.takes is UNKNOWN:  # a lone I or 0 is the one between the spaces of the other
            after = total_of([(0, before), (1, after)])
        if (before.takes, before.gives) != (after.takes, after.gives):
            raise SpaceError(
                f"{shown(before)} cannot be replaced by {shown(after)}: their spaces differ\n"
                f"    {shown(before)} : {signature(before)}\n"
                f"    {shown(after)} : {signature(after)}"
            )
        _check_occurs(x, before)
        chosen[before] = after
    if len(chosen) == 1:
        ((before, after),) = chosen.items()
        return replace(x, before, after)
    return substitute(x, chosen)


# ---- identities ----------------------------------------------------------------------------------


def rewrite(
    x: Expr,
    identity: Identity | str,
    *,
    reverse: bool = False,
    at: Place = None,
    show: bool = False,
) -> Expr:
    """See `Expr.rewrite`."""
    reverse = true_or_false("reverse", reverse)
    rules = equations_named(identity)
    cases = [(rule, _pairs(rule, x, reverse)) for rule in rules]
    used: list[Identity] = []

    def change(part: Expr) -> Expr:
        for rule, pairs in cases:
            here = [pair for pair in pairs if replace(part, *pair) is not part]
            found = reduce(lambda y, pair: replace(y, *pair), here, part)
            found = _among_words(part, pairs) if found is part else found
            if found is not part:
                used.append(rule)
                return found
        raise InputError(_not_applicable(*cases[0], part))

    after = _inside(x, at, change)
    return _done(ManipulationStep(x, after, used[0].name, used[0].source), show)


def _pairs(rule: Identity, x: Expr, reverse: bool) -> list[tuple[Expr, Expr]]:
    every = [i for family in families_of(x) for i in instances(rule, family)]
    sides = [(i.after, i.before) if reverse else (i.before, i.after) for i in every]
    named = [(fold(before), fold(after)) for before, after in sides]
    return list(dict.fromkeys([*sides, *named]))


def fold(x: Expr) -> Expr:
    """x with the definition of ℳ replaced by its name, as identities are often stated."""
    return replace(x, cast(Expr, definition(mass_matrix)), mass_matrix)


def _not_applicable(rule: Identity, pairs: list[tuple[Expr, Expr]], part: Expr) -> str:
    before, after = pairs[0]
    reversible = any(_among_words(part, [(new, old)]) is not part for old, new in pairs)
    hint = (
        f"The other side of the identity occurs: pass reverse={before is rule.lhs}."
        if reversible
        else _nearest(part, [old for old, _ in pairs])
    )
    return (
        f"{rule.name}:  {before} = {after}\ndoes not apply: {shown(before)} does not occur in\n"
        f"    {shown(part)}\n{hint}"
    )


def _among_words(x: Expr, pairs: Sequence[tuple[Expr, Expr]]) -> Expr:
    """x multiplied out, with the left sides that stand among its words replaced."""
    words = words_of(x)
    for before, after in pairs:
        old, new = words_of(before), words_of(after)
        while (place := find_words(words, old)) is not None:
            factor, left, right = place
            words = words.plus(-factor, old, left, right).plus(factor, new, left, right)
            if find_words(new, old) is not None:
                break  # the right side contains the left one: once is enough
    return x if words.key == words_of(x).key else words.expression()


def find_words(words: WordSum, old: WordSum) -> tuple[Number, Word, Word] | None:
    """(c, left, right) if c · left · old · right is among the words."""
    lead = max(old.terms, key=len, default=())
    if not lead:
        return None
    for word, c in words.terms.items():
        for i in range(len(word) - len(lead) + 1):
            if word[i : i + len(lead)] != lead:
                continue
            left, right = word[:i], word[i + len(lead) :]
            factor = quotient(c, old.terms[lead])
            rest = {(*left, *w, *right): factor * d for w, d in old.terms.items()}
            if all(words.terms.get(w) == d for w, d in rest.items()):
                return factor, left, right
    return None


def _nearest(x: Expr, wanted: Sequence[Expr]) -> str:
    """The longest part of what is wanted that x has."""
    try:
        have = list(words_of(x).terms)
        slices = {
            word[i:j]
            for y in wanted
            for word in words_of(y).terms
            for i in range(len(word))
            for j in range(i + 1, len(word) + 1)
        }
    except InputError:
        return "The expression is too large to search for parts."
    found = [s for s in slices if any(find_in_product(word, s) >= 0 for word in have)]
    if not found:
        return "None of its factors occurs there."
    best = max(found, key=lambda s: (len(s), product(s).text("ascii")))
    return f"The nearest part that occurs there is  {shown(product(best))}"


# ---- common factors, cost ------------------------------------------------------------------------


def collect(
    x: Expr, factor: Expr | str | None = None, *, side: str = "", show: bool = False
) -> Expr:
    """See `Expr.collect`."""
    one_of("side", side, ("left", "right", ""))
    if factor is None:
        return _done(ManipulationStep(x, collect_prefixes(x), "collect common factors"), show)
    common = _expression(factor, "collect", custom=_own_in(x))
    for form in (x, words_of(x).expression()):
        if side != "right" and (after := _collect_left(form, common)) is not None:
            return _done(ManipulationStep(x, after, f"collect {common}"), show)
        if side != "left" and (after := _collect_left(form.T, common.T)) is not None:
            return _done(ManipulationStep(x, after.T, f"collect {common}"), show)
    where = {"": "begin or end", "left": "begin", "right": "end"}[side]
    raise InputError(
        f"fewer than two terms {where} with {shown(common)} in\n    {shown(x)}\n"
        f"{_nearest(x, [common])}"
    )


def _collect_left(x: Expr, common: Expr) -> Expr | None:
    """common (…) + the terms that do not begin with it; None if fewer than two do."""
    n = len(common.factors)
    mine = [(c, y) for c, y in x.terms if y.factors[:n] == common.factors]
    if len(mine) < 2:
        return None
    rest = [(c, y) for c, y in x.terms if y.factors[:n] != common.factors]
    ends = ((c, y.factors[n:]) for c, y in mine)
    inner = total_of((c, product(end) if end else identity_on(common.takes)) for c, end in ends)
    return total_of([*rest, (1, common @ inner)])


def _expression(
    x: Expr | str, function: str, notation: str = "", custom: Sequence[Expr] = ()
) -> Expr:
    found = as_expression(x, notation, custom)
    if not isinstance(cast(object, found), Expr):
        raise InputError(
            f"{function} needs an expression or a string such as 'H phi M', not {x!r}{advice(x)}"
        )
    return found


@supports(loops=True, contacts=UNAFFECTED, flexible=True, rotors=True)
def simplify(
    expr: Expr | str,
    model: Model | None = None,
    *,
    notation: str = "",
    custom: Sequence[Expr] = (),
) -> Expr:
    """Simplify an expression to the form with the fewest floating-point operations.

    The compared forms are the expression as written, rewritten by the rules, and both with common
    factors collected. An expression that is zero on all mechanisms is 0, whichever identities that
    takes; with a model without rotor inertia, on all mechanisms without.

    Parameters
    ----------
    expr : Expr or str
        The expression.
    model : Model, optional
        The mechanism whose operations are counted. Default: operations per body of a tree with
        one-dof hinges.
    notation, custom : optional
        How strings are read, as for `parse`.

    Returns
    -------
    Expr
        An equal expression between the same spaces.

    See Also
    --------
    explain : The recursion of an expression, and its cost.

    Notes
    -----
    **Cost:** each form is lowered once. That an expression is zero is decided as by `prove`, on
    mechanisms with random exact numbers; mostly the first one shows that it is not.

    Examples
    --------
    >>> import phipsi as pp
    >>> print(pp.simplify("(I - H psi K) H phi M phi* H*"))
    H ψ M φ* H*
    >>> print(pp.simplify("M - P + E_psi P E_psi*"))
    −K Jr K*
    >>> print(pp.simplify("M - P + E_psi P E_psi*", pp.examples.planar_arm(2)))
    0[motions,forces]
    """
    x = _expression(expr, "simplify", notation, custom)
    if model is not None and not isinstance(cast(object, model), Model):
        raise InputError(
            f"simplify needs a model as its second argument, not {type(model).__name__}. Write  "
            "pp.simplify(expr, model)"
        )
    armature = model is None or model.has_armature
    if _is_zero(x, armature):
        return zero(x.takes, x.gives)
    found = rewrite_one(x, frozenset(), armature=armature, apply=True).expressions[0]
    forms = dict.fromkeys((x, found, collect_prefixes(x), collect_prefixes(found)))
    return min(forms, key=lambda y: (_flops(y, model), y.size))


def _is_zero(x: Expr, armature: bool) -> bool:
    """Whether an expression is zero on all mechanisms, or on those without rotors.

    Only what is decided exactly and for any number of bodies.
    """
    if x.op is Op.ZERO:
        return True
    leaves = leaves_of(x)
    undecided = any(y.row.is_own or y.name == "D_half" for y in leaves)  # roots are not exact
    if x.takes is UNKNOWN or undecided or is_about_modes(x):
        return False
    claim = Identity(x, zero(x.takes, x.gives), "" if armature else NO_ROTORS)
    if is_about_rows(claim):
        return False
    try:
        tried = Tried(claim, 0, True, not is_of_rigid_bodies(x))
        return tried.method == "exact" and tried.first_failure() is None and not tried.limit
    except (PhipsiError, ArithmeticError):
        return False


def _flops(x: Expr, model: Model | None) -> float:
    try:
        return explain(x, model, rewrite="as_written").flops
    except LoweringError:
        return float("inf")
