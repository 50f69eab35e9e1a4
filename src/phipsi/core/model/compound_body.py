"""Bodies whose further rows are any functions of their coordinates: several bodies taken as one.

Bodies in a closed loop move against the body that carries them with fewer rates than they have
joints. Taken together they are one body with a row for each of these rates, as a flexible body has
one for each mode: V(k) = [ω; v; rates], where ω and v are those of the frame that carries them. Its
inertia and its ports, on which other bodies sit, depend on the coordinates in some way that a class
derived from `CompoundBody` knows. Operations, dense formulas and the compiler ask it, and know
nothing else of the feature.

Coordinates may be more than rates: those that the loop decides are kept beside those that are free,
so that no formula has to close a loop.

Reasons: docs/decisions/0076.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.spatial import LieGroup
from phipsi.errors import ModelError

if TYPE_CHECKING:
    from phipsi.core.model.inertia import SpatialInertia


class CompoundPort(ABC):
    """A frame of a compound body on which other bodies may sit.

    The methods for programs are written once for any scalar, with the arithmetic `a` of a backend
    at the body that sits on the port. `params` are its numbers, `q` the coordinates of the compound
    body.

    Attributes
    ----------
    name : str
        Unique within the body.
    numbers : tuple of float
        What `at` and `along` need of the model; they follow the parameters of the joint.
    formulas : str
        What they depend on besides: ports with the same text share their code.
    modes, places : int
        Rates and coordinates of the compound body.
    """

    name: str
    numbers: tuple[float, ...]
    formulas: str
    modes: int
    places: int

    @abstractmethod
    def at(self, a: Any, params: Sequence[Any], q: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Rotation, origin and Π (a motion for each rate, in the axes of the parent)."""

    @abstractmethod
    def bias(self, a: Any, params: Sequence[Any], q: Sequence[Any], rate: Sequence[Any]) -> Any:
        """[ω; v] and R d/dt(R* [ω; v]) at constant rates: motion of the port, and how it changes.

        In the axes of the parent, at the port.
        """

    @abstractmethod
    def along(
        self, a: Any, params: Sequence[Any], q: Sequence[Any], directions: Sequence[Sequence[Any]]
    ) -> list[list[Any]]:
        """F = [X_c; Π*] differentiated along rates, one direction after the other."""

    @property
    @abstractmethod
    def degree(self) -> int:
        """A bound of the degrees of the pose and of Π; see `CompoundBody.degree`."""

    @abstractmethod
    def pose_at(self, q: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rotation and origin, for pictures."""

    @abstractmethod
    def dense_motion(self, c: Any, k: int, along: Sequence[Any] = ()) -> Any:
        """F = [X_c; Π*] of the port that body k sits on, or its change, for `pp.evaluate_dense`.

        It is written without the operations, which it checks.
        """

    @abstractmethod
    def dense_bias(self, c: Any, k: int, rate: Any) -> Any:
        """Π̇ times the rates, Π in the axes of the port."""


class CompoundBody(ABC):
    """Several bodies taken as one. A hashable value.

    Attributes
    ----------
    modes, places : int
        How many rates and how many coordinates.
    ports : tuple of CompoundPort
        Where other bodies may sit.
    numbers : tuple of float
        What programs need of the model; they follow the parameters of the joint.
    formulas : str
        What they depend on besides: bodies with the same text share their code.
    coordinate_names : tuple of str
        A short name for each coordinate.
    group : LieGroup
        How coordinates move with rates.
    rigid : SpatialInertia
        Inertia at the coordinates that are neutral.
    """

    __slots__ = ()
    modes: int
    places: int
    ports: tuple[CompoundPort, ...]
    numbers: tuple[float, ...]
    formulas: str
    coordinate_names: tuple[str, ...]
    group: LieGroup
    rigid: SpatialInertia

    @property
    def stiffness(self) -> NDArray[np.float64]:
        """K_e, which is zero: nothing is elastic."""
        return np.zeros((self.modes, self.modes))

    @property
    def damping(self) -> NDArray[np.float64]:
        """C_e, which is zero."""
        return np.zeros((self.modes, self.modes))

    def port(self, name: str) -> CompoundPort:
        """The port of this name."""
        return next(port for port in self.ports if port.name == name)

    def trouble(self, q: NDArray[Any]) -> str:
        """What keeps the body from moving at coordinates q, and what to do; "" if nothing."""
        return ""

    # ---- programs --------------------------------------------------------------------------------

    @abstractmethod
    def q_rate(
        self, params: Sequence[Any], q: Sequence[Any], v: Sequence[Any], ops: Any
    ) -> list[Any]:
        """q̇ of all coordinates, from the rates."""

    @abstractmethod
    def inertia(self, a: Any) -> Any:
        """M(q), a symmetric block of 6 + n rows."""

    @abstractmethod
    def inertia_along(self, a: Any, directions: Sequence[Sequence[Any]]) -> list[Any]:
        """The lower half of Ṁ{…}, along rates, one direction after the other."""

    @abstractmethod
    def second(self, a: Any, given: Sequence[Sequence[Any]], y: Any, z: Any) -> list[Any]:
        """The lower half of z* Ṁ{s; t; …} y by s and t, zeros for rigid motions."""

    @abstractmethod
    def gyroscopic(self, a: Any, V: Sequence[Any]) -> Any:
        """b, from the motion [ω; v; rates]."""

    # ---- exact proofs ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def degree(self) -> int:
        """A bound of the degrees of numerators and denominators of M, of motions and of ports.

        As rational functions of all numbers, of coordinates and of tangents of half angles.
        """

    @abstractmethod
    def exact(self, numbers: Any, params: Any) -> CompoundBody:
        """The same body with exact numbers, none of which is known when code is written.

        Parameters
        ----------
        numbers : object
            What makes them: `rotation`, `any`, `inertia` and `where_any` of an array.
        params : callable
            The exact parameters of a joint.

        Returns
        -------
        CompoundBody
            The body.
        """

    # ---- elsewhere -------------------------------------------------------------------------------

    @abstractmethod
    def random(self, rng: np.random.Generator, batch: tuple[int, ...]) -> NDArray[np.float64]:
        """Random coordinates at which its loops are closed."""

    @abstractmethod
    def dense_inertia(self, c: Any, k: int, along: Sequence[Any] = ()) -> Any:
        """M(k), or its change along rates, as a matrix for `pp.evaluate_dense`.

        It is written without the operations, which it checks.
        """


def reject_compound(bodies: Iterable[Any], what: str) -> None:
    """Raise a ModelError if one of the bodies has embedded loops; `what` would need them apart."""
    for body in bodies:
        if isinstance(body.flexible, CompoundBody):
            raise ModelError(
                f"{what} does not support embedded loops: {body.name!r} is several bodies taken as "
                "one. Use the system that was embedded, and embed it again afterwards:\n"
                "    pp.embed_constraints(embedded.system, q)"
            )


def compound_of(joint: Any) -> Any:
    """The `CompoundBody` behind a joint, or None."""
    body = getattr(joint, "inertia", None)
    return body if isinstance(body, CompoundBody) else None


def compound_port_of(joint: Any) -> Any:
    """The `CompoundPort` that a joint sits on, or None."""
    port = getattr(joint, "port", None)
    return port if isinstance(port, CompoundPort) else None
