"""How long derivations take: `python benchmarks/derivations.py`.

Every row of `phipsi.papers.derivations.paper_derivations.py` is found twice in one process, and its steps are verified
again; the first time includes reading the book of identities and drawing the sample mechanisms, once for all. Then
it is looked for again with the whole book, without the identities and forms that the row names. Last, random chains of
two identities are looked for with the whole book. Times are of the processor. The result is benchmarks/DERIVATIONS.md.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from phipsi.core.expressions import Expr
from phipsi.errors import PhipsiError
from phipsi.operators import parse
from phipsi.papers import DERIVATIONS, book, derive, difference, words_of

PAGE = Path(__file__).with_name("DERIVATIONS.md")
CHAINS, SEEDS = 100, 2
STARTS = [
    "mass_matrix^-1 H phi B f0", "J mass_matrix^-1 J*", "phi* H* mass_matrix^-1", "mass_matrix^-1 tau", "H phi M phi* H*",
    "psi M phi*", "H psi M psi* H*", "D^-1 (I - H psi K) H phi M", "phi M phi* H* mass_matrix^-1", "K* psi* H* D^-1 H psi",
    "Lambda", "B* Omega B f0", "mass_matrix^-1 J* Lambda^-1", "(I - H psi K)* D^-1 (I - H psi K) H phi", "psi^-1 phi M phi*",
    "phi~ P H*", "Omega M phi* H*", "J mass_matrix^-1 (tau - H phi b)", "H phi K D K* phi* H*", "(I + H phi K)^-1 H phi M",
]  # fmt: skip
LONGEST, MOST_WORDS = 140, 12  # of a form


def chains(count: int, seed: int) -> Iterator[tuple[Expr, Expr, str]]:
    """Expressions, what two random identities of the book make of them, and the condition."""
    rng = random.Random(seed)
    every = [x for x in book() if x.kind not in ("condition", "definition")]
    lemmas = [x for x in every if not x.name.endswith("[MM form]")]
    while count:
        start = rng.choice(lemmas).sides[rng.randrange(2)] if rng.random() < 0.5 else None
        start = parse(rng.choice(STARTS)) if start is None else start
        x, used, conditions = start, list[str](), set[str]()
        for _ in range(2):
            for rule in rng.sample(lemmas, len(lemmas)):
                reverse = rng.random() < 0.5
                if rule.name in used or len(str(rule.sides[reverse])) < 3:
                    continue
                try:
                    y = x.rewrite(rule, reverse=reverse)
                except PhipsiError:
                    continue
                long = len(str(y)) > LONGEST or len(words_of(y).terms) > MOST_WORDS
                if y is not start and not long:
                    x, used = y, [*used, rule.name]
                    conditions |= set(filter(None, rule.condition.split(", ")))
                    break
        if len(used) == 2 and not difference(start, x).is_zero:
            count -= 1
            yield start, x, ", ".join(sorted(conditions))


def main() -> None:
    """Measure and write the page."""
    begun = process_time()
    book()
    reading = process_time() - begun
    rows: list[tuple[float, float, str]] = []
    free: list[tuple[bool, float]] = []
    for row in DERIVATIONS:
        times: list[float] = []
        for _ in range(2):
            begun = process_time()
            found = row.derivation()
            times.append(process_time() - begun)
        begun = process_time()
        found.check()
        checked = process_time() - begun
        begun = process_time()
        free.append((bool(derive(row.identity())), process_time() - begun))
        alone = f"{free[-1][1]:.3f}" if free[-1][0] else "not found"
        cells = (row.name, row.source, len(found.steps), found.tried, *times, checked, alone)
        rows.append(
            (
                times[0],
                times[1],
                "| {} | {} | {} | {} | {:.3f} | {:.3f} | {:.3f} | {} |".format(*cells),
            )
        )
    below = sum(first < 1 for first, _, _ in rows)
    random_chains: list[float] = []
    missed: list[str] = []
    for seed in range(SEEDS):
        for lhs, rhs, condition in chains(CHAINS, seed):
            begun = process_time()
            found = derive(lhs, rhs, condition=condition)
            random_chains.append(process_time() - begun)
            if found:
                found.check()
            else:
                missed.append(f"`{lhs} = {rhs}`")
    quick = sum(t < 1 for t in random_chains)
    head = f"""# Derivations: search times

How fast `pp.derive` finds the derivations of the papers again. Written by `benchmarks/derivations.py`: {len(rows)} derivations, {below} of them found in less than a second the first time
(the second time {sum(second < 1 for _, second, _ in rows)}), {sum(first for first, _, _ in rows):.1f} s in all. Reading the book of identities takes {reading:.1f} s, once.
With the whole book, without the identities and the forms on the way that the table names, {sum(ok for ok, _ in free)} are found, {sum(ok and t < 1 for ok, t in free)} of them in
less than a second.

Random chains of two identities, looked for with the whole book: {len(random_chains) - len(missed)} of {len(random_chains)} are found and verified, {quick} take less than a second,
half of them less than {sorted(random_chains)[len(random_chains) // 2]:.2f} s, the slowest {max(random_chains):.1f} s. Not found: {"; ".join(missed) or "none"}.

| derivation | source | steps | forms tried | seconds | again | check | whole book |
|---|---|---|---|---|---|---|---|
"""
    PAGE.write_text(head + "\n".join(line for _, _, line in rows) + "\n", encoding="utf-8")
    print(head)


if __name__ == "__main__":
    main()
