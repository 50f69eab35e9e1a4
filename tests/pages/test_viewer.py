"""`pp.show`: a page that follows a program, and a cell of a notebook."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import numpy as np
import pytest
from browser_pages import ROUGH, drawn
from known_systems import four_bar
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.errors import InputError
from phipsi.pages import viewer as viewing
from phipsi.pages.scene import scene_description


@pytest.fixture
def arm() -> pp.Model:
    return pp.examples.planar_arm(2)


def ask(viewer: Any, seen: Any, *, host: str | None = None, path: str = "ask") -> dict[str, Any]:
    request = urllib.request.Request(
        viewer.address + path,
        json.dumps({"seen": seen}).encode(),
        {"Content-Type": "application/json"} | ({"Host": host} if host else {}),
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


def test_a_page_gets_the_newest_configuration(arm):
    with pp.show(arm, open=False) as viewer:
        first = ask(viewer, -1)
        viewer.set([0.3, 0.1])
        viewer.set([0.3, -0.2], "third")
        now = ask(viewer, first["number"])
        assert (now["number"], now["text"]) == (2, "third")
    X = pp.poses(arm, [0.3, -0.2])
    poses = np.array(now["poses"]).reshape(-1, 12)
    assert_allclose(poses[:, :9].reshape(-1, 3, 3), X[:, :3, :3])
    assert_allclose(poses[:, 9:], X[:, :3, 3])


def test_a_page_of_bodies_that_deform_gets_their_modes():
    builder = pp.ModelBuilder()
    beam = pp.FlexibleInertia.beam(1.0, 1.0, 2.0, modes=0)
    builder.add_body("boom", inertia=beam)
    with pp.show(builder.build(), open=False) as viewer:
        viewer.set([0.3, 0.01, 0.02, 0.0, -0.01])
        assert ask(viewer, 0)["q"] == [0.3, 0.01, 0.02, 0.0, -0.01]


def test_only_this_machine_with_the_token_is_answered(arm):
    with pp.show(arm, open=False) as viewer:
        for host, code in (("evil.example", 421), (None, 200)):
            try:
                ask(viewer, -1, host=host)
                found = 200
            except urllib.error.HTTPError as error:
                found = error.code
            assert found == code
        root = viewer.address.rsplit("/", 2)[0]
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(root + "/guess/", timeout=5)
        with urllib.request.urlopen(viewer.address, timeout=5) as page:
            policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "connect-src 'self'" in policy


def test_configurations_that_do_not_fit_are_rejected(arm):
    with pp.show(arm, open=False) as viewer:
        with pytest.raises(InputError, match="q has shape"):
            viewer.set([0.1, 0.2, 0.3])
        with pytest.raises(InputError, match="one configuration"):
            viewer.set(np.zeros((3, 2)))
    run = pp.simulate(arm, [0.1, 0.2], [0.0, 0.0], 0.01)
    with pytest.raises(InputError, match=r"this is a trajectory.*\n    pp\.report\(run,"):
        pp.show(run)


def test_a_closed_viewer_says_so(arm):
    viewer = pp.show(arm, open=False)
    viewer.close()
    with pytest.raises(InputError, match="this viewer is closed"):
        viewer.set([0.1, 0.2])


def test_the_floor_is_below_all_that_the_arm_reaches(monkeypatch):
    arm = pp.examples.seven_joint_arm()
    scenes: list[dict[str, Any]] = []
    monkeypatch.setattr(viewing, "Viewer", lambda model, scene, q, **_: scenes.append(scene))
    pp.show(arm, np.zeros(7))
    (scene,) = scenes
    stretched = np.outer(np.linspace(0, 2, 20), np.eye(7)[1])  # about the shoulder
    poses = pp.poses(arm, np.vstack([stretched, arm.random_configuration(1, (50,))]))
    low, high = poses[..., 2, 3].min(), poses[..., 2, 3].max()
    assert high - low > 1.0 and scene["floor"] < low
    still = scene_description(arm, q=np.zeros(7))
    assert still["floor"] > low  # of the first configuration alone


def test_the_page_moves_and_says_when_the_program_has_ended(browser, arm):
    tab = browser.new_page(viewport={"width": 500, "height": 400}, **ROUGH)
    failed: list[str] = []
    tab.on("pageerror", lambda e: failed.append(str(e)))
    with pp.show(arm, open=False, title="<i>arm</i>") as viewer:
        tab.goto(viewer.address)
        tab.wait_for_selector("#controls", state="hidden")  # no bar without a text
        viewer.set([0.7, 0.2], "here")
        tab.wait_for_selector("#said:text('here')")
        poses = np.array(tab.evaluate("[...page.poses]")).reshape(-1, 12)
        assert_allclose(poses[1, 9:], pp.poses(arm, [0.7, 0.2])[1, :3, 3])
        assert tab.inner_text("h1") == "<i>arm</i>"
    tab.wait_for_selector("#said:text('has ended')")
    tab.close()
    assert not failed


_CELL = """<!doctype html><meta charset="utf-8"><div id="cell"></div><script type="module">
import widget from "./widget.mjs";
const values = VALUES, listeners = [];
const bytes = (list) => new DataView(Float64Array.from(list).buffer);
values.poses = bytes(values.poses);
const model = {
  get: (name) => values[name], on: (_, f) => listeners.push(f), off: (_, f) => listeners.splice(0),
};
globalThis.move = (poses) => { values.poses = bytes(poses); listeners.forEach((f) => f()); };
document.getElementById("cell").insertAdjacentHTML("afterend", values.still);
globalThis.leave = widget.render({ model, el: document.getElementById("cell") });
document.body.dataset.ready = "yes";
</script>"""


def test_a_cell_of_a_notebook(browser):
    pytest.importorskip("anywidget")
    system = four_bar()
    cell: Any = pp.show(system, notebook=True)
    assert "PhipsiScene" in cell._esm and cell.scene["bodies"][0]["name"] == "crank"
    before = cell.poses
    cell.set(system.assemble([1.0, -0.9, -1.5], restarts=20))
    assert len(cell.poses) == 8 * 12 * 3 and cell.poses != before
    poses = np.frombuffer(cell.poses).tolist()
    values = {"scene": cell.scene, "height": 200, "poses": np.frombuffer(before).tolist()}
    values |= {"picture": cell.picture, "still": cell.still()}
    files = {
        "/": _CELL.replace("VALUES", json.dumps(values)),
        "/widget.mjs": viewing.widget_module(),
    }

    def answer(route: Any) -> None:
        path = route.request.url.removeprefix("http://cell.example")
        kind = "text/javascript" if path.endswith("mjs") else "text/html"
        route.fulfill(body=files[path], content_type=kind)

    tab = browser.new_page(viewport={"width": 400, "height": 300}, **ROUGH)
    failed: list[str] = []
    tab.on("pageerror", lambda e: failed.append(str(e)))
    tab.route("http://cell.example/**", answer)
    tab.goto("http://cell.example/")
    tab.wait_for_selector("body[data-ready]")
    shots = [tab.screenshot()]
    tab.evaluate("poses => move(poses)", poses)
    drawn(tab)
    shots.append(tab.screenshot())
    assert tab.is_hidden(f"#{cell.picture}")  # the picture for pages without widgets
    tab.evaluate("leave()")
    tab.close()
    cell.close()
    with pytest.raises(InputError, match="this viewer is closed"):
        cell.set(system.neutral())
    assert not failed and shots[0] != shots[1]


def test_a_cell_leaves_a_picture_where_no_widget_runs(monkeypatch: pytest.MonkeyPatch):
    """An exported notebook has the mechanism as it was shown, which a running widget hides."""
    pytest.importorskip("anywidget")
    display = pytest.importorskip("IPython.display")
    outputs: list[dict[str, Any]] = []
    monkeypatch.setattr(display, "display", lambda data, **_: outputs.append(data))
    system = four_bar()
    with pp.show(system, notebook=True) as cell:
        first = cell.still()
        cell.set(system.assemble([1.0, -0.9, -1.5], restarts=20))
        cell._ipython_display_()
        widget, picture = outputs
        assert "application/vnd.jupyter.widget-view+json" in widget
        html = picture["text/html"]
        assert html == cell.still() != first and "<svg" in html and "script" not in html
        assert f'id="{cell.picture}"' in html and 'model.get("picture")' in cell._esm


def test_outside_a_notebook_it_is_a_page():
    assert not viewing.in_notebook()
