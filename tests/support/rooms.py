"""The rooms of the library in their order, as the contracts in pyproject.toml have them."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@cache
def rings() -> tuple[tuple[str, ...], ...]:
    """Rooms and modules of the package, those that may not import any other first.

    Rooms of one ring do not import each other.
    """
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (x["layers"] for x in contracts if x["id"] == "rings")
    return tuple(tuple(x.split(" | ")) for x in reversed(layers))


def ring_of() -> dict[str, int]:
    """The ring of every room."""
    return {room: i for i, ring in enumerate(rings()) for room in ring}


# Folders of tests that are about no single room.
WITHOUT_CODE = ("contracts", "docs", "house")
_TESTS, _CODE = _PROJECT.parent / "tests", _PROJECT.parent / "src" / "phipsi"


def rooms_with_tests() -> list[str]:
    """The rooms that can be tested alone, and the folders of tests that are about all of them."""
    return sorted([*ring_of(), *WITHOUT_CODE])


def paths_of_room(room: str) -> list[str]:
    """Where the tests and the docstring examples of a room are, or of a folder of one: core/sweeps.

    Empty if there is no such room.
    """
    first, *inner = room.split("/")
    if first not in rooms_with_tests() or not all(x.isidentifier() for x in inner):
        return []
    places = (_TESTS / room, _CODE / room, _CODE / f"{room}.py")
    return [str(x.relative_to(_PROJECT.parent)) for x in places if x.exists()]
