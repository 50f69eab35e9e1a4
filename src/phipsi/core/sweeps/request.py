"""The arguments of `compile`, checked; and their lowering to the fields of one program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from phipsi.core.expressions import (
    SELECTABLE,
    UNKNOWN,
    Expr,
    Number,
    Space,
    block_diagonal,
    check,
    shown,
    space_size,
)
from phipsi.core.model import FRAMES, OWN, Model, PointSet
from phipsi.core.operators import (
    CATALOGUE,
    INPUT_ORDER,
    as_expression,
    check_pairs,
    inputs_of,
    is_of_rigid_bodies,
    leaves_of,
    operands_of,
    own_rows,
    row_named,
)
from phipsi.core.rewrite import (
    USUAL,
    FinalForm,
    Identity,
    Rewriting,
    claim,
    matrix_product,
    rewrite,
    rewrite_by_rules,
    strip_marks,
)
from phipsi.core.sweeps.equation_builder import no_modes
from phipsi.core.sweeps.ir import Field
from phipsi.core.sweeps.lower import Lowering, LoweringOptions
from phipsi.core.sweeps.matrix_results import columns_matrix, lower_matrix, whole_matrix
from phipsi.core.sweeps.row_elimination import KeptRows, elimination_of
from phipsi.errors import InputError, LoweringError, SpaceError, one_of, true_or_false

MODES = ("apply", "dense", "blocks")
REWRITES = ("full", "as_written")
FLAT_DEPTH = 32  # bodies on the longest path for which the root's frame keeps 13 digits
NEEDS_POINTS = {"B", "Bdot", "J", "Lambda", "f0", "frame_pose"}
_INPUTS = {*INPUT_ORDER, "coordinates", "operand"}
_NO_QUANTITIES = {
    n for n, row in CATALOGUE.items() if row.needs_braces or row.brackets == "component"
}
_PARTS = {"Lam_phi": "E_phi = shift Lam_phi, which follows from the joints and placements"}
NEEDS_ROWS = {"A", "A_grasp", "Adot", "U", "Udot", "dA", "dAT"}


@dataclass(frozen=True)
class Request:
    """The arguments of `compile`, in one hashable value."""

    expressions: tuple[Expr, ...]
    single: bool
    modes: tuple[str, ...]
    blocks: tuple[tuple[Any, Any], ...] | None
    columns: bool
    inputs: tuple[str, ...]
    rewrite: str
    points: PointSet
    same_operand: bool = False
    rules: tuple[Identity | str, ...] = ()

    @staticmethod
    def make(
        expr: Expr | str | Sequence[Expr | str],
        mode: str | Sequence[str],
        blocks: Sequence[tuple[Any, Any]] | None,
        columns: bool,
        inputs: Sequence[str],
        rewrite: str,
        points: PointSet,
        same_operand: bool = False,
        rules: Sequence[Identity | str] = (),
        notation: str = "",
        custom: Sequence[Expr] = (),
    ) -> Request:
        """Collect the arguments; single expressions and modes become tuples, text is read."""
        columns = true_or_false("columns", columns)
        same_operand = true_or_false("same_operand", same_operand)
        single = isinstance(expr, Expr | str)
        if not isinstance(cast(object, expr), (Expr, Sequence)):
            advice = check.advice(expr)
            raise InputError(
                f"{expr!r} is neither an operator expression nor a sequence of them{advice}"
            )
        several = (expr,) if isinstance(expr, Expr | str) else tuple(expr)
        expressions = tuple(as_expression(x, notation, custom) for x in several)
        modes = _strings("mode", mode)
        modes = modes * len(expressions) if isinstance(mode, str) else modes
        if blocks is not None and not isinstance(cast(object, blocks), Sequence):
            raise InputError(f"blocks={blocks!r} must be a sequence of pairs (row, column)")
        pairs = None if blocks is None else tuple(_pair(block) for block in blocks)
        names = _strings("inputs", [_name_of(x) for x in inputs] if _is_list(inputs) else inputs)
        return Request(
            expressions,
            single,
            modes,
            pairs,
            columns,
            names,
            one_of("rewrite", rewrite, REWRITES),
            points,
            same_operand,
            _rules(rules, notation, custom),
        )


def _is_list(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _name_of(x: Any) -> Any:
    return x.name if isinstance(x, Expr) and x.name else x


def _strings(option: str, value: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several as a tuple."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(cast(object, names), Sequence) or any(
        not isinstance(cast(object, name), str) for name in names
    ):
        raise InputError(f"{option}={value!r} must be a name or a sequence of names")
    return tuple(names)


def _rules(
    rules: Sequence[Identity | str], notation: str, custom: Sequence[Expr]
) -> tuple[Identity | str, ...]:
    """The rules; names and claims in letters of the library stay text until they are proved."""
    if isinstance(rules, str) or not isinstance(cast(object, rules), Sequence):
        raise InputError(f"rules= must be a list of identities. Write  rules=[{rules!r}]")
    for rule in rules:
        if not isinstance(cast(object, rule), Identity | str):
            raise InputError(
                f"rules= takes identities, their names, or claims as strings, not "
                f'{type(rule).__name__}:  rules=[pp.Identity("H G", "I", "Jr = 0")]'
            )
    special = bool(notation or custom)
    return tuple(
        claim(x, notation, custom) if special and isinstance(x, str) and "=" in x else x
        for x in rules
    )


def _pair(block: Any) -> tuple[Any, Any]:
    text = f"blocks= takes pairs (row, column) of names, not {block!r}"
    if isinstance(block, str):
        raise InputError(text)
    try:
        row, col = block
    except (TypeError, ValueError):
        raise InputError(text) from None
    return row, col


@dataclass(frozen=True)
class Result:
    """One result of a program: its field, its spaces, and how it is laid out.

    `layout` is "vector", "columns", "matrix", "matrix of adjoint", "diagonal", "blocks" or "poses".
    `picked` says that the blocks asked for are picked from the matrix. With a matrix in `left` the
    result is factor · left · field, a product of matrices.
    """

    field: Field
    layout: str
    takes: Space
    gives: Space
    picked: bool = False
    left: Field | None = None
    factor: Number = 1


@dataclass(frozen=True)
class LoweredRequest:
    """The fields of a program before scheduling, and the names of its inputs in order.

    `has_names` says that they hold numbers of joints or bodies that were named; `has_gram`, that
    one of the matrices is C* S C and could be computed from C.
    """

    results: tuple[Result, ...]
    inputs: tuple[str, ...]
    operands: tuple[Space, ...]
    has_names: bool = False
    has_gram: bool = False

    @property
    def fields(self) -> list[Field]:
        """The fields to compute."""
        return fields_of(self.results)


def fields_of(results: Sequence[Result]) -> list[Field]:
    """The fields of results."""
    return [x for r in results for x in (r.field, r.left) if x is not None]


def for_bodies_of(request: Request, model: Model) -> Request:
    """The request without what only modes do, if the bodies of the model have none."""
    elimination = elimination_of(model)
    if elimination is None:
        return request
    return replace(request, expressions=tuple(map(elimination.before_rules, request.expressions)))


def check_modes(request: Request, model: Model) -> None:
    """Reject what bodies with modes do not have: quantities as inputs.

    And derivatives for rigid bodies, before a part of them cancels.
    """
    for expr in request.expressions if model.has_more_rows else ():
        if is_of_rigid_bodies(expr):
            raise LoweringError(
                f"{no_modes(shown(expr))}.\n"
                "Include the terms of the modes in the derivative:\n"
                "    pp.diff(expr, 'q', modes=True)"
            )
    for name in request.inputs if model.has_more_rows else ():
        row = row_named(name, request.expressions)
        if name not in ("gravity", "Jr") and not (row is not None and row.gives.index == "one"):
            raise InputError(
                f"inputs={name!r}: with flexible bodies, or rotors on skew axes, only gravity, "
                "scalars and the inertia of rotors Jr can be inputs"
            )


def check_request(request: Request, *, has_points: bool, has_model: bool = True) -> None:
    """Reject a request that cannot be compiled, with the reason.

    Without a model there may be any points, rows and selections.
    """
    if not request.expressions:
        raise InputError(
            'there is no expression to compile. Write  pp.compile("mass_matrix", model)'
        )
    if len(request.modes) != len(request.expressions):
        raise InputError(
            f"{len(request.modes)} modes for {len(request.expressions)} expressions: pass one "
            "mode for all, or one for each"
        )
    for mode in request.modes:
        one_of("mode", mode, MODES)
    if request.blocks is not None and "blocks" not in request.modes:
        raise InputError('blocks= has no effect: no result has mode="blocks". Pass  mode="blocks"')
    own_rows(request.expressions)
    for name in request.inputs:
        _check_input(name, request.expressions)
    for x in request.expressions:
        if not isinstance(cast(object, x), Expr):
            raise InputError(f"{x!r} is not an operator expression{check.advice(x)}")
        if x.takes is UNKNOWN:
            raise SpaceError(check.undetermined(x))
        check_pairs(x)
        _check_poses(x)
        names = {leaf.name for leaf in leaves_of(x)}
        if names & NEEDS_ROWS and has_model and not _has_rows(request):
            raise InputError(
                f"{shown(x)} needs constraint rows (A and U are defined on them). Compile it for "
                "a system:\n"
                "    system = pp.System(model, [pp.constraints.Spherical(name=…, a=…, b=…)])\n"
                "    pp.compile(expr, system)"
            )
        if has_model:
            _check_selections(x, request)
        if names & NEEDS_POINTS and not has_points:
            raise InputError(
                f"{shown(x)} needs points (B, J and f0 are defined at points):\n"
                "    pp.compile(expr, model, points=[('hand', (0, 0, 0.1))])"
            )
    _check_operands(request)
    if request.columns and "apply" not in request.modes:
        raise InputError(
            'columns=True batches the operand of mode="apply"; the other modes take no operand. '
            "Remove columns=True"
        )


def _check_selections(x: Expr, request: Request) -> None:
    closures = request.points.closures
    selections = () if closures is None else closures.names_of_selections
    for leaf in leaves_of(x):
        for name in leaf.params if leaf.name in (*SELECTABLE, "select") else ():
            if name not in selections:
                known = ", ".join(selections) or "none"
                if name in (OWN, FRAMES):
                    raise InputError(
                        f"{leaf}: {name!r} distinguishes points of one's own from closure frames. "
                        "Compile it for a system with constraints, and pass points:\n"
                        "    pp.compile(expr, system, points=['hand'])"
                    )
                raise InputError(
                    f"{leaf}: there is no selection {name!r} of bodies here (there are: {known}). "
                    "Name primary or secondary bodies:\n"
                    "    pp.System(model, constraints, secondary=['object'])"
                )


def _has_rows(request: Request) -> bool:
    return request.points.closures is not None


def _check_operands(request: Request) -> None:
    pairs = zip(request.expressions, request.modes, strict=True)
    taken = {x.takes for x, mode in pairs if mode == "apply" and not x.is_vector}
    weights = {x.gives for x in operands_of(request.expressions)}
    if len(weights) > 1 or (weights and taken and not request.same_operand):
        raise InputError(
            "operand[…] stands for the only operand x of a program, but this program has several"
        )
    taken |= weights
    if request.same_operand and len(taken) > 1:
        raise InputError(
            "same_operand=True needs operators that take the same space, but these take "
            + " and ".join(sorted(s.phrase for s in taken))
        )


def _check_input(name: str, expressions: tuple[Expr, ...]) -> None:
    if name in ("placement", "gravity"):  # of the model: poses (n, 4, 4), and g (3,)
        return
    if name in _INPUTS:
        raise InputError(f"inputs={name!r}: {name} is an input already")
    if name in _NO_QUANTITIES:
        raise InputError(
            f"inputs={name!r}: the value of {name} depends on its braces or brackets; only "
            "quantities with one value can be inputs"
        )
    if name in _PARTS:
        raise InputError(
            f"inputs={name!r}: {name} is a part of {_PARTS[name]}; another value would contradict "
            "it. Make the placements an input instead: inputs=('placement',)"
        )
    row = row_named(name, expressions)
    if row is not None and row.is_own and (row.gives.index == "one" or row.takes.index == "point"):
        return
    body = row is not None and (row.takes.index in ("joint", "body", "one") and row.gives.per_body)
    if not body or row is None or (row.takes.index != "one" and row.structure != 1):
        raise InputError(
            f"inputs={name!r}: only memoryless operators and body quantities can be inputs, such "
            "as M, P, D, G, R, Upsilon, V, pose, and of the model placement and gravity"
        )


def _check_poses(x: Expr) -> None:
    curved = {leaf.gives for leaf in leaves_of(x) if leaf.gives.is_curved} - {x.gives}
    for space in curved:
        raise SpaceError(
            f"{shown(x)}: {space.phrase.split()[-1]} can be results or inputs, but not factors"
        )


def rewrite_request(
    request: Request,
    *,
    armature: bool,
    rules: tuple[Identity, ...] = (),
    form: FinalForm = USUAL,
) -> Rewriting:
    """Every expression rewritten by the rules; "as_written" applies no rules but the user's."""
    if request.rewrite == "as_written":
        return rewrite_by_rules(request.expressions, rules)
    return rewrite(
        request.expressions,
        request.modes,
        request.inputs,
        armature=armature,
        rules=rules,
        form=form,
    )


