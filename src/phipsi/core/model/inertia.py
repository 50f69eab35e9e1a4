"""SpatialInertia: mass, mass centre and moment of inertia of one rigid body, also of solids."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypedDict, Unpack, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model.argument_checks import as_floats, floats_of
from phipsi.core.model.pose import Pose
from phipsi.core.model.value import PlainValue, plain, read_only, vector3
from phipsi.core.spatial import skew
from phipsi.errors import ModelError, is_a, real_of
from phipsi.package_state import display

FloatArray = NDArray[np.float64]


class HomogeneousSolid(NamedTuple):
    """A homogeneous solid: volume in m³, mass centre in m, and moment about it per mass, m²."""

    shape: str
    volume: float
    com: FloatArray
    unit_moment: FloatArray


class Amount(TypedDict, total=False):
    """How much there is of a solid: `mass` in kg or `density` in kg/m³, one of them."""

    mass: float
    density: float


@final
class SpatialInertia(PlainValue):
    """Inertia of a rigid body in its body frame B.

    The numbers are kept as given. `ModelBuilder.build`, which has the body's name, checks whether a
    rigid body can have them.

    Parameters
    ----------
    mass : float, optional
        kg. Default: 0.
    com_B : array_like, shape (3,), optional
        Center of mass from the body origin, in m, body axes. Default: the origin.
    moment_about_com_B : array_like, optional
        Moment of inertia about the center of mass, kg·m², body axes: a scalar (times the identity),
        three diagonal entries, or a symmetric 3×3 matrix whose off-diagonal entries are those of
        the matrix (minus the products of inertia). Default: 0.
    moment_about_origin_B : array_like, optional
        The same about the body origin; give one of the two.

    Examples
    --------
    >>> import phipsi as pp
    >>> rod = pp.SpatialInertia(mass=1.0, com_B=(0.5, 0, 0), moment_about_com_B=(0, 0.1, 0.1))
    >>> rod.moment_about_origin_B.diagonal().tolist()
    [0.0, 0.35, 0.35]
    """

    __slots__ = ("mass", "com_B", "_about_com", "_moment")
    mass: float
    com_B: FloatArray
    _about_com: bool
    _moment: FloatArray

    def __init__(
        self,
        mass: float = 0,
        com_B: ArrayLike = (0, 0, 0),
        moment_about_com_B: ArrayLike | None = None,
        *,
        moment_about_origin_B: ArrayLike | None = None,
    ):
        if moment_about_com_B is not None and moment_about_origin_B is not None:
            raise ModelError(
                "SpatialInertia: give the moment of inertia once, either moment_about_com_B= "
                "(about the mass centre) or moment_about_origin_B= (about the body origin)."
            )
        about_com = moment_about_origin_B is None
        given = moment_about_com_B if about_com else moment_about_origin_B
        self._set(
            mass=checked_mass(mass, "SpatialInertia"),
            com_B=vector3(com_B, "SpatialInertia com_B"),
            _about_com=about_com,
            _moment=_moment_matrix(0 if given is None else given),
        )

    @classmethod
    def from_parameters(cls, parameters: ArrayLike) -> SpatialInertia:
        """Inverse of `parameters`: [m, m c (3), Jxx, Jyy, Jzz, Jxy, Jxz, Jyz] about the origin."""
        values = as_floats("SpatialInertia.from_parameters: parameters", parameters)
        if values.shape != (10,):
            raise ModelError(
                "SpatialInertia.from_parameters takes 10 numbers [m, mcx, mcy, mcz, Jxx, Jyy, "
                f"Jzz, Jxy, Jxz, Jyz], but the shape is {values.shape}."
            )
        mass, first = values[0], values[1:4]
        xx, yy, zz, xy, xz, yz = values[4:]
        return cls(
            mass,
            _com(float(mass), first),
            moment_about_origin_B=[[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]],
        )

    @classmethod
    def box(cls, size: ArrayLike, **amount: Unpack[Amount]) -> SpatialInertia:
        """Inertia of a solid box about its centre.

        Parameters
        ----------
        size : array_like, shape (3,)
            Edge lengths in m, along the body's axes.
        **amount
            Either `mass` in kg or `density` in kg/m³.

        Examples
        --------
        >>> SpatialInertia.box((0.5, 0.25, 2.0), density=1000.0).mass
        250.0
        """
        a, b, c = _sizes("box", "size", size)
        solid = _symmetric("box", a * b * c, np.array([a * a, b * b, c * c]) / 12)
        return cls._solid(solid, amount)

    @classmethod
    def sphere(cls, radius: float, **amount: Unpack[Amount]) -> SpatialInertia:
        """Inertia of a solid sphere about its centre; `mass` in kg or `density` in kg/m³.

        >>> float(SpatialInertia.sphere(0.5, mass=10.0).moment_about_com_B[0, 0])
        1.0
        """
        r = _size("sphere", "radius", radius)
        solid = _symmetric("sphere", 4 / 3 * math.pi * r**3, np.full(3, r * r / 5))
        return cls._solid(solid, amount)

    @classmethod
    def ellipsoid(cls, radii: ArrayLike, **amount: Unpack[Amount]) -> SpatialInertia:
        """Inertia of a solid ellipsoid about its centre.

        Parameters
        ----------
        radii : array_like, shape (3,)
            Half axes in m, along the body's axes.
        **amount
            Either `mass` in kg or `density` in kg/m³.

        Examples
        --------
        >>> SpatialInertia.ellipsoid((1, 2, 2), mass=5.0).moment_about_com_B.diagonal().tolist()
        [8.0, 5.0, 5.0]
        """
        a, b, c = _sizes("ellipsoid", "radii", radii)
        volume = 4 / 3 * math.pi * a * b * c
        solid = _symmetric("ellipsoid", volume, np.array([a * a, b * b, c * c]) / 5)
        return cls._solid(solid, amount)

    @classmethod
    def cylinder(
        cls,
        radius: float,
        length: float,
        **amount: Unpack[Amount],
    ) -> SpatialInertia:
        """Inertia of a solid cylinder about its centre, its axis along z.

        >>> float(SpatialInertia.cylinder(2.0, 3.0, mass=4.0).moment_about_com_B[2, 2])
        8.0
        """
        r, L = _size("cylinder", "radius", radius), _size("cylinder", "length", length)
        solid = _symmetric("cylinder", math.pi * r * r * L, _round(r * r / 4, L * L / 12))
        return cls._solid(solid, amount)

    @classmethod
    def tube(
        cls,
        radius: float,
        inner_radius: float,
        length: float,
        **amount: Unpack[Amount],
    ) -> SpatialInertia:
        """Inertia of a tube about its centre, its axis along z; a thin shell has equal radii.

        >>> float(SpatialInertia.tube(2.0, 2.0, 3.0, mass=4.0).moment_about_com_B[2, 2])
        16.0
        """
        R, L = _size("tube", "radius", radius), _size("tube", "length", length)
        r = _size("tube", "inner_radius", inner_radius, least=0.0)
        if r > R:
            raise ModelError(
                f"SpatialInertia.tube: the inner radius {r:g} m is larger than the radius {R:g} m."
            )
        volume = math.pi * (R * R - r * r) * L
        solid = _symmetric("tube", volume, _round((R * R + r * r) / 4, L * L / 12))
        return cls._solid(solid, amount)

    @classmethod
    def capsule(
        cls,
        radius: float,
        length: float,
        **amount: Unpack[Amount],
    ) -> SpatialInertia:
        """Inertia of a capsule about its centre, its axis along z.

        Parameters
        ----------
        radius : float
            m.
        length : float
            Length in m of the cylinder between the two half spheres.
        **amount
            Either `mass` in kg or `density` in kg/m³.

        Examples
        --------
        >>> SpatialInertia.capsule(0.5, 0.0, mass=10.0) == SpatialInertia.sphere(0.5, mass=10.0)
        True
        """
        r, L = _size("capsule", "radius", radius), _size("capsule", "length", length, least=0.0)
        tube, ball = math.pi * r * r * L, 4 / 3 * math.pi * r**3
        share = ball / (tube + ball)
        across = (1 - share) * r * r / 4 + share * r * r / 5
        # ∫ z² over a half sphere of radius r on the plane z = L/2, per volume
        cap = L * L / 4 + 2 * (L / 2) * (3 / 8 * r) + r * r / 5
        along = (1 - share) * L * L / 12 + share * cap
        solid = _symmetric("capsule", tube + ball, _round(across, along))
        return cls._solid(solid, amount)

    @classmethod
    def cone(
        cls,
        radius: float,
        height: float,
        **amount: Unpack[Amount],
    ) -> SpatialInertia:
        """Inertia of a solid cone about the centre of its base; the apex is at z = `height`.

        >>> SpatialInertia.cone(1.0, 2.0, mass=10.0).com_B.tolist()
        [0.0, 0.0, 0.5]
        """
        r, h = _size("cone", "radius", radius), _size("cone", "height", height)
        second = _round(3 / 20 * r * r, 3 / 80 * h * h)
        solid = _symmetric("cone", math.pi * r * r * h / 3, second)
        solid = solid._replace(com=np.array([0.0, 0.0, h / 4]))
        return cls._solid(solid, amount)

    @classmethod
    def mesh(
        cls,
        vertices: ArrayLike,
        faces: ArrayLike,
        **amount: Unpack[Amount],
    ) -> SpatialInertia:
        """Inertia of the solid inside a closed surface of triangles, about the mesh's origin.

        Parameters
        ----------
        vertices : array_like, shape (n, 3)
            Positions in m.
        faces : array_like of int, shape (m, 3)
            Vertex numbers of each triangle, counter-clockwise seen from outside.
        **amount
            Either `mass` in kg or `density` in kg/m³.

        Notes
        -----
        **Cost:** O(m).

        Examples
        --------
        >>> corners = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
        >>> faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
        >>> SpatialInertia.mesh(corners, faces, density=6.0).mass
        1.0
        """
        return cls._solid(_enclosed(vertices, faces), amount)

    @classmethod
    def _solid(cls, solid: HomogeneousSolid, amount: Amount) -> SpatialInertia:
        kilograms = _mass_of(solid, **amount)
        return cls(kilograms, solid.com, kilograms * solid.unit_moment)

    @property
    def is_about_com(self) -> bool:
        """Whether the moment was given about the mass centre (else about the body origin)."""
        return self._about_com

    @property
    def given_moment_B(self) -> FloatArray:
        """Moment as given, about the point that `is_about_com` tells, (3, 3), kg·m²."""
        return self._moment

    @property
    def moment_about_com_B(self) -> FloatArray:
        """Moment of inertia about the mass centre, body axes, (3, 3), kg·m²."""
        return self._moment if self._about_com else self._moment - self._steiner()

    @property
    def moment_about_origin_B(self) -> FloatArray:
        """Moment of inertia about the body origin, body axes, (3, 3), kg·m²."""
        return self._moment + self._steiner() if self._about_com else self._moment

    @property
    def matrix(self) -> FloatArray:
        """M = [[I_O, m p~], [−m p~, m 1]] about the body origin, body axes, shape (6, 6)."""
        M = np.zeros((6, 6))
        M[:3, :3] = self.moment_about_origin_B
        M[:3, 3:] = self.mass * skew(self.com_B)
        M[3:, :3] = M[:3, 3:].T
        M[3:, 3:] = self.mass * np.eye(3)
        return M

    @property
    def parameters(self) -> FloatArray:
        """[m, m c (3), Jxx, Jyy, Jzz, Jxy, Jxz, Jyz], J about the origin; M is linear in it."""
        J = self.moment_about_origin_B
        entries = [J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]]
        return np.array([self.mass, *(self.mass * self.com_B), *entries])

    @property
    def is_zero(self) -> bool:
        """Whether mass and moment are exactly zero (the mass centre then has no effect)."""
        return self.mass == 0 and not self._moment.any()

    def transformed(self, X_AB: Pose) -> SpatialInertia:
        """Return the same body's inertia in the axes and about the origin of another frame A.

        Parameters
        ----------
        X_AB : Pose
            Pose of the present frame B in A.

        Returns
        -------
        SpatialInertia
            The inertia in A.
        """
        if X_AB.is_identity:
            return self
        R = X_AB.rotation
        moment = R @ self.moment_about_com_B @ R.T
        return SpatialInertia(self.mass, X_AB.apply(self.com_B), (moment + moment.T) / 2)

    def scaled(self, factor: float) -> SpatialInertia:
        """Return the inertia of the same shape with its density multiplied by `factor`."""
        moment = {self._moment_name: self._moment * factor}
        return SpatialInertia(self.mass * factor, self.com_B, **moment)

    def __add__(self, other: SpatialInertia) -> SpatialInertia:
        if not is_a(other, SpatialInertia):
            return NotImplemented
        if other.is_zero:
            return self
        if self.is_zero:
            return other
        mass = self.mass + other.mass
        com = _com(mass, self.mass * self.com_B + other.mass * other.com_B)
        moment = np.zeros((3, 3))
        for part in (self, other):
            arm = part.com_B - com
            moment += part.moment_about_com_B + part.mass * _square(arm)
        return SpatialInertia(mass, com, moment)

    @property
    def _moment_name(self) -> str:
        return "moment_about_com_B" if self._about_com else "moment_about_origin_B"

    def _steiner(self) -> FloatArray:
        """−m p~ p~, what moving from the mass centre to the origin adds."""
        return self.mass * _square(self.com_B)

    def as_arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments as plain floats and tuples, exactly as given."""
        return {
            "mass": self.mass,
            "com_B": plain(self.com_B),
            self._moment_name: plain(self._moment),
        }

    def _key(self) -> tuple[Any, ...]:
        return tuple(self.as_arguments().items())

    _repr_html_ = display

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.as_arguments().items())
        return f"SpatialInertia({arguments})"


