"""All forms of constrained forward dynamics against the dense KKT solution, on both backends."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from amounts import ALL, mostly, seeds
from comparers import close
from known_systems import four_bar, twin_gears
from numpy.testing import assert_allclose
from random_systems import KINDS, admissible, kkt, random_system

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import FORMS, forward_with_rows
from phipsi.operators import A, A_grasp, J, Lambda, M, mass_matrix

BACKENDS = ("reference", "native")
# machine code takes seconds per program to make, so it gets fewer of them; every form in machine
# code is in test_system_batches.py
CASES = [(s, "reference", form) for s in seeds(8, 2) for form in (None, *FORMS)]
CASES += [(1, "native", form) for form in mostly((None, *FORMS), *FORMS)]
REDUNDANT = [(100 + s, "reference") for s in seeds(12)]
REDUNDANT += mostly([(s, "native") for s in (102, 107)], (107, "native"))


@cache
def case(seed: int, *, independent: bool):
    """A random system in motion, with 1 to 6 loops."""
    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[: rng.integers(1, 7)]]
    system, q = random_system(
        seed, int(rng.integers(4, 10)), kinds, n_roots=int(rng.integers(1, 3)),
        independent=independent,
    )  # fmt: skip
    v = admissible(system, q, rng)
    return system, q, v, rng.standard_normal(system.model.nv)


def condition(system: pp.System, q) -> float:
    """Condition number of the independent part of A Λ A*, in units of its diagonal."""
    S = pp.delassus_matrix(system, q)
    size = np.sqrt(np.where(np.diag(S) > 0, np.diag(S), 1))
    s = np.linalg.svd(S / np.outer(size, size), compute_uv=False)
    kept = s[s > 1e-11 * s.max()] if len(s) else np.ones(1)
    return float(kept.max() / kept.min())


@pytest.mark.parametrize(("seed", "backend", "form"), CASES)
def test_forms_agree_with_the_dense_solution(seed, form, backend):
    system, q, v, tau = case(seed, independent=True)
    wanted, wanted_f = kkt(system, q, v, tau)
    how = "full" if form is None else "as_written"
    program = pp.compile(
        forward_with_rows(form, False, False), system, rewrite=how, backend=backend
    )
    vdot, f = program(q, v, tau)
    assert program.backend == backend
    tolerance = 1e-9 * max(1.0, 1e-4 * condition(system, q))
    close(vdot, wanted, tolerance)
    close(f, wanted_f, tolerance)


@pytest.mark.parametrize(("seed", "backend"), REDUNDANT)
def test_redundant_rows_leave_the_accelerations_unique(seed, backend):
    system, q, v, tau = case(seed, independent=False)
    wanted, _ = kkt(system, q, v, tau)
    vdot, f = pp.compile(forward_with_rows(None, False, False), system, backend=backend)(q, v, tau)
    size = max(1, np.abs(wanted).max()) * max(1.0, 1e-4 * condition(system, q))
    assert_allclose(vdot, wanted, rtol=0, atol=1e-9 * size)
    G, M = system.jacobian(q), pp.mass_matrix(system.model, q)
    load = tau - pp.bias_forces(system.model, q, v)
    assert_allclose(M @ vdot + G.T @ f, load, rtol=0, atol=1e-8 * size * np.abs(M).max())


@pytest.mark.parametrize("seed", seeds(5))
def test_neither_order_nor_repetition_of_rows_matters(seed):
    """Every constraint twice: accelerations stay, and multipliers of least norm are halved."""
    rng = np.random.default_rng(seed)
    kinds = ("Revolute", "Distance", "Spherical")
    system, q = random_system(seed, 7, kinds, spare=3, n_roots=2, independent=True)
    again = [replace(c, name=f"{c.name} again") for c in system.constraints]
    v, tau = admissible(system, q, rng), rng.standard_normal(system.model.nv)
    vdot, f = pp.forward_dynamics(system, q, v, tau), pp.constraint_forces(system, q, v, tau)
    for listed in ([*system.constraints, *again], [*again[::-1], *system.constraints]):
        double = pp.System(system.model, listed)
        assert len(double.redundant_rows(q)) == system.n_rows
        found = pp.forward_dynamics(double, q, v, tau)
        close(found, vdot, 1e-9)
        shares = dict(zip(double.row_names, pp.constraint_forces(double, q, v, tau), strict=True))
        mine = [shares[name] for name in system.row_names]
        assert_allclose(mine, f / 2, rtol=0, atol=1e-8 * max(1, np.abs(f).max()))


def test_a_planar_four_bar_in_space_has_three_redundant_rows():
    system = four_bar()
    q = system.assemble([1.0, -0.8, -1.5])
    rng = np.random.default_rng(0)
    v, tau = admissible(system, q, rng), rng.standard_normal(system.model.nv)
    wanted, wanted_f = kkt(system, q, v, tau)
    assert_allclose(pp.forward_dynamics(system, q, v, tau), wanted, rtol=1e-9, atol=1e-9)
    f = pp.constraint_forces(system, q, v, tau)
    assert_allclose(f, wanted_f, rtol=0, atol=1e-8 * np.abs(wanted_f).max())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_gives_what_its_elements_give(backend):
    system, q, v, tau = case(1, independent=True)
    program = pp.compile(forward_with_rows(None, False, False), system, backend=backend)
    rng = np.random.default_rng(1)
    many = v + 0.1 * rng.standard_normal((19, len(v)))
    together = program(q, many, tau)
    for i in (0, 7, 18):
        for one, all_ in zip(program(q, many[i], tau), together, strict=True):
            np.testing.assert_array_equal(one, all_[i])


@pytest.mark.parametrize("seed", range(6))
def test_prescribed_rates_and_external_forces_enter(seed):
    system, q, v, tau = case(seed, independent=True)
    model = system.model
    rng = np.random.default_rng(seed)
    Udot = rng.standard_normal(system.n_rows)
    f_ext = rng.standard_normal((model.n_bodies, 6))
    vdot, _, f = pp.forward_dynamics(
        system, q, v, tau, f_ext, row_acceleration=Udot, return_multipliers=True
    )
    G, M = system.jacobian(q), pp.mass_matrix(model, q)
    size = max(1, np.abs(vdot).max()) * max(1.0, 1e-4 * condition(system, q))
    assert_allclose(G @ vdot + system.bias(q, v), Udot, rtol=0, atol=1e-9 * size)
    needed = pp.inverse_dynamics(model, q, v, vdot, f_ext)
    assert_allclose(needed + G.T @ f, tau, rtol=0, atol=1e-9 * size * np.abs(M).max())


@pytest.mark.parametrize("seed", range(2))
def test_rows_and_their_matrix_have_a_second_route(seed):
    """The compiled rows against the arrays of `System`, and A Λ A* through ℳ⁻¹."""
    system, q, v, _ = case(seed, independent=False)
    G = system.jacobian(q)
    for backend in BACKENDS if ALL or seed == 0 else ("reference",):
        mine = pp.compile(A @ J, system, mode="dense", backend=backend)(q)
        close(mine, G, 1e-12)
        S = pp.compile(A @ Lambda @ A.T, system, mode="dense", backend=backend)(q)
        dense = G @ np.linalg.solve(pp.mass_matrix(system.model, q), G.T)
        assert_allclose(S, dense, rtol=0, atol=1e-9 * np.abs(dense).max())


@pytest.mark.parametrize("seed", range(6))
def test_the_impulse_conserves_what_it_should(seed):
    system, q, _, _ = case(seed, independent=True)
    model = system.model
    rng = np.random.default_rng(seed)
    before = rng.standard_normal(model.nv)
    after, p = pp.constraint_impulse(system, q, before)
    G, M = system.jacobian(q), pp.mass_matrix(model, q)
    tolerance = 1e-9 * max(1.0, 1e-4 * condition(system, q))
    assert_allclose(G @ after, 0, atol=tolerance * max(1, np.abs(G @ before).max()))
    assert_allclose(M @ (after - before), -G.T @ p, atol=tolerance * np.abs(M).max())
    lost = before @ M @ before - after @ M @ after
    assert_allclose(lost, p @ pp.delassus_matrix(system, q) @ p, rtol=1e-8)
    assert_allclose(lost, (before - after) @ M @ (before - after), rtol=1e-8)


def test_selections_split_the_rows():
    """A = A[P] + A[S] and Λ is block diagonal between trees."""
    system, q, _, _ = case(5, independent=True)
    model = system.model
    names = [n for i, n in enumerate(model.body_names) if i % 2]
    split = pp.System(model, system.constraints, secondary=names)
    S = pp.compile((A["P"] @ J, A["S"] @ J, A @ J), split, mode="dense")(q)
    assert_allclose(S[0] + S[1], S[2], atol=1e-12 * max(1, np.abs(S[2]).max()))
    with pytest.raises(pp.errors.InputError, match="no selection 'X'"):
        pp.compile(A["X"] @ J, split)


def test_rows_are_refused_without_a_system():
    arm = pp.examples.planar_arm(2)
    with pytest.raises(pp.errors.InputError, match="constraint rows"):
        pp.compile(A @ J, arm, points=["tip"])
    with pytest.raises(pp.errors.ModelError, match="a point is given on 'tip', which is not"):
        pp.compile(mass_matrix.inv, four_bar(), points=["tip"])
    with pytest.raises(pp.errors.InputError, match="RCCFD"):
        pp.forward_dynamics(four_bar(), [0, 0, 0], [0, 0, 0], [0, 0, 0], algorithm="FD4")
    with pytest.raises(pp.errors.InputError, match="vdot does not keep the constraints"):
        pp.inverse_dynamics(four_bar(), [0, 0, 0], [0, 0, 0], [1, 0, 0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_contradictory_rows_are_named(backend):
    system = twin_gears()
    program = pp.compile(forward_with_rows(None, False, True), system, backend=backend)
    state = ([0.1, 0.1, 0.3], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0])
    vdot, _ = program(*state, [0.5, 1.0])  # the second asks for twice the first: they agree
    assert_allclose(vdot[0] - vdot[1], 0.5, rtol=1e-9)
    with pytest.raises(pp.errors.SingularMatrixError, match=r"'twin(.|\n)*project"):
        program(*state, [0.5, 0.0])
    many = np.array([[0.5, 1.0], [0.5, 0.0], [0.0, 0.0]])
    (vdot, _), status = program(*state, many, on_error="nan")
    np.testing.assert_array_equal(status != 0, [False, True, False])
    np.testing.assert_array_equal(np.isnan(vdot).any(-1), [False, True, False])


@pytest.mark.parametrize("backend", BACKENDS)
def test_arms_that_hold_an_object_as_the_paper_writes_it(backend):
    """RCCFD: Om = Λ(arms) + A M_C⁻¹ A*, with A = col φ*(C, O_i) of the object's motion."""
    rng = np.random.default_rng(0)
    b = pp.ModelBuilder()
    inertia = pp.SpatialInertia(3.0, (0.1, 0.0, 0.05), (0.4, 0.5, 0.6))
    b.add_body("object", joint=pp.joints.Free(), inertia=inertia)
    for i in range(2):
        parent = "world"
        for k in range(7):
            axis = np.eye(3)[k % 3]
            placement = pp.Pose(None, (0.3 * i, 0.1, 0.2))
            rod = pp.SpatialInertia(1.0, (0, 0, 0.1), 0.02)
            b.add_body(f"arm{i}.{k}", parent=parent, joint=pp.joints.Revolute(axis),
                       placement=placement, inertia=rod)  # fmt: skip
            parent = f"arm{i}.{k}"
    model = b.build()
    q = model.random_configuration(rng)
    poses = dict(zip(model.body_names, pp.poses(model, q), strict=True))
    held = np.linalg.inv(poses["object"])
    welds = []
    for i in range(2):
        X = held @ poses[f"arm{i}.6"]
        ends = {"a": (f"arm{i}.6", pp.Pose()), "b": ("object", pp.Pose(X[:3, :3], X[:3, 3]))}
        welds.append(pp.constraints.Weld(name=f"grip{i}", **ends))
    system = pp.System(model, welds, secondary=["object"])
    grasp = A["S"] @ A_grasp
    om = A["P"] @ Lambda @ A["P"].T + grasp @ M.inv @ grasp.T
    found = pp.compile(om, system, mode="dense", backend=backend)(q)
    assert_allclose(found, pp.delassus_matrix(system, q), rtol=0, atol=1e-10 * np.abs(found).max())
