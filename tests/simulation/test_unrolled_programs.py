"""Programs as code without loops: their nodes against dense matrices, and what is folded."""

import known_systems
import numpy as np
import pytest
import random_models
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.core.arrays.graph import in_order
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.scalar_nodes import ScalarGraph, ScalarNode, Undecided, fused, listing
from phipsi.core.model.joint import AdditiveJoint
from phipsi.core.model.scalar_linalg import from_columns, rotation_about
from phipsi.core.spatial.exponential_coefficients import sinc
from phipsi.operators import pose
from phipsi.simulation.kinematic_loops import closure_terms, unrolled_programs
from phipsi.simulation.kinematic_loops.unrolled_elimination import Elimination
from phipsi.simulation.kinematic_loops.unrolled_programs import unrolled_results


def values(entries, **inputs):
    """Entries as numbers, by the operations of the law graph."""
    known = {f"{n} {i}": y for n, x in inputs.items() for i, y in enumerate(np.ravel(x))}
    flat = entries.ravel()
    nodes = [x for x in flat if isinstance(x, ScalarNode)]
    found = iter(evaluate(nodes, known))
    each = [next(found) if isinstance(x, ScalarNode) else x for x in flat]
    return np.array(each, dtype=float).reshape(entries.shape)


def everything(entries):
    """All nodes, also those that are part of another instruction."""
    return in_order(x for x in entries.ravel() if isinstance(x, ScalarNode))


def four_bar():
    return known_systems.four_bar()


def spatial():
    """Axes in all directions, and joints of several degrees of freedom."""
    b = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0.1, 0.2, 0.3), (0.1, 0.2, 0.25))
    turn = pp.Pose.from_rpy((0.3, 0.2, 0.5), (0.1, 0.4, 0.2))
    b.add_body("a", joint=pp.joints.Revolute((1, 2, 2)), placement=turn, inertia=inertia)
    b.add_body("b", parent="a", joint=pp.joints.Cylindrical((0, 1, 1)), placement=turn,
               inertia=inertia)  # fmt: skip
    b.add_body("c", parent="b", joint=pp.joints.Prismatic((1, 0, 1)), inertia=inertia, armature=0.2)
    ends = {"a": ("c", (0.2, 0.1, 0)), "b": ("world", (0.5, 0, 0.3))}
    rod = pp.constraints.Distance(0.4, name="rod", **ends)
    pin = pp.constraints.PointOnLine((0, 1, 0), name="pin", a=("b", (0.3, 0, 0)), b="world")
    return pp.System(b.build(), [rod, pin])


def turning():
    """Quaternions, of a free body and of a ball joint."""
    return known_systems.governor(False)[0]


SYSTEMS = {
    "four-bar": four_bar, "governor": turning, "gears": known_systems.twin_gears,
    "spatial": spatial, "Bricard": known_systems.bricard,
}  # fmt: skip


def gap(system):
    """How far the terms are from other ways to their numbers."""
    found = closure_terms.choose_closure_solver(system)
    assert isinstance(found, closure_terms.Unrolled)
    rng, model = np.random.default_rng(3), system.model
    q = model.random_configuration(rng)
    at = {"q": q, "v": rng.standard_normal(model.nv), "tau": rng.standard_normal(model.nv)}
    bias = pp.inverse_dynamics(model, q, at["v"], np.zeros(model.nv))
    pairs = [
        (found.load, bias - at["tau"]),
        (found.mass, pp.mass_matrix(model, q)),
        (found.motion, system.jacobian(q)),
        (found.drift, system.rows.bias(q, at["v"])),
        (found.residual, system.residual(q)),
    ]
    return max(np.abs(values(x, **at) - y).max() for x, y in pairs)


@pytest.mark.parametrize("name", SYSTEMS)
def test_terms_are_those_of_the_system(name):
    assert gap(SYSTEMS[name]()) < 1e-12


def test_every_joint_is_unrolled():
    joints = random_models.ALL
    model = random_models.model_from_parents([-1] * len(joints), 2, joints, armature=True)
    at = {"b": ("world", (0.1, 0.7, 0.2))}
    rods = [
        pp.constraints.Distance(0.7, name=f"rod{i}", a=(name, (0.1, 0.2, 0.3)), **at)
        for i, name in enumerate(model.body_names)
    ]
    assert gap(pp.System(model, rods)) < 1e-12


class Cam(AdditiveJoint):
    """Rotation by θ about z, with a lift along z; the formulas are those of a user."""

    __slots__ = ()
    kind = "cam"
    nq = nv = 1
    coordinate_names = ("theta",)

    def __init__(self, saturates=False):
        self._set(_arguments={"saturates": saturates}, params=())

    def transform(self, params, q, ops):
        lift = q[0] * q[0] * q[0]
        if self._arguments["saturates"]:
            lift = lift * sinc(q[0] * q[0], ops)
        return rotation_about((0, 0, 1), q[0], ops), [0, 0, lift]

    def hinge_axes(self, params, q, ops):
        return from_columns([(0, 0, 1, 0, 0, -q[0])])

    def hinge_axes_rate(self, params, q, v, ops):
        return from_columns([(0, 0, 0, 0, 0, -v[0])])


def test_joints_of_users():
    """One that takes a series for small values, a choice, is not unrolled."""
    rod = pp.constraints.Distance(0.7, name="rod", a=("b1", (0.1, 0.2, 0.3)), b="world")
    joints = (["revolute", Cam(saturates)] for saturates in (False, True))
    models = (random_models.model_from_parents([-1, 0], 2, x) for x in joints)
    systems = [pp.System(model, [rod]) for model in models]
    assert gap(systems[0]) < 1e-12
    assert isinstance(closure_terms.choose_closure_solver(systems[1]), Elimination)


