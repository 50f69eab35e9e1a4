"""`forward_dynamics(…, return_accelerations=True)`: α and α(0), by FD2 and by the other forms."""

from __future__ import annotations

import numpy as np
import pytest
from random_models import random_tree
from random_systems import random_system

import phipsi as pp
from phipsi.errors import InputError

FORMS = [None, "FD1", "FD2", "FD3", "FD4"]
SEEDS = range(4)


def case(seed: int, batch: int = 0):
    model = random_tree(seed, 6, n_roots=1 + seed % 2, armature=seed % 2 == 1)
    rng = np.random.default_rng(seed)
    size = (batch,) if batch else ()
    q = np.array([model.random_configuration(rng) for _ in range(batch or 1)]).reshape(*size, -1)
    v, tau = rng.standard_normal((2, *size, model.nv))
    return model, q, v, tau, rng


def close(x, y, condition: float = 1.0) -> None:
    """Equal up to the rounding of a solution with a matrix of this condition number."""
    scale = max(1.0, float(np.abs(y).max(initial=0.0)))
    assert np.abs(x - y).max(initial=0.0) <= 50 * np.finfo(float).eps * condition * scale


def by_differences(model, q, v, vdot, points):
    """d/dt of the velocities of points in world axes, by a complex step along the motion."""
    h = 1e-30
    qdot = model.qdot(q, v)
    moving = pp.evaluate_dense("B* phi* H* v", model, q + 1j * h * qdot, v + 1j * h * vdot,
                               points=points)  # fmt: skip
    return moving.imag.reshape(-1, 6) / h


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", SEEDS)
def test_accelerations_of_bodies_and_points(seed: int, form: str | None):
    model, q, v, tau, rng = case(seed)
    points = [(model.body_names[-1], (0.1, -0.2, 0.3)), (model.body_names[0], (0, 0, 0.5))]
    f_ext, f0 = rng.standard_normal((model.n_bodies, 6)), rng.standard_normal((2, 6))
    worst = np.linalg.cond(pp.mass_matrix(model, q))
    found = pp.forward_dynamics(
        model, q, v, tau, f_ext, points=points, f0=f0, algorithm=form, return_accelerations=True
    )
    vdot = pp.forward_dynamics(model, q, v, tau, f_ext, points=points, f0=f0)
    close(found.vdot, vdot, worst)
    close(found.point_accelerations, by_differences(model, q, v, vdot, points), worst)
    J = pp.jacobian(model, q, points)
    bias = pp.accelerations(model, q, v, 0 * v, points, axes="world", classical=True)
    close(found.point_accelerations, (J @ vdot).reshape(-1, 6) + bias, worst)
    alpha = pp.evaluate_dense("phi* (H* vdot + a) + s_gauge", model, q, v, vdot=vdot)
    close(found.accelerations, alpha.reshape(-1, 6), worst)
    # a twin: without the loads the motion is another one
    free = pp.forward_dynamics(
        model, q, v, tau, points=points, algorithm=form, return_accelerations=True
    )
    assert np.abs(free.point_accelerations - found.point_accelerations).max() > 1e-3


@pytest.mark.parametrize("form", [None, "FD2"])
def test_batches_and_no_points(form: str | None):
    model, q, v, tau, _ = case(1, batch=5)
    found = pp.forward_dynamics(model, q, v, tau, algorithm=form, return_accelerations=True)
    assert found.vdot.shape == (5, model.nv)
    assert found.accelerations.shape == (5, model.n_bodies, 6)
    assert found.point_accelerations.shape == (5, 0, 6)
    for i in range(5):
        one = pp.forward_dynamics(
            model, q[i], v[i], tau[i], algorithm=form, return_accelerations=True
        )
        for x, y in zip(one, found, strict=True):
            close(x, y[i], np.linalg.cond(pp.mass_matrix(model, q[i])))


def test_gravity_is_no_acceleration():
    """A rod that falls: its body accelerates by g, and a body at rest on a held joint does not."""
    arm = pp.examples.planar_arm(1)
    held = pp.inverse_dynamics(arm, [0.3], [0.0], [0.0])
    for form in FORMS:
        found = pp.forward_dynamics(
            arm, [0.3], [0.0], held, algorithm=form, return_accelerations=True, points=["tip"]
        )
        close(found.point_accelerations, np.zeros((1, 6)), 10.0)


@pytest.mark.parametrize("seed", range(2))
def test_closed_loops(seed: int):
    system, q = random_system(seed, 6, ["Spherical"])
    rng = np.random.default_rng(seed)
    v = np.linalg.svd(system.jacobian(q))[2][-1] * rng.uniform(1, 2)  # keeps the constraints
    tau = rng.standard_normal(system.nv)
    found = pp.forward_dynamics(system, q, v, tau, return_accelerations=True)
    close(found.vdot, pp.forward_dynamics(system, q, v, tau))
    x = "phi* (H* vdot + a) + s_gauge"
    want = pp.evaluate_dense(x, system.model, q, v, vdot=found.vdot)
    close(found.accelerations, want.reshape(-1, 6), 10.0)
    free = pp.forward_dynamics(system.model, q, v, tau, return_accelerations=True)
    assert np.abs(free.accelerations - found.accelerations).max() > 1e-3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"return_multipliers": True}, "cannot be combined with return_multipliers=True"),
        ({"out": np.zeros(2)}, "cannot be combined with out="),
        ({"f0": [[0.0] * 6]}, "f0= was given without points="),
        ({"algorithm": "FD5"}, "algorithm='FD5'"),
    ],
)
def test_what_does_not_fit(more: dict, said: str):
    arm = pp.examples.planar_arm(2)
    with pytest.raises(InputError, match=said):
        pp.forward_dynamics(arm, [0.0] * 2, [0.0] * 2, [0.0] * 2, return_accelerations=True, **more)
    with pytest.raises(InputError, match="return_accelerations"):
        pp.forward_dynamics(arm, [0.0] * 2, [0.0] * 2, [0.0] * 2, return_accelerations=1)
