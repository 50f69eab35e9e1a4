"""Force elements: closed forms, energy balance, second routes, and refusals."""

import numpy as np
import pytest
from amounts import mostly
from integrator_steps import steps_of
from known_mechanisms import floating_body, slider
from random_models import branching, model_from_parents, random_tree
from scipy.integrate import simpson

import phipsi as pp
from phipsi.simulation.forces.force import BoundForces, State, bind_forces

F = pp.forces
TIGHT = {"rtol": 1e-12, "atol": 1e-14}


def one(element, model):
    (bound,) = bind_forces([element], model)
    return bound


# ---- closed forms -------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", ["dopri", "radau", "lsoda"])
def test_damped_oscillator(integrator):
    """m ẍ + c ẋ + k x = 0 with m = 2, c = 1.2, k = 50."""
    spring, damper = F.JointSpring("block", 50.0, rest=[0.25]), F.JointDamper("block", 1.2)
    times = np.linspace(0, 3, 31)
    run = pp.simulate(
        slider(2.0), [0.45], [0.0], 3.0, forces=[spring, damper], output_times=times,
        integrator=integrator, rtol=1e-9 if integrator == "radau" else 1e-11,
    )  # fmt: skip
    decay, omega = 0.3, np.sqrt(25 - 0.09)
    wave = np.cos(omega * times) + decay / omega * np.sin(omega * times)
    np.testing.assert_allclose(run.q[:, 0], 0.25 + 0.2 * np.exp(-decay * times) * wave, atol=1e-8)


def test_point_spring_on_a_slider():
    """A spring along the path: x'' = −k/m (x − 1) about the rest length."""
    spring = F.PointSpring(("world", (0, 0, 0)), "block", stiffness=8.0, rest_length=1.0)
    run = pp.simulate(slider(2.0), [1.3], [0.0], 2.0, forces=spring, **TIGHT)
    np.testing.assert_allclose(run.q[:, 0], 1 + 0.3 * np.cos(2 * run.t), atol=1e-10)
    np.testing.assert_allclose(run.energy, 0.5 * 8 * 0.09, rtol=1e-10)


def test_friction_brings_to_rest_where_coulomb_does():
    """Sliding with F = 3 N, m = 2 kg from 1 m/s: it stops after m v²/(2 F) = 1/3 m."""
    rub = F.JointFriction("block", 3.0, velocity_scale=1e-4)
    run = pp.simulate(slider(2.0), [0.0], [1.0], 1.0, forces=rub, integrator="radau", rtol=1e-7)
    assert run.q[-1, 0] == pytest.approx(1 / 3, abs=1e-4)
    moving = run.t < 0.6
    np.testing.assert_allclose(run.v[moving, 0], 1 - 1.5 * run.t[moving], atol=1e-3)


def test_elastic_stop_gives_the_speed_back():
    """A block runs into a stop; half a period π √(m/k) later it leaves with the same speed."""
    stop = F.JointLimit("block", 800.0, upper=0.5)
    leave = pp.Event(lambda t, q, v: q[0] - 0.5, direction=-1)
    run = pp.simulate(slider(2.0), [0.0], [1.0], 1.0, forces=stop, events=leave, **TIGHT)
    assert run.events[0].t == pytest.approx(0.5 + np.pi / 20, abs=1e-9)
    assert run.v[-1, 0] == pytest.approx(-1, abs=1e-9)
    np.testing.assert_allclose(run.energy, 1.0, rtol=1e-9)
    assert run.q.max() == pytest.approx(0.5 + 1 / 20, abs=1e-3)


def test_dissipating_stop_never_pulls():
    stop = one(F.JointLimit("block", 800.0, 5.0, lower=-0.5, upper=0.5), slider())
    model = slider()
    for q, v in ((0.6, -1.0), (0.6, 1.0), (-0.6, 1.0), (-0.6, -1.0), (0.2, 3.0)):
        effort = stop.efforts(State(model, 0.0, np.array([q]), np.array([v])))
        assert effort[0] * np.sign(q) <= 0
        assert (effort[0] == 0) == (abs(q) < 0.5 or 1 + 5 * v * np.sign(q) <= 0)


