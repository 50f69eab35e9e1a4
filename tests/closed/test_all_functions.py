"""Every public function that takes a model, given a system: right with its loops, or rejected."""

import inspect
import warnings
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import phipsi as pp
from phipsi.core.expressions.node import Expr
from phipsi.core.model.capabilities import (
    CAPABILITIES,
    UNAFFECTED,
    Refusal,
    supports,
    supports_line,
    tree_of,
)
from phipsi.operators import M, mass_matrix, tau, v

ARM = pp.examples.planar_arm(3).with_shape("skin", "link3", pp.shapes.Sphere(0.1))
PIN = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
SYSTEM = pp.System(ARM, [PIN])
FREE = pp.System(ARM, [])
Q = SYSTEM.assemble([1.0, -1.0, -1.5])
Q_2 = SYSTEM.assemble(Q + [0.2, 0, 0], fixed=["joint1"])
_, V = SYSTEM.project(Q, [0.3, -0.2, 0.1])
VDOT, TAU, O = np.array([0.4, -0.1, 0.7]), np.array([1.0, 0.2, -0.3]), np.zeros(3)
F_EXT = np.arange(18.0).reshape(3, 6)
TIP = ["tip"]
FORCE = [[0, 0, 0, 1.0, 2.0, 0]]


def _motion(m):
    return pp.inverse_dynamics(m, Q, V, pp.forward_dynamics(m, Q, V, TAU), multipliers=True)


def _simulated(m):
    run = pp.simulate(m, Q, V, 0.01, integrator="rk4", dt=5e-3)
    return run.q, run.v, run.energy


def _gradient(m):
    return pp.rollout_gradient(m, Q, V, TAU, 1e-3, 2, final=lambda q, v: (0.0, q, v))[:4]


def _limited(m):
    return m.with_body("link3", limits=(-3.0, 3.0)) if isinstance(m, pp.Model) else m


def _linear(m):
    system = pp.linearize(m, Q)
    return system.A, system.B


def _saved(m):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pp.errors.PhipsiWarning)  # gravity is not that of URDF
        return pp.save_urdf(m)


# The answer is about the q, v, vdot that are given: the same for the system and for its tree.
GIVEN_MOTION = {
    "accelerations": lambda m: (
        pp.accelerations(m, Q, V, VDOT, classical=True),
        pp.accelerations(m, Q, V, VDOT, TIP, classical=True)),
    "poses": lambda m: (pp.poses(m, Q), pp.poses(m, Q, TIP)),
    "velocities": lambda m: (pp.velocities(m, Q, V), pp.velocities(m, Q, V, TIP)),
    "center_of_mass": lambda m: pp.center_of_mass(m, Q),
    "centroidal.com_jacobian": lambda m: pp.centroidal.com_jacobian(m, Q),
    "centroidal.momentum_matrix": lambda m: pp.centroidal.momentum_matrix(m, Q),
    "centroidal.momentum_matrix_dot": lambda m: pp.centroidal.momentum_matrix_dot(m, Q, V),
    "control.Saturated": lambda m: (
        pp.control.Saturated(lambda t, q, v: 9 * q, m, efforts=5.0)(0.0, Q, V)),
    "conventions.from_drake": lambda m: pp.conventions.from_drake(m, Q, V, VDOT, TAU),
    "conventions.from_mujoco": lambda m: pp.conventions.from_mujoco(m, Q, V, VDOT, TAU),
    "conventions.from_pinocchio": lambda m: pp.conventions.from_pinocchio(m, Q, V, VDOT, TAU),
    "identification.inertial_parameters": lambda m: (
        pp.identification.inertial_parameters(m, armature=True)),
    "jacobian": lambda m: pp.jacobian(m, Q, TIP),
    "jacobian_dot": lambda m: pp.jacobian_dot(m, Q, V, TIP),
    "kinetic_energy": lambda m: pp.kinetic_energy(m, Q, V),
    "identification.kinetic_energy_regressor": lambda m: (
        pp.identification.kinetic_energy_regressor(m, Q, V, armature=True)),
    "mass_matrix": lambda m: pp.mass_matrix(m, Q),
    "momentum": lambda m: (pp.momentum(m, Q, V), pp.momentum(m, Q, V, about="com")),
    "identification.parameter_names": lambda m: pp.identification.parameter_names(m, armature=True),
    "elastic_energy": lambda m: pp.elastic_energy(m, Q),
    "potential_energy": lambda m: pp.potential_energy(m, Q),
    "identification.potential_energy_regressor": lambda m: (
        pp.identification.potential_energy_regressor(m, Q)),
    "control.Constant": lambda m: pp.control.Constant(m, Q)(0.0),
    "conventions.to_drake": lambda m: pp.conventions.to_drake(m, Q, V, VDOT, TAU),
    "conventions.to_mujoco": lambda m: pp.conventions.to_mujoco(m, Q, V, VDOT, TAU),
    "conventions.to_pinocchio": lambda m: pp.conventions.to_pinocchio(m, Q, V, VDOT, TAU),
}  # fmt: skip

