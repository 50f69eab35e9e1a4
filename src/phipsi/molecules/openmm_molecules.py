"""Molecules and force fields of OpenMM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError, PhipsiError
from phipsi.molecules.molecule import Molecule

Array = NDArray[Any]

_STIFF = {"Double", "Triple", "Aromatic", "Amide"}  # OpenMM's bond types that do not turn


@final
class OpenMMPotential:
    """Energies and forces of an OpenMM `System`: positions in nm → kJ/mol and kJ/(mol·nm).

    Its constraints are ignored: bonds and angles inside clusters are kept by the mechanism.
    Configurations of a batch are evaluated one after the other.

    Parameters
    ----------
    system : openmm.System
        The system.
    platform : str, optional
        OpenMM's name: "Reference" (double precision) or "CPU" (single precision, faster for large
        molecules).
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
            raise InputError(
                f"platform={platform!r} is not available in OpenMM; available are {known}"
            )
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
    """Molecule with the atoms, bonds and force field of OpenMM.

    Bonds that the topology lists as double, triple, aromatic or amide do not turn; name others in
    `rigid`. Peptide bonds of files without bond types are found by their atoms (C–N between
    residues).

    Parameters
    ----------
    topology : openmm.app.Topology
        Atoms and bonds.
    system : openmm.System
        Masses and force field.
    positions : array_like
        Positions, with or without OpenMM's units (then nm).
    rigid, rings : optional
        As for `Molecule`.
    platform : str, optional
        As for `OpenMMPotential`.

    Returns
    -------
    Molecule
        The molecule, with its `potential`.
    """
    unit = _openmm().unit
    for name, given, needs in (
        ("topology", topology, ("atoms", "bonds")),
        ("system", system, ("getParticleMass", "getNumParticles")),
    ):
        if not all(hasattr(given, need) for need in needs):
            raise InputError(
                f"from_openmm: {name}={given!r} must be an object of OpenMM, for example\n"
                "    pdb = openmm.app.PDBFile('molecule.pdb')\n"
                "    field = openmm.app.ForceField('amber14-all.xml')\n"
                "    system = field.createSystem(pdb.topology)\n"
                "    pp.molecules.from_openmm(pdb.topology, system, pdb.positions)"
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
