"""The rewrite rules: identities of the papers that make an expression cheaper.

Every rule is written for the default Riccati family (H, E_φ, M, Jr); the rewriter applies it to
every instance that occurs in an expression, and applies its adjoint too. The tests prove the rules
exactly on random trees of all joint types; ``pp.prove(name, model)`` does on any model. Identities
that do not make expressions cheaper are theorems, in `theorems`.
"""

from __future__ import annotations

from phipsi.core.expressions import EFFORTS, FORCES, Expr, block_diagonal as bd, identity, logdet
from phipsi.core.operators import E_phi, H, Jr, M, Riccati, catalogue_leaf, phi
from phipsi.core.rewrite.identity import Identity

_f = Riccati()
P, D, G, K, psi, E_psi, proj, proj_bar = (
    _f.P, _f.D, _f.G, _f.K, _f.psi, _f.E_psi, _f.proj, _f.proj_bar,
)  # fmt: skip
phi_tilde, psi_tilde, R = catalogue_leaf("phi_tilde"), _f.psi_tilde, catalogue_leaf("R")
shift, Lam_phi = catalogue_leaf("shift"), catalogue_leaf("Lam_phi")
I, IF = identity(EFFORTS), identity(FORCES)  # noqa: E741
mass_matrix = H @ phi @ M @ phi.T @ H.T + Jr
colour, whiten = I + H @ phi @ K, I - H @ psi @ K


def rule(name: str, lhs: Expr, rhs: Expr, source: str, condition: str = "") -> Identity:
    """One rewrite rule."""
    return Identity(lhs, rhs, condition, name=name, source=source, kind="rule")


# fmt: off
# these two hold for every W + H T X T* H*, which inverses.py recognises
FACTORIZATION = rule("innovations factorization",  mass_matrix.inv,         whiten.T @ D.inv @ whiten,       "SOA Lemma 0.3; MM eq. 46")
LOG_DET = rule("log det of the mass matrix", logdet(mass_matrix),     logdet(D),                       "SOA Lemma 0.1")

INVERSES = [
    #    name                          before                   after                            source
    rule("invert the colouring filter", colour.inv,             whiten,                          "SOA Lemma 0.2; MM eq. 45"),
    rule("invert the whitening filter", whiten.inv,             colour,                          "SOA Lemma 0.2"),
    rule("invert φ",                   phi.inv,                 IF - E_phi,                      "SOA eq. 0.6"),
    rule("invert ψ",                   psi.inv,                 IF - E_psi,                      "SOA eq. 0.27"),
    rule("sum the series of E_φ",      (IF - E_phi).inv,        phi,                             "SOA eq. 0.6"),
    rule("sum the series of E_ψ",      (IF - E_psi).inv,        psi,                             "SOA eq. 0.27"),
]

PRODUCTS = [
    rule("whiten φ",                   whiten @ H @ phi,        H @ psi,                         "SOA Lemma 0.4; 88-11 a.35"),
    rule("whiten φ̃",                   whiten @ H @ phi_tilde,  H @ psi @ E_phi,                 "SOA Lemma 0.4; SOA eq. .46"),
    rule("colour ψ",                   colour @ H @ psi,        H @ phi,                         "88-11 a.32"),
    rule("colour a gain",              psi @ K @ colour,        phi @ K,                         "88-11 a.39"),
    rule("whiten a gain",              phi @ K @ whiten,        psi @ K,                         "88-11 a.41"),
    rule("colour and whiten",          colour @ whiten,         I,                               "SOA Lemma 0.2"),
    rule("whiten and colour",          whiten @ colour,         I,                               "SOA Lemma 0.2"),
    rule("φ K H ψ",                    phi @ K @ H @ psi,       phi - psi,                       "88-11 a.28"),
    rule("ψ K H φ",                    psi @ K @ H @ phi,       phi - psi,                       "88-11 a.18"),
    rule("φ̃ from the right",           phi @ E_phi,             phi_tilde,                       "SOA eq. .46"),
    rule("φ̃ from the left",            E_phi @ phi,             phi_tilde,                       "SOA eq. .46"),
    rule("ψ̃ from the right",           psi @ E_psi,             psi_tilde,                       "SOA eq. .46"),
    rule("ψ̃ from the left",            E_psi @ psi,             psi_tilde,                       "SOA eq. .46"),
    rule("gain of E_φ",                E_phi @ G,               K,                               "SOA eq. 0.26"),
    rule("join the shift and its weight", shift @ Lam_phi,      E_phi,                           "derived from 88-11 App. A"),
    rule("step of π̄",                  E_phi @ proj_bar,        E_psi,                           "SOA eq. 0.27"),
]

