"""The gradient of c* y by q (or v, τ, …, the inertial parameters): the adjoint of a derivative.

Where δy is no product with the direction at its right end, because y has P, D, G, ψ or bd(…) in it,
the derivative is no operator of the algebra; but its adjoint applied to a vector c is a vector of
it. What c* y depends on is visited from the outside in, every part once, with what its change is
multiplied by:

    vector z      with w:      w* δz
    operator A    with l, x:   l* (δA) x
    blocks A      with Z:      tr(Z δA),  A and Z memoryless;  l* (δA) x  is that with  x(k) l(k)*

Operators between two vectors need no more than the rules of `tangent`, read from the other end; the
rules for blocks are in `traces`.
"""

from __future__ import annotations

from phipsi.calculus.directional import CONSTANT, no_rule
from phipsi.calculus.tangent import CHANGES, named
from phipsi.calculus.traces import Blocks, no_gradient
from phipsi.errors import SpaceError
from phipsi.expressions.node import (
    Expr,
    cross,
    cross_force,
    inertia_of,
    outer,
    regress,
    total_of,
    zero,
)
from phipsi.expressions.row import Op
from phipsi.expressions.spaces import ONE
from phipsi.operators.catalogue import catalogue_leaf
from phipsi.operators.definitions import E_phi, H, V, definition, family_of, phi, v
from phipsi.operators.variations import HOLED, hinge_variation, hole_of, with_arguments

_ANGULAR = catalogue_leaf("angular")


