"""WebAssembly: an object file of LLVM as a module that runs, and the files around it.

LLVM writes an object as if its data began at address 0 and its functions were the only ones, so all
relocations are already right for a module that consists of one object: no linker is needed. Left to
do: the memory and the stack pointer, which an object imports, become the module's own, and
functions are exported by name. This holds as long as the object calls no function of others, which
is checked. Around the module are an ES module, its types for TypeScript, and a test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phipsi.codegen.exported_module import MARK, ExportedArray, ExportedFunction, Library
from phipsi.codegen.package_files import joint_rows, notes
from phipsi.codegen.quoted_texts import markdown
from phipsi.codegen.reference_numbers import ReferenceResults
from phipsi.codegen.targets import ExportTarget
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
    r = _WasmReader(binary)
    if r.take(len(_HEAD)) != _HEAD:
        raise InputError("the code is not a WebAssembly object file")
    while not r.done:
        kind = r.byte()
        content = r.take(r.number())
        if kind:
            parts[kind] = content
        else:
            custom = _WasmReader(content)
            name = custom.name()
            if name == "linking":
                functions = _functions(custom)
            elif name == "reloc.CODE":
                places = _places(custom)
    _check_imports(_WasmReader(parts.pop(_IMPORT, b"\0")))
    unknown = set(parts) - set(_ORDER)
    assert not unknown, f"sections {unknown}"
    data = list(_segments(_WasmReader(parts.get(_DATA, b"\0"))))
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


def _check_imports(r: _WasmReader) -> None:
    """Memory, a table and the stack pointer are the module's own; nothing else may be imported."""
    for _ in range(r.number()):
        where, name, kind = r.name(), r.name(), r.byte()
        if kind == _IN_FUNCTION:
            raise InputError(
                f"the code calls {where}.{name}, a library function that WebAssembly modules of "
                "phipsi cannot import"
            )
        if kind == _IN_GLOBAL:
            r.take(2)
            assert name == "__stack_pointer", name
        else:
            if kind == _IN_TABLE:
                r.byte()
            if r.number() & 1:  # with a largest size
                r.number()
            r.number()


def _functions(r: _WasmReader) -> dict[str, int]:
    """Numbers of the functions that others may call, by name."""
    out: dict[str, int] = {}
    version = r.number()
    assert version == 2, f"version {version} of the linking section"
    while not r.done:
        kind = r.byte()
        part = _WasmReader(r.take(r.number()))
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


def _places(r: _WasmReader) -> dict[int, bool]:
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
    r = _WasmReader(code)
    bodies: list[bytes] = []
    for _ in range(r.number()):
        size = r.number()
        start, out = r.at, bytearray()
        body = r.take(size)
        done = 0
        for place in sorted(p for p in places if start <= p < start + size):
            out += body[done : place - start]
            value = _WasmReader(body[place - start :]).number()
            out += _signed_leb(_signed(value)) if places[place] else _leb(value)
            done = place - start + 5
        bodies.append(bytes(out) + body[done:])
    return _leb(len(bodies)) + b"".join(_leb(len(b)) + b for b in bodies)


def _signed(number: int) -> int:
    """A number of 32 bits with a sign: where an index is added, an address may be negative."""
    number &= 2**32 - 1
    return number - 2**32 if number >= 2**31 else number


def _segments(r: _WasmReader) -> Iterator[tuple[int, bytes]]:
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


class _WasmReader:
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


# ---- the files around it -------------------------------------------------------------------------


