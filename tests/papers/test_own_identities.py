"""Identities of users: stated, proved without a model, refuted with a counterexample."""

import contextlib
import io
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from amounts import ALL
from mutated import Mutant, mutants, true_identities, why_still_true

import phipsi as pp
from phipsi.core.rewrite.identity import CONDITIONS
from phipsi.errors import InputError, SingularMatrixError, SpaceError
from phipsi.operators import H, I, K, phi, psi
from phipsi.papers.proofs.sample_mechanisms import samples, samples_with_rows
from phipsi.papers.theorems.book import THEOREMS

# ---- stated --------------------------------------------------------------------------------------


def test_sides_are_expressions_or_text():
    one = pp.Identity(phi - psi, "psi K H phi")
    assert one.sides == (phi - psi, psi @ K @ H @ phi)
    assert one.name == "φ − ψ = ψ K H φ" and str(one) == one.name
    named = pp.Identity("H G", "I", "Jr = 0", name="gain", source="SOA")
    assert str(named) == "gain:  H G = I[efforts]   if Jr = 0   [SOA]"
    assert named.rhs is pp.parse("I[efforts]")


def test_sides_between_different_spaces_are_rejected():
    with pytest.raises(SpaceError, match="same spaces") as error:
        pp.Identity("H phi", "phi")
    assert "body forces → joint efforts" in str(error.value)
    with pytest.raises(InputError, match="a side of an identity"):
        pp.Identity("H phi", 3)  # pyright: ignore[reportArgumentType]


def test_an_unknown_condition_is_rejected_with_the_known_ones():
    with pytest.raises(InputError, match="'serail' is not a known condition") as error:
        pp.Identity("H G", "I", "Jr = 0, serail")
    assert "'serial'" in str(error.value) and all(name in str(error.value) for name in CONDITIONS)
    assert pp.Identity("H G", "I", "Jr = 0,serial").condition == "Jr = 0, serial"


@pytest.mark.parametrize(
    ("condition", "meeting", "violating"),
    [
        ("prismatic", "P", "R"),
        ("one root", "R", "RR"),
        ("no loops", "R", "loop"),
    ],
)
def test_conditions(condition, meeting, violating):
    arm = pp.examples.planar_arm(2)
    pin = pp.constraints.Spherical(name="pin", a="tip", b=("world", (1.5, 0, 0)))
    slider = pp.ModelBuilder()
    slider.add_body("a", joint=pp.joints.Prismatic(), inertia=pp.SpatialInertia(1, (0, 0, 0), 1))
    twins = pp.ModelBuilder()
    for name in "ab":
        twins.add_body(name, joint=pp.joints.Revolute(), inertia=pp.SpatialInertia(1, (0, 0, 0), 1))
    models = {"P": slider.build(), "R": arm, "RR": twins.build(), "loop": pp.System(arm, [pin])}
    claim = pp.Identity("M", "M", condition)
    assert pp.prove(claim, models[meeting])
    assert pp.prove(claim, models[violating]).holds is None


# ---- proved --------------------------------------------------------------------------------------


_ALWAYS = ("no loops", "rigid bodies")  # other samples have rows and modes


def test_the_samples_are_of_all_kinds():
    models = [one.model for one in samples(0)]
    sizes = [model.n_bodies for model in models]
    assert sizes == sorted(sizes) and sizes[0] == 1
    kinds = {joint.kind.split("(")[0] for model in models for joint in model.joints}
    assert kinds == {name.lower() for name in pp.joints.__all__} - {"fixed", "joint"}
    for condition in CONDITIONS:
        meeting = [one for one in samples(0) if not one.unmet(condition)]
        assert len([one for one in meeting if one.model.n_bodies > 1]) >= 2, condition
        assert len(meeting) < len(models) or condition in _ALWAYS, condition
    assert any(model.armature.any() and not model.armature.all() for model in models)
    assert {len(one.model.tree.roots) for one in samples(0)} >= {1, 2}
    assert all(0 < one.closures.n_rows <= one.model.nv for one in samples_with_rows())
    assert [str(x) for x in samples(1)] != [str(x) for x in samples(0)]


