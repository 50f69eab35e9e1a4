"""JAX: compiled programs and named algorithms as primitives with jvp, vjp, vmap and jit.

    import phipsi.jax as pj

    forward = pj.function(mass_matrix.inv @ (tau - bias), model)   # any vector expression
    vdot = pj.forward_dynamics(model, q, v, tau)                   # the named ones
    gradient = jax.grad(lambda tau: pj.forward_dynamics(model, q, v, tau).sum())(tau)

The work is done on the CPU in float64 by a callback, which jitted code calls; results have the type
of the inputs (enable x64 for full precision). Gradients by q are by its components. Derivatives of
derivatives are not defined. Needs JAX (``pip install "phipsi[jax]"``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from phipsi.algorithms.dynamics import FORWARD_DYNAMICS, INVERSE_DYNAMICS
from phipsi.algorithms.energy import KINETIC_ENERGY
from phipsi.expressions.node import Expr
from phipsi.interfaces.bridge import Bridge, ExpressionBridge, PosesBridge, RolloutBridge
from phipsi.model.model import Model
from phipsi.simulation.optional import needed

__all__ = [
    "forward_dynamics",
    "frame_poses",
    "function",
    "inverse_dynamics",
    "kinetic_energy",
    "rollout",
]


def function(
    expr: Expr,
    model: Model,
    *,
    points: Sequence[Any] | None = None,
    backend: str | None = None,
) -> Callable[..., Any]:
    """A JAX function from a vector or scalar expression, differentiable by all its inputs.

    It takes the inputs of the compiled program in their order (`.inputs`), with batches on leading
    axes. Forward mode uses the derivative of the expression, reverse mode the sweeps of its
    adjoint.

    >>> import phipsi.jax as pj                                          # doctest: +SKIP
    >>> from phipsi.operators import mass_matrix, tau
    >>> solve = pj.function(mass_matrix.inv @ tau, model)                # doctest: +SKIP
    >>> jax.jit(jax.vmap(solve))(q, tau)                                 # doctest: +SKIP
    """
    return _wrapped(ExpressionBridge(expr, model, points, backend))


def forward_dynamics(model: Model, q: Any, v: Any, tau: Any) -> Any:
    """Joint accelerations (..., nv) that efforts cause; see `phipsi.forward_dynamics`."""
    return _named(FORWARD_DYNAMICS, model)(q, v, tau)


def inverse_dynamics(model: Model, q: Any, v: Any, vdot: Any) -> Any:
    """Joint efforts (..., nv) that a motion needs; see `phipsi.inverse_dynamics`."""
    return _named(INVERSE_DYNAMICS, model)(q, v, vdot)


def kinetic_energy(model: Model, q: Any, v: Any) -> Any:
    """Kinetic energy (...); see `phipsi.kinetic_energy`."""
    return _named(KINETIC_ENERGY, model)(q, v)


def frame_poses(model: Model, q: Any, frames: Sequence[Any]) -> Any:
    """Poses (..., k, 4, 4) of bodies, frames or points in the world."""
    return _poses(model, tuple(frames))(q)


def rollout(
    model: Model, q0: Any, v0: Any, tau: Any, dt: float, *, integrator: str = "semi_implicit"
) -> tuple[Any, Any]:
    """States (..., steps + 1, nq) and (..., steps + 1, nv) under the efforts (..., steps, nv).

    Reverse mode runs the adjoint of the integrator; see `phipsi.rollout_gradient`.
    """
    return _rollout(model, float(dt), int(np.shape(tau)[-2]), integrator)(q0, v0, tau)


@lru_cache(maxsize=64)
def _named(expr: Expr, model: Model) -> Callable[..., Any]:
    return _wrapped(ExpressionBridge(expr, model, None, None))


@lru_cache(maxsize=64)
def _poses(model: Model, frames: tuple[Any, ...]) -> Callable[..., Any]:
    return _wrapped(PosesBridge(model, frames, None))


@lru_cache(maxsize=64)
def _rollout(model: Model, dt: float, steps: int, integrator: str) -> Callable[..., Any]:
    return _wrapped(RolloutBridge(model, dt, steps, integrator))


def _wrapped(bridge: Bridge) -> Callable[..., Any]:
    """The bridge as a function of arrays, with their common batch made explicit."""
    jnp, value = _load("jax.numpy"), primitives().value

    def call(*arrays: Any) -> Any:
        given = [jnp.asarray(x) for x in arrays]
        dtype = jnp.result_type(float, *given)
        batch = bridge.batch([x.shape for x in given])
        full = [
            jnp.broadcast_to(x.astype(dtype), (*batch, *core))
            for x, core in zip(given, bridge.core, strict=True)
        ]
        out = value.bind(*full, bridge=bridge)
        return tuple(out) if len(bridge.results) > 1 else out[0]

    call.inputs = bridge.names  # type: ignore[attr-defined]
    return call


def _load(module: str) -> Any:
    return needed(module, "phipsi.jax", '"phipsi[jax]"')


# ---- the three primitives ------------------------------------------------------------------------


class Primitives(NamedTuple):
    """Value of a bridge; its tangent, linear in the second half of the operands; its pullback."""

    value: Any
    tangent: Any
    pullback: Any


@cache
def primitives() -> Primitives:
    """The three primitives, defined when JAX is first needed."""
    ad = _load("jax.interpreters.ad")

    def value(bridge: Bridge, *operands: Any) -> Sequence[Any]:
        return bridge.value(operands)

    def tangent(bridge: Bridge, *operands: Any) -> Sequence[Any]:
        n = len(bridge.core)
        return bridge.tangent(operands[:n], operands[n:])

    def pullback(bridge: Bridge, *operands: Any) -> Sequence[Any]:
        n = len(bridge.core)
        return bridge.pullback(operands[:n], operands[n:])

    all_three = Primitives(
        _primitive("phipsi", value, "results"),
        _primitive("phipsi_tangent", tangent, "results"),
        _primitive("phipsi_pullback", pullback, "core"),
    )

    def jvp(primals: Any, tangents: Any, *, bridge: Bridge) -> tuple[Any, Any]:
        changes = [ad.instantiate_zeros(t) for t in tangents]
        out = all_three.value.bind(*primals, bridge=bridge)
        return out, all_three.tangent.bind(*primals, *changes, bridge=bridge)

    def transpose(weights: Any, *operands: Any, bridge: Bridge) -> list[Any]:
        n = len(bridge.core)
        filled = [ad.instantiate_zeros(w) for w in weights]
        found = all_three.pullback.bind(*operands[:n], *filled, bridge=bridge)
        linear = zip(found, operands[n:], strict=True)
        changes = [g if ad.is_undefined_primal(x) else None for g, x in linear]
        return [None] * n + changes

    ad.primitive_jvps[all_three.value] = jvp
    ad.primitive_transposes[all_three.tangent] = transpose
    return all_three


def _primitive(name: str, run: Callable[..., Sequence[Any]], gives: str) -> Any:
    """A primitive with its shapes, evaluation, lowering to a callback, and batching."""
    jax, jnp = _load("jax"), _load("jax.numpy")
    mlir, batching = _load("jax.interpreters.mlir"), _load("jax.interpreters.batching")
    primitive = _load("jax.extend.core").Primitive(name)
    primitive.multiple_results = True

    def shapes(bridge: Bridge, first: Any) -> list[tuple[int, ...]]:
        batch = first.shape[: len(first.shape) - len(bridge.core[0])]
        return [(*batch, *core) for core in getattr(bridge, gives)]

    def abstract(*operands: Any, bridge: Bridge) -> list[Any]:
        dtype = operands[0].dtype
        return [jax.core.ShapedArray(s, dtype) for s in shapes(bridge, operands[0])]

    def host(bridge: Bridge, *operands: Any) -> tuple[Any, ...]:
        dtype = operands[0].dtype
        arrays = [np.asarray(x, dtype=np.float64) for x in operands]
        return tuple(np.asarray(x, dtype=dtype) for x in run(bridge, *arrays))

    def traced(*operands: Any, bridge: Bridge) -> Any:
        dtype = operands[0].dtype
        wanted = tuple(jax.ShapeDtypeStruct(s, dtype) for s in shapes(bridge, operands[0]))
        return jax.pure_callback(partial(host, bridge), wanted, *operands)

    def batched(operands: Any, dims: Any, *, bridge: Bridge) -> tuple[Any, Any]:
        size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
        spread = [
            jnp.broadcast_to(x, (size, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
            for x, d in zip(operands, dims, strict=True)
        ]
        out = primitive.bind(*spread, bridge=bridge)
        return out, [0] * len(out)

    primitive.def_abstract_eval(abstract)
    primitive.def_impl(lambda *x, bridge: [jnp.asarray(y) for y in host(bridge, *x)])
    mlir.register_lowering(primitive, mlir.lower_fun(traced, multiple_results=True))
    batching.primitive_batchers[primitive] = batched
    return primitive
