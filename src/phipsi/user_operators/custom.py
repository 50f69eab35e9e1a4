"""Custom operators, vectors and scalars: values that compose with those of the catalogue.

A custom row is a `Row` as those of the catalogue are, with a value: a `Table` of constant blocks or
an expression. Rows with equal contents are one row, so that expressions and compiled programs are
found again; nothing is registered anywhere.
"""

from __future__ import annotations

import inspect
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from weakref import WeakValueDictionary

from phipsi.core.expressions import (
    ANTICAUSAL,
    CAUSAL,
    GENERAL,
    MEMORYLESS,
    ONE,
    POINT_FORCES,
    POINT_MOTIONS,
    SPACES,
    UNKNOWN,
    Expr,
    Row,
    Space,
    Structure,
    is_memoryless,
    latex_name,
    leaf,
    shown,
    signature,
    total_of,
)
from phipsi.core.operators import (
    INPUT_ORDER,
    VOCABULARY,
    Riccati,
    check_structure,
    custom_leaves,
    is_one_step,
    parse,
    solution,
    vocabulary,
)
from phipsi.errors import (
    InputError,
    PhipsiError,
    SpaceError,
    did_you_mean,
    is_whole,
    one_of,
    true_or_false,
)
from phipsi.package_state import only_public
from phipsi.user_operators.formula_tracing import formula_block
from phipsi.user_operators.own_blocks import Table

__all__ = [
    "operator",
    "riccati",
    "scalar",
    "vector",
]
__dir__ = only_public(__name__)

_ROWS: WeakValueDictionary[tuple[Any, ...], Row] = WeakValueDictionary()
_TAKEN = {"I", "x", "inertia", "placement", *INPUT_ORDER, *VOCABULARY.functions}


def own_row(
    name: str,
    symbol: str,
    latex: str,
    takes: Space,
    gives: Space,
    structure: Structure,
    value: Table | Expr,
    meaning: str = "",
    source: str = "",
    symmetric: bool = False,
    inverse: Table | None = None,
) -> Row:
    """The one row with these contents; its value is a table of blocks or an expression."""
    contents = (
        name, symbol, latex, takes, gives, structure, value, meaning, source, symmetric, inverse,
    )  # fmt: skip
    found = _ROWS.get(contents)
    if found is not None:
        return found
    common: dict[str, Any] = {
        "meaning": meaning, "source": source, "symmetric": symmetric, "value": value,
        "inverse_value": inverse, "remake": (own_row, contents),
    }  # fmt: skip
    if isinstance(value, Table):
        common |= {
            "varies": (name,),
            "blocks": _blocks_of(value),
            "matrix": _matrix_of(value),
            "inverse": None if inverse is None else _blocks_of(inverse),
            "positive": value.is_positive,
            "move": ("", "") if value.of_points and takes is not ONE else None,
        }
    else:  # written out for the rules, unless they know it: blocks, and steps to the parent
        known = is_memoryless(structure) or is_one_step(value)
        common |= {"definition": _constant(value), "compound": not known}
    made = Row(name, symbol, latex, takes, gives, structure, **common)
    return _ROWS.setdefault(contents, made)


def _blocks_of(table: Table) -> Callable[[Any, Expr], Any]:
    def blocks(lowering: Any, x: Expr) -> Any:
        return lowering.table(table)

    return blocks


def _matrix_of(table: Table) -> Callable[[Any], Any]:
    def matrix(configuration: Any) -> Any:
        return configuration.table(table)

    return matrix


def _constant(value: Expr) -> Callable[[Expr], Expr]:
    def definition(x: Expr) -> Expr:
        return value

    return definition


def with_any_blocks(x: Expr) -> Expr:
    """A custom operator or vector of the same name and spaces with a table that a proof fills.

    The table is of zeros.
    """
    row = x.row
    words = row.name, row.symbol, row.latex
    number = Table(row.name, row.takes, row.gives, {}, row.symmetric, *words[1:])
    return leaf(
        own_row(*words, row.takes, row.gives, row.structure, number, symmetric=row.symmetric)
    )


