"""Measure what the library is made of; `make counts` writes it to docs/counts.md.

    python scripts/counts.py                    print the table
    python scripts/counts.py --list twins       what was counted in one row
    python scripts/counts.py --root old/phipsi  the same of other sources

Every row has a pattern that a program can look for. Where a concept has no syntax of its own (a
stage loop, a projection), the pattern is a stand-in and is stated in the table.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "tests" / "support"), str(TOP / "tests" / "docs")]

import rooms as r  # noqa: E402
import sources as s  # noqa: E402

PAGE = TOP / "docs" / "counts.md"
LONG, LONG_FILE = 60, 600
Found = list[str]


class House:
    """The sources that are counted."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = sorted(root.rglob("*.py"))
        self.graph = s.imports(root)

    def where(self, path: Path) -> str:
        """A file as the lists name it."""
        return str(path.relative_to(self.root))

    def functions(self) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
        """Every function with its file."""
        for path in self.files:
            for function in s.functions(s.tree_of(path)):
                yield path, function

    def run(self, code: str) -> list[str]:
        """What a process prints that imports these sources."""
        environment = {**os.environ, "PYTHONPATH": str(self.root.parent)}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()


# ---- patterns ------------------------------------------------------------------------------------


def stage_loops(house: House) -> Found:
    """Modules with a function that reads the matrix `a` of a tableau and has a loop."""
    found = set()
    for path, function in house.functions():
        nodes = list(ast.walk(function))
        reads = any(
            isinstance(n, ast.Attribute) and n.attr == "a"
            and re.search(r"tableau$|scheme$|method$", ast.unparse(n.value)) for n in nodes
        )  # fmt: skip
        if reads and any(isinstance(n, ast.For | ast.While | ast.comprehension) for n in nodes):
            found.add(house.where(path))
    return sorted(found)


def projections(house: House) -> Found:
    """Functions named project…, outside model/, that iterate themselves."""
    return [
        f"{house.where(path)}: {function.name}"
        for path, function in house.functions()
        if function.name.lstrip("_").startswith("project")
        and "model" not in path.parts
        and any(isinstance(n, ast.For | ast.While) for n in ast.walk(function))
    ]


def exponentials(house: House) -> Found:
    """Modules that define sin x / x, which every exponential map of a rotation needs."""
    found = {house.where(p) for p, f in house.functions() if f.name.lstrip("_") == "sinc"}
    return sorted(found)


def twins(house: House) -> Found:
    """Modules, classes and functions that are named for mechanisms with loops."""
    pattern = re.compile(r"_?(closed|constrained)(?=_|[A-Z])|.*_loops$", re.IGNORECASE)
    found = {f"module {house.where(p)}" for p in house.files if pattern.match(p.stem)}
    for path in house.files:
        for node in s.tree_of(path).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and pattern.match(node.name):
                found.add(f"{house.where(path)}: {node.name}")
    return sorted(found)


def evaluators(house: House) -> Found:
    """Backends, and modules elsewhere that run along the tree: loops with `parent[…]` and `@`."""
    found = {x for x in ("core/backends/reference.py", "core/dense", "native")
             if (house.root / x).exists()}  # fmt: skip
    for path, function in house.functions():
        if house.where(path).startswith(
            (
                "core/backends",
                "core/dense",
                "core/model",
                "native",
                "files",
                "pages",
                "papers/workbench",
            )
        ):
            continue
        for loop in (n for n in ast.walk(function) if isinstance(n, ast.For)):
            inside = list(ast.walk(loop))
            steps = any(isinstance(n, ast.Subscript) and ast.unparse(n.value).endswith("parent")
                        for n in inside)  # fmt: skip
            if steps and any(isinstance(getattr(n, "op", None), ast.MatMult) for n in inside):
                found.add(house.where(path))
    return sorted(found)


_OPERATIONS = """
try:
    import phipsi.core.sweeps.operations, phipsi.core.sweeps.ir as ir
    print(*ir._OPERATIONS)
except ImportError:
    from phipsi.native.plan import SUPPORTED
    print(*SUPPORTED)
"""


def _strings(node: ast.AST) -> list[str]:
    """The strings that one literal holds, or that one chain of comparisons compares with."""
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        items: list[ast.expr | None] = list(node.elts)
    elif isinstance(node, ast.Dict):
        items = list(node.keys)
    elif isinstance(node, ast.Match):
        found = (n for case in node.cases for n in ast.walk(case.pattern))
        items = [n.value for n in found if isinstance(n, ast.MatchValue)]
    elif isinstance(node, ast.If):
        items = []
        part: ast.stmt | None = node
        while isinstance(part, ast.If):
            items += [n for n in ast.walk(part.test) if isinstance(n, ast.Constant)]
            part = part.orelse[0] if len(part.orelse) == 1 else None
    else:
        return []
    return [i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, str)]


