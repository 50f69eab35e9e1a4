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
from itertools import pairwise
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.constraints.constraint import (
    Array,
    Constraint,
    check_name,
    number_of,
    numbers_of,
)
from phipsi.constraints.joint_coordinates import one_coordinate, rate_row
from phipsi.constraints.tooth_forces import ToothForce, checked_angle, of_rack, of_wheels
from phipsi.errors import ModelError
from phipsi.model import joints as tree_joints
from phipsi.model.closures import Closure
from phipsi.model.model import Model
from phipsi.model.pose import Pose
from phipsi.model.tree import WORLD

_TURNS, _SLIDES = (tree_joints.Revolute,), (tree_joints.Prismatic,)
_PARALLEL = 1e-9  # how far from parallel the axes of wheels may be

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
        object.__setattr__(self, "offset", kept)

    @abstractmethod
    def relations(self, model: Model) -> Mapping[str, Shares]:
        """Row → joint → coefficient."""

    def _who(self) -> str:
        return f"{type(self).__name__} {self.name!r}"

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
        return _Partly(name=self.name, rows=shares, offset=tuple(o for _, o in rows.values()))

    def _of_kind(self, model: Model, name: str, role: str, kinds: tuple[type, ...]) -> Any:
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
        views = [self._of_kind(model, name, role, _TURNS) for role, name in names.items()]
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
        if any(1 - abs(x) > _PARALLEL for x in along):
            return None
        return [float(np.sign(x)) for x in along]

    def _coaxial(self, model: Model, names: Mapping[str, str]) -> list[float]:
        signs = self._wheels(model, names)
        if signs is None:
            raise ModelError(
                f"{self._who()}: the axes of {list(names.values())} are not parallel, but its "
                f"shafts lie on one line. Turn the placements of the joints so that they do."
            )
        return signs

    def _different(self, **roles: str | None) -> None:
        """Reject a joint in two roles."""
        seen: dict[str, str] = {}
        for role, name in roles.items():
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
class _Partly(Relations):
    """What is left of a coupling some of whose joints are locked."""

    rows: Mapping[str, Shares] = field(kw_only=True)

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """Those given."""
        return self.rows

    def _who(self) -> str:
        return f"Coupling {self.name!r}"


@final
@dataclass(frozen=True)
class Coupling(Relations):
    """Any linear relation: Σ coefficient · q = offset over joints of one coordinate, 1 row.

    ``Coupling(name="gear", joints=("motor", "wheel"), coefficients=(1, -50))``: the motor turns 50
    times as fast. The joints may be revolute, prismatic or helical. A matrix of coefficients (rows,
    joints) is as many relations at once, as gear trains and differentials of any kind make; then
    `offset` is one number, or one per row.
    """

    joints: Sequence[str] = field(kw_only=True)
    coefficients: ArrayLike = field(kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name, "Coupling")
        names = (self.joints,) if isinstance(self.joints, str) else tuple(self.joints)
        who = self._who()
        numbers = numbers_of(self.coefficients, f"{who}: coefficients")
        if not names or not numbers.size or numbers.ndim > 2 or numbers.shape[-1:] != (len(names),):
            raise ModelError(
                f"{who}: {len(names)} joints {list(names)} and coefficients of shape "
                f"{numbers.shape}; it needs one coefficient per joint, for example "
                f"joints=('left', 'right'), coefficients=(1, -1); several relations are the rows "
                f"of a matrix."
            )
        if len(set(names)) < len(names):
            raise ModelError(f"{who}: a joint is listed twice in {list(names)}; add the numbers.")
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
                f"{who}: the {len(matrix)} rows of coefficients {numbers.tolist()} depend on each "
                f"other; leave out those that the others imply."
            )
        object.__setattr__(self, "joints", names)
        kept = tuple(map(tuple, matrix.tolist())) if numbers.ndim == 2 else tuple(numbers.tolist())
        object.__setattr__(self, "coefficients", kept)
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
        assert isinstance(left, _Partly)
        shares, offset = left.rows["ratio"], np.ravel(left.offset)[0]
        return replace(
            self, joints=tuple(shares), coefficients=tuple(shares.values()), offset=float(offset)
        )


