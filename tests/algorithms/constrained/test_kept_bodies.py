"""P, D, G kept body by body: the values are those of the whole, the executions those of paths."""

import numpy as np
import pytest
from amounts import seeds
from comparers import close
from numpy.testing import assert_allclose
from random_models import ALL, JOINTS, random_inertia, random_pose, random_tree

import phipsi as pp
from phipsi.algorithms.constrained.stages import ARTICULATED, ArticulatedCache


def inboard(model: pp.Model, body: str) -> set[str]:
    """Bodies between this one and the base."""
    return {model.body_names[k] for k in model.tree.path(model.body_index(body))} - {body}


class Mechanism:
    """A tree that changes, and which bodies have changed or carry a change since they were run."""

    def __init__(self, seed: int, joints=ALL, bodies: int = 9, **options) -> None:
        self.rng = np.random.default_rng(seed)
        self.model = random_tree(self.rng, bodies, joints, n_roots=1 + seed % 2, **options)
        q = self.model.random_configuration(self.rng)
        self.q = {n: q[self.model.q_slice(n)] for n in self.model.joint_names}
        self.locked: set[str] = set()
        self.dirty = set(self.model.body_names)
        self.joints = joints

    def reduced(self) -> tuple[pp.Model, np.ndarray]:
        names = [self.model.body(b).joint_name for b in self.locked]
        model = self.model.with_locked(names, self.q) if names else self.model
        return model, np.concatenate([np.zeros(0), *(self.q[n] for n in model.joint_names)])

    def change(self, what: str) -> None:
        rng, model = self.rng, self.model
        near = {b for k in self.locked for b in inboard(model, k)} | self.locked
        near |= {b for b in model.body_names if inboard(model, b) & self.locked}
        free = [b for b in model.body_names if b not in self.locked]
        choice = {
            "lock": [b for b in model.body_names if b not in near],
            "unlock": sorted(self.locked),
            "inertia": list(model.body_names),
            "placement": list(model.body_names),
        }.get(what, free)
        if not choice:
            return
        body = choice[int(rng.integers(len(choice)))]
        name = model.body(body).joint_name
        self.dirty |= inboard(model, body)
        if what in ("lock", "unlock"):
            self.locked ^= {body}
        elif what == "placement":
            self.model = model.with_body(body, placement=random_pose(rng))
        else:
            self.dirty.add(body)
            if what == "inertia":
                self.model = model.with_body(body, inertia=random_inertia(rng))
            elif what == "armature":
                self.model = model.with_body(body, armature=rng.uniform(0.05, 0.2))
            elif what == "joint":
                kind = self.joints[int(rng.integers(len(self.joints)))]
                self.model = model.with_body(body, joint=JOINTS[kind](rng), armature=0.0)
                self.q[name] = self.model.body(body).joint.random(rng, ())
            elif what == "q":
                self.q[name] = model.body(body).joint.random(rng, ())

    def expected(self) -> set[str]:
        names = set(self.reduced()[0].body_names)
        run = self.dirty & names
        self.dirty -= run
        return run


CHANGES = ("inertia", "placement", "armature", "joint", "q", "lock", "unlock")


def check(kept: ArticulatedCache, mechanism: Mechanism, dense: bool) -> None:
    model, q = mechanism.reduced()
    found, executed = kept.articulated(model, q)
    assert set(executed) == mechanism.expected()
    whole = pp.compile(ARTICULATED, model, mode="blocks")(q)
    for x, y in zip(found, whole, strict=True):
        assert x.shape == y.shape
        close(x, y, 1e-12)
    if not dense:
        return
    for leaf, blocks in zip(ARTICULATED[:2], found, strict=False):
        matrix = pp.evaluate_dense(leaf, model, q)
        for k, name in enumerate(model.body_names):
            at = slice(6 * k, 6 * k + 6) if leaf is ARTICULATED[0] else model.v_slices[k]
            exact = matrix[at, at]
            size = max(1.0, np.abs(exact).max(initial=0))
            here = blocks[k][: len(exact), : len(exact)]
            assert_allclose(here, exact, rtol=0, atol=1e-12 * size, err_msg=name)
    gain = pp.evaluate_dense(ARTICULATED[2], model, q)
    for k in range(model.n_bodies):
        at, width = model.v_slices[k], model.joints[k].nv
        exact = gain[6 * k : 6 * k + 6, at]
        lost = np.linalg.cond(found[1][k, :width, :width])
        assert_allclose(found[2][:, at], exact, rtol=0, atol=1e-11 * lost)


@pytest.mark.parametrize("seed", seeds(8))
def test_random_sequences_of_changes(seed):
    mechanism, kept = Mechanism(seed, armature=seed % 3 == 0), ArticulatedCache()
    check(kept, mechanism, dense=True)
    for step in range(12):
        drawn = mechanism.rng.permutation(CHANGES)[: int(mechanism.rng.integers(0, 5))].tolist()
        for what in drawn:
            if what != "unlock" or "lock" not in drawn:  # together they may be nothing
                mechanism.change(what)
        check(kept, mechanism, dense=step % 3 == 0)


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("seed", range(3))
def test_one_change_at_a_time(seed, what):
    mechanism, kept = Mechanism(seed), ArticulatedCache()
    if what == "unlock":
        check(kept, mechanism, dense=False)
        mechanism.change("lock")
    check(kept, mechanism, dense=False)
    for _ in range(3):
        mechanism.change(what)
        check(kept, mechanism, dense=True)
        check(kept, mechanism, dense=False)  # nothing is left to do


def test_the_same_in_machine_code(monkeypatch):
    monkeypatch.setenv("PHIPSI_BACKEND", "native")
    mechanism, kept = Mechanism(5, joints=("revolute", "prismatic"), bodies=12), ArticulatedCache()
    check(kept, mechanism, dense=True)
    for what in ("inertia", "q", "lock", "placement", "unlock"):
        mechanism.change(what)
        check(kept, mechanism, dense=True)


def test_a_long_chain_costs_its_path_only():
    """No recursion limit, and a change at the base is one body."""
    arm, kept = pp.examples.planar_arm(400), ArticulatedCache()
    q = np.full(400, 0.01)
    kept.articulated(arm, q)
    bent = q.copy()
    bent[0] += 0.1
    (P, _, _), executed = kept.articulated(arm, bent)
    assert executed == ("link1",)
    exact = pp.compile(ARTICULATED, arm, mode="blocks")(bent)[0]
    assert_allclose(P, exact, rtol=1e-12, atol=1e-12)


def test_a_failure_leaves_the_kept_values_as_they_were():
    arm, kept = pp.examples.planar_arm(3), ArticulatedCache()
    q = np.array([0.1, 0.2, 0.3])
    kept.articulated(arm, q)
    empty = pp.SpatialInertia(0.0, (0, 0, 0), 0)
    with pytest.raises(pp.errors.SingularHingeError, match="joint3"):
        kept.articulated(arm.with_body("link3", inertia=empty), q)
    assert kept.articulated(arm, q)[1] == ()
