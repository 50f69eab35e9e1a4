"""Arithmetic on arrays: what the reference backend computes at one body, point, link or row.

Generic over the scalar: float64, complex128 (never conjugated) and object arrays (SymPy symbols
give closed forms, mpmath numbers any precision). Every block is an ordinary dense array with the
batch on leading axes; the structure a block is known to have is for other backends to exploit. An
entry keeps an axis of length one at its end, the column, so that columns are computed side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, final

import numpy as np

from phipsi.core import spatial
from phipsi.core.backends.array_algebra import (
    FUNCTIONS,
    OBJECTS,
    exchanged_pivots,
    generic_cholesky,
    generic_inverse,
)
from phipsi.core.backends.errors_from_status import BLOCK, HINGE, Failure, outboard_sizes
from phipsi.core.backends.rank_limits import CANCELLED_TOLERANCE, HINGE_TOLERANCE
from phipsi.core.backends.storage_layout import read_input, space_blocks
from phipsi.core.expressions import space_named, space_size
from phipsi.core.model import NO_CLOSURES, LawForm, Model, PointSet
from phipsi.core.spatial import ARRAYS, SERIES_BELOW, polynomial
from phipsi.core.sweeps import (
    Domain,
    Field,
    Kind,
    Rows,
    cross_matrix,
    full,
    gyration_rows,
    identity,
    inertia_parts,
    inertia_rows,
    is_zero,
    matmul,
    matvec,
    plus,
    space_of,
    turning_rows,
)

Array = np.ndarray
_WORLD = Domain.WORLD
_NOTHING = np.zeros(())  # an array is added faster than a number


def flipped(block: Array) -> Array:
    """The transpose of every block."""
    return block.swapaxes(-1, -2)


def is_nothing(block: Array) -> bool:
    """True for the 1 × 1 zero that stands for a block of zeros on a path."""
    return block.shape == (1, 1) and not block.any()


@final
class _RigidBlock(np.ndarray[Any, Any]):
    """[[R, l~ R], [0, R]] of symbols, with the arm l (..., 3, 1) that it was made of.

    In numbers the arm is l~ R R*. Of symbols that would be three products more in every entry,
    which no simplification is sure to undo. Parts and sums of such a block have no arm.
    """

    arm: Array | None = None


class ArrayArithmetic:
    """The `Arithmetic` of the bodies of operations at place `k`.

    `values[field]` is one array per body or per point, or one in all; on paths, for every seed the
    blocks of the bodies on its path. Operations without a body have methods here, by name.
    """

    def __init__(
        self,
        model: Model,
        points: PointSet,
        inputs: Mapping[str, Array],
        batch: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        self.model, self.points, self.inputs = model, points, inputs
        self.batch, self.dtype = batch, dtype
        self.closures = points.closures or NO_CLOSURES
        self.is_object = dtype.kind == "O"
        kind: Any = OBJECTS if self.is_object else ARRAYS
        self.sin, self.cos, self.sqrt = kind.sin, kind.cos, kind.sqrt
        self.entrywise = OBJECTS.entrywise
        self.failures: list[Failure] = []
        self.values: dict[Field, Any] = {}
        self.k = 0
        self.on_path = False
        self.seed, self.start, self.previous = 0, 0, -1  # of a path; where it starts; body before
        self.children = model.tree.children

    def computed(self, x: Field) -> Callable[[Field], Any]:
        """What computes the block of x, from the blocks of its arguments at the place."""
        body = x.operation.body
        return getattr(self, "_" + x.op) if body is None else partial(body, self)

    # -- values of fields --------------------------------------------------------------------------

    def value(self, x: Field) -> Array:
        """The block of x here: `_at`, written out where it is asked millions of times."""
        values, type_ = self.values[x], x.type
        if type_.domain is _WORLD:
            return values
        return values[self.seed][self.k] if type_.cols == "p" else values[self.k]

    def _at(self, x: Field, k: int) -> Array:
        values, type_ = self.values[x], x.type
        if type_.domain is _WORLD:
            return values
        return values[self.seed][k] if type_.cols == "p" else values[k]

    def rows(self, x: Field) -> Rows:
        """All entries of a block."""
        return self.entries(self.value(x))

    def column(self, x: Field) -> list[Any]:
        """The entries of the first column."""
        return self._numbers(self.value(x)[..., 0])

    @staticmethod
    def _numbers(a: Array) -> list[Any]:
        """The entries along the last axis, each with an axis of length one."""
        return [a[..., i : i + 1] for i in range(a.shape[-1])]

    @staticmethod
    def entries(block: Array) -> Rows:
        """All entries of a block that is not that of a field."""
        rows, columns = block.shape[-2:]
        return [[block[..., i, j : j + 1] for j in range(columns)] for i in range(rows)]

    def rigid(self, x: Field) -> tuple[Rows, list[Any]]:
        """R and l of [[R, l~ R], [0, R]]."""
        return self.rigid_parts(self.value(x))

    def rigid_parts(self, block: Array) -> tuple[Rows, list[Any]]:
        """R and l of [[R, l~ R], [0, R]] that is not the block of a field."""
        turn = block[..., :3, :3]
        if (arm := getattr(block, "arm", None)) is not None:
            return self.entries(np.asarray(turn)), [arm[..., i, :] for i in range(3)]
        lever = block[..., :3, 3:] @ flipped(turn)
        return self.entries(turn), [lever[..., 2, 1:2], lever[..., 0, 2:3], lever[..., 1, 0:1]]

    def inertia(self, x: Field) -> tuple[Any, list[Any], Rows]:
        """m, h and J of [[J, h~], [−h~, m]]."""
        return inertia_parts(self.rows(x))

    def by_column(self, x: Field, make: Callable[[Any], list[Any]]) -> Array:
        """The block whose columns are computed from those of x, all at once."""
        block = self.value(x)
        made = make([block[..., i, :] for i in range(block.shape[-2])])
        out = self._empty(len(made), block.shape[-1])
        for i, row in enumerate(made):
            out[..., i, :] = row
        return out

    # -- blocks ------------------------------------------------------------------------------------

    def _empty(self, rows: int, columns: int) -> Array:
        return np.zeros((*self.batch, rows, columns), dtype=self.dtype)

    def dense(self, rows: Sequence[Sequence[Any]], columns: int = 0) -> Array:
        """A block of entries."""
        out = self._empty(len(rows), len(rows[0]) if rows else columns)
        for i, row in enumerate(rows):
            for j, entry in enumerate(row):
                if not (isinstance(entry, int) and entry == 0):
                    out[..., i, j : j + 1] = entry
        return out

    def symmetric(self, lower: Sequence[Any], n: int) -> Array:
        """A symmetric block, from its lower half."""
        return self.dense(full(lower, n), n)

    def rigid_block(self, turn: Rows, arm: Sequence[Any]) -> Array:
        """[[R, l~ R], [0, R]]."""
        out, axes = self._empty(6, 6), self.dense(turn)
        out[..., :3, :3] = out[..., 3:, 3:] = axes
        if not all(is_zero(c) for c in arm):
            out[..., :3, 3:] = self.dense(cross_matrix(arm)) @ axes
        return out if not self.is_object else _with_arm(out, self.dense([[c] for c in arm]))

    def step_block(self, turn: Rows, arm: Sequence[Any], modal: Rows, n: int) -> Array:
        """[[R, l~ R, 0], [0, R, 0], [Q* diag(R, R), 0]]."""
        out = self._empty(6 + len(modal), 6 + n)
        out[..., :6, :6] = self.rigid_block(turn, arm)
        if modal:
            axes, rows = self.dense(turn), self.dense(modal)
            out[..., 6:, :3] = self._product(rows[..., :3], axes)
            out[..., 6:, 3:6] = self._product(rows[..., 3:], axes)
        return out

    def inertia_block(self, entries: Sequence[Any]) -> Array:
        """[[J, h~], [−h~, m]] from m, h and the lower half of J."""
        return self.dense(inertia_rows(entries))

    def turning_block(self, rows: Sequence[Sequence[Any]]) -> Array:
        """[A, 0] with three columns of zeros."""
        return self.dense(turning_rows(rows), 6)

    def gyration_block(self, entries: Sequence[Any]) -> Array:
        """[[A, 0], [−p~, 0]] from A, row by row, and p."""
        return self.dense(gyration_rows(entries))

    def zeros(self, x: Field, k: int | None = None) -> Array:
        """A block of zeros; one number stands for all of them on a path."""
        if x.type.cols == "p":
            return np.zeros((1, 1), dtype=self.dtype)
        k = self.k if k is None else k
        return self._empty(self.width(x.type.rows, k), self.width(x.type.cols, k))

    def eye(self, x: Field) -> Array:
        """The identity."""
        out = self.const(np.eye(self.width(x.type.rows, self.k)))
        is_arm = self.is_object and x.type.kind is Kind.RIGID
        return _with_arm(out, self.const(np.zeros((3, 1)))) if is_arm else out

    transpose = staticmethod(flipped)

    def times(self, left: Array, right: Array) -> Array:
        """A product."""
        if self.on_path and is_nothing(right):
            return right
        out = self._product(left, right)
        if not self.is_object:
            return out
        l, r = getattr(left, "arm", None), getattr(right, "arm", None)
        if l is None or r is None:
            return out
        return _with_arm(out, l + self._product(left[..., :3, :3], r))

    times_symmetric = times

    def congruence(self, a: Array, s: Array) -> Array:
        """A S A*."""
        return self._product(self._product(a, s), flipped(a))

    def combine(self, terms: Sequence[tuple[Any, Array]]) -> Array:
        """Σ cᵢ Xᵢ."""
        out: Any = 0 if self.is_object else _NOTHING
        for c, block in terms:
            if c == -1:
                out = out - block
            else:
                out = out + (block if c == 1 else self.number(c) * block)
        return out

    # -- scalars -----------------------------------------------------------------------------------

    @cached_property
    def _one(self) -> Any:
        """One, in the scalar type of the inputs."""
        objects = (a for a in self.inputs.values() if a.dtype == object and a.size)
        return next((1 + 0 * a.flat[0] for a in objects), 1)

    @cached_property
    def _product(self) -> Callable[[Array, Array], Array]:
        """The product of blocks: NumPy's, or that of numbers which know a faster one."""
        one: object = self._one
        return getattr(FUNCTIONS.get(type(one)), "matmul", np.matmul)

    def number(self, c: Any) -> Any:
        """A rational number or a float as an entry."""
        if not self.is_object:
            return float(c)
        if hasattr(c, "numerator"):
            return c.numerator / (c.denominator * self._one)
        return c * self._one

    def const(self, array: Array) -> Array:
        """A constant of the model in the scalar type of the inputs, so that no digits are lost."""
        out = np.asarray(array, dtype=self.dtype)
        return out * self._one if self.is_object else out

    def pick(self, s: Any, series: tuple[float, ...], closed: Callable[..., Any]) -> Any:
        """A power series in s, or the closed form beyond its range."""
        if not self.is_object:
            return ARRAYS.pick(s, series, closed)
        pairs = ((polynomial(series, x) if x < SERIES_BELOW else closed(x, self)) for x in s.flat)
        return np.array([*pairs, None], dtype=object)[:-1].reshape(s.shape)

    def scaled(self, entries: Sequence[Any]) -> list[Any]:
        """Entries times a power of two."""
        whole = np.stack(np.broadcast_arrays(*entries), axis=-1)
        return list(np.moveaxis(spatial.quat_scaled(whole), -1, 0))

    def largest(self, entries: Sequence[Any]) -> Any:
        """The largest absolute value; zero for scalars without an order."""
        if self.dtype != np.float64:
            return 0
        return np.max(np.abs(np.broadcast_arrays(*entries)), axis=0)

    def maximum(self, x: Any, y: Any) -> Any:
        """The larger of two."""
        return np.maximum(x, y) if self.dtype == np.float64 else 0

    # -- the model and the place -------------------------------------------------------------------

    def width(self, size: str, k: int) -> int:
        """Rows or columns of a block at k."""
        if size == "r":
            return self.model.joints[k].nv
        if size == "q":
            return self.model.joints[k].nq
        if size in ("b", "B", "m"):
            at = k if size == "b" else self.model.parent[k]
            if size == "m":
                return self.model.modes[at] if at >= 0 else 0
            return 6 + (self.model.more_rows[at] if at >= 0 else 0)
        if size == "c":
            return self.inputs["columns"].shape[0]
        if size.startswith("all:"):
            return space_size(space_of(size), self.model, self.points)
        return int(size)

    @property
    def joint(self) -> Any:
        """The joint of this body."""
        return self.model.joints[self.k]

    def params(self) -> list[Any]:
        """The parameters of the joint."""
        return self.joint.params

    def coordinates(self, name: str) -> list[Any]:
        """The part of q or v of the joint."""
        slices = self.model.q_slices if name == "q" else self.model.v_slices
        return self._numbers(self.inputs[name][..., slices[self.k]])

    def entries_at(self, name: str, places: Sequence[int]) -> list[Any]:
        """Numbers of q by their places, of whichever joints."""
        return self._numbers(self.inputs[name][..., list(places)])

    def parent_modes(self, name: str) -> list[Any]:
        """The modal coordinates or rates of the parent."""
        slices = self.model.q_slices if name == "q" else self.model.v_slices
        end = slices[self.model.parent[self.k]].stop
        count = self.joint.port_places if name == "q" else self.joint.port_modes
        return self._numbers(self.inputs[name][..., end - count : end])

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Made again: places change."""
        return make()

    def own_inertia(self) -> Array:
        """The constant inertia of this body."""
        return self.const(self.model.inertia_matrices[self.k])

    def placement(self) -> Array:
        """The frame of the joint in that of the parent, as a rigid transformation."""
        if self.dtype == np.float64:
            return placements_of(self.model)[self.k]
        turn = self.const(self.model.placement_rotations[self.k])
        origin = self.const(self.model.placement_translations[self.k])
        out = _placement(turn, origin)
        return out if not self.is_object else _with_arm(out, origin[:, None])

    def turn(self) -> Rows:
        """The rotation to the axes of the inertial parameters: they are those of the body."""
        return identity(3)

    @cached_property
    def _sizes(self) -> Array:
        return self.model.cached(outboard_sizes, lambda: outboard_sizes(self.model))

    def outboard_size(self, half: int) -> Any:
        """How large the inertias outboard are; zero for scalars without an order."""
        return self._sizes[self.k][half] if self.dtype == np.float64 else 0

    def point_offset(self) -> list[Any]:
        """Where this point is on its body."""
        return self.const(self.points.offset[self.k]).tolist()

    def point_turn(self) -> Rows:
        """The axes of this point on its body."""
        return self.const(self.points.rotation[self.k]).tolist()

    @property
    def link(self) -> tuple[str | LawForm, int, list[Any]]:
        """Form, side and constants of this link."""
        c, k = self.closures, self.k
        constants = self.const(c.link_constant[k]).tolist()
        return c.link_form[k], int(c.side[c.link_point[k]]), constants

    def frame_in_world(self, poses: Field) -> tuple[Rows, list[Any]]:
        """Rotation and position of this point's frame in the world."""
        turn, arm, body = self.point_turn(), self.point_offset(), self.points.body[self.k]
        if body < 0:
            return turn, arm
        axes, origin = self.rigid_parts(self.values[poses][body])
        return matmul(axes, turn), plus(origin, matvec(axes, arm))

    def at_mate(self, make: Callable[[], Any]) -> Any:
        """What `make` returns at the mate of this point."""
        here, self.k = self.k, int(self.closures.mate[self.k])
        out = make()
        self.k = here
        return out

    def at_root(self, root: Array, other: Array) -> Array:
        """One block at roots, another elsewhere."""
        return root if self.model.parent[self.k] < 0 else other

    # -- operations that read ----------------------------------------------------------------------

    def _input(self, x: Field) -> Array:
        return read_input(self.inputs[str(x.data)], x, self.k, self.model)

    def _seed(self, x: Field) -> Array:
        space = space_named(str(x.data))
        size = space_size(space, self.model, self.points)
        if space.index == "joint":
            return self.const(np.eye(size)[self.model.v_slices[self.k]])
        if x.type.rows == "b":
            return self.const(np.eye(size)[space_blocks(space, self.model, self.points)[self.k]])
        width = self.width(x.type.rows, self.k)
        return self.const(np.eye(size)[width * self.k : width * (self.k + 1)])

    def _path_seed(self, x: Field) -> Array:
        if self.k != self.start:
            return self.zeros(x)
        return self.values[x.args[0]][self.seed] if x.args else self.eye(x)

    def _M(self, x: Field) -> Array:
        return self.const(self.model.inertia_matrices[self.k])

    def _Jr(self, x: Field) -> Array:
        return self.const(np.diag(self.model.armature[self.model.v_slices[self.k]]))

    def _table(self, x: Field) -> Array:
        table: Any = x.data
        if table.of_points:
            return self.const(table.at_point(self.model, self.k, len(self.points)))
        return self.const(table.at(self.model, self.k))

    def _gravity(self, x: Field) -> Array:
        return self.const(np.concatenate([np.zeros(3), -self.model.gravity]))[:, None]

    def _unit_rate(self, x: Field) -> Array:
        hinge = self.model.v_slices[self.k]
        return self._unit(x, hinge.start, hinge.stop)

    def _unit_parameter(self, x: Field) -> Array:
        return self._unit(x, 10 * self.k, 10 * self.k + 10)

    def _unit(self, x: Field, start: int, stop: int) -> Array:
        return self.const((np.arange(start, stop) == x.data).astype(float))[:, None]

    def _selected(self, x: Field) -> Array:
        return self.const(np.eye(6) * self.closures.selected(str(x.data))[self.k])

    def _up(self, x: Field) -> Array:
        if x.type.cols == "p":
            return self.zeros(x) if self.previous < 0 else self._at(x.args[0], self.previous)
        values, children = self.values[x.args[0]], self.children[self.k]
        if not children:
            return self.zeros(x)
        out = values[children[0]]
        for c in children[1:]:
            out = out + values[c]
        return out

    def _down(self, x: Field) -> Array:
        parent = self.model.parent[self.k]
        if parent >= 0:
            return self.values[x.args[0]][parent]
        return self.values[x.args[1]] if len(x.args) == 2 else self.zeros(x)

    def _gather(self, x: Field) -> Array:
        body = self.points.body[self.k]
        return self.values[x.args[0]][body] if body >= 0 else self.zeros(x)

    def _of_mate(self, x: Field) -> Array:
        return self._at(x.args[0], int(self.closures.mate[self.k]))

    def _of_point(self, x: Field) -> Array:
        return self._at(x.args[0], int(self.closures.link_point[self.k]))

    def _of_row(self, x: Field) -> Array:
        return self._at(x.args[0], int(self.closures.link_row[self.k]))

    # -- operations that may fail ------------------------------------------------------------------

    def fail(self, code: int, where: int, what: str, bad: Any, a: Array, scale: Any = 0.0) -> None:
        """Note in which elements of the batch a block was bad."""
        value = np.broadcast_to(a, (*self.batch, *a.shape[-2:]))
        largest = np.broadcast_to(scale, (*self.batch, a.shape[-1]))
        mask = np.broadcast_to(bad, self.batch)
        self.failures.append(Failure(code, where, what, mask, value, largest))

    def _inv(self, x: Field) -> Array:
        a = self.value(x.args[0])
        data: Any = x.data
        how, what = data
        if a.shape[-1] == 0:
            return a
        if self.dtype != np.float64:
            return generic_inverse(a)
        scale: Any = 0.0
        if how == "definite":
            scale = self.value(x.args[1])[..., 0] if len(x.args) > 1 else 0.0
            bad: Any = ~(pivots(a) > HINGE_TOLERANCE * scale).all(-1)
        else:
            with np.errstate(all="ignore"):
                size = np.abs(a).max((-2, -1))
                bad = ~(np.linalg.cond(np.where(np.isfinite(a), a, 0.0)) < 1e15) | ~(size > 0)
            if len(x.args) > 1:
                scale = np.abs(self.value(x.args[1])).max(-2)
                bad = bad | ~(exchanged_pivots(a) > CANCELLED_TOLERANCE * scale).all(-1)
        if not bad.any():
            return 1 / a if a.shape[-1] == 1 else np.linalg.inv(a)
        body = self.k if x.type.domain is Domain.BODY else -1
        self.fail(HINGE if how == "definite" else BLOCK, body, what, bad, a, scale)
        return _guarded(np.linalg.inv, a, bad)

    def _chol(self, x: Field) -> Array:
        a = self.value(x.args[0])
        if self.dtype != np.float64:
            return generic_cholesky(a)
        bad: Any = ~(pivots(a) > 0).all(-1)
        if not bad.any():
            return np.linalg.cholesky(a)
        self.fail(HINGE, self.k, "D", bad, a)
        return _guarded(np.linalg.cholesky, a, bad)

    def _logdet(self, x: Field) -> Array:
        low = generic_cholesky(self.value(x.args[0]))
        diagonal = np.diagonal(low, axis1=-2, axis2=-1)
        if diagonal.shape[-1] == 0:
            return self._empty(1, 1)
        return (2 * OBJECTS.log(diagonal).sum(-1))[..., None, None]


