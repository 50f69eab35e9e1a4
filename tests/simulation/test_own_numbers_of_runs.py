"""Behind a run, every trajectory has its own masses, rotors, gravity and numbers of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from geared_trees import geared_tree
from known_systems import on_ground
from numpy.testing import assert_allclose, assert_array_equal
from random_models import model_from_parents, random_tree
from random_systems import admissible, random_system

import phipsi as pp
from phipsi.errors import InputError, PhipsiWarning
from phipsi.simulation.diagram.connect_laws import block_diagram
from phipsi.simulation.forces.body_forces import GravityField, PointSpring
from phipsi.simulation.forces.frame_forces import Bushing, TorsionSpring
from phipsi.simulation.forces.joint_forces import JointSpring

COUNT = 3


def parameters_of(model: pp.Model) -> np.ndarray:
    return pp.identification.inertial_parameters(model).reshape(-1, 10)


def own_bodies(model: pp.Model, rng: np.random.Generator, given: tuple[str, ...]) -> dict[str, Any]:
    """Values (COUNT, …) of what is given."""
    ten = parameters_of(model)
    scales = rng.uniform(0.5, 2.0, (COUNT, len(ten), 1))
    out: dict[str, Any] = {}
    if "inertia" in given:
        out["inertia"] = ten * scales
    if "M" in given:
        out["M"] = pp.compile("M", model, mode="blocks")() * scales[..., None]
    if "gravity" in given:
        out["gravity"] = rng.uniform(-9, 9, (COUNT, 3))
    if "Jr" in given:
        blocks = pp.compile("Jr", model, mode="blocks")()
        own = np.zeros((COUNT, *blocks.shape)) + blocks
        for k, at in enumerate(model.v_slices):
            n = at.stop - at.start
            own[:, k, :n, :n] += rng.uniform(0, 0.2, (COUNT, n))[..., None] * np.eye(n)
        out["Jr"] = own
    return out


def springs(model: pp.Model, rng: np.random.Generator) -> list[Any]:
    a, b = model.body_names[0], model.body_names[-1]
    return [
        JointSpring(None, 3.0),
        JointSpring(model.joint_names[-1], 2.0),
        PointSpring(b, ("world", rng.uniform(-1, 1, 3)), 30.0, 0.2),
        PointSpring(a, b, 10.0, 0.1),
        Bushing("world", a, 3.0),
        TorsionSpring(a, b, 0.0),
        GravityField(lambda p: -0.8 * p, lambda p: 0.4 * (p * p).sum(-1)),
    ]


def own_numbers(sim: pp.Simulator, rng: np.random.Generator) -> dict[str, Any]:
    """Every number of elements for every trajectory, most of them far from their defaults."""
    out = {}
    for name in sim.parameters:
        if name.endswith("stiffness"):
            out[name] = rng.uniform(1.0, 20.0, (COUNT, *sim.compiled.parameters[name].shape))
        if name.endswith("rest_length"):
            out[name] = rng.uniform(0.0, 0.5, (COUNT, *sim.compiled.parameters[name].shape))
    return out


def near_neutral(model: pp.Model, rng: np.random.Generator) -> np.ndarray:
    return model.integrate(model.neutral(), 0.3 * rng.standard_normal((COUNT, model.nv)))


def drifts(run: Any) -> list[float]:
    return [float(np.ptp(run.trajectory(i).energy)) for i in range(COUNT)]


@pytest.mark.parametrize(
    ("seed", "given"), [(0, ("inertia", "Jr", "gravity")), (1, ("M", "gravity")), (2, ())]
)
def test_every_trajectory_of_a_tree_keeps_its_own_energy(seed, given):
    rng = np.random.default_rng(seed)
    kinds = ["revolute", "prismatic", "universal", "spherical"]
    model = random_tree(rng, 4, kinds, armature=True)
    sim = pp.Simulator(model, springs(model, rng), dt=5e-4, per_trajectory=given)
    numbers = own_numbers(sim, rng) | own_bodies(model, rng, given)
    q = near_neutral(model, rng)  # no spring jumps at half a turn
    run = sim.rollout(sim.initial_state(q, parameters=numbers), steps=200, record_every=20)
    assert max(drifts(run)) < 2e-6
    plain = pp.Simulator(model, springs(model, rng), dt=5e-4)
    nominal = plain.rollout(plain.initial_state(q), steps=200, record_every=20).trajectory(0)
    stored = nominal._stored
    assert stored is not None
    for i in range(COUNT):  # with nominal numbers these would not be constant
        t, x, v = run.t[i], run.q[i], run.v[i]
        total = pp.kinetic_energy(model, x, v) + pp.potential_energy(model, x) + stored(t, x, v)
        assert np.ptp(total) > 1e-2
        own = run.trajectory(i)
        assert_allclose(own.resample(own.t).energy, own.energy, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", [2])
def test_every_trajectory_of_a_closed_chain_keeps_its_own_energy(seed):
    rng = np.random.default_rng(seed)
    system, q = random_system(seed, 5, ["Spherical", "Distance"])
    given = ("inertia", "gravity")
    sim = pp.Simulator(system, springs(system.model, rng)[:4], dt=5e-4, per_trajectory=given)
    v = admissible(system, q, rng)
    numbers = own_numbers(sim, rng) | own_bodies(system.model, rng, given)
    run = sim.rollout(sim.initial_state(q, 0.3 * v, parameters=numbers), steps=200, record_every=20)
    assert max(drifts(run)) < 1e-5
    own = run.trajectory(1)
    assert own.system is not None and own.system.model is own.model
    assert_allclose(parameters_of(own.model), numbers["inertia"][1], atol=1e-12)
    total = pp.kinetic_energy(system.model, own.q, own.v) + pp.potential_energy(system.model, own.q)
    assert np.ptp(total) > 1e-3


def test_rotors_behind_gears_stay_in_the_bodies_that_carry_them():
    rng = np.random.default_rng(4)
    model, _ = geared_tree(4, bodies=4, rotors=3)
    sim = pp.Simulator(model, dt=5e-4, per_trajectory=("inertia", "gravity"))
    numbers = own_bodies(model, rng, ("gravity",))
    folded = parameters_of(model)
    bare = np.array([x.parameters for x in model.inertias])
    numbers["inertia"] = folded + bare * rng.uniform(0.0, 1.0, (COUNT, len(bare), 1))
    q, v = model.random_configuration(rng, (COUNT,)), rng.standard_normal((COUNT, model.nv))
    run = sim.rollout(sim.initial_state(q, 0.2 * v, parameters=numbers), steps=200, record_every=20)
    assert max(drifts(run)) < 1e-5


@pytest.mark.parametrize("given", [("inertia", "gravity", "Jr"), ("M",), ("placement",)])
def test_signals_and_expressions_are_those_of_the_trajectory(given):
    """And programs that a law calls are those of the model that it names."""
    rng = np.random.default_rng(7)
    model = model_from_parents([-1, 0, 1], 3, ["revolute", "universal", "prismatic"], armature=True)
    point = (model.body_names[-1], (0.1, 0.2, 0.3))

    @pp.law
    def seen(q: Any, v: Any, energy: Any, weight: Any, inertia: Any, place: Any) -> Any:
        called = pp.mass_matrix(model, q)
        return {"energy_": energy, "weight": weight, "inertia": inertia, "place": place,
                "called": called}  # fmt: skip

    law = seen.bind(
        energy=pp.signals.expression("v* mass_matrix v"),
        weight=pp.signals.expression("H phi M phi* gravity"),
        inertia=pp.signals.expression("mass_matrix"),
        place=pp.signals.position(point),
    )
    sim = pp.Simulator(model, [law], per_trajectory=given)
    numbers = own_bodies(model, rng, given)
    if given == ("placement",):
        moves = rng.uniform(-0.3, 0.3, (COUNT, model.n_bodies, 3))
        pairs = [zip(model.placements, x, strict=True) for x in moves]
        numbers["placement"] = np.array([[_matrix(*x) for x in row] for row in pairs])
    q, v = model.random_configuration(rng, (COUNT,)), rng.standard_normal((COUNT, model.nv))
    names = [f"seen.{x}" for x in ("energy_", "weight", "inertia", "place", "called")]
    run = sim.rollout(
        sim.initial_state(q, v, parameters=numbers), steps=2, record=("q", "v", *names)
    )
    for i in range(COUNT):
        own = run.trajectory(i).model
        x, rates = run.q[i, -1], run.v[i, -1]
        M = pp.mass_matrix(own, x)
        wanted = [
            rates @ M @ rates,
            pp.compile("H phi M phi* gravity", own)(x),
            M,
            pp.poses(own, x, [point])[0, :3, 3],
            pp.mass_matrix(model, x),
        ]
        for name, exact in zip(names, wanted, strict=True):
            assert_allclose(run[name][i, -1], exact, rtol=1e-11, atol=1e-11)
        changed = 3 if given == ("placement",) else 0
        other = wanted[changed]
        nominal = (
            pp.poses(model, x, [point])[0, :3, 3]
            if changed
            else rates @ pp.mass_matrix(model, x) @ rates
        )
        assert np.abs(np.asarray(other) - nominal).max() > 1e-3


def test_a_field_of_gravity_pulls_with_the_masses_of_the_trajectory():
    """All bodies fall alike, also one that has no mass in the model or in a trajectory."""
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    solid, none = pp.SpatialInertia(2.0, (0.1, 0.2, 0.3), 1.0), pp.SpatialInertia(0.0)
    builder.add_body("slide", joint=pp.joints.Prismatic((0, 0, 1)), inertia=none)
    builder.add_body("ball", parent="slide", joint=pp.joints.Spherical(), inertia=solid)
    model, fall = builder.build(), GravityField(lambda p: 0 * p + np.array([0, 0, -10.0]))
    ten = parameters_of(model) * np.array([1.0, 2.0, 0.25])[:, None, None]
    ten[2, 0, 0] = 3.0  # the body that has none
    for given, value in (("inertia", ten), ("M", [_inertias(x) for x in ten])):
        sim = pp.Simulator(model, [fall], per_trajectory=(given,))
        start = sim.initial_state(parameters={given: value})
        found = sim.rollout(start, steps=1, record=("q", "vdot"))["vdot"][:, 0]
        assert_allclose(found, COUNT * [[-10.0, 0, 0, 0]], atol=1e-12)
    planet = pp.Simulator(model, [GravityField.inverse_square(1.0)], per_trajectory=("inertia",))
    away = model.neutral()
    run = planet.rollout(planet.initial_state(away, parameters={"inertia": ten[:2]}), steps=2)
    assert np.isfinite(run.v).all() and np.abs(run.v).max() > 1e-6
    found = planet.gradient(planet.initial_state(away, parameters={"inertia": ten[0]}), steps=2,
                            cotangents={"v": 1.0})  # fmt: skip
    assert np.isfinite(found.parameters["inertia"]).all()


def _inertias(ten: np.ndarray) -> list[np.ndarray]:
    return [pp.SpatialInertia.from_parameters(x).matrix for x in ten]


def test_gradients_by_masses_go_through_what_laws_read():
    """By differences of the run itself; a law that reads ℳ v and one that pulls by masses."""
    model = pp.examples.planar_arm(2)

    @pp.law
    def slow(v: Any, momenta: Any) -> Any:
        return -0.7 * momenta

    law = slow.bind(momenta=pp.signals.expression("mass_matrix v"))
    field = GravityField(lambda p: -0.8 * p)
    sim = pp.Simulator(model, [law, field], dt=1e-2, per_trajectory=("inertia",))
    ten, cost = parameters_of(model), {"q": [0.3, 1.0]}

    def value(x: np.ndarray) -> Any:
        start = sim.initial_state([0.1, 0.4], [1.0, -0.5], parameters={"inertia": x})
        return start, (sim.rollout(start, steps=20).q @ cost["q"]).sum()

    found = sim.gradient(value(ten)[0], steps=20, cotangents=cost).parameters["inertia"]
    for place in ((1, 0), (0, 1), (0, 6), (1, 6)):
        less, more = ten.copy(), ten.copy()
        less[place] -= 1e-5
        more[place] += 1e-5
        slope = (value(more)[1] - value(less)[1]) / 2e-5
        assert abs(slope) > 1e-3
        assert_allclose(found[place], slope, rtol=1e-5)


# ---- efforts -------------------------------------------------------------------------------------


@pp.law(rate=250.0, delay=1)
def hold(q: Any, v: Any, kp: Any, noise: Any) -> Any:
    return -kp * q - 0.2 * v + noise


@pytest.mark.parametrize("per_step", [True, False])
def test_efforts_that_were_not_recorded_are_those_of_the_run(per_step):
    """Of laws with samples, delay and noise; in a run that goes on from another one."""
    rng = np.random.default_rng(1)
    arm = pp.examples.planar_arm(2)
    laws = [hold.bind(kp=3.0, noise=pp.signals.noise(2)), JointSpring(None, 2.0)]
    sim = pp.Simulator(arm, laws, dt=1e-3)
    kp = rng.uniform(1, 5, (2, 3))
    start = sim.initial_state(
        rng.standard_normal((2, 3, 2)), parameters={"hold.kp": kp}, first_trajectory=7
    )
    sim.step(start, [0.1, 0.2], steps=3)
    tau = rng.standard_normal((2, 3, 22, 2) if per_step else (2, 3, 2))
    options: Any = {"record_every": 4, "per_step": per_step}
    run = sim.rollout(start, tau, 22, **options)
    known = sim.rollout(start, tau, 22, record=("q", "v", "tau"), **options)
    run.state.own["hold.kp"][:] = 90.0  # the state of the run may go on, with other numbers
    sim.step(run.state, [5.0, 5.0], steps=2)
    tau += 1.0
    for place in ((0, 0), (1, 2)):
        assert_array_equal(run.trajectory(place).tau, known["tau"][place])
        assert_array_equal(known.trajectory(place).tau, known["tau"][place])
    assert np.abs(known["tau"]).min() > 0


def test_what_acts_in_a_trajectory_explains_its_accelerations():
    """Its efforts and its loads, with its own masses: what pages draw reactions from."""
    rng = np.random.default_rng(3)
    model = random_tree(rng, 4, ["revolute", "universal"])
    sim = pp.Simulator(model, springs(model, rng), dt=1e-3, per_trajectory=("inertia",))
    numbers = own_numbers(sim, rng) | own_bodies(model, rng, ("inertia",))
    start = sim.initial_state(near_neutral(model, rng), parameters=numbers)
    run = sim.rollout(start, steps=20, record_every=10, record=("q", "v", "vdot"))
    for i in range(COUNT):
        own = run.trajectory(i)
        assert own.acting is not None
        more, loads = own.acting(own.t, own.q, own.v)
        found = pp.forward_dynamics(own.model, own.q, own.v, own.tau + more, loads)
        assert_allclose(found, run["vdot"][i], rtol=1e-9, atol=1e-9)
        other = pp.forward_dynamics(model, own.q, own.v, own.tau, loads)
        assert np.abs(other - found).max() > 1e-2


def test_given_efforts_alone_need_no_second_run():
    sim = pp.Simulator(pp.examples.planar_arm(2))
    state = sim.initial_state([[0.1, 0.2], [0.3, 0.4]])
    sim.step(state, [0.5, -0.5])
    assert_array_equal(sim.rollout(state, steps=3).trajectory(1).tau, 4 * [[0.5, -0.5]])
    tau = np.arange(12.0).reshape(2, 3, 2)
    found = sim.rollout(state, tau, 3).trajectory(1).tau
    recorded = sim.rollout(state, tau, 3, record=("q", "v", "tau"))["tau"][1]
    assert_array_equal(found, recorded)


# ---- energy of laws, certificates, refusals ------------------------------------------------------


def test_the_energy_of_laws_is_part_of_that_of_the_trajectory():
    arm = pp.examples.planar_arm(2)

    @pp.law
    def spring(q: Any, k: Any) -> Any:
        return {"tau": -k * q, "energy": 0.5 * (k * q) @ q}

    law = spring.bind(k=[3.0, 4.0])
    sim = pp.Simulator(arm, [law, JointSpring("joint2", 1.0)], dt=1e-3)
    own = {"spring.k": [[3.0, 4.0], [9.0, 2.0]]}
    run = sim.rollout(sim.initial_state([0.3, -0.2], parameters=own), steps=200)
    assert max(np.ptp(run.trajectory(i).energy) for i in (0, 1)) < 1e-8
    made = pp.Simulator(arm, block_diagram(arm, [law], 1e-3), dt=1e-3)
    alone = made.rollout(made.initial_state([0.3, -0.2]), steps=200).trajectory()
    assert np.ptp(alone.energy) < 1e-8 and not alone.elements

    @pp.law(states={"x": np.zeros(2)})
    def lagging(q: Any, x: Any) -> Any:
        return {"tau": -x, "x": q - x, "energy": 0.5 * x @ x}

    unknown = pp.Simulator(arm, [lagging, JointSpring(None, 1.0)])
    with pytest.warns(PhipsiWarning, match="contains the energy of force elements only"):
        unknown.rollout(unknown.initial_state(), steps=2).trajectory()


def test_certificates_account_for_the_masses_and_gravity_of_every_trajectory():
    system = on_ground(pp.shapes.Sphere(0.1), material=pp.Material(friction=0.3))
    model = system.model
    sim = pp.Simulator(system, integrator="time_stepping", per_trajectory=("inertia", "gravity"))
    own = {"inertia": parameters_of(model) * np.array([1.0, 3.0, 0.1])[:, None, None],
           "gravity": [[0, 0, -9.81], [0, 0, -5.0], [0, 0.1, -2.0]]}  # fmt: skip
    q, v = [1, 0, 0, 0, 0, 0, 0.3], [0, 1.0, 0, 1.0, 0, 0]
    run = sim.rollout(sim.initial_state(q, v, parameters=own), steps=800)
    proof = run.certificate
    assert np.abs(proof.balance).max() < 1e-4 and proof.dissipated.min() > 0.02
    for i in range(COUNT):
        found = run.trajectory(i).energy
        assert_allclose(found[-1] - found[0] + proof.dissipated[i], proof.balance[i], atol=1e-12)


@pytest.mark.parametrize(
    ("given", "value", "says"),
    [
        ("P", np.ones((2, 6, 6)), r"quantity 'P' cannot be stored in a model[\s\S]*run\.q"),
        ("M", np.eye(6) + np.zeros((2, 6, 6)) + np.diag([0, 0, 0, 1, 0, 0]),
         "M of body 'link1' is not the inertia of a rigid body"),
        ("Jr", -5.0 * np.ones((2, 1, 1)), "Jr of joint 'joint1' is not the armature"),
    ],
)  # fmt: skip
def test_what_no_model_can_have_is_named(given, value, says):
    arm = pp.examples.planar_arm(2)
    sim = pp.Simulator(arm, per_trajectory=(given,))
    run = sim.rollout(sim.initial_state(parameters={given: value}), steps=0)
    with pytest.raises(InputError, match=says):
        run.trajectory()


def test_quantities_of_which_a_part_of_the_run_would_not_know_are_refused():
    arm = pp.examples.planar_arm(2)
    with pytest.raises(InputError, match="inertias of bodies are listed twice"):
        pp.Simulator(arm, per_trajectory=("inertia", "M"))
    dry: Any = [pp.forces.JointFriction(None, 1.0, 0.0)]
    with pytest.raises(InputError, match="dry friction act by the model's lengths"):
        pp.Simulator(arm, dry, integrator="time_stepping", per_trajectory=("placement",))
    far: Any = [PointSpring("tip", "world", 1.0)]
    with pytest.raises(InputError, match=r"these laws were traced for \[\]"):
        pp.Simulator(arm, block_diagram(arm, far, 1e-3), per_trajectory=("M",))
    pp.Simulator(arm, block_diagram(arm, far, 1e-3, ("M",)), per_trajectory=("M",))


def test_parameters_that_episodes_randomize_have_no_one_energy():
    arm = pp.examples.planar_arm(1)
    law = pp.law(lambda t: {"late": np.where(t > 0.01, 1.0, 0.0)}, name="task")
    spring = JointSpring(None, 3.0)
    for name, given in (("joint_spring.stiffness", ()), ("gravity", ("gravity",))):
        ends = pp.Episodes(terminate="task.late", randomize=(name,))  # without a limit of time
        sim = pp.Simulator(arm, [law, spring], dt=1e-3, episodes=ends, per_trajectory=given)
        values = np.ones((4, 3)) if given else np.arange(1.0, 5.0)[:, None]
        run = sim.rollout(sim.initial_state(np.zeros((4, 1)), parameters={name: values}), steps=30)
        if given:
            with pytest.raises(InputError, match="episodes randomize 'gravity' during the rollout"):
                run.trajectory(0)
        else:
            assert np.isnan(run.trajectory(0).energy).all()


def _matrix(X: pp.Pose, moved: np.ndarray) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = X.rotation, X.translation + moved
    return out
