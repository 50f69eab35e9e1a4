"""All joint types: `Revolute(axis=(0, 0, 1))`, `Spherical()`, … , `Composite([...])`.

Fixed, Revolute, Prismatic, Helical, Cylindrical, Universal and Translation have q̇ = v; Planar
(SE(2)), Spherical and Free move on a group, with rates in body axes. Axes are unit vectors in the
inboard joint frame; H* and its rate are in body axes at the body origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.model.joint import (
    AdditiveJoint,
    Columns,
    ConstantAxes,
    FloatArray,
    Joint,
    Rotation,
    unit_axis,
)
from phipsi.core.model.scalar_linalg import (
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
    mul,
    neg,
    plus,
    quaternion_rate,
    rotation_about,
    rotation_of_quaternion,
    scale,
    sub,
    transpose,
    zeros,
)
from phipsi.core.spatial import SE2, SE3, SO3, LieGroup, quat_normalize
from phipsi.errors import ModelError, is_a, number_of
from phipsi.package_state import name_here, only_public

__all__ = [
    "Composite", "Cylindrical", "Fixed", "Free", "Helical", "Joint", "Planar", "Prismatic",
    "Revolute", "Spherical", "Translation", "Universal",
]  # fmt: skip
__dir__ = only_public(__name__)


def __getattr__(name: str) -> object:
    """Answer the names that other libraries have for joints with the name here."""
    here = "" if name.startswith("_") else name_here(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{here}", name=name)


_O3 = (0, 0, 0)
_EPS = float(np.finfo(float).eps)


@final
class Fixed(ConstantAxes, AdditiveJoint):
    """No motion. A body on a fixed joint is welded to its parent when the model is built."""

    __slots__ = ()
    kind = "fixed"
    coordinate_names = ()
    degree = 1

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """The identity."""
        return identity3(), [0, 0, 0]

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """Six empty rows."""
        return zeros(6, 0)


class _OnAxis(ConstantAxes, AdditiveJoint):
    """A joint with one axis."""

    __slots__ = ()

    def __init__(self, axis: ArrayLike = (0, 0, 1)) -> None:
        u = unit_axis(axis, f"{type(self).__name__} axis")
        self._set(_arguments={"axis": u}, params=u)


@final
class Revolute(_OnAxis):
    """Rotation by q = θ (rad) about `axis` (hinge): R = exp(u~ θ), H* = [u; 0].

    Parameters
    ----------
    axis : array_like, shape (3,), optional
        The axis u. Default: z.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.joints.Revolute(axis=(0, 1, 0)).nv
    1
    """

    __slots__ = ()
    kind = "revolute"
    coordinate_names = ("theta",)
    param_kinds = ("axis",)
    aligned = 0
    degree = 7

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = exp(u~ θ), p = 0."""
        return rotation_about(params, q[0], ops), [0, 0, 0]

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[u; 0]."""
        return from_columns([(*params, *_O3)])


@final
class Prismatic(_OnAxis):
    """Sliding by q = d (m) along `axis`: p = u d, H* = [0; u].

    Parameters
    ----------
    axis : array_like, shape (3,), optional
        The axis u. Default: z.
    """

    __slots__ = ()
    kind = "prismatic"
    coordinate_names = ("d",)
    param_kinds = ("axis",)
    aligned = 0
    degree = 7

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = I, p = u d."""
        return identity3(), scale(q[0], params)

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[0; u]."""
        return from_columns([(*_O3, *params)])


@final
class Helical(ConstantAxes, AdditiveJoint):
    """Screw joint: rotation by q = θ (rad) about `axis` with advance `pitch` · θ along it.

    R = exp(u~ θ), p = h u θ, H* = [u; h u].

    Parameters
    ----------
    axis : array_like, shape (3,), optional
        The axis u. Default: z.
    pitch : float, optional
        The pitch h in m/rad (divide a lead per turn by 2π). Default: 0.
    """

    __slots__ = ()
    kind = "helical"
    coordinate_names = ("theta",)
    param_kinds = ("axis", "number")
    aligned = 0
    degree = 7

    def __init__(self, axis: ArrayLike = (0, 0, 1), pitch: float = 0.0) -> None:
        u = unit_axis(axis, "Helical axis")
        h = number_of(pitch)
        if not np.isfinite(h):
            raise ModelError(
                f"Helical pitch is {pitch!r}; it must be a finite number of metres per radian."
            )
        self._set(_arguments={"axis": u, "pitch": h}, params=(*u, h))

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = exp(u~ θ), p = h u θ."""
        u, h = params[:3], params[3]
        return rotation_about(u, q[0], ops), scale(q[0], scale(h, u))

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[u; h u]."""
        u, h = params[:3], params[3]
        return from_columns([(*u, *scale(h, u))])


@final
class Cylindrical(_OnAxis):
    """Rotation about and sliding along one axis: q = [θ (rad), d (m)], H* = [u; 0], [0; u].

    Parameters
    ----------
    axis : array_like, shape (3,), optional
        The axis u. Default: z.
    """

    __slots__ = ()
    kind = "cylindrical"
    coordinate_names = ("theta", "d")
    param_kinds = ("axis",)
    aligned = 0
    degree = 13

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = exp(u~ θ), p = u d."""
        return rotation_about(params, q[0], ops), scale(q[1], params)

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[u; 0], [0; u]."""
        return from_columns([(*params, *_O3), (*_O3, *params)])


@final
class Universal(AdditiveJoint):
    """Rotation by θ1 about `axis1`, then by θ2 about `axis2` carried along (rad).

    R = exp(u1~ θ1) exp(u2~ θ2), H* = [R2* u1; 0], [u2; 0] with R2 = exp(u2~ θ2).

    Parameters
    ----------
    axis1, axis2 : array_like, shape (3,), optional
        The axes; they must differ but need not be perpendicular. Default: x and y.
    """

    __slots__ = ()
    kind = "universal"
    coordinate_names = ("theta1", "theta2")
    param_kinds = ("axis", "axis")
    aligned = 1
    degree = 13

    def __init__(self, axis1: ArrayLike = (1, 0, 0), axis2: ArrayLike = (0, 1, 0)) -> None:
        u1, u2 = unit_axis(axis1, "Universal axis1"), unit_axis(axis2, "Universal axis2")
        if np.linalg.norm(np.cross(u1, u2)) < 1e-8:
            raise ModelError(
                f"Universal axes {u1} and {u2} are parallel, so the two angles would be one "
                f"motion and the joint has a single degree of freedom.\n"
                f"Use Revolute(axis={u1}), or give two different axes."
            )
        self._set(_arguments={"axis1": u1, "axis2": u2}, params=(*u1, *u2))

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = exp(u1~ θ1) exp(u2~ θ2), p = 0."""
        first = rotation_about(params[:3], q[0], ops)
        return matmul(first, rotation_about(params[3:], q[1], ops)), [0, 0, 0]

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[R2* u1; 0], [u2; 0]."""
        u1_B = self._first_axis(params, q, ops)
        return from_columns([(*u1_B, *_O3), (*params[3:], *_O3)])

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """[(R2* u1 × u2) θ̇2; 0], 0."""
        u1_B = self._first_axis(params, q, ops)
        return from_columns([(*scale(v[1], cross(u1_B, params[3:])), *_O3), (*_O3, *_O3)])

    @staticmethod
    def _first_axis(params: Vector, q: Vector, ops: ScalarOps) -> list[Scalar]:
        """u1 in body axes, R2* u1."""
        return matvec(transpose(rotation_about(params[3:], q[1], ops)), params[:3])


@final
class Translation(ConstantAxes, AdditiveJoint):
    """Sliding in all three directions: q = v̄ = (x, y, z) in the inboard axes, m. H* = [0; I]."""

    __slots__ = ()
    kind = "translation"
    coordinate_names = ("x", "y", "z")
    degree = 5

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = I, p = q."""
        return identity3(), list(q)

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[0; I]."""
        return [*zeros(3, 3), *identity3()]


# ---- joints on a group ---------------------------------------------------------------------------


@final
class Planar(ConstantAxes):
    """Motion in the plane of `e1`, `e2`, turning about the normal n = e1 × e2.

    q = [θ (rad), x, y (m)] with R = exp(n~ θ), p = x e1 + y e2; v = [ω, v1, v2] in body axes, H* =
    [n; 0], [0; e1], [0; e2].

    Parameters
    ----------
    e1, e2 : array_like, shape (3,), optional
        Perpendicular axes of the plane. Default: x and y.
    """

    __slots__ = ()
    kind = "planar"
    group = SE2
    nq, nv = group.nq, group.nv
    coordinate_names = ("theta", "x", "y")
    param_kinds = ("frame",)
    aligned = 0
    degree = 19

    def __init__(self, e1: ArrayLike = (1, 0, 0), e2: ArrayLike = (0, 1, 0)) -> None:
        a, b = np.array(unit_axis(e1, "Planar e1")), np.array(unit_axis(e2, "Planar e2"))
        lean = float(a @ b)
        if abs(lean) > 1e-8:
            raise ModelError(
                f"Planar axes e1 = {tuple(a.tolist())} and e2 = {tuple(b.tolist())} are not "
                f"perpendicular (e1·e2 = {lean:.3g}), so x and y would not be distances.\n"
                f"Replace e2 by its part perpendicular to e1:  e2 − (e1·e2) e1"
            )
        if abs(lean) > 4 * _EPS:
            b = b - lean * a
            b = b / np.linalg.norm(b)
        x, y, n = tuple(a.tolist()), tuple(b.tolist()), tuple(np.cross(a, b).tolist())
        self._set(_arguments={"e1": x, "e2": y}, params=(*n, *x, *y))

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R = exp(n~ θ), p = x e1 + y e2."""
        n, e1, e2 = params[:3], params[3:6], params[6:9]
        return rotation_about(n, q[0], ops), plus(scale(q[1], e1), scale(q[2], e2))

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[n; 0], [0; e1], [0; e2]."""
        n, e1, e2 = params[:3], params[3:6], params[6:9]
        return from_columns([(*n, *_O3), (*_O3, *e1), (*_O3, *e2)])

    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> list[Scalar]:
        """[ω, cos θ v1 − sin θ v2, sin θ v1 + cos θ v2]."""
        s, c = ops.sin(q[0]), ops.cos(q[0])
        return [v[0], sub(mul(c, v[1]), mul(s, v[2])), add(mul(s, v[1]), mul(c, v[2]))]


@final
class Spherical(ConstantAxes):
    """Rotation about a point: q = unit quaternion (w, x, y, z), v = ω in body axes, H* = [I; 0].

    A quaternion of any nonzero length is understood as the rotation of its direction.
    """

    __slots__ = ()
    kind = "spherical"
    group = SO3
    nq, nv = group.nq, group.nv
    coordinate_names = ("qw", "qx", "qy", "qz")
    degree = 5

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R(q), p = 0."""
        return rotation_of_quaternion(q), [0, 0, 0]

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """[I; 0]."""
        return [*identity3(), *zeros(3, 3)]

    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> list[Scalar]:
        """½ q ⊗ (0, ω)."""
        return quaternion_rate(q, v)

    def random(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> FloatArray:
        """Uniformly distributed rotation."""
        return quat_normalize(rng.standard_normal((*batch, 4)))


@final
class Free(ConstantAxes):
    """All six degrees of freedom: q = [quaternion (w, x, y, z), position in inboard axes (m)].

    v = [ω (rad/s), v (m/s)], both in body axes at the body origin; H* = I.
    """

    __slots__ = ()
    kind = "free"
    group = SE3
    nq, nv = group.nq, group.nv
    coordinate_names = ("qw", "qx", "qy", "qz", "x", "y", "z")
    degree = 5

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """R(q), p = position."""
        return rotation_of_quaternion(q[:4]), list(q[4:])

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """The 6×6 identity."""
        return [[1 if i == j else 0 for j in range(6)] for i in range(6)]

    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> list[Scalar]:
        """[½ q ⊗ (0, ω), R(q) v]."""
        return [*quaternion_rate(q[:4], v[:3]), *matvec(rotation_of_quaternion(q[:4]), v[3:])]

    def random(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> FloatArray:
        """Uniformly distributed rotation, positions in [−1, 1] m."""
        rotation = quat_normalize(rng.standard_normal((*batch, 4)))
        return np.concatenate([rotation, rng.uniform(-1.0, 1.0, (*batch, 3))], axis=-1)


# ---- several in a row ----------------------------------------------------------------------------


@final
class Composite(Joint):
    """Joints one after the other, the first one inboard, with at most 6 degrees of freedom in all.

    q, v and params are those of the parts, concatenated in order. H* holds the columns of each part
    carried to the final body frame: X_j* H_j*, where X_j is the pose of that frame in the outboard
    frame of part j.

    Parameters
    ----------
    joints : iterable of Joint
        The parts, inboard first.
    """

    __slots__ = (
        "joints", "kind", "nq", "nv", "is_additive", "coordinate_names", "param_kinds", "degree",
        "_q", "_v", "_p",
    )  # fmt: skip
    joints: tuple[Joint, ...]
    _q: tuple[slice, ...]
    _v: tuple[slice, ...]
    _p: tuple[slice, ...]

    def __init__(self, joints: Iterable[Joint] = ()) -> None:
        parts = tuple(joints)
        for part in parts:
            if not is_a(part, Joint):
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
        turn, p = identity3(), [0, 0, 0]
        for part, part_params, part_q, _ in self._parts(params, q):
            R_part, p_part = part.transform(part_params, part_q, ops)
            turn, p = matmul(turn, R_part), plus(p, matvec(turn, p_part))
        return turn, p

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """Columns of every part carried to the body frame."""
        blocks: list[list[list[Scalar]]] = []
        turn, p = identity3(), [0, 0, 0]
        for part, part_params, part_q, _ in reversed(list(self._parts(params, q))):
            H = part.hinge_axes(part_params, part_q, ops)
            blocks.append([_carry(turn, p, column) for column in _columns(H, part.nv)])
            turn, p = _prepend(part.transform(part_params, part_q, ops), turn, p)
        return from_columns([column for block in reversed(blocks) for column in block])

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Product rule: X* Ḣ_j* − crm(V) X* H_j*, V the motion of the parts outboard of j."""
        blocks: list[list[list[Scalar]]] = []
        turn, p = identity3(), [0, 0, 0]
        motion: list[Scalar] = [0] * 6
        for part, part_params, part_q, rates in reversed(list(self._parts(params, q))):
            part_v = v[rates]
            H = part.hinge_axes(part_params, part_q, ops)
            H_rate = part.hinge_axes_rate(part_params, part_q, part_v, ops)
            carried = [_carry(turn, p, column) for column in _columns(H, part.nv)]
            changing = [_carry(turn, p, column) for column in _columns(H_rate, part.nv)]
            blocks.append(
                [
                    plus(own, [neg(x) for x in _cross_motion(motion, column)])
                    for own, column in zip(changing, carried, strict=True)
                ]
            )
            if part.nv:
                motion = plus(motion, [dot(row, part_v) for row in from_columns(carried)])
            turn, p = _prepend(part.transform(part_params, part_q, ops), turn, p)
        return from_columns([column for block in reversed(blocks) for column in block])

    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> list[Scalar]:
        """q̇ of the parts, concatenated."""
        out: list[Scalar] = []
        for part, part_params, part_q, rates in self._parts(params, q):
            out.extend(part.q_rate(part_params, part_q, v[rates], ops))
        return out

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> FloatArray:
        """Integrate every part independently."""
        a, b = np.asarray(q, dtype=np.float64), np.asarray(dv, dtype=np.float64)
        out = np.empty((*np.broadcast_shapes(a.shape[:-1], b.shape[:-1]), self.nq))
        for part, i, j in zip(self.joints, self._q, self._v, strict=True):
            out[..., i] = part.integrate(a[..., i], b[..., j])
        return out

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> FloatArray:
        """Difference of every part independently."""
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

    def parts(self, q: int = 0, v: int = 0) -> Iterator[tuple[LieGroup, int, int]]:
        """The groups of the joints, in order."""
        for part, i, j in zip(self.joints, self._q, self._v, strict=True):
            yield from part.parts(q + i.start, v + j.start)

    def _parts(self, params: Vector, q: Vector) -> Iterator[tuple[Joint, Vector, Vector, slice]]:
        """Each part with its params, its coordinates and the slice of its rates."""
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
