"""Writing C99: a second writer behind the builder methods of `llvm_text`.

A `CModule` of this kind hands out a `CStatementBuilder` that writes C, so code that writes kernels
does not know which language it writes. One lane only: vectors of one element are their element. One
statement per instruction, blocks are labels, and a value that depends on where control came from is
a variable that is set before every jump.

Results have the bits of LLVM's code for the same text: constants are hexadecimal, integers are
unsigned (they wrap, as LLVM's do), and every product and sum is a statement of its own. Compilers
that join them must be told not to (`-ffp-contract=off`; gcc does not in its ISO mode). Nothing is
called but `sqrt` and `fabs`, and `fma` where products and sums are rounded once.
Reasons: docs/decisions/0046.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from phipsi.native.text import llvm_text as ir
from phipsi.native.text.c_statements import (
    CAssignment,
    CBranch,
    CStatement,
    CStatementBuilder,
    CSwitch,
    c_type,
    integer_text,
    name_of,
    number_text,
    operand,
    record_name,
)

__all__ = ["INSIDE", "CModule", "integer_text", "listed_table", "number_text"]

_HEAD = """\
/* Written by a program. Compile without contracting products and sums (-ffp-contract=off). */
#include <float.h>
#include <math.h>
#include <stdint.h>
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "numbers must be rounded after every operation: -msse2 -mfpmath=sse"
#endif
#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
"""

# What C lacks, by name: helpers that are written only if something uses them.
_HELPERS = {
    "bits_of": "static inline uint64_t bits_of(double x) "
    "{ union { double x; uint64_t i; } u; u.x = x; return u.i; }",
    "number_of": "static inline double number_of(uint64_t i) "
    "{ union { double x; uint64_t i; } u; u.i = i; return u.x; }",
    "bits_of_f": "static inline uint32_t bits_of_f(float x) "
    "{ union { float x; uint32_t i; } u; u.x = x; return u.i; }",
    "number_of_f": "static inline float number_of_f(uint32_t i) "
    "{ union { float x; uint32_t i; } u; u.i = i; return u.x; }",
    "larger": "static inline double larger(double x, double y) { return x > y || y != y ? x : y; }",
    "larger_f": "static inline float larger_f(float x, float y) "
    "{ return x > y || y != y ? x : y; }",
    "with_sign": "static inline double with_sign(double x, double y)\n"
    "{ return number_of((bits_of(x) & (UINT64_MAX >> 1)) | (bits_of(y) & ~(UINT64_MAX >> 1))); }",
    "with_sign_f": "static inline float with_sign_f(float x, float y)\n"
    "{ return number_of_f((bits_of_f(x) & 0x7fffffffu) | (bits_of_f(y) & 0x80000000u)); }",
    "whole_below": """static inline double whole_below(double x)
{
  double n;
  if (!(fabs(x) < 0x1p+52)) return x;
  n = with_sign((fabs(x) + 0x1p+52) - 0x1p+52, x);
  return n > x ? n - 1.0 : n;
}""",
    "whole_below_f": """static inline float whole_below_f(float x)
{
  float n;
  if (!(fabsf(x) < 0x1p+23f)) return x;
  n = with_sign_f((fabsf(x) + 0x1p+23f) - 0x1p+23f, x);
  return n > x ? n - 1.0f : n;
}""",
    "clear": """static void clear(char *p, uint64_t bytes)
{
  uint64_t i;
  for (i = 0; i < bytes; i++) p[i] = 0;
}""",
    "leading_zeros": """static uint64_t leading_zeros(uint64_t x)
{
  uint64_t n = 0, half;
  for (half = 32; half; half /= 2)
    if (!(x >> (64 - half))) { n += half; x <<= half; }
  return n;
}""",
    # numbers of 128 bits
    "wide_and": "static inline struct wide wide_and(struct wide x, struct wide y)\n"
    "{ x.low &= y.low; x.high &= y.high; return x; }",
    "wide_or": "static inline struct wide wide_or(struct wide x, struct wide y)\n"
    "{ x.low |= y.low; x.high |= y.high; return x; }",
    "wide_add": "static inline struct wide wide_add(struct wide x, struct wide y)\n"
    "{ x.low += y.low; x.high += y.high + (x.low < y.low); return x; }",
    "wide_lshr": """static inline struct wide wide_lshr(struct wide x, struct wide y)
{
  uint64_t n = y.low;
  if (n >= 64) { x.low = x.high; x.high = 0; n -= 64; }
  if (n) { x.low = x.low >> n | x.high << (64 - n); x.high >>= n; }
  return x;
}""",
    "wide_shl": """static inline struct wide wide_shl(struct wide x, struct wide y)
{
  uint64_t n = y.low;
  if (n >= 64) { x.high = x.low; x.low = 0; n -= 64; }
  if (n) { x.high = x.high << n | x.low >> (64 - n); x.low <<= n; }
  return x;
}""",
    "wide_mul": """static struct wide wide_mul(struct wide x, struct wide y)
{
  const uint64_t half = 0xffffffffu;
  uint64_t a = x.low & half, b = x.low >> 32, c = y.low & half, d = y.low >> 32;
  uint64_t ac = a * c, ad = a * d, bc = b * c;
  uint64_t middle = (ac >> 32) + (ad & half) + (bc & half);
  struct wide out;
  out.low = (ac & half) | middle << 32;
  out.high = b * d + (ad >> 32) + (bc >> 32) + (middle >> 32) + x.low * y.high + x.high * y.low;
  return out;
}""",
}
INSIDE = frozenset(_HELPERS)
"""Names of functions that the text may contain besides those of its module."""
_TYPE_NAMES = {"uint8_t", "uint16_t", "uint32_t", "uint64_t"}
_WORD, _GOAL = re.compile(r"[A-Za-z_]\w*"), re.compile(r"goto (\w+);")


class CModule(ir.Module):
    """Functions and tables as one C file.

    `signatures` are the parameters of functions that other files call, as C declares them, by
    function; the others are hidden. What neither such a function nor one of `roots`, by name,
    reaches is left out.
    """

    @property
    def builder(self) -> type[ir.IRBuilder]:
        """What writes the statements of its functions."""
        return CStatementBuilder

    def __init__(
        self, *, standalone: bool = True, missing: Sequence[str] = ("maxnum", "floor")
    ) -> None:
        super().__init__(standalone=standalone, missing=missing)
        self.order: dict[str, dict[ir.BasicBlock, None]] = {}
        self.rooms: dict[str, list[tuple[str, str, int]]] = {}
        self.signatures: dict[str, tuple[str, ...]] = {}
        self.roots: list[str] = []

    def keep(self, roots: Sequence[ir.IRFunction]) -> None:
        """Write these functions, and what they call."""
        self.roots = [f.name[1:] for f in roots]

    def __str__(self) -> str:
        texts = {f.name[1:]: _Text(self, f) for f in self.globals.values() if f.blocks}
        tables = {name_of(t): t for t in self.tables}
        wanted = [n for n, text in texts.items() if not text.hidden or n in self.roots]
        reached: dict[str, None] = {}
        words: set[str] = set()
        while wanted:
            name = wanted.pop()
            if name in reached:
                continue
            reached[name] = None
            found = {w for line in texts[name].lines for w in _WORD.findall(line)}
            words |= found
            wanted += [w for w in found if w in texts]
        helpers = _needed(words)
        lines = [_HEAD]
        code = [line for n in reached for line in texts[n].lines]
        kinds = {
            "struct wide": "uint64_t low, high;",
            "union word": "uint64_t i; double x; char *p;",
        }
        lines += [f"{x} {{ {y} }};" for x, y in kinds.items() if any(x in line for line in code)]
        lines += _records(words, self.globals.values())
        lines += [_HELPERS[h] for h in _HELPERS if h in helpers]
        lines += [
            line for name, table in tables.items() if name in words for line in table_of(table)
        ]
        kept = [text for name, text in texts.items() if name in reached]
        lines += [f"{text.head};" for text in kept if text.hidden]
        lines += [line for text in kept for line in ("", *text.lines)]
        return "\n".join(lines) + "\n"


def _needed(words: set[str]) -> set[str]:
    out = {w for w in words if w in _HELPERS}
    for name in reversed(_HELPERS):
        if name in out:
            out |= {w for w in _WORD.findall(_HELPERS[name]) if w in _HELPERS}
    return out


def _records(words: set[str], functions: Iterable[ir.IRFunction]) -> Iterator[str]:
    seen: set[str] = set()
    for f in functions:
        type_ = f.signature.gives
        if isinstance(type_, ir.LiteralStructType):
            name = record_name(type_)
            if name in words and name not in seen:
                seen.add(name)
                members = " ".join(f"{c_type(x)} m{i};" for i, x in enumerate(type_.elements))
                yield f"struct {name} {{ {members} }};"


def table_of(table: ir.ConstantTable | ir.StaticMemory) -> Iterator[str]:
    """The text of a table, or of memory."""
    if isinstance(table, ir.StaticMemory):
        return iter([f"static double {name_of(table)}[{-(-table.size // 8)}];"])
    head = f"static const {c_type(table.element)} {name_of(table)}"
    return listed_table(head, [operand(x) for x in table.numbers])


def listed_table(head: str, numbers: Sequence[str]) -> Iterator[str]:
    """An array with these numbers; `head` is its type and name."""
    yield f"{head}[{len(numbers)}] = {{"
    line = " "
    for x in numbers:
        if len(line) + len(x) > 97:
            yield line
            line = " "
        line += f" {x},"
    yield line
    yield "};"


class _Text:
    """A function as lines of C."""

    def __init__(self, module: CModule, function: ir.IRFunction) -> None:
        self.function, self.module = function, module
        self.name = function.name[1:]
        self.hidden = function.linkage == "internal"
        self.blocks = list(module.order[function.name])
        self.phis = {b: [x for x in b.lines if isinstance(x, ir.Phi)] for b in self.blocks}
        self.used = self._used()
        body = [line for i in range(len(self.blocks)) for line in self._block(i)]
        goals = {x for line in body for x in _GOAL.findall(line)}
        body = [x for x in body if not x.endswith(":;") or x[:-2] in goals]
        self.words = {w for line in body for w in _WORD.findall(line)} | _TYPE_NAMES
        self.words |= {a.name[1:] for a in function.args}
        self.head = self._head()
        self.lines = [self.head, "{", *self._declarations(), *body, "}"]

    def _statements(self, block: ir.BasicBlock) -> list[Any]:
        return [*self.function.early, *block.lines] if block is self.blocks[0] else block.lines

    def _used(self) -> set[str]:
        """The names that something depends on."""
        needs: dict[str, str] = {}
        wanted: list[str] = []
        for block in self.blocks:
            for x in self._statements(block):
                if isinstance(x, CAssignment):
                    needs[x.name] = x.text
                elif isinstance(x, ir.Phi):
                    needs[x.name[1:]] = " ".join(operand(v) for v, _ in x.incoming)
                elif isinstance(x, CStatement):
                    wanted.append(x.text)
                elif isinstance(x, CBranch):
                    wanted.append(x.condition)
                elif isinstance(x, CSwitch):
                    wanted.append(x.parts()[0])
        out: set[str] = set()
        while wanted:
            for name in _WORD.findall(wanted.pop()):
                if name not in out:
                    out.add(name)
                    if name in needs:
                        wanted.append(needs[name])
        return out

    def _head(self) -> str:
        gives = c_type(self.function.signature.gives)
        given = self._given()
        if given is not None and gives == "uint32_t":
            gives = "int"
        takes = given or [
            f"{_join(c_type(a.type))}{'restrict ' * ('noalias' in a.attributes)}{a.name[1:]}"
            for a in self.function.args
        ]
        listed = ", ".join(takes) or "void"
        return f"{'static ' * self.hidden}{_join(gives)}{self.name}({listed})"

    def _given(self) -> list[str] | None:
        """The parameters of a function for other files; none has a name that its text uses."""
        given = self.module.signatures.get(self.name)
        if given is None:
            return None
        out: list[str] = []
        names = {own_name(x) for x in given}
        for x in given:
            own = name = own_name(x)
            while name in self.words or (name != own and name in names):
                name += "_given"
            names.add(name)
            out.append(f"{x[: len(x) - len(own)]}{name}")
        return out

    def _declarations(self) -> Iterator[str]:
        given = self._given()
        for i, a in enumerate(self.function.args):
            name = a.name[1:]
            if given is not None:
                own = own_name(given[i])
                if name in self.used:
                    kind = c_type(a.type)
                    yield f"  {_join(kind)}{name} = ({kind}){own};"
                else:
                    yield f"  (void){own};"
        for name, kind, count in self.module.rooms.get(self.function.name, ()):
            if name in self.used:
                yield f"  {_join(kind)}{name}[{count}];"
        for phis in self.phis.values():
            for phi in phis:
                if phi.name[1:] in self.used:
                    yield f"  {_join(c_type(phi.type))}{phi.name[1:]} = 0;"
        if given is None:
            for a in self.function.args:
                if a.name[1:] not in self.used:
                    yield f"  (void){a.name[1:]};"

    def _block(self, i: int) -> list[str]:
        block = self.blocks[i]
        following = self.blocks[i + 1] if i + 1 < len(self.blocks) else None
        out: list[str] = []
        for x in self._statements(block):
            if isinstance(x, CAssignment):
                if x.name in self.used:
                    out.append(f"  {_const(x.type)}{x.name} = {x.text};")
            elif isinstance(x, CStatement):
                named = x.name and x.name in self.used
                out.append(f"  {_const(x.type)}{x.name} = {x.text}" if named else f"  {x.text}")
            elif isinstance(x, CBranch):
                out += self._jump(block, x, following)
            elif isinstance(x, CSwitch):
                value, cases, default = x.parts()
                out.append(f"  switch ({value}) {{")
                out += [f"  case {n}: {self._go(block, to)}" for n, to in cases]
                out += [f"  default: {self._go(block, default)}", "  }"]
        return [f"{_label(block)}:;", *out] if i else out

    def _jump(self, block: ir.BasicBlock, x: CBranch, following: ir.BasicBlock | None) -> list[str]:
        if x.other is None:
            return self._last(block, x.then, following)
        if x.then is following:
            return [
                f"  if (!{x.condition}) {self._go(block, x.other)}",
                *self._last(block, x.then, following),
            ]
        return [
            f"  if ({x.condition}) {self._go(block, x.then)}",
            *self._last(block, x.other, following),
        ]

    def _last(
        self, block: ir.BasicBlock, to: ir.BasicBlock, following: ir.BasicBlock | None
    ) -> list[str]:
        moves = [f"  {x}" for x in self._moves(block, to)]
        return moves if to is following else [*moves, f"  goto {_label(to)};"]

    def _go(self, block: ir.BasicBlock, to: ir.BasicBlock) -> str:
        moves = self._moves(block, to)
        jump = f"goto {_label(to)};"
        return f"{{ {' '.join(moves)} {jump} }}" if moves else jump

    def _moves(self, block: ir.BasicBlock, to: ir.BasicBlock) -> list[str]:
        """What the values that depend on the jump become, all at once."""
        moves = [
            (phi, operand(value))
            for phi in self.phis[to]
            if phi.name[1:] in self.used
            for value, origin in phi.incoming
            if origin is block
        ]
        names, out, later = {p.name[1:] for p, _ in moves}, list[str](), list[str]()
        for phi, text in moves:
            name = phi.name[1:]
            if text == name:
                continue
            if any(w in names for w in _WORD.findall(text)):
                out.append(f"const {c_type(phi.type)} t_{name} = {text};")
                text = f"t_{name}"
            later.append(f"{name} = {text};")
        return [f"{{ {' '.join([*out, *later])} }}"] if out else later


def own_name(parameter: str) -> str:
    """The name of a parameter, which it ends with."""
    return _WORD.findall(parameter)[-1]


def _join(kind: str) -> str:
    return kind if kind.endswith("*") else f"{kind} "


def _const(kind: str) -> str:
    return f"{kind}const " if kind.endswith("*") else f"const {kind} "


def _label(block: ir.BasicBlock) -> str:
    return block.label.replace(".", "_")
