"""`pp.live_page`: a mechanism on a page with its physics inside, as one WebAssembly module.

Functions of the module, each a run (run_code.py) written with one lane:

    run      steps of the simulator as it is, bitwise as ``Simulator(…, reproducible=True)``
    live     the same with handles: the drag force, gravity, damping, masses
    look     poses of the bodies and energies
    blocks   P, D and G of the articulated bodies; of bodies that deform, what live_modes.py says
    close    the state on the constraints nearest to this one, of a system with loops
    touch    where bodies touch, and the forces there in the last step, of a system with contacts

They share one row of memory: a quantity has one place in it, whichever functions read it.

Reasons: docs/decisions/0051.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import KINETIC_ENERGY, System
from phipsi.codegen import PlanWriter, exported_module, target_named, wasm_module
from phipsi.contact import IMPULSES
from phipsi.core.arrays import Node, Tracer, as_node, in_order, law_operations as ops
from phipsi.core.backends import STATUS_WORDS
from phipsi.core.compiler import compile
from phipsi.core.model import Model, entry_names, mechanism_of, reject_compound, supports
from phipsi.core.operators import D, G, Jr, P, V, pose
from phipsi.errors import InputError, PhipsiError, counted, true_or_false
from phipsi.laws import BlockDiagram, Law, law
from phipsi.native import kept_object
from phipsi.pages.html_file import PageParts, packed, page_html, page_title
from phipsi.pages.live_modes import (
    HAND,
    admittance,
    energies_of_modes,
    hand_on_modes,
    integrator_of_modes,
    joint_inertias,
    modal_places,
    modal_reach,
)
from phipsi.pages.scene import first_configuration, scene_of_any_motion
from phipsi.simulation import (
    INERTIA,
    ContactSteps,
    RunProgram,
    Simulator,
    SimulatorState,
    Trajectory,
)
from phipsi.support import atomic_write_text, checked_page

Array = NDArray[Any]
_STEP = 1e-3  # s, of a mechanism that comes without a simulator
_MOST_STATES = 2000  # of a recording, from which it can go on
SCRIPTS = ("physics.js", "live.js")
CONTROLS = """<div id="live-controls" class="live-controls">
<button id="live-play" aria-label="play">▶</button>
<button id="once" title="advance by one time step">step</button>
<button id="again" title="reset state, model and parameters">reset</button>
<select id="live-speed" aria-label="speed">
<option value="0.02">1/50</option><option value="0.1">1/10</option><option value="0.25">1/4</option>
<option value="0.5">1/2</option><option value="1" selected>real time</option>
<option value="2">2 ×</option><option value="5">5 ×</option></select>
{}<button id="live-force" data-shows="forces" hidden>forces</button>
<span id="live-clock"></span>
<span id="pace" title="time to compute the physics of one frame"></span></div>"""
RETURN = '<button id="return" title="back to the recording">recording</button>'
PANEL = '<aside id="live" aria-label="joints, model and parameters"></aside>'
DAMPING = "live_damping"
"""The name of a law that a page adds, as HAND is."""
_COUNTER = "step"
_TURNING = ("revolute", "universal")
_HANDLES = (("gravity", INERTIA), ("gravity",), ())  # quantities that a page changes, most first


@supports(loops=True, contacts=True, flexible=True, rotors=True)
def live_page(
    simulator: Simulator | Model,
    path: str | os.PathLike[str],
    *,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    parameters: Mapping[str, ArrayLike] | None = None,
    title: str | None = None,
    play: bool | None = None,
    meshes: bool = True,
) -> Path:
    """Write a standalone HTML page that simulates the mechanism in the browser.

    The file needs no server, no Python and no network. Sliders set the joints. Dragging a body
    applies a spring force while the simulation runs, and moves the body by inverse kinematics while
    it is paused. Gravity, damping, masses and parameters of controllers and forces can be changed
    while it runs. Closed loops and contacts are simulated as in Python.

    As long as nothing is changed, the state is bitwise identical to that of
    ``Simulator(…, reproducible=True)``.

    Parameters
    ----------
    simulator : Simulator or Model
        A `Simulator` with its controllers, forces, step and integrator. Or a model or a `System`,
        which is simulated without controllers in steps of 1 ms, and paused at first.
    path : str or path-like
        The file to write; its name ends in .html.
    q : array_like, shape (nq,), optional
        The first configuration. Default: the neutral one, or one that closes the loops.
    v : array_like, shape (nv,), optional
        The first velocities. Default: at rest, or as motors prescribe them.
    parameters : mapping of str to array_like, optional
        Values of parameters of laws, and of what the simulator's `per_trajectory` names, as for
        `Simulator.initial_state`.
    title : str, optional
        Title of the page. Default: the name of the robot, or else that of the file.
    play : bool, optional
        Whether the simulation runs when the page opens. Default: True for a `Simulator`, False for
        a model.
    meshes : bool, optional
        Draw the meshes of the robot's file. Default: True.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    InputError
        If the simulator has episodes, or if the state is a batch.

    See Also
    --------
    report : A page that plays a recorded trajectory.
    show : A viewer that Python moves.

    Notes
    -----
    **Cost:** LLVM compiles two steps: one second for an arm, five for a humanoid, ten with
    contacts. The file has about 1 MB, and the meshes. Reasons: docs/decisions/0051.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import phipsi as pp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = pp.live_page(pp.examples.planar_arm(2), pathlib.Path(folder) / "arm.html")
    ...     page.name, "https://" in page.read_text()
    ('arm.html', False)
    """
    target = checked_page(path)
    given = isinstance(simulator, Simulator)
    mechanism: Any = simulator.model if given else simulator
    reject_compound(getattr(getattr(mechanism, "description", None), "bodies", ()), "live_page")
    moves = given if play is None else true_or_false("play", play, "True, False or None")
    whole = simulator if given else simulator_of(simulator)
    parts = live_parts(whole, q, v, parameters, play=moves, meshes=meshes)
    return atomic_write_text(target, page_html(page_title(title, whole.model, target), parts))


def simulator_of(mechanism: Any) -> Simulator:
    """The simulator of a mechanism on which nothing acts but gravity and contacts."""
    whole = mechanism_of(mechanism, live_page)
    integrator = "time_stepping" if whole.contact_pairs is not None else "rk4"
    if integrator == "rk4" and whole.is_flexible:
        integrator = integrator_of_modes(whole.model, _STEP)
    return Simulator(whole, dt=_STEP, integrator=integrator, reproducible=True)


def live_parts(
    simulator: Simulator,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    parameters: Mapping[str, ArrayLike] | None = None,
    *,
    play: bool = True,
    meshes: bool = True,
) -> PageParts:
    """The parts of a live page, see `page_html`."""
    whole = simulator.compiled.mechanism
    places = first_configuration(whole) if q is None else q
    if v is None:
        v = _driven_rates(whole, places)
    state = simulator.initial_state(places, v, parameters=parameters)
    physics = live_physics(simulator, state)
    model = simulator.model
    laws = simulator.laws if isinstance(simulator.laws, tuple) else (simulator.laws,)
    scene = scene_of_any_motion(whole, state.q, meshes=meshes, forces=laws)
    mass = sum(inertia.mass for inertia in model.inertias)
    free = whole.mobility(state.q).mobility if isinstance(whole, System) else model.nv
    degrees = counted(free, "degree")
    sizes = f"{counted(model.n_bodies, 'body')}, {degrees} of freedom, {mass:.4g} kg"
    return {
        "subtitle": f"{sizes}; {simulator.integrator}, steps of {1e3 * simulator.dt:g} ms",
        "data": {"scene": scene, "live": {"physics": physics.description(), "play": play}},
        "scripts": SCRIPTS,
        "styles": ("live.css",),
        "controls": CONTROLS.format(""),
        "body": PANEL,
        "footer": "This page simulates the mechanism in the browser, by WebAssembly. Drag a body.",
        "binaries": {"physics": physics.binary},
        "wasm": True,
    }


def _driven_rates(mechanism: Any, q: ArrayLike) -> Array | None:
    """The least rates (nv,) at which motors and clocks turn as they say; None without them."""
    if not isinstance(mechanism, System) or not np.any(mechanism.rates):
        return None
    return mechanism.project(q, np.zeros(mechanism.nv))[1]


def continued(parts: PageParts, trajectory: Trajectory, simulator: Simulator | None) -> PageParts:
    """The parts of a recording's page, with a button that goes on live from what is shown.

    Without a simulator nothing but gravity acts from there on.
    """
    own = trajectory.system or trajectory.model
    if simulator is None and trajectory.has_contacts:
        raise InputError(
            "live=True does not account for the contacts of this trajectory. Pass its simulator:  "
            "live=sim"
        )
    if simulator is None:
        simulator = simulator_of(own)
    elif simulator.model != trajectory.model:
        raise InputError(
            "live= is a simulator of another mechanism than that of the trajectory. Pass the "
            "simulator that computed it:  live=sim"
        )
    keep = np.unique(np.linspace(0, len(trajectory) - 1, _MOST_STATES).astype(int))
    t, q, v = (np.asarray(x)[keep] for x in (trajectory.t, trajectory.q, trajectory.v))
    physics = live_physics(simulator, simulator.initial_state(q[0], v[0], t=float(t[0])))
    record = {"times": packed(t, "<f8"), "q": packed(q, "<f8"), "v": packed(v, "<f8")}
    live = {"physics": physics.description(), "play": False, "record": record}
    hint = "simulate from the state shown"
    button = f'<button id="continue" title="{hint}">continue from here</button>'
    transport = f'<div id="recorded-controls">{parts.get("controls", "")}{button}</div>'
    return {
        **parts,
        "data": {**parts.get("data", {}), "live": live},
        "scripts": [*parts.get("scripts", ()), *SCRIPTS],
        "styles": [*parts.get("styles", ()), "live.css"],
        "controls": transport + CONTROLS.format(RETURN),
        "body": PANEL + parts.get("body", ""),
        "binaries": {"physics": physics.binary},
        "wasm": True,
    }


# ---- its physics ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class WasmFunction:
    """A function of the module: the names that it is exported by, and its arrays in order."""

    step: str
    rollout: str
    arrays: tuple[str, ...]


@final
@dataclass(frozen=True, eq=False)
class LivePhysics:
    """A module, where its quantities are, and their first values.

    **Attributes:** `simulator`, as it was given; `binary`, the module; `functions` by name;
    `places`, address and count of every quantity; `work`, the address of the work memory; `first`,
    values by quantity; `states`, the quantities that a step changes; `handles`, what the page may
    change besides parameters of laws; `parameters` of laws, by name.
    """

    simulator: Simulator
    binary: bytes
    functions: Mapping[str, WasmFunction]
    places: Mapping[str, tuple[int, int]]
    work: int
    first: Mapping[str, Array]
    states: tuple[str, ...]
    handles: tuple[str, ...]
    parameters: tuple[str, ...]

    def description(self) -> dict[str, Any]:
        """All but the module, for JSON."""
        model, contacts = self.simulator.model, self.simulator.compiled.mechanism.contact_pairs
        return {
            "dt": self.simulator.dt,
            "integrator": self.simulator.integrator,
            "bodies": list(model.body_names),
            "v": [[at.start, at.stop] for at in model.v_slices],
            "coordinates": coordinates(model),
            "modes": modal_places(model),
            "moreRows": model.has_more_rows,
            "statuses": {str(code): text for code, text in STATUS_WORDS.items()},
            "functions": {n: vars(f) for n, f in self.functions.items()},
            "places": self.places,
            "work": self.work,
            "first": {n: packed(x, "<f8") for n, x in self.first.items()},
            "states": self.states,
            "handles": self.handles,
            "parameters": self.parameters,
            "entries": {n: x for n in self.parameters if (x := self._entries(n))},
            "fixed": {n: x for n in self.parameters if (x := self._fixed(n))},
            "contacts": () if contacts is None else contacts.slot_names,
        }

    def _fixed(self, parameter: str) -> list[int]:
        """The entries of a parameter that no run can change."""
        return np.flatnonzero(self.simulator.compiled.fixed_entries(parameter)).tolist()

    def _entries(self, parameter: str) -> list[str]:
        """Whose the entries of a parameter are: as many as rates, joints or coordinates, or [].

        Three numbers are left alone, which may as well be a vector.
        """
        model, shape = self.simulator.model, self.first[parameter].shape
        named = [
            entry_names(model, model.v_slices),
            list(model.joint_names),
            entry_names(model, model.q_slices),
        ]
        fits = [names for names in named if shape == (len(names),) and shape[0] not in (1, 3)]
        return fits[0] if fits else []


def live_physics(
    simulator: Simulator, state: SimulatorState, target: str = "wasm32"
) -> LivePhysics:
    """The module of a simulator that starts from a state of one trajectory.

    **Cost:** that of compiling two steps: a second for an arm, some more for a humanoid.
    """
    if simulator.episodes is not None:
        raise InputError(
            "a live page simulates one trajectory, without episodes. Pass  pp.Simulator(…)  "
            "without episodes="
        )
    if state.batch:
        raise InputError(
            f"a live page starts from one state, not from a batch of shape {state.batch}: pass q "
            "(nq,) and v (nv,)"
        )
    plain = {n: np.array(x, dtype=np.float64) for n, x in state.arrays().items()}
    live, handles = _with_handles(simulator)
    first = {**_first_values(live), **plain}
    plans = {"run": simulator.compiled.plan(), **_plans(live)}
    processor = replace(target_named(target).target, lanes=1, fused=False)
    module = exported_module(
        [], processor, batch=False, more=[_writer(p, simulator.dt, processor, n)
                                          for n, p in plans.items()],
    )  # fmt: skip
    binary = kept_object(module.text, processor)
    functions: dict[str, WasmFunction] = {}
    sizes: dict[str, int] = {}
    for (name, plan), found in zip(plans.items(), module.functions, strict=True):
        counter = _COUNTER if name in ("run", "live") else f"{_COUNTER} of {name}"
        arrays = (*plan.states, counter, *plan.inputs, *plan.own, *plan.shared)
        sizes |= {n: a.count for n, a in zip(arrays, found.arguments, strict=True)}
        functions[name] = WasmFunction(found.name, found.rollout, arrays)
    first = {n: first.get(n, np.zeros(size)) for n, size in sizes.items()}
    places, end = _laid_out(sizes)
    finished = wasm_module(binary, end + max(f.work_bytes for f in module.functions))
    moved = {n: (finished.heap + at, size) for n, (at, size) in places.items()}
    return LivePhysics(
        simulator, finished.binary, functions, moved, finished.heap + end, first,
        tuple(plans["run"].states), handles, tuple(simulator.compiled.circuit.of_kind("parameter")),
    )  # fmt: skip


def _laid_out(sizes: Mapping[str, int]) -> tuple[dict[str, tuple[int, int]], int]:
    """Where every quantity is, behind each other, and the end."""
    out: dict[str, tuple[int, int]] = {}
    at = 0
    for name, size in sizes.items():
        out[name] = at, size
        at = -(-(at + 8 * size) // 16) * 16
    return out, at


def _writer(plan: RunProgram, dt: float, target: Any, name: str) -> Callable[[Any], Any]:
    return lambda module: PlanWriter(module, plan, dt, target, name).write()


# ---- handles -------------------------------------------------------------------------------------


@law(name=HAND)
def _hand(
    X: Any, V: Any, body: Any, point: Any, target: Any, stiffness: Any, damping: Any
) -> dict[str, Any]:
    """A spring from a point of a body, which `body` (n,) marks with 1, to a place in the world."""
    R, p = X[:, :3, :3], X[:, :3, 3]
    gap = target - (p + R @ point)
    rate = np.einsum("nij,nj->ni", R, V[:, 3:] + np.cross(V[:, :3], point))
    pull = body[:, None] * (stiffness * gap - damping * rate)
    force = np.einsum("nji,nj->ni", R, pull)
    energy = 0.5 * stiffness * (body @ (gap * gap).sum(axis=1))
    moment = np.cross(point, force)
    return {"body_forces": np.concatenate([moment, force], axis=1), "energy": energy}


@law(name=DAMPING)
def _damping(v: Any, rate: Any, inertia: Any) -> Any:
    """Efforts that slow every joint down at the same rate, 1/s."""
    return -rate * inertia * v


def _handle_laws(model: Model) -> list[Law]:
    slow = _damping.bind(rate=0.0, inertia=joint_inertias(model))
    if model.is_flexible:
        return [hand_on_modes(model), slow]
    hand = _hand.bind(
        X=pose, V=V, body=np.zeros(model.n_bodies), point=np.zeros(3), target=np.zeros(3),
        stiffness=0.0, damping=0.0,
    )  # fmt: skip
    return [hand, slow]


def _with_handles(simulator: Simulator) -> tuple[Simulator, tuple[str, ...]]:
    """The simulator with handles, and which quantities of the mechanism they are."""
    if isinstance(simulator.laws, BlockDiagram):
        return simulator, ()
    laws = simulator.laws if isinstance(simulator.laws, tuple) else (simulator.laws,)
    own = simulator.compiled.per_trajectory
    options: Any = {"integrator": simulator.integrator, "smoothing": simulator.smoothing}
    for handles in _HANDLES:
        # a slider scales all ten numbers of a body, and rotors behind gears are part of them
        fixed = "M" in own or bool(simulator.model.rotors)
        more = tuple(x for x in handles if x not in own and not (x == INERTIA and fixed))
        try:
            added = _handle_laws(simulator.model)
            live = Simulator(simulator.compiled.mechanism, [*laws, *added], simulator.dt,
                             per_trajectory=(*own, *more), **options)  # fmt: skip
        except PhipsiError:
            continue
        return live, (*(x for x in _HANDLES[0] if x in live.compiled.per_trajectory), HAND, DAMPING)
    return simulator, ()


def _first_values(live: Simulator) -> dict[str, Array]:
    """Values of the parameters that the page adds."""
    model = live.model
    out = {n: np.asarray(x, dtype=np.float64) for n, x in live.parameters.items() if x is not None}
    rotors = compile(Jr, model, mode="blocks")()
    return out | {"gravity": np.array(model.gravity, dtype=np.float64), "Jr": rotors}


# ---- what is looked at ---------------------------------------------------------------------------


def _plans(live: Simulator) -> dict[str, RunProgram]:
    step, model = live.compiled, live.model
    graph, start = step.graph, step.graph.start
    own = {name: max(1, x.size) for name, x in step.states.items()}
    known = {"q": start.q, "v": start.v}
    poses, kinetic = graph.apply_forms((pose, KINETIC_ENERGY), known)
    if model.is_flexible:
        moment, elastic = energies_of_modes(graph, start.q)
    else:
        moment, elastic = _first_moment(poses, live), 0.0
    energies = [Tracer(kinetic), -(moment @ Tracer(_gravity(live)))]
    stored = step.circuit.energy
    of_laws: Any = Tracer(graph.values(start, [stored])[0]) if stored is not None else 0.0
    energies.append(of_laws + elastic)
    seen = {"poses": poses, "energies": as_node(np.stack(energies))}
    tau = {"tau": model.nv}
    if model.has_more_rows:
        names, found = ("inverse", "jacobians"), admittance(graph, start.q, model)
    else:
        blocks = graph.apply_forms((P, D, G), {"q": start.q}, mode=("blocks",) * 3)
        names, found = tuple("PDG"), blocks
    out = {
        "live": step.plan(),
        "look": step.other_plan(seen, own={**own, **tau}),
        "blocks": step.other_plan(dict(zip(names, found, strict=True)), own=own),
    }
    if graph.has_loops:
        # the inertia of rotors is given: a joint that shall stay gets much of it
        end = graph.closed(start, rotors_given=True)
        rotors = {x.data[0]: x.size for x in in_order([end.q]) if x.operation.name == "input"}
        closed = {**step.before, "q": end.q, "v": end.v}
        out["close"] = step.other_plan(closed, inputs=tau, more={"Jr": rotors["Jr"]})
    if step.mechanism.contact_pairs is not None:
        points, forces = _contact_forces(live)
        touching = {"contact points": as_node(points), "contact forces": as_node(forces)}
        out["touch"] = step.other_plan(touching, own=own)
    return out


def _contact_forces(live: Simulator) -> tuple[Any, Any]:
    """Points (k, 3) of all slots, m, and the forces (k, 3) there in the last step, N; world axes.

    Those on side a; on side b where a is the world.
    """
    graph, contacts = live.compiled.graph, live.compiled.mechanism.contact_pairs
    assert contacts is not None
    start = graph.start
    slots, _ = ContactSteps(graph).slots(start.q)
    on_a = (contacts.slot_bodies[:, 0] >= 0)[:, None]
    impulses: Any = Tracer(start.states[IMPULSES])
    points = np.where(on_a, slots.x_a, slots.x_b)
    return points, np.where(on_a, 1.0, -1.0) * impulses[:, 3:] / live.dt


def _gravity(live: Simulator) -> Node:
    given = "gravity" in live.compiled.per_trajectory
    return ops.input("gravity", (3,)) if given else ops.constant(live.model.gravity)


def _first_moment(poses: Node, live: Simulator) -> Any:
    """Σ m(k) c(k) (3,), world axes, kg·m."""
    model, X = live.model, Tracer(poses)
    shape = model.n_bodies, 10
    if INERTIA in live.compiled.per_trajectory:
        ten: Any = Tracer(ops.input(INERTIA, shape))
        mass, first = ten[:, 0], ten[:, 1:4]
    elif "M" in live.compiled.per_trajectory:
        M: Any = Tracer(ops.input("M", (model.n_bodies, 6, 6)))
        mass, first = M[:, 5, 5], np.stack([M[:, 2, 4], M[:, 0, 5], M[:, 1, 3]], axis=-1)
    else:
        ten = np.reshape([x.parameters for x in model.inertias], shape)
        mass, first = ten[:, 0], ten[:, 1:4]
    own = np.einsum("nij,nj->ni", X[:, :3, :3], first)
    return (mass[:, None] * X[:, :3, 3] + own).sum(axis=0)


def coordinates(model: Model) -> list[dict[str, Any]]:
    """What sliders move: entries of q, and components of the rotation vectors of quaternions.

    Each has its `joint`, number of the `body`, `name`, `unit`, the place `at` in q, the numbers of
    the joint's `rates` that move it, `lower` and `upper` limits or None; of a quaternion, `at` is
    its first entry and `axis` the component. `periodic` ones are the same after a turn; `curved`
    ones are of joints whose coordinates do not change at their rates. Modal coordinates have
    no unit, and the `reach` within which a slider moves them.
    """
    out: list[dict[str, Any]] = []

    def add(k: int, name: str, unit: str, at: int, rates: range, **more: Any) -> None:
        limits = () if "axis" in more else (model.lower[at], model.upper[at])
        low, high = (float(x) if np.isfinite(x) else None for x in limits or (np.inf, np.inf))
        turns = model.joints[k].kind in _TURNING and low is None and high is None
        more |= {"periodic": True} if turns else {}
        more |= {} if model.joints[k].is_additive else {"curved": True}
        what = {"joint": model.joint_names[k], "body": k, "name": name, "unit": unit, "at": at}
        out.append({**what, "rates": list(rates), "lower": low, "upper": high, **more})

    for k, (joint, places) in enumerate(zip(model.joints, model.q_slices, strict=True)):
        for group, at, rate in joint.parts(places.start, 0):
            names = joint.coordinate_names[at - places.start :]
            size = free = 0
            if group.rotation is not None and group.rotation.size > 1:
                size, free = group.rotation.size, group.rotation.rates
            for axis in range(free):
                add(k, f"turn {'xyz'[axis]}", "rad", at, range(rate, rate + free), axis=axis)
            for i in range(group.nq - size):
                name, own = names[size + i], rate + free + i
                unit = "rad" if name.startswith("theta") else "m"
                if at - places.start >= joint.nq - model.modes[k]:
                    reach = float(modal_reach(model, k)[i])
                    add(k, name, "", at + i, range(own, own + 1), reach=reach)
                    continue
                add(k, name, unit, at + size + i, range(own, own + 1))
    return out