@pytest.mark.parametrize(
    "claim",
    [
        "H φ K H ψ = H φ − H ψ",
        "ℳ⁻¹ = (I − H ψ K)* D⁻¹ (I − H ψ K)",
        "logdet(ℳ) = logdet(D)",
        "ℳ vdot + H φ (M φ* (a + gravity) + b + B f0) = tau",
        "(J ℳ⁻¹ J*)^-1 J ℳ⁻¹ J* = I",
        "A B* φ* H* ℳ⁻¹ H φ B A* = A B* Ω B A*",
        "(A J ℳ⁻¹ J* A*)^-1 A J ℳ⁻¹ J* A* = I",
        "D_half D_half* = D",
    ],
)
def test_proved_without_a_model(claim):
    proof = pp.prove(claim)
    assert proof and proof.counterexample is None and not proof.holds_if
    assert proof.in_general is not None and proof.in_general.chance < 1e-14
    assert proof.mechanisms >= 2 and f"on {proof.mechanisms} mechanisms" in proof.reason
    assert pp.prove(f"{claim} + 1e-15 ({claim.split('=')[0]})").holds is False


def test_a_condition_restricts_the_mechanisms():
    proof = pp.prove(pp.Identity("H G", "I", "Jr = 0"))
    assert proof and "with Jr = 0" in proof.reason
    assert proof.mechanisms < pp.prove("M = M").mechanisms


def equal(*sides):
    return pp.prove(pp.Identity(*sides), any_efforts=True)


def test_any_efforts_are_inputs_as_they_come():
    """tau and vdot are inputs that need not belong together."""
    motion = "ℳ vdot + H φ (M φ* (a + gravity) + b + B f0)"
    assert pp.prove(f"{motion} = tau") and not equal(motion, "tau")
    assert equal(f"{motion} - tau", f"H φ M φ* H* vdot + Jr vdot + {motion[9:]} - tau")
    assert equal(phi - psi, psi @ K @ H @ phi) and not equal(phi, psi)
    assert equal("H G", "I", "Jr = 0") and equal(H @ phi @ I, H @ phi)


def test_what_cannot_be_proved_without_a_model():
    with pytest.raises(InputError, match="q= and v= need a model"):
        pp.prove("M = M", q=[1.0])
    with pytest.raises(InputError, match="needs an identity"):
        pp.prove(pp.examples.planar_arm(2))  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="selected bodies"):
        pp.prove("A[P] J v = A[P] J v")
    with pytest.raises(SingularMatrixError, match="singular on all"):
        pp.prove("E_phi^-1 E_phi = I")


# ---- refuted -------------------------------------------------------------------------------------

FALSE = {
    "H G = I": ("Jr = 0", 1),
    "Omega = Upsilon + psi~* Upsilon + Upsilon psi~": ("serial", 3),
    "Hdot = 0": ("one dof", 2),
    "H phi M H* = H M H*": ("", 2),
    "mass_matrix = D": ("", 2),
    "phi = psi + psi K H psi": ("", 3),
    "J v = 2 J v": ("", 1),
    "A J v = 0": ("", 3),
    "f0 = 0": ("", 1),
    "psi* H* D^-1 H psi M H* = H*": ("", 1),
    "M = M + 1e-18 M": ("", 1),
    "v* tau = v* mass_matrix vdot": ("", 1),
}


@pytest.mark.parametrize("claim", FALSE)
def test_refuted_with_the_smallest_mechanism_and_a_condition(claim):
    """The program of the counterexample shows both numbers, by the dense oracle."""
    condition, bodies = FALSE[claim]
    proof = pp.prove(claim)
    assert proof.holds is False and not proof
    assert proof.holds_if == condition
    assert (f"holds if {condition}" in proof.reason) == bool(condition)
    if condition:
        assert pp.prove(pp.Identity(*proof.identity.sides, condition))
    found = proof.counterexample
    assert found is not None and found.model.n_bodies == bodies
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(found.code, {})
    if "1e-18" in claim:
        assert "differ by 1e-18" in printed.getvalue()
        return
    lhs, rhs = map(float, printed.getvalue().split())
    np.testing.assert_allclose([lhs, rhs], [float(found.lhs), float(found.rhs)], atol=1e-12)
    assert abs(lhs - rhs) > 1e-6
    head, code = str(found).split("\n\n", 1)  # the code is printed as it is pasted
    assert code == found.code and found.entry in head
    assert code.count("builder.add_body") == bodies


def test_a_model_of_ones_own_is_its_counterexample():
    arm = pp.examples.seven_joint_arm(armature=0.5)
    found = pp.prove("H G = I", arm).counterexample
    assert found is not None and found.model is arm and found.entry.startswith("row joint ")
    assert pp.prove("H G = I", pp.examples.seven_joint_arm()).counterexample is None


