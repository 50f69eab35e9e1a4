"""The value of every kind of expression node at one configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from phipsi.core.backends import body_slices, singular_hinge_text
from phipsi.core.dense.configuration import Configuration
from phipsi.core.dense.formulas import (
    COLUMNS,
    LEAVES,
    OF_ONE,
    OF_RIGID_BODIES,
    TRACES,
    VARIATIONS,
    gauge,
    picks_rate,
    total,
)
from phipsi.core.dense.modal_formulas import bias, gyroscopic
from phipsi.core.dense.override_values import block_of, from_storage
from phipsi.core.dense.world_rows import rows_at, rows_rate
from phipsi.core.expressions import (
    ONE,
    Expr,
    Op,
    Space,
    cross,
    cross_force,
    scaled,
    shown,
    space_size,
    trace,
    vee,
    vee_force,
)
from phipsi.core.model import Model, PointSet
from phipsi.core.operators import (
    BodyFunction,
    Riccati,
    arguments_of,
    catalogue_leaf,
    definition,
    family_of,
)
from phipsi.core.sweeps import no_modes
from phipsi.errors import (
    InputError,
    LoweringError,
    SingularHingeError,
    SingularMatrixError,
    SpaceError,
)

Array = NDArray[Any]

_V, _B, _POSE = catalogue_leaf("V"), catalogue_leaf("B"), catalogue_leaf("pose")
_H, _HDOT, _RATES = catalogue_leaf("H"), catalogue_leaf("Hdot"), catalogue_leaf("v")
_OF_RIGID_BODIES = frozenset((cross, cross_force, vee, vee_force))
_ALONG_V = ("Mdot", "Edot")
_EPS = float(np.finfo(np.float64).eps)


class DenseEvaluator:
    """Values of expressions at one configuration, each computed once.

    Every value is a matrix; a vector is one column, a scalar 1 × 1.
    """

    def __init__(
        self,
        model: Model,
        points: PointSet,
        arguments: dict[str, Array],
        given: dict[Expr, Array],
        dtype: np.dtype[Any],
        kind: Any = np.ndarray,
    ) -> None:
        self.model, self.points, self.dtype = model, points, dtype
        self.at = Configuration(model, points, arguments, dtype, kind)
        self._exact = kind is not np.ndarray
        self._values: dict[Expr, Array] = {}
        for x, stored in given.items():
            if x is _POSE:
                self.at.put_at(stored)
            matrix = from_storage(x, stored, model, points)
            adjoint = x.op is Op.ADJOINT
            self._values[x.args[0] if adjoint else x] = matrix.T if adjoint else matrix
        self._given = frozenset(self._values)
        self._families: dict[Riccati, Articulated] = {}

    def changed(self, leaf: Expr, matrix: Array) -> DenseEvaluator:
        """The same with another matrix for a leaf; P, D and G stay what they are."""
        self._family(Riccati())
        again = copy(self)
        again._values = {x: self._values[x] for x in self._given} | {leaf: matrix}
        again._given = self._given | {leaf}
        return again

    def size(self, space: Space) -> int:
        """Number of components of a space."""
        return space_size(space, self.model, self.points)

    def value(self, x: Expr) -> Array:
        """The matrix of x."""
        if x not in self._values:
            self._values[x] = self._compute(x)
        return self._values[x]

    def _compute(self, x: Expr) -> Array:
        if x.op in self._METHODS:
            return self._METHODS[x.op](self, x)
        rows, cols = self.size(x.gives), self.size(x.takes)
        return self.at.eye(rows) if x.op is Op.IDENTITY else self.at.zeros(rows, cols)

    def applied(self, x: Expr, column: Array) -> Array:
        """X c for one column, without products of matrices where there need not be any."""
        if x in self._given or x.op is Op.IDENTITY:
            return self.value(x) @ column
        if x.op is Op.SUM:
            return self._sum(x, lambda y: self.applied(y, column))
        if x.op is Op.PRODUCT:
            for factor in reversed(x.args):
                column = self.applied(factor, column)
            return column
        if x.op is Op.AS_MATRIX:
            return self.applied(x.args[0], column)
        meaning = definition(x) if x.op is Op.LEAF and x.name != "s_gauge" else None
        return self.value(x) @ column if meaning is None else self.applied(meaning, column)

    def _sum(self, x: Expr, value: Callable[[Expr], Array]) -> Array:
        number = self.at.kind.of if self._exact else float
        out, *rest = (value(y) if c == 1 else number(c) * value(y) for c, y in x.terms)
        return sum(rest, out)

    def _product(self, x: Expr) -> Array:
        """From the right if a vector stands there, so that no matrix is multiplied by a matrix."""
        factors = [self.value(y) for y in x.args]
        out = factors.pop() if x.is_vector else factors.pop(0)
        while factors:
            out = factors.pop() @ out if x.is_vector else out @ factors.pop(0)
        return out

    def _inverse(self, x: Expr) -> Array:
        matrix = self.value(x)
        if matrix.shape[0] != matrix.shape[1]:
            raise SpaceError(
                f"{shown(x)} is {matrix.shape[0]} × {matrix.shape[1]} and has no inverse"
            )
        try:
            out = np.linalg.inv(matrix)
        except np.linalg.LinAlgError:
            if self._exact:
                raise
            out = np.full_like(matrix, np.inf)
        if self._exact:
            return out
        if not np.isfinite(out).all() or _norm(matrix) * _norm(out) * _EPS > 1:
            self._raise_for_hinge(x)
            raise SingularMatrixError(
                f"{shown(x)} is singular here (condition number "
                f"{np.linalg.cond(matrix) if matrix.size else 0:.3g}), so it has no inverse"
            )
        return out

    def _raise_for_hinge(self, x: Expr) -> None:
        """If the family's own D is singular, say so in terms of the joint."""
        if x.takes.index == "joint":
            self._family(Riccati())

    def _block_diagonal(self, x: Expr) -> Array:
        full = self.value(x.args[0])
        if x.op is Op.FUNCTION:  # outer(x; y)
            full = full @ self.value(x.args[1]).T
        out = self.at.zeros(self.size(x.gives), self.size(x.takes))
        for k in range(self.model.n_bodies):
            rows, cols = (block_of(space, self.model, k) for space in (x.gives, x.takes))
            out[rows, cols] = full[rows, cols]
        return out

    def _logdet(self, x: Expr) -> Array:
        if self._exact:
            return np.log(np.linalg.det(self.value(x))).reshape(1, 1)
        sign, size = np.linalg.slogdet(self.value(x))
        if not (sign.real > 0 and np.isfinite(size)):
            self._raise_for_hinge(x)
            raise SingularMatrixError(f"logdet({shown(x)}): the determinant is not positive here")
        return np.array([[size + np.log(sign)]])

    # ---- leaves ---------------------------------------------------------------------------------

    def _leaf(self, x: Expr) -> Array:
        if self.model.has_more_rows:
            found = self._modal(x)
            if found is not None:
                return found
        if x.name == "s_gauge":
            return gauge(self.value(_V))
        meaning = definition(x)
        if meaning is not None:
            return self.value(meaning)
        if x.row.riccati:
            return self._member(family_of(x), x.name)
        if x.args or x.name in _ALONG_V:
            return self._variation(x)
        if x.name in ("unit_rate", "unit_effort", "unit_inertia"):
            return self._pick(x)
        if x.row.is_input:
            return self.at.argument(x.name).reshape(-1, 1)
        if x.name == "total":
            return total(self.at, x.params)
        if x.name == "Bdot":
            return picks_rate(self.at, self.value(_V))
        if x.name in ("A", "Adot", "select"):
            return self._rows(x)
        if x.row.matrix is not None:
            return x.row.matrix(self.at)
        if x.name in LEAVES:
            return LEAVES[x.name](self.at)
        raise InputError(f"{x} has no formula. Pass its value:  inputs={{{x.name!r}: array}}")

    def _modal(self, x: Expr) -> Array | None:
        """Leaves that are something else if bodies have modes; others are rejected, or None."""
        if x.name in OF_RIGID_BODIES:
            raise LoweringError(no_modes(str(x)))
        if x.name == "a":
            own, change = self.value(_H).T, self.value(_HDOT).T
            rates = self.value(_RATES)
            return bias(self.at, self.value(_V), own @ rates, change @ rates)
        if x.name == "b":
            return gyroscopic(self.at, self.value(_V))
        if x.row.is_input and x.gives.index == "body":
            six = self.at.argument(x.name).reshape(-1, 6)
            out = self.at.zeros(self.size(x.gives), 1)
            for k, row in enumerate(six):
                out[self.at.six(k), 0] = row
            return out
        return None

    def _variation(self, x: Expr) -> Array:
        """An operator along directions, or what it does to a vector along any direction."""
        values = [self.value(y) for y in arguments_of(x)]
        if x.name in VARIATIONS:
            return VARIATIONS[x.name](self.at, *values)
        vary, adjoint = COLUMNS[x.name]
        moved = self._along_units(vary, values[1:], self.size(x.takes), *x.params)
        columns = [(m.T if adjoint else m) @ values[0] for m in moved]
        return np.hstack([self.at.zeros(self.size(x.gives), 0), *columns])

    def _formula(self, x: Expr, formula: BodyFunction) -> Array:
        """The blocks of a formula, body by body."""
        at, model = self.at, self.model
        values = [(y, self.value(y)) for y in x.args]
        out = at.zeros(self.size(x.gives), self.size(x.takes))

        def part(space: Space, k: int) -> slice:
            return slice(0, 1) if space is ONE else block_of(space, model, k)

        for k, joint in enumerate(model.joints):
            blocks = [
                [at.scalars(row) for row in value[part(y.gives, k), part(y.takes, k)]]
                for y, value in values
            ]
            with np.errstate(all="ignore"):
                rows = formula.block(joint.nv, blocks, at.ops)
            shape = (len(rows), len(rows[0]) if rows else 0)
            here = part(x.gives, k), part(x.takes, k)
            out[here] = out[here] + at.array(rows).reshape(shape)  # a number is a sum
        return out

    def _function(self, x: Expr) -> Array:
        function, hole = x.data
        if isinstance(function, BodyFunction):
            return self._formula(x, function)
        if self.model.has_more_rows and function in _OF_RIGID_BODIES:
            raise LoweringError(no_modes(str(x)))
        if function is scaled:
            return self.value(x.args[0])[0, 0] * self.value(x.args[1])
        if function is trace:
            return self.at.array([[np.trace(self.value(x.args[0]))]])
        if function.name in OF_ONE:
            return OF_ONE[function.name](self.at, self.value(x.args[0]))
        if function.name not in TRACES:
            return self._block_diagonal(x)
        value, *directions = (self.value(y) for y in x.args)
        moved = self._along_units(TRACES[function.name], directions, self.size(x.gives), hole)
        return self.at.array([[np.trace(m @ value)] for m in moved]).reshape(-1, 1)

    def _along_units(
        self, vary: Callable[..., Array], directions: list[Array], size: int, hole: Any = None
    ) -> Iterator[Array]:
        """X{directions; u} for the unit vectors u, which stand last or where the hole is."""
        at = len(directions) if hole is None else hole
        for u in self.at.eye(size):
            yield vary(self.at, *directions[:at], u[:, None], *directions[at:])

    def _rows(self, x: Expr) -> Array:
        """A, Ȧ and selections of points."""
        c = self.points.closures
        if c is None:
            raise InputError(
                f"{x} needs the constraint rows of a system: evaluate_dense(expr, system, …)"
            )
        if x.name == "A":
            return rows_at(self.at)
        if x.name == "Adot":
            return rows_rate(self.at, self.value(_B).T @ self.value(_V))
        name = str(x.params[0])
        if name not in c.names_of_selections:
            raise InputError(f"the system has no selection of points named {name!r}")
        return np.diag(np.repeat(c.selected(name).astype(float), 6))

    def _pick(self, x: Expr) -> Array:
        joint, i = (*x.params, 0)[:2]
        assert isinstance(i, int)
        if x.name == "unit_inertia":
            one = np.arange(10 * self.model.n_bodies)
            return (one == 10 * self.model.body_index(str(joint)) + i).astype(self.dtype)[:, None]
        out = self.at.zeros(self.model.nv, 1)
        out[self.model.v_slices[self.model.joint_index(str(joint))], 0][i] = 1
        return out

    def _member(self, f: Riccati, name: str) -> Array:
        """P, D, D½, G or ψ of a family; what is given is used for what follows from it."""
        if name == "P":
            return self._family(f).P
        if name == "D":
            if f.P not in self._given:
                return self._family(f).D
            return self.value(f.H @ f.P @ f.H.T) + self._armature(f)
        if name == "G":
            if f.P not in self._given and f.D not in self._given:
                return self._family(f).G
            return gain(self.model, self.value(f.H), self.value(f.P), self.value(f.D))
        if name == "D_half":
            return cholesky(self.model, self.value(f.D))
        step = self.value(f.E_psi)
        return np.linalg.inv(self.at.eye(len(step)) - step)

    def _family(self, f: Riccati) -> Articulated:
        if f not in self._families:
            H, E, M = self.value(f.H), self.value(f.E), self.value(f.M)
            self._families[f] = articulated(self.model, H, E, M, self._armature(f))
        return self._families[f]

    def _armature(self, f: Riccati) -> Array:
        if isinstance(f.Jr, int):
            return self.at.zeros(self.model.nv, self.model.nv)
        return self.value(f.Jr)

    _METHODS: ClassVar[dict[Op, Callable[[DenseEvaluator, Expr], Array]]] = {
        Op.LEAF: lambda one, x: one._leaf(x),
        Op.ADJOINT: lambda one, x: one.value(x.args[0]).T,
        Op.SUM: lambda one, x: one._sum(x, one.value),
        Op.PRODUCT: lambda one, x: one._product(x),
        Op.INVERSE: lambda one, x: one._inverse(x.args[0]),
        Op.BD: lambda one, x: one._block_diagonal(x),
        Op.FUNCTION: lambda one, x: one._function(x),
        Op.AS_MATRIX: lambda one, x: one.value(x.args[0]),
        Op.LOGDET: lambda one, x: one._logdet(x.args[0]),
    }


