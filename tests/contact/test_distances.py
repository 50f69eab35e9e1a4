"""distances: one signed distance per pair, by the slots and by MuJoCo; collisions of an arm."""

import numpy as np
import pytest

import phipsi as pp
from phipsi.errors import InputError

S = pp.shapes


@pytest.fixture(scope="module")
def arm():
    """Three links with capsules, a hand that is a mesh, and a post beside it."""
    builder = pp.ModelBuilder()
    parent = "world"
    for i in range(3):
        at = pp.Pose(translation=(0, 0, 0.5 if i else 0.0))
        joint = pp.joints.Revolute(axis=(0, 1, 0) if i != 1 else (1, 0, 0))
        builder.add_body(f"link{i}", parent=parent, placement=at, joint=joint,
                         inertia=pp.SpatialInertia(mass=1.0))  # fmt: skip
        builder.add_shape(
            f"link{i}", f"link{i}", S.Capsule(0.05, 0.4), pp.Pose(translation=(0, 0, 0.25))
        )
        parent = f"link{i}"
    hand = np.random.default_rng(0).normal(size=(16, 3)) * 0.1
    builder.add_shape("hand", "link2", S.ConvexMesh(hand), pp.Pose(translation=(0, 0, 0.5)))
    builder.add_shape("post", "world", S.Cylinder(0.1, 2.0), pp.Pose(translation=(0.5, 0, 0.5)))
    return builder.build()


def test_the_nearest_slot_of_every_pair(arm):
    contacts = pp.Contacts(arm, ground=True)
    q = arm.random_configuration(1, (2, 9))
    found = pp.distances(contacts, q)
    slots = pp.contact_points(contacts, q)
    assert found.distance.shape == (2, 9, len(contacts.pairs))
    assert found.point_a.shape == (2, 9, len(contacts.pairs), 3)
    for k, pair in enumerate(contacts.pairs):
        own = slice(pair.first, pair.first + pair.slots)
        assert (found.distance[..., k] == slots.gap[..., own].min(axis=-1)).all()
    d = np.einsum("...i,...i->...", found.normal, found.point_a - found.point_b)
    np.testing.assert_allclose(d, found.distance, atol=1e-12)
    # the arm meets itself and the post in some of these
    names = [pair.name for pair in contacts.pairs]
    assert "link0|hand" in names and "post|hand" in names
    assert (found.distance < 0).any() and (found.distance > 0.1).any()


def test_rates_are_those_of_the_nearest_points(arm):
    contacts = pp.Contacts(arm, pairs=[("link0", "hand"), ("post", "hand")])
    rng = np.random.default_rng(2)
    q, v, t = arm.random_configuration(rng, 30), rng.normal(size=(30, 3)), 1e-6
    now, plus, minus = (pp.distances(contacts, q + s * v) for s in (0.0, t, -t))
    rate = (plus.distance - minus.distance) / (2 * t)
    X, V = pp.poses(arm, q), pp.velocities(arm, q, v)
    zero = np.zeros((30, 3))
    checked = 0
    for k, pair in enumerate(contacts.pairs):
        speed = []
        for body, x in ((pair.body_a, now.point_a), (pair.body_b, now.point_b)):
            if body < 0:
                speed.append(zero)
                continue
            R, at = X[:, body, :3, :3], X[:, body, :3, 3]
            w, u = (np.einsum("mij,mj->mi", R, V[:, body, i : i + 3]) for i in (0, 3))
            speed.append(u + np.cross(w, x[:, k] - at))
        row = np.einsum("mi,mi->m", now.normal[:, k], speed[0] - speed[1])
        smooth = np.abs(plus.distance + minus.distance - 2 * now.distance)[:, k] < 1e-10
        smooth &= now.distance[:, k] > 0
        assert np.abs(row - rate[:, k])[smooth].max() < 1e-5
        checked += smooth.sum()
    assert checked > 20


def test_pairs_beyond_a_distance_are_left_out(arm):
    contacts = pp.Contacts(arm)
    q = arm.random_configuration(1, 40)
    everything, near = pp.distances(contacts, q), pp.distances(contacts, q, max_distance=0.2)
    left = near.distance == 1e6
    assert left.any() and (everything.distance[left] > 0.2).all()
    assert (near.distance[~left] == everything.distance[~left]).all()
    with pytest.raises(InputError, match="max_distance=0 must be a length above 0"):
        pp.distances(contacts, q, max_distance=0)
    with pytest.raises(InputError, match=r"pp.distances\(pp.Contacts\(model, ground=True\), q\)"):
        pp.distances(arm, q)
