"""The operators and vectors of the algebra, ready to write equations with.

>>> from phipsi.operators import H, M, phi
>>> print(H @ phi @ M @ phi.T @ H.T)
H φ M φ* H*

Why H maps forces to efforts: docs/decisions/0003.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from phipsi.core.expressions import (
    FUNCTIONS,
    REGISTERED,
    SPACES,
    UNKNOWN,
    Expr,
    Op,
    Row,
    Vocabulary,
    as_matrix,
    block_diagonal,
    cross,
    cross_force,
    dE_trace,
    dH_trace,
    diag,
    diagonal,
    dM_trace,
    half,
    identity,
    inertia_of,
    inertia_trace,
    inverse,
    leaf,
    logdet,
    outer,
    parse_together,
    parse_with,
    regress,
    rigid_cross,
    rigid_cross_force,
    rigid_vee,
    rigid_vee_force,
    scaled,
    trace,
    vee,
    vee_force,
    visible,
)
from phipsi.core.operators.block_values import BodyFunction
from phipsi.core.operators.catalogue import (
    CATALOGUE,
    Riccati,
    catalogue_leaf,
    operand,
    unit_vector,
    with_arguments,
)
from phipsi.core.operators.papers import explain_letter, paper_named, paper_vocabulary
from phipsi.errors import InputError, ParseError, SpaceError


def _leaves(names: str) -> Iterator[Expr]:
    """The leaves of the catalogue with these names."""
    return map(catalogue_leaf, names.split())


I = identity()  # noqa: E741  (the papers' name)
H, E_phi, phi, phi_tilde, M, Jr, shift, Lam_phi, R, angular, to_com = _leaves(
    "H E_phi phi phi_tilde M Jr shift Lam_phi R angular to_com"
)
A, A_grasp, B, J, Lambda = _leaves("A A_grasp B J Lambda")
Adot, Bdot, Hdot, Edot, Mdot = _leaves("Adot Bdot Hdot Edot Mdot")
unprescribed, prescribed, mass_matrix = _leaves("unprescribed prescribed mass_matrix")
P, D, D_half, G, K, proj, proj_bar, E_psi, psi, psi_tilde, Omega, Upsilon = _leaves(
    "P D D_half G K proj proj_bar E_psi psi psi_tilde Omega Upsilon"
)
v, vdot, tau, dq, dv, dvdot, dtau, dinertia, f_ext, f0, U, Udot = _leaves(
    "v vdot tau dq dv dvdot dtau dinertia f_ext f0 U Udot"
)
coordinates = catalogue_leaf("coordinates")
K_e, C_e, modal, modal_rows, eta = _leaves("K_e C_e modal modal_rows eta")
gravity, V, a, b, c_J, s_gauge, a_paper, b_paper, pose, frame_pose, moved = _leaves(
    "gravity V a b c_J s_gauge a_paper b_paper pose frame_pose moved"
)
bd = block_diagonal


def total(x: Expr, at: Sequence[float] | None = None) -> Expr:
    """Body forces summed at a point of the world, in world axes.

    `x` is a vector of body forces, or an operator that gives them; `at` is a point in world
    coordinates (m), the world origin by default. ``total(M @ V)`` is the momentum.

    >>> from phipsi.operators import M, V, total
    >>> print(total(M @ V))
    total M V
    """
    return _total_leaf(() if at is None else at) @ x


def _part_of_a_change(name: str) -> Callable[..., Expr]:
    def part(y: Expr, *directions: Expr) -> Expr:
        return with_arguments(name, y, *directions)

    part.__name__ = part.__qualname__ = name
    part.__doc__ = f"""{CATALOGUE[name].meaning}; other directions are held, before the open one."""
    return part


dH, dHT, dB, dBT, dA, dAT = map(_part_of_a_change, ("dH", "dHT", "dB", "dBT", "dA", "dAT"))
dE, dET, dM, ddM = map(_part_of_a_change, ("dE", "dET", "dM", "ddM"))


def unit_rate(joint: str, i: int = 0) -> Expr:
    """The unit vector of joint rates with 1 for dof i of the joint: the papers' pick-off."""
    return unit_vector("unit_rate", joint, i)


