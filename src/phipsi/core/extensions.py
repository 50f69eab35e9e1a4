"""Rows that features bring to the core: leaves, operations, joints, and rows of bodies.

    @extensions.operation("spin_drag", rows="6", cols="6", …)   its body, for any scalar
    DRAG = extensions.leaf("drag", "motions -> forces", …)      its differential and dense formula
    @extensions.joint                                           a class of joints in stored models
    class Rows(extensions.RateRows)                             inertia between a joint and bodies

A feature is a room of the library, such as the rotors of `transmissions`, or a package of your own.
What it registers is in the same tables as what the core has, so that it composes with everything:
expressions, text, rules, derivatives, `pp.evaluate_dense`, printed recursions, machine code.
Registering is done when its module is imported. Constraints need no table: a class with
`closure(model)` is one.

`check` compares the formulas of a leaf with each other.

Reasons: docs/decisions/0071.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from phipsi.core.calculus import diff
from phipsi.core.compiler import compile
from phipsi.core.dense import evaluate_dense
from phipsi.core.expressions import (
    GENERAL,
    MEMORYLESS,
    ONE,
    REGISTERED,
    SPACES,
    Expr,
    Row,
    Space,
    leaf as leaf_of,
    registered_row,
    shown,
)
from phipsi.core.model import UNAFFECTED, Joint, Model, RateRows, register_joint, supports, tree_of
from phipsi.core.operators import INPUT_ORDER, VOCABULARY, H, I, M, phi, vocabulary
from phipsi.core.sweeps import (
    EACH,
    Body,
    Cost,
    Domain,
    Form,
    KeptRows,
    Kind,
    Operation,
    RowElimination,
    Variant,
    entries,
    reached,
)
from phipsi.errors import InputError, did_you_mean, one_of
from phipsi.package_state import only_public

__all__ = [
    "KeptRows",
    "RateRows",
    "RowElimination",
    "check",
    "entries",
    "joint",
    "leaf",
    "operation",
]
__dir__ = only_public(__name__)

Kinds = TypeVar("Kinds", bound=type[Joint])
_TAKEN = {"I", "x", "inertia", "placement", *INPUT_ORDER, *VOCABULARY.functions}
_STEP = 1e-30  # of complex steps


# ---- operations ----------------------------------------------------------------------------------


def operation(
    name: str,
    *,
    rows: str,
    cols: str,
    meaning: str,
    cost: Cost | int,
    kind: str = "general",
    domain: str = "body",
    form: Form | str = "",
    latex: str = "",
    linear: bool | Sequence[int] = False,
    of_joint: bool = False,
) -> Callable[[Body], Body]:
    """Register an operation of programs, whose body is the function below; a decorator.

    The body gets the arithmetic `a` of a backend and the field `x`: ``a.column(x.args[0])`` are the
    numbers of its first argument, ``a.dense(rows)`` is a block of numbers. It is written once, for
    floats as for values of machine code: with the methods of `core/sweeps/arithmetic.py` and the
    functions of `extensions.entries`, without if on a number. It reads only these blocks. Machine
    code has bodies in axes of its own: constants in body axes are turned into these with
    ``a.turn()``; those of the world come with the pose of the body.

    Parameters
    ----------
    name : str
        Name of the operation.
    rows, cols : str
        Of the result: a number, or "r" for the velocities of the joint.
    meaning : str
        In a few words.
    cost : int or callable
        Floating-point operations, or a function of the field and its sizes.
    kind : str, optional
        "general", "symmetric" or another structure of blocks. Default: "general".
    domain : {"body", "point", "link", "row", "world"}, optional
        What it is evaluated for. Default: "body".
    form, latex : str, optional
        How recursions print it, {0} for the first argument.
    linear : bool or sequence of int, optional
        Whether it is linear in each argument, or the arguments in which it is. Default: False.
    of_joint : bool, optional
        Whether the code differs from one type of joint to the next. Default: False.

    Returns
    -------
    callable
        The decorator.
    """
    _identifier("operation", name)
    one_of(f"operation {name!r}: kind", kind, [k.value for k in Kind])
    one_of(f"operation {name!r}: domain", domain, [d.value for d in Domain][:5])
    if not callable(cost) and cost < 0:
        raise InputError(f"operation {name!r}: cost={cost} must be a number of operations")

    def register(body: Body) -> Body:
        if not callable(cast(object, body)):
            raise InputError(
                f"operation {name!r} has no body: write @extensions.operation(…) above a function "
                "of the arithmetic and the field, def body(a, x)"
            )
        Operation(
            name, meaning, rows=rows, cols=cols, kind=Kind(kind), domain=Domain(domain),
            linear=(EACH if linear else ()) if isinstance(linear, bool) else linear,
            variant=Variant.JOINT if of_joint else Variant.ANY, cost=cost,
            form=form or f"{name}({{...}})", latex=latex or rf"\operatorname{{{name}}}({{...}})",
            body=body,
        )  # fmt: skip
        return body

    return register


# ---- leaves --------------------------------------------------------------------------------------


def leaf(
    name: str,
    spaces: str,
    *,
    home: str,
    needs: str = "",
    meaning: str = "",
    symbol: str = "",
    latex: str = "",
    source: str = "",
    symmetric: bool = False,
    positive: bool | None = None,
    six_rows: bool = False,
    definition: Callable[[Expr], Expr] | None = None,
    differential: Callable[[Expr, Any], Expr] | None = None,
    blocks: Callable[[Any, Expr], Any] | None = None,
    matrix: Callable[[Any], Any] | None = None,
    move: tuple[str, str] | None = None,
) -> Expr:
    """Register an operator or a vector; expressions in text form may then name it.

    It has a `definition`, an expression of others, or formulas of its own: `blocks`, `matrix` and,
    if it reads q, v, …, its `differential`, from which all derivatives follow.

    Parameters
    ----------
    name : str
        Name in expressions.
    spaces : str
        "motions -> forces", or "forces" for a vector.
    home : str
        The module that registers it, ``__name__``.
    needs : str, optional
        The inputs that it reads, such as "q v". Default: none.
    meaning, symbol, latex, source : str, optional
        A description, how it is printed, and where it comes from.
    symmetric : bool, optional
        Whether it is its own adjoint. Default: False.
    positive : bool, optional
        Whether symmetric blocks are ≥ 0. Default: assumed.
    six_rows : bool, optional
        Whether it is zero in rows of bodies beyond six, of modes and rotors; if not, mechanisms
        that have such rows are rejected. Default: False.
    definition : callable, optional
        ``definition(x)``, as in a row of the catalogue.
    differential : callable, optional
        ``differential(x, d)``, as in a row of the catalogue.
    blocks : callable, optional
        ``blocks(low, x)`` builds the field of its blocks. Default: the operation of the same name.
    matrix : callable, optional
        ``matrix(at)``, the whole matrix at one configuration.
    move : tuple of (str, str), optional
        Of an operator between points, bodies and the world: where it reads and what it sums over.

    Returns
    -------
    Expr
        The expression.
    """
    _check_name(name, symbol or name, home)
    takes, gives = _spaces(name, spaces)
    row = Row(
        name=name, symbol=symbol or name, latex=latex or rf"\mathrm{{{name}}}", takes=takes,
        gives=gives, structure=GENERAL if takes is ONE or move else MEMORYLESS,
        needs=tuple(needs.split()), symmetric=symmetric, positive=positive, six_rows=six_rows,
        meaning=meaning, source=source, definition=definition, differential=differential,
        blocks=None if definition else _checked(blocks or _operation(name)), matrix=matrix,
        move=move, remake=(registered_row, (home, name)),
    )  # fmt: skip
    for word in row.needs:
        one_of(f"leaf {name!r}: needs", word, INPUT_ORDER)
    if symmetric and gives is not takes.dual:
        raise InputError(
            f"leaf {name!r} cannot be symmetric: it takes {takes.phrase} to {gives.phrase}, and a "
            f"symmetric one gives {takes.dual.phrase}"
        )
    if definition is None:
        _check_formulas(row, blocks)
    REGISTERED[name] = row
    return leaf_of(row)


def _check_formulas(row: Row, blocks: Callable[[Any, Expr], Any] | None) -> None:
    """A leaf without a definition has all formulas of its own."""
    name = row.name
    if row.needs and row.differential is None:
        raise InputError(
            f"leaf {name!r} reads {', '.join(row.needs)} and has no differential, so it cannot be "
            "differentiated. Define how it changes, for example\n"
            f"    extensions.leaf({name!r}, …, differential=lambda x, d: x @ d.cross(d.motion))\n"
            "or a definition by other operators"
        )
    if row.matrix is None:
        raise InputError(
            f"leaf {name!r} has no formula for pp.evaluate_dense, which programs are checked "
            "against. Give its matrix at one configuration, for example\n"
            f"    extensions.leaf({name!r}, …, matrix=lambda at: at.diagonal(lambda k: …))"
        )
    if blocks is None and not Operation.exists(name):
        raise InputError(
            f"leaf {name!r} has no blocks for programs. Register an operation of this name, or "
            "give the field of its blocks, for example\n"
            f"    extensions.leaf({name!r}, …, blocks=lambda low, x: low.builder.apply(…))"
        )


def _operation(name: str) -> Callable[[Any, Expr], Any]:
    return lambda low, x: low.builder.apply(name)


def _checked(blocks: Callable[[Any, Expr], Any]) -> Callable[[Any, Expr], Any]:
    """The blocks; a vector of bodies is zero in rows beyond six if the leaf says so."""

    def checked(low: Any, x: Expr) -> Any:
        found = blocks(low, x)
        read = {str(y.data) for y in reached([found]) if y.op == "input"}
        more = sorted(read.difference(x.row.needs, low.given))
        if more:
            raise InputError(
                f"leaf {x.name!r} reads {', '.join(more)} and does not say so: "
                f'needs="{" ".join([*x.row.needs, *more])}"'
            )
        if x.is_vector and low.size(x.gives) == "b" and found.type.rows == "6":
            if not x.row.six_rows:
                low.reject_modes(shown(x), x.gives)
            return low.with_modal_rows(found)
        return found

    return checked


def _identifier(what: str, name: Any) -> None:
    if not isinstance(name, str) or not (name.isidentifier() and name.isascii()):
        raise InputError(f"{what} {name!r}: a name must be an ASCII identifier, such as 'drag'")


def _check_name(name: str, symbol: str, home: str) -> None:
    _identifier("leaf", name)
    for word in dict.fromkeys((name, symbol)):
        known = vocabulary().leaves.get(word)
        if known is not None and _is_again(known.row, name, home):
            continue
        if known is not None or word in _TAKEN:
            means = known.row.meaning if known is not None else "an input or a function"
            raise InputError(
                f"leaf {name!r}: {word!r} is the name of an operator or input already ({means}). "
                f"Choose another one, such as {name + '_own'!r}"
            )


def _is_again(row: Row, name: str, home: str) -> bool:
    """True if a module registers a leaf of its own once more, such as a notebook."""
    return REGISTERED.get(row.name) is row and row.remake[1] == (home, name)


def _spaces(name: str, spaces: object) -> tuple[Space, Space]:
    words = [word.strip() for word in spaces.split("->")] if isinstance(spaces, str) else []
    if len(words) not in (1, 2):
        raise InputError(
            f"leaf {name!r}: spaces={spaces!r} must read 'motions -> forces', or 'forces' for a "
            "vector"
        )
    found: list[Space] = []
    for word in words:
        if word not in SPACES:
            raise InputError(f"leaf {name!r}: {word!r} is no space. {did_you_mean(word, SPACES)}")
        found.append(SPACES[word])
    return (ONE, found[0]) if len(found) == 1 else (found[0], found[1])


# ---- joints --------------------------------------------------------------------------------------


def joint(kind: Kinds) -> Kinds:
    """Let stored models contain a class of joints, by its name; a decorator.

    The class derives from `Joint` or `AdditiveJoint` and may be used without this.

    Parameters
    ----------
    kind : type
        The class of joints.

    Returns
    -------
    type
        The same class.
    """
    if not isinstance(cast(object, kind), type) or not issubclass(kind, Joint):
        raise InputError(f"extensions.joint takes a class derived from Joint, not {kind!r}")
    register_joint(kind)
    return kind


# ---- the contract --------------------------------------------------------------------------------


@supports(loops=True, contacts=UNAFFECTED, flexible=True, rotors=True)
def check(expr: Expr, model: Model, *, seed: int = 0, tolerance: float = 1e-9) -> None:
    """Raise an error unless programs, matrix and differential of a leaf agree on a mechanism.

    The leaf must be part of an expression with operators of the catalogue that take it to joints.
    Its programs on both backends are compared with `pp.evaluate_dense`, and its derivatives with
    respect to q and v with complex-step derivatives of it.

    Parameters
    ----------
    expr : Expr
        An expression that contains the leaf.
    model : Model
        A tree or a `System`.
    seed : int, optional
        Seed of a random state. Default: 0.
    tolerance : float, optional
        Relative to the largest number. Default: 1e-9.
    """
    whole, model = _between_joints(expr), tree_of(model, check)
    rng = np.random.default_rng(seed)
    at: dict[str, Any] = {"q": model.random_configuration(rng)}
    at |= {name: rng.standard_normal(model.nv) for name in ("v", "vdot", "tau", "dq", "dv")}

    def full(y: Expr, **other: Any) -> Any:
        return evaluate_dense(y, model, **(at | other))

    wanted = full(whole)
    for backend in ("reference", "native"):
        program = compile(whole, model, mode="apply" if whole.is_vector else "dense",
                          backend=backend)  # fmt: skip
        found = program(**{name: at[name] for name in program.inputs})
        _compare(f"the program of {expr} ({program.backend})", found, wanted, tolerance)
    for wrt, moved in (("q", at["dq"]), ("v", at["dv"])):
        change = diff(whole, wrt, along="d" + wrt, modes=model.has_more_rows)
        step = 1j * _STEP * (model.qdot(at["q"], moved) if wrt == "q" else moved)
        by_step = full(whole, **{wrt: at[wrt] + step}).imag / _STEP
        _compare(
            (f"the derivative of {expr} with respect to {wrt}"), full(change), by_step, tolerance
        )


def _between_joints(x: Expr) -> Expr:
    """The leaf with operators around it that take it to spaces of joints."""
    before = {"motions": phi.T @ H.T, "forces": M @ phi.T @ H.T, "rates": I, "efforts": I}
    after = {"motions": H @ phi @ M, "forces": H @ phi, "rates": I, "efforts": I, "one": I}
    if x.gives.name not in after or (x.takes is not ONE and x.takes.name not in before):
        raise InputError(
            f"check supports leaves of bodies and joints, and {x} takes {x.takes.phrase} to "
            f"{x.gives.phrase}. Compare pp.compile with pp.evaluate_dense yourself"
        )
    out = after[x.gives.name] @ x
    return out if x.takes is ONE else out @ before[x.takes.name]


def _compare(what: str, found: Any, wanted: Any, tolerance: float) -> None:
    error = float(np.abs(np.asarray(found) - wanted).max(initial=0.0))
    size = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    if not error <= tolerance * size:
        raise InputError(
            f"{what} differs by {error:.3g} from what its matrix gives, whose largest number is "
            f"{size:.3g}"
        )
