"""Laws: bound, traced, sampled and joined to a circuit; errors name the law."""

import numpy as np
import pytest
from compiled_graphs import compiled
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import BIAS_FORCES
from phipsi.errors import LawError
from phipsi.operators import mass_matrix
from phipsi.simulation.diagram.connect_laws import block_diagram
from phipsi.simulation.diagram.diagram_builder import run_evaluation

ARM = pp.examples.seven_joint_arm()
TIP = ARM.body_names[-1]
RNG = np.random.default_rng(5)
Q, V = RNG.standard_normal((2, 4, 7))
T = np.array([0.0, 0.5, 1.0, 2.0])


def values(laws, model=ARM, dt=1e-3, **more):
    made = block_diagram(model, laws, dt)
    return made.values({"t": T, "q": Q, "v": V, "tau": 0 * V, **more}, run_evaluation(model))


@pp.law
def hold(t, q, v, kp, kd, target):
    return kp * (target - q) - kd * v + np.sin(t)


def test_a_law_is_its_function():
    target = np.arange(7.0)
    bound = hold.bind(kp=3.0, kd=[0.5] * 7).bind(target=target)
    wanted = 3 * (target - Q) - 0.5 * V + np.sin(T)[:, None]
    assert_allclose(values([bound])["efforts"], wanted, rtol=1e-14)
    assert_allclose(values(bound)["efforts"], wanted, rtol=1e-14)
    own = values([bound], **{"hold.kp": np.arange(4.0)})["efforts"]
    assert_allclose(own, np.arange(4.0)[:, None] * (target - Q) - 0.5 * V + np.sin(T)[:, None])
    assert_allclose(hold(0.0, Q[0], V[0], 3.0, 0.5, target), 3 * (target - Q[0]) - 0.5 * V[0])


def test_defaults_of_arguments_are_bound():
    @pp.law
    def pull(q, k=2.0):
        return -k * q

    assert_allclose(values([pull])["efforts"], -2 * Q)
    assert_allclose(values([pull.bind(k=5.0)])["efforts"], -5 * Q)


def test_joints():
    names = [ARM.joint_names[4], ARM.joint_names[1]]

    @pp.law
    def pull(q, v, k):
        return -k * q - v

    found = values([pull.on(names).bind(k=[1.0, 2.0]), pull.on(names[1]).bind(k=3.0)])["efforts"]
    wanted = np.zeros((4, 7))
    wanted[:, 4] = -Q[:, 4] - V[:, 4]
    wanted[:, 1] = -5 * Q[:, 1] - 2 * V[:, 1]
    assert_allclose(found, wanted)


def test_two_laws_of_one_name_have_their_own_parameters():
    made = block_diagram(ARM, [hold.bind(kp=1.0, kd=2.0, target=0.0)] * 2, 1e-3)
    assert "hold.kp" in made.quantities and "hold_2.kp" in made.quantities


def test_expressions_and_programs():
    @pp.law
    def computed(q, v, M, h, kp):
        return M @ (-kp * q - v) + h

    @pp.law
    def called(q, v, kp):
        return pp.inverse_dynamics(ARM, q, v, -kp * q - v)

    bound = computed.bind(M=mass_matrix, h=BIAS_FORCES, kp=4.0)
    wanted = pp.inverse_dynamics(ARM, Q, V, -4 * Q - V)
    assert_allclose(values([bound])["efforts"], wanted, rtol=1e-11, atol=1e-11)
    assert_allclose(values([called.bind(kp=4.0)])["efforts"], wanted, rtol=1e-12, atol=1e-12)


def test_programs_of_other_mechanisms_are_rejected():
    other = pp.examples.planar_arm(7)

    @pp.law
    def called(q):
        return pp.gravity_forces(other, q)

    with pytest.raises(LawError, match=r"line \d+, in called:\n.*\n.*another mechanism"):
        values([called])


def test_expressions_at_points():
    @pp.law
    def push(J):
        return J.T @ np.array([0, 0, 0, 1.0, 2.0, 3.0])

    bound = push.bind(J=pp.signals.expression("J", points=[TIP]))
    wanted = np.einsum("nji,j->ni", pp.jacobian(ARM, Q, [TIP]).reshape(4, 6, 7), [0, 0, 0, 1, 2, 3])
    assert_allclose(values([bound])["efforts"], wanted, atol=1e-12)


