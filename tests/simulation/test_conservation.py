"""What integrators conserve: symplectic form, energy, momenta, time reversal; and what they do not.

Every property has a twin: a method that does not have it must fail the same check.
"""

from __future__ import annotations

import numpy as np
import pytest
from amounts import mostly
from random_models import branching, model_from_parents

import phipsi as pp
from phipsi.algorithms.kinematics.exponential_chart import Chart
from phipsi.core.model.joints import Composite, Free, Planar, Spherical, Translation
from phipsi.core.spatial.joint_groups import SE3
from phipsi.errors import InputError, SimulationError
from phipsi.simulation.integrators.fixed_point import solve

EPS = np.finfo(float).eps
ARM = [0.5, 0.3, -0.4]


def start(model, seed=0, speed=1.0):
    rng = np.random.default_rng(seed)
    return model.random_configuration(rng), speed * rng.uniform(-1, 1, model.nv)


def energy(model, q, v):
    return pp.kinetic_energy(model, q, v) + pp.potential_energy(model, q)


def rolled(model, q, v, dt, steps, integrator, **options):
    return pp.rollout(model, q, v, np.zeros(model.nv), dt, steps, integrator=integrator, **options)


# ---- the symplectic form -------------------------------------------------------------------------


def jacobian(function, size, largest=0.02, levels=4):
    """Derivatives of a function of batches at 0: central differences, extrapolated (Romberg)."""
    table = []
    for level in range(levels):
        d = largest / 2**level
        ends = function(np.concatenate([d * np.eye(size), -d * np.eye(size)]))
        table.append((ends[:size] - ends[size:]).T / (2 * d))
    for k in range(1, levels):
        table = [
            (4**k * fine - coarse) / (4**k - 1)
            for coarse, fine in zip(table, table[1:], strict=False)
        ]
    return table[0]


def form(model, p):
    """The canonical two-form on changes (δq along v, δp): [[p·[e_i, e_j], 1], [−1, 0]]."""
    n, bracket = model.nv, Chart(model).bracket
    turned = np.array([p @ bracket(e) for e in np.eye(n)])
    return np.block([[turned, np.eye(n)], [-np.eye(n), np.zeros((n, n))]])


def violation(model, q, v, tau, dt, integrator):
    """How far a step is from keeping the form, relative to its derivatives."""
    n = model.nv
    p = pp.mass_matrix(model, q) @ v

    def after(changes):
        at = model.integrate(q, changes[:, :n])
        rates = np.linalg.solve(pp.mass_matrix(model, at), (p + changes[:, n:])[..., None])[..., 0]
        Q, V = pp.rollout(model, at, rates, tau, dt, 1, integrator=integrator)
        return Q[:, -1], np.einsum("nij,nj->ni", pp.mass_matrix(model, Q[:, -1]), V[:, -1])

    q1, p1 = (x[0] for x in after(np.zeros((1, 2 * n))))

    def ends(changes):
        Q, P = after(changes)
        return np.concatenate([model.difference(q1, Q), P - p1], axis=-1)

    J = jacobian(ends, 2 * n)
    error = J.T @ form(model, p1) @ J - form(model, p)
    return np.abs(error).max() / np.abs(J).max() ** 2


TREES = {
    "arm": pp.examples.planar_arm(3),
    "spherical": model_from_parents([-1, 0], 4, ["spherical", "revolute"]),
    "free": model_from_parents([-1, 0], 6, ["free", "revolute"]),
    "planar": model_from_parents([-1, 0, 1], 3, ["planar", "universal", "prismatic"]),
    "composite": model_from_parents([-1], 5, [Composite([Translation(), Spherical()])]),
}


