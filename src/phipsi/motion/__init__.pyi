"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.motion import acting_laws, closure_calls, contact_steps, rollout, step_rows

__all__ = ["acting_laws", "closure_calls", "contact_steps", "rollout", "step_rows"]
