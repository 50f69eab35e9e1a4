"""What a traced function reads besides its arguments: random numbers, clocks, memory of its own.

A trace would keep the one value that was read. Found are draws from the generators that a function
reaches (`random`, NumPy's, those in its globals, closures and attributes), reads of clocks and of
the entropy of the system, and anything else that makes a second trace another graph.
"""

from __future__ import annotations

import datetime
import functools
import os
import random
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

# every trace of a user's function begins here: NumPy's functions register what `Tracer` knows
from phipsi.core.arrays import numpy_functions as numpy_functions
from phipsi.core.arrays.law_errors import fail, is_ours
from phipsi.core.model import is_array, is_collection, is_mapping

_T = TypeVar("_T")
_MOST = 4000  # things that are looked at, in search of generators
_WITHOUT = (
    "phipsi.core.model.",
    "phipsi.core.backends.",
    "phipsi.algorithms.",
    "phipsi.core.expressions.",
    "phipsi.native.",
)
_PLAIN = (str, bytes, int, float, complex, type(None), np.ndarray, np.generic)
_OF_UTC = "utcnow"  # deprecated, but laws may read it
_CLOCKS: dict[Any, str] = {
    f: f"time.{f.__name__}"
    for f in (
        time.time, time.time_ns, time.perf_counter, time.perf_counter_ns, time.monotonic,
        time.monotonic_ns, time.process_time, time.process_time_ns, time.localtime, time.gmtime,
        time.ctime,
    )
} | {
    datetime.datetime.now: "datetime.now",
    getattr(datetime.datetime, _OF_UTC): f"datetime.{_OF_UTC}",
    datetime.datetime.today: "datetime.today", datetime.date.today: "date.today",
}  # fmt: skip
_STANDARD = os.path.dirname(os.__file__) + os.sep
_ADVICE = (
    "a law keeps what it remembers in states={…} or discrete={…}, gets the time as its argument t, "
    "and random numbers from pp.signals.noise"
)


def traced_twice(
    run: Callable[[], _T], same: Callable[[_T, _T], bool], function: Any, place: str
) -> _T:
    """What ``run()`` returns, which traces `function`; rejects one that depends on anything hidden.

    `same` compares the results of two traces. Not seen are values that never change while the
    function is traced (files, environment variables), generators behind compiled code, and a
    memory that changes nothing in the second trace.
    """
    # it fills the table of what traced values know
    from phipsi.core.arrays import numpy_functions as numpy_functions

    before = [(x, _state(x)) for x in _generators(function)]
    first = run()
    for generator, state in before:
        if _state(generator) != state:
            fail(
                f"the function draws random numbers ({_kind_of(generator)}), and its trace would "
                "keep those of the first call",
                _ADVICE,
                place,
            )
    with _reads() as read:  # programs that the function calls are compiled by now
        second = run()
    if read:
        fail(f"the function reads {read[0]}, and its trace would keep that value", _ADVICE, place)
    if not same(first, second):
        fail(
            "two traces of the function differ: it depends on a counter, on random numbers or on "
            "other state that changes outside it",
            _ADVICE,
            place,
        )
    return first


# ---- clocks and entropy --------------------------------------------------------------------------


@contextmanager
def _reads() -> Generator[list[str]]:
    """Names of the clocks and sources of entropy that are read inside, by code that is not ours."""
    found: list[str] = []

    def look(frame: Any, event: str, called: Any) -> None:
        if event != "c_call":
            return
        try:
            clock = _CLOCKS.get(called)
        except TypeError:  # a method of something without a hash
            return
        if clock is not None:
            file = frame.f_code.co_filename
            if not is_ours(file) and not _is_standard(file):
                found.append(f"a clock ({clock})")
        elif called is os.urandom or isinstance(getattr(called, "__self__", None), random.Random):
            if _is_for_the_user(frame):
                found.append("random numbers")

    if sys.getprofile() is not None:  # somebody measures: the second trace alone must do
        yield found
        return
    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(None)


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD) and "-packages" not in file


