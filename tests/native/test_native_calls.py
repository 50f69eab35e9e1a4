"""Calling compiled programs: broadcasting, strides, types, out=, and what falls back."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from random_models import random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.core.model.model import Model
from phipsi.errors import InputError

# how programs are called does not depend on how kernels are optimised
pytestmark = pytest.mark.quick_code

A_G = ops.a + ops.gravity
FORWARD = ops.mass_matrix.inv @ (ops.tau - ops.H @ ops.phi @ (ops.M @ ops.phi.T @ A_G + ops.b))


@pytest.fixture(scope="module")
def model() -> Model:
    return random_tree(4, 5, ("revolute", "free"), armature=True)


@pytest.fixture(scope="module")
def forward(model: Model) -> pp.Program:
    return pp.compile(FORWARD, model, backend="native")


@pytest.fixture(scope="module")
def mass(model: Model) -> pp.Program:
    return pp.compile(ops.mass_matrix, model, mode="dense", backend="native")


@pytest.fixture(scope="module")
def states(model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    q = np.array([model.random_configuration(rng) for _ in range(12)])
    return q, rng.standard_normal((12, model.nv)), rng.standard_normal((12, model.nv))


def test_signature_and_status(model: Model, forward: pp.Program, states):
    u = forward.ufunc
    assert isinstance(u, np.ufunc)
    nq, nv = model.nq, model.nv
    assert u.signature == f"({nq}),({nv}),({nv})->({nv}),()"
    result, status = u(*states)
    assert result.shape == (12, nv) and status.shape == (12,)
    assert status.dtype == np.int64 and not status.any()


def test_leading_axes_broadcast(forward: pp.Program, states):
    q, v, tau = states
    want = np.array([[forward(q[i], v[j], tau[j]) for j in range(3)] for i in range(4)])
    got = forward(q[:4, None], v[:3], tau[:3])
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    one = forward(q[0], v, tau[0])
    np.testing.assert_array_equal(one[5], forward(q[0], v[5], tau[0]))
    cube = forward(q.reshape(2, 3, 2, -1), v.reshape(2, 3, 2, -1), tau[0])
    np.testing.assert_array_equal(cube.reshape(12, -1), forward(q, v, tau[0]))
    np.testing.assert_array_equal(
        forward(q[:4, None], v[:3], tau[:3], threads=2), want, strict=True
    )


def test_strides_do_not_matter(forward: pp.Program, mass: pp.Program, states):
    want = forward(*states)
    backwards = [np.ascontiguousarray(a[::-1])[::-1] for a in states]
    assert backwards[0].strides[0] < 0
    np.testing.assert_array_equal(forward(*backwards), want)
    fortran = [np.asfortranarray(a) for a in states]
    np.testing.assert_array_equal(forward(*fortran), want)
    spread = [np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3] for a in states]
    np.testing.assert_array_equal(forward(*spread), want)
    inner = [np.ascontiguousarray(a[:, ::-1])[:, ::-1] for a in states]
    assert inner[0].strides[1] < 0
    np.testing.assert_array_equal(forward(*inner), want)
    readonly = [a.copy() for a in states]
    for a in readonly:
        a.flags.writeable = False
    np.testing.assert_array_equal(forward(*readonly), want)
    np.testing.assert_array_equal(mass(backwards[0]), mass(states[0]))


def test_unaligned_and_foreign_byte_order(forward: pp.Program, states):
    want = forward(*states)
    unaligned = []
    for a in states:
        raw = np.zeros(a.nbytes + 1, dtype=np.uint8)
        view = raw[1:].view(np.float64).reshape(a.shape)
        view[...] = a
        assert not view.flags.aligned
        unaligned.append(view)
    np.testing.assert_array_equal(forward(*unaligned), want)
    np.testing.assert_array_equal(forward(*(a.astype(">f8") for a in states)), want)


def test_lists_ints_and_single_precision(forward: pp.Program, states):
    lists = [a[0].tolist() for a in states]
    np.testing.assert_array_equal(forward(*lists), forward(*(a[0] for a in states)))
    singles = [a.astype(np.float32) for a in states]
    doubles = [a.astype(np.float64) for a in singles]
    np.testing.assert_array_equal(forward(*singles), forward(*doubles))
    zeros = np.zeros(forward.model.nv, dtype=int)
    q = states[0][0]
    np.testing.assert_array_equal(forward(q, zeros, zeros), forward(q, 0.0 * zeros, 0.0 * zeros))
    assert forward(q, zeros, zeros).dtype == np.float64


def test_out(forward: pp.Program, mass: pp.Program, states):
    want, nv = forward(*states), forward.model.nv
    out = np.full((12, nv), 7.0)
    assert forward(*states, out=out) is out
    np.testing.assert_array_equal(out, want)
    wide = np.full((12, 2 * nv), 7.0)
    forward(*states, out=wide[:, ::2])
    np.testing.assert_array_equal(wide[:, ::2], want)
    assert (wide[:, 1::2] == 7.0).all()
    columns = np.zeros((nv, nv, 12)).transpose(2, 1, 0)
    mass(states[0], out=columns)
    np.testing.assert_array_equal(columns, mass(states[0]))
    with pytest.raises(InputError, match="out="):
        forward(*states, out=np.zeros((11, nv)))
    tau = states[2].copy()  # in place: the result overwrites an input
    np.testing.assert_array_equal(forward(states[0], states[1], tau, out=tau), want)
    np.testing.assert_array_equal(tau, want)


def test_out_that_cannot_be_written(model: Model, forward: pp.Program, states):
    batch, nv = len(states[0]), model.nv
    good = np.zeros((batch, nv))
    with pytest.raises(InputError, match="read-only"):
        still = good.copy()
        still.flags.writeable = False
        forward(*states, out=still)
    with pytest.raises(InputError, match="2 arrays for 1"):
        forward(*states, out=(good, good.copy()))
    both = pp.compile((ops.tau, ops.tau + ops.tau), model, backend="native")
    tau = states[2]
    with pytest.raises(InputError, match="share memory"):
        both(tau, out=(good, good))
    wide = np.zeros((batch, 2 * nv))  # side by side is fine
    x, y = both(tau, out=(wide[:, ::2], wide[:, 1::2]))
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(wide[:, ::2], tau)


def test_numbers_of_threads(forward: pp.Program, states):
    want = forward(*states)
    for threads in (np.int64(2), np.uint8(3), 1000):
        np.testing.assert_array_equal(forward(*states, threads=threads), want)
    for wrong in (0, -1, 2.0, "2", None):
        with pytest.raises(InputError, match="must be an integer of at least 1"):
            forward(*states, threads=wrong)


def test_threads_that_want_the_same_program_share_it():
    model = random_tree(11, 3, ("revolute",))
    with ThreadPoolExecutor(8) as pool:
        expr = ops.mass_matrix.inv @ (ops.tau + ops.tau)
        programs = list(pool.map(lambda _: pp.compile(expr, model, backend="native"), range(8)))
    assert len({id(p) for p in programs}) == 1


def test_out_of_the_gufunc_itself(forward: pp.Program, states):
    want, nv = forward(*states), forward.model.nv
    out, status = np.empty((nv, 12)).T, np.empty(24, dtype=np.int64)[::2]
    forward.ufunc(*states, out=(out, status))
    np.testing.assert_array_equal(out, want)
    assert not status.any()


def test_empty_batches(forward: pp.Program, mass: pp.Program, states):
    q, v, tau = states
    nv = forward.model.nv
    assert forward(q[:0], v[:0], tau[:0]).shape == (0, nv)
    assert forward(q[:0], v[:0], tau[:0], threads=2).shape == (0, nv)
    assert mass(np.zeros((3, 0, forward.model.nq))).shape == (3, 0, nv, nv)


def test_wrong_shapes_are_refused_by_name(forward: pp.Program, states):
    q, v, tau = states
    with pytest.raises(InputError, match=r"v has shape .*nv = "):
        forward(q, v[:, :-1], tau)
    with pytest.raises(InputError, match="do not broadcast"):
        forward(q[:4], v[:3], tau[:3])
    with pytest.raises(InputError, match="missing tau"):
        forward(q, v)
    with pytest.raises(InputError, match="threads"):
        forward(q, v, tau, threads=0)


def test_names_and_positions_agree(forward: pp.Program, states):
    q, v, tau = states
    np.testing.assert_array_equal(forward(tau=tau, v=v, q=q), forward(q, v, tau))


def test_models_without_joints_or_bodies():
    empty = pp.ModelBuilder().build()
    program = pp.compile(ops.mass_matrix, empty, mode="dense", backend="native")
    assert program(np.zeros((3, 0))).shape == (3, 0, 0)
    builder = pp.ModelBuilder()
    ball = pp.SpatialInertia(1.0, (0, 0, 0), np.eye(3))
    builder.add_body("b", parent="world", joint=pp.joints.Fixed(), inertia=ball)
    welded = builder.build()
    for x in (FORWARD, ops.V):
        program = pp.compile(x, welded, backend="native")
        empty_inputs = [np.zeros((2, 0)) for _ in program.inputs]
        result = program(*empty_inputs)
        assert np.array_equal(result, np.zeros_like(result)) and len(result) == 2


def test_padding_of_hinge_blocks_is_zero_whatever_was_called_before():
    """D of joints of different size: a group of lanes first, then a single call."""
    model = random_tree(0, 4, ("revolute", "free"))
    assert len({j.nv for j in model.joints}) == 2
    rng = np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(17)])
    native, reference = (
        pp.compile(ops.D, model, mode="blocks", backend=b) for b in ("native", "reference")
    )
    for part in (q, q[0], q[:9], q[3]):
        np.testing.assert_allclose(native(part), reference(part), rtol=1e-10, atol=1e-12)


# ---- what has no machine code runs on the reference ----------------------------------------------


def test_complex_numbers_fall_back(model: Model, forward: pp.Program, states):
    """The complex step: the imaginary part is the derivative."""
    q, v, tau = (a[0] for a in states)
    direction = np.random.default_rng(0).standard_normal(model.nv)
    got = forward(q, v, tau + 1e-30j * direction)
    solve = pp.compile(ops.mass_matrix.inv, model, backend="native")
    assert got.dtype == np.complex128
    np.testing.assert_allclose(got.real, forward(q, v, tau), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(got.imag / 1e-30, solve(q, direction), rtol=1e-10, atol=1e-12)


def test_object_numbers_fall_back():
    """Fractions stay exact: two prismatic joints need no square roots."""
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    ball = pp.SpatialInertia(2.0, (0, 0, 0), np.eye(3))
    builder.add_body("a", parent="world", joint=pp.joints.Prismatic((1, 0, 0)), inertia=ball)
    builder.add_body("b", parent="a", joint=pp.joints.Prismatic((1, 0, 0)), inertia=ball)
    model = builder.build()
    solve = pp.compile(ops.mass_matrix.inv, model, backend="native")
    third = np.array([Fraction(1, 3), Fraction(0)], dtype=object)
    got = solve(np.array([Fraction(0)] * 2, dtype=object), third)
    assert got.dtype == object
    want = solve(np.zeros(2), third.astype(float))
    np.testing.assert_allclose(got.astype(float), want, rtol=1e-15)


def test_several_columns(model: Model, states):
    program = pp.compile(ops.mass_matrix.inv, model, columns=True, backend="native")
    solve = pp.compile(ops.mass_matrix.inv, model, backend="native")
    u = np.random.default_rng(2).standard_normal((model.nv, 3))
    want = np.array([solve(states[0][0], c) for c in u.T]).T
    np.testing.assert_allclose(program(states[0][0], u), want, rtol=1e-10, atol=1e-12)


def test_the_reference_has_no_gufunc(model: Model):
    program = pp.compile(ops.mass_matrix.inv, model, backend="reference")
    with pytest.raises(InputError, match="no gufunc"):
        _ = program.ufunc


# ---- one program for one form --------------------------------------------------------------------


def test_a_users_form_gives_the_same_program(model: Model):
    """What the rules bring to the same form runs the same machine code."""
    from phipsi.operators import D, H, I, K, a, b, gravity, phi, psi, tau

    named = pp.compile(FORWARD, model, backend="native")
    by_hand = (
        (I - H @ psi @ K).T
        @ D.inv
        @ (I - H @ psi @ K)
        @ (tau - H @ phi @ (ops.M @ phi.T @ (a + gravity) + b))
    )
    mine = pp.compile(by_hand, model, backend="native")
    assert mine.native.code is named.native.code


# ---- keys of compiled code -----------------------------------------------------------------------


NEARLY = 1.0 + 2.0**-40  # prints as 1 with NumPy's eight digits
PAIRS = {
    "numbers": (ops.mass_matrix @ ops.v, NEARLY * (ops.mass_matrix @ ops.v)),
    "inputs swapped": (
        ops.D @ ops.v + 2 * (ops.Jr @ ops.vdot),
        ops.D @ ops.vdot + 2 * (ops.Jr @ ops.v),
    ),
    "body vectors": (ops.H @ ops.phi @ ops.f_ext + ops.tau, ops.H @ ops.psi @ ops.f_ext + ops.tau),
    "places": (ops.total(ops.M, (1, 0, 0)) @ ops.V, ops.total(ops.M, (NEARLY, 0, 0)) @ ops.V),
    "signs": (ops.D @ ops.v - ops.tau, ops.D @ ops.v + ops.tau),
    "inertias": (ops.P @ ops.V, ops.M @ ops.V),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_different_programs_have_different_code(name: str):
    """The key of the code cache tells apart all that the code depends on."""
    model = random_tree(4, 3, ("revolute",), armature=True)
    rng = np.random.default_rng(0)
    known = {
        "q": rng.standard_normal((4, model.nq)),
        "f_ext": rng.standard_normal((4, model.n_bodies, 6)),
        **{n: rng.standard_normal((4, model.nv)) for n in ("v", "vdot", "tau")},
    }
    programs = [pp.compile(x, model, backend="native") for x in PAIRS[name]]
    for program in programs:
        args = [known[n] for n in program.inputs]
        want = pp.compile(program.request.expressions[0], model, backend="reference")(*args)
        np.testing.assert_allclose(program(*args), want, rtol=1e-13, atol=1e-13)
    first, second = (p.native for p in programs)
    same_text = first.unit.emit() == second.unit.emit()
    assert (first.code is second.code) == same_text, name


def test_models_of_the_same_joint_types_share_code():
    """Constants stand in tables: one kernel serves all robots with the same joint types."""
    small, large = (random_tree(9, n, ("revolute",)) for n in (3, 7))
    codes = [pp.compile(FORWARD, m, backend="native").native.code for m in (small, large)]
    assert codes[0] is codes[1]


# ---- code for one and code for groups ------------------------------------------------------------


def test_batches_need_no_code_for_one_configuration(model: Model):
    """Nor do they get other bits, however many are left over in the last group."""
    program = pp.compile(FORWARD, random_tree(4, 5, ("revolute", "free"), armature=True),
                         backend="native")  # fmt: skip
    native = program.native
    assert native is not None
    rng = np.random.default_rng(0)
    lanes = native.target.lanes
    q = model.random_configuration(rng, 2 * lanes + 1)
    v, tau = rng.standard_normal((2, len(q), model.nv))
    counts = (2 * lanes + 1, 2 * lanes, lanes + 1, lanes, 3, 2)
    alone = [program(q[:n], v[:n], tau[:n]) for n in counts]
    alone += [program(q, v, tau, threads=2), program(q, v, tau, on_error="nan")[0]]
    assert native._code is None and program.direct(q[0], v[0], tau[0]) is None
    singles = np.array([program(*x) for x in zip(q, v, tau, strict=True)])
    assert native._code is not None and program.direct(q[0], v[0], tau[0]) is not None
    for n, found in zip((*counts, len(q), len(q)), alone, strict=True):
        np.testing.assert_array_equal(found, singles[:n])
        np.testing.assert_array_equal(program(q[:n], v[:n], tau[:n]), singles[:n])


def test_the_gufunc_of_groups_alone_takes_one_configuration_too(model: Model, forward: pp.Program):
    """As in a forked process, which must not compile: the bits are those of the other code."""
    native = forward.native
    assert native is not None
    rng = np.random.default_rng(1)
    args = model.random_configuration(rng), *rng.standard_normal((2, model.nv))
    native._load_wide()
    for mine, theirs in zip(native._groups(*args), native.one(*args), strict=True):
        np.testing.assert_array_equal(mine, theirs)


# ---- lifetime ------------------------------------------------------------------------------------


def test_programs_die_with_their_models():
    model = random_tree(1, 2, ("revolute",))
    program = pp.compile(ops.mass_matrix @ ops.v, model, backend="native")
    program(np.zeros(model.nq), np.zeros(model.nv))
    gone = weakref.ref(program.native)
    del program, model
    gc.collect()
    assert gone() is None


FORKED = """
import os, signal, threading, time
import numpy as np
import phipsi as pp
from phipsi.native.calls import machine_function as m
from phipsi.operators import mass_matrix

program = pp.compile(mass_matrix.inv, pp.examples.planar_arm(4), mode="dense", backend="native")
q = np.random.default_rng(0).standard_normal((16, 4))
one_by_one = np.stack([program(x) for x in q])
compile_wide, begun, go_on = program.native._compile_wide, threading.Event(), threading.Event()

def slowly():
    begun.set()
    go_on.wait()
    return compile_wide()

program.native._compile_wide = slowly
thread = threading.Thread(target=program, args=(q,))
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(0 if np.array_equal(program(q), one_by_one) else 1)
status = os.waitpid(child, 0)[1]
go_on.set()
thread.join()
print(status, m._COMPILING.must_not, np.array_equal(program(q), one_by_one))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_while_another_thread_compiles_does_not_wait():
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["0", "False", "True"], done.stderr
