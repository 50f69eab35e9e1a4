"""Rollouts of closed chains: machine code against steps in NumPy, bits, energy, and failures."""

import itertools
from functools import cache

import known_systems
import numpy as np
import pytest
from amounts import mostly, seeds
from random_systems import KINDS, admissible, random_system

import phipsi as pp
from phipsi import constraints as c
from phipsi.algorithms.constrained import constraint_rows
from phipsi.errors import InputError, SimulationError
from phipsi.simulation.kinematic_loops import closure_code, closure_terms, unrolled_elimination
from phipsi.simulation.runs import rollout, run_code

X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
ROD = pp.SpatialInertia(1.0, (0.5, 0, 0), (0.01, 0.1, 0.1))


def slider_crank():
    b = pp.ModelBuilder(gravity=(0, -9.81, 0))
    b.add_body("crank", joint=pp.joints.Revolute(Z), inertia=ROD)
    b.add_body(
        "rod", parent="crank", joint=pp.joints.Revolute(Z), placement=pp.Pose(None, X), inertia=ROD
    )
    b.add_body("slider", joint=pp.joints.Prismatic(X), inertia=pp.SpatialInertia(0.5, (0, 0, 0)))
    pin = c.Revolute(Z, name="pin", a=("rod", X), b="slider")
    system = pp.System(b.build(), [pin])
    return system, system.assemble([0.7, -1.4, 1.5])


def door():
    """A free body on three balls in a line: nine rows of which five are independent."""
    b = pp.ModelBuilder()
    b.add_body("door", joint=pp.joints.Free(), inertia=pp.SpatialInertia(2.0, (0.5, 0.1, 0), 0.3))
    b.add_body(
        "bell", parent="door", joint=pp.joints.Spherical(), placement=pp.Pose(None, X), inertia=ROD
    )
    pins = [c.Spherical(name=f"pin{z}", a=("door", (0, 0, z)), b=("world", (0, 0, z)))
            for z in (0.0, 0.7, 1.1)]  # fmt: skip
    system = pp.System(b.build(), pins)
    return system, system.model.neutral()


def carried():
    """Two four-bars on a free body, and rods of fixed length between them."""
    system, q = known_systems.n_four_bar(2)[:2]
    return system, q


def riding():
    system = known_systems.bicycle()
    return system, known_systems.riding(system, 3.0)[0]


def assembled(system, *start):
    return system, system.assemble(*start)


MECHANISMS = {
    "four-bar": lambda: assembled(known_systems.four_bar(), [1.0, -1.0, -1.5]),
    "slider-crank": slider_crank,
    "Stewart platform": known_systems.stewart,
    "Bricard": lambda: assembled(known_systems.bricard()),
    "governor": lambda: known_systems.governor(False)[:2],
    "gears": lambda: assembled(known_systems.twin_gears()),
    "bicycle": riding,
    "two four-bars": carried,
    "door": door,
    "parallelogram": known_systems.parallelogram,
}


@cache
def known(name):
    """A mechanism with what was compiled for it, for tests that change nothing in the library."""
    return MECHANISMS[name]()


def states(system, q, count, seed=0, speed=0.5):
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((count, system.nv)) * speed
    return system.project(np.broadcast_to(q, (count, system.nq)), v)


def no_code(*_):
    raise InputError("no machine code")


def in_numpy(monkeypatch, *arguments, **options):
    with monkeypatch.context() as m:
        m.setattr(rollout, "_plan", no_code)
        return pp.rollout(*arguments, **options)


@pytest.fixture
def numpy_steps(monkeypatch):
    """How many motions took each of the steps in NumPy."""
    found, step = [], rollout.projected_step

    def counted(motion, method, q, *more):
        found.append(len(q))
        return step(motion, method, q, *more)

    monkeypatch.setattr(rollout, "projected_step", counted)
    return found


