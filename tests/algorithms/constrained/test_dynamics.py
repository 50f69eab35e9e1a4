"""The dense equations of motion that everything else is compared with, checked by other routes."""

import numpy as np
import pytest
from known_systems import four_bar
from numpy.testing import assert_allclose
from random_models import random_inertia, random_pose, random_tree
from random_systems import KINDS, admissible, kkt, random_system

import phipsi as pp
from phipsi import constraints as c, joints as tree

CUTTABLE = ("revolute", "prismatic", "cylindrical", "universal", "planar", "spherical")


def state(system: pp.System, q, seed: int):
    rng = np.random.default_rng(seed)
    return admissible(system, q, rng), rng.standard_normal(system.model.nv)


@pytest.mark.parametrize("seed", range(10))
def test_gauss_principle_and_virtual_work_agree_with_the_multipliers(seed):
    """N* (ℳ vdot − Tbar) = 0 for N = null(G), and vdot is nearest to the free one."""
    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:5]]
    system, q = random_system(seed, 7, kinds, n_roots=2)
    model = system.model
    v, tau = state(system, q, seed)
    vdot, f = kkt(system, q, v, tau)
    G, M = system.jacobian(q), pp.mass_matrix(model, q)
    free = pp.forward_dynamics(model, q, v, tau)
    rank = np.linalg.matrix_rank(G, tol=1e-9)
    N = np.linalg.svd(G)[2][rank:]
    size = np.abs(M).max() * max(1, np.abs(vdot).max())
    assert_allclose(N @ M @ (vdot - free), 0, atol=1e-9 * size)
    bias = pp.bias_forces(model, q, v)
    assert_allclose(M @ vdot + G.T @ f, tau - bias, atol=1e-9 * size)
    assert_allclose(G @ vdot + system.bias(q, v), 0, atol=1e-9 * max(1, np.abs(vdot).max()))
    for _ in range(3):
        other = vdot + N.T @ rng.standard_normal(len(N))
        gap, further = vdot - free, other - free
        assert gap @ M @ gap <= further @ M @ further


def as_constraint(joint: tree.Joint, **ends) -> c.Constraint:
    made = {
        "revolute": lambda p: c.Revolute(p, **ends),
        "prismatic": lambda p: c.Prismatic(p, **ends),
        "cylindrical": lambda p: c.Cylindrical(p, **ends),
        "universal": lambda p: c.Universal(p[:3], p[3:], **ends),
        "planar": lambda p: c.Planar(p[:3], **ends),
        "spherical": lambda p: c.Spherical(**ends),
    }
    return made[joint.kind](joint.params)


@pytest.mark.parametrize("kind", CUTTABLE)
def test_a_joint_of_the_tree_and_the_same_joint_cut_give_the_same_accelerations(kind):
    """Free bodies held together by constraints instead of joints (theory/closed-chains 2 (C31))."""
    model = random_tree(7, 4, [kind])
    b = pp.ModelBuilder(gravity=model.gravity)
    closing = []
    for name, parent, joint, X, inertia in zip(
        model.body_names, model.parent, model.joints, model.placements, model.inertias, strict=True
    ):
        b.add_body(name, joint=tree.Free(), inertia=inertia)
        host = "world" if parent < 0 else model.body_names[parent]
        closing.append(as_constraint(joint, name=f"on {name}", a=(host, X), b=name))
    loose = pp.System(b.build(), closing)
    rng = np.random.default_rng(7)
    q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    tau = np.zeros(model.nv)
    poses, motions = pp.poses(model, q), pp.velocities(model, q, v)
    at = np.zeros(loose.model.nq)
    rates = np.zeros(loose.model.nv)
    for i, name in enumerate(model.body_names):
        X = pp.Pose(poses[i, :3, :3], poses[i, :3, 3])
        at[loose.model.q_slice(name)] = [*X.quaternion, *X.translation]
        rates[loose.model.v_slice(name)] = motions[i]
    assert_allclose(loose.residual(at), 0, atol=1e-13)
    assert_allclose(loose.jacobian(at) @ rates, 0, atol=1e-12)
    assert not loose.is_turned_over(at)
    vdot, _ = kkt(loose, at, rates, np.zeros(loose.model.nv))
    exact = pp.accelerations(model, q, v, pp.forward_dynamics(model, q, v, tau))
    found = np.array([vdot[loose.model.v_slice(name)] for name in model.body_names])
    assert_allclose(found, exact, atol=1e-10 * np.abs(exact).max())


# ---- graphs -----------------------------------------------------------------------------------


