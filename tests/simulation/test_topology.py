"""Runs of mechanisms that change: jumps, carried coordinates, momentum, energy, failures."""

from typing import Any

import numpy as np
import pytest
from comparers import close as near
from integrator_steps import steps_of
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import constraints as c, joints, topology as top

Z = (0, 0, 1)


def satellites(gravity=(0, 0, 0)) -> pp.Model:
    """Two free bodies, the second with a hinged panel."""
    b = pp.ModelBuilder(gravity=gravity)
    b.add_body(
        "one", joint=joints.Free(), inertia=pp.SpatialInertia(3, (0.1, 0, 0), (0.4, 0.5, 0.6))
    )
    b.add_body(
        "two",
        joint=joints.Free(),
        inertia=pp.SpatialInertia(2, (0, 0.2, 0), (0.3, 0.2, 0.4)),
        placement=pp.Pose(None, (2, 0, 0)),
    )
    b.add_body(
        "panel",
        parent="two",
        joint=joints.Revolute(Z),
        placement=pp.Pose(None, (0.5, 0, 0)),
        inertia=pp.SpatialInertia(1, (0.4, 0, 0), (0.01, 0.1, 0.1)),
    )
    return b.build()


def moving(model: pp.Model, seed: int = 0):
    rng = np.random.default_rng(seed)
    return model.neutral(), 0.5 * rng.standard_normal(model.nv)


def test_docking_keeps_momentum_and_loses_energy_as_carnot_says():
    model = satellites()
    q, v = moving(model)
    dock = c.Weld(name="dock", a="one", b="two")
    run = pp.simulate(
        model,
        q,
        v,
        2.0,
        rtol=1e-11,
        atol=1e-13,
        events=[
            top.at(1.0, top.Attach(dock, as_is=True)),
            top.at(1.5, top.Detach("dock")),
        ],
    )
    near(run.momentum, np.broadcast_to(run.momentum[0], run.momentum.shape), 1e-9)
    on, off = run.events
    assert (on.name, off.name) == ("Attach at 1 s", "Detach at 1.5 s")
    assert_allclose([on.t, off.t], [1, 1.5], rtol=1e-12)
    # the jump: ℳ (v⁺ − v) is a constraint load, and the loss is the energy of v − v⁺
    M = pp.mass_matrix(model, on.q)
    lost = (on.v - on.v_after) @ M @ (on.v - on.v_after) / 2
    near(on.change.energy - on.change.energy_after, lost, 1e-9)
    assert lost > 1e-3
    near(on.change.momentum_after, on.change.momentum, 1e-12)
    wanted = on.v @ M @ on.v / 2
    near(on.change.energy, wanted, 1e-12)
    system = pp.System(model, [run.phases[1].system.constraints[0]])
    near(system.jacobian(on.q) @ on.v_after, np.zeros(6), 1e-10)
    exact, p = pp.constraint_impulse(system, on.q, on.v)
    near(on.v_after, exact, 1e-10)
    near(on.change.impulses, p, 1e-8)
    assert on.change.rows == system.row_names
    # switching off does not jump
    assert_allclose(off.v_after, off.v, rtol=0, atol=0)
    near(off.change.energy_after, off.change.energy, 1e-12)
    # while docked the two keep their relative pose
    X = pp.poses(model, run.q)
    docked = (run.t > 1.0) & (run.t < 1.5)
    relative = np.linalg.inv(X[:, 0]) @ X[:, 1]
    inside = relative[docked]
    near(inside, np.broadcast_to(inside[0], inside.shape), 1e-9)
    assert np.abs(relative[-1] - relative[docked][-1]).max() > 1e-3
    assert np.abs(run.constraint_residuals).max() < 1e-9
    assert [p.t0 for p in run.phases] == [0.0, on.t, off.t]