@pytest.mark.parametrize("choice", [abs, float, lambda x: x > 0])
def test_what_depends_on_the_value_of_a_term_is_rejected(choice):
    (x,) = ScalarGraph().inputs("x", (1,))
    with pytest.raises(Undecided):
        choice(x)


WRONG = {"__sub__": lambda x, y: x + y, "__neg__": lambda x: x, "__rsub__": lambda x, y: x + y}


@pytest.mark.parametrize("broken", WRONG)
def test_a_wrong_operation_is_noticed(broken, monkeypatch):
    monkeypatch.setattr(ScalarNode, broken, WRONG[broken])
    assert gap(four_bar()) > 1e-6


def test_what_leaves_the_plane_is_not_there():
    found = closure_terms.choose_closure_solver(four_bar())
    assert isinstance(found, closure_terms.Unrolled)
    out_of_plane = [0, 1, 4]
    for entries in (found.motion, found.drift, found.residual):
        assert (entries[out_of_plane] == 0).all()
    assert len(fused(found.entries)) < 250
    names = [x.name for x in everything(np.array(found.entries, dtype=object))]
    assert names.count("sin") == names.count("cos") == 3


def test_where_a_body_is_costs_no_rotation_back():
    # the block of a pose holds l~ R, of which l would be three products an entry
    program = pp.compile(pose, pp.examples.planar_arm(2), backend="reference").source
    (poses,) = unrolled_results(ScalarGraph(), program)
    assert {x.name for x in everything(poses[1, :3, 3])} == {"input", "sin", "cos"}
    assert_allclose(values(poses, q=[0.3, 0.4])[1, :2, 3], (np.cos(0.3), np.sin(0.3)))


def test_given_inertias_are_inputs():
    system = four_bar()
    found = closure_terms.choose_closure_solver(system, ("M", "Jr"))
    assert isinstance(found, closure_terms.Unrolled)
    rng = np.random.default_rng(0)
    q, model = system.model.random_configuration(rng), system.model
    half = rng.standard_normal((3, 6, 6))
    M, rotors = half @ half.swapaxes(1, 2), rng.random((3, 1, 1))
    program = pp.compile(pp.operators.mass_matrix, model, mode="dense", inputs=("M", "Jr"))
    known = {"q": q, "M": M, "Jr": rotors}
    wanted = program(*(known[x] for x in program.inputs))
    np.testing.assert_allclose(values(found.mass, **known), wanted, rtol=1e-12)


@pytest.mark.parametrize("limit", ["MOST_BODIES", "MOST_TERMS"])
def test_large_systems_are_not_unrolled(limit, monkeypatch):
    monkeypatch.setattr(closure_terms, limit, 2)
    assert not isinstance(closure_terms.choose_closure_solver(four_bar()), closure_terms.Unrolled)


def test_signs_and_known_numbers_are_folded():
    x, y = ScalarGraph().inputs("x", (2,))
    assert x * 0 == 0
    assert x - x == 0
    assert x * 1 is x
    assert 0 + x is x
    assert -(0 - x) is x
    assert x + y is y + x
    assert x - (-y) is x + y
    assert -x - y is -(x + y)
    assert (-x) * (-y) is x * y
    assert -2 * x is -(2 * x)
    assert (-x) / y is -(x / y)
    assert 1 / -x is -(1 / x)
    assert x - y is not y - x


def test_sums_of_products_are_one_operation():
    """The same numbers, and no product that only a sum reads."""
    x, y, z = ScalarGraph().inputs("x", (3,))
    entries = np.array([x * y + z, z - 2 * x, -(x * y), x * y - z], dtype=object)
    nodes = fused(entries)
    names = [node.name for node in nodes.values()]
    assert names.count("fma") == 2
    assert names.count("mul") == 1  # −(x y), and the product from which z is subtracted
    given = {"x 0": 0.3, "x 1": -1.7, "x 2": 0.9}
    found = evaluate([nodes[entries[0]], nodes[entries[1]]], given)
    np.testing.assert_allclose(found, values(entries, x=[0.3, -1.7, 0.9])[:2], rtol=1e-15)


def test_graphs_do_not_know_each_other():
    """The order of nodes, and so the code, is that of one graph in any process."""
    texts = []
    for _ in range(2):
        x, y = ScalarGraph().inputs("x", (2,))
        texts.append(listing([y * x + 2.0 * y]))
        ScalarGraph().inputs("x", (5,))
    assert texts[0] == texts[1]


def test_equal_systems_have_equal_keys():
    """The key of stored code has every number in it, and no address."""
    first, again, other = (
        closure_terms.choose_closure_solver(known_systems.four_bar(mass=mass))
        for mass in (1.0, 1.0, 1.5)
    )
    assert first is not again
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.key == again.key != other.key


def test_gradients_are_those_of_programs_with_loops(monkeypatch):
    """Weights go back through programs that are written without loops."""
    found = []
    for most in (24, 0):
        monkeypatch.setattr(unrolled_programs, "MOST_BODIES", most)
        system = four_bar()
        q, v = system.project(system.assemble([1.0, -1.0, -1.5]), [0.5, 0.0, 0.0])
        sim = pp.Simulator(system, dt=2e-3, integrator="semi_implicit")
        weights = np.random.default_rng(0).standard_normal((4, 3))
        found.append(
            sim.gradient(sim.initial_state(q, v), np.ones((3, 3)), 3, cotangents={"q": weights})
        )
    for name in ("q", "v", "tau"):
        x, y = (getattr(one, name) for one in found)
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-13)
        assert np.abs(x).max() > 1e-7
