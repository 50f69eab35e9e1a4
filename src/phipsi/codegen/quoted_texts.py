"""Texts from files and users, quoted for the languages of exported files.

Names of robots, bodies, joints, points and parameters may contain anything. Whatever of them
reaches a generated file goes through one of these functions, so that it stays a comment, a string
or a cell of a table there. Names in code are made by `c_identifiers.identifier`; JSON and XML have
writers of their own.
"""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"[\\`*\[\]<>|&~$]|:(?=\S)|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown takes for more than text inside a line; underscores inside a word are not."""


def comment(text: str) -> str:
    """One line for a comment of C, C++, Rust, JavaScript or PTX: printable ASCII, no end of it.

    >>> from phipsi.codegen.quoted_texts import comment
    >>> comment("arm */ int x; // é")
    'arm * / int x; // ?'
    """
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)
    plain = plain.replace("*/", "* /").replace("/*", "/ *")
    plain = re.sub(r"\?(?=\?)", "? ", plain)  # no trigraphs
    return f"{plain}." if plain.endswith("\\") else plain  # no line that goes on in the next


def c_string(text: str) -> str:
    r"""A string of C that contains exactly this text, in UTF-8.

    >>> from phipsi.codegen.quoted_texts import c_string
    >>> print(c_string('left "hand"\n'))
    "left \042hand\042\012"
    """
    content = text.encode("utf-8", "replace")
    return '"' + "".join(_c_character(x) for x in content) + '"'


def _c_character(byte: int) -> str:
    """Octal where C would read more into it: quotes, backslashes, trigraphs, what is no ASCII."""
    plain = " " <= chr(byte) <= "~" and chr(byte) not in '"\\?'
    return chr(byte) if plain else f"\\{byte:03o}"


def markdown(text: str) -> str:
    r"""The text in Markdown, in a cell of a table too: nothing in it is markup.

    >>> from phipsi.codegen.quoted_texts import markdown
    >>> print(markdown("left_arm <script> | [x](y)"))
    left_arm \<script\> \| \[x\](y)
    """
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", plain)


def xml_text(text: str) -> str:
    r"""The text with characters that every reader of XML accepts; `quoteattr` does the rest.

    >>> from phipsi.codegen.quoted_texts import xml_text
    >>> xml_text("a\x01b")
    'a?b'
    """
    return "".join(c if c.isprintable() else "?" for c in text)
