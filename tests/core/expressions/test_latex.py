"""LaTeX: names of users in formulas, and formulas of papers as expressions."""

import random

import pytest
from expression_texts import EQUATIONS, by_space, fitting

import phipsi as pp
from phipsi.core.expressions.node import Expr
from phipsi.core.operators.catalogue import hinge_variation
from phipsi.errors import ParseError, PhipsiError, SpaceError
from phipsi.operators import Jr, R, Riccati, parse, unit_rate


@pytest.mark.parametrize(
    ("name", "latex"),
    [
        ("left_elbow", r"\mathrm{left\_elbow}"),
        ("a b-c", r"\mathrm{a\ b\text{-}c}"),
        ("50% & #1 $x$", r"\mathrm{50\%\ \&\ \#1\ \$x\$}"),
        ("{x}^y~\\z", r"\mathrm{\{x\}\hat{\ }y{\sim}\backslash{}z}"),
    ],
)
def test_names_of_users_are_escaped_in_latex(name: str, latex: str):
    """A name is no mathematics: nothing in it ends the formula or becomes an index."""
    x = unit_rate(name, 2)
    assert x.text("latex") == rf"\operatorname{{unit_{{v}}}}_{{({latex}, 2)}}"
    assert latex in hinge_variation(x).text("latex")
    assert x.text() == f"unit_rate[{name}, 2]"
    assert parse(x.text()) is x and parse(x.latex()) is x


@pytest.mark.parametrize(
    "name", ["a, b", "a]b[", 'say "x"', " a", "é ü", r"\left(", "x_{(1)}", ";"]
)
def test_odd_names_of_users_are_read_back(name: str):
    x = unit_rate(name, 2) + unit_rate("other")
    assert all(parse(x.text(style)) is x for style in ("greek", "ascii", "latex"))


