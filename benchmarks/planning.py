"""Planning with the noise of the mechanism beside isotropic noise, over 100 problems.

    python benchmarks/planning.py [problems]      writes PLANNING.md and docs/pictures/planning.svg

The planner and the problems are those of examples/plan_with_noise.py. Every size of the noise is
tried with three seeds; all numbers are those of fixed seeds.
"""

from __future__ import annotations

import pathlib
import runpy
import sys
import time
from typing import Any

import numpy as np
from machine import machine
from report import table

HERE = pathlib.Path(__file__).parent
SIZES = (0.02, 0.04, 0.08, 0.16, 0.32)
SEEDS = 3
NAMES = {"mechanism": "of the mechanism", "isotropic": "isotropic"}


Row = dict[str, Any]


def measure(n: int) -> dict[tuple[str, float], Row]:
    """What the tables and the figure show, for each kind of noise and size."""
    tools = runpy.run_path(str(HERE.parent / "examples" / "plan_with_noise.py"))
    problems = tools["random_problems"](n)
    line = tools["lengths"](problems.straight())
    unit = {kind: tools["sizes"](kind, problems.straight()) for kind in NAMES}
    rows: dict[tuple[str, float], Row] = {}
    for size in SIZES:
        found = {k: [tools["plan"](k, problems, size, s) for s in range(SEEDS)] for k in NAMES}
        free = {kind: np.array([x[1] for x in found[kind]]) for kind in NAMES}
        both = np.logical_and(*free.values())
        for kind in NAMES:
            relative = np.array([np.divide(tools["lengths"](x[0]), line) for x in found[kind]])
            rows[kind, size] = {
                "joints": round(size * np.sqrt(unit[kind][1] / unit[kind][0]), 2),
                "solved": 100 * free[kind].mean(axis=1),  # of each seed
                "alone": int((free[kind] & ~both).sum()),
                "iterations": np.mean([x[2] for x in found[kind]]),
                "lengths": [round(np.median(x[both]), 2) for x in np.moveaxis(relative, 1, 0)],
            }
            print(kind, size, rows[kind, size]["solved"], flush=True)
    return rows


def main() -> None:
    """Measure, write, draw."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    begin = time.perf_counter()
    rows = measure(n)
    lines: list[list[str]] = []
    for size in SIZES:
        for kind, name in NAMES.items():
            r = rows[kind, size]
            numbers = [f"{r['joints']:.2f}", f"{r['solved'].mean():.1f}", str(r["alone"])]
            numbers += [f"{r['iterations']:.1f}", *(f"{x:.2f}" for x in r["lengths"])]
            lines.append([f"{100 * size:.0f}", name, *numbers])
    head = [
        "links, cm", "noise", "joints, rad", "solved, %", "alone", "iterations",
        "length: hand", "joints", "metric",
    ]  # fmt: skip
    where = machine()
    text = (
        "# Planning with noise of the mechanism\n\n"
        "Written by `benchmarks/planning.py`: the planner of `examples/plan_with_noise.py` on "
        f"{n} problems of a\nseven-joint arm among spheres, {SEEDS} seeds each, {SEEDS * n} runs "
        "per line. Deviations from the path have\naccelerations of covariance ∝ ℳ⁻¹ (noise of the "
        f"mechanism) or ∝ 1 (isotropic).\n{where['cpu']}; {where['date'][:10]}.\n\n"
        f"{table(head, lines)}\n\n"
        "- links, joints: size of the noise, root mean square of the displacement of the links and "
        "of the joint angles.\n"
        "- alone: runs that this noise solves, and the other noise of the same displacement does not.\n"
        "- iterations: mean; a run that fails counts with all of them.\n"
        "- length: median over the runs that both solve, relative to the straight path: of the "
        "hand, in joint\n  space, and in the metric of the mechanism, ∫ √(v* ℳ v) dt.\n"
    )
    if n == 100:
        (HERE / "PLANNING.md").write_text(text, encoding="utf-8")
        draw(rows)
    print(text, f"{time.perf_counter() - begin:.0f} s")


def draw(rows: dict[tuple[str, float], Row]) -> None:
    """Success by the size of the noise in the links and in the joints, and lengths."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
    links = 100 * np.array(SIZES)
    for kind, color in (("mechanism", "tab:blue"), ("isotropic", "tab:red")):
        own = [rows[kind, size] for size in SIZES]
        solved = np.array([r["solved"] for r in own])
        name = f"noise {NAMES[kind]}" if kind == "mechanism" else "isotropic noise"
        for ax, x in ((axes[0], links), (axes[1], [r["joints"] for r in own])):
            ax.plot(x, solved.mean(axis=1), "o-", color=color, label=name)
            ax.fill_between(x, solved.min(axis=1), solved.max(axis=1), color=color, alpha=0.2)
        for i, style in ((0, "-"), (2, "--")):
            what = "hand's path" if i == 0 else "in the mass metric"
            axes[2].plot(links, [r["lengths"][i] for r in own], style, color=color, label=what)
    for ax in axes:
        ax.set(xscale="log", xlabel="size of the noise: links (cm)")
        ax.set_xticks(links, [f"{x:.0f}" for x in links], minor=False)
        ax.minorticks_off()
    axes[1].set(xlabel="size of the noise: joint angles (rad)")
    ticks = (0.03, 0.1, 0.3, 1)
    axes[1].set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes[0].set(ylabel="problems solved (%)")
    axes[2].set(ylabel="length / straight path")
    axes[0].legend()
    axes[2].legend()
    picture = HERE.parent / "docs" / "pictures" / "planning.svg"
    fig.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
