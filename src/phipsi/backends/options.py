"""The options that every function which evaluates a program takes: `out`, `threads`, `on_error`.

A named function passes them on as they are, and pays nothing where none is given:

    def mass_matrix(model: Model, q: Any, **options: Unpack[CallOptions]) -> Array:
        return program_of(MASS_MATRIX, model, "dense")(q, **options)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict

import numpy as np

from phipsi.errors import InputError

OnError = Literal["raise", "mask", "return"]
ON_ERROR = ("raise", "mask", "return")


class CallOptions(TypedDict, total=False):
    """Options of a call.

    `out`: an array, or a tuple of arrays, to which the results are written. `threads`: how many
    threads share a batch. `on_error`, what happens to elements of a batch that fail: "raise" an
    error that names the first; "mask", return ``(result, status)`` with NaN in their place;
    "return" the same with the numbers as they came out. The status is an integer for each element,
    0 where all is well (`phipsi.backends.failures`).
    """

    out: Any
    threads: int
    on_error: OnError


def check_on_error(value: Any, allowed: tuple[str, ...] = ON_ERROR) -> None:
    """Reject a word for `on_error` that the function does not know."""
    if value not in allowed:
        words = ", ".join(map(repr, allowed[:-1]))
        raise InputError(f"on_error={value!r} is not one of {words} and {allowed[-1]!r}")


def finished(call: Callable[..., Any], then: Callable[[Any], Any], options: CallOptions) -> Any:
    """What a call returns, after `then`: for functions that do more than run one program.

    `out` receives the finished result, and the status of `on_error` passes by.
    """
    if not options:
        return then(call())
    inner = {name: value for name, value in options.items() if name != "out"}
    found, status = call(**inner), None
    if options.get("on_error", "raise") != "raise":
        found, status = found
    result = then(found)
    out = options.get("out")
    if out is not None:
        if np.shape(out) != result.shape:
            raise InputError(f"out has shape {np.shape(out)}, but the result {result.shape}")
        np.copyto(out, result)
        result = out
    return result if status is None else (result, status)


def named(kind: Any, found: Any, options: CallOptions) -> Any:
    """The results of a program with names; with `on_error` also the status."""
    if options.get("on_error", "raise") == "raise":
        return kind(*found)
    return kind(*found[0]), found[1]
