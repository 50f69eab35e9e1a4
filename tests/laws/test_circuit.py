"""Circuits: quantities in, efforts and loads out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.core.arrays.trace import Tracer
from phipsi.laws.block_diagram import AlgebraBlock, BlockDiagram, Quantity, Sampling
from phipsi.operators import mass_matrix


def small_circuit():
    q, v, x = (Quantity(n, k, (2,)) for n, k in (("q", "q"), ("v", "v"), ("hold.x", "state")))
    kp = Quantity("hold.kp", "parameter", (), np.array(3.0))
    m = Quantity("hold.m", "result", (2, 2))
    efforts = Tracer(m.node) @ (Tracer(kp.node) * Tracer(q.node) - Tracer(x.node))
    return BlockDiagram(
        {x.name: x for x in (q, v, x, kp, m)},
        (AlgebraBlock((mass_matrix,), ("hold.m",), ("dense",)),),
        efforts=efforts.node,
        rates={"hold.x": Tracer(v.node).node},
        samplings=(Sampling(2, {"hold.x": (Tracer(x.node) + 1).node}),),
        records={"hold.u": (Tracer(v.node) * Tracer(v.node)).node},
    )


def test_values_of_a_circuit():
    arm = pp.examples.planar_arm(2)
    rng = np.random.default_rng(0)
    q, v, x = rng.standard_normal((3, 4, 2))

    def run(one, inputs):
        return [pp.mass_matrix(arm, inputs["q"])]

    found = small_circuit().values({"q": q, "v": v, "hold.x": x}, run)
    wanted = np.einsum("nij,nj->ni", pp.mass_matrix(arm, q), 3 * q - x)
    assert_allclose(found["efforts"], wanted, rtol=1e-14)
    assert_allclose(found["rates"]["hold.x"], v)
    assert_allclose(found["records"]["hold.u"], v * v)
    assert_allclose(found["samplings"][0]["hold.x"], x + 1)
    assert found["loads"] is None and found["energy"] is None
    other = small_circuit().values({"q": q, "v": v, "hold.x": x, "hold.kp": np.arange(4.0)}, run)
    assert not np.allclose(other["efforts"], wanted)


def test_kinds():
    assert list(small_circuit().of_kind("parameter")) == ["hold.kp"]
    with pytest.raises(AssertionError, match="is not one of"):
        Quantity("x", "velocity", ())
