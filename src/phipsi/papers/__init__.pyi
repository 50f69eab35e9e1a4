"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.papers.derivations.derive import derive as derive
from phipsi.papers.derivations.named_equations import book as book, difference as difference
from phipsi.papers.derivations.normal_form import words_of as words_of
from phipsi.papers.derivations.paper_derivations import (
    DERIVATIONS as DERIVATIONS,
    derivation_of as derivation_of,
)
from phipsi.papers.model_checks import Check as Check, check_model as check_model
from phipsi.papers.proofs.claim_decision import (
    bound as bound,
    digits_state as digits_state,
    equal as equal,
    in_digits as in_digits,
    modular_state as modular_state,
    sides as sides,
)
from phipsi.papers.proofs.digits import long_decimals as long_decimals
from phipsi.papers.proofs.exact_array import NotRational as NotRational
from phipsi.papers.theorems.book import ERRATA as ERRATA, THEOREMS as THEOREMS
from phipsi.papers.theorems.book_index import identities as identities
from phipsi.papers.theorems.prove import prove as prove
from phipsi.papers.workbench.server import Workbench as Workbench

__all__ = []
