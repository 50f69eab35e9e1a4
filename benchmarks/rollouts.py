"""Rollouts against MuJoCo's own: same model, same step, semi-implicit Euler, no contacts."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import robots
from timing import race

import phipsi as pp
from phipsi.files import conventions

NAMES = ("UR5", "Panda", "ANYmal", "Talos", "G1")
DT, STEPS, BATCH = 1e-4, 100, 256
# After 10 ms: both methods are the same, also for free joints.
AGREE = 1e-12


def run(names: tuple[str, ...] = NAMES, rounds: int = 10) -> dict[str, Any]:
    """Seconds per step and trajectory, one thread, and how well the last states agree."""
    out: dict[str, Any] = {}
    for name in names:
        model = robots.load_robot(name)
        states = robots.States(model, BATCH)
        v0 = 0.1 * states.v
        tau = np.zeros(model.nv)
        functions: dict[str, Any] = {
            "phipsi": lambda m=model, q=states.q, v=v0, t=tau: pp.rollout(
                m, q, v, t, DT, STEPS, record_every=STEPS, integrator="semi_implicit"
            )
        }
        row: dict[str, Any] = {}
        try:
            theirs, last = _mujoco(name, model, states, v0)
        except ImportError:
            theirs = None
        if theirs is not None:
            q, v = functions["phipsi"]()
            got = last()
            wanted = np.concatenate(conventions.to_mujoco(model, q[:, -1], v[:, -1])[:2], axis=-1)
            row["agreement"] = float(np.abs(got - wanted).max() / np.abs(wanted).max())
            if row["agreement"] <= AGREE:
                functions["MuJoCo"] = theirs
        seconds = race(functions, rounds=rounds, target=0.0)
        row |= {k: s / (BATCH * STEPS) for k, s in seconds.items()}
        both = {
            str(n): lambda n=n, m=model, q=states.q, v=v0, t=tau: pp.rollout(
                m, q, v, t, DT, STEPS, record_every=STEPS, threads=n, integrator="semi_implicit"
            )
            for n in (1, 2)
        }
        pair = race(both, rounds=rounds, target=0.0, clock=time.perf_counter)
        row["two threads"] = pair["1"] / pair["2"]
        out[name] = row
        print(f"  rollout {name}: {row}", flush=True)
    return out


def _mujoco(name: str, model: pp.Model, states: Any, v0: np.ndarray) -> tuple[Any, Any]:
    import mujoco
    from mujoco import rollout

    peer = robots.Mujoco(name, model, states)
    theirs = peer.theirs
    theirs.opt.timestep = DT
    theirs.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    q, v = conventions.to_mujoco(model, states.q, v0)[:2]
    start = np.concatenate([np.zeros((BATCH, 1)), q, v], axis=-1)
    data = mujoco.MjData(theirs)

    def run() -> Any:
        return rollout.rollout(theirs, data, start, nstep=STEPS, persistent_pool=False)[0]

    def last() -> np.ndarray:
        return np.asarray(run())[:, -1, 1 : 1 + theirs.nq + theirs.nv]

    return run, last
