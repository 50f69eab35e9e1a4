"""A server for one page on this machine only: the workbench and the viewer share it.

It listens on the loopback address. Every address holds a token that only the person at this machine
was told; requests with another Host (a foreign page whose name points here), another Origin or no
token get nothing, and the page may load nothing from elsewhere. A browser is not given the address
as an argument, which every user of the machine can read, but a file of this user that leads there.

Reasons: docs/decisions/0039.
"""

from __future__ import annotations

import contextlib
import hmac
import html
import json
import os
import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, final
from urllib.parse import urlsplit

from phipsi.errors import InputError

_HOST = "127.0.0.1"
_LONGEST_REQUEST = 64_000  # bytes
_WAIT = 30.0  # seconds that a connection may stay silent
_LEADS = 60.0  # seconds that the file stays which leads a browser to the page
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_POLICY = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
File = tuple[str, bytes]
"""The media type of a file, and its content."""


@final
class LoopbackServer:
    """Serves a page and answers its questions, in threads of its own, until it is closed.

    Parameters
    ----------
    asset : callable
        The file at a path below the token, or None.
    ask : callable
        The answer to a question, which the page posts as JSON to ``ask``.
    policy : str
        Content security policy: what the page may load.
    port : int, optional
        Default: 0, any free port.

    Attributes
    ----------
    address : str
        Address of the page, with its `token`.
    port : int
    """

    def __init__(
        self,
        asset: Callable[[str], File | None],
        ask: Callable[[dict[str, Any]], dict[str, Any]],
        policy: str,
        port: int = 0,
    ) -> None:
        self.asset, self.ask, self.policy = asset, ask, f"{policy}; {_POLICY}"
        self.token = secrets.token_urlsafe(18)
        try:
            self._server = _Server((_HOST, port), type("Handler", (_Handler,), {"own": self}))
        except (OSError, OverflowError) as error:
            raise InputError(
                f"port {port} of {_HOST} cannot be used: {error}. Use any free port:  --port 0"
            ) from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.hosts = (f"{_HOST}:{self.port}", f"localhost:{self.port}")
        self.address = f"http://{_HOST}:{self.port}/{self.token}/"
        self._leads: list[str] = []
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def open_browser(self, fragment: str = "") -> None:
        """Open the page in the browser of this user, without its token in any argument.

        The browser gets a file in the home folder, which those that are confined can read too; only
        this user can, and after a minute it is gone.
        """
        import webbrowser

        home = str(Path.home())
        place = home if os.access(home, os.W_OK) else None
        folder = tempfile.mkdtemp(prefix="phipsi-page-", dir=place)  # of this user alone
        self._leads.append(folder)
        where = html.escape(f"{self.address}{fragment}", quote=True)
        file = Path(folder, "page.html")
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as page:
            page.write(
                '<!DOCTYPE html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
                f'<meta http-equiv="refresh" content="0; url={where}"><a href="{where}">open</a>\n'
            )
        timer = threading.Timer(_LEADS, shutil.rmtree, (folder,), {"ignore_errors": True})
        timer.daemon = True
        timer.start()
        webbrowser.open(file.as_uri())

    def wait(self) -> None:
        """Serve until the process is interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """End the server."""
        for folder in self._leads:
            shutil.rmtree(folder, ignore_errors=True)
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Threads for connections; those that break off are not reported."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a fault of the page's own answers
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection to the server `own`."""

    own: LoopbackServer
    protocol_version = "HTTP/1.1"
    timeout = _WAIT
    server_version, sys_version = "phipsi", ""

    def do_GET(self) -> None:
        path = self._path()
        if path is not None:
            found = self.own.asset(path)
            if found is None:
                self._say(HTTPStatus.NOT_FOUND)
            else:
                self._send(HTTPStatus.OK, *found)

    def do_POST(self) -> None:
        path = self._path()
        if path is None:
            return
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        length = self.headers.get("Content-Length", "")
        if path != "ask":
            self._say(HTTPStatus.NOT_FOUND)
        elif kind != "application/json":
            self._say(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        elif not (length.isascii() and length.isdigit() and len(length) < 12):
            self._say(HTTPStatus.LENGTH_REQUIRED)
        elif int(length) > _LONGEST_REQUEST:
            self._say(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self._answer(self.rfile.read(int(length)))

    def _answer(self, body: bytes) -> None:
        try:
            question = json.loads(body)
        except (ValueError, RecursionError):
            question = None
        if not isinstance(question, dict):
            self._say(HTTPStatus.BAD_REQUEST)
            return
        answer = json.dumps(self.own.ask(question), allow_nan=False)
        self._send(HTTPStatus.OK, "application/json", answer.encode())

    def _path(self) -> str | None:
        """The path below the token; None, with an answer, if the request is not from us."""
        if self.headers.get("Host", "") not in self.own.hosts:
            return self._say(HTTPStatus.MISDIRECTED_REQUEST)
        origin = self.headers.get("Origin")
        if origin is not None and origin not in [f"http://{host}" for host in self.own.hosts]:
            return self._say(HTTPStatus.FORBIDDEN)
        try:
            token, slash, rest = urlsplit(self.path).path[1:].partition("/")
        except ValueError:  # such as http://[
            return self._say(HTTPStatus.BAD_REQUEST)
        if not hmac.compare_digest(token.encode(), self.own.token.encode()) or not slash:
            return self._say(HTTPStatus.FORBIDDEN)
        return rest

    def _say(self, status: HTTPStatus) -> None:
        self.close_connection = True  # what was not read would be taken for a request
        self._send(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, text in {"Content-Security-Policy": self.own.policy, **_HEADERS}.items():
            self.send_header(name, text)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        with contextlib.suppress(ConnectionError):  # the page was closed meanwhile
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: addresses hold the token."""
