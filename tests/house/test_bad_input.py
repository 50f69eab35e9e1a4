"""What users get wrong: every public function says which argument, where, and what it needs.

Numbers that are not finite go in nowhere, complex numbers only where their imaginary part is kept,
and an empty batch is a batch.
"""

import numpy as np
import pytest

import phipsi as pp
from phipsi import constraints as c
from phipsi.algorithms.constrained.stages import Stages
from phipsi.operators import H, M, gravity, mass_matrix, phi, tau

ARM = pp.examples.planar_arm(3)
PIN = c.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
SYSTEM = pp.System(ARM, [PIN])
Q = SYSTEM.assemble([1.0, -1.0, -1.5])
O = np.zeros(3)
GRASP = pp.examples.two_finger_grasp()
HELD, REST = GRASP.model.neutral(), np.zeros(GRASP.model.nv)
LOAD = H @ phi @ M @ phi.T @ gravity
BASE, identify = pp.identification.base_parameters(ARM), pp.identification.identify
SAMPLES = np.random.default_rng(0).standard_normal((3, 40, 3))
EFFORTS = pp.inverse_dynamics(ARM, *SAMPLES)


def _final(q, v):
    return (v * v).sum(-1), None, 2 * v


# name -> (function of one array of 3 numbers, what the array is called, whether it may be complex)
ARRAYS = {
    "residual": (SYSTEM.residual, "q", True),
    "jacobian": (SYSTEM.jacobian, "q", True),
    "bias, q": (lambda x: SYSTEM.bias(x, O), "q", True),
    "bias, v": (lambda x: SYSTEM.bias(Q, x), "v", True),
    "assemble": (SYSTEM.assemble, "q", False),
    "project, q": (lambda x: SYSTEM.project(x, O), "q", False),
    "project, v": (lambda x: SYSTEM.project(Q, x), "v", False),
    "mobility": (SYSTEM.mobility, "q", False),
    "turned over": (SYSTEM.is_turned_over, "q", False),
    "constrained dynamics": (
        lambda x: pp.forward_dynamics(SYSTEM, Q, O, x, return_multipliers=True), "tau", True),
    "constraint impulse": (lambda x: pp.constraint_impulse(SYSTEM, Q, x), "v", True),
    "Delassus matrix": (lambda x: pp.delassus_matrix(SYSTEM, x), "q", True),
    "their derivatives, q": (
        lambda x: pp.forward_dynamics_derivatives(SYSTEM, x, O, O), "q", False),
    "their derivatives, tau": (
        lambda x: pp.forward_dynamics_derivatives(SYSTEM, Q, O, x), "tau", False),
    "closed inverse dynamics": (
        lambda x: pp.inverse_dynamics(SYSTEM, Q, O, x, return_multipliers=True), "vdot", False),
    "frame accelerations": (lambda x: pp.accelerations(ARM, O, O, x, ["tip"]), "vdot", True),
    "mass matrix sensitivity": (
        lambda x: pp.sensitivities.mass_matrix_sensitivity(ARM, x), "q", True),
    "Christoffel symbols": (lambda x: pp.sensitivities.christoffel_symbols(ARM, x), "q", True),
    "linearize": (lambda x: pp.linearize(ARM, x), "q", False),
    "step derivatives": (lambda x: pp.step_derivatives(ARM, O, x, O, 0.1), "v", False),
    "rollout": (lambda x: pp.rollout(ARM, x, O, O, 0.01, 2), "q0", False),
    "rollout gradient": (
        lambda x: pp.rollout_gradient(ARM, O, x, O, 0.01, 2, final=_final), "v0", False),
    "stages": (lambda x: Stages().dynamics(SYSTEM, Q, O, x), "tau", False),
    "hybrid dynamics": (
        lambda x: pp.hybrid_dynamics(ARM, x, O, O, O, prescribed=["joint1"]), "q", True),
}  # fmt: skip
ONE_AT_A_TIME = ("mobility", "linearize", "stages")


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_are_none(name):
    call, what, _ = ARRAYS[name]
    for values, complaint in [
        ([0, np.nan, 0], "nan"),
        ([0, 0, -np.inf], "inf"),
        (["a", "b", "c"], "numbers"),
        ([[1, 2], [3]], "numbers"),
        ([0, None, 0], "None"),
        (np.zeros(2), r"\(2,\)"),
        (np.zeros((3, 1)), r"\(3, 1\)"),
        (1.0, r"\(\)"),
    ]:
        with pytest.raises(pp.errors.InputError, match=rf"(?s)^{what}\b.*{complaint}"):
            call(values)


