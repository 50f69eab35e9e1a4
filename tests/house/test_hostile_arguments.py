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
LOOP = four_bar()
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
    "edges of a solid": lambda x: pp.SpatialInertia.box(x, mass=1.0),
    "coefficients": lambda x: pp.constraints.Coupling(
        name="c", joints=ARM.joint_names, coefficients=x
    ),
    "ratios of a rotor": lambda x: ARM.with_rotor("r", joint=ARM.joint_names, ratio=x, moment=1e-5),
    "first moment": lambda x: pp.FlexibleInertia(1.0, x, modal_mass=[[1.0]], stiffness=[[1.0]]),
    "place to reach": lambda x: pp.inverse_kinematics(ARM, {TIP: x}),
    "samples of a path": lambda x: pp.control.FourierPath.fit(ARM, np.arange(3.0), [x] * 3, 1.0, 1),
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
    "stop time": lambda x: pp.forces.from_model(ARM, limit_time=x),
    "gain of a task": lambda x: pp.control.OperationalSpace(ARM, TIP, pp.Pose(), x, 1.0),
    "time of a linearisation": lambda x: pp.linearize(ARM, Q, t=x),
    "time of an equilibrium": lambda x: pp.equilibrium(ARM, q=[-1.5, 0.1, 0.0], t=x),
    "tolerance": lambda x: pp.equilibrium(ARM, q=[-1.5, 0.1, 0.0], tolerance=x),
    "reach of distances": lambda x: pp.distances(
        pp.Contacts(ARM, unsupported="warn"), Q, max_distance=x
    ),
    "tolerance of positions": lambda x: pp.inverse_kinematics(
        ARM, {TIP: (1, 1, 0)}, position_tolerance=x
    ),
    "iterations": lambda x: pp.inverse_kinematics(ARM, {TIP: (1, 1, 0)}, max_iterations=x),
    "tolerance of loops": lambda x: LOOP.assemble([0.5, 0.3, -0.4], tolerance=x),
    "restarts of a search": lambda x: LOOP.assemble([0.5, 0.3, -0.4], restarts=x),
    "samples of a law": lambda x: pp.law(lambda q: q, rate=x),
    "samples of a controller": lambda x: pp.simulate(
        ARM, Q, V, 0.01, controller=lambda t, q, v: 0 * q, rate=x
    ),
    "seed of noise": lambda x: pp.signals.noise(3, seed=x),
    "seconds of a reader": lambda x: pp.load("nowhere.urdf", max_seconds=x),
    "radius of a solid": lambda x: pp.SpatialInertia.sphere(x, mass=1.0),
    "friction of a material": lambda x: pp.Material(friction=x),
    "mass of a beam": lambda x: pp.FlexibleInertia.beam(1.0, x, 1.0),
    "rate of a motor": lambda x: pp.constraints.Motor(name="m", joint="joint1", rate=x),
    "mass": lambda x: pp.SpatialInertia(x),
    "mass of a flexible body": lambda x: pp.FlexibleInertia(
        x, modal_mass=[[1.0]], stiffness=[[1.0]]
    ),
    "modal mass": lambda x: pp.FlexibleInertia(1.0, modal_mass=[[x]], stiffness=[[1.0]]),
    "pitch of a screw": lambda x: pp.joints.Helical(pitch=x),
    "moment of a rotor": lambda x: ARM.with_rotor("r", joint="joint1", ratio=9.0, moment=x),
    "weight of a target": lambda x: pp.inverse_kinematics(ARM, {TIP: (1, 1, 0)}, weights={TIP: x}),
    "period of a path": lambda x: pp.control.FourierPath.fit(
        ARM, np.arange(5.0), np.zeros((5, 3)), x, 1
    ),
    "harmonics of a path": lambda x: pp.control.FourierPath.fit(
        ARM, np.arange(5.0), np.zeros((5, 3)), 1.0, x
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", THREE)
def test_three_numbers(name):
    for x in (COMPLEX, MASKED, ["a", "b", "c"], [None] * 3, np.array([object()] * 3), [DATE] * 3):
        with pytest.raises(PhipsiError):
            THREE[name](x)


@pytest.mark.parametrize("name", ONE)
def test_one_number(name):
    for x in (1j, np.complex128(1), "a", object(), DATE, [], {}, np.array([1.0, 2.0, 3.0, 4.0])):
        with pytest.raises(PhipsiError):
            ONE[name](x)


def test_true_and_texts_are_no_numbers():
    """Python takes True as 1, and "1" as a number."""
    names = list(ONE)[list(ONE).index("tolerance of loops") :]
    for name in names:
        for x in (True, np.True_, "1"):
            with pytest.raises(PhipsiError):
                ONE[name](x)
    assert repr(pp.signals.noise(3, seed=np.int32(2))) == "noise((3,), 'normal', 2)"
    assert pp.law(lambda q: q, rate=np.float32(100)).rate == 100.0


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
    "given quantities": lambda x: pp.Simulator(ARM, per_trajectory=x),
    "recorded quantities": lambda x: (s := pp.Simulator(ARM)).rollout(s.initial_state(Q), record=x),
    "a state to write to": lambda x: (s := pp.Simulator(ARM)).step(s.initial_state(Q), out=x),
    "draws": lambda x: pp.Study(pp.Simulator(ARM), x, steps=1),
    "unknowns": lambda x: pp.equilibrium(ARM, unknowns=x),
    "outputs": lambda x: pp.linearize(ARM, Q, outputs=x),
    "parameters": lambda x: pp.linearize(ARM, Q, parameters=x),
    "ends of episodes": lambda x: pp.Episodes(terminate=x),
    "a molecule": lambda x: pp.molecules.run(x, Q, V, 1e-3, 1),
    "points of poses": lambda x: pp.poses(ARM, Q, x),
}


