# ruff: noqa: E501  (tables: one row, one line)
"""The operator identities: propagation, composite bodies, Riccati equation, factorization, inverse.

theory/open-chains 7 to 9. Appendix A of 88-11 is read twice: with its own Φ, Ψ, L as printed, and
with those of MM (Phi1, Psi1, G). Its (a.1)–(a.5) are definitions; (a.6)–(a.13) and (a.23) are lost
in the scan and reconstructed from how the proofs use them.

Formulas without a condition hold with rotor inertia too, where ``mass_matrix = H φ M φ* H* + Jr``,
``D = H P H* + Jr`` and ``P = M + E_ψ P E_φ*``. "Jr = 0" marks those that rest on ``H G = I``.
"""

from __future__ import annotations

from phipsi.rewrite.identity import Identity
from phipsi.theorems.paper_symbols import theorem as t
from phipsi.theorems.paper_symbols import used

NO_ROTORS = "Jr = 0"
_APP = "88-11 App. A"
_READ = "88-11 App. A with Phi, Psi, L read as Phi1, Psi1, G"
_RECONSTRUCTED = "88-11 A.1 (reconstructed)"

# fmt: off
PROPAGATION: list[Identity] = [
    used("sum the series of E_φ", "phi definition"),
    used("sum the series of E_ψ", "psi definition"),
    used("join the shift and its weight", "E_phi splits"),
    t("E_psi splits",    "E_psi",               "S Lam_psi",          "derived"),
    t("K splits",        "E_phi G",             "S L",                "SOA eq. 0.26; 88-11"),
    t("E_psi def",       "E_phi proj_bar",      "E_phi - K H",        "MC eq. 10"),
    t("phi~",            "phi - I",             "phi E_phi",          "SOA eq. .46 for phi"),
    t("phi~ (b)",        "phi - I",             "E_phi phi",          "SOA"),
    t("psi~",            "psi - I",             "psi E_psi",          "SOA eq. .46"),
    t("psi~ (b)",        "psi - I",             "E_psi psi",          "SOA eq. .46"),
    used("ψ̃ from the right", "Lemma .7a"),
    used("ψ̃ from the left", "Lemma .7a (b)"),
    used("ψ − I", "Lemma .7a (c)"),
]

COMPOSITE: list[Identity] = [
    t("R equation", "M", "R - E_phi R E_phi*", "MM eq. 31"),
    used("composite bodies", "Identity 1 / Lemma A.1 cor."),
    t("mass matrix from R", "H phi M phi* H*", "H R H* + H phi~ R H* + (H phi~ R H*)*", "MM eq. 28"),
]

RICCATI: list[Identity] = [
    t("Riccati", "M", "P - E_phi [P - P H* (H P H* + Jr)^-1 H P] E_phi*", "SOA eq. 0.25; 88-11 eq. 4.5",
      note="the papers have no Jr"),
    t("Riccati mixed",      "M",             "P - E_psi P E_phi*",           "88-11 App. A"),
    t("Riccati K form",     "M",             "P - E_phi P E_phi* + K D K*",  "MC app."),
    t("Lemma .6",           "M",             "P - E_psi P E_psi*",           "SOA eq. .45; MM eq. 35; MC eq. 8", NO_ROTORS),
    t("tau idempotent",     "proj proj",     "proj",                         "SOA", NO_ROTORS),
    t("tau symmetric in P", "proj P",        "P proj*",                      "SOA"),
    t("tau symmetric in P (b)", "proj P",    "proj P proj*",                 "SOA", NO_ROTORS),
    t("taubar P",           "proj_bar P",    "proj_bar P proj_bar*",         "SOA Lemma .6", NO_ROTORS),
    t("taubar P tau*",      "proj_bar P proj*", "0",                         "SOA Lemma .6", NO_ROTORS),
    used("H G"),
    used("H π̄"),
    used("π̄ G"),
    used("π̄ P H*"),
    t("E_psi P H*",         "E_psi P H*",    "0",                            "SOA Lemma .7d", NO_ROTORS),
    t("G D G*",             "G D G*",        "proj P",                       "derived"),
]

ROTORS: list[Identity] = [
    t("H G with rotors",         "H G",            "I - Jr D^-1",                             "derived"),
    t("H taubar with rotors",    "H proj_bar",     "Jr D^-1 H",                               "derived"),
    t("taubar G with rotors",    "proj_bar G",     "G Jr D^-1",                               "derived"),
    t("taubar P H* with rotors", "proj_bar P H*",  "G Jr",                                    "derived"),
    t("E_psi P H* with rotors",  "E_psi P H*",     "K Jr",                                    "derived"),
    t("taubar P with rotors",    "proj_bar P",     "proj_bar P proj_bar* + G Jr G*",          "derived"),
    t("Lemma .6 with rotors",    "M",              "P - E_psi P E_psi* - K Jr K*",            "derived"),
    t("Lemma .7b with rotors",   "psi M psi*",     "P + psi~ P + P psi~* - psi K Jr K* psi*", "derived"),
    t("Lemma .7d with rotors",   "D", "H psi M psi* H* + (I - H psi K) Jr (I - H psi K)*",    "derived"),
    t("nu with rotors",          "(I + H phi K)* v", "G* V + D^-1 Jr v",                      "derived"),
]

