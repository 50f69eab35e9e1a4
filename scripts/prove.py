"""Prove every identity on trees of all joint types, and refute their twins; writes docs/proofs.md.

    python scripts/prove.py [--out docs/proofs.md] [--only-mutated]

Then 1,000 mutated identities, and 200 that are true by construction, are decided without a model;
``--only-mutated`` does this part alone and leaves the rest of the page. All of it is exact: see
docs/identities.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "src")]

from mutated import mutants, true_identities, why_still_true  # noqa: E402
from proof_models import MODELS  # noqa: E402
from twins import notices, twins, values_asked_for, why_true  # noqa: E402

from phipsi.core.rewrite import Identity, unmet  # noqa: E402
from phipsi.errors import PhipsiError  # noqa: E402
from phipsi.papers import (  # noqa: E402  # noqa: E402
    ERRATA,  # noqa: E402
    NotRational,  # noqa: E402
    bound,
    digits_state,
    equal,
    identities,
    in_digits,
    long_decimals,  # noqa: E402
    modular_state,
    prove,
    sides,
)

SMALL = "revolute chain"  # fifty digits take their time
DIGITS_MODELS = (SMALL, "chain with rotors", "free base with rotors")


def main() -> int:
    """Prove, refute, write the page; the number of problems is the exit status."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--out", type=Path, default=ROOT / "docs" / "proofs.md")
    reader.add_argument("--only-mutated", action="store_true")
    given = reader.parse_args()
    out = given.out
    start = time.process_time()
    mutated, problems_there = decide_mutated()
    if given.only_mutated:
        kept = out.read_text(encoding="utf-8").partition(MUTATED)[0].rstrip("\n")
        out.write_text(f"{kept}\n\n{mutated}", encoding="utf-8")
        return show(mutated, time.process_time() - start, problems_there)
    proved, problems = prove_all()
    refuted, true, more = refute_twins()
    faults, also = inject_faults()
    misprints = sum(refuted_somewhere(e.claim) for e in ERRATA)
    problems += more + also + problems_there
    problems += [] if misprints == len(ERRATA) else ["a misprint was not refuted"]
    text = report(proved, refuted, true, faults, misprints) + f"\n{mutated}"
    out.write_text(text, encoding="utf-8")
    return show(text, time.process_time() - start, problems)


def show(text: str, seconds: float, problems: list[str]) -> int:
    """Print the page, the time and the problems; the exit status."""
    print(text)
    print(f"{seconds:.0f} s of one core")
    for problem in problems:
        print(f"PROBLEM  {problem}")
    return 1 if problems else 0


# ---- proofs -------------------------------------------------------------------------------------


def prove_all() -> tuple[dict[str, Counter[str]], list[str]]:
    """Every identity on every mechanism: how often it was decided in which way."""
    table: dict[str, Counter[str]] = {}
    problems = []
    for label, model in MODELS.items():
        print(f"proving on {label}", file=sys.stderr)
        counts = table.setdefault(label, Counter())
        for identity in identities():
            if is_irrational(identity) and label not in DIGITS_MODELS:
                counts["left out"] += 1
                continue
            proof = prove(identity, model)
            if proof.holds is None:
                counts["does not apply"] += 1
                continue
            general = proof.in_general
            if not proof.holds or general is None or not general.holds:
                problems.append(f"{proof} on {label}")
                continue
            counts[general.method] += 1
            counts["primes"] += general.points if general.method == "exact" else 0
            counts["worst"] = max(counts["worst"], int(general.chance * 1e20))
    return table, problems


def is_irrational(identity: Identity) -> bool:
    """Whether an identity takes square roots, and is decided in fifty digits."""
    if identity.name not in _IRRATIONAL:
        model = next(m for m in MODELS.values() if not unmet(identity.condition, m) and m.nv)
        try:
            sides(identity, modular_state(model, 0, 0, False).fresh())
            _IRRATIONAL[identity.name] = False
        except NotRational:
            _IRRATIONAL[identity.name] = True
    return _IRRATIONAL[identity.name]


