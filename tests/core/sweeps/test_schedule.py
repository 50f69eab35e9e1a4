"""Scheduling: every equation once, after all it needs, in as few sweeps as possible."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import numpy as np
import pytest
from program_text import directions
from random_expressions import Generator
from random_models import branching

import phipsi as pp
from phipsi.core.backends.program import Program
from phipsi.core.sweeps.equation_builder import EquationBuilder
from phipsi.core.sweeps.ir import Domain, FieldType, StepKind
from phipsi.core.sweeps.schedule import schedule
from phipsi.core.sweeps.verify import LEGAL, check
from phipsi.errors import LoweringError
from phipsi.operators import H, M, P, V, a, b, gravity, mass_matrix, parse, phi, psi, tau, v, vdot

scheduling = import_module("phipsi.core.sweeps.schedule")  # the door has a function

MODEL = branching(5, 2, armature=True)
POINTS = ["b2", "b4", "world"]
compiled = partial(pp.compile, backend="reference")
BODY = FieldType(Domain.BODY, "6", "1")
DIRECTED = (StepKind.TIP_TO_BASE, StepKind.BASE_TO_TIP)


assert_legal = partial(check, LEGAL, "schedule")


def random_program(seed: int) -> Program:
    rng = np.random.default_rng(seed)
    x = Generator(rng, points=seed % 2 == 0, independent=False).expression()
    rewrite = ("full", "as_written")[seed % 3 == 0]
    mode = ("apply", "dense")[seed % 5 == 0]
    return compiled(x, MODEL, points=POINTS, rewrite=rewrite, mode=mode)


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_random_programs_are_legal(first: int):
    for seed in range(first, first + 25):
        program = random_program(seed)
        assert_legal(program.steps, program.lowered.fields)


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_buffers_are_kept_as_long_as_they_are_read(first: int):
    for seed in range(first, first + 50):
        program = random_program(seed)
        check(LEGAL, "plan buffers", program.steps, program.lowered.fields)


def test_the_cheaper_of_the_two_beginnings_is_taken():
    """As if both were written to their ends; the second one is cut short where it cannot win."""
    begun: set[StepKind] = set()
    for seed in range(40):
        outputs = random_program(seed).lowered.fields
        fields = scheduling.reachable(outputs)
        both = [scheduling._greedy(scheduling._Left(fields), kind) or [] for kind in DIRECTED[::-1]]
        first, second = map(scheduling._cost, both)
        if first != second:
            begun.add(DIRECTED[::-1][second < first])
        best = both[second < first]
        kept = scheduling._sink_leaves(best)
        found = schedule(outputs)
        assert [(s.kind, set(s.fields)) for s in found] == [(s.kind, set(s.fields)) for s in kept]
    assert begun == set(DIRECTED)  # each of them is the better one somewhere


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_sweeps_alternate(first: int):
    """Two sweeps of one direction in a row, with nothing over points between, would be one."""
    for seed in range(first, first + 50):
        steps = random_program(seed).steps
        for one, two in zip(steps, steps[1:], strict=False):
            assert one.kind is not two.kind or one.kind not in DIRECTED


@pytest.mark.parametrize(
    "text, sweeps",
    [
        ("φ* H* v", "D"),
        ("H φ f_ext", "U"),
        ("E_φ f_ext", "U"),
        ("H f_ext", ""),
        ("M H* v", ""),
        ("φ φ f_ext", "U"),
        ("φ ψ φ̃ f_ext", "U"),
        ("φ M φ* H* v", "DU"),
        ("φ* M⁻¹ φ f_ext", "UD"),
        ("φ M φ* H* v + φ f_ext", "DU"),
        ("H φ M φ* H* v + H φ M φ* H* vdot", "DU"),
        ("φ* ψ* H* ℳ⁻¹ τ", "UD"),
        ("ℳ ℳ⁻¹ ℳ v̇", "DU"),
        ("D⁻¹ ℳ v̇", "DU"),
        ("ℳ D⁻¹ ℳ v̇", "DUDU"),
        ("H φ b", "DU"),
        ("v* τ", ""),
        ("v* ℳ v", "DU"),
        ("Ω f_ext", "UD"),
        ("Υ f_ext", "UD"),
        ("R H* v", "U"),
        ("φ R H* v", "U"),
        ("ψ P H* v", "U"),
        ("φ* Υ f_ext", "UD"),
        ("φ bd(φ M φ*) H* v", "U"),
    ],
)
def test_fewest_sweeps(text: str, sweeps: str):
    program = compiled(parse(text), MODEL)
    assert directions(program) == sweeps, program.explain()


def test_shared_sweeps_of_several_results():
    bias = H @ phi @ (M @ phi.T @ (a + gravity) + b)
    together = compiled((bias, mass_matrix.inv @ (tau - bias), V, P), MODEL, mode="blocks")
    assert directions(together) == "DUD"
    assert_legal(together.steps, together.lowered.fields)


def test_equal_parts_are_computed_once():
    x = phi.T @ H.T @ v
    program = compiled((x, M @ x, H @ phi @ M @ x, x), MODEL)
    recursions = [f for s in program.steps for f in s.fields if f.op == "rec"]
    assert len(recursions) == 2


def test_what_is_not_needed_is_not_computed():
    """The rewritten product no longer needs the Riccati family."""
    program = compiled(psi.inv @ psi @ phi.T.inv.T @ M @ H.T, MODEL)
    labels = {f.label for s in program.steps for f in s.fields}
    assert "P" not in labels and "D" not in labels


def test_armature_is_not_computed_where_there_is_none():
    steps = compiled(mass_matrix @ vdot, branching(3, 1)).steps
    assert all(f.op != "Jr" for s in steps for f in s.fields)


# ---- equations made by hand ----------------------------------------------------------------------


def test_a_chain_of_equations_longer_than_the_recursion_limit():
    b_ = EquationBuilder()
    x = b_.leaf("input", BODY, "f_ext")
    for _ in range(3000):
        x = b_.up(x)
        x = b_.add([(2, x), (1, b_.leaf("input", BODY, "f_ext"))])
    steps = schedule([x])
    assert_legal(steps, [x])
    assert [s.kind for s in steps] == [StepKind.TIP_TO_BASE]


def test_equations_in_both_directions_at_once_are_refused():
    b_ = EquationBuilder()
    z = b_.fixpoint(BODY, lambda z: b_.add([(1, b_.up(z)), (1, b_.down(z))]))
    with pytest.raises(LoweringError, match="both directions"):
        schedule([z])


def test_an_equation_that_needs_itself_at_the_same_body_is_refused():
    b_ = EquationBuilder()
    u = b_.leaf("input", BODY, "f_ext")
    z = b_.fixpoint(BODY, lambda z: b_.add([(1, b_.up(z)), (0.5, z), (1, u)]))
    with pytest.raises(LoweringError, match="depends on itself"):
        schedule([z])


@pytest.mark.parametrize("seed", range(20))
def test_random_equations_are_legal(seed: int):
    """Fields drawn at random from sums, products, shifts and recursions."""
    rng = np.random.default_rng(seed)
    b_ = EquationBuilder()
    fields = [b_.leaf("input", BODY, "f_ext"), b_.leaf("input", BODY, "V")]
    for _ in range(30):
        x, y = (fields[int(rng.integers(len(fields)))] for _ in range(2))
        kind = rng.integers(5)
        if kind == 0:
            fields.append(b_.up(x))
        elif kind == 1:
            fields.append(b_.down(x))
        elif kind == 2:
            fields.append(b_.add([(1, x), (2, y)]))
        else:
            shift = b_.up if kind == 3 else b_.down
            fields.append(b_.fixpoint(BODY, lambda z, x=x, s=shift: b_.add([(1, x), (1, s(z))])))
    outputs = fields[-3:]
    assert_legal(schedule(outputs), outputs)


def test_recursions_with_equal_equations_are_one_field():
    b_ = EquationBuilder()
    x, y = b_.leaf("input", BODY, "f_ext"), b_.leaf("input", BODY, "V")

    def summed(u, shift):
        return b_.fixpoint(BODY, lambda z: b_.add([(1, u), (1, shift(z))]))

    assert summed(x, b_.up) is summed(x, b_.up)
    assert summed(x, b_.up) is not summed(y, b_.up)
    assert summed(x, b_.up) is not summed(x, b_.down)
    inner = summed(x, b_.up)
    assert summed(inner, b_.down) is summed(summed(x, b_.up), b_.down)
    twice = b_.fixpoint(BODY, lambda z: b_.add([(1, x), (2, b_.up(z))]))
    assert twice is not summed(x, b_.up)


def test_long_products_of_recursions_take_no_time():
    """Every recursion is compared with all before it, but not through and through."""
    b_ = EquationBuilder()
    x = b_.leaf("input", BODY, "f_ext")
    seen = set()
    for _ in range(400):
        x = b_.fixpoint(BODY, lambda z, x=x: b_.add([(1, x), (1, b_.up(z))]))
        seen.add(x)
    assert len(seen) == 400
