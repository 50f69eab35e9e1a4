"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.machine.array_machine import ArrayMachine as ArrayMachine
from phipsi.core.machine.array_machine import ArrayMemory as ArrayMemory
from phipsi.core.machine.array_machine import ArrayWords as ArrayWords
from phipsi.core.machine.machine import Body as Body
from phipsi.core.machine.machine import Candidate as Candidate
from phipsi.core.machine.machine import Entry as Entry
from phipsi.core.machine.machine import Given as Given
from phipsi.core.machine.machine import Index as Index
from phipsi.core.machine.machine import Item as Item
from phipsi.core.machine.machine import Machine as Machine
from phipsi.core.machine.machine import Mask as Mask
from phipsi.core.machine.machine import Memory as Memory
from phipsi.core.machine.machine import Number as Number
from phipsi.core.machine.machine import Pair as Pair
from phipsi.core.machine.machine import Place as Place
from phipsi.core.machine.machine import RowOf as RowOf
from phipsi.core.machine.machine import Values as Values
from phipsi.core.machine.machine import Words as Words
from phipsi.core.machine.number_machine import NumberMachine as NumberMachine
from phipsi.core.machine.solvers import BLOCK as BLOCK
from phipsi.core.machine.solvers import eliminate_blocks as eliminate_blocks
from phipsi.core.machine.solvers import factor_cholesky as factor_cholesky
from phipsi.core.machine.solvers import invert_by_elimination as invert_by_elimination
from phipsi.core.machine.solvers import solve_cholesky as solve_cholesky
from phipsi.core.machine.solvers import solve_lower as solve_lower
from phipsi.core.machine.solvers import solve_upper as solve_upper
from phipsi.core.machine.solvers import substitute_blocks as substitute_blocks

__all__ = []
