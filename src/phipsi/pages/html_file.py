"""`page_html`: the one place where a page is written: everything inlined, every request forbidden.

A page is a stage with the scene, and what stands below it. Scripts and styles are files of
`assets/`; data are JSON; programs of WebAssembly are base64. Texts that come from users and robot
files are escaped, and go into the page as text only.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model import Model
from phipsi.core.spatial import matrix_to_quat
from phipsi.errors import InputError, shown, shown_lines

SCENE_SCRIPTS = ("three.min.js", "deformation.js", "links.js", "scene.js")
_NAMED = 3  # bodies in the title of a page that nobody named


class PageParts(TypedDict, total=False):
    """The parts of a page besides its title.

    `subtitle` and `footer` are plain text. `data`, a JSON object, is `data` in the scripts.
    `scripts` and `styles` name further files of `assets/`, after three.min.js, scene.js, page.js
    and page.css; exaggeration.js is there if bodies deform or couplings twist. `controls` is HTML
    at the lower edge of the stage, `body` HTML below the stage: pass texts of users through `safe`.
    `binaries` are bytes by name: `page.binary(name)` in the scripts. `wasm` permits to compile
    them; `connect`, to ask the server that the page comes from.
    """

    subtitle: str
    data: Mapping[str, Any]
    scripts: Sequence[str]
    styles: Sequence[str]
    controls: str
    body: str
    footer: str
    binaries: Mapping[str, bytes]
    wasm: bool
    connect: bool


def page_html(title: str, parts: PageParts) -> str:
    """A self-contained page: its text, which needs nothing else.

    The page forbids itself every request (`default-src 'none'`) and asks for none. Names of bodies
    are text wherever they stand, whatever they contain.

    **Arguments:** `title`, plain text; `parts`, as `PageParts` says. `data["scene"]`, if it is
    there, is a description by `scene_description`, and is drawn.
    **Cost:** about 0.6 MB for the scripts if a scene is drawn, 30 kB if none, and the data.

    >>> text = page_html("<b>", {"subtitle": "two & two", "data": {"name": "</script>"}})
    >>> "<b>" in text, "&lt;b&gt;" in text, "two &amp; two" in text, '"</script>"' in text
    (False, True, True, False)
    """
    if not isinstance(title, str):
        raise InputError(f"title={title!r} must be a string")
    data = parts.get("data", {})
    drawn = SCENE_SCRIPTS if "scene" in data else ()
    scene = data.get("scene", {})
    gives = scene.get("flexible") or any("coil" in part for part in scene.get("parts", ()))
    bends = ["exaggeration.js"] if gives and "amplitudes" not in data else []
    machines = ["machines.js"] if scene.get("machines") else []
    scripts = [*drawn, "page.js", *bends, *machines, *parts.get("scripts", ())]
    styles = ["page.css", *parts.get("styles", ())]
    fields = {
        "policy": " 'wasm-unsafe-eval'" * bool(parts.get("wasm"))
        + "; connect-src 'self'" * bool(parts.get("connect")),
        "title": safe(shown(title[:200])),
        "subtitle": safe(parts.get("subtitle", "")),
        "style": "\n".join(map(asset_text, styles)),
        "controls": parts.get("controls", ""),
        "body": parts.get("body", ""),
        "footer": safe(parts.get("footer", "")),
        "data": _data("data", json.dumps(data, allow_nan=False, separators=(",", ":"))),
        "binaries": "".join(
            _data(f"binary-{name}", base64.b64encode(content).decode("ascii"))
            for name, content in parts.get("binaries", {}).items()
        ),
        "scripts": "\n".join(f"<script>\n{asset_text(name)}\n</script>" for name in scripts),
    }
    out: list[str] = []
    for k, piece in enumerate(asset_text("page.html").split("{{")):
        key, closed, rest = piece.partition("}}")
        out.append(piece if k == 0 or not closed else fields[key] + rest)
    return "".join(out)


def page_title(title: str | None, model: Model, path: Path | None = None) -> str:
    """What is given, the name of the mechanism, that of the page's file, or its first bodies."""
    if title is not None and not isinstance(title, str):
        raise InputError(f"title={title!r} must be a string")
    file = "" if path is None else file_words(path)
    more = ", …" if model.n_bodies > _NAMED else ""
    return title or model.name or file or ", ".join(model.body_names[:_NAMED]) + more or "a page"


def file_words(path: Path) -> str:
    """The name of a file as words: "falling_boxes.html" is "falling boxes"."""
    return re.sub(r"[-_\s]+", " ", path.stem).strip()


def safe(text: str) -> str:
    """Text inside a page: no markup, and nothing that acts or cannot be written."""
    return html.escape(shown_lines(text))


def packed(numbers: ArrayLike, kind: str = "<f4") -> str:
    """Numbers, which may be infinite, in base64: little-endian floats, or another `kind`."""
    return base64.b64encode(np.ascontiguousarray(numbers, dtype=kind).tobytes()).decode("ascii")


def packed_poses(X: NDArray[Any]) -> str:
    """Poses (..., 4, 4) as quaternions w x y z and positions, packed."""
    return packed(np.concatenate([matrix_to_quat(X[..., :3, :3]), X[..., :3, 3]], axis=-1))


def rounded(x: float, digits: int = 6) -> float:
    """A number with so many significant digits, which is short as text."""
    return float(f"{x:.{digits}g}")


def rounded_list(values: ArrayLike, digits: int = 6) -> list[float]:
    """The same for a vector."""
    return [rounded(x, digits) for x in np.asarray(values, dtype=float).tolist()]


def _data(key: str, text: str) -> str:
    # inside <script> only "</" and "<!" would mean something
    content = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{safe(key)}">{content}</script>\n'


def asset_text(name: str) -> str:
    """A file of `assets/`."""
    return files("phipsi.pages").joinpath("assets", name).read_text(encoding="utf-8")
