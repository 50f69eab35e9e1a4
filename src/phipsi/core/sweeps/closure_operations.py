"""The operations at closures: rows of constraints at their frames, and how they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phipsi.core.model import (
    LawForm,
    closure_row,
    closure_row_along,
    closure_row_rate,
    relative_twist,
)
from phipsi.core.sweeps.arithmetic import Arithmetic, Block
from phipsi.core.sweeps.entries import (
    Entry,
    identity,
    matmul,
    matvec,
    mul,
    neg,
    plus,
    transpose_rows,
    with_each,
)
from phipsi.core.sweeps.ir import EACH, Domain, Field, Kind, Naming, Operation, Reads, Variant


def relative(a: Arithmetic, x: Field) -> Block:
    """The frame of the mate, seen from that of this point."""
    turn, arm = a.frame_in_world(x.args[0])
    other, there = a.at_mate(lambda: a.frame_in_world(x.args[0]))
    back = transpose_rows(turn)
    gap = plus(there, [neg(c) for c in arm])
    return a.rigid_block(matmul(back, other), matvec(back, gap))


def twist(a: Arithmetic, x: Field) -> Block:
    """How the mate moves, seen from the frame of this point."""
    turn, arm = a.rigid(x.args[0])
    own, other = a.column(x.args[1]), a.column(x.args[2])
    return a.dense([[c] for c in relative_twist(turn, arm, own, other)])


def row(a: Arithmetic, x: Field) -> Block:
    """The constraint row at this link."""
    turn, arm = a.rigid(x.args[0])
    form, side, numbers = a.link
    if isinstance(form, LawForm):
        slope = form.law.slope(form.slot, a.entries_at("q", form.places), (), a)
        return a.dense([[mul(slope, c)] for c in numbers])
    return a.dense([[c] for c in closure_row(form, side, turn, arm, numbers, a.sqrt)])


def _plain_link(a: Arithmetic) -> tuple[str, int, list[Entry]]:
    """The link without what its law adds, which `law_rate` has."""
    form, side, numbers = a.link
    return "body" if isinstance(form, LawForm) else form, side, numbers


def row_rate(a: Arithmetic, x: Field) -> Block:
    """How the row changes with a relative motion."""
    (turn, arm), motion = a.rigid(x.args[0]), a.column(x.args[1])
    form, side, numbers = _plain_link(a)
    found = closure_row_rate(form, side, turn, arm, motion, numbers, a.sqrt)
    return a.dense([[c] for c in found])


def _ends(a: Arithmetic, x: Field) -> list[Any]:
    """Pairs of motions, of the frame and of its mate."""
    columns = [a.column(y) for y in x.args[1:]]
    return list(zip(columns[::2], columns[1::2], strict=False))


def _row_along(a: Arithmetic, x: Field, motions: list[Any]) -> list[Entry]:
    turn, arm = a.rigid(x.args[0])
    form, side, numbers = _plain_link(a)
    return closure_row_along(form, side, turn, arm, motions, numbers, a.sqrt)


def row_along(a: Arithmetic, x: Field) -> Block:
    """The row differentiated along motions."""
    return a.dense([[c] for c in _row_along(a, x, _ends(a, x))])


def row_variation(a: Arithmetic, x: Field) -> Block:
    """How the row changes with the motion of one end."""
    data: Any = x.data
    given, (place, end) = _ends(a, x), data
    still = [0] * 6
    free = [(unit, still) if end == 0 else (still, unit) for unit in identity(6)]
    columns = [_row_along(a, x, way) for way in with_each(given, place, free)]
    if len(x.args) % 2 == 0:  # multiplied by the component of a force
        (times,) = a.column(x.args[-1])
        columns = [[mul(times, c) for c in column] for column in columns]
    return a.dense(transpose_rows(columns))


def law_place(a: Arithmetic, x: Field) -> Block:
    """The motion of this frame → its part of the rates of the coordinates of a law."""
    form, _, numbers = a.link
    slot = form.slot if isinstance(form, LawForm) else -1
    return a.dense([[*numbers] if i == slot else [0] * 6 for i in range(6)])


def _law_directions(a: Arithmetic, form: LawForm, fields: Sequence[Field]) -> list[list[Entry]]:
    return [list(a.column(y))[: form.law.size] for y in fields]


def law_rate(a: Arithmetic, x: Field) -> Block:
    """How the row of a law changes along rates of its coordinates."""
    form, _, numbers = a.link
    if not isinstance(form, LawForm):
        return a.zeros(x)
    along = _law_directions(a, form, x.args)
    slope = form.law.slope(form.slot, a.entries_at("q", form.places), along, a)
    return a.dense([[mul(slope, c)] for c in numbers])


def law_sway(a: Arithmetic, x: Field) -> Block:
    """How the row of a law changes with each of its coordinates, along the rates given.

    If the data say so, it is multiplied by the first argument, the component of a force.
    """
    form, _, numbers = a.link
    if not isinstance(form, LawForm):
        return a.zeros(x)
    first: Any = x.data
    along = _law_directions(a, form, x.args[first:])
    steep = form.law.steepness(form.slot, a.entries_at("q", form.places), along, a)
    if first:
        (times,) = a.column(x.args[0])
        numbers = [mul(times, c) for c in numbers]
    return a.dense([[mul(c, s) for s in form.padded(steep)] for c in numbers])


# ---- rows of the table ---------------------------------------------------------------------------

_LINK: dict[str, Any] = {"domain": Domain.LINK, "rows": "6", "variant": Variant.LINK, "cost": 6}

Operation(
    "relative", "φ(frame, mate) of a closure", body=relative, domain=Domain.POINT, rows="6",
    cols="6", kind=Kind.RIGID, reads=Reads.FRAMES, cost=105, naming=Naming.ALWAYS,
)  # fmt: skip
Operation(
    "relative_twist", "how the mate moves, seen from a frame", body=twist, rows="6", cols="1",
    cost=45,
)  # fmt: skip


def _at_link(name: str, meaning: str, body: Any, cols: str, linear: Sequence[int] = ()) -> None:
    Operation(name, meaning, body=body, **_LINK, cols=cols, linear=linear)


_at_link("closure_row", "a constraint row at one frame", row, "1")
_at_link("closure_row_rate", "how a row changes with a relative motion", row_rate, "1", (1,))
_at_link("closure_row_along", "a row differentiated along motions", row_along, "1", EACH[1:])
_at_link(
    "closure_sway", "how a row changes with the motion of one end", row_variation, "6", EACH[1:]
)
_at_link("law_place", "the motion of a frame → rates of coordinates", law_place, "6")
_at_link("law_rate", "the row of a law differentiated along rates", law_rate, "1", EACH)
_at_link("law_sway", "how the row of a law changes with coordinates", law_sway, "6", EACH)
