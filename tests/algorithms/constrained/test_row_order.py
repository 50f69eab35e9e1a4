"""Loops that hang on one body: their admittance is kept apart, and the numbers stay the same."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_systems import admissible, kkt

import phipsi as pp
from phipsi import constraints as c
from phipsi.algorithms.dynamics.dynamics_expressions import forward_with_rows
from phipsi.native.matrices.loop_row_order import row_order

Z = (0, 0, 1)


def rod(length: float) -> pp.SpatialInertia:
    return pp.SpatialInertia(1.0, (length / 2, 0, 0), length**2 / 12)


def add_four_bar(b: pp.ModelBuilder, name: str, on: str, placement: pp.Pose) -> c.Constraint:
    """Crank, coupler and rocker on a body, closed on the same body one metre along x."""
    parent, where = on, placement
    for part, length in zip("abc", (0.5, 1.0, 0.5), strict=True):
        joint = pp.joints.Revolute(Z)
        b.add_body(name + part, parent=parent, joint=joint, placement=where, inertia=rod(length))
        parent, where = name + part, pp.Pose(None, (length, 0, 0))
    end = placement @ pp.Pose(None, (1.0, 0, 0))
    return c.Revolute(Z, name=name, a=(name + "c", (0.5, 0, 0)), b=(on, end))


def turned(rng) -> pp.Pose:
    axis = rng.standard_normal(3)
    return pp.Pose(pp.core.spatial.so3_exp(axis), rng.standard_normal(3))


def carrier(seed: int, *, legs: int, nested: bool, base: pp.joints.Joint) -> pp.System:
    """Four-bars on one body, more of them on one of their couplers, and legs to the ground."""
    rng = np.random.default_rng(seed)
    b = pp.ModelBuilder(gravity=(0, 0, -9.81))
    b.add_body("base", joint=base, inertia=pp.SpatialInertia(5.0, (0.1, 0, 0.2), 0.7))
    loops = [add_four_bar(b, f"bar{i}", "base", turned(rng)) for i in range(3)]
    if nested:
        loops += [add_four_bar(b, f"small{i}", "bar1b", turned(rng)) for i in range(2)]
    for i in range(legs):
        joint = pp.joints.Spherical()
        b.add_body(f"leg{i}", parent="base", joint=joint, placement=turned(rng), inertia=rod(0.8))
    model = b.build()
    q = start(model)
    poses = dict(zip(model.body_names, pp.poses(model, q), strict=True))
    for i in range(legs):
        foot = (poses[f"leg{i}"] @ [0.8, 0, 0, 1])[:3]
        loops.append(c.Spherical(name=f"foot{i}", a=(f"leg{i}", (0.8, 0, 0)), b=("world", foot)))
    return pp.System(model, loops)


def start(model: pp.Model) -> np.ndarray:
    q = model.neutral()
    for name in model.body_names:
        if name[-1] in "abc" and name != "base":
            q[model.q_slice(name)] = 1.0 if name[-1] == "a" else -1.0
    return q


@pytest.mark.parametrize(
    ("legs", "nested", "base"),
    [(0, False, pp.joints.Free()), (2, True, pp.joints.Free()), (1, True, pp.joints.Revolute(Z))],
)
def test_hubs_change_nothing_but_the_cost(legs, nested, base):
    system = carrier(1, legs=legs, nested=nested, base=base)
    model = system.model
    order = row_order(model, system.closures, with_hubs=True)
    bodies = {model.body_names[k] for k in order.hubs}
    assert bodies == ({"base", "bar1b"} if nested else {"base"})
    q = start(model)
    rng = np.random.default_rng(0)
    v, tau = admissible(system, q, rng), rng.standard_normal(model.nv)
    wanted, _ = kkt(system, q, v, tau)
    program = pp.compile(forward_with_rows(None, False, False), system, backend="native")
    assert program.backend == "native"
    vdot, f = program(q, v, tau)
    size = max(1, np.abs(wanted).max())
    assert_allclose(vdot, wanted, rtol=0, atol=1e-9 * size)
    G, M = system.jacobian(q), pp.mass_matrix(model, q)
    load = tau - pp.bias_forces(model, q, v)
    assert_allclose(M @ vdot + G.T @ f, load, rtol=0, atol=1e-9 * size * np.abs(M).max())
    many = np.broadcast_to(v, (11, model.nv)).copy()
    np.testing.assert_array_equal(program(q, many, tau)[0][3], vdot)


def test_the_matrix_between_rows_grows_with_the_number_of_loops():
    def entries(count: int, joint: pp.joints.Joint | None) -> int:
        b = pp.ModelBuilder()
        on = "world"
        if joint is not None:
            b.add_body("base", joint=joint, inertia=pp.SpatialInertia(1.0, (0, 0, 0), 1.0))
            on = "base"
        at = [pp.Pose(None, (0, 0, i)) for i in range(count)]
        loops = [add_four_bar(b, f"bar{i}", on, at[i]) for i in range(count)]
        system = pp.System(b.build(), loops)
        return row_order(system.model, system.closures, with_hubs=True).entries

    assert entries(40, None) == 40 * 25
    # every loop has its own block and six rows of the hub
    assert entries(40, pp.joints.Free()) == 40 * 25 + 6 * (40 * 5 + 6)


def test_places_are_a_permutation_and_addresses_do_not_overlap():
    system = carrier(2, legs=2, nested=True, base=pp.joints.Free())
    for with_hubs in (False, True):
        order = row_order(system.model, system.closures, with_hubs=with_hubs)
        base, place, first, width, _, at = order.rows.T
        assert sorted(place) == list(range(len(place)))
        np.testing.assert_array_equal(place[at], np.arange(len(at)))
        assert (first <= place).all() and (place < first + width).all()
        used = [(base[r] + first[r] + i) for r in range(len(base)) for i in range(width[r])]
        assert sorted(used) == list(range(order.entries))
