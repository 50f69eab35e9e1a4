"""The files around a WebAssembly module: an ES module, its types for TypeScript, a test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from phipsi.exporting.c_files import MARK, Library, Reference
from phipsi.exporting.exported_module import ExportedFunction
from phipsi.exporting.targets import ExportTarget

_MODULE = """// NAME.mjs: TEXT; MARK.
//
//   import { load } from "./NAME.mjs";
//   const NAME = await load();
//   const RESULT = NAME.FIRST(INPUTS);
//
// A function takes arrays of numbers and returns one, or an object of several by name; if it fails
// it throws an Error with `status`. Without copies: fill `f.arrays`, which are views of the memory,
// and call `f.run()`, which returns the status.

const INTERFACE = LISTING;
const STATUS = STATUSES;

export const joints = JOINTS;

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
        "NAME": lib.name,
        "TEXT": lib.text,
        "MARK": MARK,
        "RESULT": first.outputs[0].name,
        "FIRST": lib.short(first),
        "INPUTS": ", ".join(a.name for a in first.inputs),
        "HEAP": str(heap),
        "NUMBERS": _array(lib),
    }
    text = _MODULE
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _array(lib: Library) -> str:
    """The type of JavaScript's arrays of such numbers."""
    return "Float32Array" if lib.number == "float" else "Float64Array"


def joints(lib: Library) -> list[dict[str, Any]]:
    """Names and places of the joints."""
    m = lib.model
    return [
        {"name": n, "kind": j.kind, "q": [q.start, q.stop], "v": [v.start, v.stop]}
        for n, j, q, v in zip(m.joint_names, m.joints, m.q_slices, m.v_slices, strict=True)
    ]


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
        "  /** Returns the status, 0 if all is well. */",
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
        for a in f.arguments:
            units = f" [{a.units}]" if a.units else ""
            size = " x ".join(map(str, a.shape)) or "1"
            text = a.text.replace("*/", "* /")
            lines.append(f"   * {a.name} ({a.role}, {size}){units}: {text}")
        lines.append("   */")
        lines.append(f"  readonly {lib.short(f)}: (({takes}) => {gives}) & Call<{{ {arrays} }}>;")
    return "\n".join(
        [
            *lines,
            "}",
            "export interface Joint { name: string; kind: string; q: number[]; v: number[] }",
            "export const joints: Joint[];",
            "export function statusText(status: number): string;",
            "export type Source = string | URL | BufferSource | WebAssembly.Module;",
            f"export function load(source?: Source): Promise<{_pascal(lib.name)}>;",
            "",
        ]
    )


def web_test(lib: Library, references: Sequence[Reference]) -> str:
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
  return "ok";
}}

if (globalThis.process?.argv?.[1]?.endsWith("test_{lib.name}.mjs")) console.log(await test());
"""


def _rows(a: np.ndarray) -> list[list[float]]:
    return np.asarray(a, dtype=float).reshape(len(a), -1).tolist()


def _pascal(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def readme(
    lib: Library, row: ExportTarget, size: int, references: Sequence[Reference | None]
) -> str:
    """The contents of the folder, and how to use them."""
    n, first = lib.name, lib.functions[0]
    table = [
        f"| `{lib.short(f)}` | {', '.join(a.name for a in f.inputs)} | "
        f"{', '.join(a.name for a in f.outputs)} |"
        for f in lib.functions
    ]
    untested = [f.name for f, r in zip(lib.functions, references, strict=True) if r is None]
    notes = [f"`test_{n}.mjs` has no numbers for {', '.join(untested)}.", ""] if untested else []
    return "\n".join(
        [
            f"# {n}",
            "",
            f"{lib.text}, for {row.name} ({row.text}); {MARK}. "
            f"`{n}.wasm` has {size} bytes and imports nothing.",
            "",
            "| function | takes | gives |",
            "|---|---|---|",
            *table,
            "",
            "```js",
            f'import {{ load }} from "./{n}.mjs"; // types: {n}.d.mts',
            f"const {n} = await load();",
            f"const {first.outputs[0].name} = {n}.{lib.short(first)}"
            f"({', '.join(a.name for a in first.inputs)});",
            "```",
            "",
            f"`node test_{n}.mjs` compares every function with reference numbers and prints ok.",
            "A page must be served: browsers load no modules from `file:`.",
            "",
            *notes,
        ]
    )
