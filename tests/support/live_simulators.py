"""Simulators whose live pages are tested: an arm with a law, a flying robot, a loop, contacts."""

from __future__ import annotations

from functools import cache
from typing import Any

import amounts
import numpy as np
from known_systems import four_bar, rolling_ball

import phipsi as pp
from phipsi.pages.live_page import LivePhysics, live_physics
from phipsi.pages.scene import first_configuration


@pp.law
def hold(q, v, kp, target):
    return kp * (target - q) - 0.3 * v


def held_arm() -> pp.Simulator:
    held = hold.bind(kp=[9.0, 4.0], target=[0.8, -0.4]).sampled(rate=250.0)
    return pp.Simulator(pp.examples.planar_arm(2), [held], reproducible=True)


def flyer() -> pp.Simulator:
    return pp.Simulator(pp.examples.free_flyer(), dt=2e-3, reproducible=True)


def loop() -> pp.Simulator:
    return pp.Simulator(four_bar(), reproducible=True)


def rolling() -> pp.Simulator:
    return pp.Simulator(rolling_ball(), dt=2e-3, integrator="time_stepping", reproducible=True)


CASES: dict[str, Any] = {"held arm": held_arm, "flyer": flyer, "loop": loop}
CASES |= {"rolling": rolling} if amounts.ALL else {}  # LLVM takes seconds for it
STARTS = {"rolling": ([1.0, 0, 0, 0, 0, 0, 0.5], [0.0, 1.0, 0, 0.3, 0, 0])}


@cache
def built(name: str) -> tuple[pp.Simulator, Any, LivePhysics]:
    sim = CASES[name]()
    q, v = STARTS.get(name, (None, None))
    if name == "flyer":
        v = np.linspace(-0.4, 0.5, sim.model.nv)
    state = sim.initial_state(first_configuration(sim.compiled.mechanism) if q is None else q, v)
    return sim, state, live_physics(sim, state)