def test_kepler_orbit():
    """An ellipse from the pericentre: after one period 2π a^1.5/√μ it is back, L and E constant."""
    moon = floating_body()
    field = F.GravityField.inverse_square(mu=4.0, center=(0, 0, 1))
    q0, v0 = [1, 0, 0, 0, 1, 0, 1], [0, 0, 0, 0, 2.4, 0]
    a = 1 / (2 / 1 - 2.4**2 / 4)
    run = pp.simulate(moon, q0, v0, 2 * np.pi * a**1.5 / 2, forces=field, **TIGHT)
    np.testing.assert_allclose(run.q[-1], q0, atol=1e-8)
    np.testing.assert_allclose(run.energy, -2 * 4 / (2 * a), rtol=1e-11)


def test_uniform_field_is_the_models_gravity():
    g = np.array([0.3, -0.5, -9.81])
    model = random_tree(3, 6, gravity=tuple(g))
    floating = model.with_gravity((0, 0, 0))
    field = F.GravityField(lambda p: np.broadcast_to(g, p.shape), lambda p: -p @ g)
    rng = np.random.default_rng(0)
    q0, v0 = model.random_configuration(rng), rng.uniform(-1, 1, model.nv)
    plain = pp.simulate(model, q0, v0, 0.5, **TIGHT)
    other = pp.simulate(floating, q0, v0, 0.5, forces=field, **TIGHT)
    np.testing.assert_allclose(other.q[-1], plain.q[-1], atol=1e-9)
    np.testing.assert_allclose(other.energy, plain.energy[0], rtol=1e-10)


# ---- second routes ------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", ["world", "body"])
def test_wrench_is_the_jacobian_transposed(axes):
    model = branching(6, 4, frames=True)
    rng = np.random.default_rng(1)
    q, v, w = model.random_configuration(rng), rng.standard_normal(model.nv), rng.standard_normal(6)
    for point in (("b4", (0.1, -0.2, 0.3)), "f5", "b0"):
        load = one(F.Wrench(point, w, axes=axes), model).body_forces(State(model, 0.0, q, v))
        efforts = -pp.inverse_dynamics(model, q, v, 0 * v, load) + pp.bias_forces(model, q, v)
        J = pp.jacobian(model, q, [point], axes=axes)
        np.testing.assert_allclose(efforts, J.T @ w, atol=1e-12)


def test_wrench_of_time():
    """A force 6 cos t on 2 kg: x = 3 (1 − cos t)."""
    push = F.Wrench("block", lambda t: [0, 0, 0, 0, 0, 6 * np.cos(t)])
    run = pp.simulate(slider(2.0), [0.0], [0.0], 2.0, forces=push, **TIGHT)
    np.testing.assert_allclose(run.q[:, 0], 3 * (1 - np.cos(run.t)), atol=1e-10)


