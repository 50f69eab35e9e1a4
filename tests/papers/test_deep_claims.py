"""Claims that only deep, wide or geared mechanisms refute, and how far a proof reaches."""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

import phipsi as pp
from phipsi.core.rewrite.identity import CONDITIONS
from phipsi.errors import InputError
from phipsi.papers.proofs.claim_reach import reach_of
from phipsi.papers.proofs.deep_mechanisms import deep_samples, deep_samples_with_rows
from phipsi.papers.theorems.book import THEOREMS

# ---- refuted -------------------------------------------------------------------------------------

SIBLINGS = "(E_phi* M^-1 E_phi - bd(E_phi* M^-1 E_phi))"


def of_powers(n: int) -> str:
    """A sum of n inverses whose series in E_phi begins with its power n − 1."""
    weights = [Fraction(1, prod(i - j for j in range(1, n + 1) if j != i)) for i in range(1, n + 1)]
    terms = (f"{c} (I - {i} E_phi)^-1" for i, c in enumerate(weights, 1))
    return " + ".join(terms).replace("+ -", "- ")


@pytest.mark.parametrize(
    ("lhs", "rhs", "condition", "bodies"),
    [
        ("E_phi^5", "0", "", 6),
        ("E_phi^6", "0", "", 7),
        ("(H phi K)^5", "0", "", 6),
        ("E_phi^5", "0", "serial", 6),
        ("E_phi^4", "0", "revolute", 5),
        ("E_phi^4", "0", "one dof", 5),
        ("E_phi^4", "0", "one root", 5),
        ("E_phi^4", "0", "free root", 5),
        ("D_half^-1 H E_phi^3", "0", "", 8),
        ("phi", "I + E_phi + E_phi^2 + E_phi^3 + E_phi^4 + E_phi^5", "", 7),
        ("(phi - I - E_phi)^4", "0", "", 9),
        (of_powers(6), "0", "", 6),
        ("proj^-1", "I", "", 1),
        ("(H* D^-1 H)^-1", "M", "", 1),
        ("psi^-1", "proj^-1", "", 1),
        ("H E_phi^5 B", "0", "", 6),
        ("(unprescribed H K)^4", "0", "", 5),
        (f"bd({SIBLINGS} M {SIBLINGS} M {SIBLINGS})", "0", "", 4),
    ],
)
def test_claims_that_small_mechanisms_do_not_refute(lhs, rhs, condition, bodies):
    proof = pp.prove(pp.Identity(lhs, rhs, condition))
    assert proof.holds is False and not proof.limit
    found = proof.counterexample
    assert found is not None and found.model.n_bodies == bodies


@pytest.mark.parametrize("condition", ["", "prismatic", "free root"])
def test_deep_claims_about_constraint_rows_are_refuted(condition):
    assert pp.prove(pp.Identity("A B* E_phi*^6", "0", condition)).holds is False


def test_deep_claims_about_modes_are_refuted():
    """Forces on the fifth body outward bend a flexible one; on rigid bodies the claim is true."""
    proof = pp.prove("modal* H E_phi^4 = 0")
    assert proof.holds is False and proof.holds_if == "rigid bodies"


def test_rigid_bodies_are_a_condition_of_claims_about_modes_too():
    proof = pp.prove(pp.Identity("modal* H E_phi^4", "0", "rigid bodies"))
    assert proof and proof.in_a_row >= 5 and not proof.limit


def test_inverses_that_exist_without_rotors_too_hold_only_there():
    for lhs, rhs in (("proj^-1", "I"), ("(H* D^-1 H)^-1", "M"), ("psi^-1", "proj^-1")):
        assert pp.prove(pp.Identity(lhs, rhs)).holds_if == "Jr = 0"
        assert pp.prove(pp.Identity(lhs, rhs, "Jr = 0"))


# ---- how far a proof reaches -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "steps", "in_a_row"),
    [
        ("M = M", 0, 1),
        ("H G = I", 0, 4),  # P is any symmetric matrix on four bodies in a row
        ("E_phi^5 = 0", 5, 6),
        ("phi = I + phi E_phi", 2, 3),
        ("phi = I + E_phi + E_phi^2", 3, 4),
        ("(phi - I - E_phi)^4 = 0", 8, 9),
        ("phi M phi* = phi M phi*", 2, 3),
        ("phi - psi = psi K H phi", 3, 7),
        ("(I - 2 E_phi)^-1 + (I - 3 E_phi)^-1 = 2 I", 4, 5),
    ],
)
def test_the_reach_of_a_claim_follows_from_its_terms(claim, steps, in_a_row):
    lhs, rhs = claim.split("=")
    reach = reach_of(pp.Identity(lhs, rhs))
    assert (reach.steps, reach.in_a_row, reach.limit) == (steps, in_a_row, "")


_LONGEST = 8  # steps of the words that series are written in
_WORDS = ["".join(w) for n in range(_LONGEST + 1) for w in product("xy", repeat=n)]


