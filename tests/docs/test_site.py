"""The documentation site: public names are documented, pages are reached, links lead on.

Sphinx reads and links all pages here and writes none; `make site` writes them.
"""

import importlib.util
import inspect
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import phipsi as pp

if importlib.util.find_spec("furo") is None:  # which another process imports
    pytest.skip("needs furo", allow_module_level=True)
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))
import build_site  # noqa: E402
import live_pages  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402


@pytest.fixture(scope="module")
def assembled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    build_site.assemble(folder)
    return folder


def read(folder: Path) -> subprocess.CompletedProcess[str]:
    """Let Sphinx read the pages of a folder, in a process of its own."""
    words = [sys.executable, build_site.__file__, "--check", str(folder)]
    return subprocess.run(words, capture_output=True, text=True)


def test_all_pages_are_linked_and_reached(assembled: Path):
    run = read(assembled)
    assert run.returncode == 0, run.stderr


def test_records_of_the_past_are_not_searched():
    for source in pages.sources():
        is_past = source.startswith(("docs/decisions/", "docs/history/"))
        assert pages.page(source).startswith("---\nnosearch: true\n---\n") == is_past


def test_broken_links_and_lost_pages_are_found(tmp_path: Path):
    text = "# A\n\n[x](b.md)\n\n[y](#nowhere)\n\n![z](missing.png)\n"
    (tmp_path / "index.md").write_text(text)
    (tmp_path / "alone.md").write_text("# B\n")
    run = read(tmp_path)
    assert run.returncode != 0
    for said in (
        "'b.md'",
        "'nowhere'",
        "missing.png",
        "alone.md: WARNING: document isn't included",
    ):
        assert said in run.stderr, run.stderr


def test_every_public_name_has_an_entry(assembled: Path):
    entries = reference.entries()
    assert set(pp.__all__) <= set(entries)
    assert {"torch.forward_dynamics", "gym.VectorEnvironment", "Rollout"} <= set(entries)
    for name, entry in entries.items():
        page, _, anchor = entry.partition("#")
        text = (assembled / page).read_text(encoding="utf-8")
        assert re.search(rf"^##+ {re.escape(name)}$", text, re.MULTILINE), name
        assert anchor == name.lower().replace(".", "")


def test_the_gallery_has_every_example():
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    examples = [x for x in (ROOT / "examples").iterdir() if x.suffix in pages.LANGUAGES]
    assert [x.name for x in examples if f"](../examples/{x.name})" not in text] == []


def test_live_pages_have_pictures():
    for name, title, *_ in live_pages.PAGES:
        assert (ROOT / "docs" / "pictures" / f"live-{name}.png").is_file(), name
        assert f'href="live/{name}.html">{title}</a>' in live_pages.section()


def test_the_first_page_installs_and_has_a_live_robot(assembled: Path):
    text = (assembled / "index.md").read_text(encoding="utf-8")
    above = text.partition("## Getting started")[0]
    assert "\npip install phipsi\n" in above
    assert f'href="live/{live_pages.FIRST}.html"' in above
    assert f"_static/live-{live_pages.FIRST}.png" in above


def test_headings_of_the_index_become_captions():
    shown = "".join(pages.navigation())
    for caption in ("Getting started", "How-to guides", "Models", "Reference", "Evidence"):
        assert f":caption: {caption}\n" in shown, caption


def test_every_public_name_is_documented():
    assert reference.undocumented() == []


def test_an_undocumented_name_is_found(monkeypatch: pytest.MonkeyPatch):
    class Bare:
        """A class."""

        def method(self) -> None: ...

    Bare.__module__ = "phipsi.somewhere"

    def function() -> None: ...

    found = [("Topic", "x.md", [("function", function), ("Bare", Bare)])]
    monkeypatch.setattr(reference, "topics", lambda: found)
    assert reference.undocumented() == ["function", "Bare.method"]
    with pytest.raises(reference.Undocumented, match=r"function, Bare\.method"):
        reference.pages()


def test_links_to_files_become_links_to_pages():
    text = "[a](../README.md#x) [b](models.md) [c](https://x.y) [d](#e) [f](../examples/reach.py)"
    assert pages.relinked(text, "docs/tutorial.md") == (
        "[a](readme.md#x) [b](models.md) [c](https://x.y) [d](#e) [f](examples/reach.py.md)"
    )
    text = "[a](examples)\n```text\n[b](examples)\n```"
    assert pages.relinked(text, "README.md") == "[a](gallery.md)\n```text\n[b](examples)\n```"


def test_docstrings_become_markdown():
    text = reference.markdown(inspect.getdoc(pp.forward_dynamics) or "")
    assert "φ\\* (a + gravity)" in text and "```pycon\n" in text
    assert text.count("```") % 2 == 0


def test_examples_in_docstrings_become_blocks():
    text = "V = φ* H* v < 3, `a*b`.\n>>> 1 + 1\n2\n\n    FD1  φ*\n\nThe **end**."
    assert reference.markdown(text) == (
        "V = φ\\* H\\* v \\< 3, `a*b`.\n\n```pycon\n>>> 1 + 1\n2\n```\n\n"
        "    FD1  φ*\n\nThe **end**."
    )


