"""Linearly implicit steps with loops and driven joints, and their derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import STEP_LENGTH, linearly_implicit, loaded
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.law_derivatives import adjoints
from phipsi.core.arrays.law_values import evaluate
from phipsi.core.compiler import compile
from phipsi.core.operators import Jr
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.integrators.step_calls import ProgramCall
from phipsi.simulation.integrators.stiff_modes import modal_blocks, modal_matrices, stiffened
from phipsi.simulation.integrators.tableaux import METHODS
from phipsi.simulation.runs.rollout import projected_step

NAME = "linearly_implicit"
METHOD = {"integrator": NAME}
Z = (0, 0, 1)


def two_bars(EI, damping=0.0):
    """Two beams in a plane whose end slides in a slot: nv = 6, one degree of freedom if rigid."""
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(EI, np.inf), modes=0, damping_ratio=damping)
    hub = pp.SpatialInertia.box((0.2, 0.2, 0.1), mass=0.5)
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_body("hub", joint_name="motor", inertia=hub)
    builder.add_body("crank", parent="hub", joint=pp.joints.Fixed(), inertia=beam)
    builder.add_body("elbow", parent="crank", port="tip", joint_name="pin", inertia=hub)
    builder.add_body("rod", parent="elbow", joint=pp.joints.Fixed(), inertia=beam)
    builder.add_frame("end", "rod", port="tip")
    slot = pp.constraints.PointOnLine((1, 0, 0), name="slot", a="world", b="end")
    return pp.System(builder.build(), [slot])


JOINTS, MODES = [0, 3], [1, 2, 4, 5]


def state(system, rates=1.0):
    """A configuration with the beams straight, and rates that keep the slider in its slot."""
    rigid = system.with_rigid_bodies()
    joints = rigid.project(rigid.assemble([0.8, -1.6]), [rates, 0.0])
    q, v = np.zeros((2, system.nv))
    q[JOINTS], v[JOINTS] = joints
    return q, v


def bent(system):
    q, v = state(system)
    return system.project(q + 0.003, v + np.linspace(-0.3, 0.3, system.nv))


def test_a_step_is_its_formula(interpreted):
    system, h = two_bars(300.0, 0.05), 5e-3
    q, v = bent(system)
    tau, model = np.linspace(-1, 1, 6), system.model
    K, C = modal_matrices(model)
    G, mass = system.jacobian(q), pp.mass_matrix(model, q) + h * (C + h * K)
    load = tau - pp.bias_forces(model, q, v) - h * K @ v
    whole = np.block([[mass, G.T], [G, np.zeros((len(G), len(G)))]])
    right = np.concatenate([load, -system.bias(q, v)])
    x = np.linalg.lstsq(whole, right, rcond=1e-12)[0][:6]
    found = Motion(system, ahead=h).accelerations(q, v, tau)
    assert_allclose(found, x, rtol=1e-9, atol=1e-9 * np.abs(x).max())
    # then the nearest state in the same metric: what is left of a change is along G*
    after = v + h * x
    q_1, v_1 = (x[-1] for x in pp.rollout(system, q, v, tau, h, 1, **METHOD))
    assert np.abs(system.residual(q_1)).max() < 1e-10
    G, mass = system.jacobian(q_1), pp.mass_matrix(model, q_1) + h * (C + h * K)
    rates = mass @ (v_1 - after)
    multipliers = np.linalg.lstsq(G.T, rates, rcond=1e-12)[0]
    assert_allclose(G.T @ multipliers, rates, atol=1e-12 * np.abs(mass @ v_1).max())
    assert np.abs(G @ v_1).max() < 1e-12
    # and in one of simulate's steps
    run = pp.simulate(system, q, v, h, controller=lambda t, q, v: tau, dt=h, **METHOD)
    assert_allclose(run.q[-1], q_1, rtol=1e-11, atol=1e-12)
    assert_allclose(run.v[-1], v_1, rtol=1e-10, atol=1e-10)


def test_stiff_loops_are_rigid_ones(interpreted):
    """At ordinary steps, in the limit of stiffness, which explicit steps do not survive."""
    duration, h = 0.1, 1e-2
    errors = []
    for EI in (1e6, 1e8):
        system = two_bars(EI)
        q, v = state(system)
        run = pp.simulate(system, q, v, duration, dt=h, **METHOD)
        rigid = system.with_rigid_bodies()
        other = pp.simulate(rigid, q[JOINTS], v[JOINTS], duration, dt=h, integrator="semi_implicit")
        errors.append(np.abs(run.q[:, JOINTS] - other.q).max())
    assert errors[0] < 1e-5 and errors[1] < 0.02 * errors[0]
    with pytest.raises(pp.errors.SimulationError):
        pp.simulate(system, q, v, duration, dt=h, integrator="semi_implicit")


def test_blocks_are_those_of_the_matrices_and_few_step_lengths_are_kept(interpreted):
    system = two_bars(300.0, 0.05)
    K, C = modal_matrices(system.model)
    for whole, blocks in zip((K, C), modal_blocks(system.model, 4), strict=True):
        assert np.count_nonzero(whole) == np.count_nonzero(blocks)
        assert_allclose(np.linalg.norm(whole), np.linalg.norm(blocks), rtol=1e-15)
    for name in ("crank", "rod"):
        k = system.model.body_index(name)
        at, beam = system.model.v_slices[k], system.model.flexible[k]
        assert_allclose(K[at, at][-2:, -2:], beam.stiffness, rtol=1e-15)
        assert_allclose(C[at, at][-2:, -2:], beam.damping, rtol=1e-15)
    first = stiffened(system, 1e-3)
    size = len(system.cache)
    for i in range(20):
        stiffened(system, 1e-3 + 1e-5 * i)
    assert len(system.cache) == size and stiffened(system, 1e-3) is not first
    assert stiffened(system, 1e-3) is stiffened(system, 1e-3)


def test_machine_code_takes_the_same_steps():
    system, h = two_bars(300.0, 0.05), 5e-3
    q, v = bent(system)
    tau = np.linspace(-1, 1, 6)
    found = pp.rollout(system, q, v, tau, h, 3, **METHOD)
    motion = Motion(system, ahead=h)
    at, rates = q[None], v[None]
    for _ in range(3):
        at, rates = projected_step(motion, METHODS[NAME], at, rates, tau[None], h)
    assert_allclose(found[0][-1], at[0], rtol=0, atol=1e-13)
    assert_allclose(found[1][-1], rates[0], rtol=0, atol=1e-11)


def differences(function, h=2e-5):
    """d/ds at 0, of fourth order."""
    first = [x - y for x, y in zip(function(h), function(-h), strict=True)]
    second = [x - y for x, y in zip(function(2 * h), function(-2 * h), strict=True)]
    return [(8 * x - y) / (12 * h) for x, y in zip(first, second, strict=True)]


@pytest.mark.parametrize("loops", [True, False])
def test_derivatives_of_a_step(interpreted, loops):
    system, h = two_bars(300.0, 0.05), 5e-3
    q, v = bent(system)
    mechanism, tau = system if loops else system.model, np.linspace(-1, 1, 6)
    A, B = pp.step_derivatives(mechanism, q, v, tau, h, **METHOD)
    rng = np.random.default_rng(0)
    for _ in range(2):
        dq, dv, dtau = rng.normal(size=(3, 6))

        def along(s, dq=dq, dv=dv, dtau=dtau):
            at, rates = q + s * dq, v + s * dv
            if loops:
                at, rates = system.project(at, rates)
            run = pp.rollout(mechanism, at, rates, tau + s * dtau, h, 1, **METHOD)
            return at, rates, run[0][-1], run[1][-1]

        by_q, by_v, end_q, end_v = differences(along)
        expected = np.concatenate([end_q, end_v])
        found = A @ np.concatenate([by_q, by_v]) + B @ dtau
        assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("loops", [True, False])
def test_gradient_of_a_motion(interpreted, loops):
    system, h, steps = two_bars(300.0, 0.05), 5e-3, 3
    q, v = bent(system)
    mechanism = system if loops else system.model
    rng = np.random.default_rng(0)
    tau, change = rng.normal(size=(2, steps, 6))
    weight = rng.normal(size=6)

    def final(q, v):
        return (v * weight).sum(-1), None, weight

    found = pp.rollout_gradient(mechanism, q, v, tau, h, steps, final=final, **METHOD)
    (expected,) = differences(
        lambda s: [
            pp.rollout(mechanism, q, v, tau + s * change, h, steps, **METHOD)[1][-1] @ weight
        ]
    )
    assert_allclose(np.sum(found.tau * change), expected, rtol=1e-7)


@pytest.mark.parametrize("loops", [True, False])
def test_driven_joints(interpreted, loops):
    """A motor that turns as it is told, and modes that do not: in both ways of stepping."""
    system, h = two_bars(1e5), 1e-2
    q, v = state(system)
    mechanism = system if loops else system.model
    given = np.array([2.0, 0, 0, 0, 0, 0])
    options = {"prescribed": ["motor"], **METHOD}
    found = pp.rollout(mechanism, q, v, given, h, 2, **options)
    assert_allclose(found[1][-1, 0], v[0] + 2 * h * 2.0, rtol=1e-9)
    run = pp.simulate(
        mechanism, q, v, 2 * h, dt=h, prescribed={"motor": lambda t, q, v: [2.0]}, **METHOD
    )
    assert_allclose(run.q[-1], found[0][-1], atol=1e-9)
    assert np.abs(run.q[-1, MODES]).max() < 1e-3


def test_without_modes_steps_are_semi_implicit(interpreted):
    rigid = two_bars(1.0).with_rigid_bodies()
    q = rigid.assemble([0.8, -1.6])
    v = rigid.project(q, [1.0, 0.0])[1]
    runs = [
        pp.rollout(rigid, q, v, [0.5, 0.0], 1e-3, 5, integrator=name)[0]
        for name in (NAME, "semi_implicit")
    ]
    assert_allclose(*runs, rtol=1e-13)


def test_linearly_implicit_accelerations_by_the_inertia_of_rotors():
    """Weights go back to Jr, which acts on these accelerations as on others."""
    model, h, nv = two_bars(300.0, 0.05).model, 5e-3, 6
    q, v = bent(two_bars(300.0, 0.05))
    form = loaded(linearly_implicit, external=False)
    callee = ProgramCall((form,), model, inputs=(STEP_LENGTH.name, "Jr"))
    shapes = callee.native.program.input_shapes
    inputs = {name: ops.input(name, tuple(shapes[name])) for name in callee.inputs}
    weights = ops.input("weights", (nv,))
    (by_rotors,) = adjoints(callee.of(inputs), [weights], [inputs["Jr"]])
    rng = np.random.default_rng(1)
    rotors = compile(Jr, model, mode="blocks")()
    at = {"q": q, "v": v, "tau": np.linspace(-1, 1, nv), STEP_LENGTH.name: h, "Jr": rotors}
    w, change = rng.normal(size=nv), np.zeros(rotors.shape)
    for k, where in enumerate(model.v_slices):  # symmetric, between the rates of each joint
        n = where.stop - where.start
        change[k, :n, :n] = np.diag(rng.uniform(0.1, 0.2, n))
    (found,) = evaluate([by_rotors], {**at, "weights": w})

    def value(x):
        changed = {**at, "Jr": rotors + x * change}
        (vdot,) = callee.arrays(*(changed[n] for n in callee.inputs))
        return float(vdot @ w)

    first, second = (value(x) - value(-x) for x in (1e-4, 2e-4))
    slope = (8 * first - second) / 12e-4
    assert_allclose((found * change).sum(), slope, rtol=1e-8)
    assert abs(slope) > 1e-3
