"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.user_operators.block_formulas import Formula as Formula
from phipsi.user_operators.custom import (
    operator as operator,
    scalar as scalar,
    vector as vector,
    with_any_blocks as with_any_blocks,
)
from phipsi.user_operators.function_rows import (
    RateLaw as RateLaw,
    TracedLaw as TracedLaw,
    traced_law as traced_law,
)
from phipsi.user_operators.own_blocks import Table as Table

__all__ = []
