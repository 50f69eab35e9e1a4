"""Constant blocks of custom operators and vectors: one per body or point, or one for all."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.expressions import ONE, Space
from phipsi.core.model import Model, PointSet
from phipsi.core.operators import ConstantBlocks
from phipsi.errors import InputError, SpaceError, did_you_mean

Array = NDArray[Any]
_SKEW = ((2, 4), (0, 5), (1, 3))  # the first moments in the upper right corner of an inertia


@final
class Table(ConstantBlocks):
    """The constant blocks of one operator or vector, in body axes or those of the points.

    **Attributes:** `name`; `takes` and `gives`; `blocks`, by the name of a body or a joint, "" for
    all bodies, or None for one array in storage layout; `symmetric`, whether it is declared so;
    `symbol` and `latex`, as it is printed, and `power`, what follows them. Tables are equal if
    their contents are.
    """

    def __init__(
        self,
        name: str,
        takes: Space,
        gives: Space,
        block: Any,
        symmetric: bool = False,
        symbol: str = "",
        latex: str = "",
        power: tuple[str, str] = ("", ""),
    ) -> None:
        self.name, self.takes, self.gives, self.symmetric = name, takes, gives, symmetric
        self.symbol, self.latex, self.power = symbol or name, latex or name, power
        named = cast("Mapping[Any, Any]", block) if isinstance(block, Mapping) else {"": block}
        found = {str(key): self._numbers(value, str(key)) for key, value in named.items()}
        if not isinstance(block, Mapping) and found[""].ndim > self._axes:
            found = {None: found[""]}
        self.blocks: dict[str | None, Array] = dict(sorted(found.items(), key=str))
        for key, value in self.blocks.items():
            self._check(key, value)
        parts = [(key, value.shape, value.tobytes()) for key, value in self.blocks.items()]
        words = name, symbol, latex, power
        self._key = (words, takes, gives, symmetric, tuple(parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        """Without the numbers, which the code of a program does not depend on."""
        kind = "inertia" if self.is_inertia else "symmetric" if self.symmetric else ""
        return f"<table {self.name}: {self.takes.name} → {self.gives.name} {kind}>"

    def __reduce__(self) -> tuple[Any, ...]:
        whole = self.blocks.get(None)
        block = dict(self.blocks) if whole is None else whole
        words = self.symmetric, self.symbol, self.latex, self.power
        return Table, (self.name, self.takes, self.gives, block, *words)

    @property
    def words(self) -> str:
        """What it is, in an error."""
        if self.gives is ONE:
            return f"the number {float(self.blocks[''])}"
        if self.of_points:
            return "a table of all points" if None in self.blocks else "one block for all points"
        named = [key for key in self.blocks if key]
        if named:
            return f"a table with blocks of {', '.join(named)}"
        return "a table of all bodies" if None in self.blocks else "one block for all bodies"

    def differences(self, other: Any) -> list[str]:
        """The first number in which it differs from a table of the same name, for an error."""
        if (
            not isinstance(other, Table)
            or self.gives is ONE
            or self.blocks.keys() != other.blocks.keys()
        ):
            return [f"one is {self.words}, the other is {other.words}"]
        for key, x in self.blocks.items():
            y = other.blocks[key]
            where = f"the block of {key!r}" if key else "the block" if key == "" else "the array"
            if x.shape != y.shape:
                return [f"{where} has shape {x.shape} in one, {y.shape} in the other"]
            if not np.array_equal(x, y):
                at = tuple(int(i) for i in np.argwhere(x != y)[0])
                entry = f" at {at}" if at else ""
                return [f"{where} has {x[at]}{entry} in one, {y[at]} in the other"]
        return []

    # ---- numbers as they are given ---------------------------------------------------------------

    @property
    def _axes(self) -> int:
        """Axes of one block; numbers stand for multiples of the identity, or of ones."""
        return 2 if self.takes is not ONE else 0 if self.gives.width is None else 1

    def _numbers(self, value: Any, key: str) -> Array:
        where = f" of {key!r}" if key else ""
        try:
            out = np.array(value, dtype=np.float64)
            complex_or_text = np.asarray(value).dtype.kind not in "biuf"
        except (TypeError, ValueError):
            out, complex_or_text = np.zeros(0), True
        if complex_or_text:
            raise InputError(
                f"the block{where} of {self.name} must be numbers, not {_short(value)}.\n"
                f"Pass one array for all bodies, or arrays by the names of bodies: "
                f'block={{"forearm": …}}'
            )
        if not np.isfinite(out).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
            raise InputError(
                f"the block{where} of {self.name} has {out[at]} at {at}; every number must be "
                "finite"
            )
        out.setflags(write=False)
        return out

    def _check(self, key: str | None, value: Array) -> None:
        """What can be checked without a model: widths that do not depend on a joint, symmetry."""
        if self.of_points:
            self._check_at_points(key, value)
        if key is None or value.ndim == 0:
            return
        wanted = self._widths("r")
        fits = value.ndim == len(wanted) and all(
            w == "r" or n == w for n, w in zip(value.shape, wanted, strict=True)
        )
        if not fits:
            raise SpaceError(self._wrong_shape(key, value, wanted))
        self._check_symmetry(key, value)

    def _check_at_points(self, key: str | None, value: Array) -> None:
        """One block, or one array with the blocks of all points."""
        if key:
            raise InputError(
                f"{self.name} has blocks for points, and points have no names, such as {key!r}. "
                "Pass one array (number of points, 6, 6), in the order of points=, or one (6, 6) "
                "for all points"
            )
        if key is None and (value.ndim != 3 or value.shape[1:] != (6, 6)):
            raise SpaceError(
                f"the blocks of {self.name} have shape {value.shape}, but those of points are "
                "(number of points, 6, 6), or (6, 6), one for all points"
            )
        for i, block in enumerate(value if key is None else ()):
            self._check_symmetry(f"point {i}", block)

    def _widths(self, hinge: Any) -> tuple[Any, ...]:
        spaces = (self.gives,) if self.takes is ONE else (self.gives, self.takes)
        return tuple(hinge if s.width is None else s.width for s in spaces if s is not ONE)

    def _wrong_shape(self, key: str, value: Array, wanted: tuple[Any, ...]) -> str:
        where = f" of {key!r}" if key else ""
        shape = ", ".join(map(str, wanted))
        meant = ", r being the degrees of freedom of the joint" if "r" in wanted else ""
        return (
            f"the block{where} of {self.name} has shape {value.shape}, but a block from "
            f"{self.takes.phrase} to {self.gives.phrase} is ({shape}){meant}"
        )

    def _check_symmetry(self, key: str, value: Array) -> None:
        if not self.symmetric or value.ndim != 2 or np.array_equal(value, value.T):
            return
        i, j = (int(n) for n in np.argwhere(value != value.T)[0])
        raise SpaceError(
            f"{self.name} is declared symmetric, but its block{f' of {key!r}' if key else ''} is "
            f"not: entry ({i}, {j}) is {value[i, j]} and entry ({j}, {i}) is {value[j, i]}.\n"
            f"Remove symmetric=True, or pass (block + block.T) / 2"
        )

    # ---- blocks of a model -----------------------------------------------------------------------

    def at(self, model: Model, k: int) -> Array:
        """The block of body k, (rows, cols); a vector has one column."""
        drawn = getattr(model, "drawn_blocks", None)
        return self._at(model, k) if drawn is None else drawn(self)[k]

    def check_model(self, model: Model) -> None:
        """Reject names that the model does not have, and blocks that do not fit its joints."""
        if self.of_points:
            return
        known = {*model.body_names, *model.joint_names}
        for key in self.blocks:
            if key and key not in known:
                raise InputError(
                    f"the block of {key!r} in {self.name}: this model has no such body or joint. "
                    f"{did_you_mean(key, known)}"
                )
        for k in range(model.n_bodies if self.gives is not ONE else 1):
            self._at(model, k)

    def _at(self, model: Model, k: int) -> Array:
        if self.gives is ONE:
            return self.blocks[""].reshape(1, 1)
        hinge, body = model.v_slices[k], model.body_names[k]
        widths = self._widths(hinge.stop - hinge.start)
        value = self._found(model, k, widths)
        if value.ndim == 0:  # a multiple of the identity, or of ones
            if len(widths) == 2 and widths[0] != widths[1]:
                raise SpaceError(self._wrong_shape(body, value, widths))
            value = value * (np.eye(widths[0]) if len(widths) == 2 else np.ones(widths))
        if value.shape != widths:
            raise SpaceError(self._wrong_shape(body, value, widths))
        self._check_symmetry(body, value)
        return value if value.ndim == 2 else value[:, None]

    def shape_at(self, model: Model, k: int) -> tuple[int, ...]:
        """Rows and columns of the block of body k; a vector has one column, a number one row."""
        hinge = model.joints[k].nv if model.n_bodies else 0
        widths = self._widths(hinge)
        return (1, 1) if self.gives is ONE else widths if len(widths) == 2 else (*widths, 1)

    def _found(self, model: Model, k: int, widths: tuple[int, ...]) -> Array:
        whole = self.blocks.get(None)
        if whole is not None:
            return self._slice(whole, model, k, widths)
        for key in (model.body_names[k], model.joint_names[k], ""):
            if key in self.blocks:
                return self.blocks[key]
        return np.zeros(widths)

    def _slice(self, whole: Array, model: Model, k: int, widths: tuple[int, ...]) -> Array:
        """The block of body k in an array for the whole model."""
        n, hinge = model.n_bodies, model.v_slices[k]
        if self.takes is ONE and self.gives.width is None:
            shape, part = (model.nv,), whole[hinge] if whole.ndim == 1 else whole
        else:
            shape = (n, *self._widths(max((j.nv for j in model.joints), default=0)))
            part = whole[(k, *map(slice, widths))] if whole.shape == shape else whole
        if whole.shape != shape:
            raise SpaceError(
                f"the blocks of {self.name} have shape {whole.shape}, but this model needs "
                f"({', '.join(map(str, shape))}): one for each of its bodies"
            )
        return part

    # ---- blocks of points ------------------------------------------------------------------------

    def at_point(self, model: Model, i: int, count: int) -> Array:
        """The block of point i of so many, (6, 6)."""
        drawn = getattr(model, "drawn_blocks", None)
        return self._at_point(i) if drawn is None else drawn(self, count)[i]

    def _at_point(self, i: int) -> Array:
        """The block of point i; proofs choose points of their own, and begin again with block 0."""
        whole, one = self.blocks.get(None), self.blocks.get("", np.zeros((6, 6)))
        value = one if whole is None else whole[i % len(whole)]
        return value * np.eye(6) if value.ndim == 0 else value

    def check_points(self, points: PointSet) -> None:
        """Reject points for which there are no blocks, and frames of closures."""
        if not self.of_points:
            return
        if points.closures is not None:
            raise InputError(
                f"{self.name} has blocks for points, and the points of a system are the frames of "
                "its closures too, each in its own axes. Use the tree of the system, with points "
                "of your own:\n"
                "    pp.compile(expr, system.model, points=…)"
            )
        whole = self.blocks.get(None)
        if whole is not None and len(whole) != len(points):
            raise SpaceError(
                f"the blocks of {self.name} have shape {whole.shape}, but there are {len(points)} "
                f"points: pass ({len(points)}, 6, 6), one block for each, or (6, 6), one for all"
            )

    # ---- the inverse -----------------------------------------------------------------------------

    def inverted(self, inverse: Any) -> Table:
        """The table of X⁻¹: the given blocks, checked, or with True the inverse of every block."""
        blocks: Any = inverse
        if inverse is True:
            blocks = {key: self._inverse(key, x) for key, x in self.blocks.items()}
            blocks = blocks.get(None, blocks)
        words = self.symmetric, self.symbol, self.latex, ("⁻¹", "^{-1}")
        out = Table(f"{self.name}⁻¹", self.gives, self.takes, blocks, *words)
        for key, x in self.blocks.items():
            if key is not None and key in out.blocks:
                self.check_inverse(key, x, out.blocks[key])
        return out

    def _inverse(self, key: str | None, x: Array) -> Array:
        if key is None and not self.of_points:  # padded with zeros
            return np.linalg.pinv(x)
        try:
            found = 1 / x if x.ndim == 0 else np.linalg.inv(x)
        except (np.linalg.LinAlgError, ZeroDivisionError):
            found = np.array(np.inf)
        if not np.isfinite(found).all():
            raise SpaceError(_no_inverse(self.name, key, "is singular"))
        return (found + np.swapaxes(found, -1, -2)) / 2 if self.symmetric else found

    def check_inverse(self, key: str, x: Array, inverse: Array) -> None:
        """Reject blocks whose product is not the identity, up to rounding."""
        if x.ndim != inverse.ndim:
            return  # of a model, when its widths are known
        both = x * inverse if x.ndim == 0 else x @ inverse
        size = np.abs(x).max(initial=0.0) * np.abs(inverse).max(initial=0.0)
        gap = np.abs(both - (1 if x.ndim == 0 else np.eye(len(both)))).max(initial=0.0)
        if not gap <= 1e-12 * max(size, 1.0):
            raise SpaceError(
                _no_inverse(self.name, key, f"times the given inverse differs from I by {gap:.2g}")
            )

    # ---- what the blocks are known to be ---------------------------------------------------------

    @cached_property
    def _matrices(self) -> list[Array]:
        return [y for x in self.blocks.values() if x.ndim > 1 for y in (x if x.ndim > 2 else [x])]

    @cached_property
    def is_positive(self) -> bool:
        """Whether all blocks of a symmetric operator are ≥ 0, up to rounding."""
        if any(x.ndim == 0 and x < 0 for x in self.blocks.values()):
            return False
        return self.symmetric and all(_is_positive(x) for x in self._matrices)

    @property
    def is_inertia(self) -> bool:
        """Whether every block is [[J, h~], [−h~, m]], exactly: rigid motions keep that form."""
        return self._is_inertia

    @cached_property
    def _is_inertia(self) -> bool:
        return (
            self.symmetric
            and not self.of_points
            and (self.takes.width, self.gives.width) == (6, 6)
            and all(x.ndim >= 2 for x in self.blocks.values())
            and all(map(_is_inertia, self._matrices))
        )


def _no_inverse(name: str, key: str | None, why: str) -> str:
    where = f" of {key!r}" if key else ""
    return (
        f"the block{where} of {name} {why}.\nRemove inverse=: {name}⁻¹ is then computed where "
        "it is needed, block by block"
    )


def _is_positive(x: Array) -> bool:
    values = np.linalg.eigvalsh(x)
    return not len(values) or bool(values[0] >= -1e-13 * max(values[-1], 0.0))


def _is_inertia(x: Array) -> bool:
    h = [x[i, j] for i, j in _SKEW]
    skew = np.array([[0, -h[2], h[1]], [h[2], 0, -h[0]], [-h[1], h[0], 0]])
    low = np.array_equal(x[3:, 3:], x[5, 5] * np.eye(3))
    return low and np.array_equal(x[:3, 3:], skew) and np.array_equal(x, x.T)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
