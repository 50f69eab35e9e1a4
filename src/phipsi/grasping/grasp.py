"""Grasp: several arms holding one object, with the forces at the contacts.

Forces inside friction cones are a small convex problem, by a barrier method:

    minimise ½ |f|²   subject to   f = f₀ + N z,   aᵢ·f − |Cᵢ f| ≥ margin

With orthonormal columns N the answer is unique. The barrier of a cone is −log((a·f)² − |C f|²),
that of a half-space −log(a·f); both are self-concordant, so Newton's method is safe. A first phase
finds a point inside, or the f whose worst margin is largest if there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import ConstraintMetric, Stages, System, constraint_forces, inverse_dynamics
from phipsi.contact import Contacts
from phipsi.core.backends import real_array, state_arrays
from phipsi.core.compiler import program_of
from phipsi.core.constraints import Constraint
from phipsi.core.model import Model, entries_of
from phipsi.core.operators import A
from phipsi.errors import InputError, ModelError, SingularMatrixError, true_or_false
from phipsi.grasping.contact_inequalities import BORDER, Inequality, least_force, margins
from phipsi.grasping.finger_contacts import Cone, Contact
from phipsi.grasping.grasp_check import GraspCheck

Array = NDArray[Any]


class Grasp(System):
    """Arms holding an object: a `System` whose constraints are contacts.

    The object's bodies are the secondary system "S", the rest the primary "P".

    Parameters
    ----------
    model : Model
        Arms and object, each a tree of it.
    object : str or sequence of str
        The body that is held, or the bodies of an articulated object.
    contacts : iterable of Contact
        Contacts from `phipsi.grasping`.
    constraints : iterable of Constraint, optional
        Any other constraints. Default: none.
    touching : Contacts, optional
        Shapes that may touch besides, ``pp.Contacts(model)``. Default: none.
    stages : Stages, optional
        As for `System`.

    Attributes
    ----------
    contacts : tuple of Contact
        The contacts; the other attributes are those of `System`.
    contact_names : tuple of str
        Their names.
    object : tuple of str
        Names of the object's bodies.
    object_rates : ndarray of int
        Where the velocities of their joints are in v.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> grasp = pp.examples.two_finger_grasp()
    >>> grasp
    <Grasp of 'box': 5 bodies, nv = 10, 2 contacts with 6 rows: 'left', 'right'>
    >>> q = grasp.model.neutral()
    >>> squeeze = grasp.internal_forces(q)               # forces that do not move the object
    >>> squeeze.shape
    (6, 1)
    """

    contacts: tuple[Contact, ...]
    object: tuple[str, ...]
    object_rates: Array
    _contact_rows: int
    _cones: list[tuple[int, Cone]]

    def __init__(
        self,
        model: Model,
        *,
        object: str | Sequence[str],
        contacts: Iterable[Contact],
        constraints: Iterable[Constraint] = (),
        touching: Contacts | None = None,
        stages: Stages | None = None,
    ) -> None:
        if not isinstance(object, Iterable) or not isinstance(contacts, (Contact, Iterable)):
            raise ModelError(
                f"a grasp needs the name of its object and contacts on it: "
                f"pp.grasping.Grasp(model, object='box', contacts=[…]), "
                f"not object={object!r}, contacts={contacts!r}"
            )
        held = (object,) if isinstance(object, str) else tuple(object)
        listed = (contacts,) if isinstance(contacts, Contact) else tuple(contacts)
        for c in listed:
            if not isinstance(c, Contact):
                raise ModelError(
                    f"contacts has {c!r}, which is not a contact. For example:\n"
                    f"    pp.grasping.Point(0.6, name='thumb', finger='tip', "
                    f"object=({held[0] if held else 'box'!r}, (0.1, 0, 0)))"
                )
        rest: Any = {"contacts": touching, "secondary": held, "stages": stages}
        super().__init__(model, [*listed, *constraints], **rest)
        if not held:
            raise ModelError(
                "object names no body: pp.grasping.Grasp(model, object='box', contacts=[…])"
            )
        bodies = {model.body_index(name) for name in held}
        for c, closure in zip(listed, self.closures.closures, strict=False):
            for side, body, inside in (("object", closure.a, True), ("finger", closure.b, False)):
                if (body in bodies) != inside:
                    name = "the world" if body < 0 else repr(model.body_names[body])
                    raise ModelError(
                        f"contact {c.name!r}: its {side} end is on {name}, which is "
                        f"{'not ' if inside else ''}part of the object {list(held)}. The object's "
                        f"end must be on the object, the finger's end must not."
                    )
        self._set(
            contacts=listed,
            object=held,
            object_rates=entries_of(model.v_slices[body] for body in sorted(bodies)),
            _contact_rows=sum(len(x.rows) for x in self.closures.closures[: len(listed)]),
            _cones=[(i, cone) for i, c in enumerate(listed) for cone in c.cones()],
        )

    @property
    def contact_names(self) -> tuple[str, ...]:
        """Names of the contacts, in the order of all results."""
        return tuple(c.name for c in self.contacts)

    # ---- forces -------------------------------------------------------------------------------

    def contact_forces(
        self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, f_ext: ArrayLike | None = None
    ) -> Array:
        """Force of each finger on the object in forward dynamics.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.
        v : array_like, shape (..., nv)
            Generalized velocities, rad/s or m/s.
        tau : array_like, shape (..., nv)
            Joint torques and forces, N·m or N, in the directions of v.
        f_ext : array_like, shape (..., n, 6), optional
            External force on each body at its origin in body axes, [moment (N·m); force (N)].
            Default: none.

        Returns
        -------
        ndarray, shape (..., contacts, 6)
            [moment; force] at the contact, in contact axes, N·m and N; a finger that pushes has a
            negative z force.

        Notes
        -----
        −A* f at the object's ends, f from `constraint_forces`: the minimum-norm f where rigid
        bodies do not determine it (see `check`). **Cost:** that of `constraint_forces`. **Source:**
        88-11 Part II eq. b.9d.
        """
        return self.wrenches(q, constraint_forces(self, q, v, tau, f_ext))

    def wrenches(self, q: ArrayLike, f: ArrayLike) -> Array:
        """Forces on the object (..., contacts, 6) in contact axes, from multipliers (..., rows)."""
        if not self.n_rows:  # nothing touches it
            (at,) = state_arrays(self.model, q=q)
            return np.zeros((*at.shape[:-1], 0, 6))
        loads = -program_of(A.T, self)(q, f)
        first = self.closures.first_point[: len(self.contacts)]
        at = loads[..., first, :]
        turns = np.array([c.turn() for c in self.contacts]).reshape(-1, 3, 3)
        halves = at.reshape(*at.shape[:-1], 2, 3)
        return np.einsum("cij,...chj->...chi", turns, halves).reshape(at.shape)

    def check(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        f_ext: ArrayLike | None = None,
        *,
        f: ArrayLike | None = None,
    ) -> GraspCheck:
        """Whether all contacts push and none slips, with margins.

        Where the rows are redundant, contact forces are determined up to self-stress only. The
        contacts then hold if some self-stress satisfies all inequalities: a convex problem.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.
        v : array_like, shape (..., nv)
            Generalized velocities, rad/s or m/s.
        tau : array_like, shape (..., nv)
            Joint torques and forces, N·m or N, in the directions of v.
        f_ext : array_like, shape (..., n, 6), optional
            External force on each body at its origin in body axes, [moment (N·m); force (N)].
            Default: none.
        f : array_like, shape (..., rows), optional
            Multipliers to check. Default: those of forward dynamics.

        Returns
        -------
        GraspCheck
            Print it for a table.

        Notes
        -----
        **Cost:** that of `contact_forces`; per element with redundant rows a barrier method.
        **Source:** theory/closed-chains 9; 88-11 Part II appendix A.
        """
        if f is not None:
            found = real_array("f", f)
            unique = np.ones(found.shape[:-1], dtype=bool)
            holding, *_ = state_arrays(self.model, q=q, v=v, tau=tau)
            if f_ext is not None:
                real_array("f_ext", f_ext)
        else:
            at, v, tau = state_arrays(self.model, q=q, v=v, tau=tau)
            found = constraint_forces(self, at, v, tau, f_ext)
            holding = np.broadcast_to(at, (*found.shape[:-1], self.model.nq))
            found, unique = self._with_self_stress(holding, found)
        forces = self.wrenches(holding, found)
        with np.errstate(over="ignore", invalid="ignore"):  # found below
            values = [cone.margin(forces[..., i, :]) for i, cone in self._cones]
        margin = np.stack(values, axis=-1) if values else np.zeros((*found.shape[:-1], 0))
        size = 1 + np.abs(forces).max(axis=(-1, -2), initial=0.0)
        if not np.isfinite(margin).all():
            raise InputError(
                f"contact forces reach {size.max():.3g} N, too large to compare with friction; are "
                f"the units right?"
            )
        return GraspCheck(
            tuple(f"{self.contacts[i].name}: {cone.name}" for i, cone in self._cones),
            tuple(cone.unit for _, cone in self._cones),
            margin,
            np.asarray((margin >= -BORDER * size[..., None]).all(axis=-1)),
            unique,
            forces,
        )

    def _with_self_stress(self, q: Array, f: Array) -> tuple[Array, Array]:
        """Multipliers that satisfy the inequalities where there is a choice; whether there is."""
        if not self.n_rows:
            return f, np.ones(f.shape[:-1], dtype=bool)
        flat_q, flat = q.reshape(-1, self.model.nq), f.reshape(-1, self.n_rows).copy()
        unique = np.ones(len(flat), dtype=bool)
        metric = ConstraintMetric(self.rows, flat_q)
        for i in range(len(flat)):
            N = metric.self_stress(i)
            unique[i] = not N.shape[1]
            if N.shape[1]:
                flat[i], _ = least_force(flat[i], N, self._inequalities(flat_q[i]))
        return flat.reshape(f.shape), unique.reshape(f.shape[:-1])

    def _inequalities(self, q: Array) -> list[Inequality]:
        """The cones as inequalities on the multipliers."""
        columns = self.wrenches(q, np.eye(self.n_rows))  # (rows, contacts, 6)
        return [
            Inequality(columns[:, i] @ cone.a, (columns[:, i] @ cone.C.T).T)
            for i, cone in self._cones
        ]

    # ---- load distribution ----------------------------------------------------------------------

    def grasp_map(self, q: ArrayLike) -> Array:
        """Grasp map W: contact multipliers → generalized forces on the object.

        W f + … is the inverse dynamics of the object. For a rigid free object these are moment and
        force at its origin, in its axes. W is minus the adjoint of the object's columns of A J.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.

        Returns
        -------
        ndarray, shape (..., object rates, contact rows)
            The grasp map.

        Notes
        -----
        **Source:** 88-11 Part II eq. 2.9.
        """
        rows = self.jacobian(q)[..., : self._contact_rows, :]
        return -np.swapaxes(rows[..., self.object_rates], -1, -2)

    def internal_forces(self, q: ArrayLike) -> Array:
        """Orthonormal contact multipliers that do not load the object, the null space of W.

        Each column squeezes the object without moving it.

        Parameters
        ----------
        q : array_like, shape (nq,)
            Configuration.

        Returns
        -------
        ndarray, shape (contact rows, k)
            The basis.
        """
        return self._holding(self._one(q)).self_stress()[: self._contact_rows]

    def distribute(
        self,
        q: ArrayLike,
        load: ArrayLike,
        *,
        internal: ArrayLike | None = None,
        friction: bool = False,
        margin: float = 0.0,
        weights: ArrayLike | None = None,
    ) -> Array:
        """Contact multipliers that give the object a load: minimum-norm or inside the cones.

        W f = load. The torques that produce them are those of `efforts`.

        Parameters
        ----------
        q : array_like, shape (nq,)
            Configuration.
        load : array_like, shape (object rates,)
            Generalized force on the object, for example that of `object_load`.
        internal : array_like, shape (k,), optional
            How much of each column of `internal_forces` to add to the f of minimum norm. Default:
            none.
        friction : bool, optional
            Whether to return the f of minimum norm whose inequalities all hold. Default: False.
        margin : float, optional
            By how much they hold, N. Default: 0.
        weights : array_like, shape (contacts,) or (contact rows,), optional
            Cost of the multipliers of each contact, above 0: Σ weights f² is least instead of Σ f².
            A contact with a smaller weight carries more of the load. Default: 1.

        Returns
        -------
        ndarray, shape (rows,)
            Multipliers f, zero for rows that are not contacts.

        Raises
        ------
        InputError
            If the contacts cannot give that load.
        SingularMatrixError
            If no forces inside the friction cones do.

        Notes
        -----
        **Cost:** O(rows³). **Source:** theory/closed-chains 9.
        """
        at, wanted = self._one(q), real_array("load", load)
        friction = true_or_false("friction", friction)
        if wanted.shape != self.object_rates.shape:
            raise InputError(
                f"load has shape {wanted.shape}; the object {list(self.object)} has "
                f"{len(self.object_rates)} rates, so it must be ({len(self.object_rates)},)"
            )
        holding, rows = self._holding(at), self._contact_rows
        N, W, D = holding.self_stress()[:rows], self.grasp_map(at), np.ones(rows)
        if weights is None:
            f = holding.multipliers_of(-wanted[None])[0, :rows]
        else:  # the least norm of g with f = D g
            D = 1 / np.sqrt(self.row_weights(weights))
            f = D * (np.linalg.pinv(W * D, rcond=1e-10) @ wanted)
        missing = wanted - W @ f
        if np.abs(missing).max(initial=0.0) > 1e-8 * (1 + np.abs(wanted).max(initial=0.0)):
            raise InputError(
                f"the contacts {list(self.contact_names)} cannot give the object this load: "
                f"{np.round(missing, 9).tolist()} of {np.round(wanted, 9).tolist()} is left. Point "
                f"contacts cannot turn an object about the line through them; add a contact, or "
                f"use SoftFinger."
            )
        if internal is not None:
            amount = real_array("internal", internal)
            if amount.shape != (N.shape[1],):
                raise InputError(
                    f"internal has shape {amount.shape}, but there are {N.shape[1]} internal "
                    f"forces (grasp.internal_forces(q))"
                )
            f = f + N @ amount
        if friction:
            cones = [Inequality(D * c.a[:rows], c.C[:, :rows] * D) for c in self._inequalities(at)]
            basis = N if weights is None else np.linalg.qr(N / D[:, None])[0]
            g, inside = least_force(f / D, basis, cones, margin)
            if not inside:
                values = margins(g, cones)
                names = [f"{self.contacts[i].name}: {cone.name}" for i, cone in self._cones]
                worst = int(values.argmin())
                raise SingularMatrixError(
                    f"no contact forces inside the friction cones give the object this load; at "
                    f"best '{names[worst]}' misses by {margin - values[worst]:.4g}. More friction, "
                    f"other places for the fingers, or a smaller load."
                )
            f = D * g
        return np.concatenate([f, np.zeros(self.n_rows - len(f))])

    def row_weights(self, weights: ArrayLike | None) -> Array:
        """Costs (contact rows,) of multipliers, of costs of contacts or of rows; ones for None."""
        rows, count = self._contact_rows, len(self.contacts)
        if weights is None:
            return np.ones(rows)
        given = real_array("weights", weights)
        if given.shape not in ((count,), (rows,)) or not (
            np.isfinite(given).all() and (given > 0).all()
        ):
            raise InputError(
                f"weights must be ({count},), one number above 0 per contact, or ({rows},), one "
                f"per contact row, not {weights!r}"
            )
        if given.shape == (rows,):
            return given
        lengths = [len(x.rows) for x in self.closures.closures[:count]]
        return np.repeat(given, lengths)

    def accelerations(self, q: ArrayLike, v: ArrayLike, object_vdot: ArrayLike) -> Array:
        """Accelerations of all joints with which the arms carry the object as it is asked.

        They keep all constraints, and have least kinetic energy where the arms have more joints
        than they need.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.
        v : array_like, shape (..., nv)
            Generalized velocities, which must keep the constraints.
        object_vdot : array_like, shape (..., object rates)
            Accelerations of the object's rates.

        Returns
        -------
        ndarray, shape (..., nv)
            Generalized accelerations, for `object_load` and `efforts`.

        Raises
        ------
        InputError
            If the arms cannot follow.

        Examples
        --------
        >>> import numpy as np, phipsi as pp
        >>> grasp = pp.examples.two_finger_grasp()
        >>> q, rest = grasp.model.neutral(), np.zeros(10)
        >>> vdot = grasp.accelerations(q, rest, [0, 0, 0, 0.5, 0, 0])    # the box along x
        >>> vdot.round(3)[:4]
        array([-1.222,  7.444, -1.222,  7.444])
        """
        q, v = state_arrays(self.model, q=q, v=v)
        asked, rates = real_array("object_vdot", object_vdot), self.object_rates
        if asked.shape[-1:] != rates.shape:
            raise InputError(
                f"object_vdot has shape {asked.shape}; its last axis must be the {len(rates)} "
                f"rates of the object {list(self.object)}"
            )
        batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], asked.shape[:-1])
        flat = [
            np.broadcast_to(x, (*batch, x.shape[-1])).reshape(-1, x.shape[-1])
            for x in (q, v, asked)
        ]
        arms = np.setdiff1d(np.arange(self.model.nv), rates)
        at = ConstraintMetric(self.rows, flat[0], rates_used=arms)
        own = np.zeros((len(flat[0]), self.model.nv))
        own[:, rates] = flat[2]
        bias = self.rows.bias(flat[0], flat[1])
        wanted = -bias - np.einsum("nrv,nv->nr", at.whole, own)
        vdot = own + at.spread(at.solve(wanted))
        missing = np.abs(np.einsum("nrv,nv->nr", at.whole, vdot) + bias)
        allowed = 1e-8 * (1 + np.abs(bias) + np.abs(vdot).max(axis=-1, keepdims=True, initial=0.0))
        if (missing > allowed).any():
            row = self.row_names[int(np.argwhere(missing > allowed)[0][-1])]
            raise InputError(
                f"the arms cannot carry the object {list(self.object)} with these accelerations: "
                f"row {row!r} would open. They are singular there, or have too few joints."
            )
        return vdot.reshape(*batch, self.model.nv)

    def object_load(self, q: ArrayLike, v: ArrayLike, vdot: ArrayLike) -> Array:
        """Load that the contacts exert on the object's rates (..., object rates) for a motion."""
        return inverse_dynamics(self.model, q, v, vdot)[..., self.object_rates]

    def efforts(self, q: ArrayLike, v: ArrayLike, vdot: ArrayLike, f: ArrayLike) -> Array:
        """Joint torques and forces for a motion with given contact multipliers: ID + (A J)* f.

        Zero at the object's velocities if f gives the object its load.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.
        v : array_like, shape (..., nv)
            Generalized velocities, rad/s or m/s.
        vdot : array_like, shape (..., nv)
            Generalized accelerations, rad/s² or m/s².
        f : array_like, shape (..., rows)
            Contact multipliers.

        Returns
        -------
        ndarray, shape (..., nv)
            Joint torques and forces.
        """
        q, v, vdot = state_arrays(self.model, q=q, v=v, vdot=vdot)
        given = real_array("f", f)
        if not given.ndim or given.shape[-1] != self.n_rows:
            raise InputError(
                f"f has shape {given.shape}, but its last axis must be the {self.n_rows} rows "
                f"{list(self.row_names)}"
            )
        back = np.einsum("...rv,...r->...v", self.jacobian(q), given)
        return inverse_dynamics(self.model, q, v, vdot) + back

    # ---- helpers --------------------------------------------------------------------------------

    def _holding(self, q: Array) -> ConstraintMetric:
        """The contact rows as the object alone feels them, the arms held."""
        contacts = np.arange(self.n_rows) < self._contact_rows
        return ConstraintMetric(
            self.rows, q[None], rows_used=contacts, rates_used=self.object_rates
        )

    def _one(self, q: ArrayLike) -> Array:
        (at,) = state_arrays(self.model, q=q)
        if at.shape != (self.model.nq,):
            raise InputError(f"this needs one configuration ({self.model.nq},), not {at.shape}")
        return at

    def _on(self, model: Model, constraints: Sequence[Constraint]) -> System:
        holding = [c for c in constraints if isinstance(c, Contact)]
        others = [c for c in constraints if not isinstance(c, Contact)]
        held = [name for name in self.object if name in model.body_names]
        shapes = None if self.contact_pairs is None else self.contact_pairs.on(model)
        rest: Any = {"constraints": others, "touching": shapes, "stages": self.stages}
        try:
            return Grasp(model, object=held, contacts=holding, **rest)
        except ModelError:  # an object that is locked to something else cannot be held
            return System(model, constraints, contacts=shapes, stages=self.stages)

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), self.object, tuple(map(repr, self.contacts)))

    def __reduce__(self) -> tuple[Any, ...]:
        others = self.constraints[len(self.contacts) :]
        return _again, (self.model, self.object, self.contacts, others, self.contact_pairs)

    def __repr__(self) -> str:
        held = ", ".join(map(repr, self.object))
        shown = ", ".join(map(repr, self.contact_names))
        plural = "" if len(self.contacts) == 1 else "s"
        listed = f" with {self.n_rows} rows: {shown}" if shown else ""
        return (
            f"<Grasp of {held}: {self.model.n_bodies} bodies, nv = {self.model.nv}, "
            f"{len(self.contacts)} contact{plural}{listed}>"
        )


def _again(
    model: Model,
    held: tuple[str, ...],
    contacts: tuple[Contact, ...],
    constraints: tuple[Constraint, ...],
    touching: Contacts | None,
) -> Grasp:
    """The grasp that was pickled."""
    more: Any = {"constraints": constraints, "touching": touching}
    return Grasp(model, object=held, contacts=contacts, **more)


# ---- forces inside friction cones ----------------------------------------------------------------
