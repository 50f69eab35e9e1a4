"""`pp.export` writes folders that C, C++, JavaScript and other processors run, all or nothing."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import playwright.sync_api as playwright
import pytest
from exported_code import node_program, run, tool
from known_systems import four_bar
from numpy.testing import assert_array_equal

import phipsi as pp
from phipsi import operators as ops
from phipsi.codegen.c_identifiers import identifier
from phipsi.codegen.export import undefined_symbols
from phipsi.codegen.named_programs import NAMED, programs_named
from phipsi.codegen.targets import TARGETS, target_named
from phipsi.codegen.webassembly import wasm_module
from phipsi.errors import InputError

WARNINGS = "-Wall -Wextra -Werror -pedantic".split()


@pytest.fixture(scope="module")
def arm() -> pp.Model:
    return pp.examples.planar_arm(3)


@pytest.fixture(scope="module")
def programs(arm: pp.Model) -> dict[str, pp.Program]:
    """All functions with names, one with several results and one with what is given."""
    what = [f"{n}:tip+link2" if NAMED[n].points else n for n in NAMED] + ["poses:tip+link2"]
    out = programs_named(arm, what, backend="native")
    out["several"] = pp.compile([ops.V, ops.logdet(ops.mass_matrix)], arm, backend="native")
    form = NAMED["forward_dynamics"].expression
    out["with_gravity"] = pp.compile(form, arm, inputs=["gravity"], backend="native")
    return out


@pytest.fixture(scope="module")
def folder(programs: dict[str, pp.Program], tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("host") / "arm"
    pp.export(programs, where, name="arm")
    return where


# ---- C and C++ -----------------------------------------------------------------------------------


@pytest.mark.parametrize("standard", ["c99", "c17"])
def test_the_test_program_says_ok(standard, folder, tmp_path):
    words = [
        tool("gcc"),
        f"-std={standard}",
        *WARNINGS,
        "test_arm.c",
        "arm.o",
        "-o",
        tmp_path / "t",
    ]
    run(*words, cwd=folder)
    assert run(tmp_path / "t", cwd=folder) == "ok"


def test_the_test_program_needs_no_library(folder, tmp_path):
    words = [
        tool("gcc"),
        "-ffreestanding",
        "-nostdlib",
        "-DARM_NO_MAIN",
        "-r",
        "test_arm.c",
        "arm.o",
    ]
    run(*words, "-o", tmp_path / "t.o", cwd=folder)
    left = undefined_symbols((tmp_path / "t.o").read_bytes())
    assert set(left) <= {"_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}


def test_the_test_program_finds_wrong_numbers(folder, tmp_path):
    text = (folder / "test_arm.c").read_text()
    wrong = re.sub(r"(_wanted_vdot\[4\]\[3\] = \{\n  \{)(-?)", r"\g<1>1.5 + \2", text, count=1)
    assert wrong != text
    (tmp_path / "wrong.c").write_text(wrong)
    run(tool("gcc"), f"-I{folder}", tmp_path / "wrong.c", folder / "arm.o", "-o", "t", cwd=tmp_path)
    done = subprocess.run([tmp_path / "t"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.startswith("FAILED: function 1")


def test_spans_of_cpp(folder, tmp_path):
    (tmp_path / "use.cpp").write_text(
        """#include <array>
