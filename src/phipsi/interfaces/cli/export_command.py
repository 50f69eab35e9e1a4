"""`phipsi export`: functions of a robot as files that run without Python."""

from __future__ import annotations

from pathlib import Path

from phipsi.interfaces.cli.common import SOURCE, Source, aligned, command, say


@command
def export(
    file: Path,
    /,
    *,
    what: str = "forward_dynamics,inverse_dynamics",
    target: str = "host",
    out: Path | None = None,
    name: str = "robot",
    scratch: str = "caller",
    reproducible: bool = False,
    source: Source = SOURCE,
) -> int:
    """Write functions of a robot as an object file with a C interface, or as WebAssembly.

    For example

        phipsi export seven_joint_arm --what forward_dynamics,jacobian:tool --target aarch64-linux

        phipsi export humanoid --target wasm32 --name humanoid

    Parameters
    ----------
    file
        A URDF, SDF or MJCF file, or a robot that ships with phipsi.
    what
        Names of functions, joined by commas: forward_dynamics, inverse_dynamics, bias_forces,
        gravity_forces, mass_matrix, mass_matrix_inverse, body_poses, and with points behind a
        colon, joined by +, jacobian:POINT and frame_poses:POINT.
    target
        The processor: host, x86-64, x86-64-v3, aarch64-linux, armv7, riscv64, cortex-m7, wasm32 and
        others; a wrong one lists them all.
    out
        The folder to write, by default the name with the target behind it.
    name
        What everything in C begins with.
    scratch
        Whose the work memory is: caller, or static for memory inside the object.
    reproducible
        Give the same bits on every target, without fused multiply-add.
    """
    from phipsi.exporting.export import export as write
    from phipsi.exporting.named_programs import programs_named

    robot = source.robot(file)
    programs = programs_named(robot, what.split(","), reproducible=reproducible)
    folder = out or Path(f"{name}-{target}")
    found = write(programs, folder, name=name, target=target, scratch=scratch)
    rows = [("function", "takes", "gives", "bytes of work")]
    for f in found.functions:
        takes, gives = (", ".join(a.name for a in part) for part in (f.inputs, f.outputs))
        rows.append((f.name, takes, gives, str(f.work_bytes)))
    for line in aligned(rows):
        say(line)
    say(f"{found.folder}: {', '.join(found.files)}")
    size = f"{found.code_bytes} bytes of code and tables"
    say(f"{size} for {found.target}; README.md says how to use it")
    return 0