def _square(arm: FloatArray) -> FloatArray:
    """−r~ r~ = (r·r) 1 − r r*."""
    return np.dot(arm, arm) * np.eye(3) - np.outer(arm, arm)


def checked_mass(mass: Any, who: str) -> float:
    """A mass in kg as a float; whether a body can have it is judged later."""
    try:
        return real_of(mass)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{who}: mass must be a number in kg, not {mass!r}.") from error


def _com(mass: float, first_moment: FloatArray) -> FloatArray:
    if mass == 0 and first_moment.any():
        raise ModelError(
            f"SpatialInertia: the first moment m c = {plain(first_moment)} kg·m is not zero "
            f"although the mass is zero, so there is no mass centre. Give the body mass."
        )
    return first_moment / mass if mass else np.zeros(3)


def _moment_matrix(given: Any) -> FloatArray:
    try:
        values = as_floats("moment", given)
    except (TypeError, ValueError) as error:
        raise ModelError(f"SpatialInertia: the moment must be numbers, not {given!r}.") from error
    if values.shape in ((), (3,)):
        return read_only(np.diag(np.broadcast_to(values, 3)))
    if values.shape != (3, 3):
        raise ModelError(
            "SpatialInertia: the moment of inertia must be a scalar, three diagonal entries or a "
            f"3×3 matrix, but its shape is {values.shape}."
        )
    gap = np.abs(values - values.T)
    if (gap > 1e-8 * np.abs(values).max()).any():
        raise ModelError(
            f"SpatialInertia: the moment of inertia {plain(values)} is not symmetric. "
            "Were the six numbers put in the order xx, xy, xz, yy, yz, zz?"
        )
    return read_only((values + values.T) / 2)


