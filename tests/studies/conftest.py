"""The mechanism that most studies of the tests are about."""

import pytest
from chaotic_study import make

import phipsi as pp


@pytest.fixture(scope="module")
def arm() -> pp.Simulator:
    """Chaotic: a bit that differs is seen."""
    return make()