class Gradient(Blocks):
    """One gradient by one variable."""

    def __call__(self, y: Expr, c: Expr) -> Expr:
        """The gradient of c* y, of c in the dual space of y."""
        self.vector(y, c)
        self.settle()
        if self.motion:
            self.relative.append((1, phi @ total_of(self.motion)))
        if self.relative:
            self.terms.append((1, H @ total_of(self.relative)))
        return total_of([(0, zero(ONE, self.space.dual)), *self.terms])

    # -- w* δz -------------------------------------------------------------------------------------

    def vector(self, z: Expr, w: Expr) -> None:
        """Hand on w* δz."""
        if z.name == self.wrt:
            self.terms.append((1, w))
        elif w.op is Op.ZERO or not self.depends(z):
            return
        elif z.op is Op.SUM:
            for c, y in z.terms:
                self.vector(y, c * w)
        elif z.op is Op.PRODUCT:
            self.vector(z.args[-1], self._between(w, z.args[:-1], z.args[-1]))
        elif z.op is Op.INVERSE:  # of a number
            self.vector(z.args[0], -(z @ z @ w))
        elif z.op is Op.LOGDET:
            self.log_det(z, w)
        elif z.op is Op.VEE:
            self.blocks(z.args[0], cross(w))
        elif z.op is Op.VEE_FORCE:
            self.blocks(z.args[0], cross_force(w))
        elif z.op is Op.INERTIA_TRACE:
            self.blocks(z.args[0], inertia_of(w))
        elif z.op is Op.DH_TRACE:
            self._dH_trace(z, w)
        elif z.name == "gravity":
            self.relative.append((1, cross(z).T @ w))
        elif definition(z) is not None:
            self.wait(z, w)
        else:
            raise SpaceError(no_rule(z) if z.op is Op.LEAF else no_gradient(z))

    def _between(self, left: Expr, factors: tuple[Expr, ...], right: Expr) -> Expr:
        """Hand on every factor of left* A₁ … Aₙ right, and return (A₁ … Aₙ)* left."""
        rights = [right]
        for A in reversed(factors):
            rights.append(named(A @ rights[-1]))
        for A, x in zip(factors, reversed(rights[:-1]), strict=True):
            self.operator(left, A, x)
            left = A.T @ left
        return left

    def _dH_trace(self, z: Expr, w: Expr) -> None:
        """w* z = tr(Ḣ{…; w} X), w at the place of the free direction."""
        X, *others = z.args
        place = len(others) if z.data is None else z.data
        directions = [*others[:place], w, *others[place:]]
        self.blocks(X, hinge_variation(*directions))
        self.hinge_blocks(X, directions, fixed=place)

    # -- l* (δA) x ---------------------------------------------------------------------------------

    def operator(self, left: Expr, A: Expr, x: Expr) -> None:
        """Hand on left* (δA) x."""
        if Op.ZERO in (left.op, x.op) or not self.depends(A):
            return
        if A.is_vector:  # times the number x
            self.vector(A, left @ x)
        elif A.op is Op.SUM:
            for c, B in A.terms:
                self.operator(c * left, B, x)
        elif A.op is Op.PRODUCT:
            self._between(left, A.args, x)
        elif A.op is Op.INVERSE:
            self.operator(-(A.T @ left), A.args[0], named(A @ x))
        elif A.op is Op.ADJOINT:
            self.operator(x, A.args[0], left)
        elif A.op is Op.AS_MATRIX:
            self.operator(left, A.args[0], x)
        elif A.op is Op.CROSS:
            self.vector(A.args[0], -(cross(x).T @ left))
        elif A.op is Op.CROSS_FORCE:
            self.vector(A.args[0], cross(x) @ left)
        elif A.op is Op.REGRESS:
            self.vector(A.args[0], inertia_of(x) @ left)
        elif A.op is Op.INERTIA_OF:
            self.vector(A.args[0], regress(x).T @ left)
        elif A.op is Op.OUTER:
            self.vector(A.args[0], outer(left, x) @ A.args[1])
            self.vector(A.args[1], outer(x, left) @ A.args[0])
        elif A.op is Op.LEAF:
            self._leaf(left, A, x)
        else:
            self.blocks(A, outer(x, left))

    def _leaf(self, left: Expr, A: Expr, x: Expr) -> None:
        name = A.name
        if name == "M" and self.wrt == "inertia":
            self.terms.append((1, regress(x).T @ left))
        elif name in CONSTANT:
            return
        elif name == "H":
            self.terms.append((1, with_arguments("dH", x).T @ left))
        elif name == "E_phi":
            self.relative.append((1, cross_force(x) @ E_phi.T @ left))
        elif name == "shift":
            self.relative.append((1, _ANGULAR.T @ cross_force(x) @ A.T @ left))
        elif name == "phi":
            self.operator(phi.T @ left, E_phi, named(phi @ x))
        elif name == "total":
            self.motion.append((1, cross_force(x) @ A.T @ left))
        elif name == "B" and not A.params:
            self.motion.append((1, with_arguments("dB", x).T @ left))
        elif name == "Hdot":
            self._hinge(left, A.args or (v,), x)
        elif name == "A" and not A.params:
            self.motion.append((1, with_arguments("dA", x).T @ left))
        elif name in ("Bdot", "Adot"):
            self._moving(name, left, A.args or (V,), x)
        elif name in HOLED:
            self._holed(left, A, x)
        elif name == "psi":
            self.operator(A.T @ left, family_of(A).E_psi, A @ x)
        elif name in self.RICCATI:
            self.blocks(A, outer(x, left))
        elif (meaning := definition(A)) is not None:
            self.operator(left, meaning, x)
        else:
            raise SpaceError(no_rule(A))

    # -- how H and B change: forms that are linear in every vector ---------------------------------

    def _hinge(
        self, left: Expr, directions: tuple[Expr, ...], f: Expr, fixed: int | None = None
    ) -> None:
        """Hand on left* Ḣ{directions} f; the direction at the place `fixed` does not change."""
        if self.wrt == "q":
            self.terms.append((1, with_arguments("dH", f, *directions).T @ left))
        for i, y in enumerate(directions):
            if i != fixed and self.depends(y):
                others = (*directions[:i], *directions[i + 1 :])
                self.vector(y, with_arguments("dH", f, *others, hole=i).T @ left)

    def _moving(
        self, name: str, left: Expr, motions: tuple[Expr, ...], f: Expr, fixed: int | None = None
    ) -> None:
        """Hand on left* Ḃ{motions} f or left* Ȧ{motions} f; the motion at `fixed` is held."""
        holed = CHANGES[name][0]
        if self.wrt == "q":
            self.motion.append((1, with_arguments(holed, f, *motions).T @ left))
        for i, y in enumerate(motions):
            if i != fixed and self.depends(y):
                others = (*motions[:i], *motions[i + 1 :])
                self.vector(y, with_arguments(holed, f, *others, hole=i).T @ left)

    def _holed(self, left: Expr, A: Expr, x: Expr) -> None:
        """dHT{z; …} x and the like: the same forms, with x at the free place."""
        z, *others = A.args
        place = hole_of(A)
        directions = (*others[:place], x, *others[place:])
        name, forward = next(
            (n, A.name == pair[0]) for n, pair in CHANGES.items() if A.name in pair
        )
        change = with_arguments(name, *directions)
        ends = (left, z) if forward else (z, left)
        if name == "Hdot":
            self._hinge(ends[0], directions, ends[1], place)
        else:
            self._moving(name, ends[0], directions, ends[1], place)
        self.vector(z, (change.T if forward else change) @ left)