@pytest.mark.parametrize("name", [name for name, (*_, keeps) in ARRAYS.items() if not keeps])
def test_imaginary_parts_are_not_dropped(name):
    call, what, _ = ARRAYS[name]
    with pytest.raises(pp.errors.InputError, match=f"^{what} .*complex"):
        call(O + 1j)


@pytest.mark.parametrize("name", [name for name in ARRAYS if name not in ONE_AT_A_TIME])
def test_empty_batches_and_single_precision(name):
    call = ARRAYS[name][0]
    empty = call(np.zeros((0, 3)))
    for x in _arrays(empty):
        assert x.shape[0] == 0
    start = (O if what_is_free(name) else Q).astype(np.float32)
    for x in _arrays(call(start)):
        assert x.dtype in (np.float64, bool)


def what_is_free(name: str) -> bool:
    """Loops need a closed configuration; elsewhere zeros do."""
    return ARRAYS[name][1] != "q" or name not in ("assemble", "project, q")


def _arrays(found):
    if isinstance(found, np.ndarray):
        return [found]
    if isinstance(found, tuple):
        return [a for x in found for a in _arrays(x)]
    return [x for x in getattr(found, "__dict__", {}).values() if isinstance(x, np.ndarray)]


def _at(*changes, time=0.1):
    return pp.topology.at(time, *changes)