#include <cstdio>
#include "arm.hpp"
int main() {
  std::array<double, ARM_NQ> q{0.1, 0.2, 0.3}, v{}, tau{}, vdot;
  arm::Work work;
  int status = arm::forward_dynamics(q, v, tau, vdot, work);
  for (double x : vdot) std::printf("%a ", x);
  return status;
}
"""
    )
    words = [tool("g++"), "-std=c++20", *WARNINGS, f"-I{folder}", "use.cpp", folder / "arm.o"]
    run(*words, "-o", "use", cwd=tmp_path)
    found = [float.fromhex(x) for x in run(tmp_path / "use", cwd=tmp_path).split()]
    arm = pp.examples.planar_arm(3)
    q, zero = np.array([0.1, 0.2, 0.3]), np.zeros(3)
    program = pp.compile(NAMED["forward_dynamics"].expression, arm, backend="native")
    assert_array_equal(found, program(q, zero, zero))
    short = "std::array<double, 2> q; arm::gravity_forces(q, q, work)"
    bad = (tmp_path / "use.cpp").read_text().replace("arm::Work work;", f"arm::Work work; {short};")
    (tmp_path / "bad.cpp").write_text(bad)
    compiler = [tool("g++"), "-std=c++20", f"-I{folder}", "-fsyntax-only", "bad.cpp"]
    assert subprocess.run(compiler, cwd=tmp_path, capture_output=True).returncode != 0


def test_the_header_says_what_arrays_are(folder, programs):
    text = (folder / "arm.h").read_text()
    assert "#define ARM_NQ 3 " in text and "#define ARM_V_JOINT2 1" in text
    assert "q (in, 3) [rad, m]" in text and "gravity (in, 3) [m/s^2]" in text
    listing = json.loads((folder / "export.json").read_text())
    assert [f["name"] for f in listing["functions"]] == [f"arm_{name}" for name in programs]
    found = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    assert sorted(found) == sorted(listing["files"])


def test_a_status_has_a_text_and_a_body(tmp_path):
    builder = pp.ModelBuilder()
    builder.add_body(
        "a", joint=pp.joints.Revolute(), inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.1)
    )
    nothing = pp.SpatialInertia(0.0, (0, 0, 0), 0.0)
    builder.add_body("b", parent="a", joint=pp.joints.Revolute(), inertia=nothing)
    light = builder.build()
    program = pp.compile(NAMED["forward_dynamics"].expression, light, backend="native")
    program.export(tmp_path / "light", name="light")
    (tmp_path / "use.c").write_text(
        """#include <math.h>