@pytest.mark.parametrize("name", OTHERS)
def test_names_functions_and_mappings(name):
    for x in (3.5, object(), True):
        with pytest.raises(PhipsiError):
            OTHERS[name](x)


# what takes one of a few words: arrays are compared entry by entry, and lists have no hash
BOX = pp.ModelBuilder()
BOX.add_body("box", joint=pp.joints.Free(), inertia=SOLID)
BOX.add_shape("box", "box", pp.shapes.Box((0.2, 0.3, 0.4)))
BALL = pp.examples.planar_arm(1)
START = LOOP.assemble([0.5, 0.3, -0.4])
M = pp.operators.mass_matrix
WORDS = {
    "combination": lambda x: pp.Contacts(BOX.build(), combine=x, ground=True),
    "pairs without a formula": lambda x: pp.Contacts(BOX.build(), unsupported=x, ground=True),
    "meshes": lambda x: pp.Contacts(BOX.build(), meshes=x, ground=True),
    "moments of a body": lambda x: ARM.with_body(TIP, inertia=SOLID, moments=x),
    "moments of a model": lambda x: BOX.build(inertia=x),
    "carrier": lambda x: ARM.with_rotor("r", joint="joint2", moment=0.1, ratio=2.0, on=x),
    "axes": lambda x: pp.velocities(ARM, Q, V, axes=x),
    "axes of points": lambda x: pp.jacobian(ARM, Q, [TIP], axes=x),
    "axes of rows": lambda x: pp.constraints.Rows(
        name="r", points=[TIP], A=np.eye(6)[:1], axes=x
    ),
    "axes of a force": lambda x: pp.forces.Wrench(TIP, np.zeros(6), axes=x),
    "axes of a signal": lambda x: pp.signals.expression("J", [TIP], axes=x),
    "axes of matrices": lambda x: pp.evaluate_dense(M, ARM, Q, axes=x),
    "order": lambda x: pp.evaluate_dense(M, ARM, Q, order=x),
    "mode": lambda x: pp.compile(M, ARM, mode=x),
    "rewriting": lambda x: pp.compile(M, ARM, rewrite=x),
    "backend": lambda x: pp.compile(M, ARM, backend=x),
    "paper": lambda x: pp.parse("phi", notation=x),
    "side": lambda x: pp.parse("phi M V + phi b").collect("phi", side=x),
    "structure": lambda x: pp.custom.operator(
        "X", "body motions -> body forces", recursion="X = M + E_phi X E_phi*", structure=x
    ),
    "derivative": lambda x: pp.sensitivities.log_det_mass_matrix_gradient(ARM, Q, wrt=x),
    "origin of momentum": lambda x: pp.momentum(ARM, Q, V, about=x),
    "form of a tree": lambda x: pp.forward_dynamics(ARM, Q, V, V, algorithm=x),
    "form of a system": lambda x: pp.forward_dynamics(LOOP, START, 0 * V, V, algorithm=x),
    "failures": lambda x: pp.inverse_kinematics(ARM, {TIP: (1, 1, 0)}, on_error=x),
    "failures of a program": lambda x: pp.mass_matrix(ARM, Q, on_error=x),
    "failures of a run": lambda x: (s := pp.Simulator(BALL)).rollout(s.initial_state(), on_error=x),
    "integrator": lambda x: pp.simulate(ARM, Q, V, 0.01, integrator=x),
    "integrator of rollouts": lambda x: pp.rollout(ARM, Q, V, V, 1e-3, 2, integrator=x),
    "integrator of derivatives": lambda x: pp.step_derivatives(ARM, Q, V, V, 1e-3, integrator=x),
    "integrator of simulators": lambda x: pp.Simulator(ARM, integrator=x),
    "stabilization": lambda x: pp.simulate(LOOP, START, 0 * V, 0.01, stabilization=x),
    "sampling": lambda x: pp.Study(pp.Simulator(BALL), {}, steps=1, runs=2, sampling=x),
    "activation": lambda x: pp.laws.policy([np.eye(3), np.zeros(3)], activation=x),
    "kind of a table": lambda x: pp.laws.table(0.5, [0.0, 1.0], [0.0, 1.0], kind=x),
    "kind of noise": lambda x: pp.signals.noise(3, kind=x),
    "law of an output": lambda x: pp.signals.output([x]),
    "rings": lambda x: pp.molecules.Molecule([1.0, 1.0], np.eye(3)[:2], [(0, 1)], rings=x),
    "method": lambda x: pp.molecules.sample(chain(), 1, method=x),
    "memory of exports": lambda x: pp.export(ARM, "nowhere", scratch=x),
    "precision": lambda x: pp.export(ARM, "nowhere", precision=x),
    "target": lambda x: pp.export(ARM, "nowhere", target=x),
    "version": lambda x: pp.export_fmu(pp.Simulator(BALL), "nowhere.fmu", fmi=x),
    "kind of an FMU": lambda x: pp.export_fmu(pp.Simulator(BALL), "nowhere.fmu", kind=x),
    "seed": lambda x: pp.inverse_kinematics(ARM, {TIP: (1, 1, 0)}, seed=x),
    "prescribed joints": lambda x: pp.simulate(ARM, Q, V, 0.01, prescribed=x),
    "threads": lambda x: pp.mass_matrix(ARM, Q, threads=x),
    "threads of a step": lambda x: (s := pp.Simulator(BALL)).step(s.initial_state(), threads=x),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_words(name):
    two = np.array(["body", "raise"])
    for x in ("no such word", two, two[0:1], np.zeros(3), ["body"], {"body": 1}, object(), True):
        with pytest.raises(PhipsiError):
            WORDS[name](x)


def test_words_that_are_near():
    with pytest.raises(PhipsiError, match=r"axes='words' is not one of .*Did you mean 'world'\?"):
        pp.jacobian(ARM, Q, [TIP], axes="words")
    assert pp.jacobian(ARM, Q, [TIP], axes=np.str_("body")).shape == (6, 3)  # a text


# what is True or False: every word is true in Python, and every empty list false
ROLL = (ARM, Q, V, V, 1e-3, 2)
ID = pp.identification
TRUTHS = {
    "classical": lambda x: pp.accelerations(ARM, Q, V, V, classical=x),
    "times_v": lambda x: pp.jacobian_dot(ARM, Q, V, [TIP], times_v=x),
    "multipliers": lambda x: pp.forward_dynamics(ARM, Q, V, V, return_multipliers=x),
    " multipliers": lambda x: pp.inverse_dynamics(ARM, Q, V, V, return_multipliers=x),
    "limits": lambda x: pp.inverse_kinematics(ARM, {TIP: (1, 1, 0)}, limits=x),
    " limits": lambda x: LOOP.assemble([0.5, 0.3, -0.4], limits=x),
    "armature": lambda x: ID.regressor(ARM, Q, V, V, armature=x),
    " armature": lambda x: ID.kinetic_energy_regressor(ARM, Q, V, armature=x),
    "viscous": lambda x: ID.inertial_parameters(ARM, viscous=x),
    "coulomb": lambda x: ID.parameter_names(ARM, coulomb=x),
    " coulomb": lambda x: ID.base_parameters(ARM, coulomb=x),
    "columns": lambda x: pp.compile(M, ARM, columns=x),
    "same_operand": lambda x: pp.compile((M, M.inv), ARM, same_operand=x),
    "reproducible": lambda x: pp.compile(M, ARM, reproducible=x),
    " reproducible": lambda x: pp.rollout(*ROLL, reproducible=x),
    "  reproducible": lambda x: pp.Simulator(ARM, reproducible=x),
    "   reproducible": lambda x: pp.Study(
        pp.Simulator(BALL), {"t": [0.0]}, steps=1, reproducible=x
    ),
    "latex": lambda x: pp.explain(M, latex=x),
    "plan": lambda x: pp.compile(M, ARM).explain(plan=x),
    "modes": lambda x: pp.diff(M, "q", "dq", modes=x),
    " modes": lambda x: pp.prove("H G = I", modes=x),
    "any_efforts": lambda x: pp.prove("H G = I", any_efforts=x),
    "show": lambda x: M.expand(show=x),
    "reverse": lambda x: pp.parse("(I - H psi K) H phi B f0").rewrite("Lemma 0.4", reverse=x),
    "symmetric": lambda x: pp.custom.operator("C", "rates -> efforts", 0.5, symmetric=x),
    "internal": lambda x: pp.constraints.Gear(
        name="g", driver="a", driven="b", teeth=(20, 40), internal=x
    ),
    "compensate_damping": lambda x: pp.control.ComputedTorque(
        ARM, HOLD, 1.0, 1.0, compensate_damping=x
    ),
    " compensate_damping": lambda x: pp.control.OperationalSpace(
        ARM, TIP, pp.Pose(), 1.0, 1.0, compensate_damping=x
    ),
    "exact": lambda x: pp.forces.from_model(ARM, exact=x),
    "stiffening": lambda x: pp.FlexibleInertia.beam(1.0, 1.0, 1.0, stiffening=x),
    "strict": lambda x: pp.load("nowhere.urdf", strict=x),
    "isolate": lambda x: pp.load("nowhere.urdf", isolate=x),
    "shared": lambda x: pp.export(ARM, "nowhere", shared=x),
    "derivatives": lambda x: pp.export_fmu(pp.Simulator(BALL), "nowhere.fmu", derivatives=x),
    "meshes": lambda x: pp.show(BALL, open=False, meshes=x),
    "open": lambda x: pp.show(BALL, open=x),
    "fixman": lambda x: pp.molecules.sample(chain(), 1, fixman=x),
    "parameters": lambda x: pp.rollout_gradient(
        *ROLL, final=lambda q, v: (0.0, None, None), parameters=x
    ),
    "equilibrium": lambda x: pp.linearize(ARM, Q, equilibrium=x),
    "work": lambda x: pp.simulate(ARM, Q, V, 0.01, work=x),
    " work": lambda x: pp.simulate(ARM, Q, V, 0.01, integrator="time_stepping", work=x),
    "resolve_penetration": lambda x: pp.Simulator(BALL).initial_state(resolve_penetration=x),
    "as_is": lambda x: pp.topology.Attach(as_is=x),
    " as_is": lambda x: pp.topology.Grasp(as_is=x),
    "  as_is": lambda x: pp.topology.Replace(as_is=x),
    "shared_folder": lambda x: pp.Study(pp.Simulator(BALL), {"t": [0.0]}, steps=1).run(
        shared_folder=x
    ),
    "check": lambda x: pp.Study.results("nowhere", check=x),
}  # fmt: skip
# None is the default of these
OPEN = {
    "per_step": lambda x: pp.rollout(*ROLL, per_step=x),
    " per_step": lambda x: (s := pp.Simulator(ARM)).rollout(s.initial_state(Q), V, per_step=x),
    "  per_step": lambda x: (s := pp.Simulator(ARM)).gradient(
        s.initial_state(Q), V, cotangents={"q": 1.0}, per_step=x
    ),
    "binary": lambda x: pp.export_fmu(pp.Simulator(BALL), "nowhere.fmu", binary=x),
    "play": lambda x: pp.live_page(BALL, "nowhere.html", play=x),
    "notebook": lambda x: pp.show(BALL, notebook=x),
}
NOT_TRUTHS = (3, 1, 0, 1.0, "a", "", [], {}, np.array([True, False]), np.array(True), object())


@pytest.mark.parametrize("name", [*TRUTHS, *OPEN])
def test_truth_values(name):
    function = (TRUTHS | OPEN)[name]
    for x in (*NOT_TRUTHS, None) if name in TRUTHS else NOT_TRUTHS:
        with pytest.raises(PhipsiError, match=f"{name.strip()}=.* must be True"):
            function(x)


def test_truth_values_of_numpy():
    free = pp.inverse_kinematics(ARM, {TIP: (1, 1, 0)}, Q, limits=np.False_)
    np.testing.assert_array_equal(
        free.q, pp.inverse_kinematics(ARM, {TIP: (1, 1, 0)}, Q, limits=False).q
    )
    assert pp.jacobian_dot(ARM, Q, V, [TIP], times_v=np.True_).shape == (6,)
    assert "work" in pp.simulate(ARM, Q, V, 0.01, work=np.True_).quadratures
    assert len(pp.forward_dynamics(ARM, Q, V, V, return_multipliers=np.True_)) == 3


# ---- what functions of users return --------------------------------------------------------------


@pytest.mark.parametrize(
    "control", [pp.control.ComputedTorque, pp.control.PassivityBased, pp.control.PDGravity]
)
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
        ((2 * pose, zero, zero), r"R R\* differs from I by 3"),
        ((pose, zero, zero[:5]), r"acceleration of reference .* has shape \(5,\)"),
        ((pose.T, zero, zero), "that is not a pose: the last row"),
    ):
        control = pp.control.OperationalSpace(
            ARM, TIP, lambda t, x=given: x, 1.0, 1.0, components=(3, 4)
        )
        with pytest.raises(pp.errors.InputError, match=what):
            control(0.0, Q, V)


