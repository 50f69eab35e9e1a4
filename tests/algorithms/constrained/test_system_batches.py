"""Every function of a system in machine code: one state, batches with odd tails, second routes.

Groups of lanes and single calls are different code, so a fault may be in one of them only. The
systems have every kind of constraint, between bodies, frames and the world, every kind of
contact, with and without rotors, and loops that meet in one body (hubs).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from amounts import mostly
from comparers import close
from numpy.testing import assert_allclose
from random_grasps import random_grasp
from random_models import random_tree
from random_systems import KINDS, bias_by_complex_step, random_constraint

import phipsi as pp
from phipsi.algorithms.dynamics.dynamics_expressions import FORMS
from phipsi.operators import A, J, Lambda

COUNT = 17
SIZES = (1, 7, 8, 9)
SINGLES = (0, 7, 8, 16)
BACKENDS = ("native", "reference")


def loops(seed: int, *, armature: bool) -> tuple[pp.System, np.ndarray]:
    """Two trees with all kinds of constraints, some on frames, some on the world."""
    rng = np.random.default_rng(seed)
    joints = ("revolute", "free", "spherical", "free")
    model = random_tree(rng, 14, joints, n_roots=2, armature=armature, frames=True)
    q = model.random_configuration(rng)
    chosen: list[pp.constraints.Constraint] = []
    for kind in KINDS:
        for _ in range(50):  # until its rows do not depend on the others
            found = random_constraint(model, q, kind, kind.lower(), rng)
            assert found is not None
            found = on_a_frame(model, found) if rng.random() < 0.5 else found
            G = pp.System(model, [*chosen, found]).jacobian(q)
            if np.linalg.svd(G, compute_uv=False)[-1] > 0.05:
                chosen.append(found)
                break
    assert [type(c).__name__ for c in chosen] == list(KINDS)
    ends = {side for c in chosen for side in (e[0] for e in c.sides())}
    assert "world" in ends and ends & set(model.frames)
    return pp.System(model, chosen, secondary=model.body_names[1::2]), q


def on_a_frame(model: pp.Model, c: pp.constraints.Constraint) -> pp.constraints.Constraint:
    """The same constraint, its end a named by a frame of the body."""
    if not c.sides() or c.a[0] == "world":
        return c
    name = "f" + c.a[0][1:]
    body, X = model.resolve_point(name)
    assert model.body_names[body] == c.a[0]
    return replace(c, a=(name, X.inv @ c.a[1]))


def hand(seed: int) -> tuple[pp.grasping.Grasp, np.ndarray]:
    """Four arms that hold an object, one by each kind of contact."""
    kinds = ("Rigid", "Edge", "Point", "SoftFinger")
    return random_grasp(seed, kinds, joints=("revolute", "spherical"), length=5)[:2]


MAKE: dict[str, Callable[[], tuple[pp.System, np.ndarray]]] = {
    "loops": lambda: loops(2, armature=False),
    "rotors": lambda: loops(4, armature=True),
    "grasp": lambda: hand(3),
}


@cache
def made(name: str) -> tuple[pp.System, np.ndarray]:
    """The system, whose constraints are chosen without machine code that would run once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHIPSI_BACKEND", "reference")
        return MAKE[name]()


@cache
def case(name: str, backend: str) -> tuple[pp.System, tuple[np.ndarray, ...]]:
    """The system, once per backend since programs are kept with its model, and 17 states."""
    system, closed = made(name)
    if backend == "native":
        system = copied(system)
    model = system.model
    rng = np.random.default_rng(5)
    q = model.integrate(
        closed, 0.05 * rng.standard_normal((COUNT, model.nv))
    )  # loops open a little
    v, tau = rng.standard_normal((2, COUNT, model.nv))
    push = rng.standard_normal((COUNT, model.n_bodies, 6))
    return system, (q, v, tau, push, rng.standard_normal((COUNT, system.n_rows)))


def copied(system: pp.System) -> pp.System:
    """The same system with nothing that was compiled for it."""
    again = pickle.loads(pickle.dumps(system))
    assert type(again) is type(system) and not again.model.cache
    return again


def together(parts) -> np.ndarray:
    return np.concatenate(parts, axis=-1)


FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "residual": lambda s, q, v, tau, push, u: s.residual(q),
    "jacobian": lambda s, q, v, tau, push, u: s.jacobian(q),
    "bias": lambda s, q, v, tau, push, u: s.bias(q, v),
    "accelerations": lambda s, q, v, tau, push, u: pp.forward_dynamics(s, q, v, tau),
    "pushed and prescribed": lambda s, q, v, tau, push, u: together(
        pp.forward_dynamics(s, q, v, tau, push, row_acceleration=u, return_multipliers=True)
    ),
    "forces": lambda s, q, v, tau, push, u: pp.constraint_forces(s, q, v, tau),
    "impulse": lambda s, q, v, tau, push, u: together(
        pp.constraint_impulse(s, q, v, row_velocity=u)
    ),
    "A Λ A*": lambda s, q, v, tau, push, u: pp.delassus_matrix(s, q),
    "A J": lambda s, q, v, tau, push, u: pp.compile(A @ J, s, mode="dense")(q),
    "J* A* u": lambda s, q, v, tau, push, u: pp.compile(J.T @ A.T, s)(q, u),
    "A[P], A[S]": lambda s, q, v, tau, push, u: together(
        pp.compile((A["P"] @ J, A["S"] @ J), s, mode="dense")(q)
    ),
    "Λ": lambda s, q, v, tau, push, u: pp.compile(Lambda, s, mode="dense")(q),
    "Λ[P]": lambda s, q, v, tau, push, u: pp.compile(
        A @ Lambda["P"] @ A.T, s, mode="dense"
    )(q),
    **{
        form: lambda s, q, v, tau, push, u, form=form: together(
            pp.forward_dynamics(s, q, v, tau, algorithm=form, return_multipliers=True)
        )
        for form in FORMS
    },
}  # fmt: skip


@cache
def dense(name: str) -> dict[str, np.ndarray]:
    """The same by NumPy from ℳ, its bias and the Jacobian, at some of the states."""
    system, state = case(name, "reference")
    model, out = system.model, {}
    primary = pp.compile(A["P"] @ J, system, mode="dense", backend="reference")
    for q, v, tau, push, u in zip(*(x[list(SINGLES)] for x in state), strict=True):
        G, M = system.jacobian(q), pp.mass_matrix(model, q)
        drift, own = bias_by_complex_step(system, q, v), primary(q)
        S = G @ np.linalg.solve(M, G.T)

        def solved(load, wanted, G=G, M=M, S=S):
            free = np.linalg.solve(M, load)
            f = np.linalg.solve(S, G @ free - wanted)
            return free - np.linalg.solve(M, G.T @ f), f

        load = tau - pp.bias_forces(model, q, v)
        pushed = tau - pp.inverse_dynamics(model, q, v, np.zeros(model.nv), push)
        vdot, f = solved(load, -drift)
        driven = solved(pushed, u - drift)
        p = np.linalg.solve(S, G @ v - u)
        found = {
            "bias": drift, "accelerations": vdot, "forces": f, "A Λ A*": S, "A J": G,
            "pushed and prescribed": np.concatenate([driven[0], tau, driven[1]]),
            "Λ[P]": own @ np.linalg.solve(M, own.T),
            "impulse": np.concatenate([v - np.linalg.solve(M, G.T @ p), p]), "J* A* u": G.T @ u,
            **{form: np.concatenate([vdot, tau, f]) for form in FORMS},
        }  # fmt: skip
        for key, value in found.items():
            out.setdefault(key, []).append(value)
    return {key: np.array(value) for key, value in out.items()}


ROTORS = ("accelerations", "impulse", "A Λ A*")
CASES = mostly([("loops", what) for what in FUNCTIONS], *(("loops", what) for what in ROTORS))
CASES += [("rotors", what) for what in ROTORS]
CASES += [("grasp", what) for what in ("bias", "accelerations", "forces", "A Λ A*", "A J", "Λ[P]")]


def parts_agree(run, system: pp.System, state, whole: np.ndarray) -> None:
    """Single calls, smaller batches, batches of other shapes and strides, and empty ones."""
    size = 1e-13 * max(1.0, np.abs(whole).max())
    for n in SIZES:
        assert_allclose(run(system, *(x[:n] for x in state)), whole[:n], rtol=0, atol=size)
    for i in SINGLES:
        assert_allclose(run(system, *(x[i] for x in state)), whole[i], rtol=0, atol=size)
    turned = run(system, *(np.asfortranarray(x)[::-1] for x in state))
    assert_allclose(turned, whole[::-1], rtol=0, atol=size)
    grid = run(system, *(x[:16].reshape(2, 8, *x.shape[1:]) for x in state))
    assert_allclose(grid.reshape(16, *whole.shape[1:]), whole[:16], rtol=0, atol=size)
    assert run(system, *(x[:0] for x in state)).shape == (0, *whole.shape[1:])


@pytest.mark.parametrize(("name", "what"), CASES)
def test_batches_single_calls_and_backends_agree(name: str, what: str, monkeypatch):
    results = {}
    for backend in BACKENDS:
        monkeypatch.setenv("PHIPSI_BACKEND", backend)
        system, state = case(name, backend)
        results[backend] = FUNCTIONS[what](system, *state)
        if backend == "native":
            parts_agree(FUNCTIONS[what], system, state, results[backend])
    size = max(1.0, np.abs(results["reference"]).max())
    assert_allclose(results["native"], results["reference"], rtol=0, atol=1e-9 * size)
    want = dense(name).get(what)
    if want is not None:
        got = results["native"][list(SINGLES)]
        close(got, want, 1e-9)
