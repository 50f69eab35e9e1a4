"""The arguments of `evaluate_dense`: shapes, batches, finite numbers, values of `inputs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.backends import argument_shapes, block_shape, body_slices, joint_at, vector_shape
from phipsi.core.expressions import (
    UNKNOWN,
    Expr,
    Op,
    Space,
    check,
    is_memoryless,
    leaf as leaf_of,
    space_size,
)
from phipsi.core.model import Model, PointSet
from phipsi.core.operators import DIRECTIONS, about_points, check_pairs, own_rows, parse
from phipsi.errors import InputError, SpaceError

Array = NDArray[Any]


@dataclass(frozen=True)
class DenseArguments:
    """Checked arguments of `evaluate_dense`, each with the common batch shape in front.

    The keys of `inputs` are leaves or adjoints of leaves (H*).
    """

    batch: tuple[int, ...]
    dtype: np.dtype[Any]
    arguments: dict[str, Array]
    inputs: dict[Expr, Array]

    def at(self, index: tuple[int, ...]) -> tuple[dict[str, Array], dict[Expr, Array]]:
        """The arguments and the values of inputs of one configuration of the batch."""
        return (
            {name: array[index] for name, array in self.arguments.items()},
            {leaf: array[index] for leaf, array in self.inputs.items()},
        )


# ---- the expression ----------------------------------------------------------------------------


def check_expression(expr: Expr) -> None:
    """Reject what has no matrix: an I or 0 without a space, and a mix of the two bias pairs."""
    if not isinstance(cast(object, expr), Expr):
        raise InputError(f"{expr!r} is not an operator expression{check.advice(expr)}")
    if expr.takes is UNKNOWN:
        raise SpaceError(check.undetermined(expr))
    check_pairs(expr)
    own_rows((expr,))


def check_points(expr: Expr) -> None:
    """Reject an expression about points if no points were named."""
    for x in about_points(expr):
        raise InputError(
            f"{x} is about points: pass points=[(body_or_frame, offset), ...], or points=[] "
            f"for none"
        )


# ---- shapes ------------------------------------------------------------------------------------


def block_of(space: Space, model: Model, k: int) -> slice:
    """Components of body k in a vector of a space with one block per body."""
    if space.index == "joint":
        return model.v_slices[k]
    if space.index == "parameter":
        return slice(10 * k, 10 * (k + 1))
    return body_slices(model)[k]


def storage_shape(leaf: Expr, model: Model, points: PointSet) -> tuple[int, ...]:
    """Shape in which a leaf's value is given and returned, without the batch.

    Vectors: (nv,), (n, 6), (nC, 6), poses (n, 4, 4). Memoryless operators: between body spaces
    (n, 6, 6); from joint to body spaces (6, nv), the columns of joint k being block k, and the
    other way (nv, 6); between joint spaces (n, r, r) with r the widest hinge, zero padded; of
    points (nC, 6, 6).
    """
    kinds = {leaf.takes.index, leaf.gives.index}
    if leaf.is_vector:
        return vector_shape(leaf.gives, model, points)
    if is_memoryless(leaf.structure) and kinds <= {"body", "joint"}:
        return block_shape(leaf.takes, leaf.gives, model)
    if is_memoryless(leaf.structure) and "point" in kinds:
        return (len(points), 6, 6)
    raise InputError(
        f"{leaf} cannot be an input: only vectors and memoryless operators have a storage layout, "
        f"and {leaf} is an operator {check.signature(leaf)} that reaches from body to body."
    )


def from_storage(leaf: Expr, value: Array, model: Model, points: PointSet) -> Array:
    """The full matrix of a leaf from its storage layout (one configuration)."""
    if leaf.is_vector:
        return value.reshape(-1, 1)
    sizes = [space_size(s, model, points) for s in (leaf.gives, leaf.takes)]
    out = np.zeros(sizes, value.dtype)
    if leaf.takes.index == leaf.gives.index == "point":
        for i in range(len(points)):
            point = slice(6 * i, 6 * i + 6)
            out[point, point] = value[i]
        return out
    if "point" in (leaf.takes.index, leaf.gives.index):
        for i, k in enumerate(points.body):
            body, point = slice(6 * k, 6 * k + 6), slice(6 * i, 6 * i + 6)
            if k >= 0 and leaf.takes.index == "point":
                out[body, point] = value[i]
            elif k >= 0:
                out[point, body] = value[i]
        return out
    for k, s in enumerate(model.v_slices):
        body, r = slice(6 * k, 6 * k + 6), s.stop - s.start
        row = body if leaf.gives.index == "body" else s
        col = body if leaf.takes.index == "body" else s
        if leaf.takes.index == leaf.gives.index:
            out[row, col] = value[k] if leaf.gives.index == "body" else value[k, :r, :r]
        else:
            out[row, col] = value[:, s] if leaf.gives.index == "body" else value[s]
    return out


# ---- values ------------------------------------------------------------------------------------


def collect(
    model: Model,
    points: PointSet,
    arguments: Mapping[str, ArrayLike | None],
    inputs: Mapping[str | Expr, ArrayLike] | None,
    expressions: tuple[Expr, ...] = (),
) -> DenseArguments:
    """Check all values and give them one batch shape and one number type."""
    if inputs and model.has_more_rows:
        raise InputError(
            "inputs= cannot be combined with flexible bodies or rotors on skew axes: their "
            "quantities are always computed"
        )
    shapes = argument_shapes(model, points)
    named = {
        name: _checked(name, value, shapes[name], model, points)
        for name, value in arguments.items()
        if value is not None
    }
    values: dict[Expr, tuple[Array, int]] = {}
    if inputs is not None and not isinstance(cast(object, inputs), Mapping):
        raise InputError(f"inputs takes values by name: inputs={{'M': array}}, not {inputs!r}")
    for key, value in (inputs or {}).items():
        leaf = _leaf_named(key, expressions)
        shape = storage_shape(leaf, model, points)
        array = _checked(f"inputs[{leaf.text('ascii')!r}]", value, shape, model, points)
        values[leaf] = array, len(shape)
    leading = [a.shape[: a.ndim - len(shapes[name])] for name, a in named.items()]
    leading += [a.shape[: a.ndim - core] for a, core in values.values()]
    try:
        batch = np.broadcast_shapes(*leading)
    except ValueError:
        listed = ", ".join(f"{name} {a.shape}" for name, a in named.items())
        listed += "".join(f", {leaf} {a.shape}" for leaf, (a, _) in values.items())
        raise InputError(f"the leading (batch) axes do not broadcast together: {listed}") from None
    dtypes = [a.dtype for a in named.values()] + [a.dtype for a, _ in values.values()]
    dtype = np.result_type(np.float64, *dtypes)
    return DenseArguments(
        batch,
        dtype,
        {name: np.broadcast_to(a, batch + shapes[name]).astype(dtype) for name, a in named.items()},
        {
            leaf: np.broadcast_to(a, batch + a.shape[a.ndim - core :]).astype(dtype)
            for leaf, (a, core) in values.items()
        },
    )


def _leaf_named(key: str | Expr, expressions: tuple[Expr, ...]) -> Expr:
    own = own_rows(expressions).get(key) if isinstance(key, str) else None
    leaf = leaf_of(own) if own is not None else parse(key) if isinstance(key, str) else key
    if not isinstance(cast(object, leaf), Expr):
        raise InputError(f"inputs[{key!r}]: a value has a name, inputs={{'M': array}}")
    if (leaf.args[0] if leaf.op is Op.ADJOINT else leaf).op is not Op.LEAF:
        raise InputError(f"inputs[{str(key)!r}] must be one operator or vector of the catalogue")
    return leaf


def _checked(
    name: str, value: ArrayLike, shape: tuple[int, ...], model: Model, points: PointSet
) -> Array:
    try:
        array = np.asarray(value)
        if array.dtype.kind != "c":
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers, not {value!r}") from None
    core = array.shape[array.ndim - len(shape) :] if array.ndim >= len(shape) else None
    if core != shape:
        wanted = ", ".join(["...", *map(str, shape)])
        raise InputError(f"{name} has shape {array.shape}, but this model needs ({wanted})")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        index = tuple(int(i) for i in bad[0])
        where = _place(name, index[len(index) - len(shape) :], model, points)
        raise InputError(f"{name} of {where} is {array[index]}; every number must be finite")
    return array


def _place(name: str, index: tuple[int, ...], model: Model, points: PointSet) -> str:
    """Whose number it is, by name."""
    if name in ("q", "v", "vdot", "tau", "free", *DIRECTIONS):
        slices = model.q_slices if name == "q" else model.v_slices
        return f"joint {joint_at(model, slices, index[0])!r}"
    if name == "f_ext":
        return f"body {model.body_names[index[0]]!r}"
    if name == "f0":
        return f"point {index[0]} (on {points.names[index[0]]!r})"
    return f"entry {index}"
