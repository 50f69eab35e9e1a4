"""Loops that close on the ports of flexible bodies, and joints whose motion is prescribed."""

import numpy as np
import pytest
from flexible_loops import START, SYSTEM, loop_of_beams
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.operators import pose
from phipsi.simulation.kinematic_loops import closure_terms

pytestmark = pytest.mark.usefixtures("interpreted")

TREE = SYSTEM.model


def test_a_loop_on_a_port_closes_and_moves_as_its_equations_say():
    q = SYSTEM.assemble(START)
    end = pp.poses(TREE, q)[TREE.body_index("end")]
    assert_allclose(end[:3, 3], (1.2, 0, 0), atol=1e-9)
    rng = np.random.default_rng(1)
    _, v = SYSTEM.project(q, 0.1 * rng.normal(size=TREE.nv))
    tau = rng.normal(size=TREE.nv)
    found = pp.forward_dynamics(SYSTEM, q, v, tau)
    G, h = SYSTEM.jacobian(q), 1e-6
    ahead, behind = (SYSTEM.jacobian(TREE.integrate(q, s * h * v)) for s in (1, -1))
    bias = (ahead - behind) @ v / (2 * h)
    rows = len(G)
    whole = np.block([[pp.mass_matrix(TREE, q), G.T], [G, np.zeros((rows, rows))]])
    load = np.concatenate([tau - pp.bias_forces(TREE, q, v), -bias])
    assert_allclose(found, np.linalg.solve(whole, load)[: TREE.nv], rtol=1e-5, atol=1e-5)
    assert_allclose(G @ found, -bias, atol=1e-6)


def _by_hand(q, v):
    """Accelerations of the closed chain, by dense matrices."""
    G, h = SYSTEM.jacobian(q), 1e-5
    ahead, behind = (SYSTEM.jacobian(TREE.integrate(q, s * h * v)) for s in (1, -1))
    reach = np.linalg.solve(pp.mass_matrix(TREE, q), G.T)
    free = -np.linalg.solve(pp.mass_matrix(TREE, q), pp.bias_forces(TREE, q, v))
    gap = G @ free + (ahead - behind) @ v / (2 * h)
    return free - reach @ np.linalg.lstsq(G @ reach, gap, rcond=1e-10)[0]


@pytest.mark.parametrize("way", ["unrolled", "elimination"])
def test_compiled_steps_keep_a_loop_on_a_port_closed(way, monkeypatch):
    """Against steps by dense matrices, which do not project."""
    if way == "elimination":
        monkeypatch.setattr(closure_terms, "MOST_TERMS", 0)
    q, v, h = SYSTEM.assemble(START), np.zeros(TREE.nv), 1e-3
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    system = loop_of_beams()
    assert isinstance(closure_terms.choose_closure_solver(system), closure_terms.Unrolled) == (
        way == "unrolled"
    )
    found, rates = pp.rollout(system, q, v, v, h, 4)
    monkeypatch.setenv("PHIPSI_BACKEND", "reference")
    for _ in range(4):
        stages = [(v, _by_hand(q, v))]
        for part in (0.5, 0.5, 1.0):
            x, y = (part * h * z for z in stages[-1])
            stages.append((v + y, _by_hand(TREE.integrate(q, x), v + y)))
        dq, dv = (np.einsum("k,ki", (1, 2, 2, 1), x) / 6 for x in zip(*stages, strict=True))
        q, v = TREE.integrate(q, h * dq), v + h * dv
    assert_allclose(rates[-1], v, rtol=1e-6, atol=1e-6 * np.abs(v).max())
    assert_allclose(found[-1], q, rtol=0, atol=1e-9)
    assert np.abs(SYSTEM.residual(found[1:])).max() < 1e-12


def test_residuals_in_code_know_where_ports_are():
    q = TREE.random_configuration(3)
    poses = pp.compile(pose, TREE, backend="reference")(q.astype(object))
    found = closure_terms._residual_entries(SYSTEM, q, poses)
    assert_allclose(found.astype(float), SYSTEM.residual(q), atol=1e-13)
    q[1:5] *= 2  # the first beam bends further
    assert np.abs(SYSTEM.residual(q) - found.astype(float)).max() > 1e-3


def test_a_prescribed_joint_leaves_the_modes_of_its_body_free():
    q = TREE.neutral()
    v, tau = np.zeros(TREE.nv), np.zeros(TREE.nv)
    found = pp.hybrid_dynamics(TREE, q, v, None, tau, prescribed={"first": 0.5})
    assert found.vdot[0] == 0.5 and np.abs(found.vdot[1:5]).max() > 1e-3
    assert_allclose(found.tau[1:], 0, atol=1e-9)
    again = pp.inverse_dynamics(TREE, q, v, found.vdot)
    assert_allclose(again, found.tau, atol=1e-9)
    assert TREE.joint_rates("first") == slice(0, 1) and TREE.v_slice("first") == slice(0, 5)


def test_a_spun_up_beam_bends_as_in_the_literature(monkeypatch):
    """Kane, Ryan and Banerjee: hub driven to 6 rad/s in 15 s; −0.57375 m at 6.76 s."""
    monkeypatch.delenv("PHIPSI_BACKEND")
    beam = pp.FlexibleInertia.beam(10.0, 1.2, EI=(1.4e4, np.inf), modes=2)
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    builder.add_body("hub", joint=pp.joints.Revolute((0, 0, 1)), inertia=beam)
    model = builder.build()
    h, steps = 1e-3, 7500
    tau = np.zeros((steps, model.nv))
    tau[:, 0] = 6 / 15 * (1 - np.cos(2 * np.pi * (np.arange(steps) + 0.5) * h / 15))
    rest = np.zeros(model.nv)
    q, _ = pp.rollout(
        model,
        model.neutral(),
        rest,
        tau,
        h,
        steps,
        record_every=10,
        prescribed=["hub"],
        per_step=True,
    )
    tip = np.array([beam.port_pose("tip", x[1:]).translation[1] for x in q])
    assert abs(tip.min() / -0.57375 - 1) < 3e-3
    assert abs(tip.argmin() * 10 * h - 6.76) < 0.05
    assert abs(tip[500] / -0.46844 - 1) < 3e-3