REFUSED = {
    "length of a distance": (
        lambda: c.Distance(name="d", a="tip", b="world", length="a"), "length='a'"),
    "coefficients": (
        lambda: c.Coupling(name="g", joints=["joint1"], coefficients=["a"]), "must be real"),
    "complex coefficients": (
        lambda: c.Coupling(name="g", joints=["joint1"], coefficients=[1j]), "must be real numbers"),
    "complex rows": (
        lambda: c.Rows(name="r", points=["tip"], A=np.full((1, 6), 1j)), "A must be real"),
    "no constraints": (lambda: pp.System(ARM, None), "list of constraints"),
    "tolerance": (lambda: SYSTEM.assemble(Q, tolerance=np.nan), "tolerance=nan"),
    "tolerance of a projection": (lambda: SYSTEM.project(Q, O, tolerance=-1.0), "tolerance=-1.0"),
    "tolerance of a rank": (lambda: SYSTEM.mobility(Q, tolerance=0.0), "tolerance=0.0"),
    "iterations": (lambda: SYSTEM.assemble(Q, max_iterations=-1), "max_iterations=-1"),
    "restarts": (lambda: SYSTEM.assemble(Q, restarts=1.5), "restarts=1.5"),
    "derivatives of nothing": (lambda: pp.forward_dynamics_derivatives(3, Q, O, O), "not int"),
    "inverse dynamics of nothing": (
        lambda: pp.inverse_dynamics(3, Q, O, O, return_multipliers=True), "not int"),
    "joint of a graph": (lambda: pp.constraints.GraphJoint("j", 3, "world", "b"), "joint=3"),
    "body of a graph": (lambda: pp.System.from_graph({"a": 3}, []), "not a pp.SpatialInertia"),
    "derivative of a number": (lambda: pp.diff(3, "q"), "needs an operator expression, not 3"),
    "text": (lambda: pp.parse(3), "not int"),
    "proof on nothing": (lambda: pp.prove("H G", "arm"), "needs a model .*, not str"),
    "identify a model": (lambda: identify(ARM, *SAMPLES, EFFORTS), "base_parameters"),
    "noise": (lambda: identify(BASE, *SAMPLES, EFFORTS, noise=[1, 2]), r"noise has shape"),
    "noise of NaN": (lambda: identify(BASE, *SAMPLES, EFFORTS, noise=np.nan), "noise is nan"),
    "efforts of NaN": (lambda: identify(BASE, *SAMPLES, EFFORTS * np.nan), "tau is nan"),
    "load": (lambda: GRASP.distribute(HELD, np.full(6, np.nan)), "load is nan"),
    "complex load": (lambda: GRASP.distribute(HELD, np.full(6, 1j)), "load holds complex"),
    "contact forces": (lambda: GRASP.efforts(HELD, REST, REST, np.zeros(5)), "f has shape"),
    "contact forces of NaN": (
        lambda: GRASP.efforts(HELD, REST, REST, np.full(6, np.nan)), "f is nan"),
    "huge contact forces": (
        lambda: GRASP.check(HELD, REST, REST, f=np.full(6, 1e200)), "too large to compare"),
    "friction": (lambda: pp.grasping.Point("a", name="p", finger="a", object="b"), "friction='a'"),
    "grasp of nothing": (lambda: pp.grasping.Grasp(ARM, object=None, contacts=None), "object=None"),
    "events of a tree": (lambda: pp.topology.contact_events(ARM), "needs a pp.grasping.Grasp"),
    "time of an event": (lambda: _at(pp.topology.Lock("joint1"), time=np.nan), "time=nan"),
    "event without changes": (lambda: _at(), "needs changes"),
    "no change": (lambda: _at("Lock"), "takes changes"),
    "lock a number": (lambda: pp.topology.Lock(3), "Lock takes names"),
    "replace a number": (lambda: pp.topology.Replace(3), "out=3"),
    "cost": (
        lambda: pp.rollout_gradient(ARM, O, O, O, 0.1, 2, final=lambda q, v: 0.0),
        "two derivatives"),
    "cost of NaN": (
        lambda: pp.rollout_gradient(ARM, O, O, O, 0.1, 2, final=lambda q, v: (np.nan, None, v)),
        r"cost that final\(…\) returns is nan"),
    "running cost of NaN": (
        lambda: pp.rollout_gradient(
            ARM, O, O, O, 0.1, 2, running=lambda k, q, v, u: (0.0, None, v * np.nan, None)),
        r"derivative with respect to v that running\(…\) returns is nan"),
    "cost as text": (
        lambda: pp.rollout_gradient(ARM, O, O, O, 0.1, 2, final="v"), "is not a function"),
    "steps": (lambda: pp.rollout_gradient(ARM, O, O, O, 0.1, -2, final=_final), "steps=-2"),
    "step length": (lambda: pp.step_derivatives(ARM, O, O, O, np.nan), "dt=nan"),
    "frames of nothing": (lambda: pp.poses(None, O, ["tip"]), "not NoneType"),
    "sensitivity of nothing": (
        lambda: pp.sensitivities.mass_matrix_sensitivity(None, O), "not NoneType"),
    "points of nothing": (lambda: pp.operational_space_inertia(None, O, ["tip"]), "NoneType"),
    "path": (lambda: pp.load(3), "not int"),
    "model to write": (lambda: pp.save_urdf(SYSTEM, "a.urdf"), "system.model"),
    "gravity": (
        lambda: pp.compile(LOAD, ARM, inputs=["gravity"])(O, [0, 0, np.nan]),
        r"gravity is nan at index \[2\]"),
    "wrong input": (lambda: pp.vjp(mass_matrix.inv @ tau, ARM, "q")(O, O, O, w=O), "no input 'w'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_arguments(name):
    call, complaint = REFUSED[name]
    with pytest.raises(pp.errors.PhipsiError, match=complaint):
        call()


def test_nothing_at_all():
    """A system without bodies, and a batch without elements, are no errors."""
    nothing = pp.System.from_graph({}, [])
    assert nothing.residual([]).shape == (0,)
    assert nothing.mobility([]).mobility == 0
    assert SYSTEM.assemble(np.zeros((0, 3))).shape == (0, 3)
    assert pp.identification.kinetic_energy_regressor(ARM, np.zeros((0, 3)), O).shape == (0, 30)
    assert pp.identification.potential_energy_regressor(ARM, np.zeros((0, 3))).shape == (0, 30)


# ---- files ---------------------------------------------------------------------------------------

RUN = pp.simulate(ARM, O, O, 0.02, integrator="rk4", dt=0.01)
WRITERS = {
    "report": (lambda path: pp.report(RUN, path), ".html"),
    "live page": (lambda path: pp.live_page(ARM, path), ".html"),
    "render": (lambda path: pp.render(RUN, path), ".png"),
    "save": (RUN.save, ".npz"),
    "columns": (RUN.to_csv, ".csv"),
    "robot": (lambda path: pp.save_urdf(GRASP.model, path), ".urdf"),
    "unit": (lambda path: pp.export_fmu(ARM, path), ".fmu"),
}


BEAM = pp.FlexibleInertia.beam(1.0, 1.0, 1.0)


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".html", ".png", ".urdf", ".fmu", ".xyz", ""])
@pytest.mark.parametrize("name", [*WRITERS, "flexible body"])
def test_no_file_has_the_name_of_another_format(name, suffix, tmp_path):
    write, own = WRITERS[name] if name in WRITERS else (BEAM.save, ".npz")
    if suffix == own:
        return
    with pytest.raises(pp.errors.InputError, match=rf"x{suffix}") as found:
        write(tmp_path / f"x{suffix}")
    assert own in str(found.value) and not list(tmp_path.iterdir())
    if (name, suffix) == ("save", ".csv"):
        assert "run.to_csv(" in str(found.value)


