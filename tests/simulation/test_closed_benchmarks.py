"""The mechanisms with loops by which the field compares codes, to their reference values."""

import numpy as np
import pytest
from amounts import ALL
from known_systems import (
    ANDREWS,
    andrews,
    andrews_equations,
    bricard,
    governor,
    n_four_bar,
    stewart,
)
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

import phipsi as pp


def top(system: pp.System, q) -> tuple[float, float]:
    """B0 of A02, the top of the first rod."""
    angle = q[system.model.q_slice("rod0")][0]
    return np.cos(angle), np.sin(angle)


def residual(run: pp.Trajectory) -> float:
    return float(np.abs(run.constraint_residuals).max(initial=0.0))


def imbalance(run: pp.Trajectory) -> float:
    """Energy that is neither there nor accounted for as work, J."""
    return float(np.abs(run.energy - run.energy[0] - run.work).max())


@pytest.mark.parametrize(
    ("options", "error"),
    [({}, 3e-7), ({"rtol": 1e-12, "atol": 1e-14}, 1e-9), ({"integrator": "rk4", "dt": 0.01}, 1e-6)],
    ids=["default", "tight", "rk4"],
)
def test_two_four_bars_pass_their_singular_position(options, error):
    """A02, N = 2: at every half turn 1 degree of freedom becomes 3."""
    system, q, v = n_four_bar(2)
    run = pp.simulate(system, q, v, 10.0, **options)
    values = {
        1: (-0.19502030194944, -0.98079920566217),
        2: (0.057815795768011, 0.99832726786346),
        10: (0.32845811154082, 0.94451853817860),
    }
    for t, exact in values.items():
        assert_allclose(top(system, run.at(t)[0]), exact, atol=error)
    assert residual(run) <= 1e-12
    assert np.ptp(run.energy) < 5 * error
    assert abs(run.q[:, 0]).max() > 4 * np.pi  # it went through the position many times
    # and stayed a parallelogram: all rods have one angle
    rods = [run.q[:, system.model.q_slice(f"rod{i}")][:, 0] for i in range(3)]
    assert_allclose(rods[1:], [rods[0]] * 2, atol=1e-9)


def test_two_four_bars_cut_at_the_ground_instead():
    """The same through from_graph: the tree is one chain of five rods from the ground."""
    rod = pp.SpatialInertia(1.0, (0.5, 0, 0), (0, 1 / 12, 1 / 12))
    hinge = pp.joints.Revolute((0, 0, 1))
    end = (1, 0, 0)
    bodies = {name: rod for name in ("rod0", "bar0", "rod1", "bar1", "rod2")}
    joints = [
        pp.constraints.GraphJoint("g0", hinge, "world", "rod0"),
        pp.constraints.GraphJoint("t0", hinge, ("rod0", end), "bar0"),
        pp.constraints.GraphJoint("t1", hinge, ("bar0", end), ("rod1", end)),
        pp.constraints.GraphJoint("s1", hinge, ("rod1", end), "bar1"),
        pp.constraints.GraphJoint("t2", hinge, ("bar1", end), ("rod2", end)),
        pp.constraints.GraphJoint("g1", hinge, ("world", (1, 0, 0)), "rod1"),
        pp.constraints.GraphJoint("g2", hinge, ("world", (2, 0, 0)), "rod2"),
    ]
    system = pp.System.from_graph(bodies, joints, gravity=(0, -9.81, 0), cut=["g1", "g2"])
    assert set(system.cut_joints) == {"g1", "g2"}
    start = {"g0": (np.pi / 2, -1), "t0": (-np.pi / 2, 1), "t1": (np.pi / 2, -1),
             "s1": (-np.pi / 2, 1), "t2": (np.pi / 2, -1)}  # fmt: skip
    q, v = np.transpose([start[name] for name in system.model.joint_names])
    run = pp.simulate(system, q, v, 2.0)
    angle = run.q[-1, system.model.q_slice("g0")][0]
    exact = (0.057815795768011, 0.99832726786346)
    assert_allclose((np.cos(angle), np.sin(angle)), exact, atol=1e-7)
    assert residual(run) <= 1e-12


