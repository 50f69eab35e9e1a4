"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.simulation.analysis import acting_laws

__all__ = ["acting_laws"]
