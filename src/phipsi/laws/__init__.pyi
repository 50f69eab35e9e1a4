"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.arrays.numpy_functions import table as table
from phipsi.laws.motors_and_filters import low_pass, motor, pid, policy

__all__ = ["low_pass", "motor", "pid", "policy"]