_IRRATIONAL: dict[str, bool] = {}


# ---- twins --------------------------------------------------------------------------------------


def refuted_somewhere(identity: Identity) -> bool:
    """Whether a claim is refuted on one of the mechanisms that meet its condition."""
    for model in MODELS.values():
        if unmet(identity.condition, model):
            continue
        try:
            if not equal(*sides(identity, modular_state(model, 0, 0, False).fresh())):
                return True
        except NotRational:
            if not in_digits(identity, MODELS[SMALL], 0).holds:
                return True
    return False


def refute_twins() -> tuple[Counter[str], list[tuple[str, str, str]], list[str]]:
    """Twins refuted by kind; those that are true, with the reason; those without one."""
    print("refuting twins", file=sys.stderr)
    refuted: Counter[str] = Counter()
    true, problems = [], []
    for identity in identities():
        for change, twin in twins(identity):
            if refuted_somewhere(twin):
                refuted[change.split()[0]] += 1
                continue
            meeting = next(m for m in MODELS.values() if not unmet(identity.condition, m) and m.nv)
            with long_decimals():
                at = digits_state(MODELS[SMALL], 0) if is_irrational(identity) else None
                at = at or modular_state(meeting, 0, 0, False).fresh()
            reason = why_true(change, identity, at)
            true.append((identity.name, change, reason))
            if not reason:
                problems.append(f"{change} of {identity} was not refuted")
    return refuted, true, problems


def inject_faults() -> tuple[Counter[str], list[str]]:
    """Checks with a fault of 1e-12 in one of the values that they ask for."""
    print("faults inside of checks", file=sys.stderr)
    counts: Counter[str] = Counter()
    for identity in identities():
        if identity.check is None or is_irrational(identity):
            continue
        labels = ("revolute chain", "free base")
        model = next(MODELS[x] for x in labels if not unmet(identity.condition, MODELS[x]))
        state = modular_state(model, 0, 0, False)
        asked = values_asked_for(identity, state)
        found = [notices(identity, state, fault) for fault in range(asked)]
        counts["checks"] += 1
        counts["faults"] += asked
        counts["noticed"] += sum(found)
        counts["without values"] += not asked
        counts["blind"] += bool(asked) and not any(found)
    return counts, []


# ---- without a model ----------------------------------------------------------------------------

MUTATED = "## Mutated identities"


def decide_mutated(count: int = 1000, true_count: int = 200) -> tuple[str, list[str]]:
    """Mutants refuted, true identities proved, each without a model; the sections of the page."""
    print("mutated identities", file=sys.stderr)
    kinds: Counter[str] = Counter()
    rows, problems, decided = [], [], 0
    for mutant in mutants(SEED):
        if decided == count:
            break
        try:
            proof = prove(mutant.identity)
        except PhipsiError:  # an inverse of what is singular everywhere, a mixed pair: not a claim
            kinds["rejected"] += 1
            continue
        decided += 1
        if proof:
            reason = why_still_true(mutant)
            rows.append((mutant.origin.name, mutant.change, reason))
            problems += [] if reason else [f"{mutant.identity} is true, and nobody knows why"]
            continue
        kinds["refuted"] += 1
        kinds["saved"] += bool(proof.holds_if)
        found = proof.counterexample
        if found is None:
            problems.append(f"no counterexample of {mutant.identity}")
            continue
        kinds[f"{found.model.n_bodies} bodies"] += 1
    print("identities that are true by construction", file=sys.stderr)
    ways: Counter[str] = Counter()
    for identity in islice(true_identities(SEED), true_count):
        proof = prove(identity)
        verdict = proof.in_general
        if not proof or verdict is None:
            problems.append(f"not proved: {identity}")
            continue
        ways[identity.name.partition("by ")[2]] += 1
        ways[verdict.method] += 1
        ways["limited"] += bool(proof.limit)
    return _mutated_text(kinds, rows, ways), problems


