"""Gears: wheels in mesh, planetary gears and differentials, racks, screws.

Forces of their teeth on shafts, and pitch cones of bevel wheels: `tooth_forces`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from phipsi.core.constraints import PARALLEL, SLIDES, TURNS, Relations, Shares, axis_of, names_of
from phipsi.core.model import Model, fill
from phipsi.errors import ModelError, number_of, true_or_false
from phipsi.transmissions.tooth_forces import (
    ToothForce,
    checked_angle,
    of_cones,
    of_rack,
    of_wheels,
    pitch_cones,
)


@final
@dataclass(frozen=True)
class Gear(Relations):
    """Two gear wheels in mesh, both on one carrier body: 1 row.

    Give either `ratio` or `teeth`. With `module` and `pressure_angle`, `joint_reactions` returns
    the forces of the teeth on both shafts, and `transmitted` the force itself; the distance of
    parallel shafts must fit. Without them the shafts get torques only: bearings carry more than it
    says.

    Parameters
    ----------
    name : str
        Name of the constraint, unique in its system.
    offset : array_like, optional
        As for `Coupling`. Default: 0.
    driver, driven : str
        Joints of the two wheels.
    ratio : float, optional
        Turns of the driver per turn of the driven joint, negative where they turn against each
        other by the signs of their joint axes.
    teeth : tuple of (float, float), optional
        Numbers of teeth (driver, driven). For wheels on parallel shafts the sense of rotation
        follows from the axes: opposite, or the same if the ring is `internal`; for bevel wheels, on
        axes that meet, from where on their axes the origins of the joints are.
    internal : bool, optional
        Whether one wheel is a ring with internal teeth. Default: False.
    module : float, optional
        m of pitch diameter per tooth (of bevel wheels in the middle of the teeth).
    pressure_angle : float, optional
        rad.

    Examples
    --------
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
            angle = checked_angle(self.pressure_angle, self._who())
            fill(self, module=module, pressure_angle=angle)
        if true_or_false(f"{self._who()}: internal", self.internal) and self.teeth is None:
            raise ModelError(
                f"{self._who()}: internal=True gives teeth their sense of rotation; a ratio has it "
                "in its sign. Remove one of the two."
            )
        if (self.ratio is None) is (self.teeth is None):
            raise ModelError(
                f"{self._who()}: give either ratio=, turns of the driver per turn of the driven "
                f"joint, or teeth=(driver, driven)."
            )
        if self.ratio is not None:
            fill(self, ratio=self._not_zero("ratio", self.ratio, ""))
        else:
            teeth = self._teeth("driver and driven wheel", self.teeth, 2)
            fill(self, teeth=tuple(teeth.tolist()))

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """q_driver = ratio · q_driven."""
        signs = self._wheels(model, {"driver": self.driver, "driven": self.driven})
        ratio = self.ratio
        if ratio is None:
            assert self.teeth is not None
            if signs is None:
                if self.internal:
                    raise ModelError(
                        f"{self._who()}: the axes of {self.driver!r} and {self.driven!r} are not "
                        "parallel, and a ring with teeth inside is on a parallel shaft. Remove "
                        "internal=True."
                    )
                sense = pitch_cones(model, self._pair(model), self.teeth, self._who()).sense
            else:
                sense = (1.0 if self.internal else -1.0) * signs[1]
            ratio = sense * self.teeth[1] / self.teeth[0]
        return {"mesh": {self.driver: 1.0, self.driven: -ratio}}

    def _pair(self, model: Model) -> tuple[int, int]:
        return model.joint(self.driver).index, model.joint(self.driven).index

    def shaft_forces(self, model: Model) -> tuple[ToothForce, ...]:
        """At the pitch point, if module and pressure angle are given."""
        if self.module is None or self.pressure_angle is None:
            return ()
        assert self.teeth is not None
        shares = self.relations(model)["mesh"]
        both, angle = (shares[self.driver], shares[self.driven]), self.pressure_angle
        bodies, who = self._pair(model), self._who()
        if self._wheels(model, {"driver": self.driver, "driven": self.driven}) is None:
            return (of_cones(model, bodies, both, self.teeth, self.module, angle, who),)
        radii = 0.5 * self.module * self.teeth[0], 0.5 * self.module * self.teeth[1]
        return (of_wheels(model, bodies, both, radii, angle, who, internal=self.internal),)

    def _geometry(self, model: Model) -> str:
        """Teeth, module and pressure angle; the module that fits, where the shafts are parallel."""
        ratio = abs(self.relations(model)["mesh"][self.driven])
        teeth = self.teeth or ((20.0, 20.0 * ratio) if ratio >= 1 else (20.0 / ratio, 20.0))
        signs = self._wheels(model, {"driver": self.driver, "driven": self.driven})
        size, inside = 0.004, self.internal
        if signs is not None:
            (a, one), (_, other) = (axis_of(model, k) for k in self._pair(model))
            apart = float(np.linalg.norm(np.cross(a, other - one)))
            if self.ratio is not None:
                inside = self.ratio * signs[1] > 0
            sizes = abs(teeth[1] - teeth[0]) if inside else sum(teeth)
            size = 2 * apart / sizes if sizes else 0.0
            if size < 1e-12:
                return (
                    "Its wheels are on one line or have one size, where no two pitch circles "
                    "touch; it stands for a gearbox, whose teeth are not part of the model."
                )
        more = ", internal=True" if inside else ""
        return (
            f"Give the geometry of its teeth, for example\n    teeth=({teeth[0]:g}, {teeth[1]:g})"
            f"{more}, module={size:.6g}, pressure_angle=np.deg2rad(20)"
        )


