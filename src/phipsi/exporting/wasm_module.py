"""A WebAssembly object of LLVM as a module that runs, without a linker.

LLVM writes an object as if its data began at address 0 and its functions were the only ones, so all
relocations are already right for a module that consists of one object. Left to do: the memory and
the stack pointer, which an object imports, become the module's own, and functions are exported by
name. This holds as long as the object calls no function of others, which is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from phipsi.errors import InputError

PAGE = 65536
STACK = 8192  # bytes; code keeps addresses and a status there, numbers are in work memory
_HEAD = b"\0asm\1\0\0\0"
_TYPE, _IMPORT, _FUNCTION, _MEMORY, _GLOBAL, _EXPORT, _CODE, _DATA, _COUNT = (
    1, 2, 3, 5, 6, 7, 10, 11, 12,
)  # fmt: skip
_ORDER = (_TYPE, _FUNCTION, _MEMORY, _GLOBAL, _EXPORT, _COUNT, _CODE, _DATA)
_PIECE = re.compile(rb"[^\0](?:\0{0,7}[^\0])*", re.DOTALL)  # a segment takes up to eight bytes
_IN_FUNCTION, _IN_TABLE, _IN_MEMORY, _IN_GLOBAL = range(4)  # kinds of imports


@dataclass(frozen=True)
class WasmModule:
    """The module, and the address from which its memory is the caller's."""

    binary: bytes
    heap: int


def wasm_module(binary: bytes, heap_bytes: int) -> WasmModule:
    """Finish an object; its memory has room for `heap_bytes` of the caller's."""
    parts: dict[int, bytes] = {}
    functions: dict[str, int] = {}
    places: dict[int, bool] = {}
    r = _Reader(binary)
    if r.take(len(_HEAD)) != _HEAD:
        raise InputError("this is not a WebAssembly object")
    while not r.done:
        kind = r.byte()
        content = r.take(r.number())
        if kind:
            parts[kind] = content
        else:
            custom = _Reader(content)
            name = custom.name()
            if name == "linking":
                functions = _functions(custom)
            elif name == "reloc.CODE":
                places = _places(custom)
    _check_imports(_Reader(parts.pop(_IMPORT, b"\0")))
    unknown = set(parts) - set(_ORDER)
    assert not unknown, f"sections {unknown}"
    data = list(_segments(_Reader(parts.get(_DATA, b"\0"))))
    top = -(-(max((start + len(x) for start, x in data), default=0) + STACK) // 16) * 16
    pages = -(-(top + heap_bytes) // PAGE)
    parts[_CODE] = _shortened(parts[_CODE], places)
    kept = [piece for start, x in data for piece in _pieces(start, x)]
    parts.pop(_COUNT, None)  # only instructions on segments need it
    parts[_DATA] = _leb(len(kept)) + b"".join(
        b"\0\x41" + _signed_leb(start) + b"\x0b" + _leb(len(x)) + x for start, x in kept
    )
    exports = [("memory", _IN_MEMORY, 0), *((n, _IN_FUNCTION, i) for n, i in functions.items())]
    parts[_MEMORY] = _leb(1) + b"\0" + _leb(pages)
    parts[_GLOBAL] = _leb(1) + b"\x7f\x01\x41" + _signed_leb(top) + b"\x0b"  # the stack pointer
    parts[_EXPORT] = _leb(len(exports)) + b"".join(
        _text(name) + bytes([kind]) + _leb(i) for name, kind, i in exports
    )
    body = b"".join(bytes([k]) + _leb(len(parts[k])) + parts[k] for k in _ORDER if k in parts)
    return WasmModule(_HEAD + body, top)


def _check_imports(r: _Reader) -> None:
    """Memory, a table and the stack pointer are the module's own; nothing else may be imported."""
    for _ in range(r.number()):
        where, name, kind = r.name(), r.name(), r.byte()
        if kind == _IN_FUNCTION:
            raise InputError(f"the code needs {where}.{name}, a function of a library")
        if kind == _IN_GLOBAL:
            r.take(2)
            assert name == "__stack_pointer", name
        else:
            if kind == _IN_TABLE:
                r.byte()
            if r.number() & 1:  # with a largest size
                r.number()
            r.number()


def _functions(r: _Reader) -> dict[str, int]:
    """Numbers of the functions that others may call, by name."""
    out: dict[str, int] = {}
    version = r.number()
    assert version == 2, f"version {version} of the linking section"
    while not r.done:
        kind = r.byte()
        part = _Reader(r.take(r.number()))
        if kind != 8:  # the table of symbols
            continue
        for _ in range(part.number()):
            what, flags = part.byte(), part.number()
            undefined, named = flags & 0x10, flags & 0x40
            if what in (0, 2, 4, 5):  # functions, globals, tags, tables
                number = part.number()
                name = part.name() if not undefined or named else ""
                if what == 0 and not flags & 0x12:  # neither local nor undefined
                    out[name] = number
            elif what == 1:  # data
                part.name()
                if not undefined:
                    for _ in range(3):
                        part.number()
            else:
                part.number()
    return out


def _places(r: _Reader) -> dict[int, bool]:
    """Where the code has numbers that a linker could change, and whether they have a sign.

    They take five bytes each, so that any number fits.
    """
    r.number()  # of the section
    out: dict[int, bool] = {}
    for _ in range(r.number()):
        kind, place = r.byte(), r.number()
        r.number()  # of the symbol
        if kind in (3, 4, 5):  # addresses in memory have an offset
            r.number()
        assert kind in (0, 3, 4, 7), f"relocation {kind}"
        out[place] = kind == 4
    return out


def _shortened(code: bytes, places: dict[int, bool]) -> bytes:
    """The same code with these numbers in as few bytes as they need."""
    r = _Reader(code)
    bodies: list[bytes] = []
    for _ in range(r.number()):
        size = r.number()
        start, out = r.at, bytearray()
        body = r.take(size)
        done = 0
        for place in sorted(p for p in places if start <= p < start + size):
            out += body[done : place - start]
            value = _Reader(body[place - start :]).number()
            out += _signed_leb(_signed(value)) if places[place] else _leb(value)
            done = place - start + 5
        bodies.append(bytes(out) + body[done:])
    return _leb(len(bodies)) + b"".join(_leb(len(b)) + b for b in bodies)


def _signed(number: int) -> int:
    """A number of 32 bits with a sign: where an index is added, an address may be negative."""
    number &= 2**32 - 1
    return number - 2**32 if number >= 2**31 else number


def _segments(r: _Reader) -> Iterator[tuple[int, bytes]]:
    """Addresses and contents of all data."""
    for _ in range(r.number()):
        active = r.number() == 0 and r.byte() == 0x41  # at an address that is a constant
        assert active, "data without an address"
        start = r.number()  # signed, but never above 2^31
        r.byte()
        yield start, r.take(r.number())


def _pieces(start: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    """The data without long runs of zeros: memory is zero at first."""
    for found in _PIECE.finditer(data):
        yield start + found.start(), found[0]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    @property
    def done(self) -> bool:
        return self.at >= len(self._data)

    def take(self, count: int) -> bytes:
        self.at += count
        return self._data[self.at - count : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        out = shift = 0
        while True:
            byte = self.byte()
            out |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return out

    def name(self) -> str:
        return self.take(self.number()).decode()


def _leb(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def _signed_leb(n: int) -> bytes:
    out = bytearray()
    while not -64 <= n <= 63:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n & 127])


def _text(name: str) -> bytes:
    return _leb(len(name.encode())) + name.encode()
