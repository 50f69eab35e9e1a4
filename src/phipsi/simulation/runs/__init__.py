"""Compiled runs: whole loops over steps in machine code, their memory and their adjoints."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "rollout": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
