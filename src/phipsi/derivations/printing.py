"""Derivations as text and as LaTeX, and short expressions for sums of words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from phipsi.derivations.by_hand import replace
from phipsi.derivations.normal_form import Words, words_of
from phipsi.derivations.word_search import Move
from phipsi.expressions.node import Expr, product
from phipsi.rewrite.collect import collect

_KEPT, _MOST_TERMS = 12, 24  # forms to choose from, terms of a sum
_WIDEST = 76  # characters of an expression with its reason on the same line

_LATEX = {
    "φ̃": r"$\tilde{\phi}$", "ψ̃": r"$\tilde{\psi}$", "π̄": r"$\bar{\pi}$", "φ": r"$\phi$",
    "ψ": r"$\psi$", "π": r"$\pi$", "Ω": r"$\Omega$", "Υ": r"$\Upsilon$", "Λ": r"$\Lambda$",
    "ℳ": r"$\mathcal{M}$", "−": "$-$", "⁻¹": "$^{-1}$", "½": "$^{1/2}$", "_": r"\_",
    "^": r"\^{}", "~": r"\~{}", "&": r"\&", "%": r"\%", "#": r"\#",
}  # fmt: skip


def as_text(d: Any) -> str:
    """The derivation as lines, one for each step."""
    head = f"{d.title}:  " if d.title else ""
    condition = f"   if {d.condition}" if d.condition else ""
    sign = "≠" if _is_refuted(d) else "="
    lines = [f"{head}{d.lhs} {sign} {d.rhs}{condition}", ""]
    if d.reason:
        lines += [d.reason]
        return "\n".join(lines)
    width = max([0, *(n for step in d.steps if (n := len(str(step.expression))) < _WIDEST)])
    lines.append(f"    {d.lhs}")
    for step in d.steps:
        text = str(step.expression)
        if len(text) < _WIDEST:
            lines.append(f"  = {text:{width}}   {step.reason}".rstrip())
        else:
            lines += [f"  = {text}", f"    {'':{width}}   {step.reason}"]
    return "\n".join(lines)


def as_latex(d: Any) -> str:
    """The derivation as an ``align*`` environment; a claim that is not derived says so."""
    first, last = d.lhs.text("latex"), d.rhs.text("latex")
    if _is_refuted(d):
        rows = [rf"{first} &\neq {last} && \text{{the sides are not equal}}"]
        return _aligned(rows)
    rows = [
        rf"{first if i == 0 else ''} &= {step.expression.text('latex')}"
        rf" && \text{{{latex_text(step.reason)}}}"
        for i, step in enumerate(d.steps)
    ]
    if d.reason:
        rows.append(rf"{'' if rows else first} &= {last} && \text{{no chain was found}}")
    return _aligned(rows or [rf"{first} &= {last}"])


def _aligned(rows: Sequence[str]) -> str:
    return "\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}"


def _is_refuted(d: Any) -> bool:
    return d.proof is not None and not d.proof


def latex_text(text: str) -> str:
    """Words with Greek letters in them, for LaTeX."""
    signs = "|".join(map(re.escape, sorted(_LATEX, key=len, reverse=True)))
    return re.sub(signs, lambda m: _LATEX[m.group()], text)


def neat(words: Words, before: Expr, moves: Sequence[Move]) -> Expr:
    """A short expression for a sum of words, if possible with the factors that stood before."""
    plain = words.expression()
    if len(words.terms) > _MOST_TERMS:
        return plain
    kept = {before: None}
    for move in moves[:_MOST_TERMS]:
        pairs = [move.equation.sides, move.equation.sides[::-1]]
        pairs += [(old.T, new.T) for old, new in pairs]
        kept |= {replace(x, *pair): None for x in kept for pair in pairs}
        kept = dict.fromkeys(sorted(kept, key=_length)[:_KEPT])
    forms = [plain, *kept, collect(plain), collect(plain.T).T, _factored(words)]
    short = sorted(forms, key=_length)
    return next(x for x in short if x is plain or words_of(x).key == words.key)


def _length(x: Expr) -> int:
    return len(str(x))


def _factored(words: Words) -> Expr:
    """The sum with the letters in front that all its words begin or end with."""
    shared = list(words.terms)
    if len(shared) < 2:
        return words.expression()
    first, last = 0, 0
    while all(len(w) > first and w[first] is shared[0][first] for w in shared):
        first += 1
    while all(len(w) > first + last and w[-1 - last] is shared[0][-1 - last] for w in shared):
        last += 1
    if not first + last:
        return words.expression()
    head, tail = shared[0][:first], shared[0][len(shared[0]) - last :]
    takes = tail[0].gives if tail else words.takes
    rest = {w[first : len(w) - last]: c for w, c in words.terms.items()}
    inner = Words(rest, takes, head[-1].takes if head else words.gives).expression()
    return product((*head, min(inner, collect(inner), key=_length), *tail))
