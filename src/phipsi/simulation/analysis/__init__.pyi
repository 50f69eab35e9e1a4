"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.simulation.analysis import law_linearization

__all__ = ["law_linearization"]
