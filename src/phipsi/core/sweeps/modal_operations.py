"""The operations of bodies with modes: rows of the table in `operations.py`, and how bodies change.

Blocks have 6 + n rows ("b"), those of the parent 6 + m ("B"). What crosses a port reads X_J of the
joint and modal rows of the parent. `modal_bodies.py` has the bodies of operations at a
configuration; here are those that say how it changes, written once for every backend.

The port that joint k sits on moves with the modes of the parent: E_φ(p, k) = F(η) X_J with
F = [X_c; Π*], (6 + m) × 6, in the six rigid columns. M(k) depends on the modes of the body itself.
F is rational in η, and dual numbers differentiate it; M is a polynomial. Directions are body
motions; their modal rows are rates of modes. Formulas: docs/theory/flexible-bodies.md, section 6.

Reasons: docs/decisions/0054.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

from phipsi.core.model import Dual, compound_of, compound_port_of, rate_of, rate_rows_of
from phipsi.core.sweeps import kernels, modal_bodies
from phipsi.core.sweeps.arithmetic import Arithmetic, Block
from phipsi.core.sweeps.entries import (
    Entry,
    Rows,
    add,
    cross,
    cross_matrix,
    dot,
    full,
    identity,
    is_zero,
    lower_half,
    matmul,
    matvec,
    minus,
    mul,
    transpose_rows,
    with_each,
)
from phipsi.core.sweeps.ir import (
    EACH,
    Body,
    Cost,
    Domain,
    Field,
    Keep,
    Kind,
    Naming,
    Operation,
    Variant,
)
from phipsi.core.sweeps.modal_bodies import (
    FlexibleBody,
    MovingPort,
    add_along,
    lower_entries,
    modes_of,
    own_modes,
    port_modes_of,
    port_numbers,
    rows_of,
    with_unit_rows,
)

Directions = Sequence[Sequence[Entry]]


def _moving(eta: Sequence[Entry], directions: Directions) -> list[Entry]:
    """Modal coordinates that move along the directions, one after the other."""
    out = list(eta)
    for direction in directions:
        out = [Dual(x, rate) for x, rate in zip(out, direction, strict=True)]
    return out


def _rate(x: Entry, count: int) -> Entry:
    """The change of a number along all directions."""
    for _ in range(count):
        x = rate_of(x)
    return x


def _on_ports(body: Body) -> Body:
    """The body of an operation that is zero where no mode of the parent moves the port."""

    @wraps(body)
    def whole(a: Arithmetic, x: Field) -> Block:
        return body(a, x) if port_modes_of(a.joint) else a.zeros(x)

    return whole


# ---- inertia -------------------------------------------------------------------------------------


def _inertia_along(a: Arithmetic, directions: Directions) -> list[Entry]:
    """The lower half of Ṁ{…}; M is of second degree in η, C and S of the first."""
    formulas = rate_rows_of(a.joint) or compound_of(a.joint)
    if formulas is not None:
        return formulas.inertia_along(a, directions)
    n = modes_of(a.joint)
    moment: Rows = [[0, 0, 0] for _ in range(3)]
    first: list[Entry] = [0, 0, 0]
    turns: Rows = [[0, 0, 0] for _ in range(n)]
    moves: Rows = [[0, 0, 0] for _ in range(n)]
    body = FlexibleBody(a) if n else None
    if body is not None and len(directions) == 1:
        (along,) = directions
        slopes, steps = body.moment_slopes, own_modes(a, "q")
        for i, rate in enumerate(along):
            if not is_zero(rate):
                found = slopes(steps, (i,))[0]
                moment = [add_along(moment[r], [found[r]], [rate]) for r in range(3)]
                first = add_along(first, [add_along(body.S1[i], body.S2[i], steps)], [rate])
        turns = [add_along(turns[j], body.C1[j], along) for j in range(n)]
        moves = [add_along(moves[j], body.S2[j], along) for j in range(n)]
    elif body is not None and len(directions) == 2:
        for i, x in enumerate(directions[0]):
            for j, y in enumerate(directions[1]):
                both = mul(x, y)
                if not is_zero(both):
                    second = body.J2[i][j]
                    moment = [add_along(moment[r], [second[r]], [both]) for r in range(3)]
                    first = add_along(first, [body.S2[i][j]], [both])
    return lower_entries(moment, first, 0, turns, moves, [[0] * n for _ in range(n)])


def _modal_rows(a: Arithmetic, fields: Sequence[Field]) -> list[list[Entry]]:
    return [a.column(y)[6:] for y in fields]


def inertia_along(a: Arithmetic, x: Field) -> Block:
    """Ṁ{s; …}."""
    return a.symmetric(_inertia_along(a, _modal_rows(a, x.args)), 6 + rows_of(a.joint))


def _inertia_along_each(a: Arithmetic, x: Field) -> list[Rows]:
    n = rows_of(a.joint)
    every = with_each(_modal_rows(a, x.args[1:]), x.data, identity(n))
    return [full(_inertia_along(a, directions), 6 + n) for directions in every]


def dM(a: Arithmetic, x: Field) -> Block:
    """s ↦ Ṁ{s} y: a column for each mode, zeros for rigid motions."""
    n, y = rows_of(a.joint), a.column(x.args[0])
    columns = [matvec(rows, y) for rows in _inertia_along_each(a, x)]
    return a.dense([[*[0] * 6, *(c[i] for c in columns)] for i in range(6 + n)], 6 + n)


def ddM(a: Arithmetic, x: Field) -> Block:
    """x* Ṁ{s; w; …} y by s and w, zeros for rigid motions.

    Of flexible bodies J_2 and S_2 are all that is left, and no direction more may be given.
    """
    n = rows_of(a.joint)
    lower: list[Entry] = [0] * 21
    y, z, *given = (a.column(u) for u in x.args)
    formulas = rate_rows_of(a.joint) or compound_of(a.joint)
    if formulas is not None:
        lower = formulas.second(a, [u[6:] for u in given], y, z)
    elif given:
        lower += [0] * ((6 + n) * (7 + n) // 2 - 21)
    elif n:
        body = FlexibleBody(a)
        lever = minus(cross(y[3:6], z[:3]), cross(y[:3], z[3:6]))
        for i in range(n):
            lower += [0] * 6
            for j in range(i + 1):
                turning = dot(z[:3], matvec(body.J2[i][j], y[:3]))
                lower.append(add(turning, dot(body.S2[i][j], lever)))
    return a.symmetric(lower, 6 + n)


def dM_trace(a: Arithmetic, x: Field) -> Block:
    """tr(Ṁ{s} Z) for each mode, zeros for rigid motions."""
    z = [e for row in transpose_rows(a.rows(x.args[0])) for e in row]
    found = [dot([e for row in rows for e in row], z) for rows in _inertia_along_each(a, x)]
    return a.dense([[e] for e in (*[0] * 6, *found)], 1)


# ---- the port that a joint sits on ---------------------------------------------------------------


def _port_along(a: Arithmetic, directions: Directions) -> Rows:
    """F = [X_c; Π*] along rates of the modes of the parent."""
    compound = compound_port_of(a.joint)
    if compound is not None:
        return compound.along(a, port_numbers(a), a.parent_modes("q"), directions)
    port = MovingPort(a, _moving(a.parent_modes("q"), directions))
    arm = matmul(cross_matrix(port.origin), port.turn)
    rows = [[*port.turn[i], *arm[i]] for i in range(3)]
    rows += [[0, 0, 0, *port.turn[i]] for i in range(3)]
    return [[_rate(x, len(directions)) for x in row] for row in (*rows, *port.motions())]


def _port_along_each(a: Arithmetic, x: Field) -> list[Rows]:
    """F along the given directions and along each mode of the parent; x = (X_J, y, directions)."""
    units = identity(port_modes_of(a.joint))
    every = with_each(_modal_rows(a, x.args[2:]), x.data, units)
    return [_port_along(a, directions) for directions in every]


@_on_ports
def step_along(a: Arithmetic, x: Field) -> Block:
    """Ė{s; …}: of X_J and directions of the parent, (6 + m) × (6 + n)."""
    n = rows_of(a.joint)
    moved = a.dense(_port_along(a, _modal_rows(a, x.args[1:])), 6)
    rows = a.entries(a.times(moved, a.value(x.args[0])))
    return a.dense([[*row, *[0] * n] for row in rows], 6 + n)


@_on_ports
def dE(a: Arithmetic, x: Field) -> Block:
    """s ↦ Ė{s} f at the parent, of X_J and f: (6 + m) × (6 + m)."""
    m = port_modes_of(a.joint)
    force = a.dense([[e] for e in a.column(x.args[1])[:6]], 1)
    carried = [row[0] for row in a.entries(a.times(a.value(x.args[0]), force))]
    columns = [matvec(rows, carried) for rows in _port_along_each(a, x)]
    return a.dense([[*[0] * 6, *(c[i] for c in columns)] for i in range(6 + m)], 6 + m)


@_on_ports
def dET(a: Arithmetic, x: Field) -> Block:
    """s ↦ Ė{s}* y from the parent, of X_J and y of the parent: (6 + n) × (6 + m)."""
    n, m = rows_of(a.joint), port_modes_of(a.joint)
    y = a.column(x.args[1])
    columns = [matvec(transpose_rows(rows), y) for rows in _port_along_each(a, x)]
    inner = a.transpose(a.value(x.args[0]))
    carried = a.entries(a.times(inner, a.dense(transpose_rows(columns), m)))
    rows = [[*[0] * 6, *row] for row in carried]
    return a.dense([*rows, *([0] * (6 + m) for _ in range(n))], 6 + m)


@_on_ports
def dE_trace(a: Arithmetic, x: Field) -> Block:
    """tr(Ė{s} Y) for each mode of the parent, of X_J and Y from the parent to here."""
    weight = a.dense(a.rows(x.args[1])[:6], 6 + port_modes_of(a.joint))
    carried = a.entries(a.times(a.value(x.args[0]), weight))
    z = [e for row in transpose_rows(carried) for e in row]
    found = [dot([e for row in rows for e in row], z) for rows in _port_along_each(a, x)]
    return a.dense([[e] for e in (*[0] * 6, *found)], 1)


# ---- six rows of a formula for rigid bodies, and zeros ------------------------------------------


def hinge_along(a: Arithmetic, x: Field) -> Block:
    """H* differentiated along the arguments; modal rows do not change."""
    return with_unit_rows(a, a.entries(kernels.hinge_along(a, x)), 0)


def dHT(a: Arithmetic, x: Field) -> Block:
    """How H* w changes with each rate; modal rows do not."""
    return with_unit_rows(a, a.entries(kernels.dHT(a, x)), 0)


def crm(a: Arithmetic, x: Field) -> Block:
    """V × of the rigid rows."""
    return _square(a, kernels.crm(a, x))


def crq(a: Arithmetic, x: Field) -> Block:
    """V ↦ V ×* f of the rigid rows."""
    return _square(a, kernels.crq(a, x))


def _square(a: Arithmetic, block: Block) -> Block:
    n = rows_of(a.joint)
    rows = [[*row, *[0] * n] for row in a.entries(block)]
    return a.dense([*rows, *([0] * (6 + n) for _ in range(n))], 6 + n)


def vee(a: Arithmetic, x: Field) -> Block:
    """tr(cross(s) X) by s, of the rigid rows."""
    return _column(a, kernels.vee(a, x))


def vee_force(a: Arithmetic, x: Field) -> Block:
    """tr(cross_force(f) X) by f, of the rigid rows."""
    return _column(a, kernels.vee_force(a, x))


def _column(a: Arithmetic, block: Block) -> Block:
    return a.dense([*a.entries(block), *([0] for _ in range(rows_of(a.joint)))], 1)


# ---- inertial parameters of the undeformed body: m, s_0 and J_0 of M(η) -------------------------


def regress(a: Arithmetic, x: Field) -> Block:
    """M(π) z by its columns; modal rows do not depend on π."""
    rows = a.entries(kernels.regress(a, x))
    return a.dense([*rows, *([0] * 10 for _ in range(modes_of(a.joint)))])


def inertia_of(a: Arithmetic, x: Field) -> Block:
    """M(π), zeros for modes."""
    n = modes_of(a.joint)
    lower = lower_half(a.entries(kernels.inertia_of(a, x)))
    for i in range(n):
        lower += [0] * (7 + i)
    return a.symmetric(lower, 6 + n)


def rows_of_modes(a: Arithmetic, x: Field) -> Block:
    """[0 0; 0 I]: efforts of modes as modal rows; rate rows have none."""
    one = int(rate_rows_of(a.joint) is None)
    return with_unit_rows(a, [[0] * a.joint.nv for _ in range(6)], one)


# ---- rows of the table ---------------------------------------------------------------------------


def _modal(
    name: str, meaning: str, body: Any, rows: str, cols: str, form: str, latex: str = "",
    cost: Cost | int = 0, **more: Any,
) -> None:  # fmt: skip
    """An operation of mechanisms with flexible bodies."""
    Operation(
        name, meaning, body=body, rows=rows, cols=cols, form=form, latex=latex or form, cost=cost,
        domain=Domain.BODY, variant=Variant.JOINT, modal=name, **more,
    )  # fmt: skip


# fmt: off
_SQUARE: dict[str, Any] = {"keep": Keep.AGAIN, "naming": Naming.INLINE, "kind": Kind.SYMMETRIC}
_modal("rigid_rows", "the six rigid rows of a body", modal_bodies.rigid_rows, "b", "6", "I₆",
       "I_6", keep=Keep.KNOWN, naming=Naming.INLINE)
_modal("modal_hinge_axes", "H* with modal rows", modal_bodies.hinge_axes, "b", "r", "H*({at})",
       "H^{*}({at})", keep=Keep.KNOWN, naming=Naming.INLINE, starred=("H({at})", "H({at})"))
_modal("modal_hinge_rate", "Ḣ* with modal rows", modal_bodies.hinge_axes_rate, "b", "r",
       "Ḣ*({at})", r"\dot{H}^{*}({at})", naming=Naming.INLINE,
       starred=("Ḣ({at})", r"\dot{H}({at})"))
_modal("modal_inertia", "M(η)", modal_bodies.inertia, "b", "b", "M({at})", kind=Kind.SYMMETRIC,
       cost=lambda x, size: 15 * size("m") ** 2)
_modal("gyroscopic", "b with elastic forces", modal_bodies.gyroscopic, "b", "1", "b({...})",
       cost=lambda x, size: 100 + 25 * size("m") ** 2)
_modal("modal_bias", "a of a body on a port", modal_bodies.bias, "b", "1", "a({...})",
       cost=lambda x, size: 150 + 20 * size("m") ** 2)
_modal("modal_step", "E_φ(parent, k) with modal rows", modal_bodies.step, "B", "b", "φ{pair}",
       r"\phi{pair}", naming=Naming.INLINE, kind=Kind.STEP, cost=lambda x, size: 15 * size("m"))
_modal("port_transform", "φ(parent, port)", modal_bodies.port_transform, "6", "6", "port({at})",
       r"\operatorname{port}({at})", kind=Kind.RIGID, cost=lambda x, size: 60 + 15 * size("m"))
_modal("port_motion", "Π: how modes move a port", modal_bodies.port_motion, "6", "m", "Π({at})",
       r"\Pi({at})", cost=lambda x, size: 40 * size("m"))
_modal("modal_coordinates", "η", modal_bodies.coordinates, "r", "1", "η({at})", r"\eta({at})",
       naming=Naming.INLINE)
_modal("modal", "the identity on modes", modal_bodies.selection, "r", "r", "modal({at})", **_SQUARE)
_modal("K_e", "stiffness of the modes", modal_bodies.elastic, "r", "r", "K_e({at})", **_SQUARE)
_modal("C_e", "damping of the modes", modal_bodies.elastic, "r", "r", "C_e({at})", **_SQUARE)
# fmt: on

# ---- how they change -----------------------------------------------------------------------------


def _call(name: str, latex: str) -> tuple[str, str]:
    return f"{name}({{...}})", rf"{latex}({{...}})"


# fmt: off
_modal("inertia_along", "M(η) along modes", inertia_along, "b", "b",
       *_call("Ṁ", r"\dot{M}"), kind=Kind.SYMMETRIC, linear=EACH,
       cost=lambda x, size: 10 * size("m") ** 2)
_modal("dM", "how M y changes with each mode", dM, "b", "b",
       *_call("dM", r"\delta M"), linear=EACH, cost=lambda x, size: 20 * size("m") ** 2)
_modal("ddM", "how x* Ṁ{s} y changes with each mode", ddM, "b", "b",
       *_call("ddM", r"\delta^2 M"), kind=Kind.SYMMETRIC, linear=(0, 1),
       cost=lambda x, size: 20 * size("m") ** 2)
_modal("dM_trace", "how tr(M Z) changes with each mode", dM_trace, "b", "1",
       *_call("dM_trace", r"\operatorname{\delta M_{tr}}"), linear=EACH,
       cost=lambda x, size: 20 * size("m") ** 2)
_modal("step_along", "E_φ along modes of the parent", step_along, "B", "b",
       *_call("Ė", r"\dot{\mathcal{E}}_{\phi}"), linear=EACH[1:],
       cost=lambda x, size: 150 + 100 * size("m"))
_modal("dE", "how E_φ f changes with each mode of the parent", dE, "B", "B",
       *_call("dE", r"\delta \mathcal{E}_{\phi}"), linear=EACH[1:],
       cost=lambda x, size: 200 * size("m") + 80 * size("m") ** 2)
_modal("dET", "how E_φ* y changes with each mode of the parent", dET, "b", "B",
       *_call("dET", r"\delta \mathcal{E}_{\phi}^{*}"), linear=EACH[1:],
       cost=lambda x, size: 200 * size("m") + 80 * size("m") ** 2)
_modal("dE_trace", "how tr(E_φ Y) changes with each mode of the parent", dE_trace,
       "B", "1", *_call("dE_trace", r"\operatorname{\delta E_{tr}}"), linear=EACH[1:],
       cost=lambda x, size: 200 * size("m") + 80 * size("m") ** 2)
_modal("modal_hinge_along", "H* along rates, with modal rows", hinge_along, "b", "r",
       *_call("Ḣ*", r"\dot{H}^{*}"), linear=EACH)
_modal("modal_dHT", "how H* w changes with the rates, with modal rows", dHT, "b", "r",
       *_call("dHT", r"\delta H^{*}"), linear=EACH)
_modal("modal_crm", "V × of the rigid rows, with modal rows", crm, "b", "b",
       *_call("rigid_cross", r"\operatorname{cross_{r}}"), linear=(0,))
_modal("modal_crq", "V ↦ V ×* f of the rigid rows, with modal rows", crq, "b", "b",
       *_call("rigid_cross_force", r"\operatorname{cross_{rf}}"), linear=(0,))
_modal("modal_vee", "tr(rigid_cross(u) X) by u, with modal rows", vee, "b", "1",
       *_call("rigid_vee", r"\operatorname{vee_{r}}"), linear=(0,))
_modal("modal_vee_force", "tr(rigid_cross_force(u) X) by u, with modal rows",
       vee_force, "b", "1", *_call("rigid_vee_force", r"\operatorname{vee_{rf}}"),
       linear=(0,))
_modal("modal_regress", "π ↦ M(π) z, with modal rows", regress, "b", "10",
       *_call("regress", r"\operatorname{regress}"), linear=(0,))
_modal("modal_inertia_of", "M(π), with modal rows", inertia_of, "b", "b",
       *_call("inertia_of", r"\operatorname{M_{\pi}}"), kind=Kind.SYMMETRIC, linear=(0,))
_modal("modal_inertia_trace", "tr(M(π) X) by π, of the rigid rows", kernels.inertia_trace, "10",
       "1", *_call("inertia_trace", r"\operatorname{M_{tr}}"), linear=(0,))
_modal("modal_rows", "efforts of modes as rows of forces", rows_of_modes, "b", "r",
       "modal_rows", r"\mathrm{rows}_{\eta}", keep=Keep.KNOWN, naming=Naming.INLINE)
# fmt: on
