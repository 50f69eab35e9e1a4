"""The expressions that texts stand for, if letters of a paper have several meanings.

A paper may write M for the inertias of the bodies and for the mass matrix. The spaces say which one
is meant: the meanings are tried in turn, and the first that fits is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from phipsi.core.expressions.node import Expr
from phipsi.core.expressions.parse import LONGEST, ExpressionParser, Meanings, Vocabulary
from phipsi.core.expressions.printed_lines import without_end_of_line
from phipsi.core.expressions.render import without_legend
from phipsi.errors import ParseError, PhipsiError

_MOST = 400  # readings that are tried


def parse_with(text: str, words: Vocabulary) -> Expr:
    """Parse one expression; see `phipsi.parse`."""
    return next(_readings([text], words))[0]


def parse_together(
    texts: Sequence[str], words: Vocabulary, fit: Callable[[Sequence[Expr]], bool]
) -> Sequence[Expr]:
    """Parse several texts with letters of one kind, so that the expressions `fit` if possible."""
    found = _readings(texts, words)
    first = next(found)
    return first if fit(first) else next((more for more in found if fit(more)), first)


def _readings(texts: Sequence[str], words: Vocabulary) -> Iterator[Sequence[Expr]]:
    """What texts may mean, the usual reading first; the error of the one that came furthest."""
    checked = [_checked(text) for text in texts]
    furthest, error, found = (-1, -1), ParseError(""), False
    for vocabulary in (words, *words.others):
        meanings = Meanings()
        for _ in range(_MOST):
            meanings.restart()
            out: list[Expr] = []
            reader: ExpressionParser | None = None
            try:
                for text in checked:
                    reader = ExpressionParser(text, vocabulary, meanings)
                    out.append(reader.whole())
            except PhipsiError as wrong:
                reached = (len(out), reader.at if reader else 0)
                if reached > furthest:
                    furthest, error = reached, wrong
            else:
                found = True
                yield out
            if not meanings.advance():
                break
    if not found:
        raise error


def _checked(text: str) -> str:
    """A text of bounded length, without what a printed line has around an expression."""
    if not isinstance(cast(object, text), str):
        raise ParseError(f"parse reads a str such as 'H phi M', not {type(text).__name__}")
    if len(text) > LONGEST:
        raise ParseError(
            f"the expression has {len(text):,} characters; at most {LONGEST:,} are allowed"
        )
    if not text.strip():
        raise ParseError("the string is empty; an expression is, for example, 'H phi M phi* H*'")
    text = without_legend(text, LONGEST)
    if len(text) > LONGEST:
        raise ParseError(
            f"the expression is longer than {LONGEST:,} characters when it is written out"
        )
    return without_end_of_line(text)
