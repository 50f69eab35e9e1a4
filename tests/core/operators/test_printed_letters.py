r"""Lines of the papers as they are printed: ends of lines, letters, dots and subscripts θ_i.

Derivatives are compared with complex steps of matrices in world axes, the papers' inertial frame.
"""

from __future__ import annotations

import numpy as np
import pytest
from random_models import chain, random_tree

import phipsi as pp
from phipsi.core.expressions.printed_lines import with_plain_equals, without_end_of_line
from phipsi.errors import ParseError, SpaceError
from phipsi.operators import parse

EPS = float(np.finfo(float).eps)


# ---- around an expression ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [".", ",", ";", r" \tag{22}", r"\tag*{22}", r" \quad (22)", r". \quad (4.42)", r"\,,", r"\;;",
     r" \quad \square", ". □", r" \label{eq:mass}", " .\n", r"\qquad (a.35)", ". . ,"],
)  # fmt: skip
def test_ends_of_lines_are_ignored(end: str):
    assert parse(r"H\phi M\phi^* H^*" + end) is parse("H φ M φ* H*")
    assert parse("H φ M φ* H*" + end) is parse("H φ M φ* H*")
    proof = pp.prove(r"\mathcal{M}^{-1} = (I - H\psi K)^* D^{-1}(I - H\psi K)" + end)
    assert proof.holds


@pytest.mark.parametrize("text", ["φ~", "psi~", "H φ f(0)", "D^1/2", "2", "total[1., 2., 3.]"])
def test_what_belongs_to_an_expression_stays(text: str):
    assert without_end_of_line(text) == text
    assert without_end_of_line(f"{text} .") == text


def test_a_line_of_any_length_takes_no_time():
    assert without_end_of_line(" " * 90_000 + "x" + " ." * 40_000) == " " * 90_000 + "x"
    assert without_end_of_line(" . " * 100).strip(" .") == ""
    with pytest.raises(ParseError):
        parse(" . . . ")


@pytest.mark.parametrize(
    "sign", ["=", "&=", "= &", r"\triangleq", r"&\triangleq", r"\stackrel{\triangle}{=}",
             r"\stackrel{\Delta}{=}", r"\overset{def}{=}", r"\equiv", ":=", "≜", "≡"],
)  # fmt: skip
def test_signs_of_equality(sign: str):
    assert pp.prove(f"G {sign} PH^*D^{{-1}},").holds
    assert not pp.prove(f"G {sign} 2PH^*D^{{-1}},").holds
    left, right = with_plain_equals(f"G {sign} P").split("=")
    assert (left.strip(), right.strip()) == ("G", "P")


# ---- letters side by side ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("GH", "G H"), ("HPH*", "H P H*"), ("KDK*", "K D K*"), ("I - GH", "I − G H"),
        ("HPH^*D^{-1}", "H P H* D⁻¹"), ("HφMφ*H*", "H φ M φ* H*"), ("Ma + b", "M a + b"),
        ("KDK* + P", "K D K* + P"),
    ],
)  # fmt: skip
def test_latin_letters_side_by_side(text: str, same: str):
    assert parse(text) is parse(same)


@pytest.mark.parametrize("text", ["HphiM", "GX", "HPHx", "mass"])
def test_other_words_are_no_products(text: str):
    with pytest.raises(ParseError, match="is not an operator of the catalogue"):
        parse(text)
    with pytest.raises(SpaceError, match="cannot compose"):
        parse("MH")  # letters, but not in an order that fits


# ---- one letter, several meanings ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("paper", "text", "here"),
    [
        ("MC", r"M\ddot{\theta}", "ℳ v̇"),
        ("MC", r"\phi M\phi^*", "φ M φ*"),
        ("MC", r"JM^{-1}J^*", "J ℳ⁻¹ J*"),
        ("MC", r"\bar{\phi} P + P\bar{\phi}^*", "(φ − I) P + P (φ − I)*"),
        ("MC", r"D^{-1/2}(I - H\psi K)T", "D½⁻¹ (I − H ψ K) τ"),
        ("MC", r"D^{1/2}(I + H\phi K)^*\dot{\theta}", "D½* (I + H φ K)* v"),
        ("MC", r"\ddot{\theta}_f + \Delta\ddot{\theta}", None),
        ("MC", r"\nu^*\varepsilon", None),
        ("SOA", r"D^{-\frac{1}{2}}[I - H\psi K]\bar{T}", None),
        ("SOA", r"D^{-\frac12}H\psi BA^*", "D½⁻¹ H ψ B A*"),
        ("SOA", r"[I - H\psi K]^*D^{-\frac12}b", "(I − H ψ K)* D½⁻¹* D½⁻¹ H ψ B A*"),
        ("SOA", r"M\alpha + b", None),
        ("MS", r"\tilde{\Omega}_s H^*", "cross(angular E_φ* V) H*"),
        ("MS", r"\phi\tilde{\Omega}", "−φ cross(angular V)*"),
        ("MS", r"\mathbb{H}^{i}_{\delta}\phi M", "−cross(angular H* dq)* φ M"),
        ("MS", r"M\phi^*\mathbb{H}_\delta^i", "M φ* cross(angular H* dq)"),
        ("MS", "ℍⁱ_s P", "−cross(angular E_φ* φ* H* dq)* P"),
        ("MS", r"\mathcal{M}(\theta)", "ℳ"),
        ("MM", r"\mathcal{C}", None),
        ("88-11 II", r"\zeta", "φ* (a_paper + gravity)"),
    ],
)
def test_the_spaces_say_what_a_letter_means(paper: str, text: str, here: str | None):
    if here is not None:
        assert parse(text, notation=paper) is parse(here)
    elif text == r"\mathcal{C}":
        with pytest.raises(ParseError):
            parse(text, notation=paper)
    else:
        assert parse(text, notation=paper) is not None


