"""Events: times against closed forms, order, actions, and what must not go off."""

import numpy as np
import pytest
from integrator_steps import steps_of
from known_mechanisms import pendulum, slider
from random_models import model_from_parents

import phipsi as pp

G = 9.81


def bounce(restitution):
    def action(t, q, v):
        return q, -restitution * v

    return pp.Event(lambda t, q, v: q[0], direction=-1, action=action, name="floor")


def bounce_times(height, restitution, count):
    first = np.sqrt(2 * height / G)
    flights = 2 * first * restitution ** np.arange(1, count)
    return np.concatenate([[first], first + np.cumsum(flights)])


@pytest.mark.parametrize(
    ("integrator", "error"),
    [
        ("dopri", 1e-12),
        ("radau", 1e-8),
        ("lsoda", 1e-8),
        ("rk4", 1e-12),
        ("implicit_midpoint", 1e-12),
    ],
)
def test_a_bouncing_ball(integrator, error):
    ball = slider(gravity=G)
    run = pp.simulate(
        ball, [1.0], [0.0], 3.5, events=[bounce(0.8)], **steps_of(integrator, dt=0.01)
    )
    found = [event.t for event in run.events]
    expected = bounce_times(1.0, 0.8, 30)
    expected = expected[expected < 3.5]
    assert len(found) == len(expected) == 9
    np.testing.assert_allclose(found, expected, rtol=0, atol=error)
    for event in run.events:
        assert event.name == "floor"
        np.testing.assert_allclose(event.v_after, -0.8 * event.v)
        assert abs(event.q[0]) < 1e-12 and event.v[0] < 0
    assert run.q.min() > -1e-12
    assert run.t[-1] == 3.5 and run.complete


def test_semi_implicit_events_have_the_order_of_the_method():
    ball = slider(gravity=G)
    errors = []
    for dt in (1e-2, 5e-3):
        stop = pp.Event(lambda t, q, v: q[0], action="stop")
        run = pp.simulate(ball, [1.0], [0.0], 1.0, events=stop, integrator="semi_implicit", dt=dt)
        errors.append(abs(run.t[-1] - np.sqrt(2 / G)))
    assert 1.6 < errors[0] / errors[1] < 2.4


def test_both_states_of_a_jump_are_recorded():
    run = pp.simulate(slider(gravity=G), [1.0], [0.0], 0.8, events=[bounce(0.5)])
    at = run.events[0].t
    before, after = np.flatnonzero(run.t == at)
    np.testing.assert_array_equal(run.v[after], -0.5 * run.v[before])
    np.testing.assert_allclose(run.energy[: before + 1], G, rtol=1e-12)
    np.testing.assert_allclose(run.energy[after:], 0.25 * G, rtol=1e-9)
    # interpolated states do not smear the jump
    np.testing.assert_allclose(run.at(at - 1e-9)[1], run.v[before], atol=1e-7)
    np.testing.assert_allclose(run.at(at)[1], run.v[after], atol=1e-12)


def test_steps_stay_on_the_grid_after_a_jump():
    run = pp.simulate(
        slider(gravity=G), [1.0], [0.0], 1.0, events=[bounce(0.5)], integrator="rk4", dt=0.1
    )
    off = run.t[np.abs(run.t / 0.1 - np.rint(run.t / 0.1)) > 1e-9]
    assert set(off) == {event.t for event in run.events}
    assert run.t[-1] == 1.0


@pytest.mark.parametrize("integrator", ["dopri", "rk4"])
def test_stop_ends_the_run(integrator):
    """The pendulum is at the bottom after a quarter of its period."""
    bottom = pp.Event(lambda t, q, v: q[0] + np.pi / 2, action="stop", name="bottom")
    run = pp.simulate(
        pendulum(), [0.0], [0.0], 5, events=bottom, **steps_of(integrator, rtol=1e-12)
    )
    assert run.complete and [e.name for e in run.events] == ["bottom"]
    assert run.t[-1] == pytest.approx(2.36784194757623745 / 4, abs=1e-10)
    assert run.q[-1, 0] == pytest.approx(-np.pi / 2, abs=1e-12)
    assert repr(run).endswith("1 event>")


