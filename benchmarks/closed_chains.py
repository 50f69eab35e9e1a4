"""Systems with constraints: against Pinocchio, and time against the number of loops.

    python benchmarks/closed_chains.py          writes benchmarks/CLOSED_CHAINS.md

Models: humanoids standing on two welded feet (12 rows), and a platform on 12 telescopic legs with
ball joints at their ends (36 rows). Accelerations are compared before anything is timed.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import robots
from timing import race

import phipsi as pp
from phipsi import constraints as c

HERE = pathlib.Path(__file__).parent
FEET = {
    "Talos": ("leg_left_6_link", "leg_right_6_link"),
    "G1": ("left_ankle_roll_link", "right_ankle_roll_link"),
}
BATCH = 1024
Z = (0, 0, 1)


# ---- systems -----------------------------------------------------------------------------------


def standing(name: str) -> tuple[pp.System, np.ndarray]:
    """A humanoid with both feet welded to the ground where they are."""
    model = robots.load_robot(name)
    q = model.neutral()
    poses = dict(zip(model.body_names, pp.body_poses(model, q), strict=True))
    welds = [
        c.Weld(name=foot, a=(foot, pp.Pose()), b=("world", _pose(poses[foot])))
        for foot in FEET[name]
    ]
    return pp.System(model, welds), q


def _pose(matrix: np.ndarray) -> pp.Pose:
    return pp.Pose(matrix[:3, :3], matrix[:3, 3])


def platform(legs: int = 12) -> tuple[pp.System, np.ndarray]:
    """A free plate on legs: universal joint on the ground, slider, ball joint under the plate."""
    b = pp.ModelBuilder()
    b.add_body("plate", joint=pp.joints.Free(), inertia=pp.SpatialInertia(20.0, (0, 0, 0), 1.5))
    loops = []
    for i in range(legs):
        turn = 2 * np.pi * i / legs
        foot = 1.5 * np.array([np.cos(turn), np.sin(turn), 0])
        top = 0.8 * np.array([np.cos(turn + 0.4), np.sin(turn + 0.4), 0])
        along = np.array([0, 0, 1.0]) + top - foot
        length = float(np.linalg.norm(along))
        axes = np.linalg.qr(np.column_stack([along, foot, Z]))[0]
        frame = np.column_stack([axes[:, 1], np.cross(along / length, axes[:, 1]), along / length])
        rod = pp.SpatialInertia(1.0, (0, 0, 0.3), 0.05)
        b.add_body(f"a{i}", joint=pp.joints.Revolute((1, 0, 0)), placement=pp.Pose(frame, foot),
                   inertia=rod)  # fmt: skip
        b.add_body(f"b{i}", parent=f"a{i}", joint=pp.joints.Revolute((0, 1, 0)), inertia=rod)
        b.add_body(f"c{i}", parent=f"b{i}", joint=pp.joints.Prismatic(Z), inertia=rod,
                   placement=pp.Pose(None, (0, 0, length)))  # fmt: skip
        loops.append(c.Spherical(name=f"ball{i}", a=(f"c{i}", (0, 0, 0)), b=("plate", top)))
    system = pp.System(b.build(), loops)
    q = system.model.neutral()
    q[system.model.q_slice("plate").stop - 1] = 1.0  # the height of the plate
    return system, q


def four_bars(count: int, carried: bool) -> tuple[pp.System, np.ndarray]:
    """Four-bars side by side on the ground, or on one free body."""
    b = pp.ModelBuilder(gravity=(0, -9.81, 0))
    on, loops = "world", []
    if carried:
        b.add_body("base", joint=pp.joints.Free(), inertia=pp.SpatialInertia(10.0, (0, 0, 0), 1.0))
        on = "base"
    for i in range(count):
        parent, at = on, pp.Pose(None, (0, 0, 0.3 * i))
        for part, length in zip("abc", (0.5, 1.0, 0.5), strict=True):
            rod = pp.SpatialInertia(1.0, (length / 2, 0, 0), length**2 / 12)
            b.add_body(f"{part}{i}", parent=parent, joint=pp.joints.Revolute(Z), placement=at,
                       inertia=rod)  # fmt: skip
            parent, at = f"{part}{i}", pp.Pose(None, (length, 0, 0))
        ends = {"a": (f"c{i}", (0.5, 0, 0)), "b": (on, (1.0, 0, 0.3 * i))}
        loops.append(c.Revolute(Z, name=f"pin{i}", **ends))
    system = pp.System(b.build(), loops)
    q = system.model.neutral()
    for i in range(count):
        for part, angle in (("a", 1.0), ("b", -1.0), ("c", -1.0)):
            q[system.model.q_slice(f"{part}{i}")] = angle
    return system, q


def arms_on_object(arms: int, joints: int = 7) -> tuple[pp.System, np.ndarray]:
    """Arms of 7 joints on the ground, all welded to one free body where they end."""
    rng = np.random.default_rng(0)
    b = pp.ModelBuilder()
    b.add_body("object", joint=pp.joints.Free(), inertia=pp.SpatialInertia(5.0, (0, 0, 0), 0.5))
    for i in range(arms):
        parent, at = "world", pp.Pose(None, (np.cos(i), np.sin(i), 0.1 * i))
        for k in range(joints):
            axis = ((0, 0, 1), (0, 1, 0), (1, 0, 0))[k % 3]
            b.add_body(f"arm{i}.{k}", parent=parent, joint=pp.joints.Revolute(axis), placement=at,
                       inertia=pp.SpatialInertia(1.0, (0, 0, 0.1), 0.02))  # fmt: skip
            parent, at = f"arm{i}.{k}", pp.Pose(None, (0, 0, 0.2))
    model = b.build()
    q = model.neutral()
    for k, joint in enumerate(model.joints):
        if joint.kind == "revolute":
            q[model.q_slices[k]] = rng.uniform(-1, 1)
    poses = dict(zip(model.body_names, pp.body_poses(model, q), strict=True))
    tips = [f"arm{i}.{joints - 1}" for i in range(arms)]
    held = np.linalg.inv(poses["object"])
    welds = [c.Weld(name=t, a=(t, pp.Pose()), b=("object", _pose(held @ poses[t]))) for t in tips]
    return pp.System(model, welds), q


# ---- Pinocchio ---------------------------------------------------------------------------------


def pinocchio_standing(name: str, tau: np.ndarray) -> dict[str, Any]:
    """Functions of Pinocchio on the standing humanoid, and its accelerations."""
    import pinocchio as pin

    model = pin.buildModelFromUrdf(robots.urdf_path(name), pin.JointModelFreeFlyer())
    data, q, v = model.createData(), pin.neutral(model), np.zeros(model.nv)
    pin.framesForwardKinematics(model, data, q)
    models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for foot in FEET[name]:
        number = model.getFrameId(foot)
        frame = model.frames[number]
        rows = pin.RigidConstraintModel(
            pin.ContactType.CONTACT_6D, model, frame.parentJoint, frame.placement, 0,
            data.oMf[number].copy(), pin.LOCAL,
        )  # fmt: skip
        models.append(rows)
        datas.append(rows.createData())
    pin.initConstraintDynamics(model, data, models, datas)
    once = pin.ProximalSettings(1e-12, 0.0, 1)
    out: dict[str, Any] = {
        "constraintDynamics": lambda: pin.constraintDynamics(
            model, data, q, v, tau, models, datas, once
        ),
        "computeDelassusMatrix": lambda: pin.computeDelassusMatrix(model, data, q, models, datas),
    }
    out["answer"] = np.array(out["constraintDynamics"]())
    fresh = model.createData()
    tight = pin.ProximalSettings(1e-12, 1e-10, 20)
    found = np.array(pin.lcaba(model, fresh, q, v, tau, models, datas, tight))
    if np.allclose(found, out["answer"], rtol=1e-6, atol=1e-6):
        out["lcaba"] = lambda: pin.lcaba(model, fresh, q, v, tau, models, datas, tight)
    return out


def pinocchio_platform(system: pp.System) -> dict[str, Any]:
    """The same platform in Pinocchio; joints in our order, the free one with [linear; angular]."""
    import pinocchio as pin

    tree = system.model
    model = pin.Model()
    numbers = {-1: 0}
    kinds = {0: pin.JointModelRX, 1: pin.JointModelRY}
    for k, joint in enumerate(tree.joints):
        made: Any = pin.JointModelFreeFlyer()
        if joint.kind == "revolute":
            made = kinds[int(np.argmax(joint.params[:3]))]()
        elif joint.kind == "prismatic":
            made = pin.JointModelPZ()
        place = pin.SE3(tree.placement_rotations[k], tree.placement_translations[k])
        numbers[k] = model.addJoint(numbers[tree.parent[k]], made, place, tree.joint_names[k])
        m = tree.inertia_matrices[k]
        lever = np.array([m[2, 4], m[0, 5], m[1, 3]]) / m[5, 5]
        about = m[:3, :3] + m[5, 5] * pin.skew(lever) @ pin.skew(lever)
        model.appendBodyToJoint(numbers[k], pin.Inertia(m[5, 5], lever, about), pin.SE3.Identity())
    data, q, v = model.createData(), pin.neutral(model), np.zeros(model.nv)
    q[2] = 1.0
    models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for closure in system.closures.closures:
        ends = [pin.SE3(f.rotation, f.translation) for f in (closure.a_frame, closure.b_frame)]
        rows = pin.RigidConstraintModel(
            pin.ContactType.CONTACT_3D, model, numbers[closure.a], ends[0], numbers[closure.b],
            ends[1], pin.LOCAL,
        )  # fmt: skip
        models.append(rows)
        datas.append(rows.createData())
    pin.initConstraintDynamics(model, data, models, datas)
    once = pin.ProximalSettings(1e-12, 0.0, 1)

    def run() -> Any:
        return pin.constraintDynamics(model, data, q, v, v, models, datas, once)

    answer = np.array(run())
    answer[:6] = np.concatenate([answer[3:6], answer[:3]])
    return {"constraintDynamics": run, "answer": answer}


# ---- measurements ------------------------------------------------------------------------------


def compare(name: str) -> list[str]:
    """Rows of the table for one humanoid."""
    from phipsi.interfaces import conventions

    system, q = standing(name)
    model = system.model
    rng = np.random.default_rng(0)
    v, tau = np.zeros(model.nv), rng.standard_normal(model.nv)
    mine = pp.forward_dynamics(system, q, v, tau)
    theirs = pinocchio_standing(name, conventions.to_pinocchio(model, q, v, tau=tau).tau)
    wanted = conventions.to_pinocchio(model, q, v, vdot=mine).vdot
    error = np.abs(wanted - theirs.pop("answer")).max() / np.abs(wanted).max()
    many = [np.broadcast_to(x, (BATCH, len(x))).copy() for x in (q, v, tau)]
    functions = {
        "phipsi": lambda: pp.forward_dynamics(system, q, v, tau),
        "phipsi A Λ A*": lambda: pp.delassus_matrix(system, q),
        **theirs,
    }
    times = race(functions)
    batch = race({"batch": lambda: pp.forward_dynamics(system, *many)}, rounds=8)["batch"] / BATCH
    slowest = times["constraintDynamics"]
    rows = [f"| {name}, accelerations agree to {error:.0e} | | |"]
    rows += [f"| &nbsp; {k} | {1e6 * t:.1f} µs | |" for k, t in times.items()]
    rows.append(
        f"| &nbsp; phipsi, batch of {BATCH}, one core | {1e6 * batch:.2f} µs | "
        f"{slowest / batch:.1f}× constraintDynamics |"
    )
    return rows


def slope(name: str, make: Any, counts: tuple[int, ...]) -> list[str]:
    """Times against a number of loops, and the least-squares slope on log-log axes."""
    times = []
    for n in counts:
        system, q = make(n)
        nv = system.model.nv
        state = (q, np.zeros(nv), np.random.default_rng(0).standard_normal(nv))
        run = {"one": lambda s=system, x=state: pp.forward_dynamics(s, *x)}
        times.append(race(run, rounds=10)["one"])
    steep = np.polyfit(np.log(counts), np.log(times), 1)[0]
    listed = ", ".join(f"{n}: {1e6 * t:.0f}" for n, t in zip(counts, times, strict=True))
    print(f"  {name}: slope {steep:.2f}", flush=True)
    return [f"| {name} | {listed} | {steep:.2f} |"]


def main() -> None:
    """Run all, print and write the tables."""
    lines = ["# Closed chains", "", "| what | time | ratio |", "|---|---|---|"]
    for name in FEET:
        lines += compare(name)
    system, q = platform()
    nv = system.model.nv
    state = (q, np.zeros(nv), np.zeros(nv))
    many = [np.broadcast_to(x, (BATCH, len(x))).copy() for x in state]
    theirs = pinocchio_platform(system)
    mine = pp.forward_dynamics(system, *state)
    error = np.abs(mine - theirs.pop("answer")).max() / np.abs(mine).max()
    times = race({"phipsi": lambda: pp.forward_dynamics(system, *state), **theirs})
    batch = race({"b": lambda: pp.forward_dynamics(system, *many)}, rounds=8)["b"] / BATCH
    lines.append(f"| platform on 12 legs, 36 rows, accelerations agree to {error:.0e} | | |")
    lines += [f"| &nbsp; {k} | {1e6 * t:.1f} µs | |" for k, t in times.items()]
    lines.append(
        f"| &nbsp; phipsi, batch of {BATCH}, one core | {1e6 * batch:.2f} µs | "
        f"{times['constraintDynamics'] / batch:.1f}× constraintDynamics |"
    )
    lines += ["", "| one call, µs | number: time | slope |", "|---|---|---|"]
    lines += slope("four-bars on the ground", lambda n: four_bars(n, False), (1, 10, 100, 1000))
    lines += slope(
        "four-bars on one free body", lambda n: four_bars(n, True), (1, 10, 50, 100, 200)
    )
    lines += slope("arms of 7 joints welded to one object", arms_on_object, (1, 2, 4, 8, 16))
    text = "\n".join(lines) + "\n"
    (HERE / "CLOSED_CHAINS.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
