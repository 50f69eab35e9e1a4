"""Drivers of studies: locks, disks, workers that die, what is written where."""

import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_studies import same, small

import phipsi as pp
from phipsi.errors import InputError, SimulationError
from phipsi.studies import block_driver, folder_lock
from phipsi.studies.block_workers import Finished
from phipsi.studies.folder_lock import LOCK, FolderLock
from phipsi.studies.study_folder import StudyFolder

# ---- locks ---------------------------------------------------------------------------------------


def left_behind(folder: Path, pid: int, host: str, silent: float) -> None:
    """The lock of another driver, touched so many seconds ago."""
    folder.mkdir(exist_ok=True)
    (folder / LOCK).write_text(json.dumps({"pid": pid, "host": host, "token": "other"}))
    then = time.time() - silent
    os.utime(folder / LOCK, (then, then))


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as one:
        pass
    return one.pid


def test_two_drivers_know_of_each_other(arm: pp.Simulator, tmp_path: Path):
    with FolderLock(tmp_path), pytest.raises(InputError, match=f"process {os.getpid()} on "):
        small(arm).run(tmp_path)
    assert not (tmp_path / LOCK).exists()
    left_behind(tmp_path, 1, "another-machine", silent=10)
    with pytest.raises(InputError, match="in use by process 1 on another-machine, .* 10 s ago"):
        small(arm).run(tmp_path)
    assert (tmp_path / LOCK).exists()


@pytest.mark.parametrize("case", ["dead", "silent", "nonsense"])
def test_a_stale_lock_is_taken_over(case: str, arm: pp.Simulator, tmp_path: Path):
    if case == "dead":
        left_behind(tmp_path, ended_process(), socket.gethostname(), silent=0)
    else:
        left_behind(tmp_path, 1, "another-machine", silent=100)
    if case == "nonsense":
        (tmp_path / LOCK).write_text("{]")
        os.utime(tmp_path / LOCK, (0, 0))
    with pytest.warns(UserWarning, match="took over .* from process"):
        found = small(arm).run(tmp_path)
    assert found.complete and not list(tmp_path.glob("*driver*"))


def test_a_driver_that_lost_its_folder_stops(
    arm: pp.Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = small(arm).run()
    monkeypatch.setattr(folder_lock, "_BEAT", 0.0)

    def steal(done: float, total: float) -> None:
        if done >= 16:
            left_behind(tmp_path, 1, "another-machine", silent=0)

    with pytest.raises(InputError, match="taken over by process 1 on another-machine"):
        small(arm).run(tmp_path, workers=2, progress=steal)
    assert (tmp_path / LOCK).exists()  # it is that of the other one
    (tmp_path / LOCK).unlink()
    same(whole, small(arm).run(tmp_path))


def test_two_drivers_at_once_lose_no_block(tmp_path: Path):
    """One of them works; the other one says why it does not."""
    script = Path(__file__).parents[1] / "support" / "chaotic_study.py"
    (tmp_path / "log.go").touch()
    command = [sys.executable, str(script), str(tmp_path / "study"), str(tmp_path / "log"), "local"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    texts = [one.communicate()[1] for one in both]
    codes = sorted(one.returncode for one in both)
    assert codes in ([0, 1], [0, 0]), texts  # the second one may have begun after the first's end
    assert codes == [0, 0] or any("in use by process" in text for text in texts)
    assert pp.Study.results(tmp_path / "study").complete


# ---- disks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_is_reported_and_the_study_goes_on_later(
    workers: int, arm: pp.Simulator, tmp_path: Path
):
    """Files of the process may not become longer than the first blocks are."""
    s = small(arm, save=("final", "trajectory"), runs=60, block=30)
    whole, before = s.run(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, before[1]))
    try:
        with pytest.raises(InputError, match=r"runs \d+ … \d+ are computed, but .*too large"):
            s.run(tmp_path, workers=workers)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.glob(".*part*")) and not (tmp_path / LOCK).exists()
    same(whole, s.run(tmp_path, workers=workers))


