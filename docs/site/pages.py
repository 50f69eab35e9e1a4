"""The pages of the site: where each file of the repository stands on it, and how links follow.

The site is made of the files as they are. `docs/README.md` becomes its first page, the tables there
its navigation; links between files become links between pages.
"""

from __future__ import annotations

import ast
import posixpath
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import reference

ROOT = Path(__file__).parents[2]
INDEX = "docs/README.md"
FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
GITHUB_FORMULA = re.compile(r"\$`([^`\n]+)`\$")

# Below a page of the index: the files of a folder, in the navigation.
CHILDREN = {
    "docs/architecture.md": "docs/architecture/*.md",
    "docs/decisions/README.md": "docs/decisions/0*.md",
    "docs/theory/sources.md": "docs/theory/*.md",
    "docs/benchmarks.md": "benchmarks/*.md",
    "docs/gallery.md": "examples/*",
    "docs/guides.md": "docs/guides/*.md",
    "docs/migration.md": "docs/migration/*.md",
}
# Links to a folder lead to the page about it.
FOLDERS = {
    "examples": "docs/gallery.md",
    "docs": INDEX,
    "docs/decisions": "docs/decisions/README.md",
}
# Records of the past, which would rank above the pages that say how things are.
UNSEARCHED = ("docs/decisions/", "docs/history/")
AT_THE_ROOT = ("README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
LANGUAGES = {".py": "python", ".toml": "toml"}


def sources() -> list[str]:
    """Every file of the repository that is a page, relative to the root."""
    pages = [ROOT / name for name in AT_THE_ROOT]
    pages += [*ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
    pages.remove(ROOT / "benchmarks/NOTES.md")  # a part of RESULTS.md
    pages += [x for x in (ROOT / "examples").iterdir() if x.suffix in LANGUAGES]
    return sorted(x.relative_to(ROOT).as_posix() for x in pages)


def place(source: str) -> str:
    """Where a file of the repository stands on the site, as the name of a Markdown page."""
    if source == INDEX:
        return "index.md"
    if "/" not in source:
        return source.lower()
    if Path(source).suffix in LANGUAGES:
        return f"{source}.md"
    return source.removeprefix("docs/")


def page(source: str) -> str:
    """The text of a page on the site, with links that lead to other pages of it."""
    text = (ROOT / source).read_text(encoding="utf-8")
    language = LANGUAGES.get(Path(source).suffix)
    if language:
        head = f"# {Path(source).name}\n\n{subject(text)} [All examples](../gallery.md)."
        return f"{head}\n\n```{language}\n{text}```\n"
    text = relinked(text, source)
    text = outside_code(text, lambda part: GITHUB_FORMULA.sub(r"$\1$", part))
    if source == INDEX:
        text += "\n" + "\n".join(navigation())
    if source in CHILDREN:
        found = [x.relative_to(ROOT).as_posix() for x in sorted(ROOT.glob(CHILDREN[source]))]
        names = [relative(x, source) for x in found if x in set(sources()) and x != source]
        linked = list(dict.fromkeys(x for x in LINK.findall(text) if x in names))
        text += "\n" + contents("", [*linked, *(x for x in names if x not in linked)])
    if source.startswith(UNSEARCHED):
        text = f"---\nnosearch: true\n---\n\n{text}"
    if source == "docs/api.md":
        text += "\n" + contents("", reference.names())
    return text


def subject(text: str) -> str:
    """What an example is about: the first line of its docstring, or of its first comment."""
    if text.startswith("#"):
        return text.partition("\n")[0].lstrip("# ")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with a change made everywhere but in fenced blocks."""
    parts, last = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, change(text[last:])])


def relinked(text: str, source: str) -> str:
    """The text with its links as they are on the site."""

    def change(part: str) -> str:
        return LINK.sub(lambda m: f"]({_target(m[1], source)})", part)

    return outside_code(text, change)


def _target(link: str, source: str) -> str:
    path, mark, anchor = link.partition("#")
    if re.match(r"\w+:", link) or not path:
        return link
    meant = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    return relative(FOLDERS.get(meant, meant), source) + mark + anchor


def relative(target: str, source: str) -> str:
    """A link from the page of one file to that of another, or to a picture."""
    is_page = target.endswith(".md") or Path(target).suffix in LANGUAGES
    there = place(target) if is_page else target.removeprefix("docs/")
    return posixpath.relpath(there, posixpath.dirname(place(source)) or ".")


def navigation() -> Iterator[str]:
    """The tables of the index as the tree of pages, a caption for each heading, of both levels."""
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    seen = {"index.md"}
    for section in re.split(r"^##+ ", text, flags=re.MULTILINE)[1:]:
        caption = section.partition("\n")[0]
        found = [_target(x, INDEX) for x in LINK.findall(FENCE.sub("", section))]
        children = {relative(str(x.relative_to(ROOT)), INDEX)
                    for pattern in CHILDREN.values() for x in ROOT.glob(pattern)}  # fmt: skip
        children -= {relative(x, INDEX) for x in CHILDREN}
        new = [x for x in dict.fromkeys(x.partition("#")[0] for x in found)
               if x.endswith(".md") and x not in seen | children]  # fmt: skip
        seen |= set(new)
        yield contents(caption, new)


def contents(caption: str, names: list[str]) -> str:
    """A hidden table of contents, which the navigation shows."""
    title = [f":caption: {caption}"] if caption else []
    return "\n".join(["```{toctree}", ":hidden:", ":titlesonly:", *title, "", *names, "```", ""])


def pages() -> dict[str, str]:
    """All pages but the reference, by their place on the site."""
    return {place(source): page(source) for source in sources()}


# Files that pages show or offer, and are no pages themselves.
FILES = ("docs/pictures/*", "docs/notebooks/*.ipynb", "benchmarks/plots/*")


def copy_files(folder: Path) -> None:
    """Put pictures and notebooks where the pages look for them."""
    for picture in (x for pattern in FILES for x in ROOT.glob(pattern)):
        target = folder / picture.relative_to(ROOT).as_posix().removeprefix("docs/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, target)
