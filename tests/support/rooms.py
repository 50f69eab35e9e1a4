"""The rooms of the library in their order, as the contracts in pyproject.toml have them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import sources

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@cache
def contracts() -> list[dict[str, Any]]:
    """All contracts of import-linter."""
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))
    return project["tool"]["importlinter"]["contracts"]


@cache
def rings() -> tuple[tuple[str, ...], ...]:
    """Rooms and modules of the package, those that may not import any other first.

    Rooms of one ring do not import each other.
    """
    (layers,) = (x["layers"] for x in contracts() if x["id"] == "rings")
    return tuple(tuple(x.split(" | ")) for x in reversed(layers))


def ring_of() -> dict[str, int]:
    """The ring of every room."""
    return {room: i for i, ring in enumerate(rings()) for room in ring}


@cache
def containers() -> frozenset[str]:
    """The packages in which rooms stand: the library, and its core."""
    return frozenset(name for x in contracts() for name in x.get("containers", ()))


def room_of(module: str) -> str:
    """The room of a module; of one that stands alone, itself."""
    inside = (x for x in containers() if module.startswith(f"{x}."))
    around = max(inside, key=len, default="")
    return f"{around}.{module[len(around) + 1 :].partition('.')[0]}" if around else module


def rooms(root: Path = sources.ROOT) -> dict[str, frozenset[str]]:
    """The rooms that are packages, with the names that each offers to others."""
    out = {}
    for name, path in sources.modules(root).items():
        if path.name == "__init__.py" and room_of(name) == name and name not in containers():
            tree = sources.tree_of(path)
            out[name] = frozenset({*sources.homes(name, tree), *_bound(tree)})
    return out


def _bound(tree: ast.Module) -> Iterator[str]:
    """The names that a package defines or imports itself."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield from (x.asname or x.name for x in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (x.id for x in node.targets if isinstance(x, ast.Name))


def entered_otherwise(
    trees: Mapping[str, ast.AST], doors: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """Imports of what is in another room, but not as that room offers it.

    `trees` are modules by name, `doors` the rooms with what they offer. import-linter sees most of
    these. It takes a name that a package offers for the module of that name, if there is one, and
    leaves out names for type checkers. A module of the package itself, `phipsi.torch`, may show all
    public names of a module: it is the public namespace of a room.
    """
    for name, tree in trees.items():
        mine, is_alone = room_of(name), room_of(name) == name and name not in doors
        for node in sources.statements(tree):
            found: list[str] = []
            if isinstance(node, ast.Import):
                found = [x.name for x in node.names if doors.get(room_of(x.name)) is not None]
                found = [x for x in found if room_of(x) not in (x, mine)]
            elif isinstance(node, ast.ImportFrom) and room_of(node.module or "") in doors:
                room = room_of(node.module or "")
                names = [x.name for x in node.names]
                if room == mine or (is_alone and names in (["*"], ["__all__"])):
                    continue
                offered = doors[room] if node.module == room else ()
                found = [f"{node.module}.{x}" for x in names if x not in offered]
            yield from (f"{name}:{node.lineno} {x}" for x in found)
