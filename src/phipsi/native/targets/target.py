"""Processors: what LLVM text is written for, compiling it, and loading code for the one at hand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from phipsi.errors import InputError
from phipsi.native.targets import llvm_library
from phipsi.native.targets.llvm_library import llvm
from phipsi.native.text.lane_arithmetic import NUMBERS, NumberName

FULL_EFFORT = 3


@dataclass(frozen=True)
class Target:
    """A processor that code is written and compiled for, and how many numbers it has side by side.

    `lanes` is the width of a vector in numbers, `fused` whether x y + z is rounded once. Text is
    written for `lanes` and `fused`; `object_code` compiles it to an object file, which
    `MachineCode` loads if it is for this process. Other targets have a `triple`, as LLVM spells it:
    with all four parts where it has an environment, because LLVM reads the last part of three as an
    operating system. `reloc` is where their code may be placed: "static" or "pic" (anywhere);
    `missing`, of "maxnum" and "floor", what they have no instruction for; `pointer_bits`, the width
    of their addresses; `integer_bytes`, that of integers in tables.
    `number` is what code computes with: "double" or "float".
    """

    cpu: str
    features: str
    lanes: int
    fused: bool
    triple: str = ""  # of this process
    number: NumberName = "double"
    reloc: str = "default"
    missing: tuple[str, ...] = ()
    pointer_bits: int = 64
    integer_bytes: int = 8

    @property
    def unit(self) -> int:
        """Bytes of a number."""
        return NUMBERS[self.number].bytes

    @property
    def registers(self) -> int:
        """How many vectors, or numbers of one lane, the processor holds besides memory."""
        name = self.triple or llvm_library.triple()
        few = name.startswith(("x86_64", "amd64", "thumb", "arm")) and not name.startswith("arm64")
        return 16 if few and "+avx512vl" not in self.features and self.cpu != "x86-64-v4" else 32

    def machine(self) -> Any:
        """The target as LLVM has it."""
        if self.triple:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            return llvm.Target.from_triple(self.triple).create_target_machine(
                cpu=self.cpu, features=self.features, opt=llvm_effort(), reloc=self.reloc,
                codemodel="default",
            )  # fmt: skip
        llvm_library.start()
        found = llvm.Target.from_triple(llvm_library.triple())
        return found.create_target_machine(
            cpu=self.cpu,
            features=self.features,
            opt=llvm_effort(),
            jit=True,
            codemodel="jitdefault",
        )  # fmt: skip

    def object_code(self, text: str) -> bytes:
        """An object file of LLVM text.

        LLVM's optimisation passes are not run: the text is straight-line arithmetic that was
        simplified when it was written. They took half of the compile time and made most kernels
        slower (docs/decisions/0013).
        """
        module, machine = self._parsed(text)
        return bytes(machine.emit_object(module))

    def assembly(self, text: str) -> str:
        """The assembly of LLVM text; for GPUs it is what drivers take."""
        module, machine = self._parsed(text)
        return machine.emit_assembly(module)

    def _parsed(self, text: str) -> tuple[Any, Any]:
        module, machine = llvm.parse_assembly(text), self.machine()
        if self.triple:
            module.triple, module.data_layout = self.triple, str(machine.target_data)
        module.verify()
        return module, machine


@cache
def host_target() -> Target:
    """The processor this runs on."""
    llvm_library.start()
    features = llvm.get_host_cpu_features()
    wide = 8 if features.get("avx512f") else 4 if features.get("avx") else 2
    wide = min(wide, _most_lanes())
    arm = llvm.get_process_triple().startswith(("aarch64", "arm64"))
    fused = bool(features.get("fma")) or arm
    return Target(llvm.get_host_cpu_name(), features.flatten(), wide, fused)


def _most_lanes() -> int:
    """Largest number of SIMD lanes, by PHIPSI_LANES: 2, 4 or 8."""
    setting = os.environ.get("PHIPSI_LANES", "8")
    if setting not in ("2", "4", "8"):
        raise InputError(f"PHIPSI_LANES={setting!r} must be 2, 4 or 8")
    return int(setting)


def llvm_effort() -> int:
    """Optimisation level of LLVM, 0 to 3, from PHIPSI_LLVM_EFFORT.

    Level 0 compiles four times as fast, to slower code with bitwise identical results: for tests
    that call each program a few times.
    """
    setting = os.environ.get("PHIPSI_LLVM_EFFORT", str(FULL_EFFORT))
    if setting not in ("0", "1", "2", "3"):
        raise InputError(f"PHIPSI_LLVM_EFFORT={setting!r} must be 0, 1, 2 or 3")
    return int(setting)


def generic_target() -> Target:
    """Any x86-64 processor, or whatever the host is: for results that do not depend on it."""
    host = host_target()
    x86 = llvm.get_process_triple().startswith(("x86_64", "amd64"))
    return Target("x86-64", "", 4, False) if x86 else replace(host, lanes=4, fused=False)


def target_for(*, reproducible: bool) -> Target:
    """The processor to compile for: this one, or any, for bitwise identical results everywhere."""
    return generic_target() if reproducible else host_target()


class MachineCode:
    """Loaded code, of `parts` that it calls too; lives as long as the object."""

    def __init__(self, binary: bytes, target: Target, parts: Sequence[bytes] = ()) -> None:
        # Code for a `triple` reaches its constants within 2 GB only: one block of memory for both.
        # LLVM's own memory may lie farther apart in a large process, where it ends the process.
        one_block = True if target.triple else None
        self._engine = llvm.create_mcjit_compiler(
            llvm.parse_assembly(""), target.machine(), use_lmm=one_block
        )
        for each in (*parts, binary):
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(each))
        self._engine.finalize_object()
        self._known: dict[str, int] = {}

    def address(self, name: str) -> int:
        """The address of a function.

        LLVM is asked once: in a forked process its lock may be held by a thread that is gone.
        """
        if name not in self._known:
            self._known[name] = int(self._engine.get_function_address(name))
        return self._known[name]
