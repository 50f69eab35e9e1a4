"""Methods of models that return a changed copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model import edit
from phipsi.core.model.argument_checks import as_list
from phipsi.core.model.attachments import Attachment
from phipsi.core.model.body import Body, Description, LimitsArgument, checked_gravity
from phipsi.core.model.flexible_inertia import FlexibleInertia
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joint import Joint
from phipsi.core.model.layout import Layout
from phipsi.core.model.names import Point
from phipsi.core.model.pose import Pose
from phipsi.core.model.tree import WORLD, WORLD_NAME
from phipsi.core.model.validate import InertiaPolicy, validate
from phipsi.core.model.weld_fixed_joints import assemble

FloatArray = NDArray[np.float64]


class ChangedModels:
    """Changed copies of a model: other bodies, locked joints, payloads, attached models."""

    __slots__ = ()

    if TYPE_CHECKING:
        description: Description
        body_names: tuple[str, ...]
        armature: FloatArray
        damping: FloatArray
        v_slices: tuple[slice, ...]
        _layout: Layout

        def body(self, name: str) -> Body:
            """The body of a name."""
            ...

        def body_index(self, name: str) -> int:
            """Its index."""
            ...

        def q_slice(self, joint: str) -> slice:
            """The coordinates of a joint."""
            ...

        def resolve_point(self, point: Point) -> tuple[int, Pose]:
            """The body of a point."""
            ...

        def _rebuilt(self, description: Description) -> Self: ...

    def with_body(
        self,
        name: str,
        *,
        inertia: SpatialInertia | FlexibleInertia | None = None,
        placement: Pose | None = None,
        joint: Joint | None = None,
        armature: ArrayLike | None = None,
        damping: ArrayLike | None = None,
        limits: LimitsArgument | edit.Keep = "keep",
        moments: InertiaPolicy = "error",
    ) -> Self:
        """Return a model in which one body has other data; what is not passed stays.

        Parameters
        ----------
        name : str
            The body.
        inertia : SpatialInertia or FlexibleInertia, optional
            New inertia.
        placement : Pose, optional
            New pose of the inboard joint frame in the parent.
        joint : Joint, optional
            New joint.
        armature, damping : array_like, optional
            New armature and damping of the joint.
        limits : tuple or None, optional
            New bounds (lower, upper) of the joint, None for no limits. Default: "keep".
        moments : {"error", "warn"}, optional
            What to do if no rigid body can have the new inertia. Default: "error".

        Returns
        -------
        Model
            The changed model.
        """
        old = self.body(name)
        changed = edit.replaced_body(
            old, inertia, placement, joint, armature, damping, limits, moments
        )
        return self._rebuilt(assemble(edit.with_body(self.description, changed)))

    def with_inertial_parameters(
        self,
        parameters: ArrayLike,
        *,
        armature: ArrayLike | None = None,
        damping: ArrayLike | None = None,
        moments: InertiaPolicy = "error",
    ) -> Self:
        """Return the model whose bodies have other inertial parameters.

        A negative mass is always an error.

        Parameters
        ----------
        parameters : array_like, shape (10 n,) or (n, 10)
            [m, m c (3), Jxx, Jyy, Jzz, Jxy, Jxz, Jyz] of every body about its origin in body axes,
            as `inertial_parameters` returns them and identification estimates them.
        armature, damping : array_like, shape (nv,), optional
            New armature and damping. Default: unchanged.
        moments : {"error", "warn"}, optional
            What to do if a body gets moments no rigid body can have. Default: "error".

        Returns
        -------
        Model
            The changed model.
        """
        edit.reject_flexible(self.description, "with_inertial_parameters")
        values = edit.checked_parameters(parameters, self.body_names)
        values, rotors = edit.without_attachments(self.description, values, self.armature, armature)
        dampers = edit.checked_rates("damping", damping, self.damping)
        bodies = [
            edit.reparametrised(body, values[i], rotors[s], dampers[s])
            for i, (body, s) in enumerate(zip(self.description.bodies, self.v_slices, strict=True))
        ]
        return self._rebuilt(assemble(edit.with_bodies(self.description, bodies, moments)))

    def with_rigid_bodies(self) -> Self:
        """Return the same mechanism with all flexible bodies as they are undeformed, and rigid.

        What sits on ports keeps its place; the coordinates are those of the joints alone.
        """
        return self._rebuilt(assemble(edit.with_rigid_bodies(self.description)))

    def with_stiff_modes(self, h: float) -> Self:
        """Return the mechanism with modal masses M_e + h C_e + h² K_e: that of an implicit step."""
        return self._rebuilt(assemble(edit.with_stiff_modes(self.description, h)))

    def with_locked(
        self, joints: str | Iterable[str], q: ArrayLike | Mapping[str, ArrayLike]
    ) -> Self:
        """Return the reduced model with some joints locked.

        The bodies are welded at that pose and their names stay as frames; the armature of a locked
        joint is removed.

        Parameters
        ----------
        joints : str or iterable of str
            Names of the joints to lock.
        q : array_like, shape (nq,), or mapping of str to array_like
            A full configuration of this model, or the coordinates of each locked joint.

        Returns
        -------
        Model
            The reduced model.
        """
        names = as_list("joints", joints, "['elbow']")
        where = {name: self.q_slice(name) for name in names}
        if isinstance(q, Mapping):
            values = edit.locked_values(names, q)
        else:
            full = self._layout.checked_q(q)
            values = {name: full[..., at] for name, at in where.items()}
        return self._rebuilt(assemble(edit.with_locked(self.description, values)))

    def with_payload(
        self, at: Point, inertia: SpatialInertia, *, moments: InertiaPolicy = "error"
    ) -> Self:
        """Return the model with a payload fixed to one of its bodies.

        The body's inertia becomes the sum of both. On something that is fixed in the world a
        payload moves only if the model is attached to another one.

        Parameters
        ----------
        at : str or tuple
            A body, a frame, or (name, offset).
        inertia : SpatialInertia
            Inertia of the payload about that point, in the axes there.
        moments : {"error", "warn"}, optional
            What to do if no rigid body can have that inertia. Default: "error".

        Returns
        -------
        Model
            The loaded model.

        Examples
        --------
        >>> import phipsi as pp
        >>> arm = pp.examples.planar_arm(2)
        >>> loaded = arm.with_payload("tip", pp.SpatialInertia.sphere(0.05, mass=2.0))
        >>> loaded.body("link2").inertia.mass - arm.body("link2").inertia.mass
        2.0
        """
        host, X = self.resolve_point(at)
        edit.checked_payload(inertia, at, moments)
        body = WORLD_NAME if host == WORLD else self.body_names[host]
        return self._rebuilt(edit.with_payload(self.description, body, inertia.transformed(X)))

    def with_trees(self, bodies: str | Iterable[str]) -> Self:
        """Return the model of the trees that contain these bodies, without the other trees."""
        names = self._known_bodies(bodies)
        return self._rebuilt(assemble(edit.with_trees(self.description, names)))

    def with_paths(self, bodies: str | Iterable[str]) -> Self:
        """Return the model of these bodies and all between them and the base.

        Other branches are removed.

        Parameters
        ----------
        bodies : str or iterable of str
            Names of the bodies to keep.

        Returns
        -------
        Model
            The reduced model.

        Examples
        --------
        >>> import phipsi as pp
        >>> pp.examples.planar_arm(4).with_paths("link2").body_names
        ('link1', 'link2')
        """
        names = self._known_bodies(bodies)
        return self._rebuilt(assemble(edit.with_paths(self.description, names)))

    def _known_bodies(self, bodies: str | Iterable[str]) -> set[str]:
        """Names of bodies, each of which the model has."""
        names = as_list("bodies", bodies, "['link1']")
        return {self.body_names[self.body_index(name)] for name in names}

    def with_gravity(self, gravity: ArrayLike) -> Self:
        """Return the same mechanism under another gravity (3,), m/s², world axes."""
        return self._rebuilt(replace(self.description, gravity=checked_gravity(gravity)))

    def with_attachment(self, attachment: Attachment) -> Self:
        """Return the same mechanism with an attachment, in place of the one of its kind.

        Parameters
        ----------
        attachment : Attachment
            The attachment; an empty one removes the one of its kind.

        Returns
        -------
        Model
            The changed model.
        """
        changed = self.description.having(attachment)
        validate(changed, "keep")
        return self._rebuilt(changed)
