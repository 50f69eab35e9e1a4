"""The table of theory/closed-chains 11, row by row: what a change costs, counted step by step.

| change                        | P, D, G        | A, B | Υ | Λ                    | D | E |
|-------------------------------|----------------|------|---|----------------------|---|---|
| A or U                        | –              | –    | – | –                    | X | X |
| closure point moved or added  | –              | –    | – | blocks of that point | X | X |
| secondary system replaced     | S only         | S    | S | S                    | X | X |
| tau, v of the primary system  | –              | P    | – | –                    | X | X |
| inertia of body k             | path k → base  | X    | X | X                    | X | X |
| coordinates of body k         | path k → base  | X    | X | X                    | X | X |
| joint k locked or let go      | inboard of k   | X    | X | X                    | X | X |

X is the tree with body k; other trees execute step E only.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from amounts import seeds
from comparers import close
from random_models import random_inertia
from random_systems import admissible, random_system

import phipsi as pp
from phipsi.algorithms.constrained.stages import Stages
from phipsi.constraints import Distance

KINDS = ("Spherical", "PointOnLine", "Distance", "Universal", "Distance", "PointOnLine")
SEEDS = seeds(6)


class Case:
    """A system of three trees at a state, with stages that have seen it."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 1])
        self.system, self.q = random_system(
            seed, 14, KINDS, n_roots=3, spare=8, independent=True, armature=seed % 2 == 1
        )
        model = self.model = self.system.model
        self.v = admissible(self.system, self.q, self.rng)
        self.tau = self.rng.standard_normal(model.nv)
        self.stages = Stages()
        self.first = self.stages.dynamics(self.system, self.q, self.v, self.tau)

    def run(self, system, q=None, v=None, tau=None) -> Counter:
        """What is executed for a system and state; its accelerations are right."""
        given = (self.q if q is None else q, self.v if v is None else v)
        effort = self.tau if tau is None else tau
        before = Counter(self.stages.counts)
        self.compare(self.stages.dynamics(system, *given, effort), system, *given, effort)
        return self.stages.counts - before

    def compare(self, found, system, q, v, effort) -> None:
        """Accelerations and loads found are right."""
        (vdot, f), given = found, (q, v)
        exact = pp.forward_dynamics(system, *given, effort)
        close(vdot, exact, 1e-8)
        rows = system.jacobian(given[0])  # rows may depend on each other: the loads are unique
        load = rows.T @ pp.constraint_forces(system, *given, effort)
        close(rows.T @ f, load, 1e-8)

    def moved(self, *bodies: str) -> np.ndarray:
        """Other coordinates of the joints of these bodies, the others to the last bit."""
        q = self.q.copy()
        elsewhere = self.model.integrate(q, np.full(self.model.nv, 0.1))
        for body in bodies:
            at = self.model.q_slice(self.model.body(body).joint_name)
            q[at] = elsewhere[at]
        return q

    def body(self, *, root: bool) -> str:
        """A body of the primary tree with most bodies, the root or one that is not."""
        tree = self.model.tree
        first = max(tree.roots, key=lambda k: tree.size[k])
        inside = [first] if root else list(tree.subtree(first))[1:]
        return self.model.body_names[inside[int(self.rng.integers(len(inside)))]]


def root_of(model: pp.Model, body: str) -> str:
    return model.body_names[model.tree.path(model.body_index(body))[-1]]


def frames(system: pp.System) -> Counter:
    """Number of different closure frames on each tree."""
    where = system.closures.points
    seen = {
        (k, where.rotation[p].tobytes(), where.offset[p].tobytes())
        for p, k in enumerate(where.body)
        if k >= 0
    }
    return Counter(root_of(system.model, system.model.body_names[k]) for k, *_ in seen)


def always(system: pp.System) -> Counter:
    """Steps D and E."""
    return Counter({("solve", ""): 1, **{("correct", name): 1 for name in frames(system)}})


def whole(system: pp.System, root: str, bodies) -> Counter:
    """Everything of one tree, with these bodies in the articulated sweep."""
    n = frames(system)[root]
    steps = Counter({("free", root): 1})
    if n:
        steps.update({("upsilon", root): 1, ("carry", root): n})
        steps["admittance", root] = n * (n + 1) // 2
    return steps + Counter(("articulated", body) for body in bodies)


def path(model: pp.Model, body: str) -> list[str]:
    return [model.body_names[k] for k in model.tree.path(model.body_index(body))]


@pytest.mark.parametrize("seed", SEEDS)
def test_at_first_everything_is_executed_once_and_then_nothing_but_D_and_E(seed):
    case = Case(seed)
    wanted = always(case.system)
    for k in case.model.tree.roots:
        root = case.model.body_names[k]
        bodies = [case.model.body_names[i] for i in case.model.tree.subtree(k)]
        wanted += whole(case.system, root, bodies)
    assert case.stages.counts == wanted
    case.compare(case.first, case.system, case.q, case.v, case.tau)
    assert case.run(case.system) == always(case.system)


