"""The operators and vectors of the algebra, one row each.

Adding an operator is adding a row here, and either a definition in `definitions.py` (it expands to
others) or its block formula in `sweeps/blocks.py` (it is primitive).
"""

from __future__ import annotations

from dataclasses import replace

from phipsi.expressions.node import Expr, leaf
from phipsi.expressions.row import Row
from phipsi.expressions.spaces import (
    EFFORTS,
    FORCES,
    MOTIONS,
    NORMALISED,
    ONE,
    PARAMETERS,
    POINT_FORCES,
    POINT_MOTIONS,
    POSES,
    RATES,
    ROW_RATES,
    WORLD_FORCE,
    Space,
)
from phipsi.expressions.structure import (
    CAUSAL,
    GENERAL,
    MEMORYLESS,
    RELATED,
    STRICTLY_CAUSAL,
    Structure,
)

CATALOGUE: dict[str, Row] = {}

SYMMETRIC, RICCATI = "symmetric", "riccati"


def row(
    name: str,
    symbol: str,
    latex: str,
    spaces: tuple[Space, Space],
    structure: Structure,
    needs: str,
    meaning: str,
    source: str,
    flags: str = "",
) -> None:
    """Add one row to the catalogue."""
    CATALOGUE[name] = Row(
        name=name,
        symbol=symbol,
        latex=latex,
        takes=spaces[0],
        gives=spaces[1],
        structure=structure,
        needs=tuple(needs.split()),
        symmetric=SYMMETRIC in flags,
        riccati=RICCATI in flags,
        meaning=meaning,
        source=source,
    )


_FF, _FE, _EF = (FORCES, FORCES), (FORCES, EFFORTS), (EFFORTS, FORCES)
_MF, _FM, _RE = (MOTIONS, FORCES), (FORCES, MOTIONS), (RATES, EFFORTS)

# fmt: off
# ---- primitive operators ---------------------------------------------------------------------------
row("H", "H", "H", _FE, MEMORYLESS, "q", "hinge map: body force → joint effort", "SOA eq. 0.1")
row("E_phi", "E_φ", r"\mathcal{E}_{\phi}", _FF, STRICTLY_CAUSAL, "q",
    "rigid propagation by one body, to the parent", "SOA eq. 0.5")
row("phi", "φ", r"\phi", _FF, CAUSAL, "q", "rigid propagation (I − E_φ)⁻¹, tip to base", "SOA eq. 0.6")
row("M", "M", "M", _MF, MEMORYLESS, "", "spatial inertia of each body about its origin", "MM eq. 2",
    SYMMETRIC)
row("Jr", "Jr", r"J_r", _RE, MEMORYLESS, "", "rotor inertia reflected to the joint (armature)",
    "docs/notation.md", SYMMETRIC)
row("shift", "shift", r"\mathcal{S}", _FF, STRICTLY_CAUSAL, "q",
    "relabels: block of k becomes block of its parent (in body axes: rotated)", "88-11 App. A")
row("B", "B", "B", (POINT_FORCES, FORCES), MEMORYLESS, "q", "point forces → body forces",
    "SOA eq. 0.16")
row("unprescribed", "unprescribed", r"\mathrm{unprescribed}", (EFFORTS, EFFORTS), MEMORYLESS, "free",
    "keeps the joints whose effort is given", "theory/closed-chains 11")
row("prescribed", "prescribed", r"\mathrm{prescribed}", _RE, MEMORYLESS, "free",
    "1 on joints whose acceleration is given, 0 elsewhere", "theory/closed-chains 11", SYMMETRIC)
row("Hdot", "Ḣ", r"\dot{H}", _FE, MEMORYLESS, "q v", "time derivative of H in body components",
    "theory/open-chains 4.4")
row("Bdot", "Ḃ", r"\dot{B}", (POINT_FORCES, FORCES), MEMORYLESS, "q v", "time derivative of B",
    "theory/open-chains 6")
row("A", "A", "A", (POINT_MOTIONS, ROW_RATES), GENERAL, "q", "constraint rows on point motions",
    "SOA eq. 0.19")
row("Adot", "Ȧ", r"\dot{A}", (POINT_MOTIONS, ROW_RATES), GENERAL, "q v", "time derivative of A",
    "theory/closed-chains 2")
row("A_grasp", "A_grasp", r"A_{\mathrm{grasp}}", (MOTIONS, POINT_MOTIONS), MEMORYLESS, "q",
    "motions of the held object at its contacts, the papers' col φ*", "88-11 II eq. 2.7")
row("select", "select", r"\mathrm{select}", (POINT_MOTIONS, POINT_MOTIONS), MEMORYLESS, "",
    "keeps the points on the bodies of a selection", "SOA eq. 0.20")
