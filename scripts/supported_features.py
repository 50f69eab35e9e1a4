"""Write docs/supported-features.md: which features of a mechanism each public function supports.

python scripts/supported_features.py          writes the page
python scripts/supported_features.py --check  says whether it is current

The page follows from the declarations above the functions (`core/model/capabilities.py`).
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # not another library that is installed
import phipsi  # noqa: E402
from phipsi.core.model import CAPABILITIES, LABELS, UNAFFECTED, Refusal  # noqa: E402

PAGE = ROOT / "docs" / "supported-features.md"
_HEAD = """# Supported features

Which public functions support **closed kinematic loops**, **contacts**, **flexible bodies**,
**rotors on skew axes** and **prescribed joints**. Look here before you design with one of these
features. The last lines of a function's documentation say the same (`help(pp.simulate)`), and the
error of a function that rejects a mechanism says what to use instead.

You need: a [model](models.md) or a [system](closed-chains.md). The table is written by
`python scripts/supported_features.py` from the declarations of the functions.

| cell | meaning |
|---|---|
| yes | the feature is taken into account |
| same | the feature does not change the answer |
| – | a mechanism with the feature is rejected, mostly for a [reason](#reasons) |
| | the function takes no `prescribed=` |

"Closed loops" includes constraints of all kinds. `system.model` is the mechanism without its loops
and contacts, and `model.with_rigid_bodies()` the mechanism without its modal coordinates. Rotors on
skew axes are those that are [not constant inertias](rotors.md).
[Limitations](limitations.md) lists what the whole library cannot do."""


def functions() -> dict[str, Any]:
    """The public functions and classes with a declaration, by name below `pp`."""
    names = runpy.run_path(str(ROOT / "scripts" / "public_names.py"))
    found: dict[str, Any] = {}
    for name in phipsi.__all__:
        value = getattr(phipsi, name)
        inside = names["members"](value) if isinstance(value, ModuleType) else []
        for full, x in [(name, value), *((f"{name}.{n}", y) for n, y in inside)]:
            if callable(x) and x.__hash__ is not None and x in CAPABILITIES:
                found[full] = x
    shortest: dict[Any, str] = {}
    for name, x in found.items():
        shortest[x] = min(name, shortest.get(x, name), key=lambda n: n.count("."))
    return {name: x for x, name in sorted(shortest.items(), key=lambda item: item[1].lower())}


def page() -> str:
    """The text of docs/supported-features.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    listed = functions()
    yield f"\n| function | {' | '.join(LABELS.values())} |"
    yield "|---|" + "---|" * len(LABELS)
    for name, function in listed.items():
        declared = CAPABILITIES[function]
        cells = (_cell(getattr(declared, feature)) for feature in LABELS)
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield "\n## Reasons\n\n| function | rejects | because |\n|---|---|---|"
    for name, function in listed.items():
        for feature, label in LABELS.items():
            refusal = getattr(CAPABILITIES[function], feature)
            if isinstance(refusal, Refusal) and refusal.why:
                other = LABELS.get(refusal.combined_with)
                what = f"{label} with {other}" if other else label
                yield f"| `{name}` | {what} | {_reason(refusal.why)} |"


def _cell(support: Any) -> str:
    if support is None:
        return ""
    if support is UNAFFECTED:
        return "same"
    if isinstance(support, Refusal) and support.combined_with:
        return f"not with {LABELS[support.combined_with]}"
    return "yes" if support is True else "–"


def _reason(why: str) -> str:
    """The reason without the code to paste, and the words that introduce it."""
    line, _, code = why.partition("\n")
    line = line.rpartition(". ")[0] if code else line.removesuffix(".")
    return line.replace("|", "\\|")


def main() -> int:
    """Write the page, or compare it."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
        return 0
    print("docs/supported-features.md is not current:  python scripts/supported_features.py")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
