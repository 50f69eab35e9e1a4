"""When this process loaded the package, and names of it for earlier layers."""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes four times as long to load as the rest of ``import phipsi``
    from typing import Any

LOADED = time.time()
"""Sources that change after this time may not be the ones that run."""


def public(name: str) -> Any:
    """A public name of the package, loaded when it is first used, as for users."""
    return getattr(sys.modules["phipsi"], name)


def name_here(name: str) -> str:
    """What to say of a name that others have, by phipsi/interfaces/other_names.py."""
    from importlib import import_module

    return import_module("phipsi.interfaces.other_names").name_here(name)


def display(thing: Any) -> str:
    """An object as HTML for notebooks, written by phipsi/interfaces/page/displays.py."""
    from importlib import import_module

    return import_module("phipsi.interfaces.page.displays").html_of(thing)
