"""Embedded loops against the constrained equations of the same system, solved densely."""

import numpy as np
import pytest
from comparers import close, tight
from random_systems import admissible, bias_by_complex_step, kkt, random_system

import phipsi as pp
import phipsi
from phipsi.embedding import embed_constraints as embed
from phipsi.operators import mass_matrix

KINDS = (
    "Spherical", "Revolute", "Distance", "Coupling", "Universal", "PointOnLine", "Planar",
    "Cylindrical", "Prismatic", "Weld",
)  # fmt: skip
LOOPS = [(seed, kinds) for seed, kinds in enumerate([*((k,) for k in KINDS), KINDS[:4], KINDS])]


def made(seed, kinds, bodies=9):
    """A random system with such loops, embedded; None if no loop of it can be."""
    for more in range(20):
        system, q = random_system((seed, more), bodies, kinds, spare=3, independent=True)
        try:
            return system, q, embed(system, q), np.random.default_rng(seed)
        except pp.errors.InputError:
            continue
    raise AssertionError("no system")


def state(seed, kinds, spread=0.05):
    system, q, e, rng = made(seed, kinds)
    qe = e.model.integrate(e.coordinates(q), spread * rng.standard_normal(e.model.nv))
    ve = rng.standard_normal(e.model.nv)
    return system, e, qe, ve, rng


@pytest.mark.parametrize(("seed", "kinds"), LOOPS)
def test_dynamics(seed, kinds):
    system, e, qe, ve, rng = state(seed, kinds)
    if e.remaining:
        pytest.skip("left out")
    q, v = e.system_coordinates(qe), e.system_velocities(qe, ve)
    close(system.residual(q), 0 * system.residual(q), 1e-10)
    close(system.jacobian(q) @ v, 0 * system.residual(q))
    X = e.system_velocities(qe, np.eye(e.model.nv)).T
    M = X.T @ pp.mass_matrix(system, q) @ X
    tight(pp.mass_matrix(e.model, qe), M)
    close(pp.mass_matrix_inverse(e.model, qe), np.linalg.inv(M))
    close(pp.diagonal_dynamics.log_det_mass_matrix(e.model, qe), np.linalg.slogdet(M)[1])
    tau = rng.standard_normal(system.nv)
    vdot, _ = kkt(system, q, v, tau)
    close(pp.forward_dynamics(e.model, qe, ve, e.efforts(qe, tau)), e.velocities(qe, vdot))
    found = pp.inverse_dynamics(e.model, qe, ve, e.velocities(qe, vdot))
    wanted = X.T @ (pp.mass_matrix(system, q) @ vdot + pp.bias_forces(system.model, q, v))
    close(found, wanted)
