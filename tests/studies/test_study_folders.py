"""Folders of studies that are damaged, hostile, just being started, or cut off early."""

import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amounts import ALL
from small_studies import same, small

import phipsi as pp
from phipsi.cli.run_commands import _describe
from phipsi.errors import InputError, ParseError, PhipsiError
from phipsi.studies import folder_lock
from phipsi.studies.block_sizes import BlockSizes, default_sizes
from phipsi.studies.folder_lock import LOCK, FolderLock
from phipsi.studies.study_folder import StudyFolder

# ---- damage --------------------------------------------------------------------------------------


def test_every_changed_byte_of_a_block_is_found_or_harmless(arm: pp.Simulator, tmp_path: Path):
    """Bits anywhere in the file, its end, and its length."""
    one = small(arm, runs=8)
    whole = one.run(tmp_path)
    folder = StudyFolder.open(tmp_path)
    good = folder.block_file(0).read_bytes()
    rng = np.random.default_rng(2)
    damaged = 0
    places = [*rng.choice(len(good), 20_000 if ALL else 250), *range(len(good) - 22, len(good))]
    for at in places:
        bad = bytearray(good)
        bad[at] ^= 1 << rng.integers(8)
        folder.block_file(0).write_bytes(bad)
        try:
            assert np.array_equal(folder.read_block(0)["q.final"], whole["q.final"])
        except ParseError as error:
            assert "Run the study again with this folder" in str(error)
            damaged += 1
    assert damaged > len(places) / 2
    for length in rng.choice(len(good), 20):
        folder.block_file(0).write_bytes(good[:length])
        with pytest.raises(ParseError, match="block 0: .* cannot be read"):
            folder.read_block(0)
    with pytest.warns(UserWarning, match="runs 0 … 7 are run again"):
        same(whole, one.run(tmp_path))


def archive(**members: Any) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members.items():
            with target.open(f"{name}.npy", "w", force_zip64=True) as member:
                head, zeros = content
                np.lib.format.write_array_header_1_0(member, head)
                member.write(bytes(zeros))
    return out.getvalue()


def hostile_blocks() -> dict[str, tuple[bytes, str]]:
    numbers = np.lib.format.header_data_from_array_1_0(np.zeros(8))
    stored = io.BytesIO()
    np.savez(stored, run=np.arange(8), x=np.array(["a"] * 8), y=np.arange(9))
    return {
        "unpacks to much": (
            archive(run=(numbers | {"shape": (8, 500_000)}, 32_000_000)),
            "cannot be read",
        ),
        "claims much": (archive(run=(numbers | {"shape": (8, 10**15)}, 64)), "cannot be read"),
        "negative": (archive(run=(numbers | {"shape": (8, -1)}, 64)), "cannot be read"),
        "no archive": (b"PK\x05\x06" + bytes(18), "checksum mismatch"),
        "other rows": (stored.getvalue(), "checksum mismatch"),
    }


