"""Files around exported code: C++ header, CMake, Rust crate, READMEs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from phipsi.codegen.c_headers_and_tests import (
    UNTESTED,
    decimal,
    default_name,
    gpu_kernels,
    max_work,
)
from phipsi.codegen.exported_module import MARK, ExportedArray, ExportedFunction, Library
from phipsi.codegen.quoted_texts import markdown
from phipsi.codegen.reference_numbers import ReferenceResults
from phipsi.codegen.targets import ExportTarget
from phipsi.core.model import Model

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
    names = [x for f in lib.functions for x in f.signatures(lib.number, static=lib.static)]
    texts = {
        "rust/Cargo.toml": _cargo_manifest(lib),
        "rust/build.rs": _RUST_BUILD.replace("NAME", lib.name),
        "rust/src/lib.rs": _rust_source(lib),
    }
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
        f"//! {markdown(lib.text)}, for {lib.target}; {MARK}.",
        "#![no_std]",
        "",
        f"pub const NQ: usize = {lib.model.nq};",
        f"pub const NV: usize = {lib.model.nv};",
        "",
        "/// Why a call failed: a code, and the body or constraint row, if there is one.",
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
    notes = [f"/// {markdown(a.described)}  " for a in f.arguments]
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


# ---- READMEs -------------------------------------------------------------------------------------


def readme(
    lib: Library, row: ExportTarget, code_bytes: int, references: Sequence[ReferenceResults | None]
) -> str:
    """The contents of the folder, and how to use them."""
    n, P, first = lib.name, lib.prefix, lib.functions[0]
    number = lib.number
    decls = [f"{number} {a.name}[{max(1, a.count)}];" for a in first.arguments]
    work = [] if lib.static else [f"{number} work[{P}_WORK / sizeof({number}) + 1];"]
    given = ", ".join([*(a.name for a in first.arguments), *([] if lib.static else ["work"])])
    table = [
        f"| `{name}` | {', '.join([*lead, *(a.name for a in f.inputs)])} | "
        f"{', '.join(a.name for a in f.outputs)} | {f.work_bytes} |"
        for f in lib.functions
        for name, lead in ((f.name, []), *([(f.rollout, ["n"])] if f.rollout else []))
    ]
    flags, libraries = ("-std=c99 -O2 -ffp-contract=off ", " -lm") if row.is_source else ("", "")
    return "\n".join(
        [
            f"# {n}",
            "",
            f"{markdown(lib.text)}, for {row.name} ({row.text}); {MARK}. "
            f"{code_bytes} bytes of {'C99' if row.is_source else 'code and tables'}.",
            "",
            "| function | inputs | outputs | bytes of work memory |",
            "|---|---|---|---|",
            *table,
            "",
            f"`{n}.h` describes every array. Each function returns 0 or a status: "
            f"`{n}_status_text(status)` is its meaning, `{P}_STATUS_BODY(status)` the body.",
            "",
            *(
                ["```c", f'#include "{n}.h"', *decls, *work]
                + [f"int status = {first.name}({given});", "```", ""]
                if first.dt is None
                else []
            ),
            *_step_example(lib),
            *(
                [f"Functions `…_batch` compute many configurations, {first.lanes} at a time."]
                if first.batch_bytes
                else []
            ),
            f"`{n}.hpp` has the same interface with spans (C++20). To test it on the device:",
            "",
            "```sh",
            f"cc {flags}test_{n}.c {n}{row.suffix} -o test_{n}{libraries} && ./test_{n}"
            "      # prints ok",
            "```",
            "",
            *notes(lib, f"test_{n}.c", references),
            *_joint_table(lib),
        ]
    )


def _step_example(lib: Library) -> list[str]:
    """A program that takes steps from the initial state, with default parameters."""
    f = next((f for f in lib.functions if f.dt is not None), None)
    if f is None or f.dt is None:
        return []
    n, P, number = lib.name, lib.prefix, lib.number
    zero = "{0}"
    declared, given, missing = list[str](), list[str](), list[str]()
    for a in f.arguments:
        first = a.first
        constant = default_name(lib, a)
        if a.role == "in" and first and a.name != "tau":
            given.append(constant)
            continue
        given.append(a.name)
        if first is None and a.role == "in":
            missing.append(a.name)
        if first and any(first):
            listed = ", ".join(decimal(x, "f" if number == "float" else "") for x in first)
            declared.append(f"  {number} {a.name}[{max(1, a.count)}] = {{{listed}}};")
        else:
            note = " /* no default: set it */" if first is None else ""
            declared.append(f"  {number} {a.name}[{max(1, a.count)}] = {zero};{note}")
    if not lib.static:
        declared.append(f"  {number} work[{P}_WORK / sizeof({number}) + 1];")
        given.append("work")
    return [
        f"A step takes {f.dt:g} s (`{P}_DT`), and changes the state in place. `{f.rollout}` takes "
        f"n steps. The header has the initial state (`{n}_initial_…`) and the default values of "
        f"parameters (`{n}_default_…`). One second of simulated time:",
        "",
        "```c",
        f'#include "{n}.h"',
        "",
        "int main(void) {",
        *declared,
        f"  for (int i = 0; i < {max(1, round(1 / f.dt))}; i++) {{",
        f"    int status = {f.name}({', '.join(given)});",
        "    if (status) return status;",
        "  }",
        "  return 0;",
        "}",
        "```",
        "",
        *([f"Arrays without default values: {', '.join(missing)}.", ""] if missing else []),
    ]


def notes(lib: Library, test: str, references: Sequence[ReferenceResults | None]) -> list[str]:
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


def _joint_table(lib: Library) -> list[str]:
    """Where the numbers of every joint are."""
    joints = [
        f"| {markdown(name)} | {markdown(kind)} | {_range(q)} | {_range(v)} |"
        for name, kind, q, v in joint_rows(lib.model)
    ]
    return [
        "| joint | kind | in q | in v, vdot, tau |",
        "|---|---|---|---|",
        *joints,
        "",
        "Angles are in rad, lengths in m; a quaternion is w, x, y, z. Velocities and forces of a "
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


def gpu_readme(
    lib: Library, row: ExportTarget, references: Sequence[ReferenceResults | None]
) -> str:
    """The contents of the folder, and how to use them."""
    n, first = lib.name, lib.functions[0]
    table = [
        f"| `{name}` | {', '.join([*lead, *(a.name for a in f.arguments), 'status'])} | "
        f"{f.work_bytes} |"
        for f in lib.functions
        for name, lead in gpu_kernels(f)
    ]
    given = ", ".join(f"&{x}" for x in ["n", *(a.name for a in first.arguments), "status"])
    return "\n".join(
        [
            f"# {n}",
            "",
            f"{markdown(lib.text)}, for {row.name} ({row.text} or later); {MARK}. {UNTESTED}",
            "",
            "| kernel | parameters | bytes of local memory per thread |",
            "|---|---|---|",
            *table,
            "",
            f"`{n}.h` describes every array; row i belongs to thread i. `status[i]` is 0, or "
            f"`{n}_status_text(status[i])` is its meaning.",
            "",
            "```c",
            f'cuModuleLoad(&module, "{n}.ptx");',
            f"cuModuleGetFunction(&kernel, module, {first.name.upper()}_BATCH);",
            f"void *given[] = {{{given}}};",
            "cuLaunchKernel(kernel, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream, given, 0);",
            "```",
            "",
            "To check the device:",
            "",
            "```sh",
            f"cc test_{n}.c -I/usr/local/cuda/include -lcuda -o test_{n} && ./test_{n}"
            "      # prints ok",
            "```",
            "",
            *notes(lib, f"test_{n}.c", references),
            *_joint_table(lib),
        ]
    )
