"""simulate: from a model and an initial state to a trajectory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from phipsi.algorithms import System
from phipsi.core.model import Model, supports, tree_of
from phipsi.errors import InputError, answered, true_or_false
from phipsi.simulation import modes
from phipsi.simulation.forces.force import Force
from phipsi.simulation.forces.stored_properties import forces_or_none
from phipsi.simulation.runs.checks import checked_word
from phipsi.simulation.simulate.equations import Controller, controller_of
from phipsi.simulation.simulate.events import Change, Event
from phipsi.simulation.simulate.prescribed import WITH_CONTACTS
from phipsi.simulation.simulate.quadratures import Quadrature
from phipsi.simulation.simulate.run_loop import run_once, run_setup
from phipsi.simulation.simulate.run_options import listed_forces
from phipsi.simulation.trajectory.trajectory import Trajectory


@supports(loops=True, contacts=True, flexible=True, rotors=True, prescribed=WITH_CONTACTS)
@answered(
    "simulate",
    dict.fromkeys(
        ("method", "solver", "ode_solver"),
        lambda _: (
            "It is called integrator:\n    "
            "integrator='dopri'    # adaptive, as ode45; 'radau' for stiff forces, 'rk4' with dt="
        ),
    ),
    InputError,
)
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
    forces: Force | Sequence[Force] | None = None,
    prescribed: Mapping[str, Any] | None = None,
    quadratures: Mapping[str, Quadrature] | None = None,
    work: bool = False,
    stabilization: str | None = None,
    constraint_tolerance: float | None = None,
    baumgarte_rate: float | None = None,
    progress: Any = None,
    topology: Sequence[Change] | Change = (),
) -> Trajectory:
    """Simulate a model from an initial state, with adaptive or fixed steps, events and controllers.

    Integrates q̇ = N(q) v, vdot = ℳ⁻¹ (tau − H φ [M φ* (a + gravity) + b − f_ext]) on the
    configuration manifold: quaternions stay unit by construction. For a `System` the accelerations
    are those that keep its constraints, and every step ends on them. With contacts, impacts,
    lift-off, sticking and slipping are located as events, with exact Coulomb friction between them
    ("dopri", "radau"; docs/contact.md).

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    q0 : array_like, shape (nq,)
        Initial configuration.
    v0 : array_like, shape (nv,)
        Initial generalized velocities.
    duration : float
        Length of the simulation, s; it begins at t = 0.
    controller : callable, optional
        ``controller(t, q, v)`` returns tau (nv,), N·m or N. Default: no joint torques or forces.
    rate : float, optional
        Samples of the controller per second (zero-order hold): the controller is called once per
        sample, at increasing times from t = 0 on, and its tau is held in between, so that it may
        have a memory. Default: it is continuous and called at every stage.
    delay : int, optional
        Delay of a sampled controller, in samples.
    integrator : str, optional
        "dopri" (default), "radau" and "lsoda" choose their steps from `rtol` and `atol`. Fixed
        steps `dt` have "rk4", "semi_implicit", "linearly_implicit" (for stiff modes of flexible
        bodies), "implicit_midpoint" and "variational" (trees only: symplectic, keeps momenta).
        "time_stepping", for systems with contacts, rigid joint limits, ropes or dry friction, takes
        the steps of a `Simulator`, at most `dt`. An option that the integrator does not use is an
        error.
    dt : float, optional
        Step of fixed-step integrators, s. Default: 1e-3.
    rtol, atol : float, optional
        Relative and absolute tolerance of adaptive integrators. Default: 1e-9 and 1e-12.
    output_times : array_like, shape (k,), optional
        Increasing times at which to record, s. Default: every accepted step, every dt for fixed
        steps.
    events : Event or sequence of Event, optional
        Zero crossings to locate, record and act upon.
    forces : Force or sequence of Force, optional
        Elements of `phipsi.forces`. Only these act: damping, friction and limits of the model or
        its file are stored, and act with ``forces=pp.forces.from_model(model)``. Default: none,
        with a warning if a robot file has them; ``forces=[]`` does not warn.
    prescribed : mapping of str to float or callable, optional
        ``{joint: acceleration}`` for joints with prescribed motion: numbers, or functions of
        (t, q, v). The torques and forces that they need are recorded in `tau`.
    quadratures : mapping of str to callable or Force, optional
        By name, a function of (t, q, v) that is integrated with the motion, or a force element
        whose work is wanted; the results are in ``trajectory.quadratures``.
    work : bool, optional
        Whether to integrate the work of everything that stores no energy, so that
        ``energy − energy[0] = trajectory.work``.
    stabilization : {"project", "baumgarte", "none"}, optional
        For a system, how constraint drift is removed: "project" (position and velocity are
        projected in the mass metric after every step until no residual exceeds
        `constraint_tolerance`), "baumgarte" (feedback of residuals at `baumgarte_rate`) or "none".
    constraint_tolerance : float, optional
        Largest residual of a projected state, rad and m. Default: 1e-10.
    baumgarte_rate : float, optional
        Rate of the feedback of residuals, 1/s. Default: 20.
    progress : optional
        None (a bar if the simulation takes more than 2 s at a terminal), True, False, a tqdm-like
        object, or a function of (t, duration).
    topology : Change or sequence of Change, optional
        Changes of `phipsi.topology` that hold from the start; further ones are actions of events.

    Returns
    -------
    Trajectory
        The recorded motion. Ctrl-C ends the simulation with a warning and returns the motion so
        far, with ``complete=False``.

    Raises
    ------
    SimulationError
        If the simulation cannot continue; its `trajectory` ends at the last good state.

    See Also
    --------
    rollout : Fixed steps of many trajectories under given tau, in machine code.
    Simulator : The same with controllers, force elements, contacts and gradients.

    Notes
    -----
    **Cost:** per evaluation of vdot three sweeps, O(N); 12 evaluations per step of "dopri", and 3
    for its dense output. **Source:** docs/simulation.md.

    Examples
    --------
    >>> import phipsi as pp
    >>> fall = pp.simulate(pp.examples.planar_arm(2), [0.0, 0.0], [0.0, 0.0], 1.0)
    >>> bool(abs(fall.energy - fall.energy[0]).max() < 1e-7)
    True
    >>> fall.at(0.5)[0].shape
    (2,)
    """
    work = true_or_false("work", work)
    if isinstance(model, Model):
        forces = forces_or_none(model, forces, integrator)
    forces = () if forces is None else forces
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
