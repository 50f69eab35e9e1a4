"""The one expression node: immutable, interned (equal means identical), typed by spaces.

Nothing is computed here. `@`, `+`, `-`, scalar multiples, `.T`, `.inv` and `**` build nodes; the
constructors keep sums and products flat, push adjoints to the leaves, pull scalars out of products
and reject spaces that do not fit. The meaning of a leaf stands in its catalogue row.

Reasons: docs/decisions/0006.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from operator import index
from threading import RLock
from typing import Any, cast
from weakref import WeakValueDictionary

from phipsi.core.expressions import check, render
from phipsi.core.expressions.check import shown
from phipsi.core.expressions.coefficients import Number, as_number, int_if_whole, reciprocal, times
from phipsi.core.expressions.kinds import Op
from phipsi.core.expressions.manipulation import Manipulable
from phipsi.core.expressions.row import Row, row_of
from phipsi.core.expressions.scoped_cache import cached_in_scope
from phipsi.core.expressions.spaces import ONE, UNKNOWN, Space
from phipsi.core.expressions.structure import (
    GENERAL,
    MEMORYLESS,
    Structure,
    adjoint_structure,
    inverse_structure,
    is_memoryless,
    product_structure,
    sum_structure,
)
from phipsi.errors import InputError, LoweringError, SpaceError, not_too_deep

MOST_NODES = 100_000
"""The most operations and operators in one expression, written out."""
SELECTABLE = ("A", "B", "J", "Lambda")
"""Leaves that can be restricted to the points of a selection of bodies."""


class Expr(Manipulable):
    """An operator expression ``takes → gives``; a vector is an operator from the scalars.

    Expressions are immutable, and equal ones are the same object. They are combined with @, +, −,
    `T` and `inv`; nothing is computed. `takes` and `gives` are UNKNOWN for an identity or zero
    whose space is not determined yet.

    Examples
    --------
    >>> from phipsi.operators import H, phi
    >>> print((H @ phi).T)
    φ* H*
    """

    __slots__ = (
        "__weakref__", "_keys", "args", "data", "gives", "op", "size", "structure", "takes",
    )  # fmt: skip
    __array_ufunc__ = None  # NumPy arrays must not swallow us elementwise

    op: Op
    args: tuple[Expr, ...]
    data: Any
    takes: Space
    gives: Space
    structure: Structure
    size: int
    _keys: dict[str, str]

    # -- kind of node --------------------------------------------------------------

    @property
    def row(self) -> Row:
        """The catalogue row of a leaf."""
        if self.op is not Op.LEAF:
            raise TypeError(f"{shown(self)} is not a leaf of the catalogue")
        return self.data[0]

    @property
    def name(self) -> str:
        """The catalogue name of a leaf, "" for anything else."""
        return self.data[0].name if self.op is Op.LEAF else ""

    @property
    def params(self) -> tuple[Hashable, ...]:
        """The parameters of a leaf beyond its row (e.g. the point a total is taken about)."""
        return self.data[1] if self.op is Op.LEAF else ()

    @property
    def function(self) -> Function | None:
        """The function of a node f(x; …), None for anything else."""
        return self.data[0] if self.op is Op.FUNCTION else None

    @property
    def core(self) -> Expr:
        """X of an adjoint X*, anything else itself."""
        return self.args[0] if self.op is Op.ADJOINT else self

    @property
    def is_vector(self) -> bool:
        """True for a vector (an operator from the scalars), scalars included."""
        return self.takes is ONE

    @property
    def is_scalar(self) -> bool:
        """True for a scalar expression such as ``v.T @ tau``."""
        return self.takes is ONE and self.gives is ONE

    @property
    def terms(self) -> tuple[tuple[Number, Expr], ...]:
        """The terms of a sum with their coefficients; anything else is one term."""
        if self.op is Op.SUM:
            return tuple(zip(self.data, self.args, strict=True))
        return ((1, self),)

    @property
    def factors(self) -> tuple[Expr, ...]:
        """The factors of a product; anything else is one factor."""
        return self.args if self.op is Op.PRODUCT else (self,)

    # -- building ------------------------------------------------------------------------------

    def __matmul__(self, other: Expr) -> Expr:
        if not isinstance(cast(object, other), Expr):
            raise SpaceError(check.no_numbers(self, other))
        return product((self, other))

    def __rmatmul__(self, other: object) -> Expr:
        raise SpaceError(check.no_numbers(self, other))

    def __add__(self, other: Expr | Number) -> Expr:
        return total_of(((1, self), (1, _as_expr(other, self))))

    __radd__ = __add__

    def __sub__(self, other: Expr | Number) -> Expr:
        return total_of(((1, self), (-1, _as_expr(other, self))))

    def __rsub__(self, other: Expr | Number) -> Expr:
        return total_of(((1, _as_expr(other, self)), (-1, self)))

    def __neg__(self) -> Expr:
        return total_of(((-1, self),))

    def __mul__(self, number: Number | Expr) -> Expr:
        if isinstance(number, Expr) and (number.is_scalar or self.is_scalar):
            return _scaled(number, self) if number.is_scalar else _scaled(self, number)
        return total_of(((as_number(cast(Number, number), self), self),))

    __rmul__ = __mul__

    def __truediv__(self, number: Number | Expr) -> Expr:
        if isinstance(number, Expr) and number.is_scalar:
            return self * number.inv
        c = as_number(cast(Number, number), self)
        if c == 0:
            raise SpaceError(f"cannot divide {shown(self)} by zero")
        return total_of(((reciprocal(c), self),))

    def __rtruediv__(self, number: Number) -> Expr:
        return self.inv * number

    def __pow__(self, power: int) -> Expr:
        """X X …: X itself for 1, the inverse for −1, the identity for 0."""
        try:
            n = index(power)
        except TypeError:
            raise SpaceError(check.no_whole_power(self, power)) from None
        if n < 0:
            return self.inv**-n
        if n == 1 or (n > 1 and self.op in (Op.IDENTITY, Op.ZERO) and self.takes is self.gives):
            return self
        if self.takes is not self.gives:
            raise SpaceError(check.no_power(self, n))
        if n == 0:
            return identity(self.takes)
        if n * self.size > MOST_NODES:
            raise LoweringError(check.too_large(n * self.size, MOST_NODES))
        return product((self,) * n)

    def __getitem__(self, selection: str) -> Expr:
        """A, B, J or Λ on the points of a selection of bodies: ``Lambda["P"]``."""
        if self.name not in SELECTABLE or self.params:
            raise SpaceError(
                f"{shown(self)}[{shown(repr(selection))}]: only {', '.join(SELECTABLE)} can be "
                "restricted to the points of a selection of bodies"
            )
        if not isinstance(cast(object, selection), str) or not selection.isidentifier():
            raise SpaceError(
                f"{shown(self)}[{shown(repr(selection))}]: a selection has a name, such as "
                f"{shown(self)}['P']"
            )
        return leaf(self.row, params=(selection,))

    __iter__ = None  # an operator is not a sequence

    @property
    def T(self) -> Expr:
        """The adjoint, written ``*`` in the papers."""
        return adjoint(self)

    @property
    def inv(self) -> Expr:
        """The inverse, as an expression; nothing is computed."""
        return inverse(self)

    # -- printing ------------------------------------------------------------------------------

    def text(self, style: str = "greek") -> str:
        """The expression as text: style "greek" (default), "ascii" or "latex"."""
        if style not in self._keys:
            if style not in render.STYLES:
                raise InputError(
                    f"{style!r} is not a style of text. The styles are "
                    f"{', '.join(map(repr, render.STYLES))}: x.text('greek')"
                )
            with not_too_deep("printed or put in order"):
                self._keys[style] = render.render(self, style)
        return self._keys[style]

    def inner_text(self, style: str) -> str:
        """The text as it stands inside a larger expression."""
        key = f"{style} inside"
        if key not in self._keys:
            self._keys[key] = render.render_inside(self, style)
        return self._keys[key]

    def latex(self) -> str:
        r"""The expression in LaTeX, which `parse` reads back: ``H \phi M \phi^{*} H^{*}``."""
        return self.text("latex")

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<{self.text('ascii')} : {check.signature(self)}>"

    def _repr_latex_(self) -> str:
        return f"${self.text('latex')}$"

    def __reduce__(self) -> tuple[object, ...]:
        return (intern, (self.op, self.args, self.data, self.takes, self.gives, self.structure))

    def __copy__(self, memo: object = None) -> Expr:
        return self

    __deepcopy__ = __copy__

    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError("expressions are immutable; build a new one instead")

    __delattr__ = __setattr__


_INTERNED: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()
_INTERNING = RLock()
_PARTS = ("op", "args", "data", "takes", "gives", "structure", "size", "_keys")
_PUT = [vars(Expr)[name].__set__ for name in _PARTS]


def intern(
    op: Op,
    args: tuple[Expr, ...],
    data: Hashable,
    takes: Space,
    gives: Space,
    structure: Structure,
) -> Expr:
    """The one node with these contents. Use the constructors below instead."""
    key = (op, args, data, takes, gives)
    found = _INTERNED.get(key)
    if found is not None:
        return found
    size = 1 + sum(y.size for y in args)
    if size > MOST_NODES:
        raise LoweringError(check.too_large(size, MOST_NODES))
    node = object.__new__(Expr)
    texts = dict[str, str]()
    parts = (op, args, data, takes, gives, structure, size, texts)
    for put, value in zip(_PUT, parts, strict=True):
        put(node, value)
    with _INTERNING:  # two threads may have found nothing at the same time
        return _INTERNED.setdefault(key, node)


def leaf(row: Row, args: tuple[Expr, ...] = (), params: tuple[Hashable, ...] = ()) -> Expr:
    """A leaf of the catalogue; `args` are the operators a Riccati leaf is built from."""
    return intern(Op.LEAF, args, (row, params), row.takes, row.gives, row.structure)


def identity(space: Space = UNKNOWN) -> Expr:
    """The identity on a space; without one, the space follows from the sum or product around it."""
    return intern(Op.IDENTITY, (), None, space, space, MEMORYLESS)


def zero(takes: Space = UNKNOWN, gives: Space = UNKNOWN) -> Expr:
    """The zero operator (or vector)."""
    return intern(Op.ZERO, (), None, takes, gives, Structure.ZERO)


def total_of(terms: Iterable[tuple[Number, Expr]]) -> Expr:
    """The sum Σ cᵢ Xᵢ, flat, with equal terms collected."""
    flat: dict[Expr, Number] = {}
    shape: Expr | None = None  # the term that fixes the spaces
    for c, x in terms:
        for d, y in zip(x.data, x.args, strict=True) if x.op is Op.SUM else ((1, x),):
            flat[y] = flat.get(y, 0) + times(c, d)
            if y.takes is not UNKNOWN and shape is None:
                shape = y
    if shape is None:  # only identities and zeros without a space
        c = int_if_whole(sum(c for y, c in flat.items() if y.op is Op.IDENTITY))
        untyped = identity()
        if c == 0:
            return zero()
        return untyped if c == 1 else intern(Op.SUM, (untyped,), (c,), UNKNOWN, UNKNOWN, MEMORYLESS)
    takes, gives = shape.takes, shape.gives
    typed: dict[Expr, Number] = {}
    for y, c in flat.items():
        if y.takes is UNKNOWN:
            if y.op is Op.ZERO:
                continue
            if takes is not gives:
                raise SpaceError(check.identity_does_not_fit(shape))
            y = identity(takes)
        elif y.takes is not takes or y.gives is not gives:
            raise SpaceError(check.cannot_add(shape, y))
        typed[y] = typed.get(y, 0) + c
    kept = [(y, int_if_whole(c)) for y, c in typed.items() if c != 0 and y.op is not Op.ZERO]
    if not kept:
        return zero(takes, gives)
    if len(kept) == 1 and kept[0][1] == 1:
        return kept[0][0]
    if len(kept) > 1:
        kept.sort(key=lambda t: (t[1] < 0, *term_order(t[0])))
    structure = Structure.ZERO
    for y, _ in kept:
        structure = sum_structure(structure, y.structure)
    args, coeffs = tuple(y for y, _ in kept), tuple(c for _, c in kept)
    return intern(Op.SUM, args, coeffs, takes, gives, structure)


def product(factors: Iterable[Expr]) -> Expr:
    """The product X₁ X₂ …, flat, with scalar coefficients in front."""
    coefficient: Number = 1
    flat: list[Expr] = []
    for factor in factors:
        x = factor
        if x.op is Op.SUM and len(x.args) == 1:
            coefficient = times(coefficient, x.data[0])
            x = x.args[0]
        flat += x.args if x.op is Op.PRODUCT else (x,)
    typed = [x for x in flat if x.takes is not UNKNOWN]
    for left, right in pairwise(typed):
        if left.takes is not right.gives:
            raise SpaceError(check.cannot_compose(left, right))
    ops = [x.op for x in flat]
    if Op.ZERO in ops:
        return zero(typed[-1].takes, typed[0].gives) if typed else zero()
    kept = [x for x in typed if x.op is not Op.IDENTITY] if Op.IDENTITY in ops else typed
    if not kept:
        core = typed[0] if typed else identity()
    elif len(kept) == 1:
        core = kept[0]
    else:
        structure = kept[0].structure
        for x in kept[1:]:
            structure = product_structure(structure, x.structure)
        core = intern(Op.PRODUCT, tuple(kept), None, kept[-1].takes, kept[0].gives, structure)
    return core if coefficient == 1 else total_of(((coefficient, core),))


@cached_in_scope
def adjoint(x: Expr) -> Expr:
    """The adjoint X*, pushed to the leaves: (X Y)* = Y* X*, (X⁻¹)* = (X*)⁻¹."""
    if x.op is Op.ADJOINT:
        return x.args[0]
    if x.op is Op.SUM:
        return total_of((c, adjoint(y)) for c, y in x.terms)
    if x.op is Op.PRODUCT:
        return product(adjoint(y) for y in reversed(x.args))
    if x.op is Op.INVERSE:
        return inverse(adjoint(x.args[0]))
    if x.op is Op.BD:
        return block_diagonal(adjoint(x.args[0]))
    if x.op is Op.AS_MATRIX:
        return as_matrix(adjoint(x.args[0]))
    if x.function is not None and x.function.adjoint is not None:
        return x.function.adjoint(x)
    if x.takes is UNKNOWN or (x.is_scalar and x.op in (Op.LOGDET, Op.LEAF, Op.FUNCTION)):
        return x
    if x.op is Op.IDENTITY:
        return identity(x.takes.dual)
    if x.op is Op.ZERO:
        return zero(x.gives.dual, x.takes.dual)
    if x.op is Op.LEAF and x.row.symmetric:
        return x
    spaces = x.gives.dual, x.takes.dual
    return intern(Op.ADJOINT, (x,), None, *spaces, adjoint_structure(x.structure))


def inverse(x: Expr) -> Expr:
    """The inverse X⁻¹ of an operator between spaces of the same size."""
    if x.op is Op.INVERSE:
        return x.args[0]
    if x.op is Op.IDENTITY:
        return x
    if x.op is Op.ZERO:
        raise SpaceError(f"{shown(x)} has no inverse")
    if x.op is Op.SUM and len(x.args) == 1:
        return total_of(((reciprocal(x.data[0]), inverse(x.args[0])),))
    if x.takes.index != x.gives.index:
        raise SpaceError(check.not_square(x))
    # on points there are no blocks per body: the inverse couples all points
    structure = inverse_structure(x.structure) if x.takes.per_body else GENERAL
    return intern(Op.INVERSE, (x,), None, x.gives, x.takes, structure)


def block_diagonal(x: Expr) -> Expr:
    """bd(X), the block-diagonal part of an operator on bodies or joints."""
    if x.takes is UNKNOWN or x.op is Op.ZERO:
        return x
    if not (x.takes.per_body and x.gives.per_body):
        raise SpaceError(check.no_diagonal(x))
    if x.structure == MEMORYLESS:
        return x
    return linear(Op.BD, (x,), x.takes, x.gives)


def linear(
    op: Op,
    args: Sequence[Expr],
    takes: Space,
    gives: Space,
    structure: Structure = MEMORYLESS,
    data: Hashable = None,
) -> Expr:
    """A node that is linear in every part: zero if a part is; coefficients stand before it."""
    coefficient: Number = 1
    plain: list[Expr] = []
    for x in args:
        if x.op is Op.ZERO:
            return zero(takes, gives)
        if x.op is Op.SUM and len(x.args) == 1:
            coefficient = times(coefficient, x.data[0])
            x = x.args[0]
        plain.append(x)
    made = intern(op, tuple(plain), data, takes, gives, structure)
    return made if coefficient == 1 else total_of(((coefficient, made),))


@dataclass(frozen=True, eq=False)
class Function:
    """A function f(x; …) of expressions that is linear in every argument: a row of `FUNCTIONS`.

    An argument is a vector of a space, a memoryless operator between two spaces or (MEMORYLESS) any
    of them, a step from every parent (STRICTLY_ANTICAUSAL), or (None) any vector with one block per
    body; vectors of the space `directions` may follow. The result is a memoryless operator ``takes
    → gives``, or a vector; None stands for ``y.dual → x`` of f(x; y), and for the spaces of X in
    f(s; X). `operation` computes its blocks, `adjoint(f(x))` is its adjoint, if not written f(x)*.

    Derivatives follow from three rules: ``f(y) x = swap(x) y``, ``f(y)* x = swap_adjoint(x) y``,
    and ``pull(f(x; …), Z)``, the weights of the arguments: the change of f is multiplied by Z, that
    of an argument by its weight (w* δx for vectors, tr(Z δX) for operators). `differential(x, d)`
    is how f(x) changes while its arguments are held, see `Row`.
    """

    name: str
    arguments: tuple[Space | tuple[Space, Space] | Structure | None, ...]
    takes: Space | None
    gives: Space | None
    operation: str
    meaning: str
    latex: str = ""
    directions: Space | None = None
    adjoint: Callable[[Expr], Expr] | None = None
    swap: Callable[[Expr], Expr] | None = None
    swap_adjoint: Callable[[Expr], Expr] | None = None
    pull: Callable[[Expr, Expr], tuple[Expr, ...]] | None = None
    differential: Callable[[Expr, Any], Expr] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.meaning)

    def __repr__(self) -> str:
        return f"<function {self.name} of expressions>"

    def __reduce__(self) -> tuple[object, ...]:
        return (row_of, ("phipsi.core.expressions.functions", self.name, "FUNCTIONS"))

    def __call__(self, *args: Expr, hole: int | None = None) -> Expr:
        """The node f(args); `hole` is where the open direction stands, the last place if None."""
        more = len(args) - len(self.arguments)
        if more < 0 or (more and self.directions is None):
            raise TypeError(f"{self.name} takes {len(self.arguments)} arguments, not {len(args)}")
        for x, kind in zip(args, (*self.arguments, *[self.directions] * more), strict=True):
            if not _accepts(kind, x):
                raise SpaceError(check.wrong_argument(self.name, args, x, kind))
        takes, gives = self.takes, self.gives
        if takes is None or gives is None:
            y = args[1]
            takes, gives = (y.gives.dual, args[0].gives) if y.is_vector else (y.takes, y.gives)
        structure = GENERAL if takes is ONE else MEMORYLESS
        data = (self, None if hole == more else hole)
        out = linear(Op.FUNCTION, args, takes, gives, structure, data)
        return args[1] if self is SCALED and args[0].op is Op.IDENTITY else out


def _accepts(kind: Space | tuple[Space, Space] | Structure | None, x: Expr) -> bool:
    if kind is None:
        return x.takes is ONE and x.gives.per_body
    if isinstance(kind, Structure) or kind == (UNKNOWN, UNKNOWN):  # any, or on any one space
        wanted = kind if isinstance(kind, Structure) else MEMORYLESS
        blocks = x.structure | wanted == wanted and x.takes.per_body and x.gives.per_body
        whole = isinstance(kind, tuple) and x.takes.index == "point"  # a trace at points
        return (blocks or whole) and (kind is MEMORYLESS or x.takes is x.gives)
    takes, gives = (ONE, kind) if isinstance(kind, Space) else kind
    return (x.takes, x.gives) == (takes, gives) and (takes is ONE or is_memoryless(x.structure))


SCALED = Function(
    "scaled", (ONE, MEMORYLESS), None, None, "scaled_block",
    "The memoryless operator s X, of a number s and a memoryless operator X.",
    adjoint=lambda x: SCALED(x.args[0], x.args[1].T),
)  # fmt: skip


def _scaled(s: Expr, x: Expr) -> Expr:
    """s X; of a product the factor in the middle takes s, so that s A X A* stays symmetric."""
    if x.is_vector:
        return product((x, s))
    if x.op in (Op.SUM, Op.ZERO):
        return total_of([(0, x), *((c, _scaled(s, y)) for c, y in x.terms if y.op is not Op.ZERO)])
    factors = list(x.factors)
    for i in sorted(range(len(factors)), key=lambda i: abs(2 * i + 1 - len(factors))):
        if _accepts(MEMORYLESS, factors[i]):
            return product((*factors[:i], SCALED(s, factors[i]), *factors[i + 1 :]))
    if not x.gives.per_body:
        raise SpaceError(check.no_scaling(s, x))
    return product((SCALED(s, identity(x.gives)), x))


def as_matrix(x: Expr) -> Expr:
    """The operator itself, marked to be written out: two marked factors are multiplied as matrices.

    For the matrix of a product whose factors have cheap matrices, but which has no cheap blocks
    itself, such as ``as_matrix(mass_matrix.inv) @ as_matrix(L)``: O(N³) instead of O(N) sweeps for
    every column, which is faster for all but very long chains.
    """
    if x.takes is UNKNOWN or x.op in (Op.AS_MATRIX, Op.ZERO):
        return x
    return linear(Op.AS_MATRIX, (x,), x.takes, x.gives, x.structure)


def logdet(x: Expr) -> Expr:
    """log det X of a symmetric positive operator between spaces of the same size."""
    if x.takes is UNKNOWN:
        raise SpaceError(check.undetermined(x))
    if x.takes.index != x.gives.index or x.is_vector:
        raise SpaceError(check.not_square(x))
    return intern(Op.LOGDET, (x,), None, ONE, ONE, GENERAL)


_MAKERS: dict[Op, Callable[..., Expr]] = {
    Op.ADJOINT: adjoint,
    Op.INVERSE: inverse,
    Op.PRODUCT: lambda *args: product(args),
    Op.BD: block_diagonal,
    Op.LOGDET: logdet,
    Op.AS_MATRIX: as_matrix,
}


def rebuild(x: Expr, args: Sequence[Expr]) -> Expr:
    """The node x, which is not a leaf, with other parts."""
    if x.op is Op.SUM:
        return total_of([(0, x), *zip(x.data, args, strict=True)])
    if x.op is Op.FUNCTION:
        function, hole = x.data
        return function(*args, hole=hole)
    return _MAKERS[x.op](*args) if x.args else x


def _as_expr(x: Expr | Number, like: Expr) -> Expr:
    if isinstance(x, Expr):
        return x
    if like.is_scalar:
        return total_of(((as_number(x, like), identity(ONE)),))
    if isinstance(cast(object, x), Real) and x == 0:
        return zero()
    raise SpaceError(check.no_number_in_sum(x))


def term_order(x: Expr) -> tuple[object, ...]:
    """Order of the terms in a sum (after the sign): the identity, short ones, by name."""
    return (x.op is not Op.IDENTITY, len(x.factors), x.text("ascii"))
