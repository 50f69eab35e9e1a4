"""How Sphinx renders the site; `build_site.py` writes the pages that it reads.

Nothing is fetched: formulas are drawn by the KaTeX of the workbench, fonts are those of the reader.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes

import phipsi

HERE = Path(__file__).parent
project, release = "phipsi", phipsi.__version__
extensions = ["myst_parser"]
root_doc = "index"

html_theme = "furo"
html_title = "phipsi"
html_static_path = [
    str(HERE / "static"),
    str(HERE.parents[1] / "src/phipsi/papers/workbench/assets/katex"),
]
html_static_path += [str(x) for x in sorted(HERE.parent.glob("pictures/live-*.png"))]
html_css_files = ["katex.min.css", "site.css"]
html_js_files = ["katex.min.js", "formulas.js"]
html_math_renderer = "katex"
html_copy_source = html_show_copyright = html_show_sphinx = False
html_show_search_summary = False  # it would fetch pages, which a folder of files does not allow
html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = True  # $$ a $$ as the pages write it
myst_dmath_double_inline = True
myst_heading_anchors = 6
smartquotes = False  # text is code here
pygments_style, pygments_dark_style = "friendly", "monokai"
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # outputs with symbols that no lexer knows


def draw_formula(self: Any, node: nodes.Node) -> None:
    """Leave LaTeX in the page; formulas.js draws it."""
    inline = isinstance(node, nodes.math)
    tag, kind = ("span", "inline") if inline else ("div", "display")
    self.body.append(f'<{tag} class="formula {kind}">{escape(node.astext())}</{tag}>')
    raise nodes.SkipNode


NUMBER = re.compile(r"([−-]?\d[\d.]*e[−-]\d+|\d{4}-\d\d-\d\d|\b88-11|[−-]?\d[\d.,]* %)")
PARTS = re.compile(r"(?<=[/_.:,(])(?=\w)")
LONG, SHORT = 40, 14  # characters of code that widen a table; that are in the way on a phone


def keep_numbers(app: Any, doctree: nodes.document, page: str) -> None:
    """Break no line inside a number or a date; break long code in tables after a slash or point."""
    for text in list(doctree.findall(nodes.Text)):
        literal = isinstance(text.parent, nodes.literal | nodes.math | nodes.FixedTextElement)
        parts = NUMBER.split(text.astext())
        if len(parts) > 1 and not literal and not isinstance(text.parent, nodes.raw):
            new = [nodes.inline(x, x, classes=["number"]) if i % 2 else nodes.Text(x)
                   for i, x in enumerate(parts) if x]  # fmt: skip
            text.parent.replace(text, new)
    for image in doctree.findall(nodes.image):
        if "/plots/" in f"/{image['uri']}":
            image["classes"].append("plot")
    for entry in doctree.findall(nodes.entry):
        for code in entry.findall(nodes.literal):
            size = max(map(len, code.astext().split()), default=0)
            if size > SHORT:
                gap = "<wbr>" if size > LONG else '<wbr class="phone">'
                first, *rest = PARTS.split(code.astext())
                code.clear()
                code += nodes.Text(first)
                for word in rest:
                    code += [nodes.raw("", gap, format="html"), nodes.Text(word)]


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer of formulas, and what keeps numbers together."""
    app.connect("doctree-resolved", keep_numbers)
    app.add_html_math_renderer("katex", (draw_formula, None), (draw_formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
