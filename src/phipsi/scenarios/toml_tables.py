"""Tables of a scenario, read with checks: wrong keys and values are reported by file and line."""

from __future__ import annotations

import bisect
import functools
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn, final

from phipsi.errors import FileError, InputError, PhipsiError, did_you_mean, shown
from phipsi.files import parsed_number, read_bytes

MAX_BYTES = 1_000_000
_AT_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)")
# a key of more than fifty parts: a.b.c…
_DEEP = re.compile(r"""(?<![\w"'.-])(?:(?:"[^"\n]*"|'[^'\n]*'|[\w-]++)[ \t]*+\.[ \t]*+){50}""")
_DIGITS = re.compile(r"[0-9_]{4000}")


def read_toml(file: str) -> TomlTable:
    """The whole file as a table, or a FileError that says on which line it is not TOML."""
    data = read_bytes(file, MAX_BYTES)
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileError(file, line, "", "is not UTF-8 text, which TOML files are.") from None
    deep = _DEEP.search(text)
    if deep:  # each dot is a table, and the reader's work grows with the square of their number
        line = text.count("\n", 0, deep.start()) + 1
        raise FileError(file, line, "", "is nested too deeply to be a scenario.")
    try:
        parsed = tomllib.loads(text)
        lines = lines_of(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = int(found[1]) if found and found[1] else text.rstrip("\n").count("\n") + 1
        reason = _AT_LINE.sub("", str(error))
        raise FileError(file, line, "", f"is not TOML: {reason[:1].lower()}{reason[1:]}.") from None
    except ValueError as error:  # an integer of thousands of digits
        line = _line_of_digits(text)
        raise FileError(file, line, "", f"has a number that cannot be read: {error}.") from None
    except RecursionError:
        raise FileError(file, 1, "", "is nested too deeply to be a scenario.") from None
    return TomlTable(file, lines, (), parsed, "")


@final
class TomlTable:
    """A table of the file: its values by key, each checked when it is read."""

    def __init__(
        self, file: str, lines: dict[Path, int], path: Path, data: dict[str, Any], name: str
    ) -> None:
        self.file, self.lines, self.path, self.data, self.name = file, lines, path, data, name

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def line(self, *keys: str | int) -> int:
        """Of a key, or of the table."""
        path = (*self.path, *keys)
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def reject(self, keys: str | Sequence[str | int], reason: str) -> NoReturn:
        """Raise a FileError at a key (or at the keys that lead to it)."""
        where = (keys,) if isinstance(keys, str) and keys else tuple(keys)
        raise FileError(self.file, self.line(*where), self.name, reason)

    @contextmanager
    def attributed_to(self) -> Iterator[None]:
        """Report errors of the library at the key they are about, if they name one."""
        try:
            yield
        except PhipsiError as error:
            if getattr(error, "file", None) == self.file:
                raise
            text = f" {error} "
            keys = [key for key in self.data if key != "type"]
            named = [key for key in keys if text.startswith((f" {key} ", f" {key}="))]
            named += [key for key in keys if f" {key} " in text]
            named += [key for key in keys if key == "joints" and "joint" in text]
            self.reject(named[0] if named else "", str(error))

    def read(self, keys: str) -> dict[str, Any]:
        """The values of the keys, without those that are left out; there may be no others.

        Keys are written ``key: kind = example``, with ``;`` between them; a kind is one of `KINDS`
        or words with ``|`` between them, and those that end in ``?`` may be left out.
        """
        kinds = {key.strip(): kind for key, _, kind in (x.partition(":") for x in keys.split(";"))}
        for key in self.data:
            if key not in kinds:
                self.reject(key, f"unknown key {key!r}. {did_you_mean(key, kinds)}")
        found: dict[str, Any] = {}
        for key, text in kinds.items():
            name, _, example = map(str.strip, text.partition("="))
            kind = name.removesuffix("?")
            read, usual = KINDS["text" if "|" in kind else kind]
            if "|" in kind and (key in self.data or kind == name):
                found[key] = self.choice(key, kind.split("|"))
            elif key in self.data:
                found[key] = read(self, key, example or usual)
            elif kind == name:
                self.missing(key, example or usual)
        return found

    def choice(self, key: str, words: Iterable[str]) -> str:
        """One of some words."""
        known = list(words)
        if key not in self.data:
            self.missing(key, f'"{known[0]}"')
        value = KINDS["text"][0](self, key, f'"{known[0]}"')
        if value not in known:
            listed = ", ".join(f'"{word}"' for word in known)
            hint = did_you_mean(value, known)
            hint = f" {hint}" if hint.startswith("Did") else ""
            self.reject(key, f"{key} = {_shown(value)} is not one of {listed}.{hint}")
        return value

    def by_joint(self, key: str) -> dict[str, list[float]]:
        """Coordinates or rates by joint name: a number, a list of them, or text like "30deg"."""
        table = self.table(key)
        if table is None:
            return {}
        out: dict[str, list[float]] = {}
        for joint, value in table.data.items():
            values = value if isinstance(value, list) else [value]
            if not all(_is_number(x) or isinstance(x, str) for x in values) or not values:
                table.reject(
                    joint,
                    (
                        f"{shown(joint)} = {_shown(value)} must be a number in rad or m, a list "
                        "with "
                        'one per coordinate, or a string such as "30deg".'
                    ),
                )
            try:
                out[joint] = [
                    parsed_number(x, f"{shown(joint)} =", x) if isinstance(x, str) else float(x)
                    for x in values
                ]
            except InputError as error:
                table.reject(joint, str(error))
        return out

    def table(self, key: str) -> TomlTable | None:
        """A table by its key, or None."""
        if key not in self.data:
            return None
        value = self.data[key]
        if not isinstance(value, dict):
            self.wrong(key, f"a table: [{key}], or {key} = {{ … }}")
        return self._inner(value, key, key)

    def tables(self, key: str) -> list[TomlTable]:
        """An array of tables, empty if it is missing."""
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(x, dict) for x in value):
            self.wrong(key, f"tables: write  [[{key}]]  above each, not [{key}]")
        return [self._inner(one, f"{key} no. {i + 1}", key, i) for i, one in enumerate(value)]

    def _inner(self, data: dict[str, Any], name: str, *path: str | int) -> TomlTable:
        name = f"{self.name}.{name}" if self.name else name
        return TomlTable(self.file, self.lines, (*self.path, *path), data, name)

    def missing(self, key: str, example: str) -> NoReturn:
        """Reject the table because it lacks a key."""
        self.reject("", f"{key!r} is missing. For example:  {key} = {example}")

    def wrong(self, key: str, wanted: str) -> NoReturn:
        """Reject the value of a key."""
        self.reject(key, f"{key} = {_shown(self.data[key])} must be {wanted}.")


