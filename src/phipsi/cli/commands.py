"""The command line: `phipsi info`, `check`, `simulate`, `explain`, `export` and others.

Heavy imports are inside the functions, so that help is quick.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError

from phipsi.cli.advice import function_of_python
from phipsi.cli.bench import bench
from phipsi.cli.common import (
    BAD_USAGE,
    INTERRUPTED,
    OUT,
    READING,
    SOURCE,
    Files,
    ModelSource,
    Out,
    Reading,
    aligned,
    command,
    print_error,
    print_line,
    supports_unicode,
)
from phipsi.cli.notes import print_notes
from phipsi.cli.run_commands import Several, Vector, scenario_of, simulate, study_app

if TYPE_CHECKING:
    from phipsi.simulation import Simulator

app = App(
    name="phipsi",
    help="""Multibody dynamics: load, simulate, view and export robots.

    FILE is a robot file (URDF, SDF or MJCF), or the name of a robot that ships with phipsi:
    seven_joint_arm, free_flyer, quadruped or humanoid. Try

        phipsi info seven_joint_arm

        phipsi simulate seven_joint_arm --set elbow_pitch=45deg --duration 2

        phipsi view seven_joint_arm

        phipsi explain "(H φ M φ* H* + Jr)⁻¹"

    Add --help to any command for its options and examples.
    """,
    help_format="markdown",
    version_flags=["--version"],
)


@command
def info(file: Path | None = None, /, *, frames: bool = False, source: ModelSource = SOURCE) -> int:
    """Show the bodies and joints of a robot; without a file, the versions of phipsi and packages.

    The tree has names, degrees of freedom and masses. Bug reports need the versions. For example

        phipsi info seven_joint_arm --frames

        phipsi info

    Parameters
    ----------
    file
        A robot file (URDF, SDF or MJCF), or the name of a robot that ships with phipsi.
    frames
        Also show the frames that are fixed to each body.
    """
    if file is None:
        return _versions(source, frames)
    from phipsi.errors import counted, shown
    from phipsi.pages import draw_tree, sizes_of

    robot = source.robot(file)
    mass = sum(inertia.mass for inertia in robot.inertias)
    name = shown(robot.name or file.name)[:80]
    print_line(f"{name}: {sizes_of(robot)}, {mass:.4g} kg that can move")
    for line in draw_tree(robot, frames=frames, ascii_only=not supports_unicode()):
        print_line(line)
    if robot.constraints:
        listed = ", ".join(shown(c.name)[:60] for c in robot.constraints)
        print_line(f"{counted(len(robot.constraints), 'constraint')}: {listed}")
    rest = ("frame", len(robot.frames)), ("shape", len(robot.geometry))
    print(", ".join(counted(n, word) for word, n in rest))
    if robot.diagnosis:
        print(f"{counted(len(robot.diagnosis), 'finding')} in the file; phipsi check lists them")
    return 0


def _versions(source: ModelSource, frames: bool) -> int:
    """The versions, where no option asks about a robot."""
    from phipsi.cli.environment import environment
    from phipsi.errors import InputError

    if frames or source != SOURCE:
        raise InputError("phipsi info: these options need a FILE, as in  phipsi info arm.urdf")
    for line in aligned(environment()):
        print_line(line)
    return 0


# ---- of robots and expressions -------------------------------------------------------------------


@command
def check(file: Path, /, *, seed: int = 0, source: ModelSource = SOURCE) -> int:
    """Check a robot file: inertias, dynamics, and every operator identity for this robot.

    For example

        phipsi check arm.urdf

    The exit code is 0 if all checks pass, 1 if one fails, 2 if the file cannot be read.

    Parameters
    ----------
    file
        A robot file (URDF, SDF or MJCF), or the name of a robot that ships with phipsi.
    seed
        Seed of the random state at which the dynamics are checked.
    """
    from phipsi.papers import check_model

    robot = source.robot(file)
    failed = 0
    for result in check_model(robot.model, seed):
        print_line(str(result))
        failed += result.passed is False
    for finding in robot.diagnosis:
        if not finding.is_problem:
            print_line(f"note  {finding}")
    print("all checks pass" if not failed else f"{failed} check(s) fail")
    return 1 if failed else 0


@command
def explain(
    expression: str,
    /,
    *,
    model: Path | None = None,
    latex: bool = False,
    mode: Literal["apply", "dense"] = "apply",
    points: list[str] | None = None,
    as_written: bool = False,
    notation: str = "",
    reading: Reading = READING,
) -> int:
    """Show the O(N) recursion that an operator expression compiles to, and its cost.

    Write the expression in Greek or in ASCII; * or .T is the adjoint, ⁻¹ or .inv the inverse:

        phipsi explain "H φ M φ* H*"

        phipsi explain "(H φ M φ* H* + Jr)⁻¹"

        phipsi explain "(H @ phi @ M @ phi.T @ H.T + Jr).inv" --latex

    With --model the flops are those of one robot, and --mode dense computes the whole matrix:

        phipsi explain "mass_matrix" --model seven_joint_arm --mode dense

        phipsi explain "J mass_matrix⁻¹ J*" --model seven_joint_arm --points tool

    The exit code is 1 if the expression has no O(N) form, 2 if the text is not an expression.

    Parameters
    ----------
    expression
        Operators and vectors of the algebra; docs/expressions.md lists them.
    model
        A robot file, or the name of a robot that ships with phipsi.
    latex
        Print the recursion as LaTeX.
    mode
        apply: the product with a vector; dense: the matrix (needs --model).
    points
        Bodies or frames at which B and J are evaluated (needs --model); by default the last body.
    as_written
        Do not rewrite the expression; only share common parts and fuse sweeps.
    notation
        Read the expression in the letters of a paper: SOA, MM, MC, 88-11, "88-11 II" or MS.
    """
    from phipsi.core.compiler import explain as explained
    from phipsi.core.operators import parse
    from phipsi.errors import InputError

    if model is None and (mode == "dense" or points):
        what = "--mode dense" if mode == "dense" else "--points"
        raise InputError(
            f"{what} needs a robot: add  --model FILE, for example  --model seven_joint_arm"
        )
    expr = parse(expression, notation)
    robot = None if model is None else reading.load(model)
    rewrite = "as_written" if as_written else "full"
    print_line(str(explained(expr, robot, latex=latex, mode=mode, points=points, rewrite=rewrite)))
    return 0


@command
def workbench(
    expression: str = "",
    /,
    *,
    model: Path | None = None,
    port: int = 0,
    seconds: float = 20.0,
    open: bool = True,
    reading: Reading = READING,
) -> int:
    """Open a web page to type, explain, prove and derive expressions.

    It shows the spaces, every rewrite, the recursion, the blocks, the cost, the code and the value
    of what you type, in Greek, ASCII or LaTeX:

        phipsi workbench "J mass_matrix⁻¹ J*"

        phipsi workbench --model arm.urdf --no-open

    Only this machine can open the page: its address has a token. Ctrl-C stops the server.

    Parameters
    ----------
    expression
        The expression that the page shows first.
    model
        A robot file, listed next to the robots that ship with phipsi.
    port
        The port to listen on; 0 takes any free port.
    seconds
        Time limit for one answer, s.
    open
        Open the page in the browser.
    """
    from phipsi.papers import Workbench

    robot = None if model is None else reading.load(model)
    with Workbench(robot, expression=expression, port=port, seconds=seconds) as bench:
        print_line(f"{bench.address}\nCtrl-C ends the workbench.")
        sys.stdout.flush()
        if open:
            bench.open_browser()
        bench.wait()
    return 0


@command
def demo(*, out: Annotated[Path, OUT] = Path("phipsi-demo"), open: bool = False) -> int:
    """Load an arm, simulate it, check energy and momentum, and write an HTML report.

    For example

        phipsi demo --open

    The report is one HTML file with an animation and plots. It needs no network.

    Parameters
    ----------
    out
        Folder for the robot file, the trajectory and the report; created if necessary.
    open
        Open the report in the browser.
    """
    from phipsi.cli.demo import run

    return run(out, open_report=open)


# ---- pages, pictures, files ----------------------------------------------------------------------


@command
def view(
    file: Path,
    /,
    *,
    out: Out = None,
    set: Several = None,
    joint_properties: bool = False,
    ground: bool = False,
    gravity: Vector = None,
    dt: float | None = None,
    meshes: bool = True,
    open: bool = True,
    source: ModelSource = SOURCE,
) -> int:
    """Write an interactive web page that simulates a robot in the browser.

    For example

        phipsi view seven_joint_arm

        phipsi view humanoid --joint-properties --out humanoid.html --no-open

    The page has sliders for the joints, and bodies can be dragged with the mouse. It is one file
    that needs no network. The simulation is paused at first; the space bar starts it. A scenario
    (.toml) runs with its springs and controllers, but without its events.

    Parameters
    ----------
    file
        A robot file (URDF, SDF or MJCF), the name of a robot that ships with phipsi, or a scenario
        (.toml).
    out
        The HTML file to write; by default NAME-live.html, where NAME is that of the robot file.
    set
        Initial position of a joint, in rad or m, such as elbow=30deg; see phipsi simulate --help.
    joint_properties
        Apply the damping, friction and joint limits of the file.
    ground
        Add the ground z = 0, and contacts between all bodies that have collision shapes.
    gravity
        Gravity as three numbers, m/s², in world axes; by default that of the robot.
    dt
        Time step, s; by default 0.001, with contacts 0.002.
    meshes
        Draw the meshes of the file.
    open
        Open the page in the browser.
    """
    from phipsi.pages import live_page

    simulator, q, v = _to_view(
        file, set, gravity, dt, source, joint_properties=joint_properties, ground=ground
    )
    target = out or Path(f"{file.stem}-live.html")
    title = simulator.model.name or file.stem
    page = live_page(simulator, target, q=q, v=v, title=title, play=False, meshes=meshes)
    how = f"{simulator.integrator}, steps of {simulator.dt:g} s"
    print_line(f"{page}: {page.stat().st_size / 1e6:.1f} MB, {how}")
    if open:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    return 0


def _to_view(
    file: Path, stated: Several, gravity: Vector, dt: float | None, source: ModelSource, *,
    joint_properties: bool, ground: bool,
) -> tuple[Simulator, Any, Any]:  # fmt: skip
    """The simulator of a robot or a scenario, and its first state."""
    from phipsi.errors import InputError
    from phipsi.files import assignments
    from phipsi.simulation import Simulator

    if file.suffix.lower() == ".npz":
        raise InputError(
            f"{file} is a trajectory; phipsi view simulates a robot or a scenario. For a video:\n"
            f"    phipsi render {file} {file.stem}.mp4\n"
            "For a page with plots and an animation, simulate with an .html file as output:\n"
            f"    phipsi simulate FILE --duration 2 --out {file.stem}.html"
        )
    scenario = scenario_of(file, source, assignments(stated or (), "--set"), {})
    model, laws = scenario.model, scenario.laws
    dt = scenario.dt if dt is None else dt
    if scenario.events:
        print_error("warning: the page has no events; those of the scenario are left out")
    if gravity is not None:
        model = model.with_gravity(gravity)
    if ground:
        from phipsi.algorithms import System
        from phipsi.contact import Contacts, ground_of

        floor = ground_of(model)
        if floor:
            print_line(f"The ground is the plane {floor!r} of the file, at z = 0.")
        contacts = Contacts(model, ground=not floor)
        model = System(model.model, model.constraints, contacts=contacts)
    touches = model.contact_pairs is not None
    if joint_properties:
        from phipsi.simulation import from_model

        laws += from_model(model, exact=touches)
    integrator = "time_stepping" if touches else "rk4"
    step = (2e-3 if touches else 1e-3) if dt is None else dt
    if file.suffix.lower() != ".toml":
        print_notes(
            scenario.model, file, joint_properties=joint_properties, touching=touches, dt=step,
            q=scenario.q0,
        )  # fmt: skip
    simulator = Simulator(model, laws, step, integrator=integrator, reproducible=True)
    return simulator, scenario.q0, scenario.v0


@command
def render(
    file: Path,
    out: Path,
    /,
    *,
    fps: float | None = None,
    speed: float | None = None,
    size: str = "1280x720",
    time: float | None = None,
    theme: str = "light",
    package_dirs: Files = None,
) -> int:
    """Render a trajectory as a video (.mp4, .webm, .gif) or as a picture (.png).

    For example

        phipsi simulate seven_joint_arm --set shoulder_pitch=60deg --duration 2 --out fall.npz

        phipsi render fall.npz fall.mp4 --speed 0.5

        phipsi render fall.npz fall.png --time 1.5 --size 1920x1080

    Rendering needs Chromium or Chrome, videos need ffmpeg, and GIFs need Pillow. No screen is
    needed.

    Parameters
    ----------
    file
        A trajectory (.npz), written by phipsi simulate --out FILE.npz or by Trajectory.save.
    out
        The video or picture to write.
    fps
        Frames per second of the video.
    speed
        Playback speed: 1 is real time, 0.5 is half speed.
    size
        Width and height in pixels, such as 1920x1080.
    time
        Time of the picture, s; by default the end of the trajectory.
    theme
        Color theme: light or dark.
    package_dirs
        More folders from which meshes may be read; by default only the folder of the robot file.
    """
    from phipsi.errors import InputError
    from phipsi.pages import render as draw
    from phipsi.simulation import Trajectory

    wide, _, high = size.partition("x")
    if not (wide.isdigit() and high.isdigit()):
        raise InputError(f"--size {size}: write it as 1280x720")
    pixels = int(wide), int(high)
    if file.suffix.lower() in (".urdf", ".sdf", ".xml", ".mjcf", ".toml"):
        duration = "" if file.suffix.lower() == ".toml" else "--duration 2 "
        raise InputError(
            f"{file} is a robot or a scenario; phipsi render needs a trajectory of it:\n"
            f"    phipsi simulate {file} {duration}-o {file.stem}.npz\n"
            f"    phipsi render {file.stem}.npz {out}"
        )
    run = Trajectory.load(file, package_dirs=package_dirs or ())
    written = draw(run, out, fps=fps, speed=speed, size=pixels, time=time, theme=theme)
    print_line(f"{written}: {written.stat().st_size / 1e6:.2f} MB")
    return 0


@command
def export(
    file: Path,
    /,
    *,
    what: str | None = None,
    target: str = "host",
    out: Out = None,
    name: str = "robot",
    scratch: str = "caller",
    precision: str = "double",
    shared: bool = False,
    reproducible: bool = False,
    fmu: Path | None = None,
    fmi: str = "3.0",
    dt: float = 1e-3,
    joint_properties: bool = False,
    source: ModelSource = SOURCE,
) -> int:
    """Generate code for the dynamics of a robot: object files, C, WebAssembly or an FMU.

    For example

        phipsi export seven_joint_arm --what forward_dynamics,jacobian:tool --target aarch64-linux

        phipsi export humanoid --target wasm32 --name humanoid

        phipsi export seven_joint_arm --fmu arm.fmu

    Parameters
    ----------
    file
        A robot file (URDF, SDF or MJCF), or the name of a robot that ships with phipsi.
    what
        Names of functions, separated by commas: forward_dynamics, inverse_dynamics,
        bias_forces, gravity_forces, mass_matrix, mass_matrix_inverse, poses; and with points,
        separated by +: jacobian:POINT, poses:POINT+POINT. By default forward and inverse
        dynamics.
    target
        The processor: host, x86-64, x86-64-v3, aarch64-linux, armv7, riscv64, cortex-m7, wasm32
        and others (an unknown name lists them all); c for C99 source, nvptx64 for PTX.
    out
        The folder to write; by default NAME-TARGET.
    name
        Prefix of all names in C.
    scratch
        Working memory: caller (passed by the caller) or static (inside the object file).
    precision
        double, or single for arrays of float; rounding errors are then measured and printed.
    shared
        Also link a shared library for this machine.
    reproducible
        Give bitwise identical results on every target (no fused multiply-add).
    fmu
        Write an FMU for Simulink, Modelica tools and others instead, to this file.
    fmi
        FMI version: 3.0 or 2.0.
    dt
        Time step of the FMU in co-simulation, s.
    joint_properties
        Apply the damping, friction and joint limits of the file in the FMU.
    """
    if fmu is not None:
        return _export_fmu(file, source, fmu, fmi, dt, joint_properties=joint_properties)
    if joint_properties:
        from phipsi.errors import InputError

        raise InputError(
            "--joint-properties has no effect: it is for --fmu, which simulates. The functions of "
            "--what get the torques and forces of the joints as tau"
        )
    from phipsi.codegen import export as write, programs_named

    robot = source.robot(file)
    programs = programs_named(robot, what, reproducible=reproducible)
    folder = out or Path(f"{name}-{target}")
    package = write(
        programs, folder, name=name, target=target, scratch=scratch, precision=precision,
        shared=shared,
    )  # fmt: skip
    rows = [("function", "inputs", "outputs", "bytes of working memory")]
    for f in package.functions:
        takes, gives = (", ".join(a.name for a in part) for part in (f.inputs, f.outputs))
        rows.append((f.name, takes, gives, str(f.work_bytes)))
    for line in aligned(rows):
        print_line(line)
    for f in package.functions:
        if f.accuracy is not None:
            print_line(f"{f.name}: errors of single precision: {f.accuracy}")
    print_line(f"{package.folder}: {', '.join(package.files)}")
    size = f"{package.code_bytes} bytes of code and tables"
    print_line(f"{size} for {package.target}; README.md says how to use it")
    return 0


def _export_fmu(
    file: Path, source: ModelSource, path: Path, fmi: str, dt: float, *, joint_properties: bool
) -> int:
    import zipfile

    from phipsi.codegen import export_fmu
    from phipsi.simulation import Simulator, from_model

    robot = source.robot(file)
    print_notes(robot, file, joint_properties=joint_properties, fmu=True, dt=dt)
    laws = from_model(robot) if joint_properties else []
    written = export_fmu(Simulator(robot, laws, dt), path, fmi=fmi)
    names = zipfile.ZipFile(written).namelist()
    what = "with a library for this machine" if len(names) > 3 - (fmi == "2.0") else "source only"
    print_line(f"{written}: FMI {fmi}, {what}, {written.stat().st_size} bytes: {', '.join(names)}")
    print_line(
        f"inputs tau.…, outputs q.… and v.… of {robot.nv} degrees of freedom; steps of {dt:g} s"
    )
    return 0


# ---- the command line itself ---------------------------------------------------------------------

for one in (info, check, simulate, view, render, explain, export, workbench, bench, demo):
    app.command(one)
app.command(study_app)


def main() -> None:
    """Entry point of the `phipsi` command."""
    for stream in (sys.stdout, sys.stderr):  # Greek that a terminal cannot show must not end us
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = app(exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError:  # it is reported already
        code = BAD_USAGE
        print(function_of_python(*sys.argv[1:2]), end="", file=sys.stderr)
    except BrokenPipeError:  # whoever read the output, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)
