"""Closed configurations of systems, and the mobility there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.kinematics.step_coordinates import StepCoordinates
from phipsi.core.backends import state_arrays
from phipsi.core.constraints import Constraint, names_of
from phipsi.core.model import (
    Model,
    flat_batch,
)
from phipsi.errors import ConvergenceError, InputError, is_real, is_whole, true_or_false

if TYPE_CHECKING:  # the compiler is loaded when a system is first evaluated, not with its file
    from phipsi.algorithms.constrained.constraint_rows import ClosureRows

Array = NDArray[Any]

POSITION_TOLERANCE = 1e-10
"""Largest residual (rad, m) of an assembled or projected configuration."""


@final
@dataclass(frozen=True)
class Mobility:
    """How many ways a system can move at one configuration.

    Parameters
    ----------
    rates : int
        nv of the tree.
    rows : int
        Number of constraint equations.
    rank : int
        How many of them are independent.
    mobility : int
        Degrees of freedom, rates − rank.
    grubler : int
        Grübler's count, rates − rows, which ignores redundancy.
    redundant : tuple of str
        Names of rows that the others imply.
    smallest : float
        The smallest singular value that counts as independent, relative to the largest: near 0 the
        configuration is close to a singular one.
    """

    rates: int
    rows: int
    rank: int
    mobility: int
    grubler: int
    redundant: tuple[str, ...]
    smallest: float


class LoopSearch:
    """Searches for configurations of a system at which its loops are closed."""

    __slots__ = ()

    if TYPE_CHECKING:
        constraints: tuple[Constraint, ...]
        n_rows: int

        @property
        def model(self) -> Model:
            """The tree of the system."""
            ...

        @property
        def row_names(self) -> tuple[str, ...]:
            """Names of the rows."""
            ...

        @cached_property
        def rows(self) -> ClosureRows:
            """The rows as arrays."""
            ...

    def assemble(
        self,
        q0: ArrayLike | None = None,
        *,
        fixed: Iterable[str] = (),
        limits: bool = True,
        tolerance: float = POSITION_TOLERANCE,
        max_iterations: int = 200,
        restarts: int = 0,
        seed: int = 0,
    ) -> Array:
        """A configuration at which all loops are closed, near a rough one.

        Levenberg–Marquardt in the mass metric, within the joint limits: light parts move rather
        than heavy ones. A closure that would be satisfied only turned over (a hinge with its axes
        against each other) does not count as closed.

        Parameters
        ----------
        q0 : array_like, shape (..., nq), optional
            Where the search begins. Default: the neutral configuration.
        fixed : iterable of str, optional
            Joints that stay as in `q0`. Default: none.
        limits : bool, optional
            Whether to keep the joints' limits. Default: True.
        tolerance : float, optional
            Largest residual in rad and m.
        max_iterations : int, optional
            Most steps of each attempt. Default: 200.
        restarts : int, optional
            How many random initial configurations an element that fails gets. Default: 0.
        seed : int, optional
            Seed of these configurations. Default: 0.

        Returns
        -------
        ndarray, shape (..., nq)
            The configuration.

        Raises
        ------
        ConvergenceError
            If there is no closed configuration nearby. It names the loop, its bodies and the
            distance that remains; its `result` is the best q found.

        Notes
        -----
        **Cost:** per step the Jacobian of the closure frames and an O(nv³) solve. **Source:**
        theory/closed-chains 10.
        """
        from phipsi.algorithms.constrained.assembly import search, why_open

        start, batch = self._flat(self.model.neutral() if q0 is None else q0, real=True)
        _check_search(tolerance=tolerance, max_iterations=max_iterations, restarts=restarts)
        clocks = [c.clock for c in self.constraints if c.clock is not None]
        held = list(dict.fromkeys([*names_of(fixed, "fixed", "['joint1']"), *clocks]))
        limits = true_or_false("limits", limits)
        options: Any = dict(fixed=held, limits=limits, tolerance=tolerance)
        options["max_iterations"] = max_iterations
        start = self.model.integrate(start, np.zeros(self.model.nv))  # unit quaternions
        q, closed = search(self.rows, start, **options)
        steps = StepCoordinates(self.model, held, limits)
        for attempt in range(restarts):
            left = np.flatnonzero(~closed)
            if not left.size:
                break
            draws = self.model.random_configuration(
                np.random.default_rng([seed, attempt]), (len(q),)
            )
            begin = start[left].copy()
            begin[:, steps.moving_q] = draws[left][:, steps.moving_q]
            found, met = search(self.rows, begin, **options)
            better = met | (self._gap(found) < self._gap(q[left]))
            q[left[better]], closed[left] = found[better], met
        answer = q.reshape(*batch, self.model.nq)
        if not closed.all():
            worst = int(np.flatnonzero(~closed)[0])
            raise ConvergenceError(
                why_open(
                    self.rows, q[worst], tolerance, steps, failed=int((~closed).sum()), count=len(q)
                ),
                answer,
            )
        return answer

    def project(
        self, q: ArrayLike, v: ArrayLike, *, tolerance: float = POSITION_TOLERANCE
    ) -> tuple[Array, Array]:
        """The nearest configuration on the constraints, and the nearest velocities that keep them.

        q ⊕ dq with dq = −ℳ⁻¹ G* S⁺ g repeated, then v − ℳ⁻¹ G* S⁺ (G v − rates), G = A J and S = G
        ℳ⁻¹ G*: both nearest in the mass metric. The velocity projection is also the jump when
        constraints are switched on: it conserves momentum and adds no energy.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.
        v : array_like, shape (..., nv)
            Generalized velocities, rad/s or m/s.
        tolerance : float, optional
            Largest residual in rad and m.

        Returns
        -------
        tuple of ndarray
            (q, v) of the same shapes.

        Raises
        ------
        ConvergenceError
            If there is no closed configuration near q (see `assemble`), or if the prescribed
            velocities contradict each other.

        Notes
        -----
        **Cost:** two to three singular value decompositions, O(rows² nv). **Source:**
        theory/closed-chains 10 and 11.
        """
        from phipsi.algorithms.constrained.assembly import (
            project_position,
            project_velocity,
            rate_errors,
            why_open,
        )

        flat, batch, rates = self._flat_state(q, v, real=True)
        _check_search(tolerance=tolerance)
        found, closed, at = project_position(self.rows, flat, tolerance)
        if not closed.all():
            worst = int(np.flatnonzero(~closed)[0])
            text = why_open(self.rows, found[worst], tolerance)
            raise ConvergenceError(text, found.reshape(*batch, self.model.nq))
        new = project_velocity(at, rates)
        wrong = rate_errors(at, new)
        if wrong:
            raise ConvergenceError(wrong, found.reshape(*batch, self.model.nq))
        return found.reshape(*batch, self.model.nq), new.reshape(*batch, self.model.nv)

    def is_turned_over(self, q: ArrayLike) -> Array:
        """Whether some closure satisfies its rows the wrong way round (...): z_b = −z_a."""
        from phipsi.algorithms.constrained.constraint_metric import turned_over

        flat, batch = self._flat(q, real=True)
        _, found = self.rows.residual(flat, self.rows.poses(flat))
        return np.asarray(turned_over(found, self.rows).any(axis=-1)).reshape(batch)

    def mobility(self, q: ArrayLike, *, tolerance: float | None = None) -> Mobility:
        """Degrees of freedom at a configuration, and which rows the others imply.

        The rank is that of G in the mass metric, each row divided by the size it would have if
        nothing in it cancelled.

        Parameters
        ----------
        q : array_like, shape (nq,)
            Configuration.
        tolerance : float, optional
            Singular values below this fraction of the largest count as zero. Default: 1e-9, and
            more where the loops are open.

        Returns
        -------
        Mobility
            The counts, and the names of the redundant rows.

        Notes
        -----
        **Source:** theory/closed-chains 2 and 6.
        """
        from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric

        flat, batch = self._flat(q, real=True)
        if batch:
            raise InputError(f"mobility needs one configuration (nq,), not shape {np.shape(q)}")
        if tolerance is not None:
            _check_search(tolerance=tolerance)
        at = ConstraintMetric(self.rows, flat, tolerance)
        rank, nv = int(at.rank[0]), self.model.nv
        chosen = set(at.independent_rows())
        spare = tuple(name for i, name in enumerate(self.row_names) if i not in chosen)
        smallest = float(at.smallest[0]) if rank else 0.0
        return Mobility(nv, self.n_rows, rank, nv - rank, nv - self.n_rows, spare, smallest)

    def redundant_rows(self, q: ArrayLike) -> tuple[str, ...]:
        """Names of rows that the others imply, ``mobility(q).redundant``.

        Rigid bodies do not determine the forces in these rows; they do determine the accelerations.

        Parameters
        ----------
        q : array_like, shape (nq,)
            Configuration.

        Returns
        -------
        tuple of str
            The names.

        Examples
        --------
        >>> import phipsi as pp
        >>> arm = pp.examples.planar_arm(3)
        >>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
        >>> four_bar = pp.System(arm, [pin])
        >>> four_bar.redundant_rows(four_bar.assemble([1.0, -1.0, -1.5]))
        ('pin.tilt_x', 'pin.tilt_y', 'pin.z')
        """
        return self.mobility(q).redundant

    def _gap(self, q: Array) -> Array:
        _, found = self.rows.residual(q, self.rows.poses(q))
        return np.square(self.rows.strict_residual(q, found)).sum(axis=-1)

    def _flat(self, q: ArrayLike, *, real: bool = False) -> tuple[Array, tuple[int, ...]]:
        (array,) = state_arrays(self.model, real=real, q=q)
        return flat_batch(array, array.shape[:-1]), array.shape[:-1]

    def _flat_state(
        self, q: ArrayLike, v: ArrayLike, *, real: bool = False
    ) -> tuple[Array, tuple[int, ...], Array]:
        at, rates = state_arrays(self.model, real=real, q=q, v=v)
        batch = np.broadcast_shapes(at.shape[:-1], rates.shape[:-1])
        return flat_batch(at, batch), batch, flat_batch(rates, batch)


def _check_search(**options: Any) -> None:
    """Reject numbers with which a search would end before it begins."""
    for name, value in options.items():
        counts = name != "tolerance"
        fits = is_whole(value) if counts else is_real(value)
        if not fits or not (value >= 0 if counts else 0 < value < np.inf):
            kind = "an integer of at least 0" if counts else "a finite number above 0"
            raise InputError(f"{name}={value!r} must be {kind}")
