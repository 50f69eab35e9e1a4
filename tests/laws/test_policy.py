"""Neural policies as laws, against the network by hand and in a run."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.errors import LawError
from phipsi.simulation.diagram.connect_laws import block_diagram
from phipsi.simulation.diagram.diagram_builder import run_evaluation

ARM = pp.examples.seven_joint_arm()
RNG = np.random.default_rng(8)
Q, V = RNG.standard_normal((2, 4, 7))


def dense(out, size):
    return RNG.standard_normal((out, size)) / np.sqrt(size), 0.1 * RNG.standard_normal(out)


def network(sizes=(14, 16, 16, 7)):
    state = {}
    for i, (n, m) in enumerate(zip(sizes, sizes[1:], strict=False)):
        state[f"{2 * i}.weight"], state[f"{2 * i}.bias"] = dense(m, n)
    return state


def by_hand(state, x, activation):
    for i in (0, 2, 4):
        x = x @ state[f"{i}.weight"].T + state[f"{i}.bias"]
        x = activation(x) if i < 4 else x
    return x


HAND = {
    "tanh": np.tanh,
    "relu": lambda x: x * (x > 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "silu": lambda x: x * (0.5 + 0.5 * np.tanh(x / 2)),
    "sigmoid": lambda x: 0.5 + 0.5 * np.tanh(x / 2),
}


def efforts(laws, **more):
    made = block_diagram(ARM, laws, 1e-3)
    return made.values({"t": np.zeros(4), "q": Q, "v": V, **more}, run_evaluation(ARM))["efforts"]


@pytest.mark.parametrize("activation", HAND)
def test_networks_by_hand(activation):
    state = network()
    found = efforts([pp.laws.policy(state, activation=activation)])
    wanted = by_hand(state, np.concatenate([Q, V], axis=1), HAND[activation])
    assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)
    state["2.weight"] = state["2.weight"] + 1e-6
    assert not np.allclose(
        efforts([pp.laws.policy(state, activation=activation)]), wanted, rtol=1e-9
    )


def test_layer_norm_and_last():
    state = network()
    w, b = 1 + 0.1 * RNG.standard_normal(16), RNG.standard_normal(16)
    state = {
        "0.weight": state["0.weight"],
        "1.weight": w,
        "1.bias": b,
        "3.weight": state["4.weight"],
    }
    found = efforts([pp.laws.policy(state, activation="relu", last="tanh", act=lambda y: 3 * y)])
    x = np.concatenate([Q, V], axis=1) @ state["0.weight"].T
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + b
    wanted = 3 * np.tanh(np.maximum(x, 0) @ state["3.weight"].T)
    assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_observations_and_own_weights():
    state = network((4, 8, 8, 2))
    names = ARM.joint_names[2:4]

    def observe(t, q, v, goal):
        return np.concatenate([q - goal, v])

    bound = pp.laws.policy(state, observe, joints=names).bind(goal=[0.1, 0.2])
    found = efforts([bound])
    x = np.concatenate([Q[:, 2:4] - [0.1, 0.2], V[:, 2:4]], axis=1)
    assert_allclose(found[:, 2:4], by_hand(state, x, np.tanh), rtol=1e-12, atol=1e-13)
    assert not found[:, [0, 1, 4, 5, 6]].any()
    bias = RNG.standard_normal((4, 2))
    own = efforts([bound], **{"policy.bias_4": bias})
    assert_allclose(own[:, 2:4], found[:, 2:4] - state["4.bias"] + bias, rtol=1e-12, atol=1e-13)


class Sequential:
    """As PyTorch's, with arrays."""

    def __init__(self, *layers):
        self.layers = layers

    def named_children(self):
        return [(str(i), x) for i, x in enumerate(self.layers)]

    def state_dict(self):
        return {f"{i}.{n}": x for i, layer in enumerate(self.layers) for n, x in vars(layer).items()
                if n in ("weight", "bias")}  # fmt: skip


def layer(kind, **values):
    return type(kind, (), {"__init__": lambda self: vars(self).update(values)})()


def test_sequential():
    state = network()
    first, second = ({n: state[f"{i}.{n}"] for n in ("weight", "bias")} for i in (0, 2))
    last = {n: state[f"4.{n}"] for n in ("weight", "bias")}
    linear = [layer("Linear", **x) for x in (first, second, last)]
    net = Sequential(linear[0], layer("ELU", alpha=1.0), linear[1], layer("SiLU"), linear[2])
    x = np.concatenate([Q, V], axis=1)
    x = HAND["elu"](x @ first["weight"].T + first["bias"])
    x = HAND["silu"](x @ second["weight"].T + second["bias"])
    wanted = x @ last["weight"].T + last["bias"]
    assert_allclose(efforts([pp.laws.policy(net)]), wanted, rtol=1e-12, atol=1e-12)
    for bad, text in (
        (Sequential(linear[0], layer("Conv1d")), "Conv1d, which is not supported"),
        (Sequential(linear[0], layer("ELU", alpha=0.5)), "only alpha=1"),
    ):
        with pytest.raises(LawError, match=text):
            pp.laws.policy(bad)


@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize("shared", [True, False])
def test_a_policy_in_a_run(shared):
    state = network((14, 64, 64, 7))
    made = block_diagram(ARM, [pp.laws.policy(state, act=lambda y: 0.5 * y)], 1e-3)
    simulator = pp.Simulator(ARM, made, 1e-3)
    weight = state["2.weight"] if shared else np.stack([state["2.weight"], 0.5 * state["2.weight"]])
    start = simulator.initial_state(Q[:2], 0.1 * V[:2], parameters={"policy.weight_2": weight})
    run = simulator.rollout(start, steps=20, record_every=20)
    for i in range(2):
        own = state | {"2.weight": weight if shared else weight[i]}

        def control(t, q, v, own=own):
            return 0.5 * by_hand(own, np.concatenate([q, v]), np.tanh)

        exact = pp.simulate(ARM, Q[i], 0.1 * V[i], 0.02, controller=control, integrator="rk4",
                            dt=1e-3)  # fmt: skip
        assert_allclose(run.q[i, -1], exact.q[-1], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize(
    ("network", "options", "text"),
    [
        ({}, {}, "neither an nn.Sequential"),
        ("net", {}, "neither an nn.Sequential"),
        ({"weight": np.eye(3)}, {}, "not a name such as"),
        ({"0.running_mean": np.eye(3)}, {}, "not a name such as"),
        ({"0.bias": np.ones(3)}, {}, "a bias and no weight"),
        ({"0.weight": np.eye(3), "0.bias": np.ones(2)}, {}, "does not fit"),
        ({"0.weight": np.eye(3), "2.weight": np.eye(2)}, {}, "does not fit the 3"),
        ({"0.weight": np.full((3, 3), np.nan)}, {}, "finite"),
        ({"0.weight": np.ones((2, 2, 2))}, {}, "a matrix or a vector"),
        ({"0.weight": "x"}, {}, "not an array"),
        ({"0.weight": np.eye(3)}, {"activation": "tahn"}, "Did you mean 'tanh'"),
        ({"0.weight": np.eye(3)}, {"observe": 3}, "must be functions"),
        ({"0.weight": np.eye(3)}, {"observe": lambda weight_0: weight_0}, "names a weight"),
    ],
)
def test_bad_networks(network, options, text):
    with pytest.raises(LawError, match=text):
        pp.laws.policy(network, **options)