def operation_sets(house: House) -> Found:
    """Literals and chains with three names of operations or more, outside the table."""
    names = {n for n in house.run(_OPERATIONS) if len(n) > 1}
    found = []
    for path in house.files:
        if path.parent.name not in ("sweeps", "native", "backends") or path.stem == "operations":
            continue
        inner: set[int] = set()
        for node in ast.walk(s.tree_of(path)):
            strings = [x for x in dict.fromkeys(_strings(node)) if x in names]
            if len(strings) >= 3 and id(node) not in inner:
                inner.update(map(id, ast.walk(node)))
                found.append(f"{house.where(path)}:{node.lineno} {' '.join(strings[:6])}")  # type: ignore[attr-defined]
    return found


def one_importer(house: House) -> Found:
    """Modules that exactly one module imports; the package imports the homes of its public names.

    Its table holds them as strings, which `sources.imports` leaves out: the package leads to
    everything and would close every cycle. Here it counts as an importer, because a module that
    defines public names has users beyond the library: joined to the one module that imports it
    too, it would hide its names in another's file. What only the package imports is an entry for
    users and has no owner to be joined to, so it is not counted.
    """
    paths, package = s.modules(house.root), house.root.name
    graph = house.graph | {package: s.public_homes(house.root)}
    return sorted(
        f"{name} by {min(users)}"
        for name, users in s.importers(graph).items()
        if len(users) == 1 and users != {package} and paths[name].name != "__init__.py"
    )


def namespace_entries(house: House) -> Found:
    """Modules with one importer, the `__init__` of a public namespace that lists their names.

    `pp.forces.JointSpring` is an entry for users just as `pp.simulate` is: it stands in the `__all__`
    of a package that the table of public names leads to. Such a module has no owner either.
    """
    paths, homes = s.modules(house.root), s.public_homes(house.root)
    found = []
    for line in one_importer(house):
        name, owner = line.split(" by ")
        if owner not in homes or paths[owner].name != "__init__.py":
            continue
        package = s.tree_of(paths[owner])
        brought = {
            alias.asname or alias.name
            for node in ast.walk(package)
            if isinstance(node, ast.ImportFrom) and node.module == name
            for alias in node.names
        }
        if brought & _listed(package) or name in s.homes(owner, package).values():
            found.append(line)
    return found


def _listed(package: ast.Module) -> set[str]:
    """The strings of `__all__`."""
    tables = (n for n in package.body if isinstance(n, ast.Assign) and "__all__" in ast.unparse(n))
    return {n.value for table in tables for n in ast.walk(table)
            if isinstance(n, ast.Constant) and isinstance(n.value, str)}  # fmt: skip


def joinable(house: House) -> Found:
    """Modules with one importer, not entries of a namespace, that fit into it: 600 lines together.

    The others were kept apart, or cut, by the limit on files.
    """
    paths, entries = s.modules(house.root), set(namespace_entries(house))
    found = []
    for line in one_importer(house):
        size = sum(len(s.text_of(paths[name]).splitlines()) for name in line.split(" by "))
        if line not in entries and size <= LONG_FILE:
            found.append(f"{size} {line}")
    return found


def citations(house: House) -> Found:
    """Citations that lead to no section of docs/theory and no listed paper."""
    import test_citations as t

    found = []
    for path in t.texts():
        text = path.read_text(encoding="utf-8")
        fields = t.FIELD.finditer(text) if path.is_relative_to(s.ROOT) else ()
        wrong = [x for field in fields for x in t.unresolved(" ".join(field[1].split()))]
        wrong += [old[0] for old in t.OLD.finditer(text)]
        for cited in t.CITED.finditer(" ".join(text.split())):
            wrong += t.not_found(cited)
        found += [f"{path.relative_to(TOP)}: {x}" for x in wrong]
    rows = [*t.CATALOGUE.values(), *t.identities(), *t.ERRATA]
    cited_rows = (row for row in rows if getattr(row, "needs", None) not in ((row.name,), ("x",)))
    return found + [f"{row.name}: {x}" for row in cited_rows for x in t.unresolved(row.source)]


def public_names(house: House) -> Found:
    """`dir(phipsi)` without underscores."""
    return house.run("import phipsi; print(*(n for n in dir(phipsi) if n[0] != '_'))")


