"""equilibrium: states of rest and of steady motion of a mechanism with laws.

At such a state nothing accelerates and no state of a law changes. With the efforts u of all laws,
forces f of the constraints and the residual g(q) of the loops,

    u + τ − ID(q, v, 0) − G* f = 0,   ẋ = 0,   g(q) = 0,   G v = rates,   Ġ v = 0

is solved for what is unknown, by Newton's method with exact derivatives, and with Levenberg's
damping where a step of it would not help.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import (
    KKTSolver,
    System,
    chart_of,
    inverse_dynamics,
    inverse_dynamics_derivatives,
)
from phipsi.core.backends import joint_at, real_array
from phipsi.core.model import (
    Model,
    as_list,
    bent_too_far,
    entry_names,
    modal_amplitudes,
    modal_rates,
    rates_of,
    supports,
    tree_of,
    whole_number,
)
from phipsi.errors import (
    ConvergenceError,
    InputError,
    PhipsiWarning,
    SingularHingeError,
    did_you_mean,
)
from phipsi.simulation.analysis.law_linearization import LawLinearization
from phipsi.simulation.runs.checks import check_quaternions, checked_number, checked_time

Array = NDArray[Any]
_UNKNOWN = re.compile(r"^(.+?)(?:\[(.+)\])?$")
_CLOSED = 1e-10  # rad and m, rad/s and m/s: largest residual of the constraints
_LONGEST = 1.0  # rad or m: most that a step may change a position
_BEND = 5.0  # times the amplitude at which a mode bends a body by 2 %: most of a step
_SINGULAR = 1e-12  # below it, a direction of the unknowns changes nothing
_DAMPINGS = (0.0, *(10.0**k for k in range(-8, 9)))  # of a step, until one helps


@final
@dataclass(frozen=True, eq=False)
class Equilibrium:
    """State of rest or of steady motion, from `equilibrium`.

    Attributes
    ----------
    q, v : ndarray, shape (nq,) and (nv,)
        Configuration and generalized velocities.
    tau : ndarray, shape (nv,)
        Joint torques and forces besides those of laws, N·m or N.
    parameters, states : dict of str to ndarray
        Parameters and states of the laws by name.
    efforts : ndarray, shape (nv,)
        `tau` and the effect of all laws.
    f : ndarray, shape (rows,)
        Multipliers of the constraints, empty for a tree.
    residual : ndarray, shape (nv,)
        Torques and forces that are unbalanced.
    iterations : int
        Number of iterations.
    unknowns : tuple of str
        Names of the unknowns.
    """

    q: Array
    v: Array
    tau: Array
    parameters: dict[str, Array]
    states: dict[str, Array]
    efforts: Array
    f: Array
    residual: Array
    iterations: int
    unknowns: tuple[str, ...]

    def __repr__(self) -> str:
        kind = "steady motion" if self.v.any() else "rest"
        found = ", ".join(self.unknowns)
        return f"<{kind}: {found} found in {self.iterations} steps>"


@supports(loops=True, flexible=True, rotors=True)
def equilibrium(
    model: Model | System,
    laws: Any = (),
    *,
    q: ArrayLike | None = None,
    v: ArrayLike | Mapping[str, ArrayLike] | None = None,
    tau: ArrayLike | Mapping[str, ArrayLike] | None = None,
    parameters: Mapping[str, ArrayLike] | None = None,
    unknowns: str | Sequence[str] = ("q",),
    t: float = 0.0,
    dt: float | None = None,
    tolerance: float = 1e-10,
    max_iterations: int = 100,
) -> Equilibrium:
    """Find an equilibrium (trim point) near a given state: rest, or steady motion.

    Solves u + τ − ID(q, v, 0) − G* f = 0 for the unknowns, u being the tau of all laws and H φ f of
    their forces on bodies; loops are closed, and states of laws are where they do not change: the
    integral of a controller has found the load. At v = 0 that is a state of rest; otherwise a
    steady motion, with velocities that stay constant at this q.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    laws : optional
        Controllers and forces, as a `Simulator` takes them.
    q : array_like, shape (nq,), optional
        Configuration. Default: the neutral one.
    v, tau : array_like, shape (nv,), or mapping of str to array_like, optional
        Velocities, and joint torques and forces, N·m or N; or by names of joints, with zero for all
        others.
    parameters : mapping of str to array_like, optional
        Parameters of laws by name: fixed values, or the initial guess of those that are unknown.
    unknowns : str or sequence of str, optional
        Any of "q", "v", "tau" (of all joints), "q[elbow]", "v[elbow]", "tau[elbow]" and names of
        parameters, "hold.target", "hold.target[0]" or "hold.target[elbow]", and "modes", the
        deformations of flexible bodies, which "q[elbow]" does not change: with "modes", "tau" is
        that of the joints.
    t : float, optional
        Time, s, for laws that depend on it.
    dt : float, optional
        Step that sampled laws must fit, s. Default: 1e-3.
    tolerance : float, optional
        Largest unbalanced torque or force, relative to the largest one.
    max_iterations : int, optional
        Largest number of iterations.

    Returns
    -------
    Equilibrium
        The state. With more unknowns than equations, one near the initial guess.

    Raises
    ------
    ConvergenceError
        It names the joint that is not balanced; its `result` is the best state that was found.

    See Also
    --------
    linearize : Whether the state is stable: ``pp.linearize(…, laws=…)``.

    Notes
    -----
    **Cost:** per iteration derivatives of inverse dynamics and of the laws, and O(n³) for the n
    unknowns. **Source:** Nocedal and Wright 2006, ch. 10 and 11.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> spring = pp.forces.JointSpring("joint1", stiffness=100.0)
    >>> rest = pp.equilibrium(arm, [spring], unknowns=["q[joint1]", "tau[joint2]"])
    >>> rest.q.round(4)                    # the arm sags; joint2 is held straight
    array([-0.1926,  0.    ])
    >>> rest.tau.round(4)
    array([0.    , 4.8143])
    """
    tree = tree_of(model, equilibrium)
    acting = LawLinearization(tree, laws, 1e-3 if dt is None else checked_time(dt, "dt"))
    if dt is not None and not (acting.circuit.samplings or acting.circuit.delays):
        raise InputError(
            f"dt={dt!r} has no effect: it is the step that sampled laws must fit, and no law "
            "here is sampled. Remove it"
        )
    start = _start(tree, acting, q, v, tau, {} if parameters is None else parameters)
    start["t"] = checked_time(t, "t", backwards=True)
    system = model if isinstance(model, System) and model.n_rows else None
    small = checked_number(
        tolerance, "tolerance", "a number below 1, by default 1e-10,", zero=False
    )
    if small >= 1:
        raise InputError(f"tolerance={tolerance!r} must be between 0 and 1; by default it is 1e-10")
    search = _EquilibriumSolver(tree, system, acting, unknowns, small)
    return search.run(start, whole_number("max_iterations", max_iterations, 0))


# ---- arguments -----------------------------------------------------------------------------------


def _start(
    model: Model, acting: LawLinearization, q: Any, v: Any, tau: Any, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Where the search begins: q, v, tau, parameters and states of laws, by name."""
    places = model.neutral() if q is None else _finite("q", q, (model.nq,))
    check_quaternions(chart_of(model), places, "q")
    out = {"q": places, "v": _by_joint(model, "v", v), "tau": _by_joint(model, "tau", tau)}
    return out | acting.first() | acting.checked("parameter", parameters)


