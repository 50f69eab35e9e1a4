"""`pp.export`: code generation from compiled programs."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, cast

from phipsi.codegen import c_headers_and_tests, package_files, webassembly
from phipsi.codegen.c_identifiers import checked_identifier, numbered_name
from phipsi.codegen.exported_module import (
    INSIDE,
    ExportedFunction,
    FunctionSource,
    Library,
    exported_module,
)
from phipsi.codegen.exported_step import exported_step
from phipsi.codegen.named_programs import described_arrays, name_of, programs_named
from phipsi.codegen.reference_numbers import (
    ReferenceResults,
    program_reference,
    step_reference,
    with_accuracy,
)
from phipsi.codegen.targets import ExportTarget, target_named
from phipsi.codegen.written_folder import with_digests, write_folder
from phipsi.core.backends import Program, has_machine_code
from phipsi.core.model import Model
from phipsi.errors import InputError, one_of, true_or_false
from phipsi.laws import Law
from phipsi.native import KernelSource, NumberName, can_run, kept_object, llvm_library
from phipsi.simulation import Simulator

_ELF = b"\x7fELF"
_EXPORTED = ("caller", "static")
_TAKEN = {
    "WORK": "the work memory",
    "STATUS": "the statuses",
    "STATUS_TEXT": "the function for texts of statuses",
    "TEST": "the test",
    "DIFFERS": "a function of the test",
    "EXPORTS": "the functions of the WebAssembly module",
    "THEN": "a method that JavaScript calls when it waits for an object",
} | dict.fromkeys(
    ("H", "NQ", "NV", "BODIES", "BODY_NAMES", "NO_MAIN", "STATUS_CODE", "STATUS_BODY"),
    "a constant",
)
"""Names of functions, in capitals, that the files around the code use themselves."""
_PRECISIONS: dict[str, NumberName] = {"double": "double", "single": "float"}


@dataclass(frozen=True)
class Exported:
    """The result of `export`: what was generated, and where.

    Parameters
    ----------
    folder : Path
        The folder.
    files : tuple of str
        Names of its files.
    functions : tuple of ExportedFunction
        Each has a `name`, `arguments` (also as `inputs` and `outputs`: arrays with `name`, `shape`,
        `units`, `text`), `work_bytes` and `statuses`.
    target : str
        The target.
    code_bytes : int
        Bytes of code and constant tables.

    Examples
    --------
    >>> import tempfile
    >>> import phipsi as pp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = pp.export(pp.examples.planar_arm(2), folder, target="c")
    >>> result.target, [f.name for f in result.functions]
    ('c', ['robot_forward_dynamics', 'robot_inverse_dynamics'])
    """

    folder: Path
    files: tuple[str, ...]
    functions: tuple[ExportedFunction, ...]
    target: str
    code_bytes: int

    def __repr__(self) -> str:
        names = ", ".join(f.name for f in self.functions)
        kind = "PTX" if self.target == "nvptx64" else "code and tables"
        size = f"{self.code_bytes / 1024:.1f} kB of {kind}"
        return f"<Exported {names} for {self.target}: {size}, {len(self.files)} files>"


def export(
    programs: Model | Program | Mapping[str, Program] | Sequence[Program],
    folder: str | os.PathLike[str],
    *,
    what: str | Sequence[str] | None = None,
    name: str = "robot",
    target: str = "host",
    scratch: str = "caller",
    precision: str = "double",
    step: Any = None,
    shared: bool = False,
) -> Exported:
    """Generate C-callable code: an object file, C99, WebAssembly or PTX.

    The folder gets the object file, a C header that documents every array, a C++ header with spans,
    a test program with reference numbers, a CMake file, a README and the licence. Each program
    becomes two functions, one for a single configuration and one for a batch
    (``robot_forward_dynamics_batch``). Both work on memory of the caller:

        int robot_forward_dynamics(const double *q, const double *v, const double *tau,
                                   double *vdot, void *work);

    The functions are freestanding and stateless: no heap allocation, no static data that changes,
    no calls of a C library. Results are bitwise identical to those of the program in Python if both
    processors have, or both lack, a fused multiply-add; those of a program that was compiled with
    ``reproducible=True`` are identical everywhere.

    Parameters
    ----------
    programs : Model, Program, mapping of str to Program, or sequence of Program
        A mechanism, whose functions `what` names; or compiled programs of one mechanism. The keys
        of a mapping are the names of the functions.
    folder : str or path
        Created if it does not exist. The files of an earlier export are replaced; all other files
        are kept.
    what : str or sequence of str, optional
        Functions of a mechanism, such as "forward_dynamics,jacobian:tool0". Default: forward
        dynamics, and for trees inverse dynamics.
    name : str, optional
        Prefix of all names in C. Default: "robot".
    target : str, optional
        A row of the table in docs/code-generation-reference.md, or "c" for C99 source. Default:
        "host", this machine.
    scratch : {"caller", "static"}, optional
        Where the work memory is: an argument, or static memory inside the object, so that a
        function cannot run twice at the same time. Default: "caller".
    precision : {"double", "single"}, optional
        "single": arrays of float. The errors are measured at a hundred random states and printed
        in the header. Default: "double".
    step : Simulator, optional
        Its step, with controllers and forces, becomes ``robot_step`` and ``robot_rollout``, which
        update the state in place.
    shared : bool, optional
        For the host, on Linux: also link a shared library, which ctypes can load. Default: False.

    Returns
    -------
    Exported
        The files and functions.

    Raises
    ------
    InputError
        If a name is no C identifier, a program has no machine code or does not fit the memory of
        the target, or a file of the user would be overwritten; nothing is written then.

    See Also
    --------
    export_fmu : A simulator as an FMU, for other simulation tools.

    Notes
    -----
    **Cost:** that of compiling.

    Examples
    --------
    >>> import tempfile
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     package = pp.export(arm, folder + "/arm", what="forward_dynamics", target="cortex-m7")
    >>> [f.name for f in package.functions], package.functions[0].inputs[0].shape
    (['robot_forward_dynamics'], (2,))
    """
    checked_identifier("name", name)
    if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
        raise InputError(
            f"folder={folder!r} is not a path of a folder. For example  folder={name!r}"
        )
    one_of("scratch", scratch, _EXPORTED)
    one_of("precision", precision, _PRECISIONS)
    shared = true_or_false("shared", shared)
    if not has_machine_code():
        raise InputError("export needs LLVM to generate code:  pip install llvmlite")
    row = target_named(target, number=_PRECISIONS[precision])
    if row.is_gpu and scratch == "static":
        raise InputError(
            f'target={target!r} does not support scratch="static", because every thread needs work '
            'memory of its own. Pass  scratch="caller"'
        )
    named = _named(programs, what, empty=step is not None)
    static = scratch == "static"
    more = [] if step is None else [exported_step(step, row.target, name, static=static)]
    model = _model_of(named, step)
    for key in (*named, *(() if step is None else ("step",))):
        _check_free(name, key)
    sources = [_source(f"{name}_{key}", program) for key, program in named.items()]
    options = {"static": static, "hidden": not shared, "more": more}
    text, functions = _compiled(sources, step, row, options)
    binary, code_bytes = _binary(text, row, name)
    _check_memory(row, name, functions, code_bytes)
    about = f"{len(functions)} program{'s' * (len(functions) > 1)} of {model.name or 'a mechanism'}"
    lib = Library(
        name, functions, model, row.name, about, static or row.is_gpu,
        undefined_symbols(binary), row.target.number,
    )  # fmt: skip
    found = [program_reference(f, s.program) for f, s in zip(functions, sources, strict=False)]
    if step is not None:
        found.append(step_reference(step, functions[-1]))
    linked = {f"lib{name}.so": shared_library(row, binary)} if shared else {}
    files = _files(lib, row, binary, found, code_bytes, linked)
    written = write_folder(Path(folder), files)
    return Exported(written, tuple(files), functions, row.name, code_bytes)


# ---- programs ------------------------------------------------------------------------------------


def _named(programs: Any, what: Any, *, empty: bool) -> dict[str, Program]:
    """Programs by the names of their functions; `what` names those of a mechanism."""
    if isinstance(programs, Model):
        programs = programs_named(programs, what)
    elif what is not None:
        raise InputError(
            "what= names functions of a mechanism, and has no effect on compiled programs. Name "
            "those with keys:  pp.export({'name': program}, folder)"
        )
    if isinstance(programs, Program):
        programs = [programs]
    if isinstance(programs, Mapping):
        named = dict(cast(Mapping[str, Program], programs))
    elif isinstance(programs, Sequence) and not isinstance(programs, str):
        used = set[str]()
        named = {
            numbered_name(name_of(p) if isinstance(p, Program) else str(p), used): p
            for p in cast(Sequence[Any], programs)
        }
    elif isinstance(programs, (Law, Simulator)):
        raise InputError(_not_a_program(programs))
    else:
        raise InputError(
            f"{programs!r} is neither a program nor a mechanism. For example\n"
            '    pp.export(model, folder, what="forward_dynamics")\n'
            '    pp.export({"inverse": pp.compile(mass_matrix.inv, model)}, folder)'
        )
    if not named and not empty:
        raise InputError(
            'there is no program to export. Pass one:  pp.export({"name": program}, folder)'
        )
    taken: dict[str, str] = dict(_TAKEN)
    if empty:
        taken |= dict.fromkeys(("STEP", "ROLLOUT", "DT"), "step=")
    for key, program in named.items():
        checked_identifier("function", key)
        for used in (key.upper(), f"{key}_batch".upper()):  # as constants of the header have them
            if used in taken:
                raise InputError(
                    f"function={key!r}: this name belongs to {taken[used]} in the exported files. "
                    f"Choose another, such as {key + '_of_robot'!r}"
                )
            taken[used] = f"function {key!r}"
        if not isinstance(cast(object, program), Program):
            raise InputError(f"{key}: {_not_a_program(program)}")
    return named


_STEPS = "pp.export({}, folder, step=pp.Simulator(model, laws, dt=1e-3))"


def _not_a_program(x: object) -> str:
    """Why an object is not exported, and what to write."""
    if isinstance(x, Law):
        return (
            f"{x.name!r} is a law. A law is exported in the step of a simulator; a controller "
            f"alone cannot be exported yet:\n    {_STEPS.replace('laws', f'[{x.name}]')}"
        )
    if isinstance(x, Simulator):
        return f"{x!r} is not a program. Pass it as  step=:\n    {_STEPS}"
    return f"{x!r} is not a program; pp.compile returns one"


def _check_free(name: str, key: str) -> None:
    """A function must not have the name of one that the code has inside."""
    if f"{name}_{key}" in INSIDE or name.split("_")[0] == "phipsi":
        raise InputError(
            f"{name}_{key} is a name that the exported code uses internally. Choose another "
            f"prefix:  name={'my_' + name!r}"
        )


def _model_of(named: Mapping[str, Program], step: Any) -> Model:
    models = {id(p.model): p.model for p in named.values()}
    if step is not None:
        models[id(step.model)] = step.model
    if len(models) > 1:
        listed = ", ".join([*named, *([] if step is None else ["step"])])
        raise InputError(
            f"{listed} are programs of {len(models)} mechanisms. "
            "Export each mechanism to its own folder, with its own name="
        )
    return next(iter(models.values()))


def _source(name: str, program: Program) -> FunctionSource:
    """A program as a function; picked blocks and programs without code are rejected."""
    source = program.source.by_column or program.source
    if any(source.picks):
        raise InputError(
            f"{name}: blocks= selects parts of a matrix in Python, and cannot be exported. Export "
            "the whole matrix:  "
            'pp.compile(expr, model, mode="dense")'
        )
    if not can_run(source):
        raise InputError(
            f"{name}: {program!r} has no machine code, because it runs on the reference backend"
        )
    shapes = KernelSource(source).unit.shapes[:-1]
    return FunctionSource(name, source, described_arrays(source, shapes))


def _compiled(
    sources: Sequence[FunctionSource], step: Any, row: ExportTarget, options: Mapping[str, Any]
) -> tuple[str, tuple[ExportedFunction, ...]]:
    """The text of the module, and its functions, with their accuracy in single precision."""
    # one lane would be a plain loop
    batch = row.target.lanes > 1 or not (row.is_wasm or row.flash or row.is_gpu)
    module = exported_module(
        sources, row.target, as_source=row.is_source, batch=batch, threads=row.is_gpu, **options
    )
    functions = [_rounded(f) for f in module.functions]
    if row.target.number == "float":
        ours = [*sources, *([] if step is None else [step])]
        pairs = zip(functions, ours, strict=True)
        functions = [with_accuracy(f, source, row.target) for f, source in pairs]
    return module.text, tuple(functions)


def _rounded(f: ExportedFunction) -> ExportedFunction:
    """With sizes of work memory rounded up to multiples of 16 bytes."""
    one, many = (-(-n // 16) * 16 for n in (f.work_bytes, f.batch_bytes))
    return replace(f, work_bytes=one, batch_bytes=many)


# ---- objects -------------------------------------------------------------------------------------


def _binary(text: str, row: ExportTarget, name: str) -> tuple[bytes, int]:
    """The module as C, PTX or an object, and how many bytes of code and tables it has."""
    if row.is_source:
        text = f'#include "{name}.h"\n{text}'
    if row.is_source or row.is_gpu:
        binary = (row.target.assembly(text) if row.is_gpu else text).encode()
        return binary, len(binary)
    binary = kept_object(text, row.target)
    return binary, _loaded_bytes(binary)


def _loaded_bytes(binary: bytes) -> int:
    """Bytes of code and constants."""
    sections = llvm_library.llvm.ObjectFileRef.from_data(binary).sections()
    return sum(s.size() for s in sections if s.is_text() or _is_table(s.name() or b""))


def shared_library(row: ExportTarget, binary: bytes) -> bytes:
    """The object, linked; functions in it may be called from Python with ctypes."""
    if row.name != "host" or binary[:4] != _ELF:
        raise InputError(
            "shared=True is supported only for the host, on Linux. Link the object file on the "
            "target machine, or remove shared=True"
        )
    linker = next((x for x in ("cc", "gcc", "clang", "clang-14", "ld") if shutil.which(x)), None)
    if linker is None:
        raise InputError(
            "shared=True needs a linker, but cc, gcc, clang and ld were not found. Install one "
            "(apt install gcc), or link the object yourself:  cc -shared robot.o -o librobot.so"
        )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "code.o").write_bytes(binary)
        words = [linker, "-shared", *(["-nostdlib"] if linker != "ld" else []), "-o", "code.so"]
        done = subprocess.run([*words, "code.o"], cwd=place, capture_output=True, text=True)
        if done.returncode:
            raise InputError(f"{linker} could not link the library:\n{done.stderr}")
        return (place / "code.so").read_bytes()


def _is_table(name: bytes) -> bool:
    """Whether a section holds constants: in ELF, COFF, Mach-O and WebAssembly."""
    return name.startswith((b".rodata", b".rdata", b"__const", b"__literal", b"DATA"))


def undefined_symbols(binary: bytes) -> tuple[str, ...]:
    """The external functions that an ELF object calls; () for objects in other formats."""
    if binary[:4] != _ELF:
        return ()
    wide = binary[4] == 2
    start, each, count = (
        struct.unpack_from("<Q", binary, 40)[0]
        if wide
        else struct.unpack_from("<I", binary, 32)[0],
        *struct.unpack_from("<HH", binary, 58 if wide else 46),
    )
    sections = [
        struct.unpack_from("<IIQQQQIIQQ" if wide else "<10I", binary, start + each * i)
        for i in range(count)
    ]
    out: set[str] = set()
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != 2:  # a table of symbols
            continue
        names = sections[link][4]
        for at in range(offset, offset + size, 24 if wide else 16):
            name, *rest = struct.unpack_from("<IBBHQQ" if wide else "<IIIBBH", binary, at)
            place = rest[2] if wide else rest[4]
            if name and place == 0:
                out.add(binary[names + name : binary.index(b"\0", names + name)].decode())
    return tuple(sorted(out))


def _check_memory(
    row: ExportTarget, name: str, functions: Sequence[ExportedFunction], code_bytes: int
) -> None:
    work = max(f.work_bytes for f in functions)
    memory = "memory per thread" if row.is_gpu else "RAM"
    for what, need, limit in (("flash", code_bytes, row.flash), (memory, work, row.ram)):
        if limit and need > limit:
            raise InputError(
                f"{name} needs {need / 1024:.0f} kB of {what}, but the largest {row.name} has "
                f"{limit / 1024:.0f} kB. Export fewer programs, or a mechanism with fewer bodies"
            )
    if row.target.pointer_bits == 32 and work >= 2**31:
        raise InputError(
            f"{name} needs {work} bytes of work memory, more than the address space of {row.name} "
            "allows. Export fewer programs, or a mechanism with fewer bodies"
        )


# ---- files ---------------------------------------------------------------------------------------


def _files(
    lib: Library,
    row: ExportTarget,
    binary: bytes,
    results: Sequence[ReferenceResults | None],
    code_bytes: int,
    linked: Mapping[str, bytes],
) -> dict[str, bytes]:
    """All files by name."""
    n = lib.name
    rest = {"LICENSE": licence()}
    references = [r for r in results if r is not None]
    if row.is_wasm:
        module = webassembly.wasm_module(binary, _heap_bytes(lib.functions, row.target.unit))
        rest |= {
            f"{n}.mjs": webassembly.es_module(lib, module.heap),
            f"{n}.d.mts": webassembly.typescript(lib),
            f"test_{n}.mjs": webassembly.web_test(lib, references),
            "README.md": webassembly.readme(lib, row, len(module.binary), results),
        }
        return _listed(lib, row, code_bytes, {f"{n}.wasm": module.binary}, rest)
    if row.is_gpu:
        rest |= {
            f"{n}.h": c_headers_and_tests.gpu_header(lib),
            f"test_{n}.c": c_headers_and_tests.gpu_test_program(lib, references),
            "README.md": package_files.gpu_readme(lib, row, results),
        }
        return _listed(lib, row, code_bytes, {f"{n}.ptx": binary}, rest)
    rest |= {
        f"{n}.h": c_headers_and_tests.c_header(lib),
        f"{n}.hpp": package_files.cpp_header(lib),
        f"test_{n}.c": c_headers_and_tests.test_program(lib, references),
        "CMakeLists.txt": package_files.cmake_file(lib, f"{n}{row.suffix}"),
        "README.md": package_files.readme(lib, row, code_bytes, results),
    }
    binaries = {f"{n}{row.suffix}": binary, **linked}
    if binary[:4] == _ELF:
        binaries |= package_files.rust_crate(lib, binary)
    return _listed(lib, row, code_bytes, binaries, rest)


def _heap_bytes(functions: Sequence[ExportedFunction], unit: int) -> int:
    """Memory for the arrays and the work of any one function, and of a batch of a hundred."""
    return max(
        sum(unit * a.count + 16 for a in f.arguments) * (100 if f.batch_bytes else 1)
        + max(f.work_bytes, f.batch_bytes)
        for f in functions
    )


def _listed(
    lib: Library,
    row: ExportTarget,
    code_bytes: int,
    binaries: Mapping[str, bytes],
    texts: Mapping[str, str],
) -> dict[str, bytes]:
    """All files, and one that lists them with the interface."""
    files = dict(binaries) | {k: t.encode() for k, t in texts.items()}
    return with_digests(_listing(lib, row, code_bytes), files)


def licence() -> str:
    """The licence of the library, which holds for the code it writes."""
    try:
        from importlib.metadata import distribution

        for file in distribution("phipsi").files or ():
            if file.name == "LICENSE":
                return file.read_text()
    except ImportError:
        pass
    own = Path(str(resources.files("phipsi"))).parents[1] / "LICENSE"
    return own.read_text() if own.is_file() else "The licence of phipsi: MIT\n"


def _listing(lib: Library, row: ExportTarget, code_bytes: int) -> dict[str, Any]:
    """The interface for other programs to read."""
    return {
        "name": lib.name,
        "target": row.name,
        "triple": row.target.triple,
        "number": row.target.number,
        "code_bytes": code_bytes,
        "helpers": lib.helpers,
        "joints": webassembly.joints(lib),
        "functions": [
            {
                "name": f.name,
                "arguments": [
                    {k: x for k, x in vars(a).items() if k != "first"} for a in f.arguments
                ],
                "work_bytes": f.work_bytes,
                "batch_bytes": f.batch_bytes,
                "lanes": f.lanes,
                "dt": f.dt,
                "accuracy": f.accuracy and vars(f.accuracy),
            }
            for f in lib.functions
        ],
    }
