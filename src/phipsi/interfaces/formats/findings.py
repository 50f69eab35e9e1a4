"""Findings about a robot file, and how they are reported.

A moment of inertia J about the mass centre is that of a rigid body when its second moments
Σ = ½ tr(J) 1 − J are positive semidefinite: then its principal moments are ≥ 0 and each is at most
the sum of the other two (the triangle inequality).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from phipsi.errors import FileError, warn
from phipsi.interfaces.formats.files import Place
from phipsi.model import SpatialInertia
from phipsi.model.extras import Coupling, Finding

DUST = 1e-12  # kg·m²: smaller principal moments are rounding, zero in effect
_ROUNDING = 1e-9  # of the largest principal moment


@final
@dataclass(frozen=True)
class Source:
    """An inertia and where the file states it."""

    element: str
    body: str
    at: Place
    inertia: SpatialInertia

    def finding(
        self, kind: str, message: str, numbers: tuple[float, ...] = (), is_problem: bool = False
    ) -> Finding:
        """Return a remark about it."""
        at = self.at
        return Finding(
            kind, self.element, self.body, message, numbers, at.file, at.line, is_problem
        )


def inertia_findings(sources: Sequence[Source]) -> Iterator[Finding]:
    """Yield findings about each inertia; one may have several.

    Kinds: "massless" (mass ≤ 0) and "singular" (a principal moment is zero) are notes, since links
    without mass and thin rods exist; "negative" and "triangle" are problems.
    """
    if not sources:
        return
    principal = np.linalg.eigvalsh(np.stack([s.inertia.moment_about_com_B for s in sources]))
    for source, moments in zip(sources, principal.tolist(), strict=True):
        a, b, c = moments
        listed = f"({a:.4g}, {b:.4g}, {c:.4g}) kg·m²"
        if source.inertia.mass <= 0:
            yield source.finding("massless", "it has no mass.", (source.inertia.mass,))
        if abs(a) <= DUST:
            message = f"principal moments {listed}: the smallest is zero."
            yield source.finding("singular", message, (a, b, c))
        if a < -DUST:
            yield source.finding(
                "negative",
                f"principal moments {listed} are not all ≥ 0, so no rigid body has them. "
                f"Are the products of inertia too large, or their signs reversed?",
                (a, b, c),
                True,
            )
        if a + b < c * (1 - _ROUNDING):
            yield source.finding(
                "triangle",
                f"principal moments {listed} break the triangle inequality ({a:.4g} + {b:.4g} < "
                f"{c:.4g}), so no rigid body has them. They are wanted about the mass centre; were "
                f"they given about the joint?",
                (a, b, c),
                True,
            )


def repaired(source: Source) -> tuple[SpatialInertia, Finding | None]:
    """The nearest inertia that a rigid body can have, and the remark that says what changed.

    Negative second moments become zero; mass, mass centre and principal axes stay.
    """
    J = source.inertia.moment_about_com_B
    principal, axes = np.linalg.eigh(J)
    a, b, c = principal
    if a >= -DUST and a + b >= c * (1 - _ROUNDING):
        return source.inertia, None
    second = np.maximum(principal.sum() / 2 - principal, 0)
    nearest = second.sum() - second
    moment = axes @ np.diag(nearest) @ axes.T
    old, new = (", ".join(f"{x:.6g}" for x in values) for values in (principal, nearest))
    finding = source.finding(
        "repaired",
        f"principal moments changed from ({old}) to ({new}) kg·m², the nearest a rigid body "
        "can have.",
        (*principal.tolist(), *nearest.tolist()),
        True,
    )
    inertia = source.inertia
    return SpatialInertia(inertia.mass, inertia.com_B, (moment + moment.T) / 2), finding


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