def operator(
    name: str,
    spaces: str | tuple[str | Space, str | Space],
    block: Any = None,
    *,
    recursion: Callable[[Expr], Expr] | str | None = None,
    custom: Sequence[Expr] = (),
    structure: str = "memoryless",
    symmetric: bool = False,
    inverse: Any = None,
    symbol: str = "",
    latex: str = "",
    meaning: str = "",
    source: str = "",
) -> Expr:
    """Define a custom operator.

    Its value is constant blocks, an expression of other operators, a function of quantities of a
    body, or the solution of a recursion over the bodies. The operator is a value: nothing is
    registered, and equal operators are the same object. In one expression, a name means one
    operator.

    Parameters
    ----------
    name : str
        Its name in expressions, and as an input of programs.
    spaces : str or tuple of (str or Space)
        The spaces between which it maps, such as ``"motions -> forces"``.
    block : array_like, dict, Expr or callable, optional
        Numbers: one matrix for all bodies, a dictionary of matrices by the names of bodies (zeros
        for the others), or one array with the blocks of all bodies; a number stands for that
        multiple of the identity. Blocks are in body axes, angular part first, and the operator is
        memoryless. Between point_motions and point_forces: one (6, 6) for all points, or one array
        with the blocks of all points, in the axes of the points of the program.
        An expression: the operator is a name for it.
        A function: it returns the block of a body, computed with plain arithmetic and NumPy
        functions (np.where instead of if) from quantities of that body, which are the names of its
        arguments. Memoryless operators such as M, H, D, P are matrices, vectors such as v and V
        have one axis, and those in `custom` likewise; an argument with a default value is a
        constant. The function is traced once for each number of joint degrees of freedom.
    recursion : callable or str, optional
        Instead of a block: the equation that the operator solves over the children or the parent of
        each body. A function of X that returns the right side of X = F(X), or the equation as a
        string. Known forms are X = B + A X, X = B + X C, X = B + E X E* and X = B + bd(E* X E) with
        steps E to the parent, and Riccati equations.
    custom : sequence of Expr, optional
        The other custom operators and vectors that a function or a recursion names.
    structure : {"memoryless", "causal", "anticausal"}, optional
        The structure of the solution of a recursion; causal is tip to base. Default: "memoryless".
    symmetric : bool, optional
        Whether X = X*, which is checked. Default: False.
    inverse : array_like, dict or bool, optional
        The block of X⁻¹, or True to compute it in advance.
    symbol, latex : str, optional
        How it is printed. Default: its name.
    meaning, source : str, optional
        A few words about it.

    Returns
    -------
    Expr
        The operator.

    Raises
    ------
    InputError
        If the name is taken, or the block is invalid.
    SpaceError
        If the spaces do not match the value.

    See Also
    --------
    vector, scalar, riccati

    Notes
    -----
    **Cost:** constant blocks cost as much as reading an input, a name for an expression nothing.

    Examples
    --------
    >>> import phipsi as pp
    >>> from phipsi.operators import mass_matrix
    >>> C = pp.custom.operator("C", "rates -> efforts", 0.5, symmetric=True, meaning="damping")
    >>> print((mass_matrix + 0.01 * C).inv)
    (0.01 C + ℳ)⁻¹
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.compile(C, arm)([3.0, 4.0]).tolist()
    [1.5, 2.0]
    >>> W = pp.custom.operator("W", "motions -> forces", {"link2": 1.0}, symmetric=True)
    >>> S = "S = W + E_phi S E_phi*"
    >>> print(pp.custom.operator("S", "motions -> forces", recursion=S, custom=[W]))
    S
    """
    takes, gives = _spaces(name, spaces)
    common = _common(name, symbol, latex, meaning, source)
    symmetric = true_or_false(f"{name}: symmetric", symmetric)
    if (block is None) == (recursion is None):
        raise InputError(f"{name} needs either a block or a recursion {name} = F({name})")
    if recursion is not None:
        block = _solved(common, takes, gives, recursion, custom, structure)
    if symmetric and gives is not takes.dual:
        raise SpaceError(
            f"{name} : {takes.phrase} → {gives.phrase} cannot be symmetric: its adjoint is "
            f"{gives.dual.phrase} → {takes.dual.phrase}. Remove symmetric=True"
        )
    if callable(block) and not isinstance(block, Expr):
        _check_blocks(name, takes, gives)
        block = _by_formula(common, takes, gives, block, custom, symmetric)
    if isinstance(block, Expr):
        return _named_expression(common, takes, gives, block, symmetric, inverse)
    if {takes, gives} - {POINT_MOTIONS, POINT_FORCES}:
        _check_blocks(name, takes, gives)
    table = Table(name, takes, gives, block, symmetric, common["symbol"], common["latex"])
    known = None if inverse is None or inverse is False else table.inverted(inverse)
    return leaf(
        own_row(**common, takes=takes, gives=gives, structure=MEMORYLESS, value=table,
                symmetric=symmetric, inverse=known)
    )  # fmt: skip


