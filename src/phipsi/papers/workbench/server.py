"""The workbench's server: one page and its questions, for this machine only.

Questions are data: `answers.py` evaluates them in a process with limits.

Reasons: docs/decisions/0039.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, final
from urllib.parse import quote

from phipsi.core.model import Model
from phipsi.support import Ended, LimitedProcess, LoopbackServer, NotStarted, TooSlow

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "woff2": "font/woff2",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "connect-src 'self'; img-src data:"
)


@final
class Workbench:
    """A running workbench: `address` opens its page; `close` ends it.

    It serves in a thread of its own until it is closed; it is a context manager.

    Parameters
    ----------
    robot : Model, optional
        Your model, listed first.
    expression : str, optional
        The expression that the page shows first.
    port : int, optional
        Default: 0, any free port.
    seconds : float, optional
        Time limit of one answer. Default: 20.
    memory : int, optional
        Memory limit of one answer, in bytes. Default: 4e9.

    Examples
    --------
    >>> with Workbench(expression="H φ M φ* H*") as bench:
    ...     bench.address.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self,
        robot: Model | None = None,
        *,
        expression: str = "",
        port: int = 0,
        seconds: float = 20.0,
        memory: int = 4_000_000_000,
    ) -> None:
        self._limits = {"seconds": float(seconds), "memory": int(memory)}
        self._own: dict[str, Any] = {}
        if robot is not None:
            self._own = {"own": [robot.name or "robot", robot.to_dict()]}
        self._process = LimitedProcess("phipsi.papers.workbench.answers")
        self._assets = _assets()
        self._server = LoopbackServer(self.asset, self.ask, _POLICY, port)
        self.token, self.port = self._server.token, self._server.port
        self._fragment = f"#x={quote(expression)}" if expression else ""
        self.address = f"{self._server.address}{self._fragment}"

    def __repr__(self) -> str:
        return f"<Workbench at {self.address}>"

    def open_browser(self) -> None:
        """Open the page in the browser of this user."""
        self._server.open_browser(self._fragment)

    def asset(self, path: str) -> tuple[str, bytes] | None:
        """The media type and content of a file of the page; None if there is none."""
        return self._assets.get(path or "page.html")

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question of the page, within the limits."""
        request = {**question, **self._own, **self._limits}
        try:
            head, _ = self._process.ask(request, (), self._limits["seconds"])
        except TooSlow:
            seconds = self._limits["seconds"]
            return _failure(
                f"there was no answer within {seconds:g} s. Use a smaller robot or a shorter "
                f"expression, or allow more time:  phipsi workbench --seconds {10 * seconds:g}"
            )
        except Ended as error:
            return _failure(f"the worker process ended with {error}; try again")
        except NotStarted as error:
            return _failure(f"the worker process could not be started: {error}")
        if head.pop("failure", "") == "memory":
            return _failure(
                f"the computation exceeds the limit of {self._limits['memory']:,} bytes of memory. "
                "Use a smaller robot or a shorter expression"
            )
        head.pop("is_last", None)
        return head

    def wait(self) -> None:
        """Serve until the process is interrupted."""
        self._server.wait()

    def close(self) -> None:
        """End the server and the process that evaluates."""
        self._server.close()
        self._process.end()

    def __enter__(self) -> Workbench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _failure(text: str) -> dict[str, Any]:
    return {"error": text, "class": "Limit"}


def _assets() -> dict[str, tuple[str, bytes]]:
    """Every file of the page by its path below the token."""
    found: dict[str, tuple[str, bytes]] = {}
    folders = [("", files("phipsi.papers.workbench") / "assets")]
    while folders:
        prefix, folder = folders.pop()
        for one in folder.iterdir():
            if one.is_dir():
                folders.append((f"{prefix}{one.name}/", one))
            elif (ending := one.name.rpartition(".")[2]) in _TYPES:
                found[prefix + one.name] = (_TYPES[ending], one.read_bytes())
    return found
