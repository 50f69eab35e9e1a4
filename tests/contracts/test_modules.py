"""No module imports itself through others; no two modules have the same name.

Imports for type checkers count, and those inside functions. Exceptions stand here and may only
become fewer.
"""

import ast
from collections import Counter

import pytest
from sources import cycles, imports, namesakes, statements, targets

# Modules in cycles, by folder.
IN_CYCLES: dict[str, int] = {}
KNOWN_NAMESAKES: set[str] = set()


def folder(group: tuple[str, ...]) -> str:
    """The room of a group of modules: layers keep it from reaching over several."""
    return group[0].split(".")[1]


def test_no_module_imports_itself_through_others():
    counted: Counter[str] = Counter()
    found = cycles(imports())
    for group in found:
        counted[folder(group)] += len(group)
    more = {name: n for name, n in counted.items() if n > IN_CYCLES.get(name, 0)}
    assert not more, f"these import each other: {[g for g in found if folder(g) in more]}"


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
        ({"a": {"a", "b"}, "b": set()}, [("a",)]),
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


def test_imports_are_found_wherever_statements_may_be():
    """Among the statements are all imports that a walk through everything finds."""
    source = """
import a
class C:
    import b
    def f(self, x):
        try:
            import c
        except OSError:
            import d
        else:
            import e
        finally:
            import f
        with x: import g
        for i in x: import h
        else: import i
        while x: import j
        match x:
            case 1: import k
        if x: pass
        elif not x: import m
        else:
            async def y(): import n
"""
    tree = ast.parse(source)
    everywhere = [x.names[0].name for x in ast.walk(tree) if isinstance(x, ast.Import)]
    found = [x.names[0].name for x in statements(tree) if isinstance(x, ast.Import)]
    assert sorted(found) == sorted(everywhere) == list("abcdefghijkmn")
