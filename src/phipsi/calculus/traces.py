"""Gradients through memoryless operators: tr(Z δA) handed on to what A is made of.

Blocks go back the way their recursions came. S = X + E₁ S E₂* hands tr(Z δS) on as

    tr(Y δX) + tr(S E₂* Y δE₁) + tr(Y E₁ S δE₂*),     Y = Z + bd(E₂* Y E₁) = bd(T₂* Z T₁),

a recursion in the other direction, and P = M + E P⁺ E*, which is stationary in the gain, does as
if its E were E_ψ: with Y = bd(ψ* Z ψ) and Y' = bd(E* Y E)

    tr(Z δP) = tr(Y δM) + 2 tr(P⁺ E* Y δE) + tr(G* Y' G δJr) − 2 tr(P π̄* Y' G δH).

The step of every body to its parent has δE_φ = −E_φ cross(s)*, whose trace is a vee.
[theory/sensitivities 6 (E15), read backwards]
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from phipsi.calculus.directional import CONSTANT, log_det_family, no_trace
from phipsi.calculus.tangent import VARIABLES, Tangent
from phipsi.errors import SpaceError
from phipsi.expressions.node import (
    Expr,
    Number,
    block_diagonal,
    dH_trace,
    half,
    identity,
    inertia_trace,
    outer,
    product,
    total_of,
    vee,
    vee_force,
)
from phipsi.expressions.row import Op
from phipsi.expressions.structure import (
    Structure,
    is_anticausal,
    is_causal,
    is_memoryless,
    is_strict,
)
from phipsi.operators.catalogue import catalogue_leaf
from phipsi.operators.definitions import Riccati, definition, family_of, transition_step, v
from phipsi.rewrite.collect import positive
from phipsi.rewrite.primitive import Factors, expanded_products
from phipsi.rewrite.steps import ONE_STEP, TRANSITIONS, diagonal_part, one_step_factors

Terms = list[tuple[Number, Expr]]
_ANGULAR = catalogue_leaf("angular")


class Blocks:
    """The state of one gradient, and what it does with memoryless operators.

    `terms` are parts of the gradient, `relative` and `motion` what s = H* u and φ* s are multiplied
    by. Named vectors and blocks wait until all that is made of them has handed on its part.
    """

    RICCATI = ("P", "D", "G", "D_half")

    def __init__(self, wrt: str) -> None:
        self.wrt, self.space = wrt, VARIABLES[wrt]
        self.depends = lru_cache(None)(Tangent(wrt).depends)
        self.terms: Terms = []
        self.relative: Terms = []
        self.motion: Terms = []
        self._waiting: dict[Expr, Terms] = {}

    def vector(self, z: Expr, w: Expr) -> None:
        """Hand on w* δz; defined by the class that knows vectors."""
        raise AssertionError(f"{z} needs the rules for vectors")

    def wait(self, x: Expr, weight: Expr) -> None:
        """Hand on x later, with everything else that it is multiplied by."""
        self._waiting.setdefault(x, []).append((1, weight))

    def settle(self) -> None:
        """Hand on what waits; what is made of the most comes first."""
        while self._waiting:
            x = max(self._waiting, key=lambda y: (height(y), str(y)))
            weight = gathered(self._waiting.pop(x))
            if x.is_vector:
                meaning = definition(x)
                assert meaning is not None
                self.vector(meaning, weight)
            elif x.op is Op.BD:
                for c, factors in expanded_products(x.args[0]):
                    self._diagonal(factors, c * weight, x)
            else:
                self._named(x, weight)

    # -- tr(Z δA) ----------------------------------------------------------------------------------

    def blocks(self, A: Expr, Z: Expr) -> None:
        """Hand on tr(Z δA), A and Z memoryless."""
        if Z.op is Op.ZERO or not self.depends(A):
            return
        if A.op is Op.SUM:
            for c, B in A.terms:
                self.blocks(B, c * Z)
        elif A.op is Op.PRODUCT:
            for i, B in enumerate(A.args):
                self.blocks(B, product((*A.args[i + 1 :], Z, *A.args[:i])))
        elif A.op is Op.ADJOINT:
            self.blocks(A.args[0], Z.T)
        elif A.op is Op.INVERSE:
            self.blocks(A.args[0], -(A @ Z @ A))
        elif A.op is Op.AS_MATRIX:
            self.blocks(A.args[0], Z)
        elif A.op is Op.HALF:
            self.blocks(A.args[0], half(Z.T).T)
        elif A.op is Op.CROSS:
            self.vector(A.args[0], vee(Z))
        elif A.op is Op.CROSS_FORCE:
            self.vector(A.args[0], vee_force(Z))
        elif A.op is Op.INERTIA_OF:
            self.vector(A.args[0], inertia_trace(Z))
        elif A.op is Op.OUTER:
            self.vector(A.args[0], Z.T @ A.args[1])
            self.vector(A.args[1], Z @ A.args[0])
        elif A.op is Op.BD or A.op is Op.LEAF:
            if A.name not in CONSTANT or (A.name == "M" and self.wrt == "inertia"):
                self.wait(A, Z)
        else:
            raise SpaceError(no_gradient(A))

    def _named(self, A: Expr, Z: Expr) -> None:
        if A.name == "M":
            self.terms.append((1, inertia_trace(Z)))
        elif A.name == "H":
            self.terms.append((1, dH_trace(Z)))
        elif A.name == "Hdot":
            self.hinge_blocks(Z, list(A.args or (v,)))
        elif A.name == "P":
            self._articulated(family_of(A), Z)
        elif A.name == "D":
            f = family_of(A)
            self.blocks(f.H @ f.P @ f.H.T + f.Jr, Z)
        elif A.name == "G":
            f = family_of(A)
            self.blocks(f.P @ f.H.T @ f.D.inv, Z)
        elif A.name == "D_half":  # δL = L half(L⁻¹ δD L⁻*)
            self.blocks(family_of(A).D, A.T.inv @ half((Z @ A).T).T @ A.inv)
        elif (meaning := definition(A)) is not None:
            self.blocks(meaning, Z)
        else:
            raise SpaceError(no_gradient(A))

    def hinge_blocks(self, Z: Expr, directions: list[Expr], fixed: int | None = None) -> None:
        """Hand on tr(Z Ḣ{directions}), Z held; so is the direction at the place `fixed`."""
        if self.wrt == "q":
            self.terms.append((1, dH_trace(Z, *directions)))
        for i, y in enumerate(directions):
            if i != fixed and self.depends(y):
                others = (*directions[:i], *directions[i + 1 :])
                self.vector(y, dH_trace(Z, *others, hole=i))

    def _articulated(self, f: Riccati, Z: Expr) -> None:
        assert isinstance(f.Jr, Expr)
        Z = Fraction(1, 2) * (Z + Z.T) if Z.T is not Z else Z
        Y = block_diagonal(f.psi.T @ Z @ f.psi)
        above = block_diagonal(f.E.T @ Y @ f.E)
        self.blocks(f.M, Y)
        self.blocks(f.Jr, f.G.T @ above @ f.G)
        self.blocks(f.H, -2 * (f.P @ f.proj_bar.T @ above @ f.G))
        self._step(f.E, 2 * (f.proj_bar @ f.P), f.E, Y)

    def log_det(self, z: Expr, w: Expr) -> None:
        """δ log det ℳ = tr(D⁻¹ δD)."""
        f = log_det_family(z)
        number = {0: 0, 1: 1}.get(w.op is Op.IDENTITY)
        if w.op is Op.SUM and len(w.args) == 1 and w.args[0].op is Op.IDENTITY:
            number = w.data[0]
        if not number:
            raise SpaceError(no_trace(z))
        self.blocks(f.D, number * f.D.inv)

    # -- bd(…) -------------------------------------------------------------------------------------

    def _diagonal(self, factors: Factors, Z: Expr, whole: Expr) -> None:
        """tr(Z δ bd(product)), peeled from both ends as it is computed."""
        key = product(factors) if factors else identity(Z.takes)
        if is_strict(key.structure) or not self.depends(key):
            return
        if is_memoryless(key.structure):
            self.blocks(key, Z)
            return
        first, last = factors[0], factors[-1]
        if is_memoryless(first.structure):
            rest = block_diagonal(product(factors[1:]))
            self.blocks(first, rest @ Z)
            self._diagonal(factors[1:], Z @ first, whole)
        elif is_memoryless(last.structure):
            rest = block_diagonal(product(factors[:-1]))
            self.blocks(last, Z @ rest)
            self._diagonal(factors[:-1], last @ Z, whole)
        elif is_causal(key.structure) or is_anticausal(key.structure):
            part = diagonal_part(key)
            if part is None:
                raise SpaceError(no_gradient(whole))
            self.blocks(part, Z)
        else:
            self._ends(first, product(factors[1:-1]), last, Z, whole)

    def _ends(self, first: Expr, X: Expr, last: Expr, Z: Expr, whole: Expr) -> None:
        """tr(Z δS) of S = bd(T₁ X T₂*), or of bd(T₁* X T₂); bd(E₁ X T₂*) is E₁ X E₂*."""
        inward = is_causal(first.structure)
        left, right = (first, last.T) if inward else (first.T, last)
        both = all(y.name in TRANSITIONS for y in (left, right))
        if all(y.name in ONE_STEP for y in (left, right)) and not (
            inward and X.structure & Structure.UNRELATED
        ):
            X = block_diagonal(X)
        if not is_memoryless(X.structure) or not all(
            y.name in (*ONE_STEP, *TRANSITIONS) for y in (left, right)
        ):
            raise SpaceError(no_gradient(whole))
        S, Y = X, Z
        E1, E2 = (transition_step(y) if y.name in TRANSITIONS else y for y in (left, right))
        if both:
            S = block_diagonal(first @ X @ last)
            Y = block_diagonal(right.T @ Z @ left if inward else right @ Z @ left.T)
            self.blocks(X, Y)
        elif inward:
            self.blocks(X, block_diagonal(E2.T @ Z @ E1))
        else:
            self.blocks(X, block_diagonal(E2 @ Z @ E1.T))
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
        before, step, after = one_step_factors(E)
        one = identity(step.takes)
        a, b = before or one, after or one
        if before is not None:
            self.blocks(before, block_diagonal(step @ b @ A @ F.T) @ C)
        if after is not None:
            self.blocks(after, A @ block_diagonal(F.T @ C @ a @ step))
        if self.wrt != "q":
            return
        turned = -vee(block_diagonal(step.T @ a.T @ C.T @ F) @ A.T @ b.T)
        self.relative.append((1, turned if step.name == "E_phi" else _ANGULAR.T @ turned))


def gathered(terms: Terms) -> Expr:
    """Σ of the terms, with outer(x; y) + outer(x; z) as outer(x; y + z), and so on the left."""
    flat = total_of(terms).terms
    out = [(c, y) for c, y in flat if y.op is not Op.OUTER]
    by_left: dict[Expr, Terms] = {}
    for c, y in flat:
        if y.op is Op.OUTER:
            by_left.setdefault(y.args[0], []).append((c, y.args[1]))
    by_right: dict[Expr, Terms] = {}
    for x, parts in by_left.items():
        sign, y = positive(total_of(parts))
        by_right.setdefault(y, []).append((sign, x))
    out += [(1, outer(total_of(parts), y)) for y, parts in by_right.items()]
    return total_of(out)


@lru_cache(maxsize=2**14)
def height(x: Expr) -> int:
    """More than that of anything x is made of, through definitions and recursions."""
    parts = list(x.args)
    if x.op is Op.LEAF and x.row.riccati:
        f = family_of(x)
        assert isinstance(f.Jr, Expr)
        made_of = {"P": (f.H, f.E, f.M, f.Jr), "D": (f.P,), "D_half": (f.D,), "G": (f.P, f.D)}
        parts += made_of.get(x.name, (f.G,) if x.name == "psi" else ())
    meaning = definition(x) if x.op is Op.LEAF else None
    if meaning is not None:
        parts.append(meaning)
    if x.op is Op.LEAF and not x.args and x.name in ("Hdot", "Bdot"):
        parts.append(catalogue_leaf("V"))
    return 1 + max(map(height, parts), default=0)


def no_gradient(x: Expr) -> str:
    """Text for something whose change cannot be handed on."""
    return (
        f"no gradient is known through  {x}.\n"
        "Differentiate along directions instead:  pp.diff(expr, 'q', along='dq')"
    )
