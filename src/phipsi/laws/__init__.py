"""Laws that are there: motors, PID, filters, networks, tables; `pp.law` makes your own.

Laws are functions in plain arithmetic, traced to a graph that every backend runs.
"""

from phipsi.laws.motors_and_filters import low_pass, motor, pid, policy
from phipsi.laws.numpy_functions import table
from phipsi.loaded import only_public

__all__ = ["low_pass", "motor", "pid", "policy", "table"]
__dir__ = only_public(__name__)