def _norm(matrix: Array) -> float:
    return float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0


# ---- the articulated-body recursion, body by body ------------------------------------------------

# A hinge counts as singular when D is this small compared with the inertia H R H* + Jr that it
# moves with all hinges outboard of it locked; rounding alone leaves a few times 1e-16 of that.
SINGULAR_BELOW = 1e-13


@dataclass(frozen=True)
class Articulated:
    """P, D and G of one family, as full matrices."""

    P: Array
    D: Array
    G: Array


def articulated(model: Model, H: Array, E: Array, M: Array, Jr: Array) -> Articulated:
    """Solve ``P = M + E (P − P H* D⁻¹ H P) E*``, ``D = H P H* + Jr`` from the tips to the base.

    P(k) = M(k) + Σ over children c of E(k, c) [P(c) − P(c) H*(c) D⁻¹(c) H(c) P(c)] E*(k, c).
    """
    _check_step(model, E)
    n, rows = model.n_bodies, body_slices(model)
    P, D, G = np.zeros_like(M), np.zeros_like(Jr), np.zeros_like(H.T)
    R = np.zeros_like(M)  # composite inertia, only to judge whether D is singular
    for k in range(n):
        body = rows[k]
        P[body, body] = R[body, body] = M[body, body]
    for k in reversed(range(n)):
        body, s, p = rows[k], model.v_slices[k], model.parent[k]
        h, inertia = H[s, body], P[body, body]
        d = h @ inertia @ h.T + Jr[s, s]
        check_hinge(model, k, d, h @ R[body, body] @ h.T + Jr[s, s])
        gain = np.linalg.solve(d, h @ inertia).T
        D[s, s], G[body, s] = d, gain
        if p >= 0:
            out = rows[p]
            step = E[out, body]
            passed = inertia - gain @ h @ inertia
            P[out, out] += step @ (0.5 * (passed + passed.T)) @ step.T
            R[out, out] += step @ R[body, body] @ step.T
    return Articulated(P, D, G)


