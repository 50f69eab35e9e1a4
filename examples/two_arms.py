"""Two arms carry a beam, turn it and squeeze it, and one of them carries more of the load.

python examples/two_arms.py [page.html]
"""

import sys

import numpy as np

import phipsi as pp


def carriers() -> tuple[pp.grasping.Grasp, np.ndarray, pp.Pose]:
    """Two arms of seven joints that face each other, and a beam between their tools."""
    arm = pp.examples.seven_joint_arm()
    facing = pp.Pose.from_axis_angle((0, 0, 1), np.pi, translation=(1.7, 0, 0))
    pair = arm.attach(arm, at="world", placement=facing, prefix="b_")
    both = np.tile([0.3, 0.7, -0.2, 1.0, 0.3, 0.8, 0.1], 2)
    X, Y = pp.poses(pair, both, ["tool", "b_tool"])
    along = Y[:3, 3] - X[:3, 3]
    length = float(np.linalg.norm(along))
    x, y = along / length, np.cross([0, 0, 1.0], along / length)
    y /= np.linalg.norm(y)
    place = pp.Pose(np.stack([x, y, np.cross(x, y)], axis=-1), (X[:3, 3] + Y[:3, 3]) / 2)

    builder = pp.ModelBuilder()
    size = (length, 0.1, 0.1)
    builder.add_body("beam", joint=pp.joints.Free(), inertia=pp.SpatialInertia.box(size, mass=2.0))
    builder.add_shape("beam", "beam", pp.shapes.Box(size))
    model = pair.attach(builder.build(), at="world")
    contacts = []
    for name, tool, X_tool, side in (("left", "tool", X, -1), ("right", "b_tool", Y, 1)):
        outward = pp.Pose.from_axis_angle((0, 1, 0), side * np.pi / 2)  # z out of the beam's end
        finger = pp.Pose(X_tool[:3, :3].T @ place.rotation @ outward.rotation)
        end = pp.Pose(outward.rotation, (side * length / 2, 0, 0))
        contacts.append(pp.grasping.Rigid(name=name, finger=(tool, finger), object=("beam", end)))
    grasp = pp.grasping.Grasp(model, object="beam", contacts=contacts)
    return grasp, np.concatenate([both, place.quaternion, place.translation]), place


def controlled(grasp: pp.grasping.Grasp, place: pp.Pose) -> pp.control.GraspControl:
    """The beam rises and turns, while the arms press with 5 to 15 N; the left one carries more."""
    turn = pp.Pose.from_axis_angle((0.2, -0.3, 0.9), 0.35).rotation
    goal = pp.Pose(turn @ place.rotation, place.translation + (0.0, 0.05, 0.12))
    path = pp.control.CartesianPath([place, goal], times=[0.2, 1.2])

    def squeeze(t):
        return 10.0 + 5.0 * np.sin(2 * np.pi * t)

    return pp.control.GraspControl(grasp, path, kp=100, kd=20, internal=squeeze, weights=[1.0, 3.0])


def main() -> None:
    grasp, q, place = carriers()
    control = controlled(grasp, place)
    sim = pp.Simulator(grasp, [control], dt=2e-3)
    record = ("t", "q", "v", "tau", "GraspControl.multipliers")
    run = sim.rollout(sim.initial_state(q), steps=700, record_every=35, record=record)

    beam = grasp.model.body_index("beam")
    goals = np.array([control.reference(t).pose for t in run.t])
    off = pp.poses(grasp.model, run.q)[:, beam] - goals
    print(f"the beam is off its path by {np.abs(off).max():.1e} at most")
    felt = [pp.constraint_forces(grasp, *x) for x in zip(run.q, run.v, run["tau"], strict=True)]
    wrong = np.abs(felt - run["GraspControl.multipliers"]).max()
    print(f"contact forces differ from those commanded by {wrong:.1e} N at most")
    wrench = grasp.wrenches(run.q, run["GraspControl.multipliers"])
    upward = [
        (pp.poses(grasp.model, run.q)[:, beam, :3, :3] @ c.object[1].rotation
         @ wrench[:, i, 3:, None])[:, 2, 0]
        for i, c in enumerate(grasp.contacts)
    ]  # fmt: skip
    print("share of the left arm:", (upward[0] / np.sum(upward, axis=0)).round(2)[[0, -1]])
    pressed = -wrench[:, :, 5].mean(axis=1)
    print("pressed with, N:", pressed.round(1)[[0, 5, 15]])
    assert np.abs(off).max() < 1e-5 and wrong < 1e-5
    assert upward[0][0] > upward[1][0]

    if len(sys.argv) > 1:
        shown = pp.simulate(grasp, q, run.v[0], 1.4, controller=control, integrator="rk4", dt=2e-3)
        print("written:", pp.report(shown, sys.argv[1], title="Two arms carry a beam"))


if __name__ == "__main__":
    main()
