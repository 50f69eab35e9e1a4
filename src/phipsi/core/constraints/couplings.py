"""Couplings: linear relations between the coordinates of joints, as gears, belts and screws make.

Coordinates of joints are relative to their parents. A gear pair relates angles against the part
that carries both wheels, so the joints of `Gear`, `Planetary`, `Differential` and `Belt` are on the
same body; `Coupling` relates any joints. Rows are named after the machine element, so that errors,
reports and reactions name it too. The multiplier of a row is the effort that the element transmits:
−coefficient · multiplier acts on each joint.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.constraints.constraint import (
    Array,
    Constraint,
    check_name,
    names_of,
    numbers_of,
    one_coordinate,
    rate_row,
)
from phipsi.core.constraints.shaft_forces import Transmitted, transmitted_by
from phipsi.core.model import (
    WORLD,
    Closure,
    JointView,
    Model,
    Pose,
    as_floats,
    fill,
    joints as tree_joints,
)
from phipsi.errors import InputError, ModelError, number_of

TURNS, SLIDES = (tree_joints.Revolute,), (tree_joints.Prismatic,)
PARALLEL = 1e-9  # how far from parallel the axes of wheels may be

Shares = dict[str, float]


@dataclass(frozen=True)
class Relations(Constraint):
    """Rows Σ coefficient · q = offset over joints of one coordinate."""

    name: str = field(kw_only=True)
    offset: ArrayLike = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name, type(self).__name__)
        offsets = numbers_of(self.offset, f"{self._who()}: offset")
        if offsets.ndim > 1 or not np.isfinite(offsets).all():
            raise ModelError(
                f"{self._who()}: offset={self.offset!r} must be one finite number, or one per row."
            )
        kept = float(offsets) if offsets.ndim == 0 else tuple(offsets.tolist())
        fill(self, offset=kept)

    @abstractmethod
    def relations(self, model: Model) -> Mapping[str, Shares]:
        """Row → joint → coefficient."""

    def _offsets(self, rows: int) -> Array:
        offsets = np.asarray(self.offset, float)
        if offsets.shape not in ((), (rows,)):
            raise ModelError(
                f"{self._who()}: {offsets.size} offsets for {rows} rows; give one number, or "
                f"{rows}."
            )
        return np.broadcast_to(offsets, (rows,))

    def closure(self, model: Model) -> Closure:
        """The rate of each joint as a constant row on the motions of the bodies it joins."""
        relations = self.relations(model)
        self._offsets(len(relations))
        places = {name: i for i, name in enumerate(_joints_of(relations))}
        points: list[tuple[int, Pose]] = []
        matrix = np.zeros((len(relations), len(places), 2, 6))
        for name, i in places.items():
            view = one_coordinate(model, name, self._who())
            ends, motion = rate_row(model, view)
            points += ends
            share = [of.get(name, 0.0) for of in relations.values()]
            matrix[:, i] = np.multiply.outer(share, motion)
        return Closure(
            name=self.name,
            rows=tuple(relations),
            points=tuple(points),
            matrix=matrix.reshape(len(relations), -1),
        )

    def coordinates(self, model: Model) -> tuple[tuple[Array, float], ...]:
        """Coefficients over all of q, and the offset, of each row."""
        relations = self.relations(model)
        rows = np.zeros((len(relations), model.nq))
        for row, shares in zip(rows, relations.values(), strict=True):
            for name, c in shares.items():
                row[model.q_slice(name)] = c
        return tuple(zip(rows, self._offsets(len(rows)).tolist(), strict=True))

    def fitted(self, model: Model, q: Array) -> Self:
        """The same gears, engaged where the joints are now."""
        offsets = [float(row @ q) for row, _ in self.coordinates(model)]
        return replace(self, offset=offsets[0] if len(offsets) == 1 else tuple(offsets))

    def with_locked(
        self, model: Model, locked: Mapping[str, ArrayLike], before: Model
    ) -> Constraint | None:
        """The relations of the joints that are left, the others' share in the offsets."""
        relations = self.relations(before)
        mine = [name for name in _joints_of(relations) if name in locked]
        if not mine:
            return self
        gone = {name: float(np.squeeze(locked[name])) for name in mine}
        rows: dict[str, tuple[Shares, float]] = {}
        for (row, shares), offset in zip(
            relations.items(), self._offsets(len(relations)), strict=True
        ):
            left = {name: c for name, c in shares.items() if name not in gone}
            still = sum(c * gone[name] for name, c in shares.items() if name in gone)
            if left:
                rows[row] = left, float(offset - still)
        if not rows:
            return None
        shares = {row: left for row, (left, _) in rows.items()}
        offsets = tuple(o for _, o in rows.values())
        whole, unlocked = self._before_locking(before)
        return PartlyLocked(
            name=self.name, rows=shares, offset=offsets, whole=whole, unlocked=unlocked
        )

    def _before_locking(self, before: Model) -> tuple[Relations, Model]:
        """The element without locked joints, and the model in which it has them all."""
        return self, before

    def transmitted(self, system: Any, poses: ArrayLike, f: ArrayLike) -> Transmitted:
        """The forces between its parts: at pitch points, or of the spans of a belt.

        Their moments about the axes are the torques of the rows; bearings carry what is across the
        axes, which `joint_reactions` returns. Where the geometry is not given, the error says what
        to add.

        Parameters
        ----------
        system : System
            The system with this constraint.
        poses : array_like, shape (..., bodies, 4, 4)
            Poses of the bodies, `pp.poses`.
        f : array_like, shape (..., rows)
            Multipliers of all rows of the system.

        Returns
        -------
        Transmitted
            `bodies` (k names), `places` and `forces` (..., k, 3), world axes, m and N. A gear has
            one force and its negative; a belt two per span.
        """
        model, closures = system.model, system.closures
        mine = [i for i, x in enumerate(closures.closures) if x.name == self.name]
        if not mine or self not in system.constraints:
            raise ModelError(f"{self._who()} is not a constraint of this system.")
        found = self.shaft_forces(model)
        if not found:
            raise ModelError(
                f"{self._who()}: the forces between its parts need geometry that was not given; "
                f"its row determines the joint torques only. {self._geometry(model)}"
            )
        first = int(np.flatnonzero(closures.row_closure == mine[0])[0])
        X, rows = as_floats("poses", poses), as_floats("f", f)
        if X.shape[-3:] != (model.n_bodies, 4, 4) or rows.shape[-1:] != (closures.n_rows,):
            raise InputError(
                f"{self._who()}.transmitted: poses of shape {X.shape} and f of shape {rows.shape} "
                f"must be (..., {model.n_bodies}, 4, 4) and (..., {closures.n_rows}):\n"
                f"    motion = pp.forward_dynamics(system, q, v, tau, return_multipliers=True)\n"
                f"    gear.transmitted(system, pp.poses(system, q), motion.f)"
            )
        return transmitted_by(found, model, first, X, rows)

    def _geometry(self, model: Model) -> str:
        """What to add to know where its parts touch."""
        return (
            "It stands for any mechanism with this relation. A pair of wheels is\n"
            "    pp.constraints.Gear(name=…, driver=…, driven=…, teeth=(20, 50), module=0.004, "
            "pressure_angle=np.deg2rad(20))"
        )

    def _of_kind(self, model: Model, name: str, role: str, kinds: tuple[type, ...]) -> JointView:
        """The joint in a role, of the kinds that the machine element needs."""
        view = one_coordinate(model, name, self._who())
        if not isinstance(view.joint, kinds):
            wanted = " or ".join(kind.kind for kind in kinds)  # type: ignore[attr-defined]
            raise ModelError(
                f"{self._who()}: {role}={name!r} is a {view.joint.kind} joint and must be "
                f"{wanted}. Other relations between joints are written as\n"
                f"    pp.constraints.Coupling(name={self.name!r}, joints=(…), coefficients=(…))"
            )
        return view

    def _wheels(self, model: Model, names: Mapping[str, str]) -> list[float] | None:
        """Whether each wheel turns about the first one's axis (+1) or against it (−1).

        None if the axes are not parallel. `names`: role → revolute joint, all on one body.
        """
        views = [self._of_kind(model, name, role, TURNS) for role, name in names.items()]
        carriers = {model.parent[view.index]: view.name for view in views}
        if len(carriers) > 1:
            who = ["the world" if k == WORLD else model.body_names[k] for k in carriers]
            raise ModelError(
                f"{self._who()}: joints {list(names.values())} are on different bodies "
                f"({', '.join(who)}). Wheels in mesh turn on one carrier, and angles of joints "
                f"are measured against the body that a joint is on. Put the joints on the same "
                f"parent, or write the relation of the joint angles yourself:\n"
                f"    pp.constraints.Coupling(name={self.name!r}, joints={tuple(names.values())}, "
                f"coefficients=(…))"
            )
        axes = [model.placements[v.index].rotation @ np.array(v.joint.params[:3]) for v in views]
        along = [float(axes[0] @ axis) for axis in axes]
        if any(1 - abs(x) > PARALLEL for x in along):
            return None
        return [float(np.sign(x)) for x in along]

    def _coaxial(self, model: Model, names: Mapping[str, str]) -> list[float]:
        signs = self._wheels(model, names)
        if signs is None:
            raise ModelError(
                f"{self._who()}: the axes of {list(names.values())} are not parallel, as those of "
                f"its shafts are. Turn the placements of the joints so that they are."
            )
        return signs

    def _different(self, **roles: str | None) -> None:
        """Reject a joint in two roles."""
        seen: dict[str, str] = {}
        for role, name in roles.items():
            if name is not None and not isinstance(cast(object, name), str):
                raise ModelError(f"{self._who()}: {role}={name!r} must be the name of a joint.")
            if name is not None and name in seen:
                raise ModelError(
                    f"{self._who()}: joint {name!r} is both {seen[name]}= and {role}=; each is a "
                    f"joint of its own."
                )
            if name is not None:
                seen[name] = role

    def _not_zero(self, what: str, value: Any, unit: str) -> float:
        number = number_of(value)
        if not np.isfinite(number) or number == 0:
            raise ModelError(
                f"{self._who()}: {what}={value!r} must be a finite number{unit} and not 0."
            )
        return number

    def _teeth(self, names: str, value: Any, count: int) -> Array:
        """Numbers of teeth, one per wheel."""
        teeth = numbers_of(value, f"{self._who()}: teeth")
        if teeth.shape != (count,) or not (np.isfinite(teeth).all() and (teeth > 0).all()):
            raise ModelError(
                f"{self._who()}: teeth={value!r} must be {count} numbers above 0, those of {names}."
            )
        return teeth


