# ruff: noqa: E501  (tables: one row, one line)
"""Equations of motion, the four forward dynamics, forces, innovations, and the papers' recursions.

theory/open-chains 5 to 8, 10, 11 and 13. A recursion is the compiled form of an expression:
its sweeps run on exact numbers, and the result is compared with dense matrices. It is compiled as
it is written, and rewritten.

The state of a proof satisfies the equations of motion (gravity, point forces f0 and rotors included),
so that ``vdot`` may stand on one side. Abbreviations: abar = a + gravity, alpha = φ*(H* vdot + abar),
zeta = M φ* abar + b + B f0, f = φ (M alpha + b + B f0), C = H φ (M φ* a + b), T1 = tau − H φ zeta.
"""

from __future__ import annotations

import numpy as np

from phipsi.operators import H, M, P, R, mass_matrix
from phipsi.proofs.proof_state import State
from phipsi.rewrite.identity import Claim, Identity
from phipsi.theorems.paper_symbols import checked, sweep, word
from phipsi.theorems.paper_symbols import theorem as t
from phipsi.theorems.values import (
    diagonal,
    inertial,
    lever,
    levers,
    positions,
    to_parents,
)

NO_ROTORS = "Jr = 0"


def _composite_sum(case: State) -> Claim:
    at, n = positions(case), case.model.n_bodies
    inertias, total = diagonal(inertial(case, M), n), case.zeros(n, 6, 6)
    for k in range(n):
        for i in case.model.tree.subtree(k):
            total[k] += lever(at[i] - at[k]) @ inertias[i] @ lever(at[i] - at[k]).T
    return Claim(diagonal(inertial(case, R), n), total)


def _in_world_axes(case: State) -> Claim:
    """H φ M φ* H* + Jr with φ from the positions alone, applied to any x."""
    x, eye = case.random(case.model.nv), case.eye(6 * case.model.n_bodies)
    across = inertial(case, H) @ np.linalg.inv(eye - to_parents(case, levers(case)))
    rotors = np.diag(case.model.armature)
    return Claim(case.dense(mass_matrix) @ x, (across @ inertial(case, M) @ across.T + rotors) @ x)


def _riccati_in_world_axes(case: State) -> Claim:
    """P = M + E (P − P H* D⁻¹ H P) E* with E from the positions alone: nothing else solves it."""
    h, p, step = inertial(case, H), inertial(case, P), to_parents(case, levers(case))
    d = h @ p @ h.T + np.diag(case.model.armature)
    passed = p - p @ h.T @ np.linalg.solve(d, h @ p)
    return Claim(p, inertial(case, M) + step @ passed @ step.T)


def _reaction(case: State) -> Claim:
    """(H* v)* (f − H⁺ tau) = 0, H⁺ = H* (H H*)⁻¹."""
    h, motion = case.dense(H), case.dense(word("H* v"))
    mounted = h.T @ np.linalg.solve(h @ h.T, case.tau)
    power = motion @ (case.dense(word("f")) - mounted)
    return Claim(power, 0 * power)


# fmt: off
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

