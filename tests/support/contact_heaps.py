"""Random heaps, stacks and tumbling boxes: many contacts at once, heavy bodies on light ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from contact_problems import Scene

import phipsi as pp

DT = 2e-3
Made = tuple[Any, np.ndarray, np.ndarray]


def tumbling(batch: int, rng: np.random.Generator) -> Made:
    """A box that falls, slides and turns over."""
    scene = Scene(friction=0.6)
    at, fall, turn = (0, 0, 0.08), (0.5, 0.1, -1.0), (1.0, 2.0, 0.5)
    scene.add("box", pp.shapes.Box((0.2, 0.3, 0.1)), 2.0, at, fall, turn)
    system, q, v = scene.system()
    return system, np.tile(q, (batch, 1)), v + 0.3 * rng.normal(size=(batch, 6))


def heap(count: int, shape: str, ratio: float, batch: int, rng: np.random.Generator) -> Made:
    """Bodies with masses 1 … `ratio` thrown into a bin of a floor and four walls."""
    scene = Scene(friction=0.5)
    up = np.array([0.0, 0.0, 1.0])
    for i, z in enumerate(np.array([(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)], float)):
        pose = pp.Pose(np.column_stack([np.cross(up, z), up, z]), -0.35 * z)
        scene.builder.add_shape(
            f"wall{i}", "world", pp.shapes.Plane(), pose, material=scene.material
        )
    for i in range(count):
        at = (0.12 * (i % 3 - 1), 0.12 * (i // 3 % 3 - 1), 0.15 + 0.25 * (i // 9))
        ball, box = pp.shapes.Sphere(0.05 + 0.02 * (i % 3)), pp.shapes.Box((0.12, 0.1, 0.08))
        mass = ratio ** (i / max(1, count - 1))
        scene.add(f"body{i}", ball if shape == "balls" else box, mass, at)
    system, q, v = scene.system()
    return system, np.tile(q, (batch, 1)), v + 0.8 * rng.normal(size=(batch, len(v)))


def stack(count: int, ratio: float, batch: int, rng: np.random.Generator) -> Made:
    """Boxes on each other with masses 1 … `ratio`, the heaviest on top, that are shaken."""
    scene = Scene(friction=0.5)
    names = [f"box{i}" for i in range(count)]
    for i, name in enumerate(names):
        mass = ratio ** (i / max(1, count - 1))
        scene.add(name, pp.shapes.Box((0.2, 0.2, 0.1)), mass, (0, 0, 0.05 + 0.1 * i))
    pairs = [(names[0], "floor"), *zip(names, names[1:], strict=False)]
    system, q, v = scene.system(pairs=pairs)
    return system, np.tile(q, (batch, 1)), v + 0.05 * rng.normal(size=(batch, len(v)))


SCENES: dict[str, Callable[[int, np.random.Generator], Made]] = {
    "a tumbling box": tumbling,
    "a box thrown into a bin": lambda n, rng: heap(1, "boxes", 1.0, n, rng),
    "4 balls in a bin": lambda n, rng: heap(4, "balls", 1.0, n, rng),
    "3 balls, masses 1 : 10⁶": lambda n, rng: heap(3, "balls", 1e6, n, rng),
    "12 balls in a bin": lambda n, rng: heap(12, "balls", 1.0, n, rng),
    "2 boxes, 10³ on 1": lambda n, rng: stack(2, 1e3, n, rng),
    "3 boxes, 10⁶ on 10³ on 1": lambda n, rng: stack(3, 1e6, n, rng),
    "a stack of 10 boxes": lambda n, rng: stack(10, 1.0, n, rng),
}
"""Systems with their first states q and v, for so many trajectories."""


def fallen(made: Made, steps: int) -> Any:
    """The run of a scene, with its last state."""
    system, q, v = made
    sim = pp.Simulator(system, dt=DT, integrator="time_stepping")
    start = sim.initial_state(q, v, resolve_penetration=True)
    return sim.rollout(start, steps=steps, record_every=steps, progress=False)
