"""The check that a function got the tree it works on."""

from __future__ import annotations

from typing import Any

from phipsi.errors import InputError
from phipsi.model.closures import ConstrainedModel
from phipsi.model.model import Model


def checked_system(system: Any, function: str) -> None:
    """Refuse what has no constraints."""
    if isinstance(system, ConstrainedModel):
        return
    if isinstance(system, Model):
        raise InputError(
            f"{function} is for a System, and a model has no constraints. Give it some, or none:\n"
            f"    {function}(pp.System(model, []), …)"
        )
    raise InputError(f"{function} needs a System first, not {type(system).__name__}; see pp.System")


def checked_tree(model: Any, function: str, instead: str = "") -> Model:
    """Refuse what is no model, a system with loops among it; `instead`: what there is for that."""
    if isinstance(model, Model):
        return model
    if isinstance(model, ConstrainedModel):
        raise InputError(
            f"{function} knows no constraints, and a System has some. Its tree, with the loops cut "
            "open, is system.model." + (f"\n{instead}" if instead else "")
        )
    raise InputError(
        f"{function} needs a model first, not {type(model).__name__}; see pp.ModelBuilder, pp.load"
    )
