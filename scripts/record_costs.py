"""Judge what the compiler's forms cost against the recorded costs, and record them.

python scripts/record_costs.py                 records; refuses if a form became dearer
python scripts/record_costs.py --accept-rise   records rises too; say why in the commit
python scripts/record_costs.py --check         only says what changed

Costs are floating-point operations of one evaluation, of random expressions and of derivatives
(`tests/support/recorded_costs.py`). Rises are listed first, the worst of them first. A cost whose
expression or mechanism is another one than when it was recorded is not judged.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "support")]
os.environ["PHIPSI_UPDATE_GOLDEN"] = "1"  # all random expressions, not those of a quick run

from recorded_costs import GROUPS, judged, measured, recorded, write  # noqa: E402


def main(words: Sequence[str]) -> int:
    """Judge, and record unless that is refused; 1 if something is left to do."""
    unknown = set(words) - {"--check", "--accept-rise"}
    if unknown:
        print(f"unknown option {min(unknown)}\n\n{__doc__}")
        return 2
    now = {group: measured(group) for group in GROUPS}
    changed = has_risen = False
    for group, costs in now.items():
        judgement = judged(recorded(group), costs)
        changed |= not judgement.is_as_recorded
        has_risen |= bool(judgement.risen)
        print(f"{group}: {'as recorded' if judgement.is_as_recorded else ''}")
        for line in judgement.lines():
            print(f"  {line}")
    if not changed:
        return 0
    if "--check" in words:
        return 1
    if has_risen and "--accept-rise" not in words:
        print(
            "\nNothing is recorded, because forms became dearer. Look at them with pp.explain. If "
            "the rise is meant:\n    python scripts/record_costs.py --accept-rise"
        )
        return 1
    write(now)
    print("\nrecorded; read the difference:  git diff --stat, git diff")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
