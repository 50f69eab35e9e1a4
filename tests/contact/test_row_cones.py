"""W that is computed where the solver wants it: the bits of W of all rows, gathered."""

import numpy as np
import pytest
from compiled_graphs import compiled
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.contact.contact_rows import RowPlan
from phipsi.contact.solver.contact_problem import INACTIVE
from phipsi.contact.solver.contact_solver_calls import ContactSolve
from phipsi.contact.solver.delassus import Delassus, RowContactSolver, fits, masks_of
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_derivatives import adjoints
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.primitive_calls import call
from phipsi.laws.block_diagram import JointRows

BATCH = 4


def plan_of(kind: str, *, stops: bool = False) -> RowPlan:
    """Three bodies on the ground and two of them on each other; contacts of one kind, or several.

    Those of the last body meet no others, and are between them: W has zeros beside its diagonal.
    """
    builder = pp.ModelBuilder()
    solid = pp.SpatialInertia.box((0.2, 0.2, 0.2), mass=1.0)
    for name in ("low", "high", "apart"):
        rolling = 0.01 if kind == "rolling" and name == "apart" else 0.0
        material = pp.Material(0.5, rolling_friction=rolling, torsional_friction=rolling)
        builder.add_body(name, joint=pp.joints.Free(), inertia=solid)
        shape = pp.shapes.Capsule(0.1, 0.2)
        builder.add_shape(name, name, shape, material=material)
    builder.add_body("arm", parent="low", joint=pp.joints.Revolute((0, 0, 1)), inertia=solid)
    model = builder.build()
    pairs = [("low", "ground"), ("apart", "ground"), ("low", "high"), ("high", "ground")]
    contacts = pp.Contacts(model, ground=True, pairs=pairs, combine="maximum")
    rate = model.v_slice("arm").start
    return RowPlan(model, contacts, JointRows(stops=((rate, 1),)) if stops else JointRows())


def numbers(plan: RowPlan) -> dict[str, np.ndarray]:
    """Random rows and a random Λ; contacts that are not there, in some lanes or in all."""
    rng = np.random.default_rng(2)
    n, k, m = plan.layout.n_rows, plan.layout.n_heads, plan.n_hosts
    root = rng.standard_normal((BATCH, 6 * m, 6 * m))
    s = np.zeros((BATCH, k))
    s[:, 1] = s[0, 2] = s[2, 0] = INACTIVE
    return {
        "a": rng.standard_normal((BATCH, n, 6)), "b": rng.standard_normal((BATCH, n, 6)),
        "Lambda": root @ np.swapaxes(root, -1, -2) * np.kron(plan.related, np.ones((6, 6))),
        "s": s, "soft": rng.uniform(0, 1, (BATCH, k)), "free": rng.standard_normal((BATCH, n)),
        "mu": np.full((BATCH, n), 0.5), "start": np.zeros((BATCH, n)),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["points", "rolling"])
def test_bits_of_the_gathered_matrix(kind):
    plan = plan_of(kind)
    cone = ContactSolve(plan.layout, masks=masks_of(plan.reached))
    assert fits(cone)
    assert (len(set(plan.layout.contacts)) == 1) == (kind == "points")
    given = numbers(plan)
    nodes = {name: ops.input(name, x.shape[1:]) for name, x in given.items()}
    factors = [nodes[x] for x in ("a", "b", "Lambda", "s", "soft")]
    rest = [nodes[x] for x in ("free", "s", "mu", "start")]
    (W,) = call(Delassus(plan), *factors)
    both = [call(cone, W, *rest), call(RowContactSolver(plan, cone), *factors, *rest)]
    for fused in (False, True):
        found = compiled([*both[0], *both[1]], lanes=BATCH, fused=fused)(given)
        for x, y in zip(found[:4], found[4:], strict=True):
            assert_array_equal(x, y)
        assert not found[3].any()  # solved
        assert np.abs(found[0]).max() > 0.01
    expected = evaluate(list(both[1]), given)
    assert_allclose(found[0], expected[0], atol=1e-9 * np.abs(expected[0]).max())
    wrong = compiled(list(both[1]), lanes=BATCH, fused=True)({**given, "soft": 2 * given["soft"]})
    assert np.abs(wrong[0] - found[0]).max() > 1e-5
    weight = ops.constant(np.random.default_rng(3).standard_normal(plan.layout.n_rows))
    one, other = (adjoints([x[0]], [weight], list(nodes.values())) for x in both)
    assert [x is None for x in one] == [x is None for x in other]
    slopes = [evaluate([x for x in some if x is not None], given) for some in (one, other)]
    for x, y in zip(*slopes, strict=True):
        assert_allclose(x, y, rtol=1e-12, atol=1e-12 * np.abs(x).max())


def test_joints_and_rebounds_take_the_other_way():
    layout = plan_of("points", stops=True).layout
    assert not fits(ContactSolve(layout))
    assert not fits(ContactSolve(plan_of("points").layout, rebounds=True))
