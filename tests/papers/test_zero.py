"""`simplify` finds what is zero on all mechanisms, and nothing else."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from random_models import random_tree
from rounding import ALLOWED, RoundedOracle, excess

import phipsi as pp
from phipsi.core.model.model import Model
from phipsi.operators import parse

# zero on all mechanisms, and a twin of it that is not
ZERO = {
    "φ − ψ − ψ K H φ": "φ − ψ − ψ K H ψ",
    "P − M − E_ψ P E_φ*": "P − M − E_φ P E_φ*",
    "ψ M φ* − P − ψ̃ P − P φ̃*": "ψ M φ* − P − ψ̃ P − P ψ̃*",
    "V − φ* H* v": "V − ψ* H* v",
    "B f0 − B f0": "B f0 + B f0",
    "Ω − ψ* H* D⁻¹ H ψ": "Ω − φ* H* D⁻¹ H φ",
    "(I − H ψ K) H φ − H ψ": "(I − H ψ K) H φ − 1.000000000001 H ψ",
}
# zero without rotors only, and what it is with them
WITHOUT_ROTORS = {
    "M − P + E_ψ P E_ψ*": "−K Jr K*",
    "ψ M ψ* − P − ψ̃ P − P ψ̃*": "−ψ K Jr K* ψ*",
    "H G − I": "H G − I",
    "ℳ − H φ M φ* H*": "Jr",
}


@cache
def tree(seed: int, armature: bool) -> Model:
    return random_tree(seed, 6, n_roots=1 + seed % 2, armature=armature)


def oracle(model: Model) -> RoundedOracle:
    rng = np.random.default_rng(0)
    v, f0 = rng.standard_normal(model.nv), rng.standard_normal((1, 6))
    points = [(model.body_names[-1], (0.1, 0.2, 0.3))]
    return RoundedOracle(model, points=points, q=model.random_configuration(rng), v=v, f0=f0)


@pytest.mark.parametrize("text", ZERO)
def test_zero_on_all_mechanisms(text: str):
    x, twin = parse(text), parse(ZERO[text])
    for model in (None, tree(0, armature=True), tree(1, armature=False)):
        assert str(pp.simplify(x, model)).startswith("0[")
        assert not str(pp.simplify(twin, model)).startswith("0[")
    for seed in range(3):
        value, rounding = oracle(tree(seed, armature=True)).with_rounding(x)
        assert excess(value, np.zeros_like(value), rounding) <= ALLOWED
        other, _ = oracle(tree(seed, armature=True)).with_rounding(twin)
        assert np.abs(other).max() > 1e-13


@pytest.mark.parametrize("text", WITHOUT_ROTORS)
def test_zero_without_rotors(text: str):
    x, left = parse(text), parse(WITHOUT_ROTORS[text])
    assert pp.simplify(x) is left and pp.simplify(x, tree(0, armature=True)) is left
    assert str(pp.simplify(x, tree(0, armature=False))).startswith("0[")
    geared = oracle(tree(0, armature=True))
    (a, one), (b, other) = geared.with_rounding(x), geared.with_rounding(left)
    assert excess(a, b, np.maximum(one, other)) <= ALLOWED and np.abs(a).max() > 1e-3
    plain, rounding = oracle(tree(0, armature=False)).with_rounding(x)
    assert excess(plain, np.zeros_like(plain), rounding) <= ALLOWED


def test_a_zero_part_of_a_sum_goes():
    x = parse("H φ b + H (M − P + E_ψ P E_ψ*) V")
    assert pp.simplify(x, tree(0, armature=False)) is parse("H φ b")


def test_claims_of_one_mechanism_are_not_used():
    """The arm is a chain; the result may be used for trees, on which this is not zero."""
    arm, text = pp.examples.planar_arm(2), "Omega − Upsilon − psi~* Upsilon − Upsilon psi~"
    q = [0.1, 0.2]
    assert np.abs(pp.evaluate_dense(text, arm, q)).max() < 1e-12
    assert not str(pp.simplify(text, arm)).startswith("0[")
