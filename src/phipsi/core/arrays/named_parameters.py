"""Parameters by name: the numbers of force elements and controllers that a simulation may change.

A class says which of its attributes these are, in ``parameters``: name → attribute. An attribute
that is such an object itself has its numbers under both names, as in "controller.kp". Those that
must not be negative are listed in ``not_negative``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, cast

from phipsi.core.model import is_mapping


def parameters_by_name(thing: Any) -> dict[str, Any]:
    """The numbers of an object and of its parts, by name; none of what does not name any."""
    out: dict[str, Any] = {}
    for name, attribute in _named(thing).items():
        value = getattr(thing, attribute)
        if value is None:
            continue
        if callable(value) or _named(value):
            out |= {f"{name}.{inner}": x for inner, x in parameters_by_name(value).items()}
        else:
            out[name] = value
    return out


def not_negative_names(thing: Any) -> set[str]:
    """Which of the numbers that `parameters_by_name` lists must not be negative."""
    own: Any = getattr(cast(Any, type(thing)), "not_negative", ())
    out = set[str](cast(Any, own) if isinstance(own, tuple) else ())
    for name, attribute in _named(thing).items():
        value = getattr(thing, attribute)
        if callable(value) or _named(value):
            out |= {f"{name}.{inner}" for inner in not_negative_names(value)}
    return out


def with_numbers(thing: Any, values: Mapping[str, Any]) -> Any:
    """A copy of an object with other numbers, traced ones too; the others stay as they are."""
    if not values:
        return thing
    out = copy(thing)
    for name, attribute in _named(thing).items():
        start = f"{name}."
        inner = {n.removeprefix(start): x for n, x in values.items() if n.startswith(start)}
        if name in values:
            new = values[name]
        elif inner:
            new = with_numbers(getattr(thing, attribute), inner)
        else:
            continue
        object.__setattr__(out, attribute, new)  # frozen ones too: nobody else has the copy
    return out


def called_with_numbers(function: Any) -> Callable[..., Any]:
    """The same call, which also takes numbers of the function by name, in place of its own."""
    own = frozenset(parameters_by_name(function))
    if not own:
        return function

    def run(*args: Any, **given: Any) -> Any:
        numbers = {n: x for n, x in given.items() if n in own}
        rest = {n: x for n, x in given.items() if n not in own}
        return with_numbers(function, numbers)(*args, **rest)

    setattr(run, "__wrapped__", function)  # noqa: B010 (whose line errors name)
    return run


def _named(thing: object) -> Mapping[str, str]:
    found: Any = getattr(type(thing), "parameters", None)
    return found if is_mapping(found) else {}
