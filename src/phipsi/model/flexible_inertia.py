"""FlexibleInertia: the inertia, stiffness and ports of a body that deforms in a few modes.

Formulas: docs/theory/flexible-bodies.md. Design: docs/decisions/0055.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import ModelError, did_you_mean
from phipsi.model.inertia import SpatialInertia
from phipsi.model.pose import Pose
from phipsi.model.value import Value, read_only
from phipsi.spatial import skew

FloatArray = NDArray[np.float64]

_SYMMETRY = 1e-8  # how far from symmetric the user's numbers may be; they are then averaged
_ROUNDING = 1e-9  # negative eigenvalues below this, relative to the largest, count as zero

# Every array of a body with n modes: name, shape, pairs of axes in which it is symmetric.
_ARRAYS: dict[str, tuple[str, tuple[tuple[int, int], ...]]] = {
    "first_moment": ("3", ()),
    "rotational_inertia": ("33", ((0, 1),)),
    "S1": ("3n", ()),
    "S2": ("3nn", ((1, 2),)),
    "J1": ("33n", ((0, 1),)),
    "J2": ("33nn", ((0, 1), (2, 3))),
    "C0": ("3n", ()),
    "C1": ("3nn", ()),
    "modal_mass": ("nn", ((0, 1),)),
    "stiffness": ("nn", ((0, 1),)),
    "damping": ("nn", ((0, 1),)),
}
_PORT_ARRAYS: dict[str, tuple[str, tuple[tuple[int, int], ...]]] = {
    "turns": ("3n", ()),
    "moves": ("3n", ()),
    "shortening": ("3nn", ((1, 2),)),
}


@final
class Port(Value):
    """A place of a flexible body where a joint, a frame or a point may sit.

    With modal coordinates η and g = ½ `turns` η, the port is at the pose

        R_c = R(quaternion (1, g)) R_0        p_c = r_0 + Π_v η + ½ η* Ψ_v η

    in the body frame.

    | field | symbol | shape | meaning |
    |---|---|---|---|
    | `name` | | | unique within the body |
    | `rotation` | R_0 | (3, 3) | axes of the port in the undeformed body |
    | `position` | r_0 | (3,) | origin of the port in the undeformed body, m |
    | `turns` | Π_ω | (3, n) | small rotation of the port per mode, rad, body axes |
    | `moves` | Π_v | (3, n) | displacement of the port per mode, m, body axes |
    | `shortening` | Ψ_v | (3, n, n) | second-order displacement per pair of modes, m, symmetric |

    Fields that are not given are zero (`rotation`: the identity).
    """

    __slots__ = ("name", "rotation", "position", "turns", "moves", "shortening")
    name: str
    rotation: FloatArray
    position: FloatArray
    turns: FloatArray
    moves: FloatArray
    shortening: FloatArray

    def __init__(
        self,
        name: str,
        rotation: ArrayLike | None = None,
        position: ArrayLike = (0, 0, 0),
        turns: ArrayLike | None = None,
        moves: ArrayLike | None = None,
        shortening: ArrayLike | None = None,
    ):
        if not isinstance(name, str) or not name:
            raise ModelError(f"the name of a port must be a non-empty string, not {name!r}.")
        given = {"turns": turns, "moves": moves, "shortening": shortening}
        n = next((x.shape[-1] for x in map(_numbers, given.values()) if x.ndim > 1), 0)
        who = f"port {name!r}: "
        place = Pose(rotation, position)
        self._set(
            name=name,
            rotation=place.rotation,
            position=place.translation,
            **{x: _array(who, x, given[x], n, *_PORT_ARRAYS[x]) for x in _PORT_ARRAYS},
        )

    def _key(self) -> tuple[Any, ...]:
        return (self.name, *(getattr(self, x).tobytes() for x in self.__slots__[1:]))

    def __reduce__(self) -> tuple[Any, ...]:
        return Port, tuple(getattr(self, x) for x in self.__slots__)

    def __repr__(self) -> str:
        x, y, z = self.position.tolist()
        return f"Port({self.name!r} at ({x:g}, {y:g}, {z:g}), {self.moves.shape[1]} modes)"


@final
class FlexibleShape(Value):
    """What a flexible body looks like: points, how each mode moves them, and what joins them.

    For drawing only; no computation uses it. `nodes` (m, 3) in m, body axes; `modes` (m, 3, n),
    displacement of every node per mode; `triangles` (t, 3) and `segments` (s, 2), node numbers.
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

    def deformed(self, eta: ArrayLike, exaggeration: float = 1.0) -> FloatArray:
        """Positions of the nodes (m, 3) at modal coordinates `eta`, enlarged by a factor."""
        return self.nodes + exaggeration * (self.modes @ np.asarray(eta, dtype=np.float64))

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, x).tobytes() for x in self.__slots__)

    def __reduce__(self) -> tuple[Any, ...]:
        return FlexibleShape, tuple(getattr(self, x) for x in self.__slots__)


