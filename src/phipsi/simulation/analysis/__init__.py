"""What a motion is like near a state: equilibria, linear models, derivatives of steps."""

from phipsi.loaded import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "acting_laws": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
