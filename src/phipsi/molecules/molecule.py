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
from phipsi.errors import InputError, ModelError, PhipsiError, one_of, warn
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
_STIFF = {"Double", "Triple", "Aromatic", "Amide"}  # OpenMM's bond types that do not turn


@final
class Molecule:
    """Atoms in rigid clusters that turn about the bonds between them.

    Every molecule of the system has a free root cluster; a single atom has a translation. The
    configuration in which it is built has all torsions zero and all bodies along the axes of space.

    **Arguments:** `masses` (atoms,) in amu; `positions` (atoms, 3) in nm; `bonds`, pairs of atoms;
    `names`, one per atom; `rigid`, bonds that do not turn, such as double bonds and amides; `rings`
    "rigid" (a ring keeps its shape) or "loops" (its bonds turn and loops keep it closed: `model` is
    then a `System`); `potential`, positions (n, atoms, 3) → energies (n,) and forces.
    **Attributes:** `model`, the mechanism in nm, ps and amu, without gravity; `masses`; `names`;
    `torsions`, joint → the two atoms of its bond; `body` (atoms,), on which body an atom is;
    `places` (atoms, 3), where, in body axes; `potential`.
    **Source:** theory/molecules 1.

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
                f"turning about its own axis moves no mass. Leave its bonds out of `bonds`, so "
                f"that its atoms move freely and the potential holds them together, or keep it "
                f"out of the molecule."
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
        """Where the atoms are.

        **Arguments:** `q` (..., nq). **Returns:** (..., atoms, 3) in nm. **Cost:** O(atoms).
        """
        poses = np.asarray(motions.poses(self.model, q))[..., self.body, :, :]
        return np.einsum("...ij,...j->...i", poses[..., :3, :3], self.places) + poses[..., :3, 3]

    def configuration(self, positions: ArrayLike) -> Array:
        """The configuration that has the atoms at these positions.

        Each cluster is fitted to its atoms (least squares), and the torsions follow; positions that
        are farther than 1e-4 nm from what the clusters allow are rejected.

        **Arguments:** `positions` (atoms, 3) in nm. **Returns:** (nq,).
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
                f"positions do not fit the rigid clusters: atom {self.names[worst]!r} is {off:.3g} "
                f"nm off. Bond lengths and angles within clusters are those of the positions that "
                f"the molecule was built with; build it again from these positions."
            )
        return q

    def body_forces(self, q: ArrayLike, forces: ArrayLike) -> Array:
        """Forces on atoms as forces on clusters, f_ext(k) = Σ [x × R* F; R* F].

        **Arguments:** `q` (..., nq); `forces` (..., atoms, 3) in kJ/(mol·nm), axes of space.
        **Returns:** (..., clusters, 6) at the body origins in body axes, as `f_ext` everywhere.
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
        """The dihedral angle of four atoms, in rad: 0 cis, ±π trans (IUPAC).

        **Arguments:** `q` (..., nq); `atoms`, four numbers. **Returns:** (...,).
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
            raise InputError(f"{what}: {bond!r} must be two whole numbers, of atoms") from None
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


# ---- molecules and force fields of OpenMM --------------------------------------------------------


@final
class OpenMMPotential:
    """Energies and forces of an OpenMM `System`: positions in nm → kJ/mol and kJ/(mol·nm).

    Its constraints play no part: bonds and angles inside clusters are kept by the mechanism.
    Configurations of a batch are evaluated one after the other.

    **Arguments:** `system`, an `openmm.System`; `platform`, OpenMM's name: "Reference" (double
    precision) or "CPU" (single precision, faster for large molecules).
    """

    def __init__(self, system: Any, *, platform: str = "Reference") -> None:
        mm = _openmm()
        virtual = [i for i in range(system.getNumParticles()) if system.isVirtualSite(i)]
        if virtual:
            raise InputError(
                f"particle {virtual[0]} of the OpenMM system is a virtual site, which has no mass "
                f"and moves with others; molecules of virtual sites are not supported. Use a force "
                f"field without them."
            )
        known = [mm.Platform.getPlatform(i).getName() for i in range(mm.Platform.getNumPlatforms())]
        if platform not in known:
            raise InputError(f"platform={platform!r} is not one of OpenMM's here: {known}")
        self.system, self.platform = system, platform
        self._context = mm.Context(
            system, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName(platform)
        )

    def __repr__(self) -> str:
        return f"<OpenMMPotential of {self.system.getNumParticles()} particles, {self.platform}>"

    def __call__(self, positions: Array) -> tuple[Array, Array]:
        """Energies (n,) and forces (n, atoms, 3) at positions (n, atoms, 3)."""
        context, forces, energies = self._context, np.empty(positions.shape), []
        for x, out in zip(positions, forces, strict=True):
            context.setPositions(x)
            state = context.getState(getEnergy=True, getForces=True)
            energies.append(state.getPotentialEnergy()._value)
            out[:] = state.getForces(asNumpy=True)._value
        return np.array(energies), forces


