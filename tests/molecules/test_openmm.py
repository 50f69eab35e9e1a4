"""Alanine dipeptide with OpenMM's force field: torsions, slopes, energy, samples."""

import io

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp

openmm = pytest.importorskip("openmm", reason="needs OpenMM")
app = pytest.importorskip("openmm.app")
mo = pp.molecules

ATOMS = """\
HH31 ACE 1 2.000 1.000 -0.000
CH3 ACE 1 2.000 2.090 0.000
HH32 ACE 1 1.486 2.454 0.890
HH33 ACE 1 1.486 2.454 -0.890
C ACE 1 3.427 2.641 -0.000
O ACE 1 4.391 1.877 -0.000
N ALA 2 3.555 3.970 -0.000
H ALA 2 2.733 4.556 -0.000
CA ALA 2 4.853 4.614 -0.000
HA ALA 2 5.408 4.316 0.890
CB ALA 2 5.661 4.221 -1.232
HB1 ALA 2 5.123 4.521 -2.131
HB2 ALA 2 6.630 4.719 -1.206
HB3 ALA 2 5.809 3.141 -1.241
C ALA 2 4.713 6.129 0.000
O ALA 2 3.601 6.653 0.000
N NME 3 5.846 6.835 0.000
H NME 3 6.737 6.359 -0.000
CH3 NME 3 5.846 8.284 0.000
HH31 NME 3 4.819 8.648 0.000
HH32 NME 3 6.360 8.648 0.890
HH33 NME 3 6.360 8.648 -0.890
"""


@pytest.fixture(scope="module")
def parts():
    lines = []
    for i, line in enumerate(ATOMS.splitlines(), 1):
        name, residue, number, *x = line.split()
        place = "".join(f"{float(c):8.3f}" for c in x)
        lines.append(f"ATOM  {i:5d} {name:>4} {residue} A{number:>4}    {place}")
    file = app.PDBFile(io.StringIO("\n".join([*lines, "END"])))
    field = app.ForceField("amber14/protein.ff14SB.xml")
    return file.topology, field.createSystem(file.topology), file.positions


@pytest.fixture(scope="module")
def alanine(parts):
    return mo.from_openmm(*parts)


def test_its_torsions_are_those_of_a_dipeptide(alanine, parts):
    """φ, ψ and three methyls; peptide bonds do not turn."""
    assert set(alanine.torsions) == {
        "ACE1.CH3–ACE1.C", "ALA2.N–ALA2.CA", "ALA2.CA–ALA2.CB", "ALA2.CA–ALA2.C", "NME3.N–NME3.C",
    }  # fmt: skip
    x = np.array(parts[2].value_in_unit(openmm.unit.nanometer))
    assert_allclose(alanine.positions(alanine.home), x, atol=1e-12)
    by_hand = mo.from_openmm(*parts, rigid=[(8, 10)])
    assert "ALA2.CA–ALA2.CB" not in by_hand.torsions


def test_efforts_are_the_slope_of_its_energy(alanine):
    model, rng = alanine.model, np.random.default_rng(0)
    q = alanine.home
    q[7:] = rng.uniform(-0.3, 0.3, model.nq - 7)
    _, F = alanine.potential(alanine.positions(q[None]))
    still = np.zeros(model.nv)
    effort = -pp.inverse_dynamics(model, q, still, still, alanine.body_forces(q, F[0]))
    d = rng.standard_normal(model.nv)
    U, _ = alanine.potential(
        alanine.positions(np.array([model.integrate(q, s * 1e-5 * d) for s in (1, -1)]))
    )
    assert_allclose(effort @ d, -(U[0] - U[1]) / 2e-5, rtol=1e-6)


@pytest.mark.usefixtures("machine_code")
def test_it_keeps_its_energy(alanine):
    """Fluctuation ∝ dt², no trend."""
    start = mo.sample(alanine, 1, dt=0.002, steps=5, seed=1, warm_up=2).q[-1, 0]
    v = mo.sample_velocities(alanine, start, 300.0, seed=0)
    runs = [mo.run(alanine, start, v, dt, round(0.3 / dt)) for dt in (0.004, 0.002)]
    spans = [np.ptp(x.energy) for x in runs]
    assert 3 < spans[0] / spans[1] < 5
    assert spans[1] < 0.01 * np.ptp(runs[1].kinetic)
    trend = np.polyfit(runs[1].t, runs[1].energy, 1)[0]
    assert abs(trend) * runs[1].t[-1] < spans[1]


def test_wrapped_molecules_are_rejected(parts):
    topology, _, positions = parts
    boxed = openmm.System()
    for _ in range(22):
        boxed.addParticle(12.0)
    boxed.setDefaultPeriodicBoxVectors((1, 0, 0), (0, 1, 0), (0, 0, 1))
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(0.4)
    for _ in range(22):
        force.addParticle(0, 0.1, 0)
    boxed.addForce(force)
    x = np.array(positions.value_in_unit(openmm.unit.nanometer))
    with pytest.raises(pp.errors.InputError, match="half the periodic box"):
        mo.from_openmm(topology, boxed, (x + 0.6) % 1.0)
    assert len(mo.from_openmm(topology, boxed, x).torsions) == 5


def test_bad_input(parts):
    topology, system, positions = parts
    for given in ((None, system), (topology, "amber")):
        with pytest.raises(pp.errors.InputError, match=r"must be an object of OpenMM.*\n.*PDBFile"):
            mo.from_openmm(*given, positions)
    other = openmm.System()
    other.addParticle(12.0)
    with pytest.raises(pp.errors.InputError, match="22 atoms and the system 1 particles"):
        mo.from_openmm(topology, other, positions)
    with pytest.raises(pp.errors.InputError, match="is not available in OpenMM"):
        mo.OpenMMPotential(system, platform="Abacus")
    other.addParticle(12.0)
    other.addParticle(0.0)
    other.setVirtualSite(2, openmm.TwoParticleAverageSite(0, 1, 0.5, 0.5))
    with pytest.raises(pp.errors.InputError, match="virtual site"):
        mo.OpenMMPotential(other)
