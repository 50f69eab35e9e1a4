"""Heaps, stacks and tumbling boxes: almost every step is solved, and the others are counted.

PHIPSI_FUZZ_HEAPS=2000 pytest tests/contact/test_heaps.py      so many trajectories of each scene

scripts/fuzz_contacts.py counts a million steps; docs/contact-validation.md has its table.
"""

from __future__ import annotations

import numpy as np
import pytest
from amounts import ALL, amount
from contact_heaps import SCENES, fallen
from numpy.testing import assert_array_equal

TRAJECTORIES = amount("PHIPSI_FUZZ_HEAPS", 24)
STEPS = 60
FEW = ("a tumbling box", "3 balls, masses 1 : 10⁶", "2 boxes, 10³ on 1")


@pytest.mark.parametrize("name", SCENES if ALL else FEW)
def test_steps_are_solved_or_counted(name):
    made = SCENES[name](TRAJECTORIES, np.random.default_rng(7))
    run = fallen(made, STEPS)
    proof = run.certificate
    unsolved, steps = int(proof.unsolved.sum()), TRAJECTORIES * STEPS
    assert unsolved <= 1 + steps // (200 if "10⁶ on" in name else 2000)
    clean = proof.unsolved == 0
    rounding = 1e-9 * (1e6 if "10⁶" in name else 1e3 if "10³" in name else 1.0)
    assert proof.residual[clean].max() <= max(1e-10, 1e-3 * rounding)
    assert proof.gain[clean].max() <= rounding
    others = fallen((made[0], made[1][5:8], made[2][5:8]), STEPS)
    assert_array_equal(others.q, run.q[5:8])
