"""A constraint from outside the library: one class that says which rows it has.

A `Track` keeps a point of body b in a plane through a point of body a, with its own axis along the
plane's normal at a given angle: two rows, "cross" and "z", which no constraint of the library has
together. It is assembled, compiled, simulated and differentiated like all others.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.constraints import Constraint
from phipsi.core.model.closures import Closure


@final
@dataclass(frozen=True)
class Track(Constraint):
    """The origin of `b` stays in the plane z = 0 of `a`, its z axis perpendicular to the normal."""

    name: str
    a: str
    b: str

    def closure(self, model):
        (a, X_a), (b, X_b) = model.resolve_point(self.a), model.resolve_point(self.b)
        return Closure(
            name=self.name, rows=("angle", "height"), angular="cross", linear="z",
            a=a, b=b, a_frame=X_a, b_frame=X_b,
        )  # fmt: skip

    def sides(self):
        return self.a, self.b


@pytest.fixture
def system():
    builder = pp.ModelBuilder(gravity=(1.0, -2.0, -9.81))
    rod = pp.SpatialInertia(1.0, (0.2, 0.05, 0), (0.02, 0.05, 0.06))
    builder.add_body("arm", joint=pp.joints.Spherical(), inertia=rod)
    builder.add_body(
        "puck", parent="arm", joint=pp.joints.Universal((1, 0, 0), (0, 1, 0)), inertia=rod,
        placement=pp.Pose(translation=(0.6, 0, 0)),
    )  # fmt: skip
    return pp.System(builder.build(), [Track("track", "world", "puck")])


def test_it_is_assembled_and_explained(system):
    q = system.assemble(system.random_configuration(0))
    poses = pp.poses(system, q)
    assert_allclose([poses[1, 2, 3], poses[1, 2, 2]], 0, atol=1e-9)
    assert system.mobility(q).mobility == system.nv - 2
    assert system.row_names == ("track.angle", "track.height")


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_accelerations_keep_it(system, backend, monkeypatch):
    monkeypatch.setenv("PHIPSI_BACKEND", backend)
    q = system.assemble(system.random_configuration(0))
    q, v = system.project(q, np.linspace(-1, 1, system.nv))
    motion = pp.forward_dynamics(system, q, v, np.zeros(system.nv), return_multipliers=True)
    assert_allclose(system.jacobian(q) @ motion.vdot + system.bias(q, v), 0, atol=1e-9)
    efforts = pp.inverse_dynamics(system.model, q, v, motion.vdot)
    assert_allclose(efforts + system.jacobian(q).T @ motion.f, 0, atol=1e-9)


def test_it_moves_and_is_differentiated(system):
    q = system.assemble(system.random_configuration(0))
    q, v = system.project(q, np.linspace(-1, 1, system.nv))
    run = pp.simulate(system, q, v, 0.3, rtol=1e-9, atol=1e-9)
    assert np.abs(system.residual(run.q)).max() < 1e-8
    assert_allclose(run.energy, run.energy[0], atol=1e-5)
    tau = np.zeros(system.nv)
    by_tau = pp.forward_dynamics_derivatives(system, q, v, tau).by_tau
    for i in range(system.nv):
        push = np.eye(system.nv)[i]
        change = pp.forward_dynamics(system, q, v, push) - pp.forward_dynamics(system, q, v, tau)
        assert_allclose(by_tau[:, i], change, atol=1e-8)
