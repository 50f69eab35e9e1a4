"""Programs in single precision: their accuracy, measured before they are exported."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from phipsi.backends.backend import backend_of
from phipsi.backends.failures import is_failure
from phipsi.backends.native.targets.target import MachineCode, Target, host_target
from phipsi.exporting.module import Accuracy, Source, exported_module

STATES = 100  # at which errors are measured


def measured_accuracy(
    source: Source, target: Target, inputs: Mapping[str, np.ndarray]
) -> Accuracy | None:
    """The errors of a function at inputs (n, …) against double precision; None without any result.

    The code that is measured runs here; it has fused operations if the target and this processor
    have them. Both sides get the same rounded inputs.
    """
    host = host_target()
    host = replace(host, lanes=1, number="float", fused=target.fused and host.fused)
    module = exported_module([source], host, batch=False)
    (function,) = module.functions
    code = MachineCode(host.object_code(module.text), host)
    given = [np.array(a, dtype=np.float32, order="C") for a in inputs.values()]
    count = len(given[0])
    wide = {n: a.astype(np.float64) for n, a in zip(inputs, given, strict=True)}
    exact, status = backend_of("reference").load(source.program).run(wide, (count,), 1)
    exact = [np.asarray(a, dtype=np.float64).reshape(count, -1) for a in exact]
    fine = ~is_failure(np.asarray(status))
    for a in exact:
        fine &= np.isfinite(a).all(axis=1)
    kinds = [ctypes.c_void_p] * (len(given) + len(exact) + 1)
    call = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(code.address(function.name))
    work = np.zeros(function.work_bytes + 16, dtype=np.uint8)
    errors, failed = list[float](), 0
    for i in np.flatnonzero(fine):
        found = [np.empty(a.shape[1], dtype=np.float32) for a in exact]
        arrays = (*(a[i] for a in given), *found, work)
        if call(*(a.ctypes.data for a in arrays)):
            failed += 1
            continue
        errors.append(max(_error(x, y[i]) for x, y in zip(found, exact, strict=True)))
    if not fine.any():
        return None
    known = errors or [np.inf]
    return Accuracy(float(np.median(known)), max(known), int(fine.sum()), failed)


def _error(found: np.ndarray, exact: np.ndarray) -> float:
    """Of the largest number of a result."""
    gap = float(np.max(np.abs(found - exact), initial=0.0))
    return gap / (float(np.max(np.abs(exact), initial=0.0)) or 1.0)
