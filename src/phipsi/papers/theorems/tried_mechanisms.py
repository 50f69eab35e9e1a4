"""An identity on the sample mechanisms: where it fails, how far it was tried, its condition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from phipsi.core.expressions import SELECTABLE
from phipsi.core.operators import parse
from phipsi.core.rewrite import CONDITIONS, Identity, is_about_rows
from phipsi.errors import InputError, SingularMatrixError
from phipsi.papers.proofs.claim_decision import (
    GOAL,
    Verdict,
    compared,
    equal_sides,
    modular,
    points_needed,
)
from phipsi.papers.proofs.claim_reach import reach_of
from phipsi.papers.proofs.deep_mechanisms import MOST_IN_DIGITS, full_samples, pool_of, shorter
from phipsi.papers.proofs.digits import long_decimals
from phipsi.papers.proofs.exact_array import NotRational
from phipsi.papers.proofs.proof_state import ProofState
from phipsi.papers.proofs.sample_mechanisms import SampleMechanism

_TAU = parse("tau")
_ENOUGH = 3  # mechanisms on which an exact proof has to succeed
_IN_DIGITS = 5  # small mechanisms, where square roots are taken
_DEEP_IN_DIGITS = 2
_MOST_WORK = 200  # points times bodies, for a proof on one deep mechanism
_LESS = (24, 16, 12, 8, 6)  # bodies in a row, where that is too little
_PATTERNS = 8  # points, for a claim that reads which joints are prescribed
_TELLING = 2  # mechanisms with several bodies that a condition has to be seen on


class Tried:
    """An identity on the sample mechanisms."""

    def __init__(
        self, identity: Identity, seed: int, any_efforts: bool, modes: bool = False
    ) -> None:
        self._identity, self._seed, self._modes = identity, seed, modes
        self._reach, leaves = reach_of(identity), identity.leaves
        self._free_tau = any_efforts and _TAU in leaves
        if is_about_rows(identity) and "no loops" in identity.condition:
            raise InputError(
                f"{identity.name!r} is about constraint rows, but its condition 'no loops' "
                f"excludes mechanisms that have them. Remove the condition."
            )
        if any(leaf.params and leaf.name in ("select", *SELECTABLE) for leaf in leaves):
            raise InputError(
                f"{identity.name!r} is about selected bodies, which only a system has. Write  "
                "pp.prove(identity, system)"
            )
        self._small, self._deep = pool_of(identity, seed, modes)
        self.method, self.count, self._points, self._chance = "exact", 0, 0, 0.0
        self.bodies = self.undefined = self._tried = 0
        # of the longest mechanisms, by whether bodies deform
        self._lengths = {one.model.is_flexible: 0 for one in (*self._small, *self._deep)}

    @property
    def in_a_row(self) -> int:
        """Bodies in a row of the longest mechanisms on which it was decided."""
        return min(self._lengths.values(), default=0)

    def first_failure(self) -> SampleMechanism | None:
        """The smallest mechanism on which the identity fails, if it does on one of them."""
        try:
            failed = self._search(self._small, self._exactly)
            return failed or self._deep_failure(self._deep, self._exactly)
        except NotRational:
            self.method, self.count, self.undefined, self._tried = "50 digits", 0, 0, 0
            self.bodies, self._lengths = 0, dict.fromkeys(self._lengths, 0)
            few = self._small[:: max(1, len(self._small) // _IN_DIGITS)]
            few += self._small[-2:] * self._modes
            failed = self._search(few, self._in_digits)
            deep = pool_of(self._identity, self._seed, self._modes, MOST_IN_DIGITS)[1]
            deep = [*deep[:_DEEP_IN_DIGITS], *deep[-1:] * self._modes]
            return failed or self._deep_failure(deep, self._in_digits)

    def _deep_failure(self, deep: list[SampleMechanism], decide: Any) -> SampleMechanism | None:
        """A failure on one of the deep mechanisms, on as few bodies as show it."""
        light = [one for one in deep if self._work(one) <= _MOST_WORK]
        failed = self._search(light, decide)
        if failed is None and len(light) < len(deep):
            failed = self._on_fewer([one for one in deep if one not in light], decide)
        if failed is None and self.in_a_row < self._reach.in_a_row and self.undefined:
            most = MOST_IN_DIGITS if self.method != "exact" else self._reach.in_a_row
            full = full_samples(min(self._reach.in_a_row, most), self._identity.condition)
            full = [one for one in full if self._work(one) <= _MOST_WORK]
            failed = self._search([] if is_about_rows(self._identity) else full, decide)
        if not self.count:
            raise SingularMatrixError(
                f"identity {self._identity.name!r} inverts a matrix that is singular on all "
                f"{self._tried} mechanisms that were tried. Prove it on your model: "
                f"pp.prove(identity, model)"
            )
        if failed is None or self.method != "exact":
            return failed
        fewer = (shorter(failed, n) for n in range(2, failed.in_a_row))
        return next((one for one in fewer if one and self._once(one) is False), failed)

    def _work(self, sample: SampleMechanism) -> float:
        if self.method != "exact":
            return sample.model.n_bodies
        return sample.model.n_bodies * points_needed(self._identity, sample.model, sample.points)

    def _on_fewer(self, heavy: list[SampleMechanism], decide: Any) -> SampleMechanism | None:
        """A failure at one point of a chain; if there is none, proofs on fewer bodies."""
        self._tried += 1
        if self._once(heavy[0]) is False:
            return heavy[0]
        for most in _LESS:
            deep = pool_of(self._identity, self._seed, self._modes, most)[1]
            deep = [one for one in deep if self._work(one) <= _MOST_WORK]
            if deep:
                return self._search(deep, decide)
        return None

    def _search(self, pool: list[SampleMechanism], decide: Any) -> SampleMechanism | None:
        too_large: list[NotRational] = []
        for one in pool:
            self._tried += 1
            try:
                holds = decide(one)
            except np.linalg.LinAlgError:  # singular on this mechanism: it says nothing about it
                self.undefined += 1
                continue
            except NotRational as error:  # a root, or a degree that is too large on this mechanism
                too_large.append(error)
                continue
            self.count += 1
            self.bodies = max(self.bodies, one.model.n_bodies)
            deforms = one.model.is_flexible
            self._lengths[deforms] = max(self._lengths[deforms], one.in_a_row)
            if not holds:
                return one
        if too_large and self.count < _ENOUGH:
            raise too_large[0]
        return None

    def _exactly(self, one: SampleMechanism) -> bool:
        least = _PATTERNS if self._reach.patterns else 1
        found = modular(self._identity, one.model, lambda i: self._state(one, i), 0, GOAL, least)
        self._points += found.points
        self._chance = max(self._chance, found.chance)
        return found.holds

    def _in_digits(self, one: SampleMechanism) -> bool:
        with long_decimals():
            return compared(self._identity, self._with_efforts(one.digits_state(self._seed))).holds

    def _state(self, one: SampleMechanism, i: int) -> ProofState:
        return self._with_efforts(one.state(self._seed, i))

    def _with_efforts(self, state: ProofState) -> ProofState:
        return with_any_efforts(state) if self._free_tau else state

    def verdict(self) -> Verdict:
        """The verdict on all mechanisms."""
        return Verdict(True, self.method, self._chance, self._points, mechanisms=self.count)

    @property
    def limit(self) -> str:
        """Why nothing is said of mechanisms with more bodies in a row; "" if all is said."""
        if self._reach.limit:
            return self._reach.limit
        if self.in_a_row < self._reach.in_a_row:
            return f"it can tell {self._reach.in_a_row} bodies in a row apart"
        return ""

    def words(self) -> str:
        """On what the identity was proved."""
        which = f" with {self._identity.condition}" if self._identity.condition else " of all kinds"
        which += ", with flexible bodies and without" * self._modes
        sizes = f"up to {self.bodies} bodies, {self.in_a_row} in a row"
        said = f"on {self.count} mechanisms{which}, {sizes} ({self.verdict()})"
        if self.undefined:
            said += f"; on {self.undefined} others it inverts a matrix that is singular"
        if self.limit:
            said += f"; of more bodies in a row nothing is said, because {self.limit}"
        return said

    # ---- a condition that saves it --------------------------------------------------------------

    def sufficient_condition(self) -> str:
        """The first condition, or pair of them, under which the identity holds."""
        if self.method != "exact":
            return ""
        holds = self._at_one_point(self._small)
        # what only deep mechanisms show is saved by no condition that just small ones meet
        small = not all(holds.values())
        holds |= {} if small else self._at_one_point(self._deep)
        for names in _combinations(pairs=small):
            condition = ", ".join(names)
            meeting = [one for one in holds if not one.unmet(condition)]
            known = meeting if small else [one for one in meeting if one in self._deep]
            telling = [one for one in known if one.model.n_bodies > 1]
            if (
                len(telling) < _TELLING
                or len(meeting) == len(holds)
                or not all(holds[one] for one in meeting)
            ):
                continue
            both = ", ".join(filter(None, [self._identity.condition, condition]))
            claim = replace(self._identity, condition=both)
            again = Tried(claim, self._seed, self._free_tau, self._modes)
            if again.first_failure() is None:
                return condition
        return ""

    def _at_one_point(self, pool: list[SampleMechanism]) -> dict[SampleMechanism, bool]:
        return {one: found for one in pool if (found := self._once(one)) is not None}

    def _once(self, one: SampleMechanism) -> bool | None:
        """Whether the sides agree at one point; None where something is singular.

        With patterns of prescribed joints at three: at random ones, at none, at all.
        """
        points = range(3 if self._reach.patterns else 1)
        try:
            return all(equal_sides(self._identity, self._state(one, i).fresh()) for i in points)
        except (np.linalg.LinAlgError, NotRational):
            return None


def with_any_efforts(state: ProofState) -> ProofState:
    """A state whose tau need not belong to its vdot."""
    return state.with_value(_TAU, state.any_efforts.reshape(-1, 1))


def _combinations(*, pairs: bool) -> Iterator[tuple[str, ...]]:
    """Conditions one by one, then in pairs of which neither implies or excludes the other."""
    yield from ((name,) for name in CONDITIONS)
    if not pairs:
        return
    several = [name for name in CONDITIONS if name != "rigid bodies"]
    yield from (pair for pair in combinations(several, 2) if pair not in _IMPLIED)


_IMPLIED = {("serial", "one root"), ("one dof", "revolute"), ("one dof", "prismatic")}
