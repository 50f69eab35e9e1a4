"""What a new process pays: compile times with and without the disk cache, the first call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

COMPILE = """
import json, sys, time
sys.path.insert(0, {here!r})
import robots, phipsi as pp
from phipsi import operators as ops
forms = dict(zip(robots.WHAT, (
    (robots.FORWARD, {{}}), (robots.INVERSE, {{}}), (ops.mass_matrix, dict(mode="dense")),
    (ops.mass_matrix.inv, dict(mode="dense")))))
model = {model}
pp.compile(ops.H @ ops.f_ext, robots.chain(1), backend="native").ufunc  # LLVM itself is loaded
out = {{}}
for name, (x, options) in forms.items():
    start = time.perf_counter()
    pp.compile(x, model, backend="native", **options).ufunc
    out[name] = time.perf_counter() - start
print(json.dumps(out))
"""

FIRST = """
import time
start = time.perf_counter()
import numpy as np
import phipsi as pp
from phipsi.files.load import load
import warnings
warnings.simplefilter("ignore")
imported = time.perf_counter()
model = load({path!r}, loops="cut")
loaded = time.perf_counter()
pp.forward_dynamics(model, np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv))
done = time.perf_counter()
print(imported - start, loaded - imported, done - loaded)
"""


def _run(text: str, cache: str) -> tuple[str, float]:
    # with bytecode, as in any installation that was used before
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**env, "PHIPSI_CACHE": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, time.perf_counter() - start


def compile_times(names: list[str], rounds: int = 3) -> dict[str, Any]:
    """Seconds to compile every algorithm: cold, and from the disk cache; best of some rounds."""
    models = {n: f"robots.load_robot({n!r})" for n in names}
    models["all joint types"] = "pp.examples.random_tree(0, 40)"
    out: dict[str, Any] = {}
    for name, model in models.items():
        text = COMPILE.format(here=str(HERE), model=model)
        best: dict[str, dict[str, float]] = {"cold": {}, "cached": {}}
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                os.chmod(cache, 0o700)
                for kind in ("cold", "cached"):
                    for what, seconds in json.loads(_run(text, cache)[0]).items():
                        best[kind][what] = min(seconds, best[kind].get(what, 1e9))
        out[name] = best
        print(f"  compile {name}: {best}", flush=True)
    return out


def first_call(path: str, rounds: int = 5) -> dict[str, Any]:
    """A new process: import, load, first forward dynamics."""
    text = FIRST.format(path=path)
    best: dict[str, Any] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            os.chmod(cache, 0o700)
            for kind in ("cold", "cached"):
                parts, wall = _run(text, cache)
                imported, loaded, first = map(float, parts.split())
                row = {"import": imported, "load": loaded, "first call": first, "process": wall}
                if kind not in best or wall < best[kind]["process"]:
                    best[kind] = row
    print(f"  first call: {best}", flush=True)
    return best
