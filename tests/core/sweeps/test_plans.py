"""Plans: every form computes the same, the cheapest is taken, and costs count what is there."""

from typing import Any

import numpy as np
import pytest

import phipsi as pp
from phipsi.core.backends.backend import SweepProgram, backend_of
from phipsi.core.backends.program import Program
from phipsi.core.model.points import point_set
from phipsi.core.sweeps import cheapest_plan as planning
from phipsi.core.sweeps.cheapest_plan import (
    CHOICES,
    PROCESSORS,
    STANDARD,
    CostedForm,
    LeastWork,
    Processor,
    Work,
    plans_of,
    work_of,
)
from phipsi.core.sweeps.request import Request
from phipsi.core.sweeps.schedule import reachable

EXPRESSIONS = [
    "mass_matrix",
    "mass_matrix^-1",
    "J mass_matrix^-1 J*",
    "mass_matrix^-1 (tau - H phi (b + M phi* a))",
    "phi M phi* H* + psi K H phi M phi* H*",
    "H phi M phi* H* mass_matrix^-1 tau",
]
MODELS = {
    "arm": pp.examples.planar_arm(3),
    "tree": pp.examples.random_tree(3, 6),
    "quadruped": pp.examples.quadruped(),
}


def found_plans(
    text: str, model: pp.Model, mode: str, processor: str = STANDARD
) -> tuple[Request, list[CostedForm]]:
    x = pp.parse(text)
    where = point_set(model, [model.body_names[-1]], None)
    request = Request.make(x, mode, None, False, (), "full", where)
    return request, plans_of(request, model, pairs="symmetric", processor=processor)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_all_plans_compute_the_same(name: str, text: str):
    model, x = MODELS[name], pp.parse(text)
    for mode in ("apply",) if x.is_vector else ("apply", "dense"):
        request, found = found_plans(text, model, mode)
        values = []
        for plan in found:
            source = SweepProgram(request, plan.lowered, plan.steps, model, False, None)
            program = Program(source, plan.rewriting, backend_of("reference"))
            rng = np.random.default_rng(0)
            given = {
                name: model.random_configuration(rng) if name == "q" else rng.normal(size=shape)
                for name, shape in program.input_shapes.items()
            }
            values.append(program(*(given[name] for name in program.inputs)))
        for value in values[1:]:
            np.testing.assert_allclose(
                value, values[0], rtol=0, atol=1e-9 * np.abs(values[0]).max()
            )


def test_the_cheapest_is_taken_and_the_others_are_listed():
    model = MODELS["quadruped"]
    for text in EXPRESSIONS:
        _, found = found_plans(text, model, "apply")
        assert len({plan.name for plan in found}) == len(found)
        assert {plan.name for plan in found} <= {choice.name for choice in CHOICES}
        least = min(plan.nanoseconds for plan in found)
        assert found[0].nanoseconds <= least / 0.97
        rest = [plan.nanoseconds for plan in found[1:]]
        assert rest == sorted(rest)


def test_another_processor_may_choose_otherwise(monkeypatch: pytest.MonkeyPatch):
    model = MODELS["quadruped"]
    usual = found_plans("mass_matrix", model, "dense")[1][0].name
    assert usual == "rewritten"
    odd = Processor(1, 0, 1e6, 1e6, 0, 0)  # paths are dear, columns cost nothing
    monkeypatch.setitem(PROCESSORS, "odd", odd)
    other = found_plans("mass_matrix", model, "dense", "odd")[1][0].name
    assert other != usual


def test_long_chains_take_another_plan_than_short_ones():
    names = [
        found_plans("mass_matrix^-1", pp.examples.planar_arm(n), "dense")[1][0].name
        for n in (4, 200)
    ]
    assert names[0] != names[1]


def test_the_choice_does_not_depend_on_the_batch_and_keeps_bits():
    model = MODELS["arm"]
    q = model.random_configuration(0, 40)
    whole = pp.mass_matrix_inverse(model, q)
    for i in (0, 7, 39):
        np.testing.assert_array_equal(pp.mass_matrix_inverse(model, q[i]), whole[i])


SEVERAL = ("mass_matrix^-1", "as_matrix(mass_matrix^-1) as_matrix(mass_matrix)", "mass_matrix")


def test_what_is_given_up_costs_more(monkeypatch: pytest.MonkeyPatch):
    model = MODELS["quadruped"]
    request = Request.make(SEVERAL, "dense", None, False, (), "full", point_set(model, (), None))
    few = plans_of(request, model, pairs="symmetric", processor=STANDARD)
    monkeypatch.setattr(LeastWork, "add", lambda self, fields: Work())
    every = plans_of(request, model, pairs="symmetric", processor=STANDARD)
    names = {plan.name for plan in few}
    assert names < {plan.name for plan in every}
    assert [p.cost for p in few] == [p.cost for p in every if p.name in names]
    assert all(p.nanoseconds > few[0].nanoseconds for p in every if p.name not in names)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_the_least_work_is_less_than_that_of_the_schedule(text: str):
    for model in MODELS.values():
        for mode in ("apply",) if pp.parse(text).is_vector else ("apply", "dense"):
            for plan in found_plans(text, model, mode)[1]:
                fields = plan.lowered.fields
                least = LeastWork(model).add(fields)
                by_parts = LeastWork(model)
                for x in sorted(reachable(fields), key=lambda x: x.number):
                    by_parts.add([x])
                assert by_parts.add(fields) == least
                assert least.flops == plan.work.flops and least.visits > 0
                assert all(a <= b for a, b in zip(least, plan.work, strict=True))


