"""What the bridges to PyTorch and JAX have in common: value, tangent and pullback on NumPy arrays.

A bridge is a function of arrays with a common batch in front. Derivatives are by the components of
the arrays, so that chain rules of other frameworks fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import (
    FORWARD_DYNAMICS,
    INVERSE_DYNAMICS,
    KINETIC_ENERGY,
    System,
    forward_with_rows,
    motions,
)
from phipsi.core.backends import Program, vector_shape
from phipsi.core.calculus import VARIABLES, Family, diff, vjp
from phipsi.core.compiler import compile
from phipsi.core.expressions import Expr, check
from phipsi.core.model import (
    Model,
    PointSet,
    Refusal,
    point_set,
    supports,
    tree_of,
    whole_number,
)
from phipsi.core.operators import J
from phipsi.errors import InputError, SpaceError
from phipsi.learning.coordinate_maps import CoordinateMaps
from phipsi.simulation import (
    Simulator,
    SimulatorState,
    recorded_run,
    rollout,
    rollout_gradient,
    whole_rollout,
)

Array = NDArray[Any]


class Bridge(ABC):
    """A differentiable function.

    Attributes
    ----------
    names : tuple of str
        Names of the inputs.
    core, results : tuple of tuple of int
        Shapes of inputs and of results without the batch.
    """

    names: tuple[str, ...]
    core: tuple[tuple[int, ...], ...]
    results: tuple[tuple[int, ...], ...]

    @abstractmethod
    def value(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Results for inputs with a common batch."""

    @abstractmethod
    def tangent(self, inputs: Sequence[Array], changes: Sequence[Array]) -> tuple[Array, ...]:
        """Changes of the results for changes of the inputs."""

    @abstractmethod
    def pullback(self, inputs: Sequence[Array], weights: Sequence[Array]) -> tuple[Array, ...]:
        """Gradients of Σ weights · results by every input."""

    def doubles(self, inputs: Sequence[Array]) -> list[Array]:
        """The inputs in double precision, in which the work is done."""
        return [np.asarray(x, dtype=np.float64) for x in inputs]

    def check_real(self, kinds: Sequence[tuple[Any, bool]]) -> None:
        """Reject arrays that are complex; `kinds`, their dtypes and whether these are."""
        for name, (dtype, is_complex) in zip(self.names, kinds, strict=False):
            if is_complex:
                raise InputError(
                    f"{name} holds {dtype}, but must be real: its imaginary part would be lost. "
                    f"Pass {name}.real, or use derivatives of the function instead of complex "
                    "steps"
                )

    def batch(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """The common batch of arrays of these shapes, each checked."""
        if len(shapes) != len(self.core):
            listed = ", ".join(self.names)
            raise InputError(f"{len(shapes)} arrays were passed, but the inputs are ({listed})")
        batches: list[tuple[int, ...]] = []
        for name, shape, core in zip(self.names, shapes, self.core, strict=True):
            if tuple(shape[len(shape) - len(core) :]) != core or len(shape) < len(core):
                raise InputError(f"{name} has shape {tuple(shape)}, but must end with {core}")
            batches.append(tuple(shape[: len(shape) - len(core)]))
        try:
            return np.broadcast_shapes(*batches)
        except ValueError:
            listed = ", ".join(f"{n} {tuple(s)}" for n, s in zip(self.names, shapes, strict=True))
            raise InputError(f"the leading axes of {listed} do not broadcast") from None


@final
class ExpressionBridge(Bridge):
    """A vector expression compiled for a model or a system, differentiable by all its inputs."""

    def __init__(
        self,
        expr: Expr,
        model: Model,
        points: Sequence[Any] | None,
        backend: str | None,
    ) -> None:
        if not isinstance(expr, Expr) or not expr.is_vector or expr.gives.of_poses:
            shown = f"{expr} : {check.signature(expr)}" if isinstance(expr, Expr) else repr(expr)
            raise SpaceError(
                f"a bridge needs a vector or scalar expression, such as mass_matrix.inv @ tau, but "
                f"got\n    {shown}"
            )
        tree = tree_of(model, FrameworkFunctions.function)
        self.expr, self.model = expr, model
        self._options: dict[str, Any] = {"points": points, "backend": backend}
        self.program: Program = compile(expr, model, **self._options)
        self.names = self.program.inputs
        unknown = [name for name in self.names if name not in VARIABLES]
        if unknown:
            raise InputError(
                f"{expr} needs {unknown[0]}, with respect to which derivatives are not implemented"
            )
        shapes = self.program.input_shapes
        self.core = tuple(shapes[name] for name in self.names)
        self.results = (vector_shape(expr.gives, tree, self.program.request.points),)
        self._maps = CoordinateMaps(tree)
        self._q = self.names.index("q") if "q" in self.names else None

    @cached_property
    def _changes(self) -> tuple[Any, ...]:
        """The derivative by every input: an operator, or a family where there is none."""
        modes = self.model.has_more_rows
        return tuple(diff(self.expr, name, modes=modes) for name in self.names)

    @cached_property
    def _derivatives(self) -> Program:
        parts = tuple(x.expr if isinstance(x, Family) else x for x in self._changes)
        return compile(parts, self.model, **self._options)

    @cached_property
    def _gradients(self) -> Program:
        return vjp(self.expr, self.model, self.names, **self._options)

    def value(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The value of the expression."""
        return (np.asarray(self.program(*inputs)),)

    def tangent(self, inputs: Sequence[Array], changes: Sequence[Array]) -> tuple[Array, ...]:
        """Σ over inputs of the derivative times the change."""
        moved = list(changes)
        if self._q is not None:
            moved[self._q] = self._maps.rates(inputs[self._q], changes[self._q])
        named = dict(zip(self.names, inputs, strict=True))
        applied: list[Array] = []
        for change, u in zip(self._changes, moved, strict=True):
            if isinstance(change, Family):  # its direction is an input of the program
                named[change.directions[0].name] = u
            else:
                applied.append(u)
        operands = [n for n in self._derivatives.inputs if n not in named]
        named |= dict(zip(operands, applied, strict=True))
        parts: Any = self._derivatives(*(named[n] for n in self._derivatives.inputs))
        return (np.asarray(sum(parts) if isinstance(parts, tuple) else parts),)

    def pullback(self, inputs: Sequence[Array], weights: Sequence[Array]) -> tuple[Array, ...]:
        """The sweeps of the derivative, run the other way."""
        named = dict(zip(self.names, inputs, strict=True)) | {"x": weights[0]}
        program = self._gradients
        found: Any = program(*(named[n] for n in program.inputs))
        out = list(found) if isinstance(found, tuple) else [found]
        if self.expr.is_scalar:  # its adjoint derivative is a vector, not applied to anything
            scaled = zip(out, self.core, strict=True)
            out = [g * weights[0].reshape(*weights[0].shape, *(1 for _ in c)) for g, c in scaled]
        if self._q is not None:
            out[self._q] = self._maps.gradient(inputs[self._q], out[self._q])
        shapes = [np.shape(x) for x in inputs]
        return tuple(np.broadcast_to(g, s) for g, s in zip(out, shapes, strict=True))


@final
class PosesBridge(Bridge):
    """Poses of frames in the world, as matrices (4, 4)."""

    def __init__(self, model: Model, frames: PointSet, backend: str | None) -> None:
        self.model, self.frames = model, frames
        self.names, self.core = ("q",), ((model.nq,),)
        self.results = ((len(frames), 4, 4),)
        self._moves = compile(J, model, points=frames, backend=backend)
        self._pulls = compile(J.T, model, points=frames, backend=backend)
        self._maps = CoordinateMaps(model)

    def value(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The poses."""
        return (motions.poses(self.model, inputs[0], self.frames),)

    def tangent(self, inputs: Sequence[Array], changes: Sequence[Array]) -> tuple[Array, ...]:
        """δR = δθ × R and δp, from the Jacobian in world axes."""
        q = inputs[0]
        poses = self.value(inputs)[0]
        motion = self._moves(q, self._maps.rates(q, changes[0]))
        out = np.zeros_like(poses)
        turn = np.swapaxes(poses[..., :3, :3], -1, -2)  # columns of R as rows
        out[..., :3, :3] = np.swapaxes(np.cross(motion[..., None, :3], turn), -1, -2)
        out[..., :3, 3] = motion[..., 3:]
        return (out,)

    def pullback(self, inputs: Sequence[Array], weights: Sequence[Array]) -> tuple[Array, ...]:
        """Weights of R and p as moments and forces on the frames."""
        q, w = inputs[0], weights[0]
        turn = np.swapaxes(self.value(inputs)[0][..., :3, :3], -1, -2)
        moment = np.cross(turn, np.swapaxes(w[..., :3, :3], -1, -2)).sum(-2)
        force = np.concatenate([moment, w[..., :3, 3]], axis=-1)
        return (self._maps.gradient(q, self._pulls(q, force)),)


@final
class RolloutBridge(Bridge):
    """A motion of given efforts: initial state and efforts → all states."""

    def __init__(self, model: Model | System, dt: float, steps: int, integrator: str) -> None:
        tree = tree_of(model, rollout)
        self.model, self.dt, self.steps, self.integrator = model, dt, steps, integrator
        self.names = ("q0", "v0", "tau")
        nq, nv = tree.nq, tree.nv
        self.core = ((nq,), (nv,), (steps, nv))
        self.results = ((steps + 1, nq), (steps + 1, nv))
        self._maps = CoordinateMaps(tree)

    def doubles(self, inputs: Sequence[Array]) -> list[Array]:
        """The inputs in double precision; quaternions of q0 are unit in it."""
        _, *rest = super().doubles(inputs)
        return [self._maps.with_unit_quaternions(inputs[0]), *rest]

    def value(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The states."""
        q0, v0, tau = inputs
        return whole_rollout(
            self.model, q0, v0, tau, self.dt, self.steps, integrator=self.integrator, per_step=True
        )

    def tangent(self, inputs: Sequence[Array], changes: Sequence[Array]) -> tuple[Array, ...]:
        """Not offered: gradients of motions go backwards."""
        raise InputError(
            "a rollout has reverse-mode derivatives only (grad, vjp, backward); for forward mode "
            "use step_derivatives"
        )

    def pullback(self, inputs: Sequence[Array], weights: Sequence[Array]) -> tuple[Array, ...]:
        """The adjoint of the integrator, with the weights as its sources."""
        q0, v0, tau = inputs
        by_q, by_v = weights

        def running(k: Array, q: Array, v: Array, tau: Array) -> tuple[Any, ...]:
            along = self._maps.adjoint(q, by_q[..., k, :])
            return 0.0, along, by_v[..., k, :], None

        def final(q: Array, v: Array) -> tuple[Any, ...]:
            return 0.0, self._maps.adjoint(q, by_q[..., -1, :]), by_v[..., -1, :]

        found = rollout_gradient(
            self.model,
            q0,
            v0,
            tau,
            self.dt,
            self.steps,
            running=running,  # type: ignore[arg-type]
            final=final,  # type: ignore[arg-type]
            integrator=self.integrator,
            per_step=True,
        )
        return self._maps.gradient(q0, found.q0), found.v0, found.tau


@final
class SimulatorBridge(Bridge):
    """Runs of a `Simulator`: initial state, efforts and parameters of laws → records."""

    def __init__(
        self,
        simulator: Simulator,
        steps: int,
        record_every: int,
        record: tuple[str, ...],
        parameters: tuple[str, ...],
    ) -> None:
        self.simulator, self.steps = simulator, steps
        self.record_every, self.record = record_every, record
        self._parameters, model = parameters, simulator.model
        known = simulator.parameters
        for name in parameters:
            if known.get(name) is None:
                listed = ", ".join(repr(n) for n, x in known.items() if x is not None) or "none"
                raise InputError(f"{name!r} is not a parameter of the laws: {listed}")
        self.names = ("q0", "v0", "tau", *parameters)
        shapes = [np.shape(known[name]) for name in parameters]  # type: ignore[arg-type]
        self.core = ((model.nq,), (model.nv,), (steps, model.nv), *shapes)
        self._maps = CoordinateMaps(model)
        self.results = tuple(
            (steps // record_every + 1, *simulator.shape_of(name)) for name in record
        )

    def doubles(self, inputs: Sequence[Array]) -> list[Array]:
        """The inputs in double precision; quaternions of q0 are unit in it."""
        _, *rest = super().doubles(inputs)
        return [self._maps.with_unit_quaternions(inputs[0]), *rest]

    def _start(self, inputs: Sequence[Array]) -> tuple[SimulatorState, Array]:
        q0, v0, tau, *values = inputs
        given = dict(zip(self._parameters, values, strict=True))
        return self.simulator.initial_state(q0, v0, parameters=given), tau

    def value(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The records."""
        state, tau = self._start(inputs)
        options: Any = {"record_every": self.record_every, "record": self.record, "per_step": True}
        run = recorded_run(self.simulator, state, tau, self.steps, **options)
        if run.state.status.any():
            raise run.state.failure(run)
        if not run.complete:  # frameworks know the shapes beforehand
            raise KeyboardInterrupt
        return tuple(run[name] for name in self.record)

    def tangent(self, inputs: Sequence[Array], changes: Sequence[Array]) -> tuple[Array, ...]:
        """Not offered: gradients of runs go backwards."""
        raise InputError(
            "a rollout of a simulator has reverse-mode derivatives only (grad, vjp, backward)"
        )

    def pullback(self, inputs: Sequence[Array], weights: Sequence[Array]) -> tuple[Array, ...]:
        """The adjoint of every step, with the weights as its sources."""
        state, tau = self._start(inputs)
        found = self.simulator.gradient(
            state, tau, self.steps, cotangents=dict(zip(self.record, weights, strict=True)),
            record_every=self.record_every, parameters=self._parameters, per_step=True,
        )  # fmt: skip
        rest = (found.parameters[name] for name in self._parameters)
        return self._maps.gradient(inputs[0], found.q), found.v, found.tau, *rest


# ---- changes along v and changes of the numbers in q ---------------------------------------------
#
# q̇ = N(q) v. Learning frameworks differentiate by the components of q, quaternions included; the
# functions here do not depend on the length of a quaternion, so their derivatives by components are
# N (N* N)⁻¹ g for derivatives g along v.


# ---- the functions that phipsi.torch and phipsi.jax offer ----------------------------------------

Function = Callable[..., Any]


@final
class FrameworkFunctions:
    """The named functions of one framework; `wrap` makes a bridge a function of its arrays."""

    def __init__(self, wrap: Callable[[Bridge], Function]) -> None:
        def wrapped(kind: Callable[..., Bridge], *arguments: Any) -> Function:
            call = wrap(bridge := kind(*arguments))
            call.inputs = bridge.names  # type: ignore[attr-defined]
            return call

        self._new = wrapped
        self._kept = lru_cache(maxsize=128)(wrapped)

    @supports(loops=True)
    def function(
        self,
        expr: Expr,
        model: Model | System,
        *,
        points: Sequence[Any] | None = None,
        backend: str | None = None,
    ) -> Function:
        """Differentiable function of a vector or scalar expression, with respect to all its inputs.

        It takes the inputs of the compiled program in their order (`.inputs`), with batches on
        leading axes. Forward mode uses the derivative of the expression, reverse mode the sweeps of
        its adjoint.

        Parameters
        ----------
        expr : Expr
            The expression.
        model : Model
            A tree, or a `System`.
        points, backend : optional
            As for `compile`.

        Returns
        -------
        callable
            A function of arrays of the framework.

        Examples
        --------
        >>> import phipsi.torch as pt             # or phipsi.jax            # doctest: +SKIP
        >>> from phipsi.operators import mass_matrix, tau
        >>> solve = pt.function(mass_matrix.inv @ tau, model)                # doctest: +SKIP
        >>> vdot = solve(q, tau)                                             # doctest: +SKIP
        """
        return self._new(ExpressionBridge, expr, model, points, backend)

    def forward_dynamics(self, model: Model | System, q: Any, v: Any, tau: Any) -> Any:
        """Joint accelerations (..., nv), differentiable; see `phipsi.forward_dynamics`.

        Parameters
        ----------
        model : Model
            A tree, or a `System`.
        q, v, tau : array, shape (..., nq), (..., nv) and (..., nv)
            Configuration, generalized velocities, joint torques and forces.
        """
        loops = isinstance(model, System) and model.n_rows > 0
        form = forward_with_rows(None, False, False)[0] if loops else FORWARD_DYNAMICS
        return self._kept(ExpressionBridge, form, model, None, None)(q, v, tau)

    @supports(
        loops=Refusal(
            "its torques come from a dense solution, whose derivatives are not implemented",
            "Without derivatives:  pp.inverse_dynamics(system, q, v, vdot, actuated=[…])",
        )
    )
    def inverse_dynamics(self, model: Model, q: Any, v: Any, vdot: Any) -> Any:
        """Joint torques and forces (..., nv) of a motion; see `phipsi.inverse_dynamics`.

        Parameters
        ----------
        model : Model
            A tree.
        q, v, vdot : array, shape (..., nq), (..., nv) and (..., nv)
            Configuration, generalized velocities and accelerations.
        """
        model = tree_of(model, type(self).inverse_dynamics)
        return self._kept(ExpressionBridge, INVERSE_DYNAMICS, model, None, None)(q, v, vdot)

    def kinetic_energy(self, model: Model, q: Any, v: Any) -> Any:
        """Kinetic energy (...), differentiable; see `phipsi.kinetic_energy`.

        Parameters
        ----------
        model : Model
            A tree, or a `System`.
        q, v : array, shape (..., nq) and (..., nv)
            Configuration and generalized velocities.
        """
        return self._kept(ExpressionBridge, KINETIC_ENERGY, model, None, None)(q, v)

    def poses(self, model: Model, q: Any, points: Sequence[Any]) -> Any:
        """Poses (..., k, 4, 4) of bodies, frames or points in the world, differentiable.

        Parameters
        ----------
        model : Model
            A tree, or a `System`.
        q : array, shape (..., nq)
            Configuration.
        points : sequence
            Bodies, frames, or (name, offset in m).
        """
        tree = tree_of(model, motions.poses)
        return self._kept(PosesBridge, tree, point_set(tree, points), None)(q)

    def rollout(
        self,
        model: Model | System,
        q0: Any,
        v0: Any,
        tau: Any,
        dt: float,
        *,
        integrator: str = "rk4",
    ) -> tuple[Any, Any]:
        """Differentiable rollout: states under given joint torques and forces.

        Reverse mode runs the adjoint of the integrator; see `phipsi.rollout_gradient`.

        Parameters
        ----------
        model : Model
            A tree, or a `System`.
        q0, v0 : array, shape (..., nq) and (..., nv)
            Initial states.
        tau : array, shape (..., steps, nv)
            Joint torques and forces, N·m or N.
        dt : float
            Time step, s.
        integrator : str, optional
            As for `phipsi.rollout_gradient`.

        Returns
        -------
        q, v : array, shape (..., steps + 1, nq) and (..., steps + 1, nv)
            States.
        """
        steps = int(np.shape(tau)[-2])
        return self._kept(RolloutBridge, model, float(dt), steps, integrator)(q0, v0, tau)

    def simulator_rollout(
        self,
        simulator: Simulator,
        q0: Any,
        v0: Any,
        tau: Any,
        *,
        record: Sequence[str] = ("q", "v"),
        record_every: int = 1,
        parameters: Mapping[str, Any] | None = None,
    ) -> Any:
        """Differentiable rollout of a `Simulator` with its laws.

        Reverse mode runs the adjoint of every step in machine code; see `Simulator.gradient`.

        Parameters
        ----------
        simulator : Simulator
            The simulator.
        q0, v0 : array, shape (..., nq) and (..., nv)
            Initial states.
        tau : array, shape (..., steps, nv)
            Joint torques and forces besides those of the laws, N·m or N.
        record, record_every : optional
            As for `Simulator.rollout`.
        parameters : mapping of str to array, shape (..., *shape), optional
            Parameters of laws by name, with respect to which the rollout is differentiated too:
            gains of a controller, weights of a policy.

        Returns
        -------
        array or tuple of array, shape (..., kept, *shape)
            The records, in the order of `record`; of one record the array itself, no tuple.

        Examples
        --------
        >>> import phipsi.torch as pt             # or phipsi.jax            # doctest: +SKIP
        >>> q, v = pt.simulator_rollout(sim, q0, v0, tau,
        ...                             parameters={"hold.kp": kp})          # doctest: +SKIP
        """
        given, steps = dict(parameters or {}), int(np.shape(tau)[-2])
        kind = (
            simulator,
            steps,
            whole_number("record_every", record_every),
            tuple(record),
            tuple(given),
        )
        return self._kept(SimulatorBridge, *kind)(q0, v0, tau, *given.values())
