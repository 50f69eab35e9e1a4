"""Molecules: clusters and torsions, forces, Fixman's potential, samples against known densities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi.molecules import Molecule
from phipsi.molecules.bond_graph import ring_bonds
from phipsi.operators import D_half, H, I, K, psi

mo = pp.molecules


def zigzag(angle: float, bond: float = 0.153) -> np.ndarray:
    """Four beads in trans, with bond angles in degrees."""
    bend = np.radians(180 - angle)
    out = bond * np.array([np.cos(bend), np.sin(bend), 0])
    x = [np.zeros(3), np.array([bond, 0, 0])]
    x.append(x[1] + out)
    x.append(x[2] + [bond, 0, 0])
    return np.array(x)


BONDS = [(0, 1), (1, 2), (2, 3)]


@pytest.fixture(scope="module")
def butane():
    return Molecule([15.035, 14.027, 14.027, 15.035], zigzag(112), BONDS)


def turned(molecule, angles):
    """Configurations with these dihedrals of the four beads."""
    q = np.tile(molecule.home, (len(angles), 1))
    q[:, -1] = np.asarray(angles) - molecule.dihedral(molecule.home, (0, 1, 2, 3))
    return q


def test_the_determinant_of_four_beads_is_the_one_in_the_literature():
    chain = Molecule([2.0] * 4, zigzag(90), BONDS)
    dihedral = np.linspace(-np.pi, np.pi, 13)
    q = turned(chain, dihedral)
    assert_allclose(np.cos(chain.dihedral(q, (0, 1, 2, 3))), np.cos(dihedral), atol=1e-12)
    c = np.cos(np.pi - dihedral)
    ratio = np.exp(pp.diagonal_dynamics.log_det_mass_matrix(chain.model, q)) / (
        35 + 4 * c - 16 * c**2 + c**4
    )
    assert_allclose(ratio, ratio[0], rtol=1e-12)
    wrong = np.exp(pp.diagonal_dynamics.log_det_mass_matrix(chain.model, q)) / (
        35 + 4.00001 * c - 16 * c**2 + c**4
    )
    assert np.ptp(wrong) > 1e-8 * wrong[0]


def test_the_density_of_butane_without_fixman(butane):
    """Extremes relative to uniform, and the span of the potential, from the literature's values."""
    angles = np.linspace(-np.pi, np.pi, 3601)
    density = np.exp(
        0.5 * pp.diagonal_dynamics.log_det_mass_matrix(butane.model, turned(butane, angles))
    )
    density /= density[:-1].mean()
    assert_allclose(density[0], 0.895735, atol=1e-6)
    assert_allclose(density[1200], 1.062669, atol=1e-6)
    span = np.ptp(mo.fixman_potential(butane, turned(butane, angles), 300.0))
    assert_allclose(span / (mo.BOLTZMANN * 300), 0.38881, atol=1e-5)


def branched(n: int, seed: int) -> Molecule:
    """A random branched tree of atoms, all of whose inner bonds turn."""
    rng = np.random.default_rng(seed)
    x, bonds = [np.zeros(3)], []
    for i in range(1, n):
        parent = int(rng.integers(max(0, i - 4), i))
        step = rng.standard_normal(3)
        x.append(x[parent] + 0.15 * step / np.linalg.norm(step))
        bonds.append((parent, i))
    return Molecule(rng.uniform(1, 16, n), x, bonds)


@pytest.mark.parametrize("seed", range(3))
def test_fixman_efforts_are_the_slope_by_complex_steps(seed):
    molecule = branched(9, seed)
    model = molecule.model
    q = model.random_configuration(np.random.default_rng(seed))
    program = pp.compile(
        "logdet(mass_matrix)", model, backend="reference"
    )  # complex numbers are never conjugated there
    found = mo.fixman_effort(molecule, q, 250.0)
    for i in range(model.nv - 6):
        moved = q.astype(complex)
        moved[7 + i] += 1e-30j
        slope = np.imag(program(moved)) / 1e-30
        assert_allclose(found[6 + i], -0.5 * mo.BOLTZMANN * 250.0 * slope, rtol=1e-11, atol=1e-11)
    assert_allclose(found[:6], 0, atol=1e-11)  # turning it as a whole changes nothing


