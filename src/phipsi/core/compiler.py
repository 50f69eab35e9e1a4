"""The whole pipeline in one function: expression → rewritten → equations → sweeps → program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast, final

from phipsi.core.backends import (
    Backend,
    CallOptions,
    Program,
    SweepProgram,
    backend_of,
    named,
    with_names,
)
from phipsi.core.expressions import Expr, cache_scope
from phipsi.core.model import (
    ANY_POINTS,
    UNAFFECTED,
    Model,
    PointSet,
    checked_axes,
    forest_of,
    mechanism_of,
    point_set,
    supports,
    tree_of,
)
from phipsi.core.operators import about_points, as_expression, check_tables, leaves_of
from phipsi.core.rewrite import Identity
from phipsi.core.sweeps import (
    MODES,
    NEEDS_POINTS,
    STANDARD,
    Request,
    check_modes,
    check_request,
    for_bodies_of,
    lower_request,
    plans_of,
    rewrite_request,
    schedule,
)
from phipsi.errors import InputError, LoweringError, not_too_deep, one_of, true_or_false
from phipsi.views import view

if TYPE_CHECKING:
    from phipsi.core.sweeps import Explanation, OperatorLevels


@supports(loops=True, contacts=UNAFFECTED, flexible=True, rotors=True)
def compile(
    expr: Expr | str | Sequence[Expr | str],
    model: Model,
    *,
    mode: str | Sequence[str] = "apply",
    blocks: Sequence[tuple[Any, Any]] | None = None,
    columns: bool = False,
    points: Sequence[Any] | PointSet | None = None,
    axes: str | None = None,
    inputs: Sequence[str] = (),
    rewrite: str = "full",
    backend: str | Backend | None = None,
    reproducible: bool = False,
    same_operand: bool = False,
    rules: Sequence[Identity | str] = (),
    notation: str = "",
    custom: Sequence[Expr] = (),
) -> Program:
    """Compile operator expressions, or text that `parse` reads, into a program for one model.

    A tuple of expressions gives a tuple of results that share their sweeps. For a `System` the
    points are the frames of its closures, with the constraint rows A on them, and the other
    operators are those of its tree.

    Parameters
    ----------
    expr : Expr, str or sequence of these
        What to compute.
    model : Model
        A tree or a `System`.
    mode : {"apply", "dense", "blocks"} or sequence of these, optional
        Operators are applied to an operand, written out as matrices, or picked block by block;
        vectors and scalars are always evaluated. Default: "apply".
    blocks : sequence of pairs, optional
        The pairs of ``mode="blocks"``. Default: all diagonal blocks in storage layout.
    columns : bool, optional
        Whether operands may have several columns, on the last axis. Default: False.
    points : sequence, optional
        ``[(body_or_frame, offset), …]`` for B and J. An expression without a part at points needs
        none.
    axes : {"world", "body", "spatial"}, optional
        Motions and forces of points are at the point in world axes, in the axes of the named body
        or frame, or at the world's origin in world axes. Default: "world".
    inputs : sequence of str, optional
        Names of quantities that become inputs of the program instead of being computed. Default:
        none.
    rewrite : {"full", "as_written"}, optional
        Search for the cheapest form, or keep the form and only share and fuse. Default: "full".
    backend : str or Backend, optional
        "native", "reference", or a `Backend` of your own. Default: "native" if LLVM is installed,
        or the value of PHIPSI_BACKEND.
    reproducible : bool, optional
        Whether results are bitwise identical on all processors. Default: False.
    same_operand : bool, optional
        Whether all operators of a tuple are applied to one and the same operand. Default: False.
    rules : sequence of Identity or str, optional
        Identities (`pp.Identity`), names or claims as text that are used from left to right, here
        only, before the rules of the library; each is proved on this model first, and rejected if
        that fails. Default: none.
    notation, custom : optional
        How text is read, as for `parse`.

    Returns
    -------
    Program
        The program; call it with its `inputs`.

    Examples
    --------
    >>> import phipsi as pp
    >>> from phipsi.operators import mass_matrix
    >>> arm = pp.examples.planar_arm(2)
    >>> solve = pp.compile(mass_matrix.inv, arm)
    >>> solve.inputs
    ('q', 'x')
    >>> solve([0.0, 0.5], [1.0, 0.0]).shape
    (2,)
    """
    mechanism = model
    model, points = forest_of(model, points, axes)
    if isinstance(cast(object, expr), Model) or not isinstance(cast(object, model), Model):
        raise InputError(
            f"compile needs an expression, then a model: pp.compile(expr, model), "
            f"not ({type(expr).__name__}, {type(model).__name__}); see pp.ModelBuilder"
        )
    runs_in = backend_of(default_backend() if backend is None else backend)
    reproducible = true_or_false("reproducible", reproducible)
    where = point_set(model, points, axes)
    request = Request.make(
        expr, mode, blocks, columns, inputs, rewrite, where, same_operand, rules, notation, custom
    )
    if axes is not None and points is None and not any(map(about_points, request.expressions)):
        raise InputError(
            f"axes={axes!r} has no effect: axes are those of motions and forces at points, and the "
            "expression has none. Remove axes="
        )
    tree = model

    def once() -> Program:
        with not_too_deep("compiled"), cache_scope():
            proved = _proved_rules(request, mechanism)
            return build(request, tree, runs_in, reproducible=reproducible, rules=proved)

    return tree.cached((compile, request, runs_in.key, reproducible), once)


@final
class NamedForm:
    """What a named function evaluates: a constant of its module.

    `expressions`, or a function that builds them when they are first needed and is told whether
    bodies have modes; `mode` as for `compile`; `kind`, the `NamedTuple` of several results. A
    mechanism keeps the program under the form itself, so that a warm call finds it without building
    a key.
    """

    __slots__ = ("expressions", "kind", "mode")

    def __init__(
        self,
        expressions: Expr | tuple[Expr, ...] | Callable[[bool], Expr | tuple[Expr, ...]],
        mode: str | tuple[str, ...] = "apply",
        kind: type[tuple[Any, ...]] | None = None,
    ) -> None:
        self.expressions, self.mode, self.kind = expressions, mode, kind

    def program(self, mechanism: Model, function: Callable[..., Any] | None) -> Program:
        """Compile the form for a mechanism; `function` as for `program_of`."""
        found = self.expressions
        if callable(found):
            found = found(bool(getattr(mechanism, "has_more_rows", False)))
        program = program_of(found, mechanism, self.mode, function)
        return mechanism.cached(self, lambda: program)


def evaluate(
    form: NamedForm,
    function: Callable[..., Any] | None,
    mechanism: Model,
    args: tuple[Any, ...],
    options: CallOptions,
) -> Any:
    """The result of a named function that evaluates one form; `function` as for `program_of`.

    Every warm call passes here, so the shortest way of `Program.evaluate` is written out.
    """
    try:
        program = mechanism.cache[form]
    except (KeyError, AttributeError):
        program = form.program(mechanism, function)
    kind = form.kind
    if not options:
        found = program.direct(*args)
        if found is not None:
            return found if kind is None else with_names(kind, found)
    found = program(*args, **options)
    return found if kind is None else named(kind, found, options)


def program_of(
    expr: Expr | tuple[Expr, ...],
    mechanism: Model,
    mode: str | tuple[str, ...] = "apply",
    function: Callable[..., Any] | None = None,
    rewrite: str = "full",
) -> Program:
    """The program of a named algorithm, which asks for the same one in every call.

    `function` is the public one that asks: with it the program is that of the tree, if the function
    has an answer for this mechanism (`tree_of`); without it a system's rows can be used.
    """
    key = (expr, mode) if rewrite == "full" else (expr, mode, rewrite)
    try:
        return mechanism.cache[key]
    except (KeyError, AttributeError):
        where = mechanism if function is None else tree_of(mechanism, function)
        return mechanism.cached(key, lambda: compile(expr, where, mode=mode, rewrite=rewrite))


def program_at(
    expr: Expr | tuple[Expr, ...],
    mechanism: Model,
    points: Sequence[Any] | PointSet,
    axes: str,
    function: Callable[..., Any],
    mode: str = "apply",
    *,
    with_rows: bool = False,
    columns: bool = False,
) -> Program:
    """The same for points, which are looked up by their names and offsets.

    `with_rows`: the rows of a system can be used; its closure frames come after the points.
    """
    of = mechanism_of if with_rows else tree_of
    if not isinstance(points, (list, tuple)):
        checked_axes(axes)
        tree = of(mechanism, function)
        where = point_set(tree, points, axes)
        return compile(expr, tree, mode=mode, points=where, columns=columns)
    key: tuple[Any, ...] = (expr, mode, axes, tuple(points))
    if with_rows:
        key = (*key, columns)
    try:
        return mechanism.cache[key]
    except (KeyError, TypeError, AttributeError) as missed:
        checked_axes(axes)
        if isinstance(missed, TypeError):
            keys = _point_keys(points)
            if keys is not None:
                return program_at(
                    expr,
                    mechanism,
                    keys,
                    axes,
                    function,
                    mode,
                    with_rows=with_rows,
                    columns=columns,
                )
        tree = of(mechanism, function)
        where = point_set(tree, points, axes)
        program = compile(expr, tree, mode=mode, points=where, columns=columns)
        if isinstance(missed, KeyError):
            mechanism.cache[key] = program
        return program


def _point_keys(points: Sequence[Any]) -> list[Any] | None:
    """Points with offsets as tuples instead of arrays and lists; None if they are no keys still."""
    try:
        out = [p if isinstance(p, str) else (p[0], tuple(map(float, p[1]))) for p in points]
        hash(tuple(out))
    except (TypeError, ValueError, IndexError):
        return None
    return out


def default_backend() -> str:
    """The default backend: "native" if there is LLVM, or the value of PHIPSI_BACKEND."""
    name = os.environ.get("PHIPSI_BACKEND", "native")
    return backend_of(name).name if name == "native" else name


def _proved_rules(request: Request, mechanism: Model | None) -> tuple[Identity, ...]:
    """The rules of a request, proved; the proofs are a later layer, and loaded on use."""
    if not request.rules:
        return ()
    return view("proved rules")(request.rules, mechanism, request.inputs, request.points)


def build(
    request: Request,
    model: Model,
    backend: Backend,
    *,
    reproducible: bool = False,
    rules: tuple[Identity, ...] = (),
) -> Program:
    """The front half of the pipeline: every pass is a line.

    The back half, from steps to machine code, is `native/pipeline.py`.
    `sweeps/verify.py` says what is legal after each pass.
    """
    check_request(request, has_points=len(request.points) > 0)
    check_modes(request, model)
    check_tables(request.expressions, model, request.points)
    request = for_bodies_of(request, model)
    processor = STANDARD if reproducible else backend.processor
    plans = plans_of(request, model, pairs=backend.pairs, processor=processor, rules=rules)
    plan = plans[0]
    by_column = None
    if request.columns and not backend.columns:
        single = replace(request, columns=False)
        by_column = build(single, model, backend, reproducible=reproducible, rules=rules).source
    source = SweepProgram(request, plan.lowered, plan.steps, model, reproducible, by_column)
    return Program(source, plan.rewriting, backend, tuple(p.cost for p in plans))


@supports(loops=True, contacts=UNAFFECTED, flexible=True, rotors=True)
def explain(
    expr: Expr | str | Sequence[Expr | str],
    model: Model | None = None,
    *,
    latex: bool = False,
    rewrite: str = "full",
    mode: str | Sequence[str] = "apply",
    points: Sequence[Any] | PointSet | None = None,
    axes: str | None = None,
    inputs: Sequence[str] = (),
    rules: Sequence[Identity | str] = (),
    plan: bool = False,
    levels: bool = False,
    meanings: bool = False,
    notation: str = "",
    custom: Sequence[Expr] = (),
) -> Explanation:
    """How an expression is computed: the rewrites, the sweeps, the recursion per body, the cost.

    Parameters
    ----------
    expr : Expr, str or sequence of these
        The expression, or text that `parse` reads.
    model : Model, optional
        With a model, the flops are those of the model. Default: the recursion of any tree.
    latex : bool, optional
        Whether to write formulas in LaTeX. Default: False.
    rewrite : {"full", "as_written"}, optional
        As for `compile`.
    mode : str or sequence of str, optional
        ``mode="dense"`` explains the matrix instead of its product with a vector (needs a model).
        Default: "apply".
    points, axes : optional
        As for `compile`; without points, those of B and J are any.
    inputs, rules : optional
        As for `compile`.
    plan : bool, optional
        Whether to list the forms that were compared on the model, with their costs. Default: False.
    levels : bool, optional
        Whether to list for each operator of the computed expression its kind and meaning, its
        recursion, the transition of a link, its halves along the body and across the joint, and
        the change of coordinates: the seven levels of MM Fig. 3. Default: False.
    meanings : bool, optional
        Whether to write below each equation what its quantity means physically. Default: False.
    notation, custom : optional
        As for `compile`.

    Returns
    -------
    Explanation
        Text when printed, HTML in notebooks.

    Examples
    --------
    >>> import phipsi as pp
    >>> from phipsi.operators import phi, H, v
    >>> print(pp.explain(phi.T @ H.T @ v))
    expression
        φ* H* v
    <BLANKLINE>
    recursion (1 sweep over the bodies)
      1. base to tip, k after its parent p:
            y(k) = H*(k) v(k) + φ*(p,k) y(p)
    <BLANKLINE>
    cost  O(N), about 115 flops per body with one-dof hinges
    """
    latex, plan = true_or_false("latex", latex), true_or_false("plan", plan)
    levels, meanings = true_or_false("levels", levels), true_or_false("meanings", meanings)
    if model is not None and not isinstance(cast(object, model), Model):
        raise InputError(
            f"explain takes an expression, then a model: pp.explain(expr, model), not "
            f"{type(model).__name__}"
        )
    if model is not None:
        tree, at = forest_of(model, points, axes)
        names = {leaf.name for x in _tuple(expr, notation, custom) for leaf in leaves_of(x)}
        if at is None and names & NEEDS_POINTS and tree.n_bodies:
            points = [tree.body_names[-1]]
        program = compile(
            expr, model, mode=mode, rewrite=rewrite, points=points, axes=axes, inputs=inputs,
            rules=rules, notation=notation, custom=custom,
        )  # fmt: skip
        found = program.explain(latex=latex, plan=plan, meanings=meanings)
        return _with_levels(found) if levels else found
    _reject_what_needs_a_model(points, plan, mode)
    where = ANY_POINTS if axes is None else replace(ANY_POINTS, axes=checked_axes(axes))
    request = Request.make(
        expr,
        mode,
        None,
        False,
        inputs,
        rewrite,
        where,
        rules=rules,
        notation=notation,
        custom=custom,
    )
    found = _explained_of_any_tree(request, latex, meanings)
    return _with_levels(found) if levels else found


def _with_levels(explanation: Explanation) -> Explanation:
    """The explanation with the levels of each operator; recursions are those of any tree."""
    from phipsi.core.sweeps import factors_of, levels_of

    found: list[OperatorLevels] = []
    for x in factors_of(explanation.lowered):
        try:
            sweeps = explain(x, rewrite="as_written").sweeps
        except LoweringError:  # an operator that only has a meaning inside another
            sweeps = ()
        found.append(levels_of(x, (line for sweep in sweeps for line in sweep.equations)))
    return replace(explanation, levels=tuple(found))


def _reject_what_needs_a_model(points: Any, plan: bool, mode: str | Sequence[str]) -> None:
    """Options of `explain` that say nothing about the recursion of any tree."""
    if points is not None:
        raise InputError(
            f"points={points!r} are those of a model: pp.explain(expr, model, points=…). Without "
            "one, the recursion is that of any points"
        )
    if plan:
        raise InputError("plans are compared on a model: pp.explain(expr, model, plan=True)")
    for one in [mode] if isinstance(mode, str) else mode:
        one_of("mode", one, MODES)
    if mode != "apply":
        raise InputError(
            "the explanation of a matrix needs a model: pp.explain(expr, model, mode=…)"
        )


def _explained_of_any_tree(request: Request, latex: bool, meanings: bool) -> Explanation:
    """The recursion of an expression without a model."""
    from phipsi.core.sweeps import explain_steps

    check_request(request, has_points=True, has_model=False)
    with not_too_deep("explained"):
        proved = _proved_rules(request, None)
        rewriting = rewrite_request(request, armature=True, rules=proved)
        lowered = lower_request(request, rewriting.expressions, None)
        steps = schedule(lowered.fields)
    return explain_steps(
        request.expressions,
        rewriting,
        steps,
        lowered.fields,
        None,
        latex=latex,
        meanings=meanings,
    )


def _tuple(
    expr: Expr | str | Sequence[Expr | str], notation: str, custom: Sequence[Expr]
) -> tuple[Expr, ...]:
    """The expressions among the arguments; `compile` rejects the others."""
    some = (expr,) if isinstance(expr, str) or not isinstance(expr, Sequence) else tuple(expr)
    texts = (x for x in some if isinstance(cast(object, x), Expr | str))
    return tuple(as_expression(x, notation, custom) for x in texts)
