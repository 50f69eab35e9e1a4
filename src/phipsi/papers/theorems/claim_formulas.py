"""Claims about custom operators whose blocks are formulas of one body."""

from __future__ import annotations

from dataclasses import replace

from phipsi.core.calculus import substitute
from phipsi.core.operators import written_nodes
from phipsi.core.rewrite import Identity
from phipsi.errors import InputError
from phipsi.user_operators import Formula, with_any_blocks


def with_any_formulas(identity: Identity) -> Identity:
    """The identity with any blocks in place of custom operators and vectors given by formulas."""
    values = {
        x: with_any_blocks(x)
        for x in identity.leaves
        if isinstance(getattr(x.row.value, "function", None), Formula)
    }
    if not values:
        return identity
    lhs, rhs = (substitute(side, values) for side in identity.sides)
    return replace(identity, lhs=lhs, rhs=rhs)


def formulas_of(identity: Identity) -> set[Formula]:
    """The formulas of one body in an identity and in the definitions of its operators."""
    functions = (x.function for x in written_nodes(identity.expressions))
    return {f for f in functions if isinstance(f, Formula)}


def check_cases(identity: Identity) -> None:
    """Reject a claim about formulas that choose between cases: not all of them were tried."""
    for f in sorted(formulas_of(identity), key=lambda f: f.name):
        cases = f.cases
        if cases:
            raise InputError(
                f"identity {identity.name!r} holds in all sampled states, but that is no proof: "
                f"the formula {f.name} has branches ({', '.join(cases)}), and those that were "
                f"not reached may differ.\nProve it for arbitrary blocks in place of {f.name}, "
                "or in one state:  pp.prove(identity, model, q, v)"
            )
