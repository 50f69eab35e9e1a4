"""The form that solves for the secondary system, against the dense equations of motion."""

import numpy as np
import pytest
from amounts import seeds
from comparers import close as near
from known_systems import pinned_arm
from random_grasps import random_grasp
from random_models import model_from_parents, random_pose
from random_systems import admissible, kkt

import phipsi as pp
from phipsi.algorithms.dynamics.secondary_dynamics import split

BENDING = ("revolute", "universal", "spherical", "cylindrical", "helical", "free", "composite")


def agrees(system, q, v, tau):
    vdot, f = kkt(system, q, v, tau)
    motion = pp.forward_dynamics(system, q, v, tau, algorithm="secondary", return_multipliers=True)
    near(motion.vdot, vdot)
    near(motion.f, f, 1e-8)


@pytest.mark.parametrize(
    "kinds",
    [("Rigid", "Rigid"), ("Point", "SoftFinger", "Edge"), ("Rigid", "Point", "Point", "Edge")],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_held_object_moves_with_its_own_and_the_arms_inertia(seed, kinds):
    grasp, q, v = random_grasp(seed, kinds, joints=BENDING)
    tau = np.random.default_rng(seed).standard_normal(grasp.model.nv)
    agrees(grasp, q, v, tau)
    assert len(split(grasp).blocks) == len(kinds)  # one block per arm


@pytest.mark.parametrize("seed", seeds(4))
def test_loops_inside_the_secondary_and_inside_the_primary_system(seed):
    """Q_S rows have A_P = 0 and stay a small KKT block; two arms joined by a loop share a block."""
    rng = np.random.default_rng(seed)
    parents = [-1, 0, 1, 2, -1, 4, 5, 6, -1, 8, 9]
    kinds = ["universal", "spherical", "cylindrical", "spherical"] * 2 + [
        "free",
        "spherical",
        "spherical",
    ]
    model = model_from_parents(parents, rng, kinds)
    q = model.random_configuration(rng)
    poses = pp.poses(model, q)
    rows = []
    for name, a, b, kind in (
        ("grip1", 3, 8, "Weld"), ("grip2", 7, 10, "Spherical"), ("inside", 8, 10, "Distance"),
        ("arms", 2, 6, "Distance"), ("base", 9, -1, "Distance"),
    ):  # fmt: skip
        X = random_pose(rng)
        world = poses[a] @ X.matrix
        Y = np.linalg.inv(np.eye(4) if b < 0 else poses[b]) @ world
        ends = {"name": name, "a": (f"b{a}", X)}
        where = "world" if b < 0 else f"b{b}"
        if kind == "Distance":
            shift = rng.uniform(-0.4, 0.4, 3)
            size = float(np.linalg.norm(shift))
            rows.append(pp.constraints.Distance(size, b=(where, Y[:3, 3] + shift), **ends))
        else:
            place = pp.Pose(Y[:3, :3], Y[:3, 3])
            rows.append(getattr(pp.constraints, kind)(b=(where, place), **ends))
    system = pp.System(model, rows, secondary=["b8", "b9", "b10"])
    mine = split(system)
    assert [system.row_names[i] for i in mine.inner] == ["inside.distance", "base.distance"]
    assert len(mine.blocks) == 1
    v, tau = admissible(system, q, rng), rng.standard_normal(model.nv)
    agrees(system, q, v, tau)
    many = tau + rng.standard_normal((3, model.nv))
    together = pp.forward_dynamics(system, q, v, many, algorithm="secondary")
    for one, effort in zip(together, many, strict=True):
        near(one, pp.forward_dynamics(system, q, v, effort))
    # with forces on bodies and prescribed rates
    f_ext = rng.standard_normal((model.n_bodies, 6))
    Udot = rng.standard_normal(system.n_rows)
    exact = pp.forward_dynamics(
        system, q, v, tau, f_ext, row_acceleration=Udot, return_multipliers=True
    )
    found = pp.forward_dynamics(
        system,
        q,
        v,
        tau,
        f_ext,
        row_acceleration=Udot,
        algorithm="secondary",
        return_multipliers=True,
    )
    near(found.vdot, exact.vdot)
    near(found.f, exact.f, 1e-8)


def test_redundant_rows_inside_the_secondary_system():
    rng = np.random.default_rng(0)
    grasp, q, _ = random_grasp(1, ("Point", "Point"), joints=("spherical", "universal"))
    model = grasp.model
    thing = grasp.object[0]
    X = pp.poses(model, q)[-1]
    twice = [
        pp.constraints.PointOnLine((0, 0, 1), name=n, a=("world", pp.Pose(None, X[:3, 3])), b=thing)
        for n in ("rail", "again")
    ]
    system = pp.System(model, [*grasp.contacts, *twice], secondary=[thing])
    v, tau = admissible(system, q, rng), rng.standard_normal(model.nv)
    motion = pp.forward_dynamics(system, q, v, tau, algorithm="secondary", return_multipliers=True)
    near(motion.vdot, kkt(system, q, v, tau)[0])


def test_a_primary_system_that_cannot_give_way_is_refused():
    """Planar fingers cannot move sideways: A_P Λ A_P* is singular, the whole system is not."""
    grasp = pp.examples.two_finger_grasp()
    q, zero = grasp.model.neutral(), np.zeros(grasp.model.nv)
    with pytest.raises(pp.errors.SingularMatrixError, match="cannot give way .*'left.x'"):
        pp.forward_dynamics(grasp, q, zero, zero, algorithm="secondary", return_multipliers=True)
    assert np.isfinite(pp.forward_dynamics(grasp, q, zero, zero)).all()


def test_primary_and_secondary_must_be_named_and_separate():
    system, zero = pinned_arm(closure="Spherical"), np.zeros(3)
    with pytest.raises(pp.errors.InputError, match="secondary="):
        pp.forward_dynamics(system, zero, zero, zero, algorithm="secondary")
    with pytest.raises(pp.errors.InputError, match="joint 'joint3' joins body 'link3'"):
        system = pp.System(system.model, system.constraints, secondary=["link3"])
        pp.forward_dynamics(system, zero, zero, zero, algorithm="secondary")
