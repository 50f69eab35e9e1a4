"""What the intermediate quantities of a printed recursion mean physically.

Lowering notes for each field the product that it stands for. Its space says what it is, its first
operator what was done last; the quantities of the papers' algorithms have sentences of their own.
"""

from __future__ import annotations

from functools import cache

from phipsi.core.expressions import Expr, Op
from phipsi.core.operators import VOCABULARY, parse

_KINDS = {
    "forces": "body forces",
    "motions": "body motions",
    "efforts": "joint forces",
    "rates": "joint motions",
    "point_forces": "forces at points",
    "point_motions": "motions of points",
}
_LAST = {
    "φ": "summed over body k and all bodies outboard of it",
    "φ̃": "summed over the bodies outboard of body k",
    "ψ": "summed over body k and the bodies outboard of it, as far as their joints pass it on",
    "ψ̃": "summed over the bodies outboard of body k, as far as their joints pass it on",
    "φ*": "summed over the joints from the base to body k",
    "φ̃*": "summed over the joints from the base to the parent of body k",
    "ψ*": "summed over the joints from the base to body k, as far as they pass it on",
    "ψ̃*": "summed over the joints from the base to the parent, as far as they pass it on",
    "E_φ": "of the children, moved to body k",
    "E_φ*": "of the parent, moved to body k",
    "E_ψ": "of the children, as far as their joints pass it on",
    "E_ψ*": "of the parent, as far as the joint passes it on",
    "K": "of the children, as far as the efforts of their joints are felt by body k",
    "H": "along the axes of the joint",
    "H*": "of the joint alone, relative to the parent",
    "M": "that accelerate the body",
    "P": "that accelerate the articulated body",
    "G": "that efforts of the joint put on the articulated body",
    "G*": "that make the joint pass on no force along its axes",
    "D⁻¹": "that joint forces cause at the articulated joint",
    "D": "that accelerate the articulated joint",
    "π": "that the joint gives way to",
    "π̄": "that the joint passes on",
    "B": "of the points on body k",
    "B*": "at the points",
    "Jr": "that accelerate the rotor",
}
_SENTENCES = {
    "phi* H* v": "velocity of body k",
    "psi K tau": "force felt by body k because of the joint forces outboard of it",
    "psi E_phi G tau": "force felt by body k because of the joint forces outboard of it",
    "tau - H psi K tau": "innovation: the part of the joint force that accelerates its joint",
    "(I - H psi K) tau": "innovation: the part of the joint force that accelerates its joint",
    "D^-1 (I - H psi K) tau": "acceleration of the joint if its parent did not accelerate",
    "psi* H* D^-1 (I - H psi K) tau": "acceleration of body k",
    "E_phi* psi* H* D^-1 (I - H psi K) tau": "acceleration of the parent, moved to body k",
    "(I - H psi K)* D^-1 (I - H psi K) tau": "joint accelerations without bias forces",
    "phi* (H* vdot + a)": "acceleration of body k, with Coriolis terms",
    "phi* H* vdot": "acceleration of body k",
}


@cache
def _sentences() -> dict[Expr, str]:
    return {parse(text): meaning for text, meaning in _SENTENCES.items()}


def meaning_of_quantity(stands: Expr | None, named: Expr | str) -> str:
    """What a quantity is: from the product it stands for, or from its name; "" if not known."""
    leaf = named if isinstance(named, Expr) else VOCABULARY.leaves.get(named)
    if leaf is not None and leaf.op is Op.LEAF and leaf.row.meaning:
        return leaf.row.meaning
    if stands is None or stands.op is Op.IDENTITY:
        return ""
    if stands.op is Op.LEAF and stands.is_vector:
        return stands.row.meaning
    text = str(stands)
    if not stands.is_vector:
        text = f"({text}) x" if stands.op is Op.SUM else f"{text} x"
    if stands in _sentences():
        return f"{_sentences()[stands]}, {text}"
    kind = _KINDS.get(stands.gives.name, stands.gives.name)
    first = stands.factors[0] if stands.op is not Op.SUM else stands
    done = _LAST.get(str(first), "")
    return f"{kind} {done}: {text}" if done else f"{kind}: {text}"
