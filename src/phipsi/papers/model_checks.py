"""Checks of a user's own model: physics first, then every operator identity on it.

for result in check_model(model):
    print(result)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from phipsi.algorithms import forward_dynamics, inverse_dynamics, mass_matrix
from phipsi.attached import INERTIA_KINDS, Finding
from phipsi.core.model import Model
from phipsi.errors import PhipsiError, SingularHingeError, counted

_EPS = 2.220446049250313e-16
_SHOWN = 20
_MOST_BODIES = 120  # identities are proved with dense matrices, O(n³) each


@final
@dataclass(frozen=True)
class Check:
    """One result: `passed` is None if the check does not apply; `detail` has the numbers."""

    name: str
    passed: bool | None
    detail: str

    def __str__(self) -> str:
        word = {True: "pass", False: "FAIL", None: "skip"}[self.passed]
        return f"{word}  {self.name}: {self.detail}"


def check_model(model: Model, seed: int = 0) -> list[Check]:
    """Check a model at a random state; cost O(n³), a second for a humanoid."""
    with np.errstate(all="ignore"):  # what is singular is reported by name
        return list(_checks(model, seed))


def _checks(model: Model, seed: int) -> Iterator[Check]:
    problems = [finding for finding in model.diagnosis if finding.is_problem]
    of_inertia = [finding for finding in problems if finding.kind in INERTIA_KINDS]
    meshes = [finding for finding in problems if finding.kind == "mesh"]
    inputs = [finding for finding in problems if finding.kind == "actuator"]
    known = [*of_inertia, *meshes, *inputs]
    rest = [finding for finding in problems if finding not in known]
    yield Check("the file describes rigid bodies", not of_inertia, _listed(of_inertia, "problem"))
    yield Check("everything that affects the motion was read", not rest, _listed(rest, "problem"))
    if inputs:
        detail = f"{_listed(inputs, 'actuator')}\n        their efforts are tau, or laws to add"
        yield Check("actuators are inputs of a simulation", None, detail)
    if meshes:
        yield Check("meshes outside the package were not opened", None, _listed(meshes, "file"))
    if model.nv == 0:
        yield Check("dynamics", None, "the mechanism has no degree of freedom")
        return
    rng = np.random.default_rng(seed)
    q = model.random_configuration(rng)
    v, tau = rng.normal(size=(2, model.nv))
    M = mass_matrix(model, q)
    eigenvalues = np.linalg.eigvalsh(M)
    asymmetry = float(np.abs(M - M.T).max() / np.abs(M).max()) if M.any() else 0.0
    yield Check("mass matrix is symmetric", asymmetry < 1e-12, f"relative gap {asymmetry:.1e}")
    least, most = float(eigenvalues[0]), float(eigenvalues[-1])
    positive = least > most * _EPS
    numbers = f"eigenvalues {least:.3g} … {most:.3g}"
    if positive:
        numbers += f", condition number {most / least:.3g}"
    yield Check("mass matrix is positive definite", positive, numbers)
    yield _round_trip(model, q, v, tau, most / least if positive else np.inf)
    yield from _identities(model, seed)


def _listed(findings: Sequence[Finding], word: str) -> str:
    lines = "".join(f"\n        {finding}" for finding in findings[:_SHOWN])
    more = f"\n        … and {len(findings) - _SHOWN} more" if len(findings) > _SHOWN else ""
    return f"{counted(len(findings), word)}{lines}{more}"


def _round_trip(
    model: Model, q: np.ndarray, v: np.ndarray, tau: np.ndarray, condition: float
) -> Check:
    name = "inverse dynamics inverts forward dynamics"
    try:
        vdot = forward_dynamics(model, q, v, tau)
    except SingularHingeError as error:
        return Check(name, False, str(error).replace("\n", "\n        "))
    gap = np.abs(inverse_dynamics(model, q, v, vdot) - tau).max()
    scale = max(float(np.abs(mass_matrix(model, q)).max() * np.abs(vdot).max()), 1.0)
    allowed = max(1e-9, 100 * condition * _EPS)
    return Check(
        name,
        bool(gap <= allowed * scale),
        f"residual {gap:.1e} N·m or N, efforts up to {scale:.1e}",
    )


def _identities(model: Model, seed: int) -> Iterator[Check]:
    from phipsi.papers.theorems import identities, prove

    name = "operator identities"
    if model.n_bodies > _MOST_BODIES:
        detail = (
            f"not checked: proofs cost O(n³), and this model has more than {_MOST_BODIES} bodies"
        )
        yield Check(name, None, detail)
        return
    held, other, failures = 0, 0, []
    for identity in identities():
        try:
            proof = prove(identity, model, seed=seed)
        except SingularHingeError:  # a body without inertia
            other += 1
            continue
        except PhipsiError as error:
            failures.append(f"{identity.name}: {error}")
            continue
        if proof.holds is None:
            other += 1
        elif proof.holds:
            held += 1
        else:
            failures.append(str(proof))
    shown = "".join(f"\n        {text}" for text in failures[:10])
    yield Check(
        name,
        not failures,
        f"{held} hold, {len(failures)} fail, {other} do not apply to this mechanism{shown}",
    )
