"""Residues modulo primes and long decimals: arithmetic that proofs rest on."""

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from proof_models import MODELS

from phipsi.core.model.joints import Composite
from phipsi.core.model.model import Model
from phipsi.examples import planar_arm
from phipsi.operators import parse
from phipsi.papers.proofs import residues
from phipsi.papers.proofs.claim_decision import chance
from phipsi.papers.proofs.digits import Digits, agree, cosine, long_decimals, sine
from phipsi.papers.proofs.exact_array import NotRational
from phipsi.papers.proofs.exact_mechanism import ExactMechanism
from phipsi.papers.proofs.proof_state import drawing
from phipsi.papers.proofs.residues import Residue, field, is_prime, random_prime, residue
from phipsi.papers.proofs.sample_mechanisms import SampleMechanism

PRIME = 2147483629
F = field(PRIME)
RNG = np.random.default_rng(1)


def random_residues(*shape: int):
    return drawing(F, RNG)(*shape)


def ints(x) -> list[int]:
    return [int(v) for v in np.asarray(x).real.reshape(-1)]


# ---- primes and numbers --------------------------------------------------------------------------


def test_primes():
    small = [n for n in range(60) if is_prime(n)]
    assert small == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59]
    assert is_prime(PRIME) and not is_prime(PRIME + 2) and is_prime(2**31 - 1)
    drawn = {random_prime(np.random.default_rng(i)) for i in range(20)}
    assert len(drawn) == 20 and all(2**30 < p < 2**31 and is_prime(p) for p in drawn)


def test_a_float_is_the_rational_number_it_is():
    assert residue(0.1, PRIME) != residue(Fraction(1, 10), PRIME)
    assert residue(0.1, PRIME) == residue(Fraction(0.1), PRIME)
    assert residue(Fraction(1, 10), PRIME) * 10 % PRIME == 1
    assert ints(F.of([0.5, -1, 2.0**60, 1e-300])) == [
        residue(Fraction(x), PRIME) for x in (0.5, -1, 2.0**60, 1e-300)
    ]


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (6, 6, 6), (3, 200, 5), (70, 64, 90)])
def test_products_of_matrices_are_exact(m: int, k: int, n: int):
    a, b = random_residues(m, k), random_residues(k, n)
    a[0], b[:, 0] = PRIME - 1, PRIME - 1  # the largest there are
    exact = (
        np.array(ints(a), object).reshape(m, k) @ np.array(ints(b), object).reshape(k, n)
    ) % PRIME
    assert ints(a @ b) == [int(x) for x in exact.reshape(-1)]


@pytest.mark.parametrize("k", [62, 63, 64, 65, 127, 300])
def test_the_largest_sums_of_products_are_exact(k: int, monkeypatch: pytest.MonkeyPatch):
    """Odd numbers of 16 and of 31 bits: in whatever order, float64 has no sum of 65 of them."""
    top = 2**31 - 1 - 2**16
    a, b = F.of(np.full((9, k), top)), F.of(np.full((k, 9), PRIME - 2))
    assert top & 0xFFFF == 0xFFFF and set(ints(a @ b)) == {top * (PRIME - 2) * k % PRIME}
    monkeypatch.setattr(residues, "_SHORT", 1000)
    assert (k > 64) == (set(ints(a @ b)) != {top * (PRIME - 2) * k % PRIME})


@pytest.mark.parametrize(
    ("a", "b"), [((4, 70, 70), (4, 70, 3)), ((4, 20, 20), (20, 20)), ((9, 80), (80,))]
)
def test_products_of_stacks_are_exact(a: tuple[int, ...], b: tuple[int, ...]):
    x, y = random_residues(*a), random_residues(*b)
    wide = [np.array(ints(z), object).reshape(z.shape) for z in (x, y)]
    assert ints(x @ y) == [int(z) for z in (np.matmul(*wide) % PRIME).reshape(-1)]


@pytest.mark.parametrize("n", [1, 7, 31, 33, 80])
def test_inverses_and_determinants(n: int):
    a = random_residues(n, n)
    assert np.array_equal(np.linalg.inv(a) @ a, np.eye(n))
    b = random_residues(n, n)
    assert np.linalg.det(a) * np.linalg.det(b) == np.linalg.det(a @ b)
    turned = np.eye(n)[::-1]  # every leading block is singular
    assert np.array_equal(np.linalg.inv(F.of(turned)), turned)
    singular = a.copy()
    singular[:, 0] = 0
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(singular)
    assert int(np.linalg.det(singular)) == 0


def test_dual_numbers_differentiate():
    a, d = random_residues(4, 4), random_residues(4, 4)
    x = a + 1j * d
    assert np.array_equal((x @ x).imag, a @ d + d @ a)
    back = np.linalg.inv(a)
    assert np.array_equal(np.linalg.inv(x).imag, -(back @ d @ back))
    assert np.linalg.det(x).imag == np.linalg.det(a) * np.trace(back @ d)
    assert np.log(np.linalg.det(x)).imag == np.trace(back @ d)
    assert np.array_equal((x / a[0, 0]).imag, d / a[0, 0])
    s, c = np.sin(x[0]), np.cos(x[0])
    assert np.array_equal(s * s + c * c, np.ones(4))
    assert np.array_equal(s.imag, c.real * d[0]) and np.array_equal(c.imag, -(s.real * d[0]))


