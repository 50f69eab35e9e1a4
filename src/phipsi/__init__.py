"""phipsi: type the operator equation of the paper, get its O(N) recursion."""

from phipsi.compiler import compile, explain
from phipsi.operators import parse

__all__ = ["compile", "explain", "parse"]