@pytest.mark.parametrize("seed", range(3))
def test_drawn_rates_have_the_covariance_of_the_ensemble(seed):
    molecule = branched(8, seed)
    q = molecule.model.random_configuration(np.random.default_rng(seed))
    draw = (I - H @ psi @ K).T @ D_half.T.inv
    L = pp.compile(draw, molecule.model, mode="dense")(q)
    inverse = pp.mass_matrix_inverse(molecule.model, q)
    assert_allclose(L @ L.T, inverse, rtol=0, atol=1e-11 * np.abs(inverse).max())
    v = mo.sample_velocities(molecule, q, 300.0, seed=4)
    normal = np.random.default_rng(4).standard_normal(molecule.model.nv)
    assert_allclose(v, np.sqrt(mo.BOLTZMANN * 300.0) * L @ normal, rtol=1e-10, atol=1e-12)


def attraction(x):
    """Σ over pairs of 40 (r − 0.3)²: energies and forces."""
    arm = x[:, :, None] - x[:, None]
    r = np.linalg.norm(arm, axis=-1) + np.eye(x.shape[1])
    pull = 80 * (r - 0.3) * (1 - np.eye(x.shape[1]))
    energy = 0.5 * np.sum(40 * (r - 0.3) ** 2 * (1 - np.eye(x.shape[1])), axis=(1, 2))
    return energy, -np.sum((pull / r)[..., None] * arm, axis=2)


@pytest.mark.parametrize("seed", range(3))
def test_forces_on_clusters_are_the_slope_of_the_potential(seed):
    molecule = branched(9, seed)
    model, rng = molecule.model, np.random.default_rng(seed)
    q = model.random_configuration(rng)
    _, F = attraction(molecule.positions(q[None]))
    still = np.zeros(model.nv)
    effort = -pp.inverse_dynamics(model, q, still, still, molecule.body_forces(q, F[0]))
    d = rng.standard_normal(model.nv)
    ends = [model.integrate(q, s * 1e-5 * d) for s in (1, -1)]
    U, _ = attraction(molecule.positions(np.array(ends)))
    size = np.linalg.norm(effort) * np.linalg.norm(d)
    assert_allclose(effort @ d, -(U[0] - U[1]) / 2e-5, atol=1e-8 * size)


@pytest.mark.parametrize("seed", range(4))
def test_positions_and_configurations_are_inverse(seed):
    molecule = branched(10, seed)
    q = molecule.model.random_configuration(np.random.default_rng(seed + 10))
    x = molecule.positions(q)
    again = molecule.configuration(x)
    assert_allclose(molecule.positions(again), x, atol=1e-12)
    bent = x.copy()
    bent[molecule.bonds[0][0]] += 0.01
    with pytest.raises(pp.errors.InputError, match="do not fit the rigid clusters"):
        molecule.configuration(bent)


# ---- which bonds turn ---------------------------------------------------------------------------


def names_of(molecule):
    return sorted(molecule.torsions.values())


def test_ends_and_lines_do_not_turn():
    """Propyne CH3–C≡C–H: the only candidate turns atoms on its own axis."""
    x = [(0, 0, 0), (0.146, 0, 0), (0.267, 0, 0), (0.373, 0, 0),
         (-0.04, 0.1, 0), (-0.04, -0.05, 0.09), (-0.04, -0.05, -0.09)]  # fmt: skip
    bonds = [(0, 1), (1, 2), (2, 3), (0, 4), (0, 5), (0, 6)]
    assert Molecule([12, 12, 12, 1, 1, 1, 1], x, bonds).model.nv == 6


def test_a_triple_bond_between_two_groups_turns_once():
    """Butyne: two methyls on one axis have one torsion between them, not three."""
    x = [(0, 0, 0), (0.146, 0, 0), (0.267, 0, 0), (0.413, 0, 0),
         (-0.04, 0.1, 0), (-0.04, -0.05, 0.09), (0.45, 0.1, 0), (0.45, -0.05, 0.09)]  # fmt: skip
    bonds = [(0, 1), (1, 2), (2, 3), (0, 4), (0, 5), (3, 6), (3, 7)]
    molecule = Molecule([12] * 4 + [1] * 4, x, bonds)
    assert len(molecule.torsions) == 1 and molecule.model.nv == 7
    assert np.isfinite(pp.diagonal_dynamics.log_det_mass_matrix(molecule.model, molecule.home))