def long_functions(house: House) -> Found:
    """Functions longer than 60 lines, with their docstrings."""
    found = [
        ((f.end_lineno or f.lineno) - f.lineno + 1, f"{house.where(p)}: {f.name}")
        for p, f in house.functions()
    ]
    return [f"{n} {name}" for n, name in sorted(found, reverse=True) if n > LONG]


def long_files(house: House) -> Found:
    """Files longer than 600 lines."""
    counted = {house.where(p): len(s.text_of(p).splitlines()) for p in house.files}
    return [f"{n} {name}" for name, n in counted.items() if n > LONG_FILE]


def prefixes(house: House) -> Found:
    """Prefixes that four files of one folder or more share."""
    groups: dict[str, list[str]] = {}
    for path in house.files:
        if "_" in path.stem.lstrip("_"):
            groups.setdefault(f"{house.where(path.parent)}/{path.stem.split('_')[0]}_", []).append(
                path.stem
            )
    return sorted(f"{name} {len(found)}" for name, found in groups.items() if len(found) >= 4)


def core_lines(house: House) -> Found:
    """Code lines of `core/`."""
    core = [path for path in house.files if house.where(path).startswith("core/")]
    return [house.where(p) for p in core for _ in range(s.code_lines(p))]


def folders(house: House) -> Found:
    """Code lines of each folder."""
    counted: dict[str, int] = {}
    for path in house.files:
        place = house.where(path).split(os.sep)
        name = place[0] if len(place) > 1 else "."
        counted[name] = counted.get(name, 0) + s.code_lines(path)
    return [f"{n} {name}" for name, n in sorted(counted.items())]


def comments(house: House) -> Found:
    """Lines that are a comment and nothing else, each as its file."""
    return [f"{house.where(p)}" for p in house.files for _ in range(s.comment_lines(p))]


def code(house: House) -> Found:
    """Lines of code, each as its file."""
    return [house.where(p) for p in house.files for _ in range(s.code_lines(p))]


def cycles(house: House) -> Found:
    """Groups of modules that import each other, type checking included."""
    return [" ".join(group) for group in s.cycles(house.graph)]


def same_names(house: House) -> Found:
    """Names that several modules have."""
    return [f"{stem}: {' '.join(names)}" for stem, names in s.namesakes(house.root).items()]


# ---- what has to be loaded -----------------------------------------------------------------------

_ARM = (
    "import sys, tempfile, phipsi as pp; arm = pp.examples.seven_joint_arm(); zero = [0.0] * 7; "
    "folder = tempfile.TemporaryDirectory()"
)
_USES = {
    "forward dynamics": "pp.forward_dynamics(arm, zero, zero, zero)",
    "simulate": "pp.simulate(arm, zero, zero, 1.0)",
    "Simulator": "sim = pp.Simulator(arm); sim.rollout(sim.initial_state(zero), steps=3)",
    "export": "pp.export(arm, folder.name + '/arm', what='forward_dynamics')",
}
_LOADED = "print(*(n for n in sys.modules if n.partition('.')[0] == 'phipsi'))"
_ENTERED = """
found = set()
def seen(frame, event, _):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("phipsi") and frame.f_code.co_flags & 1:
        found.add(name)
sys.setprofile(seen)
{}
sys.setprofile(None)
print(*sorted(found))
"""


def loaded_lines(use: str) -> Callable[[House], Found]:
    """The code lines of all modules that a new process has loaded after a use, each as its file."""

    def find(house: House) -> Found:
        names = house.run(f"{_ARM}; {_USES[use]}; {_LOADED}")
        paths = s.modules(house.root)
        paths = [paths[name] for name in names if name in paths and name != "phipsi.examples"]
        return [house.where(path) for path in sorted(paths) for _ in range(s.code_lines(path))]

    return find


def entered(house: House) -> Found:
    """Modules with a function that the first `simulate` of an arm calls, while it loads them too."""
    return house.run(f"{_ARM}\n{_ENTERED.format(_USES['simulate'])}")


def private_accesses(house: House) -> Found:
    """Private attributes that are read of objects of another room, see tests/support/sources.py."""
    trees = {name: s.tree_of(path) for name, path in s.modules(house.root).items()}
    return list(s.private_accesses(trees, house.graph))


def other_entries(house: House) -> Found:
    """Imports from another room that are not from its package, see tests/support/rooms.py."""
    trees = {name: s.tree_of(path) for name, path in s.modules(house.root).items()}
    del trees[house.root.name]  # its table of public names
    return list(r.entered_otherwise(trees, r.rooms(house.root)))