@pytest.mark.parametrize("seed", SEEDS)
def test_other_rows(seed):
    case = Case(seed)
    model, listed = case.model, list(case.system.constraints)
    first = next(c for c in listed if isinstance(c, pp.constraints.Spherical | Distance))
    listed.remove(first)
    kind = pp.constraints.PointOnLine if isinstance(first, Distance) else pp.constraints.Planar
    other = pp.System(model, [kind((0, 0, 1), name="other", a=first.a, b=first.b), *listed])
    assert case.run(other) == always(other)
    fewer = pp.System(model, listed)
    assert case.run(fewer) == always(fewer)
    assert case.run(case.system) == always(case.system)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_closure_point_moved_or_added(seed):
    case = Case(seed)
    body = case.body(root=False)
    root = root_of(case.model, body)
    bar = Distance(1.0, name="bar", a=(body, (0.1, 0.2, 0.3)), b="world")
    for offset in ((0.1, 0.2, 0.3), (0.1, 0.25, 0.3)):
        bar = replace(bar, a=(body, offset))
        more = pp.System(case.model, [*case.system.constraints, bar])
        block = Counter({("carry", root): 1, ("admittance", root): frames(more)[root]})
        if not frames(case.system)[root]:
            block["upsilon", root] = 1 if offset[1] == 0.2 else 0
        assert case.run(more) == always(more) + block


@pytest.mark.parametrize("seed", SEEDS)
def test_another_secondary_system(seed):
    case = Case(seed)
    root = case.model.body_names[case.model.tree.roots[-1]]
    bodies = [n for n in case.model.body_names if root_of(case.model, n) == root]
    heavier = case.model
    for name in bodies:
        heavier = heavier.with_body(name, inertia=random_inertia(case.rng))
    other = pp.System(heavier, case.system.constraints, secondary=bodies)
    assert case.run(other) == always(other) + whole(other, root, bodies)
    # the jump at the same instant needs nothing of the trees any more
    before = Counter(case.stages.counts)
    after, p = case.stages.impulse(other, case.q, case.tau)
    exact, wanted = pp.constraint_impulse(other, case.q, case.tau)
    close(after, exact, 1e-8)
    close(p, wanted, 1e-7)
    assert case.stages.counts - before == always(other)


@pytest.mark.parametrize("what", ["v", "tau"])
@pytest.mark.parametrize("seed", SEEDS)
def test_rates_or_efforts_of_one_tree(seed, what):
    case = Case(seed)
    body = case.body(root=False)
    at = case.model.v_slice(case.model.body(body).joint_name)
    new = (case.v if what == "v" else case.tau).copy()
    new[at] += 0.1
    step = Counter({("free", root_of(case.model, body)): 1})
    assert case.run(case.system, **{what: new}) == always(case.system) + step


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_inertia_of_a_body(seed, root):
    case = Case(seed)
    body = case.body(root=root)
    other = pp.System(
        case.model.with_body(body, inertia=random_inertia(case.rng)), case.system.constraints
    )
    inward = path(case.model, body)
    assert case.run(other) == always(other) + whole(other, inward[-1], inward)


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_coordinates_of_a_body(seed, root):
    case = Case(seed)
    model, body = case.model, case.body(root=root)
    inward = path(model, body)
    wanted = always(case.system) + whole(case.system, inward[-1], inward)
    assert case.run(case.system, q=case.moved(body)) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_several_bodies_at_once(seed):
    """The union of their paths, once."""
    case = Case(seed)
    model = case.model
    bodies = [case.body(root=False) for _ in range(3)]
    heavier = model.with_body(bodies[0], inertia=random_inertia(case.rng))
    other = pp.System(heavier, case.system.constraints)
    union = {name for body in bodies for name in path(model, body)}
    wanted = always(other) + whole(other, root_of(model, bodies[0]), union)
    assert case.run(other, q=case.moved(*bodies[1:])) == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_a_joint_locked_and_let_go(seed):
    case = Case(seed)
    model, body = case.model, case.body(root=False)
    joint = model.body(body).joint_name
    held = case.system.with_locked(joint, case.q)
    keep_q = np.delete(np.arange(model.nq), np.r_[model.q_slice(joint)])
    keep_v = np.delete(np.arange(model.nv), np.r_[model.v_slice(joint)])
    inboard = path(model, body)[1:]
    state = {"q": case.q[keep_q], "v": case.v[keep_v], "tau": case.tau[keep_v]}
    assert case.run(held, **state) == always(held) + whole(held, inboard[-1], inboard)
    # let go: the body still has its P, D, G
    again = case.run(case.system)
    assert again == always(case.system) + whole(case.system, inboard[-1], inboard)
