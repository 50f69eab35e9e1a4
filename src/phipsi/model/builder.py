"""ModelBuilder: describe the mechanism, then build the frozen model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from numpy.typing import ArrayLike

from phipsi.model.body import (
    NO_INERTIA,
    NO_PLACEMENT,
    WORLD_NAME,
    Body,
    Carrier,
    Description,
    Frame,
    LimitsArgument,
    Rotor,
    checked_gravity,
    make_body,
    make_frame,
)
from phipsi.model.flexible_inertia import FlexibleInertia
from phipsi.model.inertia import SpatialInertia
from phipsi.model.joint import Joint
from phipsi.model.joints import Fixed, Prismatic, Revolute
from phipsi.model.model import Model
from phipsi.model.pose import Pose
from phipsi.model.rotors import added, make_rotor
from phipsi.model.validate import InertiaPolicy, validate
from phipsi.model.value import ALL_GROUPS
from phipsi.model.weld_fixed_joints import assemble

if TYPE_CHECKING:
    from phipsi.model.shapes import BodyShape, Material, Shape

_DEFAULT_JOINT = Revolute(axis=(0, 0, 1))


@final
class ModelBuilder:
    """Collects bodies and frames in any order; `build` checks them and returns a `Model`.

    **Arguments:** `gravity`, the acceleration of gravity in world axes, m/s².
    """

    def __init__(self, gravity: ArrayLike = (0, 0, -9.81)) -> None:
        self._gravity = checked_gravity(gravity)
        self._bodies: list[Body] = []
        self._frames: list[Frame] = []
        self._shapes: list[BodyShape] = []
        self._rotors: list[tuple[Rotor, SpatialInertia | None]] = []

    def add_body(
        self,
        name: str,
        *,
        parent: str = WORLD_NAME,
        joint: Joint = _DEFAULT_JOINT,
        port: str | None = None,
        placement: Pose = NO_PLACEMENT,
        inertia: SpatialInertia | FlexibleInertia = NO_INERTIA,
        joint_name: str | None = None,
        armature: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        limits: LimitsArgument = None,
    ) -> Body:
        """Add a body and the joint that attaches it to its parent.

        **Arguments:** `parent`, a body's name (it may be added later) or "world"; `port`, on a
        flexible parent, the port that carries the joint ("": the parent's body frame, which its
        modes do not move); `placement`, the pose of the inboard joint
        frame in the parent's body frame, or in that of the port: at neutral q the body frame
        coincides with it; `inertia`, in the body frame, a `FlexibleInertia` for a body that
        deforms: its modal coordinates follow those of the joint in q, and their rates in v;
        `joint_name`, by default the body's name;
        `armature`, rotor inertia reflected to the joint (kg·m², or kg for sliding), and `damping`
        (N·m·s/rad, or N·s/m), one number or one per rate; `limits`, None or (lower, upper)
        bounds of q, one number or one per coordinate, ±inf for none. **Returns:** the body as it
        is kept until `build`.
        """
        body = make_body(
            name, parent, joint, placement, inertia, joint_name, armature, damping, limits, port
        )
        self._bodies.append(body)
        return body

    def add_clock(self, name: str = "clock") -> Body:
        """Add a joint whose coordinate is the time, for constraints that are functions of time.

        A system with such constraints (`constraints.Motor`, `constraints.Cam`) drives it at rate 1
        from where q has it, the time at which a run starts. It is a body without mass on a slider
        with an armature of 1: it takes part in nothing but these constraints, and adds 0.5 J to the
        kinetic energy, which stay as they are. **Returns:** the body, as `add_body` does.
        """
        return self.add_body(name, joint=Prismatic((1, 0, 0)), armature=1.0)

    def add_frame(
        self, name: str, body: str, placement: Pose = NO_PLACEMENT, *, port: str | None = None
    ) -> None:
        """Name a frame fixed in a body or in "world"; `placement` is its pose there.

        On a flexible body give the `port` that the frame moves with, and its pose in the frame of
        the port. Such a frame is a body without mass, welded to the port: points, loops and
        contacts on it act on the port.
        """
        if port is not None:
            weld = make_body(name, body, Fixed(), placement, port=port)
            self._bodies.append(weld)
        else:
            self._frames.append(make_frame(name, body, placement))

    def add_shape(
        self,
        name: str,
        body: str,
        shape: Shape,
        placement: Pose = NO_PLACEMENT,
        *,
        material: Material | None = None,
        group: int = 1,
        mask: int = ALL_GROUPS,
    ) -> None:
        """Give a body, or "world", a shape with which it touches others.

        **Arguments:** `name`, of its own; `shape`, from `phipsi.shapes`; `placement`, the pose of
        the shape's frame in the body; `material`, by default the one that `Contacts` is given;
        `group` and `mask`, bits: two shapes may touch if the group of each has a bit in common with
        the mask of the other. A shape has no inertia.

        >>> import phipsi as pp
        >>> builder = pp.ModelBuilder()
        >>> body = builder.add_body("ball", inertia=pp.SpatialInertia(mass=1.0))
        >>> builder.add_shape("skin", "ball", pp.shapes.Sphere(0.1), material=pp.Material(0.3))
        >>> builder.add_shape("floor", "world", pp.shapes.Plane())
        >>> [shape.name for shape in builder.build().shapes]
        ['skin', 'floor']
        """
        from phipsi.model.shapes import make_shape  # most mechanisms have none

        self._shapes.append(make_shape(name, body, shape, placement, material, group, mask))

    def add_rotor(
        self,
        name: str,
        *,
        joint: str | Sequence[str],
        ratio: ArrayLike,
        moment: float,
        axis: ArrayLike | None = None,
        on: Carrier = "parent",
        inertia: SpatialInertia | None = None,
    ) -> None:
        """Add the rotor of a motor that drives a joint through a gear, with its exact effect.

        The rotor turns against its carrier `ratio` times as fast as the joint moves: it adds
        ratio² · moment to the inertia at the joint, as armature does, and the moments, inertial and
        gyroscopic, by which a spinning rotor acts on the body that carries it. On the axis of the
        joint it costs nothing.

        **Arguments:** `name`, of its own, for errors; `joint`, of one rate, or of several of which
        only one turns (cylindrical, planar); `ratio`, positive if rotor and joint turn in the same
        sense about `axis` (rad/m if the joint slides); `moment` about its axis, kg·m²;
        `axis`, in the axes of the carrier, by default that of the joint; `on`, the "parent" or the
        "child" of the joint, or "world", where a rotor is armature and nothing else; `inertia`, at
        rest in the frame of its carrier, which is added to that of the carrier; None if the
        carrier's contains it already. The rotor is symmetric about its axis.

        With several joints, ``joint=("pitch", "roll"), ratio=(n, m)``, it turns at n v(pitch) +
        m v(roll), and `on` and `axis` are those of the first. Rows of ratios are equal rotors: a
        differential is ``ratio=((n, m), (n, -m))``. What the rotors of a model do to each pair of
        joints together must be that of constant inertias (docs/gears.md). A single joint with
        several rates (universal, composite) takes a ratio for each, in any rows, and needs `axis`.
        **Source:** theory/flexible-bodies 8.

        >>> import phipsi as pp
        >>> builder, disk = pp.ModelBuilder(), pp.SpatialInertia(1.0, (0, 0, 0), 1.0)
        >>> _ = builder.add_body("upper", inertia=disk)
        >>> _ = builder.add_body("lower", parent="upper", inertia=disk)
        >>> builder.add_rotor("motor", joint="lower", ratio=10, moment=2e-3)
        >>> pp.mass_matrix(builder.build(), [0, 0])[1]          # 1 + 10 · 2e-3, 1 + 10² · 2e-3
        array([1.02, 1.2 ])
        """
        self._rotors.append((make_rotor(name, joint, ratio, moment, axis, on), inertia))

    def build(self, inertia: InertiaPolicy = "error") -> Model:
        """Check everything and return the frozen model. Cost: O(n).

        **Arguments:** `inertia`, what to do about moments of inertia that no rigid body has:
        "error", "warn" (one `PhipsiWarning` listing the bodies), or "keep" without a word.
        """
        return Model(self.describe(inertia))

    def describe(self, inertia: InertiaPolicy = "error") -> Description:
        """The description that `build` uses: checked, welded, and stored depth first."""
        description = Description(
            tuple(self._bodies), tuple(self._frames), self._gravity, shapes=tuple(self._shapes)
        )
        for rotor, own in self._rotors:
            description = added(description, rotor, own)
        validate(description, inertia)
        return assemble(description)

    def __repr__(self) -> str:
        return f"ModelBuilder({len(self._bodies)} bodies, {len(self._frames)} frames)"
