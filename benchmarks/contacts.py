"""Robots that stand on a plane, against MuJoCo's `rollout`: contacts with exact friction.

    python benchmarks/contacts.py          writes benchmarks/CONTACTS.md

A quadruped on four feet and a humanoid on eight points, spheres on a plane, held by PD control at
their joints. They start a little above the floor with random rates: the first rows are the landing,
the others the standing after it. Step, model, gains, friction and shapes are the same on both
sides. MuJoCo has its defaults (soft contacts, a pyramid of friction, Newton's method); phipsi solves
the cones themselves. One core, all contestants of a row take turns in one run, in processor time.

The second table is what the runs are worth: how far a block creeps that should rest on a slope of
20°, how deep feet are in the floor, and how far the laws of contact are from being satisfied.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import robots
from machine import machine
from timing import race

import phipsi as pp
from phipsi.interfaces.bridges import conventions

HERE = pathlib.Path(__file__).parent
DT, STEPS, BATCH, SETTLE = 2e-3, 200, 256, 400
FRICTION, RADIUS = 0.8, 0.02
GOALS = {"ANYmal": 5, "G1": 4}
# where the feet are: bodies, and points in their axes
FEET = {
    "ANYmal": [(f"{leg}_FOOT", (0.0, 0.0, 0.02)) for leg in ("LF", "RF", "LH", "RH")],
    "G1": [
        (f"{side}_ankle_roll_link", (x, y, -0.01))
        for side in ("left", "right")
        for x, y in ((-0.05, 0.025), (-0.05, -0.025), (0.12, 0.03), (0.12, -0.03))
    ],
}
STANCE = {
    "ANYmal": {"HFE": 0.6, "KFE": -1.2},
    "G1": {"hip_pitch": -0.3, "knee": 0.6, "ankle_pitch": -0.3},
}
GAINS = {"ANYmal": (200.0, 4.0), "G1": (300.0, 6.0)}


@pp.law
def hold(q: Any, v: Any, kp: Any, kd: Any, target: Any) -> Any:
    """PD control."""
    return kp * (target - q) - kd * v


class Standing:
    """A robot on its feet in both."""

    def __init__(self, name: str) -> None:
        self.name = name
        model = robots.load_robot(name)
        names = []
        for i, (body, at) in enumerate(FEET[name]):
            names.append(f"foot{i}")
            model = model.with_shape(names[-1], body, pp.shapes.Sphere(RADIUS), pp.Pose(None, at))
        self.model, self.feet = model, names
        material = pp.Material(FRICTION)
        pairs = [(x, "ground") for x in names]
        contacts = pp.Contacts(model, ground=True, pairs=pairs, material=material)
        self.system = pp.System(model, contacts=contacts)
        bodies = model.description.bodies
        self.joints = [b.joint_name for b in bodies if b.joint.kind != "free"]
        self.target = np.array([self._angle(x) for x in self.joints])
        q = model.neutral().copy()
        q[[model.q_slice(x).start for x in self.joints]] = self.target
        q[6] += 0.005 - pp.contact_points(contacts, q).gap.min()
        self.q = np.tile(q, (BATCH, 1))
        rng = np.random.default_rng(3)
        self.v = 0.05 * rng.standard_normal((BATCH, model.nv))
        kp, kd = GAINS[name]
        law = hold.on(self.joints).bind(kp=kp, kd=kd, target=self.target)
        self.sim = pp.Simulator(self.system, [law], DT, integrator="time_stepping")
        self.landing = self.sim.start(self.q, self.v)
        self.standing = self.sim.rollout(self.landing, steps=SETTLE, every=SETTLE).state
        for name in ("contact.worst", "contact.totals"):  # of the standing alone
            self.standing.laws[name][...] = 0.0

    def _angle(self, joint: str) -> float:
        found = [(k, x) for k, x in STANCE[self.name].items() if k in joint]
        if not found:
            return 0.0
        back = self.name == "ANYmal" and ("LH" in joint or "RH" in joint)
        return -found[0][1] if back else found[0][1]

    def run(self, *, standing: bool) -> Any:
        """A rollout of all trajectories; the last state is recorded."""
        start = self.standing if standing else self.landing
        return self.sim.rollout(start, steps=STEPS, every=STEPS)


class Theirs:
    """The same in MuJoCo."""

    def __init__(self, ours: Standing) -> None:
        import mujoco
        from mujoco import rollout

        self.ours, self._rollout, self._mujoco = ours, rollout.rollout, mujoco
        model = ours.model
        spec = robots.Mujoco(ours.name, model, robots.States(model, 1)).spec
        spec.option.timestep = DT
        spec.option.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        plane = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.1])
        plane.friction = [FRICTION, 0.005, 0.0001]
        plane.contype, plane.conaffinity = 1, 2
        for shape in model.shapes:
            geom = spec.body(shape.body).add_geom(
                type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[RADIUS, 0, 0],
                pos=np.array(shape.placement.translation), mass=0.0,
            )  # fmt: skip
            geom.friction = [FRICTION, 0.005, 0.0001]
            geom.contype, geom.conaffinity = 2, 1
        kp, kd = GAINS[ours.name]
        for name in ours.joints:
            motor = spec.add_actuator(name=name, target=name)
            motor.trntype = mujoco.mjtTrn.mjTRN_JOINT
            motor.set_to_position(kp=kp)
        self.theirs = spec.compile()
        addresses = [int(self.theirs.joint(x).dofadr[0]) for x in ours.joints]
        self.theirs.dof_damping[addresses] = kd
        self.data = mujoco.MjData(self.theirs)
        both = conventions.to_mujoco(model, ours.q, ours.v)
        self.landing = np.concatenate([np.zeros((BATCH, 1)), both.q, both.v], axis=-1)
        self.control = np.ascontiguousarray(
            np.broadcast_to(ours.target, (BATCH, STEPS, len(ours.joints)))
        )

        self.standing = self.run(standing=False)
        for _ in range(SETTLE // STEPS):
            self.standing = self._steps(self.standing)

    def _steps(self, start: np.ndarray) -> np.ndarray:
        found, _ = self._rollout(
            self.theirs, self.data, start, self.control, nstep=STEPS, persistent_pool=False
        )
        return found[:, -1]

    def run(self, *, standing: bool) -> np.ndarray:
        """A rollout: the last states."""
        return self._steps(self.standing if standing else self.landing)

    def depth(self) -> float:
        """How deep a foot is in the floor when the robot stands, m."""
        self.data.qpos[:] = self.standing[0, 1 : 1 + self.theirs.nq]
        self._mujoco.mj_forward(self.theirs, self.data)
        return float(-min(c.dist for c in self.data.contact))


def creeping(seconds: float = 10.0) -> dict[str, float]:
    """How far a block on a slope of 20°, friction 0.5, moves that should rest, m."""
    import mujoco

    slope, size = np.radians(20), (0.2, 0.2, 0.1)
    tilt = pp.Pose.from_axis_angle((0, 1, 0), slope)
    builder = pp.ModelBuilder()
    inertia = pp.SpatialInertia.box(size, mass=1.0)
    builder.add_body("block", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("block", "block", pp.shapes.Box(size))
    builder.add_shape("slope", "world", pp.shapes.Plane(), tilt)
    model = builder.build()
    contacts = pp.Contacts(model, material=pp.Material(0.5))
    sim = pp.Simulator(pp.System(model, contacts=contacts), dt=DT, integrator="time_stepping")
    at = pp.Pose(tilt.rotation, tilt.rotation @ [0, 0, 0.05])
    q = np.concatenate([at.quaternion, at.translation])
    steps = round(seconds / DT)
    run = sim.rollout(sim.start(q), steps=steps, every=steps)
    spec = mujoco.MjSpec()
    spec.option.timestep = DT
    quat = pp.spatial.matrix_to_quat(tilt.rotation)
    plane = spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.1], quat=quat, friction=[0.5, 0.005, 1e-4]
    )
    del plane
    body = spec.worldbody.add_body(pos=at.translation, quat=at.quaternion)
    body.add_freejoint()
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.1, 0.1, 0.05], mass=1.0, friction=[0.5, 0.005, 1e-4]
    )
    theirs = spec.compile()
    data = mujoco.MjData(theirs)
    for _ in range(steps):
        mujoco.mj_step(theirs, data)
    return {
        "phipsi": float(np.linalg.norm(run.q[-1, 4:] - q[4:])),
        "MuJoCo": float(np.linalg.norm(data.qpos[:3] - q[4:])),
    }


def measure(name: str, rounds: int = 5) -> dict[str, float]:
    """Seconds per step and trajectory, and what the run is worth."""
    ours = Standing(name)
    theirs = Theirs(ours)
    functions = {
        "phipsi landing": lambda: ours.run(standing=False),
        "phipsi standing": lambda: ours.run(standing=True),
        "MuJoCo landing": lambda: theirs.run(standing=False),
        "MuJoCo standing": lambda: theirs.run(standing=True),
    }
    found = race(functions, rounds=rounds, target=0.0)
    out = {k: seconds / (BATCH * STEPS) for k, seconds in found.items()}
    for what in ("landing", "standing"):
        proof = ours.run(standing=what == "standing").certificate
        out[f"residual {what}"] = float(proof.residual.max())
        out[f"unsolved {what}"] = float(proof.unsolved.sum() / (BATCH * STEPS))
    out["overlap"] = float(ours.run(standing=True).certificate.overlap.max())
    out["MuJoCo overlap"] = theirs.depth()
    return out


def table(found: dict[str, dict[str, float]], creep: dict[str, float]) -> list[str]:
    """The page."""
    here = machine()
    lines = [
        "# Robots that stand",
        "",
        f"`{BATCH}` trajectories of `{STEPS}` steps of {DT:g} s, PD control, spheres on a plane, friction {FRICTION}, one core, processor time;",
        "contestants take turns, best of the rounds. MuJoCo has its defaults. Written by `benchmarks/contacts.py`.",
        f"{here['cpu']}, {here['lanes']} lanes; numpy {here['versions']['numpy']}, mujoco {here['versions']['mujoco']}; "
        f"{here['date']}.",
        "",
        "A cell is µs per step and trajectory of phipsi, of MuJoCo's `rollout`, and their ratio. Landing is the hard part: many points close",
        "in one step, and trajectories in lanes wait for the slowest of them.",
        "",
        "| robot | landing | standing | goal |",
        "|---|---|---|---|",
    ]  # fmt: skip
    for name, row in found.items():
        cells = []
        for what in ("landing", "standing"):
            mine, theirs = row[f"phipsi {what}"], row[f"MuJoCo {what}"]
            cells.append(f"{1e6 * mine:.2f}, {1e6 * theirs:.2f}: {theirs / mine:.1f}×")
        lines.append(
            f"| {name}, {len(FEET[name])} points | {' | '.join(cells)} | ≥ {GOALS[name]}× |"
        )
    lines += [
        "",
        "What the runs are worth. `unsolved` is the share of steps whose residual is above 1e-10 m/s and above rounding; they are counted in",
        "the certificate of the run.",
        "",
        "| robot | residual landing, m/s | unsolved | residual standing | unsolved | overlap, m | overlap in MuJoCo |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in found.items():
        lines.append(
            f"| {name} | {row['residual landing']:.1e} | {100 * row['unsolved landing']:.3f} % | "
            f"{row['residual standing']:.1e} | {100 * row['unsolved standing']:.3f} % | "
            f"{row['overlap']:.1e} | {row['MuJoCo overlap']:.1e} |"
        )
    lines += [
        "",
        "A block that should rest on a slope of 20° with friction 0.5 moves in 10 s by "
        f"{creep['phipsi']:.0e} m, in MuJoCo by {creep['MuJoCo']:.1e} m.",
    ]
    return lines


def main() -> None:
    """Measure, and write the page."""
    found = {name: measure(name) for name in GOALS}
    lines = table(found, creeping())
    print("\n".join(lines))
    (HERE / "CONTACTS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