def unit_effort(joint: str, i: int = 0) -> Expr:
    """The unit vector of joint efforts with 1 for dof i of the joint."""
    return unit_vector("unit_effort", joint, i)


def unit_inertia(body: str, i: int = 0) -> Expr:
    """The unit vector of inertial parameters with 1 for parameter i of the body."""
    return unit_vector("unit_inertia", body, i)


def _total_leaf(at: Sequence[float]) -> Expr:
    try:
        point = tuple(float(c) for c in at)
    except (TypeError, ValueError):
        raise SpaceError(
            f"at={at!r} must be the coordinates of a point:  total(x, at=(x, y, z))"
        ) from None
    if len(point) not in (0, 3) or not all(math.isfinite(c) for c in point):
        raise SpaceError(f"a point has three finite coordinates, not {point}: total[x, y, z]")
    return leaf(CATALOGUE["total"], params=point if any(point) else ())


def _instance(name: str, args: tuple[Expr, ...]) -> Expr:
    name, _, place = name.partition("[")
    if CATALOGUE[name].braces is not None:
        return with_arguments(name, *args, hole=int(place[:-1]) if place else None)
    if not CATALOGUE[name].riccati or len(args) != 4:
        raise SpaceError(
            f"{name}{{…}} must be one of the Riccati family with four operators {{H; E; M; Jr}}"
        )
    armature = 0 if args[3].takes is UNKNOWN else args[3]
    return Riccati(args[0], args[1], args[2], armature).leaf(name)


_PARTS = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')


def _split(inside: str) -> list[str]:
    """The parts between commas that are not in quotes."""
    return _PARTS.findall(inside) if '"' in inside else inside.split(",")


def _unquoted(name: str) -> str:
    """A name in brackets; in quotes it may hold commas and brackets."""
    if len(name) < 2 or name[0] != '"' or name[-1] != '"':
        return name
    try:
        return json.loads(name)
    except ValueError:
        raise ParseError(f"{visible(name[:60])} is not a name in quotes") from None


def _with_params(name: str, inside: str) -> Expr:
    """Λ[P] and the like, unit_rate[joint, i] or total[x, y, z]."""
    parts = [_unquoted(part.strip()) for part in _split(inside)]
    if CATALOGUE[name].brackets == "selection":
        return catalogue_leaf(name)[inside.strip()]
    word = visible(inside[:60])
    if CATALOGUE[name].brackets == "component":
        number = parts[1] if len(parts) > 1 else "0"
        whole = number.isascii() and number.isdigit() and len(number) < 10
        if not parts[0].isprintable() or not parts[0] or len(parts) > 2 or not whole:
            raise ParseError(f"{name}[name, i] takes a name and a number from 0, not '{word}'")
        return unit_vector(name, parts[0], int(number))
    if CATALOGUE[name].brackets == "space":
        if inside.strip() not in SPACES:
            raise ParseError(f"'{word}' is not a space; the spaces are {', '.join(SPACES)}")
        return operand(SPACES[inside.strip()])
    try:
        at = tuple(float(part) for part in parts)
    except ValueError:
        raise ParseError(f"'{word}' are not the coordinates of a point") from None
    return _total_leaf(at)


def _bracketed(kind: str) -> list[str]:
    """The names of the leaves with this kind of parameter in brackets."""
    return [name for name, row in CATALOGUE.items() if row.brackets == kind]


_INCOMPLETE = {
    **{
        name: f"{name} needs vectors in braces, {name}{{x}}"
        for name, row in CATALOGUE.items()
        if row.needs_braces
    },
    **{name: f"{name} needs a name in brackets, {name}[name]" for name in _bracketed("component")},
    "select": "select is written by naming a selection of bodies, as in Λ[P] or J[P]",
}


