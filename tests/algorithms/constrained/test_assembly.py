"""Assembly, projection and mobility."""

import numpy as np
import pytest
from known_systems import Z, at, bricard, four_bar, n_four_bar
from numpy.testing import assert_allclose
from random_systems import KINDS, random_system

import phipsi as pp
from phipsi import constraints as c

RNG = np.random.default_rng


@pytest.mark.parametrize("seed", range(12))
def test_random_systems_are_assembled_from_nearby(seed):
    rng = RNG(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:4]]
    system, q = random_system(seed, 7, kinds, n_roots=2, independent=True)
    rough = system.model.integrate(q, 0.2 * rng.standard_normal(system.model.nv))
    found = system.assemble(rough)
    assert np.abs(system.residual(found)).max(initial=0) <= 1e-10
    assert not system.is_turned_over(found)


def test_four_bar_angles_satisfy_the_loop_equation():
    system = four_bar()
    q = system.assemble([1.0, -0.8, -1.5], fixed=["crank"])
    assert q[0] == 1.0
    heading = np.cumsum(q)
    tip = np.dot((0.5, 1.2, 1.0), np.exp(1j * heading))
    assert_allclose([tip.real, tip.imag], [1.1, 0.0], atol=1e-10)


def test_assembly_of_a_batch_is_that_of_its_elements():
    system = four_bar()
    rough = np.array([1.0, -0.8, -1.5]) + 0.2 * RNG(0).standard_normal((2, 3, 3))
    found = system.assemble(rough)
    for i, j in np.ndindex(2, 3):
        assert_allclose(found[i, j], system.assemble(rough[i, j]), atol=1e-12)


def test_assembly_moves_light_parts_rather_than_heavy_ones():
    """Two rods on hinges must meet; one weighs 1000 times as much and hardly moves."""
    b = pp.ModelBuilder()
    for name, mass, x in (("light", 1e-3, 0.0), ("heavy", 1.0, 2.0)):
        side = 1.0 if name == "light" else -1.0
        inertia = pp.SpatialInertia(mass, (side / 2, 0, 0), mass / 12)
        b.add_body(name, joint=pp.joints.Planar(), placement=at(x), inertia=inertia)
    ends = {"a": ("light", (1, 0, 0)), "b": ("heavy", (-1, 0, 0))}
    system = pp.System(b.build(), [c.Spherical(name="meet", **ends)])
    q = system.assemble([0, 0, 0.1, 0, 0, -0.1])
    moved = np.abs(system.model.difference([0, 0, 0.1, 0, 0, -0.1], q))
    assert moved[3:].max() < 2e-3 * moved[:3].max()


def test_limits_are_kept_and_named():
    system = four_bar()
    narrow = system.model.with_body("rocker", limits=(-0.2, 0.2))
    limited = pp.System(narrow, system.constraints)
    with pytest.raises(pp.errors.ConvergenceError, match=r"'rocker' at -?0\.2") as error:
        limited.assemble([1.0, -0.8, -0.1], fixed=["crank"])
    best = error.value.result
    assert -0.2 <= best[2] <= 0.2 and best[0] == 1.0
    free = limited.assemble([1.0, -0.8, -1.5], limits=False)
    assert free[2] < -0.2
    wide = pp.System(system.model.with_body("rocker", limits=(-3, 0)), system.constraints)
    q = wide.assemble([1.0, -0.8, -0.1])
    assert -3 <= q[2] <= 0 and np.abs(wide.residual(q)).max() < 1e-10


def test_a_loop_that_is_too_short_says_which_and_by_how_much():
    system = four_bar(lengths=(0.3, 0.3, 0.2), ground=1.1)
    with pytest.raises(pp.errors.ConvergenceError) as error:
        system.assemble([0.4, 0.1, -0.2])
    text = str(error.value)
    assert "'pin' between 'rocker' and the world stays open by 0.3 m" in text
    assert "rocker – coupler – crank – world" in text
    assert_allclose(np.cumsum(error.value.result), 0, atol=1e-4)  # stretched out


def test_only_the_loop_that_cannot_close_is_named():
    b = pp.ModelBuilder()
    for name in ("left", "right"):
        inertia = pp.SpatialInertia(1, (0.5, 0, 0), 0.1)
        b.add_body(name, joint=pp.joints.Revolute(Z), inertia=inertia)
    good = c.PointOnLine((0, 1, 0), name="slot", a=("world", (0.5, 0, 0)), b=("left", (1, 0, 0)))
    bad = c.PointOnLine((0, 1, 0), name="far", a=("world", (2.5, 0, 0)), b=("right", (1, 0, 0)))
    with pytest.raises(pp.errors.ConvergenceError) as error:
        pp.System(b.build(), [good, bad]).assemble([0.8, 0.3])
    assert "'far' between the world and 'right'" in str(error.value)
    assert "'slot'" not in str(error.value)


