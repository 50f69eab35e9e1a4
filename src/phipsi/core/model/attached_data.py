"""Attributes and methods of models and builders for the attachments that the library brings.

Users reach these by names of their own, ``model.joint_properties`` and ``builder.add_shape``;
attachments of other packages by `Model.of` and `Model.with_attachment`. The modules of the features
are loaded when a mechanism has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from phipsi.core.model.attachments import Attachment, kind_of
from phipsi.core.model.body import NO_PLACEMENT, Description
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.names import Point
from phipsi.core.model.pose import Pose
from phipsi.core.model.tree import WORLD, WORLD_NAME
from phipsi.core.model.value import ALL_GROUPS

if TYPE_CHECKING:
    from phipsi.attached import (
        BodyShape,
        Finding,
        JointProperties,
        LinkShape,
        Material,
        MimicJoint,
        Shape as TouchingShape,
    )
    from phipsi.transmissions import Carrier, Rotor


class AttachedData:
    """What models have of files, shapes and rotors."""

    __slots__ = ()

    if TYPE_CHECKING:
        description: Description
        body_names: tuple[str, ...]

        def with_attachment(self, attachment: Attachment) -> Self:
            """See `Model`."""
            ...

        def resolve_point(self, point: Point) -> tuple[int, Pose]:
            """See `Model`."""
            ...

        def _rebuilt(self, description: Description) -> Self: ...

    def _attached(self, key: str, field: str, default: Any = ()) -> Any:
        """A field of the attachment that is stored under a key."""
        found = self.description.attachments.stored_as(key)
        return default if found is None else getattr(found, field)

    @property
    def name(self) -> str:
        """The name a file gave the whole mechanism; empty if there is none."""
        return self._attached("name", "name", "")

    @property
    def couplings(self) -> tuple[MimicJoint, ...]:
        """Joints that the file says follow another one; the model moves them independently."""
        return self._attached("couplings", "couplings")

    @property
    def joint_properties(self) -> Mapping[str, JointProperties]:
        """What the file says of joints and their drives, by joint name."""
        return MappingProxyType(
            {r.joint: r for r in self._attached("joint_properties", "joint_properties")}
        )

    @property
    def geometry(self) -> tuple[LinkShape, ...]:
        """Visual and collision shapes of the file, for viewers; `Contacts` uses the latter."""
        return self._attached("geometry", "geometry")

    @property
    def shapes(self) -> tuple[BodyShape, ...]:
        """Shapes with which bodies touch each other, each on a body or the world."""
        return self._attached("shapes", "records")

    @property
    def rotors(self) -> tuple[Rotor, ...]:
        """Rotors of motors behind gears, each on a body of its joint or on the world."""
        return self._attached("rotors", "records")

    @property
    def diagnosis(self) -> tuple[Finding, ...]:
        """Remarks of the importer about the file, each with its line."""
        return self._attached("diagnosis", "diagnosis")

    def with_rotor(
        self,
        name: str,
        *,
        joint: str | Sequence[str],
        ratio: ArrayLike,
        moment: float,
        axis: ArrayLike | None = None,
        on: Carrier = "parent",
        inertia: SpatialInertia | None = None,
    ) -> Self:
        """Return the model with the rotor of a motor behind a gear, as `ModelBuilder.add_rotor`.

        >>> import phipsi as pp
        >>> arm = pp.examples.planar_arm(2)
        >>> arm.with_rotor("motor", joint="joint2", ratio=50, moment=1e-4).rotors[0].on
        'parent'
        """
        rotors = kind_of("rotors")
        rotor = rotors.made(name, joint, ratio, moment, axis, on)
        return self._rebuilt(rotors.added(self.description, rotor, inertia))

    def with_shape(
        self,
        name: str,
        body: str,
        shape: TouchingShape,
        placement: Pose = NO_PLACEMENT,
        *,
        material: Material | None = None,
        group: int = 1,
        mask: int = ALL_GROUPS,
    ) -> Self:
        """Return the same mechanism with one more shape, as `ModelBuilder.add_shape` gives it.

        Parameters
        ----------
        name : str
            Unique name of the shape.
        body : str
            A body or a frame, or "world".
        shape : Shape
            A shape from `phipsi.shapes`.
        placement : Pose, optional
            Pose of the shape's frame in the body. Default: the identity.
        material : Material, optional
            Surface. Default: the material that `Contacts` is given.
        group, mask : int, optional
            Bits, as for `add_shape`. Default: 1 and all bits.

        Returns
        -------
        Model
            The mechanism with the shape.

        Examples
        --------
        >>> import phipsi as pp
        >>> robot = pp.examples.quadruped()
        >>> robot = robot.with_shape("toe", "front_left_foot", pp.shapes.Sphere(0.02))
        >>> robot.shapes[0].body, robot.shapes[0].placement
        ('front_left_knee', Pose(translation=(0.0, 0.0, -0.3)))
        """
        shapes = kind_of("shapes")
        host, X = self.resolve_point(body)
        where = WORLD_NAME if host == WORLD else self.body_names[host]
        more = shapes.made(name, where, shape, X @ placement, material, group, mask)
        return self.with_attachment(self.description.of(shapes).with_record(more))


class AttachedDataBuilder:
    """What builders add of shapes and rotors."""

    _changes: list[Callable[[Description], Description]]

    def add_shape(
        self,
        name: str,
        body: str,
        shape: TouchingShape,
        placement: Pose = NO_PLACEMENT,
        *,
        material: Material | None = None,
        group: int = 1,
        mask: int = ALL_GROUPS,
    ) -> None:
        """Give a body, or "world", a shape with which it touches others.

        A shape has no inertia.

        Parameters
        ----------
        name : str
            Unique name of the shape.
        body : str
            A body or a frame, or "world".
        shape : Shape
            A shape from `phipsi.shapes`.
        placement : Pose, optional
            Pose of the shape's frame in the body. Default: the identity.
        material : Material, optional
            Surface. Default: the material that `Contacts` is given.
        group, mask : int, optional
            Bits: two shapes may touch if the group of each has a bit in common with the mask of the
            other. Default: 1 and all bits.

        Examples
        --------
        >>> import phipsi as pp
        >>> builder = pp.ModelBuilder()
        >>> body = builder.add_body("ball", inertia=pp.SpatialInertia(mass=1.0))
        >>> builder.add_shape("skin", "ball", pp.shapes.Sphere(0.1), material=pp.Material(0.3))
        >>> builder.add_shape("floor", "world", pp.shapes.Plane())
        >>> [shape.name for shape in builder.build().shapes]
        ['skin', 'floor']
        """
        shapes = kind_of("shapes")
        more = shapes.made(name, body, shape, placement, material, group, mask)
        self._changes.append(lambda x: x.having(x.of(shapes).with_record(more)))

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

        The rotor turns relative to its carrier `ratio` times as fast as the joint moves: it adds
        ratio² · moment to the inertia at the joint, as armature does, and the inertial and
        gyroscopic moments by which a spinning rotor acts on the body that carries it. On the axis
        of the joint it costs nothing. The rotor is symmetric about its axis.

        With several joints, ``joint=("pitch", "roll"), ratio=(n, m)``, it turns at n v(pitch) + m
        v(roll), and `on` and `axis` are those of the first. Rows of ratios are equal rotors: a
        differential is ``ratio=((n, m), (n, -m))``. What the rotors of a model do to each pair of
        joints together must equal the effect of constant inertias (docs/gears.md). A single joint
        with several velocities (universal, composite) takes a ratio for each, in any rows, and
        needs `axis`.

        Parameters
        ----------
        name : str
            Unique name, for errors.
        joint : str or sequence of str
            A joint with one velocity, or with several of which only one turns (cylindrical,
            planar).
        ratio : array_like
            Rotor speed per joint speed; positive if rotor and joint turn in the same sense about
            `axis` (rad/m if the joint slides).
        moment : float
            Moment of inertia about the rotor's axis, kg·m².
        axis : array_like, shape (3,), optional
            In the axes of the carrier. Default: the axis of the joint.
        on : {"parent", "child", "world"}, optional
            Carrier of the rotor: a side of the joint, or "world", where a rotor is only armature.
            Default: "parent".
        inertia : SpatialInertia, optional
            Inertia of the rotor at rest in the frame of its carrier, which is added to that of the
            carrier. Default: None, the carrier's contains it already.

        Notes
        -----
        **Source:** theory/flexible-bodies 8.

        Examples
        --------
        >>> import phipsi as pp
        >>> builder, disk = pp.ModelBuilder(), pp.SpatialInertia(1.0, (0, 0, 0), 1.0)
        >>> _ = builder.add_body("upper", inertia=disk)
        >>> _ = builder.add_body("lower", parent="upper", inertia=disk)
        >>> builder.add_rotor("motor", joint="lower", ratio=10, moment=2e-3)
        >>> pp.mass_matrix(builder.build(), [0, 0])[1]          # 1 + 10 · 2e-3, 1 + 10² · 2e-3
        array([1.02, 1.2 ])
        """
        rotors = kind_of("rotors")
        rotor = rotors.made(name, joint, ratio, moment, axis, on)
        self._changes.append(lambda x: rotors.added(x, rotor, inertia))
