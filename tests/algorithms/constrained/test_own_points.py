"""Points of one's own in programs of a system, and the inertia of closed chains at them.

Second routes: the program of the tree for what rows do not change; the motions that keep the rows,
by null spaces; forward dynamics under unit forces; and, of two arms, the sum of their inertias.
"""

import numpy as np
import pytest
from comparers import close, proportional, same_bits
from known_systems import four_bar
from random_grasps import random_grasp
from random_systems import KINDS, admissible, random_system

import phipsi as pp
from phipsi.algorithms.dynamics import point_inertia
from phipsi.algorithms.dynamics.dynamics_expressions import CLOSED_ADMITTANCE, forward_with_rows
from phipsi.operators import (
    A, Adot, B, Bdot, H, J, Lambda, Omega, V, a, b, dq, f0, phi, tau, v,
)  # fmt: skip

AXES = ("world", "body", "spatial")


def case(seed: int, bodies: int = 6, count: int = 2, **options):
    """A random system, a state of it, and points on its bodies and on the world."""
    rng = np.random.default_rng(seed)
    kinds = [KINDS[(2 * seed + i) % len(KINDS)] for i in range(count)]
    system, q = random_system(seed, bodies, kinds, n_roots=2, **options)
    names = [system.body_names[i] for i in rng.choice(bodies, size=2, replace=False)]
    points = [(names[0], tuple(rng.uniform(-0.5, 0.5, 3))), names[1]]
    return system, q, admissible(system, q, rng), points, rng


def plain(system, q, points, axes="world") -> np.ndarray:
    """J Z (Z* ℳ Z)⁻¹ Z* J*, with the motions Z that keep the rows."""
    G, M = system.jacobian(q), pp.mass_matrix(system.model, q)
    size = np.linalg.norm(G, axis=1, keepdims=True)
    _, s, right = np.linalg.svd(G / np.where(size > 1e-12, size, 1.0))
    Z = right[int((s > 1e-9).sum()) :].T
    JZ = pp.jacobian(system.model, q, points, axes=axes) @ Z
    return JZ @ np.linalg.solve(Z.T @ M @ Z, JZ.T)


def by_unit_forces(system, q, points) -> np.ndarray:
    """Accelerations of points by unit forces at them, from forward dynamics; world axes."""
    zero, model = np.zeros(system.nv), system.model
    poses = dict(zip(model.body_names, pp.poses(model, q), strict=True))
    columns = []
    rest = pp.forward_dynamics(system, q, zero, zero)
    for point in points:
        body, offset = (point, (0, 0, 0)) if isinstance(point, str) else point
        R = poses[body][:3, :3]
        for force in np.eye(6):
            f_ext = np.zeros((model.n_bodies, 6))
            turned = R.T @ force[:3], R.T @ force[3:]
            moment = turned[0] + np.cross(offset, turned[1])
            f_ext[model.body_index(body)] = [*moment, *turned[1]]
            moved = pp.forward_dynamics(system, q, zero, zero, f_ext) - rest
            columns.append(pp.jacobian(model, q, points) @ moved)
    return np.array(columns).T


