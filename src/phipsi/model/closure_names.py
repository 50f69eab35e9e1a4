"""How reports and errors name a closure: its bodies, and those of the loop it closes."""

from __future__ import annotations

from phipsi.model.closures import Closure
from phipsi.model.model import Model


def ends(model: Model, closure: Closure) -> str:
    """The two bodies of a closure, or the bodies of its points."""
    names = dict.fromkeys(_body(model, body) for body, _ in closure.points)
    return " and ".join(names) if len(names) < 3 else ", ".join(names)


def loop_bodies(model: Model, closure: Closure) -> list[str]:
    """Bodies along the tree from one end of a closure to the other, through their meeting."""
    if closure.matrix is not None:
        return [_body(model, body).strip("'") for body, _ in closure.points if body >= 0]
    up_a, up_b = _path(model, closure.a), _path(model, closure.b)
    meet = next((k for k in up_a if k in set(up_b)), -1)
    down = up_b[: up_b.index(meet)] if meet in up_b else up_b
    way = [*up_a[: up_a.index(meet) if meet in up_a else None], meet, *reversed(down)]
    return ["world" if k < 0 else model.body_names[k] for k in way]


def named(model: Model, closure: Closure) -> str:
    """The constraint, its bodies and its loop, as part of a sentence."""
    path = " – ".join(loop_bodies(model, closure))
    return f"{closure.name!r} between {ends(model, closure)} (the loop: {path})"


def _path(model: Model, body: int) -> list[int]:
    way = [body]
    while way[-1] >= 0:
        way.append(model.parent[way[-1]])
    return way


def _body(model: Model, body: int) -> str:
    return "the world" if body < 0 else repr(model.body_names[body])