# FD3 becomes FD4: no φ* a and no d'Alembert forces M φ* a
ACCELERATIONS = [
    rule("smooth without φ* a", whiten.T @ D.inv @ H @ psi @ M @ phi.T,
         whiten.T @ D.inv @ H @ psi_tilde @ P + K.T @ psi.T @ proj_bar.T + G.T,                  "88-11 a.50"),
]

SUMS = [
    rule("φ − I",                      phi - IF,                phi_tilde,                       "SOA eq. .46"),
    rule("ψ − I",                      psi - IF,                psi_tilde,                       "SOA eq. .46"),
    rule("I + φ̃",                      IF + phi_tilde,          phi,                             "SOA eq. .46"),
    rule("I + ψ̃",                      IF + psi_tilde,          psi,                             "SOA eq. .46"),
    rule("φ − φ̃",                      phi - phi_tilde,         IF,                              "SOA eq. .46"),
    rule("ψ − ψ̃",                      psi - psi_tilde,         IF,                              "SOA eq. .46"),
    rule("ψ step",                     E_phi - K @ H,           E_psi,                           "MC eq. 10"),
    # what is left of two equations of the papers, which have no rotors
    rule("Riccati with ψ on both sides", M - P + E_psi @ P @ E_psi.T, -(K @ Jr @ K.T),             "derived"),
    rule("ψ M ψ*", psi @ M @ psi.T - P - psi_tilde @ P - P @ psi_tilde.T, -(psi @ K @ Jr @ K.T @ psi.T), "derived"),
]

# the mechanism as a filter: what joint forces y = H z say about body forces z = φ w, w of covariance M
_information, Upsilon = psi.T @ H.T @ D.inv @ H @ psi, _f.leaf("Upsilon")
_seen = phi @ M @ psi.T @ H.T @ D.inv @ H @ psi @ M @ phi.T
SMOOTHING = [
    rule("smoothed covariance",        phi @ M @ phi.T - _seen,
         P + psi_tilde @ P + P @ psi_tilde.T - P @ _information @ P,                             "derived; MM sec. I"),
]
DIAGONALS = [
    rule("covariance of smoothed forces", bd(_seen),
         bd(phi @ M @ phi.T) - P + P @ Upsilon @ P,                                              "derived; MM sec. I"),
    rule("blocks of Ω",                bd(_information),        Upsilon,                         "SOA eq. .41"),
]

NO_ARMATURE = [  # these use H G = I
    rule("H G",                        H @ G,                   I,                               "SOA", "Jr = 0"),
    rule("H π̄",                        H @ proj_bar,            H - H,                           "SOA", "Jr = 0"),
    rule("π̄ G",                        proj_bar @ G,            G - G,                           "derived", "Jr = 0"),
    rule("π̄ P H*",                     proj_bar @ P @ H.T,      P @ H.T - P @ H.T,                  "SOA Lemma .7d", "Jr = 0"),
    rule("Lemma .7d",                  H @ psi @ M @ psi.T @ H.T, D,                             "SOA eq. .49", "Jr = 0"),
]

# matrices instead of products: every block by one path, or by the nearest common ancestor;
# `matrix_form` carries it out for any T₁ X T₂*, and the rewriter records it with this source
COMPOSITE = rule("composite bodies",           phi @ M @ phi.T,         R + phi_tilde @ R + R @ phi_tilde.T,  "MM eq. 28; 88-11 cor. A.1")
MATRICES = [COMPOSITE]
# fmt: on

RULES: list[Identity] = [
    FACTORIZATION,
    *INVERSES,
    LOG_DET,
    *PRODUCTS,
    *ACCELERATIONS,
    *SUMS,
    *SMOOTHING,
    *DIAGONALS,
    *NO_ARMATURE,
    *MATRICES,
]