@pytest.mark.parametrize("name", mostly(TREES, "planar", "spherical"))
def test_variational_steps_are_symplectic(name):
    model = TREES[name]
    q, v = start(model, 3)
    tau = np.random.default_rng(1).uniform(-1, 1, model.nv)  # constant efforts have a potential…
    if not Chart(model).is_flat:
        tau[Chart(model).curved] = 0  # …but not on a group, in body axes
    # 1e-10: what extrapolated differences in steps of 0.02 leave
    assert violation(model, q, v, tau, 0.05, "variational") < 1e-10
    assert violation(model, q, v, tau, 0.05, "semi_implicit") > 1e-4
    assert violation(model, q, v, tau, 0.05, "rk4") > 1e-9


def test_semi_implicit_steps_are_symplectic_only_if_the_mass_matrix_is_constant():
    """The pendulum has one; so have two masses on rails."""
    pendulum = pp.examples.planar_arm(1)
    assert violation(pendulum, np.array([0.7]), np.array([1.0]), np.zeros(1), 0.05,
                     "semi_implicit") < 1e-11  # fmt: skip


# ---- energy --------------------------------------------------------------------------------------


def test_energy_error_of_variational_steps_is_bounded():
    """Eight motions of an arm: the error of the last third is that of the first."""
    arm = pp.examples.planar_arm(3)
    q0 = np.array(ARM) + np.linspace(0, 0.5, 8)[:, None]
    lost = {}
    for integrator in ("variational", "semi_implicit", "rk4"):
        q, v = rolled(arm, q0, np.zeros(3), 4e-3, 30_000, integrator, record_every=10)
        e = energy(arm, q, v)
        lost[integrator] = e - e[:, :1]
    first, last = (
        np.abs(lost["variational"][:, s]).max() for s in (slice(0, 1000), slice(-1000, None))
    )
    assert last < 1.5 * first < 1.0
    assert np.abs(lost["variational"][:, -1000:].mean(axis=1)).max() < 0.2 * first
    assert lost["semi_implicit"][:, -1].max() < -20  # of some 70 J, in 120 s
    late, early = (np.abs(lost["rk4"][:, s]).mean() for s in (slice(-1000, None), slice(0, 1000)))
    assert late > 3 * early  # goes on


def test_energy_error_has_the_order_of_the_method():
    model, errors = branching(4, 3, ["spherical", "revolute", "planar", "universal"]), []
    q, v = start(model, 2)
    for dt in (4e-3, 2e-3):
        Q, V = rolled(model, q, v, dt, round(0.4 / dt), "variational")
        e = energy(model, Q, V)
        errors.append(np.abs(e - e[0]).max())
    assert 3.5 < errors[0] / errors[1] < 4.5


# ---- momenta -------------------------------------------------------------------------------------


def changes(model, q, v, about="origin"):
    """Largest changes of angular and linear momentum, each relative to its largest."""
    h = pp.momentum(model, q, v, about=about)
    moved = np.abs(h - h[..., :1, :]).max(axis=-2)
    return moved[..., :3].max() / np.abs(h[..., :3]).max(), moved[..., 3:].max() / np.abs(h[..., 3:]).max()  # fmt: skip  # noqa: E501


@pytest.mark.parametrize(
    "kinds",
    [
        ("free", "revolute", "spherical", "prismatic"),
        (Composite([Translation(), Spherical()]), "revolute", "universal", "planar"),
    ],
    ids=["free", "composite"],
)
def test_momenta_of_floating_trees_are_kept_to_rounding(kinds):
    model = branching(4, 7, kinds, gravity=(0, 0, 0))
    q, v = start(model, 1)
    steps = 4000
    Q, V = rolled(model, q, v, 5e-3, steps, "variational", record_every=20)
    # every step rounds momenta about the origin, at a distance that grows, once
    distance = 1 + np.abs(pp.center_of_mass(model, Q)).max()
    bound = 20 * EPS * np.sqrt(steps) * distance
    assert max(changes(model, Q, V)) < bound
    for other in ("semi_implicit", "rk4"):
        assert (
            max(changes(model, *rolled(model, q, v, 5e-3, steps, other, record_every=20)))
            > 20 * bound
        )


