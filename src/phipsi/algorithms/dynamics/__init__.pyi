"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.algorithms.dynamics import actuation, body_accelerations, constraint_forces, derivatives

__all__ = ["actuation", "body_accelerations", "constraint_forces", "derivatives"]