# ---- LaTeX to expressions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latex", "plain"),
    [
        (r"H\phi M\phi^{*}H^{*}", "H φ M φ* H*"),
        (r"$H\,\varphi\, M \phi^*H^{\top}$", "H φ M φ* H*"),
        (r"HP\bar{\pi}^\ast", "H P π̄*"),
        (r"HP\bar\pi^*", "H P π̄*"),
        (r"\tilde\phi + \widetilde{\psi}", "φ̃ + ψ̃"),
        (
            r"\left(I-H\psi K\right)^{\top}D^{-1}\bigl[I-H\psi K\bigr]",
            "(I − H ψ K)* D⁻¹ (I − H ψ K)",
        ),
        (r"{D^{1/2}}^{*} v", "D½* v"),
        (r"D^{-1/2}\tau", "D½⁻¹ τ"),
        (r"\mathcal M^{-1}-\mathcal{M}^{-\top}", "0[efforts,rates]"),
        (r"\mathcal{E}_\phi\mathcal E_{\psi}", "E_φ E_ψ"),
        (r"\tfrac{1}{2}v^{*}\mathcal{M}v+\frac12 v^*Dv", "1/2 v* ℳ v + 1/2 v* D v"),
        (r"\psi\langle H; \mathcal{E}_{\phi}; M; 0\rangle", "ψ{H; E_φ; M; 0}"),
        (r"\Lambda_{P}^{-1} + \Lambda^{-1}_P", "2 Λ[P]⁻¹"),
        (r"J_S\dot v + \dot B^{*}V", "J[S] v̇ + Ḃ* V"),
        (r"\delta H^{*}\langle v\rangle\delta q + \dot{H}^{*}v", "dHT{v} dq + Ḣ* v"),
        (r"\log\det\left(D\right) + \operatorname{logdet}(D)", "2 logdet(D)"),
        (r"\operatorname{bd}(\Omega) - \Upsilon", "bd(Ω) − Υ"),
        (r"I_{\text{efforts}} - HG", "I[efforts] − H G"),
        (r"\mathrm{mass\_matrix}\,v", "ℳ v"),
        (r"\Sigma_{(0, 0, 1)} M V", "total[0, 0, 1] M V"),
        ("D^{-1} H φ b", "D⁻¹ H φ b"),
        ("𝐻 𝜙 𝑀 𝜙ᵀ 𝐻′", "H φ M φ* H*"),
        ("𝓜", "ℳ"),
        ("inv(𝓜)' τ", "ℳ⁻¹ τ"),
        ("½ v⊤ ℳ v + ¼ v* D v", "1/2 v* ℳ v + 1/4 v* D v"),
        ("φ⁻ᵀ H* v", "φ⁻¹* H* v"),
        ("φ^-T H* v", "φ⁻¹* H* v"),
        *(
            (rf"\phi^{{{both}}} H^* v", "φ⁻¹* H* v")
            for both in (
                "-*",
                "*-1",
                "-1*",
                "-T",
                r"-\mathrm{T}",
                r"-\top",
                r"\ast -1",
                r"\mathrm T{-1}",
            )
        ),
        *(
            (f"H^{t} v", "H* v")
            for t in (
                r"{\mathrm T}",
                r"{\mathrm{T}}",
                r"\mathrm{T}",
                r"{\rm T}",
                r"{\mathsf{T}}",
                r"\intercal",
            )
        ),
        (r"\left\{ I - H\psi K \right\}^{*} \biggl\{D^{-1}\tau\biggr\}", "(I − H ψ K)* D⁻¹ τ"),
        (r"H\{\phi M\} \lbrace\phi^*\rbrace", "H φ M φ*"),
        (r"P\left\{H; \mathcal E_\phi; M; 0\right\} \phi^*", "P{H; E_φ; M; 0} φ*"),
        (r"\delta H^{*}\{v\}\delta q", "dHT{v} dq"),
        (r"\[ H\thinspace\phi\, M\hspace{2pt}\phi^*\mkern3mu \left. V \right. \]", "H φ M φ* V"),
        ("H\u2009φ\u202fM\u200aφ*", "H φ M φ*"),
        (r"{\cal M} + {\mathcal M}^{*} + \mathcal M - \mathcal{M}", "2 ℳ"),
        (r"{\mathcal E}_{\phi}^* {\tilde\phi}^*", "E_φ* φ̃*"),
        (r"\operatorname*{bd}(\phi)\bm{\psi}\pmb\phi", "bd(φ) ψ φ"),
        (r"D^{\frac12} + D^{\frac{1}{2}} - D^{1/2}", "D½"),
    ],
)
def test_reading_latex_and_text_of_papers(latex: str, plain: str):
    assert parse(latex) is parse(plain)


@pytest.mark.parametrize(
    ("text", "column", "why"),
    [
        (r"H\phi\,\foo", 7, "not a letter or sign"),
        (r"\bar{HP}", 0, "over one letter, not over 'HP'"),
        (r"\mathcal{M}\phi", 0, "cannot compose"),
        (r"H\phi^{2.5}", 5, "superscripts are"),
        (r"\phi_{k+1,k}", 4, "a subscript is a name"),
        (r"\frac{\tau}{D}", 0, r"X\^\{-1\}"),
        (r"H\left(\phi", 11, "expected '\\)'"),
        (r"H{\phi", 1, "never closed"),
        (r"H\kernel\phi", 1, "not a letter or sign"),
        (r"H\phi^", 6, "the text ends before"),
        (r"\frac{1}", 8, "the text ends before"),
        (r"H\{\phi", 7, "expected '\\)'"),
        (r"\phi^{*-2}", 4, "superscripts are"),
        (r"H\phi}", 5, "closes no other"),
        (r"\bar", 4, "a letter is missing"),
        (r"H\phi ½2 M", 7, "two numbers"),
        ("H φ'' M)", 7, "an operator, a number"),
    ],
)
def test_errors_point_into_the_latex(text: str, column: int, why: str):
    with pytest.raises((ParseError, SpaceError), match=why) as caught:
        parse(text)
    shown, caret = str(caught.value).splitlines()[-2:]
    assert shown == "    " + text and caret == " " * (4 + column) + "^"


