"""`prove`: decide whether an identity holds on all kinds of mechanisms, or on one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.dense import collect, evaluate_dense
from phipsi.core.expressions import Expr
from phipsi.core.model import ANY_POINTS, UNAFFECTED, Model, PointSet, supports
from phipsi.core.operators import (
    check_tables,
    inputs_of,
    is_about_modes,
    is_of_rigid_bodies,
    own_rows,
    parse,
)
from phipsi.core.rewrite import Identity, is_about_rows, unmet
from phipsi.errors import (
    InputError,
    PhipsiError,
    SingularHingeError,
    SingularMatrixError,
    is_whole,
    true_or_false,
)
from phipsi.papers.proofs.claim_decision import (
    GOAL,
    Verdict,
    bits_of,
    in_digits,
    modular,
    modular_state,
    parts,
)
from phipsi.papers.proofs.counterexample import Counterexample, can_be_shown, find_counterexample
from phipsi.papers.proofs.exact_array import NotRational
from phipsi.papers.proofs.proof_state import ProofState
from phipsi.papers.proofs.sample_mechanisms import SampleMechanism
from phipsi.papers.theorems.claim_formulas import check_cases, formulas_of, with_any_formulas
from phipsi.papers.theorems.claim_meaning import all_at_once, meanings, notation_of, stated
from phipsi.papers.theorems.tried_mechanisms import Tried, with_any_efforts

Array = NDArray[Any]

_POSE, _HINGE_INERTIA = parse("pose"), parse("D")


@dataclass(frozen=True)
class Proof:
    """The result of `phipsi.prove`; true if the identity holds.

    If the identity fails, `counterexample` has a mechanism with numbers; without a model, it is the
    smallest one found.

    Parameters
    ----------
    identity : Identity
        The identity.
    holds : bool or None
        With a model, whether the identity holds `here`; None if the mechanism does not meet its
        condition. Without a model, whether it holds `in_general`.
    reason : str
        The whole result in words.
    in_general : Verdict, optional
        With a model: whether the identity holds on this tree for arbitrary numbers. Without one:
        whether it holds on all mechanisms that were tried.
    here : Verdict, optional
        With a model: whether the identity holds for its numbers, in every state or in the state
        that was passed.
    mechanisms : int, optional
        Number of mechanisms that were tried.
    undefined : int, optional
        Number of mechanisms on which the identity is undefined, because it inverts a singular
        matrix.
    in_a_row : int, optional
        Largest number of bodies in a row of these mechanisms. Unless `limit` is set, the identity
        cannot distinguish more bodies than that, so it holds for longer chains as well.
    limit : str, optional
        Why this conclusion is not possible; then the identity is proved for mechanisms of up to
        `in_a_row` bodies in a row, and nothing is known about longer ones.
    holds_if : str, optional
        If the identity fails: a condition under which it holds, if one of the known ones is
        sufficient. With a model, one that the model does not meet.
    parts : tuple of Proof, optional
        If a number has several equations: the result of each.
    _witness : SampleMechanism, optional
        The mechanism on which it fails.
    _any_efforts : bool, optional
        Whether tau was arbitrary.

    Examples
    --------
    >>> import phipsi as pp
    >>> proof = pp.prove("H G = I")
    >>> proof.holds, proof.holds_if
    (False, 'Jr = 0')
    """

    identity: Identity
    holds: bool | None
    reason: str
    in_general: Verdict | None = None
    here: Verdict | None = None
    mechanisms: int = 1
    undefined: int = 0
    in_a_row: int = 0
    limit: str = ""
    holds_if: str = ""
    parts: tuple[Proof, ...] = ()
    _witness: SampleMechanism | None = field(default=None, repr=False, compare=False)
    _any_efforts: bool = field(default=False, repr=False, compare=False)

    def _repr_markdown_(self) -> str:
        """Typeset in a notebook: the identity, the verdict, and a counterexample as code."""
        word = {True: "**holds**", False: "**fails**", None: "does not apply"}[self.holds]
        parts = [self.identity._repr_markdown_(), f"{word}: {self.reason}"]
        if self.counterexample is not None:
            parts.append(f"```python\n{self.counterexample.code}\n```")
        return "\n\n".join(parts)

    @property
    def label(self) -> str:
        """What it is about: the equation of a number, otherwise the name."""
        return self.identity.statement if self.identity.expressions else self.identity.name

    def __bool__(self) -> bool:
        return self.holds is True

    def __repr__(self) -> str:
        word = {True: "holds", False: "fails", None: "does not apply"}[self.holds]
        hint = f", holds if {self.holds_if}" if self.holds_if else ""
        return f"<Proof {self.identity.name} {word}{hint}>"

    @property
    def verdict_word(self) -> str:
        """Whether it holds, in words."""
        word = {True: "holds", False: "fails", None: "does not apply"}[self.holds]
        if self.limit:
            word += f" on mechanisms of up to {self.in_a_row} bodies in a row"
        return word

    def __str__(self) -> str:
        return f"{self.identity.name} {self.verdict_word}: {self.reason}"

    @cached_property
    def counterexample(self) -> Counterexample | None:
        """A mechanism in a state in which the sides differ; None if it holds, or for a check."""
        if self.parts:
            return next((x.counterexample for x in self.parts if x.holds is False), None)
        if self._witness is None:
            return None
        return find_counterexample(self.identity, self._witness, self._any_efforts)


@supports(loops=True, contacts=UNAFFECTED, flexible=True, rotors=True)
def prove(
    identity: Identity | str,
    model: Model | None = None,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    *,
    seed: int = 0,
    notation: str = "",
    custom: Sequence[Expr] = (),
    any_efforts: bool = False,
    modes: bool = False,
) -> Proof:
    """Decide whether an identity holds, on all kinds of mechanisms or on one.

    Without a model, the identity is tried on chains, trees, forests and floating bases of all joint
    types, with and without rotors, small ones first, and on chains and trees with as many bodies in
    a row as it can distinguish. With a model, two questions are answered: whether it holds on this
    tree for arbitrary numbers, and whether it holds for the model's own numbers. There is no
    tolerance: both sides are compared modulo random primes, and the probability of a wrong answer
    for a mechanism is below 1e-14.

    Parameters
    ----------
    identity : Identity or str
        An identity, its name, its number in a paper (``"SOA 0.28"``, which may have several
        equations), or a claim (``"H φ K H ψ = H φ − H ψ"``), whose decimals are exact.
    model : Model or System, optional
        A mechanism; a system for claims about its constraint rows A. Default: all kinds.
    q : array_like, shape (nq,), optional
        Decide the identity for this configuration only. Default: random configurations, with open
        loops.
    v : array_like, shape (nv,), optional
        Decide the identity for these velocities only. Default: random.
    seed : int, optional
        Seed of the random values. Default: 0.
    notation, custom : optional
        How a claim is read, as for `parse`. The papers have no rotors, and mostly no gravity; MS
        has revolute joints only. If a claim in their letters needs that, it is decided with these
        conditions, and `Proof.reason` names them.
    any_efforts : bool, optional
        Whether tau is arbitrary; otherwise it is the effort of the equations of motion, with those
        of the forces f0 and f_ext that the claim names. Only for claims about all mechanisms.
        Default: False.
    modes : bool, optional
        Whether mechanisms with flexible bodies are tried, too; they always are for claims with
        operators of modes. Only for claims about all mechanisms. Default: False.

    Returns
    -------
    Proof
        True if the identity holds. If it fails, it has a counterexample, and a condition under
        which the identity holds, if one is known. If the identity can distinguish chains of
        arbitrary length, `limit` says so.

    Raises
    ------
    InputError
        If there is no such identity, or the claim cannot be read.
    SingularHingeError
        If the identity inverts the inertia of a joint that has no inertia to move.

    See Also
    --------
    derive : A chain of named identities from one side to the other.
    identities : Search the known identities.

    Notes
    -----
    The angles in `q` and square roots are not rational: in these cases the sides are compared with
    fifty digits, and `Proof.reason` says so. **Cost:** O(N³).

    Examples
    --------
    >>> import phipsi as pp
    >>> bool(pp.prove("H φ K H ψ = H φ − H ψ"))
    True
    >>> pp.prove("H G = I").holds_if
    'Jr = 0'
    >>> bool(pp.prove("mass_matrix^-1 = (I - H psi K)* D^-1 (I - H psi K)", any_efforts=True))
    True
    >>> arm = pp.examples.seven_joint_arm()
    >>> bool(pp.prove("H φ K H ψ = H φ − H ψ + 1e-18 H φ", arm))
    False
    """
    if not is_whole(seed) or seed < 0:
        raise InputError(f"seed={seed!r} must be a nonnegative integer, such as seed=0")
    any_efforts = true_or_false("any_efforts", any_efforts)
    paper = ""
    if isinstance(identity, str):
        paper = notation_of(identity, notation)
        equations = stated(identity, notation, custom)
        if len(equations) > 1:
            how = {"seed": seed, "any_efforts": any_efforts, "modes": modes}
            return _together(identity, [prove(x, model, q, v, **how) for x in equations])
        identity = equations[0]
    if not isinstance(cast(object, identity), Identity):
        raise InputError(
            f"prove needs an identity, its name, or a claim as a string, not "
            f'{type(identity).__name__}. Write  pp.prove("phi - psi = psi K H phi")  or, for two '
            "expressions,  pp.prove(pp.Identity(left, right), model)"
        )
    own_rows(identity.expressions)  # rejects two custom operators of one name
    paper = paper or identity.paper
    if model is None:
        if q is not None or v is not None:
            raise InputError("q= and v= need a model. Write  pp.prove(identity, model, q, v)")
        about = _checked_modes(modes, identity)
        decide = partial(_everywhere, seed=seed, any_efforts=any_efforts, modes=about)
        return _as_paper_means(paper, identity, decide) if paper else decide(identity)
    if any_efforts:
        raise InputError(
            "any_efforts=True is for claims about all mechanisms. Remove the model:  "
            "pp.prove(identity, any_efforts=True)"
        )
    if not isinstance(cast(object, model), Model):
        raise InputError(
            f"prove needs a model as its second argument, not {type(model).__name__}. Write  "
            "pp.prove(identity, model)"
        )
    proof = _on_model(identity, model, q, v, seed)
    if proof.holds is not False:
        return proof
    decide_here = partial(_on_model, model=model, q=q, v=v, seed=seed)
    other = _as_paper_means_on(paper, identity, decide_here)
    return _with_sufficient_condition(proof, model, seed) if other is None else other


def _on_model(
    identity: Identity,
    model: Model,
    q: ArrayLike | None,
    v: ArrayLike | None,
    seed: int,
    inputs: ClaimInputs | None = None,
) -> Proof:
    """Decide an identity on one mechanism; it does not apply where its condition is not met."""
    why = unmet(identity.condition, model)
    note = _of_the_cut_tree(identity) if model.n_rows else ""
    if not is_about_rows(identity):
        model = parts(model)[0]
    if why:
        return Proof(identity, None, why)
    given = None if q is None and v is None else _state_given(parts(model)[0], q, v)
    check_tables(identity.expressions, parts(model)[0])
    try:
        proof = _decided(identity, model, seed, given, inputs or ClaimInputs())
    except np.linalg.LinAlgError as error:
        raise _singular(identity, model, seed) from error
    return replace(proof, reason=proof.reason + note)


def _together(name: str, proofs: Sequence[Proof]) -> Proof:
    """The result for a number with several equations: it holds if all of them do."""
    found = {x.holds for x in proofs}
    holds = False if False in found else None if None in found else True
    lines = [f"{'all ' * (holds is True)}{len(proofs)} equations"]
    lines += [f"{x.label} {x.verdict_word}: {x.reason}" for x in proofs]
    identity = all_at_once(name, [x.identity for x in proofs])
    return Proof(identity, holds, "\n    ".join(lines), parts=tuple(proofs))


def _as_paper_means(paper: str, identity: Identity, decide: Callable[..., Proof]) -> Proof:
    """Decide a claim in the letters of a paper, with the assumptions of that paper."""
    for words, meant, any_efforts in meanings(paper, identity):
        free_tau = {"any_efforts": True} if any_efforts else {}
        proof = decide(meant, save=False, **free_tau)
        if proof:
            general = decide(identity, save=False)
            return general or replace(proof, reason=f"as {paper} means it: {words}; {proof.reason}")
    return decide(next(meanings(paper, identity)).identity)


def _as_paper_means_on(
    paper: str, identity: Identity, decide: Callable[..., Proof]
) -> Proof | None:
    """The same for a claim that fails on a model; None if it fails with the assumptions too."""
    for words, meant, any_efforts in meanings(paper, identity) if paper else ():
        proof = decide(meant, inputs=ClaimInputs(any_efforts=any_efforts))
        if proof:
            return replace(proof, reason=f"as {paper} means it: {words}; {proof.reason}")
        if proof.holds is None and _everywhere(meant, seed=0, save=False):
            return replace(proof, reason=f"as {paper} means it, {proof.reason}")
    return None


def _with_sufficient_condition(proof: Proof, model: Model, seed: int) -> Proof:
    """A claim that fails on a model, with a sufficient condition that the model does not meet."""
    identity = proof.identity
    if identity.check is not None or is_about_rows(identity):
        return proof
    try:
        saved = _everywhere(identity, seed=seed).holds_if
    except PhipsiError:
        return proof
    why = unmet(saved, model)
    if not why:
        return proof
    return replace(proof, holds_if=saved, reason=f"{proof.reason}; {why}")


def with_paper_condition(identity: Identity) -> Identity:
    """The identity with the condition under which it holds as its paper means it, if it has one."""
    if not identity.paper:
        return identity
    proof = prove(identity)
    return replace(proof.identity if proof else identity)  # of no paper any more


# ---- without a model -----------------------------------------------------------------------------


def _everywhere(
    identity: Identity,
    *,
    seed: int,
    any_efforts: bool = False,
    save: bool = True,
    modes: bool = False,
) -> Proof:
    """Decide an identity on all kinds of mechanisms that meet its condition."""
    free = with_any_formulas(identity)
    if free is not identity:
        general = _everywhere(free, seed=seed, any_efforts=any_efforts, save=False, modes=modes)
        if general.holds:
            return replace(general, identity=identity)
    tried = Tried(identity, seed, any_efforts, modes)
    failed = tried.first_failure()
    if failed is None:
        if tried.method != "exact":
            check_cases(identity)
        return Proof(
            identity,
            True,
            tried.words(),
            tried.verdict(),
            mechanisms=tried.count,
            undefined=tried.undefined,
            in_a_row=tried.in_a_row,
            limit=tried.limit,
        )
    saved = tried.sufficient_condition() if save else ""
    note = _of_the_cut_tree(identity) if is_about_rows(identity) else ""
    reason = f"with {identity.condition}" if identity.condition else "in general"
    if saved:
        alone, too = (" alone", " too") if identity.condition else ("", "")
        reason += f"{alone}; it holds if {saved}{too}"
    shown = can_be_shown(identity, failed, any_efforts)
    reason = f"{reason} ({'counterexample' if shown else 'for example'} with {failed})"
    verdict = Verdict(False, tried.method, 0.0, 1)
    return Proof(
        identity,
        False,
        reason + note,
        verdict,
        mechanisms=tried.count,
        holds_if=saved,
        _witness=failed,
        _any_efforts=any_efforts,
    )


def _of_the_cut_tree(identity: Identity) -> str:
    """What vdot and tau of a claim are where there are constraints; "" if it names neither."""
    names = inputs_of(identity.expressions)
    means = {
        "vdot": "vdot is arbitrary here, not the acceleration that satisfies the constraints",
        "tau": "tau is the effort of the tree without its constraints: no multipliers act",
    }
    said = [words for name, words in means.items() if name in names]
    return "".join(f". Note: {words}" for words in said)


# ---- on a model ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClaimInputs:
    """What a claim on a model is asked for: `points` of a program, any efforts tau.

    Without points some are drawn; otherwise tau is that of the equations of motion.
    """

    points: PointSet | None = None
    any_efforts: bool = False

    def change(self, state: ProofState) -> ProofState:
        """A state with these efforts."""
        return with_any_efforts(state) if self.any_efforts else state


def prove_for_inputs(identity: Identity, model: Model, inputs: ClaimInputs, seed: int = 0) -> Proof:
    """The question of `prove` on a model, for any efforts and for the points of a program."""
    if not is_about_rows(identity):
        model = parts(model)[0]
    check_tables(identity.expressions, parts(model)[0])
    try:
        return _decided(identity, model, seed, None, inputs)
    except np.linalg.LinAlgError as error:
        raise _singular(identity, model, seed) from error


def _decided(
    identity: Identity,
    model: Model,
    seed: int,
    state: dict[str, Array] | None,
    inputs: ClaimInputs,
) -> Proof:
    decide = partial(_modulo_primes, model=model, seed=seed, inputs=inputs)
    general, here = decide(with_any_formulas(identity), own=False), None
    if not general.holds:
        general = decide(identity, own=False)
    if state is not None:
        here = in_digits(identity, model, seed, given=state)
        return Proof(identity, here.holds, _words(general, here, "in this state"), general, here)
    if general.method != "exact" or formulas_of(identity):
        here = in_digits(identity, model, seed, points=inputs.points, change=inputs.change)
        if here.holds and general.method != "exact":
            check_cases(identity)
    else:
        # an identity of all numbers holds for these, unless a matrix has no inverse with them:
        # one point shows that
        enough = 1.0 if general.holds else GOAL
        here = decide(identity, own=True, enough=enough)
        if here.holds and general.holds:
            here = general
        elif not here.holds:
            here = replace(here, gap=_gap(identity, model, seed, inputs.points))
    reason = _words(general, here, "with this model's own numbers")
    witness = None if here.holds else SampleMechanism.of(model)
    return Proof(identity, here.holds, reason, general, here, _witness=witness)


def _modulo_primes(
    identity: Identity,
    model: Model,
    seed: int,
    inputs: ClaimInputs,
    *,
    own: bool,
    enough: float = GOAL,
) -> Verdict:
    """With the model's own numbers, or with random ones; in fifty digits if there is a root."""
    points, change = inputs.points, inputs.change
    bits = bits_of(model, points) if own and enough < 1.0 else 0

    def states(i: int) -> ProofState:
        return change(modular_state(model, seed, i, own, points))

    try:
        return modular(identity, model, states, bits, enough)
    except NotRational:
        return in_digits(identity, model, seed, own=own, points=points, change=change)


