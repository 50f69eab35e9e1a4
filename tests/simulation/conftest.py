"""Runs take thousands of evaluations, so they use machine code."""

import pytest


@pytest.fixture(autouse=True)
def _machine_code(machine_code: None):
    """For every test of this folder."""
