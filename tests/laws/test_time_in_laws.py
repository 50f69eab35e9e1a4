"""Time in laws: values of the step before, samples of several rates, records, intervals, noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.errors import LawError
from phipsi.laws.signals import interval, joint_efforts, noise, output, previous

ARM = pp.examples.planar_arm(2)
DT = 0.01
JOINTS = list(ARM.joint_names)


@pp.law
def clock(t):
    return {"y": 1.0 + t}


@pp.law
def watch(p):
    return {"p": p}


@pp.law(discrete={"n": 0.0})
def count(n):
    return {"y": n, "n": n + 1.0}


@pp.law
def hold(q, v, tau_given, kp):
    return {"tau": kp * (0.5 - q) - 2.0 * v, "felt": tau_given + q}


def records(laws, steps, names, integrator="rk4", tau=(0.3, -0.2)):
    sim = pp.Simulator(ARM, laws, dt=DT, integrator=integrator)
    run = sim.rollout(sim.initial_state([0.1, -0.3]), tau, steps, record=names)
    return [run[x] for x in names]


# ---- previous ------------------------------------------------------------------------------------


def test_previous_is_the_value_of_the_step_before_and_initial_in_the_first():
    seen = watch.bind(p=previous("clock", "y", initial=-7.0))
    y, p = records([seen, clock], 5, ("clock.y", "watch.p"))
    assert_array_equal(p, [-7.0, *y[:-1]])
    assert np.abs(p[1:] - y[1:]).min() > 0.009  # the present value is another


def test_previous_of_a_sampled_law_is_what_it_held_before_the_present_sample():
    seen = watch.bind(p=previous("clock", "y", initial=-7.0))
    y, p = records([clock.sampled(50.0), seen], 7, ("clock.y", "watch.p"))
    assert_array_equal(y, np.repeat([1.0, y[2], y[4], y[6]], 2))
    assert_array_equal(p, np.repeat([-7.0, 1.0, y[2], y[4]], 2))


@pytest.mark.parametrize("rate", [None, 100.0, 50.0, 25.0])
def test_sampled_laws_read_the_same_previous_value_as_others(rate):
    """At its samples a law reads what one without a rate reads in that step."""
    for law in (clock, clock.sampled(50.0), clock.sampled(100 / 3)):
        seen = watch.bind(p=previous("clock", "y", initial=-7.0))
        late = seen.named("late") if rate is None else seen.named("late").sampled(rate)
        p, found = records([law, seen, late], 9, ("watch.p", "late.p"))
        period = 1 if rate is None else round(1 / (rate * DT))
        assert_array_equal(found, [p[k - k % period] for k in range(10)])


def test_a_law_that_reads_its_own_previous_efforts():
    @pp.law
    def smooth(q, before):
        return 0.5 * before - 3.0 * q

    bound = smooth.bind(before=previous("smooth", initial=[1.0, -1.0]))
    q, tau = records([bound], 6, ("q", "smooth.tau"), "semi_implicit")
    wanted = [np.array([1.0, -1.0])]
    for row in q:
        wanted.append(0.5 * wanted[-1] - 3.0 * row)
    assert_allclose(tau, wanted[1:], rtol=1e-14)


def test_previous_of_a_total_has_the_samples_of_its_step():
    seen = watch.bind(p=previous(joint_efforts(), initial=9.0))
    tau, p = records([hold.bind(kp=3.0).sampled(50.0), seen], 6, ("tau", "watch.p"))
    assert_array_equal(p, [[9.0, 9.0], *tau[:-1]])


def test_a_remembered_value_is_a_state_that_can_be_written():
    sim = pp.Simulator(ARM, [clock, watch.bind(p=previous("clock", "y"))], dt=DT)
    state = sim.initial_state()
    state.laws["clock.y.previous"][...] = 5.0
    assert_allclose(sim.rollout(state, steps=2, record=("watch.p",))["watch.p"], [5.0, 1.0, 1.01])


def test_one_value_has_one_initial():
    laws = [clock, *(watch.bind(p=previous("clock", "y", initial=x)) for x in (1.0, 2.0))]
    with pytest.raises(LawError, match=r"initial=2.0, but another .* initial=.*1"):
        pp.Simulator(ARM, laws, dt=DT)
    pp.Simulator(ARM, [*laws[:2], laws[1].named("other")], dt=DT)


# ---- samples and records -------------------------------------------------------------------------


EVERYTHING = [
    hold.bind(kp=3.0).sampled(50.0, delay=1),
    hold.bind(kp=2.0).named("fast").sampled(100.0),
    count,
    count.named("slow").sampled(100 / 3),
    watch.bind(p=output("slow", "y")),
    watch.bind(p=output("slow", "y")).named("later").sampled(20.0),
    watch.bind(p=previous("hold", initial=[0.1, 0.2])).named("memory"),
    watch.bind(p=noise(2)).named("sensor").sampled(50.0),
    pp.laws.pid(JOINTS, 0.2, 1.0, 5.0, rate=100 / 3),
]


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit", "implicit_midpoint"])
def test_the_last_record_is_that_of_a_longer_run(integrator):
    """All records, with held values, counters, delays, noise; the state goes on with the same."""
    sim = pp.Simulator(ARM, EVERYTHING, dt=DT, integrator=integrator)
    names, tau = sim.recordable, [0.3, -0.2]
    state = sim.initial_state([[0.1, -0.3], [0.4, 0.2]])
    whole = sim.rollout(state, tau, 13, record=names)
    for steps in (0, 1, 4, 6):
        part = sim.rollout(state, tau, steps, record=names)
        rest = sim.rollout(part.state, tau, 13 - steps, record=names)
        for name in names:
            assert_array_equal(part[name], whole[name][:, : steps + 1], err_msg=name)
            assert_array_equal(rest[name], whole[name][:, steps:], err_msg=name)


def test_a_sampled_law_reads_what_another_returned_whatever_their_rates():
    """Not what it would return after its own sample: a counter is read before it counts on."""
    laws = [
        count.named("fast").sampled(100.0),
        count.named("slow").sampled(20.0),
        watch.bind(p=output("fast", "y")).named("of_fast").sampled(20.0),
        watch.bind(p=output("slow", "y")).named("of_slow").sampled(100.0),
    ]
    found = records(laws, 12, ("fast.y", "slow.y", "of_fast.p", "of_slow.p"))
    steps = np.arange(13)
    wanted = steps, steps // 5, steps - steps % 5, steps // 5
    for x, y in zip(found, wanted, strict=True):
        assert_array_equal(x, y)


def test_what_episodes_keep_is_what_a_run_records():
    task = pp.law(lambda q: {"done": abs(q[0]) > 9.0}, name="task")
    laws = [hold.bind(kp=3.0).sampled(100.0), task]
    kept = pp.Episodes("task.done", time_limit=0.04, record=("hold.tau",))
    sim = pp.Simulator(ARM, laws, dt=DT, episodes=kept)
    state = sim.initial_state([0.1, -0.3])
    q, tau = records(laws, 5, ("q", "hold.tau"), tau=(0.0, 0.0))
    sim.step(state, steps=0)
    assert_array_equal(state.laws["episode.hold.tau"], tau[0])
    for k in range(1, 5):
        sim.step(state)
        assert_array_equal(state.laws["episode.final.hold.tau"], tau[k])
        assert_array_equal(state.laws["episode.hold.tau"], tau[k % 4])  # it has started again
    assert_array_equal(state.q, q[0])


# ---- intervals and noise -------------------------------------------------------------------------


def test_an_integral_has_the_interval_of_the_rate_in_the_run():
    def end(law):
        sim = pp.Simulator(ARM, [law], dt=2e-3)
        return sim.rollout(sim.initial_state(), steps=100, record_every=100).q[-1]

    gains = JOINTS, [0.5, 0.3], 60.0, 80.0, 8.0
    slower = pp.laws.pid(*gains, rate=500.0).sampled(100.0)
    assert_array_equal(end(slower), end(pp.laws.pid(*gains, rate=100.0)))
    assert np.abs(end(slower) - end(pp.laws.pid(*gains, rate=500.0))).max() > 1e-4


def test_the_interval_of_a_law():
    seen = watch.bind(p=interval())
    laws = [seen, seen.named("slow").sampled(25.0)]
    assert_array_equal(records(laws, 1, ("watch.p", "slow.p")), [[DT] * 2, [0.04] * 2])


def test_every_argument_has_noise_of_its_own():
    both = pp.law(lambda a, b: {"a": a, "b": b}, name="both").bind(a=noise(3), b=noise(3))
    sensors = [watch.bind(p=noise(3)).named(x) for x in "cd"]
    names = ("both.a", "both.b", "c.p", "d.p")
    found = np.array(records([both, *sensors], 400, names)).reshape(4, -1)
    likeness = np.corrcoef(found) - np.eye(4)
    assert np.abs(likeness).max() < 0.1
    again = np.array(records([sensors[1], sensors[0], both], 400, names)).reshape(4, -1)
    assert_array_equal(found, again)  # whatever the order of the laws
    shared = [watch.bind(p=noise(3, seed=4)).named(x) for x in "cd"]
    assert_array_equal(*records(shared, 3, ("c.p", "d.p")))  # one seed, one noise