_MODULE = """// NAME.mjs: TEXT; MARK.
//
//   import { load } from "./NAME.mjs";
//   const NAME = await load();
//   const RESULT = NAME.FIRST(INPUTS);
//
// A function takes arrays of numbers and returns one, or an object of several by name; if it fails
// it throws an Error with `status`. To avoid copies, fill `f.arrays`, views of the memory, and
// call `f.run()`, which returns the status.

const INTERFACE = LISTING;
const STATUS = STATUSES;

export const joints = JOINTS;
CONSTANTS

export function statusText(status) {
  return STATUS[status & 7] ?? "unknown";
}

async function bytesOf(source) {
  if (source instanceof WebAssembly.Module || source instanceof ArrayBuffer) return source;
  if (ArrayBuffer.isView(source)) return source;
  const url = source ?? new URL("NAME.wasm", import.meta.url);
  if (String(url).startsWith("file:") && globalThis.process?.versions?.node) {
    const { readFile } = await import("node:fs/promises");
    return readFile(new URL(url));
  }
  return (await fetch(url)).arrayBuffer();
}

export async function load(source) {
  const given = await bytesOf(source);
  const module = given instanceof WebAssembly.Module ? given : await WebAssembly.compile(given);
  const { exports } = await WebAssembly.instantiate(module, {});
  const out = { exports };
  for (const f of INTERFACE) {
    let at = HEAP;
    const arrays = {}, addresses = [];
    for (const a of f.arguments) {
      arrays[a.name] = new NUMBERS(exports.memory.buffer, at, a.count);
      addresses.push(at);
      at = (at + a.count * arrays[a.name].BYTES_PER_ELEMENT + 15) & ~15;
    }
    addresses.push(at);
    const call = exports[f.name];
    const run = () => call(...addresses);
    const inputs = f.arguments.filter((a) => a.role !== "out");
    const outputs = f.arguments.filter((a) => a.role !== "in");
    out[f.short] = Object.assign((...given) => {
      inputs.forEach((a, i) => {
        const x = given[i];
        if (x?.length !== a.count) {
          throw new RangeError(`${f.short}: ${a.name} has ${a.count} numbers, not ${x?.length}`);
        }
        arrays[a.name].set(x);
      });
      const status = run();
      if (status) throw Object.assign(new Error(`${f.short}: ${statusText(status)}`), { status });
      if (outputs.length === 1) return arrays[outputs[0].name].slice();
      return Object.fromEntries(outputs.map((a) => [a.name, arrays[a.name].slice()]));
    }, { arrays, run });
  }
  return out;
}
"""


def es_module(lib: Library, heap: int) -> str:
    """The ES module that loads the WebAssembly module and calls its functions."""
    first = lib.functions[0]
    words = {
        "LISTING": json.dumps([_interface(lib, f) for f in lib.functions]),
        "STATUSES": json.dumps({str(k): v for k, v in first.statuses.items()}),
        "JOINTS": json.dumps(joints(lib)),
        "CONSTANTS": "\n".join(_step_constants(lib)),
        "NAME": lib.name,
        "TEXT": lib.text,
        "MARK": MARK,
        "RESULT": _result(first),
        "FIRST": lib.short(first),
        "INPUTS": ", ".join(a.name for a in first.inputs),
        "HEAP": str(heap),
        "NUMBERS": _array(lib),
    }
    # in one pass: what is put in may contain the words
    return re.sub(rf"\b(?:{'|'.join(words)})\b", lambda found: words[found[0]], _MODULE)


def _array(lib: Library) -> str:
    """The type of JavaScript's arrays of such numbers."""
    return "Float32Array" if lib.number == "float" else "Float64Array"


def joints(lib: Library) -> list[dict[str, Any]]:
    """Names and places of the joints."""
    return [
        {"name": name, "kind": kind, "q": [q.start, q.stop], "v": [v.start, v.stop]}
        for name, kind, q, v in joint_rows(lib.model)
    ]


def _step_constants(lib: Library) -> list[str]:
    """The time step of an exported step, its initial state, and default values of parameters."""
    out = list[str]()
    for f in lib.functions:
        if f.dt is not None:
            states, others = _with_numbers(f)
            out += ["", "// s, the time of one step; its first state; default values of parameters"]
            out.append(f"export const dt = {f.dt!r};")
            for name, arrays in (("initial", states), ("defaults", others)):
                listed = (f'  "{a.name}": [{", ".join(map(_js, a.first or ()))}],' for a in arrays)
                out += [f"export const {name} = {{", *listed, "};"]
    return out