def test_an_atom_between_two_bonds_keeps_both_torsions():
    """The oxygen of an ether is alone on both axes, and both turn something."""
    x = [*zigzag(110), zigzag(110)[3] + [0.05, 0.14, 0]]
    molecule = Molecule([15, 14, 16, 14, 15], x, [(0, 1), (1, 2), (2, 3), (3, 4)])
    assert names_of(molecule) == [(1, 2), (2, 3)]
    assert np.isfinite(pp.diagonal_dynamics.log_det_mass_matrix(molecule.model, molecule.home))


def test_a_root_has_inertia_about_every_axis():
    """Four atoms on a line and a methyl: the line turns with the methyl, not about itself."""
    x = [(0, 0, 0), (0.15, 0, 0), (0.3, 0, 0), (0.45, 0, 0), (0.5, 0.1, 0), (0.5, -0.05, 0.08)]
    bonds = [(0, 1), (1, 2), (2, 3), (3, 4), (3, 5)]
    molecule = Molecule([12, 12, 12, 12, 1, 1], x, bonds, rigid=[(1, 2)])
    assert molecule.model.nv == 6
    assert np.isfinite(mo.sample_velocities(molecule, molecule.home, 300.0, seed=0)).all()


def test_a_wall_rejects_and_positions_in_angstrom_are_noticed():
    def walled(x):
        """Free to the right of x = −1 nm."""
        return np.where(x[:, :, 0].min(axis=1) > -0.05, 0.0, np.inf), np.zeros_like(x)

    molecule = Molecule([15.0] * 4, zigzag(112), BONDS, potential=walled)
    found = mo.sample(molecule, 6, replicas=16, dt=0.02, steps=10, seed=0)
    assert 0 < found.accepted.mean() < 1
    assert found.positions()[..., 0].min() > -0.05
    with pytest.raises(pp.errors.SimulationError, match="atoms coincide"):
        v = np.zeros(7)
        v[3] = -10.0
        mo.run(molecule, molecule.home, v, 0.02, 10)
    with pytest.warns(UserWarning, match="divide by 10"):
        Molecule([15.0] * 4, 10 * zigzag(112), BONDS)


def test_rings_are_rigid_and_named_bonds_too():
    x = [(np.cos(a), np.sin(a), 0) for a in np.arange(5) * 2 * np.pi / 5]
    x = [*(0.12 * np.array(x)), (0.27, 0, 0), (0.32, 0.14, 0)]
    ring = [(i, (i + 1) % 5) for i in range(5)]
    bonds = [*ring, (0, 5), (5, 6)]
    assert names_of(Molecule([12] * 7, x, bonds)) == [(0, 5)]
    assert names_of(Molecule([12] * 7, x, bonds, rigid=[(5, 0)])) == []
    near = [{j for b in bonds for j in b if i in b and j != i} for i in range(7)]
    assert ring_bonds(near) == sorted((min(b), max(b)) for b in ring)


def test_several_molecules_and_single_atoms():
    water = np.array([(0, 0, 0), (0.0957, 0, 0), (-0.024, 0.0927, 0)])
    x = [*water, *(water + [0.3, 0.3, 0]), (1, 1, 1)]
    molecule = Molecule([16, 1, 1, 16, 1, 1, 23], x, [(0, 1), (0, 2), (3, 4), (3, 5)])
    assert molecule.model.nv == 15
    assert_allclose(molecule.positions(molecule.home), x, atol=1e-15)
    assert_allclose(molecule.configuration(x), molecule.home, atol=1e-12)


def cyclohexane():
    """United atoms in the chair form: bonds 0.153 nm, tetrahedral angles."""
    c = np.arccos(-1 / 3)
    radius = 0.153 * np.sin(c / 2) * 2 / np.sqrt(3)
    flat = [(radius * np.cos(a), radius * np.sin(a)) for a in np.arange(6) * np.pi / 3]
    side = np.linalg.norm(np.subtract(flat[0], flat[1]))
    height = np.sqrt(0.153**2 - side**2) / 2
    return np.array([(*xy, height * (-1) ** i) for i, xy in enumerate(flat)])