def test_a_manifest_that_cannot_be_written(
    arm: pp.Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole, save = small(arm).run(), StudyFolder.save

    def full(self: StudyFolder) -> None:
        if len(self.done) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(self)

    monkeypatch.setattr("phipsi.studies.block_driver._SAVE_EVERY", 0.0)
    monkeypatch.setattr(StudyFolder, "save", lambda self: _as_disk(full, self))
    with pytest.raises(InputError, match="No space left on device. Blocks that are written are"):
        small(arm).run(tmp_path)
    monkeypatch.setattr(StudyFolder, "save", save)
    times = {f.name: f.stat().st_mtime_ns for f in tmp_path.glob("block-*")}
    same(whole, small(arm).run(tmp_path))
    assert len(times) >= 3 and all((tmp_path / n).stat().st_mtime_ns == t for n, t in times.items())


def _as_disk(call: Any, folder: StudyFolder) -> None:
    from phipsi.studies.study_folder import _unwritable

    try:
        call(folder)
    except OSError as error:
        raise _unwritable(folder.path / "manifest.json", error) from None


def test_a_folder_that_may_not_be_written_to(arm: pp.Simulator, tmp_path: Path):
    tmp_path.chmod(0o555)
    root = os.geteuid() == 0
    if root:  # who may write everywhere
        os.seteuid(65534)
    try:
        with pytest.raises(InputError, match="cannot be used: Permission denied"):
            small(arm).run(tmp_path)
        with pytest.raises(InputError, match="cannot be used: Permission denied"):
            small(arm).run(tmp_path / "inside")
    finally:
        if root:
            os.seteuid(0)
        tmp_path.chmod(0o755)


# ---- workers -------------------------------------------------------------------------------------


def noisy_death(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if (samples["x"] == 5.0).any():
        sys.stderr.write("the last words\n")
        os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def numbered(metrics: Any, arm: pp.Simulator, **options: Any) -> pp.Study:
    return pp.Study(
        arm, {"x": np.arange(16.0)}, metrics=metrics, steps=5,
        initial_state=lambda d: {"v": 0.1 * d["x"][:, None] + [0, 0]}, **options,
    )  # fmt: skip


def test_a_block_that_kills_its_worker_is_put_aside_with_its_log(arm: pp.Simulator, tmp_path: Path):
    with pytest.warns(UserWarning, match=r"runs 4 … 5 are quarantined: .*SIGSEGV\), 3 times"):
        found = numbered(noisy_death, arm, block=2).run(tmp_path, workers=2)
    log = found.quarantined[2]
    assert "the last words" in log and "Segmentation fault" in log and "noisy_death" in log
    assert len(found) == 14 and found.missing == [2]


def test_what_workers_write_to_standard_error_is_repeated(
    arm: pp.Simulator, capsys: pytest.CaptureFixture[str]
):
    def metrics(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        sys.stderr.write(f"from {samples['x'][0]:g}\n")
        return {}

    numbered(metrics, arm, block=4).run(workers=2)
    assert sorted(capsys.readouterr().err.split("\n")) == [
        "",
        "from 0",
        "from 12",
        "from 4",
        "from 8",
    ]


def always_killed(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def greedy(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"x": np.ones(1 << 32)}


@pytest.mark.parametrize(
    ("metrics", "limits", "message"),
    [
        (always_killed, {}, r"the first 8 runs .* same way.*\s+its process died \(SIGKILL\)"),
        (greedy, {"memory_limit": 8 << 30}, "needs more memory than memory_limit= allows"),
        (lambda run, d: {"x": d["y"]}, {}, r"raised KeyError: 'y' \(run \d+, test_study_dri"),
        (lambda run, d: {"x": 1.0}, {}, r"one row for each of 4 runs"),
        (
            lambda run, d: {"x": run.q[:, -1] + d["x"]},
            {},
            "raised ValueError: operands could not be",
        ),
        (lambda run, d: 1.0, {}, "returned float; it must return arrays by name"),
    ],
)
@pytest.mark.filterwarnings("ignore:runs .* quarantined")
def test_a_study_that_fails_from_the_first_block_on_is_stopped(
    metrics: Any, limits: Any, message: str, arm: pp.Simulator
):
    with pytest.raises(SimulationError, match=message):
        numbered(metrics, arm, block=4).run(workers=2, retries=1, **limits)


def test_errors_that_are_not_the_same_do_not_stop_a_study(arm: pp.Simulator, tmp_path: Path):
    def metrics(run: Any, samples: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if samples["x"][0] == 0:
            raise ValueError("first")
        if samples["x"][0] == 1:
            raise KeyError("second")
        return {"x": samples["x"]}

    with pytest.warns(UserWarning) as warned:
        found = numbered(metrics, arm, block=1).run(tmp_path)
    assert ["quarantined" in str(x.message) for x in warned] == [True, True]
    assert found.missing == [0, 1] and len(found) == 14


# ---- what the manifest says ----------------------------------------------------------------------


def test_versions_and_machines_are_kept(arm: pp.Simulator, tmp_path: Path):
    small(arm).run(tmp_path)
    manifest = tmp_path / "manifest.json"
    read = json.loads(manifest.read_text())
    (session,) = read["sessions"]
    assert session["versions"]["numpy"] == np.__version__ and session["processor"]
    assert socket.gethostname() in session["machine"]
    session["versions"]["numpy"] = "1.0"
    manifest.write_text(json.dumps(read))
    with pytest.warns(UserWarning, match="computed with numpy 1.0, now"):
        small(arm).run(tmp_path)
    assert len(StudyFolder.open(tmp_path).sessions) == 2


def test_damaged_blocks_can_be_left_out(arm: pp.Simulator, tmp_path: Path):
    whole = small(arm).run(tmp_path)
    file = StudyFolder.open(tmp_path).block_file(3)
    bits = bytearray(file.read_bytes())
    bits[bits.index(whole["q.final"][24].tobytes())] ^= 1
    file.write_bytes(bits)
    with pytest.warns(UserWarning, match="block 3: .* skipped"):
        found = pp.Study.results(tmp_path, check=True)
    assert found.missing == [3] and len(found) == 42 and not found.complete
    with pytest.warns(UserWarning, match="runs 24 … 31 are run again: block 3"):
        same(whole, small(arm).run(tmp_path))


def test_results_are_short_to_read(arm: pp.Simulator):
    found = small(arm, metrics=lambda r, d: {"x": d["q"][:, 0]}).run()
    assert (
        repr(found.estimate("x")).startswith("<estimate 0.") and len(repr(found.estimate("x"))) < 80
    )
    assert found.reason(3) == ""


# ---- many blocks ---------------------------------------------------------------------------------


class ManyBlocks:
    """A study without physics, for the driver alone."""

    def __init__(self, blocks: int) -> None:
        self.count = self.blocks = blocks
        lists = {"seed": 0, "sampling": "random", "record": [], "save": []}
        self.definition = {"runs": blocks, "block": 1, "distributions": {}, **lists}

    def numbers_of(self, block: int) -> range:
        return range(block, block + 1)

    def run_block(self, block: int) -> dict[str, np.ndarray]:
        return {"run": np.array([block]), "status": np.zeros(1)}

    def compile(self) -> None:
        pass


class Echo:
    """Workers that are done at once, without files."""

    def __init__(self) -> None:
        self.given: list[int] = []

    @property
    def free(self) -> int:
        return 4 - len(self.given)

    def submit(self, block: int) -> None:
        self.given.append(block)

    def results(self, patience: float) -> list[Finished]:
        out = [Finished(block, f"{block:064x}") for block in self.given]
        self.given.clear()
        return out

    def close(self) -> None:
        pass


def test_the_driver_needs_some_bytes_for_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """41 bytes, reserved at the beginning; a dictionary of digests would need 200 and more."""
    monkeypatch.setattr(block_driver, "LocalWorkers", lambda job, count, **limits: Echo())
    monkeypatch.setattr(block_driver, "_SAVE_EVERY", 0.01)

    def grown(blocks: int) -> tuple[float, float]:
        during: list[int] = []

        def progress(done: float, total: float) -> None:
            if done in (0.2 * total, 0.9 * total):
                during.append(tracemalloc.get_traced_memory()[0])

        tracemalloc.start()
        study: Any = ManyBlocks(blocks)
        block_driver.run_study(
            study, tmp_path / str(blocks), workers=2, executor="local", retries=2,
            time_limit=None, memory_limit=None, shared_folder=False, progress=progress,
        )  # fmt: skip
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak, during[1] - during[0]

    few, many = grown(2000), grown(10_000)
    assert (many[0] - few[0]) / 8000 < 90  # with the list of blocks of the results
    assert many[1] < 20_000
