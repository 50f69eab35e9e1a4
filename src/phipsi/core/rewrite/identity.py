"""Identity: one equation of the algebra as data, and the conditions under which equations hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from phipsi.core.expressions import (
    UNKNOWN,
    Expr,
    advice,
    misread,
    shown,
    signature,
    with_plain_equals,
    zero,
)
from phipsi.core.model import Model
from phipsi.core.operators import as_sides, leaves_of, paper_named
from phipsi.errors import InputError, SpaceError, did_you_mean


class Claim(NamedTuple):
    """Two arrays that must be equal, exactly; a number stands for an array full of it."""

    lhs: Any
    rhs: Any


@dataclass(frozen=True)
class Identity:
    """An equation of the algebra, lhs = rhs, that holds under a condition.

    `phipsi.prove` decides whether it holds; `phipsi.compile` uses it as a rule (``rules=[…]``).
    The parameters from `kind` to `rule` are for the tables of the library.

    Parameters
    ----------
    lhs, rhs : Expr, str or None
        The two sides, between the same spaces. Strings are read by `parse`; their decimals are
        exact, and a lone I or 0 is the one between the spaces of the other side.
    condition : str, optional
        The mechanisms it is about: a list of known conditions, such as ``"Jr = 0, serial"``.
        Default: "", all mechanisms.
    name : str, optional
        Default: the equation itself.
    source : str, optional
        Where it comes from.
    kind : {"theorem", "rule"}, optional
        A rule is applied by the rewriter, from left to right; a theorem is stated and proved only.
    check : callable, optional
        For equations that are not between operators (single blocks, physics), instead of two sides:
        a function of a proof state that returns two arrays which must be equal.
    note : str, optional
        A remark.
    statement : str, optional
        The text of a check.
    rigid : bool, optional
        Whether a check divides by no hinge inertia, so that its degree is small.
    sweeps : {"", "apply", "dense"}, optional
        If set, the left side is the result of its compiled program, applied to a vector or as a
        matrix.
    rule : str, optional
        Name of the rule that states the same as this theorem.
    notation, custom : optional
        How strings are read, as for `parse`: with the letters of a paper, and with custom
        operators. The papers have no rotors: if the equation needs Jr = 0, `phipsi.prove` decides
        it with this condition.

    Examples
    --------
    >>> import phipsi as pp
    >>> gain = pp.Identity("H G", "I", "Jr = 0", name="gain", source="SOA")
    >>> print(gain)
    gain:  H G = I[efforts]   if Jr = 0   [SOA]
    >>> pp.prove(gain).holds
    True
    """

    lhs: Expr | None
    rhs: Expr | None
    condition: str = ""
    _: KW_ONLY
    name: str = ""
    source: str = ""
    kind: str = "theorem"
    check: Callable[[Any], Claim] | None = None
    note: str = ""
    statement: str = ""
    rigid: bool = False
    sweeps: str = ""
    rule: str = ""
    notation: InitVar[str] = ""
    custom: InitVar[Sequence[Expr]] = ()
    paper: str = field(init=False, repr=False, compare=False, default="")  # of the notation

    if TYPE_CHECKING:

        def __init__(
            self,
            lhs: Expr | str | None,
            rhs: Expr | str | None,
            condition: str = "",
            *,
            name: str = "",
            source: str = "",
            kind: str = "theorem",
            check: Callable[[Any], Claim] | None = None,
            note: str = "",
            statement: str = "",
            rigid: bool = False,
            sweeps: str = "",
            rule: str = "",
            notation: str = "",
            custom: Sequence[Expr] = (),
        ) -> None: ...

    def __post_init__(self, notation: str, custom: Sequence[Expr]) -> None:
        object.__setattr__(self, "paper", paper_named(notation))
        if self.check is None:
            lhs, rhs = _two_sides(self.lhs, self.rhs, self.name, notation, custom)
            object.__setattr__(self, "lhs", lhs)
            object.__setattr__(self, "rhs", rhs)
            if not self.name:
                object.__setattr__(self, "name", f"{lhs} = {rhs}")
        object.__setattr__(self, "condition", _checked_condition(self.condition))

    def __str__(self) -> str:
        sides = self.statement or f"{self.lhs} = {self.rhs}"
        name = "" if self.name == sides else f"{self.name}:  "
        condition = f"   if {self.condition}" if self.condition else ""
        return f"{name}{sides}{condition}" + (f"   [{self.source}]" if self.source else "")

    def __repr__(self) -> str:
        return f"<Identity {' '.join(str(self).split())}>"

    def _repr_markdown_(self) -> str:
        """Typeset in a notebook."""
        sides = self.statement
        if self.lhs is not None and self.rhs is not None:
            sides = f"${self.lhs.text('latex')} = {self.rhs.text('latex')}$"
        parts = [f"**{self.name}**" if self.name != self.statement else "", sides]
        parts += [f"if {self.condition}" if self.condition else ""]
        parts += [f"[{self.source}]" if self.source else ""]
        return " &nbsp; ".join(part for part in parts if part)

    @property
    def sides(self) -> tuple[Expr, Expr]:
        """Both sides; an error for a check, which has none."""
        if self.lhs is None or self.rhs is None:
            raise InputError(
                f"identity {self.name!r} is a numerical check, and not an equation with two sides"
            )
        return self.lhs, self.rhs

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Both sides; none of a check."""
        return tuple(x for x in (self.lhs, self.rhs) if x is not None)

    @property
    def leaves(self) -> frozenset[Expr]:
        """The leaves of both sides; none of a check."""
        return frozenset[Expr]().union(*map(leaves_of, self.expressions))


