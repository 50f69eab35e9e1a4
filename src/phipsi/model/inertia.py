"""SpatialInertia: mass, mass centre and moment of inertia of one rigid body."""

from __future__ import annotations

from typing import Any, Unpack, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import ModelError
from phipsi.loaded import display
from phipsi.model import solids
from phipsi.model.numbers import as_floats
from phipsi.model.pose import Pose
from phipsi.model.value import Value, plain, read_only, vector3
from phipsi.spatial import skew


@final
class SpatialInertia(Value):
    """Inertia of a rigid body in its body frame B.

    **Arguments:** `mass` in kg; `com_B`, the mass centre from the body origin, in m, body axes;
    the moment of inertia in kg·m², body axes, either about the mass centre
    (`moment_about_com_B=`) or about the body origin (`moment_about_origin_B=`), as a scalar
    (times the identity), three diagonal entries, or a symmetric 3×3 matrix whose off-diagonal
    entries are those of the matrix (minus the products of inertia).

    The numbers are kept as given. Whether a rigid body can have them is checked by
    `ModelBuilder.build`, which knows the body's name.
    """

    __slots__ = ("mass", "com_B", "_about_com", "_moment")
    mass: float
    com_B: NDArray[np.float64]
    _about_com: bool
    _moment: NDArray[np.float64]

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
        try:
            kilograms = float(mass)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"SpatialInertia: mass must be a number in kg, not {mass!r}."
            ) from error
        about_com = moment_about_origin_B is None
        given = moment_about_com_B if about_com else moment_about_origin_B
        self._set(
            mass=kilograms,
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
    def box(cls, size: ArrayLike, **amount: Unpack[solids.Amount]) -> SpatialInertia:
        """Inertia of a solid box about its centre.

        **Arguments:** `size`, the three edges in m, along the body's axes; either `mass` in kg or
        `density` in kg/m³.

        >>> SpatialInertia.box((0.5, 0.25, 2.0), density=1000.0).mass
        250.0
        """
        return cls._solid(solids.box(size), amount)

    @classmethod
    def sphere(cls, radius: float, **amount: Unpack[solids.Amount]) -> SpatialInertia:
        """Inertia of a solid sphere about its centre; `mass` in kg or `density` in kg/m³.

        >>> float(SpatialInertia.sphere(0.5, mass=10.0).moment_about_com_B[0, 0])
        1.0
        """
        return cls._solid(solids.sphere(radius), amount)

    @classmethod
    def ellipsoid(cls, half_axes: ArrayLike, **amount: Unpack[solids.Amount]) -> SpatialInertia:
        """Inertia of a solid ellipsoid about its centre; `half_axes` in m along the body's axes.

        >>> SpatialInertia.ellipsoid((1, 2, 2), mass=5.0).moment_about_com_B.diagonal().tolist()
        [8.0, 5.0, 5.0]
        """
        return cls._solid(solids.ellipsoid(half_axes), amount)

    @classmethod
    def cylinder(
        cls,
        radius: float,
        length: float,
        **amount: Unpack[solids.Amount],
    ) -> SpatialInertia:
        """Inertia of a solid cylinder about its centre, its axis along z.

        >>> float(SpatialInertia.cylinder(2.0, 3.0, mass=4.0).moment_about_com_B[2, 2])
        8.0
        """
        return cls._solid(solids.cylinder(radius, length), amount)

    @classmethod
    def tube(
        cls,
        radius: float,
        inner_radius: float,
        length: float,
        **amount: Unpack[solids.Amount],
    ) -> SpatialInertia:
        """Inertia of a tube about its centre, its axis along z; a thin shell has equal radii.

        >>> float(SpatialInertia.tube(2.0, 2.0, 3.0, mass=4.0).moment_about_com_B[2, 2])
        16.0
        """
        return cls._solid(solids.tube(radius, inner_radius, length), amount)

    @classmethod
    def capsule(
        cls,
        radius: float,
        length: float,
        **amount: Unpack[solids.Amount],
    ) -> SpatialInertia:
        """Inertia of a capsule about its centre, its axis along z.

        `length` is that of the cylinder between the two half spheres.

        >>> SpatialInertia.capsule(0.5, 0.0, mass=10.0) == SpatialInertia.sphere(0.5, mass=10.0)
        True
        """
        return cls._solid(solids.capsule(radius, length), amount)

    @classmethod
    def cone(
        cls,
        radius: float,
        height: float,
        **amount: Unpack[solids.Amount],
    ) -> SpatialInertia:
        """Inertia of a solid cone about the centre of its base; the apex is at z = `height`.

        >>> SpatialInertia.cone(1.0, 2.0, mass=10.0).com_B.tolist()
        [0.0, 0.0, 0.5]
        """
        return cls._solid(solids.cone(radius, height), amount)

    @classmethod
    def mesh(
        cls,
        vertices: ArrayLike,
        faces: ArrayLike,
        **amount: Unpack[solids.Amount],
    ) -> SpatialInertia:
        """Inertia of the solid inside a closed surface of triangles, about the mesh's origin.

        **Arguments:** `vertices` (n, 3) in m; `faces` (m, 3), vertex numbers of each triangle,
        counter-clockwise seen from outside; either `mass` in kg or `density` in kg/m³.
        **Cost:** O(m).

        >>> corners = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
        >>> faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
        >>> SpatialInertia.mesh(corners, faces, density=6.0).mass
        1.0
        """
        return cls._solid(solids.mesh(vertices, faces), amount)

    @classmethod
    def _solid(cls, solid: solids.Solid, amount: solids.Amount) -> SpatialInertia:
        kilograms = solids.mass_of(solid, **amount)
        return cls(kilograms, solid.com, kilograms * solid.unit_moment)

    @property
    def is_about_com(self) -> bool:
        """Whether the moment was given about the mass centre (else about the body origin)."""
        return self._about_com

    @property
    def given_moment_B(self) -> NDArray[np.float64]:
        """Moment as given, about the point that `is_about_com` tells, (3, 3), kg·m²."""
        return self._moment

    @property
    def moment_about_com_B(self) -> NDArray[np.float64]:
        """Moment of inertia about the mass centre, body axes, (3, 3), kg·m²."""
        return self._moment if self._about_com else self._moment - self._steiner()

    @property
    def moment_about_origin_B(self) -> NDArray[np.float64]:
        """Moment of inertia about the body origin, body axes, (3, 3), kg·m²."""
        return self._moment + self._steiner() if self._about_com else self._moment

    @property
    def matrix(self) -> NDArray[np.float64]:
        """M = [[I_O, m p~], [−m p~, m 1]] about the body origin, body axes, shape (6, 6)."""
        M = np.zeros((6, 6))
        M[:3, :3] = self.moment_about_origin_B
        M[:3, 3:] = self.mass * skew(self.com_B)
        M[3:, :3] = M[:3, 3:].T
        M[3:, 3:] = self.mass * np.eye(3)
        return M

    @property
    def parameters(self) -> NDArray[np.float64]:
        """[m, m c (3), Jxx, Jyy, Jzz, Jxy, Jxz, Jyz], J about the origin; M is linear in it."""
        J = self.moment_about_origin_B
        entries = [J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]]
        return np.array([self.mass, *(self.mass * self.com_B), *entries])

    @property
    def is_zero(self) -> bool:
        """Whether mass and moment are exactly zero (the mass centre then has no effect)."""
        return self.mass == 0 and not self._moment.any()

    def transformed(self, X_AB: Pose) -> SpatialInertia:
        """Return the same body's inertia in the frame A that sees B at the pose X_AB.

        Axes and origin become those of A.
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
        if not isinstance(other, SpatialInertia):
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

    def _steiner(self) -> NDArray[np.float64]:
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

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.as_arguments(),)

    _repr_html_ = display

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.as_arguments().items())
        return f"SpatialInertia({arguments})"


def _restore(arguments: dict[str, Any]) -> SpatialInertia:
    return SpatialInertia(**arguments)


def _square(arm: NDArray[np.float64]) -> NDArray[np.float64]:
    """−r~ r~ = (r·r) 1 − r r*."""
    return np.dot(arm, arm) * np.eye(3) - np.outer(arm, arm)


def _com(mass: float, first_moment: NDArray[np.float64]) -> NDArray[np.float64]:
    if mass == 0 and first_moment.any():
        raise ModelError(
            f"SpatialInertia: the first moment m c = {plain(first_moment)} kg·m is not zero "
            f"although the mass is zero, so there is no mass centre. Give the body mass."
        )
    return first_moment / mass if mass else np.zeros(3)


def _moment_matrix(given: Any) -> NDArray[np.float64]:
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
