# ruff: noqa: E501  (tables: one row, one line)
"""The mechanism as a filter: prediction, smoothing, their covariances, and two-point problems.

Body forces z = φ w with inputs w of covariance M, joint forces y = H z + e with e of covariance Jr.
Then E(y y*) = ℳ, E(z y*) = φ M φ* H*, and the estimates of least variance are

    ẑ = ψ K y                       from the joint forces outboard of each body: Kalman filter
    E[z | y] = φ M φ* H* ℳ⁻¹ y      from all: Bryson–Frazier smoother
    λ = φ* H* ℳ⁻¹ y                 the costate, which is the acceleration of the bodies

Theory: theory/open-chains 10.3.
"""

from __future__ import annotations

from phipsi.core.rewrite import Identity
from phipsi.papers.theorems.paper_symbols import NO_ROTORS, theorem as t, used

_S = "phi M phi*"
_SEEN = "phi M phi* H* mass_matrix^-1 H phi M phi*"

# fmt: off
FILTERS: list[Identity] = [
    t("Kalman predictor",             "(I - E_phi) psi K",            "K (I - H psi K)",                    "derived", note="zhat = E_phi zhat + K eps, with zhat = psi K y"),
    t("Kalman predictor error",       "(psi M phi* H* - psi K Jr) (I - H psi K)*", "P psi* H*",             "derived", note="E((z - zhat) eps*): no correlation with innovations outboard"),
    t("Kalman predictor covariance",  "psi (M + K Jr K*) psi*",       "P + psi~ P + P psi~*",               "derived", note="of z - zhat"),
    t("Kalman predictor covariance, blocks", "bd(psi (M + K Jr K*) psi*)", "P",                             "derived"),
    t("Kalman whitening filter",      "(I - H psi K) mass_matrix (I - H psi K)*", "D",                      "derived", note="innovations are independent from joint to joint"),
    t("Kalman colouring filter",      "(I + H phi K) D (I + H phi K)*", "mass_matrix",                      "derived", note="innovations representation"),
    t("Bryson-Frazier smoother",      f"{_S} H* mass_matrix^-1",      "psi K + P psi* H* D^-1 (I - H psi K)", "derived; MM sec. I"),
    t("Bryson-Frazier smoother, costate", "phi* H* mass_matrix^-1",   "psi* H* D^-1 (I - H psi K)",         "derived"),
    t("smoother keeps the outputs",   "H (psi K + P psi* H* D^-1 (I - H psi K))", "I",                      "derived", NO_ROTORS, note="H E[z | y] = y"),
    used("smoothed covariance", "smoother covariance"),
    used("covariance of smoothed forces", "smoother covariance, explained part"),
    used("blocks of Ω", "smoother information"),
    t("smoother covariance, blocks",  f"bd({_S} - {_SEEN})",          "P - P Upsilon P",                    "derived; MM sec. I"),
    t("smoother error, outputs",      f"({_S} - {_SEEN}) H*",         f"{_S} H* mass_matrix^-1 Jr",         "derived", note="no error along the joints without Jr"),
    t("smoother covariance of inputs", "bd(M - M phi* H* mass_matrix^-1 H phi M)", "M - M Upsilon M",       "derived", note="of w - E[w | y]"),
    t("two-point problem, forces",    f"(I - E_phi) {_S} H* mass_matrix^-1", "M phi* H* mass_matrix^-1",    "derived", note="z = E_phi z + M lambda, nothing outboard of the tips"),
    t("two-point problem, costates",  "(I - E_phi*) phi* H* mass_matrix^-1", "H* mass_matrix^-1",           "derived", note="lambda = E_phi* lambda + H* vdot, zero at the base"),
    t("two-point problem, outputs",   "H (psi K + P psi* H* D^-1 (I - H psi K)) + Jr (I - H psi K)* D^-1 (I - H psi K)", "I",                "derived", note="H z + Jr vdot = y"),
    t("sweep solution of the two-point problem", f"{_S} H* mass_matrix^-1 - psi K", "P phi* H* mass_matrix^-1", "derived; MM sec. VII", note="z = zhat + P lambda: a Kalman filter, then a smoother"),
    t("combination of two estimates", "P (P + R)^-1 R",               "P - P (P + R)^-1 P",                 "derived", note="(P^-1 + R^-1)^-1, for any two covariances"),
]
# fmt: on