@final
@dataclass(frozen=True)
class Planetary(Relations):
    """Planetary gear: sun, ring and carrier on one housing, coaxial, 1 row (Willis).

    z_sun (q_sun − q_carrier) + z_ring (q_ring − q_carrier) = 0. With a `planet` a second row turns
    it with the sun; its number of teeth is (z_ring − z_sun)/2. One of the three shafts may be
    omitted by locking it: a joint that is locked (`with_locked`), or welded into the housing and
    not named: `ring=None`. Shafts get torques only; the forces of evenly spaced planets cancel
    there, that of one planet does not.

    Parameters
    ----------
    name : str
        Name of the constraint, unique in its system.
    offset : array_like, optional
        As for `Coupling`. Default: 0.
    sun : str
        Joint of the sun.
    ring : str or None
        Joint of the ring; None if it is fixed in the housing.
    carrier : str
        Joint of the carrier.
    teeth : tuple of (float, float)
        Numbers of teeth (sun, ring).
    planet : str or sequence of str, optional
        A joint on the carrier's body; several planets, ``planet=("p0", "p1", "p2")``, have a row
        each.

    Examples
    --------
    >>> import phipsi as pp
    >>> gear = pp.constraints.Planetary(
    ...     name="stage", sun="motor", ring=None, carrier="wheel", teeth=(20, 60))
    """

    sun: str = field(kw_only=True)
    ring: str | None = field(kw_only=True)
    carrier: str = field(kw_only=True)
    teeth: tuple[float, float] = field(kw_only=True)
    planet: str | list[str] | tuple[str, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.planet, list | tuple):
            planets = names_of(self.planet, f"{self._who()}: planet")
            fill(self, planet=planets or None)
        names = dict(sun=self.sun, ring=self.ring, carrier=self.carrier)
        for name in self.planets:
            names["planet" if name == self.planet else f"planet {len(names) - 3}"] = name
        self._different(**names)
        teeth = self._teeth("sun and ring", self.teeth, 2)
        if teeth[1] <= teeth[0]:
            raise ModelError(
                f"{self._who()}: teeth={self.teeth!r} (sun, ring): the ring goes around the sun "
                f"and the planets between them, so it has more teeth than the sun."
            )
        fill(self, teeth=tuple(teeth.tolist()))

    @property
    def planets(self) -> tuple[str, ...]:
        """The joints of the planets."""
        one = self.planet
        return () if one is None else tuple(one) if isinstance(one, list | tuple) else (one,)

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """Rows "mesh" and, with a planet, "planet"; with several, "planet p0" and so on."""
        given = {"sun": self.sun, "carrier": self.carrier, "ring": self.ring}
        names = {role: name for role, name in given.items() if name is not None}
        signs = dict(zip(names, self._coaxial(model, names), strict=True))
        sun, ring = self.teeth
        shares = {self.sun: sun, self.carrier: -(sun + ring) * signs["carrier"]}
        if self.ring is not None:
            shares[self.ring] = ring * signs["ring"]
        rows = {"mesh": shares}
        for name in self.planets:
            along = self._on_carrier(model, name, signs["carrier"])
            rows["planet" if name == self.planet else f"planet {name}"] = {
                self.sun: sun,
                self.carrier: -sun * signs["carrier"],
                name: 0.5 * (ring - sun) * along,
            }
        return rows

    def _on_carrier(self, model: Model, name: str, along: float) -> float:
        """+1 if a planet's axis is that of the sun, −1 if it is opposite."""
        planet = self._of_kind(model, name, "planet", TURNS)
        carrier = model.joint(self.carrier)
        if model.parent[planet.index] != carrier.index:
            raise ModelError(
                f"{self._who()}: planet={name!r} must be a joint on body "
                f"{model.body_names[carrier.index]!r}, which the carrier joint "
                f"{self.carrier!r} turns."
            )
        axis = model.placements[planet.index].rotation @ np.array(planet.joint.params[:3])
        cosine = along * float(axis @ np.array(carrier.joint.params[:3]))
        if 1 - abs(cosine) > PARALLEL:
            raise ModelError(
                f"{self._who()}: the axis of planet={name!r} is not parallel to that of "
                f"the carrier {self.carrier!r}; planets of bevel gears are a `Differential`."
            )
        return float(np.sign(cosine))


