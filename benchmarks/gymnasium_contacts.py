"""The walkers of Gymnasium on their floors, as the files have them, against MuJoCo's `rollout`.

    python benchmarks/gymnasium_contacts.py          writes benchmarks/GYMNASIUM_CONTACTS.md

benchmarks/contacts.py has few points of contact, spheres at feet. Here every geom of the file may
touch the floor, and the others where the file lets them: capsules with two slots on a plane and
three with each other. Time step, friction, damping, springs, armature and limits are the file's; no
motor acts. phipsi has rigid contacts and limits; MuJoCo has its soft ones and implicitfast. They
begin in the pose of the file with random rates, fall, and lie on the ground later. One core, the
contestants take turns, in processor time.
"""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import gymnasium
import numpy as np
from machine import machine
from timing import race

import phipsi as pp

HERE = pathlib.Path(__file__).parent
ASSETS = pathlib.Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
FILES = ("hopper", "walker2d_v5", "half_cheetah", "ant", "humanoid")
STEPS, BATCH, SETTLE = 200, 64, 600


class Ours:
    """A file in phipsi: as it begins, and later."""

    def __init__(self, path: pathlib.Path, dt: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of motors, margins and soft contacts
            self.model = pp.load(path)
        self.contacts = pp.Contacts(self.model)
        system = pp.System(self.model, contacts=self.contacts)
        laws = [*pp.forces.from_model(self.model, exact=True), *springs(self.model)]
        self.sim = pp.Simulator(system, laws, dt, integrator="time_stepping")
        rng = np.random.default_rng(3)
        self.q = np.tile(reference(self.model, path), (BATCH, 1))
        self.v = 0.1 * rng.standard_normal((BATCH, self.model.nv))
        self.first = self.sim.initial_state(self.q, self.v)
        self.later = self.sim.rollout(self.first, steps=SETTLE, record_every=SETTLE).state

    def run(self, *, later: bool) -> Any:
        """A rollout of all trajectories; the last state is recorded."""
        return self.sim.rollout(
            self.later if later else self.first, steps=STEPS, record_every=STEPS
        )


def springs(model: pp.Model) -> list[Any]:
    """The springs of the file, as the findings about it say them."""
    lines = [finding.message.rpartition("\n")[2].strip() for finding in model.diagnosis]
    return [eval(x, {"pp": pp}) for x in lines if x.startswith("pp.forces.JointSpring")]


def reference(model: pp.Model, path: pathlib.Path) -> np.ndarray:
    """The pose of the file in coordinates of the model, within the limits of its joints."""
    theirs = in_mujoco(path)
    zero = np.zeros(theirs.nv)
    q = pp.conventions.from_mujoco(model, np.array(theirs.qpos0), zero).q
    return np.clip(q, model.lower, model.upper)


class Theirs:
    """The same in MuJoCo."""

    def __init__(self, path: pathlib.Path, ours: Ours) -> None:
        import mujoco
        from mujoco import rollout

        self._rollout = rollout.rollout
        self.model = in_mujoco(path)
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        self.data = mujoco.MjData(self.model)
        both = pp.conventions.to_mujoco(ours.model, ours.q, ours.v)
        self.first = np.concatenate([np.zeros((BATCH, 1)), both.q, both.v], axis=-1)
        self.later = self.first
        for _ in range(SETTLE // STEPS):
            self.later = self._steps(self.later)

    def _steps(self, start: np.ndarray) -> np.ndarray:
        found, _ = self._rollout(
            self.model, self.data, start, None, nstep=STEPS, persistent_pool=False
        )
        return found[:, -1]

    def run(self, *, later: bool) -> np.ndarray:
        """A rollout: the last states."""
        return self._steps(self.later if later else self.first)


def in_mujoco(path: pathlib.Path) -> Any:
    """The file as MuJoCo compiles it, without a log of its warnings in this folder."""
    import mujoco

    mujoco.set_mju_user_warning(lambda text: None)
    return mujoco.MjModel.from_xml_path(str(path))


def measure(name: str, rounds: int = 5) -> dict[str, Any]:
    """Seconds per step and trajectory, and what the runs are worth."""
    path = ASSETS / f"{name}.xml"
    dt = float(in_mujoco(path).opt.timestep)
    ours = Ours(path, dt)
    theirs = Theirs(path, ours)
    found = race(
        {
            f"{who} {'later' if later else 'first'}": lambda x=x, later=later: x.run(later=later)
            for who, x in (("phipsi", ours), ("MuJoCo", theirs))
            for later in (False, True)
        },
        rounds=rounds,
        target=0.0,
    )
    out: dict[str, Any] = {k: seconds / (BATCH * STEPS) for k, seconds in found.items()}
    proofs = [ours.run(later=later).certificate for later in (False, True)]
    out["residual"] = max(float(x.residual.max()) for x in proofs)
    out["unsolved"] = sum(float(x.unsolved.sum()) for x in proofs) / (2 * BATCH * STEPS)
    out["dt"], out["pairs"] = dt, len(ours.contacts.pairs)
    out["slots"], out["nv"] = ours.contacts.n_slots, ours.model.nv
    return out


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    """The page."""
    here = machine()
    lines = [
        "# The walkers of Gymnasium on the ground",
        "",
        f"`{BATCH}` trajectories of `{STEPS}` steps, one core, processor time; contestants take turns, best of the rounds. Written by",
        f"`benchmarks/gymnasium_contacts.py`. {here['cpu']}, {here['lanes']} lanes; numpy {here['versions']['numpy']}, "
        f"mujoco {here['versions']['mujoco']},",
        f"gymnasium {gymnasium.__version__}; {here['date']}.",
        "",
        "All geoms of the files may touch, as the files say: capsules on a plane, and those of the humanoid and the hopper with each other too. This is",
        "more geometry than that of [the other page](CONTACTS.md), whose robots stand on spheres: a slot is a place where a contact may be, and steps",
        "have the rows of all slots. Time step, friction, damping, springs, armature and limits are those of the file; no motor acts. Contacts and limits are rigid",
        "in phipsi and soft in MuJoCo, which has implicitfast. A cell is µs per step and trajectory of phipsi, of MuJoCo's `rollout`, and how many",
        "times longer MuJoCo takes; below 1, phipsi takes longer.",
        "",
        "| file | rates | pairs | slots | dt, s | falling | lying | residual, m/s | unsolved |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in found.items():
        cells = []
        for what in ("first", "later"):
            mine, theirs = row[f"phipsi {what}"], row[f"MuJoCo {what}"]
            cells.append(f"{1e6 * mine:.1f}, {1e6 * theirs:.1f}: {theirs / mine:.2f}×")
        lines.append(
            f"| {name} | {row['nv']} | {row['pairs']} | {row['slots']} | {row['dt']:g} | "
            f"{' | '.join(cells)} | {row['residual']:.1e} | {100 * row['unsolved']:.3f} % |"
        )
    return lines


def main() -> None:
    """Measure, and write the page."""
    lines = table({name: measure(name) for name in FILES})
    print("\n".join(lines))
    (HERE / "GYMNASIUM_CONTACTS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
