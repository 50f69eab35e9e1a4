"""Contact: where bodies touch, and the impulses of unilateral contacts with dry friction."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "contact_failures": ".",
        "contact_points": ".",
        "contact_record": ".",
        "contact_rows": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
