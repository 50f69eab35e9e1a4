"""Formulas of users: a function is traced once for each number of joint degrees of freedom.

It is traced as laws are (`arrays/trace.py`): on blocks that are not known yet.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from phipsi.core.arrays import (
    MOST_STEPS,
    EntryGraph,
    Node,
    Tracer,
    argument,
    as_node,
    at_most,
    block_entries,
    concat,
    constant,
    fail,
    place_of,
    short,
    traced_call,
    traced_twice,
)
from phipsi.core.expressions import ONE, Expr, Op, Space, is_memoryless
from phipsi.core.spatial import ARRAYS
from phipsi.errors import InputError, LawError, SpaceError, did_you_mean
from phipsi.user_operators.block_formulas import (
    Formula,
    block_shape,
    formula,
    is_derived_name,
    kind_of,
)

_WIDTHS = range(7)  # of a joint


def formula_block(
    common: Mapping[str, Any],
    takes: Space,
    gives: Space,
    function: Callable[..., Any],
    symmetric: bool,
    known: Mapping[str, Expr],
) -> Expr:
    """The expression whose blocks a function computes from quantities of the same body.

    Its arguments are named as the quantities, which `known` has; those with a default value are
    constants.
    """
    place = place_of(function)
    args, constants = _arguments(function, known, place)
    programs: list[EntryGraph | str] = []
    with at_most(MOST_STEPS):
        for width in _WIDTHS:
            try:
                programs.append(_traced(function, args, constants, takes, gives, width))
            except InputError as error:
                programs.append(str(error))
    usual = programs[1:]
    if all(isinstance(x, str) for x in usual):
        raise InputError(f"{common['name']}: {usual[0]}")
    spaces = tuple(map(kind_of, args))
    name = getattr(function, "__name__", "")
    name = name if name.isidentifier() else f"f_{common['name']}"
    if is_derived_name(name):
        raise InputError(
            f"{place}the name {name!r} is reserved for derivatives of formulas. Rename the "
            f"function, for example to {'f_' + name!r}"
        )
    made = formula(name, takes, gives, spaces, tuple(programs), symmetric)
    if symmetric:
        _check_symmetry(common["name"], made, args, place)
    return made(*args)


def _arguments(
    function: Callable[..., Any], known: Mapping[str, Expr], place: str
) -> tuple[list[Expr], dict[str, Any]]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise InputError(
            f"{place}the signature of this function cannot be read. Wrap it in a lambda"
        ) from None
    args: list[Expr] = []
    constants: dict[str, Any] = {}
    for p in parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            raise InputError(f"{place}argument {p} has no fixed name. Name every argument")
        if p.default is not p.empty:
            constants[p.name] = p.default
            continue
        if p.name not in known:
            fitting = sorted(n for n, x in known.items() if n.isascii() and not _obstacle(x))
            raise InputError(
                f"{place}{p.name!r} is not a quantity of one body. "
                f"{did_you_mean(p.name, fitting)}\n"
                "Matrices of a body are M, H, P, D, G, R and the like; vectors q, v, vdot, tau (of "
                "its joint), V, a, b, gravity and f_ext (of the body).\n"
                f"Pass custom operators, vectors and scalars with custom=[{p.name}], and "
                f"numbers as default values:  {p.name}=0.5"
            )
        why = _obstacle(known[p.name])
        if why:
            raise InputError(f"{place}{p.name!r} {why}")
        args.append(known[p.name])
    if all(x.is_scalar for x in args):
        raise InputError(
            f"{place}a formula needs a quantity of the body as an argument, such as M or D. "
            "Pass constant blocks as numbers, block=np.eye(6), and functions of scalars as "
            'expressions:  pp.custom.scalar("h2", h @ h)'
        )
    return args, constants


def _obstacle(x: Expr) -> str:
    """The reason why an expression has no block of one body."""
    if x.op is not Op.LEAF:
        return "is not a named operator, vector or scalar"
    if x.gives is ONE and x.is_vector:
        return ""
    if not x.gives.per_body or x.gives.is_curved:
        return f"has no blocks of one body: it gives {x.gives.phrase}"
    if x.is_vector:
        return ""
    if not is_memoryless(x.structure) or not x.takes.per_body:
        return "is not memoryless: its blocks couple bodies, and a formula is about one body"
    return ""


def _traced(
    function: Callable[..., Any],
    args: list[Expr],
    constants: dict[str, Any],
    takes: Space,
    gives: Space,
    width: int,
) -> EntryGraph:
    """The steps of a function for joints of so many degrees of freedom."""
    rows, cols = (width if s.width is None else s.width for s in (gives, takes))
    if not rows or not cols:
        return EntryGraph(((),) * rows)
    shapes = [block_shape(kind_of(x), width) for x in args]
    names = [x for x in inspect.signature(function).parameters if x not in constants]
    place = place_of(function)

    def block_of() -> Node:
        given = [Tracer(argument(n, shape), owned=True) for n, shape in enumerate(shapes)]
        found = traced_call(function, **dict(zip(names, given, strict=True)), **constants)
        return _block(found, rows, cols, takes is ONE, place)

    try:
        block = traced_twice(block_of, operator.is_, function, place)
        return block_entries(block)
    except LawError as error:
        text = str(error)
        raise InputError(text if ", line " in text else place + text) from None


def _block(result: Any, rows: int, cols: int, is_vector: bool, place: str) -> Node:
    """What a function returned, as a block of its spaces."""
    try:
        block = as_node(result)
    except LawError:
        fail(f"the formula returns {short(result)}, which is not a number", "return numbers", place)
    wanted = (rows,) if is_vector else (rows, cols)
    if not block.shape and (rows == cols or is_vector):  # a multiple of the identity, or of ones
        one = np.ones(rows, bool) if is_vector else np.eye(rows, dtype=bool)
        zero = constant(0.0)
        return concat([block if on else zero for on in one.ravel()], wanted)
    if block.shape != wanted:
        alone = ", or a number for all of them" if is_vector else ""
        if rows == cols and not is_vector:
            alone = ", or a number for a multiple of I"
            alone += ", or np.diag(…) of this array" if block.shape == (rows,) else ""
        fail(
            f"the formula returns an array of shape {block.shape}, but a block of its spaces is "
            f"{wanted}",
            f"return an array of shape {wanted}{alone}",
            place,
        )
    return block


def _check_symmetry(name: str, f: Formula, args: list[Expr], place: str) -> None:
    """Reject blocks that are not symmetric for random arguments."""
    rng = np.random.default_rng(0)
    for width in (x for x in _WIDTHS if isinstance(f.programs[x], EntryGraph)):
        blocks: list[Any] = []
        for x in args:
            rows, cols = (*block_shape(kind_of(x), width), 1, 1)[:2]
            drawn = rng.standard_normal((rows, cols))
            blocks.append(drawn @ drawn.T + np.eye(rows) if x.T is x and rows == cols else drawn)
        with np.errstate(all="ignore"):
            found = np.array(f.program(width).run(blocks, ARRAYS), dtype=np.float64)
        gap = np.abs(found - found.T)
        gap = np.where(np.isfinite(gap), gap, 0.0)
        if gap.size and gap.max() > 1e-9 * max(np.abs(found[np.isfinite(found)]).max(), 1e-300):
            i, j = (int(n) for n in np.unravel_index(gap.argmax(), gap.shape))
            raise SpaceError(
                f"{place}{name} is declared symmetric, but its formula is not: for random blocks "
                f"entry ({i}, {j}) is {found[i, j]:.6g} and entry ({j}, {i}) is "
                f"{found[j, i]:.6g}.\nRemove symmetric=True, or return (X + X.T) / 2"
            )
