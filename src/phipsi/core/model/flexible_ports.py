"""Ports and pictures of flexible bodies, and the check of their arrays."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model.argument_checks import as_floats
from phipsi.core.model.pose import Pose
from phipsi.core.model.value import PlainValue, check_text, read_only
from phipsi.errors import InputError, ModelError

FloatArray = NDArray[np.float64]

_SYMMETRY = 1e-8  # how far from symmetric the user's numbers may be; they are then averaged
_PORT_ARRAYS: dict[str, tuple[str, tuple[tuple[int, int], ...]]] = {
    "rotation_modes": ("3n", ()),
    "translation_modes": ("3n", ()),
    "second_order": ("3nn", ((1, 2),)),
}


@final
class Port(PlainValue):
    """A place of a flexible body where a joint, a frame or a point may be attached.

    With modal coordinates η and g = ½ `rotation_modes` η, the port is at the pose

        R_c = R(quaternion (1, g)) R_0        p_c = r_0 + Π_v η + ½ η* Ψ_v η

    in the body frame.

    Parameters
    ----------
    name : str
        Unique within the body.
    rotation : array_like, shape (3, 3), optional
        R_0, axes of the port in the undeformed body. Default: the identity.
    position : array_like, shape (3,), optional
        r_0, origin of the port in the undeformed body, m. Default: the body origin.
    rotation_modes : array_like, shape (3, n), optional
        Π_ω, small rotation of the port per mode, rad, body axes. Default: 0.
    translation_modes : array_like, shape (3, n), optional
        Π_v, displacement of the port per mode, m, body axes. Default: 0.
    second_order : array_like, shape (3, n, n), optional
        Ψ_v, displacement per pair of modes, m, symmetric. Default: 0.
    """

    __slots__ = (
        "name",
        "rotation",
        "position",
        "rotation_modes",
        "translation_modes",
        "second_order",
    )
    name: str
    rotation: FloatArray
    position: FloatArray
    rotation_modes: FloatArray
    translation_modes: FloatArray
    second_order: FloatArray

    def __init__(
        self,
        name: str,
        rotation: ArrayLike | None = None,
        position: ArrayLike = (0, 0, 0),
        rotation_modes: ArrayLike | None = None,
        translation_modes: ArrayLike | None = None,
        second_order: ArrayLike | None = None,
    ):
        check_text(name, "the name of a port")
        given = {
            "rotation_modes": rotation_modes,
            "translation_modes": translation_modes,
            "second_order": second_order,
        }
        n = next((x.shape[-1] for x in map(float_numbers, given.values()) if x.ndim > 1), 0)
        who = f"port {name!r}: "
        place = Pose(rotation, position)
        self._set(
            name=name,
            rotation=place.rotation,
            position=place.translation,
            **{x: checked_array(who, x, given[x], n, *_PORT_ARRAYS[x]) for x in _PORT_ARRAYS},
        )

    def pose_at(self, eta: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Axes (3, 3) and origin (3,) of the port in the body frame at modal coordinates (n,)."""
        a, b, c = self.rotation_modes @ eta / 2
        g = np.array([[0, -c, b], [c, 0, -a], [-b, a, 0]])
        turn = np.eye(3) + (g + g @ g) * (2 / (1 + (a * a + b * b + c * c)))
        moved = (self.translation_modes + self.second_order @ eta / 2) @ eta
        return turn @ self.rotation, self.position + moved

    def _key(self) -> tuple[Any, ...]:
        return (self.name, *(getattr(self, x).tobytes() for x in self.__slots__[1:]))

    def __repr__(self) -> str:
        x, y, z = self.position.tolist()
        return (
            f"Port({self.name!r} at ({x:g}, {y:g}, {z:g}), {self.translation_modes.shape[1]} modes)"
        )


