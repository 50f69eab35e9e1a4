"""The native backend keeps the contract.

Code is compiled per set of joint types, so one tree of one type stands for all forests here; all
types are in test_native_expressions.py. PHIPSI_FUZZ_NATIVE=300 takes the contract's own forests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

import pytest
from backend_contract import BackendContract, State, two_points
from random_models import branching

from phipsi.core.model.model import Model
from phipsi.core.model.points import PointSet

TREE = branching(6, 3, ("revolute",), armature=True)


@cache
def state() -> State:
    return State(TREE, two_points(TREE, "world"))


@pytest.mark.quick_code
class TestNative(BackendContract):
    backend = "native"

    def cases(self) -> Iterator[tuple[Model, PointSet, State]]:
        if "PHIPSI_FUZZ_NATIVE" in os.environ:
            yield from super().cases()
            return
        at = state()
        yield TREE, at.points, at
