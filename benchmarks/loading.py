"""Times of reading robot files: the Panda, a long chain, and every hostile file of the tests.

Writes the table into benchmarks/LOADING.md. Run by `make bench`.
"""

from __future__ import annotations

import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import phipsi as pp

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "files"))
ROBOTS = Path(sysconfig.get_paths()["purelib"]) / "cmeel.prefix/share/example-robot-data/robots"
PANDA = ROBOTS / "panda_description/urdf/panda.urdf"


def best(function: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs, in seconds."""
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def chain_urdf(n: int) -> str:
    """A chain of n revolute links."""
    inertial = (
        '<inertial><origin xyz="0 0 0.05"/><mass value="1"/>'
        '<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>'
    )
    links = [f'<link name="l{i}">{inertial}</link>' for i in range(n + 1)]
    joints = [
        f'<joint name="j{i}" type="continuous"><parent link="l{i}"/><child link="l{i + 1}"/>'
        f'<origin xyz="0 0 0.1"/><axis xyz="{i % 2} {1 - i % 2} 0"/></joint>'
        for i in range(n)
    ]
    return f'<robot name="chain">{"".join(links + joints)}</robot>'


def hostile_times(folder: Path) -> dict[str, float]:
    """How long each hostile file takes to be refused."""
    import test_hostile_files as hostile

    outside = folder / "outside"
    outside.mkdir(parents=True)
    (outside / "secret.stl").write_text("secret")
    out: dict[str, float] = {}
    for i, (name, (file, content)) in enumerate(hostile.HOSTILE.items()):
        place = folder / str(i)
        place.mkdir()
        (place / file).write_bytes(content)
        (place / "link.stl").symlink_to(outside / "secret.stl")
        (place / "out").symlink_to(outside)
        start = time.perf_counter()
        try:
            pp.load(place / file)
        except pp.errors.ModelError:
            out[name] = time.perf_counter() - start
        else:
            raise SystemExit(f"the hostile file {name!r} was not refused")
    return out


def main() -> None:
    """Measure and write the table."""
    warnings.simplefilter("ignore")
    rows: list[tuple[str, str, str]] = []
    if PANDA.exists():
        rows.append(
            (
                "Panda, without meshes",
                "< 100 ms",
                f"{1e3 * best(lambda: pp.load(PANDA), 20):.1f} ms",
            )
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n, goal in ((3000, "< 2 s"), (10000, "")):
            path = folder / f"chain{n}.urdf"
            path.write_text(chain_urdf(n))
            rows.append(
                (f"chain of {n} links", goal, f"{best(lambda p=path: pp.load(p), 3):.2f} s")
            )
        hostile_times(folder / "warm")
        times = hostile_times(folder / "measured")
    slowest = max(times, key=lambda k: times[k])
    rows.append(
        (
            f"{len(times)} hostile files rejected, the slowest ({slowest})",
            "< 100 ms",
            f"{1e3 * times[slowest]:.1f} ms",
        )
    )
    table = "\n".join(f"| {a} | {b} | {c} |" for a, b, c in rows)
    text = (
        "# Reading robot files\n\n"
        "How long phipsi takes to read robot files, or to reject hostile ones. Written by `make bench`.\n\n"
        f"| what | goal | measured |\n|---|---|---|\n{table}\n"
    )
    (ROOT / "benchmarks" / "LOADING.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
