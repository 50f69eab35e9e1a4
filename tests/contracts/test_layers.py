"""Imports flow downhill, `import phipsi` is light, names are ASCII, files are short."""

import ast
import importlib.util
import io
import operator
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from rooms import contracts, entered_otherwise, ring_of, rooms
from sources import imports, modules, private_accesses, statements, text_of, tree_of

import phipsi

ROOT = Path(__file__).parents[2] / "src" / "phipsi"
PACKAGE = "phipsi"

# `import phipsi` itself re-exports all rooms. One module is written as a user would write it, and
# one is a table that answers with names of any room.
NAMES_ALL_ROOMS = {"__init__.py", "cli/demo.py", "files/foreign_name_hints.py"}
# Modules that have the name of a public namespace and offer what is in a room: texts name them.
DOORS = {"constraints", "gym", "jax", "operators", "torch"}

MAX_LINES = 600


def sources() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def names_of_modules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and room of strings that are the name of a module: what `import_module` takes."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and re.fullmatch(rf"{PACKAGE}(\.\w+)+(:\w+)?", text):
            yield node.lineno, text.split(".")[1].partition(":")[0]


def breaches(tree: ast.AST, room: str) -> Iterator[str]:
    """Names of later rooms as strings, which import-linter cannot see; imports of the package."""
    rings = ring_of()
    for line, target in names_of_modules(tree):
        if target in rings and target not in DOORS and rings[target] > rings[room]:
            yield f"line {line} names {target}, a later room; ask for a view (phipsi/views.py)"
    for node in statements(tree):
        names = [x.name for x in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            names = [PACKAGE for x in node.names if x.name not in rings]
        if PACKAGE in names:
            yield f"line {node.lineno} imports the package itself; import from the room"


def linted(project: Path, sources: Path) -> subprocess.CompletedProcess[str]:
    """What import-linter says of a project whose package is in a folder."""
    code = (
        "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=project, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(sources)},
    )  # fmt: skip


def test_imports_keep_the_contracts():
    """Who may import whom is in pyproject.toml."""
    run = linted(ROOT.parents[1], ROOT.parent)
    assert run.returncode == 0, run.stdout + run.stderr


def test_an_import_of_a_later_room_breaks_the_contract(tmp_path: Path):
    package = tmp_path / "house"
    for name, text in {"early": "from house import late\n", "late": "", "__init__": ""}.items():
        package.mkdir(exist_ok=True)
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_package = "house"\n[[tool.importlinter.contracts]]\n'
        'name = "rings"\ntype = "layers"\ncontainers = ["house"]\nexhaustive = true\n'
        'layers = ["late", "early"]\n',
        encoding="utf-8",
    )
    run = linted(tmp_path, tmp_path)
    assert run.returncode == 1 and "house.early -> house.late" in run.stdout


def test_every_room_is_entered_through_what_it_offers():
    """Library, examples, benchmarks and scripts; names for type checkers and whole modules too."""
    trees = {name: tree_of(path) for name, path in modules().items() if name != PACKAGE}
    root = ROOT.parents[1]
    for folder in ("examples", "benchmarks", "scripts"):
        for path in (root / folder).rglob("*.py"):
            trees[path.relative_to(root).as_posix()] = tree_of(path)
    found = list(entered_otherwise(trees, rooms()))
    assert not found, (
        "import these from the package of the room, and add them to what it offers there "
        "(then run scripts/public_names.py):\n" + "\n".join(found)
    )


def test_every_room_has_a_contract():
    protected = {x["id"]: x for x in contracts() if x["type"] == "protected"}
    assert [f"{PACKAGE}.{x}" for x in protected] == list(rooms())
    for name, contract in protected.items():
        assert contract["protected_modules"] == [f"{PACKAGE}.{name}.*"]
        assert contract["allowed_importers"] == [f"{PACKAGE}.{name}"]