def compare(monkeypatch, numpy_steps, system, q, steps, dt, tolerance, **options):
    q0, v0 = states(system, q, 3)
    tau = np.random.default_rng(1).standard_normal((3, steps, system.nv))
    arguments = (system, q0, v0, tau, dt, steps)
    found = pp.rollout(*arguments, record_every=steps // 4, **options)
    assert not numpy_steps
    wanted = in_numpy(monkeypatch, *arguments, record_every=steps // 4, **options)
    assert len(numpy_steps) == steps
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance)
    assert np.abs(system.residual(found[0])).max() < 1e-10
    assert np.abs(found[0][:, -1] - q0).max() > 1e-4


BOTH = [(name, "rk4") for name in MECHANISMS]
BOTH += [(name, "semi_implicit") for name in ("four-bar", "Bricard", "door", "parallelogram")]


@pytest.mark.parametrize(("name", "integrator"), BOTH)
def test_steps_are_those_in_numpy(name, integrator, monkeypatch, numpy_steps):
    system, q = known(name)
    compare(monkeypatch, numpy_steps, system, q, 12, 4e-3, 1e-10, integrator=integrator)


GROUPS = {  # by kinds, the number of bodies
    ("Weld", "Distance"): 7, ("Revolute", "PointOnLine", "Rows"): 7,
    ("Prismatic", "Spherical", "Coupling"): 7, ("Cylindrical", "Universal", "Planar"): 9,
}  # fmt: skip


@pytest.mark.parametrize("kinds", GROUPS)
def test_every_kind_of_constraint(kinds, monkeypatch, numpy_steps):
    system, q = random_system(5, GROUPS[kinds], kinds, n_roots=2, independent=True)
    assert tuple(type(x).__name__ for x in system.constraints) == kinds
    compare(monkeypatch, numpy_steps, system, q, 12, 3e-4, 1e-10)


def test_all_kinds_are_tried():
    assert {kind for kinds in GROUPS for kind in kinds} == set(KINDS)


@pytest.mark.parametrize("seed", seeds(4, 1))
def test_random_systems(seed, monkeypatch, numpy_steps):
    kinds = [KINDS[(3 * seed + 5 * j) % len(KINDS)] for j in range(3)]
    system, q = random_system(seed, 6, kinds, n_roots=1 + seed % 2, independent=True)
    compare(monkeypatch, numpy_steps, system, q, 12, 3e-4, 1e-10)


@pytest.mark.parametrize("name", mostly(["four-bar", "parallelogram", "bicycle"], "parallelogram"))
def test_large_systems_are_solved_by_sweeps(name, monkeypatch, numpy_steps):
    monkeypatch.setattr(unrolled_elimination, "MOST_PRODUCTS", 0)
    system, q = MECHANISMS[name]()
    assert unrolled_elimination.elimination_of(system) is None
    assert len(closure_code.closure_programs(system)) == len(closure_code.SWEEPS)
    compare(monkeypatch, numpy_steps, system, q, 12, 4e-3, 1e-10)


@pytest.mark.parametrize("name", ["four-bar", "gears"])
def test_terms_from_programs_give_the_same_steps(name, monkeypatch, numpy_steps):
    """As for systems of many bodies, which are not unrolled."""
    system, _ = MECHANISMS[name]()
    assert isinstance(closure_terms.choose_closure_solver(system), closure_terms.Unrolled)
    monkeypatch.setattr(closure_terms, "MOST_BODIES", 0)
    system, q = MECHANISMS[name]()
    assert isinstance(closure_terms.choose_closure_solver(system), unrolled_elimination.Elimination)
    compare(monkeypatch, numpy_steps, system, q, 12, 4e-3, 1e-10)


@pytest.mark.parametrize("name", MECHANISMS)
def test_nothing_is_left_out_of_the_patterns(name):
    """Entries that code without loops takes for zero are, at other configurations too."""
    system, _ = known(name)
    found = unrolled_elimination.elimination_of(system)
    assert found is not None
    q = system.model.random_configuration(np.random.default_rng(7), (20,))
    mass, motion = pp.mass_matrix(system.model, q), system.jacobian(q)
    for i, others in enumerate(found.mass):
        left = np.setdiff1d(np.arange(i), others)
        assert np.abs(mass[:, i, left]).max(initial=0) < 1e-12 * np.abs(mass).max()
    rates = dict(zip(found.rows, found.motions, strict=True))
    for i in range(system.n_rows):
        left = np.setdiff1d(np.arange(system.nv), rates.get(i, ()))
        assert np.abs(motion[:, i, left]).max(initial=0) < 1e-12 * np.abs(motion).max()


def test_planar_loops_have_two_rows():
    found = unrolled_elimination.elimination_of(known_systems.four_bar())
    assert found is not None
    assert found.rows == (2, 3)
    assert found.motions == ((0, 1, 2), (0, 1, 2))


def test_prescribed_rates_are_kept():
    arm = pp.examples.planar_arm(3)
    turn = c.Rows(name="turn", points=["link1"], A=[[0, 0, 1, 0, 0, 0]], row_velocity=0.5)
    tip = c.PointOnLine(Z, name="tip", a="tip", b=("world", (1.5, 0, 0)))
    system = pp.System(arm, [turn, tip])
    q, v = system.project(system.assemble([1.0, -1.0, -1.5]), np.zeros(3))
    q, v = pp.rollout(system, q, v, np.zeros(3), 1e-3, 100)
    np.testing.assert_allclose(v[:, 0], 0.5, atol=1e-12)
    np.testing.assert_allclose(q[:, 0] - q[0, 0], 0.5e-3 * np.arange(101), atol=1e-10)


# ---- bits -----------------------------------------------------------------------------------


BITS = [
    (name, x)
    for name in ("four-bar", "Stewart platform", "parallelogram")
    for x in ("rk4", "semi_implicit")
]


@pytest.mark.parametrize(("name", "integrator"), mostly(BITS, BITS[3], BITS[4]))
def test_a_trajectory_has_the_same_bits_in_any_batch(name, integrator):
    system, q = known(name)
    q0, v0 = states(system, q, 21, speed=2.0)
    run = {"dt": 2e-3, "steps": 30, "record_every": 10, "integrator": integrator}
    whole = pp.rollout(system, q0, v0, np.zeros(system.nv), **run)
    for threads in (2, 3):
        shared = pp.rollout(system, q0, v0, np.zeros(system.nv), threads=threads, **run)
        assert all((x == y).all() for x, y in zip(whole, shared, strict=True))
    for some in ([4], [20, 3], slice(5, 14)):
        part = pp.rollout(system, q0[some], v0[some], np.zeros(system.nv), **run)
        assert all((x[some] == y).all() for x, y in zip(whole, part, strict=True))


def test_a_run_continues_from_a_record():
    system, q = known("four-bar")
    q0, v0 = states(system, q, 5)
    tau = np.random.default_rng(2).standard_normal((5, 60, 3))
    q, v = pp.rollout(system, q0, v0, tau, 1e-3, 60, record_every=20)
    again = pp.rollout(system, q[:, 1], v[:, 1], tau[:, 20:], 1e-3, 40, record_every=20)
    assert (again[0] == q[:, 1:]).all()
    assert (again[1] == v[:, 1:]).all()


def test_energy_is_kept():
    system, q = known("four-bar")
    q0, v0 = states(system, q, 4, speed=3.0)
    q, v = pp.rollout(system, q0, v0, np.zeros(3), 1e-3, 1000, record_every=100)
    energy = pp.kinetic_energy(system, q, v) + pp.potential_energy(system, q)
    assert np.abs(energy - energy[:, :1]).max() < 1e-7 * np.abs(energy).max()
    q, v = pp.rollout(
        system, q0, v0, [1.0, 0.0, 0.0], 1e-3, 1000, record_every=100
    )  # the crank is driven
    change = pp.kinetic_energy(system, q, v) + pp.potential_energy(system, q) - energy[:, :1]
    np.testing.assert_allclose(change, (q - q[:, :1])[..., 0], atol=1e-6)


# ---- where machine code stops -------------------------------------------------------------------


def flat_parallelogram():
    """Two cranks and a bar that pass through a line, where the rank of the rows changes."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    b.add_body("crank", joint=pp.joints.Revolute(Z), inertia=ROD)
    b.add_body(
        "bar", parent="crank", joint=pp.joints.Revolute(Z), placement=pp.Pose(None, X), inertia=ROD
    )
    b.add_body("rocker", joint=pp.joints.Revolute(Z), placement=pp.Pose(None, X), inertia=ROD)
    pin = c.Revolute(Z, name="pin", a=("bar", X), b=("rocker", X))
    return pp.System(b.build(), [pin])


def test_a_motion_through_a_singular_configuration(monkeypatch, numpy_steps):
    system = flat_parallelogram()
    at = np.array([-0.2, -0.05, 0.4, 1.3])
    q0 = np.stack([at, -at, at], axis=-1)
    v0 = np.broadcast_to([1.0, -1.0, 1.0], q0.shape)
    arguments = (system, q0, v0, np.zeros(3), 1e-3, 100)
    q, v = pp.rollout(*arguments, record_every=10)
    wanted = in_numpy(monkeypatch, *arguments, record_every=10)
    for x, y in zip((q, v), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-9)
    np.testing.assert_allclose(q[..., 0] + q[..., 1], 0, atol=1e-9)
    np.testing.assert_allclose(q[..., 0], q[..., 2], atol=1e-9)


def test_reproducible_motions_of_loops_end_where_only_numpy_goes_on():
    system = flat_parallelogram()
    at = np.array([0.4, -0.9, 1.3])
    q0 = np.stack([at, -at, at], axis=-1)
    v0 = np.broadcast_to([1.0, -1.0, 1.0], q0.shape)
    rest = (np.zeros(3), 1e-3, 40)
    q, v = pp.rollout(system, q0, v0, *rest, record_every=20, reproducible=True)
    for i in range(3):
        one = pp.rollout(system, q0[i], v0[i], *rest, record_every=20, reproducible=True)
        assert np.array_equal(one[0], q[i]) and np.array_equal(one[1], v[i])
    sim = pp.Simulator(system, reproducible=True)
    run = sim.rollout(sim.initial_state(q0, v0), steps=40, record_every=20)
    assert np.array_equal(run.q, q) and np.array_equal(run.v, v)
    singular = [1e-7, -1e-7, 1e-7], v0[0], [0.0, 1.0, 0.0], 1e-3, 30
    pp.rollout(system, *singular)
    with pytest.raises(SimulationError, match="without reproducible=True"):
        pp.rollout(system, *singular, reproducible=True)
    with pytest.raises(InputError, match="stepped with NumPy"):
        pp.rollout(system, q0, v0, *rest, prescribed=["crank"], reproducible=True)


def test_rows_in_doubt_are_decided_by_singular_values(monkeypatch, numpy_steps):
    """So close to a line that elimination drops a row, which asks for something else."""
    system = flat_parallelogram()
    at = np.array([0.4, 1e-7, 1.3])
    q0 = np.stack([at, -at, at], axis=-1)
    v0 = np.broadcast_to([1.0, -1.0, 1.0], q0.shape)
    arguments = (system, q0, v0, [0.0, 1.0, 0.0], 1e-3, 30)
    found = pp.rollout(*arguments, record_every=10)
    assert numpy_steps == [1] * 10
    wanted = in_numpy(monkeypatch, *arguments, record_every=10)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-9)


def test_a_motion_that_stops_goes_on_in_numpy_for_one_record(monkeypatch, numpy_steps):
    system, q = MECHANISMS["four-bar"]()
    q0, v0 = states(system, q, 11)
    tau = np.random.default_rng(3).standard_normal((11, 40, 3))
    arguments = (system, q0, v0, tau, 1e-3, 40)
    whole = pp.rollout(*arguments, record_every=10)
    run, started = rollout._run, []

    def stopping(plan, arrays, outs, *more):
        status, failed_at = run(plan, arrays, outs, *more)
        if not started:  # as if rows were in doubt in two motions
            outs[0][2, 2:], outs[0][7, 3:] = np.nan, np.nan
            status[2], failed_at[2], status[7], failed_at[7] = 6, 17, 6, 29
        started.append(len(arrays[0]))
        return status, failed_at

    monkeypatch.setattr(rollout, "_run", stopping)
    again = pp.rollout(*arguments, record_every=10)
    assert started == [11, 1, 1]
    assert numpy_steps == [1] * 20
    for x, y in zip(again, whole, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-11)
        others = np.delete(np.arange(11), [2, 7])
        assert (x[others] == y[others]).all()


FAILED = r"(?s)trajectory \[1\] failed in step 12 \(t = 0.12 s\): the loops cannot.*'rod'"


@pytest.mark.parametrize("stop", [3, 12, 22])
def test_a_motion_that_stops_at_any_place(stop, monkeypatch, numpy_steps):
    """Steps before, between and after the records: 23 of them, a record every 10."""
    system, q = MECHANISMS["four-bar"]()
    q0, v0 = states(system, q, 4)
    arguments = (system, q0, v0, np.zeros(3), 1e-3, 23)
    whole = pp.rollout(*arguments, record_every=10)
    run, started = rollout._run, []

    def stopping(*given):
        status, failed_at = run(*given)
        if not started:
            status[1], failed_at[1] = 6, stop
        started.append(len(status))
        return status, failed_at

    monkeypatch.setattr(rollout, "_run", stopping)
    again = pp.rollout(*arguments, record_every=10)
    assert started == ([4, 1] if stop < 20 else [4])
    assert numpy_steps == [1] * (10 if stop < 20 else 3)
    for x, y in zip(again, whole, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-11)


def test_one_that_cannot_go_on_is_an_error_with_loop_and_step():
    """A crank that a rod cannot follow: the step ends where no rod of this length reaches."""
    arm = pp.examples.planar_arm(2)
    rod = c.Distance(0.2, name="rod", a="tip", b=("world", (1.9, 0.0, 0.0)))
    system = pp.System(arm, [rod])
    q = system.assemble([0.3, -0.4])
    v0 = np.array([np.zeros(2), system.project(q, [0.5, 0.1])[1], np.zeros(2)])
    tau = np.zeros((3, 20, 2))
    tau[1, 12:] = 1e9
    with pytest.raises(pp.errors.SimulationError, match=FAILED) as caught:
        pp.rollout(system, np.stack([q] * 3), v0, tau, 1e-2, 20, record_every=5)
    kept, _ = caught.value.trajectory  # type: ignore[misc]
    assert kept.shape == (3, 3, 2)
    good = pp.rollout(system, np.stack([q] * 3), v0, np.zeros(2), 1e-2, 10, record_every=5)
    assert (kept == good[0]).all()


def test_a_start_off_the_constraints_is_rejected():
    system, q = known("four-bar")
    with pytest.raises(pp.errors.InputError, match="does not close the loops"):
        pp.rollout(system, q + 0.01, np.zeros(3), np.zeros(3), 1e-3, 5)


# ---- twins that must fail -----------------------------------------------------------------------


def residual_of(tables, system, q):
    """The residual by the numbers that machine code reads."""
    poses = [*pp.poses(system.model, q), np.eye(4)]
    entries = []
    for hosts, numbers in zip(tables.hosts, tables.frames, strict=True):
        frames = []
        for host, own in zip(hosts, numbers, strict=True):
            frame = np.eye(4)
            frame[:3, :3], frame[:3, 3] = own[:9].reshape(3, 3), own[9:]
            frames.append(poses[host] @ frame)
        seen = np.linalg.inv(frames[0]) @ frames[1]
        entries.append([*seen[:3, :3].ravel(), *seen[:3, 3], np.linalg.norm(seen[:3, 3])])
    g = tables.start.copy()
    for (row, k), factors in zip(tables.places, tables.factors, strict=True):
        g[row] += factors @ entries[k]
    for (row, entry), slope in zip(tables.pairs, tables.slopes, strict=True):
        g[row] += slope * q[entry]
    return g


@pytest.mark.parametrize("seed", seeds(4))
def test_the_tables_give_the_residual_of_open_loops(seed):
    kinds = [KINDS[(seed + 4 * j) % len(KINDS)] for j in range(4)]
    system, _ = random_system(seed, 9, kinds)
    tables = closure_code.residual_tables(system)
    q = system.model.random_configuration(np.random.default_rng(seed))
    found = residual_of(tables, system, q)
    np.testing.assert_allclose(found, system.residual(q), atol=1e-12)
    assert np.abs(found).max() > 0.01


@pytest.mark.parametrize(
    "name", mostly(["four-bar", "Stewart platform", "gears"], "Stewart platform")
)
def test_a_wrong_number_in_the_table_is_noticed(name, monkeypatch, numpy_steps):
    """Of the residuals, which code without loops and records both take from it."""
    system, q = MECHANISMS[name]()
    q0, v0 = states(system, q, 3)
    right = constraint_rows.ClosureRows.residual_table

    def wrong(self):
        found = right(self)
        return found._replace(start=found.start + 1e-4)

    monkeypatch.setattr(constraint_rows.ClosureRows, "residual_table", wrong)
    with pytest.raises(AssertionError):
        compare(monkeypatch, numpy_steps, system, q0[0], 40, 1e-3, 1e-10)


@pytest.mark.parametrize("skipped", ["project", "x", "y"])
def test_without_its_projection_the_loops_open(skipped, monkeypatch, numpy_steps, tmp_path):
    """The comparison fails when a correction, of q or of v, is left out of the code."""
    made = itertools.count()
    monkeypatch.setattr(run_code, "_version", lambda: f"without {skipped} {next(made)}")
    monkeypatch.setenv("PHIPSI_CACHE", str(tmp_path))
    if skipped == "project":
        monkeypatch.setattr(closure_code.Closures, "project", lambda self: None)
    else:
        start = closure_code.Closures.__init__

        def without(self, *args):
            start(self, *args)
            correct, place = self.solution.correct, getattr(self, skipped)

            def zero(final):
                correct(final)
                self.m.each(0, self.nv)(lambda i: place.__setitem__(i, 0.0))

            self.solution.correct = zero

        monkeypatch.setattr(closure_code.Closures, "__init__", without)
    system = known_systems.four_bar(mass=2.0)
    q = system.assemble([1.0, -1.0, -1.5])
    with pytest.raises(AssertionError):
        compare(monkeypatch, numpy_steps, system, q, 40, 1e-2, 1e-10, integrator="semi_implicit")


def test_admissible_rates_stay_admissible():
    system, q = known("Stewart platform")
    q = system.assemble(q)
    v0 = admissible(system, q, np.random.default_rng(4))
    q, v = pp.rollout(system, q, v0, np.zeros(24), 1e-3, 50, record_every=50)
    assert np.abs(system.jacobian(q[-1]) @ v[-1]).max() < 1e-11
