"""Targets of code generation: processors by name.

Every row was compiled and, where the tests have an emulator, run. LLVM ends the process instead of
raising an exception when a target cannot express something, so that nothing but these rows is
handed to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from phipsi.errors import one_of
from phipsi.native import NumberName, Target, host_target, llvm

_LINUX = "x86_64-unknown-linux-gnu"
_THUMB = "thumbv7em-unknown-none-eabihf"
_KB = 1024


@dataclass(frozen=True)
class ExportTarget:
    """A row of the table.

    `software`, which numbers the processor computes by calls of
    helper functions ("" if none, "double" if it has an instruction for floats only); `flash` and
    `ram`, bytes of the largest parts of the family, 0 if they are no limit; `suffix` of objects;
    `text`, one line for tables.
    """

    name: str
    target: Target
    text: str
    software: str = ""
    flash: int = 0
    ram: int = 0
    suffix: str = ".o"

    @property
    def is_source(self) -> bool:
        """Whether the export is C source, for a compiler of the user's."""
        return self.suffix == ".c"

    @property
    def is_wasm(self) -> bool:
        """Whether objects are WebAssembly."""
        return self.target.triple.startswith("wasm32")

    @property
    def is_gpu(self) -> bool:
        """Whether every thread computes a configuration of its own."""
        return self.target.triple.startswith("nvptx64")


def _row(
    name: str, text: str, triple: str, cpu: str, features: str, lanes: int, fused: bool,
    reloc: str = "pic", missing: str = "", pointer_bits: int = 64,
    integer_bytes: int = 8, **more: object,
) -> ExportTarget:  # fmt: skip
    target = Target(
        cpu, features, lanes, fused, triple=triple, reloc=reloc, missing=tuple(missing.split()),
        pointer_bits=pointer_bits, integer_bytes=integer_bytes,
    )  # fmt: skip
    return ExportTarget(name, target, text, **more)  # type: ignore[arg-type]


_SMALL = {"pointer_bits": 32, "reloc": "static", "integer_bytes": 4}
_ROWS = (
    _row("x86-64", "any x86-64 processor, Linux", _LINUX, "x86-64", "", 2, False,
         missing="floor"),
    _row("x86-64-v2", "x86-64 with SSE 4.2, Linux", _LINUX, "x86-64-v2", "", 2, False),
    _row("x86-64-v3", "x86-64 with AVX2 and FMA, Linux", _LINUX, "x86-64-v3", "", 4, True),
    _row("x86-64-v4", "x86-64 with AVX-512, Linux", _LINUX, "x86-64-v4", "", 8, True),
    _row("aarch64-linux", "64-bit ARM, Linux", "aarch64-unknown-linux-gnu", "generic", "+neon", 2,
         True),
    _row("armv7", "32-bit ARM with VFPv3, Linux, hard floats", "armv7-unknown-linux-gnueabihf",
         "generic", "+v7,+vfp3d16", 1, False, pointer_bits=32, missing="maxnum floor"),
    _row("riscv64", "RISC-V with D, Linux", "riscv64-unknown-linux-gnu", "generic-rv64",
         "+m,+a,+f,+d,+c", 1, True, missing="floor"),
    _row("cortex-m7", "microcontroller with doubles", _THUMB, "cortex-m7", "", 1, True,
         flash=2048 * _KB, ram=1024 * _KB, **_SMALL),
    _row("cortex-m4", "microcontroller with floats", _THUMB, "cortex-m4", "", 1, False,
         software="double", missing="maxnum floor", flash=2048 * _KB, ram=640 * _KB, **_SMALL),
    _row("cortex-m33", "microcontroller with floats", "thumbv8m.main-unknown-none-eabihf",
         "cortex-m33", "", 1, False, software="double",
         missing="maxnum floor", flash=4096 * _KB, ram=3072 * _KB, **_SMALL),
    _row("wasm32", "WebAssembly", "wasm32-unknown-unknown", "generic", "", 1, False,
         missing="maxnum", **_SMALL),
    _row("wasm32-simd", "WebAssembly with vectors", "wasm32-unknown-unknown", "generic",
         "+simd128", 2, False, missing="maxnum", **_SMALL),
    _row("macos-arm64", "macOS on ARM", "arm64-apple-macosx11.0.0", "apple-m1", "", 2, True),
    _row("macos-x86-64", "macOS on x86-64", "x86_64-apple-macosx11.0.0", "x86-64", "", 2, False,
         missing="floor"),
    _row("nvptx64", "NVIDIA GPU, compute capability 7.5", "nvptx64-nvidia-cuda", "sm_75", "+ptx63",
         1, True, missing="maxnum floor", ram=512 * _KB, suffix=".ptx"),
    _row("windows-x64", "Windows on x86-64", "x86_64-pc-windows-msvc", "x86-64", "", 2, False,
         missing="floor", suffix=".obj"),
)  # fmt: skip
TARGETS = {row.name: row for row in _ROWS}
SOURCE = ExportTarget("c", Target("", "", 1, False), "C99 source, for any compiler", suffix=".c")
NAMES = ("host", SOURCE.name, *TARGETS)


def target_named(name: str, *, number: NumberName = "double") -> ExportTarget:
    """The row with this name; "host" is the machine at hand, "c" source for any.

    With `number` "float", vectors hold twice as many, and processors without doubles compute them
    themselves, with fused operations.
    """
    if one_of("target", name, NAMES) == "host":
        triple = llvm.get_process_triple()
        host = replace(host_target(), triple=triple, reloc="pic", missing=("floor",))
        row = ExportTarget("host", host, "this machine")
    elif name == SOURCE.name:
        row = SOURCE
    else:
        row = TARGETS[name]
    if number == "float":
        aim = row.target
        lanes = 2 * aim.lanes if aim.lanes > 1 else 1
        fused = aim.fused or row.software == "double"
        row = replace(
            row, target=replace(aim, lanes=lanes, fused=fused, number=number), software=""
        )
    return row