FACTORIZATION: list[Identity] = [
    t("Lemma .7b / (a.47)",     "psi M psi*",        "P + psi~ P + P psi~*",  "SOA eq. .47; 88-11 a.47", NO_ROTORS),
    t("Lemma .7c",              "psi^-1 phi",        "I + K H phi",           "SOA eq. .48"),
    t("Lemma .7c'",             "phi psi^-1",        "I + phi K H",           "SOA eq. .48"),
    t("phi^-1 psi",             "phi^-1 psi",        "I - K H psi",           "derived"),
    t("psi phi^-1",             "psi phi^-1",        "I - psi K H",           "MC Lemma 4 proof"),
    used("Lemma .7d"),
    t("Lemma 5 / (.50)",        "psi^-1",            "phi^-1 + K H",          "MC Lemma 5; SOA eq. .50"),
    t("Lemma 0.1 / Lemma 1",    "mass_matrix",       "(I + H phi K) D (I + H phi K)*",    "SOA eq. 0.28; MC eq. 11"),
    used("invert the colouring filter", "Lemma 0.2 / Lemma 2"),
    used("innovations factorization", "Lemma 0.3 / Lemma 3"),
    t("Lemma 0.3 (residual)",   "mass_matrix (I - H psi K)* D^-1 (I - H psi K)", "I",      "SOA eq. 0.30"),
    used("whiten φ", "Lemma 0.4 / Lemma 4"),
    used("whiten φ̃"),
    used("colour ψ"),
    used("colour a gain"),
    used("whiten a gain"),
    used("φ K H ψ"),
    used("ψ K H φ"),
    t("psi K H psi",            "psi K H psi",          "psi phi^-1 (phi - psi)",         "derived"),
    t("mass^-1 H phi",          "mass_matrix^-1 H phi", "(I - H psi K)* D^-1 H psi",      "MC eq. 18"),
    t("phi* H* mass^-1",        "phi* H* mass_matrix^-1", "psi* H* D^-1 (I - H psi K)",   "SOA step B"),
    t("Omega",                  "phi* H* mass_matrix^-1 H phi", "psi* H* D^-1 H psi",     "SOA eq. 0.34; MC eq. 20"),
    t("Omega (b)",              "phi* H* mass_matrix^-1 H phi", "Omega",                  "SOA eq. 0.34; MC eq. 20"),
    t("mass^-1 expanded",       "mass_matrix^-1",
      "D^-1 - D^-1 H psi K - (D^-1 H psi K)* + K* Omega K",                               "derived"),
    t("innovation gain",        "(I - H psi K) H phi M phi*", "H psi~ P + D G* phi*",     "derived from a.46"),
    used("log det of the mass matrix", "log det"),
]

MM_FORMS: list[Identity] = [
    used("φ − I", "MM Phi"),
    t("MM Phi (b)",     "Phi1",                 "Phi3 Lam_phi",               "dictionary"),
    t("MM Psi",         "Psi1",                 "Psi3 Lam_phi",               "dictionary"),
    t("MM Psi taubar",  "Psi1 (I - G H)",       "psi - I",                    "MM after eq. 41"),
    t("H Phi1 G",           "H Phi1 G",             "H phi K",                    "dictionary"),
    t("H Phi1 G (b)",       "H Phi1 G",             "H Phi3 L",                   "dictionary"),
    t("H Psi1 G",           "H Psi1 G",             "H psi K",                    "dictionary"),
    t("H Psi1 G (b)",       "H Psi1 G",             "H Psi3 L",                   "dictionary"),
    t("Psi3 L",             "Psi3 L",               "psi K",                      "dictionary"),
    t("Identity 2",         "phi M phi*",           "P + Phi1 P + P Phi1* + Phi1 P H* D^-1 H P Phi1*", "MM eq. 42"),
    t("Identity 3",         "mass_matrix",          "(I + H Phi1 G) D (I + H Phi1 G)*", "MM eq. 43"),
    t("Identity 4",         "(I - Psi1 G H) Phi1",  "Psi1",                       "MM eq. 44"),
    t("Identity 4 proof",   "phi - psi",            "Psi1 G H phi",               "MM proof of eq. 44"),
    t("Identity 5",         "(I + H Phi1 G)^-1",    "I - H Psi1 G",               "MM eq. 45"),
    t("Identity 6",         "mass_matrix^-1",       "(I - H Psi1 G)* D^-1 (I - H Psi1 G)", "MM eq. 46"),
]

