"""The letters of the papers: read as each paper means them, explained where unknown."""

import operator

import numpy as np
import pytest

import phipsi as pp
from phipsi.core.operators.papers import LETTERS, NOT_OPERATORS, explain_letter, paper_named
from phipsi.errors import InputError, ParseError, SpaceError
from phipsi.operators import parse


@pytest.mark.parametrize("paper", LETTERS)
def test_every_letter_is_read_and_printed_in_letters_of_the_catalogue(paper: str):
    for letter in LETTERS[paper]:
        x = parse(letter, notation=paper)
        assert parse(str(x)) is x and parse(x.latex()) is x


@pytest.mark.parametrize(
    ("paper", "text", "here"),
    [
        ("SOA", r"\bar\tau P\bar\tau^* + τ P", "π̄ P π̄* + π P"),
        ("SOA", r"\mathcal{M}\dot\beta + C", "ℳ v̇ + H φ (M φ* (a_paper + gravity) + b_paper)"),
        ("MM", r"(\mathcal{I} - \Psi GH)\Phi", "(I − ψ E_φ G H) (φ − I)"),
        ("MM", r"H\phi B f(0)", "H φ B f0"),
        ("MM", "T' - T + \\hat{T}", "0[one,efforts]"),
        ("MC", r"\Omega(0) - \Lambda^{-1}", "0[point_forces,point_motions]"),
        ("88-11", r"\Phi L - \phi S L", "0[efforts,forces]"),
        ("88-11", "Psi L H phi", "ψ shift Λ_φ G H φ"),
        ("88-11 II", "A", "A_grasp"),
        ("MS", r"\mathbb{S}\Delta_\phi", "shift Λ_φ"),
        ("JPL 88-11 Part II", "A", "A_grasp"),
    ],
)
def test_letters_mean_what_the_paper_says(paper: str, text: str, here: str):
    assert parse(text, notation=paper) is parse(here)


def test_one_letter_two_meanings():
    assert parse("Φ", notation="MM") is not parse("Φ", notation="88-11")
    assert parse("Λ", notation="MC") is parse("Λ⁻¹") and parse("Λ", notation="SOA") is parse("Λ")
    assert parse("ζ", notation="MM") is not parse("ζ", notation="88-11")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("τ̄ P", "in SOA it is proj_bar, printed π̄"),
        (r"H\Phi", "in MM it is φ − I, in 88-11 and 88-11 II it is φ shift"),
        ("L", r'in 88-11 and 88-11 II it is Λ_φ G; pp.parse\(text, notation="88-11"\)'),
        ("T", "in SOA, MM, MC, 88-11, 88-11 II and MS it is tau, printed τ"),
        (r"\dot\theta", "it is v"),
        ("θ", "coordinates, called q here"),
        (r"\mathcal{Q}", "cross_force"),
    ],
)
def test_unknown_letters_are_answered_with_their_name_here(text: str, said: str):
    with pytest.raises(ParseError, match=said):
        parse(text)
    assert explain_letter("no such letter", pp.core.operators.VOCABULARY) == ""


C = pp.custom.operator("C", "rates -> efforts", 0.5)  # the papers' C is a bias
READERS = {
    "Identity": lambda text, **how: pp.Identity(text, text, **how).sides[0],
    "prove": lambda text, **how: pp.prove(
        f"{text} = {text}", **(how or {"custom": [C]})
    ).identity.sides[0],
    "derive": lambda text, **how: pp.derive(text, text, **how).lhs,
    "through": lambda text, **how: pp.derive(text, text, through=[text], **how).lhs,
    "explain": lambda text, **how: pp.explain(text, **how).expressions[0],
    "on a model": lambda text, **how: pp.explain(text, ARM, **how).expressions[0],
    "compile": lambda text, **how: pp.compile(
        text, ARM, backend="reference", **how
    ).request.expressions[0],
    "dense": lambda text, **how: pp.evaluate_dense(text, ARM, [0.1, 0.2], **how),
    "simplify": lambda text, **how: pp.simplify(text, **how),
    "diff": lambda text, **how: pp.diff(text, "q", along="dq", **how),
}
ARM = pp.examples.planar_arm(2)


