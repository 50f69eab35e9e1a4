"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.support.array_archives import ArrayArchive as ArrayArchive
from phipsi.support.array_archives import opened_file as opened_file
from phipsi.support.array_archives import read_archive as read_archive
from phipsi.support.atomic_files import MissingPath as MissingPath
from phipsi.support.atomic_files import UnusablePath as UnusablePath
from phipsi.support.atomic_files import atomic_write as atomic_write
from phipsi.support.atomic_files import atomic_write_text as atomic_write_text
from phipsi.support.atomic_files import checked_page as checked_page
from phipsi.support.atomic_files import checked_target as checked_target
from phipsi.support.atomic_files import named_as as named_as
from phipsi.support.atomic_files import path_of as path_of
from phipsi.support.limited_process import Ended as Ended
from phipsi.support.limited_process import LimitedProcess as LimitedProcess
from phipsi.support.limited_process import Message as Message
from phipsi.support.limited_process import NotStarted as NotStarted
from phipsi.support.limited_process import TooSlow as TooSlow
from phipsi.support.limited_process import serve as serve
from phipsi.support.loopback_server import LoopbackServer as LoopbackServer
from phipsi.support.optional_imports import import_optional as import_optional
from phipsi.support.progress import Progress as Progress
from phipsi.support.progress import make_progress as make_progress

__all__ = []
