"""From LLVM text to machine code for the machine at hand."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm


@dataclass(frozen=True)
class Machine:
    """The processor code is generated for: its name, its features, its vector width in doubles."""

    cpu: str
    features: str
    lanes: int


@cache
def host_machine() -> Machine:
    """The processor this runs on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    wide = 8 if features.get("avx512f") else 4 if features.get("avx") else 2
    return Machine(llvm.get_host_cpu_name(), features.flatten(), wide)


def target_machine(machine: Machine) -> Any:
    """LLVM's description of the processor."""
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=3, jit=True, codemodel="jitdefault"
    )


class MachineCode:
    """Compiled code; lives as long as the object."""

    def __init__(self, text: str, machine: Machine) -> None:
        target = target_machine(machine)
        module = llvm.parse_assembly(text)
        module.verify()
        tuning = llvm.create_pipeline_tuning_options(speed_level=3)
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        tuning.loop_unrolling = False
        passes = llvm.create_pass_builder(target, tuning)
        passes.getModulePassManager().run(module, passes)
        self.module = module
        self.engine = llvm.create_mcjit_compiler(module, target)
        self.engine.finalize_object()

    def address(self, name: str) -> int:
        """The address of a function."""
        return int(self.engine.get_function_address(name))


_LIBC = ctypes.CDLL(None)
_LIBC.free.argtypes = [ctypes.c_void_p]
_LIBC.free.restype = None


def release_memory(address: int) -> None:
    """Give a block back to the heap."""
    _LIBC.free(address)
