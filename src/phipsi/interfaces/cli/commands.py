"""The command line: `phipsi info`, `check`, `simulate`, `explain`, `export` and others.

Heavy imports are inside the functions, so that help is quick.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Literal

from cyclopts import App, CycloptsError

from phipsi.interfaces.cli.bench import bench
from phipsi.interfaces.cli.common import (
    BAD_USAGE,
    INTERRUPTED,
    READING,
    SOURCE,
    Reading,
    Source,
    command,
    say,
    speaks_unicode,
)
from phipsi.interfaces.cli.export_command import export
from phipsi.interfaces.cli.simulate_command import simulate
from phipsi.interfaces.cli.study_command import study_app
from phipsi.interfaces.cli.view_command import render, view

app = App(
    name="phipsi",
    help="""Multibody dynamics on the Spatial Operator Algebra.

    FILE is a robot file (URDF, SDF or MJCF) or a robot that ships with phipsi:
    seven_joint_arm, free_flyer, quadruped or humanoid. Try

        phipsi info seven_joint_arm

        phipsi simulate seven_joint_arm --set elbow_pitch=45deg --duration 2

        phipsi view seven_joint_arm

        phipsi explain "(H φ M φ* H* + Jr)⁻¹"

    and --help after any command.
    """,
    help_format="markdown",
    version_flags=["--version"],
)


@command
def info(file: Path, /, *, frames: bool = False, source: Source = SOURCE) -> int:
    """Show the tree of a robot file: names, joints, degrees of freedom and masses.

    For example

        phipsi info seven_joint_arm --frames

    Parameters
    ----------
    file
        A URDF, SDF or MJCF file, or a robot that ships with phipsi.
    frames
        Also show the frames fixed in each body.
    """
    from phipsi.errors import shown
    from phipsi.interfaces.model_checks import counted
    from phipsi.interfaces.model_tree import draw_tree

    robot = source.robot(file)
    mass = sum(inertia.mass for inertia in robot.inertias)
    name = shown(robot.name or file.name)[:80]
    sizes = f"{counted(robot.n_bodies, 'body')}, nq = {robot.nq}, nv = {robot.nv}"
    say(f"{name}: {sizes}, {mass:.4g} kg that can move")
    for line in draw_tree(robot, frames=frames, ascii_only=not speaks_unicode()):
        say(line)
    if robot.constraints:
        listed = ", ".join(shown(c.name)[:60] for c in robot.constraints)
        say(f"{counted(len(robot.constraints), 'constraint')}: {listed}")
    rest = ("frame", len(robot.frames)), ("shape", len(robot.geometry))
    print(", ".join(counted(n, word) for word, n in rest))
    if robot.diagnosis:
        print(f"{counted(len(robot.diagnosis), 'finding')} in the file; phipsi check lists them")
    return 0


# ---- the other commands --------------------------------------------------------------------------


@command
def check(file: Path, /, *, seed: int = 0, source: Source = SOURCE) -> int:
    """Check a robot file: its inertias, its dynamics, and every operator identity on it.

    The exit code is 0 if all checks pass, 1 if one fails, 2 if the file cannot be read.

    Parameters
    ----------
    file
        A URDF, SDF or MJCF file, or a robot that ships with phipsi.
    seed
        Of the random state at which dynamics is checked.
    """
    from phipsi.interfaces.model_checks import check_model

    robot = source.robot(file)
    failed = 0
    for result in check_model(robot.model, seed):
        say(str(result))
        failed += result.passed is False
    for finding in robot.diagnosis:
        if not finding.is_problem:
            say(f"note  {finding}")
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
    reading: Reading = READING,
) -> int:
    """Show how an operator expression is computed: rewrites, recursion and cost.

    Type it as in the papers or in ASCII; * or .T is the adjoint, ⁻¹ or .inv the inverse:

        phipsi explain "H φ M φ* H*"

        phipsi explain "(H φ M φ* H* + Jr)⁻¹"

        phipsi explain "(H @ phi @ M @ phi.T @ H.T + Jr).inv" --latex

    With a robot the flops are counted for it, and the whole matrix can be asked for:

        phipsi explain "mass_matrix" --model seven_joint_arm --mode dense

        phipsi explain "J mass_matrix⁻¹ J*" --model seven_joint_arm --points tool

    The exit code is 1 if the expression has no O(N) form, 2 if the text is not an expression.

    Parameters
    ----------
    expression
        Operators and vectors of the algebra; docs/expressions.md lists them.
    model
        A robot file, or a robot that ships with phipsi.
    latex
        Print LaTeX.
    mode
        apply: to a vector; dense: the matrix, which needs a model.
    points
        Bodies or frames that B and J refer to; by default the last body.
    as_written
        Do not rewrite; only share and fuse.
    """
    from phipsi.compiler import explain as explained
    from phipsi.errors import InputError
    from phipsi.operators import parse

    if model is None and (mode == "dense" or points):
        what = "--mode dense" if mode == "dense" else "--points"
        raise InputError(
            f"{what} needs a robot: add  --model FILE, for example  --model seven_joint_arm"
        )
    expr = parse(expression)
    robot = None if model is None else reading.load(model)
    rewrite = "as_written" if as_written else "full"
    say(str(explained(expr, robot, latex=latex, mode=mode, points=points, rewrite=rewrite)))
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
    """Serve a page on which expressions are typed, explained, proved and derived.

    It shows the spaces, every rewrite, the recursion, the blocks, the cost, the code and the value
    of what you type, in Greek, ASCII or LaTeX:

        phipsi workbench "J mass_matrix⁻¹ J*"

        phipsi workbench --model arm.urdf --no-open

    The page is for this machine only: its address holds a token, and Ctrl-C ends it.

    Parameters
    ----------
    expression
        What the page begins with.
    model
        A robot file, offered beside the robots that ship with phipsi.
    port
        The port to listen on; 0 takes any that is free.
    seconds
        The longest that one answer may take.
    open
        Open the page in the browser.
    """
    from phipsi.interfaces.workbench.server import Workbench

    robot = None if model is None else reading.load(model)
    with Workbench(robot, expression=expression, port=port, seconds=seconds) as bench:
        say(f"{bench.address}\nCtrl-C ends the workbench.")
        sys.stdout.flush()
        if open:
            import webbrowser

            webbrowser.open(bench.address)
        bench.wait()
    return 0


@command
def demo(*, out: Path = Path("phipsi-demo"), open: bool = False) -> int:
    """Load an arm, explain its dynamics, simulate it, check it, and write a report.

    For example

        phipsi demo --open

    The report is one HTML file with an animation and plots that opens without a network.

    Parameters
    ----------
    out
        Folder for the robot file, the recording and the report; created if it does not exist.
    open
        Open the report in the browser.
    """
    from phipsi.demo import run

    return run(out, open_report=open)


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
    except BrokenPipeError:  # whoever read the output, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)
