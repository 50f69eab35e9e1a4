"""What the functions of a study depend on: their text, and everything that they reach.

Blocks of a study belong together if its functions mean the same in all of them. So the definition
has, by name, what `initial_state`, `metrics` and the functions of events read: other functions and
classes with their text, values of modules, dictionaries and objects, attributes of other modules,
what they close over. Functions of installed libraries count by their name and version.

It cannot see files, the environment, chance and time, names that are computed, and the contents of
what functions write to themselves: a cache, an attribute of `self`. Objects that have no state that
Python can show are reported as `unseen`.
"""

from __future__ import annotations

import ast
import builtins
import copyreg
import dataclasses
import dis
import enum
import functools
import hashlib
import importlib
import importlib.util
import inspect
import sys
import sysconfig
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any, final

import numpy as np

from phipsi.errors import shown

Known = Callable[[Any], Any]
"""What to look at in place of a value: everything that it depends on; None for the value itself."""

_LONGEST = 160
"""Characters of a value that are kept as they are; longer ones become a digest."""
_DEEPEST, _MOST = 60, 200_000
"""Values inside of each other, and values in all, that are looked at."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice, type(...))
_WITHOUT_STATE = ("lock", "RLock", "_thread._local", "Thread", "ReferenceType", "Condition")
_OWN = {"phipsi", "numpy", "scipy", "llvmlite"}
"""Libraries whose versions the sessions of a folder have."""
_WRITERS = {
    "append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "clear",
    "remove", "discard", "sort", "reverse", "appendleft", "fill", "put", "__setitem__",
}  # fmt: skip
"""Methods that change what they are called on."""
_CONSTRUCTORS = {"__init__", "__new__", "__post_init__", "__setstate__", "__init_subclass__"}
_OF_CLASSES = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__",
    "__slots__", "__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl",
    "__match_args__", "__dataclass_fields__", "__dataclass_params__", "__annotate_func__",
    "__annotations_cache__", "__parameters__", "__orig_bases__", "__hash__", "__slotnames__",
}  # fmt: skip
"""What every class has, or what follows from its text."""
_NO_SOURCE = "text not found"
_ON_HEAP = 1 << 9
"""The flag of classes that are made by a class statement."""


def reach_of(function: Callable[..., Any] | None, known: Known | None = None) -> Any:
    """A function of the user and all that it reaches, for JSON.

    Returns
    -------
    dict
        `reads`, values and strings by name; `code`, digests of compiled functions, which are those
        of one version of Python; `unseen`, names of what cannot be inspected, with the reason.

    Examples
    --------
    >>> from phipsi.studies.function_reach import reach_of
    >>> names = {"__name__": "example", "limits": {"high": 0.3}}
    >>> exec("def is_high(x): return x > limits['high']", names)
    >>> reach_of(names["is_high"])["reads"]["limits"]
    "{'high': 0.3}"
    """
    if function is None:
        return None
    walk = _Walk(known or (lambda x: None))
    walk.read("", function)
    return walk.result()


def python_version() -> str:
    """The version whose compiled functions can be compared."""
    return ".".join(map(str, sys.version_info[:2]))


@final
class _Walk:
    """A walk through everything that a function reaches, in an order that depends on names only."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._reads: dict[str, str] = {}
        self._code: dict[str, str] = {}
        self._unseen: dict[str, str] = {}
        self._written: set[str] = set()
        self._labels: dict[int, str] = {}
        self._texts: dict[int, str] = {}
        self._open: set[int] = set()
        self._alive: list[Any] = []  # what has a number must not be replaced by something else
        self._home: str | None = None
        self._at, self._depth, self._count = "", 0, 0

    def result(self) -> dict[str, Any]:
        """What was found."""
        reads = {
            name: "written by the functions themselves" if name in self._written else x
            for name, x in sorted(self._reads.items())
        }
        unseen = {k: x for k, x in sorted(self._unseen.items()) if k not in self._written}
        return {"reads": reads, "code": dict(sorted(self._code.items())), "unseen": unseen}

    def read(self, name: str, x: Any) -> None:
        """A value under a name."""
        if name in self._reads:
            return
        self._reads[name] = ""
        before, self._at = self._at, name
        self._reads[name] = self.text(x)
        self._at = before

    # ---- values

    def text(self, x: Any) -> str:
        """A value without addresses, the same in every process; a digest if it is long."""
        if type(x) in _PLAIN:
            return _short(repr(x), type(x).__name__)
        if id(x) in self._open:
            return "(itself)"
        if id(x) in self._texts:
            return self._texts[id(x)]
        self._count += 1
        if self._depth > _DEEPEST or self._count > _MOST:
            return self._not_seen(x, "it is nested too deep or too large")
        self._open.add(id(x))
        self._alive.append(x)
        self._depth += 1
        try:
            out = _short(self._text(x), type(x).__qualname__)
        except Exception as error:  # whatever objects of others do when they are looked at
            out = self._not_seen(x, f"{type(error).__name__}: {shown(error, 120)}")
        finally:
            self._depth -= 1
            self._open.discard(id(x))
        self._texts[id(x)] = out
        return out

    def _not_seen(self, x: Any, why: str) -> str:
        self._unseen.setdefault(self._at, f"{type(x).__qualname__}: {why}")
        return f"<{type(x).__qualname__}>"

    def _text(self, x: Any) -> str:
        instead = self._known(x)
        if instead is not None:
            self._alive.append(instead)
            return f"{type(x).__qualname__} {self.text(instead)}"
        if isinstance(x, np.ndarray | np.generic) and not x.dtype.hasobject:
            return _array_text(np.asarray(x)) + self._beside(x)
        if isinstance(x, np.ndarray):
            return f"array {x.shape} {[self.text(y) for y in x.ravel()]}"
        for kind, shown_as in _KINDS:
            if isinstance(x, kind):
                return shown_as(self, x)
        return self._instance(x)

    def _beside(self, x: Any) -> str:
        """The class of a value, and its attributes, where it is more than a plain one."""
        if type(x).__module__ in ("builtins", "numpy", "collections"):
            return ""
        return f" of {self.text(type(x))} {self._state(x)}"

    def _tuple(self, x: Any) -> str:
        listed = ", ".join(self.text(y) for y in x)
        return f"{f'[{listed}]' if isinstance(x, list) else f'({listed})'}{self._beside(x)}"

    def _set(self, x: Any) -> str:
        return f"set {sorted(self.text(y) for y in x)}{self._beside(x)}"

    def _dict(self, x: Any) -> str:
        rows = sorted((self.text(k), self.text(y)) for k, y in x.items())
        factory = getattr(x, "default_factory", None)
        more = "" if factory is None else f" else {self.text(factory)}"
        return "{" + ", ".join(f"{k}: {y}" for k, y in rows) + "}" + more + self._beside(x)

    def _enum(self, x: Any) -> str:
        return f"{self.text(type(x))}.{x.name}"

    def _partial(self, x: Any) -> str:
        return f"partial {self.text(x.func)} {self.text(x.args)} {self.text(x.keywords)}"

    def _method(self, x: Any) -> str:
        return f"{self.text(x.__func__)} of {self.text(x.__self__)}"

    def _builtin(self, x: Any) -> str:
        home: Any = getattr(x, "__self__", None)
        if home is None or isinstance(home, types.ModuleType):
            return self._library_name(x)
        return f"{getattr(x, '__name__', '')} of {self.text(home)}"

    def _wrapped(self, x: Any) -> str:
        return f"{type(x).__name__} {self.text(getattr(x, '__wrapped__', None) or x.__func__)}"

    def _property(self, x: Any) -> str:
        return f"property {self.text(x.fget)} {self.text(x.fset)}"

    def _cached(self, x: Any) -> str:
        return f"cached {self.text(x.func)}"

    def _module(self, x: Any) -> str:
        if not is_library(x.__name__):
            return self._not_seen(x, "which of its names are used is not known")
        return f"module {x.__name__}{self._version(x.__name__)}"

    def _ufunc(self, x: Any) -> str:
        name: str = x.__name__
        special = sys.modules.get("scipy.special")
        if any(getattr(home, name, None) is x for home in (np, special)):
            return f"numpy {name}"
        return self._not_seen(x, "the function inside of it is not known")

    def _instance(self, x: Any) -> str:
        if type(x).__name__ in _WITHOUT_STATE:
            return f"<{type(x).__name__}>"
        return f"{self.text(type(x))} {self._state(x)}"

    def _state(self, x: Any) -> str:
        """What an object holds: as it is pickled if it says so itself, else its attributes."""
        kind = type(x)
        own = any(
            getattr(kind, name, None) is not getattr(object, name, None)
            for name in ("__reduce_ex__", "__reduce__", "__getstate__")
        )
        held = getattr(x, "__dict__", None)
        slots = [y for c in kind.__mro__ for y in _slots(c)]
        # of files, generators and machine code this says that they have no state to show
        found: Any = copyreg.dispatch_table.get(kind, lambda y: y.__reduce_ex__(4))(x)
        if own or kind in copyreg.dispatch_table or (held is None and not slots):
            if isinstance(found, str):
                return found
            parts = [list(y) if i > 2 and y is not None else y for i, y in enumerate(found)]
            return str([self.text(y) for y in parts[1:5]])
        state = {y: getattr(x, y) for y in slots if hasattr(x, y)} | (held or {})
        cached = {y for y in state if isinstance(_static(kind, y), functools.cached_property)}
        left_out = cached | _written_on_self(kind)
        return str({y: self.text(state[y]) for y in sorted(state) if y not in left_out})

    # ---- functions, classes and modules

    def _library_name(self, x: Any) -> str:
        home = getattr(x, "__module__", None) or ""
        name = getattr(x, "__qualname__", None) or getattr(x, "__name__", type(x).__name__)
        return f"{home}.{name}{self._version(home)}"

    def _version(self, home: str) -> str:
        root = home.partition(".")[0]
        if root in _OWN or root in sys.stdlib_module_names:
            return ""
        return f" {getattr(sys.modules.get(root), '__version__', '')}".rstrip()

    def _label(self, x: Any) -> str:
        """The name of a function or a class; with its module, if that is not the first one."""
        home = getattr(x, "__module__", None) or ""
        self._home = home if self._home is None else self._home
        name = x.__qualname__ if home == self._home else f"{home}.{x.__qualname__}"
        taken, n, out = {*self._labels.values()}, 2, name
        while out in taken:
            out, n = f"{name} ({n})", n + 1
        self._labels[id(x)] = out
        return out

    def _function(self, f: Any) -> str:
        if is_library(f.__module__):
            inside = "<locals>" in f.__qualname__ and f.__closure__
            cells = [self.text(_content(x)) for x in f.__closure__] if inside else []
            return f"{self._library_name(f)}{f' with {cells}' if cells else ''}"
        if id(f) in self._labels:
            return f"function {self._labels[id(f)]}"
        label, code = self._label(f), f.__code__
        self._alive.append(f)
        self._code[label] = _code_digest(code)
        self._reads[f"{label}()"] = source = _source(f)
        written = _written_names(source)
        home = f.__globals__.get("__name__")
        for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
            self._one(f"{label}.{name}", name, _content(cell), code, written)
        for name, x in sorted((f.__kwdefaults__ or {}).items()):
            self.read(f"{label}({name}=)", x)
        for i, x in enumerate(f.__defaults__ or ()):
            self.read(f"{label}(default {i})", x)
        for name, x in sorted(f.__dict__.items()):
            if name != "__wrapped__":
                self.read(f"{label}.{name}", x)
        for name in sorted(_global_names(code)):
            if name in f.__globals__:
                place = name if home == self._home or self._home is None else f"{home}.{name}"
                self._one(place, name, f.__globals__[name], code, written)
        for name in sorted(_imports(code, f.__globals__)):
            if not is_library(name):
                try:
                    found = importlib.import_module(name)
                except Exception as error:
                    self._unseen.setdefault(name, f"import: {shown(error, 120)}")
                else:
                    self._attributes(name, found, code, written, label)
        if (inner := getattr(f, "__wrapped__", None)) is not None:
            self.read(f"{label} (wrapped)", inner)
        return f"function {label}"

    def _one(self, place: str, name: str, x: Any, code: Any, written: set[str]) -> None:
        """A name that a function reads: a module by its attributes, others by their value."""
        if isinstance(x, types.ModuleType) and not is_library(x.__name__):
            self._attributes(name, x, code, written, place)
            return
        self.read(place, x)
        if name in written:
            self._written.add(place)

    def _attributes(
        self, name: str, module: Any, code: Any, written: set[str], place: str, depth: int = 0
    ) -> None:
        """The attributes of a module of the user that a function names."""
        for word in sorted(_words(code) & {*vars(module)}):
            x = vars(module)[word]
            at = f"{module.__name__}.{word}"
            if isinstance(x, types.ModuleType) and not is_library(x.__name__):
                if depth < 4:
                    self._attributes(word, x, code, written, place, depth + 1)
                continue
            self.read(at, x)
            if f"{name}.{word}" in written:
                self._written.add(at)

    def _class(self, c: Any) -> str:
        if _is_library_class(c):
            return self._library_name(c)
        if id(c) in self._labels:
            return f"class {self._labels[id(c)]}"
        label = self._label(c)
        self._alive.append(c)
        is_made = dataclasses.is_dataclass(c)
        # not its text, which Python finds only where the module of the class can be imported
        bases, made = [self.text(base) for base in c.__bases__], []
        if is_made:
            made = [
                str(c.__dict__.get("__dataclass_params__")),
                *(x.name for x in dataclasses.fields(c)),
            ]
        self._reads[f"{label} (class)"] = f"bases {bases} {made}".rstrip(" []")
        for field in dataclasses.fields(c) if is_made else ():
            if field.default_factory is not dataclasses.MISSING:
                self.read(f"{label}.{field.name}=", field.default_factory)
        for name, x in sorted(vars(c).items()):
            if name in _OF_CLASSES or type(x).__name__ in (
                "member_descriptor",
                "getset_descriptor",
            ):
                continue
            if isinstance(x, types.FunctionType):
                if not (is_made and _source(x) == _NO_SOURCE):
                    self.text(x)
            elif name not in _written_on_self(c):
                self.read(f"{label}.{name}", x)
        return f"class {label}"