@pytest.mark.parametrize(
    "text",
    [
        r"\{" * 40_000,
        r"\{H" * 9_000 + r"\}" * 9_000,
        r"H^\mathrm" * 9_000,
        r"{\mathcal " * 9_000,
        r"\hspace{" * 12_000,
        r"\bar" * 20_000,
        r"\bar{" * 16_000 + "x" + "}" * 16_000,
        "{" * 40_000 + "}" * 40_000,
        r"H_{" * 20_000 + "x" + "}" * 20_000,
        r"\frac{1}" * 12_000,
        "\\" * 99_999,
        r"\delta" * 16_000,
        "unit_rate[" * 9_000,
        'unit_rate["' * 9_000,
        "\\",
        "^{}_{}",
        r"\mathcal{}",
    ],
    ids=lambda text: text[:12],
)
def test_hostile_latex_ends_in_a_short_message(text: str):
    with pytest.raises(PhipsiError) as caught:
        parse(text)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("seed", range(60))
def test_random_texts_are_read_back_from_latex(seed: int):
    rng = random.Random(seed)
    text = rng.choice(EQUATIONS) if seed % 3 else fitting(rng, rng.choice(list(by_space())), 5, 2)
    try:
        x = parse(text)
    except PhipsiError:
        return
    assert parse(x.latex()) is x and parse(str(x)) is x


# ---- families with numbers -----------------------------------------------------------------------

FREE, LIGHT = Riccati(Jr=0), Riccati(M=R, Jr=0)
NESTED = Riccati(E=FREE.E_psi)


@pytest.mark.parametrize(
    ("x", "printed"),
    [
        (FREE.psi, "ψ{H; E_φ; M; 0}"),
        (FREE.psi @ LIGHT.K, "ψ{H; E_φ; M; 0} K{H; E_φ; R; 0}"),
        (FREE.psi @ FREE.K, "ψ₁ K₁ where ₁ is {H; E_φ; M; 0}"),
        (FREE.P + LIGHT.P - FREE.P @ FREE.psi.T, None),
        (NESTED.psi @ NESTED.K, "ψ₂ K₂ where ₁ is {H; E_φ; M; 0}, ₂ is {H; E_ψ₁; M; Jr}"),
        (
            NESTED.psi @ NESTED.K @ FREE.D,
            "ψ₂ K₂ D₁ where ₁ is {H; E_φ; M; 0}, ₂ is {H; E_ψ₁; M; Jr}",
        ),
        (FREE.D_half.T @ FREE.D_half.inv.T, None),
        (Riccati(Jr=Jr + FREE.D).psi @ FREE.psi, None),
    ],
)
def test_families_that_occur_twice_have_a_number_and_a_legend(x: Expr, printed: str | None):
    assert printed is None or str(x) == printed
    assert all(parse(x.text(style)) is x for style in ("greek", "ascii", "latex"))
    assert "where" not in x.text("ascii")


def test_the_legend_is_in_explanations():
    said = str(pp.explain(FREE.psi @ FREE.K))
    assert "ψ₁ K₁ where ₁ is {H; E_φ; M; 0}" in said


def test_legends_are_bounded():
    lines = ["₁ is {H; E_φ; M; 0}"]
    for new, old in zip("₂₃₄₅₆₇₈₉", "₁₂₃₄₅₆₇₈", strict=True):
        lines.append(f"{new} is {{H; E_ψ{old}; P{old}; D{old}}}")
    assert parse(f"ψ₄ where {', '.join(lines[:4])}").name == "psi"
    with pytest.raises(PhipsiError, match="the expression is longer"):
        parse(f"{'ψ₉ ' * 20} where {', '.join(lines)}")
    with pytest.raises(ParseError):
        parse("ψ₁ where ₂ is {H; E_φ; M; 0}")
    with pytest.raises(ParseError):
        parse("ψ where where where")