def test_a_locked_joint_is_the_model_with_the_joint_locked():
    model = satellites(gravity=(0, -1, 0.3))
    q, v = moving(model, 1)
    kept = [*range(12)]
    run = pp.simulate(
        model,
        q,
        v,
        1.5,
        rtol=1e-11,
        atol=1e-13,
        events=[top.at(0.5, top.Lock("panel")), top.at(1.0, top.Unlock("panel"))],
    )
    lock, unlock = run.events
    assert lock.v_after[12] == 0 and abs(lock.v[12]) > 0.1
    reduced = model.with_locked("panel", lock.q)
    own = pp.simulate(reduced, lock.q_after[:14], lock.v_after[kept], 0.5, rtol=1e-11, atol=1e-13)
    q1, v1 = own.at(0.5)
    near(unlock.q[:14], q1, 1e-9)
    near(unlock.v[kept], v1, 1e-9)
    assert unlock.q[14] == lock.q[14] and unlock.v[12] == 0
    # the jump is the one of the row v_k = 0
    row = c.Coupling(name="lock", joints=["panel"], coefficients=[1], offset=float(lock.q[14]))
    exact, p = pp.constraint_impulse(pp.System(model, [row]), lock.q, lock.v)
    near(lock.v_after, exact, 1e-10)
    near(lock.change.impulses, p, 1e-9)
    assert lock.change.rows == ("panel.lock",)
    # afterwards it moves again, from rest
    free = pp.simulate(model, unlock.q_after, unlock.v_after, 0.5, rtol=1e-11, atol=1e-13)
    near(run.q[-1], free.q[-1], 1e-8)
    assert abs(run.v[-1, 12]) > 1e-4


def test_what_is_not_there_is_not_simulated():
    """Another secondary system: it comes with its state, the old one leaves with its momentum."""
    model = satellites()
    q, v = moving(model, 2)
    start = {"q": {"two": [1, 0, 0, 0, 0.5, 0, 0]}, "v": {"two": [0, 0, 0.3, 0, 0.2, 0]}}
    swap = top.Replace(out=(), into=("two",), **start)
    run = pp.simulate(
        model,
        q,
        v,
        1.0,
        rtol=1e-11,
        atol=1e-13,
        topology=[top.Replace(out="two")],
        events=[top.at(0.5, swap)],
    )
    event = run.events[0]
    alone = pp.simulate(model.with_trees("one"), q[:7], v[:6], 1.0, rtol=1e-11, atol=1e-13)
    near(run.q[-1, :7], alone.q[-1], 1e-9)
    near(run.energy[0], alone.energy[0], 1e-12)
    near(run.momentum[0], alone.momentum[0], 1e-12)
    near(event.q_after[7:14], [1, 0, 0, 0, 0.5, 0, 0], 1e-14)
    near(event.v_after[6:12], [0, 0, 0.3, 0, 0.2, 0], 1e-14)
    other = model.with_trees("two")
    gained = pp.kinetic_energy(other, event.q_after[7:], event.v_after[6:])
    near(event.change.energy_after - event.change.energy, gained, 1e-12)
    assert (run.v[run.t < 0.5][:, 6:] == 0).all()


def test_constraints_of_a_tree_that_leaves_go_with_it():
    model = satellites()
    q, v = moving(model, 3)
    system = pp.System(
        model, [c.Spherical(name="ball", a=("one", (1, 0, 0)), b=("two", (-1, 0, 0)))]
    )
    q, v = system.project(q, v)
    run = pp.simulate(system, q, v, 0.4, events=[top.at(0.2, top.Replace(out="two"))])
    assert run.phases[0].system.n_rows == 3 and run.phases[1].system.n_rows == 0
    lost = run.events[0].change
    near(
        lost.momentum - lost.momentum_after,
        pp.momentum(model.with_trees("two"), run.events[0].q[7:], run.events[0].v[6:]),
        1e-12,
    )


def test_only_what_changed_is_executed_again_for_the_jump():
    """Two docking events at one time and place: the second reuses the trees of the first."""
    model = satellites()
    q, v = moving(model)
    a = c.Spherical(name="a", a="one", b="two")
    b = c.Spherical(name="b", a=("one", (0, 1, 0)), b=("two", (0, 1, 0)))
    run = pp.simulate(
        model,
        q,
        v,
        1.0,
        events=[top.at(0.5, top.Attach(a, as_is=True)), top.at(0.7, top.Attach(b, as_is=True))],
    )
    first = run.events[0].change.steps
    assert first["articulated", "one"] == first["articulated", "two"] == 1
    assert first["solve", ""] == 1 and ("free", "one") not in first


