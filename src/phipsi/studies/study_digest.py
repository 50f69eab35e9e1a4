"""What the numbers of a study depend on, as text: functions of the user, and simulators."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from phipsi.simulation.simulator import Simulator

_CONSTANT = (bool, int, float, complex, str, bytes, tuple, np.ndarray, FunctionType)
"""Kinds of values of modules that functions depend on; lists and dictionaries may be caches."""


def function_text(function: Callable[..., Any] | None, depth: int = 0) -> str | None:
    """A function of the user: its text, the constants and functions that it names, and its values.

    Those are what it closes over, what a partial one has bound, and what an object holds.
    """
    if function is None:
        return None
    if isinstance(function, partial):
        bound = [
            _shown_value(x, depth) for x in (*function.args, *sorted(function.keywords.items()))
        ]
        return f"{function_text(function.func, depth)} with {bound}"
    code = function if hasattr(function, "__code__") else type(function)
    try:
        text = inspect.getsource(code)
    except (OSError, TypeError):
        text = getattr(function, "__qualname__", type(function).__name__)
    cells: dict[str, Any] = {}
    if hasattr(function, "__code__"):
        found = inspect.getclosurevars(function)
        constants = {name: x for name, x in found.globals.items() if isinstance(x, _CONSTANT)}
        cells = {**constants, **found.nonlocals}
    own = getattr(function, "__dict__", {}) if code is not function else {}
    kept = {name: _shown_value(x, depth) for name, x in sorted({**cells, **own}.items())}
    return f"{text}{kept}" if kept else text


def _shown_value(x: Any, depth: int) -> str:
    """A value as text without addresses: arrays by their numbers, functions by their text."""
    if isinstance(x, np.ndarray):
        return f"array {x.dtype} {x.shape} {hashlib.sha256(x.tobytes()).hexdigest()}"
    if isinstance(x, tuple | list):
        return str([_shown_value(y, depth) for y in x])
    if isinstance(x, bool | int | float | complex | str | bytes | None):
        return repr(x)
    if callable(x) and depth < 4:  # functions may close over themselves
        return str(function_text(x, depth + 1))
    return type(x).__qualname__


def simulator_digest(simulator: Simulator, record: Sequence[str]) -> str:
    """Everything that the numbers of a simulator depend on."""
    plan = simulator.plan((), tuple(dict.fromkeys(("t", *record))))
    out = hashlib.sha256(plan.text().encode())
    for source in plan.sources:
        for word, table in sorted(source.unit.pointers().items()):
            out.update(f"{word} {table.dtype} {table.shape}\n".encode())
            out.update(np.ascontiguousarray(table).tobytes())
    for name, value in sorted(simulator.parameters.items()):
        out.update(name.encode())
        if value is not None:
            out.update(np.ascontiguousarray(value, dtype=np.float64).tobytes())
    return out.hexdigest()
