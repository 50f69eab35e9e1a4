"""Functions that look at values, draw, or read clocks are rejected, whatever they do about it."""

import contextlib
import functools
import math
import numbers
import random
import secrets
import subprocess
import sys
import time
from datetime import datetime
from functools import partial
from time import perf_counter

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.core.arrays.law_values import evaluate
from phipsi.errors import InputError, LawError, ModelError
from phipsi.simulation.diagram.connect_laws import block_diagram

ARM = pp.examples.planar_arm(2)
GENERATOR = np.random.default_rng(7)
OLD = np.random.RandomState(7)
PYTHONS = random.Random(7)
draw = GENERATOR.random


def efforts(function, q=(0.7, -0.4), v=(0.2, 0.1)):
    made = block_diagram(ARM, [pp.law(function)], 1e-3)
    assert made.efforts is not None
    return evaluate([made.efforts], {"q": np.array(q), "v": np.array(v), "t": np.array(0.0)})[0]


# ---- errors that a law catches -------------------------------------------------------------------


def by_branch(q, v):
    try:
        s = 1 if q[0] > 0 else -1
    except Exception:
        s = 0
    return s * v


def by_value_error(q, v):
    try:
        return v * float(q[0])
    except ValueError:
        return v


def by_bare_except(q, v):
    try:
        return v * math.sin(q[0])
    except:  # noqa: E722
        return v


def by_suppression(q, v):
    s = 0.0
    with contextlib.suppress(Exception):
        s = float(np.sort(q)[0])
    return s * v


def by_finally(q, v):
    try:
        if q[0] > 0:
            v = 2 * v
    finally:
        return v  # noqa: B012


def by_another_error(q, v):
    try:
        return v if q[0] > 0 else -v
    except Exception:
        raise RuntimeError("not today") from None


def sign_of(x):
    try:
        return math.copysign(1.0, x)
    except Exception:
        return 0.0


def inside_another(q, v):
    return sign_of(q[0]) * v


def by_a_missing_method(q, v):
    return v if hasattr(q, "argmax") else 0 * v


def by_text(q, v):
    try:
        return len(str(q[0])) * v
    except Exception:
        return v


def by_an_index(q, v):
    try:
        return v * [1.0, 2.0][q[0]]
    except Exception:
        return v


def by_a_dictionary(q, v):
    try:
        return v * {0.0: 1.0}[q[0]]
    except Exception:
        return v


CATCHING = [
    by_branch, by_value_error, by_bare_except, by_suppression, by_finally, by_another_error,
    inside_another, by_a_missing_method, by_text, by_an_index, by_a_dictionary,
]  # fmt: skip


@pytest.mark.parametrize("function", CATCHING, ids=lambda f: f.__name__)
def test_errors_that_a_law_catches_are_raised(function):
    with pytest.raises(LawError, match=r"test_hidden_inputs\.py, line \d+"):
        efforts(function)


def test_the_error_says_that_it_was_caught():
    with pytest.raises(LawError, match=r"branches on a value(?s:.)*catches this error"):
        efforts(by_branch)


def test_errors_that_arrays_have_too_may_be_caught():
    """A twin: a number of NumPy has no length either, and a generic function may ask."""

    def many(x):
        try:
            return len(x)
        except TypeError:
            return 1

    def law(q, v):
        return many(q) * many(q[0]) * np.iterable(q) * v - np.iterable(q[0])

    assert_allclose(efforts(law), [0.4, 0.2])


def test_force_elements_and_formulas_cannot_catch_errors_either():
    class Sticky(pp.forces.Force):
        def bind(self, model):
            return self

        def efforts(self, state):
            try:
                return -state.v if state.q[0] > 0 else state.v
            except Exception:
                return 0 * state.v

    with pytest.raises(LawError, match="catches this error"):
        pp.Simulator(ARM, [Sticky()])

    def formula(v):
        try:
            return np.diag(v if v[0] > 0 else -v)
        except Exception:
            return np.diag(v)

    with pytest.raises(InputError, match="catches this error"):
        pp.custom.operator("F_caught", "rates -> efforts", formula)


def test_simulate_calls_a_law_that_cannot_be_traced_as_it_is():
    @pp.law
    def law(t, q, v):
        return by_branch(q, v)

    with pytest.raises(LawError):
        block_diagram(ARM, [law], 1e-3)
    runs = [
        pp.simulate(ARM, [0.5, 0.2], [0.3, 0.1], 0.2, controller=f, rtol=1e-10).q[-1]
        for f in (law, lambda t, q, v: np.sign(q[0]) * v)
    ]
    assert_allclose(runs[0], runs[1], atol=1e-9)


# ---- kinds ---------------------------------------------------------------------------------------


@functools.singledispatch
def kind(x):
    return 0.0


@kind.register(np.ndarray)
def _(x):
    return 1.0


@kind.register(numbers.Real)
def _(x):
    return 2.0


def by_isinstance(q, v):
    s = 1.0 if isinstance(q, np.ndarray) else 10.0
    s += 2.0 if isinstance(q[0], float) and not isinstance(q[0], np.ndarray) else 20.0
    s += 4.0 if isinstance(q[1], np.floating | list) else 40.0
    s += 8.0 if np.isscalar(q[0]) and not np.isscalar(q) else 80.0
    return s * v


def by_dispatch(q, v):
    match q:
        case np.ndarray():
            s = 10.0
        case _:
            s = 0.0
    return (s + kind(q) + 3 * kind(q[0])) * v