def graph(seed: int):
    """Six bodies in two loops through the world: more joints than a tree has."""
    rng = np.random.default_rng(seed)
    names = [f"b{i}" for i in range(6)]
    bodies = {name: random_inertia(rng) for name in names}
    pairs = [("world", "b0"), ("b0", "b1"), ("b2", "b1"), ("b2", "world"), ("b0", "b3"),
             ("b4", "b3"), ("b4", "b5"), ("b5", "world")]  # fmt: skip
    kinds = ["spherical", "universal", "cylindrical", "spherical", "universal", "cylindrical",
             "spherical", "universal"]  # fmt: skip
    X = {name: random_pose(rng) for name in names}
    X["world"] = pp.Pose()
    made = []
    for i, ((a, b), kind) in enumerate(zip(pairs, kinds, strict=True)):
        from random_models import JOINTS

        joint = JOINTS[kind](rng)
        place_a = random_pose(rng)
        place_b = X[b].inv @ X[a] @ place_a  # closed at zero coordinates
        made.append(pp.constraints.GraphJoint(f"j{i}", joint, (a, place_a), (b, place_b)))
    return bodies, made, X


def frame(system: pp.System, name: str) -> str:
    own = f"{name}_frame"
    return own if own in system.model.frames else name


@pytest.mark.parametrize("seed", range(3))
def test_a_graph_moves_the_same_wherever_it_is_cut(seed):
    bodies, made, X = graph(seed)
    rng = np.random.default_rng(seed)
    reference = None
    motion = None
    for cut in ([], ["j1", "j4"], ["j2", "j7"], ["j0", "j6"], ["j3", "j5"]):
        system = pp.System.from_graph(bodies, made, gravity=(1, 2, -9), cut=cut)
        model = system.model
        assert len(system.cut_joints) == 2
        assert not cut or set(system.cut_joints) == set(cut)
        q = model.neutral()
        assert_allclose(system.residual(q), 0, atol=1e-12)
        points = [frame(system, name) for name in bodies]
        for name, X_found in zip(bodies, pp.poses(model, q, points), strict=True):
            assert_allclose(X_found, X[name].matrix, atol=1e-12)
        J = pp.jacobian(model, q, points)
        if motion is None:
            motion = J @ admissible(system, q, rng)
        v = np.linalg.lstsq(J, motion, rcond=None)[0]
        assert_allclose(J @ v, motion, atol=1e-10)
        vdot, _ = kkt(system, q, v, np.zeros(model.nv))
        found = J @ vdot + pp.jacobian_dot(model, q, v, points, times_v=True)
        reference = found if reference is None else reference
        assert_allclose(found, reference, atol=1e-9 * np.abs(reference).max())


def test_a_graph_cuts_the_joint_with_most_freedoms_and_says_so():
    bodies, made, _ = graph(0)
    system = pp.System.from_graph(bodies, made)
    assert set(system.cut_joints) == {"j3", "j6"}  # the spherical ones that loops can spare
    assert "cut joints: 'j3', 'j6'" in system.summary(system.model.neutral())


def test_a_graph_without_the_world_floats():
    rod = pp.SpatialInertia(1, (0.5, 0, 0), 0.1)
    hinge = pp.constraints.GraphJoint("hinge", tree.Revolute((0, 0, 1)), ("one", (1, 0, 0)), "two")
    system = pp.System.from_graph({"one": rod, "two": rod}, [hinge])
    assert system.model.joint("one_free").joint == tree.Free()
    assert system.model.nv == 7 and not system.constraints


@pytest.mark.parametrize("kind", [*CUTTABLE, "helical", "composite", "translation"])
def test_a_joint_given_from_its_outer_side_is_the_same_joint(kind):
    """World – a – b with the second joint given as b – a: the same relative poses are possible."""
    from random_models import JOINTS

    rng = np.random.default_rng(4)
    joint = JOINTS[kind](rng)
    rod = random_inertia(rng)
    base = pp.constraints.GraphJoint("base", tree.Fixed(), "world", "a")
    X_a, X_b = random_pose(rng), random_pose(rng)
    ways = [
        pp.System.from_graph(
            {"a": rod, "b": rod}, [base, pp.constraints.GraphJoint("j", joint, *ends)]
        )
        for ends in ((("a", X_a), ("b", X_b)), (("b", X_b), ("a", X_a)))
    ]
    model, other = ways[0].model, ways[1].model
    q = model.random_configuration(rng)
    # the second joint, evaluated with the coordinates of the first, is the inverse motion
    relative = pp.poses(model, q, ["b_frame"])[0]
    found = pp.inverse_kinematics(
        other, {"b_frame": (X_a.matrix @ X_b.inv.matrix @ np.linalg.inv(relative) @ X_a.matrix
                            @ X_b.inv.matrix)},
        position_tolerance=1e-9, rotation_tolerance=1e-9, restarts=50,
    )  # fmt: skip
    assert found.converged


