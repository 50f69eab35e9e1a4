"""States that are not what they seem: quaternions elsewhere, joints beyond limits, inertias."""

from __future__ import annotations

import warnings

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
