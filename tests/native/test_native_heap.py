"""Too little memory for generated code is a MemoryError, never a crash."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# The code is bound to an allocation function that gives nothing while `empty` is set.
HARNESS = """
import ctypes
import llvmlite.binding as llvm
import numpy as np

empty = [True]
libc = ctypes.CDLL(None)
libc.calloc.restype, libc.calloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t] * 2


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
def calloc(count, size):
    return None if empty[0] else libc.calloc(count, size)


llvm.add_symbol("calloc", ctypes.cast(calloc, ctypes.c_void_p).value)
import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS
from phipsi.operators import mass_matrix

model = pp.examples.seven_joint_arm()
at = [np.random.default_rng(0).standard_normal((40, 7)) for _ in range(3)]
columns = np.zeros((40, 7, 3))
want = pp.compile(FORWARD_DYNAMICS, model, backend="reference")(*at)


def check(call, want=None):
    empty[0] = True
    try:
        call()
    except MemoryError as error:
        assert "MB of work memory per thread" in str(error), error
    else:
        raise AssertionError("no error")
    empty[0] = False
    got = call()
    if want is not None:
        assert np.allclose(got, want, rtol=1e-9, atol=1e-9)
    empty[0] = True
"""

CALLS = """
def fresh():  # code keeps its memory after the first call
    return pp.compile(FORWARD_DYNAMICS, pp.examples.seven_joint_arm(), backend="native")

for options in ({}, {"threads": 2}, {"out": np.empty((40, 7))}):
    program = fresh()
    check(lambda: program(*at, **options), want)
program = fresh()
check(lambda: program(*(a[0] for a in at)), want[0])
program = fresh()
check(lambda: program(*(a.reshape(5, 8, 7) for a in at), threads=3), want.reshape(5, 8, 7))
program = fresh()
check(lambda: program(*at, on_error="nan")[0], want)
program = pp.compile(mass_matrix.inv, model, backend="native", columns=True)
check(lambda: program(at[0], columns))
print("done")
"""

LIMITED = """
import resource
import numpy as np
import phipsi as pp
from phipsi.operators import mass_matrix

model = pp.examples.planar_arm({size})
program = pp.compile(mass_matrix, model, mode="dense", backend="native")
q = np.zeros((8, {size}))
program.ufunc  # compiled, also for batches, before there is a limit
out = np.empty((8, {size}, {size}))
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
assert program.native.scratch_bytes > 2**20
resource.setrlimit(resource.RLIMIT_AS, (used + 2**19, resource.RLIM_INFINITY))
try:
    program(q, out=out)
except MemoryError as error:
    print(error)
"""


def run(text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PHIPSI_BACKEND": "native"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


def test_every_kind_of_call_says_so_and_works_when_there_is_memory_again():
    assert run(HARNESS + CALLS).strip() == "done"


@pytest.mark.skipif(sys.platform != "linux", reason="limits as on Linux")
def test_a_process_at_its_limit():
    assert run(LIMITED.format(size=250)).strip()


MANY = """
import numpy as np
import phipsi as pp

start = np.zeros((500_000, 1))
q, v = pp.rollout(pp.examples.planar_arm(1), start, np.zeros(1), np.zeros(1), 1e-3, 1)
print((q[0] == q).all() and (v[0] == v).all())
"""


def test_many_groups_of_trajectories_need_no_more_of_the_stack():
    """Variables of generated loops are taken once per call: 8 MB would end here otherwise."""
    assert run(MANY).strip() == "True"