@pytest.mark.parametrize("reader", READERS)
def test_every_function_reads_text_through_the_same_door(reader: str):
    read = READERS[reader]
    same = np.array_equal if reader == "dense" else operator.is_
    assert same(read("H Ψ", notation="MM"), read("H ψ E_φ"))
    assert same(read("H Ψ", notation="88-11"), read("H ψ shift"))
    assert same(read("C", custom=[C]), read(C))
    assert same(read("C", notation="SOA", custom=[C]), read(C))
    with pytest.raises(ParseError, match="is not an operator of the catalogue|letter of papers"):
        read("U1 v", custom=[C])
    with pytest.raises(InputError, match="is not one of the papers"):
        read("H", notation="SOB")
    with pytest.raises(InputError, match="must be a list of custom operators"):
        read("H", custom=C)


def test_derivatives_read_text_with_its_letters_and_operators():
    at = [0.1, 0.2], [1.0, -1.0], [0.5, 2.0]  # q, tau and c
    text = "(I − HΨL)ᵀ D⁻¹ (I − HΨL) T"
    theirs = pp.vjp(text, ARM, ("q", "tau"), notation="88-11", backend="reference")
    ours = pp.vjp("(I − H ψ K)* D⁻¹ (I − H ψ K) τ", ARM, ("q", "tau"), backend="reference")
    assert theirs.inputs == ("q", "tau", "x")
    for one, other in zip(theirs(*at), ours(*at), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    by_v = pp.vjp("C v", ARM, "v", custom=[C], backend="reference")
    assert by_v([1.0, 2.0]).tolist() == [0.5, 1.0]
    assert pp.diff("C v", "v", custom=[C]) is C
    # the direction is text too, and may name the operator that changes, or others
    dC = pp.custom.operator("dC", "rates -> efforts", 2.0)
    assert pp.diff("C v", "C", along="dC", custom=[C, dC]) is pp.diff(C @ pp.operators.v, C, dC)
    assert pp.diff(C @ pp.operators.v, "C", along="C") is C @ pp.operators.v
    family = pp.diff("mass_matrix", "q")
    assert pp.diff(family, "q", along="v") is not None
    for call in (pp.diff, lambda x, wrt, **how: pp.vjp(x, ARM, wrt, **how)):
        with pytest.raises(pp.errors.ParseError, match="U1"):
            call("U1 v", "v", custom=[C])
        with pytest.raises(InputError, match=r"custom=\[C\]"):
            call("C v", "v", custom=C)
        with pytest.raises(InputError, match="SOA, MM"):
            call("v", "v", notation="SOB")


def test_rules_and_identities_to_use_may_name_operators_of_ones_own():
    halves = "C = 1/2 C + 1/2 C"
    assert pp.derive("C v = 1/2 C v + 1/2 C v", custom=[C], using=[halves])
    program = pp.compile("C C^-1 C v", ARM, custom=[C], rules=["C C^-1 C = C"], backend="reference")
    assert "C C^-1 C = C" in str(program.explain())
    with pytest.raises(InputError, match="because it is false"):
        pp.compile("C C^-1 C v", ARM, custom=[C], rules=["C C^-1 = 2 I"], backend="reference")


def test_text_about_an_expression_may_name_the_operators_in_it():
    x = parse("C v + C vdot", custom=[C])
    assert x.collect("C") is C @ parse("v + vdot")
    assert x.subs({"C v": "D v"}) is parse("D v") + C @ parse("vdot")


def test_papers_have_names():
    assert paper_named("jpl 88-11".upper()) == "88-11" and paper_named("soa") == "SOA"
    with pytest.raises(InputError, match="SOA, MM, MC, 88-11, 88-11 II, MS"):
        parse("H", notation="SOB")
    assert all(explain_letter(x, pp.core.operators.VOCABULARY) for x in NOT_OPERATORS)


def test_the_gain_of_88_11_compiles_to_the_same_program():
    arm = pp.examples.planar_arm(3)
    theirs = parse("(I − HΨL)ᵀ D⁻¹ (I − HΨL)", notation="88-11")
    ours = parse("(I − H ψ K)* D⁻¹ (I − H ψ K)")
    q, tau = [0.1, 0.2, 0.3], [1.0, 2.0, 3.0]
    programs = [pp.compile(x, arm, backend="reference") for x in (theirs, ours)]
    assert (programs[0](q, tau) == programs[1](q, tau)).all()


def test_the_weight_of_the_shift_is_compiled_and_differentiated():
    tree = pp.examples.random_tree(seed=1, n=4)
    rng = np.random.default_rng(0)
    q, (v, u) = tree.random_configuration(rng), rng.standard_normal((2, tree.nv))
    x = parse("Lam_phi b")
    want = pp.evaluate_dense(x, tree, q, v)
    assert np.allclose(np.ravel(pp.compile(x, tree, backend="reference")(q, v)), want)
    along = pp.evaluate_dense(x, tree, q + 1e-30j * tree.qdot(q, u), v).imag / 1e-30
    assert np.allclose(pp.evaluate_dense(pp.diff(x, "q", along="dq"), tree, q, v, dq=u), along)
    assert bool(pp.prove("E_φ = shift Λ_φ", tree)) and not bool(pp.prove("E_φ = Λ_φ shift", tree))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("H Φ L", 'notation="88-11"\\)'),  # MM has Φ, but no L
        ("A Φ τ̄", "none of these papers has all letters"),
        ("H φ W φ* H*", "your own operator\\? pass custom=\\[W\\]"),
        ("Wx H", "your own operator\\? pass custom=\\[Wx\\]"),
        ("P(k) P", "P = E_ψ P E_ψ\\* \\+ M"),
        (r"\dot{\mathcal M}", 'pp.diff\\("ℳ", "q", along="v"\\)'),
        ("HphiMphi", "did you mean H phi M phi\\? Put spaces between ASCII names"),
    ],
)
def test_the_error_of_an_unknown_letter_says_what_to_write(text: str, said: str):
    with pytest.raises(ParseError, match=said):
        parse(text)