def test_a_closure_that_is_turned_over_is_not_closed():
    """A free body hinged to the world: turned by π about x, its rows vanish and its axis is −z."""
    b = pp.ModelBuilder()
    b.add_body("body", joint=pp.joints.Free(), inertia=pp.SpatialInertia(1, (0, 0, 0), 1))
    model = b.build()
    for hinge in (
        c.Revolute(Z, name="hinge", a="world", b="body"),
        c.Weld(name="hinge", a="world", b="body"),
    ):
        system = pp.System(model, [hinge])
        over = np.array([0.0, 1, 0, 0, 0, 0, 0])
        assert_allclose(system.residual(over), 0, atol=1e-15)
        assert system.is_turned_over(over)
        nearly = model.integrate(over, [0.1, 0.02, 0, 0.1, 0, 0])
        q = system.assemble(nearly)
        assert np.abs(system.residual(q)).max() < 1e-10 and not system.is_turned_over(q)


def test_a_hinge_that_can_only_close_turned_over_is_reported():
    b = pp.ModelBuilder()
    b.add_body("body", joint=pp.joints.Prismatic(Z), inertia=pp.SpatialInertia(1, (0, 0, 0), 1))
    hinge = c.Revolute(Z, name="hinge", a="world", b="body", axis_b=(0, 0, -1))
    with pytest.raises(pp.errors.ConvergenceError, match="turned over"):
        pp.System(b.build(), [hinge]).assemble([0.3])


def test_restarts_find_what_one_start_does_not():
    """A rod whose end must be behind it: the start is a maximum of the distance."""
    b = pp.ModelBuilder()
    b.add_body("rod", joint=pp.joints.Revolute(Z), inertia=pp.SpatialInertia(1, (1, 0, 0), 0.1))
    pin = c.Spherical(name="pin", a=("rod", (1, 0, 0)), b=("world", (-1, 0, 0)))
    system = pp.System(b.build(), [pin])
    with pytest.raises(pp.errors.ConvergenceError):
        system.assemble([0.0])
    q = system.assemble([0.0], restarts=3)
    assert_allclose(np.cos(q), -1, atol=1e-12)


# ---- projection -------------------------------------------------------------------------------


def projected(seed: int):
    rng = RNG(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:4]]
    system, q = random_system(seed, 7, kinds, n_roots=2, independent=True)
    rough = system.model.integrate(q, 0.03 * rng.standard_normal(system.model.nv))
    return system, rough, rng.standard_normal(system.model.nv)


@pytest.mark.parametrize("seed", range(12))
def test_projection_satisfies_the_constraints_and_does_nothing_twice(seed):
    system, rough, v = projected(seed)
    q, rates = system.project(rough, v)
    assert np.abs(system.residual(q)).max(initial=0) <= 1e-10
    assert_allclose(system.jacobian(q) @ rates, system.rates, atol=1e-9)
    again_q, again_v = system.project(q, rates)
    assert_allclose(again_q, q, atol=1e-9)
    assert_allclose(again_v, rates, atol=1e-9 * max(1, np.abs(rates).max()))


