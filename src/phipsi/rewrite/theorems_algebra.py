# ruff: noqa: E501  (tables: one row, one line)
"""The operator identities of seeds 0, 1 and 2: propagation, Riccati equation, factorization.

Formulas without a condition hold with rotor inertia too, where ``mass_matrix = H φ M φ* H* + Jr``,
``D = H P H* + Jr`` and ``P = M + E_ψ P E_φ*``. "Jr = 0" marks those that rest on ``H G = I``.
"""

from __future__ import annotations

from phipsi.rewrite.identity import Identity
from phipsi.rewrite.theorems_symbols import theorem as t

NO_ROTORS = "Jr = 0"

# fmt: off
PROPAGATION: list[Identity] = [
    t("phi definition",  "(I - E_phi)^-1",      "phi",                "seed 0 eq. 0.6, 0.12"),
    t("psi definition",  "(I - E_psi)^-1",      "psi",                "seed 0 eq. 0.27"),
    t("E_phi splits",    "E_phi",               "S Lam_phi",          "derived from seed 3 App. A"),
    t("E_psi splits",    "E_psi",               "S Lam_psi",          "derived"),
    t("K splits",        "E_phi G",             "S L",                "seed 0 eq. 0.26; seed 3"),
    t("E_psi def",       "E_phi proj_bar",      "E_phi - K H",        "seed 2 eq. 10"),
    t("phi~",            "phi - I",             "phi E_phi",          "seed 0 eq. .46 for phi"),
    t("phi~ (b)",        "phi - I",             "E_phi phi",          "seed 0"),
    t("psi~",            "psi - I",             "psi E_psi",          "seed 0 eq. .46"),
    t("psi~ (b)",        "psi - I",             "E_psi psi",          "seed 0 eq. .46"),
    t("Lemma .7a",       "psi~",                "psi E_psi",          "seed 0 eq. .46"),
    t("Lemma .7a (b)",   "psi~",                "E_psi psi",          "seed 0 eq. .46"),
    t("Lemma .7a (c)",   "psi~",                "psi - I",            "seed 0 eq. .46"),
]

COMPOSITE: list[Identity] = [
    t("R equation", "M", "R - E_phi R E_phi*", "seed 1 eq. 31"),
    t("Identity 1 / Lemma A.1 cor.", "phi M phi*", "R + phi~ R + R phi~*", "seed 1 eq. 28; seed 3 cor. A.1"),
    t("mass matrix from R", "H phi M phi* H*", "H R H* + H phi~ R H* + (H phi~ R H*)*", "seed 1 eq. 28"),
]

RICCATI: list[Identity] = [
    t("Riccati", "M", "P - E_phi [P - P H* (H P H* + Jr)^-1 H P] E_phi*", "seed 0 eq. 0.25; seed 3 eq. 4.5",
      note="the papers have no Jr"),
    t("Riccati mixed",      "M",             "P - E_psi P E_phi*",           "seed 3 App. A"),
    t("Riccati K form",     "M",             "P - E_phi P E_phi* + K D K*",  "seed 2 app."),
    t("Lemma .6",           "M",             "P - E_psi P E_psi*",           "seed 0 eq. .45; seed 1 eq. 35; seed 2 eq. 8", NO_ROTORS),
    t("tau idempotent",     "proj proj",     "proj",                         "seed 0", NO_ROTORS),
    t("tau symmetric in P", "proj P",        "P proj*",                      "seed 0"),
    t("tau symmetric in P (b)", "proj P",    "proj P proj*",                 "seed 0", NO_ROTORS),
    t("taubar P",           "proj_bar P",    "proj_bar P proj_bar*",         "seed 0 Lemma .6", NO_ROTORS),
    t("taubar P tau*",      "proj_bar P proj*", "0",                         "seed 0 Lemma .6", NO_ROTORS),
    t("H G",                "H G",           "I",                            "seed 0", NO_ROTORS),
    t("H taubar",           "H proj_bar",    "0",                            "seed 0", NO_ROTORS),
    t("taubar G",           "proj_bar G",    "0",                            "derived", NO_ROTORS),
    t("taubar P H*",        "proj_bar P H*", "0",                            "seed 0 Lemma .7d", NO_ROTORS),
    t("E_psi P H*",         "E_psi P H*",    "0",                            "seed 0 Lemma .7d", NO_ROTORS),
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
    t("Lemma .7b / (a.47)",     "psi M psi*",        "P + psi~ P + P psi~*",  "seed 0 eq. .47; seed 3 a.47", NO_ROTORS),
    t("Lemma .7c",              "psi^-1 phi",        "I + K H phi",           "seed 0 eq. .48"),
    t("Lemma .7c'",             "phi psi^-1",        "I + phi K H",           "seed 0 eq. .48"),
    t("phi^-1 psi",             "phi^-1 psi",        "I - K H psi",           "derived"),
    t("psi phi^-1",             "psi phi^-1",        "I - psi K H",           "seed 2 Lemma 4 proof"),
    t("Lemma .7d",              "H psi M psi* H*",   "D",                     "seed 0 eq. .49", NO_ROTORS),
    t("Lemma 5 / (.50)",        "psi^-1",            "phi^-1 + K H",          "seed 2 Lemma 5; seed 0 eq. .50"),
    t("Lemma 0.1 / Lemma 1",    "mass_matrix",       "(I + H phi K) D (I + H phi K)*",    "seed 0 eq. 0.28; seed 2 eq. 11"),
    t("Lemma 0.2 / Lemma 2",    "(I + H phi K)^-1",  "I - H psi K",                       "seed 0 eq. 0.29; seed 2 eq. 12"),
    t("Lemma 0.3 / Lemma 3",    "mass_matrix^-1",    "(I - H psi K)* D^-1 (I - H psi K)", "seed 0 eq. 0.30; seed 2 eq. 13"),
    t("Lemma 0.3 (residual)",   "mass_matrix (I - H psi K)* D^-1 (I - H psi K)", "I",      "seed 0 eq. 0.30"),
    t("Lemma 0.4 / Lemma 4",    "(I - H psi K) H phi",  "H psi",              "seed 0 eq. 0.33; seed 2 eq. 16"),
    t("Lemma 0.4 inverse",      "(I + H phi K) H psi",  "H phi",              "seed 3 a.32"),
    t("right twin",             "psi K (I + H phi K)",  "phi K",              "seed 3 a.39"),
    t("right twin inverse",     "phi K (I - H psi K)",  "psi K",              "seed 3 a.41"),
    t("phi K H psi",            "phi K H psi",          "phi - psi",          "seed 3 a.28"),
    t("psi K H phi",            "psi K H phi",          "phi - psi",          "seed 3 a.18"),
    t("psi K H psi",            "psi K H psi",          "psi phi^-1 (phi - psi)",         "derived"),
    t("mass^-1 H phi",          "mass_matrix^-1 H phi", "(I - H psi K)* D^-1 H psi",      "seed 2 eq. 18"),
    t("phi* H* mass^-1",        "phi* H* mass_matrix^-1", "psi* H* D^-1 (I - H psi K)",   "seed 0 step B"),
    t("Omega",                  "phi* H* mass_matrix^-1 H phi", "psi* H* D^-1 H psi",     "seed 0 eq. 0.34; seed 2 eq. 20"),
    t("Omega (b)",              "phi* H* mass_matrix^-1 H phi", "Omega",                  "seed 0 eq. 0.34; seed 2 eq. 20"),
    t("mass^-1 expanded",       "mass_matrix^-1",
      "D^-1 - D^-1 H psi K - (D^-1 H psi K)* + K* Omega K",                               "derived"),
    t("innovation gain",        "(I - H psi K) H phi M phi*", "H psi~ P + D G* phi*",     "derived from a.46"),
    t("log det",                "logdet(mass_matrix)",  "logdet(D)",                      "derived (Lemma 0.1)"),
]