def from_openmm(
    topology: Any,
    system: Any,
    positions: Any,
    *,
    rigid: Iterable[Sequence[int]] = (),
    rings: str = "rigid",
    platform: str = "Reference",
) -> Molecule:
    """A molecule with the atoms, bonds and force field of OpenMM.

    Bonds that the topology calls double, triple, aromatic or amide do not turn; name others in
    `rigid`. Peptide bonds of files without bond types are found by their atoms (C–N between
    residues).

    **Arguments:** `topology`, an `openmm.app.Topology`; `system`, an `openmm.System`; `positions`
    with or without OpenMM's units (then nm); `rigid`, `rings` as for `Molecule`; `platform` as for
    `OpenMMPotential`. **Returns:** a `Molecule` with its `potential`.
    """
    unit = _openmm().unit
    for name, given, needs in (
        ("topology", topology, ("atoms", "bonds")),
        ("system", system, ("getParticleMass", "getNumParticles")),
    ):
        if not all(hasattr(given, need) for need in needs):
            raise InputError(
                f"from_openmm: {name}={given!r} must be OpenMM's, for example of\n"
                f"    pdb = openmm.app.PDBFile('molecule.pdb')\n"
                f"    field = openmm.app.ForceField('amber14-all.xml')\n"
                f"    system = field.createSystem(pdb.topology)\n"
                f"    pp.molecules.from_openmm(pdb.topology, system, pdb.positions)"
            )
    atoms = list(topology.atoms())
    masses = [system.getParticleMass(i)._value for i in range(system.getNumParticles())]
    if len(atoms) != len(masses):
        raise InputError(
            f"the topology has {len(atoms)} atoms and the system {len(masses)} particles; they "
            f"must be those of the same molecule"
        )
    potential = OpenMMPotential(system, platform=platform)
    if unit.is_quantity(positions):
        positions = positions.value_in_unit(unit.nanometer)
    x = np.array([[float(p) for p in row] for row in positions])
    _reject_wrapped(topology, system, x)
    bonds, stiff = [], [tuple(bond) for bond in rigid]
    for bond in topology.bonds():
        a, b = bond[0], bond[1]
        bonds.append((a.index, b.index))
        if str(bond.type) in _STIFF or (bond.order or 1) > 1 or _is_peptide(a, b):
            stiff.append((a.index, b.index))
    return Molecule(
        masses,
        x,
        bonds,
        names=[f"{a.residue.name}{a.residue.index + 1}.{a.name}" for a in atoms],
        rigid=stiff,
        rings=rings,
        potential=potential,
    )


def _reject_wrapped(topology: Any, system: Any, x: Array) -> None:
    """Reject molecules that are cut by the faces of a periodic box."""
    if not system.usesPeriodicBoundaryConditions():
        return
    box = [row._value for row in system.getDefaultPeriodicBoxVectors()]
    half = 0.5 * min(abs(row[i]) for i, row in enumerate(box))
    for bond in topology.bonds():
        a, b = bond[0], bond[1]
        length = float(np.linalg.norm(x[a.index] - x[b.index]))
        if length > half:
            raise InputError(
                f"the bond of atoms {a.name!r} and {b.name!r} (residue {a.residue.name}) is "
                f"{length:.3g} nm long, more than half the periodic box: the molecule was wrapped "
                f"at a face of the box. Make molecules whole, for example with state positions of "
                f"context.getState(getPositions=True, enforcePeriodicBox=False)"
            )


def _is_peptide(a: Any, b: Any) -> bool:
    return {a.name, b.name} == {"C", "N"} and a.residue.index != b.residue.index


def _openmm() -> Any:
    try:
        import openmm
        import openmm.unit
    except ImportError as error:
        raise PhipsiError(
            "molecules of OpenMM need the package openmm, which is not installed:\n"
            "    pip install 'phipsi[molecules]'"
        ) from error
    return openmm
