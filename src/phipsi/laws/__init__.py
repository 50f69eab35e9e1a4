"""Laws that are there: motors, PID, filters, networks, tables; `pp.law` makes your own.

Laws are functions in plain arithmetic, traced to a graph that every backend runs.
"""

from phipsi.laws.numpy_functions import table
from phipsi.laws.standard_laws import low_pass, motor, pid, policy
from phipsi.loaded import only_public

__all__ = ["low_pass", "motor", "pid", "policy", "table"]
__dir__ = only_public(__name__)
