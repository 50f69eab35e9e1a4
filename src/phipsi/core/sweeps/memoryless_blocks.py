"""Diagonal blocks: leaves, memoryless products, the Riccati family, and bd(·)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from phipsi.core.expressions import (
    ONE,
    Expr,
    Op,
    Space,
    adjoint,
    dE_trace,
    leaf,
    outer,
    product,
    scaled,
    shown,
    trace,
)
from phipsi.core.operators import (
    DEFAULT_FAMILY,
    B,
    BodyFunction,
    ConstantBlocks,
    M,
    Riccati,
    V,
    arguments_of,
    catalogue_leaf,
    definition,
    family_of,
    place_of,
)
from phipsi.core.rewrite import one_step_factors
from phipsi.core.sweeps import point_blocks as points
from phipsi.core.sweeps.equation_builder import EquationBuilder, no_modes
from phipsi.core.sweeps.gyration_and_port_blocks import (
    across_a_port,
    gyration_of,
    port_push,
    port_step,
    port_trace,
)
from phipsi.core.sweeps.ir import Domain, Field, FieldType, Kind, Operation
from phipsi.errors import LoweringError

A = catalogue_leaf("A")
_RIGID = FieldType(Domain.BODY, "6", "6", Kind.RIGID)
_RATE, _RATES = FieldType(Domain.BODY, "r", "1"), FieldType(Domain.BODY, "r", "r")
_MIRRORED = (Op.BD, Op.PRODUCT)  # as of outer(x; y), the blocks of X* are those of X, transposed

# with one of these given, the inertias of the model say nothing about D
_OWN_INERTIA = frozenset(("M", "P", "D", "placement", "pose"))


class MemorylessBlocks:
    """Block formulas of the leaves, and of products and functions that are memoryless.

    `vector` lowers the vectors inside blocks, and `diagonal` the products inside bd(·).
    """

    def __init__(
        self,
        given: Mapping[str, str],
        axes: tuple[str, bool],
        armature: bool,
        vector: Callable[[Expr], Field],
        diagonal: Callable[[MemorylessBlocks, Expr], Field],
        flexible: bool = False,
        laws: bool = False,
    ) -> None:
        self.builder = EquationBuilder(flexible)
        self.flexible, self.laws = flexible, laws
        self.body = "b" if flexible else "6"  # rows of body motions and forces
        self.vector, self._diagonal = vector, diagonal
        self.given = given
        self.axes, self.mixed = axes  # those of the points; whether closure frames have others
        self.armature = armature
        self._blocks: dict[Expr, Field] = {}
        self._families: dict[Riccati, dict[str, Field]] = {}
        self.diagonals: dict[Expr, Field] = {}  # of products with transition operators at both ends
        self._pose: Field | None = None
        self._root_pose: Field | None = None

    def size(self, space: Space) -> str:
        """Size of one block of a space: "r" for joint spaces, that of bodies may vary."""
        if space.width is None:
            return "r"
        return self.body if space.index == "body" and not space.of_poses else str(space.width)

    def reject_modes(self, what: str, *spaces: Space) -> None:
        """Blocks that users write have six rows where bodies have modes."""
        if any(self.size(space) == "b" for space in spaces):
            raise LoweringError(no_modes(what))

    def with_modal_rows(self, x: Field) -> Field:
        """[x; 0], from six rows to those of a body."""
        b = self.builder
        return b.mul(b.apply("rigid_rows"), x) if self.flexible else x

    def rigid_rows(self, x: Field) -> Field:
        """The first six rows of blocks of bodies."""
        b = self.builder
        return b.mul(b.transpose(b.apply("rigid_rows")), x) if self.flexible else x

    def on_rigid_rows(self, x: Field) -> Field:
        """[x 0; 0 0], a block of six rows and columns on bodies."""
        b = self.builder
        return (
            self.with_modal_rows(b.mul(x, b.transpose(b.apply("rigid_rows"))))
            if self.flexible
            else x
        )

    def block(self, x: Expr) -> Field:
        """The diagonal blocks of a memoryless operator."""
        if x not in self._blocks:
            two_sided = x.op in _MIRRORED or x.function is outer
            mirrored = self._blocks.get(x.T) if two_sided else None
            out = self._block(x) if mirrored is None else self.builder.transpose(mirrored)
            if self.flexible and out.type.domain is Domain.BODY:
                sizes = (out.type.rows, x.gives), (out.type.cols, x.takes)
                self.reject_modes(str(x), *(space for size, space in sizes if size == "6"))
            if not out.named and x.op is Op.LEAF:
                out.named = x
            self._blocks[x] = out
        return self._blocks[x]

    def _block(self, x: Expr) -> Field:
        b = self.builder
        if x.op is Op.LEAF:
            return self._leaf_block(x)
        if x.op is Op.ADJOINT:
            return b.transpose(self.block(x.args[0]))
        if x.op is Op.IDENTITY:
            return b.eye(Domain.BODY, self.size(x.takes))
        if x.op is Op.ZERO:
            return b.zero(FieldType(Domain.BODY, self.size(x.gives), self.size(x.takes)))
        if x.op is Op.SUM:
            return gyration_of(self, x) or b.add([(c, self.block(y)) for c, y in x.terms])
        if x.op is Op.PRODUCT:
            return self._block_product(x)
        if x.op is Op.INVERSE:
            inner = x.args[0]
            if inner.op is Op.LEAF and inner.name == "D":
                return self.riccati(family_of(inner))["D^-1"]
            if inner.op is Op.LEAF and inner.row.inverse and inner.name not in self.given:
                return inner.row.inverse(self, inner)
            return b.inverse(self.block(inner), definite=False, owner=inner.text("ascii"))
        if x.op is Op.BD:
            return self._diagonal(self, x.args[0])
        if x.op is Op.FUNCTION:
            return self.function(x)
        raise LoweringError(f"{shown(x)} has no blocks")

    def function(self, x: Expr) -> Field:
        """The blocks of a function of vectors and of memoryless operators."""
        b, (function, hole) = self.builder, x.data
        if function is dE_trace:
            return port_trace(self, x)
        args = [self.vector(y) if y.is_vector else self.block(y) for y in x.args]
        if isinstance(function, BodyFunction):
            self.reject_modes(str(x), x.gives, x.takes, *(y.gives for y in x.args))
            kind = Kind.SYMMETRIC if function.symmetric else Kind.GENERAL
            type_ = FieldType(Domain.BODY, self.size(x.gives), self.size(x.takes), kind)
            blocks = b.make("formula", tuple(args), function, type_)
            return b.shift("total", blocks) if x.is_scalar else blocks
        if function is scaled:
            return b.scaled(*args)
        if function is trace:
            return b.shift("total", b.apply("block_trace", *args))
        if function is not outer:
            return b.apply(function.operation, *args, data=hole)
        left, right = args
        times = b.mul_symmetric if left is right else b.mul
        return times(left, b.transpose(right))

    def _block_product(self, x: Expr) -> Field:
        b = self.builder
        factors = x.args
        if any(y.takes.index == "point" for y in factors):
            return self._through_points(factors)
        if x.T is x:  # A S A*: symmetric by construction
            half = len(factors) // 2
            outer = self.block(product(factors[:half]))
            if 2 * half == len(factors):
                return b.mul_symmetric(outer, b.transpose(outer))
            middle = self.block(product(factors[half : len(factors) - half]))
            return b.mul(outer, b.mul(middle, b.transpose(outer)))
        out = self.block(factors[0])
        for y in factors[1:]:
            out = b.mul(out, self.block(y))
        return out

    def _through_points(self, factors: tuple[Expr, ...]) -> Field:
        """A product with B W B* in it: the sum over the points of every body."""
        b = self.builder
        i = next(i for i, y in enumerate(factors) if y.takes.index == "point")
        j = next(j for j in range(i + 1, len(factors)) if factors[j].takes.per_body)
        inside = self._at_points(product(factors[i + 1 : j])) if j > i + 1 else None
        left, right = (self._at_points(y) for y in (factors[i], factors[j].T))
        out = self._sandwich(left, inside, right) if inside else b.mul(left, b.transpose(right))
        out = self.on_rigid_rows(b.shift("scatter", out))
        for y in reversed(factors[:i]):
            out = b.mul(self.block(y), out)
        if j + 1 < len(factors):
            out = b.mul(out, self.block(product(factors[j + 1 :])))
        return out

    def _at_points(self, x: Expr) -> Field:
        """The blocks of B, or of an operator from points to points."""
        b = self.builder
        if x.op is Op.PRODUCT:
            out = self._at_points(x.args[0])
            for y in x.args[1:]:
                out = b.mul(out, self._at_points(y))
            return out
        if x.op is Op.ADJOINT:
            return b.transpose(self._at_points(x.args[0]))
        if x.name in ("B", "Bdot"):
            return self.point_block(x)
        return self.selection(x) if x.name == "select" else self.block(x)

    # -- leaves ------------------------------------------------------------------------------------

    def _leaf_block(self, x: Expr) -> Field:
        if x.name in self.given and not x.args:
            return self.given_field(x)
        blocks = x.row.blocks or _LEAVES.get(x.name)
        if blocks is not None:
            return blocks(self, x)
        if Operation.exists(x.name):
            place = place_of(x) if x.params else None
            return self.builder.apply(x.name, *map(self.vector, x.args), data=place)
        meaning = definition(x)
        if meaning is None:
            raise LoweringError(f"{x} has no block formula")  # a row without one: our bug
        return self.block(meaning)

    def given_field(self, x: Expr) -> Field:
        """A quantity whose value is an input of the program, in storage layout."""
        b = self.builder
        if x.name == "H":  # stored as H*, the hinge axes
            return b.transpose(b.leaf("input", FieldType(Domain.BODY, self.body, "r"), "H"))
        cols = "1" if x.is_vector else self.size(x.takes)
        kind = Kind.SYMMETRIC if x.row.symmetric and not x.is_vector else Kind.GENERAL
        type_ = FieldType(_domain(x.gives), self.size(x.gives), cols, kind)
        return b.leaf("input", type_, x.name)

    def table(self, table: ConstantBlocks) -> Field:
        """The constant blocks of a custom operator or vector, or the number of a custom scalar."""
        self.reject_modes(table.name, table.gives, table.takes)
        rows, cols = self.size(table.gives), self.size(table.takes)
        domain = _domain(table.gives)
        kind = Kind.INERTIA if table.is_inertia else Kind.SYMMETRIC
        kind = kind if table.symmetric else Kind.GENERAL
        return self.builder.leaf("table", FieldType(domain, rows, cols, kind), table)

    def hinge_axes(self) -> Field:
        """H*(k), 6 × r, in body axes; of a body with n modes (6 + n) × (r + n)."""
        return self.builder.apply("hinge_axes")

    def hinge_transform(self) -> Field:
        """X(k) = φ(parent, k) in body axes: the placement of the joint, then its motion."""
        b = self.builder
        if self.flexible:
            return b.mul(b.apply("port_transform"), b.apply("transform"))
        if "placement" not in self.given:
            return b.apply("transform")
        place = b.leaf("input", FieldType(Domain.BODY, "4", "4"), "placement")
        return b.mul(b.apply("rigid_of_pose", place), b.apply("joint_transform"))

    def one_step(self, x: Expr) -> Field:
        """The block of E_φ, of Ė{…} or of the shift, from body k to its parent."""
        if x.name == "Edot":
            return port_step(self, x)
        if x.name == "E_phi" and self.flexible:
            return across_a_port(self.builder, "modal_step", self.hinge_transform())
        if x.name == "E_phi":
            return self.hinge_transform()
        return self.builder.apply("rotation", self.hinge_transform())

    def pose(self) -> Field:
        """W(k) = φ(world, k): the pose of body k in the world as a force transformation."""
        b = self.builder
        if "pose" in self.given:
            matrices = b.leaf("input", FieldType(Domain.BODY, "4", "4"), "pose")
            return b.apply("rigid_of_pose", matrices)
        if self._pose is None:
            world = b.make("eye", (), None, FieldType(Domain.WORLD, "6", "6", Kind.RIGID))
            self._pose = b.fixpoint(
                _RIGID, lambda w: b.mul(b.down(w, world), self.hinge_transform())
            )
            self._pose.named = "W"
        return self._pose

    def root_pose(self) -> Field:
        """φ(root, k): the pose of body k in the frame of the root body of its tree."""
        b = self.builder
        if self._root_pose is None:
            step = self.hinge_transform()
            self._root_pose = b.fixpoint(_RIGID, lambda w: b.apply("below_root", b.down(w), step))
            self._root_pose.named = "X_root"
        return self._root_pose

    def velocity(self) -> Field:
        """V = φ* H* v."""
        return self.vector(V)

    def point_block(self, x: Expr) -> Field:
        """B or its change along motions of the bodies, one transformation per point."""
        out = points.point_block(self, x)
        if out.op != "zero":
            out.named = leaf(x.row)
        return out

    def swing_block(self, x: Expr) -> Field:
        """V ↦ Ḃ{…; V}* y (dBT) or Ḃ{…; V} f (dB), 6 × 6 per point."""
        return points.swing_block(self, x)

    def relative(self) -> Field:
        """φ(p, mate of p) for every frame p of a closure, in the axes of p."""
        return self.builder.apply("relative", self.pose())

    def link_block(self, x: Expr) -> Field:
        """A* or its change along motions: the part of a row at a point, in the point's axes."""
        b = self.builder
        relative = self.relative()
        seen = b.shift("of_point", relative)
        moving = [self.vector(y) for y in arguments_of(x)]
        if x is A:
            out = b.apply("closure_row", seen)
        elif any(m.op == "zero" for m in moving):
            return b.zero(FieldType(Domain.LINK, "6", "1"))
        elif len(moving) > 1:
            out = b.apply("closure_row_along", seen, *self._link_motions(moving))
        else:
            motion = self.point_motion(moving[0])
            twist = b.apply("relative_twist", relative, motion, b.shift("of_mate", motion))
            out = b.apply("closure_row_rate", seen, b.shift("of_point", twist))
        if self.laws and x is not A:
            slots = [self.law_rates(self.point_motion(m)) for m in moving]
            out = b.add([(1, out), (1, b.apply("law_rate", *slots))])
        out.named = leaf(x.row)
        return out

    def row_block(self, x: Expr) -> Field:
        """A or its change along motions, one row of six numbers per link."""
        return self.builder.transpose(self.link_block(x))

    def point_motion(self, motion: Field) -> Field:
        """Motions of the frames of closures in their own axes."""
        b = self.builder
        return b.mul(b.transpose(self.point_block(B)), b.shift("gather", self.rigid_rows(motion)))

    def _link_motions(self, motions: list[Field]) -> list[Field]:
        """Motions of the frame of a link and of its mate, one after the other."""
        b = self.builder
        ends = [(m, b.shift("of_mate", m)) for m in map(self.point_motion, motions)]
        return [b.shift("of_point", y) for pair in ends for y in pair]

    def row_variation_blocks(self, x: Expr) -> tuple[Field, Field]:
        """How the row at a link changes with the motion of its frame and with that of the mate.

        Those of dAT{f} are multiplied by the component of f.
        """
        b, (motions, times) = self.builder, self._swaying(x)
        args = (b.shift("of_point", self.relative()), *self._link_motions(motions), *times)
        one, other = (b.apply("closure_sway", *args, data=(place_of(x), end)) for end in (0, 1))
        return one, other

    def _swaying(self, x: Expr) -> tuple[list[Field], list[Field]]:
        """The motions along which rows change, and the component of a force they are times."""
        held, *motions = (self.vector(y) for y in x.args)
        return motions, [self.builder.shift("of_row", held)] if x.name == "dAT" else []

    def law_rates(self, motion: Field) -> Field:
        """The rates of the coordinates of the law of a link, from the motions of all its frames."""
        b = self.builder
        own = b.mul(b.apply("law_place"), b.shift("of_point", motion))
        return b.shift("of_row", b.shift("to_row", own))

    def law_forces(self, efforts: Field) -> Field:
        """The adjoint of `law_rates`: forces at frames from efforts on coordinates at links."""
        b = self.builder
        whole = b.shift("of_row", b.shift("to_row", efforts))
        return b.shift("to_point", b.mul(b.transpose(b.apply("law_place")), whole))

    def law_sway(self, x: Expr) -> Field:
        """How the row of a law at a link changes with its coordinates."""
        motions, times = self._swaying(x)
        slots = [self.law_rates(self.point_motion(m)) for m in motions]
        return self.builder.apply("law_sway", *times, *slots, data=len(times))

    def selection(self, x: Expr) -> Field:
        """The identity at the points of a selection, zero elsewhere."""
        return self.builder.apply("selected", data=x.params[0])

    def world_block(self, x: Expr) -> Field:
        """φ(point, k) in world axes, for `total` about a point."""
        b = self.builder
        if not x.params:
            return self.pose()
        return b.mul(b.apply("world_arm", data=x.params), self.pose())

    def com_block(self, x: Expr) -> Field:
        """φ(mass centre, world's origin), from the inertia of the whole mechanism."""
        b = self.builder
        pose, inertia = self.pose(), self.block(M)
        if self.flexible:
            inertia = b.congruence(b.transpose(b.apply("rigid_rows")), inertia)
        whole = b.shift("total", b.congruence(pose, inertia))
        return b.apply("com_arm", whole)

    # -- the Riccati family ------------------------------------------------------------------------

    def riccati(self, f: Riccati) -> dict[str, Field]:
        """P, D, G of one family, by the tip-to-base recursion of theory/open-chains 8."""
        if f in self._families:
            return self._families[f]
        b = self.builder
        assert isinstance(f.Jr, Expr)
        axes, armature = self.block(adjoint(f.H)), self.block(f.Jr)
        default, out = f == Riccati(), dict[str, Field]()
        gamma: Expr | None = getattr(f, "Gamma", None)  # of families that features bring
        coupling = None if gamma is None else self.block(gamma)
        named = f if coupling is None else DEFAULT_FAMILY

        def invert(p: Field, d: Field) -> Field:
            if not (_positive(f.Jr) and _positive(f.M)):  # D can be anything but singular
                sum_with = None if _positive(f.Jr) or armature.op == "zero" else armature
                owner = named.D.text("ascii")
                return b.inverse(d, definite=False, owner=owner, scale=sum_with)
            # rounding errors are as large as the terms that cancel: inertias of bodies outboard
            known = f.M == Riccati().M and not _OWN_INERTIA.intersection(self.given)
            sizes = None if known else "given"
            scale = b.apply("hinge_scale", p, axes, data=sizes)
            return b.inverse(d, definite=True, owner=named.D.text("ascii"), scale=scale)

        def hinge(p: Field) -> tuple[Field, Field, Field]:
            """U = P H* (+ the coupling), D = H P H* + Jr and G = U D⁻¹."""
            u = b.mul(p, axes)
            d = b.add([(1, b.mul_symmetric(b.transpose(axes), u)), (1, armature)])
            if coupling is not None:
                u = b.add([(1, u), (1, coupling)])
            if default and "D" in self.given:
                d = self.given_field(f.D)
            if default and "G" in self.given:
                return u, d, self.given_field(f.G)
            return u, d, b.mul(u, invert(p, d))

        def equation(p: Field) -> Field:
            u, _, gain = hinge(p)
            rest = b.add([(1, p), (-1, b.mul_symmetric(gain, b.transpose(u)))])
            return b.add([(1, self.block(f.M)), (1, self.step_in(f.E, rest, f.E))])

        if default and "P" in self.given:
            p = self.given_field(f.P)
        else:
            p = b.fixpoint(FieldType(Domain.BODY, self.body, self.body, Kind.SYMMETRIC), equation)
        p.named = p.named or named.P
        _, d, gain = hinge(p)
        out["P"], out["D"], out["G"], out["D^-1"] = p, d, gain, invert(p, d)
        out["D_half"] = b.apply("chol", d)
        for name in ("D", "G", "D_half"):
            out[name].named = out[name].named or named.leaf(name)
        self._families[f] = out
        return out

    # -- steps between a body and its parent ---------------------------------------------------

    def step_in(self, left: Expr, s: Field, right: Expr) -> Field:
        """E₁ S E₂*, which is memoryless: Σ over children of E₁(k,c) S(c) E₂(k,c)*."""
        b = self.builder
        if left.name == "E_psi" and left is not right and "proj_bar" not in self.given:
            f = family_of(left)  # E_ψ = E π̄, and E may be the E_ψ of another family
            s, left = b.rest(self.block(f.G), self.block(f.H), s), f.E
        a0, ea, a1 = self._one_step(left)
        b0, eb, b1 = self._one_step(right)
        inner = self._sandwich(b.mul(ea, a1) if a1 else ea, s, b.mul(eb, b1) if b1 else eb)
        out = b.up(inner)
        return self._sandwich(a0, out, b0) if a0 or b0 else out

    def step_out(self, left: Expr, s: Field, right: Expr, *, local: bool = False) -> Field:
        """bd(E₁* S E₂): E₁(p,k)* S(p) E₂(p,k)."""
        b = self.builder
        a0, ea, a1 = self._one_step(left)
        b0, eb, b1 = self._one_step(right)
        if a0 or b0:
            s = self._sandwich(a0 and b.transpose(a0), s, b0 and b.transpose(b0))
        fa = b.mul(ea, a1) if a1 else ea
        fb = b.mul(eb, b1) if b1 else eb
        above = b.down_local(s) if local else b.down(s)
        return self._sandwich(b.transpose(fa), above, b.transpose(fb))

    def edge(self, e: Expr) -> Field:
        """The block (parent, k) of a one-step operator, at k."""
        b, (before, step, after) = self.builder, self._one_step(e)
        out = step if after is None else b.mul(step, after)
        return out if before is None else b.mul(b.down(before), out)

    def _one_step(self, e: Expr) -> tuple[Field | None, Field, Field | None]:
        before, step, after = one_step_factors(e)
        return (
            self.block(before) if before is not None else None,
            self.one_step(step),
            self.block(after) if after is not None else None,
        )

    def _sandwich(self, left: Field | None, s: Field, right: Field | None) -> Field:
        """left S right*."""
        b = self.builder
        kept = (Kind.SYMMETRIC, Kind.INERTIA, Kind.GYRATION)
        if left is right and left is not None and s.type.kind in kept:
            return b.congruence(left, s)
        out = b.mul(left, s) if left is not None else s
        return b.mul(out, b.transpose(right)) if right is not None else out


