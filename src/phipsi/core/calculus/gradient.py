"""Gradients of c* y with respect to q, v, τ, the inertial parameters: adjoints of derivatives.

Where δy is not a product with the direction at its right end, because y has P, D, G, ψ or bd(…) in
it, the derivative is not an operator of the algebra; but its adjoint applied to a vector c is a
vector of it. The parts of c* y are visited from the outside in, each once, with the weight that its
change is multiplied by:

    vector z      with w:      w* δz
    operator A    with l, x:   l* (δA) x
    blocks A      with Z:      tr(Z δA),  A and Z memoryless;  l* (δA) x  is that with  x(k) l(k)*

Blocks go back the way their recursions came. S = X + E₁ S E₂* passes tr(Z δS) on as

    tr(Y δX) + tr(S E₂* Y δE₁) + tr(Y E₁ S δE₂*),     Y = Z + bd(E₂* Y E₁) = bd(T₂* Z T₁),

a recursion in the other direction. In the differential of P, ψ is held, so with Y = bd(ψ* Z ψ) and
Y' = bd(E* Y E)

    tr(Z δP) = tr(Y δM) + 2 tr(P⁺ E* Y δE) + tr(G* Y' G δJr) − 2 tr(P π̄* Y' G δH).

The step of every body to its parent has δE_φ = −E_φ cross(s)*, whose trace is a vee.
[theory/sensitivities 6 (E15), read backwards]
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from phipsi.core.calculus.change import (
    MOTION,
    PARAMETER,
    RELATIVE,
    Symbols,
    U,
    change_in,
    has_symbols,
    log_det_change,
    log_det_family,
    no_rule,
    swaps,
)
from phipsi.core.calculus.tangent import name_velocity
from phipsi.core.expressions import (
    Expr,
    Number,
    Op,
    Structure,
    block_diagonal,
    cross,
    dE_trace,
    dH_trace,
    dM_trace,
    identity,
    is_anticausal,
    is_causal,
    is_memoryless,
    is_strict,
    open_place,
    outer,
    product,
    rigid_cross,
    scaled,
    total_of,
    trace,
)
from phipsi.core.operators import (
    HINGE,
    INERTIA,
    STEP,
    BodyFunction,
    change_along,
    change_of,
    definition,
    is_step,
    is_transition,
    leaves_of,
    point_units,
    transition_step,
)
from phipsi.core.rewrite import (
    Factors,
    diagonal_part,
    expand_products,
    one_step_factors,
    split_sign,
)
from phipsi.errors import SpaceError

Terms = list[tuple[Number, Expr]]
_TRACES = {HINGE: dH_trace, INERTIA: dM_trace, STEP: dE_trace}
_TRACED = {dH_trace: HINGE, dM_trace: INERTIA}
"""tr(Ẋ{u} Z) as a function of u: those of a step are not differentiated again."""


class Gradient:
    """The gradient with respect to a variable or a custom operator; `nothing` is its zero.

    For an operator it is the memoryless W with tr(W δX) = c* δy.

    Differentials of leaves are walked by a second one, `of`, which holds all but their symbols; the
    two share the weights of the symbols. Named vectors and blocks wait until everything that
    contains them has passed on its part.
    """

    def __init__(
        self,
        wrt: str,
        nothing: Expr,
        modal: bool = False,
        of: Gradient | None = None,
        points: int = 0,
    ) -> None:
        self.wrt, self._nothing, self._of, self._points = wrt, nothing, of, points
        self._symbols = Symbols(wrt, modal)
        self._definition = self._symbols.definition
        self._depends = lru_cache(None)(self._symbols.moves) if of is None else has_symbols
        self._parts: dict[Expr, Terms] = (
            {MOTION: [], RELATIVE: [], PARAMETER: [], U: []} if of is None else of._parts
        )
        self._terms: Terms = [] if of is None else of._terms
        self._waiting: dict[Expr, Terms] = {}
        self._inner = Gradient(wrt, nothing, modal, self, points) if of is None else self

    def __call__(self, y: Expr, c: Expr) -> Expr:
        """The gradient of c* y, of c in the dual space of y."""
        self._vector(y, c)
        while self._waiting:  # the outermost first
            x = max(self._waiting, key=lambda y: (height(y, self._symbols.modal), str(y)))
            self._settle(x, gather(self._waiting.pop(x)))
        for symbol, parts in self._parts.items():
            meaning = definition(symbol)
            if meaning is None:
                self._terms += parts
            elif parts:
                self._inner._vector(meaning, total_of(parts))
        return total_of([(0, self._nothing), *self._terms])

    def _wait(self, x: Expr, weight: Expr) -> None:
        """Pass on x later, with the sum of all its weights."""
        self._waiting.setdefault(x, []).append((1, weight))

    def _settle(self, x: Expr, weight: Expr) -> None:
        meaning = self._definition(x)
        if x.is_vector:
            assert meaning is not None
            self._vector(meaning, weight)
        elif x.op is Op.BD:
            self._diagonal_part(x, weight)
        elif x.row.differential is not None:
            if x.row.riccati and x.row.symmetric and weight.T is not weight:
                weight = Fraction(1, 2) * (weight + weight.T)
            self._inner._blocks(x.row.differential(x, self._symbols), weight)
        elif meaning is not None:
            self._blocks(meaning, weight)
        else:
            raise SpaceError(no_gradient(x))

    # -- w* δz -------------------------------------------------------------------------------------

    def _vector(self, z: Expr, w: Expr) -> None:
        """Pass on w* δz."""
        if z.name == self.wrt and self._of is None:
            self._terms.append((1, w))
        elif w.op is Op.ZERO or not self._depends(z):
            return
        elif z.op is Op.SUM:
            for c, y in z.terms:
                self._vector(y, c * w)
        elif z.op is Op.PRODUCT:
            self._vector(z.args[-1], self._between(w, z.args[:-1], z.args[-1]))
        elif z.op is Op.INVERSE:  # of a number
            self._vector(z.args[0], -(z @ z @ w))
        elif z.op is Op.LOGDET:
            self._log_det(z, w)
        elif z.function in _TRACED:
            self._trace(z, w)
        elif z.op is not Op.LEAF:
            self._function(z, w)
        elif z in self._parts:
            self._parts[z].append((1, w))
        elif (changing := change_in(z)) is not None:
            assert self._of is not None
            self._of._vector(changing, w)
        elif z.row.differential is not None:
            self._inner._vector(z.row.differential(z, self._symbols), w)
        elif self._definition(z) is not None:
            self._wait(z, w)
        else:
            raise SpaceError(no_rule(z))

    def _log_det(self, z: Expr, w: Expr) -> None:
        """w δ log det ℳ; times a number it is w tr(D⁻¹ δD), which waits for the rest of D."""
        X = z.args[0]
        if X.takes.index == "point" and X.T is X:
            self._trace_at_points(X.inv, X, w)
            return
        ((number, one),) = w.terms if len(w.terms) == 1 else ((1, w),)
        if one.op is Op.IDENTITY:
            D = log_det_family(z, self._symbols).D
            self._blocks(D, number * D.inv)
        else:
            self._inner._vector(log_det_change(z, self._symbols), w)

    def _trace_at_points(self, W: Expr, A: Expr, w: Expr) -> None:
        """w tr(W δA) as a sum over the unit vectors of all points."""
        if not self._points:
            raise SpaceError(
                "the gradient of a determinant or trace at points is a sum over the points. Name "
                "them:  pp.vjp(expr, model, points=…)"
            )
        units = zip(
            point_units(A.takes, self._points), point_units(W.gives.dual, self._points), strict=True
        )
        for e, other in units:
            self._operator(W.T @ other @ w, A, e)

    def _between(self, left: Expr, factors: tuple[Expr, ...], right: Expr) -> Expr:
        """Pass on every factor of left* A₁ … Aₙ right, and return (A₁ … Aₙ)* left."""
        rights = [right]
        for factor in reversed(factors):
            rights.append(name_velocity(factor @ rights[-1]))
        for factor, x in zip(factors, reversed(rights[:-1]), strict=True):
            self._operator(left, factor, x)
            left = factor.T @ left
        return left

    def _function(self, x: Expr, weight: Expr) -> None:
        """Pass on the change of f(…) to its arguments, which it is linear in."""
        if isinstance(x.function, BodyFunction):
            self._formula(x, x.function, weight)
            return
        if x.function is trace and x.args[0].takes.index == "point":
            self._trace_at_points(identity(x.args[0].gives), x.args[0], weight)
            return
        if x.function is scaled:
            s, X = x.args
            self._vector(s, trace(weight @ X))
            self._blocks(X, scaled(s, weight))
            return
        if x.function is None or x.function.pull is None:
            raise SpaceError(no_gradient(x))
        for y, w in zip(x.args, x.function.pull(x, weight), strict=True):
            (self._vector if y.is_vector else self._blocks)(y, w)

    def _formula(self, x: Expr, formula: BodyFunction, weight: Expr) -> None:
        """Pass on the change of a formula of one body to its arguments."""
        for i, y in enumerate(x.args):
            if not self._depends(y):
                continue
            w = formula.weight(x.args, i, weight)
            (self._vector if y.is_vector else self._blocks)(y, w)

    def _trace(self, z: Expr, w: Expr) -> None:
        """w* z = tr(Ḣ{…; w} X) or tr(Ṁ{…; w} X), w at the place of the open direction."""
        X, *others = z.args
        place = open_place(z)
        assert z.function is not None
        change = change_of(_TRACED[z.function], *others[:place], w, *others[place:])
        self._blocks(X, change)
        for c, y in change.terms:
            if y.op is Op.LEAF:
                self._inner._blocks(change_along(y, self._symbols, fixed=place), c * X)

    # -- l* (δA) x ---------------------------------------------------------------------------------

    def _operator(self, left: Expr, A: Expr, x: Expr) -> None:
        """Pass on left* (δA) x."""
        if Op.ZERO in (left.op, x.op) or not self._depends(A):
            return
        if A.is_vector:  # times the number x
            self._vector(A, left @ x)
        elif A.op is Op.SUM:
            for c, B in A.terms:
                self._operator(c * left, B, x)
        elif A.op is Op.PRODUCT:
            self._between(left, A.args, x)
        elif A.op is Op.INVERSE:
            self._operator(-(A.T @ left), A.args[0], name_velocity(A @ x))
        elif A.op is Op.ADJOINT and (
            self._of is None or A.args[0].function not in (cross, rigid_cross)
        ):
            self._operator(x, A.args[0], left)
        elif A.op is Op.AS_MATRIX:
            self._operator(left, A.args[0], x)
        elif A.op is Op.LEAF and (A.row.form is None or self._of is None):
            self._leaf(left, A, x)
        elif parts := swaps(A, x):
            for y, Q in parts:
                if self._depends(y):
                    self._vector(y, Q.T @ left)
        else:
            self._blocks(A, outer(x, left))

    def _leaf(self, left: Expr, A: Expr, x: Expr) -> None:
        if (changing := change_in(A)) is not None:
            assert self._of is not None
            self._of._operator(left, changing, x)
        elif A.name == self.wrt and A.takes.index == "point":
            raise SpaceError(
                f"no gradient with respect to the blocks of {A} is known, which are at points.\n"
                f"Differentiate along a direction instead:  pp.diff(expr, {A.name!r}, along=…)"
            )
        elif A.name == self.wrt:
            self._blocks(A, outer(x, left))
        elif A.row.differential is not None:
            if A.row.riccati and is_memoryless(A.structure):
                self._blocks(A, outer(x, left))
            else:
                self._inner._operator(left, A.row.differential(A, self._symbols), x)
        elif (meaning := self._definition(A)) is not None:
            self._operator(left, meaning, x)
        else:
            raise SpaceError(no_rule(A))

    # -- tr(Z δA) ----------------------------------------------------------------------------------

    def _blocks(self, A: Expr, Z: Expr) -> None:
        """Pass on tr(Z δA), A and Z memoryless."""
        if Z.op is Op.ZERO or not self._depends(A):
            return
        if A.name == self.wrt and self._of is None:
            self._terms.append((1, Z))
        elif A.op is Op.SUM:
            for c, term in A.terms:
                self._blocks(term, c * Z)
        elif A.op is Op.PRODUCT:
            for i, factor in enumerate(A.args):
                self._blocks(factor, product((*A.args[i + 1 :], Z, *A.args[:i])))
        elif A.op is Op.ADJOINT:
            self._blocks(A.args[0], Z.T)
        elif A.op is Op.INVERSE:
            self._blocks(A.args[0], -(A @ Z @ A))
        elif A.op is Op.AS_MATRIX:
            self._blocks(A.args[0], Z)
        elif A.op not in (Op.BD, Op.LEAF):
            self._function(A, Z)
        elif self._of is None:
            self._wait(A, Z)
        elif A.op is Op.BD:
            self._diagonal_part(A, Z)
        elif (changing := change_in(A)) is not None:
            self._of._blocks(changing, Z)
        else:  # Ḣ{…} or Ṁ{…}
            self._traces(A, Z)

    def _traces(self, A: Expr, Z: Expr) -> None:
        """Pass on tr(Z A) to the directions of A = Ẋ{…}."""
        assert A.row.form is not None
        for i, y in enumerate(A.args):
            if self._depends(y):
                trace_of = _TRACES[A.row.form]
                self._vector(y, trace_of(Z, *A.args[:i], *A.args[i + 1 :], hole=i))

    # -- bd(…) -------------------------------------------------------------------------------------

    def _diagonal_part(self, x: Expr, Z: Expr) -> None:
        for c, factors in expand_products(x.args[0]):
            self._diagonal(factors, c * Z, x)

    def _diagonal(self, factors: Factors, Z: Expr, whole: Expr) -> None:
        """tr(Z δ bd(product)), peeled from both ends as it is computed."""
        key = product(factors) if factors else identity(Z.takes)
        if is_strict(key.structure) or not self._depends(key):
            return
        if is_memoryless(key.structure):
            self._blocks(key, Z)
            return
        first, last = factors[0], factors[-1]
        if is_memoryless(first.structure):
            rest = block_diagonal(product(factors[1:]))
            self._blocks(first, rest @ Z)
            self._diagonal(factors[1:], Z @ first, whole)
        elif is_memoryless(last.structure):
            rest = block_diagonal(product(factors[:-1]))
            self._blocks(last, Z @ rest)
            self._diagonal(factors[:-1], last @ Z, whole)
        elif is_causal(key.structure) or is_anticausal(key.structure):
            part = diagonal_part(key)
            if part is None:
                raise SpaceError(no_gradient(whole))
            self._blocks(part, Z)
        else:
            self._ends(first, product(factors[1:-1]), last, Z, whole)

    def _ends(self, first: Expr, inner: Expr, last: Expr, Z: Expr, whole: Expr) -> None:
        """tr(Z δS) of S = bd(T₁ X T₂*), or of bd(T₁* X T₂); bd(E₁ X T₂*) is E₁ X E₂*."""
        inward = is_causal(first.structure)
        left, right = (first, last.T) if inward else (first.T, last)
        both = is_transition(left) and is_transition(right)
        related = not (inward and inner.structure & Structure.UNRELATED)
        X = block_diagonal(inner) if is_step(left) and is_step(right) and related else inner
        if not is_memoryless(X.structure) or not all(
            is_step(y) or is_transition(y) for y in (left, right)
        ):
            raise SpaceError(no_gradient(whole))
        E1, E2 = (transition_step(y) if is_transition(y) else y for y in (left, right))
        S = block_diagonal(first @ X @ last) if both else X
        Y = Z if not both else block_diagonal(right.T @ Z @ left if inward else right @ Z @ left.T)
        if both:
            self._blocks(X, Y)
        else:
            self._blocks(X, block_diagonal(E2.T @ Z @ E1 if inward else E2 @ Z @ E1.T))
        if inward:
            parts = ((E1, S, E2, Y), (E2, S.T, E1, Y.T))
        else:
            parts = ((E1, Y.T, E2, S.T), (E2, Y, E1, S))
        if parts[0] == parts[1]:
            E, A, F, C = parts[0]
            self._step(E, 2 * A, F, C)
        else:
            for part in parts:
                self._step(*part)

    def _step(self, E: Expr, A: Expr, F: Expr, C: Expr) -> None:
        """tr(A F* C δE) of two one-step operators, A and C memoryless."""
        if not self._depends(E):
            return
        before, step, after = one_step_factors(E)
        one = identity(step.takes)
        a, b = before or one, after or one
        if before is not None:
            self._blocks(before, block_diagonal(step @ b @ A @ F.T) @ C)
        if after is not None:
            self._blocks(after, A @ block_diagonal(F.T @ C @ a @ step))
        if (changing := change_in(step)) is not None:
            assert self._of is not None
            self._of._step(changing, b @ A, F, C @ a)
        elif self._of is not None and step.row.form is STEP:
            self._traces(step, b @ A @ F.T @ C @ a)
        elif self._of is None and step.row.differential is not None:
            for c, y in (a @ step.row.differential(step, self._symbols) @ b).terms:
                self._inner._step(y, c * A, F, C)


def gather(terms: Terms) -> Expr:
    """Σ of the terms, with outer(x; y) + outer(x; z) as outer(x; y + z), and so on the left."""
    flat = total_of(terms).terms
    out = [(c, y) for c, y in flat if y.function is not outer]
    by_left: dict[Expr, Terms] = {}
    for c, y in flat:
        if y.function is outer:
            by_left.setdefault(y.args[0], []).append((c, y.args[1]))
    by_right: dict[Expr, Terms] = {}
    for x, parts in by_left.items():
        sign, y = split_sign(total_of(parts))
        by_right.setdefault(y, []).append((sign, x))
    out += [(1, outer(total_of(parts), y)) for y, parts in by_right.items()]
    return total_of(out)


@lru_cache(maxsize=2**14)
def height(x: Expr, modal: bool) -> int:
    """More than that of anything x changes with, through definitions and differentials."""
    parts, symbols = list(x.args), Symbols(modal=modal)
    if x.op is Op.LEAF and x.row.differential is not None:
        change = x.row.differential(x, symbols)
        parts += [y for y in map(change_in, leaves_of(change)) if y is not None]
    elif x.op is Op.LEAF and (meaning := symbols.definition(x)) is not None:
        parts.append(meaning)
    return 1 + max((height(y, modal) for y in parts), default=0)


def no_gradient(x: Expr) -> str:
    """Text for a part whose change cannot be passed on."""
    return (
        f"no gradient is known through  {x}.\n"
        "Differentiate along directions instead:  pp.diff(expr, 'q', along='dq')"
    )