def test_gram_products_in_both_ways_to_rewrite():
    model = MODELS["quadruped"]
    for rewrite in ("full", "as_written"):
        program = pp.compile("mass_matrix^-1", model, mode="dense", rewrite=rewrite)
        assert "summed along common paths" not in program.plans[0].name  # the reference: all pairs
        native = pp.compile(
            "mass_matrix^-1", model, mode="dense", rewrite=rewrite, backend="native"
        )
        assert native.plans[0].name.endswith(", summed along common paths")
        q = model.random_configuration(1)
        np.testing.assert_allclose(native(q), program(q), rtol=1e-9, atol=1e-9)
    plain = pp.compile("mass_matrix", model, mode="dense", backend="native")
    assert not any("summed" in plan.name for plan in plain.plans)  # nothing to sum


def test_reproducible_programs_take_the_standard_plan(monkeypatch: pytest.MonkeyPatch):
    model = pp.examples.planar_arm(5)
    monkeypatch.setitem(PROCESSORS, "odd", Processor(1, 0, 1e6, 1e6, 0, 0))
    monkeypatch.setattr(type(backend_of("reference")), "processor", "odd")
    usual = pp.compile("mass_matrix", model, mode="dense", backend="reference")
    same = pp.compile("mass_matrix", model, mode="dense", backend="reference", reproducible=True)
    assert usual.plans[0].name != same.plans[0].name == "rewritten"


def test_work_is_counted_by_hand():
    # φ* H* v on a chain: one loop, per body one product with H* (6 × 1) and one shift and sum
    x, n = pp.parse("phi* H* v"), 5
    program = pp.compile(x, pp.examples.planar_arm(n), backend="reference")
    work = work_of(program.steps, program.model)
    assert work.flops == work.sweeps == pp.explain(x, program.model).flops
    assert work.visits == n and work.paths == work.meetings == work.columns == 0
    assert work.words == 6 * n  # the result is all that is kept


def test_costs_are_linear_in_the_work():
    one, two = Work(1, 2, 3, 4, 5, 6), Work(2, 4, 6, 8, 10, 12)
    for processor in PROCESSORS.values():
        assert processor.nanoseconds(two) == pytest.approx(2 * processor.nanoseconds(one))


def test_explain_lists_the_plans():
    text = str(pp.explain("J mass_matrix^-1 J*", MODELS["tree"], plan=True, mode="dense"))
    assert "plans (time of one configuration" in text and "  > rewritten" in text
    assert "as written" in text
    assert "plans" not in str(pp.explain("J mass_matrix^-1 J*", MODELS["tree"], mode="dense"))
    with pytest.raises(pp.errors.InputError, match="plans are compared on a model"):
        pp.explain("mass_matrix", plan=True)


def test_notebooks_show_it_typeset():
    tree = MODELS["tree"]
    shown = pp.explain("mass_matrix^-1 tau", tree, plan=True)._repr_markdown_()
    assert shown.startswith("$$") and "| plan | ns |" in shown and "innovations" in shown
    proof = pp.prove("psi K H phi = phi + psi")
    text = proof._repr_markdown_()
    assert "**fails**" in text and "```python" in text and r"\phi" in text
    assert pp.Identity("H G", "I", "Jr = 0")._repr_markdown_().endswith("if Jr = 0")


# ---- models share steps --------------------------------------------------------------------------


def steps_of(text: str, model: pp.Model, points: list[str] | None = None, **options: Any):
    return pp.compile(pp.parse(text), model, points=points, backend="reference", **options).steps


def test_models_share_the_steps_of_an_expression():
    arm, tree = pp.examples.planar_arm(3), pp.examples.random_tree(4, 5)
    assert steps_of("H phi M phi* H*", arm) is steps_of("H phi M phi* H*", tree)
    assert steps_of("H phi M phi* H*", arm) is not steps_of("H phi M phi* H*", arm, mode="dense")


def test_what_a_model_changes_is_not_shared():
    arm = pp.examples.seven_joint_arm()
    points = [arm.body_names[-1], arm.body_names[3]]
    # one point has six rows, less than columns: the matrix is that of the adjoint
    few, many = (steps_of("J", arm, points[:n], mode="dense") for n in (1, 2))
    assert few is not many
    # names of joints are numbers in the steps
    named = [steps_of("phi* H* unit_rate[joint3]", pp.examples.planar_arm(n)) for n in (3, 4)]
    assert named[0] is not named[1]
    without, with_rotors = (
        steps_of("mass_matrix^-1", pp.examples.seven_joint_arm(armature=x)) for x in (0.0, 0.1)
    )
    assert without is not with_rotors


def test_at_most_so_many_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(planning, "_MOST_KNOWN", 3)
    model = pp.examples.planar_arm(3)
    for i in range(5):
        pp.compile(pp.parse(f"{i + 2} phi M phi* H* v"), model, backend="reference")
    assert len(planning._KNOWN) == 3
