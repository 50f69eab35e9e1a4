"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.calculus import differentiation

__all__ = ["differentiation"]
