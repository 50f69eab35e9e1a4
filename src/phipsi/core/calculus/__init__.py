"""Derivatives of operator expressions, as expressions of the same algebra.

Reasons: docs/decisions/0019.
"""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "differentiation": ".",
    },
    within={
        "change": "VARIABLES",
        "differentiation": "diff gradient vjp",
        "directional": "substitute with_parts",
        "families": "Family along_units",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
