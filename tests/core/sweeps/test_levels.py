"""The seven levels of operators and the meanings of quantities: against dense operators."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_models import branching, random_tree

import phipsi as pp
from phipsi.core.backends.reference import Interpreter
from phipsi.core.dense import evaluate_dense
from phipsi.core.sweeps.ir import Domain

MODELS = {
    "branches": branching(6, 11, armature=True),
    "forest": random_tree(3, 6, n_roots=2, armature=True),
}
TEXTS = [
    "(I - H psi K)* D^-1 (I - H psi K) tau",
    "mass_matrix^-1 tau",
    "H phi (M phi* (H* vdot + a) + b + f_ext)",
    "mass_matrix^-1 (tau - H phi (M phi* a + b + f_ext))",
    "phi M phi* H* mass_matrix^-1 tau",
    "K* psi_tilde* H* D^-1 H psi M phi_tilde* H* vdot",
]


class Kept(dict):
    """Values of fields, of which none is dropped after its last use."""

    def pop(self, *_):
        return None


def values_of(program, at):
    source = program.source
    run = Interpreter(source, {n: at[n] for n in program.inputs}, (), np.dtype(float))
    run.here.values = run.values = Kept(run.values)
    return run.run()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_quantity_is_the_product_it_stands_for(name: str, text: str):
    model, rng = MODELS[name], np.random.default_rng(1)
    at = {n: rng.standard_normal(model.nv) for n in ("v", "vdot", "tau")}
    at |= {"q": model.random_configuration(rng), "f_ext": rng.standard_normal((model.n_bodies, 6))}
    program = pp.compile(text, model, backend="reference")
    checked = 0
    for field, blocks in values_of(program, at).items():
        stands = field.stands
        if stands is None or not stands.is_vector or field.type.domain is not Domain.BODY:
            continue
        values = {n: at[n] for n in at if n != "q"}
        wanted = evaluate_dense(stands, model, at["q"], **values)
        found = np.concatenate([np.ravel(x) for x in blocks])
        assert_allclose(found, np.ravel(wanted), rtol=1e-7, atol=1e-7, err_msg=str(stands))
        checked += 1
    assert checked >= 4


@pytest.mark.parametrize("text", TEXTS)
def test_every_equation_of_a_recursion_has_a_meaning(text: str):
    plain, full = pp.explain(text), pp.explain(text, meanings=True)
    assert all(not sweep.meanings for sweep in plain.sweeps)
    for sweep, other in zip(full.sweeps, plain.sweeps, strict=True):
        assert sweep.equations == other.equations
        assert len(sweep.meanings) == len(sweep.equations)
        for equation, meaning in zip(sweep.equations, sweep.meanings, strict=True):
            assert meaning, equation
            assert meaning in str(full) and f"\n            {meaning}" not in str(plain)
    assert pp.explain(text, branching(4, 1), meanings=True).sweeps[0].meanings


def test_the_papers_sentences_are_printed_below_their_equations():
    full = str(pp.explain("(I - H psi K)* D^-1 (I - H psi K) tau", meanings=True))
    for words in (
        "articulated-body inertia",
        "force felt by body k because of the joint forces outboard of it",
        "innovation: the part of the joint force that accelerates its joint",
        "acceleration of body k, ψ* H*",
    ):
        assert words in full
    assert "innovation" not in str(pp.explain("(I - H phi K) tau", meanings=True))


def test_levels_are_those_of_figure_3():
    found = pp.explain("(I - H psi K)* D^-1 (I - H psi K) tau", levels=True)
    levels = {str(x.operator): x for x in found.levels}
    assert list(levels) == ["K*", "ψ*", "H*", "D⁻¹", "H", "ψ", "K"]
    psi, back = levels["ψ"], levels["ψ*"]
    assert psi.kind == "causal: a recursion from the tips to the base"
    assert back.kind == "anticausal: a recursion from the base to the tips"
    assert psi.transition == "ψ(k,c) = φ(k,c) π̄(c)" and back.transition == "ψ*(k,c) = π̄*(c) φ*(k,c)"
    assert psi.crossing == "π̄(c) = I − G(c) H(c)" and psi.within.startswith("φ(k,c)")
    assert psi.recursion == tuple(
        line for sweep in pp.explain("psi", rewrite="as_written").sweeps for line in sweep.equations
    )
    assert "R turns the axes" in psi.coordinates
    assert levels["D⁻¹"].kind.startswith("memoryless") and not levels["D⁻¹"].transition
    assert "levels (MM Fig. 3" in str(found) and not pp.explain("psi").levels


@pytest.mark.parametrize("name", MODELS)
def test_transitions_are_the_blocks_between_bodies_and_their_parents(name: str):
    """Levels 5 to 7 against dense blocks: φ π̄ for ψ and φ for E_φ, [R, l~ R; 0, R]."""
    model = MODELS[name]
    q = model.random_configuration(np.random.default_rng(0))
    psi, phi, bar, K, G = (evaluate_dense(x, model, q) for x in ("ψ", "φ", "π̄", "K", "G"))
    poses = evaluate_dense("pose", model, q).reshape(-1, 4, 4)
    for k, parent in enumerate(model.parent):
        if parent < 0:
            continue
        at, up = slice(6 * k, 6 * k + 6), slice(6 * parent, 6 * parent + 6)
        assert_allclose(psi[up, at], phi[up, at] @ bar[at, at], atol=1e-10)
        joint = model.v_slices[k]
        assert_allclose(K[up, joint], phi[up, at] @ G[at, joint], atol=1e-10)
        R = poses[parent, :3, :3].T @ poses[k, :3, :3]
        x, y, z = poses[parent, :3, :3].T @ (poses[k, :3, 3] - poses[parent, :3, 3])
        lever = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        assert_allclose(phi[up, at], np.block([[R, lever @ R], [np.zeros((3, 3)), R]]), atol=1e-10)
        assert not np.allclose(psi[up, at], phi[up, at], atol=1e-6)


def test_operators_of_all_kinds_have_levels():
    found = pp.explain("E_psi phi_tilde + K H", rewrite="as_written", levels=True).levels
    kinds = {str(x.operator): x.kind for x in found}
    assert kinds["K"] == "strictly causal: one step from the tips to the base"
    assert kinds["E_ψ"] == "strictly causal: one step from the tips to the base"
    assert pp.explain("B* phi* H*", levels=True).levels[0].coordinates.startswith("φ(k,C)")
    with pytest.raises(pp.errors.InputError, match="levels"):
        pp.explain("psi", levels="yes")
