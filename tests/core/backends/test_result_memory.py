"""Memory of results is used again only when nobody can see the old result any more."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phipsi as pp
from phipsi.core.backends import result_memory
from phipsi.core.backends.result_memory import LEAST, ResultMemory
from phipsi.errors import InputError
from phipsi.operators import mass_matrix

MODEL = pp.examples.quadruped()
COUNT = 2 * LEAST // (8 * MODEL.nv**2)
SHAPE = (COUNT, MODEL.nv, MODEL.nv)
MB = 1 << 20

# what somebody may keep of a result, and how to read its numbers
VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "result": (lambda a: a, np.asarray),
    "slice": (lambda a: a[3:7], np.asarray),
    "slice of a slice": (lambda a: a[2:][1:, :, ::2][..., 0], np.asarray),
    "transpose": (lambda a: a.T, np.asarray),
    "reshaped": (lambda a: a.reshape(-1), np.asarray),
    "subclass": (lambda a: a[0].view(np.recarray), np.asarray),
    "memoryview": (lambda a: memoryview(a)[1:], np.asarray),
    "slice of a memoryview": (lambda a: memoryview(a[5]), np.asarray),
    "buffer": (lambda a: np.frombuffer(a), np.asarray),
    "iterator": (lambda a: a[:2].flat, lambda it: np.array(it.base)),
    "DLPack capsule": (lambda a: _Exported(a[4:9]), np.from_dlpack),
    "array from DLPack": (lambda a: np.from_dlpack(a[1:3]), np.asarray),
    "array interface": (lambda a: _Interface(a[2:4]), np.asarray),
}


class _Exported:
    """A capsule and nothing else."""

    def __init__(self, a: Any) -> None:
        self._capsule, self._device = a.__dlpack__(), a.__dlpack_device__()

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Any:
        return self._device


class _Interface:
    """The address of an array, and the array's own base to keep it."""

    def __init__(self, a: np.ndarray) -> None:
        self.__array_interface__, self.kept = a.__array_interface__, a.base


def overwritten(empty: Callable[[tuple[int, ...]], np.ndarray], rounds: int = 4) -> list[str]:
    """The kinds of views whose numbers change while new results are made and dropped."""
    found: list[str] = []
    for name, (keep, read) in VIEWS.items():
        for number in range(rounds):
            result = empty(SHAPE)
            result[...] = number
            kept = keep(result)
            del result
            for other in range(3):
                empty(SHAPE)[...] = -1.0 - other
            if not (read(kept) == number).all():
                found.append(name)
                break
    return found


def test_nothing_that_is_visible_is_overwritten():
    memory = ResultMemory(64 * MB)
    assert overwritten(memory.empty) == []
    del memory


def test_memory_is_used_again():
    memory = ResultMemory(64 * MB)
    first = memory.empty(SHAPE)
    address = first.ctypes.data
    view = first[2:]
    del first
    other = memory.empty(SHAPE)
    assert other.ctypes.data != address
    assert memory.waiting == 0
    del view
    assert memory.waiting >= other.nbytes
    again = memory.empty(SHAPE)
    assert again.ctypes.data == address


class _OnAView:
    """A pool as one would write it first: a finalizer on the array that is handed out."""

    def __init__(self) -> None:
        self._waiting: list[np.ndarray] = []

    def empty(self, shape: tuple[int, ...]) -> np.ndarray:
        memory = self._waiting.pop() if self._waiting else np.empty(shape)
        view = memory[:]
        weakref.finalize(view, self._waiting.append, memory)
        return view


def test_a_pool_that_lets_go_too_early_is_noticed():
    """NumPy makes slices point to the memory, not to the view: the finalizer runs too early."""
    found = overwritten(_OnAView().empty)
    assert {"slice", "transpose", "slice of a memoryview", "DLPack capsule"} <= set(found)
    assert "result" not in found


def compiled() -> Any:
    return pp.compile(mass_matrix, MODEL, mode="dense", backend="native")


def test_results_of_programs_stay(monkeypatch: pytest.MonkeyPatch):
    """Views of many results in several threads, while others are made and dropped."""
    memory = ResultMemory(16 * MB)
    for module in ("native_backend", "calls.machine_function"):
        monkeypatch.setattr(f"phipsi.native.{module}.empty", memory.empty)
    matrix = compiled()
    many = [MODEL.random_configuration(seed, (COUNT,)) for seed in range(6)]
    right = [matrix(q, out=np.empty(SHAPE)).copy() for q in many]
    wrong: list[Any] = []

    def work(offset: int) -> None:
        kept: list[Any] = []
        for turn in range(30):
            i = (turn + offset) % len(many)
            view = [lambda a: a, lambda a: a[5:9], lambda a: a.T, memoryview][turn % 4]
            threads = 1 + turn % 2
            kept.append((view(matrix(many[i], threads=threads)), view(right[i])))
            if len(kept) > 3:
                got, want = kept.pop(turn % 3)
                if not np.array_equal(np.asarray(got), np.asarray(want)):
                    wrong.append((offset, turn))
        wrong.extend(
            offset for got, want in kept if not np.array_equal(np.asarray(got), np.asarray(want))
        )

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert memory.waiting > 0  # the programs did use it


@pytest.mark.parametrize("batch", [(COUNT,), (2, COUNT // 2), (1, COUNT, 1)])
def test_batches_of_every_shape_stand_on_blocks(batch: tuple[int, ...]):
    q = MODEL.random_configuration(1, batch)
    result = compiled()(q)
    assert isinstance(result.base, result_memory.ResultBlock) and result.flags.writeable
    np.testing.assert_array_equal(result, compiled()(q, out=np.empty((*batch, *SHAPE[1:]))))


def test_small_results_are_arrays_of_numpy():
    assert compiled()(MODEL.random_configuration(1, (4,))).base is None
    assert ResultMemory(64 * MB).empty((4, 4)).base is None


def test_it_is_bounded():
    memory = ResultMemory(8 * MB)
    kept = [memory.empty((MB // 8,)) for _ in range(20)]
    assert sum(a.base is not None for a in kept) == 8
    del kept
    assert memory.waiting == 8 * MB
    large = memory.empty((6 * MB // 8,))  # takes the place of smaller ones
    assert large.base is not None and memory.waiting == 2 * MB
    assert memory.empty((9 * MB // 8,)).base is None
    del large
    memory.set_limit(1 * MB)
    assert memory.waiting <= MB


def test_it_can_be_switched_off():
    memory = ResultMemory(8 * MB)
    lent = memory.empty((MB // 8,))
    memory.empty((MB // 8,))
    memory.set_limit(0)
    assert memory.waiting == 0 and memory.empty((MB // 8,)).base is None
    lent[...] = 3.0
    del lent  # comes back after the end
    memory.set_limit(0)
    assert memory.waiting == 0


@pytest.mark.parametrize("wrong", [-1, 0.5, "all", None])
def test_a_limit_is_a_whole_number(wrong: Any):
    with pytest.raises(InputError, match=r"must be an integer \(MB\)"):
        result_memory.set_limit(wrong)


def test_the_environment_sets_the_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PHIPSI_RESULT_MEMORY", "0")
    assert result_memory._limit() == 0
    monkeypatch.setenv("PHIPSI_RESULT_MEMORY", "7")
    assert result_memory._limit() == 7 * MB
    monkeypatch.setenv("PHIPSI_RESULT_MEMORY", "some")
    with pytest.raises(InputError, match="PHIPSI_RESULT_MEMORY='some'"):
        result_memory._limit()