def vector(
    name: str,
    space: str | Space,
    block: Any = None,
    *,
    recursion: Callable[[Expr], Expr] | str | None = None,
    custom: Sequence[Expr] = (),
    symbol: str = "",
    latex: str = "",
    meaning: str = "",
    source: str = "",
) -> Expr:
    """Define a custom vector.

    With ``inputs=["k"]`` its components are an input of a program, and ``pp.diff(expr, "k")`` is
    the derivative with respect to them.

    Parameters
    ----------
    name : str
        Its name in expressions, and as an input of programs.
    space : str or Space
        Its space, such as "rates" or "motions".
    block : array_like, dict, Expr or callable, optional
        One array for all bodies; a dictionary of arrays by the names of bodies or joints (zeros for
        the others); one array with the components of all bodies, (nv,) or (n, 6); a number for all
        components; an expression; or a function of quantities of one body that returns its
        components, written as for `operator`.
    recursion : callable or str, optional
        Instead of a block: the equation z = u + A z that it solves.
    custom, symbol, latex, meaning, source : optional
        As for `operator`.

    Returns
    -------
    Expr
        The vector.

    See Also
    --------
    operator, scalar

    Examples
    --------
    >>> import phipsi as pp
    >>> k = pp.custom.vector("k", "efforts", [1.0, 2.0], meaning="spring efforts")
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.compile(2 * k, arm)().tolist()
    [2.0, 4.0]
    >>> drag = pp.custom.vector("drag", "efforts", lambda v: -0.5 * v * abs(v))
    >>> pp.compile(drag, arm)([2.0, -4.0]).tolist()
    [-2.0, 8.0]
    """
    takes, gives = ONE, _space(name, space)
    common = _common(name, symbol, latex, meaning, source)
    if (block is None) == (recursion is None):
        raise InputError(f"{name} needs either a block or a recursion {name} = F({name})")
    if recursion is not None:
        block = _solved(common, takes, gives, recursion, custom, "general")
    if isinstance(block, Expr):
        return _named_expression(common, takes, gives, block, False, None)
    if gives is not ONE and (not gives.per_body or gives.is_curved):
        raise SpaceError(
            f"{name}: custom components belong to joints or bodies, not to {gives.phrase}. "
            f"The spaces are {_listed()}"
        )
    if callable(block):
        block = _by_formula(common, takes, gives, block, custom)
        return _named_expression(common, takes, gives, block, False, None)
    table = Table(name, takes, gives, block, False, common["symbol"], common["latex"])
    return leaf(own_row(**common, takes=takes, gives=gives, structure=GENERAL, value=table))


def scalar(name: str, value: Any, **words: Any) -> Expr:
    """Define a custom scalar, such as a time step: an input, or a variable of derivatives.

    Parameters
    ----------
    name : str
        Its name in expressions, and as an input of programs.
    value : float, Expr or callable
        A number, a scalar expression, or a function of quantities of one body, whose results are
        summed over the bodies.
    **words : optional
        `custom`, `symbol`, `latex`, `meaning` and `source`, as for `operator`.

    Returns
    -------
    Expr
        The scalar; it multiplies vectors from the right.

    See Also
    --------
    operator, vector

    Examples
    --------
    >>> import phipsi as pp
    >>> h = pp.custom.scalar("h", 0.5)
    >>> v = pp.operators.v
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.compile(v @ h, arm)([2.0, 4.0]).tolist()
    [1.0, 2.0]
    >>> power = pp.custom.scalar("power", lambda v: v @ v)
    >>> float(pp.compile(power, arm)([2.0, 4.0]))
    20.0
    """
    return vector(name, ONE, value, **words)


