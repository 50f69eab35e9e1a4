"""Advice in error messages, which is Python, as options to type on the command line."""

from __future__ import annotations

import re

# Arguments of functions that are options of commands with the same name.
_OPTIONS = "integrator dt rtol atol duration target precision scratch fmi".split()
_NAMED = "|".join(_OPTIONS)
_GIVEN = rf"\b({_NAMED})=('[^'\n]*'|[-+.\w]*\w)"
_SENTENCES = (
    (r'pp\.parse\(text, notation="([^"]*)"\)', r'--notation "\1"'),
    (
        r"To compute it densely(?:, O\(N³\))?: +(pp\.evaluate_dense\([^)]*\))",
        r"In Python, \1 computes it densely, O(N³)",
    ),
    (
        r'this is an equation, and an expression has no "=": (pp\.prove\("[^"\n]*"\)) decides it, '
        r"pp\.Identity\([^)\n]*\) states it",
        r'this is an equation, and an expression has no "=". Explain one of its sides; in Python, '
        r"\1 decides whether it holds",
    ),
    (
        r"(loops cut open,|points and axes) (?:pass|compile for) system\.model",
        r"\1 add  --loops cut",
    ),
    (r"\bpass custom=\[\w+\]", "only Python knows those of custom=[…]"),
    (r"trajectory\.save\(path\)", "phipsi simulate FILE --duration 2 -o NAME.npz"),
    (r"output_times=np\.arange\(0, duration, ([^)]*)\)", r"--output-every \1"),
)


def for_the_command_line(text: str) -> str:
    """A message with options in place of arguments of functions; calls in Python stay.

    >>> for_the_command_line("dt=0.1 has no effect. For fixed steps:  integrator='rk4', dt=0.1")
    '--dt 0.1 has no effect. For fixed steps:  --integrator rk4 --dt 0.1'
    """
    for pattern, typed in _SENTENCES:
        text = re.sub(pattern, typed, text)
    return "\n".join(x if "pp." in x else _with_options(x) for x in text.split("\n"))


def _with_options(line: str) -> str:
    line = re.sub(rf"({_GIVEN}), (?=(?:{_NAMED})=)", r"\1 ", line)
    return re.sub(_GIVEN, lambda x: f"--{x[1]} {x[2].strip(chr(39))}", line)


def function_of_python(word: str = "") -> str:
    """Lines about a word that is a function of Python and no command; "" for others."""
    if word not in ("prove", "derive", "identities", "parse", "simplify"):
        return ""
    return (
        f"{word} is a function of Python:  "
        f"python -c 'import phipsi as pp; print(pp.{word}(\"…\"))'\n"
        "or type the expression in a browser:  phipsi workbench\n"
    )
