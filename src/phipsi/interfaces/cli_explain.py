"""`phipsi explain`: what becomes of an operator expression."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from phipsi.interfaces.cli_common import Base, command, load_robot, say


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
    base: Base | None = None,
    package_dirs: list[Path] | None = None,
) -> int:
    """Show how an operator expression is computed: rewrites, recursion and cost.

    Type it as in the papers or in ASCII; * or .T is the adjoint, ⁻¹ or .inv the inverse:

        phipsi explain "H φ M φ* H*"

        phipsi explain "(H φ M φ* H* + Jr)⁻¹"

        phipsi explain "(H @ phi @ M @ phi.T @ H.T + Jr).inv" --latex

    With a robot the flops are counted for it, and the whole matrix can be asked for:

        phipsi explain "mass_matrix" --model seven_joint_arm --mode dense

        phipsi explain "J mass_matrix⁻¹ J*" --model seven_joint_arm --points tool

    The exit code is 1 if the expression has no O(N) form, 2 if it is none.

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
    base
        Weld the model's base to the world or let it float.
    package_dirs
        Folders that contain the packages of package:// paths.
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
    robot = None if model is None else load_robot(model, base, package_dirs)
    rewrite = "as_written" if as_written else "full"
    say(str(explained(expr, robot, latex=latex, mode=mode, points=points, rewrite=rewrite)))
    return 0
