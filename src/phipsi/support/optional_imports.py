"""Optional libraries, imported on first use, with an error that says how to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_optional(module: str, what: str, install: str) -> Any:
    """Import a module; if it is missing, say what needs it and what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        text = f"{what} needs {name}, which is not installed:  pip install {install}"
        raise ImportError(text) from error
