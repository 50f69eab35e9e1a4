"""Draw the pictures of the documentation again: run `python scripts/pictures.py`.

Each picture runs the code of the page that shows it, so that the two agree.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import runpy
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import beta
from walking_robot import walking_robot

import phipsi.gym

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
mpl.rcParams["svg.hashsalt"] = "phipsi"
mpl.rcParams["svg.fonttype"] = "none"


def after(page: str, last: str) -> dict[str, Any]:
    """The names on a page after its Python blocks, up to the one that contains `last`."""
    names: dict[str, Any] = {}
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):  # pages write files
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(block, names)
            if last in block:
                return names
    raise ValueError(f"{page} has no block with {last!r}")


def thousand_arms() -> plt.Figure:
    """The first joint of a thousand arms."""
    names = after("simulator.md", "np.percentile")
    run = names["run"]
    low, middle, high = np.percentile(run.q[..., 0], [5, 50, 95], axis=0)
    figure, axes = plt.subplots(figsize=(6.0, 2.6), layout="constrained")
    axes.fill_between(run.t[0], low, high, alpha=0.3, lw=0, label="5 % to 95 %")
    axes.plot(run.t[0], middle, label="median")
    axes.axhline(0.8, color="0.5", lw=0.8, ls="--", label="target")
    axes.set(xlabel="t (s)", ylabel="joint1 (rad)", xlim=(0, run.t[0, -1]))
    axes.legend(frameon=False, loc="lower right")
    return figure


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """The system's browser without a window, drawing in software."""
    from playwright.sync_api import sync_playwright

    software = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", *software]
        )
        yield browser
        browser.close()


def workbench(folder: Path) -> None:
    """The workbench's page in chromium: an expression and a claim."""
    from phipsi.papers import Workbench

    shots = {
        "workbench": ("ℳ⁻¹ τ", "#cost svg"),
        "workbench-claim": ("ψ K H φ = φ + ψ", "#verdict pre"),
    }
    with Workbench() as bench, chromium() as browser:
        page = browser.new_page(viewport={"width": 1180, "height": 700})
        page.goto(bench.address)
        for name, (text, shown) in shots.items():
            page.fill("#text", text)
            page.press("#text", "Enter")
            page.wait_for_selector(shown)
            page.wait_for_selector("#list li")
            height = page.evaluate("document.getElementById('identities').offsetTop - 4")
            page.screenshot(
                path=folder / f"{name}.png",
                full_page=True,
                clip={"x": 0, "y": 0, "width": 1180, "height": height},
            )
            print(f"written: docs/pictures/{name}.png")


def contact_forces(folder: Path) -> None:
    """Two pages of examples with contacts, in chromium: a gait and a landing, side by side."""
    import subprocess
    import tempfile

    from PIL import Image

    parts = []
    with tempfile.TemporaryDirectory() as home, chromium() as browser:
        for name, t, nearer in (("trotting_quadruped", 3.1, 1.5), ("lander", 1.0, 1.1)):
            file = Path(home) / f"{name}.html"
            subprocess.run([sys.executable, ROOT / "examples" / f"{name}.py", file], check=True)
            size = {"width": 1200, "height": 800}
            page = browser.new_page(viewport=size, color_scheme="dark")
            page.goto(file.as_uri(), timeout=120_000)
            still = "([t, near]) => { setPlaying(false); clock.set(t); page.scene.zoom(near); }"
            page.evaluate(still, [t, nearer])
            page.wait_for_timeout(1000)
            shot = Path(home) / f"{name}.png"
            clip = {"x": 240, "y": 170, "width": 720, "height": 390}
            page.screenshot(path=shot, clip=clip, timeout=120_000)
            parts.append(plt.imread(shot)[..., :3])
    pixels = (255 * np.concatenate(parts, axis=1)).astype(np.uint8)
    small = Image.fromarray(pixels).resize((1000, 271), Image.Resampling.LANCZOS)
    small.save(folder / "contact-forces.png", optimize=True)
    print("written: docs/pictures/contact-forces.png")


