"""Functions in single precision: their accuracy, measured before they are exported."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from phipsi.backends.backend import backend_of
from phipsi.backends.failures import is_failure
from phipsi.backends.native.targets.target import MachineCode, Target, host_target
from phipsi.exporting.exported_module import Accuracy, Source, exported_module
from phipsi.exporting.exported_step import exported_step, states_around_a_step

STATES = 100  # at which errors are measured


def measured_accuracy(
    source: Source, target: Target, inputs: Mapping[str, np.ndarray]
) -> Accuracy | None:
    """The errors of a function at inputs (n, …) against double precision; None without any result.

    The code that is measured runs here; it has fused operations if the target and this processor
    have them. Both sides get the same rounded inputs.
    """
    given = [np.array(a, dtype=np.float32, order="C") for a in inputs.values()]
    count = len(given[0])
    wide = {n: a.astype(np.float64) for n, a in zip(inputs, given, strict=True)}
    exact, status = backend_of("reference").load(source.program).run(wide, (count,), 1)
    exact = [np.asarray(a, dtype=np.float64).reshape(count, -1) for a in exact]
    fine = ~is_failure(np.asarray(status))
    for a in exact:
        fine &= np.isfinite(a).all(axis=1)
    arrays = [*given, *(np.empty(a.shape, dtype=np.float32) for a in exact)]
    host = _here(target)
    module = exported_module([source], host, batch=False)
    return _compared(host, module, arrays, dict(enumerate(exact, len(given))), fine)


def step_accuracy(simulator: Any, target: Target) -> Accuracy | None:
    """The errors of one step from random states, with those of rounding the states."""
    found = states_around_a_step(simulator, STATES)
    if found is None:
        return None
    before, after = found
    host = _here(target)
    module = exported_module([], host, batch=False, more=[exported_step(simulator, host, "robot")])
    arrays = [np.array(a, dtype=np.float32, order="C") for a in before]
    return _compared(host, module, arrays, dict(enumerate(after)), np.ones(STATES, dtype=bool))


def _here(target: Target) -> Target:
    """This processor, with the numbers and the rounding of the target."""
    host = host_target()
    return replace(host, lanes=1, number="float", fused=target.fused and host.fused)


def _compared(
    host: Target,
    module: Any,
    arrays: Sequence[np.ndarray],
    exact: Mapping[int, np.ndarray],
    fine: np.ndarray,
) -> Accuracy | None:
    """Call the one function of a module on rows of arrays, and compare those with these numbers."""
    if not fine.any():
        return None
    (function,) = module.functions
    code = MachineCode(host.object_code(module.text), host)
    kinds = [ctypes.c_void_p] * (len(arrays) + 1)
    call = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(code.address(function.name))
    work = np.zeros(function.work_bytes + 16, dtype=np.uint8)
    errors, failed = list[float](), 0
    for i in np.flatnonzero(fine):
        if call(*(a[i].ctypes.data for a in arrays), work.ctypes.data):
            failed += 1
            continue
        errors.append(max(_error(arrays[k][i], y[i]) for k, y in exact.items()))
    known = errors or [np.inf]
    return Accuracy(float(np.median(known)), max(known), int(fine.sum()), failed)


def _error(found: np.ndarray, exact: np.ndarray) -> float:
    """Of the largest number of a result."""
    gap = float(np.max(np.abs(found - exact), initial=0.0))
    return gap / (float(np.max(np.abs(exact), initial=0.0)) or 1.0)
