"""The options that every function which evaluates a program takes: `out`, `threads`, `on_error`.

A named function passes them on as they are, and pays nothing where none is given:

    def mass_matrix(model: Model, q: Any, **options: Unpack[CallOptions]) -> Array:
        return evaluate(MASS_MATRIX, mass_matrix, model, (q,), options)

One that does more than evaluate a single program passes them to `Calls`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.backends.errors_from_status import NOT_FINITE, code_of, is_failure
from phipsi.core.model import is_array, whole_number
from phipsi.errors import InputError, PhipsiError, one_of

Array = NDArray[Any]

OnError = Literal["raise", "nan", "best"]
ON_ERROR = ("raise", "nan", "best")
_BEFORE = {"mask": "nan", "return": "best"}


class CallOptions(TypedDict, total=False):
    """Options of a call.

    `out`: an array to which the result is written; for several results a tuple of arrays, such as
    the result of an earlier call. `threads`: how many threads share a batch. `on_error`, what
    happens to elements of a batch that fail: "raise" an error that names the first; "nan", return
    ``(result, status)`` with NaN in their place; "best" the same with the numbers as they came
    out, if there are any. The status is an integer for each element, 0 where all is well
    (`phipsi.core.backends.errors_from_status`).
    """

    out: Any
    threads: int
    on_error: OnError


def check_on_error(value: Any) -> None:
    """Reject a word for `on_error` that nobody knows."""
    word = _BEFORE.get(value) if isinstance(value, str) else None
    one_of("on_error", value, ON_ERROR, f'"{value}" is now named "{word}".' if word else "")


@final
class Calls:
    """The programs that one function evaluates, under the options of its caller.

        calls = Calls(options)
        inertia = calls(program_of(WHOLE_INERTIA, model, "dense"), q)
        return calls.finish(first_moment(inertia) / mass)

    Every program gets `threads` and `on_error`, and of each element of the batch the first failure
    counts. `finish` returns what the options ask for.
    """

    def __init__(self, options: CallOptions) -> None:
        self._out = options.get("out")
        self._inner = {name: value for name, value in options.items() if name != "out"}
        self._word = options.get("on_error", "raise")
        if self._inner:
            check_on_error(self._word)
            whole_number("threads", options.get("threads", 1))
        self._status: Array | None = None

    @property
    def raises(self) -> bool:
        """Whether failures are errors, so that no element has a status."""
        return self._word == "raise"

    def __call__(self, program: Callable[..., Any], *args: Any, extra: int = 0) -> Any:
        """The results of a program; the last `extra` axes of its batch belong to one element."""
        if not self._inner:
            return program(*args)
        found = program(*args, **self._inner)
        if self.raises:
            return found
        found, status = found
        for _ in range(extra):
            status = status.max(axis=-1, initial=0)
        self._record(status)
        return found

    def solve(self, function: Callable[..., Any], *arrays: Any, matrices: int = 0) -> Any:
        """The results of a dense function of flat arrays (n, k), for arrays (..., k).

        The last `matrices` of them are (..., m, k). Without "raise", elements that failed before
        are left out, and if the function raises an error, it is called for parts of the batch, so
        that one element does not spoil the others.
        """
        listed = [np.asarray(x) for x in arrays]
        cores = [1] * (len(listed) - matrices) + [2] * matrices
        batch = np.broadcast_shapes(
            *(x.shape[: x.ndim - k] for x, k in zip(listed, cores, strict=True)),
            *(() if self._status is None else [self._status.shape]),
        )
        tails = [x.shape[x.ndim - k :] for x, k in zip(listed, cores, strict=True)]
        flat = [
            np.broadcast_to(x, (*batch, *tail)).reshape(math.prod(batch), *tail)
            for x, tail in zip(listed, tails, strict=True)
        ]
        found = function(*flat) if self.raises else self._in_parts(function, flat, batch)
        shaped = tuple(x.reshape(*batch, *x.shape[1:]) for x in in_order(found))
        return shaped if isinstance(found, tuple) else shaped[0]

    def _in_parts(
        self, function: Callable[..., Any], flat: list[Array], batch: tuple[int, ...]
    ) -> Any:
        known = np.zeros(batch, dtype=np.int64) if self._status is None else self._status
        status = np.broadcast_to(known, batch).reshape(-1).copy()
        for x in flat:
            bad = ~np.isfinite(x).reshape(len(x), -1).all(axis=-1)
            status[bad & (status == 0)] = NOT_FINITE
        first = function(*(x[:0] for x in flat))  # for the shapes
        whole = [np.full((len(status), *x.shape[1:]), np.nan) for x in in_order(first)]
        left = [np.flatnonzero(~is_failure(status))]
        while left:
            part = left.pop()
            if not part.size:
                continue
            try:
                found = function(*(x[part] for x in flat))
            except (PhipsiError, np.linalg.LinAlgError) as error:
                if part.size == 1:
                    status[part] = code_of(error)
                else:
                    left += np.array_split(part, 2)
                continue
            for x, y in zip(whole, in_order(found), strict=True):
                x[part] = y
        self._status = status.reshape(batch)
        return tuple(whole) if isinstance(first, tuple) else whole[0]

    def _record(self, status: Array) -> None:
        old = np.zeros_like(status) if self._status is None else self._status
        self._status = np.where(is_failure(old) | (status == 0), old, status)

    def finish(self, result: Array | tuple[Any, ...], batch: tuple[int, ...] = ()) -> Any:
        """The result, an array or a tuple with names, as the options ask for it.

        "nan" puts NaN in the place of failed elements, `out` receives the numbers, and the status
        comes second. `batch` is that of the arguments, for results without a program.
        """
        if not self._inner and self._out is None:
            return result
        status = np.zeros(batch, dtype=np.int64) if self._status is None else self._status
        parts = in_order(result)
        if self._word == "nan" and status.any():
            bad = is_failure(status)
            parts = tuple(
                np.where(bad.reshape(bad.shape + (1,) * (x.ndim - bad.ndim)), np.nan, x)
                for x in map(np.asarray, parts)
            )
        parts = store(parts, self._out, single=not isinstance(result, tuple))
        if isinstance(result, tuple):
            several: Callable[..., Any] = type(result)
            result = several(*parts)
        else:
            result = parts[0]
        return result if self.raises else (result, status)


def in_order(results: Array | tuple[Any, ...]) -> tuple[Any, ...]:
    """The results of a function that gives one or, in a tuple, several."""
    return results if isinstance(results, tuple) else (results,)


def flat(results: Sequence[Array | tuple[Array, ...] | list[Array]]) -> list[Any]:
    """Results one after the other; those of several blocks are tuples of arrays."""
    out: list[Any] = []
    for r in results:
        out.extend(r if isinstance(r, (tuple, list)) else (r,))
    return out


def store(
    results: Sequence[Any], out: Array | tuple[Any, ...] | list[Any] | None, single: bool
) -> list[Any]:
    """Write results to the arrays of ``out=``, if there are any; those that the user gets."""
    if out is None:
        return list(results)
    if not single and not isinstance(out, tuple | list):
        raise InputError(
            f"there are {len(results)} results, so out must be a tuple of {len(results)} arrays, "
            f"such as the result of an earlier call, not {type(out).__name__}"
        )
    targets: list[Any] = [out] if single else list(out)
    arrays, found = flat(targets), [np.asarray(x) for x in flat(results)]
    if len(targets) != len(results) or len(arrays) != len(found):
        raise InputError(f"out= has {len(arrays)} arrays for {len(found)} results")
    for target, result in zip(arrays, found, strict=True):
        if is_array(target) and target.dtype != result.dtype:
            raise InputError(
                f"out= holds {target.dtype}, but the result is {result.dtype}: "
                f"np.empty({result.shape}, dtype=np.{result.dtype})"
            )
        if not is_array(target) or target.shape != result.shape:
            shape = getattr(target, "shape", type(target).__name__)
            raise InputError(f"out= has shape {shape}, but the result has {result.shape}")
        if not target.flags.writeable:
            raise InputError("out= is read-only, so no result can be written to it")
        if sum(other is target or _overlap(target, other) for other in arrays) > 1:
            raise InputError(
                "the arrays of out= share memory, so one result would overwrite another"
            )
    # a result may be an argument, which may be in the memory of another result
    kept = [x.copy() if any(np.may_share_memory(x, y) for y in arrays) else x for x in found]
    for target, result in zip(arrays, kept, strict=True):
        target[...] = result
    return targets


def _overlap(a: Array, b: Any) -> bool:
    work: Any = 10_000  # steps; whether strided arrays meet can be hard to find out
    try:
        return is_array(b) and np.shares_memory(a, b, max_work=work)
    except np.exceptions.TooHardError:
        return True


def named(kind: type[tuple[Any, ...]], results: Any, options: CallOptions) -> Any:
    """The results of one program with names; with `on_error` also the status."""
    if options.get("on_error", "raise") == "raise":
        return with_names(kind, results)
    return with_names(kind, results[0]), results[1]


with_names: Callable[[type[tuple[Any, ...]], Any], Any] = getattr(tuple, "__new__")  # noqa: B009
"""``with_names(kind, results)``: ``kind(*results)`` of a `NamedTuple`, without Python code."""