def lower_request(
    request: Request,
    expressions: tuple[Expr, ...],
    model: Model | None,
    *,
    pairs: str = "all",
    grams: bool = False,
    watch: Callable[[list[Field]], None] | None = None,
) -> LoweredRequest:
    """Lower all expressions with shared equations; `pairs`, `grams` are those of `LoweringOptions`.

    `watch` sees the fields so far after every result but the last, and ends the work by raising.
    """
    armature = model is None or model.has_armature
    given = dict.fromkeys(request.inputs, "")
    has_rows = model is not None and model.has_more_rows
    six_rows = _without_rows(request, expressions, model)
    more_rows, expressions = has_rows and six_rows is None, six_rows or expressions
    elimination = elimination_of(model)
    if more_rows and elimination is not None:
        expressions = tuple(map(elimination.kept, expressions))
    options = LoweringOptions(
        flat=not more_rows and _flat(model),
        simplify=request.rewrite == "full",
        grams=grams,
        several=sum(mode == "dense" for mode in request.modes) > 1,
        pairs=pairs,
        elimination=None if six_rows is None else elimination,
        points=len(request.points),
    )
    mixed = request.points.axes_of_all is None
    where = request.points.axes, mixed, armature, model, options, whole_matrix, _laws(request)
    low = Lowering(given, *where, more_rows=more_rows)
    results: list[Result] = []
    operands: list[Space] = []
    several = _operator_count(request) > 1 and not request.same_operand
    for x, mode in zip(expressions, request.modes, strict=True):
        x = x if mode == "dense" else strip_marks(x)
        if x.is_vector:
            layout = "poses" if x.gives.of_poses else "vector"
            results.append(Result(low.as_output(x, low.vector(x)), layout, x.takes, x.gives))
        elif mode == "apply":
            results.append(
                _applied(low, x, f"x{len(operands)}" if several else "x", request.columns)
            )
            if not (request.same_operand and operands):
                operands.append(x.takes)
        elif mode == "blocks" and request.blocks is None:
            results.append(_diagonal(low, x))
        else:
            assert model is not None
            results.append(_matrix(low, x, model, request.points, mode == "blocks"))
        if watch is not None and len(results) < len(expressions):
            watch(fields_of(results))
    if not operands:
        operands.extend(x.gives for x in operands_of(request.expressions))
    names = inputs_of(request.expressions, request.inputs) + request.inputs
    if has_rows and "q" not in names and _has_inertia(request):
        names = ("q", *names)  # M depends on the modes
    operand_names = [f"x{i}" if several else "x" for i in range(len(operands))]
    inputs = (*names, *operand_names)
    return LoweredRequest(tuple(results), inputs, tuple(operands), low.has_names, low.has_gram)