def test_what_the_errors_say_to_write_is_right():
    assert parse("H Φ L", notation="88-11") and pp.prove("P = E_ψ P E_ψ* + M", notation="SOA")
    assert parse("φ~ ψ~") == parse("phi~ psi~")
    assert parse("(I − τ) P", notation="SOA") == parse("(I − π) P")
    arm, q, v = pp.examples.planar_arm(2), np.array([0.3, 0.4]), np.array([1.0, -2.0])
    rate = pp.evaluate_dense(pp.diff("ℳ", "q", along="v"), arm, q, v)
    ahead, behind = (pp.mass_matrix(arm, q + s * 1e-6 * v) for s in (1, -1))
    assert np.allclose(rate, (ahead - behind) / 2e-6)
    weight = pp.custom.operator("W", "motions -> forces", 2.0, symmetric=True)
    assert parse("H φ W φ* H*", custom=[weight])
    with pytest.raises(ParseError, match='notation="88-11"'):
        parse("W φ* L", custom=[weight])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(I − τ) P", "SOA's τ = G H is proj"),
        ("τ P τ*", "SOA's τ = G H is proj"),
        ("H M v̇", "mass matrix is ℳ"),
        ("ℳ + M", "mass matrix is ℳ"),
        ("M⁻¹ τ", "mass matrix is ℳ"),
        ("phi(q)", "φ, not φ\\(q\\)"),
    ],
)
def test_letters_that_were_meant_otherwise_are_named(text: str, said: str):
    with pytest.raises(SpaceError, match=said):
        parse(text)


@pytest.mark.parametrize("text", ["M φ", "H* M", "φ φ*", "ℳ τ", "P + φ"])
def test_other_spaces_that_do_not_fit_are_no_hint(text: str):
    with pytest.raises(SpaceError) as error:
        parse(text)
    assert "mass matrix is ℳ" not in str(error.value)


def test_the_mass_matrix_of_a_paper_is_not_its_inertia():
    with pytest.raises(SpaceError, match="mass matrix is ℳ"):
        pp.prove("M = (I + HΦL)D(I + HΦL)^T", notation="88-11")
    assert pp.prove("ℳ = (I + HΦL)D(I + HΦL)^T", notation="88-11")
