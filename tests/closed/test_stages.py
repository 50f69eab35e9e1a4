"""Steps A–F with reuse: right, and executed as often as the table of closed_chain 11 says."""

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose
from random_grasps import random_grasp
from random_systems import KINDS, admissible, kkt, random_system

import phipsi as pp
from phipsi import constraints as c
from phipsi.algorithms.stages import GIVEN, Stages
from phipsi.operators import B as pick
from phipsi.operators import Upsilon, mass_matrix, psi, tau


def near(found, wanted, tolerance=1e-9):
    assert_allclose(found, wanted, rtol=0, atol=tolerance * max(1.0, np.abs(wanted).max(initial=0)))


def changed(stages: Stages, before: Counter) -> Counter:
    return stages.counts - before


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("armature", [False, True])
def test_steps_one_by_one_give_the_dense_solution(seed, armature):
    rng = np.random.default_rng(seed)
    kinds = [KINDS[i] for i in rng.permutation(len(KINDS))[:4]]
    system, q = random_system(seed, 8, kinds, n_roots=3, independent=True, armature=armature)
    v, effort = admissible(system, q, rng), rng.standard_normal(system.model.nv)
    vdot, f = kkt(system, q, v, effort)
    stages = Stages()
    found = stages.dynamics(system, q, v, effort)
    near(found[0], vdot, 1e-8)
    near(found[1], f, 1e-7)
    before = rng.standard_normal(system.model.nv)
    after, p = stages.impulse(system, q, before)
    exact, impulses = pp.constraint_impulse(system, q, before)
    near(after, exact, 1e-8)
    near(p, impulses, 1e-7)


def two_arms():
    """Two arms and an object: three trees, with contacts that can be changed."""
    grasp, q, v = random_grasp(4, ("Rigid", "Point"), joints=("revolute", "universal", "spherical"))
    return grasp, q, v, np.random.default_rng(0).standard_normal(grasp.model.nv)


def test_the_table_of_what_must_be_done_again():
    grasp, q, v, effort = two_arms()
    model = grasp.model
    names = [model.body_names[i] for i, p in enumerate(model.parent) if p < 0]
    first, second, thing = names
    stages = Stages()
    rest = list(grasp.contacts)

    def run(system, *state):
        before = Counter(stages.counts)
        vdot, _ = stages.dynamics(system, *state)
        near(vdot, pp.forward_dynamics(system, *state))
        return changed(stages, before)

    started = run(grasp, q, v, effort)
    wanted = {(step, name): 1 for name in names for step in ("articulated", "free", "upsilon")}
    wanted |= {(step, name): 1 for name in names for step in ("carry", "admittance", "correct")}
    # the object has the frames of both contacts: two paths, three pairs
    assert started == wanted | {("solve", ""): 1, ("carry", thing): 2, ("admittance", thing): 3}

    # nothing changes: only D and E, which depend on everything
    again = {("solve", ""): 1, **{("correct", name): 1 for name in names}}
    assert run(grasp, q, v, effort) == again

    # a constraint of another type at the same frames (A, U): D and E
    looser = pp.System(
        model, [c.Spherical(name="loose", a=rest[0].object, b=rest[0].finger), rest[1]]
    )
    assert run(looser, q, v, effort) == again

    # a row removed: the object and both arms still have rows
    assert run(grasp, q, v, effort) == again

    # a closure frame added (B): the blocks of that frame, on its own tree
    bar = c.Distance(1.0, name="bar", a=(second, (0.1, 0.2, 0.3)), b="world")
    more = pp.System(model, [*rest, bar])
    length = float(np.abs(more.residual(q)).max() + 1.0)
    bar = c.Distance(length, name="bar", a=(second, (0.1, 0.2, 0.3)), b="world")
    more = pp.System(model, [*rest, bar])
    new = run(more, q, v, effort)
    assert new == again | {("carry", second): 1, ("admittance", second): 2}

    # efforts or rates of one tree: its steps A and B
    pushed = effort.copy()
    pushed[model.v_slice(model.joint_names[model.body_index(first)])] += 1.0
    assert run(grasp, q, v, pushed) == again | {("free", first): 1}

    # the coordinates of one tree: everything of that tree, nothing of the others
    at = model.q_slice(model.joint_names[model.body_index(first)])
    bent = q.copy()
    bent[at] = model.integrate(q, np.where(np.arange(model.nv) < 1, 0.01, 0.0))[at]
    moved = run(grasp, bent, v, pushed)
    assert {name for step, name in moved if step not in ("solve", "correct")} == {first}
    assert {step for step, _ in moved} >= {"articulated", "free", "upsilon", "carry", "admittance"}


