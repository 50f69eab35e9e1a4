"""Rows of contacts as loops: against dense matrices, in machine code, and their derivatives."""

import numpy as np
import pytest
from compiled_graphs import compiled
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.contact.contact_rows import RowPlan, contact_axes, row_impulses
from phipsi.contact.geometry.pair_formulas import Slots
from phipsi.contact.geometry.placed_shapes import INACTIVE
from phipsi.contact.slot_rows import row_blocks, slot_impulses, world_impulses
from phipsi.contact.solver.delassus import Delassus, masks_of
from phipsi.contact.solver.row_products import RowForces, RowRates, host_motions
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_derivatives import adjoints
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.primitive_calls import call
from phipsi.core.arrays.trace import Tracer, as_node
from phipsi.laws.block_diagram import JointRows

BATCH = 4


@pytest.fixture(scope="module")
def plan():
    """Boxes on each other and on the ground, a ball that rolls, an arm with stops: all kinds."""
    builder = pp.ModelBuilder()
    solid = pp.SpatialInertia.box((0.2, 0.2, 0.2), mass=1.0)
    for name, rolling in (("low", 0.0), ("high", 0.0), ("ball", 0.01)):
        material = pp.Material(0.5, rolling_friction=rolling, torsional_friction=rolling)
        shape = pp.shapes.Sphere(0.1) if rolling else pp.shapes.Box((0.2, 0.2, 0.2))
        builder.add_body(name, joint=pp.joints.Free(), inertia=solid)
        builder.add_shape(name, name, shape, material=material)
    builder.add_body("arm", parent="low", joint=pp.joints.Revolute((0, 0, 1)), inertia=solid)
    model = builder.build()
    pairs = [("low", "ground"), ("low", "high"), ("ball", "ground"), ("ball", "high")]
    same = pp.Contacts(model, ground=True, pairs=pairs, combine="maximum")
    rate = model.v_slice("arm").start
    return RowPlan(model, same, JointRows(stops=((rate, 1), (rate, -1)), rubs=(rate,)))


@pytest.fixture(scope="module")
def given(plan):
    """Random numbers for all that rows are made of; one slot is without a contact."""
    rng = np.random.default_rng(2)
    n, k, m = plan.layout.n_rows, plan.n_slots, plan.n_hosts
    normal = rng.standard_normal((BATCH, k, 3))
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    gap = rng.uniform(-0.01, 0.01, (BATCH, k))
    gap[:, 2] = INACTIVE
    root = rng.standard_normal((BATCH, 6 * m, 6 * m))
    admittance = root @ np.swapaxes(root, -1, -2)
    apart = np.kron(plan.related, np.ones((6, 6)))
    x_a, x_b = rng.standard_normal((2, BATCH, k, 3))
    return {
        "gap": gap, "normal": normal, "x_a": x_a, "x_b": x_b,
        "origins": rng.standard_normal((BATCH, m, 3)), "V": rng.standard_normal((BATCH, m, 6)),
        "p": rng.standard_normal((BATCH, n)), "world": rng.standard_normal((BATCH, k, 6)),
        "Lambda": admittance * apart, "s": np.zeros((BATCH, plan.layout.n_heads)),
        "soft": rng.uniform(0, 1, (BATCH, plan.layout.n_heads)),
    }  # fmt: skip


@pytest.fixture(scope="module")
def graph(plan, given):
    """C_a, C_b, C V, its normals, C* p, W, impulses in rows and in world axes."""
    nodes = {name: ops.input(name, x.shape[1:]) for name, x in given.items()}
    slots = Slots(*(Tracer(nodes[x]) for x in ("gap", "normal", "x_a", "x_b")))
    blocks = [as_node(x) for x in row_blocks(plan, Tracer(nodes["origins"]), slots)]
    found = [
        *blocks,
        *call(RowRates(plan), *blocks, nodes["V"]),
        *call(RowRates(plan, normals=True), *blocks, nodes["V"]),
        *call(RowForces(plan), *blocks, nodes["p"]),
        *call(Delassus(plan), *blocks, *(nodes[x] for x in ("Lambda", "s", "soft"))),
        as_node(slot_impulses(plan, slots, Tracer(nodes["world"]))),
        world_impulses(plan, slots, Tracer(nodes["p"])),
        as_node(host_motions(plan, nodes["Lambda"], nodes["V"])),
    ]
    return found, nodes