def conservative(model, rng):
    def springs(k):
        bodies = model.body_names
        for _ in range(k):
            i, j = rng.choice(len(bodies), 2, replace=False)
            a, b = (bodies[i], rng.uniform(-0.3, 0.3, 3)), (bodies[j], rng.uniform(-0.3, 0.3, 3))
            yield F.PointSpring(a, b, rng.uniform(10, 50), rng.uniform(0, 0.5))
        yield F.PointSpring(bodies[-1], ("world", (0.2, 0.1, 0.5)), 30.0, 0.3)

    return [
        *springs(3),
        F.JointSpring(None, rng.uniform(1, 5, model.nv)),
        F.GravityField.inverse_square(3.0, (0, 0, 20)),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_forces_are_the_gradient_of_the_energy(seed):
    """Power of every conservative element = −d/dt of its energy, along random motions."""
    model = random_tree(seed, 5)
    rng = np.random.default_rng(seed)
    q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    V = pp.velocities(model, q, v)
    for element in bind_forces(conservative(model, rng), model):
        state = State(model, 0.0, q, v)
        effort, load = element.efforts(state), element.body_forces(state)
        power = 0.0 if effort is None else effort @ v
        power += 0.0 if load is None else np.sum(load * V)

        def energy(s, element=element):
            return element.potential_energy(State(model, 0.0, model.integrate(q, s * v), v))

        def slope(h, energy=energy):
            return (energy(h) - energy(-h)) / (2 * h)

        rate = (4 * slope(5e-4) - slope(1e-3)) / 3
        assert power == pytest.approx(-rate, rel=1e-8, abs=1e-8), element


@pytest.mark.parametrize("seed", mostly(range(2), 1))
def test_energy_with_conservative_elements(seed):
    model = random_tree(seed + 20, 5)
    rng = np.random.default_rng(seed)
    q0, v0 = model.random_configuration(rng), rng.uniform(-1, 1, model.nv)
    run = pp.simulate(model, q0, v0, 0.5, forces=conservative(model, rng), **TIGHT)
    assert np.ptp(run.energy) < 1e-10 * pp.kinetic_energy(model, run.q, run.v).max()


def test_energy_balance():
    """The power of dampers and friction, integrated, is the energy that is lost."""
    arm = pp.examples.seven_joint_arm(armature=0.05)
    rng = np.random.default_rng(2)
    damped = [
        F.JointDamper(None, 0.8),
        F.JointFriction(arm.joint_names[1:4], 0.5, velocity_scale=0.5),
        F.PointSpring("tool", ("world", (0.5, 0, 0.5)), 20.0, 0.2, damping=6.0),
    ]
    times = np.linspace(0, 1.5, 3001)
    q0, v0 = 0.5 * rng.standard_normal(7), 2 * rng.standard_normal(7)
    run = pp.simulate(arm, q0, v0, 1.5, forces=damped, output_times=times, rtol=1e-11)
    state = State(arm, run.t, run.q, run.v)
    power = np.zeros(len(run))
    for element in bind_forces(damped, arm):
        effort, load = element.efforts(state), element.body_forces(state)
        if effort is not None:
            power += np.sum(effort * run.v, axis=-1)
        if load is not None:
            power += np.sum(load * state.velocities, axis=(-1, -2))
    stored = sum(x.potential_energy(state) for x in bind_forces(damped, arm))
    mechanical = run.energy - stored
    gained = simpson(power, x=times)
    assert mechanical[-1] - mechanical[0] == pytest.approx(gained, abs=2e-6)
    assert run.energy[-1] < run.energy[0] - 1


# ---- merging ------------------------------------------------------------------------------------


def test_many_elements_become_few_and_do_the_same():
    model = branching(7, 5, ["revolute", "prismatic", "universal"])
    rng = np.random.default_rng(3)
    q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    elements = []
    for name in model.joint_names:
        nv = model.joint(name).joint.nv
        elements += [
            F.JointSpring(name, rng.uniform(1, 2, nv), rng.uniform(-1, 1, nv)),
            F.JointDamper(name, rng.uniform(1, 2, nv)),
            F.JointFriction(name, rng.uniform(1, 2, nv), rng.uniform(0.1, 1, nv)),
            F.JointLimit(name, 100.0, 0.1, lower=-0.1, upper=0.1),
            F.PointSpring(model.joint(name).body, ("world", rng.uniform(-1, 1, 3)), 7.0, 0.1, 1.0),
        ]
    elements += [F.JointSpring("j0", 3.0), F.JointDamper("j0", 3.0), F.JointFriction("j0", 0.3)]
    state = State(model, 0.0, q, v)
    merged = bind_forces(elements, model)
    assert len(merged) == 7  # a second spring and a second friction at j0 stay apart
    separate = [x for e in elements for x in bind_forces([e], model)]
    for method in ("efforts", "body_forces", "potential_energy"):
        sums = []
        for group in (merged, separate):
            values = [getattr(x, method)(state) for x in group]
            sums.append(sum(x for x in values if x is not None))
        np.testing.assert_allclose(sums[0], sums[1], rtol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_merged_elements_do_not_change_each_other(seed):
    """On joints that several of them name, with numbers of which many are 0, in any order."""
    rng = np.random.default_rng(seed)
    model = branching(4, seed, ["revolute", "universal", "spherical"])
    q, v = model.random_configuration(rng), 0.3 * rng.standard_normal(model.nv)

    def some(size, low=0.0):
        return rng.uniform(low, 2, size) * (rng.random(size) < 0.5)

    elements = []
    for name in rng.choice(model.joint_names, 10):
        at, nv = model.joint(name).joint, model.joint(name).joint.nv
        rest = at.random(rng)
        friction = F.JointFriction(name, some(nv), rng.uniform(0.1, 1, nv))
        static = some(nv)
        elements += [F.JointSpring(name, some(nv), rest), friction, F.JointDamper(name, some(nv))]
        elements += [F.StribeckFriction(name, static, 0.5 * static, 0.3, some(nv))]
        if at.is_additive:
            elements.append(F.JointLimit(name, some(nv), lower=-0.1, upper=rng.uniform(0, 1, nv)))
    state = State(model, 0.0, q, v)
    merged = BoundForces(elements, model)
    wanted = sum(BoundForces([x], model).efforts(state, 0.0) for x in elements)
    np.testing.assert_allclose(merged.efforts(state, 0.0), wanted, rtol=1e-12, atol=1e-12)
    stored = sum(BoundForces([x], model).potential_energy(state) for x in elements)
    np.testing.assert_allclose(merged.potential_energy(state), stored, rtol=1e-12)
    assert len(merged.bound) < len(elements)


def test_a_stiffness_of_zero_moves_no_rest_and_no_velocity_scale():
    model = model_from_parents([-1], 0, ["universal"])
    state = State(model, 0.0, np.array([0.3, -0.2]), np.array([0.1, 0.1]))
    springs = F.JointSpring("j0", [10, 0], [0.1, 0]), F.JointSpring("j0", [0, 5], [0, 0.4])
    np.testing.assert_allclose(BoundForces(springs, model).efforts(state, 0.0), [-2.0, 3.0])
    none, real = F.JointFriction("j0", 0.0, 1.0), F.JointFriction("j0", 0.3, 0.05)
    for pair in ((none, real), (real, none)):
        sum_of_both = BoundForces(pair, model).efforts(state, 0.0)
        np.testing.assert_allclose(sum_of_both, 2 * [-0.3 * np.tanh(2.0)])


@pytest.mark.parametrize("kind", [F.JointSpring, F.JointDamper, F.JointFriction, F.JointLimit])
def test_a_joint_that_is_named_twice_in_one_element_is_refused(kind):
    more = {"lower": -1.0} if kind is F.JointLimit else {}
    with pytest.raises(
        pp.errors.InputError, match=r"'joint1' is named twice[\s\S]*whose forces are added"
    ):
        kind(["joint1", "joint2", "joint1"], [1.0, 2.0, 3.0], **more).bind(ARM)
    kind(["joint1", "joint2"], [1.0, 2.0], **more).bind(ARM)


def test_batches():
    """All elements take leading axes, as the energy of a trajectory needs."""
    model = model_from_parents([-1, 0, 1], 6, ["free", "spherical", "revolute"])
    rng = np.random.default_rng(4)
    q = model.random_configuration(rng, (5,))
    v, t = rng.standard_normal((5, model.nv)), np.linspace(0, 1, 5)
    elements = [
        *conservative(model, rng),
        F.Wrench("b1", lambda t: [t, 0, 0, 0, t * t, 1]),
        F.JointDamper(None, 1.0),
        F.JointLimit("j2", 5.0, lower=0.0),
    ]
    for element in bind_forces(elements, model):
        together = State(model, t, q, v)
        for method in ("efforts", "body_forces", "potential_energy"):
            whole = getattr(element, method)(together)
            if whole is None:
                continue
            for k in range(5):
                part = getattr(element, method)(State(model, t[k], q[k], v[k]))
                expected = np.broadcast_to(whole, (5, *np.shape(part)))[k]
                np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-13)


# ---- joint properties ----------------------------------------------------------------------------


def test_from_model():
    arm = pp.examples.seven_joint_arm()
    damper, stop = F.from_model(arm)
    q, v = np.full(7, 4.0), np.ones(7)
    state = State(arm, 0.0, q, v)
    np.testing.assert_allclose(one(damper, arm).efforts(state), -0.1)
    least = np.diagonal(pp.mass_matrix(arm, arm.neutral())) * (np.pi / 0.02) ** 2
    k = one(stop, arm).efforts(state) / (arm.upper - 4.0)
    assert (k >= least * (1 - 1e-12)).all() and (k < 1e3 * least).all()
    run = pp.simulate(arm, np.full(7, 0.1), np.zeros(7), 2.0, forces=F.from_model(arm), rtol=1e-6)
    deepest = 1.5 * np.abs(run.v).max(axis=0) * 0.02 / np.pi  # a half wave of v sin(π t/T)
    assert (run.q < arm.upper + deepest).all() and (run.q > arm.lower - deepest).all()
    free = pp.simulate(arm, np.full(7, 0.1), np.zeros(7), 2.0, rtol=1e-6)
    assert (free.q > arm.upper + 1).any() or (free.q < arm.lower - 1).any()


def test_friction_of_a_file(tmp_path):
    pp.save_urdf(pp.examples.planar_arm(2).with_gravity((0, 0, -9.81)), tmp_path / "arm.urdf")
    text = (tmp_path / "arm.urdf").read_text()
    if "<dynamics" in text:
        raise AssertionError("the test file already has dynamics; write them here instead")
    text = text.replace("</joint>", '<dynamics damping="0.3" friction="0.7"/></joint>')
    (tmp_path / "arm.urdf").write_text(text)
    arm = pp.load(tmp_path / "arm.urdf")
    kinds = [type(x).__name__ for x in F.from_model(arm)]
    assert kinds == ["JointDamper", "JointFriction", "JointFriction"]
    state = State(arm, 0.0, np.zeros(2), np.array([1.0, -1.0]))
    total = sum(x.efforts(state) for x in bind_forces(F.from_model(arm), arm))
    np.testing.assert_allclose(total, [-1.0, 1.0])
    assert len(bind_forces(F.from_model(arm), arm)) == 2


# ---- refusals -----------------------------------------------------------------------------------

ARM = pp.examples.planar_arm(2)


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (lambda: F.JointDamper("joint3", 1.0), r"no joint 'joint3'. Did you mean 'joint"),
        (lambda: F.JointDamper("joint1", -1.0), "not negative"),
        (lambda: F.JointDamper("joint1", [1.0, 2.0]), "must be one number or 1"),
        (lambda: F.JointDamper("joint1", "soft"), "must be one number or 1"),
        (lambda: F.JointSpring("joint1", np.nan), "stiffness is nan"),
        (lambda: F.JointLimit("joint1", 10.0), "no limits in the model"),
        (lambda: F.JointLimit("joint1", 1.0, lower=np.nan), "lower is nan; .* a number, or -inf"),
        (lambda: F.JointLimit("joint1", 1.0, upper=-np.inf), "upper is -inf; .* or inf for no"),
        (lambda: F.JointLimit("joint1", -1.0, lower=0), "stiffness is -1.0; .* at least 0; inf"),
        (lambda: F.JointLimit("joint1", 10.0, lower=2.0, upper=1.0), "lower is above upper"),
        (lambda: F.PointSpring("tip", "link2", 1.0), "same body"),
        (lambda: F.PointSpring("tipp", "world", 1.0), "tipp"),
        (lambda: F.PointSpring("tip", "world", -1.0), "stiffness must be a finite number"),
        (lambda: F.Wrench("tip", [0, 0, 1]), "must be 6 finite numbers"),
        (lambda: F.Wrench("world", [0] * 6), "fixed in the world"),
        (lambda: F.Wrench("tip", [0] * 6, axes="tool"), "is not one of 'world', 'body'"),
        (lambda: F.Wrench("tip", lambda t: [t]), r"the wrench at t = 0 s must be 6"),
        (lambda: F.GravityField(9.81), "takes functions"),
        (lambda: F.GravityField(lambda p: p[..., 0]), "one acceleration per position"),
        (lambda: F.JointDamper, "make one from the class"),
        (lambda: 3, "which is not a force element"),
    ],
)
def test_bad_elements_are_refused(element, message):
    with pytest.raises(pp.errors.InputError, match=message):
        pp.simulate(ARM, [0, 0], [0, 0], 0.1, forces=[element()])