RECURSIONS: list[Identity] = [
    #     name             compiled sweeps of        are                   source
    sweep("velocity sweep",  "phi* H* v",            "V",                  "MM eq. 6-9"),
    sweep("apply phi",       "phi",                  "phi",                "SOA"),
    sweep("apply phi*",      "phi*",                 "phi*",               "SOA"),
    sweep("apply psi",       "psi",                  "psi",                "MC after eq. 10"),
    sweep("apply psi*",      "psi*",                 "psi*",               "MC"),
    sweep("Newton-Euler",    "H phi (M phi* (H* vdot + abar) + b + B f0) + Jr vdot", "tau", "MM eq. 6-12, 25"),
    sweep("Newton-Euler, hinge forces", "phi (M phi* (H* vdot + abar) + b + B f0)", "f", "MM eq. 6-12"),
    sweep("equations of motion", "H phi (M phi* (H* vdot + abar) + b + B f0) + Jr vdot",
          "mass_matrix vdot + C + J* f0 + H phi M phi* gravity",                    "MM eq. 23"),
    sweep("composite-body recursion", "H phi M phi* H* + Jr", "mass_matrix",        "MM eq. 30-33", "dense"),
    checked("R positive part", "R(k) = sum over outboard bodies of phi M phi*",     "MM eq. 29", _composite_sum, rigid=True),
    checked("body-frame mass matrix", "mass_matrix x in body axes = H phi M phi* H* x + Jr x in world axes, for any x",
            "theory/open-chains 2", _in_world_axes, rigid=True),
    sweep("Riccati recursion",      "P",   "M + E_psi P E_phi*",                    "MM eq. 34-36; SOA eq. .39", "dense"),
    sweep("Riccati recursion, D",   "D",   "H P H* + Jr",                           "MM eq. 34-36; SOA eq. .39", "dense"),
    sweep("Riccati recursion, G",   "G",   "P H* D^-1",                             "MM eq. 34-36; SOA eq. .39", "dense"),
    sweep("Riccati recursion, psi", "E_psi", "E_phi (I - G H)",                     "MM eq. 34-36; SOA eq. .39"),
    sweep("Riccati recursion, K",   "K",   "E_phi G",                               "MM eq. 34-36; SOA eq. .39"),
    checked("P in world axes", "P = M + E_phi (P - P H* D^-1 H P) E_phi*, E_phi from the positions", "theory/open-chains 2",
            _riccati_in_world_axes),
    t("0 <= P",                    "P",     "bd(psi M psi* + psi K Jr K* psi*)",    "MM sec. VI.A; derived", note="a sum of squares"),
    t("P <= R",                    "R - P", "bd(phi K D K* phi*)",                  "MM sec. VI.A; derived", note="a sum of squares"),
    sweep("colour",          "I + H phi K",  "I + H phi K",                         "MC after eq. 11"),
    sweep("colour adjoint",  "(I + H phi K)* v", "v + K* V",                        "derived"),
    sweep("whiten",          "I - H psi K",  "I - H psi K",                         "MC after eq. 12"),
    sweep("mass matrix solve", "(I - H psi K)* D^-1 (I - H psi K)", "mass_matrix^-1", "SOA eq. .40; MM eq. 49-54"),
    sweep("FD1 recursion",   "(I - H psi K)* D^-1 (I - H psi K) (tau - H phi (M phi* abar + b + B f0))", "vdot", "MM eq. 49-54"),
    sweep("FD1 fused to three sweeps", "psi* H* D^-1 (I - H psi K) (tau - H phi (M phi* abar + b + B f0))", "phi* H* vdot",
          "theory/open-chains 10.2"),
    sweep("FD2 recursion",   "psi* H* nu1 + phi* abar", "alpha",                    "MM eq. 58-59"),
    sweep("FD3 recursion",   "(I - H psi K)* D^-1 (tau - H psi (K tau + zeta))", "vdot", "MM eq. 63-65 corrected"),
    sweep("FD3 alpha",       "psi* H* D^-1 (tau - H psi (K tau + zeta)) + phi* abar", "alpha", "88-11 sec. 5"),
    sweep("FD4 recursion",   "(I - H psi K)* nu4 - K* psi* proj_bar* abar - G* abar", "vdot", "MM eq. 69-73"),
    sweep("FD4 without psi", "mass_matrix^-1 (tau - H phi (M phi* abar + b + B f0))", "vdot", "theory/open-chains 10.2"),
    sweep("forward dynamics with the papers' pair", "mass_matrix^-1 (tau - H phi (M phi* (a_paper + gravity) + b_paper + B f0))",
          "vdot",                                                                   "SOA eq. 0.2"),
    sweep("FD4 alpha",       "psi* (H* nu4 + proj_bar* abar)", "alpha",             "derived"),
    sweep("hinge force from FD4, recursion", "P alpha + psi (b + B f0 + K tau) + psi~ P abar", "f", "derived"),
    checked("reaction does no work", "(H* v)* (f - H^+ tau) = 0",                   "derived", _reaction, NO_ROTORS),
]

OPERATIONAL: list[Identity] = [
    t("Upsilon equation (tree)",   "H* D^-1 H", "Upsilon - bd(E_psi* Upsilon E_psi)",           "corrects SOA eq. .41"),
    t("Upsilon equation (serial)", "H* D^-1 H", "Upsilon - E_psi* Upsilon E_psi",               "SOA eq. .41", "serial"),
    t("Omega decomposition (tree)", "Omega", "Upsilon + psi~* Upsilon + Upsilon psi~ + psi* Xi psi", "extends SOA Lemma .5"),
    t("Lemma .5 (serial)",         "Omega",     "Upsilon + psi~* Upsilon + Upsilon psi~",       "SOA eq. .42", "serial"),
    t("operational compliance",    "J mass_matrix^-1 J*", "B* Omega B",            "SOA eq. 0.34; MC eq. 19-20"),
    t("force correction",          "-mass_matrix^-1 J* f0", "-(I - H psi K)* D^-1 H psi B f0", "MC eq. 18 corrected"),
    t("correction of point accelerations", "-B* psi* H* D^-1 H psi B f0", "-(J mass_matrix^-1 J*) f0", "MC sec. 5.3"),
    sweep("force correction, recursion", "-(I - H psi K)* D^-1 H psi B f0", "-mass_matrix^-1 J* f0", "MC eq. 18 corrected"),
    sweep("force correction at the points", "-B* psi* H* D^-1 H psi B f0", "-(J mass_matrix^-1 J*) f0", "MC sec. 5.3"),
    sweep("Upsilon recursion", "Upsilon", "bd(psi* H* D^-1 H psi)",                "MC sec. 5.2; SOA eq. .43", "dense"),
    sweep("compliance recursion", "J mass_matrix^-1 J*", "B* psi* H* D^-1 H psi B", "derived", "dense"),
]
# fmt: on

DYNAMICS = [*MOTION, *RECURSIONS, *FORWARD, *FORCES, *OPERATIONAL, *INNOVATIONS]
