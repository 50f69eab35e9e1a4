"""The derivative of a vector by all of q (or v, τ, …) at once: an operator on joint rates.

δy is linear in the direction u. Here u is moved to the right end, so that what is left of it is an
operator L with δy = L u. With s = H* u, for every operator A and vector x

    push(A, x) = the operator u ↦ (δ_u A) x:
    E_φ f:  −E_φ cross_force(f) H*             E_φ* x:  cross(E_φ* x) H*
    φ f:    −φ E_φ cross_force(φ f) H*         φ* x:    φ* cross(E_φ* φ* x) H*
    H f:    dH{f}                      H* u':   dHT{u'}
    cross(y) x:  −cross(x) L_y                 cross(y)* f:  cross_force(f) L_y
    X⁻¹ x:  −X⁻¹ push(X, X⁻¹ x)

because cross(s) x = −cross(x) s and cross(s)* f = cross_force(f) s. The adjoint L* is an expression
too: vector–Jacobian products are the same sweeps run the other way.
"""

from __future__ import annotations

from phipsi.calculus.directional import CONSTANT, log_det_family, log_det_gradient, no_rule
from phipsi.errors import SpaceError
from phipsi.expressions.node import (
    Expr,
    cross,
    cross_force,
    identity,
    inertia_trace,
    product,
    regress,
    total_of,
    zero,
)
from phipsi.expressions.row import Op
from phipsi.expressions.spaces import (
    EFFORTS,
    FORCES,
    ONE,
    PARAMETERS,
    POINT_FORCES,
    RATES,
    Space,
)
from phipsi.operators.catalogue import catalogue_leaf
from phipsi.operators.definitions import E_phi, H, M, V, definition, phi, v
from phipsi.operators.inputs import inputs_of, leaves_of
from phipsi.operators.variations import (
    dA,
    dAT,
    dB,
    dBT,
    dH,
    dHT,
    with_arguments,
)

VARIABLES: dict[str, Space] = {
    "q": RATES,
    "v": RATES,
    "vdot": RATES,
    "tau": EFFORTS,
    "f_ext": FORCES,
    "f0": POINT_FORCES,
    "dq": RATES,
    "dv": RATES,
    "dvdot": RATES,
    "dtau": EFFORTS,
    "dinertia": PARAMETERS,
    "inertia": PARAMETERS,
}
"""What can be differentiated by, and the space its changes live in.

"inertia" stands for the ten inertial parameters of every body, in which M is linear."""


CHANGES = {
    "Hdot": ("dH", "dHT"),
    "Bdot": ("dB", "dBT"),
    "Adot": ("dA", "dAT"),
}
"""How Ḣ f, Ḣ* x and so on depend on the direction: names of the operators that say it."""


class NoOperatorError(SpaceError):
    """The change along all of a variable is no product with the direction at its right end."""


