"""How reports and errors name a closure: its bodies, and those of the loop it closes."""

from __future__ import annotations

from phipsi.core.model.closures import Closure
from phipsi.core.model.model import Model


def ends(model: Model, closure: Closure) -> str:
    """The two bodies of a closure, or the bodies of its points."""
    names = dict.fromkeys(_body(model, body) for body, _ in closure.points)
    return " and ".join(names) if len(names) < 3 else ", ".join(names)


def loop_bodies(model: Model, closure: Closure) -> list[str]:
    """Bodies along the tree from one end of a closure to the other, through their meeting."""
    if closure.matrix is not None:
        return [_body(model, body).strip("'") for body, _ in closure.points if body >= 0]
    tree, ends = model.tree, (closure.a, closure.b)
    meet = tree.nearest_common_ancestor(*ends)
    up, down = ([k for k in tree.path(end) if k > meet] for end in ends)
    way = [*up, meet, *reversed(down)]
    return ["world" if k < 0 else model.body_names[k] for k in way]


def named(model: Model, closure: Closure) -> str:
    """The constraint, its bodies and its loop, as part of a sentence."""
    path = " – ".join(loop_bodies(model, closure))
    return f"{closure.name!r} between {ends(model, closure)} (the loop: {path})"


def _body(model: Model, body: int) -> str:
    return "the world" if body < 0 else repr(model.body_names[body])
