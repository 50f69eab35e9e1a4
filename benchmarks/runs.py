"""Whole runs: what acts during a run is part of the compiled program, against MuJoCo's `rollout`.

    python benchmarks/runs.py          writes benchmarks/RUNS.md

Robots with damping, friction, stops and PD control at every joint, without contacts, semi-implicit
Euler, one core; all contestants of a row take turns in one run, in processor time.

What is the same on both sides: the model, the step, joint damping (explicit in both), the PD law
(position actuators in MuJoCo), and the policy. The last states of these runs must agree, or the row
has no ratio. What is not the same: friction and stops. MuJoCo has them as constraints of its solver
(`frictionloss`; `limited` with `solref` as spring and damper), phipsi as smooth forces. So there are
two ratios: one with MuJoCo's own elements, one with friction and stops left out in MuJoCo only,
which then does less than phipsi.
"""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import robots
from machine import machine
from timing import race

import phipsi as pp
from phipsi.files import conventions

Network = Callable[[np.ndarray], np.ndarray]
HERE = pathlib.Path(__file__).parent
NAMES = ("UR5", "Panda", "ANYmal", "G1")
DT, STEPS, BATCH = 1e-4, 100, 256
AGREE = 1e-11
DAMPING, FRICTION, SLIP = 0.5, 0.1, 0.1
STIFFNESS, DISSIPATION = 1e3, 0.1
KP, KD = 20.0, 1.0
HIDDEN = 64
GOAL, POLICY_GOAL, GRADIENT_GOAL, STEP_GOAL = 6, 2, 6, 2


@pp.law
def hold(q: Any, v: Any, kp: Any, kd: Any, target: Any) -> Any:
    """PD control."""
    return kp * (target - q) - kd * v


@pp.law
def policy(q: Any, v: Any, kp: Any, kd: Any, W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any) -> Any:  # fmt: skip
    """PD control to the targets of a network."""
    x = np.tanh(W1 @ np.concatenate([q, v]) + b1)
    x = np.tanh(W2 @ x + b2)
    return kp * (W3 @ x + b3 - q) - kd * v


def weights(inputs: int, outputs: int, seed: int = 5) -> dict[str, np.ndarray]:
    """Random weights and offsets of the network."""
    rng, sizes, out = np.random.default_rng(seed), (inputs, HIDDEN, HIDDEN, outputs), {}
    for i, (m, n) in enumerate(zip(sizes[:-1], sizes[1:], strict=True), 1):
        out[f"W{i}"] = rng.standard_normal((n, m)) / np.sqrt(m)
        out[f"b{i}"] = 0.1 * rng.standard_normal(n)
    return out


class Ours:
    """A robot of phipsi with laws at all joints but the free one, and its start states."""

    def __init__(self, name: str) -> None:
        self.name, self.model = name, robots.load_robot(name)
        model = self.model
        kinds = zip(model.joint_names, model.description.bodies, strict=True)
        self.joints = [joint for joint, body in kinds if body.joint.kind != "free"]
        n = len(self.joints)
        self.q = model.random_configuration(np.random.default_rng(1), (BATCH,))
        self.v = 0.1 * np.random.default_rng(2).standard_normal((BATCH, model.nv))
        self.target = self.q[0, [model.q_slice(x).start for x in self.joints]]
        self.weights = weights(2 * n, n)
        forces, which = pp.forces, self.joints
        damping = forces.JointDamper(which, DAMPING)
        rubbing = [forces.JointFriction(which, FRICTION, SLIP)]
        rubbing += [forces.JointLimit(None, STIFFNESS, DISSIPATION)]
        gains = {"kp": KP, "kd": KD}
        pd = hold.on(which).bind(**gains, target=self.target)
        net = policy.on(which).bind(**gains, **self.weights)
        self.sims = {
            "PD": self._sim(damping, pd),
            "all": self._sim(damping, *rubbing, pd),
            "policy": self._sim(damping, net),
            "all, policy": self._sim(damping, *rubbing, net),
        }

    def _sim(self, *laws: Any) -> pp.Simulator:
        return pp.Simulator(self.model, laws, DT, integrator="semi_implicit")

    def run(self, which: str, every: int = STEPS) -> Callable[[], Any]:
        """A rollout of all trajectories, by default with only the last state recorded."""
        sim = self.sims[which]
        state = sim.initial_state(self.q, self.v)
        return lambda: sim.rollout(state, steps=STEPS, record_every=every)

    def last(self, which: str) -> np.ndarray:
        """The last states in MuJoCo's coordinates."""
        found = self.run(which)()
        both = conventions.to_mujoco(self.model, found.q[:, -1], found.v[:, -1])
        return np.concatenate([both.q, both.v], axis=-1)

    def gradient(self) -> Callable[[], Any]:
        """The gradient of Σ q of the last state by all weights."""
        sim = self.sims["all, policy"]
        state = sim.initial_state(self.q, self.v)
        end = np.zeros((STEPS + 1, self.model.nq))
        end[-1] = 1.0
        return lambda: sim.gradient(state, None, STEPS, cotangents={"q": end})


