"""What `compare.py` times: rows that can be built with several versions of the library.

A row is a name and forms: functions of a `World` that return a call without arguments. The first
form that this version of the library can run is used, so that a row outlives the renaming of a
function or the reordering of its arguments: write the new form above the old one.

Run with ``--worker``, this file takes commands from `compare.py`, one line of JSON each.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, reduce
from typing import Any

import numpy as np

Call = Callable[[], Any]
Form = Callable[["World"], Call]

BATCH, MANY = 256, 4096  # states in a batch of derivatives or loops, and of plain functions
DT, STEPS = 1e-4, 50


class World:
    """Robots, states and systems, made when a row first asks for them."""

    def __init__(self) -> None:
        import phipsi as pp
        from phipsi import operators

        warnings.simplefilter("ignore")
        self.pp, self.ops = pp, operators

    @cache  # noqa: B019  one world per process
    def _found(self, name: str) -> tuple[Any, Any]:
        """A mechanism and a configuration at which its loops are closed, or none."""
        import closed_systems
        import robots

        if name == "platform":
            return closed_systems.platform()
        if name == "four-bars":
            system, q = closed_systems.four_bars(10, True)
            for i in range(10):  # older versions of that file leave the loops open
                q[_tree(system).q_slice(f"c{i}")] = 1.0 + np.pi
            return system, q
        if name.startswith("standing "):
            return closed_systems.standing(name.removeprefix("standing "))
        return (robots.load_robot(name) if name in robots.ROBOTS else robots.chain(100)), None

    @cache  # noqa: B019
    def _states(self, name: str) -> Any:
        """Random states; with loops, many of the closed one, at rest."""
        import robots

        mechanism, q = self._found(name)
        states = robots.States(_tree(mechanism), MANY if q is None else BATCH)
        if q is not None:
            states.q[:], states.v[:] = q, 0.0
        return states

    def robot(self, name: str) -> Any:
        """The mechanism."""
        return self._found(name)[0]

    def args(self, name: str, inputs: str, size: int | None) -> list[np.ndarray]:
        """Some of q, v, vdot, tau: of one state, or of so many."""
        found = [getattr(self._states(name), x) for x in inputs.split()]
        return [a[0].copy() if size is None else np.ascontiguousarray(a[:size]) for a in found]


def _tree(mechanism: Any) -> Any:
    return getattr(mechanism, "model", mechanism)


# ---- the table -----------------------------------------------------------------------------------

ROWS: dict[str, list[Form]] = {}
FRESH: dict[str, str] = {}  # rows that need a new process for every reading, as program text

ONE, FEW = None, (None, BATCH)
BOTH = (None, MANY)
FEET = ["left_ankle_roll_link", "right_ankle_roll_link"]

# name, functions that may have it, inputs, robots, sizes, options
NAMED = (
    ("forward dynamics", ("forward_dynamics",), "q v tau", ("UR5", "G1"), BOTH, {}),
    ("inverse dynamics", ("inverse_dynamics",), "q v vdot", ("UR5", "G1"), BOTH, {}),
    ("mass matrix", ("mass_matrix",), "q", ("UR5", "G1"), BOTH, {}),
    ("inverse mass matrix", ("mass_matrix_inverse",), "q", ("UR5", "G1"), BOTH, {}),
    ("mass matrix", ("mass_matrix",), "q", ("Talos",), (MANY,), {}),
    ("inverse mass matrix", ("mass_matrix_inverse",), "q", ("Talos",), (MANY,), {}),
    ("body poses", ("poses",), "q", ("G1",), BOTH, {}),
    ("Jacobian of two feet", ("jacobian",), "q", ("G1",), BOTH, {"points": FEET}),
    ("kinetic energy", ("kinetic_energy",), "q v", ("G1",), BOTH, {}),
    ("forward dynamics", ("forward_dynamics",), "q v tau", ("chain of 100",), (ONE,), {}),
    ("mass matrix", ("mass_matrix",), "q", ("chain of 100",), (ONE,), {}),
    ("derivatives of forward dynamics", ("forward_dynamics_derivatives",), "q v tau",
     ("UR5", "G1"), FEW, {}),
    ("derivatives of inverse dynamics", ("inverse_dynamics_derivatives",), "q v vdot",
     ("UR5", "G1"), FEW, {}),
    ("regressor", ("identification.regressor", "regressor"), "q v vdot", ("G1",), FEW, {}),
    ("derivatives of a step", ("step_derivatives",), "q v tau", ("UR5",), (ONE,), {"dt": DT}),
    # with loops
    ("forward dynamics", ("forward_dynamics",), "q v tau",
     ("standing G1", "platform", "four-bars"), FEW, {}),
    ("A Λ A*", ("delassus_matrix",), "q", ("standing G1",), FEW, {}),
    ("derivatives of forward dynamics",
     ("forward_dynamics_derivatives", "constrained_dynamics_derivatives"), "q v tau",
     ("platform",), (ONE,), {}),
)  # fmt: skip


def row(name: str, *forms: Form) -> None:
    """A row with forms for newer and older versions, the newest first."""
    ROWS[name] = list(forms)


def title(what: str, robot: str, size: int | None) -> str:
    """The name of a row."""
    return f"{robot}: {what}" if size is None else f"{robot}, {size}: {what}"


def _call(w: World, names: tuple[str, ...], *args: Any, **options: Any) -> Call:
    """A call of the function that has one of these names here."""
    found = (reduce(lambda x, n: getattr(x, n, None), name.split("."), w.pp) for name in names)
    function = next((f for f in found if f is not None), None)
    if function is None:
        raise AttributeError(f"phipsi has none of {names}")
    return lambda: function(*args, **options)


for _what, _names, _inputs, _robots, _sizes, _options in NAMED:
    for _r, _n in ((r, n) for r in _robots for n in _sizes):
        row(
            title(_what, _r, _n),
            lambda w, names=_names, r=_r, n=_n, inputs=_inputs, options=_options: _call(
                w, names, w.robot(r), *w.args(r, inputs, n), **options
            ),
        )


# ---- memory that is there ------------------------------------------------------------------------


def _into_by_name(w: World, r: str, name: str) -> Call:
    model, (q,) = w.robot(r), w.args(r, "q", MANY)
    return _call(w, (name,), model, q, out=np.empty((MANY, model.nv, model.nv)))


def _into_by_program(w: World, r: str, expr: Any) -> Call:
    model, (q,) = w.robot(r), w.args(r, "q", MANY)
    program = w.pp.compile(expr, model, mode="dense", backend="native")
    out = np.empty((MANY, model.nv, model.nv))
    return lambda: program(q, out=out)


for _r in ("G1", "Talos"):
    row(
        title("mass matrix, out=", _r, MANY),
        lambda w, r=_r: _into_by_name(w, r, "mass_matrix"),
        lambda w, r=_r: _into_by_program(w, r, w.ops.mass_matrix),
    )
    row(
        title("inverse mass matrix, out=", _r, MANY),
        lambda w, r=_r: _into_by_name(w, r, "mass_matrix_inverse"),
        lambda w, r=_r: _into_by_program(w, r, w.ops.mass_matrix.inv),
    )


# ---- motions -------------------------------------------------------------------------------------


def _start(w: World, r: str, size: int | None) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """A mechanism, a slow motion of it, and no efforts."""
    q, v = w.args(r, "q v", size)
    return w.robot(r), q, 0.1 * v, np.zeros(v.shape[-1])


def _named(w: World, **words: Any) -> dict[str, Any]:
    """Arguments and their values under the names that this version has, see decision 0075."""
    if hasattr(w.pp.Simulator, "initial_state"):
        return words
    before = {"record_every": "every", "cotangents": "of"}
    named = {before.get(name, name): value for name, value in words.items()}
    return named | ({"on_error": "return"} if "on_error" in words else {})


def _begin(w: World, sim: Any, *state: Any) -> Any:
    """The state of a simulator, by the method that makes it in this version."""
    named = hasattr(w.pp.Simulator, "initial_state")
    return sim.initial_state(*state) if named else sim.start(*state)


def _rolling(w: World, r: str, size: int | None, method: str) -> Call:
    start, options = _start(w, r, size), _named(w, record_every=STEPS)
    return _call(w, ("rollout",), *start, DT, STEPS, integrator=method, **options)


def _simulated(w: World, r: str, method: str) -> Call:
    *start, _ = _start(w, r, None)
    end = STEPS * DT
    options = {"integrator": method, "dt": DT, "output_times": [end]}
    return _call(w, ("simulate",), *start, end, **options)


def _gradient(w: World, r: str) -> Call:
    def final(q: np.ndarray, v: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        return float(q @ q), 2 * q, 0 * v

    return _call(w, ("rollout_gradient",), *_start(w, r, None), DT, STEPS, final=final)


for _r, _n, _method in (
    ("UR5", None, "rk4"), ("G1", None, "semi_implicit"), ("G1", BATCH, "semi_implicit"),
    ("G1", BATCH, "rk4"), ("platform", None, "rk4"), ("four-bars", None, "rk4"),
    ("four-bars", 16, "rk4"),
):  # fmt: skip
    row(
        title(f"rollout, {STEPS} steps of {_method}", _r, _n),
        lambda w, r=_r, n=_n, m=_method: _rolling(w, r, n, m),
    )
for _r in ("UR5", "G1", "four-bars"):
    row(
        title(f"simulate, {STEPS} steps of rk4", _r, None),
        lambda w, r=_r: _simulated(w, r, "rk4"),
    )
row(title(f"gradient of {STEPS} steps of rk4", "UR5", None), lambda w: _gradient(w, "UR5"))


# ---- simulators, searches -------------------------------------------------------------------------


def _sinking(q: Any, v: Any, kp: Any, kd: Any) -> Any:
    """A law on all joints, with parameters."""
    return -kp * np.sin(q) - kd * v


def _simulator(w: World, integrator: str) -> tuple[Any, Any]:
    """A UR5 with a law, a spring and a damper, and many initial states."""
    pp, model = w.pp, w.robot("UR5")
    laws = [
        pp.law(_sinking).on(list(model.joint_names)).bind(kp=5.0, kd=0.5),
        pp.forces.JointSpring(None, 3.0), pp.forces.JointDamper(None, 0.2),
    ]  # fmt: skip
    sim = pp.Simulator(model, laws, 1e-3, integrator=integrator)
    return sim, _begin(w, sim, *w.args("UR5", "q v", BATCH))


def _run(w: World, integrator: str) -> Call:
    sim, start = _simulator(w, integrator)
    options = _named(w, record_every=STEPS)
    return lambda: sim.rollout(start, steps=STEPS, **options)


def _run_gradient(w: World) -> Call:
    sim, start = _simulator(w, "semi_implicit")
    weights = np.ones((BATCH, 2, w.robot("UR5").nq))
    options = _named(w, record_every=STEPS, cotangents={"q": weights})
    return lambda: sim.gradient(start, steps=STEPS, **options).v


@cache
def _touching(w: World) -> tuple[Any, Any, Any]:
    """Balls and boxes that land beside and on each other."""
    pp = w.pp
    builder = pp.ModelBuilder()
    for i in range(4):
        ball = i % 2
        inertia = (
            pp.SpatialInertia.sphere(0.1, mass=1.0) if ball
            else pp.SpatialInertia.box((0.2, 0.2, 0.2), mass=1.0)
        )  # fmt: skip
        shape = pp.shapes.Sphere(0.1) if ball else pp.shapes.Box((0.2, 0.2, 0.2))
        builder.add_body(f"b{i}", joint=pp.joints.Free(), inertia=inertia)
        builder.add_shape(f"s{i}", f"b{i}", shape)
    model = builder.build()
    contacts = pp.Contacts(model, ground=True, material=pp.Material(0.5))
    sim = pp.Simulator(pp.System(model, contacts=contacts), dt=2e-3, integrator="time_stepping")
    rng = np.random.default_rng(0)
    q = np.tile(model.neutral(), (32, 1))
    q[:, 4::7] = 0.05 * rng.standard_normal((32, 4))
    q[:, 6::7] = 0.101 + 0.21 * np.arange(4)
    v = 0.3 * rng.standard_normal((32, model.nv))
    start = _begin(w, sim, q, v)
    return sim, start, sim.rollout(start, steps=200, **_named(w, record_every=200)).state


def _landing(w: World) -> Call:
    sim, start, _ = _touching(w)
    options = _named(w, record_every=STEPS)
    return lambda: sim.rollout(start, steps=STEPS, **options)


def _lying(w: World) -> Call:
    sim, _, settled = _touching(w)
    options = _named(w, record_every=STEPS)
    return lambda: sim.rollout(settled, steps=STEPS, **options)


def _lying_beside_failed(w: World) -> Call:
    """One trajectory of every eight has failed: it should not hold up its neighbours."""
    sim, _, settled = _touching(w)
    state = settled.copy()
    state.status[::8], state.failed_at[::8] = 1, 0
    options = _named(w, record_every=STEPS, on_error="best")
    return lambda: sim.rollout(state, steps=STEPS, **options).q[1::8]


def _landing_gradient(w: World) -> Call:
    sim, start, _ = _touching(w)
    weights = np.ones((32, 2, start.q.shape[-1]))
    options = _named(w, record_every=10, cotangents={"q": weights})
    return lambda: sim.gradient(start, steps=10, **options).v


def _reaching(w: World, rest: bool, many: bool) -> Call:
    pp, model = w.pp, w.robot("UR5")
    (q,) = w.args("UR5", "q", BATCH)
    last = model.body_names[-1]
    options: dict[str, Any] = {"rest": model.neutral()} if rest else {}
    goals, start = pp.poses(model, q, [last])[:, 0], q + 0.1
    if not many:
        goals, start = goals[0], start[0]
    options |= _named(w, on_error="best")
    return lambda: pp.inverse_kinematics(model, {last: goals}, start, **options).q


for _method in ("semi_implicit", "implicit_damping", "implicit_midpoint", "variational"):
    row(
        title(f"Simulator with laws, {STEPS} steps of {_method}", "UR5", BATCH),
        lambda w, m=_method: _run(w, m),
    )
row(title(f"Simulator with laws, gradient of {STEPS} steps", "UR5", BATCH), _run_gradient)
row(f"balls and boxes 32: contact, {STEPS} steps, landing", _landing)
row(f"balls and boxes 32: contact, {STEPS} steps, lying", _lying)
row(f"balls and boxes 32: contact, {STEPS} steps beside failed ones", _lying_beside_failed)
row("balls and boxes 32: contact, gradient of 10 steps", _landing_gradient)
row(title("inverse kinematics", "UR5", None), lambda w: _reaching(w, False, False))
row(title("inverse kinematics", "UR5", BATCH), lambda w: _reaching(w, False, True))
row(
    title("inverse kinematics with a rest posture", "UR5", None),
    lambda w: _reaching(w, True, False),
)


# ---- new processes -------------------------------------------------------------------------------

# Their last line is a number of seconds.
_CLOCK = "import time, warnings; warnings.simplefilter('ignore'); clock = time.process_time\n"
_COMPILED = """
import robots, phipsi as pp
from phipsi import operators as ops
pp.compile(ops.H @ ops.f_ext, robots.chain(1), backend="native")([0.0], [[0.0] * 6])
model = robots.load_robot("G1")
s = robots.States(model, 1)
start = clock()
pp.{use}
print(clock() - start)
"""
for _what, _use in (
    ("forward dynamics", "forward_dynamics(model, s.q[0], s.v[0], s.tau[0])"),
    ("inverse mass matrix", "mass_matrix_inverse(model, s.q[0])"),
    ("derivatives", "forward_dynamics_derivatives(model, s.q[0], s.v[0], s.tau[0])"),
):
    FRESH[f"compile G1: {_what}"] = _CLOCK + _COMPILED.format(use=_use)

_STARTED = """
import sysconfig
share = sysconfig.get_paths()["purelib"] + "/cmeel.prefix/share/example-robot-data/robots/"
start = clock()
import phipsi as pp
{use}
print(clock() - start)
"""
_ARM = "pp.forward_dynamics(pp.examples.seven_joint_arm(), *[7 * [0.0]] * 3)"
for _what, _use in (
    ("import", ""),
    ("import and the first forward dynamics", _ARM),
    ("import and load a URDF", 'pp.load(share + "panda_description/urdf/panda.urdf")'),
):
    FRESH[f"process: {_what}"] = _CLOCK + _STARTED.format(use=_use)


# ---- the worker ----------------------------------------------------------------------------------


def numbers(x: Any) -> np.ndarray:
    """All numbers of a result, one after the other: arrays, tuples, trajectories."""
    if x is None:
        return np.zeros(0)
    if hasattr(x, "q") and hasattr(x, "v") and not isinstance(x, tuple):
        return np.concatenate([numbers(x.q), numbers(x.v)])
    if isinstance(x, tuple | list):
        return np.concatenate([numbers(y) for y in x] or [np.zeros(0)])
    if isinstance(x, np.ndarray | float | int):
        return np.asarray(x, float).ravel()
    return numbers([v for k, v in sorted(vars(x).items()) if not k.startswith("_")])


def prepared(world: World, forms: list[Form]) -> tuple[Call, list[float]]:
    """The first form that runs here, and a few numbers of its answer."""
    for form in forms[:-1]:
        try:
            call = form(world)
            return call, _few(call())
        except Exception:  # this version has it under another name: the next form
            continue
    call = forms[-1](world)
    return call, _few(call())


def _few(x: Any) -> list[float]:
    found = numbers(x)
    kept = found[np.linspace(0, len(found) - 1, min(len(found), 500)).astype(int)]
    return [len(found), *kept.tolist()]


def seconds(call: Call, count: int) -> float:
    """Processor time of `count` calls."""
    start = time.process_time()
    for _ in range(count):
        call()
    return time.process_time() - start


def calls_in(call: Call, target: float) -> int:
    """How many calls take about `target` seconds."""
    call()
    count = 1
    while (took := seconds(call, count)) < target / 4 and count < 1_000_000:
        count *= 4
    return max(1, round(count * target / max(took, 1e-9)))


def work(target: float = 0.008) -> None:
    """Answer commands until the input ends."""
    world, calls = World(), {}
    for line in sys.stdin:
        command = json.loads(line)
        name = command["row"]
        try:
            if "count" in command:
                answer = {"seconds": seconds(calls[name], command["count"]) / command["count"]}
            else:
                calls[name], few = prepared(world, ROWS[name])
                answer = {"answer": few, "count": calls_in(calls[name], target)}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}".splitlines()[0][:200]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    work()
