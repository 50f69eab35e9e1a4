"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.algorithms.dynamics import derivatives

__all__ = ["derivatives"]