def live_page(folder: Path) -> None:
    """A live page in chromium: an arm that a hand pulls."""
    import tempfile

    import phipsi as pp

    arm = pp.examples.seven_joint_arm()
    hold = pp.control.ComputedTorque(arm, [0.3, 0.7, 0.0, 0.9, 0.0, 0.6, 0.0], kp=30, kd=8)
    sim = pp.Simulator(arm, [hold], dt=1e-3, reproducible=True)
    with tempfile.TemporaryDirectory() as home, chromium() as browser:
        q = [0.3, 0.7, 0.0, 0.9, 0.0, 0.6, 0.0]
        file = pp.live_page(sim, Path(home) / "arm.html", q=q, title="An arm, live", play=False)
        page = browser.new_page(viewport={"width": 1180, "height": 720}, color_scheme="light")
        page.goto(file.as_uri(), timeout=120_000)
        page.wait_for_selector("#live[data-ready]", timeout=120_000)
        page.evaluate(
            """() => { const live = page.live, physics = live.physics;
            page.scene.onDrag.start(physics.description.bodies[5], [0, 0, 0.05]);
            const at = physics.pointInWorld(5, [0, 0, 0.05]);
            page.scene.onDrag.move([at[0] - 0.1, at[1] - 0.3, at[2] + 0.25]); live.set(true); }"""
        )
        page.wait_for_timeout(20_000)
        page.screenshot(path=folder / "live-page.png", timeout=120_000)
    print("written: docs/pictures/live-page.png")


