"""Impulses of contacts with dry friction: the problem, its cones, and how far from a solution.

Velocities u = W p + b of rows obey Signorini's and Coulomb's laws at every contact,

    0 ≤ p_n ⊥ u_n + s ≥ 0,    |p_t| ≤ μ p_n,    μ p_n u_t + |u_t| p_t = 0

which is one condition on cones, K ∋ p ⊥ u + (s + μ |u_t|) e_n ∈ K* (De Saxcé). A **group** is a set
of rows with one bound: |p_g / μ_g| ≤ p_n, an ellipse where the coefficients of its rows differ.
Sliding and spinning share a group (sliding weakens the resistance to spinning); rolling has its
own. A row of dry friction in a joint is a group with a known bound.

**Scaled** problems have y = p/σ, z = σ u, so that groups are round: |y_g| ≤ c_g y_n. Rows without a
coefficient and rows of absent contacts have σ = 0; they are dead: y = 0.

**Source:** theory/contact 2 (K2, K3), 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, combinations, pairwise
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import InputError

Array = NDArray[Any]

ROWS = {"normal": "n", "point": "12n", "torsion": "s12n", "rolling": "abs12n"}
"""Rows of a contact by its kind: rolling about t1, t2 (a, b), spin (s), t1, t2 (1, 2), normal."""

INACTIVE = 1e9
"""A contact whose s is at least this (m/s) is absent."""

ACCEPTED = 1e-10
"""Residual (m/s) of a problem that counts as solved, also where less was asked for."""

ROUNDING = 16 * float(np.finfo(float).eps)
"""Largest residual that is rounding, beside the largest |W| |p| + |b|."""

SOLVED, UNSOLVED, NOT_FINITE = 0, 1, 2
"""Status of a solution."""


@final
@dataclass(frozen=True)
class ContactProblemLayout:
    """Which rows there are: those of the contacts, then `stops` p ≥ 0, then `limits` |p| ≤ limit.

    **Attributes:** `contacts`, the kind of each, a key of `ROWS`.

    >>> layout = ContactProblemLayout(("point", "normal"), limits=1)
    >>> layout.n_rows, layout.n_heads, layout.normals.tolist()
    (5, 2, [2, 3])
    """

    contacts: tuple[str, ...]
    stops: int = 0
    limits: int = 0

    def __post_init__(self) -> None:
        for kind in self.contacts:
            if kind not in ROWS:
                raise InputError(f"{kind!r} is not a kind of contact; there are {', '.join(ROWS)}")

    @cached_property
    def letters(self) -> str:
        """What each row is: a letter of `ROWS`; "n" for stops too, and "l" for limits."""
        return "".join(ROWS[x] for x in self.contacts) + "n" * self.stops + "l" * self.limits

    @property
    def n_rows(self) -> int:
        """All rows."""
        return len(self.letters)

    @property
    def n_heads(self) -> int:
        """Rows with p ≥ 0: contacts and stops."""
        return len(self.contacts) + self.stops

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The first row of each contact, stop and limit, and at last how many rows there are."""
        sizes = [len(ROWS[x]) for x in self.contacts] + [1] * (self.stops + self.limits)
        return tuple(accumulate(sizes, initial=0))

    @property
    def firsts(self) -> tuple[int, ...]:
        """The first row of each contact."""
        return self.ends[: len(self.contacts)]

    @cached_property
    def normals(self) -> Array:
        """The rows with p ≥ 0 (n_heads,)."""
        return np.array([i for i, x in enumerate(self.letters) if x == "n"], int)

    @cached_property
    def heads(self) -> Array:
        """For each row the number of its contact or stop; that of a limit is n_heads + its own."""
        found, normals, limits = list[int](), 0, self.n_heads
        for letter in self.letters:
            found.append(limits if letter == "l" else normals)
            normals, limits = normals + (letter == "n"), limits + (letter == "l")
        return np.array(found, int)

    @cached_property
    def groups(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """(head, rows) of every group: sliding and spinning, rolling; limits have head −1."""
        found: list[tuple[int, tuple[int, ...]]] = []
        for i, (first, kind) in enumerate(zip(self.firsts, self.contacts, strict=True)):
            letters = ROWS[kind]
            for members in ("s12", "ab"):
                rows = tuple(first + j for j, x in enumerate(letters) if x in members)
                if rows:
                    found.append((i, rows))
        first = self.n_rows - self.limits
        return (*found, *((-1, (first + j,)) for j in range(self.limits)))

    def coefficients(
        self,
        friction: ArrayLike = 0.0,
        torsion: ArrayLike = 0.0,
        rolling: ArrayLike = 0.0,
        limits: ArrayLike = 0.0,
    ) -> Array:
        """The coefficients of rows (..., n_rows) from those of contacts.

        **Arguments:** for every contact (..., contacts) or one for all, friction μ, the lengths of
        torsion and rolling resistance (m); `limits` (..., limits), N·s or N·m·s.

        >>> ContactProblemLayout(("torsion",), limits=1).coefficients(0.5, 0.01, limits=3.0)
        array([0.01, 0.5 , 0.5 , 1.  , 3.  ])
        """
        k = len(self.contacts)
        given = {
            "1": friction, "2": friction, "s": torsion, "a": rolling, "b": rolling, "l": limits,
        }  # fmt: skip
        sizes = {name: self.limits if name == "l" else k for name in given}
        values = {
            name: np.broadcast_to(x, np.broadcast_shapes(np.shape(x), (sizes[name],)))
            for name, x in given.items()
        }
        batch = np.broadcast_shapes(*(x.shape[:-1] for x in values.values()))
        out = np.ones((*batch, self.n_rows))
        for row, letter in enumerate(self.letters):
            if letter != "n":
                place = row - (self.n_rows - self.limits) if letter == "l" else self.heads[row]
                out[..., row] = values[letter][..., place]
        return out


@final
@dataclass(frozen=True)
class ContactProblem:
    """Find p with K ∋ p ⊥ W p + b + (s + μ |u_t|) e_n ∈ K*.

    **Attributes:** `layout`; `W` (..., n, n) symmetric, positive semidefinite; `b` (..., n), the
    velocities of the rows without impulses; `s` (..., n_heads) m/s, at least `INACTIVE` for a
    absent contact; `coefficients` (..., n) of the rows, those of `p ≥ 0` being ignored.
    """

    layout: ContactProblemLayout
    W: Array
    b: Array
    s: Array
    coefficients: Array

    @property
    def batch(self) -> tuple[int, ...]:
        """Of all arrays together."""
        return np.broadcast_shapes(
            self.W.shape[:-2], self.b.shape[:-1], self.s.shape[:-1], self.coefficients.shape[:-1]
        )

    def flat(self) -> ContactProblem:
        """The same problems with one leading axis."""
        n, k, batch = self.layout.n_rows, self.layout.n_heads, self.batch
        shapes = ((n, n), (n,), (k,), (n,))
        given = (self.W, self.b, self.s, self.coefficients)
        for name, x, shape in zip(("W", "b", "s", "coefficients"), given, shapes, strict=True):
            if x.shape[x.ndim - len(shape) :] != shape:
                raise InputError(f"{name} is {x.shape}; for {self.layout} it should end in {shape}")
        count = math.prod(batch)
        flat = [
            np.ascontiguousarray(np.broadcast_to(x, (*batch, *shape)), float).reshape(count, *shape)
            for x, shape in zip(given, shapes, strict=True)
        ]
        return ContactProblem(self.layout, *flat)

    def taken(self, which: Array) -> ContactProblem:
        """Some of the problems, of those with one leading axis."""
        parts = (self.W, self.b, self.s, self.coefficients)
        return ContactProblem(self.layout, *(x[which] for x in parts))

    def velocities(self, p: Array) -> Array:
        """U = W p + b (..., n)."""
        return (self.W @ p[..., None])[..., 0] + self.b


@final
@dataclass(frozen=True)
class ContactSolution:
    """Impulses, and how good they are.

    **Attributes:** `p` (..., n) N·s; `residual` (...) m/s, see `residual`; `iterations` (...), the
    factorisations that were needed; `status` (...): `SOLVED`, `UNSOLVED` or `NOT_FINITE`.
    """

    p: Array
    residual: Array
    iterations: Array
    status: Array

    @property
    def is_solved(self) -> Array:
        """Whether the residual is at the tolerance (...)."""
        return self.status == SOLVED


class Groups:
    """Index arrays of the groups of a layout, padded: row n_rows is zero.

    **Attributes:** `rows` (groups, 3); `heads` (groups,), 0 where there is none; `has_head`;
    `is_round`, the groups with t1, t2, whose round form has the largest coefficient of their rows.
    """

    def __init__(self, layout: ContactProblemLayout) -> None:
        n = layout.n_rows
        self.rows = np.array([(*r, *[n] * (3 - len(r))) for _, r in layout.groups], int)
        self.rows = self.rows.reshape(-1, 3)
        heads = np.array([i for i, _ in layout.groups], int)
        self.has_head = heads >= 0
        self.heads = np.maximum(heads, 0)
        letters = layout.letters
        self.is_round = np.array([letters[r[-1]] == "2" for _, r in layout.groups], bool)

    def of(self, x: Array) -> Array:
        """Rows (B, n) by groups (B, groups, 3)."""
        return np.concatenate([x, np.zeros((len(x), 1))], axis=1)[:, self.rows]

    def put(self, values: Array, x: Array) -> None:
        """Store numbers of groups in rows (B, n)."""
        there = self.rows < x.shape[1]
        x[:, self.rows[there]] = values[:, there]


class Scaled:
    """Problems with round groups, one leading axis.

    **Attributes:** `W`, `b`, `s`, those of y, z; `sigma` (B, n); `dead` (B, n); `c` (B, groups), of
    which the bound of a group is c y_n, or c itself without a head; `r` (B, n), the steps of
    Newton's map; `D` (B, n_heads) and `D_groups` (B, groups), those of the natural residual.
    """

    def __init__(self, problem: ContactProblem) -> None:
        layout = problem.layout
        self.layout, self.groups = layout, Groups(layout)
        k, g = layout.n_heads, self.groups
        there = problem.s < INACTIVE
        sigma = np.ones_like(problem.b)
        mu = g.of(problem.coefficients)
        largest = mu.max(axis=-1, initial=0.0)
        self.c = np.where(g.is_round, largest, 1.0)
        self.c = np.where(g.has_head, self.c, largest)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(mu > 0, mu / np.where(self.c > 0, self.c, 1.0)[..., None], 0.0)
        g.put(np.where(g.has_head[:, None], ratio, mu > 0), sigma)
        is_contact = layout.heads < k
        sigma[:, is_contact] *= there[:, layout.heads[is_contact]]
        self.sigma, self.dead = sigma, sigma == 0
        self.W = sigma[:, :, None] * problem.W * sigma[:, None, :]
        self.b = sigma * problem.b
        self.s = np.where(there, problem.s, 1.0)
        self._steps()

    def _steps(self) -> None:
        """For every contact 1 / mean of the diagonal of its block: about 1 / λ_max."""
        layout, W = self.layout, self.W
        size = np.empty_like(self.b)
        for rows in contact_rows(layout):
            own = np.einsum("bii->bi", W[:, rows, rows])
            live = np.maximum((~self.dead[:, rows]).sum(axis=1), 1)
            size[:, rows] = (own.sum(axis=1) / live)[:, None]
        self.r = 1.0 / np.where(size > 0, size, 1.0)
        own = np.einsum("bii->bi", W)
        own = np.where(own > 0, own, 1.0)
        self.D = 1.0 / own[:, layout.normals]
        last = self.groups.rows[:, 0]
        self.D_groups = np.where(self.groups.has_head, 1.0, 1.0 / own[:, last])

    def velocities(self, y: Array) -> Array:
        """W y + b (B, n)."""
        return (self.W @ y[..., None])[..., 0] + self.b

    def residual(self, y: Array) -> Array:
        """The natural residual (B,), max |y − Π(y − D w)| / D over contacts and limits."""
        g, layout = self.groups, self.layout
        z = self.velocities(y)
        z_g = g.of(z)
        slide = np.linalg.norm(z_g, axis=-1)
        w_n = z[:, layout.normals] + self.s
        head = g.has_head
        np.add.at(w_n.T, g.heads[head], (self.c * slide)[:, head].T)
        D_g = np.where(g.has_head, self.D[:, g.heads] if layout.n_heads else 1.0, self.D_groups)
        y_n, y_g = y[:, layout.normals], g.of(y)
        to_n, to_g = nearest_on_cones(g, self.c, y_n - self.D * w_n, y_g - D_g[..., None] * z_g)
        parts = np.zeros((len(y), layout.n_heads + layout.limits))
        parts[:, : layout.n_heads] = ((y_n - to_n) / self.D) ** 2
        off = np.sum(((y_g - to_g) / D_g[..., None]) ** 2, axis=-1)
        places = np.where(g.has_head, g.heads, 0)
        places[~g.has_head] = layout.n_heads + np.arange(layout.limits)
        np.add.at(parts.T, places, off.T)
        wrong = np.where(self.dead, np.abs(y / self.r), 0.0).max(axis=1, initial=0.0)
        return np.maximum(np.sqrt(parts.max(axis=1, initial=0.0)), wrong)

    def rounding(self, y: Array) -> Array:
        """Below which a residual (B,) is rounding."""
        size = (np.abs(self.W) @ np.abs(y)[..., None])[..., 0] + np.abs(self.b)
        return ROUNDING * size.max(axis=1, initial=0.0)


def contact_rows(layout: ContactProblemLayout) -> list[slice]:
    """The rows of every contact, stop and limit."""
    return [slice(first, end) for first, end in pairwise(layout.ends)]


def nearest_on_cones(g: Groups, c: Array, x_n: Array, x_g: Array) -> tuple[Array, Array]:
    """The nearest point with |y_g| ≤ c_g y_n for all groups of each head; or |y_g| ≤ c_g.

    The distance is least where y_n is the largest of max(0, (x_n + Σ c |x_g|) / (1 + Σ c²)) over
    the sets of groups of this head, among them none.
    """
    size = np.linalg.norm(x_g, axis=-1)
    y_n = np.maximum(x_n, 0.0)
    for i in range(x_n.shape[1]):
        mine = np.flatnonzero(g.has_head & (g.heads == i))
        for some in chain.from_iterable(combinations(mine, k + 1) for k in range(len(mine))):
            of = list(some)
            top = x_n[:, i] + (c[:, of] * size[:, of]).sum(axis=1)
            y_n[:, i] = np.maximum(y_n[:, i], top / (1.0 + (c[:, of] ** 2).sum(axis=1)))
    bound = np.where(g.has_head, c * y_n[:, g.heads], c) if x_n.shape[1] else c
    factor = np.where(size > bound, bound / np.where(size > 0, size, 1.0), 1.0)
    return y_n, x_g * factor[..., None]


def residual(problem: ContactProblem, p: Array) -> Array:
    """How far impulses are from a solution (...), in m/s.

    max over contacts of |p − Π_K(p − D w)| / D with D = 1/W_nn, w = u + (s + μ |u_t|) e_n; in
    scaled variables where a group is not round.

    **Source:** theory/contact 5.
    """
    batch = problem.batch
    scaled = Scaled(problem.flat())
    return scaled.residual(_scaled_impulses(scaled, p, batch)).reshape(batch)


def tolerance_of(problem: ContactProblem, p: Array, tolerance: float = 1e-10) -> Array:
    """The residual that can be asked for (...): `tolerance`, or 16 ε max(|W| |p| + |b|)."""
    scaled = Scaled(problem.flat())
    y = _scaled_impulses(scaled, p, problem.batch)
    return np.maximum(tolerance, scaled.rounding(y)).reshape(problem.batch)


def _scaled_impulses(scaled: Scaled, p: Array, batch: Sequence[int]) -> Array:
    p = np.broadcast_to(p, (*batch, scaled.layout.n_rows)).reshape(-1, scaled.layout.n_rows)
    return np.where(scaled.dead, p, p / np.where(scaled.dead, 1.0, scaled.sigma))
