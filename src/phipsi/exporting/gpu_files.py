"""The files around PTX: a header that names kernels and arrays, a test for CUDA's driver.

Reasons: docs/decisions/0049.
"""

from __future__ import annotations

from collections.abc import Sequence

from phipsi.exporting import native_files
from phipsi.exporting.exported_module import MARK, ExportedFunction, Library
from phipsi.exporting.reference_numbers import Reference
from phipsi.exporting.targets import ExportTarget

_UNTESTED = "ptxas accepts this code; it has not been run on a GPU."


def _kernels(f: ExportedFunction) -> list[tuple[str, list[str]]]:
    """Names of a function's kernels, and the integers that stand before the arrays."""
    out = [(f"{f.name}_batch", ["int n"])]
    return [*out, (f"{f.rollout}_batch", ["int n", "int steps"])] if f.rollout else out


def header(lib: Library) -> str:
    """Constants of the mechanism, and kernels with every array documented."""
    P = lib.prefix
    lines = [
        f"/* {lib.name}.h: {lib.text}, for {lib.target}; {MARK}.",
        "",
        f"   The kernels of {lib.name}.ptx compute one configuration per thread: thread i of n",
        "   reads and writes row i of every array. Blocks have any number of threads. Work memory",
        f"   is the thread's own. {_UNTESTED}",
        "   Arrays are contiguous, row by row. */",
        f"#ifndef {P}_H",
        f"#define {P}_H",
        "",
        *native_files.constants(lib),
        "",
    ]
    for f in lib.functions:
        arrays = [a.parameter(lib.number) for a in f.arguments]
        lines += ["/*", *native_files.array_lines(f)]
        lines += [f"   Work memory: {f.work_bytes} bytes per thread. Parameters of the kernels:"]
        for name, lead in _kernels(f):
            lines.append(f"   {name}({', '.join([*lead, *arrays, 'int *status'])})")
        lines += ["*/"]
        lines += [f'#define {name.upper()} "{name}"' for name, _ in _kernels(f)]
        lines += [""]
    return "\n".join([*lines, *native_files.statuses(lib), f"#endif /* {P}_H */", ""])


def test_program(lib: Library, references: Sequence[Reference]) -> str:
    """A program for CUDA's driver that compares the kernels with reference numbers."""
    n = lib.name
    lines = [
        f"/* Compares the kernels of {n}.ptx with reference numbers on a GPU; {MARK}.",
        f"   cc test_{n}.c -I/usr/local/cuda/include -lcuda -o test_{n} && ./test_{n} */",
        "#include <cuda.h>",
        "#include <stdio.h>",
        "#include <stdlib.h>",
        f'#include "{n}.h"',
        "",
        *native_files.comparison(lib),
        "static void checked(CUresult result, const char *what) {",
        "  const char *text = 0;",
        "  if (result == CUDA_SUCCESS) return;",
        "  cuGetErrorString(result, &text);",
        '  printf("FAILED: %s: %s\\n", what, text ? text : "unknown");',
        "  exit(1);",
        "}",
        "",
        "static CUdeviceptr on_gpu(const void *numbers, size_t bytes) {",
        "  CUdeviceptr out;",
        '  checked(cuMemAlloc(&out, bytes), "cuMemAlloc");',
        '  if (numbers) checked(cuMemcpyHtoD(out, numbers, bytes), "cuMemcpyHtoD");',
        "  return out;",
        "}",
        "",
    ]
    tests: list[str] = []
    for i, r in enumerate(references):
        lines += _test(lib, i, r)
        tests.append(f"  if ((failed = {n}_test_{i}(module))) return {1000 * (i + 1)} + failed;")
    return "\n".join(
        [
            *lines,
            f"static int {n}_test(CUmodule module) {{",
            "  int failed = 0;",
            *tests,
            "  return failed;",
            "}",
            "",
            "int main(void) {",
            "  CUdevice device;",
            "  CUcontext context;",
            "  CUmodule module;",
            "  int failed;",
            '  checked(cuInit(0), "cuInit");',
            '  checked(cuDeviceGet(&device, 0), "cuDeviceGet");',
            '  checked(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");',
            '  checked(cuCtxSetCurrent(context), "cuCtxSetCurrent");',
            f'  checked(cuModuleLoad(&module, "{n}.ptx"), "cuModuleLoad");',
            f"  failed = {n}_test(module);",
            *native_files.VERDICT,
            "}",
            "",
        ]
    )


def _test(lib: Library, number: int, r: Reference) -> list[str]:
    """The numbers of one function, and the function that runs its kernel on them."""
    f, n = r.function, f"{lib.name}_{number}"
    count = r.count
    lines = [
        *native_files.reference_tables(lib, number, r),
        f"static int {lib.name}_test_{number}(CUmodule module) {{",
        f"  static {lib.number} found[{count}][{max(1, *(a.count for a in f.outputs))}];",
        f"  int count = {count}, status[{count}];",
        "  CUfunction kernel;",
    ]
    places = [f"at_{a.name}" for a in f.arguments]
    for a, place in zip(f.arguments, places, strict=True):
        table = "0" if a.role == "out" else f"{n}_given_{a.name}"
        size = f"sizeof({lib.number}) * {count * max(1, a.count)}"
        lines.append(f"  CUdeviceptr {place} = on_gpu({table}, {size});")
    given = ", ".join(f"&{x}" for x in ["count", *places, "at_status"])
    lines += [
        "  CUdeviceptr at_status = on_gpu(0, sizeof status);",
        f"  void *given[] = {{{given}}};",
        f'  checked(cuModuleGetFunction(&kernel, module, {f.name.upper()}_BATCH), "{f.name}");',
        f"  checked(cuLaunchKernel(kernel, 1, 1, 1, {count}, 1, 1, 0, 0, given, 0), "
        f'"{f.name}_batch");',
        '  checked(cuMemcpyDtoH(status, at_status, sizeof status), "status");',
        f"  for (int i = 0; i < {count}; i++)",
        "    if (status[i]) return 100 + (status[i] & 7);",
    ]
    for j, a in enumerate(f.outputs):
        size = f"sizeof({lib.number}) * {count * a.count}"
        lines += [
            f'  checked(cuMemcpyDtoH(found, at_{a.name}, {size}), "{a.name}");',
            f"  for (int i = 0; i < {count}; i++)",
            f"    if ({lib.name}_differs(({lib.number} *)found + {a.count} * i, "
            f"{n}_wanted_{a.name}[i], {a.count},",
            f"                    ({lib.number}){r.tolerance:.3g})) return {1 + j};",
        ]
    return [*lines, "  return 0;", "}", ""]


def readme(lib: Library, row: ExportTarget, references: Sequence[Reference | None]) -> str:
    """The contents of the folder, and how to use them."""
    n, first = lib.name, lib.functions[0]
    table = [
        f"| `{name}` | {', '.join([*lead, *(a.name for a in f.arguments), 'status'])} | "
        f"{f.work_bytes} |"
        for f in lib.functions
        for name, lead in _kernels(f)
    ]
    given = ", ".join(f"&{x}" for x in ["n", *(a.name for a in first.arguments), "status"])
    return "\n".join(
        [
            f"# {n}",
            "",
            f"{lib.text}, for {row.name} ({row.text} or later); {MARK}. {_UNTESTED}",
            "",
            "| kernel | parameters | bytes of local memory per thread |",
            "|---|---|---|",
            *table,
            "",
            f"`{n}.h` says what every array is; row i belongs to thread i. `status[i]` is 0, or "
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
            *native_files.notes(lib, f"test_{n}.c", references),
            *native_files.joint_table(lib),
        ]
    )
