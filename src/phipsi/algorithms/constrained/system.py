"""System: a tree of bodies with constraints, and what can be said about it before it moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.loop_graph import open_graph
from phipsi.algorithms.kinematics.step_coordinates import StepCoordinates
from phipsi.core.backends import state_arrays
from phipsi.core.constraints import Constraint, names_of
from phipsi.core.model import (
    Closure,
    Description,
    Model,
    SpatialInertia,
    SystemAttachment,
    as_list,
    closure_set,
    fill,
    flat_batch,
    loop_bodies,
    read_only,
)
from phipsi.errors import ConvergenceError, InputError, ModelError, is_real, is_whole, true_or_false
from phipsi.views import view

if TYPE_CHECKING:  # the compiler is loaded when a system is first evaluated, not with its file
    from phipsi.algorithms.constrained.constraint_rows import ClosureRows
    from phipsi.algorithms.constrained.stages import Stages
    from phipsi.core.constraints import GraphJoint

Array = NDArray[Any]
POSITION_TOLERANCE = 1e-10
"""Largest residual (rad, m) of an assembled or projected configuration."""


@final
@dataclass(frozen=True)
class Mobility:
    """How many ways a system can move at one configuration.

    **Attributes:** `rates`, nv of the tree; `rows`, of the constraints; `rank`, how many rows are
    independent; `mobility`, rates − rank; `grubler`, rates − rows, the count on paper; `redundant`,
    the names of rows that the others imply; `smallest`, the smallest singular value that counts as
    independent, relative to the largest: near 0 the configuration is close to a singular one.
    """

    rates: int
    rows: int
    rank: int
    mobility: int
    grubler: int
    redundant: tuple[str, ...]
    smallest: float


class System(Model):
    """A mechanism with loops: a model with constraints between its bodies.

    The motion obeys ℳ vdot + (A J)* f = tau − bias with A J v = rates. A system is a `Model`: it
    has the bodies, joints, names and coordinates of its tree `system.model`, and changed copies
    keep the constraints. Functions that take a model take a system too, or reject it: answers
    about the given motion are those of the tree; those that constraint forces would change are
    rejected with the reason.

    **Arguments:** `model`, a tree or forest; `constraints`, from `phipsi.constraints`; `contacts`,
    which shapes may touch, `pp.Contacts(model)`; `primary`, `secondary`, names of bodies: a
    selection for the operators ``A["P"]``, ``Lambda["S"]`` (if only one is given, the other is the
    rest); `stages`, those of a system this one differs from: what
    the two have in common is then not computed again by `system.stages.dynamics` and `impulse`.
    **Attributes:** `model`; `constraints`; `closures`, the resolved rows; `row_names`; `rates`
    (rows,), what A J v must be: zero except for `ClosureRowTable` with rates; `stages`, which also
    counts the steps executed, see `phipsi.algorithms.constrained.stages`.

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
        if not isinstance(cast(object, model), Model) or isinstance(model, System):
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
        """A system from bodies and all their joints, loops included.

        A spanning tree is found that keeps the joints with few degrees of freedom; the others are
        cut and become constraints of the same name, listed in `cut_joints` and in `summary()`.
        Bodies that nothing joins to the world float on a free joint.

        **Arguments:** `bodies`, name → inertia, each in a frame of its own; `joints`,
        `constraints.GraphJoint`s, in any order; `cut`, joints to be cut rather than others.
        **Cost:** O(bodies + joints · log joints).

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
        """The system with some joints held still, as `Model.with_locked`, with the same stages.

        Bodies keep their names, and constraints their ends on them. Couplings keep the joints that
        are left; constraints between bodies that no longer move against each other are gone.

        **Arguments:** `joints`, names; `q`, a configuration (nq,), or joint → coordinates.

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
        """How far each row is from being satisfied, g(q).

        Zero where the loops are closed; rad (small angles) and m. Rows that bind velocities only
        have the residual 0.

        **Arguments:** `q` (..., nq). **Returns:** (..., rows).
        **Cost:** one sweep for the poses, O(N + rows). **Source:** theory/closed-chains 2.
        """
        flat, batch = self._flat(q)
        values, _ = self.rows.residual(flat, self.rows.poses(flat))
        return values.reshape(*batch, self.n_rows)

    def jacobian(self, q: ArrayLike) -> Array:
        """G = A J: rates v → rates of the rows.

        It is exactly the derivative of `residual` along v, also where the loops are open.

        **Arguments:** `q` (..., nq). **Returns:** (..., rows, nv).
        **Cost:** the Jacobians of the closure frames, O(rows · depth). **Source:** SOA eq. 0.20.
        """
        flat, batch = self._flat(q)
        return self.rows.jacobian(flat).reshape(*batch, self.n_rows, self.model.nv)

    def bias(self, q: ArrayLike, v: ArrayLike) -> Array:
        """d/dt(A J) v: accelerations of the rows at vdot = 0; the papers' U is its negative.

        **Arguments:** `q` (..., nq), `v` (..., nv). **Returns:** (..., rows).
        **Cost:** one sweep, O(N + rows). **Source:** SOA eq. 0.22 corrected.
        """
        flat, batch, rates = self._flat_state(q, v)
        return self.rows.bias(flat, rates).reshape(*batch, self.n_rows)

    # ---- configurations -----------------------------------------------------------------------

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

        **Arguments:** `q0` (..., nq), neutral by default; `fixed`, joints that stay as in `q0`;
        `limits`, whether to keep the joints' limits; `tolerance`, largest residual in rad and m;
        `restarts`, how many random starts (drawn with `seed`) an element gets that fails.
        **Returns:** q (..., nq). If there is none nearby it raises a `ConvergenceError` that names
        the loop, its bodies and the gap; its `result` is the best q found.
        **Cost:** per step the Jacobian of the closure frames and an O(nv³) solve.
        **Source:** theory/closed-chains 10.
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
        """The nearest configuration on the constraints, and the nearest rates that keep them.

        q ⊕ dq with dq = −ℳ⁻¹ G* S⁺ g repeated, then v − ℳ⁻¹ G* S⁺ (G v − rates), G = A J and
        S = G ℳ⁻¹ G*: both nearest in the mass metric. The velocity projection is also the jump
        when constraints are switched on: it conserves momentum and adds no energy.

        **Arguments:** `q` (..., nq), `v` (..., nv). **Returns:** (q, v) of the same shapes. It
        raises a `ConvergenceError` if there is no closed configuration near q (see `assemble`), or
        if the prescribed rates contradict each other.
        **Cost:** two to three singular value decompositions, O(rows² nv).
        **Source:** theory/closed-chains 10 and 11.
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
        """Degrees of freedom at a configuration (nq,), and which rows the others imply.

        The rank is that of G in the mass metric, each row divided by the size it would have if
        nothing in it cancelled. Singular values below `tolerance` of the largest are zero; by
        default it is 1e-9, and more where the loops are open.
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
        """Names of rows that the others imply at a configuration (nq,).

        Forces in them are not determined by rigid bodies; accelerations are. It is
        ``mobility(q).redundant``.

        >>> import phipsi as pp
        >>> arm = pp.examples.planar_arm(3)
        >>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
        >>> four_bar = pp.System(arm, [pin])
        >>> four_bar.redundant_rows(four_bar.assemble([1.0, -1.0, -1.5]))
        ('pin.tilt_x', 'pin.tilt_y', 'pin.z')
        """
        return self.mobility(q).redundant

    def summary(self, q: ArrayLike | None = None) -> str:
        """Constraints, bodies of each loop, mobility and redundant rows, as text.

        With `q` (nq,) the mobility is counted there, else at the assembly nearest to neutral.
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
                    "mobility at a configuration: give one, summary(q); neutral q is far off"
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


def _check_search(**options: Any) -> None:
    """Reject numbers with which a search would end before it begins."""
    for name, value in options.items():
        counts = name != "tolerance"
        fits = is_whole(value) if counts else is_real(value)
        if not fits or not (value >= 0 if counts else 0 < value < np.inf):
            kind = "a number of at least 0" if counts else "a finite number above 0"
            raise InputError(f"{name}={value!r} must be {kind}")


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
                f"two constraints are called {c.name!r}; rows and loops are reported by name, so "
                f"each needs its own."
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
            "contacts= are those of another model; take them for this one:\n"
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