# The constraints are taken into account: another answer than for the tree.
MECHANISMS = {
    "control.ComputedTorque": lambda m: pp.control.ComputedTorque(m, Q, kp=9, kd=6)(0.0, Q, V),
    "control.OperationalSpace": lambda m: pp.control.OperationalSpace(
        m, "link2", (0.6, 0.9, 0), kp=9, kd=6, components=(3,)
    )(0.0, Q, V),
    "control.PDGravity": lambda m: pp.control.PDGravity(m, Q, kp=9, kd=6)(0.0, Q, V),
    "forces.from_ratings": lambda m: [
        x.stiffness
        for x in pp.forces.from_ratings(_limited(m))
        if isinstance(x, pp.forces.JointStop)
    ],
    "control.FourierPath": lambda m: pp.control.FourierPath(
        m, Q, np.full((3, 1), 0.1), np.full((3, 1), 0.1), 6.0
    )(1.0),
    "control.JointPath": lambda m: pp.control.JointPath(m, [Q, Q_2], [0, 1])(0.3),
    "forward_dynamics": lambda m: (
        pp.forward_dynamics(m, Q, V, TAU, F_EXT),
        pp.forward_dynamics(m, Q, V, TAU, multipliers=True),
        pp.forward_dynamics(m, Q, V, TAU, points=TIP, f0=FORCE),
    ),
    "hybrid_dynamics": lambda m: pp.hybrid_dynamics(m, Q, V, None, TAU, prescribed={"joint2": 0.3}),
    "inverse_dynamics": _motion,
    "forward_dynamics_derivatives": lambda m: pp.forward_dynamics_derivatives(m, Q, V, TAU),
    "inverse_kinematics": lambda m: (
        pp.inverse_kinematics(m, {"link3": (1.3, 0.8, 0)}, Q, on_error="return").q
    ),
    "joint_reactions": lambda m: pp.joint_reactions(m, Q, V, TAU, F_EXT),
    "equilibrium": lambda m: pp.equilibrium(m, q=Q, unknowns="tau").tau,
    "linearize": _linear,
    "mode_shapes": lambda m: pp.mode_shapes(m, Q).shapes,
    "natural_frequencies": lambda m: np.nan_to_num(pp.natural_frequencies(m, Q)),
    "rollout": lambda m: pp.rollout(m, Q, V, TAU, 1e-3, 5),
    "rollout_gradient": _gradient,
    "simulate": _simulated,
    "step_derivatives": lambda m: pp.step_derivatives(m, Q, V, TAU, 1e-3),
}

# Operators are those of the forest, for a system with the rows A: the same where there is no A.
OPERATORS = {
    "compile": lambda m: pp.compile(mass_matrix.inv @ tau, m)(Q, TAU),
    "dense": lambda m: pp.dense(mass_matrix.inv @ tau, m, Q, tau=TAU),
    "simplify": lambda m: str(pp.simplify(mass_matrix.inv @ mass_matrix @ v, m)),
    "explain": lambda m: str(pp.explain(mass_matrix.inv @ tau, m)),
    "extensions.check": lambda m: pp.extensions.check(M, m),
    "prove": lambda m: str(pp.prove("H G", m)),
    "vjp": lambda m: pp.vjp(mass_matrix @ v, m)(Q, V, TAU),
}

