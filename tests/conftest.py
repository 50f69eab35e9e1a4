"""Settings shared by all tests."""

import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Where Python is told to leave no bytecode, every process would compile all it imports again, and
# hundreds are started: here it is kept, in a folder of the tools and not beside the sources. First
# of all, before the imports below.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import mujoco
import pytest
from _pytest.doctest import DoctestItem, DoctestModule
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Collected only where it is named: it needs PyTorch, JAX and Stable-Baselines3, which
# `make test-bridges` installs into an environment of its own.
collect_ignore = ["learning/bridges"]

# A shell ignores interrupts of what it starts in the background, and what it starts inherits that:
# runs that tests interrupt would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What is imported and collected stays: until all of it is there, hardly any garbage is looked for.
gc.set_threshold(1_000_000, 20, 20)

# Thousands of small programs are compared; most run on the reference backend, which needs no
# machine code. The tests of the native backend name it.
os.environ.setdefault("PHIPSI_BACKEND", "reference")
# Most programs run a few times: the bits are the same, and LLVM needs a quarter of the time.
# tests/native compiles as users do.
os.environ.setdefault("PHIPSI_LLVM_EFFORT", "0")

# What every pass of the compiler makes is checked (core/sweeps/verify.py).
os.environ.setdefault("PHIPSI_CHECK", "1")

# All code of one run is kept, for the processes of the run and for the next one, beside the code
# that the user's own programs need.
os.environ.setdefault("PHIPSI_CACHE", os.path.expanduser("~/.cache/phipsi-tests"))
os.environ.setdefault("PHIPSI_CACHE_MB", "1024")

# "ci" draws the same examples in every run, so a red test stays red until it is repaired.
# "explore" draws new ones:  pytest --hypothesis-profile=explore
# No deadline and no too_slow check: a timing is a benchmark, never a test.
settings.register_profile(
    "ci",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore",
    derandomize=False,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")

# Hypothesis also draws numbers and texts that it finds in the modules that are loaded, which are
# not the same ones when a test runs alone, or after others. Here it finds none.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants  # which stay empty


# ---- nothing is left behind ----------------------------------------------------------------------

ROOT = Path(__file__).parents[1]
_OWN = {".pytest_cache", ".hypothesis", "__pycache__"}  # of the tools
_BEFORE = set(os.listdir(ROOT))
# Examples in the documentation write into temporary folders: all go into one. `tmp_path` is where
# it always is, and kept for those who look for what went wrong.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
_TEMPORARY = tempfile.mkdtemp(prefix="phipsi-tests-")
os.environ["TMPDIR"] = tempfile.tempdir = _TEMPORARY
# MuJoCo writes its warnings about robots into a file in the current folder, unless it is told
# where else they go.
mujoco.set_mju_user_warning(lambda message: None)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.fixture
def machine_code(monkeypatch: pytest.MonkeyPatch):
    """What is compiled runs as users run it; for tests that run it often."""
    monkeypatch.setenv("PHIPSI_BACKEND", "native")


@pytest.fixture(scope="module")
def machine_code_of_module() -> Iterator[None]:
    """The same for tests that share what they run, by fixtures of their module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHIPSI_BACKEND", "native")
        yield


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch):
    """Nothing is compiled, whatever the folder does: for tests that run each program once."""
    monkeypatch.setenv("PHIPSI_BACKEND", "reference")


@pytest.fixture
def full_effort(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """LLVM optimises the code, but for tests with the mark `quick_code`.

    Those compile as all other tests do: without optimisation, which gives the same bits
    (tests/native/test_native_bits.py) in a quarter of the time, or in full with
    PHIPSI_LLVM_EFFORT=3, as in `make fuzz`.
    """
    if request.node.get_closest_marker("quick_code") is None:
        monkeypatch.setenv("PHIPSI_LLVM_EFFORT", os.environ.get("PHIPSI_BACKEND_TESTS_EFFORT", "3"))


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's chromium, without a screen, for the tests of pages."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: scripts/system_packages.sh installs it")
    # only WebGL is drawn by the slow stand-in for a graphics processor, not the page around it
    software = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
                "--disable-gpu-compositing"]  # fmt: skip
    with api.sync_playwright() as play:
        one = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *software])
        plain = one.new_page

        def patient(**options: Any) -> Any:
            """A page of a browser that may share the machine with much else."""
            tab = plain(**options)
            tab.set_default_timeout(120_000)
            return tab

        one.new_page = patient
        yield one
        one.close()


def pytest_collection_finish() -> None:
    """Modules and tests live to the end of the run: the garbage collector need not visit them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="module", autouse=True)
def _what_is_kept_is_not_visited_again():
    """Caches grow to millions of objects, and collecting garbage would visit all of them.

    What is left of the modules before is garbage, which goes, or lives to the end of the run.
    """
    gc.collect()
    gc.freeze()


# ---- collecting, in several processes ------------------------------------------------------------

_WORKER = os.environ.get("PYTEST_XDIST_WORKER")


class _Backwards(pytest.Dir):
    """A folder whose last file is collected first."""

    def collect(self):
        return reversed(list(super().collect()))


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Of two processes one begins at the end: where they meet, each reads what the other compiled.

    In an empty clone every test file is rewritten and compiled, which takes as long as collecting.
    """
    if _WORKER is None or int(_WORKER.removeprefix("gw")) % 2 == 0:
        return None
    return _Backwards.from_parent(parent, path=path)


class _OnlyFilesWithExamples:
    """To find examples pytest imports a module and looks at each of its names: most have none."""

    @staticmethod
    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(file_path: Path):
        found = yield
        if b">>> " in file_path.read_bytes():
            return found
        return [one for one in found if not isinstance(one, DoctestModule)]


class _RunsInMachineCode:
    """Examples in docstrings of these folders run for thousands of steps: as users run them."""

    folders = tuple(
        ROOT / "src" / "phipsi" / "simulation" / x
        for x in ("forces", "simulate", "compiled", "modes", "trajectory")
    )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item):
        if not isinstance(item, DoctestItem) or not self.folders_have(item.path):
            return (yield)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PHIPSI_BACKEND", "native")
            return (yield)

    def folders_have(self, path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in self.folders)


def pytest_configure(config: pytest.Config) -> None:
    """For all folders; what stands in this file by itself is for the tests only."""
    config.pluginmanager.register(_OnlyFilesWithExamples())
    config.pluginmanager.register(_RunsInMachineCode())
    if os.environ.get("CI") and sys.platform == "linux":
        pytest.importorskip = _imported  # some packages are not on other systems


def _imported(name: str, *_: Any, **__: Any) -> Any:
    """The module: where commits are checked, a missing package is an error."""
    return importlib.import_module(name)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All processes have one order."""
    if _WORKER is not None:
        here = Path(__file__).parent
        items.sort(key=lambda item: (not item.path.is_relative_to(here), item.path.parts))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Temporary files are removed; a run that leaves files in the repository is red."""
    shutil.rmtree(_TEMPORARY, ignore_errors=True)
    left = set(os.listdir(ROOT)) - _BEFORE - _OWN
    if left and not hasattr(session.config, "workerinput"):  # once, after the workers
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"\nthe tests left in {ROOT}: {', '.join(sorted(left))}")
