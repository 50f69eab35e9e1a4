"""What each function supports of a mechanism, declared in one place per function.

    @supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
    @supports(loops=Refusal("why, in physics", "what to use instead"), flexible=True)

The features are closed `loops` and other constraints, `contacts`, `flexible` bodies, `rotors` on
skew axes, and, for functions that take `prescribed=`, joints whose accelerations are prescribed.
For each of them a function says ``True``, it is taken into account; `UNAFFECTED`, the answer is the
same with it and without; or ``False`` or a `Refusal`, a mechanism that has it is rejected.

From the declaration come the error (`tree_of`, `mechanism_of`), the line "Supports" at the end of
the function's documentation, and the table in docs/supported-features.md. The function itself stays
as it is: a warm call costs nothing more. A system without constraints is a tree to all of them.

Reasons: docs/decisions/0032, 0069.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal, TypeVar, cast

from phipsi.core.model.argument_checks import is_array
from phipsi.core.model.compound_body import CompoundBody
from phipsi.core.model.model import Model
from phipsi.core.model.points import PointSet, point_set
from phipsi.core.model.rate_rows import RateRows, rate_rows_of
from phipsi.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])


class _Effect(Enum):
    NONE = "no effect"


UNAFFECTED: Literal[_Effect.NONE] = _Effect.NONE
"""The feature changes nothing in the answer."""


@dataclass(frozen=True)
class Refusal:
    """A feature that is rejected: `why` in physics, and what to use `instead`.

    `combined_with` names a second feature if only mechanisms that have both are rejected.
    """

    why: str = ""
    instead: str = ""
    combined_with: Literal["", "loops", "contacts"] = ""


Support = bool | Literal[_Effect.NONE] | Refusal


@dataclass(frozen=True)
class Capabilities:
    """The declaration of a function; `prescribed` is None if it takes no prescribed joints."""

    loops: Support
    contacts: Support
    flexible: Support
    rotors: Support
    prescribed: Support | None

    def refusals(self) -> Iterator[tuple[Feature, Refusal]]:
        """The features of a mechanism that are rejected, in the order in which they are checked."""
        for feature in FEATURES:
            support = getattr(self, feature.name)
            if support is False or isinstance(support, Refusal):
                yield feature, support or Refusal()


@dataclass(frozen=True)
class Feature:
    """A feature of mechanisms: its name here and for readers, and how to find and reject it."""

    name: str
    label: str
    present: Callable[[Model], bool]
    message: Callable[[str, Model, Refusal], str]


CAPABILITIES: dict[Callable[..., Any], Capabilities] = {}
_REFUSED: dict[Callable[..., Any], tuple[tuple[Feature, Refusal], ...]] = {}


def supports(
    *,
    loops: Support,
    contacts: Support = False,
    flexible: Support = False,
    rotors: Support = False,
    prescribed: Support | None = None,
) -> Callable[[Function], Function]:
    """Declare what a function or class supports; what is not named is rejected."""
    declared = Capabilities(loops, contacts, flexible, rotors, prescribed)
    refused = tuple(declared.refusals())

    def declare(function: Function) -> Function:
        CAPABILITIES[function] = declared
        _REFUSED[function] = refused
        if function.__doc__:  # python -OO keeps none
            function.__doc__ = _with_line(inspect.cleandoc(function.__doc__), declared)
        return function

    return declare


def _with_line(doc: str, declared: Capabilities) -> str:
    """A docstring with the line about a declaration, before its sections."""
    text, section, sections = doc.partition("\n\nParameters\n---")
    return f"{text}\n\n{supports_line(declared)}{section}{sections}"


def supports_line(declared: Capabilities) -> str:
    """The line about a declaration in the documentation of its function."""
    accounted: list[str] = []
    rejected: list[str] = []
    ignored: list[str] = []
    for name, label in LABELS.items():
        support = getattr(declared, name)
        if support is UNAFFECTED:
            ignored.append(label)
        elif support is True:
            accounted.append(label)
        elif isinstance(support, Refusal) and support.combined_with:
            accounted.append(f"{label} (not together with {LABELS[support.combined_with]})")
        elif support is not None:
            rejected.append(label)
    parts = [", ".join(accounted)] if accounted else []
    parts += [f"not {', '.join(rejected)}"] if rejected else []
    parts += [f"unaffected by {', '.join(ignored)}"] if ignored else []
    return f"**Supports:** {'; '.join(parts)}."


def tree_of(mechanism: Any, function: Callable[..., Any]) -> Model:
    """The tree that a function works on, or an error if it does not support the mechanism."""
    if not isinstance(mechanism, Model):
        raise _model_first(mechanism, function)
    for feature, refusal in _REFUSED[function]:
        if feature.present(mechanism):
            if not refusal.combined_with:
                raise InputError(feature.message(function.__name__, mechanism, refusal))
            if _feature(refusal.combined_with).present(mechanism):
                raise InputError(_combined(function.__name__, feature.label, refusal))
    tree = mechanism.model
    if tree.has_more_rows and CAPABILITIES[function].rotors is UNAFFECTED:
        return tree.cached(tree_of, lambda: _without_rotors(tree))
    return tree


def _without_rotors(tree: Model) -> Model:
    attachments, coupled = tree.description.attachments, list(_coupled_joints(tree))
    for _, rows in coupled:
        attachments = attachments.without(rows.attachment)
    return tree if not coupled else Model(replace(tree.description, attachments=attachments))


def check_prescribed(mechanism: Model, function: Callable[..., Any]) -> None:
    """Reject prescribed joints together with a feature of the mechanism, as the function says."""
    refusal = CAPABILITIES[function].prescribed
    if isinstance(refusal, Refusal) and _feature(refusal.combined_with).present(mechanism):
        raise InputError(prescribed_message(function.__name__, refusal))


def prescribed_message(name: str, refusal: Refusal) -> str:
    """Why a function does not support prescribed joints together with another feature."""
    return _combined(name, "prescribed=", refusal)


def _combined(name: str, what: str, refusal: Refusal) -> str:
    return (
        f"{name}: {what} {'is' if what.endswith('=') else 'are'} not supported together with "
        f"{LABELS[refusal.combined_with]}: {refusal.why}.{_instead(refusal)}"
    )


def _feature(name: str) -> Feature:
    return next(x for x in FEATURES if x.name == name)


# ---- the features --------------------------------------------------------------------------------


def _contacts(name: str, mechanism: Model, refusal: Refusal) -> str:
    simulated = (
        "To simulate contact:\n"
        "    pp.simulate(system, q, v, duration)\n"
        "    pp.contact_step(system, q, v, tau, dt)\n"
        "    pp.Simulator(system, laws, dt, integrator='time_stepping')"
    )
    return (
        f"{name} does not account for the forces between bodies that touch, and this system has "
        f"contacts. {refusal.instead or simulated}\n"
        "To ignore contacts, pass system.model, or a system without contacts=."
    )


def _has_rate_rows(mechanism: Model) -> bool:
    return mechanism.has_more_rows and any(_coupled_joints(mechanism))


def _coupled_joints(mechanism: Model) -> Iterator[tuple[str, RateRows]]:
    """The joints whose rates have rows of their own, by rotors."""
    for name, joint in zip(mechanism.joint_names, mechanism.joints, strict=True):
        rows = rate_rows_of(joint)
        if rows is not None:
            yield name, rows


def _rotors(name: str, mechanism: Model, refusal: Refusal) -> str:
    joint, rows = next(_coupled_joints(mechanism))
    return rows.refusal(name, mechanism, joint)


def _flexible(name: str, mechanism: Model, refusal: Refusal) -> str:
    pairs = zip(mechanism.body_names, mechanism.modes, strict=True)
    names = [repr(body) for body, n in pairs if n]
    if any(isinstance(x, CompoundBody) for x in mechanism.flexible):
        return (
            f"{name} does not support embedded loops: {names[0]} is several bodies taken as one. "
            f"Use the system that was embedded:\n    {name}(embedded.system, …)"
        )
    why = refusal.why or (
        "inertias and ports that change with the modes are not part of its formulas yet."
    )
    return (
        f"{name} is for rigid bodies, and {', '.join(names[:3])}"
        f"{', …' if len(names) > 3 else ''} deform{'s' * (len(names) == 1)}: {why}\n"
        f"For the undeformed bodies, make them rigid:\n"
        f"    model.with_rigid_bodies()"
    )


def _loops(name: str, mechanism: Model, refusal: Refusal) -> str:
    names = [repr(c.name) for c in mechanism.constraints]
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return (
        f"{name} is for trees, and this system has constraints ({shown}): "
        f"{refusal.why}.{_instead(refusal)}\n"
        "For the tree alone, with its loops cut open, pass system.model."
    )


def _instead(refusal: Refusal) -> str:
    return f"\n{refusal.instead}" if refusal.instead else ""


FEATURES = (
    Feature("contacts", "contacts", lambda m: m.contact_pairs is not None, _contacts),
    Feature("rotors", "rotors on skew axes", _has_rate_rows, _rotors),
    Feature("flexible", "flexible bodies", lambda m: m.is_flexible, _flexible),
    Feature("loops", "closed loops", lambda m: m.n_rows > 0, _loops),
)
_SHOWN = ("loops", "contacts", "flexible", "rotors")
_IN_ORDER = sorted(FEATURES, key=lambda x: _SHOWN.index(x.name))
LABELS = {x.name: x.label for x in _IN_ORDER} | {"prescribed": "prescribed joints"}
"""What readers see, in the order of lines and columns."""


# ---- mechanisms as arguments ---------------------------------------------------------------------


def forest_of(
    mechanism: Model, points: Sequence[Any] | PointSet | None, axes: str | None = None
) -> tuple[Model, Sequence[Any] | PointSet | None]:
    """The target of compilation: the forest, and its points.

    Those of a system are the points of one's own, if there are any, then its closure frames.
    """
    if not isinstance(cast(object, mechanism), Model) or not mechanism.n_rows:
        return getattr(mechanism, "model", mechanism), points
    closures = mechanism.closures
    if points is None:
        if axes is not None:
            raise InputError(
                f"axes={axes!r} has no effect: the closure frames of a system are in their own "
                "axes. Remove axes=, or pass the points that it is meant for:\n"
                "    pp.compile(expr, system, points=['hand'], axes=…)"
            )
        return mechanism.model, closures.points
    own = point_set(mechanism.model, points, axes)
    if own.closures is not None:
        if own.closures.closures[bool(own.closures.n_own) :] != closures.closures:
            raise InputError("points= belongs to the closures of another system")
        return mechanism.model, own
    return mechanism.model, closures.with_points(own) if len(own) else closures.points


def mechanism_of(mechanism: Any, function: Callable[..., Any]) -> Model:
    """The mechanism itself, checked; of a system without constraints, its tree."""
    tree = tree_of(mechanism, function)
    return mechanism if mechanism.n_rows or mechanism.contact_pairs is not None else tree


def _model_first(given: Any, function: Callable[..., Any]) -> InputError:
    """The error for arguments in the wrong order."""
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]
    needed = [p.name for p in positional if p.default is p.empty]
    more = ", …" if len(needed) < len(parameters) else ""
    place = next((i for i, n in enumerate(needed) if n in ("model", "system", "grasp")), 0)
    where = "first" if place == 0 else "second"
    first = needed[place] if needed else "model"
    return InputError(
        f"{function.__name__} takes the {first} {where}, not {_kind(given)}:\n"
        f"    {function.__name__}({', '.join(needed)}{more})\n"
        "Models come from pp.load, pp.ModelBuilder and pp.examples."
    )


def _kind(given: Any) -> str:
    if is_array(given):
        return f"an array of shape {given.shape}"
    return type(given).__name__
