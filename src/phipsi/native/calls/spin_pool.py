"""Threads that run parts of a batch in machine code.

A thread of Python that is given a task has to be woken up and to take the GIL, each of which may
take as long as a small batch. The threads of a pool live in machine code, without the GIL, and wait
for the address of a task: the arguments of a compiled loop. They poll for the next one a little
while (`SPINS`), yielding the processor after every poll, and then go to sleep.

Handing out tasks, waking sleepers, waiting for all of them and releasing the pool is one call of
machine code. Python handles signals and raises the exceptions that other threads set between its
own instructions only, so nothing can be raised before every thread has released the arrays. The
Python code before that call may be interrupted anywhere: a thread that was started takes the next
free slot on its own, and the caller runs the tasks that no thread has taken.

Reasons: docs/decisions/0026.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from phipsi.native.calls.atomic_words import exchange, exchange_if, load_atomic
from phipsi.native.calls.direct_call import address_of
from phipsi.native.targets.code_cache import machine_code
from phipsi.native.targets.target import MachineCode, host_target
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import (
    I32,
    I64,
    POINTER,
    WORD,
    at_most,
    fold_loop,
    i64,
    write_loop,
)

SPINS = 500  # some 0.2 ms
MOST = 63  # threads of a pool, besides the caller's
POOLS = 8  # calls at the same time that have threads of their own
# the memory of a pool, in lines of 8 words. The first: whether a call has it, how many threads have
# come, addresses of the functions that lock and unlock. Then a slot per thread: the task to run,
# `_RUNNING` or 0; whether the thread sleeps; the lock it sleeps on
_TAKEN, _COME, _LOCK, _UNLOCK = range(4)
_JOB, _ASLEEP, _BED, _LINE = 0, 1, 2, 8
_RUNNING = 1
# a task: addresses of the loop, of its arrays of arguments, sizes and strides, and of its data;
# address of the integers of status, how many, and whether any of them is not zero
_LOOP, _ARGS, _SIZES, _STRIDES, _DATA, _STATUS, _COUNT, _FAILED, _HEAD = range(9)
_BUSY = -1


class WorkerPool:
    """Threads that serve one call at a time."""

    def __init__(self) -> None:
        self.process = os.getpid()
        memory = np.zeros((MOST + 2) * _LINE, dtype=np.int64)
        skip = -memory.ctypes.data % 64 // WORD
        self._memory = memory[skip : skip + (MOST + 1) * _LINE].reshape(MOST + 1, _LINE)
        python = ctypes.pythonapi
        lock, unlock = python.PyThread_acquire_lock, python.PyThread_release_lock
        words = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (lock, unlock)]
        self._memory[0, _LOCK : _UNLOCK + 1] = words
        self._memory[1:, _BED] = [_new_lock() for _ in range(MOST)]
        self._started = 0

    @property
    def busy(self) -> bool:
        """Whether a call has it."""
        return bool(self._memory[0, _TAKEN])

    def run(self, tasks: np.ndarray) -> bool | None:
        """Run all tasks (rows), the first one here; True if no element of a batch failed.

        None, and nothing done, if another call has the pool.
        """
        while self._started < min(len(tasks) - 1, MOST):
            self._start()
        at, step = address_of(tasks), tasks.strides[0]
        failed = _functions().lead(address_of(self._memory), at, step, len(tasks) - 1)
        return None if failed == _BUSY else not failed

    def _start(self) -> None:
        """One more thread. If the system has none left, the others and the caller do its work."""
        arguments = (_functions(), self._memory)
        try:
            threading.Thread(target=_live, args=arguments, name="phipsi", daemon=True).start()
        except RuntimeError:
            pass
        self._started += 1


def _live(functions: _PoolFunctions, memory: np.ndarray) -> None:
    """The life of a thread; it keeps the code and the memory that it uses."""
    functions.serve(address_of(memory), SPINS)


def _new_lock() -> int:
    """The address of a lock of Python's, taken; it is never freed, as its thread never ends."""
    make, take = ctypes.pythonapi.PyThread_allocate_lock, ctypes.pythonapi.PyThread_acquire_lock
    make.restype, make.argtypes = ctypes.c_void_p, []
    take.restype, take.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]
    lock = make()
    if not lock:
        raise MemoryError("the locks of the thread pool could not be allocated")
    take(lock, 0)
    return lock