def test_another_secondary_system_leaves_the_primary_one_as_it_is():
    """Replaced: the arms keep P, D, G, Υ, Λ and steps A, B; the new object has its own."""
    grasp, q, v, effort = two_arms()
    model = grasp.model
    stages = Stages()
    stages.dynamics(grasp, q, v, effort)
    before = Counter(stages.counts)
    thing = grasp.object[0]
    heavier = model.with_body(thing, inertia=pp.SpatialInertia(9.0, (0.1, 0, 0), 0.7))
    other = pp.Grasp(heavier, object=thing, contacts=grasp.contacts)
    vdot, _ = stages.dynamics(other, q, v, effort)
    near(vdot, pp.forward_dynamics(other, q, v, effort))
    executed = changed(stages, before)
    arms = [model.body_names[i] for i, p in enumerate(model.parent) if p < 0][:2]
    for name in arms:
        assert {step for step, tree in executed if tree == name} == {"correct"}
    assert {step for step, tree in executed if tree == thing} >= {"articulated", "free", "upsilon"}
    # the jump at the same instant needs nothing of the trees any more
    before = Counter(stages.counts)
    stages.impulse(other, q, v)
    assert {step for step, _ in changed(stages, before)} == {"solve", "correct"}


def test_a_locked_hinge_changes_its_own_tree_only():
    grasp, q, v, effort = two_arms()
    model = grasp.model
    stages = Stages()
    stages.dynamics(grasp, q, v, effort)
    before = Counter(stages.counts)
    joint = model.joint_names[1]
    locked = model.with_locked(joint, q)
    keep_q = np.delete(np.arange(model.nq), np.arange(model.nq)[model.q_slice(joint)])
    keep_v = np.delete(np.arange(model.nv), np.arange(model.nv)[model.v_slice(joint)])
    held = pp.Grasp(locked, object=grasp.object, contacts=grasp.contacts)
    at, tau_ = q[keep_q], effort[keep_v]
    rates = admissible(held, at, np.random.default_rng(1))
    vdot, _ = stages.dynamics(held, at, rates, tau_)
    near(vdot, pp.forward_dynamics(held, at, rates, tau_))
    executed = changed(stages, before)
    redone = {name for step, name in executed if step in ("articulated", "upsilon")}
    assert redone == {model.body_names[0]}


def test_programs_with_given_quantities_do_not_sweep_for_them():
    arm = pp.examples.seven_joint_arm()
    for x, options in (
        (mass_matrix.inv @ tau, {}),
        (Upsilon, {"mode": "blocks"}),
        (psi @ pick, {"mode": "dense", "points": ["tool"]}),
    ):
        text = str(pp.compile(x, arm, given=GIVEN, **options).explain())
        assert "P(k) =" not in text and "D(k) =" not in text


def test_trees_of_a_forest_are_models_of_their_own():
    rng = np.random.default_rng(0)
    from random_models import random_tree

    forest = random_tree(rng, 9, n_roots=3, frames=True)
    q, v = forest.random_configuration(rng), rng.standard_normal(forest.nv)
    whole = pp.forward_dynamics(forest, q, v, np.zeros(forest.nv))
    seen = 0
    for i, parent in enumerate(forest.parent):
        if parent >= 0:
            continue
        part = forest.with_trees(forest.body_names[i])
        at_q = np.concatenate([q[forest.q_slice(j)] for j in part.joint_names])
        at_v = np.concatenate([v[forest.v_slice(j)] for j in part.joint_names])
        vdot = pp.forward_dynamics(part, at_q, at_v, np.zeros(part.nv))
        exact = np.concatenate([whole[forest.v_slice(j)] for j in part.joint_names])
        near(vdot, exact, 1e-10)
        assert set(part.frames) <= set(forest.frames)
        seen += part.n_bodies
    assert seen == forest.n_bodies
    assert forest.with_trees(forest.body_names) == forest
