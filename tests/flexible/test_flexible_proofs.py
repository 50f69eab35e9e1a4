"""Identities proved exactly with flexible blocks, and twins of them refuted."""

import numpy as np
import pytest
from flexible_oracle import random_flexible_tree

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import INVERSE_DYNAMICS
from phipsi.operators import P, V
from phipsi.papers.proofs.claim_decision import equal, modular_state
from phipsi.papers.theorems.book import THEOREMS

MODEL = random_flexible_tree(
    5, bodies=4, modes=(2, 1, 0, 1), joints=("revolute", "spherical", "universal", "fixed"),
    armature=True,
).build()  # fmt: skip

CLAIMS = {
    "mass_matrix = (I + H phi K) D (I + H phi K)*": "mass_matrix = (I + H phi K) D (I - H phi K)*",
    "(I + H phi K)^-1 = I - H psi K": "(I + H phi K)^-1 = I + H psi K",
    "mass_matrix^-1 = (I - H psi K)* D^-1 (I - H psi K)": (
        "mass_matrix^-1 = (I - H psi K)* D^-1 (I - H phi K)"
    ),
    "P = M + E_psi P E_phi*": "P = M + E_phi P E_phi*",
    "logdet(mass_matrix) = logdet(D)": "logdet(mass_matrix) = logdet(P)",
    "phi M phi* = R + phi~ R + R phi~*": "phi M phi* = R + phi~ R",
    # d/dt of V and of momentum: a port that moves, an inertia that changes, elastic forces
    "a = rigid_cross(V) H* v + Edot{H* v}* V + c_J": "a = rigid_cross(V) H* v + c_J",
    "b = Mdot{V} V - 1/2 dM{V}* V - rigid_cross(V)* M V + modal_rows (K_e eta + C_e v)": (
        "b = Mdot{V} V - rigid_cross(V)* M V + modal_rows (K_e eta + C_e v)"
    ),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_identities_hold_exactly_and_their_twins_do_not(claim):
    proof = pp.prove(claim, MODEL)
    assert proof.holds and "exact" in str(proof) and "any numbers" in str(proof)
    assert not pp.prove(CLAIMS[claim], MODEL).holds


def test_claims_about_roots_hold_in_fifty_digits():
    root = "mass_matrix^-1 = (I - H psi K)* D_half*^-1 D_half^-1 (I - H psi K)"
    assert pp.prove(root, MODEL).holds
    assert not pp.prove(root.replace("- H psi K)*", "+ H psi K)*"), MODEL).holds


def test_recursions_of_the_papers_hold_with_modes():
    """The compiled sweeps of a theorem, on residues."""
    swept = [x for x in THEOREMS if x.sweeps and not x.condition and "shift" not in str(x.lhs)]
    found = [pp.prove(x, MODEL) for x in swept[:6]]
    assert len(found) == 6 and all(proof.holds for proof in found)


def test_a_check_for_rigid_bodies_says_so():
    check = next(x for x in THEOREMS if x.check is not None and not x.condition)
    with pytest.raises(pp.errors.InputError, match="checked with formulas for rigid bodies"):
        pp.prove(check, MODEL)


@pytest.mark.parametrize("expr", [INVERSE_DYNAMICS, P @ V], ids=["inverse dynamics", "P V"])
def test_derivatives_are_exact(expr):
    """The expression of a derivative against dual numbers modulo a prime, all numbers random."""
    state = modular_state(MODEL, 1, 0, False)
    along = state.model.qdot(state.q, state.dq)
    there = state.derivative(lambda q: state.dense(expr, q=q), (state.q,), (along,))
    assert equal(state.dense(pp.diff(expr, "q", along="dq", modes=True)), there)
    change = pp.diff(expr, "q", along="dq")
    rigid = str(change).replace("cross(", "rigid_cross(")
    assert not equal(state.dense(pp.parse(rigid)), there)
    assert np.asarray(there).any()
