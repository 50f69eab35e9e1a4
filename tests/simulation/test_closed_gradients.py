"""Motions of systems with loops, many at once, and their derivatives, by differences."""

from functools import cache

import numpy as np
import pytest
from amounts import ALL, seeds
from comparers import proportional as close
from known_systems import pinned_arm
from random_models import model_from_parents
from random_systems import KINDS, admissible, random_system

import phipsi as pp
from phipsi.errors import InputError, SimulationError
from phipsi.simulation.runs import gradients

pytestmark = pytest.mark.usefixtures("interpreted")  # derivatives of many mechanisms

INTEGRATORS = ("semi_implicit", "rk4")
# derivative at 0 from values at ±1 … ±4 steps, exact for polynomials of degree 8
STENCIL = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}


def difference(value, h=1e-3):
    """d/ds of value(s) at 0, where value takes all s at once."""
    ahead, behind = np.split(value(h * np.array([*STENCIL, *(-k for k in STENCIL)])), 2)
    return np.einsum("k,k...->...", np.array([*STENCIL.values()]) / h, ahead - behind)


def each(value):
    """A value for `difference` that takes one s."""
    return lambda many: np.array([value(s) for s in many])


def along(s, d):
    """s d for every s."""
    return np.multiply.outer(s, d)


def four_bar(tree=None):
    system = pinned_arm(arm=tree)
    return system, system.assemble([1.0, -1.0, -1.5])


def sturdy_four_bar():
    """With bodies that have room for any small change of their inertias, and rotors."""
    box = pp.SpatialInertia(1.3, (0.4, 0.1, 0.05), np.diag([0.2, 0.25, 0.3]))
    p = np.tile(box.parameters, 3)
    arm = pp.examples.planar_arm(3)
    return four_bar(arm.with_inertial_parameters(p, armature=np.full(3, 0.3)))


@cache
def spatial():
    """Two arms with a ball joint and a universal joint, held together by a ball."""
    kinds = ["revolute", "spherical", "revolute", "revolute", "revolute", "universal"]
    tree = model_from_parents([-1, 0, 1, -1, 3, 4], 2, kinds, armature=True)
    ends = (tree.body_names[2], (0.3, 0, 0)), (tree.body_names[5], (0, 0.3, 0))
    system = pp.System(tree, [pp.constraints.Spherical(name="ball", a=ends[0], b=ends[1])])
    return system, system.assemble(restarts=20)


MECHANISMS = {"four-bar": four_bar, "spatial": spatial}


def moving(system, q, seed=0, count=None):
    """Admissible rates and any efforts."""
    rng = np.random.default_rng(seed)
    if count is None:
        return admissible(system, q, rng), rng.standard_normal(system.model.nv)
    v = np.array([admissible(system, q, rng) for _ in range(count)])
    return v, rng.standard_normal((count, system.model.nv))


# ---- motions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_motions_are_those_of_simulate(name, integrator):
    system, q = MECHANISMS[name]()
    v, tau = moving(system, q, count=3)
    Q, V = pp.rollout(system, q, v, tau, 0.02, 6, integrator=integrator, record_every=3)
    assert Q.shape == (3, 3, system.model.nq) and V.shape == (3, 3, system.model.nv)
    assert np.abs(system.residual(Q[:, 1:])).max() < 1e-12
    for i in range(3) if ALL else (2,):
        run = pp.simulate(
            system, q, v[i], 0.12, integrator=integrator, dt=0.02,
            controller=lambda t, q, v, i=i: tau[i],
        )  # fmt: skip
        assert np.abs(system.model.difference(run.q[-1], Q[i, -1])).max() < 1e-10
        close(V[i, -1], run.v[-1], 1e-10)
    varying = np.broadcast_to(tau[0], (6, system.model.nv))
    again = pp.rollout(system, q, v[0], varying, 0.02, 6, integrator=integrator, record_every=3)
    close(again[0], Q[0], 1e-12)


