"""Every identity of the papers holds on trees of all joint types; what is conditional needs it."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import ALL, branching, chain, model_from_parents, models, random_tree, star

from phipsi.errors import InputError
from phipsi.expressions.node import zero
from phipsi.model import Model, ModelBuilder
from phipsi.operators import H, V, mass_matrix, phi, psi
from phipsi.proofs import State, claim_of, identities, identity_named, prove
from phipsi.rewrite.identities import RULES
from phipsi.rewrite.identity import Claim, Identity, unmet
from phipsi.rewrite.theorems import ERRATA, SOURCES, THEOREMS

MODELS: dict[str, Model] = {
    "revolute chain": chain(4, 21, ["revolute"]),
    "revolute tree": branching(6, 22, ["revolute"], armature=True),
    "joints with one dof": random_tree(23, 6, ["revolute", "prismatic", "helical"]),
    "chain": chain(4, 1),
    "serial with a free joint inside": chain(3, 3, ["revolute", "free", "planar"]),
    "star": star(5, 2),
    "branching": branching(6, 2),
    "forest": random_tree(4, 6, n_roots=2),
    "free base": model_from_parents([-1, 0, 0, 2, 2], 5, ["free", *ALL[:3], "universal"]),
    "two free bases": model_from_parents(
        [-1, 0, -1, 2, 2], 12, ["free", "planar", "free", *ALL[2:4]]
    ),
    "all joint types": model_from_parents([-1, 0, 0, 1, 1, 2, 2, 3, 4, 5], 6, ALL),
    "chain with rotors": chain(4, 7, armature=True),
    "branching with rotors": branching(6, 8, armature=True),
    "forest with rotors": random_tree(9, 6, n_roots=3, armature=True),
    "free base with rotors": model_from_parents(
        [-1, 0, 0, 1], 10, ["free", "revolute", "spherical", "prismatic"], armature=True
    ),
    "one body": chain(1, 11, ["universal"]),
    "nothing": ModelBuilder().build(),
}
NAMES = [identity.name for identity in identities()]
STRICT = 1e-11  # of the scale; what is allowed in general is 1e-9


@cache
def state(model: str) -> State:
    return State(MODELS[model], None, None, seed=0)


def error_of(claim: Claim) -> float:
    return float(np.abs(np.asarray(claim.lhs) - np.asarray(claim.rhs)).max(initial=0))


def magnitude(claim: Claim) -> float:
    return max(1.0, *(float(np.abs(x).max(initial=0)) for x in (claim.lhs, claim.rhs)))


# ---- they hold ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_identity_holds(name: str):
    identity = identity_named(name)
    tried = 0
    for label, model in MODELS.items():
        if unmet(identity.condition, model):
            assert prove(identity, model).holds is None
            continue
        claim = claim_of(identity, state(label).fresh())
        error = error_of(claim)
        assert error <= STRICT * claim.scale, f"{identity} on {label}: {error:.2g}"
        assert error <= 1e-9 * magnitude(claim), f"{identity} on {label}: {error:.2g}"
        tried += 1
    assert tried >= 2


@settings(max_examples=150)
@given(models(max_bodies=5), st.sampled_from(NAMES), st.integers(0, 1000))
def test_identity_holds_on_random_trees(model: Model, name: str, seed: int):
    proof = prove(name, model, seed=seed)
    assert proof.holds is not False, str(proof)


# ---- and what is conditional needs its condition ------------------------------------------------

CONDITIONAL = [identity for identity in identities() if identity.condition]


@pytest.mark.parametrize("identity", CONDITIONAL, ids=lambda i: i.name)
def test_condition_is_needed(identity: Identity):
    """Where the condition is violated the equation fails, so the condition is not for show."""
    failures = 0
    for label, model in MODELS.items():
        rootless = "free root" in identity.condition and unmet("free root", model)
        if rootless or not unmet(identity.condition, model):
            continue
        claim = claim_of(identity, state(label).fresh())
        failures += error_of(claim) > 1e-9 * claim.scale and error_of(claim) > 1e-6
    vacuous = identity.condition == "free root"  # says nothing about models without one
    assert failures or vacuous, f"{identity} holds without its condition"


def test_the_list_of_the_conditional_ones():
    """What rests on H G = I, and what on serial chains; nothing else may carry these conditions."""
    by_condition: dict[str, set[str]] = {}
    for theorem in THEOREMS:
        by_condition.setdefault(theorem.condition, set()).add(theorem.name)
    assert by_condition["Jr = 0"] == {
        "Lemma .6",
        "Lemma .7b / (a.47)",
        "Lemma .7d",
        "tau idempotent",
        "tau symmetric in P (b)",
        "taubar P",
        "taubar P tau*",
        "H G",
        "H taubar",
        "taubar G",
        "taubar P H*",
        "E_psi P H*",
        "nu is memoryless in V",
        "hinge force projects",
        "hinge force split",
        "reaction does no work",
    }
    assert by_condition["serial"] == {
        "Lemma .5 (serial)",
        "Upsilon equation (serial)",
        "Lemma 2.1",
    }
    assert set(by_condition) == {
        "", "Jr = 0", "serial", "free root", "Jr = 0, free root", "revolute", "one dof",
        "serial, revolute",
    }  # fmt: skip


# ---- misprints ---------------------------------------------------------------------------------


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda e: e.name)
def test_printed_form_fails(erratum):
    worst = 0.0
    for label, model in MODELS.items():
        claim = claim_of(erratum.claim, state(label).fresh())
        if prove(erratum.claim, model).holds is False:
            worst = max(worst, error_of(claim) / magnitude(claim))
    assert worst > 1e-2, f"{erratum.name} as printed was not refuted"


def test_there_are_twelve_misprints_with_a_correction():
    assert len(ERRATA) == 12
    assert all(e.printed and e.correct and e.source for e in ERRATA)


# ---- the catalogue -----------------------------------------------------------------------------


def test_names_are_unique_and_rules_come_first():
    assert len(set(NAMES)) == len(NAMES)
    assert [i.name for i in identities()][: len(RULES)] == [rule.name for rule in RULES]
    assert len({t.name for t in THEOREMS}) == len(THEOREMS) >= 279


def test_every_theorem_is_readable_and_has_a_source():
    for theorem in THEOREMS:
        assert theorem.kind == "theorem"
        assert "=" in theorem.statement or theorem.check, theorem.name
        assert any(key in theorem.source for key in SOURCES), theorem.source
        assert (theorem.check is None) == (theorem.before is not None)
        assert theorem.name in str(theorem) and theorem.source in str(theorem)


@pytest.mark.parametrize("label", MODELS)
def test_the_papers_appendix_in_both_forms(label: str):
    """Φ = φ S and Φ = φ − I are different operators; the identities hold for both."""
    both = [t for t in THEOREMS if t.name.endswith("[seed 1 form]")]
    assert len(both) >= 30
    for theorem in both:
        printed = identity_named(theorem.name.removesuffix(" [seed 1 form]"))
        assert prove(theorem, MODELS[label]) and prove(printed, MODELS[label])


# ---- prove -------------------------------------------------------------------------------------


def test_prove_refutes_what_is_false():
    model = MODELS["branching"]
    wrong = Identity("wrong", H @ phi, H @ psi)
    proof = prove(wrong, model)
    assert proof.holds is False and not proof
    assert proof.error > proof.tolerance > 0
    assert "differ by" in proof.reason and "fails" in str(proof)


def test_prove_refutes_a_zero_that_is_none():
    wrong = Identity("no velocity", V, zero(V.takes, V.gives))
    assert prove(wrong, MODELS["chain"]).holds is False


def test_prove_says_why_a_condition_is_not_met():
    proof = prove("H G", MODELS["chain with rotors"])
    assert proof.holds is None and not proof
    assert "Jr = 0" in proof.reason and "'j0'" in proof.reason and "rotor" in proof.reason
    proof = prove("Lemma .5 (serial)", MODELS["star"])
    assert proof.holds is None and "'b0' has 4 children" in proof.reason
    assert "does not apply" in str(proof)


def test_prove_takes_a_state_and_a_seed():
    model = MODELS["free base"]
    q, v = model.random_configuration(5), np.ones(model.nv)
    assert prove("Lemma 0.3 / Lemma 3", model, q, v)
    assert prove("physics: Lagrange", model, q, v)
    errors = {prove("Lemma 0.3 / Lemma 3", model, seed=s).error for s in range(4)}
    assert len(errors) > 1
    again = [prove("Lemma A.1 (a.45)", model, seed=1).error for _ in range(2)]
    assert again[0] == again[1]


def test_prove_refuses_a_bad_state():
    model = MODELS["chain"]
    with pytest.raises(InputError, match="joint 'j0'"):
        prove("H G", model, np.full(model.nq, np.nan))
    with pytest.raises(InputError, match="shape"):
        prove("H G", model, v=np.ones(model.nv + 1))
    with pytest.raises(InputError, match="one state"):
        prove("H G", model, q=model.random_configuration(0, (2,)))


def test_an_unknown_name_suggests_close_ones():
    with pytest.raises(InputError, match="Lemma 0.3 / Lemma 3"):
        prove("Lemma 0.3 / Lemma 4", MODELS["chain"])


def test_an_identity_without_sides_or_check_is_refused():
    with pytest.raises(InputError, match="empty"):
        prove(Identity("empty", None, None), MODELS["chain"])


def test_prove_handles_models_without_freedom():
    builder = ModelBuilder()
    builder.add_frame("here", "world")
    model = builder.build()
    assert model.nv == 0
    for name in ("Lemma 0.3 / Lemma 3", "log det", "physics: kinetic energy", "FD4 recursion"):
        assert prove(name, model), name


def test_the_state_of_a_proof_moves_by_the_equations_of_motion():
    one = state("branching with rotors")
    efforts = one.dense(mass_matrix) @ one.vdot
    assert np.abs(one.tau - efforts).max() > 0.1  # bias, gravity and point forces are in it
    assert len(one.points) == 3 and np.abs(one.f0).min() > 0
