"""From a model to a trajectory: `simulate`, events, force elements, recordings; and gradients."""

from phipsi.loaded import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "contact_events": ".",
        "contact_runs": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
