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

from phipsi.learning.jax_functions import *  # noqa: F403  (what the room offers under this name)
from phipsi.learning.jax_functions import __all__ as __all__
from phipsi.package_state import only_public

__dir__ = only_public(__name__)
