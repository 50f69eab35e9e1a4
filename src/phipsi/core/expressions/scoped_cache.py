"""Results that are cached while a request is compiled, and dropped with it.

Compiling asks for the same adjoints and leaves again and again. A cache that lives longer would
keep expressions alive, and an expression that lives is the one that equal ones become: with 1/2 X
somewhere, 0.5 X is printed as 1/2 X. So what is printed must not depend on earlier requests.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from functools import wraps
from threading import Lock
from typing import Any, TypeVar

Argument = TypeVar("Argument", bound=Hashable)
Found = TypeVar("Found")

_TABLES: list[dict[Any, Any]] = []
_COUNTING = Lock()
_requests = 0  # that are compiled just now, one inside the other or in several threads


def cached_in_scope(function: Callable[[Argument], Found]) -> Callable[[Argument], Found]:
    """The function of one argument, computed once per argument within `cache_scope`.

    >>> from phipsi.core.expressions.scoped_cache import cached_in_scope, cache_scope
    >>> calls = []
    >>> twice = cached_in_scope(lambda x: calls.append(x) or 2 * x)
    >>> with cache_scope():
    ...     twice(3), twice(3), calls
    (6, 6, [3])
    >>> twice(3), twice(3), calls
    (6, 6, [3, 3, 3])
    """
    table: dict[Argument, Found] = {}
    _TABLES.append(table)

    @wraps(function)
    def found(x: Argument) -> Found:
        if not _requests:
            return function(x)
        try:
            return table[x]
        except KeyError:
            table[x] = out = function(x)
            return out

    return found


@contextmanager
def cache_scope() -> Generator[None]:
    """Remember results until the outermost of these contexts is left."""
    global _requests
    with _COUNTING:
        _requests += 1
    try:
        yield
    finally:
        with _COUNTING:
            _requests -= 1
            if not _requests:
                for table in _TABLES:
                    table.clear()
