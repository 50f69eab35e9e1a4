"""The seven levels of a spatial operator, from the expression to coordinates (MM Fig. 3).

1 the expression, 2 its operators, 3 the kind of each and its physical meaning, 4 its recursion, 5
the transition of one link, 6 its two halves (along the rigid body, across the joint), 7 the change
of coordinates. Recursions are those that the compiler makes of the operator alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from phipsi.core.expressions import (
    Expr,
    Op,
    is_anticausal,
    is_causal,
    is_memoryless,
    is_strict,
    signature,
)
from phipsi.core.operators import (
    definition,
    is_one_step,
    leaves_of,
    plain_transition,
    transition_step,
)
from phipsi.core.rewrite import one_step_factors

_RIGID = (
    "φ(k,c) = [R, l~ R; 0, R]: R turns the axes of body c into those of body k, l is the vector "
    "from the origin of k to that of c"
)
_POINT = (
    "φ(k,C) = [R, l~ R; 0, R]: R turns the axes of the point into those of body k, l is the vector "
    "from the origin of k to C"
)


@dataclass(frozen=True)
class OperatorLevels:
    """The levels 2 to 7 of one operator of an expression.

    Parameters
    ----------
    operator : Expr
        The operator, such as ψ, H* or D⁻¹.
    kind : str
        Level 3: in which direction it goes along the tree.
    meaning : str
        Level 3: what it means physically, and from which space to which it leads.
    recursion : tuple of str
        Level 4: its recursion over the bodies, as compiled for the operator alone.
    transition : str
        Level 5: the transition from one link to the next; "" for memoryless operators.
    within, crossing : str
        Level 6: the halves of the transition, along a rigid body and across its joint.
    coordinates : str
        Level 7: the change of coordinates.

    Examples
    --------
    >>> import phipsi as pp
    >>> levels = pp.explain("ψ", levels=True).levels[0]
    >>> levels.kind
    'causal: a recursion from the tips to the base'
    >>> levels.crossing
    'π̄(c) = I − G(c) H(c)'
    """

    operator: Expr
    kind: str
    meaning: str
    recursion: tuple[str, ...]
    transition: str
    within: str
    crossing: str
    coordinates: str

    def __repr__(self) -> str:
        return f"<OperatorLevels {self.operator}: {self.kind}>"

    def lines(self) -> Iterator[tuple[str, str]]:
        """Pairs of a level and a line of text, without levels that the operator does not have."""
        yield "3 kind", self.kind
        yield "3 meaning", self.meaning
        for i, line in enumerate(self.recursion):
            yield ("4 recursion" if i == 0 else ""), line
        if self.transition:
            yield "5 transition", self.transition
            yield "6 along a body", self.within
            yield "6 across a joint", self.crossing
        yield "7 coordinates", self.coordinates


def factors_of(expressions: Sequence[Expr]) -> tuple[Expr, ...]:
    """The operators of expressions in order, each once, with its star or inverse; no vectors."""
    found: dict[Expr, None] = {}
    for x in expressions:
        for y in _walk(x):
            if not y.is_vector:
                found.setdefault(y)
    return tuple(found)


def _walk(x: Expr) -> Iterator[Expr]:
    if x.op is Op.LEAF or (x.op in (Op.ADJOINT, Op.INVERSE) and x.args[0].op is Op.LEAF):
        yield x
    elif x.op not in (Op.IDENTITY, Op.ZERO):
        for y in x.args:
            yield from _walk(y)


def levels_of(x: Expr, recursion: Iterable[str]) -> OperatorLevels:
    """The levels of one operator, with the recursion of it alone."""
    core, starred = _core(x), x.op is Op.ADJOINT
    step = _step_of(core)
    transition = within = crossing = ""
    coordinates = "none: blocks are in the axes of each body"
    if step is not None:
        transition, within, crossing = _transition(core, step, starred)
        coordinates = _RIGID
    elif "point" in (x.takes.index, x.gives.index):
        coordinates = _POINT
    return OperatorLevels(
        x, _kind(x), _meaning(x, core), tuple(recursion), transition, within, crossing, coordinates
    )


def _core(x: Expr) -> Expr:
    return x.args[0] if x.op in (Op.ADJOINT, Op.INVERSE) else x


def _kind(x: Expr) -> str:
    if is_memoryless(x.structure):
        return "memoryless: each body on its own"
    strictly = "strictly " if is_strict(x.structure) else ""
    once = "one step" if _is_step(_core(x)) else "a recursion"
    if is_causal(x.structure):
        return f"{strictly}causal: {once} from the tips to the base"
    if is_anticausal(x.structure):
        return f"{strictly}anticausal: {once} from the base to the tips"
    return "neither causal nor anticausal: it goes both ways along the tree"


def _meaning(x: Expr, core: Expr) -> str:
    meaning = core.row.meaning
    if x.op is Op.ADJOINT:
        meaning = f"adjoint of {core}, {meaning}"
    elif x.op is Op.INVERSE:
        meaning = f"inverse of {core}, {meaning}"
    return meaning if signature(x) in meaning else f"{meaning}; {signature(x)}"


def _is_step(core: Expr) -> bool:
    return plain_transition(core) is None and is_one_step(core)


def _step_of(core: Expr) -> Expr | None:
    """The one-step operator inside φ, ψ, their strict parts, E_φ, E_ψ and K; None for others."""
    plain = plain_transition(core)
    if plain is not None:
        return transition_step(plain)
    return core if is_one_step(core) else None


def _transition(core: Expr, step: Expr, starred: bool) -> tuple[str, str, str]:
    """Levels 5 and 6, in the direction of the operator."""
    before, rigid, after = one_step_factors(step)
    name = str(step if plain_transition(core) is None else plain_transition(core))
    halves = [f"{_named(y)}({'k' if y is before else 'c'})" for y in (before,) if y is not None]
    halves += ["φ(k,c)" if rigid.name == "E_phi" else "R(k,c)"]
    if after is not None:
        halves.append(f"{_named(after)}(c)")
    crossing = "the joint is locked: nothing changes across it"
    if after is not None:
        crossing = f"{_named(after)}(c)"
        meaning = definition(after)
        if meaning is not None:
            crossing += f" = {_at(meaning)}"
        elif after.op is Op.LEAF:
            crossing += f", {after.row.meaning}"
    within = "φ(k,c), forces of body c on body k" if not starred else "φ*(k,c), motions of k at c"
    star = "*" if starred else ""
    return f"{name}{star}(k,c) = {_product(halves, starred)}", within, _star(crossing, starred)


def _named(x: Expr) -> str:
    return str(x) if x.op is Op.LEAF else f"[{x}]"


def _product(halves: Sequence[str], starred: bool) -> str:
    if not starred:
        return " ".join(halves)
    return " ".join(f"{y.partition('(')[0]}*({y.partition('(')[2]}" for y in reversed(halves))


def _star(text: str, starred: bool) -> str:
    return f"the adjoint of {text}" if starred and not text.startswith("the joint") else text


def _at(x: Expr) -> str:
    """An expression of memoryless operators at body c: I − G H as I − G(c) H(c)."""
    text = str(x)
    for leaf in sorted(leaves_of(x), key=lambda y: len(str(y)), reverse=True):
        text = text.replace(str(leaf), f"{leaf}(c)")
    return text.replace("I[forces]", "I")