SEED = 1


def _mutated_text(kinds: Counter[str], rows: list[tuple[str, str, str]], ways: Counter[str]) -> str:
    sizes = sorted(kind for kind in kinds if kind.endswith("bodies"))
    by_size = ", ".join(f"{kinds[size]} with {size}" for size in sizes).replace(
        "1 bodies", "1 body"
    )
    lines = [
        MUTATED,
        "",
        "Identities of the tables with one part changed: another operator between the same spaces,",
        "a factor or a term left out, doubled or swapped, a coefficient, the condition left out.",
        f"Decided without a model: {kinds['refuted']} are refuted, each with a counterexample",
        f"({by_size}), of which {kinds['saved']} hold under one of the known conditions;",
        f"{len(rows)} are true. {kinds['rejected']} more were not claims: they invert an operator",
        "that is singular on every mechanism, or mix the two pairs a, b.",
        "",
        "| identity | change | why it is still true |",
        "|---|---|---|",
        *(f"| {name} | {change} | {reason} |" for name, change, reason in rows),
        "",
        "## True by construction",
        "",
        "Random expressions, and what the rewriter or the definitions of their operators make of",
        f"them: {ways['rewriting'] + ways['definitions']} proved without a model"
        f" ({ways['rewriting']} by rewriting, {ways['definitions']} by",
        f"definitions), {ways['exact']} of them modulo primes and {ways['50 digits']} in fifty"
        " digits (sums of log det and",
        f"other terms). {ways['limited']} of them can tell more bodies in a row apart than the",
        "mechanisms of their proofs have, and are proved up to that length only.",
        "",
    ]
    return "\n".join(lines)


# ---- the report ---------------------------------------------------------------------------------


def report(
    proved: dict[str, Counter[str]],
    refuted: Counter[str],
    true: list[tuple[str, str, str]],
    faults: Counter[str],
    misprints: int,
) -> str:
    """What was proved and refuted, as a page."""
    total = sum(c["exact"] for c in proved.values())
    digits = sum(c["50 digits"] for c in proved.values())
    lines = [
        "# Record of proofs",
        "",
        "Evidence that the identities of the library hold: every identity was **proved** on every",
        "kind of mechanism, and changed copies of it were **refuted**. No comparison has a",
        "tolerance.",
        "[How proofs work](how-proofs-work.md) explains the method. Written by `make prove`.",
        "",
        f"{len(identities())} identities on {len(proved)} mechanisms: {total} proofs modulo random",
        f"primes, {digits} in fifty digits (square roots of D; on three of the mechanisms).",
        "",
        "| mechanism | exact | 50 digits | do not apply | primes | wrong with probability below |",
        "|---|---|---|---|---|---|",
    ]
    for label, c in proved.items():
        worst = bound((c["worst"] + 1) * 1e-20)
        lines.append(
            f"| {label} | {c['exact']} | {c['50 digits']} | {c['does not apply']} | {c['primes']} "
            f"| {worst} |"
        )
    kinds = ", ".join(f"{n} with a {kind} changed" for kind, n in sorted(refuted.items()))
    lines += [
        "",
        "## Twins",
        "",
        "Each identity with a sign, a factor (1 + 1e-12), a star or a term of 1e-12 changed:",
        f"{sum(refuted.values())} are refuted ({kinds}),",
        f"{len(true)} are true. The {misprints} misprints of the papers are refuted as well.",
        "",
        f"{faults['checks']} checks of theorems ask for {faults['faults']} values. With one of",
        f"them off by 1e-12, {faults['noticed']} make the check fail; the others it does not use.",
        f"{faults['without values']} checks ask for none, {faults['blind']} hold for any blocks.",
        "",
        "Twins that are true:",
        "",
        "| identity | change | why |",
        "|---|---|---|",
        *(f"| {name} | {change} | {reason} |" for name, change, reason in true),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
