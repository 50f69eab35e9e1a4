"""simulate: from a model and an initial state to a trajectory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from phipsi.algorithms import System
from phipsi.core.model import Model, supports, tree_of
from phipsi.errors import true_or_false
from phipsi.simulation import modes
from phipsi.simulation.forces.force import Force
from phipsi.simulation.runs.checks import checked_word
from phipsi.simulation.simulate.equations import Controller, controller_of
from phipsi.simulation.simulate.events import Change, Event
from phipsi.simulation.simulate.prescribed import WITH_CONTACTS
from phipsi.simulation.simulate.quadratures import Quadrature
from phipsi.simulation.simulate.run_loop import run_once, run_setup
from phipsi.simulation.simulate.run_options import listed_forces
from phipsi.simulation.trajectory.trajectory import Trajectory


@supports(loops=True, contacts=True, flexible=True, rotors=True, prescribed=WITH_CONTACTS)
def simulate(
    model: Model | System,
    q0: ArrayLike,
    v0: ArrayLike,
    duration: float,
    *,
    controller: Controller | None = None,
    rate: float | None = None,
    delay: int = 0,
    integrator: str = "dopri",
    dt: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    output_times: ArrayLike | None = None,
    events: Event | Sequence[Event] = (),
    forces: Force | Sequence[Force] = (),
    prescribed: Mapping[str, Any] | None = None,
    quadratures: Mapping[str, Quadrature] | None = None,
    work: bool = False,
    stabilization: str | None = None,
    constraint_tolerance: float | None = None,
    baumgarte_rate: float | None = None,
    progress: Any = None,
    topology: Sequence[Change] | Change = (),
) -> Trajectory:
    """Motion of a mechanism from an initial state.

    Integrates q̇ = N(q) v, vdot = ℳ⁻¹ (tau − H φ [M φ* (a + gravity) + b − f_ext]) on the
    configuration manifold: quaternions stay unit by construction. For a `System` the accelerations
    are those that keep its constraints, and every step ends on them. With contacts, impacts,
    lift-off, sticking and slipping are located as events, with exact Coulomb friction between them
    ("dopri", "radau"; docs/contact.md).

    **Arguments:** `model`, a `Model` or a `System`; `q0` (nq,), `v0` (nv,); `duration`, s, from
    t = 0; `controller(t, q, v)` returns tau (nv,), N·m or N (none: no efforts); `rate`, samples of
    the controller per second: it is then called once per sample, at increasing times from t = 0 on,
    and its efforts are held in between, so that it may have a memory (without it, it is continuous
    and called at every stage); `delay`, in samples; `integrator`:
    "dopri", "radau", "lsoda" choose their steps from `rtol` (1e-9) and `atol` (1e-12); "rk4",
    "semi_implicit", "linearly_implicit" (for stiff modes of flexible bodies), "implicit_midpoint",
    "variational" (trees only: symplectic, keeps momenta) have the fixed step `dt` (1e-3 s);
    "time_stepping", of systems with contacts, rigid stops, ropes or dry friction, the steps of a
    `Simulator`, at most `dt`; what an integrator does not use is an error;
    `output_times`, increasing times in s at which to record (default: every accepted step, every dt
    for fixed steps); `events`, see `Event`;
    `forces`, elements of `phipsi.forces`, and only those act: damping, friction and limits of the
    model are added by `forces.from_model(model)`; `prescribed`, ``{joint: acceleration}`` for
    joints whose motion is given, numbers or functions of (t, q, v); their efforts are recorded in
    `tau`; `quadratures`, name → function of (t, q, v) to be integrated with the motion, or a force
    element whose work is wanted: ``trajectory.quadratures``; `work`, whether to integrate the work
    of all that stores no energy, so that ``energy − energy[0] = trajectory.work``; `progress`, None
    (a bar if it takes more than 2 s at a terminal), True, False, a tqdm-like object or a function
    of (t, duration). For a system: `stabilization`, "project"
    (position and velocity are projected in the mass metric after every step until no residual
    exceeds `constraint_tolerance`, 1e-10 rad and m), "baumgarte" (feedback of residuals with the
    rate `baumgarte_rate`, 20/s) or "none". `topology`, changes of `phipsi.topology` that hold from
    the start; further ones are actions of events.

    **Returns:** a `Trajectory`. Ctrl-C ends the run with a warning and returns the motion so far,
    with ``complete=False``. A run that cannot go on raises `SimulationError`, whose `trajectory`
    ends at the last good state.

    **Cost:** per evaluation of vdot three sweeps, O(N); 12 evaluations per step of "dopri", and 3
    for its dense output. **Source:** docs/simulation.md.

    >>> import phipsi as pp
    >>> fall = pp.simulate(pp.examples.planar_arm(2), [0.0, 0.0], [0.0, 0.0], 1.0)
    >>> bool(abs(fall.energy - fall.energy[0]).max() < 1e-7)
    True
    >>> fall.at(0.5)[0].shape
    (2,)
    """
    work = true_or_false("work", work)
    own = dict(dt=dt, rtol=rtol, atol=atol, stabilization=stabilization)
    own |= dict(constraint_tolerance=constraint_tolerance, baumgarte_rate=baumgarte_rate)
    if checked_word(integrator) == "time_stepping" and isinstance(model, Model):
        controller = controller_of(model, controller, stepping=True)
        unfit = {"rate": rate, "delay": delay, "events": events, "quadratures": quadratures}
        unfit |= {"work": work, "topology": topology, "prescribed": prescribed}
        options = (controller, listed_forces(forces), output_times, progress, unfit)
        return modes.contact_runs.simulate_steps(model, q0, v0, duration, own, *options)
    setup = run_setup(
        model, own, controller=controller, rate=rate, delay=delay, integrator=integrator,
        events=events, forces=forces, prescribed=prescribed, quadratures=quadratures, work=work,
        topology=topology,
    )  # fmt: skip
    if setup.changes:
        from phipsi.simulation.simulate.changing_run import simulate_changing  # few runs need it

        return simulate_changing(setup, q0, v0, duration, output_times, progress)
    tree_of(model, simulate)
    return run_once(setup, q0, v0, duration, output_times, progress)
