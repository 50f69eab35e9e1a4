"""The integrators, as data: coefficients and orders, shared by `simulate` and compiled code.

A fixed-step method advances y = [z, v] from t by h in the exponential coordinates z about the
configuration at t (exponential_chart.py), then makes the end point the new base. With ẏ = f(t, y):

    Runge–Kutta        y_i = y + h Σ_j a_ij k_j,   k_i = f(t + c_i h, y_i),   y⁺ = y + h Σ_i b_i k_i
    semi-implicit      v⁺ = v + h vdot(t, q, v),   q⁺ = q ∘ exp(h v⁺)
    implicit damping   (ℳ + h C) (v⁺ − v) = h ℳ vdot(t, q, v),   C = −∂tau/∂v of laws, its diagonal
    linearly implicit  (ℳ + h C_e + h² K_e) (v⁺ − v) = h (ℳ vdot(t, q, v) − h K_e v)
    midpoint           v⁺ = v + h vdot(t + h/2, q ∘ exp(h w/2), w),   q⁺ = q ∘ exp(h w),
                       w = (v + v⁺)/2
    variational        the midpoint rule for the action: discrete Euler–Lagrange equations
    time stepping      implicit damping with the impulses of contacts, contact_steps.py

Both midpoint rules have their equation at the middle of a step (`halfway`): implicit_steps.py has
it, for arrays and for graphs.

On a group the Runge–Kutta method is the Munthe-Kaas method with the exact dexp⁻¹, so its order is
that of its coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tableau:
    """An explicit Runge–Kutta method: rows `a` of coefficients, weights `b`, times `c`."""

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]


RK4_TABLEAU = Tableau(
    a=((0.0, 0.0, 0.0, 0.0), (0.5, 0.0, 0.0, 0.0), (0.0, 0.5, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0)),
    b=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    c=(0.0, 0.5, 0.5, 1.0),
)


@dataclass(frozen=True)
class Method:
    """One integrator.

    **Attributes:** `name`; `order` of the method (the largest one, for variable order); `tableau`,
    None for all but Runge–Kutta; `is_midpoint`, whether it solves an equation for the rates at the
    middle of a step; `is_variational`, whether that is the one of momenta by a variational
    principle, so that it is symplectic and keeps momenta to rounding; `damping_implicit`, whether
    it takes joint damping implicitly, from the derivatives of laws, which a `Simulator` has;
    `handles_contact`, whether bodies that touch push each other; `elastic_implicit`, whether it
    takes the elastic forces of flexible bodies implicitly; `solver`, the class in `scipy.integrate`
    of an adaptive method; `degree` of the polynomials of its dense output; `recentre`, whether
    SciPy's object can go on from changed coordinates ("step": after every step) or has to be built
    again ("turn": when a rotation has become large); `remark`, a line for the documentation.
    """

    name: str
    order: int
    tableau: Tableau | None = None
    is_midpoint: bool = False
    is_variational: bool = False
    damping_implicit: bool = False
    handles_contact: bool = False
    elastic_implicit: bool = False
    solver: str | None = None
    degree: int = 0
    recentre: str = "step"
    remark: str = ""

    @property
    def is_adaptive(self) -> bool:
        """Whether the method chooses its own steps from rtol and atol."""
        return self.solver is not None


COMPILED = ("semi_implicit", "rk4", "linearly_implicit", "variational")
"""Integrators of `rollout`."""

DIFFERENTIABLE = ("semi_implicit", "rk4", "linearly_implicit")
"""Integrators whose steps have derivatives, and that support constraints and prescribed joints."""

SIMULATED = (
    "rk4", "semi_implicit", "linearly_implicit", "implicit_damping", "implicit_midpoint",
    "variational", "time_stepping",
)  # fmt: skip
"""Integrators of `Simulator`."""

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("dopri", 8, solver="DOP853", degree=7, remark="Dormand–Prince 8(5,3); the default"),
        Method("radau", 5, solver="Radau", degree=3, remark="Radau IIA, for stiff forces"),
        Method(
            "lsoda", 12, solver="LSODA", degree=12, recentre="turn",
            remark="Adams and BDF, switches automatically; multistep",
        ),
        Method("rk4", 4, tableau=RK4_TABLEAU, remark="classical Runge–Kutta on the group"),
        Method("semi_implicit", 1, remark="Euler: rates first, then the configuration with them"),
        Method(
            "linearly_implicit", 1, elastic_implicit=True,
            remark="the same with elastic forces of flexible bodies at the end; for stiff modes",
        ),
        Method(
            "implicit_damping", 1, damping_implicit=True,
            remark="semi-implicit Euler with joint damping implicit; in a Simulator",
        ),
        Method(
            "time_stepping", 1, damping_implicit=True, handles_contact=True,
            remark="the same with contacts: impulses with exact Coulomb friction",
        ),
        Method("implicit_midpoint", 2, is_midpoint=True, remark="symmetric, implicit"),
        Method(
            "variational", 2, is_midpoint=True, is_variational=True,
            remark="midpoint rule for the action: symplectic, symmetric, keeps momenta; implicit",
        ),
    )
}  # fmt: skip
