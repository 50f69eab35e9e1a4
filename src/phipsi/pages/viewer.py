"""`pp.show`: display a mechanism while Python runs, in a notebook or in the browser.

In a notebook (Jupyter, VS Code, marimo) it is a cell, by anywidget. In a script a page asks a
server on the loopback address, the one of the workbench, for the next configuration.
"""

from __future__ import annotations

import secrets
import sys
import threading
from functools import cache
from typing import Any, Protocol, cast, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.algorithms import motions
from phipsi.core.backends import joint_array
from phipsi.core.model import Model, mechanism_of, supports
from phipsi.errors import InputError, true_or_false
from phipsi.pages.displays import picture_of
from phipsi.pages.html_file import SCENE_SCRIPTS, asset_text, page_html, page_title
from phipsi.pages.scene import first_configuration, scene_of_any_motion
from phipsi.simulation import Trajectory
from phipsi.support import LoopbackServer

_CLOSED = "this viewer is closed. Open a new one:  viewer = pp.show(mechanism)"
_WAIT = 10.0  # s that a page waits for the next configuration before it asks again
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:"
)


class Shown(Protocol):
    """A displayed mechanism."""

    def set(self, q: ArrayLike) -> None:
        """Show another configuration (nq,)."""
        ...

    def close(self) -> None:
        """End it."""
        ...

    def __enter__(self) -> Any: ...
    def __exit__(self, *_: object) -> None: ...


@supports(loops=True, contacts=True, flexible=True, rotors=True)
def show(
    subject: Model,
    q: ArrayLike | None = None,
    *,
    title: str = "",
    open: bool = True,
    meshes: bool = True,
    notebook: bool | None = None,
) -> Shown:
    """Display a mechanism in a notebook or in the browser, and move it from Python.

    Call ``viewer.set(q)`` as often as needed, and ``viewer.close()`` at the end; a viewer is also a
    context manager. In a notebook (Jupyter, VS Code, marimo) the viewer is displayed as the last
    value of a cell. In a script it is a page in the browser, served on the loopback address of this
    machine at an address that holds a token: ``viewer.address``.

    Parameters
    ----------
    subject : Model
        A model or a `System`.
    q : array_like, shape (nq,), optional
        The first configuration. Default: the neutral one, or one that closes the loops.
    title : str, optional
        Title of the page. Default: the name of the model, or its first bodies.
    open : bool, optional
        Open the page in the browser. Default: True.
    meshes : bool, optional
        Draw the meshes of the robot's file. Default: True.
    notebook : bool, optional
        Display in a notebook cell (True) or in the browser (False). Default: detected.

    Returns
    -------
    Viewer
        An object with `set` and `close`.

    Raises
    ------
    InputError
        If q has another shape, or if a notebook lacks anywidget.

    See Also
    --------
    live_page : A page that simulates the mechanism in the browser, without Python.
    report : A page that plays a trajectory.

    Notes
    -----
    **Cost:** `set` costs as much as `poses`.

    Examples
    --------
    >>> import phipsi as pp
    >>> with pp.show(pp.examples.planar_arm(2), open=False) as viewer:
    ...     viewer.set([0.3, -0.2])
    ...     viewer.address.startswith("http://127.0.0.1:")
    True
    """
    if isinstance(cast(object, subject), Trajectory):
        raise InputError(
            "pp.show displays a model or a System, and this is a trajectory. To play it, write a "
            'page:\n    pp.report(run, "run.html")'
        )
    whole: Any = mechanism_of(subject, show)
    places = one_configuration(whole.model, first_configuration(whole) if q is None else q)
    open = true_or_false("open", open)
    inside = notebook is None and in_notebook()
    if notebook is not None:
        inside = true_or_false("notebook", notebook, "True, False or None")
    scene = scene_of_any_motion(whole, places, meshes=meshes)
    if inside:
        return _widget_class()(whole, scene, places)
    return Viewer(whole.model, scene, places, title=title, open=open)


def one_configuration(model: Model, q: ArrayLike) -> np.ndarray:
    """The configuration (nq,) to display, checked."""
    places = joint_array(model, "q", q, "nq")
    if places.ndim != 1:
        raise InputError(
            f"a viewer shows one configuration: q must have shape ({model.nq},), not {places.shape}"
        )
    return places


def poses_of(model: Model, q: ArrayLike) -> np.ndarray:
    """Rotation row by row and position of every body, (n, 12), as the scene takes them."""
    X = motions.poses(model, one_configuration(model, q))
    return np.concatenate([X[:, :3, :3].reshape(-1, 9), X[:, :3, 3]], axis=1)


def draws_coordinates(model: Model, scene: dict[str, Any]) -> bool:
    """True if poses alone do not say what is drawn: modes, and values of machine elements."""
    return model.is_flexible or bool(scene["machines"])


