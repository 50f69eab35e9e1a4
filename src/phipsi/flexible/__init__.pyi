"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.flexible.finite_elements import mesh_matrices as mesh_matrices
from phipsi.flexible.vibration import (
    Vibrations as Vibrations,
    energy_shares as energy_shares,
    natural_frequencies as natural_frequencies,
)

__all__ = []
