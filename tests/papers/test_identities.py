"""Every identity of the papers holds on trees of all joint types; what is conditional needs it.

Decided exactly, at one random point modulo one prime for each mechanism: a false identity passes
that with a probability below 1e-3, and below 1e-14 in `make prove`, which takes all mechanisms.
"""

import random
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from amounts import ALL
from hypothesis import given, settings, strategies as st
from proof_models import MODELS
from random_models import models
from twins import notices, twins, values_asked_for, why_true

import phipsi as pp
from phipsi.core.backends.arrays import ArrayArithmetic
from phipsi.core.expressions.node import Expr, zero
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.model import Model
from phipsi.core.rewrite.identities import RULES
from phipsi.core.rewrite.identity import Identity, unmet
from phipsi.core.sweeps.ir import Field
from phipsi.errors import InputError, ParseError, SpaceError
from phipsi.operators import H, V, mass_matrix, phi, psi
from phipsi.papers.proofs.claim_decision import digits_state, equal, in_digits, modular_state, sides
from phipsi.papers.proofs.digits import long_decimals
from phipsi.papers.proofs.exact_array import NotRational
from phipsi.papers.proofs.proof_state import ProofState
from phipsi.papers.theorems import identities, identity_named, prove
from phipsi.papers.theorems.book import ERRATA, THEOREMS

NAMES = [identity.name for identity in identities()]
IRRATIONAL = {  # square roots of D: decided in fifty digits
    "D^1/2", "kinetic energy", "power", "inverse of nu map", "innovations dynamics",
    "mu does no work", "MC sec. 6 innovations",
}  # fmt: skip
SMALL = "revolute chain"  # where fifty digits take no time


@cache
def state(model: str) -> ProofState:
    return modular_state(MODELS[model], 0, 0, False)


def holds(identity: Identity, label: str) -> bool:
    """Whether both sides agree at one point, or in fifty digits if they are not rational."""
    try:
        return equal(*sides(identity, state(label).fresh()))
    except NotRational:
        assert identity.name.removesuffix(" (as printed)") in IRRATIONAL
        return in_digits(identity, MODELS[label], 0).holds


def some_models(identity: Identity, count: int) -> list[str]:
    """A few of the mechanisms that meet the condition, chosen by the identity's name."""
    meeting = [label for label, model in MODELS.items() if not unmet(identity.condition, model)]
    if identity.name in IRRATIONAL:
        return [SMALL]
    return random.Random(identity.name).sample(meeting, min(count, len(meeting)))


# ---- they hold ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_identity_holds(name: str):
    identity = identity_named(name)
    chosen = some_models(identity, 3 if ALL else 2)
    assert len(chosen) >= 2 or name in IRRATIONAL
    for label in chosen:
        assert holds(identity, label), f"{identity} on {label}"
    for label, model in MODELS.items():
        if unmet(identity.condition, model):
            assert prove(identity, model).holds is None, label


@settings(max_examples=400 if ALL else 20)
@given(models(max_bodies=5), st.sampled_from(NAMES), st.integers(0, 1000))
def test_identity_holds_on_random_trees(model: Model, name: str, seed: int):
    proof = prove(name, model, seed=seed)
    assert proof.holds is not False, str(proof)


# ---- and their twins do not ----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_twins_are_refuted(name: str):
    """A sign, a factor or a term of 1e-12, a star moved: refuted, or true for a known reason."""
    identity = identity_named(name)
    for change, twin in twins(identity):
        chosen = some_models(identity, 4)
        if not all(holds(twin, label) for label in chosen):
            continue
        with long_decimals():
            irrational = name in IRRATIONAL
            at = digits_state(MODELS[SMALL], 0) if irrational else state(chosen[0]).fresh()
        assert why_true(change, identity, at), f"{change} of {identity}"


CHECKS = [i for i in identities() if i.check is not None and i.name not in IRRATIONAL]
ANY_BLOCKS = {"Lemma A.1 (a.45)", "Lemma A.1 dual", "Lemma 2.4"}
ANY_BLOCKS |= {"contacts: forces", "contacts: Pi", "contacts: both together"}
"""They hold for any transition operators, axes, arms: no value of the mechanism could be wrong."""


@pytest.mark.parametrize("identity", CHECKS, ids=lambda i: i.name)
def test_checks_notice_a_fault(identity: Identity):
    """A check fails if a value that it asks for is off by 1e-12, which it needs to compare."""
    label = next(
        x for x in ("revolute chain", "free base") if not unmet(identity.condition, MODELS[x])
    )
    asked = values_asked_for(identity, state(label))
    noticed = any(notices(identity, state(label), fault) for fault in reversed(range(asked)))
    assert noticed or not asked or identity.name in ANY_BLOCKS


