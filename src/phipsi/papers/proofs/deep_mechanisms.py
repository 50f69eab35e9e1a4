"""Mechanisms as deep as a claim asks for: chains and trees that meet its condition.

`sample_mechanisms` has small ones of all kinds. What a claim says of bodies far from each other is
seen on these: chains of joints with one dof and of all kinds, with rotors and without, trees whose
bodies have several children, and, for inverses that exist where every joint moves all ways only,
chains of free joints. With flexible bodies and with loops likewise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from phipsi import constraints
from phipsi.core.rewrite import Identity, is_about_rows
from phipsi.papers.proofs.claim_reach import reach_of
from phipsi.papers.proofs.sample_mechanisms import (
    JOINT_KINDS,
    FlexibleBody,
    SampleMechanism,
    built,
    closed,
    flexible,
    flexible_samples,
    rigid_body,
    samples,
    samples_with_rows,
    two_modes,
)

MOST_IN_A_ROW, MOST_IN_DIGITS = 32, 10
"""Bodies in a row of the deepest mechanisms, and where square roots are taken."""
_COVERED = 4  # bodies in a row that the small mechanisms have
_CHILDREN = 4  # of one body, at most
_OTHERS = ["universal", "revolute", "spherical", "prismatic", "cylindrical", "helical", "planar"]


class Wanted(tuple[str, ...]):
    """The parts of a condition, and the mechanisms that they leave."""

    __slots__ = ()

    @staticmethod
    def of(condition: str) -> Wanted:
        """Of the text of a condition."""
        return Wanted(filter(None, condition.split(", ")))

    def joints(self, n: int, usual: Sequence[str]) -> list[str]:
        """So many joints that meet the condition, of the usual kinds where it allows them."""
        kinds = next((kinds for name, kinds in JOINT_KINDS.items() if name in self), usual)
        found = [kinds[k % len(kinds)] for k in range(n)]
        return ["free", *found[1:]] if "free root" in self else found

    def rotors(self, bodies: Sequence[int]) -> tuple[int, ...]:
        """The bodies with rotors."""
        return () if "Jr = 0" in self else tuple(bodies)


@cache
def deep_samples(in_a_row: int, condition: str) -> tuple[SampleMechanism, ...]:
    """Chains and a tree with so many bodies in a row; none if the small mechanisms have them."""
    if in_a_row <= _COVERED:
        return ()
    want, n = Wanted.of(condition), min(_rounded(in_a_row), MOST_IN_A_ROW)
    chain = range(-1, n - 1)
    one_dof = ["revolute", "prismatic", "revolute", "helical"]
    found = [
        SampleMechanism(built(chain, want.joints(n, ["revolute"])), hosts=(n - 1,)),
        SampleMechanism(
            built(chain, want.joints(n, one_dof), want.rotors(range(0, n, 2))),
            hosts=(n - 1, n // 2, 0),
        ),
        *_trees(n, want),
    ]
    return tuple(one for one in found if not one.unmet(condition))


def _rounded(in_a_row: int) -> int:
    """An even number, so that claims that ask for nearly the same share the work."""
    return in_a_row + in_a_row % 2


def _trees(n: int, want: Wanted) -> Iterator[SampleMechanism]:
    """Several children on the first body, and on one along the way; two bodies on the world."""
    if "serial" in want:
        return
    parents = list(range(-1, n - 1))
    parents += [0] * min(n // 2, _CHILDREN - 1) + [n // 2] * 2
    tips = (n - 1, n, len(parents) - 1)
    parents += [] if "one root" in want else [-1, len(parents)]
    kinds = want.joints(len(parents), _OTHERS)
    model = built(parents, kinds, want.rotors(range(1, len(parents), 3)))
    yield SampleMechanism(model, hosts=tuple(model.body_index(f"b{k}") for k in tips))


@cache
def full_samples(in_a_row: int, condition: str) -> tuple[SampleMechanism, ...]:
    """Chains of free joints, without rotors and with some."""
    n = min(_rounded(max(in_a_row, 2)), MOST_IN_A_ROW)
    plain, some, all_of_them = (), tuple(range(0, n, 2)), tuple(range(n))
    found = [
        SampleMechanism(built(range(-1, n - 1), ["free"] * n, rotors), hosts=(n - 1,))
        for rotors in (plain, some, all_of_them)
    ]
    return tuple(one for one in found if not one.unmet(condition))


@cache
def deep_samples_with_rows(in_a_row: int, condition: str) -> tuple[SampleMechanism, ...]:
    """The chains with their last body on a line, and with two joints geared; a tree with a loop."""
    want, n = Wanted.of(condition), min(_rounded(max(in_a_row, _COVERED)), MOST_IN_A_ROW)
    hand, world = (f"b{n - 1}", (0.5, 0.25, 0)), ("world", (1, 0.5, 0.25))
    kinds = want.joints(n, ["revolute", "prismatic", "revolute", "helical"])
    found: list[SampleMechanism] = []
    for rotors in {(), want.rotors(range(0, n, 2))}:
        model = built(range(-1, n - 1), kinds, rotors)
        line = constraints.PointOnLine((0, 0.6, 0.8), name="line", a=hand, b=world)
        gear = constraints.Coupling(
            name="gear", joints=[f"j{n - 2}", f"j{n - 1}"], coefficients=(2, 1)
        )
        found += [closed(model, line), closed(model, gear)]
    if "serial" not in want:
        parents = [*range(-1, n - 1), 0, *range(n, 2 * n - 3)]
        other = (f"b{len(parents) - 1}", (0, 0.5, 0.25))
        model = built(parents, want.joints(len(parents), ["revolute"]), want.rotors((0, n)))
        ball = constraints.Spherical(name="ball", a=hand, b=other)
        found.append(closed(model, ball))
    return tuple(one for one in found if not one.unmet(condition))


@cache
def deep_flexible_samples(in_a_row: int, condition: str) -> tuple[SampleMechanism, ...]:
    """Chains with bodies that deform, on ports of others."""
    want, n = Wanted.of(condition), min(_rounded(max(in_a_row, 2)), MOST_IN_A_ROW)
    kinds = want.joints(n, ["revolute", "prismatic", "revolute", "helical"])
    rotor = 0.0 if "Jr = 0" in want else 0.5
    plan: list[FlexibleBody] = []
    for k, kind in enumerate(kinds):  # two that deform, one that does not, …
        port = None if k % 3 == 0 else "tip"
        inertia = rigid_body() if k % 3 == 2 else two_modes()
        plan.append((k - 1, kind, port, inertia, rotor * (k % 2)))
    return tuple(one for one in (flexible(plan),) if not one.unmet(condition))


def pool_of(
    claim: Identity, seed: int, modes: bool, most: int = MOST_IN_A_ROW
) -> tuple[list[SampleMechanism], list[SampleMechanism]]:
    """The small mechanisms of all kinds, and the deep ones, that a claim is to be tried on."""
    condition, n = claim.condition, min(reach_of(claim).in_a_row, most)
    if is_about_rows(claim):
        small, deep = samples_with_rows(), deep_samples_with_rows(n, condition)
    else:
        small, deep = samples(seed, condition), deep_samples(n, condition)
    if modes:
        small, deep = (*small, *flexible_samples()), (*deep, *deep_flexible_samples(n, condition))
    return [one for one in small if not one.unmet(condition)], list(deep)


def shorter(one: SampleMechanism, in_a_row: int) -> SampleMechanism | None:
    """The first bodies of a chain, with its first joints and rotors; None if it is none."""
    model = one.model
    if model.parent != tuple(range(-1, model.n_bodies - 1)) or one.closures or model.is_flexible:
        return None
    kinds = [x.kind.partition(" ")[0] for x in model.joints[:in_a_row]]
    rotors = [k for k in range(in_a_row) if model.armature[model.v_slices[k]].any()]
    hosts = None if one.hosts is None else (in_a_row - 1,)
    return replace(one, model=built(range(-1, in_a_row - 1), kinds, rotors), hosts=hosts)