def _printed(code: str, **names: object) -> list[float]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, dict(names))
    return [float(x) for x in out.getvalue().split()]


@pytest.mark.parametrize(
    "text", ["unit_rate[j0] = v", "regress(V) = 0", "total(M V) = to_com total(M V)"]
)
def test_a_counterexample_that_is_announced_is_there(text):
    proof = pp.prove(text)
    found = proof.counterexample
    assert "counterexample with 1 body" in proof.reason and found is not None
    assert _printed(found.code) == pytest.approx([float(found.lhs), float(found.rhs)])


def test_a_counterexample_with_operators_of_ones_own():
    k = pp.custom.vector("k", "efforts", 1.0)
    proof = pp.prove(pp.Identity(k, 2 * k))
    assert proof.counterexample is not None and "counterexample" in proof.reason
    assert _printed(proof.counterexample.code, k=k) == [1.0, 2.0]
    of_a_model = pp.custom.vector("k", "efforts", {"link1": 1.0})  # not a body of the samples
    proof = pp.prove(pp.Identity(of_a_model, 2 * of_a_model))
    assert not proof and proof.counterexample is None and "counterexample" not in proof.reason


def test_a_condition_may_not_be_enough():
    proof = pp.prove(pp.Identity("H G", "2 I", "Jr = 0"))
    assert proof.holds is False and not proof.holds_if and "with Jr = 0" in proof.reason
    other = pp.prove(pp.Identity("H G", "I", "serial"))
    assert other.holds_if == "Jr = 0" and "it holds if Jr = 0 too" in other.reason


# ---- found ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SOA 0.28", {"Lemma 0.1 / Lemma 1"}),
        ("SOA eq. 0.28", {"Lemma 0.1 / Lemma 1"}),
        ("SOA 0.41", {"Upsilon equation (tree)", "Upsilon equation (serial)"}),
        ("SOA .41", {"Upsilon equation (tree)", "Upsilon equation (serial)"}),
        ("MM 31", {"R equation", "composite-body recursion"}),  # printed as MM eq. 30-33
        ("88-11 a.35", {"Lemma 0.4 / Lemma 4"}),
        ("ms lemma 2.3", {"Lemma 2.3"}),
        ("Lemma 0.4", {"Lemma 0.4 / Lemma 4"}),
        ("lemma 4", {"Lemma 0.4 / Lemma 4"}),
        ("whiten φ", {"whiten φ"}),
        ("H psi * H*", {"Lemma .7d", "Lemma .7d with rotors"}),
        ("H ψ M", {"Lemma .7d", "Lemma .7d with rotors", "smoother covariance"}),
        ("kinetic energy", {"kinetic energy"}),
    ],
)
def test_identities_are_found(query, names):
    assert {x.name for x in pp.identities(query)} >= names
    assert len(pp.identities(query)) <= len(names) + 4


def test_identities_of_an_operator_or_a_paper():
    from phipsi.core.operators.inputs import leaves_of

    found = pp.identities("psi")
    assert len(found) > 100
    assert all(psi in {y for x in one.sides for y in leaves_of(x)} for one in found)
    paper = pp.identities("MS")
    assert len(paper) > 20 and all("MS" in one.source for one in paper)
    both = pp.identities("phi - psi")
    assert {"(a.18)", "(a.28)"} <= {one.name for one in both}
    assert pp.identities("K* psi* H*") == pp.identities("H psi K")  # its adjoint is found too


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("", "the string is empty. Write a claim"),
        ("phi =", "the right side of the claim 'phi =' is empty"),
        ("= phi", "the left side of the claim '= phi' is empty"),
        ("phi <= psi", "'<=' is not supported, only lhs = rhs"),
        ("phi ≠ psi", "'≠' is not supported, only lhs = rhs"),
        ("Lema 0.1", "Did you mean 'Lemma 0.1'"),
        ("MMM 3", r'pp.identities\("psi"\) lists those about an operator'),
    ],
)
def test_claims_that_are_none(claim: str, said: str):
    with pytest.raises(InputError, match=said):
        pp.prove(claim)
    with pytest.raises(InputError, match="a side of an identity is None. Both sides"):
        pp.Identity("phi", None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="'foo' is not a known condition. The known ones are"):
        pp.Identity("phi", "psi", "foo")


