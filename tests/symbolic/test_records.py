"""The library's `dataclass` does what the standard one does."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, field
from typing import Any, ClassVar

import pytest

from phipsi.records import dataclass

DECORATORS: dict[str, Any] = {"standard": dataclasses.dataclass, "ours": dataclass}


def classes(decorate: Any) -> list[type]:
    """The kinds of classes in the library, built with one of the decorators."""

    @decorate(frozen=True)
    class Plain:
        """Its own text."""

        a: int
        b: tuple[int, ...] = (1, 2)
        made: list[int] = field(default_factory=list[int], compare=False)
        hidden: int = field(default=3, repr=False, hash=False)

    @decorate(frozen=True)
    class Checked(Plain):
        c: float = field(default=0.5, kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "c", float(self.c))

        def __repr__(self) -> str:
            return f"own {self.a}"

    @decorate(frozen=True, eq=False)
    class Identical:
        a: int = 1

    @decorate(frozen=True, slots=True)
    class Slotted:
        a: int
        b: int = 2

    @decorate
    class Changing:
        a: int
        _: KW_ONLY
        b: int = 2

    @decorate(frozen=True)
    class Passed:
        limit: ClassVar[int] = 3
        a: int
        _: KW_ONLY
        more: InitVar[int] = 4
        b: int = 5

        def __post_init__(self, more: int) -> None:
            object.__setattr__(self, "b", self.b + more + self.limit)

    @decorate(frozen=True)
    class OwnEquality:
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, OwnEquality)

        def __hash__(self) -> int:
            return 7

    @decorate(frozen=True)
    class Empty:
        pass

    @decorate(frozen=True, init=False)
    class OwnInit:
        names: tuple[str, ...]

        def __init__(self, *names: str) -> None:
            object.__setattr__(self, "names", names)

    return [Plain, Checked, Identical, Slotted, Changing, Passed, OwnEquality, Empty, OwnInit]


def seen(action: Callable[[], Any]) -> str:
    """The result as text, or the kind of error."""
    try:
        return repr(action())
    except Exception as e:
        return type(e).__name__


def behaviour(cls: Any) -> list[str]:
    """Everything that is used of a dataclass, as text."""
    one, same, other = cls(*_few(cls)), cls(*_few(cls)), cls(*_few(cls, 5))
    found = [
        str(inspect.signature(cls)),
        repr(cls.__match_args__),
        repr([(f.name, f.type, f.init, f.kw_only) for f in dataclasses.fields(cls)]),
        repr(cls.__hash__ is None),
    ]
    for action in (
        lambda: one == same,
        lambda: one == other,
        lambda: one == 1,
        lambda: hash(one) == hash(same),
        lambda: "" if cls.__name__ == "Identical" else one,
        lambda: dataclasses.astuple(one),
        lambda: dataclasses.asdict(dataclasses.replace(one, a=9)),
        lambda: vars(copy.copy(one)),
        lambda: dataclasses.astuple(copy.deepcopy(one)),
        lambda: setattr(one, "a", 3),
        lambda: cls.__name__ == "Slotted" or setattr(one, "new", 3),  # the standard one fails
        lambda: delattr(one, "a"),
        lambda: cls(),
        lambda: cls(1, nonsense=2),
        lambda: cls(1, more=7).b,
        lambda: cls(*range(9)),
    ):
        found.append(seen(action))
    return found


def _few(cls: type, a: int = 1) -> tuple[int, ...]:
    return (a,) if dataclasses.fields(cls) else ()


def test_classes_behave_as_those_of_the_standard_library():
    built = {name: classes(decorate) for name, decorate in DECORATORS.items()}
    for theirs, ours in zip(*built.values(), strict=True):
        expected, got = behaviour(theirs), behaviour(ours)
        assert [x.replace("classes.<locals>.", "") for x in got] == [
            x.replace("classes.<locals>.", "") for x in expected
        ]


def test_the_comparison_sees_differences():
    changed = dataclasses.make_dataclass("Plain", [("a", int)])
    assert behaviour(classes(dataclass)[2]) != behaviour(changed)


def test_a_subclass_may_have_more_attributes():
    for decorate in DECORATORS.values():
        plain = classes(decorate)[0]
        child: Any = type("Child", (plain,), {})(1)
        child.more = 2
        assert child.more == 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
            child.a = 2


@dataclass(frozen=True, slots=True)
class Kept:
    """At the level of the module, where pickles find it."""

    a: int
    b: str = "b"


def test_slots_are_pickled():
    assert pickle.loads(pickle.dumps(Kept(4))) == Kept(4)
    assert not hasattr(Kept(4), "__dict__")
