"""A class name means one thing in the whole library, underscores aside."""

import ast
from collections import defaultdict
from collections.abc import Mapping

from sources import modules, tree_of

# Names of several classes, and why: public names of two namespaces, which users write in full.
ALLOWED = {
    **dict.fromkeys(
        ("Cylindrical", "Planar", "Prismatic", "Revolute", "Spherical", "Universal"),
        "joints.X connects a body to its parent, constraints.X closes a loop with the same joint",
    ),
    "Weld": "constraints.Weld closes a loop; attachments.Weld makes bodies of fixed joints one",
    "Grasp": "grasping.Grasp is a hand that holds; topology.Grasp is the event that closes it",
    "State": "conventions.State is that of another library; forces.State is what laws read",
}


def shared(trees: Mapping[str, ast.AST]) -> dict[str, list[str]]:
    """Class names that occur twice, with the modules they are in."""
    found = defaultdict(list)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(module)
    return {name: where for name, where in found.items() if len(where) > 1}


def test_no_two_classes_have_one_name():
    found = shared({name: tree_of(path) for name, path in modules().items()})
    new = {name: where for name, where in found.items() if name not in ALLOWED}
    assert not new, f"give one of each a name that says whose it is: {new}"
    assert found.keys() == ALLOWED.keys(), "remove what no two classes share from ALLOWED"
    assert all(len(where) == 2 for where in found.values())


def test_the_search_for_shared_names():
    trees = {
        "p.a": "class A: pass\nclass B:\n    class C: ...",
        "p.b": "def f():\n    class _C: ...",
    }
    assert shared({name: ast.parse(text) for name, text in trees.items()}) == {"C": ["p.a", "p.b"]}