def test_what_is_not_found_has_close_matches():
    with pytest.raises(InputError, match="Did you mean .*SOA 0.9"):
        pp.identities("SOA 0.99")
    with pytest.raises(InputError, match="Lemma 0.4"):
        pp.identities("Lemma 0.44 / Lemma 4")
    with pytest.raises(InputError, match="a pattern"):
        pp.identities("H psi*")
    with pytest.raises(InputError, match="a query for identities is a str"):
        pp.identities(3)  # pyright: ignore[reportArgumentType]
    assert len(pp.identities(" ")) == len(pp.identities())


# ---- many ----------------------------------------------------------------------------------------


def test_mutated_identities_are_refuted():
    """Some of the 1,000 of `make prove`, whose results are in docs/proofs.md."""
    refuted = 0
    for mutant in islice(mutants(seed=5), 50):
        try:
            proof = pp.prove(mutant.identity)
        except pp.errors.PhipsiError as error:  # not a claim
            assert "singular on all" in str(error) or "mixes" in str(error)
            continue
        if proof:
            assert why_still_true(mutant), mutant
            continue
        refuted += 1
        found = proof.counterexample
        assert found is not None and found.lhs != found.rhs, mutant
    assert refuted >= 40


def test_true_identities_are_proved():
    """Random expressions equal what the rewriter makes of them; not so with another factor."""
    for identity in islice(true_identities(seed=3), 6 if ALL else 3):
        assert pp.prove(identity), identity
        wrong = pp.Identity(identity.sides[0], Fraction(1 + 10**12, 10**12) * identity.sides[1])
        assert pp.prove(wrong).holds is False or pp.prove(f"{identity.lhs} = 0"), wrong


def test_mutants_that_are_true_have_a_reason():
    """bd does not see that one of two gains is a step behind."""
    origin = next(x for x in pp.identities() if x.name == "P <= R")
    lhs, rhs = pp.parse("R - P"), pp.parse("bd(phi K D G* phi*)")
    old = pp.parse("bd(phi K D K* phi*)")
    mutant = Mutant(pp.Identity(lhs, rhs), "K became G", origin, old, rhs)
    assert pp.prove(mutant.identity)
    assert why_still_true(mutant) == "bd(φ K D K* φ*) = bd(φ K D G* φ*)"
    origin = pp.Identity("phi", "phi")
    false = Mutant(pp.Identity("phi", "psi"), "", origin, pp.parse("phi"), pp.parse("psi"))
    assert not why_still_true(false)


def test_where_inverses_do_not_exist():
    """π is invertible only where every joint is free; the proof says on how few that is."""
    proof = pp.prove(pp.Identity("(I - proj_bar)^-1", "psi", "Jr = 0"))
    assert proof and proof.undefined > 10 and "others it inverts a matrix" in proof.reason
    assert proof.in_a_row >= 5 and not proof.limit  # on chains of free joints
    assert not pp.prove("M^-1 M = I").undefined


def test_without_a_model_claims_about_modes_meet_flexible_bodies():
    """A claim that forgets what modes add holds for rigid bodies, which are not all there are."""
    proof = pp.prove("a = rigid_cross(V) H* v + Edot{H* v}* V + c_J")
    assert proof.holds and "with flexible bodies and without" in str(proof)
    for short in (
        "a = rigid_cross(V) H* v + c_J",
        "b = Mdot{V} V - rigid_cross(V)* M V + modal_rows (K_e eta + C_e v)",
    ):
        twin = pp.prove(short)
        assert not twin.holds and twin.holds_if == "rigid bodies" and "modes" in str(twin)
        assert twin.counterexample is None
    claim = "mass_matrix = (I + H phi K) D (I + H phi K)*"
    assert pp.prove(claim, modes=True).mechanisms == pp.prove(claim).mechanisms + 5


def test_claims_of_rigid_bodies_fail_with_modes():
    claim = pp.Identity("cross(V) H* v", "rigid_cross(V) H* v")
    assert pp.prove(claim).holds  # of rigid bodies, which cross is known for
    with pytest.raises(pp.errors.LoweringError, match="rigid bodies only"):
        pp.prove(claim, modes=True)
    check = next(x for x in THEOREMS if x.check is not None and not x.condition)
    with pytest.raises(InputError, match="Remove modes=True"):
        pp.prove(check, modes=True)
    with pytest.raises(InputError, match="True or False"):
        pp.prove(claim, modes=2)


# ---- forces in the equations of motion -----------------------------------------------------------

_MOTION = "mass_matrix vdot + H φ (M φ* (a + gravity) + b"