_KINDS: tuple[tuple[Any, Callable[[_Walk, Any], str]], ...] = (
    (enum.Enum, _Walk._enum),
    (tuple | list, _Walk._tuple),
    (set | frozenset, _Walk._set),
    (dict | types.MappingProxyType, _Walk._dict),
    (PurePath, lambda walk, x: repr(str(x))),
    (functools.partial, _Walk._partial),
    (types.MethodType, _Walk._method),
    (types.FunctionType, _Walk._function),
    (types.BuiltinFunctionType | types.MethodWrapperType, _Walk._builtin),
    ((type(functools.cache(len)), staticmethod, classmethod), _Walk._wrapped),
    (property, _Walk._property),
    (functools.cached_property, _Walk._cached),
    (np.ufunc, _Walk._ufunc),
    (types.ModuleType, _Walk._module),
    (types.GenericAlias, lambda walk, x: repr(x)),
    (type, _Walk._class),
)
"""How values are shown, by their kind."""


# ---- text and code -------------------------------------------------------------------------------


def _short(text: str, kind: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{kind}, {len(text)} characters, sha256 {hashlib.sha256(text.encode()).hexdigest()}"


def _array_text(x: Any) -> str:
    if x.size <= 6:
        return f"array {x.dtype} {x.tolist()!r}"
    digest = hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()
    return f"array {x.dtype} {x.shape} sha256 {digest}"


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "nothing yet"


def _source(x: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(x))
    except (OSError, TypeError, SyntaxError, ValueError):
        return _NO_SOURCE


def _code_digest(code: Any) -> str:
    """Compiled code without file names and lines."""
    out = hashlib.sha256()

    def add(x: Any) -> None:
        if isinstance(x, types.CodeType):
            out.update(x.co_code)
            for part in (x.co_names, x.co_varnames, x.co_freevars, x.co_cellvars):
                out.update(repr(part).encode())
            out.update(f"{x.co_argcount} {x.co_kwonlyargcount} {x.co_flags}".encode())
            for part in x.co_consts:
                add(part)
        elif isinstance(x, frozenset):
            out.update(repr(sorted(map(repr, x))).encode())
        elif isinstance(x, tuple):
            out.update(b"(")
            for part in x:
                add(part)
            out.update(b")")
        else:
            out.update(f"{type(x).__name__} {x!r}".encode())

    add(code)
    return out.hexdigest()


def _all_code(code: Any) -> Iterator[Any]:
    """The code of a function and of those inside of it: comprehensions, lambdas."""
    yield code
    for x in code.co_consts:
        if isinstance(x, types.CodeType):
            yield from _all_code(x)


def _global_names(code: Any) -> set[str]:
    return {
        one.argval
        for part in _all_code(code)
        for one in dis.get_instructions(part)
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }


def _words(code: Any) -> set[str]:
    """Names and strings of a function: what it may ask a module for."""
    out: set[str] = set()
    for part in _all_code(code):
        out.update(part.co_names)
        out.update(x for x in part.co_consts if isinstance(x, str) and x.isidentifier())
    return out


def _imports(code: Any, names: dict[str, Any]) -> set[str]:
    """The modules that a function imports when it is called."""
    out: set[str] = set()
    for part in _all_code(code):
        steps = list(dis.get_instructions(part))
        for i, one in enumerate(steps):
            if one.opname == "IMPORT_NAME":  # after its level, and what is wanted of it
                level, name = steps[i - 2].argval, str(one.argval)
                if isinstance(level, int) and level > 0:
                    package = names.get("__package__") or "nowhere"
                    name = importlib.util.resolve_name("." * level + name, package)
                out.add(name)
    return out


def _root_and_path(node: ast.expr) -> tuple[str, str]:
    """The name at the beginning of an expression such as a.b[0].c, and that name with .b."""
    words: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        words = [node.attr, *words] if isinstance(node, ast.Attribute) else []
        node = node.value
    if not isinstance(node, ast.Name):
        return "", ""
    return node.id, ".".join([node.id, *words[:1]])


@functools.lru_cache(maxsize=500)
def _written_names(text: str) -> set[str]:
    """Names whose contents a function changes, also as "name.attribute"."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    out: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Global | ast.Nonlocal):
            out.update(node.names)
        target = None
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            target = node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            target = node.func.value if node.func.attr in _WRITERS else None
        if target is not None:
            out.update(_root_and_path(target))
    return out - {""}


@functools.lru_cache(maxsize=500)
def _written_on_self(kind: type) -> set[str]:
    """Attributes of objects that methods other than constructors change."""
    out: set[str] = set()
    for c in kind.__mro__:
        if _is_library_class(c):
            continue
        for name, x in vars(c).items():
            f = getattr(x, "__func__", x)
            if not isinstance(f, types.FunctionType) or name in _CONSTRUCTORS:
                continue
            first = f.__code__.co_varnames[:1]
            for path in _written_names(_source(f)):
                root, _, attribute = path.partition(".")
                if attribute and (root,) == first:
                    out.add(attribute)
    return out


def _is_library_class(c: type) -> bool:
    if c.__module__ == "builtins":  # also what exec has made
        return getattr(builtins, c.__name__, None) is c or not c.__flags__ & _ON_HEAP
    return is_library(c.__module__)


def _slots(c: type) -> list[str]:
    found = vars(c).get("__slots__", ())
    names = [found] if isinstance(found, str) else list(found)
    return [x for x in names if x not in ("__weakref__", "__dict__")]


def _static(kind: type, name: str) -> Any:
    return inspect.getattr_static(kind, name, None)


@functools.lru_cache(maxsize=2000)
def is_library(module: str | None) -> bool:
    """Whether a module is of an installed library, Python or phipsi: not of the user."""
    root = (module or "").partition(".")[0]
    if root == "phipsi" or root in sys.stdlib_module_names or root == "builtins":
        return True
    if root in ("", "__main__"):
        return False
    found = sys.modules.get(root)
    file = getattr(found, "__file__", None)
    if found is None:
        try:
            file = getattr(importlib.util.find_spec(root), "origin", None)
        except (ImportError, ValueError):
            return False
    if file is None:  # a namespace, or made by exec
        file = next(iter(getattr(found, "__path__", ())), "")
    places = {sysconfig.get_path(x) for x in ("purelib", "platlib", "stdlib")}
    inside = any(str(file).startswith(str(x)) for x in places if x)
    return inside or "site-packages" in str(file) or "dist-packages" in str(file)