SEED_1: list[Identity] = [
    t("seed 1 Phi",         "Phi1",                 "phi~",                       "dictionary"),
    t("seed 1 Phi (b)",     "Phi1",                 "Phi3 Lam_phi",               "dictionary"),
    t("seed 1 Psi",         "Psi1",                 "Psi3 Lam_phi",               "dictionary"),
    t("seed 1 Psi taubar",  "Psi1 (I - G H)",       "psi - I",                    "seed 1 after eq. 41"),
    t("H Phi1 G",           "H Phi1 G",             "H phi K",                    "dictionary"),
    t("H Phi1 G (b)",       "H Phi1 G",             "H Phi3 L",                   "dictionary"),
    t("H Psi1 G",           "H Psi1 G",             "H psi K",                    "dictionary"),
    t("H Psi1 G (b)",       "H Psi1 G",             "H Psi3 L",                   "dictionary"),
    t("Psi3 L",             "Psi3 L",               "psi K",                      "dictionary"),
    t("Identity 2",         "phi M phi*",           "P + Phi1 P + P Phi1* + Phi1 P H* D^-1 H P Phi1*", "seed 1 eq. 42"),
    t("Identity 3",         "mass_matrix",          "(I + H Phi1 G) D (I + H Phi1 G)*", "seed 1 eq. 43"),
    t("Identity 4",         "(I - Psi1 G H) Phi1",  "Psi1",                       "seed 1 eq. 44"),
    t("Identity 4 proof",   "phi - psi",            "Psi1 G H phi",               "seed 1 proof of eq. 44"),
    t("Identity 5",         "(I + H Phi1 G)^-1",    "I - H Psi1 G",               "seed 1 eq. 45"),
    t("Identity 6",         "mass_matrix^-1",       "(I - H Psi1 G)* D^-1 (I - H Psi1 G)", "seed 1 eq. 46"),
]

OPERATIONAL: list[Identity] = [
    t("Upsilon equation (tree)",   "H* D^-1 H", "Upsilon - bd(E_psi* Upsilon E_psi)",           "corrects seed 0 eq. .41"),
    t("Upsilon equation (serial)", "H* D^-1 H", "Upsilon - E_psi* Upsilon E_psi",               "seed 0 eq. .41", "serial"),
    t("Omega decomposition (tree)", "Omega", "Upsilon + psi~* Upsilon + Upsilon psi~ + psi* Xi psi", "extends seed 0 Lemma .5"),
    t("Lemma .5 (serial)",         "Omega",     "Upsilon + psi~* Upsilon + Upsilon psi~",       "seed 0 eq. .42", "serial"),
    t("operational compliance",    "J mass_matrix^-1 J*", "B* Omega B",            "seed 0 eq. 0.34; seed 2 eq. 19-20"),
    t("force correction",          "-mass_matrix^-1 J* f0", "-(I - H psi K)* D^-1 H psi B f0", "seed 2 eq. 18 corrected"),
    t("correction of point accelerations", "-B* psi* H* D^-1 H psi B f0", "-(J mass_matrix^-1 J*) f0", "seed 2 sec. 5.3"),
]
# fmt: on

ALGEBRA = [
    *PROPAGATION,
    *COMPOSITE,
    *RICCATI,
    *ROTORS,
    *FACTORIZATION,
    *SEED_1,
    *OPERATIONAL,
]
