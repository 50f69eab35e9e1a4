"""Write docs/file-map.md: every module of the library with the first sentence of its docstring.

python scripts/file_map.py          writes the page
python scripts/file_map.py --check  says whether it is current
"""

from __future__ import annotations

import ast
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES, PAGE = ROOT / "src" / "phipsi", ROOT / "docs" / "file-map.md"
_HEAD = """# File map

Every module of `src/phipsi` with the first sentence of its documentation, in the order of the
[rooms](architecture.md#rooms) of the architecture. Use it to find the file for a subject; users of
the library do not need it. Written by `python scripts/file_map.py`."""


def order() -> list[str]:
    """The rooms and the parts of the core in the order of the contracts, earliest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    found: list[str] = []
    for contract in contracts:
        if contract["type"] == "layers":
            (container,) = contract["containers"]
            inside = container.removeprefix("phipsi").replace(".", "/").lstrip("/")
            rooms = [x for ring in reversed(contract["layers"]) for x in ring.split(" | ")]
            found += [f"{inside}/{x}".lstrip("/") for x in rooms]
    return found


def modules() -> dict[str, list[Path]]:
    """Folders in the order of the rooms, and the modules in each; "" has those outside."""
    places = {name: i for i, name in enumerate(order())}

    def place(folder: str) -> tuple[int, int, str]:
        parts = folder.split("/")
        return places.get(parts[0], -1), places.get("/".join(parts[:2]), -1), folder

    found: dict[str, list[Path]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        folder = path.parent.relative_to(SOURCES).as_posix()
        found.setdefault("" if folder == "." else folder, []).append(path)
    return dict(sorted(found.items(), key=lambda f: place(f[0])))


def sentence(path: Path) -> str:
    """The first sentence of the docstring of a module, without its full stop.

    It is the first word of the file; the rest is not read.
    """
    with tokenize.open(path) as file:
        words = tokenize.generate_tokens(file.readline)
        first = next(word for word in words if word.type not in (tokenize.COMMENT, tokenize.NL))
    text = cleandoc(ast.literal_eval(first.string)) if first.type == tokenize.STRING else ""
    return text.split("\n\n")[0].replace("\n", " ").replace("|", "\\|").removesuffix(".")


def page() -> str:
    """The text of docs/file-map.md."""
    return "\n".join([_HEAD, *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    for folder, paths in modules().items():
        yield f"\n## {folder or 'phipsi'}\n"
        about = [p for p in paths if p.name == "__init__.py" and folder]
        if about:
            yield f"{sentence(about[0])}.\n"
        rest = [p for p in paths if p not in about]
        if rest:
            yield "| module | contents |\n|---|---|"
        for path in rest:
            yield f"| `{path.relative_to(SOURCES).as_posix()}` | {sentence(path)} |"


def main() -> int:
    """Write the page, or compare it."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    print("docs/file-map.md is not current:  python scripts/file_map.py")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