def claim(text: str, notation: str = "", custom: Sequence[Expr] = ()) -> Identity:
    """The identity that a text with one equals sign states; `notation` and `custom` as for `parse`.

    >>> print(claim("H φ − H ψ = H φ K H ψ"))
    H φ − H ψ = H φ K H ψ
    """
    lhs, rhs = sides_of(text)
    return Identity(lhs, rhs, name=text, statement=text, notation=notation, custom=custom)


def sides_of(text: str) -> tuple[str, str]:
    r"""The two sides of a claim, neither of them empty; also as papers print claims.

    >>> sides_of("φ⁻¹ = I − E_φ")
    ('φ⁻¹', 'I − E_φ')
    >>> sides_of(r"D &\triangleq HPH^*, \tag{9}")
    ('D', 'HPH^*')
    """
    plain = with_plain_equals(text)
    if found := re.search("[<>]=?|[≤≥≠]", plain):
        raise InputError(
            f"{text!r} is not an equation: {found.group()!r} is not supported, only lhs = rhs"
        )
    sides = [side.strip() for side in plain.split("=")]
    if len(sides) != 2:
        raise InputError(f"a claim has one equals sign, and there are {len(sides) - 1} in {text!r}")
    for side, name in zip(sides, ("left", "right"), strict=True):
        if not side:
            raise InputError(f"the {name} side of the claim {text!r} is empty; zero is written 0")
    return sides[0], sides[1]


def _two_sides(
    lhs: Any, rhs: Any, name: str, notation: str, custom: Sequence[Expr]
) -> tuple[Expr, Expr]:
    texts: list[Any] = [_with_fractions(x.strip()) if isinstance(x, str) else x for x in (lhs, rhs)]
    both: list[Expr] = as_sides(texts, notation, custom)
    for x in cast(list[Any], both):
        if not isinstance(x, Expr):
            what = "None" if x is None else f"{x!r}{advice(x)}"
            of = f"the identity {name!r}" if name else "an identity"
            raise InputError(
                f"a side of {of} is {what}. Both sides are expressions or strings:\n"
                f'    pp.Identity("phi - psi", "psi K H phi")'
            )
    left, right = _same_spaces(both[0], both[1]), _same_spaces(both[1], both[0])
    if (left.takes, left.gives) != (right.takes, right.gives):
        raise SpaceError(
            f"the two sides of an identity are between the same spaces, but here they are\n"
            f"    {shown(left)} : {signature(left)}\n    {shown(right)} : {signature(right)}"
            f"{misread(left, right)}"
        )
    return left, right


def _same_spaces(x: Expr, other: Expr) -> Expr:
    """An I or 0 without spaces is the one between the spaces of the other side."""
    if x.takes is not UNKNOWN or other.takes is UNKNOWN:
        return x
    return x + zero(other.takes, other.gives)


_DECIMAL = re.compile(  # not in a name, and no exponent of an operator
    r"(?<![\w.^])(?:\d+\.\d*|\.\d+|\d+(?=[eE][+-]?\d))(?:[eE][+-]?\d{1,3})?(?![\w.])"
)


def _with_fractions(text: str) -> str:
    """Decimals as fractions, outside of brackets: 0.1 is a tenth, and 1 + 1e-18 is not 1."""
    parts = re.split(r"(\[[^\]]*\])", text)
    return "".join(
        part if part.startswith("[") else _DECIMAL.sub(_as_fraction, part) for part in parts
    )


