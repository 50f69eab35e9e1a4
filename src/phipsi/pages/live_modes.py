"""Live pages of flexible bodies: their drag force, energies and admittances.

The drag force pulls a point of a body that moves with its modes, so that it bends the body. Blocks
of bodies with modes are interpreted only; what the page needs of them is computed from ℳ⁻¹ and the
velocities of the bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phipsi.algorithms import ELASTIC_ENERGY, WHOLE_INERTIA
from phipsi.core.arrays import Node, Tracer
from phipsi.core.compiler import compile
from phipsi.core.model import Model, modal_amplitudes, modal_rates
from phipsi.core.operators import B, H, V, mass_matrix, phi, pose
from phipsi.laws import Law, law
from phipsi.pages.deformed_shapes import modal_slice
from phipsi.simulation import StepGraph

HAND = "live_hand"
_FAR = 5.0  # times the coordinate at which a mode bends a body by 2 %
_STEPS = 1.0  # frequency times step above which Runge–Kutta steps would not be accurate


def hand_on_modes(model: Model) -> Law:
    """A spring from a point of a body that modes move, to a place in the world.

    The point is at p + R (r + Φ η): `moves` (modes, 3) has Φ, for the modes of all bodies one after
    the other. The force on it is the gradient of the spring's energy.
    """
    modal = [modal_slice(model, k) for k, n in enumerate(model.modes) if n]
    at_q = np.concatenate([np.arange(s.start, s.stop) for s in modal])
    at_v = modal_rates(model)
    spread = np.zeros((model.nv, len(at_v)))
    spread[at_v, np.arange(len(at_v))] = 1.0

    @law(name=HAND)
    def hand(
        q: Any, v: Any, X: Any, V: Any, body: Any, point: Any, moves: Any, target: Any,
        stiffness: Any, damping: Any,
    ) -> dict[str, Any]:  # fmt: skip
        R, p = X[:, :3, :3], X[:, :3, 3]
        place = point + q[at_q] @ moves
        gap = target - (p + R @ place)
        rate = V[:, 3:] + np.cross(V[:, :3], place) + v[at_v] @ moves
        pull = body[:, None] * (stiffness * gap - damping * np.einsum("nij,nj->ni", R, rate))
        force = np.einsum("nji,nj->ni", R, pull)
        energy = 0.5 * stiffness * (body @ (gap * gap).sum(axis=1))
        return {
            "body_forces": np.concatenate([np.cross(place, force), force], axis=1),
            "tau": spread @ (moves @ force.sum(axis=0)),
            "energy": energy,
        }

    return hand.bind(
        X=pose, V=V, body=np.zeros(model.n_bodies), point=np.zeros(3),
        moves=np.zeros((len(at_v), 3)), target=np.zeros(3), stiffness=0.0, damping=0.0,
    )  # fmt: skip


def modal_places(model: Model) -> list[dict[str, Any]]:
    """For every flexible body, where its modes are in q, in v and among the modes of all bodies.

    And its `compliance` K_e⁻¹; modes without stiffness count as rigid, not as free.
    """
    out: list[dict[str, Any]] = []
    row = 0
    for k, inertia in enumerate(model.flexible):
        if inertia is not None:
            n = inertia.modes
            q, v = modal_slice(model, k).start, model.v_slices[k].stop - n
            soft = np.linalg.pinv(inertia.stiffness, hermitian=True).ravel().tolist()
            out.append({"body": k, "q": q, "v": v, "count": n, "row": row, "compliance": soft})
            row += n
    return out


def modal_reach(model: Model, body: int) -> np.ndarray:
    """How far a slider moves each mode of a body: it bends by about a tenth."""
    inertia = model.flexible[body]
    assert inertia is not None
    return _FAR * modal_amplitudes(inertia)


def joint_inertias(model: Model) -> np.ndarray:
    """What every joint rate moves alone, 1/(ℳ⁻¹)ᵢᵢ, and 0 for modes: these have their damping."""
    out = 1.0 / np.diagonal(compile(mass_matrix.inv, model, mode="dense")(model.neutral()))
    out[modal_rates(model)] = 0.0
    return out


def energies_of_modes(graph: StepGraph, q: Node) -> tuple[Any, Any]:
    """The first moment Σ m c (3,), world axes, kg·m, and the energy of deformations, J."""
    inertia = Tracer(graph.apply_forms((WHOLE_INERTIA,), {"q": q}, mode=("dense",))[0])
    moment = np.stack([inertia[2, 4], inertia[0, 5], inertia[1, 3]])
    return moment, Tracer(graph.apply_forms((ELASTIC_ENERGY,), {"q": q})[0])


def admittance(graph: StepGraph, q: Node, model: Model) -> Sequence[Node]:
    """ℳ⁻¹ (nv, nv), and the map from rates to the velocities of all bodies (6 n, nv), body axes."""
    dense: Any = {"mode": ("dense",)}
    at: Any = {"points": list(model.body_names), "axes": "body"}
    inverse = graph.apply_forms((mass_matrix.inv,), {"q": q}, **dense)
    return *inverse, *graph.apply_forms((B.T @ phi.T @ H.T,), {"q": q}, **dense, **at)


def integrator_of_modes(model: Model, dt: float) -> str:
    """Steps that stay stable: elastic forces implicitly where modes are too fast for `dt`.

    Of a mechanism with loops, those of its tree decide: constraints make no mode faster than the
    fastest (Rayleigh).
    """
    from phipsi.flexible import natural_frequencies

    fastest = np.nanmax(natural_frequencies(model), initial=0.0)
    return "linearly_implicit" if fastest * dt > _STEPS else "rk4"
