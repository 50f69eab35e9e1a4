"""Live pages in a real browser without a network: sliders, a hand, loops, bits of a rollout."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_pages import ROUGH, drawn, rough_shadows, until
from known_systems import four_bar
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.cli.commands import app
from phipsi.errors import InputError
from phipsi.pages.live_page import _driven_rates, live_page, live_parts

HOSTILE = '</script><img src=x onerror="window.hurt = 1"><b>\'{{title}}'


REST = [1.0, 0, 0, 0, 0, 0, 0.05]
TITLES = {"box": None}


@pp.law
def hold(q, kp):
    return {"tau": -kp * q, "energy": 0.5 * kp * (q @ q)}


@pp.law
def brake(v, many):
    return -1e-3 * many.sum() * v


@pp.law
def drag(v, each):
    return -each * v


@cache
def bent_four_bar() -> pp.System:
    """A four-bar whose coupler deforms: five rates."""
    builder, hinge = pp.ModelBuilder(gravity=(0, -9.81, 0)), pp.joints.Revolute((0, 0, 1))
    rods = [pp.SpatialInertia(1.0, (x / 2, 0, 0), x**2 / 12) for x in (0.5, 1.0)]
    builder.add_body("crank", joint=hinge, inertia=rods[0])
    beam = pp.FlexibleInertia.beam(1.2, 1.0, EI=(30.0, np.inf), modes=0, rotary_inertia=1e-3)
    away = pp.Pose(translation=(0.5, 0, 0))
    builder.add_body("coupler", parent="crank", joint=hinge, placement=away, inertia=beam)
    builder.add_body("rocker", parent="coupler", port="tip", joint=hinge, inertia=rods[1])
    ends = {"a": ("rocker", (1.0, 0, 0)), "b": ("world", (1.1, 0, 0))}
    pin = pp.constraints.Revolute((0, 0, 1), name="pin", **ends)
    return pp.System(builder.build(), [pin])


@cache
def simulator(name: str) -> pp.Simulator:
    if name == "bent":
        laws = [drag.bind(each=np.array([0.1, 0.2, 0.0, 0.0, 0.3]))]
        return pp.Simulator(bent_four_bar(), laws, reproducible=True)
    if name == "box":
        builder = pp.ModelBuilder()
        inertia = pp.SpatialInertia(2.0, (0.0, 0.03, 0.0), np.diag([0.01, 0.01, 0.01]))
        builder.add_body("box", joint=pp.joints.Free(), inertia=inertia)
        builder.add_shape("box", "box", pp.shapes.Box((0.2, 0.2, 0.1)))
        model = builder.build()
        system = pp.System(model, contacts=pp.Contacts(model, ground=True))
        return pp.Simulator(system, dt=2e-3, integrator="time_stepping", reproducible=True)
    if name == "loop":
        return pp.Simulator(four_bar(), [brake.bind(many=np.arange(30.0))], reproducible=True)
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    parent = "world"
    for i, body in enumerate((HOSTILE, "lower")):
        builder.add_body(
            body,
            parent=parent,
            joint=pp.joints.Revolute((0, 0, 1)),
            joint_name=f"hinge {i} {HOSTILE}",
            limits=None if i else (-3.0, np.inf),
            placement=pp.Pose(translation=(0.5 * i, 0, 0)),
            inertia=pp.SpatialInertia(1.0, (0.25, 0, 0), np.diag([1e-3, 0.03, 0.03])),
        )
        parent = body
    return pp.Simulator(builder.build(), [hold.bind(kp=0.3)], reproducible=True)


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    starts = {"arm": [0.3, -0.2], "loop": None, "box": REST, "bent": None}
    found = {
        n: live_page(
            simulator(n), folder / f"{n}.html", q=q, play=False, title=TITLES.get(n, HOSTILE)
        )
        for n, q in starts.items()
    }
    sim = simulator("arm")
    run = sim.rollout(sim.initial_state([0.3, -0.2]), steps=400, record_every=10).trajectory()
    return {**found, "recorded": run.to_html(folder / "recorded.html", title=HOSTILE, live=sim)}


@pytest.fixture(scope="module")
def opened(browser, pages):
    """Opens pages with the network cut; in the end nothing was asked for, and nothing failed."""
    size = {"width": 920, "height": 480}
    context = browser.new_context(offline=True, viewport=size, **ROUGH)
    context.set_default_timeout(120_000)
    asked: list[str] = []
    failed: list[str] = []

    @cache
    def tab_of(name: str) -> Any:
        tab = context.new_page()
        tab.on("request", lambda r: asked.append(r.url))
        tab.on("pageerror", lambda e: failed.append(str(e)))
        tab.on("console", lambda m: failed.append(m.text) if m.type == "error" else None)
        tab.goto(pages[name].as_uri())
        tab.wait_for_selector("#live[data-ready]", state="attached")
        rough_shadows(tab)
        return tab

    def open_page(name: str) -> Any:
        tab = tab_of(name)
        tab.bring_to_front()
        if name != "recorded":
            tab.evaluate("page.live.set(false); page.live.reset(); page.pick(null); scrollTo(0, 0)")
        return tab

    yield open_page
    context.close()
    assert not failed
    assert set(asked) <= {path.as_uri() for path in pages.values()}


def test_500_steps_on_the_page_have_the_bits_of_a_rollout(opened, pages):
    tab = opened("arm")
    sim = simulator("arm")
    run = sim.rollout(sim.initial_state([0.3, -0.2]), steps=500, record_every=500)
    found = tab.evaluate(
        """() => { for (let i = 0; i < 500; i++) page.live.advance(1);
        const v = page.live.physics.values; return [[...v.q], [...v.v], v.t[0], v.step[0]]; }"""
    )
    assert_array_equal(found[0], run.q[-1])
    assert_array_equal(found[1], run.v[-1])
    assert found[2:] == [run.t[-1], 500]


def test_sliders_move_bodies_and_names_are_only_text(opened):
    tab = opened("arm")
    assert tab.evaluate("window.hurt") is None and not tab.query_selector("img")
    assert HOSTILE in tab.inner_text("#live .row >> nth=0")
    assert HOSTILE in tab.inner_text("h1") or "img src" in tab.inner_text("h1")
    sliders = tab.query_selector_all("#live .row input[type=range]")
    for event in ("input", "change"):
        sliders[1].evaluate(f"x => {{ x.value = 1; x.dispatchEvent(new Event('{event}')); }}")
    poses = np.array(tab.evaluate("[...page.poses]")).reshape(-1, 12)
    X = pp.poses(simulator("arm").model, [0.3, 1.0])
    assert_allclose(poses[:, :9].reshape(-1, 3, 3), X[:, :3, :3], atol=1e-12)
    assert_allclose(poses[:, 9:], X[:, :3, 3], atol=1e-12)
    # a gain, gravity and a mass change what happens; reset takes them back
    tab.evaluate("page.live.advance(50)")
    plain = tab.evaluate("[...page.live.physics.values.q]")
    tab.click("#again")
    assert tab.evaluate("[...page.live.physics.values.q]") == [0.3, -0.2]
    tab.evaluate("page.live.physics.values['hold.kp'][0] = 9; page.live.advance(50)")
    assert tab.evaluate("[...page.live.physics.values.q]") != plain
    tab.evaluate("page.pick('lower')")
    facts = tab.inner_text("#facts")
    assert "1.000 kg" in facts
    for caption in ("P, articulated inertia", "D, hinge inertia", "G, gain P H* D⁻¹"):
        assert caption in facts
    cover = """() => ["facts", "stage"].map((x) => page.element(x).getBoundingClientRect())
        .map((x) => x.width * x.height).reduce((a, b) => a / b)"""
    assert tab.evaluate(cover) < 0.25  # the mechanism is beside them
    assert tab.inner_text("#home") != tab.inner_text("#again")


def _type(tab: Any, label: str, text: str) -> tuple[str, str]:
    """Type into the field of a row; the field and the notice of the row, with the focus in it."""
    field = tab.query_selector(f"#live input[type=number][aria-label*='{label}']")
    field.focus()
    tab.keyboard.press("Control+A")
    tab.keyboard.press("Delete")
    tab.keyboard.type(text)
    tab.keyboard.press("Enter")
    return field.evaluate("x => [x.value, x.parentElement.querySelector('output').textContent]")


def test_fields_that_are_empty_or_not_numbers_change_nothing(opened):
    tab = opened("arm")
    numbers = """(() => { const { values } = page.live.physics;
        return ["q", "v", "gravity", "inertia", "live_damping.rate", "hold.kp"]
            .map((x) => [...values[x]]); })()"""
    before = tab.evaluate(numbers)
    fields = {"hinge 0": "0.3", "gravity": "9.81", "damping rate of all": "0", "mass of": "1"}
    for label, shown in {**fields, "hold.kp": "0.3"}.items():
        for text in ("", "1e400", "--", "?"):
            assert _type(tab, label, text) == [shown, "not a number: ignored"]
    assert tab.evaluate(numbers) == before
    for key in "?t":  # neither wipes the field nor acts on the page
        tab.keyboard.press(key)
    assert tab.evaluate("document.activeElement.value") == "0.3"
    assert not tab.evaluate("page.element('help').open") and tab.evaluate(numbers) == before
    assert _type(tab, "hold.kp", "0.5") == ["0.5", ""]
    assert tab.evaluate("page.live.physics.values['hold.kp'][0]") == 0.5


def test_numbers_beyond_limits_are_limited_and_the_row_says_so(opened):
    tab = opened("arm")
    expected = {
        "hinge 0": ("-7", "-3"),
        "damping rate of all": ("-1", "0"),
        "mass of": ("0", "0.001"),
    }
    for label, (text, limited) in expected.items():
        found, said = _type(tab, label, text)
        assert found == limited and said.startswith(
            f"{text} is below the minimum: set to {limited}"
        )
    assert tab.evaluate("page.live.physics.values.q[0]") == -3
    assert _type(tab, "hinge 0", "7") == ["7", ""] and _type(tab, "hinge 1", "7")[1] == ""
    assert tab.evaluate("document.activeElement.value") == "0.71681"  # the same after a turn


def test_a_four_bar_returns_to_what_it_can_have(opened):
    tab = opened("loop")
    for k in range(3):
        label = tab.evaluate(f"page.live.physics.description.coordinates[{k}].joint")
        for text in ("3", "-3", "1e3"):
            shown, said = _type(tab, label, text)
            q = np.array(tab.evaluate("[...page.live.physics.values.q]"))
            turns = (float(text) - q[k]) / (2 * np.pi)
            near = abs(turns - round(turns)) < 1e-4
            assert abs((float(shown) - q[k] + 1) % (2 * np.pi) - 1) < 1e-3
            assert (said == "") == near and ("out of reach" in said) != near
            assert np.abs(four_bar().residual(q)).max() < 1e-9


def test_many_numbers_of_a_parameter_share_two_rows(opened):
    tab = opened("loop")
    many = "[...page.live.physics.values['brake.many']]"
    assert _type(tab, "brake.many[chosen]", "5") == ["5", ""]
    assert tab.evaluate(many) == [5.0, *range(1, 30)]
    assert len(tab.query_selector_all("#live .row input[aria-label*='brake.many']")) == 4
    tab.select_option("#live select[aria-label*='brake.many']", index=7)
    assert _type(tab, "brake.many[chosen]", "-2.5") == ["-2.5", ""]
    assert tab.evaluate(many)[7] == -2.5
    assert _type(tab, "brake.many, scale factor of all", "2") == ["2", ""]
    assert tab.evaluate(many) == [2.0 * i for i in range(30)]
    assert tab.evaluate("[...page.live.physics.values.q]") == list(tab.evaluate(
        "[...page.live.physics.first.q]"))  # fmt: skip
    tab.click("#again")
    assert tab.evaluate(many) == list(range(30))


ARROWS = """(() => { page.live.show();
    return page.scene.arrowList.map((a) => [[...a.at], [...a.vector], a.kind, a.label]); })()"""


def test_forces_of_contacts_are_arrows(opened):
    tab, sim = opened("box"), simulator("box")
    assert tab.inner_text("h1") == "box"  # the name of the file, as nobody gave another one
    assert tab.evaluate(ARROWS) == []  # no step has pushed yet
    tab.evaluate("page.live.advance(40)")
    found = tab.evaluate(ARROWS)
    assert len(found) == 4 and {row[3] for row in found} == {"box|ground"}
    at, forces = (np.array([row[i] for row in found]) for i in (0, 1))
    weight = 2.0 * 9.81
    assert_allclose(forces.sum(axis=0), [0, 0, weight], atol=1e-4)
    assert_allclose((at * forces[:, 2:]).sum(axis=0)[:2] / weight, [0, 0.03], atol=1e-5)
    assert np.abs(at[:, 2]).max() < 1e-6 and set(np.abs(at[:, :2].round(5)).ravel()) == {0.1}
    run = sim.rollout(
        sim.initial_state(REST), steps=40, record_every=40, record=("contact.impulses",)
    )
    assert_array_equal(forces, run["contact.impulses"][-1, :, 3:] / sim.dt)  # as reports draw them
    # twice the mass, twice the force
    tab.evaluate("page.live.physics.values.inertia.forEach((x, i, all) => { all[i] = 2 * x; })")
    tab.evaluate("page.live.advance(40)")
    twice = np.array([row[1] for row in tab.evaluate(ARROWS)])
    assert_allclose(twice.sum(axis=0), [0, 0, 2 * weight], atol=1e-4)
    # the switch of reports; and none in the air
    drawn = "page.scene.render(), page.scene.arrows.shaft.visible"
    assert tab.evaluate(drawn) and tab.get_attribute("#live-force", "aria-pressed") == "true"
    assert "N" in tab.get_attribute("#live-force", "title")
    tab.keyboard.press("o")
    assert not tab.evaluate(drawn) and tab.get_attribute("#live-force", "aria-pressed") == "false"
    tab.click("#live-force")
    assert tab.evaluate(drawn) and "on" in tab.get_attribute("#show-forces", "class")
    _type(tab, "box · z", "0.5")
    assert tab.evaluate(ARROWS) == []


def test_the_keyboard_pulls_a_body_too(opened):
    tab = opened("arm")
    state = "[...page.live.physics.values.q]"
    tab.evaluate("document.querySelectorAll('#live details').forEach((x) => { x.open = true; })")
    tab.select_option("#live select[aria-label='body to pull']", index=1)
    before = tab.evaluate(state)
    pull = tab.query_selector("#live input[type=range][aria-label='target offset along x m']")
    pull.focus()
    for _ in range(3):
        tab.keyboard.press("ArrowLeft")  # time stands still: inverse kinematics
    after = tab.evaluate(state)
    assert np.abs(np.subtract(after, before)).max() > 1e-3
    assert tab.evaluate("[...page.live.physics.values['live_hand.body']]") == [0, 1]
    shift = float(pull.evaluate("x => x.value"))
    assert shift < 0
    com = [0.25, 0, 0]
    assert_allclose(
        tab.evaluate("p => page.live.physics.pointInWorld(1, p)", com)[0] - shift,
        _place(simulator("arm").model, before, com)[0],
        atol=2e-3,
    )
    # and a spring while it goes on; at once, since a picture would bring the body back to the hand
    moved = tab.evaluate(f"(page.live.advance(100), {state})")
    assert np.abs(np.subtract(moved, after)).max() > 1e-3
    tab.get_by_text("release").click()
    assert tab.evaluate("page.live.physics.isChanged") is False
    assert pull.evaluate("x => x.value") == "0"


def _place(model: pp.Model, q: Any, point: list[float]) -> Any:
    X = pp.poses(model, q)[1]
    return X[:3, :3] @ point + X[:3, 3]


def test_names_that_are_cut_are_told(opened):
    tab = opened("arm")
    label = tab.query_selector("#live .row label")
    assert label.get_attribute("title") == label.inner_text() and HOSTILE in label.inner_text()
    unnamed = """[...document.querySelectorAll("button, input, select, canvas, aside")]
        .filter((x) => !x.textContent.trim() && !x.ariaLabel).map((x) => x.outerHTML)"""
    assert tab.evaluate(unnamed) == []


def _at_body(tab: Any, k: int, point: list[float]) -> tuple[float, float]:
    """Where a point of a body is on the screen."""
    place = tab.evaluate(
        """([k, point]) => {
        page.scene.render();
        const at = new THREE.Vector3(...page.live.physics.pointInWorld(k, point));
        at.applyMatrix4(page.scene.upright).project(page.scene.camera);
        const box = page.scene.canvas.getBoundingClientRect();
        return [box.left + (at.x + 1) / 2 * box.width, box.top + (1 - at.y) / 2 * box.height]; }""",
        [k, point],
    )
    return place[0], place[1]


def test_a_dragged_arm_swings_and_keeps_its_energy_after_release(opened):
    tab = opened("arm")
    x, y = _at_body(tab, 1, [0.25, 0, 0])
    before = tab.evaluate("[...page.live.physics.values.q]")
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 40, y - 60, steps=3)
    assert tab.evaluate("page.live.physics.values['live_hand.body'].indexOf(1)") == 1
    tab.evaluate("page.live.advance(200)")
    tab.mouse.up()
    assert tab.evaluate("page.live.physics.isChanged") is False
    moved = tab.evaluate("[...page.live.physics.values.q]")
    assert np.abs(np.subtract(moved, before)).max() > 0.02
    energies = tab.evaluate(
        """() => { const p = page.live.physics;
        return [0, 1000].map((n) => { page.live.advance(n); p.look();
                                      return p.values.energies.reduce((a, b) => a + b, 0); }); }"""
    )
    assert abs(energies[1] - energies[0]) < 1e-8 * (abs(energies[0]) + 1)
    speeds = tab.evaluate("[...page.live.physics.values.v]")
    assert np.abs(speeds).max() > 0.1


def test_a_four_bar_stays_closed_while_it_is_dragged(opened):
    tab = opened("loop")
    system = four_bar()
    for running in (True, False):
        # from the same pose: dragged to where the links are in line, it would follow no further
        tab.evaluate("page.live.reset()")
        x, y = _at_body(tab, 1, [0.6, 0, 0])
        start = tab.evaluate("[...page.live.physics.values.q]")
        tab.mouse.move(x, y)
        tab.mouse.down()
        for i in range(1, 5):
            tab.mouse.move(x + 15 * i, y + 10 * i)
            tab.evaluate("page.live.advance(40)" if running else "page.live.physics.follow()")
            q = np.array(tab.evaluate("[...page.live.physics.values.q]"))
            assert np.abs(system.residual(q)).max() < 1e-9
        tab.mouse.up()
        assert np.abs(q - start).max() > 1e-3
    tab.keyboard.press("0")
    tab.keyboard.press(".")
    assert tab.evaluate("page.live.physics.values.step[0]") == 1


def test_parameters_are_named_by_the_joints_they_belong_to(opened):
    tab = opened("bent")
    rows = tab.eval_on_selector_all("#live .row label", "all => all.map((x) => x.textContent)")
    found = [row for row in rows if row.startswith("drag.each")]
    names = ["crank", "coupler.0", "coupler.1", "coupler.2", "rocker"]
    assert found == [f"drag.each[{name}]" for name in names]
    _type(tab, "drag.each[rocker]", "0.25")
    assert tab.evaluate("page.live.physics.values['drag.each'][4]") == 0.25


def test_the_shape_of_a_body_follows_the_slider_of_its_mode(opened):
    tab = opened("bent")
    moved = tab.evaluate(
        """() => { const p = page.live.physics, c = p.description.coordinates;
        const beam = page.scene.deformation.bodies[0].mesh.geometry;
        const corners = () => beam.attributes.position.array;
        const eta = c.find((x) => x.reach !== undefined), before = corners().slice();
        const far = () => corners().reduce((m, x, i) => Math.max(m, Math.abs(x - before[i])), 0);
        page.live.show();
        const still = far();
        p.set(eta, 0.5 * eta.reach); page.live.show();
        return [still, far(), p.get(eta), 0.5 * eta.reach]; }"""
    )
    assert moved[0] == 0.0 and moved[1] > 0.01
    assert_allclose(moved[2], moved[3], rtol=1e-6)


def test_a_hand_at_rest_moves_a_loop_of_bodies_that_deform(opened):
    """The crank comes as near to the hand as its circle does; modes stay, the loop is closed."""
    tab = opened("bent")
    found = tab.evaluate(
        """() => { const p = page.live.physics, q = () => [...p.values.q], first = q();
        const wanted = first[0] + 0.4;
        p.grab(0, [0.5, 0, 0]);
        p.pull([0.7 * Math.cos(wanted), 0.7 * Math.sin(wanted), 0]);
        for (let i = 0; i < 10; i++) p.follow();
        const out = { first, wanted, q: q(), v: [...p.values.v] };
        p.release();
        return out; }"""
    )
    q = np.array(found["q"])
    assert abs(q[0] - found["wanted"]) < 1e-3
    assert np.abs(bent_four_bar().residual(q)).max() < 1e-9
    assert_allclose(q[2:4], found["first"][2:4], atol=1e-6)
    assert not np.any(found["v"])


def test_time_goes_on_and_stops(opened):
    tab = opened("arm")
    tab.click("#live-play")
    until(tab, "page.live.physics.values.t[0] > 0.02")
    tab.click("#live-play")
    t = tab.evaluate("page.live.physics.values.t[0]")
    assert t > 0.02
    drawn(tab)
    assert tab.evaluate("page.live.physics.values.t[0]") == t


def test_a_step_that_fails_goes_back_to_the_last_picture_and_the_page_lives_on(opened):
    tab = opened("arm")
    tab.evaluate("page.live.physics.values['hold.kp'][0] = 1e12; page.live.set(true)")
    tab.wait_for_selector("#live-error:visible")
    assert "too large for this time step" in tab.inner_text("#live-error")
    values = "(() => { const v = page.live.physics.values; return [...v.q, ...v.v, v.t[0]]; })()"
    assert tab.evaluate(values) == [0.3, -0.2, 0, 0, 0] and not tab.evaluate("page.live.playing")
    tab.evaluate("page.live.physics.values['hold.kp'][0] = 0.3; page.live.set(true)")
    until(tab, "page.live.physics.values.t[0] > 0")
    assert tab.is_hidden("#live-error") and np.isfinite(tab.evaluate(values)).all()


def test_a_page_starts_at_the_rates_of_its_motors():
    clock = pp.ModelBuilder()
    clock.add_body("wheel", inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.1))
    clock.add_clock()
    motor = pp.constraints.Motor(name="drive", joint="wheel", rate=lambda t: 3.0 + np.sin(t))
    driven = pp.System(clock.build(), [motor])
    assert_allclose(_driven_rates(driven, [0.2, 0.0]), [3.0, 1.0], atol=1e-12)
    assert _driven_rates(four_bar(), np.zeros(3)) is None
    with pytest.raises(InputError, match=r"violates the constraint velocities") as caught:
        pp.Simulator(driven).initial_state([0.2, 0.0])
    assert "project with a motor" not in str(caught.value)  # it has one


def test_a_recording_goes_on_from_what_is_shown(opened):
    tab = opened("recorded")
    assert tab.is_visible("#continue") and not tab.is_visible("#live-play")
    tab.evaluate("setPlaying(false); clock.set(0.2)")
    before = tab.evaluate("[...page.poses]")
    tab.evaluate("page.live.set = ((f) => (on) => f(false))(page.live.set)")  # stands still here
    tab.click("#continue")
    assert tab.is_visible("#live-play") and not tab.is_visible("#continue")
    assert tab.evaluate("document.activeElement.id") == "live-play"
    state = tab.evaluate(
        "(() => { const v = page.live.physics.values; return [[...v.q], v.t[0]]; })()"
    )
    sim = simulator("arm")
    run = sim.rollout(sim.initial_state([0.3, -0.2]), steps=300, record_every=100)
    assert_array_equal(state[0], run.q[2])
    assert state[1] == run.t[2]
    assert_allclose(tab.evaluate("[...page.poses]"), before, atol=2e-3)  # between two frames
    tab.evaluate("page.live.advance(100)")
    assert_array_equal(tab.evaluate("[...page.live.physics.values.q]"), run.q[3])
    tab.click("#again")
    assert tab.evaluate("[...page.live.physics.values.q]") == state[0]
    tab.click("#return")
    assert tab.evaluate("document.activeElement.id") == "continue"
    assert tab.is_visible("#continue")
    assert_allclose(tab.evaluate("[...page.poses]"), before, atol=1e-6)


def test_recordings_that_cannot_go_on(tmp_path):
    run = pp.simulate(pp.examples.planar_arm(1), [0.0], [0.0], 0.1)
    with pytest.raises(InputError, match="another mechanism"):
        run.to_html(live=simulator("arm"))


def test_files_that_are_not_pages_are_rejected(tmp_path):
    arm = pp.examples.planar_arm(1)
    with pytest.raises(InputError, match=r"ends in \.html"):
        live_page(arm, tmp_path / "arm.txt")
    with pytest.raises(InputError, match="first"):
        live_page("arm.urdf", tmp_path / "arm.html")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
    parts = live_parts(pp.Simulator(arm), play=False)
    assert parts.get("data", {})["live"]["play"] is False and parts.get("wasm")


def test_the_page_does_not_offer_what_no_run_can_change():
    arm = pp.examples.planar_arm(2)
    stop = pp.forces.JointLimit(None, [np.inf, 50.0], upper=[1.0, np.inf])
    sim = pp.Simulator(arm, [stop], integrator="time_stepping")
    fixed = live_parts(sim, play=False).get("data", {})["live"]["physics"]["fixed"]
    names = ("stiffness", "dissipation", "lower")
    assert fixed == {f"joint_limit.{n}": [0] for n in names}


def test_the_command_line(tmp_path, capsys):
    target = tmp_path / "arm.html"
    words = ["view", "seven_joint_arm", "--joint-properties", "--set", "elbow_pitch=30deg"]
    assert app([*words, "--no-open", "--out", str(target)], result_action="return_value") == 0
    assert "arm.html: " in capsys.readouterr().out
    text = target.read_text()
    assert "joint_limit.stiffness" in text and "binary-physics" in text


def test_a_recording_is_not_viewed(capsys):
    assert app(["view", "fall.npz", "--no-open"], result_action="return_value") != 0
    said = "".join(capsys.readouterr())
    assert "fall.npz is a trajectory" in said and "phipsi render fall.npz" in said
    assert "phipsi simulate FILE --duration 2 --out fall.html" in said
    assert app(["render", "arm.urdf", "arm.png"], result_action="return_value") != 0
    assert "phipsi simulate arm.urdf --duration 2 -o arm.npz" in "".join(capsys.readouterr())


def test_the_camera_goes_with_a_base_that_floats():
    arm = live_parts(simulator("arm"), play=False).get("data", {})["scene"]
    assert arm["follow"] < 0
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia.sphere(0.1, mass=1.0)
    builder.add_body("ball", joint=pp.joints.Free(), inertia=inertia)
    sim = pp.Simulator(builder.build(), integrator="semi_implicit")
    scene = live_parts(sim, q=[1.0, 0, 0, 0, 5.0, 6.0, 7.0]).get("data", {})["scene"]
    assert scene["follow"] == 0 and np.abs(scene["center"]).max() < 1.0
