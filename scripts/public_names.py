"""Write what follows from the table of public names in `src/phipsi/__init__.py`.

    python scripts/public_names.py          writes src/phipsi/__init__.pyi and docs/api.md,
                                            and the stubs of packages that offer names lazily
    python scripts/public_names.py --check  says whether they are current

`__init__.pyi` is what type checkers and editors read; docs/api.md lists every name with its
signature, what it does in a line, and the page that explains it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import types
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The library beside this script, whichever other one is installed: pages of one tree that are
# written from the docstrings of another would differ although nothing changed.
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "support")]
import sources  # noqa: E402

import phipsi  # noqa: E402

STUB, PAGE = ROOT / "src" / "phipsi" / "__init__.pyi", ROOT / "docs" / "api.md"
_WIDEST = 100
_HEAD = """# Every public name

`import phipsi as pp` and write `pp.` before a name; `help(pp.simulate)` says more than a line here.
The mechanism comes first, then the state: q, v, vdot, tau, with batches on leading axes. Operators
are in `phipsi.operators` ([expressions](expressions.md)), functions of tensors in `phipsi.torch`
and `phipsi.jax` ([derivatives](derivatives.md)), environments for learners in `phipsi.gym`
([learning](learning.md))."""


def stub() -> str:
    """The text of `__init__.pyi`."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, (path, inner) in phipsi._HOMES.items():
        home = f"phipsi.{path}" if inner else f"phipsi.{path}".rpartition(".")[0]
        found[home].add(name)
    return _stub_of(found, phipsi.__all__, more="__version__: str")


def _stub_of(
    homes: Mapping[str, set[str]], names: Sequence[str],
    within: Mapping[str, set[str]] | None = None, more: str = "",
) -> str:  # fmt: skip
    """A stub that imports names from their homes and lists them.

    What is offered to other rooms only, `within`, is imported under its own name, which is how a
    stub says that it may be imported from here.
    """
    lines = ['"""Written by scripts/public_names.py from the table in `__init__.py`."""', ""]
    for home in sorted({*homes, *(within or {})}):
        shown = {name: name for name in homes.get(home, ())}
        hidden = {name: f"{name} as {name}" for name in (within or {}).get(home, ())}
        imported = shown | hidden
        lines.append(_import(home, [imported[name] for name in sorted(imported, key=_order)]))
    quoted = [f'"{name}"' for name in names]
    whole = f"__all__ = [{', '.join(quoted)}]"
    if more or len(whole) > _WIDEST:
        whole = "\n".join(["__all__ = [", *(f"    {name}," for name in quoted), "]"])
    return "\n".join([*lines, "", *([more] if more else []), whole]) + "\n"


def _import(home: str, names: Sequence[str]) -> str:
    """One import, over several lines if it is long."""
    line = f"from {home} import {', '.join(names)}"
    if len(line) <= _WIDEST:
        return line
    return "\n".join([f"from {home} import (", *(f"    {name}," for name in names), ")"])


def room_stubs() -> Iterator[tuple[Path, str]]:
    """Stubs of packages that load names on first use, see `phipsi.package_state.offer`."""
    for path in sorted((ROOT / "src" / "phipsi").rglob("__init__.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        package = ".".join(path.parent.relative_to(ROOT / "src").parts)
        if not sources.offered(tree):
            continue
        public: dict[str, set[str]] = defaultdict(set)
        within: dict[str, set[str]] = defaultdict(set)
        for node in tree.body:
            home = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            for x in node.names if isinstance(node, ast.ImportFrom) else []:
                if f"{home}.".startswith(f"{package}."):
                    public[home].add(x.name)  # imported at once
                elif x.asname == x.name:
                    within[home].add(x.name)
        listed = sources.offers(package, tree, within=False)
        for name, (module, inner) in sources.offers(package, tree).items():
            home = module if inner else module.rpartition(".")[0]
            (public if name in listed else within)[home].add(name)
        names = sorted(set().union(*public.values()), key=_order)
        yield path.with_suffix(".pyi"), _stub_of(public, names, within)


def _order(name: str) -> tuple[int, str]:
    """As import sorting wants it: constants first, then classes."""
    is_constant = name.isupper() and len(name) > 1
    number = re.sub(r"\d+", lambda found: found[0].zfill(9), name.lower())
    return 0 if is_constant else 1 if name[0].isupper() else 2, number


def page() -> str:
    """The text of docs/api.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    for (topic, where), rows in phipsi._TABLE.items():
        yield f"\n## {topic}\n\nExplained in [{where.removesuffix('.md')}]({where}).\n"
        yield "| name | what it is |"
        yield "|---|---|"
        for path, names in rows.items():
            for name in names.split():
                yield from _rows(path, name)


def _rows(path: str, name: str) -> Iterator[str]:
    module = importlib.import_module(f"phipsi.{path}")
    if name != ".":
        value = getattr(module, name)
        yield f"| `{name}{_signature(value)}` | {_summary(value)} |"
        return
    short = path.rpartition(".")[2]
    yield f"| `{short}` | module: {_summary(module)} |"
    for inner, value in members(module):
        yield f"| `{short}.{inner}{_signature(value)}` | {_summary(value)} |"


def members(module: types.ModuleType) -> Iterator[tuple[str, object]]:
    """What a public module defines: functions and classes, in the order of the file."""
    if module.__name__ == "phipsi.operators":
        return
    listed = getattr(module, "__all__", None)
    lazy = "__getattr__" in vars(module)  # of those the order of loading says nothing
    in_order = listed if listed and lazy else list(vars(module))
    for name in in_order:
        value = getattr(module, name)
        if name.startswith("_") or not callable(value) or isinstance(value, types.GenericAlias):
            continue
        ours = getattr(value, "__module__", "").startswith("phipsi.")
        mine = name in listed if listed else value.__module__ == module.__name__
        is_at_top = getattr(phipsi, name, None) is value if name in phipsi._HOMES else False
        if ours and mine and not is_at_top:
            yield name, value


def _signature(value: object) -> str:
    """Names of the arguments; * where keywords begin, = where there is a default."""
    if isinstance(value, type) and issubclass(value, Exception | Warning):
        return ""
    try:
        parameters = inspect.signature(value).parameters.values()  # type: ignore[arg-type]
    except ValueError:
        return ""
    shown, is_open = [], True
    for x in parameters:
        if x.kind is x.KEYWORD_ONLY and is_open:
            is_open = False
            shown.append("*")
        if x.kind is x.VAR_POSITIONAL:
            is_open = False
        stars = {x.VAR_POSITIONAL: "*", x.VAR_KEYWORD: "**"}.get(x.kind, "")
        shown.append(f"{stars}{x.name}{'' if x.default is x.empty else '='}")
    return f"({', '.join(shown)})"


def _summary(value: object) -> str:
    text = inspect.getdoc(value) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def main() -> int:
    """Write them, or compare them with `--check`."""
    stale = 0
    for path, text in ((STUB, stub()), (PAGE, page()), *room_stubs()):
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale = 1
        if "--check" in sys.argv:
            print(f"{path.relative_to(ROOT)} is not current: run scripts/public_names.py")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")
    return stale if "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
