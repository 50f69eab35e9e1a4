"""On which line of a TOML file everything stands, which the standard library's reader does not say.

The text has been read by `tomllib` before, so it is known to be well formed, and all that is left
is to follow it: keys, table headers, strings of four kinds, arrays and inline tables.
"""

from __future__ import annotations

import bisect
import re
import tomllib
from typing import Final, final

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