def test_a_ring_as_a_loop_stays_closed():
    x = np.vstack([cyclohexane(), cyclohexane()[0] + [0.15, 0, 0.02]])
    bonds = [*((i, (i + 1) % 6) for i in range(6)), (0, 6)]
    molecule = Molecule([14] * 6 + [15], x, bonds, rings="loops", potential=attraction)
    system = molecule.model
    assert isinstance(system, pp.System) and len(system.constraints) == 3  # beads: by distances
    assert_allclose(system.residual(molecule.home), 0, atol=1e-12)
    with pytest.raises(pp.errors.InputError, match="without loops"):
        mo.sample(molecule, 1)
    q, v = system.project(molecule.home, 3 * np.ones(system.nv))
    moved = mo.run(molecule, q, v, 0.002, 25)
    assert np.abs(system.residual(moved.q)).max() < 1e-9
    x = molecule.positions(moved.q)
    bond = np.linalg.norm(x[:, 5] - x[:, 0], axis=1)
    assert_allclose(bond, bond[0], atol=1e-9)
    assert np.ptp(moved.energy) < 1e-6 * moved.kinetic[0]


def crown(n):
    """A ring of beads, up and down."""
    out = 0.9 * 0.153 / (2 * np.sin(np.pi / n))
    return np.array([(out * np.cos(a), out * np.sin(a), 0.03 * (-1) ** i)
                     for i, a in enumerate(2 * np.pi * np.arange(n) / n)])  # fmt: skip


@pytest.mark.parametrize(("beads", "bonded", "free"), [(8, 0, 2), (7, 4, 1), (4, 0, 0)])
def test_rings_of_beads_turn_as_rings_of_atoms_do(beads, bonded, free):
    """A ring of n bonds with angles that stay has n − 6 ways to move, whatever hangs on it."""
    x = crown(beads)
    more = x[:bonded] * [1.8, 1.8, 1.2]
    bonds = [(i, (i + 1) % beads) for i in range(beads)]
    bonds += [(i, beads + i) for i in range(bonded)]
    both = [14.0] * beads + [1.0] * bonded, np.vstack([x, more]), bonds
    molecule = Molecule(*both, rings="loops", potential=attraction)
    system = molecule.model
    assert isinstance(system, pp.System)
    assert_allclose(system.residual(molecule.home), 0, atol=1e-12)
    assert system.mobility(molecule.home).mobility == 6 + free
    assert Molecule(*both).model.nv == 6  # the twin: a rigid ring
    if not free:
        return
    near = [[j for bond in bonds if i in bond for j in bond if j != i] for i in range(len(both[0]))]
    kept = [*bonds, *((a, b) for of in near for a in of for b in of if a < b)]

    def lengths(q):
        place = molecule.positions(q)
        return np.array([np.linalg.norm(place[..., i, :] - place[..., j, :], axis=-1)
                         for i, j in kept])  # fmt: skip

    q, v = system.project(molecule.home, np.linspace(1, 3, system.nv))
    moved = mo.run(molecule, q, v, 0.002, 10)
    assert abs(lengths(moved.q) - lengths(molecule.home)[:, None]).max() < 1e-9
    apart = np.linalg.norm(
        molecule.positions(moved.q)[:, 0] - molecule.positions(moved.q)[:, 3], axis=1
    )
    assert np.ptp(apart) > 1e-4  # it does move


# ---- steps and samples ----------------------------------------------------------------------


def test_steps_go_back_the_way_they_came():
    molecule = branched(7, 1)
    molecule.potential = attraction
    q = molecule.model.random_configuration(np.random.default_rng(3))
    v = mo.sample_velocities(molecule, q, 300.0, seed=0)
    there = mo.run(molecule, q, v, 0.004, 30, fixman=300.0)
    back = mo.run(molecule, there.q[-1], -there.v[-1], 0.004, 30, fixman=300.0)
    assert_allclose(molecule.positions(back.q[-1]), molecule.positions(q), atol=1e-9)
    assert_allclose(back.v[-1], -v, atol=1e-6 * np.abs(v).max())
    assert np.abs(molecule.positions(there.q[-1]) - molecule.positions(q)).max() > 0.01


