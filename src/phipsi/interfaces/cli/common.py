"""Shared by the commands: reading a robot, reporting errors, printing to any terminal.

Exit codes: 0 all is well, 1 it was tried and failed, 2 the question could not be understood (a
wrong option, an unreadable file, a joint that does not exist), 130 interrupted with Ctrl-C.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec, cast

if TYPE_CHECKING:
    from phipsi.model import Model

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130

Base = Literal["fixed", "free"]
P = ParamSpec("P")


def command(function: Callable[P, int]) -> Callable[P, int]:
    """Let a command end with a message and an exit code where it would raise."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> int:
        from phipsi.errors import LoweringError, PhipsiError

        try:
            return function(*args, **kwargs)
        except PhipsiError as error:
            complain(str(error))
            failures = (LoweringError, ArithmeticError, RuntimeError)
            return FAILED if isinstance(error, failures) else BAD_USAGE
        except ImportError as error:  # an extra that is not installed, with the command to do it
            complain(str(error))
            return FAILED
        except BrokenPipeError:
            raise
        except OSError as error:
            complain(f"{error.filename or 'a file'}: {error.strerror or error}")
            return FAILED

    return wrapped


def complain(text: str) -> None:
    """Write an error where errors go."""
    print(printable(text, sys.stderr), file=sys.stderr)


def load_robot(
    file: Path, base: Base | None, package_dirs: list[Path] | None, model: str | None = None
) -> Model:
    """A robot by its file, or by the name of one that ships with the library.

    Findings about the file are not reported here: `phipsi check` lists them.
    """
    from phipsi.errors import ModelError, PhipsiWarning
    from phipsi.interfaces.formats.load import load

    shipped = shipped_robot(str(file))
    if shipped is not None and not file.exists():
        if base or package_dirs or model:
            raise ModelError(
                f"{file} ships with phipsi and is what it is: --base, --package-dirs and --model "
                f"are for files. (A file of that name would come first.)"
            )
        return shipped
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhipsiWarning)
        try:
            return load(file, base, package_dirs=package_dirs, model=model)
        except ModelError as error:
            raise ModelError(_on_the_command_line(str(error), str(file))) from error


def shipped_robot(name: str) -> Model | None:
    """One of `phipsi.examples` by its name, or None."""
    from phipsi import examples

    if name not in examples.ROBOTS:
        return None
    return cast("Model", getattr(examples, name)())


def _on_the_command_line(text: str, file: str) -> str:
    """An error of `load` with what its advice in Python means here."""
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


def speaks_unicode() -> bool:
    """Whether standard output takes more than ASCII."""
    return (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")


def printable(text: str, stream: object = None) -> str:
    """The text with what the terminal cannot show, or would obey, replaced."""
    from phipsi.errors import shown_lines

    encoding = getattr(stream or sys.stdout, "encoding", None) or "ascii"
    return shown_lines(text).encode(encoding, "replace").decode(encoding)


def say(text: str = "") -> None:
    """Print a line to any terminal."""
    print(printable(text))
