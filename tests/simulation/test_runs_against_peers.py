"""Runs with springs, dampers, PD control and a policy: MuJoCo's trajectories, energy, and bits."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from amounts import mostly
from numpy.testing import assert_array_equal
from peers import InMujoco, mujoco_tree

import phipsi as pp

STEPS, DT = 40, 2e-3
METHODS = {"semi_implicit": mujoco.mjtIntegrator.mjINT_EULER, "rk4": mujoco.mjtIntegrator.mjINT_RK4}
ROUNDING = 1e-11
SPRING, DAMPING, KP, KD = 3.0, 0.4, 5.0, 0.7


@pp.law
def hold(q, v, kp, kd, target):
    """PD control."""
    return kp * (target - q) - kd * v


@pp.law
def policy(q, v, w1, b1, w2):
    """A layer of tanh on all that is seen."""
    return w2 @ np.tanh(w1 @ np.concatenate([q, v]) + b1)


def network(n, seed=3):
    rng = np.random.default_rng(seed)
    w1, b1, w2 = rng.normal(size=(30, 2 * n)) / n, rng.normal(size=30), rng.normal(size=(n, 30)) / 6
    return {"w1": w1, "b1": b1, "w2": w2}


def model_of(which, n=6):
    """An arm of seven joints, or a random tree with joints that MuJoCo has too."""
    return pp.examples.seven_joint_arm() if which == "arm" else mujoco_tree(which, n)


def is_flat(model):
    return all(joint.is_additive for joint in model.joints)


SEEDS = range(30)
FLAT = ["arm", *[s for s in SEEDS if is_flat(mujoco_tree(s, 3))][:2]]
CURVED = [s for s in SEEDS if not is_flat(mujoco_tree(s, 6))][:4]


class Pair:
    """A model with the same elements here and in MuJoCo, at the same start.

    Springs and dampers act at all joints but free ones; PD control at hinges and slides.
    """

    def __init__(self, which, n=6, *, spring=SPRING, damping=DAMPING, kp=KP, kd=KD):
        model = self.model = model_of(which, n)
        rng = np.random.default_rng(7)
        self.q0 = model.random_configuration(rng)
        self.v0 = 0.5 * rng.normal(size=model.nv)
        kinds = dict(zip(model.joint_names, model.joints, strict=True))
        self.held = [n for n, j in kinds.items() if j.kind != "free"]
        self.driven = [n for n, j in kinds.items() if j.kind in ("revolute", "prismatic")]
        rest = model.random_configuration(rng)
        self.target = rng.normal(size=len(self.driven))
        where = [i for n in self.held for i in range(model.nq)[model.q_slice(n)]]
        self.laws = [
            pp.forces.JointSpring(self.held, spring, rest[where]),
            pp.forces.JointDamper(self.held, damping),
        ]
        if self.driven:
            bound = hold.bind(kp=kp, kd=kd, target=self.target)
            self.laws.append(bound.on(self.driven))
        self.peer = InMujoco(model)
        spec = self.peer.spec
        spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
        for name in self.driven:
            motor = spec.add_actuator(name=name, target=f"{name}.0")
            motor.trntype = mujoco.mjtTrn.mjTRN_JOINT
            motor.set_to_position(kp=KP, kv=KD)
        theirs = self.peer.theirs = spec.compile()
        for name in self.held:
            rates, places = model.v_slice(name), model.q_slice(name)
            theirs.dof_damping[rates] = DAMPING
            theirs.qpos_spring[places] = rest[places]
        for i in range(theirs.njnt):
            if theirs.joint(i).name.rpartition(".")[0] in self.held:
                theirs.jnt_stiffness[i] = SPRING
        self.peer.data = mujoco.MjData(theirs)

    def ours(self, integrator, dt=DT, steps=STEPS, laws=None):
        """The last state, in MuJoCo's coordinates."""
        laws = self.laws if laws is None else laws
        sim = pp.Simulator(self.model, laws, dt, integrator=integrator)
        run = sim.rollout(sim.initial_state(self.q0, self.v0), steps=steps, record_every=steps)
        return self._both(run.q[-1], run.v[-1])

    def _both(self, q, v):
        return np.concatenate([self.peer.q(q), self.peer.transform(q) @ v])

    def mujoco(self, integrator, dt=DT, steps=STEPS, control=None):
        theirs, data = self.peer.theirs, self.peer.data
        theirs.opt.timestep, theirs.opt.integrator = dt, METHODS[integrator]
        start = self._both(self.q0, self.v0)
        data.qpos[:], data.qvel[:] = start[: theirs.nq], start[theirs.nq :]
        data.ctrl[:] = self.target
        for _ in range(steps):
            if control is not None:
                data.qfrc_applied[:] = control(data.qpos, data.qvel)
            mujoco.mj_step(theirs, data)
        return np.concatenate([data.qpos, data.qvel])