@final
class FlexibleInertia(Value):
    """Inertia, elasticity and ports of a body that deforms in n modes.

    A material point at r in the undeformed body is at r + Σ φ_i(r) η_i + ½ Σ ψ_ij(r) η_i η_j;
    η are the modal coordinates. All numbers are in SI units and body axes, about the body
    origin, which is the outboard frame of the inboard joint; no mode moves or turns it.

    | field | symbol | shape | meaning |
    |---|---|---|---|
    | `mass` | m | | kg |
    | `first_moment` | s_0 | (3,) | ∫ r dm |
    | `rotational_inertia` | J_0 | (3, 3) | moment of inertia about the origin |
    | `S1` | S_1 | (3, n) | ∫ φ_i dm |
    | `S2` | S_2 | (3, n, n) | ∫ ψ_ij dm |
    | `J1` | J_1 | (3, 3, n) | first-order change of the moment of inertia |
    | `J2` | J_2 | (3, 3, n, n) | second-order change of the moment of inertia |
    | `C0` | C_0 | (3, n) | angular momentum of each mode, ∫ r × φ_i dm |
    | `C1` | C_1,ij = `C1[:, i, j]` | (3, n, n) | its change, ∫ (φ_j × φ_i + r × ψ_ij) dm |
    | `modal_mass` | M_e | (n, n) | ∫ φ_i · φ_j dm, positive definite |
    | `stiffness` | K_e | (n, n) | elastic forces are −K_e η |
    | `damping` | C_e | (n, n) | damping forces are −C_e η̇ |
    | `ports` | | | places where other bodies attach, see `Port` |
    | `shape` | | | for drawing, see `FlexibleShape`; None without |

    Invariants that are not given are zero, except `modal_mass` and `stiffness`, which are required.
    `FlexibleInertia.beam`, `.from_matrices` and `.from_mesh` compute them.

    The arrays are checked here, once: shapes, symmetry, finite numbers, positive modal mass, and
    that M(0) is not indefinite. **Source:** Jain and Rodriguez, J. Guidance 15(6), 1992.

    >>> import numpy as np, phipsi as pp
    >>> panel = pp.FlexibleInertia(
    ...     mass=2.0, first_moment=(1, 0, 0), rotational_inertia=(0.01, 0.7, 0.7),
    ...     S1=[[0], [0.8], [0]], C0=[[0], [0], [0.6]], modal_mass=[[1.0]], stiffness=[[400.0]],
    ... )
    >>> panel.modes, panel.frequencies.tolist()
    (1, [20.0])
    >>> panel.inertia_at([0.1]).shape
    (7, 7)
    """

    __slots__ = ("mass", *_ARRAYS, "ports", "shape")
    mass: float
    first_moment: FloatArray
    rotational_inertia: FloatArray
    S1: FloatArray
    S2: FloatArray
    J1: FloatArray
    J2: FloatArray
    C0: FloatArray
    C1: FloatArray
    modal_mass: FloatArray
    stiffness: FloatArray
    damping: FloatArray
    ports: tuple[Port, ...]
    shape: FlexibleShape | None

    def __init__(
        self,
        mass: float,
        first_moment: ArrayLike = (0, 0, 0),
        rotational_inertia: ArrayLike = 0.0,
        *,
        modal_mass: ArrayLike,
        stiffness: ArrayLike,
        damping: ArrayLike | None = None,
        S1: ArrayLike | None = None,
        S2: ArrayLike | None = None,
        J1: ArrayLike | None = None,
        J2: ArrayLike | None = None,
        C0: ArrayLike | None = None,
        C1: ArrayLike | None = None,
        ports: Iterable[Port] = (),
        shape: FlexibleShape | None = None,
    ):
        try:
            kilograms = float(mass)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"FlexibleInertia: mass must be a number in kg, not {mass!r}."
            ) from error
        moment = _numbers(rotational_inertia)
        if moment.shape in ((), (3,)):
            moment = np.diag(np.broadcast_to(moment, 3))
        given: dict[str, ArrayLike | None] = {
            "first_moment": first_moment,
            "rotational_inertia": moment,
            "S1": S1,
            "S2": S2,
            "J1": J1,
            "J2": J2,
            "C0": C0,
            "C1": C1,
            "modal_mass": modal_mass,
            "stiffness": stiffness,
            "damping": damping,
        }
        n = np.shape(_numbers(modal_mass))[-1] if np.ndim(modal_mass) == 2 else 0
        if not n:
            raise ModelError(
                f"FlexibleInertia: modal_mass must be a matrix (n, n) with n ≥ 1 modes, but its "
                f"shape is {np.shape(modal_mass)}. A body without modes is a SpatialInertia."
            )
        who = "FlexibleInertia: "
        arrays = {name: _array(who, name, given[name], n, *_ARRAYS[name]) for name in _ARRAYS}
        self._set(mass=kilograms, **arrays, ports=_checked_ports(ports, n), shape=shape)
        if shape is not None and shape.modes.shape[-1] != n:
            raise ModelError(
                f"FlexibleInertia: shape has {shape.modes.shape[-1]} modes, but the body has {n}."
            )
        self._check_positive()

    @classmethod
    def from_points(
        cls,
        masses: ArrayLike,
        points: ArrayLike,
        modes: ArrayLike,
        stiffness: ArrayLike,
        *,
        damping: ArrayLike | None = None,
        second: ArrayLike | None = None,
        inertias: ArrayLike | None = None,
        turns: ArrayLike | None = None,
        ports: Iterable[Port] = (),
        shape: FlexibleShape | None = None,
    ) -> FlexibleInertia:
        """A body of k points with mass, which n modes displace.

        **Arguments:** `masses` (k,) in kg; `points` (k, 3) in m, body axes; `modes` (k, 3, n), the
        displacement φ_i of each point per mode; `stiffness` and `damping` (n, n); `second`
        (k, 3, n, n), second-order displacements ψ_ij; `inertias` (k, 3, 3) of points that turn by
        `turns` (k, 3, n) per mode, in kg·m² and rad. **Cost:** O(k n²). **Source:**
        docs/theory/flexible-bodies.md, section 2.

        A mass of 2 kg on a spring, at 1 m from the joint:

        >>> import phipsi as pp
        >>> body = pp.FlexibleInertia.from_points(
        ...     [2.0], [(1, 0, 0)], [[[0], [1], [0]]], stiffness=[[50.0]]
        ... )
        >>> body.frequencies.round(9).tolist(), float(body.inertia_at([0.1])[2, 6])
        ([5.0], 2.0)
        """
        from phipsi.flexible.invariants import invariants_of_points

        shapes = _numbers(modes)
        k, n = (len(shapes), shapes.shape[-1]) if shapes.ndim == 3 else (0, 0)
        sizes = {
            "masses": (masses, (k,)),
            "points": (points, (k, 3)),
            "modes": (modes, (k, 3, n)),
            "second": (second, (k, 3, n, n)),
            "inertias": (inertias, (k, 3, 3)),
            "turns": (turns, (k, 3, n)),
        }
        arrays = {}
        for name, (given, size) in sizes.items():
            found = None if given is None else _numbers(given)
            if found is not None and (found.shape != size or not np.isfinite(found).all()):
                raise ModelError(
                    f"FlexibleInertia.from_points: {name} must be finite numbers of shape "
                    f"{size}, with k = {k} points and n = {n} modes as in modes (k, 3, n); its "
                    f"shape is {found.shape}."
                )
            arrays[name] = found
        return cls(
            **invariants_of_points(**arrays),
            stiffness=stiffness,
            damping=damping,
            ports=ports,
            shape=shape,
        )

    @property
    def modes(self) -> int:
        """The number n of modes."""
        return self.modal_mass.shape[0]

    @property
    def frequencies(self) -> FloatArray:
        """Natural frequencies (n,) of the body clamped at its origin, rad/s, ascending.

        Those of K_e x = ω² M_e x, with nothing attached at the ports. **Cost:** O(n³).
        """
        root = np.linalg.cholesky(self.modal_mass)
        half = np.linalg.solve(root, self.stiffness)
        squares = np.linalg.eigvalsh(np.linalg.solve(root, half.T))
        return np.sqrt(np.maximum(squares, 0.0))

    @property
    def rigid(self) -> SpatialInertia:
        """Inertia of the undeformed body, as if its modes were locked."""
        com = self.first_moment / self.mass if self.mass else self.first_moment
        return SpatialInertia(self.mass, com, moment_about_origin_B=self.rotational_inertia)

    def inertia_at(self, eta: ArrayLike) -> NDArray[Any]:
        """Inertia M(η) of the deformed body: forces [N; F; modal] from motions [ω; v; η̇].

        M(η) = [[J, s~, C], [−s~, m I, S], [C*, S*, M_e]] with s = s_0 + S_1 η + ½ η* S_2 η,
        S = S_1 + S_2 η, J = J_0 + J_1 η + ½ η* J_2 η, C_i = C_0,i + Σ_j C_1,ij η_j.

        **Arguments:** `eta` (..., n), modal coordinates, real or complex. **Returns:**
        (..., 6 + n, 6 + n), symmetric, SI, body axes about the body origin. **Cost:** about 15 n²
        flops. **Source:** docs/theory/flexible-bodies.md, section 2.
        """
        x, n = self._coordinates(eta), self.modes
        S = self.S1 + np.einsum("aij,...j->...ai", self.S2, x)
        C = self.C0 + np.einsum("aij,...j->...ai", self.C1, x)
        s = self.first_moment + np.einsum("...ai,...i->...a", (self.S1 + S) / 2, x)
        bent = self.J1 + np.einsum("abij,...j->...abi", self.J2, x) / 2
        M = np.zeros((*x.shape[:-1], 6 + n, 6 + n), dtype=x.dtype)
        M[..., :3, :3] = self.rotational_inertia + np.einsum("...abi,...i->...ab", bent, x)
        M[..., :3, 3:6] = skew(s)
        M[..., 3:6, :3] = -skew(s)
        M[..., 3:6, 3:6] = self.mass * np.eye(3)
        M[..., :3, 6:], M[..., 3:6, 6:] = C, S
        M[..., 6:, :6] = M[..., :6, 6:].swapaxes(-1, -2)
        M[..., 6:, 6:] = self.modal_mass
        return M

    def port(self, name: str) -> Port:
        """Return the port of this name."""
        for port in self.ports:
            if port.name == name:
                return port
        raise ModelError(
            f"the flexible body has no port {name!r}. "
            + did_you_mean(name, [port.name for port in self.ports])
        )

    def port_pose(self, name: str, eta: ArrayLike) -> Pose:
        """Pose of a port in the body frame at modal coordinates `eta` (n,).

        R_c = R(quaternion (1, g)) R_0 with g = ½ Π_ω η, p_c = r_0 + Π_v η + ½ η* Ψ_v η.
        """
        port, x = self.port(name), self._coordinates(eta)
        if x.shape != (self.modes,) or x.dtype.kind == "c":
            raise ModelError(
                f"port_pose takes one set of {self.modes} real modal coordinates, but eta has "
                f"shape {x.shape} and type {x.dtype}."
            )
        g = skew(port.turns @ x / 2)
        R = np.eye(3) + 2 / (1 - np.trace(g @ g) / 2) * (g + g @ g)
        return Pose(R @ port.rotation, port.position + (port.moves + port.shortening @ x / 2) @ x)

    def _coordinates(self, eta: ArrayLike) -> NDArray[Any]:
        x = np.asarray(eta)
        x = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, copy=False)
        if x.ndim == 0 or x.shape[-1] != self.modes:
            raise ModelError(
                f"eta must have shape (..., {self.modes}), one coordinate per mode, but its shape "
                f"is {x.shape}."
            )
        return x

    def _check_positive(self) -> None:
        if not np.isfinite(self.mass) or self.mass < 0:
            raise ModelError(f"FlexibleInertia: mass must be finite and ≥ 0, not {self.mass:g} kg.")
        for name, least in (("modal_mass", True), ("stiffness", False), ("damping", False)):
            values = np.linalg.eigvalsh(_scaled(getattr(self, name)))
            if values[0] < -_ROUNDING or (least and values[0] <= 1e-14):
                raise ModelError(
                    f"FlexibleInertia: {name} is not positive {'' if least else 'semi'}definite "
                    f"(smallest eigenvalue {values[0]:.3g} after scaling its diagonal to 1)"
                    + (
                        ", so two modes are equal up to a factor or a mode moves no mass. Leave "
                        "one of them out."
                        if least
                        else ", so the body would gain energy without end. Was a sign lost?"
                    )
                )
        lowest = np.linalg.eigvalsh(_scaled(self.inertia_at(np.zeros(self.modes))))[0]
        if lowest < -_ROUNDING:
            raise ModelError(
                f"FlexibleInertia: M(0) has a negative eigenvalue ({lowest:.3g} after scaling its "
                f"diagonal to 1): no body has this mass, rotational_inertia, S1, C0 and modal_mass "
                f"together. rotational_inertia and C0 are about the body origin, not about the "
                f"mass centre."
            )

    def _key(self) -> tuple[Any, ...]:
        return (self.mass, *(getattr(self, x).tobytes() for x in _ARRAYS), self.ports)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, ({x: getattr(self, x) for x in self.__slots__},)

    def __repr__(self) -> str:
        low, high = self.frequencies[[0, -1]]
        ports = ", ".join(repr(port.name) for port in self.ports) or "none"
        return (
            f"FlexibleInertia(mass={self.mass:g} kg, {self.modes} modes of {low:.4g} to "
            f"{high:.4g} rad/s, ports: {ports})"
        )


