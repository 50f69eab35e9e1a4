"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write to the file that is given, beside `path`: it takes the place of that in the end.

    If anything fails, `path` is as it was, and nothing else stays. The name keeps its suffix.

    >>> import pathlib, tempfile
    >>> from phipsi.whole_files import whole_file
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with whole_file(target) as part:
    ...     _ = part.write_text("all of it")
    >>> target.read_text(), [x.name for x in target.parent.iterdir()]
    ('all of it', ['note.txt'])
    """
    target = Path(path)
    part = target.with_name(f".{target.stem}.{secrets.token_hex(4)}.part{target.suffix}")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