@final
@dataclass(frozen=True)
class Gear(Relations):
    """Two wheels in mesh, both on one carrier body: 1 row.

    Either `ratio`, turns of the driver per turn of the driven joint, negative where they turn
    against each other by the signs of their joint axes; or `teeth` (driver, driven) for wheels on
    parallel shafts, whose sense of rotation then follows from the axes: opposite, or the same if
    the ring is `internal`.

    With the `module`, m of pitch diameter per tooth, and the `pressure_angle` (rad),
    `joint_reactions` has the forces of the teeth on both shafts. Their distance must fit. Without
    them, and of bevel wheels, it has the efforts only: bearings carry more than it says.

    >>> import phipsi as pp
    >>> shaft, b = pp.SpatialInertia(1.0, (0, 0, 0), 0.1), pp.ModelBuilder(gravity=(0, 0, 0))
    >>> for name in ("motor", "drum"):
    ...     wheel = b.add_body(name, joint=pp.joints.Revolute((0, 0, 1)), inertia=shaft)
    >>> gear = pp.constraints.Gear(name="gear", driver="motor", driven="drum", teeth=(20, 60))
    >>> system = pp.System(b.build(), [gear])
    >>> print(pp.forward_dynamics(system, [0.0, 0.0], [0.0, 0.0], [1.0, 0.0]))
    [ 9. -3.]
    """

    driver: str = field(kw_only=True)
    driven: str = field(kw_only=True)
    ratio: float | None = field(default=None, kw_only=True)
    teeth: tuple[float, float] | None = field(default=None, kw_only=True)
    internal: bool = field(default=False, kw_only=True)
    module: float | None = field(default=None, kw_only=True)
    pressure_angle: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._different(driver=self.driver, driven=self.driven)
        if (self.module is None) is not (self.pressure_angle is None) or (
            self.module is not None and self.teeth is None
        ):
            raise ModelError(
                f"{self._who()}: forces of teeth need teeth=, module= (m of pitch diameter per "
                f"tooth) and pressure_angle= (rad), all three."
            )
        if self.module is not None:
            module = number_of(self.module)
            if not 0 < module < np.inf:
                raise ModelError(f"{self._who()}: module={self.module!r} must be above 0, in m.")
            object.__setattr__(self, "module", module)
            angle = checked_angle(self.pressure_angle, self._who())
            object.__setattr__(self, "pressure_angle", angle)
        if self.internal and self.teeth is None:
            raise ModelError(
                f"{self._who()}: internal=True gives teeth their sense of rotation; a ratio has it "
                f"in its sign. Leave one of the two out."
            )
        if (self.ratio is None) is (self.teeth is None):
            raise ModelError(
                f"{self._who()}: give either ratio=, turns of the driver per turn of the driven "
                f"joint, or teeth=(driver, driven)."
            )
        if self.ratio is not None:
            object.__setattr__(self, "ratio", self._not_zero("ratio", self.ratio, ""))
        else:
            teeth = self._teeth("driver and driven wheel", self.teeth, 2)
            object.__setattr__(self, "teeth", tuple(teeth.tolist()))

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """q_driver = ratio · q_driven."""
        signs = self._wheels(model, {"driver": self.driver, "driven": self.driven})
        ratio = self.ratio
        if ratio is None:
            assert self.teeth is not None
            if signs is None:
                raise ModelError(
                    f"{self._who()}: the axes of {self.driver!r} and {self.driven!r} are not "
                    f"parallel, so that teeth alone do not say in which sense the driven wheel "
                    f"turns. Give the ratio with its sign: ratio=±{self.teeth[1] / self.teeth[0]:g}"
                )
            sense = (1.0 if self.internal else -1.0) * signs[1]
            ratio = sense * self.teeth[1] / self.teeth[0]
        return {"mesh": {self.driver: 1.0, self.driven: -ratio}}

    def tooth_forces(self, model: Model) -> tuple[ToothForce, ...]:
        """At the pitch point, if module and pressure angle are given."""
        if self.module is None or self.pressure_angle is None:
            return ()
        assert self.teeth is not None
        shares = self.relations(model)["mesh"]
        bodies = model.joint(self.driver).index, model.joint(self.driven).index
        one, other = (0.5 * self.module * z for z in self.teeth)
        both = shares[self.driver], shares[self.driven]
        force = of_wheels(
            model, bodies, both, (one, other), self.pressure_angle, self._who(),
            internal=self.internal,
        )  # fmt: skip
        return (force,)


