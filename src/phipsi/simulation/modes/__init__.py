"""Contact modes of simulate: events of bodies that touch, located and acted upon."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "contact_events": ".",
        "contact_runs": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
