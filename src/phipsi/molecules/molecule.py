"""A molecule as a mechanism: rigid clusters on bonds that turn; molecules and forces of OpenMM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import index
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import System, motions
from phipsi.core.constraints import Constraint, Distance, Revolute, Spherical
from phipsi.core.model import Model, ModelBuilder, Pose, SpatialInertia, joints
from phipsi.errors import InputError, ModelError, one_of, warn
from phipsi.molecules.bond_graph import (
    Bond,
    ClusterTree,
    cluster_tree,
    neighbours_of,
    on_line,
    unit_bond,
)

Array = NDArray[Any]
Potential = Callable[[Array], tuple[Array, Array]]
"""Positions (n, atoms, 3) in nm → energies (n,) in kJ/mol and forces (n, atoms, 3)."""

_LONG = 0.6  # nm: bonds of molecules are shorter, also between beads for several atoms
_FITS = 1e-4  # nm: how far given positions may be from rigid clusters


@final
class Molecule:
    """Molecule of rigid clusters of atoms that turn about the bonds between them.

    Every molecule of the system has a free root cluster; a single atom has a translation. The
    configuration in which it is built has all torsions zero and all bodies along the axes of space.

    Parameters
    ----------
    masses : array_like, shape (atoms,)
        Masses, amu.
    positions : array_like, shape (atoms, 3)
        Positions, nm.
    bonds : iterable of (int, int)
        Pairs of atoms.
    names : sequence of str, optional
        One name per atom.
    rigid : iterable of (int, int), optional
        Bonds that do not turn, such as double bonds and amides.
    rings : {"rigid", "loops"}, optional
        "rigid": a ring keeps its shape; "loops": its bonds turn and loop-closure constraints keep
        it closed: `model` is then a `System`.
    potential : callable, optional
        Positions (n, atoms, 3) → energies (n,) and forces.

    Attributes
    ----------
    model : Model
        The mechanism in nm, ps and amu, without gravity.
    masses, names, potential
        As passed.
    torsions : dict of str to (int, int)
        Joint → the two atoms of its bond.
    body : ndarray, shape (atoms,)
        On which body an atom is.
    places : ndarray, shape (atoms, 3)
        Its position there, in body axes.

    Notes
    -----
    **Source:** theory/molecules 1.

    Examples
    --------
    >>> import phipsi as pp
    >>> beads = [(0, 0, 0), (0.15, 0, 0), (0.2, 0.14, 0), (0.35, 0.14, 0)]
    >>> chain = pp.molecules.Molecule([15.0, 14.0, 14.0, 15.0], beads, [(0, 1), (1, 2), (2, 3)])
    >>> chain.torsions
    {'1–2': (1, 2)}
    """

    def __init__(
        self,
        masses: ArrayLike,
        positions: ArrayLike,
        bonds: Iterable[Sequence[int]],
        *,
        names: Sequence[str] | None = None,
        rigid: Iterable[Sequence[int]] = (),
        rings: str = "rigid",
        potential: Potential | None = None,
    ) -> None:
        self.masses, places = _checked_atoms(masses, positions)
        listed = _checked_bonds(bonds, len(places), "bonds")
        one_of("rings", rings, ("rigid", "loops"))
        stiff = _checked_bonds(rigid, len(places), "rigid")
        unknown = {frozenset(x) for x in stiff} - {frozenset(x) for x in listed}
        if unknown:
            raise InputError(f"rigid: {sorted(map(sorted, unknown))} are not among the bonds")
        self.names = _checked_names(names, len(places))
        self.bonds = tuple(listed)
        self.potential = potential
        lengths = [float(np.linalg.norm(places[i] - places[j])) for i, j in listed]
        if lengths and np.median(lengths) > _LONG:
            warn(
                f"bonds are {np.median(lengths):.3g} nm long in the median. Positions are in nm: "
                f"divide by 10 if yours are in Å."
            )
        tree = cluster_tree(places, listed, stiff, rings)
        self.body = np.zeros(len(places), dtype=int)
        self.places = np.zeros_like(places)
        self.torsions: dict[str, Bond] = {}
        self.model: Model | System = self._built(tree, places)
        self._fitting = self._fitting_atoms(tree, places)

    def __repr__(self) -> str:
        many = "torsion" if len(self.torsions) == 1 else "torsions"
        return (
            f"<Molecule: {len(self.masses)} atoms, {self.model.n_bodies} clusters, "
            f"{len(self.torsions)} {many}, nv = {self.model.nv}>"
        )

    # ---- building -----------------------------------------------------------------------------

    def _built(self, tree: ClusterTree, places: Array) -> Model | System:
        builder, origins, labels = ModelBuilder(gravity=(0, 0, 0)), [], []
        for k, cluster in enumerate(tree.clusters):
            atoms = list(cluster.atoms)
            own, mass = places[atoms], self.masses[atoms]
            if cluster.bond is None:
                origin = mass @ own / mass.sum()
            else:
                origin = places[cluster.bond[1]]
            arms = own - origin
            inertia = SpatialInertia(
                float(mass.sum()),
                mass @ arms / mass.sum(),
                moment_about_origin_B=_moments(mass, arms),
            )
            label = f"cluster {k}"
            if cluster.bond is None:
                single = len(atoms) == 1
                if not single and not _has_torsions(tree, k):
                    self._reject_linear(atoms, places)
                builder.add_body(
                    label,
                    joint=joints.Translation() if single else joints.Free(),
                    joint_name=f"root {k}",
                    inertia=inertia,
                )
            else:
                i, j = cluster.bond
                name = f"{self.names[i]}–{self.names[j]}"
                builder.add_body(
                    label,
                    parent=labels[cluster.parent],
                    joint=joints.Revolute(unit_bond(places, i, j)),
                    joint_name=name,
                    inertia=inertia,
                    placement=Pose(translation=origin - origins[cluster.parent]),
                )
                self.torsions[name] = cluster.bond
            origins.append(origin)
            labels.append(label)
            self.body[atoms], self.places[atoms] = k, arms
        model = builder.build()
        order = [model.body_index(label) for label in labels]
        self._labels = [labels[k] for k in self.body]
        self.body = np.array(order)[self.body]
        self._home = model.neutral()
        for k, cluster in enumerate(tree.clusters):
            if cluster.bond is None:
                self._home[model.q_slice(f"root {k}")][-3:] = origins[k]
        self._order = order
        closed = [*(self._closure(bond, places) for bond in tree.closures)]
        closed += self._cut(tree.cuts, places)
        return System(model, closed) if closed else model

    def _closure(self, bond: Bond, places: Array) -> Constraint:
        """A turning bond between two clusters of a ring that is cut there."""
        i, j = bond
        from_b = self.places[j] - (places[j] - places[i])
        return Revolute(
            unit_bond(places, i, j),
            name=f"{self.names[i]}–{self.names[j]}",
            a=self._end(i),
            b=self._end(j, from_b),
        )

    def _end(self, atom: int, place: Array | None = None) -> tuple[str, Array]:
        """A point of the cluster of an atom: the atom itself, or another place in body axes."""
        return self._labels[atom], self.places[atom] if place is None else place

    def _cut(self, cuts: Sequence[Bond], places: Array) -> Iterator[Constraint]:
        """Bonds of rings that are cut where nothing would turn with the atom before.

        An atom j that is alone on its bond to i keeps the angle i–j–k by the distance of i and k.
        If atom k is such a one too, j and k keep their distance; otherwise its cluster knows where
        j is.
        """
        near = neighbours_of(len(places), self.bonds)
        open_at = {frozenset(bond) for bond in cuts}
        pairs: dict[frozenset[int], str] = {}
        for j, k in cuts:
            name = f"{self.names[j]}–{self.names[k]}"
            alone = [sum(frozenset((x, n)) not in open_at for n in near[x]) < 2 for x in (j, k)]
            if all(alone):
                pairs.setdefault(frozenset((j, k)), name)
            elif any(alone):
                end, other = (j, k) if alone[0] else (k, j)
                there = self.places[other] + places[end] - places[other]
                yield Spherical(name=name, a=self._end(end), b=self._end(other, there))
            else:
                yield self._closure((j, k), places)
            for is_alone, middle, far in ((alone[0], j, k), (alone[1], k, j)):
                for n in sorted(near[middle] - {far}) if is_alone else ():
                    pairs.setdefault(frozenset((n, far)), f"{name}, angle at {self.names[middle]}")
        for number, (pair, name) in enumerate(pairs.items()):
            i, j = sorted(pair)
            if self.body[i] != self.body[j]:
                label = f"{name} {number}" if name in list(pairs.values())[:number] else name
                length = float(np.linalg.norm(places[i] - places[j]))
                yield Distance(length, name=label, a=self._end(i), b=self._end(j))

    def _reject_linear(self, atoms: Sequence[int], places: Array) -> None:
        along = unit_bond(places, atoms[0], atoms[1])
        if on_line(places[list(atoms)], places[atoms[0]], along):
            names = ", ".join(self.names[i] for i in atoms[:6])
            raise ModelError(
                f"the molecule of atoms {names} is linear: it has five degrees of freedom, and "
                "turning about its own axis moves no mass. Remove its bonds from `bonds`, so "
                "that its atoms move freely and the potential holds them together, or remove "
                "its atoms."
            )

    def _fitting_atoms(self, tree: ClusterTree, places: Array) -> list[tuple[Array, Array]]:
        """Per cluster: atoms that fix its pose, with those across its bonds, and their places."""
        out: list[tuple[Array, Array]] = []
        across: list[set[int]] = [set(cluster.atoms) for cluster in tree.clusters]
        for k, cluster in enumerate(tree.clusters):
            if cluster.bond is not None:
                across[k].add(cluster.bond[0])
                across[cluster.parent].add(cluster.bond[1])
        for k, cluster in enumerate(tree.clusters):
            atoms = np.array(sorted(across[k]))
            first = cluster.atoms[0]
            out.append((atoms, places[atoms] - places[first] + self.places[first]))
        return out

    # ---- kinematics ---------------------------------------------------------------------------

    @property
    def home(self) -> Array:
        """The configuration (nq,) in which it was built."""
        return self._home.copy()

    def positions(self, q: ArrayLike) -> Array:
        """Positions of the atoms.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.

        Returns
        -------
        ndarray, shape (..., atoms, 3)
            Positions, nm.

        Notes
        -----
        **Cost:** O(atoms).
        """
        poses = np.asarray(motions.poses(self.model, q))[..., self.body, :, :]
        return np.einsum("...ij,...j->...i", poses[..., :3, :3], self.places) + poses[..., :3, 3]

    def configuration(self, positions: ArrayLike) -> Array:
        """The configuration that has the atoms at given positions.

        Each cluster is fitted to its atoms (least squares), and the torsions follow; positions that
        are farther than 1e-4 nm from what the clusters allow are rejected.

        Parameters
        ----------
        positions : array_like, shape (atoms, 3)
            Positions, nm.

        Returns
        -------
        ndarray, shape (nq,)
            The configuration.
        """
        x = np.asarray(positions, float)
        if x.shape != self.places.shape or not np.isfinite(x).all():
            raise InputError(
                f"positions must be finite numbers of shape {self.places.shape}, in nm, not an "
                f"array of shape {x.shape}"
            )
        model, q = self.model, self.model.neutral()
        fitted = [_fitted(x[atoms], places) for atoms, places in self._fitting]
        R, r = np.zeros((model.n_bodies, 3, 3)), np.zeros((model.n_bodies, 3))
        R[self._order], r[self._order] = map(np.array, zip(*fitted, strict=True))
        turns = np.swapaxes(R[list(model.parent)], 1, 2) @ R  # from each parent; unused of roots
        for body, joint in enumerate(model.joints):
            at = model.q_slices[body]
            if model.parent[body] >= 0:
                q[at] = _angle_about(np.array(joint.params[:3]), turns[body])
            elif joint.nv == 3:
                q[at] = r[body]
            else:
                q[at] = np.concatenate([Pose(R[body], r[body]).quaternion, r[body]])
        off = np.abs(self.positions(q) - x).max()
        if off > _FITS:
            worst = int(np.abs(self.positions(q) - x).max(axis=1).argmax())
            raise InputError(
                f"positions do not fit the rigid clusters: atom {self.names[worst]!r} is "
                f"{off:.3g} nm away. Bond lengths and angles within clusters are those of the "
                "positions that the molecule was built with; build it again from these "
                "positions."
            )
        return q

    def body_forces(self, q: ArrayLike, forces: ArrayLike) -> Array:
        """Forces on atoms as forces on clusters, f_ext(k) = Σ [x × R* F; R* F].

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.
        forces : array_like, shape (..., atoms, 3)
            Forces, kJ/(mol·nm), axes of space.

        Returns
        -------
        ndarray, shape (..., clusters, 6)
            Forces at the body origins in body axes, as `f_ext` everywhere.

        Notes
        -----
        **Source:** theory/molecules 1.
        """
        R = np.asarray(motions.poses(self.model, q))[..., self.body, :3, :3]
        F = np.asarray(forces, float)
        if F.shape[-2:] != self.places.shape:
            raise InputError(
                f"forces of shape {F.shape} must end in (atoms, 3) = {self.places.shape}"
            )
        local = np.einsum("...ji,...j->...i", R, F)
        moment = np.cross(self.places, local)
        out = np.zeros((*local.shape[:-2], self.model.n_bodies, 6))
        each = np.concatenate([moment, local], axis=-1)
        np.add.at(np.moveaxis(out, -2, 0), self.body, np.moveaxis(each, -2, 0))
        return out

    def dihedral(self, q: ArrayLike, atoms: Sequence[int]) -> Array:
        """Dihedral angle of four atoms, in rad: 0 cis, ±π trans (IUPAC).

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.
        atoms : sequence of int
            Numbers of the four atoms.

        Returns
        -------
        ndarray, shape (...)
            The angle.
        """
        listed = list(dict.fromkeys(atoms))
        if len(listed) != 4 or not all(0 <= i < len(self.masses) for i in listed):
            raise InputError(
                f"atoms={tuple(atoms)!r} must be four different atoms, numbered from 0 to "
                f"{len(self.masses) - 1}"
            )
        a, b, c, d = np.moveaxis(self.positions(q)[..., listed, :], -2, 0)
        axis = (c - b) / np.linalg.norm(c - b, axis=-1, keepdims=True)
        first, last = np.cross(b - a, axis), np.cross(axis, d - c)
        sine = np.sum(np.cross(first, last) * axis, axis=-1)
        return np.arctan2(sine, np.sum(first * last, axis=-1))


def _has_torsions(tree: ClusterTree, k: int) -> bool:
    return any(cluster.parent == k for cluster in tree.clusters)


def _moments(mass: Array, arms: Array) -> Array:
    """Σ m (x·x I − x x*)."""
    return np.einsum("i,ij,ij->", mass, arms, arms) * np.eye(3) - np.einsum(
        "i,ij,ik->jk", mass, arms, arms
    )


def _fitted(x: Array, places: Array) -> tuple[Array, Array]:
    """Rotation and translation that take places to x with least squares (Kabsch)."""
    centre, middle = x.mean(axis=0), places.mean(axis=0)
    U, _, Vt = np.linalg.svd((places - middle).T @ (x - centre))
    flip = np.sign(np.linalg.det(U @ Vt)) or 1.0
    R = (U @ np.diag([1.0, 1.0, flip]) @ Vt).T
    return R, centre - R @ middle


def _angle_about(axis: Array, R: Array) -> float:
    """The angle of a rotation about a known axis."""
    twist = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2
    return float(np.arctan2(twist @ axis, (np.trace(R) - 1) / 2))


def _checked_atoms(masses: ArrayLike, positions: ArrayLike) -> tuple[Array, Array]:
    try:
        mass, x = np.array(masses, float), np.array(positions, float)
    except (TypeError, ValueError):
        raise InputError(
            "masses and positions must be numbers: (atoms,) in amu, (atoms, 3) in nm"
        ) from None
    if x.ndim != 2 or x.shape[1:] != (3,) or mass.shape != x.shape[:1] or not len(x):
        raise InputError(
            f"masses of shape {mass.shape} and positions of shape {x.shape} must be (atoms,) in "
            f"amu and (atoms, 3) in nm"
        )
    if not np.isfinite(x).all() or not np.isfinite(mass).all() or (mass <= 0).any():
        bad = np.flatnonzero(~(np.isfinite(mass) & (mass > 0) & np.isfinite(x).all(axis=1)))
        raise InputError(
            f"atom {bad[0]}: mass {mass[bad[0]]} amu at {x[bad[0]].tolist()} nm; masses must be "
            f"above 0 and positions finite. Virtual sites have no mass and are not atoms here."
        )
    return mass, x


def _checked_bonds(bonds: Iterable[Sequence[int]], atoms: int, what: str) -> list[Bond]:
    out: list[Bond] = []
    if not isinstance(bonds, Iterable):
        raise InputError(f"{what}={bonds!r} must be pairs of atoms, such as [(0, 1), (1, 2)]")
    for bond in bonds:
        try:
            i, j = (index(x) for x in bond)
        except (TypeError, ValueError):
            raise InputError(
                f"{what}: {bond!r} must be two integers, the numbers of atoms"
            ) from None
        if not (0 <= i < atoms and 0 <= j < atoms) or i == j:
            raise InputError(
                f"{what}: {bond!r} must be two different atoms, numbered from 0 to {atoms - 1}"
            )
        out.append((min(i, j), max(i, j)))
    return list(dict.fromkeys(out))


def _checked_names(names: Sequence[str] | None, atoms: int) -> tuple[str, ...]:
    listed = tuple(str(i) for i in range(atoms)) if names is None else tuple(map(str, names))
    if len(listed) != atoms or len(set(listed)) < atoms:
        raise InputError(
            f"names: {len(listed)} names, {len(set(listed))} of them different, for {atoms} "
            f"atoms; each atom needs a name of its own"
        )
    return listed
