"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.laws.motors_and_filters import low_pass, motor, pid, policy
from phipsi.laws.numpy_functions import table

__all__ = ["low_pass", "motor", "pid", "policy", "table"]
