"""The process that runs MuJoCo's reader: `python -m phipsi.files.mjcf.worker`."""

from __future__ import annotations

import contextlib
import sys
from importlib import import_module
from typing import Any

from phipsi.files.mjcf.mujoco_arrays import compiled, packed
from phipsi.support import Message, serve


def main() -> None:
    """Answer until the other side is gone; MuJoCo may create no file."""
    serve(_answer, _load_mujoco, writes_files=False)


def _load_mujoco() -> None:
    with contextlib.suppress(ImportError):  # the answer to a request will say so
        import_module("mujoco")


def _answer(request: dict[str, Any], blobs: list[bytes]) -> Message:
    text, *files = blobs
    split = len(request["includes"])
    includes = dict(zip(request["includes"], files[:split], strict=True))
    assets = dict(zip(request["assets"], files[split:], strict=True))
    head, arrays = compiled(text.decode(), includes, assets)
    listed, out = packed(arrays)
    return head | {"arrays": listed}, out


if __name__ == "__main__":
    main()
    sys.exit(0)
