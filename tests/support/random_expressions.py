"""Random well-typed operator expressions, for comparing what is compiled with what is dense.

    from random_expressions import Generator

    x = Generator(rng, points=True).expression()

Everything drawn has an O(N) form: sums, products and adjoints of what is in the catalogue; inverses
of memoryless operators, of W + N with N strictly causal or strictly anticausal, of W + H T X T* H*,
of products of these, and of anything on points; block-diagonal parts of L X R.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

from phipsi import operators as ops
from phipsi.core.expressions.node import Expr, Number, identity, product
from phipsi.core.expressions.spaces import (
    EFFORTS,
    FORCES,
    MOTIONS,
    POINT_FORCES,
    POINT_MOTIONS,
    RATES,
    UNKNOWN,
    WORLD_FORCE,
    WORLD_MOTION,
    Space,
)

Rng = np.random.Generator
T = TypeVar("T")

BODY_SPACES = (RATES, EFFORTS, MOTIONS, FORCES)
POINT_SPACES = (POINT_MOTIONS, POINT_FORCES)

MEMORYLESS = [
    ops.H, ops.M, ops.Jr, ops.R, ops.P, ops.D, ops.G, ops.proj, ops.proj_bar, ops.Upsilon,
]  # fmt: skip
MOVING = [ops.phi, ops.psi, ops.phi_tilde, ops.psi_tilde, ops.E_phi, ops.E_psi]
OTHERS = [ops.K, ops.shift, ops.Omega, ops.mass_matrix, ops.Hdot, ops.D_half]
ON_POINTS = [ops.B, ops.J, ops.Lambda, ops.Bdot]
VECTORS = [ops.v, ops.vdot, ops.tau, ops.a, ops.b, ops.gravity, ops.V, ops.f_ext, ops.c_J]
PAPER_VECTORS = [ops.v, ops.tau, ops.a_paper, ops.b_paper, ops.gravity, ops.V, ops.s_gauge]
TOTALS = [ops.total(identity(FORCES)), ops.total(identity(FORCES), (0.3, -0.2, 0.5))]
NUMBERS: list[Number] = [1, -1, 2, -0.5, 0.75, 3, Fraction(1, 3), Fraction(-5, 2)]


def pick(rng: Rng, items: Sequence[T]) -> T:
    return items[int(rng.integers(len(items)))]


def with_adjoints(leaves: Sequence[Expr]) -> list[Expr]:
    return list(dict.fromkeys([*leaves, *(x.T for x in leaves)]))


class Generator:
    """Draws expressions; `points` says whether B, J, Λ and f0 may occur.

    `independent` says that the points are on different moving bodies, so that operators on points
    such as B* M⁻¹ B can be inverted; `bodies` says that there are any, so that total M total* can.
    """

    def __init__(
        self, rng: Rng, *, points: bool = False, independent: bool = False, bodies: bool = True
    ) -> None:
        self.rng, self.points, self.independent = rng, points, points and independent
        self.bodies = bodies
        self.families = [ops.Riccati()]
        self.families += [ops.Riccati(Jr=0)] if self.chance(0.4) else []
        self.families += [self.family()] if self.chance(0.4) else []
        members = [
            x
            for f in self.families[1:]
            for x in (f.P, f.D, f.G, f.psi, f.psi_tilde, f.K, f.E_psi, f.Omega, f.Upsilon)
        ]
        self.leaves = [*with_adjoints([*MEMORYLESS, *MOVING, *OTHERS]), *with_adjoints(members)]
        self.leaves += with_adjoints(ON_POINTS) * 3 if points else []
        self.blocks = with_adjoints([*MEMORYLESS, self.families[-1].P, self.families[-1].G])
        self.vectors = VECTORS if rng.random() < 0.8 else PAPER_VECTORS
        if points:
            self.vectors = [*self.vectors, ops.f0]

    def pick(self, items: Sequence[T]) -> T:
        return pick(self.rng, items)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def number(self) -> Number:
        return self.pick(NUMBERS)

    # -- Riccati families --------------------------------------------------------------------------

    def core(self) -> Expr:
        """A positive memoryless operator body motions → body forces."""
        return self.pick(
            [
                ops.M, ops.R, ops.P, ops.M + ops.P, 2 * ops.M, 0.5 * ops.R + ops.M,
                ops.M + ops.G @ ops.D @ ops.G.T, ops.bd(ops.psi @ ops.M @ ops.psi.T),
                ops.M + ops.bd(ops.E_phi @ ops.P @ ops.E_phi.T),
            ]
        )  # fmt: skip

    def weight(self) -> Expr | int:
        """A memoryless operator joint rates → joint efforts, at least zero; 0 for none."""
        return self.pick(
            [ops.Jr, ops.D, 0.3 * ops.D + ops.Jr, 2 * ops.Jr, ops.H @ ops.M @ ops.H.T, 0]
        )

    def family(self) -> ops.Riccati:
        """Any instance, also on the ψ of another family."""
        step = self.pick([ops.E_phi, ops.E_phi, ops.E_psi, ops.Riccati(Jr=0).E_psi])
        core = self.pick([ops.M, ops.R, 2 * ops.M, ops.M + ops.R, ops.P])
        return ops.Riccati(ops.H, step, core, self.weight())

    # -- memoryless and one-directional ------------------------------------------------------------

    def memoryless(self, takes: Space, gives: Space) -> Expr:
        """A memoryless product between two spaces."""
        while True:
            factors = [self.pick([x for x in self.blocks if x.gives is gives])]
            for _ in range(4):
                if factors[-1].takes is takes and self.chance(0.6):
                    break
                factors.append(self.pick([x for x in self.blocks if x.gives is factors[-1].takes]))
            if factors[-1].takes is takes:
                return product(factors)

    def invertible_block(self, takes: Space, gives: Space) -> Expr:
        """A memoryless operator with an inverse, between two spaces of the same size."""
        if takes is gives:
            return self.pick([1, 2, -0.5]) * identity(takes)
        options = {
            (RATES, EFFORTS): [ops.D, ops.D + ops.Jr, ops.H @ ops.M @ ops.H.T, ops.D.inv.inv],
            (EFFORTS, RATES): [ops.D.inv, (2 * ops.D).inv],
            (MOTIONS, FORCES): [ops.M, ops.R, ops.P, ops.P + ops.M],
            (FORCES, MOTIONS): [ops.M.inv, ops.R.inv, (ops.M + ops.R).inv],
        }
        return self.pick(options[takes, gives])

    def mover(self) -> Expr:
        """One of φ, ψ, φ̃, ψ̃, E_φ, E_ψ, perhaps of another family."""
        f = self.pick(self.families)
        return self.pick([*MOVING, f.psi, f.psi_tilde, f.E_psi])

    def strict(self, space: Space) -> Expr:
        """A strictly causal (on forces, efforts) or anticausal operator from a space to itself."""
        if space in (RATES, MOTIONS):
            return self.strict(space.dual).T
        f = self.pick(self.families)
        moving = [
            self.pick([ops.phi_tilde, ops.psi_tilde, ops.E_phi, ops.E_psi, f.psi_tilde, ops.shift])
        ]
        while self.chance(0.35) and len(moving) < 3:
            other = self.pick([ops.phi, ops.psi, f.psi, self.memoryless(FORCES, FORCES)])
            moving.insert(int(self.rng.integers(len(moving) + 1)), other)
        if space is EFFORTS:
            moving = [ops.H, *moving, f.G] if self.chance(0.7) else [ops.H, ops.psi, ops.K]
        return product(moving)

    # -- inverses ----------------------------------------------------------------------------------

    def inverse(self, gives: Space) -> Expr:
        """An inverse that has an O(N) form, giving `gives`."""
        if gives in POINT_SPACES:
            return self.point_inverse() if gives is POINT_FORCES else identity(gives)
        if gives is WORLD_MOTION:
            total = self.pick(TOTALS)
            return (total @ self.core() @ total.T).inv
        kind = self.rng.random()
        if kind < 0.2:  # memoryless
            takes = self.pick([gives, {RATES: EFFORTS, MOTIONS: FORCES}.get(gives, gives.dual)])
            return self.invertible_block(gives, takes).inv
        if kind < 0.45:
            return self.triangular(gives, gives).inv
        if gives is RATES and kind < 0.75:
            return self.mass().inv
        if kind < 0.85:  # products
            pieces = [self.triangular(gives, gives)]
            if gives is RATES:
                pieces.insert(0, self.mass())
            elif gives is EFFORTS:
                pieces += [self.mass(), ops.D.inv]
            elif gives is MOTIONS:
                pieces.insert(0, self.pick([ops.phi @ ops.M @ ops.phi.T, ops.psi @ ops.R]))
            else:
                pieces.insert(0, self.pick([ops.phi, ops.psi, self.families[-1].psi]))
            return product(pieces).inv
        transition = self.pick([ops.phi, ops.psi, self.families[-1].psi])
        if gives is FORCES:
            return transition.inv
        if gives is MOTIONS:
            return self.pick([transition.T.inv, (transition @ ops.M @ transition.T).inv])
        return self.triangular(gives, gives).inv

    def triangular(self, takes: Space, gives: Space) -> Expr:
        """W + N."""
        weight = self.invertible_block(takes, gives)
        out = weight + self.pick([0.5, -0.5, 1, 2]) * (self.strict(gives) @ weight)
        if self.chance(0.3):
            out = out + self.number() * (self.strict(gives) @ weight)
        return out

    def mass(self) -> Expr:
        """W + H T X T* H*."""
        transition = self.pick([ops.phi, ops.phi, ops.psi, self.families[-1].psi])
        out = ops.H @ transition @ self.core() @ transition.T @ ops.H.T
        weight = self.weight()
        out = out if isinstance(weight, int) else out + weight
        return self.pick([out, out, out, ops.mass_matrix, ops.mass_matrix + ops.D, 2 * out])

    def point_inverse(self) -> Expr:
        """Of a positive operator point forces → point motions."""
        inside = self.pick(
            [ops.M.inv, ops.phi.T @ ops.M.inv @ ops.phi, ops.M.inv + ops.Omega, ops.R.inv]
        )
        out = ops.B.T @ inside @ ops.B
        return (out + 0.5 * ops.Lambda if self.chance(0.4) else out).inv

    # -- block-diagonal parts ----------------------------------------------------------------------

    def inside_bd(self) -> Expr:
        """L X R with at most one transition operator each in L and R."""
        left, right = self.mover(), self.mover()
        kind = self.rng.random()
        if kind < 0.35:
            return left @ self.memoryless(MOTIONS, FORCES) @ right.T
        if kind < 0.7:
            return left.T @ self.memoryless(FORCES, MOTIONS) @ right
        if kind < 0.8:
            return left @ self.memoryless(FORCES, FORCES) @ right
        if kind < 0.9:
            return left.T @ self.memoryless(MOTIONS, MOTIONS) @ right.T
        return self.pick(
            [left @ self.memoryless(MOTIONS, FORCES), left.T, ops.mass_matrix, ops.Omega]
        )

    def diagonal(self, gives: Space) -> Expr:
        """bd of a sum of L X R, made to give `gives`."""
        x = self.inside_bd()
        if self.chance(0.4):
            x = self.memoryless(x.gives, self.pick(BODY_SPACES)) @ x
        if self.chance(0.4):
            x = x @ self.memoryless(self.pick(BODY_SPACES), x.takes)
        if self.chance(0.3):
            x = x + self.number() * self.memoryless(x.takes, x.gives)
        out = ops.bd(x)
        return out if out.gives is gives else self.memoryless(out.gives, gives) @ out

    # -- factors and products ----------------------------------------------------------------------

    def factor(self, gives: Space, depth: int = 1) -> Expr:
        """A factor that gives `gives`: mostly a leaf, sometimes something built."""
        if gives is WORLD_FORCE:
            return self.pick(TOTALS)
        if gives is WORLD_MOTION:
            return self.inverse(gives)
        if gives is POINT_FORCES:
            # nothing of the catalogue gives point forces except the inverse of a point operator
            return self.inverse(gives) if self.independent else identity(gives)
        kind = self.rng.random() if depth > 0 else 1.0
        if gives in BODY_SPACES:
            if kind < 0.12:
                return self.inverse(gives)
            if kind < 0.2:
                return self.diagonal(gives)
            if kind < 0.22:
                return self.strict(gives) + self.number() * identity(gives)
            if gives is MOTIONS and kind < 0.26:
                return ops.cross(self.vector(MOTIONS, 1))
            if gives is FORCES and kind < 0.26:
                return ops.cross(self.vector(MOTIONS, 1)).T
        choices = [x for x in self.leaves if x.gives is gives]
        x = self.pick(choices)
        if kind < 0.36:
            if x.takes is gives:
                x = x + self.number() * identity(gives)
                return x**2 if self.chance(0.2) else x
            others = [y for y in choices if y.takes is x.takes and y is not x]
            return x + self.number() * self.pick(others) if others else x
        return x

    def chain(self, gives: Space, length: int, depth: int = 1) -> Expr:
        """A product of about `length` factors that takes a body space or points."""
        factors = [self.factor(gives, depth)]
        while len(factors) < length or factors[-1].takes not in (*BODY_SPACES, *POINT_SPACES):
            space = factors[-1].takes
            assert space is not None
            if space is POINT_FORCES and not self.independent:
                break
            factors.append(self.factor(space, depth))
        return product(factors)

    def vector(self, gives: Space, length: int = 3) -> Expr:
        """A product that ends with a vector of the catalogue."""
        factors: list[Expr] = []
        space = gives
        while True:
            fitting = [u for u in self.vectors if u.gives is space]
            if fitting and len(factors) >= length:
                return product([*factors, self.pick(fitting)])
            factors.append(self.factor(space, 0))
            space = factors[-1].takes

    def log_det(self) -> Expr:
        return ops.logdet(self.pick([self.mass(), self.family().D, ops.M, ops.R, ops.D + ops.Jr]))

    # -- whole expressions -------------------------------------------------------------------------

    def expression(self, most: int = 10) -> Expr:
        """An operator, a functional, a vector or a scalar."""
        spaces = [*BODY_SPACES, *BODY_SPACES]
        spaces += [WORLD_FORCE] if self.bodies else []
        if self.points:
            spaces += [POINT_MOTIONS] * 3 + [POINT_FORCES] * (2 * self.independent)
        gives = self.pick(spaces)
        x = self.chain(gives, int(self.rng.integers(1, most + 1)))
        kind = self.rng.random()
        if kind < 0.3:
            x = self.as_vector(x)
        elif kind < 0.55:
            x = self.with_another_term(x)
        elif kind < 0.6:
            x = self.vector(gives.dual, 1).T @ x  # a functional
        elif kind < 0.63:
            x = self.vector(gives, 1) @ self.vector(self.pick(BODY_SPACES), 1).T  # of rank one
        if self.chance(0.1) and x.takes is not UNKNOWN and not x.is_vector:
            x = x.T
        return x if self.chance(0.8) else self.number() * x

    def as_vector(self, x: Expr) -> Expr:
        gives = x.gives
        x = x @ self.vector(x.takes, 0)
        if self.chance(0.4):
            x = x + self.number() * self.vector(gives, int(self.rng.integers(1, 5)))
        if self.chance(0.25):
            x = self.vector(gives.dual, 1).T @ x if gives.dual is not WORLD_MOTION else x
            if x.is_scalar and self.chance(0.3):
                x = x + self.number() * self.log_det()
        return x

    def with_another_term(self, x: Expr) -> Expr:
        for _ in range(20):
            y = self.chain(x.gives, int(self.rng.integers(1, 6)))
            if y.takes is x.takes:
                return x + self.number() * y
        return x
