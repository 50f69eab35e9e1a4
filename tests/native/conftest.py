"""Machine code is tested as users get it; where many programs are compiled, a part of them."""

import pytest


@pytest.fixture(autouse=True)
def _full_effort(full_effort: None):
    """For every test of this folder."""
