"""Views: what later layers add to objects of earlier ones, registered by name.

A model shows itself as HTML, a program exports itself, a rule is proved before it is used: the
object is of an early layer, and what it does then is written in a late one. The early layer asks
for a view by name; `phipsi/__init__.py`, which knows all layers, says which function it is. A
package of your own may register another one.

>>> from phipsi.views import view
>>> view("other names")("rnea")
': pp.inverse_dynamics is here what Pinocchio calls rnea'
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes four times as long to load as the rest of ``import phipsi``
    from typing import Any

_VIEWS: dict[str, str] = {}


def register_view(name: str, target: str) -> None:
    """Say which function a view is: "package.module:function", imported when it is first used."""
    module, colon, function = target.partition(":")
    if not (module and colon and function.isidentifier()):
        raise ValueError(f"view {name!r}: {target!r} must read 'package.module:function'")
    _VIEWS[name] = target


def views_named(beginning: str) -> dict[str, str]:
    """Where the views are whose names begin so, by the rest of their names."""
    names = [name for name in _VIEWS if name.startswith(beginning)]
    return {name.removeprefix(beginning): _VIEWS[name] for name in names}


def view(name: str) -> Any:
    """The function that is registered under a name."""
    from importlib import import_module

    module, _, function = _VIEWS[name].partition(":")
    return getattr(import_module(module), function)
