"""`explain`: the rewrites by name, the sweeps with their direction, the recursion, the cost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from random_models import branching

import phipsi as pp
from phipsi.errors import InputError, LoweringError, SpaceError
from phipsi.operators import (
    B,
    Bdot,
    D,
    G,
    H,
    I,
    J,
    Jr,
    K,
    Lambda,
    M,
    P,
    Riccati,
    V,
    a,
    b,
    f0,
    gravity,
    logdet,
    mass_matrix,
    phi,
    proj_bar,
    psi,
    psi_tilde,
    tau,
    total,
    v,
    vdot,
)

ARM = pp.examples.seven_joint_arm(armature=0.1)
acceleration = a + gravity
BIAS = H @ phi @ (M @ phi.T @ acceleration + b)
FORWARD = mass_matrix.inv @ (tau - BIAS)
INVERSE = mass_matrix @ vdot + BIAS
RICCATI = [
    "P(k) = M(k) + Σ_c φ(k,c) [P(c) − G(c) H(c) P(c)] φ*(k,c)",
    "D(k) = Jr(k) + H(k) P(k) H*(k)",
    "G(k) = P(k) H*(k) D⁻¹(k)",
]


def lines(x: Any, *args: Any, **options: Any) -> list[str]:
    return [line.strip() for line in str(pp.explain(x, *args, **options)).split("\n")]


def equations(x: Any, **options: Any) -> list[str]:
    return [line for sweep in pp.explain(x, **options).sweeps for line in sweep.equations]


# ---- what is in it -----------------------------------------------------------------------------


def test_the_inverse_mass_matrix_in_full():
    assert (
        str(pp.explain(mass_matrix.inv))
        == """\
expression
    ℳ⁻¹

rewrites
    definition of ℳ   [SOA eq. 0.7]
        ℳ
      = Jr + H φ M φ* H*
    innovations factorization   [SOA Lemma 0.3; MM eq. 46]
        (Jr + H φ M φ* H*)⁻¹
      = (I − K* ψ* H*) D⁻¹ (I − H ψ K)

is computed as
    (I − K* ψ* H*) D⁻¹ (I − H ψ K)

recursion (2 sweeps over the bodies)
  1. tip to base, k after all its children c:
        P(k) = M(k) + Σ_c φ(k,c) [P(c) − G(c) H(c) P(c)] φ*(k,c)
        D(k) = Jr(k) + H(k) P(k) H*(k)
        G(k) = P(k) H*(k) D⁻¹(k)
        z1(k) = Σ_c φ(k,c) [z1(c) + G(c) w1(c)]
        w1(k) = x(k) − H(k) z1(k)
  2. base to tip, k after its parent p:
        w2(k) = φ*(p,k) z2(p)
        y(k) = D⁻¹(k) w1(k) − G*(k) w2(k)
        z2(k) = w2(k) + H*(k) y(k)

