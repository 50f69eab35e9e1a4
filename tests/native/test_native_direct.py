"""Direct calls: a builtin of generated code for one configuration in plain arrays."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import sys
from typing import Any

import numpy as np
import pytest
from random_models import ALL, branching

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS, INVERSE_DYNAMICS
from phipsi.native.calls import direct_call as direct
from phipsi.native.calls.scratch import SLOTS, acquire, release
from phipsi.native.targets.code_cache import machine_code
from phipsi.native.targets.target import host_target
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import I64, POINTER, i64

# how arguments are read and results made does not depend on how kernels are optimised
pytestmark = [
    pytest.mark.skipif(not direct.available(), reason="arrays look different here"),
    pytest.mark.quick_code,
]


def program(x: Any = INVERSE_DYNAMICS, **options: Any) -> pp.Program:
    return pp.compile(x, MODEL, backend="native", **options)


MODEL = branching(len(ALL), 5, ALL, armature=True)
RNG = np.random.default_rng(0)
Q = MODEL.random_configuration(RNG)
V, A = RNG.standard_normal((2, MODEL.nv))


def machine(x: pp.Program) -> Any:
    native = x.native
    assert native is not None
    return native


@pytest.mark.parametrize(
    ("x", "options", "args"),
    [
        (INVERSE_DYNAMICS, {}, (Q, V, A)),
        (FORWARD_DYNAMICS, {}, (Q, V, A)),
        (ops.mass_matrix, {"mode": "dense"}, (Q,)),
        (ops.mass_matrix.inv, {"mode": "dense"}, (Q,)),
        (ops.J, {"mode": "dense", "points": [MODEL.body_names[-1]]}, (Q,)),
        (ops.pose, {}, (Q,)),
    ],
)
def test_a_direct_call_gives_the_bits_of_the_gufunc(x: Any, options: Any, args: Any):
    native = machine(program(x, **options))
    got, (want, status) = native.direct(*args), native.ufunc(*args)
    assert type(got) is np.ndarray and got.shape == want.shape and got.flags.owndata
    assert np.array_equal(got, want) and status == 0


def test_several_results_are_a_tuple_and_numbers_are_numpys():
    native = machine(program((ops.logdet(ops.mass_matrix), INVERSE_DYNAMICS)))
    number, efforts = native.direct(Q, V, A)
    assert type(number) is np.float64 and efforts.shape == (MODEL.nv,)
    assert number == native.ufunc(Q, V, A)[0]


@pytest.mark.parametrize(
    "args",
    [
        (Q.tolist(), V, A),
        (np.stack([Q, Q]), V, A),
        (Q[:-1], V, A),
        (Q.astype(np.float32), V, A),
        (Q.astype(complex), V, A),
        (np.repeat(Q, 2)[::2], V, A),
        (Q.astype(">f8"), V, A),
        (Q.view(np.matrix) if hasattr(np, "matrix") else None, V, A),
        (Q, V),
        (Q, V, A, A),
        (),
        (None, None, None),
        (Q, V, np.full_like(A, np.nan)),
    ],
    ids=[
        "list", "batch", "short", "float32", "complex", "strided", "other byte order", "subclass",
        "too few", "too many", "none", "None", "not finite",
    ],
)  # fmt: skip
def test_everything_else_is_left_to_the_ordinary_way(args: Any):
    assert machine(program()).direct(*args) is None


def test_an_unaligned_array_is_left_to_the_ordinary_way():
    raw = np.zeros(8 * MODEL.nq + 1, dtype=np.uint8)
    odd = raw[1:].view(np.float64)
    odd[:] = Q
    assert not odd.flags.aligned
    assert machine(program()).direct(odd, V, A) is None
    assert np.array_equal(program()(odd, V, A), program()(Q, V, A))


def test_failures_are_explained_by_the_ordinary_way():
    bad = V.copy()
    bad[1] = np.inf
    with pytest.raises(pp.errors.InputError, match="v is inf at joint"):
        program()(Q, bad, A)


def test_inputs_and_results_are_not_kept_alive():
    native = machine(program())
    q = Q.copy()
    native.direct(q, V, A)
    gc.collect()
    before = sys.getrefcount(q), sys.getrefcount(None)
    for _ in range(1000):
        out = native.direct(q, V, A)
        assert native.direct(q, V) is None
    assert sys.getrefcount(q) == before[0]
    assert sys.getrefcount(out) == 2  # the name and the argument
    assert abs(sys.getrefcount(None) - before[1]) < 100


def test_the_builtin_owns_its_code():
    model = branching(6, 9, ("revolute", "prismatic"))
    q, v, a = model.neutral(), np.ones(model.nv), np.ones(model.nv)
    call = machine(pp.compile(INVERSE_DYNAMICS, model, backend="native")).direct
    want = call(q, v, a)
    del model
    gc.collect()
    assert np.array_equal(call(q, v, a), want)


def test_long_calls_release_the_gil_and_so_are_not_direct():
    builder = pp.ModelBuilder()
    rod = pp.SpatialInertia(mass=1.0, com_B=(0.5, 0, 0), moment_about_com_B=(0.01, 0.1, 0.1))
    for i in range(3000):
        builder.add_body(
            f"b{i}", parent=f"b{i - 1}" if i else "world", inertia=rod,
            joint=pp.joints.Revolute(axis=(0, 0, 1)),
        )  # fmt: skip
    chain = builder.build()
    native = machine(pp.compile(FORWARD_DYNAMICS, chain, backend="native"))
    zero = np.zeros(3000)
    assert native.direct(zero, zero, zero) is None


def test_keywords_out_and_masks_still_work():
    x = program()
    want = x(Q, V, A)
    assert np.array_equal(x(q=Q, v=V, vdot=A), want)
    out = np.empty(MODEL.nv)
    assert x(Q, V, A, out=out) is out and np.array_equal(out, want)
    got, status = x(Q, V, A, on_error="nan")
    assert np.array_equal(got, want) and status == 0


def test_a_tuple_of_one_expression_returns_a_tuple():
    """Also in the calls after the first, which take the short cut."""
    arm = pp.examples.planar_arm(2)
    compiled = pp.compile((FORWARD_DYNAMICS,), arm, backend="native")
    zero = np.zeros(2)
    for _ in range(4):
        found = compiled(zero, zero, zero)
        assert isinstance(found, tuple) and found[0].shape == (2,)
    assert compiled.fast(zero, zero, zero)[0].shape == (2,)


# ---- scratch memory ------------------------------------------------------------------------------


def _scratch_calls() -> tuple[Any, Any]:
    """``take(data)`` and ``leave(data, block)`` on a record whose word 0 is the size."""
    module = ir.Module()
    taking = ir.IRFunction(module, ir.FunctionType(I64, [POINTER]), "take")
    b, without = taking.begin(), taking.append_basic_block("without")
    block, line = acquire(b, taking.args[0], 0, without)
    b.store(i64(7), line)
    b.ret(block)
    b.position_at_end(without)
    b.ret(i64(0))
    leaving = ir.IRFunction(module, ir.FunctionType(ir.VOID, [POINTER, I64]), "leave")
    b = leaving.begin()
    release(b, leaving.args[0], 0, leaving.args[1])
    b.ret_void()
    key = hashlib.sha256(str(module).encode()).hexdigest()
    code = machine_code(key, host_target(), lambda: str(module))
    take = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.address("take"))
    leave = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address("leave"))
    take.owner = leave.owner = code  # type: ignore[attr-defined]
    return take, leave


def test_every_slot_of_scratch_memory_is_used_and_no_block_twice():
    take, leave = _scratch_calls()
    data = np.zeros(1 + SLOTS, dtype=np.int64)
    data[0] = 256
    blocks = [take(data.ctypes.data) for _ in range(SLOTS + 2)]  # more calls at once than slots
    assert len(set(blocks)) == SLOTS + 2 and 0 not in blocks and not data[1:].any()
    for i, block in enumerate(blocks):  # the first free slot, and the heap for the last two
        leave(data.ctypes.data, block)
        assert np.count_nonzero(data[1:]) == min(i + 1, SLOTS)
    assert data[1:].tolist() == blocks[:SLOTS]
    for i in (0, 1, 5, SLOTS - 1):  # the first slot that has one
        data[1 : 1 + i] = 0
        assert take(data.ctypes.data) == blocks[i] and data[1 + i] == 0
    assert not data[1:].any()
    data[0] = -1  # no heap has so much
    assert take(data.ctypes.data) == 0
