"""How many random cases `make test` draws; `make fuzz` draws more, by the variable beside each.

The cases are seeded: the first ones of a long run are those of a short one.
"""

import os
from collections.abc import Iterable
from typing import TypeVar

_Case = TypeVar("_Case")
ALL = "PHIPSI_FUZZ" in os.environ


def seeds(count: int, few: int | None = None) -> range:
    """The seeds of a test: a few (without a number, a third of all), all of them in `make fuzz`."""
    return range(count if ALL else few or -(-count // 3))


def examples(count: int) -> int:
    """How many examples Hypothesis draws: half of so many, all of them in `make fuzz`."""
    return count if ALL else -(-count // 2)


def mostly(cases: Iterable[_Case], *rare: _Case) -> list[_Case]:
    """The cases without those that only `make fuzz` takes: others look at the same thing."""
    found = list(cases)
    assert all(x in found for x in rare)
    return [x for x in found if ALL or x not in rare]


def amount(variable: str, few: int) -> int:
    """So many, unless the environment names another number."""
    return int(os.environ.get(variable, few))


EXPRESSIONS = amount("PHIPSI_FUZZ", 120)  # against the dense oracle
NATIVE_EXPRESSIONS = amount("PHIPSI_FUZZ_NATIVE", 33)  # machine code against the reference
FILE_MUTANTS = amount("PHIPSI_FUZZ_FILES", 400)  # of every robot file
MEMORY_CYCLES = amount("PHIPSI_CYCLES", 250)  # programs that come and go
EXPORTED_EXPRESSIONS = amount("PHIPSI_FUZZ_EXPORTED", 8)  # exported code against machine code
GEARED_TREES = 1000 if ALL else 4  # with rotors on any axis, against rotors that are bodies