class Tangent:
    """Derivatives of vectors by one variable, each derived once."""

    def __init__(self, wrt: str) -> None:
        self.wrt, self.space = wrt, VARIABLES[wrt]
        self._done: dict[Expr, Expr] = {}

    def __call__(self, y: Expr) -> Expr:
        """L with δy = L u, an operator from the space of the variable."""
        if y not in self._done:
            self._done[y] = self._derivative(y)
        return self._done[y]

    def nothing(self, y: Expr) -> Expr:
        """The zero operator in place of a derivative of y."""
        return zero(self.space, y.gives)

    def _derivative(self, y: Expr) -> Expr:
        if y.op is Op.SUM:
            return self._sum(y, [(c, self(t)) for c, t in y.terms])
        if y.op is Op.PRODUCT:
            return self._product(y)
        if y.op is Op.LEAF:
            return self._leaf(y)
        if y.op is Op.LOGDET:
            f = log_det_family(y)
            if self.wrt == "inertia" and self.depends(f.M):
                if f.M is not M:
                    raise NoOperatorError(no_operator(y))
                return inertia_trace(f.Upsilon).T
            return log_det_gradient(f).T if self.wrt == "q" else self.nothing(y)
        if y.op in (Op.IDENTITY, Op.ZERO) or not self.depends(y):
            return self.nothing(y)
        raise NoOperatorError(f"no derivative by {self.wrt} is known for  {y}")

    def depends(self, x: Expr) -> bool:
        """Whether x depends on the variable at all."""
        if self.wrt == "inertia":
            return any(y.name == "M" or y.row.riccati for y in all_leaves(x))
        return self.wrt in inputs_of([x])

    def _sum(self, y: Expr, terms: list[tuple[object, Expr]]) -> Expr:
        return total_of([(0, self.nothing(y)), *terms])  # type: ignore[list-item]

    def _product(self, y: Expr) -> Expr:
        """From the right: the vector x and its derivative L become A x and push(A, x) + A L."""
        x = y.args[-1]
        out = self(x)
        for A in reversed(y.args[:-1]):
            if A.takes is ONE:
                raise NoOperatorError(
                    f"the derivative of  {y},  a vector times the number  {x},  by all of "
                    f"{self.wrt} is no operator of the algebra"
                )
            out = self.push(A, x) + A @ out
            x = named(A @ x)
        return out

    def _leaf(self, y: Expr) -> Expr:
        if y.name == self.wrt:
            return identity(self.space)
        if y.name == "gravity":
            return cross(y) @ H.T if self.wrt == "q" else self.nothing(y)
        meaning = definition(y)
        if meaning is not None:
            return self(meaning)
        if self.depends(y):
            raise SpaceError(no_rule(y))
        return self.nothing(y)

    # -- (δA) x ------------------------------------------------------------------------------------

    def push(self, A: Expr, x: Expr) -> Expr:
        """The operator u ↦ (δ_u A) x."""
        none = zero(self.space, A.gives)
        if x.op is Op.ZERO:
            return none
        if A.op is Op.SUM:
            return total_of([(0, none), *((c, self.push(B, x)) for c, B in A.terms)])
        if A.op is Op.PRODUCT:
            out = none
            for B in reversed(A.args):
                out = self.push(B, x) + B @ out if out.gives is B.takes else self.push(B, x)
                x = named(B @ x)
            return out
        if A.op is Op.INVERSE:
            return -(A @ self.push(A.args[0], named(A @ x)))
        if A.op is Op.CROSS:
            return -(cross(x) @ self(A.args[0]))
        if A.op is Op.CROSS_FORCE:
            return cross(x).T @ self(A.args[0])
        if A.op is Op.AS_MATRIX:
            return self.push(A.args[0], x)
        if A.op is Op.ADJOINT:
            return self._push_adjoint(A.args[0], A, x)
        if A.op is Op.LEAF:
            return self._push_leaf(A, x)
        if A.op in (Op.IDENTITY, Op.ZERO) or not self.depends(A):
            return none
        raise NoOperatorError(no_operator(A))

    def _push_leaf(self, A: Expr, x: Expr) -> Expr:
        name, none = A.name, zero(self.space, A.gives)
        if name == "M" and self.wrt == "inertia":
            return regress(x)
        if name in CONSTANT:
            return none
        if name in CHANGES:
            return self._push_variation(A, x, forward=True)
        if A.args or A.row.riccati:
            return self._push_compound(A, x)
        by_q = self.wrt == "q"
        if name == "H":
            return dH(x) if by_q else none
        if name == "E_phi":
            return -(E_phi @ cross_force(x) @ H.T) if by_q else none
        if name == "shift":
            return -(A @ cross_force(x) @ _ANGULAR @ H.T) if by_q else none
        if name in ("phi", "phi_tilde"):
            return -(phi @ E_phi @ cross_force(named(phi @ x)) @ H.T) if by_q else none
        if name == "B":
            return dB(x) @ phi.T @ H.T if by_q else none
        if name == "A" and not A.params:
            return dA(x) @ phi.T @ H.T if by_q else none
        if name == "total":
            return -(A @ cross_force(x) @ phi.T @ H.T) if by_q else none
        return self._push_compound(A, x)

    def _push_adjoint(self, core: Expr, A: Expr, x: Expr) -> Expr:
        name, none = core.name, zero(self.space, A.gives)
        if core.op is Op.CROSS:
            return cross_force(x) @ self(core.args[0])
        if core.is_vector:  # a functional: (δy)* x = x* δy
            return x.T @ self(core)
        if name in CONSTANT:
            return none
        if name in CHANGES:
            return self._push_variation(core, x, forward=False)
        if core.args or core.row.riccati:
            return self._push_compound(core, x, flipped=True)
        by_q = self.wrt == "q"
        if name == "H":
            return dHT(x) if by_q else none
        if name == "E_phi":
            return cross(named(A @ x)) @ H.T if by_q else none
        if name == "shift":
            return cross(A @ x) @ _ANGULAR @ H.T if by_q else none
        if name in ("phi", "phi_tilde"):
            moved = named(E_phi.T @ named(phi.T @ x))
            return phi.T @ cross(moved) @ H.T if by_q else none
        if name == "B":
            return dBT(x) @ phi.T @ H.T if by_q else none
        if name == "A" and not core.params:
            return dAT(x) @ phi.T @ H.T if by_q else none
        if name == "total":
            return cross(A @ x) @ phi.T @ H.T if by_q else none
        return self._push_compound(core, x, flipped=True)

    def _push_variation(self, A: Expr, x: Expr, *, forward: bool) -> Expr:
        """Ḣ{u; …}, Ḃ{V; …}, Ȧ{V; …} or their adjoints: by every direction, and by q."""
        hinge = A.name == "Hdot"
        args = A.args or ((v,) if hinge else (V,))
        name = CHANGES[A.name][0 if forward else 1]
        gives = A.gives if forward else A.T.gives
        out = zero(self.space, gives)
        for i, y in enumerate(args):
            inner = self(y)
            if inner.op is not Op.ZERO:
                others = (*args[:i], *args[i + 1 :])
                out = out + with_arguments(name, x, *others, hole=i) @ inner
        if self.wrt != "q":
            return out
        last = with_arguments(name, x, *args)
        return out + (last if hinge else last @ phi.T @ H.T)

    def _push_compound(self, core: Expr, x: Expr, *, flipped: bool = False) -> Expr:
        meaning = definition(core)
        if meaning is None:
            if self.depends(core):
                raise NoOperatorError(no_operator(core))
            return zero(self.space, core.takes.dual if flipped and core.takes else core.gives)
        return self.push(meaning.T if flipped else meaning, x)


def all_leaves(x: Expr) -> set[Expr]:
    """The leaves of x, those in definitions included."""
    out: set[Expr] = set()
    stack = list(leaves_of(x))
    while stack:
        y = stack.pop()
        if y in out:
            continue
        out.add(y)
        meaning = definition(y)
        if meaning is not None:
            stack.extend(leaves_of(meaning))
    return out


def named(x: Expr) -> Expr:
    """φ* H* v by its name V, and nothing else changed."""
    return V if x is _VELOCITY else x


_ANGULAR = catalogue_leaf("angular")
_VELOCITY = product((phi.T, H.T, catalogue_leaf("v")))


def no_operator(x: Expr) -> str:
    """Text for a factor whose change along all of q is no product with u at its right end."""
    return (
        f"the derivative of  {x}  by all of q is no operator of the algebra.\n"
        "Differentiate along one direction instead:  pp.diff(expr, 'q', along='dq')"
    )
