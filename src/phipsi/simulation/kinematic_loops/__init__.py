"""Closed kinematic loops in a step: accelerations that keep constraints, and projection."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "closure_calls": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
