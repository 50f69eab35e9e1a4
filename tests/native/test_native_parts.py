"""Kernels are compiled by themselves, once for all code that calls them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phipsi as pp
from phipsi.native.targets import code_cache as cache
from phipsi.native.targets.code_cache import machine_code
from phipsi.native.targets.target import Target, host_target
from phipsi.native.text import llvm_text as ir
from phipsi.native.text.lane_arithmetic import i64

UNARY = ir.FunctionType(ir.DOUBLE, [ir.DOUBLE])


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the functions that LLVM compiles from now on, with an empty cache."""
    monkeypatch.setenv("PHIPSI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    cache.folder.cache_clear()
    names: list[str] = []
    compile_ = Target.object_code

    def noted(self: Target, text: str) -> bytes:
        names.extend(re.findall(r"^define [^@]*@(\w+)", text, re.MULTILINE))
        return compile_(self, text)

    monkeypatch.setattr(Target, "object_code", noted)
    yield names
    cache.folder.cache_clear()


def _plus(name: str, number: float, *, linked: bool) -> ir.Module:
    """A function `name`, 2 (x + number), whose sum is a part."""

    def write(module: ir.Module) -> ir.IRFunction:
        function = ir.IRFunction(module, UNARY, f"plus_{number:.0f}")
        function.linkage = "internal"
        b = function.begin()
        b.ret(b.fadd(function.args[0], ir.IRConstant(ir.DOUBLE, number)))
        return function

    module = ir.Module(linked=linked)
    function = ir.IRFunction(module, UNARY, name)
    b = function.begin()
    part = module.part(f"plus_{number:.0f}", f"the key of {number}", UNARY, write)
    b.ret(b.fmul(b.call(part, [function.args[0]]), ir.IRConstant(ir.DOUBLE, 2.0)))
    return module


@pytest.mark.parametrize("linked", [True, False])
def test_a_part_is_compiled_once(compiled: list[str], linked: bool):
    def value(name: str, number: float) -> float:
        code = machine_code(name, host_target(), lambda: _plus(name, number, linked=linked))
        call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address(name))
        return call(3.0)

    assert value("f", 1.0) == 8.0 and value("g", 1.0) == 8.0
    assert compiled.count("plus_1") == (1 if linked else 2)  # written into both otherwise
    assert value("h", 2.0) == 10.0  # another part
    assert sorted(set(compiled)) == ["f", "g", "h", "plus_1", "plus_2"]


def test_a_part_that_is_lost_is_compiled_again(compiled: list[str], tmp_path: Path):
    def value() -> float:
        code = machine_code("f", host_target(), lambda: _plus("f", 1.0, linked=True))
        return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("f"))(3.0)

    assert value() == 8.0
    files = [p for p in (tmp_path / "cache").iterdir() if b"the code of" not in p.read_bytes()]
    assert len(files) == 2  # of f, and of its part
    for lost in files:
        lost.unlink()
        assert value() == 8.0
    assert sorted(compiled) == ["f", "f", "plus_1", "plus_1"]


def test_runs_share_the_kernels_of_a_model(compiled: list[str]):
    """Another integrator is another run, of the same kernels."""
    q, zero = [0.3, -0.4], [0.0, 0.0]
    for integrator in ("rk4", "semi_implicit"):
        arm = pp.examples.planar_arm(2)
        pp.rollout(arm, q, zero, zero, 1e-3, 3, integrator=integrator)
    assert compiled.count("phipsi_run") >= 2
    kernels = [x for x in compiled if x.startswith("phipsi_kernel")]
    assert kernels and len(kernels) == len(set(kernels))


def test_what_no_program_changes_is_compiled_once_for_all(compiled: list[str]):
    """Sines of large angles and moving numbers into lanes: parts of kernels, and of other parts."""
    arm, q = pp.examples.planar_arm(2), np.outer([1.0, 1e-3, 1e-7], [1e30, -3e5])
    for function in (
        pp.mass_matrix,
        lambda model, q: pp.inverse_dynamics(model, q, 0 * q, q / 1e9),
    ):
        assert np.array_equal(function(arm, q), [function(arm, x) for x in q])
    for name in ("reduce", "sincos_of_any", "pack"):
        found = [x for x in compiled if x.startswith(f"phipsi_{name}_")]
        assert len(found) == 1, (name, found)
    assert len([x for x in compiled if x.startswith("phipsi_kernel")]) == 4


def test_code_in_parts_has_the_bits_of_code_in_one(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
):
    q, v, tau = np.random.default_rng(5).normal(size=(3, 11, 3))

    def found() -> list[bytes]:
        arm = pp.examples.planar_arm(3)
        one = pp.forward_dynamics(arm, q[0], v[0], tau[0])
        many = pp.forward_dynamics(arm, q, v, tau)
        run = pp.rollout(arm, q, v, tau, 1e-3, 4)
        return [x.tobytes() for x in (one, many, *run)]

    in_parts, count = found(), len(compiled)
    monkeypatch.setattr(cache, "_LOADED", {})
    monkeypatch.setenv("PHIPSI_CACHE", "off")
    cache.folder.cache_clear()

    def in_place(self, name, key, signature, write):
        return self.globals.get(name) or write(self)

    monkeypatch.setattr(ir.Module, "part", in_place)
    assert found() == in_parts
    assert {"phipsi_kernel_1", "phipsi_run"} <= set(compiled[count:])


