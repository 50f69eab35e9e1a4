"""What the numbers of simulators, models and programs depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from phipsi.core.backends import Program
from phipsi.core.model import Model
from phipsi.simulation import Simulator


def simulator_digest(simulator: Simulator, record: Sequence[str]) -> str:
    """Everything that the numbers of a simulator depend on."""
    plan = simulator.compiled.plan((), tuple(dict.fromkeys(("t", *record))))
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


def known_parts(x: Any) -> Any:
    """What the numbers of an object depend on that holds machine code or caches, or None."""
    if isinstance(x, Simulator):
        return simulator_digest(x, ("q", "v")), x.dt, x.integrator
    if isinstance(x, Program):
        return repr(x), x.request, x.model
    if isinstance(x, Model):
        return x.to_dict()
    return None