def test_points():
    point = (TIP, (0.1, -0.2, 0.3))

    @pp.law
    def watch(p, u, X, w, d, d_rate):
        return {"tau": np.zeros(7), "p": p, "u": u, "X": X, "w": w, "d": d, "d_rate": d_rate}

    s = pp.signals
    bound = watch.bind(
        p=s.position(point), u=s.velocity(point), X=s.pose(TIP), w=s.twist(point),
        d=s.length("world", point), d_rate=s.length_rate("world", point),
    )  # fmt: skip
    found = values([bound])["records"]
    poses = pp.poses(ARM, Q, [point])[:, 0]
    motions = pp.velocities(ARM, Q, V, [point], axes="world")[:, 0]
    assert_allclose(found["watch.p"], poses[:, :3, 3], atol=1e-13)
    assert_allclose(found["watch.X"], pp.poses(ARM, Q, [TIP])[:, 0], atol=1e-13)
    assert_allclose(found["watch.w"], motions, atol=1e-12)
    assert_allclose(found["watch.u"], motions[:, 3:], atol=1e-12)
    length = np.linalg.norm(poses[:, :3, 3], axis=1)
    assert_allclose(found["watch.d"], length, rtol=1e-13)
    rate = np.sum(poses[:, :3, 3] * motions[:, 3:], axis=1) / length
    assert_allclose(found["watch.d_rate"], rate, rtol=1e-11, atol=1e-12)


def test_forces_at_points():
    point = (TIP, (0.1, -0.2, 0.3))

    @pp.law
    def push(t, u):
        return {"force": np.stack([t, 2.0, 3.0]) - u, "energy": 3 * t}

    found = values([push.at(point).bind(u=pp.signals.velocity(point))])
    assert found["efforts"] is None
    force = (
        np.stack([T, 2 + 0 * T, 3 + 0 * T], 1)
        - pp.velocities(ARM, Q, V, [point], axes="world")[:, 0, 3:]
    )
    J = pp.jacobian(ARM, Q, [point]).reshape(4, 6, 7)[:, 3:]
    powers = np.sum(found["loads"] * pp.velocities(ARM, Q, V), axis=(1, 2))
    assert_allclose(powers, np.einsum("ni,nij,nj->n", force, J, V), rtol=1e-11)
    assert_allclose(found["energy"], 3 * T)

    @pp.law(at=[TIP, point])
    def pair(t):
        return {"wrench": np.stack([np.ones(6) * t, -np.ones(6) * t])}

    both = values([pair])["loads"]
    assert_allclose(both[:, -1, 3:], np.zeros((4, 3)), atol=1e-13)
    assert np.abs(both[1:, -1, :3]).max() > 0.1


def test_states_and_rates():
    @pp.law(states={"i": np.zeros(7)}, discrete={"n": 0.0})
    def integrate(q, v, i, n, ki):
        return {"tau": -ki * i, "i": q, "n": n + 1, "size": np.linalg.norm(i)}

    i = RNG.standard_normal((4, 7))
    found = values([integrate.bind(ki=2.0)], **{"integrate.i": i, "integrate.n": 3.0 * np.ones(4)})
    assert_allclose(found["efforts"], -2 * i)
    assert_allclose(found["rates"]["integrate.i"], Q)
    assert_allclose(found["samplings"][0]["integrate.n"], 4.0)
    assert_allclose(found["records"]["integrate.size"], np.linalg.norm(i, axis=1))


def test_sampled_laws_have_no_continuous_states():
    with pytest.raises(LawError, match=r"pp.laws.pid\(…, rate=100.0\)"):
        pp.laws.pid("joint1", 0.0, 1.0, 1.0).sampled(100.0)
    motor = pp.laws.motor("joint1", 1.0, time_constant=0.1)
    with pytest.raises(LawError, match=r"continuous states \(torque\)"):
        motor.sampled(100.0)


def run(made, model, steps, known=None, at=lambda k: {}):
    """Samplings and delays of a circuit as a kernel applies them; the records of every step."""
    known = {n: np.array(x.value) for n, x in made.of_kind("state").items()} | (known or {})
    out = []
    for k in range(steps):
        given = {"t": np.array(0.1 * k), "q": model.neutral(), "v": np.zeros(model.nv),
                 "tau": np.zeros(model.nv), "step": np.array(float(k)),
                 "trajectory": np.array(0.0), **at(k)}  # fmt: skip
        found = made.values(known | given, run_evaluation(model))
        for one, new in zip(made.samplings, found["samplings"], strict=True):
            known |= new if k % one.period == 0 else {}
        out.append(made.values(known | given, run_evaluation(model)))
        for one, new in zip(made.delays, out[-1]["delays"], strict=True):
            known |= new if (k + 1) % one.period == 0 else {}
    return out


