"""Long chains: how time, memory and accuracy depend on the number of bodies."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from typing import Any

import numpy as np
from robots import FORWARD, INVERSE, chain
from timing import best

import phipsi as pp

SIZES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
RESIDUAL_AT = 10_000


def bytes_per_body(program: pp.Program, lanes: int) -> float:
    """Scratch for a number of lanes, and constant tables."""
    native: Any = program.native
    scratch = (int(native.data[native.words]) - 64) / native.target.lanes * lanes
    tables = sum(a.nbytes for a in native.unit.pointers().values())
    return (scratch + tables) / program.model.n_bodies


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Least-squares slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def residual(model: pp.Model, forward: pp.Program, inverse: pp.Program) -> dict[str, float]:
    """max |ID(FD(tau)) − tau| against the largest force in a hinge.

    For the chain let go at random angles, held there by nine tenths of what its weight needs, and
    with random rates and efforts of size 1; with how much the same inverse dynamics changes if
    every acceleration is off by half a unit in its last place, which no algorithm that returns
    doubles can avoid.
    """
    rng = np.random.default_rng(3)
    q, v, tau = rng.uniform(-np.pi, np.pi, model.nq), *rng.standard_normal((2, model.nv))
    still = np.zeros(model.nv)
    weight = inverse(q, still, still)
    states = {"let go": (still, still), "held": (still, 0.9 * weight), "driven": (v, tau)}
    out: dict[str, float] = {}
    for name, (rates, efforts) in states.items():
        vdot = forward(q, rates, efforts)
        back = inverse(q, rates, vdot)
        largest = np.abs(pp.joint_reactions(model, q, rates, efforts).joints).max()
        moved = vdot * (1 + rng.uniform(-1, 1, model.nv) * 2.0**-53)
        out[name] = float(np.abs(back - efforts).max() / largest)
        change = np.abs(inverse(q, rates, moved) - back).max()
        out[f"{name}, one rounding"] = float(change / largest)
    return out


def run(sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    out: dict[str, Any] = {"sizes": list(sizes), "rows": []}
    for n in sizes:
        start = time.perf_counter()
        model = chain(n)
        built = time.perf_counter() - start
        forward = pp.compile(FORWARD, model, backend="native")
        lanes = forward.native.target.lanes  # type: ignore[union-attr]
        rng = np.random.default_rng(2)
        q = rng.uniform(-np.pi, np.pi, (8, model.nq))
        v, tau = rng.standard_normal((2, 8, model.nv))
        rounds, target = (40, 0.004) if n <= 3000 else (15, 0.02)
        single, group = ([a[s] for a in (q, v, tau)] for s in (0, slice(lanes)))
        one = best(partial(forward, *single), rounds=rounds, target=target)
        full = best(partial(forward, *group), rounds=rounds, target=target)
        row = {
            "n": n,
            "build": built,
            "one": one,
            "group": full,
            "lanes": lanes,
            "bytes at 4 lanes": bytes_per_body(forward, 4),
            "bytes at full lanes": bytes_per_body(forward, lanes),
        }
        if n == RESIDUAL_AT:
            inverse = pp.compile(INVERSE, model, backend="native")
            out["residual"] = residual(model, forward, inverse)
        out["rows"].append(row)
        print(f"  chain {n}: {one * 1e6:.1f} µs, group of {lanes} {full * 1e6:.1f} µs", flush=True)
    rows = out["rows"]
    out["slope of one"] = slope([r["n"] for r in rows], [r["one"] for r in rows])
    out["slope of a group"] = slope([r["n"] for r in rows], [r["group"] for r in rows])
    if rows[0]["lanes"] > 4:
        out["slope of a group of four"] = _with_four_lanes(sizes)
    return out


def groups(sizes: list[int]) -> float:
    """The slope for groups of as many lanes as there are."""
    seconds: list[float] = []
    for n in sizes:
        model = chain(n)
        forward = pp.compile(FORWARD, model, backend="native")
        lanes = forward.native.target.lanes  # type: ignore[union-attr]
        rng = np.random.default_rng(2)
        q = rng.uniform(-np.pi, np.pi, (lanes, model.nq))
        v, tau = rng.standard_normal((2, lanes, model.nv))
        rounds, target = (40, 0.004) if n <= 3000 else (15, 0.02)
        seconds.append(best(partial(forward, q, v, tau), rounds=rounds, target=target))
    return slope(sizes, seconds)


def _with_four_lanes(sizes: tuple[int, ...]) -> float:
    """The same in a process that may use four lanes only."""
    listed = [str(n) for n in sizes]
    done = subprocess.run(
        [sys.executable, __file__, *listed],
        env={**os.environ, "PHIPSI_LANES": "4"},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


if __name__ == "__main__":
    print(groups([int(n) for n in sys.argv[1:]]))