@final
@dataclass(frozen=True)
class Planetary(Relations):
    """Planetary gear: sun, ring and carrier on one housing, coaxial: 1 row (Willis).

    z_sun (q_sun − q_carrier) + z_ring (q_ring − q_carrier) = 0, with `teeth` (sun, ring). With a
    `planet`, a joint on the carrier's body, a second row turns it with the sun; its number of teeth
    is (z_ring − z_sun)/2. One of the three shafts may be left out by locking it: a joint that is
    held still (`with_locked`, or welded into the housing and not named: `ring=None`). Shafts get
    efforts only; the forces of planets that are spaced evenly cancel there, that of one does not.

    >>> import phipsi as pp
    >>> gear = pp.constraints.Planetary(
    ...     name="stage", sun="motor", ring=None, carrier="wheel", teeth=(20, 60))
    """

    sun: str = field(kw_only=True)
    ring: str | None = field(kw_only=True)
    carrier: str = field(kw_only=True)
    teeth: tuple[float, float] = field(kw_only=True)
    planet: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._different(sun=self.sun, ring=self.ring, carrier=self.carrier, planet=self.planet)
        teeth = self._teeth("sun and ring", self.teeth, 2)
        if teeth[1] <= teeth[0]:
            raise ModelError(
                f"{self._who()}: teeth={self.teeth!r} (sun, ring): the ring goes around the sun "
                f"and the planets between them, so it has more teeth than the sun."
            )
        object.__setattr__(self, "teeth", tuple(teeth.tolist()))

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """Rows "mesh" and, with a planet, "planet"."""
        given = {"sun": self.sun, "carrier": self.carrier, "ring": self.ring}
        names = {role: name for role, name in given.items() if name is not None}
        signs = dict(zip(names, self._coaxial(model, names), strict=True))
        sun, ring = self.teeth
        shares = {self.sun: sun, self.carrier: -(sun + ring) * signs["carrier"]}
        if self.ring is not None:
            shares[self.ring] = ring * signs["ring"]
        rows = {"mesh": shares}
        if self.planet is not None:
            along = self._on_carrier(model, signs["carrier"])
            rows["planet"] = {
                self.sun: sun,
                self.carrier: -sun * signs["carrier"],
                self.planet: 0.5 * (ring - sun) * along,
            }
        return rows

    def _on_carrier(self, model: Model, along: float) -> float:
        """+1 if the planet's axis is that of the sun, −1 if it is opposite."""
        assert self.planet is not None
        planet = self._of_kind(model, self.planet, "planet", _TURNS)
        carrier = model.joint(self.carrier)
        if model.parent[planet.index] != carrier.index:
            raise ModelError(
                f"{self._who()}: planet={self.planet!r} must be a joint on body "
                f"{model.body_names[carrier.index]!r}, which the carrier joint "
                f"{self.carrier!r} turns."
            )
        axis = model.placements[planet.index].rotation @ np.array(planet.joint.params[:3])
        cosine = along * float(axis @ np.array(carrier.joint.params[:3]))
        if 1 - abs(cosine) > _PARALLEL:
            raise ModelError(
                f"{self._who()}: the axis of planet={self.planet!r} is not parallel to that of "
                f"the carrier {self.carrier!r}; planets of bevel gears are a `Differential`."
            )
        return float(np.sign(cosine))


@final
@dataclass(frozen=True)
class Differential(Relations):
    """Bevel differential: the carrier turns with the mean of the two side shafts: 1 row.

    q_left + q_right = 2 q_carrier, the three joints coaxial on one housing; joints whose axes point
    the other way count negative. Shafts get efforts only, not the thrust of the bevel wheels.

    >>> import phipsi as pp
    >>> axle = pp.constraints.Differential(name="axle", left="wl", right="wr", carrier="cage")
    """

    left: str = field(kw_only=True)
    right: str = field(kw_only=True)
    carrier: str = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._different(left=self.left, right=self.right, carrier=self.carrier)

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """One row, "mean"."""
        names = {"left": self.left, "right": self.right, "carrier": self.carrier}
        left, right, carrier = self._coaxial(model, names)
        return {"mean": {self.left: left, self.right: right, self.carrier: -2 * carrier}}