@final
@dataclass(frozen=True)
class PartlyLocked(Relations):
    """What is left of a coupling some of whose joints are locked.

    `whole` is the element, and `unlocked` the model, in which no joint of it was locked: pages draw
    its wheels by them.
    """

    rows: Mapping[str, Shares] = field(kw_only=True)
    whole: Relations = field(kw_only=True, repr=False, compare=False)
    unlocked: Model = field(kw_only=True, repr=False, compare=False)

    @property
    def kind_name(self) -> str:
        """That of the element that it was."""
        return self.whole.kind_name

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """Those given."""
        return self.rows

    def _before_locking(self, before: Model) -> tuple[Relations, Model]:
        return self.whole, self.unlocked

    def __repr__(self) -> str:
        left = ", ".join(map(repr, _joints_of(self.rows)))
        return f"<{self.kind_name} {self.name!r}, some joints locked: {left} left>"

    def _who(self) -> str:
        return f"{self.kind_name} {self.name!r}"


@final
@dataclass(frozen=True)
class Coupling(Relations):
    """Any linear relation of joint coordinates: Σ coefficient · q = offset, 1 row.

    ``Coupling(name="gear", joints=("motor", "wheel"), coefficients=(1, -50))``: the motor turns 50
    times as fast. A matrix of coefficients gives several relations at once, as gear trains and
    differentials of any kind need.

    Parameters
    ----------
    name : str
        Name of the constraint, unique in its system.
    offset : array_like, optional
        Right-hand side, one number, or one per row. Default: 0.
    joints : sequence of str
        Names of revolute, prismatic or helical joints.
    coefficients : array_like, shape (joints,) or (rows, joints)
        Coefficients of the coordinates.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> gear = pp.constraints.Coupling(name="gear", joints=arm.joint_names, coefficients=(1, -50))
    >>> pp.System(arm, [gear]).mobility([0.0, 0.0]).mobility
    1
    """

    joints: Sequence[str] = field(kw_only=True)
    coefficients: ArrayLike = field(kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name, "Coupling")
        who = self._who()
        names = names_of(self.joints, f"{who}: joints")
        numbers = numbers_of(self.coefficients, f"{who}: coefficients")
        if not names or not numbers.size or numbers.ndim > 2 or numbers.shape[-1:] != (len(names),):
            raise ModelError(
                f"{who}: {len(names)} joints {list(names)} and coefficients of shape "
                f"{numbers.shape}; it needs one coefficient per joint, for example "
                f"joints=('left', 'right'), coefficients=(1, -1); several relations are the rows "
                f"of a matrix."
            )
        if len(set(names)) < len(names):
            raise ModelError(
                f"{who}: a joint is listed twice in {list(names)}; add up its coefficients."
            )
        matrix = numbers.reshape(-1, len(names))
        offsets = numbers_of(self.offset, f"{who}: offset")
        if (
            not np.isfinite(numbers).all()
            or not matrix.any(axis=0).all()
            or not np.isfinite(offsets).all()
        ):
            raise ModelError(
                f"{who}: coefficients {numbers.tolist()} and offset {self.offset!r} must be finite "
                f"numbers and no coefficient 0; a joint with coefficient 0 takes no part."
            )
        if np.linalg.matrix_rank(matrix) < len(matrix):
            raise ModelError(
                f"{who}: the {len(matrix)} rows of coefficients {numbers.tolist()} are linearly "
                "dependent; remove those that the others imply."
            )
        kept = tuple(map(tuple, matrix.tolist())) if numbers.ndim == 2 else tuple(numbers.tolist())
        fill(self, joints=names, coefficients=kept)
        super().__post_init__()

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """One row, "ratio", or those of the matrix by their numbers."""
        numbers = np.asarray(self.coefficients)
        if numbers.ndim == 1:
            return {"ratio": dict(zip(self.joints, numbers.tolist(), strict=True))}
        rows = [dict(zip(self.joints, row, strict=True)) for row in numbers.tolist()]
        return {str(i): {n: c for n, c in row.items() if c} for i, row in enumerate(rows)}

    def with_locked(
        self, model: Model, locked: Mapping[str, ArrayLike], before: Model
    ) -> Constraint | None:
        """The coupling of the joints that are left."""
        left = super().with_locked(model, locked, before)
        if left is None or left is self or np.ndim(self.coefficients) == 2:
            return left
        assert isinstance(left, PartlyLocked)
        shares, offset = left.rows["ratio"], np.ravel(left.offset)[0]
        return replace(
            self, joints=tuple(shares), coefficients=tuple(shares.values()), offset=float(offset)
        )


def _joints_of(relations: Mapping[str, Shares]) -> list[str]:
    """The joints of all rows, in order."""
    return list(dict.fromkeys(name for shares in relations.values() for name in shares))
