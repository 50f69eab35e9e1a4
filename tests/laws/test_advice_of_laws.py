"""Errors about laws name what to type, with the names of the mechanism, and that works."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import phipsi as pp
from phipsi.errors import InputError, LawError

ARM = pp.examples.planar_arm(2)
ZERO = [0.0, 0.0]


@pp.law
def doubled(y: Any) -> Any:
    return {"u": 2 * y}


@pp.law
def tripled(y: Any) -> Any:
    return {"w": 3 * y}


def test_the_advice_about_an_algebraic_loop_breaks_it():
    of_doubled = pp.signals.output("doubled", "u")
    laws = [doubled.bind(y=pp.signals.output("tripled", "w")), tripled.bind(y=of_doubled)]
    with pytest.raises(LawError) as error:
        pp.Simulator(ARM, laws)
    line = re.search(r"^    (tripled\.bind.*)$", str(error.value), re.MULTILINE)
    assert line and line[1] == "tripled.bind(y=pp.signals.previous('doubled', 'u', initial=0.0))"
    pp.Simulator(ARM, [laws[0], eval(line[1])])


def test_the_advice_about_the_shape_of_efforts_names_joints_that_exist():
    @pp.law
    def push(q: Any, v: Any) -> Any:
        tau = np.stack([q[0] + v[0]])
        return tau

    with pytest.raises(LawError) as error:
        pp.Simulator(ARM, [push])
    assert "(nv = 2: 'joint1', 'joint2'), such as  np.array([tau[0], 0.0])  with" in str(
        error.value
    )
    assert "push.on('joint1') acts on one joint, and reads its q and v only" in str(error.value)
    pp.Simulator(ARM, [push.on("joint1")])

    @pp.law
    def padded(q: Any, v: Any) -> Any:
        tau = np.stack([q[0] + v[0]])
        return np.array([tau[0], 0.0])

    pp.Simulator(ARM, [padded])
    with pytest.raises(LawError, match="one entry per velocity of 'joint2'"):
        pp.Simulator(ARM, [padded.on("joint2").named("other")])


def test_the_remedy_for_assigned_entries_comes_first():
    @pp.law
    def assigned(q: Any) -> Any:
        tau = np.zeros(2)
        tau[0] = q[0]
        return tau

    with pytest.raises(LawError, match=r"\nUse np.zeros_like\(x, shape=\(6, 6\)\) instead of np.z"):
        pp.Simulator(ARM, [assigned])

    @pp.law
    def like(q: Any) -> Any:
        tau = np.zeros_like(q, shape=(2,))
        tau[0] = q[0]
        return tau

    pp.Simulator(ARM, [like])


@pp.law
def watch(q: Any) -> Any:
    return {"u": q[0]}


@pp.law
def damp(t: Any, q: Any, v: Any) -> Any:
    return -v


def test_a_controller_without_torques_is_an_error():
    with pytest.raises(InputError, match="the law 'watch' returns 'u' but no 'tau'"):
        pp.simulate(ARM, ZERO, ZERO, 0.1, controller=watch)
    with pytest.raises(InputError, match="damp is silent"):
        pp.simulate(ARM, ZERO, ZERO, 0.1, controller=damp.silent())
    stop = pp.forces.JointLimit(None, np.inf, lower=-1.0, upper=1.0)
    with pytest.raises(InputError, match="the law 'watch' returns 'u' but no 'tau'"):
        pp.simulate(
            ARM, ZERO, ZERO, 0.1, controller=watch, forces=[stop], integrator="time_stepping"
        )


def test_a_sampled_law_is_no_controller_of_a_run_without_fixed_steps():
    """Neither one with the arguments of a function; the rate of that was ignored."""
    for law in (damp.sampled(50.0), watch.sampled(50.0)):
        with pytest.raises(InputError) as error:
            pp.simulate(ARM, ZERO, ZERO, 0.1, controller=law)
        text = str(error.value)
        assert "is sampled or has states" in text and "time_stepping" not in text
        assert f"sim = pp.Simulator(model, [{law.name}], dt=1e-3)\n    run = sim.rollout(" in text


def test_all_laws_among_forces_are_named():
    forces = [damp, pp.forces.JointDamper(None, 0.1), watch]
    with pytest.raises(InputError, match=r"the laws 'damp', 'watch', which") as error:
        pp.simulate(ARM, ZERO, ZERO, 0.1, forces=forces)
    line = str(error.value).splitlines()[1].strip()
    assert "pp.forces.JointDamper(" in line
    eval(line, {"pp": pp, "model": ARM, "damp": damp, "watch": watch})