def test_code_for_other_processors_is_kept_too(compiled: list[str], tmp_path: Path):
    arm = pp.examples.planar_arm(2)
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        pp.export(arm, folder, what="mass_matrix", target="wasm32")
    assert compiled.count("robot_mass_matrix") == 1  # LLVM ran once
    first, second = ({p.name: p.read_bytes() for p in folder.iterdir()} for folder in folders)
    assert first == second and any(name.endswith(".wasm") for name in first)
    pp.export(arm, tmp_path / "three", what="mass_matrix", target="cortex-m7")
    assert compiled.count("robot_mass_matrix") == 2


# ---- values are numbers in the order of the text -------------------------------------------------


@pytest.mark.parametrize("in_turns", [False, True])
def test_blocks_may_be_written_in_turns(in_turns: bool):
    """2 |x| + 1: a block that is gone on with after another one was begun gives values names."""
    module = ir.Module()
    function = ir.IRFunction(module, UNARY, "f")
    b, (x,) = function.begin(), function.args
    one, two, zero = (ir.IRConstant(ir.DOUBLE, n) for n in (1.0, 2.0, 0.0))
    negative, other, done = (function.append_basic_block(n) for n in ("negative", "other", "done"))
    b.cbranch(b.fcmp_ordered("<", x, zero), negative, other)
    b.position_at_end(negative)
    opposite = b.fneg(x)
    if in_turns:
        b.position_at_end(other)
        b.position_at_end(negative)
    opposite = b.fmul(opposite, two)
    b.branch(done)
    b.position_at_end(other)
    twice = b.fmul(x, two)
    b.branch(done)
    b.position_at_end(done)
    out = b.phi(ir.DOUBLE)
    out.add_incoming(opposite, negative)
    out.add_incoming(twice, other)
    b.ret(b.fadd(out, one))
    text = str(module)
    assert function.in_order is not in_turns and ("%n0 = fcmp" in text) is in_turns
    code = machine_code(f"in turns {in_turns}", host_target(), lambda: text)
    call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("f"))
    assert [call(3.0), call(-3.0)] == [7.0, 7.0]


def test_a_block_has_an_address_once_and_another_block_its_own():
    module = ir.Module()
    function = ir.IRFunction(module, ir.FunctionType(ir.VOID, [ir.POINTER]), "f")
    b, (x,) = function.begin(), function.args
    assert b.at(x, 8) is b.at(x, 8) and b.at(x, 16) is not b.at(x, 8)
    first, following = b.at(x, 8), function.append_basic_block("following")
    b.branch(following)
    b.position_at_end(following)
    assert b.at(x, 8) is not first
    with b.early():
        early = b.at(x, 8)
    assert early is not first and early is not b.at(x, 8)
    b.ret_void()
    assert str(module).index(early.name) < str(module).index("%0 =")


def _numbers_of_rows(last: int) -> tuple[str, Any]:
    """``f(numbers, i, way)``: number 3 i + `last` of an array, twice, or 5 i; way 0, 1, 2."""
    word = ir.IntType(64)
    module = ir.Module()
    takes = ir.FunctionType(word, [ir.POINTER, word, word])
    function = ir.IRFunction(module, takes, "f")
    b, (numbers, i, way) = function.begin(), function.args
    labels = ("address", "later", "end", "place")
    address, later, end, place = (function.append_basic_block(x) for x in labels)
    offset = b.mul(b.add(b.mul(i, i64(3)), i64(last)), i64(8))
    five = b.mul(i, i64(5))
    switch = b.switch(way, place)
    switch.add_case(i64(0), address)
    switch.add_case(i64(1), later)
    b.position_at_end(address)  # a sum and products of this block
    own = b.mul(b.add(b.mul(i, i64(3)), i64(last)), i64(8))
    read = b.load(b.at(numbers, own), typ=word)
    b.branch(end)
    b.position_at_end(later)  # of another block
    read_later = b.load(b.at(numbers, offset), typ=word)
    b.branch(end)
    b.position_at_end(place)  # no address at all
    b.branch(end)
    b.position_at_end(end)
    out = b.phi(word)
    for value, block in ((read, address), (read_later, later), (five, place)):
        out.add_incoming(value, block)
    b.ret(out)
    text = str(module)
    code = machine_code(text, host_target(), lambda: text)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    call = kind(code.address("f"))
    call.owner = code  # type: ignore[attr-defined]
    return text, call


@pytest.mark.parametrize("last", [2, 0, -1])
def test_a_sum_or_product_of_an_index_is_written_where_an_address_does_not_hold_it(last: int):
    text, call = _numbers_of_rows(last)
    numbers = np.arange(100, 120)
    for i in (1, 4):
        for way in (0, 1):
            assert call(numbers.ctypes.data, i, way) == 100 + 3 * i + last
        assert call(numbers.ctypes.data, i, 2) == 5 * i
    assert text.count("= mul") == 3 and text.count("= add") == (last != 0)  # for the other blocks
    rows, steps = text.count("getelementptr [24 x i8]"), text.count("getelementptr i8")
    assert (rows, steps) == (1, 1 + (last != 0))


def test_an_index_for_addresses_alone_has_no_instruction():
    module, word = ir.Module(), ir.IntType(64)
    function = ir.IRFunction(module, ir.FunctionType(ir.VOID, [ir.POINTER, word]), "f")
    b, (x, i) = function.begin(), function.args
    first, second = (b.mul(b.add(i, i64(k)), i64(8)) for k in (1, 2))
    assert b.at(x, first) is not b.at(x, second)
    backwards = b.at(x, b.mul(i, i64(-8)))  # steps of a negative size are no type
    b.store(i, backwards)
    b.ret_void()
    text = str(module)
    assert "add" not in text and text.count("mul") == 1 and text.count("getelementptr") == 4
