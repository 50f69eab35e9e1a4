"""The process that evaluates: `python -m phipsi.interfaces.workbench.evaluator`."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from phipsi.interfaces.limited_process import Message, serve
from phipsi.interfaces.workbench.answers import Answers, Robots, shipped_robots
from phipsi.model import Model


class Evaluator:
    """Answers for the shipped robots, and for one that comes with a request."""

    def __init__(self) -> None:
        self._own: tuple[str, Any] = ("", None)
        self._answers = Answers(shipped_robots())

    def __call__(self, request: dict[str, Any], blobs: list[bytes]) -> Message:
        """The answer to one request; its own robot is data of `Model.to_dict`."""
        name, data = request.get("own", ("", None))
        if data is not None and name != self._own[0]:
            self._own = (name, data)
            own: Robots = {name: partial(Model.from_dict, data, inertia="keep")}
            self._answers = Answers({**own, **shipped_robots()})
        return self._answers(request), []


def main() -> None:
    """Answer until the other side is gone; compiled code may be kept for the next time."""
    serve(Evaluator(), lambda: None, writes_files=True)


if __name__ == "__main__":
    main()
    sys.exit(0)
