"""Composite: several joints in a row without bodies between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.errors import ModelError
from phipsi.model.joint import Columns, FloatArray, Joint, Rotation
from phipsi.model.scalars import (
    Scalar,
    ScalarOps,
    Vector,
    add,
    cross,
    dot,
    from_columns,
    identity3,
    matmul,
    matvec,
    neg,
    plus,
    transpose,
)
from phipsi.spatial.groups import Group


@final
class Composite(Joint):
    """Joints one after the other, the first one inboard, with at most 6 degrees of freedom in all.

    q, v and params are those of the parts, concatenated in order. H* holds the columns of each
    part carried to the final body frame: X_j* H_j*, where X_j is the pose of that frame in the
    outboard frame of part j.
    """

    __slots__ = (
        "joints",
        "kind",
        "nq",
        "nv",
        "is_additive",
        "coordinate_names",
        "param_kinds",
        "degree",
        "_q",
        "_v",
        "_p",
    )
    joints: tuple[Joint, ...]
    _q: tuple[slice, ...]
    _v: tuple[slice, ...]
    _p: tuple[slice, ...]

    def __init__(self, joints: Iterable[Joint] = ()) -> None:
        parts = tuple(joints)
        for part in parts:
            if not isinstance(part, Joint):
                raise ModelError(
                    f"Composite takes joints, but one of them is {part!r}. "
                    f"For example:  Composite([Revolute(axis=(0, 0, 1)), Prismatic()])"
                )
        nv = sum(part.nv for part in parts)
        if nv > 6:
            listed = " + ".join(f"{part.kind} {part.nv}" for part in parts)
            raise ModelError(
                f"Composite has {nv} degrees of freedom ({listed}), but a body has only 6 "
                f"relative to its parent. Split it over two bodies; the one between may be "
                f"massless."
            )
        self._set(
            joints=parts,
            kind=f"composite({','.join(part.kind for part in parts)})",
            nq=sum(part.nq for part in parts),
            nv=nv,
            is_additive=all(part.is_additive for part in parts),
            coordinate_names=tuple(
                f"{name}_{k}" for k, part in enumerate(parts, 1) for name in part.coordinate_names
            ),
            params=tuple(value for part in parts for value in part.params),
            param_kinds=tuple(kind for part in parts for kind, _ in part.blocks_of_params()),
            degree=_degree(parts),
            _arguments={"joints": parts},
            _q=_slices(part.nq for part in parts),
            _v=_slices(part.nv for part in parts),
            _p=_slices(len(part.params) for part in parts),
        )

    @property
    def formulas(self) -> str:
        """The formulas of the parts."""
        return f"composite({','.join(part.formulas for part in self.joints)})"

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """Product of the parts' poses, first part leftmost."""
        R, p = identity3(), [0, 0, 0]
        for part, part_params, part_q, _ in self._parts(params, q):
            R_part, p_part = part.transform(part_params, part_q, ops)
            R, p = matmul(R, R_part), plus(p, matvec(R, p_part))
        return R, p

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """Columns of every part carried to the body frame."""
        blocks: list[list[list[Scalar]]] = []
        R, p = identity3(), [0, 0, 0]
        for part, part_params, part_q, _ in reversed(list(self._parts(params, q))):
            H = part.hinge_axes(part_params, part_q, ops)
            blocks.append([_carry(R, p, column) for column in _columns(H, part.nv)])
            R, p = _prepend(part.transform(part_params, part_q, ops), R, p)
        return from_columns([column for block in reversed(blocks) for column in block])

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Product rule: X* Ḣ_j* − crm(V) X* H_j*, V the motion of the parts outboard of j."""
        blocks: list[list[list[Scalar]]] = []
        R, p = identity3(), [0, 0, 0]
        V: list[Scalar] = [0] * 6
        for part, part_params, part_q, rates in reversed(list(self._parts(params, q))):
            part_v = v[rates]
            H = part.hinge_axes(part_params, part_q, ops)
            H_rate = part.hinge_axes_rate(part_params, part_q, part_v, ops)
            carried = [_carry(R, p, column) for column in _columns(H, part.nv)]
            changing = [_carry(R, p, column) for column in _columns(H_rate, part.nv)]
            blocks.append(
                [
                    plus(own, [neg(x) for x in _cross_motion(V, column)])
                    for own, column in zip(changing, carried, strict=True)
                ]
            )
            if part.nv:
                V = plus(V, [dot(row, part_v) for row in from_columns(carried)])
            R, p = _prepend(part.transform(part_params, part_q, ops), R, p)
        return from_columns([column for block in reversed(blocks) for column in block])

    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> list[Scalar]:
        """q̇ of the parts, concatenated."""
        out: list[Scalar] = []
        for part, part_params, part_q, rates in self._parts(params, q):
            out.extend(part.q_rate(part_params, part_q, v[rates], ops))
        return out

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> FloatArray:
        """Integrate every part by itself."""
        a, b = np.asarray(q, dtype=np.float64), np.asarray(dv, dtype=np.float64)
        out = np.empty((*np.broadcast_shapes(a.shape[:-1], b.shape[:-1]), self.nq))
        for part, i, j in zip(self.joints, self._q, self._v, strict=True):
            out[..., i] = part.integrate(a[..., i], b[..., j])
        return out

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> FloatArray:
        """Difference of every part by itself."""
        a, b = np.asarray(q0, dtype=np.float64), np.asarray(q1, dtype=np.float64)
        out = np.empty((*np.broadcast_shapes(a.shape[:-1], b.shape[:-1]), self.nv))
        for part, i, j in zip(self.joints, self._q, self._v, strict=True):
            out[..., j] = part.difference(a[..., i], b[..., i])
        return out

    def neutral(self) -> FloatArray:
        """Neutral coordinates of the parts, concatenated."""
        return np.concatenate([np.zeros(0), *(part.neutral() for part in self.joints)])

    def random(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> FloatArray:
        """Random coordinates of the parts, concatenated."""
        parts = [part.random(rng, batch) for part in self.joints]
        return np.concatenate([np.zeros((*batch, 0)), *parts], axis=-1)

    def parts(self, q: int = 0, v: int = 0) -> Iterator[tuple[Group, int, int]]:
        """The groups of the joints, in order."""
        for part, i, j in zip(self.joints, self._q, self._v, strict=True):
            yield from part.parts(q + i.start, v + j.start)

    def _parts(self, params: Vector, q: Vector) -> Iterator[tuple[Joint, Vector, Vector, slice]]:
        """Return each part with its params, its coordinates and the slice of its rates."""
        for part, i, j, k in zip(self.joints, self._q, self._v, self._p, strict=True):
            yield part, params[k], q[i], j


def _degree(parts: tuple[Joint, ...]) -> int | None:
    """A bound: columns are carried by the poses of all parts outboard of theirs."""
    degrees = [part.degree for part in parts]
    if None in degrees:
        return None
    return 1 + sum(max(6 * part.nv, part.degree or 0) for part in parts)


def _slices(sizes: Iterable[int]) -> tuple[slice, ...]:
    ends = list(accumulate(sizes, initial=0))
    return tuple(slice(a, b) for a, b in zip(ends, ends[1:], strict=False))


def _columns(H: Columns, nv: int) -> list[list[Scalar]]:
    return [[row[j] for row in H] for j in range(nv)]


def _prepend(
    pose: tuple[Rotation, list[Scalar]], R: Rotation, p: list[Scalar]
) -> tuple[Rotation, list[Scalar]]:
    """`pose` followed by (R, p)."""
    R_first, p_first = pose
    return matmul(R_first, R), plus(p_first, matvec(R_first, p))


def _carry(R: Rotation, p: list[Scalar], motion: list[Scalar]) -> list[Scalar]:
    """Motion [ω; v] of a frame, seen at a frame with the pose (R, p) in it: R*ω, R*(v + ω × p)."""
    omega, v = motion[:3], motion[3:]
    R_inv = transpose(R)
    return [*matvec(R_inv, omega), *matvec(R_inv, plus(v, cross(omega, p)))]


def _cross_motion(V: list[Scalar], motion: list[Scalar]) -> list[Scalar]:
    """crm(V) applied to a motion."""
    omega, v = V[:3], V[3:]
    linear = [
        add(x, y) for x, y in zip(cross(v, motion[:3]), cross(omega, motion[3:]), strict=True)
    ]
    return [*cross(omega, motion[:3]), *linear]
