"""Messages for expressions whose spaces do not fit: both signatures, the reason, and what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phipsi.expressions.row import Op

if TYPE_CHECKING:
    from phipsi.expressions.node import Expr
    from phipsi.expressions.spaces import Space


def signature(x: Expr) -> str:
    """``body motions → body forces``; for a vector just ``body motions``."""
    if x.takes is None or x.gives is None:
        return "space not known yet"
    if x.is_vector:
        return x.gives.phrase
    return f"{x.takes.phrase} → {x.gives.phrase}"


def _two_signatures(left: Expr, right: Expr) -> str:
    names = (str(left), str(right))
    width = max(len(n) for n in names)
    return "\n".join(
        f"    {n:<{width}} : {signature(x)}" for n, x in zip(names, (left, right), strict=True)
    )


def _in_product(x: Expr) -> str:
    return f"({x})" if x.op is Op.SUM else str(x)


def cannot_compose(left: Expr, right: Expr) -> str:
    """Text for ``left @ right`` whose inner spaces differ."""
    assert left.takes is not None and right.gives is not None
    fits = [
        f"{_in_product(a)} @ {_in_product(b)}"
        for a, b in ((right, left), (left, right.T), (left.T, right), (right.T, left))
        if a.takes is b.gives and not (a is left and b is right)
    ]
    hint = "\nThese fit:  " + "   or   ".join(dict.fromkeys(fits)) if fits else ""
    return (
        f"cannot compose  {_in_product(left)} @ {_in_product(right)}\n"
        f"{_two_signatures(left, right)}\n"
        f"{left} takes {left.takes.phrase}, but {right} gives {right.gives.phrase}.{hint}"
    )


def cannot_add(left: Expr, right: Expr) -> str:
    """Text for a sum of operators between different spaces."""
    adjoint = right.T
    hint = (
        f"\nThis fits:  {left} + {_in_product(adjoint)}"
        if adjoint.takes is left.takes and adjoint.gives is left.gives
        else ""
    )
    return (
        f"cannot add  {left}  and  {right}\n{_two_signatures(left, right)}\n"
        f"Terms of a sum must take and give the same.{hint}"
    )


def identity_does_not_fit(x: Expr) -> str:
    """Text for I in a sum whose other terms are no endomorphisms."""
    assert x.takes is not None and x.gives is not None
    return (
        f"I cannot be added to  {x}\n    {x} : {signature(x)}\n"
        f"I maps a space to itself: read as the identity on {x.takes.phrase} it does not give "
        f"{x.gives.phrase}, read as the identity on {x.gives.phrase} it does not take "
        f"{x.takes.phrase}."
    )


def undetermined(x: Expr) -> str:
    """Text for an I or 0 that stands alone where its space matters."""
    return (
        f"the space of  {x}  is not determined: it may be the identity on joint efforts or on body "
        f"forces (or zero between any two spaces).\n"
        "Say which:  pp.parse('I[efforts]')  or  pp.parse('I[forces]'), or use it in a sum or "
        "product with an operator."
    )


def not_square(x: Expr) -> str:
    """Text for the inverse (or log det) of something that is not square."""
    return (
        f"{x} has no inverse:\n    {x} : {signature(x)}\n"
        "Only operators between spaces of the same size have one. "
        f"Did you mean the adjoint, {x.T}?"
    )


def no_power(x: Expr, power: int) -> str:
    """Text for a power of an operator that does not map a space to itself."""
    return f"({x})**{power} does not compose:\n    {x} : {signature(x)}"


def no_diagonal(x: Expr) -> str:
    """Text for bd of something that has no blocks per body."""
    return (
        f"bd({x}) is not defined:\n    {x} : {signature(x)}\n"
        "The block-diagonal part needs one row and one column block per body."
    )


def no_motion(function: str, x: Expr) -> str:
    """Text for cross(x) or regress(x) of something that is no body motion."""
    return f"{function}({x}) needs a vector of body motions, but {x} is: {signature(x)}"


def no_parameters(x: Expr) -> str:
    """Text for inertia_of(x) of something that is no vector of inertial parameters."""
    return f"inertia_of({x}) needs a vector of inertial parameters, but {x} is: {signature(x)}"


def no_outer(x: Expr) -> str:
    """Text for outer(…) of something that is no vector with one block per body."""
    return f"outer(…) needs vectors with one block per body, but {x} is: {signature(x)}"


def no_rates(function: str, x: Expr) -> str:
    """Text for a direction that is no vector of joint rates."""
    return f"{function}(…) needs directions of joint rates, but {x} is: {signature(x)}"


def no_cross_force(x: Expr) -> str:
    """Text for the force cross-product operator of something that is no body force."""
    return f"cross_force({x}) needs a vector of body forces, but {x} is: {signature(x)}"


def no_trace(name: str, x: Expr, takes: Space, gives: Space) -> str:
    """Text for vee, bend_trace or half of something that has not the blocks they are made from."""
    return (
        f"{name}({x}) needs a memoryless operator {takes.phrase} → {gives.phrase}, but {x} is: "
        f"{signature(x)}"
    )


def no_numbers(x: Expr, numbers: object) -> str:
    """Text for ``x @ array``: an expression has no robot in it yet."""
    return (
        f"{x} is an expression, which cannot be multiplied by {type(numbers).__name__}.\n"
        "Compile it for a model, then apply the program to numbers:\n"
        "    pp.compile(expr, model)(q, x)"
    )


def advice(x: object) -> str:
    """What an object that is no expression, but is used like one, says about itself."""
    said = getattr(type(x), "advice", "")
    return f": {said}" if said else ""
