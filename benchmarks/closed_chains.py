"""Systems with constraints: against Pinocchio, and time against the number of loops.

    python benchmarks/closed_chains.py      writes CLOSED_CHAINS.md and plots/closed_chains.png

Models: humanoids standing on two welded feet (12 rows), and a platform on 12 telescopic legs with
ball joints at their ends (36 rows). Answers are compared before anything is timed.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from closed_pinocchio import pinocchio_platform, pinocchio_standing
from closed_rollouts import section as rollouts
from closed_systems import FEET, arms_on_object, four_bars, platform, standing
from machine import machine
from report import micro, table
from timing import race

import phipsi as pp

HERE = pathlib.Path(__file__).parent
BATCH = 1024
AGREE = 1e-9
RUNS = 4
LOOPS = (1, 3, 10, 30, 100, 300, 1000)
CARRIED = (1, 5, 10, 20, 50, 100, 200)
ARMS = (1, 2, 4, 8, 16, 32)
JOINTS = (7, 14, 28, 56, 112)


# ---- against Pinocchio -------------------------------------------------------------------------


def compare(name: str) -> dict[str, Any]:
    """Times of one mechanism in s, single calls of all and our batch; how far answers differ."""
    from phipsi.files import conventions

    if name in FEET:
        system, q = standing(name)
    else:
        system, q = platform()
    model = system.model
    v, tau = np.zeros(model.nv), np.random.default_rng(0).standard_normal(model.nv)
    mine = pp.forward_dynamics(system, q, v, tau)
    if name in FEET:
        efforts = conventions.to_pinocchio(model, q, v, tau=tau).tau
        peer = pinocchio_standing(name, efforts)
        wanted = conventions.to_pinocchio(model, q, v, vdot=mine).vdot
    else:
        swapped = [3, 4, 5, 0, 1, 2, *range(6, model.nv)]
        peer = pinocchio_platform(system, tau[swapped])
        wanted = mine[swapped]
    errors = {k: float(np.abs(wanted - x).max() / np.abs(wanted).max()) for k, x in peer[0].items()}
    singular = np.linalg.svd(pp.delassus_matrix(system, q), compute_uv=False)
    theirs = np.linalg.svd(peer[1]["computeDelassusMatrix"](), compute_uv=False)
    errors["computeDelassusMatrix"] = float(np.abs(singular - theirs).max() / singular.max())
    functions = {who: peer[1][who] for who, error in errors.items() if error < AGREE}
    if "constraintDynamics" not in functions:
        raise SystemExit(f"{name}: accelerations differ from Pinocchio's: {errors}")
    many = [np.broadcast_to(x, (BATCH, len(x))).copy() for x in (q, v, tau)]
    ours = {
        "phipsi": lambda: pp.forward_dynamics(system, q, v, tau),
        "A Λ A*": lambda: pp.delassus_matrix(system, q),
    }
    times = race({**ours, **functions}, rounds=60)
    batches = {
        "phipsi": lambda: pp.forward_dynamics(system, *many),
        "A Λ A*": lambda: pp.delassus_matrix(system, many[0]),
    }
    batch = {k: t / BATCH for k, t in race(batches, rounds=40).items()}
    return {"nv": model.nv, "rows": system.n_rows, "single": times, "batch": batch, "error": errors}


def compared(name: str) -> dict[str, Any]:
    """The best times of several comparisons, and how their ratios spread."""
    runs = [compare(name) for _ in range(RUNS)]
    out = {**runs[0], "spread": {}}
    for key in ("single", "batch"):
        out[key] = {k: min(r[key][k] for r in runs) for k in runs[0][key]}
        for peer, mine in PEER_OF.items():
            if peer in runs[0]["single"]:
                ratios = [r["single"][peer] / r[key][mine] for r in runs]
                out["spread"][key, peer] = (min(ratios), max(ratios))
    return out


PEER_OF = {"constraintDynamics": "phipsi", "lcaba": "phipsi", "computeDelassusMatrix": "A Λ A*"}


def comparison(found: dict[str, dict[str, Any]]) -> str:
    rows = []
    for name, r in found.items():
        for peer, mine in PEER_OF.items():
            if peer not in r["single"]:
                continue
            t, one, many = r["single"][peer], r["single"][mine], r["batch"][mine]
            rows.append(
                [f"{name} ({r['nv']} dof, {r['rows']} rows)", peer, micro(t), micro(one),
                 f"{t / one:.2f}×", micro(many), f"{t / many:.1f}×", f"{r['error'][peer]:.0e}"]
            )  # fmt: skip
    head = [
        "system",
        "Pinocchio's",
        "its call",
        "our call",
        "ratio",
        "our batch",
        "ratio",
        "differ by",
    ]
    return table(head, rows)


# ---- growth ------------------------------------------------------------------------------------


class Growth(NamedTuple):
    """Times in s of one call against a number, and the slopes on log-log axes."""

    name: str
    counts: tuple[int, ...]
    times: list[float]

    @property
    def slope(self) -> float:
        return float(np.polyfit(np.log(self.counts), np.log(self.times), 1)[0])

    @property
    def last(self) -> float:
        """Over the last factor of about ten, by least squares."""
        n, t = np.array(self.counts), np.array(self.times)
        kept = n >= n[-1] / 10.5
        return float(np.polyfit(np.log(n[kept]), np.log(t[kept]), 1)[0])


def growth(name: str, make: Callable[[int], Any], counts: tuple[int, ...]) -> Growth:
    times = []
    for n in counts:
        system, q = make(n)
        nv = system.model.nv
        state = (q, np.zeros(nv), np.random.default_rng(0).standard_normal(nv))
        run = {"one": lambda s=system, x=state: pp.forward_dynamics(s, *x)}
        times.append(race(run, rounds=25)["one"])
    out = Growth(name, counts, times)
    print(f"  {name}: slope {out.slope:.2f}", flush=True)
    return out


def measure_growth() -> list[Growth]:
    return [
        growth("four-bars on the ground", lambda n: four_bars(n, False), LOOPS),
        growth("four-bars on one free body", lambda n: four_bars(n, True), CARRIED),
        growth("arms of 7 joints on one object", arms_on_object, ARMS),
        growth("joints of each of 4 arms on one object", lambda n: arms_on_object(4, n), JOINTS),
    ]


def plot(found: list[Growth]) -> None:
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("matplotlib is not installed: no plot")
        return
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    for ax, chosen in ((left, found[:2]), (right, found[2:])):
        for k, g in enumerate(chosen):
            label = f"{g.name} (slope {g.slope:.2f})"
            ax.loglog(
                g.counts, [1e6 * t for t in g.times], "os"[k] + "-", color=f"C{k}", label=label
            )
        first = chosen[0]
        n = np.array(first.counts, dtype=float)
        for power, style in ((1, "k:"), (3, "k--")):
            y = 1e6 * first.times[0] * n**power
            keep = y <= 3e6 * max(max(g.times) for g in chosen)
            ax.loglog(n[keep], y[keep], style, lw=0.8, label=("linear", "cubic")[power == 3])
        ax.set(ylabel="µs per call")
        ax.grid(alpha=0.3, which="both")
        ax.set_ylim(bottom=ax.get_ylim()[0] / 12)  # room for the names
        ax.legend(fontsize=8, loc="lower right")
    left.set(xlabel="four-bars", title="loops")
    right.set(xlabel="arms, or joints per arm", title="arms that hold one object")
    fig.tight_layout()
    fig.savefig(HERE / "plots" / "closed_chains.png", dpi=110)


# ---- the page ----------------------------------------------------------------------------------


def goals(found: dict[str, dict[str, Any]], grown: list[Growth]) -> str:
    out: list[list[str]] = []

    def add(goal: str, wanted: str, measured: str, reached: bool) -> None:
        out.append([goal, wanted, measured, "reached" if reached else "**not reached**"])

    for name, r in found.items():
        for peer, mine in PEER_OF.items():
            if peer not in r["single"]:
                continue
            x = r["single"][peer] / r["single"][mine]
            low, high = r["spread"]["single", peer]
            text = f"{x:.2f}× ({low:.2f}–{high:.2f})"
            add(f"single call, {name}, against {peer}", "> 1×", text, x > 1)
            x = r["single"][peer] / r["batch"][mine]
            low, high = r["spread"]["batch", peer]
            text = f"{x:.1f}× ({low:.1f}–{high:.1f})"
            add(f"batch of {BATCH}, one core, {name}, against {peer}", "≥ 5×", text, x >= 5)
    for g, most in zip(grown, (1.15, 1.3, 3.0, 1.15), strict=True):
        span = f"{g.counts[0]} … {g.counts[-1]}"
        add(f"time slope, {g.name}, {span}", f"≤ {most:g}", f"{g.slope:.2f}", g.slope <= most)
    reached = sum(row[3] == "reached" for row in out)
    title = f"## Goals: {reached} of {len(out)} reached\n\n"
    title += (
        f"Ratios are those of the best times of {RUNS} comparisons; in brackets the least and the "
        f"largest ratio of one comparison, which differ where other processes share the caches.\n\n"
    )
    return title + table(["goal", "wanted", "measured", ""], out)


HEAD = """# Closed chains against Pinocchio

