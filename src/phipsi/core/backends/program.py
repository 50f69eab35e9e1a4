"""Program: a compiled expression that can be called like a function, on batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from phipsi.core.backends.arguments import (
    bind_arguments,
    by_name,
    check_finite,
    check_shapes,
    check_symmetric,
    of_bad_inputs,
    warn_of_quaternions,
)
from phipsi.core.backends.array_algebra import result_dtype
from phipsi.core.backends.backend import (
    Array,
    Arrays,
    Backend,
    Loaded,
    SweepProgram,
    backend_of,
    never,
)
from phipsi.core.backends.errors_from_status import (
    CONTRADICTION,
    DOUBTFUL,
    is_failure,
    warn_of_doubts,
)
from phipsi.core.backends.options import CallOptions, check_on_error, flat, in_order, store
from phipsi.core.backends.reference import error_at
from phipsi.core.model import whole_number
from phipsi.core.rewrite import Rewriting
from phipsi.core.sweeps import PlanCost
from phipsi.errors import InputError, true_or_false
from phipsi.package_state import display
from phipsi.views import view

if TYPE_CHECKING:
    from phipsi.core.sweeps import Explanation

Resolve = Callable[[dict[str, Array]], tuple[Sequence[Array], Array]]
"""Inputs (n, …) of doubtful elements → their results, and a status for each."""
_RAISE, _ONE = "raise", 1
"""The defaults. Python has one object of each, and others take the longer way."""


class Program:
    """A compiled program for one model; `phipsi.compile` returns it.

    Call it with its `inputs` in order, or by keyword; leading axes are batches and broadcast. The
    result is an array, or a tuple of arrays if several expressions were compiled.

    Parameters
    ----------
    source : SweepProgram
        The scheduled sweeps for the model.
    rewriting : Rewriting
        The rules that were applied.
    backend : Backend
        Where the program runs; the reference backend if this one does not accept it.
    plans : tuple of PlanCost, optional
        The costs of all forms that were compared.

    Attributes
    ----------
    inputs : tuple of str
        Names of the inputs, in order.
    model : Model
        The mechanism.
    steps : list
        The scheduled sweeps.
    plans : tuple of PlanCost
        The costs of all forms that were compared, this one first.
    backend : str
        "native", or "reference" for programs without machine code.
    direct : callable
        The shortest way for one configuration in plain arrays; returns None for anything else.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> solve = pp.compile("mass_matrix^-1 tau", arm)
    >>> solve.inputs, solve([0.0, 0.5], [1.0, 0.0]).shape
    (('q', 'tau'), (2,))
    """

    def __init__(
        self,
        source: SweepProgram,
        rewriting: Rewriting,
        backend: Backend,
        plans: tuple[PlanCost, ...] = (),
    ) -> None:
        self.source, self.rewriting, self.plans = source, rewriting, plans
        self.request, self.lowered = source.request, source.lowered
        self.model, self.steps, self.inputs = source.model, source.steps, source.inputs
        self._runs_in = backend if backend.accepts(source) else backend_of("reference")
        self.backend = self._runs_in.name
        self.resolve: Resolve | None = None  # for elements whose constraint rows are in doubt
        self._unload()
        _ = source.picks  # unknown names are rejected here

    def __getstate__(self) -> dict[str, Any]:
        """Without the machine code, which is compiled again where it is needed."""
        left = ("_loaded", "_lock", "direct", "_quick", "resolve")
        return {k: v for k, v in vars(self).items() if k not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.resolve = None
        self._unload()

    def _unload(self) -> None:
        self._loaded: Loaded | None = None
        self._lock = Lock()
        self.direct: Callable[..., Any] = self._first
        self._quick: Callable[..., Any] = self._first

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Trailing shape of every input; −1 is an arbitrary number of columns."""
        return self.source.input_shapes

    @property
    def loaded(self) -> Loaded:
        """The program as its backend runs it, loaded when it is first needed."""
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = self._runs_in.load(self.source)
        return self._loaded

    @property
    def native(self) -> Any:
        """The `NativeCode`, compiled when it is first needed; None for the reference backend."""
        return self.loaded.code

    @property
    def with_status(self) -> Callable[..., tuple[Any, ...]]:
        """One configuration → the results and a status, 0 for success; raises nothing."""
        if self.native is not None:
            return self.native.one

        def masked(*inputs: Any) -> tuple[Any, ...]:
            found, status = self(*inputs, on_error="nan")
            return (*in_order(found), int(status))

        return masked

    @property
    def ufunc(self) -> Any:
        """The NumPy gufunc of the machine code; its last output is a status per element."""
        native = self.native
        if native is None:
            raise InputError(f"{self!r} runs on the {self.backend} backend, which has no gufunc")
        return native.ufunc

    _repr_html_ = display

    def __repr__(self) -> str:
        what = ", ".join(str(x) for x in self.request.expressions)
        sweeps = len(self.source.sweeps())
        plural = "" if sweeps == 1 else "s"
        return f"<Program {what}: ({', '.join(self.inputs)}) in {sweeps} sweep{plural}>"

    def explain(
        self, *, latex: bool = False, plan: bool = False, meanings: bool = False
    ) -> Explanation:
        """The rewrites, the sweeps and the recursion of this program; see `phipsi.explain`."""
        from phipsi.core.sweeps import explain_steps

        latex, plan = true_or_false("latex", latex), true_or_false("plan", plan)
        meanings = true_or_false("meanings", meanings)
        return explain_steps(
            self.request.expressions,
            self.rewriting,
            self.steps,
            self.lowered.fields,
            self.model,
            latex=latex,
            plans=self.plans if plan else (),
            meanings=meanings,
        )

    def export(
        self, folder: Any, *, name: str = "robot", target: str = "host", **options: Any
    ) -> Any:
        """Generate C-callable code of the program; see `phipsi.export`.

        >>> import tempfile
        >>> import phipsi as pp
        >>> arm = pp.examples.planar_arm(2)
        >>> solve = pp.compile(pp.operators.mass_matrix.inv, arm, mode="dense")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     solve.export(folder + "/arm", name="arm", target="riscv64").functions[0].name
        'arm_mass_matrix_inverse'
        """
        return view("export")(self, folder, name=name, target=target, **options)

    def __call__(
        self,
        *args: Any,
        out: Any = None,
        threads: int = 1,
        on_error: str = "raise",
        **named: Any,
    ) -> Any:
        """Evaluate the program.

        Parameters
        ----------
        *args : array_like
            The inputs in order, with batches on leading axes.
        out : ndarray or tuple of ndarray, optional
            Arrays to write the results to.
        threads : int, optional
            Number of threads that share a large batch. Default: 1.
        on_error : {"raise", "nan", "best"}, optional
            What happens if elements of the batch fail. "raise": an exception. "nan": their results
            are NaN, and ``(result, status)`` is returned; the status is 0 for success, and its last
            three bits are 6, with the number of a row, if constraint rows are nearly dependent.
            "best": the same with the numbers as computed. Default: "raise".
        **named : array_like
            Inputs by name.

        Returns
        -------
        ndarray or tuple of ndarray
            The result; a tuple if several expressions were compiled.
        """
        if threads is not _ONE:
            threads = whole_number("threads", threads)
        if not named and on_error is _RAISE:
            if out is None and threads is _ONE:
                answer = self.direct(*args)
                if answer is not None:
                    return answer
            try:
                answer = self._quick(args, threads, out)
            except InputError:
                if not _has_traced(args):
                    raise
                return _recorded(self, args, named)
            if answer is not None:
                return answer
        if _has_traced((*args, *named.values())):
            return _recorded(self, args, named)
        check_on_error(on_error)
        arrays, batch = bind_arguments(self.source, args, named)
        if on_error == "raise":
            check_finite(self.source, arrays)
        check_symmetric(self.source, arrays)
        real = result_dtype(list(arrays.values())) == np.float64
        loaded = self.loaded if real or self._runs_in.any_numbers else self._reference
        results, status = loaded.run(arrays, batch, threads)
        if on_error != "raise":
            status = of_bad_inputs(self.source, arrays, batch, status)
        status = self._solved_again(arrays, batch, results, status, real, on_error)
        if status.any():
            if on_error == "raise":
                raise error_at(self.source, arrays, batch, status)
            if on_error == "nan":
                for a in flat(results):
                    a[is_failure(status)] = np.nan
        results = store(results, out, self.request.single)
        answer = results[0] if self.request.single else tuple(results)
        return answer if on_error == "raise" else (answer, status)

    def evaluate(self, args: tuple[Any, ...], options: CallOptions) -> Any:
        """A call with the options of a named function, which mostly are none."""
        if not options:
            answer = self.direct(*args)
            if answer is not None:
                return answer
        return self(*args, **options)

    def fast(self, *args: Any) -> Any:
        """The result for plain arrays; None for other arguments, or if an element fails.

        For callers that can fall back to ``program(…)``, which explains errors.

        Parameters
        ----------
        *args : ndarray
            The inputs in order.

        Returns
        -------
        ndarray, tuple of ndarray or None
            The result.
        """
        if self._loaded is None:
            self._first()
        answer = self.direct(*args)
        return self._quick(args, 1, None) if answer is None else answer

    def _first(self, *args: Any) -> None:
        """The first call: load the program; later calls use its shortcuts, and check less."""
        if args and self.inputs[0] == "q":
            warn_of_quaternions(self.model, args[0])
        loaded = self.loaded
        short = loaded.code is not None or not self.source.symmetric_inputs  # which it checks
        self.direct = loaded.direct if short else never
        self._quick = loaded.quick if short else never
        if short and loaded.later is not None:
            self._quick = self._until_direct(ref(self), loaded)

    @staticmethod
    def _until_direct(program: ref[Program], loaded: Loaded) -> Callable[..., Any]:
        """`loaded.quick`, until one configuration was asked for: from then on there is `direct`."""

        def quick(args: tuple[Any, ...], threads: Any, out: Any) -> Any:
            answer = loaded.quick(args, threads, out)
            direct = loaded.later() if loaded.later is not None else None
            this = program()
            if direct is not None and this is not None:
                this.direct, this._quick = direct, loaded.quick
            return answer

        return quick

    @property
    def _reference(self) -> Loaded:
        """For number types that the backend does not support."""
        return backend_of("reference").load(self.source)

    def _solved_again(
        self,
        arrays: Arrays,
        batch: tuple[int, ...],
        results: list[Any],
        status: Array,
        real: bool,
        on_error: str,
    ) -> Array:
        """The status after elements whose rows are in doubt got their results from `resolve`.

        Without it they keep their results, with a warning or with their status.
        """
        code = status % 8
        doubtful = (code == DOUBTFUL) | (code == CONTRADICTION)
        if not doubtful.any():
            return status
        if self.resolve is None or not real:
            if on_error != "raise":
                return status
            if (code == DOUBTFUL).any():
                warn_of_doubts(status, self.source.closures)
            return np.where(code == DOUBTFUL, 0, status)
        given = {n: a[doubtful] for n, a in self.source.widened(arrays, batch).items()}
        found, verdict = self.resolve(given)
        for whole, part in zip(results, found, strict=True):
            whole[doubtful] = part
        out = np.array(status)
        out[doubtful] = verdict
        return out


def _has_traced(values: Sequence[Any]) -> bool:
    """Whether one of the arguments is a traced value of a law; there are none before laws."""
    laws = sys.modules.get("phipsi.core.arrays.program_calls")
    return laws is not None and laws.has_traced(values)


def _recorded(program: Program, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """The results as further traced values; shapes are checked as those of numbers are."""
    from phipsi.core.arrays import as_node, recorded_call

    operands = {n: as_node(x) for n, x in by_name(program.inputs, args, named).items()}
    batch, _ = check_shapes(program.source, {n: x.shape for n, x in operands.items()})
    return recorded_call(program, operands, batch)