@pytest.mark.parametrize("case", hostile_blocks())
def test_hostile_blocks_are_rejected_before_they_take_memory(
    case: str, arm: pp.Simulator, tmp_path: Path
):
    import tracemalloc

    one = small(arm, runs=8)
    one.run(tmp_path)
    content, message = hostile_blocks()[case]
    folder = StudyFolder.open(tmp_path)
    folder.block_file(0).write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ParseError, match=message):
        folder.read_block(0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
    with pytest.warns(UserWarning, match="runs 0 … 7 are run again"):
        assert one.run(tmp_path).complete


def test_a_manifest_that_lists_arrays_of_other_runs_is_found(arm: pp.Simulator, tmp_path: Path):
    """The digest is that of the arrays, but they are none of this study."""
    small(arm).run(tmp_path)
    folder = StudyFolder.open(tmp_path)
    for arrays, message in (
        ({"run": np.arange(9)}, "'run' has another shape"),
        ({"run": np.arange(1, 9), "x": np.zeros(8)}, "does not have the runs 0 … 7"),
        ({"x": np.zeros(8)}, "does not have the runs 0 … 7"),
    ):
        folder.done[0] = folder.write_block(0, arrays)
        folder.save()
        with pytest.raises(ParseError, match=message):
            pp.Study.results(tmp_path)["run"]
    folder.done[0] = folder.write_block(0, {"run": np.arange(8), "y": np.zeros(8)})
    folder.save()
    with pytest.raises(ParseError, match="block 1 .* has different arrays"):
        pp.Study.results(tmp_path)["y"]


def hostile_manifests() -> dict[str, Any]:
    """What is changed in a manifest: fields of its definition, or the whole text."""
    return {
        "deep": "[" * 100_000,
        "deep definition": {"initial_state": None},
        "no block": {"block": 0},
        "negative block": {"block": -3},
        "block is true": {"block": True},
        "many blocks": {"runs": 10**12, "block": 1},
        "huge runs": {"runs": 10**400},
        "infinite": {"runs": float("inf")},
        "text": {"runs": "8"},
        "no power of two": {"first_block": 3, "block": 8},
        "first block": {"first_block": 0},
        "distributions": {"distributions": {"q": {"values": 5}}},
        "distributions are a list": {"distributions": [1]},
        "record": {"record": [[1]]},
        "dt": {"dt": "fast"},
        "mechanism": {"mechanism": {}},
        "a list": "[]",
    }


@pytest.mark.parametrize("case", hostile_manifests())
def test_hostile_manifests_are_named(case: str, arm: pp.Simulator, tmp_path: Path):
    small(arm, runs=8).run(tmp_path)
    manifest = tmp_path / "manifest.json"
    read, change = json.loads(manifest.read_text()), hostile_manifests()[case]
    if isinstance(change, str):
        manifest.write_text(change)
    elif case == "deep definition":
        text = json.dumps(read).replace(
            '"initial_state": null', f'"initial_state": {"[" * 9000}{"]" * 9000}'
        )
        manifest.write_text(text)
    else:
        read["definition"] |= change
        manifest.write_text(json.dumps(read))
    with pytest.raises(ParseError, match=r"manifest\.json"):
        pp.Study.results(tmp_path)
    with pytest.raises(ParseError, match=r"manifest\.json"):
        small(arm, runs=8).run(tmp_path)


WRONG: list[Any] = [
    None, True, -1, 0, 10**400, 1e308, float("nan"), float("inf"), "", "$a", "\x1b[3", [], [[]], {},
    {"values": []}, {"values": 5}, [None], "0" * 64, 10**9, 3.5,
]  # fmt: skip


def places_in(x: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a manifest are."""
    if path:
        yield path
    rows = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    for key, value in rows:
        yield from places_in(value, (*path, key))


def test_mutants_of_manifests_are_read_or_named(
    arm: pp.Simulator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """One value anywhere is another one or gone; status prints whatever is read."""
    small(arm, runs=20, metrics=lambda run, samples: {"x": run.q[:, -1, 0]}).run(tmp_path)
    manifest = tmp_path / "manifest.json"
    text = manifest.read_text()
    places = list(places_in(json.loads(text)))
    rng, counts = random.Random(0), Counter[str]()
    for _ in range(5000 if ALL else 150):
        new = at = json.loads(text)
        *path, last = rng.choice(places)
        for key in path:
            at = at[key]
        if isinstance(at, dict) and rng.random() < 0.2:
            del at[last]
        else:
            at[last] = rng.choice(WRONG)
        manifest.write_text(json.dumps(new))
        try:
            _describe(pp.Study.results(tmp_path))
            counts["read"] += 1
        except PhipsiError:
            counts["named"] += 1
        capsys.readouterr()
    assert counts["read"] > 50 and counts["named"] > 20


@pytest.mark.parametrize("field", ["done", "quarantined", "sessions"])
def test_other_fields_of_a_manifest_are_checked(field: str, arm: pp.Simulator, tmp_path: Path):
    small(arm, runs=8).run(tmp_path)
    manifest = tmp_path / "manifest.json"
    read = json.loads(manifest.read_text())
    for wrong in (None, 3, [3], {"x": 1}, {"9999999": "0" * 64}, {"0": "00"}, [{"versions": 3}]):
        fine = field == "quarantined" and wrong in ({"9999999": "0" * 64}, {"0": "00"})
        manifest.write_text(json.dumps({**read, field: wrong}))
        if not fine:
            with pytest.raises(ParseError, match="a field is missing or of the wrong kind"):
                pp.Study.results(tmp_path)


def test_a_pipe_in_place_of_a_file_holds_nobody(arm: pp.Simulator, tmp_path: Path):
    small(arm, runs=8).run(tmp_path)
    for name, message in (
        ("block-0000000.npz", "not a regular file"),
        ("manifest.json", "not a regular file"),
    ):
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
        with pytest.raises(ParseError, match=message):
            pp.Study.results(tmp_path)["run"]


def test_too_many_blocks_are_rejected(arm: pp.Simulator):
    with pytest.raises(InputError, match=r"3000000 blocks .* pp.Study\(…, block=3\)"):
        small(arm, runs=3_000_000, block=1).run()


# ---- locks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", "other machine", "[" * 9000, "link", "pipe"])
def test_a_lock_whose_time_says_nothing_is_watched_and_taken_over(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(folder_lock, "_WATCH", 0.3)
    lock = tmp_path / LOCK
    if content == "link":
        lock.symlink_to(tmp_path / "nothing")
    elif content == "pipe":
        os.mkfifo(lock)
    else:
        about = {"pid": 1, "host": "another-machine", "token": "other"}
        lock.write_text(json.dumps(about) if content == "other machine" else content)
    then = time.time() + 1e6
    os.utime(lock, (then, then), follow_symlinks=False)
    began = time.monotonic()
    with pytest.warns(UserWarning, match="took over"), FolderLock(tmp_path):
        assert time.monotonic() - began < 2.0
    assert not lock.exists()


def test_a_lock_with_a_future_time_that_is_touched_is_respected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(folder_lock, "_WATCH", 5.0)
    lock = tmp_path / LOCK
    lock.write_text(json.dumps({"pid": 1, "host": "another-machine", "token": "other"}))
    then = time.time() + 1e6
    os.utime(lock, (then, then))
    touch = f"import os, time; time.sleep(0.3); os.utime({str(lock)!r})"
    with (
        subprocess.Popen([sys.executable, "-c", touch]),
        pytest.raises(InputError, match="in use by process 1 on another-machine, .* 0 s ago"),
        FolderLock(tmp_path),
    ):
        pass


# ---- beginnings ----------------------------------------------------------------------------------


def test_a_study_that_is_just_starting_is_not_taken_for_something_else(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist: no study has been started there"):
        pp.Study.results(tmp_path / "later")
    with FolderLock(tmp_path), pytest.raises(InputError) as error:
        pp.Study.results(tmp_path)
    who = f"process {os.getpid()} on {socket.gethostname()}"
    assert f"is being started by {who}: there are no results yet" in str(error.value)
    with pytest.raises(InputError, match="it is not the folder of a study"):
        pp.Study.results(tmp_path)


@pytest.mark.parametrize(("first", "largest"), [(1, 1), (8, 8), (8, 16), (8, 256), (3, 24)])
def test_blocks_that_grow_have_every_run_once(first: int, largest: int):
    sizes = BlockSizes(first, largest)
    assert sizes.is_fine
    for count in (1, 7, 8, 9, 16, 17, 255, 256, 257, 1000):
        blocks = [sizes.numbers_of(i, count) for i in range(sizes.blocks(count))]
        assert [i for x in blocks for i in x] == list(range(count))
        lengths = [len(x) for x in blocks]
        assert all(lengths) and max(lengths) <= largest
        done = np.cumsum(lengths)
        assert all(b <= max(a, first) for a, b in zip(done, lengths[1:], strict=False))


def test_blocks_are_smaller_where_runs_are_long():
    assert default_sizes(500, 7) == (8, 256) and default_sizes(10_000, 30) == (8, 8)
    assert default_sizes(1000, 20) == (8, 32) and default_sizes(0, 0) == (8, 256)


def test_blocks_by_default_do_not_change_a_bit(arm: pp.Simulator, tmp_path: Path):
    grown = small(arm, runs=100, block=None).run(tmp_path)
    assert [len(x["run"]) for x in grown._files()] == [8, 8, 16, 32, 36]
    same(small(arm, runs=100, block=100).run(), grown)


def test_a_kill_in_the_first_seconds_loses_little(tmp_path: Path):
    """Blocks of 256 runs would take five seconds: here the first runs are there at once."""
    text = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[1] / "support")!r})
import numpy as np, phipsi as pp
from chaotic_study import Logistic, make
def metrics(run, samples):
    time.sleep(0.02 * len(run.q))
    return {{}}
study = pp.Study(make, {{"q": Logistic([0.3, 0.0], 0.1)}}, steps=5, runs=10_000, metrics=metrics)
if __name__ == "__main__":
    study.run({str(tmp_path / "study")!r}, progress=False)
"""
    (tmp_path / "slow.py").write_text(text)
    driver = subprocess.Popen([sys.executable, str(tmp_path / "slow.py")])
    end, first = time.monotonic() + 60, tmp_path / "study" / "block-0000001.npz"
    while not first.exists() and time.monotonic() < end:
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    found = [x.name for x in sorted((tmp_path / "study").glob("block-*.npz"))]
    assert 2 <= len(found) <= 4