@pytest.mark.parametrize("function", [by_isinstance, by_dispatch])
def test_traced_values_are_of_the_kinds_of_numpy(function):
    q, v = np.array([0.7, -0.4]), np.array([0.2, 0.1])
    assert_allclose(efforts(function), function(q, v))


# ---- chance and clocks ---------------------------------------------------------------------------


class Holder:
    def __init__(self):
        self.rng = np.random.default_rng(1)
        self.inner = [{"deep": random.Random(2)}]

    def __call__(self, t, q, v):
        return v if self.rng.random() > 0.5 else -v

    def deep(self, q, v):
        return v if self.inner[0]["deep"].random() > 0.5 else -v


class Slotted:
    __slots__ = ("rng",)

    def __init__(self):
        self.rng = np.random.default_rng(1)

    def coin(self, v):
        return v if self.rng.random() > 0.5 else -v


def enclosed():
    rng = np.random.Generator(np.random.MT19937(3))

    def law(v):
        return v if rng.random() > 0.5 else -v

    return law


def helper():
    return GENERATOR.integers(2)


HOLDER, SLOTTED = Holder(), Slotted()
COINS = {
    "random": lambda v: v if random.random() > 0.5 else -v,
    "random.choice": lambda v: v * random.choice([1.0, -1.0]),
    "random.shuffle": lambda v: v * (random.shuffle([1, 2]) is None),
    "numpy.random": lambda v: v if np.random.rand() > 0.5 else -v,
    "a global generator": lambda v: v if GENERATOR.random() > 0.5 else -v,
    "a method under a name": lambda v: v if draw() > 0.5 else -v,
    "RandomState": lambda v: v if OLD.rand() > 0.5 else -v,
    "Random": lambda v: v if PYTHONS.random() > 0.5 else -v,
    "enclosed": enclosed(),
    "a helper": lambda v: v if helper() else -v,
    "an attribute": lambda v: v if HOLDER.rng.random() > 0.5 else -v,
    "a deep attribute": lambda q, v: HOLDER.deep(q, v),
    "a slot": SLOTTED.coin,
    "an object": HOLDER,
    "partial": lambda v: partial(GENERATOR.choice, [1.0, -1.0])() * v,
    "drawn and not used": lambda v: v + 0 * np.random.rand(),
    "a new generator": lambda v: v if np.random.default_rng().random() > 2 else -v,
    "SystemRandom": lambda v: v if random.SystemRandom().random() > 2 else -v,
    "secrets": lambda v: v if secrets.randbelow(2) > 2 else -v,
    "a clock": lambda v: v if int(time.time()) > 5 else -v,
    "a clock under a name": lambda v: v if perf_counter() > -1 else -v,
    "the date": lambda v: v if datetime.now().year > 2000 else -v,
}


@pytest.mark.parametrize("name", COINS)
def test_every_law_with_chance_or_a_clock_is_rejected(name):
    law = COINS[name]
    for _ in range(4):
        with pytest.raises(LawError, match=r"random numbers|reads a clock"):
            block_diagram(ARM, [law if name == "an object" else pp.law(law, name="coin")], 1e-3)


def test_numbers_that_were_drawn_before_are_constants():
    """A twin: a generator may be at hand, and one with a seed draws the same in every call."""
    drawn = GENERATOR.random()

    def law(v):
        scale = np.random.default_rng(3).random() if GENERATOR is not None else 0.0
        return drawn * scale * v

    wanted = drawn * np.random.default_rng(3).random()
    assert_allclose(efforts(law), wanted * np.array([0.2, 0.1]))


def test_elements_formulas_and_couplings_with_chance_are_rejected():
    class Shaken(pp.forces.Force):
        def bind(self, model):
            return self

        def efforts(self, state):
            return state.v if GENERATOR.random() > 0.5 else -state.v

    with pytest.raises(LawError, match="random numbers"):
        pp.Simulator(ARM, [Shaken()])
    with pytest.raises(InputError, match="random numbers"):
        pp.custom.operator(
            "F_coin", "rates -> efforts", lambda v: np.diag(v) * (GENERATOR.random() > 0.5)
        )
    with pytest.raises(ModelError, match="random numbers"):
        pp.constraints.Cam(
            lambda x, y: x - y * (1.0 if GENERATOR.random() > 2 else 2.0),
            name="coin",
            joints=["joint1", "joint2"],
        )


def test_a_profiler_of_the_user_is_left_alone():
    import sys

    def theirs(frame, event, arg):
        return None

    sys.setprofile(theirs)
    try:
        efforts(lambda v: 2.0 * v)
        assert sys.getprofile() is theirs
    finally:
        sys.setprofile(None)


_FIRST = {
    "a formula": 'pp.custom.operator("C", "rates -> efforts", lambda v: np.diag(v * v))',
    "a cam": """
b = pp.ModelBuilder()
for name in "ab":
    b.add_body(name, joint=pp.joints.Revolute(), inertia=pp.SpatialInertia(1.0, (0, 0, 0), 0.1))
cam = pp.constraints.Cam(lambda p, q: np.clip(p, -5, 5) - q, name="cam", joints=("a", "b"))
pp.System(b.build(), [cam])""",
}


@pytest.mark.parametrize("first", _FIRST)
def test_functions_of_numpy_are_known_to_the_first_trace_of_a_process(first):
    """Also where nothing has loaded the laws, whose package registered them for all."""
    code = f"import numpy as np\nimport phipsi as pp\n{_FIRST[first]}\n"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
