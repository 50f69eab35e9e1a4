"""Methods that manipulate an expression: expand, rewrite, collect, subs.

They use identities of the papers, so their bodies are in a later room,
`papers/derivations/manipulate.py`, which is loaded on use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from phipsi.views import view


class Manipulable:
    """The base of expressions. ``show=True`` prints the step that was done."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in ("inverse", "I"):
                text += "; the inverse is the property x.inv"
            elif name in ("H", "adjoint", "transpose", "dagger"):
                text += "; the adjoint is the property x.T"
            raise AttributeError(text, name=name, obj=self)

    def expand(self, *names: str, at: Any = None, show: bool = False) -> Self:
        """Replace quantities by their definitions.

        Parameters
        ----------
        *names : str
            Names of the catalogue, or symbols. Default: everything that the catalogue defines, down
            to primitive operators. φ, ψ, P, D and G, which are defined by equations, are expanded
            only when they are named.
        at : Expr, str or sequence of int, optional
            Where, as in `rewrite`. Default: everywhere.
        show : bool, optional
            Whether to print the step. Default: False.

        Returns
        -------
        Expr
            The expanded expression.

        Examples
        --------
        >>> from phipsi.operators import mass_matrix, tau
        >>> print((mass_matrix.inv @ tau).expand("mass_matrix"))
        (Jr + H φ M φ* H*)⁻¹ τ
        """
        return view("expand")(self, *names, at=at, show=show)

    def rewrite(
        self, identity: Any, *, reverse: bool = False, at: Any = None, show: bool = False
    ) -> Self:
        """Replace the left side of an identity by its right side.

        Occurrences in adjoints and in other Riccati families are found too, and those that appear
        only after multiplying out.

        Parameters
        ----------
        identity : Identity or str
            The identity, its name, or its source ("Lemma 0.4", "88-11 a.35").
        reverse : bool, optional
            Whether to replace the right side by the left one. Default: False.
        at : Expr, str or sequence of int, optional
            A subexpression, its text, or a path of indices into `args`. Default: everywhere.
        show : bool, optional
            Whether to print the step. Default: False.

        Returns
        -------
        Expr
            The rewritten expression.

        Raises
        ------
        InputError
            If the identity does not apply there; the message shows the nearest part.

        Examples
        --------
        >>> import phipsi as pp
        >>> print(pp.parse("(I - H psi K) H phi B f0").rewrite("Lemma 0.4"))
        H ψ B f0
        """
        return view("rewrite")(self, identity, reverse=reverse, at=at, show=show)

    def collect(self, factor: Any = None, *, side: str = "", show: bool = False) -> Self:
        """Collect the terms that begin or end with a common factor into one product.

        Parameters
        ----------
        factor : Expr or str, optional
            The factor. Default: all common prefixes are collected, as the compiler does.
        side : {"", "left", "right"}, optional
            Where the factor is: "left" for terms that begin with it, "right" for terms that end
            with it. Default: "", either.
        show : bool, optional
            Whether to print the step. Default: False.

        Returns
        -------
        Expr
            The collected expression.

        Examples
        --------
        >>> import phipsi as pp
        >>> print(pp.parse("phi M V + phi b").collect("phi"))
        φ (b + M V)
        """
        return view("collect")(self, factor, side=side, show=show)

    def subs(self, new: Mapping[Any, Any]) -> Self:
        """Substitute parts by expressions between the same spaces, all at once.

        Only what is written is replaced: another M does not change P.

        Parameters
        ----------
        new : mapping of (Expr or str) to (Expr or str)
            Old parts and their replacements.

        Returns
        -------
        Expr
            The expression after the substitution.

        Examples
        --------
        >>> import phipsi as pp
        >>> print(pp.parse("mass_matrix vdot").subs({"vdot": "mass_matrix^-1 tau"}))
        ℳ ℳ⁻¹ τ
        """
        return view("subs")(self, new)