# Constraints would change the answer, so the function is for trees.
TREES = {
    "identification.base_parameters": lambda m: pp.identification.base_parameters(m).combinations,
    "bias_forces": lambda m: pp.bias_forces(m, Q, V),
    "sensitivities.christoffel_symbols": lambda m: pp.sensitivities.christoffel_symbols(m, Q),
    "sensitivities.coriolis_matrix": lambda m: pp.sensitivities.coriolis_matrix(m, Q, V),
    "diagonal_dynamics.coriolis": lambda m: pp.diagonal_dynamics.coriolis(m, Q, V),
    "gravity_forces": lambda m: pp.gravity_forces(m, Q),
    "diagonal_dynamics.innovations": lambda m: pp.diagonal_dynamics.innovations(m, Q, V, TAU),
    "diagonal_dynamics.rates": lambda m: pp.diagonal_dynamics.rates(m, Q, V),
    "inverse_dynamics_derivatives": lambda m: pp.inverse_dynamics_derivatives(m, Q, V, VDOT),
    "diagonal_dynamics.log_det_mass_matrix": lambda m: (
        pp.diagonal_dynamics.log_det_mass_matrix(m, Q)),
    "sensitivities.log_det_mass_matrix_gradient": lambda m: (
        pp.sensitivities.log_det_mass_matrix_gradient(m, Q)),
    "mass_matrix_inverse": lambda m: pp.mass_matrix_inverse(m, Q),
    "sensitivities.mass_matrix_inverse_sensitivity": lambda m: (
        pp.sensitivities.mass_matrix_inverse_sensitivity(m, Q)),
    "sensitivities.mass_matrix_sensitivity": lambda m: (
        pp.sensitivities.mass_matrix_sensitivity(m, Q)),
    "operational_space_inertia": lambda m: _square(pp.operational_space_inertia, m),
    "sensitivities.operational_space_inertia_sensitivity": lambda m: (
        _square(pp.sensitivities.operational_space_inertia_sensitivity, m)),
    "identification.regressor": lambda m: (
        pp.identification.regressor(m, Q, V, VDOT, armature=True, coulomb=True)),
    "save_urdf": lambda m: _saved(m),
}  # fmt: skip

# About constraints, of which a tree has none.
SYSTEMS = {
    "constraint_forces": lambda m: pp.constraint_forces(m, Q, V, TAU),
    "constraint_impulse": lambda m: pp.constraint_impulse(m, Q, V),
    "delassus_matrix": lambda m: pp.delassus_matrix(m, Q),
}  # fmt: skip

# Rejected in their own words.
BUILT_ON_TREES = {
    "grasping.Grasp": lambda m: pp.grasping.Grasp(m, object="link3", contacts=[]),
    "System": lambda m: pp.System(m, []),
    "topology.contact_events": lambda m: pp.topology.contact_events(m),
    "contact_forces": lambda m: pp.contact_forces(m, Q, V, TAU),
    "contact_step": lambda m: pp.contact_step(m, Q, V, TAU),
}
# Values that are the same for a system and its tree.
OF_EITHER = {"Contacts": lambda m: pp.Contacts(m, ground=False)}
# What functions return or are handed by `simulate`; nobody makes them from a system.
RESULTS = {"Trajectory", "forces.State"}
RESULTS |= {"topology.ContactMargin", "topology.Topology"}
# `model` is a name in a file; `system` is OpenMM's
NAMES = {"load", "molecules.OpenMMPotential", "molecules.from_openmm"}

TABLE = {
    "given motion": GIVEN_MOTION,
    "mechanisms": MECHANISMS | OPERATORS | SYSTEMS,
    "trees": TREES,
}
WITH_CONTACTS = {"simulate"}  # of the functions above