def dense(plan, given, i):
    """C (n, 6m) of one configuration, row by row."""
    m, table = plan.n_hosts, plan.table
    C = np.zeros((plan.layout.n_rows, m, 6))
    axes = contact_axes(given["normal"][i])
    for r, (slot, axis, slides) in enumerate(zip(*table, strict=True)):
        if given["gap"][i, slot] >= INACTIVE:
            continue
        for host, x, sign in zip(plan.sides[slot], ("x_a", "x_b"), (1, -1), strict=True):
            t = axes[slot, axis]
            if host >= 0:
                turn = np.cross(given[x][i, slot] - given["origins"][i, host], t)
                C[r, host] += sign * (np.r_[turn, t] if slides else np.r_[t, np.zeros(3)])
    first = len(table.slot)
    C[first:, plan.a[first:], :] = 0.0
    for r, block in enumerate(plan.joint_blocks):
        C[first + r, plan.a[first + r]] = block
    return C.reshape(len(C), -1)


def test_loops_are_the_products_with_dense_rows(plan, given, graph):
    nodes, _ = graph
    a, b, rates, normals, forces, W, rows, world, moves = evaluate(nodes, given)
    for i in range(BATCH):
        C, layout = dense(plan, given, i), plan.layout
        assert_allclose(rates[i], C @ given["V"][i].ravel(), atol=1e-13)
        assert_allclose(normals[i], rates[i][layout.normals], atol=0)
        assert_allclose(forces[i].ravel(), given["p"][i] @ C, atol=1e-13)
        expected = C @ given["Lambda"][i] @ C.T
        expected[layout.normals, layout.normals] += given["soft"][i]
        assert_allclose(W[i], expected, atol=1e-11)
        there = np.flatnonzero(given["gap"][i, plan.table.slot] < INACTIVE)
        slots = Slots(*(given[x][i] for x in ("gap", "normal", "x_a", "x_b")))
        assert_allclose(
            rows[i][there], row_impulses(plan, slots.normal, given["world"][i])[there], atol=1e-13
        )
        # the work of impulses: rows and world axes agree
        near = given["gap"][i] < INACTIVE
        mine = row_impulses(plan, slots.normal, world[i])
        assert_allclose(mine[there], given["p"][i][there], atol=1e-13)
        assert not world[i][~near].any()
        assert_allclose(moves[i].ravel(), given["Lambda"][i] @ given["V"][i].ravel(), atol=1e-12)


def test_machine_code_is_the_same(plan, given, graph):
    nodes, _ = graph
    expected = evaluate(nodes, given)
    found = compiled(nodes, lanes=BATCH, fused=False)(given)
    there = given["gap"][0, plan.table.slot] < INACTIVE
    meets = np.ones(plan.layout.n_rows, bool)
    meets[: len(there)] = there
    both = np.outer(meets, meets) & (masks(plan)[:, None] & masks(plan) != 0)
    for x, y in zip(found, expected, strict=True):
        if y.shape[1:] == both.shape:  # other entries of W are not written
            x, y = x[:, both], y[:, both]
        assert_allclose(x, y, atol=1e-11)


def masks(plan):
    """Rows with a bit in common move hosts in common."""
    return np.array(masks_of(plan.reached))[plan.layout.heads]


def test_adjoints_are_those_of_differences(plan, given, graph):
    """Weights of normals, points and motions, along random directions; a wrong sign is seen."""
    nodes, inputs = graph
    rng = np.random.default_rng(5)
    results = [x for i, x in enumerate(nodes) if i != 5]
    weights = [ops.constant(rng.standard_normal(x.shape)) for x in results]
    names = ["normal", "x_a", "x_b", "origins", "V", "p", "world", "Lambda"]
    slopes = adjoints(results, weights, [inputs[x] for x in names])
    values = evaluate([x for x in slopes if x is not None], given)

    def total(here):
        found = zip(weights, evaluate(results, here), strict=True)
        return sum(np.sum(w.data * x, axis=tuple(range(1, x.ndim))) for w, x in found)

    for name, slope in zip(names, values, strict=True):
        d = rng.standard_normal(given[name].shape)
        h = 1e-3
        ends = [total({**given, name: given[name] + t * d}) for t in (h, -h, 2 * h, -2 * h)]
        expected = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * h)  # of order 4
        found = np.sum(slope * d, axis=tuple(range(1, d.ndim)))
        assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
        assert not np.allclose(found * (1 + 1e-6), expected, rtol=1e-8, atol=1e-8)  # the twin
