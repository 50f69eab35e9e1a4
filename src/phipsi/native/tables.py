"""Model constants for generated code, with every body in a frame in which its joint is simple.

Axes are rotated onto z (planar joints onto x, y), so that the code of a joint type has no axis in
it and multiplies by no component that is known to be 0 or 1. Values that users see in body axes are
rotated back when they are read or written.

Reasons: docs/decisions/0018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from phipsi.core.backends import outboard_sizes
from phipsi.core.expressions import ONE
from phipsi.core.model import (
    NO_CLOSURES,
    ClosureSet,
    FlexibleHinge,
    Joint,
    LawForm,
    Model,
    ParamKind,
    PointSet,
    rate_rows_of,
)
from phipsi.core.operators import ConstantBlocks
from phipsi.native.matrices.loop_row_order import RowOrder, row_order

# layout of a body's constants
PLACEMENT, INERTIA, TURN, TURN_ABOVE, ARMATURE, SIZES, PARAMS = 0, 12, 22, 31, 40, 46, 48
HEAD = 3  # words of a body before shared rows
# layout of a body's integers
# TOP: no joint above it moves. OLD_SUM and SUM: the records in which the sum of the children of its
# parent is found when this child adds to it, and that of its own children; the last record is zero
PARENT, KIND, Q_OFFSET, V_OFFSET, V_END, V_SUBTREE, HUB, ON_HUB, TOP = range(9)
OLD_SUM, SUM, N_INTEGERS = range(9, 12)
# integers of a point, of a link and of a constraint row
POINT_BODY, POINT_MATE, POINT_CHOSEN, N_POINT_INTEGERS = range(4)
LINK_POINT, LINK_ROW, LINK_KIND, N_LINK_INTEGERS = range(4)
N_POINT_NUMBERS, N_LINK_NUMBERS = 12, 6
_RIGHT = 1e-14  # how far from right the angle of an axis and a vector may be


@dataclass(frozen=True)
class JointCode:
    """The properties in which the code of one joint type differs from another.

    `params` holds the numbers that are known when the code is written; None stands for a number
    from the model's table. `rows` are those of the body beyond six, `parent_rows` those of its
    parent; `modes` and `port_modes` say how many of them are modes, `port_places` how many
    coordinates the latter have. `placed` is false if the joint is known to sit in the frame it is
    given in: on the port itself. `first` is true if no other child of its parent is known to have
    added to a sum before. Joints with the same `key` share their code.
    """

    key: tuple[str, tuple[int | None, ...]]
    joint: Joint
    nq: int
    nv: int
    params: tuple[int | None, ...]
    modes: int = 0
    port_modes: int = 0
    port_places: int = 0
    rows: int = 0
    parent_rows: int = 0
    placed: bool = True
    first: bool = False


@dataclass(frozen=True, eq=False)
class Tables:
    """The constants of one model: of bodies, points, gravity, links and constraint rows.

    `link_codes` are the pieces of code that links need: (form, side). `selections` are the names of
    the sets of bodies that points are marked with, bit by bit. `own` says where the constant blocks
    of custom operators begin: in the row of a body, or for custom scalars behind gravity; there
    the rows of points follow, `own_columns` numbers for each, where those at points begin. `shared`
    is `doubles` with equal rows once, if that is how code finds them (`shared_rows`).
    """

    codes: tuple[JointCode, ...]
    link_codes: tuple[tuple[str | LawForm, int], ...]
    selections: tuple[str, ...]
    integers: np.ndarray
    doubles: np.ndarray
    point_integers: np.ndarray
    point_doubles: np.ndarray
    gravity: np.ndarray
    link_integers: np.ndarray
    link_doubles: np.ndarray
    rows: RowOrder
    rows_with_hubs: RowOrder
    own: dict[ConstantBlocks, int]
    own_columns: int
    shared: np.ndarray | None = None

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The tables in the order of the data record."""
        return (
            self.integers, self.doubles, self.point_integers, self.point_doubles, self.gravity,
            self.link_integers, self.link_doubles, self.rows_with_hubs.hubs,
        )  # fmt: skip


