"""The code of one step at one body: every IR operation as block arithmetic on lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from phipsi.backends.failures import BLOCK, HINGE
from phipsi.backends.native import blocks as bl
from phipsi.backends.native import solve, tables
from phipsi.backends.native.closure_code import ClosureCode
from phipsi.backends.native.lanes import Lane, known
from phipsi.backends.native.memory import Memory
from phipsi.backends.native.plan import is_remade, root
from phipsi.backends.native.tables import JointCode
from phipsi.backends.native.variation_code import VariationCode
from phipsi.sweeps.ir import Domain, Field, Kind, Reads, terms_of


@dataclass(frozen=True)
class _InTable:
    """Stands for a number that the table of bodies has."""

    place: int


def _template(x: Any) -> Any:
    """What is known of a number in the code of every body with the same joint type, or None."""
    if known(x):
        return x
    return None if x.place is None else _InTable(x.place)


class BodyCode(ClosureCode, VariationCode):
    """Evaluates fields at one body (or point, or once), each at most once, in the order needed."""

    def __init__(
        self,
        memory: Memory,
        code: JointCode | None,
        domain: Domain,
        inside: Callable[[Field], bool],
        templates: dict[tuple[Field, str], list[Any]],
    ) -> None:
        self.memory, self.code, self.domain = memory, code, domain
        self.inside = inside
        self.templates = templates
        self.values: dict[Field, bl.Block] = {}
        self._trig: dict[int, tuple[Lane, Lane]] = {}

    # -- values ------------------------------------------------------------------------------------

    def value(self, x: Field) -> bl.Block:
        """The block of x here."""
        if x in self.values:
            return self.values[x]
        if x.equation is not None:
            out = self.value(x.equation)
        elif x.op == "T":
            out = bl.transpose(self.value(x.args[0]))
        elif x.op == "add" and len(x.args) == 1:
            data: Any = x.data
            out = bl.combine([(data[0], self.value(x.args[0]))])
        elif self.inside(x) or is_remade(x):
            out = getattr(self, "_" + x.op)(x)
        else:
            out = self._kept(x)
        self.values[x] = out
        return out

    def _kept(self, x: Field) -> bl.Block:
        """A value from an earlier step: numbers known then are known now."""
        out = self.memory.load(x, Reads.HERE, self.blank(x))
        known_then = self.templates.get((x, self._kind()))
        if known_then is None:
            return out
        pairs = zip(known_then, out.entries, strict=True)
        return out.like([now if then is None else self._again(then) for then, now in pairs])

    def _again(self, then: Any) -> Any:
        return self.memory.constant(then.place) if isinstance(then, _InTable) else then

    def _kind(self) -> str:
        return "" if self.code is None else str((self.code.kind, self.code.params))

    def remember(self, x: Field, value: bl.Block) -> None:
        """Note which numbers of a stored value are known, for the code of the same joint type."""
        self.templates[x, self._kind()] = [_template(v) for v in value.entries]

    def size(self, s: str) -> int:
        """Block size at this body."""
        if s == "r":
            assert self.code is not None
            return self.code.nv
        return int(s) if s.isdigit() else 1  # one column at a time

    def blank(self, x: Field) -> bl.Block:
        """A block of zeros of the kind in which x is stored."""
        t = x.type
        if t.kind is Kind.INERTIA:
            return bl.Inertia([0] * 10)
        if t.kind is Kind.GYRATION:
            return bl.Gyration([0] * 12)
        if t.kind is Kind.RIGID:
            return bl.Rigid([[0] * 3 for _ in range(3)], [0] * 3)
        if t.kind is Kind.RIGID_T:
            return bl.Transposed(bl.Rigid([[0] * 3 for _ in range(3)], [0] * 3))
        if t.kind is Kind.SYMMETRIC:
            n = self.size(t.rows)
            return bl.Symmetric([0] * (n * (n + 1) // 2), n)
        return bl.zeros(self.size(t.rows), self.size(t.cols))

    def stored_form(self, x: Field, value: bl.Block) -> bl.Block:
        """The value in the kind in which x is stored."""
        blank = self.blank(x)
        if type(blank) is type(value):
            return value
        if isinstance(blank, bl.Symmetric):
            rows = value.dense()
            return bl.Symmetric([rows[i][j] for i in range(blank.n) for j in range(i + 1)], blank.n)
        if isinstance(blank, bl.Dense):
            return bl.Dense(value.dense())
        raise AssertionError(
            f"{x!r} is stored as {type(blank).__name__}, not {type(value).__name__}"
        )

    # -- leaves ------------------------------------------------------------------------------------

    def _zero(self, x: Field) -> bl.Block:
        return self.blank(x)

    def _eye(self, x: Field) -> bl.Block:
        n = self.size(x.type.rows)
        if x.type.kind is Kind.RIGID:
            return bl.Rigid([[int(i == j) for j in range(3)] for i in range(3)], [0] * 3)
        if x.type.kind is Kind.SYMMETRIC:
            return bl.Symmetric([int(i == j) for i in range(n) for j in range(i + 1)], n)
        return bl.Dense([[int(i == j) for j in range(n)] for i in range(n)])

    def _input(self, x: Field) -> bl.Block:
        return self.memory.read_input(x, self.code)

    def _seed(self, x: Field) -> bl.Block:
        return self.memory.seed(x, self.size(x.type.rows))

    def _unit_rate(self, x: Field) -> bl.Block:
        return self.memory.unit(x, self.size("r"))

    def _unit_parameter(self, x: Field) -> bl.Block:
        return self.memory.unit(x, 10)

    def _path_seed(self, x: Field) -> bl.Block:
        return self.memory.path_seed(x, self.size(x.type.rows))

    def _params(self) -> list[Any]:
        assert self.code is not None
        m = self.memory
        return [
            m.constant(tables.PARAMS + i) if p is None else p
            for i, p in enumerate(self.code.params)
        ]

    def _coordinates(self, name: str) -> list[Lane]:
        assert self.code is not None
        count = self.code.nq if name == "q" else self.code.nv
        return [self.memory.coordinate(name, i) for i in range(count)]

    def sin(self, x: Any) -> Any:
        """Sine, for the joint formulas."""
        return self._sincos(x)[0]

    def cos(self, x: Any) -> Any:
        """Cosine, for the joint formulas."""
        return self._sincos(x)[1]

    def sqrt(self, x: Any) -> Any:
        """Square root, for the joint formulas."""
        return self.memory.emitter.intrinsic("sqrt", self.memory.emitter.lift(x))

    def _sincos(self, x: Any) -> tuple[Lane, Lane]:
        key = x.value.name
        if key not in self._trig:
            self._trig[key] = self.memory.sincos(x)
        return self._trig[key]

    def _transform(self, x: Field) -> bl.Block:
        assert self.code is not None
        m = self.memory
        turn, arm = self.code.joint.transform(self._params(), self._coordinates("q"), self)
        place = [[m.constant(3 * i + j) for j in range(3)] for i in range(3)]
        origin = [m.constant(9 + i) for i in range(3)]
        return bl.Rigid(bl.matmul(place, turn), bl.plus(origin, bl.matvec(place, arm)))

    def _joint_transform(self, x: Field) -> bl.Block:
        assert self.code is not None
        turn, arm = self.code.joint.transform(self._params(), self._coordinates("q"), self)
        return bl.Rigid(turn, list(arm))

    def _diag(self, x: Field) -> bl.Block:
        column = self._column(x.args[0])
        n = len(column)
        return bl.Symmetric([column[i] if i == j else 0 for i in range(n) for j in range(i + 1)], n)

    def _against(self, x: Field) -> bl.Block:
        return bl.Dense([[0]] * 3 + [[bl.neg(g)] for g in self._column(x.args[0])])

    def _hinge_axes(self, x: Field) -> bl.Block:
        assert self.code is not None
        return bl.Dense(self.code.joint.hinge_axes(self._params(), self._coordinates("q"), self))

    def _hinge_axes_rate(self, x: Field) -> bl.Block:
        assert self.code is not None
        q, v = self._coordinates("q"), self._coordinates("v")
        return bl.Dense(self.code.joint.hinge_axes_rate(self._params(), q, v, self))

    def _M(self, x: Field) -> bl.Block:
        return bl.Inertia([self.memory.constant(tables.INERTIA + i) for i in range(10)])

    def _Jr(self, x: Field) -> bl.Block:
        n = self.size("r")
        entries = [
            self.memory.constant(tables.ARMATURE + i) if i == j else 0
            for i in range(n)
            for j in range(i + 1)
        ]
        return bl.Symmetric(entries, n)

    def _gravity(self, x: Field) -> bl.Block:
        return bl.Dense([[0], [0], [0]] + [[self.memory.gravity(3 + i)] for i in range(3)])

    def _point_frame(self, x: Field) -> bl.Block:
        m = self.memory
        turn = [[m.point_constant(3 + 3 * i + j) for j in range(3)] for i in range(3)]
        return bl.Rigid(turn, [m.point_constant(i) for i in range(3)])

    def _point_arm(self, x: Field) -> bl.Block:
        turn = [[int(i == j) for j in range(3)] for i in range(3)]
        return bl.Rigid(turn, [self.memory.point_constant(i) for i in range(3)])

    def _world_arm(self, x: Field) -> bl.Block:
        at: Any = x.data
        turn = [[int(i == j) for j in range(3)] for i in range(3)]
        return bl.Rigid(turn, [-float(c) for c in at])

    # -- algebra -----------------------------------------------------------------------------------

    def _mul(self, x: Field) -> bl.Block:
        left, right = self.value(x.args[0]), self.value(x.args[1])
        if x.type.kind is Kind.SYMMETRIC:
            return bl.times_symmetric(left, right)
        return bl.times(left, right)

    def _cong(self, x: Field) -> bl.Block:
        return bl.congruence(self.value(x.args[0]), self.value(x.args[1]))

    def _add(self, x: Field) -> bl.Block:
        return bl.combine([(c, self.value(y)) for c, y in terms_of(x)])

    def _column(self, x: Field) -> list[Any]:
        return [row[0] for row in self.value(x).dense()]

    def _cross(self, x: Field) -> bl.Block:
        v = self._column(x.args[0])
        columns = bl.transpose_rows(self.value(x.args[1]).dense())
        out = []
        for m in columns:
            linear = bl.plus(bl.cross(v[3:], m[:3]), bl.cross(v[:3], m[3:]))
            out.append(bl.cross(v[:3], m[:3]) + linear)
        return bl.Dense(bl.transpose_rows(out))

    def _cross_force(self, x: Field) -> bl.Block:
        v = self._column(x.args[0])
        columns = bl.transpose_rows(self.value(x.args[1]).dense())
        out = []
        for f in columns:
            moment = bl.plus(bl.cross(v[:3], f[:3]), bl.cross(v[3:], f[3:]))
            out.append(moment + bl.cross(v[:3], f[3:]))
        return bl.Dense(bl.transpose_rows(out))

    def _crm(self, x: Field) -> bl.Block:
        v = self._column(x.args[0])
        spin, slide = bl.cross_matrix(v[:3]), bl.cross_matrix(v[3:])
        top = [spin[i] + [0, 0, 0] for i in range(3)]
        return bl.Dense(top + [slide[i] + spin[i] for i in range(3)])

    def _regress(self, x: Field) -> bl.Block:
        """M(π) z by its columns: made in the body's own axes, in which π is, then turned back."""
        turn, z = self.memory.turn(), self._column(x.args[0])
        w, v = bl.matvec(turn, z[:3]), bl.matvec(turn, z[3:])
        zero = [0, 0, 0]
        moments = [
            [w[0], 0, 0], [0, w[1], 0], [0, 0, w[2]],
            [w[1], w[0], 0], [w[2], 0, w[0]], [0, w[2], w[1]],
        ]  # fmt: skip
        arms = zip(bl.cross_matrix(v), bl.cross_matrix(w), strict=True)
        columns = [(zero, v)]
        columns += [(a, [bl.neg(c) for c in b]) for a, b in arms]  # −v~ and w~ by columns
        columns += [(m, zero) for m in moments]
        back = bl.transpose_rows(turn)
        turned = [bl.matvec(back, top) + bl.matvec(back, low) for top, low in columns]
        return bl.Dense(bl.transpose_rows(turned))

    def _spin(self, x: Field) -> bl.Block:
        spin = bl.cross_matrix(self._column(x.args[0])[:3])
        top = [spin[i] + [0, 0, 0] for i in range(3)]
        return bl.Dense(top + [[0, 0, 0, *spin[i]] for i in range(3)])

    def _gauge(self, x: Field) -> bl.Block:
        v = self._column(x.args[0])
        return bl.Dense([[0]] * 3 + [[c] for c in bl.cross(v[:3], v[3:])])

    def _rotation(self, x: Field) -> bl.Block:
        return bl.Rigid(self._rigid(x.args[0]).turn, [0, 0, 0])

    def _rigid(self, x: Field) -> bl.Rigid:
        value = self.value(x)
        assert isinstance(value, bl.Rigid)
        return value

    def _rigid_inverse(self, x: Field) -> bl.Block:
        w = self._rigid(x.args[0])
        back = bl.transpose_rows(w.turn)
        return bl.Rigid(back, [bl.neg(c) for c in bl.matvec(back, w.arm)])

    def _pose_matrix(self, x: Field) -> bl.Block:
        w = self._rigid(x.args[0])
        return bl.Dense([[*w.turn[i], w.arm[i]] for i in range(3)] + [[0, 0, 0, 1]])

    def _rigid_of_pose(self, x: Field) -> bl.Block:
        rows = self.value(x.args[0]).dense()
        return bl.Rigid([r[:3] for r in rows[:3]], [r[3] for r in rows[:3]])

    # -- inverses ----------------------------------------------------------------------------------

    def _hinge_scale(self, x: Field) -> bl.Block:
        e = self.memory.emitter
        p, axes = self.value(x.args[0]).dense(), self.value(x.args[1]).dense()
        largest = []
        for start in (0, 3):
            out: Any = None
            for i in range(start, start + 3):
                size = e.intrinsic("fabs", e.lift(p[i][i]))
                out = size if out is None else e.intrinsic("maxnum", out, size)
            if x.data is None:
                least = self.memory.constant(tables.SIZES + start // 3)
                out = e.intrinsic("maxnum", out, least)
            largest.append(out)
        scale = []
        for column in bl.transpose_rows(axes):
            turn, slide = bl.dot(column[:3], column[:3]), bl.dot(column[3:], column[3:])
            scale.append([bl.add(bl.mul(turn, largest[0]), bl.mul(slide, largest[1]))])
        return bl.Dense(scale)

    def _inv(self, x: Field) -> bl.Block:
        e = self.memory.emitter
        how = x.data[0]  # type: ignore[index]
        a = self.value(x.args[0]).dense()
        if not a:
            return self.value(x.args[0])
        if how == "definite":
            scale = self._column(x.args[1]) if len(x.args) > 1 else None
            out, bad = solve.inverse_definite(e, a, scale)
            self.memory.fail(bad, HINGE)
            return out
        general, bad = solve.inverse_general(e, a)
        self.memory.fail(bad, BLOCK)
        return general

    def _chol(self, x: Field) -> bl.Block:
        out, bad = solve.cholesky(self.memory.emitter, self.value(x.args[0]).dense())
        self.memory.fail(bad, HINGE)
        return out

    def _logdet(self, x: Field) -> bl.Block:
        m = self.memory
        _, d = solve.factor(self.value(x.args[0]).dense())
        out: Any = 0
        for pivot in d:
            out = bl.add(out, m.log(m.emitter.lift(pivot)))
        return bl.Dense([[out]])

    # -- neighbours and other index sets -----------------------------------------------------------

    def _up(self, x: Field) -> bl.Block:
        return self.memory.load(x, Reads.CHILDREN, self.blank(x))

    def _down(self, x: Field) -> bl.Block:
        y = x.args[0]
        if root(y).op == "zero":
            out = self.blank(x)
        else:
            out = self._view(y, lambda r: self.memory.load(r, Reads.PARENT, self.blank(r)))
        if x.data == "local":
            return self.memory.off_hubs(out)
        if len(x.args) == 1:
            return out
        return self.memory.at_root(self.value(x.args[1]), out)

    def _gather(self, x: Field) -> bl.Block:
        return self._view(
            x.args[0], lambda r: self.memory.load(r, x.operation.reads, self.blank(r))
        )

    _of_mate = _of_point = _of_row = _gather

    def _view(self, y: Field, load: Callable[[Field], bl.Block]) -> bl.Block:
        """y read elsewhere: through equations, transposes and negatives to what is stored."""
        if y.equation is not None:
            return self._view(y.equation, load)
        if y.op == "T":
            return bl.transpose(self._view(y.args[0], load))
        if y.op == "add" and len(y.args) == 1:
            data: Any = y.data
            return bl.combine([(data[0], self._view(y.args[0], load))])
        return load(y)

    def _spread(self, x: Field) -> bl.Block:
        return self.value(x.args[0])
