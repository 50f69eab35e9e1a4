"""ModelBuilder: describe the mechanism, then build the frozen model."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar, final

from numpy.typing import ArrayLike

from phipsi.core.model.attached_data import AttachedDataBuilder
from phipsi.core.model.attachments import Attachment
from phipsi.core.model.body import (
    NO_INERTIA,
    NO_PLACEMENT,
    Body,
    Description,
    Frame,
    LimitsArgument,
    checked_gravity,
    make_body,
    make_frame,
)
from phipsi.core.model.compound_body import CompoundBody
from phipsi.core.model.flexible_inertia import FlexibleInertia
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joint import Joint
from phipsi.core.model.joints import Fixed, Prismatic, Revolute
from phipsi.core.model.model import Model
from phipsi.core.model.pose import Pose
from phipsi.core.model.tree import WORLD_NAME
from phipsi.core.model.validate import InertiaPolicy, validate
from phipsi.core.model.weld_fixed_joints import assemble
from phipsi.errors import InputError

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_ELSEWHERE = {
    "friction": (
        "Dry friction of a joint is a force element of the simulation:\n"
        "    pp.Simulator(model, [pp.forces.JointFriction({joint!r}, {value})], dt=1e-3)"
    ),
    "stiffness": (
        "The spring of a joint is a force element of the simulation:\n"
        "    pp.Simulator(model, [pp.forces.JointSpring({joint!r}, {value})], dt=1e-3)"
    ),
    "mass": (
        "The mass is that of its inertia:\n    inertia=pp.SpatialInertia({value}, com_B, moment)"
    ),
    "axis": "The axis is that of its joint:\n    joint=pp.joints.Revolute({value})",
}
"""Arguments that a body does not have, and where they belong."""


def _hinted(method: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """The method; arguments that it does not have are answered with where they belong."""

    @wraps(method)
    def call(*given: _Given.args, **named: _Given.kwargs) -> _Result:
        found = next((x for x in _ELSEWHERE if x in named), None)
        if found is not None:
            body = given[1] if len(given) > 1 else named.get("name", "name")
            where = {"joint": named.get("joint_name") or body, "value": named[found]}
            raise InputError(
                f"add_body has no argument {found}=. {_ELSEWHERE[found].format(**where)}"
            )
        return method(*given, **named)

    return call


_DEFAULT_JOINT = Revolute(axis=(0, 0, 1))


@final
class ModelBuilder(AttachedDataBuilder):
    """Collects bodies, joints and frames in any order; `build` checks them and returns a `Model`.

    Parameters
    ----------
    gravity : array_like, shape (3,), optional
        Acceleration of gravity in world axes, m/s². Default: (0, 0, −9.81).

    Examples
    --------
    >>> import phipsi as pp
    >>> builder = pp.ModelBuilder()
    >>> rod = pp.SpatialInertia(mass=1.0, com_B=(0.5, 0, 0), moment_about_com_B=0.1)
    >>> hinge = pp.joints.Revolute(axis=(0, 1, 0))
    >>> body = builder.add_body("rod", joint=hinge, inertia=rod)
    >>> builder.build()
    <Model: 1 body, nq = 1, nv = 1, 0 frames>
    """

    def __init__(self, gravity: ArrayLike = (0, 0, -9.81)) -> None:
        self._gravity = checked_gravity(gravity)
        self._bodies: list[Body] = []
        self._frames: list[Frame] = []
        self._changes: list[Callable[[Description], Description]] = []

    @_hinted
    def add_body(
        self,
        name: str,
        *,
        parent: str = WORLD_NAME,
        joint: Joint = _DEFAULT_JOINT,
        port: str | None = None,
        placement: Pose = NO_PLACEMENT,
        inertia: SpatialInertia | FlexibleInertia | CompoundBody = NO_INERTIA,
        joint_name: str | None = None,
        armature: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        limits: LimitsArgument = None,
    ) -> Body:
        """Add a body and the joint that attaches it to its parent.

        Parameters
        ----------
        name : str
            Unique name.
        parent : str, optional
            A body, which may be added later, or "world". Default: "world".
        joint : Joint, optional
            A joint from `phipsi.joints`. Default: revolute about z.
        port : str, optional
            On a flexible parent, the port that carries the joint ("": the parent's body frame,
            which its modes do not move).
        placement : Pose, optional
            Pose of the inboard joint frame in the parent's body frame, or in that of the port: at
            neutral q the body frame coincides with it. Default: the identity.
        inertia : SpatialInertia or FlexibleInertia, optional
            Inertia in the body frame. The modal coordinates of a flexible body follow those of the
            joint in q, and their velocities in v. Default: none.
        joint_name : str, optional
            Name of the joint. Default: the body's name.
        armature : array_like, optional
            Rotor inertia reflected to the joint (kg·m², or kg for sliding), one number or one per
            velocity. Default: 0.
        damping : array_like, optional
            Viscous damping (N·m·s/rad, or N·s/m), one number or one per velocity. Default: 0.
        limits : tuple of array_like, optional
            Bounds (lower, upper) of q, one number or one per coordinate, ±inf for none. Default:
            none.

        Returns
        -------
        Body
            The body as it is kept until `build`.
        """
        body = make_body(
            name, parent, joint, placement, inertia, joint_name, armature, damping, limits, port
        )
        self._bodies.append(body)
        return body

    def add_clock(self, name: str = "clock") -> Body:
        """Add a joint whose coordinate is the time, for constraints that are functions of time.

        A system with such constraints (`constraints.Motor`, `constraints.Cam`) drives it at
        velocity 1 from its value in q, the time at which a simulation starts. It is a massless body
        on a slider with an armature of 1: only these constraints use it, and it adds a constant 0.5
        J to the kinetic energy.

        Parameters
        ----------
        name : str, optional
            Name of the body and its joint. Default: "clock".

        Returns
        -------
        Body
            The body, as `add_body` returns it.
        """
        return self.add_body(name, joint=Prismatic((1, 0, 0)), armature=1.0)

    def add_frame(
        self, name: str, body: str, placement: Pose = NO_PLACEMENT, *, port: str | None = None
    ) -> None:
        """Name a frame fixed in a body or in "world".

        On a flexible body give the `port` that the frame moves with. Such a frame is a massless
        body, welded to the port: points, loops and contacts on it act on the port.

        Parameters
        ----------
        name : str
            Unique name.
        body : str
            A body or "world".
        placement : Pose, optional
            Pose of the frame in the body, or in the frame of the port. Default: the identity.
        port : str, optional
            A port of a flexible body.
        """
        if port is not None:
            weld = make_body(name, body, Fixed(), placement, port=port)
            self._bodies.append(weld)
        else:
            self._frames.append(make_frame(name, body, placement))

    def add_attachment(self, attachment: Attachment) -> None:
        """Hang data of a feature on the mechanism, in place of what it has of the same kind."""
        self._changes.append(lambda x: x.having(attachment))

    def build(self, inertia: InertiaPolicy = "error") -> Model:
        """Check everything and return the frozen model, in O(n).

        Parameters
        ----------
        inertia : {"error", "warn", "keep"}, optional
            What to do about moments of inertia that no rigid body can have: reject them, accept
            them with one `PhipsiWarning` listing the bodies, or accept them silently. Default:
            "error".

        Returns
        -------
        Model
            The model.

        Raises
        ------
        ModelError
            For the first thing that is wrong, with the name of the body or joint.
        """
        return Model(self.describe(inertia))

    def describe(self, inertia: InertiaPolicy = "error") -> Description:
        """The description that `build` uses: checked, welded, and stored depth first."""
        description = Description(tuple(self._bodies), tuple(self._frames), self._gravity)
        for change in self._changes:
            description = change(description)
        validate(description, inertia)
        return assemble(description)

    def __repr__(self) -> str:
        return f"ModelBuilder({len(self._bodies)} bodies, {len(self._frames)} frames)"
