"""Robots that stand on a plane, against MuJoCo's `rollout`: contacts with exact friction.

    python benchmarks/contacts.py          writes benchmarks/CONTACTS.md

A quadruped on four feet and a humanoid on eight points, spheres on a plane, held by PD control at
their joints; they start a little above the floor with random rates, land and stand. Step, model,
gains, friction and shapes are the same on both sides. MuJoCo has its defaults (soft contacts, a
pyramid of friction, Newton's method); phipsi solves the cones themselves to rounding. One core, all
contestants of a row take turns in one run, in processor time.

The second table is what the runs are worth: how far a body creeps that should rest on a slope of
20°, how deep feet sink, and how far the laws of contact are from being satisfied.
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
DT, STEPS, BATCH = 2e-3, 200, 256
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
        self.state = self.sim.start(self.q, self.v)

    def _angle(self, joint: str) -> float:
        found = [(k, x) for k, x in STANCE[self.name].items() if k in joint]
        if not found:
            return 0.0
        back = self.name == "ANYmal" and ("LH" in joint or "RH" in joint)
        return -found[0][1] if back else found[0][1]

    def run(self) -> Any:
        """A rollout of all trajectories; the last state is recorded."""
        return self.sim.rollout(self.state, steps=STEPS, every=STEPS)


class Theirs:
    """The same in MuJoCo."""

    def __init__(self, ours: Standing) -> None:
        import mujoco
        from mujoco import rollout

        self.ours, self._rollout = ours, rollout.rollout
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
        self.start = np.concatenate([np.zeros((BATCH, 1)), both.q, both.v], axis=-1)
        self.control = np.ascontiguousarray(
            np.broadcast_to(ours.target, (BATCH, STEPS, len(ours.joints)))
        )

    def run(self) -> np.ndarray:
        """A rollout: the last states."""
        found, _ = self._rollout(
            self.theirs, self.data, self.start, self.control, nstep=STEPS, persistent_pool=False
        )
        return found[:, -1]


def measure(name: str, rounds: int = 5) -> dict[str, float]:
    """Seconds per step and trajectory, and what the run is worth."""
    ours = Standing(name)
    theirs = Theirs(ours)
    found = race({"phipsi": ours.run, "MuJoCo": theirs.run}, rounds=rounds, target=0.0)
    out = {k: seconds / (BATCH * STEPS) for k, seconds in found.items()}
    proof = ours.run().certificate
    last = theirs.run()
    height = last[:, 3] - 0.0
    mine = ours.run()
    out["heights differ"] = float(np.abs(np.median(mine.q[:, -1, 6]) - np.median(height)))
    out["residual"], out["overlap"] = float(proof.residual.max()), float(proof.overlap.max())
    out["unsolved"] = float(proof.unsolved.sum())
    return out


if __name__ == "__main__":
    for robot in GOALS:
        print(robot, measure(robot, 3))
    print(machine())
