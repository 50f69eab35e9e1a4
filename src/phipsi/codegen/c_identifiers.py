"""Names of exported functions and arrays: identifiers of C, C++, Rust and JavaScript."""

from __future__ import annotations

import re
from typing import Any

from phipsi.codegen.quoted_texts import comment
from phipsi.errors import InputError

_KEYWORDS = {
    "C or C++": """
        alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
        char32_t char8_t class co_await co_return co_yield compl concept const const_cast
        consteval constexpr constinit continue decltype default delete do double dynamic_cast else
        enum explicit export extern false float for friend goto if inline int linux long main
        mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
        public register reinterpret_cast requires restrict return short signed sizeof static
        static_assert static_cast std struct switch template this thread_local throw true try
        typedef typeid typename union unix unsigned using virtual void volatile wchar_t while xor
        xor_eq""",
    "Rust": """
        abstract as async await become box crate dyn final fn gen impl in let loop macro match mod
        move mut override priv pub ref self Self super trait type typeof unsafe unsized use where
        yield""",
    "JavaScript": """
        arguments debugger eval extends finally function implements import instanceof interface
        null package undefined var with""",
}
_WORDS = {word: language for language, words in _KEYWORDS.items() for word in words.split()}
"""Words of C, C++, Rust and JavaScript, and names that some compilers define."""
OWN_NAMES = frozenset({"n", "status", "work", "Work", "Status", "Ok", "Err", "NQ", "NV"})
"""Names that the functions around exported code have beside their arrays."""

LONGEST = 63  # characters that C99 compilers tell apart


def identifier(name: str) -> str:
    """A name as close to this one as C, C++ and Rust allow."""
    out = re.sub(r"\W+", "_", comment(name).replace("?", "_")).strip("_") or "x"
    out = f"_{out}" if out[0].isdigit() else out
    return f"{out}_" if out in _WORDS else out


def free_name(name: str, taken: set[str]) -> str:
    """The name, with underscores behind it if it is taken; then it is."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def numbered_name(name: str, taken: set[str]) -> str:
    """The name, with a number behind it if it is taken; then it is."""
    found, i = name, 1
    while found in taken:
        i += 1
        found = f"{name}{i}"
    taken.add(found)
    return found


def checked_identifier(what: str, name: Any) -> str:
    """A name that the user chose: it must be an identifier already."""
    if not isinstance(name, str):
        raise InputError(f"{what}={name!r} must be a C identifier (str), such as 'robot'")
    if len(name) > LONGEST:
        raise InputError(
            f"{what}={name[:20] + '…'!r} has {len(name)} characters; C compilers distinguish "
            f"names by their first {LONGEST}. Shorten it, for example  {what}={name[:20]!r}"
        )
    close = identifier(name)
    close = f"x{close}" if close.startswith("_") else close
    if name in _WORDS:
        raise InputError(
            f"{what}={name!r} is a reserved word of {_WORDS[name]}, and generated code is "
            f"called from C, C++, Rust and JavaScript. For example  {what}={close!r}"
        )
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        raise InputError(
            f"{what}={name!r} is not a C identifier: letters, digits and underscores, beginning "
            f"with a letter. For example  {what}={close!r}"
        )
    return name
