"""The state of a proof: one mechanism with exact numbers, for the checks of theorems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from phipsi.core.backends import body_slices, evaluate
from phipsi.core.compiler import compile
from phipsi.core.dense import DenseEvaluator, arranged, check_expression
from phipsi.core.expressions import GENERAL, MOTIONS, ONE, Expr, Row, leaf, space_size
from phipsi.core.model import ClosureSet, Model, PointSet
from phipsi.core.operators import DIRECTIONS, INPUT_ORDER, parse
from phipsi.papers.proofs.digits import STEP, Digits
from phipsi.papers.proofs.exact_mechanism import Draw, ExactMechanism

Array = NDArray[Any]

any_motion = leaf(
    Row(
        name="any_motion",
        symbol="x",
        latex="x",
        takes=ONE,
        gives=MOTIONS,
        structure=GENERAL,
        meaning="any vector of body motions; a proof draws it at random",
    )
)

POINTS = 3
_KEPT = 2**15  # numbers: of one body-space matrix, in all evaluations that a state keeps
_ARGUMENTS = INPUT_ORDER
INVERSE_DYNAMICS = parse("mass_matrix vdot + H phi (M phi* (a + gravity) + b + B f0)")
FORCES = frozenset({"f0", "f_ext"})
_TAU, _OF_F0, _OF_F_EXT = parse("tau"), parse("H phi B f0"), parse("H phi f_ext")


def drawing(kind: Any, rng: np.random.Generator) -> Draw:
    """A function that draws arrays of random numbers of a kind."""

    def draw(*shape: int) -> Array:
        if kind is Digits:
            return Digits.of(rng.normal(size=shape))
        return kind.of(rng.integers(0, kind.prime, shape).astype(float))

    return draw


class ProofState:
    """One mechanism in one state; everything that is not given is random.

    `given` has values of inputs by name, and perhaps points; `hosts` are the bodies that points are
    drawn on, or `points` those of a program, whose frames are drawn with the mechanism. The efforts
    tau are those of the equations of motion for vdot and f0, unless they are given. The forces
    f_ext are random too, and not in these equations; `with_forces` chooses the forces that act.
    """

    def __init__(
        self,
        mechanism: ExactMechanism,
        seed: tuple[int, ...],
        closures: ClosureSet | None = None,
        given: Mapping[str, Any] | None = None,
        hosts: Sequence[int] | None = None,
        points: PointSet | None = None,
    ) -> None:
        self.model, self._plain = cast(Model, mechanism), mechanism.plain
        self.kind, self._seed = mechanism.kind, seed
        rng = np.random.default_rng((*seed, 0))
        self.rng = rng
        self.random = draw = drawing(self.kind, rng)
        n, nv = mechanism.n_bodies, mechanism.nv
        known = {name: self.kind.of(x) for name, x in (given or {}).items() if name in _ARGUMENTS}

        def value(name: str, *shape: int) -> Array:
            return known[name] if name in known else draw(*shape)

        self.q, self.v, self.vdot = value("q", mechanism.nq), value("v", nv), value("vdot", nv)
        if closures is not None:
            self.points = replace(mechanism.frames(closures.points), closures=closures)
        elif points is not None:
            self.points = mechanism.frames(points)
        elif given and "points" in given:
            self.points = self._points(given["points"])
        else:
            at = rng.integers(n, size=POINTS) if n and hosts is None else hosts or []
            self.points = self._points([(mechanism.body_names[int(k)], draw(3)) for k in at])
        self.f0, self.f_ext = value("f0", len(self.points), 6), value("f_ext", n, 6)
        self.Udot = value("Udot", 0 if closures is None else closures.n_rows)
        self.free = known.get("free", self.kind.of(rng.integers(2, size=nv).astype(float)))
        rows = space_size(MOTIONS, self.model, self.points)
        self._free = {any_motion: draw(rows)}
        self.dq, self.dv, self.dvdot, self.dtau = (value(name, nv) for name in DIRECTIONS)
        self.dinertia = value("dinertia", n, 10)
        self.any_efforts = draw(nv)
        self._columns: dict[int, Array] = {}
        self.memo: dict[Any, Any] = {}
        self._elsewhere: dict[tuple[tuple[str, bytes], ...], DenseEvaluator] = {}
        self._values = self._with({})  # an expression of tau would be an error so far
        self._has_own_efforts = "tau" in known
        self.tau = known["tau"] if "tau" in known else self.dense(INVERSE_DYNAMICS)
        self._values.at.arguments["tau"] = self.tau

    def fresh(self) -> ProofState:
        """This state with new random numbers, the same for every proof."""
        again = copy(self)
        again.rng = np.random.default_rng((*self._seed, 1))
        again.random = drawing(self.kind, again.rng)
        return again

    def _points(self, named: Sequence[Any]) -> PointSet:
        of = self.kind.of
        rotations = [np.eye(3) for _ in named]
        offsets = [of(offset) for _, offset in named]
        return PointSet(
            names=tuple(str(name) for name, _ in named),
            body=tuple(self.model.body_index(name) for name, _ in named),
            rotation=of(np.array(rotations).reshape(-1, 3, 3)),
            offset=np.stack(offsets) if offsets else of(np.zeros((0, 3))),
        )

    def zeros(self, *shape: int) -> Array:
        """Zeros of this state's kind of numbers."""
        return self.kind.of(np.zeros(shape))

    def array(self, scalars: Sequence[Any]) -> Array:
        """The array of scalars."""
        return self.kind.of(np.array(scalars, self.q.dtype))

    def eye(self, size: int) -> Array:
        """The identity matrix."""
        return self.kind.of(np.eye(size))

    # ---- values ---------------------------------------------------------------------------------

    def dense(self, expr: Expr, **changes: Any) -> Array:
        """The value of an expression; `q`, `v`, …, `points`, `axes`, `order` may be others."""
        check_expression(expr)
        order, axes = changes.pop("order", "base_to_tip"), changes.pop("axes", "body")
        one = self._evaluation(changes)
        value = arranged(expr, one, order, axes)
        if expr.is_scalar:
            return value[0, 0]
        if expr.gives.of_poses:
            return value.reshape(-1, 4, 4)
        return value[:, 0] if expr.is_vector else value

    def applied(self, expr: Expr) -> Array:
        """A vector as it is, an operator applied to a random vector, which any error shows in."""
        check_expression(expr)
        one = self._evaluation({})
        if expr.is_vector:
            return one.value(expr)
        return one.applied(expr, self._column(expr))

    def swept(
        self, expr: Expr, mode: str = "apply", rewrite: str = "full", **changes: Any
    ) -> Array:
        """The result of the sweeps that are compiled from an expression, on these exact numbers.

        A vector as it is; an operator applied to the random vector of `applied`, by its sweeps or
        (mode "dense") by the matrix that they write. The program is that of the model. Bodies with
        modes have six rows in operands and results of sweeps: operators are written as matrices.
        """
        mode = "dense" if self.model.has_more_rows else mode
        if not self.model.n_bodies:  # nothing to sweep over
            return self.applied(expr)
        program = compile(
            expr,
            self._plain,
            mode=mode if not expr.is_vector else "apply",
            points=self._floating_points,
            rewrite=rewrite,
            backend="reference",
        )
        column = None
        if not expr.is_vector and mode != "dense":
            blocks = (-1, 6) if expr.takes.index in ("body", "point") else (-1,)
            column = self._column(expr).reshape(blocks)
        given = {name: changes.get(name, getattr(self, name, column)) for name in program.inputs}
        inputs = {name: value.objects() for name, value in given.items()}
        at: Any = self.points
        points = replace(at, rotation=at.rotation.objects(), offset=at.offset.objects())
        source = program.source
        exact = replace(source, model=self.model, request=replace(source.request, points=points))
        (found,), _ = evaluate(exact, inputs, ())
        value = self.kind.of(found.astype(self.q.dtype))
        if mode == "dense" and not expr.is_vector:
            return value @ self._column(expr)
        return value.reshape(-1, 1)

    def rigid_rows(self, column: Array) -> Array:
        """The six rows of every body that sweeps give, of a vector with modal rows."""
        parts = [column[at.start : at.start + 6] for at in body_slices(self.model)]
        return np.concatenate(parts) if self.model.has_more_rows else column

    @cached_property
    def _floating_points(self) -> PointSet:
        """The points on their bodies; where they are does not matter to a program."""
        n, axes = len(self.points), self.points.axes
        turned, at = np.tile(np.eye(3), (n, 1, 1)), np.zeros((n, 3))
        return replace(self.points, rotation=turned, offset=at, axes=axes)

    def _column(self, expr: Expr) -> Array:
        """A random vector that an operator takes, (size, 1)."""
        size = space_size(expr.takes, self.model, self.points)
        if size not in self._columns:
            self._columns[size] = self.random(size, 1)
        return self._columns[size]

    def with_value(self, leaf: Expr, value: Array) -> ProofState:
        """This state with another value of an operator; for claims that ought to be false."""
        again = copy(self)
        again._values = self._evaluation({}).changed(leaf, value)
        again._has_own_efforts = self._has_own_efforts or leaf is _TAU
        return again

    def with_forces(self, names: frozenset[str]) -> ProofState:
        """This state with the efforts tau for which only these of the forces f0 and f_ext act.

        If tau does not belong to the motion, or its forces were chosen before, nothing changes.
        """
        if self._has_own_efforts:
            return self
        tau = self.tau
        if "f0" not in names:
            tau = tau - self.dense(_OF_F0)
        if "f_ext" in names:
            tau = tau - self.dense(_OF_F_EXT)
        again = self.with_value(_TAU, tau.reshape(-1, 1))
        again.tau = tau
        return again

    def determinant(self, expr: Expr) -> Array:
        """The determinant of an operator."""
        return np.linalg.det(self._evaluation({}).value(expr))

    def _evaluation(self, changes: dict[str, Any]) -> DenseEvaluator:
        """The values in this state with other inputs; several claims differentiate at one place."""
        if not changes:
            return self._values
        if "points" in changes or self.kind is Digits:
            return self._with(changes)
        key = tuple((name, x.tobytes()) for name, x in changes.items())
        found = self._elsewhere.pop(key, None)
        if found is None:
            found = self._with({name: x.copy() for name, x in changes.items()})
        self._elsewhere[key] = found
        if len(self._elsewhere) * (6 * self.model.n_bodies) ** 2 > _KEPT:
            del self._elsewhere[next(iter(self._elsewhere))]
        return found

    def _with(self, changes: dict[str, Any]) -> DenseEvaluator:
        """A new evaluation with other inputs or other points."""
        points = changes.pop("points", None)
        where = self.points if points is None else self._points(points)
        known = {name: getattr(self, name) for name in _ARGUMENTS if hasattr(self, name)}
        arguments = known | changes
        dtype = np.result_type(*(x.dtype for x in arguments.values()))
        return DenseEvaluator(self.model, where, arguments, dict(self._free), dtype, self.kind)

    def derivative(
        self, value: Callable[..., Any], at: Sequence[Array], along: Sequence[Array]
    ) -> Array:
        """The derivative of value(*at) along directions: by dual numbers, exact modulo a prime.

        In long decimals it is a difference quotient, good to sixty digits.
        """
        if self.kind is Digits:
            ahead = value(*(x + STEP * d for x, d in zip(at, along, strict=True)))
            behind = value(*(x - STEP * d for x, d in zip(at, along, strict=True)))
            return (ahead - behind) / (2 * STEP)
        return value(*(x + 1j * d for x, d in zip(at, along, strict=True))).imag