def _words(general: Verdict, here: Verdict, where: str) -> str:
    if here.holds and general.holds:
        if here is general:
            return f"on this tree with any numbers ({general})"
        return f"on this tree with any numbers ({general}), and {where} ({here})"
    if here.holds:
        return f"{where} ({here}), but not on this tree with other numbers"
    by = f" by {here.gap:.2g}" if here.gap > 0 else ""
    also = f"; with other numbers it holds on this tree ({general})" if general.holds else ""
    return f"the sides differ{by} {where} ({here}){also}"


def _gap(identity: Identity, model: Model, seed: int, at: PointSet | None) -> float:
    """How far the two sides are apart in one random state, in floating point; for the reader."""
    if identity.check is not None:
        return float("nan")
    lhs, rhs = identity.sides
    rng, (tree, closures) = np.random.default_rng(seed), parts(model)
    n, nv = tree.n_bodies, tree.nv
    hosts = rng.integers(n, size=3) if n else []
    points: Any = [(tree.body_names[k], rng.uniform(-0.5, 0.5, 3)) for k in hosts]
    if closures is not None or at is not None:
        points = at if closures is None else closures.points
    inputs: dict[str, Any] = {name: rng.normal(size=nv) for name in ("v", "vdot", "tau")}
    inputs |= {"f_ext": rng.normal(size=(n, 6)), "f0": rng.normal(size=(len(points), 6))}
    inputs |= {"q": tree.random_configuration(rng), "free": np.ones(nv)}
    inputs |= {"points": points} if closures is None else {"Udot": rng.normal(size=closures.n_rows)}
    try:
        gap = np.abs(evaluate_dense(lhs - rhs, model, **inputs))
    except (PhipsiError, np.linalg.LinAlgError):
        return float("nan")
    return float(gap.max(initial=0.0))