def joint_codes(model: Model, *, more_rows: bool = True, fields: int = 0) -> tuple[JointCode, ...]:
    """The joint types of a model, one entry for each piece of code they need.

    `more_rows`: blocks of bodies may have more than six rows; `fields`, how many a piece computes.
    """
    found = {code.key: code for code in _codes(model, more_rows, fields)}
    return tuple(found[key] for key in sorted(found, key=str))


_BYTES = 80  # of code, for a field and a type of joints
_ROOM = 24 << 10  # for code that runs in turns: what the fastest memory has besides other code


def _codes(model: Model, more_rows: bool, fields: int) -> list[JointCode]:
    """The code of every joint; if that is too much, joints without rate rows share it."""
    six_rows = not (more_rows or model.is_flexible)
    joints = list(map(_of_six_rows, model.joints)) if six_rows else list(model.joints)
    out = [_code(model, k, joint, six_rows) for k, joint in enumerate(joints)]
    if not six_rows or _BYTES * fields * len({code.key for code in out}) < _ROOM:
        return out
    return [_code(model, k, joint, six_rows) for k, joint in enumerate(_shared(joints))]


def _shared(joints: list[Joint]) -> list[Joint]:
    """The joints, with rate rows whose numbers are zero where others of the same type have some.

    They cost little more, and less than code that does not stay in the fastest memory.
    """
    known = {_type(x.joint): x.rate_rows for x in joints if _is_shared(x)}
    shared = [
        None if isinstance(x, FlexibleHinge) or x.aligned is None else known.get(_type(x))
        for x in joints
    ]
    pairs = zip(joints, shared, strict=True)
    return [x if rows is None else FlexibleHinge(x, None, None, rows) for x, rows in pairs]


def _is_shared(joint: Joint) -> TypeGuard[FlexibleHinge]:
    """True for a joint with rate rows that cost little, also where their numbers are zero."""
    rows = rate_rows_of(joint)
    return rows is not None and rows.aligned is not None


def _type(joint: Joint) -> tuple[str, int]:
    return joint.formulas, len(joint.params)


def _of_six_rows(joint: Joint) -> Joint:
    """The joint of a body of six rows, whatever rows its parent has."""
    if not isinstance(joint, FlexibleHinge):
        return joint
    inner, rows = joint.joint, joint.rate_rows
    return inner if rows is None else FlexibleHinge(inner, None, None, rows)


_ALIGNED: dict[ParamKind, tuple[int, ...]] = {
    "axis": (0, 0, 1),
    "frame": (0, 0, 1, 1, 0, 0, 0, 1, 0),
}


def _code(model: Model, k: int, joint: Joint, six_rows: bool) -> JointCode:
    """The code of a joint; the components of its aligned axes are known, the rest is in tables."""
    known: list[int | None] = []
    for i, (kind, values) in enumerate(joint.blocks_of_params()):
        known += _ALIGNED[kind] if i == joint.aligned else _along_frame(joint, kind, values)
    if isinstance(joint, FlexibleHinge) and _above(joint) is not None:
        known[joint.own_start + 1 : joint.own_start + 3] = 0, 0  # along x
    more: tuple[int, int, int, int, int, bool, bool] = (0, 0, 0, 0, 0, True, False)
    formulas = joint.formulas
    if isinstance(joint, FlexibleHinge):
        turn, arm = _placement(model, k, _turn(joint), _turn_above(model, k))
        placed = six_rows or bool(arm.any() or (turn != np.eye(3)).any())
        above = model.parent[k]
        first = six_rows if above < 0 else model.tree.children[above][-1] == k
        rows = joint.rows, joint.parent_rows
        more = joint.modes, joint.port_modes, joint.port_places, *rows, placed, first
        formulas += ("" if placed else ", in place") + (", first" if first else "")
    key = formulas, tuple(known)
    return JointCode(key, joint, joint.nq, joint.nv, tuple(known), *more)