def test_poses_of_references_with_rounding_and_in_laws():
    """A last row with rounding is one; constants beside what a law traces are checked too."""
    pose, zero = pp.poses(ARM, Q)[-1], np.zeros(6)
    rounded = pose.copy()
    rounded[3, :3] = 1e-17

    def control(at):
        return pp.control.OperationalSpace(
            ARM, TIP, lambda t: (at, t * zero, zero), 1.0, 1.0, components=(3, 4)
        )

    np.testing.assert_array_equal(control(rounded)(0.0, Q, V), control(pose)(0.0, Q, V))
    pp.Simulator(ARM, control(pose), dt=0.01)
    with pytest.raises(pp.errors.PhipsiError, match="that is not a pose: the last row"):
        pp.Simulator(ARM, control(pose.T), dt=0.01)


def test_a_pose_that_is_transposed():
    """Its place is in the last row, which was not looked at."""
    pose = pp.poses(ARM, Q)[-1]
    for given in (pp.control.ConstantPose, lambda x: pp.control.CartesianPath([pose, x], [0, 1])):
        given(pose)
        with pytest.raises(PhipsiError, match="the last row is"):
            given(pose.T)


def test_numbers_that_are_too_large():
    with pytest.raises(PhipsiError, match="too large to compute with"):
        pp.SpatialInertia.sphere(1e300, mass=1.0)
    with pytest.raises(PhipsiError, match="gives numbers that are not finite"):
        pp.step_derivatives(ARM, Q, V, V, 2.0**70)


