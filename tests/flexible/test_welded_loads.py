"""A rigid body welded to a port has no rates of its own: machine code against the reference."""

import operator

import numpy as np
import pytest

import phipsi as pp
from phipsi.core.model.joints import Fixed, Free, Revolute


def boom():
    """A boom that floats, with loads welded to two ports and an arm on one of them."""
    beam = pp.FlexibleInertia.beam(
        2.0, 1.0, (30.0, 50.0), modes=1, rotary_inertia=0.01, ports={"middle": 0.5}
    )
    load = {"joint": Fixed(), "inertia": pp.SpatialInertia.box((0.2, 0.1, 0.3), mass=2.0)}
    builder = pp.ModelBuilder(gravity=(0.1, -0.2, -9.8))
    builder.add_body("boom", joint=Free(), inertia=beam)
    builder.add_body("a", parent="boom", port="middle", **load)
    builder.add_body("b", parent="boom", port="tip", **load)
    builder.add_body("arm", parent="b", joint=Revolute((0, 1, 0)), inertia=load["inertia"])
    return builder.build()


BOOM = boom()
FUNCTIONS = {
    "mass_matrix": "",
    "mass_matrix_inverse": "",
    "bias_forces": "v",
    "forward_dynamics": "v v",
    "inverse_dynamics": "v v",
    "velocities": "v",
    "accelerations": "v v",
    "kinetic_energy": "v",
    "momentum": "v",
    "center_of_mass": "",
    "diagonal_dynamics.log_det_mass_matrix": "",
    "jacobian": "p",
    "accelerations of points": "v v p",
    "operational_space_inertia": "p",
}


@pytest.mark.parametrize(("name", "takes"), FUNCTIONS.items())
def test_machine_code_equals_reference(name, takes, monkeypatch):
    q = BOOM.random_configuration(3)
    v = np.random.default_rng(3).standard_normal(BOOM.nv)
    arguments = [["a", "b"] if kind == "p" else v for kind in takes.split()]
    found = []
    for backend in ("reference", "native"):
        monkeypatch.setenv("PHIPSI_BACKEND", backend)
        found.append(operator.attrgetter(name.split()[0])(pp)(BOOM, q, *arguments))
    scale = np.abs(found[0]).max()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-11, atol=1e-11 * scale)


def test_a_loop_on_a_port(monkeypatch):
    """A frame on a port is a weld without mass; the middle of the boom is pinned to the world."""
    pin = pp.constraints.Spherical(name="pin", a="a", b="world")
    q = BOOM.neutral()
    q[4:7] = -1, 0, 0
    v, tau = np.zeros(BOOM.nv), np.random.default_rng(4).standard_normal(BOOM.nv)
    found = []
    for backend in ("reference", "native"):
        monkeypatch.setenv("PHIPSI_BACKEND", backend)
        found.append(pp.forward_dynamics(pp.System(boom(), [pin]), q, v, tau))
    np.testing.assert_allclose(found[1], found[0], atol=1e-9 * np.abs(found[0]).max())
    A = pp.jacobian(BOOM, q, ["a"])[3:]
    M = pp.mass_matrix(BOOM, q)
    system = np.block([[M, A.T], [A, np.zeros((3, 3))]])
    right = np.r_[tau - pp.bias_forces(BOOM, q, v), np.zeros(3)]
    dense = np.linalg.solve(system, right)[: BOOM.nv]
    np.testing.assert_allclose(found[0], dense, atol=1e-9 * np.abs(dense).max())
