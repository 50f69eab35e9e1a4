"""The files around an object for a processor: C, C++ and Rust, a test program, a CMake file."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from phipsi.exporting.exported_module import (
    MARK,
    ExportedArray,
    ExportedFunction,
    Library,
    comment,
)
from phipsi.exporting.named_programs import identifier
from phipsi.exporting.reference_numbers import Reference
from phipsi.exporting.targets import ExportTarget
from phipsi.model.model import Model

VERDICT = (
    "  if (failed) {",
    '    printf("FAILED: function %d, code %d\\n", failed / 1000, failed % 1000);',
    "    return 1;",
    "  }",
    '  puts("ok");',
    "  return 0;",
)
"""The end of a test program: what `failed` says."""


# ---- C -------------------------------------------------------------------------------------------


def c_header(lib: Library) -> str:
    """The C interface, with every array documented."""
    P, lines = lib.prefix, list[str]()
    lines += [
        f"/* {lib.name}.h: {lib.text}, for {lib.target}; {MARK}.",
        "",
        "   Functions return 0 or a status. They allocate nothing, keep nothing between calls and",
        "   call no library" + (" but the compiler's own helpers:" if lib.helpers else "."),
        *([f"   {', '.join(lib.helpers)}"] if lib.helpers else []),
        "   Each may run once at a time: its work memory is static." if lib.static else
        "   Any number may run at once, each with work memory of its own: as many bytes as the\n"
        f"   constant says, aligned as a {lib.number}, with any contents.",
        "   Arrays are contiguous, row by row. */",
        f"#ifndef {P}_H",
        f"#define {P}_H",
        "",
        *constants(lib),
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
    ]  # fmt: skip
    for f in lib.functions:
        lines += [*_declaration(lib, f), ""]
    lines += [
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        *statuses(lib),
        f"#endif /* {P}_H */",
        "",
    ]
    return "\n".join(lines)


def constants(lib: Library) -> list[str]:
    """Sizes, the order of the joints, and the bytes of work memory."""
    P, m = lib.prefix, lib.model
    lines = [
        f"#define {P}_NQ {m.nq} /* coordinates */",
        f"#define {P}_NV {m.nv} /* degrees of freedom */",
        f"#define {P}_BODIES {m.n_bodies}",
    ]
    taken: set[str] = set()
    if m.n_bodies:
        lines += ["", "/* where the numbers of a joint begin in q (Q) and in v, vdot, tau (V) */"]
    for i, (name, joint) in enumerate(zip(m.joint_names, m.joints, strict=True)):
        where = identifier(name).upper()
        while where in taken:
            where += "_"
        taken.add(where)
        q, v = m.q_slices[i].start, m.v_slices[i].start
        shown = ", ".join(joint.coordinate_names)
        note = f"{joint.kind}: {shown}" if shown else joint.kind
        lines.append(f"#define {P}_Q_{where} {q} /* {comment(name)}, {note} */")
        lines.append(f"#define {P}_V_{where} {v}")
    bodies = ", ".join(f'"{_quoted(n)}"' for n in m.body_names)
    lines += ["", f"#define {P}_BODY_NAMES {{{bodies}}}"]
    if not lib.static:
        lines.append("")
        lines.append(f"#define {P}_WORK {max_work(lib)} /* bytes: enough for every function */")
    return lines


def max_work(lib: Library) -> int:
    """Bytes of work memory that are enough for every function, also for batches."""
    return max(max(f.work_bytes, f.batch_bytes) for f in lib.functions)


def _declaration(lib: Library, f: ExportedFunction) -> list[str]:
    """One function and its batched form, with a comment."""
    name = f.name
    lines = ["/*", *array_lines(f), "*/"]
    if not lib.static:
        lines.append(f"#define {name.upper()}_WORK {f.work_bytes}")
    work = [] if lib.static else ["void *work"]
    arrays = [a.parameter(lib.number) for a in f.arguments]
    lines.append(f"int {name}({', '.join([*arrays, *work])});")
    if f.rollout:
        lines.append("/* the same, n steps */")
        lines.append(f"int {f.rollout}({', '.join(['int n', *arrays, *work])});")
    if f.batch_bytes:
        lines += [
            f"/* n configurations, {f.lanes} at once; status[i] is that of configuration i,",
            "   the result that of the first that failed */",
        ]
        if not lib.static:
            lines.append(f"#define {name.upper()}_BATCH_WORK {f.batch_bytes}")
        takes = ["int n", *arrays, "int *status", *work]
        lines.append(f"int {name}_batch({', '.join(takes)});")
    return lines


def array_lines(f: ExportedFunction) -> list[str]:
    """What every array of a function is, and its accuracy, for a comment."""
    lines = [f"   {a.described}" for a in f.arguments]
    if f.accuracy is not None:
        lines.append(f"   Errors against double precision: {f.accuracy}.")
    return lines


def statuses(lib: Library) -> list[str]:
    """Codes, and a function that has their texts."""
    P, texts = lib.prefix, lib.functions[0].statuses
    lines = [
        "/* The last three bits of a status are its code, the rest the body or constraint row. */"
    ]
    for code, text in sorted(texts.items()):
        lines.append(f"#define {P}_{identifier(text).upper()} {code}")
    lines += [
        f"#define {P}_STATUS_CODE(status) ((status) & 7)",
        f"#define {P}_STATUS_BODY(status) (((status) >> 3) - 1) /* -1: none */",
        f"static inline const char *{lib.name}_status_text(int status) {{",
        "  switch (status & 7) {",
        *(f'  case {code}: return "{_quoted(text)}";' for code, text in sorted(texts.items())),
        "  }",
        '  return "unknown";',
        "}",
        "",
    ]
    return lines


def _quoted(text: str) -> str:
    """A name from a file, for a string of C."""
    return "".join(c if " " <= c <= "~" and c not in '"\\?' else "?" for c in text).replace(
        "?", "_"
    )


# ---- C++ -----------------------------------------------------------------------------------------


def cpp_header(lib: Library) -> str:
    """Spans with sizes that the compiler checks; nothing is allocated. C++20."""
    lines = [
        f"// {lib.name}.hpp: spans for {lib.name}.h, C++20; {MARK}.",
        "#pragma once",
        "#include <span>",
        f'#include "{lib.name}.h"',
        "",
        f"namespace {lib.name} {{",
        "",
    ]
    if not lib.static:
        lines += [
            "// Work memory for any of the functions; one per thread.",
            "struct Work {",
            f"  alignas(16) unsigned char bytes[{lib.prefix}_WORK > 0 ? {lib.prefix}_WORK : 1];",
            "};",
            "",
        ]
    for f in lib.functions:
        takes = [
            f"std::span<{'const ' if a.role == 'in' else ''}{lib.number}, {a.count}> {a.name}"
            for a in f.arguments
        ]
        gives = [f"{a.name}.data()" for a in f.arguments]
        if not lib.static:
            takes.append("Work &work")
            gives.append("work.bytes")
        lines += [
            f"[[nodiscard]] inline int {lib.short(f)}({', '.join(takes)}) noexcept {{",
            f"  return ::{f.name}({', '.join(gives)});",
            "}",
            "",
        ]
    return "\n".join([*lines, f"}}  // namespace {lib.name}", ""])


def cmake_file(lib: Library, object_name: str) -> str:
    """A target to link, and the test."""
    n = lib.name
    if object_name.endswith(".c"):
        return f"""# {MARK}: add_subdirectory, then target_link_libraries(yours {n}::{n})