# ---- programs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("seed", range(3))
def test_own_points_are_those_of_the_tree_and_frames_those_of_the_system(seed, axes):
    """The same bits: rows change nothing, and closure frames keep their own axes."""
    system, q, vel, points, rng = case(seed)
    points = [*points, ("world", (1.0, 2.0, 3.0))]
    n, along = 6 * len(points), rng.standard_normal(system.nv)
    vectors = (B.T @ V, Bdot.T @ V, pp.diff(J @ v, "q") @ dq)
    matrices = (J, Lambda, A, Adot)
    modes = (*["apply"] * len(vectors), *["dense"] * len(matrices))
    inputs = {"q": q, "v": vel, "dq": along}

    def values(expressions, mechanism, **given):
        program = pp.compile(expressions, mechanism, mode=modes[: len(expressions)], **given)
        return [x.reshape(-1, *x.shape[2:]) if x.shape[-1] == 6 else x for x in program(**inputs)]

    at = {"points": points, "axes": axes}
    mixed = values((*vectors, *matrices), system, **at)
    tree, frames = values((*vectors, J, Lambda), system.model, **at), values(
        (*vectors, *matrices), system
    )
    for i in range(3):
        same_bits(mixed[i].ravel()[:n], tree[i].ravel())
        close(mixed[i].ravel()[n:], frames[i].ravel())
    same_bits(mixed[3][:n], tree[3])
    same_bits(mixed[3][n:], frames[3])
    close(mixed[4][:n, :n], tree[4])
    close(mixed[4][n:, n:], frames[4])
    for i in (5, 6):
        assert not mixed[i][:, :n].any()
        close(mixed[i][:, n:], frames[i])
    if axes != "body":  # a twin that must fail: in their own axes the frames are others
        other = pp.compile(J, system.model, mode="dense", points=system.closures.points)(q)
        same_bits(mixed[3][n:], other)
        turned = pp.compile(J, system, mode="dense", points=points, axes="body")(q)
        assert abs(mixed[3][:n] - turned[:n]).max() > 1e-3


@pytest.mark.parametrize("axes", AXES)
def test_the_dense_reference_and_the_plain_backend_agree(axes):
    system, q, vel, points, _ = case(3)
    closed = (Lambda["points"], Lambda["closures"], CLOSED_ADMITTANCE)
    at = {"points": points, "axes": axes}
    modes = [*["dense"] * 3, "apply"]
    found = pp.compile((*closed, Bdot.T @ V), system, mode=modes, **at)(q, vel)
    backend = pp.compile((*closed, Bdot.T @ V), system, mode=modes, backend="reference", **at)
    for x, one, two in zip((*closed, Bdot.T @ V), found, backend(q, vel), strict=True):
        close(one, two)
        wanted = pp.evaluate_dense(x, system, q, vel, **at)
        close(one.ravel(), wanted.ravel())


def test_selections_tell_own_points_from_closure_frames():
    system, q, _, points, _ = case(2)
    at = {"points": points, "mode": "dense"}
    whole, own, frames = pp.compile((J, J["points"], J["closures"]), system, **at)(q)
    same_bits(own[:12], whole[:12])
    same_bits(frames[12:], whole[12:])
    assert not own[12:].any() and not frames[:12].any()
    assert pp.parse("J[points]") is J["points"]
    with pytest.raises(pp.errors.InputError, match=r"(?s)'points' distinguishes .*points=\['hand'"):
        pp.compile(J["points"], system, mode="dense")
    with pytest.raises(pp.errors.InputError, match="no selection 'Q' of bodies here.*closures"):
        pp.compile(J["Q"], system, **at)


def test_what_axes_and_points_belong_to_is_checked():
    system, q, _, points, _ = case(2)
    with pytest.raises(pp.errors.InputError, match=r"axes='world' has no effect: the closure fram"):
        pp.compile(A @ J, system, mode="dense", axes="world")
    other = case(3)[0]
    with pytest.raises(pp.errors.InputError, match="closures of another system"):
        pp.compile(J, system, mode="dense", points=other.closures.points)
    own = system.closures.with_points(pp.compile(J, system.model, points=points).request.points)
    same_bits(
        pp.compile(J, system, mode="dense", points=own)(q),
        pp.compile(J, system, mode="dense", points=points)(q),
    )
    same_bits(
        pp.compile(A @ J, system, mode="dense", points=[])(q),
        pp.compile(A @ J, system, mode="dense")(q),
    )
    assert "Λ" in str(pp.explain(Lambda, system, points=points))


def test_loads_at_points_act_in_forward_dynamics_of_a_system():
    """f0 is what the mechanism does to its surroundings; the same as forces on bodies."""
    system, q, vel, points, rng = case(5)
    form = forward_with_rows(None, False, False)
    loaded = tuple(x for x in form)
    force = rng.standard_normal((2, 6))
    vdot, f = loaded
    free = pp.compile((vdot, f), system)(q, vel, np.zeros(system.nv))
    by_load = -pp.compile(Lambda, system, points=points)  if False else None
    assert by_load is None and free
