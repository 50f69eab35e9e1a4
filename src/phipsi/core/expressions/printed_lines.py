r"""A line as papers print it: what stands around its expressions, and the signs for "equals".

``\mathcal{M} = H\phi M\phi^*H^*, \tag{22}`` ends with a comma and a number, ``&=`` aligns it, and
a definition has ``\triangleq``. Which letters are operators is for `parse` to say.
"""

from __future__ import annotations

import re

_NUMBERED = r"\\tag\*?\s*\{[^{}]*\}|\\label\s*\{[^{}]*\}|\\q?quad\s*\([0-9A-Za-z.]+\)"
_SPACE = r"\s|\\[,;:! ]|\\q?quad(?![A-Za-z])"
_END = re.compile(
    rf"(?:{_NUMBERED}|{_SPACE}|[.,;]|\\(?:square|qed|Box|blacksquare)(?![A-Za-z])|□)+\Z"
)
_TAIL = 100  # characters, so that no text takes long
_EQUALS = re.compile(
    r"&?\s*(?:\\(?:stackrel|overset)\s*\{[^{}]*\}\s*\{\s*=\s*\}|\\(?:triangleq|equiv|coloneqq)"
    r"(?![A-Za-z])|≜|≡|:=)\s*&?|&\s*=|=\s*&"
)


def without_end_of_line(text: str) -> str:
    r"""The text without the punctuation and the number that a printed line ends with.

    >>> without_end_of_line(r"H\phi B. \quad (5)")
    'H\\phi B'
    >>> without_end_of_line("H φ B,")
    'H φ B'
    """
    while True:
        tail = text[-_TAIL:]
        end = _END.search(tail)
        if not end or len(tail) - end.start() == len(text):
            return text
        text = text[: len(text) - len(tail) + end.start()]


def with_plain_equals(text: str) -> str:
    r"""A printed equation with = for all signs that mean it, and without marks of alignment.

    >>> with_plain_equals(r"D &\triangleq HPH^*, \tag{9}")
    'D = HPH^*'
    """
    return _EQUALS.sub("= ", without_end_of_line(text))
