"""Tables of a scenario, read with checks: wrong names and types are told by file and line."""

from __future__ import annotations

import bisect
import math
import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn, final

from phipsi.errors import FileError, InputError, did_you_mean, shown
from phipsi.interfaces.formats.files import read_bytes
from phipsi.interfaces.scenarios.joint_values import parsed_number

MAX_BYTES = 1_000_000
_AT_LINE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)")
# a key of more than fifty parts: a.b.c…
_DEEP = re.compile(r"""(?<![\w"'.-])(?:(?:"[^"\n]*"|'[^'\n]*'|[\w-]++)[ \t]*+\.[ \t]*+){50}""")
_DIGITS = re.compile(r"[0-9_]{4000}")
_REQUIRED: Any = object()


def read_toml(file: str) -> Table:
    """The whole file as a table, or a FileError that says on which line it is no TOML."""
    data = read_bytes(file, MAX_BYTES)
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileError(file, line, "", "is no UTF-8 text, which TOML files are.") from None
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
        raise FileError(file, line, "", f"is no TOML: {reason[:1].lower()}{reason[1:]}.") from None
    except ValueError as error:  # a whole number of thousands of digits
        line = _line_of_digits(text)
        raise FileError(file, line, "", f"has a number that cannot be read: {error}.") from None
    except RecursionError:
        raise FileError(file, 1, "", "is nested too deeply to be a scenario.") from None
    return Table(file, lines, (), parsed, "")


@final
class Table:
    """A table of the file: its values by key, each checked when it is asked for."""

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

    def refuse(self, keys: str | Sequence[str | int], reason: str) -> NoReturn:
        """Raise a FileError at a key (or at the keys that lead to it)."""
        where = (keys,) if isinstance(keys, str) and keys else tuple(keys)
        raise FileError(self.file, self.line(*where), self.name, reason)

    def only(self, *keys: str) -> None:
        """Refuse keys other than these."""
        for key in self.data:
            if key not in keys:
                self.refuse(key, f"{key!r} means nothing here. {did_you_mean(key, keys)}")

    def _get(self, key: str, default: Any, example: str) -> Any:
        if key in self.data:
            return self.data[key]
        if default is _REQUIRED:
            self.refuse("", f"{key!r} is missing. For example:  {key} = {example}")
        return default

    def _wrong(self, key: str, wanted: str) -> NoReturn:
        self.refuse(key, f"{key} = {_shown(self.data[key])} must be {wanted}.")

    # ---- values -------------------------------------------------------------------------------

    def text(self, key: str, default: Any = _REQUIRED, example: str = '"…"') -> Any:
        """A string."""
        value = self._get(key, default, example)
        if key in self.data and not isinstance(value, str):
            self._wrong(key, f"text in quotes, such as {example}")
        return value

    def choice(self, key: str, options: Iterable[str], default: Any = _REQUIRED) -> Any:
        """One of some words."""
        words = list(options)
        value = self.text(key, default, f'"{words[0]}"')
        if key in self.data and value not in words:
            listed = ", ".join(f'"{word}"' for word in words)
            hint = did_you_mean(value, words)
            hint = f" {hint}" if hint.startswith("Did") else ""
            self.refuse(key, f"{key} = {_shown(value)} is none of {listed}.{hint}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Either true or false."""
        value = self._get(key, default, "true")
        if not isinstance(value, bool):
            self._wrong(key, "true or false, without quotes")
        return value

    def number(
        self, key: str, default: Any = _REQUIRED, *, example: str = "1.0", positive: bool = False
    ) -> Any:
        """A finite number."""
        value = self._get(key, default, example)
        if key not in self.data:
            return value
        if not _is_number(value) or (positive and value <= 0):
            self._wrong(key, f"a {'positive' if positive else 'finite'} number, such as {example}")
        return float(value)

    def numbers(self, key: str, size: int | None = None, default: Any = _REQUIRED) -> Any:
        """A list of finite numbers."""
        example = str([0.0] * (size or 3))
        value = self._get(key, default, example)
        if key not in self.data:
            return value
        right = isinstance(value, list) and all(map(_is_number, value))
        if not right or (size is not None and len(value) != size):
            self._wrong(key, f"{'a list of' if size is None else size} finite numbers in brackets")
        return [float(x) for x in value]

    def rows(self, key: str, size: int, count: int) -> list[list[float]]:
        """A list of `count` lists of `size` numbers."""
        value = self._get(key, _REQUIRED, f"[{[0.0] * size}, …]")
        right = isinstance(value, list) and len(value) == count
        if not right or not all(
            isinstance(row, list) and len(row) == size and all(map(_is_number, row))
            for row in value
        ):
            self._wrong(key, f"{count} lists of {size} finite numbers")
        return [[float(x) for x in row] for row in value]

    def gains(self, key: str, default: Any = _REQUIRED) -> Any:
        """One number, or a list with one per rate."""
        value = self._get(key, default, "100.0")
        if key not in self.data:
            return value
        return self.numbers(key) if isinstance(value, list) else self.number(key)

    def names(self, key: str, default: Any = _REQUIRED) -> Any:
        """One name or a list of them."""
        value = self._get(key, default, '"elbow"')
        listed = value if isinstance(value, list) else [value]
        if key in self.data and not all(isinstance(name, str) for name in listed):
            self._wrong(key, 'a name or a list of names in quotes, such as ["shoulder", "elbow"]')
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
                table.refuse(
                    joint,
                    f"{shown(joint)} = {_shown(value)} must be a number in rad or m, a list with "
                    f'one per coordinate, or text such as "30deg".',
                )
            try:
                out[joint] = [
                    parsed_number(x, f"{shown(joint)} =", x) if isinstance(x, str) else float(x)
                    for x in values
                ]
            except InputError as error:
                table.refuse(joint, str(error))
        return out

    # ---- tables -------------------------------------------------------------------------------

    def table(self, key: str) -> Table | None:
        """A table by its key, or None."""
        if key not in self.data:
            return None
        value = self.data[key]
        if not isinstance(value, dict):
            self._wrong(key, f"a table: [{key}], or {key} = {{ … }}")
        name = f"{self.name}.{key}" if self.name else key
        return Table(self.file, self.lines, (*self.path, key), value, name)

    def tables(self, key: str) -> list[Table]:
        """An array of tables, empty if it is not there."""
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(x, dict) for x in value):
            self._wrong(key, f"tables: write  [[{key}]]  above each, not [{key}]")
        name = f"{self.name}.{key}" if self.name else key
        return [
            Table(self.file, self.lines, (*self.path, key, i), one, f"{name} no. {i + 1}")
            for i, one in enumerate(value)
        ]


def _line_of_digits(text: str) -> int:
    found = _DIGITS.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floating-point ones
        return False


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        text = f'"{shown(value, None)}"' if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or a deep nest
        return f"this {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "…"


# ---- lines, which tomllib does not tell ----------------------------------------------------------
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
        assert found is not None, f"the text is no TOML at {self.text[self.at : self.at + 20]!r}"
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
