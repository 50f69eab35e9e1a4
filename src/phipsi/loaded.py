"""When this process loaded the package, and names of it for earlier layers."""

from __future__ import annotations

import sys
import time

from phipsi.views import view

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes four times as long to load as the rest of ``import phipsi``
    from typing import Any

LOADED = time.time()
"""Sources that change after this time may not be the ones that run."""


def public(name: str) -> Any:
    """A public name of the package, loaded when it is first used, as for users."""
    return getattr(sys.modules["phipsi"], name)


def name_here(name: str) -> str:
    """What to say of a name that other libraries have."""
    return view("other names")(name)


def only_public(home: str) -> Any:
    """The `__dir__` of a public module: what its `__all__` lists.

    A module inside of it with the name of a class of it in small letters (`grasp` beside `Grasp`)
    is no attribute of it: whoever types that is answered with the class.
    """
    module = sys.modules[home]
    for name in module.__all__:
        if name.lower() != name and type(vars(module).get(name.lower())) is type(sys):
            delattr(module, name.lower())
    return lambda: sorted(module.__all__)


def display(thing: Any) -> str:
    """An object as HTML for notebooks."""
    return view("html")(thing)