def off(x, y):
    """The largest difference, relative to the largest number."""
    return np.abs(x - y).max() / np.abs(y).max()


@pytest.mark.parametrize("integrator", METHODS)
@pytest.mark.parametrize("which", FLAT)
def test_mujoco_agrees(which, integrator):
    """Springs, dampers and position actuators on coordinates that are not curved."""
    n = 6 if which == "arm" else 3
    pair = Pair(which, n)
    wanted = pair.mujoco(integrator)
    assert off(pair.ours(integrator), wanted) < ROUNDING
    for other in ({"spring": 1.0001}, {"damping": 1.0001}, {"kp": 1.0001}, {"kd": 1.0001}):
        ((name, factor),) = other.items()
        value = {"spring": SPRING, "damping": DAMPING, "kp": KP, "kd": KD}[name] * factor
        twin = Pair(which, n, **{name: value})
        if twin.driven or name in ("spring", "damping"):
            assert off(twin.ours(integrator), wanted) > ROUNDING, name


@pytest.mark.parametrize("which", mostly(CURVED, 2))
def test_mujoco_agrees_on_curved_joints(which):
    """Semi-implicit steps are the same; RK4 of both converges to one run, with order four."""
    pair = Pair(which)
    wanted = pair.mujoco("semi_implicit")
    assert off(pair.ours("semi_implicit"), wanted) < ROUNDING
    exact = pair.ours("rk4", DT / 4, 4 * STEPS)
    errors = [off(pair.mujoco("rk4", DT / k, k * STEPS), exact) for k in (1, 2)]
    assert errors[0] < 1e-6 and errors[1] < errors[0] / 10
    assert off(pair.ours("rk4"), exact) < 2 * errors[0]
    twin = Pair(which, damping=1.001 * DAMPING)
    assert off(twin.ours("semi_implicit"), wanted) > ROUNDING
    assert off(pair.mujoco("rk4"), twin.ours("rk4", DT / 4, 4 * STEPS)) > 2 * errors[0]


def test_mujoco_with_the_same_policy():
    """A network that acts at every step, in MuJoCo by hand."""
    pair = Pair("arm")
    numbers = network(pair.model.nv)

    def control(q, v):
        return numbers["w2"] @ np.tanh(numbers["w1"] @ np.concatenate([q, v]) + numbers["b1"])

    wanted = pair.mujoco("semi_implicit", control=control)
    laws = [*pair.laws, policy.bind(**numbers)]
    assert off(pair.ours("semi_implicit", laws=laws), wanted) < ROUNDING
    numbers["w1"] = 1.0001 * numbers["w1"]
    laws = [*pair.laws, policy.bind(**numbers)]
    assert off(pair.ours("semi_implicit", laws=laws), wanted) > ROUNDING


# ---- energy --------------------------------------------------------------------------------------


