"""Loop closures, resolved to bodies: the source of a system's constraint rows.

A closure joins a frame on body a with a frame on body b (−1 is the world); z is its axis. With the
rotation R = R_a* R_b of frame b in frame a and the position r = R_a* (x_b − x_a) of its origin, the
rows of a closure are some of

    angular   "axis": R₀₂, R₁₂      "cross": R₂₂ − constant      "all": vee of the skew part of R
              "spin": the relative angular velocity about z of frame a, which has no position
    linear    "all": r     "xy": r₀, r₁     "z": r₂     "distance": |r| − constant
              "circle": |r| − constant, r₂

They are exactly zero when the loop is closed, and A is exactly their derivative along the motions
of the two frames, also where it is not closed. General rows A V̂ = U have a constant matrix instead,
and rows f(q) = 0 of functions one that the derivatives of f multiply (`law_forms.py`).

Programs of a system may have points of one's own before the closure frames (docs/decisions/0078).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model.law_forms import LawForm, RowLaw
from phipsi.core.model.points import PointSet
from phipsi.core.model.pose import Pose
from phipsi.core.model.value import fill
from phipsi.support import fields_in_line

ANGULAR: dict[str, tuple[str, ...]] = {
    "none": (),
    "axis": ("R02", "R12"),
    "cross": ("R22",),
    "all": ("sx", "sy", "sz"),
    "spin": ("wz",),
}
LINEAR: dict[str, tuple[str, ...]] = {
    "none": (),
    "all": ("rx", "ry", "rz"),
    "xy": ("rx", "ry"),
    "z": ("rz",),
    "distance": ("distance",),
    "circle": ("distance", "rz"),
}
FORMS = (
    "R02", "R12", "R22", "sx", "sy", "sz", "wz", "rx", "ry", "rz", "distance", "body", "world",
)  # fmt: skip
"""Quantities that rows measure; "body", "world": constant rows in axes of point or world."""

OWN, FRAMES = "points", "closures"
"""Selections of points in a system: those of one's own, and the closure frames."""


