"""What the caller of `load` may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from phipsi.errors import ModelError

Base = Literal["fixed", "free"]


@final
@dataclass
class Options:
    """What the caller of `load` chose; see there."""

    base: Base | None = None
    strict: bool = False
    repair: str | None = None
    mimic: str = "independent"
    model: str | None = None
    loops: bool = False  # whether constraints may be returned with the model

    def __post_init__(self) -> None:
        for name, known in (
            ("base", ("fixed", "free", None)),
            ("repair", ("inertia", None)),
            ("mimic", ("independent", "couple")),
        ):
            value = getattr(self, name)
            if value not in known:
                listed = ", ".join(map(repr, known))
                raise ModelError(f"{name}={value!r} is not one of {listed}.")
        if self.strict and self.repair:
            raise ModelError(
                "strict=True refuses what repair= would mend; give one of the two, not both."
            )
