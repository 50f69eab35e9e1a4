"""Names of users in formulas."""

import pytest

from phipsi.operators import unit_rate
from phipsi.operators.catalogue import hinge_variation


@pytest.mark.parametrize(
    ("name", "latex"),
    [
        ("left_elbow", r"\mathrm{left\_elbow}"),
        ("a b-c", r"\mathrm{a\ b\text{-}c}"),
        ("50% & #1 $x$", r"\mathrm{50\%\ \&\ \#1\ \$x\$}"),
        ("{x}^y~\\z", r"\mathrm{\{x\}\hat{\ }y{\sim}\backslash{}z}"),
    ],
)
def test_names_of_users_are_escaped_in_latex(name: str, latex: str):
    """A name is no mathematics: nothing in it ends the formula or becomes an index."""
    x = unit_rate(name, 2)
    assert x.text("latex") == rf"\operatorname{{unit_{{v}}}}_{{({latex}, 2)}}"
    assert latex in hinge_variation(x).text("latex")
    assert x.text() == f"unit_rate[{name}, 2]"
