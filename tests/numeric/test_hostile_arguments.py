"""Arguments of the wrong kind: an error that names them, and never a wrong number.

Complex numbers lose their imaginary part in NumPy, masks their entries, dates become numbers, and
True is 1: none of that may happen without a word.
"""

import numpy as np
import pytest
from known_systems import four_bar

import phipsi as pp
from phipsi.errors import PhipsiError

ARM = pp.examples.planar_arm(3)
Q, V = np.array([0.3, 0.4, 0.5]), np.array([0.1, -0.2, 0.3])
TIP, SOLID = ARM.body_names[-1], pp.SpatialInertia.sphere(0.1, mass=1.0)
HOLD = pp.control.Constant(ARM, Q)
COMPLEX = np.array([1.0 + 1j, 2.0, 3.0])
MASKED = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False])
DATE = np.datetime64("2020")


def bound(force):
    return force.bind(ARM)


def chain():
    beads = [(0, 0, 0), (0.15, 0, 0), (0.2, 0.14, 0), (0.35, 0.14, 0)]
    return pp.molecules.Molecule([15.0, 14.0, 14.0, 15.0], beads, [(0, 1), (1, 2), (2, 3)])


# what takes three numbers: complex ones, masked ones, texts and objects are none
THREE = {
    "start of a run": lambda x: pp.simulate(ARM, x, V, 0.01),
    "rates of a run": lambda x: pp.simulate(ARM, Q, x, 0.01),
    "vibrations": lambda x: pp.natural_frequencies(ARM, x),
    "efforts of vibrations": lambda x: pp.natural_frequencies(ARM, Q, tau=x),
    "gravity": lambda x: ARM.with_gravity(x),
    "centre of mass": lambda x: pp.SpatialInertia(mass=1.0, com_B=x),
    "moments": lambda x: pp.SpatialInertia(mass=1.0, moment_about_com_B=x),
    "translation": lambda x: pp.Pose(translation=x),
    "roll, pitch, yaw": lambda x: pp.Pose.from_rpy(x),
    "points": lambda x: pp.Pose().apply(x),
    "edges": lambda x: pp.shapes.Box(x),
    "half axes": lambda x: pp.shapes.Ellipsoid(x),
    "wind": lambda x: bound(pp.forces.WindDrag(TIP, 1.0, wind=x)),
    "weights": lambda x: pp.inverse_dynamics(ARM, Q, V, V, weights=x),
    "gains": lambda x: pp.control.PDGravity(ARM, HOLD, x, 1.0),
}
# what takes one number
ONE = {
    "torsion spring": lambda x: bound(pp.forces.TorsionSpring("link1", TIP, x)),
    "bushing": lambda x: bound(pp.forces.Bushing("link1", TIP, x)),
    "drag": lambda x: bound(pp.forces.WindDrag(TIP, x)),
    "damper": lambda x: bound(pp.forces.JointDamper("joint1", x)),
    "armature": lambda x: ARM.with_body(TIP, armature=x),
    "radius": lambda x: pp.shapes.Sphere(x),
    "angle": lambda x: pp.Pose.from_axis_angle((0, 0, 1), x),
    "stop time": lambda x: pp.forces.from_ratings(ARM, stop_time=x),
    "gain of a task": lambda x: pp.control.OperationalSpace(ARM, TIP, pp.Pose(), x, 1.0),
    "time of a linearisation": lambda x: pp.linearize(ARM, Q, t=x),
    "time of an equilibrium": lambda x: pp.equilibrium(ARM, q=[-1.5, 0.1, 0.0], t=x),
    "tolerance": lambda x: pp.equilibrium(ARM, q=[-1.5, 0.1, 0.0], tolerance=x),
    "reach of distances": lambda x: pp.distances(pp.Contacts(ARM, missing="warn"), Q, within=x),
    "tolerance of positions": lambda x: pp.inverse_kinematics(
        ARM, {TIP: (1, 1, 0)}, position_tolerance=x
    ),
    "iterations": lambda x: pp.inverse_kinematics(ARM, {TIP: (1, 1, 0)}, max_iterations=x),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", THREE)
def test_three_numbers(name):
    for x in (COMPLEX, MASKED, ["a", "b", "c"], [None] * 3, np.array([object()] * 3), [DATE] * 3):
        with pytest.raises(PhipsiError):
            THREE[name](x)


@pytest.mark.parametrize("name", ONE)
def test_one_number(name):
    for x in (1j, "a", object(), DATE, [], {}, np.array([1.0, 2.0, 3.0, 4.0])):
        with pytest.raises(PhipsiError):
            ONE[name](x)


# what takes names, functions, mappings
OTHERS = {
    "joints of a damper": lambda x: bound(pp.forces.JointDamper(x, 1.0)),
    "joints of a coupling": lambda x: pp.forces.ElasticCoupling(x, [1.0], 1.0).bind(ARM),
    "joints of a relation": lambda x: pp.constraints.Coupling(
        name="c", joints=x, coefficients=[1.0]
    ),
    "pulleys": lambda x: pp.constraints.Belt(name="b", pulleys=x, radii=[1.0]),
    "driver": lambda x: pp.constraints.Gear(name="g", driver=x, driven="joint2", ratio=2.0),
    "joint of a motor": lambda x: pp.constraints.Motor(name="m", joint=x, rate=1.0),
    "points of rows": lambda x: pp.constraints.Rows(name="r", points=x, A=np.eye(6)[:1]),
    "joints to lock": lambda x: ARM.with_locked(x, Q),
    "a model to attach": lambda x: ARM.attach(x),
    "a placement": lambda x: ARM.attach(ARM, placement=x, prefix="b_"),
    "a prefix": lambda x: ARM.attach(ARM, prefix=x),
    "a body": lambda x: ARM.body(x),
    "a joint": lambda x: ARM.joint(x),
    "actuated joints": lambda x: pp.inverse_dynamics(ARM, Q, V, V, actuated=x),
    "joints that stay": lambda x: pp.inverse_kinematics(ARM, {TIP: (1, 1, 0)}, fixed=x),
    "weights by name": lambda x: pp.inverse_kinematics(ARM, {TIP: (1, 1, 0)}, weights=x),
    "joints of a system": lambda x: four_bar().assemble([0.5, 0.3, -0.4], fixed=x),
    "a controller": lambda x: pp.control.Saturated(x, ARM, 1.0),
    "a second task": lambda x: pp.control.OperationalSpace(
        ARM, TIP, pp.Pose(), 1.0, 1.0, null_space=x
    ),
    "directions of a task": lambda x: pp.control.OperationalSpace(
        ARM, TIP, pp.Pose(), 1.0, 1.0, components=x
    ),
    "poses of a path": lambda x: pp.control.CartesianPath(x, [0.0, 1.0]),
    "given quantities": lambda x: pp.Simulator(ARM, given=x),
    "recorded quantities": lambda x: (s := pp.Simulator(ARM)).rollout(s.start(Q), record=x),
    "a state to write to": lambda x: (s := pp.Simulator(ARM)).step(s.start(Q), out=x),
    "draws": lambda x: pp.Study(pp.Simulator(ARM), x, steps=1),
    "unknowns": lambda x: pp.equilibrium(ARM, unknowns=x),
    "outputs": lambda x: pp.linearize(ARM, Q, outputs=x),
    "parameters": lambda x: pp.linearize(ARM, Q, parameters=x),
    "ends of episodes": lambda x: pp.Episodes(end=x),
    "a molecule": lambda x: pp.molecules.run(x, Q, V, 1e-3, 1),
    "points of poses": lambda x: pp.poses(ARM, Q, x),
}


@pytest.mark.parametrize("name", OTHERS)
def test_names_functions_and_mappings(name):
    for x in (3.5, object(), True):
        with pytest.raises(PhipsiError):
            OTHERS[name](x)


# ---- what functions of users return --------------------------------------------------------------


@pytest.mark.parametrize("control", [pp.control.ComputedTorque, pp.control.PDGravity])
def test_references_return_three_arrays(control):
    """PDGravity returned NaN where its reference was NaN."""
    for given, what in (
        (Q, r"must return \(q, v, vdot\), not array"),
        ((Q, V), r"must return \(q, v, vdot\)"),
        ((Q, V, V[:2]), r"vdot of reference .* has shape \(2,\), but must have \(3,\)"),
        ((np.nan * Q, V, V), "q of reference .* is nan"),
        ((Q, COMPLEX, V), "v of reference .* must be real"),
    ):
        with pytest.raises(pp.errors.InputError, match=what):
            control(ARM, lambda t, x=given: x, 1.0, 1.0)(0.0, Q, V)
    expected = control(ARM, HOLD, 1.0, 1.0)(0.0, Q, V)
    found = control(ARM, lambda t: (Q.tolist(), 0 * V, 0 * V), 1.0, 1.0)(0.0, Q, V)
    np.testing.assert_array_equal(found, expected)


def test_references_of_poses():
    """A matrix that is no rotation, and accelerations of five numbers, were taken."""
    pose, zero = pp.poses(ARM, Q)[-1], np.zeros(6)
    for given, what in (
        (pose, r"must return \(pose, velocity, acceleration\)"),
        ((pose[:3], zero, zero), r"pose of reference .* has shape \(3, 4\)"),
        ((2 * pose, zero, zero), r"R R\* = I only to 3"),
        ((pose, zero, zero[:5]), r"acceleration of reference .* has shape \(5,\)"),
    ):
        control = pp.control.OperationalSpace(
            ARM, TIP, lambda t, x=given: x, 1.0, 1.0, components=(3, 4)
        )
        with pytest.raises(pp.errors.InputError, match=what):
            control(0.0, Q, V)


def test_numbers_that_are_too_large():
    with pytest.raises(PhipsiError, match="too large to compute with"):
        pp.SpatialInertia.sphere(1e300, mass=1.0)
    with pytest.raises(PhipsiError, match="leads to numbers that are not finite"):
        pp.step_derivatives(ARM, Q, V, V, 2.0**70)


def test_numbers_of_laws():
    for x in (1j, "a", object(), DATE):
        with pytest.raises(PhipsiError, match="gear"):
            pp.laws.motor(["joint1"], 1.0, gear=x)
        with pytest.raises(PhipsiError, match="limit"):
            pp.laws.pid(["joint1"], 0.0, 1.0, limit=x)


def test_a_folder_that_workers_share():
    study = pp.Study(pp.Simulator(ARM), {"t": [0.0, 1.0]}, steps=1)
    for folder in (None, "somewhere"):
        with pytest.raises(pp.errors.InputError, match="shared_folder=True would do nothing"):
            study.run(folder, shared_folder=True)


def test_what_is_right_stays_right():
    """Whole numbers, lists, ranges and single precision are numbers."""
    for x in ([1, 2, 3], range(3), Q.astype(np.float32), np.array([1, 2, 3], dtype=object)):
        found = pp.simulate(ARM, x, V, 0.01)
        np.testing.assert_array_equal(found.q[0], np.array([float(y) for y in x]))
        assert pp.Pose(translation=x).translation.dtype == np.float64
    assert chain().model.nv == pp.molecules.draw_rates(chain(), chain().home, 300.0, 1).size