def _square(function, m):
    """Six dofs, so that the points can accelerate in all directions."""
    flyer = pp.ModelBuilder()
    flyer.add_body("box", joint=pp.joints.Free(), inertia=pp.SpatialInertia(2.0, (0, 0, 0), 1.0))
    one = flyer.build()
    ball = pp.constraints.Spherical(name="ball", a="box", b="world")
    mine = {id(ARM): one, id(SYSTEM): pp.System(one, [ball]), id(FREE): pp.System(one, [])}
    return function(mine.get(id(m), m), one.neutral(), ["box"])


def _rows(kind):
    return [pytest.param(call, id=name) for name, call in TABLE[kind].items()]


def _flat(x):
    """Everything that can be compared, as arrays or text."""
    if isinstance(x, (tuple, list)):
        return [y for part in x for y in _flat(part)]
    if is_dataclass(x):
        return [y for f in fields(x) for y in _flat(getattr(x, f.name))]
    return [] if x is None else [x if isinstance(x, str) else np.asarray(x)]


def _public():
    """Every public callable with a model among its arguments, by its name below phipsi."""
    for name in pp.__all__:
        x = getattr(pp, name)
        listed = [name] if not inspect.ismodule(x) else [f"{name}.{n}" for n in _names(x)]
        for full in listed:
            short = full.rpartition(".")[2]
            y = x if full == name else getattr(x, short)
            if full != name and getattr(pp, short, None) is y:
                continue  # listed at the top
            if not callable(y) or (isinstance(y, type) and issubclass(y, (BaseException, Expr))):
                continue
            if {"model", "system", "grasp"} & set(inspect.signature(y).parameters):
                yield full, y


def _names(module):
    """What a module offers: `__all__`, or what is written in it."""
    own = [n for n, y in vars(module).items() if getattr(y, "__module__", "") == module.__name__]
    return getattr(module, "__all__", [n for n in own if not n.startswith("_")])


def test_no_public_function_is_missing():
    known = {name: kind for kind, rows in TABLE.items() for name in rows}
    found = dict(_public())
    assert set(found) == {*known, *BUILT_ON_TREES, *OF_EITHER, *RESULTS, *NAMES}
    for name, kind in known.items():
        declared = CAPABILITIES[found[name]]
        if kind == "given motion":
            assert declared.loops is UNAFFECTED and declared.contacts is UNAFFECTED, name
        elif kind == "mechanisms":
            assert declared.loops is True, name
            contacts = UNAFFECTED if name in OPERATORS else name in WITH_CONTACTS
            assert declared.contacts is contacts, name
        else:
            assert isinstance(declared.loops, Refusal) and declared.loops.why, name
            assert declared.contacts is False, name
        takes = "prescribed" in inspect.signature(found[name]).parameters
        assert (declared.prescribed is not None) == takes, name
        assert inspect.getdoc(found[name]).endswith(f"\n\n{supports_line(declared)}"), name


@pytest.mark.parametrize("call", _rows("given motion"))
def test_what_is_about_the_given_motion_answers(call):
    for ours, theirs in zip(_flat(call(SYSTEM)), _flat(call(ARM)), strict=True):
        assert_array_equal(ours, theirs)


@pytest.mark.parametrize("call", [pytest.param(c, id=n) for n, c in MECHANISMS.items()])
def test_what_knows_constraints_differs_from_the_tree(call):
    pairs = list(zip(_flat(call(SYSTEM)), _flat(call(ARM)), strict=True))
    assert all(np.isfinite(x).all() for x, _ in pairs)
    assert any(x.shape != y.shape or np.abs(x - y).max() > 1e-6 for x, y in pairs)


@pytest.mark.parametrize("call", [pytest.param(c, id=n) for n, c in OPERATORS.items()])
def test_operators_are_those_of_the_forest(call):
    for ours, theirs in zip(_flat(call(SYSTEM)), _flat(call(ARM)), strict=True):
        assert_array_equal(ours, theirs)


@pytest.mark.parametrize("call", _rows("trees"))
def test_what_constraints_would_change_is_rejected(call):
    call(ARM)
    with pytest.raises(
        pp.errors.InputError, match=r"(?s)is for trees, .*'(pin|ball)'.*system\.model"
    ):
        call(SYSTEM)