def placements_of(model: Model) -> list[Array]:
    """The frames of the joints in those of the parents, as rigid transformations."""

    def build() -> list[Array]:
        both = zip(model.placement_rotations, model.placement_translations, strict=True)
        return [_placement(turn, origin) for turn, origin in both]

    return model.cached(placements_of, build)


def _placement(turn: Array, origin: Array) -> Array:
    """[[R, l~ R], [0, R]] of one joint."""
    out = np.zeros((6, 6), dtype=turn.dtype)
    out[:3, :3] = out[3:, 3:] = turn
    out[:3, 3:] = spatial.skew(origin) @ turn
    return out


def _guarded(function: Callable[[Array], Array], a: Array, bad: Array) -> Array:
    """A function of good blocks, NaN for the bad ones."""
    mask = bad[..., None, None]
    return np.where(mask, np.nan, function(np.where(mask, np.eye(a.shape[-1]), a)))


def _with_arm(block: Array, arm: Array) -> _RigidBlock:
    """[[R, l~ R], [0, R]] that keeps l (..., 3, 1)."""
    out = np.asarray(block).view(_RigidBlock)
    out.arm = np.asarray(arm)
    return out


def pivots(a: Array) -> Array:
    """Squared diagonal of the Cholesky factor; NaN or ≤ 0 from the first one that fails."""
    n = a.shape[-1]
    if n == 1:
        return a[..., 0]
    work = a.copy()
    out = np.empty(a.shape[:-1])
    with np.errstate(all="ignore"):
        for i in range(n):
            out[..., i] = work[..., i, i]
            column = work[..., i:, i] / work[..., i, i][..., None]
            work[..., i:, i:] = (
                work[..., i:, i:] - column[..., :, None] * work[..., i, i:][..., None, :]
            )
    return out