cmake_minimum_required(VERSION 3.16)
project({n} LANGUAGES C)
add_library({n} STATIC {object_name})
add_library({n}::{n} ALIAS {n})
target_include_directories({n} PUBLIC ${{CMAKE_CURRENT_LIST_DIR}})
target_compile_options({n} PRIVATE $<$<C_COMPILER_ID:GNU,Clang,AppleClang>:-ffp-contract=off>)
set_target_properties({n} PROPERTIES C_STANDARD 99)
if(UNIX)
  target_link_libraries({n} PUBLIC m)
endif()
if(PROJECT_IS_TOP_LEVEL)
  enable_testing()
  add_executable(test_{n} test_{n}.c)
  target_link_libraries(test_{n} {n}::{n})
  add_test(NAME {n} COMMAND test_{n})
endif()
"""
    return f"""# {MARK}: add_subdirectory(this folder), then target_link_libraries(yours {n}::{n})
cmake_minimum_required(VERSION 3.16)
project({n} LANGUAGES C CXX)
add_library({n} INTERFACE)
add_library({n}::{n} ALIAS {n})
target_include_directories({n} INTERFACE ${{CMAKE_CURRENT_LIST_DIR}})
target_sources({n} INTERFACE ${{CMAKE_CURRENT_LIST_DIR}}/{object_name})
set_source_files_properties(${{CMAKE_CURRENT_LIST_DIR}}/{object_name}
                            PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
if(PROJECT_IS_TOP_LEVEL)
  enable_testing()
  add_executable(test_{n} test_{n}.c {object_name})
  set_source_files_properties({object_name} PROPERTIES EXTERNAL_OBJECT TRUE)
  add_test(NAME {n} COMMAND test_{n})
endif()
"""


# ---- Rust ----------------------------------------------------------------------------------------


def rust_crate(lib: Library, binary: bytes) -> dict[str, bytes]:
    """The files of the crate, in its folder."""
    names = [x for f in lib.functions for x in (f.name, f"{f.name}_batch" * bool(f.batch_bytes),
             f.rollout) if x]  # fmt: skip
    texts = {
        "rust/Cargo.toml": _cargo_manifest(lib),
        "rust/build.rs": _RUST_BUILD.replace("NAME", lib.name),
    }
    texts["rust/src/lib.rs"] = _rust_source(lib)
    files = {name: text.encode() for name, text in texts.items()}
    return files | {f"rust/lib{lib.name}.a": archive("code.o", binary, names)}


def archive(member: str, binary: bytes, symbols: list[str]) -> bytes:
    """A static library with one object and an index of its symbols, as `ar` writes it."""
    index = b"".join(s.encode() + b"\0" for s in symbols)
    size = 4 + 4 * len(symbols) + len(index)
    place = 8 + 60 + size + size % 2  # behind the index
    table = struct.pack(f">{1 + len(symbols)}I", len(symbols), *[place] * len(symbols)) + index
    return b"!<arch>\n" + _member("/", table) + _member(f"{member}/", binary)


def _member(name: str, content: bytes) -> bytes:
    assert len(name) <= 16, name
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode()
    return head + content + b"\n" * (len(content) % 2)


def _cargo_manifest(lib: Library) -> str:
    return f"""# {MARK}
[package]
name = "{lib.name}"
version = "0.1.0"
edition = "2021"
links = "{lib.name}"
"""


_RUST_BUILD = """fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    println!("cargo:rustc-link-search=native={here}");
    println!("cargo:rustc-link-lib=static=NAME");
    println!("cargo:rerun-if-changed=libNAME.a");
}
"""


def _rust_source(lib: Library) -> str:
    kind = {"double": "f64", "float": "f32"}[lib.number]
    lines = [
        f"//! {lib.text}, for {lib.target}; {MARK}.",
        "#![no_std]",
        "",
        f"pub const NQ: usize = {lib.model.nq};",
        f"pub const NV: usize = {lib.model.nv};",
        "",
        "/// Why a call failed: a code, and the body or constraint row, if it is one.",
        "#[derive(Clone, Copy, Debug, PartialEq, Eq)]",
        "pub struct Status(pub i32);",
        "",
        "impl Status {",
        "    pub fn text(self) -> &'static str {",
        "        match self.0 & 7 {",
        *(
            f'            {code} => "{text}",'
            for code, text in sorted(lib.functions[0].statuses.items())
        ),
        '            _ => "unknown",',
        "        }",
        "    }",
        "    pub fn body(self) -> Option<usize> {",
        "        usize::try_from((self.0 >> 3) - 1).ok()",
        "    }",
        "}",
        "",
    ]
    if not lib.static:
        lines += [
            "/// Memory that calls work in, one for every thread.",
            "#[repr(C, align(16))]",
            f"pub struct Work([u8; {max_work(lib)}]);",
            "",
            "impl Work {",
            "    pub const fn new() -> Self {",
            f"        Work([0; {max_work(lib)}])",
            "    }",
            "}",
            "",
        ]
    lines += ['extern "C" {']
    for f in lib.functions:
        takes = [f"{a.name}: {_rust_pointer(a, kind)}" for a in f.arguments]
        takes += [] if lib.static else ["work: *mut u8"]
        lines.append(f"    fn {f.name}({', '.join(takes)}) -> i32;")
    lines += ["}", ""]
    for f in lib.functions:
        lines += _rust_wrapper(lib, f, kind)
    return "\n".join(lines)


def _rust_pointer(a: ExportedArray, kind: str) -> str:
    return f"*{'const' if a.role == 'in' else 'mut'} {kind}"


def _rust_wrapper(lib: Library, f: ExportedFunction, kind: str) -> list[str]:
    takes = [
        f"{a.name}: &{'' if a.role == 'in' else 'mut '}[{kind}; {a.count}]" for a in f.arguments
    ]
    gives = [f"{a.name}.as_{'' if a.role == 'in' else 'mut_'}ptr()" for a in f.arguments]
    if not lib.static:
        takes.append("work: &mut Work")
        gives.append("work.0.as_mut_ptr()")
    notes = [f"/// {a.described}  " for a in f.arguments]
    call = f"unsafe {{ {f.name}({', '.join(gives)}) }}"
    return [
        *notes,
        f"pub fn {lib.short(f)}({', '.join(takes)}) -> Result<(), Status> {{",
        f"    match {call} {{",
        "        0 => Ok(()),",
        "        status => Err(Status(status)),",
        "    }",
        "}",
        "",
    ]


# ---- the test program ----------------------------------------------------------------------------


def test_program(lib: Library, references: Sequence[Reference]) -> str:
    """A program that compares the functions with reference numbers on the device.

    Without a main of its own (``-DNAME_NO_MAIN``) it needs no library: call ``NAME_test()``.
    """
    n, P = lib.name, lib.prefix
    lines = [
        f"/* Compares the functions of {n}.h with reference numbers; {MARK}.",
        f"   -D{P}_NO_MAIN leaves main out: call {n}_test(), which returns 0 if all is well. */",
        f'#include "{n}.h"',
        "",
    ]
    if not lib.static:
        lines += [
            "static union {",
            "  double aligned[2];",
            f"  unsigned char bytes[{P}_WORK + 16];",
            f"}} {n}_work;",
            "",
        ]
    tests: list[str] = []
    for i, r in enumerate(references):
        lines += _reference(lib, i, r)
        tests.append(f"  if ((failed = {n}_test_{i}())) return {1000 * (i + 1)} + failed;")
    lines += [
        f"int {n}_test(void) {{",
        "  int failed = 0;",
        *tests,
        "  return failed;",
        "}",
        "",
        f"#ifndef {P}_NO_MAIN",
        "#include <stdio.h>",
        "int main(void) {",
        f"  int failed = {n}_test();",
        *VERDICT,
        "}",
        "#endif",
        "",
    ]
    return "\n".join([*lines[:4], *comparison(lib), *lines[4:]])


def comparison(lib: Library) -> list[str]:
    """A function of C that says whether numbers differ from those wanted."""
    return [
        f"static int {lib.name}_differs(const {lib.number} *found, const {lib.number} *wanted,",
        f"                    int n, {lib.number} tolerance) {{",
        f"  {lib.number} largest = 0, gap = 0;",
        "  for (int i = 0; i < n; i++) {",
        f"    {lib.number} size = wanted[i] < 0 ? -wanted[i] : wanted[i];",
        f"    {lib.number} apart = found[i] < wanted[i] ? wanted[i] - found[i]",
        "                                               : found[i] - wanted[i];",
        "    if (size > largest) largest = size;",
        "    if (!(apart <= gap)) gap = apart; /* NaN too */",
        "  }",
        "  return !(gap <= tolerance * largest);",
        "}",
        "",
    ]


def _reference(lib: Library, number: int, r: Reference) -> list[str]:
    """The numbers of one function, and the function that compares them."""
    f, n = r.function, f"{lib.name}_{number}"
    lines = reference_tables(lib, number, r)
    for a in f.outputs:
        lines.append(f"static {lib.number} {n}_found_{a.name}[{max(1, a.count)}];")
    places = [
        f"{n}_given_{a.name}[i]" if a.role == "in" else f"{n}_found_{a.name}" for a in f.arguments
    ]
    work = [] if lib.static else [f"{lib.name}_work.bytes"]
    lines += [
        f"static int {lib.name}_test_{number}(void) {{",
        f"  for (int i = 0; i < {r.count}; i++) {{",
    ]
    for a in f.arguments:
        if a.role == "inout":
            put = f"{n}_found_{a.name}[j] = {n}_given_{a.name}[i][j];"
            lines.append(f"    for (int j = 0; j < {a.count}; j++) {put}")
    lines += [
        f"    int status = {f.name}({', '.join([*places, *work])});",
        "    if (status) return 100 + (status & 7);",
    ]
    for j, a in enumerate(f.outputs):
        found, want = f"{n}_found_{a.name}", f"{n}_wanted_{a.name}[i]"
        call = f"{lib.name}_differs({found}, {want}, {a.count}, {r.tolerance:.3g})"
        lines.append(f"    if ({call}) return {1 + j};")
    return [*lines, "  }", "  return 0;", "}", ""]


def reference_tables(lib: Library, number: int, r: Reference) -> list[str]:
    """Inputs and expected results of a function, as arrays of C."""
    f, n = r.function, f"{lib.name}_{number}"
    given = [(f"{n}_given_{a.name}", a, x) for a, x in zip(f.inputs, r.inputs, strict=True)]
    wanted = [(f"{n}_wanted_{a.name}", a, x) for a, x in zip(f.outputs, r.results, strict=True)]
    lines: list[str] = []
    for name, a, values in (*given, *wanted):
        rows = np.asarray(values, dtype=np.float64).reshape(r.count, -1)
        body = ",\n".join("  {" + ", ".join(_literal(lib, x) for x in row) + "}" for row in rows)
        kind = f"static const {lib.number}"
        lines.append(f"{kind} {name}[{r.count}][{max(1, a.count)}] = {{\n{body}}};")
    return lines


def _literal(lib: Library, x: float) -> str:
    return float(x).hex() + ("f" if lib.number == "float" else "")


# ---- README --------------------------------------------------------------------------------------


def readme(
    lib: Library, row: ExportTarget, code_bytes: int, references: Sequence[Reference | None]
) -> str:
    """The contents of the folder, and how to use them."""
    n, P, first = lib.name, lib.prefix, lib.functions[0]
    number = lib.number
    decls = [f"{number} {a.name}[{max(1, a.count)}];" for a in first.arguments]
    work = [] if lib.static else [f"{number} work[{P}_WORK / sizeof({number}) + 1];"]
    given = ", ".join([*(a.name for a in first.arguments), *([] if lib.static else ["work"])])
    table = [
        f"| `{f.name}` | {', '.join(a.name for a in f.inputs)} | "
        f"{', '.join(a.name for a in f.outputs)} | {f.work_bytes} |"
        for f in lib.functions
    ]
    flags, libraries = ("-std=c99 -O2 -ffp-contract=off ", " -lm") if row.is_source else ("", "")
    return "\n".join(
        [
            f"# {n}",
            "",
            f"{lib.text}, for {row.name} ({row.text}); {MARK}. "
            f"{code_bytes} bytes of {'C99' if row.is_source else 'code and tables'}.",
            "",
            "| function | takes | gives | bytes of work memory |",
            "|---|---|---|---|",
            *table,
            "",
            f"`{n}.h` says what every array is. Each function returns 0, or a status: "
            f"`{n}_status_text(status)` is its meaning, `{P}_STATUS_BODY(status)` the body.",
            "",
            "```c",
            f'#include "{n}.h"',
            *decls,
            *work,
            f"int status = {first.name}({given});",
            "```",
            "",
            f"Functions `…_batch` compute many configurations, {first.lanes} at once.",
            f"`{n}.hpp` has the same with spans (C++20). To check the device:",
            "",
            "```sh",
            f"cc {flags}test_{n}.c {n}{row.suffix} -o test_{n}{libraries} && ./test_{n}"
            "      # prints ok",
            "```",
            "",
            *notes(lib, f"test_{n}.c", references),
            *joint_table(lib),
        ]
    )


def notes(lib: Library, test: str, references: Sequence[Reference | None]) -> list[str]:
    """Remarks on tests, accuracy and helpers, as paragraphs."""
    untested = [f.name for f, r in zip(lib.functions, references, strict=True) if r is None]
    out = [f"`{test}` has no numbers for {', '.join(untested)}."] if untested else []
    out += [
        f"`{f.name}` in single precision against double: {f.accuracy}, as a fraction of the "
        "largest number of a result."
        for f in lib.functions
        if f.accuracy is not None
    ]
    if lib.helpers:
        out.append(
            "The processor computes these numbers by helper functions of the compiler's library "
            f"(libgcc, compiler-rt): {', '.join(lib.helpers)}."
        )
    return [*out, ""] if out else []


def joint_table(lib: Library) -> list[str]:
    """Where the numbers of every joint are."""
    joints = [
        f"| {comment(name)} | {kind} | {_range(q)} | {_range(v)} |"
        for name, kind, q, v in joint_rows(lib.model)
    ]
    return [
        "| joint | kind | in q | in v, vdot, tau |",
        "|---|---|---|---|",
        *joints,
        "",
        "Angles are in rad, lengths in m; a quaternion is w, x, y, z. Rates and forces of a "
        "free joint are those of its body in body axes, angular part first.",
        "",
    ]


def _range(s: slice) -> str:
    if s.stop <= s.start:
        return "none"
    return str(s.start) if s.stop == s.start + 1 else f"{s.start} to {s.stop - 1}"


def joint_rows(model: Model) -> list[tuple[str, str, Any, Any]]:
    """Name, kind, and places in q and v of every joint."""
    return [
        (name, joint.kind, model.q_slices[i], model.v_slices[i])
        for i, (name, joint) in enumerate(zip(model.joint_names, model.joints, strict=True))
    ]
