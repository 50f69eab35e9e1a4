"""No module imports itself through others; no two modules have the same name.

Imports for type checkers count, and those inside functions. Exceptions stand here and may only
become fewer.
"""

import ast

import pytest
from sources import cycles, imports, namesakes, targets

KNOWN_CYCLES: set[tuple[str, ...]] = {
    ("algorithms.closed_derivatives", "algorithms.derivatives"),
    ("algorithms.system", "algorithms.system_report"),
    (
        "backends.arguments",
        "backends.layout",
        "backends.native.runner",
        "backends.program",
        "backends.reference",
    ),
    (
        "backends.native.angles",
        "backends.native.columns",
        "backends.native.inputs_outputs",
        "backends.native.kernel",
        "backends.native.matrix_memory",
        "backends.native.mirror",
        "backends.native.pairs",
        "backends.native.products",
        "backends.native.row_matrix",
        "backends.native.small",
        "backends.native.squares",
    ),
    ("expressions.check", "expressions.node", "expressions.numbers", "expressions.render"),
    ("simulation.closed_linear", "simulation.linear_steps"),
    ("simulation.plotting", "simulation.storage", "simulation.trajectory"),
    ("simulation.rollout_code", "simulation.rollout_steps"),
}
KNOWN_NAMESAKES: set[str] = {
    "blocks",
    "builder",
    "closure_rows",
    "dense",
    "diagonal",
    "engine",
    "groups",
    "layout",
    "numbers",
    "phases",
    "scalars",
    "solids",
    "steps",
    "tables",
}


def short(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.removeprefix("phipsi.") for name in names)


def test_no_module_imports_itself_through_others():
    found = {short(cycle) for cycle in cycles(imports())}
    new = {c for c in found if not any(set(c) <= set(known) for known in KNOWN_CYCLES)}
    assert not new, f"these import each other: {sorted(new)}"


def test_no_two_modules_have_one_name():
    found = namesakes()
    new = {stem: names for stem, names in found.items() if stem not in KNOWN_NAMESAKES}
    assert not new, f"give one of each another name: {new}"


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [("a", "b")]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d", "a"}},
         [("a", "b", "c"), ("d", "e")]),
        ({"a": {"b", "c"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}, [("a", "b"), ("c", "d")]),
    ],
)  # fmt: skip
def test_the_search_for_cycles(graph, found):
    assert cycles({name: frozenset(x) for name, x in graph.items()}) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from p.b import f", {"p.b"}),
        ("from p import b", {"p.b"}),
        ("from . import b", {"p.b"}),
        ("from .b import f", {"p.b"}),
        ("from .q.c import f", {"p.q.c"}),
        ("import p.q.c as c", {"p.q.c"}),
        ("import numpy, p.b", {"p.b"}),
        ("def f():\n    from p.q import c", {"p.q.c"}),
        ("if TYPE_CHECKING:\n    from p.b import B", {"p.b"}),
        ("from p.q import name", {"p.q"}),
        ("from numpy import b", set()),
    ],
)
def test_the_reading_of_imports(source, found):
    known = {"p", "p.a", "p.b", "p.q", "p.q.c"}
    assert set(targets(ast.parse(source), "p.a", False, known)) == found
