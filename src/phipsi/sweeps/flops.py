"""Floating-point operations of one block operation, with the structure of the blocks used."""

from __future__ import annotations

from phipsi.sweeps.ir import Field, Kind

_RIGID = (Kind.RIGID, Kind.RIGID_T)
_FREE = ("T", "input", "eye", "zero", "rec", "down", "gather", "spread", "M", "Jr", "gravity",
         "diag", "against", "seed", "of_mate", "of_point", "of_row", "selected",
         "path_seed", "assemble", "matrix", "rotation", "point_frame", "point_arm",
         "world_arm", "rigid_of_pose", "pose_matrix", "hinge_axes", "crm",
         "regress", "crq", "swing", "spin",
         "hinge_axes_along", "hinge_bend", "hinge_bend_force", "hinge_bend_trace",
         "vee", "vee_force", "half", "pick", "pick_parameter", "angular",
         "inertia_of", "inertia_trace")  # fmt: skip


def flops(x: Field, r: int, columns: int = 1) -> int:
    """Operations to evaluate a field at one body with an r-dof hinge."""

    def size(s: str) -> int:
        if s == "r":
            return r
        return int(s) if s.isdigit() else columns

    rows, cols = size(x.type.rows), size(x.type.cols)
    if x.op in _FREE:
        return 0
    if x.op == "mul":
        left = x.args[0].type
        inner = size(left.cols)
        if left.kind in _RIGID:
            return 42 * cols
        if left.kind is Kind.INERTIA:
            return 42 * cols
        whole = rows * cols * (2 * inner - 1)
        return whole * (rows + 1) // (2 * rows) if x.type.kind is Kind.SYMMETRIC and rows else whole
    if x.op == "cong":
        if x.args[0].type.kind in _RIGID:
            small = {Kind.INERTIA: 90, Kind.GYRATION: 130}
            return small.get(x.type.kind, 258)
        inner = size(x.args[0].type.cols)
        return rows * inner * (2 * inner - 1) + rows * (rows + 1) // 2 * (2 * inner - 1)
    if x.op == "add":
        entries = rows * (rows + 1) // 2 if x.type.kind is Kind.SYMMETRIC else rows * cols
        if x.type.kind is Kind.INERTIA:
            entries = 10
        data: tuple[float, ...] = x.data  # type: ignore[assignment]
        return entries * (len(x.args) - 1 + sum(abs(c) != 1 for c in data))
    if x.op == "sym":
        return rows * (rows + 1) // 2
    if x.op in ("closure_row", "closure_row_rate"):
        return 6
    if x.op == "relative":
        return 105
    if x.op == "relative_twist":
        return 45
    if x.op in ("up", "scatter", "total", "to_point", "to_row"):
        return rows * (rows + 1) // 2 if x.type.kind is Kind.SYMMETRIC else rows * cols
    if x.op == "inv":
        return rows**3
    if x.op in ("chol", "logdet"):
        return max(1, rows**3 // 3)
    if x.op in ("cross", "cross_force", "lever"):
        return 27 * cols
    if x.op == "transform":
        return 2 * 8 + 45
    if x.op == "hinge_axes_rate":
        return 0
    if x.op == "hinge_scale":
        return 2 * r
    if x.op in ("gyration", "inertia_rate"):
        return 70
    if x.op == "gauge":
        return 9
    if x.op == "square":
        return 2 * r * r * 6
    if x.op == "pair":
        return 2 * 6 * 6 * 11
    return 0
