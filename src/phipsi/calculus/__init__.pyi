"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.calculus import differentiation

__all__ = ["differentiation"]
