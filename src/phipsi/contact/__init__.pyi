"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.contact import contact_failures, contact_points, contact_record, contact_rows

__all__ = ["contact_failures", "contact_points", "contact_record", "contact_rows"]
