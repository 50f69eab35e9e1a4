"""States that are not what they seem: quaternions elsewhere, joints beyond limits, inertias."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import phipsi as pp

InputError, PhipsiWarning = pp.errors.InputError, pp.errors.PhipsiWarning


def box(mass: float) -> pp.Model:
    """A free body; a warning is said once for each model, so that each test has its own."""
    b = pp.ModelBuilder()
    b.add_body("box", joint=pp.joints.Free(), inertia=pp.SpatialInertia(mass, (0, 0, 0), mass))
    return b.build()


def fixed(message: str, **names: object) -> dict[str, object]:
    """The names after the last line of a message has been executed."""
    space = {"np": np, "pp": pp, **names}
    exec(message.splitlines()[-1].strip(), space)  # noqa: S102 - the line that the message prints
    return space


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_state_of_mujoco_is_noticed_by_functions(batch: tuple[int, ...]):
    model = box(1.5 + len(batch))
    qpos = np.broadcast_to([0.0, 0.1, 0.45, 1.0, 0.0, 0.0, 0.0], (*batch, 7))
    with pytest.warns(PhipsiWarning, match=r"joint 'box' is \[0.0, 0.1, 0.45, 1.0\]") as said:
        pp.poses(model, qpos)
    q = fixed(str(said[0].message), model=model, q=qpos)["q"]
    np.testing.assert_array_equal(q, np.broadcast_to([1, 0, 0, 0, 0, 0.1, 0.45], (*batch, 7)))
    pp.jacobian(model, qpos, ["box"])  # once for each model
    other = box(2.25 + len(batch))
    pp.poses(other, q)  # the twin: nothing to say
    pp.poses(other, np.asarray(q) * [1 + 1e-5, 1, 1, 1, 1, 1, 1])


def test_a_state_of_mujoco_is_rejected_with_the_line_that_converts_it():
    model = box(1.0)
    qpos = np.array([0.0, 0.1, 0.45, 1.0, 0.0, 0.0, 0.0])
    for begin in (
        lambda q: pp.Simulator(model).initial_state(q),
        lambda q: pp.simulate(model, q, np.zeros(6), 0.01),
    ):
        with pytest.raises(InputError, match="order of MuJoCo or Pinocchio") as error:
            begin(qpos)
        found = fixed(str(error.value), model=model, q=qpos, q0=qpos)
        begin(found["q"] if (found["q"] != qpos).any() else found["q0"])


def limited() -> pp.Model:
    """A hinge from 0.5 to 2 rad."""
    b = pp.ModelBuilder()
    turn = pp.joints.Revolute((0, 1, 0))
    b.add_body("arm", joint=turn, inertia=pp.SpatialInertia(1, (0.5, 0, 0), 1), limits=(0.5, 2.0))
    return b.build()


def test_a_joint_that_begins_beyond_its_limit_is_named():
    model, text = limited(), "joint .* begins at 0, beyond its limits 0.5 to 2 by 0.5"
    laws = pp.forces.from_model(model)
    with pytest.warns(PhipsiWarning, match=text) as said:
        pp.simulate(model, [0.0], [0.0], 0.01, forces=laws)
    sim = pp.Simulator(model, laws)
    with pytest.warns(PhipsiWarning, match=text):
        sim.initial_state([[1.0], [0.0]])
    q = fixed(str(said[0].message), q=np.zeros(1))["q"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.initial_state(q)
        sim.initial_state([0.495])  # as deep as weight presses
        own = pp.forces.JointLimit(None, 100.0, lower=0.5)  # the user's own limits
        pp.Simulator(model, [own]).initial_state([0.0])


def test_inertias_of_no_rigid_body_are_rejected():
    arm = pp.examples.planar_arm(2)
    sim = pp.Simulator(arm, per_trajectory=("inertia",))
    own = pp.identification.inertial_parameters(arm).reshape(-1, 10)
    sim.initial_state(parameters={"inertia": own * np.array([1.0, 2.0, 0.5])[:, None, None]})
    edited = np.tile(own, (3, 1, 1))
    edited[2, 1, 0] *= 0.5  # the mass alone
    with pytest.raises(InputError, match=r"body 'link2' of trajectory \[2\] has moments that no"):
        sim.initial_state(parameters={"inertia": edited})
    with pytest.raises(InputError, match="body 'link1' has mass -1 kg.*scale all ten") as error:
        sim.initial_state(parameters={"inertia": own * [[-1.0], [1.0]]})
    line = str(error.value).splitlines()[-1].strip()
    scaled = eval(line, {"pp": pp, "model": arm, "factor": 2.0})  # noqa: S307 - as printed
    sim.initial_state(parameters={"inertia": scaled})
    with pytest.raises(InputError, match="scale all ten columns"):
        pp.Simulator(arm, per_trajectory=("mass",))


def test_messages_name_the_line_to_type(tmp_path: Path):
    """What users of MuJoCo tried first."""
    model = box(3.5)
    sim = pp.Simulator(model, dt=1e-3)
    state = sim.initial_state()
    with pytest.raises(InputError, match="For a number of steps:  steps=3"):
        sim.rollout(state, 3)
    with pytest.raises(pp.errors.ModelError, match="a point is the name of a body or frame"):
        pp.jacobian(model, model.neutral(), [3])
    with pytest.raises(AttributeError, match=r"model = model.with_gravity\("):
        model.gravity = (0.0, 0.0, -1.0)
    push = pp.law(lambda t, up: {"force": np.stack([0.0, 0.0, up * t])}, name="push")
    with pytest.raises(pp.errors.LawError, match=r"push\.bind\(…\)\.at\('box'\)"):
        pp.Simulator(model, [push.bind(up=2.0)])
    pp.Simulator(model, [push.bind(up=2.0).at("box")])
    run = sim.rollout(state, steps=2)
    with pytest.raises(InputError, match=r"pp.render\(rollout.trajectory\(0\), 'run.mp4'\)"):
        pp.render(run, tmp_path / "run.mp4")
    with pytest.raises(InputError, match=r"pp.System\(system.model, system.constraints, contacts="):
        pp.System(pp.System(model))


def test_gravity_of_trajectories_is_that_of_the_model_by_default():
    model = box(4.5)
    sim = pp.Simulator(model, dt=1e-2, per_trajectory=("gravity",))
    plain = pp.Simulator(model, dt=1e-2)
    falls = [x.rollout(x.initial_state(), steps=20).q for x in (sim, plain)]
    np.testing.assert_array_equal(*falls)
    moon = sim.initial_state(parameters={"gravity": [[0, 0, -1.62], [0, 0, -9.81]]})
    ends = sim.rollout(moon, steps=20).q[..., -1, 6]
    np.testing.assert_allclose(ends[0] / ends[1], 1.62 / 9.81, rtol=1e-12)
    with pytest.raises(InputError, match=r"'M' is a per-traj.*Pass values \(\.\.\., 1, 6, 6\):"):
        pp.Simulator(model, per_trajectory=("M",)).initial_state()


def test_derivatives_with_contacts_are_those_of_rollouts():
    b = pp.ModelBuilder()
    b.add_body("ball", joint=pp.joints.Free(), inertia=pp.SpatialInertia(1, (0, 0, 0), 0.1))
    b.add_shape("skin", "ball", pp.shapes.Sphere(0.1))
    model = b.build()
    system = pp.System(model, contacts=pp.Contacts(model, ground=True))
    q, v = np.array([1.0, 0, 0, 0, 0, 0, 0.1]), np.zeros(6)
    for call in (
        lambda: pp.linearize(system, q, v, np.zeros(6)),
        lambda: pp.step_derivatives(system, q, v, np.zeros(6), 1e-3),
    ):
        with pytest.raises(InputError, match="Derivatives with contacts are those of a roll") as e:
            call()
    lines = [x.strip() for x in str(e.value).splitlines() if x.startswith("    ")]
    space = dict(pp=pp, system=system, laws=[], dt=1e-3, q=q, v=v, weights=np.ones(6))
    exec(lines[0], space)  # noqa: S102 - the lines that the message prints
    found = eval(lines[1], space)  # noqa: S307
    assert found.v.shape == (6,) and np.isfinite(found.v).all()
    with pytest.raises(KeyError, match=r"parameters=\('contact.materials',\)"):
        found.parameters["contact.materials"]
    sim = space["sim"]
    state = sim.initial_state(q, v)
    more = dict(steps=1, cotangents={"v": 1.0}, parameters=("contact.materials",))
    assert sim.gradient(state, **more).parameters["contact.materials"].shape[0] == 1
