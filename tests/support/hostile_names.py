"""Mechanisms whose names try to break out of exported files, and what must come of them.

Every function exports such a mechanism and its twin with plain names, compiles and runs what was
written, and compares: code must not depend on names, and names that are data must arrive as they
are. Names follow from a seed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from exported_code import node_program, run

import phipsi as pp

STRICT = "-std=c99 -O0 -ffp-contract=off -Wall -Wextra -Werror -pedantic".split()
CANARY = "pwned"
_CALL = f'{CANARY}(); system("touch {CANARY}");'
FRAGMENTS = (
    "*/", "/*", "//", "*/\n#error x\n/*", f"*/ int {CANARY}(void) {{ return 1; }} /*", "\n", "\r\n",
    "\\", "\\\n", "??/", "??/\n", '"', '"; #error x', "'", "`", "```\n", "${process.exit(3)}",
    f"\nglobalThis.{CANARY} = 1; //", f"\n*/ globalThis.{CANARY} = 1; /*", f"\u2028{_CALL}",
    f"\u2029{_CALL}", f'\n#include <stdlib.h>\nint {CANARY} = 1;\n', '\ncompile_error!("x");\n',
    "\n}\n", "<script>alert(1)</script>", "<!--", "]]>", "-->", "&#10;", "&amp;", "<b>", "| a |",
    "[x](http://x)", "![x](y)", "http://x.example", "_em_", "**b**", "~~s~~", "$x^2$", "%s", "%n",
    "%08x", "RESULT", "RESULT_ROLL", "HEAP", "NAME", "TEXT", "MARK", "FIRST", "INPUTS", "NUMBERS",
    "LISTING", "STATUSES", "JOINTS", "\\u0022", "\\x22", "\\\"", "$(touch pwned)",
    "${CMAKE_C_FLAGS}", "\0", "\x01", "\x1b[31m", "\x7f", "\u202e", "\u200b", "\ufeff", "\ufffe",
    "é", "关节", "🤖",
    "__proto__", "constructor", "toString", "int", "double", "fn", "linux", "work", "n", "status",
    " ", "  ", ";", "}", "{", ")", "#", "#define X", "@", "=cmd|' /C calc'!A0", "x" * 300,
)  # fmt: skip


def hostile_names(seed: int, count: int) -> list[str]:
    """Different names, made of pieces that mean something in some language."""
    rng = np.random.default_rng(seed)
    out: dict[str, None] = {}
    while len(out) < count:
        parts = rng.choice(len(FRAGMENTS), size=rng.integers(1, 5))
        text = "".join(FRAGMENTS[i] for i in parts)
        out[text if rng.random() < 0.5 else f"joint{text}"] = None
    return list(out)


def plain_names(count: int) -> list[str]:
    return [f"name{i}" for i in range(count)]


def mechanism(names: list[str]) -> pp.Model:
    """Three bodies; the names of the robot, the bodies, their joints, and a frame."""
    robot, a, b, c, first, second, third, tip = names
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0.1, 0, 0), 0.1)
    kinds = (pp.joints.Revolute(), pp.joints.Prismatic((0, 1, 0)), pp.joints.Spherical())
    parent = "world"
    for body, joint, kind in zip((a, b, c), (first, second, third), kinds, strict=True):
        builder.add_body(body, parent=parent, joint=kind, inertia=inertia, joint_name=joint)
        parent = body
    builder.add_frame(tip, c)
    return pp.Model.from_dict(builder.build().to_dict() | {"name": robot})


COUNT = 8  # of names


def both(seed: int, folder: Path, **options: Any) -> tuple[pp.Model, Path, Path]:
    """The mechanism, its export, and that of its twin with plain names."""
    found = []
    for key, names in (("odd", hostile_names(seed, COUNT)), ("plain", plain_names(COUNT))):
        model = mechanism(names)
        programs = {
            "mass_matrix": pp.compile("mass_matrix", model, mode="dense", backend="native"),
            "tip_pose": pp.compile("frame_pose", model, points=[names[-1]], backend="native"),
        }
        found.append((model, pp.export(programs, folder / key, name="odd", **options).folder))
    return found[0][0], found[0][1], found[1][1]


def nothing_ran(folder: Path) -> None:
    """No command of a name has left a file."""
    assert not list(folder.rglob(f"*{CANARY}*"))


# ---- C, C++, CMake -------------------------------------------------------------------------------


def preprocessed(file: str, folder: Path, *words: str) -> str:
    """The code without comments and constants."""
    return run("gcc", "-std=c99", "-E", "-P", *words, file, cwd=folder)


_NAMES = """#include <stdio.h>
#include "odd.h"
int main(void) {
  static const char *const names[] = ODD_BODY_NAMES;
  for (int i = 0; i < ODD_BODIES; i++) { fputs(names[i], stdout); putchar(0x1e); }
  return 0;
}
"""


def check_c(seed: int, folder: Path) -> None:
    """The code is that of plain names, the test says ok, and body names are as they were."""
    model, odd, plain = both(seed, folder, target="c")
    for file in ("odd.c", "test_odd.c"):
        assert preprocessed(file, odd) == preprocessed(file, plain), file
    run("gcc", *STRICT, "test_odd.c", "odd.c", "-o", "t", "-lm", cwd=odd)
    assert run("./t", cwd=odd) == "ok"
    (odd / "names.c").write_text(_NAMES)
    run("gcc", *STRICT, "names.c", "-o", "names", cwd=odd)
    said = subprocess.run(["./names"], cwd=odd, capture_output=True, check=True).stdout
    whole = [x.partition("\0")[0] for x in model.body_names]  # strings of C end there
    assert said.split(b"\x1e")[:-1] == [x.encode() for x in whole]
    check_readme(model, odd)
    nothing_ran(folder)


def check_cmake(seed: int, folder: Path) -> None:
    """The project builds, and its test passes."""
    _, odd, plain = both(seed, folder, target="c")
    assert (odd / "CMakeLists.txt").read_text() == (plain / "CMakeLists.txt").read_text()
    run("cmake", "-B", "build", "-S", ".", cwd=odd)
    run("cmake", "--build", "build", cwd=odd)
    assert run("build/test_odd", cwd=odd) == "ok"
    nothing_ran(folder)


def check_object(seed: int, folder: Path) -> None:
    """The object for this machine with its headers of C and C++, and the crate for Rust."""
    model, odd, plain = both(seed, folder, target="host")
    assert (odd / "odd.o").read_bytes() == (plain / "odd.o").read_bytes()
    run("gcc", *STRICT, "test_odd.c", "odd.o", "-o", "t", cwd=odd)
    assert run("./t", cwd=odd) == "ok"
    (odd / "use.cpp").write_text('#include "odd.hpp"\nint main() { return 0; }\n')
    run("g++", "-std=c++20", "-Wall", "-Werror", "-fsyntax-only", "use.cpp", cwd=odd)
    for file in ("odd.hpp", "CMakeLists.txt", "rust/Cargo.toml", "rust/build.rs"):
        assert (odd / file).read_text() == (plain / file).read_text(), file
    sources = [(x / "rust/src/lib.rs").read_text().split("\n") for x in (odd, plain)]
    codes = [[x for x in lines if not x.startswith(("//!", "///"))] for lines in sources]
    assert codes[0] == codes[1]
    check_readme(model, odd)
    nothing_ran(folder)


def check_rust(seed: int, folder: Path) -> None:
    """The crate compiles without warnings."""
    _, odd, _ = both(seed, folder, target="host")
    words = ["--edition", "2021", "-D", "warnings", "--crate-type", "rlib", "--crate-name", "odd"]
    words += ["-L", "native=rust", "-l", "static=odd", "rust/src/lib.rs", "-o", "libodd.rlib"]
    run(shutil.which("rustc") or "rustc", *words, cwd=odd)
    nothing_ran(folder)


def check_gpu(seed: int, folder: Path) -> None:
    """PTX and code of the test are those of plain names; the header compiles."""
    model, odd, plain = both(seed, folder, target="nvptx64")
    assert (odd / "odd.ptx").read_text() == (plain / "odd.ptx").read_text()
    for where in (odd, plain):
        (where / "cuda.h").write_text("")
    assert preprocessed("test_odd.c", odd, "-I.") == preprocessed("test_odd.c", plain, "-I.")
    run("gcc", *STRICT, "-fsyntax-only", "-x", "c", "odd.h", cwd=odd)
    check_readme(model, odd)


def check_step(seed: int, folder: Path) -> None:
    """A step: parameters have the names of elements and laws."""
    names = hostile_names(seed, COUNT)
    model = mechanism(names)

    def held(q: Any, v: Any, table_0: Any, uint64_t: Any, var: Any, a1: Any) -> Any:
        return table_0 * v + 0.0 * (q[0] + uint64_t + var + a1)

    bound = {"table_0": -0.2, "uint64_t": 1.0, "var": 1.0, "a1": 0.0}
    sim = pp.Simulator(model, [pp.law(held).bind(**bound)], dt=1e-3)
    odd = pp.export({}, folder / "step", name="odd", step=sim, target="c").folder
    run("gcc", *STRICT, "test_odd.c", "odd.c", "-o", "t", "-lm", cwd=odd)
    assert run("./t", cwd=odd) == "ok"
    nothing_ran(folder)


# ---- WebAssembly ---------------------------------------------------------------------------------

_SAY = """import { joints, load } from "./odd.mjs";
import { test } from "./test_odd.mjs";
await load();
console.log(JSON.stringify({ joints: joints.map((x) => x.name), ok: await test(),
  ran: "pwned" in globalThis }));
