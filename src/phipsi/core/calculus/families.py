"""Families: derivatives with respect to each degree of freedom, as one expression."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.backends import (
    CallOptions,
    Calls,
    OnError,
    Program,
    bind_arguments,
    by_name,
    check_finite,
)
from phipsi.core.calculus.directional import substitute
from phipsi.core.compiler import compile, explain
from phipsi.core.dense import evaluate_dense
from phipsi.core.expressions import PARAMETERS, Expr, check, zero
from phipsi.core.model import Model
from phipsi.core.operators import leaves_of, parse, unit_inertia, unit_rate
from phipsi.core.sweeps import Explanation
from phipsi.errors import InputError, SpaceError

Array = NDArray[Any]


class Family:
    """Derivative of an operator or vector with respect to q: one for each degree of freedom.

    `phipsi.diff` returns it. Nothing is computed until it is contracted with a direction, or
    compiled. A family that is differentiated again is one over two directions; the axis of the last
    derivative is the last.

    Parameters
    ----------
    expr : Expr
        The derivative along the directions, linear in each of them.
    *directions : Expr
        The directions, such as `dq`.

    Examples
    --------
    >>> import phipsi as pp
    >>> from phipsi.operators import mass_matrix, v
    >>> rates = pp.diff(mass_matrix, "q").contract(v)      # d/dt of the mass matrix
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.compile(rates, arm, mode="dense")([0.0, 0.5], [0.0, 1.0]).round(6).tolist()
    [[-0.479426, -0.239713], [-0.239713, 0.0]]
    >>> pp.diff(mass_matrix, "q").compile(arm)([0.0, 0.5]).shape
    (2, 2, 2)
    >>> pp.diff(pp.diff(mass_matrix, "q"), "q").compile(arm)([0.0, 0.5]).shape
    (2, 2, 2, 2)
    """

    advice = (
        "a family of derivatives has .compile(model), .evaluate_dense(model, q), .explain() itself"
    )

    def __init__(self, expr: Expr, *directions: Expr) -> None:
        self.expr, self.directions = expr, directions

    def contract(self, vector: Expr | str) -> Any:
        """The derivative along a vector of joint rates: Σ over dofs of vector × derivative.

        Of several directions, the last one is contracted; the result is a family over the others.

        Parameters
        ----------
        vector : Expr or str
            The direction, such as "v".

        Returns
        -------
        Expr or Family
            The derivative along the vector.
        """
        w = parse(vector) if isinstance(vector, str) else vector
        last = self.directions[-1]
        if not isinstance(cast(object, w), Expr):
            raise InputError(
                f"contract needs an expression such as 'v', not {type(w).__name__}. For numbers, "
                f"contract with an input:  pp.compile(family.contract({last.name!r}), model, …)"
            )
        if w.gives is not last.gives or not w.is_vector:
            raise SpaceError(
                f"the direction must be a vector of {last.gives}, but {w} is: {check.signature(w)}"
            )
        Family(self.expr, *self.directions[:-1]).check_apart(w)
        change = substitute(self.expr, {last: w})
        return Family(change, *self.directions[:-1]) if self.directions[1:] else change

    def check_apart(self, vector: Expr) -> None:
        """Reject a vector with a direction of the family in it: it would be contracted too."""
        for x in self.directions:
            if x in leaves_of(vector):
                raise InputError(
                    f"{vector} cannot be a direction here: {x} is already a direction of the "
                    "family. Use another vector of joint rates, such as 'v' or 'dvdot'"
                )

    def along(self, joint: str, i: int = 0) -> Any:
        """Derivative with respect to one degree of freedom: number i of a joint (or of a body)."""
        parameters = self.directions[-1].gives is PARAMETERS
        return self.contract(unit_inertia(joint, i) if parameters else unit_rate(joint, i))

    def compile(self, model: Model, **options: Any) -> FamilyProgram:
        """A function of the inputs that returns all derivatives, (..., out, in, nv)."""
        if not self.expr.is_vector:
            options = {"mode": "dense", **options}
        program = compile(self.expr, model, **options)
        return FamilyProgram(program, [x.name for x in self.directions])

    def evaluate_dense(
        self,
        model: Model,
        q: ArrayLike,
        v: ArrayLike | None = None,
        **named: Any,
    ) -> Array:
        """All derivatives (..., out, in, nv) by plain linear algebra; as `pp.evaluate_dense`."""
        tree = model.model
        q = np.asarray(q)
        sizes = [_count(x.name, tree) for x in self.directions]
        columns: list[Array] = []
        for index in np.ndindex(*sizes):
            units: dict[str, Any] = {
                x.name: np.eye(n)[i].reshape(_core(x.name, tree))
                for x, n, i in zip(self.directions, sizes, index, strict=True)
            }
            columns.append(evaluate_dense(self.expr, model, q, v, **named, **units))
        if not columns:
            shape = evaluate_dense(
                zero(self.expr.takes, self.expr.gives), model, q, v, **named
            ).shape
            return np.zeros((*shape, *sizes))
        whole = np.stack(columns, axis=-1)
        return whole.reshape(*whole.shape[:-1], *sizes)

    def explain(self, model: Model | None = None, **options: Any) -> Explanation:
        """How the derivative along the directions is computed; arguments as `pp.explain`."""
        return explain(self.expr, model, **options)

    def __repr__(self) -> str:
        return f"<Family over {', '.join(map(str, self.directions))}: {self.expr}>"


class FamilyProgram:
    """A compiled family; call it with the inputs in the order of `inputs`, batched as programs."""

    def __init__(self, program: Program, directions: Sequence[str]) -> None:
        self.program, self.directions = program, tuple(directions)
        self.inputs = tuple(n for n in program.inputs if n not in self.directions)

    def __repr__(self) -> str:
        over = ", ".join(self.directions)
        return f"<FamilyProgram over {over}: ({', '.join(self.inputs)})>"

    def __call__(
        self, *args: Any, threads: int = 1, on_error: OnError = "raise", **named: Any
    ) -> Any:
        """All derivatives, (..., out, in, nv): a batch over the unit directions."""
        values = by_name(self.inputs, args, named)
        options: CallOptions = {"threads": threads, "on_error": on_error}
        return along_units(self.program, values, *self.directions, **options)


def along_units(
    program: Program,
    values: Mapping[str, Any],
    *directions: str,
    units: Array | None = None,
    **options: Unpack[CallOptions],
) -> Any:
    """The results of a program for every unit vector of some of its inputs, on the last axes.

    The directions join the batch as one flat axis, so that all lanes of the machine are busy. It
    is linear in each of them, so zero if one does not occur. For one direction other vectors than
    units may be given, (count, nv).
    """
    model, shapes = program.model, program.input_shapes
    counts = [_count(name, model) for name in directions] if units is None else [len(units)]
    here = [name for name in directions if name in program.inputs]
    still = {name: np.zeros(shapes[name]) for name in here}
    arrays, batch = bind_arguments(program.source, (), {**values, **still})
    calls = Calls(options)
    if calls.raises:
        check_finite(program.source, arrays)
    if len(here) < len(directions):
        one = np.asarray(calls(program, *(arrays[name] for name in program.inputs)))
        return calls.finish(np.zeros((*one.shape, *counts), one.dtype))
    size, many = math.prod(batch), math.prod(counts)
    steps = np.indices(counts).reshape(len(counts), -1)
    flat: dict[str, Array] = {}
    for name, count, step in zip(directions, counts, steps, strict=True):
        along = np.eye(count) if units is None else units
        vectors = along[step].reshape(many, *shapes[name])
        flat[name] = np.concatenate([vectors] * size) if size else vectors[:0]
    for name in program.inputs:
        if name not in flat:
            x = arrays[name]
            tail = x.shape[x.ndim - len(shapes[name]) :]
            whole = np.broadcast_to(x, (*batch, *tail)).reshape(size, *tail)
            flat[name] = np.repeat(whole, many, axis=0)
    inputs = [flat[name] for name in program.inputs]
    if not calls.raises:  # every element of the batch has one status
        inputs = [x.reshape(*batch, many, *x.shape[1:]) for x in inputs]
    out = np.asarray(calls(program, *inputs, extra=1))
    out = out.reshape(*batch, many, *out.shape[1:]) if calls.raises else out
    out = np.moveaxis(out, len(batch), -1)
    return calls.finish(out if len(counts) == 1 else out.reshape(*out.shape[:-1], *counts), batch)


def _count(direction: str, model: Model) -> int:
    return math.prod(_core(direction, model))


def _core(direction: str, model: Model) -> tuple[int, ...]:
    return (model.n_bodies, 10) if direction == "dinertia" else (model.nv,)
