"""When this process loaded the package, and what packages offer, loaded on first use.

Reasons: docs/decisions/0070 and 0074.
"""

from __future__ import annotations

import sys
import time

from phipsi.views import view

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes four times as long to load as the rest of ``import phipsi``
    from typing import Any

IMPORT_TIME = time.time()
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
        if name.lower() != name and isinstance(vars(module).get(name.lower()), type(sys)):
            delattr(module, name.lower())
    return lambda: sorted(module.__all__)


def only_hints(home: str) -> Any:
    """The `__getattr__` of a public module that imports its names: what to write instead."""

    def say(name: str) -> Any:
        raise _not_offered(sys.modules[home], name, name_here)

    return say


def offer(package: str, table: dict[str, str], within: dict[str, str] | None = None) -> Any:
    """`__getattr__`, `__dir__` and `__all__` of a package that loads what it offers on first use.

    `table` has the modules of the package, each with the names that are offered of it; "." is the
    module itself, under the last part of its name. `within` has in the same form what is offered
    to other rooms of the library only: it is no part of the public namespace. What the package has
    imported by then is offered too, if it is public.

    So a room says in one place what it offers, and entering it loads no more than is used. Modules
    that use a feature now and then read it from the package,
    ``contact.contact_rows.row_states(…)``, instead of importing it. scripts/public_names.py writes
    the stub that type checkers read.

    A class with the name of a module in small letters is imported by the package itself, as
    `only_public` wants it. A name that is also that of a module of the package is what is offered,
    before and after that module is loaded.
    """
    home = sys.modules[package]
    listed = _homes(table)
    own = vars(home).items()
    ours = f"{package}."
    ready = [n for n, x in own if n[0] != "_" and getattr(x, "__module__", "").startswith(ours)]
    vars(home)["__all__"] = [*ready, *listed]
    load = _loader(package, {**_homes(within or {}), **listed}, name_here)
    return load, only_public(package), vars(home)["__all__"]


def offer_within(package: str, table: dict[str, str]) -> Any:
    """`__getattr__` of a room without lazy public names: what it offers to other rooms.

    The table is that of `offer`.
    """
    return _loader(package, _homes(table))


def _loader(package: str, names: dict[str, tuple[str, str]], hint: Any = None) -> Any:
    """The `__getattr__` that loads these names of a package, each once.

    `hint` says more of a public name that is not offered, as `name_here`.
    """
    home = sys.modules[package]
    vars(home)["_offered"] = names
    home.__class__ = _Room

    def load(name: str) -> Any:
        if name not in names:
            raise _not_offered(home, name, hint)
        path, inner = names[name]
        path = f"{package}.{path}"
        __import__(path)  # waits where another thread is loading it
        module = sys.modules[path]
        vars(home)[name] = value = getattr(module, inner) if inner else module
        return value

    return load


def _not_offered(module: Any, name: str, hint: Any) -> AttributeError:
    text = f"module {module.__name__!r} has no attribute {name!r}"
    text += hint(name) if hint and name[0] != "_" else ""
    return AttributeError(text, name=name, obj=module)


class _Room(type(sys)):
    """A package whose modules do not take the place of what it offers under their names.

    Loading a module sets it as an attribute of its package: ``from phipsi.core.rewrite import
    collect`` would be the function or the module of that name, whichever came first.
    """

    def __setattr__(self, name: str, value: object) -> None:
        offered = vars(self)["_offered"].get(name)
        if offered is None or not offered[1] or not isinstance(value, type(sys)):
            super().__setattr__(name, value)


def _homes(table: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The module of each name that is offered, and the name there, "" for the module itself."""
    out = dict[str, tuple[str, str]]()
    for module, inner in table.items():
        for name in inner.split():
            here = module.rpartition(".")[2] if name == "." else name
            out[here] = module, "" if name == "." else name
    return out


def display(thing: Any) -> str:
    """An object as HTML for notebooks."""
    return view("html")(thing)
