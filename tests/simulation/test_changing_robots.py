"""Robots that change while they move: what physics says must stay the same, stays the same."""

import numpy as np
import pytest
from amounts import mostly
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import topology as top

Z = (0, 0, 1)


def flying_robot():
    """The free flyer with bent arms before a drifting crate, and efforts for its arms."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    inertia = pp.SpatialInertia(20.0, (0, 0, 0), (1.0, 1.2, 0.9))
    b.add_body("crate", joint=pp.joints.Free(), inertia=inertia)
    model = pp.examples.free_flyer().attach(b.build())
    q, v, strength = model.neutral(), np.zeros(model.nv), np.zeros(model.nv)
    for side in ("left", "right"):
        for joint, angle in (("shoulder_pitch", 0.9), ("elbow_pitch", 0.9), ("wrist_pitch", 0.4)):
            q[model.q_slice(f"{side}_{joint}")] = angle
        for joint, size in (("shoulder_yaw", 3.0), ("shoulder_pitch", 3.0), ("elbow_pitch", 1.5)):
            strength[model.v_slice(f"{side}_{joint}")] = size
    q[model.q_slice("crate")] = [1, 0, 0, 0, 0.86, 0, 0]
    v[model.v_slice("crate")] = [0.02, -0.05, 0.03, -0.1, 0.02, 0.01]
    return model, q, v, lambda t, q, v: strength * np.sin(4 * t + np.arange(model.nv))


@pytest.mark.parametrize("kind", mostly(["Rigid", "SoftFinger"], "SoftFinger"))
def test_a_floating_robot_grasps_moves_and_releases_with_its_momentum_kept(kind):
    model, q, v, controller = flying_robot()
    hands = [
        getattr(pp.grasping, kind)(name=side, finger=f"{side}_tool", object=("crate", (0, y, 0)))
        for side, y in (("left", 0.2), ("right", -0.2))
    ]
    run = pp.simulate(
        model, q, v, 0.3, controller=controller, rtol=1e-12, atol=1e-14,
        events=[top.at(0.1, top.Grasp(*hands, as_is=True)), top.at(0.2, top.Release())],
    )  # fmt: skip
    assert np.abs(run.momentum - run.momentum[0]).max() < 1e-10
    assert np.abs(run.momentum[0]).max() > 0.1
    assert np.abs(run.constraint_residuals).max() < 1e-10
    grasped, released = run.events
    assert isinstance(run.phases[1].system, pp.grasping.Grasp)
    assert grasped.change.energy_after < grasped.change.energy - 1e-4
    M = pp.mass_matrix(model, grasped.q)
    gap = grasped.v - grasped.v_after
    assert_allclose(
        grasped.change.energy - grasped.change.energy_after, gap @ M @ gap / 2, rtol=1e-9
    )
    assert_allclose(released.v_after, released.v, rtol=0, atol=0)
    # the power balance over the whole run, jumps apart: energy is the work of the efforts
    work = 0.0
    for phase in run.phases:
        own = phase.trajectory
        times = np.linspace(0, own.t[-1], 2001)
        fine = own.resample(times)
        _, rates = phase.lift(fine.q, fine.v)
        efforts = np.array([controller(phase.t0 + t, None, None) for t in times])
        power = np.einsum("tv,tv->t", efforts, rates)
        work += ((power[1:] + power[:-1]) / 2 * np.diff(times)).sum()
    lost = grasped.change.energy - grasped.change.energy_after
    assert_allclose(run.energy[-1] - run.energy[0] + lost, work, rtol=1e-5)


def test_small_singular_values_that_stay_small_are_no_position_to_get_across(monkeypatch):
    """The rows of a firm grasp are near each other all along; that is looked at once per step."""
    from phipsi.simulation.simulate.run_constraints import RunConstraints

    tried: list[bool] = []
    across = RunConstraints._across

    def counted(self, *state):
        tried.append(across(self, *state) is None)

    monkeypatch.setattr(RunConstraints, "_across", counted)
    model, q, v, controller = flying_robot()
    hands = [
        pp.grasping.Rigid(name=side, finger=f"{side}_tool", object=("crate", (0, y, 0)))
        for side, y in (("left", 0.2), ("right", -0.2))
    ]
    run = pp.simulate(
        model, q, v, 0.1, controller=controller, rtol=1e-9,
        events=[top.at(0.01, top.Grasp(*hands, as_is=True))],
    )  # fmt: skip
    held = run.phases[1]
    assert 1e-3 < held.system.mobility(held.trajectory.q[0]).smallest < 0.02
    assert all(tried) and 0 < len(tried) <= 2 * len(held.trajectory.t)


def spacecraft():
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    hub = pp.SpatialInertia(200, (0, 0, 0), (40, 45, 50))
    b.add_body("hub", joint=pp.joints.Free(), inertia=hub)
    rod = pp.SpatialInertia(5, (1.5, 0, 0), (0.02, 3.75, 3.75))
    for side, x in (("left", -0.6), ("right", 0.6)):
        out = pp.Pose(np.diag([np.sign(x), np.sign(x), 1.0]), (x, 0, 0))
        b.add_body(side, parent="hub", joint=pp.joints.Revolute(Z), placement=out, inertia=rod)
    return b.build()


def latches(model):
    def latch(side: str, place: int) -> pp.Event:
        return pp.Event(lambda t, q, v: q[place], action=top.Lock(side), name=f"{side} latches")

    return [latch("left", 7), latch("right", 8)]


def test_a_spinning_spacecraft_unfolds_its_booms():
    """Latched, it is one rigid body whose spin follows from the momentum."""
    model = spacecraft()
    springs = [pp.forces.JointSpring(side, 2.0) for side in ("left", "right")]
    dampers = [pp.forces.JointDamper(side, 1.5) for side in ("left", "right")]
    whole = 50 + 2 * (3.75 + 5 * (0.6 + 1.5) ** 2)
    for folded in ((1.6, 1.6), (1.6, 1.1)):
        q, v = model.neutral(), np.zeros(model.nv)
        q[-2:], v[2] = folded, 1.0
        run = pp.simulate(model, q, v, 8.0, forces=[*springs, *dampers], events=latches(model),
                          rtol=1e-12, atol=1e-14)  # fmt: skip
        assert {e.name for e in run.events} == {"left latches", "right latches"}
        assert np.abs(run.momentum - run.momentum[0]).max() < 1e-8 * np.abs(run.momentum[0]).max()
        assert run.phases[-1].model.n_bodies == 1 and run.phases[-1].model.nv == 6
        assert (run.v[-1, 6:] == 0).all() and np.abs(run.q[-1, 7:]).max() < 1e-9
        for event in run.events:
            assert event.change.energy_after < event.change.energy
        center = pp.center_of_mass(model, run.q[-1])
        spin = run.momentum[0, 2] - np.cross(center, run.momentum[0, 3:])[2]
        assert_allclose(run.v[-1, 2], spin / whole, rtol=1e-8)


def test_the_coordinates_of_untouched_joints_carry_over_by_name():
    """Locking the first boom leaves the second where it was, and the hub too."""
    model = spacecraft()
    rng = np.random.default_rng(0)
    q, v = model.neutral(), rng.standard_normal(model.nv)
    run = pp.simulate(model, q, v, 0.2, events=[top.at(0.1, top.Lock("left"))])
    event = run.events[0]
    assert_allclose(event.q_after, event.q, rtol=0, atol=0)
    assert run.phases[1].model.joint_names == ("hub", "right")
    assert_allclose(run.q[run.t >= event.t][1:, 7], event.q[7], rtol=0, atol=0)


def hexapod(n: int = 3) -> tuple[pp.System, np.ndarray]:
    """A floating plate with n four-bar legs around it: loops that all share one free base."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    b.add_body("plate", joint=pp.joints.Free(), inertia=pp.SpatialInertia(5, (0, 0, 0), 0.3))
    rod = pp.SpatialInertia(0.5, (0.15, 0, 0), (1e-4, 0.004, 0.004))
    loops = []
    for i in range(n):
        angle = 2 * np.pi * i / n
        R = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], Z])
        parent, X = "plate", pp.Pose(R, 0.4 * R[:, 0])
        for part in ("crank", "coupler", "rocker"):
            b.add_body(f"{part}{i}", parent=parent, joint=pp.joints.Revolute(Z), placement=X,
                       inertia=rod)  # fmt: skip
            parent, X = f"{part}{i}", pp.Pose(None, (0.3, 0, 0))
        loops.append(
            pp.constraints.Revolute(
                Z,
                name=f"leg{i}",
                a=(f"rocker{i}", (0.3, 0, 0)),
                b=("plate", 0.4 * R[:, 0] + 0.35 * R[:, 1]),
            )  # fmt: skip
        )
    system = pp.System(b.build(), loops)
    start = system.model.neutral()
    for i in range(n):
        for part, value in (("crank", 0.3), ("coupler", 1.3), ("rocker", 1.2)):
            start[system.model.q_slice(f"{part}{i}")] = value
    return system, system.assemble(start, fixed=["plate"])