def _applied(low: Lowering, x: Expr, name: str, columns: bool) -> Result:
    """The product of an operator with the operand of that name, which may have columns."""
    operand = low.taken_in(x.takes, name, "c" if columns else "1")
    layout = "columns" if columns else "vector"
    return Result(low.as_output(x, low.apply(x, operand)), layout, x.takes, x.gives)


def traits_of(
    request: Request, expressions: tuple[Expr, ...], model: Model
) -> tuple[Hashable, ...]:
    """All that `lower_request` reads of a request and a model, except names."""
    pairs = zip(expressions, request.modes, strict=True)
    matrices = [x for x, mode in pairs if mode != "apply" and not x.is_vector]
    return (
        *(request.expressions, request.modes, request.blocks is None, request.columns),
        *(request.inputs, request.rewrite, request.points.axes, request.same_operand),
        request.points.axes_of_all,
        *(model.has_armature, _flat(model), model.has_more_rows, elimination_of(model)),
        _laws(request),
        *(_flips(x, model, request.points) for x in matrices),
    )


def _laws(request: Request) -> bool:
    """Whether some constraint rows are functions of coordinates."""
    closures = request.points.closures
    return closures is not None and closures.has_laws


def _has_inertia(request: Request) -> bool:
    return any(y.name == "M" for x in request.expressions for y in leaves_of(x))


