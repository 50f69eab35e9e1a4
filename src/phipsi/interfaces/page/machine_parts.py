"""Machine elements of a system for a page: what they look like, where, and what is said of them.

Sizes that a constraint does not give follow from where its joints are: the pitch circles of a gear
touch between its shafts. What has neither size nor form, such as wheels on one axis or any other
relation, is a link between its joints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phipsi import constraints as c
from phipsi.constraints.couplings import Relations
from phipsi.constraints.pitch_cones import pitch_cones
from phipsi.errors import ModelError
from phipsi.forces.body_forces import PointSpring, PointSprings, RigidRopes, Rope
from phipsi.forces.elastic_couplings import ElasticCoupling
from phipsi.forces.frame_forces import Bushing, TorsionSpring
from phipsi.interfaces.page import machine_solids as solids
from phipsi.interfaces.page.machine_places import (
    BRASS,
    DARK,
    MOTOR,
    PARALLEL,
    RUBBER,
    STEEL,
    Array,
    Coil,
    LinearRow,
    Machine,
    MachinePart,
    Wheel,
    are_coaxial,
    between,
    size_of,
    z_along,
)
from phipsi.interfaces.page.shapes_and_colors import given_joint
from phipsi.model import Model, Pose
from phipsi.model.tree import WORLD
from phipsi.operators.row_laws import ARRAY_NUMBERS

_MOST_TEETH = 400
_FLAT = 1.4  # rad; flatter cones are no solids


def machines_of(
    model: Model, constraints: Sequence[c.Constraint], forces: Sequence[Any] = ()
) -> list[Machine]:
    """The machine elements among the constraints of a system and the forces on it.

    Joints between two frames are none: pages draw them as loops; nor are clocks.
    """
    out: list[Machine] = []
    row = 0
    for one in constraints:
        made = _made(model, one, row)
        if made is not None:
            clock = None if one.clock is None else model.joint(one.clock).index
            linked(model, made, clock)
            made.rows, made.linear = len(one.closure(model).rows), linear_rows(model, one)
            out.append(made)
        row += len(one.closure(model).rows)
    return out + of_forces(model, forces)


def _made(model: Model, one: c.Constraint, row: int) -> Machine | None:
    make = _KINDS.get(type(one))
    if make is not None:
        return make(model, one, row)
    if isinstance(one, Relations):  # what is left of one whose joints are locked
        return relation(model, one, row, "coupling")
    return general_rows(model, one, row)


def hidden_bodies(model: Model, constraints: Sequence[c.Constraint]) -> frozenset[int]:
    """Bodies that are not drawn: clocks."""
    clocks = {one.clock for one in constraints if one.clock is not None}
    return frozenset(model.joint(name).index for name in clocks if name in model.joint_names)


def _whole_teeth(ratio: float) -> tuple[int, int]:
    """Numbers of teeth with about this ratio, of which the smaller wheel has 14 to 30."""
    large = max(abs(ratio), 1 / abs(ratio))
    small = min(range(14, 31), key=lambda z: (round(abs(z * large - round(z * large)), 6), z))
    other = max(round(small * large), 3)
    return (small, other) if abs(ratio) >= 1 else (other, small)


# ---- elements ------------------------------------------------------------------------------------


def _gear(model: Model, one: c.Gear, row: int) -> Machine:
    a, b = Wheel(model, one.driver), Wheel(model, one.driven)
    ratio = -one.relations(model)["mesh"][one.driven]
    said = "" if one.teeth is None else f", {one.teeth[0]:g} and {one.teeth[1]:g} teeth"
    text = f"{one.driver} turns {ratio:.5g} times as fast as {one.driven}{said}"
    out = Machine(one.name, "gear", text, (a.body, b.body), row, place=(a.carrier, a.centre))
    distance, e = between(a, b)
    along = float(a.axis @ b.axis)
    if 1 - abs(along) > PARALLEL:
        _cones(model, one, ratio, (a, b), out)
        return out
    if distance < 1e-9:
        return out
    teeth = _whole_teeth(ratio) if one.teeth is None else tuple(round(z) for z in one.teeth)
    same_sense = ratio * along > 0
    if max(teeth) > _MOST_TEETH or min(teeth) < 4 or (same_sense and teeth[0] == teeth[1]):
        return out
    total = abs(teeth[1] - teeth[0]) if same_sense else sum(teeth)
    r, s = (distance * z / total for z in teeth)
    inner = -e if same_sense and r < s else e  # from the first axis to the pitch point
    width = 6 * 2 * min(r / teeth[0], s / teeth[1])
    start = float(np.ravel(one.offset)[0]) if np.size(one.offset) == 1 else 0.0
    first = a.angle(inner) - start  # a tooth of the first wheel is at the pitch point
    away = a.centre + r * inner - (b.centre - a.axis * float(a.axis @ (b.centre - a.centre)))
    second = b.angle(away) + np.pi / teeth[1]  # and a gap of the other
    for wheel, radius, z, phase, color in (
        (a, r, teeth[0], first, BRASS), (b, s, teeth[1], second, STEEL),
    ):  # fmt: skip
        ring = same_sense and radius == max(r, s)
        shape = solids.toothed_ring if ring else solids.toothed_wheel
        out.parts.append(wheel.part(shape(radius, z, width, phase), color))
    out.place = a.carrier, a.centre + r * inner
    return out


def _cones(
    model: Model, one: c.Gear, ratio: float, wheels: tuple[Wheel, Wheel], out: Machine
) -> None:
    """Bevel wheels whose cones touch; nothing where the axes miss, or the ratio is another."""
    teeth = _whole_teeth(ratio) if one.teeth is None else tuple(round(z) for z in one.teeth)
    if max(teeth) > _MOST_TEETH or min(teeth) < 4:
        return
    bodies = wheels[0].body, wheels[1].body
    try:
        cones = pitch_cones(model, bodies, (float(teeth[0]), float(teeth[1])), "")
    except ModelError:
        return
    if cones.sense * ratio < 0 or max(cones.angles) > _FLAT:
        return
    first = float(np.linalg.norm(wheels[0].centre - cones.apex)) * np.tan(cones.angles[0])
    size = first / teeth[0] if one.module is None else 0.5 * one.module
    cone = size * teeth[0] / np.sin(cones.angles[0])  # from the apex along the line of touch
    start = float(np.ravel(one.offset)[0])
    for wheel, z, u, angle, late, color in (
        (wheels[0], teeth[0], cones.out[0], cones.angles[0], -start, BRASS),
        (wheels[1], teeth[1], cones.out[1], cones.angles[1], np.pi / teeth[1], STEEL),
    ):
        X = model.placements[wheel.body]
        side = float(np.sign(wheel.axis @ u))  # the solid's z points to the apex
        turn = z_along(-side * wheel.own[:, 2])
        x, y, _ = (X.rotation @ turn).T @ cones.line
        back = X.rotation.T @ (cones.apex + cone * np.cos(angle) * u - np.asarray(X.translation))
        phase = float(np.arctan2(y, x)) - side * late
        shape = solids.bevel_wheel(
            size * z, z, 0.3 * cone * np.cos(angle), phase, cone * np.cos(angle)
        )
        out.parts.append(MachinePart(wheel.body, shape, Pose(turn, back), color))
    out.place = wheels[0].carrier, cones.apex + cone * cones.line


def _planetary(model: Model, one: c.Planetary, row: int) -> Machine:
    names = [n for n in (one.sun, one.ring, one.carrier, one.planet) if n is not None]
    wheels = {n: Wheel(model, n) for n in names}
    sun, arm = wheels[one.sun], wheels[one.carrier]
    z_sun, z_ring = (round(z) for z in one.teeth)
    z_planet = (z_ring - z_sun) / 2
    text = f"sun {z_sun} teeth, ring {z_ring}: 1 + {z_ring}/{z_sun} with the ring held"
    bodies = tuple(w.body for w in wheels.values())
    out = Machine(one.name, "planetary gear", text, bodies, row, place=(sun.carrier, sun.centre))
    if one.planet is None or z_planet != round(z_planet) or z_ring > _MOST_TEETH:
        return out
    planet = wheels[one.planet]
    away = planet.centre - np.array(model.joints[arm.body].params[:3]) * float(
        np.array(model.joints[arm.body].params[:3]) @ planet.centre
    )
    distance = float(np.linalg.norm(away))  # in axes of the arm's body
    if distance < 1e-9:
        return out
    module = 2 * distance / (z_sun + z_planet)
    width = 6 * module
    e = model.placements[arm.body].rotation @ away / distance  # in the housing, at q = 0
    out.parts.append(
        sun.part(solids.toothed_wheel(module * z_sun / 2, z_sun, width, sun.angle(e)), BRASS)
    )
    gap = planet.angle(-away / distance)
    pitch = 2 * np.pi / z_planet
    out.parts.append(
        planet.part(
            solids.toothed_wheel(module * z_planet / 2, round(z_planet), width, gap + pitch / 2),
            STEEL,
        )
    )
    far = -width  # the arm lies behind its wheels
    bar = solids.bar(distance, module * z_sun / 4, module * z_planet / 4, width / 2)
    x = away / distance
    u = np.array(model.joints[arm.body].params[:3])
    turn = np.stack([x, np.cross(u, x), u], axis=-1)
    out.parts.append(MachinePart(arm.body, bar, Pose(turn, far * u), MOTOR))
    out.drawn = (arm.body,)
    beyond = (np.pi - pitch / 2) % pitch  # from the last tooth of the planet to its far side
    ring_gap = -beyond * z_planet / z_ring
    axis = sun.axis if one.ring is None else wheels[one.ring].axis
    sense = float(np.sign(_planet_axis(model, planet, arm) @ axis))
    phase = sense * ring_gap + np.pi / z_ring
    if one.ring is not None:
        ring = wheels[one.ring]
        shape = solids.toothed_ring(module * z_ring / 2, z_ring, width, ring.angle(e) + phase)
        out.parts.append(ring.part(shape, DARK))
    else:
        shape = solids.toothed_ring(module * z_ring / 2, z_ring, width, sun.angle(e) + phase)
        pose = Pose(sun.turn, sun.centre)
        out.parts.append(MachinePart(sun.carrier, shape, pose, DARK))
    return out


def _planet_axis(model: Model, planet: Wheel, arm: Wheel) -> Array:
    """The axis of a planet in the housing, at q = 0."""
    return model.placements[arm.body].rotation @ planet.axis


def _rack(model: Model, one: c.RackPinion, row: int) -> Machine:
    wheel = Wheel(model, one.pinion)
    rack = model.joint(one.rack).index
    X = model.placements[rack]
    d = X.rotation @ np.array(model.joints[rack].params[:3])
    text = f"{one.rack} moves by {2 * np.pi * one.radius:.5g} m per turn of {one.pinion}"
    bodies = wheel.body, rack
    out = Machine(
        one.name, "rack and pinion", text, bodies, row, place=(wheel.carrier, wheel.centre)
    )
    if model.parent[rack] != wheel.carrier or abs(d @ wheel.axis) > PARALLEL:
        return out
    r, teeth = abs(one.radius), 20
    n = np.sign(one.radius) * np.cross(d, wheel.axis)  # from the pinion to the rack
    width = 0.6 * r
    shape = solids.toothed_wheel(r, teeth, width, wheel.angle(n))
    out.parts.append(wheel.part(shape, BRASS))
    turn = X.rotation.T @ np.stack([np.cross(-n, wheel.axis), -n, wheel.axis], axis=-1)
    where = X.rotation.T @ (wheel.centre + r * n - np.asarray(X.translation))
    out.parts.append(
        MachinePart(rack, solids.rack_bar(r, teeth, 12, width), Pose(turn, where), STEEL)
    )
    out.place = wheel.carrier, wheel.centre + r * n
    return out


def _screw(model: Model, one: c.Screw, row: int) -> Machine:
    wheel, nut = Wheel(model, one.spindle), model.joint(one.nut).index
    text = f"{one.nut} moves by {one.lead:.5g} m per turn of {one.spindle}"
    bodies = wheel.body, nut
    out = Machine(one.name, "screw", text, bodies, row, place=(wheel.carrier, wheel.centre))
    lower, upper = (x[model.q_slice(one.nut)][0] for x in (model.lower, model.upper))
    travel = upper - lower
    length = 1.3 * travel if np.isfinite(travel) and travel > 0 else 30 * abs(one.lead)
    radius = 0.05 * length
    # a thread that pulls the nut against the axis as the spindle turns about it is right-handed
    along = float(wheel.axis @ (model.placements[nut].rotation @ model.joints[nut].params[:3]))
    hand = -one.lead * (1.0 if along >= 0 else -1.0)
    out.parts.append(wheel.part(solids.thread(radius, hand, length), STEEL))
    if model.parent[nut] == wheel.carrier and abs(abs(along) - 1) < PARALLEL:
        X = model.placements[nut]
        place = wheel.centre + wheel.axis * float(
            wheel.axis @ (np.asarray(X.translation) - wheel.centre)
        )
        turn = X.rotation.T @ wheel.turn
        where = X.rotation.T @ (place - np.asarray(X.translation))
        size = solids.disc(2.2 * radius, 2.5 * radius)
        out.parts.append(MachinePart(nut, size, Pose(turn, where), BRASS))
    return out


def _belt(model: Model, one: c.Belt, row: int) -> Machine:
    wheels = [Wheel(model, n) for n in one.pulleys]
    radii = np.asarray(one.radii, float)
    speeds = ", ".join(f"{n} {1 / r:.4g}" for n, r in zip(one.pulleys, radii, strict=True))
    text = f"radii {', '.join(f'{r:g}' for r in radii)} m; rates in proportion: {speeds}"
    first = wheels[0]
    bodies = tuple(w.body for w in wheels)
    out = Machine(one.name, "belt", text, bodies, row, place=(first.carrier, first.centre))
    flat = np.array([first.turn.T @ (w.centre - first.centre) for w in wheels])[:, :2]
    width = 0.35 * float(np.abs(radii).min())
    gaps = np.linalg.norm(flat - np.roll(flat, -1, axis=0), axis=1)
    if (gaps <= np.abs(radii - np.roll(radii, -1))).any():
        return out
    for wheel, r, color in zip(wheels, radii, [BRASS] + [STEEL] * len(wheels), strict=False):
        out.parts.append(wheel.part(solids.disc(0.97 * abs(r), 1.2 * width), color))
        mark = solids.disc(0.12 * abs(r), 1.35 * width)  # off the centre, so that turns are seen
        off = wheel.own @ np.array([0.6 * abs(r), 0, 0])
        out.parts.append(MachinePart(wheel.body, mark, Pose(wheel.own, off), DARK))
    pose = Pose(first.turn, first.centre)
    shape = solids.belt(flat, radii.tolist(), width)
    out.parts.append(MachinePart(first.carrier, shape, pose, RUBBER))
    return out


def _cam(model: Model, one: c.Cam, row: int) -> Machine:
    text = f"a relation between {', '.join(one.joints)}" + (" and time" if one.clock else "")
    bodies = tuple(model.joint(n).index for n in one.joints)
    at = model.placements[bodies[0]].translation
    out = Machine(
        one.name, "cam", text, bodies, row, place=(model.parent[bodies[0]], np.asarray(at))
    )
    kinds = [model.joints[k].kind for k in bodies]
    if kinds != ["revolute", "prismatic"] or one.clock is not None:
        return out
    wheel, follower = Wheel(model, one.joints[0]), bodies[1]
    X = model.placements[follower]
    d = X.rotation @ np.array(model.joints[follower].params[:3])
    if model.parent[follower] != wheel.carrier or abs(d @ wheel.axis) > PARALLEL:
        return out
    lifts = _lifts(one)
    if lifts is None:
        return out
    away = float(d @ (np.asarray(X.translation) - wheel.centre))
    span = float(np.ptp(lifts))
    true = away + lifts.min() > 0.15 * span  # the follower's origin rides on the cam
    radii = (away if true else 2 * span - lifts.min()) + lifts
    angles = wheel.angle(d) - np.linspace(0, 2 * np.pi, len(lifts), endpoint=False)
    outline = (radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1))[::-1]
    width = 0.3 * float(radii.mean())
    beside = float(wheel.axis @ (np.asarray(X.translation) - wheel.centre))
    out.parts.append(wheel.part(solids.plate(outline, width), BRASS, beside))
    size = 0.12 * float(radii.mean())
    bottom = 0.0 if true else 2 * span - lifts.min() - away
    stem = solids.disc(size, 6 * size)
    turn = X.rotation.T @ z_along(d)
    middle = X.rotation.T @ d * (bottom + 3 * size)
    out.parts.append(MachinePart(follower, stem, Pose(turn, middle), STEEL))
    return out


def _lifts(one: c.Cam, count: int = 180) -> Array | None:
    """The follower's coordinate over one turn of the cam, by Newton's method; None without one."""
    out, lift = np.empty(count), 0.0
    law = one.traced
    with np.errstate(all="ignore"):
        for i, angle in enumerate(np.linspace(0, 2 * np.pi, count + 1)):
            for _ in range(30):
                gap = float(law.value([angle, lift], ARRAY_NUMBERS))
                slope = float(law.slope(1, [angle, lift], (), ARRAY_NUMBERS))
                lift -= gap / slope if slope else np.nan
                if not np.isfinite(lift) or abs(gap) < 1e-13:
                    break
            if not np.isfinite(lift):
                return None
            if i < count:
                out[i] = lift
    closed = abs(lift - out[0]) < 1e-6 * max(float(np.ptp(out)), 1e-9)
    return out if closed and np.ptp(out) > 0 else None


def _motor(model: Model, one: c.Motor, row: int) -> Machine | None:
    view = model.joint(one.joint)
    if view.joint.nv != 1 or (one.clock is None and one.name == one.joint and one.rate == 1.0):
        return None  # a clock
    how = "a function of time"
    turns = view.joint.kind != "prismatic"
    if one.clock is None:
        how = f"{one.rate:.5g} {'rad/s' if turns else 'm/s'}"
    k = view.index
    text = f"{'angle' if one.angle is not None else 'rate'} of {one.joint}: {how}"
    wheel, size = Wheel(model, one.joint), size_of(model, k)
    out = Machine(one.name, "motor", text, (k,), row, place=(wheel.carrier, wheel.centre))
    for radius, width, back in ((0.09, 0.2, 0.15), (0.12, 0.03, 0.04)):  # housing and flange
        pose = Pose(wheel.turn, wheel.centre - back * size * wheel.axis)
        shape = solids.disc(radius * size, width * size)
        out.parts.append(MachinePart(wheel.carrier, shape, pose, MOTOR, beside=True))
    return out


def _differential(model: Model, one: c.Differential, row: int) -> Machine:
    """Side wheels on their shafts, and a cage with pinions, which spin: theirs are plain cones."""
    out = relation(model, one, row, "differential")
    left, right, cage = (Wheel(model, n) for n in (one.left, one.right, one.carrier))
    if not are_coaxial(left, cage) or not are_coaxial(right, cage):
        return out
    u, apart = cage.axis, cage.along(right.centre) - cage.along(left.centre)
    if abs(apart) < 1e-9:
        apart = 2 * max(size_of(model, w.body) for w in (left, right, cage))
        middle = cage.centre
    else:
        middle = (left.centre + right.centre) / 2
    r = 0.14 * abs(apart)
    for wheel, sign in ((left, -np.sign(apart)), (right, np.sign(apart))):
        inward = -sign * u  # the way from the wheel to the middle
        X = model.placements[wheel.body]
        turn = X.rotation.T @ z_along(inward)
        back = X.rotation.T @ (middle - r * inward - np.asarray(X.translation))
        bevel = solids.bevel_wheel(r, 16, 0.4 * r, 0.0)
        out.parts.append(MachinePart(wheel.body, bevel, Pose(turn, back), BRASS, beside=True))
        length = abs(apart) / 2 - r
        shaft = back - X.rotation.T @ inward * length / 2
        rod = solids.disc(0.25 * r, length)
        out.parts.append(MachinePart(wheel.body, rod, Pose(turn, shaft), STEEL, beside=True))
    own = model.placements[cage.body].rotation.T
    at = own @ (middle - np.asarray(model.placements[cage.body].translation))
    turn = own @ z_along(u)
    shape = solids.ring(1.15 * r, 1.35 * r, 0.5 * r)
    out.parts.append(MachinePart(cage.body, shape, Pose(turn, at), DARK))
    across = turn[:, 0]
    pin = solids.disc(0.14 * r, 2.4 * r)
    out.parts.append(MachinePart(cage.body, pin, Pose(z_along(across), at), STEEL))
    for sign in (-1.0, 1.0):
        cone = solids.bevel_wheel(0.9 * r, 0, 0.4 * r, 0.0)
        pose = Pose(z_along(-sign * across), at + sign * 0.9 * r * across)
        out.parts.append(MachinePart(cage.body, cone, pose, STEEL))
    out.drawn = (cage.body,)
    out.place = cage.carrier, middle
    return out


def _coupling(model: Model, one: c.Coupling, row: int) -> Machine:
    """A shaft, if two joints on one line turn as one; any other relation is a link."""
    out = relation(model, one, row, "coupling")
    joints = list(one.joints)
    weights = np.atleast_2d(np.asarray(one.coefficients, dtype=float))
    turning = all(model.joint(n).joint.kind == "revolute" for n in joints)
    if len(joints) != 2 or len(weights) != 1 or not turning:
        return out
    a, b = (Wheel(model, n) for n in joints)
    length, ratio = a.along(b.centre), -weights[0, 0] / weights[0, 1]
    if not are_coaxial(a, b) or abs(length) < 1e-9 or abs(ratio - a.axis @ b.axis) > 1e-12:
        return out
    thick = 0.05 * abs(length)
    rod, flange = solids.disc(thick, abs(length)), solids.disc(2.2 * thick, 2 * thick)
    out.parts.append(a.part(rod, STEEL, length / 2, beside=True))
    out.parts.append(a.part(flange, DARK, length / 2, beside=True))
    return out


_KINDS: dict[type, Callable[[Model, Any, int], Machine | None]] = {
    c.Gear: _gear, c.Planetary: _planetary, c.RackPinion: _rack, c.Screw: _screw, c.Belt: _belt,
    c.Cam: _cam, c.Motor: _motor, c.Differential: _differential, c.Coupling: _coupling,
}  # fmt: skip


# ---- links: relations without a form of their own ------------------------------------------------
# A relation is drawn as rods from its joints to one knot, which move with the bodies; one of a
# single joint is a ring that holds it. An elastic coupling is a coil that twists, or stretches, as
# it does.

_ENDS = 24  # of one link; a general row may take part in every body


def relation(model: Model, one: Any, row: int, kind: str) -> Machine:
    """A linear relation between joints: its rows as text, and where it is."""
    shares = one.relations(model)
    names = list(dict.fromkeys(n for of in shares.values() for n in of))
    offsets = np.broadcast_to(np.asarray(one.offset, dtype=float), (len(shares),))
    text = "; ".join(
        f"{weighted(of)} = {offset:g}" for of, offset in zip(shares.values(), offsets, strict=True)
    )
    if len(shares) == 1 and len(names) == 2:
        a, b = names
        speed = -shares[next(iter(shares))][b] / shares[next(iter(shares))][a]
        text += f": {a} moves {speed:.5g} times as fast as {b}"
    bodies = tuple(model.joint(n).index for n in names)
    k = bodies[0]
    place = model.parent[k], np.asarray(model.placements[k].translation)
    return Machine(one.name, kind, text, bodies, row, place=place)


def weighted(shares: dict[str, float]) -> str:
    """Coefficients and names as a sum."""
    return " + ".join(f"{x:.4g} {n}" for n, x in shares.items()).replace("+ -", "− ")


def linked(model: Model, machine: Machine, clock: int | None = None) -> None:
    """Rods between the joints of an element without solids; a ring about the only one."""
    if machine.parts or machine.ends:
        return
    bodies = [k for k in machine.bodies if k != clock]
    if len(bodies) != 1 or given_joint(model.joints[bodies[0]]).nv != 1:
        machine.ends = [(k, np.zeros(3)) for k in bodies]
        return
    wheel, size = Wheel(model, model.joint_names[bodies[0]]), size_of(model, bodies[0])
    pose = Pose(wheel.turn, wheel.centre)
    ring = solids.ring(0.09 * size, 0.13 * size, 0.06 * size)
    machine.parts.append(MachinePart(wheel.carrier, ring, pose, MOTOR, beside=True))


def general_rows(model: Model, one: Any, row: int) -> Machine | None:
    """Rows on the motions of points: rods between these; None for a joint between two frames."""
    closure = one.closure(model)
    if closure.matrix is None:
        return None
    ends: list[tuple[int, Array]] = []
    for body, X in closure.points:
        place = np.asarray(X.translation, dtype=float)
        if not any(body == k and np.allclose(place, p) for k, p in ends):
            ends.append((body, place))
    bodies = tuple(dict.fromkeys(k for k, _ in ends if k != WORLD))
    count = len(closure.rows)
    text = f"{count} row{'s' if count > 1 else ''} on the motions of {len(ends)} point"
    text += "s" if len(ends) > 1 else ""
    out = Machine(one.name, type(one).__name__.lower(), text, bodies, row, place=ends[0])
    out.ends = ends[:_ENDS]
    return out


def linear_rows(model: Model, one: Any) -> list[LinearRow]:
    """The rows of a relation as numbers on coordinates, from which a page has its residuals."""
    out: list[LinearRow] = []
    for row, offset in one.coordinates(model):
        at = np.flatnonzero(row)
        out.append(LinearRow(at.tolist(), row[at].tolist(), float(offset)))
    return out


# ---- springs and couplings -----------------------------------------------------------------------


def of_forces(model: Model, forces: Sequence[Any]) -> list[Machine]:
    """Elements among the forces that couple joints or bodies; laws have no form."""
    out: list[Machine] = []
    for i, one in enumerate(forces):
        if isinstance(one, ElasticCoupling):
            out.append(_coil(model, one, i))
        elif isinstance(one, PointSpring | Rope | Bushing | TorsionSpring):
            found = [model.resolve_point(x) for x in (one.a, one.b)]
            ends = [(k, np.asarray(X.translation)) for k, X in found]
            out.append(_between(model, type(one).__name__, ends))
        elif isinstance(one, PointSprings | RigidRopes):  # many at once, as runs have them
            out += [_between(model, one.kind, ends) for ends in one.pairs()]
    return out


_WORDS = {
    "PointSpring": ("spring", "a spring between two points"),
    "Rope": ("rope", "it pulls, and does not push"),
    "Bushing": ("bushing", "an elastic mount in six directions"),
    "TorsionSpring": ("torsion spring", "a spring about one axis"),
}


def _between(model: Model, kind: str, ends: list[tuple[int, Array]]) -> Machine:
    """A line between two points of bodies."""
    word, text = _WORDS.get(kind, (kind.lower(), "between two points"))
    bodies = tuple(dict.fromkeys(int(k) for k, _ in ends if k != WORLD))
    names = ["world" if k == WORLD else model.body_names[k] for k, _ in ends]
    out = Machine(" – ".join(names), word, text, bodies, -1, 0, place=ends[0])
    out.ends, out.straight = [(int(k), np.asarray(p)) for k, p in ends], True
    return out


def _coil(model: Model, one: ElasticCoupling, number: int) -> Machine:
    """A coil on the joint with the largest share, to the other one if both are on one line.

    Its far end follows the others: seen from its joint a it is turned, or shifted, by −x / c_a.
    """
    weights = np.ravel(np.asarray(one.numbers["coefficients"], dtype=float))
    order = sorted(range(len(weights)), key=lambda i: -abs(weights[i]))
    a, *others = (Wheel(model, one.joints[i]) for i in order)
    k, gap = one.numbers["stiffness"], one.numbers["backlash"]
    said = f", {np.ravel(gap)[0]:.4g} of backlash" if np.any(gap) else ""
    twist = weighted(dict(zip(one.joints, weights.tolist(), strict=True)))
    text = f"{np.ravel(k)[0]:.4g} per unit of {twist}{said}"
    bodies = tuple(model.joint(n).index for n in one.joints)
    name = " – ".join(one.joints)
    out = Machine(name, "elastic coupling", text, bodies, -1, 0, place=(a.carrier, a.centre))
    in_line = len(others) == 1 and are_coaxial(a, others[0])
    length = a.along(others[0].centre) if in_line else 0.0
    sign = -1.0 if length < 0 else 1.0
    length = abs(length) if abs(length) > 1e-9 else 0.15 * size_of(model, a.body)
    shape = solids.coil(0.2 * length, 0.025 * length, length, 6)
    pose = Pose(z_along(sign * a.own[:, 2]), np.zeros(3))
    slides = given_joint(model.joints[a.body]).kind == "prismatic"
    follows = Coil(length, float(-sign / weights[order[0]]), slides)
    out.parts.append(MachinePart(a.body, shape, pose, BRASS, beside=True, coil=follows))
    out.place = a.carrier, a.centre + sign * length / 2 * a.axis
    at = [model.q_slice(n).start for n in one.joints]
    offset = float(np.ravel(np.asarray(one.numbers["offset"], dtype=float))[0])
    out.linear, out.value, out.force = [LinearRow(at, weights.tolist(), offset)], "twist", number
    return out
