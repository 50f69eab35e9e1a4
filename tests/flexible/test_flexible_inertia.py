"""FlexibleInertia: M(η) and port poses against nodes, and rejected input."""

import pickle

import numpy as np
import pytest

import phipsi as pp
from phipsi.core.model.flexible_ports import FlexibleShape
from phipsi.core.spatial import skew
from phipsi.errors import ModelError


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def body_of_nodes(rng, nodes=7, n=3, second_order=True):
    """Point masses with random shapes φ and ψ, and the invariants as sums over them."""
    m, r = rng.uniform(0.2, 1, nodes), rng.normal(size=(nodes, 3))
    phi = rng.normal(size=(nodes, 3, n))
    psi = rng.normal(size=(nodes, 3, n, n)) * second_order
    psi = psi + psi.swapaxes(-1, -2)
    K = rng.normal(size=(n, n))
    cross = lambda a, b: np.cross(a, b)  # noqa: E731
    squares = lambda a, b: -(skew(a) @ skew(b) + skew(b) @ skew(a))  # noqa: E731
    pairs = [(i, j) for i in range(n) for j in range(n)]
    J1 = [sum(m[k] * squares(r[k], phi[k, :, i]) for k in range(nodes)) for i in range(n)]
    J2 = [
        sum(
            m[k] * (squares(phi[k, :, i], phi[k, :, j]) + squares(r[k], psi[k, :, i, j]))
            for k in range(nodes)
        )
        for i, j in pairs
    ]
    C1 = [m @ (cross(phi[:, :, j], phi[:, :, i]) + cross(r, psi[:, :, i, j])) for i, j in pairs]
    inertia = pp.FlexibleInertia(
        m.sum(),
        m @ r,
        sum(m[k] * squares(r[k], r[k]) / 2 for k in range(nodes)),
        S1=np.einsum("k,kai->ai", m, phi),
        S2=np.einsum("k,kaij->aij", m, psi),
        J1=np.stack(J1, -1),
        J2=np.stack(J2, -1).reshape(3, 3, n, n),
        C0=np.stack([m @ cross(r, phi[:, :, i]) for i in range(n)], -1),
        C1=np.stack(C1, -1).reshape(3, n, n),
        modal_mass=np.einsum("k,kai,kaj->ij", m, phi, phi),
        stiffness=K @ K.T,
        ports=[
            pp.Port(
                "tip",
                position=r[0],
                rotation_modes=rng.normal(size=(3, n)),
                translation_modes=phi[0],
                second_order=psi[0],
            )
        ],
    )
    return inertia, (m, r, phi, psi)


def dense_inertia(m, r, phi, psi, eta):
    """Σ m B* B with B = [−p~, I, ∂p/∂η], p the position of a node."""
    n = phi.shape[-1]
    M = np.zeros((6 + n, 6 + n))
    for k in range(len(m)):
        p = r[k] + phi[k] @ eta + psi[k] @ eta @ eta / 2
        B = np.hstack([-skew(p), np.eye(3), phi[k] + psi[k] @ eta])
        M += m[k] * B.T @ B
    return M


def test_inertia_of_a_linear_field_is_that_of_the_nodes(rng):
    inertia, nodes = body_of_nodes(rng, second_order=False)
    eta = rng.normal(size=(4, 3))
    found = inertia.inertia_at(eta)
    for k in range(4):
        np.testing.assert_allclose(found[k], dense_inertia(*nodes, eta[k]), rtol=0, atol=1e-12)


def test_second_order_field_is_truncated_as_stated(rng):
    """J to η², C and S to η¹, M_e to η⁰: what is left out shrinks by 2 per order and halving."""
    inertia, nodes = body_of_nodes(rng)
    eta = rng.normal(size=3)
    gaps = []
    for size in (1e-3, 5e-4):
        gap = inertia.inertia_at(size * eta) - dense_inertia(*nodes, size * eta)
        blocks = gap[:3, :3], gap[:3, 3:6], gap[:3, 6:], gap[3:6, 6:], gap[6:, 6:]
        gaps.append([np.abs(block).max() for block in blocks])
    assert max(gaps[0][1], gaps[0][3]) < 1e-14  # s and S are exact
    ratios = np.log2(np.array(gaps[0]) / np.maximum(gaps[1], 1e-300))[[0, 2, 4]]
    np.testing.assert_allclose(ratios, [3, 2, 1], atol=0.05)


