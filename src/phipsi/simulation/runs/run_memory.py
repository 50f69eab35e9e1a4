"""Memory of a run: which arrays its machine code works on, and calls of it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.backends import batch_pieces
from phipsi.native import MOST, address_of, run_job, run_tasks, tasks_of_jobs
from phipsi.simulation.runs.run_code import run_code
from phipsi.simulation.runs.run_program import RunProgram

Array = NDArray[Any]
_LINE = 64  # bytes
_FIRST_PIECE = 10_000  # steps of all trajectories, before it is known how long they take
_PIECE = 0.1  # s that machine code runs before Python sees Ctrl-C


@final
class RunMemory:
    """The arrays of many trajectories, bound to the code of a plan.

    **Arguments:** `arrays`, by name of the port: rows of states, of own parameters, shared
    parameters without rows; `threads`, how many share the trajectories.
    **Attributes:** `status` (n,), 0 where all is well; `failed_at` (n,), the last step that was
    begun.
    """

    def __init__(
        self,
        plan: RunProgram,
        arrays: Mapping[str, Array],
        count: int,
        threads: int = 1,
        *,
        first_trajectory: int = 0,
    ) -> None:
        self.plan, self.count = plan, count
        natives = plan.sources
        wide = natives[0].target.lanes
        lanes = 1 if count == 1 else wide
        self._code = run_code(plan, lanes)
        self._natives = natives
        self.status, self.failed_at = (np.zeros(count, dtype=np.int64) for _ in range(2))
        self._words = {name: run_job.PORTS + 3 * i for i, name in enumerate(plan.ports)}
        self._sizes = plan.ports
        self._kept: dict[str, Array] = dict(arrays)
        pieces = batch_pieces(count, min(threads, MOST + 1), lanes)
        size = ctypes.CFUNCTYPE(ctypes.c_int64)(self._code.address("phipsi_run_size"))()
        self._jobs, self._pieces, self._memory = [], pieces, []
        for piece in pieces:
            job = np.zeros(run_job.PORTS + 3 * len(self._words) + 2 * len(natives), dtype=np.int64)
            job[run_job.COUNT] = piece.stop - piece.start
            job[run_job.EVERY], job[run_job.TRAJECTORY] = 1, first_trajectory + piece.start
            job[run_job.DIRECTION] = 1
            job[run_job.WORK] = self._room(size)
            job[run_job.STATUS] = address_of(self.status) + 8 * piece.start
            job[run_job.FAILED_AT] = address_of(self.failed_at) + 8 * piece.start
            programs = run_job.PORTS + 3 * len(self._words)
            for i, native in enumerate(natives):
                job[programs + 2 * i] = address_of(native.data)
                job[programs + 2 * i + 1] = self._room(native.scratch_bytes // 8)
            self._jobs.append(job)
        for name, array in arrays.items():
            if name in self._words:
                self.place(name, array)
        parts = [self.status[piece] for piece in pieces]
        run = self._code.address("phipsi_run")
        self._tasks = tasks_of_jobs(run, 0, self._jobs, parts)

    def _room(self, numbers: int) -> int:
        """The address of memory for so many numbers, at the start of a cache line."""
        memory = np.zeros(numbers + _LINE // 8)
        self._memory.append(memory)
        return -(-address_of(memory) // _LINE) * _LINE

    def place(self, name: str, array: Array, *, first: int = 0, per_step: bool = False) -> None:
        """Use an array for a port from its entry `first` of the axis of steps or records on.

        Rows of trajectories come first, (n, *shape); with `per_step`, or for records, (n, steps,
        *shape). An array without rows serves all trajectories.
        """
        size, word = 8 * self._sizes[name], self._words[name]
        self._kept[name] = array
        along = per_step or name.startswith("record ")
        shared = name in self.plan.shared
        row = 0 if shared else array.strides[0]
        step = array.strides[1] if along else 0
        assert shared or size == (array[0, 0] if along else array[0]).nbytes, name
        for job, piece in zip(self._jobs, self._pieces, strict=True):
            job[word] = address_of(array) + piece.start * row + first * step
            job[word + 1], job[word + 2] = row, step

    def stepper(self, h: float, first: int) -> Callable[[], int]:
        """A function that takes one step; 0 if no trajectory has failed.

        It holds the interpreter, because letting go of it takes as long as a step, and works on
        this object's memory: keep both.
        """
        self._set(h, 1, first, 1, records=False)
        (job,) = self._jobs
        function = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(
            self._code.address("phipsi_step")
        )
        return partial(function, address_of(job))

    @property
    def next_number(self) -> int:
        """The number of the next step, as the last call of machine code left it."""
        return int(self._jobs[-1][run_job.FIRST])

    def number(self, first: int) -> None:
        """The next step has this number."""
        for job in self._jobs:
            job[run_job.FIRST] = first

    def _set(self, h: float, steps: int, first: int, every: int, *, records: bool) -> None:
        for job in self._jobs:
            job[run_job.STEPS], job[run_job.FIRST], job[run_job.EVERY] = steps, first, every
            job[run_job.RECORDS] = records
            job[run_job.STEP_LENGTH : run_job.STEP_LENGTH + 1].view(np.float64)[0] = h

    def run(
        self,
        h: float,
        steps: int,
        first: int,
        every: int = 1,
        *,
        records: bool,
        direction: int = 1,
        phase: int = 0,
    ) -> bool:
        """Take steps of all trajectories; whether none has failed, now or before.

        They have the numbers `first`, `first` + `direction`, …; `phase` of them were taken before,
        since the first record.

        No exception can be raised while it runs.
        """
        self._set(h, steps, first, every, records=records)
        for job in self._jobs:
            job[run_job.DIRECTION], job[run_job.PHASE] = direction, phase
        return run_tasks(self._tasks)

    def run_in_pieces(
        self,
        h: float,
        steps: int,
        first: int,
        every: int = 1,
        *,
        records: bool,
        tau: Array | None = None,
        begin: int = 0,
        after: Callable[[int], Any] = lambda done: None,
    ) -> bool:
        """The same as `run`, in pieces so short that Ctrl-C ends them within a second.

        The exception comes between two pieces; `next_number` then says how far all trajectories
        are. `tau` (n, nv), or (n, m, nv) whose rows from `begin` on are those of the steps, is
        placed for every piece; `after` is called after each, with the number of steps so far.
        There is one piece also if there are no steps.
        """
        done, piece, fine = 0, max(1, _FIRST_PIECE // max(1, self.count)), True
        while True:
            count = min(piece, steps - done)
            if tau is not None:
                along = tau.ndim == 3
                self.place("tau", tau, first=begin + done if along else 0, per_step=along)
            began = time.perf_counter()
            fine = self.run(h, count, first + done, every, records=records, phase=done)
            taken = time.perf_counter() - began
            done = self.next_number - first
            after(done)
            if done >= steps:
                return fine
            piece = max(1, round(piece * min(8.0, _PIECE / max(taken, 1e-6))))