def _restore(arguments: dict[str, Any]) -> FlexibleInertia:
    return FlexibleInertia(**arguments)


def _numbers(values: Any) -> FloatArray:
    try:
        return np.zeros(0) if values is None else np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"FlexibleInertia: {values!r} is not an array of numbers.") from error


def _array(
    who: str, name: str, given: Any, n: int, axes: str, symmetric: tuple[tuple[int, int], ...]
) -> FloatArray:
    """The array of a field: zeros if not given, its shape, numbers and symmetry checked."""
    shape = tuple(n if axis == "n" else 3 for axis in axes)
    if given is None:
        return read_only(np.zeros(shape))
    array = _numbers(given)
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


def _checked_ports(ports: Iterable[Port], n: int) -> tuple[Port, ...]:
    found = tuple(ports)
    names: set[str] = set()
    for port in found:
        if not isinstance(port, Port):
            raise ModelError(f"FlexibleInertia: ports must be Port objects, not {port!r}.")
        if port.name in names:
            raise ModelError(f"FlexibleInertia: two ports are called {port.name!r}; rename one.")
        if port.moves.shape[1] not in (0, n):
            raise ModelError(
                f"FlexibleInertia: port {port.name!r} has {port.moves.shape[1]} modes, but the "
                f"body has {n}."
            )
        names.add(port.name)
    return tuple(
        port
        if port.moves.shape[1]
        else Port(port.name, port.rotation, port.position, np.zeros((3, n)))  # fmt: skip
        for port in found
    )


def _scaled(matrix: FloatArray) -> FloatArray:
    """The matrix with its diagonal scaled to 1, so that units of modes play no role."""
    diagonal = np.abs(np.diagonal(matrix))
    size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    return matrix / size / size[:, None]


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
