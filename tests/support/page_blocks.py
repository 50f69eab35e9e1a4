"""Fenced blocks of pages: what they run, what they print, and what the page shows."""

from __future__ import annotations

import ast
import contextlib
import io
import math
import re
from dataclasses import dataclass
from typing import Any

# What needs PyTorch, JAX or Stable-Baselines3: pages with blocks of the language `py`, examples.
# `make test-bridges` runs it, `make test` does not.
FRAMEWORK_PAGES = ("optimisation.md",)
FRAMEWORK_EXAMPLES = ("train_with_stable_baselines.py",)

# ---- blocks ------------------------------------------------------------------------------------

FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and the output block right behind it."""

    language: str
    body: str
    line: int
    output: str | None = None
    span: tuple[int, int] = (0, 0)  # of the output's text in the page


def blocks_of(text: str) -> list[Block]:
    found = list(FENCE.finditer(text))
    blocks: list[Block] = []
    for i, m in enumerate(found):
        output, span = None, (0, 0)
        if i + 1 < len(found) and m["language"] in ("python", "py", "shell"):
            after = found[i + 1]
            if after["language"] == "text" and not text[m.end() : after.start()].strip():
                output, span = after["body"], after.span("body")
        line = text.count("\n", 0, m.start()) + 1
        blocks.append(Block(m["language"], m["body"], line, output, span))
    return blocks


def run_python(block: Block, namespace: dict[str, Any], name: str) -> str:
    """What the block prints, with the value of its last expression, or the exception's text."""
    tree = ast.parse("\n" * block.line + block.body, filename=name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(tree, name, "exec"), namespace)
            value = None if last is None else eval(compile(last, name, "eval"), namespace)
            if value is not None:
                print(repr(value))
        except Exception as error:
            if not re.search(r"^\w+(Error|Warning): ", block.output or "", re.MULTILINE):
                raise
            print(f"{type(error).__name__}: {error}")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


# ---- comparing output ----------------------------------------------------------------------------

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
ANY_LINES = "…"


def same_line(shown: str, printed: str) -> bool:
    """Equal up to white space and the last digits of floating-point numbers."""
    words = ["".join(NUMBER.sub("#", s).split()) for s in (shown, printed)]
    if words[0] != words[1]:
        return False
    return all(
        a == b
        or not (a.lstrip("+-").isdigit() and b.lstrip("+-").isdigit())
        and math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-9)
        for a, b in zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    )


def same(shown: list[str], printed: list[str]) -> bool:
    if not shown:
        return not printed
    if shown[0].strip() == ANY_LINES:
        return any(same(shown[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and same_line(shown[0], printed[0]) and same(shown[1:], printed[1:])


def lines(text: str) -> list[str]:
    return text.strip("\n").splitlines()
