"""The moving picture at the top of the README: a Unitree Go2 trots, drawn by `pp.render`.

    python scripts/walking_robot.py          writes docs/pictures/go2.gif

The robot and its meshes come from example-robot-data (the extra `bench`). The controller is that of
examples/trotting_quadruped.py: joint PD control along legs that swing in diagonal pairs. Needs
Chromium and ffmpeg.
"""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from importlib.metadata import files
from pathlib import Path

import numpy as np

import phipsi as pp

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
PERIOD, BEND, SWING, LIFT = 0.36, 0.75, 0.19, 0.5  # s, rad
KP, KD, RADIUS, DT = 250.0, 5.0, 0.022, 1e-3
LEGS = ("FL", "FR", "RL", "RR")
SHOWN, PASSED, SLOWER, FPS, WIDTH = 2, 4, 2.5, 16, 420
FILTER = (
    f"trim=start_frame={{first}}:end_frame={{last}},setpts=PTS-STARTPTS,"
    f"crop=680:420:200:70,scale={WIDTH}:-1:flags=lanczos,split[a][b];[a]palettegen=max_colors=36:stats_mode=full[p];"
    "[b][p]paletteuse=dither=none:diff_mode=rectangle"
)


def robot() -> pp.System:
    """The file of the robot, with a sphere at each foot that touches the ground."""
    (found,) = [f for f in files("example-robot-data") or () if f.name == "go2.urdf"]
    file = Path(str(found.locate())).resolve()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its collision meshes are not needed
        model = pp.load(file, base="free", package_dirs=[file.parents[2]])
        for leg in LEGS:
            foot = pp.Pose(None, (0, 0, -0.213))
            model = model.with_shape(f"{leg}_sole", f"{leg}_calf", pp.shapes.Sphere(RADIUS), foot)
        pairs = [(f"{leg}_sole", "ground") for leg in LEGS]
        contacts = pp.Contacts(model, ground=True, pairs=pairs, material=pp.Material(0.8))
    return pp.System(model, contacts=contacts)


@pp.law
def trot(t, q, v):
    """Torques at the joints: legs swing to and fro, and bend while they swing forward."""
    starts = np.minimum(t / PERIOD, 1.0)  # the first swing is small
    targets = []
    for pair in (0.0, np.pi, np.pi, 0.0):
        phase = 2 * np.pi / PERIOD * t + pair
        hip = BEND - starts * SWING * np.cos(phase)
        knee = -2 * BEND - starts * LIFT * np.maximum(-np.sin(phase), 0.0)
        targets += [0.0 * t, hip + 0.5 * (-2 * BEND - knee), knee]
    return KP * (np.stack(targets) - q) - KD * v


def walk(system: pp.System) -> pp.Trajectory:
    """The last periods of a trot; the camera follows a robot that travels far enough."""
    joints = [f"{leg}_{part}_joint" for leg in LEGS for part in ("hip", "thigh", "calf")]
    sim = pp.Simulator(system, trot.on(joints), DT, integrator="time_stepping")
    q = system.neutral().copy()
    for leg in LEGS:
        q[system.model.q_slice(f"{leg}_thigh_joint")] = BEND
        q[system.model.q_slice(f"{leg}_calf_joint")] = -2 * BEND
    q[6] -= pp.contact_points(system, q).gap.min()  # it stands on the ground
    period = round(PERIOD / DT)
    run = sim.rollout(sim.initial_state(q), steps=18 * period, record_every=4)
    last = slice(-(PASSED * period) // 4 - 1, None)
    return pp.Trajectory(system, run.t[last], run.q[last], run.v[last], 0 * run.v[last])


def walking_robot(folder: Path) -> None:
    """Write the picture: the strides at the end, which begin again."""
    with tempfile.TemporaryDirectory() as home:
        video = Path(home) / "go2.mp4"
        pp.render(walk(robot()), video, fps=FPS, speed=1 / SLOWER, size=(1040, 560))
        count = round(SHOWN * PERIOD * SLOWER * FPS)
        passed = round(PASSED * PERIOD * SLOWER * FPS)
        text = FILTER.format(first=passed - count, last=passed)
        words = ["ffmpeg", "-loglevel", "error", "-y", "-i", video, "-vf", text, "-loop", "0"]
        subprocess.run([*words, folder / "go2.gif"], check=True)
    print("written: docs/pictures/go2.gif")


if __name__ == "__main__":
    walking_robot(FOLDER)
