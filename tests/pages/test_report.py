"""Reports: what is in the page, that it needs nothing else, and that it runs in a browser."""

import base64
import json
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amounts import seeds
from browser_pages import drawn, hear, until
from known_systems import on_ground, pinned_four_bar as four_bar

import phipsi as pp
from phipsi.core.model.entry_names import entry_units, unit_texts
from phipsi.core.spatial import quat_to_matrix
from phipsi.pages.recorded_scene import frame_times
from phipsi.pages.report_page import picked, plots, report_html
from phipsi.pages.shapes_and_colors import BAR, PIN, solids_of, tips

pytestmark = pytest.mark.usefixtures("machine_code_of_module")  # runs take thousands of steps

DATA = Path(__file__).parents[1] / "files" / "data"


@pytest.fixture(scope="module")
def swing() -> pp.Trajectory:
    arm = pp.examples.seven_joint_arm()
    q0 = [0.2, 2.3, 0.3, 0.9, 0.2, 0.6, 0.1]
    stop = pp.Event(lambda t, q, v: t - 0.45, name="half <way>")
    return pp.simulate(arm, q0, [1.5, 0, 0, 0, 0, 0, 0], 1.0, rtol=1e-10, events=[stop])


@pytest.fixture(scope="module")
def page(swing: pp.Trajectory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "swing.html"
    checks = [("sum < 1", True, "0.5"), ("sum > 1", False, "0.5")]
    assert pp.report(swing, path, title="Arm & <script>alert(1)</script>", checks=checks) == path
    return path


class Fetches(HTMLParser):
    """Everything in a page that makes a browser load something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.policy = ""
        self.scripts: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        for name in ("src", "href", "data", "srcset", "action", "poster", "background"):
            if name in values:
                self.found.append(f"{tag} {name}={values[name]}")
        if tag in ("link", "iframe", "base", "object", "embed", "import"):
            self.found.append(tag)
        if values.get("http-equiv", "").lower() == "content-security-policy":
            self.policy = values["content"] or ""
        if tag == "script":
            self.scripts.append(values)


def data_of(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found)


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<f4").astype(float)


def test_the_page_is_self_contained(page: Path):
    text = page.read_text(encoding="utf-8")
    parser = Fetches()
    parser.feed(text)
    assert parser.found == []
    assert parser.policy.startswith("default-src 'none';") and "http" not in parser.policy
    # data, three.js, deformations, links, the scene, the page, the time, plots; none of a name
    assert len(parser.scripts) == 8
    text = text.replace("http://www.w3.org/1999/xhtml", "")  # the name of HTML in three.js
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(|fetch\(|XMLHttp|import\(", text)


def test_the_page_says_what_was_checked(page: Path, swing: pp.Trajectory):
    text = page.read_text(encoding="utf-8")
    change = abs(swing.energy - swing.energy[0]).max()
    kinetic = pp.kinetic_energy(swing.model, swing.q, swing.v).max()
    assert f"<b>{change:.2g} J</b>" in text and f"<b>{change / kinetic:.1e}</b>" in text
    assert f"{swing.q[-1, 3]:.6g}".replace("-", "−") in text
    assert "ℳ⁻¹ (τ − H φ (b + M φ* (a + gravity)))" in text
    assert "P(k) = M(k) + Σ_c φ(k,c) [P(c) − G(c) H(c) P(c)] φ*(k,c)" in text
    assert "✓ pass" in text and "✗ FAIL" in text and "sum &lt; 1" in text
    assert "half &lt;way&gt;" in text and f"{swing.events[0].t:.9g} s" in text
    assert "<script>alert" not in text


def test_the_animation_has_the_poses(page: Path, swing: pp.Trajectory):
    scene = data_of(page)["scene"]
    times = unpacked(scene["times"])
    assert len(times) == 61 and times[0] == 0 and times[-1] == 1
    poses = unpacked(scene["poses"]).reshape(61, 7, 7)
    for k in (0, 17, 60):
        X = pp.poses(swing.model, swing.at(min(times[k], 1.0))[0])
        np.testing.assert_allclose(quat_to_matrix(poses[k, :, :4]), X[:, :3, :3], atol=2e-6)
        np.testing.assert_allclose(poses[k, :, 4:], X[:, :3, 3], atol=2e-6)
    points = unpacked(scene["trails"][0]["points"]).reshape(-1, 3)
    tool = pp.poses(swing.model, swing.q[-1:], ["tool"])[0, 0, :3, 3]
    np.testing.assert_allclose(points[-1], tool, atol=2e-6)


def test_the_plots_have_the_numbers(page: Path, swing: pp.Trajectory):
    plots = {plot["title"]: plot for plot in data_of(page)["charts"]}
    assert list(plots) == [
        "Energy",
        "Change of the total energy",
        "Generalized coordinates",
        "Generalized velocities",
    ]
    total = plots["Energy"]["series"][2]
    assert total["name"] == "total"
    np.testing.assert_allclose(total["values"], swing.energy, rtol=1e-5)
    elbow = plots["Generalized coordinates"]["series"][3]
    assert elbow["name"] == "elbow_pitch"
    q = swing.resample(plots["Generalized coordinates"]["t"]).q[:, 3]
    np.testing.assert_allclose(elbow["values"], q, rtol=1e-5, atol=1e-9)


def test_quaternions_have_no_unit_and_rest_is_flat():
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    inertia = pp.SpatialInertia.sphere(0.1, mass=1.0)
    builder.add_body("ball", joint=pp.joints.Free(), inertia=inertia)
    builder.add_body("lid", parent="ball", joint=pp.joints.Revolute((0, 0, 1)), inertia=inertia)
    model = builder.build()
    rest = pp.simulate(model, model.neutral(), np.full(7, 1e-17), 0.1)
    charts = {plot["title"]: plot for plot in plots(rest)}
    assert charts["Generalized coordinates"]["unit"] == "1 (quaternions), m, rad"
    assert charts["Generalized velocities"]["unit"] == "rad/s, m/s"
    assert unit_texts(pp.examples.planar_arm(2)) == ("rad", "rad/s")
    boom = pp.FlexibleInertia.beam(1.0, 1.2, 14.0, modes=1)
    builder.add_body("boom", joint=pp.joints.Prismatic((0, 1, 0)), inertia=boom)
    flexible = builder.build()
    assert unit_texts(flexible)[1] == "rad/s, m/s, 1/s (modes)"
    assert [len(x) for x in entry_units(flexible)] == [flexible.nq, flexible.nv]
    values = [x for s in charts["Generalized velocities"]["series"] for x in s["values"]]
    assert (
        0 < max(map(abs, values)) < charts["Generalized velocities"]["least"]
    )  # the page draws it flat
    assert report_html(rest).count("<h1>ball, lid</h1>") == 1


def test_gravity_is_down_whatever_its_direction(tmp_path: Path):
    arm = pp.examples.planar_arm(2)  # gravity along −y
    fall = pp.simulate(arm, [0.0, 0.0], [0.0, 0.0], 0.4)
    scene = data_of(pp.report(fall, tmp_path / "x.html"))["scene"]
    up = quat_to_matrix(np.array(scene["up"]))  # turns what is drawn upright
    poses = unpacked(scene["poses"]).reshape(-1, 2, 7)
    height = (poses[-1, 1, 4:] @ up.T)[2]
    assert height == pytest.approx(np.sin(fall.q[-1, 0]), abs=1e-5)  # the elbow falls
    lowest = (unpacked(scene["trails"][0]["points"]).reshape(-1, 3) @ up.T)[:, 2].min()
    assert scene["floor"] < lowest


def test_a_floating_base_is_followed_and_has_no_floor(tmp_path: Path):
    flyer = pp.examples.free_flyer()
    v = np.zeros(flyer.nv)
    v[3] = 40.0
    run = pp.simulate(flyer, flyer.neutral(), v, 0.5)
    scene = data_of(pp.report(run, tmp_path / "x.html"))["scene"]
    assert scene["floor"] is None and scene["follow"] == 0
    still = pp.simulate(flyer, flyer.neutral(), 0 * v, 0.5)
    assert data_of(pp.report(still, tmp_path / "x.html"))["scene"]["follow"] == -1


@pytest.mark.parametrize("name", ["arm.urdf", "rig.sdf", "machine.xml"])
def test_shapes_of_a_file_are_drawn(name: str, tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pp.load(DATA / name)
    primitive = {"box", "sphere", "cylinder", "capsule", "ellipsoid"}
    shapes = [s for s in model.geometry if s.kind in primitive]
    solids = solids_of(model)
    drawn = {solid.body for solid in solids}
    assert set(range(model.n_bodies)) <= drawn  # every body that moves can be seen
    for shape in shapes:
        body, X = model.resolve_point(shape.link)
        if shape.role == "visual":
            at = (X @ shape.placement).translation
            assert any(s.body == body and np.allclose(s.position, at) for s in solids)
    start = model.assemble(model.neutral()) if isinstance(model, pp.System) else model.neutral()
    with warnings.catch_warnings():  # machine.xml has a floor, and no contacts here
        warnings.filterwarnings("ignore", message="the floor of the robot")
        run = pp.simulate(model, start, np.zeros(model.nv), 0.05, forces=[])
    assert pp.report(run, tmp_path / "x.html").is_file()


@pytest.mark.parametrize("seed", seeds(6))
def test_any_mechanism_can_be_drawn(seed: int, tmp_path: Path):
    tree = pp.examples.random_tree(seed, 9)
    for solid in solids_of(tree):
        assert np.isfinite([*solid.scale, *solid.position]).all() and min(solid.scale) > 0
        np.testing.assert_allclose(solid.rotation @ solid.rotation.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(solid.rotation) == pytest.approx(1)
    assert 1 <= len(tips(tree)) <= 4
    run = pp.simulate(tree, tree.neutral(), np.zeros(tree.nv), 0.02)
    bodies = data_of(pp.report(run, tmp_path / "x.html"))["scene"]["bodies"]
    assert [body["name"] for body in bodies] == list(tree.body_names)


def test_a_floating_base_is_the_box_of_its_inertia():
    (base, *_) = solids_of(pp.examples.free_flyer())
    np.testing.assert_allclose(base.scale, (0.4, 0.6, 0.4), rtol=1e-12)


def test_links_are_bars_of_one_thickness():
    """Not as thick as their inertia: the cylinders of this arm have radii of 0.04 to 0.065 m."""
    arm = pp.examples.seven_joint_arm()
    thick = [s.scale[0] for s in solids_of(arm) if s.mesh == "cylinder" and s.color == BAR]
    assert len(thick) >= 6 and 0.01 < min(thick) and max(thick) < 0.025


def test_constraints_are_drawn_where_they_hold(tmp_path: Path):
    system, q = four_bar()
    plain, closed = solids_of(system.model), solids_of(system.model, system.closures.closures)
    (pin,) = [s for s in closed if s.color == PIN]
    assert not any(s.color == PIN for s in plain)
    assert (pin.body, pin.mesh) == (2, "cylinder")
    np.testing.assert_allclose(pin.position, (1, 0, 0))
    np.testing.assert_allclose(np.abs(pin.rotation[:, 2]), (0, 0, 1), atol=1e-12)
    run = pp.simulate(system, q, np.zeros(3), 0.3)
    scene = data_of(pp.report(run, tmp_path / "x.html"))["scene"]
    feet = [s["position"] for s in scene["solids"] if s["body"] == -1]
    places = {round(p[0], 6) for p in feet}
    assert places == {0.0, 1.5}  # a post under the first joint, and one under the pin


def test_a_rod_held_at_two_points_leads_to_both():
    arm = pp.examples.planar_arm(1)
    stay = pp.constraints.Distance(1.0, name="stay", a=("link1", (0.4, 0.3, 0)), b="world")
    solids = solids_of(arm, pp.System(arm, [stay]).closures.closures)
    ends = [s.position for s in solids if s.color == BAR and s.body == 0]
    assert any(np.allclose(p, (0.4, 0.3, 0)) for p in ends)
    assert sum(s.color == PIN for s in solids) == 2  # both ends: they are apart


def test_the_page_of_a_system_tells_of_its_constraints(tmp_path: Path):
    system, q = four_bar()
    damper = pp.forces.JointDamper(None, 0.2)
    run = pp.simulate(system, q, np.zeros(3), 0.3, forces=[damper], work=True)
    page = pp.report(run, tmp_path / "x.html")
    text = page.read_text(encoding="utf-8")
    assert "nv = 3, 5 constraint rows, 1 degree of freedom" in text
    assert "largest constraint residual" in text
    formula = re.search(r'<p class="formula">(.*?)</p>', text)
    assert formula is not None and "A" in formula[1]
    (change,) = [c for c in data_of(page)["charts"] if c["title"].startswith("Change")]
    assert [s["name"] for s in change["series"]] == ["change", "work"]
    np.testing.assert_allclose(*(s["values"] for s in change["series"]), atol=1e-6)
    changing = pp.simulate(system, q, np.zeros(3), 0.2, events=[
        pp.topology.at(0.1, pp.topology.Detach("pin"))])  # fmt: skip
    page = pp.report(changing, tmp_path / "y.html")
    assert "1 change of the mechanism" in page.read_text(encoding="utf-8")
    (mark,) = [s for s in data_of(page)["scene"]["solids"] if s["color"] == list(PIN)]
    assert mark["shown"] == [[0.0, pytest.approx(0.1)]]


@pytest.fixture(scope="module")
def passing_dock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bodies welded from 1 to 2 s, hinged all the time to others; a third comes at 2 s."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    ball = pp.SpatialInertia(1.0, (0, 0, 0), 0.02)
    for name, x in (("one", -0.5), ("two", 0.5), ("late", 1.5)):
        place = pp.Pose(None, (x, 0, 0))
        b.add_body(name, joint=pp.joints.Free(), placement=place, inertia=ball)
    model, top = b.build(), pp.topology
    dock = pp.constraints.Weld(name="dock", a=("one", (0.5, 0, 0)), b=("two", (-0.5, 0, 0)))
    stay = pp.constraints.Distance(1.0, name="stay", a="one", b="two")
    run = pp.simulate(
        pp.System(model, [stay]), model.neutral(), np.zeros(model.nv), 3.0,
        topology=[top.Replace(out=["late"])],
        events=[top.at(1.0, top.Attach(dock, as_is=True)), top.at(2.0, top.Detach("dock")),
                top.at(2.5, top.Replace(into=["late"]))],
    )  # fmt: skip
    return pp.report(run, tmp_path_factory.mktemp("dock") / "dock.html")


def test_what_comes_and_goes_shows_only_while_it_is_there(passing_dock: Path):
    solids = data_of(passing_dock)["scene"]["solids"]
    pins = [s for s in solids if s["color"] == list(PIN)]
    assert [s.get("shown") for s in pins] == [None, None, [[1.0, 2.0]]]  # both ends of the stay
    late = [s for s in solids if s["body"] == 2]
    assert late and all(s["shown"] == [[2.5, 3.0]] for s in late)
    assert not any("shown" in s for s in solids if s["body"] < 2 and s["color"] != list(PIN))


def test_long_runs_make_small_pages(tmp_path: Path):
    arm = pp.examples.planar_arm(1)
    t = np.linspace(0, 2000, 200_001)
    run = pp.Trajectory(arm, t, np.sin(t)[:, None], np.cos(t)[:, None], 0 * t[:, None])
    assert len(frame_times(run)) == 100_000
    change = run.energy - run.energy[0]
    kept = picked(run.t, change)
    assert len(kept) < 1000 and change[kept].max() == change.max()
    assert change[kept].min() == change.min() and kept[0] == 0 and kept[-1] == 200_000
    assert pp.report(run, tmp_path / "x.html").stat().st_size < 12e6


def test_one_sample_and_missing_efforts_are_fine(tmp_path: Path):
    arm = pp.examples.planar_arm(2)
    one = pp.Trajectory(arm, np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)))
    assert len(data_of(pp.report(one, tmp_path / "x.html"))["charts"]) == 4
    tau = np.array([[1.0, 2.0], [np.nan, np.nan]])
    two = pp.Trajectory(arm, np.array([0.0, 1.0]), np.zeros((2, 2)), np.zeros((2, 2)), tau)
    efforts = data_of(pp.report(two, tmp_path / "x.html"))["charts"][-1]
    assert (
        efforts["title"] == "Joint torques and forces"
        and efforts["series"][0]["values"][-1] is None
    )


def test_wrong_arguments_are_refused(swing: pp.Trajectory, tmp_path: Path):
    with pytest.raises(pp.errors.InputError, match=r"ends in \.html"):
        pp.report(swing, tmp_path / "x.pdf")
    with pytest.raises(pp.errors.InputError, match="needs a trajectory first"):
        pp.report("swing", tmp_path / "x.html")  # type: ignore[arg-type]
    arm = swing.model
    none = pp.Trajectory(arm, *(np.zeros((0, *s)) for s in ((), (7,), (7,), (7,))))
    with pytest.raises(pp.errors.InputError, match="no samples"):
        pp.report(none, tmp_path / "x.html")
    assert not list(tmp_path.iterdir())


# ---- bodies that touch ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sliding() -> Any:
    """A box of 2 kg on the ground, at rest and sliding."""
    system = on_ground(pp.shapes.Box((0.2, 0.2, 0.1)), 2.0, material=pp.Material(0.4))
    sim = pp.Simulator(system, dt=2e-3, integrator="time_stepping")
    start = sim.initial_state([[1, 0, 0, 0, 0, 0, 0.05]] * 2, [[0] * 6, [0, 0, 0, 1.0, 0, 0]])
    return sim.rollout(start, steps=100, record=("q", "v", "contact.impulses"), progress=False)


def test_contact_forces_are_arrows_with_a_certificate(sliding: Any, tmp_path: Path):
    trajectory = sliding.trajectory(1)
    page = pp.report(trajectory, tmp_path / "slide.html")
    scene = data_of(page)["scene"]
    assert scene["floor"] == 0.0  # the plane itself
    (arrows,) = scene["arrows"]
    forces, points = (unpacked(arrows[x]).reshape(-1, 4, 3) for x in ("forces", "points"))
    force = forces.sum(axis=1)
    assert arrows["kind"] == "contact" and set(arrows["labels"]) == {"box|ground"}
    np.testing.assert_allclose(force[5], [-0.4 * 2 * 9.81, 0, 2 * 9.81], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(points[..., 2], 0.0, atol=1e-6)
    text = page.read_text(encoding="utf-8")
    assert "Contact certificate" in text and "every step is solved" in text
    assert "energy error of steps" in text
    plot = next(x for x in data_of(page)["charts"] if x["title"] == "Contact forces")
    (series,) = plot["series"]
    assert series["name"] == "box|ground"
    assert series["values"][10] == pytest.approx(2 * 9.81 * np.hypot(1, 0.4), rel=1e-4)
    (rest,) = data_of(pp.report(sliding.trajectory(0), tmp_path / "rest.html"))["scene"]["arrows"]
    calm = unpacked(rest["forces"]).reshape(-1, 4, 3).sum(axis=1)
    np.testing.assert_allclose(calm[5], [0, 0, 2 * 9.81], atol=1e-4)


def test_a_run_without_forces_has_no_arrows(sliding: Any, swing: pp.Trajectory, tmp_path: Path):
    sim = sliding.simulator
    run = sim.rollout(sim.initial_state([1, 0, 0, 0, 0, 0, 0.05]), steps=2, progress=False)
    page = pp.report(run.trajectory(), tmp_path / "rest.html")
    assert data_of(page)["scene"]["arrows"] == []
    assert "Contact certificate" in page.read_text(encoding="utf-8")
    with pytest.raises(pp.errors.InputError, match=r"run\.trajectory\(0\)"):
        sliding.trajectory()


def test_rigid_stops_without_bodies_that_touch_have_a_page(tmp_path: Path):
    arm = pp.examples.planar_arm(1)
    stop = pp.forces.JointLimit(None, np.inf, lower=-0.2, upper=1.0)
    run = pp.simulate(arm, [0.3], [0.0], 0.5, forces=[stop])
    data = data_of(pp.report(run, tmp_path / "stop.html"))
    assert run.has_contacts and not data["scene"]["arrows"]
    assert "Contact forces" not in {x["title"] for x in data["charts"]}


def test_a_slope_is_a_slab_and_feet_have_legs(tmp_path: Path):
    builder = pp.ModelBuilder()
    builder.add_body("leg", joint=pp.joints.Revolute((0, 1, 0)),
                     inertia=pp.SpatialInertia(1.0, (0, 0, -0.3), 0.03))  # fmt: skip
    builder.add_shape("foot", "leg", pp.shapes.Sphere(0.05), pp.Pose(None, (0, 0, -0.6)))
    model = builder.build()
    ground = pp.Pose.from_axis_angle((0, 1, 0), 0.2) @ pp.Pose(None, (0, 0, -0.8))
    system = pp.System(model, contacts=pp.Contacts(model, ground=ground))
    sim = pp.Simulator(system, dt=5e-3, integrator="time_stepping")
    run = sim.rollout(sim.initial_state([0.1]), steps=4, progress=False)
    scene = data_of(pp.report(run.trajectory(), tmp_path / "leg.html"))["scene"]
    assert scene["floor"] is None
    slab = scene["solids"][-1]
    assert slab["body"] == -1 and slab["mesh"] == "box"
    np.testing.assert_allclose(slab["rotation"], [np.cos(0.1), 0, np.sin(0.1), 0], atol=1e-5)
    assert [x["mesh"] for x in scene["solids"] if x["body"] == 0].count("cylinder") >= 1


# ---- forces of constraints, operators at bodies -------------------------------------------------


def test_forces_of_constraints_are_arrows(tmp_path: Path):
    arm = pp.examples.planar_arm(1)
    string = pp.constraints.Distance(1.0, name="string", a="tip", b=("world", (1.0, 1.0, 0)))
    system = pp.System(arm, [string])
    scene = data_of(pp.report(pp.simulate(system, [0.0], [0.0], 0.2), tmp_path / "x.html"))["scene"]
    (arrows,) = scene["arrows"]
    assert (arrows["kind"], arrows["labels"]) == ("constraint", ["string"])
    at, force = (unpacked(arrows[x]).reshape(-1, 3) for x in ("points", "forces"))
    np.testing.assert_allclose(at[3], [1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(force, np.tile([0, 4.905, 0], (len(force), 1)), atol=1e-3)
    assert scene["notices"] == [] and scene["loops"][0]["name"] == "string"


def test_forces_that_are_not_known_are_not_drawn(tmp_path: Path):
    system, q = four_bar()
    plain = data_of(pp.report(pp.simulate(system, q, np.zeros(3), 0.3), tmp_path / "x.html"))
    (arrows,) = plain["scene"]["arrows"]
    # the end at the middle of the run: m a of the last link, by its own equation of motion
    times = unpacked(plain["scene"]["times"])
    run = pp.simulate(system, q, np.zeros(3), 0.3)
    k = len(times) // 2
    (at, v), zero = run.at(times[k]), np.zeros(3)
    expected = pp.joint_reactions(system, at, v, zero).closures
    side = [i for i, body in enumerate(system.closures.points.body) if body >= 0][0]
    X = pp.poses(system.model, at)[2]
    turn = X[:3, :3] @ system.closures.points.rotation[side]
    force = unpacked(arrows["forces"]).reshape(-1, 3)[k]
    np.testing.assert_allclose(force, turn @ expected[side, 3:], rtol=1e-3, atol=1e-3)
    damper = pp.forces.JointDamper(None, 2.0)
    run = pp.simulate(system, q, np.zeros(3), 0.3, forces=[damper])
    known = data_of(pp.report(run, tmp_path / "y.html"))["scene"]
    at, v = run.at(times[k])  # a run knows its elements: their efforts are in the reactions
    expected = pp.joint_reactions(system, at, v, -2.0 * v).closures
    turn = pp.poses(system.model, at)[2][:3, :3] @ system.closures.points.rotation[side]
    force = unpacked(known["arrows"][0]["forces"]).reshape(-1, 3)[k]
    np.testing.assert_allclose(force, turn @ expected[side, 3:], rtol=1e-3, atol=1e-3)
    run.acting = None
    damped = data_of(pp.report(run, tmp_path / "z.html"))["scene"]
    assert damped["arrows"] == [] and "other forces than the recorded" in damped["notices"][0]


def test_operators_at_bodies_are_those_of_the_tree(tmp_path: Path):
    from phipsi.operators import D, G, P

    flyer = pp.examples.free_flyer()  # one joint with six rates, others with one
    v = np.linspace(-0.3, 0.3, flyer.nv)
    run = pp.simulate(flyer, flyer.neutral(), v, 0.4)
    blocks = data_of(pp.report(run, tmp_path / "x.html"))["blocks"]
    sizes, times = blocks["sizes"], blocks["times"]
    assert sizes[0] == 6 and set(sizes[1:]) == {1} and (times[0], times[-1]) == (0, 0.4)
    frame, body = 7, 4
    q = run.at(times[frame])[0]
    at = unpacked(blocks["P"]).reshape(len(times), -1, 6, 6)[frame, body]
    np.testing.assert_allclose(
        at, pp.evaluate_dense(P, flyer, q)[24:30, 24:30], rtol=1e-5, atol=1e-6
    )
    squares = np.cumsum([0, *(n * n for n in sizes)])
    hinge = unpacked(blocks["D"]).reshape(len(times), -1)[frame]
    whole = pp.evaluate_dense(D, flyer, q)
    assert hinge[squares[body]] == pytest.approx(whole[9, 9], rel=1e-5)
    np.testing.assert_allclose(hinge[:36].reshape(6, 6), whole[:6, :6], rtol=1e-4, atol=1e-4)
    gain = unpacked(blocks["G"]).reshape(len(times), -1)[frame]
    column = gain[6 * 9 : 6 * 10]
    np.testing.assert_allclose(
        column, pp.evaluate_dense(G, flyer, q)[24:30, 9], rtol=1e-5, atol=1e-6
    )


def test_a_joint_with_nothing_to_move_has_no_operators(tmp_path: Path):
    builder = pp.ModelBuilder()
    none = pp.SpatialInertia(0.0, (0, 0, 0), 0.0)
    builder.add_body("ghost", joint=pp.joints.Revolute((0, 0, 1)), inertia=none)
    ghost = builder.build()
    still = np.zeros((2, 1))
    run = pp.Trajectory(ghost, np.array([0.0, 1.0]), still, still, still)
    assert data_of(pp.report(run, tmp_path / "x.html"))["blocks"] is None


# ---- in a browser -----------------------------------------------------------------------------


def test_it_runs_in_a_browser_and_asks_for_nothing(browser: Any, page: Path, tmp_path: Path):
    import matplotlib.image

    tab = browser.new_page(viewport={"width": 640, "height": 560}, color_scheme="dark")
    told: list[str] = []
    requests: list[str] = []
    hear(tab, told)
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(page.as_uri())
    until(tab, "clock.playing && clock.now > 0")

    def shot(at: float, canvas: str, name: str) -> np.ndarray:
        tab.evaluate("t => { setPlaying(false); clock.set(t); }", at)
        drawn(tab)
        file = tmp_path / name
        tab.locator(canvas).first.screenshot(path=str(file))
        return matplotlib.image.imread(file)[..., :3]

    first, last = (shot(t, "#view", f"{t}.png") for t in (0.0, 1.0))
    bright = (first.min(axis=-1) > 0.6).mean()  # the links are bright
    assert 0.002 < bright < 0.5, bright
    assert np.abs(first - last).max() > 0.3  # and they move
    assert shot(0.5, ".charts canvas", "chart.png").std() > 0.02
    tab.keyboard.press("Space")
    until(tab, "clock.playing")
    tab.locator("#play").click()
    until(tab, "!clock.playing")
    tab.evaluate("clock.set(0)")
    chart = tab.locator(".charts canvas").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    until(tab, "0.3 < clock.now && clock.now < 0.7")  # a click goes to that time
    tab.locator("#view").scroll_into_view_if_needed()
    turned = tab.evaluate("document.getElementById('view').getBoundingClientRect().toJSON()")
    tab.mouse.move(turned["x"] + 300, turned["y"] + 200)
    tab.mouse.down()
    before = shot(0.0, "#view", "before.png")
    tab.mouse.move(turned["x"] + 500, turned["y"] + 260)
    tab.mouse.up()
    assert np.abs(shot(0.0, "#view", "after.png") - before).max() > 0.3  # dragging turns it
    assert told == []
    assert requests == [page.as_uri()]
    tab.close()


def test_the_pin_of_a_dock_appears_and_vanishes(browser: Any, tmp_path: Path, passing_dock: Path):
    import matplotlib.image

    tab = browser.new_page(viewport={"width": 480, "height": 420}, color_scheme="dark")
    tab.goto(passing_dock.as_uri())
    until(tab, "clock.playing && clock.now > 0")
    green = []
    for t in (0.5, 1.5, 2.2):
        tab.evaluate("t => { setPlaying(false); clock.set(t); }", t)
        drawn(tab)
        tab.locator("#view").first.screenshot(path=str(tmp_path / f"{t}.png"))
        r, g, b = np.moveaxis(matplotlib.image.imread(tmp_path / f"{t}.png")[..., :3], -1, 0)
        green.append(int(((g > 1.5 * r) & (g > b)).sum()))
    assert green[1] > 20 and green[0] == green[2] == 0  # the ends of the stay are inside the boxes
    tab.close()


def test_forces_are_drawn_and_can_be_hidden(browser: Any, sliding: Any, tmp_path: Path):
    import matplotlib.image

    page = pp.report(sliding.trajectory(0), tmp_path / "rest.html")
    tab = browser.new_page(viewport={"width": 480, "height": 420}, color_scheme="dark")
    told: list[str] = []
    hear(tab, told)
    tab.goto(page.as_uri())
    until(tab, "clock.now > 0")

    def yellow(name: str) -> float:
        tab.evaluate("() => { setPlaying(false); clock.set(0.1); }")
        drawn(tab)
        tab.locator("#view").screenshot(path=str(tmp_path / name))
        shot = matplotlib.image.imread(tmp_path / name)[..., :3]
        return float(((shot[..., 0] > 0.6) & (shot[..., 2] < 0.35)).mean())

    shown = yellow("on.png")
    assert tab.locator("#force").is_visible()
    assert "N" in tab.locator("#force").get_attribute("title")
    tab.locator("#force").click()
    hidden = yellow("off.png")
    assert shown > hidden + 3e-4, (shown, hidden)
    assert told == []
    tab.close()
