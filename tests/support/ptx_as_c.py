"""PTX as C, one statement per instruction, so that kernels of a GPU run on this processor.

Registers are whole numbers of 64 bits, as in PTX without types; floating-point instructions with
`.rn` round once, and so do those of C. Threads run one after the other.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from exported_code import tool

_HEAD = """
#include <math.h>
#include <stdint.h>
#include <string.h>
static uint32_t thread, block, threads;
static double f64(uint64_t i) { double x; memcpy(&x, &i, 8); return x; }
static uint64_t of_f64(double x) { uint64_t i; memcpy(&i, &x, 8); return i; }
static float f32(uint64_t i) { uint32_t h = (uint32_t)i; float x; memcpy(&x, &h, 4); return x; }
static uint64_t of_f32(float x) { uint32_t i; memcpy(&i, &x, 4); return i; }
#define READ(type, at) (*(const type *)(uintptr_t)(at))
"""
_FLOATS = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}",
    "fma": "FMA({0}, {1}, {2})", "neg": "-{0}", "abs": "FABS({0})", "rcp": "1 / {0}",
    "sqrt": "SQRT({0})", "mov": "{0}",
}  # fmt: skip
_INTEGERS = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul.lo": "{0} * {1}", "mad.lo": "{0} * {1} + {2}",
    "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "not": "~{0}", "neg": "-{0}",
    "mov": "{0}", "shl": "{1} < WIDTH ? {0} << {1} : 0", "shr": "{1} < WIDTH ? {0} >> {1} : 0",
    "min": "{0} < {1} ? {0} : {1}", "max": "{0} > {1} ? {0} : {1}",
    "mul.hi": "(unsigned __int128){0} * {1} >> 64", "clz": "{0} ? __builtin_clzll({0}) : 64",
    "bfe": "({0} << (WIDTH - {1} - {2})) >> (WIDTH - {2})",
}  # fmt: skip
_RELATIONS = {
    "eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}", "le": "{0} <= {1}",
    "gt": "{0} > {1}", "ge": "{0} >= {1}", "lo": "{0} < {1}", "ls": "{0} <= {1}",
    "hi": "{0} > {1}", "hs": "{0} >= {1}", "equ": "!({0} < {1} || {0} > {1})",
    "neu": "!({0} == {1})", "ltu": "!({0} >= {1})", "leu": "!({0} > {1})", "gtu": "!({0} <= {1})",
    "geu": "!({0} < {1})", "num": "({0} == {0}) && ({1} == {1})",
    "nan": "({0} != {0}) || ({1} != {1})",
}  # fmt: skip
_SPECIAL = {"%tid.x": "thread", "%ctaid.x": "block", "%ntid.x": "threads"}
_HEADER = re.compile(r"(?:\.visible )?\.(func|entry)\s+(?:\((.*?)\)\s+)?([\w$]+)\s*\((.*?)\)", re.S)


def _name(text: str) -> str:
    return re.sub(r"\W", "_", text.strip())


def _operand(text: str) -> str:
    """A register, a number or an address as a whole number of 64 bits."""
    text = text.strip()
    if text in _SPECIAL:
        return _SPECIAL[text]
    if text[:2] in ("0d", "0f"):
        return f"0x{text[2:]}ull"
    if re.fullmatch(r"-?\d+", text):
        return f"(uint64_t){text}{'ll' if text[0] == '-' else 'ull'}"
    name = _name(text)
    return name if text[0] == "%" else f"(uint64_t)(uintptr_t){name}"


def _c_type(kind: str) -> str:
    width = int(kind[1:])
    return f"{'u' * (kind[0] != 's')}int{width}_t"


def _as(kind: str, text: str) -> str:
    if kind == "pred":
        return f"({text} & 1)"
    return f"{kind}({text})" if kind[0] == "f" else f"(({_c_type(kind)}){text})"


def _result(kind: str, text: str) -> str:
    if kind == "pred":
        return f"({text}) & 1"
    if kind[0] == "f":
        return f"of_{kind}({text})"
    return f"(uint64_t)(u{_c_type('s' + kind[1:])})({text})"


def _place(text: str) -> str:
    base, _, offset = text.strip()[1:-1].partition("+")
    return f"{_operand(base)} + {offset or 0}"


def _split(text: str) -> list[str]:
    """Operands; several registers in braces are one."""
    return [x.strip() for x in re.findall(r"\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|[^,\s]+", text)]


def _statement(line: str) -> str:
    """An instruction as C."""
    condition, rest = "", line.rstrip(";").strip()
    if rest.startswith("@"):
        guard, _, rest = rest.partition(" ")
        condition = f"if ({'!' * (guard[1] == '!')}{_name(guard.lstrip('@!'))}) "
    code, _, text = rest.strip().partition(" ") if " " in rest else rest.partition("\t")
    code = code.strip()
    words, given = code.split("."), _split(text)
    name, kind = words[0], words[-1]
    if name == "bra":
        return f"{condition}goto {_name(given[0])};"
    if name == "ret":
        return f"{condition}return;"
    assert not condition, line
    if name == "call":
        out, callee, takes = given if given[0].startswith("(") else ["()", *given]
        places = [x for part in (out, takes) for x in part[1:-1].replace(" ", "").split(",") if x]
        return f"{_name(callee)}({', '.join(places)});"
    if name in ("ld", "st"):
        at, values = (given[1], given[0]) if name == "ld" else (given[0], given[1])
        size, lines = int(kind[1:]) // 8, list[str]()
        for i, x in enumerate(values.strip("{}").split(",")):
            here = f"{_place(at)} + {size * i}"
            if name == "ld":
                value = f"(uint64_t){'(int64_t)' * (kind[0] == 's')}READ({_c_type(kind)}, {here})"
                lines.append(f"{_name(x)} = {value};")
            else:
                lines.append(
                    f"*({_c_type(kind)} *)(uintptr_t)({here}) = ({_c_type(kind)}){_operand(x)};"
                )
        return " ".join(lines)
    if name == "mov" and "{" in text:
        if given[1].startswith("{"):
            low, high = (_operand(x) for x in given[1].strip("{}").split(","))
            return f"{_name(given[0])} = (uint32_t){low} | {high} << 32;"
        low, high = (_name(x) for x in given[0].strip("{}").split(","))
        lines = [(low, "(uint32_t){0}"), (high, "{0} >> 32")]
        return " ".join(f"{x} = {y.format(_operand(given[1]))};" for x, y in lines if x != "_")
    result, operands = _name(given[0]), [_operand(x) for x in given[1:]]
    if name == "setp":
        relation = _RELATIONS[words[1]].format(*(_as(kind, x) for x in operands[:2]))
        if words[2] in ("and", "or"):
            relation = f"({relation}) {'&|'[words[2] == 'or']} {operands[2]}"
        return f"{result} = {relation};"
    if name == "selp":
        return f"{result} = {operands[2]} ? {operands[0]} : {operands[1]};"
    if name == "cvta":
        return f"{result} = {operands[0]};"
    if name == "cvt":
        to = words[-2]
        return f"{result} = {_result(to, _as(kind, operands[0]))};"
    if name == "shf":
        low, high, by = operands
        return f"{result} = (uint32_t)(({high} << 32 | (uint32_t){low}) << ({by} & 31) >> 32);"
    if code in ("add.cc.s64", "addc.cc.s64", "addc.s64"):
        carry = " + carry" if name == "addc" else ""
        total = f"(unsigned __int128){operands[0]} + {operands[1]}{carry}"
        return (
            f"{{ unsigned __int128 all = {total}; {result} = (uint64_t)all; carry = all >> 64; }}"
        )
    if code == "mul.wide.u32":
        return f"{result} = (uint64_t)(uint32_t){operands[0]} * (uint32_t){operands[1]};"
    if kind[0] == "f":
        assert name in ("neg", "abs", "mov") or words[1] == "rn", line
        form = _FLOATS[name]
        end = "f" if kind == "f32" else ""
        for big in ("FMA", "FABS", "SQRT"):
            form = form.replace(big, big.lower() + end)
    else:
        full = f"{name}.{words[1]}"
        form = _INTEGERS[full if full in _INTEGERS else name]
        form = form.replace("WIDTH", kind[1:])
    counts = name in ("shl", "shr", "bfe")  # later operands are not of the type
    typed = [_as(kind, x) if i == 0 or not counts else x for i, x in enumerate(operands)]
    return f"{result} = {_result(kind, form.format(*typed))};"


def ptx_as_c(text: str) -> str:
    """All functions of a module; kernels are called one thread after the other."""
    text = re.sub(r"//.*", "", text)
    lines, heads = [_HEAD], list[str]()
    for name, size, values in re.findall(
        r"\.global \.align \d+ \.b8 ([\w$]+)\[(\d+)\] = \{([^}]*)\}", text
    ):
        lines.append(f"static const unsigned char {_name(name)}[{size}] "
                     f"__attribute__((aligned(16))) = {{{values}}};")  # fmt: skip
    pieces = re.split(r"^\{", text, flags=re.M)
    for before, after in zip(pieces, pieces[1:], strict=False):
        kind, gives, name, takes = list(_HEADER.finditer(before))[-1].groups()
        params = re.findall(r"([\w$]+)(?:\[\d+\])?\s*(?:,|$)", f"{gives or ''},{takes}")
        params = [_name(x) for x in params]
        head = f"static void {_name(name)}({', '.join(f'char *{x}' for x in params) or 'void'})"
        heads.append(f"{head};")
        lines += [head, "{", *_body(after.split("\n}\n")[0]), "}"]
        if kind == "entry":
            lines += _launch(name, re.findall(r"\.param \.(u32|u64)", takes))
    return "\n".join([lines[0], *heads, *lines[1:]]) + "\n"


def _body(text: str) -> list[str]:
    """Declarations and statements of a function."""
    registers, lines = list[str](), list[str]()
    for raw in text.splitlines():
        line = raw.strip().replace("\t", " ")
        if found := re.match(r"\.reg \.\w+ +(%\w+)(?:<(\d+)>)?;", line):
            first, count = found.groups()
            registers += [first] if count is None else [f"{first}{i}" for i in range(int(count))]
        elif found := re.match(r"\.(?:local|param) .*?([\w$]+)(?:\[(\d+)\])?;", line):
            name, size = found.groups()
            lines.append(f"char {_name(name)}[{size or 8}] __attribute__((aligned(16)));")
        elif found := re.match(r"(\$\w+):", line):
            lines.append(f"{_name(found[1])}:;")
        elif line in ("{", "}"):
            lines.append(line)
        elif line and not line.startswith("."):
            lines.append(_statement(line))
    names = ", ".join(f"{_name(r)} = 0" for r in registers)
    return [f"uint64_t carry = 0, {names}; (void)carry;", *lines]


def _launch(name: str, kinds: Sequence[str]) -> list[str]:
    """What calls a kernel in every thread of some blocks."""
    takes = ", ".join(f"uint{k[1:]}_t p{i}" for i, k in enumerate(kinds))
    given = ", ".join(f"(char *)&p{i}" for i in range(len(kinds)))
    return [
        f"void launch_{name}(uint32_t blocks, uint32_t size, {takes})",
        "{",
        "threads = size;",
        "for (block = 0; block < blocks; block++)",
        f"for (thread = 0; thread < size; thread++) {_name(name)}({given});",
        "}",
    ]


class Kernels:
    """The kernels of a PTX file, compiled for this processor."""

    def __init__(self, path: Path, folder: Path) -> None:
        (folder / "kernels.c").write_text(ptx_as_c(path.read_text()))
        flags = "-O1 -w -ffp-contract=off -fno-strict-aliasing -shared -fPIC -o kernels.so".split()
        words = [tool("gcc"), *flags, "kernels.c", "-lm"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:3000]
        self.library = ctypes.CDLL(str(folder / "kernels.so"))

    def launch(self, name: str, first: Sequence[int], arrays: Sequence[np.ndarray]) -> None:
        """Run a kernel in blocks of three threads, as many as the first integer needs."""
        numbers = [ctypes.c_uint32(x) for x in (-(-first[0] // 3), 3, *first)]
        places = [ctypes.c_uint64(a.ctypes.data) for a in arrays]
        self.library[f"launch_{name}"](*numbers, *places)
