"""Shared by the commands: reading a robot, reporting errors, printing to any terminal.

Exit codes: 0 all is well, 1 it was tried and failed, 2 the question could not be understood (a
wrong option, an unreadable file, a joint that does not exist), 130 interrupted with Ctrl-C.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, ParamSpec

from cyclopts import Parameter

from phipsi.cli.advice import for_the_command_line

if TYPE_CHECKING:
    from phipsi.core.model import Model

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130

Base = Literal["fixed", "free"]
OUT = Parameter(name=("--out", "-o"), negative=())
Files = Annotated[list[Path] | None, Parameter(negative=())]
Out = Annotated[Path | None, OUT]
Outs = Annotated[list[Path] | None, OUT]
P = ParamSpec("P")


def command(function: Callable[P, int]) -> Callable[P, int]:
    """Let a command end with a message and an exit code where it would raise."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> int:
        from phipsi.errors import LoweringError, PhipsiError

        try:
            return function(*args, **kwargs)
        except PhipsiError as error:
            notes = "\n".join([str(error), *error.__notes__])
            print_error(for_the_command_line(notes))
            failures = (LoweringError, ArithmeticError, RuntimeError)
            return FAILED if isinstance(error, failures) else BAD_USAGE
        except ImportError as error:  # an extra that is not installed, with the command to do it
            print_error(str(error))
            return FAILED
        except BrokenPipeError:
            raise
        except OSError as error:
            print_error(f"{error.filename or 'a file'}: {error.strerror or error}")
            return FAILED

    return wrapped


def print_error(text: str) -> None:
    """Write an error where errors go."""
    print(printable(text, sys.stderr), file=sys.stderr)


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How robot files are read.

    Parameters
    ----------
    base
        Whether the base is fixed to the world or floats; by default as the file format says.
    package_dirs
        Folders that contain the packages named in package:// paths.
    """

    base: Base | None = None
    package_dirs: Files = None

    def load(
        self, file: Path, model: str | None = None, loops: Literal["cut"] | None = None
    ) -> Model:
        """A robot by its file, or by the name of one that ships with the library.

        Findings about the file are not reported here: `phipsi check` lists them.
        """
        from phipsi import examples
        from phipsi.errors import ModelError, PhipsiWarning
        from phipsi.files import load

        if str(file) in examples.ROBOTS and not file.exists():
            if self.base or self.package_dirs or model or loops:
                raise ModelError(
                    f"{file} ships with phipsi: --base, --package-dirs, --model and --loops are "
                    "for files. (A file of that name would come first.)"
                )
            return getattr(examples, str(file))()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PhipsiWarning)
            try:
                return load(
                    file, self.base, package_dirs=self.package_dirs, model=model,
                    loops=loops or "close",
                )  # fmt: skip
            except ModelError as error:
                raise ModelError(_on_the_command_line(str(error), str(file))) from error


@Parameter(name="*")
@dataclass(frozen=True)
class ModelSource(Reading):
    """How robot files are read, and which of the models in them.

    Parameters
    ----------
    model
        The name of a model, for SDF files with several models.
    loops
        cut: remove the constraints that close loops or couple joints, so that mimic joints move
        independently.
    """

    model: str | None = None
    loops: Literal["cut"] | None = None

    def robot(self, file: Path) -> Model:
        """The robot that is meant."""
        return self.load(file, self.model, self.loops)

    def reject_for_scenario(self, **more: object) -> None:
        """An error if an option is given that a scenario has in its file; `more` of them."""
        from phipsi.errors import InputError

        for name, value in {
            "base": self.base,
            "model": self.model,
            "loops": self.loops,
            **more,
        }.items():
            if value is not None:
                raise InputError(
                    f"--{name} is for robot files. Remove it, and set it in the scenario file"
                )


READING, SOURCE = Reading(), ModelSource()  # of commands without such options


def _on_the_command_line(text: str, file: str) -> str:
    """An error of `load` whose advice in Python is repeated for the command line."""
    import difflib

    from phipsi import examples

    for option in ("package_dirs", "model"):
        if f"{option}=" in text:
            text += f"\nOn the command line:  --{option.replace('_', '-')} …"
    if "cannot be opened" in text and (
        difflib.get_close_matches(file, examples.ROBOTS) or not os.path.splitext(file)[1]
    ):
        text += f"\nRobots that ship with phipsi: {', '.join(examples.ROBOTS)}."
    return text


def supports_unicode() -> bool:
    """Whether standard output takes more than ASCII."""
    return (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")


def printable(text: str, stream: object = None) -> str:
    """The text with what the terminal cannot show, or would obey, replaced."""
    from phipsi.errors import shown_lines

    encoding = getattr(stream or sys.stdout, "encoding", None) or "ascii"
    return shown_lines(text).encode(encoding, "replace").decode(encoding)


def print_line(text: str = "") -> None:
    """Print a line to any terminal."""
    print(printable(text))


def aligned(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> list[str]:
    """Rows of cells as lines with columns; behind the first, `numbers` stand at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "   ".join(
            cell.rjust(width) if numbers and i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