#include <stdio.h>
#include "light.h"
int main(void) {
  static const char *const names[] = LIGHT_BODY_NAMES;
  double q[2] = {0}, v[2] = {0}, tau[2] = {0}, vdot[2], work[LIGHT_WORK / 8 + 1];
  int status = light_forward_dynamics(q, v, tau, vdot, work);
  printf("%s, %s; ", light_status_text(status), names[LIGHT_STATUS_BODY(status)]);
  q[0] = NAN;
  puts(light_status_text(light_forward_dynamics(q, v, tau, vdot, work)));
  return 0;
}
"""
    )
    words = [tool("gcc"), *WARNINGS, "-Ilight", "use.c", "light/light.o", "-o", "use"]
    run(*words, cwd=tmp_path)
    said = run(tmp_path / "use", cwd=tmp_path)
    assert said == "hinge without inertia, b; not a finite number"


# ---- shared libraries, Rust ----------------------------------------------------------------------


def test_a_shared_library_is_loaded_by_ctypes(arm, tmp_path, monkeypatch):
    tool("cc")
    program = pp.compile(ops.mass_matrix, arm, mode="dense", backend="native")
    for _ in range(2):  # the second replaces the first
        found = pp.export({"mass": program}, tmp_path / "out", shared=True)
    library = ctypes.CDLL(str(found.folder / "librobot.so"))
    q, out, work = np.array([0.3, -0.2, 0.5]), np.zeros((3, 3)), np.zeros(2000)
    assert library.robot_mass(*(ctypes.c_void_p(x.ctypes.data) for x in (q, out, work))) == 0
    assert_array_equal(out, program(q))
    with pytest.raises(InputError, match="for the host"):
        pp.export({"mass": program}, tmp_path / "other", shared=True, target="riscv64")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="needs a linker"):
        pp.export({"mass": program}, tmp_path / "other", shared=True)
    assert os.listdir(tmp_path) == ["out"]


def test_objects_hide_their_functions_in_the_libraries_of_others(folder, tmp_path):
    (tmp_path / "own.c").write_text("int own(void) { return 1; }\n")
    words = [tool("gcc"), "-shared", "-fPIC", "own.c", folder / "arm.o", "-o", "own.so"]
    run(*words, cwd=tmp_path)
    library = ctypes.CDLL(str(tmp_path / "own.so"))
    assert library.own() == 1 and not hasattr(library, "arm_mass_matrix")


def test_the_rust_crate(folder, tmp_path):
    rustc = tool("rustc")
    (tmp_path / "use.rs").write_text(
        """fn main() {
    let (q, zero) = ([0.1, 0.2, 0.3], [0.0; arm::NV]);
    let (mut vdot, mut work) = ([0.0; arm::NV], arm::Work::new());
    arm::forward_dynamics(&q, &zero, &zero, &mut vdot, &mut work).unwrap();
    for x in vdot { print!("{:016x} ", x.to_bits()); }
    let bad = arm::forward_dynamics(&[f64::NAN; 3], &zero, &zero, &mut vdot, &mut work);
    print!("{}", bad.unwrap_err().text());
}
"""
    )
    here = ["-L", f"native={folder / 'rust'}"]
    crate = ["--crate-type", "rlib", "--crate-name", "arm", "-l", "static=arm", *here]
    run(
        rustc,
        "--edition",
        "2021",
        "-D",
        "warnings",
        *crate,
        folder / "rust/src/lib.rs",
        cwd=tmp_path,
    )
    words = ["--edition", "2021", "--extern", f"arm={tmp_path / 'libarm.rlib'}", *here, "use.rs"]
    run(rustc, *words, "-o", "use", cwd=tmp_path)
    *bits, text = run(tmp_path / "use", cwd=tmp_path).split(maxsplit=3)
    form = NAMED["forward_dynamics"].expression
    arm, zero = pp.examples.planar_arm(3), np.zeros(3)
    want = pp.compile(form, arm, backend="native")(np.array([0.1, 0.2, 0.3]), zero, zero)
    found = np.array([int(x, 16) for x in bits], dtype=np.uint64).view(np.float64)
    assert_array_equal(found, want)
    assert text == "not a finite number"


# ---- WebAssembly ---------------------------------------------------------------------------------

_CALL = """import { load, statusText, joints } from "./arm.mjs";
const arm = await load();
const bits = (a) => Array.from(new BigUint64Array(a.buffer, a.byteOffset, a.length), String);
const out = { bits: [], joints: joints.length };
for (const [q, v, tau] of STATES) out.bits.push(bits(arm.forward_dynamics(q, v, tau)));
out.keys = Object.keys(arm.several([0, 0, 0], [1, 2, 3]));
try { arm.forward_dynamics([NaN, 0, 0], [0, 0, 0], [0, 0, 0]); } catch (e) { out.text = e.message; }
try { arm.forward_dynamics([0], [0, 0, 0], [0, 0, 0]); } catch (e) { out.short = e.message; }
out.status = statusText(4);
console.log(JSON.stringify(out));
"""


@pytest.mark.parametrize("target", ["wasm32", "wasm32-simd"])
def test_webassembly_in_node(target, programs, arm, tmp_path):
    found = pp.export(programs, tmp_path / "web", name="arm", target=target)
    node = node_program()
    assert run(node, "test_arm.mjs", cwd=found.folder) == "ok"
    rng = np.random.default_rng(5)
    states = rng.standard_normal((5, 3, 3))
    call = _CALL.replace("STATES", json.dumps(states.tolist()))
    (tmp_path / "web" / "call.mjs").write_text(call)
    said = json.loads(run(node, "call.mjs", cwd=found.folder))
    form = NAMED["forward_dynamics"].expression
    want = pp.compile(form, arm, backend="native", reproducible=True)(*states.swapaxes(0, 1))
    assert_array_equal(np.array(said["bits"], dtype=np.uint64).view(np.float64), want)
    assert (
        said["text"]
        == "forward_dynamics: not a finite number"
        == f"forward_dynamics: {said['status']}"
    )
    assert said["short"] == "forward_dynamics: q has 3 numbers, not 1"
    assert said["keys"] == ["result1", "result2"] and said["joints"] == 3


def test_webassembly_in_a_browser(programs, tmp_path):
    found = pp.export({"mass_matrix": programs["mass_matrix"]}, tmp_path / "web", target="wasm32")
    kinds = {".mjs": "text/javascript", ".wasm": "application/wasm", ".html": "text/html"}
    (found.folder / "index.html").write_text("<!doctype html><title>x</title>")

    def answer(route: Any) -> None:
        file = found.folder / route.request.url.rpartition("/")[2]
        route.fulfill(body=file.read_bytes(), content_type=kinds[file.suffix])

    browser = shutil.which("chromium") or tool("chromium-browser")
    with playwright.sync_playwright() as play:
        window = play.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
        )
        tab = window.new_page()
        tab.route("http://robot.example/*", answer)
        tab.goto("http://robot.example/index.html")
        said = tab.evaluate("import('/test_robot.mjs').then((m) => m.test())")
        window.close()
    assert said == "ok"


def test_objects_that_are_not_webassembly_or_need_more_are_rejected(programs):
    with pytest.raises(InputError, match="not a WebAssembly object"):
        wasm_module(b"\x7fELF\2\1\1\0", 0)
    target = TARGETS["wasm32"].target
    text = "declare double @sin(double)\ndefine double @f(double %x) {\n"
    text += "  %y = call double @sin(double %x)\n  ret double %y\n}\n"
    with pytest.raises(InputError, match=r"calls env\.sin, a library function"):
        wasm_module(target.object_code(text), 0)


def test_an_address_before_the_data_stays_negative(tmp_path):
    """LLVM adds indices that do not begin at zero to an address before the table."""
    numbers = ", ".join(f"double {x}.0" for x in (1, 2, 3, 4))
    text = (
        f"@table = private constant [4 x double] [{numbers}]\n"
        + """
    define void @f(ptr %out, i64 %i) {
      %k = sub i64 %i, 5000
      %p = getelementptr double, ptr @table, i64 %k
      %x = load double, ptr %p
      store double %x, ptr %out
      ret void
    }"""
    )
    module = wasm_module(TARGETS["wasm32"].target.object_code(text), 8)
    (tmp_path / "f.wasm").write_bytes(module.binary)
    script = """const bytes = require("fs").readFileSync("f.wasm");
    WebAssembly.instantiate(bytes, {}).then(({ instance }) => {
      const { f, memory } = instance.exports, out = new Float64Array(memory.buffer, HEAP, 1);
      console.log([0, 1, 2, 3].map((i) => (f(HEAP, BigInt(5000 + i)), out[0])).join(" "));
    });"""
    words = [node_program(), "-e", script.replace("HEAP", str(module.heap))]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["1", "2", "3", "4"], done.stderr


# ---- other targets -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n, row in TARGETS.items() if not row.is_gpu])
def test_every_target_has_an_object_without_undefined_symbols(name, arm, tmp_path, monkeypatch):
    monkeypatch.setenv("PHIPSI_LLVM_EFFORT", "3")
    program = pp.compile(NAMED["forward_dynamics"].expression, arm, backend="native")
    found = program.export(tmp_path / name, target=name)
    row = TARGETS[name]
    (object_name,) = [f for f in found.files if f.endswith((".o", ".obj", ".wasm"))]
    binary = (found.folder / object_name).read_bytes()
    helpers = undefined_symbols(binary)
    if not row.is_wasm:
        sections = llvm.ObjectFileRef.from_data(binary).sections()
        changing = (b".data", b".bss", b"__data", b"__bss")
        assert not sum(x.size() for x in sections if (x.name() or b"").startswith(changing))
    text = (found.folder / "README.md").read_text()
    if row.software:
        assert all(h.startswith("__aeabi_d") or h == "sqrt" for h in helpers), helpers
        assert helpers[0] in text
    else:
        assert helpers == ()
    assert 1000 < found.code_bytes < 40_000


# ---- bad input: a clear error, and nothing is written --------------------------------------------


def test_names_may_be_longer_than_those_of_archives(arm, tmp_path):
    name = "a" * 63
    found = pp.export(arm, tmp_path / "long", what="forward_dynamics", name=name)
    assert f"rust/lib{name}.a" in found.files and found.functions[0].name.startswith(name)


def test_functions_of_a_mechanism_by_name(arm, tmp_path):
    found = pp.export(arm, tmp_path / "a", name="arm", target="cortex-m7")
    assert [f.name for f in found.functions] == ["arm_forward_dynamics", "arm_inverse_dynamics"]
    found = pp.export(arm, tmp_path / "a", what=["jacobian:tip"], target="cortex-m7")
    assert [f.name for f in found.functions] == ["robot_jacobian_tip"]
    whole = programs_named(arm, "poses,poses:tip")
    q = np.array([0.3, -0.4, 0.5])
    assert_array_equal(whole["poses"](q), pp.poses(arm, q))
    assert_array_equal(whole["poses_tip"](q), pp.poses(arm, q, ["tip"]))
    system = four_bar()
    found = pp.export(system, tmp_path / "a", target="cortex-m7")
    assert [f.name for f in found.functions] == ["robot_forward_dynamics"]
    for what in ("inverse_dynamics", "bias_forces", "gravity_forces", "mass_matrix_inverse"):
        with pytest.raises(
            InputError, match=f"{what} cannot be exported by name for a mechanism with constraints"
        ):
            pp.export(system, tmp_path / "b", what=what)
    touching = pp.System(arm, contacts=pp.Contacts(arm, ground=False))
    with pytest.raises(InputError, match=r"forces of contacts.*step=pp\.Simulator"):
        pp.export(touching, tmp_path / "b")
    with pytest.raises(InputError, match="what=3 is not the name"):
        pp.export(arm, tmp_path / "b", what=[3])  # type: ignore[list-item]
    for folder in (None, "", 3):
        with pytest.raises(
            InputError, match="is not a path of a folder. For example  folder='robot'"
        ):
            pp.export(arm, folder)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"target": "cortex-m8"},
            "'cortex-m8' is not one of 'host', .*Did you mean 'cortex-m7'",
        ),
        ({"target": None}, "target=None is not one of"),
        ({"name": "my robot"}, "is not a C identifier.*name='my_robot'"),
        ({"name": "int"}, r"is a reserved word of C or C\+\+, .*name='int_'"),
        ({"name": "loop"}, "'loop' is a reserved word of Rust, .*name='loop_'"),
        ({"name": "debugger"}, "is a reserved word of JavaScript"),
        ({"name": "7up"}, "name='x_7up'"),
        ({"name": 3}, "name=3 must be a C identifier"),
        ({"name": "a" * 300}, "has 300 characters; .* first 63.*name='aaaaaaaaaaaaaaaaaaaa'"),
        ({"what": "forward_dynamics"}, "what= names functions of a mechanism"),
        ({"scratch": "heap"}, "scratch='heap' is not one of"),
        ({"precision": "half"}, "precision='half' is not one of"),
    ],
)
def test_bad_options(options, match, programs, tmp_path):
    with pytest.raises(InputError, match=match):
        pp.export(programs, tmp_path / "out", **options)
    assert not os.listdir(tmp_path)


def test_bad_programs(programs, arm, tmp_path):
    other = pp.compile(ops.V, pp.examples.planar_arm(2), backend="native")
    cases = [
        ({}, "no program"),
        ("text", "is neither a program nor a mechanism"),
        ({"a b": programs["several"]}, "function='a b' is not a C identifier"),
        ({"f": ops.V}, "f: .* is not a program; pp.compile returns one"),
        ({"f": programs["several"], "g": other}, "f, g are programs of 2 mechanisms"),
        (pp.compile(ops.mass_matrix, arm, blocks=[("link1", "link2")], mode="blocks",
                    backend="native"), "blocks= selects"),
    ]  # fmt: skip
    for given, match in cases:
        with pytest.raises(InputError, match=match):
            pp.export(given, tmp_path / "out")
    with pytest.raises(InputError, match=r"Did you mean 'forward_dynamics'\?"):
        programs_named(arm, ["forward_dynamic"])
    with pytest.raises(InputError, match="jacobian needs points; write  jacobian:link3"):
        programs_named(arm, ["jacobian"])
    with pytest.raises(InputError, match=r"'frame_poses' to export. .* Did you mean 'poses'\?"):
        programs_named(arm, ["frame_poses:tip"])
    assert not os.listdir(tmp_path)


def test_a_program_that_is_too_large(programs, tmp_path, monkeypatch):
    small = replace(TARGETS["cortex-m7"], ram=100)
    monkeypatch.setitem(TARGETS, "cortex-m7", small)
    with pytest.raises(InputError, match="kB of RAM, but the largest cortex-m7 has 0 kB"):
        pp.export(programs["mass_matrix"], tmp_path / "out", target="cortex-m7")
    monkeypatch.setitem(TARGETS, "cortex-m7", replace(small, flash=1024))
    with pytest.raises(InputError, match="kB of flash"):
        pp.export(programs["mass_matrix"], tmp_path / "out", target="cortex-m7")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "found"),
    [("tool0", "tool0"), ("left arm/joint-1", "left_arm_joint_1"), ("for", "for_"), ("é", "x"),
     ("1st", "_1st"), ("*/ #define x", "define_x")],
)  # fmt: skip
def test_names_in_c(name, found):
    assert identifier(name) == found


def test_names_from_files_stay_inside_comments_and_strings(tmp_path):
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia(1.0, (0, 0, 0), 0.1)
    nasty = '*/ #error "x" \\'
    builder.add_body(nasty, joint=pp.joints.Revolute(), inertia=inertia, joint_name="??/ */ é")
    program = pp.compile(ops.mass_matrix, builder.build(), mode="dense", backend="native")
    found = program.export(tmp_path / "out", name="odd")
    words = [tool("gcc"), "-std=c99", *WARNINGS, "test_odd.c", "odd.o", "-o", tmp_path / "t"]
    run(*words, cwd=found.folder)
    assert run(tmp_path / "t", cwd=tmp_path) == "ok"
    assert target_named("host").target.triple
