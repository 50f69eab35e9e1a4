"""log det of products, inverses and triangular operators: compiled, against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from random_models import random_tree

import phipsi as pp
from phipsi.operators import parse

# expression, what the rewriter makes of its log det
KNOWN = {
    "I + H φ K": "0[one,one]",
    "I − H ψ K": "0[one,one]",
    "(I + H φ K)*": "0[one,one]",
    "φ": "0[one,one]",
    "ψ* φ*": "0[one,one]",
    "2 I + H φ K": "logdet(2 I)",
    "D + H φ K D": "logdet(D)",
    "ℳ⁻¹": "−logdet(D)",
    "(I + H φ K) D (I + H φ K)*": "logdet(D)",
    "D ℳ⁻¹ D": "logdet(D)",
}
BACKENDS = ["reference", "native"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("text", KNOWN)
def test_log_det_of_dense_matrices(text: str, seed: int):
    model = random_tree(seed, 6, n_roots=1 + seed % 2, armature=seed == 2)
    q = model.random_configuration(np.random.default_rng(seed))
    sign, want = np.linalg.slogdet(pp.evaluate_dense(text, model, q))
    assert sign > 0
    rounding = 50 * model.nv * np.finfo(float).eps * max(1, np.abs(want))
    for backend in BACKENDS:
        program = pp.compile(f"logdet({text})", model, backend=backend)
        got = program(q) if program.inputs else program()
        assert np.abs(got - want) <= rounding
    if "2 I" not in text:
        assert str(pp.simplify(f"logdet({text})")) == KNOWN[text]


@pytest.mark.parametrize(
    "text", ["I + H φ G", "I + 2 H φ M φ* H* D⁻¹", "D + H φ K D + Jr", "ℳ + D"]
)
def test_other_determinants_are_not_those(text: str):
    """Twins: with the gain on the diagonal, on both sides of it, or with something added to it."""
    model = random_tree(3, 5, armature=True)
    q = model.random_configuration(np.random.default_rng(3))
    found = str(pp.simplify(f"logdet({text})"))
    assert found not in ("0[one,one]", "logdet(D)")
    one, other = (
        np.linalg.slogdet(pp.evaluate_dense(text, model, q))[1],
        pp.evaluate_dense("logdet(D)", model, q),
    )
    assert abs(one) > 1e-6 and abs(one - other) > 1e-6


def test_steps_are_named():
    model = random_tree(1, 3)
    steps = pp.explain("logdet(D ℳ⁻¹ D)", model).rewrites
    names = [step.name for step in steps]
    assert "determinant of a product" in names
    with pytest.raises(pp.errors.SpaceError, match=r"trace\(bd\(φ\)\)"):
        parse("trace(φ)")


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("trace(φ)", "trace(bd(φ))"),
        ("trace(φ M φ* M⁻¹)", "trace(bd(φ M φ* M⁻¹))"),
        ("trace(ℳ)", "trace(W bd(ℳ))  with a memoryless weight W: joint efforts → joint rates"),
        ("trace(D)", "trace(W D)  with a memoryless weight W: joint efforts → joint rates"),
        ("diagonal(ℳ⁻¹)", "diagonal(bd(ℳ⁻¹))"),
        ("diagonal(ℳ)", "blocks on its diagonal are  bd(ℳ)"),
        ("vee(φ*)", "vee(bd(φ*))"),
    ],
)
def test_what_to_write_for_the_trace_of_an_operator_that_moves(text: str, fix: str):
    with pytest.raises(pp.errors.SpaceError) as error:
        parse(text)
    assert fix in str(error.value)
    if "W" not in fix and "on its" not in fix:
        assert parse(fix).is_vector or parse(fix).is_scalar
    assert parse("trace(D⁻¹ bd(ℳ))").is_scalar


@pytest.mark.parametrize("text", ["trace(v)", "diagonal(φ)", "vee(M)"])
def test_no_advice_where_blocks_on_the_diagonal_do_not_help(text: str):
    with pytest.raises(pp.errors.SpaceError) as error:
        parse(text)
    assert "bd(" not in str(error.value)
