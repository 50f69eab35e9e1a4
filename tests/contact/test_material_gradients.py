"""Gradients of runs by materials: friction, restitution, stiffness, dissipation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contact_problems import Scene
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.contact.contact_rows import DISSIPATION, FRICTION, MATERIALS, RESTITUTION, STIFFNESS

WEIGHT = np.array([0.1, 0.2, 0.5, 1.0, 0.3, 0.7])


def both(scene: Scene, steps: int, column: int, change: float) -> tuple[float, float, float]:
    """The derivative of a sum of last rates by a property of all slots; by differences; its twin.

    The twin begins 1e-6 faster.
    """
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    weight = np.zeros((steps + 1, 6))
    weight[-1] = WEIGHT

    def derivative(v: Any) -> float:
        start, wanted = sim.initial_state(q, v), (MATERIALS,)
        found = sim.gradient(start, None, steps, cotangents={"v": weight}, parameters=wanted)
        return found.parameters[MATERIALS][:, column].sum()

    own: Any = np.array([sim.parameters[MATERIALS]] * 4)
    own[:, :, column] += change * np.array([1, -1, 2, -2])[:, None]
    state = sim.initial_state(np.tile(q, (4, 1)), v, parameters={MATERIALS: own})
    x = sim.rollout(state, steps=steps, record=("v",), progress=False).v[:, -1] @ WEIGHT
    wanted = (8 * (x[0] - x[1]) - (x[2] - x[3])) / (12 * change)  # its error is of order 4
    return derivative(v), wanted, derivative(v * (1 + 1e-6))


@pytest.mark.parametrize(
    ("more", "steps", "column", "change"),
    [
        ({}, 60, FRICTION, 1e-5),
        ({"restitution": 0.6}, 150, RESTITUTION, 1e-4),
        ({"stiffness": 1e4, "damping": 20.0}, 100, STIFFNESS, 1.0),
        ({"stiffness": 1e4, "damping": 20.0}, 100, DISSIPATION, 1e-2),
    ],
)
def test_of_a_ball_that_is_thrown(more, steps, column, change):
    scene = Scene(friction=0.3, **more)
    scene.add("ball", pp.shapes.Sphere(0.1), 1.0, (0, 0, 0.15), (1.5, 0.2, -1), (0, 0, 1))
    found, wanted, twin = both(scene, steps, column, change)
    assert_allclose(found, wanted, rtol=1e-7)
    assert abs(wanted) > 1e-6 and abs(twin / wanted - 1) > 1e-7


def test_of_a_block_that_slides_on_four_corners():
    scene = Scene(friction=0.5)
    box = pp.shapes.Box((0.2, 0.2, 0.1))
    scene.add("block", box, 1.0, (0, 0, 0.05), (1.5, 0.2, 0), (0, 0, 1))
    found, wanted, _ = both(scene, 20, FRICTION, 1e-3)  # it hardly depends on the speed
    assert_allclose(found, wanted, rtol=1e-7)


def test_materials_are_asked_for():
    scene = Scene(friction=0.5)
    scene.add("ball", pp.shapes.Sphere(0.1), 1.0, (0, 0, 0.15))
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=1e-3, integrator="time_stepping")
    weight = np.zeros((2, 6))
    assert sim.gradient(sim.initial_state(q, v), None, 1, cotangents={"v": weight}).parameters == {}
    with pytest.raises(
        pp.errors.PhipsiError, match=r"'friction' is not a parameter.*contact\.materials"
    ):
        sim.gradient(
            sim.initial_state(q, v), None, 1, cotangents={"v": weight}, parameters=("friction",)
        )
