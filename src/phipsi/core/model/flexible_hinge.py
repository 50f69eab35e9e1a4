"""FlexibleHinge: the inboard joint of a body together with what adds rows on either side of it.

A body with modes has the coordinates [joint q, η] and the rates [joint v, η̇]: the modes are further
coordinates of its hinge. Its modal rows are added where blocks are computed
(`sweeps/modal_bodies.py`); here its six rigid rows are those of the joint. A body on a port of a
flexible one also has the numbers of that port. A joint with `RateRows` has a row for each rate that
they name, and no coordinates more.

Reasons: docs/decisions/0054, 0060.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.model.body import Body, Limits
from phipsi.core.model.compound_body import CompoundBody, CompoundPort
from phipsi.core.model.flexible_inertia import FlexibleInertia, Port
from phipsi.core.model.joint import Columns, FloatArray, Joint, Rotation
from phipsi.core.model.rate_rows import RateRows
from phipsi.core.model.scalar_linalg import Scalar, ScalarOps, Vector
from phipsi.core.model.validate import check_port
from phipsi.core.spatial import LieGroup, flat
from phipsi.errors import ModelError

_LOWER = ((0, 1, 1, 2, 2, 2), (0, 0, 1, 0, 1, 2))  # rows and columns of a lower half
_STRAIN = 0.02  # how far, of its length, a mode bends a body in a random configuration


@final
class FlexibleHinge(Joint):
    """A joint with modes of its outboard body, on a port that moves, or with rate rows.

    **Attributes:** `joint`, the one that was given; `inertia`, of the outboard body if that is
    flexible, and `modes`, how many it has; `port`, on which the joint sits, or None, and
    `port_modes`, the number of modes of the parent; `rate_rows` of the joint, or None. The body has
    `rows` beyond six, one for each mode or each of these rates, and the parent `parent_rows`.
    `params` are those of the joint, the numbers of the rate rows and, of the numbers of the body
    and the port, those that are not zero; `spread` puts the others between.
    """

    __slots__ = (
        "joint", "inertia", "modes", "places", "port", "port_modes", "port_places", "rate_rows",
        "rows", "parent_rows",
        "kind", "nq", "nv", "is_additive", "coordinate_names", "param_kinds", "aligned", "_filled",
    )  # fmt: skip
    joint: Joint
    inertia: FlexibleInertia | CompoundBody | None
    modes: int
    places: int
    port: Port | CompoundPort | None
    port_modes: int
    port_places: int
    rate_rows: RateRows | None
    rows: int
    parent_rows: int
    _filled: tuple[bool, ...]

    def __init__(
        self,
        joint: Joint,
        inertia: FlexibleInertia | CompoundBody | None,
        port: Port | CompoundPort | None,
        rate_rows: RateRows | None = None,
        parent_rows: int = 0,
    ) -> None:
        compound = isinstance(inertia, CompoundBody)
        n = 0 if inertia is None else inertia.modes
        places = inertia.places if isinstance(inertia, CompoundBody) else n
        if isinstance(port, CompoundPort):
            m, port_places = port.modes, port.places
        else:
            m = port_places = 0 if port is None else port.translation_modes.shape[1]
        numbers = (*_own_numbers(inertia), *_port_numbers(port))
        kept = [x for x in numbers if x != 0]
        kinds = tuple(kind for kind, _ in joint.blocks_of_params())
        if rate_rows is not None:
            kept, kinds = [*rate_rows.numbers, *kept], (*kinds, *rate_rows.kinds)
        plain = 0 if rate_rows is None else len(rate_rows.numbers)
        self._set(
            joint=joint,
            inertia=inertia,
            modes=n,
            places=places,
            port=port,
            port_modes=m,
            port_places=port_places,
            rate_rows=rate_rows,
            rows=n if rate_rows is None else len(rate_rows.rates),
            parent_rows=max(m, parent_rows),
            kind=_kind(joint, inertia, n),
            nq=joint.nq + places,
            nv=joint.nv + n,
            is_additive=joint.is_additive and not compound,
            coordinate_names=(*joint.coordinate_names, *_names(inertia, n)),
            params=(*joint.params, *kept),
            param_kinds=(*kinds, *("number",) * (len(kept) - plain)),
            aligned=None if n else joint.aligned,
            _filled=tuple(x != 0 for x in numbers),
            _arguments={
                "joint": joint,
                "inertia": inertia,
                "port": port,
                "rate_rows": rate_rows,
                "parent_rows": parent_rows,
            },  # fmt: skip
        )

    @property
    def formulas(self) -> str:
        """Those of the joint, with the rows on either side and the numbers that are not zero."""
        on = "" if self.port is None else f" on a port with {self.port_modes}"
        if self.parent_rows > self.port_modes:
            on += f" on {self.parent_rows} rows"
        if self.rate_rows is not None:
            return f"{self.joint.formulas} with {self.rate_rows.formulas}{on}"
        if isinstance(self.port, CompoundPort):
            on += f" {self.port.formulas}"
        filled = int("".join("01"[x] for x in self._filled) or "0", 2)
        own = f"{self.modes} modes"
        if isinstance(self.inertia, CompoundBody):
            own = f"{own} {self.inertia.formulas}"
        return f"{self.joint.formulas} with {own}{on}, {filled:x}"

    def spread(self, params: Vector) -> list[Scalar]:
        """The parameters of the joint, then all numbers of the body and the port, zeros too."""
        rest = iter(params[self.own_start :])
        return [*params[: self.own_start], *(next(rest) if x else 0 for x in self._filled)]

    @property
    def rates_of_rows(self) -> tuple[int, ...]:
        """Which rates the rows of the body beyond six are, in the numbering of the hinge."""
        rows = self.rate_rows
        return tuple(range(self.joint.nv, self.nv)) if rows is None else rows.rates

    @property
    def own_start(self) -> int:
        """Where the numbers of the flexible body begin in `spread`."""
        return len(self.joint.params)

    @property
    def port_start(self) -> int:
        """Where the numbers of the port begin in `spread`."""
        if isinstance(self.inertia, CompoundBody):
            return self.own_start + len(self.inertia.numbers)
        return self.own_start + packed_size(self.modes)

    # ---- the six rigid rows ----------------------------------------------------------------------

    def transform(self, params: Vector, q: Vector, ops: ScalarOps) -> tuple[Rotation, list[Scalar]]:
        """That of the joint: the body frame does not move with the modes of its body."""
        return self.joint.transform(params[: self.own_start], q[: self.joint.nq], ops)

    def hinge_axes(self, params: Vector, q: Vector, ops: ScalarOps) -> Columns:
        """Those of the joint, and a column of zeros for each mode."""
        rows = self.joint.hinge_axes(params[: self.own_start], q[: self.joint.nq], ops)
        return [[*row, *[0] * self.modes] for row in rows]

    def hinge_axes_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> Columns:
        """Those of the joint, and a column of zeros for each mode."""
        joint = self.joint
        own = params[: self.own_start], q[: joint.nq], v[: joint.nv]
        return [[*row, *[0] * self.modes] for row in joint.hinge_axes_rate(*own, ops)]

    def q_rate(self, params: Vector, q: Vector, v: Vector, ops: ScalarOps) -> list[Scalar]:
        """Those of the joint, and the rates of the modes."""
        joint, body = self.joint, self.inertia
        own = params[: self.own_start], q[: joint.nq], v[: joint.nv]
        rates: Sequence[Scalar] = v[joint.nv :]
        if isinstance(body, CompoundBody):
            numbers = self.spread(params)[self.own_start : self.port_start]
            rates = body.q_rate(numbers, q[joint.nq :], rates, ops)
        return [*joint.q_rate(*own, ops), *rates]

    # ---- configurations --------------------------------------------------------------------------

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> FloatArray:
        """The joint and a compound body on their groups, modes by addition."""
        a, b = np.asarray(q, dtype=np.float64), np.asarray(dv, dtype=np.float64)
        i, j = self.joint.nq, self.joint.nv
        own = self._own_group.integrate(a[..., i:], b[..., j:])
        parts = self.joint.integrate(a[..., :i], b[..., :j]), own
        return np.concatenate(parts, axis=-1)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> FloatArray:
        """The joint and a compound body on their groups, modes by subtraction."""
        a, b = np.asarray(q0, dtype=np.float64), np.asarray(q1, dtype=np.float64)
        i = self.joint.nq
        own = self._own_group.difference(a[..., i:], b[..., i:])
        parts = self.joint.difference(a[..., :i], b[..., :i]), own
        return np.concatenate(parts, axis=-1)

    @property
    def _own_group(self) -> LieGroup:
        body = self.inertia
        return body.group if isinstance(body, CompoundBody) else flat(self.modes)

    def neutral(self) -> FloatArray:
        """The neutral coordinates of the joint, and a body that is not deformed."""
        return np.concatenate([self.joint.neutral(), self._own_group.neutral])

    def random(self, rng: np.random.Generator, batch: tuple[int, ...] = ()) -> FloatArray:
        """The joint as without modes; ports move by at most 2 % of their distance per mode."""
        if isinstance(self.inertia, CompoundBody):
            eta = self.inertia.random(rng, batch)
        else:
            eta = rng.uniform(-1.0, 1.0, (*batch, self.modes))
            eta *= modal_amplitudes(self.inertia) if self.inertia is not None else 1.0
        return np.concatenate([self.joint.random(rng, batch), eta], axis=-1)

    def parts(self, q: int = 0, v: int = 0) -> Iterator[tuple[LieGroup, int, int]]:
        """The groups of the joint, then the modes."""
        yield from self.joint.parts(q, v)
        if self.modes:
            yield self._own_group, q + self.joint.nq, v + self.joint.nv


def rates_of_rows(joint: Joint) -> tuple[int, ...]:
    """Which rates of a joint the rows of its body beyond six are."""
    return getattr(joint, "rates_of_rows", ())


# ---- numbers of flexible bodies and ports --------------------------------------------------------


def _kind(joint: Joint, inertia: Any, n: int) -> str:
    if isinstance(inertia, CompoundBody):
        return f"{joint.kind} with {n} rate{'s' * (n > 1)} of loops"
    return joint.kind if not n else f"{joint.kind} with {n} mode{'s' * (n > 1)}"


def _names(inertia: Any, n: int) -> tuple[str, ...]:
    if isinstance(inertia, CompoundBody):
        return inertia.coordinate_names
    return tuple(f"eta{i + 1}" for i in range(n))


def _own_numbers(inertia: FlexibleInertia | CompoundBody | None) -> Sequence[Scalar]:
    if isinstance(inertia, CompoundBody):
        return inertia.numbers
    return [] if inertia is None else packed_inertia(inertia)


def _port_numbers(port: Port | CompoundPort | None) -> Sequence[Scalar]:
    if isinstance(port, CompoundPort):
        return port.numbers
    return [] if port is None else packed_port(port)


def packed_size(n: int) -> int:
    """How many numbers `packed_inertia` has."""
    pairs = n * (n + 1) // 2
    return 10 + n * (3 + 6 + 3) + pairs * (3 + 6 + 1 + 1 + 1) + 3 * n * n if n else 0


def _listed(values: Any) -> list[Scalar]:
    return np.asarray(values, dtype=np.float64).ravel().tolist()


def packed_inertia(x: Any, listed: Callable[[Any], list[Scalar]] = _listed) -> list[Scalar]:
    """All numbers of a flexible body in the order in which `FlexibleBody` reads them.

    `listed` makes a list of an array, which may be of exact numbers.
    """
    n = x.modes
    pairs = [(i, j) for i in range(n) for j in range(i + 1)]

    def lower(rows: Any) -> list[Scalar]:
        return listed(rows[_LOWER])

    out = [*listed(x.mass), *listed(x.first_moment), *lower(x.rotational_inertia)]
    for i in range(n):
        out += [*listed(x.S1[:, i]), *lower(x.J1[:, :, i]), *listed(x.C0[:, i])]
    for i, j in pairs:
        out += [*listed(x.S2[:, i, j]), *lower(x.J2[:, :, i, j])]
    for i in range(n):
        for j in range(n):
            out += listed(x.C1[:, i, j])
    for matrix in (x.modal_mass, x.stiffness, x.damping):
        out += [y for i, j in pairs for y in listed(matrix[i, j])]
    return out


def packed_port(port: Any, listed: Callable[[Any], list[Scalar]] = _listed) -> list[Scalar]:
    """R_0 and r_0, then turn and shift of every mode, then the second-order shifts."""
    m = port.translation_modes.shape[1]
    out = [*listed(port.rotation.reshape(9)), *listed(port.position)]
    for i in range(m):
        out += [*listed(port.rotation_modes[:, i]), *listed(port.translation_modes[:, i])]
    for i in range(m):
        for j in range(i + 1):
            out += listed(port.second_order[:, i, j])
    return out


def modal_amplitudes(x: FlexibleInertia | CompoundBody) -> FloatArray:
    """For every mode, the coordinate at which the body is bent by about 2 %; 1 for loops."""
    if isinstance(x, CompoundBody):
        return np.ones(x.modes)
    out = np.full(x.modes, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for port in x.ports:
            reach = float(np.linalg.norm(port.position))
            if reach:
                out = np.fmin(out, _STRAIN * reach / np.linalg.norm(port.translation_modes, axis=0))
            out = np.fmin(out, _STRAIN / np.linalg.norm(port.rotation_modes, axis=0))
        reach = np.linalg.norm(x.first_moment) / np.linalg.norm(x.S1, axis=0)
    out = np.where(np.isfinite(out), out, _STRAIN * reach)
    return np.where(np.isfinite(out) & (out > 0), out, _STRAIN)


def hinges_of(
    bodies: Sequence[Body], parents: Sequence[int], coupled: Mapping[int, RateRows]
) -> tuple[Joint, ...]:
    """The joints of a tree, as hinges where a body or its parent has rows beyond six.

    `coupled`, the rate rows of bodies that have them.
    """
    out: list[Joint] = []
    for k, (body, above) in enumerate(zip(bodies, parents, strict=True)):
        parent = bodies[above] if above >= 0 else None
        check_port(body, parent)
        flexible = None if parent is None else parent.flexible
        on = flexible.port(body.port) if flexible is not None and body.port else None
        if flexible is not None and on is None:  # "" is the frame that its modes do not move
            on = _frame_of(flexible)
        own, rows = coupled.get(k), len(coupled[above].rates) if above in coupled else 0
        plain = body.flexible is None and on is None and own is None and not rows
        hinge = FlexibleHinge(body.joint, body.flexible, on, own, rows) if not plain else None
        out.append(hinge or body.joint)
    return tuple(out)


def _frame_of(body: FlexibleInertia | CompoundBody) -> Port:
    if isinstance(body, CompoundBody):
        raise ModelError(
            "a body on a body of embedded loops sits on one of its ports, "
            f"{', '.join(repr(port.name) for port in body.ports)}, or on the body that carries it"
        )
    return Port("body frame", translation_modes=np.zeros((3, body.modes)))


def hinge_limits(body: Body) -> Limits:
    """The limits of a joint, and none for modes."""
    if body.limits is None or body.flexible is None:
        return body.limits
    n, (low, high) = getattr(body.flexible, "places", body.flexible.modes), body.limits
    return (*low, *(-np.inf,) * n), (*high, *(np.inf,) * n)