# ---- kinds of values ----------------------------------------------------------------------------

Reader = Callable[
    [TomlTable, str, str], Any
]  # the value of a key, rejected if it is not of the kind
KINDS: dict[str, tuple[Reader, str]] = {}  # with an example


def kind(name: str, example: str) -> Callable[[Reader], Reader]:
    """Decorate the reader of a kind of values."""

    def add(read: Reader) -> Reader:
        KINDS[name] = (read, example)
        return read

    return add


def _plain(
    name: str, example: str, wanted: str, fits: Callable[[Any], bool], convert: Any = lambda x: x
) -> None:
    """A kind of values that is described, checked and converted."""

    @kind(name, example)
    def read(table: TomlTable, key: str, example: str) -> Any:
        value = table.data[key]
        if not fits(value):
            table.wrong(key, wanted.format(example))
        return convert(value)


def _is_number(x: Any) -> bool:
    if isinstance(x, bool) or not isinstance(x, int | float):
        return False
    try:
        return math.isfinite(x)
    except OverflowError:  # an integer beyond all floating-point ones
        return False


def are_numbers(x: Any, size: int | None = None) -> bool:
    """Whether it is a list of finite numbers, of which there are `size`."""
    return isinstance(x, list) and all(map(_is_number, x)) and size in (None, len(x))


def _floats(x: Any) -> Any:
    return [float(each) for each in x] if isinstance(x, list) else float(x)


def _are_names(x: Any) -> bool:
    return all(isinstance(name, str) for name in (x if isinstance(x, list) else [x]))


KINDS["raw"] = (lambda table, key, example: table.data[key], "…")  # to be read later
_plain("text", '"…"', "a string in quotes, such as {}", lambda x: isinstance(x, str))
_plain("flag", "true", "true or false, without quotes", lambda x: isinstance(x, bool))
_plain("number", "1.0", "a finite number, such as {}", _is_number, float)
_plain("positive", "1.0", "a positive number, such as {}", lambda x: _is_number(x) and x > 0, float)
_plain(
    "gains",
    "100.0",
    "a finite number, such as {}, or a list of them in brackets",
    lambda x: _is_number(x) or are_numbers(x),
    _floats,
)
_plain(
    "stiffness",
    "1e4",
    "a number, such as {}, or inf for a rigid one",
    lambda x: x == math.inf or _is_number(x),
    float,
)
_plain(
    "stiffnesses",
    "1e4",
    "a number, such as {}, inf for a rigid one, or a list of finite ones in brackets",
    lambda x: x == math.inf or _is_number(x) or are_numbers(x),
    _floats,
)
_plain("numbers", "[0.0, 1.0]", "a list of finite numbers in brackets", are_numbers, _floats)
for _size in (3, 4, 6):
    _plain(
        f"{_size} numbers",
        str([0.0] * _size),
        f"{_size} finite numbers in brackets",
        functools.partial(are_numbers, size=_size),
        _floats,
    )