def _along_frame(joint: Joint, kind: ParamKind, values: Sequence[float]) -> Sequence[int | None]:
    """What is known of axes that are not rotated: those of a flexible body, if along its frame.

    The frame of such a body stays, because in it most of its numbers are zero.
    """
    in_frame = kind == "axis" and isinstance(joint, FlexibleHinge) and joint.aligned is None
    if not in_frame or any(x not in (-1.0, 0.0, 1.0) for x in values):
        return [None] * len(values)
    return [int(x) for x in values]


def _placement(
    model: Model, k: int, turn: np.ndarray, above: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rotation and translation of the placement of joint k between simple frames."""
    rotation = above.T @ model.placement_rotations[k] @ turn
    return rotation, above.T @ model.placement_translations[k]


def _turn_above(model: Model, k: int) -> np.ndarray:
    """The rotation from the simple frame of the parent to its own."""
    parent = model.parent[k]
    return np.eye(3) if parent < 0 else _turn(model.joints[parent])


def _turn(joint: Joint) -> np.ndarray:
    """Rotation from the simple frame to the body frame: its z column is the axis."""
    if joint.aligned is None:
        return np.eye(3)
    kind, values = joint.blocks_of_params()[joint.aligned]
    if kind == "frame":
        n, e1, e2 = np.reshape(values, (3, 3))
        return np.column_stack([e1, e2, n])
    above = _above(joint)
    if above is None:
        return _frame(np.array(values))
    x, z = above / np.linalg.norm(above), np.array(values)
    return np.column_stack([x, np.cross(z, x), z])


def _above(joint: Joint) -> np.ndarray | None:
    """The first vector of rate rows across the axis of their joint, which is rotated onto x."""
    if not _is_shared(joint) or joint.rate_rows is None or joint.aligned is None:
        return None
    above, (_, axis) = np.array(joint.rate_rows.aligned), joint.blocks_of_params()[joint.aligned]
    size = np.linalg.norm(above)
    return above if len(axis) == 3 and abs(above @ axis) < _RIGHT * size else None


def _table_params(joint: Joint, turn: np.ndarray) -> list[float]:
    """The parameters of a joint for the table, axes in the simple frame."""
    out: list[float] = []
    for i, (kind, values) in enumerate(joint.blocks_of_params()):
        rotated = kind == "axis" and joint.aligned not in (None, i)
        out += list(turn.T @ values) if rotated else list(values)
    return out


def _frame(z: np.ndarray) -> np.ndarray:
    if np.array_equal(z, (0.0, 0.0, 1.0)):
        return np.eye(3)
    helper = np.eye(3)[np.argmin(np.abs(z))]
    x = np.cross(helper, z)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def model_tables(
    model: Model,
    points: PointSet,
    own: Sequence[ConstantBlocks] = (),
    dtype: str = "f8",
    *,
    more_rows: bool = True,
    fields: int = 0,
) -> Tables:
    """The tables of a model, its points, and the constant blocks of custom operators.

    `dtype` is what the numbers are rounded to; `more_rows` and `fields` as for `joint_codes`.
    """
    codes = joint_codes(model, more_rows=more_rows, fields=fields)
    turns = [_turn(j) for j in model.joints]
    closures = points.closures or NO_CLOSURES
    with_hubs = row_order(model, closures, with_hubs=True)
    names = closures.names_of_selections
    links, link_codes = _links(closures)
    doubles, world = _doubles(model, turns), np.concatenate([np.zeros(3), -model.gravity])
    places: dict[ConstantBlocks, int] = {}
    at_points = [np.zeros((len(points), 0))]
    for table in own:
        if table.of_points:
            at_points.append(_own_at_points(model, table, len(points)))
        elif table.gives is ONE:
            places[table] = len(world)
            world = np.append(world, table.at(model, 0))
        else:
            places[table] = doubles.shape[1]
            doubles = np.hstack([doubles, _own_blocks(model, table, turns)])
    rows_of_points = np.hstack(at_points)
    start = len(world)
    for table, blocks in zip((x for x in own if x.of_points), at_points[1:], strict=True):
        places[table], start = start, start + blocks.shape[1]
    world = np.append(world, rows_of_points)
    return Tables(
        codes,
        link_codes,
        names,
        _integers(model, codes, with_hubs, _codes(model, more_rows, fields)),
        doubles.astype(dtype, copy=False),
        _point_integers(points, closures, names),
        _point_doubles(points, turns).astype(dtype, copy=False),
        world.astype(dtype, copy=False),
        links,
        np.ascontiguousarray(closures.link_constant, dtype=dtype),
        row_order(model, closures, with_hubs=False),
        with_hubs,
        places,
        rows_of_points.shape[1],
        shared_rows(doubles) if model.is_flexible and dtype == "f8" else None,
    )


def shared_rows(doubles: np.ndarray) -> np.ndarray | None:
    """The table of bodies with equal rows once, or None if most of them differ.

    First come HEAD words for each body: where its row begins, in bytes, and its SIZES, in which
    segments of a cable differ although nothing else does. Ten thousand of them then read one row,
    which stays in the fastest memory.
    """
    rows = doubles.copy()
    rows[:, SIZES:PARAMS] = 0.0
    different, which = np.unique(rows.view(np.int64), axis=0, return_inverse=True)  # 0 is not −0
    n, width = rows.shape
    if 2 * len(different) > n:
        return None
    heads = np.zeros((n, HEAD))
    heads.view(np.int64)[:, 0] = heads.itemsize * (HEAD * n + width * which.reshape(-1))
    heads[:, 1:] = doubles[:, SIZES:PARAMS]
    return np.concatenate([heads.ravel(), different.view(np.float64).ravel()])


def _own_blocks(model: Model, table: ConstantBlocks, turns: list[np.ndarray]) -> np.ndarray:
    """The numbers of constant blocks in the simple frames, in the order of `BodyCode._table`."""
    rows: list[np.ndarray] = []
    for k, turn in enumerate(turns):
        block = table.at(model, k)
        both = np.kron(np.eye(2), turn)
        block = both.T @ block if table.gives.width == 6 else block
        block = block @ both if table.takes.width == 6 else block
        if table.is_inertia:
            first = block[2, 4], block[0, 5], block[1, 3]
            rows.append(np.array([block[5, 5], *first, *block[:3, :3][np.tril_indices(3)]]))
        else:
            rows.append(block[np.tril_indices(len(block))] if table.symmetric else block.ravel())
    widest = max(map(len, rows), default=0)
    return np.array([np.pad(row, (0, widest - len(row))) for row in rows]).reshape(-1, widest)


def _own_at_points(model: Model, table: ConstantBlocks, count: int) -> np.ndarray:
    """The numbers of a custom operator at the points, in the axes of the points."""
    blocks = [table.at_point(model, i, count) for i in range(count)]
    lower = np.tril_indices(6)
    rows = [block[lower] if table.symmetric else block.ravel() for block in blocks]
    return np.array(rows).reshape(count, len(rows[0]) if rows else 0)


def _integers(
    model: Model, codes: Sequence[JointCode], hubs: RowOrder, own: Sequence[JointCode]
) -> np.ndarray:
    kinds = {code.key: i for i, code in enumerate(codes)}
    out = np.zeros((model.n_bodies, N_INTEGERS), dtype=np.int64)
    number = {int(body): i for i, body in enumerate(hubs.hubs)}
    for k in range(model.n_bodies):
        kind, parent = kinds[own[k].key], model.parent[k]
        qs, vs = model.q_slices[k], model.v_slices[k]
        hub, on_hub = number.get(k, -1), int(parent in number)
        last = model.v_slices[model.tree.subtree(k)[-1]].stop  # bodies are numbered depth first
        top = parent < 0 or (out[parent, TOP] and model.joints[parent].nv == 0)
        out[k, :OLD_SUM] = parent, kind, qs.start, vs.start, vs.stop, last, hub, on_hub, top
    out[:, OLD_SUM], out[:, SUM] = _sums(model)
    return out


def _doubles(model: Model, turns: list[np.ndarray]) -> np.ndarray:
    widest = max((len(j.params) for j in model.joints), default=0)
    out = np.zeros((model.n_bodies, PARAMS + widest))
    out[:, SIZES:PARAMS] = outboard_sizes(model)
    for k, joint in enumerate(model.joints):
        row, c, m, parent = out[k], turns[k], model.inertia_matrices[k], model.parent[k]
        above = np.eye(3) if parent < 0 else turns[parent]
        turn, row[9:12] = _placement(model, k, c, above)
        row[:9] = turn.ravel()
        first = c.T @ np.array([m[2, 4], m[0, 5], m[1, 3]])  # m p from the corner m p~
        moment = c.T @ m[:3, :3] @ c
        lower = moment[0, 0], moment[1, 0], moment[1, 1], *moment[2]
        row[INERTIA : INERTIA + 10] = m[5, 5], *first, *lower
        row[TURN : TURN + 9], row[TURN_ABOVE : TURN_ABOVE + 9] = c.ravel(), above.ravel()
        rotors = model.armature[model.v_slices[k]][: joint.nv - model.modes[k]]
        row[ARMATURE : ARMATURE + len(rotors)] = rotors
        row[PARAMS : PARAMS + len(joint.params)] = _table_params(joint, c)
    return out


def _point_integers(
    points: PointSet, closures: ClosureSet, selections: tuple[str, ...]
) -> np.ndarray:
    """Body and mate of every point, and the selections that it belongs to, bit by bit."""
    where = np.array(points.body, dtype=np.int64).reshape(-1)
    mate = closures.mate if len(closures) else np.arange(len(points))
    chosen = np.zeros(len(points), dtype=np.int64)
    for bit, name in enumerate(selections):
        chosen |= closures.selected(name).astype(np.int64) << bit
    return np.column_stack([where, mate, chosen])


def _sums(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """OLD_SUM and SUM of every body: nothing is there before the first child, from the tips."""
    n = model.n_bodies
    parent = np.array(model.parent, dtype=np.int64).reshape(-1)
    old, own = parent + 1, np.full(n, n + 1)
    for k in reversed(range(n)):
        if parent[k] >= 0 and own[parent[k]] > n:  # the first to add
            old[k], own[parent[k]] = n + 1, parent[k] + 1
    return old, own


def _links(closures: ClosureSet) -> tuple[np.ndarray, tuple[tuple[str | LawForm, int], ...]]:
    """Point, row and kind of every link; the kinds."""
    side: Sequence[int] | np.ndarray = closures.side[closures.link_point] if len(closures) else ()
    kinds = [(form, int(s)) for form, s in zip(closures.link_form, side, strict=True)]
    codes = tuple(sorted(set(kinds), key=repr))
    out = np.zeros((len(kinds), N_LINK_INTEGERS), dtype=np.int64)
    out[:, LINK_POINT], out[:, LINK_ROW] = closures.link_point, closures.link_row
    out[:, LINK_KIND] = [codes.index(kind) for kind in kinds]
    return out, codes


def _point_doubles(points: PointSet, turns: list[np.ndarray]) -> np.ndarray:
    """Offset (3) and frame (9) of every point in the simple frame of its body."""
    out = np.zeros((len(points), N_POINT_NUMBERS))
    for i, body in enumerate(points.body):
        c = turns[body] if body >= 0 else np.eye(3)
        out[i, :3] = c.T @ points.offset[i]
        out[i, 3:] = (c.T @ points.rotation[i]).ravel()
    return out
