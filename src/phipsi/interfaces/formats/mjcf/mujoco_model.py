"""MuJoCo's compiler at work on a checked file, in a process of its own unless isolate=False."""

from __future__ import annotations

from typing import Any, final

from phipsi.errors import FileError, PhipsiError
from phipsi.interfaces.formats.load_options import Options
from phipsi.interfaces.formats.mjcf.checked_files import MjcfFiles, complaint
from phipsi.interfaces.formats.mjcf.mujoco_arrays import NAMED, Arrays, compiled, unpacked
from phipsi.interfaces.formats.mjcf.mujoco_text import text_for_mujoco
from phipsi.interfaces.limited_process import Ended, LimitedProcess, NotStarted, TooSlow

READERS = LimitedProcess("phipsi.interfaces.formats.mjcf.worker")
_HERE = "If you trust the file, read it in this process:\n    pp.load({file!r}, isolate=False)"


@final
class Compiled:
    """What is read off a compiled model: arrays by MuJoCo's names, names, and MuJoCo's remarks.

    `names` has a list for each word of `mujoco_arrays.NAMED`; "" is a name that was not given.
    """

    def __init__(self, head: dict[str, Any], arrays: Arrays) -> None:
        self.__dict__.update(arrays)
        self.names: dict[str, list[str]] = head["names"]
        self.remarks: list[str] = head["remarks"]
        self.nu = int(arrays["counts"][0])
        self.nbody, self.njnt, self.nsite, self.ngeom, _, self.ntendon, self.neq = (
            len(self.names[word]) for word in NAMED
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} is not among the arrays that mujoco_arrays.py reads")


def compiled_model(found: MjcfFiles, options: Options) -> Compiled:
    """The model that MuJoCo compiles from a file, or a FileError."""
    text = text_for_mujoco(found.root, True)
    includes = {name: text_for_mujoco(e, False).encode() for name, e in found.includes.items()}
    if options.isolate:
        head, arrays = _from_process(found, text, includes, options)
    else:
        head, arrays = compiled(text, includes, found.assets)
    if "failure" in head:
        raise _failure(found, head["failure"], head["message"], options)
    return Compiled(head, arrays)


def _from_process(
    found: MjcfFiles, text: str, includes: dict[str, bytes], options: Options
) -> tuple[dict[str, Any], Arrays]:
    request = {
        "includes": list(includes),
        "assets": list(found.assets),
        "seconds": options.max_seconds,
        "memory": options.max_memory,
    }
    blobs = [text.encode(), *includes.values(), *found.assets.values()]
    here = _HERE.format(file=found.file)
    try:
        head, answer = READERS.ask(request, blobs, options.max_seconds)
        return head, {} if "failure" in head else unpacked(head["arrays"], answer)
    except NotStarted as error:
        reason = (
            "MuJoCo's reader runs in a process of its own, so that no fault in it can harm "
            f"yours, and that process could not be started: {error}. {here}"
        )
    except TooSlow:
        reason = (
            f"MuJoCo needs more than {options.max_seconds:g} s for it. If it is right, give it "
            f"more:\n    pp.load({found.file!r}, max_seconds={10 * options.max_seconds:g})"
        )
    except Ended as error:
        reason = (
            f"MuJoCo's reader ended with {error} at this file. Your own process is not affected, "
            "and other files can be read. It is a fault of MuJoCo's, or the file needs more memory "
            f"than max_memory={options.max_memory} allows."
        )
    except (ValueError, KeyError, TypeError) as error:
        reason = f"MuJoCo's reader gave an answer that cannot be understood: {error}."
    raise FileError(found.file, 1, "<mujoco>", reason)


def _failure(found: MjcfFiles, kind: str, message: str, options: Options) -> PhipsiError:
    if kind == "missing":
        reason = (
            f'MJCF is read with MuJoCo ({message}). Install it:\n    pip install "phipsi[mjcf]"'
        )
        return FileError(found.file, 1, "<mujoco>", reason)
    if kind == "memory":
        reason = (
            f"MuJoCo needs more memory for it than the {options.max_memory:,} bytes it may use. "
            "If it is right, give it more:\n"
            f"    pp.load({found.file!r}, max_memory={4 * options.max_memory})"
        )
        return FileError(found.file, 1, "<mujoco>", reason)
    return complaint(found, message)
