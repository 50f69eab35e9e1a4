"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.embedding.embedded_system import (
    EmbeddedSystem as EmbeddedSystem,
    embed_constraints as embed_constraints,
)

__all__ = []
