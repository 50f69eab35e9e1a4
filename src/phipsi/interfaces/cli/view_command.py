"""`phipsi view` and `phipsi render`: pages with physics inside; runs as pictures and videos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phipsi.interfaces.cli.common import SOURCE, Source, command, complain, say
from phipsi.interfaces.cli.simulate_command import Several, Vector


@command
def view(
    file: Path,
    /,
    *,
    out: Path | None = None,
    set: Several = None,
    ratings: bool = False,
    ground: bool = False,
    gravity: Vector = None,
    dt: float | None = None,
    meshes: bool = True,
    open: bool = True,
    source: Source = SOURCE,
) -> int:
    """Write a live page: sliders, a hand that pulls, and the compiled dynamics in the browser.

    For example

        phipsi view seven_joint_arm

        phipsi view humanoid --ratings --out humanoid.html --no-open

    The page is one file that needs no network. It stands still at first; the space bar lets time go
    on. A scenario (.toml) runs with its springs and controllers, without its events.

    Parameters
    ----------
    file
        A robot file (URDF, SDF, MJCF), a robot that ships with phipsi, or a scenario (.toml).
    out
        The page to write, by default the name of the file with -live.html behind it.
    set
        Initial coordinate of a joint, in rad or m, as for phipsi simulate.
    ratings
        Apply damping, friction and joint limits that the file gives.
    ground
        Bodies with shapes touch each other and the ground z = 0.
    gravity
        Three numbers, m/s², world axes; by default those of the robot.
    dt
        The step, s; by default 1e-3, with contacts 2e-3.
    meshes
        Draw the meshes of the file.
    open
        Open the page in the browser.
    """
    from phipsi.errors import InputError
    from phipsi.interfaces.page.live_page import live_page
    from phipsi.interfaces.scenarios.joint_values import assignments, initial_state
    from phipsi.simulation.simulator import Simulator

    if file.suffix.lower() == ".npz":
        raise InputError(
            f"{file}: this is a recording; phipsi view is for mechanisms that move on the page. "
            f"A video of it:  phipsi render {file.name} {file.stem}.mp4  A page of it, in Python:  "
            f'pp.Trajectory.load("{file.name}").to_html("{file.stem}.html")'
        )
    stated = assignments(set or (), "--set")
    laws: list[Any] = []
    if file.suffix.lower() == ".toml":
        from phipsi.interfaces.scenarios.load_scenario import load_scenario

        for name, value in {"base": source.base, "model": source.model}.items():
            if value is not None:
                raise InputError(f"--{name} is for robot files; in a scenario say it in the file.")
        scenario = load_scenario(file, package_dirs=source.package_dirs, coordinates=stated)
        model, q, v = scenario.model, scenario.q0, scenario.v0
        laws = [*scenario.forces, *([scenario.controller] if scenario.controller else [])]
        dt = scenario.dt if dt is None else dt
        if scenario.events:
            complain("the events of the scenario are not on the page")
    else:
        model = source.robot(file)
        q, v = initial_state(model, (stated, {}, None))
    if gravity is not None:
        model = model.with_gravity(gravity)
    if ground:
        from phipsi.algorithms.constrained.system import System
        from phipsi.model.contact_pairs import Contacts

        model = System(model.model, model.constraints, contacts=Contacts(model, ground=True))
    touches = model.contact_pairs is not None
    if ratings:
        from phipsi.forces import from_ratings

        laws += from_ratings(model, exact=touches)
    integrator = "time_stepping" if touches else "rk4"
    step = (2e-3 if touches else 1e-3) if dt is None else dt
    simulator = Simulator(model, laws, step, integrator=integrator, reproducible=True)
    target = out or Path(f"{file.stem}-live.html")
    title = getattr(model.model, "name", "") or file.stem
    page = live_page(simulator, target, q=q, v=v, title=title, play=False, meshes=meshes)
    say(f"{page}: {page.stat().st_size / 1e6:.1f} MB, {integrator}, steps of {step:g} s")
    if open:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    return 0


@command
def render(
    file: Path,
    out: Path,
    /,
    *,
    fps: float | None = None,
    speed: float | None = None,
    size: str = "1280x720",
    time: float | None = None,
    theme: str = "light",
) -> int:
    """Draw a recorded run as a video (.mp4, .webm, .gif) or as a picture (.png).

    For example

        phipsi simulate seven_joint_arm --set shoulder_pitch=60deg --duration 2 --out fall.npz

        phipsi render fall.npz fall.mp4 --speed 0.5

        phipsi render fall.npz fall.png --time 1.5 --size 1920x1080

    Chromium or Chrome draws, without a screen; ffmpeg encodes videos, Pillow GIFs.

    Parameters
    ----------
    file
        A recording (.npz) of phipsi simulate or of trajectory.save.
    out
        The file to write.
    fps
        Pictures per second of the video.
    speed
        1 is real time, 0.5 half of it.
    size
        Pixels, width x height.
    time
        Of the picture, s; by default the last one.
    theme
        light or dark.
    """
    from phipsi.errors import InputError
    from phipsi.interfaces.page.render_run import render as draw
    from phipsi.trajectory.trajectory import Trajectory

    wide, _, high = size.partition("x")
    if not (wide.isdigit() and high.isdigit()):
        raise InputError(f"--size {size}: write it as 1280x720")
    pixels = int(wide), int(high)
    if file.suffix.lower() in (".urdf", ".sdf", ".xml", ".mjcf", ".toml"):
        raise InputError(
            f"{file}: this is a mechanism or a scenario; render draws a recorded run of it:  "
            f"phipsi simulate {file} --out {file.stem}.npz  and then  "
            f"phipsi render {file.stem}.npz {out}"
        )
    run = Trajectory.load(file)
    written = draw(run, out, fps=fps, speed=speed, size=pixels, time=time, theme=theme)
    say(f"{written}: {written.stat().st_size / 1e6:.2f} MB")
    return 0
