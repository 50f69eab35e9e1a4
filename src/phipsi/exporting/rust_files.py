"""A Rust crate around an exported object: references to arrays, no allocation, no `std`."""

from __future__ import annotations

import struct

from phipsi.exporting.c_files import MARK, Library, max_work
from phipsi.exporting.exported_module import ExportedArray, ExportedFunction


def rust_crate(lib: Library, binary: bytes) -> dict[str, bytes]:
    """The files of the crate, in its folder."""
    names = [x for f in lib.functions for x in (f.name, f"{f.name}_batch" * bool(f.batch_bytes),
             f.rollout) if x]  # fmt: skip
    texts = {"rust/Cargo.toml": _manifest(lib), "rust/build.rs": _BUILD.replace("NAME", lib.name)}
    texts["rust/src/lib.rs"] = _source(lib)
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


def _manifest(lib: Library) -> str:
    return f"""# {MARK}
[package]
name = "{lib.name}"
version = "0.1.0"
edition = "2021"
links = "{lib.name}"
"""


_BUILD = """fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    println!("cargo:rustc-link-search=native={here}");
    println!("cargo:rustc-link-lib=static=NAME");
    println!("cargo:rerun-if-changed=libNAME.a");
}
"""


def _source(lib: Library) -> str:
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
        takes = [f"{a.name}: {_pointer(a, kind)}" for a in f.arguments]
        takes += [] if lib.static else ["work: *mut u8"]
        lines.append(f"    fn {f.name}({', '.join(takes)}) -> i32;")
    lines += ["}", ""]
    for f in lib.functions:
        lines += _wrapper(lib, f, kind)
    return "\n".join(lines)


def _pointer(a: ExportedArray, kind: str) -> str:
    return f"*{'const' if a.role == 'in' else 'mut'} {kind}"


def _wrapper(lib: Library, f: ExportedFunction, kind: str) -> list[str]:
    takes = [
        f"{a.name}: &{'' if a.role == 'in' else 'mut '}[{kind}; {a.count}]" for a in f.arguments
    ]
    gives = [f"{a.name}.as_{'' if a.role == 'in' else 'mut_'}ptr()" for a in f.arguments]
    if not lib.static:
        takes.append("work: &mut Work")
        gives.append("work.0.as_mut_ptr()")
    notes = []
    for a in f.arguments:
        size = " x ".join(map(str, a.shape)) or "1"
        units = f" [{a.units}]" if a.units else ""
        notes.append(f"/// {a.name} ({a.role}, {size}){units}: {a.text}  ")
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
