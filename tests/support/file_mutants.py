"""Mutants of valid robot files: bytes, tags, attributes, numbers and names changed at random.

    for seed in range(1000):
        data = mutant(original, seed)

The same seed gives the same mutant. Each has one to three changes, so that most get past the XML
reader and into the meaning of the file.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Sequence

NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "1e999",
    "-1e999",
    "1,5",
    "0x10",
    "1_000",
    "",
    " ",
    "-",
    "1e",
    "1.0f",
    "--1",
    "0",
    "-0",
    "1e-320",
    "1e-308",
    "1e308",
    "-1e308",
    "1e154",
    "1e200",
    "1e59",
    "1e-30",
    "-1",
    "-5.5",
    "99999999999999999999999999",
    "1e60",
    "1e61",
    "0 0",
    "0 0 0 0",
    "1 2 3 4 5 6 7",
    "٣",
    "½",
    "TRUE",
    "1e100000",
    "${1+1}",
    "1e-99999",
)
NAMES = (
    "",
    " ",
    "world",
    "root_joint",
    "..",
    "/",
    "a/b",
    "a\x7fb",
    "ü",
    "名前",
    "x" * 5000,
    "&amp;",
    "&lt;",
    "&#65;",
    "&#0;",
    "&nope;",
    "\u202e",
    "'",
    "None",
    "-1",
    "%s%s%s%s%n",
    "50%",
)
# What small files ask much with: elements that MuJoCo or our readers could take too literally.
HUNGRY = {
    "mujoco": (
        '<size nkey="100000"/>',
        '<size nuser_geom="1000000" nuser_body="1000000"/>',
        '<size memory="900G" njmax="1000000"/>',
        '<custom><numeric name="hungry" size="1000000" data="1"/></custom>',
        '<asset><hfield name="hungry" nrow="2000" ncol="2000" size="1 1 1 1"/></asset>',
        '<asset><texture name="hungry" builtin="flat" width="4096" height="4096"/></asset>',
        '<asset><mesh name="hungry" builtin="wedge" params="150 150 60 60 0.5"/></asset>',
        '<asset><mesh name="hungry" builtin="sphere" params="9"/></asset>',
        '<worldbody><replicate count="900"><replicate count="2"><geom size="1"/></replicate>'
        "</replicate></worldbody>",
        '<worldbody><replicate count="100"><body><freejoint/><geom size="1"/></body></replicate>'
        "</worldbody>",
        '<compiler><lengthrange mode="all" inttotal="100000" timestep="0.00001"/></compiler>',
        '<option iterations="1000000000" tolerance="0" timestep="1e-9"/>',
        '<default class="%n"><geom class="%n"/></default>',
        '<worldbody><body name="%s%s%n"><geom class="%s%s%n"/></body></worldbody>',
    ),
    "model": (
        "".join(f'<frame name="h{i}" attached_to="h{i + 1}"/>' for i in range(200)),
        '<model name="hungry"/>' * 50,
    ),
    "robot": ("<lynk/>" * 200, '<link name="' + "h" * 2000 + '"/>'),
}
PATHS = (
    "../../../../etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "http://127.0.0.1:9/x.stl",
    "package://../x.stl",
    "package://a/../../../etc/passwd",
    "package:///etc/passwd",
    "\\\\host\\x",
    "C:\\x.stl",
    "package://",
    "model://a/b",
    ".",
    "..",
    "meshes/../../x.stl",
    "//etc/passwd",
)

_TAG = re.compile(r"<[^<>]+>")
_ATTRIBUTE = re.compile(r'([A-Za-z_:][\w:.-]*)\s*=\s*"([^"]*)"')
_WORD = re.compile(r"[-+.\w]+")
_NUMERIC = re.compile(r'(?<=["\s>])[-+]?\d[-+.\deE]*(?=["\s<])')


def mutant(original: bytes, seed: int) -> bytes:
    """One mutant of a robot file."""
    changes = (_number, _number, _number, _name, _name, _tag, _tag, _attribute, _path, _hungry)
    return mutated(original, seed, changes, _bytes)


def mutated(
    original: bytes,
    seed: int,
    changes: Sequence[Callable[[str, random.Random], str]],
    bytes_changed: Callable[[bytes, random.Random], bytes],
) -> bytes:
    """Text with one to three of the changes, or of its bytes, by the number `seed`."""
    rng = random.Random(seed)
    data = original
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.12:
            data = bytes_changed(data, rng)
            continue
        text = data.decode("utf-8", "surrogateescape")
        data = rng.choice(changes)(text, rng).encode("utf-8", "surrogateescape")
    return data


def _cut(text: str, span: tuple[int, int], new: str) -> str:
    return text[: span[0]] + new + text[span[1] :]


def _bytes(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return b"\0"
    at = rng.randrange(len(data))
    length = rng.choice((1, 1, 2, 8, 64, 512))
    kind = rng.randrange(6)
    if kind == 0:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + data[at + length :]
    if kind == 2:
        return data[:at] + bytes(rng.randrange(256) for _ in range(length)) + data[at:]
    if kind == 3:
        return data[: at + length] + data[at : at + length] + data[at + length :]
    if kind == 4:
        return data[:at]
    return (
        data[:at]
        + rng.choice((b"\0", b"\xff\xfe", b"<!DOCTYPE x>", b"]]>", b"<!--", b"&#x0;"))
        + data[at:]
    )


def _number(text: str, rng: random.Random) -> str:
    found = [m.span() for m in _NUMERIC.finditer(text)]
    if not found:
        return text
    span = rng.choice(found)
    old = text[span[0] : span[1]]
    new = rng.choice((*NUMBERS, "-" + old, old + "e5", old + "e-5", old.replace(".", ",")))
    return _cut(text, span, new)


def _attributes(text: str) -> list[re.Match[str]]:
    return list(_ATTRIBUTE.finditer(text))


def _name(text: str, rng: random.Random) -> str:
    found = [
        m
        for m in _attributes(text)
        if m.group(1)
        in (
            "name",
            "link",
            "joint",
            "type",
            "class",
            "relative_to",
            "attached_to",
            "body1",
            "site",
            "file",
            "mesh",
        )
    ]
    texts = re.findall(r">([^<>\s]+)<", text)
    if not found:
        return text
    m = rng.choice(found)
    others = [o.group(2) for o in found] + texts
    new = rng.choice(NAMES) if rng.random() < 0.3 else rng.choice(others)
    return _cut(text, m.span(2), new)


def _path(text: str, rng: random.Random) -> str:
    found = [m for m in _attributes(text) if m.group(1) in ("filename", "file")]
    spans = [m.span(2) for m in found] + [m.span(1) for m in re.finditer(r"<uri>([^<]*)<", text)]
    return _cut(text, rng.choice(spans), rng.choice(PATHS)) if spans else _number(text, rng)


def _hungry(text: str, rng: random.Random) -> str:
    found = [
        m for m in re.finditer(r"<(mujoco|model|robot)\b[^<>]*>", text) if text[m.end() - 2] != "/"
    ]
    if not found:
        return _number(text, rng)
    m = rng.choice(found)
    return _cut(text, (m.end(), m.end()), rng.choice(HUNGRY[m.group(1)]))


def _attribute(text: str, rng: random.Random) -> str:
    found = _attributes(text)
    if not found:
        return text
    m = rng.choice(found)
    kind = rng.randrange(5)
    if kind == 0:
        return _cut(text, m.span(), "")
    if kind == 1:
        return _cut(text, m.span(), m.group() + " " + rng.choice(found).group())
    if kind == 2:
        other = rng.choice(found)
        return _cut(text, m.span(2), other.group(2))
    if kind == 3:
        return _cut(text, m.span(1), rng.choice(found).group(1))
    words = list(_WORD.finditer(text))
    return _cut(text, rng.choice(words).span(), rng.choice(words).group())


def _elements(text: str) -> list[tuple[int, int]]:
    """Spans of whole elements, found by matching tags on a stack."""
    spans: list[tuple[int, int]] = []
    stack: list[tuple[str, int]] = []
    for m in _TAG.finditer(text):
        tag = m.group()
        if tag.startswith(("<?", "<!")):
            continue
        if tag.startswith("</"):
            if stack:
                spans.append((stack.pop()[1], m.end()))
        elif tag.endswith("/>"):
            spans.append(m.span())
        else:
            stack.append((tag, m.start()))
    return spans


def _tag(text: str, rng: random.Random) -> str:
    spans = _elements(text)
    if len(spans) < 2:
        return text
    one, two = rng.choice(spans), rng.choice(spans)
    kind = rng.randrange(7)
    if kind == 0:
        return _cut(text, one, "")
    if kind == 1:
        return _cut(text, (one[1], one[1]), text[one[0] : one[1]])
    if kind == 2:
        return _cut(text, one, text[two[0] : two[1]])
    if kind == 3:
        return _cut(text, (two[0], two[0]), text[one[0] : one[1]])
    if kind == 4:
        words = re.findall(r"</?([A-Za-z_][\w:.-]*)", text)
        m = rng.choice(list(re.finditer(r"</?([A-Za-z_][\w:.-]*)", text)))
        return _cut(text, m.span(1), rng.choice(words))
    if kind == 5:
        depth = rng.choice((3, 50, 3000))
        return _cut(text, (one[0], one[0]), "<a>" * depth + "</a>" * depth)
    return _cut(
        text,
        one,
        rng.choice(("<!-- ", "<![CDATA[ ", "")) + text[one[0] : one[1]].replace(">", "/>", 1),
    )


# ---- what must come of a mutant -----------------------------------------------------------------


def outcome(path: str) -> str:
    """ "model" or "error", the two ways to end well; anything else raises.

    Two errors have names of their own: "reader", MuJoCo's process ended, and "time".
    """
    import numpy as np

    from phipsi.errors import FileError, ModelError
    from phipsi.files.load import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except ModelError as error:
            if not isinstance(error, FileError):
                raise AssertionError(f"no file and line: {error}") from error
            if error.line < 1 or not str(error).startswith(f"{error.file}:{error.line}: "):
                raise AssertionError(f"odd place: {error}") from error
            if "MuJoCo's reader ended" in str(error):
                return "reader"
            return "time" if "max_seconds" in str(error) else "error"
    arrays = (
        model.inertia_matrices,
        model.placement_rotations,
        model.placement_translations,
        model.damping,
        model.armature,
        model.gravity,
    )
    if not all(np.isfinite(array).all() for array in arrays):
        raise AssertionError("the model has numbers that are not finite")
    if np.isnan(model.lower).any() or np.isnan(model.upper).any():
        raise AssertionError("the model has limits that are NaN")
    return "model"
