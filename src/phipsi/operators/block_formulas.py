"""Formulas of one body: blocks of own operators in plain arithmetic, traced to a list of steps.

The function of a user runs once for every width of a joint on arrays of `Entry`, which record what
is done to them. The steps are numbers and words: they are compared, stored and run by every backend
on its own scalars.
"""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from phipsi.errors import InputError, SpaceError, did_you_mean
from phipsi.expressions.kinds import Op
from phipsi.expressions.node import Expr, Function, intern
from phipsi.expressions.spaces import ONE, Space
from phipsi.expressions.structure import GENERAL, MEMORYLESS, is_memoryless
from phipsi.model.model import Model
from phipsi.operators.recorded_steps import (
    FUNCTIONS,
    Program,
    Tape,
    Unfit,
    reject,
    used_steps,
)
from phipsi.records import dataclass

_WIDTHS = range(7)  # of a joint
_ROOT = str(Path(__file__).resolve().parents[1])
_NUMPY = str(Path(np.__file__).resolve().parent)

# ---- formulas ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Formula(Function):
    """A function of quantities of one body, entry by entry; nothing is said about linearity.

    `programs` has the steps for joints of 0, 1, … 6 degrees of freedom, or the text of what went
    wrong there. Formulas are equal if their contents are.
    """

    programs: tuple[Program | str, ...] = ()
    symmetric: bool = False
    key: tuple[Any, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        """With the steps, which the code of a program depends on."""
        return f"<formula {self.key}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return _formula, self.key

    def __call__(self, *args: Expr, hole: int | None = None) -> Expr:
        """The node f(args), as it is written: a formula need not be linear."""
        assert self.takes is not None
        assert self.gives is not None
        structure = GENERAL if self.takes is ONE else MEMORYLESS
        return intern(Op.FUNCTION, args, (self, hole), self.takes, self.gives, structure)

    def program(self, width: int) -> Program:
        """The steps for joints of so many degrees of freedom."""
        found = self.programs[width]
        if isinstance(found, str):
            raise InputError(found)
        return found

    def flops(self, width: int) -> int:
        """Floating-point operations for one body with such a joint."""
        found = self.programs[width]
        return 0 if isinstance(found, str) else found.flops

    def change(self, args: Sequence[Expr], changes: Sequence[Expr]) -> Expr:
        """How f(args) changes with its arguments, linear in the changes."""
        moving = tuple(i for i, dx in enumerate(changes) if dx.op is not Op.ZERO)
        n, kinds = len(args), tuple(self.arguments[i] for i in moving)
        made = _formula(
            f"d_{self.name}", rf"\delta {self.latex}", self.takes, self.gives,
            (*self.arguments, *kinds), self._each(lambda p, r: p.tangent(moving, n)),
            self.symmetric,
        )  # fmt: skip
        return made(*args, *(changes[i] for i in moving))

    def weight(self, args: Sequence[Expr], i: int, Z: Expr) -> Expr:
        """The weight W of argument i with tr(Z δf) = tr(W δX), or w* δx, while others are held."""
        x, n = args[i], len(args)
        takes, gives = (ONE, x.gives.dual) if x.is_vector else (x.gives, x.takes)
        made = _formula(
            f"w{i}_{self.name}", rf"w_{{{i}}} {self.latex}", takes, gives,
            (*self.arguments, (self.gives, self.takes)),
            self._each(lambda p, r: p.adjoint(i, _shape(x, r), n)), False,
        )  # fmt: skip
        return made(*args, Z)

    def _each(self, make: Callable[[Program, int], Program]) -> tuple[Program | str, ...]:
        return tuple(p if isinstance(p, str) else make(p, r) for r, p in enumerate(self.programs))

    def differences(self, other: Formula) -> str:
        """The first step in which it differs from a formula that is printed alike, for an error."""
        for one, twin in zip(self.programs, other.programs, strict=True):
            if one == twin or isinstance(one, str) or isinstance(twin, str):
                continue
            for a, b in zip(one.steps, twin.steps, strict=False):
                if a != b:
                    return f"{_step_text(a)} in one, {_step_text(b)} in the other"
            return f"{len(one.steps)} operations in one, {len(twin.steps)} in the other"
        return "the functions fail for different joints"

    def check_model(self, model: Model) -> None:
        """Reject joints for which the formula fails."""
        for name, joint in zip(model.joint_names, model.joints, strict=True):
            found = self.programs[joint.nv]
            if isinstance(found, str):
                raise InputError(
                    f"{self.name} of joint {name!r} (degrees of freedom: {joint.nv}): {found}"
                )


def _formula(
    name: str,
    latex: str,
    takes: Space | None,
    gives: Space | None,
    arguments: tuple[Any, ...],
    programs: tuple[Program | str, ...],
    symmetric: bool,
) -> Formula:
    key = name, latex, takes, gives, arguments, programs, symmetric
    return Formula(
        name, arguments, takes, gives, "formula", "a formula of one body", latex,
        adjoint=(lambda x: x) if symmetric else None, programs=programs, symmetric=symmetric,
        key=key,
    )  # fmt: skip


def formula_block(
    common: Mapping[str, Any],
    takes: Space,
    gives: Space,
    function: Callable[..., Any],
    symmetric: bool,
    known: Mapping[str, Expr],
) -> Expr:
    """The expression whose blocks a function computes from quantities of the same body.

    Its arguments are named as the quantities, which `known` has; those with a default value are
    constants.
    """
    place = _place_of(function)
    args, constants = _arguments(function, known, place)
    programs: list[Program | str] = []
    for width in _WIDTHS:
        try:
            programs.append(_traced(function, args, constants, takes, gives, width))
        except InputError as error:
            programs.append(str(error))
    usual = programs[1:]
    if all(isinstance(x, str) for x in usual):
        raise InputError(f"{common['name']}: {usual[0]}")
    spaces = tuple(x.gives if x.is_vector else (x.takes, x.gives) for x in args)
    name = getattr(function, "__name__", "")
    name = name if name.isidentifier() else "f"
    upright = name.replace("_", r"\_")
    latex = rf"\operatorname{{{upright}}}"
    made = _formula(name, latex, takes, gives, spaces, tuple(programs), symmetric)
    if symmetric:
        _check_symmetry(common["name"], made, args, place)
    return made(*args)


def _arguments(
    function: Callable[..., Any], known: Mapping[str, Expr], place: str
) -> tuple[list[Expr], dict[str, Any]]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise InputError(f"{place}the arguments of this function are not known") from None
    args: list[Expr] = []
    constants: dict[str, Any] = {}
    for p in parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            raise InputError(f"{place}argument {p} has no name: name every argument")
        if p.default is not p.empty:
            constants[p.name] = p.default
            continue
        if p.name not in known:
            fitting = sorted(n for n, x in known.items() if n.isascii() and not _obstacle(x))
            raise InputError(
                f"{place}{p.name!r} is not a quantity of one body. "
                f"{did_you_mean(p.name, fitting)}\n"
                f"Operators, vectors and scalars of your own are given as own=[{p.name}], and "
                f"numbers as default values:  {p.name}=0.5"
            )
        why = _obstacle(known[p.name])
        if why:
            raise InputError(f"{place}{p.name!r} {why}")
        args.append(known[p.name])
    if not args:
        raise InputError(
            f"{place}a formula needs a quantity of the body as an argument, such as M or D. "
            "Constant blocks are given as numbers: block=np.eye(6)"
        )
    return args, constants


def _obstacle(x: Expr) -> str:
    """The reason why an expression has no block of one body."""
    if x.op is not Op.LEAF:
        return "is not an operator, a vector or a number with a name"
    if x.gives is ONE and x.is_vector:
        return ""
    if not x.gives.per_body or x.gives.is_curved:
        return f"has no blocks of one body: it gives {x.gives.phrase}"
    if x.is_vector:
        return ""
    if not is_memoryless(x.structure) or not x.takes.per_body:
        return "is not memoryless: its blocks connect bodies, and a formula sees one body"
    return ""


def _shape(x: Expr, width: int) -> tuple[int, ...]:
    spaces = (x.gives,) if x.is_vector else (x.gives, x.takes)
    return tuple(width if s.width is None else s.width for s in spaces if s is not ONE)


def _traced(
    function: Callable[..., Any],
    args: list[Expr],
    constants: dict[str, Any],
    takes: Space,
    gives: Space,
    width: int,
) -> Program:
    rows, cols = (width if s.width is None else s.width for s in (gives, takes))
    if not rows or not cols:
        return Program((), ((),) * rows)
    tape = Tape()
    given: list[Any] = []
    for n, x in enumerate(args):
        shape = _shape(x, width)
        block = np.empty(shape, dtype=object)
        for at in np.ndindex(*shape):
            block[at] = tape.put("entry", n, *(*at, 0, 0)[:2])
        given.append(block if shape else block[()])
    named = dict(zip((x for x in _names(function) if x not in constants), given, strict=True))
    try:
        return _recorded(tape, function(**named, **constants), rows, cols)
    except Exception as error:
        raise InputError(_message(error, function)) from None


def _names(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _recorded(tape: Tape, result: Any, rows: int, cols: int) -> Program:
    try:
        block = np.asarray(result, dtype=object)
    except ValueError:
        block = np.empty(0, dtype=object)
    if block.ndim == 0 and rows == cols:  # a multiple of the identity
        one = block[()]
        block = np.full((rows, cols), 0.0, dtype=object)
        np.fill_diagonal(block, one)
    if block.shape != (rows, cols):
        reject(
            f"the formula returns an array of shape {block.shape}, but a block of its spaces is "
            f"({rows}, {cols})",
            "Return one matrix" + (", or a number for a multiple of I" if rows == cols else ""),
        )
    out: list[list[int | float]] = []
    for row in block:
        numbers = [tape.operand(x) for x in row]
        if any(x is None for x in numbers):
            wrong = next(x for x, n in zip(row, numbers, strict=True) if n is None)
            reject(f"the formula returns {wrong!r}, which is not a number", "Return numbers")
        out.append([x for x in numbers if x is not None])
    return used_steps(tape.steps, out)


def _check_symmetry(name: str, f: Formula, args: list[Expr], place: str) -> None:
    """Reject blocks that are not symmetric for random arguments."""
    rng = np.random.default_rng(0)
    for width in (x for x in _WIDTHS if isinstance(f.programs[x], Program)):
        blocks: list[Any] = []
        for x in args:
            rows, cols = (*_shape(x, width), 1, 1)[:2]
            drawn = rng.standard_normal((rows, cols))
            blocks.append(drawn @ drawn.T + np.eye(rows) if x.T is x and rows == cols else drawn)
        with np.errstate(all="ignore"):
            found = np.array(f.program(width).run(blocks, float, np), dtype=np.float64)
        gap = np.abs(found - found.T)
        gap = np.where(np.isfinite(gap), gap, 0.0)
        if gap.size and gap.max() > 1e-9 * max(np.abs(found[np.isfinite(found)]).max(), 1e-300):
            i, j = (int(n) for n in np.unravel_index(gap.argmax(), gap.shape))
            raise SpaceError(
                f"{place}{name} is declared symmetric, but its formula is not: for random blocks "
                f"entry ({i}, {j}) is {found[i, j]:.6g} and entry ({j}, {i}) is "
                f"{found[j, i]:.6g}.\nLeave out symmetric=True, or return (X + X.T) / 2"
            )


def _step_text(step: tuple[Any, ...]) -> str:
    """A recorded operation, with the constants in it."""
    numbers = ", ".join(repr(x) if isinstance(x, float) else "…" for x in step[1:])
    return f"{step[0]}({numbers})"


# ---- errors --------------------------------------------------------------------------------------


def _message(error: Exception, function: Callable[..., Any]) -> str:
    """What went wrong inside a function, with the line."""
    where, trace = _place_of(function), error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith((_ROOT, _NUMPY, "<__array")):
            text = linecache.getline(code.co_filename, trace.tb_lineno).strip()
            shown = f"\n    {text}\n" if text else " "
            file = Path(code.co_filename).name
            where = f"{file}, line {trace.tb_lineno}, in {code.co_name}:{shown}"
        trace = trace.tb_next
    if isinstance(error, Unfit):
        return f"{where}{error}"
    missing = re.search(r"no callable (\w+) method", str(error))
    if missing:
        known = ", ".join(f"np.{x}" for x in FUNCTIONS)
        return f"{where}np.{missing[1]} is not among the functions of formulas, which are {known}."
    return f"{where}{type(error).__name__}: {error}"


def _place_of(function: Any) -> str:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return f"{function!r}: "
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}, {code.co_name}: "
