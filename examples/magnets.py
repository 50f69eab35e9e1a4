"""Magnets on bodies: an attachment of mechanisms, and its force, written outside the library.

python examples/magnets.py
"""

import json
from copy import copy
from dataclasses import dataclass

import numpy as np

import phipsi as pp

_CROSS = ((1, 2), (2, 0), (0, 1))
_COLORS = {"red": (0.8, 0.1, 0.1), "blue": (0.1, 0.2, 0.8)}


@dataclass(frozen=True)
class Magnet:
    """A permanent magnet on a body; its `moment` (A·m²) is in the axes of its `placement`."""

    name: str
    body: str
    moment: tuple[float, float, float]
    placement: pp.Pose = pp.Pose()


@pp.attachments.register
class Magnets(pp.attachments.BodyRecords):
    """The magnets of a mechanism, stored with it."""

    keys, record = ("magnets",), Magnet

    def check(self, description):
        for magnet in self.records:
            finite = np.shape(magnet.moment) == (3,) and np.isfinite(magnet.moment).all()
            if not finite or not np.any(magnet.moment):
                raise pp.errors.ModelError(
                    f"magnet {magnet.name!r}: moment={magnet.moment!r} must be three finite "
                    f"numbers, not all 0, for example moment=(0.5, 0, 0)"
                )

    def pictures(self):
        for x in self.records:
            along = 0.01 * np.array(x.moment) / np.linalg.norm(x.moment)
            for color, p in (("red", along), ("blue", -along)):
                where = x.placement @ pp.Pose(translation=p)
                yield pp.attachments.Picture(x.body, "sphere", (0.01,), where, _COLORS[color])


class MagneticField(pp.forces.Force):
    """A uniform field (T, world axes), which turns the magnets of a mechanism."""

    def __init__(self, field):
        self.field, self.moments = np.asarray(field, float), np.zeros((0, 3))

    def bind(self, model):
        bound = copy(self)
        bound.moments = np.zeros((model.n_bodies, 3))
        for magnet in model.of(Magnets).records:
            if magnet.body != "world":
                turned = magnet.placement.rotation @ magnet.moment
                bound.moments[model.body_index(magnet.body)] += turned
        return bound

    def body_forces(self, state):
        m, field = self.moments, self._in_body_axes(state)
        turns = [m[:, i] * field[..., j] - m[:, j] * field[..., i] for i, j in _CROSS]
        return np.stack([*turns, *(0 * x for x in turns)], axis=-1)

    def potential_energy(self, state):
        return -np.sum(self.moments * self._in_body_axes(state), axis=(-1, -2))

    def _in_body_axes(self, state):
        return self.field @ state.poses[..., :3, :3]


if __name__ == "__main__":
    builder = pp.ModelBuilder()
    needle = pp.SpatialInertia(2e-3, (0, 0, 0), 1e-6)
    builder.add_body("needle", inertia=needle)
    builder.add_attachment(Magnets([Magnet("north", "needle", (0.5, 0, 0))]))
    compass = builder.build()
    stored = json.dumps(compass.to_dict())
    ship = pp.Model.from_dict(json.loads(stored)).attach(compass, prefix="spare_")
    print("magnets:", ", ".join(x.name for x in ship.of(Magnets).records))

    earth = MagneticField((4e-5, 3e-5, 0))
    run = pp.simulate(ship, [0.7, 0.9], [0, 0], 10.0, forces=[earth], rtol=1e-9, atol=1e-9)
    swing = run.q - np.arctan2(3, 4)  # from the direction of the field
    turns = np.flatnonzero(np.diff(np.sign(swing[:, 0])))
    print(f"swings: {len(turns) / 2 / 10:.2f} Hz, small ones {np.sqrt(25.0) / 2 / np.pi:.2f} Hz")
    print(f"energy: {run.energy[0]:.3e} J, and {run.energy[-1]:.3e} J in the end")