@pytest.mark.parametrize(
    ("where", "source", "found"),
    [
        ("phipsi.pages.scene", "from phipsi.files import load", []),
        ("phipsi.pages.scene", "from phipsi.files import joint_values, load", []),
        ("phipsi.pages.scene", "import phipsi.files", []),
        ("phipsi.pages.scene", "from phipsi import files", []),
        ("phipsi.pages.scene", "from phipsi.core.model import Pose", []),
        ("phipsi.pages.scene", "from phipsi.core.compiler import compile", []),
        ("phipsi.files.urdf.read_urdf", "from phipsi.files.load import parse", []),
        ("phipsi.torch", "from phipsi.files.load import *", []),
        ("phipsi.pages.scene", "from phipsi.files.load import *", ["phipsi.files.load.*"]),
        ("phipsi.pages.scene", "from phipsi.files.load import load", ["phipsi.files.load.load"]),
        ("phipsi.pages.scene", "import phipsi.files.load as f", ["phipsi.files.load"]),
        ("phipsi.pages.scene", "from phipsi.files import sdf", ["phipsi.files.sdf"]),
        ("phipsi.pages.scene", "from phipsi.files.sdf import x", ["phipsi.files.sdf.x"]),
        ("phipsi.core.sweeps.lower", "from phipsi.core.model.pose import Pose",
         ["phipsi.core.model.pose.Pose"]),
        ("phipsi.errors", "if TYPE_CHECKING:\n    from phipsi.files.load import load",
         ["phipsi.files.load.load"]),
        ("scripts/x.py", "def f():\n    from phipsi.files.load import load",
         ["phipsi.files.load.load"]),
    ],
)  # fmt: skip
def test_the_search_for_other_entries(where: str, source: str, found: list[str]):
    doors = {
        "phipsi.files": {"load", "joint_values"},
        "phipsi.pages": set[str](),
        "phipsi.core.model": {"Pose"},
        "phipsi.core.sweeps": set[str](),
    }
    lines = entered_otherwise({where: ast.parse(source)}, doors)
    assert [line.partition(" ")[2] for line in lines] == found


@pytest.mark.parametrize(("entry", "kept"), [("house.room", True), ("house.room.cellar", False)])
def test_an_import_past_the_door_breaks_the_contract(tmp_path: Path, entry: str, kept: bool):
    room = tmp_path / "house" / "room"
    room.mkdir(parents=True)
    for path, text in {
        "__init__": "", "visitor": f"from {entry} import wine\n",
        "room/__init__": "", "room/cellar": "wine = 1\n", "room/bar": "import house.room.cellar\n",
    }.items():  # fmt: skip
        (tmp_path / "house" / f"{path}.py").write_text(text, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_package = "house"\n[[tool.importlinter.contracts]]\n'
        'name = "room"\ntype = "protected"\nprotected_modules = ["house.room.*"]\n'
        'allowed_importers = ["house.room"]\n',
        encoding="utf-8",
    )
    run = linted(tmp_path, tmp_path)
    assert (run.returncode == 0) == kept, run.stdout
    assert kept or "house.visitor -> house.room.cellar" in run.stdout


