"""Texts that look right to readers of the papers, and what the parser answers."""

import re

import pytest

import phipsi as pp
from phipsi.errors import ParseError

ANSWERS = {
    "φ2": "the number 2 stands directly behind a letter",
    "H ψ1 K": "the number 1 stands directly behind a letter",
    "ℳ2": "Put a space before it",
    "φ0.5": "the number 0.5 stands directly behind a letter",
    "HΦG": "'Φ' is a letter of papers",
    "Bf(0)": "did you mean B f(0)?",
    "q̇": "generalized velocities are v",
    "q̈": "and their derivatives vdot",
    "φ(2,1)": 'φ(2,1) is the block of two bodies',
    "H φ(3, 1) M": 'pp.evaluate_dense("φ", model, q)',
    "a = b = c": 'pp.prove("a = b"),  pp.prove("b = c")',
    "S vdot": "Featherstone's S, the motion subspace, is H*",
}  # fmt: skip


@pytest.mark.parametrize("text", ANSWERS)
def test_misread_texts_are_explained(text):
    with pytest.raises(ParseError, match=re.escape(ANSWERS[text])):
        pp.parse(text)


def test_numbers_are_read_where_they_cannot_be_an_index():
    two = pp.parse("2 φ")
    for text in ("φ 2", "2φ", "φ @ 2", "φ·2", "(φ)2"):
        assert pp.parse(text) is two
    assert pp.parse("φᵀ2") is pp.parse("2 φ*")
    assert pp.parse("φ*2") is pp.parse("2 φ*")
    assert pp.parse(r"\phi 2") is two


@pytest.mark.parametrize(
    ("query", "name"),
    [("ABA", "FD1 recursion"), ("CRBA", "composite-body recursion"), ("rnea", "Newton-Euler")],
)
def test_identities_are_found_by_the_name_of_the_recursion(query, name):
    assert pp.identities(query)[0].name == name


def test_the_force_at_the_tip_behind_a_letter_is_read_with_a_space():
    with pytest.raises(ParseError, match=re.escape("did you mean B f(0)?")):
        pp.parse("H φ Bf(0)", notation="SOA")
    assert pp.parse("H φ B f(0)", notation="SOA") is pp.parse("H φ B f0")
