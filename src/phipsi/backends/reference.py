"""The reference backend: plain NumPy loops that define what every operation of the IR means.

Generic over the scalar: float64, complex128 (never conjugated) and object arrays (SymPy symbols
give closed forms, mpmath numbers any precision). Every block is an ordinary dense array with the
batch on leading axes; the structure a block is known to have is for other backends to exploit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from phipsi import spatial
from phipsi.backends.failures import (
    BLOCK,
    HINGE,
    HINGE_TOLERANCE,
    SMALL,
    Failure,
    outboard_sizes,
)
from phipsi.backends.layout import read_input, space_blocks, space_size
from phipsi.backends.reference_blocks import (
    Local,
    nothing,
    number_like,
    pivots,
    rigid,
    seed_kinds,
    twice,
)
from phipsi.backends.reference_closures import ClosureOperations
from phipsi.backends.reference_variations import VariationOperations
from phipsi.backends.scalars import (
    Scalars,
    generic_cholesky,
    generic_inverse,
    matrix,
    natural_square,
)
from phipsi.expressions.spaces import space_named
from phipsi.model.closures import NO_CLOSURES
from phipsi.model.model import Model
from phipsi.model.points import PointSet
from phipsi.sweeps.ir import Domain, Field, Loop, Step, StepKind

Array = np.ndarray


class Run(ClosureOperations, VariationOperations):
    """One evaluation; `values[field]` is one array per body or per point, or one in all."""

    def __init__(
        self,
        steps: list[Step],
        model: Model,
        points: PointSet,
        inputs: Mapping[str, Array],
        batch: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        self.steps, self.model, self.points = steps, model, points
        self.inputs, self.batch, self.dtype = inputs, batch, dtype
        self.closures = points.closures or NO_CLOSURES
        self.scalars = Scalars(dtype)
        self.failures: list[Failure] = []
        self.values: dict[Field, Any] = {}
        self.link_sizes: dict[Field, list[Any]] = {}  # of pairs of links
        self.row_sizes: dict[Field, Array] = {}  # of matrices between rows
        self._path_state = (0, 0, -1)  # seed, body it starts at, body visited before
        self.children = [[] for _ in range(model.n_bodies)]
        for i, p in enumerate(model.parent):
            if p >= 0:
                self.children[p].append(i)

    @cached_property
    def _sizes(self) -> Array:
        return outboard_sizes(self.model)

    def run(self) -> dict[Field, Any]:
        """Evaluate all steps."""
        for step in self.steps:
            self._run_step(step)
            for x in step.last_used:
                self.values.pop(x, None)
        return self.values

    def _run_step(self, step: Step) -> None:
        if step.kind is StepKind.PATH:
            return self._run_paths(step)
        if step.kind is StepKind.PAIRS:
            return self._run_pairs(step)
        n = self.model.n_bodies
        sizes = {
            Domain.BODY: n,
            Domain.POINT: len(self.points),
            Domain.ROW: self.closures.n_rows,
            Domain.LINK: len(self.closures.link_row),
            Domain.WORLD: 1,
        }
        for x in step.fields:
            adds = x.operation.runs is Loop.SUMMANDS
            if x.type.domain is Domain.WORLD:
                self.values[x] = self._zeros(x, -1) if adds else None
            elif x in step.local:
                self.values[x] = Local()
            else:
                places = range(sizes[x.type.domain])
                self.values[x] = [self._zeros(x, k) if adds else None for k in places]
        order: Any = range(sizes[step.domain])
        if step.kind is StepKind.TIP_TO_BASE:
            order = reversed(order)
        plan = [(x, getattr(self, "_" + x.op)) for x in step.fields]
        for k in order:
            for x, operation in plan:
                out = operation(x, k)
                if x.operation.runs is Loop.SUMMANDS or x.operation.solves:
                    continue  # these store their own result
                if x.type.domain is Domain.WORLD:
                    self.values[x] = out
                else:
                    self.values[x][k] = out

    # -- paths and pairs ---------------------------------------------------------------------------

    def _run_paths(self, step: Step) -> None:
        """For every seed, the equations along the path from its body to the root.

        `values[field][seed]` maps the bodies on the path to blocks.
        """
        by_seed = {
            "points": list(self.points.body),
            "links": [self.points.body[p] for p in self.closures.link_point],
            "bodies": list(range(self.model.n_bodies)),
        }
        kinds = seed_kinds(step.fields)
        for x in step.fields:
            self.values[x] = [{} for _ in by_seed[kinds[x]]]
        for kind, starts in by_seed.items():
            plan = [x for x in step.fields if kinds[x] == kind]
            for seed, start in enumerate(starts):
                body, previous = start, -1
                while plan and body >= 0:
                    self._path_state = (seed, start, previous)
                    for x in plan:
                        self.values[x][seed][body] = self._on_path(x, body)
                    previous, body = body, self.model.parent[body]

    def _on_path(self, x: Field, k: int) -> Array:
        seed, start, previous = self._path_state
        if x.op == "path_seed":
            if k != start:
                return np.zeros((1, 1), dtype=self.dtype)
            if x.args:
                return self.values[x.args[0]][seed]
            return self._const(np.eye(self._width(x.type.rows, k)))
        if x.op == "up":
            if previous < 0:
                return np.zeros((1, 1), dtype=self.dtype)
            return self.values[x.args[0]][seed][previous]
        if x.op == "zero":
            return np.zeros((1, 1), dtype=self.dtype)
        if x.op == "mul":
            left, right = self._at(x.args[0], k), self._at(x.args[1], k)
            return right if nothing(right) else np.matmul(left, right)
        return getattr(self, "_" + x.op)(x, k)

    def _run_pairs(self, step: Step) -> None:
        tree = self.model.tree
        for x in step.fields:
            if x.op == "gram":
                self.values[x] = self._gram(x)
                continue
            left, middle, right = (self.values[y] for y in x.args)
            strict: Any = x.data
            starts = [
                self._starts(y, s) for y, s in zip((x.args[0], x.args[2]), strict[:2], strict=True)
            ]
            blocks: dict[tuple[int, int], Array] = {}
            for i, a in enumerate(starts[0]):
                for j, b in enumerate(starts[1]):
                    c = tree.nearest_common_ancestor(a, b) if a >= 0 and b >= 0 else -1
                    if c >= 0 and not nothing(left[i][c]) and not nothing(right[j][c]):
                        blocks[i, j] = np.swapaxes(left[i][c], -1, -2) @ middle[c] @ right[j][c]
            self.values[x] = blocks
            if x.args[0] is x.args[2] and seed_kinds([x.args[0]])[x.args[0]] == "links":
                at = [(left[i], c) for i, c in enumerate(starts[0])]
                self.link_sizes[x] = [
                    natural_square(z[c][..., 0], middle[c]) if c >= 0 else 0 for z, c in at
                ]

    def _gram(self, x: Field) -> dict[tuple[int, int], Array]:
        """Sums over the bodies that two paths have in common."""
        left, right = (self.values[y] for y in x.args)
        out: dict[tuple[int, int], Array] = {}
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                both = [k for k in a if k in b]
                if both:
                    out[i, j] = np.sum([np.swapaxes(a[k], -1, -2) @ b[k] for k in both], axis=0)
        return out

    def _starts(self, x: Field, strict: bool) -> list[int]:
        """Where the path of each seed can first meet another: its body, or the parent of it."""
        kind = seed_kinds([x])[x]
        bodies = list(self.points.body) if kind == "points" else list(range(self.model.n_bodies))
        if kind == "links":
            bodies = [self.points.body[p] for p in self.closures.link_point]
        return [self.model.parent[k] if strict and k >= 0 else k for k in bodies]

    def _matrix(self, x: Field, k: int) -> Array:
        """All blocks in one matrix."""
        gives, takes = (space_named(size[4:]) for size in (x.type.rows, x.type.cols))
        rows = space_blocks(gives, self.model, self.points)
        cols = space_blocks(takes, self.model, self.points)
        sizes = [space_size(s, self.model, self.points) for s in (gives, takes)]
        out = np.zeros((*self.batch, *sizes), dtype=self.dtype)
        data: Any = x.data
        for part, y in zip(data, x.args, strict=True):
            c = self._number(part.coefficient)
            for i, j, block in self._blocks_of(part.how, y):
                if gives.index == "row":
                    i = int(self.closures.link_row[i])
                if takes.index == "row":
                    j = int(self.closures.link_row[j])
                out[..., rows[i], cols[j]] = out[..., rows[i], cols[j]] + c * block
        if gives.index == takes.index == "row":
            self._note_row_sizes(x)
        return out

    def _blocks_of(self, how: str, y: Field) -> Iterator[tuple[int, int, Array]]:
        values = self.values[y]
        if how == "diagonal":
            yield from ((k, k, block) for k, block in enumerate(values))
        elif how == "pairs":
            yield from ((i, j, block) for (i, j), block in values.items())
        else:
            for j, path in enumerate(values):
                for i, block in path.items():
                    if how == "path":
                        yield i, j, block
                    else:
                        yield j, i, np.swapaxes(block, -1, -2)

    # -- helpers -----------------------------------------------------------------------------------

    def _at(self, x: Field, k: int) -> Array:
        """The block of x at body or point k."""
        values = self.values[x]
        if x.type.domain is Domain.WORLD:
            return values
        return values[self._path_state[0]][k] if x.type.cols == "p" else values[k]

    def _width(self, size: str, k: int) -> int:
        if size == "r":
            return self.model.joints[k].nv
        if size == "c":
            return self.inputs["columns"].shape[0]
        if size.startswith("all:"):
            return space_size(space_named(size[4:]), self.model, self.points)
        return int(size)

    def _zeros(self, x: Field, k: int) -> Array:
        rows, cols = self._width(x.type.rows, k), self._width(x.type.cols, k)
        return np.zeros((*self.batch, rows, cols), dtype=self.dtype)

    def _const(self, array: Array) -> Array:
        """A model constant in the scalar type of the inputs, so that no digits are lost."""
        out = np.asarray(array, dtype=self.dtype)
        return out * number_like(self.inputs, 1) if self.dtype == object else out

    def _q(self, k: int) -> list[Array]:
        q = self.inputs["q"][..., self.model.q_slices[k]]
        return [q[..., i] for i in range(q.shape[-1])]

    # -- leaves ------------------------------------------------------------------------------------

    def _input(self, x: Field, k: int) -> Array:
        return read_input(self.inputs[str(x.data)], x, k, self.model)

    def _zero(self, x: Field, k: int) -> Array:
        return self._zeros(x, k)

    def _eye(self, x: Field, k: int) -> Array:
        return self._const(np.eye(self._width(x.type.rows, k)))

    def _seed(self, x: Field, k: int) -> Array:
        space = space_named(str(x.data))
        size = space_size(space, self.model, self.points)
        if space.index == "joint":
            rows = self.model.v_slices[k]
        else:
            width = self._width(x.type.rows, k)
            rows = slice(width * k, width * (k + 1))
        return self._const(np.eye(size)[rows])

    def _transform(self, x: Field, k: int) -> Array:
        turn, arm = self._motion(k)
        place = self._const(self.model.placement_rotations[k])
        origin = self._const(self.model.placement_translations[k])
        return rigid(place @ turn, origin + (place @ arm)[..., 0])

    def _joint_transform(self, x: Field, k: int) -> Array:
        turn, arm = self._motion(k)
        return rigid(turn, arm[..., 0])

    def _motion(self, k: int) -> tuple[Array, Array]:
        """Rotation and shift of joint k, in the frame of its placement."""
        joint = self.model.joints[k]
        rotation, position = joint.transform(joint.params, self._q(k), self.scalars)
        turn = matrix(rotation, self.batch, self.dtype)
        return turn, matrix([[p] for p in position], self.batch, self.dtype)

    def _hinge_axes(self, x: Field, k: int) -> Array:
        joint = self.model.joints[k]
        return matrix(
            joint.hinge_axes(joint.params, self._q(k), self.scalars), self.batch, self.dtype
        )

    def _hinge_axes_rate(self, x: Field, k: int) -> Array:
        joint = self.model.joints[k]
        v = self.inputs["v"][..., self.model.v_slices[k]]
        rates = [v[..., i] for i in range(v.shape[-1])]
        out = joint.hinge_axes_rate(joint.params, self._q(k), rates, self.scalars)
        return matrix(out, self.batch, self.dtype)

    def _M(self, x: Field, k: int) -> Array:
        return self._const(self.model.inertia_matrices[k])

    def _Jr(self, x: Field, k: int) -> Array:
        return self._const(np.diag(self.model.armature[self.model.v_slices[k]]))

    def _diag(self, x: Field, k: int) -> Array:
        column = self._at(x.args[0], k)
        return column * np.eye(column.shape[-2])

    def _against(self, x: Field, k: int) -> Array:
        g = self._at(x.args[0], k)
        return np.concatenate([0 * g, -g], axis=-2)

    def _gravity(self, x: Field, k: int) -> Array:
        return self._const(np.concatenate([np.zeros(3), -self.model.gravity]))[:, None]

    def _point_frame(self, x: Field, k: int) -> Array:
        return rigid(self._const(self.points.rotation[k]), self._const(self.points.offset[k]))

    def _point_arm(self, x: Field, k: int) -> Array:
        return rigid(self._const(np.eye(3)), self._const(self.points.offset[k]))

    def _world_arm(self, x: Field, k: int) -> Array:
        at: Any = x.data
        return rigid(self._const(np.eye(3)), -self._const(np.array(at)))

    # -- blocks of one body ------------------------------------------------------------------------

    def _rec(self, x: Field, k: int) -> Array:
        assert x.equation is not None
        return self._at(x.equation, k)

    def _mul(self, x: Field, k: int) -> Array:
        return np.matmul(self._at(x.args[0], k), self._at(x.args[1], k))

    def _cong(self, x: Field, k: int) -> Array:
        a = self._at(x.args[0], k)
        return a @ self._at(x.args[1], k) @ np.swapaxes(a, -1, -2)

    def _T(self, x: Field, k: int) -> Array:
        return np.swapaxes(self._at(x.args[0], k), -1, -2)

    def _sym(self, x: Field, k: int) -> Array:
        a = self._at(x.args[0], k)
        return a + np.swapaxes(a, -1, -2)

    def _add(self, x: Field, k: int) -> Array:
        out: Any = 0
        data: Any = x.data
        for c, y in zip(data, x.args, strict=True):
            term = self._at(y, k)
            if c == -1:
                out = out - term
            elif c == 1:
                out = out + term
            else:
                out = out + self._number(c) * term
        return out

    def _number(self, c: Any) -> Any:
        if self.dtype == object:
            return (
                c.numerator / number_like(self.inputs, c.denominator)
                if hasattr(c, "numerator")
                else c
            )
        return float(c)

    def _cross(self, x: Field, k: int) -> Array:
        return spatial.crm(self._at(x.args[0], k)[..., 0]) @ self._at(x.args[1], k)

    def _cross_force(self, x: Field, k: int) -> Array:
        return spatial.crf(self._at(x.args[0], k)[..., 0]) @ self._at(x.args[1], k)

    def _crm(self, x: Field, k: int) -> Array:
        return spatial.crm(self._at(x.args[0], k)[..., 0])

    def _regress(self, x: Field, k: int) -> Array:
        return spatial.inertia_regressor(self._at(x.args[0], k)[..., 0])

    def _spin(self, x: Field, k: int) -> Array:
        return twice(spatial.skew(self._at(x.args[0], k)[..., :3, 0]))

    def _gauge(self, x: Field, k: int) -> Array:
        motion = self._at(x.args[0], k)
        out = np.zeros_like(motion)
        out[..., 3:, :] = spatial.skew(motion[..., :3, 0]) @ motion[..., 3:, :]
        return out

    def _rotation(self, x: Field, k: int) -> Array:
        return twice(self._at(x.args[0], k)[..., :3, :3])

    def _rigid_inverse(self, x: Field, k: int) -> Array:
        w = self._at(x.args[0], k)
        turn = np.swapaxes(w[..., :3, :3], -1, -2)
        out = twice(turn)
        out[..., :3, 3:] = np.swapaxes(w[..., :3, 3:], -1, -2)  # (l~ R)* = −R* l~
        return out

    def _below_root(self, x: Field, k: int) -> Array:
        if self.model.parent[k] < 0:
            return self._const(np.eye(6))
        return self._mul(x, k)

    def _pose_matrix(self, x: Field, k: int) -> Array:
        w = self._at(x.args[0], k)
        turn = w[..., :3, :3]
        arm = w[..., :3, 3:] @ np.swapaxes(turn, -1, -2)
        out = np.zeros((*w.shape[:-2], 4, 4), dtype=self.dtype)
        out[..., :3, :3] = turn
        out[..., 0, 3], out[..., 1, 3], out[..., 2, 3] = (
            arm[..., 2, 1],
            arm[..., 0, 2],
            arm[..., 1, 0],
        )
        out[..., 3, 3] = 1
        return out

    def _rigid_of_pose(self, x: Field, k: int) -> Array:
        pose = self._at(x.args[0], k)
        return rigid(pose[..., :3, :3], pose[..., :3, 3])

    def _hinge_scale(self, x: Field, k: int) -> Array:
        """Largest articulated inertia in the units of each hinge direction, r × 1.

        At least `outboard_sizes`, unless other inertias than the model's are given.
        """
        p, axes = (self._at(y, k) for y in x.args)
        if self.dtype != np.float64:
            return np.zeros((*self.batch, axes.shape[-1], 1), dtype=self.dtype)
        diagonal = np.abs(np.diagonal(p, axis1=-2, axis2=-1))
        least = self._sizes[k] if x.data is None else np.zeros(2)
        squares = axes * axes
        largest = [diagonal[..., i : i + 3].max(-1, keepdims=True) for i in (0, 3)]
        turn = squares[..., :3, :].sum(-2) * np.maximum(largest[0], least[0])
        slide = squares[..., 3:, :].sum(-2) * np.maximum(largest[1], least[1])
        return (turn + slide)[..., None]

    def _inv(self, x: Field, k: int) -> Array:
        a = self._at(x.args[0], k)
        how, what = x.data  # type: ignore[misc]
        if a.shape[-1] == 0:
            return a
        if self.dtype != np.float64:
            return generic_inverse(a)
        scale: Any = 0.0
        if how == "definite":
            scale = self._at(x.args[1], k)[..., 0] if len(x.args) > 1 else 0.0
            bad: Any = ~(pivots(a) > HINGE_TOLERANCE * scale).all(-1)
        else:
            with np.errstate(all="ignore"):
                size = np.abs(a).max((-2, -1))
                bad = ~(np.linalg.cond(np.where(np.isfinite(a), a, 0.0)) < 1e15) | ~(size > 0)
        if bad.any():
            code = HINGE if how == "definite" else BLOCK
            body = k if x.type.domain is Domain.BODY else -1
            mask = np.broadcast_to(bad, self.batch)
            value = np.broadcast_to(a, (*self.batch, *a.shape[-2:]))
            largest = np.broadcast_to(scale, (*self.batch, a.shape[-1]))
            self.failures.append(Failure(code, body, what, mask, value, largest))
            a = np.where(bad[..., None, None], np.eye(a.shape[-1]), a)
            return np.where(bad[..., None, None], np.nan, np.linalg.inv(a))
        return np.linalg.inv(a)

    def _chol(self, x: Field, k: int) -> Array:
        a = self._at(x.args[0], k)
        if self.dtype != np.float64:
            return generic_cholesky(a, self.scalars)
        bad: Any = ~(pivots(a) > 0).all(-1)
        if bad.any():
            mask = np.broadcast_to(bad, self.batch)
            self.failures.append(
                Failure(HINGE, k, "D", mask, np.broadcast_to(a, (*self.batch, *a.shape[-2:])))
            )
            return np.where(
                bad[..., None, None],
                np.nan,
                np.linalg.cholesky(np.where(bad[..., None, None], np.eye(a.shape[-1]), a)),
            )
        return np.linalg.cholesky(a)

    def _logdet(self, x: Field, k: int) -> Array:
        low = generic_cholesky(self._at(x.args[0], k), self.scalars)
        diagonal = np.diagonal(low, axis1=-2, axis2=-1)
        if diagonal.shape[-1] == 0:
            return np.zeros((*self.batch, 1, 1), dtype=self.dtype)
        return (2 * self.scalars.log(diagonal).sum(-1))[..., None, None]

    # -- neighbours and other index sets -----------------------------------------------------------

    def _up(self, x: Field, k: int) -> Array:
        children = self.children[k]
        if not children:
            return self._zeros(x, k)
        values = self.values[x.args[0]]
        out = values[children[0]]
        for c in children[1:]:
            out = out + values[c]
        return out

    def _down(self, x: Field, k: int) -> Array:
        parent = self.model.parent[k]
        if parent >= 0:
            return self.values[x.args[0]][parent]
        return self.values[x.args[1]] if len(x.args) == 2 else self._zeros(x, k)

    def _gather(self, x: Field, k: int) -> Array:
        body = self.points.body[k]
        return self.values[x.args[0]][body] if body >= 0 else self._zeros(x, k)

    def _scatter(self, x: Field, k: int) -> None:
        body = self.points.body[k]
        if body >= 0:
            self.values[x][body] = self.values[x][body] + self._at(x.args[0], k)

    def _total(self, x: Field, k: int) -> None:
        self.values[x] = self.values[x] + self._at(x.args[0], k)

    def _spread(self, x: Field, k: int) -> Array:
        return self.values[x.args[0]]

    def _assemble(self, x: Field, k: int) -> Array:
        rows = self.values[x.args[0]]
        if x.args[0].type.domain is Domain.WORLD:
            return rows
        return np.concatenate([np.broadcast_to(r, (*self.batch, *r.shape[-2:])) for r in rows], -2)

    def _small_solve(self, x: Field, k: int) -> None:
        a, u = self.values[x.args[0]], self.values[x.args[1]]
        world = x.type.domain is Domain.WORLD
        width = 1 if x.type.domain is Domain.ROW else 6
        if not world:
            u = np.concatenate([np.broadcast_to(r, (*self.batch, *r.shape[-2:])) for r in u], -2)
        if self.dtype == np.float64:
            good = np.isfinite(a).all((-2, -1))  # singular values of NaN are an error of NumPy
            ranks = np.linalg.matrix_rank(np.where(good[..., None, None], a, 0.0))
            singular: Any = ranks < a.shape[-1]
            if np.any(singular):
                mask = np.broadcast_to(singular, self.batch)
                self.failures.append(Failure(SMALL, -1, str(x.data), mask, a))
                safe = np.where(singular[..., None, None], np.eye(a.shape[-1]), a)
                y = np.where(singular[..., None, None], np.nan, np.linalg.solve(safe, u))
            else:
                y = np.linalg.solve(a, u)
        else:
            y = generic_inverse(a) @ u
        self.values[x] = (
            y if world else [y[..., i : i + width, :] for i in range(0, y.shape[-2], width)]
        )
