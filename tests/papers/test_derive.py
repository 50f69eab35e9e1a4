"""derive: the papers' derivations, each step re-verified; refutations; chains that are wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

import phipsi as pp
from phipsi.errors import InputError, SpaceError
from phipsi.operators import parse
from phipsi.papers.derivations.derivation import latex_text
from phipsi.papers.derivations.paper_derivations import DERIVATIONS, derivation_of


@pytest.mark.parametrize("row", DERIVATIONS, ids=lambda row: row.name)
def test_the_papers_derivations(row):
    found = row.derivation()
    assert found, str(found)
    assert found.check()
    assert found.condition == row.condition
    assert found.steps and found.steps[-1].expression is found.rhs


def test_the_table():
    assert len(DERIVATIONS) >= 40
    assert len({row.name for row in DERIVATIONS}) == len(DERIVATIONS)
    papers = {row.source.split()[0] for row in DERIVATIONS}
    assert {"SOA", "MM", "MC", "88-11", "MS"} <= papers


def test_no_derivation_rests_on_itself():
    """Without its premises a claim cannot be derived; with none, Lemma 0.4 is not reached."""
    row = next(row for row in DERIVATIONS if row.name == "H G")
    assert row.derivation().names[-1] == "Jr = 0"
    short = pp.derive("mass_matrix = (I + H phi K) D (I + H phi K)*", using=[], max_forms=2000)
    assert not short and "no chain of identities was found" in short.reason


def test_text_and_latex():
    found = pp.derive("φ* H* ℳ⁻¹ H φ = Ω", using=["Omega"])
    lines = str(found).splitlines()
    assert lines[0] == "Omega (b):  φ* H* ℳ⁻¹ H φ = Ω"
    assert lines[2:] == [
        "    φ* H* ℳ⁻¹ H φ",
        "  = ψ* H* D⁻¹ H ψ   Omega [SOA eq. 0.34; MC eq. 20]",
        "  = Ω               definition of Ω [SOA eq. 0.34]",
    ]
    latex = found.latex()
    assert latex.isascii() and latex.count("{") == latex.count("}")
    assert latex.startswith("\\begin{align*}") and latex.count("&=") == len(found.steps)
    assert latex_text("definition of φ̃ [eq_1]") == r"definition of $\tilde{\phi}$ [eq\_1]"


def test_a_chain_that_is_not_found_is_not_typeset_as_one():
    short = pp.derive("mass_matrix = (I + H phi K) D (I + H phi K)*", using=[], max_forms=10)
    assert r"\text{no chain was found}" in short.latex() and " ≠ " not in str(short)


def test_what_is_false_is_refuted():
    found = pp.derive("φ = ψ")
    assert not found and found.proof is not None and found.proof.counterexample is not None
    assert "the sides are not equal" in str(found) and str(found).startswith("φ ≠ ψ")
    assert found._repr_latex_() == found.latex()
    assert r"\phi &\neq \psi && \text{the sides are not equal}" in found.latex()
    with pytest.raises(InputError, match="no derivation to check"):
        found.check()


def test_conditions_are_found_and_used():
    found = pp.derive("H G", "I")
    assert found.condition == "Jr = 0" and found.check()
    strict = pp.derive("H G", "I", condition="serial")
    assert not strict and "not equal" in strict.reason


def test_own_identities_and_points_on_the_way():
    own = pp.Identity("psi K H phi", "phi - psi", name="mine")
    found = pp.derive("H psi K H phi", "H phi - H psi", using=[own])
    assert found.names == ["mine"] and found.check()
    through = pp.derive("H psi K H phi", "H phi - H psi", using=[own], through=["H (phi - psi)"])
    assert through and through.steps[0].expression is parse("H (φ − ψ)")
    with pytest.raises(InputError, match="is false: it fails"):
        pp.derive("phi", "phi E_phi + I", using=[pp.Identity("phi", "psi")])
    with pytest.raises(InputError, match="is not equal"):
        pp.derive("phi", "phi E_phi + I", through=["psi"])


def test_a_forged_step_is_found():
    found = derivation_of("Omega")
    wrong = list(found.steps)
    wrong[0] = replace(wrong[0], expression=2 * wrong[0].expression)
    with pytest.raises(InputError, match="step 1 is not the identity"):
        replace(found, steps=tuple(wrong)).check()
    moved = [replace(wrong[0], expression=found.steps[0].expression, moves=found.steps[1].moves)]
    with pytest.raises(InputError, match="step 1 is not the identity"):
        replace(found, steps=(*moved, *found.steps[1:])).check()
    with pytest.raises(InputError, match="not the right side"):
        replace(found, steps=found.steps[:-1]).check()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("phi",), InputError, "there is no identity 'phi'"),
        (("phi = psi = phi",), InputError, "one equals sign"),
        (("phi = ",), InputError, "the right side of the claim 'phi = ' is empty"),
        (("phi ≠ psi = 0",), InputError, "'≠' is not supported"),
        (("phi", "M"), SpaceError, "between the same spaces"),
        ((pp.Identity("phi", "psi"), "psi"), InputError, "both sides"),
    ],
)
def test_errors(arguments, error, text: str):
    with pytest.raises(error, match=text):
        pp.derive(*arguments)
    with pytest.raises(InputError, match="there is no derivation named 'Lemma 9'"):
        derivation_of("Lemma 9")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_forms": "x"}, "max_forms='x' must be a positive integer, such as max_forms=30000"),
        ({"max_forms": -5}, "max_forms=-5 must be a positive integer"),
        ({"max_forms": 2.5}, "max_forms=2.5 must be a positive integer"),
        ({"using": "Omega"}, r"using=\['Omega'\]"),
        ({"using": 3}, "using=3 must be a list"),
        ({"through": "phi"}, r"through=\['phi'\]"),
        ({"through": parse("phi")}, "through must be a list"),
    ],
)
def test_options_of_the_wrong_kind(options, message):
    with pytest.raises(InputError, match=message):
        pp.derive("Omega", **options)


def test_a_name_of_several_equations_is_rejected():
    for name in ("SOA", "MM", "SOA 0.34"):
        with pytest.raises(InputError, match=f"several equations match '{name}': '"):
            pp.derive(name)
    assert pp.derive("SOA 0.28").title == "Lemma 0.1 / Lemma 1"
    assert pp.derive("Lemma 4").title == "Lemma 0.4 / Lemma 4"


def test_what_is_trivial_has_no_name():
    assert str(pp.derive("P = P")).startswith("P = P")
    assert pp.derive("mass_matrix = Jr + H phi M phi* H*").title == "definition of ℳ"


# ---- two identities, with the factors kept -------------------------------------------------------

TWO_LEMMAS = {
    "φ* H* ℳ⁻¹ = ψ* H* D⁻¹ (I − H ψ K)": 2,
    "φ* H* ℳ⁻¹ = ψ* H* (I − K* ψ* H*)⁻¹ ℳ⁻¹": 2,
    "(I − K* ψ* H*) D⁻¹ (I − H ψ K) H φ = (I + K* φ* H*)⁻¹ D⁻¹ H φ − ℳ⁻¹ H φ K H φ": 2,
    "M + E_φ P E_φ* − E_φ P H* D⁻¹ H P E_φ* = M + E_φ P E_φ* "
    "− E_φ P (Υ − bd(π̄* Λ_φ* shift* Υ shift Λ_φ π̄)) P E_φ*": 2,
    "logdet(Jr + H φ M φ* H*) = logdet(Jr + (I + H (φ − I) G) H ψ M ψ* H* (I + G* (φ* − I) H*))": 2,
    "v* ℳ v = v* (H G + H φ K) D½ D½* (G* H* + K* φ* H*) v": 2,  # a scalar is its own adjoint
}


@pytest.mark.parametrize("claim", TWO_LEMMAS)
def test_chains_of_two_identities_are_found_in_the_whole_book(claim: str):
    found = pp.derive(claim, condition="Jr = 0" if "H G" in claim else "")
    assert found and found.check()
    assert len(found.steps) <= TWO_LEMMAS[claim]


@pytest.mark.parametrize("claim", TWO_LEMMAS)
def test_nearly_the_same_chains_are_refuted(claim: str):
    lhs, rhs = claim.split(" = ")
    twin = pp.derive(
        f"{lhs} = {rhs} + 1/1000 ({rhs})", condition="Jr = 0" if "H G" in claim else ""
    )
    assert not twin and "not equal" in twin.reason


def test_a_change_inside_a_letter_that_is_more_than_its_identity_is_noticed():
    found = pp.derive(next(claim for claim in TWO_LEMMAS if claim.startswith("logdet")))
    i, step = next((i, s) for i, s in enumerate(found.steps) if s.moves[0].inside is not None)
    inside = step.moves[0]
    steps = list(found.steps)
    wrong = replace(inside, words=inside.words.plus(1, inside.words))
    steps[i] = replace(step, moves=(wrong,))
    with pytest.raises(InputError, match=f"step {i + 1} is not the identity"):
        replace(found, steps=tuple(steps)).check()


W = pp.custom.operator("W", "motions -> forces", {"link": 2.0}, symmetric=True)
WHITEN = pp.custom.operator("U1", "efforts -> forces", parse("psi K"), source="own")
OWN = [
    W,
    WHITEN,
    pp.custom.operator("U2", "efforts -> efforts", parse("I - H U1", custom=[WHITEN])),
    pp.custom.operator("S1", "motions -> forces", recursion="S1 = W + E_phi S1 E_phi*", custom=[W]),
]


@pytest.mark.parametrize(
    ("claim", "names"),
    [
        ("I - H U1 = (I + H phi K)^-1", ["definition of U1", "Lemma 0.2 / Lemma 2"]),
        ("U2 H phi = H psi", ["definition of U2", "definition of U1", "Lemma 0.4 / Lemma 4"]),
        ("S1 = W + E_phi S1 E_phi*", ["definition of S1", "Lemma A.1"]),
        ("phi W phi* = S1 + phi~ S1 + S1 phi~*", ["Lemma A.1", "definition of S1"]),
    ],
)
def test_operators_of_ones_own_are_unfolded(claim: str, names: list[str]):
    found = pp.derive(claim, custom=OWN)
    assert found.names == names and all(map(_follows, found.steps))


def _follows(step) -> bool:
    return all(move.follows() for move in step.moves)


def test_a_chain_does_not_return_to_where_it_was():
    found = pp.derive("I - H U1 = (I + H phi K)^-1", custom=OWN)
    assert len({str(step.expression) for step in found.steps}) == len(found.steps)


@pytest.mark.parametrize("forces", ["", " + B f0", " − f_ext"])
def test_vdot_is_derived_through_the_equations_of_motion(forces):
    free = f"(τ − H φ (M φ* (a + gravity) + b{forces}))"
    for sides in (("v̇", f"(I − H ψ K)* D⁻¹ (I − H ψ K) {free}"),
                  (f"(I − H ψ K)* D⁻¹ (I − H ψ K) {free}", "v̇")):  # fmt: skip
        found = pp.derive(*sides)
        law = "inverse dynamics" if "f0" in forces else "equations of motion"
        assert found and law in [x.name for x in found.steps]
        assert found.check()
    assert not pp.derive("v̇", f"ψ* H* D⁻¹ (I − H ψ K) {free}".replace("ψ* H*", "2"))


def test_a_derivation_that_restates_the_claim_says_so():
    """An identity that is the claim in other letters, unless the user named what may be used."""
    claim = "mass_matrix^-1 = (I - H psi K)* D^-1 (I - H psi K)"
    found = pp.derive(claim)
    assert found.restated == ("Identity 6",)
    assert "\nIdentity 6 states the claim in other letters. For a derivation" in str(found)
    named = pp.derive(claim, using=["Identity 6"])
    assert named.restated == () and "other letters" not in str(named)
    others = "phi - psi = psi K H phi", "psi^-1 = phi^-1 + K H", "J mass_matrix^-1 J* = B* Omega B"
    for other in others:
        assert pp.derive(other).restated == ()  # by others, or by definitions