def shared_class_names(house: House) -> Found:
    """Classes whose name another class has too, with and without an underscore."""
    homes: dict[str, list[str]] = {}
    for path in house.files:
        for node in ast.walk(s.tree_of(path)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name.lstrip("_"), []).append(house.where(path))
    return [f"{name} {path}" for name, found in sorted(homes.items()) if len(found) > 1
            for path in found]  # fmt: skip


def writers(house: House) -> Found:
    """Modules outside the native backend that import the text writer of machine code."""
    native = "phipsi.native"
    return sorted(
        name for name, found in house.graph.items()
        if not name.startswith(native) and any(x.startswith(f"{native}.text") for x in found)
    )  # fmt: skip


def _fields(node: ast.ClassDef) -> set[str]:
    """What the objects of a class have: methods, annotated fields, slots, what is set on objects."""
    out: set[str] = set()
    for x in node.body:
        if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name):
            out.add(x.target.id)
        elif isinstance(x, ast.Assign):
            out.update(y.id for z in x.targets for y in ast.walk(z) if isinstance(y, ast.Name))
            if any(isinstance(y, ast.Name) and y.id == "__slots__" for y in x.targets):
                out.update(str(y.value) for y in ast.walk(x.value) if isinstance(y, ast.Constant))
    for x in ast.walk(node):
        if isinstance(x, ast.FunctionDef):
            out.add(x.name)
        elif isinstance(x, ast.Attribute) and isinstance(x.ctx, ast.Store):
            out.add(x.attr)
    return out


def _classes(house: House) -> Iterator[tuple[str, str, set[str], set[str]]]:
    """Files and names of classes, what their objects have, and the names of their bases."""
    for path in house.files:
        for node in ast.walk(s.tree_of(path)):
            if isinstance(node, ast.ClassDef):
                bases = {x.id for x in node.bases if isinstance(x, ast.Name)}
                yield house.where(path), node.name, _fields(node), bases


_KEPT = (
    {"operation", "args"},
    {"args", "__add__"},
    {"parents", "pull"},
    {"steps", "rows", "flops"},
)

_BLOCKS = ("Expr", "Field")  # graphs of operators and of blocks of bodies


def arithmetic_graphs(house: House) -> Found:
    """Classes that keep how numbers are computed, apart from graphs of operators.

    They have arguments with an operation or a sum, parents with a function that pulls weights back,
    or steps with a cost. Classes derived from the nodes of arrays are one of them.
    """
    return [
        f"{path} {name}"
        for path, name, has, bases in _classes(house)
        if any(kept <= has for kept in _KEPT) and "Node" not in bases and name not in _BLOCKS
    ]


def kinds_of_numbers(house: House) -> Found:
    """Classes that compute sines, cosines or any operation by name on numbers of some kind."""
    return [
        f"{path} {name}{'' if 'ScalarOps' in bases else '  (no ScalarOps)'}"
        for path, name, has, bases in _classes(house)
        if {"sin", "cos", "sqrt"} <= has or "entrywise" in has
    ]


def other_protocols(house: House) -> Found:
    """Of these, those that do not derive from `ScalarOps`, the protocol itself aside."""
    return [x for x in kinds_of_numbers(house) if "no ScalarOps" in x and " ScalarOps " not in x]


