"""`derive`: a chain of named identities from one expression to another, printed like a proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from types import EllipsisType
from typing import Any, cast

from phipsi.core.expressions import Expr, Number, Op, Vocabulary, identity
from phipsi.core.operators import as_expression, definition, inputs_of, vocabulary
from phipsi.core.rewrite import Identity, sides_of
from phipsi.errors import InputError, is_whole
from phipsi.papers.derivations.derivation import (
    Derivation,
    DerivationStep,
    forces_acting,
    holds_on_samples,
)
from phipsi.papers.derivations.derivation_search import (
    DerivationSearch,
    Meeting,
    Move,
    SearchOutcome,
    compact_form,
)
from phipsi.papers.derivations.manipulate import fold
from phipsi.papers.derivations.named_equations import (
    Equation,
    alphabet,
    book,
    cancellations,
    definitions,
    diagonals,
    difference,
    equations_for,
    is_relevant,
    own_definitions,
    scaled_key,
    spread,
    written_out,
)
from phipsi.papers.derivations.normal_form import WordSum, words_of
from phipsi.papers.proofs.claim_decision import forces_of
from phipsi.papers.theorems.book_index import equations_named
from phipsi.papers.theorems.paper_symbols import vocabulary as words_of_tables
from phipsi.papers.theorems.prove import Proof, prove, with_paper_condition

MOST = 30_000
"""The largest number of forms that one leg of a derivation visits: a few seconds."""
_AGAIN = 6  # forms on which a further identity is used
_FIRST = 0.02  # the part of them that is looked at before two identities are tried together
_SHOWN = 4  # names in an error
_VDOT, _TAU, _M_VDOT = map(as_expression, ("vdot", "tau", "mass_matrix vdot"))
_M_INVERSE, _H_PHI = map(as_expression, ("mass_matrix^-1", "H phi"))
_TEXTS = {"": "M phi* (a + gravity) + b", "f0": "B f0", "f_ext": "-f_ext"}
_LOADS = {name: as_expression(text) for name, text in _TEXTS.items()}
"""The forces on the bodies in the equations of motion, by the name of what acts."""


# ---- the public function -------------------------------------------------------------------------


def derive(
    lhs: Expr | str | Identity,
    rhs: Expr | str | None = None,
    *,
    using: Sequence[Identity | str | EllipsisType] | None = None,
    through: Sequence[Expr | str] = (),
    condition: str | None = None,
    max_forms: int = MOST,
    notation: str = "",
    custom: Sequence[Expr] = (),
) -> Derivation:
    """Find a chain of named identities from one expression to another.

    The identity that states the claim itself is not used unless `using` names it; one that states
    it in other letters may be, and then the result says so (`Derivation.restated`).

    Parameters
    ----------
    lhs : Expr, str or Identity
        The left side; or the whole claim, as ``"lhs = rhs"``, an identity or the name of one.
    rhs : Expr or str, optional
        The right side.
    using : sequence of Identity or str, optional
        The identities that may be used in addition to the definitions; ``...`` in the list stands
        for all known identities. Default: all.
    through : sequence of Expr or str, optional
        Intermediate expressions, in order, to follow a known derivation.
    condition : str, optional
        A condition such as ``"Jr = 0"``. Default: the one that the claim needs, if any.
    max_forms : int, optional
        Largest number of forms that each leg of the chain visits. Default: 30 000.
    notation, custom : optional
        How strings are read, as for `parse`.

    Returns
    -------
    Derivation
        True if it is complete. If the sides are not equal, it has a counterexample; if no chain was
        found, it shows the closest forms.

    Raises
    ------
    InputError
        If an identity of `using` is false, or an expression of `through` is not equal to `lhs`.

    See Also
    --------
    prove : Decide whether an identity holds.

    Notes
    -----
    **Cost:** a few exact evaluations on small mechanisms; mostly below a second. **Source:**
    derived.

    Examples
    --------
    >>> import phipsi as pp
    >>> print(pp.derive("J mass_matrix^-1 J* = B* Omega B"))
    operational compliance:  J ℳ⁻¹ J* = B* Ω B
    <BLANKLINE>
        J ℳ⁻¹ J*
      = B* φ* H* ℳ⁻¹ H φ B   definition of J [SOA eq. 0.18]
      = B* Ω B               Omega (b) [SOA eq. 0.34; MC eq. 20]
    """
    if not is_whole(max_forms) or max_forms < 1:
        raise InputError(
            f"max_forms={max_forms!r} must be a positive integer, such as max_forms={MOST}"
        )
    using = None if using is None else _listed("using", using)
    through = _listed("through", through)
    words = vocabulary(notation, custom, words_of_tables())
    claim = _claim(lhs, rhs, condition, words)
    given = isinstance(lhs, Identity) or rhs is None and "=" not in str(lhs)
    title = claim.name if given else _title(claim)
    if condition is None and not claim.condition:
        failed, claim = _conditioned(claim)
        if failed is not None:
            return Derivation(*claim.sides, (), "", _refuted(failed), title, failed)
    elif not holds_on_samples(*claim.sides, claim.condition):
        failed = prove(claim)
        if not failed:
            return Derivation(*claim.sides, (), claim.condition, _refuted(failed), title, failed)
    points = [claim.sides[0], *(_parsed(x, words) for x in through), claim.sides[1]]
    for point in points[1:-1]:
        acting = forces_acting(*claim.sides)
        if not holds_on_samples(claim.sides[0], point, claim.condition, forces=acting):
            raise InputError(
                f"through=: the expression {point} is not equal to {claim.sides[0]}. Remove it, or "
                "fix it"
            )
    allowed = _allowed(using, claim, words)
    steps, tried = list[DerivationStep](), 0
    motion = _equation_of_motion(points, claim.condition)
    if motion is not None and (using is None or ... in using):
        solved, law = motion
        if forces_acting(points[0], points[-1]) != {"f0"}:
            allowed.append(law)
        if solved not in points:
            points.insert(1 if points[0] is _VDOT else -1, solved)
    for before, after in zip(points, points[1:], strict=False):
        leg = _leg(before, after, claim, allowed, max_forms, using is not None)
        tried += leg.tried
        steps += leg.steps
        if leg.reason:
            return replace(leg, lhs=points[0], rhs=points[-1], steps=tuple(steps), title=title)
    restated = () if using is not None else _restating(steps, claim)
    found = tuple(steps), claim.condition, "", title, None, tried, restated
    return Derivation(*claim.sides, *found)


def _listed(option: str, value: Any) -> list[Any]:
    """The list that an option takes; one text is not a list of its letters."""
    if isinstance(value, (str, Expr, Identity, EllipsisType)):
        one = "..." if value is ... else repr(value if isinstance(value, str) else str(value))
        raise InputError(f"{option} must be a list. Write  {option}=[{one}]")
    try:
        return list(value)
    except TypeError:
        example = "['Omega']" if option == "using" else "['H phi M phi* H*']"
        raise InputError(f"{option}={value!r} must be a list, such as {option}={example}") from None


def _title(claim: Identity) -> str:
    """The name of a claim in the book; x = x has none."""
    if difference(*claim.sides).is_zero:
        return ""
    return next((x.name for x in book() if _says(x, claim)), "")


def _parsed(x: Expr | str, words: Vocabulary) -> Expr:
    found = as_expression(x, base=words)
    if not isinstance(cast(object, found), Expr):
        raise InputError(
            f"derive needs expressions or strings, not {x!r}. Write  pp.derive(lhs, rhs)"
        )
    return found


def _one_named(identity: Identity | str) -> Identity:
    """The one equation with a name or number; several different ones are an error."""
    found = equations_named(identity)
    exact = [x for x in found if identity in (x.name, *x.name.split(" / "))]
    different = list({_key(*x.sides): x.name for x in reversed(exact or found)}.values())[::-1]
    if len(different) > 1:
        some = ", ".join(map(repr, different[:_SHOWN]))
        more = f" and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
        raise InputError(
            f"several equations match {identity!r}: {some}{more}. Name one of them:  "
            f"pp.derive({different[0]!r})"
        )
    return (exact or found)[0]


def _claim(lhs: Any, rhs: Any, condition: str | None, words: Vocabulary) -> Identity:
    if isinstance(lhs, Identity) or (isinstance(lhs, str) and rhs is None and "=" not in lhs):
        if rhs is not None:
            raise InputError(
                "rhs= has no effect: an identity has both sides. Write  pp.derive(identity)"
            )
        found = _one_named(lhs)
        return found if condition is None else replace(found, condition=condition)
    if rhs is None:
        if not isinstance(lhs, str):
            raise InputError(
                "derive needs two sides. Write  pp.derive(lhs, rhs)  or, with one equals sign,  "
                'pp.derive("lhs = rhs")'
            )
        lhs, rhs = sides_of(lhs)
    return Identity(_parsed(lhs, words), _parsed(rhs, words), condition or "")


def _equation_of_motion(points: Sequence[Expr], condition: str) -> tuple[Expr, Identity] | None:
    """ℳ⁻¹ (tau − …) for a derivation with the end vdot, and the equation that says so.

    vdot and tau are inputs, which no identity of operators connects; the equation in the book has
    the force f0.
    """
    if (points[0] is _VDOT) is (points[-1] is _VDOT) or "tau" not in inputs_of(points):
        return None
    acting = forces_acting(points[0], points[-1])
    load = reduce(Expr.__add__, (x for n, x in _LOADS.items() if not n or n in acting))
    rest = _H_PHI @ load
    law = Identity(_TAU, _M_VDOT + rest, condition, name="equations of motion")
    solved = _M_INVERSE @ (_TAU - rest)
    if not holds_on_samples(_VDOT, solved, condition, forces=acting):
        return None
    return solved, law


def _says(x: Identity, claim: Identity) -> bool:
    """Whether an identity is the claim, up to a factor, the adjoint and the name of ℳ."""
    return _key(*x.sides) == _key(*claim.sides)


def _restating(steps: Sequence[DerivationStep], claim: Identity) -> tuple[str, ...]:
    """Names of identities in the steps that are the claim once all definitions are written out."""
    ends = [*map(written_out, claim.sides)]
    if difference(*ends).is_zero:
        return ()  # it follows from definitions
    wanted = _key(*ends)
    equations = {move.equation.name: move.equation for step in steps for move in step.moves}
    return tuple(
        name for name, x in equations.items() if _key(*map(written_out, x.sides)) == wanted
    )


@lru_cache(maxsize=2**11)
def _key(lhs: Expr, rhs: Expr) -> object:
    return scaled_key(difference(fold(lhs), fold(rhs)))


def _conditioned(claim: Identity) -> tuple[Proof | None, Identity]:
    """The claim with the condition it needs, or the proof that it is false."""
    if holds_on_samples(*claim.sides, ""):
        return None, claim
    proof = prove(claim)
    if proof:  # under a condition, or without gravity, if a paper means it so
        lhs, rhs = proof.identity.sides
        return None, replace(claim, lhs=lhs, rhs=rhs, condition=proof.identity.condition)
    return (None, replace(claim, condition=proof.holds_if)) if proof.holds_if else (proof, claim)


def _refuted(proof: Proof) -> str:
    return f"the sides are not equal: {proof.reason}"


def _allowed(using: Any, claim: Identity, words: Vocabulary) -> list[Identity]:
    """The identities that may be used, custom ones after a proof."""
    if using is None:
        return [x for x in book() if x.kind == "definition" or _may_use(x, claim)]
    out = list(definitions())
    for one in using:
        if one is ...:
            out += [x for x in book() if _may_use(x, claim)]
            continue
        own = isinstance(one, str) and "=" in one and one != "Jr = 0"
        found = [_claim(one, None, None, words)] if own else equations_named(one)
        found = [with_paper_condition(x) for x in found]
        for x in found:
            if (own or x not in book()) and not prove(x):
                raise InputError(f"using=: {x} is false: it fails {prove(x).reason}. Remove it")
            if own and not _has_same_forces(x, claim):
                acting = ", ".join(sorted(forces_acting(*claim.sides))) or "neither f0 nor f_ext"
                raise InputError(
                    f"using=: {x} does not hold for the tau of this derivation, in whose equations "
                    f"of motion {acting} acts. Write it with the same forces, or remove it"
                )
        out += found
    return out


def _may_use(x: Identity, claim: Identity) -> bool:
    """Not the claim itself, and not what is in the book a second time with other letters."""
    if x.name.endswith("[MM form]") or _says(x, claim):
        return False
    return _has_same_forces(x, claim)


def _has_same_forces(x: Identity, claim: Identity) -> bool:
    """Whether an identity holds for the tau of the claim, in whose equations other forces act."""
    forces, acting = forces_of(*x.sides), forces_acting(*claim.sides)
    if forces is None or forces == acting:
        return True
    return holds_on_samples(*x.sides, x.condition, forces=acting)


# ---- one leg -------------------------------------------------------------------------------------


def _leg(
    lhs: Expr,
    rhs: Expr,
    claim: Identity,
    allowed: Sequence[Identity],
    most: int,
    named: bool,
) -> Derivation:
    if difference(lhs, rhs).is_zero:
        last = () if lhs is rhs else (DerivationStep(rhs, "multiply out"),)
        return Derivation(lhs, rhs, last, claim.condition)
    tried = 0
    for out in (False, True):
        ends = (written_out(lhs), written_out(rhs)) if out else (lhs, rhs)
        start = difference(*ends)
        if start.is_zero:
            return Derivation(
                lhs, rhs, (DerivationStep(rhs, "definitions"),), claim.condition, tried=tried
            )
        rows = [_written(x) for x in allowed] if out else allowed
        equations = _equations(rows, ends, claim, named)
        search = DerivationSearch(equations)
        inverses = [([move], 0.1) for move in _inverses(*ends)]
        of_sum = any(x.op is Op.INVERSE and x.args[0].op is Op.SUM for x in ends)
        begins = inverses if of_sum else [([], _FIRST), ([], 0.1), *inverses]
        by_definition = not out and difference(written_out(lhs), written_out(rhs)).is_zero
        last = [] if by_definition else [([], 0.3)]
        again = {1: 0, len(begins): _AGAIN} if not out else {}
        meeting = Meeting(lhs, rhs, equations)
        for i, (begin, share) in enumerate([*begins, *last]):
            groups = meeting.chain(again[i]) if i in again else None
            if groups is not None:
                steps = _steps(lhs, rhs, ends, groups)
                return Derivation(lhs, rhs, steps, claim.condition, tried=tried)
            found = search.run(start, max(1, int(share * most)), begin)
            tried += found.tried
            if found.moves is not None:
                steps = _chain(lhs, rhs, ends, found.moves)
                return Derivation(lhs, rhs, steps, claim.condition, tried=tried)
    return _unfinished(lhs, rhs, ends, found, claim, tried)


def _written(x: Identity) -> Identity:
    """An identity with the definitions in its sides written out."""
    lhs, rhs = map(written_out, x.sides)
    return replace(x, lhs=lhs, rhs=rhs)


def _equations(
    rows: Sequence[Identity], ends: tuple[Expr, Expr], claim: Identity, named: bool
) -> list[Equation]:
    """The equations for one leg; if the user did not name them, without one that is the leg."""
    letters = alphabet(ends)
    key = scaled_key(difference(*ends))
    own = own_definitions(ends)
    laws = [*cancellations(ends), *diagonals([*ends, *(x.sides[1] for x in own)])]
    every = equations_for([*own, *rows, *laws], ends, claim.condition)
    return [
        e
        for e in every
        if is_relevant(e, letters)
        and (named or e.key != key or e.identity.kind in ("definition", "condition", "law"))
    ]


def _inverses(lhs: Expr, rhs: Expr) -> list[Move]:
    """X⁻¹ = Y from X⁻¹ = X⁻¹ X Y: the first move of the papers' proofs of inverses."""
    out: list[Move] = []
    for one, other, sign in ((lhs, rhs, 1), (rhs, lhs, -1)):
        if one.op is not Op.INVERSE:
            continue
        inner = one.args[0]
        meaning = definition(inner) if inner.op is Op.LEAF else inner
        if meaning is None:
            continue
        unit = identity(one.gives)
        law = Identity(spread(one, meaning), unit, name="insert an inverse", kind="law")
        equation = Equation(law, *law.sides)
        multiples = tuple((sign * c, (), w) for w, c in words_of(other).terms.items())
        out.append(Move(equation, equation.words, (), multiples))
    return out