def test_without_rows_it_is_the_tree():
    tree = model_from_parents([-1, 0, 1], 3, ["free", "spherical", "revolute"])
    system = pp.System(tree, [])
    rng = np.random.default_rng(0)
    q, (v, tau) = tree.random_configuration(rng), rng.standard_normal((2, tree.nv))
    for integrator in INTEGRATORS:
        mine = pp.rollout(system, q, v, tau, 0.02, 5, integrator=integrator)
        for x, y in zip(mine, pp.rollout(tree, q, v, tau, 0.02, 5, integrator=integrator),
                        strict=True):  # fmt: skip
            close(x, y, 1e-12)
        mine = pp.step_derivatives(system, q, v, tau, 0.02, integrator=integrator)
        theirs = pp.step_derivatives(tree, q, v, tau, 0.02, integrator=integrator)
        for x, y in zip(mine, theirs, strict=True):
            close(x, y, 1e-12)


# ---- one step ------------------------------------------------------------------------------------


def check_step(system, q, integrator, dt=0.02, seed=0):
    """Along any change of the state, also one that opens the loops, within what is accepted."""
    tree, rng = system.model, np.random.default_rng(seed)
    v, tau = moving(system, q, seed)
    A, B = pp.step_derivatives(system, q, v, tau, dt, integrator=integrator)
    G = system.jacobian(q)
    d = rng.standard_normal((3, tree.nv))
    for i in (0, 1):  # changes that keep q0 and v0 admissible to first order
        d[i] -= np.linalg.pinv(G, rcond=1e-10) @ (G @ d[i])
    q1, v1 = (x[-1] for x in pp.rollout(system, q, v, tau, dt, 1, integrator=integrator))

    def moved(s):
        at, rates = start(s)
        Q, V = pp.rollout(system, at, rates, tau + along(s, d[2]), dt, 1, integrator=integrator)
        return np.concatenate([tree.difference(q1, Q[:, -1]), V[:, -1] - v1], axis=1)

    def start(s):
        return system.project(tree.integrate(q, along(s, d[0])), v + along(s, d[1]))

    def changed(s):
        at, rates = start(s)
        return np.concatenate([tree.difference(q, at), rates], axis=1)

    close(A @ difference(changed) + B @ d[2], difference(moved), 1e-8, np.abs(A).max())
    after, held = system.jacobian(q1), system.rows.has_position
    for part in (A, B):  # whatever changes, the loops stay closed
        assert np.abs((after @ part[: tree.nv])[held]).max(initial=0.0) < 1e-9 * np.abs(part).max()


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_steps_of_mechanisms(name, integrator):
    check_step(*MECHANISMS[name](), integrator)


@pytest.mark.parametrize("seed", seeds(8, 1))
def test_steps_of_random_systems(seed):
    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:3]]
    system, q = random_system(seed, 5, kinds, independent=True, armature=seed % 2 == 1)
    check_step(system, q, INTEGRATORS[seed % 2], 0.01, seed)


@pytest.mark.parametrize("name", MECHANISMS)
def test_all_changes_of_the_state(name):
    """The projection of states off the constraints, too: directly through the computed step."""
    from phipsi.simulation.analysis.step_derivatives import linear_step
    from phipsi.simulation.integrators.motion import Motion
    from phipsi.simulation.integrators.tableaux import METHODS
    from phipsi.simulation.runs.rollout import projected_step

    system, q = MECHANISMS[name]()
    tree, rng = system.model, np.random.default_rng(4)
    v, tau = moving(system, q)
    d = rng.standard_normal((3, tree.nv))
    for integrator in INTEGRATORS:
        motion, method = Motion(system), METHODS[integrator]
        q1, v1 = projected_step(motion, method, q[None], v[None], tau[None], 0.05)

        def moved(s, motion=motion, method=method, q1=q1, v1=v1):
            at = tree.integrate(q, along(s, d[0])), v + along(s, d[1]), tau + along(s, d[2])
            Q, V = projected_step(motion, method, *at, 0.05)
            return np.concatenate([tree.difference(q1[0], Q), V - v1], axis=1)

        step = linear_step(motion, q[None], v[None], tau[None], 0.05, integrator)[0]
        close(step @ d.ravel(), difference(moved, 5e-4), 1e-9, np.abs(step).max())


def test_batches_of_steps():
    system, q = spatial()
    v, tau = moving(system, q, count=3)
    A, B = pp.step_derivatives(system, q, v[:, None], tau, 0.02, integrator="rk4")
    n = system.model.nv
    assert A.shape == (3, 3, 2 * n, 2 * n) and B.shape == (3, 3, 2 * n, n)
    one = pp.step_derivatives(system, q, v[2], tau[1], 0.02, integrator="rk4")
    close(A[2, 1], one[0], 1e-10)
    close(B[2, 1], one[1], 1e-10)