@pytest.mark.filterwarnings("ignore::phipsi.errors.PhipsiWarning")
@pytest.mark.parametrize("name", WRITERS)
def test_files_that_cannot_be_written(name, tmp_path, monkeypatch):
    """The error names the file that was asked for, and the folder; nothing is left behind."""
    write, suffix = WRITERS[name]
    target = tmp_path / "none" / f"x{suffix}"
    with pytest.raises(pp.errors.InputError, match=r"no folder .*none\. .*mkdir -p ") as found:
        write(target)
    assert isinstance(found.value, FileNotFoundError) and str(found.value).startswith(str(target))
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(pp.errors.InputError, match="is a folder"):
        write(str(tmp_path / f"folder{suffix}"))
    for path in (3, b"x", None)[: 2 if name == "robot" else 3]:
        with pytest.raises(pp.errors.InputError, match="a path is a str"):
            write(path)
    with pytest.raises(pp.errors.InputError, match="NUL"):
        write(f"a\0b{suffix}")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(OSError, match="nothing can be written to the folder") as found:
        write(tmp_path / f"x{suffix}")
    assert isinstance(found.value, pp.errors.InputError)
    assert [x.name for x in tmp_path.iterdir()] == [f"folder{suffix}"]


def test_a_run_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz: file not found") as found:
        pp.Trajectory.load(tmp_path / "none.npz")
    assert isinstance(found.value, pp.errors.InputError)
    with pytest.raises(pp.errors.InputError, match="a path is a str"):
        pp.Trajectory.load(None)


# ---- arguments of the wrong kind -----------------------------------------------------------------

SIM = pp.Simulator(ARM)
CONTROL, LOCK = pp.control, pp.topology.Lock
WAYS = [O, O + 0.1]


@pp.law
def hold(q, kp):
    return -kp * q


def _simulate(**options):
    return pp.simulate(ARM, O, O, 0.1, **options)