def _with_numbers(f: ExportedFunction) -> tuple[list[ExportedArray], list[ExportedArray]]:
    """The arrays of a step that have initial numbers: its states, and its other inputs."""
    known = [a for a in f.arguments if a.first is not None]
    return [a for a in known if a.role == "inout"], [a for a in known if a.role == "in"]


def _js(x: float) -> str:
    """A number of JavaScript."""
    if np.isfinite(x):
        return repr(float(x))
    return "NaN" if x != x else "Infinity" if x > 0 else "-Infinity"


def _interface(lib: Library, f: ExportedFunction) -> dict[str, Any]:
    arguments = [{"name": a.name, "role": a.role, "count": a.count} for a in f.arguments]
    return {"name": f.name, "short": lib.short(f), "arguments": arguments}


def typescript(lib: Library) -> str:
    """The types of the ES module."""
    lines = [
        f"// {lib.name}.d.mts: types of {lib.name}.mjs; {MARK}.",
        "export type Numbers = ArrayLike<number>;",
        "export interface Call<Arrays> {",
        "  /** Views of the memory: fill the inputs, run, read the results. */",
        "  readonly arrays: Arrays;",
        "  /** Returns the status, 0 for success. */",
        "  run(): number;",
        "}",
        f"export interface {_pascal(lib.name)} {{",
        "  readonly exports: WebAssembly.Exports;",
    ]
    kind = _array(lib)
    for f in lib.functions:
        takes = ", ".join(f"{a.name}: Numbers" for a in f.inputs)
        several = "; ".join(f"{a.name}: {kind}" for a in f.outputs)
        gives = kind if len(f.outputs) == 1 else f"{{ {several} }}"
        arrays = "; ".join(f"{a.name}: {kind}" for a in f.arguments)
        lines.append("  /**")
        lines += [f"   * {a.described}" for a in f.arguments]
        lines.append("   */")
        lines.append(f"  readonly {lib.short(f)}: (({takes}) => {gives}) & Call<{{ {arrays} }}>;")
    return "\n".join(
        [
            *lines,
            "}",
            "export interface Joint { name: string; kind: string; q: number[]; v: number[] }",
            "export const joints: Joint[];",
            *_step_types(lib),
            "export function statusText(status: number): string;",
            "export type Source = string | URL | BufferSource | WebAssembly.Module;",
            f"export function load(source?: Source): Promise<{_pascal(lib.name)}>;",
            "",
        ]
    )


def _step_types(lib: Library) -> list[str]:
    """The types of `_step_constants`."""
    out = list[str]()
    for f in lib.functions:
        if f.dt is not None:
            both = [
                "; ".join(f'"{a.name}": number[]' for a in arrays) for arrays in _with_numbers(f)
            ]
            out += ["/** Time of one step, s. */", "export const dt: number;"]
            out += ["/** The first state of steps. */", f"export const initial: {{ {both[0]} }};"]
            out += ["/** Values of the other inputs. */"]
            out += [f"export const defaults: {{ {both[1]} }};"]
    return out


