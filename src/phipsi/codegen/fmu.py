"""`export_fmu`: a mechanism with its controllers and forces as an FMU, for other tools.

An FMU is an archive with descriptions in XML (FMI 3.0 or 2.0), C99, and a library. The C99 is the
runs of the model, their memory, and FMI's functions around them, in one file without headers of its
own: generated code comes first, then `assets/fmu_core.c`, then the functions of one version of FMI.
An instance is one block of memory.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, final
from xml.sax.saxutils import quoteattr

from numpy.typing import ArrayLike

from phipsi.codegen.exported_module import SourceModule, listed_table, number_text
from phipsi.codegen.fmu_model import FmuModel, Variable
from phipsi.codegen.quoted_texts import xml_text
from phipsi.codegen.targets import SOURCE
from phipsi.core.backends import STATUS_WORDS
from phipsi.core.model import Model, as_list
from phipsi.errors import InputError, one_of, true_or_false, warn
from phipsi.native import KernelSource, run_job
from phipsi.simulation import RunEmitter as Run, RunProgram, Simulator
from phipsi.support import atomic_write, checked_target, path_of

VERSIONS = ("3.0", "2.0")
_FLAGS = (
    "-std=c99", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden", "-shared",
    "-fPIC",
)  # fmt: skip


def export_fmu(
    simulator: Simulator | Model,
    path: str | os.PathLike[str],
    *,
    fmi: str = "3.0",
    kind: str | Sequence[str] = ("co_simulation", "model_exchange"),
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] = ("q", "v"),
    parameters: Mapping[str, ArrayLike] | Sequence[str] | None = None,
    derivatives: bool = True,
    binary: bool | None = None,
) -> Path:
    """Write a simulator as an FMU (Functional Mock-up Unit) for other simulation tools.

    An FMU (fmi-standard.org) runs in other simulation tools, without Python. Co-simulation takes
    the steps of the simulator, with its integrator: the results are those of `Simulator.rollout`
    with reproducible arithmetic. Model exchange provides q̇ = N(q) v, vdot and the rates of laws to
    the tool's solver, for quaternions of length 1; closed loops are projected after steps of the
    solver, and sampled laws are time events. Mechanisms with contacts, and laws with noise, support
    co-simulation only.

    Parameters
    ----------
    simulator : Simulator, Model or System
        A model or a system is simulated with ``dt = 1e-3``.
    path : str or path
        File name that ends in .fmu. Its stem is the name of the model, a C identifier.
    fmi : {"3.0", "2.0"}, optional
        Version of the standard. Default: "3.0".
    kind : {"co_simulation", "model_exchange"} or sequence of them, optional
        Default: both.
    q : array_like, shape (nq,), optional
        Initial configuration. Default: the neutral one.
    v : array_like, shape (nv,), optional
        Initial velocities. Default: at rest.
    inputs : sequence of str, optional
        Names of the joints whose torques or forces (N·m, N) are inputs. Default: all.
    outputs : sequence of str, optional
        Names out of ``simulator.recordable``. Default: q and v.
    parameters : sequence of str or mapping of str to array_like, optional
        Parameters of laws that the tool can change: their names, or initial values by name.
        Default: all.
    derivatives : bool, optional
        Whether model exchange has partial derivatives, which take half of the code.
        Default: True.
    binary : bool, optional
        Whether the FMU contains a library for this machine. Default: if gcc is found. The C source
        is always included.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        For invalid names, and kinds that the simulator does not support; nothing is written then.

    See Also
    --------
    export : Functions and steps as C, object files, WebAssembly or PTX.

    Notes
    -----
    Variables of the FMU: ``q.<joint>``, ``v.<joint>``, ``tau.<joint>``, and parameters by their
    names; entries of arrays are ``name[1]``, ….

    Examples
    --------
    >>> import phipsi as pp, tempfile, zipfile
    >>> arm = pp.examples.planar_arm(2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pp.export_fmu(pp.Simulator(arm, dt=1e-3), f"{folder}/arm.fmu", binary=False)
    ...     print(zipfile.ZipFile(path).namelist())
    ['modelDescription.xml', 'sources/arm.c', 'sources/buildDescription.xml']
    """
    if isinstance(simulator, Model):
        simulator = Simulator(simulator)
    if not isinstance(simulator, Simulator):
        raise InputError(f"export_fmu needs a Simulator or a model, not {type(simulator).__name__}")
    file = path_of(path)
    identifier = _identifier(file)
    checked_target(file)
    one_of("fmi", fmi, VERSIONS)
    derivatives = true_or_false("derivatives", derivatives)
    if binary is not None:
        binary = true_or_false("binary", binary, "True, False or None")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if binary and compiler is None:
        raise InputError(
            "binary=True needs a C compiler (gcc), which was not found on the PATH. To write the "
            "source only, which many tools compile themselves, pass  binary=False"
        )
    kinds = _kinds(kind)
    options: Any = {"inputs": inputs, "outputs": outputs, "parameters": parameters}
    options |= {"exchange": "model_exchange" in kinds, "derivatives": derivatives}
    model = FmuModel(simulator, q, v, **options)
    if model.unfit and "model_exchange" in kinds:
        if kind == "model_exchange" or len(kinds) == 1:
            raise InputError(
                f"this simulator does not support model exchange: {model.unfit}. Pass  "
                'kind="co_simulation"'
            )
        warn(f"the FMU is for co-simulation only: {model.unfit}.")
        kinds = ("co_simulation",)
    about = _about(simulator, identifier)
    source = fmu_source(model, fmi)
    described = _ModelDescription(model, fmi, identifier, kinds, about)
    token = hashlib.sha256((described.text("") + source).encode()).hexdigest()
    description = described.text(token)
    source = f'#define TOKEN "{token}"\n{source}'
    with tempfile.TemporaryDirectory() as folder:
        library = None
        if binary or (binary is None and compiler is not None):
            library = _library(str(compiler), source, Path(folder), identifier)
        with atomic_write(file) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as fmu:
            _put(fmu, "modelDescription.xml", description)
            _put(fmu, f"sources/{identifier}.c", source)
            if fmi == "3.0":
                _put(fmu, "sources/buildDescription.xml", build_description(identifier))
            if library is not None:
                _put(fmu, _binary_name(fmi, identifier), library.read_bytes())
    return file


def _about(simulator: Simulator, name: str) -> str:
    """One line about the mechanism, and what acts on it."""
    model, step = simulator.model, simulator.compiled
    bodies = f"{model.n_bodies} {'body' if model.n_bodies == 1 else 'bodies'}"
    freedoms = f"{model.nv} generalized {'velocity' if model.nv == 1 else 'velocities'}"
    named = (*step.circuit.records, *step.parameters)
    acting = ", ".join(dict.fromkeys(x.partition(".")[0] for x in named if "." in x))
    laws = f"; laws and force elements: {acting}" if acting else ""
    return (
        f"{model.name or name}: mechanism of {bodies} with {freedoms}{laws}; "
        f"{simulator.integrator} with steps of {simulator.dt:g} s"
    )


def _identifier(file: Path) -> str:
    name = file.stem
    if file.suffix != ".fmu":
        raise InputError(f"{file}: the name of an FMU ends with .fmu:  {file.stem or 'robot'}.fmu")
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        fixed = re.sub(r"\W", "_", name, flags=re.ASCII)
        fixed = fixed if re.match(r"[A-Za-z_]", fixed) else f"m_{fixed}"
        raise InputError(
            f"{file.name}: the name of the model, {name!r}, is not a C identifier. Write  "
            f"{fixed}.fmu"
        )
    return name


def _kinds(kind: str | Sequence[str]) -> tuple[str, ...]:
    listed = as_list("kind", kind, "['co_simulation', 'model_exchange']")
    kinds = tuple(dict.fromkeys(one_of("kind", x, KINDS) for x in listed))
    if not kinds:
        raise InputError('kind=() names no kind of FMU. Pass  kind="co_simulation"')
    return tuple(x for x in ("model_exchange", "co_simulation") if x in kinds)


def _library(compiler: str, source: str, folder: Path, identifier: str) -> Path:
    """The source, compiled to a shared library for this machine."""
    (folder / f"{identifier}.c").write_text(source, encoding="utf-8")
    out = folder / f"{identifier}{_suffix()}"
    command = [compiler, *_FLAGS, f"{identifier}.c", "-o", out.name, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(
            f"{compiler} could not compile the FMU. To write the source only, pass binary=False:\n"
            f"{done.stderr[:2000]}"
        )
    return out


def _suffix() -> str:
    return {"Windows": ".dll", "Darwin": ".dylib"}.get(platform.system(), ".so")


def _binary_name(fmi: str, identifier: str) -> str:
    """Where FMI looks for the library of this machine."""
    system, machine = platform.system(), platform.machine().lower()
    words = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
    processor = words.get(machine, machine)
    if fmi == "3.0":
        place = f"{processor}-{ {'Windows': 'windows', 'Darwin': 'darwin'}.get(system, 'linux') }"
    else:
        place = {"Windows": "win64", "Darwin": "darwin64"}.get(system, "linux64")
    return f"binaries/{place}/{identifier}{_suffix()}"


def _put(archive: zipfile.ZipFile, name: str, content: str | bytes) -> None:
    """A file of the archive, without the time of writing: equal models are equal files."""
    info = zipfile.ZipInfo(name)
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    archive.writestr(info, content)


# ---- its descriptions: modelDescription.xml and buildDescription.xml -----------------------------


_UNITS = {
    "s": {"s": 1},
    "rad": {"rad": 1},
    "m": {"m": 1},
    "1": {},
    "rad/s": {"rad": 1, "s": -1},
    "m/s": {"m": 1, "s": -1},
    "1/s": {"s": -1},
    "rad/s2": {"rad": 1, "s": -2},
    "m/s2": {"m": 1, "s": -2},
    "1/s2": {"s": -2},
    "N.m": {"kg": 1, "m": 2, "s": -2},
    "N": {"kg": 1, "m": 1, "s": -2},
    "J": {"kg": 1, "m": 2, "s": -2},
}
KINDS = {"co_simulation": "CoSimulation", "model_exchange": "ModelExchange"}


def _tag(name: str, inside: str = "", /, **attributes: object) -> str:
    """An element; attributes that are None are left out."""
    listed = "".join(f" {k}={quoteattr(_value(v))}" for k, v in attributes.items() if v is not None)
    return f"<{name}{listed}>{inside}</{name}>" if inside else f"<{name}{listed}/>"


def _value(x: object) -> str:
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, float):
        return repr(x).replace("inf", "INF").replace("nan", "NaN")  # as xs:double has them
    return xml_text(str(x))


def build_description(identifier: str) -> str:
    """The text of buildDescription.xml (FMI 3.0)."""
    files = _tag("SourceFileSet", _tag("SourceFile", name=f"{identifier}.c"), language="C99")
    inside = _tag("BuildConfiguration", files, modelIdentifier=identifier)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _tag(
        "fmiBuildDescription", inside, fmiVersion="3.0"
    )


# The words of each version for the token, saved states, and abilities of the model.
_WORDS = {
    "3.0": {
        "token": "instantiationToken",
        "states": ("canGetAndSetFMUState", "canSerializeFMUState"),
        "closes": ("needsCompletedIntegratorStep", True),
        "derivatives": ("providesDirectionalDerivatives", "providesAdjointDerivatives"),
        "structure": ("Output", "ContinuousStateDerivative", "InitialUnknown"),
    },
    "2.0": {
        "token": "guid",
        "states": ("canGetAndSetFMUstate", "canSerializeFMUstate"),
        "closes": ("completedIntegratorStepNotNeeded", False),
        "derivatives": ("providesDirectionalDerivative",),
        "structure": ("Outputs", "Derivatives", "InitialUnknowns"),
    },
}


class _ModelDescription:
    """Writes modelDescription.xml in the words of a version.

    FMI 2.0 numbers variables in the order of the file, has elements around those of FMI 3.0, and
    lists the source files itself.
    """

    def __init__(
        self, model: FmuModel, version: str, identifier: str, kinds: Sequence[str], about: str
    ) -> None:
        self.model, self.version, self.words = model, version, _WORDS[version]
        self.identifier, self.kinds, self.about = identifier, kinds, about
        self.old, self.exchanges = version == "2.0", "model_exchange" in kinds
        self._number = {
            x.place: i if self.old else x.place for i, x in enumerate(self._shown(), 1)
        }  # by which variables refer to others

    def text(self, token: str) -> str:
        """The whole."""
        rows = "\n".join(map(self._variable, self._shown()))
        dt = self.model.simulator.dt
        inside = "\n".join(
            [
                *map(self._kind, self.kinds),
                _tag("UnitDefinitions", self._units()),
                _tag("LogCategories", _categories(described=not self.old)),
                _tag("DefaultExperiment", startTime=0.0, stopTime=1.0, stepSize=dt),
                f"<ModelVariables>\n{rows}\n</ModelVariables>",
                _tag("ModelStructure", self._structure()),
            ]
        )
        attributes: dict[str, object] = {
            "fmiVersion": self.version,
            "modelName": self.identifier,
            self.words["token"]: token,
            "description": self.about,
            "generationTool": "phipsi",
            "variableNamingConvention": "flat",
            "numberOfEventIndicators": 0 if self.old else None,
        }
        head = _tag("fmiModelDescription", f"\n{inside}\n", **attributes)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n'

    def _units(self) -> str:
        """The units that occur."""
        used = dict.fromkeys(x.unit for x in self.model.variables if x.unit)
        return "".join(_tag("Unit", _tag("BaseUnit", **_UNITS[x]), name=x) for x in used)

    def _kind(self, kind: str) -> str:
        """What the model can do, by co-simulation or by model exchange."""
        plans = self.model.plans
        can: dict[str, object] = {"modelIdentifier": self.identifier}
        can |= dict.fromkeys(self.words["states"], True)
        if kind == "model_exchange":
            word, needed = self.words["closes"]
            can[word] = ("close" in plans) == needed
            can |= dict.fromkeys(self.words["derivatives"], "pull" in plans)
        else:
            can["canHandleVariableCommunicationStepSize"] = not self.model.periods
            can["fixedInternalStepSize"] = None if self.old else self.model.simulator.dt
        sources = _tag("SourceFiles", _tag("File", name=f"{self.identifier}.c"))
        return _tag(KINDS[kind], sources if self.old else "", **can)

    def _shown(self) -> Iterator[Variable]:
        """The variables, without derivatives where there is no model exchange."""
        for x in self.model.variables:
            if x.causality != "hidden" and (x.derivative is None or self.exchanges):
                yield x

    def _initial(self, x: Variable) -> str | None:
        """FMI's word for where the first value comes from."""
        if x.causality in ("input", "independent"):
            return None
        return "calculated" if x.start is None else "exact"

    def _variable(self, x: Variable) -> str:
        named: dict[str, object] = {
            "name": x.name,
            "valueReference": x.place,
            "causality": x.causality,
            "variability": x.variability,
            "initial": self._initial(x),
            "description": x.text or None,
        }
        real: dict[str, object] = {
            "unit": x.unit or None,
            "start": x.start,
            "derivative": None if x.derivative is None else self._number[x.derivative],
            "reinit": True if x.reinit and self.exchanges else None,
        }
        if self.old:
            return "  " + _tag("ScalarVariable", _tag("Real", **real), **named)
        return "  " + _tag("Float64", **named, **real)

    def _structure(self) -> str:
        """Outputs, derivatives of the states, and variables that are calculated at the start."""
        shown = list(self._shown())
        listed = (
            [x for x in shown if x.causality == "output"],
            [x for x in shown if x.derivative is not None],
            [x for x in shown if self._initial(x) == "calculated"],
        )
        out = ""
        for word, found in zip(self.words["structure"], listed, strict=True):
            numbers = [self._number[x.place] for x in found]
            if self.old and found:
                out += _tag(word, "".join(_tag("Unknown", index=n) for n in numbers))
            elif not self.old:
                out += "".join(_tag(word, valueReference=n) for n in numbers)
        return out


def _categories(*, described: bool) -> str:
    names = {"logStatusError": "why a call failed", "logStatusWarning": "what may be wrong"}
    return "".join(
        _tag("Category", name=k, description=v if described else None) for k, v in names.items()
    )


# ---- its C99 -------------------------------------------------------------------------------------


CLOSING_TOLERANCE = 1e-9
"""Relative change of a position or rate beyond which loops are closed again between steps."""


def fmu_source(model: FmuModel, version: str) -> str:
    """The whole file, for FMI "3.0" or "2.0", but for the line that defines TOKEN."""
    head = _GeneratedCode(model)
    assets = files("phipsi.codegen") / "assets"
    core = (assets / "fmu_core.c").read_text(encoding="utf-8")
    functions = (assets / f"fmi{version[0]}.c").read_text(encoding="utf-8")
    return "\n".join([head.text, f"#define FMI_MAJOR {version[0]}", core, functions])


@final
class _GeneratedCode:
    """The generated part: programs, tables, sizes, and the layout of memory."""

    def __init__(self, model: FmuModel) -> None:
        self.model = model
        module = SourceModule()
        self._sources: dict[int, KernelSource] = {}  # by the program's own, for this machine
        runs = {name: self._run(module, name, plan) for name, plan in model.plans.items()}
        for function in module.globals.values():
            function.linkage = "internal"
        self.text = "\n".join([str(module), *self._layout(runs)]) + "\n"

    def _run(self, module: SourceModule, name: str, plan: RunProgram) -> Run:
        sources: list[KernelSource] = []
        for native in plan.sources:
            key = id(native)
            if key not in self._sources:
                self._sources[key] = KernelSource(native.program, SOURCE.target)
            sources.append(self._sources[key])
        out = Run(module, plan, plan.natives, 1, name, sources)
        for end in ("step", "run_size"):
            del module.globals[f"{name}_{end}"]
        module.roots.append(f"{name}_run")
        return out

    # ---- memory -------------------------------------------------------------------------------

    def _layout(self, runs: dict[str, Run]) -> Iterator[str]:
        model = self.model
        states = sum(model.sizes[x] for x in model.continuous)
        first = model.places["der q"]
        values = {
            "N_VALUES": len(model.variables),
            "N_GIVEN": model.inputs_end,
            "N_STATES": states,
            "FIRST_DERIVATIVE": first,
            "FIRST_RECORD": first + states,
            "N_PERIODS": len(model.periods),
            "FIRST_POSITION": model.places["q"],
            "N_POSITIONS": model.sizes["q"] + model.sizes["v"],
        }
        yield from (f"#define {name} {value}" for name, value in values.items())
        yield f"#define CLOSING_TOLERANCE {CLOSING_TOLERANCE:g}"
        yield f"#define STEP_LENGTH {number_text(model.simulator.dt)}"
        yield from (f"#define HAS_{name.upper()} 1" for name in runs)
        listed = [number_text(x) for x in model.starts]
        yield from listed_table("static const double start_values", listed)
        yield "static const char *const status_texts[8] = {"
        yield from (f'  "{STATUS_WORDS.get(i, "unknown")}",' for i in range(8))
        yield "};"
        periods = ", ".join(map(str, model.periods)) or "0"
        yield f"static const int64_t periods[] = {{ {periods} }};"
        scratch = max(x.scratch_bytes for x in self._sources.values()) // 8 + 8
        yield "typedef struct {"
        yield "  double values[N_VALUES];"
        yield "  int64_t step, tick; /* numbers of the next step, and of the next sample */"
        yield "  double begin; /* time of step 0 */"
        yield "  uint64_t status, failed_at;"
        for name, run in runs.items():
            yield f"  uint64_t {name}_job[{self._words(run.plan)}];"
            yield f"  double {name}_work[{max(1, run.size)}];"
        yield f"  double scratch[{scratch}];"
        if "pull" in runs:
            yield "  double weights[N_VALUES - N_GIVEN], by[N_GIVEN];"
        yield "} Model;"
        for name, run in runs.items():
            yield from self._runner(name, run.plan)
        yield "static void bind(Model *m)"
        yield "{"
        yield from (f"  bind_{name}(m);" for name in runs)
        yield "}"

    def _words(self, plan: RunProgram) -> int:
        return run_job.PORTS + 3 * len(plan.ports) + 2 * len(plan.natives)

    def _runner(self, name: str, plan: RunProgram) -> Iterator[str]:
        """Functions that fill the job of a run, and run it."""
        addresses: dict[int, str] = {
            run_job.WORK: f"m->{name}_work",
            run_job.STATUS: "&m->status",
            run_job.FAILED_AT: "&m->failed_at",
        }
        for i, port in enumerate(plan.ports):
            addresses[run_job.PORTS + 3 * i] = self.model.storage_of(port)
        programs = run_job.PORTS + 3 * len(plan.ports)
        for i in range(len(plan.natives)):
            addresses[programs + 2 * i + 1] = "m->scratch"
        yield f"static void bind_{name}(Model *m)"
        yield "{"
        yield f"  uint64_t *job = m->{name}_job;"
        yield f"  job[{run_job.COUNT}] = job[{run_job.EVERY}] = job[{run_job.DIRECTION}] = 1;"
        yield from (f"  job[{i}] = (uintptr_t){x};" for i, x in addresses.items())
        yield "}"
        yield f"static int run_{name}(Model *m, double h, int64_t first, int64_t steps, int record)"
        yield "{"
        yield f"  uint64_t *job = m->{name}_job;"
        yield "  union { double x; uint64_t i; } length;"
        yield "  length.x = h;"
        yield f"  job[{run_job.STEPS}] = (uint64_t)steps;"
        yield f"  job[{run_job.FIRST}] = (uint64_t)first;"
        yield f"  job[{run_job.RECORDS}] = (uint64_t)record;"
        yield f"  job[{run_job.STEP_LENGTH}] = length.i;"
        yield "  m->status = 0;"
        yield f"  {name}_run((char *)job, 0, 0, 0);"
        yield "  return (int)(m->status & 7);"
        yield "}"
