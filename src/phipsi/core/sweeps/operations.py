"""The operations of the intermediate form: one row each, and nothing about them anywhere else.

A row has the arguments and the loop of an operation, its result and the arguments in which it is
linear, whether its value is kept or computed again, its cost, its printed form, and its body
(`Operation` explains the columns). The builder, the schedule, the buffers, the printed recursion
and the backends ask the row. Those at closures are in `closure_operations.py`, those of bodies with
modes in `modal_operations.py`; features bring rows of their own (`core/extensions.py`).

Printed forms name arguments by number: {0} is the first one, {0*} its transpose, {0^} its inverse,
{0~} the same without brackets, {0@c} the one at c, {...} all of them; {at} is the place and {pair}
the step from it to its parent.

Reasons: docs/decisions/0033.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from phipsi.core.operators import CATALOGUE
from phipsi.core.sweeps import closure_operations, kernels, modal_operations
from phipsi.core.sweeps.ir import (
    EACH,
    Binding,
    Domain,
    Field,
    Keep,
    Kind,
    Loop,
    Naming,
    Operation,
    Reads,
    Size,
    Variant,
    parts_of,
    terms_of,
)

MORE_ROWS = (closure_operations, modal_operations)
"""Modules with more rows of the table: they are entered by the import."""


def operation(name: str) -> Operation:
    """The row of an operation."""
    return Operation.named(name)


_RIGID = (Kind.RIGID, Kind.RIGID_T)

# ---- cost --------------------------------------------------------------------------------------


def flops(x: Field, r: int, columns: int = 1) -> int:
    """Floating-point operations to evaluate a field at one body with an r-dof hinge."""
    return flops_of_size(x, block_sizes(r, columns))


def flops_of_size(x: Field, size: Size) -> int:
    """Floating-point operations to evaluate a field at one body whose blocks have these sizes."""
    cost = x.operation.cost
    return cost if isinstance(cost, int) else cost(x, size)


def entries(x: Field, r: int, columns: int = 1) -> int:
    """Numbers of the block of a field at one body with an r-dof hinge."""
    return _entries(x, block_sizes(r, columns))


@lru_cache(maxsize=1024)
def block_sizes(r: int, columns: int) -> Size:
    """The sizes of blocks at such a body, by the words of their types."""
    modes = max(r - 1, 0)  # as of one-dof hinges
    known = {"r": r, "q": r, "b": 5 + max(r, 1), "B": 5 + max(r, 1), "m": modes}
    return _SizeOfWord(known, columns).__getitem__


class _SizeOfWord(dict[str, int]):
    """Sizes by their words: numbers are themselves, and all others are those of columns."""

    def __init__(self, known: dict[str, int], columns: int) -> None:
        super().__init__(known)
        self._columns = columns

    def __missing__(self, word: str) -> int:
        self[word] = found = int(word) if word.isdigit() else self._columns
        return found


def _entries(x: Field, size: Size) -> int:
    """One operation for each number of a block."""
    rows, cols = size(x.type.rows), size(x.type.cols)
    if x.type.kind is Kind.TURNING:
        return 3 * rows
    return rows * (rows + 1) // 2 if x.type.kind is Kind.SYMMETRIC else rows * cols


def _product_cost(x: Field, size: Size) -> int:
    left = x.args[0].type
    rows, inner, cols = size(x.type.rows), size(left.cols), size(x.type.cols)
    if x.type.kind is Kind.TURNING:
        cols, inner = 3, 3 if x.args[1].type.kind is Kind.RIGID_T else inner
    if left.kind in (*_RIGID, Kind.INERTIA):
        return 42 * cols
    if _is_step(x.args[0]):
        return (42 + 12 * size("m")) * cols
    whole = rows * cols * (2 * inner - 1)
    return whole * (rows + 1) // (2 * rows) if x.type.kind is Kind.SYMMETRIC and rows else whole


def _is_step(x: Field) -> bool:
    """True for E_φ with modal rows, and for its transpose."""
    return (x.args[0] if x.op == "T" else x).type.kind is Kind.STEP


def _congruence_cost(x: Field, size: Size) -> int:
    left = x.args[0].type
    if left.kind in _RIGID:
        return {Kind.INERTIA: 90, Kind.GYRATION: 130}.get(x.type.kind, 258)
    if left.kind is Kind.STEP:  # rigid rows; S Q, moved; Q* S Q
        m = size("m")
        return 258 + 78 * m + 11 * m * (m + 1) // 2
    rows, inner = size(x.type.rows), size(left.cols)
    return rows * inner * (2 * inner - 1) + rows * (rows + 1) // 2 * (2 * inner - 1)


def _sum_cost(x: Field, size: Size) -> int:
    entries = 10 if x.type.kind is Kind.INERTIA else _entries(x, size)
    data: Any = x.data
    return entries * (len(x.args) - 1 + sum(abs(c) != 1 for c in data))


def _inverse_cost(x: Field, size: Size) -> int:
    return size(x.type.rows) ** 3


def _factor_cost(x: Field, size: Size) -> int:
    return max(1, size(x.type.rows) ** 3 // 3)


def _formula_cost(x: Field, size: Size) -> int:
    formula: Any = x.data
    return formula.flops(size("r"))


def _cross_cost(x: Field, size: Size) -> int:
    return 27 * size(x.type.cols)


# ---- printed forms -------------------------------------------------------------------------------


def _call(name: str, latex: str = "") -> dict[str, Any]:
    return {"form": f"{name}({{...}})", "latex": f"{latex or _upright(name)}({{...}})"}


def _upright(name: str) -> str:
    return rf"\operatorname{{{name}}}"


def _sum_form(to: Any, x: Field, at: str) -> str:
    out = ""
    minus = "-" if to.latex else "−"
    for c, y in sorted(terms_of(x), key=lambda t: t[0] < 0):
        text = to.tight(y, at) if abs(c) == 1 else f"{abs(c)} {to.tight(y, at)}"
        if out:
            out += f" {minus} {text}" if c < 0 else f" + {text}"
        else:
            out = f"{minus}{text}" if c < 0 else text
    return out


def _parent_form(to: Any, x: Field, at: str) -> str:
    if x.args[0].op == "zero":
        return r"\bar{g} \text{ (roots)}" if to.latex else "[0; −g] (roots only)"
    before = to.tight(x.args[0], "p")
    if len(x.args) == 2:
        to.at_roots[before] = to.text(x.args[1], "p")
    return before


def _seed_form(to: Any, x: Field, at: str) -> str:
    """The identity, or B of the point, at the body where the path starts."""
    start = to.tight(x.args[0], "j") if x.args else "I"
    return rf"{start}|_{{{at}=j}}" if to.latex else f"{start}[{at} = j]"


def _pair_form(to: Any, x: Field, at: str) -> str:
    left, middle, right = x.args
    ends = f"{to.star(left, 'c')} {to.tight(middle, 'c')}".replace("c,j", "c,i")
    return f"{ends} {to.tight(right, 'c')}"


def _gram_form(to: Any, x: Field, at: str) -> str:
    sign = r"\sum_{k}" if to.latex else "Σ_k"
    left = to.star(x.args[0], "k").replace("k,j", "k,i")
    return f"{sign} {left} {to.tight(x.args[1], 'k')}"


def _matrix_form(to: Any, x: Field, at: str) -> str:
    """All blocks: (k, k) of the diagonal parts, (k, j) and (j, k) of the paths."""
    places = {"diagonal": "(k,k)", "path": "(k,j)", "path of adjoint": "(j,k)"}
    parts: list[str] = []
    for part, y in parts_of(x):
        text = to.star(y, "k") if part.how == "path of adjoint" else to.tight(y, "k")
        factor = "" if part.coefficient == 1 else f"{part.coefficient} "
        parts.append(f"{places.get(part.how, '(i,j)')}: {factor}{text}")
    return (r"\text{blocks } " if to.latex else "blocks  ") + ";  ".join(parts)


def _input_form(to: Any, x: Field, at: str) -> str:
    row = CATALOGUE.get(str(x.data))
    name = str(x.data) if row is None else row.latex if to.latex else row.symbol
    return f"{name}({at})"


def _table_form(to: Any, x: Field, at: str) -> str:
    table: Any = x.data
    name, power = table.latex if to.latex else table.symbol, table.power[to.latex]
    return name + power if x.type.domain is Domain.WORLD else f"{name}{power}({at})"


def _formula_form(to: Any, x: Field, at: str) -> str:
    formula: Any = x.data
    inside = ", ".join(to.text(y, at) for y in x.args)
    return f"{formula.latex if to.latex else formula.name}({inside})"


def _selection_form(to: Any, x: Field, at: str) -> str:
    return f"select_{x.data}({at})"


# ---- leaves: inputs and constants ---------------------------------------------------------------

_LEAF: dict[str, Any] = {"keep": Keep.AGAIN, "naming": Naming.INLINE}
_BODY6: dict[str, Any] = {"domain": Domain.BODY, "rows": "6", "cols": "6"}
_POINT6: dict[str, Any] = {"domain": Domain.POINT, "rows": "6", "cols": "6"}

Operation("input", "an input of the program", **_LEAF, form=_input_form)
Operation("zero", "the block of zeros", body=kernels.zero, **_LEAF, form="0")
Operation("eye", "the identity", body=kernels.eye, **_LEAF, form="I")
Operation("seed", "columns of the identity of a space", **_LEAF, form="I({at})")
Operation(
    "path_seed", "the value of a column where its path starts", **_LEAF, domain=Domain.BODY,
    reads=Reads.SEED, form=_seed_form,
)  # fmt: skip
Operation(
    "M", "inertia", **_BODY6, **_LEAF, kind=Kind.INERTIA, form="M({at})", modal="modal_inertia"
)
Operation(
    "Jr", "rotor inertia", **_LEAF, domain=Domain.BODY, rows="r", cols="r", kind=Kind.SYMMETRIC,
    form="Jr({at})", latex="J_r({at})",
)  # fmt: skip
Operation("table", "constant blocks of a custom operator", **_LEAF, form=_table_form)
Operation(
    "gravity", "[0; −g]", **_LEAF, domain=Domain.WORLD, rows="6", cols="1", form="[0; −g]",
    latex=r"\bar{g}",
)  # fmt: skip
Operation(
    "point_frame", "φ from the frame of a point to its body", body=kernels.point_frame, **_POINT6,
    **_LEAF, kind=Kind.RIGID, form="B({at})",
)  # fmt: skip
Operation(
    "point_arm", "φ from a point to its body, in the axes of the body", body=kernels.point_arm,
    **_POINT6, **_LEAF, kind=Kind.RIGID, form="φ(k,{at})", latex=r"\phi(k,{at})",
)  # fmt: skip
Operation(
    "world_arm", "φ from the origin of the world to a place", body=kernels.world_arm, **_LEAF,
    domain=Domain.WORLD, rows="6", cols="6", kind=Kind.RIGID,
)  # fmt: skip
Operation(
    "angular", "the projection on the angular part", body=kernels.angular, **_BODY6, **_LEAF,
    kind=Kind.SYMMETRIC,
)  # fmt: skip
Operation(
    "unit_rate", "one unit vector of joint rates", domain=Domain.BODY, rows="r", cols="1",
    keep=Keep.AGAIN,
)  # fmt: skip
Operation(
    "unit_parameter", "one unit vector of inertial parameters", domain=Domain.BODY, rows="10",
    cols="1", keep=Keep.AGAIN,
)  # fmt: skip
Operation(
    "selected", "the identity at the points of a selection", **_POINT6, kind=Kind.SYMMETRIC,
    keep=Keep.AGAIN, form=_selection_form,
)  # fmt: skip
Operation(
    "transform", "φ(parent, k), from the placement and the motion of a joint",
    body=kernels.transform, **_BODY6, kind=Kind.RIGID, variant=Variant.JOINT, cost=2 * 8 + 45,
    naming=Naming.INLINE, form="φ{pair}", latex=r"\phi{pair}",
)  # fmt: skip
Operation(
    "joint_transform", "the motion of a joint", body=kernels.joint_transform, **_BODY6,
    kind=Kind.RIGID, variant=Variant.JOINT, form="joint({at})",
)  # fmt: skip
Operation(
    "joint_coordinates", "the coordinates of a joint with q̇ = v", body=kernels.coordinates,
    domain=Domain.BODY, rows="r", cols="1", cost=0, variant=Variant.JOINT, naming=Naming.INLINE,
    form="q({at})",
)  # fmt: skip
Operation(
    "moved_joint", "the coordinates of a joint after unit time at its rates", body=kernels.moved,
    domain=Domain.BODY, rows="q", cols="1", cost=20, variant=Variant.JOINT, naming=Naming.INLINE,
    form="q({at}) ∘ exp v({at})", latex=r"q({at}) \circ \exp v({at})",
)  # fmt: skip
Operation(
    "hinge_axes", "H*", body=kernels.hinge_axes, domain=Domain.BODY, rows="6", cols="r",
    keep=Keep.KNOWN, naming=Naming.INLINE, form="H*({at})", latex="H^{*}({at})",
    starred=("H({at})", "H({at})"), modal="modal_hinge_axes",
)  # fmt: skip
Operation(
    "hinge_axes_rate", "how H* changes with the motion of its joint", body=kernels.hinge_axes_rate,
    domain=Domain.BODY, rows="6", cols="r", naming=Naming.INLINE, form="Ḣ*({at})",
    latex=r"\dot{H}^{*}({at})", starred=("Ḣ({at})", r"\dot{H}({at})"), modal="modal_hinge_rate",
)  # fmt: skip

# ---- algebra of blocks ---------------------------------------------------------------------------

Operation(
    "rec", "the solution of an equation", body=kernels.same, naming=Naming.ALWAYS, letter="z",
    form="z",
)  # fmt: skip
Operation(
    "mul", "a product", body=kernels.product, linear=(0, 1), cost=_product_cost, form="{0} {1}",
    binding=Binding.PRODUCT,
)  # fmt: skip
Operation(
    "cong", "A S A*", body=kernels.congruence, linear=(0, 1), cost=_congruence_cost,
    form="{0} {1} {0*}", binding=Binding.PRODUCT,
)  # fmt: skip
Operation(
    "T", "the transpose", body=kernels.transposed, linear=(0,), naming=Naming.INLINE, form="{0*}",
)  # fmt: skip
Operation(
    "add", "a sum with coefficients", body=kernels.total, cost=_sum_cost, form=_sum_form,
    binding=Binding.SUM,
)  # fmt: skip
Operation(
    "sym", "X + X*", body=kernels.sym, linear=(0,), cost=_entries, form="{0~} + {0*}",
    binding=Binding.SUM,
)  # fmt: skip
Operation(
    "formula", "blocks of a custom operator, entry by entry", body=kernels.formula,
    variant=Variant.JOINT, cost=_formula_cost, form=_formula_form,
)  # fmt: skip
Operation("inv", "the inverse", cost=_inverse_cost, naming=Naming.INLINE, form="{0^}")
Operation(
    "chol", "the Cholesky factor", rows="r", cols="r", kind=Kind.LOWER, cost=_factor_cost,
    **_call("chol"),
)  # fmt: skip
Operation(
    "logdet", "log det", rows="1", cols="1", cost=_factor_cost, **_call("logdet", r"\log\det"),
)  # fmt: skip
Operation(
    "hinge_scale", "what the pivots of D are compared with", body=kernels.hinge_scale, rows="r",
    cols="1", cost=lambda x, size: 2 * size("r"), naming=Naming.HIDDEN,
)  # fmt: skip
Operation(
    "half", "the lower half with half of the diagonal", body=kernels.half, rows="r", cols="r",
    kind=Kind.LOWER, linear=(0,), **_call("half"),
)  # fmt: skip
Operation(
    "diag", "a column on the diagonal", body=kernels.diag, rows="r", cols="r", kind=Kind.SYMMETRIC,
    linear=(0,), naming=Naming.INLINE, form="free({at})",
)  # fmt: skip
Operation(
    "diagonal_matrix", "a column on the diagonal", body=kernels.diag, rows="r", cols="r",
    kind=Kind.SYMMETRIC, linear=(0,), naming=Naming.INLINE, **_call("diag"),
)  # fmt: skip
Operation(
    "scaled_block", "a number times a block", body=kernels.scaled, linear=(0, 1), cost=_entries,
    form="{0} {1}", binding=Binding.PRODUCT,
)  # fmt: skip
Operation(
    "block_trace", "the sum of a diagonal", body=kernels.trace, domain=Domain.BODY, rows="1",
    cols="1", linear=(0,), **_call("tr", r"\operatorname{tr}"),
)  # fmt: skip
Operation(
    "diagonal_column", "the diagonal as a column", body=kernels.diagonal, rows="r", cols="1",
    linear=(0,), **_call("diagonal"),
)  # fmt: skip

# ---- six-vectors, rigid transformations, inertias ------------------------------------------------

_MATRIX: dict[str, Any] = {"rows": "6", "cols": "6", "linear": (0,)}
_VECTOR: dict[str, Any] = {"rows": "6", "cols": "1", "linear": (0,)}

Operation(
    "cross", "V × y", body=kernels.motion_cross, rows="6", linear=(0, 1), cost=_cross_cost,
    form="{0} × {1}", latex=r"{0} \times {1}",
)  # fmt: skip
Operation(
    "cross_force", "V ×* f", body=kernels.force_cross, rows="6", linear=(0, 1), cost=_cross_cost,
    form="{0} ×* {1}", latex=r"{0} \times^{*} {1}",
)  # fmt: skip
Operation(
    "lever", "y ↦ how V ×* f changes with V, applied", body=kernels.lever, rows="6", linear=(0, 1),
    cost=_cross_cost, **_call("cross_force", r"\operatorname{cross_{f}}"),
)  # fmt: skip
Operation("crm", "V × as a matrix", body=kernels.crm, **_MATRIX, **_call("cross"))
Operation(
    "rigid_crm", "V × of the rigid rows", body=kernels.crm, **_MATRIX, modal="modal_crm",
    **_call("rigid_cross"),
)  # fmt: skip
Operation(
    "rigid_crq", "V ↦ V ×* f of the rigid rows", body=kernels.crq, **_MATRIX, modal="modal_crq",
    **_call("rigid_cross_force"),
)  # fmt: skip
Operation(
    "crq", "V ↦ V ×* f as a matrix", body=kernels.crq, **_MATRIX,
    **_call("cross_force", r"\operatorname{cross_{f}}"),
)  # fmt: skip
Operation("spin", "ω~ on both halves", body=kernels.spin, **_MATRIX, **_call("spin"))
Operation(
    "swing", "u ↦ spin(u) applied to a vector", body=kernels.force_cross_block, **_MATRIX,
    **_call("swing"),
)  # fmt: skip
Operation(
    "regress", "π ↦ M(π) z", body=kernels.regress, rows="6", cols="10", linear=(0,),
    modal="modal_regress", **_call("regress"),
)  # fmt: skip
Operation("gauge", "[0; ω × v]", body=kernels.gauge, rows="6", cols="1", cost=9, **_call("gauge"))
Operation(
    "against", "[0; −g] of g", body=kernels.against, **_VECTOR, naming=Naming.INLINE,
    form="[0; −g]",
    latex="[0; -g]",
)  # fmt: skip
Operation(
    "rotation", "the rotation of a rigid transformation", body=kernels.rotation, rows="6", cols="6",
    kind=Kind.RIGID, naming=Naming.INLINE, **_call("turn"),
)  # fmt: skip
Operation(
    "rigid_inverse", "the inverse of a rigid transformation", body=kernels.rigid_inverse, rows="6",
    cols="6", kind=Kind.RIGID, **_call("inverse"),
)  # fmt: skip
Operation(
    "own_frame", "the axes of points of one's own, or the frame of a point", body=kernels.own_frame,
    domain=Domain.POINT, rows="6", cols="6", kind=Kind.RIGID, cost=45, **_call("axes"),
)  # fmt: skip
Operation(
    "rigid_of_pose", "φ of a pose", body=kernels.rigid_of_pose, rows="6", cols="6", kind=Kind.RIGID,
    form="({...})", latex="({...})",
)  # fmt: skip
Operation(
    "pose_matrix", "the pose of φ, 4 × 4", body=kernels.pose_matrix, rows="4", cols="4",
    **_call("pose"),
)  # fmt: skip
Operation(
    "frame_matrix", "the pose of the frame of a point, 4 × 4", body=kernels.frame_matrix,
    domain=Domain.POINT, rows="4", cols="4", reads=Reads.HOST, cost=63, **_call("frame_pose"),
)  # fmt: skip
Operation(
    "below_root", "a product, or the identity at roots", body=kernels.below_root,
    rows="6", cols="6",
    kind=Kind.RIGID, **_call("below_root", r"\operatorname{below\_root}"),
)  # fmt: skip
Operation(
    "com_arm", "φ from the origin of the world to the mass centre of an inertia",
    body=kernels.com_arm, rows="6", cols="6", kind=Kind.RIGID, cost=4, **_call("com"),
)  # fmt: skip
Operation(
    "gyration", "how M V changes the momentum", body=kernels.gyration, rows="6", cols="6",
    kind=Kind.GYRATION, linear=(0, 1), cost=70, **_call("gyration"),
)  # fmt: skip
Operation(
    "inertia_rate", "how an inertia changes as its body moves", body=kernels.inertia_rate, rows="6",
    cols="6", kind=Kind.INERTIA, linear=(0, 1), cost=70,
)  # fmt: skip
Operation(
    "inertia_of", "M(π)", body=kernels.inertia_of, rows="6", cols="6", kind=Kind.INERTIA,
    linear=(0,), modal="modal_inertia_of", **_call("inertia_of", r"\operatorname{M_{\pi}}"),
)  # fmt: skip
Operation(
    "inertia_trace", "tr(M(π) X) by π", body=kernels.inertia_trace,
    rows="10", cols="1", linear=(0,),
    modal="modal_inertia_trace", **_call("inertia_trace", r"\operatorname{M_{tr}}"),
)  # fmt: skip
Operation("vee", "tr(cross(u) X) by u", body=kernels.vee, **_VECTOR)
Operation(
    "vee_force", "tr(cross_force(u) X) by u", body=kernels.vee_force, **_VECTOR,
    **_call("vee_force", r"\operatorname{vee_{f}}"),
)  # fmt: skip

Operation(
    "rigid_vee", "tr(rigid_cross(u) X) by u", body=kernels.vee, **_VECTOR, modal="modal_vee",
    **_call("rigid_vee"),
)  # fmt: skip
Operation(
    "rigid_vee_force", "tr(rigid_cross_force(u) X) by u", body=kernels.vee_force, **_VECTOR,
    modal="modal_vee_force", **_call("rigid_vee_force"),
)  # fmt: skip

# ---- how hinges change ---------------------------------------------------------------------------

Operation(
    "hinge_axes_along", "H* differentiated along rates", body=kernels.hinge_along,
    domain=Domain.BODY, rows="6", cols="r", linear=EACH, modal="modal_hinge_along",
    **_call("Ḣ*", r"\dot{H}^{*}"),
)  # fmt: skip
Operation(
    "dHT", "how H* w changes with the rates", body=kernels.dHT, domain=Domain.BODY, rows="6",
    cols="r", linear=EACH, modal="modal_dHT", **_call("dHT", r"\delta H^{*}"),
)  # fmt: skip
Operation(
    "dH", "how H f changes with the rates", body=kernels.dH, domain=Domain.BODY, rows="r", cols="r",
    linear=EACH, **_call("dH", r"\delta H"),
)  # fmt: skip
Operation(
    "dH_trace", "how tr(H Z) changes with the rates", body=kernels.dH_trace, domain=Domain.BODY,
    rows="r", cols="1", linear=EACH, **_call("dH_trace", r"\operatorname{\delta H_{tr}}"),
)  # fmt: skip

# ---- between index sets --------------------------------------------------------------------------


def _shift(name: str, meaning: str, domain: Domain, reads: Reads, form: str, **more: Any) -> None:
    """The same blocks elsewhere; linear, so that sums are shifted together."""
    Operation(name, meaning, domain=domain, reads=reads, linear=(0,), form=form, **more)


def _sum_over(
    name: str,
    meaning: str,
    domain: Domain,
    index: str,
    back: str = "",
    runs: Loop = Loop.SUMMANDS,
    **more: Any,
) -> None:
    """The sum of blocks over an index."""
    Operation(
        name, meaning, domain=domain, runs=runs, linear=(0,), cost=_entries, back=back,
        form=f"Σ_{index} {{0@{index}}}", latex=rf"\sum_{{{index}}} {{0@{index}}}", **more,
    )  # fmt: skip


_sum_over("up", "the sum over children", Domain.BODY, "c", "down", Loop.OWN, reads=Reads.CHILDREN)
_sum_over("scatter", "the sum over the points of a body", Domain.BODY, "C", "gather")
_sum_over("total", "the sum over all", Domain.WORLD, "k")
_sum_over("to_point", "the sum over the links of a point", Domain.POINT, "l", "of_point")
_sum_over("to_row", "the sum over the links of a row", Domain.ROW, "l", "of_row")
_shift(
    "gather", "the block of the body of a point", Domain.POINT, Reads.HOST, "{0@k}", back="scatter"
)
_shift("of_mate", "the block of the mate of a point", Domain.POINT, Reads.MATE, "{0@C'}")
_shift(
    "of_point", "the block of the point of a link", Domain.LINK, Reads.POINT, "{0@C}",
    back="to_point",
)  # fmt: skip
_shift("of_row", "the block of the row of a link", Domain.LINK, Reads.ROW, "{0@i}", back="to_row")
_shift(
    "spread", "the block of the world, everywhere", Domain.BODY, Reads.HERE, "{0}",
    body=kernels.same, keep=Keep.AGAIN, naming=Naming.INLINE,
)  # fmt: skip
Operation(
    "down", "the block of the parent, or a constant at roots", domain=Domain.BODY,
    reads=Reads.PARENT, linear=(0,), naming=Naming.INLINE, form=_parent_form, back="up",
)  # fmt: skip

# ---- whole matrices ------------------------------------------------------------------------------

_WHOLE: dict[str, Any] = {"reads": Reads.WHOLE, "runs": Loop.ONCE}
_PAIRS: dict[str, Any] = {"runs": Loop.PAIRS, "letter": "Z", "naming": Naming.ALWAYS}

Operation(
    "pair", "z_i(c)* Y(c) z_j(c), where two paths meet", **_PAIRS, reads=Reads.MEETING,
    cost=2 * 6 * 6 * 11, form=_pair_form,
)  # fmt: skip
Operation(
    "gram", "Σ c_i* S c_j over the bodies that two paths share", **_PAIRS, reads=Reads.PATHS,
    cost=lambda x, size: 2 * size("r") ** 2 * 6, form=_gram_form,
)  # fmt: skip
Operation(
    "matrix", "all blocks in one matrix", reads=Reads.BLOCKS, runs=Loop.ONCE,
    naming=Naming.ALWAYS, letter="A", form=_matrix_form,
)  # fmt: skip
Operation("assemble", "columns as one matrix", **_WHOLE, **_call("matrix"))
Operation(
    "small_solve", "A⁻¹ u of a dense matrix", **_WHOLE, solves="dense", naming=Naming.ALWAYS,
    form="{0^} {1}",
)  # fmt: skip
Operation(
    "row_solve", "A⁻¹ u between constraint rows", **_WHOLE, solves="rows", naming=Naming.ALWAYS,
    form="{0^} {1}",
)  # fmt: skip
