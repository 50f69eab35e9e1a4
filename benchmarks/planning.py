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


def measure(n: int) -> dict[tuple[str, float], dict[str, Any]]:
    """For each kind and size: what was solved (seeds, n), iterations, relative lengths."""
    tools = runpy.run_path(str(HERE.parent / "examples" / "plan_with_noise.py"))
    problems = tools["random_problems"](n)
    line = tools["lengths"](problems.straight())
    rows: dict[tuple[str, float], dict[str, Any]] = {}
    for kind in NAMES:
        links, joints = tools["sizes"](kind, problems.straight())
        for size in SIZES:
            found = [tools["plan"](kind, problems, size, seed) for seed in range(SEEDS)]
            free = np.array([x[1] for x in found])
            relative = np.array([np.divide(tools["lengths"](x[0]), line) for x in found])
            rows[kind, size] = {
                "joints": size * np.sqrt(joints / links),
                "free": free,
                "iterations": np.mean([x[2] for x in found]),
                "lengths": np.moveaxis(relative, 1, 0),
            }
            print(kind, size, free.sum(1), flush=True)
    return rows


def both(rows: dict[tuple[str, float], dict[str, Any]], size: float) -> np.ndarray:
    """What both kinds solve at one size, where lengths can be compared."""
    return rows["mechanism", size]["free"] & rows["isotropic", size]["free"]


def main() -> None:
    """Measure, write, draw."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    begin = time.perf_counter()
    rows = measure(n)
    lines: list[list[str]] = []
    for size in SIZES:
        common = both(rows, size)
        for kind, name in NAMES.items():
            r = rows[kind, size]
            other = rows["isotropic" if kind == "mechanism" else "mechanism", size]
            alone = (r["free"] & ~other["free"]).sum()
            hand, joints, metric = (np.median(x[common]) for x in r["lengths"])
            lines.append([
                f"{100 * size:.0f}", name, f"{r['joints']:.2f}", f"{100 * r['free'].mean():.1f}",
                str(alone), f"{r['iterations']:.1f}", f"{hand:.2f}", f"{joints:.2f}",
                f"{metric:.2f}",
            ])  # fmt: skip
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


def draw(rows: dict[tuple[str, float], dict[str, Any]]) -> None:
    """Success by the size of the noise in the links and in the joints, and lengths."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
    for kind, color in (("mechanism", "tab:blue"), ("isotropic", "tab:red")):
        solved = np.array([100 * rows[kind, s]["free"].mean(axis=1) for s in SIZES])
        joints = [rows[kind, s]["joints"] for s in SIZES]
        name = {"label": f"noise {NAMES[kind]}" if kind == "mechanism" else "isotropic noise"}
        for ax, x in ((axes[0], 100 * np.array(SIZES)), (axes[1], joints)):
            ax.plot(x, solved.mean(axis=1), "o-", color=color, **name)
            ax.fill_between(x, solved.min(axis=1), solved.max(axis=1), color=color, alpha=0.2)
        for i, style in ((0, "-"), (2, "--")):
            relative = [np.median(rows[kind, s]["lengths"][i][both(rows, s)]) for s in SIZES]
            what = "hand" if i == 0 else "mass metric"
            axes[2].plot(100 * np.array(SIZES), relative, f"o{style}", color=color, label=what)
    labels = ("noise: displacement of links (cm)", "noise: joint angles (rad)")
    for ax, label in zip(axes, (*labels, labels[0]), strict=True):
        ax.set(xscale="log", xlabel=label)
    axes[0].set(ylabel="problems solved (%)")
    axes[2].set(ylabel="length / straight path")
    axes[0].legend()
    axes[2].legend()
    fig.savefig(HERE.parent / "docs" / "pictures" / "planning.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