def _is_for_the_user(frame: Any) -> bool:
    """Whether the innermost frame outside the standard library is not one of ours."""
    while frame is not None and _is_standard(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and not is_ours(frame.f_code.co_filename)


# ---- generators ----------------------------------------------------------------------------------


@functools.cache
def _kinds() -> tuple[type, ...]:
    """The classes of generators; NumPy loads its own with the first use."""
    return (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)


def _state(generator: Any) -> Any:
    """What a generator draws next, as a value that can be compared."""
    if isinstance(generator, random.SystemRandom):
        return None
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        generator = generator.bit_generator
    state = (
        generator.get_state(legacy=False)
        if isinstance(generator, np.random.RandomState)
        else generator.state
    )
    return _plain(state)


def _plain(x: Any) -> Any:
    if is_mapping(x):
        return {name: _plain(y) for name, y in x.items()}
    return x.tobytes() if is_array(x) else x


def _kind_of(generator: object) -> str:
    kind = type(generator)
    return f"{kind.__module__.split('.')[0]}.{kind.__name__}"


def _generators(function: Any) -> list[Any]:
    """The generators that a function reaches, and those of `random` and `numpy.random`."""
    shared: list[Any] = [random.random, np.random.normal]
    found: dict[int, Any] = {id(x.__self__): x.__self__ for x in shared}
    seen: set[int] = set()
    queue: deque[tuple[Any, frozenset[str]]] = deque([(function, frozenset())])
    while queue and len(seen) < _MOST:
        thing, names = queue.popleft()
        if isinstance(thing, _PLAIN) or id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, _kinds()):
            found[id(thing)] = thing
        else:
            queue += [(x, names) if n is None else (x, n) for x, n in _inside(thing, names)]
    return list(found.values())


def _inside(thing: Any, names: frozenset[str]) -> Iterable[tuple[Any, frozenset[str] | None]]:
    """What a thing reaches, and the names that it is looked up by, None for the same."""
    if isinstance(thing, types.FunctionType):
        own = frozenset(_names(thing.__code__))
        reached = [thing.__globals__[n] for n in own if n in thing.__globals__]
        reached += [x.cell_contents for x in thing.__closure__ or () if _is_set(x)]
        reached += [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
        return [(x, own) for x in (*reached, *vars(thing).values())]
    if isinstance(thing, types.ModuleType):
        inner = vars(thing)
        return [(inner[n], None) for n in names if n in inner]
    if isinstance(thing, types.MethodType):
        return [(thing.__self__, None), (thing.__func__, None)]
    if isinstance(thing, functools.partial):
        return [(x, None) for x in (thing.func, *thing.args, *thing.keywords.values())]
    if isinstance(thing, (staticmethod, classmethod)):
        return [(_attribute(thing, "__func__"), None)]
    if isinstance(thing, property):
        return [(thing.fget, None)]
    if is_collection(thing):
        return [(x, None) for x in thing]
    if is_mapping(thing):
        return [(x, None) for x in thing.values()]
    if isinstance(_attribute(thing, "__self__"), _kinds()):  # rng.normal, under a name
        return [(thing.__self__, None)]
    kind = thing if isinstance(thing, type) else type(thing)
    if str(kind.__module__).startswith(_WITHOUT):
        return []
    ours = str(kind.__module__).partition(".")[0] in ("builtins", "numpy", "phipsi")
    classes = [] if ours else [x for x in kind.__mro__ if x is not object]
    reached = [x for one in classes for x in vars(one).values()]
    if not isinstance(thing, type):
        own = _attribute(thing, "__dict__")
        reached += own.values() if isinstance(own, dict) else ()
        reached += [_attribute(thing, n) for one in classes for n in _slots(one)]
    return [(x, None) for x in reached]


def _attribute(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:  # whatever a property of somebody else's object raises
        return None


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for x in code.co_consts:
        if isinstance(x, types.CodeType):
            yield from _names(x)


def _is_set(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _slots(kind: type) -> Iterable[str]:
    found = vars(kind).get("__slots__", ())
    return (found,) if isinstance(found, str) else tuple(found)
