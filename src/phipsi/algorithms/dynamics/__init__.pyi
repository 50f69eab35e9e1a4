"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.algorithms.dynamics import actuation, constraint_forces, derivatives

__all__ = ["actuation", "constraint_forces", "derivatives"]