def test_numbers_of_laws():
    for x in (1j, "a", object(), DATE):
        with pytest.raises(PhipsiError, match="gear"):
            pp.laws.motor(["joint1"], 1.0, gear=x)
        with pytest.raises(PhipsiError, match="limit"):
            pp.laws.pid(["joint1"], 0.0, 1.0, limit=x)
        with pytest.raises(PhipsiError, match="time_constant"):
            pp.laws.low_pass(pp.signals.position(TIP), x)
        with pytest.raises(PhipsiError, match="joint1"):
            pp.hybrid_dynamics(ARM, Q, V, None, V, prescribed={"joint1": x})


def test_forces_over_time():
    """A wind of one number, or of none, was blown in all directions or into the run."""
    winds = (3.0, [1.0, 2.0], np.nan * V, "a")
    for wind in winds:
        drag = pp.forces.WindDrag(TIP, 1.0, wind=lambda t, x=wind: x)
        with pytest.raises(pp.errors.InputError, match="the wind at t = 0 s must be 3 finite"):
            pp.simulate(ARM, Q, V, 0.01, forces=[drag])
    for wind in winds[:2]:
        drag = pp.forces.WindDrag(TIP, 1.0, wind=lambda t, x=wind: t * np.array(x))
        with pytest.raises(PhipsiError, match="the wind must be 3 numbers"):
            pp.Simulator(ARM, [drag], dt=1e-3)
    for force in (
        pp.forces.JointSpring("joint1", 1.0, rest=np.inf),
        pp.forces.ElasticCoupling(("joint1", "joint2"), (1, -1), 1.0, offset=-np.inf),
    ):
        with pytest.raises(pp.errors.InputError, match="it must be finite"):
            bound(force)


def test_a_folder_that_workers_share():
    study = pp.Study(pp.Simulator(ARM), {"t": [0.0, 1.0]}, steps=1)
    for folder in (None, "somewhere"):
        with pytest.raises(pp.errors.InputError, match="shared_folder=True has no effect"):
            study.run(folder, shared_folder=True)


def test_what_is_right_stays_right():
    """Whole numbers, lists, ranges and single precision are numbers."""
    for x in ([1, 2, 3], range(3), Q.astype(np.float32), np.array([1, 2, 3], dtype=object)):
        found = pp.simulate(ARM, x, V, 0.01)
        np.testing.assert_array_equal(found.q[0], np.array([float(y) for y in x]))
        assert pp.Pose(translation=x).translation.dtype == np.float64
    assert chain().model.nv == pp.molecules.sample_velocities(chain(), chain().home, 300.0, 1).size
