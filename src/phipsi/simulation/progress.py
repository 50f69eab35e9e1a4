"""Progress of long runs: a bar with rate and time left, a tqdm-like object, or nothing."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

from phipsi.errors import InputError

# A run that takes less is not worth a bar.
_PATIENCE = 2.0
_REFRESH = 0.1


class Progress(Protocol):
    """What the loop reports to."""

    def advance(self, t: float) -> None:
        """The run has reached the time t."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class _Silent:
    def advance(self, t: float) -> None:
        pass

    def close(self) -> None:
        pass


class _Update:
    """An object with `update(n)`, such as a tqdm bar: n simulated seconds went by."""

    def __init__(self, bar: Any) -> None:
        self._bar, self._t = bar, 0.0

    def advance(self, t: float) -> None:
        self._bar.update(t - self._t)
        self._t = t

    def close(self) -> None:
        refresh = getattr(self._bar, "refresh", None)
        if refresh is not None:
            refresh()


class _Callback:
    def __init__(self, function: Any, total: float) -> None:
        self._function, self._total = function, total

    def advance(self, t: float) -> None:
        self._function(t, self._total)

    def close(self) -> None:
        pass


class _Bar:
    """A bar on standard error, once the run has taken `after` seconds."""

    def __init__(self, total: float, after: float) -> None:
        self._total = total
        self._started = time.perf_counter()
        self._due = self._started + after
        self._display: Any = None

    def advance(self, t: float) -> None:
        now = time.perf_counter()
        if now < self._due:
            return
        self._due = now + _REFRESH
        if self._display is None:
            self._display = _display(self._total)
        self._display.show(t, now - self._started)

    def close(self) -> None:
        if self._display is not None:
            self._display.close()


def _display(total: float) -> Any:
    try:
        return _RichDisplay(total)
    except ImportError:
        return _PlainDisplay(total)


def describe(t: float, total: float, elapsed: float) -> str:
    """Text such as ``3.1 of 10 s, 0.52 s/s, 13 s left``."""
    rate = t / elapsed if elapsed > 0 else 0.0
    left = f"{(total - t) / rate:.0f} s left" if rate > 0 else "time left unknown"
    return f"{t:.3g} of {total:.3g} s, {rate:.3g} s/s, {left}"


class _PlainDisplay:
    """One line that is written over."""

    def __init__(self, total: float) -> None:
        self._total = total

    def show(self, t: float, elapsed: float) -> None:
        share = t / self._total if self._total else 1.0
        sys.stderr.write(f"\rsimulating {share:4.0%}  {describe(t, self._total, elapsed)}   ")
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")
        sys.stderr.flush()


class _RichDisplay:
    """The same with a bar, if rich is installed."""

    def __init__(self, total: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("simulating"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[state]}"),
        )
        self._total = total
        self._bar = RichProgress(*columns, console=Console(stderr=True))
        self._bar.start()
        self._task = self._bar.add_task("", total=total, state="")

    def show(self, t: float, elapsed: float) -> None:
        state = describe(t, self._total, elapsed)
        self._bar.update(self._task, completed=t, state=state)

    def close(self) -> None:
        self._bar.stop()


def make_progress(progress: Any, total: float) -> Progress:
    """What to report to, for the argument `progress` of `simulate`."""
    if progress is False:
        return _Silent()
    if progress is None:
        return _Bar(total, _PATIENCE) if sys.stderr.isatty() else _Silent()
    if progress is True:
        return _Bar(total, 0.0)
    if callable(getattr(progress, "update", None)):
        return _Update(progress)
    if callable(progress):
        return _Callback(progress, total)
    raise InputError(
        f"progress={progress!r} is none of None, True, False, an object with update(n) such as "
        f"tqdm(total=duration), or a function of (t, duration)"
    )
