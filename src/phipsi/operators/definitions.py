"""What the derived operators stand for: each name expands to an expression of simpler ones.

`expand` is the first pass of the compiler. A name listed in `keep` (because its value is given) is
left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from phipsi.errors import SpaceError
from phipsi.expressions.check import shown, signature
from phipsi.expressions.node import Expr, block_diagonal, cross, identity, leaf, zero
from phipsi.expressions.row import Op
from phipsi.expressions.spaces import EFFORTS, FORCES, MOTIONS, POINT_MOTIONS, RATES
from phipsi.expressions.structure import STRICTLY_CAUSAL, is_memoryless
from phipsi.operators.catalogue import CATALOGUE, catalogue_leaf

H, E_phi, phi, M, Jr = (catalogue_leaf(n) for n in ("H", "E_phi", "phi", "M", "Jr"))
B, v, V, a, b = (catalogue_leaf(n) for n in ("B", "v", "V", "a", "b"))
_I = identity(FORCES)
_FAMILY_SPACES = (
    ("H", FORCES, EFFORTS),
    ("E", FORCES, FORCES),
    ("M", MOTIONS, FORCES),
    ("Jr", RATES, EFFORTS),
)


@dataclass(frozen=True)
class Riccati:
    """The Riccati family of four operators (H, E, M, Jr): articulated inertias and what follows.

    The memoryless solution P of ``P = M + E (P − P H* D⁻¹ H P) E*`` with ``D = H P H* + Jr``, and

        G = P H* D⁻¹,  K = E G,  π = G H,  π̄ = I − π,  E_ψ = E π̄,  ψ = (I − E_ψ)⁻¹.

    The catalogue's P, D, G, K, ψ are the default instance. Others: without armature
    (``Riccati(Jr=0)``), on another transition operator, with implicit damping in Jr. Hinge map H
    and Jr are any memoryless operators ``body forces → joint efforts`` and ``rates → efforts``.

    >>> from phipsi.operators import Riccati, D, Jr
    >>> Riccati().D is D
    True
    >>> print(Riccati(Jr=0).psi)
    ψ{H; E_φ; M; 0}
    """

    H: Expr = H
    E: Expr = E_phi
    M: Expr = M
    Jr: Expr | int = Jr

    def __post_init__(self) -> None:
        if not isinstance(self.Jr, Expr) and self.Jr == 0:
            object.__setattr__(self, "Jr", zero(RATES, EFFORTS))
        for name, takes, gives in _FAMILY_SPACES:
            x = getattr(self, name)
            if not isinstance(x, Expr) or x.takes is not takes or x.gives is not gives:
                what = f"{shown(x)} : {signature(x)}" if isinstance(x, Expr) else repr(x)
                raise SpaceError(
                    f"Riccati({name}=…) must be an operator {takes.phrase} → {gives.phrase}"
                    f"{', or 0' if name == 'Jr' else ''}, but it is\n    {what}"
                )
            if name != "E" and not is_memoryless(x.structure):
                raise SpaceError(f"Riccati({name}=…) must be memoryless, but {shown(x)} is not")
        if self.E.structure != STRICTLY_CAUSAL:
            raise SpaceError(
                f"Riccati(E=…) must carry every body to its parent, as E_φ and E_ψ do, but "
                f"{shown(self.E)} does not"
            )

    def leaf(self, name: str) -> Expr:
        """The member of the family with this catalogue name."""
        assert isinstance(self.Jr, Expr)
        args = (self.H, self.E, self.M, self.Jr)
        return leaf(CATALOGUE[name], () if args == _DEFAULT else args)

    @property
    def P(self) -> Expr:
        """Articulated-body inertia."""
        return self.leaf("P")

    @property
    def D(self) -> Expr:
        """Articulated hinge inertia H P H* + Jr."""
        return self.leaf("D")

    @property
    def D_half(self) -> Expr:
        """Cholesky factor of D."""
        return self.leaf("D_half")

    @property
    def G(self) -> Expr:
        """Kalman gain."""
        return self.leaf("G")

    @property
    def K(self) -> Expr:
        """Shifted gain E G."""
        return self.leaf("K")

    @property
    def proj(self) -> Expr:
        """G H."""
        return self.leaf("proj")

    @property
    def proj_bar(self) -> Expr:
        """I − G H."""
        return self.leaf("proj_bar")

    @property
    def E_psi(self) -> Expr:
        """E π̄."""
        return self.leaf("E_psi")

    @property
    def psi(self) -> Expr:
        """(I − E_ψ)⁻¹."""
        return self.leaf("psi")

    @property
    def psi_tilde(self) -> Expr:
        """ψ − I."""
        return self.leaf("psi_tilde")

    @property
    def Omega(self) -> Expr:
        """ψ* H* D⁻¹ H ψ."""
        return self.leaf("Omega")

    @property
    def Upsilon(self) -> Expr:
        """Block diagonal of Ω."""
        return self.leaf("Upsilon")


_DEFAULT = (H, E_phi, M, Jr)


def family_of(x: Expr) -> Riccati:
    """The family a Riccati leaf belongs to."""
    return Riccati(*(x.args or _DEFAULT))


def transition_step(x: Expr) -> Expr:
    """The one-step operator E of a transition operator (I − E)⁻¹: E_φ of φ, E_ψ of ψ."""
    if x.name in ("phi", "phi_tilde"):
        return E_phi
    return family_of(x).E_psi


DEFINITIONS: dict[str, Callable[[Expr], Expr | None]] = {
    "mass_matrix": lambda x: H @ phi @ M @ phi.T @ H.T + Jr,
    "J": lambda x: _chosen(x) @ B.T @ phi.T @ H.T,
    "Lambda": lambda x: (
        _chosen(x)
        @ catalogue_leaf("J")
        @ catalogue_leaf("mass_matrix").inv
        @ catalogue_leaf("J").T
        @ _chosen(x).T
    ),
    "A": lambda x: catalogue_leaf("A") @ _chosen(x) if x.params else None,
    "B": lambda x: B @ _chosen(x).T if x.params else None,
    "A_grasp": lambda x: (B @ leaf(CATALOGUE["select"], params=("S",)).T).T,
    "U": lambda x: (
        catalogue_leaf("Udot")
        - catalogue_leaf("Adot") @ B.T @ V
        - catalogue_leaf("A") @ (B.T @ phi.T @ a + catalogue_leaf("Bdot").T @ V)
    ),
    "R": lambda x: block_diagonal(phi @ M @ phi.T),
    "phi_tilde": lambda x: phi @ E_phi,
    "K": lambda x: family_of(x).E @ family_of(x).G,
    "proj": lambda x: family_of(x).G @ family_of(x).H,
    "proj_bar": lambda x: _I - family_of(x).G @ family_of(x).H,
    "E_psi": lambda x: family_of(x).E @ family_of(x).proj_bar,
    "psi_tilde": lambda x: family_of(x).psi @ family_of(x).E_psi,
    "Omega": lambda x: _omega(family_of(x)),
    "Upsilon": lambda x: block_diagonal(_omega(family_of(x))),
    "V": lambda x: phi.T @ H.T @ v,
    "a": lambda x: cross(V) @ H.T @ v + catalogue_leaf("c_J"),
    "b": lambda x: -cross(V).T @ M @ V,
    "s_gauge": lambda x: cross(catalogue_leaf("angular") @ V) @ V,
    "c_J": lambda x: catalogue_leaf("Hdot").T @ v,
    "a_paper": lambda x: a + (identity(MOTIONS) - E_phi.T) @ catalogue_leaf("s_gauge"),
    "b_paper": lambda x: b - M @ catalogue_leaf("s_gauge"),
}


def _chosen(x: Expr) -> Expr:
    """The points of the selection that a leaf such as Λ[P] names; all if it names none."""
    if not x.params:
        return identity(POINT_MOTIONS)
    return leaf(CATALOGUE["select"], params=x.params)


def _omega(f: Riccati) -> Expr:
    return f.psi.T @ f.H.T @ f.D.inv @ f.H @ f.psi


@lru_cache(maxsize=2**14)
def definition(x: Expr) -> Expr | None:
    """The expression a leaf stands for, or None if it is primitive."""
    make = DEFINITIONS.get(x.name) if x.op is Op.LEAF else None
    return make(x) if make else None
