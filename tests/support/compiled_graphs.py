"""Graphs of laws as machine code that is called with arrays."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from phipsi.core.arrays.graph import in_order
from phipsi.native.kernel.law_code import Area, LawCode
from phipsi.native.targets.target import MachineCode, generic_target, host_target
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import POINTER, Emitter


def compiled(results, lanes, fused, shared=()):
    """A function of packed inputs, (size, lanes) each, or (size,) for those that lanes share."""
    machine = host_target() if fused else generic_target()
    if fused and not machine.fused:
        pytest.skip("this processor has no fused operation")
    inputs = sorted(
        {x.data[0]: x for x in in_order(results) if x.operation.name == "input"}.items()
    )
    module = ir.Module()
    count = len(inputs) + len(results)
    function = ir.IRFunction(module, ir.FunctionType(ir.VOID, [POINTER] * count), "go")
    e = Emitter(lanes, fused=fused)
    e.builder = b = ir.IRBuilder(function.append_basic_block("entry"))
    given = {
        name: Area(place, name in shared)
        for (name, _), place in zip(inputs, function.args, strict=False)
    }
    code = LawCode(module, e, given, lambda size: b.alloca(e.vector, size=size))
    found: list[Any] = code.write(results)
    for x, value, place in zip(results, found, function.args[len(inputs) :], strict=True):
        for i in range(x.size):
            code.put(code.entry(value, i), Area(place), i)
    b.ret_void()
    machine_code = MachineCode(machine.object_code(str(module)), replace(machine, lanes=lanes))
    go = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(machine_code.address("go"))

    def call(given: dict[str, np.ndarray], _keep: object = machine_code) -> list[np.ndarray]:
        packed = [
            np.ascontiguousarray(given[name].reshape(x.size) if name in shared
                                 else given[name].reshape(lanes, x.size).T)
            for name, x in inputs
        ]  # fmt: skip
        out = [np.empty((x.size, lanes)) for x in results]
        go(*(a.ctypes.data for a in (*packed, *out)))
        return [a.T.reshape(lanes, *x.shape) for a, x in zip(out, results, strict=True)]

    return call
