"""The threads that share a batch."""

from __future__ import annotations

import os
import threading

import pytest

from phipsi.core.backends.batch_threads import batch_pieces, run_together


@pytest.mark.parametrize("count", [1, 7, 8, 9, 4096, 4099])
@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_pieces_cover_the_batch_at_whole_groups(count: int, threads: int):
    pieces = batch_pieces(count, threads)
    assert pieces[0].start == 0 and pieces[-1].stop == count
    assert all(a.stop == b.start for a, b in zip(pieces, pieces[1:], strict=False))
    assert all(p.start % 8 == 0 and p.stop > p.start for p in pieces)
    assert len(pieces) <= threads


def test_all_tasks_run_and_the_first_one_here():
    seen: list[tuple[int, str]] = []
    here = threading.current_thread().name
    run_together([lambda i=i: seen.append((i, threading.current_thread().name)) for i in range(5)])
    assert sorted(i for i, _ in seen) == list(range(5))
    assert dict(seen)[0] == here
    run_together([])


def test_an_error_arrives_after_all_have_ended():
    done: list[int] = []

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_together([lambda: done.append(1), fail, lambda: done.append(2)])
    assert sorted(done) == [1, 2]


def test_many_callers_at_once():
    totals: list[int] = []

    def caller() -> None:
        for _ in range(50):
            mine: list[int] = []
            run_together([lambda i=i, mine=mine: mine.append(i) for i in range(4)])
            totals.append(sum(mine))

    threads = [threading.Thread(target=caller) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert totals == [6] * 300


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own():
    run_together([lambda: None, lambda: None])
    child = os.fork()
    if child == 0:
        seen: list[int] = []
        run_together([lambda i=i: seen.append(i) for i in range(3)])
        os._exit(0 if sorted(seen) == [0, 1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