# ---- whole motions -------------------------------------------------------------------------------


class Motion:
    """Some motion, and the slopes of its cost along changes of everything, by differences."""

    steps, dt = 5, 0.03

    def __init__(self, integrator):
        self.integrator = integrator
        self.system, self.q = system, q = sturdy_four_bar()
        tree, rng = system.model, np.random.default_rng(1)
        n = tree.nv
        self.v, _ = v, _ = moving(system, q)
        self.tau = tau = rng.standard_normal((self.steps, n))
        self.weights = rng.standard_normal((3, n))
        self.value = self.total(system, q, v, tau)

        self.d = d = rng.standard_normal((self.steps, n))
        self.along_tau = difference(lambda s: self.total(system, q, v, tau + along(s, d)))

        def start(s):
            return system.project(tree.integrate(q, along(s, d[0])), v + along(s, d[1]))

        self.change_of_start = difference(
            lambda s: np.concatenate([tree.difference(q, start(s)[0]), start(s)[1]], axis=1)
        )
        self.along_start = difference(lambda s: self.total(system, *start(s), tau))

        p = pp.identification.inertial_parameters(tree, armature=True)
        self.change = p * rng.standard_normal(len(p))

        def heavier(s):
            both = p + s * self.change
            bodies, rotors = both[: 10 * tree.n_bodies], both[10 * tree.n_bodies :]
            other = tree.with_inertial_parameters(bodies, armature=rotors)
            return self.total(pp.System(other, system.constraints), q, v, tau)

        self.along_change = difference(each(heavier))

    def running(self, k, q, v, tau):
        w = self.weights
        value = (w[0] * np.sin(q) + w[1] * v**2 + w[2] * tau**2).sum(-1)
        return value, w[0] * np.cos(q), 2 * w[1] * v, 2 * w[2] * tau

    def final(self, q, v):
        return (self.weights[2] * v**3).sum(-1), None, 3 * self.weights[2] * v**2

    def total(self, system, q, v, tau):
        Q, V = pp.rollout(
            system, q, v, tau, self.dt, self.steps, integrator=self.integrator, per_step=True
        )
        running = self.running(None, Q[..., :-1, :], V[..., :-1, :], tau)[0].sum(-1)
        return running + self.final(Q[..., -1, :], V[..., -1, :])[0]


motion = cache(Motion)  # one for all lengths of segments


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("segment", [None, 3])
def test_gradients_of_motions(integrator, segment):
    """By everything at once: efforts, admissible changes of the start, inertias and rotors."""
    m = motion(integrator)
    n = m.system.model.nv
    found = pp.rollout_gradient(
        m.system, m.q, m.v, m.tau, m.dt, m.steps, running=m.running, final=m.final,
        integrator=integrator, parameters=True, segment=segment,
    )  # fmt: skip
    close(found.cost, m.value, 1e-12)
    close((found.tau * m.d).sum(), m.along_tau, 1e-9)
    by_start = m.change_of_start
    close(found.q0 @ by_start[:n] + found.v0 @ by_start[n:], m.along_start, 1e-8)
    close(found.parameters @ m.change, m.along_change, 1e-8)


def test_gradients_in_batches_on_curved_joints():
    system, q = spatial()
    tree, n, steps = system.model, system.model.nv, 5
    v, tau = moving(system, q, count=2)
    body = [tree.body_names[-1]]

    def final(q, v):
        place = pp.poses(tree, q, body)[..., 0, :3, 3]
        J = pp.jacobian(tree, q, body)[..., 3:, :]
        return (place**2).sum(-1) / 2, (place[..., None, :] @ J)[..., 0, :], None

    found = pp.rollout_gradient(system, q, v, tau, 0.02, steps, final=final, integrator="rk4")
    assert found.cost.shape == (2,) and found.tau.shape == (2, n)
    d = np.random.default_rng(3).standard_normal((2, n))

    def cost(s):
        effort = tau + along(s, d)
        Q, _ = pp.rollout(system, q, v, effort, 0.02, steps, integrator="rk4", per_step=False)
        return final(Q[..., -1, :], None)[0]

    close((found.tau * d).sum(-1), difference(cost, 0.1), 1e-8)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_the_same_by_the_derivatives_of_steps(integrator, monkeypatch):
    m = motion(integrator)
    options = {"running": m.running, "final": m.final, "integrator": integrator}
    arguments = m.system, m.q, m.v, m.tau, m.dt, m.steps
    found = pp.rollout_gradient(*arguments, parameters=True, **options)
    monkeypatch.setattr(gradients, "has_machine_code", lambda: False)
    again = pp.rollout_gradient(*arguments, parameters=True, segment=3, **options)
    for x, y in zip(found, again, strict=True):
        close(x, y, 1e-11)


