"""System: a tree of bodies with constraints, and what can be said about it before it moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.loop_graph import open_graph
from phipsi.algorithms.constrained.loop_search import LoopSearch
from phipsi.core.constraints import Constraint
from phipsi.core.model import (
    Closure,
    Description,
    Model,
    SpatialInertia,
    SystemAttachment,
    as_list,
    closure_set,
    fill,
    loop_bodies,
    read_only,
)
from phipsi.errors import ConvergenceError, InputError, ModelError
from phipsi.views import view

if TYPE_CHECKING:  # the compiler is loaded when a system is first evaluated, not with its file
    from phipsi.algorithms.constrained.constraint_rows import ClosureRows
    from phipsi.algorithms.constrained.stages import Stages
    from phipsi.core.constraints import GraphJoint


Array = NDArray[Any]


class System(LoopSearch, Model):
    """A mechanism with closed kinematic loops: a model with constraints between its bodies.

    The motion obeys ℳ vdot + (A J)* f = tau − bias with A J v = rates. A system is a `Model`: it
    has the bodies, joints, names and coordinates of its tree `system.model`, and changed copies
    keep the constraints. Functions that take a model take a system too, or reject it: answers about
    a given motion are those of the tree; answers that constraint forces would change are rejected
    with the reason.

    Parameters
    ----------
    model : Model
        A tree or forest.
    constraints : iterable of Constraint, optional
        Constraints from `phipsi.constraints`. Default: none.
    contacts : Contacts, optional
        Which shapes may touch, ``pp.Contacts(model)``. Default: none.
    primary : sequence of str, optional
        Names of bodies selected by the operators ``A["P"]``. Default: all that are not secondary.
    secondary : sequence of str, optional
        Names of bodies selected by the operators ``Lambda["S"]``. Default: all that are not
        primary.
    stages : Stages, optional
        Those of a system that this one differs from: `system.stages.dynamics` and `impulse` then do
        not compute again what the two have in common. Default: new ones.

    Attributes
    ----------
    model : Model
        The tree without constraints.
    constraints : tuple of Constraint
        The constraints.
    closures : ClosureSet
        Their resolved rows.
    row_names : tuple of str
        Names of the constraint rows.
    rates : ndarray, shape (rows,)
        What A J v must be: zero except for constraints that prescribe velocities.
    stages : Stages
        Incremental dynamics, which also counts the steps executed; see
        `phipsi.algorithms.constrained.stages`.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    >>> four_bar = pp.System(arm, [pin])
    >>> four_bar
    <System: 3 bodies, nv = 3, 1 constraint with 5 rows: 'pin'>
    >>> q = four_bar.assemble([1.0, -1.0, -1.5])
    >>> bool(abs(four_bar.residual(q)).max() < 1e-10)
    True
    >>> four_bar.mobility(q).mobility
    1
    """

    constraints: tuple[Constraint, ...]
    contact_pairs: Any
    rates: Array
    cut_joints: tuple[str, ...] = ()
    shaft_forces: tuple[tuple[int, Any], ...] = ()
    _tree: Model
    _coordinates: dict[int, tuple[Array, float]]
    _stages: Stages | None

    def __init__(
        self,
        model: Model,
        constraints: Iterable[Constraint] = (),
        *,
        contacts: SystemAttachment | None = None,
        primary: Sequence[str] | None = None,
        secondary: Sequence[str] | None = None,
        stages: Stages | None = None,
    ) -> None:
        if isinstance(model, System):
            raise InputError(
                "System needs a model without constraints first, not System. A system with "
                "contacts or other constraints:\n    pp.System(system.model, system.constraints, "
                "contacts=pp.Contacts(system.model))"
            )
        if not isinstance(cast(object, model), Model):
            raise InputError(
                f"System needs a model without constraints first: pp.System(model, constraints), "
                f"not {type(model).__name__}; see pp.ModelBuilder and pp.load"
            )
        listed = _with_clocks(_checked(constraints))
        _check_contacts(contacts, model)
        found = [c.closure(model) for c in listed]
        teeth = [(i, x) for i, c in enumerate(listed) for x in c.shaft_forces(model)]
        closures = closure_set(found, _selections(model, primary, secondary))
        rates = [c.prescribed(len(x.rows)) for c, x in zip(listed, found, strict=True)]
        wanted = read_only(np.concatenate([np.zeros(0), *rates]))
        first = np.concatenate([[0], np.cumsum([len(x.rows) for x in found])]).astype(int)
        coordinates: dict[int, tuple[Array, float]] = {}
        for c, row in zip(listed, first, strict=False):
            coordinates |= {int(row) + i: given for i, given in enumerate(c.coordinates(model))}
        self._set(**{name: getattr(model, name) for name in Model.__slots__[:-1]})
        self._set(
            _tree=model,
            constraints=listed,
            contact_pairs=contacts,
            closures=closures,
            n_rows=closures.n_rows,
            rates=wanted,
            _coordinates=coordinates,
            shaft_forces=tuple((int(first[i]) + x.row, x) for i, x in teeth),
            _stages=stages,
            cache={},
            _hash=hash((hash(model), closures, contacts)),
        )

    @classmethod
    def from_graph(
        cls,
        bodies: Mapping[str, SpatialInertia],
        joints: Sequence[GraphJoint],
        *,
        gravity: ArrayLike = (0, 0, -9.81),
        cut: Iterable[str] = (),
    ) -> System:
        """A system from bodies and all their joints, closed loops included.

        A spanning tree is found that keeps the joints with few degrees of freedom; the others are
        cut and become constraints of the same name, listed in `cut_joints` and in `summary()`.
        Bodies that no joint connects to the world float on a free joint.

        Parameters
        ----------
        bodies : mapping of str to SpatialInertia
            Inertia of each body by name, in a frame of the body's own.
        joints : sequence of GraphJoint
            The joints, `constraints.GraphJoint`, in any order.
        gravity : array_like, shape (3,), optional
            Acceleration of gravity in world axes, m/s². Default: (0, 0, −9.81).
        cut : iterable of str, optional
            Names of joints to be cut rather than others. Default: none.

        Returns
        -------
        System
            The system; its constraints are the joints that were cut.

        Notes
        -----
        **Cost:** O(bodies + joints · log joints).

        Examples
        --------
        >>> import phipsi as pp
        >>> rod, z = pp.SpatialInertia(1.0, (0.5, 0, 0), 0.1), (0, 0, 1)
        >>> def hinge(name, a, b):
        ...     return pp.constraints.GraphJoint(name, pp.joints.Revolute(z), a, b)
        >>> four_bar = pp.System.from_graph(
        ...     {"crank": rod, "coupler": rod, "rocker": rod},
        ...     [
        ...         hinge("A", "world", "crank"),
        ...         hinge("B", ("crank", (1, 0, 0)), "coupler"),
        ...         hinge("C", ("coupler", (1, 0, 0)), ("rocker", (1, 0, 0))),
        ...         hinge("D", ("world", (1, 0, 0)), "rocker"),
        ...     ],
        ...     cut=["C"],
        ... )
        >>> four_bar
        <System: 3 bodies, nv = 3, 1 constraint with 5 rows: 'C'>
        """
        opened = open_graph(bodies, joints, gravity, cut)
        system = cls(opened.model, opened.constraints)
        system._set(cut_joints=opened.cut)
        return system

    def with_locked(
        self, joints: str | Iterable[str], q: ArrayLike | Mapping[str, ArrayLike]
    ) -> System:
        """The system with some joints locked, as `Model.with_locked`, with the same stages.

        Bodies keep their names, and constraints their ends on them. Couplings keep the joints that
        remain; constraints between bodies that no longer move against each other are removed.

        Parameters
        ----------
        joints : str or iterable of str
            Names of the joints to lock.
        q : array_like, shape (nq,), or mapping of str to array_like
            A configuration, or the coordinates of each locked joint.

        Returns
        -------
        System
            The reduced system.

        Examples
        --------
        >>> import phipsi as pp
        >>> arm = pp.examples.planar_arm(4)
        >>> pin = pp.constraints.Spherical(name="pin", a="tip", b=("world", (1.5, 0, 0)))
        >>> held = pp.System(arm, [pin]).with_locked("joint3", [1.0, -1.0, -0.5, -1.0])
        >>> held.model.joint_names, held.row_names
        (('joint1', 'joint2', 'joint4'), ('pin.x', 'pin.y', 'pin.z'))
        """
        names = as_list("joints", joints, "['elbow']")
        model = self.model.with_locked(names, q)
        at = q if isinstance(q, Mapping) else None
        values = {n: np.asarray(q)[self.model.q_slice(n)] if at is None else at[n] for n in names}
        left = [c.with_locked(model, values, self.model) for c in self.constraints]
        return self._on(model, [c for c in left if c is not None])

    def _rebuilt(self, description: Description) -> System:
        return self._on(Model(description), self.constraints)

    def _on(self, model: Model, constraints: Sequence[Constraint]) -> System:
        """Constraints on another tree with the same names, with the same stages."""
        bodies: dict[str, list[str]] = {}
        for key, chosen in self.closures.selections.items():
            listed = [self.body_names[k] for k in sorted(chosen)]
            bodies[key] = [name for name in listed if name in model.body_names]
        return System(
            model,
            constraints,
            contacts=None if self.contact_pairs is None else self.contact_pairs.on(model),
            primary=bodies.get("P"),
            secondary=bodies.get("S"),
            stages=self.stages,
        )

    def to_dict(self) -> dict[str, Any]:
        """Rejected: constraints have no stored form."""
        raise ModelError(
            "to_dict stores trees, and this system has constraints, which would be lost. Store the "
            "tree, system.model.to_dict(), and build the system again:\n"
            "    pp.System(pp.Model.from_dict(data), constraints)"
        )

    def _key(self) -> tuple[Any, ...]:
        return (self.description, self.closures, self.rates.tobytes(), self.contact_pairs)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self.model, self.constraints, self.closures.selections, self.cut_joints
        return _again, (*parts, self.contact_pairs)

    @property
    def model(self) -> Model:
        """The tree of the system, with its loops cut open."""
        return self._tree

    @cached_property
    def rows(self) -> ClosureRows:
        """The rows as arrays: residuals, Jacobian and velocity terms."""
        from phipsi.algorithms.constrained.constraint_rows import ClosureRows

        return ClosureRows(self.model, self.closures, self.rates, self._coordinates)

    @cached_property
    def stages(self) -> Stages:
        """The results of earlier steps, which changed copies of the system share."""
        from phipsi.algorithms.constrained.stages import Stages

        return Stages() if self._stages is None else self._stages

    # ---- rows ---------------------------------------------------------------------------------

    def residual(self, q: ArrayLike) -> Array:
        """How far each constraint row is from being satisfied, g(q).

        Zero where the loops are closed; rad (small angles) and m. Nonholonomic rows have the
        residual 0.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.

        Returns
        -------
        ndarray, shape (..., rows)
            The residuals.

        Notes
        -----
        **Cost:** one sweep for the poses, O(N + rows). **Source:** theory/closed-chains 2.
        """
        flat, batch = self._flat(q)
        values, _ = self.rows.residual(flat, self.rows.poses(flat))
        return values.reshape(*batch, self.n_rows)

    def jacobian(self, q: ArrayLike) -> Array:
        """The constraint Jacobian G = A J: generalized velocities v → velocities of the rows.

        It is exactly the derivative of `residual` along v, also where the loops are open.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.

        Returns
        -------
        ndarray, shape (..., rows, nv)
            The Jacobian.

        Notes
        -----
        **Cost:** the Jacobians of the closure frames, O(rows · depth). **Source:** SOA eq. 0.20.
        """
        flat, batch = self._flat(q)
        return self.rows.jacobian(flat).reshape(*batch, self.n_rows, self.model.nv)

    def bias(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Accelerations of the rows at vdot = 0: d/dt(A J) v, the negative of the papers' U.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.
        v : array_like, shape (..., nv)
            Generalized velocities, rad/s or m/s.

        Returns
        -------
        ndarray, shape (..., rows)
            The accelerations that the velocities alone cause.

        Notes
        -----
        **Cost:** one sweep, O(N + rows). **Source:** SOA eq. 0.22 corrected.
        """
        flat, batch, rates = self._flat_state(q, v)
        return self.rows.bias(flat, rates).reshape(*batch, self.n_rows)

    # ---- configurations -----------------------------------------------------------------------

    def summary(self, q: ArrayLike | None = None) -> str:
        """Constraints, bodies of each loop, mobility and redundant rows, as a string.

        Parameters
        ----------
        q : array_like, shape (nq,), optional
            Where the mobility is counted. Default: the assembled configuration nearest to neutral.

        Returns
        -------
        str
            The summary, one line per constraint.
        """
        model = self.model
        lines = [
            f"{model.n_bodies} bodies, {model.nv} rates, "
            f"{_count(len(self.constraints), 'constraint')}, {self.n_rows} rows"
        ]
        if self.cut_joints:
            lines.append(f"cut joints: {', '.join(map(repr, self.cut_joints))}")
        for constraint, closure in zip(self.constraints, self.closures.closures, strict=True):
            path = " – ".join(loop_bodies(model, closure))
            kind = constraint.kind_name
            lines.append(f"  {closure.name!r}: {kind}, {len(closure.rows)} rows; {path}")
        lines.append(f"mobility by counting (Grübler): {model.nv} − {self.n_rows} = "
                     f"{model.nv - self.n_rows}")  # fmt: skip
        where = "there"
        if q is None:
            try:
                q, where = self.assemble(), "at the assembly nearest to neutral"
            except ConvergenceError:
                lines.append(
                    "mobility at a configuration: pass one, summary(q); the loops cannot be closed "
                    "near neutral q"
                )
                return "\n".join(lines)
        found = self.mobility(q)
        lines.append(f"mobility {where}: {model.nv} − rank {found.rank} = {found.mobility}")
        if found.redundant:
            lines.append(
                f"  {len(found.redundant)} redundant rows (forces in them are not determined by "
                f"rigid bodies): {', '.join(found.redundant)}"
            )
        return "\n".join(lines)

    def closure_of(self, row: int) -> Closure:
        """The closure a row belongs to."""
        return self.closures.closures[int(self.closures.row_closure[row])]

    # ---- helpers ------------------------------------------------------------------------------

    def __repr__(self) -> str:
        names = [repr(c.name) for c in self.constraints]
        shown = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
        listed = f": {shown}" if names else ""
        touching = ""
        if self.contact_pairs is not None:
            touching = f", {self.contact_pairs.summary()}"
        rows = f"{_count(len(names), 'constraint')} with {_count(self.n_rows, 'row')}"
        size = f"{self.model.n_bodies} bodies, nv = {self.model.nv}"
        return f"<System: {size}, {rows}{listed}{touching}>"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _again(
    model: Model,
    constraints: tuple[Constraint, ...],
    selections: Mapping[str, frozenset[int]],
    cut_joints: tuple[str, ...],
    contacts: SystemAttachment | None,
) -> System:
    """The system that was pickled."""
    bodies = {key: [model.body_names[k] for k in sorted(x)] for key, x in selections.items()}
    chosen: Any = {"primary": bodies.get("P"), "secondary": bodies.get("S")}
    system = System(model, constraints, contacts=contacts, **chosen)
    fill(system, cut_joints=cut_joints)
    return system