def _series(letters: str) -> list[int]:
    """The coefficients of a product of x = E_φ, y = E_ψ, φ = Σ xⁿ and ψ = Σ yⁿ, word by word."""
    found = {"": 1}
    for letter in letters:
        step = {"f": "x", "s": "y"}.get(letter, letter)
        powers = range(_LONGEST + 1) if letter in "fs" else (1,)
        longer = [(w + step * n, c) for w, c in found.items() for n in powers]
        found = {}
        for word, c in longer:
            found[word] = found.get(word, 0) + c if len(word) <= _LONGEST else 0
    return [found.get(word, 0) for word in _WORDS]


def test_series_that_agree_as_far_as_a_claim_reaches_are_equal():
    """No combination of terms vanishes on all words of so many steps, and not on longer ones."""
    rng = np.random.default_rng(2)
    known = {"x": "E_phi", "y": "E_psi", "f": "phi", "s": "psi"}
    tight = 0
    for _ in range(60):
        terms = {"".join(rng.choice(list("xyfs"), rng.integers(4))) for _ in range(6)}
        sides = [" ".join(known[letter] for letter in word) or "I" for word in sorted(terms)]
        steps = reach_of(pp.Identity(" + ".join(["I", *sides]), "I")).steps
        series = np.array([_series(word) for word in sorted(terms)], float)
        ranks = [np.linalg.matrix_rank(series[:, : 2 ** (n + 1) - 1]) for n in range(_LONGEST + 1)]
        if steps < _LONGEST:
            assert ranks[steps] == ranks[-1], terms
            tight += ranks[steps - 1] < ranks[-1]
    assert tight  # one step less would not do


def test_a_proof_says_how_long_its_mechanisms_are():
    proof = pp.prove("phi - psi = psi K H phi")
    assert proof and proof.in_a_row >= 7 and not proof.limit
    assert f"{proof.in_a_row} in a row" in proof.reason and "on each of them wrong" in proof.reason
    assert "nothing is said" not in str(proof)


def test_what_reaches_further_than_the_mechanisms_is_said_to_hold_up_to_their_length():
    proof = pp.prove("E_phi^40 = 0")
    assert proof.holds and proof.in_a_row == 32 and "41 bodies in a row" in proof.limit
    assert "holds on mechanisms of up to 32 bodies in a row" in str(proof)
    assert "of more bodies in a row nothing is said" in proof.reason
    assert pp.prove("E_phi^20 = 0", pp.examples.planar_arm(20)).holds  # a model is its own length


def test_an_inverse_of_all_bodies_at_once_bounds_nothing():
    claim = pp.Identity("(H phi M H* + Jr)^-1 H phi M H* ", "I - (H phi M H* + Jr)^-1 Jr")
    assert reach_of(claim).limit == "" or "couples all bodies" in reach_of(claim).limit
    open_end = pp.Identity("(M + phi M phi*)^-1 M", "I - (M + phi M phi*)^-1 phi M phi*")
    proof = pp.prove(open_end)
    assert proof and "couples all bodies at once" in proof.limit
    assert "up to" in str(proof) and "nothing is said" in proof.reason


def test_the_equations_of_the_book_have_a_bound_and_its_checks_have_none():
    for identity in THEOREMS:
        reach = reach_of(identity)
        assert bool(reach.limit) == (identity.check is not None), identity
        assert reach.in_a_row <= 15, identity  # as many as the blocks of smoothed covariances need


def test_deep_mechanisms_meet_every_condition():
    for condition in CONDITIONS:
        if condition != "rigid bodies":
            found = deep_samples(9, condition)
            assert found and all(one.in_a_row == 10 for one in found), condition
        if condition != "no loops":
            assert deep_samples_with_rows(6, condition), condition
    assert any(len(one.model.tree.children[0]) > 2 for one in deep_samples(9, ""))


# ---- conditions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", ["revolute, prismatic", "one dof, Jr = 0, free root"])
def test_conditions_that_exclude_each_other_are_named(condition):
    names = condition.split(", ")
    with pytest.raises(InputError, match=f"'{names[0]}' and '{names[-1]}' exclude each other"):
        pp.Identity("M", "M", condition)
    assert pp.prove(pp.Identity("M", "M", "one dof, revolute"))


def test_constraint_rows_without_loops_are_no_claim():
    with pytest.raises(InputError, match="about constraint rows.*'no loops'"):
        pp.prove(pp.Identity("A J v", "0", "no loops"))


def test_large_coefficients_enlarge_the_probability():
    """A prime may divide one of them, and then it shows no difference."""
    arm = pp.examples.planar_arm(2)
    plain = pp.prove("phi = I + E_phi phi", arm).in_general
    large = pp.prove(f"{10**60} phi = {10**60} I + {10**60} E_phi phi", arm).in_general
    assert plain is not None and large is not None
    assert large.points > plain.points or large.chance > plain.chance