@pytest.mark.parametrize("seed", range(6))
def test_velocity_projection_splits_the_kinetic_energy(seed):
    """KE(v) = KE(v⁺) + KE(v − v⁺): what is removed is orthogonal in the mass metric."""
    system, rough, v = projected(seed)
    q, new = system.project(rough, v)
    parts = [float(pp.kinetic_energy(system.model, q, x)) for x in (v, new, v - new)]
    assert_allclose(parts[0], parts[1] + parts[2], rtol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_position_projection_is_orthogonal_to_admissible_motions(seed):
    """To first order: dq* ℳ n = 0 for every n with G n = 0."""
    system, rough, v = projected(seed)
    q, _ = system.project(rough, v)
    model = system.model
    eps = 1e-5
    near = model.integrate(q, eps * v)
    back, _ = system.project(near, v)
    dq = model.difference(near, back) / eps
    G = system.jacobian(back)
    n = np.linalg.svd(G)[2][np.linalg.matrix_rank(G, tol=1e-8) :]
    M = pp.mass_matrix(model, back)
    assert_allclose(n @ M @ dq, 0, atol=1e-2 * np.abs(M).max() * eps**0.5)


def test_switching_a_weld_on_conserves_momentum_and_loses_energy():
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    for i in range(2):
        inertia = pp.SpatialInertia(1.0 + i, (0.1, 0.2 * i, 0), np.diag([0.2, 0.3, 0.4]))
        b.add_body(f"b{i}", joint=pp.joints.Free(), inertia=inertia)
    model = b.build()
    q = model.random_configuration(3)
    X = np.linalg.inv(pp.poses(model, q)[1]) @ pp.poses(model, q)[0]
    weld = c.Weld(name="weld", a="b0", b=("b1", pp.Pose(X[:3, :3], X[:3, 3])))
    system = pp.System(model, [weld])
    v = RNG(3).standard_normal(12)
    same, after = system.project(q, v)
    assert_allclose(same, q, atol=1e-13)
    before = pp.momentum(model, q, v)
    assert_allclose(pp.momentum(model, q, after), before, atol=1e-12)
    assert pp.kinetic_energy(model, q, after) < pp.kinetic_energy(model, q, v)


def test_contradictory_rates_are_named():
    model = pp.examples.planar_arm(1)
    row = [[0, 0, 1, 0, 0, 0]]
    spin = [
        c.Rows(name=name, points=["link1"], A=row, row_velocity=rate)
        for name, rate in (("slow", 1.0), ("fast", 2.0))
    ]
    with pytest.raises(pp.errors.ConvergenceError, match=r"'slow\.0' .*'fast\.0'"):
        pp.System(model, spin).project([0.0], [0.0])
    alone = pp.System(model, spin[:1])
    assert_allclose(alone.project([0.3], [0.0])[1], [1.0])


def test_projection_from_too_far_says_so():
    system = four_bar(lengths=(0.3, 0.3, 0.2), ground=1.1)
    with pytest.raises(pp.errors.ConvergenceError, match="'pin'"):
        system.project([0.4, 0.1, -0.2], np.zeros(3))


# ---- mobility ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("closure", "rows"),
    [("Revolute", 5), ("Spherical", 3), ("Cylindrical", 4), ("PointOnLine", 2), ("Weld", 6)],
)
def test_a_planar_four_bar_has_one_freedom_however_it_is_closed(closure, rows):
    system = four_bar(closure=closure)
    q = four_bar().assemble([1.0, -0.8, -1.5])
    found = system.mobility(q)
    assert found.rows == rows and found.grubler == 3 - rows
    assert found.mobility == (0 if closure == "Weld" else 1)
    assert len(found.redundant) == rows - found.rank


def test_redundant_rows_of_a_planar_loop_are_those_out_of_the_plane():
    q = four_bar().assemble([1.0, -0.8, -1.5])
    assert set(four_bar().mobility(q).redundant) == {"pin.tilt_x", "pin.tilt_y", "pin.z"}
    assert four_bar().redundant_rows(q) == four_bar().mobility(q).redundant


def test_bricard_moves_although_the_count_says_it_cannot():
    system = bricard()
    found = system.mobility(np.zeros(5))
    assert (found.grubler, found.rank, found.mobility) == (0, 4, 1)
    assert len(found.redundant) == 1
    # … and not only at one configuration
    rates = np.linalg.svd(system.jacobian(np.zeros(5)))[2][-1]
    q, _ = system.project(0.05 * rates, rates)
    assert np.abs(q).max() > 0.01
    assert system.mobility(q).mobility == 1


def test_a_flat_parallelogram_gains_freedoms():
    system, q, _ = n_four_bar(2)
    assert system.mobility(q).mobility == 1
    flat = np.zeros(5)
    assert_allclose(system.residual(flat), 0, atol=1e-15)
    assert system.mobility(flat).mobility == 3


def test_rank_does_not_depend_on_units_or_masses():
    q = four_bar().assemble([1.0, -0.8, -1.5])
    for mass in (1e-9, 1.0, 1e9):
        assert four_bar(mass=mass).mobility(q).rank == 2


def test_summary_names_loops_mobility_and_redundant_rows():
    text = four_bar().summary(four_bar().assemble([1.0, -0.8, -1.5]))
    assert "rocker – coupler – crank – world" in text
    assert "3 − 5 = -2" in text and "3 − rank 2 = 1" in text
    assert "pin.tilt_x" in text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: c.Spherical(name="", a="link1", b="world"), "must be a non-empty string"),
        (lambda: pp.grasping.Point(name="", finger="link1", object="box"), "errors name the con"),
        (lambda: c.Distance(0.0, name="d", a="link1", b="world"), "Spherical"),
        (lambda: c.Revolute((0, 0, 0), name="r", a="link1", b="world"), "not a direction"),
        (lambda: c.Coupling(name="g", joints=["a"], coefficients=[1, 2]), "one coefficient"),
        (lambda: c.Coupling(name="g", joints=["a"], coefficients=[0]), "takes no part"),
        (lambda: c.Rows(name="r", points=["a"], A=np.ones((1, 7))), r"\(rows, 6\)"),
        (lambda: c.Rows(name="r", points=["a"], A=np.zeros((1, 6))), "constrains nothing"),
        (
            lambda: c.Rows(name="r", points=["a"], A=np.ones((1, 6)), row_velocity=[1, 2]),
            "one per row",
        ),
    ],
)
def test_constraints_that_cannot_be_are_refused(make, message):
    with pytest.raises(pp.errors.ModelError, match=message):
        make()


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (c.Spherical(name="s", a="link1", b="lnk2"), "Did you mean 'link2'"),
        (c.Spherical(name="s", a="link1", b=("link1", (1, 0, 0))), "both ends are fixed in body"),
        (c.Spherical(name="s", a="world", b="world"), "fixed in the world"),
        (c.Spherical(name="s", a=3, b="world"), "an offset in m"),
        (c.Universal(Z, (0, 0, 2), name="u", a="link1", b="world"), "parallel"),
        (c.Coupling(name="g", joints=["joint9"], coefficients=[1]), "no joint 'joint9'"),
    ],
)  # fmt: skip
def test_constraints_that_do_not_fit_the_model_are_refused(constraint, message):
    with pytest.raises(pp.errors.ModelError, match=message):
        pp.System(pp.examples.planar_arm(2), [constraint])