_ALIASES = {
    "phi~": "phi_tilde",
    "psi~": "psi_tilde",
    "φ~": "phi_tilde",
    "ψ~": "psi_tilde",
    "ϕ": "phi",
    "ℰ_φ": "E_phi",
    "ℰ_ψ": "E_psi",
    "ℰ̇_φ": "Edot",
    "Eφ": "E_phi",
    "Eψ": "E_psi",
    "J_r": "Jr",
}
VOCABULARY = Vocabulary(
    leaves={
        **{name: catalogue_leaf(name) for name in CATALOGUE},
        **{row.symbol: catalogue_leaf(row.name) for row in CATALOGUE.values()},
        **{alias: catalogue_leaf(name) for alias, name in _ALIASES.items()},
    },
    functions={"bd": bd, "inv": inverse, "logdet": logdet, "as_matrix": as_matrix, **FUNCTIONS},
    instance=_instance,
    with_params=_with_params,
    incomplete=_INCOMPLETE,
    foreign=lambda word, text, words: explain_letter(word, VOCABULARY, text, words),
)


def parse(text: str, notation: str = "", custom: Sequence[Expr] = ()) -> Expr:
    r"""Parse an operator expression as the papers print it, in Greek, ASCII or LaTeX.

    A product is juxtaposition or ``@``; ``*`` after an operator is its adjoint, ``⁻¹`` or ``^-1``
    its inverse; ``τ`` is the joint effort and ``π``, ``π̄`` are the papers' projections. LaTeX is
    read as `Expr.latex` writes it, and as papers print it: ``\mathcal{M}^{-1}``, ``\bar\pi``.

    Parameters
    ----------
    text : str
        The expression.
    notation : str, optional
        Short name of a paper whose letters the text uses: "SOA", "MM", "MC", "88-11", "88-11 II" or
        "MS" (docs/theory/sources.md). Default: "", the letters of phipsi.
    custom : sequence of Expr, optional
        Custom operators and vectors (`pp.custom`) that the text may name; the functions with which
        their blocks were defined may be named, too.

    Returns
    -------
    Expr
        The expression.

    Raises
    ------
    ParseError
        If the text does not follow the grammar; the message marks the place.
    SpaceError
        If spaces do not match.

    Examples
    --------
    >>> import phipsi as pp
    >>> print(pp.parse("(I - H psi K)* D^-1 (I - H psi K)"))
    (I − K* ψ* H*) D⁻¹ (I − H ψ K)
    >>> pp.parse(r"H\phi M\phi^{*}H^{*}") is pp.parse("H φ M φᵀ Hᵀ")
    True

    The letters of a paper are read as the paper means them:

    >>> print(pp.parse("(I − HΨL)ᵀ D⁻¹ (I − HΨL) T", notation="88-11"))
    (I − G* Λ_φ* shift* ψ* H*) D⁻¹ (I − H ψ shift Λ_φ G) τ
    """
    return parse_with(text, vocabulary(notation, custom))


def vocabulary(
    notation: str = "", custom: Sequence[Expr] = (), base: Vocabulary = VOCABULARY
) -> Vocabulary:
    """The names that a text may use: those of `base`, of a paper, of features, and custom ones."""
    return _vocabulary(
        paper_named(notation), custom_leaves(custom), base, tuple(REGISTERED.values())
    )