@final
class FlexibleShape(PlainValue):
    """What a flexible body looks like: points, how each mode moves them, and what joins them.

    For drawing only; no computation uses it.

    Parameters
    ----------
    nodes : array_like, shape (m, 3)
        Positions in m, body axes.
    modes : array_like, shape (m, 3, n)
        Displacement of every node per mode.
    triangles : array_like of int, shape (t, 3), optional
        Node numbers of the surface.
    segments : array_like of int, shape (s, 2), optional
        Node numbers of lines.
    """

    __slots__ = ("nodes", "modes", "triangles", "segments")
    nodes: FloatArray
    modes: FloatArray
    triangles: NDArray[np.int64]
    segments: NDArray[np.int64]

    def __init__(
        self,
        nodes: ArrayLike,
        modes: ArrayLike,
        triangles: ArrayLike = (),
        segments: ArrayLike = (),
    ):
        points, moves = read_only(nodes), read_only(modes)
        if points.ndim != 2 or points.shape[1] != 3 or moves.shape[:-1] != points.shape:
            raise ModelError(
                f"FlexibleShape: nodes must have shape (m, 3) and modes (m, 3, n), but the shapes "
                f"are {points.shape} and {moves.shape}."
            )
        corners = {"triangles": (triangles, 3), "segments": (segments, 2)}
        joined = {
            name: _node_numbers(name, given, size, len(points))
            for name, (given, size) in corners.items()
        }
        self._set(nodes=points, modes=moves, **joined)

    def __repr__(self) -> str:
        return (
            f"FlexibleShape({len(self.nodes)} nodes, {self.modes.shape[2]} modes, "
            f"{len(self.triangles)} triangles, {len(self.segments)} segments)"
        )

    def deformed(self, eta: ArrayLike, exaggeration: float = 1.0) -> FloatArray:
        """Positions of the nodes (m, 3) at modal coordinates `eta`, enlarged by a factor."""
        return self.nodes + exaggeration * (self.modes @ np.asarray(eta, dtype=np.float64))

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, x).tobytes() for x in self.__slots__)


def float_numbers(values: Any) -> FloatArray:
    """The values as float64, an empty array for None, or a ModelError."""
    try:
        return np.zeros(0) if values is None else as_floats("it", values)
    except InputError as error:
        raise ModelError(f"FlexibleInertia: {values!r} is not an array of numbers.") from error


def checked_array(
    who: str, name: str, given: Any, n: int, axes: str, symmetric: tuple[tuple[int, int], ...]
) -> FloatArray:
    """The array of a field: zeros if not given, its shape, numbers and symmetry checked."""
    shape = tuple(n if axis == "n" else 3 for axis in axes)
    if given is None:
        return read_only(np.zeros(shape))
    array = float_numbers(given)
    if array.shape != shape:
        raise ModelError(
            f"{who}{name} must have shape ({', '.join(axes)}) with n = {n} modes, but its shape is "
            f"{array.shape}."
        )
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ModelError(f"{who}{name}{list(at)} is {array[at]}, which is not a finite number.")
    largest = np.abs(array).max(initial=0.0)
    for a, b in symmetric:
        other = array.swapaxes(a, b)
        gap = np.abs(array - other)
        if gap.max(initial=0.0) > _SYMMETRY * largest:
            at = tuple(int(i) for i in np.unravel_index(gap.argmax(), gap.shape))
            raise ModelError(
                f"{who}{name} is not symmetric in its axes {a} and {b}: entry {list(at)} is "
                f"{array[at]:.6g}, its mirror image {other[at]:.6g}."
            )
        array = (array + other) / 2
    return read_only(array + 0.0)  # −0 becomes 0: bodies are compared by their bytes


def _node_numbers(name: str, given: ArrayLike, size: int, count: int) -> NDArray[np.int64]:
    numbers = np.asarray(given)
    if not numbers.size:
        return np.zeros((0, size), dtype=np.int64)
    if numbers.ndim != 2 or numbers.shape[1] != size or numbers.dtype.kind not in "iu":
        raise ModelError(
            f"FlexibleShape: {name} must be node numbers of shape (…, {size}), not "
            f"{numbers.dtype} of shape {numbers.shape}."
        )
    if not 0 <= numbers.min() <= numbers.max() < count:
        raise ModelError(
            f"FlexibleShape: {name} name node {numbers.min()} to {numbers.max()}, but there are "
            f"the nodes 0 to {count - 1}."
        )
    found = numbers.astype(np.int64)
    found.flags.writeable = False
    return found