def _domain(space: Space) -> Domain:
    """Where the blocks of custom operators and vectors are."""
    if space is ONE:
        return Domain.WORLD
    return Domain.POINT if space.index == "point" else Domain.BODY


def _hinge_rate(low: MemorylessBlocks, x: Expr) -> Field:
    """Ḣ along v, or along the directions in braces."""
    b, along = low.builder, [low.vector(y) for y in x.args]
    return b.transpose(b.apply("hinge_axes_along" if along else "hinge_axes_rate", *along))


def _armature(low: MemorylessBlocks, x: Expr) -> Field:
    return low.builder.apply("Jr") if low.armature else low.builder.zero(_RATES)


def _unprescribed(low: MemorylessBlocks, x: Expr) -> Field:
    """1 on joints whose effort is given, 0 on the others."""
    return low.builder.apply("diag", low.builder.leaf("input", _RATE, "free"))


def _prescribed(low: MemorylessBlocks, x: Expr) -> Field:
    return low.builder.add([(1, low.builder.eye(Domain.BODY, "r")), (-1, _unprescribed(low, x))])


def _shift_weight(low: MemorylessBlocks, x: Expr) -> Field:
    """φ(parent(k), k) behind the rotation of the shift."""
    b, step = low.builder, low.hinge_transform()
    return b.mul(b.transpose(b.apply("rotation", step)), step)