def test_functions_see_all_coordinates_and_the_time_of_the_run():
    model = satellites()
    q, v = moving(model)
    seen, shapes = [], set()

    def controller(t, q, v):
        seen.append(t)
        shapes.add((q.shape, v.shape))
        return np.array([0.0] * 12 + [0.1 * np.sin(t)])

    spring = pp.forces.JointSpring("panel", 2.0, 0.3)
    push = pp.forces.Wrench("panel", [0, 0, 0, 0.2, 0, 0])
    options = dict(controller=controller, forces=[spring, push], rtol=1e-11, atol=1e-13)
    run = pp.simulate(
        model,
        q,
        v,
        1.0,
        events=[top.at(0.3, top.Lock("panel")), top.at(0.6, top.Unlock("panel"))],
        **options,
    )
    assert shapes == {((15,), (13,))}
    assert max(seen) == pytest.approx(1.0, abs=1e-9)
    # the pieces one by one, each as an ordinary run
    one = pp.simulate(model, q, v, 0.3, **options)
    near(run.events[0].q, one.q[-1], 1e-9)
    reduced = model.with_locked("panel", run.events[0].q)
    two = pp.simulate(
        reduced,
        run.events[0].q_after[:14],
        run.events[0].v_after[:12],
        0.3,
        forces=[push],
        rtol=1e-11,
        atol=1e-13,
    )
    near(run.events[1].q[:14], two.q[-1], 1e-9)
    assert (run.tau[(run.t > 0.3) & (run.t < 0.6)][:, 12] == 0).all()
    later = pp.simulate(
        model,
        run.events[1].q_after,
        run.events[1].v_after,
        0.4,
        **{**options, "controller": lambda t, q, v: controller(t + 0.6, q, v)},
    )
    near(run.q[-1], later.q[-1], 1e-9)
    # resampling finds the phase of each time
    near(run.at(0.45)[0][:14], two.at(0.15)[0], 1e-9)
    near(run.resample([0.1, 0.45, 0.8]).q[2], later.at(0.2)[0], 1e-9)


@pytest.mark.parametrize("integrator", ["dopri", "radau", "lsoda", "rk4", "implicit_midpoint"])
def test_all_integrators_and_output_times(integrator):
    model = satellites()
    q, v = moving(model)
    times = np.linspace(0, 1, 11)
    run = pp.simulate(
        model,
        q,
        v,
        1.0,
        **steps_of(integrator, dt=0.01),
        output_times=times,
        events=[top.at(0.5, top.Lock("panel")), top.at(0.75, top.Unlock("panel"))],
    )
    near(run.t, times, 1e-12)
    fine = pp.simulate(
        model,
        q,
        v,
        1.0,
        rtol=1e-11,
        atol=1e-13,
        events=[top.at(0.5, top.Lock("panel")), top.at(0.75, top.Unlock("panel"))],
    )
    near(run.q[-1], fine.q[-1], 1e-6 if integrator != "implicit_midpoint" else 1e-3)


def test_changes_that_cannot_be_keep_what_there_is():
    model = satellites()
    q, v = moving(model)
    far = c.Spherical(name="far", a="one", b="two")
    with pytest.raises(
        pp.errors.SimulationError,
        match=r"'far' between 'one' and 'two' is open by(.|\n)*as_is=True",
    ) as caught:
        pp.simulate(model, q, v, 1.0, events=[top.at(0.5, top.Attach(far))])
    assert caught.value.trajectory.t[-1] == pytest.approx(0.5)
    for change, message in (
        (top.Detach("gone"), "no constraint 'gone' is active"),
        (top.Unlock("panel"), "'panel' is not locked"),
        (top.Replace(into="one"), "already present in the mechanism"),
    ):
        with pytest.raises(pp.errors.SimulationError, match=message):
            pp.simulate(model, q, v, 1.0, events=[top.at(0.5, change)])
    with pytest.raises(pp.errors.InputError, match="takes contacts"):
        top.Grasp(far)
    with pytest.raises(pp.errors.InputError, match="changes of phipsi.topology"):
        pp.Event(lambda t, q, v: t, action=["lock"])


# ---- grasps --------------------------------------------------------------------------------------