def test_steps_keep_volume_in_phase_space(butane):
    """det ∂(q, p)⁺/∂(q, p) = 1, by differences in exponential coordinates about each end."""
    molecule = Molecule(butane.masses, zigzag(112), BONDS, potential=attraction)
    model, nv = molecule.model, molecule.model.nv
    q = model.random_configuration(np.random.default_rng(0))
    v = mo.sample_velocities(molecule, q, 300.0, seed=1)

    def moved(x):
        at = model.integrate(q, x[:nv])
        p = pp.mass_matrix(model, q) @ v + x[nv:]
        # momenta are those of the exponential coordinates to first order about x = 0
        rates = np.linalg.solve(pp.mass_matrix(model, at), p)
        end = mo.run(molecule, at, rates, 0.01, 1)
        return end.q[-1], pp.mass_matrix(model, end.q[-1]) @ end.v[-1]

    q1, _ = moved(np.zeros(2 * nv))
    J = np.zeros((2 * nv, 2 * nv))
    for i in range(2 * nv):
        h = 1e-5 * np.eye(2 * nv)[i]
        (qa, pa), (qb, pb) = moved(h), moved(-h)
        J[:nv, i] = (model.difference(q1, qa) - model.difference(q1, qb)) / 2e-5
        J[nv:, i] = (pa - pb) / 2e-5
    assert_allclose(np.linalg.det(J), 1.0, rtol=1e-6)


def test_energy_fluctuates_with_the_square_of_the_step():
    molecule = branched(8, 2)
    molecule.potential = attraction
    v = mo.sample_velocities(molecule, molecule.home, 300.0, seed=0)
    spans = []
    for dt in (0.008, 0.004):
        found = mo.run(molecule, molecule.home, v, dt, round(0.4 / dt))
        spans.append(np.ptp(found.energy))
    assert 3.2 < spans[0] / spans[1] < 4.8
    assert spans[1] < 0.01 * np.ptp(found.kinetic)


@pytest.mark.usefixtures("machine_code")
def test_samples_that_stay_where_they_are_are_noticed(butane):
    with pytest.warns(pp.errors.PhipsiWarning, match=r"0.00% .* shorter steps:  dt=15"):
        mo.sample(butane, 2, temperature=300.0, replicas=4, dt=50.0, seed=0)


@pytest.mark.usefixtures("machine_code")
def test_samples_have_the_density_of_each_model(butane):
    """χ² against √det ℳ and against a uniform density: one fits, the other does not."""
    from scipy.stats import chisquare

    middles = (np.arange(400) + 0.5) * np.pi / 400
    rigid = np.exp(
        0.5 * pp.diagonal_dynamics.log_det_mass_matrix(butane.model, turned(butane, middles))
    )
    rigid = rigid.reshape(8, 50).sum(axis=1) / rigid.sum()
    start = turned(butane, np.random.default_rng(0).uniform(-np.pi, np.pi, 1600))
    for fixman in (False, True):
        found = mo.sample(
            butane, 8, replicas=1600, dt=0.05, steps=5, fixman=fixman, seed=2, warm_up=3, q=start
        )
        angles = found.dihedral((0, 1, 2, 3))
        assert mo.autocorrelation_time(np.cos(angles)) < 2.5
        counts, _ = np.histogram(np.abs(angles[::2]), bins=8, range=(0, np.pi))
        even = chisquare(counts).pvalue
        bent = chisquare(counts, rigid * counts.sum()).pvalue
        right, wrong = (even, bent) if fixman else (bent, even)
        assert right > 1e-3 and wrong < 1e-6


def torsional(x):
    """U = 6 cos φ of four beads, with its forces in closed form."""

    def dot(u, w):
        return np.sum(u * w, axis=-1, keepdims=True)

    a, b, c, d = np.moveaxis(x, 1, 0)
    p, axis, s = b - a, c - b, d - c
    m, k = np.cross(p, axis), np.cross(axis, s)
    length = np.linalg.norm(axis, axis=-1, keepdims=True)
    phi = np.arctan2(length * dot(p, k), dot(m, k))
    pull = 6 * np.sin(phi)
    fa, fd = -pull * length / dot(m, m) * m, pull * length / dot(k, k) * k
    fb = -(1 + dot(p, axis) / length**2) * fa + dot(s, axis) / length**2 * fd
    return 6 * np.cos(phi[:, 0]), np.stack([fa, fb, -(fa + fb + fd), fd], axis=1)


