"""RESULTS.md and the plots, from the numbers of one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WHAT = ("forward dynamics", "inverse dynamics", "mass matrix", "inverse mass matrix")
PEERS = ("Pinocchio", "MuJoCo", "Drake")
HUMANOIDS = ("Talos", "G1")
THREAD_SIZES = (4096, 16384)


def flops_of(program: Any) -> int:
    """Floating-point operations of one evaluation, as `explain` counts them."""
    return int(program.explain().flops)


def micro(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    us = seconds * 1e6
    return f"{us:.3f}" if us < 1 else f"{us:.2f}" if us < 100 else f"{us:,.0f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def ratio(r: dict[str, float], peer: str = "Pinocchio") -> float:
    return r[peer] / r["phipsi"]


# ---- the goals -----------------------------------------------------------------------------------


def goals(results: dict[str, Any]) -> list[tuple[str, str, str, bool | None]]:
    """(goal, wanted, measured, reached)."""
    robots, out = results["robots"], []

    def add(goal: str, wanted: str, measured: str, reached: bool | None) -> None:
        out.append((goal, wanted, measured, reached))

    for what in WHAT[:2]:
        for name, r in robots.items():
            least = 6.0 if name.startswith("chain") else 8.0
            x = ratio(r["batch"][what])
            add(f"{what}, batch 4096, {name}", f"≥ {least:.0f}×", f"{x:.1f}×", x >= least)
    for name, r in robots.items():
        if name.startswith("chain"):
            continue
        for what in WHAT:
            least = 1.0
            if name in HUMANOIDS:
                least = 2.0 if what == WHAT[0] else 1.6
            elif what in WHAT[1:3] and r["nv"] < 12:
                least = 1 / 1.5
            x = ratio(r["single"][what])
            add(f"{what}, single call, {name} ({r['nv']} dof)", f"≥ {least:.2g}×", f"{x:.2f}×", x >= least)  # fmt: skip
    for what in WHAT[:2]:
        for name, r in robots.items():
            mine = r["threads"][what]["phipsi"]
            for size in THREAD_SIZES:
                x = _gain(mine, size)
                add(
                    f"two threads, batch of {size}, {what}, {name}", "≥ 1.7×", f"{x:.2f}×", x >= 1.7
                )
    for name, c in results["compile"].items():
        most = 2.0 if name == "all joint types" else 0.5
        for kind, limit in (("cold", most), ("cached", 0.05)):
            worst = max(c[kind], key=c[kind].get)
            x = c[kind][worst]
            add(f"compile, {kind}, {name}", f"≤ {limit:g} s", f"{x:.3f} s ({worst})", x <= limit)
    for kind, limit in (("cold", 1.0), ("cached", 0.5)):
        x = results["first"][kind]["process"]
        add(f"new process to first forward dynamics of the Panda, {kind}", f"≤ {limit:g} s", f"{x:.2f} s", x <= limit)  # fmt: skip
    c = results["chains"]
    span = f"N = {c['rows'][0]['n']} … {c['rows'][-1]['n']:,}"
    x = c["slope of one"]
    add(f"time slope, one configuration per call, {span}", "≤ 1.15", f"{x:.3f}", x <= 1.15)
    x = c["slope of a group"]
    lanes = c["rows"][0]["lanes"]
    four = c.get("slope of a group of four")
    if four is not None:
        add(f"time slope, a full group of 4 lanes, {span}", "≤ 1.25", f"{four:.3f}", four <= 1.25)
    else:
        add(f"time slope, a full group of {lanes} lanes, {span}", "≤ 1.25", f"{x:.3f}", x <= 1.25)
    x = max(r["bytes at 4 lanes"] for r in c["rows"])
    add("scratch and tables per body at four lanes", "≤ 4096 B", f"{x:.0f} B", x <= 4096)
    if "residual" in c:
        for name in ("let go", "held", "driven"):
            x = c["residual"][name]
            add(f"ID(FD(τ)) − τ at N = 10,000, chain {name}, of the largest hinge force", "≤ 1e-14", f"{x:.1e}", x <= 1e-14)  # fmt: skip
    for name, r in results.get("rollouts", {}).items():
        x = r["MuJoCo"] / r["phipsi"] if "MuJoCo" in r else None
        shown = "MuJoCo not timed" if x is None else f"{x:.1f}×"
        add(f"rollout, one thread, {name}", "≥ 6×", shown, None if x is None else x >= 6)
    return out


# ---- the page ------------------------------------------------------------------------------------


def write(results: dict[str, Any], folder: Path) -> None:
    m = results["machine"]
    text = [HEAD.format(**m, list=", ".join(f"{k} {v}" for k, v in m["versions"].items()),
                        peak=results["peak"] / 1e9, note=_note(results))]  # fmt: skip
    found = goals(results)
    reached = sum(bool(g[3]) for g in found)
    text.append(f"## Goals: {reached} of {len(found)} reached\n")
    marks = {True: "reached", False: "**not reached**", None: "not measured"}
    text.append(
        table(["goal", "wanted", "measured", ""], [[a, b, c, marks[d]] for a, b, c, d in found])
    )
    notes = folder / "NOTES.md"
    if notes.exists():
        text.append(notes.read_text().strip())
    text.append(_single(results))
    text.append(_batch(results))
    text.append(_threads(results))
    text.append(_chains(results))
    text.append(_rollouts(results))
    text.append(_fresh(results))
    text.append(_agreement(results))
    text.append(PLOTS)
    (folder / "RESULTS.md").write_text("\n\n".join(text) + "\n")
    plots(results, folder / "plots")


HEAD = """# Benchmark results

