"""Canonical samples and constant-energy runs of molecules in torsion angles.

A step is kick–drift–kick: half a step of the forces, v += h/2 ℳ⁻¹ (H φ f_ext + tau), a step of
free motion by the variational integrator, and half a step of the forces. Each part is symplectic
and reversible in (q, p = ℳ v), so the whole is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import (
    System,
    forward_dynamics,
    kinetic_energy,
    log_det_mass_matrix,
    log_det_mass_matrix_gradient,
    velocity_noise,
)
from phipsi.core.backends import real_array
from phipsi.core.model import Model, whole_number
from phipsi.errors import InputError, SimulationError, one_of, true_or_false, warn
from phipsi.molecules.molecule import Molecule
from phipsi.simulation import checked_number, whole_rollout
from phipsi.support import make_progress

Array = NDArray[Any]

BOLTZMANN = 0.00831446261815324
"""k in kJ/(mol·K)."""

_FEW = 0.01  # of the proposals


def fixman_potential(molecule: Molecule, q: ArrayLike, temperature: float) -> Array:
    """Fixman potential ½ kT log det ℳ, which removes the bias of rigid bonds.

    Parameters
    ----------
    molecule : Molecule
        The molecule.
    q : array_like, shape (..., nq)
        Configuration.
    temperature : float
        K.

    Returns
    -------
    ndarray, shape (...)
        kJ/mol, up to a constant.

    Notes
    -----
    **Cost:** one sweep, O(N). **Source:** theory/molecules 2.

    Examples
    --------
    >>> import phipsi as pp
    >>> beads = [(0, 0, 0), (0.15, 0, 0), (0.2, 0.14, 0), (0.35, 0.14, 0)]
    >>> chain = pp.molecules.Molecule([15.0, 14.0, 14.0, 15.0], beads, [(0, 1), (1, 2), (2, 3)])
    >>> trans, cis = chain.home, chain.home
    >>> cis[-1] = 3.14159
    >>> float(round(pp.molecules.fixman_potential(chain, cis, 300.0)
    ...             - pp.molecules.fixman_potential(chain, trans, 300.0), 4))
    -0.365
    """
    tree, kT = _tree(molecule, "fixman_potential"), _thermal(temperature)
    return 0.5 * kT * np.asarray(log_det_mass_matrix(tree, q))


def fixman_effort(molecule: Molecule, q: ArrayLike, temperature: float) -> Array:
    """Torques of the Fixman potential, −½ kT ∂ log det ℳ / ∂q.

    Parameters
    ----------
    molecule : Molecule
        The molecule.
    q : array_like, shape (..., nq)
        Configuration.
    temperature : float
        K.

    Returns
    -------
    ndarray, shape (..., nv)
        kJ/mol per rad or nm; zero at a free root.

    Notes
    -----
    **Cost:** two sweeps, O(N). **Source:** theory/molecules 2.
    """
    tree, kT = _tree(molecule, "fixman_effort"), _thermal(temperature)
    return -0.5 * kT * np.asarray(log_det_mass_matrix_gradient(tree, q))


def sample_velocities(
    molecule: Molecule, q: ArrayLike, temperature: float, seed: Any = None
) -> Array:
    """Sample velocities of the canonical ensemble, v = √(kT) (I − H ψ K)* D^{−½*} ε.

    Their covariance is kT ℳ⁻¹.

    Parameters
    ----------
    molecule : Molecule
        The molecule.
    q : array_like, shape (..., nq)
        Configuration.
    temperature : float
        K.
    seed : int or numpy.random.Generator, optional
        Seed.

    Returns
    -------
    ndarray, shape (..., nv)
        Generalized velocities.

    Notes
    -----
    **Cost:** two sweeps, O(N). **Source:** theory/molecules 3.
    """
    tree, kT = _tree(molecule, "sample_velocities"), _thermal(temperature)
    return velocity_noise(tree, q, kT, seed=_generator(seed))


@final
@dataclass(frozen=True)
class Samples:
    """Samples of the canonical ensemble, from `sample`.

    Parameters
    ----------
    molecule : Molecule
        The molecule.
    q : ndarray, shape (samples, replicas, nq)
        Configurations.
    potential : ndarray, shape (samples, replicas)
        Potential energy, kJ/mol.
    accepted, unsolved : ndarray, shape (replicas,)
        Fractions of proposals that were accepted, and that count as rejected because a step was
        too long for its implicit equation.
    temperature, dt : float
        Temperature, K, and time step, ps.
    """

    molecule: Molecule
    q: Array
    potential: Array
    accepted: Array
    unsolved: Array
    temperature: float
    dt: float

    def __repr__(self) -> str:
        n, replicas = self.potential.shape
        return f"<Samples: {n} of {replicas} replicas, {self.accepted.mean():.0%} accepted>"

    def positions(self) -> Array:
        """Where the atoms are, (samples, replicas, atoms, 3) in nm."""
        return self.molecule.positions(self.q)

    def dihedral(self, atoms: Any) -> Array:
        """A dihedral angle of four atoms, (samples, replicas) in rad."""
        return self.molecule.dihedral(self.q, atoms)


def sample(
    molecule: Molecule,
    samples: int,
    *,
    temperature: float = 300.0,
    method: str = "hmc",
    fixman: bool = True,
    q: ArrayLike | None = None,
    replicas: int = 1,
    dt: float = 0.002,
    steps: int = 20,
    warm_up: int = 0,
    threads: int = 1,
    seed: int = 0,
    progress: Any = None,
) -> Samples:
    """Sample the canonical ensemble by hybrid (Hamiltonian) Monte Carlo.

    Velocities are drawn, `steps` steps are taken, and the end is accepted with the probability
    min(1, e^{−ΔH/kT}), H = T + U (+ U_F): where all steps are solved (`Samples.unsolved` is 0)
    neither step nor integrator biases the result. With `fixman` torsions are distributed as if
    bonds and angles were stiff springs, ∝ e^{−U/kT}; without it they carry the factor √det ℳ of
    rigid bonds.

    Parameters
    ----------
    molecule : Molecule
        The molecule, with a potential.
    samples : int
        Number of samples.
    temperature : float, optional
        Temperature, K.
    method : {"hmc"}, optional
        Hybrid Monte Carlo.
    fixman : bool, optional
        Whether to add the Fixman potential.
    q : array_like, shape (nq,) or (replicas, nq), optional
        Initial configurations. Default: `molecule.home`.
    replicas : int, optional
        Number of independent chains, which are computed side by side.
    dt : float, optional
        Time step, ps.
    steps : int, optional
        Steps per proposal.
    warm_up : int, optional
        Proposals before the first sample.
    threads, seed : int, optional
        Number of threads of the dynamics, and seed.
    progress : optional
        As for `simulate`.

    Returns
    -------
    Samples
        Consecutive samples are correlated: see `autocorrelation_time`.

    Notes
    -----
    **Cost:** steps + 1 evaluations of the potential and O(steps · N) per sample and replica.
    **Source:** theory/molecules 3.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> beads = [(0, 0, 0), (0.15, 0, 0), (0.2, 0.14, 0), (0.35, 0.14, 0)]
    >>> chain = pp.molecules.Molecule([15.0, 14.0, 14.0, 15.0], beads, [(0, 1), (1, 2), (2, 3)])
    >>> samples = pp.molecules.sample(chain, 5, replicas=4, dt=0.01, steps=5)
    >>> samples.dihedral((0, 1, 2, 3)).shape
    (5, 4)
    """
    one_of("method", method, ("hmc",), "It is hybrid Monte Carlo.")
    tree, kT = _tree(molecule, "sample"), _thermal(temperature)
    samples, steps = whole_number("samples", samples), whole_number("steps", steps)
    replicas, warm_up = whole_number("replicas", replicas), whole_number("warm_up", warm_up, 0)
    rng, fixman = _generator(seed), true_or_false("fixman", fixman)
    at = _started(tree, molecule.home if q is None else q, replicas)
    forces = _PotentialForces(molecule, temperature if fixman else None, walls=True)
    flow = _Flow(tree, forces, _step_size(dt), threads, tolerant=True)
    here = forces(at)
    if not np.isfinite(here.energy).all():
        raise InputError(
            f"q: the potential of replica {int(np.isinf(here.energy).argmax())} is infinite at "
            "the initial configuration. Pass one where it is finite"
        )
    kept = np.empty((samples, *at.shape))
    energies = np.empty((samples, replicas))
    accepted, unsolved = np.zeros(replicas), np.zeros(replicas)
    bar = make_progress(progress, float(warm_up + samples))
    for n in range(warm_up + samples):
        v = sample_velocities(molecule, at, temperature, rng)
        before = np.asarray(kinetic_energy(tree, at, v)) + here.energy
        there_q, there_v, there = flow(at, v, here, steps)
        after = np.asarray(kinetic_energy(tree, there_q, there_v)) + there.energy
        with np.errstate(over="ignore", under="ignore"):
            take = (rng.random(replicas) < np.exp(-(after - before) / kT)) & ~flow.lost
        at = np.where(take[:, None], there_q, at)
        here = here.where(take, there)
        if n >= warm_up:
            accepted += take
            unsolved += flow.lost
            kept[n - warm_up], energies[n - warm_up] = at, here.potential
        bar.advance(float(n + 1))
    bar.close()
    shares = accepted / samples, unsolved / samples
    if accepted.sum() < _FEW * samples * replicas:
        why = "steps have no solution" if unsolved.sum() > 0 else "their energy changes too much"
        warn(
            f"sample: {accepted.mean() / samples:.2%} of the proposals were accepted ({why}), so "
            "the samples hardly differ from the initial ones. Use shorter steps:  "
            f"dt={0.3 * float(dt):.2g}"
        )
    return Samples(molecule, kept, energies, *shares, float(temperature), float(dt))


@final
@dataclass(frozen=True)
class ConstantEnergyRun:
    """Motion of constant energy, from `run`.

    Parameters
    ----------
    molecule : Molecule
        The molecule.
    t, q, v : ndarray, shape (n,), (n, ..., nq) and (n, ..., nv)
        Times, ps, configurations and generalized velocities.
    potential, kinetic : ndarray, shape (n, ...)
        Energies, kJ/mol, whose sum is `energy`; with `fixman` the potential contains the Fixman
        potential.
    """

    molecule: Molecule
    t: Array
    q: Array
    v: Array
    potential: Array
    kinetic: Array

    @property
    def energy(self) -> Array:
        """Potential + kinetic."""
        return self.potential + self.kinetic

    def __repr__(self) -> str:
        drift = np.ptp(self.energy, axis=0).max()
        return f"<ConstantEnergyRun: {self.t[-1]:g} ps, energy within {drift:.2g} kJ/mol>"


def run(
    molecule: Molecule,
    q: ArrayLike,
    v: ArrayLike,
    dt: float,
    steps: int,
    *,
    record_every: int = 1,
    fixman: float | None = None,
    threads: int = 1,
    progress: Any = None,
) -> ConstantEnergyRun:
    """Simulate molecular dynamics of constant energy (NVE): kick–drift–kick with the potential.

    The steps are symplectic and reversible, so the energy fluctuates ∝ dt² without a trend. With
    rings as loops the drift keeps the loops, and the energy is kept to the method's order only.

    Parameters
    ----------
    molecule : Molecule
        The molecule, with a potential.
    q, v : array_like, shape (..., nq) and (..., nv)
        Initial states.
    dt : float
        Time step, ps.
    steps, record_every : int
        Number of steps, and steps between records.
    fixman : float, optional
        Temperature, K, at which the Fixman potential is added. Default: none.
    threads : int, optional
        Number of threads of the dynamics.
    progress : optional
        As for `simulate`.

    Returns
    -------
    ConstantEnergyRun
        The motion.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> beads = [(0, 0, 0), (0.15, 0, 0), (0.2, 0.14, 0), (0.35, 0.14, 0)]
    >>> chain = pp.molecules.Molecule([15.0, 14.0, 14.0, 15.0], beads, [(0, 1), (1, 2), (2, 3)])
    >>> v = pp.molecules.sample_velocities(chain, chain.home, 300.0, seed=0)
    >>> moved = pp.molecules.run(chain, chain.home, v, 0.005, 20)
    >>> bool(np.ptp(moved.energy) < 1e-3)
    True
    """
    _check_molecule(molecule, "run")
    model = molecule.model
    steps, every = whole_number("steps", steps), whole_number("record_every", record_every)
    at, rates, batch = _states(model, real_array("q", q), real_array("v", v))
    if fixman is not None:
        _tree(molecule, "run(fixman=…)")
        _thermal(fixman)
    forces = _PotentialForces(molecule, fixman, walls=False)
    flow = _Flow(model, forces, _step_size(dt), threads, tolerant=False)
    here = forces(at)
    records = [(at, rates, here.energy)]
    bar = make_progress(progress, float(steps))
    for n in range(0, steps, every):
        at, rates, here = flow(at, rates, here, min(every, steps - n))
        records.append((at, rates, here.energy))
        bar.advance(float(min(n + every, steps)))
    bar.close()
    qs, vs, U = (np.stack(part) for part in zip(*records, strict=True))
    T = np.asarray(kinetic_energy(model, qs, vs))
    t = float(dt) * np.minimum(np.arange(len(qs)) * every, steps)
    shaped = [x.reshape(len(qs), *batch, *x.shape[2:]) for x in (qs, vs, U, T)]
    return ConstantEnergyRun(molecule, t, *shaped)


def _states(model: Model, q: Array, v: Array) -> tuple[Array, Array, tuple[int, ...]]:
    """States one by one, (n, nq) and (n, nv), and their batch axes."""
    if q.shape[-1:] != (model.nq,) or v.shape[-1:] != (model.nv,):
        raise InputError(
            f"q of shape {q.shape} and v of shape {v.shape} must end in {model.nq} and {model.nv}"
        )
    try:
        batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
    except ValueError:
        raise InputError(f"q of shape {q.shape} and v of shape {v.shape} do not fit") from None
    at = np.array(np.broadcast_to(q, (*batch, model.nq))).reshape(-1, model.nq)
    return at, np.array(np.broadcast_to(v, (*batch, model.nv))).reshape(-1, model.nv), batch


def autocorrelation_time(series: ArrayLike) -> float:
    """Integrated autocorrelation time 1 + 2 Σ ρ(n) of a series, in samples.

    Samples that far apart count as independent. The sum ends where the window is five times the
    estimate (Sokal's rule).

    Parameters
    ----------
    series : array_like, shape (n,) or (n, chains)
        A series, or several, whose correlations are averaged.

    Returns
    -------
    float
        The time, in samples.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> noise = np.random.default_rng(0).standard_normal(4000)
    >>> bool(0.8 < pp.molecules.autocorrelation_time(noise) < 1.2)
    True
    """
    try:
        x = np.asarray(series, float)
    except (TypeError, ValueError):
        x = np.zeros(0)
    if x.ndim == 0 or len(x) < 2 or not np.isfinite(x).all():
        raise InputError(f"series of shape {x.shape} must be two or more finite numbers")
    n = len(x)
    x = x.reshape(n, -1) - x.mean()
    power = np.abs(np.fft.rfft(x, 2 * n, axis=0)) ** 2
    products = np.fft.irfft(power, axis=0)[:n].sum(axis=1)
    if products[0] == 0:
        return float(n)  # it never moved
    taus = 2 * np.cumsum(products / products[0]) - 1
    wide = np.arange(n) >= 5 * taus
    return float(max(taus[np.argmax(wide) if wide.any() else n - 1], 1.0))


# ---- steps --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pushed:
    """Potential (n,), energy with Fixman's (n,), and the accelerations (n, nv) at rest."""

    potential: Array
    energy: Array
    vdot: Array

    def where(self, take: Array, other: _Pushed) -> _Pushed:
        return _Pushed(
            np.where(take, other.potential, self.potential),
            np.where(take, other.energy, self.energy),
            np.where(take[:, None], other.vdot, self.vdot),
        )


@dataclass
class _PotentialForces:
    """Forces of the potential and of Fixman's, as accelerations."""

    molecule: Molecule
    temperature: float | None
    walls: bool  # whether the potential may be +∞ where a replica must not go

    def __call__(self, q: Array) -> _Pushed:
        mol, model = self.molecule, self.molecule.model
        still = np.zeros((len(q), model.nv))
        U, loads, tau = np.zeros(len(q)), None, still
        if mol.potential is not None:
            U, F = _checked(mol.potential(mol.positions(q)), len(q), mol, self.walls)
            loads = mol.body_forces(q, F)
        energy = U
        if self.temperature is not None:
            energy = U + fixman_potential(mol, q, self.temperature)
            tau = fixman_effort(mol, q, self.temperature)
        return _Pushed(U, energy, np.asarray(forward_dynamics(model, q, still, tau, loads)))


class _Flow:
    """Kick–drift–kick steps of a batch.

    `lost` are the replicas of the last call in which a step could not be solved; they stay where
    they were. Unless it is `tolerant`, that is an error.
    """

    def __init__(
        self,
        model: Model | System,
        forces: Callable[[Array], _Pushed],
        dt: float,
        threads: int,
        *,
        tolerant: bool,
    ) -> None:
        self._model, self._forces, self._dt, self._tolerant = model, forces, dt, tolerant
        self._options: dict[str, Any] = {
            "integrator": "rk4" if isinstance(model, System) else "variational",
            "threads": threads,
        }
        self.lost: Array = np.zeros(0, bool)

    def __call__(
        self, q: Array, v: Array, here: _Pushed, steps: int
    ) -> tuple[Array, Array, _Pushed]:
        self.lost = np.zeros(len(q), bool)
        for _ in range(steps):
            q, half = self._drift(q, v + 0.5 * self._dt * here.vdot)
            here = self._forces(q)
            v = half + 0.5 * self._dt * here.vdot
        return q, v, here

    def _drift(self, q: Array, v: Array) -> tuple[Array, Array]:
        none = np.zeros(self._model.nv)
        try:
            qs, vs = whole_rollout(self._model, q, v, none, self._dt, 1, **self._options)
        except SimulationError as error:
            if not self._tolerant or not isinstance(error.trajectory, tuple):
                raise
            qs, vs = error.trajectory
            bad = ~np.isfinite(qs[:, -1]).all(axis=-1)
            self.lost |= bad
            qs[bad, -1], vs[bad, -1] = q[bad], 0.0
        return qs[:, -1], vs[:, -1]


def _checked(found: Any, n: int, molecule: Molecule, walls: bool) -> tuple[Array, Array]:
    try:
        energies, forces = (np.asarray(x, float) for x in found)
    except (TypeError, ValueError):
        energies = forces = np.zeros(0)
    wanted = (n, len(molecule.masses), 3)
    if energies.shape != (n,) or forces.shape != wanted:
        raise InputError(
            f"the potential must return energies of shape {(n,)} and forces of shape {wanted}, "
            f"but returned shapes {energies.shape} and {forces.shape}"
        )
    there = (energies > -np.inf) if walls else np.isfinite(energies)
    fine = np.isfinite(forces).all(axis=(1, 2)) & there
    bad = np.flatnonzero(~fine)
    if bad.size:
        raise SimulationError(
            f"the potential of replica {bad[0]}, {energies[bad[0]]} kJ/mol, or its forces are "
            "not finite: atoms coincide or nearly do. Use a smaller dt, or other initial "
            "positions."
        )
    return energies, forces


def _started(model: Model, q: ArrayLike, replicas: int) -> Array:
    given = real_array("q", q)
    if given.shape not in ((model.nq,), (replicas, model.nq)):
        raise InputError(
            f"q has shape {given.shape}; it must be ({model.nq},) or ({replicas}, {model.nq})"
        )
    return np.array(np.broadcast_to(given, (replicas, model.nq)))


def _check_molecule(molecule: Any, who: str) -> None:
    if not isinstance(molecule, Molecule):
        raise InputError(f"{who} takes a pp.molecules.Molecule first, not {molecule!r}")


def _tree(molecule: Molecule, who: str) -> Model:
    _check_molecule(molecule, who)
    if isinstance(molecule.model, System):
        raise InputError(
            f"{who} needs a molecule without loops: the density of a constrained molecule has "
            f"another determinant, that of the motions its rings allow. Keep the rings rigid: "
            f'rings="rigid"'
        )
    return molecule.model


def _thermal(temperature: float) -> float:
    return BOLTZMANN * checked_number(temperature, "temperature", "a number of K,", zero=False)


def _generator(seed: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InputError(f"seed={seed!r} must be an integer ≥ 0, or a generator") from error


def _step_size(dt: float) -> float:
    return checked_number(dt, "dt", "a finite number of ps,", zero=False)
