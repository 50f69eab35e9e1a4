"""The page in a browser: overlays, facts, themes, touch, and names that would like to do harm."""

import base64
import io
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_pages import ROUGH, drawn, hear, until

import phipsi as pp
from phipsi.pages.html_file import page_html
from phipsi.pages.scene import scene_description
from phipsi.simulation.forces.force import bind_forces

HOSTILE = [
    "</script><script>window.hit=1</script>",
    "<img src=x onerror=window.hit=2>",
    '"><svg onload=window.hit=3>',
    "{{data}}\u2028<!--",
]


@pytest.fixture(scope="module")
def arm_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A swinging arm of two links on a string, whose force is an arrow."""
    arm = pp.examples.planar_arm(2)
    string = pp.constraints.Distance(1.0, name="string", a="tip", b=("world", (2.0, 1.0, 0)))
    run = pp.simulate(pp.System(arm, [string]), [0.0, 0.0], [0.0, 0.0], 0.3)
    return run.to_html(tmp_path_factory.mktemp("page") / "arm.html", title="Arm")


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bodies, joints and frames with names that are markup, and a title that is."""
    builder = pp.ModelBuilder()
    parent = "world"
    for name in HOSTILE:
        inertia = pp.SpatialInertia(1.0, (0.5, 0, 0), 0.1)
        place = pp.Pose(None, (1.0 if parent != "world" else 0.0, 0, 0))
        joint = pp.joints.Revolute((0, 1, 0))
        builder.add_body(name, parent=parent, joint=joint, placement=place, inertia=inertia)
        parent = name
    scene = scene_description(builder.build())
    scene["notices"] = [HOSTILE[1]]
    text = page_html(HOSTILE[0], {"subtitle": HOSTILE[1], "footer": HOSTILE[2],
                                  "data": {"scene": scene}})  # fmt: skip
    path = tmp_path_factory.mktemp("page") / "hostile.html"
    path.write_text(text, encoding="utf-8")
    return path