@lru_cache(maxsize=64)
def _vocabulary(
    notation: str, custom: tuple[Expr, ...], base: Vocabulary, features: tuple[Row, ...]
) -> Vocabulary:
    words = paper_vocabulary(notation, base) if notation else base
    if features:
        more = {word: leaf(row) for row in features for word in (row.name, row.symbol)}
        words = replace(words, leaves={**more, **words.leaves})
    if not custom:
        return words
    named = {word: x for x in custom for word in (x.row.name, x.row.symbol)}
    values: list[Any] = [x.row.value for x in custom]
    formulas: dict[str, BodyFunction] = {}
    for f in (getattr(value, "function", None) for value in values):
        if isinstance(f, BodyFunction) and formulas.setdefault(f.name, f) != f:
            raise InputError(
                f"two formulas are named {f.name}, with different contents. Rename one of the "
                "functions"
            )

    def derived(word: str) -> BodyFunction | None:
        found = (f.named(word) for f in formulas.values())
        return next((f for f in found if f is not None), None)

    functions = {**words.functions, **formulas}
    return replace(words, leaves={**words.leaves, **named}, functions=functions, derived=derived)


def custom_leaves(custom: Sequence[Expr]) -> tuple[Expr, ...]:
    """The operators and vectors in the option `custom`, checked."""
    listed = isinstance(cast(object, custom), Collection) and not isinstance(custom, str)
    if not listed or not all(isinstance(cast(object, x), Expr) and x.op is Op.LEAF for x in custom):
        raise InputError(
            f"custom={custom!r} must be a list of custom operators and vectors:\n"
            '    C = pp.custom.operator("C", "rates -> efforts", 0.5)\n'
            '    pp.parse("C v", custom=[C])'
        )
    return tuple(custom)


def as_expression(
    x: Expr | str, notation: str = "", custom: Sequence[Expr] = (), base: Vocabulary = VOCABULARY
) -> Expr:
    """An expression unchanged, text as `parse` reads it: the door of functions that take both."""
    plain = (
        isinstance(cast(object, notation), str) and not notation and not custom and not REGISTERED
    )
    words = base if plain else vocabulary(notation, custom, base)
    return parse_with(x, words) if isinstance(x, str) else x


def as_sides(
    sides: Sequence[Expr | str], notation: str = "", custom: Sequence[Expr] = ()
) -> list[Expr]:
    """Both sides of a claim, read so that they are between the same spaces if possible."""
    texts = [x for x in sides if isinstance(x, str)]
    if len(texts) < len(sides):
        return [as_expression(x, notation, custom) for x in sides]
    return list(parse_together(texts, vocabulary(notation, custom), _between_the_same))


def _between_the_same(sides: Sequence[Expr]) -> bool:
    known = {(x.takes, x.gives) for x in sides if x.takes is not UNKNOWN}
    return len(known) < 2


__all__ = [
    "A", "A_grasp", "Adot", "B", "Bdot", "C_e", "D", "D_half", "E_phi", "E_psi", "Edot", "G",
    "H", "Hdot", "I", "J", "Jr", "K", "K_e", "Lam_phi", "Lambda", "M", "Mdot", "Omega", "P",
    "R", "Riccati", "U", "Udot", "Upsilon", "V", "a", "a_paper", "angular", "as_matrix", "b",
    "b_paper", "bd", "c_J", "coordinates", "cross", "cross_force", "dA", "dAT", "dB", "dBT",
    "dE", "dET", "dE_trace", "dH", "dHT", "dH_trace", "dM", "dM_trace", "ddM", "diag",
    "diagonal", "dinertia", "dq", "dtau", "dv", "dvdot", "eta", "f0", "f_ext", "frame_pose",
    "gravity", "half", "inertia_of", "inertia_trace", "logdet", "mass_matrix", "modal",
    "modal_rows", "moved", "operand", "outer", "parse", "phi", "phi_tilde", "pose",
    "prescribed", "proj", "proj_bar", "psi", "psi_tilde", "regress", "rigid_cross",
    "rigid_cross_force", "rigid_vee", "rigid_vee_force", "s_gauge", "scaled", "shift", "tau",
    "to_com", "total", "trace", "unit_effort", "unit_inertia", "unit_rate", "unprescribed", "v",
    "vdot", "vee", "vee_force",
]  # fmt: skip
