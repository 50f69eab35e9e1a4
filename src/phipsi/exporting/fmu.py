"""export_fmu: a mechanism with its laws as an FMU, for other simulation tools."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from phipsi.errors import InputError, did_you_mean, warn
from phipsi.exporting.fmu_description import KINDS, build_description, model_description
from phipsi.exporting.fmu_model import FmuModel
from phipsi.exporting.fmu_source import fmu_source
from phipsi.model.model import Model
from phipsi.simulation.simulator import Simulator
from phipsi.whole_files import checked_target, path_of, whole_file

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
    """Write a mechanism, with all that acts on it, as an FMU.

    An FMU (fmi-standard.org) runs in other simulation tools, without Python. Co-simulation takes
    the steps of the simulator, with its integrator: the numbers are those of `Simulator.rollout`
    with reproducible arithmetic. Model exchange gives q̇ = N(q) v, vdot and the rates of laws to the
    tool's solver, at quaternions of length 1; loops are closed again after steps of the solver, and
    sampled laws are time events. Mechanisms with contacts, and laws with noise, are for
    co-simulation only.

    **Arguments:** `simulator`, a `Simulator`, or a model or `System`, taken with ``dt = 1e-3``;
    `path`, a file name that ends with .fmu; its name becomes that of the model; `fmi`: "3.0" or
    "2.0"; `kind`: "co_simulation", "model_exchange" or both; `q` (nq,), `v` (nv,), where it
    starts, the neutral configuration at rest if not given; `inputs`, names of the joints whose
    efforts (N·m, N) come from outside, all if None; `outputs`, names out of
    ``simulator.recordable``; `parameters` of laws that can be changed, all if None: their names,
    or values by name; `derivatives`, whether model exchange has partial derivatives, which take
    half of the code; `binary`, whether it contains a library for this machine: with gcc if None
    and it is at hand. The C source is always there.
    **Returns:** the path. **Variables:** ``q.<joint>``, ``v.<joint>``, ``tau.<joint>``, parameters
    by their names, ``name[1]``, … for arrays.
    **Raises:** `InputError` for bad names and kinds that do not fit; nothing is written then.

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
    if fmi not in VERSIONS:
        raise InputError(f'fmi={fmi!r} must be "3.0" or "2.0"')
    compiler = shutil.which("gcc") or shutil.which("cc")
    if binary and compiler is None:
        raise InputError(
            "binary=True needs a C compiler, gcc, which is not on the path. Without one, write the "
            "source only, which tools compile themselves:  binary=False"
        )
    kinds = _kinds(kind)
    options: Any = {"inputs": inputs, "outputs": outputs, "parameters": parameters}
    options |= {"exchange": "model_exchange" in kinds, "derivatives": derivatives}
    model = FmuModel(simulator, q, v, **options)
    if model.unfit and "model_exchange" in kinds:
        if kind == "model_exchange" or len(kinds) == 1:
            raise InputError(
                f'this model cannot be exchanged: {model.unfit}. Use  kind="co_simulation"'
            )
        warn(f"the FMU is for co-simulation only: {model.unfit}.")
        kinds = ("co_simulation",)
    about = f"{simulator.model!r}"
    source = fmu_source(model, fmi)
    contents = model_description(model, fmi, identifier, "", kinds, about) + source
    token = hashlib.sha256(contents.encode()).hexdigest()
    description = model_description(model, fmi, identifier, token, kinds, about)
    source = f'#define TOKEN "{token}"\n{source}'
    with tempfile.TemporaryDirectory() as folder:
        library = None
        if binary or (binary is None and compiler is not None):
            library = _library(str(compiler), source, Path(folder), identifier)
        with whole_file(file) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as fmu:
            _put(fmu, "modelDescription.xml", description)
            _put(fmu, f"sources/{identifier}.c", source)
            if fmi == "3.0":
                _put(fmu, "sources/buildDescription.xml", build_description(identifier))
            if library is not None:
                _put(fmu, _binary_name(fmi, identifier), library.read_bytes())
    return file


def _identifier(file: Path) -> str:
    name = file.stem
    if file.suffix != ".fmu":
        raise InputError(f"{file}: the name of an FMU ends with .fmu:  {file.stem or 'robot'}.fmu")
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        fixed = re.sub(r"\W", "_", name, flags=re.ASCII)
        fixed = fixed if re.match(r"[A-Za-z_]", fixed) else f"m_{fixed}"
        raise InputError(
            f"{file.name}: the name of the model, {name!r}, is not an identifier of C. Use  "
            f"{fixed}.fmu"
        )
    return name


def _kinds(kind: str | Sequence[str]) -> tuple[str, ...]:
    kinds = (kind,) if isinstance(kind, str) else tuple(dict.fromkeys(kind))
    for x in kinds:
        if x not in KINDS:
            raise InputError(
                f"kind={x!r} is not one of {', '.join(map(repr, KINDS))}. "
                f"{did_you_mean(str(x), list(KINDS))}"
            )
    if not kinds:
        raise InputError('kind=() says nothing; use  kind="co_simulation"')
    return tuple(x for x in ("model_exchange", "co_simulation") if x in kinds)


def _library(compiler: str, source: str, folder: Path, identifier: str) -> Path:
    """The source as a shared library of this machine."""
    (folder / f"{identifier}.c").write_text(source, encoding="utf-8")
    out = folder / f"{identifier}{_suffix()}"
    command = [compiler, *_FLAGS, f"{identifier}.c", "-o", out.name, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(
            f"{compiler} could not compile the FMU; write the source only, binary=False:\n"
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