def test_several_events_in_one_step_come_in_time_order():
    """Steps of 0.5 s; levels that the falling ball passes inside one of them."""
    levels = [0.2, 0.9, 0.5, 0.7]
    events = [pp.Event(lambda t, q, v, z=z: q[0] - z, name=f"level {z}") for z in levels]
    for options in ({"integrator": "rk4", "dt": 0.5}, {"integrator": "dopri"}):
        run = pp.simulate(slider(gravity=G), [1.0], [0.0], 0.44, events=events, **options)
        assert [e.name for e in run.events] == [f"level {z}" for z in (0.9, 0.7, 0.5, 0.2)]
        expected = [np.sqrt(2 * (1 - z) / G) for z in (0.9, 0.7, 0.5, 0.2)]
        np.testing.assert_allclose([e.t for e in run.events], expected, atol=1e-12)


def test_an_earlier_stop_hides_later_events():
    stop = pp.Event(lambda t, q, v: q[0] - 0.5, action="stop", name="stop")
    later = pp.Event(lambda t, q, v: q[0] - 0.4, name="later")
    sooner = pp.Event(lambda t, q, v: q[0] - 0.6, name="sooner")
    run = pp.simulate(slider(gravity=G), [1.0], [0.0], 1.0, events=[later, stop, sooner])
    assert [e.name for e in run.events] == ["sooner", "stop"]


def test_events_at_the_same_time_all_happen_in_their_order():
    log = []
    events = [
        pp.Event(lambda t, q, v: q[0], -1, lambda t, q, v: log.append("a"), "a"),
        pp.Event(lambda t, q, v: 3 * q[0], -1, lambda t, q, v: (q, -v), "b"),
        pp.Event(lambda t, q, v: q[0] + 0.0, -1, lambda t, q, v: log.append(v[0] > 0), "c"),
    ]
    run = pp.simulate(slider(gravity=G), [1.0], [0.0], 0.6, events=events)
    assert [e.name for e in run.events] == ["a", "b", "c"]
    assert log == ["a", True]
    assert run.q[-1, 0] > 0


@pytest.mark.parametrize("integrator", ["dopri", "rk4"])
def test_direction(integrator):
    crossings = {}
    for direction in (-1, 0, 1):
        event = pp.Event(lambda t, q, v: q[0] + np.pi / 2, direction)
        run = pp.simulate(pendulum(), [0.0], [0.0], 2.5, events=event, integrator=integrator)
        crossings[direction] = [e.t for e in run.events]
    assert len(crossings[0]) == 2
    np.testing.assert_allclose(crossings[-1] + crossings[1], crossings[0], atol=1e-12)


@pytest.mark.parametrize("direction", [-1, 0, 1])
@pytest.mark.parametrize("integrator", ["dopri", "rk4", "lsoda"])
def test_zero_at_the_start_does_not_go_off(integrator, direction):
    """Thrown up from the floor it comes back once."""
    event = pp.Event(lambda t, q, v: q[0], direction)
    run = pp.simulate(
        slider(gravity=G), [0.0], [G / 2], 1.5, events=event, **steps_of(integrator, dt=0.01)
    )
    expected = [] if direction == 1 else [1.0]
    np.testing.assert_allclose([e.t for e in run.events], expected, atol=1e-7)


@pytest.mark.parametrize("integrator", ["dopri", "rk4"])
def test_an_action_without_change_does_not_repeat_the_event(integrator):
    calls = []
    event = pp.Event(lambda t, q, v: q[0], 0, lambda t, q, v: calls.append(t))
    run = pp.simulate(slider(gravity=G), [1.0], [0.0], 1.0, events=event, integrator=integrator)
    assert len(calls) == len(run.events) == 1
    assert len(np.unique(run.t)) == len(run.t)


