"""The reference of every public name, from the table of names and the docstrings.

A docstring is Markdown with NumPy's sections and examples; each becomes an entry of Sphinx's Python
domain, so that it can be searched for and linked to. A public name without a docstring is an error.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import phipsi

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from docstrings import LISTS, entries as listed_entries, sections  # noqa: E402
from public_names import members  # noqa: E402

from phipsi.files.foreign_name_hints import _ELSEWHERE as ELSEWHERE  # noqa: E402

# Public modules that need a library of their own, and so do not stand in the table.
MODULES = {
    "torch": ("PyTorch", "optimisation.md"),
    "jax": ("JAX", "optimisation.md"),
    "gym": ("Gymnasium", "learning.md"),
}

DOCS = Path(__file__).parents[1]
_CITED = re.compile(
    r"\bdocs/decisions/(?P<decision>\d{4})\b|\bdocs/(?P<page>[\w/-]+)\.md\b"
    r"|\b(?P<theory>theory/[a-z-]+[a-z])(?: \d+(?:\.\d+)*)?"
)
_STAR = re.compile(r"(?<=[\w)\]⁻¹²])\*(?!\*)|(?<=\s)\*(?=\s)")
_KINDS = (types.FunctionType, property, classmethod, staticmethod, functools.cached_property)


class Undocumented(Exception):
    """Public names without a docstring."""


def place(topic: str) -> str:
    """The page of a topic on the site."""
    return f"api/{topic.lower().replace(' ', '-')}.md"


Topic = tuple[str, str, list[tuple[str, object]]]


@functools.cache
def topics() -> list[Topic]:
    """Every topic of the table of public names: its title, the page about it, and its names.

    After them modules that are imported on their own, and what functions return.
    """
    found: list[Topic] = []
    for (topic, where), rows in phipsi._TABLE.items():
        names: list[tuple[str, object]] = []
        for path, words in rows.items():
            module = importlib.import_module(f"phipsi.{path}")
            for word in words.split():
                names += _module(path, module) if word == "." else [(word, getattr(module, word))]
        found.append((topic, where, names))
    for name, (topic, where) in MODULES.items():
        found.append((topic, where, _module(name, importlib.import_module(f"phipsi.{name}"))))
    found.append(("Results", "api-conventions.md", _results()))
    return found


def _module(path: str, module: types.ModuleType) -> list[tuple[str, object]]:
    short = path.rpartition(".")[2]
    return [(short, module), *((f"{short}.{inner}", value) for inner, value in members(module))]


def _results() -> list[tuple[str, object]]:
    """Classes of results: not public names, since nobody makes one."""
    paths = {**ELSEWHERE, "phipsi.simulation.compiled.simulator_results": "Rollout"}
    found = {name: getattr(importlib.import_module(path), name)
             for path, names in paths.items() if path.startswith("phipsi.")
             for name in names.split()}  # fmt: skip
    return sorted(found.items())


def import_path(name: str, value: object) -> str:
    """The whole name, as it is imported."""
    first = name.partition(".")[0]
    is_public = first in phipsi.__all__ or first in MODULES
    return f"phipsi.{name}" if is_public else f"{getattr(value, '__module__', 'phipsi')}.{name}"


def names() -> list[str]:
    """The pages of the reference, in order, with what the navigation calls them."""
    return [f"{topic} <{place(topic)}>" for topic, _, _ in topics()]


def entries() -> dict[str, str]:
    """Where the entry of each public name stands."""
    return {name: f"{place(topic)}#{name.lower().replace('.', '')}"
            for topic, _, listed in topics() for name, _ in listed}  # fmt: skip


def undocumented() -> list[str]:
    """Public names, and public members of public classes, without a docstring."""
    found: list[str] = []
    for _, _, names in topics():
        for name, value in names:
            if not inspect.getdoc(value):
                found.append(name)
            if isinstance(value, type):
                found += [f"{name}.{x}" for x, one in class_members(value) if not _doc(one)]
    return found


def pages() -> dict[str, str]:
    """The pages of the reference by their place on the site."""
    missing = undocumented()
    if missing:
        raise Undocumented("public names without a docstring: " + ", ".join(missing))
    return {place(topic): "\n".join(_page(topic, where, listed))
            for topic, where, listed in topics()}  # fmt: skip


@functools.cache
def _mentions() -> dict[str, str]:
    """Words in docstrings that can only mean a public name, and the link to its entry."""
    found: dict[str, str] = {}
    for name, entry in entries().items():
        word = name.rpartition(".")[2]
        if re.search(r"[a-z]_[a-z]|^[A-Z]\w*[a-z]", word):
            found.setdefault(word, f"../{entry}")  # pp.rollout before torch.rollout
    return found


def _page(topic: str, where: str, names: list[tuple[str, object]]) -> Iterator[str]:
    yield f"# API: {topic}\n"
    yield _introduction(topic, where, [name for name, _ in names if "." not in name])
    for name, value in names:
        yield f"## {name}\n" if "." not in name else f"### {name}\n"
        yield from _entry(name, value)


def _introduction(topic: str, where: str, names: list[str]) -> str:
    """What a page of the reference has, with links to its entries and to the page that explains."""
    title = (DOCS / where).read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
    prefix = "" if topic == "Results" else "phipsi." if names[0] in MODULES else "pp."
    listed = [f"[`{prefix}{name}`](#{name.lower()})" for name in names]
    *most, last = listed
    what = f"{', '.join(most)} and {last}" if most else last
    kind = "of the classes that functions return: " if topic == "Results" else "of "
    return (
        f"Reference {kind}{what}. It has the arguments, results and examples; "
        f"[{title}](../{where}) shows how to use them.\n"
    )


def _entry(name: str, value: object) -> Iterator[str]:
    text = markdown(inspect.getdoc(value) or "")
    module, _, short = import_path(name, value).rpartition(".")
    if isinstance(value, types.ModuleType):
        yield f"{text}\n"
        return
    yield f"```{{py:currentmodule}} {module}\n```\n"
    if isinstance(value, type):
        yield f"``````{{py:class}} {short}{_signature(value)}\n"
        yield f"{text}\n"
        for inner, one in class_members(value):
            yield from _member(inner, one)
        yield "``````\n"
    else:
        yield f"``````{{py:function}} {short}{_signature(value)}\n"
        yield f"{text}\n\n``````\n"


def class_members(owner: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties that a class has of its own or from a base that is not."""
    if issubclass(owner, Exception):
        return
    at_top = {value for _, _, names in topics() for _, value in names if isinstance(value, type)}
    seen: set[str] = set()
    for base in owner.__mro__:
        if not base.__module__.startswith("phipsi") or (base is not owner and base in at_top):
            continue
        for name, value in vars(base).items():
            if not name.startswith("_") and name not in seen and isinstance(value, _KINDS):
                seen.add(name)
                yield name, value


