"""Functions of users: their signatures, and errors of their first calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from phipsi.errors import InputError, PhipsiError, SimulationError
from phipsi.laws import Law


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function, or the class of an object that is called like one."""
    if isinstance(function, Law):
        return function.name
    return getattr(function, "__qualname__", None) or type(function).__name__


def check_signature(function: Callable[..., Any], who: str, *arguments: str) -> None:
    """Reject a function that cannot be called with these arguments, and laws."""
    if isinstance(function, Law) and function.arguments != arguments:
        given = ", ".join(arguments)
        raise InputError(
            f"{who} is a law, whose arguments are passed by name, but it is called with "
            f"({given}) here. Pass laws to a Simulator:\n"
            f"    pp.Simulator(model, [{function.name}.bind(…)], dt=1e-3)"
        )
    if not callable(function):
        raise InputError(f"{who} must be a function of ({', '.join(arguments)})")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # machine code has no signature
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        given = ", ".join(arguments)
        raise InputError(
            f"{who} takes {signature}, but it is called with ({given}). Define it as\n"
            f"    def {_identifier(function)}({given}): …"
        ) from None


@contextmanager
def first_call(who: str, t: float) -> Generator[None]:
    """Say whose first call failed, instead of the bare exception."""
    try:
        yield
    except PhipsiError:
        raise
    except Exception as error:
        raise SimulationError(
            f"{who} failed in its first call, at t = {t:.6g} s: {type(error).__name__}: {error}"
        ) from error


def _identifier(function: Callable[..., Any]) -> str:
    name = name_of(function).rpartition(".")[2]
    return name if name.isidentifier() else "function"
