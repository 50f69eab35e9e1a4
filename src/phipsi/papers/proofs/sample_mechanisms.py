"""Mechanisms on which an identity is proved if no model is given: all kinds, small ones first.

Only the tree, the joint types and the places of rotors and points matter to a proof, which draws
all numbers. The numbers here are short ones, for counterexamples that can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from phipsi import constraints
from phipsi.core.model import (
    ClosureSet,
    Composite,
    Cylindrical,
    FlexibleInertia,
    Free,
    Helical,
    Joint,
    Model,
    ModelBuilder,
    Planar,
    PointSet,
    Pose,
    Prismatic,
    Revolute,
    SpatialInertia,
    Spherical,
    Translation,
    Universal,
    closure_set,
)
from phipsi.core.rewrite import unmet
from phipsi.papers.proofs.digits import Digits
from phipsi.papers.proofs.exact_mechanism import ExactMechanism
from phipsi.papers.proofs.proof_state import POINTS, ProofState, drawing
from phipsi.papers.proofs.residues import field, random_prime

Axis = tuple[float, float, float]

_AXES: list[Axis] = [(0, 0, 1), (0, 1, 0), (0.6, 0, 0.8), (1, 0, 0)]
_OFFSETS = [(0.5, 0, 0.25), (0, 0.5, 0.25), (0.25, -0.5, 0), (-0.5, 0.25, 0.5)]
_CENTRES = [(0.25, 0.5, -0.25), (0.5, -0.25, 0), (0, 0.25, 0.5)]
_MOMENTS = [(0.25, 0.5, 0.375), (0.5, 0.25, 0.5), (0.375, 0.5, 0.25)]
_ROTORS = [0.5, 0.25, 0.75]
_JOINTS = {
    "revolute": Revolute,
    "prismatic": Prismatic,
    "helical": lambda axis: Helical(axis, 0.25),
    "cylindrical": Cylindrical,
    "universal": lambda axis: Universal(axis, (0, 0.8, 0.6)),
    "planar": lambda axis: Planar((0.8, 0, -0.6), (0, 1, 0)),
    "spherical": lambda axis: Spherical(),
    "translation": lambda axis: Translation(),
    "free": lambda axis: Free(),
    "composite": lambda axis: Composite([Revolute(axis), Prismatic((0.6, 0.8, 0))]),
}


@dataclass(frozen=True, eq=False)
class SampleMechanism:
    """A mechanism, the loop closures on it, and the bodies that its points are on.

    Without `hosts` three points are on random bodies. `constraints` are those of `closures`.
    """

    model: Model
    closures: ClosureSet | None = None
    hosts: tuple[int, ...] | None = None
    constraints: tuple[constraints.Constraint, ...] = ()

    @lru_cache(maxsize=512)  # noqa: B019  (samples are few, and live as long as the process)
    def state(self, seed: int, i: int) -> ProofState:
        """The i-th random point of the mechanism, modulo a random prime."""
        rng = np.random.default_rng((seed, i, 7))
        kind = field(random_prime(rng), seed)
        mechanism = ExactMechanism(self.model, kind, drawing(kind, rng))
        # which joints are prescribed is a pattern: random ones, none of them, all, then random
        pattern = {"free": np.full(self.model.nv, 2.0 - i)} if i in (1, 2) else None
        return ProofState(mechanism, (seed, i, 7), self.closures, pattern, hosts=self.hosts)

    @property
    def points(self) -> PointSet:
        """As many points as states have, at the origins of their bodies."""
        if self.closures is not None:
            return self.closures.points
        hosts = (0,) * POINTS if self.hosts is None else self.hosts
        return PointSet.of_frames(map(str, hosts), [(k, Pose()) for k in hosts], "world")

    def digits_state(self, seed: int) -> ProofState:
        """A random state in long decimals; use it within `long_decimals`."""
        draw = drawing(Digits, np.random.default_rng((seed, 0, 8)))
        mechanism = ExactMechanism(self.model, Digits, draw)
        return ProofState(mechanism, (seed, 0, 8), self.closures, hosts=self.hosts)

    def unmet(self, condition: str) -> str:
        """Why the mechanism does not meet a condition; "" if it does."""
        if self.closures is not None and "no loops" in condition:
            return "it has loops"
        return unmet(condition, self.model)

    @property
    def in_a_row(self) -> int:
        """How many bodies the longest path from the world has."""
        return max(self.model.tree.depth, default=-1) + 1

    @staticmethod
    def of(model: Model) -> SampleMechanism:
        """A model, or a system with its constraints."""
        if not model.n_rows:
            return SampleMechanism(model.model)
        return SampleMechanism(model.model, model.closures, constraints=tuple(model.constraints))

    def __str__(self) -> str:
        return describe(self.model)


def describe(model: Model) -> str:
    """The bodies and joints of a mechanism in words.

    >>> import phipsi as pp
    >>> print(describe(pp.examples.planar_arm(2)))
    2 bodies: link1 on the world (revolute), link2 on link1 (revolute)
    """
    parts: list[str] = []
    for k, p in enumerate(model.parent):
        where = "the world" if p < 0 else model.body_names[p]
        rotor = " with rotor" if model.armature[model.v_slices[k]].any() else ""
        parts.append(f"{model.body_names[k]} on {where} ({model.joints[k].kind}{rotor})")
    count = f"{model.n_bodies} {'body' if model.n_bodies == 1 else 'bodies'}"
    return f"{count}: {', '.join(parts)}" if parts else count


def built(parents: Sequence[int], joints: Sequence[str], rotors: Sequence[int] = ()) -> Model:
    """A model with short numbers; `rotors` are the bodies whose joints have one."""
    builder = ModelBuilder(gravity=(1, 2, -10))
    for k, (p, kind) in enumerate(zip(parents, joints, strict=True)):
        joint: Joint = _JOINTS[kind](_AXES[k % 4])
        builder.add_body(
            f"b{k}",
            parent="world" if p < 0 else f"b{p}",
            joint=joint,
            placement=Pose(translation=_OFFSETS[k % 4]),
            inertia=SpatialInertia(1.0 + k % 3, _CENTRES[k % 3], _MOMENTS[k % 3]),
            joint_name=f"j{k}",
            armature=_ROTORS[k % 3] if k in rotors else 0.0,
        )
    return builder.build()


_CHAIN2, _CHAIN3, _FORK = (-1, 0), (-1, 0, 1), (-1, 0, 0)
_FIXED: list[tuple[tuple[int, ...], str, tuple[int, ...]]] = [
    # parents       joints                                    rotors on bodies
    ((-1,),         "revolute",                               ()),
    ((-1,),         "revolute",                               (0,)),
    ((-1,),         "prismatic",                              ()),
    ((-1,),         "spherical",                              ()),
    ((-1,),         "free",                                   ()),
    ((-1,),         "free",                                   (0,)),
    (_CHAIN2,       "revolute revolute",                      ()),
    (_CHAIN2,       "revolute revolute",                      (0, 1)),
    (_CHAIN2,       "prismatic prismatic",                    ()),
    (_CHAIN2,       "revolute prismatic",                     ()),
    (_CHAIN2,       "helical universal",                      (1,)),
    (_CHAIN2,       "free revolute",                          ()),
    (_CHAIN2,       "free free",                              ()),
    (_CHAIN2,       "free free",                              (1,)),
    ((-1, -1),      "revolute revolute",                      ()),
    (_CHAIN3,       "revolute revolute revolute",             ()),
    (_CHAIN3,       "revolute helical prismatic",             (1,)),
    (_FORK,         "revolute revolute revolute",             ()),
    (_FORK,         "prismatic prismatic prismatic",          (0, 2)),
    (_FORK,         "free revolute spherical",                (1,)),
    (_CHAIN3,       "planar cylindrical translation",         ()),
    ((-1, 0, -1, 2), "universal composite free prismatic",    (0, 3)),
    ((-1, 0, 1, 2), "revolute revolute revolute revolute",    (2,)),
    ((-1, 0, 0, 0), "revolute revolute prismatic helical",    (2,)),
    ((-1, 0, 0, 1, 1), "revolute prismatic helical revolute revolute", (0, 1, 2, 3, 4)),
    ((-1, 0, 0, 1, 1, 2), "free planar universal spherical cylindrical composite", ()),
]  # fmt: skip
_RANDOM = 3  # further trees, of three to six bodies


@cache
def samples(seed: int = 0, condition: str = "") -> tuple[SampleMechanism, ...]:
    """Chains, trees, forests and free bases of all joint types, with rotors and without.

    With a condition, those of them that meet it, and larger ones that were drawn to meet it.
    """
    if condition:
        found = [one for one in samples(seed) if not one.unmet(condition)]
        return (*found, *_meeting(condition, seed))
    fixed = [SampleMechanism(built(p, joints.split(), rotors)) for p, joints, rotors in _FIXED]
    apart = [  # so few points, on bodies so free, that they move independently
        SampleMechanism(built((-1, 0), ["free", "spherical"]), hosts=(1,)),
        SampleMechanism(
            built((-1, 0, 1), ["spherical", "prismatic", "spherical"], (1,)), hosts=(2,)
        ),
        SampleMechanism(built((-1, 0, 0), ["free", "free", "free"]), hosts=(0, 1, 2)),
        SampleMechanism(built((-1, 0, 0), ["free", "free", "free"], (0, 1, 2)), hosts=(0, 1, 2)),
    ]
    found = [*fixed, *apart, *_random(seed)]
    return tuple(sorted(found, key=lambda one: one.model.n_bodies))


def _random(seed: int) -> Iterator[SampleMechanism]:
    rng = np.random.default_rng((seed, 11))
    for _ in range(_RANDOM):
        n = int(rng.integers(3, 7))
        parents = [int(rng.integers(-1, k)) for k in range(n)]
        joints = [str(kind) for kind in rng.choice(list(_JOINTS), n)]
        yield SampleMechanism(built(parents, joints, [k for k in range(n) if rng.random() < 0.4]))


def _meeting(condition: str, seed: int) -> Iterator[SampleMechanism]:
    """A tree of four bodies and one of five, four of them in a row, that meet a condition."""
    rng = np.random.default_rng((seed, 12))
    parts = condition.split(", ")
    kinds = next((kinds for name, kinds in JOINT_KINDS.items() if name in parts), list(_JOINTS))
    for parents in ((-1, 0, 1, 2), (-1, 0, 1, 2, 1), (-1, 0, 1, 2, -1)):
        joints = [str(kind) for kind in rng.choice(kinds, len(parents))]
        joints[0] = "free" if "free root" in parts else joints[0]
        rotors = () if "Jr = 0" in parts else (0, 2)
        one = SampleMechanism(built(parents, joints, rotors))
        if not one.unmet(condition):
            yield one


JOINT_KINDS = {
    "revolute": ["revolute"],
    "prismatic": ["prismatic"],
    "one dof": ["revolute", "prismatic", "helical"],
}
"""The kinds of joints that a condition leaves."""


# a body with joint: its parent, the kind, the port of the parent, its inertia, its rotor
FlexibleBody = tuple[int, str, str | None, FlexibleInertia | SpatialInertia, float]


def flexible(plan: Sequence[FlexibleBody]) -> SampleMechanism:
    """A tree with bodies that deform."""
    builder = ModelBuilder(gravity=(1, 2, -10))
    for k, (parent, kind, port, inertia, rotor) in enumerate(plan):
        joint: Joint = _JOINTS[kind](_AXES[k % 4])
        builder.add_body(
            f"b{k}", parent="world" if parent < 0 else f"b{parent}", joint=joint, port=port,
            placement=Pose(translation=_OFFSETS[k % 4]), inertia=inertia, joint_name=f"j{k}",
            armature=rotor,
        )  # fmt: skip
    return SampleMechanism(builder.build())


@cache
def two_modes() -> FlexibleInertia:
    """A beam with two modes and a port at its tip."""
    return FlexibleInertia.beam(1.0, 1.0, EI=(1.0, np.inf), modes=0)


def rigid_body() -> SpatialInertia:
    """A body that does not deform."""
    return SpatialInertia(2.0, _CENTRES[0], _MOMENTS[0])


@cache
def flexible_samples() -> tuple[SampleMechanism, ...]:
    """Trees with bodies that deform: at the root, inside and at tips, with loads on their ports.

    A proof draws all numbers of a body; only how many modes and ports it has is that of a beam.
    """
    beam, rigid = two_modes(), rigid_body()
    bent = FlexibleInertia.beam(1.0, 1.0, EI=(1.0, np.inf), modes=1)  # three
    plans: list[list[FlexibleBody]] = [
        [(-1, "revolute", None, beam, 0.0)],
        [(-1, "revolute", None, beam, 0.25), (0, "revolute", "tip", rigid, 0.0)],
        [(-1, "free", None, bent, 0.0), (0, "universal", "tip", rigid, 0.5)],
        [(-1, "spherical", None, rigid, 0.0), (0, "prismatic", None, beam, 0.0),
         (1, "revolute", "tip", beam, 0.5), (1, "helical", "", rigid, 0.0)],
    ]  # fmt: skip
    return tuple(map(flexible, plans))


@cache
def samples_with_rows() -> tuple[SampleMechanism, ...]:
    """Mechanisms with loops, whose constraint rows are independent."""
    chain = built((-1, 0, 1), ["revolute", "revolute", "revolute"])
    rotors = built((-1, 0, 1), ["revolute", "prismatic", "revolute"], (0, 1, 2))
    arms = built((-1, 0, 1, 0, 3), ["free", "revolute", "revolute", "revolute", "revolute"])
    geared = built((-1, 0, 1, 0), ["free", "revolute", "universal", "prismatic"], (1, 3))
    wrist = built((-1, 0, 1), ["spherical", "prismatic", "spherical"])
    grasp = built((-1, 0, -1), ["universal", "cylindrical", "free"])
    hand, other = ("b2", (0.5, 0.25, 0)), ("b4", (0, 0.5, 0.25))
    world = ("world", (1, 0.5, 0.25))
    return (
        closed(chain, constraints.PointOnLine((0, 0.6, 0.8), name="line", a=hand, b=world)),
        closed(rotors, constraints.Coupling(name="gear", joints=["j0", "j2"], coefficients=(2, 1))),
        closed(wrist, constraints.Revolute((0, 0, 1), name="pin", a=hand, b=world)),
        closed(
            grasp,
            constraints.Planar((0, 0, 1), name="face", a=("b1", (0.25, 0, 0.5)), b=hand),
            constraints.Universal((1, 0, 0), (0, 1, 0), name="cross", a="b2", b=world),
        ),
        closed(geared, constraints.Spherical(name="ball", a=hand, b=("b3", (0, 0.5, 0.25)))),
        closed(arms, constraints.Spherical(name="ball", a=hand, b=other)),
        closed(arms, constraints.Weld(name="weld", a=hand, b=other)),
    )


def closed(model: Model, *joined: constraints.Constraint) -> SampleMechanism:
    """A mechanism with loops."""
    closures = closure_set([one.closure(model) for one in joined])
    return SampleMechanism(model, closures, constraints=joined)
