"""PyTorch: compiled programs and named algorithms as differentiable functions of tensors.

    import phipsi.torch as pt

    forward = pt.function(mass_matrix.inv @ (tau - bias), model)   # any vector expression
    vdot = pt.forward_dynamics(model, q, v, tau)                   # the named ones
    vdot.sum().backward()

Tensors are float64 or float32 on any device; the work is done in float64 on the CPU. Gradients with
respect to q are those of its components. `torch.func.vmap`, `jvp` and `grad` work;
derivatives of derivatives do not. Needs PyTorch (``pip install "phipsi[torch]"``).
"""

from phipsi.learning.torch_functions import *  # noqa: F403  (what the room offers under this name)
from phipsi.learning.torch_functions import __all__ as __all__
from phipsi.package_state import only_public

__dir__ = only_public(__name__)
