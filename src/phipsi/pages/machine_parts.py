"""Machine elements of a system for a page: what they look like, where, and what is said of them.

Sizes that a constraint does not give follow from where its joints are: the pitch circles of a gear
touch between its shafts. What has neither size nor form, such as wheels on one axis or any other
relation, is a link between its joints (machine_elements.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi import constraints as c
from phipsi.core.constraints import PartlyLocked, axis_of
from phipsi.core.model import WORLD, Model, Pose
from phipsi.core.spatial import ARRAYS
from phipsi.errors import ModelError
from phipsi.pages import machine_solids as solids
from phipsi.pages.machine_elements import (
    BRASS,
    DARK,
    MOTOR,
    PARALLEL,
    RUBBER,
    STEEL,
    MachineElement,
    MachinePart,
    Wheel,
    are_coaxial,
    between,
    general_rows,
    linear_rows,
    linked,
    of_forces,
    pose_in,
    relation,
    size_of,
    stand_back,
)
from phipsi.pages.shapes_and_colors import z_along
from phipsi.transmissions import (
    Differential,
    Gear,
    Planetary,
    RackPinion,
    Screw,
    belt_spans,
    pitch_cones,
    untouched,
)

Array = NDArray[Any]
Parts = Iterator[MachinePart]
_MOST_TEETH = 400
_FLAT = 1.4  # rad; flatter cones are no solids
_Toothed = dict[tuple[str, int, float, float], float]
"""Wheels that are drawn: body, teeth, radius and place along the axis → angle of a tooth."""


def machines_of(
    model: Model, constraints: Sequence[c.Constraint], forces: Sequence[Any] = ()
) -> list[MachineElement]:
    """The machine elements among the constraints of a system and the forces on it.

    Joints between two frames are none: pages draw them as loops; nor are clocks.
    """
    out: list[MachineElement] = []
    row = 0
    toothed: _Toothed = {}
    for one in constraints:
        made = _made(model, one, row, toothed)
        if made is not None:
            clock = None if one.clock is None else model.joint(one.clock).index
            linked(model, made, clock)
            made.rows, made.linear = len(one.closure(model).rows), linear_rows(model, one)
            out.append(made)
        row += len(one.closure(model).rows)
    out += of_forces(model, forces)
    stand_back(model, out)
    return out


def _made(
    model: Model, one: c.Constraint, row: int, toothed: _Toothed | None = None
) -> MachineElement | None:
    known = {} if toothed is None else toothed
    if isinstance(one, c.Cam) and one.before_locking is not None:
        return _partly_locked(model, _cam(model, one, row), *one.before_locking, row, known)
    if isinstance(one, Gear):
        return _gear(model, one, row, known)
    make = _KINDS.get(type(one))
    if make is not None:
        return make(model, one, row)
    if isinstance(one, PartlyLocked):
        plain = relation(model, one, row, "coupling")
        return _partly_locked(model, plain, one.whole, one.unlocked, row, known)
    return general_rows(model, one, row)


def _partly_locked(
    model: Model,
    plain: MachineElement,
    whole: c.Constraint,
    was: Model,
    row: int,
    toothed: _Toothed,
) -> MachineElement:
    """The element as it was before its joints were locked, its solids on the bodies of now.

    `plain` is the element without solids, `whole` and `was` the constraint and the model before.
    Bodies keep their names when they are welded to others.
    """
    found = _made(was, whole, row, toothed)
    if found is None:
        return plain
    plain.kind = found.kind
    if not found.parts:
        return plain

    def now(body: int) -> tuple[int, Pose]:
        return model.resolve_point("world" if body == WORLD else was.body_names[body])

    def on(part: MachinePart) -> MachinePart:
        body, X = now(part.body)
        return replace(part, body=body, pose=X @ part.pose)

    body, X = now(found.place[0])
    plain.place = (body, (X @ Pose(None, found.place[1])).translation)
    held = [n for n in was.joint_names if n not in model.joint_names]
    locked = [n for n in held if was.joint(n).index in found.bodies]
    plain.text = f"{found.text}; locked: {', '.join(locked)}"
    plain.parts = [on(part) for part in found.parts]
    here = {k: now(k)[0] for k in found.drawn}
    plain.drawn = tuple(
        j for k, j in here.items() if j != WORLD and model.body_names[j] == was.body_names[k]
    )
    return plain


def hidden_bodies(model: Model, constraints: Sequence[c.Constraint]) -> frozenset[int]:
    """Bodies that are not drawn: clocks."""
    clocks = {one.clock for one in constraints if one.clock is not None}
    return frozenset(model.joint(name).index for name in clocks if name in model.joint_names)


def _teeth(one: Gear, ratio: float) -> tuple[int, int] | None:
    """Numbers of teeth as given, or with about this ratio; None where no wheel is drawn."""
    teeth = _whole_teeth(ratio) if one.teeth is None else tuple(round(z) for z in one.teeth)
    return (teeth[0], teeth[1]) if max(teeth) <= _MOST_TEETH and min(teeth) >= 4 else None


def _whole_teeth(ratio: float) -> tuple[int, int]:
    """Numbers of teeth with about this ratio, of which the smaller wheel has 14 to 30."""
    large = max(abs(ratio), 1 / abs(ratio))
    small = min(range(14, 31), key=lambda z: (round(abs(z * large - round(z * large)), 6), z))
    other = max(round(small * large), 3)
    return (small, other) if abs(ratio) >= 1 else (other, small)


# ---- elements ------------------------------------------------------------------------------------


def _gear(model: Model, one: Gear, row: int, toothed: _Toothed) -> MachineElement:
    """Wheels in mesh; one that an earlier pair has drawn is in mesh with both of its mates."""
    a, b = Wheel(model, one.driver), Wheel(model, one.driven)
    ratio = -one.relations(model)["mesh"][one.driven]
    said = "" if one.teeth is None else f", {one.teeth[0]:g} and {one.teeth[1]:g} teeth"
    text = f"{one.driver} turns {ratio:.5g} times as fast as {one.driven}{said}"
    out = a.element(one.name, "gear", text, (a.body, b.body), row)
    distance, e = between(a, b)
    along = float(a.axis @ b.axis)
    if 1 - abs(along) > PARALLEL:
        _cones(model, one, ratio, (a, b), out)
        return out
    if distance < 1e-9:
        return out
    teeth, same_sense = _teeth(one, ratio), ratio * along > 0
    if teeth is None or (same_sense and teeth[0] == teeth[1]):
        return out
    total = abs(teeth[1] - teeth[0]) if same_sense else sum(teeth)
    r, s = (distance * z / total for z in teeth)
    inner = -e if same_sense and r < s else e  # from the first axis to the pitch point
    width = 6 * 2 * min(r / teeth[0], s / teeth[1])
    start = float(np.ravel(one.offset)[0]) if np.size(one.offset) == 1 else 0.0
    first = a.angle(inner) - start  # a tooth of the first wheel is at the pitch point
    away = a.centre + r * inner - (b.centre - a.axis * float(a.axis @ (b.centre - a.centre)))
    second = b.angle(away) + np.pi / teeth[1]  # and a gap of the other
    keys = [
        (model.body_names[w.body], z, float(f"{x:.6g}"), float(f"{w.along(a.centre):.6g}"))
        for w, z, x in ((a, teeth[0], r), (b, teeth[1], s))
    ]
    if keys[0] in toothed:  # turn the pair until the teeth of that wheel are where they are
        ahead = toothed[keys[0]] - first
    else:
        ahead = (toothed.get(keys[1], second) - second) * ratio
    first, second = first + ahead, second + ahead / ratio
    for key, wheel, radius, z, phase, color in (
        (keys[0], a, r, teeth[0], first, BRASS), (keys[1], b, s, teeth[1], second, STEEL),
    ):  # fmt: skip
        if key in toothed:
            continue
        toothed[key] = phase
        ring = same_sense and radius == max(r, s)
        shape = solids.toothed_ring if ring else solids.toothed_wheel
        out.parts += _in_plane(wheel, a.centre, shape(radius, z, width, phase), color, width)
    out.place = a.carrier, a.centre + r * inner
    return out


def _in_plane(wheel: Wheel, at: Array, shape: solids.Surface, color: Any, thick: float) -> Parts:
    """A wheel in the plane of a point of its carrier, where teeth and belts act, and its shaft."""
    lift = wheel.along(at)
    yield wheel.part(shape, color, lift)
    if abs(lift) > thick / 2:
        yield wheel.part(solids.disc(0.25 * thick, abs(lift)), STEEL, lift / 2)


def _cones(
    model: Model, one: Gear, ratio: float, wheels: tuple[Wheel, Wheel], out: MachineElement
) -> None:
    """Bevel wheels whose cones touch; nothing where the axes miss, or the ratio is another."""
    teeth, bodies = _teeth(one, ratio), (wheels[0].body, wheels[1].body)
    if teeth is None:
        return
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
        back = X.rotation.T @ (cones.apex + cone * np.cos(angle) * u - X.translation)
        phase = float(np.arctan2(y, x)) - side * late
        shape = solids.bevel_wheel(
            size * z, z, 0.3 * cone * np.cos(angle), phase, cone * np.cos(angle)
        )
        out.parts.append(MachinePart(wheel.body, shape, Pose(turn, back), color))
    out.place = wheels[0].carrier, cones.apex + cone * cones.line


def _planetary(model: Model, one: Planetary, row: int) -> MachineElement:
    """Sun, planets and ring in the plane of the sun's origin, and the arm behind them.

    A tooth of the sun points to the first planet where the rows hold with ring and arm at 0.
    """
    names = [n for n in (one.sun, one.ring, one.carrier, *one.planets) if n is not None]
    wheels = {n: Wheel(model, n) for n in names}
    sun, arm = wheels[one.sun], wheels[one.carrier]
    z_sun, z_ring = (round(z) for z in one.teeth)
    z_planet = (z_ring - z_sun) // 2
    text = f"sun {z_sun} teeth, ring {z_ring}: 1 + {z_ring}/{z_sun} with the ring held"
    out = sun.element(one.name, "planetary gear", text, [w.body for w in wheels.values()], row)
    in_arm = model.placements[arm.body].rotation
    middle = in_arm.T @ (sun.centre - model.placements[arm.body].translation)
    u = in_arm.T @ arm.axis
    ways = [wheels[n].centre - middle for n in one.planets]
    ways = [x - u * float(u @ x) for x in ways]
    distances = [float(np.linalg.norm(x)) for x in ways]
    alike = not ways or np.ptp(distances) < 1e-6 * max(distances)
    whole = z_ring == z_sun + 2 * z_planet
    shafts = [x for n, x in wheels.items() if n not in one.planets]
    alike = alike and all(are_coaxial(sun, x) for x in shafts)
    if not ways or not alike or min(distances) < 1e-9 or not whole or z_ring > _MOST_TEETH:
        return out
    distance = distances[0]
    module = 2 * distance / (z_sun + z_planet)
    width = 6 * module
    offsets = np.broadcast_to(np.asarray(one.offset, dtype=float), (1 + len(ways),))
    toward = [in_arm @ x / distance for x in ways]  # from sun to planets in the housing, at q = 0
    start = float(offsets[0]) / z_sun
    shape = solids.toothed_wheel(module * z_sun / 2, z_sun, width, sun.angle(toward[0]) - start)
    out.parts.append(sun.part(shape, BRASS))
    bar = solids.bar(distance, module * z_sun / 4, module * z_planet / 4, width / 2)
    pin = solids.disc(0.12 * module * z_planet, 1.2 * width)
    for name, way, e, offset in zip(one.planets, ways, toward, offsets[1:], strict=True):
        planet = wheels[name]
        sense = float(np.sign(sun.axis @ (in_arm @ planet.axis)))
        ahead = (sun.angle(toward[0]) - sun.angle(e)) % (2 * np.pi / z_sun)  # a tooth of the sun
        gap = planet.angle(-way / distance) - sense * ahead * z_sun / z_planet
        gap -= sense * float(offset - offsets[0]) / z_planet
        phase = gap + np.pi / z_planet
        shape = solids.toothed_wheel(module * z_planet / 2, z_planet, width, phase)
        out.parts += _in_plane(planet, middle, shape, STEEL, width)
        x = way / distance
        turn = np.stack([x, np.cross(u, x), u], axis=-1)
        for solid, at in ((bar, middle - width * u), (pin, middle + way - 0.4 * width * u)):
            out.parts.append(MachinePart(arm.body, solid, Pose(turn, at), MOTOR))
    out.drawn = (arm.body,)
    ring = None if one.ring is None else wheels[one.ring]
    spin = in_arm @ wheels[one.planets[0]].axis
    out.parts.append(_ring(ring, sun, spin, toward[0], (z_planet, z_ring), module, width))
    return out


def _ring(
    ring: Wheel | None,
    sun: Wheel,
    spin: Array,
    toward: Array,
    teeth: tuple[int, int],
    module: float,
    width: float,
) -> MachinePart:
    """A ring around planets, in mesh with the first, which is `toward` and spins about `spin`.

    Without a wheel of its own it is a part of what the sun turns in.
    """
    z_planet, z_ring = teeth
    # the planet's tooth before its far side is half a pitch, or nothing, away from it
    beyond = (np.pi - np.pi / z_planet) % (2 * np.pi / z_planet)
    wheel = sun if ring is None else ring
    spins = float(np.sign(spin @ wheel.axis))
    phase = wheel.angle(toward) + np.pi / z_ring - spins * beyond * z_planet / z_ring
    shape = solids.toothed_ring(module * z_ring / 2, z_ring, width, phase)
    if ring is None:
        return MachinePart(sun.carrier, shape, Pose(sun.turn, sun.centre), DARK)
    return ring.part(shape, DARK, ring.along(sun.centre))


def _rack(model: Model, one: RackPinion, row: int) -> MachineElement:
    wheel = Wheel(model, one.pinion)
    rack = model.joint(one.rack).index
    d, _ = axis_of(model, rack)
    text = f"{one.rack} moves by {2 * np.pi * one.radius:.5g} m per turn of {one.pinion}"
    out = wheel.element(one.name, "rack and pinion", text, (wheel.body, rack), row)
    if model.parent[rack] != wheel.carrier or abs(d @ wheel.axis) > PARALLEL:
        return out
    r, teeth = abs(one.radius), 20
    n = np.sign(one.radius) * np.cross(d, wheel.axis)  # from the pinion to the rack
    width = 0.6 * r
    start = -float(np.ravel(one.offset)[0]) / one.radius  # the pinion's angle with the rack at 0
    shape = solids.toothed_wheel(r, teeth, width, wheel.angle(n) - start)
    out.parts.append(wheel.part(shape, BRASS))
    out.place = wheel.carrier, wheel.centre + r * n
    turn = np.stack([np.cross(-n, wheel.axis), -n, wheel.axis], axis=-1)
    pose = pose_in(model, rack, turn, out.place[1])
    out.parts.append(MachinePart(rack, solids.rack_bar(r, teeth, 12, width), pose, STEEL))
    return out


def _screw(model: Model, one: Screw, row: int) -> MachineElement:
    wheel, nut = Wheel(model, one.spindle), model.joint(one.nut).index
    text = f"{one.nut} moves by {one.lead:.5g} m per turn of {one.spindle}"
    out = wheel.element(one.name, "screw", text, (wheel.body, nut), row)
    axis, origin = axis_of(model, nut)
    along, at = float(wheel.axis @ axis), wheel.along(origin)
    if model.parent[nut] != wheel.carrier or 1 - abs(along) > PARALLEL:
        return out
    lower, upper = (float(x[model.q_slice(one.nut)][0]) for x in (model.lower, model.upper))
    if not (np.isfinite(upper - lower) and upper > lower):
        lower, upper = -15 * abs(one.lead), 15 * abs(one.lead)
    travel = upper - lower
    radius, more = 0.06 * travel, 0.15 * travel
    # from the spindle's origin to all places of the nut
    ends = [0.0, at + along * lower, at + along * upper]
    low, high = min(ends) - more, max(ends) + more
    # a thread that pulls the nut against the axis as the spindle turns about it is right-handed
    thread = solids.thread(radius, -one.lead * along, high - low)
    out.parts.append(wheel.part(thread, STEEL, (low + high) / 2))
    pose = pose_in(model, nut, wheel.turn, wheel.centre + at * wheel.axis)
    out.parts.append(MachinePart(nut, solids.disc(2.2 * radius, 2.5 * radius), pose, BRASS))
    return out


def _belt(model: Model, one: c.Belt, row: int) -> MachineElement:
    wheels = [Wheel(model, n) for n in one.pulleys]
    radii = np.asarray(one.radii, float)
    speeds = ", ".join(f"{n} {1 / r:.4g}" for n, r in zip(one.pulleys, radii, strict=True))
    text = f"radii {', '.join(f'{r:g}' for r in radii)} m; relative speeds: {speeds}"
    first = wheels[0]
    out = first.element(one.name, "belt", text, [w.body for w in wheels], row)
    flat = np.array([first.turn.T @ (w.centre - first.centre) for w in wheels])[:, :2]
    if (radii < 0).all():  # the same relation as with all in front
        radii = -radii
    spans = belt_spans(flat, radii)
    loose = None if spans is None else untouched(spans, radii)
    if loose is not None:
        out.text += f"; in this order the belt does not touch {one.pulleys[loose]}"
    if spans is None or loose is not None:
        return out
    width, thick = (x * float(np.abs(radii).min()) for x in (0.35, 0.12))
    for wheel, r, color in zip(wheels, radii, [BRASS] + [STEEL] * len(wheels), strict=False):
        rim = abs(r) - thick / 2  # radii are those of the belt's middle
        out.parts += _in_plane(wheel, first.centre, solids.disc(rim, 1.2 * width), color, width)
        mark = solids.disc(0.12 * abs(r), 1.35 * width)  # off the centre, so that turns are seen
        off = wheel.own @ np.array([0.6 * abs(r), 0, wheel.along(first.centre)])
        out.parts.append(MachinePart(wheel.body, mark, Pose(wheel.own, off), DARK))
    pose = Pose(first.turn, first.centre)
    shape = solids.belt(flat, radii, spans, width, thick)
    out.parts.append(MachinePart(first.carrier, shape, pose, RUBBER))
    return out


def _cam(model: Model, one: c.Cam, row: int) -> MachineElement:
    text = f"a relation between {', '.join(one.joints)}" + (" and time" if one.clock else "")
    bodies = tuple(model.joint(n).index for n in one.joints)
    at = model.placements[bodies[0]].translation
    out = MachineElement(
        one.name, "cam", text, bodies, row, place=(model.parent[bodies[0]], np.asarray(at))
    )
    kinds = [model.joints[k].kind for k in bodies]
    if kinds != ["revolute", "prismatic"] or one.clock is not None:
        return out
    wheel, follower = Wheel(model, one.joints[0]), bodies[1]
    X = model.placements[follower]
    d, _ = axis_of(model, follower)
    if model.parent[follower] != wheel.carrier or abs(d @ wheel.axis) > PARALLEL:
        return out
    lifts = _lifts(one)
    if lifts is None:
        return out
    away = float(d @ (X.translation - wheel.centre))
    span = float(np.ptp(lifts))
    true = away + lifts.min() > 0.15 * span  # the follower's origin rides on the cam
    radii = (away if true else 2 * span - lifts.min()) + lifts
    angles = wheel.angle(d) - np.linspace(0, 2 * np.pi, len(lifts), endpoint=False)
    outline = (radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1))[::-1]
    width = 0.3 * float(radii.mean())
    there = X.translation  # the plane of the follower
    out.parts += _in_plane(wheel, there, solids.plate(outline, width), BRASS, width)
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
                gap = float(law.value([angle, lift], ARRAYS))
                slope = float(law.slope(1, [angle, lift], (), ARRAYS))
                lift -= gap / slope if slope else np.nan
                if not np.isfinite(lift) or abs(gap) < 1e-13:
                    break
            if not np.isfinite(lift):
                return None
            if i < count:
                out[i] = lift
    closed = abs(lift - out[0]) < 1e-6 * max(float(np.ptp(out)), 1e-9)
    return out if closed and np.ptp(out) > 0 else None


def _motor(model: Model, one: c.Motor, row: int) -> MachineElement | None:
    view = model.joint(one.joint)
    if view.joint.nv != 1 or (one.clock is None and one.name == one.joint and one.rate == 1.0):
        return None  # a clock
    how = "a function of time"
    turns = view.joint.kind != "prismatic"
    if one.clock is None:
        how = f"{one.rate:.5g} {'rad/s' if turns else 'm/s'}"
    k = view.index
    text = f"{'angle' if one.angle is not None else 'velocity'} of {one.joint}: {how}"
    wheel, size = Wheel(model, one.joint), size_of(model, k)
    out = wheel.element(one.name, "motor", text, (k,), row)
    out.behind = k
    for radius, width, back in ((0.09, 0.2, 0.13), (0.12, 0.03, 0.015)):  # housing and flange
        pose = Pose(wheel.turn, wheel.centre - back * size * wheel.axis)
        shape = solids.disc(radius * size, width * size)
        out.parts.append(MachinePart(wheel.carrier, shape, pose, MOTOR, beside=True))
    return out


def _differential(model: Model, one: Differential, row: int) -> MachineElement:
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
        back = pose_in(model, wheel.body, z_along(inward), middle - r * inward)
        bevel = solids.bevel_wheel(r, 16, 0.4 * r, 0.0)
        out.parts.append(MachinePart(wheel.body, bevel, back, BRASS, beside=True))
        length = abs(apart) / 2 - r
        shaft = Pose(back.rotation, back.translation - back.rotation[:, 2] * length / 2)
        rod = solids.disc(0.25 * r, length)
        out.parts.append(MachinePart(wheel.body, rod, shaft, STEEL, beside=True))
    pose = pose_in(model, cage.body, z_along(u), middle)
    shape = solids.ring(1.15 * r, 1.35 * r, 0.5 * r)
    out.parts.append(MachinePart(cage.body, shape, pose, DARK))
    across, at = pose.rotation[:, 0], pose.translation
    pin = solids.disc(0.14 * r, 2.4 * r)
    out.parts.append(MachinePart(cage.body, pin, Pose(z_along(across), at), STEEL))
    inner = 0.9 * r * np.tan(np.pi / 4 - np.arctan(2 / 16 / np.sqrt(2)))  # below the tips of teeth
    for sign in (-1.0, 1.0):
        cone = solids.bevel_wheel(inner, 0, 0.4 * r, 0.0, 0.9 * r)
        pose = Pose(z_along(-sign * across), at + sign * 0.9 * r * across)
        out.parts.append(MachinePart(cage.body, cone, pose, STEEL))
    out.drawn = (cage.body,)
    out.place = cage.carrier, middle
    return out


def _coupling(model: Model, one: c.Coupling, row: int) -> MachineElement:
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


_KINDS: dict[type, Callable[[Model, Any, int], MachineElement | None]] = {
    Planetary: _planetary, RackPinion: _rack, Screw: _screw, c.Belt: _belt,
    c.Cam: _cam, c.Motor: _motor, Differential: _differential, c.Coupling: _coupling,
}  # fmt: skip
