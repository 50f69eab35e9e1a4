"""What `phipsi info` says without a file: versions of the library and of what it runs on."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

NOT_INSTALLED = "not installed"
_EXTRA = re.compile(r"""extra\s*==\s*['"](?P<extra>[\w-]+)['"]""")
_OF_DEVELOPERS = {"bench", "dev", "docs"}


def environment() -> list[tuple[str, str]]:
    """Names and values for the report of a bug: no path, no name of a user or machine."""
    rows = [
        ("phipsi", _own_version()),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("machine code", _machine_code()),
    ]
    return rows + [(name, _version(name)) for name in _packages()]


def _own_version() -> str:
    from phipsi.package_state import public

    return public("__version__")


def _machine_code() -> str:
    """Which processor code is compiled for, or why none is."""
    from phipsi.native import host_target, llvm_library

    problem = llvm_library.problem()
    if problem:
        return f"none: {problem}"
    target = host_target()
    return f"{target.cpu}, {target.lanes} lanes"


def _packages() -> list[str]:
    """Packages that the library requires, then those of extras for users, from its metadata."""
    try:
        found = requires("phipsi") or []
    except PackageNotFoundError:  # sources that nobody has installed
        found = ["numpy", "llvmlite", "scipy", "cyclopts"]
    required: list[str] = []
    optional: list[str] = []
    for line in found:
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        extra = _EXTRA.search(line)
        if not extra:
            required.append(name)
        elif extra["extra"] not in _OF_DEVELOPERS:
            optional.append(name)
    return list(dict.fromkeys([*required, *sorted(optional)]))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return NOT_INSTALLED
