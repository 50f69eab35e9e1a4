"""Two exports in one program: they are linked, and each runs with its own equations."""

from __future__ import annotations

import ctypes
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported_code import node_program, run, tool
from known_systems import four_bar, rolling_ball
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.errors import InputError

pytestmark = pytest.mark.quick_code
STRICT = "-std=c99 -O0 -ffp-contract=off -Wall -Wextra -Werror -pedantic".split()
LENGTHS = {"little": (0.5, 1.2, 1.0), "large": (0.6, 1.5, 1.3)}
STARTS = {name: np.array([1.0, -1.0, -1.5]) for name in LENGTHS}


@pp.law
def hold(q: Any, v: Any, kp: Any) -> Any:
    return -kp * q - 0.3 * v


def simulator(name: str, integrator: str = "rk4") -> pp.Simulator:
    return pp.Simulator(four_bar(LENGTHS[name]), [hold.bind(kp=2.0)], 1e-3, integrator=integrator)


def programs(sim: pp.Simulator) -> dict[str, pp.Program]:
    return {
        "mass_matrix": pp.compile("mass_matrix", sim.model, mode="dense", backend="native"),
        "dynamics": pp.compile("mass_matrix", sim.model, backend="native"),
    }


def exported(folder: Path, *, steps: bool = True, **options: Any) -> dict[str, Path]:
    """Two mechanisms with equal sizes, each with programs and a step."""
    out = {}
    for name in LENGTHS:
        sim = simulator(name)
        options["step"] = sim if steps else None
        out[name] = pp.export(programs(sim), folder / name, name=name, **options).folder
    return out


MAIN = """#include <stdio.h>
int little_test(void);
int large_test(void);
int main(void) { printf("%d %d %d", little_test(), large_test(), little_test()); return 0; }
"""


@pytest.mark.parametrize("scratch", ["caller", "static"])
@pytest.mark.parametrize("target", ["c", "host"])
def test_two_libraries_are_linked_into_one_program(target, scratch, tmp_path):
    """Loops among them, whose equations are functions of their own inside."""
    exported(tmp_path, target=target, scratch=scratch)
    (tmp_path / "main.c").write_text(MAIN)
    words = [f"{n}/test_{n}.c" for n in LENGTHS]
    words += [f"{n}/{n}.{'c' if target == 'c' else 'o'}" for n in LENGTHS]
    flags = ["-DLITTLE_NO_MAIN", "-DLARGE_NO_MAIN"]
    run(tool("gcc"), *STRICT, *flags, "main.c", *words, "-o", "both", "-lm", cwd=tmp_path)
    assert run(tmp_path / "both", cwd=tmp_path) == "0 0 0"
    for name in LENGTHS:
        text = (tmp_path / name / f"test_{name}.c").read_text()
        assert f"{name}_step(" in text and 'puts("ok");' in text  # all are compared


def test_the_source_of_a_step_with_contacts_hides_what_it_has_inside(tmp_path):
    sim = pp.Simulator(rolling_ball(), dt=1e-3, integrator="time_stepping")
    pp.export({}, tmp_path, name="ball", target="c", step=sim)
    text = (tmp_path / "ball.c").read_text()
    heads = re.findall(r"^(\w[^;{=]*)\([^;]*\)\n\{", text, re.MULTILINE)
    assert sorted(x for x in heads if not x.startswith("static")) == [
        "int ball_rollout",
        "int ball_step",
    ]
    assert len(heads) > 5


def symbols(binary: Path) -> set[str]:
    """What others may call or take the place of."""
    listed = run(tool("nm"), "--defined-only", "--extern-only", binary, cwd=binary.parent)
    return {line.split()[-1] for line in listed.splitlines()}