def test_a_walking_plate_sets_down_and_lifts_its_feet():
    """Feet that hold on to the ground in turn: loops of the legs stay closed, energy only falls."""
    system, q = hexapod()
    rng = np.random.default_rng(1)
    q, v = system.project(q, 0.3 * rng.standard_normal(system.model.nv))
    down = [
        pp.constraints.Spherical(name=f"foot{i}", a=(f"coupler{i}", (0.15, 0, 0)), b="world")
        for i in range(2)
    ]
    run = pp.simulate(
        system, q, v, 0.16, rtol=1e-9, atol=1e-11,
        events=[
            top.at(0.04, top.Attach(down[0], as_is=True)),
            top.at(0.08, top.Attach(down[1], as_is=True), top.Detach("foot0")),
            top.at(0.12, top.Detach("foot1")),
        ],
    )  # fmt: skip
    assert np.abs(run.constraint_residuals).max() < 1e-9
    assert [len(p.system.constraints) for p in run.phases] == [3, 4, 4, 3]
    for phase in run.phases:
        own = phase.trajectory.energy
        assert_allclose(own, own[0], rtol=1e-7)
    for event in run.events[:2]:
        assert event.change.energy_after < event.change.energy
    foot = pp.poses(system.model, run.q, [("coupler0", (0.15, 0, 0))])[:, 0, :3, 3]
    standing = (run.t > 0.04) & (run.t < 0.08)
    assert np.abs(foot[standing] - foot[standing][0]).max() < 1e-9
    # free again: momentum stays
    total = run.phases[-1].trajectory.momentum
    assert np.abs(total - total[0]).max() < 1e-8