row("dHT", "dHT", r"\delta H^{*}", (RATES, MOTIONS), MEMORYLESS, "q",
    "how H* x changes with q: u ↦ Ḣ{u}* x", "theory/sensitivities 3")
row("dH", "dH", r"\delta H", (RATES, EFFORTS), MEMORYLESS, "q",
    "how H f changes with q: u ↦ Ḣ{u} f", "theory/sensitivities 3")
row("dBT", "dBT", r"\delta B^{*}", (MOTIONS, POINT_MOTIONS), MEMORYLESS, "q",
    "how B* x changes when its body moves: V ↦ Ḃ{V}* x", "theory/open-chains 6")
row("dB", "dB", r"\delta B", (MOTIONS, FORCES), MEMORYLESS, "q",
    "how B f changes when its body moves: V ↦ Ḃ{V} f", "theory/open-chains 6")
row("dA", "dA", r"\delta A", (MOTIONS, ROW_RATES), GENERAL, "q",
    "how A x changes when the bodies move: V ↦ Ȧ{V} x", "theory/closed-chains 2")
row("dAT", "dAT", r"\delta A^{*}", (MOTIONS, POINT_FORCES), GENERAL, "q",
    "how A* f changes when the bodies move: V ↦ Ȧ{V}* f", "theory/closed-chains 2")
row("angular", "angular", r"\Pi_{\omega}", (MOTIONS, MOTIONS), MEMORYLESS, "",
    "keeps the angular half of every motion", "theory/open-chains 4.3")
row("total", "total", r"\Sigma", (FORCES, WORLD_FORCE), GENERAL, "q",
    "body forces summed at a point of the world, in world axes", "theory/open-chains 2")

# ---- the Riccati family of (H, E_phi, M, Jr) ---------------------------------------------------------
row("P", "P", "P", _MF, MEMORYLESS, "q", "articulated-body inertia", "SOA eq. 0.25", "symmetric riccati")
row("D", "D", "D", _RE, MEMORYLESS, "q", "articulated hinge inertia H P H* + Jr", "SOA eq. 0.26",
    "symmetric riccati")
row("D_half", "D½", r"D^{1/2}", (NORMALISED, EFFORTS), MEMORYLESS, "q", "Cholesky factor: D = D½ D½*",
    "MC sec. 6", RICCATI)
row("G", "G", "G", _EF, MEMORYLESS, "q", "Kalman gain P H* D⁻¹", "SOA eq. 0.26", RICCATI)
row("K", "K", "K", _EF, STRICTLY_CAUSAL, "q", "shifted gain E_φ G", "SOA eq. 0.26", RICCATI)
row("proj", "π", r"\pi", _FF, MEMORYLESS, "q", "the papers' τ = G H", "SOA eq. 0.27", RICCATI)
row("proj_bar", "π̄", r"\bar{\pi}", _FF, MEMORYLESS, "q", "the papers' τ̄ = I − G H", "SOA eq. 0.27",
    RICCATI)
row("E_psi", "E_ψ", r"\mathcal{E}_{\psi}", _FF, STRICTLY_CAUSAL, "q",
    "articulated propagation by one body, E_φ π̄", "SOA eq. 0.27", RICCATI)
row("psi", "ψ", r"\psi", _FF, CAUSAL, "q", "articulated propagation (I − E_ψ)⁻¹", "SOA eq. 0.27", RICCATI)
row("psi_tilde", "ψ̃", r"\tilde{\psi}", _FF, STRICTLY_CAUSAL, "q", "ψ − I", "SOA eq. .46", RICCATI)
row("Omega", "Ω", r"\Omega", _FM, GENERAL, "q", "ψ* H* D⁻¹ H ψ", "SOA eq. 0.34", "symmetric riccati")
row("Upsilon", "Υ", r"\Upsilon", _FM, MEMORYLESS, "q", "block diagonal of Ω", "SOA eq. .41",
    "symmetric riccati")

# ---- derived operators -------------------------------------------------------------------------------
row("phi_tilde", "φ̃", r"\tilde{\phi}", _FF, STRICTLY_CAUSAL, "q", "φ − I", "SOA eq. .46")
row("R", "R", "R", _MF, MEMORYLESS, "q", "composite-body inertia bd(φ M φ*)", "MM eq. 29", SYMMETRIC)
row("J", "J", "J", (RATES, POINT_MOTIONS), GENERAL, "q", "Jacobian of the points B* φ* H*", "SOA eq. 0.18")
row("mass_matrix", "ℳ", r"\mathcal{M}", _RE, RELATED, "q", "joint-space mass matrix H φ M φ* H* + Jr",
    "SOA eq. 0.7", SYMMETRIC)
row("Lambda", "Λ", r"\Lambda", (POINT_FORCES, POINT_MOTIONS), GENERAL, "q",
    "admittance at the points J ℳ⁻¹ J*", "SOA eq. 0.34", SYMMETRIC)

