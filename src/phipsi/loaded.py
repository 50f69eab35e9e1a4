"""When this process loaded the package, and its public names for earlier layers."""

import sys
import time
from typing import Any

LOADED = time.time()
"""Sources that change after this time may not be the ones that run."""


def public(name: str) -> Any:
    """A public name of the package, loaded when it is first used, as for users."""
    return getattr(sys.modules["phipsi"], name)
