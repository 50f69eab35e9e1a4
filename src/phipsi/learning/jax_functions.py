"""JAX: compiled programs and named algorithms as primitives with jvp, vjp, vmap and jit.

    import phipsi.jax as pj

    forward = pj.function(mass_matrix.inv @ (tau - bias), model)   # any vector expression
    vdot = pj.forward_dynamics(model, q, v, tau)                   # the named ones
    gradient = jax.grad(lambda tau: pj.forward_dynamics(model, q, v, tau).sum())(tau)

The work is done on the CPU in float64 by a callback, which jitted code calls; results have the type
of the inputs (enable x64 for full precision). Gradients with respect to q are
those of its components. Derivatives of derivatives are not defined. Needs JAX
(``pip install "phipsi[jax]"``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from phipsi.learning.differentiable import Bridge, FrameworkFunctions
from phipsi.support import import_optional

__all__ = [
    "forward_dynamics",
    "poses",
    "function",
    "inverse_dynamics",
    "kinetic_energy",
    "rollout",
    "simulator_rollout",
]


def _wrapped(bridge: Bridge) -> Callable[..., Any]:
    """The bridge as a function of arrays, with their common batch made explicit."""
    jnp, value = _load("jax.numpy"), primitives().value

    def call(*arrays: Any) -> Any:
        given = [jnp.asarray(x) for x in arrays]
        bridge.check_real([(x.dtype, jnp.issubdtype(x.dtype, jnp.complexfloating)) for x in given])
        dtype = jnp.result_type(float, *given)
        batch = bridge.batch([x.shape for x in given])
        full = [
            jnp.broadcast_to(x.astype(dtype), (*batch, *core))
            for x, core in zip(given, bridge.core, strict=True)
        ]
        out = value.bind(*full, bridge=bridge)
        return tuple(out) if len(bridge.results) > 1 else out[0]

    return call


_functions = FrameworkFunctions(_wrapped)
function = _functions.function
forward_dynamics = _functions.forward_dynamics
inverse_dynamics = _functions.inverse_dynamics
kinetic_energy = _functions.kinetic_energy
poses = _functions.poses
rollout = _functions.rollout
simulator_rollout = _functions.simulator_rollout


def _load(module: str) -> Any:
    return import_optional(module, "phipsi.jax", '"phipsi[jax]"')


def _doubles(arrays: Sequence[Any]) -> list[Any]:
    return [x.astype(np.float64, copy=False) for x in arrays]


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
        return bridge.value(bridge.doubles(operands))

    def tangent(bridge: Bridge, *operands: Any) -> Sequence[Any]:
        n = len(bridge.core)
        return bridge.tangent(bridge.doubles(operands[:n]), _doubles(operands[n:]))

    def pullback(bridge: Bridge, *operands: Any) -> Sequence[Any]:
        n = len(bridge.core)
        return bridge.pullback(bridge.doubles(operands[:n]), _doubles(operands[n:]))

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

    def again(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(
            "phipsi.jax has first derivatives only. For second ones differentiate the "
            "expression first: pj.function(pp.diff(expr, 'q', along=…), model)"
        )

    ad.primitive_jvps[all_three.value] = jvp
    ad.primitive_jvps[all_three.tangent] = ad.primitive_jvps[all_three.pullback] = again
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
        arrays = [np.asarray(x) for x in operands]
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
