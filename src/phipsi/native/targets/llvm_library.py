"""LLVM and the system's functions that machine code calls, as far as this process has them.

Importing this module needs neither: where LLVM is missing or cannot work, `problem` says why, and
programs run on the reference backend.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, Final


def _library() -> tuple[Any, str, str]:
    """LLVM, the version of llvmlite, and why there is none; llvmlite says nothing of its types."""
    try:
        import llvmlite  # pyright: ignore[reportMissingTypeStubs]
        import llvmlite.binding as binding  # pyright: ignore[reportMissingTypeStubs]

        return binding, llvmlite.__version__, ""
    except (ImportError, OSError) as error:  # not installed, or its library cannot be loaded
        return None, "", str(error)


llvm, VERSION, _MISSING = _library()

SYSTEM: Final = os.name
_WINDOWS = "nt"
# Windows has several C libraries, and no symbol that is found without naming its library:
# (library, name there) by the name that machine code calls
_OF_WINDOWS = {
    "calloc": ("ucrtbase", "calloc"),
    "free": ("ucrtbase", "free"),
    "feclearexcept": ("ucrtbase", "feclearexcept"),
    "sched_yield": ("kernel32", "SwitchToThread"),
    "__chkstk": ("ntdll", "__chkstk"),  # touches the pages of a large stack frame
}


@cache
def problem() -> str:
    """Why no machine code can be compiled on this machine; "" if it can."""
    if llvm is None:
        return f"llvmlite cannot be imported ({_MISSING})"
    try:
        start()
        llvm.Target.from_triple(triple()).create_target_machine()
    except Exception as error:  # whatever LLVM has against this machine
        return f"LLVM cannot compile for this machine ({error})"
    return ""


@cache
def start() -> None:
    """Prepare LLVM, once."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if SYSTEM == _WINDOWS:
        for name, (library, there) in _OF_WINDOWS.items():
            function = getattr(ctypes.CDLL(library), there)
            llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value or 0)


def triple() -> str:
    """What LLVM calls this machine.

    On Windows objects are ELF: LLVM's loader does not resolve the constants of COFF objects.
    """
    found = llvm.get_process_triple()
    return f"{found}-elf" if SYSTEM == _WINDOWS else found


@cache
def _free() -> Any:
    """The function that returns what `calloc` of machine code gave."""
    library, name = _OF_WINDOWS["free"] if SYSTEM == _WINDOWS else (None, "free")
    function = getattr(ctypes.CDLL(library), name)
    function.argtypes, function.restype = [ctypes.c_void_p], None
    return function


def release_memory(address: int) -> None:
    """Give a block back to the heap."""
    _free()(address)
