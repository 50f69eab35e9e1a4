"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.files import conventions as conventions
from phipsi.files.allowed_folders import (
    AllowedFolders as AllowedFolders,
    PackageDirs as PackageDirs,
    Rejected as Rejected,
)
from phipsi.files.conventions import to_pinocchio as to_pinocchio
from phipsi.files.files import read_bytes as read_bytes
from phipsi.files.joint_values import (
    assignments as assignments,
    initial_state as initial_state,
    joint_values as joint_values,
    parsed_number as parsed_number,
    with_values as with_values,
)
from phipsi.files.load import load as load
from phipsi.files.mjcf.read_mjcf import READERS as READERS

__all__ = []
