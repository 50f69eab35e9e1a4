"""C texts around exported code: headers that document every array, and test programs.

A GPU has kernels of PTX instead of functions: its header names them, and its test is for CUDA's
driver. The functions themselves are written by `native/text/c_text.py`. Reasons:
docs/decisions/0049.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from phipsi.codegen.c_identifiers import free_name, identifier
from phipsi.codegen.exported_module import MARK, ExportedArray, ExportedFunction, Library
from phipsi.codegen.quoted_texts import c_string, comment
from phipsi.codegen.reference_numbers import ReferenceResults

UNTESTED = "ptxas accepts this code; it has not been run on a GPU."


def _verdict(lib: Library, references: Sequence[ReferenceResults]) -> list[str]:
    """The end of a test program: what `failed` says, and what was not compared."""
    compared = {r.function.name for r in references}
    others = [f.name for f in lib.functions if f.name not in compared]
    rest = f"; no reference numbers for {', '.join(others)}" if others else ""
    return [
        "  if (failed) {",
        '    printf("FAILED: function %d, code %d\\n", failed / 1000, failed % 1000);',
        "    return 1;",
        "  }",
        f'  puts("ok{rest}");',
        "  return 0;",
    ]


# ---- headers -------------------------------------------------------------------------------------


def c_header(lib: Library) -> str:
    """The C interface, with every array documented."""
    P, lines = lib.prefix, list[str]()
    lines += [
        f"/* {lib.name}.h: {lib.text}, for {lib.target}; {MARK}.",
        "",
        "   Functions return 0 or a status. They are freestanding and stateless: no allocation,",
        "   no state between calls, no calls of a library"
        + (" but the compiler's helpers:" if lib.helpers else "."),
        *([f"   {', '.join(lib.helpers)}"] if lib.helpers else []),
        "   A function is not reentrant: its work memory is static." if lib.static else
        "   Functions are reentrant: calls at the same time need separate work memory, of as many\n"
        f"   bytes as the constant ..._WORK says, aligned as a {lib.number}, with any contents.",
        "   Arrays are contiguous, in row-major order. */",
        f"#ifndef {P}_H",
        f"#define {P}_H",
        "",
        *_constants(lib),
        *_step_constants(lib),
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
        *_statuses(lib),
        f"#endif /* {P}_H */",
        "",
    ]
    return "\n".join(lines)


def _constants(lib: Library) -> list[str]:
    """Sizes, the order of the joints, and the bytes of work memory."""
    P, m = lib.prefix, lib.model
    lines = [
        f"#define {P}_NQ {m.nq} /* coordinates */",
        f"#define {P}_NV {m.nv} /* degrees of freedom */",
        f"#define {P}_BODIES {m.n_bodies}",
    ]
    taken = set[str]()
    for f in lib.functions:  # whose own constants may look like those of joints
        if lib.short(f)[:2].upper() in ("Q_", "V_"):
            taken |= {f"{lib.short(f)[2:].upper()}{x}" for x in ("_WORK", "_BATCH_WORK", "_BATCH")}
    if m.n_bodies:
        lines += ["", "/* index of the first number of a joint in q (Q) and in v, vdot, tau (V) */"]
    for i, (name, joint) in enumerate(zip(m.joint_names, m.joints, strict=True)):
        where = free_name(identifier(name).upper(), taken)
        q, v = m.q_slices[i].start, m.v_slices[i].start
        shown = ", ".join(joint.coordinate_names)
        note = comment(f"{name}, {joint.kind}: {shown}" if shown else f"{name}, {joint.kind}")
        lines.append(f"#define {P}_Q_{where} {q} /* {note} */")
        lines.append(f"#define {P}_V_{where} {v}")
    bodies = ", ".join(map(c_string, m.body_names))
    lines += ["", f"#define {P}_BODY_NAMES {{{bodies}}}"]
    if not lib.static:
        lines.append("")
        lines.append(f"#define {P}_WORK {max_work(lib)} /* bytes, sufficient for every function */")
    return lines


def _step_constants(lib: Library) -> list[str]:
    """The time step, initial numbers of states, and default numbers of parameters."""
    lines = list[str]()
    for f in lib.functions:
        if f.dt is None:
            continue
        end = "f" if lib.number == "float" else ""
        lines += ["", f"#define {lib.prefix}_DT {f.dt!r}{end} /* s, the time of one step */"]
        known = [a for a in f.arguments if a.first]
        if not all(np.isfinite(x) for a in known for x in a.first or ()):
            lines.append("#include <math.h> /* INFINITY */")
        lines.append("/* initial states, and default values of parameters */")
        lines += [
            f"static const {lib.number} {default_name(lib, a)}[{a.count}] = "
            f"{{{', '.join(decimal(x, end) for x in a.first or ())}}};"
            for a in known
            if a.name not in ("step", "tau")
        ]
    return lines


def default_name(lib: Library, a: ExportedArray) -> str:
    """The constant with the initial numbers of a state, or the default ones of a parameter."""
    return f"{lib.name}_{'initial' if a.role == 'inout' else 'default'}_{a.name}"


def decimal(x: float, end: str = "") -> str:
    """A number of C that people read; `end` is "f" for single precision."""
    if not np.isfinite(x):
        return "NAN" if x != x else "INFINITY" if x > 0 else "-INFINITY"
    return f"{x!r}{end}"


def max_work(lib: Library) -> int:
    """Bytes of work memory that are enough for every function, also for batches."""
    return max(max(f.work_bytes, f.batch_bytes) for f in lib.functions)


def _declaration(lib: Library, f: ExportedFunction) -> list[str]:
    """One function and its batched form, with a comment."""
    name = f.name
    lines = ["/*", *_array_lines(f), "*/"]
    if not lib.static:
        lines.append(f"#define {name.upper()}_WORK {f.work_bytes}")
    declared = {
        key: f"int {key}({', '.join(takes)});"
        for key, takes in f.signatures(lib.number, static=lib.static).items()
    }
    lines.append(declared[name])
    if f.rollout:
        lines += ["/* the same for n steps; none if n is negative */", declared[f.rollout]]
    if f.batch_bytes:
        lines += [
            f"/* n configurations, {f.lanes} at once; status[i] is that of configuration i.",
            "   Returns the status of the first one that failed, or 0. */",
        ]
        if not lib.static:
            lines.append(f"#define {name.upper()}_BATCH_WORK {f.batch_bytes}")
        lines.append(declared[f"{name}_batch"])
    return lines


def _array_lines(f: ExportedFunction) -> list[str]:
    """What every array of a function is, and its accuracy, for a comment."""
    lines = [f"   {a.described}" for a in f.arguments]
    if f.accuracy is not None:
        lines.append(f"   Errors against double precision: {f.accuracy}.")
    return lines


def _statuses(lib: Library) -> list[str]:
    """Status codes, and a function that returns their texts."""
    P, texts = lib.prefix, lib.functions[0].statuses
    lines = [
        "/* The last three bits of a status are its code, the rest a body or constraint row. */"
    ]
    for code, text in sorted(texts.items()):
        lines.append(f"#define {P}_{identifier(text).upper()} {code}")
    lines += [
        f"#define {P}_STATUS_CODE(status) ((status) & 7)",
        f"#define {P}_STATUS_BODY(status) (((status) >> 3) - 1) /* -1: none */",
        f"static inline const char *{lib.name}_status_text(int status) {{",
        "  switch (status & 7) {",
        *(f"  case {code}: return {c_string(text)};" for code, text in sorted(texts.items())),
        "  }",
        '  return "unknown";',
        "}",
        "",
    ]
    return lines


# ---- test programs -------------------------------------------------------------------------------


def test_program(lib: Library, references: Sequence[ReferenceResults]) -> str:
    """A program that compares the functions with reference numbers on the device.

    Without a main of its own (``-DNAME_NO_MAIN``) it needs no library: call ``NAME_test()``.
    """
    n, P = lib.name, lib.prefix
    lines = [
        f"/* Compares the functions of {n}.h with reference numbers; {MARK}.",
        f"   -D{P}_NO_MAIN leaves main out: call {n}_test(), which returns 0 for success. */",
        f'#include "{n}.h"',
        "",
        *(_comparison(lib) if references else ()),
    ]
    if references and not lib.static:
        lines += [
            "static union {",
            "  double aligned[2];",
            f"  unsigned char bytes[{P}_WORK + 16];",
            f"}} {n}_work;",
            "",
        ]
    lines += [
        *_tests(lib, references, _reference, f"int {n}_test(void)"),
        f"#ifndef {P}_NO_MAIN",
        "#include <stdio.h>",
        "int main(void) {",
        f"  int failed = {n}_test();",
        *_verdict(lib, references),
        "}",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _tests(
    lib: Library,
    references: Sequence[ReferenceResults],
    test: Callable[[Library, int, ReferenceResults], list[str]],
    head: str,
    given: str = "",
) -> list[str]:
    """A test for every function, and one with this head that runs them until one fails."""
    runs = [
        f"  if ((failed = {lib.name}_test_{i}({given}))) return {1000 * (i + 1)} + failed;"
        for i in range(len(references))
    ]
    tests = [line for i, r in enumerate(references) for line in test(lib, i, r)]
    return [*tests, f"{head} {{", "  int failed = 0;", *runs, "  return failed;", "}", ""]


def _comparison(lib: Library) -> list[str]:
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


def _reference(lib: Library, number: int, r: ReferenceResults) -> list[str]:
    """The numbers of one function, and the function that compares them."""
    f, n = r.function, f"{lib.name}_{number}"
    lines = _reference_tables(lib, number, r)
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


def _reference_tables(lib: Library, number: int, r: ReferenceResults) -> list[str]:
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
    end = "f" if lib.number == "float" else ""
    return float(x).hex() + end if np.isfinite(x) else decimal(float(x))


# ---- GPUs ----------------------------------------------------------------------------------------


def gpu_kernels(f: ExportedFunction) -> list[tuple[str, list[str]]]:
    """Names of a function's kernels, and the integers that stand before the arrays."""
    out = [(f"{f.name}_batch", ["int n"])]
    return [*out, (f"{f.rollout}_batch", ["int n", "int steps"])] if f.rollout else out


