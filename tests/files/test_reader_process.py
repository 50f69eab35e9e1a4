"""MuJoCo's reader in a process of its own: what goes wrong there is an error here, and no more."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phipsi.errors import FileError, ModelError
from phipsi.files.load import load
from phipsi.files.mjcf.read_mjcf import READERS

SUPPORT = Path(__file__).parents[1] / "support"
MACHINE = Path(__file__).parent / "data" / "machine.xml"


@pytest.fixture
def bad_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader that has the fault that the name of the model asks for."""
    end()
    monkeypatch.syspath_prepend(str(SUPPORT))
    monkeypatch.setattr(READERS, "module", "bad_worker")
    yield
    end()


def end() -> None:
    with READERS.lock:
        READERS._end()  # pyright: ignore[reportPrivateUsage]


def written(folder: Path, name: str = "good") -> Path:
    path = folder / f"{name}.xml"
    path.write_text(
        f'<mujoco model="{name}"><worldbody><body name="a"><joint name="j"/><geom size="0.1"/>'
        "</body></worldbody></mujoco>"
    )
    return path


def worker_id() -> int:
    assert READERS.process is not None
    return READERS.process.pid


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be buried does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def waits_until_gone(pid: int) -> None:
    for _ in range(600):
        if not is_alive(pid):
            return
        time.sleep(0.05)
    raise AssertionError("the process is still there")


def test_both_ways_give_the_same_model():
    here, there = load(MACHINE, isolate=False), load(MACHINE)
    assert here.to_dict() == there.to_dict()
    assert here.geometry == there.geometry and here.joint_properties == there.joint_properties
    assert [str(f) for f in here.diagnosis] == [str(f) for f in there.diagnosis]


def test_the_process_is_kept(tmp_path: Path):
    load(written(tmp_path))
    first = worker_id()
    with pytest.raises(ModelError, match="MuJoCo says"):
        path = tmp_path / "wrong.xml"
        path.write_text("<mujoco><worldbody><bdy/></worldbody></mujoco>")
        load(path)
    load(written(tmp_path))
    assert worker_id() == first


FAULTS = {
    "segfault": "ended with signal SIGSEGV at this file",
    "abort": "ended with signal SIGABRT at this file",
    "exit": "ended with exit code 7 at this file",
    "nonsense": "an invalid message",
}


@pytest.mark.usefixtures("bad_worker")
def test_a_fault_of_the_reader_is_an_error_that_names_the_file(tmp_path: Path):
    good = written(tmp_path)
    for fault, words in FAULTS.items():
        path = written(tmp_path, fault)
        before = load(good) and worker_id()
        with pytest.raises(FileError, match=words) as caught:
            load(path)
        assert str(caught.value).startswith(f"{path}:1: <mujoco>: ")
        assert load(good).nv == 1 and worker_id() != before
        waits_until_gone(before)


@pytest.mark.usefixtures("bad_worker")
def test_a_file_does_not_suffer_from_the_one_before(tmp_path: Path):
    assert load(written(tmp_path, "poison")).nv == 1
    poisoned = worker_id()
    assert load(written(tmp_path)).nv == 1 and worker_id() != poisoned


@pytest.mark.usefixtures("bad_worker")
def test_time_and_memory_are_limited(tmp_path: Path):
    slow, large = written(tmp_path, "sleep"), written(tmp_path, "memory")
    load(written(tmp_path))
    with pytest.raises(FileError, match=r"more than 0\.2 s .*\n.*max_seconds=2\)"):
        load(slow, max_seconds=0.2)
    if sys.platform == "linux":
        with pytest.raises(FileError, match=r"more memory .* 100,000,000 .*\n.*max_memory=4000000"):
            load(large, max_memory=100_000_000)
    assert load(large, max_memory=1_000_000_000).nv == 1
    for name in ("max_seconds", "max_memory"):
        for value in (0, -1, float("inf"), float("nan"), "1"):
            with pytest.raises(ModelError, match=name):
                given: dict[str, Any] = {name: value}
                load(slow, **given)


