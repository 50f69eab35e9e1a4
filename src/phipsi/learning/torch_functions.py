"""PyTorch: compiled programs and named algorithms as differentiable functions of tensors.

    import phipsi.torch as pt

    forward = pt.function(mass_matrix.inv @ (tau - bias), model)   # any vector expression
    vdot = pt.forward_dynamics(model, q, v, tau)                   # the named ones
    vdot.sum().backward()

Tensors are float64 or float32 on any device; the work is done in float64 on the CPU. Gradients with
respect to q are those of its components. `torch.func.vmap`, `jvp` and `grad` work;
derivatives of derivatives do not. Needs PyTorch (``pip install "phipsi[torch]"``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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


def _torch() -> Any:
    return import_optional("torch", "phipsi.torch", '"phipsi[torch]"')


def _wrapped(bridge: Bridge) -> Callable[..., Any]:
    """The bridge as a function of tensors, with their common batch made explicit."""
    torch = _torch()
    apply = _operation(bridge)

    def call(*tensors: Any) -> Any:
        given = [x if isinstance(x, torch.Tensor) else torch.as_tensor(x) for x in tensors]
        bridge.check_real([(x.dtype, x.dtype.is_complex) for x in given])
        dtype = given[0].dtype
        for x in given:
            dtype = torch.promote_types(dtype, x.dtype)
        if not dtype.is_floating_point:
            dtype = torch.get_default_dtype()
        batch = bridge.batch([tuple(x.shape) for x in given])
        full = [
            x.to(dtype).expand((*batch, *core)) for x, core in zip(given, bridge.core, strict=True)
        ]
        out = apply(*full)
        return out if len(bridge.results) > 1 else out[0]

    return call


_functions = FrameworkFunctions(_wrapped)
function = _functions.function
forward_dynamics = _functions.forward_dynamics
inverse_dynamics = _functions.inverse_dynamics
kinetic_energy = _functions.kinetic_energy
poses = _functions.poses
rollout = _functions.rollout
simulator_rollout = _functions.simulator_rollout


def _operation(bridge: Bridge) -> Callable[..., Any]:
    """The value as an operation of autograd, whose derivatives are operations themselves."""
    torch, n = _torch(), len(bridge.core)
    pullback = _linear(lambda x: bridge.pullback(bridge.doubles(x[:n]), _doubles(x[n:])))
    tangent = _linear(lambda x: bridge.tangent(bridge.doubles(x[:n]), _doubles(x[n:])))

    class BridgedFunction(torch.autograd.Function):
        """The function itself."""

        @staticmethod
        def forward(*inputs: Any) -> Any:
            return _tensors(bridge.value(bridge.doubles(_arrays(inputs))), inputs[0])

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, *weights: Any) -> Any:
            return pullback(*ctx.saved_tensors, *weights)

        @staticmethod
        def jvp(ctx: Any, *changes: Any) -> Any:
            inputs = ctx.saved_tensors
            pairs = zip(inputs, changes, strict=True)
            return tangent(*inputs, *(torch.zeros_like(x) if d is None else d for x, d in pairs))

        @staticmethod
        def vmap(info: Any, dims: Any, *inputs: Any) -> Any:
            out = BridgedFunction.apply(*_spread(info, dims, inputs))
            return out, tuple(0 for _ in out)

    return BridgedFunction.apply


def _linear(run: Callable[[Sequence[Any]], Sequence[Any]]) -> Callable[..., Any]:
    """A derivative as an operation that can be mapped, but not differentiated again."""
    torch = _torch()

    class Derivative(torch.autograd.Function):
        """A derivative of a function."""

        @staticmethod
        def forward(*inputs: Any) -> Any:
            return _tensors(run(_arrays(inputs)), inputs[0])

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, *weights: Any) -> Any:
            raise NotImplementedError(
                "phipsi.torch has first derivatives only. For second ones differentiate the "
                "expression first: pt.function(pp.diff(expr, 'q', along=…), model)"
            )

        @staticmethod
        def vmap(info: Any, dims: Any, *inputs: Any) -> Any:
            out = Derivative.apply(*_spread(info, dims, inputs))
            return out, tuple(0 for _ in out)

    return Derivative.apply


def _spread(info: Any, dims: Any, inputs: Any) -> list[Any]:
    """Inputs with the mapped axis in front, repeated where they have none."""
    return [
        x.expand(info.batch_size, *x.shape) if d is None else x.movedim(d, 0)
        for x, d in zip(inputs, dims, strict=True)
    ]


def _arrays(tensors: Sequence[Any]) -> list[Any]:
    return [x.detach().cpu().numpy() for x in tensors]


def _doubles(arrays: Sequence[Any]) -> list[Any]:
    return [x.astype(np.float64, copy=False) for x in arrays]


def _tensors(arrays: Sequence[Any], like: Any) -> tuple[Any, ...]:
    torch = _torch()
    return tuple(
        torch.from_numpy(np.array(x, dtype=np.float64)).to(dtype=like.dtype, device=like.device)
        for x in arrays
    )