# ---- homogeneous solids --------------------------------------------------------------------------


def _mass_of(
    solid: HomogeneousSolid, mass: float | None = None, density: float | None = None
) -> float:
    """Return the mass in kg, given directly or by the density in kg/m³."""
    if (mass is None) == (density is None):
        raise ModelError(
            f"SpatialInertia.{solid.shape}: give either mass= in kg or density= in kg/m³."
        )
    if mass is not None:
        return _size(solid.shape, "mass", mass)
    if not solid.volume:
        raise ModelError(
            f"SpatialInertia.{solid.shape}: it encloses no volume; give mass= instead of density=."
        )
    return _size(solid.shape, "density", density) * solid.volume


def _enclosed(vertices: ArrayLike, faces: ArrayLike) -> HomogeneousSolid:
    """The inside of a closed surface, as signed tetrahedra from a point near its middle."""
    points, corners = _mesh_arrays(vertices, faces)
    _check_closed(corners)
    # Relative to the middle: far from the origin the tetrahedra would cancel digits.
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    a, b, c = ((points - middle)[corners[:, k]] for k in range(3))
    six_volumes = np.einsum("ij,ij->i", a, np.cross(b, c))
    volume = float(six_volumes.sum()) / 6
    if not volume > 0:
        raise ModelError(
            f"SpatialInertia.mesh: the volume inside the surface is {volume:.4g} m³. "
            + (
                "Its triangles run clockwise seen from outside; turn them:\n"
                "    SpatialInertia.mesh(vertices, faces[:, ::-1], ...)"
                if volume < 0
                else "A flat surface encloses nothing."
            )
        )
    total = a + b + c
    com = np.einsum("i,ij->j", six_volumes, total) / (24 * volume)
    second = sum(np.einsum("i,ij,ik->jk", six_volumes, x, x) for x in (a, b, c, total))
    second = second / (120 * volume) - np.outer(com, com)
    return HomogeneousSolid("mesh", volume, com + middle, np.trace(second) * np.eye(3) - second)