cost  O(N), about 629 flops per body with one-dof hinges"""
    )


def test_rewrites_have_names_sources_and_both_sides():
    steps = pp.explain(FORWARD).rewrites
    names = [s.name for s in steps]
    for name in ("definition of ℳ", "innovations factorization", "whiten φ", "smooth without φ* a"):
        assert name in names
    whiten = steps[names.index("whiten φ")]
    assert whiten.before is (I - H @ psi @ K) @ H @ phi and whiten.after is H @ psi
    assert "Lemma 0.4" in whiten.source
    assert str(whiten) == "(I − H ψ K) H φ  =  H ψ"


def test_every_rewrite_but_the_tidying_ones_names_its_source():
    for x in (FORWARD, Lambda, logdet(mass_matrix), (phi @ psi.inv @ M).inv):
        for step in pp.explain(x).rewrites:
            assert step.source or step.name.startswith(("collect", "cancel"))


def test_sweeps_have_a_direction():
    kinds = [s.direction for s in pp.explain(FORWARD).sweeps]
    assert kinds == ["base_to_tip", "tip_to_base", "base_to_tip"]
    assert [s.direction for s in pp.explain(INVERSE).sweeps] == ["base_to_tip", "tip_to_base"]
    assert "recursion (3 sweeps over the bodies)" in lines(FORWARD)
    assert "recursion (1 sweep over the bodies)" in lines(V)
    assert "recursion (0 sweeps over the bodies)" in lines(H.T @ v)


def test_the_riccati_recursion_is_that_of_the_papers():
    for x in (mass_matrix.inv, FORWARD, logdet(mass_matrix), psi, P @ V):
        have = equations(x)
        assert all(line in have for line in RICCATI)


def test_composite_bodies():
    have = equations(H @ phi @ M @ phi.T @ H.T, model=ARM, mode="dense")
    assert "z1(k) = M(k) + Σ_c φ(k,c) z1(c) φ*(k,c)" in have


def test_velocities_and_gravity():
    have = equations(INVERSE)
    assert "V(k) = w1(k) + φ*(p,k) V(p)" in have
    assert "b(k) = V(k) ×* M(k) V(k)" in have
    accelerations = [line for line in have if "(at roots z1(p) = [0; −g])" in line]
    assert len(accelerations) == 1  # gravity enters at the roots, and it is said so


def test_names_of_the_papers_are_used():
    text = str(pp.explain((V, P @ V, G.T @ V, b)))
    for name in ("V(k)", "P(k)", "D(k)", "G(k)", "b(k)", "φ(k,c)", "φ*(p,k)", "H*(k)"):
        assert name in text


def test_other_families_are_told_apart():
    text = str(pp.explain(psi + Riccati(Jr=0).psi))
    assert "P(k) = M(k)" in text and "P{H; E_φ; M; 0}(k) = M(k)" in text
    assert "E_phi" not in text


def test_points_and_small_systems():
    x = Lambda.inv @ J @ v
    have = equations(x)
    assert "B(C) = φ(k,C) turn*(W(k))" in have
    assert "W(k) = W(p) φ(p,k)   (at roots W(p) = I)" in have
    assert "Z1(i,j) = z3*(c,i) z2(c) z3(c,j)" in have
    assert "y(C) = A1⁻¹ B*(C) z1(k)" in have
    assert "W(k) is φ(world, k), the pose of body k in the world" in lines(x)
    assert "O(k³)" in pp.explain(x).order
    assert [s.kind for s in pp.explain(x).sweeps][-2:] == ["small", "small"]


@pytest.mark.parametrize("x", [Lambda.inv, Lambda.inv @ J @ v, (B.T @ M.inv @ B).inv @ J])
def test_point_space_inverses_cost_k_cubed(x: Any):
    assert "O(k³) for the dense solve of k rows" in str(pp.explain(x))
    assert "O(k³)" in str(pp.explain(x, ARM))


def test_what_is_linear_says_so():
    for x in (mass_matrix.inv, FORWARD, INVERSE, logdet(mass_matrix), total(M @ V), Lambda):
        assert pp.explain(x).order == "O(N)"


def test_matrices_cost_more():
    assert pp.explain(mass_matrix, ARM, mode="dense").order == "O(N) + O(N · depth)"
    inverse = pp.explain(mass_matrix.inv, ARM, mode="dense")
    assert inverse.order == "O(N) + O(N · depth) + O(pairs)"
    assert "columns" in pp.explain(phi.T @ H.T @ mass_matrix.inv, ARM, mode="dense").order


def test_flops():
    """Of one body without a model, of all bodies with one; collecting makes FD4 cheaper."""
    assert pp.explain(mass_matrix.inv).flops > pp.explain(phi.T @ H.T @ v).flops > 0
    assert pp.explain(mass_matrix.inv, ARM).flops == 7 * pp.explain(mass_matrix.inv).flops
    whiten = I - H @ psi @ K
    nu = D.inv @ (whiten @ tau - H @ psi_tilde @ P @ acceleration - H @ psi @ b)
    fd4 = whiten.T @ nu - K.T @ psi.T @ proj_bar.T @ acceleration - G.T @ acceleration
    assert pp.explain(FORWARD).flops < pp.explain(fd4, rewrite="as_written").flops
    assert "flops for 7 bodies" in str(pp.explain(FORWARD, ARM))


def test_the_rewriter_brings_fd1_and_fd4_to_one_program():
    whiten = I - H @ psi @ K
    fd1 = whiten.T @ D.inv @ whiten @ (tau - BIAS)
    assert pp.explain(fd1).sweeps == pp.explain(FORWARD).sweeps


# ---- forms -------------------------------------------------------------------------------------


def test_with_a_model_without_rotors_there_is_no_jr():
    text = str(pp.explain(mass_matrix.inv, pp.examples.seven_joint_arm()))
    assert "D(k) = H(k) P(k) H*(k)" in text and "Jr(k)" not in text


def test_several_expressions():
    e = pp.explain((mass_matrix, mass_matrix.inv @ tau))
    assert len(e.expressions) == len(e.lowered) == 2
    have = [line for s in e.sweeps for line in s.equations]
    assert any(line.startswith("y1(k) =") for line in have)
    assert any(line.startswith("y2(k) =") for line in have)


def test_as_written():
    e = pp.explain(mass_matrix.inv, rewrite="as_written")
    assert not e.rewrites and "is computed as" not in str(e)
    assert all(line in equations(mass_matrix.inv, rewrite="as_written") for line in RICCATI)


def test_program_explains_itself():
    program = pp.compile(mass_matrix.inv, ARM)
    assert str(program.explain()) == str(pp.explain(mass_matrix.inv, ARM))
    assert str(program.explain(latex=True)) == str(pp.explain(mass_matrix.inv, ARM, latex=True))


def test_what_has_no_sweeps_is_not_explained():
    with pytest.raises(LoweringError, match="no O"):
        pp.explain((phi @ M @ phi.T + M).inv)
    with pytest.raises(SpaceError, match="not determined"):
        pp.explain(I)
    with pytest.raises(InputError, match="needs a model"):
        pp.explain(mass_matrix, mode="dense")
    with pytest.raises(InputError, match="neither an operator expression"):
        pp.explain(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rewrite='none'"):
        pp.explain(mass_matrix, rewrite="none")


def test_points_are_chosen_if_none_are_named():
    assert "B(C)" in str(pp.explain(J @ v, ARM))
    assert "B(C)" in str(pp.explain(J @ v, ARM, points=["world"]))


EXPRESSIONS = [
    FORWARD,
    INVERSE,
    Lambda.inv,
    logdet(mass_matrix),
    total(M @ V),
    Bdot.T @ V,
    B @ f0,
    Riccati(Jr=0).psi,
    Jr @ vdot,
    (V, P @ V),
    0.5 * v.T @ mass_matrix @ v,
]


@pytest.mark.parametrize("x", EXPRESSIONS, ids=lambda x: str(x)[:30])
@pytest.mark.parametrize("model", [None, ARM, branching(4, 1)], ids=["any", "arm", "tree"])
def test_no_equation_uses_what_is_not_defined(x: Any, model: Any):
    """Every w, y, z, Z and A on a right-hand side stands on a left-hand side as well."""
    e = pp.explain(x, model)
    have = [line for sweep in e.sweeps for line in sweep.equations]
    symbol = re.compile(r"\b[wyzZA]\d+")
    defined = {m for line in have for m in symbol.findall(line.split(" = ")[0])}
    used = {m for line in have for m in symbol.findall(line.split(" = ", 1)[1])}
    assert used <= defined
    assert not any("small_solve" in line or "%" in line for line in have)


# ---- LaTeX ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", EXPRESSIONS, ids=lambda x: str(x)[:30])
def test_latex_is_balanced_and_plain_ascii(x: Any):
    text = str(pp.explain(x, latex=True))
    assert text.count("{") == text.count("}")
    assert text.count(r"\left") == text.count(r"\right")
    assert text.count(r"\begin{align*}") == text.count(r"\end{align*}") > 1
    assert text.count("$") % 2 == 0
    assert text.isascii(), {c for c in text if not c.isascii()}


def test_latex_has_the_recursion_of_the_papers():
    text = str(pp.explain(mass_matrix.inv, latex=True))
    assert (
        r"P(k) &= M(k) + \sum_{c} \phi(k,c) \left[P(c) - G(c) H(c) P(c)\right] \phi^{*}(k,c)"
        in (text)
    )
    assert r"D(k) &= J_r(k) + H(k) P(k) H^{*}(k)" in text
    assert r"\text{innovations factorization}" in text
    assert r"\text{definition of $\mathcal{M}$}" in text


def test_notebooks_show_latex_only_if_asked():
    assert pp.explain(mass_matrix, latex=True)._repr_latex_() is not None
    assert pp.explain(mass_matrix)._repr_latex_() is None
    assert repr(pp.explain(mass_matrix)) == str(pp.explain(mass_matrix))


def test_what_is_given_is_not_computed():
    """P comes from outside, so the sweep that would compute it is gone."""
    tree = branching(5)
    for model in (None, tree):
        usual = pp.explain(mass_matrix.inv, model)
        short = pp.explain(mass_matrix.inv, model, inputs=["P"])
        assert len(str(short).splitlines()) < len(str(usual).splitlines())
        assert short.flops < usual.flops
    assert str(short) == str(pp.compile(mass_matrix.inv, tree, inputs=["P"]).explain())
    with pytest.raises(InputError, match="inputs='phi'"):
        pp.explain(mass_matrix.inv, inputs=["phi"])


def test_the_axes_of_points_show():
    world, body = (str(pp.explain(Bdot, axes=axes)) for axes in ("world", "body"))
    assert world != body
    assert str(pp.explain(Bdot)) == world
    with pytest.raises(InputError, match="axes='local'"):
        pp.explain(J, axes="local")


@pytest.mark.parametrize("name", ["z1", "z2", "w1", "w2", "y", "W"])
def test_quantities_of_a_recursion_have_other_names_than_custom_operators(name):
    own = pp.custom.operator(name, "rates -> efforts", 2.0, symmetric=True)
    form = (mass_matrix + own).inv @ J.T if name == "W" else (mass_matrix + own).inv
    found = pp.explain(form, ARM, points=["tool"] if name == "W" else None)
    left = [line.partition("(k) = ")[0] for sweep in found.sweeps for line in sweep.equations]
    assert name not in left and len(set(left)) == len(left)
    assert f" {name}(k) + H(k) P" in str(found)
    assert ("W1(k) is φ(world, k)" in str(found)) == (name == "W")


def test_families_have_the_numbers_of_the_computed_expression():
    names = ("K_r", "K_s")
    one, two = (pp.custom.operator(n, "rates -> efforts", 2.0, symmetric=True) for n in names)
    text = str(pp.explain((mass_matrix + one).inv @ mass_matrix @ (mass_matrix + two).inv, ARM))
    head, _, recursion = text.partition("recursion (")
    assert "₁ is {H; E_φ; M; " in head and "₂ is {H; E_φ; M; " in head
    first = re.search("₁ is {H; E_φ; M; [^}]*(K_[rs])[^}]*}, ₂ is", head)[1]
    assert "{" not in recursion and re.search(rf"D₁\(k\) = .*\b{first}\(k\)", recursion)


def test_functions_of_a_recursion_are_explained():
    assert "gauge(…): [0; ω × v]" in str(pp.explain("s_gauge", ARM))
    assert "spin(…): " in str(pp.explain("Bdot* V", ARM, points=["tool"]))
    assert "(…): " not in str(pp.explain("gravity", ARM))
    assert "flops for 1 body" in str(pp.explain("V", pp.examples.planar_arm(1)))


def test_a_custom_operator_with_the_letter_of_a_number_is_noted():
    own = pp.custom.operator("c", "rates -> efforts", 2.0, symmetric=True)
    assert "c in brackets is a number" in str(pp.explain((mass_matrix + own).inv, ARM))
    assert "is a number" not in str(pp.explain(mass_matrix.inv, ARM))
