"""Derivatives of operator expressions, as expressions of the same algebra.

Reasons: docs/decisions/0019.
"""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "differentiation": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