Time of forward dynamics and rollouts of mechanisms with closed kinematic loops. Written by `python benchmarks/closed_chains.py`; numbers of one run, {date}.

- machine: {cpu}, {cores} cores, {system}; code for {llvm name}, {lanes} lanes
- versions: {list}
- commit {commit} ({changed files in src} changed files in src)
- load average {load before} before, {load after} after; processor time, best of many rounds in which the
  contestants take turns. µs per evaluation."""

PEERS = """Pinocchio has no batch call for these, so both ratios are to its single call from Python: over our single call, and
over our batch of {batch} on one core. A peer is timed only where its answers agree with ours to {agree:g} ("differ by":
accelerations, relative; of A Λ A* the singular values). `constraintDynamics` solves without damping (μ = 0), once; `lcaba`
has μ = 1e-6, as its documentation proposes, and iterates to 1e-12.

`lcaba` needs `computeJointMinimalOrdering` before it. On the humanoids, whose feet are held by the world, it is right in the
first call on new data; repeated on the same data, every second call returns accelerations that are off by {wrong} of
the largest (Pinocchio 4.1, `repeated` in closed_pinocchio.py). The platform has no such constraints, and all calls are right
there. `computeDelassusMatrix` leaves out the second body of a loop: for the platform it returns a matrix in which the legs
are not coupled by the plate, so it is not in the table there."""


def main() -> None:
    """Run all, print and write the page and its plot."""
    about = machine()
    found = {}
    for name in (*FEET, "platform on 12 legs"):
        found[name] = compared(name)
        print(f"  {name}: {micro(found[name]['single']['phipsi'])} µs", flush=True)
    from closed_pinocchio import repeated

    wrong = " and ".join(f"{100 * max(repeated(name)):.0f} % ({name})" for name in FEET)
    grown = measure_growth()
    about["load after"] = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    listed = ", ".join(f"{k} {v}" for k, v in about["versions"].items())
    rows = [
        [g.name, ", ".join(f"{n}: {micro(t)}" for n, t in zip(g.counts, g.times, strict=True)),
         f"{g.slope:.2f}", f"{g.last:.2f}"]
        for g in grown
    ]  # fmt: skip
    grows = (
        "## Growth\n\nOne call, µs. The slope is that of a line through all points on log-log axes; small "
        "numbers are mostly the call itself, so that of the last factor of ten is given too (there the "
        "system outgrows the caches).\n\n"
        + table(["number of", "number: time", "slope", "of the last factor of ten"], rows)
        + "\n\n![time against the number of loops and arms](plots/closed_chains.png)"
    )
    page = [
        HEAD.format(**about, list=listed),
        goals(found, grown),
        "## Against Pinocchio\n\n" + PEERS.format(batch=BATCH, agree=AGREE, wrong=wrong),
        comparison(found),
        rollouts(),
        grows,
    ]
    (HERE / "CLOSED_CHAINS.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")
    plot(grown)
    print("\n\n".join(page))


if __name__ == "__main__":
    main()