@dataclass(frozen=True, eq=False)
class Closure:
    """One constraint of up to six rows between two frames, or constant rows on several points.

    `rows` are the names of its rows. `a` and `b` are bodies, `a_frame` and `b_frame` the closure
    frames in their axes; `constant` is the length of a distance, the radius of a circle, or the
    cosine of the angle between the two axes of "cross". General rows have `points` (body, frame)
    and `matrix` (rows × 6 per point) on their motions [angular; linear], in the axes of the frames
    or (`axes="world"`) of the world. Rows of `laws`, one each, are functions of the coordinates at
    `places` in q: two points each, of which `matrix` has the rate of the coordinate in every row.
    """

    name: str
    rows: tuple[str, ...]
    angular: str = "none"
    linear: str = "none"
    a: int = -1
    b: int = -1
    a_frame: Pose = field(default_factory=Pose)
    b_frame: Pose = field(default_factory=Pose)
    constant: float = 0.0
    points: tuple[tuple[int, Pose], ...] = ()
    matrix: np.ndarray | None = None
    axes: str = "body"
    laws: tuple[RowLaw, ...] = ()
    places: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return fields_in_line(self)

    def __post_init__(self) -> None:
        assert self.angular in ANGULAR and self.linear in LINEAR and self.axes in ("body", "world")
        if self.matrix is None:
            fill(self, points=((self.a, self.a_frame), (self.b, self.b_frame)))
            assert len(self.rows) == len(self.forms)
        else:
            assert self.matrix.shape == (len(self.rows), 6 * len(self.points))
            assert len(self.laws) in (0, len(self.rows))

    @property
    def forms(self) -> tuple[str, ...]:
        """The quantity that each row measures."""
        if self.matrix is not None:
            return (self.axes,) * len(self.rows)
        return ANGULAR[self.angular] + LINEAR[self.linear]

    def form_at(self, row: int, point: int) -> str | LawForm:
        """What the link of a row at a point measures."""
        if not self.laws:
            return self.forms[row]
        return LawForm(self.laws[row], point // 2, self.places)

    @property
    def key(self) -> tuple[object, ...]:
        """The contents as one hashable value."""
        frames = tuple((k, f.rotation.tobytes(), f.translation.tobytes()) for k, f in self.points)
        matrix = None if self.matrix is None else self.matrix.tobytes()
        kind = (self.angular, self.linear, self.constant, self.axes)
        laws = tuple(law.text for law in self.laws)
        return (self.name, self.rows, kind, frames, matrix, laws, self.places)


@dataclass(frozen=True, eq=False)
class ClosureSet:
    """The closures of a system, with their points and links.

    A link is one row at one point: row `link_row[l]` acts on the motion of point `link_point[l]`,
    as `link_form[l]` says. `points` are the closure frames in their own axes; `mate[p]` is the
    other frame of the same closure (for constant rows p itself, or the world's frame if they are in
    world axes), `side[p]` 0 for a and 1 for b.
    `link_constant` (6 per link) are the constants of a link: six numbers of a constant row, or
    the closure's constant first. `first_point` (closures) is where the points of a closure begin.
    `selections` name sets of bodies ("P", "S"). Before the closure frames stand `n_own` points of
    one's own: those of a closure without rows, which comes first and has zero columns in A.
    """

    closures: tuple[Closure, ...]
    points: PointSet
    mate: np.ndarray
    side: np.ndarray
    link_point: np.ndarray
    link_row: np.ndarray
    link_form: tuple[str | LawForm, ...]
    link_constant: np.ndarray
    row_names: tuple[str, ...]
    row_closure: np.ndarray
    first_point: np.ndarray
    selections: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    n_own: int = 0

    def __repr__(self) -> str:
        n, rows = len(self.closures) - bool(self.n_own), self.n_rows
        return f"ClosureSet({n} closure{'s' * (n != 1)}, {rows} row{'s' * (rows != 1)})"

    @property
    def has_laws(self) -> bool:
        """Whether some rows are functions of coordinates."""
        return any(c.laws for c in self.closures)

    @property
    def n_rows(self) -> int:
        """Number of constraint rows."""
        return len(self.row_names)

    @property
    def names_of_selections(self) -> tuple[str, ...]:
        """What J[…] and Λ[…] can be restricted to: sets of bodies, points of one's own, frames."""
        return tuple(sorted((*self.selections, *((OWN, FRAMES) if self.n_own else ()))))

    def selected(self, name: str) -> NDArray[np.bool_]:
        """Whether each point is in a selection."""
        if name in (OWN, FRAMES):
            return (np.arange(len(self.points)) < self.n_own) == (name == OWN)
        inside = [body in self.selections[name] for body in self.points.body]
        return np.array(inside, dtype=bool)

    def with_points(self, own: PointSet) -> PointSet:
        """Points of one's own in their axes, then the closure frames in theirs.

        The rows stay as they are: A has zero columns at the points of one's own.
        """
        poses = zip(own.body, map(Pose, own.rotation, own.offset), strict=True)
        none = np.zeros((0, 6 * len(own)))
        first = Closure(OWN, (), points=tuple(poses), matrix=none)
        return closure_set((first, *self.closures), self.selections, own).points

    def __len__(self) -> int:
        return len(self.closures)

    @property
    def key(self) -> tuple[object, ...]:
        """The contents as one hashable value."""
        chosen = tuple(sorted((n, tuple(sorted(s))) for n, s in self.selections.items()))
        return (tuple(c.key for c in self.closures), chosen, self.n_own)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClosureSet) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def closure_set(
    closures: Sequence[Closure],
    selections: Mapping[str, frozenset[int]] | None = None,
    own: PointSet | None = None,
) -> ClosureSet:
    """Number the points, links and rows of the closures.

    `own` gives the names and the axes of the points of the first closure, which has no rows.
    """
    points: list[tuple[str, int, Pose, int, int]] = []  # name, body, frame, mate, side
    links: list[tuple[int, int, str | LawForm, ArrayLike]] = []  # point, row, form, constants
    rows = [(f"{c.name}.{row}", i) for i, c in enumerate(closures) for row in c.rows]
    first_points: list[int] = []
    first_row = 0
    for closure in closures:
        first, matrix = len(points), closure.matrix
        first_points.append(first)
        world = first + len(closure.points)  # a frame more, if rows are in the world's axes
        for p, (body, frame) in enumerate(closure.points):
            if matrix is None:
                points.append((f"{closure.name}.{'ab'[p]}", body, frame, first + 1 - p, p))
            else:
                mate = first + p if closure.axes == "body" else world
                points.append((f"{closure.name}.{p}", body, frame, mate, 0))
            if body < 0:  # the world does not move: no link, but the frame is there
                continue
            for i in range(len(closure.rows)):
                form = closure.form_at(i, p)
                constants = (closure.constant, 0.0, 0.0, 0.0, 0.0, 0.0)
                if matrix is not None:
                    constants = matrix[i, 6 * p : 6 * p + 6]
                links.append((first + p, first_row + i, form, constants))
        if matrix is not None and closure.axes == "world":
            points.append((f"{closure.name}.world", -1, Pose(), world, 1))
        first_row += len(closure.rows)
    names, bodies, frames, mates, sides = zip(*points, strict=True) if points else ((),) * 5
    n_own = 0 if own is None else len(own)
    names = names if own is None else (*own.names, *names[n_own:])
    axes = "body" if own is None else own.axes
    where = PointSet.of_frames(names, list(zip(bodies, frames, strict=True)), axes)
    out = ClosureSet(
        closures=tuple(closures),
        points=where,
        mate=np.array(mates, dtype=np.int64),
        side=np.array(sides, dtype=np.int64),
        link_point=np.array([x[0] for x in links], dtype=np.int64),
        link_row=np.array([x[1] for x in links], dtype=np.int64),
        link_form=tuple(x[2] for x in links),
        link_constant=np.array([x[3] for x in links]).reshape(-1, 6),
        row_names=tuple(name for name, _ in rows),
        row_closure=np.array([i for _, i in rows], dtype=np.int64),
        first_point=np.array(first_points, dtype=np.int64),
        selections=dict(selections or {}),
        n_own=n_own,
    )
    fill(where, closures=out)  # the points know the rows on them
    return out


NO_CLOSURES = closure_set(())
"""Those of a tree."""