def test_constraints_compare_by_content():
    ends = [{"a": ("link1", place), "b": "world"} for place in ((1, 0, 0), np.array([1.0, 0, 0]))]
    one, two = (
        c.Revolute(axis, name="r", **e) for axis, e in zip((Z, [0, 0, 2.0]), ends, strict=True)
    )
    assert one == two and hash(one) == hash(two)
    assert one != c.Revolute((1, 0, 0), name="r", **ends[0])
    with pytest.raises(
        pp.errors.ModelError, match=r"Weld 'w': the offset of b must be three numbers"
    ):
        c.Weld(name="w", a="link1", b=("world", (1, 2)))


def test_a_system_says_where_the_tree_is():
    system = four_bar()
    assert system.nv == system.model.nv
    with pytest.raises(pp.errors.InputError, match=r"For the tree alone.* pass system\.model"):
        pp.mass_matrix_inverse(system, np.zeros(3))
    assert not hasattr(system, "nonsense")


def test_couplings_refuse_joints_of_several_coordinates():
    b = pp.ModelBuilder()
    b.add_body("ball", joint=pp.joints.Spherical(), inertia=pp.SpatialInertia(1, (0, 0, 0), 1))
    with pytest.raises(pp.errors.ModelError, match="'ball' is spherical with 3 degrees of freedom"):
        pp.System(b.build(), [c.Coupling(name="g", joints=["ball"], coefficients=[1])])


def test_selections_are_checked():
    model = pp.examples.planar_arm(3)
    system = pp.System(model, [], secondary=["link3"])
    assert system.closures.selections == {"P": frozenset({0, 1}), "S": frozenset({2})}
    with pytest.raises(pp.errors.ModelError, match="'link2' is in primary and in secondary"):
        pp.System(model, [], primary=["link1", "link2"], secondary=["link2"])
    with pytest.raises(pp.errors.ModelError, match="two constraints are named 's'"):
        pp.System(model, [c.Spherical(name="s", a="link1", b="world")] * 2)


def test_a_distance_between_points_that_coincide_is_assembled_or_named():
    """|r| has no derivative at r = 0; it used to end in a singular matrix."""
    arm = pp.examples.planar_arm(2)
    rope = c.Distance(0.5, name="rope", a="tip", b=("world", (2, 0, 0)))
    system = pp.System(arm, [rope])
    q = system.assemble(np.zeros((3, 2)))
    assert_allclose(system.residual(q), 0, atol=1e-10)
    with pytest.raises(
        pp.errors.SingularMatrixError, match=r"points of a distance or circle coincide \('rope'\)"
    ):
        system.jacobian(np.zeros(2))
    hopeless = pp.System(arm, [c.Distance(1.0, name="never", a="link1", b="world")])
    with pytest.raises(pp.errors.ConvergenceError, match="'never' between 'link1' and the world"):
        hopeless.assemble([0.0, 0.0])


@pytest.mark.parametrize(
    "constraint",
    [
        c.Weld(name="mine", a="elbow", b="world"),
        c.Revolute(name="mine", a="world", b=("elbow", (1, 0, 0))),
        c.Coupling(name="mine", joints=["joint1", "elbow"], coefficients=[1, 1]),
        c.Rows(name="mine", points=["elbow"], A=np.ones((1, 6))),
    ],
    ids=lambda x: type(x).__name__,
)
def test_unknown_bodies_and_joints_are_told_with_the_constraint(constraint):
    with pytest.raises(pp.errors.ModelError, match=r"'mine'.*'elbow'"):
        pp.System(pp.examples.planar_arm(2), [constraint])


def test_offsets_that_are_not_finite_are_refused():
    with pytest.raises(pp.errors.ModelError, match="'w': the offset of b"):
        c.Weld(name="w", a="link1", b=("world", (0, np.nan, 0)))
