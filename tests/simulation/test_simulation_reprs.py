"""Public objects of simulations, studies and molecules print as one line, without addresses."""

import inspect

import numpy as np
import pytest
from scipy.stats import norm

import phipsi as pp
from phipsi.scenarios import Scenario
from phipsi.support import one_line, value_in_line

ARM = pp.examples.planar_arm(2)
BALL = pp.ModelBuilder()
BALL.add_body("ball", joint=pp.joints.Free(), inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.1))
BEADS = [(0, 0, 0), (0.15, 0, 0), (0.2, 0.14, 0), (0.35, 0.14, 0)]


@pp.law
def hold(q, v, kp=3.0):
    return {"tau": -kp * q - v}


def ends(q, v):
    return 0.5 * (q**2).sum(-1), q, None


def height(t, q, v):
    return q[0]


def simulator() -> pp.Simulator:
    return pp.Simulator(ARM, [hold, pp.forces.JointDamper(None, 1.0)], per_trajectory=("inertia",))


def rollout(count: int = 2):
    sim = simulator()
    return sim.rollout(sim.initial_state(np.zeros((count, 2))), steps=4, record_every=2)


def gradient():
    sim = pp.Simulator(ARM, hold)
    return sim.gradient(sim.initial_state(), steps=2, cotangents={"q": 1.0})


def study() -> pp.Study:
    return pp.Study(simulator(), {"q": norm([0.0, 0.0], 0.1), "hold.kp": [1.0, 2.0]}, steps=2)


def molecule():
    return pp.molecules.Molecule([15.0, 14.0, 14.0, 15.0], BEADS, [(0, 1), (1, 2), (2, 3)])


def computed_torque(**options):
    return pp.control.ComputedTorque(ARM, [0.0, 0.0], kp=40.0, kd=9.0, **options)


def embedded():
    arm = pp.examples.planar_arm(3)
    pin = pp.constraints.Spherical(name="pin", a="tip", b=("world", (1.5, 0, 0)))
    four_bar = pp.System(arm, [pin])
    return pp.embed_constraints(four_bar, four_bar.assemble([1.0, -1.0, -1.5]))


def run_of_molecule():
    chain = molecule()
    v = pp.molecules.sample_velocities(chain, chain.home, 300.0, seed=0)
    return pp.molecules.run(chain, chain.home, v, 0.01, 3)