# ---- vectors -----------------------------------------------------------------------------------------
row("v", "v", "v", (ONE, RATES), GENERAL, "v", "joint rates", "")
row("vdot", "v̇", r"\dot{v}", (ONE, RATES), GENERAL, "vdot", "joint accelerations", "")
row("tau", "τ", r"\tau", (ONE, EFFORTS), GENERAL, "tau", "joint efforts", "")
row("dq", "dq", r"\delta q", (ONE, RATES), GENERAL, "dq", "a direction in which q changes, as rates", "")
row("dv", "dv", r"\delta v", (ONE, RATES), GENERAL, "dv", "a direction in which v changes", "")
row("dvdot", "dv̇", r"\delta\dot{v}", (ONE, RATES), GENERAL, "dvdot", "a direction in which v̇ changes", "")
row("dtau", "dτ", r"\delta\tau", (ONE, EFFORTS), GENERAL, "dtau", "a direction in which τ changes", "")
row("dinertia", "dπ", r"\delta\pi", (ONE, PARAMETERS), GENERAL, "dinertia",
    "a direction in which the inertial parameters change", "")
row("unit_inertia", "unit_inertia", r"\operatorname{unit_{\pi}}", (ONE, PARAMETERS), GENERAL, "",
    "one inertial parameter, unit_inertia[body, i]", "theory/sensitivities 8")
row("unit_rate", "unit_rate", r"\operatorname{unit_{v}}", (ONE, RATES), GENERAL, "", "unit rate of one dof, unit_rate[joint]",
    "MS eq. 2.11")
row("unit_effort", "unit_effort", r"\operatorname{unit_{\tau}}", (ONE, EFFORTS), GENERAL, "",
    "unit effort at one dof, unit_effort[joint]", "MS eq. 2.11")
row("f_ext", "f_ext", r"f_{\mathrm{ext}}", (ONE, FORCES), GENERAL, "f_ext",
    "force on each body at its origin, body axes", "")
row("f0", "f0", r"f_0", (ONE, POINT_FORCES), GENERAL, "f0",
    "force by the mechanism on its surroundings at the points", "MM sec. III")
row("Udot", "U̇", r"\dot{U}", (ONE, ROW_RATES), GENERAL, "Udot",
    "rate of the prescribed constraint rates", "SOA eq. 0.22")
row("U", "U", "U", (ONE, ROW_RATES), GENERAL, "q v Udot",
    "what constraint accelerations must be: A J v̇ = U", "SOA eq. 0.22 corrected")
row("gravity", "gravity", r"\bar{g}", (ONE, MOTIONS), GENERAL, "q", "[0; −g] at the roots", "88-11 eq. 3.21")
row("V", "V", "V", (ONE, MOTIONS), GENERAL, "q v", "body velocities φ* H* v", "SOA eq. 0.1")
row("a", "a", "a", (ONE, MOTIONS), GENERAL, "q v", "Coriolis accelerations, body-frame pair",
    "theory/open-chains 4.3")
row("b", "b", "b", (ONE, FORCES), GENERAL, "q v", "gyroscopic forces, body-frame pair", "theory/open-chains 4.3")
row("c_J", "c_J", r"c_J", (ONE, MOTIONS), GENERAL, "q v", "part of a from hinge maps that vary, Ḣ* v",
    "theory/open-chains 4.4")
row("s_gauge", "s", "s", (ONE, MOTIONS), GENERAL, "q v", "[0; ω × v], between the two pairs", "theory/open-chains 4.3")
row("a_paper", "a_paper", r"a_{\mathrm{paper}}", (ONE, MOTIONS), GENERAL, "q v",
    "Coriolis accelerations, the papers' pair", "SOA eq. 0.2")
row("b_paper", "b_paper", r"b_{\mathrm{paper}}", (ONE, FORCES), GENERAL, "q v",
    "gyroscopic forces, the papers' pair", "88-11 eq. 2.23")
row("pose", "pose", r"X_{WB}", (ONE, POSES), GENERAL, "q", "body poses in the world, a base-to-tip product",
    "theory/open-chains 2")
row("operand", "operand", r"c", (ONE, EFFORTS), GENERAL, "x",
    "what a gradient is taken with, the operand x as a vector of a space: operand[rates]", "")
# fmt: on


def operand(space: Space) -> Expr:
    """The operand of a program as a vector of a space, for what is linear in it but no operator."""
    return leaf(replace(CATALOGUE["operand"], gives=space), params=(space.name,))


def catalogue_leaf(name: str, *args: Expr) -> Expr:
    """The leaf with this name; `args` are the four operators of a Riccati instance."""
    return leaf(CATALOGUE[name], args)