def _round(across: float, along: float) -> FloatArray:
    """∫ x², ∫ y², ∫ z² per volume of a solid of revolution about z."""
    return np.array([across, across, along])


def _symmetric(shape: str, volume: float, second: FloatArray) -> HomogeneousSolid:
    """A solid with three planes of symmetry, from ∫ x², ∫ y², ∫ z² per volume."""
    x, y, z = second
    return HomogeneousSolid(shape, volume, np.zeros(3), np.diag([y + z, x + z, x + y]))


_LARGEST = 1e50  # its fifth power is a number still


def _size(shape: str, what: str, value: Any, least: float | None = None) -> float:
    try:
        number = real_of(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"SpatialInertia.{shape}: {what} must be a number, not {value!r}.") from (
            error
        )
    if number > _LARGEST:
        raise ModelError(
            f"SpatialInertia.{shape}: {what}={number:g} is too large to compute with; lengths are "
            "in m, masses in kg, densities in kg/m³."
        )
    if not math.isfinite(number) or (number <= 0 if least is None else number < least):
        bound = "positive" if least is None else f"at least {least:g}"
        raise ModelError(f"SpatialInertia.{shape}: {what} must be {bound}, not {number:g}.")
    return number


def _sizes(shape: str, what: str, values: ArrayLike) -> tuple[float, float, float]:
    lengths = floats_of(values)
    if lengths.shape != (3,):
        raise ModelError(
            f"SpatialInertia.{shape}: {what} must be three lengths in m, not {values!r}."
        )
    a, b, c = (_size(shape, what, x) for x in lengths)
    return a, b, c


