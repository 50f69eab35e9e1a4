"""Lines of TOML keys: exact on every construct, and complete on random documents."""

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from phipsi.scenarios.toml_tables import lines_of

TEXT = '''\
# a comment with [a.table] and key = 1
title = "a # no comment"    # but this is
a.b.c = 1
a.b."d.e" = 2
'q"' = 3

text = """
[not.a.table]
key = 1 \\""" still
"""""
raw = \'\'\'
[[neither]]
\'\'\'\'
[table]
x = [ 1, 2,
  # why
  [3,
   4], { y = 5, z.w = "}]" },
]
  [ table . "in ner" ]
  k = 1979-05-27 07:32:00
[[list]]
name = "one"
[list.sub]
m = true
[[list]]
name = \'two\'
[[list.deep]]
n = inf
[[list.deep]]
n = 0x1F
'''

LINES = {
    ("title",): 2,
    ("a",): 3,
    ("a", "b"): 3,
    ("a", "b", "c"): 3,
    ("a", "b", "d.e"): 4,
    ('q"',): 5,
    ("text",): 7,
    ("raw",): 11,
    ("table",): 14,
    ("table", "x"): 15,
    ("table", "x", 0): 15,
    ("table", "x", 1): 15,
    ("table", "x", 2): 17,
    ("table", "x", 2, 0): 17,
    ("table", "x", 2, 1): 18,
    ("table", "x", 3): 18,
    ("table", "x", 3, "y"): 18,
    ("table", "x", 3, "z"): 18,
    ("table", "x", 3, "z", "w"): 18,
    ("table", "in ner"): 20,
    ("table", "in ner", "k"): 21,
    ("list",): 22,
    ("list", 0): 22,
    ("list", 0, "name"): 23,
    ("list", 0, "sub"): 24,
    ("list", 0, "sub", "m"): 25,
    ("list", 1): 26,
    ("list", 1, "name"): 27,
    ("list", 1, "deep"): 28,
    ("list", 1, "deep", 0): 28,
    ("list", 1, "deep", 0, "n"): 29,
    ("list", 1, "deep", 1): 30,
    ("list", 1, "deep", 1, "n"): 31,
}


def paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*path, key))


def test_every_construct():
    assert set(paths(tomllib.loads(TEXT))) == set(LINES)
    assert lines_of(TEXT) == LINES


@pytest.mark.parametrize("end", ["", "\n", "\n# the end", "   \n\t\n"])
def test_ends_of_files(end: str):
    assert lines_of(f"a = 1{end}") == {("a",): 1}
    assert lines_of(end) == {}


# ---- random documents ----------------------------------------------------------------------------

KEYS = st.one_of(
    st.text("abcXYZ0_-", min_size=1, max_size=4), st.sampled_from(["a.b", "[x]", "#", "k = 1", ""])
)
STRINGS = st.sampled_from(
    ['""', "''", '"#"', '"a\\"]"', "'}'", '"""\n[t]\n"""', "'''\nk = 1\n'''", '"""x""""', '"\\\\"']
)
SCALARS = st.one_of(STRINGS, st.sampled_from(["1", "-2.5e3", "true", "0xff", "12:30:00", "nan"]))
COMMENTS = st.sampled_from(["", " # [no] = {", "\t"])
GAPS = st.sampled_from(["", " ", "\n", "\n # ]\n", " \n\t"])


def quoted(key: str) -> str:
    bare = key and all(c.isalnum() or c in "_-" for c in key)
    return key if bare else f'"{key}"'


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.integers(0, 3)) if depth else 0
    if kind == 1:
        items = draw(st.lists(values(depth=depth - 1), max_size=3))  # pyright: ignore
        gaps = [draw(GAPS) for _ in range(2 * len(items) + 1)]
        inside = "".join(f"{gaps[2 * i]}{x}{gaps[2 * i + 1]}," for i, x in enumerate(items))
        return f"[{inside}{gaps[-1]}]"
    if kind == 2:
        keys = draw(st.lists(KEYS, max_size=3, unique=True))
        pairs = [f"{quoted(k)} = {draw(values(depth=depth - 1))}" for k in keys]  # pyright: ignore
        return "{ " + ", ".join(pairs) + " }"
    return draw(SCALARS)


@st.composite
def documents(draw: st.DrawFn) -> str:
    out = []
    for table in ["", *draw(st.lists(KEYS, max_size=3, unique=True))]:
        for _ in range(draw(st.integers(1, 2)) if table else 1):
            array = table and draw(st.booleans()) and f"[{table}]" not in out
            if table:
                name = f"t.{quoted(table)}"
                header = f"[[{name}]]" if array else f"[{name}]"
                if any(name in line for line in out):
                    continue
                out.append(header)
            for key in draw(st.lists(KEYS, max_size=3, unique=True)):
                out.append(f"{quoted('k' + key)} = {draw(values())}{draw(COMMENTS)}")
    return "\n".join(out) + draw(st.sampled_from(["", "\n", "\n#"]))


@given(documents())
def test_every_path_has_a_line(text: str):
    data = tomllib.loads(text)
    lines = lines_of(text)
    assert set(lines) == set(paths(data))
    rows = text.split("\n")
    for path, line in lines.items():
        if isinstance(path[-1], str):
            assert quoted(path[-1]) in rows[line - 1]