@final
@dataclass(frozen=True)
class Differential(Relations):
    """Bevel differential: the carrier turns with the mean of the two side shafts, 1 row.

    q_left + q_right = 2 q_carrier, the three joints coaxial on one housing; joints whose axes point
    the other way count negative. Shafts get torques only, not the thrust of the bevel wheels.

    Parameters
    ----------
    name : str
        Name of the constraint, unique in its system.
    offset : array_like, optional
        As for `Coupling`. Default: 0.
    left, right : str
        Joints of the side shafts.
    carrier : str
        Joint of the carrier.

    Examples
    --------
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

    With the `pressure_angle`, `joint_reactions` returns the forces of the teeth, and `transmitted`
    the force itself.

    Parameters
    ----------
    name : str
        Name of the constraint, unique in its system.
    offset : array_like, optional
        As for `Coupling`. Default: 0.
    pinion : str
        A revolute joint.
    rack : str
        A prismatic joint.
    radius : float
        Pitch radius in m. If negative, the rack moves against its axis while the pinion turns about
        its own.
    pressure_angle : float, optional
        rad.

    Examples
    --------
    >>> import phipsi as pp
    >>> steering = pp.constraints.RackPinion(name="rack", pinion="wheel", rack="bar", radius=0.01)
    """

    pinion: str = field(kw_only=True)
    rack: str = field(kw_only=True)
    radius: float = field(kw_only=True)
    pressure_angle: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        fill(self, radius=self._not_zero("radius", self.radius, " of metres"))
        if self.pressure_angle is not None:
            fill(self, pressure_angle=checked_angle(self.pressure_angle, self._who()))

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """One row, "mesh"."""
        self._of_kind(model, self.pinion, "pinion", TURNS)
        self._of_kind(model, self.rack, "rack", SLIDES)
        return {"mesh": {self.rack: 1.0, self.pinion: -self.radius}}

    def shaft_forces(self, model: Model) -> tuple[ToothForce, ...]:
        """Where pinion and rack touch, if the pressure angle is given."""
        if self.pressure_angle is None:
            return ()
        bodies = model.joint(self.pinion).index, model.joint(self.rack).index
        return (of_rack(model, *bodies, self.radius, self.pressure_angle, self._who()),)

    def _geometry(self, model: Model) -> str:
        """The pressure angle."""
        return "Give the angle of its teeth, for example\n    pressure_angle=np.deg2rad(20)"


@final
@dataclass(frozen=True)
class Screw(Relations):
    """A spindle moves a nut by `lead` (m) per turn: q_nut = lead · q_spindle / 2π, 1 row.

    (A body that turns and slides at once is on a helical joint and needs no constraint.)

    Parameters
    ----------
    name : str
        Name of the constraint, unique in its system.
    offset : array_like, optional
        As for `Coupling`. Default: 0.
    spindle : str
        A revolute joint.
    nut : str
        A prismatic joint.
    lead : float
        m per turn; signs are those of the joint axes. On parallel axes a right-hand thread pulls
        the nut against the axis of the spindle: its lead is negative.

    Examples
    --------
    >>> import phipsi as pp
    >>> lift = pp.constraints.Screw(name="lift", spindle="motor", nut="table", lead=0.005)
    """

    spindle: str = field(kw_only=True)
    nut: str = field(kw_only=True)
    lead: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        fill(self, lead=self._not_zero("lead", self.lead, " of metres per turn"))

    def relations(self, model: Model) -> Mapping[str, Shares]:
        """One row, "thread"."""
        self._of_kind(model, self.spindle, "spindle", TURNS)
        self._of_kind(model, self.nut, "nut", SLIDES)
        return {"thread": {self.nut: 1.0, self.spindle: -self.lead / (2 * np.pi)}}
