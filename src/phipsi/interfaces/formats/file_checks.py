"""Findings about a robot file, and how they are reported.

A moment of inertia J about the mass centre is that of a rigid body when its second moments
Σ = ½ tr(J) 1 − J are positive semidefinite: then its principal moments are ≥ 0 and each is at most
the sum of the other two (the triangle inequality).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from phipsi.errors import FileError, warn
from phipsi.model import SpatialInertia
from phipsi.model.extras import Coupling, Finding

DUST = 1e-12  # kg·m²: smaller principal moments are rounding, zero in effect
_ROUNDING = 1e-9  # of the largest principal moment


Remark = tuple[str, str, tuple[float, ...], bool]
"""Kind, message, numbers, and whether it is a problem."""


def inertia_remarks(inertia: SpatialInertia, moments: Sequence[float]) -> Iterator[Remark]:
    """Yield remarks about an inertia with these principal moments; there may be several.

    Kinds: "massless" (mass ≤ 0) and "singular" (a principal moment is zero) are notes, since links
    without mass and thin rods exist; "negative" and "triangle" are problems.
    """
    a, b, c = moments
    listed = f"principal moments ({a:.4g}, {b:.4g}, {c:.4g}) kg·m²"
    if inertia.mass <= 0:
        yield "massless", "it has no mass.", (inertia.mass,), False
    if abs(a) <= DUST:
        yield "singular", f"{listed}: the smallest is zero.", (a, b, c), False
    if a < -DUST:
        message = (
            f"{listed} are not all ≥ 0, so no rigid body has them. "
            f"Are the products of inertia too large, or their signs reversed?"
        )
        yield "negative", message, (a, b, c), True
    if a + b < c * (1 - _ROUNDING):
        message = (
            f"{listed} break the triangle inequality ({a:.4g} + {b:.4g} < {c:.4g}), so no rigid "
            f"body has them. They are wanted about the mass centre; were they given about the "
            f"joint?"
        )
        yield "triangle", message, (a, b, c), True


def repaired(inertia: SpatialInertia) -> tuple[SpatialInertia, Remark | None]:
    """The nearest inertia that a rigid body can have, and the remark that says what changed.

    Negative second moments become zero; mass, mass centre and principal axes stay.
    """
    principal, axes = np.linalg.eigh(inertia.moment_about_com_B)
    a, b, c = principal
    if a >= -DUST and a + b >= c * (1 - _ROUNDING):
        return inertia, None
    second = np.maximum(principal.sum() / 2 - principal, 0)
    nearest = second.sum() - second
    moment = axes @ np.diag(nearest) @ axes.T
    old, new = (", ".join(f"{x:.6g}" for x in values) for values in (principal, nearest))
    message = (
        f"principal moments changed from ({old}) to ({new}) kg·m², the nearest a rigid body can "
        "have."
    )
    remark = ("repaired", message, (*principal.tolist(), *nearest.tolist()), True)
    return SpatialInertia(inertia.mass, inertia.com_B, (moment + moment.T) / 2), remark


# ---- reaching the user: one warning, or an error if asked for ------------------------------------

_SHOWN = 5


def report_findings(
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
            f"{first.message} (strict=True rejects it; pp.load(path) loads with a warning){more}",
        )
    if problems:
        warn(summary(file, problems))
    if couplings:
        listed = ", ".join(f"{c.joint!r} (of {c.of!r})" for c in couplings[:_SHOWN])
        more = f" and {len(couplings) - _SHOWN} more" if len(couplings) > _SHOWN else ""
        warn(
            f"{file}: {len(couplings)} mimic joint(s) move independently: {listed}{more}. "
            "model.couplings lists what the file says."
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
        f"All of them: model.diagnosis. To reject such files: pp.load(path, strict=True){mend}."
    )


def _of_every_kind(findings: Sequence[Finding]) -> list[Finding]:
    """The first of every kind, then the second …; those about meshes come last."""
    seen: Counter[str] = Counter()
    rank: dict[int, tuple[int, bool]] = {}
    for k, finding in enumerate(findings):
        rank[k] = (seen[finding.kind], finding.kind == "mesh")
        seen[finding.kind] += 1
    return [findings[k] for k in sorted(rank, key=rank.__getitem__)]
