"""Blocks that generated code keeps short for bodies with modes, against full matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from phipsi.core.sweeps.entries import cross_matrix
from phipsi.native.kernel import lane_blocks as bl

RNG = np.random.default_rng(5)


def full(block) -> np.ndarray:
    return np.array(block.dense(), dtype=float)


def symmetric(n: int) -> bl.Symmetric:
    x = RNG.normal(size=(n, n))
    return bl.Symmetric((x @ x.T)[np.tril_indices(n)].tolist(), n)


def step(m: int, n: int) -> bl.LaneStep:
    turn = np.linalg.qr(RNG.normal(size=(3, 3)))[0].tolist()
    modal = RNG.normal(size=(m, 6)).tolist()
    return bl.LaneStep(bl.LaneTransform(turn, RNG.normal(size=3).tolist()), modal, n)


@pytest.mark.parametrize(("m", "n"), [(3, 2), (0, 1), (1, 0)])
def test_steps_are_the_matrices_they_stand_for(m, n):
    x = step(m, n)
    R, l, Q = (np.array(y) for y in (x.rigid.turn, x.rigid.arm, x.modal))
    skew, both = np.array(cross_matrix(l)), np.kron(np.eye(2), R)
    expected = np.zeros((6 + m, 6 + n))
    expected[:6, :6] = both
    expected[:3, 3:6] = skew @ R
    if m:
        expected[6:, :6] = Q @ both
    assert_allclose(full(x), expected, atol=1e-14)
    assert_allclose(full(bl.transpose(x)), expected.T, atol=1e-14)
    assert bl.transpose(bl.transpose(x)) is x
    assert x.like(x.entries).entries == x.entries
    f, y = bl.Dense(RNG.normal(size=(6 + n, 2))), bl.Dense(RNG.normal(size=(6 + m, 2)))
    assert_allclose(full(bl.times(x, f)), expected @ full(f), atol=1e-13)
    assert_allclose(full(bl.times(bl.transpose(x), y)), expected.T @ full(y), atol=1e-13)
    for a, E, s in (
        (x, expected, symmetric(6 + n)),
        (bl.transpose(x), expected.T, symmetric(6 + m)),
    ):
        assert_allclose(full(bl.congruence(a, s)), E @ full(s) @ E.T, atol=1e-11)


def inverse_of(a: bl.Symmetric) -> bl.Inverse:
    low = np.linalg.cholesky(full(a))
    d = np.diag(low)
    return bl.Inverse(a.dense(), (low / d).tolist(), (1 / d**2).tolist())


def test_rows_of_a_matrix_times_its_inverse_are_known():
    a = symmetric(4)
    rows = a.dense()
    x = bl.Dense([rows[2], RNG.normal(size=4).tolist(), [1.01 * c for c in rows[2]], rows[0]])
    found = bl.times(x, inverse_of(a)).dense()
    assert found[0] == [0, 0, 1, 0] and found[3] == [1, 0, 0, 0]
    assert all(isinstance(c, int) for c in found[0])
    assert not any(isinstance(c, int) for row in found[1:3] for c in row)  # others are computed
    assert_allclose(np.array(found, float), full(x) @ np.linalg.inv(full(a)), atol=1e-10)


def test_entries_of_an_inverse_are_there_when_asked_for():
    a = symmetric(5)
    found, expected = inverse_of(a), np.linalg.inv(full(a))
    assert_allclose(full(found), expected, rtol=1e-8)
    assert_allclose(found.entries, expected[np.tril_indices(5)], rtol=1e-8)
    y = bl.Dense(RNG.normal(size=(5, 2)))
    assert_allclose(full(bl.times(found, y)), expected @ full(y), rtol=1e-8)
