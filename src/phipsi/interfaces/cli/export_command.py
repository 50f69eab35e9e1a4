"""`phipsi export`: functions of a robot as files that run without Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from phipsi.interfaces.cli.common import SOURCE, Source, aligned, command, say

if TYPE_CHECKING:
    from phipsi.model import Model


@command
def export(
    file: Path,
    /,
    *,
    what: str | None = None,
    target: str = "host",
    out: Path | None = None,
    name: str = "robot",
    scratch: str = "caller",
    precision: str = "double",
    shared: bool = False,
    reproducible: bool = False,
    fmu: Path | None = None,
    fmi: str = "3.0",
    dt: float = 1e-3,
    source: Source = SOURCE,
) -> int:
    """Write functions of a robot as an object file with a C interface, or as WebAssembly.

    For example

        phipsi export seven_joint_arm --what forward_dynamics,jacobian:tool --target aarch64-linux

        phipsi export humanoid --target wasm32 --name humanoid

        phipsi export seven_joint_arm --fmu arm.fmu

    Parameters
    ----------
    file
        A URDF, SDF or MJCF file, or a robot that ships with phipsi.
    what
        Names of functions, joined by commas: forward_dynamics, inverse_dynamics, bias_forces,
        gravity_forces, mass_matrix, mass_matrix_inverse, poses, and with points behind a
        colon, joined by +, jacobian:POINT and poses:POINT. By default forward and inverse
        dynamics.
    target
        The processor: host, x86-64, x86-64-v3, aarch64-linux, armv7, riscv64, cortex-m7, wasm32 and
        others; a wrong one lists them all. c writes C99, nvptx64 PTX.
    out
        The folder to write, by default the name with the target behind it.
    name
        What everything in C begins with.
    scratch
        Whose the work memory is: caller, or static for memory inside the object.
    precision
        The numbers: double, or single for arrays of float; errors are measured and printed.
    shared
        Also link a shared library, for this machine.
    reproducible
        Give the same bits on every target, without fused multiply-add.
    fmu
        Write the robot as an FMU instead, for other simulation tools: the name of the file.
    fmi
        The version of FMI: 3.0 or 2.0.
    dt
        The step of the FMU in co-simulation, s.
    """
    if fmu is not None:
        return _export_fmu(source.robot(file), fmu, fmi, dt)
    from phipsi.exporting.export import export as write
    from phipsi.exporting.named_programs import programs_named

    robot = source.robot(file)
    programs = programs_named(robot, what, reproducible=reproducible)
    folder = out or Path(f"{name}-{target}")
    found = write(
        programs, folder, name=name, target=target, scratch=scratch, precision=precision,
        shared=shared,
    )  # fmt: skip
    rows = [("function", "takes", "gives", "bytes of work")]
    for f in found.functions:
        takes, gives = (", ".join(a.name for a in part) for part in (f.inputs, f.outputs))
        rows.append((f.name, takes, gives, str(f.work_bytes)))
    for line in aligned(rows):
        say(line)
    for f in found.functions:
        if f.accuracy is not None:
            say(f"{f.name}: errors of single precision: {f.accuracy}")
    say(f"{found.folder}: {', '.join(found.files)}")
    size = f"{found.code_bytes} bytes of code and tables"
    say(f"{size} for {found.target}; README.md says how to use it")
    return 0


def _export_fmu(robot: Model, path: Path, fmi: str, dt: float) -> int:
    import zipfile

    from phipsi.exporting.fmu import export_fmu
    from phipsi.simulation.simulator import Simulator

    written = export_fmu(Simulator(robot, dt=dt), path, fmi=fmi)
    names = zipfile.ZipFile(written).namelist()
    what = "with a library for this machine" if len(names) > 3 - (fmi == "2.0") else "source only"
    say(f"{written}: FMI {fmi}, {what}, {written.stat().st_size} bytes: {', '.join(names)}")
    say(f"inputs tau.…, outputs q.… and v.… of {robot.nv} degrees of freedom; steps of {dt:g} s")
    return 0
