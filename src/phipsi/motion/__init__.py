"""How a mechanism moves: one chart, one stage loop, one projection.

Rollouts, derivatives of steps, gradients and linearisations are uses of them, and so is `simulate`.
"""

from phipsi.loaded import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "acting_laws": ".",
        "closure_calls": ".",
        "contact_steps": ".",
        "rollout": ".",
        "step_rows": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
