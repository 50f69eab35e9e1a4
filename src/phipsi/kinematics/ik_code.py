"""Machine code of one attempt of inverse kinematics, with elements in SIMD lanes."""

from __future__ import annotations

from phipsi.algorithms import StepCoordinates
from phipsi.core.backends import BLOCK
from phipsi.core.compiler import compile, default_backend
from phipsi.core.model import Model, PointSet
from phipsi.core.operators import J, frame_pose, moved
from phipsi.kinematics.ik_search import (
    AttemptInputs,
    AttemptOutputs,
    LevenbergMarquardt,
    ProblemSizes,
    Programs,
)
from phipsi.native import CustomKernel, LaneKernel, LaneMachine, sources_digest


def search_code(model: Model, where: PointSet, rest: bool = False) -> CustomKernel | None:
    """The search for targets at these points; None where there is no machine code.

    (q, goals (T, 4, 4), weights (T, 2), low, high, moving (nv,), settings) → q, position and
    rotation errors (T,), [met, iterations]. `low` and `high` are limits of coordinates at the
    places of their rates, ∓inf for none; `moving` is 1, or 0 for rates of fixed joints; `settings`
    are the two tolerances and the most iterations. With a `rest` posture, (nq,) and the pull to it
    follow. Elements whose goals are not poses fail.
    """

    def build() -> CustomKernel | None:
        if default_backend() != "native":
            return None
        frames = compile(
            (frame_pose, J), model, mode=("apply", "dense"), points=where, backend="native"
        ).native
        move = compile(moved, model, backend="native").native
        if frames is None or move is None:
            return None
        T, nq, nv = len(where), model.nq, model.nv
        inputs = {"q": (nq,), "goals": (T, 4, 4), "weights": (T, 2), "low": (nv,), "high": (nv,)}
        inputs |= {"moving": (nv,), "settings": (3,)}
        inputs |= {"rest": (nq,), "pull": ()} if rest else {}
        results = {"found": (nq,), "position": (T,), "rotation": (T,), "info": (2,)}
        steps = StepCoordinates(model, (), limits=False)
        places, groups = steps.places, steps.groups if rest else []

        sizes = ProblemSizes(T, nq, nv, 0, places, groups)

        def write(kernel: LaneKernel) -> None:
            m = LaneMachine(kernel)
            given = AttemptInputs(*(m.memory(kernel.inputs[n], *s) for n, s in inputs.items()))
            listed = (m.memory(kernel.results[n], *s) for n, s in results.items())
            found, position, rotation, info = listed
            out = AttemptOutputs(found, position, rotation, m.array(), m.array(), info)
            attempt = LevenbergMarquardt(m, sizes, Programs(frames, move), given, out)
            attempt.check_goals(BLOCK)
            attempt.run()
            attempt.check_finite(BLOCK)

        moves = [(type(group.rotation).__name__, group.nq, i, j) for group, i, j in groups]
        sources = sources_digest("kinematics", "algorithms/kinematics")
        key = f"inverse kinematics {T} {places} {moves} {rest} {sources}"
        return CustomKernel(key, (frames, move), inputs, results, write)

    return model.cached((search_code, where.key, rest), build)