def test_related_names_become_a_list_of_links_and_sums_no_list():
    text = reference.markdown(inspect.getdoc(pp.forward_dynamics) or "")
    assert "\n- [`inverse_dynamics`](../api/dynamics.md#inverse_dynamics): The torques" in text
    assert reference.markdown("S = a\n+ b, as in theory/contact 3 and docs/decisions/0042.") == (
        "S = a\n\\+ b, as in [theory/contact 3](../theory/contact.md) and "
        "[docs/decisions/0042](../decisions/0042-programs-that-leave-python.md)."
    )
    unknown = "theory/{0} 1, docs/decisions/9999, docs/{0}.md".format("none")
    assert reference.markdown(unknown) == unknown


def test_pages_of_the_reference_and_of_examples_say_what_they_are(assembled: Path):
    text = (assembled / "api" / "files.md").read_text(encoding="utf-8")
    assert text.startswith("# API: Files\n\nReference of [`pp.load`](#load), ")
    assert "](../importing.md) shows how to use them.\n" in text
    text = (assembled / "examples" / "butane.py.md").read_text(encoding="utf-8")
    assert text.startswith("# butane.py\n\nButane: what rigid bonds do to a torsion")
    text = (assembled / "examples" / "pick.toml.md").read_text(encoding="utf-8")
    assert text.startswith("# pick.toml\n\nAn arm moves its tool along two lines")


def test_formulas_of_github_become_those_of_the_site(assembled: Path):
    text = (assembled / "papers" / "SOA.md").read_text(encoding="utf-8")
    assert "$V = \\mathcal{E}_{\\phi}^{*} V + H^{*} \\beta$" in text and "$`" not in text


def test_no_bar_splits_a_cell_and_no_title_stands_twice(assembled: Path):
    titles: dict[str, str] = {}
    for path in sorted(assembled.rglob("*.md")):
        text = pages.FENCE.sub("", path.read_text(encoding="utf-8"))
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        assert title and title[1] not in titles, (path, titles.get(title[1]) if title else "")
        titles[title[1]] = path.name
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            bars = {re.sub(r"\\\|", "", row).strip().count("|") for row in table.splitlines()}
            assert len(bars) == 1, (path, table[:200])


def test_names_in_pages_become_links():
    entries = {"load": "api/files.md#load", "forces.Spring": "api/simulation.md#forcesspring"}
    text = "# `pp.load`\n`pp.load(path)` [`pp.load`](x) `pp.forces.Spring` `pp.other` `load`"
    assert build_site.linked(text, "guides/x.md", entries) == (
        "# `pp.load`\n[`pp.load(path)`](../api/files.md#load) [`pp.load`](x) "
        "[`pp.forces.Spring`](../api/simulation.md#forcesspring) `pp.other` `load`"
    )
    assert build_site.linked("| `load(path)` | x |", "api.md", entries) == (
        "| [`load(path)`](api/files.md#load) | x |"
    )


def test_what_would_be_fetched_is_found():
    for bad in (b'<script src="https://x/y.js">', b"<link rel=x href='//fonts/z.css'>"):
        assert build_site.OUTSIDE.search(bad)
    assert not build_site.OUTSIDE.search(b'<a href="https://x"> <script src="_static/y.js">')


def test_the_readme_is_short_and_names_every_extra():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 200
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = set(re.findall(r"`(\w+)`", text.partition("## Extras")[2].partition("\n## ")[0]))
    assert set(project["optional-dependencies"]) <= named


# ---- errors --------------------------------------------------------------------------------------

CLASSES = [getattr(pp.errors, name) for name in pp.errors.__all__]


def section(anchor: str) -> str:
    """The text of a section of troubleshooting.md, up to the next heading of its level."""
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        if heading.lower() == anchor:
            return body
    raise AssertionError(f"troubleshooting.md has no section {anchor}")


@pytest.mark.parametrize("error", CLASSES, ids=lambda c: c.__name__)
def test_every_error_has_a_section_with_an_example(error: type[Exception]):
    assert "```python\n" in section(error.__name__.lower())
    if issubclass(error, pp.errors.PhipsiError):
        page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
        anchor = f"#{error.__name__.lower()}"
        assert f"]({anchor})" in page or error is pp.errors.PhipsiError
        one = error(*["x", 1, "y", "z"][: 4 if error is pp.errors.FileError else 1])
        assert one.__notes__ == [f"see docs/troubleshooting.md{anchor}"]
        assert anchor not in str(one)


def test_a_section_that_is_missing_is_found():
    with pytest.raises(AssertionError, match="no section nosucherror"):
        section("nosucherror")


def test_classes_of_other_modules_point_to_the_nearest_section():
    class Own(pp.errors.SpaceError):
        pass

    assert Own("x").__notes__ == ["see docs/troubleshooting.md#spaceerror"]
    text = pickle.loads(pickle.dumps(pp.errors.FileError("a", 1, "b", "c"))).__notes__
    assert text == ["see docs/troubleshooting.md#fileerror"]


def test_the_command_line_prints_the_section(capsys: pytest.CaptureFixture[str]):
    from phipsi.cli.common import command

    @command
    def fails() -> int:
        raise pp.errors.ModelError("no such body")

    assert fails() == 2
    shown = capsys.readouterr().err
    assert shown == "no such body\nsee docs/troubleshooting.md#modelerror\n"
