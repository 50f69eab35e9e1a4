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
    if isinstance(function, Law) and (function.joints or function.points or not function.acts):
        raise InputError(_only_its_function(function, who, arguments))
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


def _only_its_function(law: Law, who: str, arguments: tuple[str, ...]) -> str:
    """Why a law whose joints, points or `silent` would be ignored is not called as a function."""
    given, name = ", ".join(arguments), law.name
    if not law.joints or law.points or "q" not in arguments:
        what = "is silent" if not law.acts else "has points or joints of its own"
        return (
            f"{who} is a law that {what}, but only its function is called with ({given}) here. "
            f"Pass that function:\n    {name}.function"
        )
    joints = "".join(f"*{{}}[model.joint_rates({n!r})], " for n in law.joints)
    rates = joints.format(*["range(model.nv)"] * len(law.joints))[:-2]
    places = rates.replace("joint_rates", "joint_coordinates").replace("nv", "nq")
    return (
        f"{who} is a law for the joints {', '.join(map(repr, law.joints))}, but its function is "
        f"called with ({given}) of all joints here. Write one of all joints:\n"
        f"    def {name}_of_all({given}):\n"
        f"        i, j = [{places}], [{rates}]\n"
        "        tau = np.zeros_like(v)\n"
        f"        tau[..., j] = {name}(t, q[..., i], v[..., j])\n"
        "        return tau"
    )


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
