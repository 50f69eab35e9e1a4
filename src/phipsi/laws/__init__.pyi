"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.arrays import table as table
from phipsi.laws import signals as signals
from phipsi.laws.block_diagram import (
    INERTIA as INERTIA,
    AlgebraBlock as AlgebraBlock,
    BlockDiagram as BlockDiagram,
    JointRows as JointRows,
    Quantity as Quantity,
    Range as Range,
    Sampling as Sampling,
)
from phipsi.laws.law import OUTPUTS as OUTPUTS, RESERVED as RESERVED, Law as Law, law as law
from phipsi.laws.motors_and_filters import low_pass, motor, pid, policy
from phipsi.laws.signals import (
    Signal as Signal,
    noise_numbers as noise_numbers,
    seeded as seeded,
    uniform_numbers as uniform_numbers,
)

__all__ = ["low_pass", "motor", "pid", "policy"]
