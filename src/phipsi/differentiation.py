"""diff: the derivative of an expression as an expression, and vector–Jacobian products on top."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from phipsi.backends.arguments import as_array
from phipsi.backends.layout import input_shapes
from phipsi.backends.program import Program
from phipsi.calculus.directional import Directional, substitute
from phipsi.calculus.gradient import Gradient
from phipsi.calculus.tangent import VARIABLES, NoOperatorError, Tangent
from phipsi.compiler import compile
from phipsi.errors import InputError, SpaceError
from phipsi.expressions import check
from phipsi.expressions.node import Expr, identity
from phipsi.expressions.spaces import PARAMETERS
from phipsi.model.model import Model
from phipsi.model.points import PointSet
from phipsi.operators import parse
from phipsi.operators.catalogue import catalogue_leaf, weight
from phipsi.operators.variations import pick, pick_inertia

Array = NDArray[Any]
_ONE_DOF = re.compile(r"^(\w+)\[([^\],]+)(?:,\s*(\d+))?\]$")


class Family:
    """The derivative of an operator (or vector) by all of q: one for every degree of freedom.

    `expr` is the derivative along the direction `dq`, linear in it. Nothing is computed until it is
    contracted with a direction, or compiled.

    >>> import phipsi as pp
    >>> from phipsi.operators import mass_matrix, v
    >>> rates = pp.diff(mass_matrix, "q").contract(v)      # d/dt of the mass matrix
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.compile(rates, arm, mode="dense")([0.0, 0.5], [0.0, 1.0]).round(6).tolist()
    [[-0.479426, -0.239713], [-0.239713, 0.0]]
    >>> pp.diff(mass_matrix, "q").compile(arm)([0.0, 0.5]).shape
    (2, 2, 2)
    """

    def __init__(self, expr: Expr, direction: Expr) -> None:
        self.expr, self.direction = expr, direction

    def contract(self, vector: Expr | str) -> Expr:
        """Σ over dofs of vector × derivative: the derivative along a vector of joint rates."""
        w = parse(vector) if isinstance(vector, str) else vector
        if w.gives is not self.direction.gives or not w.is_vector:
            raise SpaceError(
                f"the direction must be a vector of {self.direction.gives}, but {w} is: "
                f"{check.signature(w)}"
            )
        return substitute(self.expr, {self.direction: w})

    def along(self, joint: str, i: int = 0) -> Expr:
        """The derivative by one degree of freedom: number i of a joint (or parameter of a body)."""
        parameters = self.direction.gives is PARAMETERS
        return self.contract(pick_inertia(joint, i) if parameters else pick(joint, i))

    def compile(self, model: Model, **options: Any) -> FamilyProgram:
        """A function of the inputs that returns all derivatives, (..., out, in, nv)."""
        if not self.expr.is_vector:
            options = {"mode": "dense", **options}
        program = compile(self.expr, model, **options)
        return FamilyProgram(program, self.direction.name)

    def __repr__(self) -> str:
        return f"<family over {self.direction}: {self.expr}>"


class FamilyProgram:
    """A compiled family; call it with the inputs in the order of `inputs`, batched as programs."""

    def __init__(self, program: Program, direction: str) -> None:
        self.program, self.direction = program, direction
        self.inputs = tuple(n for n in program.inputs if n != direction)

    def __call__(self, *args: Any, **named: Any) -> Array:
        """All derivatives, (..., out, in, nv): a batch over the unit directions."""
        values: dict[str, Any] = dict(zip(self.inputs, args, strict=False)) | named
        return along_units(self.program, values, self.direction)


def along_units(program: Program, values: Mapping[str, Any], direction: str) -> Array:
    """What a program gives for every unit vector of one of its inputs, on the last axis.

    The directions join the batch as one flat axis, so that all lanes of the machine are busy.
    """
    units = np.eye(10 * program.model.n_bodies if direction == "dinertia" else program.model.nv)
    steps = units.reshape(-1, program.model.n_bodies, 10) if direction == "dinertia" else units
    core = {"f_ext": 2, "f0": 2}
    arrays = {name: as_array(name, x) for name, x in values.items()}
    sizes = input_shapes(program)
    for name, x in arrays.items():
        if x.shape[max(0, x.ndim - len(sizes[name])) :] != sizes[name]:
            wanted = ", ".join(map(str, sizes[name]))
            raise InputError(f"{name} has shape {x.shape}, but this model needs (..., {wanted})")
    ranks = {name: core.get(name, 1) for name in arrays}
    shapes = [x.shape[: x.ndim - ranks[name]] for name, x in arrays.items()]
    try:
        batch = np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(f"{name}: {s}" for name, s in zip(arrays, shapes, strict=True))
        raise InputError(f"the batch axes do not broadcast: {listed}") from None
    count = math.prod(batch)
    flat: dict[str, Any] = {direction: np.concatenate([steps] * count) if count else steps[:0]}
    for name, x in arrays.items():
        tail = x.shape[x.ndim - ranks[name] :]
        whole = np.broadcast_to(x, (*batch, *tail)).reshape(count, *tail)
        flat[name] = np.repeat(whole, len(units), axis=0)
    out = np.asarray(program(*(flat[name] for name in program.inputs)))
    return np.moveaxis(out.reshape(*batch, len(units), *out.shape[1:]), len(batch), -1)


def diff(expr: Expr, wrt: str, along: Expr | str | None = None) -> Any:
    """Differentiate an expression; the result is an expression of the same algebra.

    `wrt` is "q", "v", "vdot", "tau", "f_ext", "f0", or "inertia" for the ten inertial parameters of
    every body (the order of `pp.inertial_parameters`). Derivatives by q are along the joint rates,
    nv of them, never along components of quaternions: ``gdot = diff(g, "q") @ v`` for every g(q).

    - A vector gives an operator from the space of the variable: ``diff(y, "q") @ dq`` is the change
      of y. Its adjoint gives gradients: ``diff(y, "q").T @ c`` is the gradient of c* y.
    - With `along` ("dq", or any vector of joint rates) anything gives its change along it.
    - ``wrt="q[shoulder]"`` (or ``"q[shoulder, 1]"`` for joints with several dofs) is the derivative
      by one degree of freedom.
    - An operator without `along` gives a `Family` over the degrees of freedom; so does a vector
      with articulated quantities (P, D, G, ψ) or block-diagonal parts in it, whose change is linear
      in the direction but no product with it.

    **Source:** sensitivity.md 1–6; seed 4 lemmas 3.1–4.3.

    >>> import phipsi as pp
    >>> from phipsi.operators import H, M, phi, gravity
    >>> stiffness = pp.diff(H @ phi @ M @ phi.T @ gravity, "q")
    >>> arm = pp.examples.planar_arm(1)
    >>> pp.compile(stiffness, arm, mode="dense")([0.0]).round(9).tolist()
    [[0.0]]
    >>> print(pp.diff(phi, "q", along="dq"))
    −φ E_φ cross(H* dq)* φ
    """
    found = _ONE_DOF.match(wrt.strip()) if isinstance(wrt, str) else None
    if found:
        if along is not None:
            raise InputError(f"wrt={wrt!r} names one degree of freedom already; leave out along=")
        wrt, name, i = found.group(1), found.group(2).strip(), int(found.group(3) or 0)
        along = pick_inertia(name, i) if wrt == "inertia" else pick(name, i)
    if not isinstance(wrt, str) or wrt not in VARIABLES:
        known = ", ".join(map(repr, VARIABLES))
        raise InputError(
            f"wrt={wrt!r} is nothing to differentiate by. Known are {known}, and one degree of "
            "freedom by the name of its joint: 'q[shoulder]'"
        )
    if not isinstance(cast(object, expr), Expr):
        raise InputError(f"{expr!r} is no operator expression; pp.diff differentiates those")
    if expr.takes is None:
        raise SpaceError(check.undetermined(expr))
    if along is None and expr.is_vector:
        try:
            return Tangent(wrt)(expr)
        except NoOperatorError:
            if wrt not in _DIRECTIONS:
                raise
    direction = parse(along) if isinstance(along, str) else along
    family = direction is None
    if direction is None:
        if wrt not in _DIRECTIONS:
            raise InputError(f"say along what {wrt} changes: pp.diff(expr, {wrt!r}, along=…)")
        direction = catalogue_leaf(_DIRECTIONS[wrt])
    if not direction.is_vector or direction.gives is not VARIABLES[wrt]:
        raise SpaceError(
            f"along={direction} must be a vector of {VARIABLES[wrt].phrase}, because it is a "
            f"change of {wrt}, but it is: {check.signature(direction)}"
        )
    change = Directional({wrt: direction})(expr)
    return Family(change, direction) if family else change


_DIRECTIONS = {"q": "dq", "v": "dv", "vdot": "dvdot", "tau": "dtau", "inertia": "dinertia"}


def vjp(
    expr: Expr,
    model: Model,
    wrt: str | Sequence[str] = "q",
    *,
    points: Sequence[Any] | PointSet | None = None,
    backend: str | None = None,
) -> Program:
    """A program for gradients: from c to the gradients of c* y by the variables in `wrt`.

    The sweeps of the derivative run the other way, so all gradients together cost a small multiple
    of one evaluation of y. The program takes the inputs of the derivatives in their usual order and
    c last, called x; it returns one gradient, or a tuple of them. Gradients by q are in the
    directions of v, (..., nv).

    >>> import phipsi as pp
    >>> from phipsi.algorithms.dynamics import FORWARD_DYNAMICS
    >>> arm = pp.examples.planar_arm(2)
    >>> gradient = pp.vjp(FORWARD_DYNAMICS, arm, ("q", "v", "tau"))
    >>> gradient.inputs
    ('q', 'v', 'tau', 'x')
    >>> by_q, by_v, by_tau = gradient([0.1, 0.2], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0])
    >>> by_tau.shape
    (2,)
    """
    if not expr.is_vector:
        raise SpaceError(f"vjp needs a vector expression, but {expr} is: {check.signature(expr)}")
    names = (wrt,) if isinstance(wrt, str) else tuple(wrt)
    gradients = tuple(gradient(expr, name) for name in names)
    target = gradients[0] if isinstance(wrt, str) else gradients
    return compile(target, model, points=points, backend=backend, same_operand=True)


def gradient(expr: Expr, wrt: str) -> Expr:
    """The gradient of c* y by one variable: an operator on c, or a vector that is linear in it.

    The operator is the adjoint of `diff(y, wrt)`. Where that is no operator of the algebra, because
    y contains P, D, G, ψ or bd(…), c is the leaf ``weight[…]`` that stands for the operand of a
    program, and the gradient is a vector.

    >>> from phipsi.differentiation import gradient
    >>> from phipsi.operators import D, tau
    >>> print(gradient(D.inv @ tau, "tau"))
    D⁻¹
    """
    if not isinstance(wrt, str) or wrt not in VARIABLES:
        known = ", ".join(map(repr, VARIABLES))
        raise InputError(f"wrt={wrt!r} is nothing to differentiate by; known are {known}")
    try:
        return Tangent(wrt)(expr).T
    except NoOperatorError:
        assert expr.gives is not None
        with_ = identity(expr.gives) if expr.is_scalar else weight(expr.gives.dual)
        return Gradient(wrt)(expr, with_)