Time and agreement of the dynamics of robots and chains, beside Pinocchio, MuJoCo and Drake. Written by `make bench`; numbers of one run, {date}.

- machine: {cpu}, {cores} cores, {system}; code for {llvm name}, {lanes} lanes
- versions: {list}
- commit {commit} ({changed files in src} changed files in src)
- load average {load before} before, {load after} after; every time is the best of many runs in
  which the contestants take turns. {note} What runs on one thread is measured in processor time,
  threads, compile times and new processes on the clock on the wall.
- one core multiplies matrices at {peak:.0f} Gflop/s (NumPy, one thread), taken as its peak

Times in µs per evaluation unless said. Ratios are peer time / phipsi time: above 1, phipsi is
faster. A peer is timed only where its answers agree to 1e-9. Pinocchio reads the same URDF files;
its batch calls get preallocated output, phipsi allocates its result in every call."""


def _note(results: dict[str, Any]) -> str:
    if results.get("quick"):
        return "This was a quick run: few rounds, short chains; not for comparison."
    return "Other processes may have shared the cores."


def _single(results: dict[str, Any]) -> str:
    parts = ["## Single Python calls\n"]
    for what in WHAT:
        rows = []
        for name, r in results["robots"].items():
            s = r["single"][what]
            row = [name, str(r["nv"]), micro(s["phipsi"])]
            for peer in PEERS:
                row.append(f"{micro(s[peer])} ({ratio(s, peer):.2f}×)" if peer in s else "–")
            rows.append(row)
        parts.append(
            f"### {what.capitalize()}\n\n" + table(["model", "dof", "phipsi", *PEERS], rows)
        )
    parts.append(
        "MuJoCo's and Drake's calls include writing the state into their data, which their "
        "interfaces ask for; MuJoCo's inverse mass matrix is its factorisation applied to the identity."
    )
    return "\n\n".join(parts)


def _batch(results: dict[str, Any]) -> str:
    rows = []
    for name, r in results["robots"].items():
        for what in WHAT:
            b = r["batch"][what]
            share = "–"
            if what in r["flops"]:
                share = f"{r['flops'][what] / b['phipsi'] / results['peak']:.0%}"
            times = f"{ratio(b):.1f}×" if "Pinocchio" in b else "–"
            rows.append([name, what, micro(b["phipsi"]), micro(b.get("Pinocchio")), times, share])
    head = ["model", "what", "phipsi", "Pinocchio in parallel, 1 thread", "ratio", "share of peak"]
    return "## Batches of 4096, one thread\n\nShare of peak: the operations that `explain` counts, without those of sin and cos.\n\n" + table(head, rows)  # fmt: skip


def _threads(results: dict[str, Any]) -> str:
    rows = []
    for name, r in results["robots"].items():
        for what, t in r["threads"].items():
            for size in THREAD_SIZES:
                mine, theirs = t["phipsi"], t["Pinocchio"]
                one, two = (mine[f"{size}, {n}"] for n in (1, 2))
                ratio_at_two = theirs[f"{size}, 2"] / two
                rows.append([name, what, str(size), micro(one), micro(two), f"{one / two:.2f}×",
                             f"{_gain(theirs, size):.2f}×", f"{ratio_at_two:.1f}×"])  # fmt: skip
    head = [
        "model",
        "what",
        "batch",
        "one thread",
        "two threads",
        "gain",
        "Pinocchio's gain",
        "ratio at two",
    ]
    return "## Two threads\n\nEach library in a process of its own.\n\n" + table(head, rows)


def _gain(seconds: dict[str, float], size: int) -> float:
    return seconds[f"{size}, 1"] / seconds[f"{size}, 2"]


def _chains(results: dict[str, Any]) -> str:
    c = results["chains"]
    rows = []
    for r in c["rows"]:
        n = r["n"]
        rows.append([f"{n:,}", f"{r['build']:.2f}", micro(r["one"]), f"{r['one'] / n * 1e9:.0f}",
                     micro(r["group"]), f"{r['group'] / n / r['lanes'] * 1e9:.0f}",
                     f"{r['bytes at 4 lanes']:.0f}", f"{r['bytes at full lanes']:.0f}"])  # fmt: skip
    lanes = c["rows"][0]["lanes"]
    head = ["bodies", "model built in s", "one configuration, µs", "ns per body",
            f"group of {lanes}, µs", "ns per body and configuration",
            "bytes per body, 4 lanes", f"bytes per body, {lanes} lanes"]  # fmt: skip
    text = "## Chains, forward dynamics\n\n" + table(head, rows)
    text += (
        f"\n\nSlopes of log time over log N: {c['slope of one']:.3f} for one configuration, "
        f"{c['slope of a group']:.3f} for a group."
    )
    if "residual" in c:
        e = c["residual"]
        text += (
            " At N = 10,000, max |ID(FD(τ)) − τ| relative to the largest hinge force is "
            f"{e['let go']:.1e} for the chain let go at random angles, {e['held']:.1e} held there by nine "
            f"tenths of its weight, and {e['driven']:.1e} with random rates and efforts of size 1. If every "
            "acceleration is changed by at most half a unit in its last place, the same inverse dynamics "
            f"changes by {e['let go, one rounding']:.1e}, {e['held, one rounding']:.1e} and "
            f"{e['driven, one rounding']:.1e}."
        )
    return text


def _rollouts(results: dict[str, Any]) -> str:
    rows = [
        [
            name,
            micro(r["phipsi"]),
            f"{micro(r['MuJoCo'])} ({r['MuJoCo'] / r['phipsi']:.1f}×)" if "MuJoCo" in r else "–",
            f"{r['two threads']:.2f}×",
            f"{r['agreement']:.0e}" if "agreement" in r else "–",
        ]
        for name, r in results.get("rollouts", {}).items()
    ]
    head = ["model", "phipsi", "MuJoCo `rollout`", "two threads", "last states differ by"]
    return (
        "## Rollouts\n\nMicroseconds per step of one trajectory: 256 trajectories, 100 steps of 0.1 ms, "
        "semi-implicit Euler, no contacts, one thread.\n\n" + table(head, rows)
    )


def _fresh(results: dict[str, Any]) -> str:
    rows = []
    for name, c in results["compile"].items():
        for what in WHAT:
            rows.append([name, what, f"{c['cold'][what]:.3f}", f"{c['cached'][what]:.3f}"])
    text = "## Compile times, s\n\n" + table(["model", "what", "cold", "from the disk cache"], rows)
    rows = []
    for kind, r in results["first"].items():
        rows.append([kind, *(f"{r[k]:.3f}" for k in ("import", "load", "first call", "process"))])
    head = ["", "import", "load", "compile and call", "whole process with Python's start"]
    return text + "\n\n## A new process to the first forward dynamics of the Panda, s\n\n" + table(head, rows)  # fmt: skip


def _agreement(results: dict[str, Any]) -> str:
    rows = []
    for name, r in results["robots"].items():
        for peer in PEERS:
            gaps = {k.split(", ")[1]: v for k, v in r["agreement"].items() if k.startswith(peer)}
            if gaps:
                rows.append([name, peer, *(f"{gaps[w]:.0e}" if w in gaps else "–" for w in WHAT)])
            else:
                rows.append([name, peer, r["missing"].get(peer, ""), "", "", ""])
    return "## Agreement\n\nLargest difference to phipsi, relative to the largest number of the answer, over 16 states.\n\n" + table(["model", "peer", *WHAT], rows)  # fmt: skip


PLOTS = """## Plots