def test_forty_four_bars():
    """A02, N = 40: 81 bodies, 40 loops, 1 → 41 degrees of freedom."""
    system, q, v = n_four_bar(40)
    run = pp.simulate(system, q, v, 1.0, rtol=1e-8)
    assert_allclose(top(system, run.q[-1]), (-0.11535688063211, -0.99332411130045), atol=1e-7)
    assert residual(run) <= 1e-12


def test_andrews_squeezing_mechanism():
    """A03: against the equations of Hairer and Wanner, and the value of the IVP test set."""
    system, q, spring = andrews()
    assert_allclose(system.residual(q), 0, atol=1e-15)
    drive = np.zeros(7)
    drive[system.model.v_slice("K1")] = ANDREWS["drive"]
    run = pp.simulate(
        system, q, np.zeros(7), 0.05, controller=lambda t, q, v: drive, forces=[spring], work=True
    )
    places = [system.model.q_slice(f"K{k}").start for k in range(1, 8)]
    start = [*ANDREWS["start"], *np.zeros(7)]
    times, exact = (0.03, 0.05), {"method": "DOP853", "rtol": 1e-12, "atol": 1e-12}
    other = solve_ivp(andrews_equations, (0, 0.05), start, t_eval=times, **exact)
    for t, y in zip(times, other.y.T, strict=True):
        assert_allclose(run.at(t)[0][places], y[:7], atol=2e-6)
    known = [15.81077119629904, -15.75637105984298, 0.04082224013073101, -0.5347301163226948,
             0.5244099658805304, 0.5347301163226948, 1.048080741042263]  # fmt: skip
    assert_allclose(run.at(0.03)[0][places], known, atol=1e-6)
    work = ANDREWS["drive"] * (run.q[:, places[0]] - q[places[0]])
    assert_allclose(run.work, work, atol=1e-8)
    assert imbalance(run) <= 1e-8 and np.ptp(run.energy) > 1
    assert residual(run) <= 1e-8


@pytest.mark.parametrize(
    "options",
    [{"rtol": 1e-11, "atol": 1e-13}, {"integrator": "rk4", "dt": 0.0025}],
    ids=["dopri", "rk4"],
)
def test_bricard_swings_although_it_is_over_constrained(options):
    """A04: counted on paper it cannot move; it swings down and back up, and keeps its energy."""
    run = pp.simulate(bricard(), np.zeros(5), np.zeros(5), 10.0, **options)
    assert residual(run) <= 1e-8
    assert np.ptp(run.energy) <= 1e-8
    assert np.abs(run.q).max() > 1.0
    high = pp.potential_energy(run.model, run.q)
    assert high.min() < high[0] - 4.0 and high.max() <= high[0] + 1e-6


def test_bricard_does_not_depend_on_where_it_is_cut():
    """The six revolutes as a graph, cut at P2 instead of P5."""
    points = np.array([(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1.0)])
    axes = np.array([(0, 1, 0), (0, 0, 1), (1, 0, 0)] * 2)
    bodies = dict(zip(bricard().model.body_names, bricard().model.inertias, strict=True))
    names = ["world", *bodies, "world"]

    def end(name: str, i: int):
        host = 0 * points[0] if name == "world" else points[list(bodies).index(name)]
        return (name, points[i] - host)

    joints = [
        pp.constraints.GraphJoint(
            f"P{i}", pp.joints.Revolute(axes[i]), end(names[i], i), end(names[i + 1], i)
        )
        for i in range(6)
    ]
    other = pp.System.from_graph(bodies, joints, gravity=(0, -9.81, 0), cut=["P2"])
    assert other.cut_joints == ("P2",)
    zero = np.zeros(5)
    runs = [pp.simulate(s, zero, zero, 3.0) for s in (bricard(), other)]
    a, b = (r.at(3.0)[0][r.model.q_slice("rod0" if r is runs[0] else "P0")] for r in runs)
    assert_allclose(a, b, atol=1e-8)


