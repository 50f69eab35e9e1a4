"""Derivatives of inverse and forward dynamics, and regressors, against Pinocchio, on one core.

    python benchmarks/derivatives.py [robots …]          writes benchmarks/DERIVATIVES.md

Pinocchio has no batch call for derivatives, so both our single call and our batch are compared with
its single call from Python, which writes into preallocated matrices. Our batch writes into given
arrays too; our single call allocates its results.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from robots import ROBOTS, Pinocchio, States, load_robot
from timing import race

import phipsi as pp
from phipsi.algorithms import (
    FORWARD_DYNAMICS,
    INVERSE_DYNAMICS,
    forward_dynamics_operators,
    inverse_dynamics_operators,
)
from phipsi.core.compiler import program_of
from phipsi.identification import REGRESSOR

WHAT = ("inverse dynamics", "forward dynamics", "efforts by parameters")
PROGRAMS = {
    "inverse dynamics": lambda m: program_of(inverse_dynamics_operators(), m, "dense"),
    "forward dynamics": lambda m: program_of(forward_dynamics_operators(), m, "dense"),
    "efforts by parameters": lambda m: program_of(REGRESSOR, m, "dense"),
}


LINES: list[str] = []
FILE = Path(__file__).parent / "DERIVATIVES.md"


def tell(line: str) -> None:
    """Print a line, and keep it for the file."""
    print(line, flush=True)
    LINES.append(line)


def write(load: float) -> None:
    """The tables, with what was written about them before."""
    old = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    notes = old[old.index("## Reading") :] if "## Reading" in old else ""
    head = [
        "# Derivatives against Pinocchio",
        "",
        f"Time of the derivatives of the dynamics. Written by `python benchmarks/derivatives.py`, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, on the",
        f"machine of RESULTS.md; load average {load:.1f} before, {os.getloadavg()[0]:.1f} after. Processor time, best of",
        "many rounds, µs per evaluation. Ratios are Pinocchio's single call from Python over ours, and over our batch of",
        "256 on one core; Pinocchio has no batch call for derivatives. The answers agree to 1e-8, else the script stops.",
        "",
    ]  # fmt: skip
    FILE.write_text("\n".join([*head, *LINES, "", notes]).rstrip() + "\n", encoding="utf-8")


def theirs(peer: Pinocchio, what: str) -> Callable[[], Any]:
    pin, model, data = peer.pin, peer.theirs, peer.data
    q, v, vdot, tau = (a[0].copy() for a in (peer.q, peer.v, peer.vdot, peer.tau))
    if what == "inverse dynamics":
        return lambda: pin.computeRNEADerivatives(model, data, q, v, vdot)
    if what == "efforts by parameters":
        return lambda: pin.computeJointTorqueRegressor(model, data, q, v, vdot)
    return lambda: pin.computeABADerivatives(model, data, q, v, tau)


def answers(peer: Pinocchio, what: str, i: int) -> list[np.ndarray]:
    pin, model, data, T = peer.pin, peer.theirs, peer.data, peer.rates
    q, v, vdot, tau = (a[i] for a in (peer.q, peer.v, peer.vdot, peer.tau))
    if what == "inverse dynamics":
        pin.computeRNEADerivatives(model, data, q, v, vdot)
        mass = np.triu(data.M) + np.triu(data.M, 1).T
        return [T.T @ x @ T for x in (data.dtau_dq.copy(), data.dtau_dv.copy(), mass)]
    if what == "efforts by parameters":  # their bodies may be in another order: efforts instead
        pi = np.concatenate([x.toDynamicParameters() for x in model.inertias[1:]])
        return [T.T @ pin.computeJointTorqueRegressor(model, data, q, v, vdot) @ pi]
    pin.computeABADerivatives(model, data, q, v, tau)
    inverse = np.triu(data.Minv) + np.triu(data.Minv, 1).T
    return [T.T @ x @ T for x in (data.ddq_dq.copy(), data.ddq_dv.copy(), inverse)]


def functions(model: pp.Model, s: States, what: str, size: int | None) -> Callable[[], Any]:
    named = {
        "inverse dynamics": (pp.inverse_dynamics_derivatives, s.vdot),
        "forward dynamics": (pp.forward_dynamics_derivatives, s.tau),
        "efforts by parameters": (pp.identification.regressor, s.vdot),
    }
    function, third = named[what]
    if size is None:
        args = [a[0].copy() for a in (s.q, s.v, third)]
        return lambda: function(model, *args)
    args = [np.ascontiguousarray(a[:size]) for a in (s.q, s.v, third)]
    program, out = PROGRAMS[what](model), function(model, *args)
    status = np.empty(size, dtype=np.int64)
    out = out if isinstance(out, tuple) else (out,)
    return lambda: program.ufunc(*args, out=(*out, status))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robots", nargs="*", default=list(ROBOTS))
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    tell("| derivatives of | model | dof | phipsi, one call | Pinocchio, one call | ratio |"
         " phipsi, batch | ratio |")  # fmt: skip
    tell("|---|---|---|---|---|---|---|---|")
    for what in WHAT:
        for name in options.robots:
            model = load_robot(name)
            s = States(model, options.batch)
            peer = Pinocchio(name, model, s)
            ours = functions(model, s, what, None)()
            if what == "efforts by parameters":
                ours = (ours @ pp.identification.inertial_parameters(model),)
            for x, y in zip(ours, answers(peer, what, 0), strict=True):
                error = np.abs(x - y).max() / max(1.0, np.abs(y).max())
                assert error < 1e-8, (what, name, error)
            found = race(
                {
                    "phipsi": functions(model, s, what, None),
                    "pin": theirs(peer, what),
                    "batch": functions(model, s, what, options.batch),
                },
                rounds=options.rounds,
                target=0.002,
            )
            one, pin, batch = (
                1e6 * found[n] / (options.batch if n == "batch" else 1)
                for n in ("phipsi", "pin", "batch")
            )
            tell(
                f"| {what} | {name} | {model.nv} | {one:.2f} | {pin:.2f} | {pin / one:.2f}× | "
                f"{batch:.3f} | {pin / batch:.1f}× |"
            )
    tensors(options.rounds)
    gradients(options.robots, options.rounds)
    write(before)


def tree_of_20() -> pp.Model:
    """A binary tree of revolute joints about x, y and z in turn."""
    builder, rng = pp.ModelBuilder(), np.random.default_rng(0)
    for i in range(20):
        edges = rng.uniform(0.1, 0.2, 3) ** 2
        builder.add_body(
            f"b{i}",
            parent="world" if i == 0 else f"b{(i - 1) // 2}",
            joint=pp.joints.Revolute(np.eye(3)[i % 3]),
            placement=pp.Pose(translation=(0.1, 0.05, 0.2)),
            inertia=pp.SpatialInertia(1.0, (0, 0, 0.1), np.diag((edges.sum() - edges) / 12)),
        )
    return builder.build()


def tensors(rounds: int, size: int = 64) -> None:
    """Christoffel symbols and sensitivities of a tree of 20 dofs, in forward dynamics."""
    model = tree_of_20()
    s = States(model, size)
    found = race(
        {
            "forward dynamics": lambda: pp.forward_dynamics(model, s.q, s.v, s.tau),
            "christoffel_symbols": lambda: pp.sensitivities.christoffel_symbols(model, s.q),
            "mass_matrix_sensitivity": lambda: pp.sensitivities.mass_matrix_sensitivity(model, s.q),
        },
        rounds=rounds,
    )
    one = found.pop("forward dynamics")
    tell(f"\n| tree of 20 dofs, batch of {size} | µs | forward dynamics |\n|---|---|---|")
    for name, seconds in found.items():
        tell(f"| {name} | {1e6 * seconds / size:.1f} | {seconds / one:.0f} evaluations |")


def gradients(robots: list[str], rounds: int, size: int = 256) -> None:
    """All gradients of c* y by q, v and the third input, in evaluations of y."""
    tell("\n| gradients by q, v and τ or v̇, batch | model | µs | evaluations |\n|---|---|---|---|")
    for name in robots:
        model = load_robot(name)
        s = States(model, size)
        for what, y, third in (
            ("inverse dynamics", INVERSE_DYNAMICS, "vdot"),
            ("forward dynamics", FORWARD_DYNAMICS, "tau"),
        ):
            plain = pp.compile(y, model)
            gradient = pp.vjp(y, model, ("q", "v", third))
            args = (s.q, s.v, getattr(s, third))
            found = race(
                {
                    "y": lambda plain=plain, args=args: plain(*args),
                    "gradient": lambda g=gradient, args=args, c=s.v: g(*args, c),
                },
                rounds=rounds,
            )
            ratio = found["gradient"] / found["y"]
            tell(f"| {what} | {name} | {1e6 * found['gradient'] / size:.2f} | {ratio:.1f} |")


if __name__ == "__main__":
    main()
