"""Links of a page: relations between joints that have no form of their own, and springs between.

A relation is drawn as rods from its joints to one knot, which move with the bodies; one of a single
joint is a ring that holds it. An elastic coupling is a coil that twists, or stretches, as it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phipsi.forces.body_forces import PointSpring, PointSprings, RigidRopes, Rope
from phipsi.forces.elastic_couplings import ElasticCoupling
from phipsi.forces.frame_forces import Bushing, TorsionSpring
from phipsi.interfaces.page import machine_solids as solids
from phipsi.interfaces.page.machine_places import (
    BRASS,
    MOTOR,
    Array,
    Coil,
    LinearRow,
    Machine,
    MachinePart,
    Wheel,
    are_coaxial,
    size_of,
    z_along,
)
from phipsi.interfaces.page.shapes_and_colors import given_joint, reach_of, solids_of
from phipsi.model import Model, Pose
from phipsi.model.tree import WORLD

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
    pose = Pose(wheel.turn, wheel.centre - 0.03 * size * wheel.axis)
    machine.behind = bodies[0]
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


# ---- forces --------------------------------------------------------------------------------------


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
    slides = given_joint(model.joints[a.body]).kind == "prismatic"
    in_line = len(others) == 1 and are_coaxial(a, others[0])
    length = a.along(others[0].centre) if in_line else 0.0
    sign, start = -1.0 if length < 0 else 1.0, 0.0
    if abs(length) > 1e-9:
        length = abs(length)
        shape = solids.coil(0.2 * length, 0.025 * length, length, 6)
    else:  # beside what the body looks like, on a shaft that ends in the joint
        own = [x for x in solids_of(model) if x.body == a.body]
        length, start = 0.3 * size_of(model, a.body), reach_of(own, a.own[:, 2])
        shape = solids.coil_on_shaft(0.25 * length, 0.04 * length, length, 4, start)
    pose = Pose(z_along(sign * a.own[:, 2]), start * a.own[:, 2])
    follows = Coil(length, float(-sign / weights[order[0]]), slides)
    out.parts.append(MachinePart(a.body, shape, pose, BRASS, beside=True, coil=follows))
    end = a.centre + (start + sign * length) * a.axis
    out.place = a.carrier, a.centre + (start + sign * length / 2) * a.axis
    if others and not in_line:  # rods from the far end to the others
        out.ends = [(a.carrier, end), *((x.body, np.zeros(3)) for x in others)]
    at = [model.q_slice(n).start for n in one.joints]
    offset = float(np.ravel(np.asarray(one.numbers["offset"], dtype=float))[0])
    out.linear, out.value, out.force = [LinearRow(at, weights.tolist(), offset)], "twist", number
    return out
