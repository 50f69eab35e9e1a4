"""What the caller of `load` may choose."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Literal, final

from phipsi.errors import ModelError, is_real, one_of, true_or_false

Base = Literal["fixed", "free"]


@final
@dataclass
class Options:
    """What the caller of `load` chose; see there."""

    base: Base | None = None
    strict: bool = False
    repair: str | None = None
    loops: str = "close"
    model: str | None = None
    isolate: bool = True
    max_seconds: float = 60.0
    max_memory: int = 2_000_000_000

    def __post_init__(self) -> None:
        for name, known in (
            ("base", ("fixed", "free", None)),
            ("repair", ("inertia", None)),
            ("loops", ("close", "cut")),
        ):
            value = getattr(self, name)
            if value is not None or None not in known:
                words = [word for word in known if word is not None]
                one_of(name, value, words, error=ModelError)
        for name in ("strict", "isolate"):
            true_or_false(name, getattr(self, name), error=ModelError)
        for name in ("max_seconds", "max_memory"):
            value = getattr(self, name)
            if not is_real(value) or not 0 < value < math.inf:
                raise ModelError(f"{name}={value!r} must be a positive number.")
        self.closes_loops = self.loops == "close"
        self.deadline = time.monotonic() + self.max_seconds
        if self.strict and self.repair:
            raise ModelError(
                "strict=True rejects what repair= would mend; give one of the two, not both."
            )
