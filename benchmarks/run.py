"""The benchmark:  make bench   or   python benchmarks/run.py [--quick]

Loads the same robots into phipsi, Pinocchio, MuJoCo and Drake, checks that the answers agree, times
everything as best of many interleaved runs, and writes RESULTS.md, results.json and plots/.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: one thread unless said

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import chains  # noqa: E402
import fresh  # noqa: E402
import report  # noqa: E402
import robots  # noqa: E402
import rollouts  # noqa: E402
import threads  # noqa: E402
from machine import machine  # noqa: E402
from timing import best, race  # noqa: E402

AGREE = 1e-9
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


def peak_flops() -> float:
    """Flops per second of one core in a product of matrices, taken as its peak."""
    a = np.random.default_rng(0).standard_normal((768, 768))
    return 2 * 768**3 / best(lambda: a @ a, rounds=20, target=0.02)


def contestants(name: str, model: Any, states: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The peers that load the model, and why the others do not."""
    peers: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for title, make in (
        ("Pinocchio", robots.Pinocchio), ("MuJoCo", robots.Mujoco), ("Drake", robots.Drake),
    ):  # fmt: skip
        try:
            peers[title] = make(name, model, states)
        except Exception as e:
            missing[title] = f"{type(e).__name__}: {e}".splitlines()[0][:160]
    return peers, missing


def one_robot(name: str, rounds: int) -> dict[str, Any]:
    """Agreement, single calls, batches, threads and throughput for one model."""
    model = robots.load_robot(name) if name in robots.ROBOTS else robots.chain(100)
    states = robots.States(model)
    mine = robots.Phipsi(model, states)
    peers, missing = contestants(name, model, states)
    out: dict[str, Any] = {
        "bodies": model.n_bodies, "nv": model.nv, "missing": missing, "agreement": {},
        "single": {}, "batch": {}, "threads": {}, "throughput": {}, "flops": {},
    }  # fmt: skip
    for what in robots.WHAT:
        functions = {"phipsi": mine.single(what)}
        for title, peer in peers.items():
            try:
                gap = robots.disagreement(mine.answer(what, 16), peer.answer(what, 16))
            except NotImplementedError:
                continue
            out["agreement"][f"{title}, {what}"] = gap
            if gap <= AGREE:
                functions[title] = peer.single(what)
        out["single"][what] = race(functions, rounds=rounds)
        functions = {"phipsi": mine.batch(what)}
        if "Pinocchio" in functions or "Pinocchio" in peers:
            other = peers["Pinocchio"].batch(what)
            if other is not None:
                functions["Pinocchio"] = other
        seconds = race(functions, rounds=max(10, rounds // 2), target=0.0)
        out["batch"][what] = {k: s / robots.BATCH for k, s in seconds.items()}
    alone = {c: threads.in_own_process(name, c, rounds) for c in ("phipsi", "Pinocchio")}
    out["threads"] = {what: {c: alone[c][what] for c in alone} for what in robots.WHAT[:2]}
    what = robots.WHAT[0]
    for size in SIZES:
        pair = {"phipsi": mine.batch(what, size), "Pinocchio": peers["Pinocchio"].batch(what, size)}
        seconds = race(pair, rounds=max(8, rounds // 3), target=0.001)
        out["throughput"][size] = {k: s / size for k, s in seconds.items()}
    for what in robots.WHAT[:2]:
        out["flops"][what] = report.flops_of(mine.programs[what])
    print(f"  {name}: single {out['single']}\n     batch {out['batch']}", flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds, short chains")
    parser.add_argument(
        "--report", action="store_true", help="write the report of the last run again"
    )
    options = parser.parse_args()
    store = HERE / "results.json"
    if options.report:
        report.write(json.loads(store.read_text()), HERE)
        return
    rounds = 8 if options.quick else 50
    results: dict[str, Any] = {"machine": machine(), "robots": {}, "quick": options.quick}
    results["peak"] = peak_flops()
    for name in [*robots.ROBOTS, robots.CHAIN]:
        print(name, flush=True)
        results["robots"][name] = one_robot(name, rounds)
    print("chains", flush=True)
    results["chains"] = chains.run(chains.SIZES[:4] if options.quick else chains.SIZES)
    print("rollouts", flush=True)
    chosen = rollouts.NAMES[: 2 if options.quick else None]
    results["rollouts"] = rollouts.run(chosen, 4 if options.quick else 12)
    print("new processes", flush=True)
    results["first"] = fresh.first_call(robots.urdf_path("Panda"), 2 if options.quick else 6)
    names = list(robots.ROBOTS)[: 2 if options.quick else None]
    results["compile"] = fresh.compile_times(names, 1 if options.quick else 3)
    results["machine"]["load after"] = (
        round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    )
    # JSON has no integer keys: read it back, so that the report sees the same in both cases
    store.write_text(json.dumps(results, indent=1))
    report.write(json.loads(store.read_text()), HERE)


if __name__ == "__main__":
    main()