@final
@dataclass(frozen=True)
class RackPinion(Relations):
    """A pinion of pitch radius `radius` (m) moves a rack: q_rack = radius · q_pinion, 1 row.

    A negative radius: the rack moves against its axis while the pinion turns about its own. With
    the `pressure_angle` (rad), `joint_reactions` has the forces of the teeth.

    >>> import phipsi as pp
    >>> steering = pp.constraints.RackPinion(name="rack", pinion="wheel", rack="bar", radius=0.01)
    """

    pinion: str = field(kw_only=True)
    rack: str = field(kw_only=True)
    radius: float = field(kw_only=True)
    pressure_angle: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "radius", self._not_zero("radius", self.radius, " of metres"))
        if self.pressure_angle is not None:
            angle = checked_angle(self.pressure_angle, self._who())
            object.__setattr__(self, "pressure_angle", angle)

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """One row, "mesh"."""
        self._of_kind(model, self.pinion, "pinion", _TURNS)
        self._of_kind(model, self.rack, "rack", _SLIDES)
        return {"mesh": {self.rack: 1.0, self.pinion: -self.radius}}

    def tooth_forces(self, model: Model) -> tuple[ToothForce, ...]:
        """Where pinion and rack touch, if the pressure angle is given."""
        if self.pressure_angle is None:
            return ()
        bodies = model.joint(self.pinion).index, model.joint(self.rack).index
        return (of_rack(model, *bodies, self.radius, self.pressure_angle, self._who()),)


@final
@dataclass(frozen=True)
class Screw(Relations):
    """A spindle moves a nut by `lead` (m) per turn: q_nut = lead · q_spindle / 2π, 1 row.

    The spindle is a revolute joint and the nut a prismatic one; signs are those of their axes. On
    parallel axes a right-hand thread pulls the nut against the axis of the spindle: its lead is
    negative. (A body that turns and slides at once is on a helical joint and needs no constraint.)

    >>> import phipsi as pp
    >>> lift = pp.constraints.Screw(name="lift", spindle="motor", nut="table", lead=0.005)
    """

    spindle: str = field(kw_only=True)
    nut: str = field(kw_only=True)
    lead: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "lead", self._not_zero("lead", self.lead, " of metres per turn"))

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """One row, "thread"."""
        self._of_kind(model, self.spindle, "spindle", _TURNS)
        self._of_kind(model, self.nut, "nut", _SLIDES)
        return {"thread": {self.nut: 1.0, self.spindle: -self.lead / (2 * np.pi)}}


@final
@dataclass(frozen=True)
class Belt(Relations):
    """A belt or chain without slip around pulleys on parallel shafts of one body: n − 1 rows.

    `radii` (m) of the `pulleys`, in the same order; a negative radius: the pulley touches the
    belt's back and turns against the first one. A crossed belt is a negative radius too. Shafts get
    efforts only: `joint_reactions` has no tension of the belt, which depends on how tight it is.

    >>> import phipsi as pp
    >>> belt = pp.constraints.Belt(name="belt", pulleys=("motor", "drum"), radii=(0.02, 0.1))
    """

    pulleys: Sequence[str] = field(kw_only=True)
    radii: ArrayLike = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = (self.pulleys,) if isinstance(self.pulleys, str) else tuple(self.pulleys)
        radii = numbers_of(self.radii, f"{self._who()}: radii")
        if len(names) < 2 or len(set(names)) < len(names) or radii.shape != (len(names),):
            raise ModelError(
                f"{self._who()}: pulleys {list(names)} and radii of shape {radii.shape}; a belt "
                f"runs over two or more different pulleys, each with its radius:\n"
                f"    pulleys=('motor', 'drum'), radii=(0.02, 0.1)"
            )
        if not np.isfinite(radii).all() or not radii.all():
            raise ModelError(
                f"{self._who()}: radii {radii.tolist()} must be finite, in m, and none 0."
            )
        object.__setattr__(self, "pulleys", names)
        object.__setattr__(self, "radii", tuple(radii.tolist()))

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """One row per neighbouring pair, named "motor–drum"."""
        roles = {f"pulley {i}": name for i, name in enumerate(self.pulleys)}
        signs, radii = self._coaxial(model, roles), np.asarray(self.radii)
        speeds = list(zip(self.pulleys, radii * signs, strict=True))
        return {f"{p}–{q}": {p: x, q: -y} for (p, x), (q, y) in pairwise(speeds)}


def _joints_of(relations: Mapping[str, Shares]) -> list[str]:
    """The joints of all rows, in order."""
    return list(dict.fromkeys(name for shares in relations.values() for name in shares))
