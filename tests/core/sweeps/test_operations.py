"""The table of operations: every operation has a row, and what is known of it stands there only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sources import tree_of

import phipsi
import phipsi.transmissions.rotor_operations  # enters its rows
from phipsi.core.expressions.functions import FUNCTIONS
from phipsi.core.sweeps.ir import _OPERATIONS as ROWS, Loop, Operation, Reads, StepKind
from phipsi.core.sweeps.operations import operation

SOURCES = Path(phipsi.__file__).parent
TABLE = SOURCES / "core" / "sweeps" / "operations.py"
EARLIER = {"spatial", "model", "expressions", "operators", "rewrite"}  # know no operations
# words that mean something else too: leaves, kinds of steps; and functions of expressions
COMMON = set(
    "M T add mul gravity total pair matrix eye zero input seed spin angular up down inv dH dHT Jr "
    "unit_rate relative selected rotation K_e C_e modal modal_rows dM ddM dE dET logdet".split()
) | set(FUNCTIONS)


def collections_of_names(source: str | ast.AST) -> list[tuple[int, set[str]]]:
    """Tuples, lists, sets and dictionaries that name three operations or more."""
    found: list[tuple[int, set[str]]] = []
    for node in ast.walk(ast.parse(source) if isinstance(source, str) else source):
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            items: list[ast.expr | None] = list(node.elts)
        elif isinstance(node, ast.Dict):
            items = [*node.keys, *node.values]
        else:
            continue
        names = {x.value for x in items if isinstance(x, ast.Constant) and x.value in ROWS}
        if len(names) >= 3 and names - COMMON:
            found.append((node.lineno, names))
    return found


def test_the_checker_finds_collections():
    assert collections_of_names('SUMS = ("total", "scatter", "to_row")')
    assert collections_of_names('COST = {"up": 1, "down": 2, "gather": 3}')
    assert collections_of_names('KIND = {1: "up", 2: "down", 3: "gather"}')
    assert not collections_of_names('x.op in ("scatter", "to_row")')
    assert not collections_of_names('LEAVES = ("M", "Jr", "gravity")')


def test_no_operation_is_listed_anywhere_else():
    """Nothing outside the table has a set of operations by name: it asks the rows."""
    for path in sorted(SOURCES.rglob("*.py")):
        if path != TABLE and EARLIER.isdisjoint(path.relative_to(SOURCES).parts):
            found = collections_of_names(tree_of(path))
            assert not found, f"{path.relative_to(SOURCES)}: {found}; ask the rows instead"


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="the name 'mul' already belongs to an operation"):
        Operation("mul", "again")


_OURS = [name for name in ROWS if operation(name).source.startswith("phipsi.")]


@pytest.mark.parametrize("name", _OURS)  # not what other tests register
def test_rows_are_consistent(name):
    row = operation(name)
    assert row.name == name and row.meaning
    directions = {Reads.CHILDREN: StepKind.TIP_TO_BASE, Reads.PARENT: StepKind.BASE_TO_TIP}
    assert row.step is directions.get(row.reads)
    assert row.elsewhere == (row.reads is not Reads.HERE or row.runs is not Loop.OWN)
    if row.solves:
        assert row.runs is Loop.ONCE
    if row.form and not callable(row.form):
        assert row.form.count("{") == row.form.count("}")


def test_rows_survive_pickling():
    import pickle

    row = operation("up")
    assert pickle.loads(pickle.dumps(row)) is row