@pytest.mark.usefixtures("bad_worker")
def test_the_process_makes_no_noise_and_no_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert load(written(tmp_path, "noise")).nv == 1
    with pytest.raises(FileError, match="exit code 1"):
        load(written(tmp_path, "write"))
    assert list(here.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_threads_take_turns(tmp_path: Path):
    paths = [written(tmp_path, f"m{k}") for k in range(4)]
    found: list[str] = []

    def work(path: Path) -> None:
        found.extend(load(path).name for _ in range(5))

    threads = [threading.Thread(target=work, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(f"m{k}" for k in range(4) for _ in range(5))


def test_where_processes_are_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*given: object, **named: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    end()
    path = written(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(FileError) as caught:
        load(path)
    call = str(caught.value).splitlines()[-1].strip()
    assert "Operation not permitted" in str(caught.value)
    assert call == f"pp.load({str(path)!r}, isolate=False)"
    import phipsi as pp

    assert eval(call, {"pp": pp}).nv == 1


@pytest.mark.parametrize(
    ("program", "words"),
    [("", "frozen"), ("/nowhere/python", "No such file"), ("/bin/echo", "could not be started")],
)
def test_where_there_is_no_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, words: str
):
    end()
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(FileError, match=words):
        load(written(tmp_path))
    monkeypatch.undo()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(FileError, match="isolate=False"):
        load(written(tmp_path))


def test_the_current_folder_gives_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    end()
    for name in ("mujoco.py", "json.py", "phipsi.py"):
        (tmp_path / name).write_text("raise SystemExit('code of a stranger')")
    monkeypatch.chdir(tmp_path)
    assert load(written(tmp_path)).nv == 1


@pytest.mark.parametrize("isolate", [True, False])
def test_without_mujoco(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolate: bool):
    end()
    stand_in = tmp_path / "early"
    stand_in.mkdir()
    (stand_in / "mujoco.py").write_text("raise ImportError('it is not here')")
    monkeypatch.syspath_prepend(str(stand_in))
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    with pytest.raises(FileError, match=r"\(it is not here\)\. Install it:\n.*phipsi\[mjcf\]"):
        load(written(tmp_path), isolate=isolate)
    end()


# ---- programs -----------------------------------------------------------------------------------


def program(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Run a script without a `__main__` guard."""
    head = f"""
    import os, signal, sys, threading, time
    sys.path[:0] = {[p for p in sys.path if p] + [str(SUPPORT)]!r}
    from phipsi.files.mjcf.read_mjcf import READERS
    from phipsi.files.load import load
    def wait_until_asleep():
        while not os.path.exists(os.environ["BAD_WORKER_SLEEPS"]): time.sleep(0.01)
    def interrupt_when_asleep():
        def wait():
            wait_until_asleep()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=wait, daemon=True).start()
    """
    source = textwrap.dedent(head) + textwrap.dedent(code)
    command = [sys.executable, "-W", "error", "-c", source, *map(str, arguments)]
    pipe, begun = subprocess.PIPE, Path(str(arguments[0])).parent / "asleep"
    env = {**os.environ, "BAD_WORKER_SLEEPS": str(begun)}
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_no_process_is_left(tmp_path: Path, how: str):
    code = """
    load(sys.argv[1])
    print(READERS.process.pid, flush=True)
    if sys.argv[2] == "is killed":
        time.sleep(100)
    """
    run = program(code, written(tmp_path), how)
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    if how == "is killed":
        run.kill()
    assert run.communicate(timeout=60)[1] == ""
    waits_until_gone(pid)


def test_no_process_is_left_at_work(tmp_path: Path):
    """A reader that never comes back ends itself when its program is gone."""
    code = """
    READERS.module = "bad_worker"
    load(sys.argv[1])
    print(READERS.process.pid, flush=True)
    load(sys.argv[2], max_seconds=0.5)
    """
    run = program(code, written(tmp_path), written(tmp_path, "sleep"))
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    while not (tmp_path / "asleep").exists() and run.poll() is None:
        time.sleep(0.01)
    run.kill()
    run.communicate()
    waits_until_gone(pid)


def test_ctrl_c_ends_a_load_and_the_next_one_works(tmp_path: Path):
    code = """
    READERS.module = "bad_worker"
    load(sys.argv[1])
    first = READERS.process.pid
    interrupt_when_asleep()
    try:
        load(sys.argv[2])
    except KeyboardInterrupt:
        print("interrupted")
    print(load(sys.argv[1]).nv, READERS.process.pid != first)
    """
    run = program(code, written(tmp_path), written(tmp_path, "sleep"))
    assert run.communicate(timeout=60) == ("interrupted\n1 True\n", "")


def test_a_load_inside_a_load_does_not_wait_for_itself(tmp_path: Path):
    code = """
    READERS.module = "bad_worker"
    load(sys.argv[1])
    def handle(*_):
        try: load(sys.argv[1])
        except Exception as error: print("waits for the answer to another request" in str(error))
    signal.signal(signal.SIGINT, handle)
    interrupt_when_asleep()
    try: load(sys.argv[2], max_seconds=2)
    except Exception as error: print("max_seconds" in str(error))
    """
    run = program(code, written(tmp_path), written(tmp_path, "sleep"))
    assert run.communicate(timeout=60) == ("True\nTrue\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_starts_a_process_of_its_own(tmp_path: Path):
    """Also while another thread of the parent is in the middle of a load."""
    code = """
    READERS.module = "bad_worker"
    load(sys.argv[1])
    first = READERS.process.pid
    child = os.fork()
    if child == 0:
        os._exit(0 if load(sys.argv[1]).nv == 1 and READERS.process.pid != first else 1)
    print(os.waitpid(child, 0)[1], load(sys.argv[1]).nv, READERS.process.pid == first)
    def wait():
        try: load(sys.argv[2], max_seconds=1)
        except Exception: pass
    thread = threading.Thread(target=wait)
    thread.start()
    wait_until_asleep()
    child = os.fork()
    if child == 0:
        os._exit(0 if load(sys.argv[1]).nv == 1 else 1)
    print(os.waitpid(child, 0)[1])
    thread.join()
    """
    run = program(code, written(tmp_path), written(tmp_path, "sleep"))
    assert run.communicate(timeout=60) == ("0 1 True\n0\n", "")


def test_signals_reach_the_program(tmp_path: Path):
    """Ctrl-C on a terminal goes to both processes; the idle reader stays."""
    load(written(tmp_path))
    pid = worker_id()
    os.kill(pid, signal.SIGINT)
    assert load(written(tmp_path)).nv == 1 and worker_id() == pid