def _mesh_arrays(vertices: ArrayLike, faces: ArrayLike) -> tuple[FloatArray, NDArray[np.int64]]:
    points, corners = floats_of(vertices), np.asarray(faces)
    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise ModelError(
            f"SpatialInertia.mesh: vertices must be finite numbers of shape (n, 3), in m; the "
            f"shape is {points.shape}."
        )
    if corners.ndim != 2 or corners.shape[1] != 3 or corners.dtype.kind not in "iu":
        raise ModelError(
            f"SpatialInertia.mesh: faces must be vertex numbers of shape (m, 3); they have shape "
            f"{corners.shape} and type {corners.dtype}."
        )
    if corners.size and not 0 <= corners.min() <= corners.max() < len(points):
        raise ModelError(
            f"SpatialInertia.mesh: faces name vertex {corners.min()} to {corners.max()}, but there "
            f"are the vertices 0 to {len(points) - 1}."
        )
    return points, corners.astype(np.int64)


def _check_closed(corners: NDArray[np.int64]) -> None:
    """Every edge must be run once in each direction, or the surface has no inside."""
    edges = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])
    if not len(edges):
        raise ModelError("SpatialInertia.mesh: there are no faces.")
    there, count = np.unique(edges, axis=0, return_counts=True)
    back = np.unique(edges[:, ::-1], axis=0)
    if len(there) != len(back) or (there != back).any() or (count > 1).any():
        with_gap = {(int(i), int(j)) for i, j in there} ^ {(int(i), int(j)) for i, j in back}
        edge = min(with_gap) if with_gap else tuple(int(i) for i in there[count > 1][0])
        raise ModelError(
            f"SpatialInertia.mesh: the surface is not closed, or its triangles do not all run the "
            f"same way: see the edge between the vertices {edge[0]} and {edge[1]}. Vertices that "
            f"are listed twice must be merged first, for example by trimesh:  "
            f"mesh.merge_vertices()"
        )
