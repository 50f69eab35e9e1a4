"""Molecules in torsion angles: rigid clusters on revolute bonds, sampled and run by O(N) sweeps.

Units of the field: nm, ps, amu, kJ/mol, K. They are a consistent set (1 kJ/mol = 1 amu·nm²/ps²), so
every function of the library takes a molecule's model as it takes a robot's.

>>> import numpy as np, phipsi as pp
>>> beads = [(0, 0, 0), (0.15, 0, 0), (0.2, 0.14, 0), (0.35, 0.14, 0)]
>>> chain = pp.molecules.Molecule([15.0, 14.0, 14.0, 15.0], beads, [(0, 1), (1, 2), (2, 3)])
>>> chain
<Molecule: 4 atoms, 2 clusters, 1 torsion, nv = 7>
"""

from phipsi.molecules.molecule import Molecule
from phipsi.molecules.openmm_molecules import OpenMMPotential, from_openmm
from phipsi.molecules.sampling import (
    BOLTZMANN,
    ConstantEnergyRun,
    Samples,
    autocorrelation_time,
    fixman_effort,
    fixman_potential,
    run,
    sample,
    sample_velocities,
)
from phipsi.package_state import only_hints, only_public

__all__ = [
    "BOLTZMANN", "ConstantEnergyRun", "Molecule", "OpenMMPotential", "Samples",
    "autocorrelation_time", "fixman_effort", "fixman_potential", "from_openmm", "run", "sample",
    "sample_velocities",
]  # fmt: skip
__getattr__, __dir__ = only_hints(__name__), only_public(__name__)