def test_stops_need_coordinates():
    with pytest.raises(pp.errors.InputError, match=r"joint 'body' \(free\) has no coordinates"):
        pp.simulate(
            floating_body(), floating_body().neutral(), np.zeros(6), 0.1,
            forces=F.JointLimit("body", 1.0, lower=0),
        )  # fmt: skip


class Magnet(F.Force):
    """A force law from outside is one class: a pull towards the plane z = 0, with its energy."""

    def __init__(self, body, strength):
        self.body, self.strength = body, strength

    def _height(self, state):
        return state.poses[..., self.body, 2, 3]

    def body_forces(self, state):
        out = np.zeros((*state.q.shape[:-1], state.model.n_bodies, 6))
        up = state.poses[..., self.body, 2, :3]  # the vertical in body axes
        out[..., self.body, 3:] = -self.strength * self._height(state)[..., None] * up
        return out

    def potential_energy(self, state):
        return 0.5 * self.strength * self._height(state) ** 2


@pytest.mark.parametrize("integrator", ["dopri", "rk4", "variational"])
def test_a_new_force_law_is_one_class(integrator):
    """Its energy is part of the trajectory's, its work can be asked for, batches work."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    inertia = pp.SpatialInertia(2.0, (0, 0, 0), (0.1, 0.2, 0.3))
    b.add_body("ball", joint=pp.joints.Free(), inertia=inertia)
    model, magnet = b.build(), Magnet(0, 8.0)
    q0, v0 = model.neutral(), np.array([0.3, -0.5, 0.2, 0.1, 0.0, 0.0])
    q0[6] = 1.0
    run = pp.simulate(
        model, q0, v0, np.pi / 2, **steps_of(integrator, dt=1e-3), forces=magnet,
        quadratures={"magnet": magnet},
    )  # fmt: skip
    np.testing.assert_allclose(run.q[-1, 6], -1.0, atol=1e-5)  # half a period of ω = 2 rad/s
    np.testing.assert_allclose(run.energy, run.energy[0], rtol=1e-5)
    stored = 0.5 * 8.0 * (run.q[:, 6] ** 2 - 1.0)
    np.testing.assert_allclose(run.quadratures["magnet"], -stored, atol=1e-5)


class Bad(F.Force):
    def __init__(self, value):
        self.value = value

    def efforts(self, state):
        return self.value

    def __repr__(self):
        return "Bad()"


def test_an_element_of_the_user_is_checked():
    with pytest.raises(pp.errors.InputError, match=r"Bad\(\): efforts returned shape \(3,\)"):
        pp.simulate(ARM, [0, 0], [0, 0], 0.1, forces=Bad(np.zeros(3)))
    with pytest.raises(pp.errors.InputError, match=r"Bad\(\): efforts is inf at joint 'joint2'"):
        pp.simulate(ARM, [0, 0], [0, 0], 0.1, forces=Bad(np.array([0, np.inf])))


def test_stops_without_joints_do_nothing_and_without_limits_are_refused():
    empty = pp.ModelBuilder().build()
    for stiffness in (10.0, np.inf):
        for limits in ({}, {"lower": -1.0}):
            stop = F.JointLimit(None, stiffness, **limits)
            assert pp.simulate(empty, [], [], 0.1, forces=[stop]).complete
    assert pp.simulate(ARM, [0, 0], [0, 0], 0.01, forces=[F.JointLimit([], 1.0, lower=0)]).complete
    for run in (lambda x: pp.simulate(ARM, [0, 0], [0, 0], 0.1, forces=[x]),
                lambda x: pp.Simulator(ARM, [x])):  # fmt: skip
        with pytest.raises(pp.errors.InputError, match="no joint of the model has limits"):
            run(F.JointLimit(None, 10.0))


def test_stops_of_all_joints_with_given_limits():
    """None stands for all joints that can have a limit, also where the model has none."""
    arm = pp.examples.planar_arm(2)
    assert not np.isfinite(arm.upper).any()
    stop = pp.forces.JointLimit(None, 1e3, lower=-0.2, upper=[0.1, 0.3]).bind(arm)
    state = pp.forces.State(arm, 0.0, np.array([0.3, -0.4]), np.zeros(2))
    np.testing.assert_allclose(stop.efforts(state), [-1e3 * 0.2, 1e3 * 0.2])