@pytest.mark.parametrize("delay", [0, 1, 2])
def test_sampled_laws_hold_their_outputs(delay):
    @pp.law(rate=5.0, delay=delay)
    def clock(t):
        return {"tau": t * np.ones(7), "seen": t}

    made = block_diagram(ARM, [clock], 0.1)
    assert [x.period for x in made.samplings] == [2]
    found = [float(x["records"]["clock.seen"]) for x in run(made, ARM, 8)]
    wanted = [max(0.1 * 2 * (k // 2 - delay), 0.0) for k in range(8)]
    assert_allclose(found, wanted, atol=1e-15)
    assert_allclose([x["efforts"][0] for x in run(made, ARM, 8)], wanted, atol=1e-15)


def test_a_counter_is_sampled_once():
    @pp.law(rate=2.5, discrete={"n": 0.0})
    def count(n):
        return {"tau": np.zeros(7), "n": n + 1, "seen": n + 1}

    found = run(block_diagram(ARM, [count], 0.1), ARM, 9)
    assert [float(x["records"]["count.seen"]) for x in found] == [1] * 4 + [2] * 4 + [3]


def test_laws_that_read_laws():
    @pp.law
    def first(t):
        return {"y": 2 * t}

    @pp.law
    def second(y):
        return {"tau": y * np.ones(7), "z": y + 1}

    bound = second.bind(y=pp.signals.output(first, "y"))
    for laws in ([first, bound], [bound, first]):
        assert_allclose(values(laws)["efforts"], np.outer(2 * T, np.ones(7)))


@pytest.mark.parametrize(("slow", "fast"), [(2, 1), (1, 2), (2, 3), (2, 2), (None, 2)])
def test_sampled_laws_see_what_is_held_at_that_time(slow, fast):
    @pp.law
    def first(t):
        return {"y": t}

    @pp.law
    def second(y):
        return {"z": y}

    one = first if slow is None else first.sampled(10.0 / slow)
    two = second.bind(y=pp.signals.output("first", "y")).sampled(10.0 / fast)
    found = run(block_diagram(ARM, [two, one], 0.1), ARM, 12)
    for k, x in enumerate(found):
        sample = fast * (k // fast)
        wanted = sample if slow is None else slow * (sample // slow)
        assert_allclose(x["records"]["second.z"], 0.1 * wanted, atol=1e-15)


def test_previous_outputs():
    @pp.law
    def filtered(t, y):
        return {"tau": np.zeros(7), "y": 0.5 * y + t}

    bound = filtered.bind(y=pp.signals.previous("filtered", "y", initial=0.0))
    found = run(block_diagram(ARM, [bound], 0.1), ARM, 5)
    before, wanted = 0.0, []
    for k in range(5):
        before = 0.5 * before + 0.1 * k
        wanted.append(before)
    assert_allclose([x["records"]["filtered.y"] for x in found], wanted)


def test_noise():
    @pp.law
    def shake(w, u, other):
        return {"tau": w, "u": u, "other": other}

    noise = pp.signals.noise
    bound = shake.bind(w=noise(7), u=noise((2, 3), kind="uniform"), other=noise(7, seed=1))
    made = block_diagram(ARM, [bound], 1e-3)
    n = 4000
    step, trajectory = (
        x.ravel().astype(float) for x in np.meshgrid(np.arange(n // 40), np.arange(40))
    )
    state = {
        "t": np.zeros(n),
        "q": np.zeros((n, 7)),
        "v": np.zeros((n, 7)),
        "tau": np.zeros((n, 7)),
    }
    found = made.values({**state, "step": step, "trajectory": trajectory}, run_evaluation(ARM))
    w, u = found["efforts"], found["records"]["shake.u"].reshape(n, 6)
    assert len(np.unique(w)) == w.size and len(np.unique(u)) == u.size
    assert abs(w.mean()) < 0.02 and abs(w.var() - 1) < 0.03
    assert abs(np.mean(w**4) - 3) < 0.2 and abs(np.mean(w**3)) < 0.1
    assert 0 < u.min() < 1e-3 and 1 - 1e-3 < u.max() < 1
    assert abs(u.mean() - 0.5) < 0.01 and abs(u.var() - 1 / 12) < 2e-3
    grid = w.reshape(40, n // 40, 7)
    for a, b in ((grid[1:], grid[:-1]), (grid[:, 1:], grid[:, :-1]), (w[:, 1:], w[:, :-1]),
                 (w, found["records"]["shake.other"])):  # fmt: skip
        assert abs(np.mean(a * b)) < 0.03
    counts = np.histogram(u, 16, (0, 1))[0]
    assert np.sum((counts - u.size / 16) ** 2) / (u.size / 16) < 40
    again = made.values({"t": 0.0, "q": Q[0], "v": V[0], "tau": V[0], "step": 7.0,
                         "trajectory": 3.0}, run_evaluation(ARM))  # fmt: skip
    assert np.array_equal(again["efforts"], grid[3, 7])
    code = compiled([made.efforts], 4, False)
    (machine,) = code({"step": step[:4], "trajectory": trajectory[:4]})
    assert_allclose(machine, w[:4], rtol=1e-13, atol=1e-15)


def test_noise_needs_sense():
    for bad in (dict(kind="cauchy"), dict(seed=-1), dict(seed=0.5), dict(shape=(2.5,))):
        with pytest.raises(LawError, match="noise:"):
            pp.signals.noise(**bad)


def test_controllers_are_laws():
    def control(t, q, v):
        return -3 * q - v

    assert_allclose(values([control])["efforts"], -3 * Q - V)
    assert_allclose(values(control)["efforts"], -3 * Q - V)


@pytest.mark.usefixtures("machine_code")
def test_laws_are_controllers_by_the_names_of_their_arguments():
    """Called with (t, q, v) in order, v would be their q."""

    @pp.law
    def damp(q, v, c=1.0):
        return -c * v

    start = np.zeros(7)
    moving = np.linspace(-1, 1, 7)
    found = pp.simulate(ARM, start, moving, 0.1, controller=damp)
    wanted = pp.simulate(ARM, start, moving, 0.1, controller=lambda t, q, v: -v)
    assert_allclose(found.v[-1], wanted.v[-1], rtol=1e-9)
    with pytest.raises(
        pp.errors.PhipsiError, match=r"laws are passed as controllers.*\n.*controller=damp"
    ):
        pp.simulate(ARM, start, start, 0.01, forces=[damp])

    @pp.law
    def fits(t, q, v):
        return -q - v

    assert pp.simulate(ARM, start, start, 0.01, controller=fits).t[-1] == 0.01


def test_arguments_of_a_law_may_have_any_name():
    """Names that the library itself uses for the function and its arguments are no exception."""

    @pp.law
    def pull(q, function, args=1.0, named=1.0, self=0.0, law=0.0):
        return -(function * args * named + self + law) * q

    arm = pp.examples.planar_arm(2)
    sim = pp.Simulator(arm, pull.bind(function=3.0), 1e-3)
    run = sim.rollout(sim.initial_state([0.2, 0.1]), steps=1, record=("q", "tau"))
    np.testing.assert_allclose(run["tau"][0], [-0.6, -0.3], rtol=1e-15)


def test_lists_among_the_laws_are_flattened():
    arm = pp.examples.planar_arm(2)
    damp = pp.law(lambda v: -0.1 * v)
    springs = [pp.forces.JointSpring(None, 3.0), (pp.forces.JointDamper(None, 0.2),)]
    flat = pp.Simulator(arm, [damp, springs[0], *springs[1]], dt=1e-3)
    nested = pp.Simulator(arm, [damp, springs], dt=1e-3)
    assert nested.laws == flat.laws
    runs = [
        pp.simulate(arm, [0.1, 0.2], [0.0, 0.0], 0.05, forces=forces)
        for forces in (springs, [springs[0], *springs[1]])
    ]
    np.testing.assert_array_equal(runs[0].q, runs[1].q)


def test_joints_of_a_law_by_name():
    damp = pp.law(lambda v: -0.1 * v)
    assert damp.on("a", "b").joints == damp.on(["a", "b"]).joints == ("a", "b")
    assert damp.on("a").joints == ("a",)
    with pytest.raises(pp.errors.LawError, match="must be different names of joints"):
        damp.on("a", "a")
