"""The inputs that an expression needs, and the check that the two pairs (a, b) are not mixed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any, cast

from phipsi.core.expressions import REGISTERED, Expr, Op, Row, cached_in_scope, shown
from phipsi.core.model import Model, PointSet
from phipsi.core.operators.block_values import ConstantBlocks
from phipsi.core.operators.catalogue import (
    CATALOGUE,
    H,
    M,
    arguments_of,
    catalogue_leaf,
    definition,
    phi,
)
from phipsi.errors import InputError, SpaceError

INPUT_ORDER = (
    "q", "v", "vdot", "tau", "f_ext", "f0", "free", "Udot", "dq", "dv", "dvdot", "dtau", "dinertia",
)  # fmt: skip
_COORDINATES = catalogue_leaf("coordinates")
DIRECTIONS = ("dq", "dv", "dvdot", "dtau")
"""Inputs that are directions of derivatives, as vectors of the joints.

Another is "dinertia", ten numbers for every body."""


def nodes_of(x: Expr) -> frozenset[Expr]:
    """An expression and all its parts, those inside Riccati instances included."""
    seen: set[Expr] = set()
    stack = [x]
    while stack:
        y = stack.pop()
        if y not in seen:
            seen.add(y)
            stack.extend(y.args)
    return frozenset(seen)


@cached_in_scope
def leaves_of(x: Expr) -> frozenset[Expr]:
    """All leaves of an expression, those inside Riccati instances included."""
    return frozenset(y for y in nodes_of(x) if y.op is Op.LEAF)


def about_points(expr: Expr) -> list[Expr]:
    """The leaves of an expression that are motions or forces at points, or lead to these."""
    found = sorted(leaves_of(expr), key=str)
    return [x for x in found if "point" in {s.index for s in (x.takes, x.gives)}]


@lru_cache(maxsize=2**10)
def written_nodes(expressions: tuple[Expr, ...]) -> frozenset[Expr]:
    """All parts of expressions and of the definitions of their leaves."""
    seen: set[Expr] = set()
    stack = list(expressions)
    while stack:
        x = stack.pop()
        if x not in seen:
            seen.add(x)
            meaning = definition(x)
            stack += x.args if meaning is None else (*x.args, meaning)
    return frozenset(seen)


@lru_cache(maxsize=2**12)
def own_rows(expressions: tuple[Expr, ...]) -> dict[str, Row]:
    """The rows outside the catalogue in expressions and in definitions, by name.

    In one computation a name means one operator: another one of the same name is an error.
    """
    out: dict[str, Row] = {}
    seen: set[Expr] = set()
    stack = [x for x in expressions if isinstance(cast(object, x), Expr)]  # others are rejected
    while stack:
        for y in leaves_of(stack.pop()) - seen:
            seen.add(y)
            if y.row.is_own and out.setdefault(y.name, y.row) is not y.row:
                raise InputError(
                    f"two custom operators are named {y.name}, with different contents:\n"
                    f"{_differences(out[y.name], y.row)}\n"
                    f"Give one of them another name, such as {y.name + '_2'!r}"
                )
            meaning = definition(y)
            if meaning is not None:
                stack.append(meaning)
    return out


def check_tables(
    expressions: tuple[Expr, ...], model: Model, points: PointSet | None = None
) -> None:
    """Reject blocks that do not fit the bodies and joints of a model, or the points."""
    _check_coordinates(expressions, model)
    for row in own_rows(expressions).values():
        parts: list[Any] = [row.value, row.inverse_value, getattr(row.value, "function", None)]
        for part in parts:
            if hasattr(part, "check_model"):
                part.check_model(model)
            if points is not None and isinstance(part, ConstantBlocks):
                part.check_points(points)
        if row.inverse_value is not None and row.takes.index == "point":
            count = 0 if points is None else len(points)
            for i in range(count):
                blocks = (x.at_point(model, i, count) for x in (row.value, row.inverse_value))
                row.value.check_inverse(f"point {i}", *blocks)
        elif row.inverse_value is not None:
            for k, body in enumerate(model.body_names):
                blocks = (table.at(model, k) for table in (row.value, row.inverse_value))
                row.value.check_inverse(body, *blocks)


def _check_coordinates(expressions: tuple[Expr, ...], model: Model) -> None:
    """Reject q of joints whose coordinates are not the integrals of their rates."""
    curved = [k for k, joint in enumerate(model.joints) if not joint.is_additive]
    parts = written_nodes(expressions) if curved else frozenset[Expr]()
    if _COORDINATES not in parts:
        return
    for x in sorted(parts, key=str):
        for i, y in enumerate(x.args):
            reads: Any = getattr(x.function, "reads", None)
            k = next((k for k in curved if reads is None or reads(i, model.joints[k].nv)), None)
            if y is _COORDINATES and k is not None:
                raise InputError(_no_coordinates(x, model, k))
        if x is _COORDINATES and x in expressions:
            raise InputError(_no_coordinates(x, model, curved[0]))


def _no_coordinates(x: Expr, model: Model, k: int) -> str:
    joint = model.joints[k]
    return (
        f"{shown(x)} reads q of joint {model.joint_names[k]!r} ({joint.kind}), whose coordinates "
        f"are not the integrals of its rates ({joint.nq} numbers for {joint.nv} degrees of "
        "freedom).\nRead q in a formula, for other joints only:\n"
        "    lambda q: np.diag(q) if len(q) == 1 else np.zeros((len(q), len(q)))"
    )


def _differences(one: Row, other: Row) -> str:
    """A line for everything in which two custom rows of the same name differ."""
    fields = ("symbol", "latex", "takes", "gives", "symmetric", "meaning", "source")
    pairs = [(name, getattr(one, name), getattr(other, name)) for name in fields]
    out = [f"{name}: {x!r} in one, {y!r} in the other" for name, x, y in pairs if x != y]
    value: Any = one.value
    twin: Any = other.value
    if value != twin:
        if isinstance(value, ConstantBlocks) and isinstance(twin, ConstantBlocks):
            out += value.differences(twin)
        else:
            texts = [_words(x) for x in (value, twin)]
            out.append(f"one is {texts[0]}, the other is {texts[1]}")
            if texts[0] == texts[1]:
                out[-1] = f"{texts[0]}: {_other_steps(value, twin)}"
    if one.inverse_value != other.inverse_value:
        out.append("the inverses that are given")
    return "\n".join(f"    {line}" for line in out)


def _words(value: Any) -> str:
    return value.words if isinstance(value, ConstantBlocks) else shown(value)


def _other_steps(x: Any, y: Any) -> str:
    """The difference of two expressions that are printed alike."""
    for a, b in zip((x, *x.args), (y, *y.args), strict=False):
        if hasattr(a.function, "differences") and a.function != b.function:
            return a.function.differences(b.function)
    return "they contain different operators of one name"


def row_named(name: str, expressions: tuple[Expr, ...]) -> Row | None:
    """The row with this name: of the catalogue, of a feature, or custom in the expressions."""
    return CATALOGUE.get(name) or REGISTERED.get(name) or own_rows(expressions).get(name)


def inputs_of(expressions: Iterable[Expr], given: Collection[str] = ()) -> tuple[str, ...]:
    """The names of the inputs q, v, … that the expressions read, in the fixed order.

    >>> from phipsi.operators import mass_matrix, tau
    >>> inputs_of([mass_matrix.inv @ tau])
    ('q', 'tau')
    """
    needed = {name for x in expressions for name in needs_of(x, frozenset(given))}
    return tuple(name for name in INPUT_ORDER if name in needed)


@lru_cache(maxsize=2**14)
def needs_of(x: Expr, given: frozenset[str] = frozenset()) -> frozenset[str]:
    """The names of the inputs that an expression depends on, and "inertia" if M is in it."""
    needed: set[str] = set()
    seen: set[Expr] = set()
    stack = list(leaves_of(x))
    while stack:
        y = stack.pop()
        if y in seen or y.name in given:
            continue
        seen.add(y)
        meaning = definition(y)
        if meaning is not None:
            stack.extend(leaves_of(meaning))
            continue
        needed.update(("q",) if y.args and not y.row.riccati else y.row.needs + y.row.varies)
        if not y.args:
            stack.extend(arguments_of(y))
        if y.row.riccati and not y.args:
            stack.extend(leaves_of(H @ phi @ M))
    return frozenset(needed)


def operands_of(expressions: Iterable[Expr]) -> list[Expr]:
    """The leaves among the expressions that stand for the operand."""
    found = {y: None for x in expressions for y in leaves_of(x) if y.name == "operand"}
    return sorted(found, key=str)


def check_pairs(x: Expr) -> None:
    """Reject a of one pair with b of the other: the sum would not be an equation of motion."""
    names = {leaf.name for leaf in leaves_of(x)}
    papers, body = names & {"a_paper", "b_paper"}, names & {"a", "b"}
    if papers and body:
        raise SpaceError(
            f"{shown(x)} mixes {', '.join(sorted(papers))} (the papers' pair) with "
            f"{', '.join(sorted(body))} (the body-frame pair).\n"
            "The two pairs differ by a gauge term that cancels only between a and b of the same "
            "pair. Use a with b, or a_paper with b_paper."
        )
