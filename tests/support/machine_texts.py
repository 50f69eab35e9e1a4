"""Texts for machines, run on arrays and compiled as functions of lanes."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from phipsi.core.machine.array_machine import ArrayMachine
from phipsi.core.machine.machine import Machine
from phipsi.native import custom_kernel
from phipsi.native.lane_machine import LaneMachine
from phipsi.native.targets.target import target_for

Shapes = Mapping[str, tuple[int, ...]]
Text = Callable[[Machine, Mapping[str, Any], Mapping[str, Any]], None]


def on_arrays(
    text: Text, inputs: Mapping[str, np.ndarray], results: Shapes, **options: bool
) -> dict[str, np.ndarray]:
    """Results (lanes, …) by name, and the status of every lane."""
    m = ArrayMachine(len(next(iter(inputs.values()))), **options)
    out = {name: m.array(*shape) for name, shape in results.items()}
    with np.errstate(all="ignore"):
        text(m, {name: m.input(x) for name, x in inputs.items()}, out)
    return {name: x.lanes_first() for name, x in out.items()} | {"status": m.status}


def in_lanes(
    text: Text,
    inputs: Mapping[str, np.ndarray],
    results: Shapes,
    monkeypatch: pytest.MonkeyPatch,
    *,
    fused: bool,
) -> Callable[[Mapping[str, np.ndarray]], dict[str, Any]]:
    """The same as a function of inputs, compiled with or without fma."""
    target = target_for(reproducible=not fused)
    monkeypatch.setattr(custom_kernel, "host_target", lambda: target)  # asked again when it is run
    shapes = {name: x.shape[1:] for name, x in inputs.items()}

    def write(kernel: custom_kernel.LaneKernel) -> None:
        m = LaneMachine(kernel)
        given = {name: m.memory(kernel.inputs[name], *s) for name, s in shapes.items()}
        text(m, given, {name: m.memory(kernel.results[name], *s) for name, s in results.items()})

    key = f"{inspect.getsource(text)} {shapes} {results} {fused}"  # so that no older code is found
    function = custom_kernel.CustomKernel(key, (), shapes, results, write)

    def run(values: Mapping[str, np.ndarray]) -> dict[str, Any]:
        return dict(zip((*results, "status"), function.ufunc(*values.values()), strict=True))

    return run
