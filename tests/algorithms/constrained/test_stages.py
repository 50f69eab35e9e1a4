"""Steps A–F with reuse are right; test_stages_table.py counts how often they are executed."""

import numpy as np
import pytest
from amounts import seeds
from comparers import close as near
from known_systems import pinned_arm, twin_gears
from random_models import random_tree
from random_systems import KINDS, admissible, kkt, random_system

import phipsi as pp
from phipsi.algorithms.constrained.stages import GIVEN, Stages
from phipsi.operators import B as pick, Upsilon, mass_matrix, psi, tau


@pytest.mark.parametrize("seed", seeds(6))
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


def test_systems_hand_their_stages_on():
    """The counter is reached from a system, and shared by those made from it."""
    system = pinned_arm(4, "Spherical")
    q, rest = system.assemble([1.0, -1.0, -0.5, -1.5]), np.zeros(4)
    system.stages.dynamics(system, q, rest, rest)
    assert system.stages.counts["articulated", "link4"] == 1
    held = system.with_locked("joint3", q)
    assert held.stages is system.stages
    vdot, _ = held.stages.dynamics(held, np.delete(q, 2), np.zeros(3), np.zeros(3))
    near(vdot, pp.forward_dynamics(held, np.delete(q, 2), np.zeros(3), np.zeros(3)))
    executed = [system.stages.counts["articulated", f"link{i}"] for i in (1, 2, 3, 4)]
    assert executed == [2, 2, 1, 1]
    arm, pins = system.model, system.constraints
    assert pp.System(arm, pins).stages is not system.stages
    assert pp.System(arm, pins, stages=system.stages).stages is system.stages


def test_trees_without_change_keep_their_programs():
    """Another object: the arms are the same models, nothing is compiled for them again."""
    box = pp.examples.two_finger_grasp()
    stages, rest = box.stages, np.zeros(box.model.nv)
    stages.dynamics(box, box.model.neutral(), rest, rest)
    heavier = box.model.with_body("box", inertia=pp.SpatialInertia(9.0, (0.1, 0, 0), 0.7))
    other = pp.grasping.Grasp(heavier, object="box", contacts=box.contacts, stages=stages)
    stages.dynamics(other, heavier.neutral(), rest, rest)
    before, after = (m.cache[Stages] for m in (box.model, heavier))
    assert before[0].model is after[0].model and before[1].model is after[1].model
    assert before[2].model is not after[2].model


def test_rates_of_a_momentum():
    rng = np.random.default_rng(3)
    model = random_tree(rng, 9, n_roots=2, armature=True)
    q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    stages = Stages()
    near(stages.rates(model, q, pp.mass_matrix(model, q) @ v), v, 1e-8)
    again = stages.counts.copy()
    stages.rates(model, q, pp.mass_matrix(model, q) @ v)
    assert stages.counts == again


def test_programs_with_given_quantities_do_not_sweep_for_them():
    arm = pp.examples.seven_joint_arm()
    for x, options in (
        (mass_matrix.inv @ tau, {}),
        (Upsilon, {"mode": "blocks"}),
        (psi @ pick, {"mode": "dense", "points": ["tool"]}),
    ):
        text = str(pp.compile(x, arm, inputs=GIVEN, **options).explain())
        assert "P(k) =" not in text and "D(k) =" not in text


def test_trees_of_a_forest_are_models_of_their_own():
    rng = np.random.default_rng(0)
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


def test_contradictory_rows_are_refused_as_by_programs():
    """Rows that ask for different things used to be dropped silently here."""
    system = twin_gears()
    q, v = np.array([0.1, 0.1, 0.3]), np.array([1.0, 1.0, 0.0])
    after, _ = system.stages.impulse(system, q, v, [0.5, 1.0])
    assert after[0] - after[1] == pytest.approx(0.5)
    loop = r"'twin.ratio' of 'twin' between 'link1', the world, 'link2'"
    with pytest.raises(pp.errors.SingularMatrixError, match=loop):
        system.stages.impulse(system, q, v, [0.5, 0.0])
    with pytest.raises(pp.errors.SingularMatrixError, match=loop):
        pp.constraint_impulse(system, q, v, row_velocity=[0.5, 0.0])