def _checked(constraints: Any) -> tuple[Constraint, ...]:
    if not isinstance(constraints, (Constraint, Iterable)):
        raise InputError(
            f"System needs a list of constraints, which may be empty, not {constraints!r}"
        )
    listed: tuple[Any, ...] = (
        (constraints,) if isinstance(constraints, Constraint) else tuple(cast(Any, constraints))
    )
    seen: set[str] = set()
    for c in listed:
        if not isinstance(c, Constraint):
            raise ModelError(
                f"constraints has {c!r}, which is not a constraint. For example:\n"
                f"    pp.constraints.Spherical(name='ball', a=('rod', (1, 0, 0)), b='world')"
            )
        if c.name in seen:
            raise ModelError(
                f"two constraints are named {c.name!r}; rows and loops are reported by name, so "
                "names must be unique."
            )
        seen.add(c.name)
    return listed


def _with_clocks(listed: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    """The constraints, and a motor of rate 1 for every clock that has none."""
    clocks = dict.fromkeys(c.clock for c in listed if c.clock is not None)
    if not clocks:
        return listed
    driven = {c.steady_joint() for c in listed}
    return _checked((*listed, *map(view("clock motor"), (x for x in clocks if x not in driven))))


def _check_contacts(contacts: Any, model: Model) -> None:
    if contacts is None:
        return
    if not isinstance(contacts, SystemAttachment):
        raise InputError(
            f"contacts={contacts!r} must be  pp.Contacts(model), or None for bodies that pass "
            "through each other"
        )
    if contacts.model != model:
        raise InputError(
            "contacts= belongs to another model. Make it for this one:\n"
            "    pp.System(model, contacts=pp.Contacts(model))"
        )


def _selections(
    model: Model, primary: Sequence[str] | None, secondary: Sequence[str] | None
) -> dict[str, frozenset[int]]:
    if primary is None and secondary is None:
        return {}
    everything = frozenset(range(model.n_bodies))
    index = model.body_index
    first, second = (
        None if names is None else frozenset(map(index, as_list("bodies", names, "['hand']")))
        for names in (primary, secondary)
    )
    P = everything - (second or frozenset()) if first is None else first
    S = everything - P if second is None else second
    if P & S:
        name = model.body_names[min(P & S)]
        raise ModelError(f"body {name!r} is in primary and in secondary; it can be in one only.")
    return {"P": P, "S": S}
