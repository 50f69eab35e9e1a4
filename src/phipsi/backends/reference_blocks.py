"""Small helpers of the reference backend: blocks, pivots, and the seeds of paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from phipsi import spatial
from phipsi.sweeps.ir import Field

Array = np.ndarray


class Local:
    """A field whose block is needed at the body being visited only: one block, not a list."""

    __slots__ = ("block",)
    block: Any

    def __getitem__(self, k: int) -> Any:
        return self.block

    def __setitem__(self, k: int, block: Any) -> None:
        self.block = block


def seed_kinds(fields: list[Field]) -> dict[Field, str]:
    """What the paths of the fields start at: "points" or "bodies"."""
    out: dict[Field, str] = {}
    for x in fields:
        stack, seen = [x], set[Field]()
        while stack:
            y = stack.pop()
            if y.op == "path_seed":
                out[x] = str(y.data)
                break
            if y not in seen:
                seen.add(y)
                more = (y.equation,) if y.equation is not None else y.args
                stack.extend(a for a in more if a.type.cols == "p")
        else:
            out[x] = "bodies"
    return out


def nothing(block: Array) -> bool:
    """True for the 1 × 1 zero that stands for a block of zeros on a path."""
    return block.shape == (1, 1) and not block.any()


def rigid(turn: Array, arm: Array) -> Array:
    """[[R, l~ R], [0, R]]."""
    out = twice(turn, shape=np.broadcast_shapes(turn.shape[:-2], arm.shape[:-1]))
    out[..., :3, 3:] = spatial.skew(arm) @ turn
    return out


def twice(turn: Array, shape: tuple[int, ...] | None = None) -> Array:
    """diag(R, R)."""
    out = np.zeros((*(turn.shape[:-2] if shape is None else shape), 6, 6), dtype=turn.dtype)
    out[..., :3, :3] = turn
    out[..., 3:, 3:] = turn
    return out


def pivots(a: Array) -> Array:
    """Squared diagonal of the Cholesky factor; NaN or ≤ 0 from the first one that fails."""
    n = a.shape[-1]
    if n == 1:
        return a[..., 0]
    work = a.copy()
    out = np.empty(a.shape[:-1])
    with np.errstate(all="ignore"):
        for i in range(n):
            out[..., i] = work[..., i, i]
            column = work[..., i:, i] / work[..., i, i][..., None]
            work[..., i:, i:] = (
                work[..., i:, i:] - column[..., :, None] * work[..., i, i:][..., None, :]
            )
    return out


def number_like(inputs: Mapping[str, Array], number: int) -> Any:
    """An exact 1-like divisor in the scalar type of the inputs."""
    for a in inputs.values():
        if a.dtype == object and a.size:
            return number + 0 * a.flat[0]
    return number