def test_scalars_agree_with_arrays():
    a, b = (
        random_residues(5) + 1j * random_residues(5),
        random_residues(5) + 1j * random_residues(5),
    )
    for x, y, p, q in zip(a.scalars(), b.scalars(), a, b, strict=True):
        for found, array in (
            (x + y, p + q), (x - y, p - q), (x * y, p * q), (x / y, p / q), (2 - x, 2 - p),
            (3 / x, 3 / p), (-x, -p), (x * 0.5, p * 0.5), (F.ops.sin(x), np.sin(p)),
        ):  # fmt: skip
            assert isinstance(found, Residue)
            assert complex(found) == complex(array)


def test_what_has_no_meaning_is_refused():
    x = random_residues(3)
    for function in (np.sqrt, np.abs, np.exp, np.log, np.maximum.reduce):
        with pytest.raises(NotRational):
            function(x)
    with pytest.raises(NotRational):
        F.ops.sqrt(x.scalars()[0])


def test_sums_of_products_by_index():
    a, b = random_residues(3, 4, 5), random_residues(3, 5)
    found = np.einsum("kij,kj->ki", a, b)
    assert np.array_equal(found, np.stack([a[k] @ b[k] for k in range(3)]))
    square = random_residues(4, 4)
    assert np.einsum("ii->", square) == np.trace(square)
    assert np.array_equal(np.cross(a[0, 0, :3], b[0, :3]), -np.cross(b[0, :3], a[0, 0, :3]))


# ---- long decimals -------------------------------------------------------------------------------


@pytest.mark.parametrize("x", ["0", "1", "-2.5", "3.14159", "1e-40", "1000000.25", "-1e12"])
def test_sine_and_cosine_have_all_digits(x: str):
    with long_decimals(), mpmath.workdps(140):
        for mine, theirs in ((sine, mpmath.sin), (cosine, mpmath.cos)):
            expected = Decimal(mpmath.nstr(theirs(mpmath.mpf(x)), 125))
            assert abs(mine(Decimal(x)) - expected) < Decimal("1e-105")


def test_fifty_digits_and_no_fewer():
    with long_decimals():
        a = Digits.of(RNG.normal(size=(6, 6)))
        assert agree(np.linalg.inv(a) @ a, np.eye(6))[0]
        assert np.linalg.det(a @ a) - np.linalg.det(a) ** 2 < Decimal("1e-100")
        off = a + Decimal("1e-40")
        assert agree(a, off) == (False, pytest.approx(1e-40))
        assert agree(a, a + Decimal("1e-60"))[0]
        with pytest.raises(np.linalg.LinAlgError):
            np.linalg.inv(Digits.of(np.ones((3, 3))))


# ---- mechanisms ----------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["all joint types", "free base with rotors", "forest"])
@pytest.mark.parametrize("own", [True, False])
def test_rotations_and_axes_are_exact(label: str, own: bool):
    model: Model = MODELS[label]
    mechanism = ExactMechanism(model, F, None if own else random_residues)
    for placement in mechanism.placements:
        assert np.array_equal(placement.rotation @ placement.rotation.T, np.eye(3))
        assert np.linalg.det(placement.rotation) == 1
    for joint in mechanism.joints:
        q = random_residues(joint.nq)
        rotation, _ = joint.transform(joint.params, q.scalars(), F.ops)
        R = F.of(np.array(rotation, float))
        assert np.array_equal(R @ R.T, np.eye(3)), joint.kind


def test_own_numbers_are_the_models():
    model = MODELS["all joint types"]
    with long_decimals():
        exact = ExactMechanism(model, Digits)
        for mine, theirs in zip(exact.placements, model.placements, strict=True):
            gap = np.abs(np.asarray(mine.rotation, float) - theirs.rotation).max()
            assert gap < 1e-15 and agree(mine.translation, theirs.translation)[1] == 0
        for mine, theirs in zip(exact.joints, model.joints, strict=True):
            if not isinstance(theirs, Composite):
                assert np.allclose([float(x) for x in mine.params], theirs.params, atol=1e-15)
        assert agree(exact.inertia_matrices, model.inertia_matrices)[1] == 0


def test_the_chance_grows_with_the_degree_and_the_bits():
    assert 0 < chance(10, 0, PRIME) < chance(1000, 0, PRIME) < chance(1000, 60, PRIME) <= 1
    assert chance(10**12, 0, PRIME) == 1


# ---- states --------------------------------------------------------------------------------------


def test_a_state_elsewhere_is_where_it_was_asked_for():
    """What is kept for other inputs is found by all of them, whatever becomes of their arrays."""
    sample = SampleMechanism(planar_arm(2))
    state, power = sample.state(3, 0), parse("v* tau")
    momentum, rates = parse("mass_matrix v"), parse("v")
    q, other = state.random(2), state.random(2)

    def afresh(**changes):  # a new state keeps nothing yet
        return SampleMechanism.state.__wrapped__(sample, 3, 0).dense(momentum, **changes)

    places = [{"q": q}, {"v": q}, {"q": other}, {"q": q, "v": other}, {"q": other, "v": q}]
    expected = [afresh(**place) for place in places]
    for _ in range(2):
        assert all(
            np.array_equal(state.dense(momentum, **place), value)
            for place, value in zip(places, expected, strict=True)
        )
    assert len({tuple(ints(value)) for value in expected}) == len(places)
    assert state.dense(power, v=q) == (state.tau * q).sum()  # the tau of the equations of motion
    there = other.copy()
    state.dense(parse("tau"), v=there)  # does not read v yet
    there[...] = q
    assert np.array_equal(state.dense(rates, v=other), other)