def test_fingers_that_press_too_little_let_the_box_go():
    """The push falls with time until friction no longer carries the weight, and both slip."""
    grasp = pp.examples.two_finger_grasp(friction=0.6)
    q, zero = grasp.model.neutral(), np.zeros(grasp.model.nv)
    load = grasp.object_load(q, zero, zero)
    squeeze = grasp.internal_forces(q)[:, 0]
    squeeze = squeeze * np.sign(-squeeze[2])

    def efforts(amount):
        f = grasp.distribute(q, load) + amount * squeeze
        return grasp.efforts(q, zero, zero, f)

    needed = 0.5 * 9.81 / 1.2 * np.sqrt(2)  # internal force at which friction just carries

    rest = efforts(0.0)
    push = efforts(1.0) - rest

    def controller(t, q, v):
        return rest + 2 * needed * (1 - t) * push

    events = pp.topology.contact_events(grasp, controller, action="release")
    run = pp.simulate(grasp, q, zero, 0.8, controller=controller, events=events)
    names = {e.name for e in run.events}
    assert names == {"contact 'left' breaks", "contact 'right' breaks"}
    assert_allclose(run.events[0].t, 0.5, rtol=1e-6)
    at = run.phases[0].trajectory
    near(at.q[-1], q, 1e-6)  # nothing moved before, but for an unstable equilibrium
    # once both are off, the box falls freely
    last = run.phases[-1]
    assert last.system.n_rows == 0
    ends = [last.trajectory.q[[0, -1]], last.trajectory.v[[0, -1]]]
    box = pp.velocities(grasp.model, *ends, ["box"], axes="world")[:, 0, 3:]
    near(box[1] - box[0], [0, 0, -9.81 * last.trajectory.t[-1]], 1e-7)
    stopped = pp.simulate(
        grasp,
        q,
        zero,
        0.8,
        controller=controller,
        events=pp.topology.contact_events(grasp, controller, action="stop"),
    )
    assert_allclose(stopped.t[-1], 0.5, rtol=1e-6)

    # the same squeeze as force elements: springs that are let go
    def squeezing(t):
        return [0, 0, 0, 0, 0, -2.0 if t > 0.1 else 0.0]

    pull = [pp.forces.Wrench("box", squeezing)]  # 2 N more to carry: 6.9 N, friction gives 5.9 N
    steady = efforts(1.2 * needed)
    for action in ("stop", "release"):
        watching = pp.topology.contact_events(
            grasp, lambda t, q, v: steady, forces=pull, action=action
        )
        pulled = pp.simulate(
            grasp, q, zero, 0.15, controller=lambda t, q, v: steady, forces=pull, events=watching
        )
        assert_allclose(pulled.events[0].t, 0.1, atol=1e-6)
    assert pp.grasping.Point in {type(x) for x in grasp.contacts}


def test_runs_with_changes_are_saved_and_read(tmp_path):
    arm = pp.examples.planar_arm(3)
    changes = [top.at(0.2, top.Lock("joint2")), top.at(0.4, top.Unlock("joint2"))]
    run = pp.simulate(arm, [0, 0, 0], [1, 0, 0], 0.5, events=changes)
    run.save(tmp_path / "run.npz")
    back = pp.Trajectory.load(tmp_path / "run.npz")
    assert_allclose(back.q, run.q, rtol=0, atol=0)
    assert_allclose(back.energy, run.energy, rtol=0, atol=0)
    assert [(e.name, e.t) for e in back.events] == [(e.name, e.t) for e in run.events]
    near(back.resample(run.t[::3]).q, run.q[::3], 1e-12)


