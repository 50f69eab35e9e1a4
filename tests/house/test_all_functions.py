"""Every public function that takes a model, given each feature of a mechanism: as it declares.

The table docs/supported-features.md, cell by cell: right with closed loops, contacts, flexible
bodies and rotors on skew axes, or rejected with the reason.
"""

import inspect
from dataclasses import fields, is_dataclass
from functools import cache

import numpy as np
import pytest
from function_calls import (
    ARM,
    CALLS,
    CLOSED,
    CONTACTS,
    FREE,
    KINDS,
    LOOP,
    LOOPS,
    MODES,
    NOTHING,
    OPERATORS,
    ROTORS,
    SYSTEMS,
    TIP,
    TOUCHING,
)
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

SYSTEM = LOOP
Q, V, TAU, O = LOOPS.state.q, LOOPS.state.v, LOOPS.state.tau, np.zeros(3)

# Rejected in their own words.
BUILT_ON_TREES = {
    "control.GraspControl": lambda m: pp.control.GraspControl(m, pp.Pose(), 1, 1),
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
RESULTS |= {"topology.ContactMargin", "topology.Topology", "EmbeddedSystem"}
# Mechanisms without constraints are rejected; tests/embedding has the features.
OF_SYSTEMS = {"embed_constraints"}
# `model` is a name in a file; `system` is OpenMM's
NAMES = {"load", "molecules.OpenMMPotential", "molecules.from_openmm"}

WITH_CONTACTS = {"simulate"}  # of the functions above
READS_FILES = {"forces.from_model"}  # what joints of the tree have


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


FUNCTIONS = dict(_public())


def test_no_public_function_is_missing():
    known = {name: kind for kind, rows in KINDS.items() for name in rows}
    found = FUNCTIONS
    assert set(found) == {*known, *BUILT_ON_TREES, *OF_EITHER, *RESULTS, *OF_SYSTEMS, *NAMES}
    for name, kind in known.items():
        declared = CAPABILITIES[found[name]]
        if kind == "given motion":
            assert declared.loops is UNAFFECTED and declared.contacts is UNAFFECTED, name
        elif kind == "mechanisms":
            assert declared.loops is True, name
            read_only = name in OPERATORS or name in READS_FILES
            contacts = UNAFFECTED if read_only else name in WITH_CONTACTS
            refused = contacts is False and isinstance(declared.contacts, Refusal)
            assert declared.contacts is contacts or refused, name
        else:
            assert isinstance(declared.loops, Refusal) and declared.loops.why, name
            assert declared.contacts is False or isinstance(declared.contacts, Refusal), name
        takes = "prescribed" in inspect.signature(found[name]).parameters
        assert (declared.prescribed is not None) == takes, name
        text = (inspect.getdoc(found[name]) or "").partition("\n\nParameters\n---")[0]
        assert text.endswith(f"\n\n{supports_line(declared)}"), name


FEATURES = {"loops": LOOPS, "contacts": CONTACTS, "flexible": MODES, "rotors": ROTORS}
REJECTED = {
    "loops": r"(?s){name} is for trees, .*'(pin|ball)'.*system\.model",
    "contacts": "{name} does not account for the forces between bodies that touch",
    "flexible": "{name} is for rigid bodies, and 'link2' deforms",
    "rotors": "{name} is for .* what rotor 'motor' does depends on joint 'joint3'",
}
# What is asked first, and answers in its own name.
ASKED = {"inverse_dynamics": "forward_dynamics", "vjp": "compile"}
# What is supported and the same with the feature and without. Operators are those of the forest:
# loops add the rows A. Rotors add momentum: nothing to poses and rates, weight, paths and stops.
UNCHANGED = {
    "loops": set(OPERATORS),
    "contacts": {"simulate"},  # where nothing touches
    "rotors": {
        *SYSTEMS, "accelerations", "center_of_mass", "centroidal.com_jacobian", "control.Constant",
        "control.FourierPath", "control.JointPath", "control.PDGravity", "control.Saturated",
        "conventions.from_drake", "conventions.from_mujoco", "conventions.from_pinocchio",
        "conventions.to_drake", "conventions.to_mujoco", "conventions.to_pinocchio", "equilibrium",
        "extensions.check", "gravity_forces", "identification.regressor", "jacobian",
        "jacobian_dot", "natural_frequencies", "poses", "potential_energy", "simplify",
        "velocities",
    },
}  # fmt: skip


def _same(ours, theirs, tolerance=0.0):
    pairs = zip(ours, theirs, strict=True)
    return all(
        x == y if isinstance(x, str) else x.shape == y.shape and (np.abs(x - y) <= tolerance).all()
        for x, y in pairs
    )


def _differ(ours, theirs):
    pairs = zip(ours, theirs, strict=True)
    return any(
        x != y if isinstance(x, str) else x.shape != y.shape or np.abs(x - y).max(initial=0) > 1e-6
        for x, y in pairs
    )


@cache
def _of_the_tree(name):
    return _flat(CALLS[name](FUNCTIONS[name], ARM, CLOSED))


def _without(name, case):
    """The answer for the mechanism without the feature."""
    if case.twin is ARM and case.state is CLOSED:
        return _of_the_tree(name)
    return case.twin and _flat(CALLS[name](FUNCTIONS[name], case.twin, case.state))


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("name", CALLS)
def test_a_function_does_with_a_feature_what_it_declares(name, feature):
    case, function = FEATURES[feature], FUNCTIONS[name]
    call, without = CALLS[name], _without(name, case)
    support = getattr(CAPABILITIES[function], feature)
    if support is False or (isinstance(support, Refusal) and not support.combined_with):
        message = REJECTED[feature].replace("{name}", ASKED.get(name, function.__name__))
        with pytest.raises(pp.errors.InputError, match=message):
            call(function, case.mechanism, case.state)
        return
    found = _flat(call(function, case.mechanism, case.state))
    assert found and all(isinstance(x, str) or np.isfinite(x).all() for x in found)
    if without is not None:
        assert [np.ndim(x) for x in found] == [np.ndim(x) for x in without]
    if support is UNAFFECTED:
        assert without is None or _same(found, without)
    elif name in UNCHANGED.get(feature, ()):
        assert _same(found, without, 1e-12)
    else:
        assert without is None or _differ(found, without)


def test_the_basic_functions_know_modes():
    basic = """
        poses velocities accelerations jacobian mass_matrix mass_matrix_inverse inverse_dynamics
        forward_dynamics bias_forces gravity_forces joint_reactions hybrid_dynamics kinetic_energy
        potential_energy momentum center_of_mass diagonal_dynamics.log_det_mass_matrix"""
    assert all(CAPABILITIES[FUNCTIONS[name]].flexible is True for name in basic.split())


def test_what_is_about_rigid_bodies_can_be_asked_of_the_undeformed_ones():
    energy, arm, at = pp.identification.kinetic_energy_regressor, MODES.mechanism, MODES.state
    with pytest.raises(pp.errors.InputError, match=r"(?s)invariants.*regressor.*with_rigid_bodies"):
        energy(arm, at.q, at.v)
    joints = [0, 1, 3]
    assert energy(arm.with_rigid_bodies(), at.q[joints], at.v[joints]).shape == (30,)


def test_runs_with_contacts_need_a_method_that_locates_them():
    with pytest.raises(pp.errors.InputError, match="rk4.* does not locate the events of contacts"):
        pp.simulate(TOUCHING, Q, V, 0.01, integrator="rk4", dt=5e-3)


@pytest.mark.parametrize("name", BUILT_ON_TREES)
def test_what_is_built_on_a_tree(name):
    with pytest.raises(pp.errors.PhipsiError):
        BUILT_ON_TREES[name](SYSTEM)


@pytest.mark.parametrize("name", OF_EITHER)
def test_what_is_the_same_for_a_system_and_its_tree(name):
    assert OF_EITHER[name](SYSTEM) == OF_EITHER[name](SYSTEM.model)


@pytest.mark.parametrize("name", CALLS)
def test_a_system_without_constraints_is_its_tree(name):
    found = _flat(CALLS[name](FUNCTIONS[name], NOTHING.mechanism, NOTHING.state))
    assert _same(found, _without(name, NOTHING))


WRONG = {"array": Q, "list": [0.1, 0.2, 0.3], "text": "arm.urdf", "None": None}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrong", WRONG)
def test_the_model_comes_first(name, wrong):
    if name in ("explain", "prove", "simplify") and wrong == "None":
        return  # the recursion, the proof, or the cost, of any tree
    function, given = FUNCTIONS[name], WRONG[wrong]
    message = "(needs|takes) .* model" if name in OPERATORS else "takes the (model|system) "
    with pytest.raises(
        pp.errors.InputError, match=f"{ASKED.get(name, function.__name__)} {message}"
    ):
        CALLS[name](function, given, LOOPS.state)


@pytest.mark.parametrize(
    "function", [pp.compile, pp.explain, pp.evaluate_dense], ids=lambda f: f.__name__
)
def test_points_of_operators(function):
    """Those of a system are points of one's own, then its closure frames, in their own axes."""
    more = (Q,) if function is pp.evaluate_dense else ()
    mixed = function(pp.parse("Lambda"), SYSTEM, *more, points=TIP)
    if function is pp.compile:
        mixed = pp.compile(pp.parse("Lambda"), SYSTEM, points=TIP, mode="dense")(Q)
    if function is not pp.explain:
        frames, tip = SYSTEM.closures.points, pp.evaluate_dense("Lambda", ARM, Q, points=TIP)
        assert mixed.shape == (18, 18)
        np.testing.assert_allclose(mixed[:6, :6], tip, atol=1e-12)
        wanted = pp.evaluate_dense("Lambda", ARM, Q, points=frames)
        np.testing.assert_allclose(mixed[6:, 6:], wanted, atol=1e-12)
    with pytest.raises(pp.errors.InputError, match=r"axes='body' has no effect: the closure fram"):
        function(pp.parse("Lambda"), SYSTEM, *more, axes="body")
    ours, theirs = (function(pp.parse("Lambda"), m, *more, points=TIP) for m in (FREE, ARM))
    if function is pp.evaluate_dense:
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


FORCES = [pp.forces.JointLimit("joint2", np.inf, lower=-1.0)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pp.step_derivatives(SYSTEM, Q, V, TAU, 1e-3, prescribed=["joint1"]),
         r"(?s)step_derivatives: prescribed= .* with closed loops: .*projection.*Motor\(name="),
        (lambda: pp.rollout_gradient(SYSTEM, Q, V, TAU, 1e-3, 2, final=lambda q, v: (0.0, q, v),
                                     prescribed=["joint1"]),
         r"(?s)rollout_gradient: prescribed= .* with closed loops: .*projection.*Motor\(name="),
        (lambda: pp.simulate(TOUCHING, Q, V, 0.1, prescribed={"joint1": 0.0}),
         r"(?s)simulate: prescribed= .* with contacts: .*rigid joint limits.*\nRemove prescribed="),
        (lambda: pp.simulate(ARM, O, O, 0.1, forces=FORCES, prescribed={"joint1": 0.0}),
         r"(?s)simulate: prescribed= .* with contacts: .*rigid joint limits.*\nRemove prescribed="),
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
        r"the share of the weight that constraint forces carry .*with_rigid_bodies",
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
