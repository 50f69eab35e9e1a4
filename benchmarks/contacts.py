"""Bodies that touch, against MuJoCo's `rollout`: contacts with exact friction.

    python benchmarks/contacts.py          writes benchmarks/CONTACTS.md

A quadruped on four feet and a humanoid on eight points, spheres on a plane, held by PD control at
their joints; ten boxes on each other; an arm that pushes a box. They start with random rates, the
robots a little above the floor: the first numbers are of the landing, the others of what comes
after it. Step, model, gains, friction and shapes are the same on both
sides. MuJoCo has its defaults (soft contacts, a pyramid of friction, Newton's method); phipsi solves
the cones themselves. One core, all contestants of a row take turns in one run, in processor time.

The second table is what the runs are worth: how far bodies creep that should rest, how deep they
are in each other, and how far the laws of contact are from being satisfied.
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import robots
from machine import machine
from timing import race

import phipsi as pp
from phipsi.files import conventions

HERE = pathlib.Path(__file__).parent
DT, STEPS, BATCH, SETTLE = 2e-3, 200, 256, 400
FRICTION, RADIUS = 0.8, 0.02
GOALS = {"ANYmal": 5, "G1": 4, "stack": 3}
TEXTS = {
    "ANYmal": "ANYmal, 4 points",
    "G1": "G1, 8 points",
    "stack": "stack of 10 boxes, 40 points",
    "arm": "arm that pushes a box, 5 points",
}
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


@dataclass
class Setting:
    """A mechanism with shapes and PD control, and where it begins; the same for both."""

    name: str
    model: pp.Model
    pairs: list[tuple[str, str]]
    joints: list[str]
    target: np.ndarray
    gains: tuple[float, float]
    q: np.ndarray
    v: np.ndarray
    masked: bool = False  # shapes touch the floor only


def robot(name: str) -> Setting:
    """A robot above its feet."""
    model, names = robots.load_robot(name), []
    for i, (body, at) in enumerate(FEET[name]):
        names.append(f"foot{i}")
        model = model.with_shape(names[-1], body, pp.shapes.Sphere(RADIUS), pp.Pose(None, at))
    joints = [b.joint_name for b in model.description.bodies if b.joint.kind != "free"]
    target = np.array([_angle(name, x) for x in joints])
    q = model.neutral().copy()
    q[[model.q_slice(x).start for x in joints]] = target
    pairs = [(x, "ground") for x in names]
    q[6] += 0.005 - pp.contact_points(pp.Contacts(model, ground=True, pairs=pairs), q).gap.min()
    v = 0.05 * np.random.default_rng(3).standard_normal((BATCH, model.nv))
    return Setting(name, model, pairs, joints, target, GAINS[name], q, v, masked=True)


def _angle(name: str, joint: str) -> float:
    found = [(k, x) for k, x in STANCE[name].items() if k in joint]
    if not found:
        return 0.0
    back = name == "ANYmal" and ("LH" in joint or "RH" in joint)
    return -found[0][1] if back else found[0][1]


def boxes(count: int = 10) -> Setting:
    """Boxes of 1 kg on each other, which begin with small random rates."""
    builder, size = pp.ModelBuilder(), (0.2, 0.2, 0.1)
    names = [f"box{i}" for i in range(count)]
    for name in names:
        solid = pp.SpatialInertia.box(size, mass=1.0)
        builder.add_body(name, joint=pp.joints.Free(), inertia=solid)
        builder.add_shape(name, name, pp.shapes.Box(size))
    model = builder.build()
    q = np.concatenate([[1, 0, 0, 0, 0, 0, 0.05 + 0.1 * i] for i in range(count)])
    v = 0.01 * np.random.default_rng(3).standard_normal((BATCH, model.nv))
    pairs = [(names[0], "ground"), *zip(names, names[1:], strict=False)]
    return Setting("stack", model, pairs, [], np.zeros(0), (0.0, 0.0), q, v)


def pushing() -> Setting:
    """An arm of six joints whose hand, a ball, pushes a box of 2 kg along the floor."""
    builder, size = pp.ModelBuilder(), (0.2, 0.2, 0.2)
    axes = ((0, 0, 1), (0, 1, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0), (1, 0, 0))
    before, at = "world", (0.0, 0.0, 0.1)
    for i, axis in enumerate(axes):
        long = (0.05, 0.05, 0.25) if i in (1, 2) else (0.05, 0.05, 0.05)
        solid = pp.SpatialInertia.box(long, mass=1.5 if i in (1, 2) else 0.6)
        builder.add_body(
            f"link{i}", parent=before, joint=pp.joints.Revolute(axis=axis), inertia=solid,
            placement=pp.Pose(None, at),
        )  # fmt: skip
        before, at = f"link{i}", (0.0, 0.0, 0.25 if i in (1, 2) else 0.05)
    builder.add_shape("hand", before, pp.shapes.Sphere(0.04), pp.Pose(None, (0.0, 0.0, 0.05)))
    solid = pp.SpatialInertia.box(size, mass=2.0)
    builder.add_body("box", joint=pp.joints.Free(), inertia=solid)
    builder.add_shape("box", "box", pp.shapes.Box(size))
    model = builder.build()
    joints = [b.joint_name for b in model.description.bodies if b.joint.kind != "free"]
    q = model.neutral().copy()
    bent = np.array([0.0, 0.6, 1.6, 0.0, 0.0, 0.0])
    q[[model.q_slice(x).start for x in joints]] = bent
    hand = pp.poses(model, q)[model.body_index("link5")] @ [0, 0, 0.05, 1]
    q[model.q_slice("box")] = [1, 0, 0, 0, hand[0] + 0.145, 0, 0.1]
    target = bent + [0.0, 0.5, -0.5, 0.0, 0.0, 0.0]
    v = 0.05 * np.random.default_rng(3).standard_normal((BATCH, model.nv))
    pairs = [("box", "ground"), ("hand", "box")]
    return Setting("arm", model, pairs, joints, target, (300.0, 30.0), q, v)


class Standing:
    """A setting in phipsi: as it begins, and later."""

    def __init__(self, setting: Setting, settle: int = SETTLE) -> None:
        self.setting, self.model = setting, setting.model
        material = pp.Material(FRICTION)
        contacts = pp.Contacts(self.model, ground=True, pairs=setting.pairs, material=material)
        self.system = pp.System(self.model, contacts=contacts)
        self.q, self.v = np.tile(setting.q, (len(setting.v), 1)), setting.v
        kp, kd = setting.gains
        laws = []
        if setting.joints:
            laws = [hold.on(setting.joints).bind(kp=kp, kd=kd, target=setting.target)]
        self.sim = pp.Simulator(self.system, laws, DT, integrator="time_stepping")
        self.landing = self.sim.initial_state(self.q, self.v)
        if not settle:
            return
        self.standing = self.sim.rollout(self.landing, steps=settle, record_every=settle).state
        for name in ("contact.worst", "contact.totals"):  # of the standing alone
            self.standing.laws[name][...] = 0.0

    def run(self, *, standing: bool) -> Any:
        """A rollout of all trajectories; the last state is recorded."""
        start = self.standing if standing else self.landing
        return self.sim.rollout(start, steps=STEPS, record_every=STEPS)


class Theirs:
    """The same in MuJoCo."""

    def __init__(self, ours: Standing) -> None:
        import mujoco
        from mujoco import rollout

        self.ours, self._rollout, self._mujoco = ours, rollout.rollout, mujoco
        model, setting = ours.model, ours.setting
        spec = robots.Mujoco(setting.name, model, robots.States(model, 1)).spec
        spec.option.timestep = DT
        spec.option.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        plane = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.1])
        plane.friction = [FRICTION, 0.005, 0.0001]
        if setting.masked:
            plane.contype, plane.conaffinity = 1, 2
        for shape in model.shapes:
            ball = shape.shape.kind == "Sphere"
            size = [shape.shape.radius, 0, 0] if ball else 0.5 * np.array(shape.shape.size)
            kind = mujoco.mjtGeom.mjGEOM_SPHERE if ball else mujoco.mjtGeom.mjGEOM_BOX
            geom = spec.body(shape.body).add_geom(
                type=kind, size=size, pos=np.array(shape.placement.translation), mass=0.0
            )
            geom.friction = [FRICTION, 0.005, 0.0001]
            if setting.masked:
                geom.contype, geom.conaffinity = 2, 1
        kp, kd = setting.gains
        for name in setting.joints:
            motor = spec.add_actuator(name=name, target=name)
            motor.trntype = mujoco.mjtTrn.mjTRN_JOINT
            motor.set_to_position(kp=kp)
        self.theirs = spec.compile()
        addresses = [int(self.theirs.joint(x).dofadr[0]) for x in setting.joints]
        self.theirs.dof_damping[addresses] = kd
        self.data = mujoco.MjData(self.theirs)
        both = conventions.to_mujoco(model, ours.q, ours.v)
        self.landing = np.concatenate([np.zeros((BATCH, 1)), both.q, both.v], axis=-1)
        self.control = np.ascontiguousarray(
            np.broadcast_to(setting.target, (BATCH, STEPS, len(setting.joints)))
        )
        self.standing = self.run(standing=False)
        for _ in range(SETTLE // STEPS):
            self.standing = self._steps(self.standing)

    def _steps(self, start: np.ndarray) -> np.ndarray:
        control = self.control if self.ours.setting.joints else None
        found, _ = self._rollout(
            self.theirs, self.data, start, control, nstep=STEPS, persistent_pool=False
        )
        return found[:, -1]

    def run(self, *, standing: bool) -> np.ndarray:
        """A rollout: the last states."""
        return self._steps(self.standing if standing else self.landing)

    def depth(self) -> float:
        """How deep shapes are in each other when all rests, m."""
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
    run = sim.rollout(sim.initial_state(q), steps=steps, record_every=steps)
    spec = mujoco.MjSpec()
    spec.option.timestep = DT
    quat = pp.core.spatial.matrix_to_quat(tilt.rotation)
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


def sliding(speed: float = 6.0) -> dict[str, dict[str, float]]:
    """A cube, friction 0.5, slides over a floor: error of its way, and how far it rises, m."""
    import mujoco

    builder, size = pp.ModelBuilder(), (0.2, 0.2, 0.2)
    inertia = pp.SpatialInertia.box(size, mass=1.0)
    builder.add_body("cube", joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape("cube", "cube", pp.shapes.Box(size))
    model = builder.build()
    contacts = pp.Contacts(model, ground=True, material=pp.Material(0.5))
    sim = pp.Simulator(pp.System(model, contacts=contacts), dt=DT, integrator="time_stepping")
    q, v, steps = [1, 0, 0, 0, 0, 0, 0.1], [0, 0, 0, speed, 0, 0], round(1.5 / DT)
    run = sim.rollout(sim.initial_state(q, v), steps=steps)
    spec = mujoco.MjSpec()
    spec.option.timestep = DT
    friction = [0.5, 0.005, 1e-4]
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.1], friction=friction)
    body = spec.worldbody.add_body(pos=q[4:])
    body.add_freejoint()
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.1] * 3, mass=1.0, friction=friction)
    theirs = spec.compile()
    data = mujoco.MjData(theirs)
    data.qvel[0] = speed
    places = []
    for _ in range(steps):
        mujoco.mj_step(theirs, data)
        places.append(data.qpos[:3].copy())
    way = speed**2 / (2 * 0.5 * 9.81)
    out = {}
    for name, x in (("phipsi", run.q[:, 4:]), ("MuJoCo", np.array(places))):
        out[name] = {"way": float(x[-1, 0] - way), "rise": float(x[:, 2].max() - 0.1)}
    return out


def measure(setting: Setting, rounds: int = 5) -> dict[str, float]:
    """Seconds per step and trajectory, and what the run is worth."""
    ours = Standing(setting)
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
        run = ours.run(standing=what == "standing")
        proof = run.certificate
        out[f"residual {what}"] = float(proof.residual.max())
        out[f"unsolved {what}"] = float(proof.unsolved.sum() / (BATCH * STEPS))
    out["overlap"] = float(proof.overlap.max())
    out["MuJoCo overlap"] = theirs.depth()
    out["drift"] = float(np.abs(run.state.q - ours.standing.q).max())
    end, nq = theirs.run(standing=True), theirs.theirs.nq
    out["MuJoCo drift"] = float(np.abs(end - theirs.standing)[:, 1 : 1 + nq].max())
    return out


def table(
    found: dict[str, dict[str, float]], creep: dict[str, float], slid: dict[str, dict[str, float]]
) -> list[str]:
    """The page."""
    here = machine()
    lines = [
        "# Bodies that touch",
        "",
        f"`{BATCH}` trajectories of `{STEPS}` steps of {DT:g} s, friction {FRICTION}, one core, processor time;",
        "contestants take turns, best of the rounds. MuJoCo has its defaults. Written by `benchmarks/contacts.py`.",
        f"{here['cpu']}, {here['lanes']} lanes; numpy {here['versions']['numpy']}, mujoco {here['versions']['mujoco']}; "
        f"{here['date']}.",
        "",
        "A cell is µs per step and trajectory of phipsi, of MuJoCo's `rollout`, and their ratio. Robots are held by PD control and land on",
        "spheres; the stack begins with small random rates; the hand of an arm with six joints meets a box and pushes it. The beginning is",
        "the hard part: many points close in one step, and trajectories in lanes wait for the slowest of them. Later, the stack rests and robots stand.",
        "The geometry is simple: the feet of robots are four or eight spheres of 2 cm on a plane, the other bodies are boxes and a ball, and nothing else may touch. Files with",
        "more shapes take longer: [the walkers of Gymnasium](GYMNASIUM_CONTACTS.md), all of whose geoms may touch, are from faster than MuJoCo to several times slower.",
        "",
        "| | beginning | later | goal |",
        "|---|---|---|---|",
    ]  # fmt: skip
    for name, row in found.items():
        cells = []
        for what in ("landing", "standing"):
            mine, theirs = row[f"phipsi {what}"], row[f"MuJoCo {what}"]
            cells.append(f"{1e6 * mine:.2f}, {1e6 * theirs:.2f}: {theirs / mine:.1f}×")
        goal = f"≥ {GOALS[name]}×" if name in GOALS else ""
        lines.append(f"| {TEXTS[name]} | {' | '.join(cells)} | {goal} |")
    lines += [
        "",
        "What the runs are worth. `unsolved` is the share of steps whose residual is above 1e-10 m/s and above rounding; they are counted in",
        "the certificate of the run. `drift` is the largest change of a coordinate (m or rad) during the later steps, 0.4 s: the stack",
        "should rest, the robots and the arm still move a little.",
        "",
        "| | residual at first, m/s | unsolved | residual later | unsolved | overlap, m | in MuJoCo | drift | in MuJoCo |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in found.items():
        lines.append(
            f"| {name} | {row['residual landing']:.1e} | {100 * row['unsolved landing']:.3f} % | "
            f"{row['residual standing']:.1e} | {100 * row['unsolved standing']:.3f} % | "
            f"{row['overlap']:.1e} | {row['MuJoCo overlap']:.1e} | "
            f"{row['drift']:.1e} | {row['MuJoCo drift']:.1e} |"
        )
    mine, theirs = slid["phipsi"], slid["MuJoCo"]
    lines += [
        "",
        "A block that should rest on a slope of 20° with friction 0.5 moves in 100 s by "
        f"{creep['phipsi']:.0e} m, in MuJoCo by {creep['MuJoCo']:.1e} m.",
        "A cube that slides over a floor at 6 m/s with friction 0.5 stops after 3.670 m. Its way errs by "
        f"{1e3 * mine['way']:.1f} mm, in MuJoCo by {1e3 * theirs['way']:.0f} mm;",
        f"it leaves the floor by {1e3 * mine['rise']:.1e} mm, in MuJoCo by {1e3 * theirs['rise']:.0f} mm: "
        "energy that friction cannot give.",
        "",
        "Where the time goes, by samples of a profiler. ANYmal: one program of accelerations, Λ at the feet, poses, G and D⁻¹ 54 %, the",
        "solver 12 %, W 5 %, ℳ⁻¹ J* f with G and D⁻¹ given 8 %, J v of the free motion 4 %. The stack at rest: the solver 46 %, of which elimination 12 %, products W y 8 % and substitutions 8 %;",
        "W 10 %, the program 10 %, collisions 11 %. What made steps shorter: rows of a slot, products with them and blocks of W",
        "in loops that keep a slot in registers (arrays of all rows went through memory some thirty times, a third of the stack's time); W copied by blocks, and",
        "scaled and multiplied again only where a lane needs it; articulated inertias once in a step; inputs that a step computes itself are not inspected by every",
        "program it calls (13 % of ANYmal's time; states are inspected at the end of the step); what depends on parameters alone is computed once in a run; Newton's",
        "method ends where F is rounding, and self-stresses are taken out by two substitutions; arrays that follow from each other entry by entry in one loop; W computed",
        "in the order of elimination at once; zeros of Λ between trees written once in a run; bodies moved apart only in steps that need it.",
        "Without gain: G and D given (the test of D needs P, and so the whole sweep; D⁻¹ does not); c = p from the last step in the first round (bodies that move need",
        "the second round all the same, and where others close or open the first is lost). ∂F formed block by block during elimination, or copied where no",
        "contact slides. Not possible: LDL* where no contact slides, as bits",
        "would depend on the neighbours in other lanes.",
    ]  # fmt: skip
    return lines


def main() -> None:
    """Measure, and write the page."""
    settings = {name: robot(name) for name in FEET} | {"stack": boxes(), "arm": pushing()}
    found = {name: measure(x) for name, x in settings.items()}
    lines = table(found, creeping(100.0), sliding())
    print("\n".join(lines))
    (HERE / "CONTACTS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
