"""What runs with contacts report as errors: starts that would be moved, energy that is added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contact_problems import Scene
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import operators
from phipsi.contact.contact_rows import GAINS_ENERGY
from phipsi.errors import InputError
from phipsi.simulation.integrators.step_rows import StepRows

STEPPING: Any = {"integrator": "time_stepping"}


def stopped_arm() -> tuple[pp.Model, list[pp.forces.JointLimit]]:
    stop = pp.forces.JointLimit("joint1", np.inf, lower=-0.5, upper=0.5)
    return pp.examples.planar_arm(2), [stop]


def test_a_start_beyond_a_rigid_stop_is_an_error():
    arm, laws = stopped_arm()
    sim = pp.Simulator(arm, laws, dt=1e-3, **STEPPING)
    with pytest.raises(
        InputError, match=r"'joint1' is 0\.2 .* upper limit.*(?s:.*)resolve_penetration=True"
    ):
        sim.initial_state([0.7, 0.0])
    with pytest.raises(InputError, match=r"trajectory \[1\] joint 'joint1' is 0\.4 .* lower"):
        sim.initial_state([[0.3, 0.0], [-0.9, 0.0]])
    assert sim.initial_state([0.5 + 1e-9, 0.0]).q[0] == 0.5 + 1e-9  # rounding
    state = sim.initial_state([0.9, 0.0], resolve_penetration=True)
    sim.step(state)
    assert state.q[0] == pytest.approx(0.5, abs=1e-12)
    assert np.abs(state.v).max() < 0.02  # of gravity, not of the move
    limits: Any = np.array([sim.parameters["joint_limit.upper"]] * 2)
    limits[0, 0] = 0.8  # every trajectory has its own
    with pytest.raises(InputError, match=r"trajectory \[1\] joint 'joint1' is 0\.2"):
        sim.initial_state([0.7, 0.0], parameters={"joint_limit.upper": limits})


def test_simulate_says_how_to_begin_within_stops():
    arm, laws = stopped_arm()
    with pytest.raises(InputError, match=r"beyond its rigid") as found:
        pp.simulate(arm, [0.7, 0.0], [0.0, 0.0], 0.01, forces=laws, dt=1e-3, **STEPPING)
    fix = "\n".join(x.strip() for x in str(found.value).splitlines() if x.startswith("    "))
    known: Any = {
        "pp": pp,
        "system": arm,
        "laws": laws,
        "dt": 1e-3,
        "q0": [0.7, 0.0],
        "v0": [0.0, 0.0],
    }
    exec(fix, known)
    run = pp.simulate(arm, known["q0"], [0.0, 0.0], 0.01, forces=laws, dt=1e-3, **STEPPING)
    assert run.q[:, 0].max() <= 0.5 + 1e-12


def test_a_rope_that_is_too_long_at_the_start_is_an_error():
    builder = pp.ModelBuilder()
    ball = pp.SpatialInertia.sphere(0.05, mass=2.0)
    builder.add_body("ball", joint=pp.joints.Free(), inertia=ball)
    sim = pp.Simulator(builder.build(), [pp.forces.Rope("ball", "world", 1.0)], dt=1e-3, **STEPPING)
    with pytest.raises(InputError, match=r"'rope ball\|world' are 0\.3 m farther apart"):
        sim.initial_state([1, 0, 0, 0, 1.3, 0, 0])
    state = sim.initial_state([1, 0, 0, 0, 1.3, 0, 0], resolve_penetration=True)
    sim.step(state)
    assert_allclose(state.q[4:6], [1.0, 0.0], atol=1e-9)
    assert_allclose(state.v[3:5], 0.0, atol=1e-12)


def test_simulate_says_how_to_move_bodies_apart():
    scene = Scene(friction=0.5)
    scene.add("ball", pp.shapes.Sphere(0.1), 1.0, (0, 0, 0.05))
    system, q, v = scene.system()
    with pytest.raises(InputError, match=r"overlap by 0\.05 m.*(?s:.*)pp\.contact_step") as found:
        pp.simulate(system, q, v, 0.1)
    known: Any = {"pp": pp, "system": system, "q0": q, "v0": v}
    exec(str(found.value).splitlines()[1].strip(), known)
    assert pp.simulate(system, known["q0"], v, 0.1).contacts.certificate.overlap < 1e-9


def test_contacts_that_add_energy_end_a_trajectory(monkeypatch):
    scene = Scene(friction=0.5)
    scene.add("ball", pp.shapes.Sphere(0.1), 1.0, (0, 0, 0.12), (0.3, 0, -1.0))
    system, q, v = scene.system()
    both = np.tile(q, (2, 1))
    both[1, 6] = 2.0  # touches nothing

    def run() -> Any:
        sim = pp.Simulator(system, dt=1e-3, **STEPPING)
        return sim.rollout(sim.initial_state(both, v), steps=40, progress=False, on_error="nan")

    right = run()
    assert not right.status.any() and right.certificate.gain.max() < 1e-14
    solved = StepRows._solved

    def wrong(self, *given):
        p, *others = solved(self, *given)
        return [4.0 * p, *others]

    monkeypatch.setattr(StepRows, "_solved", wrong)
    found = run()
    assert found.status.tolist() == [GAINS_ENERGY, 0] and 15 <= found.failed_at[0] <= 20
    sim = pp.Simulator(system, dt=1e-3, **STEPPING)
    with pytest.raises(pp.errors.PhipsiError, match="contact impulses add kinetic energy"):
        sim.rollout(sim.initial_state(both, v), steps=40, progress=False)


def test_springs_give_back_what_they_stored():
    scene = Scene(friction=0.5, stiffness=1e4)
    scene.add("ball", pp.shapes.Sphere(0.1), 1.0, (0, 0, 0.2))
    system, q, v = scene.system()
    sim = pp.Simulator(system, dt=2e-3, **STEPPING)
    run = sim.rollout(sim.initial_state(q, v), steps=300, progress=False)
    assert run.certificate.gain > 1e-3 and run.q[100:, 6].max() > 0.13


@pp.law
def pole(q: Any, k: Any) -> Any:
    """Not finite at q = 1, and its slope neither."""
    return k / (q - 1.0)


def test_numbers_that_are_not_finite_end_a_trajectory():
    """Programs inside a step do not look at them: of a body that touches, and of another one."""
    builder, solid = pp.ModelBuilder(), pp.SpatialInertia.box((0.2, 0.2, 0.2), mass=1.0)
    builder.add_body("box", joint=pp.joints.Free(), inertia=solid)
    builder.add_shape("box", "box", pp.shapes.Box((0.2, 0.2, 0.2)))
    at = pp.Pose(None, (0.0, 0.0, 0.3))
    turns = pp.joints.Revolute((0, 1, 0))
    builder.add_body("arm", parent="box", joint=turns, inertia=solid, placement=at)
    builder.add_body("far", joint=turns, inertia=solid, placement=at)
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model, ground=True))
    q = np.tile(model.neutral(), (3, 1))
    q[:, 6] = 0.1
    laws = [pole.on(["arm", "far"]).bind(k=0.0)]  # 0/0 at one place, and zero elsewhere
    sim = pp.Simulator(system, laws, dt=1e-3, per_trajectory=("M",), **STEPPING)
    M = np.tile(pp.compile(operators.M, model, mode="blocks")(), (3, 1, 1, 1))
    failed = pp.errors.SimulationError
    for joint in ("arm", "far"):
        bad = q.copy()
        bad[1, model.q_slice(joint)] = 1.0
        with pytest.raises(failed, match=r"\[1\] failed in step 0.*finite.*1 of 3"):
            sim.rollout(sim.initial_state(bad, parameters={"M": M}), steps=4)
    run = sim.rollout(sim.initial_state(q, parameters={"M": M}), steps=4)
    assert np.isfinite(run.q).all()
    M[2, -1, 0, 1] += 0.1  # an inertia that is not symmetric
    with pytest.raises(failed, match=r"\[2\] failed in step 0.*1 of 3"):
        sim.rollout(sim.initial_state(q, parameters={"M": M}), steps=4)


@pp.law
def bounded(v: Any, *, rate: Any, most: Any) -> Any:
    """As the message below says."""
    return np.clip(100.0 * (rate - v), -most, most)


def test_a_motor_against_a_rigid_stop_is_named_with_a_fix():
    arm = pp.examples.planar_arm(1)
    motor = pp.constraints.Motor(name="crank", joint="joint1", rate=1.0)
    forces, dt = [pp.forces.JointLimit("joint1", np.inf, upper=0.05)], 1e-3
    sim = pp.Simulator(pp.System(arm, [motor]), forces, dt, **STEPPING)
    with pytest.raises(pp.errors.SimulationError, match="motor contradicts a rigid limit") as error:
        sim.rollout(sim.initial_state([0.0], [1.0]), steps=100)
    text = str(error.value)
    assert "'crank' (joint 'joint1')" in text
    assert "drive = drive.on('joint1').bind(rate=1.0, most=10.0)" in text
    drive = bounded.on("joint1").bind(rate=1.0, most=10.0)
    sim = pp.Simulator(arm, [*forces, drive], dt, **STEPPING)
    run = sim.rollout(sim.initial_state([0.0]), steps=400)
    assert run.q[-1, 0] == pytest.approx(0.05, abs=1e-9)


def test_a_joint_with_nothing_to_move_is_named_in_a_step_with_contacts():
    builder, solid = pp.ModelBuilder(), pp.SpatialInertia.box((0.2, 0.2, 0.2), mass=1.0)
    builder.add_body("box", joint=pp.joints.Free(), inertia=solid)
    builder.add_shape("box", "box", pp.shapes.Box((0.2, 0.2, 0.2)))
    builder.add_body("arm", parent="box", joint=pp.joints.Revolute((0, 1, 0)), inertia=solid)
    model = builder.build()
    system = pp.System(model, contacts=pp.Contacts(model, ground=True))
    sim = pp.Simulator(system, dt=1e-3, per_trajectory=("M",), **STEPPING)
    q = model.neutral()
    q[6] = 0.1
    M = np.tile(pp.compile(operators.M, model, mode="blocks")(), (2, 1, 1, 1))
    M[1, 1] = 0.0  # the arm of the second trajectory weighs nothing
    with pytest.raises(pp.errors.SimulationError, match=r"\[1\] failed in step 0.*joint 'arm'"):
        sim.rollout(sim.initial_state(np.tile(q, (2, 1)), parameters={"M": M}), steps=2)


def test_batches_without_elements_have_results_without_elements():
    ball, at = pp.ModelBuilder(), [[1, 0, 0, 0, 0, 0, 0.1]]
    ball.add_body("ball", joint=pp.joints.Free(), inertia=pp.SpatialInertia.sphere(0.1, mass=1.0))
    ball.add_shape("ball", "ball", pp.shapes.Sphere(0.1))
    model = ball.build()
    contacts = pp.Contacts(model, ground=True)
    system = pp.System(model, contacts=contacts)
    for n in (0, 1):
        q, v = np.array(at * n).reshape(n, 7), np.zeros((n, 6))
        step = pp.contact_step(system, q, v)
        assert (step.q.shape, step.v.shape, step.impulses.shape) == ((n, 7), (n, 6), (n, 1, 6))
        assert pp.contact_forces(system, q, v).shape == (n, 1, 6)
        assert pp.contact_points(contacts, q).gap.shape == (n, 1)


def two_planes(height: float) -> pp.Model:
    builder = pp.ModelBuilder()
    builder.add_body("ball", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass=1.0))
    builder.add_shape("ball", "ball", pp.shapes.Sphere(0.1))
    low = pp.Pose(translation=(0.3, 0.0, height))
    builder.add_shape("floor", "world", pp.shapes.Plane(), placement=low)
    return builder.build()


def test_a_second_ground_on_the_same_plane_is_a_warning(recwarn: pytest.WarningsRecorder):
    model = two_planes(0.0)
    with pytest.warns(
        pp.errors.PhipsiWarning, match=r"already has the plane 'floor' at z = 0"
    ) as told:
        pp.Contacts(model, ground=True)
    assert "Remove ground=" in str(told[0].message)
    assert len(pp.Contacts(model, ground=True, exclude=["floor"]).pairs) == 1  # as the text says
    assert len(pp.Contacts(two_planes(-0.1), ground=True).pairs) == 2  # another height
    assert len(pp.Contacts(model).pairs) == 1
    assert not recwarn.list


def test_a_column_of_the_materials_is_named():
    system = pp.System(two_planes(0.0), contacts=pp.Contacts(two_planes(0.0)))
    sim = pp.Simulator(system, dt=1e-3, **STEPPING)
    for k, name in enumerate(("friction", "torsional_friction", "rolling_friction")):
        where = rf"{name} is column {k} of 'contact.materials' \(slots, 7\)$"
        with pytest.raises(InputError, match=f"(?m){where}"):
            sim.initial_state(parameters={name: 0.3})
    with pytest.raises(InputError) as caught:
        sim.initial_state(parameters={"something": 0.3})
    assert str(caught.value).count("'contact.materials'") == 1


@pytest.mark.parametrize("name", ["mass", "masses", "friction"])
def test_columns_are_no_names_for_per_trajectory(name: str):
    model = two_planes(0.0)
    column = "'contact.materials'" if name == "friction" else "'inertia'"
    for mechanism in (model, pp.System(model, contacts=pp.Contacts(model))):
        options = STEPPING if mechanism is not model else {}
        with pytest.raises(InputError, match=f"there is no '{name}'"):
            pp.Simulator(mechanism, dt=1e-3, per_trajectory=(name,), **options)
        with pytest.raises(InputError, match=column):
            pp.Simulator(mechanism, dt=1e-3, per_trajectory=(name,), **options)