def _finite(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    array = real_array(name, value)
    if array.shape != shape:
        raise InputError(
            f"{name} has shape {array.shape}, but one state has {shape}; equilibrium finds one at "
            "a time"
        )
    return np.array(array, dtype=float)


def _by_joint(model: Model, name: str, given: Any) -> Array:
    """Rates or efforts (nv,), given whole or by the names of joints."""
    if given is None:
        return np.zeros(model.nv)
    if not isinstance(given, Mapping):
        return _finite(name, given, (model.nv,))
    out = np.zeros(model.nv)
    for joint, value in given.items():
        places = rates_of(model, joint)
        array = real_array(f"{name}[{joint}]", value)
        if array.shape not in ((), (len(places),)):
            raise InputError(
                f"{name}[{joint}] has shape {array.shape}, but the joint has {len(places)} rates"
            )
        out[places] = array
    return out


# ---- the search ----------------------------------------------------------------------------------


@final
class _EquilibriumSolver:
    """Equations, unknowns, and steps."""

    def __init__(
        self,
        model: Model,
        system: System | None,
        acting: LawLinearization,
        unknowns: str | Sequence[str],
        tolerance: float,
    ) -> None:
        self.model, self.system, self.acting, self.tolerance = model, system, acting, tolerance
        self.largest = 0.0
        self.joints = np.setdiff1d(np.arange(model.nv), modal_rates(model))
        self.reach = np.full(model.nv, _LONGEST)
        for at, body in zip(model.v_slices, model.flexible, strict=True):
            if body is not None:
                self.reach[at.stop - body.modes : at.stop] = _BEND * modal_amplitudes(body)
        listed = as_list("unknowns", unknowns, '["q"]')
        if not all(isinstance(x, str) for x in listed):
            raise InputError(f'unknowns={unknowns!r} must be names, such as ["q", "tau[elbow]"]')
        self.names = tuple(dict.fromkeys(listed))
        places: dict[str, list[int]] = {"q": []}
        for name in self.names:
            which, found = self._places(name)
            places.setdefault(which, []).extend(int(i) for i in found)
        self.chosen = {which: np.unique(np.array(x, dtype=int)) for which, x in places.items()}
        for name in acting.states:
            self.chosen[name] = np.arange(int(np.prod(acting.shapes[name])))
        if not sum(map(len, self.chosen.values())):
            raise InputError(
                'there are no unknowns. Pass what to solve for:  unknowns=("q",) or '
                f'("tau[{model.joint_names[0]}]",)'
            )

    def _places(self, name: Any) -> tuple[str, Array]:
        """The quantity that an unknown belongs to, and which of its entries it has."""
        found = _UNKNOWN.match(name) if isinstance(name, str) else None
        which, entry = found.groups() if found else ("", None)
        known = self.acting.circuit.of_kind("parameter")
        if name == "modes" and self.model.is_flexible:
            return "q", modal_rates(self.model)
        if name == "tau" and {"q", "modes"}.intersection(self.names):
            return which, self.joints  # modes that find their place have no drive
        if which in ("q", "v", "tau"):
            return which, rates_of(self.model, entry)
        if which in known:
            size = int(np.prod(known[which].shape))
            if entry is None:
                return which, np.arange(size)
            if entry.isdecimal() and int(entry) < size:
                return which, np.array([int(entry)])
            if known[which].shape == (self.model.nv,):
                return which, rates_of(self.model, entry)
        fit = ["q", "v", "tau", *(f"q[{x}]" for x in self.model.joint_names), *known]
        raise InputError(
            f"unknowns has {name!r}, which is not 'q', 'v', 'tau', one of these of a joint, such "
            f"as 'q[{self.model.joint_names[-1]}]', or a parameter of the laws "
            f"({', '.join(known) or 'none'}). {did_you_mean(str(name), fit)}"
        )

    # ---- equations

    def equations(self, at: Mapping[str, Any]) -> Array:
        """All residuals at a state."""
        model, system = self.model, self.system
        q, v, nv = at["q"], at["v"], self.model.nv
        acts = self.acting.values(at)
        needed = inverse_dynamics(model, q, v, np.zeros(nv))
        terms = [acts[:nv], needed]
        parts = [acts[:nv] - needed, acts[nv:]]
        if system is not None:
            G = system.jacobian(q)
            terms.append(G.T @ at["f"])
            parts[0] = parts[0] - terms[-1]
            parts += [system.residual(q), G @ v - system.rates, system.bias(q, v)]
        self._note(*terms)
        return np.concatenate(parts)

    def _note(self, *efforts: Array) -> None:
        """Efforts that occur: what is left unbalanced is small or large beside them."""
        for x in efforts:
            if np.isfinite(x).all():
                self.largest = max(self.largest, float(np.abs(x).max(initial=0.0)))

    def sizes(self, count: int) -> Array:
        """What each residual is compared with: efforts with the largest one."""
        out = np.ones(count)
        out[: self.model.nv] = self.largest or 1.0
        return out

    def jacobian(self, at: Mapping[str, Any]) -> Array:
        """Derivatives (equations, unknowns) of the residuals."""
        model, system, nv = self.model, self.system, self.model.nv
        q, v, zero = at["q"], at["v"], np.zeros(self.model.nv)
        wanted = dict.fromkeys(("q", "v", *self.chosen))
        by = self.acting.derivatives(at, tuple(wanted))
        motion = inverse_dynamics_derivatives(model, q, v, zero)
        self._note(motion.by_q[np.ix_(self.joints, self.joints)])  # not the stiffness of modes
        for name, x in (("q", motion.by_q), ("v", motion.by_v)):
            by[name] = by[name].copy()
            by[name][:nv] -= x
        columns = {name: by[name][:, at_] for name, at_ in self.chosen.items()}
        if system is None:
            return np.hstack(list(columns.values()))
        solver, rows = KKTSolver(system, q), system.rows
        G, n = solver.jacobian, system.n_rows
        acc_q, acc_v = solver.accelerations_by(v, zero)
        below = {
            "q": np.vstack([rows.has_position[:, None] * G, solver.rates_by_q(v), acc_q]),
            "v": np.vstack([np.zeros_like(G), G, acc_v]),
        }
        if "q" in columns:
            columns["q"] = columns["q"].copy()
            columns["q"][:nv] -= solver.loads_by_q(at["f"])[:, self.chosen["q"]]
        out = []
        for name, above in columns.items():
            more = below[name][:, self.chosen[name]] if name in below else None
            out.append(
                np.vstack([above, np.zeros((3 * n, above.shape[1])) if more is None else more])
            )
        states = len(self.acting.values(at)) - nv
        out.append(np.vstack([-G.T, np.zeros((states + 3 * n, n))]))
        return np.hstack(out)

    # ---- steps

    def moved(self, at: Mapping[str, Any], step: Array) -> dict[str, Any]:
        """The state after a step of the unknowns."""
        out, first = dict(at), 0
        for name, places in self.chosen.items():
            part = step[first : first + len(places)]
            first += len(places)
            if name == "q":
                change = np.zeros(self.model.nv)
                change[places] = part
                out["q"] = self.model.integrate(at["q"], change)
            else:
                flat = np.ravel(at[name]).copy()
                flat[places] += part
                out[name] = flat.reshape(np.shape(at[name]))
        if self.system is not None:
            out["f"] = at["f"] + step[first:]
        return out

    def run(self, at: dict[str, Any], most: int) -> Equilibrium:
        """Steps until the equations hold, and one more, which costs little and squares the rest."""
        if self.system is not None:
            at["f"] = np.zeros(self.system.n_rows)
        residual = self.equations(at)
        done, holds = 0, False
        while done < most and not holds and np.isfinite(residual).all():
            try:
                slope = self.jacobian(at)
            except SingularHingeError:
                if not self._bent(at):
                    raise
                break
            holds = self._holds(residual)
            found = self._step(at, residual, slope)
            if found is None:
                break
            at, residual = found
            done += 1
        result = self._result(at, residual, done)
        if not self._holds(residual):
            text = self._bent(at)
            if text:
                text = (
                    f"no equilibrium was found near the initial guess, after {done} iterations.\n"
                    f"{text}"
                )
            raise ConvergenceError(text or self._failure(residual, done, most), result)
        bent = self._bent(at)
        if bent:
            warnings.warn(
                (f"this equilibrium is outside the range in which the model is valid.\n{bent}"),
                PhipsiWarning,
                stacklevel=3,
            )
        return result

    def _bent(self, at: Mapping[str, Any]) -> str:
        """Which body is bent further than its modes describe, if one is."""
        return bent_too_far(self.model, at["q"]) if self.model.is_flexible else ""

    def _holds(self, residual: Array) -> bool:
        most = self.tolerance * self.sizes(len(residual))
        if self.system is not None:
            most[len(residual) - 3 * self.system.n_rows :] = _CLOSED
        return bool((np.abs(residual) <= most).all())

    def _step(
        self, at: dict[str, Any], residual: Array, slope: Array
    ) -> tuple[dict[str, Any], Array] | None:
        """The state after the least damped step that reduces the residual; None if none does."""
        if not np.isfinite(slope).all():
            return None
        sizes = self.sizes(len(residual))
        slope, goal = slope / sizes[:, None], -residual / sizes
        widths = np.linalg.norm(slope, axis=0)
        widths[widths == 0] = 1.0
        U, s, Vt = np.linalg.svd(slope / widths, full_matrices=False)
        kept = s > _SINGULAR * s.max(initial=0.0)
        U, s, Vt = U[:, kept], s[kept], Vt[kept]
        along, before = U.T @ goal, float(np.linalg.norm(goal))
        for damping in _DAMPINGS:
            step = (Vt.T @ (along * s / (s * s + damping))) / widths
            part = np.abs(step[: len(self.chosen["q"])]) / self.reach[self.chosen["q"]]
            longest = float(part.max(initial=0.0))
            step *= min(1.0, 1.0 / longest) if longest else 1.0
            new = self.moved(at, step)
            with np.errstate(all="ignore"):
                found = self.equations(new)
            if np.isfinite(found).all() and np.linalg.norm(found / sizes) < before:
                return new, found
        return None

    # ---- results

    def _result(self, at: Mapping[str, Any], residual: Array, done: int) -> Equilibrium:
        parameters = {n: at[n] for n in self.acting.circuit.of_kind("parameter")}
        states = {n: at[n] for n in self.acting.circuit.of_kind("state")}
        nv = self.model.nv
        return Equilibrium(
            at["q"], at["v"], at["tau"], parameters, states, self.acting.values(at)[:nv],
            at.get("f", np.zeros(0)), residual[:nv], done, self.names,
        )  # fmt: skip

    def _failure(self, residual: Array, done: int, most: int) -> str:
        """Which equation is worst, what was unknown, and what would help."""
        nv, model = self.model.nv, self.model
        rows = 0 if self.system is None else self.system.n_rows
        what, worst = self._worst(residual)
        count = sum(map(len, self.chosen.values()))
        lines = [
            f"no equilibrium was found near the initial guess, after {done} iterations: {what}.",
            f"The unknowns were {', '.join(self.names) or 'states of laws'}.",
        ]
        free = joint_at(model, model.v_slices, worst)
        if done >= most:
            lines.append(f"More iterations may help:  max_iterations={10 * max(most, 10)}")
        elif rows and 0 < len(self.chosen["q"]) < len(self.joints):
            kept = [x for x in self.names if not x.startswith("q[")]
            listed = ", ".join(f'"{x}"' for x in ("q", *kept))
            lines.append(
                "The mechanism has closed loops, in which the joints move together. Solve for all "
                f"coordinates:\n    unknowns=[{listed}]"
            )
        elif worst < nv and count < nv + (len(residual) - nv - 3 * rows) and free:
            lines.append(
                f"There are {count} unknowns for {len(residual) - 3 * rows} equations. Add the "
                "joint's torque or coordinate to the unknowns:\n"
                f"    unknowns=({self._more(free)})"
            )
        else:
            lines.append("Pass an initial guess nearer to it:  q=…, or choose other unknowns")
        return "\n".join(lines)

    def _more(self, joint: str) -> str:
        listed = [*self.names, f"tau[{joint}]"]
        return ", ".join(f'"{x}"' for x in dict.fromkeys(listed))

    def _worst(self, residual: Array) -> tuple[str, int]:
        nv, model, system = self.model.nv, self.model, self.system
        relative = np.where(np.isfinite(residual), np.abs(residual), np.inf)
        relative /= self.sizes(len(residual))
        worst = int(relative.argmax())
        value = residual[worst]
        if worst < nv:
            name = entry_names(model, model.v_slices)[worst]
            return f"{value:.4g} N·m (or N) at joint {name!r} are not balanced", worst
        rows = 0 if system is None else system.n_rows
        if worst < len(residual) - 3 * rows:
            at = worst - nv
            for name in self.acting.states:
                size = int(np.prod(self.acting.shapes[name]))
                if at < size:
                    return f"the state {name!r} of a law changes by {value:.4g}", worst
                at -= size
        assert system is not None
        kind, row = divmod(worst - (len(residual) - 3 * rows), rows)
        about = ("is open", "is not at its rate", "would have to accelerate")[kind]
        return f"the row {system.row_names[row]!r} {about} by {value:.4g}", worst
