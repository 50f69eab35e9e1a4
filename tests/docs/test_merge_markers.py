"""No page, source, test or example has markers of a merge that was not finished."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = {".md", ".py", ".pyi", ".toml", ".txt", ".yml", ".yaml", ".ipynb", ".js", ".css", ".html"}
MARKERS = ("<" * 7, ">" * 7)


def test_no_markers_of_merges():
    folders = ("src", "docs", "examples", "tests", "benchmarks", "scripts")
    files = [x for name in folders for x in (ROOT / name).rglob("*") if x.suffix in KINDS]
    files += [x for x in ROOT.iterdir() if x.is_file() and x.suffix in KINDS | {""}]
    assert len(files) > 500
    texts = {x.relative_to(ROOT): x.read_text(encoding="utf-8", errors="replace") for x in files}
    found = [
        f"{path}:{number}"
        for path, text in texts.items()
        for number, line in enumerate(text.split("\n"), 1)
        if line.startswith(MARKERS)
    ]
    assert not found
