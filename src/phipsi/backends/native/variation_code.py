"""Code of the operations that derivatives need: how H and B change, gyrations and traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from phipsi.backends.native import blocks as bl
from phipsi.backends.native.lanes import Lane
from phipsi.backends.native.memory import Memory
from phipsi.backends.native.tables import JointCode
from phipsi.model.dual import hinge_axes_along
from phipsi.model.scalars import ScalarOps
from phipsi.sweeps.ir import Field


class VariationCode:
    """Mixed into the code of a body, which supplies values, sizes and coordinates."""

    memory: Memory
    code: JointCode | None
    value: Callable[[Field], bl.Block]
    size: Callable[[str], int]
    sqrt: Callable[[Any], Any]
    _column: Callable[[Field], list[Any]]
    _coordinates: Callable[[str], list[Lane]]
    _params: Callable[[], list[Any]]

    def _along(self, directions: list[list[Any]]) -> bl.Rows:
        assert self.code is not None
        q = self._coordinates("q")
        ops = cast(ScalarOps, self)
        return hinge_axes_along(self.code.joint, self._params(), q, directions, ops)

    def _hinge_axes_along(self, x: Field) -> bl.Block:
        return bl.Dense(self._along([self._column(y) for y in x.args]))

    def _bent(self, x: Field) -> list[bl.Rows]:
        """H* differentiated along the given directions, then along each of the joint's rates."""
        n = self.size("r")
        given = [self._column(y) for y in x.args[1:]]
        place: Any = len(given) if x.data is None else x.data
        units = [[int(i == a) for i in range(n)] for a in range(n)]
        return [self._along([*given[:place], u, *given[place:]]) for u in units]

    def _hinge_bend(self, x: Field) -> bl.Block:
        w = self._column(x.args[0])
        columns = [bl.matvec(rows, w) for rows in self._bent(x)]
        return bl.Dense(bl.transpose_rows(columns) if columns else [[] for _ in range(6)])

    def _hinge_bend_trace(self, x: Field) -> bl.Block:
        z = [e for row in self.value(x.args[0]).dense() for e in row]
        n = self.size("r")
        units = [[int(i == a) for i in range(n)] for a in range(n)]
        return bl.Dense([[bl.dot([e for row in self._along([u]) for e in row], z)] for u in units])

    def _hinge_bend_force(self, x: Field) -> bl.Block:
        f = self._column(x.args[0])
        columns = [bl.matvec(bl.transpose_rows(rows), f) for rows in self._bent(x)]
        return bl.Dense(bl.transpose_rows(columns) if columns else [])

    def _crq(self, x: Field) -> bl.Block:
        f = self._column(x.args[0])
        moment, force = bl.cross_matrix(f[:3]), bl.cross_matrix(f[3:])
        top = [moment[i] + force[i] for i in range(3)]
        return bl.Dense(top + [[*force[i], 0, 0, 0] for i in range(3)])

    def _gyration(self, x: Field) -> bl.Block:
        inertia = self.value(x.args[0])
        assert isinstance(inertia, bl.Inertia)
        return bl.gyration(inertia, self._column(x.args[1]))

    def _inertia_rate(self, x: Field) -> bl.Block:
        inertia = self.value(x.args[0])
        assert isinstance(inertia, bl.Inertia)
        return bl.inertia_rate(inertia, self._column(x.args[1]))

    def _lever(self, x: Field) -> bl.Block:
        f = self._column(x.args[0])
        out = []
        for m in bl.transpose_rows(self.value(x.args[1]).dense()):
            out.append(
                bl.plus(bl.cross(f[:3], m[:3]), bl.cross(f[3:], m[3:])) + bl.cross(f[3:], m[:3])
            )
        return bl.Dense(bl.transpose_rows(out))

    def _vee(self, x: Field) -> bl.Block:
        m = self.value(x.args[0]).dense()

        def axial(i: int, j: int) -> list[Any]:
            pairs = ((1, 2), (2, 0), (0, 1))
            return [bl.sub(m[i + a][j + b], m[i + b][j + a]) for a, b in pairs]

        return bl.Dense([[e] for e in bl.plus(axial(0, 0), axial(3, 3)) + axial(0, 3)])

    def _half(self, x: Field) -> bl.Block:
        rows = self.value(x.args[0]).dense()
        n = len(rows)
        keep = {True: 0.5, False: 1}
        return bl.Dense(
            [
                [bl.mul(keep[i == j], rows[i][j]) if j <= i else 0 for j in range(n)]
                for i in range(n)
            ]
        )

    def _swing(self, x: Field) -> bl.Block:
        y = self._column(x.args[0])
        both = (*bl.cross_matrix(y[:3]), *bl.cross_matrix(y[3:]))
        return bl.Dense([[*row, 0, 0, 0] for row in both])

    def _below_root(self, x: Field) -> bl.Block:
        turn = [[int(i == j) for j in range(3)] for i in range(3)]
        inside = bl.times(self.value(x.args[0]), self.value(x.args[1]))
        return self.memory.at_root(bl.Rigid(turn, [0, 0, 0]), inside)
