"""Formulas that are none: what people write for blocks, rates and attributes, and the answers."""

from __future__ import annotations

import pytest

import phipsi as pp
from phipsi.errors import ParseError

BLOCK = r'{} is the block of P of one body.*pp\.compile\("P", model, mode="blocks"\)\(q\)'
ADJOINT = r"the adjoint of phi is phi\*, and its inverse phi\^-1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("P(n)", BLOCK.format(r"P\(n\)")),
        ("H P(1) H*", BLOCK.format(r"P\(1\)")),
        ("P_k H*", r"P_k is the block of P of one body.*pass custom=\[P_k\]"),
        ("d/dt ℳ", r'That of ℳ is  pp\.diff\("ℳ", "q", along="v"\)'),
        ("phi.T() M", ADJOINT),
        ("phi.inv()", ADJOINT),
    ],
)
def test_what_is_no_formula_is_answered_with_one(text: str, said: str):
    with pytest.raises(ParseError, match=said):
        pp.parse(text)


def test_the_lines_of_the_answers_work():
    arm = pp.examples.planar_arm(2)
    assert pp.compile("P", arm, mode="blocks")([0.1, 0.2]).shape == (2, 6, 6)
    assert str(pp.diff("ℳ", "q", along="v"))
    assert pp.parse("phi*") is pp.parse("phi").T and pp.parse("phi^-1") is pp.parse("phi").inv


@pytest.mark.parametrize("text", ["H P H* (zz)", "P + unknown"])
def test_other_errors_stay(text: str):
    with pytest.raises(ParseError, match="is not an operator of the catalogue") as told:
        pp.parse(text)
    assert "block of" not in str(told.value)


def test_attributes_that_expressions_lack():
    x = pp.parse("phi")
    for name, right in (("inverse", "inv"), ("transpose", "T"), ("H", "T")):
        with pytest.raises(AttributeError, match=rf"the property x\.{right}"):
            getattr(x, name)
    assert not hasattr(x, "__array__") and not hasattr(x, "nothing")


def test_letters_of_another_paper_name_the_one_of_this_notation():
    with pytest.raises(ParseError, match=r"printed v̇; in this notation write β̇") as told:
        pp.parse("θ̈", notation="SOA")
    assert "notation=" not in str(told.value)
    assert pp.parse("β̇", notation="SOA") is pp.parse("θ̈", notation="MM")
