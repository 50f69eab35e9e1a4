"""The sizes and the tree of a model as text."""

from __future__ import annotations

from collections.abc import Iterator

from phipsi.core.model import Model
from phipsi.errors import counted, shown

_LINES = {"tee": "├─ ", "end": "└─ ", "bar": "│  ", "gap": "   ", "arrow": "→"}
_ASCII = {"tee": "|- ", "end": "`- ", "bar": "|  ", "gap": "   ", "arrow": "->"}
_WIDEST = 60  # columns of indentation; deeper bodies say how deep they are instead


def sizes_of(model: Model) -> str:
    """How large a model is, as text: 7 bodies, nq = 7, nv = 7."""
    return f"{counted(model.n_bodies, 'body')}, nq = {model.nq}, nv = {model.nv}"


def draw_tree(model: Model, *, frames: bool = False, ascii_only: bool = False) -> Iterator[str]:
    r"""Yield the lines; with `frames`, also the frames fixed in each body.

    >>> from phipsi.examples import planar_arm
    >>> print("\n".join(draw_tree(planar_arm(2), ascii_only=True)))
    world
    `- joint1: revolute, 1 dof -> link1, 1 kg
       `- joint2: revolute, 1 dof -> link2, 1 kg
    """
    marks = _ASCII if ascii_only else _LINES
    on: dict[int, list[str]] = {}
    if frames:
        for name, (host, _) in model.frames.items():
            on.setdefault(host, []).append(name)
    yield "world" + _frames(on.get(-1, []))
    roots = list(model.tree.roots)
    stack = [(i, "", i == roots[-1]) for i in reversed(roots)]
    while stack:
        i, indent, is_last = stack.pop()
        children = model.tree.children[i]
        start = indent if len(indent) <= _WIDEST else f"{indent[:_WIDEST]}({model.tree.depth[i]}) "
        mark = marks["end" if is_last else "tee"]
        yield f"{start}{mark}{_body(model, i, marks['arrow'])}{_frames(on.get(i, []))}"
        inner = indent + marks["gap" if is_last else "bar"]
        stack.extend((k, inner, k == children[-1]) for k in reversed(children))


def _body(model: Model, i: int, arrow: str) -> str:
    joint = model.joints[i]
    name, body = _cut(model.joint_names[i]), _cut(model.body_names[i])
    mass = model.inertias[i].mass
    return f"{name}: {joint.kind}, {joint.nv} dof {arrow} {body}, {mass:.4g} kg"


def _frames(names: list[str]) -> str:
    if not names:
        return ""
    more = ", …" if len(names) > 4 else ""
    return f"  [{', '.join(map(_cut, names[:4]))}{more}]"


def _cut(name: str) -> str:
    """A name on one line: long ones are cut, control characters are escaped."""
    plain = shown(name, None)
    return plain if len(plain) <= _WIDEST else f"{plain[:_WIDEST]}…"
