"""Where flexible bodies come from: beams, matrices of finite elements, meshes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

from numpy.typing import ArrayLike

from phipsi.views import view


class FlexibleSources:
    """Constructors of `FlexibleInertia` that compute its modes."""

    __slots__ = ()

    if TYPE_CHECKING:

        @classmethod
        def _of(cls, arguments: dict[str, Any]) -> Self: ...

    @classmethod
    def beam(
        cls,
        length: float,
        mass_per_length: float,
        EI: float | tuple[float, float],
        EA: float = math.inf,
        GJ: float = math.inf,
        *,
        axis: ArrayLike = (1, 0, 0),
        bending_axis: ArrayLike | None = None,
        modes: int = 2,
        stretch_modes: int = 0,
        twist_modes: int = 0,
        max_frequency: float = math.inf,
        damping_ratio: float = 0.0,
        stiffening: bool = True,
        shear_stiffness: float | tuple[float, float] = math.inf,
        rotary_inertia: float | tuple[float, float] = 0.0,
        ports: Mapping[str, float] | None = None,
    ) -> Self:
        """A uniform straight beam from the body origin along `axis`, with a port "tip" at its end.

        In each bending plane there are two static modes (unit deflection and rotation of the tip)
        and `modes` fixed-interface modes; stretch and torsion have one static mode and
        `stretch_modes`, `twist_modes`. The resulting modes are those of the clamped beam in this
        basis, orthonormal in the mass, by ascending frequency.

        Parameters
        ----------
        length : float
            m.
        mass_per_length : float
            kg/m.
        EI : float or (float, float)
            Bending stiffness, N·m². Pairs, here and below, are for the two bending planes.
        EA : float, optional
            Stretch stiffness, N. Default: inf, no stretch.
        GJ : float, optional
            Torsion stiffness, N·m². Default: inf, no torsion.
        axis : array_like, shape (3,), optional
            Direction of the beam. Default: x.
        bending_axis : array_like, shape (3,), optional
            The beam deflects along it in the first bending plane and along axis × bending_axis in
            the second. Default: y for a beam along x, z for y, x for z.
        modes : int, optional
            Fixed-interface modes of each plane. Default: 2.
        stretch_modes, twist_modes : int, optional
            The same of stretch and torsion. Default: 0.
        max_frequency : float, optional
            Modes of the clamped beam above it (rad/s) are omitted. Default: inf.
        damping_ratio : float, optional
            Of every mode. Default: 0.
        stiffening : bool, optional
            Whether to include the shortening of the bent beam, without which it loses its stiffness
            when it spins. Default: True.
        shear_stiffness : float or (float, float), optional
            kGA of a Timoshenko beam, N. Default: inf, Euler–Bernoulli.
        rotary_inertia : float or (float, float), optional
            ρI of the sections, kg·m; their polar inertia is the sum of both and is needed for
            torsion. Default: 0.
        ports : mapping of str to float, optional
            Further ports by name, at fractions of the length.

        Returns
        -------
        FlexibleInertia
            The beam.

        Notes
        -----
        **Cost:** O(modes³). **Source:** Craig–Bampton 1968; theory/flexible-bodies 3 and 7.

        Examples
        --------
        >>> import phipsi as pp
        >>> boom = pp.FlexibleInertia.beam(10.0, 1.2, 1.4e4, modes=4)
        >>> boom
        FlexibleInertia(mass=12 kg, 12 modes of 3.798 to 733.3 rad/s, ports: 'tip')
        >>> exact = 1.8751040687**2 * (1.4e4 / 1.2 / 10**4) ** 0.5
        >>> abs(float(boom.frequencies[0]) / exact - 1) < 1e-5
        True
        """
        return cls._of(
            view("flexible beam")(
                length, mass_per_length, EI, EA, GJ, axis=axis,
                bending_axis=bending_axis, modes=modes,
                stretch_modes=stretch_modes, twist_modes=twist_modes, max_frequency=max_frequency,
                damping_ratio=damping_ratio, stiffening=stiffening,
                shear_stiffness=shear_stiffness, rotary_inertia=rotary_inertia, ports=ports,
            )
        )  # fmt: skip

    @classmethod
    def from_matrices(
        cls,
        mass: Any,
        stiffness: Any,
        nodes: ArrayLike,
        *,
        root: ArrayLike,
        ports: Mapping[str, ArrayLike] = MappingProxyType({}),
        modes: int | ArrayLike = 6,
        max_frequency: float = math.inf,
        damping_ratio: float = 0.0,
        basis: Literal["craig_bampton", "clamped"] = "craig_bampton",
        tie: Any = "rigid",
        positions: Mapping[str, ArrayLike] | None = None,
        triangles: ArrayLike = (),
        progress: Any = None,
    ) -> Self:
        """A flexible body from the mass and stiffness matrices of a finite-element program.

        The modes are orthonormal in the mass, by ascending frequency. There is no second-order
        field: divide a body that spins fast.

        Parameters
        ----------
        mass, stiffness : array_like, shape (3k, 3k) or (6k, 6k)
            Sparse or dense, symmetric, of the free body without supports, with x, y, z of each of k
            nodes, or with rotations too.
        nodes : array_like, shape (k, 3)
            Positions in m, body axes: the joint frame is their origin.
        root : array_like of int
            Numbers of the nodes that the inboard joint holds.
        ports : mapping of str to array_like of int, optional
            Numbers of the nodes of each further interface.
        modes : int or array_like, shape (k, d, n), optional
            How many normal modes; or shapes of your own, from which the motion of the root is
            subtracted. Default: 6.
        max_frequency : float, optional
            Modes above it (rad/s) are omitted. Default: inf.
        damping_ratio : float, optional
            Of every mode. Default: 0.
        basis : {"craig_bampton", "clamped"}, optional
            Six static modes per port and normal modes with the ports held still, exact in statics;
            or normal modes with free ports only. Default: "craig_bampton".
        tie : {"rigid", "mean"} or mapping, optional
            An interface moves as a rigid piece, or its port is the best fit to its nodes; for all
            ports or by port. Default: "rigid".
        positions : mapping of str to array_like, optional
            Positions of ports. Default: the mean of their nodes.
        triangles : array_like of int, shape (t, 3), optional
            Node numbers of the surface, for pictures.
        progress : callable or bool, optional
            As in `simulate`.

        Returns
        -------
        FlexibleInertia
            The body.

        Notes
        -----
        **Cost:** one sparse Cholesky factorization, O(k²) for solids; 100,000 degrees of freedom of
        a cube take 25 s. **Source:** Craig–Bampton 1968; theory/flexible-bodies 7.

        Examples
        --------
        Eight points in two frames, every pair of them joined by a spring:

        >>> import numpy as np, phipsi as pp
        >>> square = np.array([(0, 0), (0, 1), (1, 1), (1, 0)]) - 0.5
        >>> nodes = np.array([(x, *point) for x in (0, 1) for point in square])
        >>> springs = np.zeros((8, 3, 8, 3))
        >>> for i in range(8):
        ...     for j in range(8):
        ...         e = nodes[j] - nodes[i]
        ...         k = 100 * np.outer(e, e) / max(e @ e, 1)
        ...         springs[i, :, i] += k
        ...         springs[i, :, j] -= k
        >>> truss = pp.FlexibleInertia.from_matrices(
        ...     np.eye(24), springs.reshape(24, 24), nodes,
        ...     root=[0, 1, 2, 3], ports={"tip": [4, 5, 6, 7]}, modes=0,
        ... )
        >>> truss
        FlexibleInertia(mass=8 kg, 6 modes of 6.799 to 16.45 rad/s, ports: 'tip')
        """
        return cls._of(
            view("flexible body of matrices")(
                mass, stiffness, nodes, root=root, ports=ports, modes=modes,
                max_frequency=max_frequency, damping_ratio=damping_ratio, basis=basis, tie=tie,
                positions=positions, triangles=triangles, progress=progress,
            )
        )  # fmt: skip

    @classmethod
    def from_mesh(
        cls,
        mesh: Any,
        young: float,
        poisson: float,
        density: float,
        *,
        root: Any,
        ports: Mapping[str, Any] = MappingProxyType({}),
        modes: int = 6,
        order: int = 2,
        origin: ArrayLike = (0, 0, 0),
        scale: float = 1.0,
        **options: Any,
    ) -> Self:
        """A homogeneous elastic solid from a mesh of tetrahedra or hexahedra.

        Needs scikit-fem: ``pip install "phipsi[flexible]"``.

        Parameters
        ----------
        mesh : str, path, meshio.Mesh or skfem.Mesh
            A file that meshio reads, or a mesh.
        young : float
            Young's modulus, Pa.
        poisson : float
            Poisson's ratio.
        density : float
            kg/m³.
        root : callable, str or array_like of int
            The vertices that the inboard joint holds: a function of positions (k, 3), the name of a
            boundary in the mesh, or vertex numbers.
        ports : mapping, optional
            The vertices of each further interface, in the same way.
        modes : int, optional
            As for `from_matrices`. Default: 6.
        order : int, optional
            Order of the displacements in the elements: 1 is far too stiff in bending. Default: 2.
        origin : array_like, shape (3,), optional
            Position of the joint frame in the mesh. Default: its origin.
        scale : float, optional
            Metres per unit of the mesh, applied first. Default: 1.
        **options
            Those of `from_matrices`.

        Returns
        -------
        FlexibleInertia
            The body.

        Notes
        -----
        **Cost:** as `from_matrices`.

        Examples
        --------
        A steel strip that is clamped at one end, against a beam without width:

        >>> import numpy as np, phipsi as pp, skfem
        >>> sides = np.linspace(0, 1, 11), np.linspace(0, 0.05, 2), np.linspace(0, 0.01, 2)
        >>> strip = pp.FlexibleInertia.from_mesh(
        ...     skfem.MeshHex.init_tensor(*sides), 2e11, 0.3, 7800.0,
        ...     root=lambda x: x[:, 0] == 0, ports={"tip": lambda x: x[:, 0] == 1}, modes=2,
        ... )
        >>> beam = pp.FlexibleInertia.beam(1.0, 7800 * 5e-4, 2e11 * 0.05 * 0.01**3 / 12)
        >>> (strip.frequencies[0] / beam.frequencies[0]).round(2).tolist()
        1.01
        """
        parts = view("matrices of a mesh")(
            mesh, young, poisson, density, root=root, ports=ports, order=order, origin=origin,
            scale=scale,
        )  # fmt: skip
        return cls.from_matrices(**parts, modes=modes, **options)