def _chain(
    lhs: Expr, rhs: Expr, ends: tuple[Expr, Expr], moves: Sequence[Move]
) -> tuple[DerivationStep, ...]:
    """The moves as steps from the left side to the right one."""
    states = [words_of(x) for x in ends]
    paths: tuple[list[Move], list[Move]] = ([], [])
    for move in moves:
        on_left = [m for m in move.multiples if m[1] + move.pivot + m[2] in states[0].terms]
        on_right = [m for m in move.multiples if m not in on_left]
        for side, multiples, sign in ((0, on_left, 1), (1, on_right, -1)):
            if multiples:
                part = replace(move, multiples=tuple(multiples))
                states[side] = part.applied(states[side], sign)
                paths[side].append(part)
    assert states[0].key == states[1].key
    in_order = [*paths[0], *reversed(paths[1])]
    orders = [_grouped(in_order), _gathered(in_order)]
    return _steps(lhs, rhs, ends, min(orders, key=len))


def _grouped(moves: Sequence[Move]) -> list[tuple[Move, ...]]:
    """Moves with the same identity that follow each other, as one step."""
    groups: list[tuple[Move, ...]] = []
    for move in moves:
        if groups and groups[-1][-1].equation.name == move.equation.name:
            groups[-1] = (*groups[-1], move)
        else:
            groups.append((move,))
    return groups


