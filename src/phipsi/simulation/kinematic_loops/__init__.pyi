"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.simulation.kinematic_loops import closure_calls

__all__ = ["closure_calls"]
