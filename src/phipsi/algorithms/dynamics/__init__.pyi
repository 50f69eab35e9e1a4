"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.algorithms.dynamics import constraint_forces, derivatives, inverse_with_actuators

__all__ = ["constraint_forces", "derivatives", "inverse_with_actuators"]
