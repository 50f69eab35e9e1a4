"""A derivation: a chain of steps, printed as text and LaTeX, and checked exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from phipsi.core.expressions import Expr
from phipsi.core.rewrite import Identity
from phipsi.errors import InputError, counted
from phipsi.papers.derivations.derivation_search import Move
from phipsi.papers.derivations.named_equations import written_out
from phipsi.papers.derivations.normal_form import words_of
from phipsi.papers.proofs.claim_decision import equal as same_arrays, forces_of, sides
from phipsi.papers.proofs.deep_mechanisms import pool_of
from phipsi.papers.proofs.exact_array import NotRational
from phipsi.papers.proofs.sample_mechanisms import SampleMechanism
from phipsi.papers.theorems.prove import Proof, prove

_SAMPLES = 3  # mechanisms
_WIDEST = 76  # characters of an expression with its reason on the same line
_LATEX = {
    "φ̃": r"$\tilde{\phi}$", "ψ̃": r"$\tilde{\psi}$", "π̄": r"$\bar{\pi}$", "φ": r"$\phi$",
    "ψ": r"$\psi$", "π": r"$\pi$", "Ω": r"$\Omega$", "Υ": r"$\Upsilon$", "Λ": r"$\Lambda$",
    "ℳ": r"$\mathcal{M}$", "−": "$-$", "⁻¹": "$^{-1}$", "½": "$^{1/2}$", "_": r"\_",
    "^": r"\^{}", "~": r"\~{}", "&": r"\&", "%": r"\%", "#": r"\#",
}  # fmt: skip


@dataclass(frozen=True)
class DerivationStep:
    """One step of a derivation: the expression after it, and the identity that it uses.

    Parameters
    ----------
    expression : Expr
        The expression after the step.
    name : str
        Name of the identity.
    source : str, optional
        Where it is printed.
    place : str, optional
        The part that was replaced.
    moves : tuple of Move, optional
        The multiples of the identity that were subtracted; empty if only definitions were expanded.
    """

    expression: Expr
    name: str
    source: str = ""
    place: str = ""
    moves: tuple[Move, ...] = ()

    def __repr__(self) -> str:
        return f"<DerivationStep = {self.expression} by {self.reason}>"

    def __str__(self) -> str:
        return f"{self.expression}   {self.reason}"

    @property
    def reason(self) -> str:
        """The identity and its source."""
        return f"{self.name} [{self.source}]" if self.source else self.name


@dataclass(frozen=True)
class Derivation:
    """A chain of identities from `lhs` to `rhs`; true if it is complete.

    `phipsi.derive` returns it. It prints like a proof in a paper, as text and as LaTeX.

    Parameters
    ----------
    lhs, rhs : Expr
        The two sides.
    steps : tuple of DerivationStep
        The steps; of an incomplete chain, those from the left side.
    condition : str, optional
        The condition under which the sides are equal, such as "Jr = 0".
    reason : str, optional
        Why there is no complete chain: the sides are not equal, or none was found. "" if complete.
    title : str, optional
        Name of the claim in the papers.
    proof : Proof, optional
        If the sides are not equal: the proof of that, with a counterexample.
    tried : int, optional
        Number of forms that were visited.
    restated : tuple of str, optional
        Identities of the steps that state the claim itself in other letters; of a derivation for
        which `using` named no identities.

    Examples
    --------
    >>> import phipsi as pp
    >>> derivation = pp.derive("J mass_matrix^-1 J* = B* Omega B")
    >>> bool(derivation), derivation.names
    (True, ['definition of J', 'Omega (b)'])
    """

    lhs: Expr
    rhs: Expr
    steps: tuple[DerivationStep, ...]
    condition: str = ""
    reason: str = ""
    title: str = ""
    proof: Proof | None = None
    tried: int = 0
    restated: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.reason

    def __repr__(self) -> str:
        sign = "≠" if self._is_refuted else "="
        result = "no chain was found" if self.reason else counted(len(self.steps), "step")
        result = "refuted" if self._is_refuted else result
        return f"<Derivation {self.lhs} {sign} {self.rhs}: {result}>"

    def __str__(self) -> str:
        """As lines, one for each step."""
        head = f"{self.title}:  " if self.title else ""
        condition = f"   if {self.condition}" if self.condition else ""
        sign = "≠" if self._is_refuted else "="
        lines = [f"{head}{self.lhs} {sign} {self.rhs}{condition}", ""]
        if self.reason:
            return "\n".join([*lines, self.reason])
        sizes = (len(str(step.expression)) for step in self.steps)
        width = max((n for n in sizes if n < _WIDEST), default=0)
        lines.append(f"    {self.lhs}")
        for step in self.steps:
            text = str(step.expression)
            if len(text) < _WIDEST:
                lines.append(f"  = {text:{width}}   {step.reason}".rstrip())
            else:
                lines += [f"  = {text}", f"    {'':{width}}   {step.reason}"]
        if self.restated:
            same = "states" if len(self.restated) == 1 else "state"
            lines += [
                "",
                f"{', '.join(self.restated)} {same} the claim in other letters. For a derivation "
                "from others, name what it may use:  using=[…]",
            ]
        return "\n".join(lines)

    def latex(self) -> str:
        """The derivation as an ``align*`` environment; a claim that is not derived says so."""
        first, last = self.lhs.text("latex"), self.rhs.text("latex")
        rows = [
            rf"{first if i == 0 else ''} &= {step.expression.text('latex')}"
            rf" && \text{{{latex_text(step.reason)}}}"
            for i, step in enumerate(self.steps)
        ]
        if self._is_refuted:
            rows = [rf"{first} &\neq {last} && \text{{the sides are not equal}}"]
        elif self.reason:
            rows.append(rf"{'' if rows else first} &= {last} && \text{{no chain was found}}")
        lines = " \\\\\n".join(rows or [rf"{first} &= {last}"])
        return f"\\begin{{align*}}\n{lines}\n\\end{{align*}}"

    @property
    def _is_refuted(self) -> bool:
        return self.proof is not None and not self.proof

    def _repr_latex_(self) -> str:
        return self.latex()

    @property
    def names(self) -> list[str]:
        """The identities, in the order of the steps."""
        return [step.name for step in self.steps]

    def check(self) -> bool:
        """Verify every step again, exactly: an error names the first that is wrong.

        The change from each expression to the next must be the multiples of the identity, word by
        word; each identity and each step must hold on sample mechanisms modulo random primes.
        """
        if not self:
            raise InputError(f"there is no derivation to check: {self.reason}")
        before, acting = self.lhs, forces_acting(self.lhs, self.rhs)
        for i, step in enumerate(self.steps, 1):
            if not _is_sum_of(step, before):
                raise InputError(f"step {i} is not the identity {step.name!r}:\n    {step}")
            claims = [(before, step.expression), *((m.equation.sides) for m in step.moves)]
            for lhs, rhs in claims:
                if not holds_on_samples(lhs, rhs, self.condition, forces=acting):
                    raise InputError(f"step {i} is wrong: {lhs} = {rhs} does not hold")
            before = step.expression
        if words_of(before).key != words_of(self.rhs).key:
            raise InputError(f"the last expression is not the right side: {before}")
        return True


def forces_acting(lhs: Expr, rhs: Expr) -> frozenset[str]:
    """The forces that act in a derivation; f0, as in the book, if its ends do not read tau."""
    forces = forces_of(lhs, rhs)
    return frozenset({"f0"}) if forces is None else forces


def latex_text(text: str) -> str:
    """Words with Greek letters in them, for LaTeX."""
    signs = "|".join(map(re.escape, sorted(_LATEX, key=len, reverse=True)))
    return re.sub(signs, lambda m: _LATEX[m.group()], text)


def _is_sum_of(step: DerivationStep, before: Expr) -> bool:
    """Whether a step subtracts the multiples that it says, and nothing else."""
    if not step.moves:
        return written_out(before) is written_out(step.expression)
    words = words_of(before)
    for move in step.moves:
        words = move.applied(words)
        if not move.follows():
            return False
    return words.key == words_of(step.expression).key


@lru_cache(maxsize=2**12)
def holds_on_samples(
    lhs: Expr,
    rhs: Expr,
    condition: str,
    max_mechanisms: int = _SAMPLES,
    forces: frozenset[str] | None = None,
) -> bool:
    """Whether two expressions are equal on a few sample mechanisms, modulo a random prime.

    `forces` are those that act if tau is read; default: those that the two expressions name.
    """
    claim = Identity(lhs, rhs, condition)
    if claim.lhs is claim.rhs:
        return True
    small, deep = pool_of(claim, 0, modes=False)
    tried = 0
    for one in [*deep[:1], *small[::-1]]:
        try:
            if not _equal_on(claim, one, forces):
                return False
        except np.linalg.LinAlgError:
            continue
        except NotRational:
            return bool(prove(claim))
        tried += one not in deep
        if tried == max_mechanisms:
            break
    return True


def _equal_on(claim: Identity, sample: SampleMechanism, forces: frozenset[str] | None) -> bool:
    state = sample.state(0, 0).fresh()
    return same_arrays(*sides(claim, state if forces is None else state.with_forces(forces)))
