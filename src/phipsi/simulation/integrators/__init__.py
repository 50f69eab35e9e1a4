"""Integrators: stages on configuration space, steps as graphs, implicit equations."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "step_rows": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
