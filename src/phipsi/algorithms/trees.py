"""The check that a function got the tree it works on."""

from __future__ import annotations

from typing import Any

from phipsi.errors import InputError
from phipsi.model.closures import ConstrainedModel
from phipsi.model.model import Model


def checked_tree(model: Any, function: str) -> Model:
    """Refuse what is no model, a system with loops among it."""
    if isinstance(model, Model):
        return model
    if isinstance(model, ConstrainedModel):
        raise InputError(
            f"{function} knows no constraints, and a System has some. For its tree with the loops "
            f"cut open:  {function}(system.model, …)"
        )
    raise InputError(
        f"{function} needs a model first, not {type(model).__name__}; see pp.ModelBuilder, pp.load"
    )
