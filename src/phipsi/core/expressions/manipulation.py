"""The methods by which an expression is changed by hand: expand, rewrite, collect, subs.

They use identities of the papers, so their bodies are in a later room,
`papers/derivations/manipulate.py`, which is loaded on use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from phipsi.views import view


class Manipulable:
    """The base of expressions. ``show=True`` prints the step that was done."""

    __slots__ = ()

    def expand(self, *names: str, at: Any = None, show: bool = False) -> Self:
        """The expression with named quantities replaced by their definitions, all if none is named.

        **Arguments:** `names`, those of the catalogue, or their symbols. Without names, everything
        that the catalogue defines is written out, down to primitive operators; φ, ψ, P, D and G,
        which are defined by equations, only when they are named. `at`: where, as in `rewrite`.

        >>> from phipsi.operators import mass_matrix, tau
        >>> print((mass_matrix.inv @ tau).expand("mass_matrix"))
        (Jr + H φ M φ* H*)⁻¹ τ
        """
        return view("expand")(self, *names, at=at, show=show)

    def rewrite(
        self, identity: Any, *, reverse: bool = False, at: Any = None, show: bool = False
    ) -> Self:
        """The expression with the left side of an identity replaced by its right side.

        **Arguments:** `identity`, or its name or source ("Lemma 0.4", "88-11 a.35"); `reverse`, to
        replace the right side by the left one; `at`, a subexpression, its text, or a path of places
        in `args`, everywhere if None. Adjoints and other Riccati families are found too, and what
        stands there only after multiplying out.

        >>> import phipsi as pp
        >>> print(pp.parse("(I - H psi K) H phi B f0").rewrite("Lemma 0.4"))
        H ψ B f0
        """
        return view("rewrite")(self, identity, reverse=reverse, at=at, show=show)

    def collect(self, factor: Any = None, *, side: str = "", show: bool = False) -> Self:
        """The terms that begin (side "left") or end ("right") with a factor, as one product.

        Without a factor, all common prefixes are collected, as the compiler does it.

        >>> import phipsi as pp
        >>> print(pp.parse("phi M V + phi b").collect("phi"))
        φ (b + M V)
        """
        return view("collect")(self, factor, side=side, show=show)

    def subs(self, new: Mapping[Any, Any]) -> Self:
        """The expression with parts replaced by others between the same spaces, all at once.

        Only what is written is replaced: another M does not change P.

        >>> import phipsi as pp
        >>> print(pp.parse("mass_matrix vdot").subs({"vdot": "mass_matrix^-1 tau"}))
        ℳ ℳ⁻¹ τ
        """
        return view("subs")(self, new)
