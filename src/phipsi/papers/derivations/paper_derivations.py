# ruff: noqa: E501  (tables: one row, one line)
"""The derivations of the five papers, as data: what is derived, from which identities, through which forms.

Each is found from its sides, or follows the forms in `through` where the paper gives them. Next to
the definitions only the identities in `using` are allowed, so that nothing rests on itself: they
stand above in the table, or are the papers' premises (the Riccati equation, the equations of motion,
the equation of R). Letters and conventions: `papers/theorems/paper_symbols.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from phipsi.core.rewrite import Identity
from phipsi.errors import InputError, did_you_mean
from phipsi.papers.derivations.derivation import Derivation
from phipsi.papers.derivations.derive import derive
from phipsi.papers.theorems.paper_symbols import NO_ROTORS, theorem, word


@dataclass(frozen=True)
class Paper:
    """One derivation of a paper; `convention` says how capital Φ and Ψ are read."""

    name: str
    source: str
    claim: str
    using: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    condition: str = ""
    convention: str = ""

    def identity(self) -> Identity:
        """The claim."""
        lhs, rhs = self.claim.split(" = ")
        return theorem(self.name, lhs, rhs, self.source, self.condition, convention=self.convention)

    def derivation(self) -> Derivation:
        """The derivation, found again."""
        points = [word(text, self.convention) for text in self.through]
        return derive(self.identity(), using=self.using, through=points)


def _row(
    name: str,
    source: str,
    claim: str,
    using: str = "",
    *through: str,
    condition: str = "",
    convention: str = "",
) -> Paper:
    names = tuple(filter(None, using.split(" | ")))
    return Paper(name, source, claim, names, through, condition, convention)


WHITEN = "(I - H psi K)"
PHI_M_PHI = "phi M phi* = P + phi~ P + P phi~* + phi K D K* phi*"
T1 = "(tau - H phi (M phi* abar + b + B f0))"

# fmt: off
DERIVATIONS: tuple[Paper, ...] = (
    # ---- SOA: velocities, equations of motion, propagation ---------------------------------------
    _row("stacked velocities",      "SOA eq. 0.3",  "phi* H* v = E_phi* phi* H* v + H* v"),
    _row("stacked accelerations",   "SOA eq. 0.3",  "alpha = E_phi* alpha + H* vdot + abar"),
    _row("stacked forces",          "SOA eq. 0.3",  "f = E_phi f + M alpha + b + B f0"),
    _row("equations of motion",     "SOA eq. 0.7",  "H phi (M phi* (H* vdot + abar) + b + B f0) + Jr vdot = mass_matrix vdot + C + J* f0 + H phi M phi* gravity"),
    _row("velocities of the points", "SOA eq. 0.18", "B* V = J v"),
    _row("one step of psi",         "MC eq. 10",    "E_phi proj_bar = E_phi - K H"),
    _row("Lemma .7a",               "SOA eq. .46",  "psi - I = E_psi psi"),
    _row("eq. .50",                 "SOA eq. .50",  "psi^-1 = phi^-1 + K H"),
    _row("Lemma .7c",               "SOA eq. .48",  "psi^-1 phi = I + K H phi", "MC Lemma 5"),
    _row("Lemma .7c, second",       "SOA eq. .48",  "phi psi^-1 = I + phi K H", "MC Lemma 5"),
    _row("psi phi^-1",              "MC Lemma 4",   "psi phi^-1 = I - psi K H", "MC Lemma 5"),
    # ---- Riccati equation ------------------------------------------------------------------------
    _row("H G",                     "SOA",          "H G = I", condition=NO_ROTORS),
    _row("tau is idempotent",       "SOA",          "proj proj = proj", "H G", condition=NO_ROTORS),
    _row("E_psi P H*",              "SOA Lemma .7d", "E_psi P H* = 0", "H G", condition=NO_ROTORS),
    _row("symmetry of tau P",       "SOA",          "proj P = P proj*"),
    _row("taubar P",                "SOA Lemma .6", "proj_bar P = proj_bar P proj_bar*", "tau symmetric in P | tau idempotent", condition=NO_ROTORS),
    _row("Riccati, mixed form",     "88-11 App. A", "P - E_psi P E_phi* = P - E_phi P E_phi* + K D K*"),
    _row("Lemma .6",                "SOA eq. .45",  "M = P - E_psi P E_psi*", "Riccati mixed | taubar P", condition=NO_ROTORS),
    _row("Lemma .7b",               "SOA eq. .47",  "psi M psi* = P + psi~ P + P psi~*", "Lemma .6", condition=NO_ROTORS),
    _row("Lemma .7d",               "SOA eq. .49",  "H psi M psi* H* = D", "Lemma .7b | E_psi P H*", condition=NO_ROTORS),
    # ---- factorization and inverse ---------------------------------------------------------------
    _row("phi M phi*",              "MC Lemma 1",   PHI_M_PHI, "Riccati K form"),
    _row("Lemma 0.1",               "SOA eq. 0.28", "mass_matrix = (I + H phi K) D (I + H phi K)*", PHI_M_PHI,
         "H (P + phi~ P + P phi~* + phi K D K* phi*) H* + Jr", "H P H* + H phi K D + D K* phi* H* + H phi K D K* phi* H* + Jr"),
    _row("phi K H psi",             "88-11 a.28",   "phi K H psi = phi - psi", "MC Lemma 5"),
    _row("psi K H phi",             "88-11 a.18",   "psi K H phi = phi - psi", "MC Lemma 5"),
    _row("Lemma 0.2",               "SOA eq. 0.29", "(I + H phi K) (I - H psi K) = I", "φ K H ψ"),
    _row("Lemma 0.2, as an inverse", "MC Lemma 2",  "(I + H phi K)^-1 = I - H psi K", "φ K H ψ"),
    _row("Lemma 0.3",               "SOA eq. 0.30", "mass_matrix^-1 = (I - H psi K)* D^-1 (I - H psi K)", "Lemma 0.1 | Lemma 0.2",
         "((I + H phi K) D (I + H phi K)*)^-1"),
    _row("Lemma 0.4",               "MC Lemma 4",   "(I - H psi K) H phi = H psi", "psi phi^-1", "H (I - psi K H) phi"),
    _row("step B",                  "SOA",          "phi* H* mass_matrix^-1 = psi* H* D^-1 (I - H psi K)", "Lemma 0.3 | Lemma 0.4"),
    _row("eq. 18",                  "MC eq. 18",    "-mass_matrix^-1 J* f0 = -(I - H psi K)* D^-1 H psi B f0", "Lemma 0.3 | Lemma 0.4",
         "-mass_matrix^-1 H phi B f0", "-(I - H psi K)* D^-1 (I - H psi K) H phi B f0"),
    _row("Omega",                   "MC eq. 20",    "phi* H* mass_matrix^-1 H phi = Omega", "Lemma 0.3 | Lemma 0.4",
         "phi* H* (I - H psi K)* D^-1 (I - H psi K) H phi"),
    _row("operational space",       "SOA eq. 0.34", "J mass_matrix^-1 J* = B* Omega B", "Omega"),
    _row("Lemma .5",                "SOA eq. .42",  "Omega = Upsilon + psi~* Upsilon + Upsilon psi~", "Upsilon equation (serial)",
         "psi* (Upsilon - E_psi* Upsilon E_psi) psi", condition="serial"),
    _row("Omega on trees",          "theory/open-chains 11.3", "Omega = Upsilon + psi~* Upsilon + Upsilon psi~ + psi* Xi psi", "Upsilon equation (tree)"),
    # ---- MM --------------------------------------------------------------------------------------
    _row("Identity 1",              "MM eq. 28",    "phi M phi* = R + Phi R + R Phi*", "R equation", convention="MM"),
    _row("mass matrix from R",      "MM eq. 28",    "H phi M phi* H* = H R H* + H Phi R H* + H R Phi* H*", "MM eq. 28", convention="MM"),
    _row("Identity 2",              "MM eq. 42",    "phi M phi* = P + Phi P + P Phi* + Phi P H* D^-1 H P Phi*", PHI_M_PHI,
         "P + phi~ P + P phi~* + phi K D K* phi*", "P + phi~ P + P phi~* + phi~ P H* D^-1 H P phi~*", convention="MM"),
    _row("Identity 3",              "MM eq. 43",    "mass_matrix = (I + H Phi G) D (I + H Phi G)*", "Identity 2",
         "H (P + Phi P + P Phi* + Phi P H* D^-1 H P Phi*) H* + Jr", "D + H Phi G D + D G* Phi* H* + H Phi G D G* Phi* H*", convention="MM"),
    _row("Identity 4",              "MM eq. 44",    "(I - Psi G H) Phi = Psi", convention="MM"),
    _row("Identity 4, its proof",   "MM proof of eq. 44", "phi - psi = Psi G H phi", convention="MM"),
    _row("Identity 5",              "MM eq. 45",    "(I + H Phi G) (I - H Psi G) = I", "(a.24) [MM form]", "I + H (Phi - (I + Phi G H) Psi) G", convention="MM"),
    _row("Identity 6",              "MM eq. 46",    "mass_matrix^-1 = (I - H Psi G)* D^-1 (I - H Psi G)", "Identity 3 | Identity 5",
         "((I + H Phi G) D (I + H Phi G)*)^-1", convention="MM"),
    # ---- forward dynamics ------------------------------------------------------------------------
    _row("forward dynamics",        "MM eq. 47",    f"vdot = mass_matrix^-1 {T1}", "inverse dynamics"),
    _row("FD1",                     "MM eq. 48",    f"mass_matrix^-1 {T1} = {WHITEN}* D^-1 {WHITEN} {T1}", "Lemma 0.3"),
    _row("FD2",                     "88-11 eq. 5.6", f"phi* H* mass_matrix^-1 {T1} + phi* abar = psi* H* nu1 + phi* abar", "Lemma 0.3 | Lemma 0.4",
         f"phi* H* {WHITEN}* D^-1 {WHITEN} {T1} + phi* abar"),
    _row("FD2 of MM",               "MM eq. 56",    "psi* H* nu1 + phi* abar = (I - G H)* Psi1* H* nu1 + H* nu1 + phi* abar", "",
         "(I + psi~*) H* nu1 + phi* abar", "(I + proj_bar* E_phi* psi*) H* nu1 + phi* abar"),
    _row("FD3, innovations",        "MM eq. 61",    f"{WHITEN} {T1} = tau - H psi (K tau + zeta)", "Lemma 0.4"),
    _row("FD3",                     "88-11 eq. 5.8", f"mass_matrix^-1 {T1} = {WHITEN}* D^-1 (tau - H psi (K tau + zeta))", "Lemma 0.3 | Lemma 0.4",
         f"{WHITEN}* D^-1 {WHITEN} {T1}"),
    _row("FD4",                     "88-11 eq. 5.13", f"mass_matrix^-1 {T1} = {WHITEN}* nu4 - K* psi* (I - G H)* abar - G* abar",
         "Lemma 0.3 | Lemma 0.4 | smooth without φ* a",
         f"{WHITEN}* D^-1 {WHITEN} {T1}", f"{WHITEN}* D^-1 (tau - H psi (K tau + zeta))"),
    _row("eq. 67",                  "MM eq. 67",    f"D^-1 ({WHITEN} tau - H psi (P abar + b + B f0) + H P abar) = nu4"),
    _row("innovations of FD4",      "theory/open-chains 10.2", "D^-1 (eps4 - eps1) = G* phi* abar", "Lemma 0.4 | (a.46)"),
    # ---- 88-11 Appendix A ------------------------------------------------------------------------
    _row("(a.9)",                   "88-11 App. A", "phi~ = Phi Lam_phi", "E_phi splits", convention="88-11"),
    _row("(a.13)",                  "88-11 App. A", "Phi L = phi~ G", "E_phi splits", convention="88-11"),
    _row("(a.14)",                  "88-11 App. A", "phi = psi (I + SL H phi)", "E_phi splits", convention="88-11"),
    _row("(a.15)",                  "88-11 App. A", "psi = (I - Psi L H) phi", "(a.14) | E_phi splits", convention="88-11"),
    _row("(a.16)",                  "88-11 App. A", "Phi = Psi (I + L H Phi)", "(a.14)", convention="88-11"),
    _row("(a.17)",                  "88-11 App. A", "Psi = (I - Psi L H) Phi", "(a.15)", convention="88-11"),
    _row("(a.22)",                  "88-11 App. A", "phi = (I + Phi L H) psi", "E_phi splits", convention="88-11"),
    _row("(a.24)",                  "88-11 App. A", "Phi = (I + Phi L H) Psi", "(a.22)", convention="88-11"),
    _row("(a.25)",                  "88-11 App. A", "Psi = Phi (I - L H Psi)", "(a.24)", convention="88-11"),
    _row("(a.26)",                  "88-11 App. A", "Phi L H psi = Psi L H phi", "(a.15) | (a.22)", convention="88-11"),
    _row("(a.32)",                  "88-11 App. A", "H phi = (I + H Phi L) H psi", "(a.22)", convention="88-11"),
    _row("(a.36)",                  "88-11 App. A", "H Psi = (I - H Psi L) H Phi", "(a.17)", convention="88-11"),
    _row("(a.39)",                  "88-11 App. A", "Phi L = Psi L (I + H Phi L)", "(a.16)", convention="88-11"),
    _row("(a.43)",                  "88-11 App. A", "Phi L H Psi L = Psi L H Phi L", "(a.16) | (a.24)", convention="88-11"),
    _row("(a.46)",                  "88-11 App. A", "psi M phi* = P + psi~ P + P phi~*", "Riccati mixed"),
    _row("(a.49)",                  "88-11 App. A", "P = E_phi P E_phi* + (M - theta)", "Riccati mixed"),
    _row("(a.50)",                  "88-11 App. A", f"{WHITEN}* D^-1 H psi M phi* = {WHITEN}* D^-1 H psi~ P + K* psi* (I - G H)* + G*", "(a.46) | (a.28) | φ K H ψ"),
    _row("Fact 4.2",                "88-11 eq. 4.14", "(I + H Phi L) (I - H Psi L) = I", "(a.24)", convention="88-11"),
    _row("Theorem 4.1",             "88-11 eq. 4.16", "mass_matrix^-1 = (I - H Psi L)* D^-1 (I - H Psi L)", "Lemma 0.3 | E_phi splits", convention="88-11"),
    _row("Identity 5.1",            "88-11 eq. 5.4", "(I - H Psi L) H phi = H psi", "(a.15)", convention="88-11"),
    # ---- MC: innovations -------------------------------------------------------------------------
    _row("kinetic energy",          "MC sec. 6",    "v* mass_matrix v = v* (I + H phi K) D_half D_half* (I + H phi K)* v", "Lemma 0.1"),
    _row("power",                   "MC sec. 6",    f"v* tau = v* (I + H phi K) D_half D_half^-1 {WHITEN} tau", "Lemma 0.2"),
    _row("memoryless in V",         "MC sec. 6",    "(I + H phi K)* v = G* V", "H G", condition=NO_ROTORS),
    # ---- closed chains ---------------------------------------------------------------------------
    _row("constraint forces",       "SOA eq. 0.22", "A J mass_matrix^-1 (tau - J* A* (A Lambda A*)^-1 (A J mass_matrix^-1 tau - U)) = U"),
    _row("rows by Omega",           "SOA eq. 0.34", "A Lambda A* = A B* Omega B A*", "Omega"),
    _row("accelerations with constraint forces", "SOA eq. 0.36",
         f"mass_matrix^-1 (tau - H phi B A* (A Lambda A*)^-1 Udot) = {WHITEN}* D^-1 ({WHITEN} tau - H psi B A* (A Lambda A*)^-1 Udot)", "Lemma 0.3 | Lemma 0.4",
         f"{WHITEN}* D^-1 {WHITEN} (tau - H phi B A* (A Lambda A*)^-1 Udot)"),
    # ---- MS --------------------------------------------------------------------------------------
    _row("Lemma 5.1",               "MS eq. 5.45",  "phi M phi* = R + phi~ R + R phi~*", "R equation"),
    _row("a cross product between phi*", "MS lemma 2.3", "phi* cross(x) phi* = cross(phi* x) phi* - phi* cross(E_phi* phi* x)", "cross over E_phi*",
         "phi* cross(phi* x) phi* - phi* cross(E_phi* phi* x) phi*", "phi* cross(phi* x) phi* - phi* cross(E_phi* phi* x) - phi* E_phi* cross(phi* x) phi*"),
    _row("a cross product beside phi~*", "MS lemma 2.3", "phi* cross(x) phi~* = cross(phi* x) phi* - phi* cross(phi* x)", "carry between phi*",
         "phi* cross(x) phi* - phi* cross(x)"),
    _row("rate of phi",             "MS lemma 3.3", "-phi E_phi cross(H* v)* phi = cross(V)* phi - phi cross(V)*", "carry beside phi~*",
         "-phi~ cross(H* v)* phi", "cross(phi* H* v)* phi - phi cross(phi* H* v)*"),
    _row("rate of phi M phi*",      "MS eq. 4.42",  "(cross(V)* phi - phi cross(V)*) M phi* + phi M (phi* cross(V) - cross(V) phi*) = -phi~ cross(H* v)* phi M phi* - phi M phi* cross(H* v) phi~*", "carry beside phi~*",
         "(cross(phi* H* v)* phi - phi cross(phi* H* v)*) M phi* + phi M (phi* cross(phi* H* v) - cross(phi* H* v) phi*)"),
    _row("rate of the mass matrix, by R", "MS eq. 5.51",
         "H phi~ cross(H* v)* phi M phi* H* = H phi~ cross(H* v)* (R + phi~ R + R phi~*) H*", "MM eq. 28"),
    _row("rate of the mass matrix, by P", "MS lemma 4.3",
         "H phi~ cross(H* v)* phi M phi* H* = H phi~ cross(H* v)* (I + phi K H) P phi* H*", "(a.46) | Lemma .7c' | E_psi P H*",
         "H phi~ cross(H* v)* phi psi^-1 psi M phi* H*", "H phi~ cross(H* v)* phi psi^-1 (P + psi~ P + P phi~*) H*", condition=NO_ROTORS),
)
# fmt: on


@cache
def _named() -> dict[str, Paper]:
    return {row.name: row for row in DERIVATIONS}


def derivation_of(name: str) -> Derivation:
    """A derivation of the papers by its name in the table."""
    if name not in _named():
        raise InputError(f"there is no derivation named {name!r}. {did_you_mean(name, _named())}")
    return _named()[name].derivation()
