"""The operators and vectors of the algebra, one row each: their meaning and their change.

A row has the leaf's spaces, structure and inputs, and, where it applies, its `definition` and its
one `differential`, from which all derivatives follow. Adding an operator is adding a row here and,
if it has no definition, its blocks: an operation of the same name, or an entry in a table of
`sweeps/memoryless_blocks.py` (memoryless) or `sweeps/lower.py` (it reads other bodies).

In body axes M is constant, and E_φ(p, k) and H(k) depend on the joint k alone. When the joints move
with the rates u, body k moves by s = H* u relative to its parent and by φ* s in all, and

    δE_φ = −E_φ cross(s)*      δφ = φ δE_φ φ        δH = Ḣ{u}        δgravity = −cross(s) gravity
    δB = Ḃ{φ* s},  δA = Ȧ{φ* s}      δtotal = −total cross(φ* s)*      δshift = −shift cross(Π s)*

with Π the angular half of a motion, and δM = M(δπ) when the inertial parameters change, else 0.

Ḣ{u} is H when the joints move with the rates u, and Ḣ{u; w} its change along w, u held; Ḣ without
braces is Ḣ{v}. dH{f} is u ↦ Ḣ{u} f and dHT{x} is u ↦ Ḣ{u}* x; dH{f; u} is w ↦ Ḣ{u; w} f, and
dH[0]{f; u} is w ↦ Ḣ{w; u} f. In the same way Ḃ, dB, dBT and Ȧ, dA, dAT say how B and A change when
the bodies move. All are linear in every direction; those of H vanish for joints whose axes are
fixed in the body.

Bodies with modes: M depends on their own, E_φ also on those of the parent, and s has modal rows:

    δM = Ṁ{s},  δE_φ = −E_φ rigid_cross(s)* + Ė{s}

with rigid_cross in every place of cross. Derivatives of rigid bodies leave these terms out; which
ones are meant is for `calculus` to say (d.modes, d.cross).

The Riccati family: P solves P = M + E P⁺ E* with P⁺ = π̄ P, which is stationary in the gain, so that

    δP = bd(ψ Q ψ*),   Q = δM + bd(δE P⁺ E* + E P⁺ δE* + E (G δJr G* − π̄ P δH* G* − G δH P π̄*) E*)
    δD = H δP H* + δH P H* + H P δH* + δJr,     δG = (δP H* + P δH* − G δD) D⁻¹

[MS lemmas 3.1–4.2; for trees and all joints, theory/sensitivities 3 and 6].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from phipsi.core.expressions import (
    CAUSAL,
    CONFIGURATIONS,
    EFFORTS,
    FORCES,
    FRAME_POSES,
    GENERAL,
    MEMORYLESS,
    MOTIONS,
    NORMALISED,
    ONE,
    PARAMETERS,
    POINT_FORCES,
    POINT_MOTIONS,
    POSES,
    RATES,
    RELATED,
    ROW_RATES,
    STRICTLY_ANTICAUSAL,
    STRICTLY_CAUSAL,
    WORLD_FORCE,
    DifferentialForm,
    Expr,
    Function,
    Op,
    Row,
    Space,
    Structure,
    block_diagonal,
    cross,
    half,
    identity,
    inertia_of,
    intern,
    is_memoryless,
    leaf,
    linear,
    shown,
    signature,
    total_of,
    zero,
)
from phipsi.errors import SpaceError

CATALOGUE: dict[str, Row] = {}


class DifferentialTerms(Protocol):
    """The changes that `differential(x, d)` asks for."""

    rates: Expr
    relative: Expr
    motion: Expr
    modes: Expr
    cross: Function
    parameters: Expr

    def __call__(self, y: Expr, /) -> Expr:
        """δy."""
        ...


SYMMETRIC, RICCATI, SIX_ROWS, MODAL = "symmetric", "riccati", "six_rows", "modal"


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
    *,
    definition: Callable[[Expr], Expr | None] | None = None,
    differential: Callable[[Expr, DifferentialTerms], Expr] | None = None,
    **more: Any,
) -> None:
    """Add one row to the catalogue; see `Row`."""
    CATALOGUE[name] = Row(
        name=name, symbol=symbol, latex=latex, takes=spaces[0], gives=spaces[1],
        structure=structure, needs=tuple(needs.split()), meaning=meaning, source=source,
        symmetric=SYMMETRIC in flags, riccati=RICCATI in flags, six_rows=SIX_ROWS in flags,
        modal=MODAL in flags, definition=definition, differential=differential, home=__name__, **more,
    )  # fmt: skip


def vary(
    of: str,
    form: DifferentialForm,
    dot: str,
    when: str,
    u: str,
    source: str,
    source_of_parts: str = "",
    *,
    now: str,
    flags: str = "",
    of_parts: tuple[Structure, Structure] | None = None,
    differential: Callable[[Expr, DifferentialTerms], Expr] | None = None,
) -> None:
    """Add the rows for the change of an operator of the catalogue along directions."""
    X, differential = CATALOGUE[of], differential or change_along
    structures = of_parts or (X.structure, X.structure)
    latex, along = X.latex, form.along
    letter, line, index = latex.partition("_")
    row(form.change, dot, rf"\dot{{{letter}}}{line}{index}", (X.takes, X.gives), X.structure, "q v",
        f"time derivative of {of}" + (" in body components" if along is RATES else ""), source, flags, form=form, braces=(along, along), now=now,
        step=X.step, differential=differential)  # fmt: skip
    for name, star, y, gives, structure in (
        (form.applied, "", X.takes, X.gives, structures[0]),
        (form.adjoint, "*", X.gives.dual, X.takes.dual, structures[1]),
    )[: 1 + (form.adjoint != form.applied)]:
        letter = "f" if y.name.endswith("forces") else "x"
        row(name, name, rf"\delta {latex}" + ("^{*}" if star else ""), (along, gives), structure, "q",
            f"how {of}{star} {letter} changes {when}: {u} ↦ {dot}{{{u}}}{star} {letter}",
            source_of_parts or source, flags.replace(SYMMETRIC, ""), form=form, braces=(y, along),
            brackets="place", differential=differential)  # fmt: skip


HINGE = DifferentialForm("Hdot", "dH", "dHT", RATES, "rates")
POINT = DifferentialForm("Bdot", "dB", "dBT", MOTIONS, "motion")
ROWS = DifferentialForm("Adot", "dA", "dAT", MOTIONS, "motion")
INERTIA = DifferentialForm("Mdot", "dM", "dM", MOTIONS, "modes", "ddM")
STEP = DifferentialForm("Edot", "dE", "dET", MOTIONS, "modes")


def of_family(make: Callable[[Riccati], Expr]) -> Callable[[Expr], Expr]:
    """A definition in terms of the Riccati family that the leaf belongs to."""
    return lambda x: make(family_of(x))


def change_along(x: Expr, d: DifferentialTerms, fixed: int | None = None) -> Expr:
    """δ of Ẋ{…} or of a part of it: by every vector in its braces but the fixed one, and by q."""
    form, args, place = x.row.form, arguments_of(x), place_of(x)
    assert form is not None
    terms: list[tuple[int, Expr]] = [(0, x)]
    for i, y in enumerate(args):
        if i != fixed:
            changed = (*args[:i], d(y), *args[i + 1 :])
            terms.append((1, with_arguments(x.name, *changed, hole=place)))
    last = getattr(d, form.by)
    return total_of([*terms, (1, with_arguments(x.name, *args, last, hole=place))])


def _port_change(x: Expr, d: DifferentialTerms) -> Expr:
    """δ of Ė{…} or of a part of it, which is a change of a port, seen through the joint on it."""
    turn, out = d.cross(d.relative), change_along(x, d)
    if x.name == STEP.change:
        return out - x @ turn.T
    if x.name == STEP.adjoint:
        return out - turn @ x
    f, *others = x.args
    return out - with_arguments(x.name, turn.T @ f, *others, hole=place_of(x))


_FF, _FE, _EF = (FORCES, FORCES), (FORCES, EFFORTS), (EFFORTS, FORCES)
_MF, _FM, _RE = (MOTIONS, FORCES), (FORCES, MOTIONS), (RATES, EFFORTS)

# fmt: off
# ---- primitive operators ---------------------------------------------------------------------------
row("H", "H", "H", _FE, MEMORYLESS, "q", "hinge map: body force → joint effort", "SOA eq. 0.1",
    differential=lambda x, d: change_of(HINGE, d.rates))
row("E_phi", "E_φ", r"\mathcal{E}_{\phi}", _FF, STRICTLY_CAUSAL, "q",
    "rigid propagation by one body, to the parent", "SOA eq. 0.5",
    step=True, differential=lambda x, d: -(x @ d.cross(d.relative).T) + change_of(STEP, d.modes))
row("phi", "φ", r"\phi", _FF, CAUSAL, "q", "rigid propagation (I − E_φ)⁻¹, tip to base", "SOA eq. 0.6",
    transition="phi_tilde", differential=lambda x, d: x @ d(E_phi) @ x)
row("M", "M", "M", _MF, MEMORYLESS, "", "spatial inertia of each body about its origin", "MM eq. 2",
    SYMMETRIC,
    varies=("inertia",), differential=lambda x, d: inertia_of(d.parameters) + change_of(INERTIA, d.modes))
row("Jr", "Jr", r"J_r", _RE, MEMORYLESS, "", "rotor inertia reflected to the joint (armature)",
    "docs/notation.md", SYMMETRIC)
row("K_e", "K_e", r"K_{e}", _RE, MEMORYLESS, "", "stiffness of the modes of flexible bodies, zero for joints",
    "theory/flexible-bodies 0", SYMMETRIC + MODAL)
row("C_e", "C_e", r"C_{e}", _RE, MEMORYLESS, "", "damping of the modes of flexible bodies, zero for joints",
    "theory/flexible-bodies 0", SYMMETRIC + MODAL)
row("modal", "modal", r"\mathrm{modal}", (RATES, RATES), MEMORYLESS, "", "keeps the rates of modes",
    "theory/flexible-bodies 0", MODAL)
row("modal_rows", "modal_rows", r"\mathrm{rows}_{\eta}", _EF, MEMORYLESS, "",
    "efforts of modes as the modal rows of body forces", "theory/flexible-bodies 0", MODAL)
row("shift", "shift", r"\mathcal{S}", _FF, STRICTLY_CAUSAL, "q",
    "relabels: block of k becomes block of its parent (in body axes: rotated)", "88-11 App. A",
    step=True, differential=lambda x, d: -(x @ cross(catalogue_leaf("angular") @ d.relative).T))
row("Lam_phi", "Λ_φ", r"\Lambda_{\phi}", _FF, MEMORYLESS, "q",
    "blocks φ(parent(k), k) without the rotation, so that E_φ = shift Λ_φ", "88-11 App. A",
    differential=lambda x, d: cross(catalogue_leaf("angular") @ d.relative).T @ x
    - x @ cross(d.relative).T)
row("B", "B", "B", (POINT_FORCES, FORCES), MEMORYLESS, "q", "point forces → body forces",
    "SOA eq. 0.16", SIX_ROWS,
    brackets="selection", definition=lambda x: B @ _chosen(x).T if x.params else None,
    differential=lambda x, d: change_of(POINT, d.motion) @ _chosen(x).T)
row("unprescribed", "unprescribed", r"\mathrm{unprescribed}", (EFFORTS, EFFORTS), MEMORYLESS, "free",
    "keeps the joints whose effort is given", "theory/closed-chains 11")
row("prescribed", "prescribed", r"\mathrm{prescribed}", _RE, MEMORYLESS, "free",
    "1 on joints whose acceleration is given, 0 elsewhere", "theory/closed-chains 11", SYMMETRIC)
row("A", "A", "A", (POINT_MOTIONS, ROW_RATES), GENERAL, "q", "constraint rows on point motions",
    "SOA eq. 0.19", SIX_ROWS,
    brackets="selection", definition=lambda x: catalogue_leaf("A") @ _chosen(x) if x.params else None,
    differential=lambda x, d: change_of(ROWS, d.motion) @ _chosen(x))
row("A_grasp", "A_grasp", r"A_{\mathrm{grasp}}", (MOTIONS, POINT_MOTIONS), MEMORYLESS, "q",
    "motions of the held object at its contacts, the papers' col φ*", "88-11 II eq. 2.7",
    definition=lambda x: (B @ leaf(CATALOGUE["select"], params=("S",)).T).T)
row("select", "select", r"\mathrm{select}", (POINT_MOTIONS, POINT_MOTIONS), MEMORYLESS, "",
    "keeps the points on the bodies of a selection", "SOA eq. 0.20")
row("angular", "angular", r"\Pi_{\omega}", (MOTIONS, MOTIONS), MEMORYLESS, "",
    "keeps the angular half of every motion", "theory/open-chains 4.3", SIX_ROWS)
row("total", "total", r"\Sigma", (FORCES, WORLD_FORCE), GENERAL, "q",
    "body forces summed at a point of the world, in world axes", "theory/open-chains 2", SIX_ROWS,
    brackets="point", differential=lambda x, d: -(x @ d.cross(d.motion).T))
row("to_com", "to_com", r"\phi_{C}", (WORLD_FORCE, WORLD_FORCE), MEMORYLESS, "q",
    "the total force about the mass centre of the mechanism instead of the world's origin", "theory/open-chains 12")
vary("H", HINGE, "Ḣ", "with q", "u", "theory/open-chains 4.4", "theory/sensitivities 3", now="v", flags=SIX_ROWS)
vary("B", POINT, "Ḃ", "when its body moves", "V", "theory/open-chains 6", now="V", flags=SIX_ROWS)
vary("A", ROWS, "Ȧ", "when the bodies move", "V", "theory/closed-chains 2", now="V", flags=SIX_ROWS)
vary("M", INERTIA, "Ṁ", "with modes", "s", "theory/flexible-bodies 6", now="V", flags=SYMMETRIC)
vary("E_phi", STEP, "Ė", "with the modes of parents", "s", "theory/flexible-bodies 6", now="V", flags=MODAL,
     of_parts=(MEMORYLESS, STRICTLY_ANTICAUSAL), differential=lambda x, d: _port_change(x, d))
row("ddM", "ddM", r"\delta^2 M", _MF, MEMORYLESS, "q", "how x* Ṁ{s} y changes with modes, of two motions x and y",
    "theory/flexible-bodies 6", SYMMETRIC, braces=(MOTIONS, MOTIONS),
    differential=lambda x, d: total_of((1, with_arguments("ddM", *y)) for y in (
        *((*x.args[:i], d(y), *x.args[i + 1:]) for i, y in enumerate(x.args)), (*x.args, d.modes))))

# ---- the Riccati family of (H, E_phi, M, Jr) ---------------------------------------------------------
row("P", "P", "P", _MF, MEMORYLESS, "q", "articulated-body inertia", "SOA eq. 0.25", "symmetric riccati",
    differential=lambda x, d: _articulated_change(family_of(x), d))
row("D", "D", "D", _RE, MEMORYLESS, "q", "articulated hinge inertia H P H* + Jr", "SOA eq. 0.26",
    "symmetric riccati",
    differential=lambda x, d: d(hinge_inertia(family_of(x))))
row("D_half", "D½", r"D^{1/2}", (NORMALISED, EFFORTS), MEMORYLESS, "q", "Cholesky factor: D = D½ D½*",
    "MC sec. 6", RICCATI,
    differential=lambda x, d: x @ half(x.inv @ d(family_of(x).D) @ x.T.inv))
row("G", "G", "G", _EF, MEMORYLESS, "q", "Kalman gain P H* D⁻¹", "SOA eq. 0.26", RICCATI,
    differential=lambda x, d: _gain_change(family_of(x), d))
row("K", "K", "K", _EF, STRICTLY_CAUSAL, "q", "shifted gain E_φ G", "SOA eq. 0.26", RICCATI,
    definition=of_family(lambda f: f.E @ f.G))
row("proj", "π", r"\pi", _FF, MEMORYLESS, "q", "the papers' τ = G H", "SOA eq. 0.27", RICCATI,
    definition=of_family(lambda f: f.G @ f.H))
row("proj_bar", "π̄", r"\bar{\pi}", _FF, MEMORYLESS, "q", "the papers' τ̄ = I − G H", "SOA eq. 0.27",
    RICCATI,
    definition=of_family(lambda f: identity(FORCES) - f.G @ f.H))
row("E_psi", "E_ψ", r"\mathcal{E}_{\psi}", _FF, STRICTLY_CAUSAL, "q",
    "articulated propagation by one body, E_φ π̄", "SOA eq. 0.27", RICCATI,
    definition=of_family(lambda f: f.E @ f.proj_bar))
row("psi", "ψ", r"\psi", _FF, CAUSAL, "q", "articulated propagation (I − E_ψ)⁻¹", "SOA eq. 0.27", RICCATI,
    transition="psi_tilde", differential=lambda x, d: x @ d(family_of(x).E_psi) @ x)
row("psi_tilde", "ψ̃", r"\tilde{\psi}", _FF, STRICTLY_CAUSAL, "q", "ψ − I", "SOA eq. .46", RICCATI,
    definition=of_family(lambda f: f.psi @ f.E_psi),
    differential=lambda x, d: d(family_of(x).psi))
row("Omega", "Ω", r"\Omega", _FM, GENERAL, "q", "ψ* H* D⁻¹ H ψ", "SOA eq. 0.34", "symmetric riccati",
    compound=True, definition=of_family(lambda f: _omega(f)))
row("Upsilon", "Υ", r"\Upsilon", _FM, MEMORYLESS, "q", "block diagonal of Ω", "SOA eq. .41",
    "symmetric riccati",
    definition=of_family(lambda f: block_diagonal(_omega(f))))

# ---- derived operators -------------------------------------------------------------------------------
row("phi_tilde", "φ̃", r"\tilde{\phi}", _FF, STRICTLY_CAUSAL, "q", "φ − I", "SOA eq. .46",
    definition=lambda x: phi @ E_phi, differential=lambda x, d: d(phi))
row("R", "R", "R", _MF, MEMORYLESS, "q", "composite-body inertia bd(φ M φ*)", "MM eq. 29", SYMMETRIC,
    definition=lambda x: block_diagonal(phi @ M @ phi.T))
row("J", "J", "J", (RATES, POINT_MOTIONS), GENERAL, "q", "Jacobian of the points B* φ* H*", "SOA eq. 0.18",
    compound=True, brackets="selection", definition=lambda x: _chosen(x) @ B.T @ phi.T @ H.T)
row("mass_matrix", "ℳ", r"\mathcal{M}", _RE, RELATED, "q", "joint-space mass matrix H φ M φ* H* + Jr",
    "SOA eq. 0.7", SYMMETRIC,
    compound=True, definition=lambda x: H @ phi @ M @ phi.T @ H.T + Jr)
row("Lambda", "Λ", r"\Lambda", (POINT_FORCES, POINT_MOTIONS), GENERAL, "q",
    "admittance at the points J ℳ⁻¹ J*", "SOA eq. 0.34", SYMMETRIC,
    compound=True, brackets="selection",
    definition=lambda x: _admittance(_chosen(x) @ catalogue_leaf("J")))

# ---- vectors -----------------------------------------------------------------------------------------
row("coordinates", "q", "q", (ONE, RATES), GENERAL, "q", "coordinates of joints with q̇ = v", "theory/open-chains 1",
    differential=lambda x, d: d.rates)
row("eta", "η", r"\eta", (ONE, RATES), GENERAL, "q", "coordinates of the modes of flexible bodies, zero for joints",
    "theory/flexible-bodies 0", MODAL, differential=lambda x, d: catalogue_leaf("modal") @ d.rates)
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
    "one inertial parameter, unit_inertia[body, i]", "theory/sensitivities 8",
    brackets="component")
row("unit_rate", "unit_rate", r"\operatorname{unit_{v}}", (ONE, RATES), GENERAL, "",
    "unit rate of one dof, unit_rate[joint]", "MS eq. 2.11",
    brackets="component")
row("unit_effort", "unit_effort", r"\operatorname{unit_{\tau}}", (ONE, EFFORTS), GENERAL, "",
    "unit effort at one dof, unit_effort[joint]", "MS eq. 2.11",
    brackets="component")
row("f_ext", "f_ext", r"f_{\mathrm{ext}}", (ONE, FORCES), GENERAL, "f_ext",
    "force on each body at its origin, body axes", "", SIX_ROWS)
row("f0", "f0", r"f_0", (ONE, POINT_FORCES), GENERAL, "f0",
    "force by the mechanism on its surroundings at the points", "MM sec. III")
row("Udot", "U̇", r"\dot{U}", (ONE, ROW_RATES), GENERAL, "Udot",
    "rate of the prescribed constraint rates", "SOA eq. 0.22")
row("U", "U", "U", (ONE, ROW_RATES), GENERAL, "q v Udot",
    "what constraint accelerations must be: A J v̇ = U", "SOA eq. 0.22 corrected",
    definition=lambda x: catalogue_leaf("Udot") - catalogue_leaf("Adot") @ B.T @ V
    - catalogue_leaf("A") @ (B.T @ phi.T @ a + catalogue_leaf("Bdot").T @ V))
row("gravity", "gravity", r"\bar{g}", (ONE, MOTIONS), GENERAL, "q", "[0; −g] at the roots", "88-11 eq. 3.21", SIX_ROWS,
    differential=lambda x, d: -(d.cross(d.relative) @ x))
row("V", "V", "V", (ONE, MOTIONS), GENERAL, "q v", "body velocities φ* H* v", "SOA eq. 0.1",
    definition=lambda x: phi.T @ H.T @ v)
row("a", "a", "a", (ONE, MOTIONS), GENERAL, "q v", "Coriolis accelerations, body-frame pair",
    "theory/open-chains 4.3", SIX_ROWS,
    definition=lambda x: cross(V) @ H.T @ v + catalogue_leaf("c_J"))
row("b", "b", "b", (ONE, FORCES), GENERAL, "q v", "gyroscopic forces, body-frame pair", "theory/open-chains 4.3",
    definition=lambda x: -cross(V).T @ M @ V)
row("c_J", "c_J", r"c_J", (ONE, MOTIONS), GENERAL, "q v", "part of a from hinge maps that vary, Ḣ* v",
    "theory/open-chains 4.4", SIX_ROWS,
    definition=lambda x: catalogue_leaf("Hdot").T @ v)
row("s_gauge", "s", "s", (ONE, MOTIONS), GENERAL, "q v", "[0; ω × v], between the two pairs", "theory/open-chains 4.3",
    definition=lambda x: cross(catalogue_leaf("angular") @ V) @ V)
row("a_paper", "a_paper", r"a_{\mathrm{paper}}", (ONE, MOTIONS), GENERAL, "q v",
    "Coriolis accelerations, the papers' pair", "SOA eq. 0.2",
    definition=lambda x: a + (identity(MOTIONS) - E_phi.T) @ catalogue_leaf("s_gauge"))
row("b_paper", "b_paper", r"b_{\mathrm{paper}}", (ONE, FORCES), GENERAL, "q v",
    "gyroscopic forces, the papers' pair", "88-11 eq. 2.23",
    definition=lambda x: b - M @ catalogue_leaf("s_gauge"))
row("pose", "pose", r"X_{WB}", (ONE, POSES), GENERAL, "q", "body poses in the world, a base-to-tip product",
    "theory/open-chains 2")
row("frame_pose", "frame_pose", r"X_{WF}", (ONE, FRAME_POSES), GENERAL, "q", "poses of the points' frames in the world",
    "theory/open-chains 2")
row("moved", "moved", r"q \circ \exp v", (ONE, CONFIGURATIONS), GENERAL, "q v",
    "the configuration after unit time at the rates v", "theory/open-chains 2")
row("operand", "operand", r"c", (ONE, EFFORTS), GENERAL, "x",
    "what a gradient is taken with, the operand x as a vector of a space: operand[rates]", "", SIX_ROWS,
    brackets="space")
# fmt: on


def catalogue_leaf(name: str, *args: Expr) -> Expr:
    """The leaf with this name; `args` are the four operators of a Riccati instance."""
    return leaf(CATALOGUE[name], args)


H, E_phi, phi, M, Jr = (catalogue_leaf(n) for n in ("H", "E_phi", "phi", "M", "Jr"))
B, v, V, a, b = (catalogue_leaf(n) for n in ("B", "v", "V", "a", "b"))


@lru_cache(maxsize=2**14)
def definition(x: Expr) -> Expr | None:
    """The expression a leaf stands for, or None if it is primitive."""
    make = x.row.definition if x.op is Op.LEAF else None
    return make(x) if make else None


def meaning_of(x: Expr) -> Expr | None:
    """What a leaf or the adjoint of one stands for; None if it is primitive."""
    found = definition(x.core)
    return found if found is None or x.core is x else found.T


# ---- leaves with braces or brackets -------------------------------------------------


def with_arguments(name: str, *args: Expr, hole: int | None = None) -> Expr:
    """The leaf with these vectors in its braces; it is linear in each of them.

    `hole` says at which place of dH, dHT, … the open direction stands, the last if None.
    """
    row = CATALOGUE[name]
    assert row.braces is not None
    params = () if hole is None or hole == len(args) - 1 else (hole,)
    if params and (row.brackets != "place" or not 0 <= params[0] < len(args)):
        raise SpaceError(f"{name}[{hole}]{{…}} has no free direction at place {hole}")
    if not args:
        raise SpaceError(f"{name}{{…}} takes vectors")
    for i, x in enumerate(args):
        space = row.braces[0 if i == 0 else 1]
        if x.takes is not ONE or x.gives is not space:
            raise SpaceError(f"{name}{{…}} takes {space.phrase}, but {shown(x)} is: {signature(x)}")
    return linear(Op.LEAF, args, row.takes, row.gives, row.structure, (row, params))


def arguments_of(x: Expr) -> tuple[Expr, ...]:
    """The vectors in the braces of a leaf; without braces, the one that they stand for."""
    return x.args or ((catalogue_leaf(x.row.now),) if x.row.now else ())


def place_of(x: Expr) -> int | None:
    """Where the open direction of dH, dHT, … stands among the directions; None if all are given."""
    if x.row.brackets != "place":
        return None
    place = x.params[0] if x.params else len(x.args) - 1
    assert isinstance(place, int)
    return place


def change_of(form: DifferentialForm, *directions: Expr) -> Expr:
    """Ẋ{d₁; …}: how an operator changes along the directions."""
    return with_arguments(form.change, *directions)


def hinge_variation(*directions: Expr) -> Expr:
    """Ḣ{u; …}: how H changes along the directions."""
    return change_of(HINGE, *directions)


def operand(space: Space) -> Expr:
    """The operand of a program as a vector, for results that are linear in it but not operators."""
    row = CATALOGUE["operand"]
    return intern(Op.LEAF, (), (row, (space.name,)), ONE, space, row.structure)


def unit_vector(name: str, component: str, i: int = 0) -> Expr:
    """unit_rate, unit_effort or unit_inertia, by its name."""
    return leaf(CATALOGUE[name], params=(component, i) if i else (component,))


def _chosen(x: Expr) -> Expr:
    """The points of the selection that a leaf such as Λ[P] names; all points without a name."""
    if not x.params:
        return identity(POINT_MOTIONS)
    return leaf(CATALOGUE["select"], params=x.params)


def _admittance(jacobian: Expr) -> Expr:
    return jacobian @ catalogue_leaf("mass_matrix").inv @ jacobian.T


# ---- the Riccati family --------------------------------------------------------------------------

_FAMILY_SPACES = (
    ("H", FORCES, EFFORTS),
    ("E", FORCES, FORCES),
    ("M", MOTIONS, FORCES),
    ("Jr", RATES, EFFORTS),
)


class _Member:
    """A member of a family: the leaf with the name of the attribute."""

    def __init__(self, text: str) -> None:
        self.__doc__ = text

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, family: Riccati, owner: type) -> Expr:
        return family.leaf(self.name)


@dataclass(frozen=True)
class Riccati:
    """The Riccati family of four operators (H, E, M, Jr): articulated inertias, gains, propagation.

    The memoryless solution P of ``P = M + E (P − P H* D⁻¹ H P) E*`` with ``D = H P H* + Jr``, and

        G = P H* D⁻¹,  K = E G,  π = G H,  π̄ = I − π,  E_ψ = E π̄,  ψ = (I − E_ψ)⁻¹.

    The catalogue's P, D, G, K, ψ are the default instance. Others: without armature
    (``Riccati(Jr=0)``), on another transition operator, with implicit damping in Jr. Hinge map H
    and Jr are any memoryless operators ``body forces → joint efforts`` and ``rates → efforts``.

    >>> from phipsi.operators import Riccati, D, Jr
    >>> Riccati().D is D
    True
    >>> print(Riccati(Jr=0).psi)
    ψ{H; E_φ; M; 0}
    """

    H: Expr = H
    E: Expr = E_phi
    M: Expr = M
    Jr: Expr | int = Jr

    P = _Member("Articulated-body inertia.")
    D = _Member("Articulated hinge inertia H P H* + Jr.")
    D_half = _Member("Cholesky factor of D.")
    G = _Member("Kalman gain.")
    K = _Member("Shifted gain E G.")
    proj = _Member("G H.")
    proj_bar = _Member("I − G H.")
    E_psi = _Member("E π̄.")
    psi = _Member("(I − E_ψ)⁻¹.")
    psi_tilde = _Member("ψ − I.")
    Omega = _Member("ψ* H* D⁻¹ H ψ.")
    Upsilon = _Member("Block diagonal of Ω.")

    def __post_init__(self) -> None:
        if not isinstance(self.Jr, Expr) and self.Jr == 0:
            object.__setattr__(self, "Jr", zero(RATES, EFFORTS))
        for name, takes, gives in _FAMILY_SPACES:
            x = getattr(self, name)
            if not isinstance(x, Expr) or x.takes is not takes or x.gives is not gives:
                what = f"{shown(x)} : {signature(x)}" if isinstance(x, Expr) else repr(x)
                raise SpaceError(
                    f"Riccati({name}=…) must be an operator {takes.phrase} → {gives.phrase}"
                    f"{', or 0' if name == 'Jr' else ''}, but it is\n    {what}"
                )
            if name in ("M", "Jr") and x.T is not x:
                raise SpaceError(
                    f"Riccati({name}=…) must be symmetric, because P and D are, and {shown(x)} is "
                    f"not known to be. Declare it: pp.custom.operator(…, symmetric=True)"
                )
            if name != "E" and not is_memoryless(x.structure):
                raise SpaceError(f"Riccati({name}=…) must be memoryless, but {shown(x)} is not")
        if self.E.structure != STRICTLY_CAUSAL:
            raise SpaceError(
                f"Riccati(E=…) must map every body to its parent, as E_φ and E_ψ do, but "
                f"{shown(self.E)} does not"
            )

    @property
    def armature(self) -> Expr:
        """Jr as an operator."""
        assert isinstance(self.Jr, Expr)
        return self.Jr

    def leaf(self, name: str) -> Expr:
        """The member of the family with this catalogue name."""
        args = (self.H, self.E, self.M, self.armature)
        return leaf(CATALOGUE[name], () if args == _DEFAULT else args)


_DEFAULT = (H, E_phi, M, Jr)
DEFAULT_FAMILY = Riccati()
"""The family of H, E_φ, M and Jr."""
FAMILIES: dict[int, Callable[..., Riccati]] = {0: lambda: DEFAULT_FAMILY, 4: Riccati}
"""Families by how many operators their leaves carry; features may bring others, with Γ."""


def family_of(x: Expr) -> Riccati:
    """The family a Riccati leaf belongs to."""
    return FAMILIES[len(x.args)](*x.args)


def _omega(f: Riccati) -> Expr:
    return f.psi.T @ f.H.T @ f.D.inv @ f.H @ f.psi


def hinge_inertia(f: Riccati) -> Expr:
    """H P H* + Jr, which D stands for."""
    return f.H @ f.P @ f.H.T + f.armature


def _articulated_change(f: Riccati, d: DifferentialTerms) -> Expr:
    """δP = bd(ψ Q ψ*)."""
    rest = f.proj_bar @ f.P  # P⁺
    mixed = f.G @ d(f.H) @ f.P @ f.proj_bar.T
    inner = f.G @ d(f.armature) @ f.G.T - mixed - mixed.T
    step = d(f.E) @ rest @ f.E.T
    source = d(f.M) + block_diagonal(step + step.T + f.E @ inner @ f.E.T)
    return block_diagonal(f.psi @ source @ f.psi.T)


def _gain_change(f: Riccati, d: DifferentialTerms) -> Expr:
    """δG of G D = P H*."""
    return (d(f.P @ f.H.T) - f.G @ d(f.D)) @ f.D.inv
