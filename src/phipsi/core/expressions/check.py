"""Messages for expressions whose spaces do not match: signatures, reason, a form that matches."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType

from phipsi import errors
from phipsi.core.expressions.kinds import Op, PrintableNode
from phipsi.core.expressions.spaces import ONE, UNKNOWN, Space
from phipsi.core.expressions.structure import Structure, is_memoryless

_LONGEST = 240  # characters of an expression in a message


def shown(x: object) -> str:
    """An expression or a word in a message: its text, cut in the middle if long."""
    return errors.shown(x, _LONGEST)


def signature(x: PrintableNode) -> str:
    """``body motions → body forces``; for a vector just ``body motions``."""
    if x.takes is UNKNOWN:
        return "space not known yet"
    if x.is_vector:
        return x.gives.phrase
    return f"{x.takes.phrase} → {x.gives.phrase}"


def _two_signatures(left: PrintableNode, right: PrintableNode) -> str:
    names = (shown(left), shown(right))
    width = max(len(n) for n in names)
    return "\n".join(
        f"    {n:<{width}} : {signature(x)}" for n, x in zip(names, (left, right), strict=True)
    )


def _in_product(x: PrintableNode) -> str:
    return f"({shown(x)})" if x.op is Op.SUM else shown(x)


def cannot_compose(left: PrintableNode, right: PrintableNode) -> str:
    """Text for ``left @ right`` whose inner spaces differ."""
    fits = [
        f"{_in_product(a)} @ {_in_product(b)}"
        for a, b in ((right, left), (left, right.T), (left.T, right), (right.T, left))
        if a.takes is b.gives and not (a is left and b is right)
    ]
    if left.takes is left.gives is ONE or right.takes is right.gives is ONE:
        fits = [f"{_in_product(left)} * {_in_product(right)}"]
    hint = "\nThese fit:  " + "   or   ".join(dict.fromkeys(fits)) if fits else ""
    hint = hint or _misread_in_product(left, right)
    return (
        f"cannot compose  {_in_product(left)} @ {_in_product(right)}\n"
        f"{_two_signatures(left, right)}\n"
        f"{shown(left)} takes {left.takes.phrase}, but {shown(right)} gives "
        f"{right.gives.phrase}.{hint}"
    )


def cannot_add(left: PrintableNode, right: PrintableNode) -> str:
    """Text for a sum of operators between different spaces."""
    adjoint = right.T
    hint = (
        f"\nThis fits:  {shown(left)} + {_in_product(adjoint)}"
        if adjoint.takes is left.takes and adjoint.gives is left.gives
        else ""
    )
    return (
        f"cannot add  {shown(left)}  and  {shown(right)}\n{_two_signatures(left, right)}\n"
        f"Terms of a sum must take and give the same.{hint}{misread(left, right)}"
    )


# ---- letters with another meaning ----------------------------------------------------------------

_JOINT_SPACE = "M is the inertia of the bodies; the joint-space mass matrix is ℳ (mass_matrix)"
_EFFORT = (
    "τ is the joint effort; SOA's τ = G H is proj (printed π):  "
    'pp.parse(text, notation="SOA") reads the letters of SOA'
)


def misread(left: PrintableNode, right: PrintableNode) -> str:
    """A line for a message on two terms or sides, if one is a letter that was meant otherwise."""
    for x, other in ((left, right), (right, left)):
        if _name(x) == "M" and other.gives.index == "joint":
            return f"\n{_JOINT_SPACE}."
        if _name(x) == "tau" and other.gives.index == "body":
            return f"\n{_EFFORT}."
    return ""


def _misread_in_product(left: PrintableNode, right: PrintableNode) -> str:
    """A line for a message on factors of which one is a letter that was meant otherwise."""
    before, after = _name(_factors(left)[-1]), _name(_factors(right)[0])
    if (before == "M" and right.gives.index == "joint") or (
        after == "M" and left.takes.index == "joint"
    ):
        return f"\n{_JOINT_SPACE}."
    if before == "tau" or (after == "tau" and left.takes.index == "body"):
        return f"\n{_EFFORT}."
    if after == "coordinates":
        return (
            f"\nOperators are written without their arguments: {shown(left)}, not {shown(left)}(q)."
        )
    return ""


def _factors(x: PrintableNode) -> Sequence[PrintableNode]:
    return x.args if x.op is Op.PRODUCT else (x,)


def _name(x: PrintableNode) -> str:
    """The name of a letter, of its adjoint or of its inverse; "" for anything else."""
    while x.op in (Op.ADJOINT, Op.INVERSE):
        x = x.args[0]
    return x.row.name if x.op is Op.LEAF else ""


def identity_does_not_fit(x: PrintableNode) -> str:
    """Text for I in a sum whose other terms do not map a space to itself."""
    return (
        f"I cannot be added to  {shown(x)}\n    {shown(x)} : {signature(x)}\n"
        f"I maps a space to itself: read as the identity on {x.takes.phrase} it does not give "
        f"{x.gives.phrase}, read as the identity on {x.gives.phrase} it does not take "
        f"{x.takes.phrase}." + (f"\n{_EFFORT}." if _name(x) == "tau" else "")
    )


def undetermined(x: PrintableNode) -> str:
    """Text for an I or 0 that stands alone where its space matters."""
    return (
        f"the space of  {shown(x)}  is not determined: it may be the identity on joint efforts or "
        f"on body forces (or zero between any two spaces).\n"
        "Specify it:  pp.parse('I[efforts]')  or  pp.parse('I[forces]'), or use it in a sum or "
        "product with an operator."
    )


def not_square(x: PrintableNode) -> str:
    """Text for the inverse (or log det) of something that is not square."""
    return (
        f"{shown(x)} has no inverse:\n    {shown(x)} : {signature(x)}\n"
        "Only operators between spaces of the same size have one. "
        f"Did you mean the adjoint, {shown(x.T)}?"
    )


def no_power(x: PrintableNode, power: int) -> str:
    """Text for a power of an operator that does not map a space to itself."""
    why = (
        "The power 0 is the identity on the space an operator maps to itself"
        if power == 0
        else "Powers are products with itself"
    )
    return (
        f"({shown(x)})^{shown(power)} does not compose:\n    {shown(x)} : {signature(x)}\n"
        f"{why}, but {shown(x)} does not give what it takes."
    )


def no_whole_power(x: PrintableNode, power: object) -> str:
    """Text for a power that is not an integer."""
    return f"({shown(x)}) ** {shown(repr(power))}: exponents of operators must be integers"


def too_large(size: int, most: int) -> str:
    """Text for an expression that would not fit into the memory."""
    many = f"{size:,}" if size < 10**15 else "more than 10^15"
    return (
        f"the expression is too large: written out it has {many} operators and operations, and at "
        f"most {most:,} are allowed. Compile a part of it separately, and make its value an input "
        "of the rest"
    )


def no_diagonal(x: PrintableNode) -> str:
    """Text for bd of something that has no blocks per body."""
    return (
        f"bd({shown(x)}) is not defined:\n    {shown(x)} : {signature(x)}\n"
        "The block-diagonal part needs one row and one column block per body."
    )


def wrong_argument(
    function: str,
    args: Sequence[PrintableNode],
    x: PrintableNode,
    kind: Space | tuple[Space, Space] | Structure | None,
) -> str:
    """Text for f(…) of something that is not what the function takes there."""
    inside = shown(x) if len(args) == 1 else "…"
    if kind is None:
        needs = "vectors with one block per body"
    elif isinstance(kind, Space):
        needs = f"a vector of {kind.phrase}" + ("" if x is args[0] else " as a direction")
    elif not isinstance(kind, tuple):
        memoryless = is_memoryless(kind)
        needs = "a memoryless operator" if memoryless else "a step from every parent, as E_φ*"
    elif kind[0] is UNKNOWN:
        needs = "a memoryless operator on one space"
    else:
        needs = f"a memoryless operator {kind[0].phrase} → {kind[1].phrase}"
    fix = _diagonal_instead(function, args, x, kind)
    return f"{function}({inside}) needs {needs}, but {shown(x)} is: {signature(x)}{fix}"


def _diagonal_instead(
    function: str,
    args: Sequence[PrintableNode],
    x: PrintableNode,
    kind: Space | tuple[Space, Space] | Structure | None,
) -> str:
    """What to write for the trace or diagonal of an operator that is not memoryless."""
    if not isinstance(kind, tuple) or len(args) != 1:
        return ""
    memoryless = is_memoryless(x.structure)
    blocks = shown(x) if memoryless else f"bd({shown(x)})"
    if x.takes is x.gives if kind[0] is UNKNOWN else kind == (x.takes, x.gives):
        return "" if memoryless else f". For its diagonal write  {function}({blocks})"
    if function == "trace" and x.takes.dual is x.gives:
        there = f"{x.gives.phrase} → {x.takes.phrase}"
        return f". Write  trace(W {blocks})  with a memoryless weight W: {there}"
    if function == "diagonal" and x.takes.index == "joint" == x.gives.index:
        return f". The blocks on its diagonal are  {blocks}"
    return ""


def no_numbers(x: PrintableNode, numbers: object) -> str:
    """Text for ``x @ array``: an expression has no robot in it yet."""
    if said := advice(numbers):
        return f"{shown(x)} cannot be multiplied by {type(numbers).__name__}{said}"
    return (
        f"{shown(x)} is an expression, which cannot be multiplied by {type(numbers).__name__}.\n"
        "Compile it for a model, then apply the program to numbers:\n"
        "    pp.compile(expr, model)(q, x)"
    )


def advice(x: object) -> str:
    """The advice of an object that is used like an expression, but is not one."""
    said = getattr(type(x), "advice", "")
    if isinstance(x, FunctionType) and x.__module__.startswith("phipsi."):
        said = (
            f"{x.__name__} is a function of a model and arrays. Expressions are made of "
            "pp.operators, for example  pp.operators.mass_matrix.inv @ pp.operators.tau"
        )
    return f": {said}" if said else ""


def no_scaling(s: PrintableNode, x: PrintableNode) -> str:
    """Text for an operator without blocks of bodies that a scalar expression multiplies."""
    return (
        f"{shown(s)} cannot scale {shown(x)} : {signature(x)}, which gives no blocks of bodies or "
        f"joints. Scale the vector that it is applied to: {shown(x)} @ (y @ {shown(s)})"
    )


def no_number_in_sum(x: object) -> str:
    """Text for a number that is added to an operator."""
    if said := advice(x):
        return f"cannot add {type(x).__name__} to an operator{said}"
    return f"cannot add the number {x!r} to an operator; write {x!r} * I for the identity"