class Theirs:
    """The same robot in MuJoCo; with or without friction and stops."""

    def __init__(self, ours: Ours, *, constraints: bool) -> None:
        import mujoco
        from mujoco import rollout

        self.ours, self._rollout = ours, rollout.rollout
        model = ours.model
        built = robots.Mujoco(ours.name, model, robots.States(model, 1))
        spec = built.spec
        spec.option.timestep = DT
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
        spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
        if constraints:
            spec.option.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
            spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        for name in ours.joints:
            joint = spec.joint(name)
            low, high = model.lower[model.q_slice(name)], model.upper[model.q_slice(name)]
            if constraints:
                joint.frictionloss = FRICTION
                if np.isfinite([*low, *high]).all():
                    joint.limited, joint.range = True, [low[0], high[0]]
                    joint.solref_limit = [-STIFFNESS, -STIFFNESS * DISSIPATION]
            motor = spec.add_actuator(name=name, target=name)
            motor.trntype = mujoco.mjtTrn.mjTRN_JOINT
            motor.set_to_position(kp=KP, kv=KD)
        self.theirs = spec.compile()
        self.data = mujoco.MjData(self.theirs)
        both = conventions.to_mujoco(model, ours.q, ours.v)
        self.start = np.concatenate([np.zeros((BATCH, 1)), both.q, both.v], axis=-1)
        self.targets = np.ascontiguousarray(
            np.broadcast_to(ours.target, (BATCH, STEPS, len(ours.joints)))
        )
        joints = [self.theirs.joint(x) for x in ours.joints]
        self.theirs.dof_damping[[int(x.dofadr[0]) for x in joints]] = DAMPING
        self.read = [1 + int(x.qposadr[0]) for x in joints]
        self.read += [1 + self.theirs.nq + int(x.dofadr[0]) for x in joints]

    def run(self) -> np.ndarray:
        """A rollout to constant targets: the last states."""
        return self._steps(self.start, self.targets)[:, 1 : 1 + self.theirs.nq + self.theirs.nv]

    def _steps(self, start: np.ndarray, control: np.ndarray) -> np.ndarray:
        found, _ = self._rollout(
            self.theirs, self.data, start, control, nstep=control.shape[1], persistent_pool=False
        )
        return found[:, -1]

    def run_policy(self, network: Network) -> np.ndarray:
        """Step by step: the network on the batch, then a step of all trajectories."""
        state = self.start
        for _ in range(STEPS):
            state = self._steps(state, network(state[:, self.read])[:, None])
        return state[:, 1 : 1 + self.theirs.nq + self.theirs.nv]


