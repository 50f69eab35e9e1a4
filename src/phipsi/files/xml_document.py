"""XML as a tree of elements that know their line, read by the standard library's expat.

No document type, no entities, no other encodings, limits on size, depth and number of elements: a
file that needs any of them is not a robot.
"""

from __future__ import annotations

import difflib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, final

from phipsi.errors import FileError
from phipsi.files.files import MAX_BYTES

MAX_DEPTH = 100
MAX_ELEMENTS = 200_000
MAX_TEXT = 200_000
MAX_TAG = 200  # characters of the names of elements and attributes
MAX_NAME = 10_000  # characters of name="…"
MAX_ATTRIBUTE = 5_000_000
# Larger numbers cannot be lengths or masses, and their products would not be numbers any more.
MAX_NUMBER = 1e60
_ENCODINGS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "ascii",
    "ascii": "ascii",
    "iso-8859-1": "latin-1",
    "latin1": "latin-1",
    "latin-1": "latin-1",
}
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([^"'>]{0,40})["']""")
# No run of digits can be split in two ways, or a long word would take quadratic time.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_MAX_DIGITS = 1000
_SHOWN = 60
_LONG_TAG, _COMPARED_TAGS = 40, 500
_MISSPELT = 0.8  # similarity; extensions such as <collision_checking> are further from any element


class NamedValues(ABC):
    """Values by name: those that an element has as attributes, or as texts of its children."""

    __slots__ = ()
    may_be_infinite = False  # whether limits are written as inf

    @abstractmethod
    def find(self, name: str, who: str | None) -> tuple[str, XMLElement, str] | None:
        """The text, the element it is in, and what it is called; None if there is none."""

    @abstractmethod
    def lacks(self, name: str, who: str) -> FileError:
        """Return a complaint about a value that is missing."""

    def string(self, name: str, who: str | None = None) -> str:
        """The text itself, "" if there is none."""
        found = self.find(name, who)
        return found[0].strip() if found else ""

    def flag(self, name: str, default: bool = False) -> bool:
        """Whether it says true or 1."""
        text = self.string(name).lower()
        return text in ("true", "1") if text else default

    def number(
        self, name: str, who: str, default: float | None = None, bound: float = MAX_NUMBER
    ) -> float:
        """A number; an error without a default if it is missing."""
        found = self.find(name, who)
        if found is not None:
            return parse_number(*found, who, bound)
        if default is None:
            raise self.lacks(name, who)
        return default

    def limit(self, name: str, who: str, default: float, unlimited: float) -> float:
        """A number that may be infinite, as those from `unlimited` on are."""
        found = self.find(name, who)
        text = found[0].strip().lower() if found else ""
        if self.may_be_infinite and text in ("inf", "+inf", "-inf"):
            return float(text)
        value = self.number(name, who, default, math.inf)
        return value if abs(value) < unlimited else math.copysign(math.inf, value)

    def vector(
        self, name: str, size: int, who: str, default: tuple[float, ...] | None = None
    ) -> tuple[float, ...]:
        """`size` numbers separated by spaces."""
        found = self.find(name, who)
        if found is not None:
            return parse_vector(found[0], size, *found[1:], who)
        if default is None:
            raise self.lacks(name, who)
        return default


@final
class XMLElement(NamedValues):
    """One element: its tag, attributes, children, text and the line it starts on."""

    __slots__ = ("tag", "attributes", "children", "text", "line", "file")

    def __init__(self, file: str, tag: str, attributes: dict[str, str], line: int) -> None:
        self.file, self.tag, self.attributes, self.line = file, tag, attributes, line
        self.children: list[XMLElement] = []
        self.text = ""

    def find(self, name: str, who: str | None) -> tuple[str, XMLElement, str] | None:
        """The text of an attribute."""
        text = self.attributes.get(name)
        return None if text is None else (text, self, f"{self.tag} {name}")

    def lacks(self, name: str, who: str) -> FileError:
        """Return a complaint about an attribute that is missing."""
        return self.error(f'<{self.tag}> lacks {name}="…".', who)

    @property
    def texts(self) -> Texts:
        """The texts of its children, by their tags."""
        return Texts(self)

    @property
    def name(self) -> str:
        """The attribute `name`, or the empty string."""
        return self.attributes.get("name", "")

    @property
    def label(self) -> str:
        """How messages call it: link 'hand', or <origin> if it has no name."""
        tag = self.tag[:_SHOWN]
        return f"{tag} {shortened(self.name)}" if self.name else f"<{tag}>"

    def error(self, reason: str, who: str | None = None) -> FileError:
        """Return a complaint about this element, to be raised."""
        return FileError(self.file, self.line, self.label if who is None else who, reason)

    def all(self, tag: str) -> Iterator[XMLElement]:
        """Children with this tag."""
        return (child for child in self.children if child.tag == tag)

    def only(self, tag: str, who: str | None = None) -> XMLElement | None:
        """The child with this tag, None if there is none; two are an error."""
        found = list(self.all(tag))
        if len(found) > 1:
            raise found[1].error(
                f"there is a second <{tag}>; the first is on line {found[0].line}. Remove one.",
                who or self.label,
            )
        return found[0] if found else None

    def outermost(self, file_kind: str, *tags: str) -> XMLElement:
        """This element, which must be the outermost one of a file: it has one of the tags."""
        if self.tag not in tags:
            tag = shortened(self.tag)[1:-1]
            raise self.error(
                f"the outermost element is <{tag}>, but that of {file_kind} is <{tags[0]}>."
            )
        return self

    def required_name(self) -> str:
        """The attribute `name`, which must be there."""
        name = self.attributes.get("name")
        if name is None or not name.strip():
            raise self.error(f'it has no name. Write <{self.tag} name="…">.')
        return name


@final
class Texts(NamedValues):
    """The texts of an element's children, by their tags."""

    __slots__ = ("element",)
    may_be_infinite = True

    def __init__(self, element: XMLElement) -> None:
        self.element = element

    def find(self, name: str, who: str | None) -> tuple[str, XMLElement, str] | None:
        """The text of a child."""
        at = self.element.only(name, who)
        return None if at is None else (at.text, at, name)

    def lacks(self, name: str, who: str) -> FileError:
        """Return a complaint about a child that is missing."""
        return self.element.error(f"<{self.element.tag}> lacks <{name}>.", who)


def parse_vector(text: str, size: int, at: XMLElement, what: str, who: str) -> tuple[float, ...]:
    """`size` numbers separated by spaces."""
    words = text.split(None, size + 10)
    if len(words) != size:
        comma = " Separate numbers by spaces, not commas." if "," in text else ""
        count = len(words) if len(words) <= size + 10 else f"more than {size + 10}"
        raise at.error(
            f"{what}={shortened(text)} must be {size} numbers, but it has {count}.{comma}", who
        )
    return tuple(parse_number(word, at, what, who) for word in words)


def parse_number(
    text: str, at: XMLElement, what: str, who: str, bound: float = MAX_NUMBER
) -> float:
    """One finite decimal number, with a point and no unit."""
    word = text.strip()
    if len(word) > _MAX_DIGITS:
        raise at.error(
            f"{what}={shortened(text)} has {len(word):,} characters; no number does.", who
        )
    if not _NUMBER.fullmatch(word):
        hint = ""
        if "," in word:
            hint = f" Use a decimal point: {shortened(word.replace(',', '.'))}."
        elif word.lower().lstrip("+-") in ("nan", "inf", "infinity"):
            hint = " It must be finite; leave out what is not known or not bounded."
        elif "$" in word:
            hint = " It looks like a xacro expression; run xacro first."
        raise at.error(f"{what}={shortened(text)} is not a number.{hint}", who)
    value = float(word)
    if not math.isfinite(value):
        raise at.error(f"{what}={shortened(text)} is too large for a floating-point number.", who)
    if abs(value) > bound:
        raise at.error(
            f"{what}={shortened(text)} is not a physical size; more than {bound:g} overflows.", who
        )
    return value


def shortened(text: str) -> str:
    """The text in quotes, cut if it is long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


@final
class TypoDetector:
    """Finds elements of one file that look like typing errors.

    Each tag is compared once, and only so many: comparing is slow, and a file with hundreds of
    unknown tags is written in another language.
    """

    def __init__(self) -> None:
        self.meant: dict[tuple[str, tuple[str, ...]], str] = {}

    def notes(
        self, element: XMLElement, known: tuple[str, ...]
    ) -> Iterator[tuple[XMLElement, str]]:
        """Children whose tag is close to a known one but is not it, and what to say of them."""
        for child in element.children:
            if child.tag not in known and (meant := self._meant(child.tag, known)):
                hint = f"Did you mean <{meant}>?"
                yield child, f"<{child.tag}> means nothing here and is ignored. {hint}"

    def _meant(self, tag: str, known: tuple[str, ...]) -> str:
        key = (tag, known)
        if key not in self.meant:
            if len(tag) >= _LONG_TAG or len(self.meant) >= _COMPARED_TAGS:
                return ""
            close = difflib.get_close_matches(tag, known, n=1, cutoff=_MISSPELT)
            self.meant[key] = close[0] if close else ""
        return self.meant[key]


# ---- reading ------------------------------------------------------------------------------------


@final
class InclusionTotals:
    """Bytes and elements of all files that one file includes, which have the limits of one."""

    def __init__(self) -> None:
        self.bytes = self.elements = 0

    def add(self, data: bytes, at: XMLElement) -> bytes:
        """The data of a file that the element `at` names."""
        self.bytes += len(data)
        self.elements += data.count(b"<") - data.count(b"</")
        if self.bytes > MAX_BYTES or self.elements > MAX_ELEMENTS:
            raise at.error(
                f"the files that are included up to here have more than {MAX_BYTES:,} bytes or "
                f"{MAX_ELEMENTS:,} elements together."
            )
        return data


def parse_xml(data: bytes, file: str, *, reject_xacro: bool = False) -> XMLElement:
    """Return the root element of an XML document, or raise a FileError with the line."""
    text = decoded(data, file)
    if text.count(b"<") - text.count(b"</") > MAX_ELEMENTS:
        raise FileError(file, 1, "", f"has more than {MAX_ELEMENTS:,} elements.")
    return _TreeBuilder(file, reject_xacro).build(text)


def decoded(data: bytes, file: str) -> bytes:
    """The document as UTF-8 without byte order mark, whatever its declaration says."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or data[:4].count(b"\0") >= 2:
        raise FileError(
            file,
            1,
            "",
            "is written in UTF-16 or UTF-32. Save it as UTF-8:\n"
            f"    iconv -f UTF-16 -t UTF-8 {file} > utf8.xml",
        )
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise FileError(file, line, "", "contains a NUL byte, so it is not a text file.")
    if not data.strip():
        raise FileError(file, 1, "", "is empty. Robot files start with <robot>, <sdf> or <mujoco>.")
    declared = _DECLARED.match(data.lstrip())
    name = declared.group(1).decode("ascii", "replace").lower() if declared else "utf-8"
    if name not in _ENCODINGS:
        raise FileError(
            file,
            1,
            "",
            f"declares the encoding {shortened(name)}. Save it as UTF-8 and write\n"
            '    <?xml version="1.0" encoding="utf-8"?>',
        )
    try:
        return data.decode(_ENCODINGS[name]).encode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileError(file, line, "", f"is not valid {name}: {error.reason}.") from error


@final
class _TreeBuilder:
    """Collects elements while expat reads."""

    def __init__(self, file: str, reject_xacro: bool) -> None:
        self.file, self.reject_xacro = file, reject_xacro
        self.stack: list[XMLElement] = []
        self.pieces: list[list[str]] = []  # of the text of each element in the stack,
        self.lengths: list[int] = []  # and how long they are together
        self.root: XMLElement | None = None

    def build(self, data: bytes) -> XMLElement:
        from xml.parsers import expat

        self.parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.characters
        parser.StartDoctypeDeclHandler = self.doctype
        parser.EntityDeclHandler = self.entity
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            where = (
                f" Open elements: {' > '.join(e.label for e in self.stack[-4:])}."
                if self.stack
                else ""
            )
            reason = expat.ErrorString(error.code) if error.code else str(error)
            raise FileError(
                self.file, error.lineno, "", f"is not well-formed XML: {reason}.{where}"
            ) from error
        assert self.root is not None
        return self.root

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        if len(self.stack) >= MAX_DEPTH:
            raise FileError(
                self.file, line, f"<{tag[:_SHOWN]}>", f"is nested deeper than {MAX_DEPTH} levels."
            )
        element = XMLElement(self.file, tag, attributes, line)
        self.check_lengths(element)
        if self.reject_xacro:
            self.check_xacro(element)
        if self.stack:
            self.stack[-1].children.append(element)
        else:
            self.root = element
        self.stack.append(element)
        self.pieces.append([])
        self.lengths.append(0)

    def end(self, tag: str) -> None:
        self.stack.pop().text = "".join(self.pieces.pop())
        self.lengths.pop()

    def characters(self, text: str) -> None:
        if text.isspace():
            return
        self.lengths[-1] += len(text)
        if self.lengths[-1] > MAX_TEXT:
            raise self.stack[-1].error(f"its text has more than {MAX_TEXT:,} characters.")
        self.pieces[-1].append(text)

    def check_lengths(self, element: XMLElement) -> None:
        if len(element.tag) > MAX_TAG:
            raise element.error(f"its tag has {len(element.tag):,} characters.")
        for attribute, value in element.attributes.items():
            longest = MAX_NAME if attribute == "name" else MAX_ATTRIBUTE
            if len(attribute) > MAX_TAG or len(value) > longest:
                raise element.error(
                    f"the attribute {shortened(attribute)} has {len(value):,} characters, more "
                    f"than the {longest:,} that are read."
                    if len(attribute) <= MAX_TAG
                    else f"the name of an attribute has {len(attribute):,} characters."
                )

    def doctype(self, name: str, *_: Any) -> None:
        raise FileError(
            self.file,
            self.parser.CurrentLineNumber,
            f"<!DOCTYPE {name[:_SHOWN]}>",
            "document types and entities are not read, because they can refer to other files. "
            "Robot files need none: delete the line.",
        )

    def entity(self, name: str, *_: Any) -> None:
        self.doctype(name)

    def check_xacro(self, element: XMLElement) -> None:
        values = element.attributes.values()
        if element.tag.startswith("xacro:") or any("${" in v or "$(" in v for v in values):
            raise element.error(
                "this is a xacro file, a program that writes a URDF. Run it first, and load "
                "what it writes:\n"
                f"    pip install xacro && xacro {self.file} > robot.urdf"
            )
