"""Controllers in machine code agree with their formulas on arrays, and leave hard cases to them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_models import ALL, branching

import phipsi as pp
from phipsi.core.model.model import Model
from phipsi.core.spatial import so3_exp
from phipsi.errors import InputError, PhipsiWarning
from phipsi.simulation.control import compiled_control

COUNT = 9


def states(model: Model) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return model.random_configuration(rng, COUNT), rng.standard_normal((COUNT, model.nv))


def moving(model: Model) -> Callable[[float], Any]:
    """A reference with rates and accelerations, away from the states."""

    def at(t: float) -> Any:
        rng = np.random.default_rng(4)
        return (
            model.random_configuration(rng),
            rng.standard_normal(model.nv),
            rng.standard_normal(model.nv),
        )

    return at


def goal(t: float) -> Any:
    rng = np.random.default_rng(6)
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = so3_exp(rng.standard_normal(3)), rng.standard_normal(3)
    return pose, rng.standard_normal(6), rng.standard_normal(6)


def by_arrays(control: Any, q: np.ndarray, v: np.ndarray, monkeypatch: Any) -> np.ndarray:
    """The same controller without machine code of its own."""
    with monkeypatch.context() as m:
        cache = control.model.cache
        keys = [k for k in cache if _owner(k) in _OWNERS]
        for key in keys:
            m.setitem(cache, key, compiled_control.NoCode())
        return control(0.0, q, v)


_OWNERS = (
    compiled_control.computed_torque,
    compiled_control.operational_space,
    compiled_control.pd_gravity,
)


def _owner(key: Any) -> Any:
    return key[0] if isinstance(key, tuple) else key


def check(control: Any, monkeypatch: Any, tolerance: float = 1e-12) -> None:
    q, v = states(control.model)
    found = control(0.0, q, v)
    fast = [x for k, x in control.model.cache.items() if _owner(k) in _OWNERS]
    assert fast and not any(isinstance(x, compiled_control.NoCode) for x in fast)
    expected = by_arrays(control, q, v, monkeypatch)
    assert (found != expected).any()  # they are two ways
    assert np.abs(found - expected).max() < tolerance * np.abs(expected).max()
    one = [control(0.0, a, b) for a, b in zip(q, v, strict=True)]
    assert (np.array(one) == found).all()
    assert (control(0.0, q[0].tolist(), v[0].tolist()) == found[0]).all()
    again = pickle.loads(pickle.dumps(control)) if not callable(control.reference) else control
    assert (again(0.0, q, v) == found).all()


def test_computed_torque_at_every_joint(monkeypatch: pytest.MonkeyPatch):
    model = branching(len(ALL), 11, ALL, armature=True)
    gains = np.random.default_rng(1).uniform(1, 9, (2, model.nv))
    make = pp.control.ComputedTorque
    every = model.joint_names
    control = make(model, moving(model), *gains, compensate_damping=True, actuated=every)
    check(control, monkeypatch)
    check(pp.control.PDGravity(model, moving(model), *gains, actuated=every), monkeypatch)


def test_other_gains_and_errors_are_not_lost(monkeypatch: pytest.MonkeyPatch):
    arm = pp.examples.seven_joint_arm()
    control = pp.control.ComputedTorque(arm, np.zeros(7), kp=10, kd=2)
    q, v = states(arm)
    before = control(0.0, q, v)
    control.kp = 2 * control.kp
    after = control(0.0, q, v)
    assert np.abs(after - before).max() > 1
    assert np.abs(after - by_arrays(control, q, v, monkeypatch)).max() < 1e-11
    with pytest.raises(InputError, match="q is nan at joint"):
        control(0.0, q[0] * np.nan, v[0])
    with pytest.raises(Exception, match="shape"):
        control(0.0, q[:, 1:], v)


@pytest.mark.parametrize("components", ["pose", "position", "rotation", (1, 3, 5)])
@pytest.mark.parametrize("second", [False, True])
def test_operational_space(components: Any, second: bool, monkeypatch: pytest.MonkeyPatch):
    arm = pp.examples.seven_joint_arm()
    null = pp.control.PDGravity(arm, np.full(7, 0.3), kp=3, kd=1) if second else None
    control = pp.control.OperationalSpace(
        arm, ("tool", (0.1, 0, 0.05)), goal, kp=30, kd=7, components=components, null_space=null,
        compensate_damping=True, singularity=1e-9,
    )  # fmt: skip
    check(control, monkeypatch, 1e-10)


def test_singular_configurations_are_damped_as_before():
    """Machine code knows the formula without damping only, and says so."""
    arm = pp.examples.planar_arm(3)
    control = pp.control.OperationalSpace(
        arm, "tip", (1.0, 1.0, 0.0), kp=100, kd=20, components=(3, 4), singularity=1e-2
    )
    bent, straight, still = np.array([0.3, 0.9, 0.8]), np.array([0.3, 1e-4, 1e-4]), np.zeros(3)
    control(0.0, bent, still)
    assert control.damped_calls == 0
    with pytest.warns(PhipsiWarning, match="near a singularity"):
        tau = control(0.0, straight, still)
    assert control.damped_calls == 1 and np.abs(tau).max() < 1e4
    together = control(0.0, np.array([bent, straight]), np.zeros((2, 3)))
    assert (together == np.array([control(0.0, x, still) for x in (bent, straight)])).all()


def test_null_spaces_are_asked_once():
    arm, asked = pp.examples.seven_joint_arm(), []

    def null(t: float, q: Any, v: Any) -> np.ndarray:
        asked.append(t)
        return np.zeros(7)

    control = pp.control.OperationalSpace(arm, "tool", goal, kp=9, kd=6, null_space=null)
    with pytest.warns(PhipsiWarning, match="near a singularity") as found:
        control(0.0, np.zeros(7), np.zeros(7))
    assert len(asked) == 1 and found[0].filename == __file__
