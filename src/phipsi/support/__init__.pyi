"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.support.array_archives import (
    ArrayArchive as ArrayArchive,
    opened_file as opened_file,
    read_archive as read_archive,
)
from phipsi.support.atomic_files import (
    MissingPath as MissingPath,
    UnusablePath as UnusablePath,
    atomic_write as atomic_write,
    atomic_write_text as atomic_write_text,
    checked_page as checked_page,
    checked_target as checked_target,
    named_as as named_as,
    path_of as path_of,
)
from phipsi.support.limited_process import (
    Ended as Ended,
    LimitedProcess as LimitedProcess,
    Message as Message,
    NotStarted as NotStarted,
    TooSlow as TooSlow,
    serve as serve,
)
from phipsi.support.loopback_server import LoopbackServer as LoopbackServer
from phipsi.support.optional_imports import import_optional as import_optional
from phipsi.support.progress import Progress as Progress, make_progress as make_progress
from phipsi.support.short_texts import (
    fields_in_line as fields_in_line,
    one_line as one_line,
    shapes_in_line as shapes_in_line,
    value_in_line as value_in_line,
)

__all__ = []
