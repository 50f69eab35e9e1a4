"""Where the tests of each room are."""

from __future__ import annotations

from pathlib import Path

from rooms import ring_of

# Folders of tests that are about no single room.
WITHOUT_CODE = ("contracts", "docs", "house")
_PROJECT = Path(__file__).parents[2]
_TESTS, _CODE = _PROJECT / "tests", _PROJECT / "src" / "phipsi"


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
    return [str(x.relative_to(_PROJECT)) for x in places if x.exists()]