@pytest.mark.parametrize("target", ["c", "host", "riscv64"])
def test_every_symbol_has_the_name_of_its_library(target, tmp_path):
    folders = exported(tmp_path, target=target)
    for name, folder in folders.items():
        if target == "c":
            run(tool("gcc"), *STRICT, "-c", f"{name}.c", "-o", f"{name}.o", cwd=folder)
        found = symbols(folder / f"{name}.o")
        wanted = {f"{name}_{x}" for x in ("mass_matrix", "dynamics", "step", "rollout")}
        assert wanted <= found <= wanted | {f"{x}_batch" for x in wanted}


def test_a_kernel_of_a_gpu_has_the_name_of_its_library(tmp_path):
    for name, folder in exported(tmp_path, target="nvptx64").items():
        text = (folder / f"{name}.ptx").read_text()
        found = re.findall(r"\.(?:visible|weak|extern) \.\w+\s+(?:\([^)]*\)\s*)?(\w+)", text)
        assert found and all(x.startswith(f"{name}_") for x in found), found


@pytest.mark.parametrize("how", ["c", "host"])
def test_libraries_of_one_name_do_not_run_each_other(how, tmp_path):
    """Both are called robot, and the names of the first are global for the process."""
    libraries, wanted = [], []
    for name in LENGTHS:
        sim, folder = simulator(name), tmp_path / name
        found = pp.export({}, folder, step=sim, target=how, shared=how == "host")
        place = folder / "librobot.so"
        if how == "c":
            words = ["-shared", "-fPIC", "robot.c", "-o", place, "-lm"]
            run(tool("gcc"), *STRICT, *words, cwd=folder)
        libraries.append(ctypes.CDLL(str(place), mode=ctypes.RTLD_GLOBAL))
        q = sim.compiled.mechanism.assemble(STARTS[name])
        state = sim.initial_state(q)
        given = {n: np.array(x, dtype=float) for n, x in state.arrays().items()}
        plan = sim.compiled.plan()
        arrays = [np.ascontiguousarray(given[n]) for n in plan.states]
        arrays += [np.zeros(1), np.zeros(3), *(np.ascontiguousarray(given[n]) for n in plan.shared)]
        arrays.append(np.zeros(found.functions[0].work_bytes // 8))
        sim.step(state)
        wanted.append((arrays, list(plan.states).index("q"), state.q))
    for library, (arrays, place, q) in zip(libraries, wanted, strict=True):
        assert library.robot_step(*(ctypes.c_void_p(x.ctypes.data) for x in arrays)) == 0
        assert_allclose(arrays[place].ravel(), np.ravel(q), rtol=0, atol=1e-13)


def test_two_folders_in_one_cmake_project(tmp_path):
    exported(tmp_path, steps=False, target="c")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(both LANGUAGES C)\n"
        "add_subdirectory(little)\nadd_subdirectory(large)\n"
        "add_executable(both main.c little/test_little.c large/test_large.c)\n"
        "target_compile_definitions(both PRIVATE LITTLE_NO_MAIN LARGE_NO_MAIN)\n"
        "target_link_libraries(both little::little large::large)\n"
    )
    (tmp_path / "main.c").write_text(MAIN)
    run(tool("cmake"), "-B", "build", "-S", ".", cwd=tmp_path)
    run(tool("cmake"), "--build", "build", cwd=tmp_path)
    assert run(tmp_path / "build/both", cwd=tmp_path) == "0 0 0"


def test_two_headers_of_cpp_and_two_modules_of_webassembly(tmp_path):
    exported(tmp_path / "host", target="host")
    text = '#include "little/little.hpp"\n#include "large/large.hpp"\nint main() { return 0; }\n'
    (tmp_path / "host/use.cpp").write_text(text)
    run(tool("g++"), "-std=c++20", "-Wall", "-Werror", "-fsyntax-only", "use.cpp",
        cwd=tmp_path / "host")  # fmt: skip
    exported(tmp_path / "web", target="wasm32")
    (tmp_path / "web/both.mjs").write_text(
        'import { test as a } from "./little/test_little.mjs";\n'
        'import { test as b } from "./large/test_large.mjs";\n'
        "console.log(await a(), await b(), await a());\n"
    )
    assert run(node_program(), "both.mjs", cwd=tmp_path / "web") == "ok ok ok"


def test_two_crates_in_one_program(tmp_path):
    rustc = tool("rustc")
    words = []
    for name, folder in exported(tmp_path, steps=False, target="host").items():
        here = ["-L", f"native={folder / 'rust'}"]
        crate = ["--crate-type", "rlib", "--crate-name", name, "-l", f"static={name}", *here]
        run(rustc, "--edition", "2021", *crate, folder / "rust/src/lib.rs", cwd=tmp_path)
        words += ["--extern", f"{name}={tmp_path / f'lib{name}.rlib'}", *here]
    (tmp_path / "use.rs").write_text(
        """fn main() {
    let (q, mut a, mut b) = ([0.1, 0.2, 0.3], [0.0; 9], [0.0; 9]);
    little::mass_matrix(&q, &mut a, &mut little::Work::new()).unwrap();
    large::mass_matrix(&q, &mut b, &mut large::Work::new()).unwrap();
    print!("{:e} {:e}", a[0], b[0]);
}
"""
    )
    run(rustc, "--edition", "2021", *words, "use.rs", "-o", "use", cwd=tmp_path)
    found = [float(x) for x in run(tmp_path / "use", cwd=tmp_path).split()]
    want = [pp.mass_matrix(simulator(n).model, np.array([0.1, 0.2, 0.3]))[0, 0] for n in LENGTHS]
    assert_allclose(found, want, rtol=1e-12)


def test_two_fmus_in_one_program(tmp_path):
    """Tools that link sources give every FMU a prefix."""
    for name in LENGTHS:
        sim = simulator(name)
        q = sim.compiled.mechanism.assemble(STARTS[name])
        options: Any = {"q": q, "binary": False, "derivatives": False}
        path = pp.export_fmu(sim, tmp_path / f"{name}.fmu", **options)
        (tmp_path / f"{name}.c").write_bytes(zipfile.ZipFile(path).read(f"sources/{name}.c"))
        prefix = f"-DFMI3_FUNCTION_PREFIX={name}_"
        run(tool("gcc"), *STRICT, prefix, "-c", f"{name}.c", "-o", f"{name}.o", cwd=tmp_path)
        assert all(x.startswith(f"{name}_fmi3") for x in symbols(tmp_path / f"{name}.o"))
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\nconst char *little_fmi3GetVersion(void);\n"
        "const char *large_fmi3GetVersion(void);\nint main(void)\n"
        "{ puts(little_fmi3GetVersion()); puts(large_fmi3GetVersion()); return 0; }\n"
    )
    words = ["main.c", "little.o", "large.o", "-o", "both", "-lm"]
    run(tool("gcc"), *words, cwd=tmp_path)
    assert run(tmp_path / "both", cwd=tmp_path).split() == ["3.0", "3.0"]


@pytest.mark.parametrize(
    ("name", "key", "match"),
    [
        ("phipsi", "reduce", "phipsi_reduce is a name that .* uses internally.*name='my_phipsi'"),
        ("phipsi_x", "f", "uses internally"),
        ("bits", "of", "bits_of is a name that the exported code uses internally"),
        ("arm", "test", "'test': this name belongs to the test in the exported files"),
        ("arm", "Status", "'Status': this name belongs to the statuses"),
        ("arm", "then", "JavaScript"),
    ],
)
def test_names_that_the_code_uses_inside_are_rejected(name, key, match, tmp_path):
    program = pp.compile("mass_matrix", pp.examples.planar_arm(2), mode="dense", backend="native")
    with pytest.raises(InputError, match=match):
        pp.export({key: program}, tmp_path / "out", name=name)
    assert not list(tmp_path.iterdir())
