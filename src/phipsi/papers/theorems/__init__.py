"""The book: every numbered result of the papers once, and the printed forms that are wrong.

A theorem is an equation between operators, an equation whose left side is the result of compiled
sweeps, or a check of something else (single blocks, physics). Results that the compiler uses from
left to right refer to their row in `rewrite/identities.py`. `prove` decides any of them on a
mechanism, without a tolerance.
"""

from phipsi.papers.theorems.book_index import identities, identity_named
from phipsi.papers.theorems.prove import Proof, Verdict, prove

__all__ = ["Proof", "Verdict", "identities", "identity_named", "prove"]
