"""Workers and drivers are killed, nodes differ: nothing is lost, and not a bit changes."""

import http.client
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from amounts import ALL
from chaotic_study import BLOCK, RUNS, blocks_in, make, study
from small_studies import same

import phipsi as pp
from phipsi.errors import InputError, SimulationError
from phipsi.studies.cluster_workers import check_address

KILLED = {"local": (4, 1), "dask": (0, 1)}
"""Workers and drivers that are killed in `make test`; 20 and 3 in `make fuzz`.

A worker of dask is killed in the cluster of unlike nodes below.
"""
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
    same(study().run(), pp.Study.results(folder, check=True))
    done = blocks_in(log)
    assert set(done) == set(range(RUNS // BLOCK))
    again = len(done) - len(set(done))
    in_flight = (most_workers + 2 * most_drivers) * AHEAD[executor]
    assert again <= in_flight, f"{again} blocks ran twice"


def lanes_in(log: Path) -> set[int]:
    """With how many lanes blocks were computed."""
    return {int(line.split()[1]) for line in log.read_text().splitlines()}


@pytest.mark.filterwarnings("ignore:executor='tcp.*every process and every user")
def test_a_cluster_of_unlike_nodes_that_loses_one_gives_the_same_bits(tmp_path: Path):
    """Nodes with vectors of 2, 8 and in `make fuzz` 4 numbers; here are those of this processor."""
    distributed = pytest.importorskip("distributed")
    folder, log = tmp_path / "study", tmp_path / "log"

    def node(lanes: int) -> dict[str, Any]:
        env = {"PHIPSI_LANES": str(lanes)}
        options = {"nthreads": 1, "env": env, "host": "127.0.0.1"}
        return {"cls": distributed.Nanny, "options": options}

    nodes = {lanes: node(lanes) for lanes in ((2, 4, 8) if ALL else (2, 8))}
    options = {"dashboard_address": None, "host": "127.0.0.1"}
    scheduler = {"cls": distributed.Scheduler, "options": options}
    with (
        distributed.SpecCluster(nodes, scheduler, silence_logs="CRITICAL") as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = client.run(os.getpid)
        killed = []

        def progress(done: float, total: float) -> None:
            """When every node has done something, one is lost; only then the last blocks run."""
            if lanes_in(log) == set(nodes) and not killed:
                killed.append(next(iter(victim.values())))
                os.kill(killed[0], signal.SIGKILL)
                (tmp_path / "log.go").touch()

        unlike = study(str(log), waits=True, reproducible=True)
        found = unlike.run(folder, executor=client, progress=progress)
    assert killed and found.complete
    same(study(reproducible=True).run(), found)
    done = blocks_in(log)
    assert set(done) == set(range(RUNS // BLOCK)) and len(done) <= RUNS // BLOCK + 4


def test_reproducible_runs_are_close_to_the_others_and_have_their_own_bits():
    fused, same_everywhere = (study(reproducible=x, runs=40).run() for x in (False, True))
    difference = abs(fused["q.final"] - same_everywhere["q.final"]).max()
    assert difference < 1e-12
    sim = study(reproducible=True).simulator
    (source,) = sim.compiled.plan((), ("q",)).sources
    assert not source.target.fused and source.target.lanes == 4
    assert (
        source.program.reproducible
        and not sim.compiled.plan((), ("q",)).natives[0].program.reproducible
    )


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A certificate that signs itself, for both ends, as options of dask."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", key, "-out", cert, "-days", "1", "-subj", "/CN=127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    ends = {f"distributed.comm.tls.{end}.{what}": path for end in ("client", "scheduler", "worker")
            for what, path in (("key", key), ("cert", cert))}  # fmt: skip
    return {"distributed.comm.tls.ca-file": cert, **ends}


def test_a_cluster_with_tls_by_its_address(certificate: dict[str, str], tmp_path: Path):
    """Workers write to the folder themselves; no more blocks are underway than two for each."""
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    with dask.config.set(certificate):
        security = distributed.Security(require_encryption=True)
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, host="tls://127.0.0.1", security=security,
            dashboard_address=":0", silence_logs="CRITICAL", processes=False, protocol="tls://",
        ) as cluster:  # fmt: skip
            address = cluster.scheduler_address
            assert address.startswith("tls://127.0.0.1:")
            underway: list[int] = []

            def progress(done: float, total: float) -> None:
                underway.append(len(cluster.scheduler.tasks))

            few = study(runs=200)
            found = few.run(tmp_path / "a", executor=address, shared_folder=True, progress=progress)
    assert found.complete and max(underway) <= 2
    same(study(runs=200).run(), found)
    short = {"distributed.comm.timeouts.connect": "500ms"}
    with dask.config.set(short), pytest.raises(InputError, match="no scheduler answers at tls://"):
        study(runs=20).run(tmp_path / "b", executor=address)


def test_a_client_of_an_open_scheduler_is_rejected():
    distributed = pytest.importorskip("distributed")
    client = object.__new__(distributed.Client)
    client.__dict__["scheduler"] = SimpleNamespace(address="tcp://10.0.0.1:8786")
    with pytest.raises(InputError, match="Use TLS"):
        study(runs=20).run(executor=client)
    for address in ("tls://10.0.0.1:8786", "inproc://a/1"):
        check_address(address)
    for address in ("tcp://127.0.0.1:1", "tcp://[::1]:1", "tcp://localhost:1"):
        with pytest.warns(UserWarning, match="every user of this machine can run commands"):
            check_address(address)
    for address in ("tcp://0.0.0.0:8786", "tcp://example.org:1", "http://127.0.0.1", "ucx://a:1"):
        with pytest.raises(InputError):
            check_address(address)


def answer_of(port: int) -> int:
    """The status with which an HTTP server of this machine answers for its pages."""
    found = []
    for page in ("/status", "/info/main/workers.html", "/json/counts.json", "/metrics", "/health"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", page)
        found.append(connection.getresponse().status)
        connection.close()
    return min(found)


def test_only_the_driver_can_use_a_cluster_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    """Neither plain connections nor other keys are accepted, and there is no dashboard."""
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    begun: list[Any] = []

    def spied(**options: Any) -> Any:
        begun.append(cluster := distributed.deploy.LocalCluster(**options))
        return cluster

    seen: list[Any] = []

    def progress(done: float, total: float) -> None:
        if not begun or seen:
            return
        (cluster,) = begun
        workers = cluster.scheduler_info["workers"].values()
        pages = [cluster.scheduler.http_server.port, *(x["services"]["dashboard"] for x in workers)]
        seen.extend(map(answer_of, pages))
        addresses = [cluster.scheduler_address, *cluster.scheduler_info["workers"]]
        other = distributed.Security.temporary()
        for address in addresses:
            assert address.startswith("tls://127.0.0.1:")
            for open_address, security in ((address.replace("tls", "tcp"), None), (address, other)):
                seen.append(is_answered(open_address, security))

    def is_answered(address: str, security: Any) -> bool:
        options = (security or distributed.Security()).get_connection_args("client")

        async def talked() -> Any:
            comm = await distributed.comm.connect(address, timeout=1, **options)
            try:
                await comm.write({"op": "identity", "reply": True})
                return await comm.read()
            finally:
                comm.abort()

        try:
            return bool(distributed.utils.sync(begun[0].loop, talked, callback_timeout=5))
        except (OSError, TimeoutError):
            return False

    monkeypatch.setattr(distributed, "LocalCluster", spied)
    short = {"distributed.comm.timeouts.connect": "5s"}
    with dask.config.set(short):
        found = study(runs=40).run(executor="dask", workers=1, progress=progress)
    assert found.complete and seen == [404, 404, False, False, False, False]


def test_keys_need_a_library_that_is_named(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("distributed")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ImportError, match=r"cryptography, .* pip install 'phipsi\[cluster\]'"):
        study(runs=20).run(executor="dask")


def test_a_scheduler_that_ends_is_named_and_the_study_resumes(tmp_path: Path):
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    short = {"distributed.comm.timeouts.connect": "500ms"}
    with (
        dask.config.set(short),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL",
            processes=False, protocol="tcp://", host="127.0.0.1",
        ) as cluster,
    ):  # fmt: skip
        address = cluster.scheduler_address

        def progress(done: float, total: float) -> None:
            if done >= 40:
                cluster.sync(cluster.scheduler.close)

        few = study(runs=200)
        with (
            pytest.warns(UserWarning, match="neither TLS nor a secret"),
            pytest.raises(SimulationError, match=rf"scheduler at {address} does not .* of 10 blo"),
        ):
            few.run(tmp_path, executor=address, progress=progress)
    assert not pp.Study.results(tmp_path).complete and len(pp.Study.results(tmp_path)) >= 40
    same(study(runs=200).run(), study(runs=200).run(tmp_path))


def deadly(run: Any, samples: dict[str, Any]) -> dict[str, Any]:
    if (samples["x"] == 5.0).any():
        os.kill(os.getpid(), signal.SIGKILL)
    return {"x": samples["x"]}


def slow(run: Any, samples: dict[str, Any]) -> dict[str, Any]:
    if (samples["x"] == 5.0).any():
        time.sleep(60)
    return {"x": samples["x"]}


def moving(samples: dict[str, Any]) -> dict[str, Any]:
    return {"v": 0.1 * samples["x"][:, None] + [0, 0]}


if ALL:  # workers of dask take long to start again

    @pytest.mark.parametrize(
        ("metrics", "limits", "why"),
        [
            (deadly, {}, r"its worker died .*\), 3 times"),
            (slow, {"time_limit": 5.0, "retries": 0}, "a block may take 5 s"),
        ],
    )
    def test_a_block_that_ends_workers_of_dask_is_put_aside(
        metrics: Any, limits: Any, why: str, tmp_path: Path
    ):
        pytest.importorskip("distributed")
        one = pp.Study(
            make, {"x": np.arange(16.0)}, initial_state=moving, metrics=metrics, steps=5, block=2
        )
        with pytest.warns(UserWarning, match=f"runs 4 … 5 are quarantined: .*{why}"):
            found = one.run(tmp_path, executor="dask", workers=2, **limits)
        assert found.missing == [2] and len(found) == 14
