"""Tree: who is attached to whom, and the only place that knows the numbering.

Bodies are stored base-to-tip, depth first: `parent[i] < i`, the world is −1, and the bodies
outboard of i are the consecutive numbers after it. The papers count from the tip; `paper_number`
translates.

Reasons: docs/decisions/0001 and 0005.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model.value import Value
from phipsi.errors import ModelError

WORLD = -1
WORLD_NAME = "world"


@final
class Tree(Value):
    """The parent of every body, in depth-first storage, and what follows from it.

    **Attributes:** `parent`, per body, −1 for roots; `children`, per body, in storage order;
    `depth`, number of bodies between it and the world (0 for roots); `roots`, the bodies attached
    to the world; `size`, number of bodies in the subtree of each, itself included.
    **Cost:** O(n) to make; no recursion anywhere.
    """

    __slots__ = ("parent", "children", "depth", "roots", "size")
    parent: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    depth: tuple[int, ...]
    roots: tuple[int, ...]
    size: tuple[int, ...]

    def __init__(self, parent: Sequence[int]) -> None:
        numbers = tuple(int(p) for p in parent)
        children: list[list[int]] = [[] for _ in numbers]
        depth: list[int] = []
        roots: list[int] = []
        open_path: list[int] = []  # from a root to the body stored last
        for i, p in enumerate(numbers):
            while open_path and open_path[-1] != p:
                open_path.pop()
            if p != WORLD and not open_path:
                raise ModelError(
                    f"parents {numbers[: i + 1]}: body number {i} has parent {p}, which is not the "
                    f"body before it nor one of its ancestors. Store bodies depth first, parents "
                    f"before children; depth_first(parents) gives such an order."
                )
            (roots if p == WORLD else children[p]).append(i)
            open_path.append(i)
            depth.append(len(open_path) - 1)
        size = [1] * len(numbers)
        for i in range(len(numbers) - 1, -1, -1):
            if numbers[i] != WORLD:
                size[numbers[i]] += size[i]
        self._set(
            parent=numbers,
            children=tuple(map(tuple, children)),
            depth=tuple(depth),
            roots=tuple(roots),
            size=tuple(size),
        )

    def __len__(self) -> int:
        return len(self.parent)

    def base_to_tip(self) -> Iterator[int]:
        """Every body after its parent."""
        return iter(range(len(self.parent)))

    def tip_to_base(self) -> Iterator[int]:
        """Every body after all its children."""
        return iter(range(len(self.parent) - 1, -1, -1))

    def on_path(self, upper: NDArray[Any], lower: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether bodies `upper` are on the paths of bodies `lower`, arrays that broadcast.

        A body is on its own path; the world (−1) is on none.
        """
        size = np.asarray(self.size, dtype=np.int64)
        return (upper >= 0) & (lower >= upper) & (lower < upper + size[upper])

    def path(self, body: int) -> list[int]:
        """Bodies from `body` inward to its root, both included; empty for the world."""
        out: list[int] = []
        i = self._checked(body)
        while i != WORLD:
            out.append(i)
            i = self.parent[i]
        return out

    def subtree(self, body: int) -> range:
        """The body and all bodies outboard of it; all bodies for the world."""
        i = self._checked(body)
        return range(len(self.parent)) if i == WORLD else range(i, i + self.size[i])

    def is_ancestor(self, inboard: int, outboard: int) -> bool:
        """Whether `inboard` is on the path from `outboard` to the world; true when equal."""
        return self._checked(outboard) in self.subtree(inboard) or inboard == outboard

    def nearest_common_ancestor(self, i: int, j: int) -> int:
        """The outermost body on both paths to the world, −1 if there is none. Cost: O(depth)."""
        i, j = self._checked(i), self._checked(j)
        while i != j:
            if i > j:
                i = self.parent[i]
            else:
                j = self.parent[j]
        return i

    def paper_number(self, body: int) -> int:
        """Return the papers' number of a body: they count from the tip, 1 is stored last."""
        return len(self.parent) - self._checked(body)

    def _checked(self, body: int) -> int:
        if not WORLD <= body < len(self.parent):
            raise ModelError(
                f"there is no body number {body}; the tree has {len(self.parent)} bodies, "
                f"numbered from 0, and −1 is the world."
            )
        return body

    def _key(self) -> tuple[Any, ...]:
        return self.parent

    def __reduce__(self) -> tuple[Any, ...]:
        return Tree, (self.parent,)

    def __repr__(self) -> str:
        return f"Tree({self.parent})"


def depth_first(parents: Sequence[int]) -> list[int]:
    """Order in which to store nodes so that the result is depth first, siblings in given order.

    **Arguments:** `parents`, any numbering, −1 for the world. **Returns:** old numbers in new
    order. Nodes on a cycle, or outboard of one, are left out. **Cost:** O(n).
    """
    children: list[list[int]] = [[] for _ in parents]
    stack: list[int] = []
    for i, p in enumerate(parents):
        (stack if p == WORLD else children[p]).append(i)
    stack.reverse()
    order: list[int] = []
    while stack:
        i = stack.pop()
        order.append(i)
        stack.extend(reversed(children[i]))
    return order
