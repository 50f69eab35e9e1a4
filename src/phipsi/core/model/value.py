"""Immutable values compared by content: the base of poses, inertias, joints, trees and models."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model.argument_checks import as_floats
from phipsi.errors import ModelError

ALL_GROUPS = (1 << 64) - 1
"""The mask of a shape that may touch shapes of every group."""


_CHANGED = {
    "gravity": "another gravity is  model = model.with_gravity((0.0, 0.0, -1.62))",
}


class Value:
    """An object that never changes after construction; equality and hash go by `_key`."""

    __slots__ = ()

    def _key(self) -> tuple[Any, ...]:
        raise NotImplementedError(f"{type(self).__name__} must define `_key`: what identifies it")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{type(self).__name__} is frozen: {name} cannot be set. Make a new one instead; "
            + _CHANGED.get(name, "a model is changed with model.with_body(...).")
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted.")

    def _set(self, **attributes: Any) -> None:
        """Fill the slots; called once, by the constructor."""
        fill(self, **attributes)


class PlainValue(Value):
    """A value that its constructor's arguments say all about: copied, stored, pickled by them."""

    __slots__ = ()

    def as_arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments by name; those of most values are their slots."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self.as_arguments())


def _made(kind: type, arguments: dict[str, Any]) -> Any:
    """The value that was pickled."""
    return kind(**arguments)


def check_text(value: Any, what: str) -> None:
    """Raise a ModelError for a name that is not a text, or is empty."""
    if not isinstance(value, str) or not value:
        raise ModelError(f"{what} must be a non-empty string, not {value!r}.")


def check_type(who: str, what: str, value: Any, wanted: type, example: str) -> None:
    """Raise a ModelError for an argument of another type, with an example to paste."""
    if not isinstance(value, wanted):
        raise ModelError(
            f"{who}: {what} must be a {wanted.__name__}, not {value!r}. For example:\n"
            f"    {what}={example}"
        )


def fill(thing: Any, **attributes: Any) -> None:
    """Set attributes of an object that is frozen, where it is made."""
    for name, value in attributes.items():
        object.__setattr__(thing, name, value)


def read_only(values: ArrayLike) -> NDArray[np.float64]:
    """Return a private float64 copy that cannot be written to; real numbers only."""
    array = np.array(as_floats("it", values))
    array.flags.writeable = False
    return array


def vector3(values: ArrayLike, what: str) -> NDArray[np.float64]:
    """Return a read-only float64 (3,), or raise a ModelError that names `what`."""
    try:
        array = read_only(values)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what} must be three numbers, not {values!r}.") from error
    if array.shape != (3,):
        raise ModelError(f"{what} must be three numbers, but it has shape {array.shape}.")
    return array


def plain(array: NDArray[np.float64]) -> Any:
    """Return the array as nested tuples of floats, for keys and printing."""
    return _tuples(array.tolist())


def _tuples(values: Any) -> Any:
    return tuple(map(_tuples, cast(list[Any], values))) if isinstance(values, list) else values