# ---- states ---------------------------------------------------------------------------


def _state_given(model: Model, q: ArrayLike | None, v: ArrayLike | None) -> dict[str, Array]:
    """Checked q and v, for one state."""
    inputs = collect(model, ANY_POINTS, {"q": q, "v": v}, None)
    if inputs.batch:
        raise InputError("prove decides one state: q has shape (nq,) and v has shape (nv,)")
    if any(np.iscomplexobj(x) for x in inputs.arguments.values()):
        raise InputError("prove needs real numbers, but q or v is complex")
    if q is not None:
        evaluate_dense(_POSE, model, q=q)  # rejects arrays that are not configurations
    return inputs.arguments


def _checked_modes(modes: Any, identity: Identity) -> bool:
    """Whether an identity is tried on bodies that deform."""
    modes = true_or_false("modes", modes)
    if identity.check is None and not is_about_rows(identity):
        rigid = any(map(is_of_rigid_bodies, identity.sides))
        return modes or (not rigid and any(map(is_about_modes, identity.sides)))
    if modes:
        raise InputError(
            f"{identity.name!r} does not support modes=True, because it is about constraint rows, "
            f"or checked with formulas for rigid bodies. Remove modes=True, or prove it on a "
            f"model:  pp.prove(identity, model)"
        )
    return False


def _singular(identity: Identity, model: Model, seed: int) -> PhipsiError:
    """The error for a singular matrix, with the name of the hinge if it is one."""
    try:
        tree = parts(model)[0]
        evaluate_dense(_HINGE_INERTIA, tree, q=tree.random_configuration(seed))
    except SingularHingeError as error:
        return error
    return SingularMatrixError(
        f"identity {identity.name!r} inverts a matrix that is singular for this mechanism"
    )