def tasks_of(
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
        words = [address_of(row) + WORD * i for i in (_HEAD, end, end + 1 + len(sizes))]
        count = piece.stop - piece.start
        row[:] = [loop, *words, data, starts[-1], count, 0, *starts, count, *sizes, *steps]
    return out


def tasks_of_jobs(
    function: int, data: int, jobs: Sequence[np.ndarray], status: Sequence[np.ndarray]
) -> np.ndarray:
    """(jobs, words): calls of ``function(job, 0, 0, data)``, each of which writes its status."""
    out = np.zeros((len(jobs), _HEAD), dtype=np.int64)
    for row, job, found in zip(out, jobs, status, strict=True):
        row[_LOOP], row[_ARGS], row[_DATA] = function, address_of(job), data
        row[_STATUS], row[_COUNT] = address_of(found), len(found)
    return out


# ---- machine code --------------------------------------------------------------------------------


class _PoolFunctions:
    """``serve(pool, spins)`` runs tasks for ever; it sleeps if there is none for so many spins.

    ``lead(pool, tasks, step, count)`` runs the first task and hands out `count` others; whether
    any element failed, or `_BUSY`. ``alone(tasks, step, count)`` runs all of them here.
    """

    def __init__(self, code: MachineCode) -> None:
        self._code = code
        p, i = ctypes.c_void_p, ctypes.c_int64
        self.serve: Any = ctypes.CFUNCTYPE(None, p, i)(code.address("phipsi_serve"))
        self.lead: Any = ctypes.CFUNCTYPE(i, p, p, i, i)(code.address("phipsi_lead"))
        self.alone: Any = ctypes.CFUNCTYPE(i, p, i, i)(code.address("phipsi_alone"))


@cache
def _functions() -> _PoolFunctions:
    text, target = _emit(), host_target()
    key = hashlib.sha256(f"{target} {text}".encode()).hexdigest()
    return _PoolFunctions(machine_code(key, target, lambda: text))


def _emit() -> str:
    module = ir.Module()
    _define_run(module)
    _define_serve(module)
    _define_lead(module)
    _define_alone(module)
    return str(module)


def _function(module: ir.Module, name: str, gives: ir.IRType, takes: list[ir.IRType]) -> Any:
    function = ir.IRFunction(module, ir.FunctionType(gives, takes), f"phipsi_{name}")
    return function.begin(), function.args


def _slot(b: ir.IRBuilder, pool: ir.IRValue, i: ir.IRValue) -> ir.IRValue:
    return b.at(pool, b.mul(b.add(i, i64(1)), i64(WORD * _LINE)))


def _task(b: ir.IRBuilder, tasks: ir.IRValue, step: ir.IRValue, i: ir.IRValue) -> ir.IRValue:
    return b.at(tasks, b.mul(i, step))


def _swap(b: ir.IRBuilder, base: ir.IRValue, i: int, x: ir.IRValue) -> ir.IRValue:
    """Write a word, in one order that all threads see; what was there."""
    return exchange(b, "xchg", b.at(base, WORD * i), x, "seq_cst")


def _swap_if(
    b: ir.IRBuilder, base: ir.IRValue, i: int, old: ir.IRValue, new: ir.IRValue
) -> ir.IRValue:
    """The same if a certain word is there; whether it was."""
    return exchange_if(b, b.at(base, WORD * i), old, new, "seq_cst", "seq_cst")


def _seen(b: ir.IRBuilder, base: ir.IRValue, i: int) -> ir.IRValue:
    return load_atomic(b, b.at(base, WORD * i), typ=I64, ordering="seq_cst", align=WORD)


def _call_word(b: ir.IRBuilder, pool: ir.IRValue, i: int, arguments: Sequence[ir.IRValue]) -> None:
    """Call the function whose address the pool's memory has."""
    kind = ir.FunctionType(ir.VOID, [x.type for x in arguments])
    b.call_address(kind, b.inttoptr(b.word(pool, i), POINTER), arguments)


def _define_run(module: ir.Module) -> None:
    """Run a task, and inspect its status while this processor has it in its cache."""
    b, (task,) = _function(module, "run", ir.VOID, [POINTER])
    words = [b.inttoptr(b.word(task, i), POINTER) for i in range(_HEAD)]
    kind = ir.FunctionType(ir.VOID, [POINTER] * 4)
    b.call_address(kind, words[_LOOP], [words[i] for i in (_ARGS, _SIZES, _STRIDES, _DATA)])

    def add(i: ir.IRValue, found: Sequence[ir.IRValue]) -> list[ir.IRValue]:
        return [b.or_(found[0], b.word(words[_STATUS], i))]

    (found,) = fold_loop(b, b.word(task, _COUNT), 1, [i64(0)], add)
    b.store(found, b.at(task, WORD * _FAILED))
    b.ret_void()


def _define_serve(module: ir.Module) -> None:
    b, (pool, spins) = _function(module, "serve", ir.VOID, [POINTER, I64])
    f = b.function
    enter, look, take, run, nothing, tired, sleep, end = (
        f.append_basic_block(n)
        for n in ("enter", "look", "take", "run", "nothing", "tired", "sleep", "end")
    )
    number = exchange(b, "add", b.at(pool, WORD * _COME), i64(1), "seq_cst")
    slot = _slot(b, pool, number)
    b.cbranch(b.icmp_unsigned("<", number, i64(MOST)), enter, end)
    b.position_at_end(enter)
    b.branch(look)
    b.position_at_end(look)
    left = b.phi(I64)
    left.add_incoming(spins, enter)
    job = _seen(b, slot, _JOB)
    b.cbranch(b.icmp_signed("!=", job, i64(0)), take, nothing)

    b.position_at_end(take)  # unless the caller has taken it back
    b.cbranch(_swap_if(b, slot, _JOB, job, i64(_RUNNING)), run, look)
    left.add_incoming(spins, take)
    b.position_at_end(run)
    b.call(module.globals["phipsi_run"], [b.inttoptr(job, POINTER)])
    _swap(b, slot, _JOB, i64(0))
    left.add_incoming(spins, run)
    b.branch(look)

    b.position_at_end(nothing)
    _yield_processor(b)
    fewer = b.sub(left, i64(1))
    left.add_incoming(fewer, nothing)
    b.cbranch(b.icmp_signed(">", fewer, i64(0)), look, tired)

    b.position_at_end(tired)  # a caller that posts a task from now on sees the flag
    _swap(b, slot, _ASLEEP, i64(1))
    with b.if_then(b.icmp_signed("!=", _seen(b, slot, _JOB), i64(0))):
        woken = b.icmp_signed("==", _swap(b, slot, _ASLEEP, i64(0)), i64(0))
        left.add_incoming(spins, b.block)
        b.cbranch(woken, sleep, look)  # if so, the lock is open, or will be in a moment
        b.position_at_end(f.append_basic_block("unreached"))
    b.branch(sleep)
    b.position_at_end(sleep)
    bed = b.inttoptr(b.word(slot, _BED), POINTER)
    _call_word(b, pool, _LOCK, [bed, ir.IRConstant(I32, 1)])
    left.add_incoming(spins, b.block)
    b.branch(look)
    b.position_at_end(end)
    b.ret_void()


def _define_lead(module: ir.Module) -> None:
    takes = [POINTER, POINTER, I64, I64]
    b, (pool, tasks, step, count) = _function(module, "lead", I64, takes)
    busy, free = (b.function.append_basic_block(n) for n in ("busy", "free"))
    b.cbranch(_swap_if(b, pool, _TAKEN, i64(0), i64(1)), free, busy)
    b.position_at_end(busy)
    b.ret(i64(_BUSY))
    b.position_at_end(free)
    posted = at_most(b, count, i64(MOST))

    def post(i: ir.IRValue) -> None:
        slot, task = _slot(b, pool, i), _task(b, tasks, step, b.add(i, i64(1)))
        _swap(b, slot, _JOB, b.ptrtoint(task, I64))
        with b.if_then(b.icmp_signed("!=", _swap(b, slot, _ASLEEP, i64(0)), i64(0))):
            _call_word(b, pool, _UNLOCK, [b.inttoptr(b.word(slot, _BED), POINTER)])

    write_loop(b, posted, post)
    run = module.globals["phipsi_run"]
    b.call(run, [tasks])

    def finish(i: ir.IRValue, found: Sequence[ir.IRValue]) -> list[ir.IRValue]:
        names = ("offered", "here", "look", "rest", "done")
        offered, here, look, rest, done = (b.function.append_basic_block(n) for n in names)
        slot, task = _slot(b, pool, i), _task(b, tasks, step, b.add(i, i64(1)))
        b.cbranch(b.icmp_signed("<", i, posted), offered, here)
        b.position_at_end(offered)  # take it back if no thread has begun
        b.cbranch(_swap_if(b, slot, _JOB, b.ptrtoint(task, I64), i64(0)), here, look)
        b.position_at_end(here)
        b.call(run, [task])
        b.branch(done)
        b.position_at_end(look)
        b.cbranch(b.icmp_signed("!=", _seen(b, slot, _JOB), i64(0)), rest, done)
        b.position_at_end(rest)
        _yield_processor(b)
        b.branch(look)
        b.position_at_end(done)
        return [b.or_(found[0], b.word(task, _FAILED))]

    (found,) = fold_loop(b, count, 1, [b.word(tasks, _FAILED)], finish)
    _swap(b, pool, _TAKEN, i64(0))
    b.ret(_whether(b, found))


def _define_alone(module: ir.Module) -> None:
    b, (tasks, step, count) = _function(module, "alone", I64, [POINTER, I64, I64])

    def one(i: ir.IRValue, found: Sequence[ir.IRValue]) -> list[ir.IRValue]:
        task = _task(b, tasks, step, i)
        b.call(module.globals["phipsi_run"], [task])
        return [b.or_(found[0], b.word(task, _FAILED))]

    (found,) = fold_loop(b, count, 1, [i64(0)], one)
    b.ret(_whether(b, found))


def _whether(b: ir.IRBuilder, x: ir.IRValue) -> ir.IRValue:
    return b.zext(b.icmp_signed("!=", x, i64(0)), I64)


def _yield_processor(b: ir.IRBuilder) -> None:
    """Let other threads run: the one that is waited for may need this processor."""
    b.call_named("sched_yield", I32, [])


# ---- the pools of a process ----------------------------------------------------------------------

_pools: list[WorkerPool] = []


def run_tasks(tasks: np.ndarray) -> bool:
    """Run all tasks (rows) at the same time; True if no element of a batch failed.

    Each call that runs at the same time has a pool; beyond `POOLS` of them it runs alone.
    """
    if len(tasks) > 1:
        for pool in _of_this_process():
            good = pool.run(tasks)
            if good is not None:
                return good
    return not _functions().alone(address_of(tasks), tasks.strides[0], len(tasks))


def _of_this_process() -> Iterator[WorkerPool]:
    """The pools, created on demand. After a fork the threads are gone, and there are new pools."""
    global _pools
    pools, process = _pools, os.getpid()
    if pools and pools[0].process != process:
        pools = _pools = []
    for i in range(POOLS):
        if i == len(pools):
            pools.append(WorkerPool())
        yield pools[i]


def any_busy() -> bool:
    """Whether a call has one of the pools."""
    return any(pool.busy for pool in _pools)
