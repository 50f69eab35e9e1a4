"""Machine code is tested as users get it."""

import pytest


@pytest.fixture(autouse=True)
def full_effort(monkeypatch):
    monkeypatch.setenv("PHIPSI_LLVM_EFFORT", "3")
