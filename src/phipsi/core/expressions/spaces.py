"""The spaces operators map between.

A shape check cannot see that ``M @ phi`` is meaningless, because both factors are 6n × 6n. Spaces
can: joint rates and joint efforts are dual to each other, body motions and body forces too, and an
operator ``A : X → Y`` has the adjoint ``A* : Y' → X'`` where ' is the dual.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phipsi.core.model import Model, PointSet


@dataclass(frozen=True, eq=False)
class Space:
    """One space: the meaning of its vectors, its dual, and the index set of its blocks.

    There is one object of each, so they are compared and hashed by identity.

    `index` is the set the blocks run over: "joint", "body" and "parameter" (one block per body),
    "point", "row", "world" (one block in all) or "one" (scalars). `width` is the size of a block;
    None means that it differs from joint to joint.
    """

    name: str
    phrase: str
    index: str
    width: int | None
    dual_name: str

    @property
    def dual(self) -> Space:
        """The space of the linear functionals on this one."""
        return space_named(self.dual_name)

    @property
    def per_body(self) -> bool:
        """True if there is one block per body (joint, body and parameter spaces)."""
        return self.index in ("joint", "body", "parameter")

    @property
    def of_poses(self) -> bool:
        """True if the blocks are 4 × 4 poses."""
        return self.width == 4

    @property
    def is_curved(self) -> bool:
        """True for poses and configurations, which can be returned but not multiplied."""
        return self.of_poses or self.name == "configurations"

    def __repr__(self) -> str:
        return self.phrase

    def __reduce__(self) -> tuple[object, ...]:
        return (space_named, (self.name,))


SPACES: dict[str, Space] = {}
UNKNOWN = Space("unknown", "a space not known yet", "unknown", 0, "unknown")
"""What an identity or zero is between, until a sum or product says it."""


def _space(name: str, phrase: str, index: str, width: int | None, dual: str) -> Space:
    SPACES[name] = Space(name, phrase, index, width, dual)
    return SPACES[name]


def space_named(name: str) -> Space:
    """The space with this name, e.g. ``space_named("efforts")``."""
    return UNKNOWN if name == UNKNOWN.name else SPACES[name]


RATES = _space("rates", "joint rates", "joint", None, "efforts")
EFFORTS = _space("efforts", "joint efforts", "joint", None, "rates")
NORMALISED = _space("normalised", "normalised innovations", "joint", None, "normalised")
MOTIONS = _space("motions", "body motions", "body", 6, "forces")
FORCES = _space("forces", "body forces", "body", 6, "motions")
NORMALISED_FORCES = _space(
    "normalised_forces", "normalised body forces", "body", 6, "normalised_forces"
)
POINT_MOTIONS = _space("point_motions", "point motions", "point", 6, "point_forces")
POINT_FORCES = _space("point_forces", "point forces", "point", 6, "point_motions")
ROW_RATES = _space("row_rates", "constraint rates", "row", 1, "row_forces")
ROW_FORCES = _space("row_forces", "constraint multipliers", "row", 1, "row_rates")
WORLD_MOTION = _space("world_motion", "motion of the whole", "world", 6, "world_force")
WORLD_FORCE = _space("world_force", "total force", "world", 6, "world_motion")
PARAMETERS = _space("parameters", "inertial parameters", "parameter", 10, "parameter_weights")
PARAMETER_WEIGHTS = _space(
    "parameter_weights", "weights of inertial parameters", "parameter", 10, "parameters"
)
POSES = _space("poses", "body poses", "body", 4, "poses")
FRAME_POSES = _space("frame_poses", "frame poses", "point", 4, "frame_poses")
CONFIGURATIONS = _space("configurations", "configurations", "joint", None, "configurations")
ONE = _space("one", "scalars", "one", 1, "one")


def space_size(space: Space, model: Model, points: PointSet) -> int:
    """Number of scalars in a vector of the space."""
    n, poses = model.n_bodies, space.of_poses
    sizes = {
        "joint": model.nq if space.is_curved else model.nv,
        "body": 16 * n if poses else 6 * n + sum(model.more_rows),
        "parameter": 10 * n,
        "point": (16 if poses else 6) * len(points),
        "row": row_count(points),
        "world": 6,
        "one": 1,
    }
    return sizes[space.index]


def row_count(points: PointSet) -> int:
    """Number of constraint rows on the points."""
    return 0 if points.closures is None else points.closures.n_rows
