"""What a motion is like near a state: equilibria, linear models, derivatives of steps."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "law_linearization": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
