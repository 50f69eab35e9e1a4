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
    t("phi definition",  "(I - E_phi)^-1",      "phi",                "SOA eq. 0.6, 0.12"),
    t("psi definition",  "(I - E_psi)^-1",      "psi",                "SOA eq. 0.27"),
    t("E_phi splits",    "E_phi",               "S Lam_phi",          "derived from 88-11 App. A"),
    t("E_psi splits",    "E_psi",               "S Lam_psi",          "derived"),
    t("K splits",        "E_phi G",             "S L",                "SOA eq. 0.26; 88-11"),
    t("E_psi def",       "E_phi proj_bar",      "E_phi - K H",        "MC eq. 10"),
    t("phi~",            "phi - I",             "phi E_phi",          "SOA eq. .46 for phi"),
    t("phi~ (b)",        "phi - I",             "E_phi phi",          "SOA"),
    t("psi~",            "psi - I",             "psi E_psi",          "SOA eq. .46"),
    t("psi~ (b)",        "psi - I",             "E_psi psi",          "SOA eq. .46"),
    t("Lemma .7a",       "psi~",                "psi E_psi",          "SOA eq. .46"),
    t("Lemma .7a (b)",   "psi~",                "E_psi psi",          "SOA eq. .46"),
    t("Lemma .7a (c)",   "psi~",                "psi - I",            "SOA eq. .46"),
]

COMPOSITE: list[Identity] = [
    t("R equation", "M", "R - E_phi R E_phi*", "MM eq. 31"),
    t("Identity 1 / Lemma A.1 cor.", "phi M phi*", "R + phi~ R + R phi~*", "MM eq. 28; 88-11 cor. A.1"),
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
    t("H G",                "H G",           "I",                            "SOA", NO_ROTORS),
    t("H taubar",           "H proj_bar",    "0",                            "SOA", NO_ROTORS),
    t("taubar G",           "proj_bar G",    "0",                            "derived", NO_ROTORS),
    t("taubar P H*",        "proj_bar P H*", "0",                            "SOA Lemma .7d", NO_ROTORS),
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
    t("Lemma .7d",              "H psi M psi* H*",   "D",                     "SOA eq. .49", NO_ROTORS),
    t("Lemma 5 / (.50)",        "psi^-1",            "phi^-1 + K H",          "MC Lemma 5; SOA eq. .50"),
    t("Lemma 0.1 / Lemma 1",    "mass_matrix",       "(I + H phi K) D (I + H phi K)*",    "SOA eq. 0.28; MC eq. 11"),
    t("Lemma 0.2 / Lemma 2",    "(I + H phi K)^-1",  "I - H psi K",                       "SOA eq. 0.29; MC eq. 12"),
    t("Lemma 0.3 / Lemma 3",    "mass_matrix^-1",    "(I - H psi K)* D^-1 (I - H psi K)", "SOA eq. 0.30; MC eq. 13"),
    t("Lemma 0.3 (residual)",   "mass_matrix (I - H psi K)* D^-1 (I - H psi K)", "I",      "SOA eq. 0.30"),
    t("Lemma 0.4 / Lemma 4",    "(I - H psi K) H phi",  "H psi",              "SOA eq. 0.33; MC eq. 16"),
    t("Lemma 0.4 inverse",      "(I + H phi K) H psi",  "H phi",              "88-11 a.32"),
    t("right twin",             "psi K (I + H phi K)",  "phi K",              "88-11 a.39"),
    t("right twin inverse",     "phi K (I - H psi K)",  "psi K",              "88-11 a.41"),
    t("phi K H psi",            "phi K H psi",          "phi - psi",          "88-11 a.28"),
    t("psi K H phi",            "psi K H phi",          "phi - psi",          "88-11 a.18"),
    t("psi K H psi",            "psi K H psi",          "psi phi^-1 (phi - psi)",         "derived"),
    t("mass^-1 H phi",          "mass_matrix^-1 H phi", "(I - H psi K)* D^-1 H psi",      "MC eq. 18"),
    t("phi* H* mass^-1",        "phi* H* mass_matrix^-1", "psi* H* D^-1 (I - H psi K)",   "SOA step B"),
    t("Omega",                  "phi* H* mass_matrix^-1 H phi", "psi* H* D^-1 H psi",     "SOA eq. 0.34; MC eq. 20"),
    t("Omega (b)",              "phi* H* mass_matrix^-1 H phi", "Omega",                  "SOA eq. 0.34; MC eq. 20"),
    t("mass^-1 expanded",       "mass_matrix^-1",
      "D^-1 - D^-1 H psi K - (D^-1 H psi K)* + K* Omega K",                               "derived"),
    t("innovation gain",        "(I - H psi K) H phi M phi*", "H psi~ P + D G* phi*",     "derived from a.46"),
    t("log det",                "logdet(mass_matrix)",  "logdet(D)",                      "derived (Lemma 0.1)"),
]

SEED_1: list[Identity] = [
    t("MM Phi",         "Phi1",                 "phi~",                       "dictionary"),
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

OPERATIONAL: list[Identity] = [
    t("Upsilon equation (tree)",   "H* D^-1 H", "Upsilon - bd(E_psi* Upsilon E_psi)",           "corrects SOA eq. .41"),
    t("Upsilon equation (serial)", "H* D^-1 H", "Upsilon - E_psi* Upsilon E_psi",               "SOA eq. .41", "serial"),
    t("Omega decomposition (tree)", "Omega", "Upsilon + psi~* Upsilon + Upsilon psi~ + psi* Xi psi", "extends SOA Lemma .5"),
    t("Lemma .5 (serial)",         "Omega",     "Upsilon + psi~* Upsilon + Upsilon psi~",       "SOA eq. .42", "serial"),
    t("operational compliance",    "J mass_matrix^-1 J*", "B* Omega B",            "SOA eq. 0.34; MC eq. 19-20"),
    t("force correction",          "-mass_matrix^-1 J* f0", "-(I - H psi K)* D^-1 H psi B f0", "MC eq. 18 corrected"),
    t("correction of point accelerations", "-B* psi* H* D^-1 H psi B f0", "-(J mass_matrix^-1 J*) f0", "MC sec. 5.3"),
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
