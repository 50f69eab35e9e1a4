"""Entries of matrices between joints that are always zero: neither joint is above the other.

A matrix made of paths and diagonal blocks has them wherever two branches meet. A kernel for many
configurations never writes them, so its buffer is cleared once per call instead of once per group,
and they are not read when results are given out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.model.model import Model
from phipsi.sweeps.ir import Field
from phipsi.sweeps.request import Result


def zeros_stay(r: Result) -> bool:
    """True if a group of configurations overwrites the other entries and leaves the zeros alone."""
    return r.left is None and of_branches(r)


def of_branches(r: Result) -> bool:
    """True for a matrix between joints that is made of paths, each entry written once.

    Of a product this is the right factor, which the product overwrites, zeros and all.
    """
    if r.layout != "blocks" or r.field.op != "matrix":
        return False
    if not r.takes.index == r.gives.index == "joint":
        return False
    data: Any = r.field.data
    whole = ("path", "path of adjoint", "diagonal")
    return all(part.how in whole for part in data) and written_once(r.field)


def is_square(r: Result) -> bool:
    """True for a matrix that is nothing but a `square`: zero between trees, and there only."""
    return r.field.op == "matrix" and [y.op for y in r.field.args] == ["square"]


def filled_chunks(model: Model, lanes: int) -> np.ndarray:
    """One byte per `lanes` entries of a matrix between joints: whether any may be non-zero."""
    entries = np.ravel(related(model))
    rest = -len(entries) % lanes
    chunks = np.concatenate([entries, np.zeros(rest, dtype=bool)]).reshape(-1, lanes)
    return np.ascontiguousarray(chunks.any(axis=1), dtype=np.uint8)


def related(model: Model) -> np.ndarray:
    """(nv, nv): whether one of two joints is above the other, or they are the same."""
    out = np.zeros((model.nv, model.nv), dtype=bool)
    for k, mine in enumerate(model.v_slices):
        last = model.v_slices[model.tree.subtree(k)[-1]].stop  # bodies are numbered depth first
        out[mine, mine.start : last] = True
    return out | out.T


def written_once(matrix: Field) -> bool:
    """True if no entry off the diagonal blocks gets more than one term, with coefficient one."""
    data: Any = matrix.data
    paths = [(p, y) for p, y in zip(data, matrix.args, strict=True) if p.how.startswith("path")]
    several = len({p.how for p, _ in paths}) < len(paths) or any(p.how == "pairs" for p in data)
    return not several and all(p.coefficient == 1 and _behind_up(y) for p, y in paths)


def _behind_up(x: Field) -> bool:
    """True for a path that has nothing at the body it starts from."""
    stack, seen = [x], set[Field]()
    while stack:
        y = stack.pop()
        if y.op == "path_seed":
            return False
        if y not in seen and y.op != "up" and y.type.cols == "p":
            seen.add(y)
            stack.extend((y.equation,) if y.equation is not None else y.args)
    return True