def test_a_state_event_on_a_floating_tree_does_not_disturb_it():
    model = model_from_parents([-1, 0], 3, ["free", "spherical"])
    rng = np.random.default_rng(0)
    q0, v0 = model.random_configuration(rng), rng.uniform(-2, 2, model.nv)
    event = pp.Event(lambda t, q, v: q[1])
    free = pp.simulate(model, q0, v0, 8.0)
    run = pp.simulate(model, q0, v0, 8.0, events=event)
    np.testing.assert_array_equal(run.q, free.q)
    assert len(run.events) > 1
    for e in run.events:
        assert abs(e.q[1]) < 1e-12
        np.testing.assert_allclose(free.at(e.t)[1], e.v, atol=1e-12)


def test_events_with_output_times():
    times = np.linspace(0, 1, 11)
    run = pp.simulate(slider(gravity=G), [1.0], [0.0], 1.0, events=bounce(1.0), output_times=times)
    np.testing.assert_array_equal(run.t, times)
    first = np.sqrt(2 / G)
    phase = np.where(times < first, times, 2 * first - times)
    np.testing.assert_allclose(run.q[:, 0], 1 - G * phase**2 / 2, atol=1e-9)
    stop = pp.Event(lambda t, q, v: q[0] - 0.5, action="stop")
    cut = pp.simulate(slider(gravity=G), [1.0], [0.0], 1.0, events=stop, output_times=times)
    np.testing.assert_array_equal(cut.t, times[times < np.sqrt(1 / G)])


def test_an_action_may_switch_the_controller():
    thrust = {"on": False}

    def switch(t, q, v):
        thrust["on"] = True

    run = pp.simulate(
        slider(gravity=G),
        [1.0],
        [0.0],
        0.6,
        controller=lambda t, q, v: np.array([2 * G if thrust["on"] else 0.0]),
        events=pp.Event(lambda t, q, v: q[0] - 0.5, action=switch),
    )
    at = np.sqrt(1 / G)
    s = 0.6 - at
    expected = 0.5 - G * at * s + G * s * s / 2
    assert run.q[-1, 0] == pytest.approx(expected, abs=1e-10)


def test_a_ball_that_comes_to_rest_is_an_error_and_not_a_hang():
    with pytest.raises(
        pp.errors.SimulationError, match=r"event 'floor' triggers indefinitely"
    ) as info:
        pp.simulate(slider(gravity=G), [1.0], [0.0], 10.0, events=bounce(0.5))
    ends = 3 * np.sqrt(2 / G)  # of the infinitely many bounces
    assert info.value.trajectory.t[-1] == pytest.approx(ends, abs=1e-6)
    assert not info.value.trajectory.complete


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pp.Event(3), "needs a function"),
        (lambda: pp.Event(lambda t, q, v: 0, 2), "not one of −1"),
        (lambda: pp.Event(lambda t, q, v: 0, action="halt"), "neither None, 'stop'"),
        (lambda: run_with("x"), "which is not an event"),
        (lambda: run_with(pp.Event(lambda t, q, v: q, name="bad")), r"event 'bad' returned array"),
        (lambda: run_with(pp.Event(lambda t, q, v: np.nan, name="bad")), "one finite number"),
    ],
)
def test_bad_events_are_refused(make, message):
    with pytest.raises(pp.errors.InputError, match=message):
        make()


def run_with(event):
    return pp.simulate(pendulum(), [0.0], [0.0], 1.0, events=[event])


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda t, q, v: q, r"must return \(q, v\) of shapes \(1,\) and \(1,\)"),
        (lambda t, q, v: (q, [np.nan]), "the new v is nan at joint 'block'"),
        (lambda t, q, v: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_bad_actions_end_the_run_and_keep_the_rest(action, message):
    event = pp.Event(lambda t, q, v: q[0], action=action, name="floor")
    with pytest.raises(pp.errors.SimulationError, match=message) as info:
        pp.simulate(slider(gravity=G), [1.0], [0.0], 1.0, events=event, integrator="rk4")
    assert 0.4 < info.value.trajectory.t[-1] <= np.sqrt(2 / G) + 1e-3


def test_event_functions_cannot_change_the_state():
    def meddle(t, q, v):
        q[0] = 7.0
        return 1.0

    with pytest.raises(pp.errors.SimulationError, match="first call.*read-only"):
        run_with(pp.Event(meddle))
