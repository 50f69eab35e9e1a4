"""Docstrings of public names have NumPy's sections, and name the parameters of the signature.

    python scripts/docstrings.py                 every public name; part of make lint
    python scripts/docstrings.py simulation      names defined in one room, `core/model` too

A docstring begins with a sentence, then text, then sections with underlined titles. The checks are
those of numpydoc: parameters are listed, in the order of the signature, each with a type and a
description; sections have known titles, in NumPy's order. Exceptions, and methods that one
paragraph explains, need no sections.
`sections` takes a docstring apart; the documentation site is written with it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "site"))

# What of numpydoc's checks holds here; the others are about style that our pages do not need.
CODES = {
    "GL03": "two blank lines in a row",
    "GL06": "a section with an unknown title",
    "GL07": "sections in another order than NumPy's",
    "GL08": "no docstring",
    "SS01": "no sentence at the beginning",
    "SS03": "the first sentence does not end with a period",
    "SS06": "the first sentence takes more than one line",
    "PR01": "a parameter is not documented",
    "PR02": "a parameter is documented that is not in the signature",
    "PR03": "parameters in another order than in the signature",
    "PR04": "a parameter without a type",
    "PR07": "a parameter without a description",
    "PR10": "no space before the colon of a parameter",
    "RT03": "what is returned is not described",
}
LISTS = {"Parameters", "Other Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns"}
_TITLE = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n(?P<line>-{3,})$", re.MULTILINE)


def sections(doc: str) -> Iterator[tuple[str, str]]:
    """The parts of a docstring: first ("", text before the sections), then (title, text)."""
    begun, title = 0, ""
    for found in _TITLE.finditer(doc):
        yield title, doc[begun : found.start()].strip("\n")
        begun, title = found.end() + 1, found["title"]
    yield title, doc[begun:].strip("\n")


def entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, type and description of the entries of a section of the kind "Parameters"."""
    for entry in re.split(r"\n(?=\S)", text.strip("\n")):
        head, _, body = entry.partition("\n")
        name, _, kind = head.partition(" : ")
        yield name.strip(), kind.strip(), inspect.cleandoc(f"\n{body}")


def faults(room: str = "") -> Iterator[str]:
    """A line for each fault of a docstring of a public name."""
    import reference
    from numpydoc.validate import validate

    for _, _, names in reference.topics():
        for name, value in names:
            if inspect.ismodule(value) or not _is_in(room, value):
                continue
            whole = reference.import_path(name, value)
            paths = {whole: isinstance(value, type) and issubclass(value, Exception)}
            if isinstance(value, type):
                members = reference.class_members(value)
                paths |= {f"{whole}.{inner}": _is_one_paragraph(one) for inner, one in members}
            for path, takes_none in paths.items():
                for code, message in validate(path)["errors"]:
                    if code in CODES and not (takes_none and code.startswith("PR")):
                        yield f"{path}: {code} {message}"


def _is_in(room: str, value: object) -> bool:
    home = getattr(value, "__module__", "")
    return not room or f"{home}.".startswith(f"phipsi.{room.replace('/', '.')}.")


def _is_one_paragraph(member: object) -> bool:
    """Whether a method is explained in one paragraph, which may name its parameters."""
    return "\n\n" not in (inspect.getdoc(member) or "").partition("\n\n>>>")[0]


def main() -> int:
    """Print the faults; the status is 1 if there are any."""
    found = [line for room in sys.argv[1:] or [""] for line in faults(room)]
    print("\n".join(found) or "docstrings: parameters and signatures agree")
    if found:
        print(f"{len(found)} faults; each code is explained in scripts/docstrings.py")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
