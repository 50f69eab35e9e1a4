"""Numbers that exported functions are compared with: by test programs, and in single precision.

A test program has inputs and results at a few states. The accuracy of functions in single precision
is measured at a hundred random states before they are exported, against double precision.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from phipsi.codegen.exported_module import (
    Accuracy,
    ExportedFunction,
    FunctionSource,
    exported_module,
)
from phipsi.codegen.exported_step import exported_step
from phipsi.core.backends import SweepProgram, backend_of, is_failure
from phipsi.errors import SimulationError
from phipsi.native import MachineCode, Target, host_target
from phipsi.simulation import Simulator

_STATES, _STEPS = 4, 3  # of a test program
_ASSEMBLED = 8  # random configurations from which constraints are closed
_MEASURED = 100  # states at which errors are measured
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class ReferenceResults:
    """Inputs and results of a function at a few states, for the test program.

    `tolerance` is what results may differ by, relative to the largest number.
    """

    function: ExportedFunction
    inputs: list[np.ndarray]
    results: list[np.ndarray]
    tolerance: float

    @property
    def count(self) -> int:
        """How many states."""
        return len([*self.inputs, *self.results][0])


def program_reference(function: ExportedFunction, source: SweepProgram) -> ReferenceResults | None:
    """Inputs and results at a few states, by the backend that defines every operation.

    `tolerance` comes from the change of the results with the last digits of the inputs.
    """
    rng = np.random.default_rng(0)
    inputs = {n: _drawn(n, source, rng, _STATES) for n in source.inputs}
    if function.accuracy is not None:  # of single precision: inputs that floats can hold
        inputs = {n: a.astype(np.float32).astype(np.float64) for n, a in inputs.items()}
    loaded = backend_of("reference").load(source)
    results, status = loaded.run(inputs, (_STATES,), 1)
    good = ~is_failure(np.asarray(status))
    for a in results:
        good &= np.isfinite(a.reshape(_STATES, -1)).all(axis=1)
    if not good.any():
        return None
    nudged = {n: a * (1 + 4e-15) for n, a in inputs.items()}
    others, _ = loaded.run(nudged, (_STATES,), 1)
    worst = _TOLERANCE
    for a, b in zip(results, others, strict=True):
        for x, y in zip(a[good], b[good], strict=True):
            size = np.max(np.abs(x), initial=0.0)
            worst = max(worst, 1e3 * np.max(np.abs(x - y), initial=0.0) / size if size else 0.0)
    if function.accuracy is not None:
        worst = max(1e-5, 4 * function.accuracy.largest)
    kept = [[a[good] for a in arrays] for arrays in (inputs.values(), results)]
    return ReferenceResults(function, kept[0], kept[1], float(worst))


def step_reference(simulator: Simulator, function: ExportedFunction) -> ReferenceResults | None:
    """States before and after one step, each after the one before; None if no start is found."""
    rng = np.random.default_rng(0)
    model = simulator.model
    found = None
    for start in _starts(simulator, rng):
        try:
            state = simulator.initial_state(start())
            values: list[Mapping[str, np.ndarray]] = [_numbers(state.arrays())]
            for _ in range(_STEPS):
                simulator.step(state)
                values.append(_numbers(state.arrays()))
        except (ArithmeticError, ValueError, SimulationError):
            continue
        found = values, state
        break
    if found is None:
        return None
    values, state = found
    plan = simulator.compiled.plan()
    states = [np.array([x[n].ravel() for x in values]) for n in plan.states]
    counter = np.arange(_STEPS + 1.0)[:, None]
    tau = np.zeros((_STEPS, model.nv))
    shared = [
        np.array([np.asarray(state.shared[n], dtype=float).ravel()] * _STEPS) for n in plan.shared
    ]
    before = [*(x[:-1] for x in states), counter[:-1], tau, *shared]
    after = [*(x[1:] for x in states), counter[1:]]
    assert all(x.shape[1] == a.count for x, a in zip(before, function.inputs, strict=True))
    if function.accuracy is not None:  # of single precision: inputs that floats can hold
        before = [x.astype(np.float32).astype(float) for x in before]
        return ReferenceResults(function, before, after, max(1e-5, 4 * function.accuracy.largest))
    return ReferenceResults(function, before, after, 1e-9)


def _starts(simulator: Simulator, rng: np.random.Generator) -> Iterator[Callable[[], np.ndarray]]:
    """Functions that return configurations to begin with, on the constraints if there are any."""
    step = simulator.compiled
    model, mechanism = step.model, cast(Any, step.mechanism)  # a system if it has rows
    if not mechanism.n_rows:
        yield lambda: model.random_configuration(rng)
        return
    yield model.neutral
    for _ in range(_ASSEMBLED):
        yield lambda: mechanism.assemble(model.random_configuration(rng))


# ---- single precision ----------------------------------------------------------------------------


def with_accuracy(f: ExportedFunction, source: Any, target: Target) -> ExportedFunction:
    """With the accuracy of single precision; `source` of a program, or the simulator of a step."""
    if not isinstance(source, FunctionSource):
        return replace(f, accuracy=_step_accuracy(source, target))
    rng, program = np.random.default_rng(1), source.program
    inputs = {n: _drawn(n, program, rng, _MEASURED) for n in program.inputs}
    return replace(f, accuracy=_measured_accuracy(source, target, inputs))


def _measured_accuracy(
    source: FunctionSource, target: Target, inputs: Mapping[str, np.ndarray]
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


def _step_accuracy(simulator: Any, target: Target) -> Accuracy | None:
    """The errors of one step from random states, with those of rounding the states."""
    found = _states_around_a_step(simulator, _MEASURED)
    if found is None:
        return None
    before, after = found
    host = _here(target)
    module = exported_module([], host, batch=False, more=[exported_step(simulator, host, "robot")])
    arrays = [np.array(a, dtype=np.float32, order="C") for a in before]
    return _compared(host, module, arrays, dict(enumerate(after)), np.ones(_MEASURED, dtype=bool))


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


# ---- states --------------------------------------------------------------------------------------


def _drawn(name: str, source: SweepProgram, rng: np.random.Generator, count: int) -> np.ndarray:
    """Some values of an input."""
    model, shape = source.model, source.input_shapes[name]
    if name == "q":
        return np.array([model.random_configuration(rng) for _ in range(count)])
    if name == "gravity":
        return np.array([model.gravity] * count, dtype=float)
    if name in ("pose", "placement"):
        out = np.zeros((count, *shape))
        out[...] = np.eye(4)
        out[..., :3, 3] = rng.standard_normal((count, shape[0], 3))
        return out
    x = rng.standard_normal((count, *shape))
    if name in source.symmetric_inputs:
        x = x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])
    return x


def _states_around_a_step(
    simulator: Simulator, count: int
) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
    """Inputs and results of a step at random states; None if the simulator cannot be started."""
    rng, model, step = np.random.default_rng(1), simulator.model, simulator.compiled
    try:
        q = np.array([model.random_configuration(rng) for _ in range(count)])
        state = simulator.initial_state(q, rng.standard_normal((count, model.nv)))
        tau = rng.standard_normal((count, model.nv))
        arrays = state.arrays()
        old = {n: arrays[n].reshape(count, *x.shape) for n, x in step.states.items()}
        new = step.evaluate(old, tau)
    except (ArithmeticError, ValueError):
        return None
    plan = step.plan()
    shared = [
        np.broadcast_to(np.ravel(state.shared[n]), (count, plan.ports[n])) for n in plan.shared
    ]
    counter = np.zeros((count, 1))
    before, after = ([x[n].reshape(count, -1) for n in plan.states] for x in (old, new))
    return [*before, counter, tau, *shared], [*after, counter + 1]


def _numbers(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.array(x, dtype=float) for name, x in arrays.items()}