def test_at_rest_it_is_the_rigid_inertia(rng):
    inertia, _ = body_of_nodes(rng)
    np.testing.assert_allclose(
        inertia.inertia_at(np.zeros(3))[:6, :6], inertia.rigid.matrix, atol=1e-12
    )


def test_port_pose(rng):
    inertia, (_, r, phi, psi) = body_of_nodes(rng)
    eta = rng.normal(size=3)
    pose = inertia.port_pose("tip", eta)
    expected = r[0] + phi[0] @ eta + psi[0] @ eta @ eta / 2
    np.testing.assert_allclose(pose.translation, expected, atol=1e-14)
    g = inertia.ports[0].rotation_modes @ eta / 2
    cayley = np.linalg.solve(np.eye(3) - skew(g), np.eye(3) + skew(g))
    np.testing.assert_allclose(pose.rotation, cayley, atol=1e-14)
    assert inertia.port_pose("tip", np.zeros(3)).rotation.tolist() == np.eye(3).tolist()


def test_frequencies(rng):
    inertia, _ = body_of_nodes(rng)
    squares = np.linalg.eigvals(np.linalg.solve(inertia.modal_mass, inertia.stiffness))
    np.testing.assert_allclose(inertia.frequencies**2, np.sort(squares.real), rtol=1e-10)


def test_it_is_a_value(rng):
    inertia, _ = body_of_nodes(rng)
    again = pickle.loads(pickle.dumps(inertia))
    assert again == inertia and hash(again) == hash(inertia)
    assert again != body_of_nodes(rng)[0]
    with pytest.raises(ValueError, match="read-only"):
        inertia.S1[0, 0] = 1.0
    with pytest.raises(AttributeError, match="frozen"):
        inertia.mass = 2.0


GOOD = {
    "mass": 2.0,
    "rotational_inertia": 1.0,
    "modal_mass": np.eye(2),
    "stiffness": np.eye(2),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mass": "two"}, "mass must be a number"),
        ({"mass": -1.0}, "mass must be finite and ≥ 0"),
        ({"modal_mass": np.zeros((0, 0))}, "SpatialInertia"),
        ({"modal_mass": np.ones((2, 2))}, "two modes are equal"),
        ({"modal_mass": np.diag([1.0, 0.0])}, "a mode moves no mass"),
        ({"stiffness": [[1.0, 0.5], [0.0, 1.0]]}, r"stiffness is not symmetric .* entry \[0, 1\]"),
        ({"stiffness": -np.eye(2)}, "stiffness is not positive semidefinite"),
        ({"damping": np.diag([1.0, -1.0])}, "damping is not positive semidefinite"),
        ({"S1": np.ones((2, 3))}, r"S1 must have shape \(3, n\) with n = 2"),
        ({"S2": np.arange(12.0).reshape(3, 2, 2)}, "S2 is not symmetric in its axes 1 and 2"),
        ({"C0": np.full((3, 2), np.nan)}, r"C0\[0, 0\] is nan"),
        ({"S1": np.full((3, 2), 9.0)}, r"M\(0\) has a negative eigenvalue"),
        ({"ports": [pp.Port("a"), pp.Port("a")]}, "two ports are named 'a'"),
        ({"ports": [pp.Port("a", translation_modes=np.zeros((3, 5)))]}, "port 'a' has 5 modes"),
        ({"ports": ["tip"]}, "must be Port objects"),
        ({"shape": FlexibleShape(np.zeros((1, 3)), np.zeros((1, 3, 1)))}, "shape has 1 modes"),
    ],
)
def test_bad_numbers_are_rejected(change, message):
    pp.FlexibleInertia(**GOOD)
    with pytest.raises(ModelError, match=message):
        pp.FlexibleInertia(**GOOD | change)


def test_unknown_port():
    with pytest.raises(ModelError, match=r"no port 'tpi'.*'tip'"):
        pp.FlexibleInertia(**GOOD, ports=[pp.Port("tip")]).port_pose("tpi", [0, 0])