# ---- and what is conditional needs its condition ------------------------------------------------

CONDITIONAL = [identity for identity in identities() if identity.condition]


@pytest.mark.parametrize("identity", CONDITIONAL, ids=lambda i: i.name)
def test_condition_is_needed(identity: Identity):
    """Where the condition is violated the equation fails, so the condition is not for show."""
    failures = 0
    for label, model in MODELS.items():
        rootless = "free root" in identity.condition and unmet("free root", model)
        if rootless or not unmet(identity.condition, model) or failures:
            continue
        failures += not holds(identity, label)
    vacuous = identity.condition == "free root"  # says nothing about models without one
    assert failures or vacuous, f"{identity} holds without its condition"


def test_the_list_of_the_conditional_ones():
    """What rests on H G = I, and what on serial chains; nothing else may carry these conditions."""
    by_condition: dict[str, set[str]] = {}
    for theorem in identities():
        by_condition.setdefault(theorem.condition, set()).add(theorem.name)
    assert by_condition["Jr = 0"] == {
        "Lemma .6",
        "Lemma .7b / (a.47)",
        "Lemma .7d",
        "tau idempotent",
        "tau symmetric in P (b)",
        "taubar P",
        "taubar P tau*",
        "smoother keeps the outputs",
        "H G",
        "H π̄",
        "π̄ G",
        "π̄ P H*",
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
    labels = [SMALL] if erratum.name in IRRATIONAL else list(MODELS)
    assert not all(holds(erratum.claim, label) for label in labels), erratum.name


def test_there_are_thirteen_misprints_with_a_correction():
    assert len(ERRATA) == 13
    assert all(e.printed and e.correct and e.source for e in ERRATA)


# ---- the catalogue -----------------------------------------------------------------------------


def test_names_are_unique_and_rules_come_first():
    assert len(set(NAMES)) == len(NAMES)
    assert [i.name for i in identities()][: len(RULES)] == [rule.name for rule in RULES]
    assert len({t.name for t in THEOREMS}) == len(THEOREMS) >= 279


def test_every_theorem_is_readable_and_has_a_source():
    for theorem in THEOREMS:
        assert theorem.kind == ("rule" if theorem.rule else "theorem")
        assert theorem.rule or "=" in theorem.statement or theorem.check, theorem.name
        assert theorem.source, theorem.name  # tests/docs/test_citations.py looks it up
        assert (theorem.check is None) == (theorem.lhs is not None)
        assert theorem.name in str(theorem) and theorem.source in str(theorem)


def test_what_the_compiler_uses_is_stated_once():
    """A result of the papers that is a rule refers to it; no other theorem states a rule again."""
    rules = {rule.name: rule for rule in RULES}
    marked = [theorem for theorem in THEOREMS if theorem.rule]
    assert len(marked) >= 20
    for theorem in marked:
        assert theorem.lhs is rules[theorem.rule].lhs
        assert theorem.rhs is rules[theorem.rule].rhs
        assert theorem.source == rules[theorem.rule].source
    stated = {x for rule in RULES for x in _differences(rule)}
    again = [t.name for t in THEOREMS if not t.rule and not stated.isdisjoint(_differences(t))]
    # Appendix A is printed in symbols of its own; two rows become rules in those of MM
    assert again == ["(a.18), second form [MM form]", "(a.28), second form [MM form]"]


def _differences(identity: Identity) -> set[Expr]:
    """What an equation says is zero, with either sign and its adjoint."""
    if identity.lhs is None or identity.rhs is None or identity.sweeps:
        return set()
    difference = identity.lhs - identity.rhs
    return {difference, -1 * difference, difference.T, -1 * difference.T}


SWEEPS = [theorem for theorem in THEOREMS if theorem.sweeps]


@pytest.mark.parametrize("theorem", SWEEPS, ids=lambda t: t.name)
def test_recursions_notice_a_fault_of_the_sweeps(theorem: Identity, monkeypatch):
    """A block of the compiled program that is off by 1e-12 is refuted."""
    one = state("branching with rotors").fresh()
    assert equal(*sides(theorem, one))
    computed = ArrayArithmetic.computed

    def wrong(here: ArrayArithmetic, x: Field) -> Callable[[Field], np.ndarray]:
        right = computed(here, x)
        return (lambda x: right(x) * (1 + 1e-12)) if x.op in ("mul", "add") else right

    monkeypatch.setattr(ArrayArithmetic, "computed", wrong)
    assert not equal(*sides(theorem, one))


@pytest.mark.parametrize("label", ["chain", "branching with rotors", "two free bases"])
def test_the_papers_appendix_in_both_forms(label: str):
    """Φ = φ S and Φ = φ − I are different operators; the identities hold for both."""
    both = [t for t in THEOREMS if t.name.endswith("[MM form]")]
    assert len(both) >= 30
    for theorem in both:
        printed = identity_named(theorem.name.removesuffix(" [MM form]"))
        assert holds(theorem, label) and holds(printed, label)


# ---- prove -------------------------------------------------------------------------------------

ARM = pp.examples.seven_joint_arm()
FACTORED = "ℳ⁻¹ = (I − H ψ K)* D⁻¹ (I − H ψ K)"


def test_prove_answers_both_questions():
    proof = prove("whiten φ", MODELS["branching"])
    assert proof and proof.in_general is not None and proof.in_general.holds
    assert proof.in_general.method == "exact" and 0 < proof.in_general.chance < 1e-14
    assert proof.in_general.points >= 2 and proof.here is proof.in_general
    assert "with any numbers" in proof.reason and "probability <" in proof.reason


def test_prove_refutes_what_is_false():
    wrong = Identity(H @ phi, H @ psi, name="wrong")
    proof = prove(wrong, MODELS["branching"])
    assert proof.holds is False and not proof
    assert proof.here is not None and proof.here.gap > 0.1
    assert "differ by" in proof.reason and "fails" in str(proof)


@pytest.mark.parametrize("term", ["0.1 D⁻¹", "1e-12 D⁻¹", "1e-18 D⁻¹", "1e-300 D⁻¹"])
def test_prove_has_no_tolerance(term: str):
    assert prove(FACTORED, ARM)
    assert prove(f"{FACTORED} + {term}", ARM).holds is False


def test_decimals_of_a_claim_are_exact():
    assert prove("0.1 M + 0.2 M = 0.3 M", ARM)
    assert prove("M + 1e-18 M = M", ARM).holds is False
    assert prove("1e3 M = 1000.0 M", ARM)


def test_what_holds_for_one_model_only():
    """With its own numbers, and not in general."""
    geared = pp.examples.seven_joint_arm(armature=0.1)
    assert prove("H G = I", ARM) and prove("H G = I", geared).holds is False
    along_the_axes = pp.examples.planar_arm(3).with_gravity((0, 0, -9.81))
    proof = prove("H φ M φ* gravity = 0", along_the_axes)
    assert proof and proof.in_general is not None and not proof.in_general.holds
    assert proof.here is not None and proof.here.method == "exact" and proof.here.chance < 1e-14
    assert "but not on this tree" in proof.reason
    tilted = along_the_axes.with_gravity((0, -1e-15, -9.81))
    assert prove("H φ M φ* gravity = 0", tilted).holds is False


def test_determinants_are_compared_for_log_det():
    assert prove("logdet(ℳ) = logdet(D)", ARM)
    assert prove("logdet(ℳ) = logdet(D) + 1e-9 logdet(D)", ARM).holds is False
    assert prove("1/2 logdet(ℳ) = 1/2 logdet(D)", ARM)


def test_a_claim_as_text_is_checked():
    with pytest.raises(InputError, match="one equals sign"):
        prove("H = H = H", ARM)
    with pytest.raises(SpaceError, match="same spaces"):
        prove("H φ = φ", ARM)
    with pytest.raises(ParseError):
        prove("H φ = H φx", ARM)
    assert prove("I = φ − φ E_phi", ARM) and prove("π̄ G = 0", ARM)


def test_prove_refutes_a_zero_that_is_none():
    wrong = Identity(V, zero(V.takes, V.gives), name="no velocity")
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
    for name in ("Lemma 0.3 / Lemma 3", "physics: velocities"):
        proof = prove(name, model, q, v)
        assert proof and proof.here is not None and proof.here.method == "50 digits"
        assert "in this state (50 digits)" in proof.reason
    assert prove("V = 0", model, q).holds is False
    assert prove("V = 0", model, q, 0 * v)  # in this state it is true
    assert prove("Lemma A.1 (a.45)", model, seed=1) == prove("Lemma A.1 (a.45)", model, seed=1)


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
        Identity(None, None, name="empty")


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
    assert not equal(one.tau, efforts)  # bias, gravity and point forces are in it
    assert len(one.points) == 3 and np.asarray(one.f0).all()
