"""Kernels of programs in single precision, run through the JIT on arrays of float32."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from phipsi.core.backends.backend import backend_of
from phipsi.native.pipeline import KernelUnit, plan_native
from phipsi.native.targets.target import MachineCode, Target, host_target
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import POINTER


def single_target(lanes: int = 1, *, fused: bool | None = None) -> Target:
    """This processor, computing with floats."""
    host = host_target()
    return replace(host, lanes=lanes, number="float", fused=host.fused if fused is None else fused)


class SingleKernel:
    """The one-lane kernel of a program; a call takes and returns float32, and the status.

    `lanes` is how many columns of a matrix are computed at once.
    """

    def __init__(self, program: Any, lanes: int = 1, *, fused: bool | None = None) -> None:
        target = single_target(lanes, fused=fused)
        self.unit, self.data = plan_native(program.source, target)
        self._code = MachineCode(target.object_code(_text(self.unit)), target)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        self._run = kind(self._code.address("run"))
        self._scratch = np.full(int(self.data[self.unit.words]) // 4 + 16, np.nan, np.float32)

    def __call__(self, *args: Any) -> tuple[list[np.ndarray], int]:
        """The results for one configuration, and its status."""
        shapes = self.unit.shapes
        count = len(self.unit.slots)
        given = [np.ascontiguousarray(a, np.float32) for a in args]
        assert [a.shape for a in given] == shapes[:count]
        results = [np.full(shape, np.nan, np.float32) for shape in shapes[count:-1]]
        status = np.full(1, -1, np.int32)
        arrays = [*given, *results, status]
        places = np.array([a.ctypes.data for a in arrays], np.int64)
        start = self._scratch.ctypes.data
        self._run(self.data.ctypes.data, start + -start % 64, places.ctypes.data)
        return results, int(status[0])


def _text(unit: KernelUnit) -> str:
    module = ir.Module()
    kernel = unit.kernel(module, 1).function
    run = ir.IRFunction(module, ir.FunctionType(ir.VOID, [POINTER] * 3), "run")
    b = run.begin()
    b.call(kernel, [*run.args, ir.IRConstant(ir.IntType(1), 1)])
    b.ret_void()
    return str(module)


def relative_errors(
    kernel: SingleKernel, program: Any, given: Sequence[np.ndarray], *, least: float = 0.0
) -> np.ndarray:
    """max |single − double| / max |double| of every result and configuration (states, results).

    The double results are those of the rounded arguments. Results below `least`, which may be zero
    but for rounding errors, are compared with it.
    """
    rounded = [np.asarray(a, np.float32).astype(np.float64) for a in given]
    whole = backend_of("reference").load(program.source)
    inputs = dict(zip(program.inputs, rounded, strict=True))
    wanted, failed = whole.run(inputs, (len(rounded[0]),), 1)
    assert not np.any(failed)
    out: list[list[float]] = []
    for i, state in enumerate(zip(*rounded, strict=True)):
        exact = [np.asarray(a[i], np.float64) for a in wanted]
        found, status = kernel(*state)
        assert status == 0
        sizes = [max(float(np.abs(y).max(initial=0.0)), least) or 1.0 for y in exact]
        gaps = [float(np.abs(x - y).max(initial=0.0)) for x, y in zip(found, exact, strict=True)]
        out.append([gap / size for gap, size in zip(gaps, sizes, strict=True)])
    return np.array(out)