def test_momenta_about_and_along_gravity():
    """What is left of the symmetry: gravity changes the linear momentum by m g t, exactly."""
    model = branching(4, 7, ["free", "revolute", "spherical", "prismatic"])
    q, v = start(model, 1)
    Q, V = rolled(model, q, v, 5e-3, 400, "variational", record_every=4)
    t, mass = 0.02 * np.arange(101), sum(x.mass for x in model.inertias)
    linear = pp.momentum(model, Q, V)[:, 3:]
    expected = linear[0] + mass * t[:, None] * model.gravity
    np.testing.assert_allclose(linear, expected, rtol=0, atol=1e-13 * np.abs(linear).max())


def planar_body():
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    b.add_body("puck", joint=Planar(), inertia=pp.SpatialInertia(2.0, (0, 0, 0), (0.1, 0.2, 0.3)))
    return b.build()


def free_body():
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    b.add_body("body", joint=Free(), inertia=pp.SpatialInertia(1.0, (0, 0, 0), (0.1, 0.2, 0.3)))
    return b.build()


@pytest.mark.parametrize("make", mostly([free_body, planar_body], planar_body))
def test_one_body_flies_straight(make):
    """100 s. Semi-implicit steps in body axes would let its momentum grow; see the twin."""
    model = make()
    v = np.array([0.3, 0.5, 0.2, 0.4, 0.5, 0.27])[: model.nv]
    steps = 100_000
    for integrator in ("semi_implicit", "variational"):
        Q, V = rolled(model, model.neutral(), v, 1e-3, steps, integrator, record_every=100)
        linear = pp.momentum(model, Q, V)[:, 3:]
        change = np.abs(linear - linear[0]).max() / np.abs(linear[0]).max()
        assert change < 4 * EPS * np.sqrt(steps), integrator
        way, t = pp.center_of_mass(model, Q), 0.1 * np.arange(len(Q))
        expected = t[:, None] * linear[0] / sum(x.mass for x in model.inertias)
        rounding = 0.5 * EPS * steps * np.abs(expected).max()  # of each of the equal steps
        np.testing.assert_allclose(way, expected, rtol=0, atol=rounding)
    if model.nv == 6:  # of the variational steps
        assert changes(model, Q, V, "com")[0] < 4 * EPS * np.sqrt(steps)
    q, rates, zero = model.neutral(), v, np.zeros(model.nv)
    for _ in range(1000):  # the twin
        rates = rates + 1e-3 * pp.forward_dynamics(model, q, rates, zero)
        q = model.integrate(q, 1e-3 * rates)
    assert np.linalg.norm(pp.momentum(model, q, rates)[3:] / linear[0].max()) > 1 + 1e-6


def test_spin_does_not_depend_on_the_speed_of_flight():
    body = free_body()
    spin = [0.3, 0.5, 0.2]
    v = np.array([[*spin, 0, 0, 0], [*spin, 40, 50, 27]])
    Q, V = rolled(body, body.neutral(), v, 1e-2, 2000, "variational", record_every=20)
    np.testing.assert_allclose(Q[1, :, :4], Q[0, :, :4], rtol=0, atol=1e-11)
    np.testing.assert_allclose(V[1, :, :3], V[0, :, :3], rtol=0, atol=1e-11)


def test_semi_implicit_steps_are_those_of_rates_in_world_axes():
    """A second route: linear rates of the free base in world axes, as MuJoCo has them."""
    model = branching(4, 7, ["free", "revolute", "spherical", "prismatic"])
    q, v = start(model, 4)
    tau, h = np.random.default_rng(5).uniform(-1, 1, model.nv), 2e-3
    Q, V = pp.rollout(model, q, v, tau, h, 50, integrator="semi_implicit")
    chart = Chart(model)
    ((_, at, to),) = (x for x in chart.parts if x[0] is SE3)
    for _ in range(50):
        vdot = pp.forward_dynamics(model, q, v, tau)
        R = _rotation(q[at : at + 4])
        linear = R @ v[to + 3 : to + 6]
        linear = linear + h * R @ (
            vdot[to + 3 : to + 6] + np.cross(v[to : to + 3], v[to + 3 : to + 6])
        )
        v = v + h * vdot
        step = h * v
        step[to + 3 : to + 6] = 0
        place = q[at + 4 : at + 7] + h * linear
        q = model.integrate(q, step)
        q[at + 4 : at + 7] = place
        v[to + 3 : to + 6] = _rotation(q[at : at + 4]).T @ linear
    np.testing.assert_allclose(Q[-1], q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(V[-1], v, rtol=0, atol=1e-11)


def _rotation(q):
    w, x = q[0], q[1:]
    skew = np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])
    return np.eye(3) + 2 * w * skew + 2 * skew @ skew