def _as_fraction(match: re.Match[str]) -> str:
    exact = Fraction(match.group())
    return f"{exact.numerator}/{exact.denominator}"


@dataclass(frozen=True)
class Erratum:
    """A printed equation that is wrong: `claim` states it as printed, and proving it fails.

    `needs` says which mechanisms show the difference.
    """

    name: str
    printed: str
    correct: str
    source: str
    claim: Identity
    needs: str = ""


def is_about_rows(identity: Identity) -> bool:
    """Whether a claim is about constraint rows; all others are about the tree."""
    return any(
        x.name == "select" or "row" in (x.takes.index, x.gives.index) for x in identity.leaves
    )


# ---- conditions --------------------------------------------------------------------------------


def _no_armature(model: Model) -> str:
    for name, s in zip(model.joint_names, model.v_slices, strict=True):
        if model.armature[s].any():
            return f"joint {name!r} has rotor inertia {model.armature[s].tolist()}"
    return ""


def _serial(model: Model) -> str:
    if len(model.tree.roots) > 1:
        return f"there are {len(model.tree.roots)} bodies on the world"
    for k, children in enumerate(model.tree.children):
        if len(children) > 1:
            return f"body {model.body_names[k]!r} has {len(children)} children"
    return ""


def _free_root(model: Model) -> str:
    if any(model.joints[k].kind.partition(" ")[0] == "free" for k in model.tree.roots):
        return ""
    return "no body is attached to the world by a free joint"


def _one_root(model: Model) -> str:
    roots = len(model.tree.roots)
    return f"there are {roots} bodies on the world" if roots > 1 else ""


def _rigid(model: Model) -> str:
    for name, x in zip(model.body_names, model.flexible, strict=True):
        if x is not None:
            return f"body {name!r} deforms"
    return ""


def _without_rows(model: Model) -> str:
    return f"there are {model.n_rows} constraint rows" if model.n_rows else ""


def _only(kinds: frozenset[str]) -> Callable[[Model], str]:
    def why(model: Model) -> str:
        for name, joint in zip(model.joint_names, model.joints, strict=True):
            if joint.kind not in kinds:
                return f"joint {name!r} is {joint.kind}"
        return ""

    return why


_JOINTS_OF = {  # the kinds that one joint of a root may have
    "free root": frozenset({"free"}),
    "one dof": frozenset({"revolute", "prismatic", "helical"}),
    "revolute": frozenset({"revolute"}),
    "prismatic": frozenset({"prismatic"}),
}


CONDITIONS: dict[str, Callable[[Model], str]] = {
    "rigid bodies": _rigid,
    "Jr = 0": _no_armature,
    "serial": _serial,
    "one root": _one_root,
    "free root": _free_root,
    "one dof": _only(_JOINTS_OF["one dof"]),
    "revolute": _only(_JOINTS_OF["revolute"]),
    "prismatic": _only(_JOINTS_OF["prismatic"]),
    "no loops": _without_rows,
}
"""Condition → why a model does not meet it ("" if it does)."""


def _checked_condition(condition: str) -> str:
    if not isinstance(cast(object, condition), str):
        raise InputError(
            f'a condition is a str, such as "Jr = 0" or "serial", not {type(condition).__name__}. '
            f"The known ones are {', '.join(CONDITIONS)}"
        )
    parts = [part.strip() for part in condition.split(",")] if condition.strip() else []
    for part in parts:
        if part not in CONDITIONS:
            raise InputError(
                f"{part!r} is not a known condition. {did_you_mean(part, CONDITIONS, ' ')}".rstrip()
                + f" The known ones are {', '.join(CONDITIONS)}; several are separated by commas."
            )
    for one, other in combinations(parts, 2):
        kinds, others = (_JOINTS_OF.get(part) for part in (one, other))
        if kinds is not None and others is not None and kinds.isdisjoint(others):
            raise InputError(
                f"the conditions {one!r} and {other!r} exclude each other: no mechanism meets "
                f"both, so the identity would claim nothing. Remove one of them."
            )
    return ", ".join(parts)


def unmet(condition: str, model: Model) -> str:
    """Why `model` does not meet a condition such as "Jr = 0, serial"; "" if it does."""
    for part in filter(None, condition.split(", ")):
        why = CONDITIONS[part](model)
        if why:
            return f"it holds for {part}, but {why}"
    return ""
