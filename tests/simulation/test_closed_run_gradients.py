"""Gradients through compiled runs of closed chains: differences of order eight, other routes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from amounts import mostly
from differences import slope
from known_systems import four_bar, stewart
from numpy.testing import assert_allclose, assert_array_equal
from random_systems import admissible, random_system

import phipsi as pp
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_derivatives import adjoints
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.arrays.primitive_calls import call
from phipsi.errors import InputError
from phipsi.simulation.kinematic_loops import closure_calls, unrolled_elimination
from phipsi.simulation.kinematic_loops.closure_calls import (
    AccelerationCall,
    ProjectionCall,
    SolutionCall,
)

STEPS, DT = 3, 0.02
BODIES = "inertia"


@cache
def mechanism(name: str) -> tuple[pp.System, np.ndarray]:
    if name == "four-bar":
        system = four_bar(closure="PointOnLine")
        return system, system.assemble([1.0, -1.0, -1.5])
    if name == "redundant":  # three of its five rows are always zero
        system = four_bar()
        return system, system.assemble([1.0, -1.0, -1.5])
    if name == "platform":
        system, guess = stewart()
        return system, system.assemble(guess)
    system, q = random_system(3, 5, ["Spherical"])  # with rotations among its joints
    return system, q


def sturdy(system: pp.System) -> pp.System:
    """With bodies that have room for any small change of their inertias."""
    box = pp.SpatialInertia(1.3, (0.4, 0.1, 0.05), np.diag([0.2, 0.25, 0.3]))
    tree = system.model.with_inertial_parameters(np.tile(box.parameters, system.model.n_bodies))
    return pp.System(tree, system.constraints)


class Case:
    """A run with a damper at every joint, and the sum of weights and states along it."""

    def __init__(self, name: str, integrator: str, given: tuple[str, ...] = ()) -> None:
        system, q = mechanism(name)
        self.system = sturdy(system) if given else system
        self.rng = rng = np.random.default_rng(0)
        self.q = q
        self.v = 0.3 * admissible(self.system, q, rng)
        self.tau = 0.3 * rng.normal(size=(STEPS, system.nv))
        damper = pp.forces.JointDamper(system.model.joint_names[0], 0.4)
        self.sim = pp.Simulator(
            self.system, [damper], DT, integrator=integrator, per_trajectory=given
        )
        sizes = {"q": system.nq, "v": system.nv}
        self.weights = {n: rng.normal(size=(STEPS + 1, size)) for n, size in sizes.items()}

    def value(self, q=None, v=None, tau=None, **parameters):
        q, v = (self.q if q is None else q), (self.v if v is None else v)
        state = self.sim.initial_state(q, v, parameters=parameters)
        run = self.sim.rollout(state, self.tau if tau is None else tau, STEPS)
        return sum((w * run[n]).sum() for n, w in self.weights.items())

    def gradient(self, **options):
        return self.sim.gradient(self.sim.initial_state(self.q, self.v), self.tau, STEPS,
                                 cotangents=self.weights, **options)  # fmt: skip


def agree(got: float, wanted: float, tolerance: float = 1e-9) -> None:
    assert abs(got - wanted) < tolerance * abs(wanted)
    assert abs(got * (1 + 1e3 * tolerance) - wanted) > tolerance * abs(wanted)


def along_the_loops(case: Case, found) -> tuple[float, float]:
    """The change of the value for one of q that keeps the loops closed, v being projected."""
    system, q, v = case.system, case.q, case.v
    along = 0.3 * admissible(system, q, case.rng)

    def end(e):
        return system.project(system.model.integrate(q, e * along), v)

    q_end = slope(lambda e: system.model.difference(q, end(e)[0]), 1e-3)
    v_end = slope(lambda e: end(e)[1], 1e-3)
    return found.q @ q_end + found.v @ v_end, slope(lambda e: case.value(*end(e)), 1e-3)


RUNS = [
    ("redundant", "rk4", (BODIES,)),
    ("redundant", "implicit_midpoint", ()),
    ("redundant", "implicit_damping", (BODIES,)),
    ("random", "semi_implicit", (BODIES,)),
    ("platform", "semi_implicit", ()),
]


@pytest.mark.parametrize(("name", "integrator", "given"), mostly(RUNS, *RUNS[-2:]))
def test_by_everything(name, integrator, given):
    """By states, efforts, and parameters of laws and bodies, also in the metric of projections."""
    case = Case(name, integrator, given)
    found = case.gradient()
    assert_allclose(found.value, case.value(), rtol=1e-12)
    along = 0.3 * admissible(case.system, case.q, case.rng)
    more = case.rng.normal(size=case.tau.shape)
    agree((found.tau * more).sum(), slope(lambda e: case.value(tau=case.tau + e * more), 2e-2))
    agree(found.v @ along, slope(lambda e: case.value(v=case.v + e * along), 2e-2))
    agree(*along_the_loops(case, found))
    name, unit = "joint_damper.damping", np.eye(case.system.nv)[0]
    changes = {name: (case.sim.parameters[name], unit, 2e-2)}
    if given:
        own = pp.identification.inertial_parameters(case.system.model).reshape(-1, 10)
        changes[BODIES] = own, case.rng.normal(size=own.shape) * np.abs(own), 2e-3
    for name, (value, change, h) in changes.items():
        wanted = slope(lambda e, n=name, x=value, d=change: case.value(**{n: x + e * d}), h)
        agree((found.parameters[name] * change).sum(), wanted)


def test_it_is_rollout_gradient(integrator="semi_implicit"):
    """Both are exact; changes that open the loops included, where no row is redundant."""
    system, q = mechanism("four-bar")
    rng = np.random.default_rng(1)
    v, tau = admissible(system, q, rng), rng.normal(size=(STEPS, 3))
    wq, wv = rng.normal(size=(2, 3))
    sim = pp.Simulator(system, (), DT, integrator=integrator)
    weights = {"q": np.zeros((STEPS + 1, 3)), "v": np.zeros((STEPS + 1, 3))}
    weights["q"][-1], weights["v"][-1] = wq, wv
    mine = sim.gradient(sim.initial_state(q, v), tau, STEPS, cotangents=weights)
    theirs = pp.rollout_gradient(
        system, q, v, tau, DT, STEPS, integrator=integrator,
        final=lambda q, v: (q @ wq + v @ wv, wq, wv),
    )  # fmt: skip
    for x, y in ((mine.q, theirs.q0), (mine.v, theirs.v0), (mine.tau, theirs.tau)):
        assert_allclose(x, y, rtol=1e-10, atol=1e-12)
    assert np.abs(mine.q - np.roll(theirs.q0, 1)).max() > 1e-3


def test_sweeps_are_the_elimination(monkeypatch):
    """Large systems are solved by O(N) programs, and have the same gradient."""
    wanted = Case("redundant", "semi_implicit").gradient()
    mechanism.cache_clear()
    monkeypatch.setattr(unrolled_elimination, "MOST_PRODUCTS", 0)
    found = Case("redundant", "semi_implicit").gradient()
    mechanism.cache_clear()
    for name in ("q", "v", "tau"):
        assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9, atol=1e-11)


def test_a_batch_has_the_bits_of_its_members():
    case = Case("redundant", "semi_implicit")
    one = case.gradient()
    v = np.array([0.5 * case.v, case.v, -case.v])
    state = case.sim.initial_state(np.tile(case.q, (3, 1)), v)
    tau = np.tile(case.tau, (3, 1, 1))
    for options in ({}, {"segment": 1}, {"threads": 2}):
        found = case.sim.gradient(state, tau, STEPS, cotangents=case.weights, **options)
        for name in ("q", "v", "tau"):
            assert_array_equal(getattr(found, name)[1], getattr(one, name))


# ---- calls ---------------------------------------------------------------------------------------


def pulled(callee, values, weights):
    """The results of a call, and Σ weight · ∂result by its arguments, on arrays."""
    nodes = [ops.input(str(i), np.shape(x)) for i, x in enumerate(values)]
    results = call(callee, *nodes)
    bars = adjoints(results, [ops.constant(w) for w in weights], nodes)
    known = {str(i): x for i, x in enumerate(values)}
    return evaluate(results, known), evaluate([x for x in bars if x is not None], known)


@pytest.mark.parametrize("which", ["solution", "accelerations", "projection"])
def test_each_call_on_arrays(which, monkeypatch):
    """Far from the constraints, where a projection takes many steps."""
    system, q = mechanism("four-bar")
    rng = np.random.default_rng(2)
    callee, values = {
        "solution": (SolutionCall(system), [q, *rng.normal(size=(2, 3))[:, :3]]),
        "accelerations": (AccelerationCall(system), [q + 0.1, *rng.normal(size=(2, 3))]),
        "projection": (ProjectionCall(system), [q + 0.05, rng.normal(size=3)]),
    }[which]
    if which == "solution":
        values[2] = rng.normal(size=system.n_rows)
    weights = [rng.normal(size=s) for s in callee.shapes]
    _, bars = pulled(callee, values, weights)
    along = [rng.normal(size=np.shape(x)) for x in values]

    def value(e):
        found = callee.arrays(*(x + e * d for x, d in zip(values, along, strict=True)))
        return sum((w * y).sum() for w, y in zip(weights, found, strict=True))

    agree(sum((x * d).sum() for x, d in zip(bars, along, strict=True)), slope(value, 5e-3), 1e-8)
    # a twin: without the change of the rows' directions
    monkeypatch.setattr(closure_calls, "products", _without_third_term(closure_calls.products))
    _, wrong = pulled(callee, values, weights)
    total = sum((x * d).sum() for x, d in zip(wrong, along, strict=True))
    assert abs(total - slope(value, 5e-3)) > 1e-6 * abs(total)


def _without_third_term(products):
    def twin(form, model, names, values, weight, **options):
        found = products(form, model, names, values, weight, **options)
        if form is not closure_calls._MOTION:
            return found
        return {name: ops.apply("mul", x, ops.constant(0.0)) for name, x in found.items()}

    return twin


def test_other_quantities_are_rejected():
    system, _ = mechanism("four-bar")
    with pytest.raises(InputError, match=r"placement.*lengths of its model.*'inertia', 'M'"):
        pp.Simulator(system, (), DT, per_trajectory=("placement",))


def test_inertias_of_trajectories():
    """Every trajectory is that of a system with its inertias."""
    system, q = mechanism("redundant")
    own = pp.identification.inertial_parameters(system.model).reshape(-1, 10)
    v = admissible(system, q, np.random.default_rng(0))
    sim = pp.Simulator(system, (), DT, per_trajectory=(BODIES,))
    scales = np.array([[1.0, 1.0, 1.0], [3.0, 1.0, 0.5], [1e-3, 2e-3, 5e-3]])[..., None]
    run = sim.rollout(sim.initial_state(q, v, parameters={BODIES: scales * own}), steps=10)
    for i, scale in enumerate(scales):
        tree = system.model.with_inertial_parameters((scale * own).ravel())
        one = pp.Simulator(pp.System(tree, system.constraints), (), DT)
        wanted = one.rollout(one.initial_state(q, v), steps=10)
        assert_allclose(run.q[i], wanted.q, atol=1e-12)
    assert np.abs(run.q[0] - run.q[1]).max() > 1e-4
