"""Runs take thousands of evaluations, so they use machine code."""

import pytest


@pytest.fixture(autouse=True)
def native_backend(monkeypatch):
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
