"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.simulation.integrators import step_rows

__all__ = ["step_rows"]
