"""Quantities of circuits, and states to start from."""

from __future__ import annotations

from typing import Any

import numpy as np

import phipsi as pp
from phipsi.laws import law_operations as ops
from phipsi.laws.circuit import Quantity
from phipsi.laws.trace import Traced


def traced(name: str, *shape: int) -> Any:
    return Traced(ops.given(name, shape))


def parameter(name: str, value: Any) -> tuple[Quantity, Any]:
    found = Quantity(name, "parameter", np.shape(value), np.asarray(value, float))
    return found, Traced(found.node)


def state(name: str, value: Any) -> tuple[Quantity, Any]:
    found = Quantity(name, "state", np.shape(value), np.asarray(value, float))
    return found, Traced(found.node)


def start(model: pp.Model, count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = np.array([model.random_configuration(rng) for _ in range(count)])
    return q, 0.3 * rng.normal(size=(count, model.nv))