# ---- time reversal -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TREES)
def test_variational_steps_can_be_taken_back(name):
    model = TREES[name]
    q, v = start(model, 6)
    gaps = {}
    for integrator in ("variational", "semi_implicit", "rk4"):
        Q, V = rolled(model, q, v, 5e-3, 100, integrator, record_every=100)
        Q, V = rolled(model, Q[-1], -V[-1], 5e-3, 100, integrator, record_every=100)
        gaps[integrator] = max(np.abs(model.difference(q, Q[-1])).max(), np.abs(V[-1] + v).max())
    assert gaps["variational"] < 1e-11
    assert gaps["semi_implicit"] > 1e-5
    if name == "arm":
        assert gaps["rk4"] > 1e-9


# ---- forces --------------------------------------------------------------------------------------


def test_forces_and_controllers_act_to_second_order():
    model = branching(4, 3, ["free", "revolute", "spherical", "revolute"])
    q, v = start(model, 2, 0.5)
    body = model.body_names[-1]
    options = {
        "forces": [pp.forces.JointDamper(None, 0.3), pp.forces.PointSpring(body, "world", 20.0),
                   pp.forces.Wrench(body, lambda t: [0, 0, 0, np.sin(3 * t), 0, 1])],
        "controller": lambda t, q, v: 0.2 * np.cos(t + np.arange(model.nv)),
    }  # fmt: skip
    exact = pp.simulate(model, q, v, 0.2, rtol=1e-12, atol=1e-14, output_times=[0.2], **options)
    errors = []
    for dt in (0.01, 0.005):
        run = pp.simulate(model, q, v, 0.2, integrator="variational", dt=dt, **options)
        gap = np.abs(model.difference(exact.q[-1], run.q[-1])).max()
        errors.append(gap + np.abs(run.v[-1] - exact.v[-1]).max())
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_a_stiff_spring_is_left_to_newtons_method():
    """The iteration alone would need steps of 1e-3 s; the energy is kept at ten times that."""
    arm = pp.examples.planar_arm(2)
    spring = pp.forces.JointSpring("joint2", 2e4)
    run = pp.simulate(
        arm, [0.4, 0.0], [0, 0], 0.5, integrator="variational", dt=1e-2, forces=spring
    )
    assert run.complete and np.abs(run.energy - run.energy[0]).max() < 0.05


# ---- what is refused, and what fails -------------------------------------------------------------


def test_a_step_that_is_too_long_names_its_trajectory():
    arm = pp.examples.planar_arm(3)
    v0 = np.zeros((9, 3))
    v0[5] = [0, 80, -104]
    with pytest.raises(
        SimulationError, match=r"trajectory \[5\] failed in step \d .*not solved.*1 of 9"
    ) as e:  # noqa: E501
        rolled(arm, np.tile(ARM, (9, 1)), v0, 0.02, 20, "variational")
    q, _ = e.value.trajectory  # type: ignore[misc]
    fine = rolled(arm, ARM, np.zeros(3), 0.02, 20, "variational")[0]
    assert np.array_equal(q[4], fine) and np.array_equal(q[6], fine)
    with pytest.raises(SimulationError, match="the step of 0.5 s is too long"):
        pp.simulate(arm, ARM, [0, 300, -400], 1.0, integrator="variational", dt=0.5)


