"""The library's source as data: modules, who imports whom, cycles, lines of code."""

from __future__ import annotations

import ast
import gc
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "phipsi"
_NO_CODE = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
)  # fmt: skip


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file, parsed once for all who ask."""
    return _library_trees().get(path) or ast.parse(text_of(path))


@cache
def _library_trees() -> dict[Path, ast.Module]:
    """The trees of all modules: millions of objects that stay, which collecting never visits."""
    gc.collect()
    gc.disable()
    try:
        return {path: ast.parse(text_of(path)) for path in modules().values()}
    finally:
        gc.freeze()
        gc.enable()


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements at any depth, imports and classes among them, without their expressions."""
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(node, part, ())
            yield from inside
            ahead += inside


@cache
def modules(root: Path = ROOT) -> dict[str, Path]:
    """Dotted names and files of all modules; a package has the name of its folder."""
    out = {}
    for path in sorted(root.rglob("*.py")):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


def offered(tree: ast.Module, within: bool = True) -> dict[str, str]:
    """What a package offers by `phipsi.package_state.offer`: modules with their names.

    The public names, and those for other rooms unless `within` is False, in one table.
    """
    out: dict[str, str] = {}
    for node in tree.body:
        call = getattr(node, "value", None)
        kind = getattr(call.func, "id", "") if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or kind not in ("offer", "offer_within"):
            continue
        tables = [*call.args[1:], *(x.value for x in call.keywords)]
        if not within:
            tables = call.args[1:2] if kind == "offer" else []
        for table in tables:
            for module, names in ast.literal_eval(table).items():
                out[module] = f"{out[module]} {names}" if module in out else names
    return out


def homes(package: str, tree: ast.Module) -> dict[str, str]:
    """The module of each name that a package offers, those included that it imports at once."""
    out: dict[str, str] = {}
    for node in tree.body:
        home = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        if f"{home}.".startswith(f"{package}."):
            for x in node.names if isinstance(node, ast.ImportFrom) else []:
                out[x.asname or x.name] = f"{home}.{x.name}" if home == package else home
    return out | {name: module for name, (module, _) in offers(package, tree).items()}


def offers(package: str, tree: ast.Module, within: bool = True) -> dict[str, tuple[str, str]]:
    """The module of each name that a package offers, and the name there, "" for the module."""
    out: dict[str, tuple[str, str]] = {}
    for module, names in offered(tree, within).items():
        for name in names.split():
            here, inner = (module.rpartition(".")[2], "") if name == "." else (name, name)
            out[here] = f"{package}.{module}", inner
    return out


