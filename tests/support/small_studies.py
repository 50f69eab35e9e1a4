"""Studies of a few runs, and what is the same in the results of two of them."""

from typing import Any

import numpy as np
from scipy.stats import norm

import phipsi as pp


def small(arm: Any, **options: Any) -> pp.Study:
    """Fifty runs of an arm with two joints, in seven blocks."""
    given = {"steps": 20, "runs": 50, "block": 8, **options}
    return pp.Study(arm, {"q": norm([0.3, 0.0], 0.2)}, **given)


def same(a: Any, b: Any) -> None:
    """Two results have the same arrays, bit for bit."""
    assert a.names == b.names
    for name in a.names:
        assert np.array_equal(a[name], b[name], equal_nan=a[name].dtype.kind == "f"), name
