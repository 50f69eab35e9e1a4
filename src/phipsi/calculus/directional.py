"""δX: the change of an expression along one direction of q, v, … — again an expression.

Everything is in body axes, where M is constant and E_φ(p, k), H(k) depend on the joint k alone.
When the joints move with the rates u, body k moves by s = H* u relative to its parent, and

    δE_φ = −E_φ cross(s)*      δφ = φ δE_φ φ        δH = Ḣ{u}        δgravity = −cross(s) gravity
    δB = Ḃ{φ* s},  δA = Ȧ{φ* s}      δtotal = −total cross(φ* s)*      δshift = −shift cross(Π s)*

with Π the angular half of a motion, and δM = M(δπ) when the inertial parameters change, else 0.

Products, sums and inverses follow. The Riccati family: P solves P = M + E P⁺ E* with P⁺ = π̄ P,
which is stationary in the gain, so that

    δP = bd(ψ Q ψ*),   Q = δM + bd(δE P⁺ E* + E P⁺ δE* + E (G δJr G* − π̄ P δH* G* − G δH P π̄*) E*)
    δD = H δP H* + δH P H* + H P δH* + δJr,     δG = (δP H* + P δH* − G δD) D⁻¹

[MS lemmas 3.1–4.2; for trees and all joints, theory/sensitivities 3 and 6].
"""

from __future__ import annotations

from collections.abc import Mapping

from phipsi.errors import SpaceError
from phipsi.expressions.node import (
    Expr,
    adjoint,
    as_matrix,
    block_diagonal,
    cross,
    cross_force,
    dH_trace,
    half,
    identity,
    inertia_of,
    inertia_trace,
    leaf,
    logdet,
    outer,
    product,
    regress,
    total_of,
    vee,
    vee_force,
    zero,
)
from phipsi.expressions.row import Op
from phipsi.expressions.spaces import FORCES
from phipsi.operators.catalogue import catalogue_leaf
from phipsi.operators.definitions import E_phi, H, M, Riccati, definition, family_of, phi, v
from phipsi.operators.variations import (
    HOLED,
    WITH_ARGUMENTS,
    hinge_variation,
    hole_of,
    point_variation,
    row_variation,
    with_arguments,
)
from phipsi.rewrite.inverses import riccati_of

CONSTANT = ("M", "Jr", "unprescribed", "prescribed", "select", "angular")


_LINEAR = {
    Op.VEE: vee,
    Op.VEE_FORCE: vee_force,
    Op.INERTIA_OF: inertia_of,
    Op.INERTIA_TRACE: inertia_trace,
    Op.HALF: half,
}


