"""Settings shared by all tests."""

import os

from hypothesis import HealthCheck, settings

# Thousands of small programs are compared; most run on the reference backend, which needs no
# machine code. The tests of the native backend name it.
os.environ.setdefault("PHIPSI_BACKEND", "reference")
# Most programs run a few times: the bits are the same, and LLVM needs a quarter of the time.
# tests/backends compiles as users do.
os.environ.setdefault("PHIPSI_LLVM_EFFORT", "0")

# What every pass of the compiler makes is checked (sweeps/legality.py).
os.environ.setdefault("PHIPSI_CHECK", "1")

# "ci" draws the same examples in every run, so a red test stays red until it is repaired.
# "explore" draws new ones:  pytest --hypothesis-profile=explore
# No deadline and no too_slow check: a timing is a benchmark, never a test.
settings.register_profile(
    "ci",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore",
    derandomize=False,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")
