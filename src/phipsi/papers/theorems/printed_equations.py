# ruff: noqa: E501  (tables: one row, one line)
"""What stands at every number of the five papers: the equations as printed, in each paper's letters.

A row has the numbers, the equations and expressions that `pp.parse(text, notation=…)` reads, and, where nothing is
read, what it is here. docs/papers has the same rows with more words; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple


class Printed(NamedTuple):
    """One number of a paper: `texts` that are printed there, and `names` of the book about it.

    `here` says what it is, if it is not an equation.
    """

    paper: str
    number: str
    texts: tuple[str, ...]
    here: str = ""
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.paper} {self.number.removeprefix('II-').replace('-', ' ')}"


# fmt: off
_ROWS: dict[str, list[tuple[str, str, str, str]]] = {
    "SOA": [
        ("0.1", "φ* H* β ; H φ (M φ* (H* β̇ + a) + b)", "computed: the Newton–Euler recursion is the compiled form of 0.7. The inward step is printed with φ(k+1,k) f(k−1); it is φ(k,k−1) f(k−1) (erratum `SOA eq. 0.1`: two bodies in a row show it)", "velocities; Newton-Euler; velocity sweep"),
        ("0.2", "a", "computed: the input pair `a_paper`, `b_paper`; `a`, `b` are the pair in body axes", "a is the bias of alpha; b(k); C in both forms"),
        ("0.3", "V = ℰ_φ* V + H* β ; α = ℰ_φ* α + H* β̇ + a ; f = ℰ_φ f + M α + b", "", "stacked velocities; stacked accelerations; stacked implicit form"),
        ("0.4", "ℰ_φ = I − φ⁻¹", "", "phi blocks"),
        ("0.5", "bd(M) = M ; bd(H) = H", "", ""),
        ("0.6", "φ = (I − ℰ_φ)⁻¹", "", "phi definition; phi series; nilpotent; phi blocks"),
        ("0.7", "V = φ* H* β ; α = φ* (H* β̇ + a) ; f = φ (M α + b) = φ M φ* H* β̇ + φ (M φ* a + b) ; H f = ℳ β̇ + C ; ℳ = H φ M φ* H* ; C = H φ (M φ* a + b)", "", "velocities; equations of motion (operators); physics: Lagrange"),
        ("0.8", "J = B* φ* H* ; V(0) = J β", "", "physics: Jacobian"),
        ("0.9", "", "defined: `model.n_bodies` and `model.nv`; there are no branches, bodies have parents", ""),
        ("0.10", "", "defined: one block per body and parent, for any tree", "renumbering"),
        ("0.11", "V = ℰ_φ* V + H* β ; f = ℰ_φ f + M α + b", "", "stacked velocities; stacked implicit form"),
        ("0.12", "φ = (I − ℰ_φ)⁻¹", "", "phi series"),
        ("0.13", "", "book", "phi blocks"),
        ("0.14", "H f = H φ M φ* H* β̇ + H φ (M φ* a + b)", "", "equations of motion (operators)"),
        ("0.15", "ℳ⁻¹ T̄", "computed: `pp.forward_dynamics(model, q, v, tau)`", "FD4 without psi"),
        ("0.16", "V̂ = B* V", "", ""),
        ("0.17", "", "defined: `points=[(body, offset), …]`", ""),
        ("0.18", "V̂ = B* V = B* φ* H* β ; J = B* φ* H*", "", "physics: Jacobian"),
        ("0.19", "", "defined: one tree holds both; a selection of bodies is P or S", ""),
        ("0.20", "A_P J_P β + A_S J_S β = A J β", "", ""),
        ("0.21", "J* A* (A Λ A*)⁻¹ U", "computed: `pp.constraint_forces(system, q, v, tau)`", ""),
        ("0.22", "U", "computed: an operator of the catalogue. The print has d(A J)/dt V for d(A J)/dt β", ""),
        ("0.23", "A Λ A* = A J ℳ⁻¹ J* A*", "", ""),
        ("0.24", "U − A J ℳ⁻¹ T̄", "computed", ""),
        ("Step-A", "β̇_f = ℳ⁻¹ T̄", "", "mass matrix solve"),
        ("Step-B", "α_f = J β̇_f = B* ψ* H* D⁻¹ (I − H ψ K) T̄", "", "phi* H* mass^-1; lambda"),
        ("Step-C", "Λ = J ℳ⁻¹ J*", "", "operational compliance"),
        ("Step-D", "(A Λ A*)⁻¹ (A α_f − U)", "computed: `pp.constraint_forces`", ""),
        ("Step-E", "J* A*", "computed", "force correction"),
        ("Step-F", "", "defined: `pp.forward_dynamics(system, q, v, tau)`", ""),
        ("0.25", "M = P − ℰ_φ [P − P H* (H P H*)⁻¹ H P] ℰ_φ*", "", "Riccati"),
        ("0.26", "D = H P H* ; G = P H* D⁻¹ ; K = ℰ_φ G ; τ = G H ; τ̄ = I − τ ; ℰ_ψ = ℰ_φ τ̄", "", "K splits; E_psi def"),
        ("0.27", "ψ = (I − ℰ_ψ)⁻¹", "", "psi definition; nilpotent psi"),
        ("0.28, Lemma-0.1", "ℳ = [I + H φ K] D [I + H φ K]*", "", "Lemma 0.1 / Lemma 1"),
        ("0.29, Lemma-0.2", "[I + H φ K]⁻¹ = [I − H ψ K]", "", "Lemma 0.2 / Lemma 2"),
        ("0.30, Lemma-0.3", "ℳ⁻¹ = [I − H ψ K]* D⁻¹ [I − H ψ K]", "", "Lemma 0.3 / Lemma 3; Lemma 0.3 (residual)"),
        ("0.31", "β̇_f = ℳ⁻¹ T̄ = [I − H ψ K]* D⁻¹ [I − H ψ K] T̄", "", "mass matrix solve"),
        ("0.32", "φ* H* β̇_f", "computed", "lambda"),
        ("0.33, Lemma-0.4", "(I − H ψ K) H φ = H ψ", "", "Lemma 0.4 / Lemma 4"),
        ("0.34", "Λ = B* ψ* H* D⁻¹ H ψ B = B* Ω B ; Ω = ψ* H* D⁻¹ H ψ", "", "Omega; operational compliance"),
        ("0.35", "(A Λ A*)⁻¹ (A α_f − U)", "computed; for a secondary system of full rank phipsi solves the smaller system below it too ([closed chains](../closed-chains.md))", ""),
        ("0.36", "−ℳ⁻¹ J* A* = −[I − H ψ K]* D⁻¹ H ψ B A*", "", "force correction"),
        ("0.37", "D^{-1/2} H ψ B A* ; [I − H ψ K]* D^{-1/2} [I − b (A Λ A*)⁻¹ b*] D^{-1/2} [I − H ψ K] T̄", "computed: `pp.forward_dynamics(system, q, v, tau, algorithm=\"0.37\")`, which has U too", ""),
        (".38", "", "defined: sums over children, [notation](../notation.md) 11.3", ""),
        (".39", "P = ℰ_ψ P ℰ_ψ* + M", "", "Riccati recursion; Riccati recursion, D; Riccati recursion, G; Riccati recursion, K"),
        (".40", "[I − H ψ K]* D⁻¹ [I − H ψ K] T̄", "computed", "mass matrix solve; FD1 recursion"),
        (".41", "H* D⁻¹ H = Υ − ℰ_ψ* Υ ℰ_ψ", "erratum", "SOA eq. .41 on trees"),
        (".42, Lemma-.5", "Ω = Υ + ψ̃* Υ + Υ ψ̃", "erratum", "SOA Lemma .5 on trees"),
        (".43", "Υ = bd(Ω)", "", "Upsilon recursion; Omega blocks; Upsilon equation (tree); Lemma .5 (serial)"),
        (".44", "−(I − H ψ K)* D⁻¹ H ψ (−B f(0)) = −ℳ⁻¹ J* f(0)", "erratum", "SOA eq. .44 sign"),
        (".45, Lemma-.6", "M = P − ℰ_ψ P ℰ_ψ* ; τ̄ P τ* = 0 ; τ̄ P = τ̄ P τ̄*", "", "Lemma .6; taubar P; taubar P tau*; Lemma .6 with rotors"),
        (".46, Lemma-.7", "ψ̃ = ψ ℰ_ψ = ℰ_ψ ψ = ψ − I", "", "Lemma .7a; Lemma .7a (b); psi~"),
        (".47", "ψ M ψ* = P + ψ̃ P + P ψ̃*", "", "Lemma .7b / (a.47)"),
        (".48", "ψ⁻¹ φ = I + K H φ ; φ ψ⁻¹ = I + φ K H", "", "Lemma .7c; Lemma .7c'"),
        (".49", "H ψ M ψ* H* = D", "", "Lemma .7d"),
        (".50", "ψ⁻¹ = I − ℰ_ψ = I − ℰ_φ τ̄ = φ⁻¹ + ℰ_φ G H = φ⁻¹ + K H", "", "Lemma 5 / (.50)"),
    ],
    "MM": [
        ("1", "", "defined: angular part first, [notation](../notation.md) 1", ""),
        ("2", "", "defined: `SpatialInertia`; `M` has the blocks", "parallel axis"),
        ("3", "", "defined", "phi moves force; phi* moves velocity"),
        ("4", "", "book", "phi unit; phi inverse; phi chain"),
        ("5", "", "book", "phi chain; phi blocks"),
        ("6–9", "φ* H* θ̇ ; α(0) = B* α + a(0)", "", "velocity sweep; point accelerations"),
        ("10", "", "defined: `f0` is the force **by** the mechanism; `f_ext` is the force on the bodies, with the opposite sign", ""),
        ("11–12", "f = φ (M α + b + B f(0)) ; H f = T", "", "Newton-Euler, hinge forces; hinge force projects"),
        ("13", "", "defined: for any joint, `model.hinge_axes`", ""),
        ("14–15", "", "defined: arrays (n, 6) from base to tip", ""),
        ("16", "", "lost", ""),
        ("17", "φ = (I − E_φ)⁻¹", "", "phi definition; phi blocks"),
        ("18", "", "defined: `points=` for any number of points", ""),
        ("19", "V(0) = J θ̇", "", "physics: Jacobian"),
        ("20", "J = B* φ* H*", "", ""),
        ("21", "V = φ* H* θ̇ ; V(0) = B* φ* H* θ̇", "", "velocities"),
        ("22", "ℳ = H φ M φ* H*", "", "physics: mass matrix"),
        ("23", "T = ℳ θ̈ + C + J* f(0) ; C = H φ (M φ* a + b) ; J* = H φ B", "", "equations of motion (operators); Jdot v"),
        ("24", "f = φ [M α + b + B f(0)] ; T = H f", "", "stacked implicit form"),
        ("25", "T = H φ [M α + b + B f(0)] ; α = φ* H* θ̈ + φ* a", "", "inverse dynamics"),
        ("26", "ℳ θ̈ = T'", "", ""),
        ("27", "T̂ = H φ [M φ* a + b + B f(0)] = C + J* f(0) ; T' = T − T̂", "", ""),
        ("28, Identity-1", "φ M φ* = r + Φ r + r Φ*", "", "Identity 1 / Lemma A.1 cor."),
        ("29", "r = bd(φ M φ*)", "", "R positive part"),
        ("30–33", "r = E_φ r E_φ* + M ; ℳ = H r H* + H Φ r H* + H r Φ* H*", "", "composite-body recursion; R equation; mass matrix from R"),
        ("34–36", "P = E_ψ P E_ψ* + M ; D = H P H* ; G = P H* D⁻¹", "", "Riccati recursion; Lemma .6"),
        ("37", "bd(P) = P", "", ""),
        ("38–40", "E_ψ = E_φ (I − G H)", "", "E_psi def"),
        ("41", "Ψ = ψ E_φ ; Ψ (ℐ − G H) = ψ − I", "", "MM Psi blocks; MM Psi taubar"),
        ("42, Identity-2", "φ M φ* = P + Φ P + P Φ* + Φ P H* D⁻¹ H P Φ*", "", "Identity 2"),
        ("43, Identity-3", "ℳ = (ℐ + H Φ G) D (ℐ + H Φ G)*", "", "Identity 3"),
        ("44, Identity-4", "(ℐ − Ψ G H) Φ = Ψ", "", "Identity 4; Identity 4 proof"),
        ("45, Identity-5", "(ℐ + H Φ G)⁻¹ = ℐ − H Ψ G", "", "Identity 5"),
        ("46, Identity-6", "ℳ⁻¹ = (ℐ − H Ψ G)* D⁻¹ (ℐ − H Ψ G)", "", "Identity 6"),
        ("Algorithm-1, 47–48", "T' = T − H φ [M φ* a + b + B f(0)] ; θ̈ = (ℐ − H Ψ G)* D⁻¹ (ℐ − H Ψ G) T'", "", "FD1 operator"),
        ("49–51", "ε = T' − H ψ E_φ G T' ; ν", "", "FD1 recursion; whiten"),
        ("52–54", "θ̈ = ν − G* E_φ* λ", "", "FD1 recursion; lambda"),
        ("Algorithm-2, 55–57", "α = (ℐ − G H)* Ψ* H* ν + H* ν + φ* a ; α(0) = B* α + a(0)", "", "FD2 MM; point accelerations"),
        ("58–59", "α = λ + φ* a", "", "FD2 recursion"),
        ("Algorithm-3, 60–62", "ζ = M φ* a + b + B f(0) ; θ̈ = (ℐ − H Ψ G)* D⁻¹ (T − H Ψ [G T + (ℐ − G H) ζ] − H ζ) ; ε = T − H Ψ [G T + (ℐ − G H) ζ] − H ζ", "", "FD3 MM; innovations agree"),
        ("63–65", "θ̈ = (I − H ψ K)* D⁻¹ (T − H ψ (K T + ζ + B f(0)))", "erratum", "FD3 double tip force"),
        ("Algorithm-4, 66", "φ* H* θ̇", "computed", "velocity sweep"),
        ("67", "D⁻¹ (ℐ − H Ψ G) T − D⁻¹ H ψ [P a + b + B f(0)] + D⁻¹ H P a = G* φ* a + ν", "", "MM eq. 67 corrected; FD4 eps"),
        ("68", "θ̈ = (ℐ − H Ψ G)* (ν + G* φ* a) − G* Ψ* (ℐ − G H)* a − G* a", "", "FD4 operator"),
        ("69–73", "(I − H ψ K)* (ν + G* φ* a) − K* ψ* (I − G H)* a − G* a", "computed: the compiler derives it from Algorithm 1 by 88-11 a.50", "FD4 recursion; FD4 without psi"),
        ("74", "", "defined: a root with a `Free()` joint", "free root: psi to the base"),
        ("75–76", "", "defined: the first six rates of a free root", "free root: a(root)"),
        ("77", "", "book", "free root: hinge force"),
        ("78", "", "defined", ""),
        ("79", "T = ℳ Ẇ + C + J* f(0) ; Ẇ = ℳ⁻¹ [T − C − J* f(0)]", "", "equations of motion (operators)"),
    ],
    "MC": [
        ("1", "V(0) = J θ̇ ; J = B* φ* H*", "", "velocity sweep; physics: Jacobian"),
        ("2", "ℳ θ̈ + 𝒞 + J* f(0) = T", "", "equations of motion (operators)"),
        ("3", "ℳ = H φ M φ* H*", "", "physics: mass matrix"),
        ("4", "𝒞 = H φ (M φ* a + b)", "", "C in both forms"),
        ("5", "J* = H φ B", "", ""),
        ("6", "ℳ θ̈ = T' ; T' = T − 𝒞 − J* f(0)", "", ""),
        ("7", "H φ M φ* H* θ̈ = T'", "", "Newton-Euler"),
        ("8", "P = E_ψ P E_ψ* + M", "", "Riccati recursion; Lemma .6"),
        ("9", "", "book", "E_psi def"),
        ("10", "ℰ_ψ = ℰ_φ (I − G H) = ℰ_φ − K H", "", "E_psi def; apply psi"),
        ("11, Lemma-1", "ℳ = (I + H φ K) D (I + H φ K)*", "", "Lemma 0.1 / Lemma 1; colour"),
        ("12, Lemma-2", "(I + H φ K)⁻¹ = I − H ψ K", "", "Lemma 0.2 / Lemma 2; whiten"),
        ("13, Lemma-3", "ℳ⁻¹ = (I − H ψ K)* D⁻¹ (I − H ψ K)", "", "Lemma 0.3 / Lemma 3"),
        ("Algorithm-FD, 14–15", "T' = T − H φ [M φ* a + b + B f(0)] ; θ̈ = (I − H ψ K)* D⁻¹ (I − H ψ K) T'", "", "FD1 operator; FD1 recursion"),
        ("16, Lemma-4", "(I − H ψ K) H φ = H ψ", "", "Lemma 0.4 / Lemma 4"),
        ("17", "−ℳ⁻¹ J* f(0) = −(I − H ψ K)* D⁻¹ (I − H ψ K) H φ B f(0)", "", "mass^-1 H phi"),
        ("18", "−ℳ⁻¹ J* f(0) = −(I − H ψ K)* D⁻¹ H ψ B f(0)", "", "force correction; force correction, recursion"),
        ("19", "Ω(0) = J ℳ⁻¹ J* = B* φ* H* (I − H ψ K)* D⁻¹ (I − H ψ K) H φ B", "", "operational compliance"),
        ("20", "Ω(0) = B* ψ* H* D⁻¹ H ψ B", "", "Omega; Upsilon recursion; compliance recursion"),
        ("21–22", "", "defined: a `pp.constraints.Weld` between the two tips of a `pp.System`", ""),
        ("23", "", "defined: both arms are one tree", ""),
        ("24", "ℳ⁻¹ (T − 𝒞) = [I − H ψ K]* D⁻¹ [I − H ψ K] (T − 𝒞)", "", "mass matrix solve"),
        ("25", "α(0) = J θ̈ + Ḃ* V + B* φ* a", "", "point accelerations; Jdot v"),
        ("26", "", "outside: a formula for two arms; `pp.constraint_forces(system, q, v, tau)` solves it for any loops", "correction of point accelerations"),
        ("Lemma-5", "ψ⁻¹ = φ⁻¹ + K H", "", "Lemma 5 / (.50)"),
    ],
    "88-11": [
        ("2.1–2.13", "", "book: computed without the operators, and compared with them", "physics: inverse dynamics; physics: velocities"),
        ("2.14–2.16", "", "defined: angular part first", "parallel axis; phi moves force"),
        ("2.17", "V = E_φᵀ V + Hᵀ θ̇", "", "stacked velocities"),
        ("2.18", "α = E_φᵀ α + Hᵀ θ̈ + a", "", "stacked accelerations"),
        ("2.19", "", "book", "joint table a(k)"),
        ("2.20–2.23", "", "book. I(k) = I_C(k) − m p̃ p̃ in the text after it", "b(k)"),
        ("2.24–2.30", "H φ [M α + b + B f(0)]", "computed", "Newton-Euler; Newton-Euler, hinge forces"),
        ("2.31", "", "defined: `Prismatic(axis)`", ""),
        ("2.32", "", "erratum", "prismatic a(k)"),
        ("3.1", "", "defined", "phi moves force"),
        ("3.2–3.3", "", "book", "phi unit; phi inverse; phi chain"),
        ("3.4", "φ = (I − E_φ)⁻¹", "", "phi definition; phi blocks"),
        ("3.5–3.7", "", "defined", ""),
        ("3.8", "", "defined: the part of `gravity` that reaches the roots", "gravity column"),
        ("3.9–3.10", "", "defined", ""),
        ("3.11–3.12", "V = φᵀ Hᵀ θ̇", "", "velocities"),
        ("3.13", "V(0) = J θ̇ ; J = Bᵀ φᵀ Hᵀ", "", "physics: Jacobian"),
        ("3.14–3.15", "α = φᵀ Hᵀ θ̈ + φᵀ a", "", ""),
        ("3.16–3.18", "f = φ [M α + b + B f(0)] ; T = H f ; T = H φ [M α + b + B f(0)]", "", "hinge force projects; inverse dynamics"),
        ("3.19", "T = H φ [M φᵀ Hᵀ θ̈ + M φᵀ a + b + B f(0)]", "", "inverse dynamics"),
        ("3.20", "T = ℳ θ̈ + C + Jᵀ f(0) ; ℳ = H φ M φᵀ Hᵀ ; C = H φ (M φᵀ a + b) ; Jᵀ = H φ B", "", "equations of motion (operators)"),
        ("3.21", "", "erratum", "gravity through E^T read as a block transpose"),
        ("3.22", "ℳ θ̈ = T'", "", ""),
        ("3.23", "T̂ = H φ [M φᵀ a + b + B f(0)] = C + Jᵀ f(0)", "", ""),
        ("4.1–4.2", "H φ M φᵀ Hᵀ = ℳ", "", ""),
        ("4.3", "φ b", "computed", "apply phi"),
        ("4.4–4.6", "P = E_φ [P − P Hᵀ D⁻¹ H P] E_φᵀ + M ; D = H P Hᵀ ; S L = E_φ P Hᵀ D⁻¹", "", "Riccati; K splits"),
        ("4.7", "E_ψ = E_φ − S L H", "", "E_psi splits; E_psi def"),
        ("4.8", "bd(L) = L", "", "(a.12)"),
        ("4.9", "Φ = φ S", "", "(4.9) blocks"),
        ("4.10", "Ψ = ψ S", "", "(4.10) blocks"),
        ("4.11, Fact-4.1", "ℳ = (I + H Φ L) D (I + H Φ L)ᵀ", "", "(Fact 4.1)"),
        ("4.12–4.13", "I + H Φ L", "computed: its recursion", "colour"),
        ("4.14, Fact-4.2", "(I + H Φ L)⁻¹ = I − H Ψ L", "", "(Fact 4.2)"),
        ("4.15", "I − H Ψ L", "computed: its recursion", "whiten"),
        ("4.16, Theorem-4.1", "ℳ⁻¹ = (I − H Ψ L)ᵀ D⁻¹ (I − H Ψ L)", "", "(Theorem 4.1)"),
        ("Algorithm-FD1, 4.17–4.18", "T' = T − H φ [M φᵀ a + b + B f(0)] ; θ̈ = (I − H Ψ L)ᵀ D⁻¹ (I − H Ψ L) T'", "", "FD1 operator"),
        ("4.19–4.22", "ε = T' − H ψ S L T' ; θ̈ = ν − Lᵀ Sᵀ λ", "", "FD1 recursion"),
        ("4.23", "α = λ + ζ ; α(0) = Bᵀ α + a(0)", "", "FD2 recursion; point accelerations"),
        ("5.1", "ψ = (I − E_ψ)⁻¹", "", "psi definition"),
        ("5.2", "S Λ_φ = E_φ", "", "E_phi splits"),
        ("5.3", "Ψ = ψ S", "", "(a.7)"),
        ("5.4, Identity-5.1", "(I − H Ψ L) H φ = H ψ", "", "(Identity 5.1)"),
        ("Algorithm-FD2, 5.5–5.7", "α = ψᵀ Hᵀ D⁻¹ (I − H Ψ L) T' + φᵀ a ; α(0) = Bᵀ α + a(0)", "", "FD2 operator"),
        ("Algorithm-FD3, 5.8–5.10", "ζ = φᵀ a ; ε = T − H ψ [S L T + M ζ + b + B f(0)] ; θ̈ = (I − H Ψ L)ᵀ D⁻¹ ε", "", "FD3 operator; FD3 alpha"),
        ("5.11–5.12", "ψ̃ = ψ − I ; G = P Hᵀ D⁻¹", "", ""),
        ("Algorithm-FD4, 5.13–5.15", "θ̈ = (I − H Ψ L)ᵀ (ν + Gᵀ φᵀ a) − Lᵀ Ψᵀ (I − G H)ᵀ a − Gᵀ a ; ν + Gᵀ φᵀ a = D⁻¹ ((I − H Ψ L) T − H ψ̃ P a − H ψ (b + B f(0)))", "", "FD4 operator; FD4 eps"),
        ("5.16–5.17", "(I − H Ψ L)ᵀ D⁻¹ ((I − H Ψ L) T − H ψ̃ P a − H ψ (b + B f(0))) − Lᵀ Ψᵀ (I − G H)ᵀ a − Gᵀ a", "computed", "FD4 recursion"),
        ("a.1–a.3", "D = H P Hᵀ ; G = P Hᵀ D⁻¹ ; φ̃ = φ − I", "", ""),
        ("a.4–a.5", "ψ̃ = ψ − I ; E_ψ = S Λ_ψ", "", "E_psi splits"),
        ("Identities-A.1, a.6–a.9", "Φ = φ S ; Ψ = ψ S ; ψ̃ = Ψ Λ_ψ ; φ̃ = Φ Λ_φ", "", "(a.6); (a.7); (a.8); (a.9)"),
        ("a.10–a.13", "ψ = I + Ψ Λ_ψ ; φ = I + Φ Λ_φ ; L = Λ_φ G ; Φ L = φ̃ G", "", "(a.10); (a.11); (a.12); (a.13)"),
        ("Identities-A.2, a.14–a.17", "φ = ψ (I + S L H φ) ; ψ = (I − Ψ L H) φ ; Φ = Ψ (I + L H Φ) ; Ψ = (I − Ψ L H) Φ", "", "(a.14); (a.15); (a.16); (a.17); (a.14) [MM form]"),
        ("a.18", "φ − ψ = Ψ L H φ = ψ S L H φ", "", "(a.18); (a.18), second form; ψ K H φ"),
        ("a.19–a.21", "", "book; a.20 and a.21 are lost and reconstructed", "(a.19)-(a.20); (a.21)"),
        ("Identities-A.3, a.22–a.25", "φ = (I + Φ L H) ψ ; ψ = φ (I − S L H ψ) ; Φ = (I + Φ L H) Ψ ; Ψ = Φ (I − L H Ψ)", "", "(a.22); (a.23); (a.24); (a.25)"),
        ("a.26–a.27", "Φ L H ψ = Ψ L H φ ; Φ L H Ψ = Ψ L H Φ", "", "(a.26); (a.27)"),
        ("a.28", "φ − ψ = Φ L H ψ = φ S L H ψ", "", "(a.28); (a.28), second form"),
        ("a.29–a.31", "", "book", "(a.29)-(a.30); (a.31)"),
        ("Identities-A.4, a.32–a.38", "H φ = (I + H Φ L) H ψ ; H Φ = (I + H Φ L) H Ψ ; H Ψ = H Φ (I − L H Ψ) ; H ψ = (I − H Ψ L) H φ ; H Ψ = (I − H Ψ L) H Φ ; H Φ = H Ψ (I + L H Φ) ; H Φ L H Ψ = H Ψ L H Φ", "", "(a.32); (a.33); (a.34); (a.35); (a.36); (a.37); (a.38)"),
        ("a.39–a.43", "Φ L = Ψ L (I + H Φ L) ; Ψ L = (I − Ψ L H) Φ L ; Ψ L = Φ L (I − H Ψ L) ; Φ L = (I + Φ L H) Ψ L ; Φ L H Ψ L = Ψ L H Φ L", "", "(a.39); (a.40); (a.41); (a.42); (a.43)"),
        ("Lemma-A.1, a.44–a.45", "", "book: for any two transition operators", "Lemma A.1 (a.45); Lemma A.1 dual"),
        ("Corollary-A.1", "φ M φᵀ = r + φ̃ r + r φ̃ᵀ", "", "Identity 1 / Lemma A.1 cor."),
        ("Identities-A.5, a.46–a.47", "ψ M φᵀ = P + ψ̃ P + P φ̃ᵀ ; ψ M ψᵀ = P + ψ̃ P + P ψ̃ᵀ", "", "(a.46); Lemma .7b / (a.47)"),
        ("Identities-A.6, a.48–a.49", "φ M φᵀ = P + φ̃ P + P φ̃ᵀ + φ̃ P Hᵀ D⁻¹ H P φ̃ᵀ", "", "(a.48); (a.49); A.6 proof; Identity 2"),
        ("Identities-A.7, a.50–a.51", "(I − H Ψ L)ᵀ D⁻¹ H ψ M φᵀ = (I − H Ψ L)ᵀ D⁻¹ H ψ̃ P + Lᵀ Ψᵀ (I − G H)ᵀ + Gᵀ ; (I − H Ψ L)ᵀ D⁻¹ H P + (I − H Ψ L)ᵀ D⁻¹ H P φ̃ᵀ = Lᵀ Ψᵀ (I − G H)ᵀ + Gᵀ", "", "(a.50); (a.51); smooth without φ* a"),
        ("b.1", "T = ℳ Ẇ + C + Jᵀ f(0)", "", "equations of motion (operators)"),
        ("b.2", "", "defined: a root with a `Free()` joint", "free root: a_body(root)"),
        ("b.3–b.5", "", "book; the matrices are 4×3 and 3×4, one a left inverse of the other. `model.qdot(q, v)`", "quaternion rate; quaternion inverse; quaternion E*E"),
        ("b.6–b.7", "", "book; 'station velocity' means its acceleration", "free root: a(root)"),
        ("b.8", "", "book", "free root: hinge force"),
        ("b.9–b.10", "Ẇ = ℳ⁻¹ [T − C − Jᵀ f(0)]", "", ""),
        ("II-2.1", "T = ℳ θ̈ + C + Jᵀ f(0) ; V(0) = J θ̇", "", "equations of motion (operators)"),
        ("II-2.2–2.3", "α(0) = J θ̈ + Ḃᵀ V + Bᵀ φᵀ a", "", "point accelerations"),
        ("II-2.4", "", "defined: the object is a free body", ""),
        ("II-2.5–2.7", "A V", "computed: motions of the held object at its contacts", ""),
        ("II-2.8", "", "outside: phipsi keeps the motion of the object in q, v", ""),
        ("II-2.9", "Aᵀ f(0)", "computed", ""),
        ("II-2.10–2.15", "", "defined: `pp.forward_dynamics(system, q, v, tau, return_multipliers=True)`. In the text after 2.15 (AᵀA)⁻¹ A is (AᵀA)⁻¹ Aᵀ", ""),
        ("II-3.1", "J ℳ⁻¹ Jᵀ", "computed: with a system, the admittance of all bodies at the closures; `pp.delassus_matrix`", "operational compliance"),
        ("II-3.2–3.6", "", "defined: `pp.forward_dynamics(system, …)` and `pp.constraint_forces(system, …)`", ""),
        ("II-4.1–4.8", "−ℳ⁻¹ Jᵀ f(0)", "computed", "force correction"),
        ("Algorithm-CCFD, II-4.9", "", "defined: the stages of `pp.forward_dynamics(system, …)`. 4.9h has Δα(0) for α(0). The conjecture after it fails where the rank changes", ""),
        ("II-5.1", "ℳ = H φ M φᵀ Hᵀ ; J = Bᵀ φᵀ Hᵀ ; C = H φ (M φᵀ a + b)", "", ""),
        ("II-5.2–5.4", "ℳ = (I + H Φ L) D (I + H Φ L)ᵀ ; (I + H Φ L)⁻¹ = I − H Ψ L ; ℳ⁻¹ = (I − H Ψ L)ᵀ D⁻¹ (I − H Ψ L)", "", "(Fact 4.1); (Fact 4.2); (Theorem 4.1)"),
        ("II-5.5–5.7", "T' = T − H φ (M φᵀ a + b)", "", ""),
        ("II-5.8–5.10", "ℳ⁻¹ T' = (I − H Ψ L)ᵀ D⁻¹ (I − H Ψ L) T' ; ε = (I − H Ψ L) T' ; ν = D⁻¹ ε", "", "mass matrix solve"),
        ("II-5.11–5.14", "ℳ⁻¹ T' = (I − H Ψ L)ᵀ D⁻¹ (T − H ψ (S L T + M φᵀ a + b)) ; Ψ = ψ S ; (I − H Ψ L) H φ = H ψ", "", "(Identity 5.1)"),
        ("II-6.1", "(I − H Ψ L)ᵀ D⁻¹ (I − H Ψ L) T'", "computed", "FD1 recursion"),
        ("II-6.2–6.3", "−ℳ⁻¹ Jᵀ f(0) = −(I − H Ψ L)ᵀ D⁻¹ (I − H Ψ L) H φ B f(0) = −(I − H Ψ L)ᵀ D⁻¹ H ψ B f(0)", "", "force correction"),
        ("II-6.4–6.5", "−(I − H Ψ L)ᵀ D⁻¹ H ψ B f(0)", "computed. 6.4 has φ for ψ, lacks a minus sign and ν(1); 6.5a lacks H", "force correction, recursion"),
        ("II-6.6–6.8", "J ℳ⁻¹ Jᵀ = Bᵀ φᵀ Hᵀ (I − H Ψ L)ᵀ D⁻¹ (I − H Ψ L) H φ B = Bᵀ ψᵀ Hᵀ D⁻¹ H ψ B ; Λ(0) = J ℳ⁻¹ Jᵀ", "", "operational compliance"),
        ("II-6.9–6.10", "Υ = bd(ψᵀ Hᵀ D⁻¹ H ψ)", "", "Upsilon recursion"),
        ("Algorithm-RCCFD1, II-6.11", "", "defined: what `pp.forward_dynamics(system, …)` computes. 6.11g lacks H and a sign", ""),
        ("II-6.12", "J ℳ⁻¹ = Bᵀ ψᵀ Hᵀ D⁻¹ (I − H Ψ L)", "", "phi* H* mass^-1"),
        ("II-6.13–6.17", "ℳ⁻¹ (T' − Jᵀ f(0)) = (I − H Ψ L)ᵀ D⁻¹ (T' − H ψ (S L T' + B f(0)))", "", ""),
        ("Algorithm-RCCFD2, II-6.18", "", "defined: the same result in other sweeps. 6.18e lacks an adjoint", ""),
        ("II-6.19–6.21", "ℳ⁻¹ Jᵀ = (I − H Ψ L)ᵀ D⁻¹ H ψ B", "", "mass^-1 H phi"),
        ("Algorithm-RCCFD3, II-6.22", "", "defined: the same result in other sweeps", ""),
        ("Case-1–3", "", "defined: `pp.grasping`: a line, a point and a soft finger", ""),
        ("II-a.1–a.6", "", "defined: the rows that a contact leaves free, [grasping](../grasping.md)", ""),
        ("II-a.7–a.10", "", "defined", ""),
        ("II-b.1–b.8", "T = ℳ θ̈ + C + Jᵀ f(0)", "", "equations of motion (operators); contacts: solution; contacts: forces"),
        ("II-b.9", "θ̈ = ℳ⁻¹ [T − C − Jᵀ f(0)]", "", "contacts: solution; contacts: Pi"),
        ("II-b.10–b.11", "", "erratum", "contacts: sign of C"),
        ("II-b.12–b.14", "", "book: the equations of (Ẇ(0), θ̈) together, with the sign of b.11 corrected", "contacts: both together"),
    ],
    "MS": [
        ("1.1", "V = φ* H* θ̇ ; α = φ* [H* θ̈ + a]", "", "velocities; stacked accelerations"),
        ("1.2", "f = φ [M α + b] ; H f = ℳ θ̈ + 𝒞", "", "equations of motion (operators)"),
        ("1.3", "φ = (I − ℰ_φ)⁻¹", "", "phi definition"),
        ("1.4", "ℰ_φ = I − φ⁻¹", "", "phi blocks"),
        ("Identity-1.1", "ℳ = H φ M φ* H* = [I + H φ K] D [I + H φ K]* ; [I + H φ K]⁻¹ = I − H ψ K ; ℳ⁻¹ = [I − H ψ K]* D⁻¹ [I − H ψ K]", "", "Lemma 0.1 / Lemma 1; Lemma 0.2 / Lemma 2; Lemma 0.3 / Lemma 3"),
        ("Lemma-2.1", "", "book, on chains; on trees in the form that moves a block to the parent", "Lemma 2.1; Lemma 2.1 on trees"),
        ("2.5", "cross(V) a_paper", "computed", "Lemma 2.2"),
        ("2.6, Lemma-2.2", "cross(V) V = 0 ; cross(V) a_paper = −cross(a_paper) V", "", "Lemma 2.2"),
        ("2.7", "", "defined: −cross(z)*", "Lemma 2.2"),
        ("2.8", "", "defined: `cross_force(z)`", "Lemma 2.2"),
        ("2.9", "cross(V)* f = cross_force(f) V = −cross_force(f)* V", "", "Lemma 2.2"),
        ("2.10, Lemma-2.3", "E_φ* cross(V) = cross(E_φ* V) E_φ*", "", "Lemma 2.3; cross over E_phi*"),
        ("2.11–2.14", "", "book. ℍ(i) is printed with S*, which changes its sign: it is S[H*(i)]; (2.12) is printed for k > i and is k < i", "Lemma 2.4; pick-offs by the shift"),
        ("2.15, Lemma-2.4", "", "book", "Lemma 2.4"),
        ("2.16–2.18", "", "book", "angular velocities from pick-offs; pick-offs by the shift"),
        ("3.19–3.24, Lemma-3.1", "", "book", "Lemmas 3.1, 3.3 and 3.5, rates; Lemma 3.3, inertias"),
        ("3.25–3.27, Lemma-3.2", "", "book", "Lemmas 3.2, 3.4 and 3.5"),
        ("3.28", "bd(Δ_φ) = Δ_φ", "", ""),
        ("3.29", "ℰ_φ = 𝕊 Δ_φ", "", "E_phi splits"),
        ("3.30–3.34, Lemma-3.3", "", "book; in body axes φ̇ = cross(V)* φ − φ cross(V)* without a sum", "Lemmas 3.1, 3.3 and 3.5, rates; Lemma 3.3, inertias; phi in motion"),
        ("3.35–3.40, Lemma-3.4", "", "book", "Lemmas 3.2, 3.4 and 3.5; Lemma 3.4, components"),
        ("3.41, Lemma-3.5", "", "book. In the first line the dot and the tildes are lost in print", "Lemmas 3.2, 3.4 and 3.5"),
        ("4.42, Lemma-4.1", "", "book", "Lemma 4.1"),
        ("4.43, Lemma-4.2", "", "book; `pp.diff(mass_matrix, 'q', along='dq')` for all joints", "Lemmas 4.2, 4.3 and 5.2; Lemma 4.2 in general"),
        ("Lemma-4.3", "φ M φ* H* = [I + φ K H] P φ* H*", "", "Lemmas 4.2, 4.3 and 5.2"),
        ("5.44", "R = ℰ_φ R ℰ_φ* + M", "", "R equation; R positive part"),
        ("5.45, Lemma-5.1", "ℳ = H R H* + H φ̃ R H* + H R φ̃* H*", "", "mass matrix from R"),
        ("5.46", "", "book", "Lemma 5.1"),
        ("5.47–5.50", "", "book. R_𝕀 in 5.50 is printed with φ(n,k) for φ(𝕀,k)", "inertial reference; inertial reference, sensitivities"),
        ("5.51, Lemma-5.2", "", "book; the proof means 5.45 and 4.43", "Lemmas 4.2, 4.3 and 5.2"),
        ("5.52, Lemma-5.3", "", "book", "Lemma 5.3; Lemma 5.3 about the bodies"),
        ("5.53", "", "book", "symmetries of the Christoffel symbols; what Christoffel symbols depend on; Coriolis matrix"),
        ("Lemma-5.4", "", "book", "Lemma 5.4; Christoffel symbols in one form"),
        ("5.54–5.55, Lemma-5.5", "", "book; the cases that are missing in print are added", "Lemma 5.5"),
    ],
}
# fmt: on


def expanded(numbers: str) -> list[str]:
    """Ranges as single names.

    >>> expanded("Lemma-0.1, 0.28–0.30 Step-A–B")
    ['Lemma-0.1', '0.28', '0.29', '0.30', 'Step-A', 'Step-B']
    """
    out: list[str] = []
    for part in numbers.replace(",", " ").split():
        first, _, last = part.partition("–")
        if not last:
            out.append(first)
            continue
        found = re.findall(r"^(.*?)([0-9]+|[A-Z])$", first)
        head, start = found[0]
        end = re.findall(r"(?:[0-9]+|[A-Z])$", last)[0]
        if start.isdigit():
            out += [f"{head}{i}" for i in range(int(start), int(end) + 1)]
        else:
            out += [head + chr(c) for c in range(ord(start), ord(end) + 1)]
    return out


@cache
def printed() -> dict[tuple[str, str], Printed]:
    """Every number of the papers; as many equations as numbers are one for each."""
    return {(row.paper, row.number): row for row in _all()}


def _all() -> Iterator[Printed]:
    for page, rows in _ROWS.items():
        for numbers, typed, here, book in rows:
            names = expanded(numbers)
            texts = tuple(filter(None, typed.split(" ; ")))
            plain = [name for name in names if not re.match("[A-Z][a-z]", name)]
            own = dict(zip(plain, texts, strict=True)) if len(plain) == len(texts) else {}
            about = tuple(filter(None, book.split("; ")))
            for name in names:
                paper = f"{page} II" if name.startswith("II-") else page
                yield Printed(paper, name, (own[name],) if name in own else texts, here, about)