def riccati(
    H: Expr | None = None, M: Expr | None = None, E: Expr | None = None, J: Expr | int | None = None
) -> Riccati:
    """The articulated-body (Riccati) family of other operators.

    Its attributes P, D, G, K, π, π̄, E_ψ, ψ, ψ̃, Ω and Υ solve P = M + E (P − G H P) E*,
    D = H P H* + J, G = P H* D⁻¹. With them (J + H φ M φ* H*)⁻¹ = (I − H ψ K)* D⁻¹ (I − H ψ K).

    Parameters
    ----------
    H : Expr, optional
        Body forces → joint efforts. Default: H.
    M : Expr, optional
        Body motions → body forces. Default: M.
    E : Expr, optional
        One body to its parent. Default: E_φ.
    J : Expr or 0, optional
        Joint rates → joint efforts. Default: Jr.

    Returns
    -------
    Riccati
        The family.

    See Also
    --------
    operator

    Notes
    -----
    **Source:** SOA eqs. 0.25–0.27 and Lemma 0.3, for arbitrary weights.

    Examples
    --------
    >>> import phipsi as pp
    >>> C = pp.custom.operator("C", "rates -> efforts", 0.1, symmetric=True)
    >>> print(pp.custom.riccati(J=pp.operators.Jr + C).D)
    D{H; E_φ; M; C + Jr}
    """
    usual = Riccati()
    if J is not None and not (isinstance(J, Expr) or (is_whole(J) and J == 0)):
        raise SpaceError(
            f"riccati(J={J!r}) must be an operator joint rates → joint efforts, or 0. A number "
            'becomes one by  C = pp.custom.operator("C", "rates -> efforts", 0.1, symmetric=True)  '
            "and  pp.custom.riccati(J=C)"
        )
    return Riccati(
        usual.H if H is None else H,
        usual.E if E is None else E,
        usual.M if M is None else M,
        usual.Jr if J is None else J,
    )


# ---- checks --------------------------------------------------------------------------------------


def _listed() -> str:
    return ", ".join(n for n, s in SPACES.items() if s.per_body and not s.is_curved)


def _space(name: str, space: str | Space) -> Space:
    if isinstance(space, Space):
        return space
    word = " ".join(space.split()) if isinstance(cast(object, space), str) else repr(space)
    found = SPACES.get(word) or next((s for s in SPACES.values() if s.phrase == word), None)
    if found is None:
        raise SpaceError(f"{name}: {word!r} is not a space. {did_you_mean(str(word), SPACES)}")
    return found


def _check_blocks(name: str, *spaces: Space) -> None:
    for space in spaces:
        if not space.per_body or space.is_curved:
            raise SpaceError(
                f"{name}: custom blocks are between joint and body spaces, one for each body, "
                f"and {space.phrase} are not. The spaces are {_listed()}; "
                "numbers may also be from point_motions to point_forces and back"
            )


def _spaces(name: str, spaces: Any) -> tuple[Space, Space]:
    parts: Any = spaces.replace("→", "->").split("->") if isinstance(spaces, str) else spaces
    parts = list(cast("list[Any]", parts)) if isinstance(parts, (tuple, list)) else []
    if len(parts) != 2:
        raise SpaceError(
            f"{name}: an operator maps from one space to another, "
            f'spaces="motions -> forces", not {spaces!r}'
        )
    return _space(name, parts[0]), _space(name, parts[1])


def _common(name: str, symbol: str, latex: str, meaning: str, source: str) -> dict[str, Any]:
    """The names, checked: they must not mean something in the catalogue."""
    if not isinstance(cast(object, name), str) or not name.isidentifier():
        raise InputError(f"the name {name!r} must be an identifier, such as 'U'")
    texts = {"symbol": symbol, "latex": latex, "meaning": meaning, "source": source}
    for option, text in texts.items():
        if not isinstance(cast(object, text), str):
            raise InputError(f"{name}: {option}={text!r} must be a str:  {option}={str(text)!r}")
    symbol = symbol or name
    latex = latex or (name if len(name) == 1 else latex_name(name))
    for word in dict.fromkeys((name, symbol)):
        plain = unicodedata.normalize("NFC", word)
        known = vocabulary().leaves.get(plain)
        if known is not None or plain in _TAKEN:
            means = f"{known.row.meaning}" if known is not None else "taken"
            raise InputError(
                f"the name {word!r} already belongs to an operator or input ({means}). Choose "
                f"another one, such as {name + '_custom'!r}"
            )
    return {"name": name, "symbol": symbol, "latex": latex, "meaning": meaning, "source": source}


