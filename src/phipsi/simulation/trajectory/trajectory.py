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
    """A recorded motion.

    An event whose action changed the state gives two samples at the same time, before and after.

    **Attributes:** `model`; `t` (k,), s; `q` (k, nq); `v` (k, nv); `tau` (k, nv), the controller's
    efforts (those of force elements are not in it, except in runs of a `Simulator`, which has one
    sum); `energy` (k,), J; `momentum` (k, 6) about the world's origin; `system`, None for a tree;
    `constraint_residuals` (k, rows), rad and m, of which a tree has none; `quadratures`, name →
    (k,), what was integrated with the motion, and `totals`, name → its value at the end of the run;
    `events`, a tuple of `EventRecord`; `phases`, the
    stretches between changes of topology, empty if there were none;
    `contacts`, a `ContactRecord`, of runs with contacts;
    `acting`, a function of times, q and v with the efforts of force elements and their forces on
    bodies, None without elements and for runs from files; `elements`, these;
    `complete`, whether the run came to its end or to an event that stops it;
    `integrator`, its name. Arrays are read-only.

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
        self.totals: Mapping[str, float] = MappingProxyType(dict(totals or {}))
        # what a file brings along: its force elements are not there to compute it again
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
        """Efforts (k, nv) of the controller; of a `Simulator`, all efforts at the joints."""
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
        """Work (k,) since t = 0 of all that stores no energy: motors, dampers, given motion; J.

        ``energy − energy[0]`` up to the errors of the integration, where no event changed the
        state. It is there if the run was made with ``work=True``.

        >>> import numpy as np, phipsi as pp
        >>> damper = pp.forces.JointDamper("joint1", 0.5)
        >>> fall = pp.simulate(
        ...     pp.examples.planar_arm(1), [0.0], [0.0], 1.0, forces=[damper], work=True
        ... )
        >>> bool(np.abs(fall.energy - fall.energy[0] - fall.work).max() < 1e-8)
        True
        """
        if WORK not in self.quadratures:
            raise InputError("the work was not integrated; run  pp.simulate(…, work=True).")
        return self.quadratures[WORK]

    def with_contacts(self, contacts: ContactRecord) -> Trajectory:
        """This run with a record of its contacts at its samples."""
        self._contacts = contacts
        return self

    @property
    def has_contacts(self) -> bool:
        """Whether there is a record of contacts."""
        return self._contacts is not None

    @property
    def contacts(self) -> ContactRecord:
        """Forces, gaps and modes of contacts at the samples, and the certificate of the run.

        Of a run of `simulate` with contacts, not of one that was resampled or read from a file.
        """
        if self._contacts is None:
            raise InputError(
                "this trajectory has no record of contacts. Runs of systems with contacts have "
                "one, as simulate returns them (resampled and in files they have not):\n"
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
        """The same motion at other times (k,), which must lie within the record.

        With the default output of an adaptive run the integrator's own dense output is used, with
        its accuracy. Otherwise states come from cubic Hermite interpolation on the group between
        samples, with an error of O(h⁴) in q and O(h³) in v for samples h apart; `interpolation`
        says which. Efforts are interpolated linearly. If all samples are on the constraints of a
        system, states between them are projected too.

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

        Plain arrays and one JSON header; no pickle. It is written under a temporary name and then
        renamed, so a file is whole or not there.

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
        """Read what `save` wrote. Files from strangers are safe to read: a `ParseError` or data.

        **Arguments:** `max_bytes`, reject larger files; `package_dirs`, folders with meshes of the
        robot: of the meshes that the file names, those in its own folder and in these are opened.
        """
        return cls(**storage.load(path, max_bytes, package_dirs))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write t, q, v, tau, energy and quadratures as columns with names, all digits."""
        storage.to_csv(self, path)

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str = "",
        live: Any = False,
    ) -> Any:
        """The page of `pp.report`: an animation with a timeline, and plots; needs nothing else.

        **Arguments:** `path`, a file that ends in .html; `title`, the model's name by default;
        `live` as for `pp.report`. **Returns:** the path; without one, the page as a string.

        >>> import phipsi as pp
        >>> fall = pp.simulate(pp.examples.planar_arm(1), [0.0], [0.0], 0.2)
        >>> fall.to_html(title="A fall").startswith("<!doctype html>")
        True
        """
        if path is None:
            return view("report as text")(self, title=title, live=live)
        return view("report")(self, path, title=title, live=live)

    def plot(self, joints: Any = None) -> Any:
        """Coordinates, rates, efforts and energy over time, as a matplotlib figure.

        **Arguments:** `joints`, a name or names to show, all by default. Needs matplotlib:
        ``pip install "phipsi[plot]"``.
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