@pytest.mark.parametrize("call", [pytest.param(c, id=n) for n, c in SYSTEMS.items()])
def test_a_tree_has_constraints_too_none(call):
    with_rows, without = _flat(call(SYSTEM)), _flat(call(ARM))
    assert [x.ndim for x in with_rows] == [x.ndim for x in without]
    assert any(x.shape != y.shape or np.abs(x - y).max() > 1e-6
               for x, y in zip(with_rows, without, strict=True))  # fmt: skip


@pytest.mark.parametrize("name", BUILT_ON_TREES)
def test_what_is_built_on_a_tree(name):
    with pytest.raises(pp.errors.PhipsiError):
        BUILT_ON_TREES[name](SYSTEM)


@pytest.mark.parametrize("name", OF_EITHER)
def test_what_is_the_same_for_a_system_and_its_tree(name):
    assert OF_EITHER[name](SYSTEM) == OF_EITHER[name](SYSTEM.model)


TOUCHING = pp.System(ARM, contacts=pp.Contacts(ARM, ground=False))


@pytest.mark.parametrize("call", _rows("given motion"))
def test_contacts_do_not_change_what_is_about_the_given_motion(call):
    for ours, theirs in zip(_flat(call(TOUCHING)), _flat(call(ARM)), strict=True):
        assert_array_equal(ours, theirs)


UNAWARE = [p for kind in ("mechanisms", "trees") for p in _rows(kind) if p.id not in OPERATORS]


@pytest.mark.parametrize("call", UNAWARE)
def test_what_contact_forces_would_change_is_rejected(call):
    with pytest.raises(pp.errors.InputError, match="contact"):
        call(TOUCHING)


ALL = [p for kind in ("given motion", "mechanisms", "trees") for p in _rows(kind)]


@pytest.mark.parametrize("call", ALL)
def test_a_system_without_constraints_is_its_tree(call):
    for ours, theirs in zip(_flat(call(FREE)), _flat(call(ARM)), strict=True):
        assert_array_equal(ours, theirs)


@pytest.mark.parametrize("call", ALL)
@pytest.mark.parametrize("wrong", [Q, [0.1, 0.2, 0.3], None], ids=["array", "list", "None"])
def test_the_model_comes_first(call, wrong):
    if call in (OPERATORS[n] for n in ("explain", "prove", "simplify")) and wrong is None:
        return  # the recursion, the proof, or the cost, of any tree
    with pytest.raises(pp.errors.PhipsiError, match="model|system"):
        call(wrong)


@pytest.mark.parametrize("function", [pp.compile, pp.explain, pp.dense], ids=lambda f: f.__name__)
def test_points_of_operators(function):
    """Those of a system are its closure frames; others are not dropped without a word."""
    more = (Q,) if function is pp.dense else ()
    with pytest.raises(
        pp.errors.InputError, match=r"frames of its closures.*compile for system\.model"
    ):
        function(pp.parse("Lambda"), SYSTEM, *more, points=TIP)
    ours, theirs = (function(pp.parse("Lambda"), m, *more, points=TIP) for m in (FREE, ARM))
    if function is pp.dense:
        assert_array_equal(ours, theirs)
    else:
        assert str(ours) == str(theirs)


def test_grasps_are_systems():
    grasp = pp.examples.two_finger_grasp()
    q, rest = grasp.assemble(grasp.model.neutral()), np.zeros(grasp.model.nv)
    assert_array_equal(pp.center_of_mass(grasp, q), pp.center_of_mass(grasp.model, q))
    loaded = pp.joint_reactions(grasp, q, rest, rest).joints
    assert np.abs(loaded - pp.joint_reactions(grasp.model, q, rest, rest).joints).max() > 1e-3
    with pytest.raises(pp.errors.InputError, match="is for trees"):
        pp.gravity_forces(grasp, q)