def test_what_does_not_follow_from_a_lagrangian_is_refused():
    arm = pp.examples.planar_arm(2)
    zero, name = np.zeros(2), arm.joint_names[0]
    with pytest.raises(InputError, match="cannot be combined with prescribed joints.*\n.*rk4"):
        pp.simulate(arm, zero, zero, 0.1, integrator="variational", prescribed={name: 1.0})
    with pytest.raises(InputError, match="cannot be combined with prescribed joints"):
        pp.rollout(arm, zero, zero, zero, 0.1, 2, integrator="variational", prescribed=[name])
    with pytest.raises(InputError, match="second derivatives of the Lagrangian.*\n.*rk4"):
        pp.step_derivatives(arm, zero, zero, zero, 0.1, integrator="variational")
    with pytest.raises(InputError, match="second derivatives of the Lagrangian"):
        pp.rollout_gradient(arm, zero, zero, zero, 0.1, 2, integrator="variational",
                            final=lambda q, v: (0.0, q, v))  # fmt: skip
    tip = (arm.body_names[-1], (1.0, 0, 0))
    system = pp.System(
        arm, [pp.constraints.Spherical(name="grip", a=tip, b=("world", (2.0, 0, 0)))]
    )
    for run in (
        lambda: pp.simulate(system, zero, zero, 0.1, integrator="variational"),
        lambda: pp.rollout(system, zero, zero, zero, 0.1, 2, integrator="variational"),
    ):
        with pytest.raises(InputError, match="3 constraint rows: the projection.*\n.*rk4"):
            run()
    with pytest.raises(InputError, match="can be differentiated"):
        pp.step_derivatives(system, zero, zero, zero, 0.1, integrator="variational")
    # a system without rows is its tree
    empty = pp.System(arm, [])
    mine = pp.rollout(empty, zero, zero, zero, 0.1, 2, integrator="variational")
    for x, y in zip(mine, rolled(arm, zero, zero, 0.1, 2, "variational"), strict=True):
        assert np.array_equal(x, y)


def test_fixed_points_are_found_or_not():
    """Contraction, rounding that never settles, no contraction but a root, and no root."""

    def image(function):
        def found(w):
            new = function(w)
            return new, float(np.abs(new - w).max()) ** 2, float(np.abs(new).max()) ** 2

        return found

    one = np.array([1.0])
    np.testing.assert_allclose(solve(image(lambda w: 0.5 + 0.1 * np.sin(w)), one),
                               0.55248, atol=1e-5)  # fmt: skip
    noise = iter(np.tile([1e-13, -1e-13], 50))
    found = solve(image(lambda w: 0.5 + 0.01 * w + next(noise)), one)
    assert found is not None and abs(found[0] - 0.5 / 0.99) < 1e-12
    np.testing.assert_allclose(solve(image(lambda w: 2 - 30 * w), one), 2 / 31, rtol=1e-12)
    assert solve(image(lambda w: w + 1 + 0 * w), one) is None


def test_joint_formulas_of_batches_are_those_of_single_states():
    model = branching(5, 2, ["free", "spherical", "planar", "revolute", "universal"])
    steps, rng = Chart(model), np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(4)])
    v, a, f = (rng.standard_normal((4, model.nv)) for _ in range(3))
    for k in range(4):
        for many, one in (
            (steps.euler(q, v, a, 0.1), steps.euler(q[k], v[k], a[k], 0.1)),
            ((steps.middle(q, v, 0.1),), (steps.middle(q[k], v[k], 0.1),)),
            ((steps.end(q, v, 0.1),), (steps.end(q[k], v[k], 0.1),)),
            ((steps.wanted(v, 0.1, a, f, a),), (steps.wanted(v[k], 0.1, a[k], f[k], a[k]),)),
            ((steps.after(q, v, 0.1, a, f),), (steps.after(q[k], v[k], 0.1, a[k], f[k]),)),
        ):
            for x, y in zip(many, one, strict=True):
                np.testing.assert_allclose(x[k], y, rtol=0, atol=1e-15)