def test_both_sides_of_a_claim_have_one_meaning():
    assert pp.prove(r"M = H\phi M\phi^* H^*", notation="MC").identity.sides[0] is parse("ℳ")
    assert pp.prove("M = P − ℰ_ψ P ℰ_ψ*", notation="MC").identity.sides[0] is parse("M")
    assert pp.prove("A = (JM⁻¹J*)⁻¹", notation="MC").identity.sides[0] is parse("Λ⁻¹")
    with pytest.raises(SpaceError, match="the same spaces"):
        pp.prove("M = φ", notation="MC")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r"\alpha_1(0) = \alpha_2(0)", "letters with 1 and 2 are those of two arms"),
        (r"J_1 + J_2", "letters with 1 and 2 are those of two arms"),
        (r"M\phi", "cannot compose"),
        (r"\nu\varepsilon", "cannot compose"),
    ],
)
def test_what_fits_in_no_meaning_is_explained(text: str, said: str):
    with pytest.raises((ParseError, SpaceError), match=said):
        pp.prove(text, notation="MC") if "=" in text else parse(text, notation="MC")


def test_many_letters_with_several_meanings_take_no_time():
    for text in ("M" * 60, " + ".join(["ν* ε"] * 60), "M φ " * 60):
        with pytest.raises((ParseError, SpaceError)):
            parse(text + " φ τ", notation="MC")
    assert parse("φ M φ* + " * 30 + "M", notation="MC") is not None


# ---- two arms ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        (r"\mathcal{M}_1\ddot{\theta}_1 + \mathcal{C}_1 = T_1 + J_1^* f(0),", True),
        (r"\mathcal{M}_2\ddot{\theta}_2 + \mathcal{C}_2 = T_2 - J_2^* f(0)", True),
        (r"\mathcal{M}_2\ddot{\theta}_2 + \mathcal{C}_2 = T_2 + J_2^* f(0)", False),
        (r"\alpha_1(0) = \alpha_{1f}(0) + \Lambda_1^{-1} f(0)", True),
        (r"\alpha_2(0) = \alpha_{2f}(0) - \Lambda_2^{-1} f(0)", True),
        (r"\alpha_2(0) = \alpha_{2f}(0) + \Lambda_2^{-1} f(0)", False),
        (r"\Lambda_1^{-1} \triangleq J_1\mathcal{M}_1^{-1}J_1^*", True),
        (r"\alpha_1(0) = \dot{V}_1(0) = J_1", None),
        (r"\alpha_1(0) = J_1\ddot{\theta}_1 + \dot{J}_1\dot{\theta}_1.", True),
        (r"\Delta\ddot{\theta}_1 = \mathcal{M}_1^{-1}J_1^* f(0)", True),
    ],
)
def test_a_text_about_one_arm_means_that_arm(claim: str, holds: bool | None):
    if holds is None:
        with pytest.raises(pp.errors.InputError, match="one equals sign"):
            pp.prove(claim, notation="MC")
    else:
        assert pp.prove(claim, chain(3, 2), notation="MC").holds is holds


# ---- dots and θ_i, against matrices in world axes ------------------------------------------------


def turned(x: str, notation: str, model: pp.Model, q, v):
    """The change of an operator in world axes along v by a complex step, back in body axes."""
    expr, h = parse(x, notation=notation), 1e-30

    def axes(space, at) -> np.ndarray:
        size = pp.evaluate_dense("φ", model, q).shape[0] if space.index == "body" else model.nv
        if space.index != "body":
            return np.eye(size, dtype=at.dtype)
        out = np.zeros((size, size), dtype=at.dtype)
        for k, pose in enumerate(
            np.asarray(pp.evaluate_dense("pose", model, at)).reshape(-1, 4, 4)
        ):
            for i in (6 * k, 6 * k + 3):
                out[i : i + 3, i : i + 3] = pose[:3, :3]
        return out

    def in_world(at) -> np.ndarray:
        return axes(expr.gives, at) @ pp.evaluate_dense(expr, model, at) @ axes(expr.takes, at).T

    rate = in_world(q + 1j * h * model.qdot(q, v)).imag / h
    return axes(expr.gives, q).T @ rate @ axes(expr.takes, q)


