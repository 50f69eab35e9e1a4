"""Determinants: log det of products, of inverses and of operators that go in one direction."""

from __future__ import annotations

from phipsi.core.expressions import ONE, Expr, Op, is_memoryless, logdet, total_of, zero
from phipsi.core.rewrite.causal import diagonal_and_strict


def determinant(x: Expr) -> tuple[str, Expr] | None:
    """log det X in terms of simpler operators, and the name of the reason; None if not known.

    >>> from phipsi.core.operators import parse
    >>> print(*determinant(parse("logdet(I + H phi K)")))
    determinant of a triangular operator with I on its diagonal 0[one,one]
    """
    inner = x.args[0]
    if inner.op is Op.IDENTITY:
        return "determinant of I", zero(ONE, ONE)
    if inner.op is Op.INVERSE:
        return "determinant of an inverse", -logdet(inner.args[0])
    if inner.op is Op.PRODUCT and all(map(_is_square, inner.args)):
        return "determinant of a product", total_of((1, logdet(y)) for y in inner.args)
    if is_memoryless(inner.structure):
        return None
    parts = diagonal_and_strict(inner)
    if parts is None:
        return None
    diagonal = parts[0]
    if diagonal.op is Op.IDENTITY:
        return "determinant of a triangular operator with I on its diagonal", zero(ONE, ONE)
    return "determinant of a triangular operator", logdet(diagonal)


def _is_square(x: Expr) -> bool:
    return not x.is_vector and not x.is_scalar and x.takes.index == x.gives.index