def _member(name: str, value: object) -> Iterator[str]:
    text = markdown(_doc(value))
    if isinstance(value, property | functools.cached_property):
        yield f"`````{{py:property}} {name}\n\n{text}\n\n`````\n"
        return
    kind = {classmethod: ":classmethod:\n", staticmethod: ":staticmethod:\n"}.get(type(value), "")
    function = getattr(value, "__func__", value)
    bound = not isinstance(value, staticmethod)
    yield f"`````{{py:method}} {name}{_signature(function, bound)}\n{kind}\n{text}\n\n`````\n"


def _doc(value: object) -> str:
    function = value.func if isinstance(value, functools.cached_property) else value
    return inspect.getdoc(function) or ""


def _signature(value: object, is_bound: bool = False) -> str:
    """Arguments with defaults, without types: docstrings say what each may be."""
    if isinstance(value, type) and issubclass(value, Exception | Warning):
        return ""
    try:
        whole = inspect.signature(value)  # type: ignore[arg-type]
    except ValueError:
        return ""
    parameters = list(whole.parameters.values())[1 if is_bound else 0 :]
    bare = [p.replace(annotation=p.empty, default=_shown(p.default)) for p in parameters]
    return str(whole.replace(parameters=bare, return_annotation=whole.empty))


class _Text:
    """A default as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _shown(default: object) -> object:
    """A default value as it stands in a signature: short, and without addresses."""
    if default is inspect.Parameter.empty:
        return default
    text = repr(default)
    return _Text("…" if len(text) > 40 or " at 0x" in text or "<" in text else text)


def markdown(doc: str) -> str:
    """A docstring as Markdown: sections with titles, parameters as lists, examples in blocks."""
    parts: list[str] = []
    for title, text in sections(doc):
        if title:
            parts.append(f"**{title}**")
        if title == "See Also":
            parts.append("\n".join(_related(text)))
        else:
            parts.append("\n\n".join(_items(text)) if title in LISTS else _marked(text))
    return "\n\n".join(parts)


def _related(text: str) -> Iterator[str]:
    """The entries of "See Also" as items of a list, with links."""
    for names, kind, body in listed_entries(text):
        found = ", ".join(_reached(name) for name in names.split(", "))
        words = " ".join(filter(None, [kind, *body.split("\n")]))
        yield f"- {found}: {_escaped(words)}" if words else f"- {found}"


def _reached(name: str) -> str:
    """A name as a link to its entry: that of the whole name, or the only one that ends so."""
    listed = entries()
    ends = [x for x in listed if x == name] or [x for x in listed if x.endswith(f".{name}")]
    return f"[`{name}`](../{listed[ends[0]]})" if len(ends) == 1 else f"`{name}`"


def _items(text: str) -> Iterator[str]:
    """The entries of a section as items of a list: the name, its type, the description."""
    for name, kind, body in listed_entries(text):
        head = f"`{name}`" if kind or re.fullmatch(r"[*\w, .]+", name) else _escaped(name)
        of = f" ({_escaped(kind)})" if kind else ""
        lines = _marked(body).split("\n") if body else []
        yield "\n".join([f"- {head}{of}", *(f"  {line}".rstrip() for line in ["", *lines])])


def _marked(doc: str) -> str:
    """Text as Markdown: examples in blocks, stars of adjoints as stars."""
    out: list[str] = []
    in_example = False
    for line in doc.split("\n"):
        starts = line.lstrip().startswith(">>> ")
        if starts and not in_example:
            in_example = True
            out += ["", "```pycon"] if out and out[-1] else ["```pycon"]
        elif in_example and not line.strip():
            in_example = False
            out.append("```")
        if in_example:
            out.append(line)
        else:
            is_code = line.startswith("    ")
            begins = re.sub(r"^\+ ", r"\+ ", line)  # a sum goes on here: this is no list
            out.append(line if is_code else _escaped(begins))
    return "\n".join([*out, "```"] if in_example else out)


def _escaped(line: str) -> str:
    """The line with what would be markup by accident as text; code spans stay as they are."""
    parts = re.split(r"(``.+?``|`[^`]*`)", line)
    return "".join(
        _linked(part)
        if i % 2
        else _cited(_STAR.sub(r"\\*", part).replace("<", "\\<").replace("$", "\\$"))
        for i, part in enumerate(parts)
    )


def _cited(text: str) -> str:
    """The text with links to the decisions, theory and pages that it names."""

    def link(found: re.Match[str]) -> str:
        number, page = found["decision"], found["page"] or found["theory"]
        paths = sorted(DOCS.glob(f"decisions/{number}-*.md" if number else f"{page}.md"))
        return f"[{found[0]}](../{paths[0].relative_to(DOCS).as_posix()})" if paths else found[0]

    return _CITED.sub(link, text)


def _linked(code: str) -> str:
    link = _mentions().get(code.strip("`"))
    return f"[{code}]({link})" if link else code
