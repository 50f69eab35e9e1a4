"""δX: the change of an expression along one direction of q, v, … — again an expression.

The rows of the leaves say how they change. All nodes except inverses and log det are linear in each
of their parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phipsi.core.calculus.change import log_det_change, no_formula_rule, no_rule
from phipsi.core.expressions import (
    MOTIONS,
    ONE,
    PARAMETERS,
    RATES,
    Expr,
    Op,
    cross,
    is_memoryless,
    rebuild,
    rigid_cross,
    total_of,
    zero,
)
from phipsi.core.operators import (
    BodyFunction,
    H,
    definition,
    definition_with_modes,
    family_of,
    phi,
    place_of,
    with_arguments,
)
from phipsi.errors import SpaceError


class Directional:
    """Changes of expressions along one direction, each derived once.

    `along` maps what changes to its change: "q" to a vector of joint rates, and names of inputs
    ("v", "tau", …) to vectors of their own space. All others do not change. `modal`: bodies may
    have modes.
    """

    def __init__(self, along: Mapping[str, Expr], modal: bool = False) -> None:
        self.along = dict(along)
        self.rates = self.along.pop("q", zero(ONE, RATES))
        self.relative = H.T @ self.rates
        self.motion = phi.T @ self.relative
        self.modes = self.relative if modal else zero(ONE, MOTIONS)
        self.cross = rigid_cross if modal else cross
        self._definition = definition_with_modes if modal else definition
        self.parameters = self.along.get("inertia", zero(ONE, PARAMETERS))
        self._variables = set(along)
        self._done: dict[Expr, Expr] = {}

    def __call__(self, x: Expr) -> Expr:
        """δx, in the spaces of x."""
        if x not in self._done:
            self._done[x] = self._change(x)
        return self._done[x]

    def _change(self, x: Expr) -> Expr:
        if x.op is Op.LEAF:
            return self._leaf(x)
        if x.op is Op.SUM:
            return total_of([(0, x), *((c, self(y)) for c, y in x.terms)])
        if x.op is Op.INVERSE:
            return -(x @ self(x.args[0]) @ x)
        if x.op is Op.LOGDET:
            return log_det_change(x, self)
        if x.op is Op.AS_MATRIX:
            return self(x.args[0])
        if isinstance(x.function, BodyFunction):
            return self._formula(x)
        terms: list[tuple[int, Expr]] = [(0, x)]
        for i, y in enumerate(x.args):
            change = self(y)
            if change.op is not Op.ZERO:
                terms.append((1, rebuild(x, (*x.args[:i], change, *x.args[i + 1 :]))))
        if x.function is not None and x.function.differential is not None:
            terms.append((1, x.function.differential(x, self)))
        return total_of(terms)

    def _formula(self, x: Expr) -> Expr:
        """The change of a formula, linear in those of its arguments."""
        changes = [self(y) for y in x.args]
        if all(dy.op is Op.ZERO for dy in changes):
            return zero(x.takes, x.gives)
        for y, dy in zip(x.args, changes, strict=True):
            if dy.op is not Op.ZERO and not y.is_vector and not is_memoryless(dy.structure):
                raise SpaceError(no_formula_rule(x, y))
        return x.function.change(x.args, changes)  # type: ignore[union-attr]

    def _leaf(self, x: Expr) -> Expr:
        if x.name in self.along:
            return self.along[x.name]
        if x.row.differential is not None:
            return x.row.differential(x, self)
        meaning = self._definition(x)
        if meaning is not None:
            return self(meaning)
        if self._variables.intersection(x.row.needs):
            raise SpaceError(no_rule(x))
        return zero(x.takes, x.gives)


def substitute(x: Expr, values: Mapping[Expr, Expr]) -> Expr:
    """x with parts replaced by expressions of the same spaces, also inside leaves, all at once."""
    done: dict[Expr, Expr] = dict(values)

    def change(y: Expr) -> Expr:
        if y not in done:
            done[y] = with_parts(y, [change(z) for z in y.args])
        return done[y]

    return change(x)


def with_parts(x: Expr, args: Sequence[Expr]) -> Expr:
    """x with other parts; the operators of a family and the vectors in braces are parts too."""
    if all(new is old for new, old in zip(args, x.args, strict=True)):
        return x
    if x.op is not Op.LEAF:
        return rebuild(x, args)
    if x.row.riccati:
        return type(family_of(x))(*args).leaf(x.name)
    return with_arguments(x.name, *args, hole=place_of(x))
