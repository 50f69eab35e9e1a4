"""Best-of-many timing, with the contestants taking turns so that a busy machine hits all alike.

What runs on one thread is measured in processor time: on a shared machine the clock on the wall
would charge long calls, which are the peers' batches, for the time in which others run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

Function = Callable[[], object]
Clock = Callable[[], float]


def repeats_for(function: Function, target: float) -> int:
    """How many calls take about `target` seconds."""
    function()
    start = time.perf_counter()
    function()
    once = max(time.perf_counter() - start, 1e-7)
    count = max(1, int(target / once))
    if count > 20:  # the second call may still have been slow
        start = time.perf_counter()
        for _ in range(20):
            function()
        count = max(1, int(target / max((time.perf_counter() - start) / 20, 1e-7)))
    return count


def race(
    functions: Mapping[str, Function],
    *,
    rounds: int = 30,
    target: float = 0.004,
    clock: Clock = time.process_time,
) -> dict[str, float]:
    """Seconds per call of every function: the best of `rounds` runs of about `target` seconds."""
    counts = {name: repeats_for(f, target) for name, f in functions.items()}
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            count = counts[name]
            start = clock()
            for _ in range(count):
                function()
            best[name] = min(best[name], (clock() - start) / count)
    return best


def best(function: Function, *, rounds: int = 20, target: float = 0.01) -> float:
    """Seconds per call, the best of many runs."""
    return race({"it": function}, rounds=rounds, target=target)["it"]