@pytest.mark.parametrize(
    ("dotted", "plain"),
    [
        (r"\dot{\phi}", "φ"), (r"\dot{H}", "H"), (r"\dot{M}", "M"),
        (r"\dot{\mathcal{E}}_\phi", "ℰ_φ"),
        (r"\dot{\mathcal{M}}", "ℳ"), (r"\dot{P}", "P"), (r"\dot{\psi}", "ψ"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", range(2))
def test_a_dot_is_a_derivative_in_the_inertial_frame(dotted: str, plain: str, seed: int):
    model = random_tree(seed, 4, armature=bool(seed))
    rng = np.random.default_rng(seed)
    q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    found = pp.evaluate_dense(parse(dotted, notation="SOA"), model, q, v)
    want = turned(plain, "SOA", model, q, v)
    worst = np.linalg.cond(pp.mass_matrix(model, q))
    scale = max(1.0, float(np.abs(want).max()))
    assert np.abs(found - want).max() <= 100 * EPS * worst * scale
    if plain != "ℳ":  # in body axes it is another matrix
        other = pp.evaluate_dense(pp.diff(plain, "q", along="v", notation="SOA"), model, q, v)
        assert np.abs(other - want).max() > 1e-3


@pytest.mark.parametrize(
    "text", [r"\mathcal{M}", r"[\phi]", r"[\phi M\phi^*]", r"\boldsymbol{H}", r"\Delta_\phi", "P"]
)
def test_a_subscript_theta_is_a_derivative_along_dq(text: str):
    model = random_tree(3, 4)
    rng = np.random.default_rng(3)
    q, dq = model.random_configuration(rng), rng.standard_normal(model.nv)
    x = parse(rf"{text}_{{\theta_i}}", notation="MS")
    assert x is parse(rf"{text}_{{\theta_{{i}}}}", notation="MS")
    found = pp.evaluate_dense(x, model, q, dq=dq)
    want = turned(text, "MS", model, q, dq)
    worst = np.linalg.cond(pp.mass_matrix(model, q))
    assert np.abs(found - want).max() <= 100 * EPS * worst * max(1.0, float(np.abs(want).max()))
    assert np.abs(found + want).max() > 1e-3


def test_one_joint_is_a_case_of_any_direction():
    arm = chain(3, 1, ["revolute"])
    q = arm.random_configuration(np.random.default_rng(1))
    right = r"H\phi[\mathbb{H}^i_\delta\phi M - M\phi^*\mathbb{H}^i_\delta]\phi^*H^*"
    claim = rf"\mathcal{{M}}_{{\theta_i}} = {right}"
    assert pp.prove(claim, arm, notation="MS").holds
    sides = [pp.parse(side, notation="MS") for side in claim.split(" = ")]
    for unit in np.eye(3):
        left, right = (pp.evaluate_dense(x, arm, q, dq=unit) for x in sides)
        h = 1e-30j
        step = pp.evaluate_dense("ℳ", arm, q + h * unit).imag / 1e-30
        assert np.abs(left - right).max() < 100 * EPS * max(1.0, float(np.abs(left).max()))
        assert np.abs(left - step).max() < 100 * EPS * max(1.0, float(np.abs(left).max()))
    with pytest.raises(ParseError):
        parse(r"\mathcal{M}_{\theta_i}")  # without notation="MS" it is no letter
    with pytest.raises(ParseError):
        parse(r"\mathcal{M}_{\theta_j}", notation="MS")


# ---- the root of the inertias --------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_the_root_of_the_inertias(backend: str):
    for model in (random_tree(4, 5), pp.examples.planar_arm(3), pp.examples.seven_joint_arm()):
        q = model.random_configuration(np.random.default_rng(0))
        root = parse("M^{1/2}", notation="MM")
        L, M = pp.evaluate_dense(root, model, q), pp.evaluate_dense("M", model, q)
        assert np.abs(L @ L.T - M).max() <= 10 * EPS * np.abs(M).max()
        assert np.abs(np.triu(L, 1)).max() == 0 and np.diag(L).min() >= 0
        factor = parse(r"\mathcal{P}", notation="MM")
        P = pp.compile(factor, model, backend=backend, mode="dense")(q)
        want = pp.evaluate_dense("H φ M φ* H*", model, q)
        assert np.abs(P @ P.T - want).max() <= 100 * EPS * np.abs(want).max()
    assert parse(r"H\phi M^{\frac12}", notation="MM") is parse(r"\mathcal{P}", notation="MM")
    with pytest.raises(ParseError):
        parse("M^{1/2}")