def test_flyball_governor():
    """A05, stiff: the slider as a joint and as a constraint, and the energy the dampers take."""
    runs, end = [], 10.0 if ALL else 4.0
    for as_joint in (True, False):
        system, q, v, springs = governor(as_joint)
        options = {"integrator": "radau", "rtol": 1e-7, "atol": 1e-9, "work": True}
        runs.append(pp.simulate(system, q, v, end, forces=springs, **options))
    one, two = runs
    places = [[r.model.q_slice(n).start for n in ("shaft", "right", "left")] for r in runs]
    for t in (1.0, 0.5 * end, end):
        assert_allclose(one.at(t)[0][places[0]], two.at(t)[0][places[1]], atol=2e-4)
    height = [r.at(end)[0][r.model.q_slice("slider")][-1] for r in runs]
    assert_allclose(height[0], height[1], atol=1e-5)
    assert residual(two) <= 1e-8
    for run in runs:
        assert imbalance(run) <= 1e-8
        assert run.work[-1] < -2e-3  # 239 J are there; in 10 s the dampers take 3 mJ of them
    assert_allclose(one.work[-1], two.work[-1], atol=1e-8)


@pytest.mark.parametrize("as_joint", [True, False])
def test_the_dampers_of_the_governor_take_what_their_formula_says(as_joint):
    system, q, v, springs = governor(as_joint)
    ends = [(("right", (0.5, 0, 0)), ("slider", (0.05, 0, 0))),
            (("left", (-0.5, 0, 0)), ("slider", (-0.05, 0, 0)))]  # fmt: skip
    model = system.model

    def power(t: float, q: np.ndarray, v: np.ndarray) -> float:
        """c l̇² of the two spring-dampers."""
        X, total = pp.poses(model, q), 0.0
        for pair in ends:
            J = pp.jacobian(model, q, list(pair))
            at = [X[model.body_index(n)] for n, _ in pair]
            x = [Y[:3, :3] @ np.array(p) + Y[:3, 3] for Y, (_, p) in zip(at, pair, strict=True)]
            along = (x[1] - x[0]) / np.linalg.norm(x[1] - x[0])
            total += 4e4 * float(along @ (J[9:12] - J[3:6]) @ v) ** 2
        return total

    run = pp.simulate(
        system, q, v, 0.05, forces=springs, integrator="radau", rtol=1e-8, atol=1e-10,
        work=True, quadratures={"lost": power},
    )  # fmt: skip
    assert run.totals["lost"] > 1e-3
    assert_allclose(run.work, -run.quadratures["lost"], atol=1e-8)
    assert imbalance(run) <= 1e-8 and residual(run) <= 1e-8
    assert (np.diff(run.quadratures["lost"]) > 0).all()


def test_stewart_platform_on_springs_keeps_its_energy():
    system, rough = stewart()
    q = system.assemble(rough)
    model = system.model
    assert system.mobility(q).mobility == 6
    legs = [f"piston{i}" for i in range(6)]
    springs = [pp.forces.JointSpring(n, 2000.0, q[model.q_slice(n)][0] + 0.02) for n in legs]
    v = np.zeros(model.nv)
    v[model.v_slice("plate")] = [0.3, -0.2, 0.5, 0.1, 0.2, -0.1]
    q, v = system.project(q, v)
    run = pp.simulate(system, q, v, 2.0 if ALL else 0.7, forces=springs, rtol=1e-10)
    assert residual(run) <= 1e-8
    assert np.ptp(run.energy) < 1e-8
    assert np.abs(run.q[:, model.q_slice("plate")][:, 4:] - [0, 0, 0.9]).max() > 0.01


def test_stewart_platform_follows_the_legs_it_is_given():
    """Rates of all six legs prescribed as rows: the plate's motion is determined by them."""
    system, rough = stewart()
    model = system.model
    legs = [
        pp.constraints.Rows(
            name=f"motor{i}", points=[f"piston{i}"], axes="body",
            A=[[0, 0, 0, 0, 0, 1]], row_velocity=0.1,
        )
        for i in range(6)
    ]  # fmt: skip
    driven = pp.System(model, [*system.constraints, *legs])
    q, v = driven.project(system.assemble(rough), np.zeros(model.nv))
    assert driven.mobility(q).mobility == 0
    run = pp.simulate(driven, q, v, 0.5, work=True)
    assert imbalance(run) <= 1e-8 and run.work[-1] > 1  # the motors lift the plate
    lengths = run.q[:, [model.q_slice(f"piston{i}").start for i in range(6)]]
    assert_allclose(lengths - lengths[0], 0.1 * run.t[:, None] * np.ones(6), atol=1e-9)
    rise = run.q[-1, model.q_slice("plate")] - run.q[0, model.q_slice("plate")]
    assert rise[6] > 0.05 and np.abs(rise[4:6]).max() < 1e-9
