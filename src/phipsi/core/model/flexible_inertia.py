"""FlexibleInertia: the inertia, stiffness and ports of a body that deforms in a few modes.

Formulas: docs/theory/flexible-bodies.md. Design: docs/decisions/0055.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model.argument_checks import as_floats, as_numbers
from phipsi.core.model.flexible_ports import FlexibleShape, Port, checked_array, float_numbers
from phipsi.core.model.flexible_sources import FlexibleSources
from phipsi.core.model.inertia import SpatialInertia, checked_mass
from phipsi.core.model.pose import Pose
from phipsi.core.model.value import PlainValue
from phipsi.core.spatial import skew
from phipsi.errors import FileError, ModelError, did_you_mean, is_a, shown
from phipsi.views import view

FloatArray = NDArray[np.float64]

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


@final
class FlexibleInertia(FlexibleSources, PlainValue):
    """Inertia, elasticity and ports of a flexible body with n modes.

    A material point at r in the undeformed body is at r + Σ φ_i(r) η_i + ½ Σ ψ_ij(r) η_i η_j; η are
    the modal coordinates. All numbers are in SI units and body axes, about the body origin, which
    is the outboard frame of the inboard joint; no mode moves or turns it. Invariants that are not
    given are zero, except `modal_mass` and `stiffness`, which are required. `FlexibleInertia.beam`,
    `.from_matrices` and `.from_mesh` compute them. The arrays are checked once, here: shapes,
    symmetry, finite numbers, positive modal mass, and that M(0) is not indefinite.

    Parameters
    ----------
    mass : float
        m, kg.
    first_moment : array_like, shape (3,), optional
        s_0 = ∫ r dm.
    rotational_inertia : array_like, shape (3, 3), optional
        J_0, moment of inertia about the origin.
    modal_mass : array_like, shape (n, n)
        M_e = ∫ φ_i · φ_j dm, positive definite.
    stiffness : array_like, shape (n, n)
        K_e; elastic forces are −K_e η.
    damping : array_like, shape (n, n), optional
        C_e; damping forces are −C_e η̇.
    S1 : array_like, shape (3, n), optional
        S_1 = ∫ φ_i dm.
    S2 : array_like, shape (3, n, n), optional
        S_2 = ∫ ψ_ij dm.
    J1 : array_like, shape (3, 3, n), optional
        J_1, first-order change of the moment of inertia.
    J2 : array_like, shape (3, 3, n, n), optional
        J_2, second-order change of the moment of inertia.
    C0 : array_like, shape (3, n), optional
        C_0 = ∫ r × φ_i dm, angular momentum of each mode.
    C1 : array_like, shape (3, n, n), optional
        Its change C_1,ij = `C1[:, i, j]` = ∫ (φ_j × φ_i + r × ψ_ij) dm.
    ports : iterable of Port, optional
        Places where other bodies attach.
    shape : FlexibleShape, optional
        For drawing.

    Notes
    -----
    **Source:** JR92.

    Examples
    --------
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
        kilograms = checked_mass(mass, "FlexibleInertia")
        moment = float_numbers(rotational_inertia)
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
        given_shape = float_numbers(modal_mass).shape
        n = given_shape[-1] if len(given_shape) == 2 else 0
        if not n:
            raise ModelError(
                f"FlexibleInertia: modal_mass must be a matrix (n, n) with n ≥ 1 modes, but its "
                f"shape is {given_shape}. A body without modes is a SpatialInertia."
            )
        who = "FlexibleInertia: "
        arrays = {
            name: checked_array(who, name, given[name], n, *_ARRAYS[name]) for name in _ARRAYS
        }
        self._set(mass=kilograms, **arrays, ports=_checked_ports(ports, n), shape=shape)
        if shape is not None and shape.modes.shape[-1] != n:
            raise ModelError(
                f"FlexibleInertia: shape has {shape.modes.shape[-1]} modes, but the body has {n}."
            )
        self._check_positive()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the body to an .npz archive of plain arrays, described in docs/flexible.md."""
        arguments = self.as_arguments()
        arguments["ports"] = [port.as_arguments() for port in self.ports]
        arguments["shape"] = self.shape and self.shape.as_arguments()
        view("write flexible body")(path, arguments)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, max_bytes: int = 2_000_000_000
    ) -> FlexibleInertia:
        """Read a body that `save` has written; the numbers are checked as if typed.

        Parameters
        ----------
        path : str or path
            The file.
        max_bytes : int, optional
            Reject files whose arrays have more. Default: 2·10⁹.

        Returns
        -------
        FlexibleInertia
            The body.

        Raises
        ------
        FileError
            With the array that is wrong.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import phipsi as pp
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "boom.npz"
        >>> boom = pp.FlexibleInertia.beam(10.0, 1.2, 1.4e4)
        >>> boom.save(file)
        >>> pp.FlexibleInertia.load(file) == boom
        True
        """
        arguments = view("read flexible body")(path, max_bytes)
        try:
            return cls._of(arguments)
        except ModelError as error:
            raise FileError(os.fspath(path), 1, "", str(error)) from error
        except Exception as error:  # whatever NumPy makes of numbers that no body has
            reason = f"no flexible body has these arrays: {type(error).__name__}: {shown(error)}"
            raise FileError(os.fspath(path), 1, "", reason) from error

    @classmethod
    def _of(cls, arguments: dict[str, Any]) -> Self:
        """From the arrays that `phipsi.flexible` computes."""
        ports = [Port(**port) for port in arguments["ports"]]
        shape = arguments.get("shape")
        drawn = None if shape is None else FlexibleShape(**shape)
        made: dict[str, Any] = {"ports": ports, "shape": drawn}
        return cls(**arguments | made)

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

        Parameters
        ----------
        masses : array_like, shape (k,)
            kg.
        points : array_like, shape (k, 3)
            Positions in m, body axes.
        modes : array_like, shape (k, 3, n)
            Displacement φ_i of each point per mode.
        stiffness : array_like, shape (n, n)
            Modal stiffness.
        damping : array_like, shape (n, n), optional
            Modal damping. Default: 0.
        second : array_like, shape (k, 3, n, n), optional
            Second-order displacements ψ_ij. Default: 0.
        inertias : array_like, shape (k, 3, 3), optional
            Moments of inertia of points that rotate, kg·m². Default: 0.
        turns : array_like, shape (k, 3, n), optional
            Their rotations per mode, rad. Default: 0.
        ports : iterable of Port, optional
            Places where other bodies attach.
        shape : FlexibleShape, optional
            For drawing.

        Returns
        -------
        FlexibleInertia
            The body.

        Notes
        -----
        **Cost:** O(k n²). **Source:** theory/flexible-bodies 2.

        Examples
        --------
        A mass of 2 kg on a spring, at 1 m from the joint:

        >>> import phipsi as pp
        >>> body = pp.FlexibleInertia.from_points(
        ...     [2.0], [(1, 0, 0)], [[[0], [1], [0]]], stiffness=[[50.0]]
        ... )
        >>> body.frequencies.round(9).tolist(), float(body.inertia_at([0.1])[2, 6])
        ([5.0], 2.0)
        """
        shapes = float_numbers(modes)
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
            found = None if given is None else float_numbers(given)
            if found is not None and (found.shape != size or not np.isfinite(found).all()):
                raise ModelError(
                    f"FlexibleInertia.from_points: {name} must be finite numbers of shape "
                    f"{size}, with k = {k} points and n = {n} modes as in modes (k, 3, n); its "
                    f"shape is {found.shape}."
                )
            arrays[name] = found
        return cls(
            **view("invariants of points")(**arrays),
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

        Parameters
        ----------
        eta : array_like, shape (..., n)
            Modal coordinates, real or complex.

        Returns
        -------
        ndarray, shape (..., 6 + n, 6 + n)
            Symmetric, SI, body axes about the body origin.

        Notes
        -----
        M(η) = [[J, s~, C], [−s~, m I, S], [C*, S*, M_e]] with s = s_0 + S_1 η + ½ η* S_2 η, S = S_1
        + S_2 η, J = J_0 + J_1 η + ½ η* J_2 η, C_i = C_0,i + Σ_j C_1,ij η_j. **Cost:** about 15 n²
        flops. **Source:** theory/flexible-bodies 2.
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
        """Pose of a port in the body frame at given modal coordinates.

        R_c = R(quaternion (1, g)) R_0 with g = ½ Π_ω η, p_c = r_0 + Π_v η + ½ η* Ψ_v η.

        Parameters
        ----------
        name : str
            The port.
        eta : array_like, shape (n,)
            Modal coordinates.

        Returns
        -------
        Pose
            The pose.
        """
        port, x = self.port(name), self._coordinates(eta)
        if x.shape != (self.modes,) or x.dtype.kind == "c":
            raise ModelError(
                f"port_pose takes one set of {self.modes} real modal coordinates, but eta has "
                f"shape {x.shape} and type {x.dtype}."
            )
        return Pose(*port.pose_at(x))

    def _coordinates(self, eta: ArrayLike) -> NDArray[Any]:
        x = as_numbers("eta", eta)
        x = x if x.dtype.kind == "c" else as_floats("eta", x)
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
                        ", so two modes are equal up to a factor or a mode moves no mass. Remove "
                        "one of them."
                        if least
                        else ", so the body would gain energy indefinitely. Is a sign wrong?"
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

    def __repr__(self) -> str:
        low, high = self.frequencies[[0, -1]]
        ports = ", ".join(repr(port.name) for port in self.ports) or "none"
        return (
            f"FlexibleInertia(mass={self.mass:g} kg, {self.modes} modes of {low:.4g} to "
            f"{high:.4g} rad/s, ports: {ports})"
        )


def _checked_ports(ports: Iterable[Port], n: int) -> tuple[Port, ...]:
    found = tuple(ports)
    names: set[str] = set()
    for port in found:
        if not is_a(port, Port):
            raise ModelError(f"FlexibleInertia: ports must be Port objects, not {port!r}.")
        if port.name in names:
            raise ModelError(f"FlexibleInertia: two ports are named {port.name!r}; rename one.")
        count = port.translation_modes.shape[1]
        if count not in (0, n):
            raise ModelError(
                f"FlexibleInertia: port {port.name!r} has {count} modes, but the body has {n}."
            )
        names.add(port.name)
    return tuple(
        port
        if port.translation_modes.shape[1]
        else Port(port.name, port.rotation, port.position, np.zeros((3, n)))  # fmt: skip
        for port in found
    )


def _scaled(matrix: FloatArray) -> FloatArray:
    """The matrix with its diagonal scaled to 1, so that units of modes play no role."""
    diagonal = np.abs(np.diagonal(matrix))
    size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    return matrix / size / size[:, None]
