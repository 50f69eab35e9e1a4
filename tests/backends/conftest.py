"""Machine code is tested as users get it; where many programs are compiled, a part of them."""

import os

import pytest


@pytest.fixture(autouse=True)
def full_effort(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """LLVM optimises the code, but for tests with the mark `quick_code`.

    Those compile what `tests/conftest.py` says: without optimisation, which gives the same bits
    (test_native_bits.py) in a quarter of the time, or in full with PHIPSI_LLVM_EFFORT=3, as in
    `make fuzz`.
    """
    if request.node.get_closest_marker("quick_code") is None:
        monkeypatch.setenv("PHIPSI_LLVM_EFFORT", os.environ.get("PHIPSI_BACKEND_TESTS_EFFORT", "3"))
