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

    def _dHT(self, x: Field) -> bl.Block:
        w = self._column(x.args[0])
        columns = [bl.matvec(rows, w) for rows in self._bent(x)]
        return bl.Dense(bl.transpose_rows(columns) if columns else [[] for _ in range(6)])

    def _dH_trace(self, x: Field) -> bl.Block:
        z = [e for row in self.value(x.args[0]).dense() for e in row]
        return bl.Dense([[bl.dot([e for row in n for e in row], z)] for n in self._bent(x)])

    def _dH(self, x: Field) -> bl.Block:
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
        angular = bl.plus(_axial(_corner(m, 0, 0)), _axial(_corner(m, 3, 3)))
        return bl.Dense([[e] for e in angular + _axial(_corner(m, 0, 3))])

    def _vee_force(self, x: Field) -> bl.Block:
        m = self.value(x.args[0]).dense()
        linear = bl.plus(_axial(_corner(m, 0, 3)), _axial(_corner(m, 3, 0)))
        return bl.Dense([[e] for e in _axial(_corner(m, 0, 0)) + linear])

    def _inertia_trace(self, x: Field) -> bl.Block:
        """tr(M(π) X) by the parameters, which are in the body's own axes."""
        m, turn = self.value(x.args[0]).dense(), self.memory.turn()
        top, right, left, low = (_corner(m, i, j) for i in (0, 3) for j in (0, 3))
        first = [bl.sub(a, b) for a, b in zip(_axial(left), _axial(right), strict=True)]
        z = bl.matmul(bl.matmul(turn, top), bl.transpose_rows(turn))
        mass = bl.plus([low[0][0]], bl.plus([low[1][1]], [low[2][2]]))
        products = [bl.plus([z[i][j]], [z[j][i]])[0] for i, j in ((0, 1), (0, 2), (1, 2))]
        entries = [*mass, *bl.matvec(turn, first), *(z[i][i] for i in range(3)), *products]
        return bl.Dense([[e] for e in entries])

    def _inertia_of(self, x: Field) -> bl.Block:
        """M(π), turned from the body's own axes."""
        m, hx, hy, hz, xx, yy, zz, xy, xz, yz = self._column(x.args[0])
        turn = self.memory.turn()
        back = bl.transpose_rows(turn)
        j = bl.matmul(bl.matmul(back, [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), turn)
        lower = [j[a][b] for a in range(3) for b in range(a + 1)]
        return bl.Inertia([m, *bl.matvec(back, [hx, hy, hz]), *lower])

    def _angular(self, x: Field) -> bl.Block:
        return bl.Symmetric([int(i == j and i < 3) for i in range(6) for j in range(i + 1)], 6)

    def _sym(self, x: Field) -> bl.Block:
        m = self.value(x.args[0]).dense()
        n = len(m)
        pairs = [(i, j) for i in range(n) for j in range(i + 1)]
        return bl.Symmetric([bl.plus([m[i][j]], [m[j][i]])[0] for i, j in pairs], n)

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


def _corner(m: bl.Rows, i: int, j: int) -> bl.Rows:
    """A 3 × 3 part of a 6 × 6 block."""
    return [row[j : j + 3] for row in m[i : i + 3]]


def _axial(m: bl.Rows) -> list[Any]:
    """x with x · a = tr(a~ m) for all a."""
    return [bl.sub(m[a][b], m[b][a]) for a, b in ((1, 2), (2, 0), (0, 1))]
