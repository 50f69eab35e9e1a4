"""Matrices that change in time, with modes: complex steps of points with mass, and identities."""

import numpy as np
import pytest
from amounts import seeds
from comparers import EPS, within
from flexible_oracle import ALL_FLEXIBLE, STEP, random_flexible_tree

import phipsi as pp

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture(scope="module", params=seeds(4))
def case(request):
    """A tree of rigid and flexible bodies, its model, and q, v, q along v by a complex step."""
    rng = np.random.default_rng(request.param)
    joints = [ALL_FLEXIBLE[i] for i in rng.integers(len(ALL_FLEXIBLE), size=4)]
    tree = random_flexible_tree(
        request.param, bodies=4, modes=(2, 0, 3, 1), joints=joints, armature=True
    )
    q, v = tree.random_state(rng)
    return tree, tree.build(), q, v, q + 1j * STEP * tree.q_rate(q, v)


close = within(4500 * EPS)


def test_coriolis_matrix(case):
    """C + C* is the rate of ℳ, that is Ṁ − 2 C is skew, and C v the Coriolis forces."""
    tree, model, q, v, ahead = case
    C = pp.sensitivities.coriolis_matrix(model, q, v)
    close(C + C.T, np.imag(tree.mass_matrix(ahead)) / STEP)
    forces = tree.bias_forces(q, v, elastic=False) - tree.bias_forces(q, 0 * v, elastic=False)
    close(C @ v, forces)
    assert np.abs(C - C.T).max() > 1e-2  # not half of the rate


def test_coriolis_matrix_is_that_of_levi_civita():
    """Torsion-free: in coordinates, the Christoffel symbols of the first kind times the rates."""
    tree = random_flexible_tree(
        3, bodies=3, modes=(1, 2, 1), joints=("revolute", "fixed", "helical")
    )
    model = tree.build()
    q, v = tree.random_state(np.random.default_rng(1))
    C = pp.sensitivities.coriolis_matrix(model, q, v)
    close(C, pp.sensitivities.christoffel_symbols(model, q, v))
    L = pp.sensitivities.mass_matrix_sensitivity(model, q)
    symbols = (L + np.swapaxes(L, 1, 2) - np.moveaxis(L, 2, 0)) / 2
    close(C, symbols @ v)
    half = np.einsum("ijk,k->ij", L, v) / 2
    assert np.abs(C - half).max() > 1e-2  # ½ dℳ/dt has the same symmetric part


@pytest.mark.parametrize("axes", ["body", "world", "spatial"])
def test_jacobian_dot(case, axes):
    _, model, q, v, ahead = case
    points = [model.body_names[-1], model.body_names[2]]
    found = pp.jacobian_dot(model, q, v, points, axes=axes)
    close(found, np.imag(pp.jacobian(model, ahead, points, axes=axes)) / STEP)
    close(found @ v, pp.jacobian_dot(model, q, v, points, axes=axes, times_v=True))


def test_jacobian_dot_against_the_oracle(case):
    """The last body, in world axes: nothing of the library's Jacobian is in it."""
    tree, model, q, v, ahead = case
    rotation, _, _, motion = tree.motions(ahead)[-1]
    there = np.vstack([rotation @ motion[:3], rotation @ motion[3:6]])
    found = pp.jacobian_dot(model, q, v, [model.body_names[-1]], axes="world")
    close(found, np.imag(there) / STEP)


def test_centroidal_momentum_matrix_dot(case):
    _, model, q, v, ahead = case
    found = pp.centroidal.momentum_matrix_dot(model, q, v)
    close(found, np.imag(pp.centroidal.momentum_matrix(model, ahead)) / STEP)