class Tab:
    """A page that is open, with what it said and asked for."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        usual = {"viewport": {"width": 460, "height": 560}, "color_scheme": "dark",
                 "reduced_motion": "reduce", **ROUGH}  # fmt: skip
        self.page = browser.new_page(**{**usual, **options})
        self.told: list[str] = []
        self.requests: list[str] = []
        hear(self.page, self.told)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.path = path

    def run(self, text: str, *arguments: Any) -> Any:
        return self.page.evaluate(text, *arguments)

    def picture(self) -> np.ndarray:
        """What the scene shows (labels are not in it), from 0 to 1."""
        import matplotlib.image

        text = self.run("page.scene.snapshot()").partition(",")[2]
        return matplotlib.image.imread(io.BytesIO(base64.b64decode(text)), format="png")

    def spot(self, body: int) -> tuple[float, float]:
        """Where the mass centre of a body is on the screen."""
        x, y, width, height, left, top = self.run(
            """k => { const s = page.scene, box = s.canvas.getBoundingClientRect(); s.render();
            const p = new THREE.Vector3(...data.scene.bodies[k].com);
            p.applyMatrix4(s.bodies[k].matrixWorld).project(s.camera);
            return [p.x, p.y, box.width, box.height, box.left, box.top]; }""",
            body,
        )
        return left + (x + 1) / 2 * width, top + (1 - y) / 2 * height

    def close(self) -> None:
        """Nothing was said, and nothing but the page itself was asked for."""
        assert self.told == []
        assert self.requests == [self.path.as_uri()]
        self.page.close()


@pytest.fixture(scope="module")
def open_arm(browser: Any, arm_page: Path) -> Iterator[Tab]:
    """One tab for most tests: opening a page costs more than looking at it."""
    tab = Tab(browser, arm_page)
    yield tab
    tab.close()


@pytest.fixture
def arm(open_arm: Tab) -> Tab:
    open_arm.run("() => { page.scene.onDrag = null; page.pick(null); clock.set(0.15); }")
    return open_arm


def test_overlays_follow_their_keys(arm: Tab):
    tab = arm
    before = tab.picture()
    for key, name in zip("bspofaci", ("bodies", "shadows", "paths", "forces", "frames", "axes",
                                      "centreOfMass", "inertia"), strict=True):  # fmt: skip
        was = tab.run("name => page.scene.shown[name]", name)
        tab.page.keyboard.press(key)
        assert tab.run("name => page.scene.shown[name]", name) is not was
        button = tab.page.locator(f"#show-{name}")
        assert button.get_attribute("aria-pressed") == str(not was).lower()
        if name != "paths":  # nothing moves on the string
            assert np.abs(tab.picture() - before).max() > 0.15, name
        tab.page.keyboard.press(key)
    np.testing.assert_allclose(tab.picture(), before, atol=0.02)
    tab.page.keyboard.press("n")
    tab.run("page.scene.render()")
    labels = tab.page.locator(".labels span:visible")
    assert labels.all_text_contents() == ["link1", "link2", "string"]
    violet = tab.picture()
    assert ((violet[..., 2] > 0.6) & (violet[..., 1] < 0.6)).sum() > 30  # the string pulls
    tab.page.keyboard.press("?")
    assert (
        tab.page.locator("#help").is_visible()
        and "inertia ellipsoids" in tab.page.locator("#keys").inner_text()
    )
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("n")


def test_shadows_follow_what_moves_and_are_kept_while_the_view_turns(arm: Tab):
    """Pictures with a map of shadows that was kept, and with one that is drawn again."""
    again = "(page.scene.renderer.shadowMap.needsUpdate = true, page.scene.snapshot())"
    first = arm.run("page.scene.snapshot()")
    lost = """(() => { const { shadow } = page.scene.sun;
        shadow.map.dispose(); shadow.map = null; return page.scene.snapshot(); })()"""
    arm.run("page.scene.turn(0.4, 0.1)")
    turned = arm.run("page.scene.snapshot()")
    assert turned != first and turned == arm.run(again)
    arm.run("page.scene.setPoses(page.poses.map((x) => -x))")
    moved = arm.run("page.scene.snapshot()")
    assert moved != turned and moved == arm.run(again)
    assert arm.run(lost) != moved  # the twin: a map that is lost is missed
    arm.run("page.scene.home()")


def test_the_menu_is_reached_by_keys(arm: Tab):
    tab, focused = arm.page, "document.activeElement.id"
    tab.focus("#show-button")
    for key, where in (
        ("Enter", "show-button"), ("Tab", "show-bodies"), ("ArrowDown", "show-shadows"),
        ("ArrowUp", "show-bodies"), ("ArrowUp", "show-labels"), ("Tab", "home"),
        ("Shift+Tab", "show-labels"), ("Escape", "show-button"), ("Tab", "home"),
    ):  # fmt: skip
        tab.keyboard.press(key)
        assert tab.evaluate(focused) == where, key
    assert not tab.is_visible("#show-menu")


def test_a_picked_body_shows_its_facts(arm: Tab):
    tab = arm
    assert not tab.page.locator("#facts").is_visible()
    tab.page.mouse.click(*tab.spot(1))
    facts = tab.page.locator("#facts")
    assert facts.locator("h2").inner_text() == "link2"
    text = facts.inner_text()
    assert "1.000 kg" in text and "joint2 (revolute), parent link1" in text
    tables = facts.locator("table").all()
    assert [len(t.locator("tr").all()) for t in tables] == [3, 6, 1, 6]  # rotation, P, D, G
    arm = pp.examples.planar_arm(2)
    inertia = arm.inertia_matrices[1]
    row = tables[1].locator("tr").nth(5).locator("td").all_text_contents()
    shown = [float(x.replace("−", "-")) for x in row]
    np.testing.assert_allclose(shown, inertia[5], rtol=1e-3, atol=1e-6)  # P of the tip is M
    tab.page.keyboard.press("k")
    assert facts.locator("h2").inner_text() == "link1"
    tab.page.keyboard.press("Escape")
    assert not facts.is_visible()


def test_time_steps_and_slow_motion(arm: Tab):
    tab = arm
    tab.run("clock.set(0)")
    frames = tab.run("Array.from(run.times)")
    for _ in range(3):
        tab.page.keyboard.press(".")
    assert tab.run("clock.now") == frames[3]
    tab.page.keyboard.press(",")
    assert tab.run("clock.now") == frames[2]
    tab.page.locator("#forth").click()
    assert tab.run("clock.now") == frames[3]
    tab.page.keyboard.press("<")
    assert tab.run("Number(speed.value)") == 0.5
    tab.page.keyboard.press("0")
    assert tab.run("clock.now") == 0


def test_the_focus_is_seen_and_legends_say_what_is_hidden(arm: Tab):
    page = arm.page
    page.focus("#theme")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "view"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for pressed in ("true", "false", "true"):
        assert page.get_attribute(".legend button >> nth=0", "aria-pressed") == pressed
        page.click(".legend button >> nth=0")
    page.click(".legend button >> nth=0")


def test_without_javascript_the_page_says_what_it_needs(browser: Any, arm_page: Path):
    page = browser.new_page(java_script_enabled=False)
    page.goto(arm_page.as_uri())
    assert "needs JavaScript" in page.inner_text("noscript")
    page.close()


def test_light_and_dark(arm: Tab):
    tab = arm
    theme = "document.documentElement.dataset.theme"
    back = "getComputedStyle(document.documentElement).backgroundColor"
    assert tab.run(theme) == "dark"
    dark, floor = tab.run(back), tab.picture()
    tab.page.keyboard.press("t")
    assert tab.run(theme) == "light" and tab.run(back) != dark
    assert np.abs(tab.picture() - floor).max() > 0.15
    tab.page.locator("#theme").click()
    assert tab.run(theme) == "dark" and tab.run(back) == dark
    tab.page.emulate_media(color_scheme="light")
    until(tab.page, theme + " === 'light'")
    tab.page.emulate_media(color_scheme="dark")
    until(tab.page, theme + " === 'dark'")


def test_names_are_text_whatever_they_are(browser: Any, hostile_page: Path):
    tab = Tab(browser, hostile_page)
    until(tab.page, "page.scene !== null")
    tab.page.keyboard.press("n")
    tab.run("page.scene.render()")
    labels = tab.page.locator(".labels span").all_text_contents()
    assert labels == HOSTILE
    for name in HOSTILE:
        tab.page.keyboard.press("j")
        assert tab.page.locator("#facts h2").text_content() == name
    assert tab.page.locator("#notices p").inner_text() == HOSTILE[1]
    notices, stage = (tab.page.locator(x).bounding_box() for x in ("#notices", "#stage"))
    assert notices["y"] + notices["height"] <= stage["y"]  # the scene is not covered
    tab.page.click("#notices button")
    assert tab.page.is_hidden("#notices")
    assert "<script>window" in tab.page.title()
    drawn(tab.page)
    assert tab.run("window.hit") is None
    tab.close()


def test_it_fits_a_phone_and_answers_to_fingers(browser: Any, arm_page: Path):
    phone = {"width": 390, "height": 720}
    tab = Tab(browser, arm_page, viewport=phone, has_touch=True, is_mobile=True)
    tab.run("() => { clock.set(0.15); }")
    assert tab.run("document.documentElement.scrollWidth") <= 390
    tab.page.touchscreen.tap(*tab.spot(0))
    assert tab.page.locator("#facts h2").inner_text() == "link1"
    panel, controls = (tab.page.locator(x).bounding_box() for x in ("#facts", "#controls"))
    assert panel["y"] + panel["height"] <= controls["y"]  # the controls stay free
    tab.close()


def test_dragging_gives_points_of_the_world(arm: Tab):
    tab = arm
    tab.run("""() => { clock.set(0.15); window.seen = [];
        page.scene.onDrag = { start: (...x) => { seen.push(["start", ...x]); },
            move: (x) => { seen.push(["move", x]); }, end: () => { seen.push(["end"]); } }; }""")
    x, y = tab.spot(1)
    view = tab.run("page.scene.view.turn")
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + 40, y)
    tab.page.mouse.move(x + 40, y - 30)
    tab.page.mouse.up()
    seen = tab.run("seen")
    assert [s[0] for s in seen] == ["start", "move", "move", "end"] and seen[0][1] == "link2"
    pose = np.array(tab.run("Array.from(page.poses.subarray(12, 24))"))
    here = pose[:9].reshape(3, 3) @ seen[0][2] + pose[9:]
    np.testing.assert_allclose(here, seen[0][3], atol=1e-5)
    up, away = np.array([0, 1.0, 0]), np.array(seen[2][1]) - np.array(seen[1][1])
    assert away @ up > 0.95 * np.linalg.norm(away) * np.cos(0.3)  # gravity is along −y
    assert tab.run("page.scene.view.turn") == view and not tab.page.locator("#facts").is_visible()
    tab.page.mouse.click(x, y)
    assert tab.run("seen.length") == 6  # a click takes hold and lets go, and picks
    assert tab.page.locator("#facts").is_visible()


def test_flexible_bodies_bend(browser: Any, tmp_path: Path):
    builder = pp.ModelBuilder()
    beam = pp.FlexibleInertia.beam(1.0, 1.0, 2.0, modes=1)
    builder.add_body("boom", joint=pp.joints.Revolute((0, 1, 0)), inertia=beam)
    boom = builder.build()
    q = np.zeros((2, boom.nq))
    q[1] = np.linspace(0.06, 0.02, boom.nq)
    run = pp.Trajectory(boom, np.array([0.0, 1.0]), q, 0 * q, 0 * q)
    tab = Tab(browser, run.to_html(tmp_path / "boom.html"))
    tab.run("clock.set(1.0)")
    end = tab.run("""() => { const b = page.scene.deformation.bodies[0];
        const at = b.mesh.geometry.attributes.position;
        const out = [0, 0, 0]; let n = 0; // the middle of the last ring
        b.from.forEach((node, c) => { if (3 * node + 3 === b.nodes.length) { n++;
            ["getX", "getY", "getZ"].forEach((get, i) => { out[i] += at[get](c); }); } });
        return out.map((x) => x / n); }""")
    eta = q[1, -boom.modes[0] :]
    np.testing.assert_allclose(end, beam.port_pose("tip", eta).translation, atol=3e-3)
    short = beam.shape.deformed(eta)[-1, 0] - end[0]
    assert short > 0.02  # a bent beam is shorter
    assert abs(end[1]) + abs(end[2]) > 0.05  # it is bent
    joint = tab.run("data.scene.bodies[0].joint")
    assert joint["kind"] == "revolute" and joint["axes"] == [{"axis": [0, 1, 0], "turns": True}]
    tab.close()


def arm_with_ports() -> pp.Model:
    """A beam, a beam on its tip, and a ball on the tip of that."""
    builder = pp.ModelBuilder()
    beam = pp.FlexibleInertia.beam(1.0, 1.0, 2.0, modes=0, stiffening=False)
    builder.add_body("first", joint=pp.joints.Revolute((0, 1, 0)), inertia=beam)
    builder.add_body("second", parent="first", port="tip", inertia=beam)
    ball = pp.SpatialInertia.sphere(0.1, mass=1.0)
    builder.add_body("ball", parent="second", port="tip", joint=pp.joints.Fixed(), inertia=ball)
    return builder.build()


def test_exaggeration_carries_what_sits_on_ports(browser: Any, tmp_path: Path):
    """Drawn poses are those of the mechanism with larger modes; without a second order, exactly."""
    model = arm_with_ports()
    q = 0.01 * np.random.default_rng(3).standard_normal((1, model.nq)) + 0.002
    q[0, [0, 5]] = 0.4, -0.7
    run = pp.Trajectory(model, np.array([0.0]), q, 0 * q, 0 * q)
    tab = Tab(browser, run.to_html(tmp_path / "ports.html"))
    drawn = """(factor) => { page.exaggerate(factor); page.scene.render();
        return page.scene.bodies.map((b) => b.matrix.clone().transpose().toArray()); }"""
    true = pp.poses(model, q[0])
    np.testing.assert_allclose(np.reshape(tab.run(drawn, 1), (-1, 4, 4)), true, atol=1e-6)
    larger = q[0].copy()
    larger[1:5] *= 8
    larger[6:] *= 8
    expected = pp.poses(model, larger)
    found = np.reshape(tab.run(drawn, 8), (-1, 4, 4))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(true - expected).max() > 0.2
    np.testing.assert_allclose(np.reshape(tab.run(drawn, 1), (-1, 4, 4)), true, atol=1e-6)
    assert tab.run("data.scene.ports.map((p) => p.body)") == [1, 2]
    tab.page.evaluate("() => { const r = page.element('exaggeration'); r.value = 1; "
                      "r.dispatchEvent(new Event('input')); }")  # fmt: skip
    assert tab.run("page.scene.deformation.factor") == 10
    assert tab.page.inner_text("#exaggeration-number") == "× 10"
    tab.close()


def test_modes_in_motion(browser: Any, tmp_path: Path):
    model = arm_with_ports()
    found = pp.mode_shapes(model.with_gravity((0, 0, 0)))
    tab = Tab(browser, found.to_html(tmp_path / "modes.html"))
    assert tab.run("data.vibrations.length") == model.nv
    rows = tab.page.locator("#modes tr[data-mode]")
    rows.nth(3).click()
    assert f"{found.frequencies[3] / (2 * np.pi):.4g} Hz" in tab.page.inner_text("#clock")
    assert rows.nth(3).get_attribute("class") == "on"
    tab.run("() => { vibration.amplitude = 0.5; vibration.phase = 0.25; vibration.update(); }")
    poses = np.reshape(tab.run("[...page.poses]"), (-1, 12))
    eta = tab.run("page.scene.deformation.bodies.map((b) => [...b.eta])")
    x = found.shapes[:, 3]
    scale = eta[0][0] / x[1]
    expected = pp.poses(model, model.integrate(found.q, scale * x))
    np.testing.assert_allclose(poses[:, 9:], expected[:, :3, 3], atol=2e-4)
    np.testing.assert_allclose(eta[1], scale * x[6:10], rtol=1e-4, atol=1e-7)
    assert 0.01 < np.linalg.norm(poses[2, 9:] - pp.poses(model, found.q)[2, :3, 3]) < 0.2
    tab.page.keyboard.press(".")
    assert "mode 5" in tab.page.inner_text("#clock")
    assert not tab.told and not tab.run("vibration.playing")
    tab.close()


def test_links_follow_their_joints_and_coils_twist(browser: Any, tmp_path: Path):
    """The far end of a coil is fixed in the other body; rods end at joints; a pointer tells."""
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    hinge, wheel = pp.joints.Revolute((1, 0, 0)), pp.SpatialInertia(1.0, (0, 0, 0), 0.01)
    for name, place in (("rotor", (0, 0, 0)), ("link", (0.5, 0, 0)), ("far", (0.3, 0.9, 0.4))):
        builder.add_body(name, joint=hinge, placement=pp.Pose(None, place), inertia=wheel)
    model = builder.build()
    names = "rotor", "link", "far"
    mix = pp.constraints.Coupling(name="mix", joints=names, coefficients=(1, 2, -1), offset=0.1)
    shaft = pp.forces.ElasticCoupling(("rotor", "link"), (1, -1), stiffness=20.0)
    q = np.array([[0.3, 0.1, 0.4], [0.5, -0.7, 1.0]])  # the second is 2 off the relation
    run = pp.Trajectory(
        model, np.array([0.0, 1.0]), q, 0 * q, 0 * q, system=pp.System(model, [mix]),
        elements=bind_forces([shaft], model),
    )  # fmt: skip
    small = {"viewport": {"width": 300, "height": 300}}
    tab = Tab(browser, run.to_html(tmp_path / "links.html"), **small)
    ends = []
    for t, at in zip((0.0, 1.0), q, strict=True):
        tab.run(f"() => {{ clock.set({t}); page.scene.render(); }}")
        residual, twist = tab.run("page.scene.links.values")
        np.testing.assert_allclose(residual, [at @ [1, 2, -1] - 0.1], atol=1e-6)
        np.testing.assert_allclose(twist, [at[0] - at[1]], atol=1e-6)
        ends.append(
            tab.run("""() => { const s = page.scene, [coil] = s.links.coils;
            const at = coil.mesh.geometry.attributes.position, out = [];
            for (const last of [false, true]) {
                const z = Array.from({ length: at.count }, (_, i) => coil.position[3 * i + 2]);
                const i = z.indexOf(last ? Math.max(...z) : Math.min(...z));
                const p = new THREE.Vector3().fromBufferAttribute(at, i);
                p.applyMatrix4(coil.mesh.matrixWorld);
                out.push(p.applyMatrix4(s.bodies[+last].matrixWorld.clone().invert()).toArray());
            } return out; }""")
        )
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)  # in the rotor, and in the link
    assert np.hypot(*ends[0][1][1:]) * abs(q[1, 0] - q[1, 1] - 0.2) > 0.05  # the twin: a stiff coil
    feet = tab.run("""() => { const m = new THREE.Matrix4(), p = new THREE.Vector3();
        return page.scene.links.rods.map((_, i) => {
            page.scene.links.sticks.getMatrixAt(i, m);
            return p.setFromMatrixPosition(m).toArray(); }); }""")
    np.testing.assert_allclose(feet, [[0, 0, 0], [0.5, 0, 0], [0.3, 0.9, 0.4]], atol=1e-6)
    said = tab.run("""() => { const s = page.scene, { links } = s, [m] = links.machines;
        const box = s.canvas.getBoundingClientRect(), p = links._knot(m, links._ends(m));
        p.applyMatrix4(s.upright).project(s.camera);
        const x = box.left + (p.x + 1) / 2 * box.width, y = box.top + (1 - p.y) / 2 * box.height;
        const shown = page.element("machine"), move = (clientX, clientY) => {
            s.canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY }));
            return shown.hidden ? "" : shown.innerText; };
        return [move(x, y), move(box.left + 2, box.top + 2)]; }""")
    assert "coupling: mix" in said[0] and "1 rotor + 2 link − 1 far = 0.1" in said[0]
    assert "residual: −2.000" in said[0] and not said[1]
    tab.run("() => { page.exaggerate(10); page.scene.render(); }")  # shafts that hardly twist
    np.testing.assert_allclose(tab.run("page.scene.links.coils[0].now"), -12.0, rtol=1e-5)
    tab.run("() => { page.show('labels', true); page.scene.render(); }")
    names = tab.run("""() => page.scene.marks.filter(x => !x.hidden).map(x => {
        const { left, right, top, bottom } = x.getBoundingClientRect();
        return [x.textContent, left, right, top, bottom]; })""")
    assert {x[0] for x in names} >= {"rotor", "mix"}  # both at one place: one below the other
    for a, b in combinations(names, 2):
        assert a[2] <= b[1] or b[2] <= a[1] or a[4] <= b[3] or b[4] <= a[3], (a, b)
    tab.close()
