"""Operators, vectors and scalars of users, and functions of coordinates as constraint rows."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "block_formulas": "Formula",
        "custom": "operator scalar vector with_any_blocks",
        "own_blocks": "Table",
        "function_rows": "RateLaw TracedLaw traced_law",
    },
)
