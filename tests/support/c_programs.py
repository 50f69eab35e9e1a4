"""Programs as C99, compiled by gcc and called through ctypes.

from c_programs import as_c

run = as_c(program, folder)     # the function of the same arguments, for one configuration
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import phipsi as pp
from phipsi.native import pipeline
from phipsi.native.targets.target import Target
from phipsi.native.text import c_text, llvm_text as ir
from phipsi.native.text.lane_arithmetic import I1, POINTER

FLAGS = "-std=c99 -O2 -ffp-contract=off -Wall -Wextra -Werror -pedantic".split()


def written(
    program: pp.Program, *, fused: bool, number: Any = "double"
) -> tuple[str, Any, np.ndarray]:
    """The text, the unit it was written from and the data record."""
    native: Any = program.native
    unit, data = pipeline.plan_native(native.program, Target("", "", 1, fused, number=number))
    module = c_text.CModule()
    kernel = unit.kernel(module, 1).function
    run = ir.IRFunction(module, ir.FunctionType(ir.VOID, [POINTER] * 3), "run")
    b = run.begin()
    b.call(kernel, [*run.args, ir.IRConstant(I1, 1)])
    b.ret_void()
    return str(module), unit, data


def built(text: str, folder: Path, flags: Sequence[str] = (), name: str = "robot") -> Any:
    """C text as a loaded library."""
    (folder / f"{name}.c").write_text(text)
    command = ["gcc", *FLAGS, *flags, "-shared", "-fPIC", f"{name}.c", "-o", f"{name}.so", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    return ctypes.CDLL(str(folder / f"{name}.so"))


def as_c(
    program: pp.Program,
    folder: Path,
    *,
    fused: bool = False,
    name: str = "robot",
    flags: Sequence[str] = (),
    optimise: str = "-O0",
    number: Any = "double",
) -> Callable[..., tuple[list[np.ndarray], int]]:
    """The results and the status of one configuration."""
    text, unit, data = written(program, fused=fused, number=number)
    kind, whole = (np.float64, np.int64) if number == "double" else (np.float32, np.int32)
    code = built(text, folder, [optimise, *flags, *["-mfma"] * fused], name)
    tables = unit.pointers()
    work = np.full(int(data[unit.words]) // 8 + 8, np.nan)

    def run(*args: Any) -> tuple[list[np.ndarray], int]:
        given = [np.array(a, dtype=kind, order="C") for a in args]
        out = [np.full(s, np.nan, dtype=kind) for s in unit.shapes[len(given) : -1]]
        status = np.zeros(1, dtype=whole)
        arrays = [*given, *out, status]
        buffers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        code.run(ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(work.ctypes.data), buffers)
        assert tables
        return out, int(status[0])

    return run