@pytest.mark.parametrize("kind", ["function", "bar", "display"])
def test_progress_is_that_of_the_whole_run(kind, monkeypatch):
    """One count from 0 to the end, not one per phase."""
    from phipsi.support import progress

    seen: list[tuple[float, float]] = []
    closed: list[float] = []

    class Bar:
        done = 0.0

        def update(self, n: float) -> None:
            assert n >= 0
            self.done += n
            seen.append((self.done, 0.4))

    class Display:
        def __init__(self, total: Any) -> None:
            assert (total.doing, total.unit) == ("simulating", "s")
            self.total = total.amount

        def show(self, t: float, elapsed: float) -> None:
            seen.append((t, self.total))

        def close(self) -> None:
            closed.append(seen[-1][0])

    monkeypatch.setattr(progress, "_display", Display)
    monkeypatch.setattr(progress, "_REFRESH", 0.0)
    given = {"function": lambda t, end: seen.append((t, end)), "bar": Bar(), "display": True}[kind]
    arm = pp.examples.planar_arm(2)
    pp.simulate(
        arm, [0.1, 0.2], [0.3, 0.0], 0.4, progress=given,
        events=[top.at(0.1, top.Lock("joint2")), top.at(0.2, top.Unlock("joint2"))],
    )  # fmt: skip
    times = [t for t, _ in seen]
    assert {end for _, end in seen} == {0.4}
    assert times == sorted(times) and times[-1] == pytest.approx(0.4)
    assert len(closed) == (kind == "display")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (top.Lock("elbow"), "no joint 'elbow'"),
        (top.Unlock("elbow"), "no joint 'elbow'"),
        (top.Attach(c.Weld(name="dock", a="elbow", b="world"), as_is=True), "'elbow'"),
        (top.Grasp(pp.grasping.Point(name="tip", finger="elbow", object="link1")), "'elbow'"),
        (top.Replace(out=["elbow"]), "no body 'elbow'"),
        (top.Replace(into=["link1"], v={"joint1": [1.0, 2.0]}), "must be 1 finite number"),
        (top.Replace(into=["link1"], q={"joint1": np.nan}), "must be 1 finite number"),
    ],
)
def test_names_that_do_not_exist_are_told_before_the_run(change, message):
    arm, evaluations = pp.examples.planar_arm(2), []

    def controller(t, q, v):
        evaluations.append(t)
        return np.zeros(2)

    with pytest.raises(pp.errors.PhipsiError, match=message):
        pp.simulate(arm, [0.1, 0.2], [0.0, 0.0], 1.0, controller=controller,
                    events=[top.at(0.5, change)])  # fmt: skip
    assert not evaluations


def test_a_change_at_the_start_and_one_at_the_end_act():
    arm, v = pp.examples.planar_arm(3), np.array([1.0, 0.5, -0.2])
    q = np.array([0.1, 0.2, 0.3])
    events = [top.at(0.0, top.Lock("joint2")), top.at(0.1, top.Unlock("joint2")),
              top.at(0.2, top.Lock("joint3"))]  # fmt: skip
    run = pp.simulate(arm, q, v, 0.2, events=events)
    assert [e.t for e in run.events] == pytest.approx([0.0, 0.1, 0.2])
    lock = c.Coupling(name="lock", joints=["joint2"], coefficients=[1], offset=0.2)
    after, _ = pp.constraint_impulse(pp.System(arm, [lock]), q, v)
    assert_allclose(run.events[0].v_after, after, atol=1e-12)
    assert_allclose(run.v[0], after, atol=1e-12)
    for event in (run.events[0], run.events[2]):
        gap = event.v - event.v_after
        lost = gap @ pp.mass_matrix(arm, event.q) @ gap / 2
        assert lost > 1e-6
        assert_allclose(event.change.energy - event.change.energy_after, lost, rtol=1e-9)
    assert run.complete and run.events[2].v_after[2] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # rates that the arm's own loop does not allow
        (top.Attach(c.Rows(name="up", points=["link1"], A=[[0, 0, 0, 0, 0, 1]], row_velocity=1.0)),
         r"'up' between 'link1'"),
        # a body that has left
        ([top.Replace(out=["ball"]), top.Attach(c.Spherical(name="tie", a="ball", b="link1"))],
         "'ball'"),
    ],
)  # fmt: skip
def test_a_change_that_fails_keeps_what_there_is(change, message):
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    ball = pp.SpatialInertia(1.0, (0, 0, 0), 0.1)
    b.add_body("ball", joint=joints.Free(), inertia=ball)
    model = pp.examples.planar_arm(2).attach(b.build())
    event = pp.Event(lambda t, q, v: t - 0.1, 1, change, "change")
    with pytest.raises(pp.errors.SimulationError, match=message) as caught:
        pp.simulate(model, model.neutral(), np.zeros(model.nv), 0.2, events=[event])
    kept = caught.value.trajectory
    assert kept.t[-1] == pytest.approx(0.1) and len(kept) > 2 and not kept.complete
