"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.arrays import table as table
from phipsi.laws import signals as signals
from phipsi.laws.block_diagram import INERTIA as INERTIA
from phipsi.laws.block_diagram import AlgebraBlock as AlgebraBlock
from phipsi.laws.block_diagram import BlockDiagram as BlockDiagram
from phipsi.laws.block_diagram import JointRows as JointRows
from phipsi.laws.block_diagram import Quantity as Quantity
from phipsi.laws.block_diagram import Sampling as Sampling
from phipsi.laws.law import OUTPUTS as OUTPUTS
from phipsi.laws.law import RESERVED as RESERVED
from phipsi.laws.law import Law as Law
from phipsi.laws.law import law as law
from phipsi.laws.motors_and_filters import low_pass, motor, pid, policy
from phipsi.laws.signals import Signal as Signal
from phipsi.laws.signals import noise_numbers as noise_numbers
from phipsi.laws.signals import seeded as seeded
from phipsi.laws.signals import uniform_numbers as uniform_numbers

__all__ = ["low_pass", "motor", "pid", "policy"]