def gpu_header(lib: Library) -> str:
    """Constants of the mechanism, and kernels with every array documented."""
    P = lib.prefix
    lines = [
        f"/* {lib.name}.h: {lib.text}, for {lib.target}; {MARK}.",
        "",
        f"   The kernels of {lib.name}.ptx compute one configuration per thread: thread i of n",
        "   reads and writes row i of every array. Blocks may have any number of threads. Work",
        f"   memory is local to the thread. {UNTESTED}",
        "   Arrays are contiguous, in row-major order. */",
        f"#ifndef {P}_H",
        f"#define {P}_H",
        "",
        *_constants(lib),
        *_step_constants(lib),
        "",
    ]
    for f in lib.functions:
        arrays = [a.parameter(lib.number) for a in f.arguments]
        lines += ["/*", *_array_lines(f)]
        lines += [f"   Work memory: {f.work_bytes} bytes per thread. Parameters of the kernels:"]
        for name, lead in gpu_kernels(f):
            lines.append(f"   {name}({', '.join([*lead, *arrays, 'int *status'])})")
        lines += ["*/"]
        lines += [f'#define {name.upper()} "{name}"' for name, _ in gpu_kernels(f)]
        lines += [""]
    return "\n".join([*lines, *_statuses(lib), f"#endif /* {P}_H */", ""])


def gpu_test_program(lib: Library, references: Sequence[ReferenceResults]) -> str:
    """A program for CUDA's driver that compares the kernels with reference numbers."""
    n = lib.name
    return "\n".join(
        [
            f"/* Compares the kernels of {n}.ptx with reference numbers on a GPU; {MARK}.",
            f"   cc test_{n}.c -I/usr/local/cuda/include -lcuda -o test_{n} && ./test_{n} */",
            "#include <cuda.h>",
            "#include <stdio.h>",
            "#include <stdlib.h>",
            f'#include "{n}.h"',
            "",
            *(_comparison(lib) if references else ()),
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
            *_tests(lib, references, _gpu_test, f"static int {n}_test(CUmodule module)", "module"),
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
            *_verdict(lib, references),
            "}",
            "",
        ]
    )


def _gpu_test(lib: Library, number: int, r: ReferenceResults) -> list[str]:
    """The numbers of one function, and the function that runs its kernel on them."""
    f, n = r.function, f"{lib.name}_{number}"
    count = r.count
    lines = [
        *_reference_tables(lib, number, r),
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