def _flat(model: Model | None) -> bool:
    """Whether paths may be walked in the frames of the root bodies.

    There nothing has to be moved along the paths; on long chains the distances from the root would
    cost digits.
    """
    if model is None:
        return False
    return max(model.tree.depth, default=0) < FLAT_DEPTH


def _without_rows(
    request: Request, expressions: tuple[Expr, ...], model: Model | None
) -> tuple[Expr, ...] | None:
    """The expressions on the six rows of bodies, if their other rows can be eliminated."""
    elimination = elimination_of(model)
    pairs = zip(expressions, request.modes, strict=True)
    if elimination is None or any(mode != "apply" and _has_bodies(x) for x, mode in pairs):
        return None
    try:
        return tuple(
            elimination.eliminated(x, mode == "dense")
            for x, mode in zip(expressions, request.modes, strict=True)
        )
    except KeptRows:
        return None


def _has_bodies(x: Expr) -> bool:
    """True for an operator with blocks of bodies."""
    return not x.is_vector and "body" in (x.takes.index, x.gives.index)


def _operator_count(request: Request) -> int:
    pairs = zip(request.expressions, request.modes, strict=True)
    return sum(not x.is_vector and mode == "apply" for x, mode in pairs)


def _diagonal(low: Lowering, x: Expr) -> Result:
    if not (x.takes.per_body and x.gives.per_body):
        raise LoweringError(
            f"{shown(x)} has no diagonal blocks per body; name the blocks: "
            "blocks=[(row, column), …]"
        )
    return Result(low.blocks.block(block_diagonal(x)), "diagonal", x.takes, x.gives)


def _matrix(low: Lowering, x: Expr, model: Model, points: PointSet, picked: bool) -> Result:
    """The whole matrix: from its blocks, or else column by column from the smaller side."""
    parts = matrix_product(x)
    if parts is not None:
        factor, left, right = parts
        one, other = lower_matrix(low, left), lower_matrix(low, right)
        if one is not None and other is not None and "zero" not in (one.op, other.op):
            return Result(other, "blocks", x.takes, x.gives, picked, one, factor)
        x = strip_marks(x)
    blocks = lower_matrix(low, x)
    if blocks is not None:
        return Result(blocks, "blocks", x.takes, x.gives, picked)
    flip = _flips(x, model, points)
    y = x.T if flip else x
    layout = "matrix of adjoint" if flip else "matrix"
    return Result(columns_matrix(low, y), layout, x.takes, x.gives, picked)


def _flips(x: Expr, model: Model, points: PointSet) -> bool:
    """Whether the adjoint has fewer columns."""
    return space_size(x.gives, model, points) < space_size(x.takes, model, points)
