"""The derivative of a vector with respect to q (or v, τ, …): an operator on joint rates.

δy is linear in the direction u. Here u is moved to the right end, so that the rest is an operator L
with δy = L u. With s = H* u, for every operator A and vector x

    push(A, x) = the operator u ↦ (δ_u A) x:
    E_φ f:  −E_φ cross_force(f) H*             E_φ* x:  cross(E_φ* x) H*
    φ f:    −φ E_φ cross_force(φ f) H*         φ* x:    φ* cross(E_φ* φ* x) H*
    H f:    dH{f}                              H* u':   dHT{u'}
    cross(y) x:  −cross(x) L_y                 cross(y)* f:  cross_force(f) L_y
    X⁻¹ x:  −X⁻¹ push(X, X⁻¹ x)

because cross(s) x = −cross(x) s and cross(s)* f = cross_force(f) s. The first three lines are not
written here: they are what follows from the differentials of the leaves. The adjoint L* is an
expression too: vector–Jacobian products are the same sweeps run the other way.
"""

from __future__ import annotations

from phipsi.core.calculus.change import (
    PARAMETER,
    Symbols,
    U,
    change_in,
    has_symbols,
    log_det_change,
    no_rule,
    swaps,
)
from phipsi.core.expressions import ONE, Expr, Op, Space, identity, product, total_of, zero
from phipsi.core.operators import H, V, phi, v
from phipsi.errors import SpaceError


class NoOperatorError(SpaceError):
    """The change along all of a variable is not a product with the direction at its right end."""


class Tangent:
    """Derivatives of vectors by one variable, each derived once.

    Differentials of leaves are walked by a second one, `of`, which holds all but their symbols.
    `modal`: bodies may have modes.
    """

    def __init__(
        self, wrt: str, space: Space, modal: bool = False, of: Tangent | None = None
    ) -> None:
        self.wrt, self.space, self._of = wrt, space, of
        self._symbols = Symbols(wrt, modal)
        self._inner = Tangent(wrt, space, modal, self) if of is None else self
        self._depends = self._symbols.moves if of is None else has_symbols
        self._done: dict[Expr, Expr] = {}

    def __call__(self, y: Expr) -> Expr:
        """L with δy = L u, an operator from the space of the variable."""
        if y not in self._done:
            self._done[y] = self._derivative(y)
        return self._done[y]

    def _derivative(self, y: Expr) -> Expr:
        nothing = zero(self.space, y.gives)
        if not self._depends(y):
            return nothing
        if y.op is Op.SUM:
            return total_of([(0, nothing), *((c, self(t)) for c, t in y.terms)])
        if y.op is Op.PRODUCT:
            return self._product(y)
        if y.op is Op.LEAF:
            return self._leaf(y)
        if y.op is Op.LOGDET and y.args[0].takes.index == "point":
            raise NoOperatorError(f"the derivative of  {y}  is a sum over the points")
        if y.op is Op.LOGDET:
            return self._inner(log_det_change(y, self._symbols))
        raise NoOperatorError(f"no derivative with respect to {self.wrt} is known for  {y}")

    def _product(self, y: Expr) -> Expr:
        """From the right: the vector x and its derivative L become A x and push(A, x) + A L."""
        x = y.args[-1]
        out = self(x)
        for A in reversed(y.args[:-1]):
            if A.takes is ONE:
                raise NoOperatorError(
                    f"the derivative of  {y},  a vector times the number  {x},  with respect to "
                    f"{self.wrt} is not an operator of the algebra"
                )
            out = self.push(A, x) + A @ out
            x = name_velocity(A @ x)
        return out

    def _leaf(self, y: Expr) -> Expr:
        if y.name == self.wrt or y in (U, PARAMETER):
            return identity(self.space)
        if (changing := change_in(y)) is not None:
            assert self._of is not None
            return self._of(changing)
        if y.row.differential is not None:
            return self._inner(y.row.differential(y, self._symbols))
        meaning = self._symbols.definition(y)
        if meaning is None:
            raise SpaceError(no_rule(y))
        return self(meaning)

    # -- (δA) x ------------------------------------------------------------------------------------

    def push(self, A: Expr, x: Expr) -> Expr:
        """The operator u ↦ (δ_u A) x."""
        none = zero(self.space, A.gives)
        if x.op is Op.ZERO or not self._depends(A):
            return none
        if A.op is Op.SUM:
            return total_of([(0, none), *((c, self.push(B, x)) for c, B in A.terms)])
        if A.op is Op.PRODUCT:
            out = zero(self.space, A.args[-1].takes)
            for B in reversed(A.args):
                out = self.push(B, x) + B @ out
                x = name_velocity(B @ x)
            return out
        if A.op is Op.INVERSE:
            return -(A @ self.push(A.args[0], name_velocity(A @ x)))
        if A.op is Op.AS_MATRIX:
            return self.push(A.args[0], x)
        core = A.core
        if core.is_vector:  # a functional: (δy)* x = x* δy
            return x.T @ self(core)
        if core.op is Op.LEAF and (core.row.form is None or self._of is None):
            return self._push_leaf(core, A, x)
        parts = [(y, Q) for y, Q in swaps(A, x) if self._depends(y)]
        if not parts or len(parts) < sum(self._depends(y) for y in core.args):
            raise NoOperatorError(no_operator(core))
        return total_of([(0, none), *((1, Q @ self(y)) for y, Q in parts)])

    def _push_leaf(self, core: Expr, A: Expr, x: Expr) -> Expr:
        if (changing := change_in(core)) is not None:
            assert self._of is not None
            return self._of.push(changing if core is A else changing.T, x)
        meaning = self._symbols.definition(core)
        if core.row.differential is not None and not (core.row.riccati and meaning is None):
            change = core.row.differential(core, self._symbols)
            return self._inner.push(change if core is A else change.T, x)
        if meaning is None:
            raise NoOperatorError(no_operator(core))
        return self.push(meaning if core is A else meaning.T, x)


_VELOCITY = product((phi.T, H.T, v))


def name_velocity(x: Expr) -> Expr:
    """φ* H* v by its name V; anything else as it is."""
    return V if x is _VELOCITY else x


def no_operator(x: Expr) -> str:
    """Text for a factor whose change along all of q is not a product with u at its right end."""
    return (
        f"the derivative of  {x}  with respect to q is not an operator of the algebra.\n"
        "Differentiate along one direction instead:  pp.diff(expr, 'q', along='dq')"
    )