_plain(
    "names",
    '"elbow"',
    'a name or a list of names in quotes, such as ["shoulder", "elbow"]',
    _are_names,
)


def _line_of_digits(text: str) -> int:
    found = _DIGITS.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        text = f'"{shown(value, None)}"' if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or a deep nest
        return f"this {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "…"


# ---- lines, which tomllib does not report --------------------------------------------------------
#
# The text has been read by `tomllib` before, so it is known to be well formed, and all that is left
# is to follow it: keys, table headers, strings of four kinds, arrays and inline tables.


Path = tuple[str | int, ...]

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SPACE: Final = re.compile(r"[ \t]*")
# White space, line ends and comments, which arrays and the top level allow anywhere.
_GAP: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")
_LONG: Final = {
    '"""': re.compile(r'(?:\\.|[^\\])*?"{3,5}', re.DOTALL),
    "'''": re.compile(r".*?'{3,5}", re.DOTALL),
}
_SHORT: Final = {
    '"': re.compile(r'"(?:\\.|[^"\\])*"'),
    "'": re.compile(r"'[^']*'"),
}


def lines_of(text: str) -> dict[Path, int]:
    r"""The line, from 1, of every key, element and table, by its path in the parsed data.

    >>> lines_of('a = 1\n[b]\nc = [\n  {d = 2},\n]\n')[("b", "c", 0, "d")]
    4
    """
    return _Scanner(text).run()


@final
class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.ends = [m.start() for m in re.finditer("\n", text)]
        self.lines: dict[Path, int] = {}
        self.counts: dict[Path, int] = {}  # elements so far of arrays of tables

    def run(self) -> dict[Path, int]:
        table: Path = ()
        self._skip(_GAP)
        while self.at < len(self.text):
            if self.text.startswith("[[", self.at):
                table = self._array_header()
            elif self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_GAP)
        return self.lines

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        assert found is not None, f"the text is not TOML at {self.text[self.at : self.at + 20]!r}"
        self.at = found.end()

    def _note(self, path: Path) -> None:
        self.lines.setdefault(path, bisect.bisect_left(self.ends, self.at) + 1)

    def _header(self) -> Path:
        start, self.at = self.at, self.at + 1
        path: Path = ()
        for key in self._key():
            path = self._inside((*path, key))
            self._note_at(path, start)
        self.at += 1  # ]
        return path

    def _array_header(self) -> Path:
        start, self.at = self.at, self.at + 2
        *outer, last = self._key()
        path: Path = ()
        for key in outer:
            path = self._inside((*path, key))
            self._note_at(path, start)
        array = (*path, last)
        self._note_at(array, start)
        index = self.counts.get(array, 0)
        self.counts[array] = index + 1
        self._note_at((*array, index), start)
        self.at += 2  # ]]
        return (*array, index)

    def _inside(self, path: Path) -> Path:
        """A key that names an array of tables means its last element."""
        return (*path, self.counts[path] - 1) if path in self.counts else path

    def _note_at(self, path: Path, start: int) -> None:
        now, self.at = self.at, start
        self._note(path)
        self.at = now

    def _key(self) -> list[str]:
        """The parts of a dotted key."""
        parts = []
        while True:
            self._skip(_SPACE)
            first = self.text[self.at]
            start = self.at
            if first in _SHORT:
                self._skip(_SHORT[first])
                parts.append(tomllib.loads(f"x = {self.text[start : self.at]}")["x"])
            else:
                self._skip(_BARE)
                parts.append(self.text[start : self.at])
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def _pair(self, table: Path) -> None:
        start = self.at
        path = table
        for key in self._key():
            path = (*path, key)
            self._note_at(path, start)
        self.at += 1  # =
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: Path) -> None:
        for quotes, rest in _LONG.items():
            if self.text.startswith(quotes, self.at):
                self.at += 3
                self._skip(rest)
                return
        first = self.text[self.at]
        if first in _SHORT:
            self._skip(_SHORT[first])
        elif first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        else:
            self._skip(_SCALAR)

    def _array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while not self._closed("]"):
            self._note((*path, index))
            self._value((*path, index))
            index += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while not self._closed("}"):
            self._pair(path)

    def _closed(self, bracket: str) -> bool:
        """Step over a comma, and over the closing bracket if it is there."""
        self._skip(_GAP)
        if self.text.startswith(",", self.at):
            self.at += 1
            self._skip(_GAP)
        if not self.text.startswith(bracket, self.at):
            return False
        self.at += 1
        return True
