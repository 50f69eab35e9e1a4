"""Build the documentation site: `make site` writes build/site/index.html.

    python docs/site/build_site.py
    python docs/site/build_site.py --check folder    reads the pages of a folder and writes none

The pages are those of docs/, the examples and the benchmarks, as they are, and a reference of every
public name from its docstring. Nothing is fetched. A warning is an error: a broken link or anchor,
a public name without a docstring, a page that the navigation does not reach.
"""

from __future__ import annotations

import gc
import posixpath
import re
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import live_pages  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402

MENTIONED = re.compile(r"(?<!\[)`pp\.(?P<name>[\w.]+)(?:\([^`]*\))?`(?!\])")
LISTED = re.compile(r"(?<=^\| )`(?P<name>[\w.]+)(?:\([^`]*\))?`")
OUTSIDE = re.compile(rb"""(?:src|<link[^>]*?href)=["'](?:https?:)?//[^"']*""")


def assemble(folder: Path) -> None:
    """Write everything that Sphinx reads."""
    shutil.rmtree(folder, ignore_errors=True)
    entries = reference.entries()
    for name, text in pages.pages().items():
        _write(folder / name, pages.outside_code(text, lambda x, n=name: linked(x, n, entries)))
    for name, text in reference.pages().items():
        _write(folder / name, text)
    for name, part in (("index.md", live_pages.first_page()), ("gallery.md", live_pages.section())):
        head, mark, rest = (folder / name).read_text(encoding="utf-8").partition("\n## ")
        _write(folder / name, f"{head}\n{part}{mark.lstrip()}{rest}")
    pages.copy_files(folder)


def linked(text: str, page: str, entries: dict[str, str]) -> str:
    """The text with `pp.name`, and the names in the list of all, as links to their entries."""
    here = page.rpartition("/")[0] or "."
    code = LISTED if page == "api.md" else MENTIONED

    def link(found: re.Match[str]) -> str:
        entry = entries.get(found["name"])
        target = entry and posixpath.relpath(entry, here)
        return f"[{found[0]}]({target})" if target else found[0]

    return "\n".join(
        line if line.startswith("#") else code.sub(link, line) for line in text.split("\n")
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def render(source: Path, target: Path, builder: str = "html") -> int:
    """Let Sphinx read the pages and write the site; nonzero after a warning.

    The builder "dummy" reads and links all pages and writes none.
    """
    from sphinx.cmd.build import main as sphinx

    gc.disable()  # the trees of all pages stay to the end: looking for garbage takes a third longer
    options = ["-b", builder, "-W", "--keep-going", "-q", "-E", "-c", str(Path(__file__).parent)]
    return sphinx([*options, str(source), str(target)])


def main() -> int:
    """Build the site, or say what is wrong; with `--check folder` only read the pages there."""
    if "--check" in sys.argv:
        source = Path(sys.argv[-1])
        return render(source, source / ".read", "dummy")
    start = time.perf_counter()
    build = pages.ROOT / "build"
    source, site = build / "site-pages", build / "site"
    shutil.rmtree(site, ignore_errors=True)
    assemble(source)
    failed = render(source, site)
    if failed:
        return failed
    fetched = sorted({found[0].decode() for page in site.rglob("*.html")
                      for found in OUTSIDE.finditer(page.read_bytes())})  # fmt: skip
    if fetched:
        print("the site would fetch from outside:", *fetched, sep="\n    ", file=sys.stderr)
        return 1
    live_pages.write(site / "live")
    count = len(list(site.rglob("*.html")))
    print(f"{site / 'index.html'}: {count} pages in {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
