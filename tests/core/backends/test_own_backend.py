"""A backend of somebody else's: a class of a few lines, given to `compile`."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any, final

import numpy as np
import pytest

import phipsi as pp
from phipsi.core.backends.backend import Arrays, Backend, Loaded, SweepProgram, backend_of
from phipsi.errors import InputError, SingularHingeError
from phipsi.operators import H, mass_matrix, phi, tau, v

MODEL = pp.examples.planar_arm(3)


@final
class Counting(Backend):
    """Counts the operations of every program, and lets the reference do them."""

    name = "counting"

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()

    def load(self, program: SweepProgram) -> Loaded:
        """Count, and run."""
        reference = backend_of("reference").load(program)

        def run(arrays: Arrays, batch: tuple[int, ...], threads: int) -> Any:
            self.operations.update(x.op for step in program.steps for x in step.fields)
            return reference.run(arrays, batch, threads)

        return Loaded(run)


@final
class Picky(Backend):
    """Takes nothing."""

    name = "picky"

    def accepts(self, program: SweepProgram) -> bool:
        """Never."""
        return False

    def load(self, program: SweepProgram) -> Loaded:
        """Not reached."""
        raise AssertionError


def test_it_compiles_and_runs_through_the_public_door():
    counting = Counting()
    program = pp.compile(mass_matrix.inv @ tau, MODEL, backend=counting)
    assert program.backend == "counting" and not counting.operations
    q = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    want = pp.compile(mass_matrix.inv @ tau, MODEL, backend="reference")(q, np.ones(3))
    np.testing.assert_array_equal(program(q, np.ones(3)), want)
    once = Counter(counting.operations)
    assert once["up"] and once["down"] and once["rec"]
    program(q, tau=np.ones(3), threads=2)
    assert counting.operations == once + once
    assert pp.compile(mass_matrix.inv @ tau, MODEL, backend=counting) is program
    assert pp.compile(mass_matrix.inv @ tau, MODEL, backend=Counting()) is not program


def test_numbers_that_it_does_not_know_go_to_the_reference():
    counting = Counting()
    program = pp.compile(phi.T @ H.T @ v, MODEL, backend=counting)
    q = np.zeros(3)
    assert program(q, 1j * np.ones(3)).dtype == np.complex128 and not counting.operations
    assert program(q, np.ones(3)).dtype == np.float64 and counting.operations


def test_failures_are_explained():
    model = pp.examples.planar_arm(2)
    weightless = model.inertia_matrices * 0
    program = pp.compile(mass_matrix.inv, model, inputs=("M",), backend=Counting())
    with pytest.raises(SingularHingeError, match="has no inertia to move"):
        program(np.zeros(2), weightless, np.ones(2))
    _, status = program(np.zeros(2), weightless, np.ones(2), on_error="nan")
    assert status % 8 == 1


def test_what_it_does_not_take_runs_on_the_reference():
    program = pp.compile(mass_matrix, MODEL, mode="dense", backend=Picky())
    assert program.backend == "reference" and program(np.zeros(3)).shape == (3, 3)


def test_it_travels_with_its_programs():
    program = pp.compile(mass_matrix @ v, MODEL, backend=Counting())
    before = program(np.zeros(3), np.ones(3))
    again = pickle.loads(pickle.dumps(program))
    np.testing.assert_array_equal(again(np.zeros(3), np.ones(3)), before)
    assert again.backend == "counting"


@pytest.mark.parametrize("wrong", ["fast", 3, Counting])
def test_others_are_rejected(wrong: Any):
    with pytest.raises(InputError, match=r"is not one of \('native', 'reference'\)"):
        pp.compile(mass_matrix, MODEL, backend=wrong)


def test_a_class_is_not_an_object():
    with pytest.raises(InputError, match=r"Pass an instance:  Counting\(\)"):
        pp.compile(mass_matrix, MODEL, backend=Counting)  # type: ignore[arg-type]