def gain(model: Model, H: Array, P: Array, D: Array) -> Array:
    """G = P H* D⁻¹, hinge by hinge, for P and D from elsewhere."""
    G = np.zeros_like(H.T)
    for k, (s, body) in enumerate(zip(model.v_slices, body_slices(model), strict=True)):
        check_hinge(model, k, D[s, s], D[s, s])
        G[body, s] = np.linalg.solve(D[s, s], H[s, body] @ P[body, body]).T
    return G


def cholesky(model: Model, D: Array) -> Array:
    """The lower triangular D½ with D = D½ D½*, without conjugation."""
    out = np.zeros_like(D)
    for s in model.v_slices:
        d, low = D[s, s], out[s, s]
        for j in range(len(d)):
            low[j, j] = np.sqrt(d[j, j] - low[j, :j] @ low[j, :j])
            for i in range(j + 1, len(d)):
                low[i, j] = (d[i, j] - low[i, :j] @ low[j, :j]) / low[j, j]
    return out


def check_hinge(model: Model, k: int, d: Array, reference: Array) -> None:
    """Raise `SingularHingeError` if the hinge inertia d of joint k cannot be inverted.

    Exact numbers need no such judgement: there a singular D has no inverse, and nothing else.
    """
    if hasattr(d, "is_exact"):
        return
    d, reference = np.real(d), np.real(reference)
    if not len(d):
        return
    size = np.sqrt(np.maximum(np.diag(reference), 0))
    if (size > 0).all():
        scaled = d / np.outer(size, size)
        if np.linalg.eigvalsh(scaled + scaled.T)[0] / 2 > SINGULAR_BELOW:
            return
    raise SingularHingeError(singular_hinge_text(model, k, d))


def _check_step(model: Model, E: Array) -> None:
    """E may have blocks (parent(k), k) only: then E X E* is memoryless and P exists."""
    rest, rows = np.array(E), body_slices(model)
    for k, p in enumerate(model.parent):
        if p >= 0:
            rest[rows[p], rows[k]] = 0
    if rest.any():
        raise InputError(
            "the operator E of a Riccati family must map every body to its parent and nowhere "
            "else, as E_φ and E_ψ do; this one has other blocks"
        )