def web_test(lib: Library, references: Sequence[ReferenceResults]) -> str:
    """Compares the functions with reference numbers: ``node test_NAME.mjs`` prints ok."""
    cases = [
        {
            "short": lib.short(r.function),
            "inputs": [_rows(a) for a in r.inputs],
            "results": dict(
                zip([a.name for a in r.function.outputs], map(_rows, r.results), strict=True)
            ),
            "tolerance": r.tolerance,
        }
        for r in references
    ]
    return f"""// Compares the functions of {lib.name}.mjs with reference numbers; {MARK}.
import {{ load }} from "./{lib.name}.mjs";

const CASES = {json.dumps(cases)};

export async function test(source) {{
  const lib = await load(source);
  for (const c of CASES) {{
    const f = lib[c.short];
    for (let i = 0; i < c.inputs[0].length; i++) {{
      f(...c.inputs.map((a) => a[i]));
      for (const [name, rows] of Object.entries(c.results)) {{
        const largest = Math.max(0, ...rows[i].map(Math.abs));
        const gap = Math.max(0, ...rows[i].map((x, j) => Math.abs(x - f.arrays[name][j])));
        if (gap <= c.tolerance * largest) continue;
        throw new Error(`${{c.short}}: ${{name}} differs by ${{gap}}`);
      }}
    }}
  }}
  return {json.dumps(_verdict(lib, references))};
}}

if (globalThis.process?.argv?.[1]?.endsWith("test_{lib.name}.mjs")) console.log(await test());
"""


def _verdict(lib: Library, references: Sequence[ReferenceResults]) -> str:
    """What the test says if nothing differs."""
    compared = {r.function.name for r in references}
    others = [lib.short(f) for f in lib.functions if f.name not in compared]
    return f"ok; no reference numbers for {', '.join(others)}" if others else "ok"


def _rows(a: np.ndarray) -> list[list[float]]:
    return np.asarray(a, dtype=float).reshape(len(a), -1).tolist()


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _result(f: ExportedFunction) -> str:
    """The results of a function as the left side of an assignment."""
    names = [a.name for a in f.outputs]
    return names[0] if len(names) == 1 else f"{{ {', '.join(names)} }}"


def _step_example(lib: Library) -> list[str]:
    """Steps from the first state, with default values of parameters."""
    f = next((f for f in lib.functions if f.dt is not None), None)
    if f is None or f.dt is None:
        return []
    missing = [a.name for a in f.inputs if a.first is None]
    last = [f"Arrays without default values: {', '.join(missing)}.", ""] if missing else []
    return [
        f"A step takes {f.dt:g} s (`dt`). `initial` has the first state, and `defaults` the values "
        "of parameters. One second of simulated time:",
        "",
        "```js",
        f'import {{ load, initial, defaults }} from "./{lib.name}.mjs";',
        f"const {{ {lib.short(f)}: step }} = await load();",
        "for (const [name, x] of Object.entries({ ...initial, ...defaults })) {",
        "  step.arrays[name].set(x);",
        "}",
        f"for (let i = 0; i < {max(1, round(1 / f.dt))}; i++) {{",
        '  if (step.run()) throw new Error("the step failed");',
        "}",
        f"console.log(step.arrays.{f.outputs[0].name});",
        "```",
        "",
        *last,
    ]


def readme(
    lib: Library, row: ExportTarget, size: int, references: Sequence[ReferenceResults | None]
) -> str:
    """The contents of the folder, and how to use them."""
    n, first = lib.name, lib.functions[0]
    table = [
        f"| `{lib.short(f)}` | {', '.join(a.name for a in f.inputs)} | "
        f"{', '.join(a.name for a in f.outputs)} |"
        for f in lib.functions
    ]
    return "\n".join(
        [
            f"# {n}",
            "",
            f"{markdown(lib.text)}, for {row.name} ({row.text}); {MARK}. "
            f"`{n}.wasm` has {size} bytes and imports nothing.",
            "",
            "| function | inputs | outputs |",
            "|---|---|---|",
            *table,
            "",
            "```js",
            f'import {{ load }} from "./{n}.mjs"; // types: {n}.d.mts',
            f"const {n} = await load();",
            f"const {_result(first)} = {n}.{lib.short(first)}"
            f"({', '.join(a.name for a in first.inputs)});",
            "```",
            "",
            *_step_example(lib),
            f"`node test_{n}.mjs` compares every function with reference numbers and prints ok.",
            "A page must come from a server: browsers do not load modules from `file:`.",
            "",
            *notes(lib, f"test_{n}.mjs", references),
        ]
    )
