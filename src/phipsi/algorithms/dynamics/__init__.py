"""Efforts, accelerations, forces and energies of trees and mechanisms with loops; derivatives."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "body_accelerations": ".",
        "constraint_forces": ".",
        "derivatives": ".",
        "actuation": ".",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
