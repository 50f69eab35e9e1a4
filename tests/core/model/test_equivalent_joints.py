"""Joints with several freedoms equal rows of simple ones with massless bodies between them."""

from types import SimpleNamespace

import numpy as np
import pytest
from comparers import tight as close
from random_models import random_axis, random_inertia, random_pose, random_rotation

import phipsi as pp
from phipsi.core.model import joints
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.joint import Joint
from phipsi.core.model.model import Model
from phipsi.core.spatial import matrix_to_quat, skew, so3_exp


def build(chain: list[Joint], seed: int) -> Model:
    """A mobile base, the joints under test one after the other, and a body behind them."""
    rng = np.random.default_rng(seed)
    base, here, behind = (random_inertia(rng) for _ in range(3))
    first, second, third = (random_pose(rng) for _ in range(3))
    b = ModelBuilder(gravity=(0.3, -0.5, -9.81))
    b.add_body("base", joint=joints.Free(), placement=first, inertia=base)
    parent = "base"
    for i, joint in enumerate(chain):
        name = "body" if i == len(chain) - 1 else f"massless{i}"
        extra = {"placement": second} if i == 0 else {}
        mass = {"inertia": here} if name == "body" else {}
        b.add_body(name, parent=parent, joint=joint, **extra, **mass)
        parent = name
    b.add_body(
        "behind", parent="body", joint=joints.Revolute((1, 2, 3)), placement=third, inertia=behind
    )
    return b.build()


class Pair:
    """One joint and the simple ones: coordinates of the first from those of the second.

    `q` maps coordinates; `E` and its rate map rates, v = E w, so that vdot = E wdot + Ė w and
    efforts go back with E*.
    """

    def __init__(self, seed, joint, parts, q, E, Edot):
        self.one, self.several = build([joint], seed), build(parts, seed)
        rng = np.random.default_rng(seed + 100)
        n = len(parts)
        base = self.one.random_configuration(rng)[:7]
        x, w, wdot = rng.uniform(-1, 1, (3, n))
        v0, vdot0, v1, vdot1, q1 = (rng.standard_normal(k) for k in (6, 6, 1, 1, 1))
        self.inner = np.eye(7 + n)
        self.inner[6 : 6 + n, 6 : 6 + n] = E(x)
        own = SimpleNamespace(v=E(x) @ w, vdot=E(x) @ wdot + Edot(x, w) @ w)
        join = np.concatenate
        self.mine = (join([base, q(x), q1]), join([v0, own.v, v1]), join([vdot0, own.vdot, vdot1]))
        self.theirs = (join([base, x, q1]), join([v0, w, v1]), join([vdot0, wdot, vdot1]))
        self.inner_rate = np.zeros((7 + n, 7 + n))
        self.inner_rate[6 : 6 + n, 6 : 6 + n] = Edot(x, w)


def universal(seed: int) -> Pair:
    rng = np.random.default_rng(seed)
    u1, u2 = random_axis(rng), random_axis(rng)
    return Pair(
        seed,
        joints.Universal(u1, u2),
        [joints.Revolute(u1), joints.Revolute(u2)],
        q=lambda x: x,
        E=lambda x: np.eye(2),
        Edot=lambda x, w: np.zeros((2, 2)),
    )


def spherical(seed: int) -> Pair:
    """Turns about three axes, x then y then z: R = Rx Ry Rz, ω in the last axes."""
    ex, ey, ez = np.eye(3)

    def turns(x):
        return [so3_exp(axis * angle) for axis, angle in zip(np.eye(3), x, strict=True)]

    def E(x):
        _, Ry, Rz = turns(x)
        return np.stack([Rz.T @ Ry.T @ ex, Rz.T @ ey, ez], axis=1)

    def Edot(x, w):
        _, Ry, Rz = turns(x)
        first = -w[2] * skew(ez) @ Rz.T @ Ry.T @ ex - w[1] * Rz.T @ skew(ey) @ Ry.T @ ex
        return np.stack([first, -w[2] * skew(ez) @ Rz.T @ ey, np.zeros(3)], axis=1)

    return Pair(
        seed,
        joints.Spherical(),
        [joints.Revolute(axis) for axis in np.eye(3)],
        q=lambda x: matrix_to_quat(turns(x)[0] @ turns(x)[1] @ turns(x)[2]),
        E=E,
        Edot=Edot,
    )


def planar(seed: int) -> Pair:
    """Two slides and a turn about their normal; the rates are (θ̇, R* (ẋ, ẏ)), R the turn."""
    e1, e2, normal = random_rotation(np.random.default_rng(seed)).T

    def E(x):
        c, s = np.cos(x[2]), np.sin(x[2])
        return np.array([[0, 0, 1], [c, s, 0], [-s, c, 0]])

    def Edot(x, w):
        c, s = np.cos(x[2]), np.sin(x[2])
        return w[2] * np.array([[0, 0, 0], [-s, c, 0], [-c, -s, 0]])

    return Pair(
        seed,
        joints.Planar(e1, e2),
        [joints.Prismatic(e1), joints.Prismatic(e2), joints.Revolute(normal)],
        q=lambda x: np.array([x[2], x[0], x[1]]),
        E=E,
        Edot=Edot,
    )


@pytest.fixture(params=[(f, seed) for f in (universal, spherical, planar) for seed in (0, 1, 2)])
def pair(request) -> Pair:
    make, seed = request.param
    return make(seed)


def test_bodies_move_alike(pair):
    names = ["base", "body", "behind"]
    rows = [pair.several.body_index(name) for name in names]
    mine, theirs = pair.mine, pair.theirs
    close(pp.poses(pair.one, mine[0]), pp.poses(pair.several, theirs[0])[rows])
    V = pp.velocities(pair.several, *theirs[:2])[rows]
    close(pp.velocities(pair.one, *mine[:2]), V)
    A = pp.accelerations(pair.several, *theirs)[rows]
    close(pp.accelerations(pair.one, *mine), A)


def test_inverse_dynamics_agree(pair):
    tau = pp.inverse_dynamics(pair.one, *pair.mine)
    close(pair.inner.T @ tau, pp.inverse_dynamics(pair.several, *pair.theirs))


@pytest.mark.parametrize("algorithm", [None, "FD1", "FD2", "FD3", "FD4"])
def test_forward_dynamics_agree(pair, algorithm):
    tau = np.random.default_rng(0).standard_normal(pair.one.nv)
    vdot = pp.forward_dynamics(pair.one, *pair.mine[:2], tau, algorithm=algorithm)
    w, effort = pair.theirs[1], pair.inner.T @ tau
    wdot = pp.forward_dynamics(pair.several, *pair.theirs[:2], effort, algorithm=algorithm)
    close(vdot, pair.inner @ wdot + pair.inner_rate @ w)


def test_mass_matrices_agree(pair):
    M = pp.mass_matrix(pair.one, pair.mine[0])
    close(pair.inner.T @ M @ pair.inner, pp.mass_matrix(pair.several, pair.theirs[0]))
    inverse = pp.mass_matrix_inverse(pair.several, pair.theirs[0])
    close(pp.mass_matrix_inverse(pair.one, pair.mine[0]), pair.inner @ inverse @ pair.inner.T)


def test_energies_agree(pair):
    close(
        pp.kinetic_energy(pair.one, *pair.mine[:2]),
        pp.kinetic_energy(pair.several, *pair.theirs[:2]),
    )
    close(
        pp.potential_energy(pair.one, pair.mine[0]),
        pp.potential_energy(pair.several, pair.theirs[0]),
    )
