"""Threads that run parts of a batch in machine code.

A thread of Python that is given a task has to be woken up and to take the GIL, each of which may
take as long as a small batch. The threads of the crew wait in machine code, without the GIL, for
the address of a share: the arguments of a compiled loop. They look for the next one a little while
(`LOOKS`), giving way to others after every look, and go to sleep then.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Sequence
from functools import cache
from queue import SimpleQueue
from typing import Any

import numpy as np

from phipsi.backends.native import llvm_text as ir
from phipsi.backends.native.direct import address_of
from phipsi.backends.native.engine import MachineCode, host_machine, machine_code
from phipsi.backends.native.lanes import I8, I32, I64, POINTER, fold_loop, write_loop
from phipsi.backends.native.trigonometry import i64

LOOKS = 500  # some 0.2 ms
MOST = 63  # threads besides the caller's
# a slot, one per thread: the share to run or 0, whether the thread sleeps; a line of memory
_JOB, _ASLEEP, _SLOT = 0, 1, 8
# a share: addresses of the loop, of its arrays of arguments, sizes and strides, and of its data;
# address of the integers of status, how many, and whether any of them is not zero
_LOOP, _ARGS, _SIZES, _STRIDES, _DATA, _STATUS, _COUNT, _FAILED, _HEAD = range(9)


class Crew:
    """Threads that serve one call at a time."""

    def __init__(self) -> None:
        self._busy = threading.Lock()
        memory = np.zeros((MOST + 1) * _SLOT, dtype=np.int64)
        skip = -memory.ctypes.data % 64 // 8
        self._slots = memory[skip : skip + MOST * _SLOT].reshape(MOST, _SLOT)
        self._wake: list[SimpleQueue[None]] = []

    def run(self, shares: np.ndarray) -> bool | None:
        """Run all shares (rows), the first one here; True if no element of a batch failed.

        None, and nothing done, if the crew is busy.
        """
        count = len(shares) - 1
        if os.name != "posix" or count > MOST or not self._busy.acquire(blocking=False):
            return None
        try:
            functions = _functions()
            first, step = address_of(shares), shares.strides[0]
            slots = address_of(self._slots)
            while len(self._wake) < count:
                self._start(slots + 8 * _SLOT * len(self._wake))
            asleep = functions.post(slots, first + step, step, count)
            while asleep:
                i = asleep.bit_length() - 1
                asleep ^= 1 << i
                self._slots[i, _ASLEEP] = 0
                self._wake[i].put(None)
            return not functions.lead(first, step, slots, count)
        finally:
            self._busy.release()

    def _start(self, slot: int) -> None:
        wake: SimpleQueue[None] = SimpleQueue()
        serve, memory = _functions().serve, self._slots

        def work() -> None:
            while len(memory):  # which lives as long as the thread
                serve(slot, LOOKS)
                wake.get()

        threading.Thread(target=work, name="phipsi", daemon=True).start()
        self._wake.append(wake)


def shares_of(
    loop: int,
    data: int,
    sizes: Sequence[int],
    addresses: Sequence[int],
    strides: Sequence[tuple[int, ...]],
    pieces: Sequence[slice],
) -> np.ndarray:
    """(pieces, words): the arguments of a compiled loop for parts of arrays with one batch axis.

    `sizes` are the core sizes in the order in which NumPy passes them, `addresses` and `strides`
    those of the arrays, the last of which is the status, without gaps.
    """
    end = _HEAD + len(strides)
    steps = [*(s[0] for s in strides), *(x for s in strides for x in s[1:])]
    out = np.zeros((len(pieces), end + 1 + len(sizes) + len(steps)), dtype=np.int64)
    for row, piece in zip(out, pieces, strict=True):
        starts = [at + piece.start * s[0] for at, s in zip(addresses, strides, strict=True)]
        words = [address_of(row) + 8 * i for i in (_HEAD, end, end + 1 + len(sizes))]
        count = piece.stop - piece.start
        row[:] = [loop, *words, data, starts[-1], count, 0, *starts, count, *sizes, *steps]
    return out


# ---- machine code --------------------------------------------------------------------------------


class _Functions:
    """``post(slots, shares, step, count)`` hands out shares; bits of those who sleep.

    ``serve(slot, looks)`` runs shares until there has been none for so many looks.
    ``lead(shares, step, slots, count)`` runs the first share and waits for the others; whether any
    element failed.
    """

    def __init__(self, code: MachineCode) -> None:
        self._code = code
        p, i = ctypes.c_void_p, ctypes.c_int64
        self.post: Any = ctypes.CFUNCTYPE(i, p, p, i, i)(code.address("phipsi_post"))
        self.serve: Any = ctypes.CFUNCTYPE(None, p, i)(code.address("phipsi_serve"))
        self.lead: Any = ctypes.CFUNCTYPE(i, p, i, p, i)(code.address("phipsi_lead"))


@cache
def _functions() -> _Functions:
    text, machine = _emit(), host_machine()
    key = hashlib.sha256(f"{machine} {text}".encode()).hexdigest()
    return _Functions(machine_code(key, machine, lambda: text))


def _emit() -> str:
    module = ir.Module()
    _define_run(module)
    _define_post(module)
    _define_serve(module)
    _define_lead(module)
    return str(module)


def _function(module: ir.Module, name: str, gives: ir.Type, takes: list[ir.Type]) -> Any:
    function = ir.Function(module, ir.FunctionType(gives, takes), f"phipsi_{name}")
    return ir.IRBuilder(function.append_basic_block("entry")), function.args


def _word(b: Any, base: Any, i: int) -> Any:
    return b.load(b.gep(base, [i64(8 * i)], source_etype=I8), typ=I64)


def _place(b: Any, slot: Any, i: int) -> Any:
    return b.gep(slot, [i64(8 * i)], source_etype=I8)


def _define_run(module: ir.Module) -> None:
    """Run a share, and look through its status while this processor has it at hand."""
    b, (share,) = _function(module, "run", ir.VoidType(), [POINTER])
    words = [b.inttoptr(_word(b, share, i), POINTER) for i in range(_HEAD)]
    kind = ir.FunctionType(ir.VoidType(), [POINTER] * 4)
    b.call_address(kind, words[_LOOP], [words[i] for i in (_ARGS, _SIZES, _STRIDES, _DATA)])

    def add(i: Any, found: list[Any]) -> list[Any]:
        one = b.load(b.gep(words[_STATUS], [b.mul(i, i64(8))], source_etype=I8), typ=I64)
        return [b.or_(found[0], one)]

    (found,) = fold_loop(b, _word(b, share, _COUNT), 1, [i64(0)], add)
    b.store(found, _place(b, share, _FAILED))
    b.ret_void()


def _define_post(module: ir.Module) -> None:
    b, (slots, shares, step, count) = _function(module, "post", I64, [POINTER, POINTER, I64, I64])
    asleep = b.alloca(I64)
    b.store(i64(0), asleep)

    def one(i: Any) -> None:
        slot = b.gep(slots, [b.mul(i, i64(8 * _SLOT))], source_etype=I8)
        share = b.ptrtoint(b.gep(shares, [b.mul(i, step)], source_etype=I8), I64)
        b.atomic_rmw("xchg", _place(b, slot, _JOB), share, "seq_cst")
        flag = b.load_atomic(_place(b, slot, _ASLEEP), typ=I64, ordering="seq_cst", align=8)
        b.store(b.or_(b.load(asleep, typ=I64), b.shl(flag, i)), asleep)

    write_loop(b, count, one)
    b.ret(b.load(asleep, typ=I64))


def _define_serve(module: ir.Module) -> None:
    b, (slot, looks) = _function(module, "serve", ir.VoidType(), [POINTER, I64])
    f = b.function
    look, run, nothing, tired, end = (
        f.append_basic_block(n) for n in ("look", "run", "nothing", "tired", "end")
    )
    start = b.block
    b.branch(look)
    b.position_at_end(look)
    left = b.phi(I64)
    left.add_incoming(looks, start)
    job = b.load_atomic(_place(b, slot, _JOB), typ=I64, ordering="acquire", align=8)
    b.cbranch(b.icmp_signed("!=", job, i64(0)), run, nothing)

    b.position_at_end(run)
    b.call(module.globals["phipsi_run"], [b.inttoptr(job, POINTER)])
    b.atomic_rmw("xchg", _place(b, slot, _JOB), i64(0), "seq_cst")
    left.add_incoming(looks, b.block)
    b.branch(look)

    b.position_at_end(nothing)
    b.call(_give_way(module), [])
    fewer = b.sub(left, i64(1))
    left.add_incoming(fewer, b.block)
    b.cbranch(b.icmp_signed(">", fewer, i64(0)), look, tired)

    b.position_at_end(tired)  # whoever posts a share from now on sees the flag
    b.atomic_rmw("xchg", _place(b, slot, _ASLEEP), i64(1), "seq_cst")
    job = b.load_atomic(_place(b, slot, _JOB), typ=I64, ordering="seq_cst", align=8)
    with b.if_then(b.icmp_signed("!=", job, i64(0))):
        b.atomic_rmw("xchg", _place(b, slot, _ASLEEP), i64(0), "seq_cst")
        left.add_incoming(looks, b.block)
        b.branch(look)
        b.position_at_end(f.append_basic_block("unreached"))
    b.branch(end)
    b.position_at_end(end)
    b.ret_void()


def _define_lead(module: ir.Module) -> None:
    takes = [POINTER, I64, POINTER, I64]
    b, (shares, step, slots, count) = _function(module, "lead", I64, takes)
    b.call(module.globals["phipsi_run"], [shares])

    def one(i: Any, found: list[Any]) -> list[Any]:
        slot = b.gep(slots, [b.mul(i, i64(8 * _SLOT))], source_etype=I8)
        look, rest, done = (b.function.append_basic_block(n) for n in ("look", "rest", "done"))
        b.branch(look)
        b.position_at_end(look)
        job = b.load_atomic(_place(b, slot, _JOB), typ=I64, ordering="acquire", align=8)
        b.cbranch(b.icmp_signed("!=", job, i64(0)), rest, done)
        b.position_at_end(rest)
        b.call(_give_way(module), [])
        b.branch(look)
        b.position_at_end(done)
        share = b.gep(shares, [b.mul(b.add(i, i64(1)), step)], source_etype=I8)
        return [b.or_(found[0], _word(b, share, _FAILED))]

    (found,) = fold_loop(b, count, 1, [_word(b, shares, _FAILED)], one)
    b.ret(found)


def _give_way(module: ir.Module) -> ir.Function:
    """What is waited for may need this processor."""
    found = module.globals.get("sched_yield")
    return found or ir.Function(module, ir.FunctionType(I32, []), "sched_yield")


# ---- one crew per process ------------------------------------------------------------------------

_crew = Crew()


def crew() -> Crew:
    """The crew of this process."""
    return _crew


def _forget() -> None:
    """After a fork the threads are gone: start anew."""
    global _crew
    _crew = Crew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
