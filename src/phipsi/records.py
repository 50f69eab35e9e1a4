"""`dataclass`: that of the standard library, built in a third of the time.

The standard decorator compiles up to six methods of every class, one after the other: half a
millisecond each time the library is loaded, for some fifty classes before the first result. Here
the methods that run often are compiled together, and the others are ordinary functions. Fields,
`replace`, `astuple` and matching are the standard ones; type checkers see the standard decorator.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, fields
from dataclasses import dataclass as _standard
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """A class of named values: ``@dataclass(frozen=True)``, as in the standard library."""
        return _built(cls) if cls is not None else lambda cls: _built(cls, **options)


class _Factory:
    """Stands for a value that a factory makes, in signatures."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _built(
    cls: type,
    *,
    frozen: bool = False,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    slots: bool = False,
) -> type:
    """The class with the methods that it does not have yet."""
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else the standard decorator writes the signature
    own = dict(vars(cls))
    if own.get("__hash__") is None:  # there is none, or an __eq__ without one
        own.pop("__hash__", None)
    cls = _standard(cls, init=False, repr=False, eq=False, slots=slots)
    known = fields(cls)  # pyright: ignore[reportArgumentType]
    added = _compiled(cls, known, frozen, init, eq) if init or eq else {}
    if repr:
        added["__repr__"] = _repr
    if frozen:
        added |= _locks(cls, frozenset(f.name for f in known))
        if slots:
            added |= {"__getstate__": _state, "__setstate__": _restore}
    for name, method in added.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _compiled(
    cls: type, known: tuple[Field[Any], ...], frozen: bool, init: bool, eq: bool
) -> dict[str, Any]:
    """The methods that run often, with the names of the fields in their text."""
    space: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    text = _init_text(cls, known, frozen, space) if init else ""
    if eq:
        both = [(f.name, f.compare, f.compare if f.hash is None else f.hash) for f in known]
        mine, theirs = (
            "".join(f"{x}.{name}, " for name, compared, _ in both if compared)
            for x in ("self", "other")
        )
        hashed = "".join(f"self.{name}, " for name, _, it in both if it)
        text += (
            "def __eq__(self, other):\n"
            f" if other.__class__ is self.__class__: return ({mine}) == ({theirs})\n"
            " return NotImplemented\n"
            + (f"def __hash__(self): return hash(({hashed}))\n" if frozen else "__hash__ = None\n")
        )
    exec(text, space)
    made = {name: x for name, x in space.items() if name in ("__init__", "__eq__", "__hash__")}
    for name, method in made.items():
        if method is not None:
            method.__module__, method.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
    if init:
        types = {f.name: f.type for f in _parameters(cls, known) if f.init}
        made["__init__"].__annotations__ = {**types, "return": None}
    return made


def _parameters(cls: Any, known: tuple[Field[Any], ...]) -> list[Field[Any]]:
    """The fields, and those that are passed to `__post_init__` only, in the order of the class."""
    every = cls.__dataclass_fields__.values()
    return [f for f in every if f in known or "InitVar" in str(f.type)]


def _init_text(
    cls: type, known: tuple[Field[Any], ...], frozen: bool, space: dict[str, Any]
) -> str:
    """The method that sets the fields, then calls `__post_init__`; `space` gets the defaults."""
    store = "_set(self, {0!r}, {1})" if frozen else "self.{0} = {1}"
    by_place, by_name, body, passed = ["self"], ["*"], [""], list[str]()
    for f in _parameters(cls, known):
        made = f.default_factory is not MISSING
        if made:
            space[f"_make_{f.name}"] = f.default_factory
        elif f.default is not MISSING:
            space[f"_of_{f.name}"] = f.default
        if f.init:
            default = "=_FACTORY" if made else "" if f.default is MISSING else f"=_of_{f.name}"
            (by_name if f.kw_only else by_place).append(f.name + default)
            if made:
                body.append(f"if {f.name} is _FACTORY: {f.name} = _make_{f.name}()")
            if f in known:
                body.append(store.format(f.name, f.name))
            else:
                passed.append(f.name)
        elif made:
            body.append(store.format(f.name, f"_make_{f.name}()"))
    if hasattr(cls, "__post_init__"):
        body.append(f"self.__post_init__({', '.join(passed)})")
    heads = by_place + (by_name if len(by_name) > 1 else [])
    lines = "\n ".join(body if len(body) > 1 else ["", "pass"])
    return f"def __init__({', '.join(heads)}):{lines}\n"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _locks(cls: type, names: frozenset[str]) -> dict[str, Any]:
    """Methods that reject changes; subclasses that are not dataclasses may have more attributes."""

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
