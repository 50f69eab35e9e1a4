"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.machine.array_machine import (
    ArrayMachine as ArrayMachine,
    ArrayMemory as ArrayMemory,
    ArrayWords as ArrayWords,
)
from phipsi.core.machine.machine import (
    Body as Body,
    Candidate as Candidate,
    Entry as Entry,
    Given as Given,
    Index as Index,
    Item as Item,
    Machine as Machine,
    Mask as Mask,
    Memory as Memory,
    Number as Number,
    Pair as Pair,
    Place as Place,
    RowOf as RowOf,
    Values as Values,
    Words as Words,
)
from phipsi.core.machine.number_machine import NumberMachine as NumberMachine
from phipsi.core.machine.solvers import (
    BLOCK as BLOCK,
    eliminate_blocks as eliminate_blocks,
    factor_cholesky as factor_cholesky,
    invert_by_elimination as invert_by_elimination,
    solve_cholesky as solve_cholesky,
    solve_lower as solve_lower,
    solve_upper as solve_upper,
    substitute_blocks as substitute_blocks,
)

__all__ = []
