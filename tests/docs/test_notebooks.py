"""Notebooks with exercises: valid files, cells that run in order, checks that can be failed.

An exercise is four cells: its text, a cell that defines `check_1`, an empty cell for the answer,
and a solution that is collapsed and calls the check. Cells run without Jupyter: a last line that is
an expression is displayed, so its HTML is made as well.
"""

import ast
import importlib.util
import json
import re
import types
import webbrowser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phipsi as pp

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
KINDS = ("check", "exercise", "solution")


def cells(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def kind(cell: dict[str, Any]) -> str:
    """Which part of an exercise a cell is, or nothing."""
    return next((x for x in KINDS if x in cell["metadata"].get("tags", ())), "")


def text(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def run(cell: dict[str, Any], namespace: dict[str, Any]) -> None:
    """Execute a cell, and display its last value as a notebook does."""
    tree = ast.parse(text(cell), filename=cell["id"])
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, cell["id"], "exec"), namespace)
    value = None if last is None else eval(compile(last, cell["id"], "eval"), namespace)
    if hasattr(value, "_repr_html_"):
        value._repr_html_()


def test_there_are_five():
    assert [x.name[:3] for x in PATHS] == ["01-", "02-", "03-", "04-", "05-"]
    listed = re.findall(r"\(notebooks/([\w-]+\.ipynb)\)", (ROOT / "docs/notebooks.md").read_text())
    assert listed == [x.name for x in PATHS]


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_the_file_is_a_notebook_without_outputs(path: Path):
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert book["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[\w-]{1,64}", x) for x in ids)
    for cell in book["cells"]:
        assert set(cell["source"][:-1]) == {x for x in cell["source"][:-1] if x.endswith("\n")}
        if cell["cell_type"] == "markdown":
            assert set(cell) == {"cell_type", "id", "metadata", "source"}
            continue
        assert cell["cell_type"] == "code"
        assert cell["outputs"] == [] and cell["execution_count"] is None, "store it without outputs"
        assert max(map(len, text(cell).splitlines())) <= 100, text(cell)
    if importlib.util.find_spec("nbformat"):
        import nbformat

        nbformat.validate(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_links_lead_somewhere(path: Path):
    words = "\n".join(text(x) for x in cells(path) if x["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)\s]+)\)", words)
    assert links and all((FOLDER / x.partition("#")[0]).resolve().exists() for x in links)


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_every_exercise_has_an_empty_cell_and_a_solution(path: Path):
    book = cells(path)
    headings = [i for i, x in enumerate(book) if text(x).startswith("## Exercise ")]
    assert 2 <= len(headings) <= 3
    for n, i in enumerate(headings, 1):
        assert text(book[i]).startswith(f"## Exercise {n}: ")
        check, answer, solution = book[i + 1 : i + 4]
        assert [kind(x) for x in (check, answer, solution)] == list(KINDS)
        assert f"def check_{n}(" in text(check)
        assert all(line.startswith("#") for line in text(answer).splitlines())
        assert f"check_{n}(" in text(solution)
        assert solution["metadata"]["jupyter"] == {"source_hidden": True}
    assert sum(kind(x) != "" for x in book) == 3 * len(headings)


# Answers that are wrong, of every exercise: what a check is worth.
PD = pp.law(lambda q, v, kp, kd, goal: kp * (goal - q) - kd * v, name="pd")
WRONG = {
    "01-first-robot": [
        (np.zeros(7),),
        (1.0,),
        (types.SimpleNamespace(energy=np.array([20.0, 10.0])), 9.9),
    ],
    "02-controller": [(PD,), (PD, 400.0, 10.0), (0.5, 0.5)],
    "03-contact": [(pp.Material(stiffness=9810.0),), (0.5,), (9.81, 9.81)],
    "04-gradients": [(np.zeros(4),), (0.8,), ([3.0, 3.0],)],
    "05-algebra": [
        (pp.operators.v.T @ pp.operators.mass_matrix @ pp.operators.v,),
        ("phi = I + E_phi", "(I + H phi K) (I - H phi K) = I"),
        (pp.operators.mass_matrix @ pp.operators.mass_matrix.inv,),
    ],
}


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_cells_run_in_order(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("PHIPSI_BACKEND", "native")  # as users run them
    monkeypatch.setattr(webbrowser, "open", lambda *a, **k: True)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        for cell in cells(path):
            if cell["cell_type"] == "code":
                run(cell, namespace)
        exercises = [x for x in cells(path) if kind(x) == "solution"]
        solved = re.findall(r"^exercise (\d): correct$", capsys.readouterr().out, re.MULTILINE)
        assert solved == [str(n) for n in range(1, len(exercises) + 1)]
        assert len(WRONG[path.stem]) == len(exercises)
        for n, answer in enumerate(WRONG[path.stem], 1):
            with pytest.raises(AssertionError):
                namespace[f"check_{n}"](*answer)
    finally:
        if "viewer" in namespace:
            namespace["viewer"].close()


def test_the_checks_of_the_algebra_compare_expressions_and_say_what_is_wrong():
    book = cells(FOLDER / "05-algebra.ipynb")
    namespace: dict[str, Any] = {}
    for cell in book:
        if kind(cell) == "check" or "arm = " in text(cell):
            run(cell, namespace)
    check, good = namespace["check_2"], "(I + HφK)(I − HψK) = I"
    check("φ = I + φ E_φ", good)
    check("phi = E_phi phi + I", "(I + H phi K) (I - H psi K) = I")
    for answers, said in [
        (("E_phi phi = phi E_phi", good), "write phi = I"),
        (("φ", good), "write two sides"),
        (("φ = I + φ E_φ", "(I + HφK)(I + HφK)⁻¹ = I"), "without an inverse"),
        (("φ = I + φ E_φ", "(I + HφK)(I + HψK) = I"), "this is not true"),
    ]:
        with pytest.raises(AssertionError, match=said):
            check(*answers)
    with pytest.raises(AssertionError, match="at q the energy is 0.37"):
        namespace["check_1"](pp.parse("v* ℳ v"))
