"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.scenarios.load_scenario import load_scenario as load_scenario
from phipsi.scenarios.scenario import Scenario as Scenario, checked_output as checked_output

__all__ = []
