"""Read, explain and compile many random and damaged expressions, and report what comes of them.

    python scripts/fuzz_expressions.py --count 100000
    python scripts/fuzz_expressions.py --first 20000 --count 5000       # seeds 20000 … 24999

Every text must work or raise a PhipsiError whose message is short and safe to print, within 1 s of
processor time and 500 MB. Texts are drawn from their seeds, so a failure can be repeated by its
number alone. They are tried in a worker process; one that dies or hangs is replaced, and the text
is reported as a failure. Every tenth text that compiles is also run, on the reference backend.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
SECONDS, MEGABYTES = 1.0, 500
HANGS = 30.0  # seconds after which a worker that does not answer is ended
CHUNK = 200  # texts per message to the worker


class TooLong(BaseException):
    """The processor time of one text is over."""


def over(*_: Any) -> None:
    """End the text that is being tried."""
    raise TooLong


def try_texts(seeds: range) -> Iterator[tuple[int, str, str]]:
    """The seed, the outcome and what is wrong, "" if nothing is."""
    from expression_texts import outcome, text_of

    for seed in seeds:
        text = text_of(seed)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            got, wrong = outcome(text, run=seed % 10 == 0), ""
        except TooLong:
            got, wrong = "too long", f"more than {SECONDS} s"
        except BaseException as error:  # whatever it is, it is what is looked for
            got, wrong = type(error).__name__, str(error)[:300]
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        yield seed, got, wrong


def work(connection: Connection) -> None:
    """Try the texts of the ranges that arrive, one answer each."""
    sys.path.insert(0, str(SUPPORT))
    import expression_texts

    expression_texts.mechanisms()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = used + MEGABYTES * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGPROF, over)
    while (seeds := connection.recv()) is not None:
        for answer in try_texts(seeds):
            connection.send(answer)


class Worker:
    """A process that tries texts, started again when it dies or hangs."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start a process that waits for texts."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()

    def tried(self, seeds: range) -> Iterator[tuple[int, str, str]]:
        """The answers to all seeds; a death is the answer to the seed that was being tried."""
        at = seeds.start
        while at < seeds.stop:
            self.connection.send(range(at, seeds.stop))
            while at < seeds.stop:
                try:
                    if not self.connection.poll(HANGS):
                        raise EOFError
                    answer = self.connection.recv()
                except EOFError:
                    self.stop()
                    yield at, "died", f"exit code {self.process.exitcode}, or no answer"
                    self.start()
                    at += 1
                    break
                at = answer[0] + 1
                yield answer


def main() -> int:
    """Try the texts of the seeds asked for; 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many texts")
    options = parser.parse_args()
    sys.path.insert(0, str(SUPPORT))
    from expression_texts import text_of

    started, counts, failures = time.time(), Counter[str](), 0
    worker = Worker()
    last = options.first + options.count
    for start in range(options.first, last, CHUNK):
        for seed, got, wrong in worker.tried(range(start, min(start + CHUNK, last))):
            counts[got] += 1
            if wrong:
                failures += 1
                print(f"seed {seed}: {got}: {wrong}\n    {text_of(seed)[:300]!r}", flush=True)
    worker.stop()
    for got, count in counts.most_common():
        print(f"{count:8d}  {got}")
    print(
        f"seeds {options.first} … {last - 1}: {options.count} texts, {failures} failures, "
        f"{time.time() - started:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