# name, how it is counted, the first reading, this script on the same sources, what is wanted
Row = tuple[str, str, Callable[[House], Found], str, str, str]
ROWS: tuple[Row, ...] = (
    ("files", "Python files of src", lambda h: [h.where(p) for p in h.files], "283", "309", ""),
    ("code lines", "without blank lines, comments, docstrings", code, "38,062", "42,630", ""),
    ("comment lines", "lines that are nothing else", comments, "410", "462", ""),
    ("stage loops", "modules that loop over `tableau.a`", stage_loops, "5", "5", "1, and its emitter"),
    ("projections", "functions `project…` with a loop of their own", projections, "3", "4", "1"),
    ("exponential maps", "modules that define sin x / x", exponentials, "2", "2", "1"),
    ("twins", "modules, classes, functions named closed…, constrained…, …_loops", twins, "8 pairs", "24", "0"),
    ("evaluators", "backends; loops elsewhere with `parent[…]` and `@`", evaluators, "4", "8", "3"),
    ("sets of operation names", "literals, chains with ≥ 3 of them outside the table", operation_sets, "17", "29", "0"),
    ("import cycles", "groups of modules, type checking included", cycles, "8", "9", "0"),
    ("modules of the same name", "last names that occur twice", same_names, "", "12", "0"),
    ("modules with one importer", "without packages; the table of public names is an importer", one_importer, "100", "91", ""),
    ("… entries of a namespace", "of these: in the `__all__` of a package of the table, whose `__init__` is the importer", namespace_entries, "", "", ""),
    ("… that fit into it", "of these: no entries, and 600 lines or fewer together with the importer", joinable, "", "", ""),
    ("prefixes instead of folders", "shared by ≥ 4 files of a folder", prefixes, "", "7", ""),
    ("unresolved citations", "tests/docs/test_citations.py", citations, "108", "", "0"),
    ("public names", "`dir(phipsi)` without underscores", public_names, "124", "145", ""),
    ("long functions", "more than 60 lines", long_functions, "19", "17", ""),
    ("long files", "more than 600 lines", long_files, "0", "0", "0"),
    ("code lines of the core", "of `core/`", core_lines, "", "", "≤ 24,000"),
    ("loaded by forward dynamics", "code lines of all modules after the first call for an arm", loaded_lines("forward dynamics"), "32,200", "", "≤ 33,000"),
    ("loaded by `simulate`", "the same, of an arm without contact", loaded_lines("simulate"), "63,700", "", "≤ 45,000"),
    ("entered by `simulate`", "modules with a function that the first call runs, while it loads too; machine code is cached", entered, "201", "", "≤ 130"),
    ("loaded by `Simulator`", "code lines after the first rollout of an arm", loaded_lines("Simulator"), "56,400", "", ""),
    ("loaded by `export`", "code lines after an export of forward dynamics of an arm", loaded_lines("export"), "59,300", "", ""),
    ("private accesses", "attributes `_x` of objects of another room (tests/support/sources.py)", private_accesses, "75", "", "0"),
    ("rooms entered otherwise", "names that a room imports of another, not from its package", other_entries, "nearly all", "", "0"),
    ("classes of the same name", "classes whose name another class has, underscores aside", shared_class_names, "246", "", "< 40"),
    ("graphs of arithmetic", "classes that keep how numbers are computed: arguments, parents or steps; without those of operators", arithmetic_graphs, "4", "", "1"),
    ("kinds of numbers", "classes with `entrywise`, or with `sin`, `cos` and `sqrt`", kinds_of_numbers, "16", "", ""),
    ("… outside the protocol", "of these: not derived from `ScalarOps`", other_protocols, "16", "", "2, the arithmetic of the backends"),
    ("writers of machine code", "modules outside `native/` that import its text writer", writers, "30", "", "≤ 2"),
)  # fmt: skip


def table(house: House) -> str:
    """The page docs/counts.md."""
    lines = [
        "# Code counts",
        "",
        "**Size and structure of the source code**, for contributors: files, lines, repeated",
        "constructs, and code that a first call loads. Measured by `make counts`",
        "(`scripts/counts.py` has the patterns; `python scripts/counts.py --list twins` shows what a",
        "row counted). *Read* was counted by hand before the rooms were rebuilt, and *then* by this",
        'script on the same sources. From "loaded by" on, *read* was measured before packages loaded',
        "their modules on first use.",
        "",
        "| what | how it is counted | read | then | now | wanted |",
        "|---|---|---|---|---|---|",
    ]
    for name, how, find, read, then, wanted in ROWS:
        lines.append(f"| {name} | {how} | {read} | {then} | {len(find(house)):,} | {wanted} |")
    lines += ["", "Code lines by folder:", "", "| folder | lines |", "|---|---|"]
    lines += [f"| {name} | {int(n):,} |" for n, name in (x.split() for x in folders(house))]
    return "\n".join([*lines, ""])


def main() -> None:
    """Count, print, and write if asked."""
    parser = argparse.ArgumentParser(description="Measure what the library is made of.")
    parser.add_argument("--root", type=Path, default=s.ROOT, help="the package's folder")
    parser.add_argument("--list", help="what one row counted")
    parser.add_argument("--write", action="store_true", help="write docs/counts.md")
    options = parser.parse_args()
    house = House(options.root.resolve())
    if options.list:
        chosen = [row for row in ROWS if options.list in row[0]]
        for row in chosen:
            print(f"{row[0]}: {(row[2].__doc__ or row[1]).strip()}")
            print(*(f"    {x}" for x in row[2](house)), sep="\n")
        if not chosen:
            raise SystemExit(f"rows: {', '.join(row[0] for row in ROWS)}")
        return
    text = table(house)
    print(text)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
