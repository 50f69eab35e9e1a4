"""Laws: functions of users in plain arithmetic, traced to a graph that every backend runs."""

import phipsi.laws.numpy_functions  # noqa: F401  fills the tables of trace.py