_LEAVES: dict[str, Callable[[MemorylessBlocks, Expr], Field]] = {
    "H": lambda low, x: low.builder.transpose(low.hinge_axes()),
    "Hdot": _hinge_rate,
    "dB": lambda low, x: low.on_rigid_rows(low.builder.shift("scatter", low.swing_block(x))),
    "Jr": _armature,
    "Mdot": lambda low, x: low.builder.apply("inertia_along", *map(low.vector, arguments_of(x))),
    "dE": port_push,
    "Lam_phi": _shift_weight,
    "unprescribed": _unprescribed,
    "prescribed": _prescribed,
    **dict.fromkeys(("P", "D", "G", "D_half"), lambda low, x: low.riccati(family_of(x))[x.name]),
}
"""Blocks of leaves. Others are the operation of the same name, or what they stand for."""


def _positive(x: Expr | int) -> bool:
    """True if a memoryless symmetric operator is ≥ 0 by its form: sums of leaves and A S A*."""
    if isinstance(x, int) or x.op is Op.ZERO:
        return True
    if x.op is Op.SUM:
        return all(c > 0 and _positive(y) for c, y in x.terms)
    if x.op is Op.PRODUCT:
        half = len(x.args) // 2
        middle = x.args[half : len(x.args) - half]
        return x.T is x and (not middle or _positive(middle[0]))
    if x.op in (Op.BD, Op.INVERSE):
        return _positive(x.args[0])
    if x.op is Op.LEAF and x.row.riccati:
        family = family_of(x)
        return x.row.symmetric and _positive(family.M) and _positive(family.Jr)
    if x.op is not Op.LEAF:
        return False
    return x.row.symmetric if x.row.positive is None else x.row.positive
