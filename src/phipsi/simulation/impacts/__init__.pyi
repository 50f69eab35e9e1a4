"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.simulation.impacts import contact_steps, single_contact_step

__all__ = ["contact_steps", "single_contact_step"]