def _by_formula(
    common: Mapping[str, Any],
    takes: Space,
    gives: Space,
    function: Callable[..., Any],
    custom: Sequence[Expr],
    symmetric: bool = False,
) -> Expr:
    known = {**VOCABULARY.leaves, **{x.name: x for x in custom_leaves(custom)}}
    return formula_block(common, takes, gives, function, symmetric, known)


_STRUCTURES = dict(
    memoryless=MEMORYLESS, causal=CAUSAL, anticausal=ANTICAUSAL, general=GENERAL
)  # fmt: skip


def _solved(
    common: Mapping[str, Any],
    takes: Space,
    gives: Space,
    recursion: Callable[[Expr], Expr] | str,
    custom: Sequence[Expr],
    structure: str,
) -> Expr:
    """The expression that solves a recursion."""
    name = common["name"]
    one_of(f"{name}: structure", structure, _STRUCTURES)
    kind = GENERAL if takes is ONE else _STRUCTURES[structure]
    X = leaf(Row(name, common["symbol"], common["latex"], takes, gives, kind))
    if isinstance(recursion, str):
        left, equals, right = recursion.partition("=")
        custom = custom_leaves(custom)
        if not equals or parse(left, custom=[X, *custom]) is not X:
            raise InputError(
                f"{name}: recursion={recursion!r} must be an equation of the form  {name} = …"
            )
        value = parse(right, custom=[X, *custom])
    else:
        value = _called(name, recursion, X)
    if not isinstance(cast(object, value), Expr):
        raise InputError(f"{name}: the recursion must return an expression, not {value!r}")
    value = value if value.takes is not UNKNOWN else total_of([(0, X), (1, value)])
    if value.takes is not takes or value.gives is not gives:
        raise SpaceError(
            f"the recursion of {name} : {takes.phrase} → {gives.phrase} has the right side\n"
            f"    {shown(value)} : {signature(value)}"
        )
    found = solution(X, value)
    check_structure(X, found)
    return found


_MISUSED = ("operand", "ufunc", "Expr", "argument")
"""Words of the errors that arithmetic on an operator raises where an array is meant."""


def _called(name: str, recursion: Callable[[Expr], Expr], X: Expr) -> Expr:
    """The right side that a function of X returns."""
    advice = f"recursion=lambda {name}: …  or  recursion='{name} = …'"
    if not callable(recursion):
        raise InputError(
            f"{name}: recursion= must be a function of {name} or a str, not {recursion!r}. Write  "
            f"{advice}"
        )
    try:
        inspect.signature(recursion).bind(X)
    except TypeError as error:
        raise InputError(
            f"{name}: recursion= must be a function of one argument, {name} ({error}). Write  "
            f"{advice}"
        ) from None
    except ValueError:
        pass  # a function of C without a known signature
    try:
        return recursion(X)
    except PhipsiError:
        raise
    except TypeError as error:
        if not any(word in str(error) for word in _MISUSED):
            raise  # the user's own
        raise InputError(
            f"{name}: the recursion fails ({error}). {name} is an operator there, not an array: "
            "use only @, +, −, .T, .inv, numbers and bd"
        ) from None


def _named_expression(
    common: Mapping[str, Any], takes: Space, gives: Space, x: Expr, symmetric: bool, inverse: Any
) -> Expr:
    name = common["name"]
    if x.takes is not takes or x.gives is not gives:
        raise SpaceError(
            f"{name} is declared {takes.phrase} → {gives.phrase}, but\n"
            f"    {shown(x)} : {signature(x)}"
        )
    if symmetric and x.T is not x:
        raise SpaceError(
            f"{name} is declared symmetric, but {shown(x)} differs from its adjoint {shown(x.T)}. "
            "Remove symmetric=True"
        )
    if inverse is not None:
        raise InputError(
            f"{name}: inverse= has no effect, because {name} is an expression. Remove it, and "
            f"write {name}.inv"
        )
    return leaf(
        own_row(**common, takes=takes, gives=gives, structure=x.structure, value=x,
                symmetric=x.T is x)
    )  # fmt: skip
