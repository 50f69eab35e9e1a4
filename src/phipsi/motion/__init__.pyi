"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.motion import closure_calls, contact_failures

__all__ = ["closure_calls", "contact_failures"]
