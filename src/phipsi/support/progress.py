"""Progress of long computations: a bar with rate and time left, a tqdm-like object, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from phipsi.errors import InputError

# A run that takes less is not worth a bar.
_PATIENCE = 2.0
_REFRESH = 0.1


class Progress(NamedTuple):
    """Receiver of progress: `advance(t)` when the simulation has reached the time t, `close()`."""

    advance: Callable[[float], Any]
    close: Callable[[], Any]


SILENT = Progress(lambda t: None, lambda: None)


class _Total(NamedTuple):
    """Amount of work, its unit, and the part that was done before."""

    amount: float
    unit: str
    begun: float
    doing: str


def _updates(bar: Any, begun: float) -> Progress:
    """An object with `update(n)`, such as a tqdm bar: n more simulated seconds are done."""
    reached = begun

    def advance(t: float) -> None:
        nonlocal reached
        bar.update(t - reached)
        reached = t

    return Progress(advance, getattr(bar, "refresh", SILENT.close))


def _bar(total: _Total, after: float) -> Progress:
    """A bar on standard error, once the run has taken `after` seconds."""
    started = time.perf_counter()
    due, display = started + after, None

    def advance(t: float) -> None:
        nonlocal due, display
        now = time.perf_counter()
        if now >= due:
            due = now + _REFRESH
            display = display or _display(total)
            display.show(t, now - started)

    def close() -> None:
        if display is not None:
            display.close()

    return Progress(advance, close)


def _display(total: _Total) -> Any:
    try:
        return _RichDisplay(total)
    except ImportError:
        return _PlainDisplay(total)


def describe(t: float, total: float, elapsed: float, unit: str = "s", begun: float = 0.0) -> str:
    """Text such as ``3.1 of 10 s, 0.52 s/s, 13 s left``; other units are shown as integers."""
    rate = (t - begun) / elapsed if elapsed > 0 else 0.0
    left = f"{(total - t) / rate:.0f} s left" if rate > 0 else "time left unknown"
    done = f"{t:.3g} of {total:.3g}" if unit == "s" else f"{t:,.0f} of {total:,.0f}"
    return f"{done} {unit}, {rate:.3g} {unit}/s, {left}"


class _PlainDisplay:
    """One line that is written over."""

    def __init__(self, total: _Total) -> None:
        self._total = total

    def show(self, t: float, elapsed: float) -> None:
        amount, unit, begun, doing = self._total
        share = t / amount if amount else 1.0
        state = describe(t, amount, elapsed, unit, begun)
        sys.stderr.write(f"\r{doing} {share:4.0%}  {state}   ")
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")
        sys.stderr.flush()


class _RichDisplay:
    """The same with a bar, if rich is installed."""

    def __init__(self, total: _Total) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress as RichProgress,
            TaskProgressColumn,
            TextColumn,
        )

        columns = (
            TextColumn(total.doing),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[state]}"),
        )
        self._total = total
        self._bar = RichProgress(*columns, console=Console(stderr=True))
        self._bar.start()
        self._task = self._bar.add_task("", total=total.amount, state="")

    def show(self, t: float, elapsed: float) -> None:
        amount, unit, begun, _ = self._total
        state = describe(t, amount, elapsed, unit, begun)
        self._bar.update(self._task, completed=t, state=state)

    def close(self) -> None:
        self._bar.stop()


def make_progress(
    progress: Any,
    total: float,
    doing: str = "simulating",
    unit: str = "s",
    *,
    begun: float = 0.0,
) -> Progress:
    """The receiver of progress for the argument `progress` of `simulate` and others.

    Parameters
    ----------
    progress : bool, callable, object with ``update(n)``, or None
        As the user passed it. None: a bar if standard error is a terminal.
    total : float
        Amount of work, counted in `unit`.
    doing : str, optional
        Text before the bar.
    unit : str, optional
        Default: seconds of simulated time.
    begun : float, optional
        Part of `total` that was done before.
    """
    if progress is False or (progress is None and not sys.stderr.isatty()):
        return SILENT
    if progress is None or progress is True:
        whole = _Total(total, unit, begun, doing)
        return _bar(whole, _PATIENCE if progress is None else 0.0)
    if callable(getattr(progress, "update", None)):
        return _updates(progress, begun)
    if callable(progress):
        return Progress(lambda t: progress(t, total), SILENT.close)
    raise InputError(
        f"progress={progress!r} is not one of None, True, False, an object with update(n) such as "
        f"tqdm(total=duration), or a function of (t, duration)"
    )