# ---- only as printed ---------------------------------------------------------------------------
_PRINTED = [
    # name      before            after             source
    ("(a.8)",   "psi~",           "Psi Lam_psi",     _RECONSTRUCTED),
    ("(a.9)",   "phi~",           "Phi Lam_phi",     _RECONSTRUCTED),
    ("(a.10)",  "psi",            "I + Psi Lam_psi", _RECONSTRUCTED),
    ("(a.11)",  "phi",            "I + Phi Lam_phi", _RECONSTRUCTED),
    ("(a.13)",  "Phi L",          "phi~ G",          "88-11 A.1 (reconstructed, used in proofs)"),
    ("(a.46)",  "psi M phi*",     "P + psi~ P + P phi~*", "88-11 a.46"),
    ("(a.48)",  "phi M phi*",     "P + phi~ P + P phi~* + phi~ P H* D^-1 H P phi~*", "88-11 a.48"),
    ("(a.49)",  "P",              "E_phi P E_phi* + (M - theta)", "88-11 a.49"),
    ("A.6 proof", "phi theta phi*", "phi~ P H* D^-1 H P phi~*", "88-11 A.6"),
]

# ---- in both forms -----------------------------------------------------------------------------
_BOTH = [
    ("(a.14)", "phi",           "psi (I + SL H phi)"),
    ("(a.15)", "psi",           "(I - Psi L H) phi"),
    ("(a.16)", "Phi",           "Psi (I + L H Phi)"),
    ("(a.17)", "Psi",           "(I - Psi L H) Phi"),
    ("(a.18)", "phi - psi",     "Psi L H phi"),
    ("(a.18), second form", "phi - psi", "psi SL H phi"),
    ("(a.22)", "phi",           "(I + Phi L H) psi"),
    ("(a.23)", "psi",           "phi (I - SL H psi)"),
    ("(a.24)", "Phi",           "(I + Phi L H) Psi"),
    ("(a.25)", "Psi",           "Phi (I - L H Psi)"),
    ("(a.26)", "Phi L H psi",   "Psi L H phi"),
    ("(a.27)", "Phi L H Psi",   "Psi L H Phi"),
    ("(a.28)", "phi - psi",     "Phi L H psi"),
    ("(a.28), second form", "phi - psi", "phi SL H psi"),
    ("(a.32)", "H phi",         "(I + H Phi L) H psi"),
    ("(a.33)", "H Phi",         "(I + H Phi L) H Psi"),
    ("(a.34)", "H Psi",         "H Phi (I - L H Psi)"),
    ("(a.35)", "H psi",         "(I - H Psi L) H phi"),
    ("(a.36)", "H Psi",         "(I - H Psi L) H Phi"),
    ("(a.37)", "H Phi",         "H Psi (I + L H Phi)"),
    ("(a.38)", "H Phi L H Psi", "H Psi L H Phi"),
    ("(a.39)", "Phi L",         "Psi L (I + H Phi L)"),
    ("(a.40)", "Psi L",         "(I - Psi L H) Phi L"),
    ("(a.41)", "Psi L",         "Phi L (I - H Psi L)"),
    ("(a.42)", "Phi L",         "(I + Phi L H) Psi L"),
    ("(a.43)", "Phi L H Psi L", "Psi L H Phi L"),
    ("(a.50)", "(I - H Psi L)* D^-1 H psi M phi*",
               "(I - H Psi L)* D^-1 H psi~ P + L* Psi* (I - G H)* + G*"),
    ("(a.51)", "(I - H Psi L)* D^-1 H P (I + phi~*)", "L* Psi* (I - G H)* + G*"),
    ("(Fact 4.1)",     "mass_matrix",                    "(I + H Phi L) D (I + H Phi L)*"),
    ("(Fact 4.2)",     "(I + H Phi L) (I - H Psi L)",    "I"),
    ("(Theorem 4.1)",  "mass_matrix^-1",                 "(I - H Psi L)* D^-1 (I - H Psi L)"),
    ("(Identity 5.1)", "(I - H Psi L) H phi",            "H psi"),
]
# fmt: on

APPENDIX: list[Identity] = [
    *(t(n, left, right, source, convention="88-11") for n, left, right, source in _PRINTED),
    *(t(n, left, right, _APP, convention="88-11") for n, left, right in _BOTH),
    *(t(f"{n} [MM form]", left, right, _READ, convention="MM") for n, left, right in _BOTH),
]

FACTORIZATIONS = [*PROPAGATION, *COMPOSITE, *RICCATI, *ROTORS, *FACTORIZATION, *MM_FORMS, *APPENDIX]
