"""What a prompt prints for the objects of the algebra, of pages and of generated code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phipsi as pp
from phipsi.cli.common import ModelSource, Reading
from phipsi.operators import Jr, mass_matrix, phi, tau
from phipsi.papers import Workbench, check_model, derivation_of

ARM = pp.examples.planar_arm(2)
C = pp.custom.operator("C", "rates -> efforts", 0.5, symmetric=True)
FAILS = pp.prove("H G = I")
DERIVED = pp.derive("J mass_matrix^-1 J* = B* Omega B")
EXPLAINED = pp.explain(mass_matrix.inv, ARM, plan=True)
FAMILY = pp.diff(mass_matrix, "q")
PROGRAM = pp.compile(mass_matrix.inv @ tau, ARM, backend="reference")

OBJECTS: dict[str, Any] = {
    "product": mass_matrix.inv @ tau,
    "leaf": phi,
    "custom operator": C,
    "custom vector": pp.custom.vector("k", "efforts", 1.0),
    "custom formula": pp.custom.operator("S_v", "rates -> efforts", lambda v: np.diag(v)),
    "custom recursion": pp.custom.operator(
        "Y", "motions -> forces", recursion="Y = M + E_phi Y E_phi*"
    ),
    "custom scalar": pp.custom.scalar("h", 0.5),
    "Riccati": pp.custom.riccati(J=Jr + C),
    "space": phi.takes,
    "Program": PROGRAM,
    "several results": pp.compile((mass_matrix, phi), ARM, mode="dense", backend="reference"),
    "gradient": pp.vjp("mass_matrix^-1 tau", ARM, "q", backend="reference"),
    "Family": FAMILY,
    "FamilyProgram": FAMILY.compile(ARM, backend="reference"),
    "RewriteStep": EXPLAINED.rewrites[0],
    "Sweep": EXPLAINED.sweeps[0],
    "plan": EXPLAINED.plans[0],
    "Identity": pp.Identity("H G", "I", "Jr = 0"),
    "named Identity": pp.identities("Lemma 0.4")[0],
    "a check": next(x for x in pp.identities() if x.check is not None),
    "Proof": pp.prove("H φ K H ψ = H φ − H ψ"),
    "Proof that fails": FAILS,
    "Counterexample": FAILS.counterexample,
    "Derivation": DERIVED,
    "DerivationStep": DERIVED.steps[0],
    "Derivation of a paper": derivation_of("Lemma 0.1"),
    "no Derivation": pp.derive("I + H φ K = I"),
    "Check": next(iter(check_model(ARM))),
    "Reading": Reading(),
    "ModelSource": ModelSource(),
}


def one_line(x: Any) -> str:
    text = repr(x)
    assert " at 0x" not in text
    assert text and "\n" not in text and len(text) < 400
    return text


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_one_line_without_an_address(name: str):
    one_line(OBJECTS[name])


def test_explanations_print_what_they_say():
    for x in (EXPLAINED, pp.explain("phi*")):
        assert repr(x) == str(x) and " at 0x" not in repr(x)


def test_lines_say_what_matters():
    assert repr(pp.Identity("H G", "I", "Jr = 0")) == "<Identity H G = I[efforts] if Jr = 0>"
    assert repr(FAILS) == "<Proof H G = I fails, holds if Jr = 0>"
    assert repr(DERIVED) == "<Derivation J ℳ⁻¹ J* = B* Ω B: 2 steps>"
    assert repr(OBJECTS["no Derivation"]) == "<Derivation I + H φ K ≠ I[efforts]: refuted>"
    assert repr(OBJECTS["FamilyProgram"]) == "<FamilyProgram over dq: (q)>"
    assert repr(EXPLAINED.rewrites[0]).startswith("<RewriteStep definition of ℳ: ℳ = Jr + H φ")


@pytest.fixture
def products(tmp_path: Path) -> Iterator[dict[str, Any]]:
    package = pp.export(ARM, tmp_path / "arm", what="forward_dynamics")
    viewer = pp.show(ARM, open=False, notebook=False)
    with Workbench() as bench:
        yield {
            "Exported": package,
            "ExportedFunction": package.functions[0],
            "ExportedArray": package.functions[0].inputs[0],
            "Viewer": viewer,
            "Workbench": bench,
        }
    viewer.close()


def test_pages_and_packages_are_one_line(products: dict[str, Any]):
    for name, x in products.items():
        assert name in one_line(x)
