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