@pytest.mark.parametrize("forces", ["", " − f_ext", " + B f0", " + B f0 − f_ext"])
def test_the_forces_that_a_claim_names_act(forces):
    assert pp.prove(f"tau = {_MOTION}{forces})")
    assert pp.prove(f"tau = {_MOTION}{forces})", pp.examples.planar_arm(2))
    assert not pp.prove(f"tau = {_MOTION}{forces})", any_efforts=True)


@pytest.mark.parametrize("forces", [" + f_ext", " − B f0", " − B f0 − f_ext", " + 2 B f0"])
def test_forces_with_a_wrong_sign_fail_with_numbers(forces):
    proof = pp.prove(f"tau = {_MOTION}{forces})")
    assert proof.holds is False and proof.counterexample is not None
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(proof.counterexample.code, {})
    left, right = map(float, shown.getvalue().split())
    assert left == pytest.approx(float(proof.counterexample.lhs))
    assert right == pytest.approx(float(proof.counterexample.rhs)) and left != right
    assert not pp.prove(f"tau = {_MOTION}{forces})", pp.examples.planar_arm(2))


def test_a_derivation_does_not_mix_equations_with_other_forces():
    free, loaded = f"tau = {_MOTION})", f"tau = {_MOTION} + B f0)"
    assert pp.prove(free) and pp.prove(loaded)
    with pytest.raises(InputError, match="does not hold for the tau of this derivation.* f0 acts"):
        pp.derive(loaded, using=[free])
    with pytest.raises(InputError, match="neither f0 nor f_ext acts"):
        pp.derive(free, using=[loaded])


# ---- claims in the letters of a paper ------------------------------------------------------------


@pytest.mark.parametrize(
    "claim", ["ℳ = H φ M φ* H*", "P = ℰ_ψ P ℰ_ψ* + M", "H G = I", "T = ℳ β̇ + H φ (M φ* a + b)"]
)
def test_the_papers_have_no_rotors(claim):
    proof = pp.prove(claim, notation="SOA")
    assert proof
    if "T =" not in claim:
        assert proof.reason.startswith("as SOA means it: Jr = 0;")
        assert proof.identity.condition == "Jr = 0"
        assert pp.prove(claim).holds_if == "Jr = 0"
    assert not pp.prove(f"{claim} + 1e-9 ({claim.split('=')[0]})", notation="SOA")


def test_a_paper_says_nothing_about_a_model_with_rotors():
    arm = pp.examples.planar_arm(2)
    geared = arm.with_body("link1", armature=0.1)
    assert pp.prove("ℳ = H φ M φ* H*", arm, notation="SOA")
    proof = pp.prove("ℳ = H φ M φ* H*", geared, notation="SOA")
    assert proof.holds is None and "as SOA means it, it holds for Jr = 0, but joint" in proof.reason
    assert pp.prove("ℳ⁻¹ = (I − H ψ K)* D⁻¹ (I − H ψ K)", geared, notation="SOA")


def test_two_custom_operators_of_one_name_are_rejected_with_and_without_a_model():
    one, other = (pp.custom.operator("C_", "rates -> efforts", x) for x in (1.0, 2.0))
    for model in (None, pp.examples.planar_arm(2)):
        with pytest.raises(InputError, match="two custom operators are named C_"):
            pp.prove(pp.Identity(one, other), model)
        assert not pp.prove(pp.Identity(one, 2 * one), model)


@pytest.mark.parametrize("sides", [("ℳ", "H φ M φ* H*"), ("H G", "I")])
def test_identities_in_the_letters_of_a_paper_are_read_as_claims_are(sides):
    """By prove, derive, using= and rules=: with Jr = 0 where it is needed, and never without."""
    meant, general = pp.Identity(*sides, notation="SOA"), pp.Identity(*sides)
    proof = pp.prove(meant)
    assert proof and proof.reason.startswith("as SOA means it: Jr = 0;")
    assert proof.identity.condition == "Jr = 0" and not pp.prove(general)
    geared = pp.examples.planar_arm(2).with_body("link1", armature=0.1)
    assert pp.prove(meant, geared).holds is None and not pp.prove(general, geared)
    assert pp.derive(meant).condition == "Jr = 0"
    with pytest.raises(InputError, match="cannot be used for this model: it holds for Jr = 0"):
        pp.compile("mass_matrix^-1 H", geared, rules=[meant])
    with pytest.raises(InputError, match="holds if Jr = 0, which depends on the model"):
        pp.explain("mass_matrix^-1 H", rules=[meant])
    with pytest.raises(InputError, match="using=: .* is false"):
        pp.derive(*sides, using=[general])
