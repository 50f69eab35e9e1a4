"""Texts of contact problems as functions of a module, which problems of lanes are given to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from phipsi.contact.solver.scaled_problem import KINDS, ProblemMemory
from phipsi.core.machine import BLOCK
from phipsi.native import LaneMachine, lane_routine, sources_digest

ARGUMENTS = [*["memory"] * 6, "words", "index", "index"]
"""W, b, s, coefficients, y, results; contacts; how many contacts and rows.

`contacts` has two words each, the number of its kind and its first row; then there are the words of
the profile, `lows` and `ends` of `ProblemMemory`.
"""


def cone_routine(
    module: Any, e: Any, what: str, text: Callable[..., None], kinds: Sequence[str],
    results: tuple[int, ...], *options: float,
) -> Any:  # fmt: skip
    """A function of the module with `ARGUMENTS`, written once for these kinds and options.

    The text gets a machine, the kinds, the `ProblemMemory` with results of this shape, the options.
    """
    key = (tuple(kinds), results, *options)
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    depends = f"{key} {e.fused} {e.number.name} {sources_digest('contact')}"

    def write(m: LaneMachine, args: list[Any]) -> None:
        W, free, s, mu, y, found, contacts, k, n = args
        lows = contacts.after(k * 2)
        given = ProblemMemory(
            W=m.memory(W, n, n), free=m.memory(free, n), s=m.memory(s, k), mu=m.memory(mu, n),
            y=m.memory(y, n), results=m.memory(found, *results), k=k, n=n, contacts=contacts,
            lows=lows, ends=lows.after(n // BLOCK),
        )  # fmt: skip
        text(m, [KINDS[x] for x in kinds], given, *options)

    return lane_routine(module, e, f"phipsi_{what}_{digest}_{e.lanes}", depends, ARGUMENTS, write)


def after(code: Any, base: Any, count: int) -> Any:
    """The address of the number that comes after so many."""
    return code.e.builder.at(base, count * code.e.bytes)
