"""How findings about a file reach the user: as one warning, or as an error if asked for."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from phipsi.errors import PhipsiWarning
from phipsi.interfaces.files import FileError
from phipsi.model.extras import Coupling, Finding

_SHOWN = 5
_CALLER = 6  # frames up from here: tell, Draft.finish, a reader, _read, load, who called it


def tell(
    file: str, findings: Sequence[Finding], couplings: Sequence[Coupling], *, strict: bool
) -> None:
    """Warn of the problems among the findings, and of mimic joints; raise if `strict`."""
    problems = [finding for finding in findings if finding.is_problem]
    if strict and problems:
        first = problems[0]
        more = f"\n… and {len(problems) - 1} more such findings." if len(problems) > 1 else ""
        raise FileError(
            first.file,
            first.line,
            first.element,
            f"{first.message} (strict=True refuses it; pp.load(path) loads with a warning){more}",
        )
    if problems:
        warnings.warn(summary(file, problems), PhipsiWarning, stacklevel=_CALLER)
    if couplings:
        listed = ", ".join(f"{c.joint!r} (of {c.of!r})" for c in couplings[:_SHOWN])
        more = f" and {len(couplings) - _SHOWN} more" if len(couplings) > _SHOWN else ""
        warnings.warn(
            f"{file}: {len(couplings)} mimic joint(s) move independently: {listed}{more}. "
            "model.couplings lists what the file says.",
            PhipsiWarning,
            stacklevel=_CALLER,
        )


def summary(file: str, problems: Sequence[Finding]) -> str:
    """Several problems in one text: how many of each kind, and the first few in full."""
    counts = Counter(finding.kind for finding in problems)
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    first = _of_every_kind(problems)[:_SHOWN]
    shown = "\n".join(f"  {finding}" for finding in first)
    more = f"\n  … and {len(problems) - len(first)} more" if len(problems) > len(first) else ""
    fate = "some inertias were changed" if counts["repaired"] else "nothing was changed"
    mend = ""
    if counts["triangle"] or counts["negative"]:
        mend = '; to mend inertias: pp.load(path, repair="inertia")'
    return (
        f"{file}: {len(problems)} finding(s) ({kinds}); {fate}.\n{shown}{more}\n"
        f"All of them: model.diagnosis. To refuse such files: pp.load(path, strict=True){mend}."
    )


def _of_every_kind(findings: Sequence[Finding]) -> list[Finding]:
    """The first of every kind, then the second …; what is only to be looked at comes last."""
    seen: Counter[str] = Counter()
    rank: dict[int, tuple[int, bool]] = {}
    for k, finding in enumerate(findings):
        rank[k] = (seen[finding.kind], finding.kind == "mesh")
        seen[finding.kind] += 1
    return [findings[k] for k in sorted(rank, key=rank.__getitem__)]