def test_the_gradient_of_a_motion_near_a_singular_configuration():
    """Machine code stops there: A and B of its steps decide ranks by singular values."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    rod = pp.SpatialInertia.box((1, 0.1, 0.1), mass=1.0)
    hinge, end = pp.joints.Revolute((0, 0, 1)), pp.Pose(None, (1, 0, 0))
    b.add_body("crank", joint=hinge, inertia=rod)
    b.add_body("bar", parent="crank", joint=hinge, placement=end, inertia=rod)
    b.add_body("rocker", joint=hinge, placement=end, inertia=rod)
    ends = ("bar", (1, 0, 0)), ("rocker", (1, 0, 0))
    pin = pp.constraints.Revolute((0, 0, 1), name="pin", a=ends[0], b=ends[1])
    system, h, steps = pp.System(b.build(), [pin]), 1e-3, 30
    # so close to a line that elimination drops a row
    q, v, tau = np.array([1e-7, -1e-7, 1e-7]), np.array([1.0, -1.0, 1.0]), np.array([0.0, 1.0, 0.0])

    def final(q, v):
        return v.sum(-1), np.ones_like(v), np.ones_like(v)

    found = pp.rollout_gradient(system, q, v, tau, h, steps, final=final)
    Q, V = pp.rollout(system, q, v, tau, h, steps)
    adjoint, by_tau = np.ones(6), np.zeros(3)
    for k in reversed(range(steps)):
        A, B = pp.step_derivatives(system, Q[k], V[k], tau, h)
        adjoint, by_tau = adjoint @ A, by_tau + adjoint @ B
    close(found.q0, adjoint[:3], 1e-9)
    close(found.v0, adjoint[3:], 1e-9)
    close(found.tau, by_tau, 1e-9)


# ---- what is refused -----------------------------------------------------------------------------


def test_refusals():
    system, q = four_bar()
    zero = np.zeros(3)
    v, _ = moving(system, q)
    for call, error, message in (
        (lambda: pp.rollout(system, q + 0.1, zero, zero, 0.01, 3), InputError, "q0 does not close"),
        (lambda: pp.rollout(system, q, zero + 1, zero, 0.01, 3), InputError, "v0 violates the"),
        (lambda: pp.step_derivatives(system, q + 0.1, zero, zero, 0.01), InputError, "does not cl"),
        (lambda: pp.step_derivatives(system, q, zero, zero, np.nan), InputError, "finite number"),
        (lambda: pp.step_derivatives(system, q, zero, zero, 0.1, integrator="dopri"), InputError,
         "can be differentiated"),
        (lambda: pp.rollout(system, q, zero, [1, 3, 0], 0.01, 3, prescribed=["joint1", "joint2"]),
         SimulationError, "prescribed accelerations contradict the constraints"),
        (lambda: pp.rollout(system, q, 40 * v, zero, 0.5, 20), SimulationError, "failed in step"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            call()
    nothing = pp.rollout(system, np.zeros((0, 3)), zero, zero, 0.01, 3)
    assert nothing[0].shape == (0, 4, 3)
    still = pp.rollout(system, q, zero, zero, 0.01, 0)
    assert (still[0] == q).all()
    A, B = pp.step_derivatives(system, np.zeros((0, 3)), zero, zero, 0.01)
    assert A.shape == (0, 6, 6) and B.shape == (0, 6, 3)

    def final(q, v):
        return v.sum(-1), None, np.ones_like(v)

    empty = pp.rollout_gradient(system, np.zeros((0, 3)), zero, zero, 0.01, 3, final=final)
    assert empty.tau.shape == (0, 3) and empty.cost.shape == (0,)
    none = pp.rollout_gradient(system, q, zero, zero, 0.01, 0, final=final)
    assert (none.v0 == 1).all() and not none.tau.any()
