"""`pp.render`: a trajectory as a picture or a video, drawn by a headless browser."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from phipsi.errors import InputError, one_of
from phipsi.pages.html_file import page_html
from phipsi.pages.recorded_scene import recorded_scene
from phipsi.pages.report_page import TRANSPORT
from phipsi.simulation import Trajectory, checked_time
from phipsi.support import atomic_write, checked_target, path_of

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_SWITCHES = (
    "--headless",
    "--dump-dom",
    "--hide-scrollbars",
    "--no-first-run",
    "--force-device-scale-factor=1",
    "--force-color-profile=srgb",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-gpu-compositing",  # the page around the scene, which is not in the picture
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
_AT_ONCE = 40  # pictures of one browser
_SECONDS = 300.0  # for them
_MOST = 20_000  # pictures
_FPS = 30.0  # of videos
_CODECS = {
    ".mp4": ("libx264", "-pix_fmt", "yuv420p", "-crf", "18", "-movflags", "+faststart"),
    ".webm": ("libvpx-vp9", "-pix_fmt", "yuv420p", "-crf", "30", "-b:v", "0"),
}
_KINDS = (".png", ".gif", *_CODECS)


def render(
    trajectory: Trajectory,
    path: str | os.PathLike[str],
    *,
    fps: float | None = None,
    speed: float | None = None,
    size: tuple[int, int] = (1280, 720),
    time: float | None = None,
    theme: str = "light",
) -> Path:
    """Render a trajectory as a video (.mp4, .webm, .gif) or as a picture (.png).

    The frames are those of the page of `report`, at times that depend on the arguments only: on one
    machine, the same trajectory gives identical files. Chromium or Chrome draws them, headless and
    without a network. Videos also need ffmpeg, GIFs need Pillow.

    Parameters
    ----------
    trajectory : Trajectory
        The trajectory, with at least one sample.
    path : str or path-like
        The file to write; its suffix is the format.
    fps : float, optional
        Frames per second of a video. Default: 30.
    speed : float, optional
        Playback speed of a video: 0.5 for half of real time. Default: 1.
    size : tuple of int, shape (2,), optional
        Width and height in pixels; videos round them down to even numbers. Default: (1280, 720).
    time : float, optional
        Time of a picture, s. Default: the last sample.
    theme : {"light", "dark"}, optional
        Colours of the background. Default: "light".

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    InputError
        If an argument has no effect on this format, or if a program is not installed; the message
        says how to install it.

    See Also
    --------
    report : The same animation as an HTML page.

    Notes
    -----
    **Cost:** about 0.1 s per frame.

    Examples
    --------
    >>> import phipsi as pp
    >>> fall = pp.simulate(pp.examples.planar_arm(2), [0.3, 0.4], [0.0, 0.0], 0.5)
    >>> pp.render(fall, "fall.avi")
    Traceback (most recent call last):
        ...
    phipsi.errors.InputError: 'fall.avi': a trajectory is rendered as .png, .gif, .mp4 or .webm...
    """
    target = path_of(path)
    kind = target.suffix.lower()
    if kind not in _KINDS:
        listed = f"{', '.join(_KINDS[:-1])} or {_KINDS[-1]}"
        raise InputError(f"{str(path)!r}: a trajectory is rendered as {listed}")
    if not isinstance(trajectory, Trajectory) or not len(trajectory):
        raise InputError(
            f"render needs a trajectory with samples first, not {type(trajectory).__name__}:\n"
            "    pp.render(pp.simulate(…), 'run.mp4')\n"
            "    pp.render(rollout.trajectory(0), 'run.mp4')"
        )
    one_of("theme", theme, ("light", "dark"))
    checked_target(target)
    times = _times(trajectory, fps, speed, time, still=kind == ".png")
    browser = _browser()
    wide, high = _size(size, even=kind in _CODECS)
    writers: dict[str, Any] = {".png": _png, ".gif": _gif}
    write = writers.get(kind, _video)
    if kind in _CODECS and shutil.which("ffmpeg") is None:
        raise InputError(
            f"{target.name}: writing videos requires ffmpeg, which is not installed. Install it "
            f"(apt install ffmpeg, brew install ffmpeg), or write {target.stem}.gif"
        )
    if kind == ".gif":
        _pillow()
    pictures = _pictures(browser, trajectory, times, (wide, high), theme)
    with atomic_write(target) as part:
        write(part, pictures, _FPS if fps is None else fps)
    return target


def _size(size: Any, *, even: bool) -> tuple[int, int]:
    try:
        wide, high = (int(x) for x in size)
    except (TypeError, ValueError):
        wide = high = 0
    if not (16 <= wide <= 7680 and 16 <= high <= 4320):
        raise InputError(f"size={size!r} must be two numbers of pixels, such as (1280, 720)")
    return (wide - wide % 2, high - high % 2) if even else (wide, high)  # as yuv420p needs it


def _times(
    trajectory: Trajectory,
    fps: float | None,
    speed: float | None,
    time: float | None,
    *,
    still: bool,
) -> list[float]:
    """When pictures are taken, s of the trajectory."""
    start, end = float(trajectory.t[0]), float(trajectory.t[-1])
    idle = {"fps": fps, "speed": speed} if still else {"time": time}
    for name, x in idle.items():
        if x is not None:
            what = "a picture shows one instant" if still else "a video shows the whole trajectory"
            fix = "name.mp4" if still else "name.png"
            raise InputError(f"{name}={x!r} has no effect: {what}. Remove it, or write {fix}")
    fps, speed = _FPS if fps is None else fps, 1.0 if speed is None else speed
    if still:
        at = end if time is None else checked_time(time, "time", backwards=True)
        if not start <= at <= end:
            raise InputError(f"time={at:g} s is not in the trajectory, {start:g} … {end:g} s")
        return [at]
    for name, x in (("fps", fps), ("speed", speed)):
        if not (isinstance(x, int | float | np.number) and 0 < x < np.inf):
            raise InputError(f"{name}={x!r} must be a positive number")
    count = int((end - start) * fps / speed * (1 + 1e-12)) + 1
    if count > _MOST:
        raise InputError(
            f"{count} pictures are more than {_MOST}. Render a part of the trajectory, or pass a "
            "lower fps= or a higher speed="
        )
    return [start + i * speed / fps for i in range(count)]


# ---- pictures ------------------------------------------------------------------------------------


def _browser() -> str:
    for name in _BROWSERS:
        found = shutil.which(name)
        if found:
            return found
    raise InputError(
        "rendering requires Chromium or Chrome, which is not installed. Install it (apt install "
        "chromium), or write a page instead:  pp.report(run, 'run.html')"
    )


def _pictures(
    browser: str,
    trajectory: Trajectory,
    times: Sequence[float],
    size: tuple[int, int],
    theme: str,
) -> Iterator[bytes]:
    """PNGs, one for each time."""
    data: dict[str, Any] = {
        "start": float(trajectory.t[0]),
        "end": float(trajectory.t[-1]),
        "events": [],
        "scene": recorded_scene(trajectory),
    }
    settings = {"width": size[0], "height": size[1], "theme": theme}
    for first in range(0, len(times), _AT_ONCE):
        some = list(times[first : first + _AT_ONCE])
        text = page_html(
            "render",
            {
                "data": {**data, "render": {**settings, "times": some}},
                "controls": TRANSPORT,
                "scripts": ["timeline.js", "render.js"],
            },
        )
        found = _drawn(browser, text, size)
        if len(found) != len(some):
            raise InputError(
                f"{Path(browser).name} drew {len(found)} of {len(some)} pictures: it may not "
                "support WebGL 2. Write a page instead:  pp.report(run, 'run.html')"
            )
        yield from found


def _drawn(browser: str, text: str, size: tuple[int, int]) -> list[bytes]:
    """The pictures of a page, which puts them into an element."""
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = Path(folder) / "page.html"
        page.write_text(text, encoding="utf-8")
        words = [browser, *_SWITCHES, *root, f"--window-size={size[0]},{size[1]}"]
        words += [f"--user-data-dir={folder}/profile", page.as_uri()]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{browser} cannot render: {error}") from error
    found = re.search(r'<pre id="pictures">([A-Za-z0-9+/=\s]*)</pre>', done.stdout)
    return [base64.b64decode(x) for x in found[1].split()] if found else []


# ---- files ---------------------------------------------------------------------------------------


def _png(part: Path, pictures: Iterator[bytes], fps: float) -> None:
    part.write_bytes(next(pictures))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            "writing GIFs requires Pillow, which is not installed:  pip install pillow"
        ) from error
    return Image


def _gif(part: Path, pictures: Iterator[bytes], fps: float) -> None:
    image = _pillow()
    frames = [
        image.open(BytesIO(x)).convert("RGB").quantize(128, dither=image.Dither.NONE)
        for x in pictures
    ]
    delay = max(20, round(100 / fps) * 10)  # ms; GIFs count hundredths of a second
    frames[0].save(
        part, format="GIF", save_all=True, append_images=frames[1:], duration=delay, loop=0
    )


def _video(part: Path, pictures: Iterator[bytes], fps: float) -> None:
    codec, *more = _CODECS[part.suffix.lower()]
    head = ["ffmpeg", "-v", "error", "-y", "-f", "image2pipe", "-framerate", f"{fps:g}", "-i", "-"]
    words = [
        *head,
        "-c:v",
        codec,
        *more,
        "-fflags",
        "+bitexact",
        "-flags:v",
        "+bitexact",
        str(part),
    ]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=said, stderr=said)
        assert process.stdin is not None
        try:
            for picture in pictures:
                process.stdin.write(picture)
            process.stdin.close()
        except BrokenPipeError:
            pass
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
        said.seek(0)
        if process.returncode:
            text = said.read().decode(errors="replace").strip()[-500:]
            raise InputError(f"ffmpeg could not write {part.suffix[1:]}: {text}")