"""


def check_web(seed: int, folder: Path) -> None:
    """The module runs, joints have their names, and its types are those of plain names."""
    model, odd, plain = both(seed, folder, target="wasm32")
    (odd / "say.mjs").write_text(_SAY)
    said = json.loads(run(node_program(), "say.mjs", cwd=odd))
    assert said == {"joints": list(model.joint_names), "ok": "ok", "ran": False}
    assert (odd / "odd.wasm").read_bytes() == (plain / "odd.wasm").read_bytes()
    types = [(x / "odd.d.mts").read_text() for x in (odd, plain)]
    codes = [re.sub(r"/\*\*.*?\*/", "", x, flags=re.DOTALL) for x in types]
    assert codes[0] == codes[1]
    check_readme(model, odd)
    nothing_ran(folder)


# ---- FMUs ----------------------------------------------------------------------------------------


def check_fmu(seed: int, folder: Path, *, fmi: str = "3.0", compiled: bool = True) -> None:
    """The code is that of plain names; the description is XML, and its names differ."""
    sources = []
    for key, names in (("odd", hostile_names(seed, COUNT)), ("plain", plain_names(COUNT))):
        (folder / key).mkdir()
        simulator = pp.Simulator(mechanism(names), dt=1e-3)
        path = pp.export_fmu(simulator, folder / key / "odd.fmu", fmi=fmi, binary=False)
        archive = zipfile.ZipFile(path)
        text = archive.read("sources/odd.c").decode()
        sources.append(text.partition("\n")[2])  # without the token
        root = ElementTree.fromstring(archive.read("modelDescription.xml"))
        listed = [x.get("name", "") for x in root.iter() if x.tag in ("Float64", "ScalarVariable")]
        assert len(listed) == len(set(listed)) > 20, listed
    assert sources[0] == sources[1]
    if compiled:
        (folder / "odd.c").write_text(sources[0])
        run("gcc", *STRICT, '-DTOKEN="x"', "-fsyntax-only", "odd.c", cwd=folder)
    nothing_ran(folder)


# ---- READMEs -------------------------------------------------------------------------------------


def check_readme(model: pp.Model, folder: Path) -> None:
    """Names are text there: no markup, no HTML, no links, and every joint is a row."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").enable("table").parse((folder / "README.md").read_text())
    assert not [x for x in tokens if x.type == "html_block"]
    inline = [x for x in tokens if x.type == "inline"]
    kinds = {child.type for x in inline for child in x.children or ()}
    assert kinds <= {"text", "code_inline", "softbreak", "text_special"}, kinds
    cells = [
        "".join(c.content for c in x.children or () if c.type != "code_inline") for x in inline
    ]
    if not (folder / "odd.wasm").exists():
        for name in model.joint_names:
            shown = "".join(c if c.isprintable() else "?" for c in name)
            assert shown.strip() in cells, shown


CHECKS = {
    "c": check_c,
    "cmake": check_cmake,
    "object": check_object,
    "rust": check_rust,
    "gpu": check_gpu,
    "step": check_step,
    "web": check_web,
    "fmu": check_fmu,
}
"""By what is exported; "cmake" and "rust" need those tools."""
