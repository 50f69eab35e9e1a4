"""What the forms cost that the compiler finds: random expressions, and derivatives of the papers'.

A right result can come from a form that is needlessly dear; only its cost shows that. The recorded
numbers are floating-point operations of one evaluation. If a change makes a form dearer, look at
it; if it makes forms cheaper, record that:

    PHIPSI_UPDATE_GOLDEN=1 pytest tests/core/sweeps/test_costs.py
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from amounts import ALL
from flexible_oracle import random_flexible_tree
from random_expressions import Generator
from random_models import random_tree

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.dynamics import dynamics_expressions as dynamics
from phipsi.core.expressions.kinds import Op
from phipsi.core.expressions.node import Expr
from phipsi.core.model.model import Model
from phipsi.core.model.points import PointSet, point_set
from phipsi.errors import LoweringError

FILE = Path(__file__).parent / "golden" / "costs.json"
UPDATE = bool(os.environ.get("PHIPSI_UPDATE_GOLDEN"))
RECORDED = 400
RANDOM = RECORDED if ALL or UPDATE else 200

DERIVED = {
    "inverse dynamics": dynamics.INVERSE_DYNAMICS,
    "forward dynamics": dynamics.FORWARD_DYNAMICS,
    "gravity forces": dynamics.GRAVITY_FORCES,
    "body accelerations": ops.phi.T @ (ops.H.T @ ops.vdot + ops.a),
    "point velocities": ops.J @ ops.v,
    "point forces": ops.J.T @ ops.f0,
    "momentum": ops.total(ops.M @ ops.V, (0.1, 0.2, 0.3)),
    "kinetic energy": 0.5 * (ops.V.T @ ops.M @ ops.V),
    "force through a step": ops.E_phi @ ops.M @ ops.E_phi.T @ ops.V + ops.phi_tilde @ ops.b,
    "mass matrix": ops.mass_matrix @ ops.vdot,
    "mass matrix inverse": ops.mass_matrix.inv @ ops.tau,
    "operational inertia": ops.Lambda @ ops.f0,
}


def a_tree() -> tuple[Model, PointSet]:
    """A forest with all kinds of joints and points on two of its bodies."""
    rng = np.random.default_rng(3)
    model = random_tree(rng, 7, n_roots=2, armature=True, frames=True)
    names = model.body_names
    return model, point_set(model, [names[3], (names[6], (0.1, -0.2, 0.3))], "world")


TREE, POINTS = a_tree()


def cost(x: Expr, tree: Model = TREE, points: PointSet = POINTS, **options: str) -> int | None:
    """Operations of one evaluation; None if there is no O(N) form."""
    try:
        program = pp.compile(x, tree, points=points, backend="reference", **options)  # type: ignore[arg-type]
    except LoweringError:
        return None
    return program.explain().flops


def random_costs() -> Iterator[tuple[str, int | None]]:
    """Cost of random expressions, applied and as matrices."""
    for seed in range(RANDOM):
        rng = np.random.default_rng([seed, 5])
        x = Generator(rng, points=bool(seed % 2), independent=True).expression()
        yield f"{seed}", cost(x)
        if not x.is_vector and seed % 4 == 0:
            yield f"{seed} dense", cost(x, mode="dense")


def derivative_costs() -> Iterator[tuple[str, int | None]]:
    """Cost of derivatives: along a direction, applied forward and backward, as matrices."""
    for name, x in DERIVED.items():
        for wrt in ("q", "v", "vdot", "tau"):
            jacobian = pp.diff(x, wrt)
            if jacobian.op is Op.ZERO:
                continue
            yield f"{name} along d{wrt}", cost(pp.diff(x, wrt, along=f"d{wrt}"))
            yield f"{name} by {wrt}", cost(jacobian)
            yield f"{name} by {wrt}, adjoint", cost(jacobian.T)
            yield f"{name} by {wrt}, dense", cost(jacobian, mode="dense")
        yield (
            f"{name} along dq, along v",
            cost(pp.diff(pp.diff(x, "q", along="dq"), "q", along="v")),
        )


def flexible_costs() -> Iterator[tuple[str, int | None]]:
    """Cost of forms of bodies with modes, and of their derivatives."""
    tree = random_flexible_tree(1, 4, modes=(2, 0, 3, 1)).build()
    at = point_set(tree, ["b3"], "world")
    for name, x in DERIVED.items():
        yield name, cost(x, tree, at)
        yield f"{name} along dq", cost(pp.diff(x, "q", along="dq", modes=True), tree, at)
        yield f"{name} by q, adjoint", cost(pp.diff(x, "q", modes=True).T, tree, at)


def seed_of(name: str) -> int:
    return int(name.split()[0])


GROUPS: dict[str, Callable[[], Iterator[tuple[str, int | None]]]] = {
    "random": random_costs,
    "derivatives": derivative_costs,
    "flexible": flexible_costs,
}


def differences(want: dict[str, int | None], got: dict[str, int | None]) -> list[str]:
    """Lines that say what became dearer, cheaper, or has an O(N) form no longer or now."""
    return [f"{k}: {want.get(k)} → {got.get(k)}" for k in got if want.get(k) != got[k]] + [
        f"{k}: {want[k]} → not asked" for k in want if k not in got
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_no_form_became_dearer(group: str):
    got = dict(GROUPS[group]())
    recorded = json.loads(FILE.read_text()) if FILE.exists() else {}
    if UPDATE:
        recorded[group] = got
        FILE.write_text(json.dumps(recorded, indent=1) + "\n")
    asked = {
        k: v for k, v in recorded.get(group, {}).items() if group != "random" or seed_of(k) < RANDOM
    }
    lines = differences(asked, got)
    assert not lines, "costs differ from the recorded ones:\n" + "\n".join(lines)


def test_a_cost_that_is_off_by_one_operation_is_noticed():
    assert differences({"0": 7}, {"0": 8}) == ["0: 7 → 8"]
    assert differences({"0": 7}, {"0": None}) == ["0: 7 → None"]
