"""Derivatives of inverse and forward dynamics by q, v and accelerations or efforts.

With constraints the equations of motion are differentiated at their solution (vdot, f):

    [ℳ G*; G 0] d[vdot; f] = [−∂ID − (∂G)* f; −∂bias − (∂G) vdot]

with G = A J. ∂ID comes from the operator expressions of the tree, the rest from those of G* f and
of the rows' accelerations G vdot − U, whose derivatives are expressions too.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple, Unpack, final

from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.constraint_rows import rows_of
from phipsi.algorithms.dynamics.constraint_forces import motion_and_multipliers
from phipsi.algorithms.dynamics.dynamics_expressions import (
    FORWARD_DYNAMICS_FD3,
    INVERSE_DYNAMICS,
    MASS_MATRIX_INVERSE,
    ROW_ACCELERATIONS,
)
from phipsi.core.backends import CallOptions, Calls, state_arrays
from phipsi.core.calculus import diff, substitute
from phipsi.core.compiler import NamedForm, evaluate, program_of
from phipsi.core.expressions import ROW_FORCES, Expr
from phipsi.core.model import Model, Refusal, supports, tree_of
from phipsi.core.operators import (
    A,
    D,
    H,
    J,
    K,
    as_matrix,
    identity,
    mass_matrix,
    operand,
    psi,
    vdot as vdot_leaf,
)
from phipsi.support import fields_in_line

Array = NDArray[Any]


class EffortDerivatives(NamedTuple):
    """Derivatives of joint torques and forces with respect to q, v and vdot.

    Parameters
    ----------
    by_q : ndarray, shape (..., nv, nv)
        ∂τ/∂q, along the directions of v.
    by_v : ndarray, shape (..., nv, nv)
        ∂τ/∂v.
    by_vdot : ndarray, shape (..., nv, nv)
        ∂τ/∂v̇, the mass matrix.
    """

    by_q: Array
    by_v: Array
    by_vdot: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


class AccelerationDerivatives(NamedTuple):
    """Derivatives of joint accelerations with respect to q, v and tau.

    Parameters
    ----------
    by_q : ndarray, shape (..., nv, nv)
        ∂v̇/∂q, along the directions of v.
    by_v : ndarray, shape (..., nv, nv)
        ∂v̇/∂v.
    by_tau : ndarray, shape (..., nv, nv)
        ∂v̇/∂τ.
    """

    by_q: Array
    by_v: Array
    by_tau: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


@cache
def inverse_dynamics_operators(modal: bool = False) -> tuple[Expr, Expr, Expr]:
    """∂τ/∂q, ∂τ/∂v and ∂τ/∂v̇ as operators on joint rates; `modal`: bodies have modes."""
    by_q, by_v, by_vdot = (diff(INVERSE_DYNAMICS, name, modes=modal) for name in ("q", "v", "vdot"))
    return by_q, by_v, by_vdot


@cache
def forward_dynamics_operators(modal: bool = False) -> tuple[Expr, Expr, Expr]:
    """∂v̇/∂q, ∂v̇/∂v and ∂v̇/∂τ, the first two as products of two matrices.

    −ℳ⁻¹ ∂τ/∂q = −(C* D⁻¹) (C ∂τ/∂q) with C = I − H ψ K. C H φ is H ψ, so the right factor is
    computed along paths like ∂τ/∂q itself, and the left one is zero but for joints above a joint.
    """
    inverse = MASS_MATRIX_INVERSE
    accelerations = {vdot_leaf: FORWARD_DYNAMICS_FD3}
    by_q, by_v, _ = (substitute(x, accelerations) for x in inverse_dynamics_operators(modal))
    whiten = identity(H.gives) - H @ psi @ K
    left = as_matrix(whiten.T @ D.inv)
    return -(left @ as_matrix(whiten @ by_q)), -(left @ as_matrix(whiten @ by_v)), inverse


_OF_EFFORTS = NamedForm(inverse_dynamics_operators, "dense", EffortDerivatives)
_OF_ACCELERATIONS = NamedForm(forward_dynamics_operators, "dense", AccelerationDerivatives)


@supports(
    loops=Refusal(
        "which torques a motion needs depends on which joints are actuated",
        "Use the derivatives of its accelerations:  pp.forward_dynamics_derivatives(system, q, v, "
        "tau)",
    ),
    flexible=True,
    rotors=True,
)
def inverse_dynamics_derivatives(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vdot: ArrayLike,
    **options: Unpack[CallOptions],
) -> EffortDerivatives:
    """Derivatives of inverse dynamics with respect to q, v and vdot.

    Column k of `by_q` is the change of tau when only degree of freedom k moves, in the direction of
    its velocity: for joints with quaternions the derivative is along v, nv columns.

    Parameters
    ----------
    model : Model
        A tree.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    vdot : array_like, shape (..., nv)
        Generalized accelerations, rad/s² or m/s².
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    EffortDerivatives
        `by_q`, `by_v`, `by_vdot`, (..., nv, nv) each.

    Notes
    -----
    With f = φ (M α + b) and 2 B = −cross(V)* M − M cross(V) − cross_force(M V):

        ∂τ/∂q = H φ (M φ* X + 2 B φ* Y) − H φ̃ cross_force(f) H* + dH{f}
        ∂τ/∂v = H φ (M φ* X' + 2 B φ* H*),     ∂τ/∂v̇ = ℳ,

    X, X', Y memoryless. **Cost:** O(N · depth); with flexible bodies O(N) for each degree of
    freedom. **Source:** theory/sensitivities 4 (E10–E12); MS lemmas 3.1–4.2.

    Examples
    --------
    >>> from phipsi import inverse_dynamics_derivatives
    >>> from phipsi.examples import planar_arm
    >>> by_q, by_v, by_vdot = inverse_dynamics_derivatives(planar_arm(2), [0, 0.5], [1, 0], [0, 0])
    >>> by_v.round(4) + 0
    array([[ 0.    , -0.4794],
           [ 0.4794,  0.    ]])
    """
    args = (q, v, vdot)
    return evaluate(_OF_EFFORTS, inverse_dynamics_derivatives, model, args, options)


@supports(loops=True, flexible=True, rotors=True)
def forward_dynamics_derivatives(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    **options: Unpack[CallOptions],
) -> AccelerationDerivatives:
    """Derivatives of forward dynamics with respect to q, v and tau.

    Derivatives with respect to q are along the generalized velocities, nv columns. With constraints
    they are those of the formula for vdot, along all directions of v: motions that break the loops
    included. Along δq, δv that keep the loops closed they are the derivatives of the motion.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    tau : array_like, shape (..., nv)
        Joint torques and forces, N·m or N, in the directions of v.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    AccelerationDerivatives
        `by_q`, `by_v`, `by_tau`, (..., nv, nv) each.

    Raises
    ------
    SingularHingeError
        If a joint has no inertia to move.

    Notes
    -----
    ∂v̇/∂q = −ℳ⁻¹ ∂τ/∂q, ∂v̇/∂v = −ℳ⁻¹ ∂τ/∂v at the accelerations of forward dynamics, and ∂v̇/∂τ =
    ℳ⁻¹. **Cost:** O(N · depth), and O(N²) to O(N³) for the products with ℳ⁻¹; with constraints
    O(nv³ + rows³) per configuration. **Source:** theory/sensitivities 5 (E13); theory/closed-chains
    11 (C32).

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> by_q, by_v, by_tau = pp.forward_dynamics_derivatives(arm, [0, 0], [0, 0], [0, 0])
    >>> by_tau.round(4)
    array([[ 1.7143, -4.2857],
           [-4.2857, 13.7143]])
    >>> gear = pp.constraints.Coupling(name="gear", joints=arm.joint_names, coefficients=[1, -1])
    >>> geared = pp.System(arm, [gear])
    >>> pp.forward_dynamics_derivatives(geared, [0, 0], [0, 0], [0, 0]).by_tau.round(4)
    array([[0.2143, 0.2143],
           [0.2143, 0.2143]])
    """
    if not getattr(model, "n_rows", 0):
        args = (q, v, tau)
        return evaluate(_OF_ACCELERATIONS, forward_dynamics_derivatives, model, args, options)
    tree, calls = tree_of(model, forward_dynamics_derivatives), Calls(options)
    q, v, tau = state_arrays(tree, finite=calls.raises, q=q, v=v, tau=tau)
    vdot, f = motion_and_multipliers(model, q, v, tau, calls=calls)
    solve = partial(_with_constraints, model)
    return calls.finish(AccelerationDerivatives(*calls.solve(solve, q, v, vdot, f)))


def _with_constraints(
    model: Model, q: Array, v: Array, vdot: Array, f: Array
) -> tuple[Array, Array, Array]:
    solver = KKTSolver(model, q)
    operators = inverse_dynamics_operators(model.has_more_rows)
    id_q, id_v, _ = program_of(operators, model.model, "dense")(q, v, vdot)
    loads, (rows_q, rows_v) = solver.loads_by_q(f), solver.accelerations_by(v, vdot)
    by_q, by_v = solver.solve(-id_q - loads, -rows_q), solver.solve(-id_v, -rows_v)
    return by_q, by_v, solver.by_efforts


@final
class KKTSolver:
    """ℳ x + G* λ = forces, G x = rows at configurations (..., nq), for many right-hand sides.

    Which rows are independent is decided by `row_rank`, with its limit or another one.

    **Attributes:** `jacobian`, G (..., rows, nv); `by_efforts` (..., nv, nv), x by the forces.
    """

    def __init__(self, system: Model, q: Array, limit: float | None = None) -> None:
        self.system, self.q, self.modal = system, q, system.has_more_rows
        self._at = at = ConstraintMetric(rows_of(system), q.reshape(-1, q.shape[-1]), limit)
        self.jacobian, self.by_efforts = self._shaped(at.jacobian), self._shaped(at.by_efforts)
        self._reach = self._shaped(at.reach)

    def _shaped(self, x: Array) -> Array:
        return x.reshape(*self.q.shape[:-1], *x.shape[1:])

    def solve(self, forces: Array, rows: Array) -> Array:
        """x (..., nv, k) for forces (..., nv, k) and rows (..., rows, k)."""
        return self.by_efforts @ forces + self._reach @ rows

    def least(self, rows: Array) -> Array:
        """x (..., nv, k) of least kinetic energy with G x = rows (..., rows, k)."""
        return self._reach @ rows

    def least_by_q(self, x: Array, rows: Array) -> Array:
        """Derivatives (..., nv, nv) by q of x = ℳ⁻¹ G* S⁺ rows (..., nv), the rows held.

        ℳ x = G* μ and G x = rows, differentiated.
        """
        mu = (self._shaped(self._at.admittance) @ rows[..., None])[..., 0]
        inertia = program_of(_by("q", _MOMENTA, self.modal), self.system.model, "dense")(self.q, x)
        return self.solve(self.loads_by_q(mu) - inertia, -self.rates_by_q(x))

    def rates_by_q(self, x: Array) -> Array:
        """Derivatives (..., rows, nv) by q of G x, x (..., nv) held."""
        return program_of(_by("q", _ROW_RATES, self.modal), self.system, "dense")(self.q, x)

    def loads_by_q(self, f: Array) -> Array:
        """Derivatives (..., nv, nv) by q of G* f, the multipliers f (..., rows) held."""
        return program_of(_by("q", _LOADS, self.modal), self.system, "dense")(self.q, f)

    def accelerations_by(self, v: Array, vdot: Array) -> tuple[Array, Array]:
        """Derivatives (..., rows, nv) by q and by v of the accelerations of the rows, vdot held."""
        both = tuple(_by(name, ROW_ACCELERATIONS, self.modal) for name in ("q", "v"))
        return program_of(both, self.system, "dense")(self.q, v, vdot)


# ℳ x and G x of given x, and G* f of given multipliers f
_MOMENTA, _ROW_RATES = mass_matrix @ vdot_leaf, A @ J @ vdot_leaf
_LOADS = J.T @ A.T @ operand(ROW_FORCES)


@cache
def _by(name: str, form: Expr, modal: bool) -> Expr:
    """The derivative of a form by q or v."""
    return diff(form, name, modes=modal)