def test_samples_stay_distributed_as_boltzmann_says():
    """From exact samples, with steps so long that energies change: rejections make up for it."""
    molecule = Molecule([15.0, 14.0, 14.0, 15.0], zigzag(112), BONDS, potential=torsional)
    q = turned(molecule, [0.7])[0]
    _, F = torsional(molecule.positions(q[None]))
    still = np.zeros(7)
    effort = -pp.inverse_dynamics(molecule.model, q, still, still, molecule.body_forces(q, F[0]))
    assert_allclose(effort, [0] * 6 + [6 * np.sin(0.7)], rtol=1e-9, atol=1e-9)
    phi = np.linspace(-np.pi, np.pi, 4001)
    weight = np.exp(-6 * np.cos(phi) / (mo.BOLTZMANN * 300))
    shares = np.cumsum(weight) / weight.sum()
    start = np.interp((np.arange(2048) + 0.5) / 2048, shares, phi)
    found = mo.sample(
        molecule, 3, replicas=2048, dt=0.12, steps=3, seed=3, q=turned(molecule, start)
    )
    assert 0.5 < found.accepted.mean() < 0.97
    mean = weight @ np.cos(phi) / weight.sum()
    spread = np.sqrt(weight @ np.cos(phi) ** 2 / weight.sum() - mean**2)
    cosine = np.cos(found.dihedral((0, 1, 2, 3)))
    moved = np.abs(cosine[-1] - np.cos(start)).mean()
    assert moved > 0.1
    assert_allclose(cosine.mean(axis=1), mean, atol=4 * spread / np.sqrt(2048))
    unweighted = found.q[:, found.accepted == 1]  # those that were never rejected
    assert abs(np.cos(molecule.dihedral(unweighted, (0, 1, 2, 3))).mean() - mean) > 0.01


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Molecule([1, 1], [(0, 0, 0)], []), "must be"),
        (lambda: Molecule([0.0], [(0, 0, 0)], []), "above 0"),
        (lambda: Molecule([1, 1], [(0, 0, 0), (1, 0, 0)], [(0, 2)]), "numbered from 0 to 1"),
        (lambda: Molecule([1, 1], [(0, 0, 0), (0.1, 0, 0)], [(0, 1)]), "is linear"),
        (lambda: Molecule([1] * 4, np.zeros((4, 3)), BONDS), "same place"),
        (lambda: Molecule(["C"] * 4, zigzag(100), BONDS), "must be numbers"),
        (lambda: Molecule([1] * 4, zigzag(100), None), "pairs of atoms"),
        (lambda: Molecule([1] * 4, zigzag(100), [(0.9, 1.2)]), "two integers"),
        (lambda: Molecule([1] * 4, zigzag(100), BONDS).dihedral(np.zeros(8), (0, 1, 2)), "four"),
        (lambda: Molecule([1] * 4, zigzag(100), BONDS).body_forces(np.eye(8)[0], [1, 2]), "atoms"),
        (
            lambda: mo.sample_velocities(
                Molecule([1] * 4, zigzag(100), BONDS), np.eye(8)[0], "hot"
            ),
            "K",
        ),
        (lambda: mo.sample(Molecule([1] * 4, zigzag(100), BONDS), 1, seed="a"), "seed"),
        (lambda: mo.autocorrelation_time([]), "two or more"),
        (lambda: Molecule([1] * 4, zigzag(100), BONDS, names="aabc"), "a name of its own"),
        (lambda: Molecule([1] * 4, zigzag(100), BONDS, rigid=[(0, 3)]), "not among the bonds"),
        (lambda: Molecule([1] * 4, zigzag(100), BONDS, rings="soft"), "'rigid', 'loops'"),
        (lambda: mo.sample(Molecule([1] * 4, zigzag(100), BONDS), 1, temperature=-1), "of K"),
        (lambda: mo.sample(Molecule([1] * 4, zigzag(100), BONDS), 1, method="mc"), "hmc"),
        (lambda: mo.sample(Molecule([1] * 4, zigzag(100), BONDS), 1, q=[1, 2]), "must be"),
        (lambda: mo.run(
            Molecule([1] * 4, zigzag(100), BONDS, potential=lambda x: (x, x)),
            Molecule([1] * 4, zigzag(100), BONDS).home, np.zeros(7), 0.01, 1), "must return"),
        (lambda: mo.run(
            Molecule([1] * 4, zigzag(100), BONDS,
                     potential=lambda x: (np.full(len(x), np.nan), 0 * x)),
            Molecule([1] * 4, zigzag(100), BONDS).home, np.zeros(7), 0.01, 1), "not finite"),
    ],
)  # fmt: skip
def test_bad_input(make, text):
    with pytest.raises(pp.errors.PhipsiError, match=text):
        make()
