"""Distributions: the quantities that differ from run to run, from the number of the run alone.

Every run has a point u in the unit cube, and each distribution turns its entries into values by the
inverse of its distribution function. Points come in blocks: run i takes numbers i·d … i·d + d − 1
of one Philox stream, or point i of a Sobol sequence, so that no run depends on another.

For the indices of Sobol, points come in groups of d + 2 (Saltelli): a, b, and a with each of its
entries in turn taken from b, where (a, b) is a point of a Sobol sequence in 2 d dimensions.

Where the probability of an event is so small that no run would have it, runs are drawn from those
that nearly have it: `subset_simulation`.
"""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import whole_number
from phipsi.errors import InputError, did_you_mean, number_of, one_of
from phipsi.simulation import INERTIA, Simulator
from phipsi.studies.function_reach import is_library, reach_of
from phipsi.support import import_optional

Array = NDArray[Any]

SAMPLINGS = ("random", "sobol", "latin_hypercube", "saltelli")
_WORDS = 4  # numbers of 64 bits that one count of Philox gives
_MOST_LEVELS = 60
_WANTED_SHARE = 0.44
"""Steps that should be taken, by which the length of steps is adapted."""


@final
class Distributions:
    """Distributions of the parameters of a study, and their samples.

    Parameters
    ----------
    given : mapping of str to distribution or list
        By name, a frozen distribution of SciPy (``scipy.stats.norm(5, 0.5)``, also with arrays for
        its parameters, and ``scipy.stats.multivariate_normal(mean, cov)``), or a list of values
        that are all tried.
    runs : int
        Number of runs for every combination of such values.
    seed : int, optional
        Seed.
    sampling : {"random", "sobol", "latin_hypercube", "saltelli"}, optional
        How samples are drawn.

    Examples
    --------
    >>> from scipy.stats import norm
    >>> distributions = Distributions({"mass": norm(5, 0.5), "friction": [0.2, 0.8]}, runs=100)
    >>> distributions.count, {n: x.shape for n, x in distributions.values(0, 3).items()}
    (200, {'mass': (3,), 'friction': (3,)})
    """

    def __init__(
        self, given: Mapping[str, Any], runs: int, *, seed: int = 0, sampling: str = "random"
    ) -> None:
        one_of("sampling", sampling, SAMPLINGS)
        self.runs, self.seed, self.sampling = runs, whole_number("seed", seed, 0), sampling
        self._grids: dict[str, Array] = {}
        self._drawn: dict[str, _Distribution] = {}
        if not isinstance(cast(object, given), Mapping):
            raise InputError(
                f"distributions must be a dictionary by name, {{'q.elbow': norm(0, 1)}}, "
                f"not {given!r}"
            )
        for name, what in given.items():
            if isinstance(what, Sequence | np.ndarray) and not isinstance(what, str):
                self._grids[name] = _values(name, what)
            else:
                self._drawn[name] = _distribution(name, what)
        self.names = tuple(given)
        self.combinations = math.prod(len(x) for x in self._grids.values())
        self.count = runs * self.combinations
        self.dimension = sum(x.size for x in self._drawn.values())
        if sampling == "saltelli":
            self._check_groups()

    def __repr__(self) -> str:
        return f"<Distributions of {', '.join(self.names)}, {self.sampling}, {self.count} runs>"

    def __getstate__(self) -> dict[str, Any]:
        """Without the points that every process makes for itself."""
        return {name: x for name, x in self.__dict__.items() if name != "_hypercube"}

    def values(self, first: int, count: int) -> dict[str, Array]:
        """The values (count, *shape) of runs first … first + count − 1, by name."""
        return self.at(self.points(first, count), first)

    def at(self, u: Array, first: int = 0) -> dict[str, Array]:
        """The values at points u (count, d) of the unit cube, from run `first` on."""
        count = len(u)
        sizes = [len(x) for x in self._grids.values()]
        out: dict[str, Array] = {}
        if sizes:
            numbers = np.arange(first, first + count) // self.runs
            places = np.unravel_index(numbers, sizes)
            out = {n: x[i] for (n, x), i in zip(self._grids.items(), places, strict=True)}
        ends = itertools.accumulate(x.size for x in self._drawn.values())
        for (name, x), end in zip(self._drawn.items(), ends, strict=True):
            out[name] = x.at(u[:, end - x.size : end])
        return {name: out[name] for name in self.names}

    def points(self, first: int, count: int) -> Array:
        """Points (count, d) of the unit cube, all entries inside."""
        d = self.dimension
        if not d:
            return np.zeros((count, 0))
        if self.sampling == "random":
            wide = -(-d // _WORDS) * _WORDS
            bits = np.random.Philox(key=self.seed)
            bits.advance(first * wide // _WORDS)
            u = np.random.Generator(bits).random((count, wide))[:, :d]
        elif self.sampling == "sobol":
            u = _sequence(d, self.seed, first, count)
        elif self.sampling == "saltelli":
            u = self._groups(first, count)
        else:
            u = self._hypercube[first : first + count]
        return _inside(u)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for every number that is drawn: "mass", or "q[0]" for an entry of an array."""
        return tuple(
            f"{name}[{i}]" if x.shape else name
            for name, x in self._drawn.items()
            for i in range(x.size)
        )

    def _check_groups(self) -> None:
        if self._grids or any(x.is_joint for x in self._drawn.values()):
            raise InputError(
                'sampling="saltelli" is for independent distributions: without lists of values, '
                "and without multivariate ones"
            )
        group = self.dimension + 2
        if self.runs % group:
            more = -(-self.runs // group) * group
            raise InputError(
                f'sampling="saltelli" with {self.dimension} numbers needs groups of {group} '
                f"runs: pass runs={more}, not {self.runs}"
            )

    def _groups(self, first: int, count: int) -> Array:
        """Points of whole groups, of which the wanted ones are picked."""
        d = self.dimension
        group = d + 2
        begin, end = first // group, -(-(first + count) // group)
        pairs = _sequence(2 * d, self.seed, begin, end - begin)
        a, b = pairs[:, None, :d], pairs[:, None, d:]
        mixed = np.where(np.eye(d, dtype=bool), b, a)
        whole = np.concatenate([a, b, mixed], axis=1).reshape(-1, d)
        return whole[first - begin * group :][:count]

    @cached_property
    def _hypercube(self) -> Array:
        """All points: each of n equal parts of every axis has one."""
        return _qmc().LatinHypercube(self.dimension, **_seeded(self.seed)).random(self.count)

    def to_dict(self) -> dict[str, Any]:
        """The definition, for JSON."""
        listed = {
            **{name: {"values": x.tolist()} for name, x in self._grids.items()},
            **{name: x.to_dict() for name, x in self._drawn.items()},
        }
        head = {"runs": self.runs, "seed": self.seed, "sampling": self.sampling}
        return {**head, "distributions": {name: listed[name] for name in self.names}}


def _inside(u: Array) -> Array:
    """Points of the closed unit cube, without its ends: they may be infinitely far away."""
    return np.clip(u, np.finfo(float).tiny, 1 - 2.0**-53)


def _sequence(d: int, seed: int, first: int, count: int) -> Array:
    """Points first … first + count − 1 of a scrambled Sobol sequence."""
    engine = _qmc().Sobol(d, **_seeded(seed))
    with warnings.catch_warnings():  # of a part of the sequence that has no power of two
        warnings.simplefilter("ignore", UserWarning)
        return engine.fast_forward(first).random(count) if first else engine.random(count)


def _qmc() -> Any:
    return import_optional("scipy.stats", "sampling by a sequence", "scipy").qmc


def _seeded(seed: int) -> dict[str, Any]:
    """The argument that SciPy has for a seed, which 1.15 renamed."""
    version = import_optional("scipy", "sampling by a sequence", "scipy").__version__
    new = tuple(int(x) for x in version.split(".")[:2]) >= (1, 15)
    return {"rng" if new else "seed": np.random.default_rng(seed)}


def _values(name: str, given: Any) -> Array:
    try:
        out = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        out = np.zeros(0)
    if out.ndim < 1 or not len(out) or not np.isfinite(out).all():
        raise InputError(f"distributions[{name!r}] must be finite numbers, at least one: {given!r}")
    return out


_QUANTILES = np.array([1e-9, 1e-6, 1e-3, *np.linspace(0.05, 0.95, 19), 1 - 1e-3, 1 - 1e-6])
"""Where the values of distributions are compared: also far out, where rare events are."""


@final
class _Distribution:
    """A frozen distribution of SciPy: its shape, and its values at points of the unit cube."""

    def __init__(self, name: str, frozen: Any) -> None:
        self._frozen = frozen
        self._factor: Array | None = None
        if hasattr(frozen, "cov_object"):  # a multivariate normal
            stats = import_optional("scipy.stats", "a normal distribution", "scipy")
            self._normal, self._mean = stats.norm(), np.asarray(frozen.mean, dtype=float)
            values, vectors = np.linalg.eigh(np.atleast_2d(frozen.cov_object.covariance))
            self._factor = vectors * np.sqrt(np.maximum(values, 0.0))
            middle = self._mean
        else:
            middle = np.asarray(frozen.ppf(0.5), dtype=float)
        if not np.isfinite(middle).all():
            raise InputError(
                f"distributions[{name!r}] has the median {middle}: a parameter of the distribution "
                "is not finite or out of its range"
            )
        self.shape, self.size = middle.shape, middle.size

    @property
    def is_joint(self) -> bool:
        """Whether its entries depend on each other."""
        return self._factor is not None

    def at(self, u: Array) -> Array:
        """Values (n, *shape) at points u (n, size)."""
        if self._factor is not None:
            # one product for each run: the bits do not depend on how many there are
            z = self._normal.ppf(u)
            return self._mean + np.einsum("ij,nj->ni", self._factor, z)
        return np.asarray(self._frozen.ppf(u.reshape(-1, *self.shape)), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """The definition, for JSON."""
        if self._factor is not None:
            covariance = self._frozen.cov_object.covariance
            return {"normal": {"mean": self._mean.tolist(), "covariance": covariance.tolist()}}
        frozen = self._frozen
        parts = [np.asarray(x).tolist() for x in frozen.args]
        named = {k: np.asarray(x).tolist() for k, x in frozen.kwds.items()}
        # many distributions have the name of their class: what they are is in their values
        at = _QUANTILES.reshape(-1, *([1] * len(self.shape)))
        named["quantiles"] = np.asarray(frozen.ppf(at), dtype=float).tolist()
        out = {"distribution": frozen.dist.name, "args": parts, "named": named}
        classes = {type(frozen), type(frozen.dist)}
        own = sorted((c for c in classes if not is_library(c.__module__)), key=lambda c: c.__name__)
        return out | {"classes": {c.__name__: reach_of(c) for c in own}} if own else out


def _distribution(name: str, given: Any) -> _Distribution:
    known = hasattr(given, "cov_object") or all(hasattr(given, x) for x in ("ppf", "dist", "args"))
    if not known:
        raise InputError(
            f"distributions[{name!r}] = {given!r} is neither a frozen distribution of SciPy nor a "
            f"list of values. For example:\n    {{{name!r}: scipy.stats.norm(5.0, 0.5)}}"
        )
    return _Distribution(name, given)


# ---- what the names of samples mean --------------------------------------------------------------


_WHOLE = ("q", "v", "t")
_ENTRY = re.compile(r"(.+)\[([^\[\]]+)\]")


@final
class NamedSamples:
    """Samples by name as the arguments of `Simulator.initial_state`.

    Parameters
    ----------
    simulator : Simulator
        The simulator.
    names : sequence of str
        Names of the samples.
    q0, v0 : ndarray or None
        Initial values of coordinates that no sample names: neutral and at rest if None.
    """

    def __init__(
        self, simulator: Simulator, names: Sequence[str], q0: Array | None, v0: Array | None
    ) -> None:
        model = simulator.model
        self._simulator, self._names = simulator, tuple(names)
        self._first = {
            "q": model.neutral() if q0 is None else q0,
            "v": np.zeros(model.nv) if v0 is None else v0,
        }
        self._joints = {
            **{f"q.{joint}": ("q", model.q_slice(joint)) for joint in model.joint_names},
            **{f"v.{joint}": ("v", model.v_slice(joint)) for joint in model.joint_names},
        }
        self._shapes = {
            name: () if x is None else np.shape(x) for name, x in simulator.parameters.items()
        }
        found = {name: self._entry(name) for name in self._names}
        self._entries = {name: x for name, x in found.items() if x is not None}
        self._bodies: dict[str, int] = {}
        if INERTIA in simulator.parameters:
            self._bodies = {f"mass.{name}": i for i, name in enumerate(model.body_names)}

    def _entry(self, name: str) -> tuple[str, slice] | None:
        """The parameter and its entries that a name such as "hold.kp[elbow]" means, if any."""
        found = _ENTRY.fullmatch(name)
        if found is None or name in self._shapes:
            return None
        which, entry = found.groups()
        model, shape = self._simulator.model, self._shapes.get(which, ())
        if len(shape) != 1 or self._simulator.parameters[which] is None:
            return None
        if entry.isdecimal() and int(entry) < shape[0]:
            return which, slice(int(entry), int(entry) + 1)
        if shape == (model.nv,) and entry in model.joint_names:
            return which, model.v_slice(entry)
        return None

    def _entry_names(self, which: str) -> str:
        """What the entries of a parameter are called."""
        shape, model = self._shapes[which], self._simulator.model
        if len(shape) != 1 or self._simulator.parameters[which] is None:
            return "no entries that can be sampled alone"
        if shape == (model.nv,):
            return f"entries such as '{which}[{model.joint_names[0]}]'"
        return f"the entries '{which}[0]' to '{which}[{shape[0] - 1}]'"

    def _with_entries(self, parameters: dict[str, Array], samples: dict[str, Array]) -> None:
        """Write samples of single entries into parameters (n, *shape)."""
        for name, (which, rows) in self._entries.items():
            x = samples[name]
            n, size = len(x), rows.stop - rows.start
            if x.shape[1:] not in ((), (size,)):
                raise InputError(
                    f"distributions[{name!r}] has shape {x.shape[1:]}, but must have {size} "
                    f"{'number' if size == 1 else 'numbers'}"
                )
            if which not in parameters:
                nominal = np.asarray(self._simulator.parameters[which], dtype=float)
                parameters[which] = np.repeat(nominal[None], n, axis=0)
            parameters[which][:, rows] = x.reshape(n, -1)

    def _whole(self, name: str, x: Array) -> Array:
        """One number for all entries of a parameter."""
        shape = self._shapes[name]
        if x.ndim > 1 or not shape:
            return x
        return np.broadcast_to(x.reshape(-1, *(1 for _ in shape)), (len(x), *shape))

    def check(self) -> None:
        """Reject names that mean nothing."""
        plain = [*_WHOLE, *self._simulator.parameters]
        options = [*plain, *self._joints, *self._bodies]
        for name in self._names:
            if name not in options and name not in self._entries:
                joint = self._simulator.model.joint_names[0]
                listed = ", ".join([*plain, f"q.{joint}, v.{joint} and so on for other joints"])
                hint = did_you_mean(name, options)
                mass = name.startswith("mass.") and not self._bodies
                whole = found.group(1) if (found := _ENTRY.fullmatch(name)) else ""
                if whole in self._shapes:
                    hint = f"{whole!r} has {self._entry_names(whole)}."
                more = " Masses need  pp.Simulator(…, per_trajectory=('inertia',))." if mass else ""
                raise InputError(
                    f"distributions[{name!r}] is not one of {listed}. {hint}{more} With "
                    "initial_state= samples may have any names"
                )
            if name in self._entries and self._entries[name][0] in self._names:
                raise InputError(
                    f"distributions has both {self._entries[name][0]!r} and {name!r}, which is a "
                    "part of it. Remove one of the two"
                )
            part, _, _ = name.partition(".")
            if name in self._joints and part in self._names:
                raise InputError(
                    f"distributions has both {part!r} and {name!r}, which is a part of it. "
                    "Remove one of the two"
                )
            if name in self._bodies and INERTIA in self._names:
                raise InputError(
                    f"distributions has both {INERTIA!r} and {name!r}, which is a part of it. "
                    "Remove one of the two"
                )

    def arguments(self, samples: dict[str, Array]) -> dict[str, Any]:
        """The arguments of `Simulator.initial_state` for samples (n, *shape)."""
        n = len(next(iter(samples.values())))
        out: dict[str, Any] = {name: x for name, x in self._first.items() if name not in samples}
        out |= {name: x for name, x in samples.items() if name in _WHOLE}
        parameters = {n: self._whole(n, x) for n, x in samples.items() if n in self._shapes}
        self._with_entries(parameters, samples)
        inertia: Array | None = None
        model = self._simulator.model
        rotors = model.description.added_inertia(model.nv)[0] if model.rotors else None
        for name, x in samples.items():
            if name in self._joints:
                part, rows = self._joints[name]
                if out[part].ndim == 1:
                    out[part] = np.repeat(out[part][None], n, axis=0)
                size = rows.stop - rows.start
                if x.reshape(n, -1).shape[1] != size:
                    raise InputError(
                        f"distributions[{name!r}] has shape {x.shape[1:]}, but must have {size} "
                        "numbers"
                    )
                out[part][:, rows] = x.reshape(n, size)
            elif name in self._bodies:
                if inertia is None:
                    nominal = np.asarray(self._simulator.parameters[INERTIA])
                    inertia = np.repeat(nominal.reshape(1, -1, 10), n, axis=0)
                if x.size != n:
                    raise InputError(
                        f"distributions[{name!r}] has shape {x.shape[1:]}, but a mass is one number"
                    )
                body = self._bodies[name]
                wrong = ~((x >= 0) & np.isfinite(x))
                if wrong.any():
                    raise InputError(
                        f"the sampled mass of {name.removeprefix('mass.')!r} is "
                        f"{float(x[wrong][0]):.4g} kg. Choose a distribution of positive numbers, "
                        "such as scipy.stats.lognorm or truncnorm"
                    )
                if not inertia[0, body, 0]:
                    raise InputError(
                        f"distributions[{name!r}]: the body is massless, so its mass cannot be "
                        "scaled"
                    )
                ratio = (x.reshape(n) / inertia[0, body, 0])[:, None]
                if rotors is not None:  # of motors, which stay as they are
                    inertia[:, body] -= rotors[body]
                inertia[:, body] *= ratio
                if rotors is not None:
                    inertia[:, body] += rotors[body]
        if inertia is not None:
            parameters[INERTIA] = inertia
        return {**out, "parameters": parameters}


# ---- rare events ---------------------------------------------------------------------------------


class RareEvent(NamedTuple):
    """Probability of a rare event, from `Study.rare_event`.

    Attributes
    ----------
    probability : float
        The probability.
    error : float
        Its standard error, relative to it.
    levels : ndarray, shape (k,)
        Intermediate thresholds.
    runs : int
        Number of runs that were made.
    points : ndarray, shape (n, d)
        Points of the unit cube of runs beyond the limit: ``study.distributions.at(points)`` has
        their samples.
    values : ndarray, shape (n,)
        Values of these runs.
    """

    probability: float
    error: float
    levels: Array
    runs: int
    points: Array
    values: Array

    def __repr__(self) -> str:
        failed = np.count_nonzero(np.isinf(self.values))
        beyond = f", {failed} of the {len(self.values)} beyond failed" if failed else ""
        error = 100 * self.error
        return f"<rare event {self.probability:.3g} ± {error:.0f} %, {self.runs} runs{beyond}>"


def subset_simulation(
    value: Callable[[Array], Array],
    dimension: int,
    limit: float,
    runs: int,
    share: float,
    seed: int,
) -> RareEvent:
    """The probability that value(u) > limit for u in the unit cube; see `Study.rare_event`.

    P(y > limit) = P(y > y₁) P(y > y₂ | y > y₁) …, with levels that each a tenth of the runs
    exceeds. Runs beyond a level are continued by Markov chains in the space of standard normal
    numbers z, which keep their distribution there: z' = ρ z + √(1 − ρ²) ξ is taken if y(z') is
    beyond the level too (adaptive conditional sampling). All chains of a level advance together, a
    batch of runs at a time.
    **Source:** Papaioannou, Betz, Zwirglmaier and Straub 2015.
    """
    count = whole_number("runs", runs, 20)
    if not math.isfinite(number_of(limit)):
        raise InputError(f"limit={limit!r} must be a finite number")
    if not 0 < number_of(share) <= 0.5:
        raise InputError(f"share={share!r} must be above 0 and at most 0.5")
    seed = whole_number("seed", seed, 0)
    seeds = max(1, round(share * count))
    chain = -(-count // seeds)
    count = seeds * chain
    ndtr = import_optional("scipy.special", "rare events", "scipy").ndtr
    rng = np.random.Generator(np.random.Philox(key=seed))

    def at(z: Array) -> Array:
        return value(_inside(ndtr(z)))

    z = rng.standard_normal((count, dimension))
    y = at(z)
    made, levels, spread, variance, log_p = count, [], 0.6, 0.0, 0.0
    correlated = np.zeros((1, 1))
    while True:
        order = np.argsort(-y, kind="stable")
        level = float(y[order[seeds - 1]])
        last = level >= limit or len(levels) >= _MOST_LEVELS
        beyond = y > limit if last else y >= level
        p = float(beyond.mean())
        if p == 0:
            return RareEvent(0.0, math.inf, np.array(levels), made, z[:0], y[:0])
        variance += (1 - p) / (p * count) * (1 + _dependence(beyond, p, correlated))
        log_p += math.log(p)
        if last:
            points = _inside(ndtr(z[beyond]))
            error = math.sqrt(variance)
            return RareEvent(math.exp(log_p), error, np.array(levels), made, points, y[beyond])
        levels.append(level)
        start = order[:seeds]
        z, y, spread = _beyond(level, z[start], y[start], chain, spread, at, rng)
        made += seeds * (chain - 1)
        correlated = np.zeros((chain, seeds))


def _beyond(
    level: float,
    z: Array,
    y: Array,
    length: int,
    spread: float,
    at: Callable[[Array], Array],
    rng: np.random.Generator,
) -> tuple[Array, Array, float]:
    """Chains of this length from runs beyond a level: all their points and values, and the spread.

    The spread √(1 − ρ²) of steps is adapted until the wanted share of them is taken.
    """
    parts_z, parts_y = [z], [y]
    for _ in range(length - 1):
        rho = math.sqrt(1 - spread**2)
        moved = rho * parts_z[-1] + spread * rng.standard_normal(z.shape)
        found = at(moved)
        taken = found >= level
        parts_z.append(np.where(taken[:, None], moved, parts_z[-1]))
        parts_y.append(np.where(taken, found, parts_y[-1]))
        spread = min(0.999, spread * math.exp(float(taken.mean()) - _WANTED_SHARE))
    return np.concatenate(parts_z), np.concatenate(parts_y), spread


def _dependence(beyond: Array, p: float, chains: Array) -> float:
    """How much the dependence of runs in a chain widens the error: γ of Au and Beck."""
    length, count = chains.shape
    if length == 1 or p >= 1:
        return 0.0
    hits = beyond.reshape(length, count).astype(float) - p
    total = 0.0
    for lag in range(1, length):
        covariance = float((hits[:-lag] * hits[lag:]).mean())
        total += 2 * (1 - lag / length) * covariance / (p * (1 - p))
    return max(0.0, total)