def _gathered(moves: Sequence[Move]) -> list[tuple[Move, ...]]:
    """All moves with the same identity as one step; the order is free, and opposite ones cancel."""
    names: dict[str, dict[tuple[object, ...], tuple[Move, Number]]] = {}
    for move in moves:
        group = names.setdefault(move.equation.name, {})
        for factor, left, right in move.multiples:
            key = (move.words.key, left, right)
            total = factor + (group[key][1] if key in group else 0)
            group[key] = (replace(move, multiples=((total, left, right),)), total)
    kept = (tuple(move for move, c in group.values() if c) for group in names.values())
    return [group for group in kept if group]


def _steps(
    lhs: Expr,
    rhs: Expr,
    ends: tuple[Expr, Expr],
    groups: Sequence[tuple[Move, ...]],
) -> tuple[DerivationStep, ...]:
    """Expressions for the sums of words, as short as they were, and the reasons."""
    line: list[tuple[WordSum, tuple[Move, ...]]] = []
    words = words_of(ends[0])
    seen = {words.key: 0}
    for group in groups:
        words = reduce(lambda w, move: move.applied(w), group, words)
        del line[seen.get(words.key, len(line)) :]  # a way back to where it was
        if words.key not in seen:
            line.append((words, group))
        seen = {words_of(ends[0]).key: 0, **{w.key: i for i, (w, _) in enumerate(line, 1)}}
    shown = [ends[0], *(words.expression() for words, _ in line)]
    for i, (words, moves) in enumerate(line, 1):
        shown[i] = compact_form(words, shown[i - 1], moves)
    shown[-1] = ends[1]
    for i in range(len(line) - 1, 0, -1):
        back = compact_form(line[i - 1][0], shown[i + 1], line[i][1])
        shown[i] = min(shown[i], back, key=lambda x: len(str(x)))
    steps = (
        [DerivationStep(ends[0], "definitions")]
        if words_of(lhs).key != words_of(ends[0]).key
        else []
    )
    for x, (_, moves) in zip(shown[1:], line, strict=True):
        first = moves[0].equation.identity
        place = str(words_of(x).product(moves[0].pivot)) if moves[0].pivot else ""
        steps.append(DerivationStep(x, first.name, first.source, place, tuple(moves)))
    if words_of(rhs).key != words_of(ends[1]).key:
        steps.append(DerivationStep(rhs, "definitions"))
    elif steps:
        steps[-1] = replace(steps[-1], expression=rhs)
    return tuple(steps)


def _unfinished(
    lhs: Expr,
    rhs: Expr,
    ends: tuple[Expr, Expr],
    outcome: SearchOutcome,
    claim: Identity,
    tried: int,
) -> Derivation:
    states = [words_of(x) for x in ends]
    for move in outcome.nearest:
        for m in move.multiples:
            side = 0 if m[1] + move.pivot + m[2] in states[0].terms else 1
            states[side] = replace(move, multiples=(m,)).applied(states[side], 1 - 2 * side)
    reason = (
        f"no chain of identities was found among {tried} forms; the two closest forms are\n"
        f"    from the left    {states[0].expression()}\n"
        f"    from the right   {states[1].expression()}\n"
        "Give a form on the way, through=[…], more identities, using=[..., …], or a larger "
        "max_forms=…."
    )
    return Derivation(lhs, rhs, (), claim.condition, reason, tried=tried)