@pytest.mark.parametrize(
    ("joint", "message"),
    [
        (pp.constraints.GraphJoint("j", tree.Fixed(), "world", "rodd"), "Did you mean 'rod'"),
        (pp.constraints.GraphJoint("j", tree.Fixed(), "rod", "rod"), "to itself"),
    ],
)
def test_graphs_that_cannot_be_are_refused(joint, message):
    with pytest.raises(pp.errors.ModelError, match=message):
        pp.System.from_graph({"rod": pp.SpatialInertia(1, (0, 0, 0), 1)}, [joint])


def test_a_loop_of_screws_cannot_be_cut():
    rod = pp.SpatialInertia(1, (0.5, 0, 0), 0.1)
    screws = [
        pp.constraints.GraphJoint(f"s{i}", tree.Helical((0, 0, 1), 0.1), a, b)
        for i, (a, b) in enumerate([("world", "one"), ("one", "two"), ("two", "world")])
    ]
    with pytest.raises(
        pp.errors.ModelError, match="no joint of that loop has a type that can be a constraint"
    ):
        pp.System.from_graph({"one": rod, "two": rod}, screws)


def test_limits_of_a_cut_joint_are_refused():
    rod = pp.SpatialInertia(1, (0.5, 0, 0), 0.1)
    z = (0, 0, 1)
    made = [
        pp.constraints.GraphJoint(f"h{i}", tree.Revolute(z), a, b, limits=(-1, 1))
        for i, (a, b) in enumerate([("world", "one"), ("one", "two"), ("two", "world")])
    ]
    with pytest.raises(pp.errors.ModelError, match="is cut to open its loop"):
        pp.System.from_graph({"one": rod, "two": rod}, made)


def test_four_bar_as_a_graph_is_the_four_bar():
    system = four_bar()
    q = system.assemble([1.0, -0.8, -1.5])
    v = admissible(system, q, np.random.default_rng(0))
    vdot, _ = kkt(system, q, v, np.zeros(3))
    sizes = dict(zip(system.model.body_names, (0.5, 1.2, 1.0), strict=True))
    bodies = dict(zip(system.model.body_names, system.model.inertias, strict=True))
    z = (0, 0, 1)
    made = [
        pp.constraints.GraphJoint("A", tree.Revolute(z), "world", "crank"),
        pp.constraints.GraphJoint(
            "B", tree.Revolute(z), ("crank", (sizes["crank"], 0, 0)), "coupler"
        ),
        pp.constraints.GraphJoint(
            "C", tree.Revolute(z), ("coupler", (sizes["coupler"], 0, 0)), "rocker"
        ),
        pp.constraints.GraphJoint(
            "D", tree.Revolute(z), ("rocker", (1.0, 0, 0)), ("world", (1.1, 0, 0))
        ),
    ]
    other = pp.System.from_graph(bodies, made, gravity=(0, -9.81, 0), cut=["B"])
    # the rocker now hangs on D, which was given from the rocker to the world
    start = {"A": q[0], "C": q[2], "D": -q.sum()}
    at = np.array([start[name] for name in other.model.joint_names])
    assert other.assemble(at) == pytest.approx(at, abs=1e-9)
    turn = {"A": v[0], "C": v[2], "D": -v.sum()}
    rates = np.array([turn[name] for name in other.model.joint_names])
    found, _ = kkt(other, at, rates, np.zeros(3))
    exact = {"A": vdot[0], "C": vdot[2], "D": -vdot.sum()}
    assert_allclose(found, [exact[name] for name in other.model.joint_names], rtol=1e-9)


@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_a_system_without_constraints_is_its_tree(batch):
    model = random_tree(4, 6)
    system = pp.System(model, [])
    rng = np.random.default_rng(0)
    count = int(np.prod(batch, dtype=int))
    q = np.array([model.random_configuration(rng) for _ in range(count)]).reshape(*batch, -1)
    v, tau = rng.standard_normal((2, *batch, model.nv))
    push = rng.standard_normal((*batch, model.n_bodies, 6))
    want = pp.forward_dynamics(model, q, v, tau, push)
    np.testing.assert_allclose(pp.forward_dynamics(system, q, v, tau, push), want, rtol=1e-12)
    assert pp.constraint_forces(system, q, v, tau).shape == (*batch, 0)
    after, p = pp.constraint_impulse(system, q, v)
    np.testing.assert_array_equal(after, v)
    assert p.shape == (*batch, 0)
    assert pp.delassus_matrix(system, q).shape == (*batch, 0, 0)
    for x, y in zip(
        pp.forward_dynamics_derivatives(system, q, v, tau),
        pp.forward_dynamics_derivatives(model, q, v, tau),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)


def test_a_tree_is_a_system_without_rows():
    arm, state = pp.examples.planar_arm(2), (np.zeros(2), np.zeros(2), np.zeros(2))
    assert pp.constraint_forces(arm, *state).shape == (0,)
    vdot, _, f = pp.forward_dynamics(arm, *state, return_multipliers=True)
    np.testing.assert_array_equal(vdot, pp.forward_dynamics(arm, *state))
    assert f.shape == (0,)
