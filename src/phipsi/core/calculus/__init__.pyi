"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.calculus import differentiation
from phipsi.core.calculus.change import VARIABLES as VARIABLES
from phipsi.core.calculus.differentiation import diff as diff, gradient as gradient, vjp as vjp
from phipsi.core.calculus.directional import substitute as substitute, with_parts as with_parts
from phipsi.core.calculus.families import Family as Family, along_units as along_units

__all__ = ["differentiation"]