@final
class Viewer:
    """A page in the browser that follows `set`, until it is closed; a context manager.

    **Attributes:** `address` of the page, with a token: whoever has it on this machine can look.
    """

    def __init__(
        self, model: Model, scene: dict[str, Any], q: ArrayLike, *, title: str, open: bool
    ) -> None:
        self._model, self._number, self._closed = model, 0, False
        self._by_coordinates = draws_coordinates(model, scene)
        self._changed = threading.Condition()
        self._poses: list[float] = poses_of(model, q).ravel().tolist()
        self._q: list[float] = one_configuration(model, q).tolist()
        self._page = page_html(
            page_title(title, model),
            {
                "subtitle": "displayed by a running Python program",
                "data": {"scene": scene},
                "scripts": ["viewer.js"],
                "controls": '<span id="said"></span>',
                "connect": True,
            },
        ).encode()
        self._server = LoopbackServer(self._asset, self._answer, _POLICY)
        self.address = self._server.address
        if open:
            self._server.open_browser()

    def set(self, q: ArrayLike, text: str = "") -> None:
        """Show a configuration (nq,), with a line of text below it."""
        poses = poses_of(self._model, q).ravel().tolist()
        with self._changed:
            if self._closed:
                raise InputError(_CLOSED)
            self._poses, self._text = poses, str(text)
            self._q = one_configuration(self._model, q).tolist()
            self._number += 1
            self._changed.notify_all()

    _text = ""

    def _asset(self, path: str) -> tuple[str, bytes] | None:
        return ("text/html; charset=utf-8", self._page) if path == "" else None

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The newest configuration, as soon as it is another one than the page has."""
        seen = question.get("seen")
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._number != seen, _WAIT)
            if self._closed:
                return {"closed": True}
            said = {"number": self._number, "poses": self._poses, "text": self._text}
            return {**said, "q": self._q} if self._by_coordinates else said

    def wait(self) -> None:
        """Block until the process is interrupted."""
        self._server.wait()

    def close(self) -> None:
        """Tell the page that the program has ended, and stop the server."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.close()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Viewer of {self._model!r} at {self.address}>"


# ---- notebooks -----------------------------------------------------------------------------------


def in_notebook() -> bool:
    """Whether this runs in a kernel whose cells show widgets."""
    marimo: Any = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return True
    python: Any = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


def widget_module() -> str:
    """The module of a cell: three.js, the scene, and what joins them to the notebook."""
    return "\n".join(asset_text(name) for name in (*SCENE_SCRIPTS, "widget.js"))


@cache
def _widget_class() -> Any:
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise InputError(
            "in a notebook pp.show needs anywidget, which is not installed:\n"
            "    pip install 'phipsi[notebook]'\n"
            "In the browser it needs nothing:  pp.show(mechanism, notebook=False)"
        ) from error

    class ViewerWidget(anywidget.AnyWidget):
        """A cell that shows a mechanism and follows `set`."""

        _esm = widget_module()
        scene = traitlets.Dict().tag(sync=True)
        poses = traitlets.Bytes().tag(sync=True)
        q = traitlets.List().tag(sync=True)  # where poses alone do not say what is drawn
        height = traitlets.Int(420).tag(sync=True)
        picture = traitlets.Unicode().tag(sync=True)  # the name of the element with the picture
        _closed = False

        def __init__(self, mechanism: Any, scene: dict[str, Any], q: ArrayLike) -> None:
            model = mechanism.model
            self._mechanism, self._model = mechanism, model
            self._q = one_configuration(model, q)
            self._by_coordinates = draws_coordinates(model, scene)
            places = one_configuration(model, q).tolist() if self._by_coordinates else []
            name, poses = f"phipsi-{secrets.token_hex(8)}", poses_of(model, q).tobytes()
            super().__init__(scene=scene, q=places, poses=poses, picture=name)

        def still(self) -> str:
            """A picture as HTML, which stays where widgets do not run, as in an exported page."""
            picture = picture_of(self._mechanism, self._q)
            return f'<div class="phipsi" id="{self.picture}">{picture}</div>'

        def _ipython_display_(self) -> None:
            """The widget, and below it the picture, which the widget hides when it draws."""
            from IPython.display import display

            shown: Any = self._repr_mimebundle_()
            data, metadata = shown if isinstance(shown, tuple) else (shown, {})
            display(data, metadata=metadata, raw=True)
            display({"text/html": self.still(), "text/plain": ""}, raw=True)

        def set(self, q: ArrayLike) -> None:
            """Show a configuration (nq,)."""
            if self._closed:
                raise InputError(_CLOSED)
            self._q = one_configuration(self._model, q)
            poses = poses_of(self._model, q).tobytes()
            if self._by_coordinates:
                self.q = one_configuration(self._model, q).tolist()
            self.poses = poses

        def close(self) -> None:
            """Remove it from the notebook."""
            self._closed = True
            super().close()

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

    return ViewerWidget
