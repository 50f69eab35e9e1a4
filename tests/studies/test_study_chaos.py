"""Workers and drivers are killed, nodes differ: nothing is lost, and not a bit changes."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from amounts import ALL
from chaotic_study import BLOCK, RUNS, blocks_in, study
from small_studies import same

import phipsi as pp

KILLED = {"local": (4, 1), "dask": (1, 1)}
"""Workers and drivers that are killed in `make test`; 20 and 3 in `make fuzz`."""
SCRIPT = Path(__file__).parents[1] / "support" / "chaotic_study.py"
AHEAD = {"local": 1, "dask": 2}
"""Blocks that a worker has at a time."""
PATIENCE = {"local": 2.0, "dask": 30.0}
"""Seconds in which workers surely have started."""


def workers_of(pid: int) -> list[int]:
    """The worker processes of a driver, without the process that looks after resources."""
    command = ["ps", "-o", "pid=,args=", "--ppid", str(pid)]
    found = subprocess.run(command, capture_output=True, text=True).stdout
    return [int(x.split()[0]) for x in found.splitlines() if "resource_tracker" not in x]


@pytest.mark.skipif(not hasattr(os, "fork") or not Path("/bin/ps").exists(), reason="needs ps")
@pytest.mark.parametrize("executor", ["local", "dask"])
@pytest.mark.filterwarnings("ignore:took over")
def test_killed_workers_and_drivers_lose_nothing(executor: str, tmp_path: Path):
    """Results are those of an undisturbed run, and only blocks in flight are run again."""
    if executor == "dask":
        pytest.importorskip("distributed")
    most_workers, most_drivers = (20, 3) if ALL else KILLED[executor]
    rng = random.Random(1)
    folder, log = tmp_path / "study", tmp_path / "log"
    command = [sys.executable, str(SCRIPT), str(folder), str(log), executor]
    errors = os.open(tmp_path / "errors", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    workers = drivers = 0
    killed: set[int] = set()
    deadline = time.monotonic() + (900 if ALL else 240)
    driver, seen, since = subprocess.Popen(command, stderr=errors), 0, time.monotonic()
    while drivers < most_drivers or workers < most_workers:
        said = (tmp_path / "errors").read_text()
        assert time.monotonic() < deadline and driver.poll() is None, said
        time.sleep(rng.uniform(0.02, 0.1))
        alive = [x for x in workers_of(driver.pid) if x not in killed]
        done = len(blocks_in(log)) if log.exists() else 0
        patient = time.monotonic() - since < PATIENCE[executor]  # until another block is done
        if len(alive) < 2 or not done or (done == seen and patient):
            continue
        seen, since = done, time.monotonic()
        if drivers == most_drivers or workers * (most_drivers + 1) < most_workers * (drivers + 1):
            killed.add(one := rng.choice(alive))
            os.kill(one, signal.SIGKILL)
            workers += 1
        else:
            for one in (
                driver.pid,
                *(alive if drivers % 2 else ()),
            ):  # or workers end by themselves
                os.kill(one, signal.SIGKILL)
            driver.wait()
            drivers += 1
            driver = subprocess.Popen(command, stderr=errors)
    (tmp_path / "log.go").touch()
    assert driver.wait(120) == 0
    os.close(errors)
    same(study().run(), pp.load_study(folder, check=True))
    done = blocks_in(log)
    assert set(done) == set(range(RUNS // BLOCK))
    again = len(done) - len(set(done))
    in_flight = (most_workers + 2 * most_drivers) * AHEAD[executor]
    assert again <= in_flight, f"{again} blocks ran twice"


def test_a_cluster_of_unlike_nodes_that_loses_one_gives_the_same_bits(tmp_path: Path):
    """Nodes with vectors of 2, 4 and 8 numbers; this process has those of its processor."""
    distributed = pytest.importorskip("distributed")
    folder, log = tmp_path / "study", tmp_path / "log"

    def node(lanes: int) -> dict[str, Any]:
        env = {"PHIPSI_LANES": str(lanes)}
        return {"cls": distributed.Nanny, "options": {"nthreads": 1, "env": env}}

    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": None}}
    with (
        distributed.SpecCluster(
            {lanes: node(lanes) for lanes in (2, 4, 8)}, scheduler, silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):  # fmt: skip
        victim = client.run(os.getpid)
        killed = []

        def progress(done: float, total: float) -> None:
            if done > RUNS / 4 and not killed:
                killed.append(next(iter(victim.values())))
                os.kill(killed[0], signal.SIGKILL)

        unlike = study(str(log), reproducible=True)
        found = unlike.run(folder, executor=client, progress=progress)
    assert killed and found.complete
    same(study(reproducible=True).run(), found)
    assert len({line.split()[1] for line in log.read_text().splitlines()}) >= 2
    done = blocks_in(log)
    assert set(done) == set(range(RUNS // BLOCK)) and len(done) <= RUNS // BLOCK + 4


def test_reproducible_runs_are_close_to_the_others_and_have_their_own_bits():
    fused, same_everywhere = (study(reproducible=x, runs=40).run() for x in (False, True))
    difference = abs(fused["q.final"] - same_everywhere["q.final"]).max()
    assert difference < 1e-12
    sim = study(reproducible=True).simulator
    (source,) = sim.plan((), ("q",)).sources
    assert not source.target.fused and source.target.lanes == 4
    assert source.program.reproducible and not sim.plan((), ("q",)).natives[0].program.reproducible