FORCES = [pp.forces.JointStop("joint2", np.inf, lower=-1.0)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pp.step_derivatives(SYSTEM, Q, V, TAU, 1e-3, prescribed=["joint1"]),
         r"(?s)step_derivatives: prescribed= .* with closed loops: .*projection.*Motor\(name="),
        (lambda: pp.rollout_gradient(SYSTEM, Q, V, TAU, 1e-3, 2, final=lambda q, v: (0.0, q, v),
                                     prescribed=["joint1"]),
         r"(?s)rollout_gradient: prescribed= .* with closed loops: .*projection.*Motor\(name="),
        (lambda: pp.simulate(TOUCHING, Q, V, 0.1, prescribed={"joint1": 0.0}),
         r"(?s)simulate: prescribed= .* with contacts: .*rigid stops.*\nRemove prescribed="),
        (lambda: pp.simulate(ARM, O, O, 0.1, forces=FORCES, prescribed={"joint1": 0.0}),
         r"(?s)simulate: prescribed= .* with contacts: .*rigid stops.*\nRemove prescribed="),
    ],
)  # fmt: skip
def test_prescribed_joints_are_rejected_where_other_features_exclude_them(call, message):
    with pytest.raises(pp.errors.InputError, match=message):
        call()


def test_features_may_exclude_each_other():
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_body("boom", inertia=pp.FlexibleInertia.beam(1.0, 1.0, 100.0, modes=1))
    builder.add_body("tip", parent="boom", port="tip", inertia=pp.SpatialInertia(1.0))
    boom = builder.build()
    pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.0, 0, 0)))
    loop, q = pp.System(boom, [pin]), boom.neutral()
    assert pp.control.PDGravity(boom, q, 1.0, 1.0)(0.0, q, np.zeros(boom.nv)).shape == (boom.nv,)
    with pytest.raises(
        pp.errors.InputError,
        match=r"(?s)PDGravity: flexible bodies are not supported together with closed loops: "
        r"what constraint forces .*with_rigid_bodies",
    ):
        pp.control.PDGravity(loop, q, 1.0, 1.0)


def test_what_is_not_declared_is_rejected():
    @supports(loops=True, contacts=UNAFFECTED)
    def length(model):
        """How long it is.

        **Returns:** m.
        """
        return tree_of(model, length).n_bodies

    @supports(loops=Refusal("loops have no ends", "Its tree:  length(system.model)"))
    def ends(model):
        return tree_of(model, ends).n_bodies

    assert ends(ARM) == length(SYSTEM) == length(TOUCHING) == 3 and ends.__doc__ is None
    assert length.__doc__ == (
        "How long it is.\n\n**Returns:** m.\n\n**Supports:** closed loops; not flexible bodies, "
        "rotors on skew axes; unaffected by contacts."
    )
    with pytest.raises(pp.errors.InputError, match=r"(?s)ends is for .*no ends\.\nIts tree:  len"):
        ends(SYSTEM)
    with pytest.raises(pp.errors.InputError, match=r"ends does not account for the forces"):
        ends(TOUCHING)
    builder = pp.ModelBuilder()
    builder.add_body("boom", inertia=pp.FlexibleInertia.beam(1.0, 1.0, 100.0, modes=1))
    with pytest.raises(pp.errors.InputError, match=r"length is for rigid bodies, and 'boom' def"):
        length(builder.build())
    skew = {"joint": "elbow_pitch", "ratio": 10, "moment": 1e-4, "axis": (1, 0, 0)}
    with pytest.raises(pp.errors.InputError, match=r"'motor' does depends on joint 'elbow_pitch'"):
        length(pp.examples.seven_joint_arm().with_rotor("motor", **skew))


def test_arguments_in_the_wrong_order():
    with pytest.raises(
        pp.errors.InputError, match=r"model first.*\n.*forward_dynamics\(model, q, v, tau"
    ):
        pp.forward_dynamics(Q, V, TAU, ARM)
    with pytest.raises(
        pp.errors.InputError, match=r"model second.*\n.*Saturated\(controller, model"
    ):
        pp.control.Saturated(ARM, lambda t, q, v: q)