def networks(w: dict[str, np.ndarray]) -> dict[str, Network]:
    """The policy on batches, in NumPy, and in PyTorch where that is installed."""
    W1, W2, W3 = (np.ascontiguousarray(w[x].T) for x in ("W1", "W2", "W3"))

    def in_numpy(x: np.ndarray) -> np.ndarray:
        x = np.tanh(x @ W1 + w["b1"])
        return np.tanh(x @ W2 + w["b2"]) @ W3 + w["b3"]

    out: dict[str, Network] = {"NumPy": in_numpy}
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(1)
        T = {name: torch.from_numpy(x) for name, x in w.items()}

        def in_torch(x: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                y = torch.tanh(torch.nn.functional.linear(torch.from_numpy(x), T["W1"], T["b1"]))
                y = torch.tanh(torch.nn.functional.linear(y, T["W2"], T["b2"]))
                return torch.nn.functional.linear(y, T["W3"], T["b3"]).numpy()

        out["PyTorch"] = in_torch
    return out


def measure(name: str, rounds: int = 5) -> dict[str, Any]:
    """Seconds per step and trajectory of every contestant, and how well last states agree."""
    ours = Ours(name)
    functions = {which: ours.run(which) for which in ours.sims if "policy" in which}
    functions |= {which: ours.run(which, 1) for which in ("PD", "all")}
    functions["all, last state"] = ours.run("all")
    out: dict[str, Any] = {}
    try:
        bare, whole = (Theirs(ours, constraints=x) for x in (False, True))
    except ImportError:
        bare = whole = None
    nets = networks(ours.weights)
    if bare is not None and whole is not None:
        pairs = {"PD": bare.run, "policy": lambda: bare.run_policy(nets["NumPy"])}
        for which, theirs in pairs.items():
            mine, found = ours.last(which), theirs()
            out[f"{which} agrees to"] = float(np.abs(mine - found).max() / np.abs(mine).max())
        functions |= {"MuJoCo PD": bare.run, "MuJoCo all": whole.run}
        for kind, net in nets.items():
            for which, peer in (("policy", bare), ("all, policy", whole)):
                name = f"MuJoCo {which}, {kind}"
                functions[name] = lambda peer=peer, net=net: peer.run_policy(net)
    functions["gradient"] = ours.gradient()
    found = race(functions, rounds=rounds, target=0.0)
    for which in ("policy", "all, policy"):
        times = [found[x] for x in (f"MuJoCo {which}, {kind}" for kind in nets) if x in found]
        found |= {f"MuJoCo {which}": min(times)} if times else {}
    return out | {which: seconds / (BATCH * STEPS) for which, seconds in found.items()}


def single_step() -> dict[str, float]:
    """Seconds of one step of one UR5 from Python, and of one call of forward dynamics."""
    ours = Ours("UR5")
    model, q, v, tau = ours.model, ours.q[0], ours.v[0], np.zeros(ours.model.nv)
    bare, rk4 = (
        pp.Simulator(model, dt=DT, integrator=method) for method in ("semi_implicit", "rk4")
    )
    starts = {sim: sim.initial_state(q, v) for sim in (bare, rk4, *ours.sims.values())}

    def step(sim: pp.Simulator, *more: np.ndarray) -> Callable[[], object]:
        return lambda: sim.step(starts[sim], *more)

    return race({
        "forward_dynamics": lambda: pp.forward_dynamics(model, q, v, tau),
        "sim.step": step(bare),
        "sim.step, tau": step(bare, tau),
        "sim.step with damping, friction, stops, PD": step(ours.sims["all"]),
        "sim.step with the policy too": step(ours.sims["all, policy"]),
        "sim.step, RK4": step(rk4),
    }, rounds=20)  # fmt: skip


ROWS = (
    ("damping, PD: the same on both sides", "PD", "MuJoCo PD"),
    ("damping, friction, stops, PD", "all", "MuJoCo all"),
    ("… friction and stops in phipsi only", "all", "MuJoCo PD"),
    ("damping, PD to the targets of a policy: the same on both sides", "policy", "MuJoCo policy"),
    ("damping, friction, stops, policy", "all, policy", "MuJoCo all, policy"),
    ("… friction and stops in phipsi only", "all, policy", "MuJoCo policy"),
)


def table(found: dict[str, dict[str, Any]], step: dict[str, float]) -> list[str]:
    """The page."""
    here = machine()
    names = list(found)
    lines = [
        "# Whole runs",
        "",
        f"`{BATCH}` trajectories of `{STEPS}` steps of {DT:g} s, semi-implicit Euler, no contacts, one core, processor",
        "time; contestants take turns, best of the rounds. Written by `benchmarks/runs.py`.",
        f"{here['cpu']}, {here['lanes']} lanes; numpy {here['versions']['numpy']}, mujoco {here['versions']['mujoco']}; "
        f"{here['date']}.",
        "",
        "A cell is µs per step and trajectory of phipsi, of MuJoCo's `rollout`, and their ratio. The policy has",
        f"two hidden layers of {HIDDEN} tanh and shared weights; in MuJoCo it is evaluated for the whole batch,",
        "in NumPy or PyTorch, whichever is faster and installed, between two calls of `rollout` by one step.",
        "",
        "Without policy both sides record every state, with it the last one.",
        "",
        "Equal on both sides, and compared: model, step, damping (explicit), PD (position actuators), policy.",
        "Not equal: friction and stops, which are constraints of a solver in MuJoCo and smooth forces in phipsi. Rows that",
        "begin with … leave them out in MuJoCo, which then does less.",
        "",
        f"| with | {' | '.join(names)} | goal |",
        f"|---|{'---|' * (len(names) + 1)}",
    ]  # fmt: skip
    for text, mine, theirs in ROWS:
        cells = [_cell(found[name], mine, theirs) for name in names]
        lines.append(f"| {text} | {' | '.join(cells)} | ≥ {GOAL}× |")
    last = names[-1]
    slower = [f"{x['all, policy'] / x['all, last state']:.2f}×" for x in found.values()]
    lines.append(
        f"| run with policy : without | {' | '.join(slower)} | ≤ {POLICY_GOAL}× ({last}) |"
    )
    pulls = [f"{x['gradient'] / x['all, policy']:.1f}×" for x in found.values()]
    lines.append(f"| gradient by all weights : run | {' | '.join(pulls)} | ≤ {GRADIENT_GOAL}× |")
    agree = [max(x.get("PD agrees to", np.nan), x.get("policy agrees to", np.nan)) for x in found.values()]  # fmt: skip
    lines.append(f"| last states agree to | {' | '.join(f'{x:.0e}' for x in agree)} | {AGREE:g} |")
    unit = step["forward_dynamics"]
    lines += [
        "",
        f"One step of one UR5 from Python, semi-implicit, as multiples of `forward_dynamics` ({1e6 * unit:.2f} µs):",
        "",
        "| call | µs | ratio | goal |",
        "|---|---|---|---|",
    ]  # fmt: skip
    for name, seconds in step.items():
        goal = f"≤ {STEP_GOAL}" if name in ("sim.step", "sim.step, tau") else ""
        if name != "forward_dynamics":
            lines.append(f"| {name} | {1e6 * seconds:.2f} | {seconds / unit:.2f} | {goal} |")
    return lines


def _cell(row: dict[str, Any], mine: str, theirs: str) -> str:
    """µs of both, and their ratio if the runs that can agree do."""
    if theirs not in row:
        return f"{1e6 * row[mine]:.2f}"
    both = f"{1e6 * row[mine]:.2f}, {1e6 * row[theirs]:.2f}"
    same = all(row[f"{x} agrees to"] <= AGREE for x in ("PD", "policy"))
    return f"{both}: {row[theirs] / row[mine]:.1f}×" if same else f"{both}: they disagree"


def main() -> None:
    """Measure, and write the page."""
    found = {}
    for name in NAMES:
        found[name] = measure(name)
        print(f"  {name}: {found[name]}", flush=True)
    lines = table(found, single_step())
    print("\n".join(lines))
    (HERE / "RUNS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