def balance(which, integrator, dt, counted):
    """The largest change of energy + counted work of the dampers along runs of 0.1 s, relative."""
    model = model_of(which, 5)
    rng = np.random.default_rng(5)
    q0 = np.array([model.random_configuration(rng) for _ in range(3)])
    v0, rest = rng.normal(size=(3, model.nv)), model.random_configuration(rng)
    stiffness, damping = rng.uniform(0.5, 3.0, model.nv), rng.uniform(0.02, 0.05, model.nv)

    @pp.law(states={"work": 0.0})
    def meter(v, c, work):
        return {"work": counted * ((c * v) @ v), "lost": work}

    laws = [
        pp.forces.JointSpring(None, stiffness, rest),
        pp.forces.JointDamper(None, damping),
        meter.bind(c=damping),
    ]
    sim = pp.Simulator(model, laws, dt, integrator=integrator)
    run = sim.rollout(
        sim.initial_state(q0, v0), steps=round(0.1 / dt), record=("q", "v", "meter.lost")
    )
    xi = np.array([[model.difference(rest, q) for q in one] for one in run.q])
    mechanical = pp.kinetic_energy(model, run.q, run.v) + pp.potential_energy(model, run.q)
    stored, lost = 0.5 * (stiffness * xi * xi).sum(axis=-1), run["meter.lost"]
    assert (lost[:, -1] > 0).all() and np.ptp(stored, axis=1).min() > 1e-6
    total = mechanical + stored + lost
    return np.abs(total - total[:, :1]).max() / np.abs(lost).max()


ORDERS = {"rk4": (4, 1e-5), "semi_implicit": (1, 1.0)}


@pytest.mark.parametrize("integrator", METHODS)
@pytest.mark.parametrize("which", mostly(["arm", 2, 3], 2))
def test_energy_balances(which, integrator):
    """Mechanical energy, springs, and the work of the dampers, to the order of the method."""
    order, limit = ORDERS[integrator]
    errors = [balance(which, integrator, dt, 1.0) for dt in (1e-3, 5e-4)]
    assert errors[0] < limit and errors[1] < errors[0] / 2 ** (order - 0.5)
    wrong = {4: 1.001, 1: 2.0}[order]  # work that is not the dampers'
    twins = [balance(which, integrator, dt, wrong) for dt in (1e-3, 5e-4)]
    assert twins[1] > twins[0] / 2 ** (order - 0.5)


# ---- bits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", METHODS)
def test_the_same_bits_however_it_runs(integrator):
    """Alone, in a batch, with threads, in pieces, and step by step."""
    model = mujoco_tree(CURVED[0], 6)
    rng, count = np.random.default_rng(2), 13
    driven = [n for n, j in zip(model.joint_names, model.joints, strict=True) if j.nv == 1]
    assert driven
    n = len(driven)
    laws = [
        pp.forces.JointSpring(None, SPRING), pp.forces.JointDamper(None, DAMPING),
        pp.forces.JointFriction(driven, 0.3, 0.1),
        pp.forces.JointLimit(driven, 50.0, 0.2, lower=-0.5, upper=0.5),
        hold.bind(kp=KP, kd=KD, target=np.zeros(n)).on(driven).sampled(1 / (5 * DT), delay=1),
        policy.bind(**network(n)).on(driven),
    ]  # fmt: skip
    sim = pp.Simulator(model, laws, DT, integrator=integrator)
    q0 = np.array([model.random_configuration(rng) for _ in range(count)])
    v0 = rng.normal(size=(count, model.nv))
    gains = rng.uniform(1.0, 9.0, count)

    def start(i):
        return sim.initial_state(q0[i], v0[i], parameters={"hold.kp": gains[i]})

    whole = sim.rollout(start(slice(None)), steps=STEPS)
    assert np.isfinite(whole.q).all() and len(np.unique(whole.q[:, -1, -1])) == count
    for threads in (2, 3):
        again = sim.rollout(start(slice(None)), steps=STEPS, threads=threads)
        assert_array_equal(again.q, whole.q)
    for i in (0, 7, 12):
        alone = sim.rollout(start(i), steps=STEPS)
        assert_array_equal(alone.q, whole.q[i])
        assert_array_equal(alone.v, whole.v[i])
    for first in (5, 12):
        one = sim.rollout(start(slice(None)), steps=first)
        two = sim.rollout(one.state, steps=STEPS - first)
        assert_array_equal(two.q, whole.q[:, first:])
        assert_array_equal(two.v, whole.v[:, first:])
    state = start(slice(3, 6))
    for k in range(1, STEPS + 1):
        sim.step(state)
        assert_array_equal(state.q, whole.q[3:6, k])
