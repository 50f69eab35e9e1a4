"""From expressions to equations: apply an operator to a field, or form its diagonal blocks.

`Lowering.apply` walks a product from right to left and turns every factor into the operation of
theory/open-chains 14.2. There is one rule per kind of factor and none for whole expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import islice

from phipsi.core.expressions import (
    UNKNOWN,
    Expr,
    Op,
    Space,
    check,
    identity,
    is_anticausal,
    is_causal,
    is_memoryless,
    leaf,
    shown,
    trace,
)
from phipsi.core.model import Model
from phipsi.core.operators import (
    B,
    E_phi,
    M,
    V,
    definition,
    is_transition,
    leaves_of,
    meaning_of,
    point_units,
    transition_step,
)
from phipsi.core.rewrite import (
    inverse_form,
    is_block_operator,
    riccati_of,
    split_diagonal,
)
from phipsi.core.sweeps.block_diagonals import diagonal_blocks
from phipsi.core.sweeps.gyration_and_port_blocks import across_a_port, port_swing
from phipsi.core.sweeps.ir import Domain, Field, FieldType
from phipsi.core.sweeps.memoryless_blocks import MemorylessBlocks
from phipsi.core.sweeps.operations import operation
from phipsi.core.sweeps.row_elimination import RowElimination
from phipsi.errors import InputError, LoweringError

DOMAINS = {
    "joint": Domain.BODY,
    "body": Domain.BODY,
    "parameter": Domain.BODY,
    "point": Domain.POINT,
    "row": Domain.ROW,
    "world": Domain.WORLD,
    "one": Domain.WORLD,
}


_LONGEST_NOTE = 16  # factors in the product that a field stands for


@dataclass(frozen=True)
class LoweringOptions:
    """Choices that depend on the backend and the model.

    `flat`: paths of φ may be walked in the frame of their root body; `simplify`: operators inside
    leaves are rewritten too; `grams`: C* S C is computed from C instead of where paths meet;
    `several`: several matrices share these frames; `pairs`: the products of two paths that the
    backend can compute, "all" or "symmetric"; `elimination`: the pass that wrote the expressions
    on six rows, if there are more; `points`: how many points there are.
    """

    flat: bool = False
    simplify: bool = False
    grams: bool = False
    several: bool = False
    pairs: str = "all"
    elimination: RowElimination | None = None
    points: int = 0


class Lowering:
    """Turns the expressions of one program into fields that share their common parts.

    `whole_matrix(low, x, local)` is the field with the whole matrix of an operator on points or
    rows; with `local`, a backend may keep the admittance of hubs apart (`loop_row_order` there).
    """

    def __init__(
        self,
        given: Mapping[str, str],
        axes: str,
        mixed: bool,
        armature: bool,
        model: Model | None,
        options: LoweringOptions,
        whole_matrix: Callable[[Lowering, Expr, bool], Field],
        laws: bool = False,
        *,
        more_rows: bool = False,
    ) -> None:
        self.given, self.armature, self.model, self.options = given, armature, model, options
        self.has_names = False  # whether names were looked up in the model
        self.blocks = MemorylessBlocks(
            given, (axes, mixed), armature, self.vector, diagonal_blocks, more_rows, laws
        )
        self.builder = self.blocks.builder
        self._whole_matrix = whole_matrix
        self.has_gram = False  # whether a matrix is C* S C, and `grams` changes something
        self._applied: dict[tuple[Expr, Field], Field] = {}

    def type_of(self, space: Space, cols: str = "1") -> FieldType:
        """Type of a vector (or of several columns) of a space."""
        return FieldType(DOMAINS[space.index], self.blocks.size(space), cols)

    def taken_in(self, space: Space, name: str, cols: str = "1") -> Field:
        """An input; body motions and forces come without modal rows, which are zero."""
        t = self.type_of(space, cols)
        if t.rows != "b":
            found = self.builder.leaf("input", t, name)
            found.stands = found.stands or identity(space)
            return found
        six = self.builder.leaf("input", FieldType(t.domain, "6", cols), name)
        six.stands = identity(space)
        return self.blocks.with_modal_rows(six)

    def as_output(self, x: Expr, found: Field) -> Field:
        """A result; body motions and forces leave without modal rows."""
        bodies = x.gives.index == "body" and not x.gives.of_poses
        return self.blocks.rigid_rows(found) if bodies else found

    def vector(self, x: Expr) -> Field:
        """The field of a vector (or scalar) expression."""
        return self.apply(x, self.builder.one)

    def apply(self, x: Expr, u: Field) -> Field:
        """The field of ``x @ u``."""
        key = (x, u)
        out = self._applied.get(key)
        if out is None:
            before = len(self._applied)
            out = self._applied[key] = self._apply(x, u)
            self._note(out, x, u)
            if out.op == "rec" and out.stands is not None:  # what was made of it in its equation
                for (y, w), inner in [*islice(self._applied.items(), before, None)]:
                    if w.stands is not None:
                        self._note(inner, y, w)
            if not out.named and x.op is Op.LEAF and x.is_vector and u is self.builder.one:
                out.named = leaf(x.row)
        return out

    def _note(self, out: Field, x: Expr, u: Field) -> None:
        """Note for explanations that a field stands for x u; the first meaning stays."""
        if out.op == "zero" or out.stands is not None and out.stands.op is not Op.IDENTITY:
            return
        if u is self.builder.one:
            out.stands = x if x.is_vector else None
        elif (
            u.stands is not None
            and u.stands.gives is x.takes  # zeros are one field in all spaces
            and len(u.stands.factors) < _LONGEST_NOTE
        ):
            out.stands = x @ u.stands

    def _apply(self, x: Expr, u: Field) -> Field:
        b = self.builder
        if x.takes is UNKNOWN:
            raise LoweringError(check.undetermined(x))
        if u.op == "zero" or x.op is Op.ZERO:
            return b.zero(self.type_of(x.gives, u.type.cols))
        if x.op is Op.IDENTITY:
            return u
        if x.op is Op.SUM:
            return b.add([(c, self.apply(y, u)) for c, y in x.terms])
        if x.op is Op.PRODUCT:
            for y in reversed(x.args):
                u = self.apply(y, u)
            return u
        if x.op is Op.INVERSE:
            return self._solve(x.args[0], u)
        if x.op is Op.LOGDET:
            return b.mul(self._logdet(x.args[0]), u)
        if x.is_vector:
            return b.mul(self._vector_leaf(x), u)
        if x.gives.index == "one":
            return self._functional(x, u)
        if is_block_operator(x):
            return self._apply_block(x, u)
        return self._propagate(x, u)

    def _apply_block(self, x: Expr, u: Field) -> Field:
        """A memoryless operator; one that is defined by products is applied factor by factor."""
        meaning = meaning_of(x) if x.core.name not in self.given else None
        if meaning is not None and meaning.op in (Op.SUM, Op.PRODUCT):
            return self.apply(meaning, u)
        return self.builder.mul(self.blocks.block(x), u)

    # -- leaves that look beyond one body ----------------------------------------------------------

    def _propagate(self, x: Expr, u: Field) -> Field:
        core, flipped, meaning = x.core, x.core is not x, meaning_of(x)
        if is_transition(core):
            step = transition_step(core)
            return self._recursion(step.T if flipped else step, u)
        if meaning is not None:
            return self.apply(meaning, u)
        if core.name in ("dA", "dAT"):
            return self._sway(core, u, flipped=flipped)
        if core.row.move is None and core.name not in _MOVES:  # a row without a formula: our bug
            raise LoweringError(f"no sweep is known for {shown(x)}")
        return self._move(core, u, flipped=flipped)

    def _move(self, x: Expr, u: Field, *, flipped: bool) -> Field:
        """Blocks between two index sets, or between a body and its parent."""
        b = self.builder
        if x.row.move is not None:
            (into, out), block = x.row.move, self.blocks.block(x)
        else:
            into, blocks, out = _MOVES[x.name]
            block = blocks(self.blocks, x)
        whole = out == "total"  # of the world, which has six rows, as points have
        if flipped:
            into, block, out = _back(out), b.transpose(block), _back(into)
        if into == "gather" or (whole and not flipped):
            u = self.blocks.rigid_rows(u)
        found = self._shift(out, b.mul(block, self._shift(into, u)))
        widen = out == "scatter" or (whole and flipped)
        return self.blocks.with_modal_rows(found) if widen else found

    def _shift(self, op: str, u: Field) -> Field:
        if op == "down":
            return self.builder.down(u)
        return self.builder.shift(op, u) if op else u

    def _sway(self, x: Expr, u: Field, *, flipped: bool) -> Field:
        """How A z or A* f change with the motions u of the bodies, or the adjoint of that."""
        b = self.builder
        row_side = x.name == "dA"  # z at the points, results at the rows
        held = self.vector(x.args[0])
        if held.op == "zero" or any(self.vector(y).op == "zero" for y in x.args[1:]):
            gives = x.takes.dual if flipped else x.gives
            return b.zero(self.type_of(gives, u.type.cols))
        own, other = self.blocks.row_variation_blocks(x)
        here = b.shift("of_point", held) if row_side else None
        if not flipped:
            motion = self.blocks.point_motion(u)
            ends = b.shift("of_point", motion), b.shift("of_point", b.shift("of_mate", motion))
            row = b.add([(1, b.mul(own, ends[0])), (1, b.mul(other, ends[1]))])
            if self.blocks.laws:
                by_law = b.mul(self.blocks.law_sway(x), self.blocks.law_rates(motion))
                row = b.add([(1, row), (1, by_law)])
            if here is not None:
                return b.shift("to_row", b.mul(b.transpose(here), row))
            return b.shift("to_point", row)
        force = b.shift("of_point", u) if here is None else b.mul(here, b.shift("of_row", u))
        parts = [b.shift("to_point", b.mul(b.transpose(y), force)) for y in (own, other)]
        whole = b.add([(1, parts[0]), (1, b.shift("of_mate", parts[1]))])
        if self.blocks.laws:
            efforts = b.mul(b.transpose(self.blocks.law_sway(x)), force)
            whole = b.add([(1, whole), (1, self.blocks.law_forces(efforts))])
        forces = b.shift("scatter", b.mul(self.blocks.point_block(B), whole))
        return self.blocks.with_modal_rows(forces)

    def _recursion(self, step: Expr, u: Field) -> Field:
        """z = u + step z, with a strictly causal or strictly anticausal one-step operator."""
        b = self.builder
        return b.fixpoint(u.type, lambda z: b.add([(1, u), (1, self.apply(step, z))]))

    # -- vectors and functionals -------------------------------------------------------------------

    def _vector_leaf(self, x: Expr) -> Field:
        if x.function is trace and x.args[0].takes.index == "point":
            return self._trace_at_points(x.args[0])
        if x.op is Op.FUNCTION:
            return self.blocks.function(x)
        if x.name in self.given and x.name != "gravity":
            return self.blocks.given_field(x)
        if x.row.is_input:
            return self.taken_in(x.gives, x.name)
        if x.row.blocks is not None:
            return x.row.blocks(self.blocks, x)
        if self.blocks.flexible and x.name in _MODAL_VECTORS:
            return _MODAL_VECTORS[x.name](self)
        if x.name in _VECTORS:
            return _VECTORS[x.name](self, x)
        meaning = definition(x)
        if meaning is None:  # a catalogue row without a formula: our bug
            raise LoweringError(f"no formula is known for {shown(x)}")
        return self.vector(meaning)

    def _trace_at_points(self, x: Expr) -> Field:
        """Σ e* X e over the unit vectors of all points."""
        if not self.options.points:
            raise LoweringError(
                f"trace({shown(x)}) is a sum over the points, of which there are none here. Name "
                "the model and points=:  pp.explain(expr, model, points=…)"
            )
        b = self.builder
        units = [self.vector(e) for e in point_units(x.takes, self.options.points)]
        parts = [b.mul(b.transpose(e), self.apply(x, e)) for e in units]
        return b.shift("total", b.add([(1, y) for y in parts]))

    def picked(self, x: Expr) -> Hashable:
        """The number of the dof that a pick-off names, or its name if there is no model."""
        joint, i = (*x.params, 0)[:2]
        if self.model is None:
            return x.params
        self.has_names = True
        k = self.model.joint_index(str(joint))
        hinge = self.model.v_slices[k]
        if not isinstance(i, int) or not 0 <= i < hinge.stop - hinge.start:
            raise InputError(
                f"q[{shown(joint)}, {i}]: joint {joint!r} ({self.model.joints[k].kind}) has "
                f"{hinge.stop - hinge.start} degrees of freedom, numbered from 0"
            )
        return hinge.start + i

    def picked_parameter(self, x: Expr) -> Hashable:
        """The number of the inertial parameter that is named, or its name without a model."""
        body, i = (*x.params, 0)[:2]
        if self.model is None:
            return x.params
        if not isinstance(i, int) or not 0 <= i < 10:
            raise InputError(
                f"inertia[{shown(body)}, {i}]: a body has ten inertial parameters, numbered from "
                "0: m, m c (3), Jxx, Jyy, Jzz, Jxy, Jxz, Jyz"
            )
        self.has_names = True
        return 10 * self.model.body_index(str(body)) + i

    def _functional(self, x: Expr, u: Field) -> Field:
        """x* u for a vector x: a sum over the bodies."""
        b = self.builder
        if x.op is not Op.ADJOINT:
            raise LoweringError(f"{shown(x)} cannot be applied to a vector")
        mine = self.vector(x.args[0])
        dot = b.mul(b.transpose(mine), u)
        return dot if u.type.domain is Domain.WORLD else b.shift("total", dot)

    # -- inverses ----------------------------------------------------------------------------------

    def _solve(self, x: Expr, u: Field) -> Field:
        b = self.builder
        if is_block_operator(x):
            return b.mul(self.blocks.block(x.inv), u)
        if x.op is Op.LEAF and x.row.is_own and x.takes.index == "point":  # point by point
            return b.mul(self.blocks.block(x.inv), u)
        if x.is_scalar:
            return b.mul(b.inverse(self.vector(x), definite=False, owner=str(x)), u)
        if not x.takes.per_body:
            return self._small_solve(x, u)
        if is_causal(x.structure) or is_anticausal(x.structure):
            parts = split_diagonal(x)
            if parts is not None:
                return self._substitution(*parts, u)
        form = inverse_form(x)
        if form is None:
            raise LoweringError(no_inverse(x))
        return self.apply(form, u)

    def _substitution(self, diagonal: Expr, strict: Expr, u: Field) -> Field:
        """(W + N) z = u as z = W⁻¹ (u − N z), N strictly causal or strictly anticausal."""
        b = self.builder
        if is_memoryless(strict.structure):
            return self._solve(diagonal, u)
        weight = self.blocks.block(diagonal.inv)
        type_ = self.type_of(diagonal.takes, u.type.cols)
        return b.fixpoint(
            type_, lambda z: b.mul(weight, b.add([(1, u), (-1, self.apply(strict, z))]))
        )

    def _small_solve(self, x: Expr, u: Field) -> Field:
        b = self.builder
        if x.takes.index == "row" and x.T is x:
            local = u.type.cols == "1" and not self.blocks.flexible  # hubs have six rows
            matrix = self._whole_matrix(self, x, local)
            return b.make("row_solve", (matrix, u), str(x), u.type)
        matrix = self._whole_matrix(self, x, False)
        return b.make("small_solve", (matrix, u), str(x), u.type)

    def assembled(self, columns: Field) -> Field:
        """Columns of a point (or world) operator as one matrix."""
        whole = columns.type.cols
        return self.builder.make(
            "assemble", (columns,), None, FieldType(Domain.WORLD, whole, whole)
        )

    def _logdet(self, x: Expr) -> Field:
        b = self.builder
        plain = all(y.op is Op.IDENTITY for _, y in x.terms)
        if x.T is not x and not plain and (is_block_operator(x) or not x.takes.per_body):
            hint = _undeclared(x, "log det")
            raise LoweringError(
                f"no program is known for  logdet({shown(x)}):  log det is computed of symmetric\n"
                f"    operators, and the adjoint of this one is  {shown(x.T)}.{hint}\n"
                "    To compute it densely:   pp.evaluate_dense(expr, model, q)"
            )
        if is_block_operator(x):
            return b.shift("total", b.apply("logdet", self.blocks.block(x)))
        if not x.takes.per_body:
            return b.apply("logdet", self._whole_matrix(self, x, False))
        family = riccati_of(x)
        if family is not None:  # the determinants of the unit triangular factors are one
            return self._logdet(family.D)
        raise LoweringError(
            f"no O(N) form found for  logdet({shown(x)})\n"
            "    known are memoryless operators and  W + H φ X φ* H*."
        )


def _back(shift: str) -> str:
    """The adjoint of a shift; blocks of the world are known everywhere."""
    return operation(shift).back if shift else ""


def _operand(low: Lowering, x: Expr) -> Field:
    return low.taken_in(x.gives, "x")


def _gauge(low: Lowering, x: Expr) -> Field:
    velocity = low.blocks.rigid_rows(low.blocks.velocity())
    return low.blocks.with_modal_rows(low.builder.apply("gauge", velocity))


def _gravity(low: Lowering, x: Expr) -> Field:
    """[0; −g] in the axes of the roots, from the model or from a given g in world axes."""
    b = low.builder
    zero, world = b.zero(FieldType(Domain.BODY, low.blocks.body, "1")), b.apply("gravity")
    if x.name in low.given:
        world = b.apply("against", b.leaf("input", FieldType(Domain.WORLD, "3", "1"), x.name))
    return b.mul(b.transpose(low.blocks.one_step(E_phi)), b.down(zero, world))


_MOVES: dict[str, tuple[str, Callable[[MemorylessBlocks, Expr], Field], str]] = {
    #        read at      blocks               sum over
    "E_phi": ("",         MemorylessBlocks.one_step,     "up"),
    "Edot":  ("",         MemorylessBlocks.one_step,     "up"),
    "dET":   ("down",     port_swing,          ""),
    "shift": ("",         MemorylessBlocks.one_step,     "up"),
    "B":     ("",         MemorylessBlocks.point_block,  "scatter"),
    "Bdot":  ("",         MemorylessBlocks.point_block,  "scatter"),
    "dBT":   ("gather",   MemorylessBlocks.swing_block,  ""),
    "A":     ("of_point", MemorylessBlocks.row_block,    "to_row"),
    "Adot":  ("of_point", MemorylessBlocks.row_block,    "to_row"),
    "total": ("",         MemorylessBlocks.world_block,  "total"),
    "select": ("",        MemorylessBlocks.selection,    ""),
    "to_com": ("",        MemorylessBlocks.com_block,    ""),
}  # fmt: skip
_VECTORS: dict[str, Callable[[Lowering, Expr], Field]] = {
    "operand": _operand,
    "unit_rate": lambda low, x: low.builder.apply("unit_rate", data=low.picked(x)),
    "unit_effort": lambda low, x: low.builder.apply("unit_rate", data=low.picked(x)),
    "unit_inertia": lambda low, x: low.builder.apply(
        "unit_parameter", data=low.picked_parameter(x)
    ),
    "gravity": _gravity,
    "s_gauge": _gauge,
    "pose": lambda low, x: low.builder.apply("pose_matrix", low.blocks.pose()),
    "coordinates": lambda low, x: low.builder.apply("joint_coordinates"),
    "eta": lambda low, x: low.builder.apply("modal_coordinates"),
    "moved": lambda low, x: low.builder.apply("moved_joint"),
    "frame_pose": lambda low, x: low.builder.apply("frame_matrix", low.blocks.pose()),
}


def _modal_bias(low: Lowering) -> Field:
    hinge = low.blocks.hinge_transform()
    return across_a_port(low.builder, "modal_bias", hinge, low.vector(V))


_MODAL_VECTORS: dict[str, Callable[[Lowering], Field]] = {
    "a": _modal_bias,
    "b": lambda low: low.builder.apply("gyroscopic", low.blocks.block(M), low.vector(V)),
}
"""Vectors that are not what their definitions say if bodies have modes."""


def no_inverse(x: Expr) -> str:
    """Text for an inverse that no rule brings to O(N)."""
    hint = _undeclared(x)
    plain = x.args[0] if x.op is Op.SUM and len(x.args) == 1 else x
    if (
        not hint
        and plain.op is Op.PRODUCT
        and plain.args[0].name == "H"
        and plain.args[-1].text() == "H*"
    ):
        hint = (
            "\n    the factor rule needs   H φ X φ* H*   with X memoryless"
            " — is a φ* missing before H*?"
        )
    return (
        f"no O(N) form found for   ({shown(x)})⁻¹{hint}\n"
        "    Known are inverses of memoryless operators, of W + N with N strictly causal or\n"
        "    strictly anticausal, of W + H φ X φ* H*, and of products of these.\n"
        "    To compute it densely, O(N³):   pp.evaluate_dense(expr, model, q)"
    )


def _undeclared(x: Expr, what: str = "the factor rule") -> str:
    """Custom operators that may be symmetric and are not declared so."""
    lines = [
        f"\n    {what} needs symmetric blocks; {y} is not declared symmetric. If it is:"
        f'\n        {y} = pp.custom.operator("{y.name}", "{y.takes.name} -> {y.gives.name}", …, '
        "symmetric=True)"
        for y in sorted(leaves_of(x), key=str)
        if y.row.is_own and y.gives is y.takes.dual and is_memoryless(y.structure) and y.T is not y
    ]
    return "".join(lines)
