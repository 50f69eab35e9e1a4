"""The options that every function which evaluates a program takes: `out`, `threads`, `on_error`.

A named function passes them on as they are, and pays nothing where none is given:

    def mass_matrix(model: Model, q: Any, **options: Unpack[CallOptions]) -> Array:
        return program_of(MASS_MATRIX, model, "dense")(q, **options)
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

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
