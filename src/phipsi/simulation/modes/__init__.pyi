"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.simulation.modes import contact_events, contact_runs

__all__ = ["contact_events", "contact_runs"]
