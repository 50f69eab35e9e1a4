# ruff: noqa: E501  (tables: one row, one line)
"""Appendix A of 88-11, read twice: with its own Φ, Ψ, L, and with those of MM.

Phi = phi S, Psi = psi S, L = Lam_phi G as printed; Phi = phi − I, Psi = psi E_phi, L = G, S L = E_phi G
in the form of MM. Equations (a.1)–(a.5) are definitions; (a.6)–(a.13) and (a.23) are lost in the
scan and reconstructed from how the proofs use them.
"""

from __future__ import annotations

from phipsi.rewrite.identity import Identity
from phipsi.rewrite.theorems_symbols import theorem

_APP = "88-11 App. A"
_RECONSTRUCTED = "88-11 A.1 (reconstructed)"

# fmt: off
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
    *(theorem(n, left, right, source, "", "", "88-11") for n, left, right, source in _PRINTED),
    *(theorem(n, left, right, _APP, "", "", "88-11") for n, left, right in _BOTH),
    *(
        theorem(
            f"{n} [MM form]",
            left,
            right,
            f"{_APP} with Phi, Psi, L read as Phi1, Psi1, G",
            "",
            "",
            "MM",
        )
        for n, left, right in _BOTH
    ),
]
