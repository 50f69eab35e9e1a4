"""A counterexample: one mechanism in one state in which two sides differ, with the numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.expressions import Expr, Space
from phipsi.core.model import Model, joints as joint_types
from phipsi.core.operators import inputs_of
from phipsi.core.rewrite import Identity
from phipsi.errors import counted
from phipsi.papers.proofs.claim_decision import forces_of
from phipsi.papers.proofs.digits import AGREE, Digits, long_decimals
from phipsi.papers.proofs.exact_mechanism import ExactMechanism
from phipsi.papers.proofs.proof_state import ProofState
from phipsi.papers.proofs.sample_mechanisms import SampleMechanism, describe

Array = NDArray[Any]

_TRIES = 5
_MOST_BODIES = 12  # long decimals take their time
_AXES = [f"{part} {axis}" for part in ("angular", "linear") for axis in "xyz"]
_FLOAT_DIGITS = 13


@dataclass(frozen=True)
class Counterexample:
    """A mechanism in a state in which the two sides of an identity differ.

    **Attributes:** `model`; `state`, the inputs by name, with points if the sides have any;
    `entry`, which number differs, in words; `index`, where it is in the matrix or vector; `lhs` and
    `rhs`, its two values as decimals; `code`, a program that builds the mechanism and prints both.
    """

    model: Model
    state: dict[str, Any]
    entry: str
    index: tuple[int, ...]
    lhs: Decimal
    rhs: Decimal
    code: str

    def __repr__(self) -> str:
        return f"<Counterexample with {counted(self.model.n_bodies, 'body')}: {self._values}>"

    @property
    def _values(self) -> str:
        left, right = _distinguishing_digits(self.lhs, self.rhs)
        return f"{self.entry}: {left} on the left, {right} on the right"

    def __str__(self) -> str:
        return f"{describe(self.model)}\n    {self._values}\n\n{self.code}"


def find_counterexample(
    identity: Identity, sample: SampleMechanism, own_efforts: bool
) -> Counterexample | None:
    """Numbers for a mechanism on which an identity fails; None if they cannot be shown.

    With `own_efforts` tau is any vector, otherwise it is that of the equations of motion.
    """
    if _is_too_long(identity, sample):
        return None
    for attempt in range(_TRIES):
        state = _short_numbers(sample, np.random.default_rng((0, attempt)), own_efforts)
        if attempt in (1, 2):  # a pattern: random joints are prescribed, none of them, all
            state["free"] = np.full(sample.model.nv, 2.0 - attempt)
        with long_decimals():
            found = _largest_difference(identity, sample, state)
        if found is not None:
            index, lhs, rhs, exact = found
            used = _used(identity, state, exact)
            words = _entry(identity.sides[0], index, exact)
            code = _code(identity, sample, used, index, lhs, rhs)
            return Counterexample(sample.model, used, words, index, lhs, rhs, code)
    return None


def _is_too_long(identity: Identity, sample: SampleMechanism) -> bool:
    """Whether numbers are not shown: a flexible body alone has hundreds of them."""
    model = sample.model
    return identity.check is not None or model.n_bodies > _MOST_BODIES or model.is_flexible


def own_names(identity: Identity) -> list[str]:
    """The names of custom operators and vectors in an identity."""
    return sorted({x.name for x in identity.leaves if x.row.is_own})


def can_be_shown(identity: Identity, sample: SampleMechanism, own_efforts: bool) -> bool:
    """Whether `find_counterexample` finds numbers; it is only run where they may be missing."""
    if _is_too_long(identity, sample):
        return False
    if not own_names(identity):
        return True
    return find_counterexample(identity, sample, own_efforts) is not None


def _short_numbers(
    sample: SampleMechanism, rng: np.random.Generator, own_efforts: bool
) -> dict[str, Any]:
    """A state whose numbers have few digits."""
    model, rows = sample.model, 0 if sample.closures is None else sample.closures.n_rows
    n, nv = model.n_bodies, model.nv

    def some(*shape: int) -> Array:
        return rng.choice([-2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0], shape)

    hosts = sample.hosts or tuple(int(k) for k in rng.integers(n, size=2) if n)
    points = [(model.body_names[k], some(3) / 2) for k in hosts]
    count = len(points) if sample.closures is None else len(sample.closures.points)
    state: dict[str, Any] = {"q": np.round(model.random_configuration(rng), 1)}
    state |= {name: some(nv) for name in ("v", "vdot", "dq", "dv", "dvdot", "dtau")}
    state |= {"f_ext": some(n, 6), "f0": some(count, 6), "Udot": some(rows)}
    state |= {"free": rng.integers(2, size=nv).astype(float), "dinertia": some(n, 10)}
    state |= {"tau": some(nv)} if own_efforts else {}
    return state | ({"points": points} if sample.closures is None else {})


def _largest_difference(
    identity: Identity, sample: SampleMechanism, given: dict[str, Any]
) -> tuple[tuple[int, ...], Decimal, Decimal, ProofState] | None:
    try:
        mechanism = ExactMechanism(sample.model, Digits)
        state = ProofState(mechanism, (0, 0, 2), sample.closures, given)
        forces = forces_of(*identity.sides)
        state = state if forces is None else state.with_forces(forces)
        values = (np.asarray(state.dense(x)) for x in identity.sides)
        left, right = (Digits.of(x).view(np.ndarray) for x in values)
    except (np.linalg.LinAlgError, TypeError):
        return None
    gaps = np.asarray(np.abs(left - right))
    if not gaps.size:
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(gaps.reshape(-1))), gaps.shape))
    lhs, rhs = (Decimal(x[index] if x.ndim else x.item()) for x in (left, right))
    if abs(lhs - rhs) <= AGREE * max(abs(lhs), abs(rhs), Decimal(1)):
        return None
    return index, lhs, rhs, state


def _used(identity: Identity, state: dict[str, Any], exact: ProofState) -> dict[str, Any]:
    """The inputs that the two sides read, and the points if they are about any."""
    names = inputs_of(identity.sides)
    out: dict[str, Any] = {"q": state["q"]}
    for name in names:
        out[name] = state[name] if name in state else np.asarray(exact.tau, float)
    at_points = any("point" in (x.takes.index, x.gives.index) for x in identity.leaves)
    if at_points and "points" in state:
        out["points"] = state["points"]
    return out


# ---- words ---------------------------------------------------------------------------------------


def _entry(x: Expr, index: tuple[int, ...], state: ProofState) -> str:
    """Which entry of a matrix or vector an index is."""
    if not index:
        return "the value"
    row = _component(x.gives, index[0], state)
    if len(index) == 1:
        return row
    return f"row {row}, column {_component(x.takes, index[1], state)}"


def _component(space: Space, i: int, state: ProofState) -> str:
    model = state.model
    if space.index == "joint":
        k = next(k for k, s in enumerate(model.v_slices) if s.start <= i < s.stop)
        start, width = model.v_slices[k].start, model.joints[k].nv
        return f"joint {model.joint_names[k]}" + (f" ({i - start})" if width > 1 else "")
    if space.index == "body":
        return f"body {model.body_names[i // 6]} ({_AXES[i % 6]})"
    if space.index == "point":
        return f"point {i // 6} ({_AXES[i % 6]})"
    if space.index == "row" and state.points.closures is not None:
        return f"constraint row {state.points.closures.row_names[i]}"
    return str(i)


def _distinguishing_digits(lhs: Decimal, rhs: Decimal) -> tuple[str, str]:
    """Both numbers with as many digits as it takes to see the difference, at least six."""
    size = max(abs(lhs), abs(rhs))
    lhs, rhs = (Decimal(0) if abs(x) <= AGREE * size else x for x in (lhs, rhs))
    for digits in range(6, 60):
        left, right = f"{lhs:.{digits}g}", f"{rhs:.{digits}g}"
        if Decimal(left) != Decimal(right):
            return left, right
    return f"{lhs:.60g}", f"{rhs:.60g}"


# ---- code ----------------------------------------------------------------------------------------


def _code(
    identity: Identity,
    sample: SampleMechanism,
    state: dict[str, Any],
    index: tuple[int, ...],
    lhs: Decimal,
    rhs: Decimal,
) -> str:
    lines = ["import phipsi as pp", "", *_building(sample.model)]
    if sample.constraints:
        joined = ", ".join(_public(repr(one), "constraints") for one in sample.constraints)
        lines.append(f"model = pp.System(model, [{joined}])")
    given = ", ".join(f"{name}={_plain(x)}" for name, x in state.items())
    left, right = identity.sides
    custom = own_names(identity)
    texts = [repr(str(side)) for side in (left, right)]
    if custom:
        lines.append(f"custom = [{', '.join(custom)}]  # yours")
        texts.append("custom=custom")
    lines += [f"state = dict({given})", f"claim = pp.Identity({', '.join(texts)})"]
    gap, size = abs(lhs - rhs), max(abs(lhs), abs(rhs))
    if gap * 10**_FLOAT_DIGITS < size:  # floats cannot tell them apart
        lines.append("print(pp.prove(claim, model))")
        return "\n".join(lines)
    at = f"[{', '.join(map(str, index))}]" if index else ""
    lines += [
        "lhs, rhs = (pp.evaluate_dense(side, model, **state) for side in claim.sides)",
        f"print(lhs{at}, rhs{at})",
    ]
    return "\n".join(lines)


def _building(model: Model) -> list[str]:
    """A model as the calls that build it."""
    lines = [f"builder = pp.ModelBuilder(gravity={_plain(model.gravity)})"]
    for k, name in enumerate(model.body_names):
        p = model.parent[k]
        parts = [
            repr(name),
            f"parent={('world' if p < 0 else model.body_names[p])!r}",
            f"joint={_public(repr(model.joints[k]), 'joints')}",
            f"placement=pp.{model.placements[k]!r}",
            f"inertia=pp.{model.inertias[k]!r}",
            f"joint_name={model.joint_names[k]!r}",
        ]
        rotor = model.armature[model.v_slices[k]]
        parts += [f"armature={_plain(rotor)}"] if rotor.any() else []
        lines.append(f"builder.add_body({', '.join(parts)})")
    return [*lines, "model = builder.build()"]


def _public(text: str, module: str) -> str:
    """A representation with names as users write them."""
    names = joint_types.__all__ if module == "joints" else [text.split("(")[0]]
    text = re.sub(rf"\b({'|'.join(names)})\(", rf"pp.{module}.\1(", text)
    return re.sub(r"(?<!\.)\bPose\(", "pp.Pose(", text)


def _plain(x: Any) -> str:
    """An array or a list of points as Python writes lists."""
    if isinstance(x, np.ndarray):
        return repr(x.tolist())
    if isinstance(x, Sequence) and not isinstance(x, str):
        return "[" + ", ".join(f"({name!r}, {_plain(at)})" for name, at in x) + "]"
    return repr(x)
