"""Four ways to compare arrays of numbers; tolerances are multiples of the rounding of one number.

`close` and `tight` are relative to the largest number that is wanted, or to one where all numbers
are smaller; `proportional` is relative to the largest alone; `same_bits` allows no difference.
A test that needs another tolerance names it: `close(found, wanted, 1e-8)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

EPS = 2.0**-52  # between one and the next number


def within(default: float, size: float = 1.0) -> Callable[..., None]:
    """A comparer: equal shapes, and |found − wanted| ≤ tolerance · max(scale, largest |wanted|).

    A larger scale is for differences of large numbers.
    """

    def compare(found: Any, wanted: Any, tolerance: float = default, scale: float = size) -> None:
        assert np.shape(found) == np.shape(wanted)
        most = tolerance * max(scale, np.abs(wanted).max(initial=0.0))
        off = np.abs(np.subtract(found, wanted)).max(initial=0.0)
        assert off <= most, f"off by {off:.3g}, more than {most:.3g}"

    return compare


close = within(4.5e6 * EPS)  # 1e-9: solutions, and second routes through other equations
tight = within(4.5e5 * EPS)  # 1e-10: complex steps, and the same sums in another order
proportional = within(4.5e5 * EPS, 0.0)


def same_bits(found: Any, wanted: Any) -> None:
    """The same numbers with the same signs of zeros, and the same numbers that are none."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.tobytes() == wanted.tobytes()
