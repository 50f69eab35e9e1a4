"""Trajectory: the record of a run, and the quantities that follow from it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import (
    Chart,
    System,
    elastic_energy,
    kinetic_energy,
    momentum,
    potential_energy,
)
from phipsi.core.model import Model, as_floats
from phipsi.errors import ConvergenceError, InputError, shown
from phipsi.package_state import display, public
from phipsi.simulation.runs.checks import checked_time
from phipsi.simulation.trajectory import plotting, storage
from phipsi.simulation.trajectory.event_record import EventRecord
from phipsi.simulation.trajectory.interpolation import DenseRecord, hermite
from phipsi.views import view

if TYPE_CHECKING:
    from phipsi.contact import ContactRecord

Array = NDArray[Any]

WORK = "work"
"""The name of the quadrature that is the work of everything that stores no energy."""

# Samples with smaller residuals than this (rad, m) come from a run that projects.
_PROJECTED = 1e-9
# With more rates than this, projections of many states take too long.
_LARGE = 300
Stored = Callable[[Array, Array, Array], Array]
Acting = Callable[[Array, Array, Array], tuple[Array, Array | None]]
"""Times (k,), q, v → efforts (k, nv) of force elements, and forces on bodies (k, n, 6) or None."""


@final
class Trajectory:
    """Recorded motion of a model: times, states, torques and forces, energy, momentum and events.

    `simulate` and `Rollout.trajectory` create it. An event whose action changed the state gives two
    samples at the same time, before and after. Arrays are read-only.

    Parameters
    ----------
    model : Model
        The tree.
    t : array_like, shape (k,)
        Times, s.
    q : array_like, shape (k, nq)
        Configurations.
    v : array_like, shape (k, nv)
        Generalized velocities.
    tau : array_like, shape (k, nv), or callable
        Torques and forces of the controller, or a function that returns them. Those of force
        elements are not in it, except in rollouts of a `Simulator`, which has one sum.
    events : tuple of EventRecord, optional
        Events that happened.
    complete : bool, optional
        Whether the simulation reached its end, or an event that stops it.
    integrator : str, optional
        Name of the integrator.
    stored : callable, optional
        Energy stored in force elements, a function of times, q and v.
    dense : DenseRecord, optional
        Dense output of an adaptive integrator.
    constraint_residuals : ndarray, shape (k, rows), optional
        Residuals of constraint rows, rad and m; a tree has none.
    system : System, optional
        The system; None for a tree.
    energy : ndarray, shape (k,), optional
        Energy, J. Default: computed when it is first read.
    momentum : ndarray, shape (k, 6), optional
        Momentum about the world's origin. Default: computed when it is first read.
    phases : tuple of TopologyPhase, optional
        The stretches between changes of topology, empty if there were none.
    quadratures : mapping of str to ndarray, shape (k,), optional
        What was integrated with the motion, by name.
    totals : mapping of str to float, optional
        Values of the quadratures at the end, by name.
    acting : callable, optional
        A function of times, q and v that returns the joint torques and forces of force elements and
        their forces on bodies; None without elements and for trajectories from files.
    elements : sequence of Force, optional
        These elements.

    Attributes
    ----------
    contacts : ContactRecord
        Of simulations with contacts: forces, gaps and modes.
    records : mapping of str to ndarray, shape (k, ...)
        Of rollouts of a `Simulator`: what else was recorded, by name. Not of a trajectory that was
        resampled or read from a file.
    work : ndarray, shape (k,)
        Work of everything that stores no energy, J, of simulations with ``work=True``.

    Examples
    --------
    >>> import phipsi as pp
    >>> fall = pp.simulate(pp.examples.planar_arm(1), [0.0], [0.0], 1.0, integrator="rk4", dt=0.01)
    >>> fall
    <Trajectory: 101 samples, t = 0 … 1 s, nq = 1, nv = 1, rk4>
    """

    def __init__(
        self,
        model: Model,
        t: Array,
        q: Array,
        v: Array,
        tau: Array | Callable[[], Array],
        *,
        events: tuple[EventRecord, ...] = (),
        complete: bool = True,
        integrator: str = "",
        stored: Stored | None = None,
        dense: DenseRecord | None = None,
        constraint_residuals: Array | None = None,
        system: System | None = None,
        energy: Array | None = None,
        momentum: Array | None = None,
        phases: tuple[Any, ...] = (),
        quadratures: Mapping[str, Array] | None = None,
        totals: Mapping[str, float] | None = None,
        acting: Acting | None = None,
        elements: Sequence[Any] = (),
    ) -> None:
        self._contacts: ContactRecord | None = None
        self.model, self.phases = model, phases
        self.t, self.q, self.v = (_frozen(x) for x in (t, q, v))
        self._tau = tau
        self.events, self.complete, self.integrator = events, complete, integrator
        self.system = system
        if constraint_residuals is None:
            rows = 0 if system is None else system.n_rows
            constraint_residuals = np.zeros((len(t), rows))
            if system is not None and len(t):
                constraint_residuals = system.residual(self.q)
        self.constraint_residuals = _frozen(constraint_residuals)
        self._stored, self._dense, self.acting = stored, dense, acting
        self.elements = tuple(elements)
        columns = {name: _frozen(x) for name, x in (quadratures or {}).items()}
        self.quadratures: Mapping[str, Array] = MappingProxyType(columns)
        self.records: Mapping[str, Array] = MappingProxyType({})
        self.totals: Mapping[str, float] = MappingProxyType(dict(totals or {}))
        # what a file brings along: without its force elements it cannot be computed again
        if energy is not None:
            self.__dict__["energy"] = _frozen(energy)
        if momentum is not None:
            self.__dict__["momentum"] = _frozen(momentum)

    def __len__(self) -> int:
        return len(self.t)

    _repr_html_ = display

    def __repr__(self) -> str:
        span = f"t = {self.t[0]:.6g} … {self.t[-1]:.6g} s, " if len(self) else ""
        events = f", {len(self.events)} event{'s' * (len(self.events) != 1)}" if self.events else ""
        cut = "" if self.complete else ", not complete"
        return (
            f"<Trajectory: {len(self)} samples, {span}nq = {self.model.nq}, nv = {self.model.nv}, "
            f"{shown(self.integrator)}{events}{cut}>"
        )

    # ---- what follows from the motion -------------------------------------------------------

    @cached_property
    def tau(self) -> Array:
        """Efforts (k, nv) of the controller alone; of a `Simulator`, all efforts at the joints.

        Those of a `Simulator` include friction, dampers and springs of its laws. What the actuators
        give is the record of the controller, such as ``rollout["pid.tau"]``: identification needs
        that one.
        """
        return _frozen(self._tau() if callable(self._tau) else self._tau)

    @cached_property
    def energy(self) -> Array:
        """Kinetic and potential energy (k,), also of bent bodies and of force elements, J."""
        if not len(self):
            return np.zeros(0)
        out = kinetic_energy(self.model, self.q, self.v) + potential_energy(self.model, self.q)
        if self.model.is_flexible:
            out = out + elastic_energy(self.model, self.q)
        if self._stored is not None:
            out = out + self._stored(self.t, self.q, self.v)
        return _frozen(out)

    @cached_property
    def momentum(self) -> Array:
        """Momentum (k, 6) about the world's origin, world axes: [kg·m²/s, kg·m/s]."""
        if not len(self):
            return np.zeros((0, 6))
        return _frozen(momentum(self.model, self.q, self.v))

    @property
    def work(self) -> Array:
        """Work (k,) since t = 0 of all that stores no energy: motors, dampers, prescribed motion.

        In J: ``energy − energy[0]`` up to the errors of the integration, where no event changed the
        state. It exists if the simulation was made with ``work=True``.

        Examples
        --------
        >>> import numpy as np, phipsi as pp
        >>> damper = pp.forces.JointDamper("joint1", 0.5)
        >>> fall = pp.simulate(
        ...     pp.examples.planar_arm(1), [0.0], [0.0], 1.0, forces=[damper], work=True
        ... )
        >>> bool(np.abs(fall.energy - fall.energy[0] - fall.work).max() < 1e-8)
        True
        """
        if WORK not in self.quadratures:
            raise InputError("the work was not integrated. Use  pp.simulate(…, work=True).")
        return self.quadratures[WORK]

    def with_contacts(self, contacts: ContactRecord) -> Trajectory:
        """This run with a record of its contacts at its samples."""
        self._contacts = contacts
        return self

    def with_records(self, records: Mapping[str, Array]) -> Trajectory:
        """This run with signals (k, ...) that were recorded at its samples, by name."""
        self.records = MappingProxyType({name: _frozen(x) for name, x in records.items()})
        return self

    @property
    def has_contacts(self) -> bool:
        """Whether there is a record of contacts."""
        return self._contacts is not None

    @property
    def contacts(self) -> ContactRecord:
        """Forces, gaps and modes of contacts at the samples, and the certificate of the simulation.

        Of a simulation with contacts, not of a trajectory that was resampled or read from a file.
        """
        if self._contacts is None:
            raise InputError(
                "this trajectory has no record of contacts. Only trajectories that simulate "
                "returns for systems with contacts have one, not resampled ones, nor those read "
                "from files:\n"
                "    pp.simulate(pp.System(model, contacts=pp.Contacts(model)), …).contacts"
            )
        return self._contacts

    @property
    def steps(self) -> Counter[tuple[str, str]]:
        """How often each step of the dynamics was executed for changes of the mechanism.

        As `Stages.counts`; `event.change.steps` has those of one change.
        """
        changes = {id(e.change): e.change for e in self.events if e.change is not None}
        return sum((c.steps for c in changes.values()), Counter[tuple[str, str]]())

    @property
    def interpolation(self) -> str:
        """How states between samples are found: "dense output" or "cubic Hermite"."""
        found = self._dense is not None and self._dense.arrays() is not None
        return "dense output" if found else "cubic Hermite"

    def at(self, t: float) -> tuple[Array, Array]:
        """State (q, v) at a time; see `resample`. At a jump, the state after it."""
        one = self.resample([checked_time(t, "t", backwards=True)])
        return one.q[0], one.v[0]

    def resample(self, times: ArrayLike) -> Trajectory:
        """The same motion at other times, which must lie within the record.

        With the default output of an adaptive integrator its own dense output is used, with its
        accuracy. Otherwise states come from cubic Hermite interpolation on the group between
        samples, with an error of O(h⁴) in q and O(h³) in v for samples h apart; `interpolation`
        says which. `tau` is interpolated linearly. If all samples satisfy the constraints of a
        system, states between them are projected too.

        Parameters
        ----------
        times : array_like, shape (k,)
            Times, s.

        Returns
        -------
        Trajectory
            The motion at these times.

        Examples
        --------
        >>> import numpy as np, phipsi as pp
        >>> fall = pp.simulate(pp.examples.planar_arm(1), [0.0], [0.0], 1.0)
        >>> fall.resample(np.linspace(0, 1, 5)).t
        array([0.  , 0.25, 0.5 , 0.75, 1.  ])
        """
        wanted = self._checked_times(times)
        if self.phases and self.phases[0].has_all_steps:
            return self._resampled_phases(wanted)
        chart = Chart(self.model)
        if self.interpolation == "dense output":
            assert self._dense is not None
            q, v = self._dense.state(chart, wanted)
        else:
            q, v = hermite(chart, self.t, self.q, self.v, self.model.difference, wanted)
        q, v = self._on_constraints(q, v)
        last = wanted == self.t[-1]  # the last sample may be behind a jump
        q[last], v[last] = self.q[-1], self.v[-1]
        columns = [np.interp(wanted, self.t, column) for column in self.tau.T]
        tau = np.array(columns).reshape(self.model.nv, len(wanted)).T
        return self._with_samples(
            wanted,
            q,
            v,
            tau,
            stored=self._stored,
            dense=self._dense,
            system=self.system,
            elements=self.elements,
            quadratures=self._quadratures_at(wanted, q, v),
        )

    def _with_samples(self, t: Array, q: Array, v: Array, tau: Array, **more: Any) -> Trajectory:
        """This run at other times."""
        return Trajectory(
            self.model,
            t,
            q,
            v,
            tau,
            events=self.events,
            complete=self.complete,
            integrator=self.integrator,
            totals=self.totals,
            **more,
        )

    def _quadratures_at(self, times: Array, q: Array, v: Array) -> dict[str, Array]:
        """Quadratures at times where the states are q, v."""
        out = {name: np.interp(times, self.t, x) for name, x in self.quadratures.items()}
        if self.interpolation != "dense output" or not out:
            return out
        assert self._dense is not None
        found = dict(zip(out, self._dense.quadratures(Chart(self.model), times).T, strict=True))
        if WORK in found:
            if self._stored is None:  # read from a file, without its force elements
                del found[WORK]
            else:
                start = self._stored(self.t[:1], self.q[:1], self.v[:1])[0]
                found[WORK] = found[WORK] + self._stored(times, q, v) - start
        out.update(found)
        for name, x in out.items():
            x[times == self.t[-1]] = self.quadratures[name][-1]
        return out

    def _on_constraints(self, q: Array, v: Array) -> tuple[Array, Array]:
        """States between samples that are on the constraints, brought onto them as well."""
        residuals = self.constraint_residuals
        if self.system is None or not residuals.size or np.abs(residuals).max() > _PROJECTED:
            return q, v
        if self.model.nv > _LARGE:
            return q, v
        try:
            return self.system.project(q, v)
        except ConvergenceError:
            return q, v

    def _resampled_phases(self, wanted: Array) -> Trajectory:
        """Each time in the phase it belongs to; at a change, the one after it."""
        starts = np.array([phase.t0 for phase in self.phases])
        which = np.maximum(np.searchsorted(starts, wanted, side="right") - 1, 0)
        q, v, tau = (np.zeros((len(wanted), x.shape[1])) for x in (self.q, self.v, self.tau))
        energy, total = np.zeros(len(wanted)), np.zeros((len(wanted), 6))
        found = {name: np.zeros(len(wanted)) for name in self.quadratures}
        for i, phase in enumerate(self.phases):
            mine = which == i
            if mine.any():
                inner = phase.resampled(wanted[mine])
                q[mine], v[mine] = phase.lift(inner.q, inner.v)
                tau[mine] = phase.lift_rates(inner.tau)
                energy[mine], total[mine] = inner.energy, inner.momentum
            for name, x in found.items():
                if mine.any():
                    x[mine] += inner.quadratures[name]
                x[which > i] += phase.trajectory.totals[name]
        return self._with_samples(
            wanted, q, v, tau, energy=energy, momentum=total, quadratures=found
        )

    def _checked_times(self, times: ArrayLike) -> Array:
        wanted = np.array(as_floats("times", times))
        if wanted.ndim != 1 or not np.isfinite(wanted).all():
            raise InputError(
                "times must be a list of finite times (k,), such as np.linspace(0, 1, 9)"
            )
        if not len(self):
            raise InputError("the trajectory has no samples")
        if wanted.size and (wanted.min() < self.t[0] or wanted.max() > self.t[-1]):
            outside = wanted.min() if wanted.min() < self.t[0] else wanted.max()
            raise InputError(
                f"t = {outside:.9g} s is outside the trajectory, which goes from "
                f"{self.t[0]:.9g} to {self.t[-1]:.9g} s."
            )
        return wanted

    # ---- files and figures ------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.npz` file with everything in it, the model too.

        Plain arrays and one JSON header; no pickle. The write is atomic: the file is written under
        a temporary name and then renamed.

        Parameters
        ----------
        path : str or path
            The file to write.

        Examples
        --------
        >>> import tempfile, pathlib, phipsi as pp
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "fall.npz"
        >>> fall = pp.simulate(pp.examples.planar_arm(1), [0.0], [0.0], 1.0)
        >>> fall.save(file)
        >>> pp.Trajectory.load(file).model == fall.model
        True
        """
        storage.save(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = storage.MAX_BYTES,
        package_dirs: Iterable[str | os.PathLike[str]] = (),
    ) -> Trajectory:
        """Read what `save` wrote; untrusted files are safe to read.

        Parameters
        ----------
        path : str or path
            The file to read.
        max_bytes : int, optional
            Larger files are rejected.
        package_dirs : iterable of str or path, optional
            Folders with meshes of the robot: of the meshes that the file names, those in its own
            folder and in these are opened.

        Returns
        -------
        Trajectory
            The recorded motion.

        Raises
        ------
        ParseError
            If the file is not a trajectory, or is damaged.
        """
        return cls(**storage.load(path, max_bytes, package_dirs))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write t, q, v, tau, energy, quadratures and records as named columns, all digits."""
        storage.to_csv(self, path)

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str = "",
        live: Any = False,
    ) -> Any:
        """Standalone HTML page of `pp.report`: an animation with a timeline, and plots.

        Parameters
        ----------
        path : str or path, optional
            A file that ends in .html. Default: none is written.
        title : str, optional
            Title. Default: the name of the model.
        live : bool or Simulator, optional
            As for `pp.report`.

        Returns
        -------
        Path or str
            The path; without one, the page as a string.

        Examples
        --------
        >>> import phipsi as pp
        >>> fall = pp.simulate(pp.examples.planar_arm(1), [0.0], [0.0], 0.2)
        >>> fall.to_html(title="A fall").startswith("<!doctype html>")
        True
        """
        if path is None:
            return view("report as text")(self, title=title, live=live)
        return view("report")(self, path, title=title, live=live)

    def plot(self, joints: Any = None) -> Any:
        """Configuration, velocities, torques, records and energy, as a matplotlib figure.

        Needs matplotlib: ``pip install "phipsi[plot]"``.

        Parameters
        ----------
        joints : str or sequence of str, optional
            Names of the joints to show. Default: all.

        Returns
        -------
        Figure
            The figure.
        """
        return plotting.plot(self, joints)

    def render(self, path: str | os.PathLike[str], **options: Any) -> Any:
        """Write a video (.mp4, .webm, .gif) or a picture (.png); see `phipsi.render`."""
        return public("render")(self, path, **options)


def _frozen(values: Array) -> Array:
    out = np.asarray(values)
    if out.flags.writeable:
        out = out.view()
        out.flags.writeable = False
    return out
