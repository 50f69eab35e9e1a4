"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.simulation.runs import rollout

__all__ = ["rollout"]
