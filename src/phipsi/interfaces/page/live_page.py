"""`pp.live_page`: a mechanism on a page with its physics inside."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.system import System
from phipsi.errors import InputError, true_or_false
from phipsi.interfaces.model_checks import counted
from phipsi.interfaces.page.html_file import PageParts, page_html, page_title
from phipsi.interfaces.page.live_modes import integrator_of_modes
from phipsi.interfaces.page.live_physics import live_physics, packed
from phipsi.interfaces.page.scene import first_configuration, scene_of_any_motion
from phipsi.model.mechanisms import mechanism_of, of_contacts, of_mechanisms, of_modes
from phipsi.model.model import Model
from phipsi.simulation.simulator import Simulator
from phipsi.trajectory.trajectory import Trajectory
from phipsi.whole_files import checked_page, whole_file

Array = NDArray[Any]
_STEP = 1e-3  # s, of a mechanism that comes without a simulator
_MOST_STATES = 2000  # of a recording, from which it can go on
SCRIPTS = ("physics.js", "live.js")
CONTROLS = """<div id="live-controls" class="live-controls">
<button id="live-play" aria-label="play">▶</button>
<button id="once" title="one step">step</button>
<button id="again" title="state, world and parameters of laws as at first">start again</button>
<select id="live-speed" aria-label="speed">
<option value="0.02">1/50</option><option value="0.1">1/10</option><option value="0.25">1/4</option>
<option value="0.5">1/2</option><option value="1" selected>real time</option>
<option value="2">2 ×</option><option value="5">5 ×</option></select>
{}<button id="live-force" data-shows="forces" hidden>forces</button>
<span id="live-clock"></span><span id="pace" title="physics in one picture"></span></div>"""
RETURN = '<button id="return" title="back to the recording">recording</button>'
PANEL = '<aside id="live" aria-label="what can be changed"></aside>'


@of_modes
@of_contacts
@of_mechanisms
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
    """Write a page on which a mechanism moves by its own compiled dynamics, in the browser.

    One HTML file that needs no server, no Python and no network. Sliders move the joints; the mouse
    pulls bodies, by a spring while time goes on, and by inverse kinematics while it stands still;
    gravity, damping, masses and parameters of laws change while it runs. Loops stay closed and
    contacts push. As long as nothing is changed, the state is that of
    ``Simulator(…, reproducible=True)``, bit for bit.

    **Arguments:** `simulator`, a `Simulator`, with its laws, step and integrator; or a model or a
    `System`, which then moves without laws, in steps of 1 ms, and stands still at first; `path` of
    the file; `q` (nq,), `v` (nv,), the state at first: neutral or assembled, and at
    rest, or as motors turn it;
    `parameters` of laws and of what the simulator's `given` names, as for `start`; `title` of the
    page, by default the name of the robot or of the file; `play`, whether time goes on at first;
    `meshes` of the robot's file.
    **Returns:** the path. **Cost:** LLVM compiles two steps: one second for an arm, five for a
    humanoid, ten with contacts; about 1 MB, and the meshes.
    Reasons: docs/decisions/0051.

    >>> import tempfile, pathlib
    >>> import phipsi as pp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = pp.live_page(pp.examples.planar_arm(2), pathlib.Path(folder) / "arm.html")
    ...     page.name, "https://" in page.read_text()
    ('arm.html', False)
    """
    target = checked_page(path)
    given = isinstance(simulator, Simulator)
    moves = given if play is None else true_or_false("play", play, "True, False or None")
    whole = simulator if given else simulator_of(simulator)
    parts = live_parts(whole, q, v, parameters, play=moves, meshes=meshes)
    name = page_title(title, whole.model, target)
    with whole_file(target) as part:
        part.write_text(page_html(name, parts), encoding="utf-8")
    return target


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
    places = first_configuration(simulator._mechanism) if q is None else q
    if v is None:
        v = _driven_rates(simulator._mechanism, places)
    state = simulator.start(places, v, parameters=parameters)
    physics = live_physics(simulator, state)
    model = simulator.model
    laws = simulator.laws if isinstance(simulator.laws, tuple) else (simulator.laws,)
    scene = scene_of_any_motion(simulator._mechanism, state.q, meshes=meshes, forces=laws)
    mass = sum(inertia.mass for inertia in model.inertias)
    whole = simulator._mechanism
    free = whole.mobility(state.q).mobility if isinstance(whole, System) else model.nv
    degrees = "degree" if free == 1 else "degrees"
    sizes = f"{counted(model.n_bodies, 'body')}, {free} {degrees} of freedom, {mass:.4g} kg"
    return {
        "subtitle": f"{sizes}; {simulator.integrator}, steps of {1e3 * simulator.dt:g} ms",
        "data": {"scene": scene, "live": {"physics": physics.description(), "play": play}},
        "scripts": SCRIPTS,
        "styles": ("live.css",),
        "controls": CONTROLS.format(""),
        "body": PANEL,
        "footer": "The physics is in this page: phipsi compiled it to WebAssembly. Drag a body.",
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
            "live=True does not know the contacts of this run. Give the simulator:  live=sim"
        )
    if simulator is None:
        simulator = simulator_of(own)
    elif simulator.model != trajectory.model:
        raise InputError("live= is a simulator of another mechanism than the run's")
    keep = np.unique(np.linspace(0, len(trajectory) - 1, _MOST_STATES).astype(int))
    t, q, v = (np.asarray(x)[keep] for x in (trajectory.t, trajectory.q, trajectory.v))
    physics = live_physics(simulator, simulator.start(q[0], v[0], t=float(t[0])))
    record = {"times": packed(t), "q": packed(q), "v": packed(v)}
    live = {"physics": physics.description(), "play": False, "record": record}
    button = '<button id="continue" title="the physics from here on">continue from here</button>'
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