# Every class of these namespaces has at least one object here, by the name of the class.
MADE = {
    "CartesianPath": lambda: pp.control.CartesianPath([(0, 0, 1), (0.2, 0, 1)], [0.0, 2.0]),
    "ComputedTorque": computed_torque,
    "Constant": lambda: pp.control.Constant(ARM, [0.1, 0.2]),
    "ConstantPose": lambda: pp.control.ConstantPose((0, 0, 1)),
    "EmbeddedSystem": embedded,
    "FourierPath": lambda: pp.control.FourierPath(ARM, [0, 0], np.ones((2, 3)), [[0] * 3] * 2, 2.0),
    "GraspControl": lambda: pp.control.GraspControl(
        pp.examples.two_finger_grasp(), (0, 0, 0.2), kp=100, kd=20, internal=5.0
    ),
    "HybridForcePosition": lambda: pp.control.HybridForcePosition(
        ARM, pp.control.TaskFrame("tip", force=(3,), motion=(4,)), (1, 0, 0), 5.0, kp=40, kd=9
    ),
    "InnovationsControl": lambda: pp.control.InnovationsControl(ARM, [0.0, 0.0], k=9, rate=2),
    "JointPath": lambda: pp.control.JointPath(ARM, [[0, 0], [1, 1]], [0.0, 2.0]),
    "JointState": lambda: pp.control.Constant(ARM, [0.1, 0.2])(0.0),
    "OperationalSpace": lambda: pp.control.OperationalSpace(
        ARM, "tip", (1.0, 0.5, 0.0), kp=40.0, kd=9.0, components=(3, 4)
    ),
    "OperationalSpaceDynamics": lambda: pp.control.OperationalSpace(
        ARM, "tip", (1.0, 0.5, 0.0), kp=40.0, kd=9.0, components=(3, 4)
    ).dynamics([0.1, 0.5], [0.0, 0.0]),
    "PDGravity": lambda: pp.control.PDGravity(ARM, lambda t: ([t, t], [1, 1]), kp=40.0, kd=9.0),
    "PassivityBased": lambda: pp.control.PassivityBased(ARM, [0.0, 0.0], kp=9, kd=3, rate=2),
    "PoseState": lambda: pp.control.ConstantPose((0, 0, 1))(0.0),
    "Saturated": lambda: pp.control.Saturated(computed_torque(), ARM, efforts=80.0),
    "Bushing": lambda: pp.forces.Bushing("tip", ("world", (1, 0, 0)), np.ones(6)),
    "ElasticCoupling": lambda: pp.forces.ElasticCoupling(["joint1", "joint2"], [1, -1], 3.0),
    "Force": lambda: type("Own", (pp.forces.Force,), {})(),
    "GravityField": lambda: pp.forces.GravityField.inverse_square(3e14),
    "JointDamper": lambda: pp.forces.JointDamper(None, np.ones(2)),
    "JointFriction": lambda: pp.forces.JointFriction(None, 1.0),
    "JointLimit": lambda: pp.forces.JointLimit("joint1", np.inf, lower=-1.0),
    "JointSpring": lambda: pp.forces.JointSpring(None, np.arange(20.0)),
    "PointSpring": lambda: pp.forces.PointSpring("tip", "world", 3.0),
    "Rope": lambda: pp.forces.Rope("tip", "world", 1.0, np.inf),
    "State": lambda: pp.forces.State(ARM, 0.0, np.zeros(2), np.zeros(2)),
    "StribeckFriction": lambda: pp.forces.StribeckFriction(None, 2.0, 1.0, 0.1),
    "TaskFrame": lambda: pp.control.TaskFrame("tip", pp.Pose(), force=(5,)),
    "TorsionSpring": lambda: pp.forces.TorsionSpring("tip", "world", 2.0),
    "WindDrag": lambda: pp.forces.WindDrag("tip", 1.0),
    "Wrench": lambda: pp.forces.Wrench("tip", lambda t: np.zeros(6)),
    "Signal": lambda: pp.signals.noise(2),
    "Molecule": molecule,
    "ConstantEnergyRun": run_of_molecule,
    "Samples": lambda: pp.molecules.sample(molecule(), 3, replicas=2, dt=0.01, steps=2),
    "Episodes": lambda: pp.Episodes("task.done", time_limit=2.0, record=("task.reward",)),
    "Event": lambda: pp.Event(height, action=lambda t, q, v: None),
    "Simulator": simulator,
    "Study": study,
    "Trajectory": lambda: rollout().trajectory(0),
}
# Objects of these rooms that other calls return.
RETURNED = {
    "Law": lambda: hold.bind(kp=pp.signals.noise(2)),
    "sampled Law": lambda: hold.sampled(100.0),
    "pid": lambda: pp.laws.pid(ARM.joint_names, [0.0, 0.0], kp=[2.0, 1.0]),
    "SimulatorState": lambda: rollout().state,
    "CompiledStep": lambda: simulator().compiled,
    "Rollout": rollout,
    "SimulatorGradient": gradient,
    "RolloutGradient": lambda: pp.rollout_gradient(
        ARM, [0, 0.1], [0, 0], np.zeros((3, 2)), 0.01, 3, final=ends
    ),
    "StudyResults": lambda: study().run(),
    "Distributions": lambda: study().distributions,
    "Estimate": lambda: study().run().estimate(lambda r: r["q.final"][:, 0]),
    "Scenario": lambda: Scenario(ARM, np.zeros(2), np.zeros(2), 1.0, forces=(hold,)),
    "LinearSystem": lambda: pp.linearize(ARM, [np.pi / 2, 0.0]),
}
ARRAYS = {"JointState", "OperationalSpaceDynamics", "PoseState"}  # of NumPy
ELSEWHERE = {  # classes of other rooms, and what a test without OpenMM cannot make
    "Contacts", "FlexibleInertia", "Identity", "Material", "Model", "ModelBuilder",
    "OpenMMPotential", "Port", "Pose", "Program", "SpatialInertia", "System",
}  # fmt: skip


def test_every_public_class_is_among_them():
    rooms = [pp, pp.forces, pp.control, pp.laws, pp.signals, pp.molecules]
    classes = {n for room in rooms for n in dir(room) if inspect.isclass(getattr(room, n))}
    assert classes - {*MADE, *ELSEWHERE} == set(), "give the new class an object in MADE"


@pytest.mark.parametrize("name", [*MADE, *RETURNED])
def test_a_repr_is_one_line_without_addresses(name):
    text = repr({**MADE, **RETURNED}[name]())
    assert " at 0x" not in text and text.strip()
    assert "\n" not in text or name in ARRAYS


def test_names_and_numbers_are_in_it():
    assert repr(pp.Event(height)) == "Event(height, 0, None, name='height')"
    assert repr(computed_torque()).endswith("kp=[40, 40], kd=[9, 9])")
    assert repr(rollout()) == "<Rollout of <state of 2 trajectories after 4 steps>: t, q, v>"
    assert repr(pp.forces.JointDamper(None, np.ones(2))) == "JointDamper(None, damping=[1, 1])"
    assert "<lambda>" in repr(MADE["Wrench"]())
    assert repr(RETURNED["SimulatorGradient"]()).startswith("<SimulatorGradient: value (), q (2,)")


def test_values_without_a_text_of_their_own_are_named_by_their_class():
    class Thing:
        pass

    assert value_in_line(Thing()) == "<Thing>"
    assert one_line(Thing(), height, np.zeros(2), x=[1]) == "Thing(height, [0, 0], x=[1])"
