# ruff: noqa: E501  (tables: one row, one line)
"""Equations of motion, the four forward dynamics, hinge forces and innovations as operator equations.

The state of a proof satisfies the equations of motion (gravity, point forces f0 and rotors included),
so that ``vdot`` may stand on one side. Abbreviations: abar = a + gravity, alpha = φ*(H* vdot + abar),
zeta = M φ* abar + b + B f0, f = φ (M alpha + b + B f0), C = H φ (M φ* a + b), T1 = tau − H φ zeta.
"""

from __future__ import annotations

from phipsi.rewrite.identity import Identity
from phipsi.rewrite.theorems_symbols import theorem as t

NO_ROTORS = "Jr = 0"
_HERE = "theory/open-chains 4.3"

# fmt: off
BIAS: list[Identity] = [
    t("a gauge",         "a_paper",  "a + (I - E_phi*) s_gauge",                               _HERE),
    t("b gauge",         "b_paper",  "b - M s_gauge",                                          _HERE),
    t("C in both forms", "H phi (M phi* a_paper + b_paper)", "H phi (M phi* a + b)",           _HERE),
    t("gauge freedom",   "M phi* a + b", "M phi* (a + (I - E_phi*) x) + b - M x",              _HERE, note="for any x"),
]

MOTION: list[Identity] = [
    t("velocities",            "V",      "phi* H* v",                                          "SOA eq. 0.1"),
    t("stacked velocities",    "V",      "E_phi* V + H* v",                                    "SOA eq. 0.3"),
    t("stacked implicit form", "E_phi f + M alpha + b + B f0", "f",                            "SOA eq. 0.3"),
    t("stacked accelerations", "alpha",  "E_phi* alpha + H* vdot + abar",                      "SOA eq. 0.3"),
    t("inverse dynamics",      "tau",    "H phi (M phi* (H* vdot + abar) + b + B f0) + Jr vdot", "MM eq. 25",
      note="the papers have no Jr"),
    t("equations of motion (operators)", "tau", "mass_matrix vdot + C + J* f0 + H phi M phi* gravity", "MM eq. 23"),
    t("lambda",                "psi* H* nu1", "phi* H* vdot",                                  "SOA step B; MM sec. VII.A"),
]

FORWARD: list[Identity] = [
    t("FD1 operator", "(I - H psi K)* D^-1 (I - H psi K) (tau - H phi (M phi* abar + b + B f0))", "vdot",
      "MM eq. 47-48; 88-11 eq. 4.17-4.18"),
    t("FD2 operator", "psi* H* nu1 + phi* abar", "alpha",                                      "88-11 eq. 5.6"),
    t("FD2 MM",   "(I - G H)* Psi1* H* nu1 + H* nu1 + phi* abar", "alpha",                 "MM eq. 56"),
    t("FD3 operator", "(I - H psi K)* D^-1 (tau - H psi (K tau + M phi* abar + b + B f0))", "vdot", "88-11 eq. 5.8-5.10"),
    t("FD3 MM",   "(I - H Psi1 G)* D^-1 (tau - H Psi1 (G tau + (I - G H) zeta) - H zeta)", "vdot", "MM eq. 60-62"),
    t("FD4 operator", "(I - H psi K)* nu4 - K* psi* (I - G H)* abar - G* abar", "vdot",        "88-11 eq. 5.13-5.15",
      note="nu4 = D^-1 ((I - H psi K) tau - H psi~ P abar - H psi (b + B f0))"),
    t("MM eq. 67 corrected", "D^-1 ((I - H psi K) tau - H psi (P abar + b + B f0) + H P abar)", "nu4", "MM eq. 67"),
    t("innovations agree", "eps1", "tau - H psi (K tau + zeta)",                               "MM eq. 61"),
    t("FD4 eps",      "D^-1 (eps4 - eps1)", "G* phi* abar",                                    "derived"),
    t("FD1 and FD4 smooth differently", "psi* (H* nu4 + proj_bar* abar)", "psi* H* nu1 + phi* abar", "derived"),
    t("FD4 alpha (operators)", "psi* (H* nu4 + proj_bar* abar)", "alpha",                      "derived"),
]

FORCES: list[Identity] = [
    t("hinge force from FD4", "P alpha + psi (b + B f0 + K tau) + psi~ P abar", "f", "derived (articulated-body force law)"),
    t("hinge force projects", "H f",           "tau",                                          "MM eq. 12", NO_ROTORS),
    t("hinge force projects, with rotors", "H f", "tau - Jr vdot",                             "derived"),
    t("hinge force split",    "G tau + proj_bar f", "f",                                       "derived", NO_ROTORS),
    t("hinge force split, with rotors", "G tau + proj_bar f", "f + G Jr vdot",                 "derived"),
    t("SOA eq. .44 corrected", "(I - H psi K)* D^-1 H psi (-B f0)", "-mass_matrix^-1 J* f0", "SOA eq. .44",
      note="z = psi xhat, eps = +H z, xhat = -B f0"),
]

INNOVATIONS: list[Identity] = [
    t("D^1/2",               "D_half D_half*", "D",                                            "MC sec. 6"),
    t("kinetic energy",      "v* mass_matrix v", "v* (I + H phi K) D_half D_half* (I + H phi K)* v", "MC sec. 6",
      note="2 KE = nu* nu, nu = D^(1/2)* (I + H phi K)* v"),
    t("colour adjoint (operators)",  "(I + H phi K)* v", "v + K* V",                           "derived"),
    t("nu is memoryless in V", "(I + H phi K)* v", "G* V",                                     "derived", NO_ROTORS),
    t("power",               "v* tau", "v* (I + H phi K) D_half D_half^-1 (I - H psi K) tau",  "MC sec. 6 corrected",
      note="v* tau = nu* eps, eps = D^(-1/2) (I - H psi K) tau"),
    t("inverse of nu map",   "(I - H psi K)* D_half^-1* D_half* (I + H phi K)* v", "v",        "derived"),
]
# fmt: on

DYNAMICS = [*BIAS, *MOTION, *FORWARD, *FORCES, *INNOVATIONS]