def targets(
    tree: ast.AST, name: str, package: bool, known: set[str],
    doors: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[str]:  # fmt: skip
    """The modules that one module imports, at any depth, for type checkers too.

    `doors` are the `homes` of packages: a name that a package offers is of the module where it
    lives.
    """
    inside = name.split(".") if package else name.split(".")[:-1]
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = inside[: len(inside) + 1 - node.level] if node.level else []
            source = ".".join(base + ([node.module] if node.module else []))
            behind = (doors or {}).get(source, {})
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                if whole in known or source in known:
                    yield whole if whole in known else behind.get(alias.name, source)


@cache
def imports(root: Path = ROOT) -> dict[str, frozenset[str]]:
    """Who imports whom. The package itself, which re-exports all, is left out."""
    found = modules(root)
    known = set(found)
    packages = [name for name, path in found.items() if path.name == "__init__.py"]
    doors = {name: homes(name, tree_of(found[name])) for name in packages}
    out = {}
    for name, path in found.items():
        if name != root.name:
            package = path.name == "__init__.py"
            found_here = set(targets(tree_of(path), name, package, known, doors))
            found_here |= set(doors.get(name, {}).values())
            itself = {name} if package else set[str]()  # through its own modules
            out[name] = frozenset(found_here - itself - {root.name})
    return out


def public_homes(root: Path = ROOT) -> frozenset[str]:
    """The modules that the package's own tables of public names lead to.

    Names are loaded on first use, so these are strings, with the modules as words in them.
    """
    package = tree_of(root / "__init__.py")
    tables = [node for node in package.body if isinstance(node, ast.Assign)]
    strings = (n.value for table in tables for n in ast.walk(table) if isinstance(n, ast.Constant))
    words = {word for text in strings if isinstance(text, str) for word in text.split()}
    return frozenset(f"{root.name}.{word}" for word in words) & frozenset(modules(root))


def cycles(graph: dict[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """Groups of modules that import each other, each in alphabetical order."""
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        ahead = list(graph[start])
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                ahead += graph.get(name, ())
        reach[start] = seen
    groups = {
        tuple(sorted(b for b in reach[a] if a in reach.get(b, ()))) for a in graph if a in reach[a]
    }
    return sorted(groups)


_OF_NAMED_TUPLES = {"_replace", "_asdict", "_fields", "_make"}
# Private attributes of other libraries' objects, which have no public way to what is needed.
_OF_OTHERS = {("phipsi.molecules.openmm_molecules", "_value"): "numbers of OpenMM's quantities"}


def is_private(name: str) -> bool:
    """Whether a name is for its own room; fields of named tuples and ``__names__`` are not."""
    return name.startswith("_") and not name.startswith("__") and name not in _OF_NAMED_TUPLES


def _own_private(tree: ast.Module) -> set[str]:
    """The private attributes that classes and functions of a module have, inherited ones too."""
    out = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            out.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            out.add(node.id)  # fields of classes, and globals
        elif isinstance(node, ast.Attribute):
            mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if mine or isinstance(node.ctx, ast.Store):
                out.add(node.attr)
    return {name for name in out if is_private(name)}


def _foreign_modules(tree: ast.Module, package: str) -> set[str]:
    """The names that other libraries' modules have in this one."""
    out = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            home = getattr(node, "module", None) or ""
            for alias in node.names:
                if not (home or alias.name).startswith(package) and not getattr(node, "level", 0):
                    out.add(alias.asname or alias.name.partition(".")[0])
    return out


def private_accesses(
    trees: Mapping[str, ast.Module], graph: Mapping[str, frozenset[str]]
) -> Iterator[str]:
    """Where modules read private attributes of another room's objects, as "module:line text".

    A room is a folder of the package. A module may read what it defines itself, or what a module
    of its room does that it imports; of its own objects and classes (`self`, `cls`) everything;
    and of other libraries' modules, and what _OF_OTHERS lists.
    """
    own = {name: _own_private(tree) for name, tree in trees.items()}
    for name, tree in trees.items():
        package, _, inside = name.partition(".")
        room = f"{package}.{inside.partition('.')[0]}"
        near = [x for x in graph.get(name, ()) if f"{x}.".startswith(f"{room}.")]
        known = own[name].union(*(own.get(x, ()) for x in near))
        foreign = _foreign_modules(tree, package)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or not is_private(node.attr):
                continue
            if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls", *foreign}:
                continue
            if node.attr not in known and (name, node.attr) not in _OF_OTHERS:
                yield f"{name}:{node.lineno} {ast.unparse(node)}"


def importers(graph: dict[str, frozenset[str]]) -> dict[str, set[str]]:
    """Who is imported by whom."""
    out: dict[str, set[str]] = {name: set() for name in graph}
    for name, found in graph.items():
        for target in found:
            out[target].add(name)
    return out


def namesakes(root: Path = ROOT) -> dict[str, list[str]]:
    """Last names that several modules have."""
    out: dict[str, list[str]] = defaultdict(list)
    for name, path in modules(root).items():
        if path.name != "__init__.py":
            out[path.stem].append(name)
    return {stem: names for stem, names in out.items() if len(names) > 1}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(path: Path) -> int:
    """Lines with code: without blank lines, comments and docstrings."""
    strings: set[int] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                strings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text_of(path)).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - strings)


def comment_lines(path: Path) -> int:
    """Lines that are a comment and nothing else."""
    return sum(line.lstrip().startswith("#") for line in text_of(path).splitlines())