class Directional:
    """Changes of expressions along one direction, each derived once.

    `along` maps what changes to its change: "q" to a vector of joint rates, and names of inputs
    ("v", "tau", …) to vectors of their own space. What is not named does not change.
    """

    def __init__(self, along: Mapping[str, Expr]) -> None:
        self.along = dict(along)
        self.u = self.along.get("q")
        self._done: dict[Expr, Expr] = {}

    def __call__(self, x: Expr) -> Expr:
        """δx, in the spaces of x."""
        if x not in self._done:
            self._done[x] = self._change(x)
        return self._done[x]

    @property
    def relative(self) -> Expr:
        """s = H* u: how every body moves relative to its parent."""
        assert self.u is not None
        return H.T @ self.u

    @property
    def motion(self) -> Expr:
        """φ* H* u: how every body moves."""
        return phi.T @ self.relative

    def _change(self, x: Expr) -> Expr:
        if x.op is Op.LEAF:
            return self._leaf(x)
        if x.op is Op.ADJOINT:
            return adjoint(self(x.args[0]))
        if x.op is Op.SUM:
            return total_of([(0, x), *((c, self(y)) for c, y in x.terms)])
        if x.op is Op.PRODUCT:
            return self._product(x.args)
        if x.op is Op.INVERSE:
            return -(x @ self(x.args[0]) @ x)
        if x.op is Op.BD:
            return block_diagonal(self(x.args[0]))
        if x.op is Op.CROSS:
            return cross(self(x.args[0]))
        if x.op is Op.AS_MATRIX:
            return self(x.args[0])
        if x.op is Op.CROSS_FORCE:
            return cross_force(self(x.args[0]))
        if x.op is Op.REGRESS:
            return regress(self(x.args[0]))
        if x.op in _LINEAR:
            return _LINEAR[x.op](self(x.args[0]))
        if x.op is Op.OUTER:
            y, z = x.args
            return outer(self(y), z) + outer(y, self(z))
        if x.op is Op.DH_TRACE:
            return self._dH_trace(x)
        if x.op is Op.LOGDET:
            return self._log_det(x)
        return zero(x.takes, x.gives)

    def _product(self, factors: tuple[Expr, ...]) -> Expr:
        terms: list[tuple[int, Expr]] = [(0, product(factors))]
        for i, y in enumerate(factors):
            change = self(y)
            if change.op is not Op.ZERO:
                terms.append((1, product((*factors[:i], change, *factors[i + 1 :]))))
        return total_of(terms)

    def _log_det(self, x: Expr) -> Expr:
        family = log_det_family(x)
        assert isinstance(family.Jr, Expr)
        dM, dJr = (self(y) for y in (family.M, family.Jr))
        out = zero(x.takes, x.gives)
        if self.u is not None:
            out = out + log_det_gradient(family).T @ self.u
        if family.M is M and "inertia" in self.along:  # tr(Υ δM)
            out = out + inertia_trace(family.Upsilon).T @ self.along["inertia"]
        elif dM.op is not Op.ZERO or dJr.op is not Op.ZERO:
            raise SpaceError(no_trace(x))
        return out

    def _dH_trace(self, x: Expr) -> Expr:
        """tr(Ḣ{…} X): by X, by every direction, and by q."""
        X, *directions = x.args
        terms: list[tuple[int, Expr]] = [(0, x), (1, dH_trace(self(X), *directions, hole=x.data))]
        for i, y in enumerate(directions):
            changed = [*directions[:i], self(y), *directions[i + 1 :]]
            terms.append((1, dH_trace(X, *changed, hole=x.data)))
        if self.u is not None:
            place = len(directions) if x.data is None else x.data
            terms.append((1, dH_trace(X, *directions, self.u, hole=place)))
        return total_of(terms)

    # -- leaves ------------------------------------------------------------------------------------

    def _leaf(self, x: Expr) -> Expr:
        if x.name in self.along and x.name != "q":
            return self.along[x.name]
        if x.name == "M" and "inertia" in self.along:
            return inertia_of(self.along["inertia"])
        if x.name in WITH_ARGUMENTS:
            return self._variation(x)
        if x.row.riccati and x.name in ("P", "D", "G", "psi", "D_half"):
            return self._riccati(x)
        meaning = definition(x)
        if meaning is not None:
            return self(meaning)
        nothing = zero(x.takes, x.gives)
        if x.name in CONSTANT or not set(x.row.needs) & set(self.along):
            return nothing
        if self.u is None:
            raise SpaceError(no_rule(x))
        if x.name == "H":
            return hinge_variation(self.u)
        if x.name == "E_phi":
            return -(E_phi @ cross(self.relative).T)
        if x.name == "shift":
            return -(x @ cross(catalogue_leaf("angular") @ self.relative).T)
        if x.name == "phi":
            return phi @ self(E_phi) @ phi
        if x.name == "B":
            return point_variation(self.motion)
        if x.name == "A":
            return row_variation(self.motion)
        if x.name == "total":
            return -(x @ cross(self.motion).T)
        if x.name == "gravity":
            return -(cross(self.relative) @ x)
        raise SpaceError(no_rule(x))

    def _variation(self, x: Expr) -> Expr:
        """The product rule for a leaf that is linear in its arguments; then its own q."""
        nothing = zero(x.takes, x.gives)
        args = x.args
        if x.name == "Hdot" and not args:
            args = (v,)
        if x.name in ("Bdot", "Adot") and not args:
            args = (catalogue_leaf("V"),)
        terms: list[tuple[int, Expr]] = [(0, x)]
        hole = hole_of(x) if x.name in HOLED else None
        for i, y in enumerate(args):
            change = self(y)
            if change.op is not Op.ZERO:
                changed = with_arguments(x.name, *args[:i], change, *args[i + 1 :], hole=hole)
                terms.append((1, changed))
        if self.u is not None:
            hinge = x.name in ("Hdot", "dHT", "dH")
            last = self.u if hinge else self.motion
            terms.append((1, with_arguments(x.name, *args, last, hole=hole)))
        return total_of(terms) if len(terms) > 1 else nothing

    def _riccati(self, x: Expr) -> Expr:
        f = family_of(x)
        assert isinstance(f.Jr, Expr)
        dH, dE, dM, dJr = (self(y) for y in (f.H, f.E, f.M, f.Jr))
        if all(y.op is Op.ZERO for y in (dH, dE, dM, dJr)):
            return zero(x.takes, x.gives)
        if x.name == "psi":
            return x @ self(f.E_psi) @ x
        if x.name == "P":
            return articulated_change(f, dH, dE, dM, dJr)
        if x.name == "D":
            mixed = dH @ f.P @ f.H.T
            return f.H @ self(f.P) @ f.H.T + mixed + mixed.T + dJr
        if x.name == "D_half":  # D = L L*: L⁻¹ δD L⁻* is δL of its own triangle plus the adjoint
            return x @ half(x.inv @ self(f.D) @ x.T.inv)
        if x.name == "G":
            return (self(f.P) @ f.H.T + f.P @ dH.T - f.G @ self(f.D)) @ f.D.inv
        raise SpaceError(no_rule(x))


