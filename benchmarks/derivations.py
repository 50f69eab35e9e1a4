"""How long the derivations of the papers take: `python benchmarks/derivations.py`.

Every row of `phipsi.derivations.paper_derivations.py` is found twice in one process, and its steps are verified
again. The first time includes reading the book of identities and drawing the sample mechanisms, once
for all. The result is benchmarks/DERIVATIONS.md.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from phipsi.derivations.named_equations import book
from phipsi.derivations.paper_derivations import DERIVATIONS

PAGE = Path(__file__).with_name("DERIVATIONS.md")


def main() -> None:
    """Measure and write the page."""
    begun = perf_counter()
    book()
    reading = perf_counter() - begun
    rows: list[tuple[float, float, str]] = []
    for row in DERIVATIONS:
        times: list[float] = []
        for _ in range(2):
            begun = perf_counter()
            found = row.derivation()
            times.append(perf_counter() - begun)
        begun = perf_counter()
        found.check()
        checked = perf_counter() - begun
        cells = (row.name, row.source, len(found.steps), found.tried, *times, checked)
        rows.append(
            (times[0], times[1], "| {} | {} | {} | {} | {:.3f} | {:.3f} | {:.3f} |".format(*cells))
        )
    below = sum(first < 1 for first, _, _ in rows)
    head = f"""# Derivations of the papers

Written by `benchmarks/derivations.py`: {len(rows)} derivations, {below} of them found in less than a second the first time
(the second time {sum(second < 1 for _, second, _ in rows)}), {sum(first for first, _, _ in rows):.1f} s in all. Reading the book of identities takes {reading:.1f} s, once.

| derivation | source | steps | forms tried | seconds | again | check |
|---|---|---|---|---|---|---|
"""
    PAGE.write_text(head + "\n".join(line for _, _, line in rows) + "\n", encoding="utf-8")
    print(head)


if __name__ == "__main__":
    main()