def pages(folder: Path) -> None:
    """Pages in chromium: a humanoid with its meshes, dark and light, and facts about a body."""
    import tempfile
    import warnings
    from importlib.metadata import files

    pp = phipsi
    (path,) = [f for f in files("example-robot-data") or () if f.name == "talos_full_v2.urdf"]
    file = Path(str(path.locate()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        talos = pp.load(file, package_dirs=[file.parents[2]])
    pose = dict(zip(talos.joint_names, talos.neutral(), strict=True))
    for side, sign in (("left", 1), ("right", -1)):
        pose[f"arm_{side}_2_joint"] = 0.3 * sign
        pose[f"arm_{side}_4_joint"] = -1.5 if side == "left" else -0.4
        for joint, angle in (("3", -0.5), ("4", 1.0), ("5", -0.5)):
            pose[f"leg_{side}_{joint}_joint"] = angle
    q = np.tile(list(pose.values()), (2, 1))
    stands = pp.Trajectory(talos, np.array([0.0, 1.0]), q, 0 * q, 0 * q)
    arm = pp.examples.planar_arm(3)
    pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    system = pp.System(arm, [pin])
    turns = pp.simulate(system, system.assemble([1.0, -1.0, -1.5]), np.zeros(3), 3.0)
    marks = "for (const x of ['axes', 'centreOfMass', 'inertia']) page.show(x, true);"
    facts = "page.scene.pan(120, 0); page.pick('link2'); page.show('labels', true);"
    canvas = {"x": 340, "y": 112, "width": 320, "height": 450}
    whole = {"x": 0, "y": 0, "width": 1000, "height": 600}
    shots: dict[str, list[np.ndarray]] = {}
    with tempfile.TemporaryDirectory() as home, chromium() as browser:
        for name, run, t, scheme, text, clip in (
            ("page-humanoid", stands, 0.0, "dark", "page.scene.zoom(0.95);", canvas),
            ("page-humanoid", stands, 0.0, "light", "page.scene.zoom(0.95);" + marks, canvas),
            ("page-facts", turns, 1.2, "light", facts, whole),
        ):
            where = Path(home) / "page.html"
            run.to_html(where, title="Four-bar" if run is turns else "Talos")
            size = {"width": 1000, "height": 800}
            page = browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce")
            page.goto(where.as_uri(), timeout=120_000)
            page.evaluate("t => { clock.set(t); " + text + " }", t)
            page.wait_for_timeout(2000)
            page.screenshot(path=Path(home) / "shot.png", clip=clip, timeout=120_000)
            shots.setdefault(name, []).append(plt.imread(Path(home) / "shot.png")[..., :3])
            page.close()
    from PIL import Image

    for name, parts in shots.items():
        pixels = 5 * np.rint(51 * np.concatenate(parts, axis=1)).astype(np.uint8)  # smaller files
        Image.fromarray(pixels).save(folder / f"{name}.png", optimize=True)
        print(f"written: docs/pictures/{name}.png")


def flexible_pages(folder: Path) -> None:
    """Pages in chromium: a mode of the craft of flexible.md, and a spacecraft with its panels."""
    import subprocess
    import tempfile

    from PIL import Image

    parts = []
    with tempfile.TemporaryDirectory() as home, chromium() as browser:
        modes, turn = Path(home) / "modes.html", Path(home) / "turn.html"
        after("flexible.md", "mode_shapes(craft)")["modes"].to_html(modes)
        subprocess.run([sys.executable, ROOT / "examples" / "flexible_spacecraft.py", turn],
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        for file, text in (
            (modes, "vibration.choose(9); page.scene.zoom(0.5);"),
            (
                turn,
                "clock.set(11.5); page.exaggerate(5); page.scene.zoom(0.85); "
                "Object.assign(page.scene.view, { turn: -1.2, tilt: 1.0 });",
            ),
        ):
            size = {"width": 760, "height": 640}
            page = browser.new_page(viewport=size, color_scheme="light", reduced_motion="reduce")
            page.goto(file.as_uri(), timeout=120_000)
            page.evaluate("() => { page.show('paths', false); " + text + " }")
            page.wait_for_timeout(2000)
            page.locator("#stage").screenshot(path=Path(home) / "shot.png", timeout=120_000)
            parts.append(plt.imread(Path(home) / "shot.png")[:420, :, :3])
            page.close()
    pixels = 5 * np.rint(51 * np.concatenate(parts, axis=1)).astype(np.uint8)  # smaller files
    high = round(1000 * pixels.shape[0] / pixels.shape[1])
    small = Image.fromarray(pixels).resize((1000, high), Image.Resampling.LANCZOS)
    small.save(folder / "flexible-pages.png", optimize=True)
    print("written: docs/pictures/flexible-pages.png")


def two_arms(folder: Path) -> None:
    """The beam of examples/two_arms.py in the hands of both arms."""
    import tempfile

    from PIL import Image

    example = runpy.run_path(str(ROOT / "examples" / "two_arms.py"))
    grasp, q, place = example["carriers"]()
    control = example["controlled"](grasp, place)
    run = phipsi.simulate(grasp, q, np.zeros(grasp.model.nv), 1.3, controller=control,
                          integrator="rk4", dt=2e-3)  # fmt: skip
    with tempfile.TemporaryDirectory() as home:
        phipsi.render(run, Path(home) / "arms.png", time=1.3)
        pixels = plt.imread(Path(home) / "arms.png")[40:700, 160:1200, :3]
    pixels = 5 * np.rint(51 * pixels).astype(np.uint8)  # smaller files
    small = Image.fromarray(pixels).resize((560, 355), Image.Resampling.LANCZOS)
    small.save(folder / "two-arms.png", optimize=True)
    print("written: docs/pictures/two-arms.png")


def live(folder: Path) -> None:
    """The live pages of the gallery in chromium, small."""
    import tempfile

    from PIL import Image

    sys.path.insert(0, str(ROOT / "docs" / "site"))
    pages = importlib.import_module("live_pages").PAGES
    with tempfile.TemporaryDirectory() as home, chromium() as browser:
        for name, _, _, make in pages:
            file, shot = Path(home) / f"{name}.html", Path(home) / f"{name}.png"
            make(file)
            page = browser.new_page(viewport={"width": 1000, "height": 700})
            page.goto(file.as_uri(), timeout=120_000)
            page.wait_for_timeout(2000)
            page.locator("canvas").first.screenshot(path=shot, timeout=120_000)
            page.close()
            whole = Image.open(shot).convert("RGB")
            side = min(whole.width, round(whole.height * 1.5))
            left = (whole.width - side) // 2
            part = whole.crop((left, 0, left + side, whole.height)).resize((360, 240))
            few = part.quantize(256, Image.Quantize.MAXCOVERAGE)
            few.save(folder / f"live-{name}.png", optimize=True)
            print(f"written: docs/pictures/live-{name}.png")


def machines(folder: Path) -> None:
    """Machine elements in chromium, from the page of a run, and the valve train of an example."""
    import subprocess
    import tempfile

    from PIL import Image

    look = "([t, turn, tilt, away, x, z]) => { setPlaying(false); clock.set(t); "
    look += (
        "const v = page.scene.view; Object.assign(v, { turn, tilt, away }); v.target.set(x, 0, z); "
    )
    look += "page.scene.show({ labels: false, forces: false, paths: false }); }"
    with tempfile.TemporaryDirectory() as home, chromium() as browser:
        file = Path(home) / "elements.html"
        phipsi.report(_machine_elements(), file)
        train = Path(home) / "train.html"
        subprocess.run([sys.executable, ROOT / "examples" / "cam_follower.py", train], check=True)
        for name, source, view in (
            ("machines", file, [0.8, -1.5, 0.1, 2.3, -0.02, 0.1]),
            ("cam-follower", train, [1.85, -1.0, 0.2, 0.3, 0.0, 0.012]),
        ):
            page = browser.new_page(viewport={"width": 1300, "height": 900}, color_scheme="dark")
            page.goto(source.as_uri(), timeout=120_000)
            page.evaluate(look, view)
            page.wait_for_timeout(1500)
            shot = Path(home) / f"{name}.png"
            page.locator("canvas").first.screenshot(path=shot, timeout=120_000)
            page.close()
            whole = Image.open(shot).convert("RGB")
            whole = whole.crop((0, 40, whole.width, whole.height - 80))
            size = 760, round(760 * whole.height / whole.width)
            small = whole.resize(size, Image.Resampling.LANCZOS)
            small.quantize(128).save(folder / f"{name}.png", optimize=True)
            print(f"written: docs/pictures/{name}.png")


def _machine_elements() -> phipsi.Trajectory:
    """Gear pairs, bevel and inside a ring too, a planetary gear, rack, belt, screw and cam."""
    c, b = phipsi.constraints, phipsi.ModelBuilder(gravity=(0, -9.81, 0))
    inertia = phipsi.SpatialInertia(0.5, (0, 0, 0), 0.01)

    def add(name: str, x: float, y: float, **more: Any) -> None:
        where = phipsi.Pose(None, (x, y, 0))
        b.add_body(name, placement=where, inertia=inertia, **more)

    places = {
        "pinion": (0, 0), "wheel": (0.28, 0), "sun": (0.85, 0), "ring": (0.85, 0),
        "arm": (0.85, 0), "steering": (0, -0.45), "pulley0": (0.5, -0.45), "pulley1": (0.85, -0.32),
        "pulley2": (0.9, -0.6), "camshaft": (1.4, -0.1), "inner": (1.25, -0.52),
        "outer": (1.35, -0.52),
    }  # fmt: skip
    for name, (x, y) in places.items():
        add(name, x, y)
    for i in range(3):
        angle = 0.5 + 2 * np.pi * i / 3
        add(f"planet{i}", 0.12 * np.cos(angle), 0.12 * np.sin(angle), parent="arm")
    slides = phipsi.joints.Prismatic
    add("rack", 0, -0.45, joint=slides((1, 0, 0)))
    add("spindle", 0.45, 0.3, joint=phipsi.joints.Revolute((1, 0, 0)))
    add("nut", 0.35, 0.3, joint=slides((1, 0, 0)), limits=(0, 0.3))
    add("valve", 1.4, 0.0, joint=slides((0, 1, 0)))
    add("bevel0", 1.44, 0.29, joint=phipsi.joints.Revolute((1, 0, 0)))
    add("bevel1", 1.34, 0.23, joint=phipsi.joints.Revolute((0, 1, 0)))
    listed = [
        c.Gear(name="pair", driver="pinion", driven="wheel", teeth=(20, 50)),
        c.Gear(name="ring", driver="inner", driven="outer", teeth=(20, 40), internal=True),
        c.Planetary(
            name="stage",
            sun="sun",
            ring="ring",
            carrier="arm",
            teeth=(24, 60),
            planet=("planet0", "planet1", "planet2"),
        ),
        c.Gear(name="bevel", driver="bevel0", driven="bevel1", teeth=(20, 32)),
        c.RackPinion(name="rack", pinion="steering", rack="rack", radius=0.08),
        c.Belt(name="belt", pulleys=("pulley0", "pulley1", "pulley2"), radii=(0.1, 0.06, 0.08)),
        c.Screw(name="screw", spindle="spindle", nut="nut", lead=0.02),
        c.Cam(lambda a, y: y - 0.03 * (1 - np.cos(a)), name="cam", joints=("camshaft", "valve")),
    ]
    rates = {
        "pinion": 2.0, "sun": 3.0, "ring": 0.4, "steering": 1.0, "pulley0": 2.0, "spindle": 12.0,
        "camshaft": 2.5, "inner": 2.0, "bevel0": 1.0,
    }  # fmt: skip
    drives = [c.Motor(name=f"drive of {n}", joint=n, rate=rate) for n, rate in rates.items()]
    system = phipsi.System(b.build(), [*listed, *drives])
    q, v = system.project(system.neutral(), np.zeros(system.nv))
    return phipsi.simulate(system, q, v, 1.5, rtol=1e-6)


def swing_up() -> plt.Figure:
    """The pole in a hundred runs of the policy that examples/train_cart_pole.py trains."""
    sys.path.insert(0, str(ROOT / "examples"))
    example = importlib.import_module("train_cart_pole")
    policy = example.train(40, show=lambda line: None)
    env = phipsi.gym.cart_pole_swing_up(100, limit=20.0)
    seen, _ = env.reset(seed=10_000)
    angles = []
    for _ in range(250):
        seen = env.step(policy(example.scaled(seen)))[0]
        angles.append(np.degrees(np.abs(np.arctan2(seen[:, 3], seen[:, 2]))))
    low, middle, high = np.percentile(angles, [5, 50, 95], axis=1)
    t = 0.04 * np.arange(1, 251)
    figure, axes = plt.subplots(figsize=(6.0, 2.6), layout="constrained")
    axes.fill_between(t, low, high, alpha=0.3, lw=0, label="5 % to 95 % of 100 new starts")
    axes.plot(t, middle, label="median")
    axes.axhline(10, color="0.5", lw=0.8, ls="--", label="10°")
    axes.set(xlabel="t (s)", ylabel="from upright (°)", xlim=(0, 10), ylim=(0, 180))
    axes.legend(frameon=False, loc="upper right")
    return figure


def one_controller() -> plt.Figure:
    """The first joint of a thousand arms that one controller holds."""
    names = after("controller-testing.md", "settled")
    run, settled = names["many"], names["settled"]
    figure, axes = plt.subplots(figsize=(6.0, 2.6), layout="constrained")
    for shown, color, label in ((settled, "C0", "settles"), (~settled, "C3", "does not settle")):
        for k, i in enumerate(np.flatnonzero(shown)[:25]):
            axes.plot(run.t[i], run.q[i, :, 0], color=color, lw=0.5, label=None if k else label)
    axes.axhline(names["pose"][0], color="0.5", lw=0.8, ls="--", label="target")
    axes.set(xlabel="t (s)", ylabel="joint1 (rad)", xlim=(0, run.t[0, -1]))
    axes.legend(frameon=False, loc="lower left")
    return figure


def trot() -> str:
    """The quadruped of examples/trotting_quadruped.py as a moving picture: one period, repeated.

    The camera goes along with the mean speed, so that the last frame is followed by the first.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        names = runpy.run_path(str(ROOT / "examples" / "trotting_quadruped.py"))
    run, model, period = names["run"], names["model"], names["PERIOD"]
    last = len(run.t) - 1
    first = last - round(period / names["DT"])
    frames = np.linspace(first, last, 41).round().astype(int)
    q = run.q[frames]
    drift = (q[-1] - q[0])[4:6]
    phase = np.linspace(0.0, 1.0, len(frames))[:, None]
    q[:, 4:6] -= q[0, 4:6] + phase * drift
    poses = phipsi.poses(model, q)
    scale, width, height, slow = 330.0, 620, 330, 4.0

    def seen(points: np.ndarray) -> np.ndarray:
        """Pixels of points (..., 3) in the world: from the side, a little from above."""
        x, y, z = np.moveaxis(points, -1, 0)
        return np.stack(
            [width / 2 + scale * (x + 0.35 * y), height - 60 - scale * (z + 0.22 * y)], -1
        )

    def moving(tag: str, style: str, points: np.ndarray) -> str:
        """An element whose points (frames, k, 2) move."""
        values = ";".join(" ".join(f"{a:.1f},{b:.1f}" for a, b in frame) for frame in points)
        timing = f'dur="{slow * period}s" repeatCount="indefinite"'
        start = values.partition(";")[0]
        return (
            f'<{tag} points="{start}" {style}>'
            f'<animate attributeName="points" values="{values}" {timing}/></{tag}>'
        )

    def origin(body: str, offset: tuple[float, float, float] = (0, 0, 0)) -> np.ndarray:
        pose = poses[:, model.body_names.index(body)]
        return pose[:, :3, 3] + pose[:, :3, :3] @ np.array(offset)

    def leg(name: str, colour: str) -> list[str]:
        foot = origin(f"{name}_knee", (0, 0, -0.3))
        joints = np.stack([origin(f"{name}_hip_pitch"), origin(f"{name}_knee"), foot], axis=1)
        force = run.contacts[f"{name}_foot|ground"].force[frames]
        arrow = np.stack([foot, foot + 6e-4 * force], axis=1)
        line = 'fill="none" stroke-linecap="round" stroke-linejoin="round" stroke'
        return [
            moving("polyline", f'{line}="{colour}" stroke-width="15"', seen(joints)),
            moving("polyline", f'{line}="#e8590c" stroke-width="4"', seen(arrow)),
        ]

    hips = {"rear_left": -0.06, "front_left": 0.06, "front_right": 0.06, "rear_right": -0.06}
    corners = [origin(f"{name}_hip_pitch") + (beyond, 0, 0) for name, beyond in hips.items()]
    low = np.stack(corners, axis=1) - np.array([0, 0, 0.05])
    top = low + np.array([0, 0, 0.14])
    joined = 'stroke-linejoin="round" stroke-width="10"'
    side = np.stack([low[:, 3], low[:, 2], top[:, 2], top[:, 3]], axis=1)
    parts = [part for name in ("rear_left", "front_left") for part in leg(name, "#8fb3d9")]
    parts += [
        moving("polygon", f'fill="#4a7fb5" stroke="#4a7fb5" {joined}', seen(top)),
        moving("polygon", f'fill="#2f6299" stroke="#2f6299" {joined}', seen(side)),
    ]
    parts += [part for name in ("rear_right", "front_right") for part in leg(name, "#1f4a7a")]
    gap = scale * drift[0] / 2  # two marks of the ground pass in a period
    marks = "".join(
        f'<path d="M{k * gap:.1f} {height - 40} l60 -40" stroke="#c9ced6" stroke-width="2"/>'
        for k in range(-1, round(width / gap) + 3)
    )
    shift = f'values="0 0;{-2 * gap:.1f} 0" dur="{slow * period}s" repeatCount="indefinite"'
    speed = drift[0] / period
    words = f"{speed:.2f} m/s, shown {slow:.0f} times slower; orange: forces of the ground"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">',
            "<title>A quadruped trots over a plane with friction</title>",
            f'<rect width="{width}" height="{height}" rx="10" fill="#fbfcfe"/>',
            f'<g>{marks}<animateTransform attributeName="transform" type="translate" {shift}/></g>',
            *parts,
            f'<text x="16" y="{height - 12}" font-family="sans-serif" font-size="14" '
            f'fill="#555">{words}</text>',
            "</svg>\n",
        ]
    )


def four_bar_reactions() -> plt.Figure:
    """The forces in the pins of the four-bar of the guide for designers."""
    return after("guides/mechanism-designer.md", "axes.legend")["figure"]


def flexible_modes() -> plt.Figure:
    """Modes of a boom that bends in one plane, and of the plate of the page."""
    import phipsi as pp

    boom = pp.FlexibleInertia.beam(10.0, 1.2, (1.4e4, np.inf), modes=2)
    plate = after("flexible.md", "MeshTet")["plate"]
    figure = plt.figure(figsize=(8.0, 4.2), layout="constrained")
    rows = figure.subfigures(2, 1, height_ratios=(1, 1.6))
    for k, axes in enumerate(rows[0].subplots(1, 4, sharey=True)):
        x, y = boom.shape.deformed(np.eye(boom.modes)[k])[:, :2].T
        axes.plot(x, y)
        axes.plot(x, 0 * x, color="0.6", lw=0.8)
        axes.set_title(f"{boom.frequencies[k]:.3g} rad/s", fontsize=9)
        axes.axis("off")
    for k in range(4):
        axes = rows[1].add_subplot(1, 4, k + 1, projection="3d")
        shape = plate.shape
        size = 0.08 / np.abs(shape.modes[..., k]).max()
        points = shape.deformed(size * np.eye(plate.modes)[k])
        height = points[:, 2]
        axes.plot_trisurf(*points.T, triangles=shape.triangles, cmap="viridis", lw=0.1,
                          edgecolor="0.3", rasterized=True)  # fmt: skip
        axes.set(zlim=(min(-0.08, height.min()), max(0.08, height.max())))
        axes.set_box_aspect((4, 3, 1.6))
        axes.set_title(f"{plate.frequencies[k]:.4g} rad/s", fontsize=9, pad=0)
        axes.axis("off")
    return figure


def flexible_spacecraft() -> plt.Figure:
    """The tip of a panel in examples/flexible_spacecraft.py, for both torques."""
    sys.path.insert(0, str(ROOT / "examples"))
    with contextlib.redirect_stdout(io.StringIO()):
        example: Any = importlib.import_module("flexible_spacecraft")
    figure, axes = plt.subplots(figsize=(6.0, 2.6), layout="constrained")
    for name in ("switched", "smoothed"):
        q, _ = example.turn(example.model, getattr(example, name))
        times = example.STEP * np.arange(len(q))
        axes.plot(times[::5], 1000 * example.swing(example.model, q)[::5], lw=1, label=name)
    axes.axvline(example.END, color="0.5", lw=0.8, ls="--")
    axes.set(xlabel="t (s)", ylabel="deflection (mm)", xlim=(0, times[-1]))
    axes.legend(frameon=False, loc="upper left")
    return figure


def spinning_beam() -> plt.Figure:
    """Frequencies of a beam that spins, in its plane of rotation and out of it."""
    import phipsi as pp

    def lowest(plane: str, stiffening: bool, spin: float) -> float:
        planes = (1.0, np.inf) if plane == "chord" else (np.inf, 1.0)
        body = pp.FlexibleInertia.beam(1.0, 1.0, planes, modes=4, stiffening=stiffening)
        axis = np.array([0.0, 0.0, spin])
        # the centrifugal forces are ½ ω* (∂J/∂η) ω
        K = body.stiffness - np.einsum("a,abij,b->ij", axis, body.J2, axis) / 2
        square = np.linalg.eigvalsh(K)[0]
        return float(np.sqrt(square)) if square > 0 else np.nan

    spins = np.linspace(0, 12, 61)
    figure, axes = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
    for plane, color in (("flap", "C0"), ("chord", "C1")):
        for stiffening, style in ((True, "-"), (False, ":")):
            curve = [lowest(plane, stiffening, spin) for spin in spins]
            label = f"{plane}, {'with' if stiffening else 'without'} shortening"
            axes.plot(spins, curve, style, color=color, label=label)
    exact = {"flap": ((2, 4.1373196), (6, 7.3603730), (12, 13.170150)),
             "chord": ((2, 3.6217970), (6, 4.2632254))}  # fmt: skip
    for plane, color in (("flap", "C0"), ("chord", "C1")):
        axes.plot(
            *np.transpose(exact[plane]), "o", color=color, mfc="none", label=f"{plane}, exact"
        )
    axes.set(xlabel="rate of rotation (√(EI/ρA L⁴))", ylabel="lowest frequency", ylim=(0, 14))
    axes.legend(frameon=False, fontsize=8, ncols=2)
    return figure


def study_docking() -> plt.Figure:
    """How far the hand of the free-flyer ends from the port, and which draws cause it."""
    found = runpy.run_path(str(ROOT / "examples" / "study_docking.py"))["study"].run()
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 2.8), layout="constrained")
    left.hist(1e3 * found["error"], bins=60)
    left.axvline(25, color="C3")
    left.set(xlabel="distance from the port (mm); taken within 25", ylabel="runs")
    shares = sorted(found.sobol_indices("error").items(), key=lambda x: x[1].total)
    names = [name for name, _ in shares]
    right.barh(names, [100 * x.total for _, x in shares], color="0.8", label="with others")
    right.barh(names, [100 * max(x.alone, 0.0) for _, x in shares], label="alone")
    right.set(xlabel="share of the variance (%)")
    right.legend(frameon=False)
    return figure


def study_reach() -> plt.Figure:
    """How often the tool reaches its place, and how far from it it ends, by payload."""
    found = runpy.run_path(str(ROOT / "examples" / "study_reach.py"))["study"].run()
    masses = found["draw.payload"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 2.8), layout="constrained")
    for low in np.arange(0.0, 5.0, 0.25):
        there = (masses >= low) & (masses < low + 0.25)
        hits, n = found["reached"][there].sum(), there.sum()
        ends = beta.ppf([0.025, 0.975], [hits + 0.5, hits + 0.5], n - hits + 0.5)  # Jeffreys
        left.plot([low + 0.125] * 2, 100 * ends, color="C0")
        left.plot(low + 0.125, 100 * hits / n, "o", ms=3, color="C0")
    left.set(xlabel="payload (kg); planned: 1", ylabel="runs that reach (%)")
    right.scatter(masses, 1e3 * found["error"], s=2, rasterized=True)
    right.axhline(20, color="C3")
    right.set(xlabel="payload (kg)", ylabel="distance at the end (mm)")
    return figure


PICTURES = {
    "four-bar-reactions": four_bar_reactions,
    "flexible-modes": flexible_modes,
    "spinning-beam": spinning_beam,
    "flexible-spacecraft": flexible_spacecraft,
    "one-controller": one_controller,
    "thousand-arms": thousand_arms,
    "swing-up": swing_up,
    "study-docking": study_docking,
    "study-reach": study_reach,
}


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        draw().savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
        print(f"written: docs/pictures/{name}.svg")
    (FOLDER / "trot.svg").write_text(trot(), encoding="utf-8")
    print("written: docs/pictures/trot.svg")
    walking_robot(FOLDER)
    workbench(FOLDER)
    live_page(FOLDER)
    contact_forces(FOLDER)
    pages(FOLDER)
    flexible_pages(FOLDER)
    two_arms(FOLDER)
    live(FOLDER)
    machines(FOLDER)


if __name__ == "__main__":
    main()