def articulated_change(f: Riccati, dH: Expr, dE: Expr, dM: Expr, dJr: Expr) -> Expr:
    """δP = bd(ψ Q ψ*)."""
    rest = f.proj_bar @ f.P  # P⁺
    mixed = f.G @ dH @ f.P @ f.proj_bar.T
    inner = f.G @ dJr @ f.G.T - mixed - mixed.T
    step = dE @ rest @ f.E.T
    source = dM + block_diagonal(step + step.T + f.E @ inner @ f.E.T)
    return block_diagonal(f.psi @ source @ f.psi.T)


def log_det_family(x: Expr) -> Riccati:
    """The family whose D has the determinant in log det x, for H and E_φ."""
    inner = x.args[0]
    f = family_of(inner) if inner.name == "D" else riccati_of(inner)
    if f is None or f.H is not H or f.E is not E_phi:
        raise SpaceError(no_trace(x))
    return f


def log_det_gradient(f: Riccati) -> Expr:
    """The gradient of log det D, a vector of joint efforts, in two sweeps.

    log det ℳ = Σ log det D(k), and Σ tr(D⁻¹ δD) is a trace with Υ instead of one with δP:
    g = −2 H vee(Y P⁺) + 2 dH_trace((I − P π̄* Y) G) with Y = E_φ* Υ E_φ.
    """
    above = block_diagonal(f.E.T @ f.Upsilon @ f.E)
    rest = (identity(FORCES) - f.P @ f.proj_bar.T @ above) @ f.G
    return -2 * (f.H @ vee(above @ f.proj_bar @ f.P)) + 2 * dH_trace(rest)


def substitute(x: Expr, values: Mapping[Expr, Expr]) -> Expr:
    """x with leaves replaced by expressions of the same spaces, also inside other leaves."""
    done: dict[Expr, Expr] = dict(values)

    def change(y: Expr) -> Expr:
        if y in done:
            return done[y]
        out = y
        if y.args:
            args = tuple(change(z) for z in y.args)
            if args != y.args:
                out = _with_args(y, args)
        done[y] = out
        return out

    return change(x)


def _with_args(y: Expr, args: tuple[Expr, ...]) -> Expr:
    makers = {
        Op.ADJOINT: adjoint,
        Op.BD: block_diagonal,
        Op.CROSS: cross,
        Op.CROSS_FORCE: cross_force,
        Op.AS_MATRIX: as_matrix,
        Op.VEE: vee,
        Op.HALF: half,
        Op.LOGDET: logdet,
        Op.REGRESS: regress,
        Op.VEE_FORCE: vee_force,
        Op.INERTIA_OF: inertia_of,
        Op.INERTIA_TRACE: inertia_trace,
    }
    if y.op is Op.OUTER:
        return outer(*args)
    if y.op is Op.DH_TRACE:
        return dH_trace(*args, hole=y.data)
    if y.op is Op.SUM:
        return total_of([(0, y), *zip(y.data, args, strict=True)])
    if y.op is Op.PRODUCT:
        return product(args)
    if y.op is Op.INVERSE:
        return args[0].inv
    if y.op in makers:
        return makers[y.op](args[0])
    if y.op is Op.LEAF and y.name in WITH_ARGUMENTS:
        hole = hole_of(y) if y.name in HOLED else None
        return with_arguments(y.name, *args, hole=hole)
    if y.op is Op.LEAF and y.row.riccati:
        return leaf(y.row, args)
    raise SpaceError(f"{y} cannot be given other arguments")


def no_rule(x: Expr) -> str:
    """Text for a leaf without a derivative."""
    hint = {
        "pose": (
            "\nPoses are no vectors: they cannot be added, so their change is none of the algebra. "
            "When q changes along u, X_WB moves by the body motions φ* H* u, in body axes:\n"
            "    pp.compile(phi.T @ H.T, model)(q, u)"
        ),
    }.get(x.name, "")
    return f"no derivative is known for  {x}  ({x.row.meaning}).{hint}"


def no_trace(x: Expr) -> str:
    """Text for the derivative of a log det of something that is no mass matrix."""
    return (
        f"no derivative is known for  {x}.\n"
        "Known are those of  logdet(D)  and of  logdet(ℳ)  with ℳ = W + H φ M φ* H*, times a "
        "number. For another X take the trace of X⁻¹ δX:  pp.diff(X, 'q').compile(model)"
    )
