"""The papers' symbols that are not in the catalogue, and the reader of the tables of theorems.

Three conventions for capital Φ, Ψ and the gain are in use; the tables are written once and read
with the symbols of each (theory/open-chains 1.1):

    SOA, MC    phi, psi, K            K = E_phi G
    MM        Phi1 = phi − I         Psi1 = psi E_phi       gain G
    88-11        Phi3 = phi S           Psi3 = psi S           gain L = Lam_phi G
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from phipsi.expressions.node import Expr, block_diagonal, identity, leaf, zero
from phipsi.expressions.parse import Vocabulary, parse_with
from phipsi.expressions.row import Row
from phipsi.expressions.spaces import FORCES, MOTIONS, ONE
from phipsi.expressions.structure import GENERAL, MEMORYLESS
from phipsi.operators import VOCABULARY, parse
from phipsi.rewrite.identity import Case, Claim, Identity

Lam_phi = leaf(
    Row(
        name="Lam_phi",
        symbol="Λ_φ",
        latex=r"\Lambda_{\phi}",
        takes=FORCES,
        gives=FORCES,
        structure=MEMORYLESS,
        needs=("q",),
        meaning="diagonal of the φ(parent(k), k): E_φ = S Λ_φ",
        source="88-11 App. A",
    )
)
any_motion = leaf(
    Row(
        name="any_motion",
        symbol="x",
        latex="x",
        takes=ONE,
        gives=MOTIONS,
        structure=GENERAL,
        meaning="any vector of body motions; a proof draws it at random",
    )
)


def _symbols() -> dict[str, Expr]:
    """Abbreviations of the papers, as expressions of the catalogue."""
    phi, psi, E_phi, shift, G = (parse(n) for n in ("phi", "psi", "E_phi", "shift", "G"))
    proj_bar = parse("proj_bar")
    siblings = parse("E_psi* Upsilon E_psi")
    words = {
        "S": shift,
        "Lam_phi": Lam_phi,
        "Lam_psi": Lam_phi @ proj_bar,
        "L": Lam_phi @ G,
        "Phi1": parse("phi - I"),
        "Psi1": psi @ E_phi,
        "Phi3": phi @ shift,
        "Psi3": psi @ shift,
        "theta": parse("E_phi P H* D^-1 H P E_phi*"),
        "Xi": siblings - block_diagonal(siblings),
        "x": any_motion,
        "abar": parse("a + gravity"),
        "C": parse("H phi (M phi* a + b)"),
        "zeta": parse("M phi* (a + gravity) + b + B f0"),
        "alpha": parse("phi* (H* vdot + a + gravity)"),
    }
    phi_star_abar = phi.T @ words["abar"]
    bias = parse("H") @ phi @ words["zeta"]
    words["lambda1"] = parse("phi* H* vdot")
    words["f"] = phi @ (parse("M") @ words["alpha"] + parse("b + B f0"))
    words["T1"] = parse("tau") - bias
    words["nu1"] = parse("D^-1 (I - H psi K)") @ words["T1"]
    words["eps1"] = parse("(I - H psi K)") @ words["T1"]
    words["eps4"] = (
        parse("(I - H psi K) tau - H psi (b + B f0)") - parse("H psi_tilde P") @ words["abar"]
    )
    words["nu4"] = parse("D^-1") @ words["eps4"]
    words["phi_abar"] = phi_star_abar
    return words


@cache
def vocabulary(convention: str = "") -> Vocabulary:
    """The words of the tables; convention "MM" or "88-11" adds Phi, Psi and the gain."""
    words = _symbols()
    if convention == "MM":
        words |= {"Phi": words["Phi1"], "Psi": words["Psi1"], "L": parse("G"), "SL": parse("K")}
    elif convention == "88-11":
        words |= {"Phi": words["Phi3"], "Psi": words["Psi3"], "SL": parse("shift") @ words["L"]}
    leaves: Mapping[str, Expr] = {**VOCABULARY.leaves, **words}
    return Vocabulary(leaves, VOCABULARY.functions, VOCABULARY.instance, VOCABULARY.with_params)


def theorem(
    name: str,
    before: str,
    after: str,
    source: str,
    condition: str = "",
    note: str = "",
    convention: str = "",
) -> Identity:
    """An operator equation, both sides as the papers print them (ASCII, `mass_matrix` for ℳ)."""
    words = vocabulary(convention)
    left, right = parse_with(before, words), parse_with(after, words)
    if right.takes is None:  # a lone I or 0 is the one between the spaces of the other side
        right = identity(left.takes) if right is identity() else zero(left.takes, left.gives)
    if (left.takes, left.gives) != (right.takes, right.gives):
        raise TypeError(f"{name}: {before} and {after} are between different spaces")
    statement = f"{before} = {after}"
    return Identity(name, left, right, condition, source, note=note, statement=statement)


def checked(
    name: str,
    statement: str,
    source: str,
    check: Callable[[Case], Claim],
    condition: str = "",
    rigid: bool = False,
) -> Identity:
    """An equation that is not between operators, with the function that checks it."""
    return Identity(
        name, None, None, condition, source, check=check, statement=statement, rigid=rigid
    )
