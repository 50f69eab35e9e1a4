"""Runs as pictures and videos: the same bytes again, and clear words where a program is missing."""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

import phipsi as pp
from phipsi.cli.commands import app
from phipsi.errors import InputError
from phipsi.pages import render_run as rendering

image = pytest.importorskip("PIL.Image")
needs_browser = pytest.mark.skipif(
    not any(map(shutil.which, rendering._BROWSERS)), reason="needs chromium"
)


@pytest.fixture(scope="module")
def fall() -> pp.Trajectory:
    return pp.simulate(pp.examples.planar_arm(2), [0.3, 0.4], [0.0, 0.0], 0.5)


@needs_browser
def test_pictures_are_the_same_again_and_move(fall, tmp_path):
    first, last = rendering._pictures(rendering._browser(), fall, [0.0, 0.5], (160, 90), "dark")
    assert first != last
    picture = image.open(BytesIO(first))
    assert picture.size == (160, 90)
    colors = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    assert len(np.unique(colors, axis=0)) > 100
    fall.save(tmp_path / "fall.npz")
    words = [str(tmp_path / "fall.npz"), str(tmp_path / "out.png"), "--size", "160x90"]
    words += ["--theme", "dark", "--time", "0"]
    assert app(["render", *words], result_action="return_value") == 0
    assert (tmp_path / "out.png").read_bytes() == first  # alone, of a file, by another browser


def drawn(times: list[float], shade: int = 0) -> list[bytes]:
    out: list[bytes] = []
    for i in range(len(times)):
        room = BytesIO()
        image.new("RGB", (32, 18), (10 * i, shade, 200)).save(room, "PNG")
        out.append(room.getvalue())
    return out


@pytest.fixture
def plain_pictures(monkeypatch):
    """Pictures of one colour each, without a browser."""
    asked: list[float] = []

    def pictures(browser, run, times, size, theme):
        asked.extend(times)
        return iter(drawn(times))

    monkeypatch.setattr(rendering, "_pictures", pictures)
    monkeypatch.setattr(rendering, "_browser", lambda: "browser")
    return asked


def test_a_gif_has_a_picture_for_every_frame(fall, plain_pictures, tmp_path):
    path = fall.render(tmp_path / "fall.gif", fps=10, speed=0.5)
    assert np.allclose(plain_pictures, np.arange(11) * 0.05)
    moving = image.open(BytesIO(path.read_bytes()))
    assert (moving.n_frames, moving.info["duration"]) == (11, 100)
    first = path.read_bytes()
    assert fall.render(path, fps=10, speed=0.5).read_bytes() == first


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
@pytest.mark.parametrize("kind", ["mp4", "webm"])
def test_a_video(kind, fall, plain_pictures, tmp_path):
    path = fall.render(tmp_path / f"fall.{kind}", fps=10)
    first = path.read_bytes()
    assert len(first) > 500
    assert fall.render(path, fps=10).read_bytes() == first


def test_ffmpeg_gets_every_picture_and_its_error_is_reported(
    fall, plain_pictures, tmp_path, monkeypatch
):
    tools = tmp_path / "tools"
    tools.mkdir()
    program = tools / "ffmpeg"
    program.write_text('#!/bin/sh\nfor last; do :; done\ncat > "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    path = pp.render(fall, tmp_path / "fall.mp4", fps=4)
    assert path.read_bytes() == b"".join(drawn(plain_pictures))
    program.write_text("#!/bin/sh\ncat > /dev/null\necho no such codec >&2\nexit 3\n")
    with pytest.raises(InputError, match="no such codec"):
        pp.render(fall, tmp_path / "other.mp4")
    assert sorted(x.name for x in tmp_path.iterdir()) == ["fall.mp4", "tools"]


def test_words_where_a_program_is_missing(fall, tmp_path, monkeypatch):
    monkeypatch.setattr(rendering.shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="apt install chromium"):
        pp.render(fall, tmp_path / "fall.png")
    monkeypatch.setattr(rendering, "_browser", lambda: "browser")
    with pytest.raises(InputError, match=r"apt install ffmpeg.*fall\.gif"):
        pp.render(fall, tmp_path / "fall.mp4")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"path": "x.avi"}, r"\.png, \.gif, \.mp4 or \.webm"),
        ({"theme": "blue"}, "'light', 'dark'"),
        ({"size": (0, 5)}, "two numbers of pixels"),
        ({"size": "big"}, "two numbers of pixels"),
        ({"fps": 0.0}, "fps=0.0 must be a positive number"),
        ({"speed": 1e-9}, "pictures are more than"),
        ({"path": "x.png", "time": 3.0}, r"time=3 s is not in the trajectory, 0 … 0\.5 s"),
    ],
)
def test_bad_arguments(options, match, fall, plain_pictures, tmp_path):
    name = Path(options.pop("path", "x.gif"))
    with pytest.raises(InputError, match=match):
        pp.render(fall, tmp_path / name, **options)
    with pytest.raises(InputError, match="trajectory"):
        pp.render(fall.model, tmp_path / "x.gif")  # type: ignore[arg-type]