@pytest.mark.parametrize("is_module_first", [False, True])
def test_what_a_room_offers_is_not_replaced_by_a_module_of_that_name(
    is_module_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    name = f"room_{is_module_first}".lower()
    (tmp_path / name).mkdir()
    for path, text in {
        "collect": "def collect(): ...\n",
        "other": "",
        "__init__": "from phipsi.package_state import offer\n"
        "__getattr__, __dir__, __all__ = offer(\n"
        '    __name__, {"other": "."}, within={"collect": "collect"}\n)\n',
    }.items():
        (tmp_path / name / f"{path}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    room = importlib.import_module(name)
    assert not [x for x in sys.modules if x.startswith(f"{name}.")], "entering loads nothing"
    if is_module_first:
        importlib.import_module(f"{name}.collect")
    assert room.collect is importlib.import_module(f"{name}.collect").collect is room.collect
    assert room.other is sys.modules[f"{name}.other"]
    assert dir(room) == room.__all__ == ["other"]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = room.nothing


def test_no_module_reaches_a_later_room_by_its_name():
    found = [
        f"{path.relative_to(ROOT)}: {breach}"
        for path in sources()
        if str(path.relative_to(ROOT)) not in NAMES_ALL_ROOMS
        for breach in breaches(tree_of(path), path.relative_to(ROOT).with_suffix("").parts[0])
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("room", "source", "legal"),
    [
        ("core", "from phipsi.core.model import Model", True),
        ("core", "from phipsi import errors", True),
        ("core", "import numpy, math", True),
        ("core", "import phipsi as pp", False),
        ("core", "from phipsi import Model", False),
        ("core", "def f():\n    import phipsi", False),
        ("codegen", "import_module('phipsi.native.pipeline')", True),
        ("core", "import_module('phipsi.native.pipeline')", False),
        ("core", "view('phipsi.pages.displays:html_of')", False),
        ("core", "raise ValueError('see phipsi.pages')", True),
    ],
)
def test_the_checker_sees_names_of_later_rooms(room: str, source: str, legal: bool):
    found = list(breaches(ast.parse(source), room))
    assert legal == (not found), found


def test_rooms_read_no_private_attributes_of_others():
    trees = {name: tree_of(path) for name, path in modules().items()}
    found = list(private_accesses(trees, imports()))
    assert not found, "use what the other room offers, or let it offer more:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "legal"),
    [
        ("def f(sim): return sim._graph", False),
        ("def f(sim): return sim.inner._graph.start", False),
        ("class A:\n    def f(self, b): return b.plan()._steps", False),
        ("class A:\n    def f(self): return self._graph", True),
        ("class A:\n    _graph: int\ndef f(a): return a._graph", True),
        ("from phipsi.codegen.fmu import Fmu\ndef f(a): return a._near", True),
        ("from phipsi.simulation.simulate.run import Run\ndef f(a): return a._far", False),
        ("import sys\nsys._getframe(1)", True),
        ("from phipsi import loaded\nloaded._time", False),
        ("def f(a): return a._replace(q=1), a.__dict__", True),
    ],
)
def test_reading_private_attributes_of_others_is_seen(source: str, legal: bool):
    trees = {
        "phipsi.codegen.fmu_model": ast.parse(source),
        "phipsi.codegen.fmu": ast.parse("class Fmu:\n    def _near(self): ..."),
        "phipsi.simulation.simulate.run": ast.parse("class Run:\n    def _far(self): ..."),
    }
    targets = {"phipsi.codegen.fmu", "phipsi.simulation.simulate.run"}
    graph = {"phipsi.codegen.fmu_model": frozenset(x for x in targets if x in source)}
    assert legal == (not list(private_accesses(trees, graph)))


def loaded_by(code: str) -> set[str]:
    """The modules a new process has loaded after `code`."""
    code = f"import sys; before = set(sys.modules); {code}; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def test_import_phipsi_is_light():
    """The package's file alone: not even NumPy before something is used."""
    loaded = loaded_by("import phipsi")
    ours = {name for name in loaded if name.startswith(PACKAGE)}
    assert ours == {PACKAGE, f"{PACKAGE}.package_state", f"{PACKAGE}.views"}
    foreign = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names - {PACKAGE}
    assert not foreign, f"`import phipsi` loads {sorted(foreign)}; import them where they are used"


@pytest.mark.parametrize(
    ("use", "needless"),
    [
        (
            "import phipsi.operators",
            ["algorithms", "native", "core.backends", "contact", "simulation", "pages"],
        ),
        (
            "import phipsi; phipsi.ModelBuilder",
            ["core.expressions", "core.operators", "algorithms", "files", "pages"],
        ),
        (
            "import phipsi as p; p.forward_dynamics(p.examples.seven_joint_arm(), *[7 * [0]] * 3)",
            ["identification", "core.calculus", "contact", "simulation", "files", "pages"],
        ),
        (
            "import phipsi; phipsi.load",
            ["core.expressions", "algorithms", "simulation", "pages", "files.sdf"],
        ),
        ("import phipsi; phipsi.simulate", ["files", "pages", "papers", "studies"]),
        (
            "import phipsi; phipsi.simulate(phipsi.examples.planar_arm(1), [0], [0], 1, dt=0.1, "
            "integrator='rk4')",
            [
                "contact.contact_rows",
                "contact.geometry",
                "simulation.modes.contact_runs",
                "simulation.simulate.changing_run",
                "simulation.compiled.simulator",
                "simulation.kinematic_loops.closure_calls",
                "core.calculus.differentiation",
                "simulation.control.controllers",
                "laws.motors_and_filters",
                "transmissions",
            ],
        ),
        (
            "import phipsi as p; s = p.Simulator(p.examples.planar_arm(1)); "
            "s.rollout(s.initial_state())",
            [
                "contact.contact_rows",
                "contact.geometry",
                "simulation.impacts.contact_steps",
                "simulation.runs.run_gradient",
                "core.calculus.differentiation",
                "simulation.control",
                "transmissions",
            ],
        ),
    ],
)
def test_a_name_loads_what_it_needs(use: str, needless: list[str]):
    loaded = loaded_by(use)
    assert f"{PACKAGE}.errors" in loaded
    roots = {name.partition(".")[0] for name in loaded}
    heavy = roots & {
        "scipy",
        "sympy",
        "matplotlib",
        "mujoco",
        "pinocchio",
        "xml",
        "torch",
        "jax",
        "gymnasium",
    }
    assert not heavy, f"`{use}` loads {sorted(heavy)}"
    foreign = roots - sys.stdlib_module_names - {PACKAGE, "numpy", "llvmlite"}
    assert not foreign, f"`{use}` loads {sorted(foreign)}, which are no core dependencies"
    absent = {f"{PACKAGE}.{name}" for name in needless}
    assert absent <= set(modules()), "no such modules: say what they are called now"
    assert not loaded & absent


def test_the_package_lists_its_public_names_only():
    space: dict[str, object] = {}
    exec("from phipsi import *", space)
    assert set(phipsi.__all__) == set(space) - {"__builtins__"}
    assert set(dir(phipsi)) == {*phipsi.__all__, "__version__"}
    assert len(set(phipsi.__all__)) == len(phipsi.__all__)
    listed = " ".join(names for rows in phipsi._TABLE.values() for names in rows.values())
    assert len(listed.split()) == len(phipsi.__all__), "a name stands twice in the table"


def test_modules_that_are_not_public_can_be_reached_too():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert "core" in packages and "core" not in dir(phipsi)
    for name in packages:
        assert getattr(phipsi, name).__name__ == f"phipsi.{name}"


def test_names_that_stand_elsewhere_say_where():
    from phipsi.files import foreign_name_hints

    for where, names in foreign_name_hints._ELSEWHERE.items():
        for name in names.split():
            with pytest.raises(AttributeError, match=re.escape(f"it is {where}.{name}")):
                getattr(phipsi, name)
            module = where.replace("pp.", "phipsi.")
            home = getattr(phipsi, module[7:]) if where.startswith("pp.") else None
            assert hasattr(home or importlib.import_module(module), name), (where, name)
    for name, now in foreign_name_hints._BEFORE.items():
        with pytest.raises(AttributeError, match=re.escape(f"it is {now} now")):
            getattr(phipsi, name)
        home, _, inner = now.partition("(")[0].rpartition(".")
        if home.startswith("pp"):
            assert operator.attrgetter(f"{home}.{inner}"[3:])(phipsi), (name, now)
        else:
            assert hasattr(importlib.import_module(home), inner), (name, now)


def script_named(name: str) -> ModuleType:
    path = ROOT.parents[1] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules[name] = script  # where dataclasses look up their module
    try:
        spec.loader.exec_module(script)
    finally:
        del sys.modules[name]
    return script


def test_files_that_mutants_are_made_of_are_there():
    """Modules that moved would end `make mutants`, which nobody runs every day."""
    for group in script_named("mutants").GROUPS:
        tests = [ROOT.parents[1] / x.partition("::")[0] for x in group.tests]
        missing = [x for x in (*(ROOT / name for name in group.files), *tests) if not x.is_file()]
        assert not missing, (group.name, missing)


def test_what_type_checkers_see_is_current():
    """Their stub, written from the table that users get their names from."""
    script = script_named("public_names")
    for path, text in ((script.STUB, script.stub()), *script.room_stubs()):
        assert path.read_text(encoding="utf-8") == text, "run scripts/public_names.py"
    for name, (home, inner) in phipsi._HOMES.items():
        module = importlib.import_module(f"phipsi.{home}")
        assert getattr(phipsi, name) is (getattr(module, inner) if inner else module)


def test_every_view_is_there_and_others_can_be_registered(monkeypatch: pytest.MonkeyPatch):
    from phipsi import views

    assert all(callable(views.view(name)) for name in phipsi._VIEWS)
    monkeypatch.setattr(views, "_VIEWS", dict(views._VIEWS))
    views.register_view("html", "builtins:repr")
    arm = phipsi.examples.planar_arm(1)
    assert arm._repr_html_() == repr(arm)
    with pytest.raises(ValueError, match=r"must read 'package.module:function'"):
        views.register_view("html", "builtins.repr")


def test_a_name_it_does_not_have():
    with pytest.raises(AttributeError, match="has no attribute 'mass_matrx'") as caught:
        phipsi.mass_matrx  # noqa: B018  # pyright: ignore
    assert (caught.value.name, caught.value.obj) == ("mass_matrx", phipsi)


# Strings and comments, in the order in which they begin; prefixes of strings are names before them.
_TEXT = re.compile(
    r""""{3}(?:[^"\\]|\\.|"(?!""))*"{3}|'{3}(?:[^'\\]|\\.|'(?!''))*'{3}"""
    r"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\#[^\n]*""",
    re.DOTALL,
)


def greek_names(text: str) -> list[tuple[int, str]]:
    """Lines and words of a module with letters that are not ASCII, outside of texts."""
    if text.isascii():
        return []
    bare = _TEXT.sub(lambda m: " " + "\n" * m[0].count("\n"), text)
    return [
        (i, word)
        for i, line in enumerate(bare.splitlines(), 1)
        if not line.isascii()
        for word in re.findall(r"\w*[^\x00-\x7f]\w*", line)
    ]


def test_identifiers_are_ascii():
    found = [
        f"{path.relative_to(ROOT)}:{line} {word}"
        for path in sources()
        for line, word in greek_names(text_of(path))
    ]
    assert not found, "Greek belongs in text and output, not in names:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    ["φ = 1", "x = 'φ'; dφ = 2", '"""φ\n"""\nx.ψ', "x = 1  # φ\nℳ = 2", "f'φ' + φ", r"'\'' + φ"],
)
def test_names_that_are_not_ascii_are_found(text: str):
    """By line and word, as Python's own tokens have them."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    names = [(t.start[0], t.string) for t in tokens if t.type == tokenize.NAME]
    want = [(line, name) for line, name in names if not name.isascii()]
    assert greek_names(text) == want and len(want) == 1


def test_files_stay_short():
    lengths = {path: len(text_of(path).splitlines()) for path in sources()}
    found = [f"{p.relative_to(ROOT)}: {n} lines" for p, n in lengths.items() if n > MAX_LINES]
    assert not found, f"split what is longer than {MAX_LINES} lines:\n" + "\n".join(found)


def _names_you_may_know(library: str) -> list[tuple[str, list[str]]]:
    """Every name of a library in its page docs/migration with what stands beside it."""
    page = ROOT.parents[1] / "docs" / "migration" / f"{library}.md"
    text = page.read_text(encoding="utf-8")
    table = text.partition("\n## API mapping\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    return [(name, re.findall(r"`([\w.]+)`", ours)) for theirs, ours in rows
            for name in re.findall(r"`(\w+)`", theirs)]  # fmt: skip


def unknown(text: str) -> set[str]:
    """Names below `pp` in a text, in messages to paste too, that are not there."""
    out = set[str]()
    for dotted in re.findall(r"(?<![\w.\"'])pp\.([A-Za-z]\w*(?:\.[A-Za-z]\w*)*)", text):
        x: object = phipsi
        for name in dotted.split("."):
            if not isinstance(x, ModuleType | type):
                break
            if not hasattr(x, name):
                out.add(dotted)
                break
            x = getattr(x, name)
    return out


def test_every_name_that_is_written_down_is_there():
    assert unknown("pp.body_poses(model, q)\n    pp.forces.Damping()") == {
        "body_poses",
        "forces.Damping",
    }
    written = {"src/phipsi/files/foreign_name_hints.py": {"rnea"}}  # a name of others, explained
    root = ROOT.parents[1]
    for folder in ("src", "examples", "benchmarks", "scripts"):
        for path in (root / folder).rglob("*.py"):
            name = path.relative_to(root).as_posix()
            assert unknown(path.read_text(encoding="utf-8")) <= written.get(name, set()), name


@pytest.mark.parametrize(("name", "ours"), _names_you_may_know("pinocchio"))
def test_names_of_pinocchio_answer_with_the_name_here(name: str, ours: list[str]):
    with pytest.raises(AttributeError) as info:
        getattr(phipsi, name)
    said = re.findall(r"(?:pp|model)\.[\w.]+", str(info.value))
    written = {x if x.startswith("model.") else f"pp.{x}" for x in ours if x != "System"}
    assert said and set(said) <= written


def test_names_of_other_libraries_exist_here():
    from phipsi.files import foreign_name_hints

    tables = (foreign_name_hints._PINOCCHIO, foreign_name_hints._MUJOCO, foreign_name_hints._DRAKE)
    for theirs, ours in (row for table in tables for row in table.items()):
        for x in re.findall(r"^\w+\(|[\w.]+", ours.partition("(")[0]):
            where = phipsi.Model if x.startswith("model.") else phipsi
            assert operator.attrgetter(x.removeprefix("model."))(where), (theirs, x)
        for name in theirs.split():
            assert not hasattr(phipsi, name)
    listed = [name for name, _ in _names_you_may_know("mujoco")]
    assert "mj_geomDistance" in listed
    assert not [name for name in listed if not foreign_name_hints.name_here(name)]
    with pytest.raises(AttributeError, match=r"pp\.simulate and pp\.rollout are here .* mj_step$"):
        phipsi.mj_step  # noqa: B018
    # imports say so too; of other names they say what Python says
    with pytest.raises(ImportError, match=r"'rnea' from 'phipsi': pp\.inverse_dynamics is here"):
        from phipsi import rnea  # noqa: F401
    with pytest.raises(ImportError, match=r"'nothing' from 'phipsi' \("):
        from phipsi import nothing  # noqa: F401
    assert not hasattr(phipsi, "rnea")
    with pytest.raises(AttributeError, match="there is no data object"):
        phipsi.MjData  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nonsense'$"):
        phipsi.nonsense  # noqa: B018


def test_every_error_is_public():
    """What the library raises on purpose can be caught by name."""
    trees = [tree_of(path) for path in sources()]
    classes = (
        node for tree in trees for node in statements(tree) if isinstance(node, ast.ClassDef)
    )
    names = {node.name for node in classes if node.name.endswith(("Error", "Warning"))}
    assert names - set(phipsi.errors.__all__) == {"NoOperatorError"}  # caught inside the library


def test_texts_speak_of_the_project_only():
    """No numbers of issues, which a reader cannot look up."""
    root = ROOT.parents[1]
    written: list[Path] = []
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(".")]  # nothing of tools
        written += [Path(folder, name) for name in names if name.endswith((".md", ".py"))]
    assert len(written) > 300
    for path in written:
        found = re.search(r"\bissue \d", path.read_text(encoding="utf-8"), re.IGNORECASE)
        assert not found, f"{path.relative_to(root)}: {found[0]}"