WRONG = {
    "rollout from a list": (lambda: SIM.rollout([0, 0, 0], steps=3), r"sim\.initial_state\(q, v\)"),
    "rollout from nothing": (
        lambda: SIM.rollout(None, steps=3), r"not NoneType.*\n.*sim\.initial_state"),
    "step of an array": (lambda: SIM.step(O), r"not ndarray.*\n.*sim\.initial_state"),
    "gradient at an array": (lambda: SIM.gradient(O, cotangents={}), r"sim\.initial_state"),
    "another simulator": (
        lambda: SIM.step(pp.Simulator(ARM).initial_state()), "belongs to another simulator"),
    "title of a report": (lambda: RUN.to_html(title=3), "title=3 must be a string"),
    "title of a viewer": (lambda: pp.show(ARM, title=3, open=False, notebook=False), "title=3"),
    "live, number": (lambda: RUN.to_html(live=3), "live=3 must be the Simulator"),
    "live, text": (lambda: RUN.to_html(live="yes"), "live='yes' must be the Simulator"),
    "play": (lambda: pp.live_page(ARM, "x.html", play="maybe"), "play='maybe' must be True"),
    "gains": (lambda: CONTROL.PDGravity(ARM, O, kp="x", kd=1), "^kp holds"),
    "complex gains": (lambda: CONTROL.PDGravity(ARM, O, kp=1, kd=1j), "^kd holds complex"),
    "gains of computed torque": (lambda: CONTROL.ComputedTorque(ARM, O, "x", 1), "^kp holds"),
    "times of a path": (lambda: pp.control.JointPath(ARM, WAYS, ["a", 1]), "^times holds"),
    "time of a state": (lambda: RUN.at("a"), "^t='a' must be a finite number of seconds"),
    "times of states": (lambda: RUN.resample(["a"]), "^times holds"),
    "time of a picture": (lambda: pp.render(RUN, "x.png", time="a"), "^time='a' must be"),
    "pictures per second": (lambda: pp.render(RUN, "x.gif", fps="a"), "^fps='a' must be a pos"),
    "fixed joints": (lambda: SYSTEM.assemble(Q, fixed=3), r"fixed=\['joint1'\]"),
    "folders": (lambda: pp.load(__file__, package_dirs=3), "^package_dirs=3 must be a list"),
    "no folder": (lambda: pp.load(__file__, package_dirs="nope"), "^package_dirs: .*nope"),
    "no named folder": (lambda: pp.load(__file__, package_dirs={"a": "nope"}), "^package_dirs: "),
    "parameters": (
        lambda: SIM.initial_state(O, parameters=3), "^parameters=3 must be values by name"),
    "parameters of a page": (lambda: pp.live_page(ARM, "x.html", parameters=3), "^parameters=3"),
    "forces": (lambda: _simulate(forces=3), "^forces=3 must be a list"),
    "events": (lambda: _simulate(events=3), "^events=3 must be a list"),
    "topology": (lambda: _simulate(topology=3), "^topology=3 must be a list"),
    "joints of a plot": (lambda: RUN.plot(3), "^joints=3 must be a list"),
    "links as text": (lambda: pp.examples.planar_arm("a"), "^n='a' must be an integer"),
    "links below zero": (lambda: pp.examples.planar_arm(-1), "^n=-1 must be an integer"),
    "seed": (lambda: ARM.random_configuration("a"), "^seed='a' must be an integer"),
    "batch": (lambda: ARM.random_configuration(0, (-1,)), "^batch=-1 must be an integer"),
    "batch as text": (lambda: ARM.random_configuration(0, "a"), "^batch='a' must be an integer"),
    "tiny steps": (lambda: _simulate(dt=1e-320, integrator="rk4"), "^dt=1e-320 s is too small"),
    "stabilization of a tree": (lambda: _simulate(stabilization="x"), "^stabilization='x'"),
    "a law without a gain": (lambda: pp.Simulator(ARM, [hold]), r"Write  hold\.bind\(kp=…\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_arguments_of_the_wrong_kind(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, complaint = WRONG[name]
    with pytest.raises(pp.errors.PhipsiError, match=complaint):
        call()
    assert not list(tmp_path.iterdir())


# ---- the algebra ---------------------------------------------------------------------------------

_STEP = ("X_own", "motions -> forces")
ALGEBRA = {
    "subs, text": (lambda: M.subs("M"), r"x\.subs\(\{'vdot': 'v'\}\)"),
    "subs, number": (lambda: M.subs({3: "M"}), "subs needs an expression or a string"),
    "subs, by a number": (lambda: M.subs({"M": 3}), "subs needs an expression or a string"),
    "expand, no place": (lambda: mass_matrix.expand("mass_matrix", at=3.3), r"at=\(0, 1\)"),
    "expand, no path": (lambda: mass_matrix.expand("mass_matrix", at=3), r"at=\(3,\)"),
    "simplify": (lambda: pp.simplify(3), "simplify needs an expression or a string"),
    "parse, paper": (
        lambda: pp.parse("phi", notation=3),
        "notation=3 must be the short name of a paper, such as 'SOA'",
    ),
    "parse, own text": (lambda: pp.parse("phi", custom="C"), r"custom=\[C\]"),
    "parse, own number": (lambda: pp.parse("phi", custom=3), r"custom=\[C\]"),
    "parse, own numbers": (lambda: pp.parse("phi", custom=[3]), r"custom=\[C\]"),
    "parse, equation": (lambda: pp.parse("H G = I"), r'pp\.prove\("H G = I"\).*pp\.Identity\("H G'),
    "text": (lambda: phi.text("unicode"), "'greek', 'ascii', 'latex'"),
    "Identity": (lambda: pp.Identity("H", "H", 3), "a condition is a str"),
    "prove, any efforts": (
        lambda: pp.prove("phi = psi", ARM, any_efforts=True),
        r"pp\.prove\(identity, any_efforts=True",
    ),
    **{
        f"prove, seed {seed}": (
            lambda seed=seed: pp.prove("phi = psi", seed=seed),
            "must be a nonnegative integer, such as seed=0",
        )
        for seed in (-1, "a", 1.5, None, True)
    },
    "dense, list": (lambda: pp.evaluate_dense("M", ARM, O, inputs=["M"]), "inputs={'M': array}"),
    "dense, number": (lambda: pp.evaluate_dense("M", ARM, O, inputs={3: 1}), "inputs={'M': array}"),
    "vjp": (lambda: pp.vjp(LOAD, ARM, 3), r"pp\.vjp\(expr, model, \('q', 'v'\)\)"),
    "recursion": (lambda: pp.custom.operator(*_STEP, recursion=3), "recursion=lambda X_own: "),
    "recursion of nothing": (
        lambda: pp.custom.operator(*_STEP, recursion=lambda: M),
        "of one argument",
    ),
    "latex": (lambda: pp.custom.operator(*_STEP, 1.0, latex=3), "latex=3 must be a str"),
}


@pytest.mark.parametrize("name", ALGEBRA)
def test_the_algebra_rejects_arguments_of_the_wrong_kind(name):
    call, message = ALGEBRA[name]
    with pytest.raises(pp.errors.PhipsiError, match=message):
        call()


def test_an_error_in_a_recursion_stays_what_it_is():
    def wrong(X):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="^mine$"):
        pp.custom.operator(*_STEP, recursion=wrong)


# ---- numbers that are not real -------------------------------------------------------------------


@pp.law
def _hold(q, k):
    return -k * q


SIM = pp.Simulator(ARM, [_hold.bind(k=1.0)], dt=1e-3)
TAKERS = {
    "efforts": lambda f: SIM.step(SIM.initial_state(O), f(O)),
    "times": lambda f: pp.simulate(ARM, O, O, 0.01, output_times=f([0.0, 0.01])),
    "controller": lambda f: pp.simulate(ARM, O, O, 0.01, controller=lambda t, q, v: f(q)),
    "sampled": lambda f: pp.simulate(ARM, O, O, 0.01, controller=lambda t, q, v: f(q), rate=1e3),
    "prescribed": lambda f: pp.simulate(
        ARM, O, O, 0.01, prescribed={"joint1": lambda t, q, v: f([0.0])}
    ),
    "event": lambda f: pp.simulate(
        ARM, O, O, 0.01, events=[pp.Event(lambda t, q, v: f(q)[0] + 1.0)]
    ),
    "quadrature": lambda f: pp.simulate(
        ARM, O, O, 0.01, quadratures={"x": lambda t, q, v: f(q)[0]}
    ),
    "table": lambda f: pp.laws.table(f([0.5, 0.6]), [0, 1], [1, 2]),
    "numbers of a table": lambda f: pp.laws.table(0.5, f([0, 1]), [1, 2]),
    "bound": lambda f: _hold.bind(k=f(O)),
    "first value": lambda f: pp.law(lambda q, x: {"tau": q, "x": x}, states={"x": f(O)}),
    "previous": lambda f: pp.Simulator(
        ARM, [_hold.bind(k=pp.signals.previous("_hold", "tau", initial=f(O)))]
    ),
    "q of a controller": lambda f: pp.control.PDGravity(ARM, O, 1, 1)(0.0, f(O), O),
    "v of a controller": lambda f: pp.control.ComputedTorque(ARM, O, 1, 1)(0.0, O, f(O)),
    "frame": lambda f: pp.control.OperationalSpace(
        ARM, "tip", (1.0, 1.0, 0), 1, 1, components=(4,)
    )(0.0, f(O), O),
    "saturated": lambda f: pp.control.Saturated(lambda t, q, v: f(q), ARM, efforts=5.0)(0.0, O, O),
}


def _masked(x):
    return np.ma.masked_array(np.array(x, float), mask=[True] + [False] * (np.size(x) - 1))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", TAKERS)
def test_imaginary_parts_and_masks_are_not_dropped(name):
    TAKERS[name](np.asarray)
    with pytest.raises(pp.errors.PhipsiError):
        TAKERS[name](lambda x: np.asarray(x) + 1j)
    with pytest.raises(pp.errors.PhipsiError):
        TAKERS[name](_masked)
