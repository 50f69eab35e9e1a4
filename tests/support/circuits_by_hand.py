"""Circuits built by hand, node by node, for tests of runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import phipsi as pp
from phipsi.core.arrays import law_operations as ops
from phipsi.core.arrays.trace import Tracer, as_node
from phipsi.laws.block_diagram import BlockDiagram, Quantity, Sampling

H = 2e-3


def traced(name: str, *shape: int) -> Any:
    return Tracer(ops.input(name, shape))


def parameter(name: str, value: Any) -> tuple[Quantity, Any]:
    found = Quantity(name, "parameter", np.shape(value), np.asarray(value, float))
    return found, Tracer(found.node)


def state(name: str, value: Any) -> tuple[Quantity, Any]:
    found = Quantity(name, "state", np.shape(value), np.asarray(value, float))
    return found, Tracer(found.node)


def start(model: pp.Model, count: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = np.array([model.random_configuration(rng) for _ in range(count)])
    return q, 0.3 * rng.normal(size=(count, model.nv))


def laws_with_everything(nv: int) -> BlockDiagram:
    """A filtered spring, a sampled integrator that is held, and a spring with parameters."""
    k, stiffness = parameter("spring.k", 0.7)
    filtered, x = state("filter.x", np.zeros(nv))
    held, u = state("sampled.u", np.zeros(nv))
    total, s = state("sampled.sum", np.zeros(nv))
    v = traced("v", nv)
    return BlockDiagram(
        {"spring.k": k, "filter.x": filtered, "sampled.u": held, "sampled.sum": total},
        efforts=as_node(-stiffness * x + u),
        rates={"filter.x": as_node((v - x) * 40.0)},
        samplings=(
            Sampling(3, {"sampled.u": as_node(-0.1 * s), "sampled.sum": as_node(s + 0.01 * v)}),
        ),
        records={"filtered": as_node(x * 2.0)},
    )
