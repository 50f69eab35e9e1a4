"""Steps of bodies that touch: impulses, impact, stick and slip."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "contact_steps": ".",
        "single_contact_step": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