![time against N](plots/chains.png)
![throughput against batch size](plots/throughput.png)
![single calls](plots/single.png)
![share of peak](plots/peak.png)"""


def plots(results: dict[str, Any], folder: Path) -> None:
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("matplotlib is not installed: no plots")
        return
    folder.mkdir(exist_ok=True)
    rows = results["chains"]["rows"]
    n = [r["n"] for r in rows]
    fig, ax = plt.subplots(figsize=(6, 4))
    ax.loglog(n, [r["one"] * 1e6 for r in rows], "o-", label="one configuration")
    label = f"per configuration, {rows[0]['lanes']} at once"
    ax.loglog(n, [r["group"] / r["lanes"] * 1e6 for r in rows], "s-", label=label)
    ax.loglog(n, [rows[0]["one"] * 1e6 * k / n[0] for k in n], "k:", label="linear")
    ax.set(xlabel="bodies", ylabel="µs", title="forward dynamics of a chain")
    _save(fig, ax, folder / "chains.png")
    fig, ax = plt.subplots(figsize=(6, 4))
    for k, (name, r) in enumerate(results["robots"].items()):
        sizes = [int(s) for s in r["throughput"]]
        for peer, style in (("phipsi", "-"), ("Pinocchio", "--")):
            y = [1e-6 / t[peer] for t in r["throughput"].values()]
            ax.loglog(sizes, y, style, color=f"C{k}", label=name if peer == "phipsi" else None)
    title = "forward dynamics (dashed: Pinocchio)"
    ax.set(xlabel="batch", ylabel="million evaluations / s", title=title)
    _save(fig, ax, folder / "throughput.png")
    fig, ax = plt.subplots(figsize=(7, 4))
    names = list(results["robots"])
    for k, what in enumerate(WHAT):
        y = [ratio(results["robots"][name]["single"][what]) for name in names]
        ax.bar([i + 0.2 * k - 0.3 for i in range(len(names))], y, 0.2, label=what)
    ax.axhline(1, color="k", lw=0.8)
    ax.set_xticks(range(len(names)), names)
    ax.set(ylabel="Pinocchio's time / phipsi's", title="single Python calls")
    _save(fig, ax, folder / "single.png")
    fig, ax = plt.subplots(figsize=(7, 4))
    for k, what in enumerate(WHAT[:2]):
        rs = [results["robots"][name] for name in names]
        y = [100 * r["flops"][what] / r["batch"][what]["phipsi"] / results["peak"] for r in rs]
        ax.bar([i + 0.35 * k - 0.175 for i in range(len(names))], y, 0.35, label=what)
    ax.set_xticks(range(len(names)), names)
    ax.set(ylabel="% of one core's matrix product", title="batches of 4096")
    _save(fig, ax, folder / "peak.png")


def _save(fig: Any, ax: Any, path: Path) -> None:
    ax.legend(fontsize=8)
    ax.grid(alpha=0.3, which="both")
    fig.tight_layout()
    fig.savefig(path, dpi=110)
